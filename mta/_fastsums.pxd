# cython: language_level=3
"""Plain sums as a suffix and a running sum; see ``_fastsums.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport Lowering
from mta._kernel cimport Kernel
from mta._sums cimport ROWS, RUN

cdef extern from "_fastsums.h":
    double plain_prefixes "mta_plain_prefixes"(const double* x, int64_t n, double total, double* out) nogil
    void plain_suffixes "mta_plain_suffixes"(const double* x, int64_t n, double total, double* out) nogil


cdef class FastSumKernel(Kernel):
    cdef Lowering lowering
    cdef double* suffix         # from every row in [origin, end) up to the split; 3 items before the first
    cdef int64_t capacity
    cdef int64_t origin
    cdef int64_t end
    cdef int64_t split
    cdef const double* newer    # values by the numbers of their rows, for running sums
    cdef double total           # of the blocks from the split up to row `at`
    cdef int64_t at
    cdef double prefix[2 * ROWS + 8]
    cdef double sums[RUN]

    cdef int build_suffixes(self, int64_t origin) except -1 nogil
    cdef int reserve(self, int64_t rows) except -1 nogil
    cdef double* room_for(self, int64_t window) noexcept nogil
    cdef int64_t add_up(self, const int64_t* lo, const int64_t* hi, int64_t n, double* out) noexcept nogil
    cdef int64_t run_length(self, const int64_t* lo, const int64_t* hi, int64_t n) noexcept nogil
    cdef void lower(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi,
                    const int64_t* counts, const double* sums) noexcept nogil
