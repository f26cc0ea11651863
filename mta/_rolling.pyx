"""Batch kernels: the answers of every row at once, from arrays sorted by key and time.

Every window is an interval [lo[i], hi[i]) of row numbers, and lo and hi never fall, across keys
too: a new key starts where the old one ends. `bounds` finds the intervals, `slide` answers them.
Both produce what ``Forest.slide`` would, to the last bit of every double, in fewer combines:

- integer sums are exact, so rows that leave are subtracted: 2 additions a row;
- min and max do not depend on association: suffixes of the older half, a running prefix of the
  newer one: 3 combines a row and no O(n) step per row (the flip of two stacks, done over arrays);
- var and std are computed far beyond the precision of the answer, which again frees association;
- float sums keep the forest's association, node by node, in blocks of 16 rows (`BlockScan`).
"""
from libc.stdint cimport INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from mta._core cimport (
    CHUNK, EXTREMES_KIND, FLOAT_SUM_KIND, INT_SUM_KIND, Forest, ForestOps, ForestState, Lowering,
    find_ops, find_source, forest_evict_to, forest_insert, forest_open_front,
    forest_release, forest_restart, highest_bit, lowest_bit,
    kind_of, make_lift,
)
from mta._exact cimport DD, int128, two_sum
from mta._monoids cimport (
    Cell, CMoments, Extreme, FloatSum, IntSum, Lift, Moments, identity, lift,
)

import numpy as np

# ------------------------------------------------------------------------------------ bounds

def row_bounds(const int64_t[::1] offsets, int64_t first, int64_t last):
    """Row windows: row i's is [i + first, i + last), cut to its key's rows, which are
    offsets[g]..offsets[g + 1].

    Returns lo and hi, int64.
    """
    cdef int64_t n = offsets[offsets.shape[0] - 1], g, i, start, end
    lo_array, hi_array = np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int64_t[::1] lo = lo_array, hi = hi_array
    with nogil:
        for g in range(offsets.shape[0] - 1):
            start = offsets[g]
            end = offsets[g + 1]
            for i in range(start, end):
                hi[i] = clamp(i, last, start, end)
                lo[i] = min(clamp(i, first, start, end), hi[i])
    return lo_array, hi_array


cdef inline int64_t clamp(int64_t i, int64_t by, int64_t start, int64_t end) noexcept nogil:
    """i + by within [start, end], without overflow."""
    if by < start - i:
        return start
    return end if by > end - i else i + by


def time_bounds(const int64_t[::1] ts, const int64_t[::1] offsets, object span, object lag,
                bint left, bint right, bint arrival):
    """Time windows over each key's sorted times: (t - lag - span, t - lag] and its variants.

    span : ticks, or None for everything so far
    lag : ticks, may be negative
    arrival : rows of one time see only those before them (needs lag 0); `right` then says whether
        a row sees itself
    """
    cdef int64_t n = ts.shape[0], g
    lo_array, hi_array = np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int64_t[::1] lo = lo_array, hi = hi_array
    cdef Edges edges = make_edges(span, lag, left, right, arrival)
    cdef int64_t first, last
    if n == 0:
        return lo_array, hi_array
    with nogil:
        for g in range(offsets.shape[0] - 1):
            first = last = offsets[g]
            find_edges(&edges, &ts[0], offsets[g], offsets[g + 1], offsets[g + 1], True,
                       &first, &last, &lo[0], &hi[0])
    return lo_array, hi_array


def next_bounds(const int64_t[::1] ts, int64_t start, int64_t first, int64_t last, object span,
                object lag, bint left, bint right, bint arrival, bint final):
    """`time_bounds` of one key whose rows come bit by bit, from row `start` on.

    ts : times known so far, from the first row that a window may still need
    first, last : where the two edges stand, as places in `ts` (as is `start`)
    final : no rows will follow; else only rows whose window can't grow any more are answered
    """
    cdef int64_t n = ts.shape[0] - start, done = 0
    lo_array, hi_array = np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int64_t[::1] lo = lo_array, hi = hi_array
    cdef Edges edges = make_edges(span, lag, left, right, arrival)
    if n > 0:
        with nogil:
            done = find_edges(&edges, &ts[0], start, ts.shape[0], ts.shape[0], final,
                              &first, &last, &lo[0] - start, &hi[0] - start)
    return lo_array[:done], hi_array[:done], first, last


