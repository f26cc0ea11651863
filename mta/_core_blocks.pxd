# cython: language_level=3
"""Many slides of a forest that moves on by one row: up to 256 of them at once.

As long as the split point stays, the suffixes of consecutive fronts are made of the same nodes, and so
are the prefixes of consecutive backs, wherever the window is: those of the multiples of 16 one after the
other, as ``_core.pxd`` does, and then, level by level, those that lie between two that are there. These
are loops over partials side by side. Every partial is combined of the same two as one by one, so the
answers and the forest are the same: 4 combines a slide. Windows of 16, 32 or 64 rows have a new split
point after as many; all of these are gone through at once. Sums of integers need no order: what comes is
added to the total and what leaves subtracted. Windows of less than 16 rows, and ones that get several
rows at a time, take the general way; so do few slides, as a plan of them costs more than they do.
"""
from libc.stdint cimport int64_t, uint8_t

from mta._core cimport (
    ForestState, build_prefix, build_suffix, fetch, forest_query, forest_reserve, forest_slide, forest_split,
    head_at, head_ring, highest_bit, lowest_bit, node_at,
)
from mta._core_plans cimport (
    ROOM, SLOTS, SPAN, SPAN_LEVEL, Piece, Plan, Stretch, Windows, front_of, hi_of, lo_of, make_plan,
)
from mta._monoids cimport (
    UINT, Boxed, Cell, Extreme, FloatSum, IntSum, Lift, Moments, OneCell, Part, Products, Runs, combine,
    combine_some, identity, lift, lift_some,
)
from mta._rings cimport CHUNK_ITEMS, Ring, ring_item, ring_room


cdef enum:
    FAR = 1 << 16      # rows of a window whose nodes are in no near cache
    LINE = 64          # bytes of it
    SOME = 128         # windows that take the general way
    FEW = 32           # slides, of which no plan is made


cdef extern from "_double_pairs.h":
    ctypedef struct CSum "mta_sum":
        pass


cdef extern from "_part_runs.h":
    ctypedef struct CInt "__int128":
        pass
    void add_some "mta_add_some"(CSum* out, int64_t step, const CSum* a, int64_t a_step, const CSum* b,
                                 int64_t b_step, int64_t n) nogil
    void max_some "mta_max_some"(int64_t* out, int64_t step, const int64_t* a, int64_t a_step,
                                 const int64_t* b, int64_t b_step, int64_t n) nogil
    void move_totals "mta_move_totals"(CInt* out, const CInt* leaving, const int64_t* coming, int64_t n,
                                       bint is_unsigned, CInt* total) nogil
    void sum_some "mta_sum_some"(CInt* out, int64_t step, const CInt* a, int64_t a_step, const CInt* b,
                                 int64_t b_step, int64_t n) nogil


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


cdef inline int combine_run(const Lift* how, Part* out, int64_t step, const Part* a, int64_t a_step,
                            const Part* b, int64_t b_step, int64_t n) except -1 nogil:
    if Part is FloatSum:
        add_some(<CSum*> out, step, <const CSum*> a, a_step, <const CSum*> b, b_step, n)
    elif Part is Extreme:
        max_some(<int64_t*> out, step, <const int64_t*> a, a_step, <const int64_t*> b, b_step, n)
    elif Part is IntSum:
        sum_some(<CInt*> out, step, <const CInt*> a, a_step, <const CInt*> b, b_step, n)
    else:
        combine_some(how, out, <int> step, a, <int> a_step, b, <int> b_step, <int> n)
    return 0


cdef inline int slide_rows(
    ForestState* s, const Cell* values, const uint8_t* valid, int64_t first,
    const int64_t* lo, const int64_t* hi, int64_t n, Part* out,
) except -1 nogil:
    """As `forest_slide`."""
    cdef Windows w
    w.lo, w.hi, w.keep, w.back, w.front = lo, hi, 0, 0, 0
    return slide_windows(s, values, valid, first, &w, n, out)


