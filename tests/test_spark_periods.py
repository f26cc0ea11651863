"""Windows by number on real Spark: the rows and doubles of the local engine, by either plan.

Batches cut anywhere need no Spark and are in test_period_chunking.py, the shared cases in
test_cases.py.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import mta
from mta import agg
from mta.errors import ColumnError, DataError, SpecError
from spark_streams import session_with

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
# What Spark may aggregate, with long integers whose sums need more than 64 bits on the way.
FREE = {
    "n": agg.count(),
    "c": agg.count("x"),
    "numbers": agg.count("x", nan="skip", min_count=2),
    "total": agg.sum("j"),
    "some": agg.sum("j", min_count=3),
    "mean": agg.mean("i"),
    "mean_j": agg.mean("j", min_count=2),
    "least": agg.min("x"),
    "least_skip": agg.min("x", nan="skip"),
    "most": agg.max("x"),
    "most_skip": agg.max("x", nan="skip"),
    "most_nan": agg.max("x", nan="greatest"),
    "least_i": agg.min("i", min_count=2),
    "any": agg.any("b"),
    "all": agg.all("b"),
    "texts": agg.count("s"),
}
OWN = {
    "total": agg.sum("x"),
    "mean": agg.mean("x", nan="skip"),
    "sd": agg.std("x"),
    "first": agg.first("s"),
    "middle": agg.median("j"),
    "listed": agg.list("j"),
    "n": agg.count(),
}


def sample(rows=400, seed=5):
    """Ties, times before 1970, nulls, NaN, both zeros; two rows in five are of one key."""
    rng = np.random.default_rng(seed)

    def holed(values, share=0.1):
        return pa.array(values, mask=rng.random(rows) < share)

    x = rng.normal(size=rows) * 10.0 ** rng.integers(-3, 17, rows)
    for special, share in ((np.nan, 0.05), (0.0, 0.1), (-0.0, 0.1)):
        x[rng.random(rows) < share] = special
    key = np.where(rng.random(rows) < 0.4, 0, rng.integers(1, 5, rows))
    return pa.table({
        "k": holed(key, 0.03),
        "t": rng.integers(-300, 300, rows),
        "x": holed(x),
        "i": holed(rng.integers(-(2**62), 2**62, rows)),
        "j": holed(rng.integers(-9, 9, rows).astype(np.int32)),
        "b": holed(rng.random(rows) < 0.7),
        "s": holed(rng.choice(["a", "b", "c"], rows)),
    })  # fmt: skip


def in_order(table, by=("k",)):
    """As Python rows, told apart to the last bit, in an order of their own."""
    rows = table.to_pylist()
    named = [name for name in by if name in table.column_names]
    rows.sort(key=lambda row: (*(repr(row[name]) for name in named), row["end"]))
    return list(map(repr, rows))


def assert_same(spark, spec, table, sdf=None, plan="auto"):
    answered = spark_bridge.apply(
        spec, spark.createDataFrame(table) if sdf is None else sdf, plan=plan
    )
    got, want = answered.toArrow(), spec(table)
    assert got.column_names == want.column_names
    assert in_order(got, spec.by) == in_order(want, spec.by)
    return got


@pytest.fixture
def small_batches(spark):
    """Arrow batches of 20 rows, so that keys go over many of them."""
    with session_with(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "20"}):
        yield


SPECS = {
    "hopping": mta.hopping("20i", "7i", on="t", by="k"),
    "no_key": mta.tumbling("10i", on="t"),
    "between": mta.hopping("5i", "12i", on="t", by="k", closed="right", empty="emit", origin=3),
    "landmark": mta.landmark("25i", on="t", by="k"),
    "after": mta.landmark("25i", on="t", by="k", origin=-50, closed="right"),
    "first": mta.landmark("30i", on="t", by="k", origin="first"),
}


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", SPECS)
def test_as_here(spark, name):
    table = sample()
    sdf = spark.createDataFrame(table)
    spec = SPECS[name]
    assert_same(spark, spec.agg(**OWN), table, sdf)
    assert_same(spark, spec.agg(**FREE), table, sdf, plan="rows")
    if name != "first":
        assert_same(spark, spec.agg(**FREE), table, sdf, plan="panes")


def test_an_empty_frame(spark):
    table = sample(0)
    sdf = spark.createDataFrame([], "k long, t long, x double, i long, j int, b boolean, s string")
    for spec in (SPECS["hopping"], SPECS["landmark"], SPECS["first"]):
        for aggs in (OWN, FREE):
            got = spark_bridge.apply(spec.agg(**aggs), sdf)
            assert got.collect() == []
            assert got.columns == spec.agg(**aggs)(table).column_names


STAMPS = [
    dt.datetime(2024, 3, 10, 6, 59, 59, 999_999, UTC),  # around the hour that New York skips
    dt.datetime(2024, 3, 10, 7, 0, 0, 0, UTC),
    dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC),  # and the one that comes twice
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    dt.datetime(1900, 1, 1, tzinfo=UTC),
]


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "America/New_York"])
def test_times_in_any_zone_of_the_session(spark, zone):
    """Edges are instants where the times are, and have no zone where these have none."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        naive = [stamp.replace(tzinfo=None) for stamp in STAMPS]
        table = pa.table({
            "t": pa.array(STAMPS, pa.timestamp("us", "UTC")),
            "wall": pa.array(naive, pa.timestamp("us")),
            "j": pa.array(range(len(STAMPS)), pa.int32()),
        })  # fmt: skip
        sdf = spark.createDataFrame(table)
        sdf = sdf.withColumn("wall", sdf["wall"].cast("timestamp_ntz"))
        for on, kind in (("t", "timestamp"), ("wall", "timestamp_ntz")):
            aggs = {"n": agg.count(), "s": agg.sum("j"), "at": agg.max(on)}
            for spec in (
                mta.hopping("1h", "20m", on=on, closed="right", origin="7m"),
                mta.calendar("1 month", tz="Europe/Paris", on=on),
                mta.calendar("1 week", at="6h", on=on),
                mta.landmark("10000h", on=on),
            ):
                answered = spark_bridge.apply(spec.agg(**aggs), sdf)
                types = dict(answered.dtypes)
                assert types["start"] == types["end"] == types["at"] == kind
                assert _instants(answered.toArrow()) == _instants(spec.agg(**aggs)(table))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def _instants(table):
    """Rows in order of the ends, times as microseconds."""
    names = ("start", "end", "at")
    rows = zip(*(table[n].cast(pa.int64()).to_pylist() for n in names), table["s"].to_pylist(),
               table["n"].to_pylist(), strict=True)  # fmt: skip
    return sorted(rows, key=lambda row: row[1])


