"""Sorted rows cut anywhere into batches: the same answers, to the last bit of every double.

This is what runs in Spark's Python workers, without Spark around it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import build
from mta import agg
from mta.errors import DataError
from oracle import Agg, group_of
from strategies import data, engine_spec, rollings

worker = pytest.importorskip("spark_bridge.worker", reason="the [spark] extra is not installed")

MORE = {
    "shared": Agg("std", "x", 2),
    "skipped": Agg("count", "x", nan="skip"),
    "sum": Agg("sum", "x"),
    "ints": Agg("mean", "i"),
}


def sorted_table(sample, spec):
    """The rows by (key, time, arrival), as they come from Spark's sort."""
    groups = list(dict.fromkeys(group_of(row, spec.by) for row in sample.rows))

    def place(i):
        row = sample.rows[i]
        return groups.index(group_of(row, spec.by)), row[spec.on] if spec.on else 0, i

    order = sorted(range(len(sample.rows)), key=place)
    columns = {n: (t, [values[i] for i in order]) for n, (t, values) in sample.columns.items()}
    return build("pyarrow", columns)


def in_batches(spec, table, cuts):
    """The answers where the table comes cut at the given rows."""
    edges = [0, *sorted(cuts), len(table)]
    batches = [
        batch
        for start, stop in pairwise(edges)
        for batch in table.slice(start, stop - start).combine_chunks().to_batches()
    ]
    made = list(worker.answer_batches(spec, table.column_names, iter(batches)))
    names = [*table.column_names, *(name for name, _ in spec.aggs)]
    result = pa.Table.from_batches(made) if made else None
    assert result is None or result.column_names == names
    return result


def assert_same(spec, table, cuts):
    result = in_batches(spec, table, cuts)
    whole = spec(table)
    if result is None:
        assert not len(table)
        return
    assert repr(result.select(table.column_names).to_pylist()) == repr(table.to_pylist())
    got = result.select(whole.column_names)
    assert got.schema.types == whole.schema.types
    assert list(map(repr, got.to_pylist())) == list(map(repr, whole.to_pylist()))


@given(data(max_size=40), rollings(), st.data())
def test_any_cuts(sample, spec, draw):
    spec = spec._replace(aggs={**spec.aggs, **MORE})
    table = sorted_table(sample, spec)
    cuts = draw.draw(st.lists(st.integers(0, len(table)), max_size=12))
    assert_same(engine_spec(spec), table, cuts)


@given(data(max_size=16, keys=("string", "float64")), rollings())
def test_every_row_a_batch_of_its_own(sample, spec):
    spec = spec._replace(aggs={**spec.aggs, **MORE})
    table = sorted_table(sample, spec)
    assert_same(engine_spec(spec), table, range(len(table)))


@pytest.mark.parametrize("size", [7, 64, 1000])
@pytest.mark.parametrize("by", [None, "k"])
def test_long_keys(size, by):
    """Windows far longer and far shorter than a batch, over values that show every rounding."""
    rng = np.random.default_rng(size)
    n = 3000
    table = pa.table(
        {
            "k": np.sort(rng.integers(0, 5, n)) if by else np.zeros(n, np.int64),
            "t": np.zeros(n, np.int64),
            "x": rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, n),
        }
    )
    times = np.cumsum(rng.integers(0, 4, n)) * 1_000
    table = table.set_column(1, "t", pa.array(times).cast(pa.timestamp("us")))
    aggs = {fn: getattr(agg, fn)("x") for fn in ("count", "sum", "mean", "min", "max", "std")}
    cuts = range(0, n, size)
    for spec in (
        mta.rolling("500ms", on="t", by=by),
        mta.rolling("10ms", on="t", by=by, closed="left", ties="arrival"),
        mta.rolling("20ms", on="t", by=by, lag="-35ms", closed="both"),
        mta.rolling(300, on="t", by=by, lag=2),
        mta.rolling(None, on="t", by=by),
    ):
        assert_same(spec.agg(**aggs), table, cuts)


def test_memory_is_bounded_by_the_window_and_not_by_the_key():
    """One key of many batches: what waits between batches stays small."""
    spec = mta.rolling("50i", on="t").agg(s=agg.sum("x"), m=agg.max("x"))
    run = worker.SortedRun(spec)
    for start in range(0, 100_000, 1000):
        rows = {"t": np.arange(start, start + 1000), "x": np.ones(1000)}
        list(run.feed(pa.table(rows)))
        lane = run.lanes[0]
        assert lane.ready == 0
        assert lane.track.received - lane.track.answered <= 1
        assert len(lane.track.times) <= 80
        assert lane.track.rows.end - lane.track.rows.first <= 80


def test_a_null_time_fails_the_partition_by_name():
    spec = mta.rolling("5i", on="t").agg(n=agg.count())
    table = pa.table({"t": pa.array([1, 2, None], pa.int64())})
    with pytest.raises(DataError, match="'t'"):
        in_batches(spec, table, [1])
