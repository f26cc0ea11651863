"""Bounds: every row's window as an interval [lo, hi) of sorted rows.

Rows are sorted by key and time; lo and hi never fall, across keys too, since a new key starts where
the old one ends. The kernels take bounds a chunk at a time, so they are never whole arrays.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t
from libc.string cimport memcpy

import numpy as np

cdef extern from "_simd.h":
    pass

cdef extern from "_fronts.h":
    enum:
        AHEAD "MTA_AHEAD"
    void fronts "mta_fronts"(const int64_t* ts, int64_t f, int64_t high, const int64_t* t, int64_t n,
                             int64_t span, int64_t* out) nogil
    void count_on "mta_count_on"(int64_t start, int64_t stop, int64_t by, int64_t* out) nogil
    bint has_ties "mta_has_ties"(const int64_t* ts, int64_t n) nogil


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
            self.steady &= row == start and stop == start + n
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

    cdef int64_t begin_of(self, int64_t row) noexcept nogil:
        """The first row of this row's key."""
        cdef int64_t low = 0, high = self.groups, middle
        while low + 1 < high:
            middle = (low + high) // 2
            if self.offsets[middle] <= row:
                low = middle
            else:
                high = middle
        return self.offsets[low]

    cdef int64_t pick(self, int64_t start, int64_t n, int64_t* lo, int64_t* hi) noexcept nogil:
        """Keep every `every`-th of the windows of the rows start..start + n."""
        cdef int64_t row = start, kept = 0, group = self.picked, stop
        if start == 0:
            group = 0
        while row < start + n:
            while self.offsets[group + 1] <= row:
                group += 1
            stop = min(self.offsets[group + 1], start + n)
            row += self.every - 1 - (row - self.offsets[group]) % self.every
            while row < stop:
                lo[kept] = lo[row - start]
                hi[kept] = hi[row - start]
                kept += 1
                row += self.every
            row = stop
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
    """Windows that are known already: [lo[i], hi[i]).

    cut : where each is cut in two, lo[i] <= cut[i] <= hi[i] and never falling: partials of the rows
        before are added up from there to the left, those of the rows after to the right, so that how
        an answer is rounded is a matter of its window and nothing else. None: kernels choose it
        by the windows before.
    """

    def __cinit__(self, const int64_t[::1] lo, const int64_t[::1] hi, const int64_t[::1] cut=None):
        self.owner = (lo, hi, cut)
        if cut is not None and cut.shape[0] != lo.shape[0]:
            raise ValueError("one cut per window")
        self.every = 1
        self.rows = self.ends[1] = lo.shape[0]
        self.offsets = self.ends
        self.groups = 1
        if self.rows:
            self.lo = &lo[0]
            self.hi = &hi[0]
            if cut is not None:
                self.cut = &cut[0]

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
        cdef int64_t first = min(self.first, self.last)
        shift(start, stop, self.last, begin, end, hi)
        shift(start, stop, first, begin, end, lo)
        self.steady = (self.every == 1 and start + first >= begin and stop + self.last <= end + 1)
        return 0


cdef void shift(int64_t start, int64_t stop, int64_t by, int64_t begin, int64_t end,
                int64_t* out) noexcept nogil:
    """out[i] = i + by, within [begin, end]. (|by| is at most 2^62: no sum overflows.)"""
    cdef int64_t i, low = min(max(start, begin - by), stop), high = max(min(stop, end - by), low)
    for i in range(start, low):
        out[i] = begin
    count_on(low, high, by, out)
    for i in range(high, stop):
        out[i] = end


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
                bint left, bint right, bint arrival, bint final, known=None, int64_t base=0):
    """The bounds of one key whose rows come bit by bit, from row `start` on: (lo, hi).

    ts : times known so far, from the first row that a window may still need
    first, last : where the two edges stand
    final : no rows will follow; else only rows whose window can't grow any more are answered
    known : no row before this time will follow (None: only the rows themselves tell)
    base : the number of the row that ts[0] is of
    """
    cdef int64_t end = ts.shape[0], stop = end, row = start - base
    cdef bint told = known is not None and not final
    if told and row < end:
        stop = first_open(&ts[0], row, end, edge_of(known, lag), right and not arrival)
    return bounds_until(ts, start, stop + base, first, last, span, lag, left, right, arrival,
                        final or told, base)


