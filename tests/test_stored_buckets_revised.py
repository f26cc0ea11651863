"""Windows by number on a store that late rows revise: the answers of those in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import SpecError
from mta.stores import FileStore, MemoryStore
from stored_rows import ALL, SUMS, answered, part, revised, rows_of, spec_of
from strategies import HUGE_FLOATS, aggregates, data, engine_agg
from test_bucket_stream import tells_nulls
from test_stored_buckets import KINDS, PARTIAL, PLANS, cut, to_bits
from test_stored_buckets_cuts import fast_aggs
from test_stored_buckets_folded import EVERY as FOLDED_AGGS
from test_stored_buckets_folded import FOLDED, many_rows
from test_stored_buckets_recovery import (
    answered_over_a_crash,
    answered_through_failures,
    failing_store,
)
from test_stored_buckets_sorted import ORDERED, SORTED
from test_stored_rolling_users import sketch_aggs, user_aggs
from test_windows import hops


def outcome(op, columns, kind, cuts):
    """What pushes give, each by itself, and in which order; or that integers do not fit."""
    got = []
    try:
        for start, stop in pairwise([0, *sorted(cuts), len(columns["t"][1])]):
            got.append(read(op.push(build(kind, cut(columns, start, stop)))))
        got.append(read(op.finish()))
    except OverflowError:
        return "overflow"
    ends = [[(row["end"], row["revision"]) for row in rows] for rows in got]
    return ends, list(map(to_bits, got)), op.state()["late"], op.state()["unassigned"]


def same_as_in_memory(sample, spec, aggs, kind, by, plan, memory, draws):
    assume(spec.kind != "landmark" and tells_nulls(kind, sample.columns))
    spec = replace(spec, by=by, **({"empty": "skip"} if spec.kind == "hopping" else {}))
    delay, within = draws.draw(st.integers(0, 6)), draws.draw(st.integers(0, 40))
    spec = spec.watermark(f"{delay}i").late("revise", within=f"{within}i").agg(**aggs)
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=6))
    with spec.stream(memory=memory, store=MemoryStore(), plan=plan) as op:
        got = outcome(op, sample.columns, kind, cuts)
        assert got == outcome(spec.stream(), sample.columns, kind, cuts)


ANY = (
    st.sampled_from(KINDS), st.sampled_from([(), ("k0",), ("k0", "k1")]), st.sampled_from(PLANS),
    st.integers(9000, 20_000), st.data(),
)  # fmt: skip


@given(data(floats=HUGE_FLOATS, max_size=40), hops(), aggregates(PARTIAL), *ANY)
def test_sums_and_extremes(sample, spec, aggs, kind, by, plan, memory, draws):
    """Rows in any order, cut anywhere, in any amount of memory."""
    aggs = {name: engine_agg(a) for name, a in aggs.items()}
    same_as_in_memory(sample, spec, aggs, kind, by, plan, memory // 4, draws)


@given(data(max_size=40), hops(), aggregates(FOLDED), *ANY)
def test_what_is_folded(sample, spec, aggs, kind, by, plan, memory, draws):
    distance = {n for n, a in aggs.items() if a.fn.startswith("arg") and a.other is None}
    aggs = {n: engine_agg(a) for n, a in aggs.items() if n not in distance and a.fn != "count"}
    same_as_in_memory(
        sample, spec, {**aggs, "rows": agg.count()}, kind, by, plan, memory, draws
    )  # fmt: skip


@given(data(floats=HUGE_FLOATS, max_size=40), hops(), aggregates((*SORTED, *ORDERED)), *ANY)
def test_what_is_sorted(sample, spec, aggs, kind, by, plan, memory, draws):
    aggs = {name: engine_agg(a) for name, a in aggs.items()}
    same_as_in_memory(sample, spec, aggs, kind, by, "1W", memory, draws)


@given(
    data(max_size=40), hops(), st.sampled_from([user_aggs, sketch_aggs, fast_aggs]), *ANY
)  # fmt: skip
def test_what_is_cut(sample, spec, make, kind, by, plan, memory, draws):
    aggs = {**make(draws), "rows": agg.count(), "most": agg.max("i")}
    same_as_in_memory(sample, spec, aggs, kind, by, "1W", memory, draws)


FEW = {"s": agg.sum("x"), "q": agg.median("x"), "a": agg.approx_quantile("d", 0.4, k=8)}
LATE = {
    "sums": spec_of(SUMS, delay=60), "all": spec_of(ALL, delay=60),
    "folded": spec_of(FOLDED_AGGS, delay=60), "some": spec_of(FEW, length=60, delay=60),
}  # fmt: skip
LATE = {name: spec.late("revise", within="150i") for name, spec in LATE.items()}
STORED = st.sampled_from(
    [("sums", "2LA"), ("all", "2LA"), ("all", "1W"), ("folded", "2LA"), ("some", "1W")]
)
ROWS = many_rows(400, 3, groups=3, jitter=120)


@cache
def wanted(name):
    return answered(LATE[name].stream(), ROWS, 100, told=revised)


@pytest.mark.parametrize(
    ("name", "plan", "n", "memory"),
    [("all", "2LA", 3_000, 20_000), ("all", "1W", 3_000, 20_000), ("all", "auto", 1_600, 8_000),
     ("folded", "2LA", 600, 20_000), ("folded", "1W", 600, 20_000), ("folded", "2LA", 600, 10**6),
     ("some", "1W", 400, 6_000)],
)  # fmt: skip
def test_most_of_a_window_is_on_the_store(name, plan, n, memory):
    """Groups come and go and are numbered anew; what came behind is put in its place."""
    rows, spec = many_rows(n, 1, jitter=120), LATE[name]
    rows["k"] = rows["k"] % 12 + np.arange(n) // 100 * 12
    want = answered(spec.stream(), rows, 300, told=revised)
    assert sum(number > 1 for _, _, number in want) > n // 5
    with spec.stream(memory=memory, store="memory:", plan=plan) as op:
        assert answered(op, rows, 170, told=revised) == want
        if memory < 10**6:
            assert op.stats().read > 20
            assert op.open.generation > 0
        assert len(op.open.groups) < 250 or n < 3_000  # of 360


@pytest.mark.parametrize("plan", ["2LA", "1W"])
def test_late_rows_of_one_push_are_read_for_together(plan):
    """What the shelf has of their groups is gathered as it is read for the first of them."""
    spec = mta.hopping("300i", slide="10i", on="ts", by="k").watermark("0i")
    spec = spec.late("revise", within="300i").agg(s=agg.sum("x"), n=agg.count())
    fresh, reads = spec.stream(), []
    with spec.stream(memory=80_000, store="memory:", plan=plan, block=1024) as op:
        for at in range(0, 1_000, 100):
            ts = np.repeat(np.arange(at, at + 100, 10), 100)
            late = {500: 1, 700: 8}.get(at, 0)
            ts[len(ts) - late :] -= 150
            rows = {"ts": ts, "k": np.arange(len(ts)) % 100, "x": np.arange(len(ts)) * 0.1}
            before = op.stats().read
            assert revised(op.push(rows)) == revised(fresh.push(rows))
            reads.append(op.stats().read - before)
    assert reads[5] > 10
    assert reads[7] < 2 * reads[5], reads


@given(STORED, st.sets(st.integers(3, 900), max_size=60), st.integers(20, 300))
@settings(max_examples=12)
def test_a_store_that_fails_costs_no_row_and_no_answer(kind, failing, step):
    op = LATE[kind[0]].stream(memory=20_000, store=failing_store(failing), plan=kind[1])
    assert answered_through_failures(op, ROWS, step, revised) == wanted(kind[0])


@given(STORED, st.integers(40, 200), st.integers(1, 4), st.data())
@settings(max_examples=12)
def test_after_a_crash_it_goes_on_from_the_last_flush(kind, step, every, draws):
    def opened(store):
        return LATE[kind[0]].stream(memory=20_000, store=store, plan=kind[1])

    got = answered_over_a_crash(opened, ROWS, step, every, draws, revised)
    assert got == wanted(kind[0])


@pytest.mark.parametrize("plan", ["2LA", "1W"])
def test_a_stream_opened_again_and_again_leaves_nothing_behind(plan, tmp_path):
    got, where = {}, f"file://{tmp_path}"
    for at in range(0, 400, 40):
        with LATE["all"].stream(memory="8KB", store=where, plan=plan) as op:
            assert op.received == at
            got |= revised(op.push(part(ROWS, at, at + 40)))
    with FileStore(tmp_path) as store:
        assert len(list(store.keys())) < 60
        got |= revised(LATE["all"].stream(memory="8KB", store=store, plan=plan).finish())
    assert got == wanted("all")


def test_texts_and_sketches_to_be_merged_are_there_as_long_as_windows_may_be_revised():
    rows = many_rows(600, 5, groups=3, jitter=120)
    frame = pl.DataFrame(rows).with_columns(
        name=pl.Series([f"name {i}" for i in rows["i"] % 40]),
        sketch=pl.Series([sketch_of(int(i) % 90) for i in rows["i"]]),
    )
    spec = spec_of(
        {"mode": agg.mode("name"), "first": agg.first("name"),
         "n": agg.hll_sketch("sketch", merge=True)},
        length=80, delay=60,
    ).late("revise", within="100i")  # fmt: skip
    op, fresh = spec.stream(memory=20_000, store="memory:"), spec.stream()
    for at in range(0, 600, 50):
        got, want = (each.push(frame[at : at + 50]) for each in (op, fresh))
        assert sorted(got.rows(), key=repr) == sorted(want.rows(), key=repr)


def sketch_of(value):
    made = mta.tumbling("1i", on="t").agg(s=agg.hll_sketch("x", lg_k=4))
    return made({"t": np.array([0]), "x": np.array([value])})["s"][0]


@pytest.mark.parametrize("plan", PLANS)
def test_calendars_and_windows_of_one_pane(plan):
    rows = rows_of(1_500, jitter=120)
    rows["ts"] = (rows["ts"] * 600).astype("datetime64[s]")
    days = mta.calendar("day", on="ts", by="k", tz="Europe/Berlin")
    for windows in (days, mta.tumbling("6h", on="ts", by="k")):
        spec = windows.watermark("3h").late("revise", within="30h").agg(**ALL)
        with spec.stream(memory="8KB", store="memory:", plan=plan) as op:
            got = answered(op, rows, 333, told=revised)
            assert got == answered(spec.stream(), rows, 333, told=revised)
        assert max(number for _, _, number in got) > 2


def test_keys_that_are_null_and_those_that_are_nan_are_revised_apart():
    """A NumPy answer has NaN for both."""
    spec = mta.tumbling("1i", on="t", by="k").watermark("0i").late("revise", within="5i")
    keys = np.ma.MaskedArray([0.0, 0.0, np.nan], mask=[1, 1, 0])
    for options in ({"plan": "paned"}, {"plan": "rows"}, {"memory": 8000, "plan": "2LA"}):
        op = spec.agg(n=agg.count()).stream(**options)
        got = op.push({"t": np.array([0, 1, 0]), "k": keys})
        assert (got["revision"].tolist(), got["n"].tolist()) == ([1, 1], [1, 1])


def test_a_landmark_s_windows_are_refused():
    spec = mta.landmark("5i", on="ts").watermark("1i").late("revise", within="9i")
    with pytest.raises(SpecError, match=r"memory: of a landmark's windows .* take 'drop'"):
        spec.agg(n=agg.count()).stream(memory="1MB")
