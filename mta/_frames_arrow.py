"""pyarrow, and anything with an Arrow stream, in; pyarrow out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mta._texts import text_codes
from mta.errors import DataError
from mta.frames import Answer, Column, Frame, null_column, plain_column


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
        column = arrow_column(name, self.data.column(name))
        return column._replace(native=self.data.column(name)) if column.values is None else column

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        return encode_arrow(name, self.data.column(name))

    def text_codes(self, name: str) -> tuple[NDArray[np.int64], int] | None:
        if self.names().count(name) > 1:  # `column` refuses it
            return None
        return arrow_text_codes(self.data.column(name))

    def one_column(self, native: Any) -> ArrowFrame:
        return ArrowFrame(pa.table({"values": native}))

    def take(self, rows: NDArray[np.int64]) -> Any:
        places = pa.array(rows)
        columns = [_taken(column, places) for column in self.data.columns]
        return pa.Table.from_arrays(columns, schema=self.data.schema)

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    def select(self, names: list[str]) -> Any:
        return self.data.select(names)

    def times_like(self, column: Column, unit: str) -> Column:
        return arrow_times_like(column, unit)

    @staticmethod
    def join(data: list[Any]) -> Any:
        # A column of nulls takes the type of the others.
        return pa.concat_tables(data, promote_options="default")

    @staticmethod
    def take_native(native: Any, rows: NDArray[np.int64]) -> Any:
        return _taken(native, pa.array(rows))

    @staticmethod
    def join_natives(old: Any, new: Any) -> Any:
        joined = pa.chunked_array([*_chunked(old).chunks, *_chunked(new).chunks])
        return joined if joined.num_chunks < 64 else pa.chunked_array([_one_array(joined)])

    def native_like(self, column: Column, like: Column) -> Column:
        wanted = like.native.type
        if column.native is None or column.native.type == wanted:
            return column
        # Texts are texts, whatever their offsets, and in a dictionary too; so are bytes.
        plain, its = _plain_type(wanted), _plain_type(column.native.type)
        if any(plain in family and its in family for family in (_TEXT_TYPES, _BYTE_TYPES)):
            with suppress(pa.ArrowNotImplementedError):
                values = _written_out(column.native).cast(plain).cast(wanted)
                return column._replace(native=values)
        raise DataError(f"column {column.name!r} was {wanted} and now is {column.native.type}")

    @staticmethod
    def nulls_like(native: Any, count: int) -> Any:
        return pa.nulls(count, native.type)

    @staticmethod
    def list_native(native: Any, rows: NDArray[np.int64]) -> list[Any]:
        values: list[Any] = _taken(native, pa.array(rows)).to_pylist()
        return values

    def build(self, answers: list[Answer], at: NDArray[np.int64] | None = None) -> Any:
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


def _inner_type(dtype: Any) -> Any:
    """What an encoded or wrapped type holds; None for a plain one."""
    if pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
        return dtype.value_type
    return dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else None


def _plain_type(dtype: Any) -> Any:
    while (inner := _inner_type(dtype)) is not None:
        dtype = inner
    return dtype


def _written_out(column: Any) -> Any:
    """The column with dictionaries and runs decoded and extension types as what they store."""
    while (inner := _inner_type(column.type)) is not None:
        runs = pa.types.is_run_end_encoded(column.type)
        column = pc.run_end_decode(column) if runs else column.cast(inner)
    return column


def _taken(column: Any, rows: Any) -> Any:
    """These rows of a column of any type; Arrow's own `take` does not have them all."""
    try:
        return column.take(rows)
    except pa.ArrowNotImplementedError:
        viewed = _VIEWED.get(column.type)
    if viewed is not None:
        return column.cast(viewed).take(rows).cast(column.type)
    null = pa.nulls(1, column.type)
    each = (null if row is None else _one_array(column.slice(row, 1)) for row in rows.to_pylist())
    return pa.concat_arrays([_one_array(column.slice(0, 0)), *each])


def _one_array(column: Any) -> Any:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # an empty one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def _validity(column: Any) -> NDArray[np.bool_] | None:
    return column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None


