# cython: language_level=3
"""How far a policy lets the front go; see ``_search.pyx``."""
from libc.stdint cimport int64_t

from mta._held cimport Held


cdef enum:
    UNDECIDED = -2    # compiled code can't tell, but Python can


cdef class Decider:
    cdef int64_t base         # row of position 0
    cdef int64_t front, back  # of the window

    cdef int64_t decide(self, int64_t base, int64_t front, int64_t back) except -1 nogil
    cdef int64_t first_kept(self) except -1 nogil


cdef class Search(Decider):
    cdef int64_t row          # the prefix is [front, row)
    cdef int most             # level of the longest node that can be asked for at all,
    cdef int longest          # and that may be asked for next: more with every one taken

    cdef int top(self) noexcept nogil
    cdef int take(self, int level) except -1 nogil
    cdef int goes(self, int level) except -1 nogil
    cdef int accept(self) except -1 nogil
    cdef int all_go(self) except -1 nogil


cdef class PythonSearch(Search):
    cdef object policy
    cdef object total

    cdef object longer(self, int level)
    cdef int breach(self) except -1


cdef class WindowSearch(PythonSearch):
    cdef Held window
    cdef bytearray old        # the prefix: its partials
    cdef bytearray more       # the same and one node

    cdef object answers(self, int64_t to)
