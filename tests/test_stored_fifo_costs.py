"""What a window on a store costs, counted: blocks read and written, combines, bytes, keys."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mta import agg, fifo
from mta.stores import BackgroundStore, MemoryStore
from test_fifo_costs import Counting

KINDS = [fifo.StoredAMTA, fifo.StoredLogMTA]


def made(kind, store=None, values=64, **options):
    """A window of 8-byte partials in blocks of so many."""
    store = MemoryStore() if store is None else store
    return kind(agg.max("x"), store, "w", block=8 * values, **options)


def tiers(rows, values):
    return max(math.ceil(math.log2(rows) / math.log2(values)), 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [4, 64])
@pytest.mark.parametrize("keep", [100, 5000])
def test_every_block_is_written_once_and_read_once(kind, values, keep):
    w = made(kind, values=values)
    x = np.arange(8 * keep, dtype=float)
    w.slide(x[: 4 * keep], keep)
    before = np.array(w.blocks)
    w.slide(x[4 * keep :], keep)
    per_tier = [4 * keep / values ** (tier + 1) for tier in range(tiers(5 * keep, values) + 1)]
    few = 2 * len(per_tier) + 1
    # Blocks that are still in memory when the window begins in them are not read.
    for done in np.array(w.blocks) - before:
        assert sum(per_tier) - few <= done <= sum(per_tier) + few


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("type_", "rows"),
    [
        ("float", np.linspace(-1, 1, 5000) ** 3),
        ("int", np.arange(-2500, 2500) ** 3),
        ("int", np.resize([2**63 - 1, -(2**63)], 5000)),
    ],
)
def test_a_row_of_a_sum_takes_a_word(kind, type_, rows):
    values = 64
    w = kind(agg.sum("x"), MemoryStore(), "w", type_, block=8 * values)
    w.insert_many(rows)
    stored = [w.store.get(key) for key in w.store.keys(b"w/") if b"/tier 0/" in key]
    assert len(stored) == len(rows) // values - 1 - (len(rows) % values == 0)
    assert {len(block) for block in stored} == {8 * values + 1 + 4}


@pytest.mark.parametrize("kind", KINDS)
def test_nulls_take_blocks_of_their_own_only_while_some_are_inside(kind):
    keep, values = 1000, 64
    x = np.ma.MaskedArray(np.ones(8 * keep), np.arange(8 * keep) % 97 == 0)
    w = made(kind, values=values)
    w.slide(x, keep)
    nulls = [key for key in list(w.store.keys()) if b"/nulls/" in key]
    assert 0 < len(nulls) <= 2 * keep / values + 20
    w.slide(np.ones(6 * keep), keep)
    w.flush()
    assert not [key for key in list(w.store.keys()) if b"/nulls/" in key]


@pytest.mark.parametrize("kind", KINDS)
def test_many_leave_for_two_blocks_a_tier(kind):
    rows, values = 20_000, 16
    for gone in (3, 17, 100, 5000, 15_000, 19_000, 19_980, 19_999):
        w = made(kind, values=values)
        w.insert_many(np.arange(rows, dtype=float))
        before = w.blocks[1]
        w.evict_many(gone)
        assert w.blocks[1] - before <= 2 * tiers(rows, values)
        assert len(w) == rows - gone


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_reads_two_blocks_a_tier_to_search_and_two_to_leave(kind):
    rows, values = 20_000, 16
    for gone in (0, 1, 2, 17, 100, 5000, 15_000, 19_999, 20_000):
        w = made(kind, values=values)
        w.insert_many(np.arange(rows, dtype=float))
        before = w.blocks[1]
        assert w.evict_while(lambda total, old: old < gone) == gone  # noqa: B023
        assert w.blocks[1] - before <= 5 * tiers(rows, values)


def counted(kind, values=16):
    combine = Counting()
    monoid = agg.monoid(lift=lambda x: x, combine=combine, zero=0)
    # About 128 bytes a partial in Python.
    return kind(monoid("x"), MemoryStore(), "w", block=128 * values), combine


@pytest.mark.parametrize(
    ("kind", "insert", "evict"), [(fifo.StoredAMTA, 2.2, 1.2), (fifo.StoredLogMTA, 0, 0)]
)
def test_combines_are_those_of_memory_and_one_a_value_for_reading(kind, insert, evict):
    keep, values = 700, 16
    w, combine = counted(kind, values)
    in_memory = Counting()
    memory = {fifo.StoredAMTA: fifo.AMTA, fifo.StoredLogMTA: fifo.LogMTA}[kind](
        agg.monoid(lift=lambda x: x, combine=in_memory, zero=0)("x")
    )
    for window in (w, memory):
        window.slide(np.ones(keep), keep)
    before = combine.calls, in_memory.calls
    steps = 3000
    for _ in range(steps):
        for window in (w, memory):
            window.insert(1)
            window.evict()
            assert window.query() == keep
    stored, local = combine.calls - before[0], in_memory.calls - before[1]
    # A block of b values has b - 1 upper nodes, and there is one in b blocks of the tier above.
    assert local <= stored <= local + steps * (1 + 2 / values) + 4 * values
    if insert:
        assert stored <= steps * (insert + evict + 1 + 1.2)
    for gone in (400, 290):
        before_many = combine.calls
        w.evict_many(gone)
        assert combine.calls - before_many <= 2 * 2 * values * tiers(keep, values) + 2 * 14


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_that_of_some_blocks_for_every_tier(kind):
    values, bytes_ = 64, {}
    for rows in (1000, 10_000, 100_000, 1_000_000):
        w = made(kind, values=values)
        w.insert_many(np.arange(rows, dtype=float))
        w.slide(np.arange(rows / 4, dtype=float), rows)
        w.evict_while(lambda total, old: old < rows / 3)  # noqa: B023
        bytes_[rows] = w.nbytes
        # Two blocks at the back, two at the front and two that searches read, with their upper
        # nodes; rings have whole chunks of 512 partials.
        assert w.nbytes <= tiers(rows, values) * 3 * 6 * 512 * 8 + 20_000
    assert bytes_[1_000_000] <= 4 * bytes_[1000]


def used(w):
    """Blocks that a window of this length needs."""
    return len(w) / 64 * (1 + 1 / 32) + 2


@pytest.mark.parametrize("behind", [False, True])
def test_windows_that_nobody_flushes_leave_nothing(behind):
    inner = MemoryStore()
    store = BackgroundStore(inner) if behind else inner
    w, most = made(fifo.StoredAMTA, store), 0
    for round_ in range(60):
        w.slide(np.ones(1000), 2000)
        most = max(most, len(list(store.keys())))
        if round_ % 7 == 6:
            w.evict_many(len(w))
    assert 2000 / 64 < most <= 3 * 2000 / 64 + 60
    w.flush()
    w.slide(np.ones(100), 2000)
    w.flush()
    assert len(list(store.keys())) <= used(w) + 1


def test_windows_that_are_emptied_before_long_leave_nothing():
    w = made(fifo.StoredAMTA)
    for _ in range(300):  # a few blocks each
        w.insert_many(np.ones(400))
        w.evict_many(400)
    assert len(list(w.store.keys())) <= 40


def test_deaths_leave_nothing():
    class Lasting(MemoryStore):
        def _close(self):
            pass

    store = Lasting()
    for round_ in range(20):
        w = made(fifo.StoredAMTA, store)
        w.insert_many(np.ones(300 + 64 * round_))
        w.evict_many(len(w))
        w.insert_many(np.ones(500))  # from a new beginning, and nobody flushes
    w = made(fifo.StoredAMTA, store)
    assert len(list(store.keys())) <= used(w) + 1
