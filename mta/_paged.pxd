# cython: language_level=3
"""Kernels of windows whose rows are in pages; see ``_paged.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport MAX_LEVELS
from mta._kernel cimport CHUNK, Counter, Kernel


cdef enum:
    RUN = 64    # windows that are lowered at a time


cdef class GivenCounter(Counter):
    cdef object numbers         # keeps the counts alive
    cdef const int64_t* given   # by window number
    cdef int64_t nothing[CHUNK]


cdef class PagedKernel(Kernel):
    cdef int bits           # a page has 2^bits rows
    cdef object load        # gives rows that are not attached
    cdef object tail        # what was attached: columns, valid, first
    cdef int64_t tail_first
    cdef size_t size        # bytes of a partial
    cdef const int64_t* counts    # of the windows at hand, by number; NULL where hi - lo is the count
    # Positions: row base + i has position i. The window is [front, back).
    cdef int64_t base
    cdef int64_t front
    cdef int64_t back
    cdef int64_t split      # as that of the forest; -1: it has to be found
    # Partials: of the newest node of each level; from the split to the end of each node right of it;
    cdef int levels
    cdef char* pending
    cdef char* prefix
    # of the newest node that begins with each page from `first_page` on; those before `page_origin`
    # have been given back;
    cdef char* pages
    cdef int64_t page_room
    cdef int64_t page_origin
    cdef int64_t first_page
    # from each row of [head_front, head_end) to the split;
    cdef char* head
    cdef int64_t head_room
    cdef int64_t head_front
    cdef int64_t head_end
    cdef int64_t head_split
    # and for a while: of a node, from the end of a page to the split, the answers of some windows.
    cdef char* node
    cdef char* after
    cdef char* parts

    cdef int reserve(self, size_t size) except -1
    cdef int have_levels(self, int levels) except -1 nogil
    cdef void restart(self, int64_t row) noexcept nogil
    cdef int move(self, int64_t lo, int64_t hi) except -1 nogil
    cdef int insert(self, int64_t row) except -1 nogil
    cdef int64_t live_pages(self) noexcept nogil
    cdef int have_page(self, int64_t page) except -1 nogil
    cdef int put_page(self, int64_t page) except -1 nogil
    cdef char* page_at(self, int64_t page) noexcept nogil
    cdef int find_split(self) noexcept nogil
    cdef int answer(self, char* out) except -1 nogil
    cdef int build_head(self) except -1 nogil
    cdef int fill_head(self, int64_t front, int64_t end) noexcept nogil
    cdef int fold_pages(self, int64_t front, char* out) noexcept nogil
    cdef int have_room(self, int64_t rows) except -1 nogil
    cdef int read(self, int64_t start, int64_t stop) except -1

    # What a subclass says: the monoid.
    cdef void clear(self, void* part) noexcept nogil
    cdef void lift(self, void* part, int64_t row) noexcept nogil
    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil
    cdef int64_t lower(self, int64_t window, int64_t n) noexcept nogil
