"""Bounds: every row's window as an interval [lo, hi) of sorted rows.

Rows are sorted by key and time; lo and hi never fall, across keys too, since a new key starts where
the old one ends. The kernels take bounds a chunk at a time, so they are never whole arrays.
"""
from libc.stdint cimport INT64_MIN, int64_t
from libc.string cimport memcpy

import numpy as np


cdef class Bounds:
    """Intervals of rows, produced in order.

    offsets : key g has the rows offsets[g]..offsets[g + 1]
    every : a window at every so many rows of a key only
    """

    cdef int fill(self, int64_t start, int64_t n, int64_t* lo, int64_t* hi) except -1 nogil:
        """lo and hi of the rows start..start + n, which follow those asked for last."""
        cdef int64_t row = start, stop
        if start == 0:
            self.group = 0
        while row < start + n:
            while self.offsets[self.group + 1] <= row:
                self.group += 1
            stop = min(self.offsets[self.group + 1], start + n)
            self.fill_group(row, stop, self.offsets[self.group], self.offsets[self.group + 1],
                            lo - start, hi - start)
            row = stop
        return 0

    cdef int fill_group(self, int64_t start, int64_t stop, int64_t begin, int64_t end,
                        int64_t* lo, int64_t* hi) except -1 nogil:
        """lo[start..stop) and hi[start..stop) for rows of the key begin..end."""
        with gil:
            raise NotImplementedError

    @property
    def include_self(self):
        """Whether every row is in its own window, so that none is empty."""
        return False

    cdef int64_t next(self, int64_t start, int64_t n, int64_t* lo, int64_t* hi) except -1 nogil:
        """The windows that end at the rows start..start + n: one each, or one at every `every`-th
        row of a key. Returns how many."""
        self.fill(start, n, lo, hi)
        if self.every == 1:
            return n
        return self.pick(start, n, lo, hi)

    cdef int64_t pick(self, int64_t start, int64_t n, int64_t* lo, int64_t* hi) noexcept nogil:
        cdef int64_t i, kept = 0, group = self.picked
        if start == 0:
            group = 0
        for i in range(n):
            while self.offsets[group + 1] <= start + i:
                group += 1
            if (start + i - self.offsets[group] + 1) % self.every == 0:
                lo[kept] = lo[i]
                hi[kept] = hi[i]
                kept += 1
        self.picked = group
        return kept

    def arrays(self):
        """All of them, as two arrays."""
        lo_array, hi_array = np.empty(self.rows, np.int64), np.empty(self.rows, np.int64)
        cdef int64_t[::1] lo = lo_array, hi = hi_array
        cdef int64_t n = 0
        if self.rows:
            n = self.next(0, self.rows, &lo[0], &hi[0])
        return lo_array[:n], hi_array[:n]


cdef int keep_offsets(Bounds bounds, const int64_t[::1] offsets, int64_t every) except -1:
    bounds.offsets = &offsets[0]
    bounds.groups = offsets.shape[0] - 1
    bounds.rows = offsets[bounds.groups]
    bounds.every = every
    return 0


cdef class GivenBounds(Bounds):
    """Windows that are known already: [lo[i], hi[i])."""

    def __cinit__(self, const int64_t[::1] lo, const int64_t[::1] hi):
        self.owner = (lo, hi)
        self.every = 1
        self.rows = lo.shape[0]
        if self.rows:
            self.lo = &lo[0]
            self.hi = &hi[0]

    cdef int fill(self, int64_t start, int64_t n, int64_t* lo, int64_t* hi) except -1 nogil:
        memcpy(lo, self.lo + start, n * sizeof(int64_t))
        memcpy(hi, self.hi + start, n * sizeof(int64_t))
        return 0


cdef class RowBounds(Bounds):
    """Row windows: row i's is [i + first, i + last), cut to its key's rows.

    Examples
    --------
    >>> import numpy as np
    >>> RowBounds(np.array([0, 2, 4]), -1, 1).arrays()[0].tolist()
    [0, 0, 2, 2]
    """

    def __cinit__(self, offsets, int64_t first, int64_t last, int64_t every=1):
        self.owner = offsets
        keep_offsets(self, offsets, every)
        self.first = first
        self.last = last

    @property
    def include_self(self):
        return self.first <= 0 < self.last

    cdef int fill_group(self, int64_t start, int64_t stop, int64_t begin, int64_t end,
                        int64_t* lo, int64_t* hi) except -1 nogil:
        cdef int64_t i
        for i in range(start, stop):
            hi[i] = clamp(i, self.last, begin, end)
            lo[i] = min(clamp(i, self.first, begin, end), hi[i])
        return 0


