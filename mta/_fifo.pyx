"""Fifo: one window under one algorithm, pushed and evicted by hand. See ``mta.fifo``."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from mta._core cimport CHUNK, MAX_PART, gives_float
from mta._decide cimport Chain, make_decider
from mta._fifo_policies cimport FifoGuide, FifoSearch, Lowered, base_of
from mta._fifo_state cimport NAMED, FifoState
from mta._inside cimport REAL
from mta._many cimport as_array, is_array, plain_cells
from mta._monoids cimport GEOMETRIC_MEAN, MEAN, Boxed, Cell, Extreme
from mta._pushed cimport RAISE, WRAP
from mta._rings cimport ring_item
from mta._search cimport UNDECIDED, Decider

import numpy as np

from mta._fifo_bytes import partials_of_bytes, partials_to_bytes
from mta._fifo_values import TYPES
from mta.durations import Duration
from mta.errors import DataError, SnapshotError, SpecError
from mta.policies import AtMost, Last, OfAnswer, Ready, SinceLongestRun
from mta.snapshot import seal, unseal

cdef enum:
    MOST_RULED = 4    # policies that are remembered

cdef int64_t STORED = 9    # integers of the state in a snapshot
cdef int64_t EXACT = <int64_t> 1 << 53    # integers up to here are doubles
NOTHING = object()    # the partial of no row in cells, as a value may be the very zero
CELL_KINDS = ("object", "float", "int", "bool")    # by the numbers that snapshots have for them


cdef class Fifo(FifoValues):
    """A first-in, first-out window over bare values: what the classes of ``mta.fifo`` have in common.

    Parameters
    ----------
    agg : an aggregate with a partial of constant size: count, sum, mean, min, max, any, all, var,
        std, product, geometric_mean, longest_run, or a monoid of your own (``agg.monoid``)
    type : "float" or "int", of the values; None: that of the first one. Ints are exact
    keep_values : whether TwoStacks and DABALite keep what `evict_while` needs
    """


    # ----------------------------------------------------------------------------------- policy

    def evict_while(self, policy):
        """Drop the longest run of oldest values that the policy lets go; how many.

        Parameters
        ----------
        policy : ``policy(total, old) -> bool``; `total` is the answer over the window, `old` over
            some of its oldest values. It has to be monotone: where a run goes, every shorter one does.
            Whatever it says, the search ends, and ends within the window. Or a ready-made one, which
            names no answer: ``mta.last(n)``, ``mta.since_max()``, ``mta.at_most(10)`` ...

        Calls of the policy: O(log k) with FlatFAT, LogMTA and AMTA where k values go, 3 where one
        does; else one per value that goes and 2. ``mta.at_most`` asks the window itself, which lets
        its values go one by one, or, with LogMTA and AMTA, a long run of them in O(log^2 n) combines.

        Raises
        ------
        PolicyError
            The policy is not monotone. The window is as it was, as it is whatever the policy raises.
        SpecError
            TwoStacks and DABALite keep no values, unless told to. A ready-made policy is over another
            aggregate, or over times.
        """
        self.check_idle()
        cdef Decider decider = self.known(policy)
        cdef int64_t front, begun = self.state.front
        if decider is None:
            policy = self.checked_policy(policy)
        if begun == self.state.back or self.ops == NULL:
            return 0
        if decider is None:
            decider = self.decider(policy)
        self.busy = True
        if self.guide is not None:
            self.guide.fifo = self
        try:
            front = decider.decide(base_of(&self.state), begun, self.state.back)
        finally:
            self.busy = False
            if self.guide is not None:
                self.guide.fifo = None    # or they would keep each other
        if front > begun:
            self.evict_to(front)
        return front - begun

    cdef object checked_policy(self, policy):
        """A policy that this window can ask."""
        if isinstance(policy, Last) and isinstance(policy.range, Duration):
            raise SpecError(f"policy: values of mta.fifo have no times; {policy!r} is for mta.Window")
        if isinstance(policy, OfAnswer):
            policy.place(self.pairs(), True)
        elif not callable(policy) and not isinstance(policy, Last):
            raise SpecError(f"policy: {policy!r} is neither a function nor one of mta.policies")
        asks = not isinstance(policy, (Last, AtMost, SinceLongestRun))
        if asks and self.algorithm in ("TwoStacks", "DABALite") and not self.keep_values:
            raise SpecError(f"{self.algorithm}: evict_while needs values, and it keeps suffixes only; "
                            f"{self.algorithm}(..., keep_values=True) keeps both")
        return policy

    cdef object pairs(self):
        return ((self.agg.default_name, self.agg),)

    cdef Decider decider(self, policy):
        """What asks the policy."""
        if not isinstance(policy, Ready):
            return self.search(policy)
        if not self.ruled:
            self.guide = self.new_guide()
        made = make_decider(policy, self.guide, self.pairs(), [self.answer], None)
        self.ruled = self.ruled[1 - MOST_RULED:] + [(policy, made)]
        return made

    cdef Decider known(self, policy):
        """What asks this very policy, if it is one of the last."""
        for rule, decider in self.ruled or ():
            if rule is policy:
                return decider
        return None

    cdef FifoSearch search(self, policy):
        return FifoSearch(self, policy, self.query())

    # ---------------------------------------------------------------------------------- arrays

    def insert_many(self, array):
        """Append an array of values. Numbers take no Python object each."""
        self.check_idle()
        given = self.cells_of(array)
        if given is None:
            for value in array.tolist():
                self.insert(value)
            return
        cdef const int64_t[::1] cells = given[0]
        cdef const uint8_t[::1] mask = given[1]
        cdef int64_t n = cells.shape[0]
        cdef const uint8_t* valid = &mask[0] if mask is not None and n else NULL
        cdef int64_t begun = self.state.back
        self.busy = True
        try:
            with nogil:
                self.fill(<const Cell*> &cells[0] if n else NULL, valid, n)
        finally:
            self.note_nulls(valid, begun, self.state.back - begun)
            self.busy = False

    cdef int fill(self, const Cell* values, const uint8_t* valid, int64_t n) except -1 nogil:
        """Append n values."""
        return self.ops.fill(&self.state, values, valid, n, NULL, NULL)

    cdef int step(self, const Cell* values, const uint8_t* valid, int64_t n, int64_t keep, void* parts,
                  int64_t* counts) except -1 nogil:
        """n steps of `slide`; the partials of their answers. `counts`, if not NULL, is of how many values
        are inside; here it is known beforehand."""
        return self.ops.slide(&self.state, values, valid, n, keep, parts, NULL)

    def slide(self, array, Py_ssize_t keep):
        """For every value: insert it, evict down to `keep` values, query. The answers as an array.

        Null answers are NaN, and masked among integers. Numbers are slid over in one compiled loop,
        without the GIL.

        Raises
        ------
        OverflowError
            An integer sum does not fit in 64 bits; the array has been taken in all the same.
        """
        self.check_idle()
        if keep < 0:
            raise IndexError(f"keep: {keep} values")
        given = self.cells_of(array)
        if given is None:
            return self.answers_of(array, lambda value: self.slide_one(value, keep))
        cells, mask = given
        out = np.empty(len(cells), np.int64)
        counts = self.counts_of(mask, len(cells), keep)
        if self.run(cells, mask, keep, counts, out) >= 0 and self.answer.overflow == RAISE:
            raise OverflowError(f"{self.answer.name}: the {self.agg.fn} does not fit in 64 bits")
        return self.finished(out, counts)

    cdef object slide_one(self, value, int64_t keep):
        self.insert(value)
        if self.state.back - self.state.front > keep:
            self.evict_to(self.state.back - keep)
        return self.query()

    def slide_while(self, array, *policies):
        """For every value: insert it, `evict_while` by each of the policies in turn, query. The answers
        as an array.

        Null answers are NaN, and masked among integers. Numbers are slid over in one compiled loop,
        without the GIL: with ready-made policies (``mta.last(n)``, ``mta.since_max()`` ...), and with
        a function where numba compiles it, as ``mta.policy`` tells.

        Raises
        ------
        OverflowError
            An integer sum does not fit in 64 bits; the array has been taken in all the same.

        Whatever a policy raises: the values before have been slid over; that one is inside.
        """
        self.check_idle()
        for policy in policies:
            self.checked_policy(policy)
        if len(policies) == 1 and isinstance(policies[0], Last) and isinstance(policies[0].range, int):
            return self.slide(array, policies[0].range)
        given = self.cells_of(array)
        chain = self.chain_of(policies) if given is not None else None
        if chain is None:
            return self.answers_of(array, lambda value: self.slide_while_one(value, policies))
        cells, mask = given
        out, counts = np.empty(len(cells), np.int64), np.empty(len(cells), np.int64)
        if self.run_while(cells, mask, chain, policies, counts, out) >= 0 and self.answer.overflow == RAISE:
            raise OverflowError(f"{self.answer.name}: the {self.agg.fn} does not fit in 64 bits")
        return self.finished(out, counts)

    cdef object answers_of(self, array, step):
        """Those of a step for every value."""
        return as_array([step(value) for value in array.tolist()])

    cdef FifoGuide new_guide(self):
        return FifoGuide(self)

    cdef object chain_of(self, policies):
        """The policies as one decider; None where Python has to be asked."""
        guide = self.new_guide()
        deciders = [make_decider(policy, guide, self.pairs(), [self.answer], None) for policy in policies]
        if None in deciders:
            return None
        return Chain(guide, deciders or [Decider()])

    cdef object slide_while_one(self, value, policies):
        self.insert(value)
        for policy in policies:
            self.evict_while(policy)
        return self.query()

    cdef int64_t run_while(self, const int64_t[::1] cells, const uint8_t[::1] mask, Chain chain, tuple policies,
                           int64_t[::1] counts, int64_t[::1] out) except -2:
        cdef int64_t n = cells.shape[0], start = 0, stop, end, failed = -1, lost
        cdef const uint8_t* valid = &mask[0] if mask is not None and n else NULL
        cdef const Cell* raw = <const Cell*> &cells[0] if n else NULL
        cdef int64_t* count = &counts[0] if n else NULL
        cdef bint decided = False    # of the row `start`, which is inside
        cdef int64_t most = policies[0].range if policies and isinstance(policies[0], Last) else 0
        cdef Lowered lowered = Lowered(self, out, counts)
        self.answered = 0
        while start < n:
            stop = min(start + CHUNK, n)
            self.busy = True
            try:
                with nogil:
                    end = self.decide_rows(chain, raw, valid, start, stop, lowered.parts, count, decided, most)
            finally:
                self.busy = False
                lost = lowered.lower(start, self.answered - start)
            failed = lost if failed < 0 else failed
            decided = end < stop
            if decided:
                for policy in policies[chain.decided:]:
                    self.evict_while(policy)
            start = end
        return failed

    cdef int64_t decide_rows(self, Chain chain, const Cell* raw, const uint8_t* valid, int64_t start,
                             int64_t stop, char* parts, int64_t* counts, bint decided, int64_t most) except -1 nogil:
        """Insert the rows [start, stop), let the policies decide, and query; the first row that they
        could not decide, which is inside, or `stop`. `most` is what the first policy leaves, if it says so."""
        cdef int64_t row, front
        for row in range(start, stop):
            if not decided:
                self.take_in(raw[row], valid == NULL or valid[row] != 0, most)
                front = chain.decide(base_of(&self.state), self.state.front, self.state.back)
                if front == UNDECIDED:
                    return row
                self.drop_to(front)
            decided = False
            self.ops.query(&self.state, parts, NULL)
            parts += self.ops.size
            counts[row] = self.count_to(self.state.back)
            self.answered = row + 1
        return stop

    cdef int take_in(self, Cell raw, bint there, int64_t most) except -1 nogil:
        if most and most <= self.state.back - self.state.front == self.state.places:
            self.ops.evict_to(&self.state, self.state.back + 1 - most, NULL, NULL)    # as in `op_slide`
            self.first_null = self.null_from(self.state.front)
        if not there:
            self.note_null(self.state.back)
        self.ops.insert(&self.state, raw, there, NULL, NULL)
        self.last_null += not there
        return 0

    cdef int drop_to(self, int64_t front) except -1 nogil:
        self.ops.evict_to(&self.state, front, NULL, NULL)
        self.first_null = self.null_from(front)
        return 0

    cdef int64_t run(self, const int64_t[::1] cells, const uint8_t[::1] mask, int64_t keep,
                     int64_t[::1] counts, int64_t[::1] out) except -2:
        cdef int64_t n = cells.shape[0], start = 0, step, failed = -1, lost
        cdef const uint8_t* valid = &mask[0] if mask is not None and n else NULL
        cdef int64_t* count = &counts[0] if counts is not None and n else NULL
        cdef const Cell* raw = <const Cell*> &cells[0] if n else NULL
        cdef int64_t begun = self.state.back
        cdef Lowered lowered = Lowered(self, out, counts)
        self.busy = True
        try:
            with nogil:
                while start < n:
                    step = min(<int64_t> CHUNK, n - start)
                    self.step(raw + start, valid + start if valid != NULL else NULL, step, keep,
                              lowered.parts, count + start if count != NULL else NULL)
                    lost = lowered.lower(start, step)
                    failed = lost if failed < 0 else failed
                    start += step
        finally:
            self.note_nulls(valid, begun, self.state.back - begun)
            self.busy = False
        return failed

    cdef object counts_of(self, mask, int64_t n, int64_t keep):
        """How many values are inside at each step; None where nobody asks."""
        cdef bint to_float = self.answer.overflow != RAISE and self.answer.overflow != WRAP
        if to_float:
            return np.ones(n, np.int64)
        nulls = mask is not None or self.first_null < self.last_null
        if not nulls and self.answer.need <= min(keep, 1) and self.answer.what not in (MEAN, GEOMETRIC_MEAN):
            return None
        back = np.arange(self.state.back + 1, self.state.back + n + 1)
        front = np.maximum(back - keep, self.state.front)
        if not nulls:
            return back - front
        # Nulls before every position, from the front on.
        inside = np.zeros(self.state.back - self.state.front + n, np.int64)
        for i in range(self.first_null, self.last_null):
            inside[ring_item(&self.nulls, i, <Extreme*> NULL).key - self.state.front] = 1
        if mask is not None:
            inside[self.state.back - self.state.front:] = 1 - mask
        before = np.concatenate([[0], np.cumsum(inside)])
        return back - front - (before[back - self.state.front] - before[front - self.state.front])

    cdef object finished(self, out, counts):
        """Answers in their type; null where too few values count."""
        cdef bint to_float = self.answer.overflow != RAISE and self.answer.overflow != WRAP
        real = (self.plan_state is not None or self.cells is not None) and (
            to_float or gives_float(self.answer.what, self.monoid.state.how.source))
        answers = out.view(np.float64) if real else out
        if self.answer.truth:
            answers = out.astype(np.bool_)
        if counts is None or to_float or (counts >= self.answer.need).all():
            return answers
        missing = counts < self.answer.need
        if not real:
            return np.ma.MaskedArray(np.where(missing, 0, answers).astype(answers.dtype), missing)
        answers[missing] = np.nan
        return answers

    cdef object cells_of(self, array):
        """An array as (8-byte cells, uint8 mask of values or None); None: it has to be read one by
        one. The type of its values is taken."""
        if not is_array(array):
            raise DataError(f"array: a NumPy array of one dimension is needed, not {array!r}")
        if self.user is not None:
            return self.user_cells(array)
        if self.plan_state is None:
            return self.counted_cells(array)
        given = plain_cells(self.column, array)
        if given is None:
            return None
        cells, valid, kind = given
        self.take_type(kind)
        if self.input.skip_nan and kind == REAL:
            number = ~np.isnan(cells)
            if not number.all():
                valid = number if valid is None else valid & number
        return cells.view(np.int64), None if valid is None else valid.view(np.uint8)

    cdef object user_cells(self, array):
        """The same for a user's monoid; None where it runs through Python."""
        valid = None
        kind = {"f": "float", "i": "int", "u": "int", "b": "bool"}.get(array.dtype.kind)
        if len(self.agg.columns) > 1 or not len(array) or kind is None or array.dtype.itemsize > 8:
            return None
        if np.ma.getmaskarray(array).any():
            valid = ~np.ma.getmaskarray(array)
        array = np.ma.getdata(array)
        if self.agg.nan == "skip" and kind == "float" and np.isnan(array).any():
            valid = ~np.isnan(array) & (True if valid is None else valid)
        counting = array if valid is None else array[valid]
        if not len(counting):
            return None
        if not self.checked:
            self.check_row((counting[0].item(),))
        if self.kinds is None:
            self.know_kinds((kind,))
        if self.cells is None:
            return None
        if kind == "int" and self.kinds[0] == "float" and self.told and (
                counting.max() <= EXACT and counting.min() >= -EXACT):
            kind = "float"
        if self.kinds[0] != kind or (array.dtype.kind == "u" and counting.max() >= 2**63):
            self.to_python()
            return None
        cells = np.ascontiguousarray(array, np.float64 if kind == "float" else np.int64).view(np.int64)
        return cells, None if valid is None else valid.view(np.uint8)

    cdef int to_python(self) except -1:
        parts = self.stored_parts()
        self.first_null = self.last_null = 0
        parts[0] = np.concatenate([[0], np.frombuffer(parts[0], "<i8")[1:]]).astype("<i8").tobytes()
        return self.load(parts)

    cdef object counted_cells(self, array):
        """The same where values are counted, whatever they are."""
        if self.column is not None and (array.dtype.kind not in "iufb" or self.ops == NULL):
            return None
        valid = None
        if self.column is not None:
            valid = ~np.ma.getmaskarray(array)
            if self.input.skip_nan and array.dtype.kind == "f":
                valid &= ~np.isnan(np.ma.getdata(array))
            valid = None if valid.all() else valid.view(np.uint8)
        return np.ones(len(array), np.int64), valid

    cdef int note_nulls(self, const uint8_t* valid, int64_t begun, int64_t n) except -1:
        """Of n values that came in from position `begun` on."""
        cdef int64_t i
        for i in range(n if valid != NULL else 0):
            if not valid[i] and begun + i >= self.state.front:
                self.note_null(begun + i)
                self.last_null += 1
        self.first_null = self.null_from(self.state.front)
        return 0

    def latencies(self, array, Py_ssize_t keep):
        """Nanoseconds that every step of `slide` takes, one after the other, by the monotonic clock.

        The clock costs some 20 to 50 of them. No answers are given, and no nulls are taken.
        """
        self.check_idle()
        given = self.cells_of(array)
        if given is None or given[1] is not None or keep < 0:
            raise DataError("array: numbers are needed, none of them null")
        cdef const int64_t[::1] cells = given[0]
        cdef int64_t i, n = cells.shape[0], now, last = 0
        cdef int64_t[::1] took = np.empty(n, np.int64)
        cdef char part[MAX_PART]
        cdef timespec clock
        self.busy = True
        try:
            with nogil:
                for i in range(-1, n):
                    if i >= 0:
                        self.step(<const Cell*> &cells[i], NULL, 1, keep, part, NULL)
                    clock_gettime(CLOCK_MONOTONIC, &clock)
                    now = <int64_t> clock.tv_sec * 1000000000 + clock.tv_nsec
                    if i >= 0:
                        took[i] = now - last
                    last = now
        finally:
            self.busy = False
            self.note_nulls(NULL, 0, 0)
        return np.asarray(took)

    # -------------------------------------------------------------------------------- snapshots

    def to_bytes(self):
        """The window as bytes: versioned, checksummed, no code inside; partials as they are, so that
        later answers are the same to the last bit.

        Raises
        ------
        SnapshotError
            A partial of a monoid of your own is neither number, text, bytes, None, nor a tuple or
            list of such.
        """
        self.check_idle()
        return seal("fifo", self.spec(), self.stored_parts())

    cdef list stored_parts(self):
        cdef FifoState* s = &self.state
        kind = 0 if self.column is None else self.column.type
        if self.cells is not None:
            kind = sum([CELL_KINDS.index(name) << (2 * k) for k, name in enumerate(self.kinds)])
        head = [kind, self.ops != NULL, s.front, s.back, s.left, s.right, s.accum,
                s.places if self.algorithm == "FlatFAT" else s.mid, s.forest.base]
        parts = [np.array(head, "<i8").tobytes(), self.null_positions()]
        if self.ops != NULL:
            parts += [self.stored(range(NAMED), False, True),
                      self.stored(range(s.front, s.back), False, False),
                      self.stored(range(s.front, s.back) if s.keeps_values else (), True, False)]
        return parts

    cdef str spec(self):
        return repr((self.algorithm, self.agg, self.keep_values))

    cdef bytes null_positions(self):
        found = [ring_item(&self.nulls, i, <Extreme*> NULL).key
                 for i in range(self.first_null, self.last_null)]
        return np.array(found, "<i8").tobytes()

    cdef void* part_at(self, int64_t position, bint value, bint named):
        if named:
            return <char*> self.state.named + position * <int64_t> self.ops.size
        return self.ops.part_at(&self.state, position, value, NULL, NULL)

    cdef bytes stored(self, positions, bint value, bint named):
        """Partials as bytes."""
        cdef int64_t position
        cdef size_t size = self.ops.size, at = 0
        if self.user is not None and self.cells is None:
            found = [<object> (<Boxed*> self.part_at(position, value, named)).value
                     for position in positions]
            return partials_to_bytes(found, self.zero)
        cdef bytes made = PyBytes_FromStringAndSize(NULL, len(positions) * size)
        cdef char* to = made
        for position in positions:
            memcpy(to + at, self.part_at(position, value, named), size)
            at += size
        if self.cells is not None:    # as Python has them, for where nothing is compiled
            found = self.cells.parts(np.frombuffer(made, np.int64).reshape(-1, size // sizeof(Cell)), NOTHING)
            return partials_to_bytes(found, NOTHING, self.zero)
        return made

    @classmethod
    def from_bytes(cls, data, agg, **options):
        """The window that `to_bytes` described, for the same class, aggregate and options.

        Raises
        ------
        SnapshotError
            `data` is damaged, cut short, or a snapshot of something else.
        """
        cdef Fifo fifo = cls(agg, **options)
        fifo.load(unseal("fifo", fifo.spec(), data))
        return fifo

    cdef int load(self, list parts) except -1:
        cdef FifoState* s = &self.state
        cdef int64_t front, back, base
        if len(parts) < 2 or len(parts[0]) != 8 * STORED or len(parts[1]) % 8:
            raise SnapshotError("snapshot: damaged (the parts do not fit)")
        kind, ready, front, back, left, right, accum, mid, base = np.frombuffer(parts[0], "<i8").tolist()
        if not 0 <= base <= front <= back or len(parts) != (5 if ready else 2):
            raise SnapshotError("snapshot: damaged (the positions do not fit)")
        s.front = s.back = front    # of the window that `settle` makes anew
        self.load_kind(kind, len(parts[1]) // 8 == back - front)
        if ready:
            self.settle()
            s.front, s.back, s.left, s.right, s.accum, s.mid = front, back, left, right, accum, mid
            s.forest.base = base
            s.forest.front = s.forest.back = front - base
            self.check_places()
            self.load_parts(parts[2:], back - front)
        return self.load_nulls(np.frombuffer(parts[1], "<i8"))

    cdef int load_kind(self, kind, bint nulls) except -1:
        """The types of the values, as `stored_parts` wrote them. nulls : it holds nothing else"""
        codes = [kind >> (2 * k) & 3 for k in range(len(self.agg.columns))]
        if kind not in (TYPES.values() if self.user is None else range(1 << (2 * len(codes)))):
            raise SnapshotError("snapshot: damaged (the types do not fit)")
        if self.column is not None:
            self.column.type = kind
        if self.user is not None:
            self.through_python()
            if nulls and not kind:
                self.kinds = None
            elif kind:
                self.know_kinds(tuple([CELL_KINDS[code] for code in codes]))
        return 0

    cdef int check_places(self) except -1:
        """Where a list's parts meet has to fit what its algorithm relies on."""
        cdef FifoState* s = &self.state
        fits = True
        if self.algorithm in ("DABA", "DABALite"):
            fits = s.front <= s.left <= s.right <= s.accum <= s.mid <= s.back
            fits = fits and s.right - s.left == s.accum - s.right
            if not s.front == s.mid == s.back:
                fits = fits and s.mid - s.left + 1 == (s.mid - s.front) - (s.back - s.mid)
        elif self.algorithm == "TwoStacks":
            fits = s.front <= s.mid <= s.back and s.left <= s.mid
        elif self.algorithm == "FlatFAT":
            fits = s.mid >= max(s.back - s.front, 2) and s.mid & (s.mid - 1) == 0
        if not fits:
            raise SnapshotError("snapshot: damaged (the list's parts do not fit)")
        return 0

    cdef int load_parts(self, list stored, int64_t rows) except -1:
        cdef size_t size = self.ops.size
        expected = [NAMED, rows, rows if self.state.keeps_values else 0]
        if self.user is not None:
            nothing = self.zero if self.cells is None else NOTHING
            found = [partials_of_bytes(data, nothing, self.zero) for data in stored]
            stored = [self.stored_cells(parts) for parts in found]
        if [len(data) for data in stored] != [n * size for n in expected]:
            raise SnapshotError("snapshot: damaged (the partials do not fit)")
        # Bytes of Python are not aligned as partials are.
        cdef char* room = <char*> malloc((2 * rows + 1) * size)
        cdef char* items = stored[1]
        cdef char* values = stored[2]
        cdef char* tails = stored[0]
        if room == NULL:
            raise MemoryError()
        memcpy(self.state.named, tails, NAMED * size)
        memcpy(room, items, rows * size)
        memcpy(room + rows * size, values, expected[2] * size)
        try:
            self.ops.load(&self.state, room, room + rows * size if expected[2] else NULL, NULL)
        finally:
            free(room)
        return 0

    cdef bytes stored_cells(self, list found):
        """Partials of a user's monoid as they are held."""
        if self.cells is None:
            self.monoid.context.keep += found    # alive from here on
            return np.fromiter(map(id, found), np.int64, len(found)).tobytes()
        try:
            return self.cells.cells(found, NOTHING, self.ops.size // sizeof(Cell)).tobytes()
        except (TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(f"snapshot: partials of another type than {self.agg!r} has") from error

    cdef int load_nulls(self, found) except -1:
        if len(found) and not (self.state.front <= found[0] and found[len(found) - 1] < self.state.back
                               and (np.diff(found) > 0).all()):
            raise SnapshotError("snapshot: damaged (the nulls do not fit)")
        for position in found.tolist():
            self.note_null(position)
            self.last_null += 1
        return 0
