"""pandas in and out.

A NaN in a NumPy-backed float column is a NaN, that is a value; ``nan="skip"`` makes it missing.
None, NaT and pandas.NA are nulls.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mta._frames_numpy import native_values, split_lists
from mta._frames_objects import encode_objects, object_column
from mta.errors import ColumnError, DataError
from mta.frames import Answer, Column, Frame, plain_column


class PandasFrame(Frame):
    """A pandas DataFrame, NumPy-backed, masked or Arrow-backed."""

    def __init__(self, data: pd.DataFrame) -> None:
        self.data = data
        self.rows = len(data)

    def names(self) -> list[str]:
        return list(self.data.columns)

    def require(self, name: str, argument: str) -> None:
        if name not in self.data.columns and name in self.data.index.names:
            raise ColumnError(
                f"{argument}: {name!r} is a level of the index; reset_index() makes it a column"
            )
        super().require(name, argument)

    def column(self, name: str) -> Column:
        series = self.data[name]
        if isinstance(series, pd.DataFrame):
            raise DataError(f"column {name!r}: there are {series.shape[1]} of this name")
        column = _plain_or_other(name, series)
        return column._replace(native=series.array) if column.values is None else column

    def key_values(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        series = self.data[name]
        if isinstance(series, pd.Series) and _holds_objects(series):
            return encode_objects(name, series.to_numpy())
        return super().key_values(name)

    def encode(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        series = self.data[name]
        if _held_by_arrow(series.dtype):
            from mta._frames_arrow import encode_arrow

            return encode_arrow(name, series.array.__arrow_array__())
        codes, _ = pd.factorize(series)
        return codes.astype(np.int64), codes >= 0

    def text_codes(self, name: str) -> tuple[NDArray[np.int64], int] | None:
        series = self.data[name]
        if not isinstance(series, pd.Series) or not _held_by_arrow(series.dtype):
            return None
        from mta._frames_arrow import arrow_text_codes

        return arrow_text_codes(series.array.__arrow_array__())

    def one_column(self, native: Any) -> PandasFrame:
        return PandasFrame(pd.DataFrame({"values": native}))

    def take(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        return self.data.iloc[rows]

    @property
    def nbytes(self) -> int:
        return int(self.data.memory_usage(deep=True).sum())

    def select(self, names: list[str]) -> pd.DataFrame:
        return self.data[names]

    @staticmethod
    def join(data: list[Any]) -> pd.DataFrame:
        joined = pd.concat(data)
        for place, name in enumerate(joined.columns):
            if not _holds_objects(joined.iloc[:, place]):
                continue
            parts = [frame[name] for frame in data if list(frame.columns).count(name) == 1]
            if len(parts) == len(data):
                joined.isetitem(place, _join_objects(parts, joined[name]))
        return joined

    @staticmethod
    def join_natives(old: Any, new: Any) -> Any:
        parts = [pd.Series(old), pd.Series(new)]
        return _join_objects(parts, pd.concat(parts, ignore_index=True)).array

    @staticmethod
    def nulls_like(native: Any, count: int) -> Any:
        if isinstance(native.dtype, np.dtype):
            return pd.array(np.full(count, None), native.dtype)
        return native.take(np.full(count, -1), allow_fill=True)

    @staticmethod
    def list_native(native: Any, rows: NDArray[np.int64]) -> list[Any]:
        values: list[Any] = native.take(rows).tolist()
        return values

    def times_like(self, column: Column, unit: str) -> Column:
        if isinstance(column.dtype, pd.ArrowDtype):
            from mta._frames_arrow import arrow_times_like

            like = arrow_times_like(_with_dtype(column, column.dtype.pyarrow_dtype), unit)
            return _with_dtype(like, pd.ArrowDtype(like.dtype))
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            dtype = pd.DatetimeTZDtype(unit, column.dtype.tz)
            return Column(column.name, "time", None, unit=unit, dtype=dtype)
        return super().times_like(column, unit)

    def build(self, answers: list[Answer], at: NDArray[np.int64] | None = None) -> pd.DataFrame:
        return self._build(answers, self.data.index if at is None else self.data.index[at])

    def build_numbered(self, answers: list[Answer], numbers: NDArray[np.int64]) -> pd.DataFrame:
        return self._build(answers, pd.Index(numbers))

    def _build(self, answers: list[Answer], index: Any) -> pd.DataFrame:
        columns = {a.name: _arrow_answer(a) if self._arrow else _answer(a) for a in answers}
        return pd.DataFrame(columns, index=index, copy=False)

    @cached_property
    def _arrow(self) -> bool:
        """Whether a column is held by Arrow; then answers are."""
        return any(isinstance(dtype, pd.ArrowDtype) for dtype in self.data.dtypes)


def _join_objects(parts: list[Any], joined: Any) -> Any:
    """What pandas has joined; but where it has made objects of texts, their nulls, which there are
    NaN, that is a value, are None."""
    texts = [isinstance(part.dtype, (pd.StringDtype, pd.CategoricalDtype)) for part in parts]
    if not _holds_objects(joined) or not any(texts):
        return joined
    objects = [part.to_numpy(object) for part in parts]
    for part, text, values in zip(parts, texts, objects, strict=True):
        if text:
            values[part.isna().to_numpy()] = None
    return pd.Series(np.concatenate(objects), joined.index, object, joined.name)


def _plain_or_other(name: str, series: Any) -> Column:
    if isinstance(series.dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    dtype = series.dtype
    if isinstance(dtype, pd.ArrowDtype):
        from mta._frames_arrow import arrow_column

        return _with_dtype(arrow_column(name, series.array.__arrow_array__()), dtype)
    if isinstance(dtype, pd.DatetimeTZDtype):
        ticks = series.array.asi8
        valid = series.notna().to_numpy()
        plain = np.where(valid, ticks, 0)
        return Column(name, "time", plain, None if valid.all() else valid, dtype.unit, dtype)
    if _holds_objects(series):
        return object_column(name, series.to_numpy())
    if isinstance(dtype, np.dtype):
        return plain_column(name, series.to_numpy(), dtype=dtype)
    return _masked_column(name, series)


def _holds_objects(series: Any) -> bool:
    return isinstance(series.dtype, np.dtype) and series.dtype.kind == "O"


def _held_by_arrow(dtype: Any) -> bool:
    text = isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"
    return text or isinstance(dtype, pd.ArrowDtype)


def _with_dtype(column: Column, dtype: Any) -> Column:
    return Column(column.name, column.kind, column.values, column.valid, column.unit, dtype)


def _masked_column(name: str, series: pd.Series[Any]) -> Column:
    dtype = series.dtype
    numeric = pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype)
    if not numeric or isinstance(dtype, pd.CategoricalDtype):
        return Column(name, "other", None, series.notna().to_numpy(), dtype=dtype)
    plain: Any = getattr(dtype, "numpy_dtype", np.dtype(np.float64))
    values = series.to_numpy(dtype=plain, na_value=plain.type(0))
    return plain_column(name, values, series.notna().to_numpy(), dtype)


def _arrow_answer(answer: Answer) -> Any:
    from mta._frames_arrow import arrow_answer

    like = answer.like
    if like is not None and isinstance(like.dtype, pd.ArrowDtype):
        native = like.native.__arrow_array__() if like.native is not None else None
        like = _with_dtype(like, like.dtype.pyarrow_dtype)._replace(native=native)
    elif like is not None:  # a column of NumPy's, or of pandas' own, beside those of Arrow
        return _answer(answer)
    return pd.arrays.ArrowExtensionArray(arrow_answer(answer._replace(like=like)))


def _answer(answer: Answer) -> Any:
    if answer.lengths is not None:
        items = pd.Series(_answer(answer.items)).tolist()
        return pd.Index(split_lists(answer, items), dtype=object)
    if answer.rows:
        return _taken(answer)
    values, like = native_values(answer), answer.like
    if like is not None and isinstance(like.dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(values).tz_localize("UTC").tz_convert(like.dtype.tz)
    if values.dtype.kind == "O":
        return pd.Index(values, dtype=object)  # of an array, pandas would make datetimes
    masked = like is not None and getattr(like.dtype, "na_value", None) is pd.NA
    if not masked and (answer.valid is None or values.dtype.kind in "fmM"):
        return values
    missing = np.zeros(len(values), bool) if answer.valid is None else ~answer.valid
    if values.dtype.kind == "b":
        return pd.arrays.BooleanArray(values, missing)
    kind = pd.arrays.FloatingArray if values.dtype.kind == "f" else pd.arrays.IntegerArray
    return kind(values, missing)


def _taken(answer: Answer) -> Any:
    """Values of a column of text, categories or objects; nulls are those of its type."""
    assert answer.like is not None
    native, rows = answer.like.native, answer.values
    if answer.valid is None:
        return native.take(rows)
    if isinstance(native.dtype, np.dtype):
        return pd.Index(native_values(answer), dtype=object)
    return native.take(np.where(answer.valid, rows, -1), allow_fill=True)
