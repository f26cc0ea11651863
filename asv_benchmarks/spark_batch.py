"""Batch windows on Spark, ours beside Spark's own: ``python -m asv_benchmarks.spark_batch``.

Wall clock of whole jobs on ``local[2]`` with a noop sink, warm, the least of the repeats. What
Spark's own plans take too long for runs over a share of the keys; rates are of the rows it read.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mta
from mta import agg

SIX = ("count", "sum", "mean", "min", "max", "std")
RANGES = (60, 250, 1000, 4000)


@dataclass(frozen=True)
class Job:
    """What is measured: `share` of the keys are read."""

    subject: str
    who: str
    share: float
    make: Callable[[Any], Any]


def main() -> None:
    """Measure what the arguments ask for, and print a line for each job."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1.0, help="between two rows of a key")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", default="", help="of the subjects, those that begin like this")
    options = parser.parse_args()
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        rows = written(spark, options, folder)
        for job in jobs():
            if job.subject.startswith(options.only):
                show(job, rows, options)
    spark.stop()


def session() -> Any:
    """Two cores, four partitions."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.window.segmentTree.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("mta-bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def written(spark: Any, options: Any, folder: str) -> Any:
    """Rows of all keys in turn, as a file: a key, a time, a double and an integer."""
    from pyspark.sql import functions as F

    step = int(1e6 * options.seconds / options.keys)
    made = spark.range(options.rows).select(
        (F.col("id") % options.keys).alias("k"),
        F.timestamp_micros(F.lit(1_700_000_000_000_000) + F.col("id") * step).alias("ts"),
        (F.rand(1) * 100).alias("x"),
        (F.rand(2) * 1000).cast("bigint").alias("i"),
    )
    made.write.parquet(f"{folder}/rows")
    return spark.read.parquet(f"{folder}/rows")


def show(job: Job, rows: Any, options: Any) -> None:
    """Run a job some times, and print its rate."""
    frame = job.make(rows.where(f"k < {job.share * options.keys}"))
    best = min(_seconds(frame) for _ in range(options.repeats))
    rate = job.share * options.rows / best
    load = os.getloadavg()[0]
    print(
        f"{job.subject:28s} {job.who:24s} {rate / 1e6:8.3f} M rows/s "
        f"{best:6.2f} s, {job.share:4.0%} of the rows, load {load:.1f}",
        flush=True,
    )


def _seconds(frame: Any) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def jobs() -> Iterator[Job]:
    """Everything that is measured, in order."""
    yield Job("scan", "spark", 1.0, lambda rows: rows)
    yield from _periodic_jobs()
    yield from _trailing_jobs()


# ---- windows by number -----------------------------------------------------------------------


def _periodic_jobs() -> Iterator[Job]:
    for subject, length, slide, native in (
        ("hopping 1 h / 10 s", "1h", "10s", 0.05),
        ("hopping 1 h / 10 min", "1h", "10m", 0.2),
        ("tumbling 10 s", "10s", "10s", 1.0),
        ("tumbling 1 h", "1h", "1h", 1.0),
    ):
        spec = mta.hopping(length, slide, on="ts", by="k")
        for column, plan in (("x", "rows"), ("i", "rows"), ("i", "panes")):
            kind = "floats" if column == "x" else "integers"
            yield Job(subject, f"mta {plan}, {kind}", 1.0, _ours(spec, column, plan))
        yield Job(subject, "spark, integers", native, _native(length, slide))
        if length != slide:
            yield Job(subject, "spark panes -> window", native, _native_panes(length, slide))


def _ours(spec: Any, column: str, plan: str) -> Callable[[Any], Any]:
    import spark_bridge

    asked = spec.agg(n=agg.count(), s=agg.sum(column), hi=agg.max(column))
    return lambda rows: spark_bridge.apply(asked, rows, plan=plan)


def _native(length: str, slide: str) -> Callable[[Any], Any]:
    def make(rows: Any) -> Any:
        from pyspark.sql import functions as F

        window = F.window("ts", _words(length), _words(slide))
        return rows.groupBy("k", window).agg(F.count(F.lit(1)), F.sum("i"), F.max("i"))

    return make


def _native_panes(length: str, slide: str) -> Callable[[Any], Any]:
    def make(rows: Any) -> Any:
        from pyspark.sql import functions as F

        panes = rows.groupBy("k", F.window("ts", _words(slide)).alias("w")).agg(
            F.count(F.lit(1)).alias("n"), F.sum("i").alias("s"), F.max("i").alias("m")
        )
        panes = panes.select("k", F.col("w.start").alias("ts"), "n", "s", "m")
        window = F.window("ts", _words(length), _words(slide))
        return panes.groupBy("k", window).agg(F.sum("n"), F.sum("s"), F.max("m"))

    return make


def _words(length: str) -> str:
    unit = {"h": "hours", "m": "minutes", "s": "seconds"}[length[-1]]
    return f"{length[:-1]} {unit}"


# ---- trailing windows ------------------------------------------------------------------------


def _trailing_jobs() -> Iterator[Job]:
    import spark_bridge

    def ours(functions: tuple[str, ...], ranges: tuple[int, ...]) -> Callable[[Any], Any]:
        specs = [
            mta.rolling(f"{length}s", on="ts", by="k").agg(
                **{f"{fn}_{length}": getattr(agg, fn)("x") for fn in functions}
            )
            for length in ranges
        ]
        return lambda rows: spark_bridge.apply(specs, rows)

    for subject, functions, ranges, share in (
        ("trailing 1000 s, sum", ("sum",), (1000,), 1.0),
        ("trailing 1000 s, 6 answers", SIX, (1000,), 0.5),
        ("4 trailing x 6 answers", SIX, RANGES, 0.25),
    ):
        yield Job(subject, "mta", 1.0, ours(functions, ranges))
        yield Job(subject, "spark, segment tree", share, _native_trailing(functions, ranges))


def _native_trailing(functions: tuple[str, ...], ranges: tuple[int, ...]) -> Callable[[Any], Any]:
    def make(rows: Any) -> Any:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        rows = rows.withColumn("us", F.unix_micros("ts"))
        for length in ranges:
            over = Window.partitionBy("k").orderBy("us").rangeBetween(-(length * 10**6) + 1, 0)
            for fn in functions:
                rows = rows.withColumn(f"{fn}_{length}", _native_function(fn)("x").over(over))
        return rows.drop("us")

    return make


def _native_function(fn: str) -> Any:
    from pyspark.sql import functions as F

    return {"mean": F.avg, "std": F.stddev}.get(fn) or getattr(F, fn)


if __name__ == "__main__":
    main()
