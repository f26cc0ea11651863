"""The plans of windows by number give the same answers: those of a batch, and of each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg, bucket_stream, open_tallies
from mta.errors import DataError, SpecError
from mta.planner import PLANS
from strategies import aggregates, data, engine_agg
from test_bucket_stream import KINDS, as_text, disordered, pushed, tells_nulls
from test_windows import hops

FREE = ("count", "count_all", "sum", "mean", "min", "max", "any", "all")
MAKE_PARTIALS = ("wid", "paned", "adapt")


def plans_of(spec):
    return ("paned",) if spec.kind == "landmark" else MAKE_PARTIALS


@given(
    data(max_size=20), hops(), aggregates(FREE, overflow=("raise", "wrap", "float")),
    st.sampled_from(KINDS), st.data(), st.sampled_from([(), ("k0",), ("s",), ("k0", "k1")]),
    st.booleans(),
)  # fmt: skip
def test_every_plan_answers_as_a_batch(sample, spec, aggs, kind, draws, by, save):
    """In any order of arrival, any cuts, and from snapshots."""
    assume(tells_nulls(kind, sample.columns))
    spec = replace(spec, by=by, **({"empty": "skip"} if spec.kind == "hopping" else {}))
    spec = spec.watermark("40i").agg(**{name: engine_agg(a) for name, a in aggs.items()})

    def text(rows):
        """(Whether a float of pandas is null or NaN depends on the other rows of a push.)"""
        if kind == "pandas":
            rows = [{n: None if v != v else v for n, v in row.items()} for row in rows]
        return as_text(rows, kind)

    try:
        want = text(read(spec(build(kind, sample.columns))))
    except OverflowError:
        return
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=4))
    for plan in plans_of(spec):
        got, op = pushed(spec, sample.columns, kind, cuts, save, plan=plan)
        assert text(got) == want
        assert op.state()["late"] == 0
        assert op.state()["rows"] + op.state()["partials"] == 0


HOLISTIC = ("quantile", "median", "top_k", "count_distinct", "mode", "most_common", "sum", "max")


@given(
    data(max_size=30), hops(), aggregates(HOLISTIC), st.sampled_from(KINDS), st.data(),
    st.sampled_from([(), ("k0",), ("s",)]), st.booleans(),
)  # fmt: skip
def test_rows_that_are_alike_stand_for_each_other(sample, spec, aggs, kind, draws, by, save):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_tallies, "_FEW_ROWS", 1)
        assume(tells_nulls(kind, sample.columns))
        spec = replace(spec, by=by, **({"empty": "skip"} if spec.kind == "hopping" else {}))
        spec = spec.watermark("40i").agg(d=agg.median("i"))
        spec = spec.agg(**{name: engine_agg(a) for name, a in aggs.items()})
        cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=4))
        try:
            want, _ = pushed(spec, sample.columns, kind, cuts, plan="rows")
        except OverflowError:
            return
        got, op = pushed(spec, sample.columns, kind, cuts, save, plan="paned")
        assert as_text(got, kind) == as_text(want, kind)
        assert op.state()["rows"] == 0 or spec.kind == "landmark"


def test_of_rows_that_are_alike_one_is_held():
    rng = np.random.default_rng(0)
    rows = {
        "t": np.arange(20_000) // 20, "k": rng.integers(0, 3, 20_000),
        "x": rng.integers(0, 5, 20_000) / 4,
    }  # fmt: skip
    spec = mta.hopping("600i", "60i", on="t", by="k").watermark("10i")
    spec = spec.agg(m=agg.median("x"), d=agg.count_distinct("x"), n=agg.count())
    held = {}
    for plan in ("rows", "auto"):
        op = spec.stream(plan=plan)
        parts = [
            op.push({n: v[i : i + 2000] for n, v in rows.items()}) for i in range(0, 20_000, 2000)
        ]
        held[plan] = op.state()["bytes"], [part["m"].tolist() for part in parts]
    assert op.explain().splitlines()[1].startswith("plan     paned: ")
    assert held["auto"][0] < held["rows"][0] / 5
    assert held["auto"][1] == held["rows"][1]


@given(disordered(), st.data(), st.one_of(st.none(), st.integers(1, 9)), st.booleans())
def test_every_plan_treats_late_rows_alike(made, draws, within, save):
    columns, spec = made
    spec = spec.agg(n=agg.count("x"), s=agg.sum("x"), low=agg.min("x"), high=agg.max("x"))
    if within is not None:
        spec = spec.late("revise", within=f"{within}i")
    n = len(columns["t"][1])
    cuts = draws.draw(st.lists(st.integers(0, n), max_size=4))
    want, rows = pushed(spec, columns, "pyarrow", cuts, plan="rows")
    late = rows.late()
    for plan in MAKE_PARTIALS:
        got, op = pushed(spec, columns, "pyarrow", cuts, save, plan=plan)
        assert sorted(map(repr, got)) == sorted(map(repr, want))
        if within is None:
            ends = [row["end"] for row in got]
            assert [row["end"] for row in want] == ends
        assert op.late().equals(late)
        same = ("watermark", "received", "late", "unassigned")
        assert [op.state()[k] for k in same] == [rows.state()[k] for k in same]


@pytest.mark.parametrize("plan", PLANS)
def test_calendar_days(plan):
    rng = np.random.default_rng(7)
    t = 1_696_100_000 + np.sort(rng.integers(0, 60 * 86_400, 6000))
    frame = pd.DataFrame({"t": t.astype("M8[s]"), "k": rng.integers(0, 9, 6000)})
    frame["x"] = rng.normal(size=6000)
    spec = mta.calendar("1 day", at="6h", tz="Europe/Paris", on="t", by="k", closed="right")
    spec = spec.watermark("9d").agg(n=agg.count(), s=agg.sum("x"), high=agg.max("x"))
    op = spec.stream(plan=plan)
    parts = [
        op.push(frame.iloc[i : i + 500].sample(frac=1, random_state=i)) for i in range(0, 6000, 500)
    ]
    got = pd.concat([*parts, op.finish()]).drop(columns="revision")
    want = spec(frame)
    by = ["k", "start"]
    pd.testing.assert_frame_equal(
        got.sort_values(by, ignore_index=True), want.sort_values(by, ignore_index=True),
        check_exact=True,
    )  # fmt: skip
    assert op.state()["plan"] == ("rows" if plan == "rows" else op.state()["plan"])


# ------------------------------------------------------------------------------- the choice


def some_rows(n, keys, seconds=7200, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "t": np.sort(rng.integers(0, seconds, n)), "k": rng.integers(0, keys, n), "x": rng.random(n)
    }  # fmt: skip


def sums(range_="3600i", slide="10i"):
    spec = mta.hopping(range_, slide, on="t", by="k").watermark("60i")
    return spec.agg(n=agg.count(), s=agg.sum("x"))


@pytest.mark.parametrize(
    ("spec", "rows", "plan"),
    [
        (sums(), some_rows(50_000, 20), "paned"),  # many rows to a pane
        (sums(), some_rows(6000, 2000), "adapt"),  # most groups have a row in a few panes only
        (sums("8i", "7i"), some_rows(6000, 3), "wid"),  # panes of one tick, and no more rows
        (sums().agg(s=agg.std("x")), some_rows(6000, 3), "rows"),
        # Few rows in a window of many panes, and an extreme; a sample much shorter than a window.
        (sums().agg(s=agg.max("x")), some_rows(6000, 10, 86_400), "adapt"),
        (sums().agg(s=agg.max("x")), some_rows(6000, 10, 600), "paned"),
    ],
)
def test_the_plan_is_chosen_by_what_the_rows_are_like(spec, rows, plan):
    op = spec.stream()
    n = len(rows["t"])
    assert op.state()["plan"] == "rows"
    got = [op.push({name: v[i : i + 1000] for name, v in rows.items()}) for i in range(0, n, 1000)]
    got.append(op.finish())
    assert op.state()["plan"] == plan
    assert f"plan     {plan}: " in op.explain()
    want = spec(rows)
    made = {name: np.concatenate([part[name] for part in got]) for name in want}
    order = np.lexsort((made["start"], made["k"]))
    wanted = np.lexsort((want["start"], want["k"]))
    for name in want:
        assert made[name][order].tolist() == want[name][wanted].tolist()


def test_partials_take_less_memory_than_rows_and_lazy_groups_less_than_partials():
    held = {}
    rng = np.random.default_rng(1)
    small = rng.permutation(10_000)  # groups of one row each
    keys = np.concatenate([small, 10_000 + rng.integers(0, 50, 30_000)])
    rows = {
        "t": np.arange(len(keys)) // 1000,
        "k": rng.permutation(keys),
        "x": rng.random(len(keys)),
    }
    for plan in ("rows", "wid", "paned", "adapt"):
        op = sums("1000i", "1000i").stream(plan=plan)
        op.push(rows)
        held[plan] = op.state()["bytes"]
    assert held["wid"] == held["paned"] < 0.8 * held["rows"]
    assert held["adapt"] < 0.8 * held["paned"]


@pytest.mark.parametrize("plan", PLANS)
def test_windows_after_a_lull(plan):
    op = sums("30i", "10i").stream(plan=plan)
    got = []
    for start in (0, 100, 1000):
        got += op.push({"t": start + np.arange(9), "k": np.zeros(9, int), "x": np.ones(9)})[
            "n"
        ].tolist()
        got += op.advance(start + 50)["n"].tolist()
        assert op.state()["rows"] + op.state()["partials"] == 0
    assert got == [9] * 9


def test_a_dead_key_costs_nothing():
    op = sums("100i", "10i").stream(plan="paned")
    sizes = []
    for hour in range(30):
        start = 3600 * hour
        t = start + np.arange(2000) // 10
        op.push({"t": t, "k": hour * 10_000 + np.arange(2000), "x": np.ones(2000)})
        op.advance(start + 3000)
        state = op.state()
        assert state["partials"] == state["groups"] == 0
        sizes.append(state["bytes"])
    assert max(sizes) < 3 * sizes[0]


# ------------------------------------------------------------------------------- what fails


@pytest.mark.parametrize("plan", ["wid", "paned", "adapt"])
def test_a_push_that_fails_takes_nothing_in(plan):
    spec = mta.hopping("10i", "5i", on="t", by="k").watermark(0).late("error")
    spec = spec.agg(s=agg.sum("i"), m=agg.max("x"))
    op = spec.stream(plan=plan)

    def rows(t, i, k="a"):
        return {
            "t": np.array(t), "i": np.array(i), "k": np.full(len(t), k), "x": np.array(i) / 2.0
        }  # fmt: skip

    op.push(rows([1, 7], [1, 2]))
    before = {name: v for name, v in op.state().items() if name != "bytes"}
    with pytest.raises(OverflowError, match=r"s: the sum of 'i' over the window number \d"):
        op.push(rows([8, 9, 25], [2**62, 2**62, 0], "b"))
    with pytest.raises(DataError, match="is late"):
        op.push(rows([30, 2], [1, 1]))
    with pytest.raises(DataError, match="needs numbers"):
        op.push({**rows([9], [1]), "i": np.array(["?"])})
    assert {name: v for name, v in op.state().items() if name != "bytes"} == before
    assert sorted(op.push(rows([20], [0]))["s"].tolist()) == [2, 3]
    assert "b" not in op.finish()["k"].tolist()


def test_a_push_that_fails_half_way_is_the_last(monkeypatch):
    """Where no copy was kept, because nothing should have failed, nothing is made up."""
    op = sums().stream(plan="paned")
    op.push(some_rows(100, 3))

    def fail(*_):
        raise MemoryError("of all")

    monkeypatch.setattr(bucket_stream.BucketStream, "_assemble", fail)
    with pytest.raises(MemoryError):
        op.push(some_rows(100, 3))
    monkeypatch.undo()
    with pytest.raises(DataError, match="failed half-way"):
        op.push(some_rows(100, 3))
    with pytest.raises(DataError, match="failed half-way"):
        op.finish()


REFUSED = [
    (lambda: sums().stream(plan="best"), "plan: must be one of"),
    (
        lambda: sums().agg(s=agg.std("x")).stream(plan="paned"),
        r"plan: 'paned' needs partial .* s: ",
    ),
    (
        lambda: mta.landmark("1i", on="t").agg(n=agg.count()).stream(plan="wid"),
        "a landmark's windows share",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=["name", "std", "landmark"])
def test_plans_that_do_not_serve_are_refused(make, message):
    with pytest.raises(SpecError, match=message):
        make()
