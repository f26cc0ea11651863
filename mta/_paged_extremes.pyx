"""min and max over windows in pages, 64 rows at a time.

An extreme does not depend on association: suffixes and prefixes are running extremes, four rows at a
time, as in ``_extremes.pyx``. Only what has to be found again later is made of nodes: the partials of
pages, and the newest nodes of all levels.
"""
from libc.stdint cimport INT64_MIN, int64_t
from libc.string cimport memcpy

from mta._core cimport lowest_bit
from mta._extremes cimport (
    KEYS, MARGIN, PIECE, SOON, join_extremes, keys_to_doubles, prefix_extremes, read_extremes,
    suffix_extremes,
)
from mta._kernel cimport Counter
from mta._monoids cimport FLOAT, Extreme, combine, identity, lift
from mta._moves cimport is_steady, run_end
from mta._paged cimport (
    BLOCK_BITS, TURN, answer_windows, begin_step, bind_rows, bind_tail, build_head, general_end,
    insert_node, turn_end,
)
from mta._paged_kernels cimport PagedForest


cdef class PagedExtremes(PagedForest):
    """min or max of one column, the very values.

    monoid, source, nan : as those of ``Forest``
    wanted : list of (monoid, 0), one per answer
    """

    # Keys of a piece of rows, between margins; the extremes from the split to each row of a turn.
    cdef int64_t piece[PIECE + 2 * MARGIN]
    cdef int64_t prefixes[TURN + MARGIN]

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t i = start, next
        begin_step(self, start, lo, hi)
        while i < start + n:
            next = turn_end(self, i, start + n)
            if next > i:
                self.take_turn(i, next)
            else:
                next = general_end(self, i, start + n)
                answer_windows(self, &self.how, <Extreme*> NULL, i, next - i)
            i = next
        return -1

    cdef int take_turn(self, int64_t i, int64_t stop) except -1 nogil:
        """64 rows come in, and the windows [i, stop) are answered."""
        cdef const int64_t* lo = self.scan.lo
        cdef int64_t begun = self.base + self.back, next
        self.insert_rows()
        while i < stop:
            self.front = max(self.front, lo[i] - self.base)
            if self.head_split != self.split or not self.head_front <= self.front < self.head_end:
                build_head(self, &self.how, <Extreme*> NULL)
            next = run_end(&self.scan, i, stop, self.base + self.head_end, begun + TURN)
            self.join(begun, i, next)
            self.front = max(self.front, lo[next - 1] - self.base)
            i = next
        return 0

    cdef int insert_rows(self) except -1 nogil:
        cdef Extreme node
        cdef const int64_t* key = self.piece + MARGIN
        cdef int64_t before = INT64_MIN, row, block
        if self.back > self.split:
            before = (<const Extreme*> self.prefix + lowest_bit(self.back - self.split)).key
        self.read_keys(self.base + self.back, TURN, SOON)
        self.prefixes[0] = before
        prefix_extremes(KEYS, key, TURN, before, self.prefixes + 1)
        for block in range(0, TURN, 16):
            node.key = key[block]
            for row in range(block + 1, block + 16):
                node.key = max(node.key, key[row])
            insert_node(self, &self.how, &node, BLOCK_BITS)
        return 0

    cdef void join(self, int64_t begun, int64_t i, int64_t stop) noexcept nogil:
        """Answer the windows from i to before `stop`; the prefixes are those of the rows from `begun` on."""
        cdef int64_t* out = &self.lowering.wanted[0].out[i].i
        cdef int64_t n = stop - i, j
        cdef int k
        join_extremes(KEYS, <const int64_t*> self.head - (self.base + self.head_front),
                      <const int64_t*> self.prefixes - begun, &self.scan.lo[i], &self.scan.hi[i], n,
                      is_steady(&self.scan, i, stop), out)
        if self.how.source == FLOAT:
            keys_to_doubles(out, n, self.how.flip, self.how.nan_key)
        elif self.how.flip != 0:
            for j in range(n):
                out[j] ^= self.how.flip
        for k in range(1, self.lowering.n):    # there is only one kind of answer
            memcpy(self.lowering.wanted[k].out + i, out, n * sizeof(int64_t))

    cdef void read_keys(self, int64_t row, int64_t n, int64_t ahead) noexcept nogil:
        read_extremes(KEYS, &self.scan.values[row].i, self.scan.valid + row if self.scan.valid != NULL else NULL,
                      n, self.how.source == FLOAT, self.how.flip, self.how.nan_key, ahead, self.piece + MARGIN)

    cdef int fill(self, int64_t front, int64_t end) except -1 nogil:
        cdef int64_t* head = (<int64_t*> self.head) - front
        cdef int64_t running = INT64_MIN, row = end, n
        cdef bint is_read = bind_rows(self, front, end)
        if end < self.split:
            self.fold_pages(end, self.after)
            running = (<const Extreme*> self.after).key
        while row > front:
            n = (row - front - 1) % PIECE + 1
            row -= n
            self.read_keys(self.base + row, n, -SOON)
            running = suffix_extremes(KEYS, self.piece + MARGIN, n, running, head + row)
        bind_tail(self, is_read)
        return True

    # ----------------------------------------------------------------- what the general way asks

    cdef void clear(self, void* part) noexcept nogil:
        identity(&self.how, <Extreme*> part)

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        if self.counts_row(row):
            lift(&self.how, <Extreme*> part, self.scan.values[row])
        else:
            identity(&self.how, <Extreme*> part)

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        combine(&self.how, <Extreme*> out, <const Extreme*> a, <const Extreme*> b)
