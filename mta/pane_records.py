"""What a store keeps of the panes of open windows: their partials (2LA), or their rows (1W)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mta._panes import Panes
from mta._partials import Layout, Partials
from mta._totals import records_of
from mta.engine import Ints
from mta.pane_rows import Prepared
from mta.row_blocks import Arrays
from mta.shelf import AT
from mta.stored_folds import FoldedPanes, Folds, Parts, stretches


@dataclass(frozen=True)
class PaneRecords:
    """Partials of groups as records, rising by panes: columns `at`, and the bytes of one by eights,
    those that are summed before those that are folded.

    layout : of a partial that is summed; inputs : how many sets of rows are counted
    """

    layout: Layout
    feeds: int
    inputs: int
    folds: Folds

    @property
    def words(self) -> list[str]:
        """The columns of a record."""
        return [*self._summed, *self._folded]

    @property
    def _summed(self) -> list[str]:
        return [f"w{k}" for k in range(self.layout.size // 8)]

    @property
    def _folded(self) -> list[str]:
        return [f"p{k}" for k in range(self.folds.width)]

    @property
    def columns(self) -> dict[str, str]:
        """The types of the columns of a shelf."""
        return {AT: "int64", **dict.fromkeys(self.words, "int64")}

    def to_columns(self, at: Ints, records: Ints, parts: Parts) -> Arrays:
        """Records, for a shelf."""
        summed = dict(zip(self._summed, records.T, strict=True))
        return {AT: at, **summed, **dict(zip(self._folded, parts.T, strict=True))}

    def records(self, columns: Arrays) -> Ints:
        """The partials of a shelf that are summed."""
        return np.stack([columns[word] for word in self._summed], axis=1)

    def codes(self, columns: Arrays) -> Ints:
        """The groups of records of a shelf, as they were when they came."""
        return (columns[self.words[0]] << 32) >> 32

    def set_codes(self, columns: Arrays, codes: Ints) -> Arrays:
        """The same records, of these groups."""
        word = self.words[0]
        return {**columns, word: columns[word] >> 32 << 32 | codes}

    def put(self, columns: Arrays, codes: Ints, panes: Panes) -> None:
        """Take what is summed of records of these groups into panes."""
        n = len(codes)
        records, head = self.records(self.set_codes(columns, codes)), np.array([n, -1], np.int64)
        partials = Partials(self.layout)
        places = np.ascontiguousarray(columns[AT]).tobytes()
        partials.fill([head.tobytes(), places, records.tobytes(), b""], 1 << 31)
        panes.merge(partials, codes, np.ascontiguousarray(columns[AT]))

    def folded(self, columns: Arrays, codes: Ints) -> tuple[Ints, Ints, Parts]:
        """What is folded of records of these groups: panes, groups and partials."""
        if not self.folds:
            return columns[AT], codes, self.folds.nothing(len(codes))
        return columns[AT], codes, np.stack([columns[word] for word in self._folded], axis=1)


@dataclass(frozen=True)
class RowRecords(PaneRecords):
    """Rows as records, rising by panes: columns `at`, `head` (the group, and for which sets of rows
    it counts), those that are aggregated, and others."""

    others: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The columns of a record."""
        return ["head", *(f"f{k}" for k in range(self.feeds)), *self.others]

    def of_rows(self, rows: Prepared) -> Arrays:
        """Rows that have been pushed, as records; not in order yet."""
        counts = np.zeros(len(rows.codes), np.int64)
        for k, mask in enumerate(rows.counted):
            counts |= (np.int64(1) if mask is None else mask.astype(np.int64)) << k
        made: Arrays = {AT: rows.buckets, "head": counts << 32 | rows.codes}
        for k, feed in enumerate(rows.feeds):
            made[f"f{k}"] = feed.view(np.int64)
        return {**made, **{name: rows.more[name] for name in self.others}}

    def put(self, columns: Arrays, codes: Ints, panes: Panes) -> None:
        """Take what is summed of records of these groups into panes."""
        counted: list[Any] = [self.counted(columns, k).astype(np.uint8) for k in range(self.inputs)]
        feeds = [np.ascontiguousarray(columns[f"f{k}"]) for k in range(self.feeds)]
        panes.add(codes, np.ascontiguousarray(columns[AT]), feeds, counted)

    def folded(self, columns: Arrays, codes: Ints) -> tuple[Ints, Ints, Parts]:
        """What is folded of rows of these groups: one partial for each pane and group."""
        if not self.folds:
            return columns[AT], codes, self.folds.nothing(len(codes))
        order, edges = stretches(columns[AT], codes)
        parts = self.folds.of_rows(columns, lambda k: self.counted(columns, k), order, edges)
        first = order[edges[:-1]]
        return columns[AT][first], codes[first], parts

    def counted(self, columns: Arrays, number: int) -> Ints:
        """1 where a row counts for this input, 0 where not."""
        return columns["head"] >> (32 + number) & 1


