"""Windows by number over sorted rows cut anywhere: the batch's answers, to the last bit.

This is what runs in Spark's Python workers, without Spark around it.
"""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import DataError

periods = pytest.importorskip("spark_bridge.periods", reason="the [spark] extra is not installed")

FREE = {
    "n": agg.count(),
    "total": agg.sum("x"),
    "mean": agg.mean("i", min_count=2),
    "least": agg.min("x", nan="greatest"),
    "most": agg.max("i"),
}
ORDERED = {
    "sd": agg.std("x"),
    "first": agg.first("s"),
    "middle": agg.median("i"),
    "often": agg.mode("s"),
    "all_of_it": agg.list("i"),
    "back": agg.arg_max("i"),
}
VALUES = st.sampled_from([None, 0.1, 0.2, 1e16, -1e16, 3.0, float("nan"), float("inf"), -0.0])


@st.composite
def tables(draw):
    """Rows in order of key and time; times on both sides of zero, with ties and leaps."""
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from([None, "a", "b"]),
                st.one_of(st.integers(-12, 12), st.integers(-300, 300)),
                VALUES,
                st.one_of(st.none(), st.integers(-5, 5)),
                st.sampled_from([None, "x", "y"]),
            ),
            max_size=30,
        )
    )
    rows.sort(key=lambda row: (row[0] or "", row[1]))
    k, t, x, i, s = zip(*rows, strict=True) if rows else ((),) * 5
    return pa.table({
        "k": pa.array(k, pa.string()), "t": pa.array(t, pa.int64()),
        "x": pa.array(x, pa.float64()), "i": pa.array(i, pa.int64()),
        "s": pa.array(s, pa.string()),
    })  # fmt: skip


@st.composite
def specs(draw):
    """Specs of every kind over an integer time."""
    by = draw(st.sampled_from([None, "k"]))
    closed = draw(st.sampled_from(["left", "right"]))
    origin = draw(st.sampled_from([None, 3, -20, "first"]))
    slide = draw(st.integers(1, 15))
    if draw(st.booleans()):
        spec = mta.landmark(f"{slide}i", on="t", by=by, closed=closed, origin=origin)
    else:
        empty = draw(st.sampled_from(["skip", "emit"]))
        length = draw(st.integers(1, 30))
        spec = mta.hopping(
            f"{length}i", f"{slide}i", on="t", by=by, closed=closed, origin=origin, empty=empty
        )
    return spec.agg(**draw(st.sampled_from([FREE, ORDERED, FREE | ORDERED])))


def told(spec, table):
    """The columns of times that Spark is asked for, as they stand beside every row."""
    asked, times = periods.Told.of(spec), table.column(spec.on)
    values = [
        *([times[0]] if asked.first else []),
        *([max(times.to_pylist())] if asked.last else []),
    ]
    for number, value in enumerate(values):
        column = pa.array([getattr(value, "as_py", lambda v=value: v)()] * len(table), times.type)
        table = table.append_column(f"told{number}", column)
    return table


def in_batches(spec, table, cuts):
    """The answers where the rows come cut at these places; None: there were none."""
    names, given_table = table.column_names, told(spec, table) if len(table) else table
    batches = [
        batch
        for start, stop in pairwise([0, *sorted(cuts), len(table)])
        for batch in given_table.slice(start, stop - start).combine_chunks().to_batches()
    ]
    made = list(periods.answer_periods(spec, names, iter(batches)))
    return pa.Table.from_batches(made) if made else None


def assert_same(spec, table, cuts):
    if not spec.by:
        order = np.argsort(table.column(spec.on).to_numpy(), kind="stable")
        table = table.take(pa.array(order))
    got, want = in_batches(spec, table, cuts), spec(table)
    if got is None:
        assert not len(want)
        return
    assert got.schema.names == want.schema.names
    assert got.schema.types == want.schema.types
    assert list(map(repr, got.to_pylist())) == list(map(repr, want.to_pylist()))


@given(tables(), specs(), st.data())
def test_any_cuts(table, spec, draw):
    cuts = draw.draw(st.lists(st.integers(0, len(table)), max_size=5))
    assert_same(spec, table, cuts)


@given(tables(), specs())
def test_row_by_row(table, spec):
    assert_same(spec, table, range(1, len(table)))