def bounds_until(const int64_t[::1] ts, int64_t start, int64_t stop, int64_t first, int64_t last,
                 span, lag, bint left, bint right, bint arrival, bint final, int64_t base):
    """The same of the rows start..stop; final: no rows will follow that belong to their windows."""
    cdef int64_t n = max(stop - start, 0), done = 0, i
    lo_array, hi_array = np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int64_t[::1] lo = lo_array, hi = hi_array
    cdef Edges edges = make_edges(span, lag, left, right, arrival)
    edges.first = first - base
    edges.last = last - base
    edges.ties = start = start - base
    if n > 0:
        with nogil:
            done = find_edges(&edges, &ts[0], start, stop - base, ts.shape[0], final,
                              &lo[0] - start, &hi[0] - start)
            for i in range(done if base else 0):
                lo[i] += base
                hi[i] += base
    return (lo_array, hi_array) if done == n else (lo_array[:done], hi_array[:done])


cdef int64_t edge_of(known, lag) except? -1:
    """The time from which on rows are not there yet, as windows see them that lag."""
    return max(INT64_MIN, min(known + lag, INT64_MAX))


def row_bounds(int64_t start, int64_t stop, int64_t first, int64_t last, int64_t end):
    """Of the rows start..stop of one key the windows [i + first, i + last), cut to its rows 0..end:
    (lo, hi)."""
    cdef int64_t n = max(stop - start, 0)
    lo_array, hi_array = np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int64_t[::1] lo = lo_array, hi = hi_array
    if n > 0:
        shift(start, stop, last, 0, end, &hi[0] - start)
        shift(start, stop, min(first, last), 0, end, &lo[0] - start)
    return lo_array, hi_array


def next_bounds_of_keys(const int64_t[::1] ts, const int64_t[::1] offsets, const int64_t[::1] start,
                        const int64_t[::1] first, const int64_t[::1] last, span, lag, bint left,
                        bint right, bint arrival, bint final, known):
    """`next_bounds` of many keys, those of one after those of another: (lo, hi, how many of each).

    ts : key k has the times from offsets[k] to before offsets[k + 1]
    start, first, last : places among all times
    known : no row before this time will follow (None: only the rows themselves tell)
    """
    cdef int64_t keys = offsets.shape[0] - 1, k, n, done = 0, end, stop, room = 0
    cdef int64_t edge = 0 if known is None else edge_of(known, lag)
    cdef bint told = known is not None and not final, closed = right and not arrival
    cdef Edges edges = make_edges(span, lag, left, right, arrival)
    for k in range(keys):
        room += offsets[k + 1] - start[k]
    lo_array, hi_array = np.empty(room, np.int64), np.empty(room, np.int64)
    counts_array = np.empty(keys, np.int64)
    cdef int64_t[::1] lo = lo_array, hi = hi_array, counts = counts_array
    if room == 0:
        return lo_array, hi_array, np.zeros(keys, np.int64)
    with nogil:
        for k in range(keys):
            end = stop = offsets[k + 1]
            if told:
                stop = first_open(&ts[0], start[k], end, edge, closed)
            n = 0
            if stop > start[k]:
                edges.first, edges.last, edges.ties = first[k], last[k], start[k]
                n = find_edges(&edges, &ts[0], start[k], stop, end, final or told,
                               &lo[done] - start[k], &hi[done] - start[k])
            counts[k] = n
            done += n
    return lo_array[:done], hi_array[:done], counts_array


def rows_before(const int64_t[::1] ts, const int64_t[::1] begin, const int64_t[::1] kept,
                const int64_t[::1] edges):
    """How many of the rows begin[k]..begin[k] + kept[k], which are in order, are before edges[k]."""
    cdef int64_t keys = begin.shape[0], k
    found_array = np.zeros(keys, np.int64)
    cdef int64_t[::1] found = found_array
    for k in range(keys):
        if kept[k] and (begin[k] < 0 or begin[k] + kept[k] > ts.shape[0]):
            raise IndexError(f"key {k} has rows beyond the times")
        if kept[k]:
            found[k] = first_open(&ts[0], begin[k], begin[k] + kept[k], edges[k], True) - begin[k]
    return found_array


