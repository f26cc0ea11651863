# cython: language_level=3
"""The algorithms of ``mta.fifo`` as tables of functions, one per algorithm and monoid."""
from libc.stdint cimport int64_t, uint8_t

from mta._fifo_state cimport FifoState
from mta._monoids cimport Cell
from mta._rings cimport Ring


cdef struct FifoOps:
    bint tree        # prefixes are made of nodes of any level; else value by value
    size_t size      # of a partial
    # `tag` and `a` only name the monoid and the algorithm: pass NULL.
    int (*start)(FifoState*, const void* tag, const void* a) except -1 nogil
    int (*insert)(FifoState*, Cell, bint valid, const void* tag, const void* a) except -1 nogil
    int (*evict_to)(FifoState*, int64_t front, const void* tag, const void* a) except -1 nogil
    int (*query)(FifoState*, void* out, const void* a) except -1 nogil
    int (*extend)(FifoState*, int level, int64_t position, void* out, const void* a) except -1 nogil
    int (*slide)(FifoState*, const Cell*, const uint8_t*, int64_t n, int64_t keep, void* out,
                 const void* a) except -1 nogil
    int (*fill)(FifoState*, const Cell*, const uint8_t*, int64_t n, const void* tag,
                const void* a) except -1 nogil
    int (*load)(FifoState*, const void* items, const void* values, const void* a) except -1 nogil
    # Of a forest: the nodes made of those of the lowest ring that lie in [first, stop), into the rings
    # above it; and a node appended to a prefix.
    int (*build)(FifoState*, Ring* rings, int levels, int64_t first, int64_t stop, const void* tag,
                 const void* a) except -1 nogil
    int (*join)(FifoState*, void* out, const void* node, const void* a) except -1 nogil
    void* (*part_at)(FifoState*, int64_t position, bint value, const void* tag,
                     const void* a) noexcept nogil


cdef FifoOps* find_fifo(str algorithm, str part) except NULL
cdef void fifo_release(FifoState* s) noexcept nogil
cdef int64_t fifo_bytes(const FifoState* s, size_t size) noexcept nogil