cdef inline int slide_windows(
    ForestState* s, const Cell* values, const uint8_t* valid, int64_t first, Windows* w,
    int64_t n, Part* out,
) except -1 nogil:
    """`w` is used up."""
    cdef Part suffixes[SLOTS]
    cdef Part prefixes[SLOTS]
    cdef Part total
    cdef Plan plan
    cdef int64_t i = 0, row
    cdef const uint8_t* mask
    cdef bint short, known = False    # `total`, of sums of integers, which subtract what leaves
    if n < FEW:
        return slide_some(s, values, valid, first, w, n, out)
    while i < n:
        plan.n = 0
        short = hi_of(w, 0) - lo_of(w, 0) < SPAN
        if Part is not Boxed and not short:
            make_room(s, hi_of(w, 0) - lo_of(w, 0), n - i, out)
            make_plan(s, w, n - i, may_repeat(out), Part is IntSum, &plan)
        row = s.base + s.back - first
        mask = valid + row if valid != NULL else NULL
        if plan.n == 0:
            known = False
            plan.n = min(n - i, <int64_t> SOME) if short or Part is Boxed else 1
            slide_some(s, values, valid, first, w, plan.n, out + i)
        elif Part is IntSum:
            if not known:
                forest_query(s, &total)
            total_plan(s, &plan, w, values + row, mask, &total, out + i)
            known = True
        else:
            slide_plan(s, &plan, w, values + row, mask, suffixes, prefixes, out + i)
        i += plan.n
        w.back += plan.n
        if w.lo != NULL:
            w.lo += plan.n
            w.hi += plan.n
    if s.split < 0:
        return forest_split(s, s.front, s.back, out)
    return 0


cdef inline int slide_some(
    ForestState* s, const Cell* values, const uint8_t* valid, int64_t first, const Windows* w, int64_t n,
    Part* out,
) except -1 nogil:
    """SOME windows at most, one after the other."""
    cdef int64_t lo[SOME]
    cdef int64_t hi[SOME]
    cdef int64_t i
    for i in range(n):
        lo[i], hi[i] = lo_of(w, i), hi_of(w, i)
    return forest_slide(s, values, valid, first, lo, hi, n, out)


cdef inline int make_room(ForestState* s, int64_t rows, int64_t n, const Part* tag) except -1 nogil:
    """Of windows of so many rows, for many slides at once."""
    while SPAN <= rows <= ROOM // 2 and n >= ROOM and s.back > s.front and s.room < ROOM:
        forest_reserve(s, sizeof(Part))
    return 0


# ----------------------------------------------------------------------------------- what it says

cdef inline int slide_plan(
    ForestState* s, const Plan* plan, const Windows* w, const Cell* values, const uint8_t* valid,
    Part* suffixes, Part* prefixes, Part* out,
) except -1 nogil:
    """values[0] is the next row."""
    cdef Lift how = s.how
    cdef int64_t back = s.back + plan.n
    cdef int k
    s.split = -1
    fetch_ahead(s, plan, out)
    if not plan.period:
        begin_prefixes(s, &plan.backs.stretch[0], out)
    if not plan.rows_first:
        make_suffixes(s, &how, plan, suffixes)
    insert_rows(s, &how, values, valid, plan.n, max(s.front, back - s.room), out)
    if plan.period:
        repeat_suffixes(s, &how, plan, suffixes)
        repeat_prefixes(s, &how, plan, prefixes)
        combine_run(&how, out, 1, suffixes + ((s.back + 1) & (plan.period - 1)), 1,
                    prefixes + (s.back & (plan.period - 1)) + 1, 1, plan.n)
    else:
        if plan.rows_first:
            make_suffixes(s, &how, plan, suffixes)
        for k in range(plan.backs.n):
            if k:
                begin_prefixes(s, &plan.backs.stretch[k], out)
            make_prefixes(s, &how, &plan.backs.stretch[k], back, prefixes)
        for k in range(plan.pieces):
            answer_piece(s, &how, plan, &plan.piece[k], w, suffixes, prefixes, out)
    s.front, s.back = plan.front, back
    return 0


