"""RowBlock: the unit in which rows of a window come and go: a fixed number of them, by columns.

As bytes, a block says which one it is, and is checked when it is read::

    magic "MTAB" | CRC-32 of what follows | number of the first row | rows | columns | null marks

Columns lie one after the other, each as long as its rows; there is a mark, a bit, for every value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
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
        # Where the columns of a full block begin, and where its marks do.
        sizes = [self.rows * dtype.itemsize for dtype in self.types.values()]
        *starts, self.end = accumulate(sizes, initial=_HEAD.size)
        self.starts = dict(zip(self.types, starts, strict=True))
        self.no_marks = bytes(len(self.marked) * -(-self.rows // 8))
        self.aligned = all(self.starts[n] % t.alignment == 0 for n, t in self.types.items())

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


def _new_layout(columns: tuple[tuple[str, Any], ...], block: int, marks: tuple[str, ...]) -> Layout:
    return Layout(dict(columns), block, marks)


_layout = lru_cache(maxsize=64)(_new_layout)


def layout_of(columns: Mapping[str, Any], block: int, marks: Sequence[str]) -> Layout:
    """The layout of these columns: one for all keys that have the same."""
    return _layout(tuple(columns.items()), block, tuple(marks))


class RowBlock:
    """Rows [first, first + count) of a window, and room for as many as the layout says.

    The columns lie in one buffer as they do in bytes, so that a full block is its bytes.
    """

    __slots__ = ("columns", "count", "data", "first", "layout", "stored", "valid")

    def __init__(self, layout: Layout, first: int, data: NDArray[np.uint8] | None = None) -> None:
        self.layout = layout
        self.first = first
        self.count = 0
        if not layout.aligned:
            self.data = np.empty(0, np.uint8)
            self.columns = {n: np.empty(layout.rows, t) for n, t in layout.types.items()}
        else:
            if data is None:
                data = np.empty(layout.end + len(layout.no_marks), np.uint8)
            self.data, rows = data, layout.rows
            self.columns = {
                name: data[start : start + rows * dtype.itemsize].view(dtype)
                for (name, start), dtype in zip(
                    layout.starts.items(), layout.types.values(), strict=True
                )
            }
        self.valid: dict[str, NDArray[np.bool_]] = {}  # of the columns that have nulls
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
        for name, mask in valid.items():
            if name in self.layout.marked and not mask[start:stop].all():
                kept = self.valid.setdefault(name, np.ones(self.layout.rows, np.bool_))
                kept[self.count : to] = mask[start:stop]
        self.count = to
        self.stored = False

    def to_bytes(self) -> bytes:
        """The block, to be stored."""
        marks = self._marks() if self.valid else b""
        if self.count == self.layout.rows and self.layout.aligned:
            return self._sealed(marks or self.layout.no_marks)
        marks = marks or bytes(len(self.layout.marked) * -(-self.count // 8))
        parts = [column[: self.count].tobytes() for column in self.columns.values()]
        body = b"".join([struct.pack("<qI4x", self.first, self.count), *parts, marks])
        return struct.pack("<4sI", _MAGIC, crc32(body)) + body

    def _sealed(self, marks: bytes) -> bytes:
        """A full one: its buffer."""
        data = self.data.data
        data[self.layout.end :] = marks
        _HEAD.pack_into(data, 0, _MAGIC, 0, self.first, self.count)
        struct.pack_into("<I", data, 4, crc32(data[8:]))
        return self.data.tobytes()

    def _marks(self) -> bytes:
        none = np.zeros(self.count, np.bool_)
        masks = [self.valid.get(name) for name in self.layout.marked]
        nulls = [none if mask is None else ~mask[: self.count] for mask in masks]
        return b"".join(np.packbits(mark).tobytes() for mark in nulls)

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
        at = _HEAD.size + sum(sizes)
        if found != first or count > layout.rows or len(data) != at + marks * len(layout.marked):
            raise DamageError(f"{what}: the block is of other rows ({count} from {found} on)")
        if count == layout.rows and layout.aligned:
            block = cls(layout, first, np.frombuffer(data, np.uint8).copy())
        else:
            block = cls(layout, first)
            starts = accumulate(sizes, initial=_HEAD.size)
            for column, start in zip(block.columns.values(), starts, strict=False):
                column[:count] = np.frombuffer(data, column.dtype, count, start)
        block.count = count
        if data.count(0, at) < len(data) - at:
            block._take_marks(np.frombuffer(data, np.uint8, offset=at))
        block.stored = True
        return block

    def _take_marks(self, data: NDArray[np.uint8]) -> None:
        marks = data.reshape(len(self.layout.marked), -1)
        for name, bits in zip(self.layout.marked, marks, strict=True):
            if bits.any():
                kept = self.valid[name] = np.ones(self.layout.rows, np.bool_)
                kept[: self.count] = ~np.unpackbits(bits, count=self.count).view(np.bool_)
