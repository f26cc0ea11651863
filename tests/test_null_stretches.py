"""Long stretches of nulls: no window is looked through again for values that are not there."""

from __future__ import annotations

import time

import numpy as np
import pytest

import mta
from mta import agg

ROWS, WINDOW = 100_000, 25_000
COLUMN = [
    *("sum", "mean", "min", "max", "var", "std", "skew", "kurt", "product", "geometric_mean"),
    *("first", "last", "median", "count_distinct", "mode", "longest_run"),
]
AGGREGATES = {name: getattr(agg, name)("x", nan="skip") for name in COLUMN} | {
    "exact sum": agg.sum("x", nan="skip", numerics="exact"),
    "fast sum": agg.sum("x", nan="skip", numerics="fast"),
    "cov": agg.cov("x", "y", nan="skip"),
    "corr": agg.corr("x", "y", nan="skip"),
    "weighted_mean": agg.weighted_mean("x", "y", nan="skip"),
}


def columns(x):
    """One of pairs stays, so that of both columns as many rows count as of x."""
    y = np.random.default_rng(7).random(len(x))
    return {"x": x, "y": y, "t": np.arange(len(x))}


def with_nulls(n, left):
    """All null but the rows `left`."""
    x = np.full(n, np.nan)
    x[left] = np.random.default_rng(5).integers(1, 9, len(left))
    return x


SPARSE = {
    "none left": with_nulls(ROWS, []),
    "two left": with_nulls(ROWS, [WINDOW // 3, ROWS // 2]),
    "one a window": with_nulls(ROWS, range(0, ROWS, WINDOW - 1)),
    "a window's head": with_nulls(ROWS, range(WINDOW)),
}


def best_time(run, frame):
    times = []
    for _ in range(3):
        start = time.process_time()
        run(frame)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("name", AGGREGATES)
def test_they_cost_no_more_than_values(name):
    """A scan of the window at every row makes it a hundred times as much."""
    run = mta.rolling(WINDOW).agg(a=AGGREGATES[name])
    dense = best_time(run, columns(np.random.default_rng(3).normal(size=ROWS)))
    for case, x in SPARSE.items():
        assert best_time(run, columns(x)) < 20 * dense, case


@pytest.mark.parametrize("name", AGGREGATES)
def test_their_answers_are_those_without_nulls(name):
    rng = np.random.default_rng(11)
    run = mta.rolling("400i", on="t").agg(a=AGGREGATES[name])
    for share in (0.5, 0.01, 0.003):
        frame = columns(with_nulls(6_000, np.flatnonzero(rng.random(6_000) < share)))
        counting = ~np.isnan(frame["x"])
        some = {name: values[counting] for name, values in frame.items()}
        np.testing.assert_allclose(run(frame)["a"][counting], run(some)["a"], rtol=1e-9, atol=1e-12)
