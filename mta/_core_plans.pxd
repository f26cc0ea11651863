# cython: language_level=3
"""Which slides of a forest can be made at once, and of what; see ``_core_blocks.pxd``."""
from libc.stdint cimport int64_t

from mta._core cimport ForestState, highest_bit


cdef extern from "_simd.h":
    bint is_steady "mta_is_steady"(const int64_t* lo, const int64_t* hi, int64_t n) nogil


cdef enum:
    SPAN = 16          # rows of a block,
    SPAN_LEVEL = 4     # a node of this level
    MOST = 256         # slides at once
    ROOM = 512         # leaves that smaller windows have places for, if they slide on by as many rows
    SLOTS = MOST + 9 * SPAN
    PERIOD = 64        # rows at most of windows that have a split point each time as many rows have come
    STRETCHES = 8
    PIECES = 16


cdef struct Windows:
    # Window i are the rows [lo[i], hi[i]); or, where these are NULL, the last `keep` of the first back + i,
    # from `front` on.
    const int64_t* lo
    const int64_t* hi
    int64_t keep
    int64_t back
    int64_t front


cdef struct Stretch:
    # Fronts or backs of one split point, whose partials stand side by side.
    int64_t start, stop    # multiples of 16
    int64_t split
    int64_t at             # the slot of `start`


cdef struct Side:
    Stretch stretch[STRETCHES]
    int n
    int64_t slots          # taken


cdef struct Piece:
    # Windows whose fronts are of one stretch, and their backs of one.
    int64_t first, n
    int64_t step           # of the fronts: 0 or 1; -1: any
    int64_t begun          # the front of the first
    int front, back        # numbers of the stretches


cdef struct Plan:
    Side fronts
    Side backs
    Piece piece[PIECES]
    int pieces
    bint rows_first        # there is room for what comes in beside what leaves
    int64_t n              # windows
    int64_t front          # of the last of them
    int64_t period         # they have a split point every so many rows; 0: those of the stretches


cdef inline int64_t lo_of(const Windows* w, int64_t i) noexcept nogil:
    return w.lo[i] if w.lo != NULL else max(w.back + i - w.keep, w.front)


cdef inline int64_t hi_of(const Windows* w, int64_t i) noexcept nogil:
    return w.hi[i] if w.hi != NULL else w.back + i


cdef inline int64_t front_of(const ForestState* s, const Windows* w, int64_t i) noexcept nogil:
    """Of window i; none goes back."""
    return max(lo_of(w, i) - s.base, s.front)


