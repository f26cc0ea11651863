"""Batch kernels: the answers of every row at once, from arrays sorted by key and time.

They give what ``Forest.slide`` would, to the last bit of every double, in fewer combines:

- integer sums are exact, so rows that leave are subtracted: 2 additions a row;
- min and max do not depend on association: suffixes of the older half, a running prefix of the
  newer one: 3 combines a row and no O(n) step per row (the flip of two stacks, done over arrays);
- var and std are computed far beyond the precision of the answer, which again frees association;
- float sums keep the forest's association, node by node, in blocks of 16 rows (`BlockScan`).
"""
from libc.math cimport NAN, isfinite
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cdef extern from "stdlib.h":
    void* aligned_alloc(size_t, size_t) nogil

from mta._core cimport (
    CHUNK, EXTREMES_KIND, FLOAT_SUM_KIND, INT_SUM_KIND, MOMENTS_KIND, Forest, ForestOps,
    ForestState, Lowering, find_ops, find_source, forest_evict_to, forest_insert,
    forest_open_front, forest_release, forest_restart, highest_bit, kind_of, lowest_bit, make_lift,
)
from mta._exact cimport DD, two_sum
from mta._kernel cimport Counter, Kernel, Scan
from mta._monoids cimport (
    FLOAT, STD, SUM, UINT, Cell, FloatSum, IntSum, Lift, Wanted, lift,
)
from mta._vector cimport Vector

import numpy as np

cdef extern from "_int_sums.h":
    ctypedef struct RunningSum "mta_running":
        pass
    ctypedef struct WideInt "mta_wide_int":
        pass
    void int_sums "mta_int_sums"(const int64_t* x, RunningSum* r, const int64_t* lo, const int64_t* hi,
                                 int64_t n, bint steady, bint is_signed, WideInt* out) nogil


cdef extern from "_deviations.h":
    ctypedef struct Deviations "mta_deviations":
        double s1_hi
        double s2_hi
        double s1_lo
        double s2_lo
    enum:
        SPAN "MTA_SPAN"
    void deviations_total "mta_deviations_total"(const double* x, const uint8_t* valid, int64_t n,
                                                 double k, Deviations* sum) nogil
    void both_chains "mta_both_chains"(const double* x, const uint8_t* x_valid, int64_t n,
                                       const Deviations* after, Deviations* suffix,
                                       const double* y, const uint8_t* y_valid, int64_t m, double k,
                                       Deviations* sum, Deviations* prefix) nogil
    void answer_spread "mta_answer_spread"(const Deviations* suffix, const Deviations* prefix,
                                           const int64_t* lo, const int64_t* hi, const int64_t* count,
                                           int64_t n, bint steady, double ddof, bint root,
                                           double* out) nogil


cdef extern from "_simd.h":
    enum:
        SOON "MTA_SOON"
    bint rise_by_one "mta_is_steady"(const int64_t* lo, const int64_t* hi, int64_t n) nogil
    int64_t longest "mta_longest"(const int64_t* lo, const int64_t* hi, int64_t n) nogil


cdef extern from "_extremes.h":
    enum:
        PIECE "MTA_PIECE"
        SHORT "MTA_SHORT"
        LEVELS "MTA_LEVELS"
        ROOM "MTA_ROOM"
        MARGIN "MTA_MARGIN"
    ctypedef enum Order "mta_order":
        KEYS "MTA_KEYS"
        GREATEST "MTA_GREATEST"
        LEAST "MTA_LEAST"
    int64_t nothing_in "mta_nothing"(Order order) nogil
    bint read_extremes "mta_read_piece"(Order order, const int64_t* raw, const uint8_t* valid,
                                        int64_t n, bint is_float, int64_t flip, int64_t nan_key,
                                        int64_t ahead, int64_t* out) nogil
    void keys_to_doubles "mta_keys_to_doubles"(int64_t* x, int64_t n, int64_t flip, int64_t nan_key) nogil
    int64_t suffix_extremes "mta_suffix_extremes"(Order order, const int64_t* x, int64_t n,
                                                  int64_t after, int64_t* out) nogil
    int64_t prefix_extremes "mta_prefix_extremes"(Order order, const int64_t* x, int64_t n,
                                                  int64_t before, int64_t* out) nogil
    void join_extremes "mta_join_extremes"(Order order, const int64_t* suffix, const int64_t* prefix,
                                           const int64_t* lo, const int64_t* hi, int64_t n,
                                           bint steady, int64_t* out) nogil
    void short_extremes "mta_short_extremes"(Order order, int64_t* levels, int64_t rows,
                                             int64_t width, const int64_t* lo, const int64_t* hi,
                                             int64_t n, bint steady, int64_t* out) nogil
    void blank "mta_blank"(const int64_t* count, int64_t n, int64_t* out) nogil


