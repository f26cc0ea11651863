"""Several windows over the same rows of a key: who brings the rows, and who only reads them. SSM.

One track carries the rows to the store, once for all; the tracks that answer read them there, each
with a front of its own. SlideM, 2013, §4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._vector import Vector
from mta.budget import Budget
from mta.count_log import Logs
from mta.engine import Ints, Ticks
from mta.paged import Counters, PagedTrack
from mta.paged_kernels import Paged
from mta.paged_rows import MakeRepository, PagedRows, Told
from mta.plan import Plan
from mta.reorder import Arrived
from mta.repository import Repository
from mta.rows import Chunk, KeptRows, Mask
from mta.specs import Rolling
from mta.track import Windows


class CarryingTrack(PagedTrack):
    """Brings the rows of a key to the store; it answers nothing."""

    def begin(self, nothing: Arrived) -> None:
        """Know the types of its columns; and so where its rows will be."""
        if self._stored is None:
            self.take(nothing.ts, nothing.chunk, False, None, nothing.picked)

    def take(
        self, ts: Ints | None, chunk: Chunk, final: bool, known: int | None, picked: Mask | None
    ) -> Windows:
        windows = super().take(ts, chunk, final, known, picked)
        self.entered = self.hi
        return windows

    def _wanted(self, at: Ints) -> NDArray[np.bool_]:
        return np.zeros(len(at), np.bool_)

    def _let_go(self) -> None:
        """How long rows are needed is for those to say who answer."""

    def _kernels_awake(self) -> list[Paged]:
        return []


class FollowingRows(PagedRows):
    """The rows of one window among those that another track has brought to the store.

    carried : these
    window : its number there
    """

    def __init__(
        self, plan: Plan, timed: bool, tail: KeptRows, times: Vector, carried: PagedRows,
        window: int,
    ) -> None:  # fmt: skip
        self._end = 0
        self.window = window

        def shared(columns: dict[str, str], marks: list[str], told: Told | None) -> Repository:
            return carried.repository

        super().__init__(plan, timed, tail, times, shared, None, carried.names)

    @property
    def end(self) -> int:
        return self._end

    @property
    def read_bytes(self) -> int:
        return 0

    def take_in(self, stop: int) -> None:
        """Drop the rows from the tail that are on the store by now."""
        stop = min(stop, self.repository.back)
        while self._end + self.block_rows <= stop:
            self._note_block(*self._of_tail(self._end, self._end + self.block_rows))
            self._end += self.block_rows
            self._drop_tail()

    def thin_out(self, over: int) -> None:
        """What others may come to is for the carrier to give back."""

    def pass_by(self, row: int) -> None:
        """Others may still come to what this window has passed by."""

    def to_parts(self) -> tuple[list[bytes], dict[bytes, bytes | None]]:
        return [str(self._end).encode(), *self._beside()], {}

    def wrote(self) -> None:
        """The carrier's rows have been told."""

    def fill(self, parts: Iterator[bytes]) -> None:
        self._end = int(next(parts))
        super().fill(parts)


class FollowingTrack(PagedTrack):
    """One key's windows over rows that another track brings to the store.

    carrier : that track
    window : the number of these windows
    """

    def __init__(
        self, spec: Rolling, plan: Plan, ticks: Ticks, carrier: CarryingTrack, window: int,
        logs: Logs, counters: Counters, budget: Budget,
    ) -> None:  # fmt: skip
        def none(*_: Any) -> Any:
            raise AssertionError("the carrier has the repository")

        make: MakeRepository = none
        super().__init__(spec, plan, ticks, make, lambda repository: None, logs, counters, budget)
        self._carrier, self._window = carrier, window
        self.coded, self.logged = carrier.coded, carrier.logged

    has_codes = False

    def _log_items(self) -> None:
        """The carrier has done so: only say which items those of the rows are."""
        self.logged.tell(self.rows)

    def _make_stored(self, told: Told | None) -> PagedRows:
        timed = not self.over_rows
        carried = self._carrier.stored
        return FollowingRows(self.plan, timed, self.rows, self.times, carried, self._window)

    def _stored_of(self, parts: Iterator[bytes]) -> PagedRows:
        return self._make_stored(None)
