# cython: language_level=3
"""Pairs: two neighbouring blocks of a tier that were read from the store; ``_tiers.pyx``."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from mta._rings cimport CHUNK_ITEMS, Ring, ring_bytes, ring_make, ring_make_chunk, ring_place, ring_release


cdef struct Pair:
    # Two neighbouring blocks, to be read.
    Ring* rings         # one for each level of the tier
    int64_t held[2]     # their numbers, an even and an odd one; -1: none


cdef inline int room(Ring* ring, int64_t index, size_t size) except -1:
    if ring_place(ring, index, size) == NULL:
        ring_make_chunk(ring, (index & (ring.places - 1)) // CHUNK_ITEMS, size)
    return 0


cdef inline int copy_items(const Ring* source, Ring* to, int64_t start, int64_t stop, size_t size) except -1:
    cdef int64_t i
    for i in range(start, stop):
        room(to, i, size)
        memcpy(ring_place(to, i, size), ring_place(source, i, size), size)
    return 0


cdef inline int make_pair(Pair* pair, int levels, int bits, size_t size) except -1:
    """Rings for two blocks, when they are first needed."""
    cdef int level
    if pair.rings != NULL:
        return 0
    pair.rings = <Ring*> calloc(levels, sizeof(Ring))
    if pair.rings == NULL:
        raise MemoryError()
    for level in range(levels):
        ring_make(&pair.rings[level], <int64_t> 2 << (bits - level), size)
    return 0


cdef inline void release_pair(Pair* pair, int levels) noexcept:
    cdef int level
    for level in range(levels if pair.rings != NULL else 0):
        ring_release(&pair.rings[level])
    free(pair.rings)
    pair.rings = NULL


cdef inline int64_t pair_bytes(const Pair* pair, int levels, size_t size) noexcept:
    cdef int64_t bytes = 0
    cdef int level
    for level in range(levels if pair.rings != NULL else 0):
        bytes += ring_bytes(&pair.rings[level], size)
    return bytes


cdef inline void empty_pair(Pair* pair) noexcept:
    pair.held[0] = pair.held[1] = -1
