"""Quantiles and the greatest values of windows, all from one order-statistics structure.

A window lives in one of two, and moves between them without a trace in the answers, which are exact:

- a *block* of ranks (`_ranks_block.h`) where many rows are at hand: they are sorted once, and from
  then on a row that comes or goes flips a bit;
- a *tree* (`_ranks_tree.h`) where rows come a few at a time: a counted B+-tree, O(log n) a row.
"""
from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from mta._core cimport CHUNK
from mta._exact cimport (
    DD, dd_from_int64, dd_from_uint64, divide_int128, int128, int128_from_u64,
)
from mta._kernel cimport Counter, Kernel, Lists
from mta._monoids cimport Cell

import numpy as np

cdef extern from "_precise.h":
    ctypedef struct CDD "mta_dd":
        double hi
        double lo
    CDD dd_mul "mta_dd_mul"(CDD a, CDD b) nogil
    CDD dd_add "mta_dd_add"(CDD a, CDD b) nogil


cdef enum:
    # A block holds the window and so many times as many rows to come: more would sort less often,
    # but in a sparser bitmap and more memory, 16 bytes a row.
    GROWTH = 4
    # Ranking the window again pays where at least 1 / SHARE of it is new.
    SHARE = 6


INTERPOLATIONS = {
    "linear": MTA_LINEAR,
    "lower": MTA_LOWER,
    "higher": MTA_HIGHER,
    "midpoint": MTA_MIDPOINT,
    "nearest": MTA_NEAREST,
}
SOURCES = {"float": MTA_RANK_FLOAT, "int": MTA_RANK_INT, "uint": MTA_RANK_UINT}


