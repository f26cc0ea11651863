"""Streams on real Spark: what comes out of a query is what the local engine gives.

A file is a micro-batch. (What needs no query is in test_spark_streaming_shards.py.)
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mta
from mta import agg
from mta.errors import ColumnError, SpecError

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
from spark_bridge import streaming  # noqa: E402
from spark_streams import Source  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

FAR = dt.datetime(2100, 1, 1, tzinfo=dt.timezone.utc)  # a row there makes all others final


@pytest.fixture
def source(spark, tmp_path):
    return Source(spark, tmp_path)


def payments(rows=400, late=0, seed=7):
    """Rows out of order by less than 8 s, with ties and nulls; the last `late` ones far behind."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(rows) // 2 + rng.integers(0, 8, rows)
    seconds[rows - late :] = seconds[rows - late :] - 100
    start = np.datetime64("2026-01-01", "us") + seconds * np.timedelta64(1, "s")
    x = rng.normal(size=rows) * 10.0 ** rng.integers(-3, 9, rows)
    return pa.table({
        "ts": pa.array(start, pa.timestamp("us", "UTC")),
        "card": pa.array([f"c{k}" if k else None for k in rng.integers(0, 9, rows)]),
        "x": pa.array(x, mask=rng.random(rows) < 0.1),
        "row.no": pa.array(range(rows)),
        "note": pa.array([{"a": str(i)} for i in range(rows)]),
    })  # fmt: skip


def last_row(like):
    return pa.Table.from_pylist([{"ts": FAR, "card": "c1", "x": 1.0, "row.no": -1}], like.schema)


def without_last(table, by="row.no"):
    return table.filter(pa.compute.not_equal(table[by], -1)).sort_by(by)


def windows_of(table):
    far = pa.scalar(FAR, pa.timestamp("us", "UTC"))
    kept = table.filter(pa.compute.less(table["end"], far))
    return kept.sort_by([("start", "ascending"), ("card", "ascending")])


ALL = {
    "s": agg.sum("x"), "m": agg.mean("x"), "hi": agg.max("x"), "sd": agg.std("x"),
    "q": agg.quantile("x", 0.9), "f": agg.first("x"), "d": agg.count_distinct("card"),
    "w": agg.arg_max("row.no", by="x"), "top": agg.top_k("x", 3), "names": agg.list("card"),
    "n": agg.count(), "spread": agg.kurt("x"),
}  # fmt: skip
ROLLING = mta.rolling("20s", on="ts", by="card").watermark("8s").agg(**ALL)
HOPPING = mta.hopping("20s", slide="5s", on="ts", by="card").watermark("8s").agg(**ALL)


@pytest.mark.parametrize("zone", ["Etc/UTC", "America/New_York"])
def test_rows_are_answered_as_here(source, spark, zone):
    """Every kind of aggregate, in every zone, over columns of any type and name."""
    table = payments()
    for start in range(0, 400, 134):
        source.put(table.slice(start, 134))
    source.put(last_row(table))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        got = without_last(source.answer(ROLLING))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert got.column_names == [*table.column_names, *ALL]
    assert got.select(list(ALL)).to_pylist() == ROLLING(table).to_pylist()
    assert got.drop_columns(list(ALL)).to_pylist() == table.to_pylist()


def test_answers_come_at_once_and_again_where_they_change(source):
    table = payments()
    for start in range(0, 400, 134):
        source.put(table.slice(start, 134))
    source.put(last_row(table))
    got = without_last(source.answer(ROLLING, output="eager"))
    first = source.batches[min(n for n, rows in source.batches.items() if len(rows))]
    assert sorted(first["row.no"].to_pylist()) == table["row.no"].to_pylist()[:134]
    assert set(first["revision"].to_pylist()) == {1} != set(got["revision"].to_pylist())
    assert got.column_names == [*table.column_names, "revision", *ALL]
    final = {row["row.no"]: row for row in sorted(got.to_pylist(), key=lambda row: row["revision"])}
    want = ROLLING(table).to_pylist()
    assert [{n: final[i][n] for n in ALL} for i in table["row.no"].to_pylist()] == want


def test_windows_are_answered_as_here_over_restarts(source):
    """A query that ends, one that fails after its shards have gone on, and one that ends it."""
    table = payments()
    source.put(table.slice(0, 150))
    source.answer(HOPPING)
    source.put(table.slice(150, 100))
    source.put(table.slice(250))
    failing = max(source.batches) + 1
    with pytest.raises(Exception, match="the sink is full"):
        source.answer(HOPPING, fails_in=failing)
    source.answer(HOPPING)
    source.put(last_row(table))
    got = windows_of(source.answer(HOPPING))
    expected = windows_of(HOPPING(table))
    assert got.column_names == ["card", "start", "end", "revision", *ALL]
    assert set(got["revision"].to_pylist()) == {1}
    assert got.drop_columns(["revision"]).to_pylist() == expected.to_pylist()


def test_late_rows_are_counted_and_handed_out(source, spark):
    """Also of a micro-batch that is late as a whole."""
    table = payments(300, late=40)
    source.put(table.slice(0, 200))
    source.put(table.slice(200, 60))
    source.put(table.slice(260))
    source.put(last_row(table))
    out = source.answer(ROLLING, late="too late", metrics="payments")
    late = [row["too late"] for row in out.to_pylist() if row["too late"] is not None]
    assert sorted(row["row.no"] for row in late) == list(range(260, 300))
    assert sorted(late, key=lambda row: row["row.no"]) == table.slice(260).to_pylist()
    got = without_last(out.filter(pa.compute.is_valid(out["row.no"])))
    assert got.select(list(ALL)).to_pylist() == ROLLING(table.slice(0, 260)).to_pylist()
    told = [p.observedMetrics["payments"] for p in source.progress]
    assert sum(metrics["received"] or 0 for metrics in told) == 301
    assert sum(metrics["late"] or 0 for metrics in told) == 40
    assert sum(metrics["answers"] or 0 for metrics in told) == 260
    dropped = [op.numRowsDroppedByWatermark for p in source.progress for op in p.stateOperators]
    assert sum(dropped) == 0
    heads = spark.read.format("statestore").option("stateVarName", "head")
    kept = heads.load(str(source.path / "checkpoint")).select("value.*").toPandas()
    assert (kept["received"].sum(), kept["late"].sum(), kept["answers"].sum()) == (301, 40, 260)


