"""``spark_bridge.apply`` on real Spark: the same answers and types, and nothing else changed.

Batches cut anywhere need no Spark and are in test_chunking.py; the shared cases run here too.
"""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

import mta
from kinds import build, read
from mta import agg
from mta.errors import ColumnError, DataError, SpecError

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytestmark = pytest.mark.spark

UTC = dt.timezone.utc


def collected(frame, order="row"):
    """The rows of a Spark DataFrame as a table, in the order of a column."""
    return frame.toArrow().sort_by(order)


def numbered(table):
    return table.append_column("row", pa.array(range(len(table))))


@pytest.fixture
def conf(spark):
    """Set options of the session for one test."""
    before = {}

    def put(name, value):
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield put
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


# ---- functions of the user --------------------------------------------------------------------


def test_a_users_monoid_is_answered_as_here(spark):
    """Compiled; and in Python, where the type of its answers has to be said."""
    rng = np.random.default_rng(5)
    k = rng.integers(0, 3, 500)
    table = numbered(pa.table({"k": k, "x": rng.normal(size=500), "i": rng.integers(0, 9, 500)}))
    fall = agg.monoid(
        lambda x: (x, x, 0.0),
        lambda a, b: (max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2], a[0] - b[1])),
        lambda p: p[2],
        zero=(-np.inf, np.inf, 0.0),
    )
    kinds = agg.monoid(lambda i, x: {i}, lambda a, b: a | b, len, zero=set, gives="int")
    spec = mta.rolling("20i", on="row", by="k").agg(fall=fall("x"), kinds=kinds("i", "x"))
    answered = spark_bridge.apply(spec, spark.createDataFrame(table))
    assert dict(answered.dtypes)["fall"] == "double"
    assert dict(answered.dtypes)["kinds"] == "bigint"
    assert collected(answered).select(["fall", "kinds"]).equals(spec(table))


def test_a_users_monoid_in_python_says_what_it_gives(spark):
    kinds = agg.monoid(lambda i: {i}, lambda a, b: a | b, len, zero=set)
    with pytest.raises(SpecError, match=r"kinds: Spark has to know the type.*gives='float'"):
        spark_bridge.apply(mta.rolling(2).agg(kinds=kinds("id")), spark.range(2))


# ---- types -----------------------------------------------------------------------------------

SMALL = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "bool": "boolean",
    "date": "date",
    "timestamp[us, UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
    "duration[us]": "interval day to second",
}


@pytest.mark.parametrize("type_", SMALL)
def test_extremes_keep_the_type_of_their_column(spark, type_):
    values = [True, None, False, True] if type_ == "bool" else [5, None, 3, 4]
    table = numbered(build("pyarrow", {"v": (type_, values)}))
    spec = mta.rolling(2, on="row").agg(
        lo=agg.min("v"), hi=agg.max("v"), n=agg.count("v"), before=agg.min("v", min_count=2)
    )
    sdf = spark.createDataFrame(table)
    if type_ == "timestamp[us]":  # Spark gives it the zone of the session
        sdf = sdf.withColumn("v", sdf["v"].cast("timestamp_ntz"))
    answered = spark_bridge.apply(spec, sdf)
    types = dict(answered.dtypes)
    assert types["lo"] == types["hi"] == types["before"] == types["v"] == SMALL[type_]
    assert collected(answered).select(["lo", "hi", "n", "before"]).to_pylist() == read(spec(table))


def test_sums_and_means_are_wide(spark):
    table = numbered(build("pyarrow", {
        "i": ("int8", [100, 100, None]), "f": ("float32", [0.5, None, 1.0]),
        "b": ("bool", [True, True, None]),
    }))  # fmt: skip
    aggs = {f"{fn}_{c}": getattr(agg, fn)(c) for fn in ("sum", "mean", "std") for c in "ifb"}
    spec = mta.rolling(2, on="row").agg(**aggs)
    answered = spark_bridge.apply(spec, spark.createDataFrame(table))
    types = dict(answered.dtypes)
    assert (types["sum_i"], types["sum_f"], types["sum_b"]) == ("bigint", "double", "bigint")
    assert {types[n] for n in aggs if not n.startswith("sum")} == {"double"}
    assert collected(answered).select(list(aggs)).to_pylist() == read(spec(table))


# ---- keys ------------------------------------------------------------------------------------


