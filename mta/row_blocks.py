"""RowBlock: the unit in which rows of a window come and go: a fixed number of them, by columns.

As bytes, a block says which one it is, and is checked when it is read::

    magic "MTAB" | CRC-32 of what follows | number of the first row | rows | columns | null marks

Columns lie one after the other, each as long as its rows; there is a mark, a bit, for every value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._crc import crc32
from mta.errors import DamageError, SpecError

Arrays = dict[str, NDArray[Any]]

_MAGIC = b"MTAB"
_HEAD = struct.Struct("<4sIqI4x")
_KINDS = "biufmM"


class Layout:
    """Which columns a block has, and how many rows.

    Parameters
    ----------
    columns
        The type of every column, by name: numbers, booleans or times of NumPy.
    block
        Bytes of a block, at most.
    marks
        Columns of which only the null marks are kept.

    Raises
    ------
    SpecError
        A type has no fixed size, or a block has no room for two rows.

    >>> layout = Layout({"ts": "int64", "symbol": "int32", "price": "float64", "volume": "int64"})
    >>> layout.row_bytes, layout.rows
    (28.5, 2298)
    """

    def __init__(
        self, columns: Mapping[str, Any], block: int = 65536, marks: Sequence[str] = ()
    ) -> None:
        self.types = {name: np.dtype(dtype) for name, dtype in columns.items()}
        for name, dtype in self.types.items():
            if dtype.kind not in _KINDS:
                raise SpecError(
                    f"columns: {name!r} is of type {dtype}; numbers and times can be kept"
                )
        if not self.types:
            raise SpecError("columns: there is none")
        self.block = block
        self.marked = (*self.types, *marks)
        bits = sum(8 * dtype.itemsize for dtype in self.types.values()) + len(self.marked)
        self.row_bytes: float = bits / 8
        self.rows = int((block - _HEAD.size - len(self.marked)) * 8 // bits)
        if self.rows < 2:
            raise SpecError(f"block: {block} bytes have no room for two rows of {self.row_bytes}")

    def bytes_of(self, rows: int) -> int:
        """Bytes of a block of so many rows.

        >>> Layout({"x": "float64"}).bytes_of(1024)
        8345
        """
        return _HEAD.size + len(self.marked) + math.ceil(rows * self.row_bytes)

    def describe(self) -> str:
        """What two layouts have in common that can read each other's blocks."""
        types = [(name, dtype.str) for name, dtype in self.types.items()]
        return repr((types, self.marked[len(types) :], self.rows))


class RowBlock:
    """Rows [first, first + count) of a window, and room for as many as the layout says."""

    __slots__ = ("columns", "count", "first", "layout", "nulls", "stored")

    def __init__(self, layout: Layout, first: int) -> None:
        self.layout = layout
        self.first = first
        self.count = 0
        self.columns: Arrays = {n: np.empty(layout.rows, t) for n, t in layout.types.items()}
        self.nulls: dict[str, NDArray[np.bool_]] = {}  # of the columns that have any
        self.stored = False  # a store has it as it is

    @property
    def room(self) -> int:
        """How many rows it can still take."""
        return self.layout.rows - self.count

    def append(self, values: Arrays, valid: Mapping[str, Any], start: int, stop: int) -> None:
        """Takes rows [start, stop) of these arrays."""
        to = self.count + stop - start
        for name, column in self.columns.items():
            column[self.count : to] = values[name][start:stop]
        for name in self.layout.marked:
            mask = valid.get(name)
            if mask is not None and not mask[start:stop].all():
                nulls = self.nulls.setdefault(name, np.zeros(self.layout.rows, np.bool_))
                nulls[self.count : to] = ~mask[start:stop]
        self.count = to
        self.stored = False

    def to_bytes(self) -> bytes:
        """The block, to be stored."""
        marks = [self.nulls.get(name) for name in self.layout.marked]
        parts = [column[: self.count].tobytes() for column in self.columns.values()]
        for mark in marks:
            given = np.zeros(self.count, np.bool_) if mark is None else mark[: self.count]
            parts.append(np.packbits(given).tobytes())
        body = b"".join([struct.pack("<qI4x", self.first, self.count), *parts])
        return struct.pack("<4sI", _MAGIC, crc32(body)) + body

    @classmethod
    def from_bytes(cls, layout: Layout, first: int, data: bytes, what: str) -> RowBlock:
        """The block that was stored as `data`.

        Raises
        ------
        DamageError
            It is another block, of another layout, cut short or damaged; `what` says where it was.
        """
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise DamageError(f"{what}: this is no block of rows")
        _, crc, found, count = _HEAD.unpack_from(data)
        if crc32(memoryview(data)[8:]) != crc:
            raise DamageError(f"{what}: the block is damaged (the checksum does not fit)")
        marks = -(-count // 8)
        sizes = [count * dtype.itemsize for dtype in layout.types.values()]
        expected = _HEAD.size + sum(sizes) + marks * len(layout.marked)
        if found != first or count > layout.rows or len(data) != expected:
            raise DamageError(f"{what}: the block is of other rows ({count} from {found} on)")
        block = cls(layout, first)
        block.count = count
        at = _HEAD.size
        for column, size in zip(block.columns.values(), sizes, strict=True):
            column[:count] = np.frombuffer(data, column.dtype, count, at)
            at += size
        for name in layout.marked:
            bits = np.frombuffer(data, np.uint8, marks, at)
            if bits.any():
                nulls = np.zeros(layout.rows, np.bool_)
                nulls[:count] = np.unpackbits(bits, count=count)
                block.nulls[name] = nulls
            at += marks
        block.stored = True
        return block
