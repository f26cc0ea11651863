"""Quantiles, the greatest and different values of trailing windows larger than memory."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
import test_stored_rolling as rolling
import test_together
from failing_store import FailingStore
from mta import agg, count_log
from mta.count_log import CountLog, Tallies
from mta.errors import DamageError, StoreError
from mta.stores import MemoryStore
from strategies import data

COUNTED = ("quantile", "median", "top_k", "count_distinct", "mode", "most_common", "sum")


@pytest.fixture(autouse=True)
def nearly_no_memory(monkeypatch, request):
    """So little that there are runs after a few rows."""
    if "enough" in request.fixturenames:
        return
    monkeypatch.setattr(count_log, "LEAST_MEMORY", 64)
    opened = count_log.Logs.open

    def open_small(self, number):
        self.memory = 64
        return opened(self, number)

    monkeypatch.setattr(count_log.Logs, "open", open_small)


@pytest.fixture
def enough():
    """As much memory as there is."""


@pytest.fixture
def few_served(monkeypatch):
    monkeypatch.setattr(rolling, "SERVED", COUNTED)


# ---- a log against counts in a dictionary --------------------------------------------------------

KEYS = st.integers(-20, 20)
CHANGES = st.lists(st.tuples(KEYS, st.integers(-3, 3)), max_size=30)


def tallies_of(changes):
    counts = Counter()
    for key, by in changes:
        counts[key] += by
    keys = sorted(key for key, n in counts.items() if n)
    return np.array(keys, np.int64), np.array([counts[key] for key in keys], np.int64)


def counted(log, low=-30, high=30):
    keys, counts = log.contents(low, high, (EMPTY, EMPTY), EMPTY, EMPTY)
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


EMPTY = np.zeros(0, np.int64)


@given(st.lists(CHANGES, max_size=40), st.data())
def test_a_log_is_the_sum_of_its_changes(parts, draws):
    store = MemoryStore()
    log, want, saved = CountLog(store, "log", 0), Counter(), None
    for changes in parts:
        keys, counts = tallies_of(changes)
        if len(keys):
            log.extend(keys, counts)
        want.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))
        there = {key: n for key, n in want.items() if n}
        low, high = sorted(draws.draw(st.tuples(KEYS, KEYS)))
        assert counted(log, low, high) == {k: n for k, n in there.items() if low <= k <= high}
        asked = np.array(sorted(draws.draw(st.sets(KEYS, min_size=1))), np.int64)
        assert log.find(asked).tolist() == [there.get(key, 0) for key in asked.tolist()]
        match draws.draw(st.sampled_from(["", "", "save", "restore", "forget", "header", "clear"])):
            case "save":
                saved = log.save(), want.copy()
            case "restore" if saved is not None:
                log.restore(saved[0])
                want = saved[1].copy()
            case "forget":
                log.forget()
                saved = None
                assert len(store._values) <= sum(log._there.values())
            case "header":
                parts_told = log.to_parts()
                store.write(log.pending())
                log.wrote()
                log, saved = CountLog(store, "log", 0), None
                log.fill(*parts_told)
            case "clear":
                log.clear()
                want = Counter()


def test_runs_stay_few_and_blocks_that_cancelled_go():
    store = MemoryStore()
    log = CountLog(store, "log", 0)
    ones = np.ones(8, np.int64)
    for i in range(500):
        log.extend(np.arange(8 * i, 8 * i + 8), ones)
        if i >= 50:
            log.extend(np.arange(8 * (i - 50), 8 * (i - 50) + 8), -ones)
        log.forget()
    assert counted(log, 0, 4000) == dict.fromkeys(range(8 * 450, 4000), 1)
    assert len(log.runs) < 20
    assert len(store._values) < 1000  # 50 runs of 2 blocks are inside
    assert log.written < 40 * 500


@pytest.mark.parametrize("at", [0, 5, 10, 20, 40])
def test_blocks_that_are_damaged_are_refused(at):
    store = MemoryStore()
    log = CountLog(store, "log", 0)
    log.extend(np.arange(3), np.ones(3, np.int64))
    (key,) = store._values
    block = bytearray(store._values[key])
    block[at] ^= 1
    store._values[key] = bytes(block)
    with pytest.raises(DamageError, match=r"MemoryStore.*log"):
        log.find(np.arange(3))
    store._values = {}
    with pytest.raises(DamageError, match="missing"):
        log.find(np.arange(3))


@given(st.lists(CHANGES, min_size=1, max_size=30), st.sets(st.integers(1, 80)))
def test_a_store_that_fails_changes_nothing(parts, failing):
    log, want = CountLog(FailingStore(before=failing), "log", 0), Counter()
    for changes in parts:
        keys, counts = tallies_of(changes)
        if not len(keys):
            continue
        rolling.retried(log.extend, keys, counts, plain=True)
        want.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))
        got = rolling.retried(counted, log, plain=True)
        assert got == {key: n for key, n in want.items() if n}


def test_counts_of_any_width():
    log = CountLog(MemoryStore(), "log", 0)
    counts = np.array([1, -128, 128, -(2**15), 2**31, -(2**63)])
    log.extend(np.arange(6), counts)
    assert log.find(np.arange(6)).tolist() == counts.tolist()
    assert isinstance(log.contents(0, 9, (EMPTY, EMPTY), EMPTY, EMPTY), Tallies)


# ---- streams against those in memory -------------------------------------------------------------


@given(data(max_size=40), st.sampled_from(rolling.KINDS), rolling.BLOCKS, st.data())
def test_any_window_any_cuts(sample, kind, block, draws):
    rolling.same_as_in_memory(rolling.specs(draws, COUNTED), sample, kind, block, draws)


@pytest.mark.usefixtures("few_served")
class TestRecovery:
    """As of all other aggregates."""

    test_failing = staticmethod(
        rolling.test_a_store_that_fails_loses_nothing_and_counts_nothing_twice
    )
    test_crash = staticmethod(rolling.test_a_crash_at_any_time)


class TestTogether:
    """Several windows over one repository, each with counts of its own."""

    @pytest.fixture(autouse=True)
    def counted_specs(self, monkeypatch):
        monkeypatch.setattr(test_together, "specs", partial(rolling.specs, served=COUNTED))

    test_cuts = staticmethod(test_together.test_any_specs_any_cuts)
    test_crash = staticmethod(test_together.test_failing_stores_and_crashes)


VALUES = {
    "random": lambda rng, n: rng.normal(size=n),
    "rising": lambda rng, n: np.arange(n) + 50 * rng.normal(size=n),
    "few": lambda rng, n: rng.integers(0, 5, n),
    "one": lambda rng, n: np.zeros(n),
    "mostly one": lambda rng, n: np.where(rng.random(n) < 0.9, 1.0, rng.normal(size=n)),
    "odd": lambda rng, n: rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], n),
}


@pytest.mark.parametrize("kind", VALUES)
def test_windows_that_grow_shrink_and_jump(kind, monkeypatch):
    """Thousands of rows, so that ranges are cut and joined and runs merged many times."""
    monkeypatch.setattr(count_log, "LEAST_MEMORY", 2048)
    rng = np.random.default_rng(7)
    steps = [rng.integers(0, 3, 800), rng.integers(0, 40, 200), [5000], rng.integers(0, 2, 800)]
    t = np.cumsum(np.concatenate(steps))
    columns = {"t": t, "x": VALUES[kind](rng, len(t))}
    spec = mta.rolling("700i", on="t").agg(
        m=agg.median("x"), low=agg.quantile("x", 0.01, interp="lower"),
        q=agg.quantile("x", 0.9, nan="greatest"), top=agg.top_k("x", 70),
        n=agg.count_distinct("x"), mode=agg.mode("x"), often=agg.most_common("x", 5),
    )  # fmt: skip
    memory, op = spec.stream(), rolling.small(spec, MemoryStore(), 600)
    for start in range(0, len(t), 333):
        rows = {name: column[start : start + 333] for name, column in columns.items()}
        got, want = op.push(rows), memory.push(rows)
        for name in want:
            assert str(got[name].tolist()) == str(want[name].tolist())
        if start % 2:
            op.flush()
    assert op.stats().counts_written > 100 or kind in ("few", "one", "mostly one", "odd")


@pytest.mark.usefixtures("enough")
def test_memory_is_bounded_by_what_was_said_not_by_the_window():
    rng = np.random.default_rng(1)
    spec = mta.rolling(1 << 17).agg(q=agg.quantile("p", 0.99), n=agg.count_distinct("i"))
    with spec.stream(memory="256KB") as op:
        held = []
        for _ in range(10):
            op.push({"p": rng.random(1 << 15), "i": rng.integers(0, 1 << 15, 1 << 15)})
            held.append(op.stats().memory)
        stats = op.stats()
    assert max(held) < 500_000  # 2^17 values are 1 MB a column
    assert stats.requests == pytest.approx(stats.expected, rel=0.02)
    assert stats.counts_read > stats.counts_written > 0


def test_counts_that_are_not_needed_leave_the_store():
    store = MemoryStore()
    spec = mta.rolling("90i", on="t", by="k").agg(m=agg.median("x"), n=agg.count_distinct("x"))
    op = rolling.small(spec.watermark("0i"), store, 300)
    rng = np.random.default_rng(1)
    for i in range(200):
        t = np.arange(30 * i, 30 * i + 30)
        op.push({"t": t, "k": np.full(30, i // 2), "x": rng.random(30)})
    op.flush()
    assert op.state()["keys"] < 80
    assert len(store._values) < 1500
    serials = {key.replace(b"/", b".").split(b".")[1] for key in store._values}
    of_keys = map(int, serials - {b"header", b"cold"})
    assert min(of_keys) > 20  # those that are alive


@pytest.mark.usefixtures("enough")
def test_a_stream_without_a_store_takes_its_counts_off():
    rng = np.random.default_rng(1)
    with mta.rolling(5000).agg(m=agg.median("x")).stream(memory="64KB", block=2048) as op:
        for _ in range(100):
            op.push({"x": rng.random(1000)})
        there = len(list(op.spill.store.keys()))
        stats = op.stats()
    assert stats.counts_written > 20 * there


@pytest.mark.usefixtures("enough")
def test_blocks_of_counts_that_are_missing_are_told():
    store = MemoryStore()
    spec = mta.rolling(5000).agg(m=agg.median("x"))
    op = spec.stream(memory="64KB", store=store, block=2048)
    rows = {"x": np.random.default_rng(1).random(20_000)}
    op.push(rows)
    op.flush()
    store._values = {key: v for key, v in store._values.items() if b".0.0/" not in key}
    again = spec.stream(memory="64KB", store=store, block=2048)
    with pytest.raises(StoreError, match="missing"):
        again.push(rows)
