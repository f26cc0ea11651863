# cython: language_level=3
"""The KLL quantiles sketch; see ``_kll.pyx``."""
from libc.stdint cimport int64_t

from mta._kll_levels cimport KllState


cdef class Kll:
    cdef KllState state
    cdef readonly str source
    cdef int kind

    cdef int64_t key_of(self, int64_t cell) noexcept nogil
    cdef int64_t cell_of(self, int64_t key) noexcept nogil
    cdef int check_same(self, Kll other) except -1
    cdef int check_invariants(self) except -1
