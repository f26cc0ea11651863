"""The driver that test_spark_kills.py kills: queries over files, begun again until all is done.

A program, run as a process of its own: ``python killed_driver.py FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import mta
from mta import agg
from spark_streams import OPTIONS, read_files

AGGS = {"s": agg.sum("x"), "sd": agg.std("x"), "q": agg.median("x"), "n": agg.count()}
ROLLING = mta.rolling("40i", on="t", by="k").watermark("9i").agg(**AGGS)
HOPPING = mta.hopping("40i", "15i", on="t", by="k").watermark("9i").agg(**AGGS)
SPECS = {"rolling": ROLLING, "hopping": HOPPING}
EAGER = {"eager rolling": ROLLING, "eager hopping": HOPPING}
FILE_SINK = {"rolling", "eager hopping"}  # the others write files by the number of the micro-batch
SCHEMA = pa.schema([
    ("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("row", pa.int64()),
])  # fmt: skip
SHARDS = 3
TRIES = 8


def session() -> Any:
    """One whose tasks are tried twice, so that a killed worker need not end the query."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,2]").appName("mta-killed")
    options = OPTIONS | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def start(spark: Any, folder: Path, name: str) -> Any:
    """The query of a spec: a file sink, or files by the number of the micro-batch."""
    import spark_bridge

    frame, output = read_files(spark, folder / "in", SCHEMA), "eager" if name in EAGER else "final"
    answers = spark_bridge.apply(
        (SPECS | EAGER)[name], frame, shards=SHARDS, late="late", metrics=name, output=output
    )
    writer = answers.writeStream.option("checkpointLocation", str(folder / name / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    out = folder / name / "out"
    if name in FILE_SINK:
        return writer.format("parquet").option("path", str(out)).start()

    def write(rows: Any, number: int) -> None:
        table = rows.toArrow()
        out.mkdir(exist_ok=True)
        pq.write_table(table, out / f"{number}.tmp")
        (out / f"{number}.tmp").rename(out / f"{number}.parquet")

    return writer.foreachBatch(write).start()


def main(folder: Path) -> None:
    """Until all queries have answered everything that is there."""
    from pyspark.errors import StreamingQueryException

    spark = session()
    spark.sparkContext.setLogLevel("OFF")
    left = {*SPECS, *EAGER}
    for _ in range(TRIES):
        queries = {name: start(spark, folder, name) for name in sorted(left)}
        for name, query in queries.items():
            try:
                query.awaitTermination()
                left.discard(name)
            except StreamingQueryException as error:  # a task has failed twice
                print("failed", name, type(error).__name__, flush=True)
        if not left:
            break
    spark.stop()
    sys.exit(f"not done: {left}" if left else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
