# cython: language_level=3
"""The KLL quantiles sketch; see ``_kll.pyx``."""
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef enum:
    MAX_LEVELS = 61
    MIN_WIDTH = 8       # of a level; every published sketch has this one


cdef struct KllState:
    # Level l holds items[levels[l]:levels[l + 1]], each of weight 2^l; free room comes first. All
    # levels but the lowest are sorted.
    uint32_t k
    uint32_t min_k                      # least k of all sketches merged in that had been compacted
    uint64_t n
    uint64_t coin                       # where its sequence of random bits stands
    int64_t least
    int64_t greatest
    int64_t* items
    uint32_t levels[MAX_LEVELS + 1]
    int num_levels
    bint sorted_below                   # whether the lowest level is sorted too


cdef class Kll:
    cdef KllState state
    cdef readonly str source
    cdef int kind

    cdef int64_t key_of(self, int64_t cell) noexcept nogil
    cdef int64_t cell_of(self, int64_t key) noexcept nogil
    cdef int check_same(self, Kll other) except -1
    cdef int check_invariants(self) except -1
