"""Blocks in the places of one data file, each as large as a block: SlideM's file (2013, §3)."""

from __future__ import annotations

import mmap
import os
import struct
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import ClassVar

from mta.errors import DamageError, SpecError
from mta.stores._checksum import checksum
from mta.stores._segments import sync_data
from mta.stores.base import Store, Sync, checked_sync
from mta.stores.files import FileStore

_ENTRY = struct.Struct("<IQ")  # CRC-32 of key and value, length; then the slots
_SLOT = struct.Struct("<Q")
_PAGE = 4096  # what O_DIRECT wants offsets and lengths to be multiples of
_HELD_BACK = 64  # slots released since the last flush, beyond half of those in use
_SIZE = b"\0slot"  # the key under which the index keeps the size of a slot


class SlotStore(Store):
    """Blocks in one file of slots, and a small index beside it.

    A block goes to the slot that was released least recently, or to the end of the file (Procedure
    1 of SlideM), never over one that is in use: so the file is about as large as the most blocks
    there were at once. A value longer than a slot takes several. Which slots a key has is in the
    index, a `FileStore`: a batch is whole when the index has it, which is after its slots.

    Beside `FileStore`, whose files are a log: no block is ever written twice and space is used
    again at once, but writes go all over the file.

    Parameters
    ----------
    path
        A folder; made if it is not there. One store at a time can have it open.
    slot
        Bytes of a slot, a multiple of 4096; what was made with another size is refused.
    sync
        With "write" and "flush" the slots are forced to the disk before the index says so, with
        "flush" the index only at `flush`, and slots that were released since then are not used
        before (or before they are many, which is a flush of its own); with "never" nothing is
        forced, which is safe from kill -9, but not from a crash of the machine.
    direct
        Whether the system's page cache is gone around (``O_DIRECT``): blocks then take no memory
        beside the window's own, but every read waits for the disk. Not all file systems can.

    Raises
    ------
    SpecError
        The size of a slot can't be, or is not that of the file.
    StoreError
        The folder can't be opened, or the file system has no ``O_DIRECT``.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SlotStore(folder.name, slot=4096, sync="never") as store:
    ...     for number in range(100):        # ten blocks at a time
    ...         store.write({b"%d" % number: bytes(4000), b"%d" % (number - 10): None})
    ...     store.slots
    11
    >>> with SlotStore(folder.name, slot=4096) as store:
    ...     len(list(store.keys()))
    10
    >>> folder.cleanup()
    """

    kind: ClassVar[str] = "slots"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        slot: int = 65536,
        sync: Sync = "flush",
        direct: bool = False,
    ) -> None:
        super().__init__(os.fspath(path))
        self._sync = checked_sync(sync)
        self._direct = direct
        if slot < _PAGE or slot % _PAGE:
            raise SpecError(f"slot: a multiple of {_PAGE} bytes is needed, not {slot}")
        self.slot = slot
        self._index = FileStore(Path(path) / "index", sync=sync, segment=1 << 20)
        self._writing = Lock()
        self._entries: dict[bytes, tuple[int, int, tuple[int, ...]]] = {}  # crc, length, slots
        self._free: deque[int] = deque()
        self._released: deque[int] = deque()  # free as soon as that is durable
        self.slots = 0  # in the file
        try:
            with self._saying("open", ()):
                flags = os.O_RDWR | os.O_CREAT | (os.O_DIRECT if direct else 0)
                self._file = os.open(Path(path) / "blocks", flags, 0o666)
        except BaseException:
            self._index.close()
            raise
        try:
            self._recover()
        except BaseException:
            os.close(self._file)
            self._index.close()
            raise

    def _recover(self) -> None:
        size = self._index.get(_SIZE)
        if size is None:
            self._index.put(_SIZE, _SLOT.pack(self.slot))
        elif size != _SLOT.pack(self.slot):
            raise SpecError(f"slot: {self!r} has slots of {_SLOT.unpack(size)[0]} bytes")
        with self._saying("open", ()):
            keys = list(self._index.keys())
            keys.remove(_SIZE)
            for key, entry in zip(keys, self._index.get_many(keys), strict=True):
                assert entry is not None
                crc, length = _ENTRY.unpack_from(entry)
                taken = tuple(n for (n,) in _SLOT.iter_unpack(entry[_ENTRY.size :]))
                self._entries[key] = crc, length, taken
            used = {n for _, _, taken in self._entries.values() for n in taken}
            self.slots = max(used, default=-1) + 1
            self._free.extend(sorted(set(range(self.slots)) - used))

    def _get(self, key: bytes) -> bytes | None:
        entry = self._entries.get(key)
        while entry is not None:
            crc, length, taken = entry
            value = self._read(taken, length)
            if len(value) == length and checksum(key, value) == crc:
                return value
            now = self._entries.get(key)
            if now is entry:
                raise DamageError(f"{self!r}: the value of {key!r} is damaged in slot {taken[0]}")
            entry = now  # it was written anew meanwhile
        return None

    def _read(self, taken: tuple[int, ...], length: int) -> bytes:
        parts = []
        for number in taken:
            size = min(length, self.slot)
            parts.append(self._read_slot(number, size))
            length -= size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_slot(self, number: int, size: int) -> bytes:
        if not self._direct:
            return os.pread(self._file, size, number * self.slot)
        with mmap.mmap(-1, max(_rounded(size), _PAGE)) as page:  # aligned, as O_DIRECT wants it
            os.preadv(self._file, [page], number * self.slot)
            return page[:size]

    def _write_slot(self, number: int, part: bytes) -> None:
        if not self._direct:
            done, size = os.pwrite(self._file, part, number * self.slot), len(part)
        else:
            with mmap.mmap(-1, max(_rounded(len(part)), _PAGE)) as page:
                page[: len(part)] = part
                done, size = os.pwrite(self._file, page, number * self.slot), len(page)
        if done != size:
            raise OSError(f"{done} of {size} bytes of a block were written: the disk is full")

    def _write(self, batch: dict[bytes, bytes | None]) -> None:
        with self._writing:
            taken: dict[bytes, tuple[int, int, tuple[int, ...]]] = {}
            try:
                for key, value in batch.items():
                    if value is not None:
                        taken[key] = checksum(key, value), len(value), self._put(value)
                if self._sync != "never" and taken:
                    sync_data(self._file)
                self._index.write({key: _packed(taken.get(key)) for key in batch})
            except BaseException:
                for _, _, slots in taken.values():
                    self._free.extendleft(reversed(slots))
                raise
            for key in batch:
                old = self._entries.pop(key, None)
                if old is not None:
                    self._released.extend(old[2])
            self._entries.update(taken)
            if self._sync != "flush":
                self._reuse_released()
            elif 2 * len(self._released) > self.slots + 2 * _HELD_BACK:
                self._index.flush()
                self._reuse_released()

    def _reuse_released(self) -> None:
        self._free.extend(self._released)
        self._released.clear()

    def _put(self, value: bytes) -> tuple[int, ...]:
        """Write a value to free slots; which they are."""
        count = max(-(-len(value) // self.slot), 1)
        while len(self._free) < count:
            self._free.append(self.slots)
            self.slots += 1
        taken = tuple(self._free.popleft() for _ in range(count))
        try:
            for place, number in enumerate(taken):
                self._write_slot(number, value[place * self.slot : (place + 1) * self.slot])
        except BaseException:
            self._free.extendleft(reversed(taken))
            raise
        return taken

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        return [key for key in list(self._entries) if key.startswith(prefix)]

    def _flush(self) -> None:
        with self._writing:
            self._index.flush()
            self._reuse_released()

    def _close(self) -> None:
        os.close(self._file)
        self._index.close()


def _rounded(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _packed(entry: tuple[int, int, tuple[int, ...]] | None) -> bytes | None:
    if entry is None:
        return None
    crc, length, taken = entry
    return _ENTRY.pack(crc, length) + b"".join(_SLOT.pack(number) for number in taken)
