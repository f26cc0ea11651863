"""Kernels for exact sums, fast sums and sums of integers that leave 64 bits, against fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
import sliding
from mta import agg
from mta._bounds import GivenBounds
from mta._fastsums import FastSumKernel
from mta._kernel import Counter, slide
from mta._sums import ExactSumKernel, ExactTotal
from mta._widesums import WideSumKernel
from oracle import nearest_double

BOTH = [("sum", 0), ("mean", 0)]
SEEDS = st.integers(0, 2**32)
SHAPES = st.sampled_from(sliding.SHAPES)
PIECES = st.sampled_from([1, 2, 9, 0])
TINY = 5e-324
HUGE = 1.7e308

FINITE = {
    "even": lambda rng, n: rng.normal(size=n),
    "grid": lambda rng, n: rng.random(n),
    "prices": lambda rng, n: np.round(rng.normal(100, 1, size=n), 2),
    "wild": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, size=n),
    "heavy": lambda rng, n: rng.choice([-1, 1], n) * rng.lognormal(0, 6, n),
    "cancelling": lambda rng, n: rng.choice([1e16, -1e16, 1.0, 1e-20, 3.3], size=n),
    "alternating": lambda rng, n: rng.lognormal(0, 6, n) * (-1.0) ** np.arange(n),
    "spikes": lambda rng, n: np.where(rng.random(n) < 0.03, -1e200, rng.normal(size=n)),
    "zeros": lambda rng, n: rng.choice([0.0, -0.0, 1.0, -1.0], size=n),
}
EXTREME = {
    "any double": lambda rng, n: any_double(rng, n),
    "all of them": lambda rng, n: np.where(
        rng.random(n) < 0.1, any_double(rng, n), rng.normal(size=n)
    ),
    "subnormal": lambda rng, n: rng.integers(-9, 9, size=n) * TINY,
    "huge": lambda rng, n: rng.choice([HUGE, -HUGE, 2.0**1022, -1e308, 1.0], size=n),
    "growing": lambda rng, n: rng.random(n) * 2.0 ** np.minimum(np.arange(n) // 2, 1020),
    "odd": lambda rng, n: rng.choice([1.0, 2.5, math.nan, math.inf, -math.inf], n, p=ODDS),
}
ODDS = [0.5, 0.42, 0.03, 0.03, 0.02]


def any_double(rng, n):
    """Any bits at all, but not so many NaN and infinities that nothing else shows."""
    values = rng.integers(-(2**63), 2**63 - 1, size=n).view(np.float64)
    return np.where(np.isfinite(values), values, HUGE)


def exact_sum(values: list[float]) -> float:
    """The sum, rounded once; a zero is 0.0."""
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        return math.nan
    infinite = [v for v in values if math.isinf(v)]
    return infinite[0] if infinite else nearest_double(sum(map(Fraction, values), Fraction(0)))


def exact_mean(values: list[float]) -> float:
    total = exact_sum(values)
    if not values or any(not math.isfinite(v) for v in values):
        return math.nan if not values else total
    return nearest_double(sum(map(Fraction, values), Fraction(0)) / len(values))


def same(got: float, wanted: float) -> bool:
    """One double, to its sign; all NaN are one."""
    return (math.isnan(got) and math.isnan(wanted)) or got.hex() == wanted.hex()


def check_exact(x, lo, hi, answers, rows=None):
    """The answers (sums, means) of these windows, or some of them, are the exact ones, rounded."""
    for i in range(len(lo)) if rows is None else rows:
        inside = x[lo[i] : hi[i]].tolist()
        assert same(answers[0][i], exact_sum(inside)), (i, lo[i], hi[i], inside[:5])
        assert same(answers[1][i], exact_mean(inside)), (i, lo[i], hi[i], inside[:5])


# ---- exact -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [FINITE, EXTREME], ids=["finite", "extreme"])
@given(data=st.data(), seed=SEEDS, n=st.integers(1, 70), shape=SHAPES, pieces=PIECES)
def test_exact_sums_and_means_are_rounded_once(kinds, data, seed, n, shape, pieces):
    rng = np.random.default_rng(seed)
    x = kinds[data.draw(st.sampled_from([*kinds]))](rng, n)
    lo, hi = sliding.windows(rng, n, shape)
    stops = sliding.stops(rng, len(lo), pieces)
    kernel = ExactSumKernel(sliding.nobody(), BOTH)
    got = sliding.answer(kernel, [x], None, lo, hi, ["f8", "f8"], stops)
    check_exact(x, lo, hi, got)
    alone = ExactSumKernel(sliding.nobody(), BOTH[:1])
    assert all(map(same, sliding.answer(alone, [x], None, lo, hi, ["f8"])[0], got[0]))


@given(st.lists(st.floats(), min_size=1, max_size=12), st.integers(1, 6))
def test_exact_sums_of_what_hypothesis_finds(values, width):
    x, hi = np.array(values), np.arange(1, len(values) + 1)
    lo = np.maximum(hi - width, 0)
    kernel = ExactSumKernel(sliding.nobody(), BOTH)
    check_exact(x, lo, hi, sliding.answer(kernel, [x], None, lo, hi, ["f8", "f8"]))


@pytest.mark.parametrize("values", [*FINITE, *EXTREME])
@pytest.mark.parametrize("shape", ["steady", "ragged", "growing"])
def test_exact_sums_over_many_rows(values, shape):
    """Long enough for grids to be chosen again, and for runs of every length."""
    n, rng = 40_000, np.random.default_rng(5)
    x = (FINITE | EXTREME)[values](rng, n)
    if values == "even":  # one regime after the other
        x *= np.repeat(10.0 ** np.array([0, 30, -60, 200]), n // 4)
    hi = np.arange(1, n + 1)
    lo = np.maximum(hi - 300, 0)
    if shape == "ragged":
        hi = np.minimum(np.cumsum(rng.integers(0, 3, n)), n)
        lo = np.minimum(np.maximum.accumulate(np.maximum(hi - rng.integers(0, 600, n), 0)), hi)
    elif shape == "growing":
        lo = np.zeros(n, np.int64)
    kernel = ExactSumKernel(sliding.nobody(), BOTH)
    got = sliding.answer(kernel, [x], None, lo, hi, ["f8", "f8"])
    last = 1500 if shape == "growing" else n
    check_exact(x, lo, hi, got, rng.integers(0, last, 25))


@given(seed=SEEDS, n=st.integers(2, 120), shape=SHAPES, values=st.sampled_from([*FINITE]))
def test_exact_sums_if_rows_go_as_soon_as_they_have_left(seed, n, shape, values):
    """Only what the next windows hold is there, not what they lose."""
    rng = np.random.default_rng(seed)
    x = FINITE[values](rng, n)
    lo, hi = sliding.windows(rng, n, shape)
    kernels = [
        (ExactSumKernel(sliding.nobody(), BOTH), x),
        (WideSumKernel(sliding.nobody(), "int", BOTH, "float"), x.view(np.int64)),
    ]
    for kernel, column in kernels:
        got = np.empty((2, len(lo)))
        for i in range(len(lo)):
            sliding.attach(kernel, [column], None, lo[i], hi[i])
            kernel.answer_to([got[0, i : i + 1], got[1, i : i + 1]])
            sliding.slide_once(kernel, lo[i : i + 1], hi[i : i + 1])
        if column is x:
            check_exact(x, lo, hi, got.tolist())
        else:
            sums = [sum(column[a:b].tolist()) for a, b in zip(lo, hi, strict=True)]
            assert got[0].tolist() == list(map(float, sums))


@given(seed=SEEDS, n=st.integers(1, 60), shape=SHAPES)
def test_means_are_over_the_values_that_count(seed, n, shape):
    rng = np.random.default_rng(seed)
    valid = (rng.random(n) < 0.6).astype(np.uint8)
    x = np.where(valid, FINITE["wild"](rng, n), 0.0)
    lo, hi = sliding.windows(rng, n, shape)
    counter = Counter([])
    counter.attach(valid, 0)
    for make in (ExactSumKernel, FastSumKernel):
        got = np.empty(len(lo))
        counter = Counter([])
        counter.attach(valid, 0)
        kernel = make(counter, BOTH[1:])
        kernel.attach([x], valid, 0)
        kernel.answer_to([got])
        slide(GivenBounds(lo.copy(), hi.copy()), [counter], [kernel])
        for i in range(len(lo)):
            inside = x[sliding.inside(valid, lo[i], hi[i])].tolist()
            wanted, size = exact_mean(inside), max(map(abs, inside), default=0.0)
            assert same(got[i], wanted) or (
                make is FastSumKernel and math.isclose(got[i], wanted, abs_tol=1e-13 * size)
            )


@pytest.mark.parametrize("below", [2.0**-60, 2.0**-120, 2.0**-135, 2.0**-150, 2.0**-400])
def test_what_is_rounded_once_is_not_rounded_twice(below):
    """Sums and means that lie on, or just beside, the middle between two doubles."""
    for extra, wanted in ((0.0, 1.0), (below, 1.0 + 2.0**-52), (-below, 1.0)):
        for far in (0.0, 2.0**900):
            x = np.array([1.0, 2.0**-53, extra, far, -far])
            kernel = ExactSumKernel(sliding.nobody(), BOTH)
            lo, hi = np.array([0]), np.array([5])
            total, mean = sliding.answer(kernel, [x], None, lo, hi, ["f8", "f8"])
            assert total == [wanted]
            assert mean == [exact_mean(x.tolist())]


def test_a_sum_may_outgrow_its_grid():
    """The values take all bits of a grid, so that it has no room for the sum of many."""
    n, rng = 20_000, np.random.default_rng(9)
    x = 1.0 + rng.random(n)
    x[::2] *= 2.0**-50
    lo, hi = np.zeros(n, np.int64), np.arange(1, n + 1)
    got = sliding.answer(ExactSumKernel(sliding.nobody(), BOTH), [x], None, lo, hi, ["f8", "f8"])
    check_exact(x, lo, hi, got, [999, 4_000, 10_000, 19_999])


@given(st.sampled_from([*FINITE]), SEEDS, st.integers(1, 60), st.integers(1, 20))
def test_exact_sums_are_those_of_rolling_and_of_pushes(values, seed, n, width):
    x = FINITE[values](np.random.default_rng(seed), n)
    aggs = {"s": agg.sum("x", numerics="exact"), "m": agg.mean("x", numerics="exact")}
    batch = mta.rolling(width).agg(**aggs)({"x": x})
    hi = np.arange(1, n + 1)
    check_exact(x, np.maximum(hi - width, 0), hi, [batch["s"].tolist(), batch["m"].tolist()])
    window = mta.Window(aggs, mta.last(width))
    pushed = [window.push(x=value) for value in x.tolist()]
    assert all(map(same, [a.s for a in pushed], batch["s"].tolist()))
    assert all(map(same, [a.m for a in pushed], batch["m"].tolist()))


# ---- the accumulator -------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats())), st.integers(1, 2**62))
def test_an_exact_total_is_a_monoid(groups, n):
    everything = [x for group in groups for x in group]
    merged = ExactTotal()
    for group in groups:
        merged.merge(ExactTotal(group))
    assert same(merged.sum(), exact_sum(everything))
    assert same(ExactTotal(everything).sum(), exact_sum(everything))
    if all(map(math.isfinite, everything)):
        mean = nearest_double(sum(map(Fraction, everything), Fraction(0)) / n)
        assert same(merged.mean(n), mean)
    for group in groups[1:]:
        merged.add(group, -1)  # what is taken back was never there
    assert same(merged.sum(), exact_sum([x for group in groups[:1] for x in group]))


@pytest.mark.parametrize("values", [[1.0], [-TINY, 1e-300], [HUGE, -HUGE, 3.0], [-7.5, 2.0**-60]])
def test_an_exact_total_holds_more_values_than_fit_before_a_carry(values):
    total, exact = ExactTotal(values), sum(map(Fraction, values))
    for _ in range(45):
        total.merge(total)
        exact *= 2
        assert same(total.sum(), nearest_double(exact))
    total.add([1.5])
    assert same(total.mean(2**50), nearest_double((exact + Fraction(3, 2)) / 2**50))


def test_subnormal_means_are_rounded_once():
    for sum_ in (2**59 - 1, 2**59, 2**59 + 1, 3 * 2**59, 3 * 2**59 + 1):
        high, low = divmod(sum_, 2**30)
        total = ExactTotal([math.ldexp(high, 30 - 1074), low * TINY])
        assert total.mean(2**60) == nearest_double(Fraction(sum_, 2**60) * Fraction(TINY))


# ---- fast ------------------------------------------------------------------------------------


@given(st.sampled_from([*FINITE]), SEEDS, st.integers(1, 120), SHAPES, PIECES)
def test_fast_sums_are_within_their_bound(values, seed, n, shape, pieces):
    rng = np.random.default_rng(seed)
    x = FINITE[values](rng, n)
    lo, hi = sliding.windows(rng, n, shape)
    kernel = FastSumKernel(sliding.nobody(), BOTH)
    whole = sliding.answer(kernel, [x], None, lo, hi, ["f8", "f8"])
    stops = sliding.stops(rng, len(lo), pieces)
    for order in (BOTH, BOTH[::-1]):
        kernel = FastSumKernel(sliding.nobody(), order)
        cut = sliding.answer(kernel, [x], None, lo, hi, ["f8", "f8"], stops)
        assert list(map(float.hex, whole[0])) == list(map(float.hex, cut[order.index(BOTH[0])]))
        assert list(map(float.hex, whole[1])) == list(map(float.hex, cut[order.index(BOTH[1])]))
    for i in range(len(lo)):
        inside = list(map(Fraction, x[lo[i] : hi[i]].tolist()))
        bound = Fraction(len(inside), 2**53) * sum(map(abs, inside))
        assert abs(Fraction(whole[0][i]) - sum(inside)) <= bound, (i, lo[i], hi[i])
        if inside:
            assert whole[1][i] == whole[0][i] / len(inside)


@given(seed=SEEDS, n=st.integers(2, 150), shape=SHAPES, at=st.floats(0, 1))
def test_fast_sums_go_on_from_their_marks(seed, n, shape, at):
    rng = np.random.default_rng(seed)
    x = FINITE["wild"](rng, n)
    lo, hi = sliding.windows(rng, n, shape)
    stop = int(at * len(lo))
    whole = sliding.answer(FastSumKernel(sliding.nobody(), BOTH), [x], None, lo, hi, ["f8", "f8"])
    before, after = (FastSumKernel(sliding.nobody(), BOTH) for _ in range(2))
    sliding.answer(before, [x], None, lo[:stop], hi[:stop], ["f8", "f8"])
    after.resume(before.marks())
    rest = sliding.answer(after, [x], None, lo[stop:], hi[stop:], ["f8", "f8"])
    assert list(map(float.hex, rest[0])) == list(map(float.hex, whole[0][stop:]))


@pytest.mark.parametrize("make", [ExactSumKernel, FastSumKernel])
@given(
    spike=st.sampled_from([1e16, 1e300, math.inf, -math.inf, math.nan]),
    seed=SEEDS,
    shape=st.sampled_from(["steady", "ragged", "jumping"]),
)
def test_what_has_left_leaves_no_trace(make, spike, seed, shape):
    rng = np.random.default_rng(seed)
    calm = rng.normal(size=200)
    lo, hi = sliding.windows(rng, 200, shape)
    at = rng.integers(0, 200, 2)
    spiked = calm.copy()
    spiked[at] = spike
    got = [
        sliding.answer(make(sliding.nobody(), BOTH), [x], None, lo, hi, ["f8", "f8"])
        for x in (calm, spiked)
    ]
    for i in range(len(lo)):
        if not any(lo[i] <= row < hi[i] for row in at):
            assert all(same(got[0][k][i], got[1][k][i]) for k in (0, 1))


# ---- wide integers ---------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["int", "uint"])
@pytest.mark.parametrize("overflow", ["wrap", "float"])
@given(
    seed=SEEDS,
    n=st.integers(1, 60),
    shape=SHAPES,
    pieces=PIECES,
    bits=st.sampled_from([3, 54, 63]),
)
def test_sums_of_wide_integers(source, overflow, seed, n, shape, pieces, bits):
    rng = np.random.default_rng(seed)
    least, dtype = (0, np.uint64) if source == "uint" else (-(2**bits), np.int64)
    x = rng.integers(least, 2**bits - 1, size=n, endpoint=True).astype(dtype)
    if source == "uint":
        x *= dtype(2)
    lo, hi = sliding.windows(rng, n, shape)
    kernel = WideSumKernel(sliding.nobody(), source, BOTH, overflow)
    room = dtype if overflow == "wrap" else "f8"
    sums, means = sliding.answer(
        kernel, [x], None, lo, hi, [room, "f8"], sliding.stops(rng, len(lo), pieces)
    )
    for i in range(len(lo)):
        exact = sum(x[lo[i] : hi[i]].tolist())
        wrapped = int(np.array([exact % 2**64], np.uint64).astype(dtype)[0])
        assert sums[i] == (wrapped if overflow == "wrap" else nearest_double(Fraction(exact)))
        mean = nearest_double(Fraction(exact, int(hi[i] - lo[i]))) if hi[i] > lo[i] else math.nan
        assert same(means[i], mean)


@pytest.mark.parametrize("source", ["int", "uint"])
@given(seed=SEEDS, n=st.integers(1, 60), shape=SHAPES, need=st.integers(0, 4))
def test_sums_of_wide_integers_stop_where_one_does_not_fit(source, seed, n, shape, need):
    """But only where there are as many values as the answer needs."""
    rng = np.random.default_rng(seed)
    least, most = (0, 2**64 - 1) if source == "uint" else (-(2**63), 2**63 - 1)
    dtype = np.uint64 if source == "uint" else np.int64
    x = rng.integers(least // 2, most // 2, size=n, dtype=dtype, endpoint=True)
    lo, hi = sliding.windows(rng, n, shape)
    kernel, got = (
        WideSumKernel(sliding.nobody(), source, BOTH[:1], "raise"),
        np.empty(len(lo), dtype),
    )
    kernel.least = need
    sliding.attach(kernel, [x], None, 0, n)
    kernel.answer_to([got])
    exact = [sum(x[a:b].tolist()) for a, b in zip(lo, hi, strict=True)]
    rows = hi - lo >= need
    beyond = [i for i, total in enumerate(exact) if rows[i] and not least <= total <= most]
    failed = slide(GivenBounds(lo.copy(), hi.copy()), [], [kernel])
    assert failed == ((kernel, beyond[0]) if beyond else None)
    stop = beyond[0] if beyond else len(lo)
    assert all(g == e for g, e, full in zip(got[:stop].tolist(), exact, rows, strict=False) if full)


@pytest.mark.parametrize(
    "make",
    [
        lambda wanted: ExactSumKernel(sliding.nobody(), wanted),
        lambda wanted: FastSumKernel(sliding.nobody(), wanted),
        lambda wanted: WideSumKernel(sliding.nobody(), "int", wanted, "wrap"),
    ],
)
def test_they_answer_sums_and_means_only(make):
    with pytest.raises(ValueError, match="max"):
        make([("max", 0)])
    with pytest.raises(ValueError, match="saturate"):
        WideSumKernel(sliding.nobody(), "int", BOTH, "saturate")