cdef inline int64_t clamp(int64_t i, int64_t by, int64_t begin, int64_t end) noexcept nogil:
    """i + by within [begin, end], without overflow."""
    if by < begin - i:
        return begin
    return end if by > end - i else i + by


cdef class TimeBounds(Bounds):
    """Time windows over each key's sorted times: (t - lag - span, t - lag] and its variants.

    span : ticks, or None for everything so far
    lag : ticks, may be negative
    left, right : whether the edges are closed
    arrival : rows of one time see only those before them (needs lag 0); `right` then says whether
        a row sees itself
    """

    def __cinit__(self, const int64_t[::1] ts, offsets, span, lag, bint left, bint right, bint arrival,
                  int64_t every=1):
        self.owner = (ts, offsets)
        keep_offsets(self, offsets, every)
        self.ts = &ts[0] if ts.shape[0] else NULL
        self.edges = make_edges(span, lag, left, right, arrival)

    @property
    def include_self(self):
        return self.edges.upper == 0 and self.edges.right

    cdef int fill_group(self, int64_t start, int64_t stop, int64_t begin, int64_t end,
                        int64_t* lo, int64_t* hi) except -1 nogil:
        if start == begin:
            self.edges.first = self.edges.last = self.edges.ties = begin
        find_edges(&self.edges, self.ts, start, stop, end, True, lo, hi)
        return 0


def next_bounds(const int64_t[::1] ts, int64_t start, int64_t first, int64_t last, span, lag,
                bint left, bint right, bint arrival, bint final, int64_t stop=-1):
    """The bounds of one key whose rows come bit by bit, from row `start` on: (lo, hi).

    ts : times known so far, from the first row that a window may still need
    first, last : where the two edges stand, as places in `ts` (as is `start`)
    final : no rows will follow; else only rows whose window can't grow any more are answered
    stop : up to this row no window can grow, whatever follows (-1: unknown)
    """
    cdef int64_t last_row = stop if stop >= 0 else ts.shape[0]
    cdef int64_t n = last_row - start, done = 0
    lo_array, hi_array = np.empty(max(n, 0), np.int64), np.empty(max(n, 0), np.int64)
    cdef int64_t[::1] lo = lo_array, hi = hi_array
    cdef Edges edges = make_edges(span, lag, left, right, arrival)
    edges.first = first
    edges.last = last
    edges.ties = start
    if n > 0:
        with nogil:
            done = find_edges(&edges, &ts[0], start, last_row, ts.shape[0], final or stop >= 0,
                              &lo[0] - start, &hi[0] - start)
    return lo_array[:done], hi_array[:done]


cdef Edges make_edges(span, lag, bint left, bint right, bint arrival):
    cdef Edges edges
    edges.upper = <int128> <int64_t> lag
    edges.lower = edges.upper + <int128> <int64_t> (0 if span is None else span)
    edges.unbounded = span is None
    edges.left = left
    edges.right = right
    edges.arrival = arrival
    edges.first = edges.last = edges.ties = 0
    return edges


cdef int64_t find_edges(Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                        bint final, int64_t* lo, int64_t* hi) noexcept nogil:
    """Two pointers over the times ts[..end): bounds of the rows start..stop, or of those of them
    that are certain. Returns how many rows have their bounds."""
    if e.upper == 0 and ts[start] >= INT64_MIN + <int64_t> e.lower:
        return find_plain_edges(e, ts, start, stop, end, final, lo, hi)
    return find_any_edges(e, ts, start, stop, end, final, lo, hi)


cdef int64_t find_plain_edges(Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                              bint final, int64_t* lo, int64_t* hi) noexcept nogil:
    """No lag, and no edge before the first tick of int64: 64-bit arithmetic does."""
    cdef int64_t row
    find_ends(e, ts, start, stop, end, hi)
    if e.right and not e.arrival and not final:
        # More rows of the last time may come.
        while stop > start and hi[stop - 1] == end:
            stop -= 1
    if stop == start:
        return 0
    e.last = hi[stop - 1]
    if e.unbounded:
        for row in range(start, stop):
            lo[row] = min(e.first, hi[row])
        return stop - start
    find_fronts(e, ts, start, stop, end, lo)
    for row in range(start, stop):
        lo[row] = min(lo[row], hi[row])
    return stop - start


