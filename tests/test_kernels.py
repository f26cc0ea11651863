"""The batch kernels against the forest: the same answers, to the last bit, however windows move."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mta._bounds import GivenBounds
from mta._core import Forest
from mta._extremes import ExtremesKernel
from mta._kernel import KEPT, Counter, Kernel, slide
from mta._spreads import SpreadKernel
from mta._sum_blocks import CompensatedSumKernel
from mta._widesums import WideSumKernel

VALUES = {
    "even": lambda rng, n: rng.normal(size=n),
    "wild": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, size=n),
    "cancelling": lambda rng, n: rng.choice([1e16, -1e16, 1.0, 1e-20, 3.3], size=n),
    "few": lambda rng, n: rng.choice([1.0, 2.5, 2.5, 0.0, -np.inf], size=n),
    "broken": lambda rng, n: rng.choice([1.0, 2.5, -0.0, 0.0, np.nan, np.inf], size=n),
    "spiked": lambda rng, n: np.where(rng.random(n) < 0.003, np.nan, rng.normal(size=n)),
}
INTEGERS = {
    "int": lambda rng, n: rng.integers(-(2**40), 2**40, size=n),
    "uint": lambda rng, n: rng.integers(0, 2**62, size=n).astype(np.uint64) >> np.uint64(20),
}
WANTED = {
    "sum": [("sum", 0), ("mean", 0)],
    "max": [("max", 0), ("max", 0)],
    "min": [("min", 0)],
    "moments": [("var", 1), ("std", 0)],
}
MOVES = ("steady", "steady", "grow", "shrink", "walk", "burst", "jump", "empty", "rest")


@dataclass
class Run:
    """Rows, which of them count, and windows over them."""

    x: NDArray[Any]
    valid: NDArray[np.uint8] | None
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]

    def counts(self) -> NDArray[np.int64] | None:
        if self.valid is None:
            return None
        before = np.r_[0, np.cumsum(self.valid, dtype=np.int64)]
        return before[self.hi] - before[self.lo]

    def slice(self, start: int, stop: int, first: int, last: int) -> Run:
        """The windows start..stop and the rows first..last, in arrays of their own."""
        valid = None if self.valid is None else self.valid[first:last].copy()
        return Run(self.x[first:last].copy(), valid, self.lo[start:stop], self.hi[start:stop])


def moves(rng: np.random.Generator, steps: int, width: int) -> tuple[Any, Any]:
    """Windows that move in stretches, each in one of a few ways."""
    lo, hi = [0], [int(rng.integers(0, width + 1))]
    while len(lo) < steps:
        move = rng.choice(MOVES)
        if move == "jump":
            lo.append(hi[-1] + int(rng.integers(0, 40)))
            hi.append(lo[-1] + int(rng.integers(0, width + 1)))
            continue
        for _ in range(int(rng.integers(1, 2 + 3 * width // 2))):
            front, back = edges_after(str(move), rng, lo[-1], hi[-1])
            lo.append(front)
            hi.append(max(front, back))
    return np.array(lo), np.array(hi)


def edges_after(move: str, rng: np.random.Generator, lo: int, hi: int) -> tuple[int, int]:
    """Where the next window begins and ends."""
    if move == "steady":
        return lo + 1, hi + 1
    if move == "grow":
        return lo, hi + 1
    if move == "shrink":
        return min(lo + 1, hi), hi
    if move == "walk":
        return lo + int(rng.geometric(0.5)) - 1, hi + int(rng.geometric(0.5)) - 1
    if move == "burst":
        many = 700 * (rng.random() < 0.05)
        return lo + int(rng.integers(0, 1 + many)), hi + int(rng.integers(0, 2 + many))
    if move == "empty":
        return hi, hi + int(rng.random() < 0.3)
    return lo, hi


def some_run(seed: int, values: str, steps: int, width: int, nulls: float) -> Run:
    rng = np.random.default_rng(seed)
    lo, hi = moves(rng, steps, width)
    n = int(hi[-1]) + int(rng.integers(0, 20))
    x = {**VALUES, **INTEGERS}[values](rng, n)
    if not nulls:
        return Run(x, None, lo, hi)
    valid = (rng.random(n) >= nulls).astype(np.uint8)
    return Run(np.where(valid, x, x.dtype.type(0)), valid, lo, hi)


def by_forest(run: Run, monoid: str, source: str, nan: str) -> list[NDArray[Any]]:
    outs = [np.empty(len(run.lo), np.int64) for _ in WANTED[monoid]]
    wanted = [(*what, out) for what, out in zip(WANTED[monoid], outs, strict=True)]
    forest = Forest(monoid, source, nan)
    assert forest.slide(run.x, run.valid, 0, run.lo, run.hi, run.counts(), wanted) == -1
    return outs


def make_kernel(monoid: str, source: str, nan: str) -> tuple[Kernel, Counter]:
    counter, wanted = Counter([]), WANTED[monoid]
    if monoid in ("min", "max"):
        return ExtremesKernel(counter, monoid, source, nan, wanted), counter
    if monoid == "moments":
        return SpreadKernel(counter, source, wanted), counter
    if source == "float":
        return CompensatedSumKernel(counter, wanted), counter
    return WideSumKernel(counter, source, wanted, "raise"), counter


def step(made: tuple[Kernel, Counter], monoid: str, run: Run, first: int) -> list[NDArray[Any]]:
    """Answer the windows of a run whose item 0 is row number `first`."""
    kernel, counter = made
    outs = [np.empty(len(run.lo), np.int64) for _ in WANTED[monoid]]
    counter.attach(run.valid, first)
    kernel.attach([run.x], run.valid, first)
    kernel.answer_to(outs)
    assert slide(GivenBounds(run.lo, run.hi), [counter], [kernel]) is None
    return outs


def assert_same(found: list[NDArray[Any]], expected: list[NDArray[Any]]) -> None:
    """The same bits, but that one NaN is as good as another."""
    for a, b in zip(found, expected, strict=True):
        both_nan = np.isnan(a.view(np.float64)) & np.isnan(b.view(np.float64))
        np.testing.assert_array_equal(np.where(both_nan, 0, a), np.where(both_nan, 0, b))


RUNS = {
    "seed": st.integers(0, 2**32),
    "steps": st.integers(1, 1500),
    "width": st.sampled_from([1, 3, 16, 40, 100, 400, 1500]),
    "nulls": st.sampled_from([0.0, 0.0, 0.1, 0.95, 0.998]),
}


@pytest.mark.parametrize("monoid", sorted(WANTED))
@given(values=st.sampled_from(sorted(VALUES)), greatest=st.booleans(), **RUNS)
def test_floats_are_answered_as_the_forest_does(
    monoid, values, greatest, seed, steps, width, nulls
):
    run = some_run(seed, values, steps, width, nulls)
    nan = "greatest" if greatest and monoid in ("min", "max") else "propagate"
    found = step(make_kernel(monoid, "float", nan), monoid, run, 0)
    assert_same(found, by_forest(run, monoid, "float", nan))


@pytest.mark.parametrize("source", ["int", "uint"])
@pytest.mark.parametrize("monoid", sorted(WANTED))
@given(**RUNS)
def test_integers_are_answered_as_the_forest_does(monoid, source, seed, steps, width, nulls):
    run = some_run(seed, source, steps, width, nulls)
    found = step(make_kernel(monoid, source, "propagate"), monoid, run, 0)
    assert_same(found, by_forest(run, monoid, source, "propagate"))


def cut(rng: np.random.Generator, run: Run) -> list[tuple[Run, int]]:
    """The run in pieces: some windows each, and just the rows that a kernel is promised."""
    places = np.unique(np.r_[0, rng.integers(0, len(run.lo) + 1, size=5), len(run.lo)])
    pieces = []
    for start, stop in pairwise(places):
        first = max(int(run.lo[max(start - 1, 0)]) - KEPT, 0)
        last = int(run.hi[stop - 1]) + int(rng.integers(0, 30))
        pieces.append((run.slice(start, stop, first, min(last, len(run.x))), first))
    return pieces


@pytest.mark.parametrize("monoid", ["sum", "moments"])
@given(values=st.sampled_from(sorted(VALUES)), **RUNS)
def test_a_fresh_kernel_goes_on_from_marks(monoid, values, seed, steps, width, nulls):
    """Only these two know more than the rows inside."""
    run = some_run(seed, values, steps, width, nulls)
    made = make_kernel(monoid, "float", "propagate")
    pieces = []
    for piece, first in cut(np.random.default_rng(seed), run):
        pieces.append(step(made, monoid, piece, first))
        marks = made[0].marks()
        made = make_kernel(monoid, "float", "propagate")
        made[0].resume(marks)
    found = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    assert_same(found, step(make_kernel(monoid, "float", "propagate"), monoid, run, 0))


@pytest.mark.parametrize("monoid", sorted(WANTED))
@given(values=st.sampled_from([*VALUES, *INTEGERS]), **RUNS)
def test_rows_may_come_in_any_pieces(monoid, values, seed, steps, width, nulls):
    run = some_run(seed, values, steps, width, nulls)
    source = values if values in INTEGERS else "float"
    made = make_kernel(monoid, source, "propagate")
    pieces = [
        step(made, monoid, piece, first) for piece, first in cut(np.random.default_rng(seed), run)
    ]
    found = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    assert_same(found, step(make_kernel(monoid, source, "propagate"), monoid, run, 0))


def test_a_sum_that_does_not_fit_is_reported():
    x = np.full(3000, 2**53, np.int64)
    x[2000:] = 2**62
    lo = np.arange(3000) // 2
    kernel, counter = make_kernel("sum", "int", "propagate")
    kernel.attach([x], None, 0)
    kernel.answer_to([np.empty(3000, np.int64), np.empty(3000, np.int64)])
    sums = np.array([sum(x[lo[i] : i + 1].tolist()) for i in range(3000)], dtype=object)
    failed = slide(GivenBounds(lo, np.arange(1, 3001)), [counter], [kernel])
    assert failed == (kernel, int(np.flatnonzero(sums >= 2**63)[0]))
