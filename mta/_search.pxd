# cython: language_level=3
"""How far a policy lets the front go; see ``_search.pyx``."""
from libc.stdint cimport int64_t

from mta._held cimport Held


cdef class Search:
    cdef object policy
    cdef object total
    cdef int64_t base         # row of position 0
    cdef int64_t front, back  # of the window
    cdef int64_t row          # the prefix is [front, row)
    cdef int longest          # level of the longest node that may be asked for next, and
    cdef int growth           # by how much it grows with every one taken

    cdef int64_t first_kept(self) except -1
    cdef int top(self) noexcept
    cdef bint take(self, int level) except -1
    cdef object longer(self, int level)
    cdef int accept(self) except -1
    cdef int check_monotone(self) except -1


cdef class WindowSearch(Search):
    cdef Held window
    cdef bytearray old        # the prefix: its partials
    cdef bytearray more       # the same and one node

    cdef object answers(self, int64_t to)