def test_zeros_and_nans_of_any_bits_are_one_key_each(spark):
    """Also where they come from several partitions, in mixed order of time."""
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x7FF8000000000000], np.uint64)
    keys = [0.0, -0.0, *odd.view(np.float64), None, 1.5, -0.0, 0.0, math.nan, None, 0.0]
    times = [5, 4, 3, 9, 1, 2, 2, 8, 7, 6, 5, 0]
    table = numbered(pa.table({
        "k": pa.array(keys, pa.float64(), from_pandas=False), "t": times, "x": [1.0] * len(keys),
    }))  # fmt: skip
    spec = mta.rolling("4i", on="t", by="k").agg(n=agg.count(), s=agg.sum("x"))
    expected = read(spec(table))
    for parts in (1, 2, 5):
        frame = spark.createDataFrame(table).repartition(parts)
        got = collected(spark_bridge.apply(spec, frame))
        assert got.select(["n", "s"]).to_pylist() == expected
    narrow = table.set_column(0, "k", table["k"].cast(pa.float32()))
    got = collected(spark_bridge.apply(spec, spark.createDataFrame(narrow).repartition(2)))
    assert got.select(["n", "s"]).to_pylist() == expected


@pytest.mark.parametrize(
    "type_", ["int64", "string", "float64", "bool", "date", "timestamp[us, UTC]"]
)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_keys_of_every_type_in_batches_of_every_size(spark, conf, type_, size):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", str(size))
    pool = {"string": ["", "a", "b", None], "float64": [0.5, math.nan, None, 7.0],
            "bool": [True, False, None, True]}.get(type_, [0, 3, None, -5])  # fmt: skip
    keys = [pool[i % 4] for i in range(40)]
    times = [(i * 7) % 23 for i in range(40)]
    columns = {
        "k": (type_, keys),
        "t": ("int64", times),
        "x": ("float64", [0.1 * i for i in times]),
    }
    table = numbered(build("pyarrow", columns))
    spec = mta.rolling("6i", on="t", by="k").agg(n=agg.count(), s=agg.sum("x"), sd=agg.std("x"))
    got = collected(spark_bridge.apply(spec, spark.createDataFrame(table)))
    assert got.select(["n", "s", "sd"]).to_pylist() == read(spec(table))


# ---- times -----------------------------------------------------------------------------------

