# cython: language_level=3
"""How far a policy lets the front go; see ``_search.pyx``."""
from libc.stdint cimport int64_t

from mta._held cimport Held


cdef class Search:
    cdef Held window
    cdef object policy
    cdef object total
    cdef int64_t row          # the prefix is [front, row)
    cdef bytearray old        # its partials
    cdef bytearray more       # the same and one node

    cdef int64_t first_kept(self) except -1
    cdef int top(self) noexcept
    cdef bint take(self, int level) except -1
    cdef object answers(self, int64_t to)
    cdef int check_monotone(self) except -1
