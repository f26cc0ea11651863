"""StoredFifo: a window of ``mta.fifo`` whose nodes live on a store, all but O(log n) of them."""
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from mta._decide cimport Chain
from mta._fifo cimport Fifo
from mta._fifo_ops cimport fifo_bytes
from mta._fifo_policies cimport FifoGuide, FifoSearch
from mta._many cimport as_array
from mta._monoids cimport GEOMETRIC_MEAN, MEAN, Cell
from mta._rings cimport ring_place
from mta._tier_bytes cimport WORD
from mta._tiers cimport Tiers

import numpy as np

from mta.errors import DataError, SpecError, SnapshotError, StoreError
from mta.policies import AtMost
from mta.stores import Store, open_store

cdef enum:
    FEWEST_BITS = 2
    BOXED_BYTES = 128    # of a Python value as text, about
    SINGLE_STEPS = 2     # that evict without looking further than `Tiers.prepare` has
    LONGEST_NAME = 400   # bytes; keys have up to 511


cdef class StoredFifo(Fifo):
    """A window of ``mta.fifo`` on a store: what its two classes have in common.

    Parameters
    ----------
    agg : as for `mta.fifo.Fifo`
    type : of the values, "float" or "int", which has to be known at once. None: floats; any, where a
        monoid of your own is to run through Python, whose partials are stored as text
    store : a `mta.stores.Store`, which stays open when the window is closed, or a URL, for
        `mta.stores.open_store`: read and written in the background, and closed with the window
    name : of the window; several may share a store, one process at a time has one of them open
    block : bytes of a block, about: the unit of reading and writing. A window opens again with the block
        it was made with
    """

    cdef Tiers tiers
    cdef readonly object store
    cdef bint owns
    cdef bint open
    # While `slide` goes through an array: the first failure of the store, after which no more is done.
    cdef bint sliding, failed
    cdef object failure

    def __init__(self, agg, store, str name="window", type=None, *, int64_t block=65536):
        if block < 16 or block > 1 << 28:
            raise SpecError(f"block: 16 bytes to 256 MiB, not {block}")
        if not name or "/" in name or len(name.encode(errors="replace")) > LONGEST_NAME:
            raise SpecError(f"name: text of 1 to {LONGEST_NAME} bytes without a slash is needed, not {name!r}")
        if type is None and getattr(agg, "monoid", None) is None:
            type = "float"
        Fifo.__init__(self, agg, type)
        if self.kinds is None:
            self.kinds = ()    # values of any type, as text
        self.owns = not isinstance(store, Store)
        self.store = open_store(store) if self.owns else store
        boxed = self.user is not None and self.cells is None
        size = BOXED_BYTES if boxed else self.stored_bytes()
        bits = max((block // size).bit_length() - 1, FEWEST_BITS)
        made = {"name": name, "algorithm": self.algorithm, "agg": repr(agg), "type": type,
                "values a block": 1 << bits}
        if self.cells is not None:
            made["cells"] = list(self.cells.kinds)    # of raw blocks
        self.tiers = Tiers(self.store, name, bits, made)
        self.tiers.start(&self.state, self.ops, self.monoid.context if boxed else None)
        self.open = True
        try:
            self.tiers.open()
            self.first_null = self.tiers.nulls_before(self.state.forest.front)
        except BaseException:
            self.open = False
            if self.owns:
                self.store.close()
            raise

    cdef size_t stored_bytes(self) except 0:
        """Of a row in a block; ``_tier_bytes.pxd`` says why sums take a word less."""
        return WORD if self.find_monoid()[1] in ("int", "float") else self.ops.size

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

    cdef int check_open(self) except -1:
        if not self.open:
            raise StoreError(f"{self.tiers.names.name}: the window is closed")
        return 0

    cdef int arrange(self, bint null) except -1:
        """Before rows come in: what they and the next steps need is in memory."""
        self.check_open()
        if self.state.front == self.state.back:
            self.tiers.restart()
            self.first_null = 0
        if self.state.forest.back & ((<int64_t> 1 << self.tiers.bits) - 1) == 0:
            self.tiers.make_room()
        if not self.tiers.counting:
            self.first_null = 0
            if null:
                self.tiers.count_null()
        if self.state.front < self.state.back:
            self.tiers.prepare(self.state.forest.front)
        return 0

    cdef int evict_to(self, int64_t front) except -1:
        self.check_open()
        try:
            if front - self.state.front <= (1 if self.tiers.boxes is not None else SINGLE_STEPS):
                self.tiers.prepare(self.state.forest.front)
            elif front < self.state.back:
                self.tiers.prepare(front - self.state.forest.base)
            Fifo.evict_to(self, front)
        except BaseException:
            self.tiers.forget_heads()
            raise
        return 0

    cdef int64_t null_from(self, int64_t position) except -1 nogil:
        if not self.tiers.counting:
            return 0
        with gil:
            return self.tiers.nulls_before(position - self.state.forest.base)

    def query(self):
        """The answer over the values inside; null is None."""
        self.check_idle()
        if self.state.forest.split < 0 and self.state.front < self.state.back:
            self.tiers.prepare(self.state.forest.front)
        return Fifo.query(self)

    cdef int sweep(self) except -1:
        if self.tiers.boxes is None or len(self.monoid.context.keep) <= 64 + 8 * self.swept:
            return 0
        self.monoid.context.keep = self.tiers.live()
        self.swept = len(self.monoid.context.keep)
        return 0

    def evict_while(self, policy):
        """As with every `Fifo`; by ``mta.at_most`` values go one by one, and some may have gone where
        the store fails."""
        self.check_idle()
        if not isinstance(policy, AtMost):
            if self.state.front < self.state.back:
                self.tiers.prepare(self.state.forest.front)
            return Fifo.evict_while(self, policy)
        self.checked_policy(policy)
        begun = self.state.front
        while self.state.front < self.state.back:
            sum = self.query()
            if sum is None or sum <= policy.total:
                break
            self.evict_to(self.state.front + 1)
        return self.state.front - begun

    cdef int to_python(self) except -1:
        raise DataError(f"row {self.state.back}: the values are {', '.join(self.kinds)} here")

    cdef object chain_of(self, policies):
        if self.tiers.boxes is not None or any([isinstance(policy, AtMost) for policy in policies]):
            return None
        return Fifo.chain_of(self, policies)

    cdef FifoGuide new_guide(self):
        return StoredGuide(self)

    cdef int append_node(self, int level, int64_t row, void* part) except -1 nogil:
        """To a prefix: the node of this level that starts at the row."""
        cdef int64_t position = row - self.state.forest.base
        if level == 0 and position >> self.tiers.bits == self.tiers.prepared:
            return self.ops.join(
                &self.state, part, ring_place(self.tiers.heads[0], position, self.ops.size), NULL)
        with gil:
            return self.ops.join(&self.state, part, self.tiers.node(level, position >> level), NULL)

    cdef FifoSearch search(self, policy):
        return StoredSearch(self, policy, self.query())

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

    def slide(self, array, Py_ssize_t keep):
        """For every value: insert it, evict down to `keep` values, query. The answers as an array.

        Null answers are NaN, and masked among integers.

        Raises
        ------
        StoreError
            The store has failed. The error's ``answers`` are those of the first values, which are
            inside; go on with ``array[len(error.answers):]``.
        OverflowError
            An integer sum does not fit in 64 bits; the array has been taken in all the same.
        """
        return Fifo.slide(self, array, keep)

    cdef object slide_one(self, value, int64_t keep):
        # First all that reads and writes, so that an answer comes of every value that is inside.
        if self.state.back - self.state.front > max(keep, <int64_t> 1):
            self.evict_to(self.state.back - max(keep, <int64_t> 1))
        return Fifo.slide_one(self, value, keep)

    def slide_while(self, array, *policies):
        """As with every `Fifo`; by ``mta.at_most`` a value at a time.

        Raises
        ------
        StoreError
            The store has failed. The error's ``answers`` are those of the first values. The value
            after them may be inside as well, as ``inserted`` tells; the policies have let go of some
            of its values or of none.
        """
        return Fifo.slide_while(self, array, *policies)

    cdef int64_t run_while(self, const int64_t[::1] cells, const uint8_t[::1] mask, Chain chain, tuple policies,
                           int64_t[::1] counts, int64_t[::1] out) except -2:
        try:
            return Fifo.run_while(self, cells, mask, chain, policies, counts, out)
        except StoreError as error:
            error.answers = self.finished(np.asarray(out)[:self.answered], np.asarray(counts)[:self.answered])
            raise

    cdef int take_in(self, Cell raw, bint there, int64_t most) except -1 nogil:
        cdef uint8_t marked = there
        cdef int64_t position
        self.look(&marked, 1)
        position = self.state.forest.back
        self.ops.insert(&self.state, raw, there, NULL, NULL)
        self.note_rows(&marked, position, 1)
        return 0

    cdef int drop_to(self, int64_t front) except -1 nogil:
        """What is then asked for is in memory."""
        if front - self.state.front > SINGLE_STEPS:
            with gil:
                self.evict_inside(front)
            return 0
        if front > self.state.front:
            self.ops.evict_to(&self.state, front, NULL, NULL)
        if self.state.front < self.state.back and self.tiers.prepared != self.state.forest.front >> self.tiers.bits:
            with gil:
                self.tiers.prepare(self.state.forest.front)
        self.first_null = self.tiers.nulls_at(self.state.forest.front) if self.tiers.counting else 0
        return 0

    cdef object answers_of(self, array, step):
        answers = []
        try:
            for value in array.tolist():
                answers.append(step(value))
        except StoreError as error:
            error.answers = as_array(answers)
            raise
        return as_array(answers)

    cdef int64_t run(self, const int64_t[::1] cells, const uint8_t[::1] mask, int64_t keep,
                     int64_t[::1] counts, int64_t[::1] out) except -2:
        cdef int64_t failed, begun = self.state.back
        self.sliding, self.failed, self.failure = True, False, None
        try:
            failed = Fifo.run(self, cells, mask, keep, counts, out)
        finally:
            self.sliding = False
        if self.failed:
            error, self.failure = self.failure, None
            n = self.state.back - begun
            error.answers = self.finished(np.asarray(out)[:n], None if counts is None else np.asarray(counts)[:n])
            raise error
        return failed

    cdef int step(self, const Cell* values, const uint8_t* valid, int64_t n, int64_t keep, void* parts,
                  int64_t* counts) except -1 nogil:
        cdef int64_t rows, position, front, done = 0
        while done < n and self.make_ready(valid + done if valid != NULL else NULL, n - done, keep):
            rows = min(n - done, self.rows_at_once(keep))
            position, front = self.state.forest.back, self.state.forest.front
            self.ops.slide(&self.state, values + done, valid + done if valid != NULL else NULL, rows, keep,
                           <char*> parts + done * <int64_t> self.ops.size, NULL)
            self.note_rows(valid + done if valid != NULL else NULL, position, rows)
            if counts != NULL:
                self.count_rows(counts + done, position, front, rows, keep)
            if self.tiers.counting:
                self.first_null = self.tiers.nulls_at(self.state.forest.front)
            done += rows
        memset(<char*> parts + done * <int64_t> self.ops.size, 0, (n - done) * self.ops.size)
        return 0

    cdef bint make_ready(self, const uint8_t* valid, int64_t n, int64_t keep) except -1 nogil:
        """All that the store is needed for, before the next steps; False: it has failed in a `slide`."""
        if self.failed and self.sliding:
            return False
        cdef bint many = self.state.back - self.state.front > max(keep, <int64_t> 1)
        if not many and not self.has_to_arrange(valid, n):
            return True
        with gil:
            try:
                if many:
                    self.evict_inside(self.state.back - max(keep, <int64_t> 1))
                self.arrange(self.null_ahead(valid, n))
            except StoreError as error:
                if not self.sliding:
                    raise
                self.failed, self.failure = True, error
                return False
        return True

    cdef int evict_inside(self, int64_t front) except -1:
        """While an array is gone through."""
        try:
            self.evict_to(front)
        finally:
            self.busy = True
        return 0

    cdef int look(self, const uint8_t* valid, int64_t n) except -1 nogil:
        """`arrange`, where there is anything to do."""
        if self.has_to_arrange(valid, n):
            with gil:
                self.arrange(self.null_ahead(valid, n))
        return 0

    cdef bint has_to_arrange(self, const uint8_t* valid, int64_t n) noexcept nogil:
        return (not self.tiers.counting and self.null_ahead(valid, n)
                or self.to_block_end(self.next_position()) == <int64_t> 1 << self.tiers.bits
                or self.tiers.prepared != self.state.forest.front >> self.tiers.bits)

    cdef int64_t next_position(self) noexcept nogil:
        """Where the next row will be: an empty window begins a block."""
        return self.state.forest.back if self.state.front < self.state.back else 0

    cdef bint null_ahead(self, const uint8_t* valid, int64_t n) noexcept nogil:
        """Whether one of the next rows is null, within this block."""
        cdef int64_t i
        for i in range(min(n, self.to_block_end(self.next_position())) if valid != NULL else 0):
            if not valid[i]:
                return True
        return False

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
        return 0    # `step` has done so

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
        self.check_open()
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
                            f"its name, {self.tiers.names.name!r}")

    @classmethod
    def from_bytes(cls, data, agg, **options):
        """Refused: see `to_bytes`."""
        raise SnapshotError("from_bytes: a window on a store is opened again by its name")


cdef class StoredGuide(FifoGuide):
    """Its nodes, for policies that need no Python: they are in memory where the front is, or read."""

    cdef int extend(self, int monoid, int level, int64_t row, void* out) except -1 nogil:
        return (<StoredFifo> self.fifo).append_node(level, row, out)

    cdef int evict_to(self, int monoid, int64_t front) except -1 nogil:
        return (<StoredFifo> self.fifo).drop_to(front)


cdef class StoredSearch(FifoSearch):
    """Over a window on a store: nodes are read as they are asked for."""

    cdef int extend(self, int level, void* part) except -1:
        return (<StoredFifo> self.fifo).append_node(level, self.row, part)
