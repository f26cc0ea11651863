"""StoredFifo: a window of ``mta.fifo`` whose nodes live on a store, all but O(log n) of them."""
from libc.stdint cimport int64_t, uint8_t

from mta._fifo cimport Fifo
from mta._fifo_ops cimport fifo_bytes
from mta._fifo_policies cimport FifoSearch
from mta._monoids cimport GEOMETRIC_MEAN, MEAN, Boxed, Cell
from mta._search cimport Decider
from mta._tiers cimport Tiers

import numpy as np

from mta.errors import SpecError, SnapshotError, StoreError
from mta.policies import AtMost, SinceExtreme, SinceLongestRun
from mta.stores import Store, open_store

cdef enum:
    FEWEST_BITS = 2
    BOXED_BYTES = 128    # of a Python value as text, about
    SINGLE_STEPS = 2     # that evict without looking further than `Tiers.prepare` has


cdef class StoredFifo(Fifo):
    """A window of ``mta.fifo`` on a store: what its two classes have in common.

    Parameters
    ----------
    agg, type : as for `mta.fifo.Fifo`; the type of values has to be known at once
    store : a `mta.stores.Store`, which stays open when the window is closed, or a URL, for
        `mta.stores.open_store`: read and written in the background, and closed with the window
    name : of the window; several may share a store, one process at a time has one of them open
    block : bytes of a block, about: the unit of reading and writing
    """

    cdef Tiers tiers
    cdef readonly object store
    cdef bint owns
    cdef bint open

    def __init__(self, agg, store, str name="window", type="float", *, int64_t block=65536):
        if block < 16 or block > 1 << 28:
            raise SpecError(f"block: 16 bytes to 256 MiB, not {block}")
        if not name or "/" in name:
            raise SpecError(f"name: text without a slash is needed, not {name!r}")
        Fifo.__init__(self, agg, type)
        if self.ops == NULL:
            raise SpecError("type: 'float' or 'int' has to be said where values are on a store")
        self.owns = not isinstance(store, Store)
        self.store = open_store(store) if self.owns else store
        size = BOXED_BYTES if self.user is not None and self.ops.size == sizeof(Boxed) else self.ops.size
        bits = max((block // size).bit_length() - 1, FEWEST_BITS)
        self.tiers = Tiers(self.store, name, bits, "stored fifo", repr((self.algorithm, agg, type, bits)))
        self.tiers.start(&self.state, self.ops, None if self.user is None else self.monoid.context)
        self.open = True
        self.tiers.open()
        self.first_null = self.tiers.nulls_before(self.state.forest.front)

    # --------------------------------------------------------------------------- one value

    @property
    def inserted(self):
        """How many values have ever come in: after a crash, those from here on have to come again."""
        return self.state.back

    @property
    def nbytes(self):
        """Bytes held in this process, those of the store and of Python values not counted."""
        return fifo_bytes(&self.state, self.ops.size) + self.tiers.nbytes()

    cdef int insert_cell(self, Cell raw, bint valid) except -1:
        cdef int64_t position
        self.busy = True
        try:
            self.arrange(not valid)
            position = self.state.forest.back
            self.ops.insert(&self.state, raw, valid, NULL, NULL)
            if self.tiers.counting:
                self.tiers.note(position, not valid)
        finally:
            self.busy = False
        return 0

    cdef int arrange(self, bint null) except -1:
        """Before rows come in: what they and the next steps need is in memory."""
        if not self.open:
            raise StoreError(f"{self.tiers.name}: the window is closed")
        if self.state.front == self.state.back:
            self.tiers.restart()
        if self.state.forest.back & ((<int64_t> 1 << self.tiers.bits) - 1) == 0:
            self.tiers.make_room()
        if null and not self.tiers.counting:
            self.tiers.count_null()
        if not self.tiers.counting or null:
            self.first_null = self.tiers.nulls_before(self.state.forest.front)
        if self.state.front < self.state.back:
            self.tiers.prepare(self.state.forest.front)
        return 0

    cdef int evict_to(self, int64_t front) except -1:
        cdef int64_t to = front - self.state.forest.base
        if not self.open:
            raise StoreError(f"{self.tiers.name}: the window is closed")
        if front < self.state.back:
            if front - self.state.front <= (1 if self.user is not None else SINGLE_STEPS):
                self.tiers.prepare(self.state.forest.front)
            else:
                self.tiers.prepare(to)
        Fifo.evict_to(self, front)
        return 0

    cdef int64_t null_from(self, int64_t position) except -1 nogil:
        with gil:
            return self.tiers.nulls_before(position - self.state.forest.base)

    def query(self):
        """The answer over the values inside; null is None."""
        self.check_idle()
        if self.state.forest.split < 0 and self.state.front < self.state.back:
            self.tiers.prepare(self.state.forest.front)
        return Fifo.query(self)

    cdef int sweep(self) except -1:
        if self.user is None or len(self.monoid.context.keep) <= 64 + 8 * self.swept:
            return 0
        self.monoid.context.keep = self.tiers.live()
        self.swept = len(self.monoid.context.keep)
        return 0

    def evict_while(self, policy):
        """As with every `Fifo`; by ``mta.at_most`` values go one by one."""
        if not isinstance(policy, AtMost):
            return Fifo.evict_while(self, policy)
        self.check_idle()
        self.checked_policy(policy)
        begun = self.state.front
        while self.state.front < self.state.back:
            sum = self.query()
            if sum is None or sum <= policy.total:
                break
            self.evict_to(self.state.front + 1)
        return self.state.front - begun

    cdef Decider decider(self, policy):
        if isinstance(policy, SinceExtreme):
            return self.search(policy)    # reads the nodes that it asks for
        if isinstance(policy, SinceLongestRun) and self.state.forest.split < 0:
            self.query()
        return Fifo.decider(self, policy)

    cdef object chain_of(self, policies):
        return None    # every step may read and write

    cdef FifoSearch search(self, policy):
        cdef StoredSearch search = StoredSearch(self, policy, self.query())
        search.tiers = self.tiers
        return search

    # ------------------------------------------------------------------------------ arrays

    cdef int fill(self, const Cell* values, const uint8_t* valid, int64_t n) except -1 nogil:
        cdef int64_t rows, position
        while n > 0:
            self.look(valid, n)
            rows = min(n, self.to_block_end(self.state.forest.back))
            position = self.state.forest.back
            self.ops.fill(&self.state, values, valid, rows, NULL, NULL)
            self.note_rows(valid, position, rows)
            n -= rows
            values += rows
            valid = valid + rows if valid != NULL else NULL
        return 0

    cdef int step(self, const Cell* values, const uint8_t* valid, int64_t n, int64_t keep, void* parts,
                  int64_t* counts) except -1 nogil:
        cdef int64_t rows, position, front
        while n > 0:
            if self.state.back - self.state.front > max(keep, <int64_t> 1):
                with gil:
                    self.evict_inside(self.state.back - max(keep, <int64_t> 1))
            self.look(valid, n)
            rows = min(n, self.rows_at_once(keep))
            position, front = self.state.forest.back, self.state.forest.front
            self.ops.slide(&self.state, values, valid, rows, keep, parts, NULL)
            self.note_rows(valid, position, rows)
            if counts != NULL:
                self.count_rows(counts, position, front, rows, keep)
                counts += rows
            n -= rows
            values += rows
            parts = <char*> parts + rows * <int64_t> self.ops.size
            valid = valid + rows if valid != NULL else NULL
        return 0

    cdef int evict_inside(self, int64_t front) except -1:
        """While an array is gone through."""
        try:
            self.evict_to(front)
        finally:
            self.busy = True
        return 0

    cdef int look(self, const uint8_t* valid, int64_t n) except -1 nogil:
        """`arrange`, where there is anything to do."""
        # An empty window begins a block.
        cdef int64_t start = self.state.forest.back if self.state.front < self.state.back else 0
        cdef int64_t i, rows = self.to_block_end(start)
        cdef bint null = False
        for i in range(min(n, rows) if valid != NULL else 0):
            null = null or not valid[i]
        if (null and not self.tiers.counting or rows == <int64_t> 1 << self.tiers.bits
                or self.tiers.prepared != self.state.forest.front >> self.tiers.bits):
            with gil:
                self.arrange(null)
        return 0

    cdef int64_t to_block_end(self, int64_t position) noexcept nogil:
        """Rows from this position to the end of its block."""
        cdef int64_t size = <int64_t> 1 << self.tiers.bits
        return size - (position & (size - 1))

    cdef int64_t rows_at_once(self, int64_t keep) noexcept nogil:
        """Steps until the front or the back reaches the end of its block."""
        if keep == 0:
            return 1    # the window is empty after every step, and positions begin again
        cdef int64_t room = keep - (self.state.back - self.state.front)
        return min(self.to_block_end(self.state.forest.back),
                   room + self.to_block_end(self.state.forest.front))

    cdef void note_rows(self, const uint8_t* valid, int64_t position, int64_t rows) noexcept nogil:
        """Rows have come in from this position on."""
        cdef int64_t i
        if self.tiers.counting:
            for i in range(rows):
                self.tiers.note(position + i, valid != NULL and not valid[i])

    cdef void count_rows(self, int64_t* counts, int64_t position, int64_t front, int64_t rows,
                         int64_t keep) noexcept nogil:
        """How many values were inside at each of the last steps."""
        cdef int64_t i, first
        for i in range(rows):
            first = max(front, position + i + 1 - keep)
            counts[i] = position + i + 1 - first
            if self.tiers.counting:
                counts[i] -= self.tiers.nulls_at(position + i + 1) - self.tiers.nulls_at(first)

    cdef object counts_of(self, mask, int64_t n, int64_t keep):
        """Filled in by `step`; None where nobody asks."""
        nulls = mask is not None or self.tiers.counting
        if not nulls and self.answer.need <= min(keep, 1) and self.answer.what not in (MEAN, GEOMETRIC_MEAN):
            return None
        return np.ones(n, np.int64)

    cdef int note_nulls(self, const uint8_t* valid, int64_t begun, int64_t n) except -1:
        self.first_null = self.tiers.nulls_before(self.state.forest.front)
        return 0

    # ----------------------------------------------------------------------------- the store

    def flush(self):
        """Returns when the window, as it is now, is durable: whatever happens to the process, the
        window opens again with these values inside.

        Cost: the open blocks of every level are written, two blocks a tier of 2^bits rows at most.

        Raises
        ------
        StoreError
            It is not durable; what was flushed before still is.
        """
        self.check_idle()
        if not self.open:
            raise StoreError(f"{self.tiers.name}: the window is closed")
        self.tiers.write_header()
        self.store.flush()

    def close(self):
        """Flush; a store that was given as a URL is closed. A second close does nothing."""
        if not self.open:
            return
        self.flush()
        self.open = False
        if self.owns:
            self.store.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    @property
    def blocks(self):
        """How many blocks were (written, read) by this object."""
        return self.tiers.writes, self.tiers.reads

    def to_bytes(self):
        """Refused: the window is on its store already. See `flush`.

        Raises
        ------
        SnapshotError
            Always.
        """
        raise SnapshotError(f"to_bytes: the window is on {self.store!r}; flush() it, and open it again by "
                            f"its name, {self.tiers.name!r}")

    @classmethod
    def from_bytes(cls, data, agg, **options):
        """Refused: see `to_bytes`."""
        raise SnapshotError("from_bytes: a window on a store is opened again by its name")


cdef class StoredSearch(FifoSearch):
    """Over a window on a store: nodes are read as they are asked for."""

    cdef Tiers tiers

    cdef int extend(self, int level, void* part) except -1:
        cdef void* node = self.tiers.node(level, (self.row - self.base) >> level)
        return self.fifo.ops.join(&self.fifo.state, part, node, NULL)
