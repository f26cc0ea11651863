"""The rows of one window on a store: those of its shelf, and those that came behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mta.engine import Ints
from mta.pane_records import RowRecords
from mta.row_blocks import Arrays
from mta.shelf import AT, Renames, Shelf


@dataclass(frozen=True)
class RowsInside:
    """The rows of the panes from low to high.

    renames : what the groups of those on the shelf are called now
    behind : more records, of groups as they are called now
    """

    records: RowRecords
    shelf: Shelf
    renames: Renames
    behind: list[Arrays]
    low: int
    high: int

    def pieces(self) -> Iterator[tuple[Arrays, Ints, Ints]]:
        """Records, their groups, and which of them are inside."""
        for part in self.shelf.rows(self.shelf.inside, self.shelf.back):
            if int(part.columns[AT][0]) >= self.high:
                break
            codes = self.renames.now(part.first, self.records.codes(part.columns))
            yield part.columns, codes, self._inside(part.columns)
        for columns in self.behind:
            yield columns, self.records.codes(columns), self._inside(columns)

    def counted(self, number: int) -> Iterator[tuple[Arrays, Ints, Ints, Ints]]:
        """The same, and 1 for each of those inside that counts for an input."""
        for columns, codes, inside in self.pieces():
            yield columns, codes, inside, self.records.counted(columns, number)[inside]

    def _inside(self, columns: Arrays) -> Ints:
        return np.flatnonzero((columns[AT] >= self.low) & (columns[AT] < self.high))
