"""Rows that come behind: for panes which are on a store already, and in windows that are open."""

from __future__ import annotations

import numpy as np

from mta._panes import Panes
from mta._partials import Partials
from mta.engine import Ints
from mta.pane_records import PaneRecords, PaneTable, RowRecords
from mta.pane_rows import Prepared
from mta.row_blocks import Arrays
from mta.shelf import AT

_TABLE = 11  # byte strings of a table


class Behind:
    """What has come behind, in memory: partials by panes, and where a store has rows, the rows.

    It is what `mta._panes` keeps of windows in memory, so the window over it moves on likewise.
    """

    def __init__(self, records: PaneRecords) -> None:
        self.records = records
        self.table = PaneTable(records, False)
        self.rows: list[Arrays] = []

    def __len__(self) -> int:
        return len(self.table)

    @property
    def panes(self) -> Panes:
        """What is summed."""
        return self.table.panes

    def add(self, rows: Prepared, records: RowRecords) -> None:
        """Take rows."""
        self.table.add(rows, records)
        if isinstance(self.records, RowRecords):
            put_with(self.rows, records.of_rows(rows))

    def put(self, columns: Arrays, codes: Ints) -> None:
        """Take records of these groups."""
        if len(codes):
            columns = self.records.set_codes(columns, codes)
            self.table.put(columns, codes, self.records)
            self.rows += [columns] if isinstance(self.records, RowRecords) else []

    def first(self, low: int) -> list[int]:
        """The first pane from `low` on, if there is one."""
        buckets = self.panes.buckets
        at = int(np.searchsorted(buckets, low))
        return [int(bucket) for bucket in buckets[at : at + 1]]

    def drop(self, low: int) -> None:
        """Panes before `low` have left for good."""
        self.table.drop(low)
        if not len(self):
            self.rows = []

    def with_partials(self, made: Partials, low: int, high: int) -> Partials:
        """These partials of groups and those of the panes from low to high: one of each group."""
        both = Panes(made.layout, True)
        for some in (made, self.panes.close(np.array([low]), np.array([high]))):
            both.merge(some, some.codes, np.zeros(len(some), np.int64))
        return both.close(np.array([0]), np.array([1]))

    def to_records(self) -> Arrays:
        """Everything as records, in order of panes."""
        if not isinstance(self.records, RowRecords) or not self.rows:
            return self.records.to_columns(*self.table.before())
        columns = joined(self.rows)
        columns = taken(columns, np.argsort(columns[AT], kind="stable"))
        first = int(np.searchsorted(columns[AT], self.panes.buckets[0]))
        self.rows = [{name: column[first:] for name, column in columns.items()}]
        return self.rows[0]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        rows = sum(column.nbytes for columns in self.rows for column in columns.values())
        return rows + self.table.nbytes

    def to_parts(self) -> list[bytes]:
        """Everything as bytes; what `fill` takes."""
        rows = list(joined(self.rows).values()) if self.rows else []
        panes = self.table.to_parts()
        return [*panes, *(column.tobytes() for column in rows)]

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave."""
        self.table.fill(parts[:_TABLE])
        self.rows = arrays_of(self.records, parts[_TABLE:])


def arrays_of(records: PaneRecords, parts: list[bytes]) -> list[Arrays]:
    """Records whose columns were stored as these bytes; none of no bytes."""
    columns = [np.frombuffer(part, np.int64) for part in parts]
    return [dict(zip(records.columns, columns, strict=True))] if parts else []


def joined(columns: list[Arrays]) -> Arrays:
    """Records of the same columns, one after the other."""
    if len(columns) == 1:
        return columns[0]
    return {name: np.concatenate([some[name] for some in columns]) for name in columns[0]}


def put_with(pieces: list[Arrays], columns: Arrays) -> None:
    """Append records to pieces of which there are few, as each is longer than the next one.

    Cost: O(log n) a record, amortised, however few come at a time.
    """
    while pieces and len(pieces[-1][AT]) <= len(columns[AT]):
        columns = joined([pieces.pop(), columns])
    pieces.append(columns)


def taken(columns: Arrays, rows: Ints) -> Arrays:
    """Some of them."""
    return {name: column[rows] for name, column in columns.items()}
