# cython: language_level=3
"""Kernels of user monoids; see ``_user.pyx``."""
from libc.stdint cimport int64_t, uint8_t

from mta._core cimport MAX_OUTPUTS
from mta._kernel cimport MAX_COLUMNS, Kernel
from mta._monoids cimport Cell


cdef enum ColumnType:
    FLOATS
    INTS
    UINTS
    BOOLS
    OBJECTS
    TEXTS       # codes of `items`


# What numba compiles (``_compiled_monoids.py``). Both give -1 where a function of the user raised.
ctypedef int64_t (*BuildSuffixes)(
    const void* c0, const void* c1, const void* c2, const void* c3, const uint8_t* valid,
    int64_t nulls, int64_t lo, int64_t split, int64_t follows, void* suffix) noexcept nogil
ctypedef int64_t (*SlideWindows)(
    const void* c0, const void* c1, const void* c2, const void* c3, const uint8_t* valid,
    int64_t nulls, const int64_t* lo, const int64_t* hi, const int64_t* counts, int64_t counted,
    int64_t start, int64_t stop, int64_t split, int64_t need, void* suffix, void* state,
    void* out) noexcept nogil


cdef class UserKernel(Kernel):
    cdef readonly object monoid
    cdef readonly object program
    cdef readonly str gives
    cdef tuple sources
    cdef ColumnType types[MAX_COLUMNS]
    cdef int width              # columns
    cdef int64_t need
    cdef public object items    # of columns of texts, what their codes stand for: one entry a column
    cdef list columns           # what was attached last
    cdef object valid
    cdef int64_t first
    cdef bint checked
    # [origin, split) is answered by suffixes, [split, last) by one running prefix.
    cdef bint ready             # whether they are there; if not, `split` says where they meet
    cdef bint older_empty       # no row of the older half counts
    cdef int64_t origin
    cdef int64_t split
    cdef int64_t last
    cdef int64_t cut            # of the windows that the halves are for, where bounds say it

    cdef object value_at(self, int column, int64_t row)
    cdef int64_t find_split(self, int64_t lo, int64_t hi, int64_t cut) noexcept nogil
    cdef int restore(self, int64_t split) noexcept nogil

    cdef inline bint starts_over(self, int64_t lo, int64_t hi) noexcept nogil:
        """Whether a window is none that can follow, so that nothing made so far is of use."""
        return hi < self.last or lo < self.origin

    cdef inline bint is_used_up(self, int64_t window, const int64_t* lo) noexcept nogil:
        """Whether a window needs other halves."""
        return (lo[window] >= self.split or self.older_empty
                or (self.scan.cut != NULL and not (self.ready and self.scan.cut[window] == self.cut)))


cdef class CompiledUserKernel(UserKernel):
    cdef BuildSuffixes build
    cdef SlideWindows slide
    cdef int64_t cells          # of a partial
    cdef int64_t* suffix        # partials, from row `origin` on
    cdef int64_t capacity       # cells
    cdef int64_t* state         # last, whether the prefix holds a row, the prefix
    cdef Cell* out[MAX_OUTPUTS]
    cdef int outputs
    cdef Cell nothing           # written for a window of which nothing counts

    cdef int reserve(self, int64_t rows) except -1 nogil
    cdef int flip(self, int64_t lo, int64_t hi, int64_t cut) except -2 nogil
    cdef int fail(self, int64_t begun, int64_t start, int64_t n, const int64_t* lo,
                  const int64_t* hi) except -1


cdef class PythonUserKernel(UserKernel):
    cdef object lift
    cdef object combine
    cdef object lower
    cdef list parts             # from row `origin` on: suffixes to `split`, then what lift gave
    cdef object prefix
    cdef object[::1] out
    cdef str doing              # which function is being called,
    cdef int64_t at             # for which row, or for which window

    cdef int run(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -1
    cdef object lowered(self, int64_t window, part, prefix)
    cdef object lifted(self, int64_t row)
    cdef int take(self) except -1
    cdef int flip(self, int64_t lo, int64_t hi, int64_t cut) except -1
    cdef int join_prefix(self, object part) except -1
    cdef int explain(self, error, const int64_t* lo, const int64_t* hi) except -1