cdef struct Halves:
    # [origin, split) is answered by suffixes, [split, last) by one running prefix.
    void* suffix
    int64_t capacity
    int64_t origin
    int64_t split
    int64_t last
    # min and max: the extreme of [split, last), and those to every row from `joined` on, as keys or
    # as doubles; and the values of a piece of rows between margins.
    Order order
    int64_t running
    int64_t joined
    int64_t prefix[PIECE + MARGIN]
    int64_t piece[LEVELS * ROOM]


cdef struct Spreads:
    # The same for var and std, as sums of deviations from k, the last value before the split. From the
    # split to the left there is one every SPAN rows; those at all rows of one span from `first` on, and
    # those to all rows from `joined` on, are kept at a time.
    double k
    int64_t split
    int64_t last
    bint resumed               # split and last are known, the sums are not
    int64_t blank              # up to this row there is no value in what was the window
    Deviations* spans
    int64_t capacity
    int64_t first              # the suffixes are those of [first, end)
    int64_t end
    Deviations running
    int64_t joined
    Deviations suffix[SPAN]
    Deviations prefix[SPAN + 1]


cdef enum:
    BLOCK_BITS = 4      # 16 rows in a block,
    STRETCH_BITS = 4    # 16 blocks in a stretch
    FEW = 16            # short windows that don't pay for tables of the sums around them
    TINY_ROWS = 8       # of a window that is added up where it is one of few


cdef extern from "_sum_blocks.h":
    # High and low parts apart: of blocks, and of their rows.
    ctypedef struct Sums "mta_sums":
        double* hi
        double* lo
    ctypedef struct RowSums "mta_row_sums":
        double* hi
        double* lo
    ctypedef struct Sum "mta_sum":
        double hi
        double lo
    ctypedef struct Stretch "mta_stretch":
        double* hi
        double* lo
    enum:
        BLOCK "MTA_BLOCK"
        STRETCH "MTA_STRETCH"
        TASKS "MTA_TASKS"
    void block_sums "mta_block_sums"(const double** rows, double* hi, double* lo) nogil
    void stretch_nodes "mta_stretch_nodes"(Stretch* n) nogil
    void stretch_suffixes "mta_stretch_suffixes"(const Stretch* n, int first, int last, int split,
                                                 const Sum* end, int64_t k, Sums* whole,
                                                 Sums* after) nogil
    void stretch_prefixes "mta_stretch_prefixes"(const Stretch* n, int split, int first, int last,
                                                 const Sum* begin, int64_t k, Sums* before) nogil
    void block_suffixes "mta_block_suffixes"(const double** rows, const Sums* whole, const Sums* after,
                                             int64_t k, RowSums* out) nogil
    void block_prefixes "mta_block_prefixes"(const double** rows, const Sums* before, int64_t k,
                                             RowSums* out) nogil
    void join_sums "mta_join_sums"(const RowSums* suffix, int64_t from_, const RowSums* prefix,
                                   int64_t to, const int64_t* lo, const int64_t* hi, int64_t n,
                                   bint steady, double* out, double* out_lo) nogil


cdef extern from "_short_sums.h":
    ctypedef struct ShortSums "mta_short_sums":
        pass
    enum:
        SHORT_ROWS "MTA_SHORT_ROWS"
        SHORT_BLOCKS "MTA_SHORT_BLOCKS"
    int64_t short_run "mta_short_run"(const int64_t* lo, const int64_t* hi, int64_t n) nogil
    void short_tables "mta_short_tables"(const double** rows, bint deep, ShortSums* s) nogil
    void short_answers "mta_short_answers"(const ShortSums* s, int64_t first, int64_t skew,
                                           const int64_t* lo, const int64_t* hi, int64_t n,
                                           bint steady, double* out, double* out_lo) nogil


cdef extern from "_precise.h":
    void lower_sums "mta_lower_sums"(const double* hi, const double* lo, int step, int64_t n,
                                     double* out) nogil
    void lower_means "mta_lower_means"(const double* hi, const double* lo, int step,
                                       const int64_t* counts, const int64_t* first,
                                       const int64_t* last, int64_t n, double* out) nogil


cdef struct SumRun:
    # Windows with one split point, and where the sums from their fronts and to their backs stand.
    int64_t first
    int64_t stop
    int64_t suffix    # plus lo
    int64_t prefix    # plus hi


cdef struct BlockScan:
    # The forest over stretches, and a ring with the nodes inside of each, down to blocks.
    ForestState forest
    Stretch* ring
    int64_t capacity            # stretches that the ring can hold, a power of two
    int64_t oldest              # block from which on block sums are known,
    int64_t known               # and up to which
    int64_t built               # stretch whose nodes were made last,
    int64_t built_to            # when block sums were known up to here
    int64_t base
    int64_t last                # row after the newest one inside
    # What is to be computed once there is enough of it: the sums from every row of the blocks that
    # hold fronts, to every row of those that hold backs, and what is answered from them.
    int fronts
    const double* front_rows[TASKS]
    Sums whole                  # from the block on to the split point
    Sums after                  # from the next block on
    int backs
    const double* back_rows[TASKS]
    Sums before                 # from the split point to the block
    int runs
    SumRun run[TASKS]
    double[BLOCK] padded        # the last block, where it is cut short,
    double[BLOCK] zeros         # and those after it
    RowSums suffix
    RowSums prefix
    ShortSums shorts
    # Where the answers of a chunk of windows go, if only their sums are wanted; else the partials.
    double* out
    double hi[CHUNK]
    double lo[CHUNK]


