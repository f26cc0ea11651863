"""Data in and out: pandas, polars, pyarrow, Arrow streams and dicts of NumPy arrays.

Each kind has one adapter that turns a column into plain 8-byte NumPy arrays and a null mask, and
answers back into a frame of the same kind. Nothing else in the package knows what a frame is.
No library is imported unless the data came from it.
"""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._keys import factorize
from mta.errors import ColumnError, DataError

# NumPy's names of the units that times are kept in, and ours.
TIME_UNITS = {"D": "d", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}
# Coarser ones are told in seconds.
_COARSE_UNITS = ("Y", "M", "W", "h", "m")
_NAT = np.iinfo(np.int64).min  # how NumPy stores it


@dataclass(frozen=True)
class Column:
    """One column as the engine takes it.

    kind : "float", "int", "uint", "bool", "time", "date", "duration" or "other"
    values : float64, int64 or uint64; 0 where the value is null; None for "other"
    valid : False where the value is null, or None where none is
    unit : of a time, date or duration ("d", "s", "ms", "us", "ns")
    dtype : the native type, to make answers of the same type
    """

    name: str
    kind: str
    values: NDArray[Any] | None
    valid: NDArray[np.bool_] | None = None
    unit: str | None = None
    dtype: Any = None

    @property
    def source(self) -> str:
        """What the kernels call the type."""
        return self.kind if self.kind in ("float", "uint") else "int"

    @property
    def numeric(self) -> bool:
        """Whether the values can be added."""
        return self.kind in ("float", "int", "uint", "bool")


@dataclass(frozen=True)
class Answer:
    """One column of answers: int64, uint64 or float64 values, and where they are not null."""

    name: str
    values: NDArray[Any]
    valid: NDArray[np.bool_] | None = None
    like: Column | None = None  # a column whose native type the answer takes (min, max)


def plain_column(
    name: str, data: NDArray[Any], valid: NDArray[np.bool_] | None = None, dtype: Any = None
) -> Column:
    """A column from a NumPy array of any type that has an 8-byte form."""
    dtype = data.dtype if dtype is None else dtype
    letter = data.dtype.kind
    if letter in "mM":
        return _time_column(name, data, valid, dtype)
    wide = {"f": np.float64, "i": np.int64, "u": np.uint64, "b": np.int64}.get(letter)
    if wide is None or data.dtype.itemsize > 8:
        return Column(name, "other", None, valid, dtype=dtype)
    kind = {"f": "float", "i": "int", "u": "uint", "b": "bool"}[letter]
    return _filled(name, kind, data.astype(wide, copy=False), valid, None, dtype)


def _time_column(
    name: str, data: NDArray[Any], valid: NDArray[np.bool_] | None, dtype: Any
) -> Column:
    if data.size and (data.view(np.int64) == _NAT).any():
        valid = ~np.isnat(data) if valid is None else valid & ~np.isnat(data)
    letter = data.dtype.kind
    unit, step = np.datetime_data(data.dtype)
    if unit in _COARSE_UNITS and not (letter == "m" and unit in "YM"):
        unit, data = "s", data.astype(f"{letter}8[s]")
    elif step != 1:
        data = data.astype(f"{letter}8[{unit}]")
    if unit not in TIME_UNITS:
        return Column(name, "other", None, valid, dtype=dtype)
    kind = "duration" if letter == "m" else ("date" if unit == "D" else "time")
    return _filled(name, kind, data.view(np.int64), valid, TIME_UNITS[unit], dtype)


def _filled(
    name: str,
    kind: str,
    values: NDArray[Any],
    valid: NDArray[np.bool_] | None,
    unit: str | None,
    dtype: Any,
) -> Column:
    """Nulls become 0, which is what the kernels of sums need them to be."""
    if valid is not None and not valid.all():
        values = np.where(valid, values, values.dtype.type(0))
    else:
        valid = None
    return Column(name, kind, np.ascontiguousarray(values), valid, unit, dtype)


