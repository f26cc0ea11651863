"""Batch kernel for min and max.

An extreme does not depend on association: suffixes of the older half, a running prefix of the newer
one, 3 combines a row and no O(n) step per row (the flip of two stacks, done over arrays). Short
windows need no halves: each is the extreme of two spans of 2^k rows.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mta._core cimport Lowering, make_lift
from mta._extremes cimport (
    KEYS, GREATEST, LEAST, LEVELS, MARGIN, PIECE, ROOM, SHORT, SOON, Order, blank, join_extremes,
    keys_to_doubles, nothing_in, prefix_extremes, read_extremes, short_extremes, suffix_extremes,
)
from mta._kernel cimport Counter, Kernel, Scan
from mta._monoids cimport FLOAT, Cell, Lift
from mta._moves cimport is_steady, longest, run_end

cdef struct Halves:
    # [origin, split) is answered by suffixes, [split, last) by one running prefix.
    int64_t* suffix
    int64_t capacity
    int64_t origin
    int64_t split
    int64_t last
    # The extreme of [split, last), and those to every row from `joined` on, as keys or as doubles; and the
    # values of a piece of rows between margins.
    Order order
    int64_t running
    int64_t joined
    int64_t prefix[PIECE + MARGIN]
    int64_t piece[LEVELS * ROOM]


cdef class ExtremesKernel(Kernel):
    """min or max of one column, the very values.

    monoid : "min" or "max"
    source, nan : as those of ``Forest``
    wanted : list of (monoid, 0), one per answer

    Cost: 3 combines a row, four rows at a time. Memory: 8 bytes a row of the older half.
    """

    cdef Lift how
    cdef Lowering lowering
    cdef Halves halves

    def __cinit__(self, Counter counter, str monoid, str source, str nan, wanted):
        if monoid not in ("min", "max"):
            raise ValueError(f"no extreme: {monoid!r}")
        self.how = make_lift(monoid, source, nan)
        self.lowering = Lowering(wanted)
        self.halves.split = self.halves.last = -1

    def __init__(self, Counter counter, str monoid, str source, str nan, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        free(self.halves.suffix)

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const Cell* first = self.lowering.wanted[0].out + start
        cdef int k
        self.scan.lo = lo
        self.scan.hi = hi
        extremes_slide(&self.scan, &self.how, &self.halves, self.counter.counts_from(start), start, n,
                       &self.lowering.wanted[0].out.i)
        for k in range(1, self.lowering.n):    # there is only one kind of answer
            memcpy(self.lowering.wanted[k].out + start, first, n * sizeof(Cell))
        return -1


cdef int reserve_suffixes(Halves* h, int64_t lo, int64_t hi) except -1 nogil:
    """Nothing older than `split` is left: the window [lo, hi) becomes the half with suffixes."""
    if hi - lo + MARGIN > h.capacity:
        free(h.suffix)
        h.capacity = 2 * (hi - lo) + MARGIN
        h.suffix = <int64_t*> malloc(h.capacity * sizeof(int64_t))
        if h.suffix == NULL:
            h.capacity = 0
            with gil:
                raise MemoryError(f"a window of {hi - lo} rows")
    h.origin = lo
    h.split = h.last = hi
    return 0


cdef int extremes_slide(const Scan* scan, const Lift* how, Halves* h, const int64_t* counts,
                        int64_t start, int64_t n, int64_t* out) except -1 nogil:
    """Answers out[start..start + n)."""
    cdef int64_t i = start, run
    while i < start + n:
        run = answer_short(scan, how, h, i, start + n, out)
        if run == i:
            run = answer_run(scan, how, h, i, start + n, out)
        if how.source == FLOAT:
            if h.order == KEYS:
                keys_to_doubles(&out[i], run - i, how.flip, how.nan_key)
            if counts != NULL:    # in doubles a null is what can't be the extreme
                blank(&counts[i], run - i, &out[i])
        i = run
    if how.source != FLOAT and how.flip != 0:
        for i in range(start, start + n):
            out[i] ^= how.flip
    return 0


cdef inline Order order_of(const Lift* how) noexcept nogil:
    """How to take values that are not NaN or -0.0."""
    if how.source != FLOAT:
        return KEYS
    return LEAST if how.flip else GREATEST


cdef bint read_piece(const Scan* scan, const Lift* how, Halves* h, int64_t row, int64_t n,
                     int64_t ahead=SOON) noexcept nogil:
    """The values of n rows in the half's order; False where one of them has to be taken as a key."""
    return read_extremes(h.order, &scan.values[row].i, &scan.valid[row] if scan.valid != NULL else NULL,
                         n, how.source == FLOAT, how.flip, how.nan_key, ahead, h.piece + MARGIN)


