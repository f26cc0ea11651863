"""The files of a `FileStore`: segments of appended batches, and the mark of what is durable.

A segment is a header (magic "MTAS", format version, its number, the size of the segment before it,
a CRC-32) and records. A record is a batch:

====== ===== ==================================================
offset bytes content
====== ===== ==================================================
0      4     magic "MTAR"
4      4     length of the table
8      8     length of all values
16     4     CRC-32 of the above, the table, segment and offset
20           the table: an entry for each key, the key behind it
..           the values, one after the other
====== ===== ==================================================

An entry is the key's length (2 bytes), the value's length (4; all ones: the key goes) and the
CRC-32 of key and value (4). A header or table is checked when a store is opened, a value when it is
read. Everything is little endian.
"""

from __future__ import annotations

import os
import struct
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from mta.stores._checksum import checksum

_HEADER = struct.Struct("<4sHHQQI")  # magic, version, 0, number, size of the one before, CRC
_RECORD = struct.Struct("<4sIQI")
_ENTRY = struct.Struct("<HII")
_SELF = struct.Struct("<QQ")  # which segment, which offset
_VERSION = 1
_GONE = 0xFFFFFFFF
_AT_ONCE = 512  # buffers in one call; the least that POSIX systems take is 16, Linux takes 1024

FIRST = _HEADER.size  # where the first record of a segment begins

# Of a file's own data, with its length; elsewhere than on Linux the stronger call.
sync_data = getattr(os, "fdatasync", os.fsync)


class BadRecordError(Exception):
    """No whole record begins here."""


class Place(NamedTuple):
    """Where a value lies."""

    segment: Segment
    offset: int
    length: int
    crc: int


class Record(NamedTuple):
    """A batch as it was written: where each value lies (None: the key goes), and where it ends."""

    places: dict[bytes, Place | None]
    end: int


