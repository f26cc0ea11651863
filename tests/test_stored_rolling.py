"""Trailing windows larger than memory: what the stream in memory answers, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from kinds import build, read
from mta import agg
from mta.errors import DataError, SnapshotError, SpecError, StoreError
from mta.paged_kernels import count_logs
from mta.stores import MemoryStore
from oracle import Agg
from strategies import data, engine_spec, rollings
from test_stream import as_text, cut, in_time
from test_stream_disorder import DELAYS, KINDS

SERVED = (
    "sum", "mean", "min", "max", "any", "all", "var", "std", "product", "geometric_mean",
    "weighted_mean", "longest_run", "first", "last", "arg_min", "arg_max",
)  # fmt: skip
# Where these cancel to nothing, what is left are roundings far below their precision.
CANCELLING = ("skew", "kurt", "cov", "corr", "slope")
EXACT = st.one_of(st.none(), st.integers(-50, 50).map(float))  # sums of their powers are exact
NUMERICS = {"numerics": ("compensated", "exact", "fast"), "overflow": ("raise", "wrap", "float")}
BLOCKS = st.sampled_from([250, 300, 600])  # bytes; a row has 10 to 100


def specs(draws, served=SERVED):
    """A spec that can be larger than memory, and perhaps with `every`."""
    spec = draws.draw(rollings(served, **NUMERICS))
    # (Values that are no numbers are refused.)
    aggs = {n: a for n, a in spec.aggs.items() if a.col not in ("s", "k0", "k1") or a.fn == "count"}
    made = engine_spec(spec._replace(aggs=aggs or {"n": Agg("count_all")}))
    every = draws.draw(st.sampled_from([None, None, 2, 3]))
    return made if every is None else replace(made, every=every)


def edges(draws, n):
    return pairwise([0, *sorted(draws.draw(st.lists(st.integers(0, n), max_size=6))), n])


def small(spec, store=None, block=250, name="stream"):
    """A stream whose blocks have few rows, of which every key has some."""
    return tracked(spec.stream(memory=least_memory(spec), store=store, block=block, name=name))


def tracked(op):
    """The same stream, all of whose keys have tracks."""
    if op.room is not None:
        op.room.fast, op.room.track = 0, 1
    return op


def least_memory(*specs):
    return 32768 if any(count_logs(spec.stream().plan) for spec in specs) else 8192


def call(kind, f, *arguments):
    """Its answers as text, or its error."""
    try:
        made = f(*arguments)
        return None if made is None else as_text(read(made), kind)
    except OverflowError as error:
        return str(error)


@given(data(max_size=40), st.sampled_from(KINDS), BLOCKS, st.data())
def test_any_window_any_cuts(sample, kind, block, draws):
    same_as_in_memory(specs(draws), sample, kind, block, draws)


@given(data(EXACT, max_size=40), BLOCKS, st.data())
def test_powers_and_pairs(sample, block, draws):
    same_as_in_memory(specs(draws, CANCELLING), sample, "pandas", block, draws)


def same_as_in_memory(spec, sample, kind, block, draws):
    memory, op = spec.stream(), small(spec, MemoryStore(), block)
    same_pushes(op, memory, in_time(sample), kind, draws)
    same_state(op, memory)


def same_pushes(op, memory, columns, kind, draws, *, pushed=None, flushed=None):
    """However rows are cut, they are answered on a store as in memory.

    pushed : checks the two streams after a push
    flushed : what goes on after a flush, with the stream that was flushed; None: there are none
    """
    for start, stop in edges(draws, len(columns["t"][1])):
        rows = build(kind, cut(columns, start, stop))
        assert call(kind, op.push, rows) == call(kind, memory.push, rows)
        if pushed is not None:
            pushed(op, memory)
        if draws.draw(st.booleans()):
            assert call(kind, op.peek) == call(kind, memory.peek)
        if flushed is not None and draws.draw(st.booleans()):
            op.flush()
            op = flushed(op)
    assert call(kind, op.finish) == call(kind, memory.finish)


def same_state(op, memory, blocks=True):
    """blocks : some rows may be in blocks."""
    told = memory.state()
    if blocks:
        del told["rows"]  # of a block that the window has left in part, all are there
    assert told.items() <= op.state().items()


def retried(f, *arguments, plain=False):
    """Its answers (plain: what it gives), however often the store fails."""
    for _ in range(60):
        try:
            return f(*arguments) if plain else call("dict", f, *arguments)
        except StoreError:
            continue
    raise AssertionError("it never works")


@given(data(max_size=40, keys=("int64", "int64")), st.sets(st.integers(1, 60)), st.data())
def test_a_store_that_fails_loses_nothing_and_counts_nothing_twice(sample, failing, draws):
    spec, columns = specs(draws), in_time(sample)
    store = FailingStore(before=failing)
    memory, op = spec.stream(), retried(small, spec, store, plain=True)
    for start, stop in edges(draws, len(columns["t"][1])):
        rows = build("dict", cut(columns, start, stop))
        assert retried(op.push, rows) == call("dict", memory.push, rows)
        if draws.draw(st.booleans()):
            retried(op.flush, plain=True)
    assert retried(op.finish) == call("dict", memory.finish)


@given(data(max_size=40, keys=("int64", "float64")), DELAYS, st.data())
def test_a_crash_at_any_time(sample, delay, draws):
    """The stream goes on from its last flush, and rows that come again are counted once."""
    assume(sample.rows)
    spec = specs(draws)
    columns = in_time(sample)
    if spec.on is not None and draws.draw(st.booleans()):
        spec, columns = spec.watermark(f"{delay}i"), sample.columns
    store = MemoryStore()
    n, at = len(columns["t"][1]), 0
    memory, op = spec.stream(), small(spec, store)
    want, got = [], []  # by row that comes next
    while at < n:
        stop = draws.draw(st.integers(at + 1, n))
        rows = build("pandas", cut(columns, at, stop))
        want, got = want[:at], got[:at]
        want += [call("pandas", memory.push, rows)] + [None] * (stop - at - 1)
        got += [call("pandas", op.push, rows)] + [None] * (stop - at - 1)
        assert got[at] == want[at]
        if isinstance(got[at], str):
            return  # the rows have not been taken in
        at = stop
        if draws.draw(st.booleans()):
            op.flush()
            saved, kept = dict(store._values), memory.to_bytes()
            if draws.draw(st.booleans()):  # and more rows, which get lost
                more = build("pandas", cut(columns, at, n))
                call("pandas", op.push, more)
                store._values = {**store._values, **saved}
                memory, op = spec.stream(kept), small(spec, store)
                assert op.received == at
    assert call("pandas", op.finish) == call("pandas", memory.finish)


def filled(store, spec=None, rows=400):
    spec = spec or mta.rolling("100i", on="t").agg(s=agg.sum("x"), m=agg.max("x"))
    op = small(spec, store)
    op.push({"t": np.arange(rows), "x": np.arange(rows) * 0.1})
    op.flush()
    return spec


def test_what_is_damaged_or_foreign_is_refused():
    store = MemoryStore()
    spec = filled(store)
    with pytest.raises(SnapshotError, match="another specification"):
        small(mta.rolling("90i", on="t").agg(s=agg.sum("x")), store)
    good = dict(store._values)
    for key, value in good.items():
        for at in (0, len(value) // 2, len(value) - 1):
            broken = bytearray(value)
            broken[at] ^= 1
            store._values = {**good, key: bytes(broken)}
            try:
                op = small(spec, store)
                got = op.push({"t": np.arange(400, 520), "x": np.ones(120)})["s"]
            except (SnapshotError, StoreError):
                continue
            store._values = dict(good)
            want = small(spec, store).push({"t": np.arange(400, 520), "x": np.ones(120)})["s"]
            assert got.tolist() == want.tolist()  # a block that no window needs any more


def test_missing_blocks_are_told():
    store = MemoryStore()
    spec = filled(store)
    blocks = [key for key in store._values if not key.endswith(b"header")]
    store._values = {key: v for key, v in store._values.items() if key not in blocks}
    op = small(spec, store)
    with pytest.raises(StoreError, match="missing"):
        op.push({"t": np.arange(400, 520), "x": np.ones(120)})


def test_what_can_not_be_larger_than_memory_is_refused():
    rolling = mta.rolling("1h", on="t")
    with pytest.raises(SpecError, match="memory: 8192 bytes at least"):
        rolling.agg(s=agg.sum("x")).stream(memory=100)
    with pytest.raises(SpecError, match="store: say by memory="):
        rolling.agg(s=agg.sum("x")).stream(store="memory:")
    op = mta.rolling(3).agg(f=agg.first("s")).stream(memory="1MB")
    with pytest.raises(SpecError, match="column 's'"):
        op.push({"s": np.array([1j, 2j])})


def test_blocks_that_are_not_needed_leave_the_store():
    store = MemoryStore()
    spec = mta.rolling("2000i", on="t").agg(s=agg.sum("x"))
    op = small(spec, store, 1000)
    for i in range(300):
        op.push({"t": np.arange(100 * i, 100 * i + 100), "x": np.ones(100)})
    stats = op.stats()
    assert stats.stored <= 2000 // 32 + 2  # a block has 32 rows
    assert len(store._values) < 2 * stats.stored + 40
    assert stats.requests == pytest.approx(stats.expected, rel=0.01)


def test_memory_is_bounded_by_the_pool_not_by_the_window():
    rng = np.random.default_rng(1)
    with mta.rolling(1 << 20).agg(v=agg.weighted_mean("p", "q")).stream(memory="128KB") as op:
        held = []
        for _ in range(24):
            op.push({"p": rng.random(1 << 16), "q": rng.integers(1, 100, 1 << 16)})
            held.append(op.stats().memory)
        stats = op.stats()
    assert max(held) < 500_000  # 24 bytes x 2^20 rows are 25 MB
    assert stats.requests == pytest.approx(stats.expected, rel=0.01)


@pytest.mark.parametrize("window", [200_000, 500_000, 800_000, 1_000_000, 1_500_000])
def test_no_block_is_read_twice_where_partials_take_most_of_the_memory(window):
    """Of 256 KB they take 44 to 330; rows come a block at a time, or in large pushes."""
    rng = np.random.default_rng(2)
    with mta.rolling(window).agg(v=agg.weighted_mean("p", "q")).stream(memory="256KB") as op:
        for rows in [100_000] * (window // 100_000 + 1) + [1000] * 300 + [30] * 300:
            op.push({"p": rng.random(rows), "q": rng.random(rows)})
        stats = op.stats()
    assert stats.requests == pytest.approx(stats.expected, rel=0.01)


@given(data(max_size=40, keys=("int64", "int64")), st.sampled_from(KINDS), st.data())
def test_batches_larger_than_memory(sample, kind, draws):
    """All answers one after the other are those of the batch, in its order."""
    spec, columns = specs(draws), in_time(sample)
    assume(sample.rows and spec.every is None)
    batches = [cut(columns, a, b) for a, b in edges(draws, len(columns["t"][1]))]
    want = call(kind, spec, build(kind, columns))
    if isinstance(want, str):
        return
    made = spec((build(kind, batch) for batch in batches), memory="64KB")
    assert [row for part in made for row in as_text(read(part), kind)] == want


def test_batches_out_of_order_are_refused_and_a_store_is_left_empty():
    spec = mta.rolling("10i", on="t").agg(s=agg.sum("x"))
    rows = {"t": np.array([5, 6]), "x": np.ones(2)}
    store = MemoryStore()
    with pytest.raises(DataError, match="sort them"):
        list(spec([rows, {"t": np.array([1]), "x": np.ones(1)}], memory="64KB", store=store))
    assert not store._values


def test_rows_that_are_taken_back_are_not_read_again():
    """A peek looks up values of rows whose numbers others have later."""
    spec = mta.rolling("9i", on="t").watermark("8i").agg(a=agg.arg_max("x", by="y"))
    memory, op = spec.stream(), spec.stream(memory="64KB", block=256)
    rng = np.random.default_rng(0)
    for at in range(0, 300, 3):
        t = at + rng.integers(-4, 5, 3)
        rows = {"t": t, "x": rng.normal(size=3), "y": rng.normal(size=3)}
        got, want = op.push(rows), memory.push(rows)
        assert got["a"].tobytes() == want["a"].tobytes()
        assert op.peek()["a"].tobytes() == memory.peek()["a"].tobytes()
