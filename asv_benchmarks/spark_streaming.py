"""Rows a second of a stream on Spark, by number of keys and rows a micro-batch.

``python -m asv_benchmarks.spark_streaming [--rows 100000] [--batches 6] [--keys 10 1000 10000]``

A file is a micro-batch; the first two are not counted (they start workers and compile). What is
timed is the whole of a micro-batch, as Spark tells it (``triggerExecution``), its write to a sink
that keeps nothing included. Beside our own operators: Spark's stateless plan, its tumbling and
sliding windows, and a group a key, as people write it who have no operator of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mta
import spark_bridge
from mta import agg

SCHEMA = "ts timestamp, key bigint, x double"
DAY = 24 * 3600 * 10**6
FOUR = {"n": agg.count(), "s": agg.sum("x"), "hi": agg.max("x"), "m": agg.mean("x")}
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def open_session(tasks: int) -> SparkSession:
    """Two cores, few state partitions, RocksDB."""
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(tasks),
        "spark.sql.streaming.stateStore.providerClass": PROVIDER,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("mta-streaming")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def write_files(path: Path, rows: int, batches: int, keys: int, seconds: float) -> None:
    """Micro-batches of rows, each over so many seconds of event time, out of order by up to 5 s."""
    rng = np.random.default_rng(keys)
    for batch in range(batches):
        at = (batch + np.sort(rng.random(rows))) * seconds * 1e6 + rng.random(rows) * 5e6
        ts = at.astype(np.int64) + 10**15
        table = pa.table({
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "key": rng.integers(0, keys, rows),
            "x": rng.normal(size=rows),
        })  # fmt: skip
        name = path / f"{batch:04}.parquet"
        pq.write_table(table, name)
        os.utime(name, (1e9 + batch,) * 2)


def plans(shards: int) -> Iterator[tuple[str, Callable[[DataFrame], DataFrame]]]:
    """What is compared."""
    rolling = mta.rolling("24h", on="ts", by="key").watermark("5s").agg(**FOUR)
    hopping = mta.hopping("1h", slide="10s", on="ts", by="key").watermark("5s")
    yield "stateless", lambda sdf: sdf.withColumn("y", F.col("x") * 2)

    def native(length: str, slide: str | None) -> Callable[[DataFrame], DataFrame]:
        def plan(sdf: DataFrame) -> DataFrame:
            window = F.window("ts", length, slide)
            grouped = sdf.withWatermark("ts", "5 seconds").groupBy("key", window)
            return grouped.agg(F.count("*"), F.sum("x"), F.max("x"), F.avg("x"))

        return plan

    yield "native tumbling 10 s", native("10 seconds", None)
    yield "native sliding 1 h / 10 s", native("1 hour", "10 seconds")
    yield "a group a key, 24 h", one_key_a_group
    yield "mta rolling 24 h", lambda sdf: spark_bridge.apply(rolling, sdf, shards=shards)
    spec = hopping.agg(**FOUR)
    yield "mta hopping 1 h / 10 s", lambda sdf: spark_bridge.apply(spec, sdf, shards=shards)


class OneKey(StatefulProcessor):
    """What people write without us: a group a key, its rows of 24 h as one value."""

    def init(self, handle: Any) -> None:
        """Begin a task."""
        self.kept = handle.getValueState("rows", "rows binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Answer the rows of a key in order of time, as if none were late."""
        kept = self.kept.get()
        old = np.frombuffer(kept[0], "<i8, <f8") if kept is not None else np.empty(0, "<i8, <f8")
        new = pd.concat(list(rows)).sort_values("ts", kind="stable")
        at = new["ts"].to_numpy("M8[us]").astype(np.int64)
        fresh = np.empty(len(new), "<i8, <f8")
        fresh["f0"], fresh["f1"] = at, new["x"].to_numpy()
        held = np.concatenate([old, fresh])
        x, first = held["f1"], held["f0"].searchsorted(at - DAY, side="right")
        last = np.arange(len(old), len(held)) + 1
        windows = [x[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        sums = np.array([w.sum() for w in windows])
        self.kept.update((held[first[-1] :].tobytes(),))
        new["n"], new["s"], new["m"] = last - first, sums, sums / (last - first)
        new["hi"] = [w.max() for w in windows]
        yield new[["ts", "key", "x", "n", "s", "hi", "m"]]

    def close(self) -> None:
        """End a task."""


def one_key_a_group(sdf: DataFrame) -> DataFrame:
    """The plan that calls `OneKey`."""
    made = SCHEMA + ", n bigint, s double, hi double, m double"
    grouped = sdf.withWatermark("ts", "5 seconds").groupBy("key")
    return grouped.transformWithStateInPandas(OneKey(), made, "append", "eventTime")


def measure(spark: SparkSession, path: Path, plan: Callable[[DataFrame], DataFrame]) -> list[Any]:
    """Of each micro-batch with rows: the rows, and milliseconds."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(path))
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = plan(stream).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        told = [json.loads(progress.json) for progress in query.recentProgress]
    return [
        (p["numInputRows"], p["durationMs"]["triggerExecution"]) for p in told if p["numInputRows"]
    ]


def main() -> None:
    """Print a row of figures for every number of keys."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--keys", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--tasks", type=int, default=2, help="state partitions")
    parser.add_argument("--seconds", type=float, default=60.0, help="of event time a micro-batch")
    parser.add_argument("--only", default="", help="plans whose name has this")
    options = parser.parse_args()
    spark = open_session(options.tasks)
    for keys in options.keys:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name)
            write_files(path, options.rows, options.batches, keys, options.seconds)
            for title, plan in plans(options.shards):
                if options.only not in title:
                    continue
                told = measure(spark, path, plan)[2:]
                rate = statistics.median(rows / ms for rows, ms in told)
                shown = " ".join(f"{ms / 1000:.2f}" for _, ms in told)
                print(f"{keys:7,} keys  {title:28} {rate:6.0f}k rows/s   {shown} s", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
