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


@dataclass(frozen=True)
class PaneRecords:
    """Partials of groups as records, rising by panes: columns `at`, and the bytes of one by eights.

    layout : of a partial; inputs : how many sets of rows are counted
    """

    layout: Layout
    feeds: int
    inputs: int

    @property
    def words(self) -> list[str]:
        """The columns of a record."""
        return [f"w{k}" for k in range(self.layout.size // 8)]

    @property
    def columns(self) -> dict[str, str]:
        """The types of the columns of a shelf."""
        return {AT: "int64", **dict.fromkeys(self.words, "int64")}

    def to_columns(self, at: Ints, records: Ints) -> Arrays:
        """Records, for a shelf."""
        return {AT: at, **{word: records[:, k] for k, word in enumerate(self.words)}}

    def records(self, columns: Arrays) -> Ints:
        """Those of a shelf again."""
        return np.stack([columns[word] for word in self.words], axis=1)

    def codes(self, columns: Arrays) -> Ints:
        """The groups of records of a shelf, as they were when they came."""
        return (columns[self.words[0]] << 32) >> 32

    def set_codes(self, columns: Arrays, codes: Ints) -> Arrays:
        """The same records, of these groups."""
        word = self.words[0]
        return {**columns, word: columns[word] >> 32 << 32 | codes}

    def all_of(self, panes: Panes) -> Arrays:
        """What these panes hold, as records in order of panes."""
        return self.to_columns(*partials_in(self.layout, panes))

    def put(self, columns: Arrays, codes: Ints, panes: Panes) -> None:
        """Take records of these groups into panes."""
        n = len(codes)
        records, head = self.records(self.set_codes(columns, codes)), np.array([n, -1], np.int64)
        partials = Partials(self.layout)
        places = np.ascontiguousarray(columns[AT]).tobytes()
        partials.fill([head.tobytes(), places, records.tobytes(), b""], 1 << 31)
        panes.merge(partials, codes, np.ascontiguousarray(columns[AT]))


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
        """Take records of these groups into panes."""
        counted: list[Any] = [self.counted(columns, k).astype(np.uint8) for k in range(self.inputs)]
        feeds = [np.ascontiguousarray(columns[f"f{k}"]) for k in range(self.feeds)]
        panes.add(codes, np.ascontiguousarray(columns[AT]), feeds, counted)

    def counted(self, columns: Arrays, number: int) -> Ints:
        """1 where a row counts for this input, 0 where not."""
        return columns["head"] >> (32 + number) & 1


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
