"""Powers, pairs, products and runs against rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import exact_algebra as exact
from mta._algebra import (
    PairsKernel,
    PowersKernel,
    ProductsKernel,
    RunsKernel,
    WeightedMeanKernel,
)
from mta._bounds import GivenBounds
from mta._kernel import Counter, slide

POWERS = [("skew", False), ("skew", True), ("kurt", False), ("kurt", True)]
PAIRS = [("cov", 1), ("cov", 0), ("corr", 0), ("slope", 0)]

VALUES = {
    "even": lambda rng, n: rng.normal(size=n),
    "offset": lambda rng, n: 1e9 + rng.normal(size=n),
    "far": lambda rng, n: 2.0**52 + rng.integers(0, 3, n),
    "lognormal": lambda rng, n: rng.choice([-1, 1], n) * np.exp(6 * rng.normal(size=n)),
    "spikes": lambda rng, n: np.where(
        rng.random(n) < 0.06, rng.choice([1e16, 1e90, -1e200], n), rng.normal(size=n)
    ),
    "ties": lambda rng, n: rng.integers(0, 3, n).astype(float),
    "constant": lambda rng, n: np.full(n, 0.1) + (rng.random(n) < 0.05),
    "tiny": lambda rng, n: rng.integers(-9, 9, n) * 5e-324,
    "huge": lambda rng, n: 1.7e308 * rng.uniform(-1, 1, n),
    "wild": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, size=n),
}


def intervals(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows of one length; of any, with jumps; growing ones; none falls back."""
    kind, width = rng.integers(3), int(rng.integers(1, rows + 1))
    hi = np.arange(1, rows + 1)
    if kind == 0:
        lo = np.maximum(hi - width, 0)
    elif kind == 1:
        lo = np.minimum(np.sort(rng.integers(0, rows + 1, rows)), hi)
    else:
        hi = np.sort(rng.integers(0, rows + 1, rows))
        lo = np.minimum(np.sort(rng.integers(0, rows + 1, rows)) * (rng.random() < 0.7), hi)
    return lo.astype(np.int64), hi.astype(np.int64)


def answers(make, columns, valid, lo, hi, outputs, dtype=np.float64):
    kernel = make(counter := Counter([]))
    counter.attach(valid, 0)
    kernel.attach(columns, valid, 0)
    out = [np.empty(len(lo), dtype) for _ in range(outputs)]
    kernel.answer_to(out)
    assert slide(GivenBounds(lo, hi), [counter], [kernel]) is None
    return out


def inside(columns, valid, a: int, b: int) -> list[list[Fraction]]:
    rows = [i for i in range(a, b) if valid is None or valid[i]]
    return [[Fraction(column[i].item()) for i in rows] for column in columns]


def some(lo, hi):
    """Up to a dozen of the windows, with their numbers: rational arithmetic takes its time."""
    for i in sorted(set(np.linspace(0, len(lo) - 1, 12, dtype=int))):
        yield i, lo[i], hi[i]


def nulls(rng: np.random.Generator, columns) -> np.ndarray | None:
    if rng.random() < 0.5:
        return None
    valid = (rng.random(len(columns[0])) < 0.7).astype(np.uint8)
    for column in columns:
        column[valid == 0] = 0
    return valid


def close(got: float, true: Fraction | None, slack: Fraction | float = 0) -> bool:
    """Whether it is the nearest double, but for `slack` before it was rounded."""
    want = exact.rounded(true)
    if got == want or (math.isnan(got) and math.isnan(want)):
        return True
    if not math.isfinite(got) or true is None:
        return False
    unit = Fraction(math.ulp(want)) if math.isfinite(want) else Fraction(0)
    return abs(Fraction(got) - true) <= unit / 2 + abs(true) / 2**85 + Fraction(slack)


SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.integers(1, 70), st.sampled_from(sorted(VALUES)))
def test_skew_and_kurt(seed, rows, values):
    rng = np.random.default_rng(seed)
    x = VALUES[values](rng, rows)
    valid, (lo, hi) = nulls(rng, [x]), intervals(rng, rows)
    got = answers(lambda c: PowersKernel(c, "float", POWERS), [x], valid, lo, hi, 4)
    for i, a, b in some(lo, hi):
        (numbers,) = inside([x], valid, a, b)
        for (name, bias), out in zip(POWERS, got, strict=True):
            true = getattr(exact, name)(numbers, bias)
            assert close(out[i], true, 2.0**-80), (name, bias, numbers, out[i])