cdef class RanksKernel(Kernel):
    """quantile and top_k: a multiset of values under insert, erase and select.

    source : "float", "int" or "uint"
    nan : "propagate" (a quantile of a window with a NaN is NaN) or "greatest" (NaN lies above
        +inf). In a list of the greatest values NaN comes first either way.
    wanted : ("quantile", q, interpolation) and ("top", k), one per answer. A quantile goes to an
        array: of doubles for "linear" and "midpoint", else of the column's own type. The k greatest
        values, greatest first, go to a ``Lists``, as cells of the column's own type.

    The quantile of n values lies at q (n - 1), as in NumPy. "linear" halfway between two values, and
    so the median, is their mean, correctly rounded; between integers every answer is computed with
    100 bits before it is rounded. -0.0 counts as just below 0.0.

    Cost: O(1) amortised a row and quantile over blocks, plus the sort of each row 4/3 times; over the
    tree O(log n). A jump costs what the rows that enter cost. Memory: 16 bytes a row of a block,
    which is at most 4 windows long; 8 to 30 bytes a row of the window in the tree.

    least : a block is made for no fewer new rows than this
    fast : whether to use the PDEP instruction; false where the processor lacks it or is slow at it
    """

    cdef mta_ranks state
    cdef mta_spot* spots
    cdef int64_t** out          # per quantile
    cdef list lists             # per top
    cdef public int64_t least

    def __cinit__(self, Counter counter, str source, str nan, wanted):
        quantiles = [entry for entry in wanted if entry[0] == "quantile"]
        tops = [entry for entry in wanted if entry[0] == "top"]
        if nan not in ("propagate", "greatest"):
            raise ValueError(f"nan: {nan!r}")
        if len(quantiles) + len(tops) < len(wanted):
            raise ValueError(f"wanted: {wanted!r}")
        self.state.rows.source = SOURCES[source]
        self.state.nan_wins = nan == "propagate"
        self.state.missing = MTA_NAN_BITS if source == "float" else 0
        mta_ranks_init(&self.state)
        self.least = 128
        self.allocate(len(quantiles), len(tops))
        for k, (_, q, interpolation) in enumerate(quantiles):
            if not 0.0 <= q <= 1.0:
                raise ValueError(f"a quantile lies between 0 and 1, not at {q!r}")
            self.state.quantile[k].q = q
            self.state.quantile[k].interpolation = INTERPOLATIONS[interpolation]
        for k, (_, count) in enumerate(tops):
            if count < 1:
                raise ValueError(f"top: {count!r} values")
            self.state.top[k].k = count

    def __init__(self, Counter counter, str source, str nan, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        mta_ranks_release(&self.state)
        free(self.spots)
        free(self.out)

    cdef int allocate(self, int quantiles, int tops) except -1:
        cdef mta_ranks* s = &self.state
        cdef int k
        s.quantile = <mta_quantile*> calloc(quantiles + 1, sizeof(mta_quantile))
        s.top = <mta_top*> calloc(tops + 1, sizeof(mta_top))
        self.spots = <mta_spot*> malloc((quantiles * CHUNK + 1) * sizeof(mta_spot))
        self.out = <int64_t**> calloc(quantiles + 1, sizeof(int64_t*))
        s.cursor = <mta_cursor*> calloc(quantiles + 1, sizeof(mta_cursor))
        if s.quantile == NULL or s.cursor == NULL or s.top == NULL or self.spots == NULL or self.out == NULL:
            raise MemoryError()
        s.quantiles, s.tops = quantiles, tops
        for k in range(quantiles):
            s.quantile[k].spots = self.spots + k * CHUNK
        return 0

    @property
    def fast(self):
        return bool(self.state.fast)

    @fast.setter
    def fast(self, value):
        self.state.fast = bool(value) and mta_has_pdep()

    @property
    def ranked(self):
        """Whether the window is in a block at the moment, not in the tree."""
        return bool(self.state.ranked)

    def attach(self, columns, valid, int64_t first):
        Kernel.attach(self, columns, valid, first)
        self.state.rows.values = <const int64_t*> self.scan.values
        self.state.rows.valid = self.scan.valid

    def answer_to(self, arrays):
        cdef int64_t[::1] view
        cdef Lists lists
        self.answers = arrays
        self.lists = [answer for answer in arrays if isinstance(answer, Lists)]
        for k, lists in enumerate(self.lists):
            self.state.top[k].length = lists.length
        plain = [answer for answer in arrays if not isinstance(answer, Lists)]
        for k, array in enumerate(plain):
            view = array.view(np.int64)
            self.out[k] = &view[0] if view.shape[0] else NULL

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t stop = start + n, w = start, run
        cdef mta_ranks* s = &self.state
        if s.tops:
            with gil:
                self.make_room(start, stop, lo, hi)
        while w < stop:
            if not s.ranked or hi[w] > s.block.end:
                self.choose(w, stop, lo, hi)
            run = stop
            if s.ranked:
                run = w
                while run < stop and hi[run] <= s.block.end:
                    run += 1
            if mta_ranks_slide(s, w, run, lo, hi, start) < 0:
                no_memory(hi[w] - lo[w])
            w = run
        self.lower(start, n)
        if s.tops:
            with gil:
                self.keep_lists()
        return -1

    cdef int choose(self, int64_t w, int64_t stop, const int64_t* lo, const int64_t* hi) except -1 nogil:
        """Put the window where it goes on best from number w on: in a new block, or in the tree."""
        cdef mta_ranks* s = &self.state
        cdef int64_t inside = hi[w] - lo[w], old, rows = inside
        if lo[w] >= s.window.last:
            mta_ranks_clear(s)
        old = max(s.window.last - lo[w], <int64_t> 0)
        if is_dense(w, stop, lo, hi, s.window.last):
            rows = max(GROWTH * inside, hi[stop - 1] - lo[w])
        rows = min(min(rows, self.scan.rows - lo[w]), MTA_MAX_BLOCK)
        if rows >= inside and rows - old >= self.least and (rows - old) * SHARE >= old:
            if mta_ranks_to_block(s, lo[w], lo[w] + rows) < 0:
                no_memory(rows)
        elif s.ranked:
            if mta_ranks_to_tree(s) < 0:
                no_memory(inside)
        elif lo[w] >= s.block.end:      # the tree points into it no more
            mta_block_release(&s.block)
        return 0

    cdef int lower(self, int64_t start, int64_t n) except -1 nogil:
        """The answers from the spots found."""
        cdef int k, source = self.state.rows.source
        cdef mta_quantile* q
        for k in range(self.state.quantiles):
            q = &self.state.quantile[k]
            if q.interpolation != MTA_LINEAR and q.interpolation != MTA_MIDPOINT:
                lower_cells(q.spots, n, self.out[k] + start)
            elif source == MTA_RANK_FLOAT:
                lower_floats(q.spots, n, <double*> self.out[k] + start)
            else:
                lower_integers(q.spots, n, source == MTA_RANK_UINT, <double*> self.out[k] + start)
        return 0

    cdef int make_room(self, int64_t start, int64_t stop, const int64_t* lo, const int64_t* hi) except -1:
        """For the lists of these windows, which C code then writes in place."""
        cdef int64_t w, items
        cdef Lists lists
        cdef int k
        for k in range(self.state.tops):
            lists = self.lists[k]
            items = lists.size
            for w in range(start, stop):
                items += min(self.state.top[k].k, hi[w] - lo[w])
            while lists.capacity < items:
                lists.grow()
            self.state.top[k].items = lists.data + lists.size
        return 0

    cdef int keep_lists(self) except -1:
        cdef Lists lists
        cdef int k
        for k in range(self.state.tops):
            lists = self.lists[k]
            lists.size = self.state.top[k].items - lists.data
        return 0


cdef int no_memory(int64_t rows) except -1 nogil:
    with gil:
        raise MemoryError(f"a window of {rows} rows")


cdef bint is_dense(int64_t start, int64_t stop, const int64_t* lo, const int64_t* hi,
                   int64_t last) noexcept nogil:
    """Whether at least half of the rows that the windows pass over enter one of them."""
    cdef int64_t w, entering = 0, passed = hi[stop - 1] - max(last, lo[start])
    for w in range(start, stop):
        entering += hi[w] - min(max(last, lo[w]), hi[w])
        last = max(last, hi[w])
    return 2 * entering >= passed


# ---------------------------------------------------------------------- between two values

cdef void lower_cells(const mta_spot* spots, int64_t n, int64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = spots[i].first


cdef void lower_floats(const mta_spot* spots, int64_t n, double* out) noexcept nogil:
    cdef Cell a, b
    cdef int64_t i
    for i in range(n):
        a.i = spots[i].first
        b.i = spots[i].second
        if spots[i].between == 0.0 or a.f == b.f:
            out[i] = a.f
        elif spots[i].between == 0.5:
            out[i] = mean_of_floats(a.f, b.f)
        else:
            out[i] = between_floats(a.f, b.f, spots[i].between)


cdef inline double mean_of_floats(double a, double b) noexcept nogil:
    """Correctly rounded: halving a sum, or two numbers whose sum overflows, is exact."""
    cdef double s = a + b
    return 0.5 * s if isfinite(s) else 0.5 * a + 0.5 * b


cdef inline double between_floats(double a, double b, double t) noexcept nogil:
    """As NumPy does; infinities, and differences that overflow, as weighted means."""
    cdef double d = b - a
    if not isfinite(d):
        return a * (1.0 - t) + b * t
    return a + d * t if t < 0.5 else b - d * (1.0 - t)


cdef void lower_integers(const mta_spot* spots, int64_t n, bint unsigned, double* out) noexcept nogil:
    cdef int64_t i, a, b
    cdef double t
    for i in range(n):
        a, b, t = spots[i].first, spots[i].second, spots[i].between
        if t == 0.0 or a == b:
            out[i] = <double> <uint64_t> a if unsigned else <double> a
        elif t == 0.5:
            out[i] = divide_int128(widen(a, unsigned) + widen(b, unsigned), 2)
        else:
            out[i] = between_integers(a, b, t, unsigned)


cdef inline int128 widen(int64_t x, bint unsigned) noexcept nogil:
    return int128_from_u64(<uint64_t> x) if unsigned else <int128> x


cdef inline double between_integers(int64_t a, int64_t b, double t, bint unsigned) noexcept nogil:
    """a + (b - a) t. The difference of two 64-bit integers, b >= a, fits in 64 bits unsigned."""
    cdef DD start = dd_from_uint64(<uint64_t> a) if unsigned else dd_from_int64(a)
    cdef DD step = dd_from_uint64(<uint64_t> b - <uint64_t> a)
    cdef CDD s = dd_mul(CDD(step.hi, step.lo), CDD(t, 0.0))
    s = dd_add(CDD(start.hi, start.lo), s)
    return s.hi + s.lo
