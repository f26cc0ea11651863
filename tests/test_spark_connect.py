"""Specs over Spark Connect: batch, a stream and UDFs, in a process of its own.

(A process has a classic session or a client, not both; the tests of this suite have the former.)
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the [spark] extra is not installed")
pytest.importorskip("grpc_status", reason="Spark Connect is not installed: pyspark[connect]")
pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent
PROGRAM = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from pyspark.sql import SparkSession
import mta, spark_bridge
from mta import agg
from spark_bridge import udfs

builder = SparkSession.builder.remote("local[1]")
for name, value in {"ui.enabled": "false", "driver.host": "127.0.0.1",
                    "driver.bindAddress": "127.0.0.1"}.items():
    builder = builder.config("spark." + name, value)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
spark.conf.set("spark.sql.shuffle.partitions", "1")
rng, folder = np.random.default_rng(1), sys.argv[1]
rows = pa.table({
    "row": range(600), "k": rng.integers(0, 4, 600), "x": rng.normal(size=600),
    "ts": pa.array(np.sort(rng.integers(0, 10**9, 600)), pa.timestamp("us", "UTC")),
})
sdf = spark.createDataFrame(rows)

def same(got, want, *order):
    by = [(name, "ascending") for name in order]
    got, want = got.sort_by(by).to_pylist(), want.sort_by(by).to_pylist()
    assert repr(got) == repr(want) and got, (got[:3], want[:3])

largest = agg.monoid(abs, max, zero=0.0, gives="float")
last = mta.rolling("100s", on="ts", by="k").watermark("5s").agg(
    n=agg.count(), s=agg.sum("x"), sd=agg.std("x"), far=largest("x"))
answered = spark_bridge.apply(last, sdf).toArrow().sort_by("row")
same(answered.select(["n", "s", "sd", "far"]), last(rows), "n", "s")
hops = mta.hopping("100s", "10s", on="ts", by="k").watermark("5s")
hops = hops.agg(n=agg.count(), hi=agg.max("x"))
assert "plan     panes" in spark_bridge.explain(hops, sdf)
same(spark_bridge.apply(hops, sdf).toArrow(), hops(rows), "k", "start")

made = sdf.select(udfs.wids(hops, "ts").alias("w"), udfs.wids_udf(hops)("ts").alias("u"))
assert all(row.w == row.u for row in made.collect())
middle = udfs.aggregate_udf(agg.median("x"), sdf.schema)
assert sdf.agg(middle("x")).collect()[0][0] == float(np.median(rows["x"].to_numpy()))

spark.conf.set("spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
for part in range(2):
    pq.write_table(rows.slice(part * 300, 300), f"{folder}/in{part}.parquet")
reader = spark.readStream.schema(sdf.schema).option("maxFilesPerTrigger", 1)
stream = reader.option("pathGlobFilter", "in*").parquet(folder)
query = spark_bridge.apply(last, stream, shards=1).writeStream.format("parquet")
query = query.option("path", folder + "/out").option("checkpointLocation", folder + "/checkpoint")
query = query.trigger(availableNow=True).start()
query.awaitTermination()
told = [p.observedMetrics["mta"] for p in query.recentProgress if "mta" in p.observedMetrics]
# PySpark 4.3 gives these over Connect as the JSON that they come in.
told = [dict(zip([f["name"] for f in t["schema"]["fields"]], t["values"])) for t in told]
assert sum(t["received"] or 0 for t in told) == 600 and not sum(t["late"] or 0 for t in told)
got = spark.read.parquet(folder + "/out").toArrow()
# What is final: all that is not within the delay of the newest row.
assert 500 < len(got) < 600
want = pa.table({**{n: rows[n] for n in rows.column_names},
                 **{n: answered[n] for n in ("n", "s", "sd", "far")}})
want = want.filter(pa.compute.is_in(want["row"], got["row"]))
same(got.select(want.column_names), want, "row")
spark.stop()
print("all the same")
"""

ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_TESTING": "1",  # PySpark takes a free port for the server, not 15002
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",  # a short life does not pay for more
}


def test_batch_stream_and_udfs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, **ENVIRONMENT},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "all the same" in done.stdout
