"""Lazy aggregation: the rows of open windows are kept as they are.

Every aggregate is answered this way. A push that completes windows costs O(rows held); see
`open_panes` for those that need not look at a row twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._buckets import Extents
from mta._frames_bytes import bytes_frame, frame_bytes
from mta.buckets import edge_answers, key_answers, landmark_end, slide_windows
from mta.engine import Batch, Ints
from mta.errors import DataError
from mta.frames import Answer, Frame, open_frame
from mta.open_windows import OpenWindows, Revisions, WindowAxis, later
from mta.periodic import Landmark
from mta.plan import Plan, check_types
from mta.push import NO_ROWS, fitted, key_values
from mta.slider import AnswerOverflowError, reordered


@dataclass(frozen=True)
class Kept:
    """Rows in order of arrival, and their times."""

    data: Any
    ts: Ints

    def take(self, rows: Ints) -> Kept:
        """Some of them."""
        return Kept(open_frame(self.data).take(rows), self.ts[rows])


class OpenRows(OpenWindows):
    """The rows of open windows, in order of arrival."""

    kind = "rows"

    def __init__(self, axis: WindowAxis, plan: Plan, frame: Frame, revisions: Revisions) -> None:
        super().__init__(axis, plan, frame, revisions)
        self.names = list(dict.fromkeys([*self.spec.by, str(self.spec.on), *plan.columns]))
        self.kept = Kept(frame.select(self.names), NO_ROWS)

    def prepare(self, frame: Frame, ts: Ints) -> Kept:
        columns = {name: frame.column(name) for name in (*self.spec.by, *self.plan.columns)}
        check_types(self.plan, {name: columns[name] for name in self.plan.columns})
        for name, column in columns.items():
            first = self.frame.column(name)
            if first.kind != "null":
                fitted(column, first, frame)
        data = frame.select(self.names)
        if len(self.kept.ts):
            empty = open_frame(data).take(NO_ROWS)
            self._join(self.kept.take(NO_ROWS).data, empty)
        return Kept(data, ts)

    def _join(self, old: Any, new: Any) -> Any:
        try:
            return self.frame.join([old, new])
        except Exception as error:
            raise DataError(f"push: the columns are not of the types of before ({error})") from None

    def add(self, rows: Kept, at: Ints) -> None:
        if not len(at):
            return
        more = rows if len(at) == len(rows.ts) else rows.take(at)
        if len(self.kept.ts):
            data = self._join(self.kept.data, more.data)
            more = Kept(data, np.concatenate([self.kept.ts, more.ts]))
        self.kept = more

    def close(self, done: int, now: int) -> list[list[Answer]]:
        if not len(self.kept.ts):
            return []
        extents = self.axis.extents(self.kept.ts)
        low, high = self.axis.ended(extents, done) + 1, self.axis.ended(extents, now)
        if isinstance(self.spec, Landmark):
            high = min(high, landmark_end(extents, self.kept.ts))
        return self._run(self.kept, low, high)

    def close_group(self, key: tuple[Any, ...], done: int, now: int) -> list[list[Answer]]:
        every = self.kept
        keys = key_values(open_frame(every.data), self.spec.by, np.arange(len(every.ts)))
        self.kept = every.take(np.flatnonzero([mine == key for mine in keys]))
        try:
            return self.close(done, now)
        finally:
            self.kept = every

    def revise(self, rows: Kept, at: int, done: int) -> list[list[Answer]]:
        mates = self.kept
        if self.spec.by:  # the row is the last that was added
            keys = key_values(open_frame(mates.data), self.spec.by, np.arange(len(mates.ts)))
            mates = mates.take(np.flatnonzero([key == keys[-1] for key in keys]))
        # (Of these: days and the like are counted from the first that is held.)
        extents, t = self.axis.extents(mates.ts), rows.ts[at : at + 1]
        first, last = (int(wid[0]) for wid in extents.wids(t))
        if isinstance(self.spec, Landmark):  # it is in all from the first on
            last = landmark_end(extents, self.kept.ts)
        low = max(first, self.axis.ended(extents, done - self.axis.within) + 1)
        high = min(last, self.axis.ended(extents, done))
        return self._run(mates, low, high, again=True)

    def forget(self, done: int) -> None:
        still_open = self._open_rows(done)
        if not still_open.all():
            self.kept = self.kept.take(np.flatnonzero(still_open))

    def _open_rows(self, done: int) -> NDArray[np.bool_]:
        """Which rows are in a window that is not final."""
        if not len(self.kept.ts):
            return np.zeros(0, np.bool_)
        return later(self.axis.windows_of(self.kept.ts)[3], self.axis.within) > done

    def _run(self, kept: Kept, low: int, high: int, again: bool = False) -> list[list[Answer]]:
        """The answers of the windows low..high of these rows, in order of their ends; again: also
        where a group is ahead."""
        if low > high:
            return []
        batch = Batch(self.spec, kept.data)
        assert batch.ts is not None
        extents = self.axis.extents(kept.ts)
        group, wid, lo, hi = extents.over(batch.ts, batch.offsets, False, high, low)
        if self.ahead and not again:
            keys, complete = self._keys_of(batch, group), self.axis.complete_at(extents, wid)
            left = self.not_ahead(keys, complete)
            group, wid, lo, hi = (array[left] for array in (group, wid, lo, hi))
        if not len(wid):
            return []
        order = np.lexsort((group, wid))
        answers = self._answers_of(batch, extents, group, wid, lo, hi)
        return [[reordered(answer, order) for answer in answers]]

    def _answers_of(
        self, batch: Batch, extents: Extents, group: Ints, wid: Ints, lo: Ints, hi: Ints
    ) -> list[Answer]:
        try:
            raw = slide_windows(batch, extents, wid, lo, hi)
        except AnswerOverflowError as error:
            raise error.explain(f"number {wid[error.window]}") from None

        def keys() -> list[Any]:
            return self._keys_of(batch, group)

        def complete() -> Ints:
            return self.axis.complete_at(extents, wid)

        numbers = self.numbers(len(wid), keys, complete)
        return [
            *key_answers(self.spec, batch, group),
            *edge_answers(self.spec, batch.frame, batch.ticks, extents, wid),
            Answer("revision", numbers),
            *raw.answers(None, batch.rows.to_input),
        ]

    def _keys_of(self, batch: Batch, group: Ints) -> list[Any]:
        firsts = batch.rows.to_input(batch.offsets[:-1])
        known = key_values(batch.frame, self.spec.by, firsts)
        return [known[g] for g in group.tolist()]

    def no_answers(self) -> list[Answer]:
        batch = Batch(self.spec, self.frame.take(NO_ROWS))
        none = self.axis.extents(NO_ROWS), NO_ROWS, NO_ROWS, NO_ROWS, NO_ROWS
        return self._answers_of(batch, *none)

    def weight(self, rows: Kept) -> tuple[int, int]:
        return 0, len(rows.ts)

    def checkpoint(self, magnitude: int, count: int) -> Callable[[], None] | None:
        kept = self.kept

        def undo() -> None:
            self.kept = kept

        return undo

    def state(self) -> dict[str, int]:
        held = open_frame(self.kept.data)
        return {
            "rows": len(self.kept.ts),
            "partials": 0,
            "bytes": held.nbytes + self.kept.ts.nbytes,
        }

    def to_parts(self) -> list[bytes]:
        return [frame_bytes(open_frame(self.kept.data)), self.kept.ts.tobytes()]

    def fill(self, parts: list[bytes]) -> None:
        frame, ts = bytes_frame(parts[0]), np.frombuffer(parts[1], np.int64)
        if frame.rows != len(ts):
            raise ValueError("rows and times are not as many")
        self.kept = Kept(frame.take(np.arange(frame.rows)), ts)
