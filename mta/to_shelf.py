"""Records of panes on their way to a shelf: they wait for time to come to them, and for a block."""

from __future__ import annotations

import numpy as np

from mta.pane_records import PaneRecords
from mta.row_blocks import Arrays
from mta.rows_behind import arrays_of, joined, put_with, taken
from mta.shelf import AT, Shelf


class ToShelf:
    """Rows that wait until the watermark has passed their pane, and records that are to be written.

    records : what they are

    Memory: the rows that wait; of the others a block at most, and those of a window.
    """

    def __init__(self, records: PaneRecords) -> None:
        self.records = records
        self.waiting: list[Arrays] = []
        self.in_order = True  # those that wait
        self.unwritten: list[Arrays] = []
        self.begun: int | None = None  # the number of their first one, if some may be written
        self.count = 0  # of those that are to be written
        self.taken = 0  # records, so far

    def wait(self, columns: Arrays) -> None:
        """Rows come, in any order."""
        put_with(self.waiting, columns)
        self.in_order = False

    def newest(self) -> int | None:
        """The last pane of which rows wait."""
        return max((int(columns[AT].max()) for columns in self.waiting), default=None)

    def release(self, last: int) -> int | None:
        """Rows of panes up to this one may go to the store; the last pane of those that go."""
        if not self.waiting:
            return None
        columns = self.waiting[0]  # in order, if it is the only one
        if len(self.waiting) > 1 or not self.in_order:
            columns = joined(self.waiting)
            columns = taken(columns, np.argsort(columns[AT], kind="stable"))
            self.waiting, self.in_order = [columns], True
        go = int(np.searchsorted(columns[AT], last, "right"))
        if not go:
            return None
        rest = {name: column[go:] for name, column in columns.items()}
        self.waiting = [rest] if len(rest[AT]) else []
        self.shelve({name: column[:go] for name, column in columns.items()})
        return int(columns[AT][go - 1])

    def shelve(self, columns: Arrays) -> None:
        """These records are for the store."""
        if len(columns[AT]):
            self.unwritten.append(columns)
            self.count += len(columns[AT])
            self.taken += len(columns[AT])

    def fills(self, shelf: Shelf) -> bool:
        """Whether there is a block of them."""
        return self.count >= shelf.layout.rows

    def has_before(self, pane: int) -> bool:
        """Whether some that are to be written are of an earlier pane."""
        return bool(self.unwritten) and int(self.unwritten[0][AT][0]) < pane

    def write(self, shelf: Shelf) -> None:
        """Put on the shelf what is to go there, as far as it is not there already."""
        if not self.unwritten:
            return
        columns = joined(self.unwritten)
        if self.begun is None:
            self.unwritten, self.begun = [columns], shelf.back
        there = shelf.back - self.begun
        shelf.append({name: column[there:] for name, column in columns.items()})
        self.unwritten, self.begun, self.count = [], None, 0

    def renumber(self, new: np.ndarray) -> None:
        """Of those that wait: code i is new[i]."""
        self.waiting = [
            self.records.set_codes(columns, new[self.records.codes(columns)].astype(np.int64))
            for columns in self.waiting
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return sum(column.nbytes for columns in self.waiting for column in columns.values())

    def to_parts(self) -> list[bytes]:
        """The rows that wait, as bytes; what `fill` takes."""
        columns = list(joined(self.waiting).values()) if self.waiting else []
        return [column.tobytes() for column in columns]

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave."""
        self.waiting = arrays_of(self.records, parts)
        self.in_order = False
