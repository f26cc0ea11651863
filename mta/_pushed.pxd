# cython: language_level=3
"""The states of a pushed window; see ``_pushed.pyx``."""
from libc.stdint cimport int64_t, uint8_t

from mta._core cimport Forest
from mta._inside cimport ITEM, InputState, RawColumn
from mta._kernel cimport Counter, Kernel, Lists
from mta._monoids cimport Cell, Output
from mta._user cimport UserKernel
from mta._vector cimport Vector


cdef enum CellKind:
    FLOAT_CELL
    INT_CELL
    UINT_CELL
    BOOL_CELL
    OBJECT_CELL


cdef class StateForest:
    cdef InputState input
    cdef object state
    cdef Forest forest

    cdef int make(self) except -1

    cdef inline const Cell* cells(self) noexcept:
        """The values of its column, by row number."""
        return <const Cell*> self.input.column.values.origin()

    cdef inline const uint8_t* mask(self) noexcept:
        """Beside them, 0 where one does not count; NULL: all do."""
        return <const uint8_t*> self.input.mask.origin() if self.input.mask is not None else NULL


cdef class Room:
    cdef object room       # the array or the lists
    cdef Lists lists       # None: an array
    cdef Cell* cell        # its item
    cdef CellKind kind
    cdef RawColumn by_row  # what the rows are of that the kernel answers with; None: it does not

    cdef object read(self)
    cdef object value_of(self, Cell cell)


cdef class Source:
    cdef RawColumn column
    cdef bint codes
    cdef bint items        # what has no 8-byte form is read as codes
    cdef bint skip_nan

    cdef inline bint reads_codes(self) noexcept:
        return self.codes or (self.items and self.column.type == ITEM)

    cdef inline Vector rows(self):
        return self.column.codes if self.reads_codes() else self.column.values_for(self.skip_nan)

    cdef object array(self)
    cdef object known_items(self)


cdef class KernelState:
    cdef object state
    cdef list outputs
    cdef InputState input
    cdef dict raw          # RawColumn by name
    cdef Kernel kernel
    cdef Counter counter
    cdef UserKernel user   # the kernel, if it is one
    cdef bint moves        # it has to be told of every row
    cdef list sources      # Source, one per column of the kernel
    cdef list rooms        # Room, one per output

    cdef int make(self, marks) except -1
    cdef dict columns(self)
    cdef int slide(self, int64_t front, int64_t to) except -1
    cdef bint has_moved(self) except -1
    cdef int attach(self) except -1


cdef enum Overflow:
    RAISE
    WRAP
    TO_FLOAT


cdef class Answer:
    cdef str name
    cdef InputState input     # None: counts rows
    cdef int state            # index of the forest, or -1
    cdef int kernel           # index of the kernel state, or -1
    cdef int place            # of the answer among those of the kernel
    cdef bint truth           # it is a boolean
    cdef Overflow overflow    # of a sum of integers
    cdef Output what
    cdef int64_t ddof
    cdef int64_t need

    cdef object read(self, list kernels)
    cdef object lower(self, Forest forest, const void* part, int64_t count)
    cdef double lower_float(self, Forest forest, const void* part, int64_t count) noexcept


cdef Answer make_answer(output, dict inputs, list states, list kernels)