cdef int64_t answer_short(const Scan* scan, const Lift* how, Halves* h, int64_t i, int64_t stop,
                          int64_t* out) noexcept nogil:
    """Windows from i on that one piece of rows holds, if all are short; returns after the last one,
    or i. No half is needed, so it does not matter how they move."""
    cdef int64_t row = scan.lo[i], run, width, n
    if scan.hi[i] - row > SHORT:
        return i
    run = run_end(scan, i, stop, INT64_MAX, row + PIECE + 1)
    width = longest(&scan.lo[i], &scan.hi[i], run - i)
    if not 0 < width <= SHORT:
        return i
    n = scan.hi[run - 1] - row
    h.order = order_of(how)
    h.split = h.last = -1    # whatever comes next begins anew
    if not read_piece(scan, how, h, row, n):
        h.order = KEYS
        read_piece(scan, how, h, row, n)
    short_extremes(h.order, h.piece + MARGIN, n, width, &scan.lo[i], &scan.hi[i], run - i,
                   is_steady(scan, i, run), &out[i])
    return run


cdef int64_t answer_run(const Scan* scan, const Lift* how, Halves* h, int64_t i, int64_t stop,
                        int64_t* out) except -1 nogil:
    """Windows from i on that one half and one piece of new rows serve; returns after the last one."""
    cdef int64_t lo = scan.lo[i], hi = scan.hi[i], run
    cdef bint steady
    if lo >= h.split:
        reserve_suffixes(h, lo, hi)
        # Of no rows at all the extreme is nothing, which only keys can tell.
        h.order = order_of(how) if lo < hi else KEYS
        if not fill_suffixes(scan, how, h):
            h.order = KEYS
            fill_suffixes(scan, how, h)
    while hi - h.last > PIECE:    # no window ends at these rows
        extend_half(scan, how, h, lo, h.last + PIECE)
    # Where windows move by one row.
    run = i + min(min(stop - i, h.split - lo), h.last + PIECE + 1 - hi)
    steady = run > i + 1 and is_steady(scan, i, run)
    if not steady:
        run = run_end(scan, i, stop, h.split, h.last + PIECE + 1)
    extend_half(scan, how, h, lo, scan.hi[run - 1])
    join_extremes(h.order, h.suffix - h.origin, h.prefix - h.joined,
                  &scan.lo[i], &scan.hi[i], run - i, steady, &out[i])
    return run


cdef bint fill_suffixes(const Scan* scan, const Lift* how, Halves* h) noexcept nogil:
    """The extremes from every row on to the split, a piece at a time; False where a value has to be
    taken as a key."""
    cdef int64_t* suffix = h.suffix - h.origin
    cdef int64_t row = h.split, n
    cdef int64_t running = nothing_in(h.order)
    while row > h.origin:
        n = (row - h.origin - 1) % PIECE + 1
        row -= n
        if not read_piece(scan, how, h, row, n, -SOON):
            return False
        running = suffix_extremes(h.order, h.piece + MARGIN, n, running, suffix + row)
    suffix[h.split] = h.running = nothing_in(h.order)
    return True


cdef void extend_half(const Scan* scan, const Lift* how, Halves* h, int64_t lo, int64_t hi) noexcept nogil:
    """The extremes from the split to every row up to hi, at most a piece away."""
    cdef int64_t n = hi - h.last
    if n > 0 and not read_piece(scan, how, h, h.last, n):
        half_to_keys(scan, how, h, lo)
        read_piece(scan, how, h, h.last, n)
    h.joined = h.last
    h.prefix[0] = h.running
    if n > 0:
        h.running = prefix_extremes(h.order, h.piece + MARGIN, n, h.running, h.prefix + 1)
        h.last = hi


cdef void half_to_keys(const Scan* scan, const Lift* how, Halves* h, int64_t lo) noexcept nogil:
    """Make what is left of the half again, since a value came that has to be taken as a key."""
    cdef int64_t last = h.last
    h.order = KEYS
    h.origin = lo
    fill_suffixes(scan, how, h)
    h.last = h.split
    while h.last < last:
        extend_half(scan, how, h, lo, min(h.last + PIECE, last))
