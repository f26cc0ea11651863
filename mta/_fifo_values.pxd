# cython: language_level=3
"""What every window of ``mta.fifo`` is; see ``_fifo_values.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport Forest
from mta._fifo_ops cimport FifoOps
from mta._fifo_state cimport FifoState
from mta._inside cimport InputState, RawColumn
from mta._kernel cimport MAX_COLUMNS
from mta._monoids cimport Cell, CellFunctions
from mta._pushed cimport Answer
from mta._rings cimport Ring


cdef class FifoValues:
    cdef FifoState state
    cdef FifoOps* ops          # NULL: the type of the values is not known yet
    cdef readonly object agg
    cdef readonly bint keep_values
    cdef str algorithm
    cdef object user           # UserMonoid, or None. Its functions are called through Python,
    cdef object cells          # or by their addresses, which are those of this CellProgram
    cdef CellFunctions functions
    cdef object kinds          # the types of its columns; None: not known; (): any
    cdef bint told             # by `type`
    cdef bint checked          # it has seen a row
    cdef object zero
    cdef object plan_state     # None: values are counted
    cdef Forest monoid         # how values are lifted and partials lowered
    cdef Answer answer
    cdef RawColumn column      # reads values; None: any row counts
    cdef InputState input
    cdef Ring nulls            # positions of the nulls inside
    cdef int64_t first_null, last_null
    cdef list ruled            # ready-made policies that it was asked by, and what asks them
    cdef bint busy             # a call is under way
    cdef Py_ssize_t swept

    cdef int check_monoid(self, state) except -1
    cdef int settle(self) except -1
    cdef tuple find_monoid(self)
    cdef int take_type(self, int kind) except -1
    cdef int insert_number(self, value) except -1
    cdef int insert_cell(self, Cell raw, bint valid) except -1
    cdef int note_null(self, int64_t position) except -1 nogil
    cdef int insert_row(self, value) except -1
    cdef object row_of(self, value)
    cdef int check_row(self, tuple row) except -1
    cdef int know_kinds(self, tuple kinds) except -1
    cdef int through_python(self) except -1
    cdef bint read_cells(self, tuple row, Cell* cells) except -1
    cdef int to_python(self) except -1
    cdef object lifted(self, tuple row)
    cdef int evict_to(self, int64_t front) except -1
    cdef int64_t null_from(self, int64_t position) except -1 nogil
    cdef int64_t count_to(self, int64_t to) except -1 nogil
    cdef object lower(self, const void* part, int64_t count)
    cdef object lower_cells(self, const void* part)
    cdef int sweep(self) except -1

    cdef inline int check_idle(self) except -1:
        if self.busy:
            self.refuse()
        return 0

    cdef int refuse(self) except -1
