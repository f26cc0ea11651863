"""Windows by number on a store, of what depends on where they are cut: as in memory, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import DataError, SpecError
from mta.sorted_runs import CODE, KEY, PLACE, SortedRuns
from mta.stores import MemoryStore
from stored_rows import answered, bits, part, rows_of, spec_of
from strategies import data
from test_bucket_stream import tells_nulls
from test_stored_buckets import KINDS, outcome
from test_stored_buckets_recovery import (
    answered_over_a_crash,
    answered_through_failures,
    failing_store,
)
from test_stored_rolling_users import monoids, sketch_aggs, user_aggs
from test_windows import hops


def fast_aggs(draws):
    few = {"min_count": draws.draw(st.integers(0, 2)), "numerics": "fast"}
    mean = agg.mean("x", nan="skip", **few)
    return {"s": agg.sum("x", **few), "m": mean, "i": agg.sum("i", **few)}


@given(
    data(max_size=40), hops(), st.sampled_from([user_aggs, sketch_aggs, fast_aggs]),
    st.sampled_from(KINDS), st.sampled_from([(), ("k0",), ("k0", "k1")]),
    st.integers(9000, 20_000), st.integers(0, 12), st.data(),
)  # fmt: skip
def test_any_windows_have_the_bits_of_those_in_memory(
    sample, spec, make, kind, by, memory, delay, draws
):
    """Rows in any order, cut anywhere, in any amount of memory; ties, NaN, nulls."""
    assume(spec.kind == "hopping" and tells_nulls(kind, sample.columns))
    spec = replace(spec, by=by, empty="skip").watermark(f"{delay}i")
    spec = spec.agg(**make(draws), rows=agg.count(), most=agg.max("i"))
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=6))
    with spec.stream(memory=memory, store=MemoryStore()) as op:
        got = outcome(op, sample.columns, kind, cuts)
        assert got == outcome(spec.stream(), sample.columns, kind, cuts)


COMPILED, PYTHON = monoids()
SOME = {
    "c": COMPILED("d", "i", nan="skip"), "q": agg.approx_quantile("d", 0.4, k=8),
    "f": agg.sum("x", numerics="fast"), "v": agg.var("x", nan="skip"),
}  # fmt: skip
EVERY = {
    **SOME, "p": PYTHON("d", "i", nan="skip", min_count=2),
    "qi": agg.approx_quantile("i", 0.9, k=8),
    "ad": agg.approx_count_distinct("d"), "ai": agg.approx_count_distinct("i", lg_k=4),
    "fm": agg.mean("x", numerics="fast", nan="skip"), "fi": agg.sum("i", numerics="fast"),
    "si": agg.sum("i"), "m": agg.median("d"), "lr": agg.longest_run("d"), "hi": agg.max("x"),
}  # fmt: skip


def many_rows(n: int, seed: int = 0, **options):
    """`d` has few values, some of which are NaN; none of its sums is exact."""
    rows = rows_of(n, seed, **options)
    rows["i"] //= 2**4
    rows["d"] = np.where(np.arange(n) % 7, rows["i"] % 5 * 0.1, -0.0)
    rows["d"][np.arange(n) % 11 == 3] = np.nan
    return rows


@pytest.mark.parametrize("memory", [8000, 100_000])
@pytest.mark.parametrize("delay", [0, 100])
def test_groups_that_come_and_go(memory, delay):
    """Most of the window is on the store, where it is sorted; rows far behind are put in place."""
    rows, spec = many_rows(700, seed=5, jitter=60), spec_of(EVERY, delay=delay)
    want = answered(spec.stream(), rows, 300)
    with spec.stream(memory=memory, store="memory:") as op:
        assert answered(op, rows, 90) == want
        assert "needs the rows" in op.explain()
        assert op.stats().read > 500 or memory == 100_000


def test_long_groups_take_no_more_memory_than_short_ones():
    """The halves of one group are many pages of rows, sorted in many runs."""
    n = 12_000
    rows = many_rows(n, groups=1, jitter=3)
    rows["k"] = np.zeros(n, np.int64)
    spec = spec_of(SOME, length=6_000, slide=2_000)
    want, held = answered(spec.stream(), rows, 1_000), []
    with spec.stream(memory="16KB", store="memory:") as op:
        got = {}
        for at in range(0, n, 500):
            got |= bits(op.push(part(rows, at, at + 500)))
            held.append(op.stats().memory)
        assert got | bits(op.finish()) == want
        assert max(held) < 80_000
        assert op.stats().bytes_read > 3_000_000


def test_bytes_of_sketches_and_items_by_calendar_and_by_hour():
    """Windows that share no rows are not cut: the kernels choose."""
    n = 3_000
    rows = many_rows(n, groups=2)
    rows["ts"] = (rows["ts"] * 20).astype("datetime64[s]").astype("datetime64[ms]")
    aggs = {
        "kll": agg.kll_sketch("d", k=8), "hll": agg.hll_sketch("i", lg_k=5),
        "theta": agg.theta_sketch("d", lg_k=5), "fr": agg.frequent_items_sketch("i", max_items=6),
        "often": agg.approx_top_k("d", 3), "n": agg.approx_count_distinct("i", lg_k=5),
        "c": COMPILED("d", "i", nan="skip"), "p": PYTHON("d", "i", nan="skip"),
        "f": agg.sum("d", numerics="fast", nan="skip"),
    }  # fmt: skip
    for spec in (
        mta.calendar("day", on="ts", by="k"), mta.tumbling("6h", on="ts", by="k"),
        mta.hopping("1h", slide="90m", on="ts"), mta.hopping("5h", slide="2h", on="ts"),
    ):  # fmt: skip
        spec = spec.watermark("10m").agg(**aggs)
        want = spec.stream()
        with spec.stream(memory="24KB", store="memory:", plan="1W") as op:
            for at in range(0, n, 250):
                table = pl.DataFrame(part(rows, at, at + 250))
                assert ordered(op.push(table)).equals(ordered(want.push(table)))
            assert ordered(op.finish()).equals(ordered(want.finish()))


def ordered(answers):
    """(Groups that are answered together may come in any order.)"""
    return answers.sort("start", *(["k"] if "k" in answers.columns else []))


ROWS = many_rows(900, 3, groups=4)
SPEC = spec_of(SOME, length=160)
WANT = answered(SPEC.stream(), ROWS, 100)


@given(st.sets(st.integers(3, 900), max_size=80), st.integers(60, 700), st.integers(6000, 12_000))
@settings(max_examples=15)
def test_a_store_that_fails_costs_no_row_and_no_answer(failing, step, memory):
    store = failing_store(failing)
    op = SPEC.stream(memory=memory, store=store)
    assert answered_through_failures(op, ROWS, step) == WANT
    assert not [key for key in store.keys(b"stream~sorted") if key]


@given(st.integers(40, 500), st.integers(1, 4), st.data())
@settings(max_examples=15)
def test_after_a_crash_it_goes_on_from_the_last_flush(step, every, draws):
    got = answered_over_a_crash(
        lambda store: SPEC.stream(memory=8000, store=store), ROWS, step, every, draws
    )
    assert got == WANT


def test_what_can_not_be_kept_is_refused_by_name():
    base = mta.hopping("8i", slide="2i", on="ts").watermark("0i")
    fast = agg.sum("x", numerics="fast")
    with pytest.raises(SpecError, match=r"plan: '2LA' keeps partial aggregates, and a: .*fast"):
        base.agg(a=fast).stream(memory="1MB", store="memory:", plan="2LA")
    with pytest.raises(SpecError, match=r"memory: a: .*fast.* keeps rows, and of a landmark's"):
        mta.landmark("8i", on="ts").agg(a=fast).stream(memory="1MB", store="memory:")


def test_what_a_function_raises_is_told_and_the_stream_opened_again():
    def picky(x):
        if x == 77.0:
            raise ValueError("77 is not taken")
        return {"x": x}

    own = agg.monoid(picky, lambda a, b: {"x": a["x"] + b["x"]}, lambda p: p["x"], zero={"x": 0.0})
    spec = mta.hopping("8i", slide="2i", on="ts").watermark("0i").agg(a=own("x"))
    store = MemoryStore()
    op = spec.stream(memory="1MB", store=store)
    first = {"ts": np.arange(20), "x": np.arange(20.0)}
    want = by_end_of(op.push(first))
    op.flush()
    with pytest.raises(ValueError, match="77 is not taken"):
        op.push({"ts": np.array([20, 40]), "x": np.array([77.0, 1.0])})
    with pytest.raises(DataError, match="can't go on"):
        op.push(first)
    op = spec.stream(memory="1MB", store=store)
    assert op.received == 20
    fresh = spec.stream()
    assert want | by_end_of(op.finish()) == by_end_of(fresh.push(first)) | by_end_of(fresh.finish())


def by_end_of(answers):
    return dict(zip(answers["end"].tolist(), answers["a"].tolist(), strict=True))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 2)), max_size=300),
    st.integers(0, 4000), st.integers(1, 90), st.data(),
)  # fmt: skip
def test_pages_of_sorted_rows_are_a_sorted_list(rows, memory, step, draws):
    """To be read anywhere, whether they fit in memory or not."""
    runs = SortedRuns(MemoryStore(), "runs", memory, (CODE, KEY, PLACE, "v"))
    runs.apart = True
    every = np.array(rows, np.int64).reshape(-1, 2)
    places = np.random.default_rng(1).permutation(len(every))
    for at in range(0, len(every), step):
        some, where = every[at : at + step], places[at : at + step]
        runs.add({CODE: some[:, 0], KEY: some[:, 1], PLACE: where, "v": where * 3})
    pages = runs.pages()
    want = sorted((*row, place) for row, place in zip(rows, places.tolist(), strict=True))
    for row in draws.draw(st.lists(st.integers(0, max(len(rows) - 1, 0)), max_size=9)):
        if rows:
            first, page = pages.read(row)
            assert page["v"][row - first] == 3 * want[row][2]
    runs.clear()
    assert not list(runs.store.keys())
