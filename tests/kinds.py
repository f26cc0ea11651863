"""Plain Python columns into every kind of frame, and answers back out of them.

A column is a pair (type, values). Types are Arrow's names in short: "float64", "int8" ...
"uint64", "bool", "string", "category", "date", "timestamp[us]", "timestamp[ns, tz]",
"duration[s]"; times are ints, ticks of their unit. ``None`` is null.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from oracle import NULL_OR_NAN

Columns = Mapping[str, tuple[str, list]]

KINDS = ("dict", "pandas", "pandas-nullable", "pandas-arrow", "polars", "pyarrow", "batch")
"""Every kind of frame; "batch" is a pyarrow RecordBatch."""


def build(kind: str, columns: Columns) -> Any:
    """The columns as a frame of the given kind."""
    if kind == "dict":
        return {name: numpy_column(t, v) for name, (t, v) in columns.items()}
    if kind.startswith("pandas"):
        make = PANDAS_COLUMNS[kind]
        return pd.DataFrame({name: make(t, v) for name, (t, v) in columns.items()})
    table = pa.table({name: arrow_column(t, v) for name, (t, v) in columns.items()})
    if kind == "polars":
        return pl.from_arrow(table)
    return table.combine_chunks().to_batches()[0] if kind == "batch" and len(table) else table


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type that a short name stands for."""
    if parts := re.fullmatch(r"timestamp\[(\w+)(?:, (.+))?\]", name):
        return pa.timestamp(parts[1], parts[2])
    if parts := re.fullmatch(r"duration\[(\w+)\]", name):
        return pa.duration(parts[1])
    if name == "category":
        return pa.dictionary(pa.int32(), pa.string())
    return {"date": pa.date32(), "bool": pa.bool_()}.get(name) or getattr(pa, name)()


def arrow_column(name: str, values: list) -> pa.Array:
    """An Arrow array; NaN stays NaN."""
    if name == "category":
        return pa.array(values, pa.string()).dictionary_encode()
    if name.startswith("float"):
        return pa.array(values, arrow_type(name), from_pandas=False)
    carrier = {"date": pa.int32()}.get(name, pa.int64() if "[" in name else arrow_type(name))
    return pa.array(values, carrier).cast(arrow_type(name))


def numpy_column(name: str, values: list) -> np.ndarray:
    """A NumPy array; with nulls a masked array, datetime64 with NaT, or objects."""
    if name in ("string", "category"):
        return np.array(values, dtype=object) if None in values else np.array(values, dtype=str)
    if "[" in name:
        kind, unit = re.match(r"(\w+)\[(\w+)", name).groups()
        ticks = np.array([np.iinfo(np.int64).min if v is None else v for v in values], np.int64)
        return ticks.view(f"{'M8' if kind == 'timestamp' else 'm8'}[{unit}]")
    dtype = {"date": "datetime64[D]", "bool": "bool"}.get(name, name)
    mask = [v is None for v in values]
    array = np.array([0 if v is None else v for v in values], dtype)
    return np.ma.MaskedArray(array, mask) if any(mask) else array


def _pandas_numpy(name: str, values: list) -> pd.Series:
    """What pandas users have by default; numbers with nulls take the nullable dtypes."""
    if name in ("float64", "float32") and None in values:
        return _pandas_nullable(name, values)
    if re.match("u?int|bool", name) and None in values:
        return _pandas_nullable(name, values)
    if name == "category":
        return pd.Series(pd.Categorical(values))
    if name.startswith(("timestamp", "duration")):
        series = pd.Series(numpy_column(name, values))
        zone = re.search(r", (.+)\]", name)
        return series.dt.tz_localize("UTC").dt.tz_convert(zone[1]) if zone else series
    if name == "date":
        return pd.Series(arrow_column(name, values).to_pylist(), dtype=object)
    return pd.Series(values, dtype={"string": "str"}.get(name, name))


