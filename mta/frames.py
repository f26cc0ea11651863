"""Data in and out: pandas, polars, pyarrow, Arrow streams and dicts of NumPy arrays.

Each kind has one adapter that turns a column into plain 8-byte NumPy arrays and a null mask, and
answers back into a frame of the same kind. Nothing else in the package knows what a frame is.
No library is imported unless the data came from it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._keys import factorize
from mta.errors import ColumnError, DataError

# The least unit that tells dates: they are counted in days.
TIME_UNITS = {"D": "d", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}


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
        nat = np.isnat(data)
        if nat.any():
            valid = ~nat if valid is None else valid & ~nat
        unit, step = np.datetime_data(data.dtype)
        if unit not in TIME_UNITS or step != 1:
            return Column(name, "other", None, valid, dtype=dtype)
        kind = "duration" if letter == "m" else ("date" if unit == "D" else "time")
        return _filled(name, kind, data.astype(np.int64), valid, TIME_UNITS[unit], dtype)
    wide = {"f": np.float64, "i": np.int64, "u": np.uint64, "b": np.int64}.get(letter)
    if wide is None or data.dtype.itemsize > 8:
        return Column(name, "other", None, valid, dtype=dtype)
    kind = {"f": "float", "i": "int", "u": "uint", "b": "bool"}[letter]
    return _filled(name, kind, data.astype(wide, copy=False), valid, None, dtype)


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
        raise NotImplementedError

    def column(self, name: str) -> Column:
        """The column as plain arrays."""
        raise NotImplementedError

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """A column that is "other", as integer codes, equal for equal values, and where not null."""
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
        column = self.column(name)
        values: NDArray[Any]
        if column.values is None:
            values, valid = self.encode(name)
        else:
            values, valid = column.values, column.valid
        if values.dtype.kind == "f":
            # One zero and one NaN, whatever their bits.
            values = np.where(np.isnan(values), np.nan, values + 0.0)
        codes, groups = factorize(np.ascontiguousarray(values).view(np.int64))
        if valid is None:
            return codes, groups
        # Null is a key of its own, whatever was stored under it.
        return factorize(np.where(valid, codes, np.int64(groups)))


class NumpyFrame(Frame):
    """A dict of one-dimensional arrays of one length."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = {name: _as_array(name, values) for name, values in data.items()}
        lengths = {name: len(values) for name, values in self.data.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"columns of different lengths: {lengths}")
        self.rows = next(iter(lengths.values()), 0)

    def names(self) -> list[str]:
        return list(self.data)

    def column(self, name: str) -> Column:
        data = self.data[name]
        valid = None
        if isinstance(data, np.ma.MaskedArray):
            valid, data = ~np.ma.getmaskarray(data), np.asarray(data.data)
        if data.dtype == object:
            return object_column(name, data)
        return plain_column(name, data, valid)

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        data = self.data[name]
        if data.dtype == object:
            return encode_objects(name, data)
        return np.unique(np.asarray(data), return_inverse=True)[1], None

    def build(self, answers: list[Answer]) -> dict[str, NDArray[Any]]:
        return {a.name: numpy_answer(a) for a in answers}


def _as_array(name: str, values: Any) -> Any:
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"column {name!r}: has {array.ndim} dimensions, a column has one")
    return array


def numpy_answer(answer: Answer) -> NDArray[Any]:
    """Nulls are NaN in floats, NaT in times, and masked where neither exists."""
    values = native_values(answer)
    if answer.valid is None or values.dtype.kind == "f":
        return values
    if values.dtype.kind in "mM":
        values[~answer.valid] = np.array("NaT", values.dtype)
        return values
    masked: NDArray[Any] = np.ma.MaskedArray(values, mask=~answer.valid)
    return masked


def native_values(answer: Answer) -> NDArray[Any]:
    """The answers as a NumPy array of the type that `like` stands for."""
    values, like = answer.values, answer.like
    if like is None or like.kind in ("float", "int", "uint"):
        return values
    if like.kind == "bool":
        return values.astype(bool)
    letter = "m8" if like.kind == "duration" else "M8"
    unit = {v: k for k, v in TIME_UNITS.items()}[str(like.unit)]
    return values.view(f"{letter}[{unit}]")


def object_column(name: str, data: NDArray[Any]) -> Column:
    """A column of Python objects, where it holds numbers and None."""
    valid = np.fromiter((not is_null(x) for x in data), np.bool_, len(data))
    kept = data[valid]
    number = (int, float, np.number, np.bool_)
    if not all(isinstance(x, number) for x in kept):
        return Column(name, "other", None, valid, dtype=data.dtype)
    plain = np.array(kept.tolist()) if len(kept) else np.zeros(0)
    if plain.dtype.kind not in "fiub":
        raise DataError(f"column {name!r}: an integer does not fit in 64 bits")
    values = np.zeros(len(data), plain.dtype)
    values[valid] = plain
    return plain_column(name, values, valid)


def encode_objects(name: str, data: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Codes of hashable Python objects, by one dict."""
    seen: dict[Any, int] = {}
    try:
        # A NaN is not equal to itself, and all are one key.
        codes = [seen.setdefault(x if x == x else "\0nan", len(seen)) for x in data]
    except TypeError as error:
        raise DataError(f"by: column {name!r} holds values that can't be keys: {error}") from None
    return np.array(codes, np.int64), np.array([x is not None for x in data], np.bool_)


def is_null(value: Any) -> bool:
    """None, pandas.NA or NaT (which, alone, are not equal to themselves and are not floats)."""
    if value is None:
        return True
    name = type(value).__name__
    return name in ("NAType", "NaTType")


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
