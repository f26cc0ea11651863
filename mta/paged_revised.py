"""PagedRevisedTrack: windows larger than memory, of a key whose rows may come late and revise.

A late row is put between rows, and a store's rows stay as they are. So rows leave for it when no
late row can come before them any more, and between two calls kernels stand there: at the last
window that no late row can change. What a call answers, new windows and old ones again, goes on
from there; afterwards kernels go back to it, as after a call that has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mta._bounds import bounds_until
from mta.budget import Budget
from mta.count_log import Logs
from mta.engine import Ints, Ticks, row_edges, row_windows
from mta.errors import StoreError
from mta.paged import Counters, PagedPlace, PagedTrack
from mta.paged_rows import MakeRepository
from mta.plan import Plan
from mta.repository import Repository
from mta.revise import LateRows, clip
from mta.rows import Chunk, Mask
from mta.slider import KeyedAnswers
from mta.specs import Rolling
from mta.track import Track, Windows

_FEW = 16  # rows that no late row can change, before kernels go on to them


class Standing(NamedTuple):
    """Where kernels stand: the last window, up to which row they have had rows, and what they hold
    (None: they are to be made)."""

    lo: int = 0
    hi: int = 0
    entered: int = 0
    kernels: list[Any] | None = None


class PagedRevisedTrack(LateRows, PagedTrack):
    """One key's windows, larger than memory, where rows may come late.

    within : how far behind time a row may be, in ticks; others as those of ``PagedTrack``

    Cost: that of a paged track, and in every call, and for every late row, that of the rows of
    `within` once more. Memory: these rows, beside what a paged track holds.
    """

    def __init__(
        self, spec: Rolling, plan: Plan, ticks: Ticks, within: int, make: MakeRepository,
        leave: Callable[[Repository], None], logs: Logs, counters: Counters, budget: Budget,
    ) -> None:  # fmt: skip
        PagedTrack.__init__(self, spec, plan, ticks, make, leave, logs, counters, budget)
        self.within = within
        self.settled = 0  # rows before this one are answered for good, and kernels have had them
        self._base = Standing()
        self._moved = False  # kernels have gone on from there

    @property
    def open_from(self) -> int:
        """The first row in the tail."""
        return self.rows.first

    # ------------------------------------------------------------------------------ answers

    def _bounds(self, ts: Ints | None, final: bool, known: int | None) -> tuple[Ints, Ints]:
        self.hi = self._end_of_last()  # where kernels stand is before
        return super()._bounds(ts, final, known)

    def answer(self, windows: Windows, answers: KeyedAnswers) -> None:
        """As of every track."""
        self._moved = True
        super().answer(windows, answers)

    def insert(self, t: int, chunk: Chunk, known: int, picked: Mask | None) -> tuple[int, Windows]:
        """As of every track that takes late rows."""
        found = super().insert(t, self.logged.chunk(self.coded.chunk(chunk)), known, picked)
        if self._stored is None:
            self._stored = self._make_stored(None)
        self._stored.forget_read()  # rows of the tail have other numbers
        return found

    def _begin_anew(self) -> None:
        """Kernels go back."""
        if self._base.kernels is None:
            self.slider = None
        elif self._moved:
            for kernel, saved in zip(self._kernels, self._base.kernels, strict=True):
                kernel.restore(saved)
        self._moved = False
        self.lo, self.hi, self.entered = self._base[:3]

    # -------------------------------------------------------------------------- letting go

    def settle(self, now: int | None = None) -> None:
        """As of every paged track."""
        self._begin_anew()
        failure = None
        try:
            if now is not None:
                self._go_to(now - self.within)
        except StoreError as error:
            failure = error
            self._begin_anew()
        super().settle(now)
        self.failure = self.failure or failure
        for vector in (self.times, self.picked):
            if vector is not None:
                vector.drop_to(self.rows.first)
        self._note_base()

    def _needed_from(self) -> int:
        return min(super()._needed_from(), self.settled)

    def _note_base(self) -> None:
        kernels = None if self.slider is None else [kernel.save() for kernel in self._kernels]
        self._base = Standing(self.lo, self.hi, self.entered, kernels)
        self._moved = False

    def _go_to(self, t: int) -> None:
        """Let kernels go on to the last window that no row from time t on can change.

        Raises
        ------
        StoreError
            They stand somewhere on the way.
        """
        stop = min(self._unchanged(t), self.answered)
        if stop - self.settled < max(_FEW, (self.received - stop) // 4):
            return
        at = np.arange(self.settled, stop)
        wanted = self._wanted(at)
        at = at if wanted is None else at[wanted]
        if len(at):
            windows = self._window_of(int(at[-1]))
            self.answer(windows, KeyedAnswers(self.plan, self.rows.columns(), 1))
            self.hi = int(windows.hi[0])
        self.settled = stop

    def _unchanged(self, t: int) -> int:
        """The first row whose number or window rows from time t on can change."""
        times = self.times.view()
        if self.over_rows:
            place = int(times.searchsorted(clip(t))) + self.times.first
            return place - max(row_edges(self.spec)[1] - 1, 0)
        return int(times.searchsorted(clip(t + min(self.ticks.lag, 0)))) + self.times.first

    def _window_of(self, row: int) -> Windows:
        """The window of a row in the tail, as far as that has it."""
        at, base = np.array([row]), self.times.first
        if self.over_rows:
            return Windows(at, *row_windows(self.spec, at, self.received))
        times = self.times.view()
        first = int(times.searchsorted(times[row - base])) + base  # (edges are found peers and all)
        lo, hi = bounds_until(
            times, first, row + 1, base, base, self.ticks.range, self.ticks.lag, *self.sides,
            self.by_arrival, True, base,
        )  # fmt: skip
        return Windows(at, lo[-1:], hi[-1:])

    # ------------------------------------------------------------------------- all or nothing

    def place(self) -> Any:
        """As of every track; where kernels stand as a call begins is known."""
        return PagedPlace(self.where(), self.entered, None)

    def go_back(self, place: Any) -> None:
        """As of every track."""
        slider = self.slider
        Track.go_back(self, place.place)
        self.slider = slider
        if self._stored is not None:
            self._stored.forget_read()
        self._begin_anew()  # a call begins there

    # ----------------------------------------------------------------------------- recovery

    def to_parts(self) -> tuple[list[bytes], dict[bytes, bytes | None]]:
        """As of every paged track."""
        parts, batch = super().to_parts()
        self._note_base()  # kernels have put together what they hold
        return [*parts, str(self.settled).encode()], batch

    def fill(self, parts: Iterator[bytes]) -> None:
        """Take what `to_parts` gave."""
        super().fill(parts)
        self.settled = int(next(parts))
        self._note_base()
