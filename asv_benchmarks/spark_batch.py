"""Batch windows on Spark, ours beside Spark's own: ``python -m asv_benchmarks.spark_batch``.

Whole jobs on ``local[2]`` with a noop sink, warm, the least of the repeats: wall clock, and CPU
time of Spark and its Python workers, which other work on the machine disturbs less. What Spark's
own plans take too long for runs over a share of the keys; rates are of the rows it read.
"""

from __future__ import annotations

import argparse
import functools
import math
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
MORE = ("first", "last", "product", "longest_run")
RANGES = (60, 250, 1000, 4000)
FEW = 0.02  # of the keys, for what Spark answers at some thousand rows a second
TREE = "spark.sql.window.segmentTree.enabled"


@dataclass(frozen=True)
class Job:
    """What is measured: `share` of the keys are read; Spark's segment tree is on, or off."""

    subject: str
    who: str
    share: float
    make: Callable[[Any], Any]
    tree: bool = True


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
    """Run a job some times, and print its rate and its price."""
    rows.sparkSession.conf.set(TREE, str(job.tree).lower())
    frame = job.make(rows.where(f"k < {job.share * options.keys}"))
    runs = [measured(frame) for _ in range(options.repeats)]
    seconds, cpu = (min(times) for times in zip(*runs, strict=True))
    count = job.share * options.rows
    print(
        f"{job.subject:28s} {job.who:24s} {count / seconds / 1e6:8.3f} M rows/s "
        f"{1e9 * cpu / count:9.0f} ns of CPU a row; {seconds:6.2f} s, "
        f"{job.share:5.1%} of the rows, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def measured(frame: Any) -> tuple[float, float]:
    """Wall clock and CPU seconds of a job."""
    start, before = time.perf_counter(), cpu_seconds()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start, cpu_seconds() - before


def cpu_seconds() -> float:
    """Of this process and all that come from it, by Linux's /proc; elsewhere nothing."""
    if not os.path.isdir("/proc/self"):
        return math.nan
    spent, children = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        spent[pid] = sum(map(int, fields[11:15]))  # its own and its dead children's
        children.setdefault(fields[1], []).append(pid)
    total, found = 0, [str(os.getpid())]
    while found:
        pid = found.pop()
        total += spent.get(pid, 0)
        found += children.get(pid, [])
    return total / float(os.sysconf("SC_CLK_TCK"))


def jobs() -> Iterator[Job]:
    """Everything that is measured, in order."""
    yield Job("scan", "spark", 1.0, lambda rows: rows)
    yield from _passing_jobs()
    yield from _periodic_jobs()
    yield from _trailing_jobs()
    yield from _slow_jobs()
    yield from _giant_jobs()


# ---- the way alone ---------------------------------------------------------------------------


def _passing_jobs() -> Iterator[Job]:
    """What it costs to bring rows to Python and back, with answers that cost nothing."""
    for answers in (0, 1, 6, 10, 24):
        yield Job("identity", f"mapInArrow, {answers} answers", 1.0, _identity(answers))


def _identity(answers: int) -> Callable[[Any], Any]:
    def make(rows: Any) -> Any:
        from pyspark.sql import types as T

        more = [f"a{number}" for number in range(answers)]
        doubles = [T.StructField(name, T.DoubleType()) for name in more]

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for name in more:
                    batch = batch.append_column(name, batch.column(2))
                yield batch

        placed = rows.repartition("k").sortWithinPartitions("k", "ts")
        return placed.mapInArrow(run, T.StructType(rows.schema.fields + doubles))

    return make


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

    yield Job("trailing 1000 s, 10 answers", "mta", 1.0, ours((*SIX, *MORE), (1000,)))
    for subject, functions, ranges, share in (
        ("trailing 1000 s, sum", ("sum",), (1000,), 1.0),
        ("trailing 1000 s, 6 answers", SIX, (1000,), 0.5),
        ("4 trailing x 6 answers", SIX, RANGES, 0.25),
    ):
        yield Job(subject, "mta", 1.0, ours(functions, ranges))
        yield Job(subject, "spark, segment tree", share, _native_trailing(functions, ranges))


def _native_trailing(functions: tuple[str, ...], ranges: tuple[int, ...]) -> Callable[[Any], Any]:
    def make(rows: Any) -> Any:
        for length in ranges:
            for fn in functions:
                made = functools.partial(_native_function(fn), "x")
                rows = _over(rows, length, f"{fn}_{length}", made)
        return rows.drop("us")

    return make


def _over(rows: Any, length: int, name: str, answer: Callable[[], Any]) -> Any:
    """With Spark's answer over so many seconds beside every row, and the time in microseconds."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rows = rows.withColumn("us", F.unix_micros("ts"))
    over = Window.partitionBy("k").orderBy("us").rangeBetween(-(length * 10**6) + 1, 0)
    return rows.withColumn(name, answer().over(over))


def _native_function(fn: str) -> Any:
    from pyspark.sql import functions as F

    return {"mean": F.avg, "std": F.stddev}.get(fn) or getattr(F, fn)


# ---- where Spark has no segment tree, or has it off ------------------------------------------


def _slow_jobs() -> Iterator[Job]:
    from pyspark.sql import functions as F

    # (Spark refuses median and percentile over a window with an order, and count(distinct).)
    for subject, asked, native, share in (
        ("1000 rows, skewness", agg.skew("x", bias=True), F.skewness, 0.02),
        ("1000 rows, median", agg.median("x"), None, FEW),
        ("1000 rows, percentile", agg.quantile("x", 0.9), _approximately, FEW),
        ("1000 rows, count_distinct", agg.count_distinct("i"), _Distinct, FEW),
    ):
        yield Job(subject, "mta", 1.0, _one_answer(asked, None))
        if native is not None:
            yield Job(subject, "spark", share, _one_native(native, asked.column, None))
    for share, who, make in (
        (1.0, "mta", _one_answer(agg.sum("x"), 100)),
        (0.02, "spark, no segment tree", _one_native(F.sum, "x", 2)),
    ):
        yield Job("10000 rows, sum", who, share, make, tree=False)


def _giant_jobs() -> Iterator[Job]:
    """One key that has all the rows, over about 1,000 of them."""
    import spark_bridge

    exact = {"s": agg.sum("x", numerics="exact"), "lo": agg.min("x"), "hi": agg.max("x")}
    spec = mta.rolling("1s", on="ts", by="k").agg(**exact)
    for slices in (None, "5m"):
        yield Job(
            "one key, 3 answers",
            f"mta, slices={slices}",
            1.0,
            lambda rows, slices=slices: spark_bridge.apply(
                spec, _fewer_keys(rows, 1), slices=slices
            ),
        )


def _one_answer(asked: Any, keys: int | None) -> Callable[[Any], Any]:
    """Over 1,000 s; keys: so many only, and so more rows a second."""
    import spark_bridge

    spec = mta.rolling("1000s", on="ts", by="k").agg(answer=asked)
    return lambda rows: spark_bridge.apply(spec, _fewer_keys(rows, keys))


def _one_native(native: Any, column: str, keys: int | None) -> Callable[[Any], Any]:
    def make(rows: Any) -> Any:
        rows = _fewer_keys(rows, keys)
        return _over(rows, 1000, "answer", lambda: native(column)).drop("us")

    return make


def _fewer_keys(rows: Any, keys: int | None) -> Any:
    return rows if keys is None else rows.withColumn("k", rows["k"] % keys)


def _approximately(column: str) -> Any:
    from pyspark.sql import functions as F

    return F.percentile_approx(column, 0.9)


class _Distinct:
    """Spark has no count(distinct) over windows; this is what people write."""

    def __init__(self, column: str) -> None:
        self.column = column

    def over(self, window: Any) -> Any:
        """The answers over a window."""
        from pyspark.sql import functions as F

        return F.size(F.collect_set(self.column).over(window))


if __name__ == "__main__":
    main()
