"""Sketches as aggregates on Spark: the bytes of ``spark_bridge.apply`` in Spark's own functions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import mta
from mta import agg
from mta.errors import DataError

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")
pytestmark = pytest.mark.spark


def visits(n: int = 4_000) -> pa.Table:
    """Rows of several keys, in order of time, with nulls."""
    rng = np.random.default_rng(n)
    users = rng.zipf(1.3, n) % 900
    return pa.table(
        {
            "row": np.arange(n),
            "k": rng.integers(0, 3, n),
            "t": pa.array(np.cumsum(rng.integers(0, 3, n)) * 10**6, pa.timestamp("us", "UTC")),
            "x": pa.array([None if r < 0.1 else v for r, v in
                           zip(rng.random(n), rng.lognormal(size=n), strict=True)], pa.float64()),
            "i": users,
            "s": pa.array([None if u == 1 else f"né {u}" for u in users]),
        }
    )  # fmt: skip


SPEC = mta.rolling("20m", on="t", by="k").agg(
    q=agg.approx_quantile("x", 0.5),
    late=agg.approx_quantile("t", 1),
    n=agg.approx_count_distinct("s"),
    top=agg.approx_top_k("s", 3),
    kll=agg.kll_sketch("x"),
    kll_i=agg.kll_sketch("i"),
    hll=agg.hll_sketch("s"),
    theta=agg.theta_sketch("x"),
    frequent=agg.frequent_items_sketch("s", max_items=1000),
)


def test_answers_and_types_are_those_of_the_local_engine(spark):
    rows = visits()
    answered = spark_bridge.apply(SPEC, spark.createDataFrame(rows))
    types = dict(answered.dtypes)
    assert {n: types[n] for n, _ in SPEC.aggs} == {
        "q": "double", "late": "timestamp", "n": "bigint", "top": "array<string>",
        "kll": "binary", "kll_i": "binary", "hll": "binary", "theta": "binary",
        "frequent": "binary",
    }  # fmt: skip
    got = answered.toArrow().sort_by("row").select([n for n, _ in SPEC.aggs])
    assert got.to_pylist() == SPEC(rows).to_pylist()


def test_spark_reads_the_bytes(spark):
    answered = spark_bridge.apply(SPEC, spark.createDataFrame(visits()))
    state = (
        "named_struct('sketch', frequent, 'maxItemsTracked', 1000, "
        "'itemDataType', cast(null as string), 'itemDataTypeDDL', 'item string not null')"
    )
    read = answered.where("kll is not null and hll is not null").selectExpr(
        "q", "kll_sketch_get_quantile_double(kll, 0.5) their_q",
        "n", "hll_sketch_estimate(hll) their_n",
        "top", f"approx_top_k_estimate({state}, 900) their_top",
        "kll_sketch_get_n_bigint(kll_i) n_i",
        "theta_sketch_estimate(theta) n_x", "kll_sketch_get_n_double(kll) n_values",
    )  # fmt: skip
    rows = read.collect()
    assert len(rows) > 3_900
    for row in rows:
        assert row.q == row.their_q
        assert abs(row.n - row.their_n) <= 1
        counts = dict(row.their_top)  # of which Spark takes those of one count in any order
        assert [counts[item] for item in row.top] == sorted(counts.values(), reverse=True)[:3]
        assert row.n_x == row.n_values <= row.n_i  # all doubles differ, and fewer than 4096


def test_sparks_sketches_of_days_are_merged(spark):
    """Distinct users and the median of the last three days, from Spark's sketches of each."""
    days = spark.range(30_000).selectExpr(
        "id div 3000 day", "bigint(hash(id) % 7000) u", "id / 7.0D x"
    )
    daily = days.groupBy("day").agg(
        F.expr("hll_sketch_agg(u, 12) h"),
        F.expr("theta_sketch_agg(u, 12) th"),
        F.expr("kll_sketch_agg_double(x) q"),
        F.expr("approx_top_k_accumulate(u, 9000).sketch f"),
    )
    spec = mta.rolling("3i", on="day").agg(
        h3=agg.hll_sketch("h", merge=True),
        th3=agg.theta_sketch("th", merge=True),
        q3=agg.kll_sketch("q", merge=True),
        f3=agg.frequent_items_sketch("f", max_items=9000, merge=True),
    )
    read = spark_bridge.apply(spec, daily).selectExpr(
        "day", "hll_sketch_estimate(h3) h", "theta_sketch_estimate(th3) th",
        "kll_sketch_get_n_double(q3) n", "kll_sketch_get_quantile_double(q3, 0.5) q", "f3",
    )  # fmt: skip
    exact = spark.sql(
        """select day, count(distinct hash(id) % 7000) n, count(*) all
           from range(30000) join (select explode(sequence(0, 9)) day)
             on id div 3000 between day - 2 and day group by day"""
    )
    for row in read.join(exact.withColumnRenamed("n", "exact"), "day").collect():
        assert abs(row.h / row.exact - 1) < 0.07 and abs(row.th / row.exact - 1) < 0.07
        assert row.n == row.all
        first = max(0, row.day - 2) * 3000
        assert abs((row.q * 7 - first) / row.n - 0.5) < 0.02


def test_bytes_that_are_no_sketch_fail_the_job_by_name(spark):
    rows = spark.createDataFrame(pa.table({"t": [1, 2, 3], "s": [None, b"\x01\x02", None]}))
    spec = mta.rolling(2, on="t").agg(a=agg.hll_sketch("s", merge=True))
    with pytest.raises(Exception, match=r"DataError: column 's': .*HLL.* in the row with t=2, s=b"):
        spark_bridge.apply(spec, rows).collect()


def test_types_that_have_no_sketch_are_refused_before_the_job_runs(spark):
    sdf = spark.sql("select 1 i, 'a' s, binary('a') b, cast(1 as decimal(5, 2)) d")
    for aggregate, column in (
        (agg.approx_count_distinct("b"), "b"),
        (agg.theta_sketch("d"), "d"),
        (agg.approx_quantile("s", 0.5), "s"),
        (agg.hll_sketch("s", merge=True), "s"),
        (agg.kll_sketch("i", merge=True), "i"),
    ):
        with pytest.raises(DataError, match=f"can't use column '{column}'"):
            spark_bridge.apply(mta.rolling(2).agg(a=aggregate), sdf)
