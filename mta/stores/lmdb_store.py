"""Blocks in LMDB: one memory-mapped B+ tree, copy-on-write, readable by many at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from mta.errors import StoreError
from mta.stores._checksum import with_checksum, without_checksum
from mta.stores.base import Store, Sync, checked_sync, package


class LmdbStore(Store):
    """Blocks in an LMDB environment (``pip install 'mta-windows[lmdb]'``).

    Each batch is one transaction. LMDB has no log: it writes pages that no finished transaction
    uses, then the root. So the file is whole at any moment for a process that dies, and needs no
    recovery. Its pages have no checksums, hence each value is stored with a CRC-32.

    Costs: a read is one descent of the tree in mapped memory, without a system call. Pages that are
    read count as the process's resident memory until the system wants them back. The file never
    shrinks; freed pages are used again. A block of 64 KiB takes 17 pages of 4 KiB.

    Parameters
    ----------
    path
        A folder; made if it is not there. Several processes may have it open, one store in each.
    sync
        With "write", every batch is on the disk when it returns. With "flush", so is its data, but
        the new root only at `flush`: a crash of the machine may take back the last batch before it.
        (LMDB can't defer the data without risking the whole file.) With "never" the system writes
        when it likes: by far the fastest, safe from kill −9, but a crash of the machine may leave a
        file that is damaged beyond the last flush.
    map_size
        The largest size of the file, in bytes. Only address space is taken for it, so it may be
        far more than the disk has. A full map raises `StoreError`, and nothing is lost.

    Raises
    ------
    ImportError
        The package ``lmdb`` is not installed.
    StoreError
        The folder can't be opened.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with LmdbStore(folder.name) as store:
    ...     store.put(b"block 1", b"abc")
    >>> with LmdbStore(folder.name) as store:
    ...     store.get(b"block 1")
    b'abc'
    >>> folder.cleanup()
    """

    kind: ClassVar[str] = "lmdb"
    local: ClassVar[bool] = True

    def __init__(
        self, path: str | os.PathLike[str], *, sync: Sync = "flush", map_size: int = 1 << 40
    ) -> None:
        lmdb = package("lmdb", "LmdbStore")
        super().__init__(os.fspath(path))
        self._sync = checked_sync(sync)
        self._full = lmdb.MapFullError
        with self._saying("open", ()):
            Path(path).mkdir(parents=True, exist_ok=True)
            self._environment = lmdb.open(
                os.fspath(path),
                map_size=map_size,
                sync=sync != "never",
                metasync=sync == "write",
                meminit=False,  # blocks are written whole
                readahead=False,  # a block is read whole, and the next one lies elsewhere
            )
            # Slots of readers that were killed would keep their pages from being used again.
            self._environment.reader_check()

    def _get(self, key: bytes) -> bytes | None:
        return self._get_many((key,))[0]

    def _get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._environment.begin(buffers=True) as transaction:
            return [without_checksum(repr(self), key, transaction.get(key)) for key in keys]

    def _write(self, batch: dict[bytes, bytes | None]) -> None:
        try:
            with self._environment.begin(write=True) as transaction:
                for key, value in batch.items():
                    if value is None:
                        transaction.delete(key)
                    else:
                        transaction.put(key, with_checksum(key, value))
        except self._full as error:
            size = self._environment.info()["map_size"]
            raise StoreError(
                f"{self!r}: write {next(iter(batch))!r}: {error}; open it again with a "
                f"map_size above {size:,}"
            ) from error

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        found = []
        with self._environment.begin() as transaction, transaction.cursor() as cursor:
            if cursor.set_range(prefix) if prefix else cursor.first():
                for key in cursor.iternext(values=False):
                    if not key.startswith(prefix):
                        break
                    found.append(key)
        return found

    def _flush(self) -> None:
        if self._sync != "never":
            self._environment.sync(True)

    def _close(self) -> None:
        self._environment.close()