cdef inline bint is_steady(const Scan* scan, int64_t i, int64_t stop) noexcept nogil:
    """Whether the windows i..stop move by one row each."""
    return scan.steady or rise_by_one(&scan.lo[i], &scan.hi[i], stop - i)


cdef int64_t run_end(const Scan* scan, int64_t i, int64_t stop, int64_t lo, int64_t hi) noexcept nogil:
    """After the last window of i.. that begins before row lo and ends before row hi; i itself does."""
    cdef int64_t step = 1, middle
    # Where windows move by one row at a time the run ends here; else search.
    middle = i + min(lo - scan.lo[i], hi - scan.hi[i])
    if i < middle < stop and scan.lo[middle - 1] < lo and scan.hi[middle - 1] < hi:
        i = middle - 1
    while i + step < stop and scan.lo[i + step] < lo and scan.hi[i + step] < hi:
        i += step
        step *= 2
    stop = min(stop, i + step)
    while i + 1 < stop:    # window i is served, window stop is not
        middle = (i + stop) // 2
        if scan.lo[middle] < lo and scan.hi[middle] < hi:
            i = middle
        else:
            stop = middle
    return i + 1


cdef class MonoidKernel(Kernel):
    """sum, mean, min, max, var and std: one monoid over one column.

    monoid, source, nan : as those of ``Forest``
    wanted : list of (what, ddof), one per answer

    Where a sum is wanted, the nulls of the column have to be 0.
    """

    cdef ForestOps* ops
    cdef Lift how
    cdef Lowering lowering
    cdef Forest forest       # only for values that the batch kernels can't take
    cdef Vector floats       # integers as doubles, for var and std
    cdef void* parts
    cdef RunningSum running
    cdef Halves halves
    cdef Spreads spreads
    cdef BlockScan* blocks

    def __cinit__(self, Counter counter, str monoid, str source, str nan, wanted):
        self.ops = find_ops(monoid, find_source(source))
        self.how = make_lift(monoid, source, nan)
        self.lowering = Lowering(wanted)
        self.halves.split = self.halves.last = -1
        self.spreads.split = self.spreads.last = -1
        if kind_of(self.ops) == MOMENTS_KIND and source != "float":
            self.floats = Vector()
        self.blocks = <BlockScan*> aligned_alloc(64, (sizeof(BlockScan) + 63) & -64)
        if self.blocks == NULL:
            raise MemoryError()
        memset(self.blocks, 0, sizeof(BlockScan))
        block_scan_init(self.blocks, &self.how)
        self.parts = malloc(CHUNK * self.ops.size)
        if self.parts == NULL:
            raise MemoryError()

    def __init__(self, Counter counter, str monoid, str source, str nan, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        free(self.parts)
        free(self.halves.suffix)
        free(self.spreads.spans)
        if self.blocks != NULL:
            forest_release(&self.blocks.forest)
            free(self.blocks.ring)
            free(self.blocks)

    def attach(self, columns, valid, int64_t first):
        if self.floats is not None:
            columns = self.take_integers(columns[0], first)
        Kernel.attach(self, columns, valid, first)

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)

    def marks(self):
        """Where the blocks of a float sum begin, and the row after the newest one inside."""
        return (self.blocks.base, self.blocks.last)

    def resume(self, marks):
        base, self.blocks.last = marks
        block_scan_restart(&self.blocks, base)

    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil:
        cdef int64_t i
        for i in range(n):
            if lo[i] >= self.blocks.last:
                self.blocks.base = lo[i]
            self.blocks.last = hi[i]
        return 0

    cdef list take_integers(self, column, int64_t first):
        """Integers as doubles where each is one; else the forest, which takes them as they are."""
        if self.forest is None:
            self.floats.drop_to(first)
            if len(self.floats) == 0:
                self.floats.first = first
            fresh = column[len(self.floats):].astype(np.float64)
            if np.abs(fresh).max(initial=0.0) < 2.0**53:
                self.floats.extend(fresh.view(np.int64))
                return [self.floats.view()]
            self.forest = Forest("moments", "uint" if self.how.source == UINT else "int")
            self.floats = Vector()
        return [column]

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        """The partials are lowered while they are in the cache."""
        cdef const int64_t* counts = self.counter.counts_from(start)
        self.scan.lo = lo
        self.scan.hi = hi
        if self.forest is not None:
            self.ops.slide(&self.forest.state, self.scan.values, self.scan.valid, 0,
                           lo + start, hi + start, n, self.parts)
        elif kind_of(self.ops) == INT_SUM_KIND:
            int_sums(&self.scan.values.i, &self.running, lo + start, hi + start, n, self.scan.steady,
                     self.how.source != UINT, <WideInt*> self.parts)
        elif kind_of(self.ops) == FLOAT_SUM_KIND:
            float_sums(&self.scan, self.blocks, self.lowering, counts, start, n)
            return -1
        elif kind_of(self.ops) == EXTREMES_KIND:
            extremes_slide(&self.scan, &self.how, &self.halves, counts, start, n,
                           &self.lowering.wanted[0].out.i)
            self.repeat_first(start, n)
            return -1
        else:
            moments_slide(&self.scan, &self.spreads, self.lowering, counts, start, n)
            return -1
        return self.lower_parts(start, n, lo, hi, counts)

    cdef int64_t lower_parts(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi,
                             const int64_t* counts) noexcept nogil:
        """The first window whose answer does not fit, of those that have the values for one."""
        cdef int64_t done = 0, failed, count
        while done < n:
            failed = self.lowering.run(self.ops, &self.how, <char*> self.parts + done * self.ops.size,
                                       start + done, n - done, lo, hi, counts)
            if failed < 0:
                return -1
            count = counts[failed] if counts != NULL else hi[failed] - lo[failed]
            if count >= self.least:
                return failed
            done = failed + 1 - start
        return -1

    cdef void repeat_first(self, int64_t start, int64_t n) noexcept nogil:
        """The answers of the first output, for any other: of an extreme there is only one kind."""
        cdef int k
        for k in range(1, self.lowering.n):
            memcpy(self.lowering.wanted[k].out + start, self.lowering.wanted[0].out + start,
                   n * sizeof(Cell))


