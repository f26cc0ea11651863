"""Data of any kind as bytes and back, for snapshots: Arrow's IPC format, which holds no code."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mta.errors import SnapshotError
from mta.frames import TIME_UNITS, Frame, open_frame

_APART = b"mta: apart"  # columns of pandas that come last


def frame_bytes(frame: Frame) -> bytes:
    """The data of a frame.

    Raises
    ------
    SnapshotError
        pyarrow is missing, or the data holds objects that Arrow has no type for.
    """
    pa = _pyarrow()
    data = frame.data
    kind = type(frame).__name__
    try:
        # (A file has one dictionary of a column.)
        table = _TO_ARROW[kind](pa, data).unify_dictionaries()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SnapshotError(f"to_bytes: {error}") from None
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"mta": kind.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def bytes_frame(data: bytes) -> Frame:
    """The frame that `frame_bytes` wrote."""
    pa = _pyarrow()
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        kind = (table.schema.metadata or {}).get(b"mta", b"").decode()
        return open_frame(_FROM_ARROW[kind](table))
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise SnapshotError(f"snapshot: damaged ({error})") from None


def warm_up() -> None:
    """Import what the first frame needs, which takes a while: pyarrow, with its first array pandas.

    Raises
    ------
    SnapshotError
        pyarrow is missing.
    """
    _pyarrow().array(np.zeros(1))


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise SnapshotError("a stream's snapshot needs pyarrow: pip install pyarrow") from None
    return pa


def _numpy_to_arrow(pa: Any, data: dict[str, Any]) -> Any:
    """Every array with its NumPy type, which Arrow's may be coarser than, in the metadata."""
    arrays, fields = [], []
    for name, values in data.items():
        mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        array = pa.array(_told_by_arrow(np.asarray(values)), mask=mask, from_pandas=False)
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata={b"numpy": values.dtype.str.encode()}))
    return pa.table(arrays, schema=pa.schema(fields))


def _told_by_arrow(values: Any) -> Any:
    """The same values in a type that Arrow has: its times have no units of years or of 25 s."""
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind in "mM":
        unit, step = np.datetime_data(dtype)
        dtype = dtype if step == 1 and unit in TIME_UNITS else np.dtype(f"{dtype.kind}8[s]")
    return values.astype(dtype, copy=False)


def _numpy_from_arrow(table: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        dtype = np.dtype((field.metadata or {})[b"numpy"].decode())
        if dtype.kind == "O":
            made[field.name] = np.array([*column.to_pylist(), None], object)[:-1]
            continue
        valid = column.is_valid().to_numpy()
        filled = column.to_numpy(zero_copy_only=False) if valid.all() else _filled(column, dtype)
        values = filled.astype(dtype)
        masked = not valid.all() and dtype.kind not in "mM"
        made[field.name] = np.ma.MaskedArray(values, ~valid) if masked else values
    return made


def _filled(column: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "mM":
        return column.to_numpy(zero_copy_only=False)
    empty = "" if dtype.kind == "U" else (b"" if dtype.kind == "S" else 0)
    return np.array([empty if x is None else x for x in column.to_pylist()])


def _pandas_to_arrow(pa: Any, data: Any) -> Any:
    """Columns that pandas would give another type, which are those that Arrow holds and objects,
    come last, and the metadata say where they were."""
    import pandas as pd

    arrow = [isinstance(dtype, pd.ArrowDtype) for dtype in data.dtypes]
    objects = [dtype is np.dtype(object) for dtype in data.dtypes]
    apart = np.flatnonzero(np.array(arrow, bool) | np.array(objects, bool))
    table = pa.Table.from_pandas(data.iloc[:, np.setdiff1d(np.arange(data.shape[1]), apart)])
    for place in apart:
        column = data.iloc[:, place]
        array = column.array.__arrow_array__() if arrow[place] else _objects_as_arrow(pa, column)
        table = table.append_column(str(data.columns[place]), array)
    told = [[int(place), bool(arrow[place])] for place in apart]
    return table.replace_schema_metadata({**table.schema.metadata, _APART: json.dumps(told)})


def _objects_as_arrow(pa: Any, column: Any) -> Any:
    values = column.to_numpy()
    try:
        return pa.array(values, from_pandas=False)
    except (pa.ArrowException, TypeError):  # NaN among texts, say, which pandas takes for null
        return pa.array(values, from_pandas=True)


def _pandas_from_arrow(table: Any) -> Any:
    import pandas as pd
    import pyarrow.compute as pc

    apart = json.loads((table.schema.metadata or {}).get(_APART, b"[]"))
    rest = table.num_columns - len(apart)
    frame = table.select(range(rest)).to_pandas()
    for name in frame.columns:
        if isinstance(frame[name].array, pd.arrays.FloatingArray):
            # pandas takes NaN for null there; it is a value.
            column = table.column(str(name))
            values = pc.fill_null(column, 0.0).to_numpy()
            floats = pd.arrays.FloatingArray(values.copy(), column.is_null().to_numpy())
            frame[name] = floats.astype(frame[name].dtype)
    for (place, arrow), name in zip(apart, table.column_names[rest:], strict=True):
        column = table.column(name)
        objects = None if arrow else np.array([*column.to_pylist(), None], object)[:-1]
        values = pd.arrays.ArrowExtensionArray(column) if arrow else pd.Index(objects, dtype=object)
        frame.insert(place, name, pd.Series(values, frame.index))
    return frame


def _polars_from_arrow(table: Any) -> Any:
    import polars as pl

    return pl.from_arrow(table)


_TO_ARROW: dict[str, Any] = {
    "ArrowFrame": lambda pa, data: data,
    "NumpyFrame": _numpy_to_arrow,
    "PandasFrame": _pandas_to_arrow,
    "PolarsFrame": lambda pa, data: data.to_arrow(),
}
_FROM_ARROW: dict[str, Any] = {
    "ArrowFrame": lambda table: table.replace_schema_metadata(None),
    "NumpyFrame": _numpy_from_arrow,
    "PandasFrame": _pandas_from_arrow,
    "PolarsFrame": _polars_from_arrow,
}