def _pandas_nullable(name: str, values: list) -> pd.Series:
    mask = np.array([v is None for v in values], bool)
    filled = [0 if v is None else v for v in values]
    if name.startswith("float"):
        return pd.Series(pd.arrays.FloatingArray(np.array(filled, name), mask))
    if name == "bool":
        return pd.Series(pd.arrays.BooleanArray(np.array(filled, bool), mask))
    if re.match("u?int", name):
        return pd.Series(pd.arrays.IntegerArray(np.array(filled, name), mask))
    if name == "string":
        return pd.Series(values, dtype="string")
    return _pandas_numpy(name, values)


def _pandas_arrow(name: str, values: list) -> pd.Series:
    array = arrow_column(name, values)
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))


PANDAS_COLUMNS = {
    "pandas": _pandas_numpy,
    "pandas-nullable": _pandas_nullable,
    "pandas-arrow": _pandas_arrow,
}


# ---- answers ---------------------------------------------------------------------------------


def read(frame: Any) -> list[dict[str, Any]]:
    """A frame's rows as plain dicts; a NaN that may stand for null becomes ``NULL_OR_NAN``."""
    columns = {name: _read_column(column) for name, column in named_columns(frame).items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def named_columns(frame: Any) -> dict[str, Any]:
    """The frame's columns by name, whatever it is."""
    if isinstance(frame, dict):
        return frame
    if isinstance(frame, pl.DataFrame):
        return {c: frame[c] for c in frame.columns}
    if isinstance(frame, pd.DataFrame):
        return {c: frame[c] for c in frame.columns}
    return dict(zip(frame.column_names, frame.columns, strict=True))


def _read_column(column: Any) -> list:
    if isinstance(column, pd.Series):
        return _read_pandas(column)
    if isinstance(column, pl.Series):
        # Python's own times, which polars gives, have no nanoseconds.
        in_ns = "'ns'" in str(column.dtype)
        return column.to_arrow().to_pylist() if in_ns else column.to_list()
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column.to_pylist()
    if isinstance(column, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(column)
        values = _plain_items(column.data)
        return [None if m else v for m, v in zip(mask, values, strict=True)]
    return _nan_is_either(_plain_items(column))


def _read_pandas(series: pd.Series) -> list:
    if isinstance(series.dtype, pd.ArrowDtype):
        return pa.array(series.array).to_pylist()
    if isinstance(series.dtype, np.dtype):
        return _nan_is_either([_plain(v) for v in series.to_list()])
    return pa.array(series).to_pylist()  # nullable dtypes keep NaN and NA apart


def _nan_is_either(values: Sequence) -> list:
    return [NULL_OR_NAN if isinstance(v, float) and math.isnan(v) else v for v in values]


def _plain_items(array: np.ndarray) -> list:
    return [_plain(v) for v in array.tolist()]


def _plain(value: Any) -> Any:
    """A value of an object column: a list for whatever holds one, None for every kind of null."""
    if isinstance(value, np.ndarray):
        return _plain_items(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is pd.NA or value is pd.NaT or (isinstance(value, NUMPY_TIMES) and np.isnat(value)):
        return None
    return value


NUMPY_TIMES = (np.datetime64, np.timedelta64)


def in_ticks(value: Any, unit: str) -> Any:
    """What ``read`` gives, with every time and duration in it as an int, in ticks of the unit."""
    if isinstance(value, dict):
        return {name: in_ticks(v, unit) for name, v in value.items()}
    if isinstance(value, list):
        return [in_ticks(v, unit) for v in value]
    if isinstance(value, (pd.Timestamp, pd.Timedelta)):
        value = value.to_numpy()  # in UTC
    elif isinstance(value, dt.datetime) and value.tzinfo:
        value = np.datetime64(value.astimezone(dt.timezone.utc).replace(tzinfo=None))
    elif isinstance(value, dt.date):
        value = np.datetime64(value)
    elif isinstance(value, dt.timedelta):
        value = np.timedelta64(value)
    if not isinstance(value, NUMPY_TIMES):
        return value
    kind = "M8" if isinstance(value, np.datetime64) else "m8"
    return int(value.astype(f"{kind}[{unit}]").astype(np.int64))
