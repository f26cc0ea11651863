"""Repository: the rows of windows larger than memory. SlideM, and SSM for several windows.

A window asks for a row twice, when it comes and when it leaves, and in the same order. So nearly
all rows may be elsewhere, and which of them are needed next is known (SlideM, 2013, §3).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mta.block_pool import BlockPool
from mta.errors import DamageError, DataError, SpecError
from mta.row_blocks import Arrays, Layout, RowBlock, layout_of
from mta.snapshot import refusing_damage, seal, unseal
from mta.stores import Store, open_store

_WASTED = 16  # blocks that a newer header would free, beyond as many as are in use
_TAKEN_OFF = 1000  # blocks in one batch


class Rows(NamedTuple):
    """Neighbouring rows: views of a block, good until the repository is asked for more."""

    first: int  # the number of the first one, counted from the first row that ever came
    columns: Arrays
    valid: dict[str, NDArray[np.bool_]]  # of the columns in which there are nulls

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


class Stats(NamedTuple):
    """What a repository has done and holds, in blocks; see `Repository.stats`."""

    written: int
    read: int
    hits: int  # blocks that a window came to and that were in memory
    misses: int
    pooled: int  # in memory now
    stored: int  # in use on the store now
    rows_per_block: int
    block_bytes: int

    @property
    def requests(self) -> int:
        """Reads and writes: IOPS of formula 3.1, summed up; #IO of formula 4.1."""
        return self.written + self.read

    @property
    def hit_rate(self) -> float:
        """ρ of formulas 4.1 and 4.2: how often a window's next block was in memory."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 1.0


class Repository:
    """The rows of one or several windows over a stream, in a pool of few blocks; others on a store.

    Rows are numbered as they come. Every window ends with the newest row and has its own front; a
    row is held until the largest window lets go of it (SSM, §4). The block to leave a full pool is
    that which is needed last (§4.2): the most recently written one where there is one window. What
    is read back is the least recently written block on the store, as soon as there is room for it
    (one window, Procedure 2), or the block that a window comes to (several, Procedure 3). A block
    that is on the store already is not written again when it leaves the pool.

    Costs: with one window a block is written once and read once, 2 rows / rows_per_block requests
    (formula 3.1); with N windows formula 4.1. Memory: the pool.

    `flush` is the promise: what is inside then survives kill -9. Blocks are written before the
    header that names them, and stay until a newer header does not. Open again by the name: `back`
    says how many rows have been taken in, and those after it have to come again; rows that come
    twice are told by their number.

    Parameters
    ----------
    columns
        The type of every column, by name.
    store
        A `mta.stores.Store`, or a URL for `mta.stores.open_store`, closed with the repository.
    name
        Several repositories may share a store.
    windows
        How many windows there are.
    pool
        Blocks in memory: 2 at least, and one more than there are windows.
    block
        Bytes of a block.
    note
        Gives what is to be stored with every header, such as the aggregates that belong to these
        fronts. `noted` is that of the header from which the repository was opened.
    marks
        Columns of which only the null marks are kept.
    outer
        Where what names the blocks is part of something larger: it is called when a newer header is
        due, and writes `pending` with its own. Then there is no header here; what `pending` told
        before is given as `told`.
    told
        See there.

    Raises
    ------
    SpecError
        An argument makes no sense, or what is stored has another layout.
    SnapshotError
        What is stored under this name is something else, or damaged.

    Examples
    --------
    >>> import numpy as np
    >>> with Repository({"x": "float64"}, "memory:", block=256, pool=2) as rows:
    ...     rows.append({"x": np.arange(1000.0)})
    ...     left = sum(part.columns["x"].sum() for part in rows.expire(990))
    ...     len(rows), float(left), rows.stats().pooled
    (10, 489555.0, 1)
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        store: Store | str,
        name: str = "rows",
        *,
        windows: int = 1,
        pool: int = 2,
        block: int = 65536,
        note: Callable[[], bytes] | None = None,
        marks: Sequence[str] = (),
        outer: Callable[[], None] | None = None,
        told: Sequence[bytes] | None = None,
    ) -> None:
        if windows < 1:
            raise SpecError(f"windows: one at least, not {windows}")
        if pool < windows + 1:
            raise SpecError(
                f"pool: {windows} windows need {windows + 1} blocks at least, not {pool}"
            )
        if not name or "/" in name:
            raise SpecError(f"name: text without a slash is needed, not {name!r}")
        self.layout = layout_of(columns, block, marks)
        self.name = name
        self.pool_size = pool
        self.fronts: list[int] = [0] * windows
        self.back: int = 0
        self._pool = BlockPool()
        self._whole = 0  # the window's blocks before this one are in the pool
        self._gone = 0  # blocks before this one are off the store
        self._passed = 0
        self._note = note
        self.noted: bytes | None = None
        self._outer = outer
        self._promised: tuple[list[RowBlock], int] = [], 0
        self._written = self._read = self._hits = self._misses = 0
        self._owns = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else open_store(store)
        self._prefetch = getattr(self.store, "prefetch", None)
        if outer is None:
            self._open()
        elif told is not None:
            self._resume(*told)

    def __len__(self) -> int:
        return self.back - self.front

    @property
    def front(self) -> int:
        """The number of the oldest row that a window holds."""
        return min(self.fronts)

    def begin_at(self, row: int) -> None:
        """Let the first row, which is yet to come, be the first of the block that has this one."""
        self._gone = row // self.layout.rows
        self.back = self._gone * self.layout.rows
        self.fronts = [self.back] * len(self.fronts)

    @property
    def _spec(self) -> str:
        return f"{self.layout.describe()} {len(self.fronts)}"

    @property
    def is_least(self) -> bool:
        """The pool is as small as it may be."""
        return self.pool_size == len(self.fronts) + 1

    # ------------------------------------------------------------------------------ rows in

    def append(self, values: Arrays, valid: Mapping[str, NDArray[np.bool_]] | None = None) -> None:
        """Takes rows, given as an array for every column.

        Parameters
        ----------
        values
            Arrays of one length.
        valid
            False where a value is null; columns that are not named have none.

        Raises
        ------
        DataError
            A column is missing, or its array can't be read; nothing has been taken.
        StoreError
            A block could not be written. `back` says how many rows are inside; go on with the next.
        """
        self.append_checked(*self._checked(values, valid or {}))

    def append_checked(self, arrays: Arrays, masks: Mapping[str, NDArray[np.bool_]]) -> None:
        """As `append`, of arrays that are as they have to be."""
        rows = len(next(iter(arrays.values())))
        start = 0
        while start < rows:
            block = self._recent()
            step = min(block.room, rows - start)
            block.append(arrays, masks, start, start + step)
            self.back += step
            start += step

    def _checked(
        self, values: Arrays, valid: Mapping[str, NDArray[np.bool_]]
    ) -> tuple[Arrays, dict[str, NDArray[np.bool_]]]:
        arrays: Arrays = {}
        for name, dtype in self.layout.types.items():
            if name not in values:
                raise DataError(f"append: there is no column {name!r}")
            array = np.asarray(values[name])
            fits = array.dtype == dtype or np.can_cast(array.dtype, dtype)
            if array.ndim != 1 or not fits:
                raise DataError(
                    f"append: column {name!r} is an array of {dtype} of one dimension, "
                    f"not of {array.dtype} of {array.ndim}"
                )
            arrays[name] = array
        masks = {name: np.asarray(mask, np.bool_) for name, mask in valid.items()}
        if len({len(array) for array in (*arrays.values(), *masks.values())}) > 1:
            lengths = {name: len(array) for name, array in [*arrays.items(), *masks.items()]}
            raise DataError(f"append: the columns have different lengths: {lengths}")
        return arrays, masks

    def _recent(self) -> RowBlock:
        """The block that takes the next row (Procedure 1)."""
        number = self.back // self.layout.rows
        if number not in self._pool:
            self._make_room(number)
            self._pool.put(number, RowBlock(self.layout, number * self.layout.rows))
        return self._pool[number]

    # ----------------------------------------------------------------------------- rows out

    def expire(self, to: int, window: int = 0) -> Iterator[Rows]:
        """Moves the front of a window to row `to`; the rows that leave it, block by block.

        The front moves as the iteration goes on: rows that have been handed out have left when the
        next ones are asked for.

        Raises
        ------
        DataError
            `to` is before the front or beyond the rows.
        StoreError
            A block could not be read. Rows that have been handed out have left; ask again.
        """
        front = self.fronts[window]
        if not front <= to <= self.back:
            raise DataError(
                f"to: {to} is not between the front, {front}, and the back, {self.back}"
            )
        while self.fronts[window] < to:
            front = self.fronts[window]
            block = self._ancient(front // self.layout.rows)
            stop = min(block.first + self.layout.rows, to)
            yield self._view(block, front, stop)
            self._let_go(window, stop)

    def let_go(self, to: int, window: int = 0) -> None:
        """As `expire`, for those who have had the rows already: none is read.

        Raises
        ------
        DataError
            As `expire`.
        StoreError
            A block that is read ahead could not be. The front has moved.
        """
        if not self.fronts[window] <= to <= self.back:
            front = self.fronts[window]
            raise DataError(
                f"to: {to} is not between the front, {front}, and the back, {self.back}"
            )
        if to > self.fronts[window]:
            self._let_go(window, to)

    def _ancient(self, number: int) -> RowBlock:
        """The block in which a window begins; the window has come to it when it is not there."""
        if number not in self._pool:
            self._load(number)
        return self._pool[number]

    def _let_go(self, window: int, front: int) -> None:
        """A window has lost its rows before `front`."""
        before = self.fronts[window] // self.layout.rows
        self.fronts[window] = front
        number = front // self.layout.rows
        if number == before:
            return
        if front < self.back:
            self._hits += number in self._pool
            self._misses += number not in self._pool
        for gone in range(before, self.front // self.layout.rows):
            block = self._take(gone) if gone in self._pool else None
            if block is not None and not block.stored and self._gone == gone:
                self._gone += 1  # it was never on the store
        if len(self.fronts) == 1:
            self._read_back()
        else:
            self._read_ahead(number + 1)

    def _read_back(self) -> None:
        """While there is room: the least recently written block on the store (Procedure 2)."""
        number = max(self.front // self.layout.rows, self._whole)
        room = self.pool_size - (self._pool.unstored == 0)  # (a place is for rows that come)
        while len(self._pool) < room and number * self.layout.rows < self.back:
            if number not in self._pool:
                self._load(number)
            number += 1
            self._whole = number
        self._read_ahead(number)

    def _read_ahead(self, number: int) -> None:
        """Have the store read a block that will be needed before long."""
        is_stored = (number + 1) * self.layout.rows <= self.back and number not in self._pool
        if self._prefetch is not None and is_stored:
            self._prefetch([self._key(number)])

    # ------------------------------------------------------------------------------ the pool

    def _take(self, number: int) -> RowBlock:
        if self._whole > number >= self.front // self.layout.rows:
            self._whole = number
        return self._pool.take(number)

    def _make_room(self, wanted: int) -> None:
        newest = self.back // self.layout.rows  # if it is there, it still takes rows
        while len(self._pool) >= self.pool_size:
            fronts = self._front_blocks()
            # (Rows that come push out the newest, as they would without a window on its way.)
            passed = fronts[0] if wanted == newest else max(self._passed, fronts[0])
            self._put_out(self._pool.victim(fronts, passed, (wanted, newest)))

    def _front_blocks(self) -> list[int]:
        """The blocks in which windows begin, ascending."""
        return sorted({front // self.layout.rows for front in self.fronts})

    def thin_out(self, over: int) -> None:
        """Have so many bytes less of blocks in memory, as far as there are others than the one that
        takes rows; and from now on no more than are left, or than windows need.

        Raises
        ------
        StoreError
            One could not be written; it is still here.
        """
        newest = self.back // self.layout.rows
        fronts = self._front_blocks()
        while over > 0 and len(self._pool) > (newest in self._pool):
            self._put_out(self._pool.victim(fronts, fronts[0], (newest, newest)))
            over -= self.layout.block
        self.pool_size = max(len(self._pool), len(self.fronts) + 1)

    def _put_out(self, number: int) -> None:
        self._spill(number)
        self._take(number)

    def _spill(self, number: int) -> None:
        block = self._pool[number]
        if block.stored:
            return
        self.store.write({self._key(number): block.to_bytes()})
        self._pool.note_stored(block)
        self._written += 1
        gone = self.front // self.layout.rows - self._gone
        if gone > _WASTED and gone > _WASTED + self._stored_blocks():
            (self._outer or self._write_header)()

    def _load(self, number: int) -> None:
        self._make_room(number)  # first, so that a call that fails here has less left to do
        self._pool.put(number, self._stored(number))

    def _stored(self, number: int) -> RowBlock:
        first = number * self.layout.rows
        block = stored_block(self.store, self._key(number), self.layout, first)
        self._read += 1
        return block

    # -------------------------------------------------------------------------- random access

    def rows(self, start: int, stop: int) -> Iterator[Rows]:
        """Rows [start, stop) that are inside, block by block, wherever they are.

        The pool stays as it is. Cost: a read for each block that is not in it.

        Raises
        ------
        DataError
            They are not all inside.
        """
        return self._rows(start, stop, self._stored)

    def visit(self, start: int, stop: int) -> Iterator[Rows]:
        """The same for a window that comes to these rows: their blocks take places in the pool.

        Raises
        ------
        DataError
            They are not all inside.
        StoreError
            A block could not be read.
        """
        return self._rows(start, stop, self._ancient)

    def pass_by(self, row: int) -> None:
        """For a repository of one window that is on its way, and may yet be taken back: rows before
        this one are not needed unless it is. Blocks of theirs that the store has leave a full pool
        first."""
        self._passed = row // self.layout.rows

    def _rows(self, start: int, stop: int, read: Callable[[int], RowBlock]) -> Iterator[Rows]:
        if not self.front <= start <= stop <= self.back:
            raise DataError(f"rows: {start} to {stop} are not within {self.front} to {self.back}")
        while start < stop:
            number = start // self.layout.rows
            block = self._pool[number] if number in self._pool else read(number)
            end = min(block.first + self.layout.rows, stop)
            yield self._view(block, start, end)
            start = end

    def find(self, column: str, value: Any) -> int:
        """The first row inside whose value is `value` or more, of a column that never falls.

        Cost: O(log blocks) reads. If there is none: `back`.
        """
        if column not in self.layout.types:
            raise DataError(f"find: there is no column {column!r}")
        if self.front == self.back:
            return self.back
        low, high = self.front // self.layout.rows, -(-self.back // self.layout.rows)
        while low < high:
            middle = (low + high) // 2
            last = min((middle + 1) * self.layout.rows, self.back) - 1
            (row,) = self.rows(last, last + 1)
            if row.columns[column][0] < value:
                low = middle + 1
            else:
                high = middle
        start = max(low * self.layout.rows, self.front)
        stop = min((low + 1) * self.layout.rows, self.back)
        for part in self.rows(start, stop) if start < stop else ():
            return start + int(np.searchsorted(part.columns[column], value))
        return self.back

    def _view(self, block: RowBlock, start: int, stop: int) -> Rows:
        if stop - start == self.layout.rows:
            return Rows(start, block.columns, block.valid)
        within = slice(start - block.first, stop - block.first)
        columns = {name: column[within] for name, column in block.columns.items()}
        return Rows(start, columns, {name: mask[within] for name, mask in block.valid.items()})

    # -------------------------------------------------------------------------------- stats

    def _stored_blocks(self) -> int:
        """Blocks in use that the store has: all but those that are only in the pool."""
        used = -(-self.back // self.layout.rows) - self.front // self.layout.rows
        return max(used, 0) - self._pool.unstored

    def stats(self) -> Stats:
        """Counts since it was opened, and what it holds now."""
        return Stats(
            self._written,
            self._read,
            self._hits,
            self._misses,
            len(self._pool),
            self._stored_blocks(),
            self.layout.rows,
            self.layout.block,
        )

    @property
    def pooled_bytes(self) -> int:
        """Bytes of the blocks in memory."""
        return len(self._pool) * self.layout.block

    # ---------------------------------------------------------------------------- recovery

    def flush(self) -> None:
        """Returns when all that is inside is durable.

        Cost: the blocks of the pool that no store has yet, and a header with the newest one.

        Raises
        ------
        StoreError
            It is not; what was flushed before still is.
        """
        self._write_header()
        self.store.flush()

    def _write_header(self) -> None:
        """One batch: the blocks that are only in memory, the header, and off with what has gone."""
        parts, batch = self.pending()
        note = b"" if self._note is None else self._note()
        batch[self._header_key()] = seal("repository", self._spec, [*parts, note])
        self.store.write(batch)
        self.wrote()

    def pending(self) -> tuple[list[bytes], dict[bytes, bytes | None]]:
        """What a header has to hold, and the batch that goes with it; then say `wrote`."""
        newest = self._pool.get(self.back // self.layout.rows)
        pooled = {number: self._pool[number] for number in self._pool.numbers}
        full = {n: b for n, b in pooled.items() if b is not newest and not b.stored}
        first = self.front // self.layout.rows
        taken = range(self._gone, min(first, self._gone + _TAKEN_OFF))
        told = {"fronts": self.fronts, "back": self.back, "gone": self._gone}
        parts = [json.dumps(told).encode(), b"" if newest is None else newest.to_bytes()]
        batch: dict[bytes, bytes | None] = {self._key(n): b.to_bytes() for n, b in full.items()}
        batch.update(dict.fromkeys(self._key(n) for n in taken))
        self._promised = list(full.values()), taken.stop
        return parts, batch

    def wrote(self) -> None:
        """The batch that `pending` gave last is on the store."""
        full, gone = self._promised
        for block in full:
            self._pool.note_stored(block)
        self._written += len(full)
        self._gone = max(self._gone, gone)
        self._promised = [], 0

    def take_off(self) -> None:
        """Take blocks off the store that no window needs, for those who need no recovery.

        Raises
        ------
        StoreError
            They are still there.
        """
        first = self.front // self.layout.rows
        self.store.delete_many(self._key(n) for n in range(self._gone, first))
        self._gone = max(self._gone, first)

    def all_keys(self) -> list[bytes]:
        """The keys of all blocks that the store may have."""
        return [self._key(n) for n in range(self._gone, -(-self.back // self.layout.rows))]

    def _open(self) -> None:
        data = self.store.get(self._header_key())
        if data is None:
            return
        *parts, self.noted = unseal("repository", self._spec, data)
        self._resume(*parts)

    def _resume(self, told: bytes, newest: bytes) -> None:
        with refusing_damage():
            known = json.loads(told)
            self.fronts, self.back, self._gone = known["fronts"], known["back"], known["gone"]
        number = self.back // self.layout.rows
        if newest:
            first = number * self.layout.rows
            what = f"{self.store!r}: {self._header_key()!r}"
            block = RowBlock.from_bytes(self.layout, first, newest, what)
            block.stored = False
            self._pool.put(number, block)

    def close(self) -> None:
        """Flushes; a store that was given as a URL is closed."""
        self.flush()
        if self._owns:
            self.store.close()

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _key(self, number: int) -> bytes:
        return f"{self.name}/{number:016x}".encode()

    def _header_key(self) -> bytes:
        return f"{self.name}/header".encode()


def stored_block(store: Store, key: bytes, layout: Layout, first: int) -> RowBlock:
    """The block of rows from `first` on that a store has under this key.

    Raises
    ------
    StoreError
        It could not be read; DamageError: it is missing, damaged, or another one.
    """
    data, what = store.get(key), f"{store!r}: {key!r}"
    if data is None:
        raise DamageError(f"{what}: the block is missing")
    return RowBlock.from_bytes(layout, first, data, what)
