"""The oracle's aggregates against answers worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from oracle import Agg, Exact, aggregate, nearest_sqrt

NAN, INF = math.nan, math.inf
HALF = Fraction(1, 2)


def of(agg, values, others=None):
    """The exact answer over one window."""
    others = values if others is None else others
    agg = agg._replace(col="v")
    return aggregate(agg, [{"v": v, "w": w} for v, w in zip(values, others, strict=True)])


def plain(exact):
    """The value, with the items of a list as they are."""
    value = exact.value
    return [item.value for item in value] if isinstance(value, list) else value


def two(fn, **options):
    return Agg(fn, other="w", **options)


# ---- which row -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agg", "values", "others", "expected"),
    [
        (Agg("first"), [None, "b", "a"], None, "b"),
        (Agg("last"), ["b", "a", None], None, "a"),
        (Agg("first"), [NAN, 1.0], None, NAN),
        (Agg("first", nan="skip"), [NAN, 1.0], None, 1),
        (Agg("last"), [None, None], None, None),
        (Agg("last", min_count=2), [True, None], None, None),
        (two("first"), "abcd", [2, 1, 1, 3], "b"),
        (two("last"), "abcd", [2, 3, 3, 1], "c"),
        (two("first"), "abcd", [2, None, 1, 1], "c"),
        (two("first"), [None, "b", "c"], [0, 2, 1], "c"),
        (two("first"), "abcd", [2.0, NAN, 0.0, NAN], "b"),
        (two("last"), "abcd", [2.0, NAN, 9.0, NAN], "d"),
        (two("first", nan="greatest"), "abc", [NAN, INF, NAN], "b"),
        (two("first", nan="greatest"), "abc", [NAN, None, NAN], "a"),
        (two("last", nan="greatest"), "abcd", [INF, NAN, NAN, 1.0], "c"),
        (two("last", nan="skip"), "abcd", [1.0, NAN, NAN, 1.0], "d"),
        (two("first", nan="skip"), [NAN, 2.0], [1, 2], 2),
        (two("arg_min"), "abcd", [2, 1, 1, 3], "b"),
        (two("arg_max"), "abcd", [2, 3, 3, 1], "b"),
        (two("arg_max"), "abcd", [-0.0, 0.0, None, -1.0], "a"),
        (two("arg_min"), "abcd", [2.0, NAN, 1.0, NAN], "b"),
        (two("arg_max"), "abcd", [2.0, NAN, INF, NAN], "b"),
        (two("arg_min", nan="greatest"), "abcd", [NAN, INF, NAN, INF], "b"),
        (two("arg_max", nan="greatest"), "abcd", [INF, NAN, NAN, 1.0], "b"),
        (two("arg_max", nan="skip"), "abcd", [1.0, NAN, 5.0, NAN], "c"),
        (two("arg_max"), [None, "b"], [9, 1], "b"),
        (Agg("arg_min"), [3, 1, 1, 2], None, 2),
        (Agg("arg_max"), [3, 1, 3, 2], None, 3),
        (Agg("arg_max"), [None, 5, 1, None, None], None, 3),
        (Agg("arg_max"), [None], None, None),
        (Agg("arg_max"), [1.0, NAN, NAN, INF], None, 2),
        (Agg("arg_min", nan="greatest"), [NAN, 4.0, NAN], None, 1),
        (Agg("arg_min", nan="skip"), [NAN, 4.0, NAN], None, 1),
        (Agg("arg_max", nan="greatest"), [9.0, NAN, NAN], None, 1),
    ],
)
def test_rows_that_are_selected(agg, values, others, expected):
    got = plain(of(agg, list(values), others))
    assert got == expected or repr(got) == repr(expected) == "nan"


@pytest.mark.parametrize(
    ("agg", "values", "expected"),
    [
        (Agg("count_distinct"), [1.0, None, -0.0, 0.0, NAN, 1.0, NAN], 3),
        (Agg("count_distinct", nan="skip"), [1.0, NAN], 1),
        (Agg("count_distinct"), [None], 0),
        (Agg("mode"), ["b", "a", "a", "b", None, None, None], "b"),
        (Agg("mode"), [3, 1, 1, 2, 1], 1),
        (Agg("mode"), [NAN, 0.0, NAN], NAN),
        (Agg("mode", nan="skip"), [NAN, 0.0, NAN], 0),
        (Agg("mode"), [False, True, True], True),
        (Agg("most_common", k=2), ["c", "b", "a", "b", "a"], ["b", "a"]),
        (Agg("most_common", k=9), ["c", None, "a", "a"], ["a", "c"]),
        (Agg("most_common", k=1), [0.0, 1.0, 1.0, -0.0], [0]),
        (Agg("most_common", k=3), [None], []),
        (Agg("top_k", k=2), [3, 1, 3, None, 2], [3, 3]),
        (Agg("top_k", k=4), [3, 1], [3, 1]),
        (Agg("top_k", k=2), [], []),
        (Agg("list"), ["b", None, "a", "b"], ["b", "a", "b"]),
        (Agg("list", nan="skip"), [1.0, NAN, 2.0], [1, 2]),
        (Agg("list"), [None], []),
        (Agg("any"), [None, False, True], True),
        (Agg("any"), [None, False], False),
        (Agg("any"), [None], None),
        (Agg("all"), [None, True], True),
        (Agg("all"), [True, False], False),
        (Agg("all"), [], None),
        (Agg("longest_run"), [5, 1, 2, 3, 3, 4], 3),
        (Agg("longest_run"), [1, None, 2, None, 3], 3),
        (Agg("longest_run"), [1.0, NAN, 2.0, 3.0], 2),
        (Agg("longest_run", nan="skip"), [1.0, NAN, 2.0, 3.0], 3),
        (Agg("longest_run"), [NAN, NAN], 1),
        (Agg("longest_run"), [None], None),
    ],
)
def test_sets_lists_and_runs(agg, values, expected):
    got = plain(of(agg, values))
    assert got == expected or repr(got) == repr(expected) == "nan"


def test_nan_comes_first_among_the_greatest():
    for nan in ("propagate", "greatest"):
        got = plain(of(Agg("top_k", k=3, nan=nan), [1.0, NAN, INF, NAN]))
        assert repr(got[:2]) == "[nan, nan]" and got[2] == INF
    assert plain(of(Agg("top_k", k=3, nan="skip"), [1.0, NAN, INF])) == [INF, 1]


# ---- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agg", "values", "others", "expected"),
    [
        (Agg("product"), [2, None, -3, 2**63], None, -6 * 2**63),
        (Agg("product"), [0, 2**63, 2**63], None, 0),
        (Agg("product"), [0.5, 0.5], None, Fraction(1, 4)),
        (Agg("product"), [1e300, 1e300, 1e-300, 1e-300], None,
         Fraction(1e300) ** 2 * Fraction(1e-300) ** 2),
        (Agg("product"), [INF, -2.0], None, -INF),
        (Agg("product"), [INF, -0.0], None, NAN),
        (Agg("product"), [NAN, 0.0], None, NAN),
        (Agg("product"), [], None, None),
        (Agg("geometric_mean"), [0.0, 4.0], None, 0),
        (Agg("geometric_mean"), [-0.0, INF], None, NAN),
        (Agg("geometric_mean"), [INF, 4.0], None, INF),
        (Agg("geometric_mean"), [-INF, 4.0], None, NAN),
        (Agg("geometric_mean"), [-1, 0], None, NAN),
        (Agg("geometric_mean"), [NAN, 0.0], None, NAN),
        (Agg("geometric_mean", nan="skip"), [NAN, 0.0], None, 0),
        (two("weighted_mean"), [1.0, 4.0, None, 9.0], [1, 2, 3, None], 3),
        (two("weighted_mean"), [1, 4], [0.5, -1.0], 7),
        (two("weighted_mean"), [1.0, 4.0], [0.5, -0.5], NAN),
        (two("weighted_mean"), [1.0, INF], [0.0, 0.5], INF),
        (two("weighted_mean"), [1.0, INF], [0.5, -1.5], INF),
        (two("weighted_mean"), [1.0, INF], [2.5, -1.5], -INF),
        (two("weighted_mean"), [INF, -INF], [1, -1], NAN),
        (two("weighted_mean"), [INF, -INF], [2, -1], INF),
        (two("weighted_mean"), [1.0, INF], [0.5, 0.0], NAN),
        (two("weighted_mean"), [1.0, 1.0], [0.5, INF], NAN),
        (two("weighted_mean"), [NAN, 1.0], [0.0, 1.0], NAN),
        (two("weighted_mean", nan="skip"), [NAN, 1.0], [0.0, 1.0], 1),
        (two("weighted_mean"), [None], [1.0], None),
        (two("cov"), [1.0, 2.0, 4.0], [1, 3, 2], HALF),
        (two("cov", ddof=0), [1.0, 2.0, 4.0], [1, 3, 2], Fraction(1, 3)),
        (two("cov"), [1.0, None], [2, 3], None),
        (two("cov", ddof=0), [1.0, None], [2, 3], 0),
        (two("cov"), [1.0, INF], [2, 3], NAN),
        (two("corr"), [1, 2, 3], [5.0, 7.0, 9.0], 1),
        (two("corr"), [1, 2, 3], [5.0, 3.0, 1.0], -1),
        (two("corr"), [1, 2, 3], [5.0, 5.0, 5.0], NAN),
        (two("corr"), [1, 2, None], [5.0, None, 5.0], None),
        (two("slope"), [2.0, 4.0, 9.0], [0, 1, 2], Fraction(7, 2)),
        (two("slope"), [2.0, 4.0], [1, 1], NAN),
        (two("slope"), [2.0, 2.0], [1, 3], 0),
        (two("slope"), [2.0], [1], None),
        (Agg("skew"), [1.0, 2.0], None, None),
        (Agg("skew"), [1, 2, 3], None, 0),
        (Agg("skew", bias=True), [0.0, 0.0, 0.0, 4.0], None,
         Fraction(nearest_sqrt(Fraction(4, 3)))),
        (Agg("skew"), [7, 7, 7], None, NAN),
        (Agg("skew", bias=True), [7], None, NAN),
        (Agg("skew"), [1.0, 2.0, NAN], None, NAN),
        (Agg("skew", nan="skip"), [1.0, 2.0, NAN], None, None),
        (Agg("kurt"), [1, 2, 4], None, None),
        (Agg("kurt", bias=True), [-1, 1], None, -2),
        (Agg("kurt"), [1, 2, 3, 4], None, Fraction(-6, 5)),
        (Agg("kurt"), [7, 7, 7, 7], None, NAN),
    ],
)  # fmt: skip
def test_numbers(agg, values, others, expected):
    got = of(agg, values, others).value
    assert got == expected or repr(got) == repr(expected) == "nan"


@pytest.mark.parametrize(
    ("agg", "expected"),
    [
        (Agg("sum"), 3 * 2**62),
        (Agg("sum", overflow="wrap"), -(2**62)),
        (Agg("sum", overflow="wrap", unsigned=True), 3 * 2**62),
        (Agg("sum", overflow="float"), Fraction(3 * 2**62)),
        (Agg("mean", numerics="exact", overflow="float"), Fraction(2**62)),
    ],
)
def test_overflow_of_sums(agg, expected):
    got = of(agg, [2**62] * 3)
    assert got == Exact(expected) and type(got.value) is type(expected)


@pytest.mark.parametrize(
    ("interp", "values", "q", "expected"),
    [
        ("linear", range(10), 0.9, Fraction(0.9 * 9)),
        ("lower", range(10), 0.9, 8),
        ("higher", range(10), 0.9, 9),
        ("nearest", range(10), 0.9, 8),
        ("midpoint", range(10), 0.9, Fraction(17, 2)),
        ("nearest", [1, 2], 0.5, 1),
        ("nearest", [1, 2, 3, 4], 0.5, 3),
        ("lower", [2, 1, 4, 3], 1 / 3, 2),
        ("midpoint", [2**53 + 1, 2**53 + 1], 0.5, Fraction(2**53 + 1)),
        ("linear", [-INF, 1.0], 0.25, -INF),
        ("linear", [-INF, 1.0], 1, 1),
        ("linear", [1.0, INF], 0.75, INF),
        ("linear", [INF, INF], 0.75, INF),
        ("midpoint", [-INF, INF], 0.5, NAN),
        ("lower", [NAN, 1.0], 0, NAN),
        ("linear", [], 0.5, None),
    ],
)
def test_quantiles(interp, values, q, expected):
    got = of(Agg("quantile", q=q, interp=interp), list(values)).value
    assert got == expected or repr(got) == repr(expected) == "nan"


def test_nan_as_the_greatest_of_quantiles():
    values = [NAN, 3.0, 1.0, NAN, 2.0]
    for interp, q, expected in (("linear", 0.25, 2), ("lower", 0.6, 3), ("linear", 0.5, 3)):
        assert of(Agg("quantile", q=q, interp=interp, nan="greatest"), values).value == expected
    for interp, q in (("linear", 0.6), ("higher", 0.6), ("midpoint", 1)):
        assert math.isnan(of(Agg("quantile", q=q, interp=interp, nan="greatest"), values).value)
    assert of(Agg("median", nan="greatest"), values).value == 3
    assert of(Agg("median", nan="skip"), values).value == 2
    assert math.isnan(of(Agg("median"), values).value)


def test_the_middle_of_two_ints_is_correctly_rounded():
    a, b = 2**62 + 1, 2**62 + 1023
    for agg in (Agg("median"), Agg("quantile", interp="midpoint")):
        assert of(agg, [a, b]) == Exact(Fraction(a + b, 2))
