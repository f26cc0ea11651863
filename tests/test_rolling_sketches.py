"""Sketches as aggregates: over any window, frame and chunking, against exact answers and bounds."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from checks import check
from kinds import KINDS, build
from mta import agg, sketches
from mta.plan import make_plan
from oracle import Agg, Rolling
from strategies import HUGE_FLOATS, INTS, SKETCHED, data, engine_spec, rollings
from test_rolling_every_aggregate import OTHER_TYPES, TICK, is_ordered, table

chunking = pytest.importorskip("test_chunking", reason="the [spark] extra is not installed")
pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")


def byte_aggs(**options):
    """Every kind of sketch, small enough for chance and capacity to matter."""
    return {
        "kll": agg.kll_sketch("x", k=8, **options),
        "kll_i": agg.kll_sketch("i", k=8, **options),
        "median": agg.approx_quantile("x", 0.5, k=8, **options),
        "hll": agg.hll_sketch("s", lg_k=4, **options),
        "hll_x": agg.hll_sketch("x", lg_k=4, **options),
        "theta": agg.theta_sketch("i", lg_k=5, **options),
        "frequent": agg.frequent_items_sketch("s", max_items=6, **options),
        "frequent_x": agg.frequent_items_sketch("x", max_items=6, **options),
        "top": agg.approx_top_k("s", 2, max_items=6, **options),
        "top_x": agg.approx_top_k("x", 3, max_items=6, **options),
    }


def with_bytes(spec, **options):
    """The engine's spec, with every kind of sketch beside its aggregates."""
    run = engine_spec(spec)
    return run.agg(**dict(run.aggs), **byte_aggs(**options))


# ---- few values: exact -----------------------------------------------------------------------


