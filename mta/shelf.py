"""What windows by number keep on a store: records in order of panes, first in, first out; and what
is to be put back when they leave, last in, first out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._vector import Vector
from mta.engine import Ints
from mta.repository import Repository, Rows, stored_block
from mta.row_blocks import Arrays, Layout, RowBlock
from mta.stores import Store

AT = "at"  # the column that says which pane a record is of


class Shelf(Repository):
    """Records in order of panes, of which the header of all else that belongs to it tells.

    keeps : whether records that have left the window stay, until `keep_from` lets go of them
    told : what `save` gave, to go on from there

    `overdue`: a header would free many blocks of the store.
    """

    def __init__(
        self, columns: Mapping[str, Any], store: Store, name: str, *, pool: int, block: int,
        keeps: bool = False, told: Sequence[bytes] | None = None,
    ) -> None:  # fmt: skip
        self.overdue = False
        # By block, of those that are full: its last pane. So none is read to be found or to go.
        self.ends = Vector() if keeps else None
        super().__init__(
            columns, store, name, windows=1 + keeps, pool=pool, block=block, outer=self._note_due,
            told=None if told is None else told[:2],
        )  # fmt: skip
        if self.ends is not None and told is not None:
            self.ends = Vector(True, self.front // self.layout.rows)
            self.ends.extend(np.frombuffer(told[2], np.int64))

    def _note_due(self) -> None:
        self.overdue = True

    def save(self) -> list[bytes]:
        """Write the blocks that are only in memory, and take off those that are no more; what a
        header has to hold."""
        parts, batch = self.pending()
        self.store.write(batch)
        self.wrote()
        self.overdue = False
        return parts if self.ends is None else [*parts, self.ends.view().tobytes()]

    @property
    def inside(self) -> int:
        """The number of the oldest record in the window."""
        return self.fronts[0]

    def append(
        self, values: Arrays, valid: Mapping[str, NDArray[np.bool_]] | None = None
    ) -> None:  # fmt: skip
        """Takes records, as a repository does."""
        start = self.back
        try:
            super().append(values, valid)
        finally:
            self._note_ends(values, start)

    def _note_ends(self, values: Arrays, start: int) -> None:
        """Of the blocks that records from this number on have filled."""
        if self.ends is not None:
            full = np.arange(self.ends.first + len(self.ends), self.back // self.layout.rows)
            self.ends.extend(values[AT][(full + 1) * self.layout.rows - 1 - start])

    def first(self) -> int | None:
        """The pane of the oldest record in the window; None: there is none."""
        return None if self.inside == self.back else int(self._front_rows().columns[AT][0])

    def expire_before(self, pane: int) -> Iterator[Rows]:
        """The records of earlier panes, which leave as the iteration goes on; as `expire`."""
        while self.inside < self.back:
            leaving = int(np.searchsorted(self._front_rows().columns[AT], pane))
            if not leaving:
                return
            yield from self.expire(self.inside + leaving)

    def _front_rows(self) -> Rows:
        block = self._ancient(self.inside // self.layout.rows)
        stop = min(block.first + self.layout.rows, self.back)
        return self._view(block, self.inside, stop)

    def rows_back(self) -> Iterator[Rows]:
        """All records in the window, block by block, from the newest block to the oldest."""
        stop = self.back
        while stop > self.inside:
            start = max((stop - 1) // self.layout.rows * self.layout.rows, self.inside)
            yield from self.rows(start, stop)
            stop = start

    # ------------------------------------------------------- what has left and may be asked for

    def keep_from(self, pane: int) -> None:
        """Blocks of earlier panes that the window has lost are needed no more.

        Raises
        ------
        StoreError
            A block that is read ahead could not be. They have gone.
        """
        assert self.ends is not None
        row = self._first_block_of(pane) * self.layout.rows
        self.let_go(max(self.front, min(row, self.inside)), 1)
        self.ends.drop_to(self.front // self.layout.rows)

    def between(self, low: int, high: int) -> Iterator[Rows]:
        """The records of the panes from low to high, wherever they are, and others of their blocks.

        Raises
        ------
        StoreError
            A block could not be read.
        """
        start = max(self.front, self._first_block_of(low) * self.layout.rows)
        for part in self.rows(start, self.back):
            if part.columns[AT][0] >= high:
                return
            yield part

    def _first_block_of(self, pane: int) -> int:
        """The first block that is kept and may have a record of this pane, or of a later one."""
        assert self.ends is not None
        return self.ends.first + int(np.searchsorted(self.ends.view(), pane))

    def took_over(self, other: Shelf) -> None:
        """Go on with the counts of another one, whose place this takes."""
        self._written += other._written
        self._read += other._read
        self._hits += other._hits
        self._misses += other._misses


class Stack:
    """Rows by columns, of which those that came last leave first; all but one block on a store.

    It is filled once, sealed, and then only gets less: all that has to be remembered of it are its
    name and `count`.
    """

    def __init__(self, layout: Layout, store: Store, name: str, count: int = 0) -> None:
        self.layout, self.store, self.name, self.count = layout, store, name, count
        self.written = self.read = 0
        self.blocks = -(-count // layout.rows)  # of them on the store
        self._top: RowBlock | None = None

    def push(self, columns: Arrays) -> None:
        """Take rows, the last of which is on top."""
        start, rows = 0, len(next(iter(columns.values())))
        while start < rows:
            if self._top is None:
                self._top = RowBlock(self.layout, self.count)
            step = min(self._top.room, rows - start)
            self._top.append(columns, {}, start, start + step)
            self.count += step
            start += step
            if not self._top.room:
                self.seal()
                self._top = None

    def seal(self) -> None:
        """Nothing more will come: a store gets the last block, too."""
        if self._top is None or self._top.stored:
            return
        number = self._top.first // self.layout.rows
        self.store.put(self._key(number), self._top.to_bytes())
        self._top.stored = True
        self.written += 1
        self.blocks = number + 1

    def top(self) -> Arrays:
        """The rows of the topmost block, the top one last."""
        number = (self.count - 1) // self.layout.rows
        if self._top is None or self._top.first != number * self.layout.rows:
            self._top = self._stored(number)
        inside = self.count - self._top.first
        return {name: column[:inside] for name, column in self._top.columns.items()}

    def _stored(self, number: int) -> RowBlock:
        self.read += 1
        first = number * self.layout.rows
        return stored_block(self.store, self._key(number), self.layout, first)

    def drop(self, rows: int) -> None:
        """So many leave from the top, of those that `top` has shown."""
        self.count -= rows

    def free(self) -> None:
        """Have the store forget the blocks that are used up."""
        used = -(-self.count // self.layout.rows)
        self.store.delete_many(self._key(number) for number in range(used, self.blocks))
        self.blocks = min(used, self.blocks)

    def _key(self, number: int) -> bytes:
        return f"{self.name}/{number:016x}".encode()


class Renames:
    """Codes of groups that were given anew, for records that still have old ones.

    Memory: 4 bytes for each group that was known at a time from which there are still records.
    """

    def __init__(self) -> None:
        self.since: list[int] = [0]  # from this record on
        self.codes: list[NDArray[np.int32] | None] = [None]  # what a code is now; None: the same

    def now(self, first: int, codes: Ints) -> Ints:
        """The codes of records from `first` on, as they are now."""
        if len(self.since) == 1 and self.codes[0] is None:
            return codes
        made = codes.copy()
        edges = np.clip(np.array([*self.since[1:], first + len(codes)]) - first, 0, len(codes))
        start = 0
        for stop, now in zip(edges.tolist(), self.codes, strict=True):
            if now is not None and stop > start:
                made[start:stop] = now[codes[start:stop]]
            start = max(start, stop)
        return made

    def rename(self, new: NDArray[np.int32], at: int) -> None:
        """Code i is new[i] from now on; the next record is number `at`."""
        self.codes = [new if now is None else _then(now, new) for now in self.codes]
        self.since.append(at)
        self.codes.append(None)

    def forget(self, before: int) -> None:
        """Records before this one are no more."""
        while len(self.since) > 1 and self.since[1] <= before:
            del self.since[0], self.codes[0]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(now.nbytes for now in self.codes if now is not None)

    def to_parts(self) -> list[bytes]:
        """Everything, as bytes; what `fill` takes."""
        told = [b"" if now is None else now.tobytes() for now in self.codes]
        return [np.array(self.since, np.int64).tobytes(), *told]

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave."""
        self.since = np.frombuffer(parts[0], np.int64).tolist()
        self.codes = [np.frombuffer(part, np.int32) if part else None for part in parts[1:]]
        if len(self.since) != len(self.codes) or not self.since:
            raise ValueError("codes and records do not fit")


def _then(now: NDArray[np.int32], new: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.where(now >= 0, new[now], np.int32(-1)).astype(np.int32)
