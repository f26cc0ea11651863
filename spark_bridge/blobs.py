"""Rows as blobs: what one worker packs for a shard, and what another one takes out again.

A blob is a table in Arrow's IPC format. Times with a zone are written in UTC, so that what a state
holds does not depend on the zone of a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mta.errors import DataError

PACKED = ("shard", "part", "place", "ms", "blob")
PACKED_TYPES = "shard int, part int, place bigint, ms bigint, blob binary"
GUARD = -1  # a group that is no shard: it sees every micro-batch
ROWS = 1 << 17  # so many rows of a partition are packed together
LIMIT_MS = 2**63 // 1000  # Spark counts microseconds
MS_OF_DAY = 86_400_000


def to_blob(table: pa.Table) -> bytes:
    """The rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    written: bytes = sink.getvalue().to_pybytes()
    return written


def from_blob(blob: bytes) -> pa.Table:
    """What `to_blob` was given."""
    return pa.ipc.open_stream(pa.BufferReader(blob)).read_all()


def pack(
    names: Sequence[str],
    on: str,
    part: int,
    batches: Iterable[pa.RecordBatch],
    everyone: int = 0,
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, a blob for each shard that they belong to.

    names : of the columns; one more, at the end, is the shard
    part : the number of the partition, by which blobs are put in order later
    everyone : so many shards are told that rows have come, by a null where they have none
    """
    for place, table in enumerate(_gathered(batches)):
        shards = table.column(len(names)).to_numpy()
        rows = in_utc(table.select(range(len(names))).rename_columns(list(names)))
        ms = milliseconds(rows.column(on), on)
        order = np.argsort(shards, kind="stable")
        starts = np.flatnonzero(np.diff(shards[order], prepend=GUARD))
        stops = [*starts[1:].tolist(), len(order)]
        sorted_rows = rows.take(pa.array(order))
        blobs = [
            to_blob(sorted_rows.slice(start, stop - start))
            for start, stop in zip(starts.tolist(), stops, strict=True)
        ]
        mine = shards[order][starts].tolist()
        others = [GUARD, *sorted(set(range(everyone)).difference(mine))]
        yield _packed([*others, *mine], part, place, ms, [None] * len(others) + blobs)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to tables of about so many rows."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
        if sum(b.num_rows for b in held) >= ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _packed(
    shards: list[int], part: int, place: int, ms: NDArray[np.int64], blobs: list[bytes | None]
) -> pa.RecordBatch:
    count = len(shards)
    columns = [
        pa.array(shards, pa.int32()),
        pa.array([part] * count, pa.int32()),
        pa.array([place] * count, pa.int64()),
        pa.array([int(ms.max())] * count, pa.int64()),
        pa.array(blobs, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, list(PACKED))


def unpack(
    schema: pa.Schema, late: str | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The answers (and late rows) that shards have given, in columns of these types.

    late : name of the column, the last one, that holds late rows
    """
    for batch in batches:
        for answers, rows in zip(batch.column("answers"), batch.column("late"), strict=True):
            if answers.is_valid:
                yield from _fitted(from_blob(answers.as_py()), schema)
            if rows.is_valid and late is not None:
                told = from_blob(rows.as_py()).combine_chunks().to_struct_array()
                yield from _fitted(pa.table({late: told}), schema)


def _fitted(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The table in these columns; nulls where it has none."""
    names = set(table.column_names)
    columns = []
    for field in schema:
        if field.name not in names:
            columns.append(pa.nulls(len(table), field.type))
            continue
        column = table.column(field.name)
        columns.append(column if column.type == field.type else column.cast(field.type))
    nullable = pa.schema([pa.field(f.name, f.type) for f in schema])
    yield from pa.table(columns, schema=nullable).combine_chunks().to_batches()


def in_utc(table: pa.Table) -> pa.Table:
    """The same rows, all times that have a zone in UTC."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz not in (None, "UTC"):
            column = table.column(place).cast(pa.timestamp(field.type.unit, "UTC"))
            table = table.set_column(place, field.name, column)
    return table


def milliseconds(times: pa.ChunkedArray, on: str) -> NDArray[np.int64]:
    """Times as Spark's watermark counts them; an integer is so many.

    Raises
    ------
    DataError
        A time is null, or an integer is none that Spark could hold as a time.
    """
    if times.null_count:
        raise DataError(
            f"on: column {on!r} is null in {times.null_count} of {len(times)} rows of a "
            "micro-batch; a row without a time has no window"
        )
    ms: NDArray[np.int64]
    if pa.types.is_timestamp(times.type):
        ms = times.cast(pa.int64()).to_numpy() // 1000
    elif pa.types.is_date(times.type):
        ms = times.cast(pa.int32()).to_numpy().astype(np.int64) * MS_OF_DAY
    else:
        ms = times.cast(pa.int64()).to_numpy()
    if len(ms) and max(abs(int(ms.max())), abs(int(ms.min()))) >= LIMIT_MS:
        wrong = pc.max(pc.abs(times)).as_py()
        raise DataError(
            f"on: column {on!r} holds {wrong}; a stream's integers stand for milliseconds in "
            f"Spark's watermark, and have to be below {LIMIT_MS}"
        )
    return ms
