# cython: language_level=3
"""Nodes of a ring as bytes of a block, and back; ``_tiers.pyx``.

Moving bytes is most of what a window on a store costs, and of nodes of two words the second one often
says nothing: the error of a float sum of one row is 0, and an integer sum that fits in 64 bits repeats
its sign there. Where that is so of all nodes of a block, it holds their first words and a byte that
says what the second ones were: PLAIN, SIGNS or ZEROS.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from mta._rings cimport CHUNK_ITEMS, Ring, ring_place
from mta._tier_pairs cimport room


cdef enum:
    WORD = sizeof(int64_t)
    # What a second word is.
    PLAIN = 0    # of its own
    SIGNS = 1    # the sign of the first
    ZEROS = 2


cdef inline int64_t side_by_side(const Ring* ring, int64_t i, int64_t stop) noexcept nogil:
    """Of the nodes [i, stop), how many stand one behind the other."""
    return min((i | (CHUNK_ITEMS - 1)) + 1, stop, (i | (ring.places - 1)) + 1) - i


cdef inline bytes with_nodes(const Ring* ring, int64_t start, int64_t i, int64_t stop, size_t size, bytes end):
    """The nodes [i, stop) of [start, stop) as they are, zeros before them, and an end."""
    cdef int64_t whole = (stop - start) * <int64_t> size, run
    cdef bytes made = PyBytes_FromStringAndSize(NULL, whole + len(end))
    cdef char* to = made
    memcpy(to + whole, <const char*> end, len(end))
    memset(to, 0, (i - start) * size)
    to += (i - start) * size
    while i < stop:
        run = side_by_side(ring, i, stop)
        memcpy(to, ring_place(ring, i, size), run * size)
        to += run * size
        i += run
    return made


cdef inline int copy_in(Ring* ring, int64_t i, int64_t stop, const char* source, size_t size) except -1:
    cdef int64_t run
    while i < stop:
        run = side_by_side(ring, i, stop)
        room(ring, i, size)
        memcpy(ring_place(ring, i, size), source, run * size)
        source += run * size
        i += run
    return 0


cdef inline int first_words_out(const Ring* ring, int64_t i, int64_t stop, char* to) noexcept nogil:
    """The first words of the nodes [i, stop), which have two; what the second ones are. PLAIN: there
    is no way without them, and not all words were written."""
    cdef const int64_t* nodes
    cdef int64_t* words = <int64_t*> to
    cdef int64_t run, k, not_signs = 0, not_zeros = 0
    while i < stop:
        run = side_by_side(ring, i, stop)
        nodes = <const int64_t*> ring_place(ring, i, 2 * WORD)
        for k in range(run):
            words[k] = nodes[2 * k]
            not_signs |= nodes[2 * k + 1] ^ (nodes[2 * k] >> 63)
            not_zeros |= nodes[2 * k + 1]
        if not_signs and not_zeros:
            return PLAIN
        words += run
        i += run
    return SIGNS if not_zeros else ZEROS


cdef inline bytes with_first_words(const Ring* ring, int64_t start, int64_t i, int64_t stop, bytes end):
    """The same of nodes of two words; None where the second ones are needed."""
    cdef int64_t size = (stop - start) * WORD
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size + 1 + len(end))
    cdef char* to = made
    memset(to, 0, (i - start) * WORD)
    to[size] = first_words_out(ring, i, stop, to + (i - start) * WORD)
    memcpy(to + size + 1, <const char*> end, len(end))
    return None if to[size] == PLAIN else made


cdef inline int first_words_in(Ring* ring, int64_t i, int64_t stop, const char* source, int second) except -1:
    """Nodes of two words, of which these are the first."""
    cdef int64_t* nodes
    cdef const int64_t* words = <const int64_t*> source
    cdef int64_t run, k, mask = -1 if second == SIGNS else 0
    while i < stop:
        run = side_by_side(ring, i, stop)
        room(ring, i, 2 * WORD)
        nodes = <int64_t*> ring_place(ring, i, 2 * WORD)
        for k in range(run):
            nodes[2 * k] = words[k]
            nodes[2 * k + 1] = (words[k] >> 63) & mask
        words += run
        i += run
    return 0
