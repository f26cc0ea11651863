"""The oracle itself, against answers worked out by hand and against independent arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import (
    Agg,
    Exact,
    Rolling,
    aggregate,
    differences,
    frame,
    matches,
    nearest_double,
    nearest_sqrt,
    sum_bound,
)

TICKS = [0, 0, 1, 1, 2, 4]


def frames(kind="time", ticks=TICKS, on="t", **options):
    rows = [{"t": t, "v": i} for i, t in enumerate(ticks)]
    spec = Rolling(aggs={}, kind=kind, on=on, **options)
    return [frame(rows, i, spec) for i in range(len(rows))]


@pytest.mark.parametrize(
    ("closed", "ties", "expected"),
    [
        ("right", "peers", [[0, 1], [0, 1], [0, 1, 2, 3], [0, 1, 2, 3], [2, 3, 4], [5]]),
        ("left", "peers", [[], [], [0, 1], [0, 1], [0, 1, 2, 3], [4]]),
        ("both", "peers", [[0, 1], [0, 1], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4], [4, 5]]),
        ("neither", "peers", [[], [], [0, 1], [0, 1], [2, 3], []]),
        ("right", "arrival", [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [2, 3, 4], [5]]),
        ("left", "arrival", [[], [0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [4]]),
    ],
)
def test_time_frames(closed, ties, expected):
    assert frames(range=2, closed=closed, ties=ties) == expected


@pytest.mark.parametrize(
    ("closed", "lag", "expected"),
    [
        ("right", 0, [[0], [0, 1], [1, 2], [2, 3]]),
        ("left", 0, [[], [0], [0, 1], [1, 2]]),
        ("both", 0, [[0], [0, 1], [0, 1, 2], [1, 2, 3]]),
        ("neither", 0, [[], [0], [1], [2]]),
        ("right", 1, [[], [0], [0, 1], [1, 2]]),
        ("right", -1, [[0, 1], [1, 2], [2, 3], [3]]),
    ],
)
def test_row_frames(closed, lag, expected):
    assert frames(kind="rows", ticks=[5, 5, 6, 9], range=2, closed=closed, lag=lag) == expected


def test_row_frames_follow_time_then_arrival():
    assert frames(kind="rows", ticks=[3, 1, 2, 1], range=2) == [[2, 0], [1], [3, 2], [1, 3]]
    assert frames(kind="rows", ticks=[3, 1, 2, 1], on=None, range=2) == [
        [0],
        [0, 1],
        [1, 2],
        [2, 3],
    ]


def test_frames_of_everything_so_far():
    assert frames(kind="all", ticks=[2, 1, 2]) == [[1, 0, 2], [1], [1, 0, 2]]
    assert frames(kind="all", ticks=[2, 1, 2], ties="arrival") == [[1, 0], [1], [1, 0, 2]]
    assert frames(kind="all", ticks=[2, 1, 2], closed="left") == [[1], [], [1]]
    assert frames(kind="all", ticks=[2, 1, 2], on=None) == [[0], [0, 1], [0, 1, 2]]
    assert frames(kind="all", ticks=[2, 1, 2], lag=1) == [[1], [], [1]]


def test_null_and_nan_keys_are_two_groups():
    rows = [{"t": 0, "k": k} for k in (None, math.nan, None, math.nan, "<NaN>")]
    spec = Rolling(aggs={}, kind="rows", range=9, on="t", by=("k",))
    assert [frame(rows, i, spec) for i in range(5)] == [[0], [1], [0, 2], [1, 3], [4]]


@pytest.mark.parametrize(
    ("agg", "values", "expected"),
    [
        (Agg("count"), [None, 1], 2),
        (Agg("count", "v"), [None, 1.0, math.nan], 2),
        (Agg("count", "v", nan="skip"), [None, 1.0, math.nan], 1),
        (Agg("sum", "v"), [], 0),
        (Agg("sum", "v"), [2**63, 1], 2**63 + 1),
        (Agg("sum", "v"), [math.inf, 1.0], math.inf),
        (Agg("sum", "v"), [math.inf, -math.inf], math.nan),
        (Agg("mean", "v"), [], None),
        (Agg("mean", "v"), [2**53, 2**53 + 1], Fraction(2**54 + 1, 2)),
        (Agg("mean", "v", min_count=3), [1.0, None, 2.0], None),
        (Agg("min", "v", nan="greatest"), [math.nan, 3.0], Fraction(3)),
        (Agg("max", "v", nan="greatest"), [math.nan, math.inf], math.nan),
        (Agg("min", "v"), [math.nan, 3.0], math.nan),
        (Agg("var", "v"), [7.0], None),
        (Agg("var", "v", ddof=0), [7.0], Fraction(0)),
        (Agg("var", "v"), [1.0, 2.0, 4.0], Fraction(7, 3)),
        (Agg("std", "v"), [0.0, 3.0, 6.0], Fraction(3)),
        (Agg("std", "v"), [1.0, math.inf], math.nan),
    ],
)
def test_aggregates(agg, values, expected):
    got = aggregate(agg, [{"v": v} for v in values])
    assert got.value == expected or repr(got.value) == repr(expected) == "nan"


@given(st.fractions(min_value=0), st.integers(-1200, 900))
def test_square_roots_are_correctly_rounded(x, power):
    """Against decimal's square root at far higher precision."""
    x = x * Fraction(2) ** power
    with localcontext() as context:
        context.prec = 700
        root = (Decimal(x.numerator) / Decimal(x.denominator)).sqrt()
        assert nearest_sqrt(x) == float(root)


