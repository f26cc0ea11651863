"""Streams on real Spark for tests: files that are micro-batches, and what queries give of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OPTIONS = {
    "spark.sql.streaming.stateStore.providerClass": PROVIDER,
    "spark.sql.shuffle.partitions": "2",
}
# What Spark says when the Python of a query on the driver has not come up in 10 s, a constant of
# its own; on a machine with far more work than cores that is too short.
NOT_UP = "Python worker failed to connect back"
STARTS = 3  # of a query, at most


@contextmanager
def session_with(spark: Any, options: dict[str, str]) -> Iterator[None]:
    """These options of a session, for a while."""
    before = {name: spark.conf.get(name, None) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@contextmanager
def session_of_streams(spark: Any, more: dict[str, str] | None = None) -> Iterator[None]:
    """The options that streams need, and more, for a while."""
    with session_with(spark, OPTIONS | (more or {})):
        yield


def put_file(folder: Path, number: int, table: pa.Table) -> None:
    """One more file, whole at once, and later than those of smaller numbers."""
    name = folder / f"{number:04}.parquet"
    pq.write_table(table, name.with_suffix(".tmp"))
    os.utime(name.with_suffix(".tmp"), (1e9 + number,) * 2)
    name.with_suffix(".tmp").rename(name)


def read_files(spark: Any, folder: Path, schema: pa.Schema) -> Any:
    """The stream of the files that are there, and will be; each is a micro-batch."""
    from pyspark.sql.pandas.types import from_arrow_schema

    reader = spark.readStream.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True))
    reader = reader.option("maxFilesPerTrigger", 1).option("pathGlobFilter", "*.parquet")
    return reader.parquet(str(folder))


class Source:
    """A directory of files, each a micro-batch, and what queries over it have given."""

    def __init__(self, spark: Any, path: Path) -> None:
        self.spark, self.path = spark, path
        (path / "in").mkdir(parents=True)
        self.files, self.batches, self.progress = 0, {}, []
        self.schema: pa.Schema | None = None

    def put(self, table: pa.Table) -> None:
        """One more micro-batch."""
        put_file(self.path / "in", self.files, table)
        self.files += 1
        self.schema = self.schema or table.schema

    def read(self) -> Any:
        """The stream of what was put, and will be."""
        return read_files(self.spark, self.path / "in", self.schema)

    def start(
        self, spec: Any, fails_in: int | None = None, shards: int = 3, trigger: Any = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        """A query over what was put since the last one."""
        import spark_bridge

        def write(frame, number):
            rows = frame.toArrow()
            if number == fails_in:
                raise RuntimeError("the sink is full")
            self.batches[number] = rows

        return (
            spark_bridge.apply(spec, self.read(), shards=shards, **options)
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.path / "checkpoint"))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def finish(self, query: Any) -> pa.Table:
        """All that has come out of all queries; exactly once by its number."""
        try:
            query.awaitTermination()
        finally:
            self.progress += query.recentProgress
        return pa.concat_tables(self.batches.values())

    def answer(self, spec: Any, fails_in: int | None = None, **options: Any) -> pa.Table:
        """All that queries give of what was put, up to now."""
        for _ in range(STARTS - 1):
            try:
                return self.finish(self.start(spec, fails_in, **options))
            except Exception as error:  # it goes on where it was
                if NOT_UP not in str(error):
                    raise
        return self.finish(self.start(spec, fails_in, **options))
