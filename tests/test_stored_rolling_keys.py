"""Many keys with windows larger than memory: what they hold together, and who gives back."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from mta import agg
from mta.budget import Budget
from mta.sizes import parse_bytes
from mta.stores import MemoryStore
from test_stored_rolling import retried, tracked

AGGS = {
    "s": agg.sum("x"), "m": agg.max("x"), "v": agg.std("x"), "f": agg.sum("x", numerics="fast"),
    "l": agg.first("x"), "q": agg.approx_quantile("x", 0.5, k=8),
}  # fmt: skip
BASIC = {name: AGGS[name] for name in ("s", "m", "v")}


def rows_of(rng, n, keys):
    return {"k": rng.integers(0, keys, n), "x": rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)}


def same(got, want):
    assert {n: np.asarray(c).tobytes() for n, c in got.items()} == {
        n: np.asarray(c).tobytes() for n, c in want.items()
    }


def test_keys_hold_no_more_than_memory_together():
    rng, spec = np.random.default_rng(0), mta.rolling(1_000, by="k").agg(**BASIC)
    memory, held = spec.stream(), []
    with tracked(spec.stream(memory="1MB")) as op:
        for _ in range(30):
            rows = rows_of(rng, 2_000, 30)
            same(op.push(rows), memory.push(rows))
            held.append(op.stats().memory)
        stats = op.stats()
    assert max(held) <= parse_bytes("1MB", "memory")
    assert stats.least < max(held)
    assert stats.read > 100


def test_keys_that_come_one_after_the_other():
    """The first ones had more room than there is for each in the end."""
    rng, spec = np.random.default_rng(1), mta.rolling(2_000, by="k").agg(**BASIC)
    memory, held = spec.stream(), []
    with tracked(spec.stream(memory="1MB")) as op:
        for key in range(24):
            for at in (0, key // 2):
                rows = {**rows_of(rng, 1_500, 1), "k": np.full(1_500, max(at, key * (at == 0)))}
                same(op.push(rows), memory.push(rows))
            held.append(op.stats().memory)
    assert max(held) <= parse_bytes("1MB", "memory")


def test_too_many_keys_are_told():
    rng, spec = np.random.default_rng(2), mta.rolling(100, by="k").agg(s=agg.sum("x"))
    memory = spec.stream()
    with tracked(spec.stream(memory="64KB")) as op:
        for _ in range(5):
            rows = rows_of(rng, 6_000, 50)
            same(op.push(rows), memory.push(rows))
            stats = op.stats()
            assert parse_bytes("64KB", "memory") < stats.least
            assert stats.memory < stats.least + 50 * 4096  # beside it two small blocks each


def test_a_large_push_leaves_no_room_behind():
    spec = mta.rolling(50).agg(s=agg.sum("x"))
    with spec.stream(memory="128KB") as op:
        op.push({"x": np.ones(400_000)})
        op.push({"x": np.ones(10)})
        assert op.stats().memory < parse_bytes("128KB", "memory")


SPEC = mta.rolling(300, by="k").agg(**AGGS)
TIGHT = {"memory": "280KB", "block": 1024}


def same_through_failures(opened, memory, failing, sizes, rows_of):
    """Pushes of these sizes are answered as in memory, whatever calls of the store fail.

    opened : makes the stream on a store; rows_of : so many rows
    """
    store = FailingStore(before=failing)
    op = retried(lambda: opened(store), plain=True)
    for n in sizes:
        rows = rows_of(n)
        same(retried(op.push, rows, plain=True), memory.push(rows))
        if n % 3 == 0:
            retried(op.flush, plain=True)


def same_over_crashes(opened, memory, sizes, rows_of):
    """The same, where each flush is followed by rows that get lost."""
    store = MemoryStore()
    op = opened(store)
    for n in sizes:
        rows = rows_of(n)
        same(op.push(rows), memory.push(rows))
        if n % 2 == 0:
            op.flush()
            saved = dict(store._values)
            op.push(rows_of(n))  # gets lost
            store._values = {**store._values, **saved}
            op = opened(store)


def on_a_tight_store(store):
    return tracked(SPEC.stream(store=store, **TIGHT))


@given(st.sets(st.integers(1, 400), max_size=60), st.integers(0, 9), st.data())
@settings(max_examples=15)
def test_a_store_that_fails_as_keys_give_back(failing, seed, draws):
    rng, sizes = np.random.default_rng(seed), st.lists(st.integers(1, 700), min_size=2, max_size=8)
    same_through_failures(
        on_a_tight_store, SPEC.stream(), failing, draws.draw(sizes), lambda n: rows_of(rng, n, 6)
    )


@given(st.integers(0, 9), st.data())
@settings(max_examples=15)
def test_a_crash_after_keys_have_given_back(seed, draws):
    rng, sizes = np.random.default_rng(seed), st.lists(st.integers(1, 700), min_size=2, max_size=8)
    same_over_crashes(
        on_a_tight_store, SPEC.stream(), draws.draw(sizes), lambda n: rows_of(rng, n, 6)
    )


class Held:
    """Holds so much; some of it can't be given back, and what can is given in two steps."""

    def __init__(self, held, least):
        self.held, self.lowest = held, least

    def sizes(self):
        return self.held, self.lowest

    def give_back(self, over):
        half = (self.held - self.lowest) // 2
        self.held = self.held - half if half >= over else self.lowest
        return half >= over


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9000), st.integers(0, 2000)), max_size=40),
    st.integers(0, 30_000),
)
def test_a_budget_is_kept_where_that_is_possible(uses, memory):
    budget, holders = Budget(memory), [Held(0, 0) for _ in range(6)]
    for number, more, least in uses:
        holder = holders[number]
        holder.lowest = max(holder.lowest, least)
        holder.held = max(holder.held, holder.lowest) + more
        budget.note(holder)
        need = sum(each.lowest for each in holders)
        held = sum(each.held for each in holders)
        beside = max(memory, 4096 * sum(each.held > 0 for each in holders))
        assert held <= (max(memory, need + memory // 8) if need <= memory else need + beside)
    for holder in holders[:1] if any(number == 0 for number, *_ in uses) else []:
        budget.leave(holder)
        assert budget._held == sum(each.held for each in holders[1:])


def test_who_was_used_last_gives_back_last():
    budget, holders = Budget(100), [Held(30, 1) for _ in range(3)]
    for holder in [*holders, holders[0]]:
        budget.note(holder)
    holders[2].held = 60
    budget.note(holders[2])
    assert [holder.held for holder in holders] == [30, 1, 60]
