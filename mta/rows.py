"""From the columns of a frame to what kernels read: 8-byte values, codes, and which rows count."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._keys import factorize
from mta._vector import Vector
from mta.frames import Column, Frame
from mta.plan import Feed, Input

Mask = NDArray[np.bool_]


def fed_values(column: Column, feed: Feed) -> NDArray[Any]:
    """The values, 0 where null or, where NaN is skipped, NaN."""
    assert column.values is not None  # check_types has seen to it
    if feed.skip_nan and column.kind == "float":
        values: NDArray[Any] = np.where(np.isnan(column.values), 0.0, column.values)
        return values
    return column.values


def value_codes(frame: Frame, column: Column) -> NDArray[np.int64]:
    """int64 codes, equal for equal values (NaN is one value, and so is zero)."""
    if column.values is None:
        codes, _ = frame.encode(column.name)
        return np.ascontiguousarray(codes).view(np.int64)
    values = column.values
    if column.kind == "float":
        values = np.where(np.isnan(values), np.nan, values + 0.0)
    return values.view(np.int64)


def counted_rows(source: Input, columns: dict[str, Column]) -> Mask | None:
    """The rows in which no column is null (or, where NaN is skipped, NaN); None: all."""
    masks = [_not_null(columns[name], source.skip_nan) for name in source.columns]
    kept = [mask for mask in masks if mask is not None]
    return reduce(np.logical_and, kept) if kept else None


def _not_null(column: Column, skip_nan: bool) -> Mask | None:
    if not skip_nan or column.kind != "float" or column.values is None:
        return column.valid
    number = ~np.isnan(column.values)
    if column.valid is not None:
        number &= column.valid
    return None if number.all() else number


class Coder:
    """Codes of values that come in chunks: equal for equal values, whatever chunk they are in."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}
        self._next = 0

    def codes(self, frame: Frame, column: Column, kept: Vector) -> NDArray[np.int64]:
        """The codes of a column; `kept` are those of the rows that are still inside."""
        chunk = value_codes(frame, column)
        if column.values is not None:
            return chunk
        places, found = factorize(chunk)
        firsts = np.empty(found, np.int64)
        firsts[places[::-1]] = np.arange(len(chunk))[::-1]
        values = frame.list_native(column.native, firsts)
        numbers = np.fromiter((self._number(value) for value in values), np.int64, len(values))
        if len(self._known) > 2 * (len(kept) + len(values)) + 1024:
            self._forget(np.concatenate([kept.view(), numbers]))
        return numbers[places]

    def _number(self, value: Any) -> int:
        number = self._known.setdefault(value, self._next)
        self._next += number == self._next
        return number

    def _forget(self, live: NDArray[np.int64]) -> None:
        """Drop the values that no row has any more; numbers are never given twice."""
        numbers = set(live.tolist())
        self._known = {value: n for value, n in self._known.items() if n in numbers}