STAMPS = [
    dt.datetime(2024, 3, 10, 6, 59, 59, 999_999, UTC),  # around the hour that New York skips
    dt.datetime(2024, 3, 10, 7, 0, 0, 0, UTC),
    dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC),  # and the one that comes twice
    dt.datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    dt.datetime(1900, 1, 1, tzinfo=UTC),
]


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "America/New_York", "Asia/Kolkata"])
def test_timestamps_in_any_zone_of_the_session(spark, conf, zone):
    """Instants decide, and every time comes back as it went in, also from inside of structs."""
    conf("spark.sql.session.timeZone", zone)
    naive = [stamp.replace(tzinfo=None) for stamp in STAMPS]
    table = numbered(pa.table({
        "t": pa.array(STAMPS, pa.timestamp("us", "UTC")),
        "wall": pa.array(naive, pa.timestamp("us")),
        "day": pa.array([stamp.date() for stamp in naive]),
        "in_struct": pa.array([{"at": s, "name": "x"} for s in STAMPS],
                              pa.struct({"at": pa.timestamp("us", "UTC"), "name": pa.string()})),
        "in_list": pa.array([[s, None] for s in STAMPS], pa.list_(pa.timestamp("us", "UTC"))),
        "in_map": pa.array([[("a", s)] for s in STAMPS],
                           pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
    }))  # fmt: skip
    sdf = spark.createDataFrame(table)
    sdf = sdf.withColumn("wall", sdf["wall"].cast("timestamp_ntz"))
    before = sorted(sdf.collect(), key=lambda row: row["row"])
    for on in ("t", "wall"):
        spec = mta.rolling("1h", on=on).agg(
            n=agg.count(), last=agg.max("t"), wall_last=agg.max("wall")
        )
        answered = spark_bridge.apply(spec, sdf)
        after = sorted(answered.collect(), key=lambda row: row["row"])
        assert [row[: len(before[0])] for row in after] == [tuple(row) for row in before]
        assert answered.schema.fields[: len(sdf.schema.fields)] == sdf.schema.fields
        got = collected(answered).select(["n", "last", "wall_last"]).to_pylist()
        wanted = read(spec(table))
        assert [row | {"last": row["last"].astimezone(UTC)} for row in got] == [
            row | {"last": row["last"].astimezone(UTC)} for row in wanted
        ]


def test_dates_and_integers_are_times(spark):
    table = numbered(
        pa.table({"d": pa.array([3, 1, 2], pa.int32()).cast(pa.date32()), "i": [3, 1, 2]})
    )
    sdf = spark.createDataFrame(table)
    for spec in (mta.rolling("2d", on="d"), mta.rolling("36h", on="d"), mta.rolling("2i", on="i")):
        spec = spec.agg(s=agg.sum("i"))
        assert collected(spark_bridge.apply(spec, sdf))["s"].to_pylist() == [5, 1, 3]


def test_a_null_time_fails_the_job_by_name(spark):
    table = pa.table({"t": pa.array([1, None, 3], pa.int64())})
    answered = spark_bridge.apply(
        mta.rolling("2i", on="t").agg(n=agg.count()), spark.createDataFrame(table)
    )
    with pytest.raises(
        Exception, match=r"DataError: on: column 't' is null .*first of them: t=None"
    ):
        answered.collect()


# ---- what the input may look like --------------------------------------------------------------


def test_columns_of_any_type_and_name_are_carried_through(spark):
    sdf = spark.sql("""
        SELECT id AS `a.b`, id % 2 AS `key ``quoted```, named_struct('x', id, 'y', array(id)) AS s,
               map('k', id) AS m, CAST(id AS decimal(20, 3)) AS d, CAST(NULL AS binary) AS bin,
               CAST(id AS string) AS txt, INTERVAL '1' DAY AS day, CAST(NULL AS void) AS nothing,
               id AS c0, id AS __mta_arrival
        FROM range(7)
    """)
    spec = mta.rolling("3i", on="a.b", by="key `quoted`").agg(total=agg.sum("a.b"))
    answered = spark_bridge.apply(spec, sdf)
    assert answered.columns == [*sdf.columns, "total"]
    rows = sorted(answered.collect(), key=lambda row: row[0])
    assert [row["total"] for row in rows] == [0, 1, 2, 4, 6, 8, 10]
    assert [tuple(row)[:-1] for row in rows] == [
        tuple(row) for row in sdf.orderBy("`a.b`").collect()
    ]


def test_an_empty_frame(spark):
    sdf = spark.createDataFrame([], "k string, t timestamp, x double")
    spec = mta.rolling("1h", on="t", by="k").agg(n=agg.count(), s=agg.sum("x"))
    answered = spark_bridge.apply(spec, sdf)
    assert answered.columns == ["k", "t", "x", "n", "s"] and answered.collect() == []


def test_what_can_be_refused_before_the_job_runs(spark):
    sdf = spark.createDataFrame([("a", 1, 1.0)], "k string, t bigint, x double")
    rows = mta.rolling(3)
    with pytest.raises(ColumnError, match="'y'"):
        spark_bridge.apply(rows.agg(s=agg.sum("y")), sdf)
    with pytest.raises(ColumnError, match=r"told apart by case: 'x'\?"):
        spark_bridge.apply(rows.agg(s=agg.sum("X")), sdf)
    with pytest.raises(ColumnError, match=r"F\.col\('in\.y'\)\) makes it one"):
        spark_bridge.apply(rows.agg(s=agg.sum("in.y")), sdf.selectExpr("named_struct('y', x) in"))
    for twice in ({"X": agg.count()}, {"n": agg.count(), "N": agg.sum("x")}):
        with pytest.raises(SpecError, match="have one name"):
            spark_bridge.apply(rows.agg(**twice), sdf)
    with pytest.raises(ColumnError, match="'z'"):
        spark_bridge.apply(mta.rolling(3, by="z").agg(n=agg.count()), sdf)
    with pytest.raises(DataError, match="'k'"):
        spark_bridge.apply(rows.agg(s=agg.sum("k")), sdf)
    with pytest.raises(DataError, match="'k'"):
        spark_bridge.apply(mta.rolling("1h", on="k").agg(n=agg.count()), sdf)
    with pytest.raises(SpecError, match="'x'"):
        spark_bridge.apply(rows.agg(x=agg.count()), sdf)
    with pytest.raises(SpecError, match="agg"):
        spark_bridge.apply(rows, sdf)
    with pytest.raises(DataError, match="Spark DataFrame"):
        spark_bridge.apply(rows.agg(n=agg.count()), {"x": np.ones(3)})
    for range_, lag in (("1h", None), (None, "1h")):
        spec = mta.rolling(range_, on="t", lag=lag).agg(n=agg.count())
        with pytest.raises(SpecError, match="'t' holds integers"):
            spark_bridge.apply(spec, sdf)
    stamped = sdf.withColumn("t", sdf["t"].cast("timestamp"))
    with pytest.raises(SpecError, match="'t' holds times"):
        spark_bridge.apply(mta.rolling("5i", on="t").agg(n=agg.count()), stamped)


@pytest.mark.parametrize("kind", ["array<int>", "struct<a:int>", "map<int,int>"])
def test_keys_that_can_not_be_told_apart(spark, kind):
    sdf = spark.createDataFrame([], f"k {kind}")
    with pytest.raises(DataError, match="'k'"):
        spark_bridge.apply(mta.rolling(3, by="k").agg(n=agg.count()), sdf)
