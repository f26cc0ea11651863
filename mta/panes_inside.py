"""What the panes inside a window on a store come to, by group, as the window moves on over them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mta._panes import Panes
from mta._partials import Partials
from mta._totals import Totals, keys_of
from mta.engine import Ints
from mta.front_back import Extremes, FrontBack, Pieces, turn
from mta.pane_records import PaneRecords, PaneTable, RowRecords, codes_of, partials_in
from mta.row_blocks import Arrays
from mta.shelf import AT, Renames, Shelf
from mta.stored_folds import Parts
from mta.stored_place import Place


class PanesInside:
    """Totals by group, and two stacks of what can't be taken out of a total.

    partials : panes as they come in; records : as they are on the shelf, and leave
    place : where the stacks are

    Memory: a partial per group, two where something is on a stack; where rows leave, the partials
    of their pane.
    """

    def __init__(self, partials: PaneRecords, records: PaneRecords, place: Place) -> None:
        self.partials, self.records = partials, records
        self.layout, self.folds = partials.layout, partials.folds
        self.totals = Totals(self.layout)
        self.leaving = Panes(self.layout, True)  # of rows, what they come to by panes
        self.extremes: FrontBack | None = None
        if self.totals.extremes:
            joins = Extremes(self.totals.extremes)
            self.extremes = FrontBack(joins, place.store, place.name, place.block)
        self.folded: FrontBack | None = None
        if self.folds:
            name = f"{place.name}~folds"
            self.folded = FrontBack(self.folds, place.store, name, place.block)

    @property
    def stacks(self) -> list[FrontBack]:
        """What can't be taken out of a total."""
        return [each for each in (self.extremes, self.folded) if each is not None]

    # -------------------------------------------------------------------- panes come and go

    def add(self, at: Ints, records: Ints, parts: Parts) -> None:
        """Panes come in, with all their groups."""
        codes = codes_of(records)
        self.totals.add(records, codes)
        for stack in self.stacks:
            stack.add(int(at[0]), codes, self._joined_by(stack, records, parts))

    def expire(self, shelf: Shelf, renames: Renames, low: int) -> None:
        """Panes before `low` leave the totals."""
        for part in shelf.expire_before(low):
            codes = renames.now(part.first, self.records.codes(part.columns))
            if isinstance(self.records, RowRecords):
                self.records.put(part.columns, codes, self.leaving)
            else:
                self.totals.remove(self.records.records(part.columns), codes)
        if len(self.leaving.buckets):  # a pane goes as it has come: as one partial a group
            _, records = partials_in(self.layout, self.leaving)
            self.totals.remove(records, codes_of(records))
            self.leaving = Panes(self.layout, True)

    def used_up(self, low: int) -> list[FrontBack]:
        """The stacks that have to `turn` before panes before `low` leave them."""
        return [stack for stack in self.stacks if stack.is_used_up(low)]

    def turn(
        self, stacks: list[FrontBack], shelf: Shelf, renames: Renames, sealed: int
    ) -> None:  # fmt: skip
        """Make the panes inside before `sealed` the front of these stacks."""
        turn(stacks, self._parts_back(stacks, shelf, renames, sealed))

    def _joined_by(self, stack: FrontBack, records: Ints, parts: Parts) -> Parts:
        """What of partials goes to a stack."""
        return keys_of(self.layout, records) if stack is self.extremes else parts

    def _parts_back(
        self, stacks: list[FrontBack], shelf: Shelf, renames: Renames, sealed: int
    ) -> Pieces:
        """Panes, codes, and partials for each stack, of what is inside, by blocks, from the newest
        one on."""
        for part in shelf.rows_back():
            codes = renames.now(part.first, self.records.codes(part.columns))
            at, records, codes, parts = self._partials_of(part.columns, codes)
            some = np.flatnonzero(at < sealed)
            partials = [self._joined_by(each, records[some], parts[some]) for each in stacks]
            yield at[some], codes[some], partials

    def _partials_of(self, columns: Arrays, codes: Ints) -> tuple[Ints, Ints, Ints, Parts]:
        """Records of the shelf as partials: of which panes, and of which groups."""
        if not isinstance(self.records, RowRecords):
            parts = self.records.folded(columns, codes)[2]
            return columns[AT], self.records.records(columns), codes, parts
        panes = PaneTable(self.partials)
        panes.put(columns, codes, self.records)
        at, records, parts = panes.before()
        return at, records, codes_of(records), parts

    def count_anew(self, shelf: Shelf, renames: Renames, sealed: int) -> None:
        """Go on over another shelf, which has more records of the panes inside."""
        totals = self._counted(shelf, sealed)
        for stack in self.stacks:
            stack.reserve(totals.codes)
        self.turn(self.stacks, shelf, renames, sealed)
        self.totals = totals

    def _counted(self, shelf: Shelf, sealed: int) -> Totals:
        """The totals of a shelf, by the pieces in which they will be taken out again: panes, or
        records."""
        made, panes = Totals(self.layout), Panes(self.layout, True)
        for part in shelf.rows(shelf.inside, shelf.back):
            if not isinstance(self.records, RowRecords):
                made.add(self.records.records(part.columns), self.records.codes(part.columns))
                continue
            self.records.put(part.columns, self.records.codes(part.columns), panes)
            whole = min(int(part.columns[AT][-1]), sealed)
            _, records = partials_in(self.layout, panes, whole)
            made.add(records, codes_of(records))
            panes.drop(whole)
        _, records = partials_in(self.layout, panes, sealed)
        made.add(records, codes_of(records))
        return made

    # ------------------------------------------------------------------------- answers out

    def answer(self, place: int, into: Partials) -> None:
        """Append the partials of all groups that have rows inside, at this place."""
        tables = []
        if self.extremes is not None:
            self.extremes.reserve(self.totals.codes)
            tables = [self.extremes.front, self.extremes.back]
        self.totals.answer(place, into, tables)

    def folded_parts(self, codes: Ints, groups: int) -> Parts:
        """The folded partials of these groups, of so many that there are."""
        if self.folded is None:
            return self.folds.nothing(len(codes))
        self.folded.reserve(groups)
        return self.folded.inside(codes)

    # ------------------------------------------------------------------------------- state

    def renumber(self, new: NDArray[np.int32]) -> None:
        """Code i is new[i], which is not greater; -1: it has no rows inside."""
        self.totals.renumber(new)
        for stack in self.stacks:
            stack.renumber(new)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        tables: int = self.totals.nbytes + self.leaving.nbytes
        return tables + sum(stack.nbytes for stack in self.stacks)

    def head(self) -> list[list[object]]:
        """What JSON can tell of the stacks."""
        return [stack.head() for stack in self.stacks]

    def to_parts(self) -> list[list[bytes]]:
        """The rest."""
        return [self.totals.to_parts(), *(stack.to_parts() for stack in self.stacks)]

    def fill(self, head: list[list[object]], parts: Iterable[list[bytes]]) -> None:
        """Take what both gave. ValueError: they do not fit."""
        totals, *rest = parts
        self.totals.fill(totals)
        for stack, told, mine in zip(self.stacks, head, rest, strict=True):
            stack.fill(told, mine)
