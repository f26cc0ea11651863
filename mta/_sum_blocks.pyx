"""Batch kernel for compensated sums and means of floats: the forest's sums, in blocks of rows.

They are what ``Forest.slide`` gives, to the last bit of every double, in fewer and wider operations.
Rows go in blocks of 16, four of them side by side, and blocks in stretches of 16; over stretches
stands a forest. All three add up the same nodes as one forest over the rows would, for these nodes
are dyadic. Windows of at most 32 rows are looked up in tables of the sums of all spans around.
"""
from libc.math cimport isfinite
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from mta._core cimport (
    CHUNK, ForestState, Lowering, forest_evict_to, forest_insert, forest_open_front, forest_release,
    forest_restart, highest_bit, lowest_bit, make_lift,
)
from mta._exact cimport DD, two_sum
from mta._kernel cimport Counter, Kernel, Scan
from mta._monoids cimport Cell, FloatSum, Lift
from mta._moves cimport is_steady, longest, run_end
from mta._sum_blocks cimport (
    BLOCK, STRETCH, TASKS, RowSums, Stretch, Sum, Sums, block_prefixes, block_suffixes, block_sums,
    fill_up, join_sums, lower_parts, only_sums, stretch_nodes, stretch_prefixes, stretch_suffixes,
)

from mta._sums import check_wanted

cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t size)


cdef enum:
    BLOCK_BITS = 4      # 16 rows in a block,
    STRETCH_BITS = 4    # 16 blocks in a stretch
    FEW = 16            # short windows that don't pay for tables of the sums around them
    TINY_ROWS = 8       # of a window that is added up where it is one of few


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


cdef class CompensatedSumKernel(Kernel):
    """sum and mean of floats, compensated, in the association of the forest (``docs/adr/0001``).

    wanted : list of ("sum", 0) and ("mean", 0), one per answer

    The nulls of the column have to be 0. Cost: about 3 combines a row, four rows at a time. Memory: 4
    bytes a row of the longest window at most, and 170 KB.
    """

    cdef Lowering lowering
    cdef BlockScan* blocks

    def __cinit__(self, Counter counter, wanted):
        cdef Lift how = make_lift("sum", "float", "propagate")
        check_wanted(wanted)
        self.lowering = Lowering(wanted)
        self.blocks = <BlockScan*> aligned_alloc(64, (sizeof(BlockScan) + 63) & -64)
        if self.blocks == NULL:
            raise MemoryError()
        memset(self.blocks, 0, sizeof(BlockScan))
        block_scan_init(self.blocks, &how)

    def __init__(self, Counter counter, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        if self.blocks != NULL:
            forest_release(&self.blocks.forest)
            free(self.blocks.ring)
            free(self.blocks)

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)

    cdef int tell(self, int64_t* marks, int64_t shift) noexcept nogil:
        """The row that positions are counted from, and the one after the newest inside: where nothing
        older is left, they are counted anew."""
        marks[0] = self.blocks.base - shift
        marks[1] = self.blocks.last - shift
        return 2

    cdef int go_on(self, const int64_t* marks, int64_t shift) noexcept nogil:
        self.blocks.last = marks[1] + shift
        block_scan_restart(self.blocks, marks[0] + shift)
        return 0

    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil:
        cdef int64_t i, base = self.blocks.base, last = self.blocks.last
        for i in range(n):
            if lo[i] >= last:
                base = lo[i]
            last = hi[i]
        self.blocks.last = last
        block_scan_restart(self.blocks, base)
        return 0

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        self.scan.lo = lo
        self.scan.hi = hi
        float_sums(&self.scan, self.blocks, self.lowering, self.counter.counts_from(start), start, n)
        return -1


cdef void block_scan_init(BlockScan* b, const Lift* how) noexcept nogil:
    memset(&b.forest, 0, sizeof(ForestState))
    b.forest.how = how[0]
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


cdef int float_sums(const Scan* scan, BlockScan* b, Lowering lowering, const int64_t* counts,
                    int64_t start, int64_t n) except -1 nogil:
    """The answers start..start + n."""
    b.out = only_sums(lowering, start)
    if b.out != NULL:
        return block_scan_slide(scan, b, start, n)
    block_scan_slide(scan, b, start, n)
    lower_parts(lowering, scan, b.hi, b.lo, counts, start, n)
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
