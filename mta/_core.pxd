# cython: language_level=3
"""The dyadic forest: windows over any monoid, in O(1) combines a slide (MTA, 2018; AMTA).

Rows have positions, counted up and never reused while the window holds anything. The node of
level ``l`` with index ``j`` covers positions ``[j 2^l, (j + 1) 2^l)``; each level is one ring
addressed by index. The window ``[front, back)`` is split at ``split``, the position in
``(front, back]`` divisible by the largest power of two. Left and right of it the window falls
apart into one node per set bit of ``split - front`` and ``back - split``:

- ``suffix[l]``, for a set bit l of ``split - front``: the aggregate from that node to ``split``,
- ``prefix[l]``, for a set bit l of ``back - split``: the aggregate from ``split`` to its end,

so that the answer is ``suffix[lowest bit] · prefix[lowest bit]``. All three are functions of
(front, back, the values) alone, however the window came to be there. That is what makes the
answers independent of chunking, restarts and the choice between push and batch, down to the last
bit of a double, although floating-point combine is not associative.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from mta._monoids cimport (
    FLOAT, Boxed, BoxedContext, Cell, Extreme, FloatSum, IntSum, Lift, Moments, Output, Part,
    Products, Runs, Source, Wanted, combine, identity, lift,
)
from mta._rings cimport Ring, ring_chunk, ring_item, ring_room

cdef extern from *:
    """
    #define MTA_LOWEST_BIT(x) __builtin_ctzll(x)
    #define MTA_HIGHEST_BIT(x) (63 - __builtin_clzll(x))
    #define MTA_FETCH(p) __builtin_prefetch(p)
    """
    int lowest_bit "MTA_LOWEST_BIT"(uint64_t x) nogil     # undefined for 0
    int highest_bit "MTA_HIGHEST_BIT"(uint64_t x) nogil   # undefined for 0
    void fetch "MTA_FETCH"(const void* place) nogil       # into the cache, without waiting for it


cdef enum:
    MAX_LEVELS = 63
    CACHED = 1 << 12    # rows of a window whose nodes are in the cache anyway


cdef struct ForestState:
    Lift how
    int64_t base          # row position of forest position 0
    int64_t front
    int64_t back
    int64_t split         # -1: suffix and prefix have to be rebuilt
    int64_t room          # as many leaves as the rings have places for; more make them grow
    Ring rings[MAX_LEVELS]    # of as many places a level as half as many leaves
    Ring** heads          # where a level's oldest nodes are, if they are not in `rings`, or NULL
    void* suffix
    void* prefix


cdef void forest_release(ForestState* s) noexcept nogil
cdef int forest_reserve(ForestState* s, size_t size) except -1 nogil
cdef int forest_sides(ForestState* s, size_t size) except -1 nogil


cdef inline Part* node_at(ForestState* s, int level, int64_t position, const Part* tag) noexcept nogil:
    return ring_item(&s.rings[level], position >> level, tag)


cdef inline Part* head_at(ForestState* s, int level, int64_t position, const Part* tag) noexcept nogil:
    """A node near the front. (Windows on a store keep these apart from the newest.)"""
    return ring_item(head_ring(s, level), position >> level, tag)


cdef inline Ring* head_ring(ForestState* s, int level) noexcept nogil:
    return &s.rings[level] if s.heads == NULL else s.heads[level]


cdef inline int forest_append(ForestState* s, Part* node) except -1 nogil:
    """Store a leaf at `back` and every node it completes; `node` becomes the topmost of them."""
    cdef int64_t back = s.back + 1
    cdef int level = 0, top = lowest_bit(back)
    if s.back - s.front == s.room:
        forest_reserve(s, sizeof(Part))
    ring_room(&s.rings[0], s.back, node)[0] = node[0]
    # A parent whose left child has begun to leave is never asked for.
    while level < top and back - (<int64_t> 2 << level) >= s.front:
        combine(&s.how, node, node_at(s, level, back - (<int64_t> 2 << level), node), node)
        level += 1
        ring_room(&s.rings[level], (back >> level) - 1, node)[0] = node[0]
    return 0


cdef inline int forest_insert(ForestState* s, const Part* leaf) except -1 nogil:
    """Append a leaf. 2 combines amortised: one for the nodes it completes, one for the prefix."""
    cdef int64_t back = s.back + 1, run = back - s.split, rest
    cdef Part* prefix
    cdef Part node = leaf[0]
    forest_append(s, &node)
    if s.split < 0 or (run & s.split) != 0:
        return forest_split(s, s.front, back, leaf)
    prefix = <Part*> s.prefix
    rest = run & (run - 1)
    if rest:
        combine(&s.how, &prefix[lowest_bit(run)], &prefix[lowest_bit(rest)], &node)
    else:
        prefix[lowest_bit(run)] = node
    s.back = back
    return 0


cdef inline int forest_split(
    ForestState* s, int64_t front, int64_t back, const Part* tag
) except -1 nogil:
    """Make the window [front, back): find its split point, rebuild both sides in O(log n) combines.

    If combine raises, the window stays what it was and `split` says that it has to be rebuilt.
    """
    cdef int64_t split
    cdef int top
    s.split = -1
    if front < back:
        top = highest_bit(front ^ back)
        split = (back >> top) << top
        if back - front > CACHED:
            fetch_sides(s, front, split, back, tag)
        build_suffix(s, front, split, tag)
        build_prefix(s, split, back, tag)
        s.split = split
    s.front = front
    s.back = back
    return 0


cdef inline void fetch_sides(
    ForestState* s, int64_t front, int64_t split, int64_t back, const Part* tag
) noexcept nogil:
    """Have the nodes of both sides brought into the cache, all at once: of a large window each is far
    from the others, and first its level has to tell where. (In combines this is nothing.)"""
    cdef int64_t left = split - front, right = back - split, rest = left
    cdef int level
    while rest:
        level = lowest_bit(rest)
        fetch(ring_chunk(head_ring(s, level), suffix_node(split, left, level) >> level))
        rest &= rest - 1
    rest = right
    while rest:
        level = lowest_bit(rest)
        fetch(ring_chunk(&s.rings[level], prefix_node(split, right, level) >> level))
        rest &= rest - 1
    rest = left
    while rest:
        level = lowest_bit(rest)
        fetch(head_at(s, level, suffix_node(split, left, level), tag))
        rest &= rest - 1
    rest = right
    while rest:
        level = lowest_bit(rest)
        fetch(node_at(s, level, prefix_node(split, right, level), tag))
        rest &= rest - 1


cdef inline int64_t suffix_node(int64_t split, int64_t left, int level) noexcept nogil:
    """Where the node begins that stands for a set bit of `left`, and"""
    return split - ((left >> level) << level)


cdef inline int64_t prefix_node(int64_t split, int64_t right, int level) noexcept nogil:
    """that of a set bit of `right`."""
    return split + ((right >> level) << level) - (<int64_t> 1 << level)


cdef inline int build_suffix(
    ForestState* s, int64_t front, int64_t split, const Part* tag
) except -1 nogil:
    cdef Part* suffix = <Part*> s.suffix
    cdef int64_t left = split - front, rest = left, start
    cdef int level, above = -1
    while rest:
        level = highest_bit(rest)
        start = suffix_node(split, left, level)
        if above < 0:
            suffix[level] = head_at(s, level, start, tag)[0]
        else:
            combine(&s.how, &suffix[level], head_at(s, level, start, tag), &suffix[above])
        above = level
        rest ^= <int64_t> 1 << level
    return 0


cdef inline int build_prefix(
    ForestState* s, int64_t split, int64_t back, const Part* tag
) except -1 nogil:
    cdef Part* prefix = <Part*> s.prefix
    cdef int64_t right = back - split, rest = right, start
    cdef int level, above = -1
    while rest:
        level = highest_bit(rest)
        start = prefix_node(split, right, level)
        if above < 0:
            prefix[level] = node_at(s, level, start, tag)[0]
        else:
            combine(&s.how, &prefix[level], &prefix[above], node_at(s, level, start, tag))
        above = level
        rest ^= <int64_t> 1 << level
    return 0


cdef inline Part* forest_open_front(ForestState* s, const Part* tag) except NULL nogil:
    """The aggregate from the second leaf to the split point, which has to lie further on.

    Opens the first node: its right halves on the way down to the first leaf get their suffixes,
    at levels that the window itself does not use until that leaf has gone.
    """
    cdef Part* suffix = <Part*> s.suffix
    cdef int64_t left = s.split - s.front, rest = left & (left - 1)
    cdef int level = lowest_bit(left), above = lowest_bit(rest) if rest else -1
    while level > 0:
        level -= 1
        if above < 0:
            suffix[level] = head_at(s, level, s.front + (<int64_t> 1 << level), tag)[0]
        else:
            combine(&s.how, &suffix[level],
                    head_at(s, level, s.front + (<int64_t> 1 << level), tag), &suffix[above])
        above = level
    return &suffix[above]


cdef inline int forest_fill(
    ForestState* s, const Cell* values, const uint8_t* valid, int64_t front, int64_t back, const Part* tag
) except -1 nogil:
    """Make the window the rows [front, back), which are values[front..back); no answer is asked for on
    the way. Every row that is new is 1 combine, those before `front` none."""
    cdef Part leaf
    cdef int64_t row = s.base + s.back
    s.split = -1
    s.front = front - s.base
    if row < front:
        row = front
        s.back = s.front
    while row < back:
        if valid != NULL and not valid[row]:
            identity(&s.how, &leaf)
        else:
            lift(&s.how, &leaf, values[row])
        forest_append(s, &leaf)
        s.back += 1
        row += 1
    return forest_split(s, s.front, s.back, tag)


cdef inline int forest_evict(ForestState* s, const Part* tag) except -1 nogil:
    """Drop the oldest leaf. 1 combine amortised."""
    if s.split < 0 or s.split - s.front == 1:
        return forest_split(s, s.front + 1, s.back, tag)
    forest_open_front(s, tag)
    s.front += 1
    return 0


cdef inline int forest_evict_to(ForestState* s, int64_t front, const Part* tag) except -1 nogil:
    """Drop every leaf before `front` (at most `back`): O(log n) combines for any number of them."""
    cdef int64_t steps = 2
    if Part is Boxed:
        steps = 1    # Python may raise at the second of two steps, and then nothing must have left
    if front - s.front > steps:
        return forest_split(s, front, s.back, tag)
    while s.front < front:
        forest_evict(s, tag)
    return 0


cdef inline int forest_query(ForestState* s, Part* out) except -1 nogil:
    """The aggregate of the window: 1 combine."""
    cdef int64_t left, right
    if s.front == s.back:
        return identity(&s.how, out)
    if s.split < 0:
        forest_split(s, s.front, s.back, out)
    left = s.split - s.front
    right = s.back - s.split
    if right == 0:
        out[0] = (<Part*> s.suffix)[lowest_bit(left)]
        return 0
    return combine(&s.how, out, &(<Part*> s.suffix)[lowest_bit(left)],
                   &(<Part*> s.prefix)[lowest_bit(right)])


cdef inline void forest_restart(ForestState* s, int64_t base) noexcept nogil:
    """An empty window forgets everything, its positions too (so that answers after a gap do not
    depend on whether the rows before it were ever seen)."""
    s.base = base
    s.front = s.back = 0
    s.split = -1


cdef inline int forest_slide(
    ForestState* s, const Cell* values, const uint8_t* valid, int64_t first,
    const int64_t* lo, const int64_t* hi, int64_t n, Part* out,
) except -1 nogil:
    """n slides in one go: slide i makes the window the rows [lo[i], hi[i]) and answers out[i].

    Rows are numbered from the start of the stream; values[0] is row `first`, the first one not
    inserted yet. lo and hi never fall. A null (valid 0) is the monoid's identity.
    """
    cdef Part leaf
    cdef int64_t i, row
    for i in range(n):
        row = s.base + s.back
        if lo[i] >= row:
            forest_restart(s, lo[i])
            row = lo[i]
        elif lo[i] > s.base + s.front:
            forest_evict_to(s, lo[i] - s.base, out)
        while row < hi[i]:
            if valid != NULL and not valid[row - first]:
                identity(&s.how, &leaf)
            else:
                lift(&s.how, &leaf, values[row - first])
            forest_insert(s, &leaf)
            row += 1
        forest_query(s, &out[i])
    return 0


# One table of functions per monoid, so that callers who learn the monoid at run time dispatch
# once per call and the loops above stay specialised. `tag` only names the monoid: pass NULL.
cdef struct ForestOps:
    size_t size
    int (*insert)(ForestState*, Cell, bint, const void* tag) except -1 nogil
    int (*resize)(ForestState*, int64_t front, int64_t back, const void* tag) except -1 nogil
    int (*evict_to)(ForestState*, int64_t front, const void* tag) except -1 nogil
    int (*query)(ForestState*, void* out) except -1 nogil
    int (*identity)(const Lift*, void* out) except -1 nogil
    int (*fill)(ForestState*, const Cell*, const uint8_t*, int64_t front, int64_t back,
                const void* tag) except -1 nogil
    int (*extend)(ForestState*, int level, int64_t position, void* out) except -1 nogil
    int (*slide)(ForestState*, const Cell*, const uint8_t*, int64_t first, const int64_t* lo,
                 const int64_t* hi, int64_t n, void* out) except -1 nogil
    int64_t (*lower)(const Lift*, const Wanted*, const void* parts, int64_t n) noexcept nogil


cdef ForestOps* find_ops(str monoid, Source source) except NULL
cdef Output find_output(str what) except *
cdef bint gives_float(Output what, Source source) noexcept
cdef Source find_source(str source) except *
cdef Lift make_lift(str monoid, str source, str nan) except *


cdef enum:
    MAX_PART = 64    # bytes of the largest partial, rounded up


cdef enum:
    CHUNK = 1024         # partials between two rounds of lowering: 56 KB at most, so they stay in L2
    MAX_OUTPUTS = 64


cdef class Lowering:
    cdef list arrays
    cdef int n
    cdef Wanted wanted[MAX_OUTPUTS]

    cdef int64_t run(self, const ForestOps* ops, const Lift* how, const void* parts, int64_t start,
                     int64_t n, const int64_t* lo, const int64_t* hi, const int64_t* counts) noexcept nogil


cdef class Forest:
    cdef ForestState state
    cdef ForestOps* ops
    cdef readonly str monoid
    cdef readonly str source
    cdef readonly str nan
    cdef BoxedContext context
    cdef Py_ssize_t swept

    cdef int insert_cell(self, Cell raw, bint valid) except -1
    cdef sweep(self)
    cdef object lower(self, Output what, const void* part, int64_t n)


cdef list live_boxes(ForestState* s)
cdef list live_sides(ForestState* s)
cdef object cell_to_python(Cell cell, bint is_float, bint unsigned)