cdef inline int total_plan(
    ForestState* s, const Plan* plan, const Windows* w, const Cell* values, const uint8_t* valid,
    Part* total, Part* out,
) except -1 nogil:
    """The same of sums of integers, with the total before and after."""
    cdef Lift how = s.how
    cdef int64_t back = s.back + plan.n
    s.split = -1
    fetch_ahead(s, plan, out)
    if not plan.rows_first:
        run_totals(s, &how, plan, w, values, valid, total, out)
    insert_rows(s, &how, values, valid, plan.n, max(s.front, back - s.room), out)
    if plan.rows_first:
        run_totals(s, &how, plan, w, values, valid, total, out)
    s.front, s.back = plan.front, back
    return 0


cdef inline int run_totals(
    const ForestState* s, const Lift* how, const Plan* plan, const Windows* w, const Cell* values,
    const uint8_t* valid, Part* total, Part* out,
) except -1 nogil:
    cdef int64_t i = 0, n, front = s.front, many = side_by_side(head_ring(s, 0))
    cdef Part leaf
    if Part is IntSum:
        while i < plan.n:
            n = plan.piece[0].n - i if plan.pieces == 1 and plan.piece[0].step == 1 and valid == NULL else 0
            n = min(n, many - (front & (many - 1)))
            if n > 0 and front == plan.piece[0].begun + i - 1:
                move_totals(<CInt*> &out[i], <const CInt*> head_at(s, 0, front, out),
                            &values[i].i, n, how.source == UINT, <CInt*> total)
                front += n
                i += n
                continue
            while front < front_of(s, w, i):
                total.value -= head_at(s, 0, front, out).value
                front += 1
            if valid == NULL or valid[i]:
                lift(how, &leaf, values[i])
                total.value += leaf.value
            out[i] = total[0]
            i += 1
    return 0


