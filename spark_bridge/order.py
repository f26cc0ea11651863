"""Whether a partition that somebody else has sorted is sorted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta._frames_arrow import ArrowFrame, arrow_column
from mta.engine import Ints
from mta.errors import DataError
from mta.specs import Spec


def checked(
    spec: Spec, names: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The same batches, as long as their rows are sorted by key and time.

    Raises
    ------
    DataError
        Within a key the time goes back, or a key comes after one that Spark sorts behind it.
    """
    used = [names.index(name) for name in [*spec.by, *([spec.on] if spec.on else [])]]
    last: pa.Table | None = None
    for batch in batches:
        if batch.num_rows and used:
            rows = pa.Table.from_batches([batch]).select(used)
            rows = rows.rename_columns([names[place] for place in used])
            _check(spec, rows if last is None else pa.concat_tables([last, rows]))
            last = rows.slice(len(rows) - 1)
        yield batch


def _check(spec: Spec, rows: pa.Table) -> None:
    codes = np.zeros(len(rows), np.int64)
    if spec.by:
        codes, _ = ArrowFrame(rows).key_codes(spec.by)
        _check_keys(spec, rows, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    if spec.on is None:
        return
    times = arrow_column(spec.on, rows.column(spec.on))
    if times.valid is not None or times.values is None:
        return  # a null time is refused, with more words, by whoever needs it
    ts = times.values
    falls = np.flatnonzero((ts[1:] < ts[:-1]) & (codes[1:] == codes[:-1])) + 1
    if len(falls):
        at = int(falls[0])
        shown = [rows.column(spec.on)[row].as_py() for row in (at - 1, at)]
        raise DataError(
            f"on: column {spec.on!r} goes back from {shown[0]} to {shown[1]} within a key; "
            f"{_how(spec)}"
        )


def _check_keys(spec: Spec, rows: pa.Table, starts: Ints) -> None:
    """starts : rows whose key is not that of the row before."""
    if not len(starts):
        return
    pairs = rows.select(list(spec.by)).take(np.stack([starts - 1, starts], 1).ravel())
    ordered = _spark_like(pairs)
    try:
        order = pc.sort_indices(ordered, sort_keys=[(n, "ascending") for n in ordered.column_names])
    except pa.ArrowNotImplementedError:
        return  # of a type that Arrow can't sort
    place = np.empty(len(order), np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    wrong = np.flatnonzero(place[0::2] > place[1::2])
    if len(wrong):
        shown = [pairs.slice(2 * int(wrong[0]) + i, 1).to_pylist()[0] for i in (0, 1)]
        raise DataError(f"by: the key {shown[1]} comes after {shown[0]}; {_how(spec)}")


def _spark_like(keys: pa.Table) -> pa.Table:
    """Columns in whose order Arrow sorts as Spark does: nulls first, NaN above all numbers."""
    made: list[pa.ChunkedArray] = []
    for column in keys.columns:
        made.append(pc.is_valid(column))
        if pa.types.is_floating(column.type):
            top = pa.scalar(float("inf"), column.type)
            column = pc.if_else(pc.is_nan(column), top, column)
        made.append(column)
    return pa.Table.from_arrays(made, names=[str(i) for i in range(len(made))])


def _how(spec: Spec) -> str:
    names = ", ".join(map(repr, [*spec.by, *([spec.on] if spec.on else [])]))
    return f"sort partitions first: .sortWithinPartitions({names})"
