# cython: language_level=3
"""Recompute, Subtract-on-Evict, Two-Stacks, DABA and DABA Lite: lists of partials.

Two-Stacks is a list whose part [front, mid) has been turned into suffix aggregates: item i stands
for [i, mid). DABA turns it a little with every call. Tangwongsan, Hirzel, Schneider, In-order
sliding-window aggregation in worst-case constant time, VLDB Journal 2021, §3 (the baselines), §4
(DABA) and §5 (DABA Lite).
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport malloc

from mta._fifo_state cimport (
    NAMED, TAIL, WHOLE, FifoState, clear_lists, item, named, put, put_value,
)
from mta._monoids cimport IntSum, Part, combine, identity
from mta._rings cimport ring_item


# ------------------------------------------------------------------ Subtract-on-Evict

cdef inline int subtract_insert(FifoState* s, const Part* leaf) except -1 nogil:
    put(s, &s.items, leaf)
    combine(&s.how, named(s, TAIL, leaf), named(s, TAIL, leaf), leaf)
    s.back += 1
    return 0


cdef inline int subtract_evict_to(FifoState* s, int64_t to, const Part* tag) except -1 nogil:
    if Part is IntSum:    # the one with an inverse
        while s.front < to:
            named(s, TAIL, tag).value -= item(s, s.front, tag).value
            s.front += 1
    return 0


# ------------------------------------------------------------------------- Two-Stacks

cdef inline int stacks_insert(FifoState* s, const Part* leaf) except -1 nogil:
    cdef Part tail
    put_value(s, &tail, leaf)
    named(s, TAIL, leaf)[0] = tail
    s.back += 1
    return 0


cdef inline int stacks_turn(FifoState* s, int64_t to, const Part* tag) except -1 nogil:
    """Make suffix aggregates of the items [to, left); after an error, the next call goes on."""
    while s.left > to:
        combine(&s.how, item(s, s.left - 1, tag), item(s, s.left - 1, tag), item(s, s.left, tag))
        s.left -= 1
    return 0


cdef inline int stacks_evict_to(FifoState* s, int64_t to, const Part* tag) except -1 nogil:
    if to == s.back:
        clear_lists(s)
        return 0
    if to > s.mid or s.front == s.mid:    # the front stack is used up: flip
        s.mid = s.back
        s.left = s.back - 1
    stacks_turn(s, to, tag)
    s.front = to
    return 0


cdef inline int stacks_query(FifoState* s, Part* out) except -1 nogil:
    if s.front == s.back:
        return identity(&s.how, out)
    if s.front == s.mid:
        out[0] = named(s, TAIL, out)[0]
        return 0
    stacks_turn(s, s.front, out)
    if s.mid == s.back:
        out[0] = item(s, s.front, out)[0]
        return 0
    return combine(&s.how, out, item(s, s.front, out), named(s, TAIL, out))


# ------------------------------------------------------------------------------- DABA
#
# front <= left <= right <= accum <= mid <= back. Item i stands for
#   [i, mid)     where front <= i < left,
#   [i, right)   where left <= i < right,
#   [right, i]   where right <= i < accum (DABA; DABA Lite: the value alone),
#   [i, mid)     where accum <= i < mid,
#   [mid, i]     where mid <= i < back (DABA; DABA Lite: the value alone),
# so that the first item stands for the front list [front, mid) at any time. Unless all are equal,
#   right - left == accum - right  and  mid - left + 1 == (mid - front) - (back - mid):
# the front list is turned just when the back list has become as long.

cdef inline int daba_insert(FifoState* s, const Part* leaf) except -1 nogil:
    cdef Part grown = leaf[0]
    if s.mid < s.back:
        combine(&s.how, &grown, item(s, s.back - 1, leaf), leaf)
    put(s, &s.items, &grown)
    put(s, &s.values, leaf)
    return daba_fix(s, s.front, s.back + 1, leaf)


cdef inline int daba_evict(FifoState* s, const Part* tag) except -1 nogil:
    return daba_fix(s, s.front + 1, s.back, tag)


cdef inline int daba_fix(FifoState* s, int64_t front, int64_t back, const Part* tag) except -1 nogil:
    """Make the window [front, back), and one step of turning the front list: 3 combines at most."""
    cdef int64_t left = s.left, right = s.right, accum = s.accum, mid = s.mid
    cdef Part one, two
    if front == mid:
        left = right = accum = mid = back
    else:
        if left == mid:    # flip
            left = front
            accum = mid = back
        if left == right:
            left += 1
            right += 1
            accum += 1
        else:
            one = item(s, left, tag)[0]
            combine(&s.how, &one, &one, item(s, accum - 1, tag))
            two = ring_item(&s.values, accum - 1, tag)[0]
            if accum < mid:
                combine(&s.how, &one, &one, item(s, accum, tag))
                combine(&s.how, &two, &two, item(s, accum, tag))
            item(s, left, tag)[0] = one
            left += 1
            accum -= 1
            item(s, accum, tag)[0] = two
    s.front, s.back = front, back
    s.left, s.right, s.accum, s.mid = left, right, accum, mid
    return 0


cdef inline int daba_query(const FifoState* s, Part* out) except -1 nogil:
    if s.front == s.back:
        return identity(&s.how, out)
    out[0] = item(s, s.front, out)[0]
    if s.mid == s.back:
        return 0
    return combine(&s.how, out, out, item(s, s.back - 1, out))


cdef inline int daba_evict_to(FifoState* s, int64_t to, const Part* tag) except -1 nogil:
    while s.front < to:
        daba_evict(s, tag)
    return 0


# -------------------------------------------------------------------------- DABA Lite

cdef inline int lite_insert(FifoState* s, const Part* leaf) except -1 nogil:
    cdef Part tail
    put_value(s, &tail, leaf)
    return lite_fix(s, s.front, s.back + 1, &tail)


cdef inline int lite_evict(FifoState* s, const Part* tag) except -1 nogil:
    cdef Part tail = named(s, TAIL, tag)[0]
    return lite_fix(s, s.front + 1, s.back, &tail)


cdef inline int lite_fix(FifoState* s, int64_t front, int64_t back, const Part* tail) except -1 nogil:
    """The same with 2 combines at most: while the two halves of the front list shrink, the second
    and what follows it stay [right, mid), whose aggregate is `whole`."""
    cdef int64_t left = s.left, right = s.right, accum = s.accum, mid = s.mid
    cdef const Part* whole = named(s, WHOLE, tail)
    cdef Part one, two
    if front == mid:
        left = right = accum = mid = back
    else:
        if left == mid:    # flip
            left = front
            accum = mid = back
            whole = tail
        if left == right:
            left += 1
            right += 1
            accum += 1
        else:
            one = item(s, left, tail)[0]
            combine(&s.how, &one, &one, whole)
            two = item(s, accum - 1, tail)[0]
            if accum < mid:
                combine(&s.how, &two, &two, item(s, accum, tail))
            item(s, left, tail)[0] = one
            left += 1
            accum -= 1
            item(s, accum, tail)[0] = two
    if whole == tail:
        named(s, WHOLE, tail)[0] = tail[0]
    named(s, TAIL, tail)[0] = tail[0]
    s.front, s.back = front, back
    s.left, s.right, s.accum, s.mid = left, right, accum, mid
    return 0


cdef inline int lite_evict_to(FifoState* s, int64_t to, const Part* tag) except -1 nogil:
    while s.front < to:
        lite_evict(s, tag)
    return 0


cdef inline int lite_query(const FifoState* s, Part* out) except -1 nogil:
    if s.front == s.back:
        return identity(&s.how, out)
    if s.mid == s.back:
        out[0] = item(s, s.front, out)[0]
        return 0
    return combine(&s.how, out, item(s, s.front, out), named(s, TAIL, out))


# ---------------------------------------------------------- many evictions, whole or not at all

cdef inline Part* lists_saved(const FifoState* s, FifoState* saved, const Part* tag) except NULL nogil:
    """The items, and the fields in `saved`; for `lists_restore`, or to be freed."""
    cdef Part* items = <Part*> malloc((NAMED + s.back - s.front) * sizeof(Part))
    cdef int64_t i
    if items == NULL:
        with gil:
            raise MemoryError()
    saved[0] = s[0]
    for i in range(NAMED):
        items[i] = named(s, i, tag)[0]
    for i in range(s.front, s.back):
        items[NAMED + i - s.front] = item(s, i, tag)[0]
    return items


cdef inline void lists_restore(FifoState* s, const FifoState* saved, const Part* items) noexcept nogil:
    cdef int64_t i
    s[0] = saved[0]
    for i in range(NAMED):
        named(s, i, items)[0] = items[i]
    for i in range(s.front, s.back):
        item(s, i, items)[0] = items[NAMED + i - s.front]