cdef inline void fetch_ahead(const ForestState* s, const Plan* plan, const Part* tag) noexcept nogil:
    """Have the nodes brought into the cache that as many windows once more will want at the front, and
    whose places they will take if the rings are full."""
    cdef int64_t node, stop
    cdef int level
    for level in range(SPAN_LEVEL if s.back - plan.front > FAR and s.heads == NULL else 0):
        node, stop = plan.front >> level, (plan.front + plan.n) >> level
        while node < stop:
            fetch(ring_item(&s.rings[level], node, tag))
            node += max(LINE // <int64_t> sizeof(Part), <int64_t> 1)


cdef inline int64_t side_by_side(const Ring* r) noexcept nogil:
    """How many nodes of a level stand in one place, from a multiple of as many on."""
    return min(r.places, <int64_t> CHUNK_ITEMS)


cdef inline int insert_rows(
    ForestState* s, const Lift* how, const Cell* values, const uint8_t* valid, int64_t n, int64_t oldest,
    const Part* tag,
) except -1 nogil:
    """n rows come in, and the nodes that they complete and that begin at `oldest` or later. The window
    stays what it was."""
    cdef int64_t row = s.back, back = s.back + n, many = side_by_side(&s.rings[0]), step, i
    cdef int level = 1
    cdef Part* x
    while row < back:
        step = min(back - row, many - (row & (many - 1)))
        x = ring_room(&s.rings[0], row, tag)
        if valid == NULL:
            lift_some(how, x, values + (row - s.back), <int> step)
        else:
            for i in range(step):
                if valid[row - s.back + i]:
                    lift(how, &x[i], values[row - s.back + i])
                else:
                    identity(how, &x[i])
        row += step
    while s.back >> level < back >> level:
        raise_level(s.rings, how, level, max(s.back, oldest + (<int64_t> 1 << level) - 1) >> level,
                    back >> level, tag)
        level += 1
    return 0


cdef inline int raise_level(
    Ring* rings, const Lift* how, int level, int64_t node, int64_t stop, const Part* tag
) except -1 nogil:
    """The nodes [node, stop) of a level, of those below."""
    cdef int64_t many, below, step
    cdef const Part* x
    if node >= stop:
        return 0
    many, below = side_by_side(&rings[level]), side_by_side(&rings[level - 1]) >> 1
    while node < stop:
        step = min(min(stop - node, many - (node & (many - 1))), below - (node & (below - 1)))
        x = ring_item(&rings[level - 1], 2 * node, tag)
        combine_run(how, ring_room(&rings[level], node, tag), 1, x, 2, x + 1, 2, step)
        node += step
    return 0


cdef inline int make_suffixes(
    ForestState* s, const Lift* how, const Plan* plan, Part* suffixes
) except -1 nogil:
    cdef int k
    for k in range(plan.fronts.n):
        stretch_suffixes(s, how, &plan.fronts.stretch[k], suffixes)
    return 0


cdef inline int stretch_suffixes(
    ForestState* s, const Lift* how, const Stretch* fronts, Part* suffixes
) except -1 nogil:
    """suffixes[at + i]: from start + i to the split point."""
    cdef Part* out = &suffixes[fronts.at]
    cdef Part* kept = <Part*> s.suffix
    cdef int64_t p = fronts.stop, left = fronts.split - p
    cdef int level
    build_suffix(s, p, fronts.split, out)
    if left:
        copy_part(&out[p - fronts.start], &kept[lowest_bit(left)])
    while p - SPAN >= max(fronts.start, s.front):
        p -= SPAN
        left = fronts.split - p
        level = lowest_bit(left)
        if left & (left - 1):
            combine(how, &kept[level], head_at(s, level, p, out), &kept[lowest_bit(left & (left - 1))])
        else:
            copy_part(&kept[level], head_at(s, level, p, out))
        copy_part(&out[p - fronts.start], &kept[level])
    for level in range(SPAN_LEVEL - 1, -1, -1):
        spread_suffixes(s, how, level, p, fronts.stop, fronts.stop == fronts.split, out + (p - fronts.start))
    # The front has left the beginning of its block, of which not all nodes have to be there.
    while p > max(fronts.start, s.front):
        p -= 1
        level = lowest_bit(p)
        left = p + (<int64_t> 1 << level)
        if left == fronts.split:
            out[p - fronts.start] = head_at(s, level, p, out)[0]
        else:
            combine(how, &out[p - fronts.start], head_at(s, level, p, out), &out[left - fronts.start])
    return 0


cdef inline int spread_suffixes(
    ForestState* s, const Lift* how, int level, int64_t start, int64_t stop, bint empty, Part* out
) except -1 nogil:
    """Those of odd multiples of 2^level, which begin with one node of this level each."""
    cdef const Ring* nodes = head_ring(s, level)
    cdef int64_t node = start >> level, end = stop >> level, many = side_by_side(nodes), step
    cdef int64_t wide = <int64_t> 2 << level
    cdef const Part* x
    if empty and node < end:    # the last one is a node and nothing more
        end -= 2
        out[stop - start - (wide >> 1)] = ring_item(nodes, end + 1, out)[0]
    while node < end:
        step = min(end - node, many - (node & (many - 1))) >> 1
        x = ring_item(nodes, node, out) + 1
        combine_run(how, out + (wide >> 1), wide, x, 2, out + wide, wide, step)
        out += step * wide
        node += 2 * step
    return 0


cdef inline int begin_prefixes(ForestState* s, const Stretch* backs, const Part* tag) except -1 nogil:
    return build_prefix(s, backs.split, backs.start, tag)


cdef inline int make_prefixes(
    ForestState* s, const Lift* how, const Stretch* backs, int64_t back, Part* prefixes
) except -1 nogil:
    """prefixes[at + i]: from the split point to start + i, which is `back` at most. They have begun."""
    cdef Part* out = &prefixes[backs.at]
    cdef Part* kept = <Part*> s.prefix
    cdef int64_t p = backs.start, stop = min(backs.stop, back + 1), right = p - backs.split
    cdef int level
    cdef bint alone = right == 0
    if right:
        copy_part(&out[0], &kept[lowest_bit(right)])
    while p + SPAN < stop:
        p += SPAN
        right = p - backs.split
        level = lowest_bit(right)
        if right & (right - 1):
            combine(how, &kept[level], &kept[lowest_bit(right & (right - 1))],
                    node_at(s, level, p - (<int64_t> 1 << level), out))
        else:
            copy_part(&kept[level], node_at(s, level, p - (<int64_t> 1 << level), out))
        copy_part(&out[p - backs.start], &kept[level])
    for level in range(SPAN_LEVEL - 1, -1, -1):
        spread_prefixes(s, how, level, backs.start, stop - 1, alone, out)
    return 0


cdef inline int spread_prefixes(
    ForestState* s, const Lift* how, int level, int64_t start, int64_t last, bint empty, Part* out
) except -1 nogil:
    """Those of odd multiples of 2^level up to `last`, which end with one node of this level each."""
    cdef int64_t node = start >> level, many = side_by_side(&s.rings[level]), step
    cdef int64_t wide = <int64_t> 2 << level, end = ((last >> level) + 1) & -2
    cdef const Part* x
    if empty and node < end:    # the first one is a node and nothing more
        out[wide >> 1] = ring_item(&s.rings[level], node, out)[0]
        out += wide
        node += 2
    while node < end:
        step = min(end - node, many - (node & (many - 1))) >> 1
        x = ring_item(&s.rings[level], node, out)
        combine_run(how, out + (wide >> 1), wide, out, wide, x, 2, step)
        out += step * wide
        node += 2 * step
    return 0


cdef inline int answer_piece(
    const ForestState* s, const Lift* how, const Plan* plan, const Piece* piece, const Windows* w,
    const Part* suffixes, const Part* prefixes, Part* out,
) except -1 nogil:
    cdef const Stretch* fronts = &plan.fronts.stretch[piece.front]
    cdef const Stretch* backs = &plan.backs.stretch[piece.back]
    cdef int64_t i = piece.first, stop = i + piece.n
    cdef int64_t suffix = fronts.at - fronts.start, prefix = backs.at - backs.start + s.back + 1
    if backs.start == backs.split and s.back + 1 + i == backs.start:
        out[i] = suffixes[suffix + piece.begun]
        i += 1
    if piece.step >= 0:
        suffix += piece.begun + (i - piece.first) * piece.step
        return combine_run(how, out + i, 1, suffixes + suffix, piece.step, prefixes + prefix + i, 1, stop - i)
    while i < stop:
        combine(how, &out[i], &suffixes[suffix + front_of(s, w, i)], &prefixes[prefix + i])
        i += 1
    return 0


# ---------------------------------------------------------------- a split point every 2^k rows

cdef inline bint may_repeat(const Part* tag) noexcept nogil:
    """Whether there is a partial that leaves every other as it is, to the last bit."""
    return not (Part is Moments or Part is Products or Part is Runs)


cdef inline int nothing(const Lift* how, Part* out) except -1 nogil:
    """That partial; it leaves -0.0 as it is, too."""
    if Part is FloatSum:
        out.hi = out.lo = -0.0
        return 0
    else:
        return identity(how, out)


cdef inline int repeat_suffixes(ForestState* s, const Lift* how, const Plan* plan, Part* out) except -1 nogil:
    """out[i]: from the last split point before the first front, and i rows more, to the next split point."""
    cdef int64_t start = (s.back + 1 - plan.period) & -plan.period
    cdef int64_t n = (plan.front & -plan.period) + plan.period - start, i
    cdef int level = highest_bit(plan.period), below
    repeat_nothing(how, plan.period, n, out)
    for below in range(level - 1, -1, -1):
        spread_suffixes(s, how, below, start, start + n, False, out)
    i = 0
    while i < n:
        copy_part(&out[i], node_at(s, level, start + i, out))
        i += plan.period
    return 0


cdef inline int repeat_prefixes(ForestState* s, const Lift* how, const Plan* plan, Part* out) except -1 nogil:
    """out[i]: from the last split point before the back, or a later one, to i rows after the former."""
    cdef int64_t start = s.back & -plan.period, n = s.back + plan.n - start
    cdef int below
    repeat_nothing(how, plan.period, n, out)
    for below in range(highest_bit(plan.period) - 1, -1, -1):
        spread_prefixes(s, how, below, start, start + n, False, out)
    return 0


cdef inline int repeat_nothing(const Lift* how, int64_t period, int64_t n, Part* out) except -1 nogil:
    cdef int64_t i = 0
    while i <= n:
        nothing(how, &out[i])
        i += period
    return 0
