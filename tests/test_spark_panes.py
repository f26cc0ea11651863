"""Panes before the shuffle over times, dates and clocks of every kind: the answers of the rows."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")

from pyspark.sql import types as T  # noqa: E402

from spark_bridge.pane_axis import PaneAxis  # noqa: E402
from spark_streams import session_with  # noqa: E402
from test_spark_periods import in_order  # noqa: E402

HOUR = 3_600_000_000
KINDS = {
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
}
AGGS = {
    "n": agg.count(),
    "total": agg.sum("j"),
    "mean": agg.mean("j", min_count=2),
    "least": agg.min("x"),
    "most": agg.max("x", nan="greatest"),
}
# Hours at which clocks of some zone were changed; before 1970 and after 2099, too.
TURNS = [
    dt.datetime(2024, 3, 10, 7), dt.datetime(2024, 11, 3, 6), dt.datetime(2024, 3, 31, 1),
    dt.datetime(2024, 4, 6, 15), dt.datetime(1900, 1, 1), dt.datetime(1883, 11, 18, 17),
    dt.datetime(2099, 12, 31, 23), dt.datetime(2101, 1, 2), dt.datetime(1969, 12, 31, 23),
]  # fmt: skip


def micros(stamp):
    return (stamp - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


def rows_of(kind, n=500, seed=7):
    """Times at, just before and just after the full hours near turns; ties, nulls, NaN."""
    rng = np.random.default_rng(seed)
    around = np.array([micros(stamp) for stamp in TURNS])[rng.integers(0, len(TURNS), n)]
    ticks = around + rng.integers(-60, 60, n) * HOUR // 2 + rng.choice([0, 0, 1, -1, 7_777_777], n)
    x = rng.choice([0.0, -0.0, 1.5, -3.25, float("nan")], n)
    times = pa.array(ticks // (24 * HOUR), pa.int32()) if kind == "date" else pa.array(ticks)
    return pa.table({
        "k": pa.array(rng.choice(["a", "b", None], n)),
        "t": times.cast(KINDS[kind]),
        "x": pa.array(x, mask=rng.random(n) < 0.1),
        "j": pa.array(rng.integers(-9, 9, n), mask=rng.random(n) < 0.1),
    })  # fmt: skip


@pytest.fixture
def another_zone(spark):
    """A session whose clock leaves out hours, and goes through others twice."""
    with session_with(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        yield


def as_columns(table):
    """The rows with their times as numbers, whatever the zone of the session."""
    names = [n for n in ("start", "end", "t") if n in table.column_names]
    for name in names:
        column = table[name]
        if pa.types.is_date(column.type):
            number = column.cast(pa.int32())
        else:
            number = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        table = table.set_column(table.column_names.index(name), name, number)
    return table


def as_texts(table):
    """Times without a zone as texts, which Spark reads as they stand."""
    texts = pa.array([t.isoformat(" ") for t in table["t"].to_pylist()])
    return table.set_column(table.column_names.index("t"), "t", texts)


def assert_same(spark, spec, table, kind):
    sdf = spark.createDataFrame(as_texts(table) if kind == "timestamp_ntz" else table)
    sdf = sdf.withColumn("t", sdf["t"].cast(kind))
    assert "plan     panes" in spark_bridge.explain(spec, sdf, plan="panes")
    want = in_order(as_columns(spec(table)), spec.by)
    for plan in ("panes", "rows"):
        got = spark_bridge.apply(spec, sdf, plan=plan).toArrow()
        assert in_order(as_columns(got), spec.by) == want, plan


CALENDARS = {
    "days": mta.calendar("1 day", tz="America/New_York", on="t", by="k"),
    "right": mta.calendar("1 day", tz="Australia/Lord_Howe", on="t", closed="right", at="-3h"),
    "weeks": mta.calendar("2 weeks", tz="Europe/Paris", on="t", by="k", at="2h30m"),
    "months": mta.calendar("month", tz="Asia/Kathmandu", on="t", empty="skip"),
}


@pytest.mark.spark
@pytest.mark.usefixtures("another_zone")
@pytest.mark.parametrize("name", CALENDARS)
def test_calendars_of_zones(spark, name):
    for kind in ("timestamp", "timestamp_ntz") if name == "right" else ("timestamp",):
        assert_same(spark, CALENDARS[name].agg(**AGGS), rows_of(kind), kind)


PLAIN = {
    "timestamp_ntz": [
        mta.hopping("1h", slide="25m", on="t", by="k", origin="7us", closed="right"),
        mta.landmark("5000h", on="t", by="k"),
    ],
    "date": [
        mta.hopping("36h", slide="12h", on="t", by="k", closed="right"),
        mta.calendar("month", tz="Asia/Tokyo", on="t", closed="right"),
        mta.landmark("30000h", on="t", by="k", origin="-1h"),
    ],
}


@pytest.mark.spark
@pytest.mark.usefixtures("another_zone")
@pytest.mark.parametrize("kind", PLAIN)
def test_clock_times_and_dates(spark, kind):
    for spec in PLAIN[kind]:
        assert_same(spark, spec.agg(**AGGS), rows_of(kind, 150), kind)


@pytest.mark.spark
def test_float_keys_are_those_of_the_first_row(spark):
    """Zeros of both signs are one key, NaN of all bits another; what came first is shown."""
    rng = np.random.default_rng(1)
    odd = np.uint64(0xFFF8000000000001).view(np.float64)
    keys = np.array([0.0, -0.0, float("nan"), odd, 1.0])[rng.integers(0, 5, (2, 300))]
    table = pa.table({
        "k": pa.array(keys[0], pa.float64(), mask=rng.random(300) < 0.1, from_pandas=False),
        "f": pa.array(keys[1].astype(np.float32), pa.float32(), from_pandas=False),
        "t": rng.integers(-20, 20, 300),
        "j": rng.integers(0, 9, 300),
    })  # fmt: skip
    sdf = spark.createDataFrame(table).coalesce(1)  # rows arrive in their order
    signs = set()
    for by in ("k", ("f", "k")):
        spec = mta.hopping("6i", slide="4i", on="t", by=by).agg(n=agg.count(), s=agg.sum("j"))
        got, want = spark_bridge.apply(spec, sdf, plan="panes").toArrow(), spec(table)
        assert in_order(got, spec.by) == in_order(want, spec.by)
        signs |= {repr(key) for key in got["k"].to_pylist()}
    assert {"0.0", "-0.0"} <= signs


@settings(max_examples=40)
@given(
    st.sampled_from(["America/New_York", "Australia/Lord_Howe", "Africa/Monrovia", "Asia/Kolkata",
                     "America/St_Johns", "Pacific/Apia", "Europe/London", "Asia/Gaza"]),
    st.sampled_from(["1 day", "week", "month", "quarter", "5 years", "200 years"]),
    st.sampled_from([None, "-90m", "1us"]),
    st.integers(-(10**10), 10**10),
)  # fmt: skip
def test_every_edge_of_a_calendar_begins_a_pane(zone, period, at, second):
    spec = mta.calendar(period, tz=zone, at=at, on="t")
    axis = PaneAxis.of(spec, T.TimestampType())
    _, edges = spec.clock("us").edges(second * 10**6, second * 10**6)
    for edge in edges:
        if axis.years is None:
            assert axis.length == 1
        elif axis.years[0] <= edge < axis.years[1]:
            assert (edge - axis.origin) % axis.length == 0
    assert axis.length == 1 or axis.length >= 15 * 10**6


def test_panes_are_as_long_as_the_clock_lets_them():
    def hours(tz, period="1 day"):
        return PaneAxis.of(mta.calendar(period, tz=tz, on="t"), T.TimestampType()).length / HOUR

    assert hours("America/New_York") == 1
    assert hours("Australia/Lord_Howe") == 0.5
    assert hours("Asia/Tokyo") == 24 and hours("Asia/Tokyo", "week") == 168
    assert hours("UTC", "month") == 24
