"""Buckets: which windows, by their number (window-id), a row belongs to, and which rows a window holds.

Window w of a hopping kind holds the times ``[origin + w slide, origin + w slide + range)``, or with
`right` those of ``(origin + w slide, origin + w slide + range]``. A row at t is in the windows
``floor((t - origin - range) / slide) + 1`` to ``floor((t - origin) / slide)``, which are none where it
falls between windows (slide > range). Here over arrays; ``mta.windows`` has the same as plain Python.
Thesis, chapter 4; its Eq. 5.2 and 5.3 count windows by their ends instead.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t

cimport cython

from mta._exact cimport int128

import numpy as np


cdef struct Kind:
    int64_t range
    int64_t slide
    int64_t origin
    bint right
    bint endless            # a landmark window: holds all before its end as well,
    bint landmark           # but nothing before the origin
    # Or, where there is an array of edges: window w is [edges[w], edges[w + 1]).
    const int64_t* edges
    int64_t count


@cython.cdivision(True)
cdef inline int64_t floor_div(int128 a, int64_t b) noexcept nogil:
    """a / b, rounded down; 64 bits divide much faster than 128. What they can't hold is the least or
    the greatest that they can; `check` refuses such times before."""
    cdef int64_t small = <int64_t> a
    cdef int128 wide
    if small == a:
        return small // b - (small % b < 0)
    wide = a // b - (a % b < 0)
    return <int64_t> max(min(wide, <int128> INT64_MAX), <int128> INT64_MIN)


cdef inline int64_t first_wid(const Kind* kind, int64_t t) noexcept nogil:
    """The first window that holds t."""
    cdef int128 from_origin = <int128> t - kind.right - kind.origin
    if kind.edges != NULL:
        return last_edge(kind, t)
    if kind.endless:
        return floor_div(from_origin, kind.slide)
    return floor_div(from_origin - kind.range + kind.slide, kind.slide)


cdef inline int64_t last_wid(const Kind* kind, int64_t t) noexcept nogil:
    """The last window that holds t; less than the first where none does."""
    if kind.edges != NULL:
        return last_edge(kind, t)
    return floor_div(<int128> t - kind.right - kind.origin, kind.slide)


cdef int64_t last_edge(const Kind* kind, int64_t t) noexcept nogil:
    """The last edge that is not after t (with `right`: before t)."""
    cdef int64_t low = -1, high = kind.count, middle
    while low + 1 < high:
        middle = (low + high) // 2
        if kind.edges[middle] < t or (kind.edges[middle] == t and not kind.right):
            low = middle
        else:
            high = middle
    return low


cdef int64_t last_ended(const Kind* kind, int64_t to) noexcept nogil:
    """The last window that ends at `to` or before (of edges: -1 if none does)."""
    cdef Kind plain = kind[0]
    plain.right = False
    if plain.edges != NULL:
        return last_edge(&plain, to) - 1
    cdef int128 from_origin = <int128> to - plain.origin - (plain.slide if plain.endless else plain.range)
    return floor_div(from_origin, plain.slide)


cdef inline int128 start_of(const Kind* kind, int64_t wid) noexcept nogil:
    if kind.edges != NULL:
        return kind.edges[wid]
    if kind.endless:
        return kind.origin
    return <int128> wid * kind.slide + kind.origin


cdef inline int128 end_of(const Kind* kind, int64_t wid) noexcept nogil:
    if kind.edges != NULL:
        return kind.edges[wid + 1]
    return <int128> wid * kind.slide + kind.origin + (kind.slide if kind.endless else kind.range)


cdef inline int64_t start_in_64(const Kind* kind, int64_t wid) noexcept nogil:
    """Where it is known to fit."""
    if kind.edges != NULL:
        return kind.edges[wid]
    if kind.endless:
        return kind.origin
    return <int64_t> (<uint64_t> wid * <uint64_t> kind.slide + <uint64_t> kind.origin)


cdef inline int64_t end_in_64(const Kind* kind, int64_t wid) noexcept nogil:
    if kind.edges != NULL:
        return kind.edges[wid + 1]
    return <int64_t> (<uint64_t> wid * <uint64_t> kind.slide + <uint64_t> kind.origin
                      + <uint64_t> (kind.slide if kind.endless else kind.range))


cdef class Extents:
    """The windows of one kind over int64 times.

    range, slide, origin : in ticks; range None: a landmark window, which ends at
        ``origin + (w + 1) slide`` and holds everything before
    landmark : and nothing before the origin
    right : the right edge is inside, and the left one is not
    edges : sorted instead: window w lies between edge w and the next

    Examples
    --------
    >>> import numpy as np
    >>> first, last = Extents(10, 4).wids(np.array([-1, 0, 3]))
    >>> first.tolist(), last.tolist()
    ([-2, -2, -1], [-1, 0, 0])
    """

    cdef Kind kind
    cdef object owner

    def __cinit__(self, range, int64_t slide, int64_t origin=0, bint right=False, edges=None,
                  bint landmark=False):
        cdef const int64_t[::1] view
        self.kind.endless = range is None
        self.kind.range = 0 if range is None else range
        self.kind.slide, self.kind.origin, self.kind.right = slide, origin, right
        self.kind.landmark = landmark
        self.kind.edges = NULL
        if edges is not None:
            view = self.owner = edges
            self.kind.edges, self.kind.count = &view[0], view.shape[0]

    def wids(self, const int64_t[::1] ts):
        """The first and the last window that holds each time, as two arrays; first > last: none."""
        firsts, lasts = np.empty(ts.shape[0], np.int64), np.empty(ts.shape[0], np.int64)
        cdef int64_t[::1] first = firsts, last = lasts
        cdef int64_t i
        with nogil:
            for i in range(ts.shape[0]):
                first[i] = first_wid(&self.kind, ts[i])
                last[i] = last_wid(&self.kind, ts[i])
        return firsts, lasts

    @property
    def origin(self):
        """Where window 0 starts, or the landmark."""
        return self.kind.origin

    def check(self, low, high):
        """Refuse times from low to high where a window that holds one has an edge, or a number, beyond
        64 bits.

        Raises
        ------
        OverflowError
            That is so; the argument is the time.
        """
        if self.kind.edges != NULL:
            return
        slide, origin, length = self.kind.slide, self.kind.origin, self.kind.range
        low_at, high_at = (int(t) - self.kind.right - origin for t in (low, high))
        first = low_at // slide if self.kind.endless else (low_at - length) // slide + 1
        last = high_at // slide
        stop = last * slide + origin + (slide if self.kind.endless else length)
        start = first if self.kind.endless else first * slide + origin
        if min(start, first) < INT64_MIN and first <= low_at // slide:
            raise OverflowError(low)
        if max(stop, last) > INT64_MAX and (self.kind.endless or high_at - last * slide < length):
            raise OverflowError(high)

    def starts(self, const int64_t[::1] ts):
        """Where the last window starts that begins at each time or before it."""
        made = np.empty(ts.shape[0], np.int64)
        cdef int64_t[::1] start = made
        cdef int64_t i, at = 0, after = 0
        with nogil:
            for i in range(ts.shape[0]):
                if not at <= ts[i] < after:    # rows near each other are in one window
                    at = start_in_64(&self.kind, last_wid(&self.kind, ts[i]))
                    after = min(<int128> at + self.kind.slide, <int128> INT64_MAX)
                start[i] = at
        return made

    def ended_by(self, const int64_t[::1] to):
        """`ended`, of each of these times, which never fall."""
        made = np.empty(to.shape[0], np.int64)
        cdef int64_t[::1] out = made
        cdef int64_t i
        for i in range(to.shape[0]):
            out[i] = out[i - 1] if i and to[i] == to[i - 1] else last_ended(&self.kind, to[i])
        return made

    def ended(self, int64_t to):
        """The last window that ends at `to` or before (of edges: -1 if none does)."""
        return last_ended(&self.kind, to)

    def cuts(self, const int64_t[::1] ts, const int64_t[::1] wid, const int64_t[::1] lo,
             const int64_t[::1] hi):
        """Where windows that `over` gave are cut in two: their rows from cuts[i] on are the newer half.
        None where windows share no rows, and each is as good as the only one.

        ts : the times of the rows, in which lo and hi count

        It is a time that follows from the number of the window: the same for as many windows as hold
        it, and whichever windows were answered before, or by whom. Cost: O(1) a row and window.
        """
        if not self.kind.endless and windows_a_cut(&self.kind) <= 1:
            return None
        made = np.empty(wid.shape[0], np.int64)
        cdef int64_t[::1] out = made
        cdef int64_t i, at = 0, right = self.kind.right
        cdef int128 cut
        with nogil:
            for i in range(wid.shape[0]):
                at = max(at, lo[i])
                if not self.kind.endless:
                    cut = cut_of(&self.kind, wid[i]) + right
                    while at < hi[i] and ts[at] < cut:
                        at += 1
                out[i] = at
        return made

    def cut_time(self, int64_t wid):
        """At which time `cuts` cuts a window in two (with `right`, a row at it is before); None: nowhere."""
        if not self.kind.endless and windows_a_cut(&self.kind) <= 1:
            return None
        return int(<int64_t> cut_of(&self.kind, wid))

    def edges_of(self, const int64_t[::1] wids):
        """The start and the end of these windows, as two arrays.

        Raises
        ------
        OverflowError
            One is beyond 64 bits; the argument is the place of the window.
        """
        starts, ends = np.empty(wids.shape[0], np.int64), np.empty(wids.shape[0], np.int64)
        cdef int64_t[::1] start = starts, end = ends
        cdef int64_t i, n = wids.shape[0], least = 0, most = 0
        with nogil:
            for i in range(n):
                least, most = (i if wids[i] < wids[least] else least), (i if wids[i] > wids[most] else most)
        if n and start_of(&self.kind, wids[least]) < INT64_MIN:
            raise OverflowError(least)
        if n and end_of(&self.kind, wids[most]) > INT64_MAX:
            raise OverflowError(most)
        with nogil:    # (what wraps in between comes out right)
            for i in range(n):
                start[i], end[i] = start_in_64(&self.kind, wids[i]), end_in_64(&self.kind, wids[i])
        return starts, ends

    def over(self, const int64_t[::1] ts, const int64_t[::1] offsets, bint empty=False, last=None,
             first=None):
        """Every window of every group that holds a row: (group, wid, lo, hi).

        ts : sorted times of each group, group g at offsets[g]..offsets[g + 1]
        empty : and the empty ones between the first and the last of a group
        first, last : none but these; windows that never end (landmark) go on to the last

        The rows of a window are lo..hi; over all windows in turn neither edge ever falls.
        """
        cdef int64_t end = INT64_MAX if last is None else last
        cdef int64_t begin = INT64_MIN if first is None else first
        cdef int64_t g, groups = offsets.shape[0] - 1, n = 0
        cdef const int64_t* t = &ts[0] if ts.shape[0] else NULL
        with nogil:
            for g in range(groups):
                n += count_windows(&self.kind, t, offsets[g], offsets[g + 1], empty, begin, end)
        arrays = [np.empty(n, np.int64) for _ in range(4)]
        cdef int64_t[::1] group = arrays[0], wid = arrays[1], lo = arrays[2], hi = arrays[3]
        n = 0
        with nogil:
            for g in range(groups):
                n = list_windows(&self.kind, t, g, offsets[g], offsets[g + 1], empty, begin, end, n,
                                 group, wid, lo, hi)
        return tuple(arrays)


cdef inline int64_t windows_a_cut(const Kind* kind) noexcept nogil:
    """How many windows in a row have one cut: as many as hold the end of the first of them."""
    return 1 if kind.edges != NULL else kind.range // kind.slide + (kind.range % kind.slide > 0)


cdef inline int128 cut_of(const Kind* kind, int64_t wid) noexcept nogil:
    """Where a window is cut in two: at the end of the last window whose number is a multiple of
    `windows_a_cut`, but for one that never ends, all of which comes after the cut."""
    cdef int64_t several = windows_a_cut(kind)
    if kind.endless:
        return start_of(kind, wid)
    return end_of(kind, floor_div(wid, several) * several)


cdef struct Stretch:
    # Windows in a row that hold rows; before the first one there is none, and `row` is where to look.
    int64_t first
    int64_t last
    int64_t row
    bint begun


cdef bint next_stretch(const Kind* kind, const int64_t* ts, int64_t end, bint empty, int64_t low, int64_t to,
                       Stretch* s) noexcept nogil:
    """The next windows of a group that hold rows; with `empty`, from the one after the last on."""
    cdef int64_t first, last
    if s.begun and s.last >= to:
        return False
    if s.begun and kind.edges == NULL and not kind.endless and s.last < to and next_in_line(kind, ts, end, s):
        return True
    while s.row < end:
        first = first_wid(kind, ts[s.row])
        if first > to:
            return False
        last = to if kind.endless else last_wid(kind, ts[s.row])
        s.row += 1
        if last < first or (kind.landmark and first < 0):
            continue
        first, last = max(first, low), min(last, to)
        if s.begun:
            first = s.last + 1 if empty else max(first, s.last + 1)
        if last >= first:
            s.first, s.last, s.begun = first, last, True
            return True
    return False


cdef inline bint next_in_line(const Kind* kind, const int64_t* ts, int64_t end, Stretch* s) noexcept nogil:
    """Go past the rows that are in known windows only; whether what follows is the next window and
    no other. No division is needed to see that."""
    cdef int128 start = start_of(kind, s.last + 1) + kind.right
    cdef int64_t next = <int64_t> start, after = next + min(kind.slide, kind.range)
    if next != start or after < next:
        return False
    while s.row < end and ts[s.row] < next:
        s.row += 1
    if s.row == end or ts[s.row] >= after:
        return False
    s.first = s.last = s.last + 1
    s.row += 1
    return True


cdef int64_t count_windows(const Kind* kind, const int64_t* ts, int64_t begin, int64_t end, bint empty,
                           int64_t low, int64_t to) noexcept nogil:
    cdef Stretch s = Stretch(0, 0, begin, False)
    cdef int64_t n = 0
    while next_stretch(kind, ts, end, empty, low, to, &s):
        n += s.last - s.first + 1
    return n


cdef int64_t list_windows(const Kind* kind, const int64_t* ts, int64_t g, int64_t begin, int64_t end, bint empty,
                          int64_t low, int64_t to, int64_t n, int64_t[::1] group, int64_t[::1] wid, int64_t[::1] lo,
                          int64_t[::1] hi) noexcept nogil:
    """(An edge beyond 64 bits is wrong here; then it can't be told either, and `edges_of` raises.)"""
    cdef Stretch s = Stretch(0, 0, begin, False)
    cdef int64_t front = begin, back = begin, w, start, stop
    cdef bint moves = not kind.endless or kind.landmark
    while next_stretch(kind, ts, end, empty, low, to, &s):
        w = s.first
        while True:    # (the number after the last may not fit)
            start, stop = start_in_64(kind, w), end_in_64(kind, w)
            if moves:
                while front < end and (ts[front] < start or (kind.right and ts[front] == start)):
                    front += 1
            back = max(back, front)
            while back < end and (ts[back] < stop or (kind.right and ts[back] == stop)):
                back += 1
            group[n], wid[n], lo[n], hi[n] = g, w, front, back
            n += 1
            if w == s.last:
                break
            w += 1
    return n
