"""Kernels whose answers are places: the number of a row inside the window, or the numbers of many.

What is asked for is taken from the row afterwards, so one kernel serves columns of every type.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from mta._core cimport make_lift
from mta._monoids cimport FLOAT, Lift, float_key, float_of_key


cdef int64_t* take_array(array, list owner) except? NULL:
    cdef int64_t[::1] view = array
    owner.append(view)
    return &view[0] if view.shape[0] else NULL


# --------------------------------------------------------------------------------- first, last

cdef class FirstLastKernel(Kernel):
    """The first and last rows of every window that count: row numbers, -1 where there is none.

    wanted : "first" or "last", one per answer

    Both only ever move forward, so a row is looked at once a direction: O(1) amortised a window, and
    no time at all where no row is null. Memory: none.
    """

    def __cinit__(self, Counter counter, wanted):
        self.n = len(wanted)
        if self.n > MAX_OUTPUTS:
            raise ValueError("too many answers of one input")
        for k, what in enumerate(wanted):
            if what not in ("first", "last"):
                raise ValueError(f"no answer {what!r}")
            self.ends[k] = End(what == "last", -1, INT64_MIN, NULL)

    def __init__(self, Counter counter, wanted):
        Kernel.__init__(self, counter)

    def answer_to(self, arrays):
        self.answers = []
        for k, array in enumerate(arrays):
            self.ends[k].out = take_array(array, self.answers)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int k
        self.scan.lo = lo
        self.scan.hi = hi
        for k in range(self.n):
            if self.ends[k].is_last:
                find_lasts(&self.scan, &self.ends[k], start, n)
            else:
                find_firsts(&self.scan, &self.ends[k], start, n)
        return -1


cdef void find_firsts(const Scan* scan, End* end, int64_t start, int64_t n) noexcept nogil:
    cdef int64_t i, row = end.seen
    cdef int64_t* out = end.out
    if scan.valid == NULL:
        for i in range(start, start + n):
            out[i] = scan.lo[i] if scan.lo[i] < scan.hi[i] else -1
        return
    for i in range(start, start + n):
        row = max(row, scan.lo[i])
        while row < scan.hi[i] and not scan.valid[row]:
            row += 1
        out[i] = row if row < scan.hi[i] else -1
    end.seen = row


cdef void find_lasts(const Scan* scan, End* end, int64_t start, int64_t n) noexcept nogil:
    """Only rows that have entered since the window before are looked at, from the newest back."""
    cdef int64_t i, row, place = end.place, seen = end.seen
    cdef int64_t* out = end.out
    if scan.valid == NULL:
        for i in range(start, start + n):
            out[i] = scan.hi[i] - 1 if scan.lo[i] < scan.hi[i] else -1
        return
    for i in range(start, start + n):
        seen = max(seen, scan.lo[i])
        row = scan.hi[i] - 1
        while row >= seen and not scan.valid[row]:
            row -= 1
        place = row if row >= seen else place
        seen = scan.hi[i]
        out[i] = place if place >= scan.lo[i] else -1
    end.place = place
    end.seen = seen


# ---------------------------------------------------------------- arg_min, arg_max: two halves

cdef Place NOWHERE = Place(-1, INT64_MIN)

cdef enum:
    INF_KEY = 0x7FF0000000000000    # the key of +inf

cdef dict SIDE_OF = {
    # (structure, monoid, the latest of equals)
    "arg_min": (0, "min", False), "first": (0, "min", False), "back_min": (0, "min", False),
    "arg_max": (1, "max", False), "back_max": (1, "max", False), "last": (2, "max", True),
}


cdef class ArgKernel(Kernel):
    """Where the extremes of a column lie: row numbers, -1 where no row counts.

    source : "float", "int" or "uint", of the first column, which is the one that is compared
    nan : "propagate" (a NaN is the extreme either way) or "greatest" (NaN stands above +inf)
    wanted : one per answer:
        "arg_min", "arg_max" : the row of the extreme; of equals, the earliest
        "first" : as "arg_min"
        "last" : the row of the greatest value; of equals, the latest
        "back_min", "back_max" : how many rows the extreme lies before the newest row inside

    -0.0 and 0.0 are equal. Two stacks (folklore; of Okasaki's queue) in which the older one is
    rebuilt only when it has been used up: every row is looked at twice at most, forward and
    backward, and almost never changes either extreme, so there is little that a processor can
    guess wrong (which is what costs the monotone queue its time). O(1) amortised a window; the step
    at which the older half is used up takes O(rows inside). Memory: 8 bytes per row that is the
    extreme of all the rows from it to the end of the older half: O(log n) of them in random order,
    every row of a monotone column.
    """

    def __cinit__(self, Counter counter, str source, str nan, wanted):
        cdef int side
        cdef Lift how
        self.n = len(wanted)
        if self.n > MAX_OUTPUTS:
            raise ValueError("too many answers of one input")
        for side in range(SIDES):
            self.sides[side].split = self.sides[side].last = -1
        for k, what in enumerate(wanted):
            if what not in SIDE_OF:
                raise ValueError(f"no answer {what!r}")
            side, monoid, latest = SIDE_OF[what]
            self.side_of[k] = side
            self.is_back[k] = what.startswith("back")
            self.sides[side].asked = True
            self.sides[side].latest = latest
            how = make_lift(monoid, source, nan)
            self.sides[side].is_float = how.source == FLOAT
            self.sides[side].flip = how.flip
            self.sides[side].nan_key = how.nan_key
            self.sides[side].sign = -1.0 if how.flip else 1.0

    def __init__(self, Counter counter, str source, str nan, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        cdef int side
        for side in range(SIDES):
            free(self.sides[side].peaks)

    def answer_to(self, arrays):
        self.answers = []
        for k, array in enumerate(arrays):
            self.out[k] = take_array(array, self.answers)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int side, k
        self.scan.lo = lo
        self.scan.hi = hi
        for side in range(SIDES):
            if not self.sides[side].asked:
                continue
            side_slide(&self.scan, &self.sides[side], start, n, self.rows)
            for k in range(self.n):
                if self.side_of[k] != side:
                    continue
                if self.is_back[k]:
                    count_back(self.rows, hi + start, n, self.out[k] + start)
                else:
                    memcpy(self.out[k] + start, self.rows, n * sizeof(int64_t))
        return -1


cdef void count_back(const int64_t* rows, const int64_t* hi, int64_t n, int64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = hi[i] - 1 - rows[i] if rows[i] >= 0 else -1


cdef inline int64_t key_at(const Side* s, const Raw* x, int64_t row) noexcept nogil:
    cdef double y
    if Raw is double:
        y = x[row] * s.sign
        if y != y:
            return s.nan_key
        return float_key(y + 0.0)    # -0.0 becomes 0.0
    else:
        return x[row] ^ s.flip


cdef inline bint is_beyond(Place a, Place b, bint at_ties) noexcept nogil:
    """Whether a is the extreme rather than b."""
    return a.row >= 0 and (a.key > b.key or (a.key == b.key and at_ties) or b.row < 0)


cdef inline int64_t choose(Place older, Place newer, bint latest) noexcept nogil:
    """The row of the extreme of both halves."""
    return newer.row if is_beyond(newer, older, latest) else older.row


cdef inline Raw limit_of(int64_t row, int64_t key, bint at_ties, const Raw* tag) noexcept nogil:
    """What a value has to reach, seen in the direction of the extreme, to be looked at twice."""
    if Raw is double:
        # Nothing and a NaN that is the last choice become a NaN, which no value is below.
        return float_of_key(min(key, <int64_t> INF_KEY - (not at_ties)) + (not at_ties))
    else:
        return min(key, INT64_MAX - (not at_ties)) + (not at_ties and row >= 0)


cdef inline bint is_short(const Side* s, Raw x, Raw limit) noexcept nogil:
    if Raw is double:
        return x * s.sign < limit
    else:
        return (x ^ s.flip) < limit


cdef int side_slide(const Scan* scan, Side* s, int64_t start, int64_t n, int64_t* out) except -1 nogil:
    cdef int64_t i = start, stop = start + n
    while i < stop:
        if scan.lo[i] >= s.split:
            if s.is_float:
                stack_peaks(scan, s, scan.lo[i], scan.hi[i], &scan.values.f)
            else:
                stack_peaks(scan, s, scan.lo[i], scan.hi[i], &scan.values.i)
            out[i - start] = s.top.row
            i += 1
        elif s.is_float:
            i = slide_newer(scan, s, i, stop, out - start, &scan.values.f)
        else:
            i = slide_newer(scan, s, i, stop, out - start, &scan.values.i)
    return 0


cdef int64_t slide_newer(const Scan* scan, Side* side, int64_t i, int64_t stop, int64_t* out,
                         const Raw* x) noexcept nogil:
    """Answer the windows from i on that begin in the older half; the first that does not, or `stop`.

    Most values are short of the newer half's extreme, and one comparison says so. Nulls, NaN and
    ties are looked at only in those that are not.
    """
    cdef Side s = side[0]
    cdef int64_t row = s.last, answer = choose(s.top, s.best, s.latest)
    cdef Raw limit = limit_of(s.best.row, s.best.key, s.latest, x)
    cdef Place place
    while i < stop and scan.lo[i] < s.split:
        while row < scan.hi[i]:
            if not is_short(&s, x[row], limit) and (scan.valid == NULL or scan.valid[row]):
                place = Place(row, key_at(&s, x, row))
                if is_beyond(place, s.best, s.latest):
                    s.best = place
                    limit = limit_of(s.best.row, s.best.key, s.latest, x)
                    answer = choose(s.top, s.best, s.latest)
            row += 1
        if s.top.row < scan.lo[i] and s.n > 0:
            pop_peaks(&s, scan.lo[i], x)
            answer = choose(s.top, s.best, s.latest)
        out[i] = answer
        i += 1
    side.last = row
    side.best = s.best
    side.top = s.top
    side.n = s.n
    return i


cdef inline void pop_peaks(Side* s, int64_t lo, const Raw* x) noexcept nogil:
    """The rows before lo leave the older half."""
    while s.n > 0 and s.peaks[s.n - 1] < lo:
        s.n -= 1
    s.top = NOWHERE
    if s.n > 0:
        s.top = Place(s.peaks[s.n - 1], key_at(s, x, s.peaks[s.n - 1]))


cdef int stack_peaks(const Scan* scan, Side* s, int64_t lo, int64_t hi, const Raw* x) except -1 nogil:
    """Nothing older than `split` is left: the window [lo, hi) becomes the older half."""
    cdef int64_t row
    cdef bint at_ties = not s.latest
    cdef Place place, top = NOWHERE
    cdef Raw limit = limit_of(top.row, top.key, at_ties, x)
    s.n = 0
    for row in range(hi - 1, lo - 1, -1):
        if is_short(s, x[row], limit) or (scan.valid != NULL and not scan.valid[row]):
            continue
        place = Place(row, key_at(s, x, row))
        if is_beyond(place, top, at_ties):
            if s.n == s.capacity:
                grow_peaks(s)
            s.peaks[s.n] = row
            s.n += 1
            top = place
            limit = limit_of(top.row, top.key, at_ties, x)
    s.top = top
    s.best = NOWHERE
    s.split = s.last = hi
    return 0


cdef int grow_peaks(Side* s) except -1 nogil:
    cdef int64_t capacity = max(<int64_t> 16, 2 * s.capacity)
    cdef void* peaks = realloc(s.peaks, capacity * sizeof(int64_t))
    if peaks == NULL:
        with gil:
            raise MemoryError(f"the extremes of {s.n} rows")
    s.peaks = <int64_t*> peaks
    s.capacity = capacity
    return 0


# ------------------------------------------------------------------------------------ lists

cdef class ListKernel(Kernel):
    """The row numbers that count in every window, in order. The answers go to a ``Lists``.

    O(rows inside) a window, which is what an answer holds.
    """

    def answer_to(self, arrays):
        self.answers = arrays
        self.lists, = arrays

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t i
        for i in range(start, start + n):
            while self.lists.capacity < self.lists.size + hi[i] - lo[i]:
                self.lists.grow()
            self.lists.length[i] = list_rows(&self.scan, lo[i], hi[i], self.lists.data + self.lists.size)
            self.lists.size += self.lists.length[i]
        return -1


cdef int64_t list_rows(const Scan* scan, int64_t lo, int64_t hi, int64_t* out) noexcept nogil:
    """The rows of [lo, hi) that count, into `out`, which has room for all; how many they are."""
    cdef int64_t row, n = 0
    if scan.valid == NULL:
        for row in range(lo, hi):
            out[row - lo] = row
        return hi - lo
    for row in range(lo, hi):
        out[n] = row
        n += scan.valid[row]
    return n
