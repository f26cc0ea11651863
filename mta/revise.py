"""Tracks that also take rows which come late, and answer their windows again."""

from __future__ import annotations

import numpy as np

from mta._bounds import bounds_until
from mta._kernel import KEPT
from mta.engine import Ints, Ticks, row_edges, row_windows
from mta.plan import Plan
from mta.rows import Chunk, Mask, move_last
from mta.slider import KeyedAnswers
from mta.specs import Rolling
from mta.track import Place, Track, Windows

_LEAST, _GREATEST = -(2**63), 2**63 - 1


class LateRows(Track):
    """What tracks have in common that take rows which come late."""

    within: int

    def insert(self, t: int, chunk: Chunk, known: int, picked: Mask | None) -> tuple[int, Windows]:
        """Take a late row: its number, and the windows to be answered again.

        Its own window is among them if it is complete. `undo_insert` undoes this.
        """
        first = self.rows.first
        place = int(self.times.view().searchsorted(t, side="right"))
        self.rows.append(chunk)
        self.times.extend(np.array([t]))
        if self.picked is not None and picked is not None:
            self.picked.extend(picked)
        self._move_last(place, False)
        self.received += 1
        row = first + place
        own = row < self.answered or (row == self.answered and row < self._complete_to(known))
        self.answered += own
        self.lo += row < self.lo
        self.hi = self._end_of_last()
        self._begin_anew()  # rows have other numbers now
        at, lo, hi = self._windows_near(t, row)
        holds = self._changed(at, lo, hi, row) | (at == row) & own
        wanted = self._wanted(at)
        if wanted is not None:
            holds &= wanted
        return row, Windows(at[holds], lo[holds], hi[holds])

    def _end_of_last(self) -> int:
        """Where the window of the last row that was answered ends, among the rows as they are now:
        peers of that row that come next find theirs by it."""
        if self.over_rows or not self.answered:
            return self.hi
        times, first = self.times.view(), self.times.first
        edge = clip(int(times[self.answered - 1 - first]) - self.ticks.lag)
        return first + int(times.searchsorted(edge, side="right" if self.sides[1] else "left"))

    def _changed(self, at: Ints, lo: Ints, hi: Ints, row: int) -> Mask:
        """The windows that hold this row, or others than before it came."""
        holds: Mask = (lo <= row) & (row < hi)
        if self.over_rows:  # the rows behind it have other numbers, so a lag tells other rows
            holds = (lo < hi) & np.where(at < row, row < hi, lo <= row)
        return holds

    def undo_insert(self, row: int, place: Place) -> None:
        """Undo `insert`, before which it stood at `place`."""
        self._move_last(row - self.rows.first, True)
        self.go_back(place)

    def answer_again(self, windows: Windows, answers: KeyedAnswers) -> None:
        """Answer windows that may have been answered.

        Raises
        ------
        OverflowError
            An integer answer does not fit. Only `undo_insert` makes sense then.
        """
        self._begin_anew()
        self.answer(windows, answers)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.slider, self.asleep = None, ()

    def _bounds(self, ts: Ints | None, final: bool, known: int | None) -> tuple[Ints, Ints]:
        if self.over_rows and ts is not None:
            self.times.extend(ts)
        return super()._bounds(ts, final, known)

    def _move_last(self, place: int, back: bool) -> None:
        self.rows.move_last(place, back)
        move_last(self.times, place, back)
        if self.picked is not None:
            move_last(self.picked, place, back)

    def _complete_to(self, known: int) -> int:
        """The first row whose window may still grow."""
        if self.over_rows:
            return min(self.received, self.received - row_edges(self.spec)[1] + 1)
        times, closed = self.times.view(), self.sides[1] and not self.by_arrival
        edge = clip(known + self.ticks.lag)
        place = int(times.searchsorted(edge, side="left" if closed else "right"))
        return max(place + self.times.first, self.answered)

    def _windows_near(self, t: int, row: int) -> Windows:
        """Windows of rows that have been answered: all that hold this row, at t, its own, and some
        others."""
        base, lag = self.times.first, self.ticks.lag
        if self.over_rows:
            first, last = row_edges(self.spec)
            start, stop = min(row, row - last), max(row, row - first) + 1
            at = np.arange(max(base, start), min(self.answered, stop))
            return Windows(at, *row_windows(self.spec, at, self.received))
        times, stop = self.times.view(), self.answered - base
        start = int(times.searchsorted(clip(t + min(lag, 0))))
        if self.ticks.range is not None:
            end = t + max(lag + self.ticks.range, 0)
            stop = min(stop, int(times.searchsorted(clip(end), side="right")))
        # (From the first row of a time on: the edges are found peers and all.)
        start, stop = start + base, max(stop, start) + base
        lo, hi = bounds_until(
            times, start, stop, base, base, self.ticks.range, lag, *self.sides, self.by_arrival,
            True, base,
        )  # fmt: skip
        return Windows(np.arange(start, start + len(lo)), lo, hi)


class RevisedTrack(LateRows):
    """One key's windows, where rows may come late.

    A late row is put in its place among the rows that are kept, O(rows kept), and the windows that
    hold it are answered by fresh kernels. Memory: the rows of `within` and of one window before.

    within : how far behind time a row may be, in ticks
    """

    def __init__(self, spec: Rolling, plan: Plan, ticks: Ticks, within: int) -> None:
        super().__init__(spec, plan, ticks)
        self.within = within

    @property
    def open_from(self) -> int:
        """The first row that is kept."""
        return self.rows.first

    def settle(self, now: int | None = None) -> None:
        """Let go of what no row that may still come, be it late, can need."""
        oldest = self.rows.first if now is None else self._oldest(now - self.within)
        oldest = max(0, min(oldest, self.lo - KEPT, self.answered - 1))
        self.rows.drop_to(oldest)
        self.times.drop_to(oldest)
        if self.picked is not None:
            self.picked.drop_to(oldest)

    def _oldest(self, t: int) -> int:
        """The first row that matters where rows from time t on may still come."""
        times, lag = self.times.view(), self.ticks.lag
        if self.over_rows:
            first, last = row_edges(self.spec)
            place = int(times.searchsorted(clip(t))) + self.times.first
            # The window of such a row, a window that holds it, and whose window that is.
            return place - max(-first, last - first, last, 0) - 1
        if self.ticks.range is None:
            return 0
        edge = min(t - self.ticks.range - max(lag, 0), t + lag) - 1
        return int(times.searchsorted(clip(edge))) + self.times.first


def clip(t: int) -> int:
    """A time, as far as 64 bits go."""
    return max(_LEAST, min(t, _GREATEST))
