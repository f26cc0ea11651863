"""Dicts of NumPy arrays in and out.

A NaN is a value. What is masked, NaT, or None in an array of objects, is null. A list is an array
of objects: NumPy itself would round integers beside a float and make text of numbers beside text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._frames_objects import encode_objects, object_column
from mta.errors import DataError
from mta.frames import TIME_UNITS, Answer, Column, Frame, plain_column

_NUMPY_UNITS = {ours: theirs for theirs, ours in TIME_UNITS.items()}


class NumpyFrame(Frame):
    """A dict of one-dimensional arrays of one length."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data: dict[str, Any] = {}
        self.rows, even = -1, True
        for name, values in data.items():
            plain = type(values) is np.ndarray and values.ndim == 1
            array = self.data[name] = values if plain else _as_array(name, values)
            even = even and self.rows in (-1, len(array))
            self.rows = len(array)
        if not even:
            lengths = {name: len(array) for name, array in self.data.items()}
            raise DataError(f"columns of different lengths: {lengths}")
        self.rows = max(self.rows, 0)

    def names(self) -> list[str]:
        """The keys of the dict."""
        return list(self.data)

    def column(self, name: str) -> Column:
        """An array as plain arrays; null where it is masked, NaT or None."""
        data = self.data[name]
        valid = None
        if type(data) is not np.ndarray and isinstance(data, np.ma.MaskedArray):
            valid, data = ~np.ma.getmaskarray(data), np.asarray(data.data)
        objects = data.dtype.kind == "O"
        column = object_column(name, data) if objects else plain_column(name, data, valid)
        return column._replace(native=data) if column.values is None else column

    def key_values(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Objects are keys as they are, whatever type they might have as values."""
        if self.data[name].dtype == object:
            return encode_objects(name, self.data[name])
        return super().key_values(name)

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Codes of text, bytes and records, by sorting."""
        data = self.data[name]
        if data.dtype == object:
            return encode_objects(name, data)
        codes = np.unique(np.asarray(data), return_inverse=True)[1].astype(np.int64)
        return codes, ~np.ma.getmaskarray(data) if isinstance(data, np.ma.MaskedArray) else None

    def one_column(self, native: Any) -> NumpyFrame:
        return NumpyFrame({"values": native})

    def take(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        return {name: values[rows] for name, values in self.data.items()}

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self.data.values())

    def select(self, names: list[str]) -> dict[str, NDArray[Any]]:
        return {name: self.data[name] for name in names}

    @staticmethod
    def join(data: list[Any]) -> dict[str, NDArray[Any]]:
        return {name: _join([part[name] for part in data]) for name in data[0]}

    @staticmethod
    def join_natives(old: Any, new: Any) -> Any:
        return _join([old, new])

    @staticmethod
    def take_native(native: Any, rows: NDArray[np.int64]) -> Any:
        return native[rows]

    @staticmethod
    def nulls_like(native: Any, count: int) -> Any:
        return np.full(count, None)

    @staticmethod
    def list_native(native: Any, rows: NDArray[np.int64]) -> list[Any]:
        values: list[Any] = native[rows].tolist()
        return values

    def build(
        self, answers: list[Answer], at: NDArray[np.int64] | None = None
    ) -> dict[str, NDArray[Any]]:
        """A dict of arrays by the answers' names."""
        return {a.name: numpy_answer(a) for a in answers}


def _join(arrays: list[Any]) -> Any:
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) > 1 and kinds & {"U", "S"}:  # NumPy would make texts of numbers and of bytes
        arrays = [array.astype(object) for array in arrays]
    masked = any(isinstance(array, np.ma.MaskedArray) for array in arrays)
    join: Any = np.ma.concatenate if masked else np.concatenate
    return join(arrays)


def _as_array(name: str, values: Any) -> Any:
    if isinstance(values, (list, tuple, range)):
        return np.fromiter(values, object, len(values))
    if not isinstance(getattr(values, "dtype", None), np.dtype):
        kind = f"{type(values).__module__}.{type(values).__qualname__}"
        raise DataError(f"column {name!r}: is a {kind}; a dict has to hold NumPy arrays")
    array = np.asanyarray(values)  # of a pandas.Series, too
    if array.ndim != 1:
        raise DataError(f"column {name!r}: has {array.ndim} dimensions, a column has one")
    if isinstance(array, np.ma.MaskedArray) and array.dtype == object:
        return np.where(np.ma.getmaskarray(array), np.array(None), array.data)
    return array


def numpy_answer(answer: Answer) -> NDArray[Any]:
    """Nulls are NaN in floats, NaT in times, None in objects, and masked where none of them is.

    Lists are an array of arrays.
    """
    if answer.lengths is not None:
        return split_lists(answer, numpy_answer(answer.items))
    values = native_values(answer)
    if answer.valid is None or values.dtype.kind in "fmMO":
        return values
    masked: NDArray[Any] = np.ma.MaskedArray(values, mask=~answer.valid)
    return masked


def split_lists(answer: Answer, items: Any) -> NDArray[Any]:
    """An array of objects: the items of every list, None where it is null."""
    assert answer.lengths is not None
    stops = np.cumsum(answer.lengths)
    lists = np.empty(len(stops), object)
    for i, (stop, length) in enumerate(zip(stops.tolist(), answer.lengths.tolist(), strict=True)):
        lists[i] = items[stop - length : stop]
    if answer.valid is not None:
        lists[~answer.valid] = None
    return lists


def native_values(answer: Answer) -> NDArray[Any]:
    """The answers as a NumPy array of the type that `like` stands for; null times are NaT."""
    values, like = answer.values, answer.like
    if like is None:
        return values
    if answer.rows:
        return _taken(answer, like.native)
    if like.unit is not None:
        values = _times(answer, like)
    elif like.kind == "bool":
        values = values.astype(bool)
    plain: Any = getattr(like.dtype, "numpy_dtype", like.dtype)
    if isinstance(plain, np.dtype) and plain.kind in "fiumMO":
        values = values.astype(plain, copy=False)
    return values


def _taken(answer: Answer, native: NDArray[Any]) -> NDArray[Any]:
    values: NDArray[Any] = native[answer.values]
    if answer.valid is not None and values.dtype == object:
        values[~answer.valid] = None
    return values


def _times(answer: Answer, like: Column) -> NDArray[Any]:
    letter = "m8" if like.kind == "duration" else "M8"
    unit = _NUMPY_UNITS[like.unit or "s"]
    times = answer.values.view(f"{letter}[{unit}]")
    return (
        times
        if answer.valid is None
        else np.where(answer.valid, times, np.array("NaT", times.dtype))
    )
