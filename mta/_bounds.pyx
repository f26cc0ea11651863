"""Bounds: every row's window as an interval [lo, hi) of sorted rows.

Rows are sorted by key and time; lo and hi never fall, across keys too, since a new key starts where
the old one ends. The kernels take bounds a chunk at a time, so they are never whole arrays.
"""
from libc.stdint cimport INT64_MIN, int64_t

import numpy as np


cdef class Bounds:
    """Intervals of rows, produced in order.

    offsets : key g has the rows offsets[g]..offsets[g + 1]
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

    def arrays(self):
        """All of them, as two arrays."""
        lo_array, hi_array = np.empty(self.rows, np.int64), np.empty(self.rows, np.int64)
        cdef int64_t[::1] lo = lo_array, hi = hi_array
        if self.rows:
            self.fill(0, self.rows, &lo[0], &hi[0])
        return lo_array, hi_array


cdef int keep_offsets(Bounds bounds, const int64_t[::1] offsets) except -1:
    bounds.offsets = &offsets[0]
    bounds.groups = offsets.shape[0] - 1
    bounds.rows = offsets[bounds.groups]
    return 0


cdef class RowBounds(Bounds):
    """Row windows: row i's is [i + first, i + last), cut to its key's rows.

    Examples
    --------
    >>> import numpy as np
    >>> RowBounds(np.array([0, 2, 4]), -1, 1).arrays()[0].tolist()
    [0, 0, 2, 2]
    """

    def __cinit__(self, offsets, int64_t first, int64_t last):
        self.owner = offsets
        keep_offsets(self, offsets)
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

    def __cinit__(self, const int64_t[::1] ts, offsets, span, lag, bint left, bint right, bint arrival):
        self.owner = (ts, offsets)
        keep_offsets(self, offsets)
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
                bint left, bint right, bint arrival, bint final):
    """The bounds of one key whose rows come bit by bit, from row `start` on: (lo, hi).

    ts : times known so far, from the first row that a window may still need
    first, last : where the two edges stand, as places in `ts` (as is `start`)
    final : no rows will follow; else only rows whose window can't grow any more are answered
    """
    cdef int64_t n = ts.shape[0] - start, done = 0
    lo_array, hi_array = np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int64_t[::1] lo = lo_array, hi = hi_array
    cdef Edges edges = make_edges(span, lag, left, right, arrival)
    edges.first = first
    edges.last = last
    edges.ties = start
    if n > 0:
        with nogil:
            done = find_edges(&edges, &ts[0], start, ts.shape[0], ts.shape[0], final,
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
    """No lag, and no edge before the first tick of int64: 64-bit arithmetic does.

    The front moves by up to four rows without a branch, since how many rows leave at a step is what
    a processor can't foresee (measured: 14 ns a row with a branch a row, 4 without).
    """
    cdef int64_t i = start, row, f = e.first, edge, step, run
    cdef int64_t span = <int64_t> e.lower - (not e.left)    # rows of times before t - span leave
    # Rows of the first time may have been answered already; its first row is where `last` stands.
    cdef int64_t begin = e.last if e.last < start and ts[e.last] == ts[start] else start
    while i < stop:
        if e.ties <= i:
            e.ties = i + 1
            while e.ties < end and ts[e.ties] == ts[i]:
                e.ties += 1
        if e.ties == end and e.right and not e.arrival and not final:
            break
        if not e.unbounded:
            edge = ts[i] - span
            step = 4
            while step == 4 and f + 4 <= end:
                step = (ts[f] < edge) + (ts[f + 1] < edge) + (ts[f + 2] < edge) + (ts[f + 3] < edge)
                f += step
            if f + 4 > end:
                while f < end and ts[f] < edge:
                    f += 1
        run = min(e.ties, stop)
        for row in range(i, run):
            if e.arrival:
                e.last = row + e.right
            else:
                e.last = e.ties if e.right else begin
            hi[row] = e.last
            lo[row] = min(f, e.last)
        i = begin = run
    e.first = f
    return i - start


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
