"""Windows by number give one double each, whoever answers them, after whatever rows and windows.

The aggregates here round at every step in the order of rows, or draw lots: what is combined first
shows in the last bits. So this compares bits, of batches, streams cut anywhere, with rows behind
the watermark, threads, and pieces as Spark's workers get them (`test_period_chunking`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from mta import agg

# Neither is associative to the last bit.
MONOIDS = {
    "vwap": agg.monoid(
        lift=lambda x, y: (x * y, y), combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda p: p[0] / p[1], zero=(0.0, 0.0), name="vwap", columns=["x", "y"],
    ),
    "total": agg.monoid(
        lift=lambda x: [x], combine=lambda a, b: [*a, *b] if len(a) + len(b) < 3 else [sum(a + b)],
        lower=sum, zero=list, name="total", columns=["x"], gives="float",
    ),
}  # fmt: skip
ROUNDED = {
    **MONOIDS,
    "q": agg.approx_quantile("x", 0.3, k=8),
    "fast": agg.sum("x", numerics="fast"),
    "fast_mean": agg.mean("x", numerics="fast", min_count=2),
}
SKETCHES = {
    "kll": agg.kll_sketch("y", k=8),
    "often": agg.approx_top_k("i", 3),
    "hll": agg.hll_sketch("y", lg_k=5),
    "theta": agg.theta_sketch("y", lg_k=5),
}
OTHERS = {
    "n": agg.count(), "sum": agg.sum("x"), "exact": agg.mean("x", numerics="exact"),
    "min": agg.min("x"), "max": agg.max("y"), "var": agg.var("x"), "sd": agg.std("y"),
    "skew": agg.skew("x"), "kurt": agg.kurt("y"), "cov": agg.cov("x", "y"),
    "corr": agg.corr("x", "y"), "slope": agg.slope("x", "y"),
    "weighted": agg.weighted_mean("x", "y"), "product": agg.product("y"),
    "geometric": agg.geometric_mean("y"), "first": agg.first("x"), "last": agg.last("x", order="y"),
    "back": agg.arg_max("x"), "at": agg.arg_min("x", by="y"), "run": agg.longest_run("x"),
    "median": agg.median("x"), "top": agg.top_k("x", 2), "distinct": agg.count_distinct("i"),
    "mode": agg.mode("i"), "most": agg.most_common("i", 2), "list": agg.list("x"),
    "about": agg.approx_count_distinct("i"),
}  # fmt: skip


def table(seed, n, length, disorder=0, nulls=0.1):
    """Rows that come in no strict order; values of which every sum is rounded."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(-length, length, n))
    x = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n)
    made = {
        "t": t, "k": rng.choice(["a", "b"], n),
        "x": pa.array(x, mask=rng.random(n) < nulls), "y": rng.uniform(0.5, 2.0, n),
        "i": rng.integers(0, 6, n),
    }  # fmt: skip
    order = np.argsort(t + rng.integers(0, disorder + 1, n), kind="stable")
    return pa.table(made).take(pa.array(order))


def pushed(spec, rows, cuts):
    """The answers of a stream that gets the rows cut at these places, and the stream."""
    op, edges = spec.stream(), pairwise([0, *sorted(cuts), len(rows)])
    parts = [op.push(rows.slice(start, stop - start)) for start, stop in edges]
    parts.append(op.finish())  # (of no windows, answers that may be anything have another type)
    some = [part for part in parts if len(part)] or parts[:1]
    return pa.concat_tables(some, promote_options="default"), op


def bits(answers, revisions=False):
    """By window, its answers to the last bit; the last ones, where there are several."""
    made = {}
    for row in answers.to_pylist():
        key = row.get("k"), row["start"], row["end"]
        revision = row.pop("revision", 1)
        assert revisions or key not in made
        made[key] = {name: v.hex() if isinstance(v, float) else v for name, v in row.items()}
        assert revision >= 1
    return made


@st.composite
def specs(draw):
    length, slide = draw(st.integers(1, 60)), draw(st.integers(1, 25))
    options = {"on": "t", "by": draw(st.sampled_from([None, "k"]))}
    options["closed"] = draw(st.sampled_from(["left", "right"]))
    options["origin"] = draw(st.sampled_from([None, 7, "first"]))
    kind = draw(st.sampled_from(["hopping", "tumbling", "landmark"]))
    if kind == "hopping":
        return mta.hopping(f"{length}i", f"{slide}i", **options)
    make = mta.tumbling if kind == "tumbling" else mta.landmark
    return make(f"{slide}i", **options)


SIZES = st.integers(0, 2**32), st.integers(1, 120), st.sampled_from([20, 90, 600])
CUTS = st.lists(st.integers(0, 120), max_size=6)


