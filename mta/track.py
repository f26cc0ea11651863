"""Track: the window state of one key whose rows come in order, a chunk at a time.

It keeps the rows that a window can still reach, and the kernels of the batch engine, which go on
where the last chunk ended. What it answers does not depend on how the rows were cut into chunks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mta._bounds import GivenBounds, next_bounds, row_bounds
from mta._kernel import KEPT
from mta._vector import Vector
from mta.engine import Ints, Ticks, row_edges, ties_by_arrival
from mta.frames import Answer
from mta.plan import Plan
from mta.rows import Chunk, Coded, KeptRows, Mask
from mta.slider import AnswerOverflowError, KeyedAnswers, LookUp, Slider
from mta.specs import Rolling


class Place(NamedTuple):
    """How far a track has come."""

    received: int = 0
    answered: int = 0
    lo: int = 0
    hi: int = 0
    marks: tuple[tuple[int, ...], ...] = ()


class Windows(NamedTuple):
    """The numbers of rows, and their windows as intervals of rows."""

    at: Ints
    lo: Ints
    hi: Ints


class Track:
    """One key's windows.

    Memory is bounded by the longest window (plus the rows that still wait for an answer because
    later rows of the same time may come), not by the number of rows.
    """

    def __init__(self, spec: Rolling, plan: Plan, ticks: Ticks) -> None:
        self.spec = spec
        self.plan = plan
        self.ticks = ticks
        self.over_rows = spec.over_rows
        self._row_edges = row_edges(spec)
        self.sides = spec.left_closed, spec.right_closed
        self.by_arrival = ties_by_arrival(spec, ticks)
        self.times = Vector()
        self.rows = KeptRows(plan)
        self.picked = None if spec.by_rank else Vector(False)  # of the rows without an answer
        self.look_up: LookUp | None = None  # of values that are not among the rows
        self.slider: Slider | None = None  # made when the types of the columns are known
        self.asleep: tuple[tuple[int, ...], ...] = ()  # marks of kernels that are to go on
        self.received = 0
        self.answered = 0
        self.lo = 0
        self.hi = 0

    def feed(
        self,
        ts: Ints | None,
        chunk: Chunk,
        final: bool,
        known: int | None = None,
        picked: Mask | None = None,
    ) -> tuple[Ints, list[Answer]]:
        """Take the next rows; the numbers of those that are answered now, and their answers.

        final : no rows of this key will follow, so every row gets its answer
        known : there will be no more rows before this time (None: only the rows themselves tell)
        picked : the rows of which the answer is asked, where the spec tells them by arrival

        Rows that are needed no more stay until `settle`, so that `go_back` can undo this.

        Raises
        ------
        OverflowError
            An integer answer does not fit. Only `go_back` makes sense then.
        """
        windows = self.take(ts, chunk, final, known, picked)
        columns = self.rows.columns()
        answers = KeyedAnswers(self.plan, columns, len(windows.at))
        self.answer(windows, answers)
        return windows.at, answers.answers(chunk.frame)

    def take(
        self, ts: Ints | None, chunk: Chunk, final: bool, known: int | None, picked: Mask | None
    ) -> Windows:
        """Take the next rows, as `feed` does; the windows to be answered now."""
        if chunk.rows or self.slider is None:  # no rows, too, say what new kernels have to know
            self.rows.append(chunk)
            self.received += chunk.rows
        if self.picked is not None and picked is not None:
            self.picked.extend(picked)
        lo, hi = self._bounds(ts, final, known)
        at = np.arange(self.answered, self.answered + len(lo))
        if len(lo):
            self.answered += len(lo)
            self.lo, self.hi = int(lo[-1]), int(hi[-1])
        wanted = self._wanted(at)
        return (
            Windows(at, lo, hi) if wanted is None else Windows(at[wanted], lo[wanted], hi[wanted])
        )

    def answer(self, windows: Windows, answers: KeyedAnswers) -> None:
        """Answer these windows, the next ones.

        Raises
        ------
        OverflowError
            An integer answer does not fit. Only `go_back` makes sense then.
        """
        columns = self.rows.columns()
        slider = self._awake()
        try:
            bounds = GivenBounds(windows.lo, windows.hi)
            answers.run(slider, self.rows, bounds, columns, self.look_up)
        except AnswerOverflowError as error:
            raise error.explain(f"of row {windows.at[error.window]}") from None

    @property
    def kept(self) -> int:
        """Rows that are kept."""
        return self.rows.end - self.rows.first

    def all_rows(self) -> list[Coded]:
        """The same, wherever they are."""
        return [self.rows]

    @property
    def open_from(self) -> int:
        """The first row of which there will be another answer."""
        return self.answered

    def begin_at(self, place: Place, first: int) -> None:
        """Stand at `place`, with the rows from `first` on, which are yet to be given."""
        self.received, self.answered = place.received, place.answered
        self.lo, self.hi, self.asleep = place.lo, place.hi, place.marks
        self.rows.begin_at(first)
        self.times.first = first
        if self.picked is not None:
            self.picked.first = place.answered

    def take_up(self, place: Place, chunk: Chunk, times: Ints, picked: Mask | None) -> None:
        """Stand at `place`, with these rows, the last ones that came; nothing has come here before.

        picked : of those without an answer
        """
        self.begin_at(place, place.received - chunk.rows)
        self.rows.append(chunk)
        if not self.over_rows:
            self.times.extend(times)
        if self.picked is not None and picked is not None:
            self.picked.extend(picked)

    def settle(self, now: int | None = None) -> None:
        """Let go of what no later window can need.

        now : time
        """
        cut = min(self.lo - KEPT, self.answered - 1)
        self.rows.drop_to(cut)
        self.times.drop_to(cut)
        if self.picked is not None:
            self.picked.drop_to(self.answered)

    def last_joining(self) -> int | None:
        """The last time at which a row would still belong into a window that was answered; None if
        there is no such window, or a later row never belongs into one."""
        if self.over_rows or not self.answered or self.by_arrival:
            return None
        answered = int(self.times.view()[self.answered - 1 - self.times.first])
        edge = answered - self.ticks.lag - (not self.sides[1])
        return min(edge, 2**63 - 1)

    def forget(self) -> None:
        """It is needed no more."""

    def place(self) -> Any:
        """Where it stands; `go_back` returns to it as long as `settle` has not been called."""
        return self.where()

    def where(self) -> Place:
        """The same for a snapshot."""
        marks = self.asleep if self.slider is None else self.slider.marks()
        return Place(self.received, self.answered, self.lo, self.hi, marks)

    def go_back(self, place: Any) -> None:
        """Undo everything since it stood at `place`."""
        surplus = self.received - place.received
        self.rows.take_back(surplus)
        self.times.take_back(min(surplus, len(self.times)))
        if self.picked is not None:
            self.picked.take_back(surplus)
        self.received, self.answered = place.received, place.answered
        self.lo, self.hi = place.lo, place.hi
        self.slider, self.asleep = None, place.marks

    def sleep(self) -> None:
        """Let go of the kernels, 10 to 100 kB of memory, until there are windows to answer."""
        if self.slider is not None:
            self.asleep, self.slider = self.slider.marks(), None

    def _awake(self) -> Slider:
        """Kernels for the types of the rows at hand, that go on where others stood, if any did."""
        if self.slider is None:
            self.slider = Slider(self.plan, self.rows.columns())
            if self.asleep:
                self.slider.resume(self.asleep)
                self.asleep = ()
        return self.slider

    def _wanted(self, at: Ints) -> Mask | None:
        """Which of these rows get an answer; None: all."""
        if self.picked is not None:
            first = self.picked.first
            mine: Mask = self.picked.view()[at - first].view(np.bool_)
            return mine
        if self.spec.every is None:
            return None
        return np.equal((at + 1) % self.spec.every, 0)

    def _bounds(self, ts: Ints | None, final: bool, known: int | None) -> tuple[Ints, Ints]:
        if self.over_rows:
            return self._row_bounds(final)
        assert ts is not None  # a window over time has times
        self.times.extend(ts)
        return next_bounds(
            self.times.view(), self.answered, self.lo, self.hi, self.ticks.range, self.ticks.lag,
            *self.sides, self.by_arrival, final, known, self.times.first,
        )  # fmt: skip

    def _row_bounds(self, final: bool) -> tuple[Ints, Ints]:
        """Row windows need no times: the bounds follow from the row number."""
        first, last = self._row_edges
        end = self.received
        stop = end if final else min(end, end - last + 1)
        return row_bounds(self.answered, stop, first, last, end)