cdef struct Edges:
    # 128 bits: t - span may lie before the first tick that int64 can tell.
    int128 upper
    int128 lower
    bint unbounded
    bint left
    bint right
    bint arrival


cdef Edges make_edges(object span, object lag, bint left, bint right, bint arrival):
    cdef Edges edges
    edges.upper = <int128> <int64_t> lag
    edges.lower = edges.upper + <int128> <int64_t> (0 if span is None else span)
    edges.unbounded = span is None
    edges.left = left
    edges.right = right
    edges.arrival = arrival
    return edges


cdef int64_t find_edges(const Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                        bint final, int64_t* first, int64_t* last, int64_t* lo, int64_t* hi) noexcept nogil:
    """Two pointers over the times: lo and hi of rows start..stop, or of those that are certain.

    Returns how many rows have their bounds.
    """
    if start < stop and e.upper == 0 and ts[start] >= INT64_MIN + <int64_t> e.lower:
        return find_plain_edges(e, ts, start, stop, end, final, first, last, lo, hi)
    return find_any_edges(e, ts, start, stop, end, final, first, last, lo, hi)


cdef int64_t find_plain_edges(const Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                              bint final, int64_t* first, int64_t* last, int64_t* lo, int64_t* hi) noexcept nogil:
    """No lag, and no edge before the first tick of int64: 64-bit arithmetic does.

    The front moves by up to four rows without a branch, since how many rows leave at a step is what
    a processor can't foresee (measured: 14 ns a row with a branch a row, 4 without).
    """
    cdef int64_t i = start, row, same, f = first[0], edge, step
    cdef int64_t span = <int64_t> e.lower - (not e.left)    # rows of times before t - span leave
    # Rows of the first time may have been answered already; its first row is where `last` stands.
    cdef int64_t begin = last[0] if last[0] < start and ts[last[0]] == ts[start] else start
    while i < stop:
        same = i + 1
        while same < end and ts[same] == ts[i]:
            same += 1
        if same == end and e.right and not e.arrival and not final:
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
        same = min(same, stop)
        for row in range(i, same):
            if e.arrival:
                last[0] = row + e.right
            else:
                last[0] = same if e.right else begin
            hi[row] = last[0]
            lo[row] = min(f, last[0])
        i = begin = same
    first[0] = f
    return i - start


cdef int64_t find_any_edges(const Edges* e, const int64_t* ts, int64_t start, int64_t stop, int64_t end,
                            bint final, int64_t* first, int64_t* last, int64_t* lo, int64_t* hi) noexcept nogil:
    cdef int64_t i
    for i in range(start, stop):
        if e.arrival:
            last[0] = i + e.right
        else:
            while last[0] < end and is_before(ts[last[0]], <int128> ts[i] - e.upper, e.right):
                last[0] += 1
            if last[0] == end and not final:
                return i - start
        if not e.unbounded:
            while first[0] < end and is_before(ts[first[0]], <int128> ts[i] - e.lower, not e.left):
                first[0] += 1
        hi[i] = last[0]
        lo[i] = min(first[0], last[0])
    return stop - start


cdef inline bint is_before(int64_t t, int128 edge, bint inclusive) noexcept nogil:
    return <int128> t <= edge if inclusive else <int128> t < edge


def count_valid(const uint8_t[::1] valid, const int64_t[::1] lo, const int64_t[::1] hi):
    """The number of non-null values in every window."""
    cdef int64_t n = lo.shape[0], i, first = 0, last = 0, inside = 0
    counts_array = np.empty(n, np.int64)
    cdef int64_t[::1] counts = counts_array
    with nogil:
        for i in range(n):
            if lo[i] >= last:
                first = last = lo[i]
                inside = 0
            while first < lo[i]:
                inside -= valid[first]
                first += 1
            while last < hi[i]:
                inside += valid[last]
                last += 1
            counts[i] = inside
    return counts_array


# ------------------------------------------------------------------------------------- slide