@given(SEEDS, st.integers(1, 70), st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(VALUES)))
def test_cov_corr_and_slope(seed, rows, first, second):
    rng = np.random.default_rng(seed)
    x, y = VALUES[first](rng, rows), VALUES[second](rng, rows)
    if rng.random() < 0.3:
        y = rng.choice([-1, 1]) * x + rng.choice([0.0, 1e-8]) * rng.normal(size=rows)
    valid, (lo, hi) = nulls(rng, [x, y]), intervals(rng, rows)
    got = answers(lambda c: PairsKernel(c, ["float"] * 2, PAIRS), [x, y], valid, lo, hi, 4)
    for i, a, b in some(lo, hi):
        u, v = inside([x, y], valid, a, b)
        spreads = [exact.root(exact.joint(z, z)) if z else Fraction(0) for z in (u, v)]
        scale = {
            "cov": spreads[0] * spreads[1],
            "corr": Fraction(1),
            "slope": spreads[0] / spreads[1] if spreads[1] else 0,
        }
        for (name, ddof), out in zip(PAIRS, got, strict=True):
            true = getattr(exact, name)(u, v, ddof)
            assert close(out[i], true, scale[name] / 2**80), (name, ddof, u, v, out[i])
            assert name != "corr" or not abs(out[i]) > 1


WEIGHTS = VALUES | {
    "zeros": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "cancelling": lambda rng, n: rng.choice([-2.0, -1.0, 1.0, 2.0, 0.5], n),
    "positive": lambda rng, n: rng.random(n),
}


@given(SEEDS, st.integers(1, 70), st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(WEIGHTS)))
def test_weighted_mean(seed, rows, values, weights):
    rng = np.random.default_rng(seed)
    x, w = VALUES[values](rng, rows), WEIGHTS[weights](rng, rows)
    valid, (lo, hi) = nulls(rng, [x, w]), intervals(rng, rows)
    wanted = [("weighted_mean", 0)]
    (got,) = answers(
        lambda c: WeightedMeanKernel(c, ["float"] * 2, wanted), [x, w], valid, lo, hi, 1
    )
    for i, a, b in some(lo, hi):
        u, v = inside([x, w], valid, a, b)
        true, size = exact.weighted_mean(u, v), sum(map(abs, v))
        # What rounding of either sum can do, at 2^-95 of the sum of the magnitudes.
        sums = [sum(abs(p * q) for p, q in zip(u, v, strict=True)), size]
        near = Fraction(1, 2**95) * size
        if true is None or abs(sum(v)) <= near:
            assert math.isnan(got[i]) or sums[1] > 2**52 * min(map(abs, v)), (u, v)
            continue
        slack = (sums[0] + abs(true) * size) / abs(sum(v)) / 2**95
        slack += max(map(abs, u)) * max(map(abs, v)) / abs(sum(v)) / 2**900
        assert close(got[i], true, slack), (u, v, got[i])


def as_rationals(x) -> list[Fraction]:
    return [Fraction(v) for v in x if math.isfinite(v)]


def product_by_definition(x: list[float]) -> float:
    """Infinities and NaN as doubles have them; else exact."""
    if not x or any(map(math.isnan, x)) or (0.0 in x and any(map(math.isinf, x))):
        return math.nan
    sign = math.prod(math.copysign(1.0, v) for v in x)
    if any(map(math.isinf, x)):
        return math.copysign(math.inf, sign)
    return math.copysign(exact.rounded(exact.product(as_rationals(x))), sign)


def is_geometric_mean(got: float, x: list[float]) -> bool:
    if not x or any(not v >= 0 for v in x) or (0.0 in x and math.inf in x):
        return math.isnan(got)
    if 0.0 in x or math.inf in x:
        return got == (0.0 if 0.0 in x else math.inf)
    true = exact.product(as_rationals(x))
    low, high = (Fraction(got) + s * 2 * Fraction(math.ulp(got)) for s in (-1, 1))
    return low ** len(x) <= true <= high ** len(x)


FACTORS = VALUES | {
    "broken": lambda rng, n: rng.choice([1.5, -2.0, 3.0, 0.0, np.nan, np.inf, -np.inf], n),
    "broken now and then": lambda rng, n: np.where(
        rng.random(n) < 0.05, rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf], n), rng.random(n)
    ),
    "positive": lambda rng, n: np.exp(100 * rng.normal(size=n)),
}


@given(SEEDS, st.integers(1, 70), st.sampled_from(sorted(FACTORS)))
def test_product_and_geometric_mean(seed, rows, values):
    rng = np.random.default_rng(seed)
    x = FACTORS[values](rng, rows)
    valid, (lo, hi) = nulls(rng, [x]), intervals(rng, rows)
    wanted = [("product", 0), ("geometric_mean", 0)]
    got = answers(lambda c: ProductsKernel(c, "float", wanted), [x], valid, lo, hi, 2)
    for i, a, b in some(lo, hi):
        numbers = [x[k].item() for k in range(a, b) if valid is None or valid[k]]
        want = product_by_definition(numbers)
        np.testing.assert_equal(got[0][i], want, str(numbers))
        assert is_geometric_mean(got[1][i], numbers), (numbers, got[1][i])