@given(specs(), *SIZES, st.sampled_from([ROUNDED, SKETCHES, OTHERS]), CUTS)
def test_any_chunking_is_a_batch(spec, seed, n, length, aggs, cuts):
    rows = table(seed, n, length, disorder=9)
    spec = spec.watermark("10i").agg(**aggs)
    got, op = pushed(spec, rows, [cut for cut in cuts if cut <= n])
    assert op.state()["late"] == 0
    assert bits(got) == bits(spec(rows))


@given(specs(), *SIZES, CUTS, st.integers(0, 3))
def test_rows_behind_the_watermark_are_in_the_windows_that_are_open(
    spec, seed, n, length, cuts, delay
):
    """Some come too late for some of their windows, which chunks have no say in."""
    rows = table(seed, n, length, disorder=12)
    spec = spec.watermark(f"{delay}i").agg(**ROUNDED)
    got, _ = pushed(spec, rows, [cut for cut in cuts if cut <= n])
    one_by_one, _ = pushed(spec, rows, range(1, n))
    assert bits(got) == bits(one_by_one)


@given(specs(), *SIZES, CUTS)
def test_the_last_revision_is_a_batch(spec, seed, n, length, cuts):
    rows = table(seed, n, length, disorder=12)
    spec = spec.watermark("1i").late("revise", within="50i").agg(**ROUNDED)
    got, op = pushed(spec, rows, [cut for cut in cuts if cut <= n])
    assert op.state()["late"] == 0
    assert bits(got, revisions=True) == bits(spec(rows))


def _join(a, b):
    return f"({a} {b})" if a and b else a or b


SHOWN = agg.monoid(str, _join, zero="", name="shown", columns=["i"])


def shown(older, newer):
    """What combining is done for values on both sides of a cut, as the words of `mta._user` say."""
    if not older:
        older, newer = newer[:1], newer[1:]
    made = reduce(lambda later, one: _join(one, later), reversed(older), "")
    return _join(made, reduce(_join, newer, "")) or None


@given(
    st.lists(st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 9))), max_size=25),
    st.integers(1, 30), st.integers(1, 12), st.integers(-5, 5), st.booleans(), CUTS,
)  # fmt: skip
def test_what_is_combined_first_follows_from_the_number_of_the_window(
    rows, length, slide, origin, right, cuts
):
    several = -(-length // slide)
    t = np.array([at for at, _ in rows], np.int64)
    made = pa.table({"t": t, "i": pa.array([i for _, i in rows], pa.int64())})
    spec = mta.hopping(
        f"{length}i", f"{slide}i", on="t", origin=origin, closed="right" if right else "left"
    )
    spec = spec.watermark("60i").agg(shown=SHOWN)
    for got in (spec(made), pushed(spec, made, [cut for cut in cuts if cut <= len(rows)])[0]):
        for row in got.to_pylist():
            number = (row["start"] - origin) // slide
            cut = number // several * several * slide + length + origin
            inside = sorted(
                (at, k) for k, at in enumerate(t - right) if 0 <= at - row["start"] < length
            )
            values = [(at, str(rows[k][1])) for at, k in inside if rows[k][1] is not None]
            older = [value for at, value in values if several == 1 or at < cut]
            assert row["shown"] == shown(older, [v for _, v in values[len(older) :]])


@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize("spec", [
    mta.hopping("300i", "70i", on="t"), mta.hopping("500i", "9i", on="t", closed="right"),
    mta.tumbling("100i", on="t"), mta.landmark("100i", on="t"),
], ids=["hopping", "many", "tumbling", "landmark"])  # fmt: skip
def test_thousands_of_rows(spec, by):
    rows = table(3, 4000, 3000, disorder=40)
    spec = replace(spec, by=(by,) if by else ()).watermark("41i").agg(**ROUNDED)
    want = bits(spec(rows))
    for size in (37, 100, 1000, len(rows)):
        assert bits(pushed(spec, rows, range(size, len(rows), size))[0]) == want


def test_an_answer_is_that_of_the_rows_of_its_window_alone():
    """Even where all others are left out, and so are the windows before."""
    rows = table(5, 3000, 2000)
    spec = mta.hopping("300i", "70i", on="t").agg(**ROUNDED)
    everything = bits(spec(rows))
    t = rows["t"].to_numpy()
    for key, answers in list(everything.items())[::9]:
        inside = rows.filter(pa.array((t >= key[1]) & (t < key[2])))
        assert bits(spec(inside))[key] == answers


def test_peeking_gives_what_finishing_gives():
    rows = table(6, 1000, 900)
    spec = mta.hopping("300i", "70i", on="t").watermark("0i").agg(**ROUNDED)
    op = spec.stream()
    op.push(rows)
    assert bits(op.peek()) == bits(op.finish())


def test_on_threads():
    rows = table(7, 30_000, 15_000)
    spec = mta.hopping("200i", "1i", on="t").agg(
        fast=ROUNDED["fast"], vwap=ROUNDED["vwap"], var=OTHERS["var"]
    )
    assert bits(spec(rows, threads=3)) == bits(spec(rows))
