"""Quantiles and the greatest values of windows against brute force, whatever holds the window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import isinf, isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mta._bounds import GivenBounds
from mta._kernel import KEPT, Counter, Lists, slide
from mta._ranks import INTERPOLATIONS, RanksKernel

INTERPOLATED = ("linear", "midpoint")
FLOATS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: 100 * rng.random(n),
    "wild": lambda rng, n: rng.choice([-1.0, 1.0], n) * 10.0 ** rng.integers(-300, 300, n),
    "ties": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "zeros": lambda rng, n: rng.choice([0.0, -0.0, 5e-324, -1.0], n),
    "rising": lambda _, n: np.arange(n) * 0.5,
    "falling": lambda _, n: -np.arange(n) / 3,
    "clustered": lambda rng, n: rng.integers(1, 5, n) * (1 + rng.integers(0, 99, n) * 2.0**-52),
    "huge": lambda rng, n: rng.choice([1.7e308, -1.7e308, 1.6e308, 1.0], n),
    "broken": lambda rng, n: rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, 2.5], n),
    "seldom NaN": lambda rng, n: np.where(rng.random(n) < 0.01, np.nan, rng.normal(size=n)),
}
INTEGERS = {
    "small": lambda rng, n: rng.integers(-5, 5, n),
    "wide": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n, endpoint=True),
    "ends": lambda rng, n: rng.choice([-(2**63), 2**63 - 1, 0], n),
    "stamps": lambda rng, n: np.where(
        rng.random(n) < 0.01, -(2**63), 2**60 + rng.integers(0, 99, n)
    ),
    "unsigned": lambda rng, n: rng.integers(0, 2**64 - 1, n, np.uint64, endpoint=True),
}
VALUES = FLOATS | INTEGERS


def windows(rng: np.random.Generator, n: int, style: str) -> tuple[np.ndarray, np.ndarray]:
    """Edges [lo, hi) that never fall, over n rows."""
    i = np.arange(n)
    if style == "last":  # so many rows
        lo, hi = i + 1 - rng.integers(1, n + 1), i + 1
    elif style == "keys":  # whose rows lie one after the other
        starts = np.unique(np.r_[0, rng.integers(0, n, 5)])
        lo = np.maximum(starts[np.searchsorted(starts, i, "right") - 1], i - rng.integers(0, n))
        hi = i + 1
    elif style == "sparse":  # most rows are in none
        hi = np.sort(rng.integers(0, n + 1, max(n // 50, 1)))
        lo = hi - rng.integers(0, 40)
    else:  # any: growing, shrinking, empty, jumping, repeated
        lo, hi = np.sort(rng.integers(0, n + 1, n)), np.sort(rng.integers(0, n + 1, n))
        lo = np.maximum.accumulate(np.where(rng.random(n) < 0.02, hi, np.minimum(lo, hi)))
    lo = np.maximum(lo, 0)
    return lo, np.maximum(hi, lo)


@dataclass
class Run:
    """Windows over a column, and how the kernel comes to its rows.

    spare : whether rows that have left are attached once more, as those of the window before
    """

    x: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    valid: np.ndarray | None = None
    nan: str = "propagate"
    spare: bool = True

    @property
    def source(self) -> str:
        return {"f": "float", "i": "int", "u": "uint"}[self.x.dtype.kind]

    def kernel(self, wanted: list[Any], least: int = 128, fast: bool = True) -> RanksKernel:
        kernel = RanksKernel(Counter([]), self.source, self.nan, wanted)
        kernel.least, kernel.fast = least, fast
        return kernel

    def answer(self, wanted: list[Any], cuts: Any = (), **options: Any) -> list[list[Any]]:
        """Per wanted: of every window, a cell (as bits), or a tuple of them.

        cuts : windows before which rows are attached anew
        """
        kernel = self.kernel(wanted, **options)
        answers: list[list[Any]] = [[] for _ in wanted]
        for start, stop in pairwise([0, *cuts, len(self.lo)]):
            for mine, more in zip(answers, self.piece(kernel, wanted, start, stop), strict=True):
                mine.extend(more)
        return answers

    def piece(self, kernel: RanksKernel, wanted: list[Any], start: int, stop: int) -> list[Any]:
        first = 0
        if start:
            first = int(self.lo[start - 1]) - KEPT if self.spare else int(self.lo[start])
            first = max(first, 0)
        rows = slice(first, int(self.hi[stop - 1]) if stop else 0)
        valid = None if self.valid is None else self.valid[rows].copy()
        kernel.attach([self.x[rows].copy()], valid, first)
        out = [
            np.empty(stop - start) if what == "quantile" else Lists(stop - start)
            for what, *_ in wanted
        ]
        kernel.answer_to(out)
        bounds = GivenBounds(self.lo[start:stop].copy(), self.hi[start:stop].copy())
        assert slide(bounds, [], [kernel]) is None
        return [split(o) if isinstance(o, Lists) else o.view(np.int64).tolist() for o in out]

    def inside(self, window: int) -> list[Any]:
        """The values of a window, sorted: -0.0 before 0.0, NaN last."""
        rows = slice(self.lo[window], self.hi[window])
        x = self.x[rows] if self.valid is None else self.x[rows][self.valid[rows] == 1]
        if self.source != "float":
            return sorted(x.tolist())
        return sorted(x.tolist(), key=lambda v: (isnan(v), v if v == v else 0, np.copysign(1, v)))

    def expected(self, wanted: tuple[Any, ...], window: int) -> Any:
        values = self.inside(window)
        if wanted[0] == "top":
            return tuple(bits(v, self.x.dtype) for v in values[::-1][: wanted[1]])
        _, q, interpolation = wanted
        dtype = np.float64 if interpolation in INTERPOLATED else self.x.dtype
        return bits(quantile(values, q, interpolation, self.nan, self.source), dtype)


def split(lists: Lists) -> list[tuple[int, ...]]:
    ends = np.cumsum(lists.lengths)
    items = lists.items().tolist()
    assert len(items) == (ends[-1] if len(ends) else 0)
    return [tuple(items[e - n : e]) for e, n in zip(ends, lists.lengths, strict=True)]


def bits(value: Any, dtype: Any) -> int:
    """The value as 8 bytes; every NaN is one, and 0.0 and -0.0 are not."""
    return int(np.array([nan if value != value else value], dtype).view(np.int64)[0])


def quantile(values: list[Any], q: float, how: str, nans: str, source: str) -> Any:
    if not values:
        return nan if source == "float" else 0
    if nans == "propagate" and values[-1] != values[-1]:
        return nan
    at = q * (len(values) - 1)
    share = at - int(at)
    if how in INTERPOLATED and share > 0:
        return between(values[int(at)], values[int(at) + 1], 0.5 if how == "midpoint" else share)
    place = {"lower": int(at), "higher": int(np.ceil(at)), "nearest": round(at)}
    return values[place.get(how, int(at))]


def between(a: Any, b: Any, t: float) -> float:
    """Rounded once where integers or halfway; of doubles as NumPy does it."""
    if isinstance(a, float) and (isinf(a) or isinf(b) or isnan(b)):
        return a * (1 - t) + b * t
    if isinstance(a, int) or t == 0.5:
        exact = Fraction(a) + (Fraction(b) - Fraction(a)) * Fraction(t)
        if exact == 0 and isinstance(a, float):
            return 0.5 * (a + b)  # the sign of zero
        return exact.numerator / exact.denominator
    if isinf(b - a):
        return a * (1 - t) + b * t
    return float(a + (b - a) * t if t < 0.5 else b - (b - a) * (1 - t))


WANTED = st.one_of(
    st.tuples(
        st.just("quantile"),
        st.sampled_from([0.0, 0.5, 1.0, 0.25, 0.9]) | st.floats(0, 1),
        st.sampled_from(sorted(INTERPOLATIONS)),
    ),
    st.tuples(st.just("top"), st.sampled_from([1, 2, 3, 100])),
)
BLOCK, TREE = 1, 2**40  # `least` that make the kernel take one or the other wherever it can


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 700),
    values=st.sampled_from(sorted(VALUES)),
    style=st.sampled_from(["last", "keys", "sparse", "any"]),
    wanted=st.lists(WANTED, min_size=1, max_size=4),
    nulls=st.sampled_from([0.0, 0.1, 0.9]),
    nans=st.sampled_from(["propagate", "greatest"]),
    least=st.sampled_from([BLOCK, 30, TREE]),
    fast=st.booleans(),
    pieces=st.sampled_from(["one", "some", "each window"]),
    spare=st.booleans(),
)
@example(
    1, 700, "normal", "keys", [("quantile", 0.5, "linear")], 0, "greatest", BLOCK, True, "one", True
)
@example(
    0, 387, "broken", "last", [("quantile", 0.5, "linear")], 0.9, "propagate", 1, True, "one", True
)
@example(
    1, 600, "ties", "last", [("quantile", 0.5, "lower")], 0, "greatest", 30, True, "some", True
)
def test_brute_force(
    seed, n, values, style, wanted, nulls, nans, least, fast, pieces, spare
):  # fmt: skip
    rng = np.random.default_rng(seed)
    x, valid = VALUES[values](rng, n), None
    if nulls:
        valid = (rng.random(n) >= nulls).astype(np.uint8)
        x = np.where(valid == 1, x, x.dtype.type(0))
    run = Run(x, *windows(rng, n, style), valid, nans, spare)
    some = sorted(set(rng.integers(1, len(run.lo) + 1, 5).tolist()) - {len(run.lo)})
    cuts = {"one": (), "some": some, "each window": range(1, len(run.lo))}[pieces]
    answers = run.answer(wanted, cuts, least=least, fast=fast)
    for what, found in zip(wanted, answers, strict=True):
        for window in rng.choice(len(run.lo), min(len(run.lo), 40), replace=False):
            assert found[window] == run.expected(what, window), (what, window)


@given(seed=st.integers(0, 2**32), values=st.sampled_from(["normal", "uniform", "ties", "wide"]))
def test_numpy(seed, values):
    """The five methods of numpy.quantile; halfway between two values the last bit may be better."""
    rng = np.random.default_rng(seed)
    x = VALUES[values](rng, 300)
    run = Run(x >> 12 if x.dtype == np.int64 else x, *windows(rng, 300, "any"))
    for method in INTERPOLATIONS:
        q = float(rng.random())
        found = run.answer([("quantile", q, method)])[0]
        dtype = np.float64 if method in INTERPOLATED else run.x.dtype
        for window in np.flatnonzero(run.hi > run.lo)[::7]:
            inside = run.x[run.lo[window] : run.hi[window]]
            answer = np.array([found[window]]).view(dtype)[0]
            error = abs(answer - np.quantile(inside, q, method=method))
            assert error <= 1e-15 * np.abs(inside).max()


@pytest.mark.parametrize("values", ["normal", "ties", "seldom NaN", "rising"])
@pytest.mark.parametrize("fast", [True, False])
def test_large_windows_in_any_pieces(values, fast):
    """Trees of three levels, splits and merges, and the way from a block into a tree."""
    rng = np.random.default_rng(7)
    n, w = 40_000, 9_000
    i = np.arange(n)
    lo = np.maximum(0, i + 1 - w)
    lo[25_000:] = np.minimum(lo[25_000] + 4 * np.arange(n - 25_000), i[25_000:] - 2)  # shrinks
    run = Run(VALUES[values](rng, n), lo, i + 1)
    wanted = [("quantile", 0.5, "linear"), ("quantile", 0.99, "higher"), ("top", 3)]
    whole = run.answer(wanted, fast=fast)
    # All rows; then batches, single rows, batches, and the rest one piece.
    cuts = [*range(500, 3_000, 499), 20_000, *range(20_001, 22_500), 24_000, *range(24_700, 26_000)]
    assert run.answer(wanted, cuts, fast=fast) == whole
    bare = replace(run, spare=False)
    assert bare.answer(wanted, [*cuts[:8], 20_300], fast=fast) == whole
    assert run.answer(wanted, [10, 20], fast=fast, least=TREE) == whole
    for window in range(0, n, 997):
        assert [found[window] for found in whole] == [run.expected(a, window) for a in wanted]


def test_windows_far_apart():
    """Gaps of thousands of ranks, and the cursor at either end of them."""
    x = np.repeat([1.0, -1.0, 1.0, -1.0, 3.0], 30_000) + np.random.default_rng(3).random(150_000)
    i = np.arange(len(x))
    run = Run(x, np.maximum(0, i - 4_999), i + 1)
    wanted = [("quantile", q, "linear") for q in (0.0, 0.3, 0.5, 1.0)]
    found = run.answer(wanted)
    for window in range(0, len(x), 10_007):
        assert [f[window] for f in found] == [run.expected(a, window) for a in wanted]


def test_where_the_window_is():
    """Many rows at once make a block; few do not, however large the window is."""
    x = np.random.default_rng(1).random(30_000)
    i = np.arange(len(x))
    run = Run(x, np.maximum(0, i - 9_999), i + 1)
    wanted = [("quantile", 0.5, "linear")]
    kernel = run.kernel(wanted)
    seen = []
    for start, stop in pairwise([0, 20_000, 20_001, 20_200, 20_201, 28_000, 28_001]):
        run.piece(kernel, wanted, start, stop)
        seen.append(kernel.ranked)
    assert seen == [True, False, False, False, True, False]


def test_integers_beyond_doubles():
    x = np.array([2**53 + 1, 2**53 + 3, 2**63 - 1, -(2**63)])
    run = Run(x, np.array([0, 2, 2]), np.array([2, 3, 4]))
    half, most = run.answer([("quantile", 0.5, "linear"), ("quantile", 0.75, "linear")])
    assert np.array(half).view(float).tolist() == [2.0**53 + 2, 2.0**63, -0.5]
    assert np.array(most).view(float).tolist() == [2.0**53 + 2, 2.0**63, 2.0**62]
    run = Run(x.astype(np.uint64), np.array([0, 2]), np.array([3, 4]))
    assert run.answer([("top", 2), ("quantile", 1.0, "lower")]) == [
        [(2**63 - 1, 2**53 + 3), (-(2**63), 2**63 - 1)],
        [2**63 - 1, -(2**63)],
    ]


@pytest.mark.parametrize(
    ("source", "nans", "wanted"),
    [
        ("float", "propagate", [("quantile", 1.5, "linear")]),
        ("float", "propagate", [("quantile", float("nan"), "linear")]),
        ("float", "propagate", [("top", 0)]),
        ("float", "propagate", [("mode",)]),
        ("float", "skip", [("top", 1)]),
    ],
)
def test_what_is_refused(source, nans, wanted):
    with pytest.raises(ValueError, match=r"quantile|top|wanted|nan"):
        RanksKernel(Counter([]), source, nans, wanted)