class Frame:
    """What the engine asks of data of any kind."""

    rows: int

    def names(self) -> list[str]:
        """The columns' names."""
        raise NotImplementedError

    def column(self, name: str) -> Column:
        """The column as plain arrays."""
        raise NotImplementedError

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Codes of a column that is "other", equal for equal values, and where it is not null."""
        raise NotImplementedError

    def build(self, answers: list[Answer]) -> Any:
        """Answers as data of the same kind."""
        raise NotImplementedError

    def require(self, name: str, argument: str) -> None:
        """Refuse a column that is not there."""
        if name not in self.names():
            raise ColumnError(
                f"{argument}: no column {name!r}; there are: {', '.join(map(str, self.names()))}"
            )

    def key_codes(self, names: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
        """Dense group numbers of the rows by several key columns, in order of appearance."""
        codes, groups = self._codes_of(names[0])
        for name in names[1:]:
            more, count = self._codes_of(name)
            codes, groups = factorize(codes * count + more)  # both are below the number of rows
        return codes, groups

    def _codes_of(self, name: str) -> tuple[NDArray[np.int64], int]:
        values, valid = self.key_values(name)
        if values.dtype.kind == "f":
            # One zero and one NaN, whatever their bits.
            values = np.where(np.isnan(values), np.nan, values + 0.0)
        codes, groups = factorize(np.ascontiguousarray(values).view(np.int64))
        if valid is None:
            return codes, groups
        # Null is a key of its own, whatever was stored under it.
        return factorize(np.where(valid, codes, np.int64(groups)))

    def key_values(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """8-byte values that are equal for equal keys, and where the key is not null."""
        column = self.column(name)
        if column.values is None:
            return self.encode(name)
        return column.values, column.valid


class NumpyFrame(Frame):
    """A dict of one-dimensional arrays of one length."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = {name: _as_array(name, values) for name, values in data.items()}
        lengths = {name: len(values) for name, values in self.data.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"columns of different lengths: {lengths}")
        self.rows = next(iter(lengths.values()), 0)

    def names(self) -> list[str]:
        """The keys of the dict."""
        return list(self.data)

    def column(self, name: str) -> Column:
        """An array as plain arrays; null where it is masked, NaT or None."""
        data = self.data[name]
        valid = None
        if isinstance(data, np.ma.MaskedArray):
            valid, data = ~np.ma.getmaskarray(data), np.asarray(data.data)
        if data.dtype == object:
            return object_column(name, data)
        return plain_column(name, data, valid)

    def key_values(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Objects are keys as they are, whatever type they might have as values."""
        if self.data[name].dtype == object:
            return encode_objects(name, self.data[name])
        return super().key_values(name)

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Codes of text, bytes and records, by sorting."""
        data = self.data[name]
        codes = np.unique(np.asarray(data), return_inverse=True)[1].astype(np.int64)
        return codes, ~np.ma.getmaskarray(data) if isinstance(data, np.ma.MaskedArray) else None

    def build(self, answers: list[Answer]) -> dict[str, NDArray[Any]]:
        """A dict of arrays by the answers' names."""
        return {a.name: numpy_answer(a) for a in answers}


def _as_array(name: str, values: Any) -> Any:
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"column {name!r}: has {array.ndim} dimensions, a column has one")
    if isinstance(array, np.ma.MaskedArray) and array.dtype == object:
        return np.where(np.ma.getmaskarray(array), np.array(None), array.data)
    return array


def numpy_answer(answer: Answer) -> NDArray[Any]:
    """Nulls are NaN in floats, NaT in times, and masked where neither exists."""
    values = native_values(answer)
    if answer.valid is None or values.dtype.kind == "f":
        return values
    if values.dtype.kind in "mM":
        return np.where(answer.valid, values, np.array("NaT", values.dtype))
    masked: NDArray[Any] = np.ma.MaskedArray(values, mask=~answer.valid)
    return masked


