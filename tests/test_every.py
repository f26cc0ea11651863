"""Slide by tuples: an answer after every n rows of a key, by rank in time or by arrival."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import KINDS, build, read
from mta import agg
from oracle import group_of, in_order
from strategies import NUMERIC, data, engine_spec, rollings


def picked(sample, spec, every, every_by):
    """The rows that are answered, counted key by key."""
    rows = range(len(sample.rows))
    if every_by == "rank":
        rows = in_order(sample.rows, spec.on)
    counts, found = {}, []
    for row in rows:
        key = group_of(sample.rows[row], spec.by)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] % every == 0:
            found.append(row)
    return sorted(found)


@given(
    data(max_size=20), rollings(NUMERIC), st.sampled_from(KINDS), st.integers(1, 4),
    st.sampled_from(["rank", "arrival"]),
)  # fmt: skip
def test_answers_are_those_of_every_row_at_some_rows(sample, spec, kind, every, every_by):
    # Of answers whose bits depend on which windows were answered before, those that count do here.
    whole = replace(engine_spec(spec), aggs=()).agg(n=agg.count("x"), i=agg.list("i"))
    frame = build(kind, sample.columns)
    everything = read(whole(frame))
    some = replace(whole, every=every, every_by=every_by)
    rows = picked(sample, spec, every, every_by)
    got = read(some(frame))
    assert [(row["n"], row["i"]) for row in got] == [
        (everything[i]["n"], everything[i]["i"]) for i in rows
    ]
    if spec.on is not None:
        assert [row["t"] for row in got] == [sample.rows[i]["t"] for i in rows]


@pytest.mark.parametrize("every_by", ["rank", "arrival"])
def test_threads_give_the_same(every_by):
    rng = np.random.default_rng(3)
    n = 50_000
    frame = {"t": rng.integers(0, 9000, n), "k": rng.integers(0, 3, n), "x": rng.normal(size=n)}
    spec = mta.rolling("90i", on="t", by="k", every=3, every_by=every_by)
    spec = spec.agg(s=agg.sum("x"), d=agg.std("x"))
    one, two = spec(frame), spec(frame, threads=2)
    for name, column in one.items():
        np.testing.assert_array_equal(column, two[name])
    assert len(one["s"]) == sum(np.bincount(frame["k"]) // 3)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(2, 200), st.booleans()
)  # fmt: skip
def test_a_stream_counts_on_where_rows_between_answers_are_gone(seed, length, every, timed):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(50, 900))
    nulls = (
        np.arange(rows) // 40 % 3 == 1
    )  # stretches with none, so that there are no marks to keep
    x = np.ma.masked_array(rng.integers(0, 9, rows), nulls & (rng.random(rows) < 0.7))
    data = {"t": np.cumsum(rng.integers(0, 3, rows)), "x": x}
    window = mta.rolling(f"{length}i" if timed else length, on="t", every=every)
    spec = window.agg(n=agg.count("x"), mean=agg.mean("x"), sum=agg.sum("x", numerics="exact"))
    op, cuts = spec.stream(), [0, *np.sort(rng.integers(0, rows, 5)).tolist(), rows]
    pushed = [op.push({k: v[a:b] for k, v in data.items()}) for a, b in pairwise(cuts)]
    pushed.append(op.finish())
    whole = spec(data)
    for name in ("n", "mean", "sum"):
        got = np.ma.concatenate([made[name] for made in pushed])
        np.testing.assert_array_equal(got.filled(-1), np.ma.filled(whole[name], -1))