# ------------------------------------------------------------------- min, max: two halves

cdef int reserve_suffixes(Halves* h, int64_t lo, int64_t hi, size_t size) except -1 nogil:
    """Nothing older than `split` is left: the window [lo, hi) becomes the half with suffixes."""
    if hi - lo + MARGIN > h.capacity:
        free(h.suffix)
        h.capacity = 2 * (hi - lo) + MARGIN
        h.suffix = malloc(h.capacity * size)
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
        reserve_suffixes(h, lo, hi, sizeof(int64_t))
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
    join_extremes(h.order, (<int64_t*> h.suffix) - h.origin, h.prefix - h.joined,
                  &scan.lo[i], &scan.hi[i], run - i, steady, &out[i])
    return run


cdef bint fill_suffixes(const Scan* scan, const Lift* how, Halves* h) noexcept nogil:
    """The extremes from every row on to the split, a piece at a time; False where a value has to be
    taken as a key."""
    cdef int64_t* suffix = (<int64_t*> h.suffix) - h.origin
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


# ------------------------------------------------------------------ var, std: two halves

cdef int moments_slide(const Scan* scan, Spreads* h, Lowering lowering, const int64_t* counts,
                       int64_t start, int64_t n) except -1 nogil:
    """Both halves measure deviations from the last value left of the split, which is in every window
    that the split serves: nothing has to be moved from one k to another."""
    cdef int64_t i = start, run, end
    cdef const Wanted* w
    cdef bint steady
    cdef int k
    while i < start + n:
        if not open_spreads(scan, h, scan.lo[i], scan.hi[i]):
            for k in range(lowering.n):
                lowering.wanted[k].out[i].f = NAN
            i += 1
            continue
        while scan.hi[i] - h.last > SPAN:    # no window ends at these rows
            extend_spreads(scan, h, 0, h.last + SPAN)
        end = h.split - (h.split - 1 - scan.lo[i]) // SPAN * SPAN
        run = run_end(scan, i, start + n, end, h.last + SPAN + 1)
        steady = is_steady(scan, i, run)
        extend_spreads(scan, h, end if scan.lo[i] < h.first or end != h.end else 0, scan.hi[run - 1],
                       scan.lo[i])
        for k in range(lowering.n):
            w = &lowering.wanted[k]
            answer_spread(h.suffix - h.first, h.prefix - h.joined, &scan.lo[i], &scan.hi[i],
                          counts + i if counts != NULL else NULL, run - i, steady, w.ddof,
                          w.what == STD, &w.out[i].f)
        i = run
    return 0


cdef bint open_spreads(const Scan* scan, Spreads* h, int64_t lo, int64_t hi) except -1 nogil:
    """Have halves that serve the window [lo, hi); False where it holds no value."""
    cdef int64_t last = h.last
    if lo < h.split and not h.resumed:
        return True
    if lo >= h.split:
        last = h.split = last_value(scan, max(lo, h.blank), hi) + 1
        if h.split <= max(lo, h.blank):
            h.blank = hi
            h.split = h.last = lo
            return False
    h.blank = 0
    h.resumed = False
    h.k = scan.values[h.split - 1].f
    fill_spans(scan, h, lo)
    h.first = h.end = h.split
    memset(&h.running, 0, sizeof(Deviations))
    h.last = h.split
    while h.last < last:
        extend_spreads(scan, h, 0, min(h.last + SPAN, last))
    return True


