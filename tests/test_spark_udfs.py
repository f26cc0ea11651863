"""``spark_bridge.udfs``: functions for plans of one's own give the doubles of the local engine."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import mta
from mta import agg
from mta.errors import DataError, SpecError
from mta.windows import interval
from mta.windows import wids as meant

pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
from pyspark.sql import Window
from pyspark.sql import functions as F

from spark_bridge import udfs
from spark_bridge.order import checked

UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1)
AGGS = {
    "s": agg.sum("x"), "m": agg.mean("x"), "sd": agg.std("x"), "n": agg.count("x"),
    "hi": agg.max("i"), "q": agg.median("x"), "f": agg.first("name"), "d": agg.count_distinct("i"),
}  # fmt: skip
ROLLING = mta.rolling("20s", on="ts", by="k").agg(**AGGS)
HOPPING = mta.hopping("20s", slide="7s", on="ts", by="k", closed="right").agg(**AGGS)


def sample(rows=300, seed=3):
    """Ties, nulls, times before and after 1970."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows) * 10.0 ** rng.integers(-3, 12, rows)
    ts = pa.array(rng.integers(-60, 60, rows) * 1_000_000, pa.timestamp("us", "UTC"))
    return pa.table({
        "k": pa.array(rng.choice(["a", "b", "c"], rows), mask=rng.random(rows) < 0.05),
        "ts": ts,
        "x": pa.array(x, mask=rng.random(rows) < 0.1),
        "i": rng.integers(0, 9, rows),
        "name": rng.choice(["p", "q"], rows),
        "row": range(rows),
    })  # fmt: skip


def rows_of(table, *by):
    """Python rows, told apart to the last bit, in an order of their own."""
    return list(map(repr, table.sort_by([(name, "ascending") for name in by]).to_pylist()))


def wanted(table):
    """The local answers beside their rows."""
    for name in AGGS:
        table = table.append_column(name, ROLLING(table.select(table.column_names[:6]))[name])
    return table


@pytest.fixture
def conf(spark):
    """Set options of the session for one test."""
    before = {}

    def put(name, value):
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield put
    for name, value in before.items():
        spark.conf.set(name, value)


# ---- sorted partitions, and groups --------------------------------------------------------------


@pytest.mark.spark
def test_over_sorted_partitions(spark, conf):
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    table = sample()
    sdf = spark.createDataFrame(table)
    ordered = sdf.repartition("k").sortWithinPartitions("k", "ts", "row")
    got = ordered.mapInArrow(*udfs.partition(ROLLING, sdf.schema)).toArrow()
    assert rows_of(got, "row") == rows_of(wanted(table), "row")
    got = ordered.mapInArrow(*udfs.partition(HOPPING, sdf.schema)).toArrow()
    assert rows_of(got, "k", "start") == rows_of(HOPPING(table), "k", "start")


@pytest.mark.spark
def test_over_groups(spark):
    table = sample()
    sdf = spark.createDataFrame(table).repartition(1).sortWithinPartitions("row")
    groups = sdf.groupBy("k")
    for got in (
        groups.applyInArrow(*udfs.group(ROLLING, sdf.schema)),
        groups.applyInPandas(*udfs.group(ROLLING, sdf.schema, "pandas")),
    ):
        assert got.columns == [*table.column_names, *AGGS]
        assert rows_of(got.toArrow(), "row") == rows_of(wanted(table), "row")
    for got in (
        groups.applyInArrow(*udfs.group(HOPPING, sdf.schema)),
        groups.applyInPandas(*udfs.group(HOPPING, sdf.schema, "pandas")),
    ):
        assert rows_of(got.toArrow(), "k", "start") == rows_of(HOPPING(table), "k", "start")


def batches(table, size=3):
    return iter(table.combine_chunks().to_batches(size))


def test_a_partition_that_is_not_sorted_is_refused():
    """Wherever batches are cut; and what is sorted is not."""
    spec = mta.rolling("5i", on="t", by=["k", "f"]).agg(n=agg.count())
    table = pa.table({
        "t": [1, 2, 2, 9, 1, 5, 0, 3], "k": ["a"] * 4 + ["b"] * 4,
        "f": [None, None, 1.0, float("nan"), -0.0, 0.0, 1.0, float("inf")],
    })  # fmt: skip
    for size in range(1, 9):
        got = pa.Table.from_batches(checked(spec, table.column_names, batches(table, size)))
        assert rows_of(got, "k") == rows_of(table, "k")
        for key in ("t", "k", "f"):
            turned = table.set_column(
                table.column_names.index(key), key, table[key].take(pa.array(range(7, -1, -1)))
            )
            with pytest.raises(DataError, match=r"sortWithinPartitions\('k', 'f', 't'\)"):
                list(checked(spec, table.column_names, batches(turned, size)))


