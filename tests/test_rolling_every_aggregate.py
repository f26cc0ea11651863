"""Every aggregate over every kind of window, against exact arithmetic, family by family."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import check
from kinds import KINDS
from oracle import Agg, Rolling
from strategies import (
    ALGEBRAIC,
    BETWEEN,
    EVERY,
    GATHERED,
    HOLISTIC,
    HUGE_FLOATS,
    INTERPOLATIONS,
    INTS,
    NAN_MODES,
    PAIRED,
    PRODUCTS,
    QUANTILES,
    RANKS,
    SELECTIONS,
    SHAPE,
    TALLIES,
    TAMER_FLOATS,
    Data,
    aggregate,
    data,
    rollings,
)

DAY_IN_MICROSECONDS = 86_400_000_000
TINY_INTS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**31, -(2**31), 2**62]))
ANY_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMERICS = ("compensated", "exact", "fast")
OVERFLOW = ("raise", "wrap", "float")
KIND = st.sampled_from(KINDS)


def table(**columns):
    """Rows of typed columns; one whose type is not given holds floats."""
    typed = {n: c if isinstance(c, tuple) else ("float64", list(c)) for n, c in columns.items()}
    rows = zip(*(values for _, values in typed.values()), strict=True)
    return Data([dict(zip(typed, row, strict=True)) for row in rows], typed)


# ---- any window over any rows, family by family ----------------------------------------------


@given(data(floats=HUGE_FLOATS, ints=INTS), rollings(SELECTIONS), KIND)
def test_selections(sample, spec, kind):
    check(spec, sample, kind)


@given(data(floats=HUGE_FLOATS, ints=TINY_INTS), rollings(PRODUCTS), KIND)
def test_products(sample, spec, kind):
    """Of numbers whose product in between leaves the doubles on either side, too."""
    check(spec, sample, kind)


@given(data(), rollings(PAIRED), KIND)
def test_pairs_of_columns(sample, spec, kind):
    check(spec, sample, kind)


@given(data(floats=TAMER_FLOATS, ints=INTS), rollings(PAIRED + SHAPE), KIND)
def test_shape(sample, spec, kind):
    check(spec, sample, kind)


@given(data(floats=HUGE_FLOATS, ints=INTS), rollings(RANKS), KIND)
def test_ranks(sample, spec, kind):
    check(spec, sample, kind)


@given(data(floats=HUGE_FLOATS, ints=INTS), rollings(TALLIES), KIND)
def test_tallies(sample, spec, kind):
    check(spec, sample, kind)


@given(data(floats=HUGE_FLOATS, ints=INTS), rollings(GATHERED), KIND)
def test_what_is_gathered(sample, spec, kind):
    check(spec, sample, kind)


@given(data(floats=HUGE_FLOATS), rollings(("sum", "mean"), numerics=NUMERICS), KIND)
def test_numerics(sample, spec, kind):
    check(spec, sample, kind)


@given(data(floats=ANY_FLOATS), rollings(("sum", "mean"), numerics=("exact",)))
def test_exact_sums_of_any_doubles(sample, spec):
    """Correctly rounded, though sums in between may be larger than any double."""
    check(spec, sample)


@given(data(ints=INTS), rollings(("sum", "mean"), numerics=NUMERICS, overflow=OVERFLOW), KIND)
def test_sums_of_integers_that_may_not_fit(sample, spec, kind):
    check(spec, sample, kind)


# ---- all of them together --------------------------------------------------------------------


@given(data(floats=TAMER_FLOATS), rollings(EVERY), KIND)
def test_any_aggregates_side_by_side(sample, spec, kind):
    check(spec, sample, kind)


@given(
    data(floats=TAMER_FLOATS, time_type="timestamp[us]", tick=DAY_IN_MICROSECONDS, max_size=12),
    rollings(SELECTIONS + ALGEBRAIC + HOLISTIC, tick=DAY_IN_MICROSECONDS),
    KIND,
)
def test_timestamps(sample, spec, kind):
    check(spec, sample, kind, unit="us")


@given(
    data(floats=TAMER_FLOATS, max_size=60, keys=("int64", "string")),
    rollings(SELECTIONS + ALGEBRAIC + HOLISTIC),
)
def test_longer_input(sample, spec):
    check(spec, sample)


@given(st.data(), st.sampled_from(sorted({*SELECTIONS, *ALGEBRAIC, *HOLISTIC})))
def test_one_state_many_options(draw, fn):
    """Aggregates that could share a state but must not share their options."""
    aggs = draw.draw(st.lists(aggregate(fn), min_size=6, max_size=16))
    aggs = {f"a{number}": a._replace(min_count=number % 3) for number, a in enumerate(aggs)}
    sample = draw.draw(data(floats=TAMER_FLOATS, ints=TINY_INTS, max_size=12))
    check(Rolling(aggs, "rows", draw.draw(st.integers(1, 8))), sample)


@pytest.mark.parametrize("fn", EVERY)
def test_the_same_answer_twice(fn):
    """Whoever shares a state gets an answer of its own, also where only one of them is null."""
    a = Agg(fn, "b" if fn in ("any", "all") else "x", other="y" if fn in PAIRED else None)
    spec = Rolling({"one": a, "two": a, "four": a._replace(min_count=4)}, "rows", 5)
    columns = {"x": [2.0, None, 1.0, 4.0, 8.0, 8.0, 0.5], "y": [1.0, 1.0, 2.0, 0.0, 5.0, 1.0, 1.0]}
    check(spec, table(b=("bool", [None, True, False, True, True, None, True]), **columns))


@pytest.mark.parametrize("fn", ["sum", "product"])
def test_an_answer_that_is_null_need_not_fit(fn):
    columns = {"i": ("int64", [2**62, 2**62, 5, None, 1, 1, 1])}
    check(Rolling({"a": Agg(fn, "i", min_count=3)}, "rows", 2), table(**columns))
    check(Rolling({"a": Agg(fn, "i", min_count=3)}, "rows", 3, lag=-2), table(**columns))


QUANTILE_SPECS = {
    f"{interp}_{nan}_{number}": Agg("quantile", "x", nan=nan, q=q, interp=interp)
    for interp in INTERPOLATIONS
    for nan in NAN_MODES
    for number, q in enumerate(QUANTILES)
}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 11])
def test_every_interpolation_of_every_quantile(n):
    inf, nan = math.inf, math.nan
    values = [5.0, 1.0, 4.0, 4.0, -2.0, nan, None, 0.5, inf, -inf, nan, nan, 3.0, inf, inf, 7.0]
    values += [-inf, -inf, -inf, 1e300, -1e300, 5e-324, -0.0, 0.0, 1.0, 1.0, 1.0, None, None, None]
    check(Rolling(QUANTILE_SPECS, "rows", n), table(x=values))


# ---- numbers that are hard -------------------------------------------------------------------

HARD = {
    "far from zero": [1e9 + d for d in (4, 7, 13, 16, 4, 4, 7, 12, 9)],
    "neighbours": [1.0 + k * 2.0**-52 for k in (0, 3, 1, 0, 2, 2, 3, 1, 1)],
    "all equal": [0.1] * 9,
    "equal at times": [3.3, 3.3, 3.3, 1e9, 3.3, 3.3, 3.3, 3.3, 1.2],
    "a spike": [0.1, 1e60, 0.3, 0.2, 0.7, -1e60, 0.6, 0.4, 0.9],
    "a spike of inf": [0.1, math.inf, 0.3, 0.2, 0.7, -math.inf, 0.6, 0.4, 0.9],
    "a spike of NaN": [0.1, math.nan, 0.3, 0.2, 0.7, math.nan, 0.6, 0.4, 0.9],
    "symmetric": [-3.0, 1.0, -1.0, 3.0, 0.0, -0.1, 0.1, 1e-50, -1e-50],
}
MIXED = [0.3, -1.0, 0.25, 5.0, 5.0, -0.5, 1e3, 2.0, 0.75]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("name", HARD)
def test_moments_of_hard_data(name, n):
    aggs = {fn: Agg(fn, "x", other="y" if fn in PAIRED else None) for fn in ALGEBRAIC}
    aggs |= {f"{fn}_yx": Agg(fn, "y", other="x") for fn in PAIRED if fn != "weighted_mean"}
    aggs |= {f"{fn}_xx": Agg(fn, "x", other="x") for fn in ("cov", "corr", "slope")}
    aggs |= {f"{fn}_biased": Agg(fn, "x", bias=True) for fn in SHAPE}
    check(Rolling(aggs, "rows", n), table(x=HARD[name], y=MIXED))


@pytest.mark.parametrize("base", [0, 2**53 + 1, 2**62 + 3, 2**63 - 12, -(2**63)])
@pytest.mark.parametrize("n", [2, 4, 7])
def test_integers_that_are_no_doubles(base, n):
    """They are taken as they are, not rounded to the nearest double first."""
    values = [base + d for d in (0, 1, 3, 1, 11, 7, 11, 2)]
    aggs = {fn: Agg(fn, "i", other="x" if fn in PAIRED else None) for fn in PAIRED + SHAPE}
    aggs |= {fn: Agg(fn, "i") for fn in (*RANKS, *TALLIES, "list", "longest_run", *SELECTIONS)}
    aggs |= {f"q_{i}": Agg("quantile", "i", q=0.3, interp=i) for i in INTERPOLATIONS}
    aggs |= {"geometric_mean": Agg("geometric_mean", "i"), "k2": Agg("top_k", "i", k=2)}
    check(Rolling(aggs, "rows", n), table(i=("int64", values), x=MIXED[1:]))


BIG = [2**64 - 1, 2**63, 0, 5, 2**63 + 1, 3, 2**64 - 1, None, 2]


@pytest.mark.parametrize("n", [1, 2, 3, 9])
@pytest.mark.parametrize("overflow", OVERFLOW)
def test_unsigned_integers(overflow, n):
    whole = ("sum", *RANKS, *TALLIES, "list", "longest_run", "first", "last", "arg_max")
    aggs = {fn: Agg(fn, "u", unsigned=True) for fn in whole}
    aggs["sum"] = aggs["sum"]._replace(overflow=overflow)
    aggs |= {f"q_{i}": Agg("quantile", "u", q=0.3, interp=i) for i in INTERPOLATIONS}
    aggs |= {"least": Agg("arg_min", "u", other="u", unsigned=True)}
    aggs = {name: a._replace(unsigned=True) for name, a in aggs.items()}
    check(Rolling(aggs, "rows", n), table(u=("uint64", BIG)))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("uint64", [2**63, 1, 2**64 - 1, 0, 2**63, 2**63, 0, 2**40, 3]),
        ("uint64", [2**32, 2**31, 2**32 - 1, 1, 2, 2**32]),
        ("int64", [-(2**31), 2**31, 2**31, 0, 2**62, -2, 2, -(2**62), 1]),
        ("int8", [127, -128, 127, 0, None, -128, -128]),
        ("uint8", [255, 255, 255, 0, 255]),
        ("int32", [2**31 - 1, -(2**31), 5, 2**31 - 1]),
    ],
)
def test_products_of_integers(type_, values, n):
    """Exact, or refused where one does not fit; and nothing in between has to fit."""
    spec = Rolling({"p": Agg("product", "i", unsigned=type_[0] == "u")}, "rows", n)
    check(spec, table(i=(type_, values)))


# ---- columns of other types ------------------------------------------------------------------

OTHER_TYPES = {
    "float32": [0.5, -0.0, 0.0, None, math.nan, 1.5, math.inf, 0.5, math.nan],
    "int8": [-128, 127, 5, 5, None, -128, 0, 0, 1],
    "string": ["", "b", None, "é😀", "b", "", "a", "a", "NaN"],
    "category": ["a", "b", None, "c", "b", "a", "a", "a", "b"],
    "bool": [True, False, None, True, True, False, False, None, True],
    "date": [0, -1, 365, None, -1, 0, 19000, 19000, 0],
    "timestamp[ns]": [0, -1, 10**18, None, -1, 7, 0, 0, 10**18],
    "timestamp[us, Europe/Paris]": [0, -1, 10**15, None, -1, 7, 0, 0, 10**15],
    "duration[ms]": [0, -1, 10**9, None, -1, 7, 0, 0, 10**9],
}
TICK = {"date": "D", "timestamp[ns]": "ns", "timestamp[us, Europe/Paris]": "us",
        "duration[ms]": "ms"}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type_", OTHER_TYPES)
def test_values_keep_their_type(type_, kind):
    """What selects, counts or collects values takes any type and gives it back."""
    picks = ("first", "last", "mode", "count_distinct", "list", "most_common")
    aggs = {fn: Agg(fn, "v", k=2) for fn in picks}
    aggs |= {fn: Agg(fn, "v", other="x") for fn in SELECTIONS}
    aggs |= {f"{fn}_of_x": Agg(fn, "x", other="v") for fn in SELECTIONS if is_ordered(type_)}
    if type_ in TICK or type_ in ("float32", "int8"):
        aggs |= {"top": Agg("top_k", "v", k=2)}
        exact = [i for i in INTERPOLATIONS if i not in BETWEEN]
        aggs |= {f"q_{i}": Agg("quantile", "v", q=0.3, interp=i) for i in exact}
    sample = table(v=(type_, OTHER_TYPES[type_]), x=[2.0, 1.0, 9.0, 1.0, 1.0, 2.0, 3.0, 0.0, 2.0])
    check(Rolling(aggs, "rows", 4), sample, kind, unit=TICK.get(type_, "i"))


def is_ordered(type_):
    return type_ not in ("string", "category")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fn", sorted({*SELECTIONS, *ALGEBRAIC, *HOLISTIC}))
def test_nothing_in_nothing_out(fn, kind):
    """No rows; and rows of which none counts, where every answer is null but an empty list's."""
    column = "b" if fn in ("any", "all") else "x"
    spec = Rolling({"a": Agg(fn, column, other="x" if fn in PAIRED else None)}, "rows", 2)
    types = ("bool" if column == "b" else "float64", "float64")
    for n in (0, 3):
        check(spec, table(**{column: (types[0], [None] * n)} | {"x": (types[1], [None] * n)}), kind)
