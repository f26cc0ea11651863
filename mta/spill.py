"""Spill: where a stream keeps the rows that do not fit in its memory, and how they are found."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from itertools import chain
from typing import NamedTuple

import numpy as np

from mta._frames_bytes import warm_up
from mta.arguments import plain_number
from mta.budget import Budget
from mta.cold_records import ColdRecords
from mta.count_log import LEAST_MEMORY, Logs
from mta.errors import SpecError
from mta.paged import OBJECTS
from mta.paged_kernels import count_logs
from mta.paged_rows import MakeRepository, Told
from mta.plan import Plan
from mta.pool_room import BLOCKS_OF_ROWS, PoolRoom, rows_for_a_track
from mta.repository import Repository
from mta.row_blocks import Layout
from mta.sizes import parse_bytes
from mta.spec_arguments import check_stream_name, check_whole
from mta.stores import Store, open_store
from mta.stores.background import BackgroundStore
from mta.stores.files import FileStore

LARGEST_BLOCK = 17 << 15  # half a MB of rows, and their marks
LEAST_BLOCK = 2048
# Of each key: the rows that are filling a block, the block that was filled last, and the two in
# which its window begins.
BLOCKS_OF_A_KEY = 4
SLOW, SLOW_COUNTS = 2, 8  # times as long as in memory a push to a key takes, about; with counts
COUNTED = 64  # bytes for a value that is counted in memory, and as many again as there is room for
_BEHIND = 4  # blocks that wait to be written; more of them, where they are less than
_SHARE_BEHIND = 8  # this share of the memory
# Bytes of records that are needed no more before a header is written for them, and beside them as
# many as there are in memory, which is what a header costs.
_GONE = 1 << 20


class SpillStats(NamedTuple):
    """What a stream has written and read since it was opened, and what it holds."""

    written: int  # blocks
    read: int
    hits: int  # blocks that a window came to and that were in memory
    misses: int
    expected: float  # requests by formula 3.1, for the rows that have come to the store and left it
    stored: int  # blocks in use on the store
    # Bytes in this process, about: of rows, partial aggregates, and of the objects that hold them;
    memory: int
    least: int  # of these, what keys need in any case: more than memory=, where they are too many
    repositories: int
    counts_written: int  # blocks of what counts values, for quantiles and the like
    counts_read: int
    cold: int  # keys with few rows that have had none for long: these are in records on the store
    records_written: int
    records_read: int

    @property
    def requests(self) -> int:
        """Reads and writes."""
        return self.written + self.read


class Spill:
    """A store for the rows of one stream, whose keys have a repository each.

    memory : for the rows of all keys, bytes or text
    store : a `mta.stores.Store`, or a URL; None: files in a temporary folder, gone with the stream
    name : of the stream; several may share a store
    block : bytes of a block; None: what suits the memory
    logs : how many `CountLog` a key has; three quarters of the memory are for them
    page_bytes : that kernels of a key hold for every row of a page
    """

    def __init__(
        self, memory: int | str, store: Store | str | None, name: str, block: int | None,
        logs: int = 0, page_bytes: int = 0,
    ) -> None:  # fmt: skip
        self._page_bytes = page_bytes
        self.memory, self._log_memory = parse_bytes(memory, "memory"), 0
        least = BLOCKS_OF_A_KEY * LEAST_BLOCK * (4 if logs else 1)
        if self.memory < least:
            raise SpecError(f"memory: {least} bytes at least, not {memory!r}")
        self.budget = Budget(self.memory)
        if logs:
            self._log_memory = 3 * self.memory // 4 // logs
            self.memory //= 4  # (a pool beyond a few blocks saves nothing)
        check_stream_name(name, "/")
        block = plain_number(block)
        check_whole(block, "block", 1)
        self.name, self.block = name, block
        self.lasts = store is not None  # the rows outlive this process
        self.owns = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else self._open(store)
        self.is_open = True
        if self.lasts:
            warm_up()  # else the first header would hold up a push for it
        self.due = False  # a newer header would free many blocks
        self.live: list[Repository] = []
        self.logs: list[Logs] = []
        self._opened: dict[Repository, int] = {}  # rows that had come and left by then
        self._past_counts = np.zeros(2, np.int64)  # and of logs that are gone
        self._past = [0.0] * 5  # what repositories that are gone had counted
        self._gone: list[bytes] = []  # keys that are to go with the next header
        self._gone_bytes = 0  # of those of them that are records

    def _open(self, url: str | None) -> Store:
        if url is not None:
            return open_store(url, buffer=_BEHIND, room=self.memory // _SHARE_BEHIND)
        folder = tempfile.mkdtemp(prefix="mta-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        room = self.memory // _SHARE_BEHIND
        return BackgroundStore(FileStore(folder, sync="never"), buffer=_BEHIND, room=room)

    # ------------------------------------------------------------------------ repositories

    def maker(
        self, serial: int, keys: int | None, windows: int = 1, kept: range = range(0)
    ) -> MakeRepository:
        """What makes the repository of a key.

        keys : how many have one by now; None: there is one, and no other
        windows : over its rows
        kept : the rows that it has from the start
        """

        def make(columns: dict[str, str], marks: list[str], told: Told | None) -> Repository:
            columns_of = Layout(columns, LARGEST_BLOCK, marks)
            block, pool = self._sizes(keys, windows, columns_of, len(kept) // BLOCKS_OF_ROWS)
            made = Repository(
                columns, self.store, f"{self.name}.{serial}", windows=windows, pool=pool,
                marks=marks, block=block if told is None else told.block, outer=self._note_due,
                told=None if told is None else told.parts,
            )  # fmt: skip
            if kept:
                made.begin_at(kept.start)
            self.live.append(made)
            self._opened[made] = made.back + sum(made.fronts)
            return made

        return make

    def _sizes(self, keys: int | None, windows: int, columns: Layout, most: int) -> tuple[int, int]:
        """Bytes of a block, and how many a repository may have in memory.

        columns : as they are to be in blocks
        most : rows of a block, where a least one has less; 0: any
        """
        # Of each further window: the rows that fill a block, and those with which it begins.
        blocks = BLOCKS_OF_A_KEY + (2 * windows if windows > 1 else 0)
        waiting = self.memory // _SHARE_BEHIND if self.owns else 0
        mine = (self.memory - waiting) // (keys or 1) - windows * OBJECTS
        row = blocks * columns.row_bytes + self._page_bytes
        share = int(mine * columns.row_bytes / row)
        largest = min(LARGEST_BLOCK, columns.bytes_of(most)) if most else LARGEST_BLOCK
        block = self.block or max(LEAST_BLOCK, min(largest, share))
        rows = Layout(columns.types, block, columns.marked[len(columns.types) :]).rows
        # Blocks of 2^n rows are the pages of kernels, which read one for each.
        rows = 1 << (rows.bit_length() - 1)
        block = columns.bytes_of(rows)
        tails = windows + 1 if windows > 1 else 1
        # Where memory is short for the least blocks, none is read before a window comes to it.
        least = windows + 1 if share < LEAST_BLOCK else blocks - tails
        return block, max(least, (mine - rows * self._page_bytes) // block - tails)

    def _note_due(self) -> None:
        self.due = True

    def leave(self, repository: Repository) -> None:
        """A repository is needed no more."""
        self._gone += repository.all_keys()
        self._past = [a + b for a, b in zip(self._past, self._counted(repository), strict=True)]
        self.live.remove(repository)
        del self._opened[repository]

    def room_of(self, plan: Plan) -> PoolRoom | None:
        """What a pool of keys may hold; None: the sketches that they take have no place there."""
        if plan.sketch_feeds:
            return None
        logs = count_logs(plan)
        track = OBJECTS + 2 * LEAST_BLOCK + logs * LEAST_MEMORY
        fast = rows_for_a_track(plan) * (SLOW_COUNTS if logs else SLOW)
        records = ColdRecords(self.store, f"{self.name}.cold", self._leave_records)
        return PoolRoom(self.budget, fast, track, records, logs * COUNTED)

    def _leave_records(self, keys: list[bytes], size: int) -> None:
        self._gone += keys
        self._gone_bytes += size
        if self._gone_bytes > _GONE + self.lasts * (self.budget.memory - self.budget.room):
            self._note_due()

    def logs_of(self, serial: int, keys: int | None, window: int = 0) -> Logs:
        """Those of a key and a window; arguments as those of `maker`."""
        name, memory = f"{self.name}.{serial}.{window}", self._log_memory // (keys or 1)
        made = Logs(self.store, name, memory, self._note_due, self._leave_logs)
        self.logs.append(made)
        return made

    def _leave_logs(self, logs: Logs) -> None:
        for log in logs:
            self._gone += log.all_keys()
            self._past_counts += log.written, log.read_blocks
        self.logs.remove(logs)

    # ----------------------------------------------------------------------------- the header

    def read_header(self) -> bytes | None:
        """What `write_header` wrote last; None: nothing."""
        return self.store.get(self._header_key())

    def write_header(self, header: bytes, batch: dict[bytes, bytes | None]) -> None:
        """Write a header, and the blocks that it names, as one batch.

        Raises
        ------
        StoreError
            They could not be written; the header before is still there.
        """
        gone = dict.fromkeys(self._gone)
        self.store.write({**batch, **gone, self._header_key(): header})
        self._gone, self._gone_bytes, self.due = [], 0, False

    def take_off(self) -> None:
        """Take blocks off the store that no window needs, where no header names them.

        Raises
        ------
        StoreError
            They are still there.
        """
        for repository in self.live:
            repository.take_off()
        for log in chain.from_iterable(self.logs):
            log.forget()
        self.store.delete_many(self._gone)
        self._gone, self._gone_bytes, self.due = [], 0, False

    def close(self) -> None:
        """Close the store, if it is not the caller's."""
        self.is_open = False
        if self.owns:
            self.store.close()

    def remove(self) -> None:
        """Take all that is here off the store, and close it."""
        self.store.delete_many(self.store.keys(f"{self.name}.".encode()))
        self.close()

    def _header_key(self) -> bytes:
        return f"{self.name}/header".encode()

    # --------------------------------------------------------------------------------- stats

    def _counted(self, repository: Repository) -> list[float]:
        passed = repository.back + sum(repository.fronts) - self._opened[repository]
        return [*repository.stats()[:4], passed / repository.layout.rows]

    def stats(self, memory: int, least: int, cold: int, records: list[ColdRecords]) -> SpillStats:
        """Counts since it was opened.

        memory, least : bytes that tracks hold, and that they can't give back
        cold : keys in these records
        """
        counted = [self._past, *map(self._counted, self.live)]
        *whole, expected = (sum(column) for column in zip(*counted, strict=True))
        stored = sum(repository.stats().stored for repository in self.live)
        written, read, hits, misses = map(int, whole)
        counts = self._past_counts.copy()
        for log in chain.from_iterable(self.logs):
            counts += log.written, log.read_blocks
        return SpillStats(
            written,
            read,
            hits,
            misses,
            expected,
            stored,
            memory,
            least,
            len(self.live),
            int(counts[0]),
            int(counts[1]),
            cold,
            sum(some.written for some in records),
            sum(some.read for some in records),
        )
