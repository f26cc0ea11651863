# cython: language_level=3
"""Rings: queues of partials under numbers that are never used twice; see ``_rings.pyx``."""
from libc.stdint cimport int64_t

from mta._monoids cimport Part


cdef enum:
    CHUNK_BITS = 9
    CHUNK_ITEMS = 1 << CHUNK_BITS    # 4 to 28 KB


cdef struct Ring:
    # All zero: no places yet. Item i stands at place i & (places - 1), which is item
    # place & (CHUNK_ITEMS - 1) of chunk place >> CHUNK_BITS.
    char** chunks
    int64_t places    # a power of two, or 0


cdef int ring_grow(Ring* r, int64_t front, int64_t back, size_t size) except -1 nogil
cdef int ring_make_chunk(Ring* r, int64_t chunk, size_t size) except -1 nogil
cdef int ring_make(Ring* r, int64_t places, size_t size) except -1 nogil
cdef void ring_release(Ring* r) noexcept nogil
cdef int64_t ring_bytes(const Ring* r, size_t size) noexcept nogil


cdef inline char* ring_place(const Ring* r, int64_t index, size_t size) noexcept nogil:
    """`ring_item` where only the size of items is known; NULL in a chunk that was never written to."""
    cdef int64_t place = index & (r.places - 1)
    cdef char* chunk = r.chunks[place >> CHUNK_BITS]
    return NULL if chunk == NULL else chunk + (place & (CHUNK_ITEMS - 1)) * <int64_t> size


cdef inline char** ring_chunk(const Ring* r, int64_t index) noexcept nogil:
    """Where the ring says in which chunk an item is."""
    return &r.chunks[(index & (r.places - 1)) >> CHUNK_BITS]


cdef inline Part* ring_item(const Ring* r, int64_t index, const Part* tag) noexcept nogil:
    """An item that has been written; `tag` only names its type."""
    cdef int64_t place = index & (r.places - 1)
    return (<Part*> r.chunks[place >> CHUNK_BITS]) + (place & (CHUNK_ITEMS - 1))


cdef inline Part* ring_room(Ring* r, int64_t index, const Part* tag) except NULL nogil:
    """Where an item is to be written. Chunks are made when they are first needed."""
    cdef int64_t chunk = (index & (r.places - 1)) >> CHUNK_BITS
    if r.chunks[chunk] == NULL:
        ring_make_chunk(r, chunk, sizeof(Part))
    return ring_item(r, index, tag)
