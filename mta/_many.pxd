# cython: language_level=3
"""Many rows pushed at once; see ``_many.pyx``."""
from libc.stdint cimport int64_t, uint8_t

from mta._held cimport Held
from mta._inside cimport InputState, RawColumn
from mta._monoids cimport Cell
from mta._pushed cimport Answer


cdef class Slots:
    cdef Answer answer
    cdef object values
    cdef object valid
    cdef Cell* cells
    cdef uint8_t* there
    cdef bint full       # none is null so far

    cdef int put(self, int64_t place, value) except -1
    cdef object answers(self)


cdef object read_arrays(Held window, row, time, dict columns)
cdef object plain_arrays(Held window, dict arrays, time)
cdef bint is_plain(Held window, list given, int64_t rows) except -1
cdef int insert_arrays(Held window, given, int64_t rows) except -1
cdef int settle_types(Held window, list given) except -1
cdef int take_in(Held window, list given, int64_t start, int64_t stop, ticks) except -1
cdef int lower_answers(Held window, list out, int number, const int64_t* lo, const int64_t* hi, int64_t place,
                       int64_t n, const void* parts, int64_t[::1] counts) except -1
cdef int answer_kernels(Held window, list out, const int64_t* lo, const int64_t* hi, int64_t place,
                        int64_t n) except -1
cdef object push_arrays(Held window, int64_t most, given, int64_t rows)
cdef bint is_array(value) except -1
cdef list make_slots(Held window, int64_t rows)
cdef object as_array(list answers)
cdef object plain_cells(RawColumn column, array)
