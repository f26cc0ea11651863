# cython: language_level=3
"""Many slides of a forest that moves on one row at a time: 15 of them at once.

Where the back stands at a multiple of 16, the next 15 rows complete the same nodes, and make the same
prefixes of them, wherever the window is; so do the suffixes of the 16 rows of the front's block. That is
straight code, with no branch that depends on the position. Partials are combined as ``_core.pxd`` does
it, so the answers and the forest are the same; the row that completes the block, and everything else,
takes the general way, as do windows on a store. 4 combines a slide.
"""
from libc.stdint cimport int64_t, uint8_t

from mta._core cimport ForestState, forest_slide, lowest_bit, node_at
from mta._monoids cimport (
    Boxed, Cell, Cells, FloatSum, Lift, OneCell, Part, combine, combine_some, identity, lift, lift_some,
)
from mta._rings cimport ring_room


cdef enum:
    SPAN = 16       # rows of a block,
    SPAN_LEVEL = 4  # a node of this level
    RUN = SPAN - 1  # slides at once
    SLOTS = 32      # suffixes of two blocks: that of a position is at position & 31


cdef inline void copy_part(Part* to, const Part* from_) noexcept nogil:
    """Field by field, as they have been written: a wider load would have to wait for both."""
    if Part is FloatSum:
        to.hi = from_.hi
        to.lo = from_.lo
    elif Part is OneCell:
        to.some = from_.some
        to.cell = from_.cell
    else:
        to[0] = from_[0]


cdef inline int slide_rows(
    ForestState* s, const Cell* values, const uint8_t* valid, int64_t first,
    const int64_t* lo, const int64_t* hi, int64_t n, Part* out,
) except -1 nogil:
    """As `forest_slide`."""
    cdef Part suffixes[SLOTS]
    # The suffixes are those of this block, up to this split point of a forest that begins at this row.
    cdef int64_t block = -1, split = -1, base = -1
    cdef int64_t i = 0, step, row
    if Part is Boxed or s.heads != NULL:
        return forest_slide(s, values, valid, first, lo, hi, n, out)
    while i < n:
        if n - i >= RUN and runs_on(s, lo + i, hi + i):
            row = s.base + s.back - first
            if split != s.split or base != s.base:
                block = -1
            split, base = s.split, s.base
            block = slide_run(s, values + row, valid + row if valid != NULL else NULL, lo + i, suffixes, block,
                              out + i)
            i += RUN
        step = min(n - i, SPAN - (s.back & (SPAN - 1)))
        forest_slide(s, values, valid, first, lo + i, hi + i, step, out + i)
        i += step
    return 0


cdef inline bint runs_on(const ForestState* s, const int64_t* lo, const int64_t* hi) noexcept nogil:
    """Whether the next windows move on one row at a time, within a block at the back and two at the
    front, and about the same split point."""
    cdef int64_t front = lo[RUN - 1] - s.base, back = s.base + s.back
    cdef int64_t odd = 0
    cdef int i
    if s.back & (SPAN - 1) or s.split <= 0 or s.split & (SPAN - 1) or s.front >= s.split or front >= s.split:
        return False
    if s.back + RUN - front > s.room or (front & -SPAN) - (s.front & -SPAN) > SPAN:
        return False
    for i in range(RUN):
        odd |= hi[i] ^ (back + i + 1)
    return odd == 0


cdef inline int64_t slide_run(
    ForestState* s, const Cell* values, const uint8_t* valid, const int64_t* lo, Part* suffixes,
    int64_t block, Part* out,
) except -1 nogil:
    """values[0] is the next row. `suffixes` are those of the block that begins at `block`; -1: of none.
    Gives the block of which they are then.

    What comes in may take the places of what leaves, so that the suffixes are made before.
    """
    cdef Part prefixes[SPAN]
    cdef Lift how = s.how
    cdef int64_t last = max(lo[RUN - 1] - s.base, s.front), begun = s.front, base = s.base
    cdef int i
    if block != begun & -SPAN:
        block = begun & -SPAN
        enter_block(s, &how, block, suffixes + (block & SPAN), out)
    if last - block >= SPAN:
        block = s.front = block + SPAN
        enter_block(s, &how, block, suffixes + (block & SPAN), out)
    insert_run(s, &how, values, valid, prefixes, out)
    if Part is OneCell or Part is Cells:
        join_runs(&how, out, suffixes, prefixes, lo, base, begun)
    else:
        for i in range(RUN):
            combine(&how, &out[i], &suffixes[max(lo[i] - base, begun) & (SLOTS - 1)], &prefixes[i + 1])
    keep_suffixes(s, last, block, suffixes)
    return block


cdef inline int join_runs(
    const Lift* how, Part* out, const Part* suffixes, const Part* prefixes, const int64_t* lo, int64_t base,
    int64_t begun,
) except -1 nogil:
    """The answers, as many at once as have suffixes side by side."""
    cdef int64_t first
    cdef int i = 0, n
    while i < RUN:
        first, n = max(lo[i] - base, begun), 1
        while i + n < RUN and lo[i + n] - base == first + n and (first + n) & (SLOTS - 1):
            n += 1
        combine_some(how, &out[i], 1, &suffixes[first & (SLOTS - 1)], 1, &prefixes[i + 1], 1, n)
        i += n
    return 0


