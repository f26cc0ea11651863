"""Windows as intervals of rows, against their definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._bounds import RowBounds, TimeBounds, next_bounds

FAR = 2**63 - 1


def inside(t: int, row: int, ts: list[int], span: int | None, lag: int, left: bool, right: bool):
    """The rows of one key that a window of times holds, by definition; Python's own integers."""
    upper = t - lag
    lower = None if span is None else upper - span
    return [
        i
        for i, s in enumerate(ts)
        if (s <= upper if right else s < upper)
        and (lower is None or (s >= lower if left else s > lower))
    ]


def times(rng: np.random.Generator, n: int, steps: str) -> np.ndarray:
    """Sorted times: many ties, none, or long stretches of which many leave at a step."""
    if steps == "ties":
        return np.cumsum(rng.integers(0, 3, size=n))
    if steps == "none":
        return np.cumsum(rng.integers(1, 4, size=n))
    return np.cumsum(rng.choice([0, 1, 40], size=n, p=[0.2, 0.7, 0.1]))


def offsets_of(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.unique(np.r_[0, rng.integers(0, n + 1, size=2), n])


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 400),
    steps=st.sampled_from(["ties", "none", "bursts"]),
    span=st.none() | st.integers(0, 300),
    lag=st.integers(-30, 30) | st.just(0),
    left=st.booleans(),
    right=st.booleans(),
    shift=st.sampled_from([0, -FAR - 1, FAR - 6000]),
)
def test_time_windows_hold_what_they_say(seed, n, steps, span, lag, left, right, shift):
    rng = np.random.default_rng(seed)
    ts, offsets = times(rng, n, steps), offsets_of(rng, n)
    for start, stop in pairwise(offsets):
        ts[start:stop] -= ts[start]
    ts += shift if shift <= 0 else min(shift, FAR - int(ts.max()))
    lo, hi = TimeBounds(ts, offsets, span, lag, left, right, False).arrays()
    for start, stop in pairwise(offsets):
        of_key = ts[start:stop].tolist()
        for row, t in enumerate(of_key):
            rows = inside(t, row, of_key, span, lag, left, right)
            found = slice(lo[start + row] - start, hi[start + row] - start)
            assert list(range(len(of_key)))[found] == rows


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 400),
    steps=st.sampled_from(["ties", "none", "bursts"]),
    span=st.none() | st.integers(0, 300),
    lag=st.integers(-30, 30) | st.just(0),
    left=st.booleans(),
    right=st.booleans(),
    arrival=st.booleans(),
)
def test_times_that_come_bit_by_bit_have_the_same_windows(
    seed, n, steps, span, lag, left, right, arrival
):
    rng = np.random.default_rng(seed)
    ts, arrival = times(rng, n, steps), arrival and lag == 0
    lo, hi = TimeBounds(ts, np.array([0, n]), span, lag, left, right, arrival).arrays()
    done = first = last = 0
    for stop in [*np.sort(rng.integers(0, n + 1, size=3)), n]:
        some = next_bounds(ts[:stop], done, first, last, span, lag, left, right, arrival, stop == n)
        np.testing.assert_array_equal(some[0], lo[done : done + len(some[0])])
        np.testing.assert_array_equal(some[1], hi[done : done + len(some[1])])
        if len(some[0]):
            done, first, last = done + len(some[0]), int(some[0][-1]), int(some[1][-1])
    assert done == n


@pytest.mark.parametrize("far", [2**61, 5])
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 60),
    first=st.integers(-9, 9),
    last=st.integers(-9, 9),
    every=st.integers(2, 7),
)
def test_row_windows_hold_what_they_say(far, seed, n, first, last, every):
    offsets = offsets_of(np.random.default_rng(seed), n)
    first = first if far == 5 or first >= -5 else -2 * far
    lo, hi = RowBounds(offsets, first, last).arrays()
    for start, stop in pairwise(offsets):
        for i in range(start, stop):
            rows = [j for j in range(start, stop) if i + first <= j < i + last]
            assert list(range(lo[i], hi[i])) == rows
    some_lo, some_hi = RowBounds(offsets, first, last, every).arrays()
    picked = [i for start, stop in pairwise(offsets) for i in range(start + every - 1, stop, every)]
    assert (some_lo.tolist(), some_hi.tolist()) == (lo[picked].tolist(), hi[picked].tolist())
