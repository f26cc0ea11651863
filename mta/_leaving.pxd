# cython: language_level=3
"""Kernels that look at a row when it comes and when it leaves; see ``_leaving.pyx``."""
from libc.stdint cimport int64_t

from mta._kernel cimport Kernel, Scan


cdef class Pages:
    cdef int bits
    cdef object load
    cdef object owner       # keeps the rows alive that were read last,
    cdef Scan rows          # addressed by number,
    cdef int64_t first      # [first, end)
    cdef int64_t end
    cdef int64_t tail       # the first row that is attached

    cdef int read(self, int64_t row) except -1
    cdef void drop(self) noexcept
    cdef const Scan* at(self, int64_t row, int64_t* end) except NULL nogil


cdef class LeavingKernel(Kernel):
    cdef Pages pages
    cdef int64_t first
    cdef int64_t last
    cdef void* sum      # so many bytes, which hold no pointer
    cdef size_t size

    cdef int move(self, int64_t lo, int64_t hi) except -1 nogil
    cdef int clear(self) except -1 nogil
    cdef int add(self, const Scan* rows, int64_t start, int64_t stop, int64_t sign) except -1 nogil
