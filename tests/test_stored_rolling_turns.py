"""Sums and extremes over pages, 64 rows at a time: to the last bit what is answered in memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import mta
from mta import agg
from mta.stores import MemoryStore

ROWS = 4000


def rows_of(seed, spikes, nulls, gaps):
    """Rows, and where they are cut: anywhere, and a few of them one by one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=ROWS) * 10.0 ** rng.integers(-9, 9, ROWS)
    if spikes:  # what has to leave no trace
        x[rng.integers(0, ROWS, 5)] = [np.inf, -np.inf, np.nan, 1e300, -0.0]
    x = np.ma.masked_array(x, rng.random(ROWS) < (0.2 if nulls else 0))
    t = np.arange(ROWS)
    if gaps:  # long stretches without a row, and many rows at once
        t = np.cumsum(rng.choice([0, 1, 1, 1, 1, 40], ROWS))
        t[rng.integers(ROWS) :] += 5000
    cuts = rng.integers(1, ROWS - 50, rng.integers(0, 12)).tolist()
    cuts += [c + n for c in cuts[:2] for n in range(1, rng.integers(2, 40))]
    i = np.ma.masked_array(rng.integers(-(2**62), 2**62, ROWS), x.mask)
    return {"t": t, "x": x, "i": i}, sorted({0, ROWS, *cuts})


windows = st.one_of(
    st.builds(mta.rolling, st.integers(1, ROWS), lag=st.sampled_from([0, 0, -5, 70])),
    st.builds(
        lambda length, **how: mta.rolling(f"{length}i", on="t", **how),
        st.integers(1, 6000),
        closed=st.sampled_from(["right", "left", "both", "neither"]),
        ties=st.sampled_from(["peers", "arrival"]),
    ),
    st.builds(mta.rolling, st.integers(40, ROWS), every=st.integers(2, 200)),
    st.just(mta.rolling(None)),
)
AGGREGATES = {
    "s": agg.sum("x"),
    "m": agg.mean("x"),
    "high": agg.max("x"),
    "low": agg.min("x", nan="skip"),
    "greatest": agg.max("x", nan="greatest"),
    "int": agg.min("i"),
    "high int": agg.max("i"),
}


@given(
    window=windows,
    seed=st.integers(0, 2**32 - 1),
    made=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    block=st.sampled_from([300, 600, 1000, 2000, 5000]),
    names=st.sampled_from([["s"], ["m"], ["s", "m"]])
    | st.lists(st.sampled_from([*AGGREGATES]), min_size=1, max_size=3, unique=True),
    reopened=st.integers(0, 3),
)
def test_any_stream(window, seed, made, block, names, reopened):
    data, cuts = rows_of(seed, *made)
    spec = window.agg(**{name: AGGREGATES[name] for name in names})
    plain, store = spec.stream(), MemoryStore()

    def opened():
        return spec.stream(memory=8 * block + 8192, store=store, block=block, name="w")

    op = opened()
    for number, (start, stop) in enumerate(pairwise(cuts)):
        rows = {name: column[start:stop] for name, column in data.items()}
        assert_same(op.push(rows), plain.push(rows))
        if reopened and number % 5 == reopened:
            op.flush()
            op = opened()
    assert_same(op.finish(), plain.finish())


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name, values in want.items():
        assert bits(got[name]) == bits(values)


def bits(values):
    """All NaN, and null, are one."""
    mask = np.ma.getmaskarray(values)
    if values.dtype.kind == "f":
        mask = mask | np.isnan(np.ma.getdata(values))
    return mask.tobytes(), np.where(mask, 0, np.ma.getdata(values)).tobytes()
