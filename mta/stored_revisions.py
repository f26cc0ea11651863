"""Windows by number on a store that late rows revise: what is noted for it, and their partials.

A row revises windows that all hold its pane. So none of them is made of the one before: what is
before the pane adds up from there back, what is after it from there on, and each window is one of
the first and one of the second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mta._buckets import Extents
from mta._panes import Panes
from mta._partials import Partials
from mta.engine import Ints
from mta.pane_records import PaneRecords, RowRecords
from mta.push import EVER, NEVER
from mta.row_blocks import Arrays
from mta.rows_behind import joined, taken
from mta.rows_inside import RowsInside
from mta.shelf import AT, Renames, Shelf
from mta.stored_answers import Answered, StoredAnswers
from mta.stored_folds import Folds, Parts
from mta.stored_place import Place


class LastPanes:
    """Of every group: the last pane of which it has had a row, so which groups may be forgotten."""

    def __init__(self) -> None:
        self.panes = np.zeros(0, np.int64)
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def note(self, codes: Ints, panes: Ints) -> None:
        """Rows of these groups have come for these panes."""
        count = int(codes.max()) + 1
        if count > len(self.panes):
            room = np.full(count + count // 4, -(2**63))
            room[: self.count] = self.panes[: self.count]
            self.panes = room
        self.count = max(self.count, count)
        np.maximum.at(self.panes, codes, panes)

    def since(self, pane: int) -> NDArray[np.bool_]:
        """Which groups have rows of this pane or of later ones."""
        return self.panes[: self.count] >= pane

    def renumber(self, new: NDArray[np.int32]) -> None:
        """Code i is new[i], which is not greater; -1: it is forgotten."""
        new = new[: self.count]
        made = self.panes[: self.count][new >= 0]
        self.panes, self.count = made, len(made)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.panes.nbytes

    def to_parts(self) -> list[bytes]:
        """Everything, as bytes; what `fill` takes."""
        return [self.panes[: self.count].tobytes()]

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave."""
        self.panes = np.frombuffer(parts[0], np.int64).copy()
        self.count = len(self.panes)