def slide(str monoid, str source, str nan, values, const uint8_t[::1] valid,
          const int64_t[::1] lo, const int64_t[::1] hi, const int64_t[::1] counts, outputs):
    """Answer every window [lo[i], hi[i]) over `values`. The arguments are those of
    ``Forest.slide``, with row 0 as the first; sums need nulls to be 0 in `values`.

    Returns the first row whose integer answer does not fit in 64 bits, or -1.
    """
    if monoid == "moments" and source != "float":
        floats = values.astype(np.float64)
        if np.abs(floats).max(initial=0.0) >= 2.0**53:
            # Not every value is a double: the forest has no fast path that could lose one.
            return Forest(monoid, source).slide(values, valid, 0, lo, hi, counts, outputs)
        values, source = floats, "float"
    cdef ForestOps* ops = find_ops(monoid, find_source(source))
    cdef Lift how = make_lift(monoid, source, nan)
    cdef Lowering lowering = Lowering(outputs)
    cdef Scan scan
    cdef int64_t failed
    cdef const int64_t[::1] raw = values.view(np.int64)
    if lo.shape[0] == 0:
        return -1
    scan.values = <const Cell*> &raw[0]
    scan.rows = raw.shape[0]
    scan.valid = &valid[0] if valid is not None else NULL
    scan.lo = &lo[0]
    scan.hi = &hi[0]
    scan.counts = &counts[0] if counts is not None else NULL
    scan.n = lo.shape[0]
    with nogil:
        if kind_of(ops) == INT_SUM_KIND:
            failed = run(&scan, ops, &how, lowering, <IntSum*> NULL)
        elif kind_of(ops) == FLOAT_SUM_KIND:
            failed = run(&scan, ops, &how, lowering, <FloatSum*> NULL)
        elif kind_of(ops) == EXTREMES_KIND:
            failed = run(&scan, ops, &how, lowering, <Extreme*> NULL)
        else:
            failed = run(&scan, ops, &how, lowering, <Moments*> NULL)
    return failed


cdef struct Scan:
    const Cell* values
    int64_t rows
    const uint8_t* valid
    const int64_t* lo
    const int64_t* hi
    const int64_t* counts
    int64_t n


ctypedef fused Batch:
    IntSum
    FloatSum
    Extreme
    Moments


cdef int64_t run(const Scan* scan, const ForestOps* ops, const Lift* how, Lowering lowering,
                 const Batch* tag) except -2 nogil:
    """Partials a chunk at a time, each chunk lowered to its answers while it is in the cache."""
    cdef Batch parts[CHUNK]
    cdef int64_t start = 0, step, failed = -1
    cdef Halves halves
    cdef BlockScan blocks
    cdef RunningSum running
    if Batch is FloatSum:
        block_scan_init(&blocks, how)
    elif Batch is IntSum:
        running.first = running.last = 0
        running.sum.value = 0
    else:
        memset(&halves, 0, sizeof(halves))
        halves.split = halves.last = -1
    try:
        while start < scan.n and failed < 0:
            step = min(<int64_t> CHUNK, scan.n - start)
            if Batch is FloatSum:
                block_scan_slide(scan, &blocks, start, step, parts)
            elif Batch is IntSum:
                running_slide(scan, how, &running, start, step, parts)
            elif Batch is Extreme:
                extremes_slide(scan, how, &halves, start, step, parts)
            else:
                moments_slide(scan, how, &halves, start, step, parts)
            failed = lowering.run(ops, how, parts, start, step, scan.lo, scan.hi, scan.counts)
            start += step
    finally:
        if Batch is FloatSum:
            forest_release(&blocks.nodes)
        elif Batch is not IntSum:
            free(halves.suffix)
    return failed


# ------------------------------------------------------------------ integer sums: subtract

cdef struct RunningSum:
    int64_t first
    int64_t last
    IntSum sum


