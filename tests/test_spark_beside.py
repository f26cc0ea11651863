"""Answers beside rows that stay in Spark: what its optimizer may do to them, and to the rows.

The function that gives them depends on the rows before, so the sort has to stay below it, and
filters above.
"""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import build
from mta import agg

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
F = pytest.importorskip("pyspark.sql.functions")
worker = pytest.importorskip("spark_bridge.worker")

TABLE = pa.table({
    "k": ["a", "b"] * 10, "t": [19 - i for i in range(20)], "x": [float(i) for i in range(20)],
    "note": [f"n{i}" for i in range(20)],
})  # fmt: skip
SPEC = mta.rolling("6i", on="t", by="k").agg(s=agg.sum("x"), n=agg.count())


def expected():
    return {row["t"]: row for row in TABLE.append_column("s", SPEC(TABLE)["s"]).to_pylist()}


@pytest.mark.spark
def test_what_follows_sees_the_same_answers(spark):
    """A filter, an aggregation, a limit, another order: none gets between the sort and the UDF."""
    answered = spark_bridge.apply(SPEC, spark.createDataFrame(TABLE).repartition(3))
    wanted = expected()
    late = answered.where("t >= 12 AND k = 'a'").collect()
    assert {row["t"]: row["s"] for row in late} == {
        t: row["s"] for t, row in wanted.items() if t >= 12 and row["k"] == "a"
    }
    total = answered.groupBy("k").agg(F.sum("s").alias("s")).collect()
    for key, s in total:
        assert s == sum(row["s"] for row in wanted.values() if row["k"] == key)
    for row in answered.orderBy("x").limit(5).collect() + answered.limit(5).collect():
        assert row["s"] == wanted[row["t"]]["s"]
    again = answered.repartition(2, "note").sortWithinPartitions("note").select("t", "s")
    assert dict(again.collect()) == {t: row["s"] for t, row in wanted.items()}
    beside = answered.alias("a").join(answered.alias("b"), F.expr("a.t = b.t + 1"))
    for now, before, t in beside.select("a.s", "b.s", "a.t").collect():
        assert (now, before) == (wanted[t]["s"], wanted[t - 1]["s"])


@pytest.mark.spark
def test_what_nobody_asks_for_is_not_shuffled(spark):
    answered = spark_bridge.apply(SPEC, spark.createDataFrame(TABLE).where("x >= 0"))
    plan = answered.select("t", "s")._jdf.queryExecution().optimizedPlan().toString()
    below = plan[plan.index("Sort") : plan.index("RepartitionByExpression")]
    assert "note" not in below
    assert answered.select("k", "note").count() == 20


@pytest.mark.spark
def test_rows_are_counted_where_no_column_is_read(spark):
    answered = spark_bridge.apply(mta.rolling(3).agg(n=agg.count()), spark.range(5).coalesce(1))
    assert [tuple(row) for row in answered.collect()] == [(0, 1), (1, 2), (2, 3), (3, 3), (4, 3)]


@pytest.mark.spark
def test_columns_that_arrow_can_not_carry_stay(spark):
    """Rows do not pass through Python, so their columns may be of any type."""
    sdf = spark.sql("SELECT id AS t, parse_json('[1]') AS v, INTERVAL '1' YEAR AS y FROM range(4)")
    answered = spark_bridge.apply(mta.rolling("2i", on="t").agg(n=agg.count()), sdf)
    assert answered.schema["v"].dataType == sdf.schema["v"].dataType
    rows = answered.selectExpr("t", "to_json(v)", "CAST(y AS string)", "n").collect()
    assert sorted(map(tuple, rows))[3] == (3, "[1]", "INTERVAL '1' YEAR", 2)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12)), min_size=1, max_size=30),
    st.lists(st.integers(0, 30), max_size=8),
)
def test_specs_that_wait_for_different_rows(rows, cuts):
    """One waits for rows to come, one for ties, one for nothing: each row has its own answers."""
    rows.sort()
    k, t = zip(*rows, strict=True)
    table = build("pyarrow", {
        "k": ("string", list(k)), "t": ("int64", list(t)),
        "s": ("string", [str(i) for i in range(len(t))]),
    })  # fmt: skip
    specs = [
        mta.rolling(2, on="t", by="k", lag=-2).agg(a=agg.list("s")),
        mta.rolling("3i", on="t", by="k").agg(b=agg.count()),
        mta.rolling("3i", on="t", by="k", lag="-2i").agg(c=agg.first("s")),
        mta.rolling("3i", on="t", by="k", ties="arrival").agg(d=agg.count(), e=agg.last("t")),
    ]
    edges = [0, *sorted(min(cut, len(t)) for cut in cuts), len(t)]
    pairs = pairwise(edges)
    batches = [table.slice(a, b - a).combine_chunks().to_batches() for a, b in pairs]
    given_rows = iter([batch for part in batches for batch in part])
    made = pa.Table.from_batches(worker.answer_batches(specs, table.column_names, given_rows))
    assert made.select(["k", "t", "s"]).to_pylist() == table.to_pylist()
    for spec in specs:
        wanted = spec(table)
        assert made.select(wanted.column_names).to_pylist() == wanted.to_pylist()


def test_batches_are_joined_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(worker, "ROWS", 100)
    monkeypatch.setattr(worker, "BYTES", 4000)
    table = pa.table({"x": range(1000), "s": ["a" * (500 if i > 900 else 1) for i in range(1000)]})
    made = list(worker.gathered(iter(table.to_batches(max_chunksize=7))))
    assert pa.Table.from_batches(made).equals(table)
    assert max(batch.num_rows for batch in made) < 107
    assert max(batch.num_rows for batch in made[-6:]) < 20  # the long texts
    assert not list(worker.gathered([]))