cdef int64_t first_open(const int64_t* ts, int64_t start, int64_t end, int64_t edge,
                        bint closed) noexcept nogil:
    """The first row of start..end whose window may still grow by rows from `edge` on."""
    cdef int64_t middle
    while start < end:
        middle = start + (end - start) // 2
        if ts[middle] < edge or (ts[middle] == edge and not closed):
            start = middle + 1
        else:
            end = middle
    return start


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
    if is_plain(ts[start], ts[stop - 1], e.upper) and is_plain(ts[start], ts[stop - 1], e.lower):
        return find_plain_edges(e, ts, start, stop, end, final, lo, hi)
    return find_any_edges(e, ts, start, stop, end, final, lo, hi)


cdef inline bint is_plain(int64_t first, int64_t last, int128 span) noexcept nogil:
    """Whether no edge lies beyond int64, or one tick before its end, so that 64-bit arithmetic does."""
    return (span == <int64_t> span and <int128> first - span >= INT64_MIN
            and <int128> last - span < <int128> INT64_MAX)


cdef int64_t find_plain_edges(Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                              bint final, int64_t* lo, int64_t* hi) noexcept nogil:
    cdef int64_t row
    if e.upper == 0 or e.arrival:
        find_ends(e, ts, start, stop, end, hi)
        final |= e.arrival or not e.right
    else:
        find_fronts(ts, e.last, start, stop, end, <int64_t> e.upper - e.right, hi)
    if not final:
        # More rows may come before the edge.
        while stop > start and hi[stop - 1] == end:
            stop -= 1
    if stop == start:
        return 0
    e.last = hi[stop - 1]
    if e.unbounded:
        for row in range(start, stop):
            lo[row] = min(e.first, hi[row])
        return stop - start
    e.first = find_fronts(ts, e.first, start, stop, end, <int64_t> e.lower - (not e.left), lo)
    if e.lower - (not e.left) < e.upper - e.right:    # else no front is beyond its end
        for row in range(start, stop):
            lo[row] = min(lo[row], hi[row])
    return stop - start


cdef void find_ends(Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                    int64_t* hi) noexcept nogil:
    """hi of the rows start..stop: after the last row of the same time, before the first, or by place."""
    cdef int64_t row, last
    cdef bint ties
    if e.arrival:
        shift(start, stop, e.right, start, stop + 1, hi)
        return
    ties = has_ties(ts + start, stop - start)
    if e.right:
        if e.ties < stop:
            e.ties = stop
            while e.ties < end and ts[e.ties] == ts[stop - 1]:
                e.ties += 1
        if not ties:
            shift(start, stop - 1, 1, start, stop, hi)
            hi[stop - 1] = e.ties
            return
        last = e.ties
        for row in range(stop - 1, start - 1, -1):
            hi[row] = last
            last = last if row > start and ts[row - 1] == ts[row] else row
    else:
        # Rows of the first time may have been answered already; its first row is where `last` stands.
        last = e.last if e.last < start and ts[e.last] == ts[start] else start
        if not ties:
            hi[start] = last
            shift(start + 1, stop, 0, start, stop, hi)
            return
        for row in range(start, stop):
            if row > start and ts[row - 1] != ts[row]:
                last = row
            hi[row] = last


cdef int64_t find_fronts(const int64_t* ts, int64_t f, int64_t start, int64_t stop, int64_t end,
                         int64_t span, int64_t* out) noexcept nogil:
    """out[start..stop): the first place from f on whose time is not before t - span; the last of them."""
    cdef int64_t row = rows_with_room(ts, f, start, stop, end, span)
    if row > start:
        fronts(ts, f, end - AHEAD, ts + start, row - start, span, out + start)
        f = out[row - 1]
    for row in range(row, stop):
        while f < end and ts[f] < ts[row] - span:
            f += 1
        out[row] = f
    return f


cdef int64_t rows_with_room(const int64_t* ts, int64_t f, int64_t start, int64_t stop, int64_t end,
                            int64_t span) noexcept nogil:
    """After the last row whose front has AHEAD times from there on (those before have them too)."""
    cdef int64_t middle
    if f + AHEAD > end:
        return start
    while start < stop:
        middle = start + (stop - start) // 2
        if ts[middle] - span <= ts[end - AHEAD]:
            start = middle + 1
        else:
            stop = middle
    return start


cdef int64_t find_any_edges(Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                            bint final, int64_t* lo, int64_t* hi) noexcept nogil:
    """Where an edge may lie beyond int64."""
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
