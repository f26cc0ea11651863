"""Values without an 8-byte form that a kernel takes as items: texts, and the bytes of sketches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta.errors import DataError
from mta.frames import Column
from mta.kernels import make_sketch
from mta.plan import Feed, SketchOf


class BadItemError(DataError):
    """A value that is none of those that a feed can take; `row` is where it first stands."""

    def __init__(self, column: str, row: int, reason: str) -> None:
        super().__init__(f"column {column!r}, row {row}: {reason}")
        self.column = column
        self.row = row
        self.reason = reason

    def at(self, row: int) -> BadItemError:
        """The same in another row."""
        return BadItemError(self.column, row, self.reason)


def check_items(column: Column, feed: Feed, rows: NDArray[np.int64], items: list[Any]) -> None:
    """Refuse values that a feed can't take: what is no text, or not the bytes of such a sketch.

    Raises
    ------
    BadItemError
        Naming the column and the first such row.
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "S" and len(rows):
        reason = f"{column.dtype} drops the last zeros of bytes; make an array of objects of them"
        raise BadItemError(column.name, int(rows[0]), reason)
    known = np.ones(len(rows), np.bool_) if column.valid is None else column.valid[rows]
    check = item_check(feed)
    for row, item, counts in zip(rows.tolist(), items, known.tolist(), strict=True):
        wrong = check(item) if counts else None
        if wrong is not None:
            raise BadItemError(column.name, row, wrong)


def item_check(feed: Feed) -> Callable[[Any], str | None]:
    """What is wrong with an item, as a function."""
    if feed.items == "texts":
        return _no_text
    assert isinstance(feed.items, SketchOf)
    sketch = make_sketch(feed.items, "")

    def no_sketch(item: Any) -> str | None:
        if not isinstance(item, bytes):
            return f"a value of type {type(item).__name__}, not the bytes of a sketch"
        try:
            sketch.from_bytes(item)
        except DataError as error:
            return str(error)
        return None

    return no_sketch


def _no_text(item: Any) -> str | None:
    if isinstance(item, str):
        return None
    return f"a value of type {type(item).__name__}; numbers, times or texts are taken"
