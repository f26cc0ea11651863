"""The oracle's aggregates against other libraries, where their definition is ours.

The data is what their arithmetic bears. Tolerances of the oracle itself are tried too: the plain
formula in doubles has to be within them where nothing cancels, and the neighbour of a correctly
rounded answer outside.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oracle import Agg, aggregate, matches, nearest_double
from oracle_aggregates import FUNCTIONS, needs
from oracle_exact import root

EIGHTHS = st.integers(-800, 800).map(lambda n: n / 8)
TAME = st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-9)
PAIRS = st.lists(st.tuples(EIGHTHS, EIGHTHS), min_size=4, max_size=30)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def of(agg, values, others=None):
    """The exact answer over one window."""
    others = values if others is None else others
    window = [{"v": v, "w": w} for v, w in zip(values, others, strict=True)]
    return aggregate(agg._replace(col="v"), window)


def value(agg, values, others=None):
    """As a double, to compare with another library's."""
    return nearest_double(of(agg, values, others).value)


def two(fn, **options):
    return Agg(fn, other="w", **options)


def near(other):
    return pytest.approx(other, rel=1e-9, abs=1e-9)


def items(exact):
    return [item.value for item in exact.value]


# ---- sums and products -----------------------------------------------------------------------


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_exact_sums_are_those_of_fsum(values):
    try:
        expected = math.fsum(values)
    except OverflowError:
        assume(False)
    assert matches(expected, of(Agg("sum", numerics="exact"), values))
    if expected and math.isfinite(expected):
        for neighbour in (math.nextafter(expected, math.inf), math.nextafter(expected, -math.inf)):
            assert not matches(neighbour, of(Agg("sum", numerics="exact"), values))


