"""Quantiles and the greatest values of windows, all from one order-statistics structure.

A window lives in one of two, and moves between them without a trace in the answers, which are exact:

- a *block* of ranks (`_ranks_block.h`) where many rows are at hand: they are sorted once, and from
  then on a row that comes or goes flips a bit;
- a *tree* (`_ranks_tree.h`) where rows come a few at a time: a counted B+-tree, O(log n) a row.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from mta._core cimport CHUNK
from mta._kernel cimport Counter, Kernel, Lists

import numpy as np

cdef enum:
    # A block is so many windows long. Long ones sort less often, at 16 bytes a row. While windows
    # only grow, and where all fits in the cache, blocks are longer.
    LENGTH = 4
    LONG = 16
    NEAR = 1 << 16
    # Windows of up to so many rows are fastest in one leaf of the tree, if that has AVX2.
    SMALL = 24


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

    Cost: O(1) amortised a row and quantile over blocks, plus a radix sort of each row 4/3 times at
    most; over the tree O(log n), if rows that leave are attached once more, as those of the window
    before (else it is built anew). A jump costs what the rows that enter cost. Memory: 16 bytes a row
    of a block, which has no more rows than are attached, and is 4 windows long, or 16 while they
    only grow or are small; 9 to 40 bytes a row of the window in the tree.

    least : a block is made for no fewer new rows than this
    fast : whether to use AVX2 and PDEP; false where the processor lacks them or is slow at PDEP
    """

    cdef mta_ranks state
    cdef int64_t* found         # per quantile: 3 numbers for each of `room` windows
    cdef int64_t room
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
        free(self.found)
        free(self.out)

    cdef int allocate(self, int quantiles, int tops) except -1:
        cdef mta_ranks* s = &self.state
        s.quantile = <mta_quantile*> calloc(quantiles + 1, sizeof(mta_quantile))
        s.top = <mta_top*> calloc(tops + 1, sizeof(mta_top))
        self.out = <int64_t**> calloc(quantiles + 1, sizeof(int64_t*))
        s.cursor = <mta_cursor*> calloc(quantiles + 1, sizeof(mta_cursor))
        if s.quantile == NULL or s.cursor == NULL or s.top == NULL or self.out == NULL:
            raise MemoryError()
        s.quantiles, s.tops = quantiles, tops
        return 0

    cdef int reserve(self, int64_t windows) except -1 nogil:
        """Room for what is found for so many windows: a chunk of them in batch, but one where single
        rows are pushed, perhaps to very many keys."""
        cdef mta_ranks* s = &self.state
        self.room = 0
        self.found = room_for_found(s.quantile, s.quantiles, self.found, windows)
        if self.found == NULL:
            no_memory(windows)
        self.room = windows
        return 0

    @property
    def fast(self):
        return bool(self.state.fast)

    @fast.setter
    def fast(self, value):
        self.state.fast = bool(value) and mta_is_fast()

    @property
    def ranked(self):
        """Whether the window is in a block at the moment, not in the tree."""
        return bool(self.state.ranked)

    def attach(self, columns, valid, int64_t first):
        cdef mta_window* window = &self.state.window
        Kernel.attach(self, columns, valid, first)
        if not self.state.ranked and window.first < min(first, window.last):
            mta_ranks_clear(&self.state)    # what leaves the tree is gone: begin again
            window.first = window.last = 0
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
        cdef int k
        cdef mta_ranks* s = &self.state
        if n > self.room:
            self.reserve(min(max(n, 2 * self.room), <int64_t> CHUNK))
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
        for k in range(s.quantiles):
            mta_lower_quantile(&s.quantile[k], n, s.rows.source, self.out[k] + start)
        if s.tops:
            with gil:
                self.keep_lists()
        return -1

    cdef int choose(self, int64_t w, int64_t stop, const int64_t* lo, const int64_t* hi) except -1 nogil:
        """Put the window where it goes on best from number w on: in a new block, or in the tree."""
        cdef mta_ranks* s = &self.state
        cdef int64_t inside = hi[w] - lo[w], rows
        if lo[w] >= s.window.last:
            mta_ranks_clear(s)
        rows = self.worth(w, stop, lo, hi)
        if rows > 0:
            if mta_ranks_to_block(s, lo[w], lo[w] + rows) < 0:
                no_memory(rows)
        elif s.ranked:
            if mta_ranks_to_tree(s, lo[w]) < 0:
                no_memory(inside)
        elif lo[w] >= s.block.end:      # the tree points into it no more
            mta_block_release(&s.block)
        return 0

    cdef int64_t worth(self, int64_t w, int64_t stop, const int64_t* lo, const int64_t* hi) noexcept nogil:
        """How many rows to rank from window w on; 0 if the tree costs less."""
        cdef mta_ranks* s = &self.state
        cdef int64_t inside = hi[w] - lo[w], rows = inside
        cdef int64_t old = max(s.window.last - lo[w], <int64_t> 0)
        if s.fast and max(inside, hi[stop - 1] - lo[stop - 1]) <= SMALL:
            return 0
        if is_dense(w, stop, lo, hi, s.window.last):
            rows = max(LENGTH * inside, min(LONG * inside, <int64_t> NEAR))
            if s.ranked and lo[w] == s.block.base:
                rows = LONG * inside
            rows = max(rows, hi[stop - 1] - lo[w])
        rows = min(min(rows, self.scan.rows - lo[w]), MTA_MAX_BLOCK)
        if rows < inside or rows - old < self.least:
            return 0
        # What is old is ranked again. A new row costs the tree about as much as log(old) / 2 rows cost
        # to rank, and twice that where the tree is not in the cache.
        if (rows - old) * bit_length(old) < (old if old > NEAR else 2 * old):
            return 0
        return rows

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


cdef int bit_length(int64_t x) noexcept nogil:
    cdef int n = 0
    while x >> n:
        n += 1
    return n


cdef bint is_dense(int64_t start, int64_t stop, const int64_t* lo, const int64_t* hi,
                   int64_t last) noexcept nogil:
    """Whether at least half of the rows that the windows pass over enter one of them."""
    cdef int64_t w, entering = 0, passed = hi[stop - 1] - max(last, lo[start])
    for w in range(start, stop):
        entering += hi[w] - min(max(last, lo[w]), hi[w])
        last = max(last, hi[w])
    return 2 * entering >= passed
