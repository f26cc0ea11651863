"""What the examples with streams share: a session, files as live rows, and a line that tells."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from spark_bridge.console import open_session

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def open_live(name: str, master: str) -> SparkSession:
    """A session for streams of Python with state, on a few cores.

    Spark's workers for these tell of every call on standard error, which is where its JVM, started
    here, gets its own from: that of the JVM is thrown away. (Failures are raised here anyway.)
    """
    told = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        spark = open_session(name, master, log_level="FATAL")
    finally:
        os.dup2(told, 2)
        os.close(told)
        os.close(nowhere)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return spark


class Files:
    """A directory into which tables come as files: the live source of a query."""

    def __init__(self, path: Path) -> None:
        self.path, self.written = path, 0
        path.mkdir(parents=True, exist_ok=True)

    def put(self, table: pa.Table) -> None:
        """One more file; readers see all of it or nothing."""
        name = self.path / f"{self.written:05}.parquet"
        hidden = name.with_name("." + name.name)
        pq.write_table(table, hidden)
        # Files are read in the order of their times, which some file systems have in seconds.
        os.utime(hidden, (1e9 + self.written,) * 2)
        hidden.rename(name)
        self.written += 1

    def read(self, spark: SparkSession, schema: str, per_batch: int) -> DataFrame:
        """The stream of all files, so many a micro-batch at most."""
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", per_batch)
        return reader.parquet(str(self.path))


class Line:
    """One line that is rewritten on a terminal; in a log, a line every few seconds."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty()
        self.told_at = -1e9

    def tell(self, text: str, last: bool = False) -> None:
        """The news; the last one stays."""
        if not (self.terminal or last) and time.monotonic() - self.told_at < 5:
            return
        self.told_at = time.monotonic()
        start, end = ("\r\x1b[K", "\n" if last else "") if self.terminal else ("", "\n")
        print(start + text, end=end, file=self.stream, flush=True)