@given(data(floats=HUGE_FLOATS, ints=INTS), rollings(SKETCHED), st.sampled_from(KINDS))
def test_of_few_values_the_answers_are_exact(sample, spec, kind):
    check(spec, sample, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type_", OTHER_TYPES)
def test_values_keep_their_type(type_, kind):
    aggs = {"n": Agg("approx_count_distinct", "v"), "top": Agg("approx_top_k", "v", k=2)}
    if is_ordered(type_):
        aggs["q"] = Agg("approx_quantile", "v", q=0.3)
    spec = Rolling(aggs, "rows", 4)
    check(spec, table(v=(type_, OTHER_TYPES[type_])), kind, unit=TICK.get(type_, "i"))


@pytest.mark.parametrize("kind", KINDS)
def test_unsigned_integers(kind):
    values = [2**64 - 1, 2**63, 0, 5, 2**63, 3, None, 2**64 - 1]
    aggs = {"n": Agg("approx_count_distinct", "u"), "top": Agg("approx_top_k", "u", k=2)}
    aggs = {name: a._replace(unsigned=True) for name, a in aggs.items()}
    aggs["q"] = Agg("approx_quantile", "u", q=0.5, unsigned=True)
    check(Rolling(aggs, "rows", 3), table(u=("uint64", values)), kind)


# ---- any chunking gives the same bytes -------------------------------------------------------


def repeated(sample, times):
    """The rows over and over, in order of time, so that windows hold more than sketches can."""
    order = sorted(range(len(sample.rows)), key=lambda i: sample.rows[i]["t"])
    return {
        name: (type_, [values[i] for i in order for _ in range(times)])
        for name, (type_, values) in sample.columns.items()
    }


@settings(max_examples=40)
@given(
    data(floats=HUGE_FLOATS, ints=INTS, max_size=12),
    rollings(SKETCHED),
    st.sampled_from(("pandas-nullable", "polars", "pyarrow")),  # whose types do not change
    st.lists(st.integers(0, 240), max_size=5),
    st.booleans(),
    st.integers(0, 2),
)
def test_pushed_in_any_cuts(sample, spec, kind, cuts, save, need):
    columns = repeated(sample, 20)
    if spec.range is not None and spec.kind == "rows":
        spec = spec._replace(range=spec.range * 20)
    run = with_bytes(spec, min_count=need)
    want = in_arrow(run(build(kind, columns)))
    op, n = run.stream(), len(columns["t"][1])
    parts = []
    for start, stop in pairwise([0, *sorted(min(c, n) for c in cuts), n]):
        cut = {name: (t, v[start:stop]) for name, (t, v) in columns.items()}
        parts.append(op.push(build(kind, cut)))
        if save:
            op = run.stream(op.to_bytes())
    parts.append(op.finish())
    got = [row for part in parts for row in in_arrow(part)]
    assert sorted(got) == sorted(want)


def in_arrow(frame):
    """Rows as texts that tell bytes and types apart, null and NaN alike."""
    if isinstance(frame, dict):
        columns = {n: [none(x) for x in v.tolist()] for n, v in frame.items()}
    elif isinstance(frame, pd.DataFrame):
        columns = {n: [none(x) for x in frame[n].tolist()] for n in frame}
    else:
        made = frame.to_arrow() if isinstance(frame, pl.DataFrame) else frame
        columns = {n: made.column(n).to_pylist() for n in made.schema.names}
    return [repr(row) for row in zip(*columns.values(), strict=True)]


def none(x):
    if isinstance(x, np.ndarray):
        return x.tolist()
    return None if x is pd.NA or (isinstance(x, float) and math.isnan(x)) else x


@settings(max_examples=40)
@given(data(ints=INTS, max_size=12), rollings(SKETCHED), st.lists(st.integers(0, 240), max_size=5))
def test_cut_as_in_sparks_workers(sample, spec, cuts):
    rows = chunking.sorted_table(sample, spec)
    if len(rows):
        rows = rows.take(np.arange(len(rows)).repeat(20))
    run = with_bytes(spec)
    chunking.assert_same(run, rows, [min(c, len(rows)) for c in cuts])


@settings(max_examples=20)
@given(data(ints=INTS, max_size=12), rollings(SKETCHED), st.integers(2, 5))
def test_on_any_number_of_threads(sample, spec, threads):
    rows, run = build("pyarrow", repeated(sample, 20)), with_bytes(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mta.threads.LEAST_ROWS", 1)
        assert in_arrow(run(rows, threads=threads)) == in_arrow(run(rows))


def test_texts_that_have_left_are_forgotten():
    """A stream of ever new ones stays small, and those that come back are counted again."""
    aggs = {"n": agg.approx_count_distinct("s"), "top": agg.approx_top_k("s", 2)}
    spec = mta.rolling(50).agg(**aggs)
    texts = np.array([f"text {i % 7_000}" for i in range(9_000)])
    op, got = spec.stream(), []
    for start in range(0, len(texts), 500):
        got += op.push({"s": texts[start : start + 500]})["top"].tolist()
        ((_, known),) = op.coders.known_values()
        (coder,) = op.coders._coders.values()
        assert coder.items == {number: text for text, number in known}
        assert len(known) <= 2_500
    assert repr(got) == repr(spec({"s": texts})["top"].tolist())


# ---- the bits: which sketches are merged, and in which order ---------------------------------

FAMILIES = {
    "kll_sketch": (sketches.Quantiles(8), agg.kll_sketch("x", k=8)),
    "hll_sketch": (sketches.Hll(5, "float"), agg.hll_sketch("x", lg_k=5)),
    "theta_sketch": (sketches.Theta(5, "float"), agg.theta_sketch("x", lg_k=5)),
    "frequent_items_sketch": (
        sketches.Frequent(7, "float"),
        agg.frequent_items_sketch("x", max_items=7),
    ),
}


def by_definition(sketch, values, lo, hi, base):
    """The sketch of the rows [lo, hi), made value by value: the blocks left of the cut from right
    to left, the values right of it from left to right, then both, and the rest of the first block
    between them."""

    def taken(partial, start, stop):
        for value in values[start:stop]:
            partial = sketch.extend(partial, sketch.wrap([value]))
        return partial

    size = sketch.block
    front, back = -(-(lo - base) // size), (hi - base) // size
    if front > back:
        return sketch.join(sketch.zero(), sketch.wrap(values[lo:hi]), sketch.zero())
    middle = max(range(front, back + 1), key=lambda b: (b & -b) or sys.maxsize)
    if front < back and middle == front:
        middle = max(range(front + 1, back + 1), key=lambda b: b & -b)
    left, right = sketch.zero(2 * middle), sketch.zero(2 * middle + 1)
    for block in range(middle - 1, front - 1, -1):
        left = taken(left, base + block * size, base + (block + 1) * size)
    right = taken(right, base + middle * size, hi)
    return sketch.join(left, sketch.wrap(values[lo : base + front * size]), right)


@pytest.mark.parametrize("fn", FAMILIES)
@pytest.mark.parametrize("width", [1, 50, 200, 700])
def test_bytes_are_those_of_the_definition(fn, width):
    sketch, aggregate = FAMILIES[fn]
    rng = np.random.default_rng(width)
    values = np.minimum(rng.zipf(1.3, 900), 200) / 4
    keys = np.repeat([0, 1], [300, 600])
    got = mta.rolling(width, by="k", every=7).agg(a=aggregate)({"x": values, "k": keys})["a"]
    for key, first, stop in ((0, 0, 300), (1, 300, 900)):
        mine = got[:42] if key == 0 else got[42:]
        for answer, hi in zip(mine, range(first + 7, stop + 1, 7), strict=True):
            lo = max(first, hi - width)
            base = first if width > 1 else lo  # windows that share no row begin anew
            assert answer == sketch.to_bytes(by_definition(sketch, values, lo, hi, base))


# ---- many values: within the bounds ----------------------------------------------------------


def test_many_values_keep_to_the_bounds():
    rng = np.random.default_rng(1)
    n, width = 30_000, 20_000
    rows = {"x": rng.lognormal(size=n), "i": rng.zipf(1.3, n) % 50_000}
    spec = mta.rolling(width, every=2_000).agg(
        q=agg.approx_quantile("x", 0.9),
        d=agg.approx_count_distinct("x"),
        t=agg.approx_top_k("i", 5, max_items=1_000),
        exact=agg.most_common("i", 5),
    )
    got = spec(rows)
    for answer, stop in enumerate(range(2_000, n + 1, 2_000)):
        inside = rows["x"][max(0, stop - width) : stop]
        rank = np.mean(inside <= got["q"][answer])
        assert abs(rank - 0.9) < 0.0133 * 1.5  # 99 % are within 0.0133
        assert abs(got["d"][answer] / len(inside) - 1) < 4 * 1.04 / 2**6
        assert got["t"][answer].tolist() == got["exact"][answer].tolist()


# ---- sketches of sketches --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_windows_over_the_sketches_of_days(kind):
    """The last three days' values, from one sketch a day or from the rows themselves."""
    rng = np.random.default_rng(5)
    days, per_day = 12, 300
    columns = {
        "day": ("int64", np.repeat(np.arange(days), per_day).tolist()),
        "x": ("float64", (rng.integers(0, 5_000, days * per_day) / 7).tolist()),
        "s": ("string", [f"u{i}" for i in rng.integers(0, 2_000, days * per_day)]),
    }
    rows = build(kind, columns)
    made = {
        "kll": ("kll_sketch", "x", {}),
        "hll": ("hll_sketch", "s", {}),
        "theta": ("theta_sketch", "s", {}),
        "frequent": ("frequent_items_sketch", "s", {"source": "text"}),
    }
    day = mta.rolling("1i", on="day", every=per_day)
    daily = day.agg(**{n: getattr(agg, fn)(c) for n, (fn, c, _) in made.items()})(rows)
    three = mta.rolling("3i", on="day")
    merged = three.agg(
        **{n: getattr(agg, fn)(n, merge=True, **o) for n, (fn, _, o) in made.items()}
    )(daily)
    direct = mta.rolling("3i", on="day", every=per_day).agg(
        **{n: getattr(agg, fn)(c) for n, (fn, c, _) in made.items()}
    )(rows)
    kll, hll = sketches.Quantiles(), sketches.Hll(source="text")
    theta, frequent = sketches.Theta(source="text"), sketches.Frequent(source="text")
    for i in range(days):
        a, b = ({n: column(f, n)[i] for n in made} for f in (merged, direct))
        assert kll.from_bytes(a["kll"]).n == kll.from_bytes(b["kll"]).n == per_day * min(i + 1, 3)
        ours, theirs = (hll.lower(hll.combine(hll.zero(), hll.from_bytes(d["hll"])), ESTIMATE)
                        for d in (a, b))  # fmt: skip
        assert ours == theirs
        assert a["theta"] == b["theta"]  # a function of the set of values
        assert theta.lower(theta.from_bytes(a["theta"]), ESTIMATE) == [
            len(set(columns["s"][1][max(0, i - 2) * per_day : (i + 1) * per_day]))
        ]
        ours, theirs = (frequent.lower(frequent.from_bytes(d["frequent"]), TOP) for d in (a, b))
        assert ours == theirs


ESTIMATE = [("estimate", None)]
TOP = [("items", 5), ("counts", 5)]


def column(frame, name):
    values = frame[name] if not hasattr(frame, "column_names") else frame.column(name)
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def test_merging_skips_nulls_and_keeps_what_it_is_given():
    one = mta.rolling(1).agg(a=agg.hll_sketch("x"))({"x": np.array([1, 2])})["a"]
    rows = {"s": np.array([None, one[0], None, None, one[1]], object)}
    got = mta.rolling(2).agg(a=agg.hll_sketch("s", merge=True))(rows)["a"]
    assert [x is None for x in got] == [True, False, False, True, False]
    nothing = {"s": np.array([None, None], object)}
    got = mta.rolling(2).agg(a=agg.hll_sketch("s", merge=True))(nothing)["a"]
    assert got.tolist() == [None, None]


# ---- one state -------------------------------------------------------------------------------


def test_what_shares_a_sketch_and_what_does_not():
    spec = mta.rolling(9).agg(
        a=agg.approx_quantile("x", 0.1),
        b=agg.approx_quantile("x", 0.9, nan="skip"),
        c=agg.kll_sketch("x", min_count=3),
        d=agg.approx_count_distinct("x"),
        e=agg.hll_sketch("x"),
        f=agg.approx_top_k("x", 2),
        g=agg.approx_top_k("x", 3),
        h=agg.frequent_items_sketch("x"),
    )
    assert [s.name for s in make_plan(spec.aggs, 0).states] == ["kll", "hll", "frequent"]
    text = spec.explain()
    assert "kll(x, k=200, NaN skipped) -> a, b, c" in text
    assert "frequent(x, max_items=10000) -> f, g, h" in text
    apart = mta.rolling(9).agg(
        a=agg.approx_quantile("x", 0.1),
        b=agg.approx_quantile("x", 0.1, k=100),
        c=agg.kll_sketch("x", merge=True),
        d=agg.kll_sketch("x", merge=True, source="int"),
        e=agg.theta_sketch("x"),
        f=agg.theta_sketch("x", nan="skip"),
    )
    assert len(make_plan(apart.aggs, 0).states) == 6
