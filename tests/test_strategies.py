"""What hypothesis draws: every aggregate, with options that mean something."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings

from oracle import Exact, answers, differences, matches, nearest_double
from oracle_aggregates import FUNCTIONS
from strategies import (
    ALGEBRAIC,
    EVERY,
    HOLISTIC,
    NUMERIC,
    RANKS,
    SELECTIONS,
    SKETCHED,
    aggregate,
    data,
    rollings,
)

COUNTS = ("count", "count_all")


def test_every_function_is_of_one_family():
    assert sorted((*COUNTS, *EVERY, *SKETCHED)) == sorted(FUNCTIONS)


def as_an_engine_would(exact):
    """The answer in Python's own types, as near as they come."""
    if isinstance(exact.value, list):
        return list(map(as_an_engine_would, exact.value))
    return nearest_double(exact.value) if isinstance(exact.value, Fraction) else exact.value


@given(data(max_size=12), rollings(SELECTIONS + ALGEBRAIC + HOLISTIC))
def test_whatever_is_drawn_has_an_answer_that_an_engine_can_give(sample, spec):
    exact = answers(spec, sample.rows)
    got = [{name: as_an_engine_would(e) for name, e in row.items()} for row in exact]
    assert not differences(got, exact)


@given(data(max_size=12), rollings(SELECTIONS + ALGEBRAIC + HOLISTIC))
def test_any_other_answer_is_found(sample, spec):
    for row in answers(spec, sample.rows):
        for exact in row.values():
            assert not any(matches(wrong, exact) for wrong in others_than(exact))


def others_than(exact: Exact) -> list:
    """Answers that are wrong, and would be missed by a careless comparison."""
    value = exact.value
    right = as_an_engine_would(exact)
    if value is None:
        return [0, 0.0, "", False, []]
    if value == []:
        return [None, (), [None], [[]]]
    if isinstance(value, list):
        shorter = [right[:-1]] if right else []
        return [None, tuple(right), [*right, None], [None, *right[1:]], *shorter]
    if isinstance(value, (bool, str)):
        return [None, not value, str(value) + " "]
    if isinstance(value, int):
        return [None, value + 1, bool(value), str(value)]
    if not math.isfinite(right):
        return [None, str(right), 0.0, -right if right == right else math.inf]
    off = nearest_double(value + 3 * exact.tolerance)
    return [None, str(right), [right], math.nan, math.inf, math.nextafter(off, math.inf)]


OPTIONS = {
    "var": ("ddof",), "std": ("ddof",), "cov": ("ddof", "other"), "first": ("other",),
    "last": ("other",), "arg_min": ("other",), "arg_max": ("other",), "skew": ("bias",),
    "kurt": ("bias",), "quantile": ("q", "interp"), "top_k": ("k",), "most_common": ("k",),
    "approx_quantile": ("q",), "approx_top_k": ("k",), "approx_count_distinct": (),
}  # fmt: skip


@pytest.mark.parametrize("fn", OPTIONS)
def test_every_option_is_drawn(fn):
    drawn = []

    @settings(max_examples=60, database=None, derandomize=True)
    @given(aggregate(fn))
    def draw(a):
        drawn.append(a)

    draw()
    for field in (*OPTIONS[fn], "min_count", "nan", "col"):
        assert len({getattr(a, field) for a in drawn}) > 1, field
    greatest = {a for a in drawn if a.nan == "greatest"}
    assert all(a.other or fn not in ("first", "last") for a in greatest)
    assert not greatest or fn in (*SELECTIONS, *RANKS, *NUMERIC)