cdef void find_ends(Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                    int64_t* hi) noexcept nogil:
    """hi of the rows start..stop: after the last row of the same time, before the first, or by place."""
    cdef int64_t row, last
    if e.arrival:
        for row in range(start, stop):
            hi[row] = row + e.right
    elif e.right:
        if e.ties < stop:
            e.ties = stop
            while e.ties < end and ts[e.ties] == ts[stop - 1]:
                e.ties += 1
        last = e.ties
        for row in range(stop - 1, start - 1, -1):
            hi[row] = last
            last = last if row > start and ts[row - 1] == ts[row] else row
    else:
        # Rows of the first time may have been answered already; its first row is where `last` stands.
        last = e.last if e.last < start and ts[e.last] == ts[start] else start
        for row in range(start, stop):
            if row > start and ts[row - 1] != ts[row]:
                last = row
            hi[row] = last


cdef void find_fronts(Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                      int64_t* lo) noexcept nogil:
    """lo of the rows start..stop: the first time that is not before t - span.

    How many rows leave at a step is what a processor can't foresee, so the front moves without
    branches. Each step then waits for the one before; four parts of the rows go side by side, their
    fronts found by bisection. (All bounds, measured, ns a row: 14 with branches, 4.6 without, 3.9 in four parts.)
    """
    cdef int64_t span = <int64_t> e.lower - (not e.left)    # rows of times before t - span leave
    cdef int64_t part = (stop - start) // 4, i
    cdef int64_t f = e.first, f1, f2, f3
    cdef const int64_t* t = ts + start
    cdef int64_t* out = lo + start
    if part >= LONG_PART:
        f1 = bisect(ts, f, end, t[part] - span)
        f2 = bisect(ts, f1, end, t[2 * part] - span)
        f3 = bisect(ts, f2, end, t[3 * part] - span)
        for i in range(part):
            f = advance(ts, f, end, t[i] - span)
            f1 = advance(ts, f1, end, t[part + i] - span)
            f2 = advance(ts, f2, end, t[2 * part + i] - span)
            f3 = advance(ts, f3, end, t[3 * part + i] - span)
            out[i] = f
            out[part + i] = f1
            out[2 * part + i] = f2
            out[3 * part + i] = f3
        f = f3
        start += 4 * part
    for i in range(start, stop):
        f = advance(ts, f, end, ts[i] - span)
        lo[i] = f
    e.first = f


cdef enum:
    LONG_PART = 32     # below, three bisections cost more than they save


cdef inline int64_t advance(const int64_t* ts, int64_t f, int64_t end, int64_t edge) noexcept nogil:
    """The first place from f on whose time is not before `edge`."""
    cdef int64_t step = 4
    while step == 4 and f + 4 <= end:
        step = (ts[f] < edge) + (ts[f + 1] < edge) + (ts[f + 2] < edge) + (ts[f + 3] < edge)
        f += step
    if f + 4 > end:
        while f < end and ts[f] < edge:
            f += 1
    return f


cdef int64_t bisect(const int64_t* ts, int64_t low, int64_t high, int64_t edge) noexcept nogil:
    """The same by bisection."""
    cdef int64_t middle
    while low < high:
        middle = low + (high - low) // 2
        if ts[middle] < edge:
            low = middle + 1
        else:
            high = middle
    return low


cdef int64_t find_any_edges(Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                            bint final, int64_t* lo, int64_t* hi) noexcept nogil:
    cdef int64_t i
    for i in range(start, stop):
        if e.arrival:
            e.last = i + e.right
        else:
            while e.last < end and is_before(ts[e.last], <int128> ts[i] - e.upper, e.right):
                e.last += 1
            if e.last == end and not final:
                return i - start
        if not e.unbounded:
            while e.first < end and is_before(ts[e.first], <int128> ts[i] - e.lower, not e.left):
                e.first += 1
        hi[i] = e.last
        lo[i] = min(e.first, e.last)
    return stop - start


cdef inline bint is_before(int64_t t, int128 edge, bint inclusive) noexcept nogil:
    return <int128> t <= edge if inclusive else <int128> t < edge
