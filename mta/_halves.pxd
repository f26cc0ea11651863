# cython: language_level=3
"""Kernels that keep a window as two halves; see ``_halves.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport MAX_OUTPUTS
from mta._kernel cimport Kernel
from mta._monoids cimport Cell


cdef extern from "_algebra.h":
    ctypedef struct Column "mta_column":
        const double* f
        const int64_t* i
        int64_t flip
        double k
        int64_t ki
    enum:
        RUN "MTA_BLOCK"     # windows that are answered at a time


cdef class HalvesKernel(Kernel):
    cdef size_t size            # bytes of a partial
    cdef int64_t split          # rows before it are the older half; -1: none yet
    cdef int64_t cut            # of the windows that it is for, where bounds say it
    cdef int64_t last           # `newer` is the partial of the rows [split, last)
    cdef int64_t blank          # what was the window holds no value up to this row
    cdef bint marked            # the split was told, not chosen: its edges are still to be made
    cdef char* edges            # partials of [split - p PAGE, split), p = 0, 1, ...
    cdef int64_t room           # for so many of them
    cdef char* page             # partials of [row, split) for the rows of one page,
    cdef int64_t front          # from this one on
    cdef int64_t page_end
    cdef char* newer
    cdef char* parts            # one per window of a run
    cdef double counts[RUN]     # values of each of these windows
    cdef int n
    cdef int what[MAX_OUTPUTS]
    cdef int64_t option[MAX_OUTPUTS]
    cdef Cell* out[MAX_OUTPUTS]

    cdef int reserve(self, size_t size) except -1
    cdef int ask(self, wanted, names) except -1

    # What a subclass says: partials around a value of the window, and what is read off them.
    cdef void around(self, int64_t row) noexcept nogil
    cdef void clear(self, void* part) noexcept nogil
    cdef void left(self, int64_t lo, int64_t hi, void* part, void* out) noexcept nogil
    cdef void slide(self, const int64_t* lo, const int64_t* hi, int64_t n, const void* suffix) noexcept nogil
    cdef int64_t lower(self, int what, int64_t option, const void* parts, int64_t n, Cell* out) noexcept nogil
    # The same as a monoid: partials that carry the value they are around.
    cdef size_t monoid_size(self) noexcept nogil
    cdef void lift(self, void* part, int64_t row) noexcept nogil
    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil
    cdef const void* sums(self, const void* part) noexcept nogil
    # And how sums are made into such a partial, for windows in pages.
    cdef void begin(self, void* part) noexcept nogil
    cdef void count(self, void* part, int64_t n) noexcept nogil
    cdef void prepend(self, void* part, const void* older) noexcept nogil
    cdef void tell_origin(self, Cell* to) noexcept nogil
    cdef void go_to_origin(self, const Cell* told) noexcept nogil

    cdef inline bint is_used_up(self, int64_t window, const int64_t* lo) noexcept nogil:
        """Whether a window needs another split."""
        return (lo[window] >= self.split
                or (self.scan.cut != NULL and (self.marked or self.scan.cut[window] != self.cut)))

    cdef void choose_split(self, int64_t lo, int64_t hi, int64_t cut) noexcept nogil
    cdef int make_edges(self, int64_t lo) except -1 nogil
    cdef void turn_to(self, int64_t lo) noexcept nogil
    cdef int64_t serve(self, int64_t i, int64_t n, const int64_t* counts) noexcept nogil
    cdef int64_t lower_all(self, int64_t window, int64_t n) noexcept nogil


cdef enum:
    ORIGIN = 4      # cells that say what sums are around


cdef int bind_column(Column* column, const Cell* values, str source) except -1
cdef void column_origin(const Column* column, Cell* to) noexcept nogil
cdef void set_column_origin(Column* column, const Cell* told) noexcept nogil