@pytest.mark.parametrize("plan", ["rows", "auto"])
def test_dates_are_times(spark, plan):
    days = [dt.date(1969, 12, 30), dt.date(2024, 3, 1), dt.date(2024, 3, 2)]
    table = pa.table({"d": days, "j": pa.array([1, 2, 3], pa.int32())})
    aggs = {"n": agg.count(), "s": agg.sum("j"), "last": agg.max("d")}
    for spec in (mta.hopping("2d", "1d", on="d", closed="right"), mta.landmark("10000d", on="d")):
        got = assert_same(spark, spec.agg(**aggs), table, plan=plan)
        assert got.schema.field("end").type == pa.date32()
    for spec in (mta.tumbling("36h", on="d"), mta.calendar("1 month", on="d", tz="Asia/Tokyo")):
        got = assert_same(spark, spec.agg(**aggs), table, plan=plan)
        assert got.schema.field("end").type == pa.timestamp("us")


def test_keys_of_floats_and_names_of_any_kind(spark):
    """The key is that of the first row, bit by bit; names that are syntax elsewhere are none."""
    table = pa.table({
        "a.b": [-0.0, 0.0, float("nan"), 1.0], "key `quoted`": ["x"] * 4, "on": [3, 1, 2, 9],
        "c0": [1, 2, 3, 4],
    })  # fmt: skip
    spec = mta.tumbling("10i", on="on", by=["a.b", "key `quoted`"]).agg(
        **{"sum `of` c0": agg.sum("c0"), "n": agg.count()}
    )
    got = assert_same(spark, spec, table)
    assert 0.0 in got["a.b"].to_pylist() and len(got) == 3


def test_a_sum_that_does_not_fit_and_one_that_does_in_the_end(spark):
    big = 2**62
    table = pa.table({"t": [1, 1, 3, 11], "i": [big, big, -big, 7]})
    spec = mta.hopping("4i", "2i", on="t").agg(s=agg.sum("i", min_count=3))
    for plan in ("rows", "panes"):
        assert_same(spark, spec, table, plan=plan)
        fewer = mta.hopping("4i", "2i", on="t").agg(s=agg.sum("i"))
        with pytest.raises(Exception, match=r"OverflowError: s: the sum .* does not fit in 64"):
            spark_bridge.apply(fewer, spark.createDataFrame(table), plan=plan).collect()


@pytest.mark.parametrize("plan", ["rows", "panes"])
def test_a_null_time_fails_the_job_by_name(spark, plan):
    sdf = spark.createDataFrame([("a", 1), ("a", None)], "k string, t long")
    for spec in (mta.tumbling("2i", on="t", by="k"), mta.landmark("2i", on="t", by="k")):
        with pytest.raises(Exception, match=r"DataError: on: column 't' is null"):
            spark_bridge.apply(spec.agg(n=agg.count()), sdf, plan=plan).collect()


