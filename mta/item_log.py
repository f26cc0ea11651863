"""ItemLog: byte strings of any length, such as sketches, in bounded memory: by number, on a store.

As bytes, a chunk of them says which ones it has, and is checked when it is read::

    magic "MTAI" | CRC-32 of what follows | number of the first | items | their lengths | they
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mta._crc import crc32
from mta.engine import Ints
from mta.errors import DamageError
from mta.stores import Store

_MAGIC = b"MTAI"
_HEAD = struct.Struct("<4sIqq")
_LEAST_CHUNK, _LARGEST_CHUNK = 1024, 1 << 18
_CHUNKS = 8  # as many as fit in memory
_WASTED = 16  # chunks that a newer header would free, beyond as many as are in use
OBJECT = 33  # bytes of an object of bytes beside its items


class ItemLog:
    """Items are numbered as they come, and go a chunk at a time.

    Each belongs to a place (a row, a pane), by which it is let go of: a chunk goes when it has none
    of a later place, though chunks before it may have.

    Cost: a chunk is written once, and read whenever one of its items is asked for that is not in
    memory. Memory: `memory`, or one chunk; 16 bytes for every chunk on the store.

    store, name : where chunks are: under keys that begin with the name
    note_due : is called when the store has much that is not needed

    >>> from mta.stores import MemoryStore
    >>> log = ItemLog(MemoryStore(), "items", 4096)
    >>> for number in range(100):
    ...     log.append(bytes([number]) * 500, place=number)
    ...     log.make_room()
    >>> log[0] == bytes(500), log.written > 20, log.nbytes < 6000
    (True, True, True)
    """

    def __init__(
        self, store: Store, name: str, memory: int, note_due: Callable[[], None] | None = None
    ) -> None:
        self.store, self.name, self.memory = store, name, memory
        self._note_due = note_due
        self.chunk = max(_LEAST_CHUNK, min(memory // _CHUNKS, _LARGEST_CHUNK))
        # Of the chunks in use, the last of which still takes items: number of the first item, and
        # the last place of one.
        self._firsts: list[int] = [0]
        self._lasts: list[int] = []
        self.end = 0
        self._looked_at = 1  # chunks, when all of them were looked at last
        self._newest: list[bytes] = []
        self._newest_bytes = 0
        self._pool: dict[int, list[bytes]] = {}  # other chunks in memory, by their first item
        self._sizes: dict[int, int] = {}
        self._there: dict[int, bool] = {}  # chunks that the store may have, and whether it has
        self._told: set[int] = set()  # those that the header names which is to be written
        self.written = self.read_blocks = 0

    # ------------------------------------------------------------------------------ items

    def append(self, item: bytes, place: int) -> None:
        """Take the next item; `make_room` puts out what is too much."""
        if self._newest_bytes >= self.chunk:
            self._close_chunk()
        if len(self._lasts) < len(self._firsts):
            self._lasts.append(place)
        self._lasts[-1] = max(self._lasts[-1], place)
        self._newest.append(item)
        self._newest_bytes += len(item) + OBJECT
        self.end += 1

    def _close_chunk(self) -> None:
        first = self._firsts[-1]
        self._pool[first], self._sizes[first] = self._newest, self._newest_bytes
        self._newest, self._newest_bytes = [], 0
        self._firsts.append(self.end)

    @property
    def is_full(self) -> bool:
        """There is more in memory than there is memory for."""
        return bool(self._pool) and self.nbytes > self.memory

    def __getitem__(self, number: int) -> bytes:
        """An item that has not been let go of.

        Raises
        ------
        StoreError
            Its chunk could not be read, or another one not written.
        """
        first = self._firsts[bisect_right(self._firsts, number) - 1]
        if first == self._firsts[-1]:
            return self._newest[number - first]
        items = self._pool.get(first)
        if items is None:
            items = self._load(first)
        return items[number - first]

    def _load(self, first: int) -> list[bytes]:
        key = self._key(first)
        what = f"{self.store!r}: {key!r}"
        data = self.store.get(key)
        self.read_blocks += 1
        if data is None:
            raise DamageError(f"{what}: the chunk is missing")
        items = self._pool[first] = _from_bytes(first, data, what)
        self._sizes[first] = sum(map(len, items)) + OBJECT * len(items)
        self.make_room(first)
        return items

    def make_room(self, kept: int = -1) -> None:
        """Put out what is too much, the newest first: windows come to it last.

        kept : is asked for just now

        Raises
        ------
        StoreError
            A chunk could not be written; it is still here.
        """
        while self.is_full:
            first = max((chunk for chunk in self._pool if chunk != kept), default=kept)
            if first == kept:
                return
            self._put_out(first)

    def _put_out(self, first: int) -> None:
        if not self._there.get(first):
            self._there[first] = False
            self.store.put(self._key(first), _to_bytes(first, self._pool[first]))
            self._there[first] = True
            self.written += 1
        self._drop(first)

    def _drop(self, first: int) -> None:
        del self._pool[first], self._sizes[first]

    def thin_out(self) -> None:
        """Keep nothing in memory but the chunk that takes items.

        Raises
        ------
        StoreError
            One could not be written; it is still here.
        """
        for first in sorted(self._pool, reverse=True):
            self._put_out(first)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._newest_bytes + sum(self._sizes.values()) + 16 * len(self._firsts)

    @property
    def stored(self) -> int:
        """Chunks in use."""
        return len(self._firsts)

    # -------------------------------------------------------------------------- letting go

    def let_go(self, before: int) -> None:
        """Items of places before this one are not needed any more.

        Chunks go as a whole; those that lie behind others that stay, by the time that there are
        twice as many.
        """
        closed, oldest = len(self._firsts) - 1, 0
        while oldest < closed and self._lasts[oldest] < before:
            oldest += 1
        gone = set(self._firsts[:oldest])
        del self._firsts[:oldest], self._lasts[:oldest]
        if len(self._firsts) > 2 * self._looked_at:  # also those behind others that stay
            gone |= self._let_go_between(before)
            self._looked_at = len(self._firsts)
        self._looked_at = min(self._looked_at, len(self._firsts))
        if not gone:
            return
        for first in gone & self._pool.keys():
            self._drop(first)
        unused = len(self._there) - len(self._firsts)
        if self._note_due is not None and unused > _WASTED + self.stored:
            self._note_due()

    def _let_go_between(self, before: int) -> set[int]:
        closed = range(len(self._firsts) - 1)
        gone = {self._firsts[k] for k in closed if self._lasts[k] < before}
        self._lasts = [
            last
            for first, last in zip(self._firsts, self._lasts, strict=False)
            if first not in gone
        ]
        self._firsts = [first for first in self._firsts if first not in gone]
        return gone

    def forget(self) -> None:
        """Have the store forget what is not needed, where no header names it.

        Raises
        ------
        StoreError
            It is still there.
        """
        gone = self._there.keys() - self._firsts
        self.store.delete_many([self._key(first) for first in gone])
        for first in gone:
            del self._there[first]

    def all_keys(self) -> list[bytes]:
        """The keys of all chunks that the store may have."""
        return [self._key(first) for first in self._there]

    def _key(self, first: int) -> bytes:
        return f"{self.name}/{first:016x}".encode()

    # ---------------------------------------------------------------------------- recovery

    def to_parts(self) -> list[bytes]:
        """What a header has to hold, as two: for `fill`. The newest chunk is in it, so that what a
        store has never changes."""
        self._told = set(self._firsts[:-1])
        told = {"chunk": self.chunk, "end": self.end, "firsts": self._firsts, "lasts": self._lasts}
        return [json.dumps(told).encode(), _to_bytes(self._firsts[-1], self._newest)]

    def pending(self) -> dict[bytes, bytes | None]:
        """The batch that goes with the header: chunks that are only in memory, and off with what it
        does not name; then say `wrote`."""
        gone: dict[bytes, bytes | None] = {
            self._key(first): None for first in self._there.keys() - self._told
        }
        only_here = [first for first in self._pool if not self._there.get(first)]
        for first in only_here:
            self._there[first] = False
        return gone | {self._key(first): _to_bytes(first, self._pool[first]) for first in only_here}

    def wrote(self) -> None:
        """The header is on the store."""
        self.written += sum(not there for there in self._there.values())
        self._there = dict.fromkeys(self._told, True)

    def fill(self, told: bytes, newest: bytes) -> None:
        """Take what `to_parts` gave, and forget what was written after it.

        Raises
        ------
        ValueError, DamageError
            It is damaged.
        """
        known: dict[str, Any] = json.loads(told)
        self.chunk, self.end = int(known["chunk"]), int(known["end"])
        self._firsts, self._lasts = list(known["firsts"]), list(known["lasts"])
        self._newest = _from_bytes(self._firsts[-1], newest, f"{self.name}: the header")
        if self._firsts[-1] + len(self._newest) != self.end or self.chunk < 1:
            raise ValueError("items and their chunks do not fit")
        self._newest_bytes = sum(map(len, self._newest)) + OBJECT * len(self._newest)
        self._there = dict.fromkeys(self._firsts[:-1], True)
        named = set(self.all_keys())
        found = self.store.keys(f"{self.name}/".encode())
        self.store.delete_many([key for key in found if key not in named])


class LoggedItems(Mapping[int, Any]):
    """What the codes of a column stand for: -1, -2, ... are items of a log, others are in memory.

    known : gives these
    """

    def __init__(self, log: ItemLog, known: Mapping[int, Any] | Sequence[Any] = ()) -> None:
        self.log, self.known = log, known

    def __getitem__(self, code: int) -> Any:
        return self.log[-1 - code] if code < 0 else self.known[code]

    def __iter__(self) -> Iterator[int]:
        return iter(range(-1, -1 - self.log.end, -1))

    def __len__(self) -> int:
        return self.log.end


def logged_codes(start: int, stop: int) -> Ints:
    """The codes of the items of a log with these numbers."""
    return -1 - np.arange(start, stop)


def _to_bytes(first: int, items: list[bytes]) -> bytes:
    lengths = np.array([len(item) for item in items], "<i8").tobytes()
    head = _HEAD.pack(_MAGIC, 0, first, len(items))
    body = b"".join([head[8:], lengths, *items])
    return struct.pack("<4sI", _MAGIC, crc32(body)) + body


def _from_bytes(first: int, data: bytes, what: str) -> list[bytes]:
    if len(data) < _HEAD.size or data[:4] != _MAGIC:
        raise DamageError(f"{what}: this is no chunk of items")
    _, crc, found, count = _HEAD.unpack_from(data)
    if crc32(memoryview(data)[8:]) != crc:
        raise DamageError(f"{what}: the chunk is damaged (the checksum does not fit)")
    if found != first:
        raise DamageError(f"{what}: the chunk is another one ({found})")
    lengths = np.frombuffer(data, "<i8", count, _HEAD.size)
    edges = _HEAD.size + lengths.nbytes + np.concatenate([[0], np.cumsum(lengths)])
    return [data[a:b] for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
