"""From partial aggregates of windows to columns of answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mta._partials import Partials
from mta.engine import Ints
from mta.kernels import Columns
from mta.plan import Feed, Input, Output, Plan, State
from mta.slider import AnswerOverflowError, RawAnswers, RawPart


@dataclass(frozen=True)
class Measures:
    """Which measure of a layout is which.

    counts : of the inputs that have had nulls; all rows count for the others
    """

    feeds: tuple[Feed, ...]
    inputs: tuple[Input, ...]
    states: dict[State, int]
    counts: dict[Input, int]

    @staticmethod
    def of(plan: Plan, columns: Columns) -> tuple[Measures, list[tuple[str, int, int, str, str]]]:
        """The measures of a plan over columns of these types, and their specs."""
        feeds = list(dict.fromkeys(state.feeds[0] for state in plan.states))
        inputs = tuple(plan.inputs)
        specs = [("rows", 0, -1, "", "")]
        states = {}
        for state in plan.states:
            feed = state.feeds[0]
            source = columns[feed.column].source
            states[state] = len(specs)
            specs.append(
                (state.name, feeds.index(feed), inputs.index(state.input), source, state.nan)
            )
        return Measures(tuple(feeds), inputs, states, {}), specs


class PaneAnswers:
    """Answers of windows that come some at a time, and go to one array per column.

    most : how many there can be; room that is not used takes no memory
    """

    def __init__(self, plan: Plan, measures: Measures, types: Columns, most: int) -> None:
        self.plan, self.measures, self.most = plan, measures, most
        self.raw = RawAnswers(plan, types, most)
        self.all_wid, self.all_codes = np.empty(most, np.int64), np.empty(most, np.int64)
        self.n = 0
        self.orders: list[Ints] = []  # of some of them, where they are not to be as they came

    def take(self, made: Partials, wid: Ints, codes: Ints, order: Ints | None) -> None:
        """The partials of these windows and groups; `order`: which of them are answers, in order.

        Raises
        ------
        OverflowError
            The sum of integers of one does not fit.
        """
        start, self.n = self.n, self.n + len(made)
        self.all_wid[start : self.n], self.all_codes[start : self.n] = wid, codes
        part = RawPart(self.raw, start, self.n)
        counted: dict[int, Ints] = {}
        for output in self.plan.outputs:
            measure = self.measures.counts.get(output.input, 0) if output.input else 0
            if measure not in counted:
                counted[measure] = made.counts(measure)
            self._mask(output, counted[measure], start)
            self._lower(output, made, part, counted[measure], wid)
        if order is not None:
            self.orders.append(start + order)

    def _mask(self, output: Output, counts: Ints, start: int) -> None:
        """Say which answers are null, if any of them is."""
        if output.need <= 0 or int(counts.min(initial=output.need)) >= output.need:
            return
        masks = self.raw.masks
        if output.name not in masks:
            masks[output.name] = np.ones(self.most, np.bool_)
        masks[output.name][start : start + len(counts)] = counts >= output.need

    def _lower(
        self, output: Output, made: Partials, part: RawPart, counts: Ints, wid: Ints
    ) -> None:
        room = part.room(output)
        if output.state is None:
            room[:] = counts
            return
        measure, fn = self.measures.states[output.state], output.aggregate.fn
        if output.state.name != "sum":
            made.extremes(measure, room)
        elif fn == "sum" and room.dtype.kind in "iu":
            wraps = output.state.overflow == "wrap"
            failed = made.totals(measure, counts, output.need, wraps, room)
            if failed >= 0:
                error = AnswerOverflowError(output, failed)
                raise error.explain(f"number {wid[failed]}") from None
        else:
            made.quotients(measure, counts if fn == "mean" else None, room)

    def finish(self) -> tuple[RawAnswers, Ints | None, Ints, Ints]:
        """The answers, their order (None: as they are), and in order, their windows and codes."""
        self.raw.cut(self.n)
        wid, codes = self.all_wid[: self.n], self.all_codes[: self.n]
        if not self.orders:
            return self.raw, None, wid, codes
        order = np.concatenate(self.orders)
        return self.raw, order, wid[order], codes[order]