@given(SEEDS, st.integers(1, 70), st.sampled_from(["float", "int", "uint"]))
def test_longest_run(seed, rows, source):
    rng = np.random.default_rng(seed)
    if source == "float":
        x = rng.choice([1.0, 2.0, 3.0, 4.0, -0.0, 0.0, np.inf, -np.inf, np.nan], rows)
    elif source == "int":
        x = rng.integers(-3, 3, rows) + rng.choice([0, 2**62, -(2**63) + 3], rows)
    else:
        x = rng.integers(0, 5, rows, np.uint64) + rng.choice(
            np.array([0, 2**63, 2**64 - 9], np.uint64), rows
        )
    valid, (lo, hi) = nulls(rng, [x]), intervals(rng, rows)
    (got,) = answers(lambda c: RunsKernel(c, source), [x], valid, lo, hi, 1, np.int64)
    for i, a, b in some(lo, hi):
        numbers = [x[k].item() for k in range(a, b) if valid is None or valid[k]]
        assert got[i] == exact.longest_run(numbers), numbers


# ------------------------------------------------------------------------------------- integers

WIDE = {
    "int": lambda rng, n: rng.choice([-(2**63), 2**63 - 1, 2**62 + 1, 7, 2**53 + 1], n),
    "uint": lambda rng, n: rng.choice(
        np.array([0, 2**64 - 1, 2**63, 2**63 + 1, 2**53 + 1, 9], np.uint64), n
    ),
    "offset int": lambda rng, n: 2**62 + rng.integers(-4, 4, n),
    "offset uint": lambda rng, n: np.uint64(2**63) + rng.integers(0, 9, n, np.uint64),
}


@given(SEEDS, st.integers(1, 40), st.sampled_from(sorted(WIDE)))
def test_integers_beyond_the_doubles(seed, rows, values):
    rng = np.random.default_rng(seed)
    source = values.split()[-1]
    x, y = WIDE[values](rng, rows), VALUES["even"](rng, rows)
    valid, (lo, hi) = nulls(rng, [x, y]), intervals(rng, rows)
    powers = answers(lambda c: PowersKernel(c, source, POWERS), [x], valid, lo, hi, 4)
    pairs = answers(lambda c: PairsKernel(c, [source, "float"], PAIRS), [x, y], valid, lo, hi, 4)
    mean = answers(
        lambda c: WeightedMeanKernel(c, [source, source], [("weighted_mean", 0)]),
        [x, x], valid, lo, hi, 1,
    )  # fmt: skip
    for i, a, b in some(lo, hi):
        u, v = inside([x, y], valid, a, b)
        for (name, bias), out in zip(POWERS, powers, strict=True):
            assert close(out[i], getattr(exact, name)(u, bias), 2.0**-80)
        for (name, ddof), out in zip(PAIRS, pairs, strict=True):
            size = max(map(abs, u), default=0) * 2**10
            assert close(out[i], getattr(exact, name)(u, v, ddof), size / Fraction(2**90))
        total, true = sum(map(abs, u)), exact.weighted_mean(u, u)
        if true is not None and abs(sum(u)) > total / 2**80:
            assert close(mean[0][i], true, abs(true) * total / abs(sum(u)) / 2**90)


@given(SEEDS, st.integers(1, 60), st.sampled_from(["int", "uint"]))
@example(0, 1, "int")
def test_products_of_integers_are_exact_or_refused(seed, rows, source):
    rng = np.random.default_rng(seed)
    choices = [1, 2, 3, 7, 2**31 - 1, 2**32, 2**61, 0] + (
        [-1, -2, -(2**63), 2**63 - 1] if source == "int" else [2**63, 2**64 - 1]
    )
    odds = rng.dirichlet(np.full(len(choices), 0.3))
    x = rng.choice(np.array(choices, np.int64 if source == "int" else np.uint64), rows, p=odds)
    valid, (lo, hi) = nulls(rng, [x]), intervals(rng, rows)
    limits = np.iinfo(x.dtype)
    out = np.full(rows, 77, x.dtype)
    kernel = ProductsKernel(counter := Counter([]), source, [("product", 2)])
    counter.attach(valid, 0)
    kernel.attach([x], valid, 0)
    kernel.answer_to([out])
    failed = slide(GivenBounds(lo, hi), [counter], [kernel])
    for i, (a, b) in enumerate(zip(lo, hi, strict=True)):
        (numbers,) = inside([x], valid, a, b)
        true = exact.product(numbers)
        if true is not None and not limits.min <= true <= limits.max and len(numbers) >= 2:
            assert failed == (kernel, i)
            return
        if true is not None and limits.min <= true <= limits.max:
            assert out[i] == true
    assert failed is None