cdef int running_slide(const Scan* scan, const Lift* how, RunningSum* r, int64_t start,
                       int64_t n, IntSum* out) except -1 nogil:
    """128 bits hold 2^64 rows of 64 bits, so what was added can be subtracted: exact."""
    cdef IntSum x
    cdef int64_t i
    for i in range(start, start + n):
        if scan.lo[i] >= r.last:
            r.first = r.last = scan.lo[i]
            r.sum.value = 0
        while r.first < scan.lo[i]:
            lift(how, &x, scan.values[r.first])
            r.sum.value = r.sum.value - x.value
            r.first += 1
        while r.last < scan.hi[i]:
            lift(how, &x, scan.values[r.last])
            r.sum.value = r.sum.value + x.value
            r.last += 1
        out[i - start] = r.sum
    return 0


# ------------------------------------------------------------------- min, max: two halves

cdef struct Halves:
    # [origin, split) is answered by suffixes, [split, last) by one running prefix.
    void* suffix
    int64_t capacity
    int64_t origin
    int64_t split
    int64_t last
    Extreme extreme
    Moments moments


cdef int reserve_suffixes(Halves* h, int64_t lo, int64_t hi, size_t size) except -1 nogil:
    """Nothing older than `split` is left: the window [lo, hi) becomes the half with suffixes."""
    if hi - lo > h.capacity:
        free(h.suffix)
        h.capacity = 2 * (hi - lo)
        h.suffix = malloc(h.capacity * size)
        if h.suffix == NULL:
            h.capacity = 0
            with gil:
                raise MemoryError(f"a window of {hi - lo} rows")
    h.origin = lo
    h.split = h.last = hi
    return 0


cdef int extremes_slide(const Scan* scan, const Lift* how, Halves* h, int64_t start, int64_t n,
                        Extreme* out) except -1 nogil:
    cdef int64_t i, lo, hi, row, last = h.last, split = h.split, running = h.extreme.key
    cdef int64_t* suffix = (<int64_t*> h.suffix) - h.origin
    for i in range(start, start + n):
        lo = scan.lo[i]
        hi = scan.hi[i]
        if lo >= split:
            reserve_suffixes(h, lo, hi, sizeof(Extreme))
            suffix = (<int64_t*> h.suffix) - lo
            running = INT64_MIN
            for row in range(hi - 1, lo - 1, -1):
                running = greater(running, key_at(scan, how, row))
                suffix[row] = running
            out[i - start].key = running
            split = last = hi
            running = INT64_MIN
            continue
        for row in range(last, hi):
            running = greater(running, key_at(scan, how, row))
        last = hi
        out[i - start].key = greater(suffix[lo], running)
    h.extreme.key = running
    h.last = last
    return 0


cdef inline int64_t greater(int64_t a, int64_t b) noexcept nogil:
    return a if a > b else b


cdef inline int64_t key_at(const Scan* scan, const Lift* how, int64_t row) noexcept nogil:
    cdef Extreme x
    if scan.valid != NULL and not scan.valid[row]:
        return INT64_MIN
    lift(how, &x, scan.values[row])
    return x.key


# ------------------------------------------------------------------ var, std: two halves

cdef extern from "_precise.h":
    void deviations_left "mta_deviations_left"(const double* x, const uint8_t* valid, int64_t lo,
                                               int64_t hi, CMoments* m, CMoments* out) nogil
    void deviations_slide "mta_deviations_slide"(
        const double* x, const uint8_t* valid, const int64_t* lo, const int64_t* hi, int64_t n,
        int64_t last, const CMoments* suffix, CMoments* m, CMoments* out) nogil


cdef int moments_slide(const Scan* scan, const Lift* how, Halves* h, int64_t start, int64_t n,
                       Moments* out) except -1 nogil:
    """Both halves measure deviations from the last value left of the split, which is in every window
    that the split serves: nothing has to be moved from one k to another."""
    cdef int64_t i = start, run
    cdef Moments zero
    cdef const double* x = &scan.values.f
    while i < start + n:
        if scan.lo[i] >= h.split:
            reserve_suffixes(h, scan.lo[i], scan.hi[i], sizeof(Moments))
            identity(how, &zero)
            h.split = find_split(scan, scan.lo[i], scan.hi[i], &zero)
            h.last = h.split
            h.moments = zero
            deviations_left(x, scan.valid, h.origin, h.split,
                            <CMoments*> &zero, <CMoments*> h.suffix)
            if h.split == h.origin:    # no value inside yet
                out[i - start] = zero
                i += 1
                continue
        run = i
        while run < start + n and scan.lo[run] < h.split:
            run += 1
        deviations_slide(x, scan.valid, &scan.lo[i], &scan.hi[i], run - i, h.last,
                         (<CMoments*> h.suffix) - h.origin, <CMoments*> &h.moments,
                         <CMoments*> &out[i - start])
        h.last = max(h.last, scan.hi[run - 1])
        i = run
    return 0