@given(st.lists(TAME, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_plain_sums_in_any_order_are_within_the_fast_bound(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    total = 0.0
    for v in shuffled:
        total += v
    assert matches(total, of(Agg("sum", numerics="fast"), values))
    assert matches(total / len(values), of(Agg("mean", numerics="fast"), values))
    assert matches(statistics.fmean(values), of(Agg("mean"), values))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9))
def test_wrapping_is_that_of_machine_integers(values):
    signed = of(Agg("sum", overflow="wrap"), values).value
    assert signed == int(np.array(values, np.int64).sum())
    positive = [v % 2**64 for v in values]
    unsigned = of(Agg("sum", overflow="wrap", unsigned=True), positive).value
    assert unsigned == int(np.array(positive, np.uint64).sum())


@given(st.lists(FINITE, min_size=1, max_size=12))
def test_products(values):
    """Against Decimal, with room for every digit; tolerance 2^-52, so no further than an ulp."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 12 * 800, 10**6, -(10**6)
        product = math.prod(map(Decimal, values), start=Decimal(1))
        exact = of(Agg("product"), values)
        assert Fraction(product) == exact.value
    assert matches(nearest_double(exact.value), exact)
    if 1e-300 < abs(product) < 1e300:
        assert not matches(nearest_double(exact.value) * (1 + 3 / 2**52), exact)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20))
def test_geometric_means(values):
    agg = Agg("geometric_mean")
    assert value(agg, values) == near(statistics.geometric_mean(values))
    one = values[0]
    assert matches(one, of(agg, [one] * len(values)))
    assert not matches(one * (1 + 5 / 2**51), of(agg, [one] * len(values)))


@given(st.fractions(min_value=Fraction(1, 10**6)), st.integers(1, 40), st.integers(-900, 900))
def test_roots(x, n, power):
    x *= Fraction(2) ** power
    assert abs(root(x**n, n) - x) <= x / 10**60
    assert abs(root(x, n) ** n - x) <= x / 10**60


@given(st.lists(st.tuples(EIGHTHS, st.floats(0.001, 1000)), min_size=1, max_size=20))
def test_weighted_means(pairs):
    xs, ws = zip(*pairs, strict=True)
    exact = of(two("weighted_mean"), xs, ws)
    assert nearest_double(exact.value) == near(np.average(xs, weights=ws))
    assert exact.tolerance < abs(exact.value) / 2**51 + Fraction(1, 2**80)


# ---- moments ---------------------------------------------------------------------------------


@given(PAIRS)
def test_pairs(pairs):
    xs, ys = map(list, zip(*pairs, strict=True))
    assume(len(set(xs)) > 1 and len(set(ys)) > 1)
    a, b = pd.Series(xs), pd.Series(ys)
    assert value(two("cov"), xs, ys) == near(a.cov(b))
    assert value(two("cov", ddof=0), xs, ys) == near(a.cov(b, ddof=0))
    assert value(two("cov"), xs, xs) == value(Agg("var"), xs)
    assert value(two("corr"), xs, ys) == near(a.corr(b))
    assert value(two("corr"), xs, ys) == near(statistics.correlation(xs, ys))
    assert value(two("slope"), ys, xs) == near(statistics.linear_regression(xs, ys).slope)
    assert value(two("slope"), [2 * x for x in xs], xs) == 2


@given(st.lists(EIGHTHS, min_size=4, max_size=30))
def test_shape(values):
    assume(len(set(values)) > 1)
    series = pd.Series(values)
    assert value(Agg("skew"), values) == near(series.skew())
    assert value(Agg("kurt"), values) == near(series.kurt())
    z = (series - series.mean()) / series.std(ddof=0)
    assert value(Agg("skew", bias=True), values) == near((z**3).mean())
    assert value(Agg("kurt", bias=True), values) == near((z**4).mean() - 3)


@given(PAIRS, st.integers(-4, 4).filter(bool), st.integers(-(2**70), 2**70))
def test_moments_know_neither_offset_nor_scale(pairs, scale, offset):
    xs, ys = map(list, zip(*pairs, strict=True))
    far = [8 * int(8 * scale * x) + offset for x in xs]  # exactly 64 scale x + offset
    sign = 1 if scale > 0 else -1
    for agg in (Agg("skew"), Agg("skew", bias=True)):
        before, after = of(agg, xs), of(agg, far)
        if len(set(xs)) > 1:
            assert after.value == sign * before.value and after.tolerance == before.tolerance
    for agg in (Agg("kurt"), Agg("kurt", bias=True)):
        assert repr(of(agg, far)) == repr(of(agg, xs))
    corr, cov, slope = (of(two(fn), xs, ys).value for fn in ("corr", "cov", "slope"))
    assert of(two("cov"), far, ys).value == 64 * scale * cov
    if len(set(xs)) > 1 and len(set(ys)) > 1:
        assert of(two("corr"), far, ys).value == sign * corr
        assert of(two("slope"), far, ys).value == 64 * scale * slope


@given(PAIRS)
def test_tolerances_are_a_part_of_the_greatest_possible_answer(pairs):
    """By Cauchy and Schwarz: perfect correlation has the tolerance of its own size."""
    xs, ys = map(list, zip(*pairs, strict=True))
    assume(len(set(xs)) > 1 and len(set(ys)) > 1)
    for agg in (two("cov"), two("corr"), two("slope"), Agg("skew"), Agg("kurt", bias=True)):
        exact = of(agg, xs, ys)
        assert exact.tolerance >= abs(exact.value) * Fraction(99, 100) / 10**12
    own = of(two("cov"), xs, xs)
    assert float(own.tolerance) == near(float(own.value) * 1e-12)
    assert float(of(two("slope"), xs, xs).tolerance) == near(1e-12)


# ---- order -----------------------------------------------------------------------------------


@given(
    st.lists(st.one_of(TAME, EIGHTHS), min_size=1, max_size=30),
    st.one_of(st.sampled_from([0, 1, 0.5, 0.9, 1 / 3, 0.07, 0.29]), st.floats(0, 1)),
    st.sampled_from(INTERPOLATIONS),
)
def test_quantiles(values, q, interp):
    exact = of(Agg("quantile", q=q, interp=interp), values)
    theirs = float(np.quantile(np.array(values), q, method=interp))
    if interp == "midpoint":  # theirs goes through b - (b - a) / 2, which rounds twice
        assert nearest_double(exact.value) == pytest.approx(theirs, rel=1e-15, abs=1e-6)
    else:
        assert matches(theirs, exact)


@given(st.lists(st.one_of(TAME, EIGHTHS), min_size=1, max_size=30))
def test_medians(values):
    assert matches(statistics.median(values), of(Agg("median"), values))
    middle = of(Agg("quantile", interp="midpoint"), values)
    assert matches(float(statistics.median(values)), middle)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9), st.sampled_from([0.5, 0.3])
)
def test_quantiles_of_integers(values, q):
    ordered = sorted(values)
    assert (
        of(Agg("quantile", q=q, interp="lower"), values).value
        == ordered[math.floor(q * (len(values) - 1))]
    )
    assert type(of(Agg("quantile", q=0, interp="linear"), values).value) is Fraction
    assert of(Agg("median"), values).value == statistics.median(map(Fraction, values))


@given(st.lists(st.one_of(EIGHTHS, st.just(math.inf)), min_size=1, max_size=30), st.integers(1, 5))
def test_the_greatest(values, k):
    assert items(of(Agg("top_k", k=k), values)) == heapq.nlargest(k, values)
    place = int(np.argmax(values))  # the first of equals
    assert of(Agg("arg_max"), values).value == len(values) - 1 - place
    assert of(two("arg_max"), list(range(len(values))), values).value == place
    assert of(two("last"), list(range(len(values))), values).value == max(
        place for place, v in enumerate(values) if v == max(values)
    )


# ---- sets and runs ---------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d"]), min_size=1), st.integers(1, 5))
def test_tallies(values, k):
    counter = Counter(values)
    assert of(Agg("count_distinct"), values).value == len(counter)
    assert of(Agg("mode"), values).value == statistics.mode(values)
    assert items(of(Agg("most_common", k=k), values)) == [v for v, _ in counter.most_common(k)]


@given(st.lists(st.integers(0, 9), min_size=1))
def test_longest_runs(values):
    """Against every slice."""
    n = len(values)
    increasing = [
        stop - start
        for start in range(n)
        for stop in range(start + 1, n + 1)
        if np.all(np.diff(values[start:stop]) > 0)
    ]
    assert of(Agg("longest_run"), values).value == max(increasing)


# ---- every function --------------------------------------------------------------------------


@pytest.mark.parametrize("fn", sorted(FUNCTIONS))
def test_too_few_rows_are_null_and_enough_are_not(fn):
    agg = two(fn) if fn in ("weighted_mean", "cov", "corr", "slope") else Agg(fn)
    row = {"v": 2, "w": 3}
    for n in range(7):
        assert (aggregate(agg._replace(col="v"), [row] * n).value is None) == (n < needs(agg))
        least = agg._replace(col="v", min_count=6)
        assert (aggregate(least, [row] * n).value is None) == (n < 6)
        assert (aggregate(agg._replace(col="v"), [row] * n, 5).value is None) == (n < 5)