cdef inline void make_plan(
    const ForestState* s, const Windows* w, int64_t n, bint may_repeat, bint subtracts, Plan* plan
) noexcept nogil:
    """How many of the next windows can be had at once, and of what.

    If there is room, their rows come in first. Otherwise these may take the places of what leaves, so
    that the suffixes are made before: they have to end at rows that are inside already. And of what the
    prefixes are made of, nothing may be lost.
    """
    cdef int64_t i = 0, front, back, split, bound, kept, most, run, step, last, any_run
    cdef int64_t spare = s.room - (s.back - s.front)
    plan.pieces = plan.fronts.n = plan.fronts.slots = plan.backs.n = plan.backs.slots = 0
    plan.period = 0
    plan.rows_first = spare >= min(n, <int64_t> MOST // 4)
    most = min(min(n, <int64_t> MOST), spare if plan.rows_first else (s.room >> 1) - SPAN)
    if most > PERIOD:    # blocks that begin inside are easier
        most -= (s.back + most) & (PERIOD - 1)
    if subtracts and plan_total(s, w, most, plan):
        return
    if may_repeat and plan.rows_first and s.heads == NULL and not subtracts and plan_period(s, w, most, plan):
        return
    kept = s.back + most - s.room    # rows before may be lost, if they do not come first
    while i < most and plan.fronts.n < STRETCHES and plan.backs.n < STRETCHES and plan.pieces < PIECES:
        front, back = front_of(s, w, i), s.back + 1 + i
        run = min(most - i, SLOTS - 2 * SPAN - max(plan.fronts.slots, plan.backs.slots))
        if hi_of(w, i) - s.base != back or back - front < SPAN or run <= 0:
            break
        split = back >> highest_bit(front ^ back) << highest_bit(front ^ back)
        bound = split + (split & -split)    # has more low zeros
        run = min(run, bound - back)
        any_run = run
        step = front_of(s, w, i + 1) - front if run > 1 else 1
        if step == 1:
            run = min(run, split - front)
        if not plan.rows_first:
            if split > s.back or (front | (SPAN - 1)) >= s.back or back - front > s.room:
                break
            if i and split < kept:
                break
            run = min(run, (s.back & -SPAN) - front if step == 1 else s.room + 1 - (back - front))
        run = steady(s, w, i, run, step)
        step = 0 if step == 0 else 1
        last = front + (run - 1) * step
        if run < SPAN and w.lo != NULL:
            run = uneven(s, w, i, any_run, split if plan.rows_first else min(split, s.back & -SPAN), &last)
            step = -1
        place(&plan.fronts, front, last, split)
        # The first one begins with a block that is inside.
        place(&plan.backs, back if i or split == back else back - 1, back + run - 1, split)
        join_piece(plan, i, run, step, front)
        plan.front = last
        i += run
    plan.n = i


cdef inline bint plan_period(const ForestState* s, const Windows* w, int64_t most, Plan* plan) noexcept nogil:
    """Whether the windows have 2^k rows: between two multiples of 2^k a front has the second one as its
    split point, and a back has the first one."""
    cdef int64_t front = front_of(s, w, 0), rows = s.back + 1 - front
    if rows < SPAN or rows > PERIOD or rows & (rows - 1) or most < PERIOD or s.front > (front & -rows):
        return False
    if hi_of(w, 0) - s.base != s.back + 1 or steady(s, w, 0, most, 1) < most:
        return False
    plan.period, plan.n = rows, most
    plan.front = front + most - 1
    return True


cdef inline bint plan_total(const ForestState* s, const Windows* w, int64_t most, Plan* plan) noexcept nogil:
    """Whether the windows move on by one row at either end, if split points do not matter."""
    cdef int64_t front = front_of(s, w, 0)
    if most < 2 or hi_of(w, 0) - s.base != s.back + 1 or s.back + 1 - front < SPAN:
        return False
    if front_of(s, w, 1) - front != 1:
        return False
    if not plan.rows_first:    # what leaves has to be inside, and the rings to hold what stays
        if s.back + 1 - front > s.room:
            return False
        most = min(most, s.back + 1 - front)
    if steady(s, w, 0, most, 1) < most:
        return False
    plan.n = most
    join_piece(plan, 0, most, 1, front)
    plan.front = front + most - 1
    return True


cdef inline int64_t steady(
    const ForestState* s, const Windows* w, int64_t i, int64_t n, int64_t step
) noexcept nogil:
    """How many of n windows from i on move on by one row at the back and by `step`, if that is 0 or 1, at
    the front."""
    cdef int64_t k = 1, front
    if step & -2:
        return 1
    if w.lo == NULL:
        front = w.back + i - w.keep - s.base
        if step:
            return n if front >= s.front else 1
        return min(n, s.front - front + 1)
    if step == 1 and is_steady(w.lo + i, w.hi + i, n):
        return n
    front = front_of(s, w, i)
    while k < n and w.hi[i + k] - w.hi[i] == k and front_of(s, w, i + k) - front == (k & -step):
        k += 1
    return k


cdef inline int64_t uneven(
    const ForestState* s, const Windows* w, int64_t i, int64_t n, int64_t bound, int64_t* last
) noexcept nogil:
    """How many of n windows from i on have fronts before `bound` and each in the block of the one before
    or in the next; the front of the last of them. None is larger than the rings."""
    cdef int64_t k = 1, front = front_of(s, w, i), begun = front, hi = w.hi[i], next_one
    while k < n and w.hi[i + k] == hi + k:
        next_one = front_of(s, w, i + k)
        if (next_one >= bound or next_one - front > SPAN or next_one - begun > n
                or hi + k - s.base - next_one > s.room or hi + k - s.base - next_one < SPAN):
            break
        front = next_one
        k += 1
    last[0] = front
    return k


cdef inline void place(Side* side, int64_t first, int64_t last, int64_t split) noexcept nogil:
    """Have slots for the blocks of these positions, and for where the last one ends."""
    cdef Stretch* to = &side.stretch[side.n - 1]
    cdef int64_t stop = (last & -SPAN) + SPAN
    if not side.n or to.split != split or first < to.start or first > to.stop:
        to = &side.stretch[side.n]
        to.start = to.stop = first & -SPAN
        to.split, to.at = split, side.slots
        side.n += 1
        side.slots += 1
    if stop > to.stop:
        side.slots += stop - to.stop
        to.stop = stop


cdef inline void join_piece(Plan* plan, int64_t i, int64_t n, int64_t step, int64_t front) noexcept nogil:
    """The n windows from i on, which have been placed, go with those before them or are a piece."""
    cdef Piece* last = &plan.piece[plan.pieces - 1]
    if plan.pieces and last.front == plan.fronts.n - 1 and last.back == plan.backs.n - 1:
        if step != last.step or step < 0 or front != plan.front + step:
            last.step = -1
        last.n += n
        return
    last = &plan.piece[plan.pieces]
    last.first, last.n, last.step, last.begun = i, n, step, front
    last.front, last.back = plan.fronts.n - 1, plan.backs.n - 1
    plan.pieces += 1
