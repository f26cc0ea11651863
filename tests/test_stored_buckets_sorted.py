"""Quantiles and frequent values of windows on a store: the bits of windows in memory."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import SpecError
from mta.sorted_runs import CODE, COLUMNS, COUNT, KEY, PLACE, RAW, TIME, SortedRuns
from mta.stores import MemoryStore
from stored_rows import answered, bits, part, rows_of, spec_of
from strategies import HUGE_FLOATS, aggregates, data, engine_agg
from test_bucket_stream import tells_nulls
from test_stored_buckets import KINDS, outcome
from test_windows import hops

SORTED = ("quantile", "median", "top_k", "count_distinct", "mode", "most_common")
ORDERED = ("list", "longest_run", "arg_min", "arg_max")


@given(
    data(floats=HUGE_FLOATS, max_size=40), hops(), aggregates((*SORTED, *ORDERED, "sum", "min")),
    st.sampled_from(KINDS), st.sampled_from([(), ("k0",), ("k0", "k1")]),
    st.integers(9000, 20_000), st.integers(0, 12), st.data(),
)  # fmt: skip
def test_any_windows_have_the_bits_of_those_in_memory(
    sample, spec, aggs, kind, by, memory, delay, draws
):
    """Rows in any order, cut anywhere, in any amount of memory; ties, NaN, zeros of both signs."""
    assume(spec.kind == "hopping" and tells_nulls(kind, sample.columns))
    spec = replace(spec, by=by, empty="skip").watermark(f"{delay}i")
    spec = spec.agg(**{name: engine_agg(a) for name, a in aggs.items()})
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=6))
    with spec.stream(memory=memory, store=MemoryStore()) as op:
        got = outcome(op, sample.columns, kind, cuts)
        assert got == outcome(spec.stream(), sample.columns, kind, cuts)


AGGS = {
    "q": agg.median("x", nan="skip"), "q9": agg.quantile("x", 0.9),
    "qi": agg.quantile("i", 0.3, interp="nearest"), "qd": agg.quantile("d", 0.7, min_count=3),
    "cd": agg.count_distinct("d"), "mo": agg.mode("d"), "s": agg.sum("x"), "hi": agg.max("i"),
    "lr": agg.longest_run("d"), "ago": agg.arg_max("d"), "low": agg.arg_min("x", nan="skip"),
    "ad": agg.approx_count_distinct("d"), "ai": agg.approx_count_distinct("i", lg_k=4),
    "v": agg.var("x", nan="skip"), "f": agg.first("i", order="d"),
}  # fmt: skip


def many_rows(n: int, **options):
    rows = rows_of(n, **options)
    rows["x"] = np.round(rows["x"], 0)
    rows["d"] = np.where(np.arange(n) % 7, rows["i"] % 5 * 0.5, -0.0)
    return rows


@pytest.mark.parametrize("memory", [6000, 100_000])
@pytest.mark.parametrize("delay", [0, 100])
def test_windows_that_are_sorted_on_the_store(memory, delay):
    """Runs of runs; rows far behind, and groups that come and go."""
    rows, spec = many_rows(700, seed=5, jitter=60), spec_of(AGGS, delay=delay)
    want = answered(spec.stream(), rows, 300)
    with spec.stream(memory=memory, store="memory:") as op:
        assert answered(op, rows, 300) == want
        assert "needs the rows" in op.explain()
        assert op.stats().read > 500 or memory == 100_000


def test_a_group_larger_than_memory():
    """Days of one group: its rows are on the store before the day is over."""
    rows = many_rows(4_000, groups=1)
    rows["ts"] = (rows["ts"] * 20).astype("datetime64[s]").astype("datetime64[ms]")
    spec = mta.calendar("day", on="ts").watermark("10m")
    spec = spec.agg(
        **AGGS, best=agg.top_k("i", 40), all=agg.list("x"), often=agg.most_common("d", 3)
    )
    tables = [pl.DataFrame(part(rows, at, at + 250)) for at in range(0, 4_000, 250)]
    want = spec.stream()
    with spec.stream(memory=5000, store="memory:") as op:
        most = 0
        for table in tables:
            assert op.push(table).equals(want.push(table), null_equal=True)
            most = max(most, op.stats().memory)
        assert op.finish().equals(want.finish(), null_equal=True)
        assert most < 40_000
        assert op.stats().written > 100


def test_after_a_crash_and_with_every_call_failing_once():
    rows, spec = many_rows(800, seed=6, jitter=40), spec_of(AGGS, length=160, delay=10)
    store, got = MemoryStore(), {}
    for at in range(0, 800, 200):
        op = spec.stream(memory=6000, store=store)
        assert op.received == at
        got |= bits(op.push(part(rows, at, at + 200)))
        op.flush()
    assert got | bits(op.finish()) == answered(spec.stream(), rows, 200)


def test_what_can_not_be_sorted_or_kept_is_refused_by_name():
    base = mta.hopping("8i", slide="2i", on="ts").watermark("0i")
    with pytest.raises(SpecError, match=r"plan: '2LA' keeps partial aggregates, and a: .*median"):
        base.agg(a=agg.median("x")).stream(memory="1MB", store="memory:", plan="2LA")
    op = base.agg(a=agg.mode("s")).stream(memory="1MB", store="memory:")
    with pytest.raises(SpecError, match=r"column 's'.*not Decimal"):
        op.push({"ts": np.array([1, 2]), "s": np.array(["a", Decimal(1)], object)})
    want = base.agg(a=agg.mode("s")).stream()
    rows = {"ts": np.array([1, 2, 9]), "s": np.array(["b", "a", "b"], object)}
    assert op.push(rows)["a"].tolist() == want.push(rows)["a"].tolist()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3), st.integers(1, 4)), max_size=300),
    st.integers(0, 4000), st.integers(1, 90),
)  # fmt: skip
def test_sorted_runs_are_a_sorted_list(tallies, memory, step):
    """Equal ones are one, which is where the first of them was."""
    store = MemoryStore()
    runs = SortedRuns(store, "runs", memory)
    every = np.array(tallies, np.int64).reshape(-1, 3)
    places = np.random.default_rng(0).permutation(len(every))
    for at in range(0, len(every), step):
        some = every[at : at + step]
        where = places[at : at + step]
        runs.add({CODE: some[:, 0], KEY: some[:, 1], COUNT: some[:, 2], TIME: where // 5,
                  PLACE: where, RAW: where * 2})  # fmt: skip
        assert runs.rows <= runs.most
    want: dict[tuple[int, int], list[int]] = {}
    for (code, key, count), place in zip(tallies, places.tolist(), strict=True):
        total, first = want.get((code, key), (0, place))
        want[code, key] = [total + count, min(first, place)]
    parts = list(runs.merged())
    got = {name: [x for p in parts for x in p[name].tolist()] for name in COLUMNS}
    assert list(zip(got[CODE], got[KEY], strict=True)) == sorted(want)
    assert got[COUNT] == [want[key][0] for key in sorted(want)]
    assert got[RAW] == [2 * want[key][1] for key in sorted(want)]
    runs.clear()
    assert not list(store.keys())


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 2)), max_size=300),
    st.integers(0, 4000), st.integers(1, 90),
)  # fmt: skip
def test_rows_that_stay_apart_are_in_order_of_places(rows, memory, step):
    """Though many have one time, which fill more than a block of every run."""
    runs = SortedRuns(MemoryStore(), "runs", memory)
    runs.apart = True
    every = np.array(rows, np.int64).reshape(-1, 2)
    places = np.random.default_rng(1).permutation(len(every))
    for at in range(0, len(every), step):
        some, where = every[at : at + step], places[at : at + step]
        runs.add({CODE: some[:, 0], KEY: some[:, 1], COUNT: where % 2, TIME: where * 0,
                  PLACE: where, RAW: where * 3})  # fmt: skip
    got = [x for part in runs.merged() for x in part[RAW].tolist()]
    want = sorted((*row, place) for row, place in zip(rows, places.tolist(), strict=True))
    assert got == [3 * place for _, _, place in want]