def arrow_column(name: str, column: Any) -> Column:
    """An Arrow array, or a chunked one, as plain arrays."""
    column = _written_out(column)
    dtype, valid = column.type, _validity(column)
    if pa.types.is_null(dtype):
        return null_column(name, len(column), dtype)
    if pa.types.is_temporal(dtype) and not pa.types.is_time(dtype):
        return _temporal(name, _one_array(column), valid)
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)
    if not any(is_kind(dtype) for is_kind in kinds):
        return Column(name, "other", None, valid, dtype=dtype)
    return plain_column(name, plain_values(_one_array(column)), valid, dtype)


def plain_values(array: Any) -> NDArray[Any]:
    """The numbers of an Arrow array; where it is null, any."""
    if pa.types.is_boolean(array.type):
        array = pc.fill_null(array, False)
    if not array.null_count:
        values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return values
    dtype = array.type.to_pandas_dtype()
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


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
    try:
        if pa.types.is_dictionary(column.type):
            array = _one_array(column)
            # A dictionary may name a value twice, and null as well.
            codes = _written_out(array.dictionary).dictionary_encode().indices.take(array.indices)
        else:
            chunks = _chunked(_written_out(column)).dictionary_encode().chunks
            codes = _one_array(pa.chunked_array([c.indices for c in chunks], pa.int32()))
    except pa.ArrowNotImplementedError:
        raise DataError(f"column {name!r}: {column.type} is no key, nor is it counted") from None
    filled = pc.fill_null(codes.cast(pa.int64()), 0)
    return filled.to_numpy(zero_copy_only=False), _validity(codes)


def arrow_text_codes(column: Any) -> tuple[NDArray[np.int64], int] | None:
    """As ``Frame.text_codes``, of an Arrow array or a chunked one."""
    width = _TEXTS.get(column.type)
    if width is None:
        return None
    chunks = _chunked(column).chunks
    return text_codes([(width, len(c), c.offset, c.buffers()) for c in chunks])


_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())
_BYTE_TYPES = (pa.binary(), pa.large_binary(), pa.binary_view())
# What views are views of: polars gives its texts to others so.
_VIEWED = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
# The bytes of an offset; of views, 0.
_TEXTS = {
    pa.string(): 4,
    pa.binary(): 4,
    pa.large_string(): 8,
    pa.large_binary(): 8,
    pa.string_view(): 0,
    pa.binary_view(): 0,
}


def arrow_times_like(column: Column, unit: str) -> Column:
    """As ``Frame.times_like``."""
    zone = getattr(column.dtype, "tz", None)
    return Column(column.name, "time", None, unit=unit, dtype=pa.timestamp(unit, zone))


def _chunked(column: Any) -> Any:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def arrow_answer(answer: Answer) -> Any:
    """The answers as an Arrow array, nulls as nulls."""
    mask = None if answer.valid is None else ~answer.valid
    if answer.lengths is not None:
        ends = np.concatenate([[0], np.cumsum(answer.lengths)])
        nulls = None if mask is None else np.concatenate([mask, [False]])
        items = arrow_answer(answer.items)
        if ends[-1] < 2**31:
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32(), mask=nulls), items)
        return pa.LargeListArray.from_arrays(pa.array(ends, mask=nulls), items)
    if answer.binary:
        return _binary(answer.values)
    array = pa.array(answer.values, mask=mask)
    like = answer.like
    if answer.rows and like is not None:
        return _one_array(_taken(like.native, array))
    if like is None or like.dtype is None:
        return array
    dtype = _plain_type(like.dtype)
    if pa.types.is_null(dtype):  # of a column that had only nulls at first, and then others
        return pa.nulls(len(array)) if array.null_count == len(array) else array
    if like.kind == "date" and like.unit == "d":
        array = array.cast(pa.int32())
    return array.cast(dtype)


def _binary(values: NDArray[Any]) -> Any:
    """Byte strings; of more than 2 GB in all, with offsets of 8 bytes."""
    wide = sum(len(x) for x in values if x is not None) >= 2**31
    return pa.array(values.tolist(), pa.large_binary() if wide else pa.binary())