def test_times_that_go_back_within_a_key_are_named():
    spec = mta.rolling("5i", on="t", by="k").agg(n=agg.count())
    table = pa.table({"k": ["a", "a", "b"], "t": [7, 3, 1]})
    with pytest.raises(DataError, match="on: column 't' goes back from 7 to 3 within a key"):
        list(checked(spec, ["k", "t"], batches(table)))


# ---- one aggregate over what Spark hands it -----------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("form", ["arrow", "pandas"])
def test_an_aggregate_over_groups_windows_and_in_sql(spark, form):
    table = sample(120)
    sdf = spark.createDataFrame(table)
    asked = {"q": agg.median("x"), "s": agg.sum("x"), "w": agg.weighted_mean("x", "i"),
             "d": agg.count_distinct("name"), "l": agg.list("i")}  # fmt: skip
    made = {name: udfs.aggregate_udf(one, sdf.schema, form) for name, one in asked.items()}
    calls = [made[name](*one.columns).alias(name) for name, one in asked.items()]
    # Of all rows of a key; by the local engine, of one window that holds them all.
    every = mta.hopping("999s", slide="999s", on="ts", by="k", origin="-500s").agg(**asked)
    ordered = sdf.repartition(1).sortWithinPartitions("ts", "row")
    got = ordered.groupBy("k").agg(*calls).toArrow().select(["k", *asked])
    assert rows_of(got, "k") == rows_of(every(table).select(["k", *asked]), "k")

    # A window of rows: what the same spec answers, with sums that are rounded once.
    asked["s"] = agg.sum("x", numerics="exact")
    del asked["l"], asked["w"]
    window = Window.partitionBy("k").orderBy("ts", "row").rowsBetween(-4, 0)
    calls = [made[name](*one.columns).over(window).alias(name) for name, one in asked.items()]
    got = sdf.select("row", *calls).toArrow().sort_by("row").select(list(asked))
    local = mta.rolling(5, on="ts", by="k").agg(**asked)(table)
    assert list(map(repr, got.to_pylist())) == list(map(repr, local.to_pylist()))

    spark.udf.register("mta_median", made["q"])
    sdf.createOrReplaceTempView("mta_rows")
    told = spark.sql("SELECT mta_median(x) FROM mta_rows").collect()[0][0]
    assert told == float(np.median(table["x"].drop_null().to_numpy()))


# ---- window-ids ---------------------------------------------------------------------------------

US = 1_000_000
NUMBERED = {
    "hopping": mta.hopping("1h", slide="25m", on="t"),
    "right": mta.hopping("1h", slide="25m", on="t", closed="right", origin="-7m"),
    "tumbling": mta.tumbling("10s", on="t", origin=dt.datetime(2031, 5, 1, 0, 0, 3)),
    "between": mta.hopping("3s", slide="10s", on="t", closed="right", origin="-86399s"),
    "micro": mta.hopping("5us", slide="3us", on="t", origin="1us"),
    "days": mta.hopping("3d", slide="2d", on="t", closed="right", origin="1d"),
}
TICKS = {
    "hopping": mta.hopping("10i", slide="4i", on="t"),
    "right": mta.hopping("9i", slide="4i", on="t", closed="right", origin=-3),
    "between": mta.hopping("2i", slide="7i", on="t", origin=100),
    "one": mta.tumbling("1i", on="t", origin=5, closed="right"),
}


def times_near_edges(spec, seed=11):
    """Microseconds at random, on the edges of windows, and beside them."""
    rng = np.random.default_rng(seed)
    ticks = [*rng.integers(-(10**16), 10**16, 6).tolist(), 0, -1]
    for t in ticks[:4]:
        for edge in map(int, interval(spec, meant(mta_left(spec), 0, [t], "us")[0], [t], "us")):
            ticks += [edge - 1, edge, edge + 1]
    return ticks


def mta_left(spec):
    """The same windows side by side, so that each time has one."""
    return mta.tumbling(spec.slide or spec.range, on="t", origin=spec.origin)


def stamps(ticks):
    return [EPOCH + dt.timedelta(microseconds=t) for t in ticks]


def micros(stamp):
    """Of a date or a time, with a zone or without."""
    if not isinstance(stamp, dt.datetime):
        return (stamp - EPOCH.date()).days * 86400 * US
    return (stamp.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)


