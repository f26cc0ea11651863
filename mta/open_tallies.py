"""Panes for holistic aggregates: of rows that are alike, one is kept, and how many there are.

Medians, modes and the like have no partial of bounded size, but the rows of a group in a pane that
are equal in all columns that are read stand for each other, but for one thing: which of two values
came first. So the earliest of them is kept. Thesis on window-ids, 6.2.4 (there, counts by address).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mta._buckets import Extents
from mta._keys import factorize
from mta.engine import Ints
from mta.frames import Answer, Frame, open_frame
from mta.open_rows import Kept, OpenRows
from mta.open_windows import Revisions, WindowAxis
from mta.pane_rows import is_free_of_order, pane_length
from mta.periodic import Calendar
from mta.plan import Plan, State
from mta.push import NO_ROWS

# Rows are put together when there are as many new ones as old, and these at least.
_FEW_ROWS = 1024


def no_tallies(plan: Plan) -> str | None:
    """Why rows that are alike can't stand for each other; None: they can."""
    for output in plan.outputs:
        if output.state is not None and not _takes_tallies(output.state):
            return f"{output.name}: {output.aggregate!r} depends on the order of rows"
    return None


def _takes_tallies(state: State) -> bool:
    return is_free_of_order(state) or state.name in ("ranks", "tally")


class OpenTallies(OpenRows):
    """Rows of open windows, of each pane and group those that differ."""

    kind = "tallies"

    def __init__(self, axis: WindowAxis, plan: Plan, frame: Frame, revisions: Revisions) -> None:
        super().__init__(axis, plan, frame, revisions)
        self.counts = NO_ROWS  # how many rows each that is kept stands for; 1 of newer ones
        self.read = [name for name in self.names if name != self.spec.on or name in plan.columns]

    def close(self, done: int, now: int) -> list[list[Answer]]:
        return self._over_all_rows(lambda: super(OpenTallies, self).close(done, now))

    def close_group(self, key: tuple[Any, ...], done: int, now: int) -> list[list[Answer]]:
        return self._over_all_rows(lambda: super(OpenTallies, self).close_group(key, done, now))

    def revise(self, rows: Kept, at: int, done: int) -> list[list[Answer]]:
        return self._over_all_rows(lambda: super(OpenTallies, self).revise(rows, at, done))

    def _over_all_rows(self, answer: Callable[[], list[list[Answer]]]) -> list[list[Answer]]:
        kept, counts = self.kept, self._all_counts()
        if len(counts) and int(counts.max()) > 1:
            self.kept = kept.take(np.repeat(np.arange(len(counts)), counts))
        try:
            return answer()
        finally:
            self.kept = kept

    def _all_counts(self) -> Ints:
        return np.append(self.counts, np.ones(len(self.kept.ts) - len(self.counts), np.int64))

    def forget(self, done: int) -> None:
        counts = self._all_counts()
        still_open = self._open_rows(done)
        if not still_open.all():
            self.kept, counts = self.kept.take(np.flatnonzero(still_open)), counts[still_open]
            self.counts = self.counts[still_open[: len(self.counts)]]
        if len(counts) - len(self.counts) >= max(_FEW_ROWS, len(self.counts)):
            self.put_together()

    def put_together(self) -> None:
        """Of rows that are alike, keep one."""
        counts = self._all_counts()
        alike = self._numbers_of_the_alike()
        order = np.lexsort((np.arange(len(counts)), self.kept.ts, alike))
        first = np.flatnonzero(np.diff(alike[order], prepend=-1))
        totals = np.add.reduceat(counts[order], first)
        rows = order[first]
        by_arrival = np.argsort(rows)
        self.kept, self.counts = self.kept.take(rows[by_arrival]), totals[by_arrival]

    def _numbers_of_the_alike(self) -> Ints:
        """Numbers that are equal for rows of one group and pane with equal values."""
        frame, t = open_frame(self.kept.data), self.kept.ts - self.axis.right
        extents = self.axis.extents(t)
        if not isinstance(self.spec, Calendar):
            pane = pane_length(self.axis)
            extents = Extents(pane, pane, extents.origin)
            numbers, _ = factorize(extents.starts(t))
        else:
            numbers, _ = factorize(self.axis.extents(self.kept.ts).wids(self.kept.ts)[1])
        for name in self.read:
            more, found = _exact_codes(frame, name)
            numbers, _ = factorize(numbers * found + more)
        return numbers

    def state(self) -> dict[str, int]:
        return {**super().state(), "bytes": super().state()["bytes"] + self.counts.nbytes}

    def checkpoint(self, magnitude: int, count: int) -> Callable[[], None] | None:
        kept, counts = self.kept, self.counts

        def undo() -> None:
            self.kept, self.counts = kept, counts

        return undo

    def to_parts(self) -> list[bytes]:
        return [*super().to_parts(), self.counts.tobytes()]

    def fill(self, parts: list[bytes]) -> None:
        super().fill(parts)
        self.counts = np.frombuffer(parts[2], np.int64)
        if len(self.counts) > len(self.kept.ts) or (self.counts < 1).any():
            raise ValueError("counts and rows do not fit")


def _exact_codes(frame: Frame, name: str) -> tuple[Ints, int]:
    """Dense codes of a column that are equal where the values are the same to the last bit."""
    column = frame.column(name)
    values, valid = column.values, column.valid
    if values is None:
        values, valid = frame.encode(name)
    codes, count = factorize(np.ascontiguousarray(values).view(np.int64))
    return (codes, count) if valid is None else factorize(np.where(valid, codes, count))
