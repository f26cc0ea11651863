"""Blocks in RocksDB: a write-ahead log, sorted tables, values in files of their own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from mta.errors import SpecError
from mta.stores.base import Store, Sync, checked_sync, package

_LEAST_MEMORY = 1 << 20


class RocksStore(Store):
    """Blocks in a RocksDB database (``pip install 'mta-windows[rocksdict]'``).

    Each batch is one `WriteBatch` in the write-ahead log. Values of 4 KiB and more go to blob
    files, so that merging tables moves keys only. RocksDB checks its own checksums wherever it
    reads. Recovery takes the whole log, a record that was torn at its end excepted; damage before
    that is refused.

    Costs: a write goes to the log and to memory, a table is written in the background by RocksDB's
    own threads. Reads of what has left memory are one or two reads of files.

    Parameters
    ----------
    path
        A folder; made if it is not there. Only one process at a time can have it open.
    sync
        When the log is forced to the disk: at every "write", at "flush", or "never". With "never",
        flushed blocks survive kill −9 of the process, but not a crash of the machine.
    memory
        Bytes that RocksDB may use, about: half for what is not in tables yet (two buffers), a
        quarter for what was read.

    Raises
    ------
    ImportError
        The package ``rocksdict`` is not installed.
    StoreError
        The folder can't be opened, or is damaged.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with RocksStore(folder.name) as store:
    ...     store.put(b"block 1", b"abc")
    >>> with RocksStore(folder.name) as store:
    ...     store.get(b"block 1")
    b'abc'
    >>> folder.cleanup()
    """

    kind: ClassVar[str] = "rocksdb"

    def __init__(
        self, path: str | os.PathLike[str], *, sync: Sync = "flush", memory: int = 32 << 20
    ) -> None:
        self._rocks = package("rocksdict", "RocksStore")
        super().__init__(os.fspath(path))
        self._sync = checked_sync(sync)
        if memory < _LEAST_MEMORY:
            raise SpecError(f"memory: RocksDB needs {_LEAST_MEMORY:,} bytes, not {memory:,}")
        self._how = self._rocks.WriteOptions()
        self._how.sync = sync == "write"
        with self._saying("open", ()):
            os.makedirs(path, exist_ok=True)
            self._database = self._rocks.Rdict(os.fspath(path), self._options(memory))

    def _options(self, memory: int) -> Any:
        rocks = self._rocks
        tables = rocks.BlockBasedOptions()
        tables.set_block_cache(rocks.Cache(memory // 4))
        options = rocks.Options(raw_mode=True)  # keys and values are bytes, as they are
        options.set_block_based_table_factory(tables)
        options.set_write_buffer_size(memory // 4)
        options.set_max_write_buffer_number(2)
        options.set_enable_blob_files(True)
        options.set_min_blob_size(4096)
        options.set_enable_blob_gc(True)
        options.set_compression_type(rocks.DBCompressionType.none())  # doubles don't get smaller
        options.set_keep_log_file_num(2)
        options.set_wal_recovery_mode(rocks.DBRecoveryMode.tolerate_corrupted_tail_records())
        return options

    def _get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._database.get(key)
        return value

    def _get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = self._database.get(list(keys))
        return values

    def _write(self, batch: dict[bytes, bytes | None]) -> None:
        together = self._rocks.WriteBatch(raw_mode=True)
        for key, value in batch.items():
            if value is None:
                together.delete(key)
            else:
                together.put(key, value)
        self._database.write(together, self._how)

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        found = []
        for key in self._database.keys(from_key=prefix or None):
            if not key.startswith(prefix):
                break
            found.append(key)
        return found

    def _flush(self) -> None:
        if self._sync != "never":
            self._database.flush_wal(True)

    def _close(self) -> None:
        self._database.close()
