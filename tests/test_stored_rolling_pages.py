"""Trailing windows of very many pages: what the stream in memory answers, to the last bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import mta
from mta import agg
from mta.stores import MemoryStore

MAKERS = {
    "skew": lambda nan: agg.skew("x", nan=nan),
    "kurt": lambda nan: agg.kurt("x", nan=nan),
    "cov": lambda nan: agg.cov("x", "y", nan=nan),
    "corr": lambda nan: agg.corr("i", "x", nan=nan),
    "slope": lambda nan: agg.slope("y", "i", nan=nan),
    "weighted_mean": lambda nan: agg.weighted_mean("x", "i", nan=nan),
    "geometric_mean": lambda nan: agg.geometric_mean("x", nan=nan),
    "longest_run": lambda nan: agg.longest_run("x", nan=nan),
    "sum": lambda nan: agg.sum("x", nan=nan),
    "mean": lambda nan: agg.mean("x", nan=nan),
    "min": lambda nan: agg.min("x", nan=nan),
    "max": lambda nan: agg.max("i"),
    "std": lambda nan: agg.std("x", nan=nan),
    "var": lambda nan: agg.var("i"),
    "exact": lambda nan: agg.sum("x", nan=nan, numerics="exact"),
    "total": lambda nan: agg.sum("i"),
    "first": lambda nan: agg.first("x", nan=nan),
    "arg_max": lambda nan: agg.arg_max("y", by="x", nan=nan),
}
ROWS = 6000  # of some 8 to 30 a block, so far more blocks than are folded at a time
WINDOWS = {"rows": 2500, "few rows": 40, "ticks": "4000i"}


def columns(seed, gaps):
    rng = np.random.default_rng(seed)
    x = rng.normal(1e3, 1.0, ROWS)
    y = x * rng.normal(1.0, 0.1, ROWS)
    if gaps:  # a few at a time, and stretches of several blocks
        x[rng.random(ROWS) < 0.2] = np.nan
        x[1500:1900] = x[3000:3010] = np.nan
    steps = np.where(rng.random(ROWS) < 0.002, 5000, rng.integers(0, 3, ROWS))
    i = rng.integers(1, 10_000, ROWS)
    return {"t": np.cumsum(steps), "x": x, "y": y, "i": i}


def spec_of(name, window, gaps):
    made = mta.rolling(WINDOWS[window], on="t")
    return made.agg(a=MAKERS[name]("skip" if gaps else "propagate"))


def push(op, data, start, stop):
    return op.push({name: column[start:stop] for name, column in data.items()})["a"]


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", MAKERS)
def test_many_pages(name, window, gaps):
    """In chunks of any size, and opened again between two of them."""
    data = columns(len(name) + gaps, gaps)
    spec = spec_of(name, window, gaps)
    plain, store = spec.stream(), MemoryStore()
    rng = np.random.default_rng(7)
    cuts = [0, *np.unique(rng.integers(0, ROWS, 12)).tolist(), ROWS]
    op = spec.stream(memory=8192, store=store, block=300, name="w")
    for number, (start, stop) in enumerate(pairwise(cuts)):
        want, got = push(plain, data, start, stop), push(op, data, start, stop)
        np.testing.assert_array_equal(got, want)
        if number % 4 == 3:
            op.flush()
            op = spec.stream(memory=8192, store=store, block=300, name="w")