def test_late_rows_revise(source):
    table = payments(300, late=20)
    spec = mta.rolling("20s", on="ts", by="card").watermark("8s").late("revise", within="200s")
    spec = spec.agg(n=agg.count(), hi=agg.max("x"), s=agg.sum("x"))
    source.put(table.slice(0, 280))
    source.put(table.slice(280))
    source.put(last_row(table))
    out = source.answer(spec)
    assert out.column_names == [*table.column_names, "revision", "n", "hi", "s"]
    got = {}
    for row in sorted(out.to_pylist(), key=lambda row: row["revision"]):
        got[row["row.no"]] = {name: row[name] for name in ("n", "hi", "s")}
    assert max(out["revision"].to_pylist()) > 1
    assert [got[i] for i in range(300)] == spec(table).to_pylist()


@pytest.mark.parametrize("kind", ["int32", "date32"])
def test_integers_and_dates_are_times(source, kind):
    days = [20_000 + i // 3 for i in range(60)]
    unit = "d" if kind == "date32" else "i"
    table = pa.table({
        "on": pa.array(days, pa.int32()).cast(kind), "x": pa.array(range(60), pa.int64()),
    })  # fmt: skip
    spec = mta.tumbling(f"7{unit}", on="on").watermark(f"2{unit}").agg(s=agg.sum("x"))
    source.put(table.slice(0, 30))
    source.put(table.slice(30))
    got = source.answer(spec).drop_columns(["revision"]).sort_by("start")
    expected = spec(table)
    assert got.to_pylist() == expected.to_pylist()[: len(got)]
    assert len(got) == 2


def test_a_checkpoint_keeps_its_number_of_shards(source):
    table = payments(60)
    source.put(table.slice(0, 30))
    source.answer(HOPPING)
    source.put(table.slice(30))
    query = streaming.apply(HOPPING, source.read(), shards=2).writeStream.format("noop")
    query = query.option("checkpointLocation", str(source.path / "checkpoint"))
    with pytest.raises(Exception, match="begun with 3, which it keeps, not with 2"):
        query.trigger(availableNow=True).start().awaitTermination()


def test_what_is_refused_before_the_query_runs(source, spark):
    source.put(payments(4))
    stream = source.read()
    with pytest.raises(SpecError, match="watermark: a stream needs"):
        spark_bridge.apply(mta.rolling("1h", on="ts").agg(n=agg.count()), stream)
    with pytest.raises(SpecError, match="shards: must be"):
        spark_bridge.apply(ROLLING, stream, shards=0)
    with pytest.raises(SpecError, match="late: 'x' is a column"):
        spark_bridge.apply(ROLLING, stream, late="x")
    with pytest.raises(SpecError, match="late: to Spark, the answer 'X' and 'x' have one name"):
        spark_bridge.apply(ROLLING, stream, late="X")
    with pytest.raises(SpecError, match="shards: must be a whole number from 1 to 2147483647"):
        spark_bridge.apply(ROLLING, stream, shards=10**30)
    for option in ("late", "metrics", "output"):
        for value in ("" if option != "output" else "x", 7, [], pd.NA):
            with pytest.raises(SpecError, match=f"{option}: must be"):
                spark_bridge.apply(ROLLING, stream, **{option: value})
    spec = mta.rolling("1h", on="ts", by="k").watermark("1s").agg(n=agg.count())
    with pytest.raises(ColumnError, match="by: no column 'k'"):
        spark_bridge.apply(spec, stream)
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    if "RocksDB" not in spark.conf.get("spark.sql.streaming.stateStore.providerClass"):
        with pytest.raises(SpecError, match=r"providerClass: .*RocksDB"):
            spark_bridge.apply(ROLLING, stream)


def test_what_is_built_is_told(source):
    source.put(payments(4))
    text = streaming.explain(HOPPING, source.read(), shards=5)
    assert "5 of xxhash64(card)" in text
    assert "8000 ms behind" in text
    assert "card, start, end, revision, s, m" in text


def test_several_specs_share_a_stream(source):
    """Over a restart; each row comes once, with the answers of all."""
    table = payments()
    ahead = mta.rolling("15s", on="ts", by="card", lag="-10s").watermark("8s")
    specs = [ROLLING, ahead.agg(next_s=agg.sum("x"), next_n=agg.count())]
    source.put(table.slice(0, 150))
    source.answer(specs)
    source.put(table.slice(150))
    source.put(last_row(table))
    text = streaming.explain(specs, source.read())
    assert "streams of 2 specs" in text
    assert "spread, next_s, next_n" in text
    got = without_last(source.answer(specs))
    assert got.column_names == [*table.column_names, *ALL, "next_s", "next_n"]
    assert got.select(table.column_names).to_pylist() == table.to_pylist()
    for spec in specs:
        names = [name for name, _ in spec.aggs]
        assert got.select(names).to_pylist() == spec(table).to_pylist()
    assert sum(p.observedMetrics["mta"]["answers"] or 0 for p in source.progress) == 400
