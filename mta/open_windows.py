"""What a stream of windows by number holds until they are answered: the base of its physical plans.

The plans of the thesis on window-ids, chapter 6: the rows as they are ("rows", lazy aggregation; in
`open_rows`), a partial aggregate per group and window ("wid"), or per group and pane ("paned"), or
for each group whatever takes less memory ("adapt"; all in `open_panes`). They give the same
answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mta._buckets import Extents
from mta.buckets import check_edges, find_extents, window_edges
from mta.engine import Ints, Ticks
from mta.frames import Answer, Frame
from mta.periodic import Calendar, Landmark, Periodic
from mta.plan import Plan
from mta.push import EVER, NEVER

_COUNT_BYTES = 200  # of how often a window has been answered


def later(times: Ints, by: int) -> Ints:
    """times + by, as far as 64 bits go."""
    return np.minimum(times, EVER - by) + by


def revises(spec: Periodic) -> bool:
    """Whether late rows may revise answers that have been given."""
    return spec.lateness is not None and spec.lateness.within is not None


@dataclass
class WindowAxis:
    """The windows of a spec over a time axis.

    origin : of a spec that begins with the first row
    """

    spec: Periodic
    ticks: Ticks
    origin: int | None = None

    @cached_property
    def right(self) -> int:
        """How many ticks after its end a window is complete."""
        return int(self.spec.right_closed)

    @cached_property
    def within(self) -> int:
        """How long after its first answer a window may be revised, in ticks."""
        length = None if self.spec.lateness is None else self.spec.lateness.within
        return 0 if length is None else length.in_unit(self.ticks.finer) or 0

    def extents(self, ts: Ints) -> Extents:
        """The windows that times like these are in."""
        if isinstance(self.spec, Calendar):  # as many edges as they need
            return find_extents(self.spec, ts, self.ticks, self.origin or 0)
        return self._extents

    @cached_property
    def _extents(self) -> Extents:
        return find_extents(self.spec, np.zeros(0, np.int64), self.ticks, self.origin or 0)

    def windows_of(self, ts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Of every time: its first and its last window, and when they are complete."""
        extents = self.extents(ts)
        check_edges(extents, ts)
        first, last = extents.wids(ts)
        first_end = self.complete_at(extents, first)
        if isinstance(self.spec, Landmark):  # open for ever, unless the row is before the landmark
            before = self.spec.origin is not None
            last = np.where((first < 0) & before, first - 1, first)
            return first, last, first_end, np.full(len(ts), EVER)
        return first, last, first_end, self.complete_at(extents, last)

    def complete_at(self, extents: Extents, wid: Ints) -> Ints:
        """The watermark at which no more rows of these windows can come: their end, or one tick
        after it where a row at the end is inside."""
        return later(window_edges(extents, wid)[1], self.right)

    def ended(self, extents: Extents, now: int) -> int:
        """The last window of which no more rows can come."""
        return extents.ended(now if now == EVER else max(now - self.right, NEVER))


@dataclass
class Revisions:
    """How often each window of each group has been answered, as long as late rows may revise it."""

    counts: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def number(self, keys: list[Any], complete: Ints) -> Ints:
        """Count one more answer of these windows, told by when they were complete."""
        return self.number_again(keys, complete, np.zeros(len(keys), np.int64))

    def number_again(self, keys: list[Any], complete: Ints, answers: Ints) -> Ints:
        """The same, of windows that were answered so often if nothing has been counted of them."""
        numbers = np.empty(len(keys), np.int64)
        counts = dict(self.counts)
        windows = zip(keys, complete.tolist(), strict=True)
        for i, (key, before) in enumerate(zip(windows, answers.tolist(), strict=True)):
            numbers[i] = counts[key] = counts.get(key, before) + 1
        self.counts = counts
        return numbers

    def forget(self, final: int) -> None:
        """Windows that were complete by then are answered for good."""
        self.counts = {key: n for key, n in self.counts.items() if key[1] > final}

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        return _COUNT_BYTES * len(self.counts)


class OpenWindows:
    """Rows, or what has been made of them, until the last window that holds them is final.

    frame : of no rows, of the kind that is pushed
    """

    kind = "rows"  # how a snapshot calls it

    def __init__(self, axis: WindowAxis, plan: Plan, frame: Frame, revisions: Revisions) -> None:
        self.axis = axis
        self.spec = axis.spec
        self.plan = plan
        self.frame = frame
        self.revisions = revisions
        # Of groups that are ahead of the watermark: by when their windows have been answered.
        self.ahead: dict[tuple[Any, ...], int] = {}

    def prepare(self, frame: Frame, ts: Ints) -> Any:
        """Rows as `add` takes them. All errors that they can have are raised here."""
        raise NotImplementedError

    def add(self, rows: Any, at: Ints) -> None:
        """Take those rows of what was prepared that are at these places, which rise."""
        raise NotImplementedError

    def close(self, done: int, now: int) -> list[list[Answer]]:
        """The answers of the windows that are complete at `now` and were not at `done`, in order of
        their ends, in any number of parts."""
        raise NotImplementedError

    def close_group(self, key: tuple[Any, ...], done: int, now: int) -> list[list[Answer]]:
        """The same of one group."""
        raise NotImplementedError

    def peek(self, done: int) -> list[list[Answer]]:
        """What `close` would give of all windows that were not complete at `done`, after which
        everything is as if it had not been asked."""
        counts = self.revisions.counts
        try:
            return self._peek(done)
        finally:
            self.revisions.counts = counts

    def _peek(self, done: int) -> list[list[Answer]]:
        """The same, but for how often windows have been answered."""
        return self.close(done, EVER)

    def revise(self, rows: Any, at: int, done: int) -> list[list[Answer]]:
        """Answer again the windows that hold this row, which has been added, as far as they have
        been answered by `done` and are not final."""
        raise NotImplementedError

    def forget(self, done: int) -> None:
        """Let go of what only windows hold that are final at this watermark."""
        raise NotImplementedError

    def no_answers(self) -> list[Answer]:
        """The answers of no windows, for their names and types."""
        raise NotImplementedError

    def weight(self, rows: Any) -> tuple[int, int]:
        """The greatest integer of rows as prepared, without its sign, and how many they are."""
        raise NotImplementedError

    def checkpoint(self, magnitude: int, count: int) -> Callable[[], None] | None:
        """What undoes all that so many rows of this weight will do; None: nothing will have to be
        undone."""
        raise NotImplementedError

    def state(self) -> dict[str, int]:
        """What is held, for people: rows, partial aggregates, groups, bytes."""
        raise NotImplementedError

    def to_parts(self) -> list[bytes]:
        """What is held, as bytes."""
        raise NotImplementedError

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave. ValueError: it is damaged."""
        raise NotImplementedError

    def not_ahead(self, keys: list[tuple[Any, ...]], complete: Ints) -> Ints:
        """Which of these windows, complete by then, have not been answered for their groups."""
        ahead = np.array([self.ahead.get(key, NEVER) for key in keys], np.int64)
        return np.flatnonzero(complete > ahead)

    def numbers(self, n: int, keys: Callable[[], list[Any]], complete: Callable[[], Ints]) -> Ints:
        """The column "revision" of n answers: of groups with these keys, complete by then."""
        if not revises(self.spec):
            return np.ones(n, np.int64)
        return self.revisions.number(keys(), complete())