@given(st.floats(0, allow_infinity=False))
def test_square_root_of_a_double_agrees_with_ieee(x):
    assert nearest_sqrt(Fraction(x)) == math.sqrt(x)


def test_nearest_double():
    assert nearest_double(Fraction(1, 3)) == 1 / 3
    assert nearest_double(Fraction(2**53 + 1)) == 2.0**53
    assert nearest_double(Fraction(2**53 + 3)) == 2.0**53 + 4
    assert nearest_double(-(Fraction(10) ** 400)) == -math.inf


def test_matching_is_strict_about_kind_and_rounding():
    assert matches(3, Exact(3)) and not matches(3.0, Exact(3)) and not matches(True, Exact(1))
    assert matches(1 / 3, Exact(Fraction(1, 3))) and not matches(0.33, Exact(Fraction(1, 3)))
    assert matches(1.0, Exact(Fraction(1), Fraction(1, 9))) and not matches(None, Exact(0))
    assert matches(None, Exact(None)) and not matches(math.nan, Exact(None))
    assert matches(math.nan, Exact(math.nan)) and not matches(math.nan, Exact(Fraction(1)))
    assert matches(0, Exact(0)) and matches(-0.0, Exact(0)) and not matches(False, Exact(0))


def test_matching_truths_and_texts():
    assert matches(True, Exact(True)) and not matches(1, Exact(True))
    assert matches(False, Exact(False)) and not matches(0.0, Exact(False))
    assert not matches(True, Exact(False)) and not matches(None, Exact(False))
    assert matches("", Exact("")) and not matches("a", Exact("b")) and not matches(None, Exact(""))
    assert matches("None", Exact("None")) and not matches("None", Exact(None))


def test_matching_lists_item_by_item():
    exact = Exact([Exact(1), Exact(Fraction(1, 2)), Exact(math.nan), Exact("a")])
    assert matches([1, 0.5, math.nan, "a"], exact)
    assert not matches([1, 0.5, math.nan], exact) and not matches([1, 0.5, 0.5, "a"], exact)
    assert not matches([1, 0.5, math.nan, "a", "a"], exact) and not matches(None, exact)
    assert not matches((1, 0.5, math.nan, "a"), exact) and not matches("ab", Exact([Exact("a")]))
    assert matches([], Exact([])) and not matches([], Exact(None)) and not matches(None, Exact([]))


def test_matching_at_the_ends_of_doubles():
    top = 1.7976931348623157e308
    over = Exact(Fraction(10) ** 400)
    assert matches(math.inf, over) and not matches(-math.inf, over) and not matches(top, over)
    assert not matches(math.inf, Exact(Fraction(top), Fraction(top) / 2**60))
    assert matches(math.inf, Exact(Fraction(top), Fraction(top) / 2**52))
    assert matches(math.inf, Exact(math.inf)) and not matches(top, Exact(math.inf))
    assert matches(0.0, Exact(Fraction(0))) and matches(-0.0, Exact(Fraction(0)))
    assert matches(5e-324, Exact(Fraction(3, 2**1075))) is False  # 1.5 of the least: ties to even
    assert matches(1e-323, Exact(Fraction(3, 2**1075)))


def test_matching_keeps_to_the_interval():
    corr = Exact(Fraction(1), Fraction(1, 10**12), within=(-1.0, 1.0))
    assert matches(1.0, corr) and matches(1 - 1e-13, corr) and not matches(1 + 3e-16, corr)
    assert not matches(math.nan, corr)


def test_differences_name_the_row_and_the_answer():
    want = [{"a": Exact(1), "b": Exact([Exact("x"), Exact(Fraction(1, 2))])}]
    assert differences([{"a": 1, "b": ["x", 0.5]}], want) == []
    assert differences([{"a": 2}], want) == [
        "row 0, a: 2 instead of 1",
        "row 0, b: None instead of ['x', 0.5 (± 0)]",
    ]
    assert differences([], want) == ["0 rows instead of 1"]


def test_bound_of_compensated_sums():
    assert sum_bound([1e16, 1.0, -1e16]) == Fraction(1, 2**52) + Fraction(9, 2**104) * (
        2 * 10**16 + 1
    )
    assert sum_bound([]) == 0
