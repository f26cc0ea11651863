"""Rings of chunks: they grow without a copy of what they hold.

A ring of many items is a table of chunks. When it is full the table doubles and the chunks stay
where they are: n/512 pointers move and at most one chunk is copied, the one in which the newest
item stands beside the oldest. (A ring below 512 items is one chunk, and doubles by copying it.)
Chunks come when they are first written and stay until the ring goes.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

cdef enum:
    FEWEST = 16    # places of the smallest ring


cdef inline int64_t chunks_of(int64_t places) noexcept nogil:
    return (places + CHUNK_ITEMS - 1) >> CHUNK_BITS


cdef inline size_t chunk_bytes(int64_t places, size_t size) noexcept nogil:
    return <size_t> min(places, <int64_t> CHUNK_ITEMS) * size


cdef int ring_grow(Ring* r, int64_t front, int64_t back, size_t size) except -1 nogil:
    """Twice the places, the items [front, back) kept. If there is no memory, nothing has changed."""
    cdef int64_t places = 2 * r.places if r.places else FEWEST
    cdef char** chunks = <char**> calloc(chunks_of(places), sizeof(char*))
    cdef char* spare = <char*> malloc(chunk_bytes(places, size))
    if chunks == NULL or spare == NULL:
        free(chunks)
        free(spare)
        with gil:
            raise MemoryError(f"a window of {places} rows")
    if r.places < CHUNK_ITEMS:
        copy_items(r, spare, places, front, back, size)
        chunks[0] = spare
    else:
        move_chunks(r, chunks, spare, places, front, back, size)
    ring_release(r)
    r.chunks = chunks
    r.places = places
    return 0


cdef void copy_items(const Ring* r, char* to, int64_t places, int64_t front, int64_t back,
                     size_t size) noexcept nogil:
    """From a ring of one chunk to another."""
    cdef int64_t i
    for i in range(front, back):
        memcpy(to + (i & (places - 1)) * size, r.chunks[0] + (i & (r.places - 1)) * size, size)


cdef void move_chunks(Ring* r, char** chunks, char* spare, int64_t places, int64_t front,
                      int64_t back, size_t size) noexcept nogil:
    """Every chunk to its new place; `spare` is for the newest items of the first one, or freed."""
    cdef int64_t start = front, stop, old, new, first = (front & (places - 1)) >> CHUNK_BITS
    while start < back:
        stop = min((start | (CHUNK_ITEMS - 1)) + 1, back)
        old = (start & (r.places - 1)) >> CHUNK_BITS
        new = (start & (places - 1)) >> CHUNK_BITS
        if r.chunks[old] == NULL:    # it went with the oldest items; these begin a chunk
            memcpy(spare, chunks[first], (stop - start) * size)
            chunks[new] = spare
            spare = NULL
        else:
            chunks[new] = r.chunks[old]
            r.chunks[old] = NULL
        start = stop
    free(spare)


cdef int ring_make_chunk(Ring* r, int64_t chunk, size_t size) except -1 nogil:
    r.chunks[chunk] = <char*> malloc(chunk_bytes(r.places, size))
    if r.chunks[chunk] == NULL:
        with gil:
            raise MemoryError(f"a window of {r.places} rows")
    return 0


cdef int ring_make(Ring* r, int64_t places, size_t size) except -1 nogil:
    """A ring that will not grow: it holds its newest `places` items (a power of two)."""
    r.chunks = <char**> calloc(chunks_of(places), sizeof(char*))
    if r.chunks == NULL:
        with gil:
            raise MemoryError(f"a ring of {places} items of {size} bytes")
    r.places = places
    return 0


cdef void ring_release(Ring* r) noexcept nogil:
    """Give all memory back."""
    cdef int64_t i
    for i in range(chunks_of(r.places) if r.chunks != NULL else 0):
        free(r.chunks[i])
    free(r.chunks)
    r.chunks = NULL
    r.places = 0


cdef int64_t ring_bytes(const Ring* r, size_t size) noexcept nogil:
    """Bytes held."""
    cdef int64_t i, made = 0, chunks = chunks_of(r.places)
    for i in range(chunks):
        made += r.chunks[i] != NULL
    return made * <int64_t> chunk_bytes(r.places, size) + chunks * <int64_t> sizeof(char*)