cdef int fill_spans(const Scan* scan, Spreads* h, int64_t lo) except -1 nogil:
    """The sums from the split to every SPAN-th row left of it, but for the span that holds lo."""
    cdef int64_t n = (h.split - 1 - lo) // SPAN, k
    if n + 1 > h.capacity:
        free(h.spans)
        h.capacity = 2 * (n + 1)
        h.spans = <Deviations*> malloc(h.capacity * sizeof(Deviations))
        if h.spans == NULL:
            h.capacity = 0
            with gil:
                raise MemoryError(f"a window of {h.split - lo} rows")
    memset(h.spans, 0, sizeof(Deviations))
    for k in range(n):
        h.spans[k + 1] = h.spans[k]
        deviations_total(&scan.values[h.split - (k + 1) * SPAN].f, valid_at(scan, h.split - (k + 1) * SPAN),
                         SPAN, h.k, &h.spans[k + 1])
    return 0


cdef inline const uint8_t* valid_at(const Scan* scan, int64_t row) noexcept nogil:
    return &scan.valid[row] if scan.valid != NULL else NULL


cdef void extend_spreads(const Scan* scan, Spreads* h, int64_t end, int64_t hi, int64_t lo=0) noexcept nogil:
    """The sums from the split to every row up to hi, at most a span away; and, if end is not 0, from
    every row of the span [lo, end) on."""
    cdef int64_t n = 0
    if end:
        h.first = lo
        h.end = end
        n = end - lo
    h.prefix[0] = h.running
    both_chains(&scan.values[lo].f, valid_at(scan, lo), n, &h.spans[(h.split - end) // SPAN if end else 0],
                h.suffix, &scan.values[h.last].f, valid_at(scan, h.last), hi - h.last, h.k, &h.running,
                h.prefix + 1)
    h.joined = h.last
    h.last = max(h.last, hi)


cdef int64_t last_value(const Scan* scan, int64_t lo, int64_t hi) noexcept nogil:
    """The last row in [lo, hi) that is not null; lo - 1 if there is none."""
    while hi > lo and scan.valid != NULL and not scan.valid[hi - 1]:
        hi -= 1
    return hi - 1


# ---------------------------------------------------------- float sums: the forest in blocks

cdef void block_scan_init(BlockScan* b, const Lift* how) noexcept nogil:
    b.forest.how = how[0]
    b.forest.capacity = 0
    b.forest.suffix = b.forest.prefix = NULL
    b.ring = NULL
    b.capacity = 0
    b.last = -1
    b.fronts = b.backs = b.runs = 0
    block_scan_restart(b, 0)


cdef void block_scan_restart(BlockScan* b, int64_t base) noexcept nogil:
    b.base = base
    b.oldest = b.known = 0
    b.built = -1
    forest_restart(&b.forest, 0)


cdef int block_scan_slide(const Scan* scan, BlockScan* b, int64_t start, int64_t n) except -1 nogil:
    """The partials of the windows start..start + n, at most CHUNK of them."""
    cdef int64_t i = start, stop, front, back, split
    cdef int top
    while i < start + n:
        if scan.lo[i] >= b.last:
            block_scan_restart(b, scan.lo[i])
        stop = answer_short_sums(scan, b, start, i, start + n)
        if stop == i:
            front = scan.lo[i] - b.base
            back = scan.hi[i] - b.base
            if front == back:
                keep_answer(b, i - start, FloatSum(0.0, 0.0))
                stop = i + 1
            else:
                top = highest_bit(front ^ back)
                split = (back >> top) << top
                stop = stretch_end(scan, b, i, start + n, split)
                plan_run(scan, b, start, i, stop, split)
        b.last = scan.hi[stop - 1]
        i = stop
    answer_runs(scan, b, start)
    return 0


cdef int64_t answer_short_sums(const Scan* scan, BlockScan* b, int64_t start, int64_t i,
                               int64_t stop) noexcept nogil:
    """The windows from i on that are short and lie in a few blocks; returns after the last one, or i."""
    cdef int64_t skew = (scan.lo[i] - b.base) & -BLOCK, length = scan.hi[i] - scan.lo[i], n
    cdef int64_t first = b.base + skew
    if length > SHORT_ROWS or length == 0:
        return i
    if i + 1 < stop and scan.lo[i + 1] >= scan.hi[i]:    # nothing is shared
        answer_alone(scan, b, start, i)
        return i + 1
    n = run_end(scan, i, stop, INT64_MAX, first + SHORT_BLOCKS * BLOCK) - i
    if not (scan.steady and length > 1):
        n = short_run(&scan.lo[i], &scan.hi[i], n)
    if n < FEW:
        stop = i + n
        while i < stop and is_tiny(scan, b, i):
            answer_alone(scan, b, start, i)
            i += 1
        return i
    fill_tables(scan, b, skew, i, i + n)
    short_answers(&b.shorts, first, skew, &scan.lo[i], &scan.hi[i], n, is_steady(scan, i, i + n),
                  b.out + (i - start) if b.out != NULL else b.hi + (i - start),
                  NULL if b.out != NULL else b.lo + (i - start))
    return i + n


cdef inline bint is_tiny(const Scan* scan, const BlockScan* b, int64_t i) noexcept nogil:
    """Whether window i is best added up by itself; it has to be where it lies within one block."""
    cdef int64_t front = scan.lo[i] - b.base, back = scan.hi[i] - b.base
    return back - front <= TINY_ROWS or front >> BLOCK_BITS == back >> BLOCK_BITS


cdef void fill_tables(const Scan* scan, BlockScan* b, int64_t skew, int64_t i, int64_t stop) noexcept nogil:
    """The sums around the windows i..stop."""
    cdef const double* blocks[SHORT_BLOCKS]
    cdef int64_t k
    for k in range(SHORT_BLOCKS):
        blocks[k] = whole_block(scan, b, (skew >> BLOCK_BITS) + k)
    short_tables(blocks, longest(&scan.lo[i], &scan.hi[i], stop - i) > BLOCK, &b.shorts)


cdef int64_t stretch_end(const Scan* scan, const BlockScan* b, int64_t i, int64_t stop, int64_t split) noexcept nogil:
    """After the last window of the run from i on that one split point serves, and room for the sums."""
    cdef int64_t room = STRETCH * BLOCK
    cdef int64_t front = b.base + min(split, ((scan.lo[i] - b.base) & -BLOCK) + room)
    cdef int64_t back = b.base + min(split + (split & -split), ((scan.hi[i] - b.base) & -BLOCK) + room)
    return run_end(scan, i, stop, front, back)


cdef int plan_run(const Scan* scan, BlockScan* b, int64_t start, int64_t i, int64_t stop,
                  int64_t split) except -1 nogil:
    """Note the windows i..stop, which have one split point, and the blocks that they need."""
    cdef int64_t front = (scan.lo[i] - b.base) >> BLOCK_BITS, back = (scan.hi[i] - b.base) >> BLOCK_BITS
    cdef int64_t last_front = (scan.lo[stop - 1] - b.base) >> BLOCK_BITS
    cdef int64_t last_back = (scan.hi[stop - 1] - b.base) >> BLOCK_BITS
    if (b.runs == TASKS or b.fronts + last_front - front + 1 > TASKS
            or b.backs + last_back - back + 1 > TASKS):
        answer_runs(scan, b, start)
    note_run(b, i, stop, (b.fronts - front) * BLOCK - b.base, (b.backs - back) * BLOCK - b.base)
    know_blocks(scan, b, front, last_back)
    if front >> STRETCH_BITS == back >> STRETCH_BITS:
        plan_inside(b, front, last_front, split >> BLOCK_BITS, back, last_back)
    else:
        move_forest(b, front >> STRETCH_BITS, back >> STRETCH_BITS)
        plan_fronts(b, front, last_front)
        plan_backs(b, back, last_back)
    note_rows(scan, b, front, last_front, back, last_back)
    return 0


cdef void note_run(BlockScan* b, int64_t i, int64_t stop, int64_t suffix, int64_t prefix) noexcept nogil:
    cdef SumRun* run = &b.run[b.runs - 1]
    if b.runs and run.stop == i and run.suffix == suffix and run.prefix == prefix:
        run.stop = stop    # the sums that it needs stand beside those of the run before
        return
    b.run[b.runs] = SumRun(i, stop, suffix, prefix)
    b.runs += 1


cdef inline Stretch* stretch_at(const BlockScan* b, int64_t stretch) noexcept nogil:
    return b.ring + (stretch & (b.capacity - 1))


cdef Stretch* built_stretch(BlockScan* b, int64_t stretch) noexcept nogil:
    """With the nodes over all blocks that are known."""
    if b.built != stretch or b.built_to != b.known:
        stretch_nodes(stretch_at(b, stretch))
        b.built = stretch
        b.built_to = b.known
    return stretch_at(b, stretch)


cdef int know_blocks(const Scan* scan, BlockScan* b, int64_t front, int64_t back) except -1 nogil:
    """Have the sums of the blocks from the window's first on up to `back`, four at a time."""
    cdef const double* rows[4]
    cdef double hi[4]
    cdef double lo[4]
    cdef int64_t k, n
    if front >= b.known or front < b.oldest:
        b.oldest = b.known = front
    reserve_ring(b, front >> STRETCH_BITS, (back + 3) >> STRETCH_BITS)
    while b.known < back:
        n = min(<int64_t> 4, (scan.rows - b.base) // BLOCK - b.known)
        for k in range(4):
            rows[k] = &scan.values[b.base + (b.known + min(k, n - 1)) * BLOCK].f
        block_sums(rows, hi, lo)
        for k in range(b.known, b.known + n):
            stretch_at(b, k >> STRETCH_BITS).hi[k & (STRETCH - 1)] = hi[k - b.known]
            stretch_at(b, k >> STRETCH_BITS).lo[k & (STRETCH - 1)] = lo[k - b.known]
        b.known += n
    return 0


cdef int reserve_ring(BlockScan* b, int64_t first, int64_t last) except -1 nogil:
    """Room for the stretches first..last."""
    cdef int64_t capacity = max(<int64_t> 4, b.capacity), k
    cdef Stretch* ring
    if last - first < b.capacity:
        return 0
    while capacity <= last - first:
        capacity *= 2
    ring = <Stretch*> calloc(capacity, sizeof(Stretch))
    if ring == NULL:
        with gil:
            raise MemoryError(f"a window of {(last - first) * STRETCH * BLOCK} rows")
    for k in range(first, first + b.capacity):
        ring[k & (capacity - 1)] = stretch_at(b, k)[0]
    free(b.ring)
    b.ring = ring
    b.capacity = capacity
    return 0


cdef void plan_inside(BlockScan* b, int64_t front, int64_t last_front, int64_t split, int64_t back,
                      int64_t last_back) noexcept nogil:
    """The sums at blocks of windows that lie in one stretch."""
    cdef Sum none = Sum(0.0, 0.0)
    cdef Stretch* nodes = built_stretch(b, front >> STRETCH_BITS)
    cdef int64_t base = front & -STRETCH
    stretch_suffixes(nodes, front - base, last_front - base, split - base, &none, b.fronts,
                     &b.whole, &b.after)
    stretch_prefixes(nodes, split - base, back - base, last_back - base, &none, b.backs, &b.before)


cdef int move_forest(BlockScan* b, int64_t front, int64_t back) except -1 nogil:
    """Make it that of the stretches [front, back). Of the first one some blocks may have left before
    their sums were known; then what it holds for this stretch is never asked for."""
    cdef ForestState* s = &b.forest
    cdef FloatSum node
    if front >= s.back:
        s.front = s.back = front
        s.split = -1
    elif front > s.front:
        forest_evict_to(s, front, &node)
    while s.back < back:
        insert_stretch(b)
    return 0


cdef int insert_stretch(BlockScan* b) except -1 nogil:
    cdef Stretch* nodes = built_stretch(b, b.forest.back)
    cdef FloatSum node
    node = FloatSum(nodes.hi[2 * STRETCH - 2], nodes.lo[2 * STRETCH - 2])
    return forest_insert(&b.forest, &node)


cdef int plan_fronts(BlockScan* b, int64_t front, int64_t last) except -1 nogil:
    """The suffixes at the blocks front..last; the forest's front moves on to the last one's stretch."""
    cdef ForestState* s = &b.forest
    cdef FloatSum none = FloatSum(0.0, 0.0)
    cdef const FloatSum* end
    cdef Sum after
    cdef int64_t stretch, k = b.fronts, base, first
    for stretch in range(front >> STRETCH_BITS, (last >> STRETCH_BITS) + 1):
        forest_evict_to(s, stretch, &none)
        base = stretch * STRETCH
        first = max(front - base, <int64_t> 0)
        end = forest_open_front(s, &none) if s.split - stretch > 1 else &none
        after = Sum(end.hi, end.lo)
        stretch_suffixes(stretch_at(b, stretch), first, min(last - base, <int64_t> STRETCH - 1), STRETCH,
                         &after, k, &b.whole, &b.after)
        if first == 0:
            end = (<FloatSum*> s.suffix) + lowest_bit(s.split - stretch)
            b.whole.hi[k] = end.hi
            b.whole.lo[k] = end.lo
        k += STRETCH - first
    return 0


cdef int plan_backs(BlockScan* b, int64_t back, int64_t last) except -1 nogil:
    """The prefixes at the blocks back..last; the forest's back moves on to the last one's stretch."""
    cdef ForestState* s = &b.forest
    cdef const FloatSum* end
    cdef Sum begin
    cdef int64_t stretch, k = b.backs, base, first
    for stretch in range(s.back, (last >> STRETCH_BITS) + 1):
        if stretch > s.back:
            insert_stretch(b)
        begin = Sum(0.0, 0.0)
        if stretch > s.split:
            end = (<FloatSum*> s.prefix) + lowest_bit(stretch - s.split)
            begin = Sum(end.hi, end.lo)
        base = stretch * STRETCH
        first = max(back - base, <int64_t> 0)
        stretch_prefixes(built_stretch(b, stretch), 0, first, min(last - base, <int64_t> STRETCH - 1), &begin,
                         k, &b.before)
        k += STRETCH - first
    return 0


cdef void note_rows(const Scan* scan, BlockScan* b, int64_t front, int64_t last_front, int64_t back,
                    int64_t last_back) noexcept nogil:
    """Where the rows of the planned blocks are."""
    cdef int64_t block
    for block in range(front, last_front + 1):
        b.front_rows[b.fronts] = &scan.values[b.base + block * BLOCK].f
        b.fronts += 1
    for block in range(back, last_back + 1):
        b.back_rows[b.backs] = whole_block(scan, b, block)
        b.backs += 1


cdef const double* whole_block(const Scan* scan, BlockScan* b, int64_t block) noexcept nogil:
    """The values of a block; of the last one, which may be cut short, a copy filled with zeros."""
    cdef int64_t row = b.base + block * BLOCK, left = scan.rows - row
    cdef const double* x = &scan.values[row].f
    if left >= BLOCK:
        return x
    if left <= 0:
        return b.zeros
    memset(b.padded, 0, BLOCK * sizeof(double))
    memcpy(b.padded, x, left * sizeof(double))
    return b.padded


cdef void answer_runs(const Scan* scan, BlockScan* b, int64_t start) noexcept nogil:
    """Compute what was planned, four blocks at a time, and the partials of its windows."""
    cdef int k
    fill_up(b.front_rows, b.fronts)
    for k in range(0, b.fronts, 4):
        block_suffixes(&b.front_rows[k], &b.whole, &b.after, k, &b.suffix)
    fill_up(b.back_rows, b.backs)
    for k in range(0, b.backs, 4):
        block_prefixes(&b.back_rows[k], &b.before, k, &b.prefix)
    for k in range(b.runs):
        answer_one_run(scan, b, start, &b.run[k])
    b.fronts = b.backs = b.runs = 0


cdef void answer_one_run(const Scan* scan, BlockScan* b, int64_t start, const SumRun* run) noexcept nogil:
    cdef const int64_t* lo = &scan.lo[run.first]
    cdef const int64_t* hi = &scan.hi[run.first]
    cdef int64_t n = run.stop - run.first, place = run.first - start
    cdef bint steady = is_steady(scan, run.first, run.stop)
    if b.out != NULL:
        join_sums(&b.suffix, run.suffix, &b.prefix, run.prefix, lo, hi, n, steady, b.out + place, NULL)
    else:
        join_sums(&b.suffix, run.suffix, &b.prefix, run.prefix, lo, hi, n, steady,
                  b.hi + place, b.lo + place)


cdef inline void fill_up(const double** rows, int n) noexcept nogil:
    """Repeat the last block until there is a multiple of four."""
    while n & 3:
        rows[n] = rows[n - 1]
        n += 1


cdef int float_sums(const Scan* scan, BlockScan* b, Lowering lowering, const int64_t* counts,
                    int64_t start, int64_t n) except -1 nogil:
    """The answers start..start + n."""
    cdef const Wanted* w
    cdef int k
    b.out = NULL
    if lowering.n == 1 and lowering.wanted[0].what == SUM:
        b.out = &lowering.wanted[0].out[start].f
        return block_scan_slide(scan, b, start, n)
    block_scan_slide(scan, b, start, n)
    for k in range(lowering.n):
        w = &lowering.wanted[k]
        if w.what == SUM:
            lower_sums(b.hi, b.lo, 1, n, &w.out[start].f)
        else:
            lower_means(b.hi, b.lo, 1, counts + start if counts != NULL else NULL,
                        &scan.lo[start], &scan.hi[start], n, &w.out[start].f)
    return 0


# A few short windows, from their rows.

cdef inline FloatSum plus(FloatSum a, FloatSum b) noexcept nogil:
    cdef FloatSum out
    cdef DD s = two_sum(a.hi, b.hi)
    out.lo = (a.lo + b.lo) + s.lo
    out.hi = s.hi
    return out


cdef FloatSum node_sum(const Cell* x, int level) noexcept nogil:
    """The balanced tree over 2^level rows."""
    if level == 0:
        return FloatSum(x.f, 0.0)
    if level == 1:
        return plus(FloatSum(x[0].f, 0.0), FloatSum(x[1].f, 0.0))
    return plus(node_sum(x, level - 1), node_sum(x + (1 << (level - 1)), level - 1))


cdef void answer_alone(const Scan* scan, BlockScan* b, int64_t start, int64_t i) noexcept nogil:
    """Add the nodes on both sides of the split point."""
    cdef FloatSum left = FloatSum(0.0, 0.0), right = FloatSum(0.0, 0.0)
    cdef int64_t front = scan.lo[i] - b.base, back = scan.hi[i] - b.base
    cdef int top = highest_bit(front ^ back), level
    cdef const Cell* split = &scan.values[b.base + ((back >> top) << top)]
    cdef int64_t size = ((back >> top) << top) - front, rest = size
    while rest:
        level = highest_bit(rest)
        left = plus(node_sum(split - ((size >> level) << level), level), left)
        rest ^= <int64_t> 1 << level
    rest = size = back - ((back >> top) << top)
    while rest:
        level = highest_bit(rest)
        right = plus(right, node_sum(split + ((size >> level) << level) - (<int64_t> 1 << level), level))
        rest ^= <int64_t> 1 << level
    keep_answer(b, i - start, plus(left, right))


cdef void keep_answer(BlockScan* b, int64_t place, FloatSum sum) noexcept nogil:
    if b.out != NULL:
        b.out[place] = sum.hi + sum.lo if isfinite(sum.hi) else sum.hi
    else:
        b.hi[place] = sum.hi
        b.lo[place] = sum.lo
