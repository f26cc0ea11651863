"""How the aggregates of windows on a store are answered, and which columns of rows that takes.

Summed: by partials that leaving panes are taken out of again (`_totals`), beside extremes. Folded:
by partials that nothing is taken out of (`stored_folds`). Sorted: from all rows of the window, anew
for every window (`stored_holistic`). Cut: likewise, in two halves that meet where they do in
memory (`stored_cuts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._partials import MOST_INPUTS
from mta.engine import Ints
from mta.frames import Answer, Column
from mta.kernels import Columns
from mta.pane_rows import is_free_of_order
from mta.plan import Output, Plan, State

TS, SEQ = "ts", "seq"  # columns of rows: when, and in which order they came

_FOLDED = ("moments", "powers", "pairs", "weighted", "products", "ends")
_SORTED = ("ranks", "tally")
_ORDERED = ("list", "runs")
_CUT = ("user", "kll", "hll", "theta", "frequent")


def is_summed_for(state: State | None) -> bool:
    """Whether answers are those of partials that can be taken out of others (None: counts)."""
    return state is None or is_free_of_order(state)


def is_folded_for(state: State | None) -> bool:
    """Whether answers are those of partials that nothing can be taken out of."""
    return state is not None and (state.name in _FOLDED or (state.name == "arg" and _of_two(state)))


def is_sorted_for(state: State | None) -> bool:
    """Whether answers are found in the sorted values, or rows, of a window."""
    if state is None:
        return False
    return state.name in _SORTED or is_ordered_for(state)


def is_ordered_for(state: State) -> bool:
    """Whether answers depend on the order of rows, by which these are sorted."""
    return state.name in _ORDERED or (state.name == "arg" and not _of_two(state))


def is_cut_for(state: State | None) -> bool:
    """Whether answers depend on the order of rows, and on where a window is cut in two."""
    if state is None:
        return False
    return state.name in _CUT or (state.name == "sum" and state.numerics == "fast")


def merges(state: State) -> bool:
    """Whether its values are sketches: these are no column of a record, but items of a log, with
    the numbers of their rows."""
    return state.sketch is not None and state.sketch.merge


def needs_rows(state: State | None) -> bool:
    """Whether answers are found in all rows of a window."""
    return is_sorted_for(state) or is_cut_for(state)


def _of_two(state: State) -> bool:
    """Whether the answer stands in another column than what is compared."""
    return len(state.input.columns) == 2


def summed_plan(plan: Plan) -> Plan:
    """Those answers of a plan that are sums, counts and extremes."""
    return Plan(tuple(output for output in plan.outputs if is_summed_for(output.state)))


def settled_plan(plan: Plan, types: Columns) -> Plan:
    """The plan for columns of these types: the sum of integers is one, whatever numerics are asked
    for."""

    def settled(output: Output) -> Output:
        state = output.state
        if state is None or state.name != "sum" or types[state.feeds[0].column].kind == "float":
            return output
        return replace(output, state=replace(state, numerics="exact"))

    return Plan(tuple(map(settled, plan.outputs)))


def why_not_stored(plan: Plan) -> str | None:
    """Why the aggregates of a plan have no windows on a store; None: they have."""
    if len(plan.inputs) > MOST_INPUTS:
        return f"more than {MOST_INPUTS} different sets of rows are counted"
    return None


def value_column(name: str) -> str:
    """What the values of a column are called in a record."""
    return f"v.{name}"


def columns_of(plan: Plan) -> tuple[str, ...]:
    """The columns of rows from which a plan is answered, beside those that are summed."""
    folded = [state for state in plan.states if is_folded_for(state)]
    ordered = [state for state in plan.states if is_sorted_for(state)]
    cut = [state for state in plan.states if is_cut_for(state)]
    valued = [*folded, *(state for state in cut if not merges(state))]
    read = [name for state in valued for name in state.input.columns]
    read += [state.input.columns[0] for state in ordered]
    names = dict.fromkeys(value_column(name) for name in read)
    by_place = any(
        state.name in ("ends", "arg", "tally", *_ORDERED) for state in [*folded, *ordered]
    )
    return (*names, *((TS, SEQ) if by_place or cut else ()))


class SomeAnswers:
    """Those states and answers of a plan that are found in one way.

    types : of the columns, by name; serves : whether a state is one of them
    """

    def __init__(self, plan: Plan, types: Columns, serves: Callable[[State | None], bool]) -> None:
        self.plan, self.types = plan, types
        self.states = [state for state in plan.states if serves(state)]
        self.outputs = [output for output in plan.outputs if serves(output.state)]


def of_questions(plan: Plan, state: State, asked: list[Any]) -> dict[str, Any]:
    """By the names of all answers of a state, those of ``plan.asked(state)``."""
    known = {o.question: one for o, one in zip(plan.asked(state), asked, strict=True)}
    return {output.name: known[output.question] for output in plan.of_state(state)}


@dataclass
class WindowLists:
    """What an answer is of every group of a window: cells, and for lists how many of each."""

    cells: Ints
    lengths: Ints | None = None

    def take(self, codes: Ints) -> tuple[Ints, Ints | None]:
        """Those of some groups, in this order."""
        if self.lengths is None:
            return self.cells[codes], None
        starts, wanted = (np.cumsum(self.lengths) - self.lengths)[codes], self.lengths[codes]
        within = np.arange(wanted.sum()) - np.repeat(np.cumsum(wanted) - wanted, wanted)
        return self.cells[np.repeat(starts, wanted) + within], wanted


def answer_column(
    output: Output, values: NDArray[Any], counts: Ints, like: Column | None = None
) -> Answer:
    """The column of an answer: these values, each over so many; like: a column of their type."""
    valid = counts >= output.need
    if valid.all():
        return Answer(output.name, values, None, like)
    if values.dtype.kind == "f":
        values = np.where(valid, values, np.nan)
    return Answer(output.name, values, valid, like)
