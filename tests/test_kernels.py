"""The batch kernels against the forest: the same doubles, however windows jump and empty."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._bounds import TimeBounds
from mta._core import Forest
from mta._kernel import Counter, slide
from mta._rolling import MonoidKernel

VALUES = {
    "even": lambda rng, n: rng.normal(size=n),
    "wild": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, size=n),
    "cancelling": lambda rng, n: rng.choice([1e16, -1e16, 1.0, 1e-20, 3.3], size=n),
    "broken": lambda rng, n: rng.choice([1.0, 2.5, 2.5, np.nan, np.inf], size=n),
}


def times(rng: np.random.Generator, n: int) -> np.ndarray:
    """Ties, steps and now and then a gap that empties the window."""
    steps = rng.integers(0, 4, size=n) * (rng.random(n) < 0.7)
    return np.cumsum(steps + (rng.random(n) < 0.01) * rng.integers(1, 600, size=n))


def keys(rng: np.random.Generator, ts: np.ndarray) -> np.ndarray:
    """Cut the rows into up to four keys, whose times all start at 0."""
    offsets = np.unique(np.r_[0, rng.integers(0, len(ts) + 1, size=3), len(ts)])
    for start, stop in pairwise(offsets):
        ts[start:stop] -= ts[start]
    return offsets


@pytest.mark.parametrize(
    ("monoid", "what"),
    [
        ("sum", "sum"),
        ("sum", "mean"),
        ("max", "max"),
        ("min", "min"),
        ("moments", "var"),
        ("moments", "std"),
    ],
)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 1500),
    values=st.sampled_from(sorted(VALUES)),
    span=st.integers(1, 2000),
    lag=st.integers(-3, 3),
    left=st.booleans(),
    right=st.booleans(),
)
def test_a_batch_answers_as_the_forest_does(monoid, what, seed, n, values, span, lag, left, right):
    rng = np.random.default_rng(seed)
    x, ts = VALUES[values](rng, n), times(rng, n)
    bounds = TimeBounds(ts, keys(rng, ts), span, lag, left, right, False)
    lo, hi = bounds.arrays()
    slid, batch = np.empty(n), np.empty(n)
    Forest(monoid).slide(x, None, 0, lo, hi, None, [(what, 1, slid.view(np.int64))])
    kernel = MonoidKernel(Counter([]), monoid, "float", "propagate", [(what, 1)])
    kernel.attach([x], None, 0)
    kernel.answer_to([batch])
    assert slide(bounds, [], [kernel]) is None
    np.testing.assert_array_equal(batch, slid)