def test_what_can_be_refused_before_the_job_runs(spark):
    sdf = spark.createDataFrame([], "k string, t timestamp, i long, x double")
    hops = mta.tumbling("1h", on="t", by="k")
    with pytest.raises(SpecError, match=r"'panes' can't be had: s: .*rounded at every step"):
        spark_bridge.apply(hops.agg(s=agg.sum("x")), sdf, plan="panes")
    with pytest.raises(SpecError, match="plan: must be one of"):
        spark_bridge.apply(hops.agg(n=agg.count()), sdf, plan="fast")
    with pytest.raises(SpecError, match="whole microseconds"):
        spark_bridge.apply(mta.tumbling("100ns", on="t").agg(n=agg.count()), sdf)
    with pytest.raises(SpecError, match="holds integers"):
        spark_bridge.apply(mta.tumbling("1h", on="i").agg(n=agg.count()), sdf)
    with pytest.raises(DataError, match="a calendar needs times"):
        spark_bridge.apply(mta.calendar("1 day", on="i").agg(n=agg.count()), sdf)
    with pytest.raises(SpecError, match="'start' is what"):
        spark_bridge.apply(hops.agg(start=agg.count()), sdf)
    with pytest.raises(ColumnError, match="'y'"):
        spark_bridge.apply(hops.agg(s=agg.sum("y")), sdf)
    cased = sdf.selectExpr("t", "collate(k, 'UTF8_LCASE') AS k")
    with pytest.raises(DataError, match="different texts may be equal"):
        spark_bridge.apply(hops.agg(n=agg.count()), cased)


# ---- several specs -----------------------------------------------------------------------------


@pytest.mark.usefixtures("small_batches")
def test_several_trailing_specs_in_one_pass(spark):
    table = sample().append_column("row", pa.array(range(400)))
    specs = [
        mta.rolling("20i", on="t", by="k").agg(a=agg.sum("x"), sd=agg.std("x")),
        mta.rolling(7, on="t", by="k").agg(c=agg.median("j")),
        mta.rolling("90i", on="t", by="k", lag="-5i", closed="both").agg(d=agg.mean("x")),
        mta.rolling(None, on="t", by="k").agg(e=agg.first("s")),
    ]
    answered = spark_bridge.apply(specs, spark.createDataFrame(table))
    plan = answered._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange hashpartitioning") == 1
    got = answered.toArrow().sort_by("row")
    assert got.column_names == [*table.column_names, "a", "sd", "c", "d", "e"]
    for spec in specs:
        want = spec(table)
        assert list(map(repr, got.select(want.column_names).to_pylist())) == list(
            map(repr, want.to_pylist())
        )


def test_specs_that_can_not_share_a_pass(spark):
    sdf = spark.createDataFrame([], "k string, t long, x double")
    one = mta.rolling("5i", on="t", by="k").agg(n=agg.count())
    for other, message in (
        (mta.rolling("9i", on="t", by="k").agg(n=agg.count()), "answer called 'n'"),
        (mta.rolling("9i", on="t").agg(m=agg.count()), "the same `by` and `on` only"),
        (mta.rolling(3, by="k").agg(m=agg.count()), "the same `by` and `on` only"),
        (mta.rolling(3, on="t", by="k", every=2).agg(m=agg.count()), "every:"),
        (mta.tumbling("5i", on="t", by="k").agg(m=agg.count()), "rows of their own"),
    ):
        with pytest.raises(SpecError, match=message):
            spark_bridge.apply([one, other], sdf)
    with pytest.raises(SpecError, match="is needed, not"):
        spark_bridge.apply([], sdf)


def test_a_spec_whose_answers_may_be_revised_is_exact_in_batch(spark):
    """Its float sums are rounded once, here as there (0.1 ten times is then 1.0)."""
    table = pa.table({"t": range(400), "x": [1e16, 1.0, -1e16, 0.1] * 100})
    spec = mta.rolling("300i", on="t").watermark("1i").late("revise", within="5i")
    spec = spec.agg(s=agg.sum("x"), m=agg.mean("x"))
    got = spark_bridge.apply(spec, spark.createDataFrame(table)).toArrow().sort_by("t")
    assert got.select(["s", "m"]).equals(spec(table))


# ---- explain -----------------------------------------------------------------------------------


def test_explain_says_which_way_and_why(spark):
    sdf = spark.createDataFrame([], "k string, t timestamp, i long, x double")
    explain = spark_bridge.explain
    tumbling = mta.tumbling("10s", on="t", by="k")
    assert "panes of 10 s for each key" in explain(tumbling.agg(s=agg.sum("i")), sdf)
    floats = explain(tumbling.agg(s=agg.sum("x")), sdf)
    assert "no panes: s:" in floats and "rounded at every step" in floats
    assert "asked for" in explain(tumbling.agg(s=agg.sum("i")), sdf, plan="rows")
    many = mta.hopping("1h", "10s", on="t", by="k").agg(s=agg.sum("i"))
    assert "would be 360 panes" in explain(many, sdf)
    landmark = explain(mta.landmark("1h", on="t", by="k").agg(m=agg.median("x")), sdf)
    assert "reads 't' only: the latest time of all" in landmark and "all rows (m:" in landmark
    one = mta.rolling("1h", on="t", by="k").agg(s=agg.sum("x"))
    assert "segmentTree.enabled" in explain(one, sdf)
    both = explain([one, mta.rolling("2h", on="t", by="k").agg(m=agg.sum("x"))], sdf)
    assert "shared by 2 specs" in both and "segmentTree" not in both
