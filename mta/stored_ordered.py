"""Aggregates of windows on a store that depend on the order of rows: list, longest_run, and how far
from the newest row an extreme lies. The rows of a window are sorted by group and time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from mta._folds import BackKernel, Fold
from mta._kernel import Counter
from mta._paged_kernels import FoldedHalves
from mta.engine import Ints
from mta.kernels import Columns, answer_room, make_kernel
from mta.plan import Plan, State
from mta.row_blocks import Arrays
from mta.sorted_runs import CODE, COUNT, RAW, edges_of
from mta.stored_kinds import WindowLists, is_ordered_for, of_questions


class OrderedAnswers:
    """The answers of some states of a plan over rows in order of groups and time.

    types : of the columns, by name
    """

    def __init__(self, plan: Plan, types: Columns) -> None:
        self.plan, self.types = plan, types
        states = [state for state in plan.states if is_ordered_for(state) and state.name != "list"]
        self.folds = {state: Fold(self._kernel(state)) for state in states}

    def _kernel(self, state: State) -> Any:
        outputs, counter = self.plan.asked(state), Counter([])
        if state.name == "runs":
            return FoldedHalves(
                counter, cast(Any, make_kernel(state, outputs, self.types, counter))
            )
        source = self.types[state.feeds[0].column].source
        return BackKernel(counter, source, state.nan, [o.aggregate.fn for o in outputs])

    def of_rows(self, state: State, rows: Iterator[Arrays], counts: Ints) -> dict[str, WindowLists]:
        """The answers of one state, of which so many rows of each group count."""
        if state.name == "list":
            items = np.concatenate([np.zeros(0, np.int64), *(some[RAW] for some in rows)])
            return {o.name: WindowLists(items, counts) for o in self.plan.of_state(state)}
        fold, outputs = self.folds[state], self.plan.asked(state)
        table = np.zeros((len(counts), fold.words), np.int64)
        fold.clear(table)
        for some in rows:
            codes = some[CODE]
            edges = edges_of(codes)
            parts = np.empty((len(edges) - 1, fold.words), np.int64)
            fold.fold([some[RAW]], some[COUNT].astype(np.uint8), edges, parts)
            fold.join(table, codes[edges[:-1]], parts)
        rooms = [answer_room(output, self.types, len(counts)) for output in outputs]
        fold.lower(table, counts, rooms)  # whose answers all fit
        return of_questions(self.plan, state, [WindowLists(room) for room in rooms])
