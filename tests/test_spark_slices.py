"""``apply(..., slices=)``: one key on several workers, and the doubles of one."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import mta
from mta import agg
from mta.errors import SpecError

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytestmark = pytest.mark.spark

OF_WINDOW = {
    "n": agg.count(),
    "known": agg.count("x", nan="skip"),
    "total": agg.sum("x", numerics="exact"),
    "mean": agg.mean("x", numerics="exact", nan="skip", min_count=2),
    "ints": agg.sum("i"),
    "share": agg.mean("i"),
    "least": agg.min("x"),
    "most": agg.max("x", nan="greatest"),
    "first": agg.first("s"),
    "last": agg.last("i", order="x"),
    "at": agg.arg_max("s", by="x"),
    "back": agg.arg_min("i"),
    "middle": agg.median("i"),
    "kinds": agg.count_distinct("s"),
    "often": agg.mode("s"),
    "all": agg.list("i"),
    "run": agg.longest_run("i"),
}


def some_rows(seed, n=400):
    """Ties, leaps, times below zero, values that show every rounding, nulls; in any order."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([0, 0, 1, 2, 5, 40], n, p=[0.2, 0.2, 0.3, 0.2, 0.08, 0.02])
    t = np.cumsum(steps) - 150
    x = rng.normal(size=n) * 10.0 ** rng.integers(-12, 17, n)
    x[rng.random(n) < 0.05] = np.nan
    x[rng.random(n) < 0.02] = np.inf
    order = rng.permutation(n)
    return pa.table({
        "k": pa.array(rng.choice([None, "a", "a", "a", "b"], n), pa.string()),
        "t": t[order],
        "x": pa.array(x, mask=rng.random(n) < 0.1),
        "i": pa.array(rng.integers(-50, 50, n), mask=rng.random(n) < 0.1),
        "s": pa.array(rng.choice(["u", "v", "w"], n), mask=rng.random(n) < 0.1),
        "row": np.arange(n),
    })  # fmt: skip


def assert_sliced(spark, spec, table, slices, kind="bigint"):
    frame = spark.createDataFrame(table).coalesce(1)  # rows arrive in their order
    if kind == "timestamp_ntz":  # the session's zone is UTC
        frame = frame.withColumn("t", frame["t"].cast(kind))
    answered = spark_bridge.apply(spec, frame, slices=slices)
    assert answered.columns == [*table.column_names, *(name for name, _ in spec.aggs)]
    got = answered.toArrow().sort_by("row")
    wanted = spec(table)
    assert repr(got.select(table.column_names).to_pylist()) == repr(table.to_pylist())
    for name in wanted.column_names:
        assert repr(got[name].to_pylist()) == repr(wanted[name].to_pylist()), name


@pytest.mark.parametrize(
    ("slices", "by", "options"),
    [
        ("50i", "k", {}),
        ("7i", None, {}),  # far shorter than the range
        ("23i", "k", {"closed": "both"}),
        ("23i", None, {"closed": "left", "ties": "arrival"}),
        ("30i", "k", {"closed": "neither", "lag": "5i"}),
        ("30i", "k", {"closed": "both", "lag": "-45i"}),  # rows to come
        ("40i", None, {"lag": "-8i"}),  # on both sides
        ("60i", "k", {"ties": "arrival", "lag": "60i"}),
        ("1000i", "k", {"closed": "both"}),  # one slice below zero, one above
    ],
)
def test_answers_are_those_of_whole_keys(spark, slices, by, options):
    spec = mta.rolling("25i", on="t", by=by, **options).agg(**OF_WINDOW)
    assert_sliced(spark, spec, some_rows(len(slices) + len(options)), slices)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_times_and_dates(spark, kind):
    table = some_rows(3, 150)
    column = (np.asarray(table["t"]) * (1 if kind == "date" else 3_600_000_000)).tolist()
    if kind == "date":
        times = pa.array(column, pa.int32()).cast(pa.date32())
    else:
        times = pa.array(column, pa.timestamp("us", "UTC" if kind == "timestamp" else None))
    table = table.set_column(1, "t", times)
    spec = mta.rolling("36h", on="t", by="k", closed="both").agg(
        n=agg.count(), ints=agg.sum("i"), last=agg.last("s")
    )
    assert_sliced(spark, spec, table, "3d", kind)


def test_several_specs_with_a_name_that_is_syntax(spark):
    table = some_rows(9, 200).rename_columns(["k.k", "t`", "x", "i", "s", "row"])
    week = mta.rolling("60i", on="t`", by="k.k").agg(a=agg.max("x"))
    day = mta.rolling("9i", on="t`", by="k.k", lag="-2i").agg(b=agg.count())
    frame = spark.createDataFrame(table).coalesce(1)
    got = spark_bridge.apply([week, day], frame, slices="20i").toArrow().sort_by("row")
    for spec, name in ((week, "a"), (day, "b")):
        assert repr(got[name].to_pylist()) == repr(spec(table)[name].to_pylist())


def test_times_at_both_ends_of_64_bits(spark):
    edge = 2**63
    times = [-edge, -edge + 1, -1, 0, edge - 2, edge - 1]
    table = pa.table({"t": times, "row": range(6)})
    assert_sliced(spark, mta.rolling("4i", on="t", lag="-2i").agg(n=agg.count()), table, "3i")


def test_a_null_time_is_found_by_name(spark):
    frame = spark.createDataFrame([(1,), (None,)], "t bigint")
    answered = spark_bridge.apply(mta.rolling("2i", on="t").agg(n=agg.count()), frame, slices="9i")
    with pytest.raises(Exception, match="on: column 't' is null"):
        answered.collect()


def test_what_can_not_be_sliced(spark):
    now = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    sdf = spark.createDataFrame([(1, now, 1.0)], "t bigint, ts timestamp, x double")
    hour = mta.rolling("1h", on="ts")

    def refused(spec, slices, text, frame=sdf):
        for call in (spark_bridge.apply, spark_bridge.explain):
            with pytest.raises(SpecError, match=text):
                call(spec, frame, slices=slices)

    for rounded in (agg.sum("x"), agg.mean("x"), agg.std("x"), agg.sum("x", numerics="fast"),
                    agg.var("t"), agg.product("x"), agg.corr("x", "t")):  # fmt: skip
        refused(hour.agg(a=rounded), "1d", "slices: a: the last bits of")
    refused(hour.agg(a=agg.sum("x")), "1d", "numerics='exact' does not")
    refused(mta.rolling(5, on="ts").agg(n=agg.count()), "1d", "slices: a window of rows")
    refused(mta.rolling(None, on="ts").agg(n=agg.count()), "1d", "slices: a window of rows")
    refused(mta.rolling("1h", on="ts", every=2).agg(n=agg.count()), "1d", "slices: rows are")
    count = hour.agg(n=agg.count())
    for wrong in ("0h", "-1h", "5i", "1ns"):
        refused(count, wrong, "slices: column 'ts' takes a length of whole microseconds")
    refused(count, "month", "slices: ")
    refused(mta.rolling("5i", on="t").agg(n=agg.count()), "1h", "whole ticks, like '3600i'")
    refused(mta.tumbling("1h", on="ts").agg(n=agg.count()), "1d", "of trailing windows only")


def test_explain_shows_slices(spark):
    sdf = spark.createDataFrame([], "k string, ts timestamp, x double")
    spec = mta.rolling("1h", on="ts", by="k").agg(m=agg.max("x"))
    told = spark_bridge.explain(spec, sdf, slices="6h")
    assert "slices   of 6h" in told and "repartition(k, slice)" in told
