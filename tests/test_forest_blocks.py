"""Slides of many rows at once (`_core_blocks.pxd`) are those of one at a time, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg, fifo

AGGREGATES = {
    "sum": agg.sum("x"),
    "max": agg.max("x"),
    "min": agg.min("x", nan="greatest"),
    "std": agg.std("x"),
    "longest_run": agg.longest_run("x"),
    "geometric_mean": agg.geometric_mean("x"),
    "user": agg.monoid(lift=lambda x: x, combine=lambda a, b: a if a > b else b, zero=-1.0)("x"),
}


def one_by_one(window, x, keep):
    """The same answers by the general way."""
    answers = []
    for value in x:
        window.insert(value)
        if len(window) > keep:
            window.evict_many(len(window) - keep)
        answers.append(window.query())
    return answers


def compare(aggregate, kind, x, chunks, keeps, missing=()):
    fast, slow = fifo.AMTA(aggregate, kind), fifo.AMTA(aggregate, kind)
    start = 0
    for rows, keep in zip(chunks, keeps, strict=True):
        part = np.ma.MaskedArray(
            x[start : start + rows], np.isin(np.arange(start, start + rows), missing)
        )
        values = [None if v is np.ma.masked else v.item() for v in part]
        got = np.ma.filled(np.ma.asarray(fast.slide(part, keep), np.float64), np.nan)
        wanted = [np.nan if v is None else v for v in one_by_one(slow, values, keep)]
        np.testing.assert_array_equal(got, np.array(wanted, np.float64))
        assert fast.to_bytes() == slow.to_bytes()
        start += rows
    for value in (1, 2, 3):  # what the forest keeps of its ends is right, too
        for window in (fast, slow):
            window.insert(value)
            window.evict()
        assert repr(fast.query()) == repr(slow.query())


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("kind", ["float", "int"])
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_chunks_and_windows(name, kind, data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    chunks = data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=5))
    keeps = [
        data.draw(st.sampled_from([1, 2, 15, 16, 17, 31, 32, 33, 64, 100, 128, 255]))
        for _ in chunks
    ]
    rows = sum(chunks)
    x = rng.integers(1, 2**20, rows) if kind == "int" else np.exp(rng.standard_normal(rows) * 9)
    missing = np.flatnonzero(rng.random(rows) < data.draw(st.sampled_from([0, 0, 0.3, 1])))
    compare(AGGREGATES[name], kind, x, chunks, keeps, missing)


@pytest.mark.parametrize("keep", [16, 40, 64, 129, 257, 500, 512, 513, 1024, 1025, 2047, 2048])
def test_windows_that_fill_their_rings(keep):
    rng = np.random.default_rng(keep)
    x = rng.standard_normal(3 * keep + 377) * 10.0 ** rng.integers(-9, 9, 3 * keep + 377)
    whole = rng.integers(-(2**40), 2**40, len(x))
    for aggregate, kind in (
        (agg.sum("x"), "float"),
        (agg.max("x"), "float"),
        (agg.sum("x"), "int"),
    ):
        y = x if kind == "float" else whole
        compare(aggregate, kind, y, [keep + 3, len(y) - keep - 3], [keep, keep])
        compare(aggregate, kind, y, [7, len(y) - 7], [keep // 2, keep])
        compare(aggregate, kind, y, [50, 112, 130, len(y) - 292], [keep, keep, keep // 2 + 1, keep])


@pytest.mark.parametrize("keep", [2, 4, 16, 26, 100, 600])
def test_a_window_that_was_empty_counts_anew(keep):
    x = np.random.default_rng(keep).standard_normal(1500) * 10.0 ** (np.arange(1500) % 17)
    compare(agg.sum("x"), "float", x, [1, 4, 3, 300, 7, 1185], [0, keep, 0, keep, 0, keep])


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, 1e16, 1.0, -1e16])


@pytest.mark.parametrize("keep", [16, 17, 32, 64, 100, 128, 300, 1500])
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_what_leaves_no_double_as_it_is(keep, share):
    rng = np.random.default_rng(keep)
    rows = 4 * keep + 700
    x = np.where(rng.random(rows) < share, rng.choice(SPECIAL, rows), rng.standard_normal(rows))
    for aggregate in (agg.sum("x"), agg.max("x"), agg.mean("x", nan="propagate")):
        with np.errstate(all="ignore"):
            fast, slow = fifo.AMTA(aggregate, "float"), fifo.AMTA(aggregate, "float")
            got = fast.slide(x, keep)
            wanted = [np.nan if v is None else v for v in one_by_one(slow, x.tolist(), keep)]
        assert got.tobytes() == np.array(wanted).tobytes() or np.array_equal(
            signed(got), signed(np.array(wanted)), equal_nan=True
        )


def signed(x):
    """So that -0.0 is not 0.0."""
    return np.where(x == 0, np.copysign(1e-320, x), x)


@pytest.mark.parametrize("keep", [16, 40, 64, 200, 700])
def test_sums_that_do_not_fit_in_64_bits(keep):
    x = np.full(3 * keep + 600, 2**62, np.int64)
    x[keep + 300 :] = -(2**62)
    window = fifo.AMTA(agg.sum("x"))
    with pytest.raises(OverflowError):
        window.slide(x, keep)
    assert len(window) == keep
    small = np.arange(2 * keep)
    wanted = np.convolve(np.concatenate([x[-keep:], small]).astype(object), np.ones(keep, object))
    window.evict_many(keep - 1)  # none of the large ones but one is left
    got = window.slide(small, keep)
    assert got.tolist()[keep:] == wanted[2 * keep : 3 * keep].tolist()


@pytest.mark.parametrize("evicted", [1023, 1024, 1030, 2047])
def test_windows_restored_in_the_midst_of_a_block(evicted):
    """Nodes that began before the front are not there."""
    rng = np.random.default_rng(evicted)
    x = rng.standard_normal(9000)
    for aggregate in (agg.sum("x"), agg.max("x"), agg.std("x")):
        begun = fifo.AMTA(aggregate, "float")
        begun.insert_many(x[:4096])
        begun.evict_many(evicted)
        data = begun.to_bytes()
        for keep in (4096 - evicted, 6000):
            fast, slow = (fifo.AMTA.from_bytes(data, aggregate, type="float") for _ in range(2))
            got = fast.slide(x[4096:], keep)
            np.testing.assert_array_equal(got, one_by_one(slow, x[4096:].tolist(), keep))
            assert fast.to_bytes() == slow.to_bytes()


@given(st.lists(st.integers(1, 9000), min_size=1, max_size=6), st.integers(0, 5000))
@settings(max_examples=25, deadline=None)
def test_bulk_evictions_from_large_windows(drops, more):
    """All at once, by two steps and by a window that never held what left."""
    rng = np.random.default_rng(more)
    x = rng.standard_normal(30_000 + more) * 10.0 ** rng.integers(-9, 9, 30_000 + more)
    for aggregate in (agg.sum("x"), agg.std("x")):
        for algorithm in (fifo.AMTA, fifo.LogMTA):
            once, twice = algorithm(aggregate, "float"), algorithm(aggregate, "float")
            for window in (once, twice):
                window.insert_many(x)
            for drop in drops:
                drop = min(drop, len(once))
                once.evict_many(drop)
                twice.evict_many(drop // 2)
                twice.evict_many(drop - drop // 2)
                assert repr(once.query()) == repr(twice.query())
                for window in (once, twice):
                    window.insert(1.5)
                assert repr(once.query()) == repr(twice.query())
            assert once.to_bytes() == twice.to_bytes()


@pytest.mark.parametrize("span", ["3i", "40i", "300i"])
def test_windows_of_time_that_move_unevenly(span):
    rng = np.random.default_rng(5)
    steps = rng.choice([0, 1, 1, 1, 1, 1, 1, 40], 3000)
    steps[1000:2000] = 1
    ts, x = np.cumsum(steps), rng.standard_normal(3000) * 1e9
    aggs = {"s": agg.sum("x"), "m": agg.max("x"), "v": agg.var("x", min_count=1)}
    fast, slow = (mta.Window(aggs, mta.last(span)) for _ in range(2))
    got = fast.push(x=x, ts=ts)
    wanted = [slow.push(x=a, ts=t) for a, t in zip(x.tolist(), ts.tolist(), strict=True)]
    for column, field in enumerate(got._fields):
        values = [np.nan if w[column] is None else w[column] for w in wanted]
        np.testing.assert_array_equal(got[column], values, field)
