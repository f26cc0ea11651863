"""Columns of Python objects: what NumPy and pandas have where nothing narrower fits."""

from __future__ import annotations

import datetime as dt
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta.errors import DataError
from mta.frames import Column, null_column, plain_column


def object_column(name: str, data: NDArray[Any]) -> Column:
    """The column, where it holds numbers or times, and nulls; times stay what they are."""
    valid = np.fromiter((not is_null(x) for x in data), np.bool_, len(data))
    kept = data[valid].tolist()
    if not kept:
        return null_column(name, len(data))
    dtype = _plain_type(name, kept)
    if dtype is None:
        return Column(name, "other", None, valid, dtype=data.dtype)
    values = np.zeros(len(data), dtype)
    values[valid] = np.array(kept, dtype)
    return plain_column(name, values, valid, data.dtype if dtype.startswith("M8") else None)


def _plain_type(name: str, values: list[Any]) -> str | None:
    """The NumPy type that holds all of these exactly."""
    if _all_are(values, (bool, np.bool_)):
        return "bool"
    if _all_are(values, (int, np.integer, np.bool_)):
        return _integer_type(name, values)
    if _all_are(values, (int, float, np.integer, np.float32, np.float16, np.bool_)):
        return _float_type(name, values)
    if _all_are(values, np.datetime64) and len({x.dtype for x in values}) == 1:
        return str(values[0].dtype.str)
    if _all_are(values, dt.datetime):
        return _time_type(name, values)
    if _all_are(values, dt.date) and not any(isinstance(x, dt.datetime) for x in values):
        return "M8[D]"
    return None


def _all_are(values: list[Any], kinds: type | tuple[type, ...]) -> bool:
    return all(isinstance(x, kinds) for x in values)


def _integer_type(name: str, values: list[Any]) -> str:
    low, high = int(min(values)), int(max(values))
    if low >= -(2**63) and high < 2**63:
        return "i8"
    if low >= 0 and high < 2**64:
        return "u8"
    raise DataError(f"column {name!r}: its integers, {low} to {high}, do not fit in 64 bits")


def _float_type(name: str, values: list[Any]) -> str:
    for x in values:
        if not isinstance(x, (float, np.floating)) and not _is_double(int(x)):
            raise DataError(f"column {name!r}: holds floats, and none is {x} exactly")
    return "f8"


def _is_double(x: int) -> bool:
    try:
        return int(float(x)) == x
    except OverflowError:
        return False


def _time_type(name: str, values: list[Any]) -> str | None:
    if any(x.tzinfo is not None for x in values):
        return None
    if any(getattr(x, "nanosecond", 0) for x in values):  # pandas.Timestamp has them
        raise DataError(f"column {name!r}: holds nanoseconds; convert it to datetime64[ns]")
    return "M8[us]"


def encode_objects(name: str, data: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Codes of hashable objects, by one dict, and where they are not null."""
    nan = object()  # a NaN is not equal to itself, and all are one key
    seen: dict[Any, int] = {}
    codes = np.zeros(len(data), np.int64)
    valid = np.ones(len(data), np.bool_)
    for row, value in enumerate(data):
        if is_null(value):
            valid[row] = False
            continue
        key = nan if isinstance(value, numbers.Number) and value != value else value
        try:
            codes[row] = seen.setdefault(key, len(seen))
        except TypeError:
            raise DataError(
                f"column {name!r}, row {row}: a {type(value).__name__} is no key, nor is it counted"
            ) from None
    return codes, valid


def is_null(value: Any) -> bool:
    """None, pandas.NA or NaT of pandas or NumPy."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))
