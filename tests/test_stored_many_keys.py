"""Many keys on a store: those with few rows share a pool, and leave it for tracks. ADR 16."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from mta import agg
from mta.errors import StoreError
from mta.sizes import parse_bytes
from mta.snapshot import seal, unseal
from mta.stores import MemoryStore
from strategies import data
from test_stored_rolling import (
    BLOCKS,
    CANCELLING,
    EXACT,
    SERVED,
    least_memory,
    retried,
    same_pushes,
    specs,
)
from test_stored_rolling_keys import AGGS, same, same_over_crashes, same_through_failures
from test_stream import in_time
from test_stream_disorder import DELAYS, KINDS

ALL = {
    **AGGS, "med": agg.median("x"), "d": agg.count_distinct("i"), "mode": agg.mode("i"),
    "top": agg.top_k("x", 3), "si": agg.sum("i"), "var": agg.var("i"),
    "w": agg.weighted_mean("x", "i"), "e": agg.sum("x", numerics="exact"), "all": agg.list("i"),
    "am": agg.arg_max("i", by="x"), "n": agg.count("x"),
}  # fmt: skip


def opened(spec, fast, track, *, store=None, block=250, memory=None):
    """A stream that gives keys with more than so many rows a track, and counts so much for one."""
    op = spec.stream(memory=memory or least_memory(spec), store=store, block=block)
    op.room.fast, op.room.track = fast, track
    return op


FAST, TRACK = st.sampled_from([1, 2, 3, 5, 9]), st.sampled_from([1, 50, 200, 10**6])
KEYED = ("int64", "int64")


@given(data(max_size=60, keys=KEYED), st.sampled_from(KINDS), BLOCKS, FAST, TRACK, st.data())
def test_any_window_any_cuts(sample, kind, block, fast, track, draws):
    same_as_in_memory(specs(draws, SERVED), sample, kind, block, fast, track, draws)


@given(data(EXACT, max_size=60, keys=KEYED), BLOCKS, FAST, TRACK, st.data())
def test_powers_and_pairs(sample, block, fast, track, draws):
    same_as_in_memory(specs(draws, CANCELLING), sample, "dict", block, fast, track, draws)


@given(data(max_size=60, keys=KEYED), DELAYS, BLOCKS, FAST, TRACK, st.data())
def test_rows_in_any_order(sample, delay, block, fast, track, draws):
    spec = specs(draws, SERVED)
    if spec.on is not None:
        spec = spec.watermark(f"{delay}i")
    same_as_in_memory(spec, sample, "dict", block, fast, track, draws, spec.on is None)


def same_as_in_memory(spec, sample, kind, block, fast, track, draws, sort=True):
    columns = in_time(sample) if sort else sample.columns
    op = opened(spec, fast, track, store=MemoryStore(), block=block)

    def again(op):
        reopened = opened(spec, fast, track, store=op.spill.store, block=block)
        assert reopened.state() == op.state()
        return reopened

    same_pushes(op, spec.stream(), columns, kind, draws, flushed=again)


def some(rng, n, keys, at=0):
    x = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
    x[rng.random(n) < 0.02] = np.nan
    x[rng.random(n) < 0.01] = np.inf
    t = at + np.sort(rng.integers(0, n + 1, n))
    return {"k": rng.integers(0, keys, n), "t": t, "x": x, "i": rng.integers(0, 9, n)}


WINDOWS = [
    mta.rolling(90, by="k"),
    mta.rolling("700i", on="t", by="k"),
    mta.rolling("60i", on="t", by="k"),
    replace(mta.rolling(200, by="k"), every=3),
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(st.integers(0, 99), st.integers(1, 200), TRACK, st.data())
@settings(max_examples=8)
def test_all_kernels_go_on_in_a_track(window, seed, fast, track, draws):
    spec, rng, at = window.agg(**ALL), np.random.default_rng(seed), 0
    memory, op = spec.stream(), opened(spec, fast, track, memory="256KB", block=1024)
    for n in draws.draw(st.lists(st.integers(1, 900), min_size=2, max_size=8)):
        rows = some(rng, n, 5, at)
        at += n
        got, want = op.push(rows), memory.push(rows)
        assert list_bits(got) == list_bits(want)


def list_bits(answers):
    """Of every column its bits; lists as they are printed."""
    return {
        name: repr(list(column)) if np.asarray(column).dtype == object
        else (np.ma.getmaskarray(column).tobytes(), np.ma.filled(column, 0).tobytes())
        for name, column in answers.items()
    }  # fmt: skip


SPEC = mta.rolling(60, by="k").agg(
    **AGGS, d=agg.count_distinct("i"), med=agg.median("x"), si=agg.sum("i")
)


@given(st.sets(st.integers(1, 300), max_size=60), st.integers(0, 9), st.integers(1, 60), st.data())
@settings(max_examples=25)
def test_a_store_that_fails(failing, seed, fast, draws):
    rng, sizes = np.random.default_rng(seed), st.lists(st.integers(1, 400), min_size=2, max_size=8)
    same_through_failures(
        lambda store: opened(SPEC, fast, 50, store=store),
        SPEC.stream(), failing, draws.draw(sizes), lambda n: some(rng, n, 6),
    )  # fmt: skip


@given(st.integers(0, 9), st.integers(1, 60), st.data())
@settings(max_examples=25)
def test_a_crash_at_any_time(seed, fast, draws):
    rng, sizes = np.random.default_rng(seed), st.lists(st.integers(1, 400), min_size=2, max_size=8)
    same_over_crashes(
        lambda store: opened(SPEC, fast, 50, store=store),
        SPEC.stream(), draws.draw(sizes), lambda n: some(rng, n, 6),
    )  # fmt: skip


def test_short_keys_have_no_objects():
    rng, spec = np.random.default_rng(0), mta.rolling(20, by="k").agg(s=agg.sum("x"))
    memory = spec.stream()
    with spec.stream(memory="8MB") as op:
        for _ in range(5):
            rows = some(rng, 50_000, 10_000)
            same(op.push(rows), memory.push(rows))
        stats = op.stats()
    assert not op.keyed.tracks
    assert stats.repositories == stats.written == 0
    assert stats.least <= stats.memory < parse_bytes("8MB", "memory")
    assert 10_000 * 20 * 8 < stats.least < 10_000 * (36 * 8 + 120)  # (16 rows before a window stay)


def test_keys_with_most_rows_leave_where_memory_is_short():
    rng, spec = np.random.default_rng(0), mta.rolling(20_000, by="k").agg(s=agg.sum("x"))
    memory = spec.stream()
    with spec.stream(memory="512KB") as op:
        op.room.fast = 10**9
        for _ in range(60):
            rows = some(rng, 2_000, 100)
            rows["k"][:1500] %= 4
            same(op.push(rows), memory.push(rows))
        stats, long = op.stats(), set(op.keyed.tracks)
    assert long
    assert long <= set(range(4))
    assert stats.memory < parse_bytes("768KB", "memory")


def test_a_window_of_nulls_leaves_the_pool_and_is_flushed():
    """It has no split to go on from, and no page: pages before it are not asked for."""
    spec, store = mta.rolling(5, by="k").agg(s=agg.skew("x"), v=agg.std("x")), MemoryStore()
    x = pd.array([*np.arange(4990.0), *[None] * 10], "Float64")
    rows = pd.DataFrame({"k": 1, "x": x})
    memory, op = spec.stream(), opened(spec, 5, 1, store=store, block=4096)
    for start in range(0, 5000, 1000):
        op.room.fast = 10**9 if start < 4000 else 5
        part = rows[start : start + 1000]
        pd.testing.assert_frame_equal(op.push(part), memory.push(part))
    assert list(op.keyed.tracks) == [0]
    op.flush()
    op = opened(spec, 5, 1, store=store, block=4096)
    pd.testing.assert_frame_equal(op.push(rows), memory.push(rows))


def test_a_stream_of_one_key_has_a_track_at_once():
    with mta.rolling(5).agg(s=agg.sum("x")).stream(memory="64KB") as op:
        op.push({"x": np.ones(3)})
        assert len(op.keyed.tracks) == 1


def test_keys_that_no_window_reaches_leave_the_pool():
    spec = mta.rolling("5i", on="t", by="k").agg(s=agg.sum("x"))
    with spec.stream(memory="64KB") as op:
        for at in range(0, 3000, 3):
            op.push({"k": [at], "t": [at], "x": [1.0]})
        assert op.state()["keys"] < 300


def test_a_header_without_a_pool_is_read():
    """Streams on a store had none before; all their keys have tracks."""
    rng, store = np.random.default_rng(0), MemoryStore()
    memory, op = SPEC.stream(), opened(SPEC, 0, 1, store=store)
    rows = some(rng, 500, 6)
    same(op.push(rows), memory.push(rows))
    assert len(op.keyed.tracks) == 6
    op.flush()
    take_out_the_pool(op, store)
    op = opened(SPEC, 0, 1, store=store)
    rows = some(rng, 500, 9)
    same(op.push(rows), memory.push(rows))


def take_out_the_pool(op, store):
    kind, identity = op.kind, op._identity()
    parts = unseal(kind, identity, store.get(b"stream/header"))
    head = json.loads(parts[1])
    pool, marks = op.keyed.pool, len(head.pop("pool")["marks"])
    rows = len(pool.rows.feeds) + len(pool.rows.valids) + 3 * len(pool.rows.values)
    gone = len(pool.vectors(True)) + rows + marks + len(op.keyed.cold.vectors())
    del head["cold"]
    sizes = json.loads(parts[0])
    begin = sizes[0] + 1 - gone  # (without states; these come behind)
    of_states = sum(
        len([v for v in (s.track.times, s.track.picked, *s.beside) if v is not None]) + rows
        for s in op.keyed.tracks.values()
    )
    begin -= of_states
    parts[1] = json.dumps(head).encode()
    parts[0] = json.dumps([sizes[0] - gone, sizes[1]]).encode()
    store.write({b"stream/header": seal(kind, identity, parts[:begin] + parts[begin + gone :])})


@given(st.integers(0, 9))
@settings(max_examples=10)
def test_a_failing_store_says_so_and_goes_on(seed):
    """A key that moves out while the store fails takes its rows up again at the next call."""
    rng, spec = np.random.default_rng(seed), mta.rolling(50, by="k").agg(d=agg.count_distinct("x"))
    memory, store = spec.stream(), FailingStore(before=set(range(2, 40, 2)))
    op = opened(spec, 5, 1, store=store)
    for _ in range(6):
        rows = some(rng, 200, 3)
        with suppress(StoreError):
            op.peek()
        same(retried(op.push, rows, plain=True), memory.push(rows))