class PaneTable:
    """Partials by pane and group in memory: those that are summed, and beside them the folded.

    records : what they are made of; single : windows are one pane long, as those of ``Panes``
    """

    def __init__(self, records: PaneRecords, single: bool = True) -> None:
        self.layout, self.folds = records.layout, records.folds
        self.panes = Panes(self.layout, single)
        self.folded = FoldedPanes(self.folds)

    def __len__(self) -> int:
        return len(self.panes.buckets)

    def add(self, rows: Prepared, records: RowRecords) -> None:
        """Take rows."""
        self.panes.add(rows.codes, rows.buckets, rows.feeds, rows.counted)
        if self.folds:
            self.folded.add(*records.folded(records.of_rows(rows), rows.codes))

    def put(self, columns: Arrays, codes: Ints, records: PaneRecords) -> None:
        """Take records of these groups."""
        records.put(columns, codes, self.panes)
        if self.folds:
            self.folded.add(*records.folded(columns, codes))

    def before(self, pane: int | None = None) -> tuple[Ints, Ints, Parts]:
        """The partials of panes (before one) in their order: of which panes, and both kinds."""
        at, records = partials_in(self.layout, self.panes, pane)
        return at, records, self.folded.beside(at, codes_of(records))

    def of_group(self, code: int, low: int, high: int) -> tuple[Ints, Ints, Parts]:
        """The partials of a group in the panes from low to high, as `before` gives them."""
        buckets = self.panes.buckets
        buckets = buckets[slice(*np.searchsorted(buckets, [low, high]).tolist())]
        records, places = records_of(self.panes.close_group(code, buckets, buckets + 1))
        return buckets[places], records, self.folded.of_group(code, buckets[places])

    def drop(self, before: int) -> None:
        """Let go of the panes before this one."""
        self.panes.drop(before)
        self.folded.drop(before)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.panes.nbytes + self.folded.nbytes

    def to_parts(self) -> list[bytes]:
        """Everything, as bytes; what `fill` takes."""
        return [*self.folded.to_parts(), *self.panes.to_parts()]

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave. ValueError: they do not fit."""
        self.folded.fill(parts[:3])
        self.panes.fill(parts[3:])


def partials_in(layout: Layout, panes: Panes, before: int | None = None) -> tuple[Ints, Ints]:
    """The partials of panes (before one): of which panes they are, and they as records."""
    whole = panes
    if not panes.single:  # the same tables, which are listed one by one
        whole = Panes(layout, True)
        whole.fill(panes.to_parts())
    buckets = whole.buckets
    if before is not None:
        buckets = buckets[: int(np.searchsorted(buckets, before))]
    made = whole.close(buckets, buckets + 1)
    records, places = records_of(made)
    return buckets[places], records


def codes_of(records: Ints) -> Ints:
    """The groups of partials as records."""
    return (records[:, 0] << 32) >> 32
