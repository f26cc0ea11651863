"""Track: the window state of one key whose rows come in order, a chunk at a time.

It keeps the rows that a window can still reach, and the kernels of the batch engine, which go on
where the last chunk ended. What it answers does not depend on how the rows were cut into chunks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._bounds import GivenBounds, next_bounds
from mta._kernel import KEPT
from mta._vector import Vector
from mta.engine import Ints, Ticks, row_edges, ties_by_arrival
from mta.frames import Answer, Column, Frame
from mta.kernels import answers_rows
from mta.plan import Feed, Input, Plan
from mta.rows import Coder, Mask, counted_rows, fed_values
from mta.slider import AnswerOverflowError, Slider
from mta.windows import Rolling


class Track:
    """One key's windows.

    Memory is bounded by the longest window (plus the rows that still wait for an answer because
    later rows of the same time may come), not by the number of rows.
    """

    def __init__(self, spec: Rolling, plan: Plan, ticks: Ticks) -> None:
        self.spec = spec
        self.plan = plan
        self.ticks = ticks
        self.times = Vector()
        self.rows = KeptRows(plan)
        self.slider: Slider | None = None  # made when the types of the columns are known
        self.received = 0
        self.answered = 0
        self.lo = 0
        self.hi = 0

    def feed(
        self, ts: Ints | None, frame: Frame, columns: dict[str, Column], final: bool
    ) -> tuple[Ints, list[Answer]]:
        """Take the next rows; the answers that are certain now, and the numbers of their rows.

        final : no rows of this key will follow, so every row gets its answer
        """
        self.rows.append(frame, columns)
        self.received += frame.rows
        lo, hi = self._bounds(ts, final)
        at = np.arange(self.answered, self.answered + len(lo))
        if self.spec.every is not None:
            at = at[(at + 1) % self.spec.every == 0]
        made = self._slide(at, lo[at - self.answered], hi[at - self.answered])
        self.answered += len(lo)
        self._drop(lo, hi)
        return at, made

    def _bounds(self, ts: Ints | None, final: bool) -> tuple[Ints, Ints]:
        if self.spec.over_rows:
            return self._row_bounds(final)
        assert ts is not None  # a window over time has times
        self.times.extend(ts)
        base = self.times.first
        lo, hi = next_bounds(
            self.times.view(), self.answered - base, self.lo - base, self.hi - base,
            self.ticks.range, self.ticks.lag, self.spec.left_closed, self.spec.right_closed,
            ties_by_arrival(self.spec, self.ticks), final,
        )  # fmt: skip
        return lo + base, hi + base

    def _row_bounds(self, final: bool) -> tuple[Ints, Ints]:
        """Row windows need no times: the bounds follow from the row number."""
        first, last = row_edges(self.spec)
        stop = self.received if final else min(self.received, self.received - last + 1)
        i = np.arange(self.answered, max(stop, self.answered), dtype=np.int64)
        hi = np.clip(i + last, 0, self.received)
        return np.minimum(np.clip(i + first, 0, self.received), hi), hi

    def _slide(self, at: Ints, lo: Ints, hi: Ints) -> list[Answer]:
        columns = self.rows.columns()
        if self.slider is None:
            self.slider = Slider(self.plan, columns)
        try:
            raw = self.slider.slide(self.rows, GivenBounds(lo, hi), len(lo), columns)
        except AnswerOverflowError as error:
            raise error.explain(int(at[error.window])) from None
        return raw.answers(None, lambda rows: rows - self.rows.first)

    def _drop(self, lo: Ints, hi: Ints) -> None:
        """Let go of what no later window can need."""
        if len(lo):
            self.lo, self.hi = int(lo[-1]), int(hi[-1])
        self.rows.drop_to(self.lo - KEPT)
        self.times.drop_to(min(self.lo, self.answered))


class KeptRows:
    """The rows that the kernels of a plan may still read, in the order of the windows."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.first = 0
        self.end = 0
        self._feeds = {feed: Vector() for state in plan.states for feed in state.feeds}
        self._valids: dict[Input, Vector | None] = dict.fromkeys(plan.inputs)
        self._coders = {feed: Coder() for feed in self._feeds if feed.codes}
        # Columns of which answers are single values: what they are like, and the values.
        taken = {o.aggregate.column for o in plan.outputs if answers_rows(o.aggregate)}
        self._values: dict[str, Any] = {name: None for name in taken if name is not None}
        self._columns: dict[str, Column] = {}
        self._frame: Frame | None = None

    def append(self, frame: Frame, columns: dict[str, Column]) -> None:
        """More rows."""
        self._columns, self._frame = columns, frame
        for feed, vector in self._feeds.items():
            vector.extend(self._fed(frame, columns[feed.column], feed).view(np.int64))
        for source in self._valids:
            self._append_valid(source, counted_rows(source, columns), frame.rows)
        for name, kept in self._values.items():
            column = columns[name]
            if column.values is None:
                new = column.native
                self._values[name] = new if kept is None else frame.join_natives(kept, new)
            else:
                self._values[name] = kept = Vector(True, self.first) if kept is None else kept
                kept.extend(column.values.view(np.int64))
        self.end += frame.rows

    def _fed(self, frame: Frame, column: Column, feed: Feed) -> NDArray[Any]:
        if feed.codes:
            return self._coders[feed].codes(frame, column, self._feeds[feed])
        return fed_values(column, feed)

    def _append_valid(self, source: Input, valid: Mask | None, rows: int) -> None:
        kept = self._valids[source]
        if valid is not None and kept is None:
            self._valids[source] = kept = Vector(False, self.first)
            kept.extend(np.ones(self.end - self.first, np.uint8))
        if kept is not None:
            kept.extend(np.ones(rows, np.uint8) if valid is None else valid)

    def feed(self, feed: Feed) -> NDArray[Any]:
        """A column's 8-byte values or codes."""
        return self._feeds[feed].view()

    def valid(self, source: Input) -> Mask | None:
        """Which rows count."""
        kept = self._valids[source]
        return None if kept is None else kept.view().view(np.bool_)

    def columns(self) -> dict[str, Column]:
        """The columns as they came last; those that answers are taken from with all rows kept."""
        made = dict(self._columns)
        for name, kept in self._values.items():
            column = made[name]
            if column.values is None:
                made[name] = replace(column, native=kept, valid=None)
            else:
                values = kept.view().view(column.values.dtype)
                made[name] = replace(column, values=values, valid=None)
        return made

    def drop_to(self, row: int) -> None:
        """Let go of the rows before this number."""
        gone = max(row, self.first) - self.first
        for vector in (*self._feeds.values(), *self._valids.values()):
            if vector is not None:
                vector.drop_to(row)
        for name, kept in self._values.items():
            if isinstance(kept, Vector):
                kept.drop_to(row)
            elif kept is not None and self._frame is not None:
                self._values[name] = self._frame.slice_native(kept, gone)
        self.first += gone
