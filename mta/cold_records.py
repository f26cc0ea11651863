"""ColdRecords: keys that have had no rows for long, several to a value of a store.

As bytes, a record says whose it is, and is checked when it is read::

    magic "MTAK" | CRC-32 of what follows | of what | number | keys | rows | heads | rows

A head is a few integers of a key, a row its 8-byte items and a bit for each mark of it. A number is
given once: no record is ever changed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32 as short_crc32

import numpy as np
from numpy.typing import NDArray

from mta._cold import DAMAGED, FOREIGN, MISSING, OTHER, WHOLE, first_fault, taken
from mta._crc import crc32
from mta.errors import DamageError
from mta.stores import Store

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_MAGIC = b"MTAK"
_HEAD = struct.Struct("<4sIIqII4x")
_SUMMED = 8  # bytes before those that the checksum is of
_FAULTS = {
    MISSING: "the record is missing",
    FOREIGN: "this is no record of keys",
    DAMAGED: "the record is damaged (the checksum does not fit)",
    OTHER: "the record is of other keys",
}
# With what an engine adds it fits in a page of 4 KB, which is what reading one key costs.
RECORD = 4000


class RecordLayout:
    """What is told of a key and of a row.

    identity : of whose keys and rows they are; others' records are refused
    head : integers of a key
    cells, masks : 8-byte items of a row, and marks
    """

    def __init__(self, identity: str, head: int, cells: int, masks: int) -> None:
        self.head, self.masks = head, masks
        # (At least a byte, as windows that count rows need none.)
        bits = max(1, -(-masks // 8))
        self.row = np.dtype([("cells", "<i8", (cells,)), ("marks", "u1", (bits,))])
        self.identity = short_crc32(f"{identity}\0{head}\0{cells}\0{masks}".encode())

    def pack(self, cells: Sequence[Any], masks: Sequence[Mask | None], rows: int) -> Any:
        """Rows, one behind the other. A mask that is None has every row."""
        packed = np.zeros(rows, self.row)
        for place, items in enumerate(cells):
            packed["cells"][:, place] = items.view(np.int64)
        for place, mask in enumerate(masks):
            if mask is not None:
                packed["marks"][:, place // 8] |= (~mask).view(np.uint8) << (place % 8)
        return packed

    def taken(self, values: list[bytes], record: Ints, entry: Ints) -> tuple[Ints, Any]:
        """Of some keys of these records the heads, and the rows, one key after the other.

        record, entry : in which record each is, and its place there
        """
        heads, rows = taken(values, record, entry, self.head, self.row.itemsize)
        return heads, rows.view(self.row)

    def unpack(self, rows: Any) -> tuple[list[Ints], list[Mask | None]]:
        """What `pack` was given."""
        cells = rows["cells"]
        masks: list[Mask | None] = []
        for place in range(self.masks):
            nulls = rows["marks"][:, place // 8] & (1 << place % 8)
            masks.append(np.equal(nulls, 0) if nulls.any() else None)
        return [np.ascontiguousarray(cells[:, at]) for at in range(cells.shape[1])], masks


class ColdRecords:
    """Records of keys on a store.

    name : all their keys there begin with it
    leave : takes keys of the store that are to go once no header names them, and how many bytes
        their values have
    """

    def __init__(self, store: Store, name: str, leave: Callable[[list[bytes], int], None]) -> None:
        self.store, self.name, self._leave = store, name, leave
        self.next = 0  # number
        self.written = self.read = 0  # records

    def write(
        self, layout: RecordLayout, heads: Ints, sizes: Ints, rows: Any, edges: Ints
    ) -> tuple[Ints, Ints]:
        """Write records; their numbers, and bytes.

        heads : a row a key
        sizes, rows : how many rows each key has, and these, one key after the other
        edges : of the keys in each of them

        Raises
        ------
        StoreError
            None of them is there.
        """
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])[edges]
        numbers = np.arange(self.next, self.next + len(edges) - 1)
        batch: dict[bytes, bytes | None] = {}
        for number, (start, stop), (first, end) in zip(
            numbers.tolist(), pairwise(edges.tolist()), pairwise(ends.tolist()), strict=True
        ):
            body = b"".join([
                _HEAD.pack(_MAGIC, 0, layout.identity, number, stop - start, end - first)[_SUMMED:],
                heads[start:stop].tobytes(),
                rows[first:end].tobytes(),
            ])  # fmt: skip
            batch[self._key(number)] = struct.pack("<4sI", _MAGIC, crc32(body)) + body
        self.store.write(batch)
        self.next += len(numbers)
        self.written += len(numbers)
        return numbers, np.array([len(value or b"") for value in batch.values()], np.int64)

    def read_some(self, layout: RecordLayout, numbers: Ints) -> list[bytes]:
        """Records by number, by one request.

        Raises
        ------
        StoreError
            They could not be read; DamageError: one is missing, damaged, or another one.
        """
        keys = [self._key(number) for number in numbers.tolist()]
        values = self.store.get_many(keys)
        self.read += len(keys)
        place, fault = first_fault(
            values, numbers, layout.identity, layout.head, layout.row.itemsize
        )
        if fault != WHOLE:
            raise self.damage(f"{keys[place]!r}: {_FAULTS[fault]}")
        return [value for value in values if value is not None]

    def damage(self, what: str) -> DamageError:
        """What says that something is wrong with what the store has."""
        return DamageError(f"{self.store!r}: {what}")

    def forget(self, numbers: Ints, size: int) -> None:
        """These records, of so many bytes, are needed no more but by the last header."""
        if len(numbers):
            self._leave([self._key(number) for number in numbers.tolist()], size)

    def _key(self, number: int) -> bytes:
        return b"%b/%016x" % (self.name.encode(), number)


SERIAL, SIZE = 0, 1  # of a head: whose it is, and how many rows


def record_edges(sizes: Ints) -> Ints:
    """Where records begin among keys of so many bytes each, and the end: of some `RECORD` bytes,
    or one key."""
    room = max(RECORD - _HEAD.size - int(sizes.mean()), 1)
    which = (np.cumsum(sizes) - sizes) // room
    starts = np.flatnonzero(np.diff(which, prepend=-1))
    return np.append(starts, len(sizes))
