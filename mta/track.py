"""Track: the window state of one key whose rows come in order, a chunk at a time.

Index (times), raw values that have not entered the window yet, one forest per state. What it
answers does not depend on how the rows were cut into chunks, and is what the batch kernels answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._bounds import next_bounds
from mta._core import Forest
from mta._vector import Vector
from mta.engine import Ints, Ticks, output_array, raise_overflow, row_edges, ties_by_arrival
from mta.frames import Answer, Column
from mta.plan import Input, Plan, State, answers, input_column
from mta.windows import Rolling


@dataclass
class Waiting:
    """An input's rows that no window has reached yet, and its count of non-null values."""

    values: Vector = field(default_factory=Vector)
    valid: Vector | None = None
    count: Forest | None = None  # made at the first null; until then every row counts


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
        self.received = 0
        self.answered = 0
        self.lo = 0
        self.hi = 0
        self.waiting = {source: Waiting() for source in plan.inputs}
        self.forests: dict[State, Forest] = {}

    def feed(
        self, ts: Ints | None, columns: dict[str, Column], rows: int, final: bool
    ) -> list[Answer]:
        """Take the next rows; the answers that are certain now, in order of the rows.

        final : no rows of this key will follow, so every row gets its answer
        """
        inputs = {source: input_column(source, columns) for source in self.waiting}
        for source, column in inputs.items():
            self._append(source, column, rows)
        self.received += rows
        lo, hi = self._bounds(ts, final)
        made = self._slide(inputs, columns, lo, hi)
        self.answered += len(lo)
        self._drop(lo, hi)
        return made

    def _append(self, source: Input, column: Column, rows: int) -> None:
        wait = self.waiting[source]
        if column.valid is not None and wait.valid is None:
            wait.valid = Vector(False, wait.values.first)
            wait.valid.extend(np.ones(len(wait.values), np.uint8))
            wait.count = self._count_so_far()
        values = np.zeros(rows, np.int64) if column.values is None else column.values.view(np.int64)
        wait.values.extend(values)
        if wait.valid is not None:
            wait.valid.extend(np.ones(rows, np.uint8) if column.valid is None else column.valid)

    def _count_so_far(self) -> Forest:
        """A count of the rows inside, none of which is null."""
        count = Forest("sum", "int")
        ones = np.ones(self.hi - self.lo, np.int64)
        edges = np.array([self.lo]), np.array([self.hi])
        count.slide(ones, None, self.lo, *edges, None, [("sum", 0, np.empty(1, np.int64))])
        return count

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

    def _slide(
        self, inputs: dict[Input, Column], columns: dict[str, Column], lo: Ints, hi: Ints
    ) -> list[Answer]:
        counts = {source: self._counts(source, lo, hi) for source in inputs}
        values: dict[str, NDArray[Any]] = {}
        for state in self.plan.states:
            column, wait = inputs[state.input], self.waiting[state.input]
            forest = self.forests.get(state)
            if forest is None:
                forest = Forest(state.monoid, column.source, state.nan)
                self.forests[state] = forest
            outputs = self.plan.of_state(state)
            wanted = [(o, output_array(o, column, len(lo))) for o in outputs]
            failed = forest.slide(
                wait.values.view(), None if wait.valid is None else wait.valid.view(),
                wait.values.first, lo, hi, counts[state.input],
                [(o.aggregate.fn, o.aggregate.ddof, array.view(np.int64)) for o, array in wanted],
            )  # fmt: skip
            if failed >= 0:
                raise_overflow(state, outputs, self.answered + failed)
            values.update({o.name: array for o, array in wanted})
        valids: dict[str, NDArray[np.bool_] | None] = {}
        for output in self.plan.outputs:
            count = counts[output.input] if output.input is not None else None
            count = hi - lo if count is None else count
            if output.state is None:
                values[output.name] = count
            valid = count >= output.need
            valids[output.name] = None if valid.all() else valid
        return answers(self.plan, columns, values, valids)

    def _counts(self, source: Input, lo: Ints, hi: Ints) -> Ints | None:
        wait = self.waiting[source]
        if wait.count is None or wait.valid is None:
            return None
        counts = np.empty(len(lo), np.int64)
        ones = wait.valid.view().astype(np.int64)
        wait.count.slide(ones, None, wait.valid.first, lo, hi, None, [("sum", 0, counts)])
        return counts

    def _drop(self, lo: Ints, hi: Ints) -> None:
        """Let go of what no later window can need."""
        if len(lo):
            self.lo, self.hi = int(lo[-1]), int(hi[-1])
        for wait in self.waiting.values():
            wait.values.drop_to(self.hi)
            if wait.valid is not None:
                wait.valid.drop_to(self.hi)
        self.times.drop_to(min(self.lo, self.answered))