cdef int64_t find_split(const Scan* scan, int64_t lo, int64_t hi, Moments* zero) noexcept nogil:
    """After the last value in [lo, hi), which becomes the k of both halves; lo if there is none."""
    while hi > lo and scan.valid != NULL and not scan.valid[hi - 1]:
        hi -= 1
    if hi > lo:
        zero.k.hi = scan.values[hi - 1].f
    return hi


# ---------------------------------------------------------- float sums: the forest in blocks

cdef enum:
    BLOCK_BITS = 4
    BLOCK = 16


cdef extern from "_precise.h":
    # 16 compensated sums, high and low parts apart, so that they can be taken four at a time.
    ctypedef struct Sums "mta_sums":
        double* hi
        double* lo
    void block_suffixes "mta_block_suffixes"(const double* x, Sums* sums) nogil
    int64_t join_sums "mta_join_sums"(const Sums* suffix, const Sums* prefix, const int64_t* lo,
                                      const int64_t* hi, int64_t front, int64_t back, int64_t n,
                                      double* out) nogil
    void block_prefixes "mta_block_prefixes"(const double* x, Sums* sums, double* node) nogil


cdef struct BlockScan:
    # The forest over whole blocks, plus, for the block that holds the front, the suffix sums from
    # each of its rows to the split point, and for the block that holds the back, the prefix sums
    # from the split point to each of its rows. Both are made 16 at a time.
    ForestState nodes
    int64_t base
    int64_t last           # row after the newest one inside
    int64_t split          # of the sums below
    int64_t front_block
    int64_t back_block
    Sums suffix
    Sums prefix
    FloatSum back_node     # of the whole back block


cdef void block_scan_init(BlockScan* b, const Lift* how) noexcept nogil:
    cdef int level
    b.nodes.how = how[0]
    b.nodes.capacity = 0
    b.nodes.suffix = b.nodes.prefix = NULL
    b.last = -1
    block_scan_restart(b, 0)


cdef void block_scan_restart(BlockScan* b, int64_t base) noexcept nogil:
    b.base = base
    forest_restart(&b.nodes, 0)
    b.split = b.front_block = b.back_block = -1


cdef int block_scan_slide(const Scan* scan, BlockScan* b, int64_t start, int64_t n,
                          FloatSum* out) except -1 nogil:
    cdef int64_t i = start, front, back, split
    cdef int top
    while i < start + n:
        if scan.lo[i] >= b.last:
            block_scan_restart(b, scan.lo[i])
        b.last = scan.hi[i]
        front = scan.lo[i] - b.base
        back = scan.hi[i] - b.base
        top = highest_bit(front ^ back) if front < back else 0
        if top < BLOCK_BITS:
            split = (back >> top) << top
            out[i - start] = sum_small(&scan.values[b.base], front, split, back)
            i += 1
            continue
        split = (back >> top) << top
        move_blocks(scan, b, front >> BLOCK_BITS, back >> BLOCK_BITS)
        if split != b.split or front >> BLOCK_BITS != b.front_block:
            build_suffixes(scan, b)
        if split != b.split or back >> BLOCK_BITS != b.back_block:
            build_prefixes(scan, b)
        b.split = split
        # Rows whose fronts share a block, and whose backs do, are served by the same sums.
        i += join_sums(&b.suffix, &b.prefix, &scan.lo[i], &scan.hi[i],
                       b.base + b.front_block * BLOCK, b.base + b.back_block * BLOCK,
                       start + n - i, &out[i - start].hi)
        b.last = scan.hi[i - 1]
    return 0


