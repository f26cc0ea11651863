"""Blocks in RocksDB: sorted tables, and what is not in one yet in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from mta.errors import SpecError
from mta.stores.base import Store, Sync, checked_sync, package

_LEAST_MEMORY = 1 << 20
_TABLES = 8  # of the newest that are there side by side before they are made one


class RocksStore(Store):
    """Blocks in a RocksDB database (``pip install 'mta-windows[rocksdict]'``).

    Each batch is one `WriteBatch`. It goes to a buffer in memory, from there to a table when the
    buffer is full or at `flush`, and in the background into larger tables without what has been
    deleted meanwhile. There is no write-ahead log, which would write each block a second time,
    unless every write is to be on the disk. Buffers become tables in their order and whole, so
    what is there after a crash is what was there after some batch. Tables have checksums (XXH3),
    which RocksDB checks wherever it reads. Of a log, where there is one, recovery takes all but a
    record that was torn at its end; damage before that is refused.

    Costs: a write is two copies in memory. `flush` writes a table, which takes some ms however
    small it is, and eight tables are made one later on: flush after thousands of rows rather than
    after each. Reads of what has left memory are one or two reads of files.

    Parameters
    ----------
    path
        A folder; made if it is not there. Only one process at a time can have it open.
    sync
        With "write", every batch goes to a log as well, and is on the disk when it returns. With
        "flush" and "never" blocks are on the disk at `flush`: RocksDB forces each table that it
        writes, so that the two are the same.
    memory
        Bytes that RocksDB may use, about: three quarters for what is not in tables yet (two
        buffers).

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
    local: ClassVar[bool] = True

    def __init__(
        self, path: str | os.PathLike[str], *, sync: Sync = "flush", memory: int = 32 << 20
    ) -> None:
        self._rocks = package("rocksdict", "RocksStore")
        super().__init__(os.fspath(path))
        checked_sync(sync)
        if memory < _LEAST_MEMORY:
            raise SpecError(f"memory: RocksDB needs {_LEAST_MEMORY:,} bytes, not {memory:,}")
        self._how = self._rocks.WriteOptions()
        self._how.sync = sync == "write"
        self._how.disable_wal = self.quick = sync != "write"
        with self._saying("open", ()):
            os.makedirs(path, exist_ok=True)
            self._database = self._rocks.Rdict(os.fspath(path), self._options(memory))
            reading = self._rocks.ReadOptions()
            reading.fill_cache(False)  # a window reads a block once
            self._database.set_read_options(reading)

    def _options(self, memory: int) -> Any:
        rocks = self._rocks
        tables = rocks.BlockBasedOptions()
        tables.set_block_cache(rocks.Cache(memory // 16))
        # CRC-32C, the default, takes 0.8 ns a byte where RocksDB is compiled for any processor. It
        # is what logs and files of large values (blobs) have in any case, so these are not used.
        tables.set_checksum_type(rocks.ChecksumType.xxh3())
        tables.set_bloom_filter(10, False)  # or a table is read to see that a key is not in it
        options = rocks.Options(raw_mode=True)  # keys and values are bytes, as they are
        options.set_block_based_table_factory(tables)
        options.set_write_buffer_size(memory * 3 // 8)
        options.set_max_write_buffer_number(2)
        # Most of what a window wrote is dead by then, and is dropped without being written again.
        options.set_level_zero_file_num_compaction_trigger(_TABLES)
        options.set_level_zero_slowdown_writes_trigger(3 * _TABLES)
        options.set_level_zero_stop_writes_trigger(5 * _TABLES)
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
        if self._how.sync:
            self._database.flush_wal(True)
        else:
            self._database.flush(True)

    def _close(self) -> None:
        self._database.close()
