"""The bound that docs/numerics.md proves for compensated sums, held to fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg

UNIT = Fraction(1, 2**53)
LEAST = Fraction(5e-324)


def cancelling(rng, n):
    """Everything goes but a little rest."""
    half = rng.normal(size=n // 2) * 10.0 ** rng.integers(-12, 12, size=n // 2)
    values = np.concatenate([half, -half, rng.normal(size=n - 2 * (n // 2)) * 1e-15])
    return rng.permutation(values)


def in_layers(rng, n):
    """Every few additions lose a bit that the compensation has to carry on."""
    return (1 + rng.random(n)) * 2.0 ** (-25 * (np.arange(n) % 5)) * rng.choice([1, -1], n)


HARD = {
    "cancelling": cancelling,
    "layers": in_layers,
    "spikes": lambda rng, n: np.where(
        rng.random(n) < 0.1, rng.choice([1e16, -1e16], n), rng.normal(size=n)
    ),
    "heavy": lambda rng, n: rng.choice([-1, 1], n) * rng.lognormal(0, 6, n),
    "alternating": lambda rng, n: rng.lognormal(0, 1, n) * (-1.0) ** np.arange(n),
    "ties": lambda rng, n: rng.choice([1.0, 2.0**-53, -(2.0**-53), -1.0, 3 * 2.0**-54], n),
    "one sign": lambda rng, n: rng.random(n),
}


def rest(inside: list[Fraction]) -> Fraction:
    """How far the 106 bits of a window's sum may be off: depth^2 + 1 times 2^-106 of the sizes."""
    depth = 2 * (len(inside).bit_length() - 1) + 1
    return (depth**2 + 1) * UNIT**2 * sum(map(abs, inside))


def sum_bound(inside: list[Fraction]) -> Fraction:
    return UNIT * abs(sum(inside)) + rest(inside)


def mean_bound(inside: list[Fraction]) -> Fraction:
    mean = abs(sum(inside)) / len(inside)
    return (UNIT + UNIT**2 * 2**6) * mean + 2 * rest(inside) / len(inside) + LEAST


def check(x, lo, sums, means):
    """The answers over the rows from lo[i] to i."""
    for i, (total, mean) in enumerate(zip(sums, means, strict=True)):
        inside = list(map(Fraction, x[lo[i] : i + 1].tolist()))
        assert abs(Fraction(total) - sum(inside)) <= sum_bound(inside), i
        assert abs(Fraction(mean) - sum(inside) / len(inside)) <= mean_bound(inside), i


@pytest.mark.parametrize("values", HARD)
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), n=st.integers(2, 150), width=st.integers(1, 150))
def test_rolling_sums_keep_the_bound(values, seed, n, width):
    x = HARD[values](np.random.default_rng(seed), n)
    got = mta.rolling(width).agg(s=agg.sum("x"), m=agg.mean("x"))({"x": x})
    check(x, [max(0, i + 1 - width) for i in range(n)], got["s"], got["m"])


@given(st.sampled_from([*HARD]), st.integers(0, 2**32), st.integers(2, 120), st.integers(1, 40))
def test_sums_over_times_keep_the_bound(values, seed, n, span):
    rng = np.random.default_rng(seed)
    x, ts = HARD[values](rng, n), np.cumsum(rng.integers(0, 4, n))
    spec = mta.rolling(f"{span}i", on="t", ties="arrival")
    got = spec.agg(s=agg.sum("x"), m=agg.mean("x"))({"x": x, "t": ts})
    check(x, np.searchsorted(ts, ts - span, side="right"), got["s"], got["m"])


@given(st.sampled_from([*HARD]), st.integers(0, 2**32), st.integers(2, 80), st.integers(1, 80))
def test_pushed_sums_keep_the_bound(values, seed, n, width):
    x = HARD[values](np.random.default_rng(seed), n)
    window = mta.Window({"s": agg.sum("x"), "m": agg.mean("x")}, mta.last(width))
    got = [window.push(x=value) for value in x.tolist()]
    lo = [max(0, i + 1 - width) for i in range(n)]
    check(x, lo, [a.s for a in got], [a.m for a in got])


@pytest.mark.parametrize("values", HARD)
def test_a_million_rows_keep_the_bound(values):
    n, rng = 2**20 - 3, np.random.default_rng(3)
    x = HARD[values](rng, n)
    got = mta.rolling(None).agg(s=agg.sum("x"))({"x": x})["s"]
    for i in (n - 1, 2**19 - 1, 2**16 + 12):
        # As integers, of which no bit is lost: a million fractions take their time.
        scale, parts = 2**300, [int(math.ldexp(v, 300)) for v in x[: i + 1].tolist()]
        total, sizes = Fraction(sum(parts), scale), Fraction(sum(map(abs, parts)), scale)
        depth = 2 * ((i + 1).bit_length() - 1) + 1
        bound = UNIT * abs(total) + (depth**2 + 1) * UNIT**2 * sizes
        assert abs(Fraction(float(got[i])) - total) <= bound


@pytest.mark.parametrize("values", HARD)
def test_plain_sums_break_it(values):
    """So the data would show a kernel that loses its compensation."""
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(50):
        x = HARD[values](rng, 100)
        inside = list(map(Fraction, x.tolist()))
        broken += abs(Fraction(float(np.cumsum(x)[-1])) - sum(inside)) > sum_bound(inside)
    assert broken > 10