cdef inline FloatSum plus(FloatSum a, FloatSum b) noexcept nogil:
    cdef FloatSum out
    cdef DD s = two_sum(a.hi, b.hi)
    out.lo = (a.lo + b.lo) + s.lo
    out.hi = s.hi
    return out


cdef inline FloatSum pair(const Cell* x) noexcept nogil:
    cdef DD s = two_sum(x[0].f, x[1].f)
    return FloatSum(s.hi, s.lo)


cdef inline FloatSum quad(const Cell* x) noexcept nogil:
    return plus(pair(x), pair(x + 2))


cdef inline FloatSum eight(const Cell* x) noexcept nogil:
    return plus(quad(x), quad(x + 4))


cdef inline FloatSum one(const Cell* x) noexcept nogil:
    return FloatSum(x.f, 0.0)


cdef inline FloatSum node_sum(const Cell* x, int level) noexcept nogil:
    if level == 0:
        return one(x)
    if level == 1:
        return pair(x)
    return quad(x) if level == 2 else eight(x)


cdef int move_blocks(const Scan* scan, BlockScan* b, int64_t front, int64_t back) except -1 nogil:
    """Make the forest that of the blocks [front, back)."""
    cdef ForestState* s = &b.nodes
    cdef FloatSum node
    cdef const Cell* x
    if front >= s.back:
        s.front = s.back = front
        s.split = -1
    elif front > s.front:
        forest_evict_to(s, front, &node)
    while s.back < back:
        node = b.back_node
        if s.back != b.back_block:
            x = &scan.values[b.base + s.back * BLOCK]
            node = plus(eight(x), eight(x + 8))
        forest_insert(s, &node)
    return 0


cdef FloatSum sum_small(const Cell* x, int64_t front, int64_t split, int64_t back) noexcept nogil:
    """Front and back in one block: add the nodes on both sides of the split point."""
    cdef FloatSum left = FloatSum(0.0, 0.0), right = FloatSum(0.0, 0.0)
    cdef int64_t size = split - front, rest = size
    cdef int level
    while rest:
        level = highest_bit(rest)
        left = plus(node_sum(x + split - ((size >> level) << level), level), left)
        rest ^= <int64_t> 1 << level
    rest = size = back - split
    while rest:
        level = highest_bit(rest)
        right = plus(right, node_sum(x + split + ((size >> level) << level) - (<int64_t> 1 << level), level))
        rest ^= <int64_t> 1 << level
    return plus(left, right)


cdef void build_suffixes(const Scan* scan, BlockScan* b) noexcept nogil:
    """suffix[o] = rows [front block + o, split), each one node onto a longer run."""
    cdef const ForestState* s = &b.nodes
    cdef FloatSum whole = (<FloatSum*> s.suffix)[lowest_bit(s.split - s.front)]
    cdef FloatSum rest = FloatSum(0.0, 0.0)
    if s.split - s.front > 1:
        rest = forest_open_front(&b.nodes, &rest)[0]
    b.suffix.hi[0] = whole.hi
    b.suffix.lo[0] = whole.lo
    b.suffix.hi[BLOCK] = rest.hi
    b.suffix.lo[BLOCK] = rest.lo
    block_suffixes(&scan.values[b.base + s.front * BLOCK].f, &b.suffix)
    b.front_block = s.front


cdef void build_prefixes(const Scan* scan, BlockScan* b) noexcept nogil:
    """prefix[o] = rows [split, back block + o)."""
    cdef const ForestState* s = &b.nodes
    cdef int64_t row = b.base + s.back * BLOCK, left = scan.rows - row
    cdef FloatSum run = FloatSum(0.0, 0.0)
    cdef const double* x = &scan.values[row].f
    cdef double[BLOCK] padded
    if s.back > s.split:
        run = (<FloatSum*> s.prefix)[lowest_bit(s.back - s.split)]
    if left < BLOCK:
        memset(padded, 0, sizeof(padded))
        memcpy(padded, x, max(left, 0) * sizeof(double))
        x = padded
    b.prefix.hi[0] = run.hi
    b.prefix.lo[0] = run.lo
    block_prefixes(x, &b.prefix, &b.back_node.hi)
    b.back_block = s.back
