# cython: language_level=3
"""Sums of integers in 128 bits; see ``_widesums.pyx``."""
from libc.stdint cimport int64_t

from mta._exact cimport int128
from mta._sums cimport RUN, SubtractingKernel


cdef class WideSumKernel(SubtractingKernel):
    cdef bint unsigned
    cdef bint wraps
    cdef bint floats
    cdef int128 total        # of the rows [first, last)
    cdef int128 sums[RUN]

    cdef int64_t lower(self, int64_t start, int64_t n, const int64_t* counts) noexcept nogil
    cdef int64_t first_beyond(self, int64_t start, int64_t n, const int64_t* counts) noexcept nogil
    cdef double mean(self, int64_t i, int64_t count) noexcept nogil
