"""Powers, pairs, products and runs: the same answers however the rows come, stop and combine."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._algebra import (
    PairsKernel,
    PowersKernel,
    ProductsKernel,
    RunsKernel,
    WeightedMeanKernel,
)
from mta._bounds import GivenBounds
from mta._kernel import KEPT, Counter, slide
from test_algebra import FACTORS, PAIRS, POWERS, VALUES, answers, intervals, nulls

# How each is made, and how many answers it gives.
KERNELS = {
    "powers": (lambda c: PowersKernel(c, "float", POWERS), 4),
    "pairs": (lambda c: PairsKernel(c, ["float", "float"], PAIRS), 4),
    "weighted": (lambda c: WeightedMeanKernel(c, ["float"] * 2, [("weighted_mean", 0)]), 1),
    "products": (
        lambda c: ProductsKernel(c, "float", [("product", 0), ("geometric_mean", 0)]),
        2,
    ),
    "runs": (lambda c: RunsKernel(c, "float"), 1),
}
ALL = VALUES | FACTORS
SEEDS = st.integers(0, 2**32)


def bits(arrays) -> list[list[int]]:
    """Every bit, but all NaN are one (which one it is, the processor may choose)."""
    return [np.where(array != array, np.nan, array).view(np.int64).tolist() for array in arrays]


@pytest.mark.parametrize("name", KERNELS)
@given(SEEDS, st.integers(1, 200), st.sampled_from(sorted(ALL)), st.booleans())
def test_pieces_and_stops_change_no_bit(name, seed, rows, values, stops):
    """Rows attached in pieces, those before the window forgotten; a fresh kernel at every stop."""
    make, outputs = KERNELS[name]
    rng = np.random.default_rng(seed)
    columns = [ALL[values](rng, rows), rng.normal(size=rows)]
    valid, (lo, hi) = nulls(rng, columns), intervals(rng, rows)
    whole = answers(make, columns, valid, lo, hi, outputs)
    kernel, got, first = make(counter := Counter([])), [], 0
    cuts = np.unique(np.r_[0, rng.integers(0, len(lo) + 1, 3), len(lo)])
    for a, b in pairwise(cuts):
        if stops:
            fresh = make(counter := Counter([]))
            fresh.resume(kernel.marks())
            kernel, first = fresh, lo[a]
        end = hi[b - 1]
        piece = None if valid is None else valid[first:end]
        counter.attach(piece, first)
        kernel.attach([column[first:end] for column in columns], piece, first)
        out = [np.empty(b - a) for _ in range(outputs)]
        kernel.answer_to(out)
        assert slide(GivenBounds(lo[a:b], hi[a:b]), [counter], [kernel]) is None
        got.append(out)
        first = max(0, lo[b - 1] - KEPT)
    together = [np.concatenate(parts) for parts in zip(*got, strict=True)]
    assert bits(together) == bits(whole)


@pytest.mark.parametrize("name", KERNELS)
@given(SEEDS, st.integers(1, 60))
def test_windows_answer_as_each_would_alone(name, seed, rows):
    """Runs of equal values between spikes: halves that say nothing about the scale of a column."""
    make, outputs = KERNELS[name]
    rng = np.random.default_rng(seed)
    choices, shares = [3.0, 3.25, 1e200, -1e-200, np.nan], [0.75, 0.12, 0.08, 0.03, 0.02]
    columns = [rng.choice(choices, rows, p=shares) for _ in range(2)]
    if rng.random() < 0.7:
        columns[rng.integers(2)] = rng.normal(size=rows)
    lo, hi = intervals(rng, rows)
    slid = answers(make, columns, None, lo, hi, outputs)
    alone = [answers(make, columns, None, lo[i:][:1], hi[i:][:1], outputs) for i in range(rows)]
    for out, ones in zip(slid, zip(*alone, strict=True), strict=True):
        one = np.concatenate(ones)
        np.testing.assert_allclose(out, one, rtol=2.0**-50, atol=2.0**-60)


@pytest.mark.parametrize("name", ["powers", "pairs"])
def test_the_split_is_all_that_has_to_be_kept(name):
    """Answers that are 0 but for the last digits, which show where the split was."""
    make, outputs = KERNELS[name]
    half = np.random.default_rng(20).normal(size=11)
    x = np.tile(np.r_[half, -half], 5)
    columns = [x, x * x]
    lo, hi = windows_of(len(x), 22)
    whole = answers(make, columns, None, lo, hi, outputs)
    assert 0 < np.abs(whole[0][22:]).max() < 1e-25
    assert np.count_nonzero(whole[0][22:]) > 9
    shows = False
    for stop in range(22, len(x)):
        first, kernel = make(Counter([])), make(Counter([]))
        first.attach(columns, None, 0)
        first.answer_to([np.empty(stop) for _ in range(outputs)])
        slide(GivenBounds(lo[:stop], hi[:stop]), [Counter([])], [first])
        shows |= kernel.marks() != first.marks() and lo[stop] < first.marks()[0]
        kernel.resume(first.marks())
        inside = [column[lo[stop] :] for column in columns]
        kernel.attach(inside, None, int(lo[stop]))
        out = [np.empty(len(x) - stop) for _ in range(outputs)]
        kernel.answer_to(out)
        slide(GivenBounds(lo[stop:], hi[stop:]), [Counter([])], [kernel])
        assert bits(out) == bits([array[stop:] for array in whole])
    assert shows


def program(rng: np.random.Generator, rows: int) -> list[int]:
    """Rows 0..rows, combined in the order of a random binary tree."""
    if rows == 1:
        return [0]
    left = int(rng.integers(1, rows))
    right = [item + left if item >= 0 else item for item in program(rng, rows - left)]
    return [*program(rng, left), *right, -1]


def agree(a: float, b: float) -> bool:
    """Equal, but for what lies far below the rounding of an answer of the size of 1 or more."""
    return bool(a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 2.0**-75)


@pytest.mark.parametrize("name", KERNELS)
@given(SEEDS, st.integers(1, 40), st.sampled_from(sorted(ALL)))
def test_partials_combine_in_any_order(name, seed, rows, values):
    make, outputs = KERNELS[name]
    rng = np.random.default_rng(seed)
    columns = [ALL[values](rng, rows), rng.normal(size=rows)]
    valid = nulls(rng, columns)
    ends = np.array([0]), np.array([rows])
    slid = answers(make, columns, valid, *ends, outputs)
    kernel = make(Counter([]))
    kernel.attach(columns, valid, 0)
    for _ in range(3):
        merged = kernel.merged(program(rng, rows))
        for a, out in zip(merged.view(np.float64), slid, strict=True):
            if name == "runs":
                assert a.view(np.int64) == out.view(np.int64)[0]
            else:
                assert agree(a, out[0]), (a, out[0])


@given(SEEDS, st.integers(1, 30), st.sampled_from(["int", "uint"]))
def test_partials_of_integers_combine(seed, rows, source):
    rng = np.random.default_rng(seed)
    kind = np.int64 if source == "int" else np.uint64
    limits = np.iinfo(kind)
    x = rng.choice(np.array([limits.min, limits.max, limits.max - 1, 5], kind), rows)
    valid = nulls(rng, [x])
    for make, outputs in (
        (lambda c: PowersKernel(c, source, POWERS), 4),
        (lambda c: PairsKernel(c, [source] * 2, [("corr", 0), ("slope", 0)]), 2),
        (lambda c: RunsKernel(c, source), 1),
    ):
        kernel = make(Counter([]))
        kernel.attach([x, x], valid, 0)
        merged = kernel.merged(program(rng, rows))
        slid = answers(make, [x, x], valid, np.array([0]), np.array([rows]), outputs)
        assert all(agree(a, out[0]) for a, out in zip(merged, slid, strict=True))


# ----------------------------------------------------------------- windows longer than a page


def sums_before(x: np.ndarray) -> np.ndarray:
    """Sums of the rows before each one, in Python integers."""
    return np.concatenate([[0], np.cumsum(x.astype(object))])


def windows_of(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    hi = np.arange(1, rows + 1, dtype=np.int64)
    return np.maximum(hi - width, 0), hi


@pytest.mark.parametrize("width", [100, 1024, 1025, 3333, 10_000])
@pytest.mark.parametrize("source", ["float", "int"])
def test_long_windows(width, source):
    """Integers have exact sums: every window is checked, in rational arithmetic up to the end."""
    rng = np.random.default_rng(width)
    rows = 12_000
    x, y = rng.integers(-(2**30), 2**30, (2, rows)) + np.array([[2**50], [-5]])
    valid = (rng.random(rows) < 0.9).astype(np.uint8)
    x[valid == 0] = y[valid == 0] = 0
    lo, hi = windows_of(rows, width)
    columns = [c.astype(np.float64) if source == "float" else c for c in (x, y)]
    u, v = (np.where(valid, c.astype(object) - int(c[0]), 0) for c in (x, y))
    n = (s := sums_before(valid))[hi] - s[lo]
    s1, s2, s3, t1, t2, st = (
        (s := sums_before(c))[hi] - s[lo] for c in (u, u**2, u**3, v, v**2, u * v)
    )
    m2, l2, joint = n * s2 - s1 * s1, n * t2 - t1 * t1, n * st - s1 * t1
    m3 = n * n * s3 - 3 * n * s1 * s2 + 2 * s1**3
    (skews,) = answers(
        lambda c: PowersKernel(c, source, [("skew", True)]), columns, valid, lo, hi, 1
    )
    corrs, covs = answers(
        lambda c: PairsKernel(c, [source] * 2, [("corr", 0), ("cov", 0)]), columns, valid, lo, hi, 2
    )
    for i in range(rows):
        assert covs[i] == (joint[i] / n[i] ** 2 if n[i] else math.nan) or not n[i]
        if m2[i] and l2[i]:
            assert same_root(corrs[i], joint[i], m2[i] * l2[i])
            assert same_root(skews[i], m3[i], m2[i] ** 3)


def same_root(got: float, above: int, below: int) -> bool:
    """Whether it is above / sqrt(below) to 2^-52."""
    scaled = math.isqrt(above * above * 2**400 // below)
    want = math.copysign(scaled / 2**200, above)
    return math.isclose(got, want, rel_tol=2.0**-52, abs_tol=1e-18)


def test_long_products_and_runs():
    rng = np.random.default_rng(5)
    rows, width = 9000, 4000
    x = np.exp(rng.normal(size=rows))
    lo, hi = windows_of(rows, width)
    logs = sums_before(np.log(x.astype(np.longdouble)))
    want = np.exp(((logs[hi] - logs[lo]) / (hi - lo)).astype(np.float64))
    (got,) = answers(
        lambda c: ProductsKernel(c, "float", [("geometric_mean", 0)]), [x], None, lo, hi, 1
    )
    np.testing.assert_allclose(got, want, rtol=1e-14)
    x = np.sort(x)
    x[::500] = 0.0
    (runs,) = answers(lambda c: RunsKernel(c, "float"), [x], None, lo, hi, 1, np.int64)
    assert runs.tolist() == [min(i + 1, 500) for i in range(rows)]


def test_a_repeated_factor_is_its_own_geometric_mean():
    for value in (3.0, 0.1, 1e300, 7e-310):
        x = np.full(3000, value)
        lo, hi = windows_of(3000, 2000)
        (got,) = answers(
            lambda c: ProductsKernel(c, "float", [("geometric_mean", 0)]), [x], None, lo, hi, 1
        )
        np.testing.assert_allclose(got, value, rtol=2.0**-52, atol=5e-324)
