"""What streams over windows by number have in common: which windows a row is in, and which of them
it comes too late for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta.engine import Ints, Ticks
from mta.errors import DataError
from mta.frames import Column, Frame
from mta.open_windows import WindowAxis, later
from mta.periodic import Periodic
from mta.progress import Watermark
from mta.push import NEVER, PushedStream

Mask = NDArray[np.bool_]


class PeriodicStream(PushedStream[Periodic]):
    """Base of the streams over windows by number.

    A row that is in no open window any more is late; one that falls between two windows (slide >
    range) is unassigned. Both are counted.
    """

    def __init__(self, spec: Periodic) -> None:
        super().__init__(spec)
        self.watermark = spec.progress or Watermark()
        self.axis: WindowAxis | None = None
        self.answered_to = NEVER  # windows that are complete by then have been answered
        self.unassigned = 0
        self.broken: BaseException | None = None  # what has failed with some rows taken in

    def _mark(self) -> Any:
        if self.broken is not None:
            raise DataError(f"push: one has failed half-way before ({self.broken!r}); start anew")
        return super()._mark()

    def _is_whole(self) -> bool:
        """Whether nothing stays behind of a call that fails now."""
        raise NotImplementedError

    def _go_back(self, before: Any) -> None:
        whole = self._is_whole()
        super()._go_back(before)
        self.broken = None if whole else sys.exc_info()[1]

    def _read_columns(self, frame: Frame) -> Ints:
        """The times; of the first push also what a window is from then on."""
        self._check_kind(frame)
        for name in self.spec.by:
            frame.require(name, "by")
        for name in self.plan.columns:
            frame.require(name, "agg")
        ts = self._read_times(frame)
        assert self.axis is not None and self.ticks is not None
        if self.axis.origin is None and len(ts):
            self.axis = WindowAxis(self.spec, self.ticks, int(ts[0]))
        return ts

    def _begin_time(self, ticks: Ticks, on_type: Column) -> None:
        super()._begin_time(ticks, on_type)
        self.axis = WindowAxis(self.spec, ticks)

    def _told_to(self) -> int:
        """Windows that are complete by then get no more of the rows to come."""
        return self.answered_to

    def _sort_out(
        self, ts: Ints, done: Ints, own: Ints
    ) -> tuple[Mask | None, Mask | None, list[int]]:
        """Which rows are late, and which between windows (None: none); and the rows before which
        windows have to be answered that they belong to."""
        assert self.axis is not None
        if not len(ts):
            return None, None, []
        if own is done and not self.spec.leaves_rows_out:
            first_end = self.axis.windows_of(ts.min(keepdims=True))[2]
            self.axis.windows_of(ts.max(keepdims=True))  # that its edges fit
            if first_end[0] > done[-1]:  # as a rule
                return None, None, []
        first, last, first_end, last_end = self.axis.windows_of(ts)
        outside = last < first
        late = ~outside & (later(last_end, self.axis.within) <= own)
        self._refuse_late(late, ts)
        behind = np.flatnonzero(~outside & ~late & (first_end <= own))
        return late, outside, self._cuts(ts, behind, done)

    def _cuts(self, ts: Ints, behind: Ints, done: Ints) -> list[int]:
        """Of rows that are in a window which has been answered, those that come after one more."""
        assert self.axis is not None
        if self.lateness.mode == "revise":  # each is an answer more
            return sorted({*behind.tolist(), *(behind + 1).tolist()} - {len(ts)})
        extents = self.axis.extents(ts)
        ended = extents.ended_by(np.maximum(done[behind] - self.axis.right, NEVER))
        so_far = self.axis.ended(extents, self._told_to())
        return sorted({*behind[ended > np.append(so_far, ended[:-1])].tolist()})


def places_in(start: int, stop: int, late: Mask | None, outside: Mask | None) -> Ints:
    """The rows from start to stop that are in a window."""
    places = np.arange(start, stop)
    if late is None or outside is None:
        return places
    return places[~(late | outside)[start:stop]]