def native_values(answer: Answer) -> NDArray[Any]:
    """The answers as a NumPy array of the type that `like` stands for."""
    values, like = answer.values, answer.like
    if like is None:
        return values
    plain: Any = getattr(like.dtype, "numpy_dtype", like.dtype)
    if like.unit is not None:
        letter = "m8" if like.kind == "duration" else "M8"
        unit = {v: k for k, v in TIME_UNITS.items()}[like.unit]
        values = values.view(f"{letter}[{unit}]")
    elif like.kind == "bool":
        values = values.astype(bool)
    if isinstance(plain, np.dtype) and plain.kind in "fiumM":
        values = values.astype(plain, copy=False)
    return values


def object_column(name: str, data: NDArray[Any]) -> Column:
    """A column of Python objects, where it holds numbers or times, and None."""
    valid = np.fromiter((not is_null(x) for x in data), np.bool_, len(data))
    kept = data[valid].tolist()
    dtype = _object_dtype(name, kept)
    if dtype is None:
        return Column(name, "other", None, valid, dtype=data.dtype)
    values = np.zeros(len(data), dtype)
    values[valid] = np.array(kept, dtype)
    return plain_column(name, values, valid)


def _object_dtype(name: str, values: list[Any]) -> str | None:
    """The NumPy type that holds all of these exactly."""
    if all(isinstance(x, (bool, np.bool_)) for x in values) and values:
        return "bool"
    if all(isinstance(x, (int, np.integer, np.bool_)) for x in values) and values:
        low, high = min(values), max(values)
        if low >= -(2**63) and high < 2**63:
            return "i8"
        if low >= 0 and high < 2**64:
            return "u8"
        raise DataError(f"column {name!r}: its integers, {low} to {high}, do not fit in 64 bits")
    if all(isinstance(x, (int, float, np.number, np.bool_)) for x in values):
        for x in values:
            if not isinstance(x, (float, np.floating)) and int(float(x)) != x:
                raise DataError(f"column {name!r}: holds floats, and none is {x} exactly")
        return "f8"
    if all(isinstance(x, dt.datetime) and x.tzinfo is None for x in values):
        return "M8[us]"
    if all(isinstance(x, dt.date) and not isinstance(x, dt.datetime) for x in values):
        return "M8[D]"
    return None


def encode_objects(name: str, data: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Codes of hashable Python objects, by one dict."""
    nan = object()  # a NaN is not equal to itself, and all are one key
    seen: dict[Any, int] = {}
    codes = np.zeros(len(data), np.int64)
    valid = np.ones(len(data), np.bool_)
    for row, value in enumerate(data):
        if is_null(value):
            valid[row] = False
            continue
        key = nan if isinstance(value, (float, np.floating)) and value != value else value
        try:
            codes[row] = seen.setdefault(key, len(seen))
        except TypeError:
            raise DataError(
                f"by: column {name!r}, row {row}: a {type(value).__name__} can't be a key"
            ) from None
    return codes, valid


def is_null(value: Any) -> bool:
    """None, pandas.NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def open_frame(data: Any) -> Frame:
    """The adapter for `data`.

    Raises
    ------
    DataError
        `data` is of no kind that is known.
    """
    if isinstance(data, dict):
        return NumpyFrame(data)
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and isinstance(data, sys.modules["pandas"].DataFrame):
        from mta._frames_pandas import PandasFrame

        return PandasFrame(data)
    if library == "polars" and isinstance(data, sys.modules["polars"].DataFrame):
        from mta._frames_polars import PolarsFrame

        return PolarsFrame(data)
    if library == "polars" and isinstance(data, sys.modules["polars"].LazyFrame):
        raise DataError("a polars LazyFrame holds no rows yet; call .collect() first")
    if library == "pyarrow" or hasattr(data, "__arrow_c_stream__"):
        from mta._frames_arrow import ArrowFrame

        return ArrowFrame(data)
    raise DataError(
        f"can't read a {type(data).__module__}.{type(data).__qualname__}; give a pandas or polars "
        "DataFrame, a pyarrow Table or RecordBatch, or a dict of NumPy arrays"
    )
