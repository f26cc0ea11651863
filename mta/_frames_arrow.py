"""pyarrow, and anything with an Arrow stream, in; pyarrow out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mta.errors import DataError
from mta.frames import Answer, Column, Frame, plain_column


class ArrowFrame(Frame):
    """A pyarrow Table, RecordBatch or RecordBatchReader, or an Arrow stream."""

    def __init__(self, data: Any) -> None:
        self.batch = isinstance(data, pa.RecordBatch)
        if isinstance(data, pa.RecordBatch):
            self.data = pa.Table.from_batches([data])
        elif isinstance(data, pa.RecordBatchReader):
            self.data = data.read_all()
        else:
            self.data = data if isinstance(data, pa.Table) else _read_stream(data)
        self.rows = self.data.num_rows

    def names(self) -> list[str]:
        return list(self.data.column_names)

    def column(self, name: str) -> Column:
        if self.names().count(name) > 1:
            raise DataError(f"column {name!r}: there are {self.names().count(name)} of this name")
        return arrow_column(name, self.data.column(name))

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        return encode_arrow(name, self.data.column(name))

    def build(self, answers: list[Answer]) -> Any:
        names = [a.name for a in answers]
        arrays = [arrow_answer(a) for a in answers]
        if self.batch:
            return pa.RecordBatch.from_arrays(arrays, names=names)
        return pa.Table.from_arrays(arrays, names=names)


def _read_stream(data: Any) -> pa.Table:
    try:
        return pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        kind = f"{type(data).__module__}.{type(data).__qualname__}"
        raise DataError(f"a {kind} is no table of named columns: {error}") from None


def flatten(column: Any) -> Any:
    """One array of a chunked one."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # an empty one, or too long for one array
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def arrow_column(name: str, column: Any) -> Column:
    """An Arrow array as plain arrays."""
    array = flatten(column)
    dtype = array.type
    if pa.types.is_dictionary(dtype):
        array = array.dictionary_decode()
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_null(dtype):
        return Column(name, "float", np.zeros(len(array)), valid, dtype=dtype)
    if pa.types.is_temporal(dtype) and not pa.types.is_time(dtype):
        return _temporal(name, array, valid)
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)
    if not any(is_kind(array.type) for is_kind in kinds):
        return Column(name, "other", None, valid, dtype=dtype)
    if valid is not None:
        array = pc.fill_null(array, pa.scalar(0).cast(array.type))
    return plain_column(name, array.to_numpy(zero_copy_only=False), valid, dtype)


def _temporal(name: str, array: Any, valid: NDArray[np.bool_] | None) -> Column:
    dtype = array.type
    if pa.types.is_date(dtype):
        kind, unit = "date", ("d" if pa.types.is_date32(dtype) else "ms")
        array = array.cast(pa.int32()) if unit == "d" else array
    elif pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype):
        kind, unit = ("time" if pa.types.is_timestamp(dtype) else "duration"), dtype.unit
    else:
        return Column(name, "other", None, valid, dtype=dtype)
    ticks = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return Column(name, kind, np.ascontiguousarray(ticks), valid, unit, dtype)


def encode_arrow(name: str, column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Dictionary codes, and where the value is not null."""
    array = flatten(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()  # its dictionary may name a value twice
    try:
        array = array.dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise DataError(f"by: column {name!r}: a {array.type} can't be a key") from None
    codes = pc.fill_null(array.indices.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if not array.null_count:
        return codes, None
    return codes, array.is_valid().to_numpy(zero_copy_only=False)


def arrow_answer(answer: Answer) -> Any:
    """The answers as an Arrow array, nulls as nulls."""
    mask = None if answer.valid is None else ~answer.valid
    array = pa.array(answer.values, mask=mask)
    like = answer.like
    if like is None or like.dtype is None:
        return array
    dtype = like.dtype.value_type if pa.types.is_dictionary(like.dtype) else like.dtype
    if like.kind == "date" and like.unit == "d":
        array = array.cast(pa.int32())
    return array.cast(dtype)