class Gathered:
    """Records of some groups that a shelf has, found as it was read for another one: for late rows
    that are to come in the same call, so that one reading serves them all.

    codes : of the groups, those that are asked for first before others
    back : the number of the record after the last
    memory : bytes for them; of groups for which there is none, nothing is kept
    """

    def __init__(self, records: PaneRecords, codes: Ints, back: int, memory: int) -> None:
        _, first = np.unique(codes, return_index=True)
        self.records, self.codes = records, codes[np.sort(first)]
        self.back, self.memory = back, memory
        self.low, self.high = EVER, NEVER  # the panes that will be asked for
        self._pieces: list[Arrays] = []
        self._held = 0  # bytes of these

    def reach(self, panes: Ints, far: int) -> None:
        """Rows of these panes may come, in windows that reach so far from there."""
        if len(panes):
            self.low = max(int(panes.min()) - far, NEVER)
            self.high = min(int(panes.max()) + far, EVER)

    def add(self, columns: Arrays, codes: Ints) -> None:
        """Take those of the groups among the next records, of which these are the groups."""
        if not len(self.codes):
            return
        mine = np.flatnonzero(np.isin(codes, self.codes))
        if len(mine):
            piece = self.records.set_codes(taken(columns, mine), codes[mine])
            self._pieces.append(piece)
            self._held += _bytes_of(piece)
        while self._held > self.memory:
            self.codes = self.codes[: len(self.codes) // 2]
            pieces, self._pieces = self._pieces, []
            for piece in pieces:
                mine = np.flatnonzero(np.isin(self.records.codes(piece), self.codes))
                self._pieces += [taken(piece, mine)] if len(mine) else []
            self._held = sum(map(_bytes_of, self._pieces))

    def finish(self) -> None:
        """All have come."""
        if self._pieces:
            columns = joined(self._pieces)
            order = np.argsort(self.records.codes(columns), kind="stable")
            self._pieces = [taken(columns, order)]

    def serves(self, again: WindowsAgain) -> bool:
        """Whether it has all that the shelf had for these windows."""
        inside = self.low <= again.low and again.high <= self.high
        return inside and bool((self.codes == again.code).any())

    def of(self, code: int) -> Arrays | None:
        """The records of a group, in their order; None: there are none."""
        if not self._pieces:
            return None
        (columns,) = self._pieces
        mine = slice(*np.searchsorted(self.records.codes(columns), [code, code + 1]).tolist())
        return {name: column[mine] for name, column in columns.items()}


def _bytes_of(columns: Arrays) -> int:
    return sum(column.nbytes for column in columns.values())


class WindowsAgain:
    """One group over windows that all hold one pane: its records, and what they come to.

    records : what they are; code : that of the group, which is 0 here
    start, end : the panes of the windows, which rise; pane : which they all hold

    Memory: two partials for every window, or pane of these if they are fewer; of rows of which
    windows are made, a quarter of the place's memory.
    """

    def __init__(
        self, records: PaneRecords, answers: StoredAnswers, code: int, start: Ints, end: Ints,
        pane: int,
    ) -> None:  # fmt: skip
        self.records, self.answers, self.code = records, answers, code
        self.start, self.end = start, end
        self.room = _room(records, answers.place) if answers.reads_rows else None
        self.others: list[Arrays] = []
        self.edges = np.unique(np.concatenate([start, end]))
        self.low, self.high = int(self.edges[0]), int(self.edges[-1])
        self.panes = Panes(records.layout, False)  # by the edge before them
        self.parts = records.folds.nothing(len(self.edges))
        self.middle = int(np.searchsorted(self.edges, pane, "right"))

    def take_shelf(self, shelf: Shelf, renames: Renames, gathered: Gathered) -> None:
        """Take the records of a shelf; gathered: takes those that will be asked for.

        Raises
        ------
        StoreError
            They are to be taken anew.
        """
        low, high = min(self.low, gathered.low), max(self.high, gathered.high)
        for part in shelf.between(low, high):
            codes = renames.now(part.first, self.records.codes(part.columns))
            self._take_shelved(part.columns, codes)
            gathered.add(part.columns, codes)
        gathered.finish()

    def take_gathered(self, gathered: Gathered, shelf: Shelf, renames: Renames) -> None:
        """The same, where the records that were there before have been gathered."""
        columns = gathered.of(self.code)
        if columns is not None:
            self._take_shelved(columns, self.records.codes(columns))
        for part in shelf.rows(max(gathered.back, shelf.front), shelf.back):
            codes = renames.now(part.first, self.records.codes(part.columns))
            self._take_shelved(part.columns, codes)

    def _take_shelved(self, columns: Arrays, codes: Ints) -> None:
        mine = self._take(columns, codes)
        if self.room is not None and mine is not None:
            self.room.append(mine)

    def take(self, columns: Arrays) -> None:
        """Take records that are on no shelf."""
        mine = self._take(columns, self.records.codes(columns))
        self.others += [] if mine is None else [mine]

    def _take(self, columns: Arrays, codes: Ints) -> Arrays | None:
        """Add those of the group that are in a window; they, if there are any."""
        mine = np.flatnonzero(codes == self.code)
        at = columns[AT][mine]
        mine = mine[(at >= self.low) & (at < self.high)]
        if not len(mine):
            return None
        columns = self.records.set_codes(taken(columns, mine), np.zeros(len(mine), np.int64))
        self._add(columns)
        return columns

    def _add(self, columns: Arrays) -> None:
        before = self.edges[np.searchsorted(self.edges, columns[AT], "right") - 1]
        codes, columns = np.zeros(len(before), np.int64), {**columns, AT: before}
        self.records.put(columns, codes, self.panes)
        at, _, parts = self.records.folded(columns, codes)
        self.records.folds.join(self.parts, np.searchsorted(self.edges, at), parts)

    def answered(self, extents: Extents, wid: Ints) -> list[Answered]:
        """What the windows, which have these numbers, come to, once all has been taken."""
        parts = self._folded()
        if not self.answers.reads_rows:
            made = self._partials(slice(None))
            return [Answered(made, wid, self.answers.fold(made, parts, wid))]
        pieces = []
        for k, number in enumerate(wid.tolist()):
            made = self._partials(slice(k, k + 1))
            folded = self.answers.fold(made, parts[k : k + 1], wid[k:])
            cut = extents.cut_time(number)
            found = self.answers.of_rows(self._rows(k), made, 1, cut, number)
            pieces.append(Answered(made, wid[k:], folded, *found))
        return pieces

    def _partials(self, windows: slice) -> Partials:
        """What is summed over some windows, each of which has one."""
        return self.panes.close_group(0, self.start[windows], self.end[windows])

    def _folded(self) -> Parts:
        folds = self.records.folds
        first, last = np.searchsorted(self.edges, [self.start, self.end])
        parts: Parts = _sums_back(folds, self.parts[: self.middle])[self.middle - first]
        later = _sums_back(folds, self.parts[self.middle :][::-1])[last - self.middle]
        folds.join(parts, np.arange(len(parts)), later)
        return parts

    def _rows(self, window: int) -> RowsInside:
        assert isinstance(self.records, RowRecords) and self.room is not None
        low, high = int(self.start[window]), int(self.end[window])
        return RowsInside(self.records, self.room, Renames(), self.others, low, high)

    def clear(self) -> None:
        """Take off the store what has gone there."""
        if self.room is not None and self.room.stats().written:
            self.room.store.delete_many(self.room.all_keys())


def _room(records: PaneRecords, place: Place) -> Shelf:
    """For the rows of a group."""
    pool, name = max(2, place.memory // place.block // 4), f"{place.name}~again"
    return Shelf(records.columns, place.store, name, pool=pool, block=place.block)


def _sums_back(folds: Folds, parts: Parts) -> Parts:
    """The last n of these joined, for every n from 0 on. (In any order: see ADR 11.)"""
    table = folds.nothing(1)
    codes = np.zeros(len(parts), np.int64)
    _, before = folds.walk_back(table, codes, np.ascontiguousarray(parts))
    made: Parts = np.concatenate([before, table])
    return made
