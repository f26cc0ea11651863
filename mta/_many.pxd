# cython: language_level=3
"""Many rows pushed at once; see ``_many.pyx``."""
from libc.stdint cimport int64_t

from mta._held cimport Held
from mta._inside cimport RawColumn


cdef object read_arrays(Held window, row, time, dict columns)
cdef object plain_arrays(Held window, dict arrays, time)
cdef bint is_plain(Held window, list given, int64_t rows) except -1
cdef int insert_arrays(Held window, given, int64_t rows) except -1
cdef object push_arrays(Held window, int64_t most, given, int64_t rows)
cdef bint is_array(value) except -1
cdef object as_array(list answers)
cdef object plain_cells(RawColumn column, array)
