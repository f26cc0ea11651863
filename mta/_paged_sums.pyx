"""sum and mean of floats over windows in pages: the forest's sums, 64 rows at a time.

The nodes that ``_paged.pxd`` makes one by one, made as ``_sum_blocks.pyx`` makes them: rows in blocks of
16, four blocks side by side. Over blocks stands the same forest, with blocks for leaves. Where rows come
few at a time, and where the split moves, the general way is taken; both are the sums of
``docs/adr/0001``, to the last bit.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from mta._core cimport lowest_bit
from mta._kernel cimport Counter
from mta._monoids cimport Cell, FloatSum, combine, identity, lift
from mta._moves cimport is_steady, run_end
from mta._paged cimport (
    BLOCK_BITS, TURN, answer_windows, begin_step, bind_rows, bind_tail, fold_leaves, general_end,
    insert_node, put_leaf, turn_end,
)
from mta._paged_kernels cimport PagedForest
from mta._sum_blocks cimport (
    BLOCK, TASKS, RowSums, Sums, block_prefixes, block_suffixes, block_sums, fill_up, join_sums,
    lower_parts, only_sums, place_of,
)


cdef enum:
    MOST = 256          # windows that are joined at a time


cdef struct Turn:
    # The sums from the split to every row of four blocks, and from rows near the front to the split.
    RowSums prefix
    RowSums suffix
    Sums before
    Sums whole
    Sums after
    double hi[MOST]
    double lo[MOST]


cdef class PagedSums(PagedForest):
    """sum and mean of floats, compensated.

    monoid, source, nan : "sum", "float", "propagate"
    wanted : list of ("sum", 0) and ("mean", 0), one per answer

    The nulls of the column have to be 0.
    """

    # Of the page in which the window begins, from block `first` to position `stop`: its rows (0 before
    # the front), and the suffix of each block up to `split`. Made when the front stood at `since`.
    cdef double* rows
    cdef FloatSum* suffixes
    cdef int64_t room           # blocks
    cdef int64_t first
    cdef int64_t since
    cdef int64_t stop
    cdef int64_t suffixes_split

    def __cinit__(self, Counter counter, str monoid, str source, str nan, wanted):
        self.suffixes_split = -1

    def __dealloc__(self):
        self.drop_suffixes()

    @property
    def nbytes(self):
        """Bytes held."""
        return PagedForest.nbytes.__get__(self) + self.room * (BLOCK * sizeof(double) + sizeof(FloatSum))

    def rest(self):
        """Give back what can be made again when it is needed."""
        PagedForest.rest(self)
        self.drop_suffixes()

    cdef void restart(self, int64_t row) noexcept nogil:
        PagedForest.restart(self, row)
        self.suffixes_split = -1

    def restore(self, bytes saved):
        """Stand where `save` was called."""
        self.suffixes_split = -1
        PagedForest.restore(self, saved)

    cdef void drop_suffixes(self) noexcept nogil:
        free(self.rows)
        free(self.suffixes)
        self.rows, self.suffixes = NULL, NULL
        self.room, self.suffixes_split = 0, -1

    # ------------------------------------------------------------------------------ windows

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef Turn turn
        cdef int64_t i = start, next
        begin_step(self, start, lo, hi)
        while i < start + n:
            next = turn_end(self, i, start + n)
            if next > i:
                self.take_turn(&turn, i, next)
            else:
                next = general_end(self, i, start + n)
                answer_windows(self, &self.how, <FloatSum*> NULL, i, next - i)
            i = next
        return -1

    cdef int take_turn(self, Turn* turn, int64_t i, int64_t stop) except -1 nogil:
        """64 rows come in, and the windows [i, stop) are answered."""
        cdef const int64_t* lo = self.scan.lo
        cdef const int64_t* hi = self.scan.hi
        cdef int64_t prefix = -(self.base + self.back), next, end
        cdef double* out
        self.insert_blocks(turn)
        while i < stop:
            self.front = max(self.front, lo[i] - self.base)
            self.have_suffixes()
            end = min(self.stop, ((self.front >> BLOCK_BITS) + TASKS) << BLOCK_BITS)
            next = run_end(&self.scan, i, min(stop, i + MOST), self.base + end, INT64_MAX)
            self.spread_suffixes(turn, self.front, lo[next - 1] - self.base)
            out = only_sums(self.lowering, i)
            join_sums(&turn.suffix, -(self.base + (self.front & -BLOCK)), &turn.prefix, prefix, lo + i, hi + i,
                      next - i, is_steady(&self.scan, i, next), out if out != NULL else turn.hi,
                      NULL if out != NULL else turn.lo)
            if out == NULL:
                lower_parts(self.lowering, &self.scan, turn.hi, turn.lo, self.counts, i, next - i)
            self.front = max(self.front, lo[next - 1] - self.base)
            i = next
        return 0

    cdef int insert_blocks(self, Turn* turn) except -1 nogil:
        """Four blocks come in; the sums from the split to each of their rows."""
        cdef const double* rows[4]
        cdef double hi[4]
        cdef double lo[4]
        cdef const FloatSum* before
        cdef FloatSum node
        cdef int k
        for k in range(4):
            rows[k] = &self.scan.values[self.base + self.back + k * BLOCK].f
        block_sums(rows, hi, lo)
        for k in range(4):
            turn.before.hi[k] = turn.before.lo[k] = 0.0
            if self.back > self.split:
                before = <const FloatSum*> self.prefix + lowest_bit(self.back - self.split)
                turn.before.hi[k], turn.before.lo[k] = before.hi, before.lo
            node = FloatSum(hi[k], lo[k])
            insert_node(self, &self.how, &node, BLOCK_BITS)
        block_prefixes(rows, &turn.before, 0, &turn.prefix)
        return 0

    # --------------------------------------------------------------------------- the front

    cdef int have_suffixes(self) except -1 nogil:
        """Those of the blocks from the front to the end of its page, or to the split."""
        cdef int64_t front = self.front, page = <int64_t> 1 << self.bits, blocks
        if self.suffixes_split == self.split and self.since <= front < self.stop:
            return 0
        self.suffixes_split = -1
        self.first, self.since = front >> BLOCK_BITS, front
        self.stop = min((front & -page) + page, self.split)
        blocks = (self.stop >> BLOCK_BITS) - self.first
        self.make_room(blocks)
        self.copy_rows()
        self.sum_blocks(blocks)
        self.suffixes_split = self.split
        return 0

    cdef int make_room(self, int64_t blocks) except -1 nogil:
        cdef void* rows
        cdef void* suffixes
        if blocks <= self.room:
            return 0
        rows = realloc(self.rows, blocks * BLOCK * sizeof(double))
        if rows != NULL:
            self.rows = <double*> rows
            suffixes = realloc(self.suffixes, (blocks + 1) * sizeof(FloatSum))
            if suffixes != NULL:
                self.suffixes, self.room = <FloatSum*> suffixes, blocks
                return 0
        with gil:
            raise MemoryError(f"a page of {blocks * BLOCK} rows")

    cdef int copy_rows(self) except -1 nogil:
        """From the tail, or from where they are read."""
        cdef int64_t gap = self.since & (BLOCK - 1)
        cdef bint is_read = bind_rows(self, self.since, self.stop)
        memset(self.rows, 0, gap * sizeof(double))
        memcpy(self.rows + gap, &self.scan.values[self.base + self.since].f,
               (self.stop - self.since) * sizeof(double))
        bind_tail(self, is_read)
        return 0

    cdef void sum_blocks(self, int64_t blocks) noexcept nogil:
        cdef const double* rows[4]
        cdef double hi[4]
        cdef double lo[4]
        cdef FloatSum node
        cdef FloatSum* after = self.suffixes + blocks
        cdef int64_t k, m, last = self.first + blocks
        for k in range(0, blocks, 4):
            for m in range(4):
                rows[m] = self.rows + min(k + m, blocks - 1) * BLOCK
            block_sums(rows, hi, lo)
            for m in range(min(<int64_t> 4, blocks - k)):
                node = FloatSum(hi[m], lo[m])
                put_leaf(self, &self.how, <char*> self.suffixes, self.first, self.first + k + m, &node)
        after[0] = FloatSum(0.0, 0.0)
        if self.stop < self.split:
            self.fold_pages(self.stop, <char*> after)
        fold_leaves(self, &self.how, <char*> self.suffixes, self.first, last,
                    after if self.stop < self.split else NULL)
        if self.stop < self.split and self.since & ((<int64_t> 1 << self.bits) - 1) == 0:
            self.fold_pages(self.since, <char*> self.suffixes)    # its node may be larger than the page

    cdef void spread_suffixes(self, Turn* turn, int64_t first, int64_t last) noexcept nogil:
        """The suffixes of all rows of the blocks of these positions."""
        cdef const double* rows[TASKS]
        cdef int64_t begun = first >> BLOCK_BITS, block
        cdef int n = <int> ((last >> BLOCK_BITS) - begun + 1), k
        for k in range(n):
            block = begun + k - self.first
            rows[k] = self.rows + block * BLOCK
            turn.whole.hi[k], turn.whole.lo[k] = self.suffixes[block].hi, self.suffixes[block].lo
            turn.after.hi[k], turn.after.lo[k] = self.suffixes[block + 1].hi, self.suffixes[block + 1].lo
        fill_up(rows, n)
        for k in range(0, n, 4):
            block_suffixes(&rows[k], &turn.whole, &turn.after, k, &turn.suffix)

    # ----------------------------------------------------------------- what the general way asks

    cdef int fill(self, int64_t front, int64_t end) except -1 nogil:
        cdef Turn turn
        cdef FloatSum* head = <FloatSum*> self.head
        cdef int64_t row = front, begun, i, place
        if self.bits <= BLOCK_BITS or end & (BLOCK - 1):
            return False
        self.have_suffixes()
        while row < end:
            begun = row & -BLOCK
            i = min(end, begun + TASKS * BLOCK)
            self.spread_suffixes(&turn, row, i - 1)
            while row < i:
                place = place_of(row - begun)
                head[row - front] = FloatSum(turn.suffix.hi[place], turn.suffix.lo[place])
                row += 1
        return True

    cdef void clear(self, void* part) noexcept nogil:
        identity(&self.how, <FloatSum*> part)

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        lift(&self.how, <FloatSum*> part, self.scan.values[row])    # of a null, 0

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        combine(&self.how, <FloatSum*> out, <const FloatSum*> a, <const FloatSum*> b)
