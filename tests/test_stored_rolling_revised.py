"""Trailing windows larger than memory that late rows revise: what the stream in memory answers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mta
import test_stored_counts
from mta import agg
from mta.errors import SpecError
from mta.stores import MemoryStore
from strategies import data
from test_stored_rolling import (
    BLOCKS,
    CANCELLING,
    EXACT,
    SERVED,
    same_pushes,
    same_state,
    small,
    specs,
)
from test_stored_rolling_keys import same, same_over_crashes, same_through_failures
from test_stream_disorder import DELAYS, KINDS

COUNTED = test_stored_counts.COUNTED
nearly_no_memory = test_stored_counts.nearly_no_memory  # for what counts values


@pytest.fixture
def enough():
    """As much memory as there is."""


def revising(draws, served):
    """A spec of which late rows revise the answers."""
    spec = specs(draws, served)
    assume(spec.on is not None)
    exact = [(n, replace(a, numerics="exact") if a.numerics == "fast" else a) for n, a in spec.aggs]
    spec = replace(spec, aggs=tuple(exact), every_by="rank" if spec.every is None else "arrival")
    within = draws.draw(st.sampled_from([0, 1, 5, 20, 100]))
    return spec.watermark(f"{draws.draw(DELAYS)}i").late("revise", within=f"{within}i")


def same_as_in_memory(spec, sample, kind, block, draws):
    memory, op = spec.stream(), small(spec, MemoryStore(), block)
    same_pushes(op, memory, sample.columns, kind, draws, flushed=lambda op: op)
    same_state(op, memory)


@given(data(max_size=40), st.sampled_from(KINDS), BLOCKS, st.data())
@pytest.mark.usefixtures("enough")
def test_any_window_any_cuts(sample, kind, block, draws):
    same_as_in_memory(revising(draws, SERVED), sample, kind, block, draws)


@given(data(max_size=40), st.sampled_from(KINDS), BLOCKS, st.data())
def test_what_counts_values(sample, kind, block, draws):
    same_as_in_memory(revising(draws, COUNTED), sample, kind, block, draws)


@given(data(EXACT, max_size=40), BLOCKS, st.data())
@pytest.mark.usefixtures("enough")
def test_powers_and_pairs(sample, block, draws):
    same_as_in_memory(revising(draws, CANCELLING), sample, "pandas", block, draws)


AGGS = {
    "n": agg.count("x"), "s": agg.sum("x"), "m": agg.mean("x"), "hi": agg.max("i"),
    "si": agg.sum("i"), "v": agg.var("x"), "f": agg.first("x"), "la": agg.last("i"),
    "am": agg.arg_max("i", by="x"), "w": agg.weighted_mean("x", "i"),
    "l": agg.longest_run("x"),
}  # fmt: skip
COUNTS = {
    **AGGS, "q": agg.median("i"), "cd": agg.count_distinct("i"), "mo": agg.mode("i"),
    "top": agg.first("k"),
}  # fmt: skip


class Rows:
    """Rows of some keys, many of which come late; time goes on."""

    def __init__(self, seed, keys, jitter=150):
        self.rng, self.keys, self.jitter, self.now = np.random.default_rng(seed), keys, jitter, 0

    def __call__(self, n):
        rng = self.rng
        ts = self.now + np.cumsum(rng.integers(0, 3, n))
        self.now = int(ts[-1])
        ts += rng.integers(-self.jitter, self.jitter + 1, n)
        x = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
        x[rng.integers(0, n, 1 + n // 50)] = np.nan
        return {"t": ts, "k": rng.integers(0, self.keys, n), "x": x, "i": rng.integers(1, 60, n)}


def shown(answers):
    """Without what nulls stand for."""
    return {name: np.ma.filled(column, 0) for name, column in answers.items()}


@pytest.mark.parametrize("window", [
    mta.rolling("300i", on="t"), mta.rolling("300i", on="t", by="k", closed="left", lag="20i"),
    mta.rolling("300i", on="t", by="k", closed="both", lag="-30i"), mta.rolling(200, on="t"),
    mta.rolling(200, on="t", by="k", lag=-5), mta.rolling(200, on="t", by="k", lag=7),
    mta.rolling(None, on="t", by="k"), mta.rolling("300i", on="t", every=3, every_by="arrival"),
])  # fmt: skip
@pytest.mark.usefixtures("enough")
def test_most_of_a_window_is_on_the_store(window):
    spec = window.watermark("50i").late("revise", within="150i").agg(**COUNTS)
    rows, memory = Rows(1, 2), spec.stream()
    with spec.stream(memory="64KB", store=MemoryStore(), block=2048) as op:
        revised = 0
        for n in (1, 200, 37, 400, 1, 1, 300, 250):
            some = rows(n)
            got = op.push(some)
            same(shown(got), shown(memory.push(some)))
            revised += int((got["revision"] > 1).sum())
        same(shown(op.finish()), shown(memory.finish()))
        assert revised > 1000 or window.every
        assert op.stats().written > 5
        assert op.stats().read > 5


LATE = mta.rolling("300i", on="t", by="k").watermark("50i").late("revise", within="150i")
SIZES = st.lists(st.integers(1, 120), min_size=2, max_size=6)


def opened(aggs, store):
    return LATE.agg(**aggs).stream(memory="64KB", store=store, block=1024)


@pytest.mark.parametrize("aggs", [AGGS, COUNTS])
@given(st.sets(st.integers(1, 300), max_size=60), st.integers(0, 9), SIZES)
@settings(max_examples=4)
def test_a_store_that_fails_loses_nothing_and_counts_nothing_twice(aggs, failing, seed, sizes):
    memory = LATE.agg(**aggs).stream()
    same_through_failures(partial(opened, aggs), memory, failing, sizes, Rows(seed, 2))


@pytest.mark.parametrize("aggs", [AGGS, COUNTS])
@given(st.integers(0, 9), SIZES)
@settings(max_examples=4)
def test_a_crash_at_any_time(aggs, seed, sizes):
    memory = LATE.agg(**aggs).stream()
    same_over_crashes(partial(opened, aggs), memory, sizes, Rows(seed, 2))


def test_a_push_that_fails_takes_nothing_in():
    spec = mta.rolling("10i", on="t", ties="arrival").watermark(0).late("revise", within="50i")
    op = spec.agg(s=agg.sum("x"), l=agg.last("x")).stream(memory="64KB", block=256)

    def some(ts, x):
        return {"t": np.array(ts), "x": np.array(x)}

    op.push(some([5, 9, 14], [1, 2, 3]))
    before = op.state()
    with pytest.raises(OverflowError, match="does not fit"):
        op.push(some([8, 15, 7, 12], [1, 1, 2**62, 2**62]))
    assert op.state() == before
    got = op.push(some([8], [10]))
    assert got["row"].tolist() == [1, 2, 3]
    assert got["s"].tolist() == [13, 16, 11]
    assert got["revision"].tolist() == [2, 2, 1]


def test_memory_is_that_of_the_rows_that_may_be_revised_not_of_the_window():
    spec = mta.rolling("100000i", on="t").watermark("0i").late("revise", within="500i")
    rng, held = np.random.default_rng(0), []
    with spec.agg(s=agg.sum("x"), hi=agg.max("x")).stream(memory="128KB") as op:
        for at in range(0, 200_000, 10_000):
            t = at + np.arange(10_000)
            t[rng.integers(0, 10_000, 5)] -= 300
            op.push({"t": t, "x": rng.normal(size=10_000)})
            held.append(op.stats().memory)
        assert max(held) < 400_000  # 16 bytes x 100,000 rows are 1.6 MB
        assert op.stats().read > 10


@pytest.mark.parametrize("aggregate", [
    agg.approx_quantile("x", 0.5), agg.sum("x", numerics="fast"),
    agg.monoid(lambda x: x, lambda a, b: a + b, lambda a: a, zero=0.0, name="m")("x"),
])  # fmt: skip
def test_what_depends_on_where_windows_are_cut_is_refused(aggregate):
    with pytest.raises(SpecError, match=r"memory: a: .* depends on where windows are cut"):
        LATE.agg(a=aggregate).stream(memory="64KB")


def test_several_specs_are_refused():
    with pytest.raises(SpecError, match="together: late rows that revise"):
        mta.together(LATE.agg(n=agg.count())).stream(memory="64KB")


@pytest.mark.parametrize("closed", ["left", "neither"])
def test_peers_find_those_that_were_answered(closed):
    """With an open edge on the right, a row may be answered before all rows of its time came."""
    windows = mta.rolling("20i", on="t", closed=closed).agg(n=agg.count())
    spec = windows.watermark("5i").late("revise", within="4i")
    memory, op = spec.stream(), spec.stream(memory="64KB", block=256)
    for t in (list(range(60)), [59, 60, 58], [59], [61, 55, 57], [54], [66, 61, 60], [61]):
        rows = {"t": np.array(t)}
        same(op.push(rows), memory.push(rows))
