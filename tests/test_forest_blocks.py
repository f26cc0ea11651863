"""Slides 15 rows at a time (`_core_blocks.pxd`) are those of one at a time, to the last bit."""

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


@pytest.mark.parametrize("keep", [16, 40, 64, 500, 512, 513, 1024, 2047, 2048])
def test_windows_that_fill_their_rings(keep):
    rng = np.random.default_rng(keep)
    x = rng.standard_normal(3 * keep + 77) * 10.0 ** rng.integers(-9, 9, 3 * keep + 77)
    for aggregate in (agg.sum("x"), agg.max("x")):
        compare(aggregate, "float", x, [keep + 3, len(x) - keep - 3], [keep, keep])
        compare(aggregate, "float", x, [7, len(x) - 7], [keep // 2, keep])


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