class Segment:
    """One file of batches; appended to while it is the newest, then only read.

    Whoever holds a segment can read it, also after its file was removed.
    """

    def __init__(self, path: Path, number: int, fd: int) -> None:
        self.path = path
        self.number = number
        self.fd = fd
        self.size = os.fstat(fd).st_size  # where the next record goes
        self.live = 0  # bytes that values need which are still asked for; see `length_alone`
        # A reader may still be at it when the store has done with the file.
        self.close = weakref.finalize(self, os.close, fd)

    @classmethod
    def create(cls, folder: Path, number: int, before: int) -> Segment:
        """A new empty segment, durable under its name or not there at all.

        Parameters
        ----------
        folder, number
            Where it is to be.
        before
            The size of the segment before it, which is whole and durable.
        """
        head = _HEADER.pack(b"MTAS", _VERSION, 0, number, before, 0)[:-4]
        path = segment_path(folder, number)
        create_whole(path, head + struct.pack("<I", crc32(head)))
        return cls.open(path, number)

    @classmethod
    def open(cls, path: Path, number: int) -> Segment:
        """The segment in this file; its header is not looked at (see `size_before`)."""
        return cls(path, number, os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def size_before(self) -> int:
        """How long the segment before this one is, as the header says.

        Raises
        ------
        BadRecordError
            The header is not that of this segment, or of another version.
        """
        head = os.pread(self.fd, FIRST, 0)
        if len(head) < FIRST or _HEADER.unpack(head)[-1] != crc32(head[:-4]):
            raise BadRecordError("its header is damaged")
        magic, version, _, number, before, _ = _HEADER.unpack(head)
        if (magic, version, number) != (b"MTAS", _VERSION, self.number):
            raise BadRecordError(f"it is a {magic!r}, version {version}, number {number}")
        return int(before)

    def append(self, batch: dict[bytes, bytes | None]) -> dict[bytes, Place | None]:
        """Writes a batch; if that fails, nothing is left of it."""
        table, values = _tabled(batch)
        head = _RECORD.pack(b"MTAR", len(table), sum(map(len, values)), 0)[:-4]
        crc = struct.pack("<I", self._crc(head, table, self.size))
        try:
            end = _write_all(self.fd, [head + crc + table, *values], self.size)
        except OSError:
            self.cut()
            raise
        record = self._record(table, self.size + _RECORD.size + len(table))
        self.size = end
        return record.places

    def records(self) -> Iterator[Record]:
        """All whole records from the first on.

        Raises
        ------
        BadRecordError
            What comes next is none.
        """
        place = FIRST
        end = os.fstat(self.fd).st_size
        while place < end:
            record = self._record_at(place, end)
            yield record
            place = record.end

    def read(self, place: Place) -> bytes:
        """The bytes at `place`, unchecked, fewer if the file has fewer."""
        data = os.pread(self.fd, place.length, place.offset)
        while len(data) < place.length:
            more = os.pread(self.fd, place.length - len(data), place.offset + len(data))
            if not more:
                break
            data += more
        return data

    def sync(self) -> None:
        """Forces to the disk what was appended."""
        sync_data(self.fd)

    def cut(self) -> None:
        """Removes what lies behind the last record: a batch that failed, or was torn."""
        os.ftruncate(self.fd, self.size)

    def _crc(self, head: bytes, table: bytes, offset: int) -> int:
        return crc32(table, crc32(head, crc32(_SELF.pack(self.number, offset))))

    def _record_at(self, offset: int, limit: int) -> Record:
        head = os.pread(self.fd, _RECORD.size, offset)
        if len(head) < _RECORD.size or head[:4] != b"MTAR":
            raise BadRecordError(f"no batch begins at {offset:,}")
        _, table_length, length, crc = _RECORD.unpack(head)
        values = offset + _RECORD.size + table_length
        if values + length > limit:
            raise BadRecordError(f"the batch at {offset:,} is cut short")
        table = os.pread(self.fd, table_length, offset + _RECORD.size)
        if self._crc(head[:-4], table, offset) != crc:
            raise BadRecordError(f"the batch at {offset:,} is damaged")
        return self._record(table, values)

    def _record(self, table: bytes, values: int) -> Record:
        places: dict[bytes, Place | None] = {}
        at = 0
        while at < len(table):
            key_length, length, crc = _ENTRY.unpack_from(table, at)
            at += _ENTRY.size + key_length
            key = table[at - key_length : at]
            if length == _GONE:
                places[key] = None
            else:
                places[key] = Place(self, values, length, crc)
                values += length
        return Record(places, values)


class Mark:
    """Which segments there are, and how far they are known to be durable: a small file.

    Two slots in turn, so that one is whole whenever the process dies. After a flush it is not
    forced to the disk itself: an older mark makes nothing wrong, it only means that more is looked
    at when the store is opened. Before a segment is removed it is.
    """

    _SLOT = struct.Struct("<QQQQI")  # turn, first and newest segment, offset there, CRC
    _APART = 4096  # bytes; no disk writes both at once

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.close = weakref.finalize(self, os.close, self.fd)
        slots = [os.pread(self.fd, self._SLOT.size, at) for at in (0, self._APART)]
        whole = [self._SLOT.unpack(slot) for slot in slots if _whole_slot(slot)]
        if not whole:
            raise BadRecordError("the mark of what is durable is damaged")
        self.turn, self.first, self.segment, self.offset, _ = max(whole)

    @classmethod
    def create(cls, path: Path) -> None:
        """The mark of an empty store."""
        empty = cls._slot(0, 1, 1, 0)
        create_whole(path, empty.ljust(cls._APART, b"\0") + empty)

    def set(self, segment: int, offset: int) -> None:
        """Everything up to `offset` of `segment` is durable, and so are all older segments."""
        if (segment, offset) != (self.segment, self.offset):
            self.segment, self.offset = segment, offset
            self._write()

    def drop_before(self, first: int) -> None:
        """Segments before `first` are not needed any more; durable when this returns."""
        self.first = first
        self._write()
        sync_data(self.fd)

    def _write(self) -> None:
        self.turn += 1
        slot = self._slot(self.turn, self.first, self.segment, self.offset)
        os.pwrite(self.fd, slot, self.turn % 2 * self._APART)

    @classmethod
    def _slot(cls, *fields: int) -> bytes:
        data = cls._SLOT.pack(*fields, 0)[:-4]
        return data + struct.pack("<I", crc32(data))


def length_alone(key: bytes, place: Place) -> int:
    """The length of a record of this value alone: what it takes to write it again."""
    return _RECORD.size + _ENTRY.size + len(key) + place.length


def segment_path(folder: Path, number: int) -> Path:
    """The file of the segment with this number."""
    return folder / f"{number:016x}.blocks"


def create_whole(path: Path, data: bytes) -> None:
    """A file with these bytes, on the disk and under its name, or no file of this name."""
    unfinished = path.with_name(path.name + ".tmp")
    with unfinished.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Forces to the disk which files are in `folder`."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _whole_slot(slot: bytes) -> bool:
    return len(slot) == Mark._SLOT.size and Mark._SLOT.unpack(slot)[-1] == crc32(slot[:-4])


def _tabled(batch: dict[bytes, bytes | None]) -> tuple[bytes, list[bytes]]:
    table = []
    values = []
    for key, value in batch.items():
        if value is None:
            table.append(_ENTRY.pack(len(key), _GONE, 0) + key)
        else:
            table.append(_ENTRY.pack(len(key), len(value), checksum(key, value)) + key)
            values.append(value)
    return b"".join(table), values


def _write_all(fd: int, parts: list[bytes], place: int) -> int:
    """Writes `parts` one after the other from `place` on; returns where they end."""
    for first in range(0, len(parts), _AT_ONCE):
        some = parts[first : first + _AT_ONCE]
        done = os.pwritev(fd, some, place)
        place += done
        if done < sum(map(len, some)):  # a signal came, or the disk is almost full
            rest = memoryview(b"".join(some))[done:]
            while rest:
                done = os.pwrite(fd, rest, place)
                place += done
                rest = rest[done:]
    return place