@given(tables(), specs(), st.integers(1, 8), st.data())
def test_few_windows_at_a_time(table, spec, most, draw):
    """However few may be answered at once, and where one row is in more than that."""
    before, periods.MOST_WINDOWS = periods.MOST_WINDOWS, most
    try:
        assert_same(spec, table, draw.draw(st.lists(st.integers(0, len(table)), max_size=3)))
    finally:
        periods.MOST_WINDOWS = before


@given(
    st.lists(st.integers(-40 * 365, 40 * 365), max_size=12),
    st.sampled_from(["1 day", "2 weeks", "1 month", "1 year"]),
    st.sampled_from([None, "Europe/Paris", "America/New_York"]),
    st.sampled_from(["left", "right"]),
    st.sampled_from(["skip", "emit"]),
    st.lists(st.integers(0, 12), max_size=4),
)
@example([0, 0, 31], "1 month", "Europe/Paris", "right", "emit", [1, 2])
def test_calendars(days, period, zone, closed, empty, cuts):
    times = sorted(86_400_000_000 * day for day in days)
    table = pa.table({
        "t": pa.array(times, pa.timestamp("us", "UTC")),
        "x": pa.array([0.1 * place for place in range(len(times))], pa.float64()),
    })  # fmt: skip
    spec = mta.calendar(period, tz=zone, on="t", closed=closed, empty=empty, at="6h")
    spec = spec.agg(n=agg.count(), total=agg.sum("x"), sd=agg.std("x"))
    assert_same(spec, table, [cut for cut in cuts if cut <= len(times)])


def test_days_of_dates():
    table = pa.table({"d": [dt.date(2024, 3, 30), dt.date(2024, 3, 31), dt.date(2024, 3, 31)]})
    spec = mta.calendar("1 day", tz="Europe/Paris", on="d").agg(n=agg.count())
    days = spec(table)
    assert days["n"].to_pylist() == [1, 2]
    # Midnight in UTC is 1 o'clock in Paris, then 2 o'clock as the day has lost an hour.
    assert days["end"].to_pylist()[1] == dt.datetime(2024, 3, 31, 22)
    got = in_batches(spec, table, [1])
    assert got["n"].to_pylist() == [1, 2] and got["end"].type == pa.timestamp("us")


@pytest.mark.parametrize("spec", [
    mta.hopping("50i", "10i", on="t").agg(s=agg.sum("x"), m=agg.median("x")),
    mta.landmark("1000i", on="t").agg(s=agg.sum("x"), m=agg.max("x")),
], ids=["hopping", "landmark"])  # fmt: skip
def test_memory_is_bounded_by_the_window_and_not_by_the_key(spec):
    run = periods.PeriodicRun(spec)
    run.tell([pa.array([99_999])])
    answered = 0
    for start in range(0, 100_000, 1000):
        rows = {"t": np.arange(start, start + 1000), "x": np.ones(1000)}
        answered += sum(len(made) for made in run.feed(pa.table(rows)))
        if isinstance(run.open, periods.KeyWindows):
            assert len(run.open.times) <= 60
            assert run.open.rows.end - run.open.rows.first <= 80
        else:
            assert run.open.panes.state()["partials"] <= 2
    answered += sum(len(made) for made in run.finish())
    assert answered == len(spec({"t": np.arange(100_000), "x": np.ones(100_000)})["s"])


def test_many_windows_of_few_rows_come_in_parts():
    spec = mta.landmark("1i", on="t", by="k").agg(n=agg.count())
    far = 3 * periods.MOST_WINDOWS
    table = pa.table({"k": [1, 2, 2, 3], "t": [0, 5, far, 7]})
    sizes = [
        len(batch)
        for batch in periods.answer_periods(spec, ["k", "t"], iter(told(spec, table).to_batches()))
    ]
    assert sum(sizes) == 3 * (far + 1) - 12
    assert max(sizes) <= periods.MOST_WINDOWS


def test_an_overflow_names_the_window():
    spec = mta.tumbling("10i", on="t").agg(s=agg.sum("i"))
    table = pa.table({"t": [1, 11, 12], "i": [1, 2**62, 2**62]})
    for cuts in ([], [2]):
        with pytest.raises(OverflowError, match=r"s: .* that ends at 20 "):
            in_batches(spec, table, cuts)


def test_a_null_time_fails_the_partition_by_name():
    spec = mta.tumbling("5i", on="t").agg(n=agg.count())
    with pytest.raises(DataError, match="'t'"):
        in_batches(spec, pa.table({"t": pa.array([1, 2, None], pa.int64())}), [1])