cdef inline int insert_run(
    ForestState* s, const Lift* how, const Cell* values, const uint8_t* valid, Part* prefixes,
    const Part* tag,
) except -1 nogil:
    """15 rows come in: prefixes[i] becomes the aggregate from the split point to the i-th of them."""
    cdef Part* x = ring_room(&s.rings[0], s.back, tag)
    cdef Part* two = ring_room(&s.rings[1], s.back >> 1, tag)
    cdef Part* four = ring_room(&s.rings[2], s.back >> 2, tag)
    cdef Part* eight = ring_room(&s.rings[3], s.back >> 3, tag)
    cdef Part* kept = <Part*> s.prefix
    cdef int i
    if valid == NULL:
        lift_some(how, x, values, RUN)
    else:
        for i in range(RUN):
            if valid[i]:
                lift(how, &x[i], values[i])
            else:
                identity(how, &x[i])
    combine_some(how, two, 1, x, 2, x + 1, 2, 7)
    combine_some(how, four, 1, two, 2, two + 1, 2, 3)
    combine(how, &eight[0], &four[0], &four[1])
    if s.back == s.split:
        copy_part(&prefixes[1], &x[0])
        copy_part(&prefixes[2], &two[0])
        copy_part(&prefixes[4], &four[0])
        copy_part(&prefixes[8], &eight[0])
    else:
        copy_part(&prefixes[0], &kept[lowest_bit(s.back - s.split)])
        combine(how, &prefixes[1], &prefixes[0], &x[0])
        combine(how, &prefixes[2], &prefixes[0], &two[0])
        combine(how, &prefixes[4], &prefixes[0], &four[0])
        combine(how, &prefixes[8], &prefixes[0], &eight[0])
    combine(how, &prefixes[12], &prefixes[8], &four[2])
    combine(how, &prefixes[6], &prefixes[4], &two[2])
    combine(how, &prefixes[10], &prefixes[8], &two[4])
    combine(how, &prefixes[14], &prefixes[12], &two[6])
    combine_some(how, prefixes + 3, 2, prefixes + 2, 2, x + 2, 2, 7)
    copy_part(&kept[3], &prefixes[8])
    copy_part(&kept[2], &prefixes[12])
    copy_part(&kept[1], &prefixes[14])
    copy_part(&kept[0], &prefixes[15])
    s.back += RUN
    return 0


cdef inline int enter_block(
    ForestState* s, const Lift* how, int64_t start, Part* suffixes, const Part* tag
) except -1 nogil:
    """The suffixes of the front's block, up to the split point."""
    cdef const Part* x = node_at(s, 0, start, tag)
    cdef const Part* two = node_at(s, 1, start, tag)
    cdef const Part* four = node_at(s, 2, start, tag)
    cdef const Part* eight = node_at(s, 3, start, tag)
    cdef const Part* after
    cdef int i
    if s.front == start:
        copy_part(&suffixes[0], &(<Part*> s.suffix)[lowest_bit(s.split - start)])
    after = after_block(s, start, tag)
    if after == NULL:
        copy_part(&suffixes[15], &x[15])
        copy_part(&suffixes[14], &two[7])
        copy_part(&suffixes[12], &four[3])
        copy_part(&suffixes[8], &eight[1])
    else:
        combine(how, &suffixes[15], &x[15], after)
        combine(how, &suffixes[14], &two[7], after)
        combine(how, &suffixes[12], &four[3], after)
        combine(how, &suffixes[8], &eight[1], after)
    combine(how, &suffixes[4], &four[1], &suffixes[8])
    combine(how, &suffixes[2], &two[1], &suffixes[4])
    combine(how, &suffixes[6], &two[3], &suffixes[8])
    combine(how, &suffixes[10], &two[5], &suffixes[12])
    combine_some(how, suffixes + 1, 2, x + 1, 2, suffixes + 2, 2, 7)
    return 0


cdef inline const Part* after_block(ForestState* s, int64_t start, const Part* tag) except? NULL nogil:
    """The suffix from the end of the front's block on; NULL where that is the split point. Opens the
    first node down to the block, if it begins there."""
    cdef Part* suffix = <Part*> s.suffix
    cdef int64_t left = s.split - start, rest = left - SPAN
    cdef int level, above
    if s.front == start:
        rest = left & (left - 1)
        level, above = lowest_bit(left), lowest_bit(rest) if rest else -1
        while level > SPAN_LEVEL:
            level -= 1
            if above < 0:
                suffix[level] = node_at(s, level, start + (<int64_t> 1 << level), tag)[0]
            else:
                combine(&s.how, &suffix[level], node_at(s, level, start + (<int64_t> 1 << level), tag),
                        &suffix[above])
            above = level
        return &suffix[above] if above >= 0 else NULL
    return &suffix[lowest_bit(rest)] if rest else NULL


cdef inline int keep_suffixes(ForestState* s, int64_t front, int64_t block, const Part* suffixes) except -1 nogil:
    """The front stands here now, in this block: what the forest wants to have of it."""
    cdef int64_t left = block + SPAN - front
    cdef int level
    s.front = front
    for level in range(SPAN_LEVEL if left < SPAN else 0):
        if left >> level & 1:
            copy_part(&(<Part*> s.suffix)[level],
                      &suffixes[(block + SPAN - ((left >> level) << level)) & (SLOTS - 1)])
    return 0
