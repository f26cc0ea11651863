# cython: language_level=3
"""What the algorithms of ``mta.fifo`` hold, and what each does with a partial.

The algorithms are written over two fused types: ``Algorithm`` (a tag: pass NULL) and ``Part``, so
that the C compiler sees one loop for each pair. Positions count inserted values and are never
used twice. A call in which combine raises leaves the window as it was.
"""
from libc.stdint cimport int64_t

from mta._core cimport ForestState
from mta._monoids cimport Lift, Part, combine, identity
from mta._rings cimport Ring, ring_grow, ring_item, ring_room


cdef struct FifoState:
    Lift how
    int64_t front, back      # the window
    # The list of partials, and the places in it where its parts meet (front <= ... <= back).
    Ring items
    Ring values              # beside aggregates, the values themselves, where `keeps_values`
    bint keeps_values
    int64_t left, right, accum, mid
    void* named              # Part[2]: `tail`, the aggregate of [mid, back), and `whole` of DABA Lite
    # FlatFAT: the root is node 1, the leaf of a position node places + (position & (places - 1)).
    void* nodes
    int64_t places
    ForestState forest       # LogMTA, AMTA


cdef struct Recompute:
    char tag

cdef struct SubtractOnEvict:
    char tag

cdef struct TwoStacks:
    char tag

cdef struct DABA:
    char tag

cdef struct DABALite:
    char tag

cdef struct FlatFAT:
    char tag

cdef struct LogMTA:
    char tag

cdef struct AMTA:
    char tag


ctypedef fused Algorithm:
    Recompute
    SubtractOnEvict
    TwoStacks
    DABA
    DABALite
    FlatFAT
    LogMTA
    AMTA


cdef enum:
    TAIL
    WHOLE
    NAMED    # how many


cdef inline Part* item(const FifoState* s, int64_t position, const Part* tag) noexcept nogil:
    return ring_item(&s.items, position, tag)


cdef inline Part* named(const FifoState* s, int which, const Part* tag) noexcept nogil:
    return (<Part*> s.named) + which


cdef inline int put(FifoState* s, Ring* ring, const Part* part) except -1 nogil:
    """Write an item at the back; it is not inside yet."""
    if s.back - s.front == ring.places:
        ring_grow(ring, s.front, s.back, sizeof(Part))
    ring_room(ring, s.back, part)[0] = part[0]
    return 0


cdef inline int put_value(FifoState* s, Part* tail, const Part* leaf) except -1 nogil:
    """Write a value at the back; `tail` becomes the aggregate of [mid, back) and it. (Where there
    is nothing else, that is no combine with the identity: it would make 0.0 of -0.0.)"""
    put(s, &s.items, leaf)
    if s.keeps_values:
        put(s, &s.values, leaf)
    if s.mid == s.back:
        tail[0] = leaf[0]
        return 0
    return combine(&s.how, tail, named(s, TAIL, leaf), leaf)


cdef inline int fold(const FifoState* s, Part* out, int64_t start, int64_t stop) except -1 nogil:
    """The aggregate of the items [start, stop), from the left."""
    cdef int64_t i
    if start == stop:
        return identity(&s.how, out)
    out[0] = item(s, start, out)[0]
    for i in range(start + 1, stop):
        combine(&s.how, out, out, item(s, i, out))
    return 0


cdef inline void clear_lists(FifoState* s) noexcept nogil:
    """Everything has left."""
    s.front = s.left = s.right = s.accum = s.mid = s.back
