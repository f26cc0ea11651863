"""Windows on a store against those in memory, in any order of calls, failures and deaths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import mta
from failing_store import until_it_works
from fifo_cases import ENDS, FLOATS, INTS, WORDS
from mta import agg, fifo
from mta.errors import PolicyError, SpecError, StoreError
from mta.stores import MemoryStore
from store_windows import History, Shelf, bits

CASES = {
    "sum of ints": (agg.sum("x"), "int", INTS),
    "sum": (agg.sum("x"), "float", FLOATS),
    "mean": (agg.mean("x"), "float", FLOATS),
    "max": (agg.max("x"), "float", FLOATS),
    "max without NaN": (agg.max("x", nan="skip"), "float", FLOATS),
    "std": (agg.std("x"), "float", st.integers(-99, 99).map(float)),
    "count": (agg.count("x"), "float", FLOATS),
    "rows": (agg.count_all(), "int", INTS),
    "words": (WORDS("x"), "float", st.sampled_from("abcdefgh")),
    "ends": (ENDS("x"), "float", st.integers(0, 99)),
    "longest run": (agg.longest_run("x"), "float", st.integers(0, 3).map(float)),
}
ARRAYS = 260  # rows in one call, at most

# Monotone for some aggregates; where not, both windows refuse it alike.
POLICIES = {
    "most": lambda most: lambda total, old: old is not None and old <= most,
    "older than the greatest": lambda _: lambda total, old: old is not None and old < total,
    "all": lambda _: lambda total, old: True,
    "none": lambda _: lambda total, old: False,
    "too long": lambda most: lambda total, old: old is not None and len(str(old)) < most,
}


def outcome(call, *arguments):
    """What it returns, or the type of what it raises that is no failure of the store."""
    try:
        return call(*arguments)
    except StoreError:
        raise
    except (PolicyError, SpecError, TypeError) as error:
        return type(error).__name__


def older(total, old):
    """Monotone for maxima; numba compiles it."""
    return old is not None and old < total


READY = {
    "last": mta.last,
    "since_max": lambda _: mta.since_max(),
    "since_longest_run": lambda _: mta.since_longest_run(),
    "older": lambda _: older,
}


def slid_while(window, array, policies):
    """The answers, as of a caller that tries again."""
    begun, found = window.inserted, []

    def rest():
        if window.inserted - begun > len(found):  # the next one is inside, without an answer
            for policy in policies:
                window.evict_while(policy)
            found.append(window.query())
        try:
            found.extend(window.slide_while(array[len(found) :], *policies))
        except StoreError as error:
            found.extend(error.answers)
            assert window.inserted - begun in (len(found), len(found) + 1)
            raise

    until_it_works(rest)
    return found


class Machine(RuleBasedStateMachine):
    """A window on a store beside one in memory."""

    @initialize(
        name=st.sampled_from(list(CASES)),
        kind=st.sampled_from([fifo.StoredAMTA, fifo.StoredAMTA, fifo.StoredLogMTA]),
        behind=st.booleans(),
        block=st.sampled_from([16, 64, 256]),
        begun=st.integers(0, 300),
    )
    def begin(self, name, kind, behind, block, begun):
        self.aggregate, self.type, self.values = CASES[name]
        self.kind, self.block = kind, block * (8 if name in ("words", "ends") else 1)
        self.shelf = Shelf(behind=behind)
        self.history = History(kind, self.aggregate, self.type)
        self.flushed = (0, 0)
        self.most = 0  # rows since the last flush
        self.open()
        self.memory = self.history.window(0, 0)
        for row in range(begun):
            self.take("abc"[row % 3] if name == "words" else row % 7)
            self.history.mark()

    def open(self):
        # Whoever opens tries again as well.
        self.shelf.open()
        self.window = until_it_works(
            lambda: self.kind(
                self.aggregate, self.shelf.store, "w", type=self.type, block=self.block
            )
        )

    def as_it_was(self):
        assert (len(self.window), self.window.inserted) == (
            len(self.memory),
            len(self.history.rows),
        )
        inner = self.shelf.inner
        plan = inner.before, inner.after
        inner.fail(())
        assert bits(until_it_works(self.window.query)) == bits(self.memory.query())
        inner.before, inner.after = plan

    def attempt(self, call):
        return until_it_works(call, self.as_it_was)

    def take(self, value):
        self.attempt(lambda: self.window.insert(value))
        self.memory.insert(value)
        self.history.insert(value)

    def gone(self, rows):
        if rows:
            self.history.evict_to(self.history.front + rows)

    @rule(data=st.data(), times=st.integers(1, 6))
    def insert(self, data, times):
        for _ in range(times):
            self.take(data.draw(st.one_of(self.values, self.values, self.values, st.none())))
            self.history.mark()

    def array(self, data, n):
        """Few draws, many rows; null where the last of them says so."""
        few = data.draw(st.lists(self.values, min_size=1, max_size=9))
        rows = [few[(row * row) % len(few)] for row in range(n)]
        nulls = data.draw(
            st.sets(st.integers(0, max(n - 1, 0)), max_size=3) if n else st.just(set())
        )
        if isinstance(rows[0] if rows else "", str):
            return np.array(rows, object), rows
        array = np.array(rows, np.int64 if self.type == "int" else np.float64)
        if nulls and self.aggregate.monoid is None:
            array = np.ma.MaskedArray(array, [row in nulls for row in range(n)])
        return array, array.tolist()

    @rule(data=st.data(), n=st.integers(0, ARRAYS))
    def insert_many(self, data, n):
        array, rows = self.array(data, n)
        self.memory.insert_many(array)
        left = self.window.inserted + n

        def rest():
            self.window.insert_many(array[n - (left - self.window.inserted) :])

        until_it_works(rest)
        for value in rows:
            self.history.insert(value)
        self.history.mark()

    @rule(data=st.data(), n=st.integers(0, ARRAYS), keep=st.integers(0, 40) | st.integers(0, 700))
    def slide(self, data, n, keep):
        array, rows = self.array(data, n)
        expected = self.memory.slide(array, keep)
        before = self.window.inserted
        found = []
        for _ in range(60):
            try:
                found += list(self.window.slide(array[len(found) :], keep))
                break
            except StoreError as error:
                found += list(error.answers)
                assert self.window.inserted == before + len(found)
        assert list(map(bits, found)) == list(map(bits, expected))
        for value in rows:
            self.history.insert(value)
            self.history.evict_to(max(self.history.front, len(self.history.rows) - keep))
            self.history.mark()

    @rule(
        data=st.data(),
        n=st.integers(0, ARRAYS),
        names=st.lists(st.sampled_from(list(READY)), max_size=2, unique=True),
        most=st.integers(1, 400),
    )
    def slide_while(self, data, n, names, most):
        maxima = self.aggregate.fn == "max"
        names = [name for name in names if name != "older" or maxima]
        policies = [READY[name](most) for name in names]
        array, rows = self.array(data, n)
        refused = outcome(self.memory.slide_while, array[:0], *policies)
        if isinstance(refused, str):
            assert outcome(self.window.slide_while, array, *policies) == refused
            return
        expected, fronts = [], []
        for row in range(n):
            expected += list(self.memory.slide_while(array[row : row + 1], *policies))
            fronts.append(len(self.history.rows) + row + 1 - len(self.memory))
        found = slid_while(self.window, array, policies)
        assert list(map(bits, found)) == list(map(bits, expected))
        assert bits(self.attempt(self.window.query)) == bits(self.memory.query())
        for value, front in zip(rows, fronts, strict=True):
            self.history.insert(value)
            self.history.evict_to(front)
            self.history.mark()

    @rule()
    def evict(self):
        if len(self.memory):
            self.attempt(self.window.evict)
            self.memory.evict()
            self.gone(1)
            self.history.mark()

    @rule(share=st.floats(0, 1) | st.just(1.0))
    def evict_many(self, share):
        rows = round(share * len(self.memory))
        self.attempt(lambda: self.window.evict_many(rows))
        self.memory.evict_many(rows)
        self.gone(rows)
        self.history.mark()

    @rule(name=st.sampled_from(list(POLICIES)), most=st.integers(0, 400))
    def evict_while(self, name, most):
        policy = POLICIES[name](most)
        asked = {"store": [], "memory": []}

        def asking(of):
            def ask(total, old):
                asked[of].append((bits(total), bits(old)))
                return policy(total, old)

            asked[of].clear()
            return ask

        found = self.attempt(lambda: outcome(self.window.evict_while, asking("store")))
        assert found == outcome(self.memory.evict_while, asking("memory"))
        assert asked["store"] == asked["memory"]
        self.gone(found if isinstance(found, int) else 0)
        self.history.mark()

    @rule()
    def flush(self):
        self.attempt(self.window.flush)
        self.most = len(self.memory)
        self.flushed = self.history.front, len(self.history.rows)

    @rule()
    def open_again(self):
        self.attempt(self.window.close)
        self.attempt(self.shelf.store.close)
        self.open()
        assert (len(self.window), self.window.inserted) == (
            len(self.memory),
            len(self.history.rows),
        )
        self.flushed = self.history.front, len(self.history.rows)

    @rule()
    def crash(self):
        self.shelf.die()
        self.open()
        back = self.window.inserted
        front = back - len(self.window)
        assert self.flushed <= (front, back) and self.flushed[1] <= back <= len(self.history.rows)
        assert self.history.was(front, back)
        self.history.go_back(front, back)
        self.memory = self.history.window(front, back)
        assert bits(self.window.query()) == bits(self.memory.query())

    @rule(calls=st.sets(st.integers(-30, 30).filter(bool), max_size=9))
    def plan_failures(self, calls):
        self.shelf.inner.fail(calls)

    @invariant()
    def answers(self):
        if hasattr(self, "window"):
            self.as_it_was()
            assert len(self.window) == len(self.history.rows) - self.history.front

    @invariant()
    def little_is_kept(self):
        """Blocks in use, and those waiting to be taken off: as many again and a constant."""
        if not hasattr(self, "window") or self.shelf.behind:
            return
        self.most = max(self.most, len(self.memory))
        rows = max(self.block // 64, 4)  # in the smallest block
        in_use = 2 * self.most / rows  # with the upper tiers, and nulls
        assert len(self.shelf.blocks) <= 3 * in_use + 150

    def teardown(self):
        if hasattr(self, "shelf"):
            self.shelf.die()


Machine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestMachine = Machine.TestCase


@given(
    values=st.lists(st.integers(0, 9).map(float), max_size=120),
    most=st.integers(0, 200),
    failing=st.sets(st.integers(1, 60), max_size=12),
)
@settings(max_examples=50)
def test_at_most_lets_go_one_by_one(values, most, failing):
    shelf = Shelf(behind=False)
    window = fifo.StoredAMTA(agg.sum("x"), shelf.open(), block=64)
    memory = fifo.AMTA(agg.sum("x"), type="float")
    memory.insert_many(np.ones(150))
    window.insert_many(np.ones(150))
    shelf.inner.fail(failing)
    for value in values:
        expected = memory.slide_while(np.array([value]), mta.at_most(most))
        before = window.inserted

        def step(value=value, before=before):
            if window.inserted == before:
                return window.slide_while(np.array([value]), mta.at_most(most))
            window.evict_while(mta.at_most(most))
            return [window.query()]

        assert until_it_works(step)[0] == expected[0]
        assert len(window) == len(memory)


@pytest.mark.parametrize("kind", [fifo.StoredAMTA, fifo.StoredLogMTA])
def test_sums_inside_may_need_more_than_64_bits(kind):
    """So that blocks of upper nodes keep their second words, and those of rows don't."""
    period = 1024
    rows = np.resize(np.repeat([2**61 + 3, -(2**61)], period // 2), 6 * period)
    store = MemoryStore()
    w = kind(agg.sum("x"), store, "w", "int", block=64)
    w.insert_many(rows[:period])
    assert w.slide(rows[period : 3 * period], period).tolist() == [3 * period // 2] * 2 * period
    w.flush()
    w = kind(agg.sum("x"), store, "w", "int", block=64)
    assert w.slide(rows[3 * period :], period).tolist() == [3 * period // 2] * 3 * period
    sizes = {len(store.get(key)) for key in store.keys(b"w/") if b"/tier " in key}
    assert sizes == {8 * 8 + 1 + 4, 8 * 16 + 4}


def test_answers_come_with_the_error():
    """A user's monoid and policies, a value at a time: none of the answers is lost."""
    shelf = Shelf(behind=False)
    window = fifo.StoredAMTA(WORDS("x"), shelf.open(), block=512)
    memory = fifo.AMTA(WORDS("x"))
    letters = np.array(list("abcdefgh" * 40), object)
    inside = []  # after a failure, and how many answers there were
    for call in (lambda w, x: w.slide(x, 50), lambda w, x: w.slide_while(x, mta.last(70))):
        expected, found = call(memory, letters).tolist(), []
        while len(found) < len(letters):
            begun = window.inserted
            shelf.inner.fail({7})
            try:
                found += call(window, letters[len(found) :]).tolist()
            except StoreError as error:
                found += error.answers.tolist()
                inside.append((window.inserted - begun, len(error.answers)))
        assert found == expected
    assert len(inside) > 5 and all(rows == answers for rows, answers in inside)
