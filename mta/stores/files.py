"""Blocks in plain files: a log of batches, cut into segments, with the index in memory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from threading import RLock
from typing import ClassVar

from mta.errors import DamageError, SpecError, StoreError
from mta.stores._checksum import checksum
from mta.stores._segments import (
    FIRST,
    BadRecordError,
    Mark,
    Place,
    Segment,
    length_alone,
    segment_path,
    sync_folder,
)
from mta.stores.base import Store, Sync, checked_sync


class FileStore(Store):
    """Blocks in the files of a folder, without any further package.

    A batch is appended to the newest segment as one record with checksums; that log is all there
    is, so what is written ahead is never written again. When a segment is full, it is forced to the
    disk and the next one begins. Segments whose values are all gone are removed from the oldest on,
    which for a sliding window is all the tidying there is. If more than half of the bytes are dead
    (long-lived keys hold old segments), the living values of the oldest are appended again, so the
    files take at most twice the living bytes and four segments.

    After a crash the store has a whole number of batches, all that were flushed among them. What
    was torn behind the last flush is dropped; damage before it raises `DamageError` when the store
    is opened or the value is read.

    Costs: a write is one system call and a CRC-32, a read likewise; opening reads the tables of all
    batches, not the values (those written after the last flush excepted). Memory: some 200 bytes a
    block for the index, and a file descriptor for each segment.

    Parameters
    ----------
    path
        A folder; made if it is not there. Only one store at a time can have it open.
    sync
        When the disk is forced (fdatasync): at every "write", at "flush", or "never". With "never",
        flushed blocks survive kill −9 of the process, but not a crash of the machine.
    segment
        Bytes after which a new file is begun.

    Raises
    ------
    StoreError
        The folder is in use or can't be written.
    DamageError
        What was flushed is not there, or not whole.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with FileStore(folder.name) as store:
    ...     store.write({b"block 1": b"abc", b"block 2": b"def"})
    ...     store.flush()               # from here on both survive a crash
    ...     store.delete(b"block 1")
    >>> with FileStore(folder.name) as store:
    ...     print(list(store.keys()), store.get(b"block 2"))
    [b'block 2'] b'def'
    >>> folder.cleanup()
    """

    kind: ClassVar[str] = "files"
    local: ClassVar[bool] = True

    def __init__(
        self, path: str | os.PathLike[str], *, sync: Sync = "flush", segment: int = 1 << 26
    ) -> None:
        super().__init__(os.fspath(path))
        self._sync = checked_sync(sync)
        if segment < 1:
            raise SpecError(f"segment: a file has at least one byte, not {segment}")
        self._limit = segment
        self._folder = Path(path)
        self._writing = RLock()  # writers, flushes and tidying; readers need none
        self._broken: str | None = None
        self._index: dict[bytes, Place] = {}
        self._segments: list[Segment] = []
        with self._saying("open", ()):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self._folder)
            try:
                self._recover()
            except BaseException:
                os.close(self._lock)
                raise

    @property
    def _newest(self) -> Segment:
        return self._segments[-1]

    def _get(self, key: bytes) -> bytes | None:
        place = self._index.get(key)
        return None if place is None else self._value(key, place)

    def _value(self, key: bytes, place: Place) -> bytes:
        value = place.segment.read(place)
        if len(value) != place.length or checksum(key, value) != place.crc:
            raise DamageError(
                f"{self!r}: the value of {key!r} is damaged (the checksum does not fit; "
                f"{place.segment.path.name} from byte {place.offset:,})"
            )
        return value

    def _write(self, batch: dict[bytes, bytes | None]) -> None:
        with self._writing:
            self._refuse_broken()
            full = self._newest.size >= self._limit
            if full:
                self._begin_segment()
            self._append(batch)
            if self._sync == "write":
                self._make_durable()
            if full:
                self._tidy()

    def _append(self, batch: dict[bytes, bytes | None]) -> None:
        self._take(self._newest.append(batch))

    def _take(self, places: dict[bytes, Place | None]) -> None:
        for key, place in places.items():
            if place is None:
                old = self._index.pop(key, None)
            else:
                old = self._index.get(key)
                self._index[key] = place
                place.segment.live += length_alone(key, place)
            if old is not None:
                old.segment.live -= length_alone(key, old)

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        return [key for key in list(self._index) if key.startswith(prefix)]

    def _flush(self) -> None:
        with self._writing:
            self._refuse_broken()
            self._make_durable()
            self._tidy()

    def _make_durable(self) -> None:
        if self._sync != "never":
            try:
                self._newest.sync()
            except OSError as error:
                # The system may have dropped what it could not write, and says so only once.
                self._broken = f"the disk failed ({error}); open the store again"
                raise
        self._mark.set(self._newest.number, self._newest.size)

    def _begin_segment(self) -> None:
        self._make_durable()
        newest = self._newest
        self._segments.append(Segment.create(self._folder, newest.number + 1, newest.size))

    def _tidy(self) -> None:
        """Removes old segments; only called when all that makes them useless is durable, or is
        made so here.
        """
        while len(self._segments) > 1:
            oldest = self._segments[0]
            if oldest.live:
                if not self._mostly_dead():
                    return
                self._append_again(oldest)
            self._make_durable()
            self._mark.drop_before(oldest.number + 1)
            oldest.path.unlink()
            sync_folder(self._folder)
            del self._segments[0]

    def _mostly_dead(self) -> bool:
        # Without the headers of segments, so that once all the living are written again it is not.
        live = sum(segment.live for segment in self._segments)
        size = sum(segment.size - FIRST for segment in self._segments)
        return size > 2 * live + 4 * self._limit

    def _append_again(self, oldest: Segment) -> None:
        for key, place in list(self._index.items()):
            if place.segment is oldest:
                if self._newest.size >= self._limit:
                    self._begin_segment()
                self._append({key: self._value(key, place)})

    def _refuse_broken(self) -> None:
        if self._broken:
            raise StoreError(f"{self!r}: {self._broken}")

    def _close(self) -> None:
        self._index.clear()
        self._segments.clear()
        del self._mark  # the files are closed when nobody is at them any more
        os.close(self._lock)

    def close(self) -> None:
        """Flushes, also where the disk has failed before, and lets the folder go."""
        with self._writing:
            super().close()

    # Opening.

    def _recover(self) -> None:
        for unfinished in self._folder.glob("*.tmp"):
            unfinished.unlink()
        mark = self._folder / "durable"
        numbers = sorted(int(path.stem, 16) for path in self._folder.glob("*.blocks"))
        if not numbers and not mark.exists():
            Mark.create(mark)
        self._mark = self._whole_mark(mark)
        if not numbers and (self._mark.segment, self._mark.offset) == (1, 0):
            Segment.create(self._folder, 1, 0).close()
            numbers = [1]
        while numbers and numbers[0] < self._mark.first:  # it died while tidying
            segment_path(self._folder, numbers.pop(0)).unlink()
        self._refuse_missing(numbers)
        self._segments = [
            Segment.open(segment_path(self._folder, number), number) for number in numbers
        ]
        ends = [self._size_before(segment) for segment in self._segments[1:]]
        for segment, end in zip(self._segments, ends, strict=False):
            self._replay(segment, end)
        self._size_before(self._newest)
        marked = self._mark.segment == self._newest.number
        self._replay(self._newest, self._mark.offset if marked else FIRST)
        self._newest.cut()

    def _size_before(self, segment: Segment) -> int:
        try:
            return segment.size_before()
        except BadRecordError as error:
            raise self._damaged(segment.path, str(error)) from None

    def _whole_mark(self, path: Path) -> Mark:
        try:
            return Mark(path)
        except FileNotFoundError:
            raise self._damaged(path, "it is missing") from None
        except BadRecordError as error:
            raise self._damaged(path, str(error)) from None

    def _refuse_missing(self, numbers: list[int]) -> None:
        gaps = [a + 1 for a, b in pairwise([self._mark.first - 1, *numbers]) if b != a + 1]
        if not numbers or numbers[-1] < self._mark.segment:
            gaps.append(self._mark.segment)
        if gaps:
            raise self._damaged(segment_path(self._folder, gaps[0]), "it is missing")

    def _replay(self, segment: Segment, durable: int) -> None:
        """Takes the batches of a segment, up to the first that is torn.

        Raises
        ------
        DamageError
            That one lies before `durable`.
        """
        end = FIRST
        problem = "it is cut short"
        try:
            for record in segment.records():
                if record.end > durable:
                    self._check_values(record.places)
                self._take(record.places)
                end = record.end
        except BadRecordError as error:
            problem = str(error)
        if end < durable:
            raise self._damaged(segment.path, f"{problem}; {durable:,} bytes were flushed")
        segment.size = end

    def _check_values(self, places: dict[bytes, Place | None]) -> None:
        for key, place in places.items():
            if place is not None:
                try:
                    self._value(key, place)
                except DamageError:
                    raise BadRecordError(f"the value of {key!r} is torn") from None

    def _damaged(self, path: Path, what: str) -> DamageError:
        return DamageError(f"{self!r}: {path.name} is damaged: {what}")


def _locked(folder: Path) -> int:
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise StoreError(f"{folder} is open as a store already, here or elsewhere") from None
    return fd