@pytest.mark.spark
@pytest.mark.parametrize(("times", "zone"), [
    ("timestamp", "UTC"), ("timestamp", "America/New_York"),
    ("timestamp_ntz", "America/New_York"), ("date", "America/New_York"),
])  # fmt: skip
def test_numbers_and_edges_of_windows_of_times(spark, conf, times, zone):
    """Natively and by Python: those that mta.windows means."""
    conf("spark.sql.session.timeZone", zone)
    ticks, texts = {}, {}
    for name, spec in NUMBERED.items():
        near = times_near_edges(spec)
        if times == "date":
            near = [t // (86400 * US) * 86400 * US for t in near]
        ticks[name] = [*near, None]
        shown = [stamp.isoformat(" ") for stamp in stamps(near)]
        texts[name] = [*(s + "Z" if times == "timestamp" else s for s in shown), None]
    sdf = spark.createDataFrame(pa.table(texts))
    sdf = sdf.select([F.col(n).cast("timestamp" if times == "timestamp" else "timestamp_ntz")
                      .cast(times).alias(n + "_t") for n in texts])  # fmt: skip
    check_numbers(NUMBERED, ticks, sdf, times)


def extent_of(spec, times=None):
    return lambda wid: udfs.extent(spec, wid, times)


def check_numbers(specs, ticks, sdf, times):
    made = []
    for name, spec in specs.items():
        ts = F.col(name + "_t")
        numbers = udfs.wids(spec, ts, times)
        edges = F.transform(numbers, extent_of(spec, times))
        pane = udfs.pane(spec, ts, times)
        made += [numbers.alias(name), edges.alias(name + "_e"), pane.alias(name + "_p"),
                 udfs.wids_udf(spec)(ts).alias(name + "_u")]  # fmt: skip
    got = sdf.select(made).toArrow()
    for name, spec in specs.items():
        for row, tick in enumerate(ticks[name]):
            values = [got[name + end][row].as_py() for end in ("", "_u", "_e", "_p")]
            if tick is None:
                assert values == [None, None, None, None]
                continue
            want = meant(spec, 0, [tick], "us")
            assert values[0] == values[1] == want
            assert [(micros(e["start"]), micros(e["end"])) for e in values[2]] == [
                interval(spec, w, [tick], "us") for w in want
            ]
            finer = times == "date" and name != "days"  # then a date is a pane
            assert micros(values[3]) == (tick if finer else pane_of(spec, tick))


def pane_of(spec, tick, unit="us"):
    step = np.gcd(spec.range.in_unit(unit), (spec.slide or spec.range).in_unit(unit))
    origin = 0 if spec.origin is None else spec.origin.in_unit(unit)
    return (tick - spec.right_closed - origin) // int(step) * int(step) + origin


@pytest.mark.spark
def test_numbers_of_windows_of_integers(spark):
    """Up to the last of 64 bits; edges and panes near 0."""
    rng = np.random.default_rng(2)
    near, most = rng.integers(-50, 50, 40).tolist(), 2**63 - 1
    sdf = spark.createDataFrame(pa.table({"t": [*near, None]})).coalesce(1)
    far = spark.createDataFrame(pa.table({"t": [most, most - 1, -most - 1, -most]})).coalesce(1)
    specs = {name: spec for name, spec in TICKS.items() if name != "one"}
    wide = [udfs.wids(spec, "t").alias(name) for name, spec in specs.items()]
    wide += [udfs.wids_udf(spec)("t").alias(name + "_u") for name, spec in specs.items()]
    for row in far.select("t", *wide).collect():
        for name, spec in specs.items():
            assert row[name] == row[name + "_u"] == meant(spec, 0, [row.t])

    made = []
    for name, spec in TICKS.items():
        numbers = udfs.wids(spec, "t")
        edges = F.transform(numbers, extent_of(spec))
        made += [numbers.alias(name), edges.alias(name + "_e"),
                 udfs.pane(spec, "t").alias(name + "_p"),
                 udfs.wids_udf(spec, "pandas")("t").alias(name + "_u")]  # fmt: skip
    for row in sdf.select("t", *made).collect():
        for name, spec in TICKS.items():
            want = None if row.t is None else meant(spec, 0, [row.t])
            assert row[name] == row[name + "_u"] == want
            if row.t is None:
                assert row[name + "_e"] is row[name + "_p"] is None
                continue
            assert [tuple(e) for e in row[name + "_e"]] == [interval(spec, w, [0]) for w in want]
            assert row[name + "_p"] == pane_of(spec, row.t, "i")


@pytest.mark.spark
def test_numbers_and_edges_beyond_64_bits_fail_the_job(spark):
    one = spark.createDataFrame([(2**63 - 1,)], "t long")
    for made in (udfs.wids(mta.tumbling("1i", on="t", origin=-1), "t"),
                 udfs.extent(mta.tumbling("1i", on="t"), "t"),
                 udfs.extent(mta.tumbling("3i", on="t"), "t")):  # fmt: skip
        with pytest.raises(Exception, match="does not fit in 64 bits"):
            one.select(made).collect()


@pytest.mark.spark
def test_a_time_of_another_type_than_was_said_fails_the_job(spark, conf):
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    sdf = spark.sql("SELECT timestamp_ntz'2026-01-01 00:00:00' AS t, 2.5D AS x")
    with pytest.raises(Exception, match="a timestamp was said, but it is a timestamp_ntz"):
        sdf.select(udfs.wids(NUMBERED["hopping"], "t")).collect()
    with pytest.raises(Exception, match="a bigint was said, but it is a double"):
        sdf.select(udfs.wids(TICKS["hopping"], "x")).collect()


@pytest.mark.spark
def test_windows_of_a_calendar_in_sql(spark):
    """The days of a zone, around the turns of its clocks."""
    spec = mta.calendar("1 day", on="t", tz="America/New_York", at="6h", closed="right")
    spark.udf.register("wids", udfs.wids_udf(spec))
    spark.udf.register("extent", udfs.extent_udf(spec))
    rng = np.random.default_rng(8)
    ticks = [int(t) * US for t in rng.integers(1_709_900_000, 1_711_000_000, 40)]
    ticks += [1_710_068_400 * US, 1_710_068_400 * US + 1, 1_710_068_400 * US - 1]
    sdf = spark.createDataFrame(pa.table({"t": pa.array(ticks, pa.timestamp("us", "UTC"))}))
    sdf.createOrReplaceTempView("mta_times")
    got = spark.sql("""
        SELECT unix_micros(t) AS t, w, unix_micros(e.start) AS start, unix_micros(e.end) AS end
        FROM (SELECT t, w, extent(w) AS e FROM mta_times LATERAL VIEW explode(wids(t)) AS w)
    """)
    rows = {row.t: row for row in got.collect()}
    for tick in ticks:
        row = rows[tick]
        assert [row.w] == meant(spec, 0, [tick], "us")
        assert (row.start, row.end) == interval(spec, row.w, [tick], "us")


# ---- refusals -----------------------------------------------------------------------------------


@pytest.mark.spark
def test_what_is_refused_before_the_job_runs(spark, conf):
    sdf = spark.createDataFrame(sample(3))
    first = mta.tumbling("1h", on="ts", origin="first").agg(n=agg.count())
    for spec in (mta.landmark("1h", on="ts").agg(n=agg.count()), first):
        with pytest.raises(SpecError, match="depend on all rows of all keys"):
            udfs.partition(spec, sdf.schema)
    with pytest.raises(SpecError, match=r"every: .*partition"):
        udfs.group(mta.rolling(3, every=2).agg(n=agg.count()), sdf.schema)
    with pytest.raises(SpecError, match="form: must be one of"):
        udfs.group(ROLLING, sdf.schema, "polars")
    with pytest.raises(SpecError, match="has no column"):
        udfs.aggregate_udf(agg.count(), sdf.schema)
    for spec in (mta.landmark("1h", on="ts"), mta.tumbling("1h", on="ts", origin="first")):
        with pytest.raises(SpecError):
            udfs.wids_udf(spec)
        with pytest.raises(SpecError):
            udfs.wids(spec, "ts")
    with pytest.raises(SpecError, match="whole microseconds"):
        udfs.wids(mta.tumbling("1ns", on="ts"), "ts")
    with pytest.raises(SpecError, match="times: must be one of"):
        udfs.wids(NUMBERED["days"], "ts", "datetime")
    with pytest.raises(SpecError, match="no panes: where panes begin is known after the first"):
        udfs.pane(mta.tumbling("1h", on="ts", origin="first"), "ts", "date")
    with pytest.raises(SpecError, match="whole microseconds"):
        udfs.pane(mta.calendar("1 day", on="ts", at="1ns"), "ts")
    with pytest.raises(SpecError, match="the windows are of integers"):
        udfs.pane(TICKS["hopping"], "ts", "date")
    conf("spark.sql.session.timeZone", "Europe/Paris")
    with pytest.raises(SpecError, match="an hour may come twice"):
        udfs.group(ROLLING, sdf.schema, "pandas")