# ------------------------------------------------------------------------------ one by one


def whole(make, *columns) -> list[float]:
    """The answers of all rows at once."""
    arrays = [np.array(column, np.float64) for column in columns]
    ends = np.array([0], np.int64), np.array([len(arrays[0])], np.int64)
    return [float(out[0]) for out in answers(make, arrays, None, *ends, 4)]


def powers_of(*x: float) -> list[float]:
    return whole(lambda c: PowersKernel(c, "float", POWERS), x)


def test_constants_have_no_shape():
    for value in (0.1, 0.0, 1e300, 5e-324):
        assert np.isnan(powers_of(*[value] * 9)).all()
    assert powers_of(-1.0, 0.0, 1.0)[:2] == [0.0, 0.0], "of symmetric numbers exactly 0"
    assert powers_of(-1e-320, 0.0, 1e-320)[:2] == [0.0, 0.0]
    assert powers_of(-1e308, 0.0, 1e308)[:2] == [0.0, 0.0]


def test_scale_and_offset_change_nothing():
    x = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
    plain = powers_of(*x)
    for scale in (2.0**-1060, 2.0**-300, 2.0**300, 2.0**1020):
        assert powers_of(*(x * scale)) == plain
    assert powers_of(*(x + 1e15)) == plain


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 5, 9, 2000])
def test_what_is_not_finite_leaves_no_trace(bad, at):
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 3000))
    hi = np.arange(1, 3001, dtype=np.int64)
    for width in (6, 1500):
        lo = np.maximum(hi - width, 0)
        for make, outputs in (
            (lambda c: PowersKernel(c, "float", POWERS), 4),
            (lambda c: PairsKernel(c, ["float"] * 2, PAIRS), 4),
            (lambda c: WeightedMeanKernel(c, ["float"] * 2, [("weighted_mean", 0)]), 1),
            (lambda c: ProductsKernel(c, "float", [("product", 0)]), 1),
        ):
            broken = x.copy()
            broken[at] = bad
            clean = answers(make, [x, y], None, lo, hi, outputs)
            got = answers(make, [broken, y], None, lo, hi, outputs)
            there = (lo <= at) & (at < hi)
            for out, want in zip(got, clean, strict=True):
                np.testing.assert_array_equal(out[~there], want[~there])
                assert not np.isfinite(out[there]).any()
                assert outputs == 1 or np.isnan(out[there]).all()


@pytest.mark.parametrize(("units", "weights", "want"), [
    ((1, 2), (1, 1), 2), ((1, 2), (1, 1 + 2.0**-52), 2), ((1, 2), (1 + 2.0**-52, 1), 1),
    ((2, 3), (1, 1), 2), ((2, 3), (1, 1 + 2.0**-52), 3), ((2, 3), (1 + 2.0**-52, 1), 2),
])  # fmt: skip
def test_the_smallest_numbers_are_rounded_once(units, weights, want):
    """Halves of the least unit go to the even number, unless a weight tips the balance."""
    mean = answers(
        lambda c: WeightedMeanKernel(c, ["float"] * 2, [("weighted_mean", 0)]),
        [5e-324 * np.array(units), np.array(weights, np.float64)],
        None, np.array([0]), np.array([2]), 1,
    )  # fmt: skip
    assert mean[0][0] == want * 5e-324


def test_perfect_correlation_is_one():
    rng = np.random.default_rng(3)
    x = rng.normal(size=200)
    for y, sign in ((x, 1.0), (-x, -1.0), (4 * x, 1.0)):
        assert whole(lambda c: PairsKernel(c, ["float"] * 2, PAIRS), x, y)[2] == sign
    slope = whole(lambda c: PairsKernel(c, ["float"] * 2, PAIRS), 4 * x, x)[3]
    assert slope == 4.0


@pytest.mark.parametrize("make", [
    lambda: PowersKernel(Counter([]), "text", []),
    lambda: PowersKernel(Counter([]), "float", [("var", 1)]),
    lambda: PairsKernel(Counter([]), ["float"], []),
    lambda: PairsKernel(Counter([]), ["float", "text"], []),
    lambda: PairsKernel(Counter([]), ["float", "float"], [("weighted_mean", 0)]),
    lambda: ProductsKernel(Counter([]), "float", [("sum", 0)]),
    lambda: RunsKernel(Counter([]), "text"),
])  # fmt: skip
def test_what_no_kernel_knows_is_refused(make):
    with pytest.raises(ValueError, match=r"text|is none of|two columns"):
        make()
