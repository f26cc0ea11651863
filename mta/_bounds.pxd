# cython: language_level=3
"""Which rows a window holds, for all rows in turn; see ``_bounds.pyx``."""
from libc.stdint cimport int64_t

from mta._exact cimport int128


cdef struct Edges:
    # 128 bits: t - span may lie before the first tick that int64 can tell.
    int128 upper
    int128 lower
    bint unbounded
    bint left
    bint right
    bint arrival
    # Where the two pointers stand, and the end of the last run of equal times that was looked at.
    int64_t first
    int64_t last
    int64_t ties


cdef class Bounds:
    cdef readonly int64_t rows
    cdef object owner            # keeps the arrays below alive
    cdef const int64_t* offsets
    cdef int64_t groups
    cdef int64_t group
    cdef int64_t every
    cdef bint steady             # the windows given last are known to move by one row each
    cdef int64_t picked          # group of the row that `pick` looked at last
    cdef const int64_t* cut      # per window the row at which it is cut in two; NULL: the kernels choose

    cdef int fill(self, int64_t start, int64_t n, int64_t* lo, int64_t* hi) except -1 nogil
    cdef int64_t next(self, int64_t start, int64_t n, int64_t* lo, int64_t* hi) except -1 nogil
    cdef int64_t begin_of(self, int64_t row) noexcept nogil
    cdef int64_t pick(self, int64_t start, int64_t n, int64_t* lo, int64_t* hi) noexcept nogil
    cdef int fill_group(self, int64_t start, int64_t stop, int64_t begin, int64_t end,
                        int64_t* lo, int64_t* hi) except -1 nogil


cdef class GivenBounds(Bounds):
    cdef const int64_t* lo
    cdef const int64_t* hi
    cdef int64_t[2] ends


cdef class RowBounds(Bounds):
    cdef int64_t first
    cdef int64_t last


cdef class TimeBounds(Bounds):
    cdef const int64_t* ts
    cdef Edges edges
