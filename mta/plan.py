"""From the aggregates of a spec to the monoid states that they share.

mean and sum of one column hold one state, var and std another; a count is kept per column, and
only where the column has nulls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta.aggregates import FUNCTIONS, Aggregate, needed
from mta.errors import DataError, SpecError
from mta.frames import Answer, Column, plain_column

# MAX_OUTPUTS of the kernels.
MAX_ANSWERS = 64


@dataclass(frozen=True)
class Input:
    """A column as one group of aggregates sees it: with NaN as a value, or as null."""

    column: str
    skip_nan: bool


@dataclass(frozen=True)
class State:
    """One monoid over one input."""

    input: Input
    monoid: str
    nan: str


@dataclass(frozen=True)
class Output:
    """One answer: what is lowered from which state, and what it needs not to be null."""

    name: str
    aggregate: Aggregate
    input: Input | None
    state: State | None
    need: int

    @property
    def natural_need(self) -> int:
        """What it would need without min_count and min_periods."""
        return needed(replace(self.aggregate, min_count=0), 0)


@dataclass(frozen=True)
class Plan:
    """The answers of a spec, and what has to be kept to give them, each once."""

    outputs: tuple[Output, ...]

    @property
    def inputs(self) -> list[Input]:
        """The columns as the aggregates see them."""
        return list(dict.fromkeys(o.input for o in self.outputs if o.input is not None))

    @property
    def states(self) -> list[State]:
        """The monoids to run."""
        return list(dict.fromkeys(o.state for o in self.outputs if o.state is not None))

    @property
    def columns(self) -> list[str]:
        """The names of the columns to read."""
        return list(dict.fromkeys(i.column for i in self.inputs))

    def of_state(self, state: State) -> list[Output]:
        """The answers that are lowered from one state."""
        return [o for o in self.outputs if o.state == state]


def make_plan(aggs: tuple[tuple[str, Aggregate], ...], min_periods: int) -> Plan:
    """The states and outputs of named aggregates.

    Raises
    ------
    SpecError
        There are no aggregates, or more of one column than the kernels have room for.
    """
    if not aggs:
        raise SpecError("agg: say what to compute first, like .agg(total=agg.sum('amount'))")
    plan = Plan(tuple(_output(name, aggregate, min_periods) for name, aggregate in aggs))
    for source in [None, *plan.inputs]:
        if sum(o.input == source for o in plan.outputs) > MAX_ANSWERS:
            of = "rows" if source is None else f"column {source.column!r}"
            raise SpecError(f"agg: more than {MAX_ANSWERS} answers over {of}; make several specs")
    return plan


def _output(name: str, aggregate: Aggregate, min_periods: int) -> Output:
    need = needed(aggregate, min_periods)
    if aggregate.column is None:
        return Output(name, aggregate, None, None, need)
    source = Input(aggregate.column, aggregate.nan == "skip")
    monoid = FUNCTIONS[aggregate.fn].monoid
    if monoid is None:
        return Output(name, aggregate, source, None, need)
    # Only min and max order NaN; to a sum, the greatest value is NaN all the same.
    nan = "greatest" if aggregate.nan == "greatest" and monoid in ("min", "max") else "propagate"
    return Output(name, aggregate, source, State(source, monoid, nan), need)


def check_types(plan: Plan, columns: dict[str, Column]) -> None:
    """Refuse a column of a type that its aggregate can't use.

    Raises
    ------
    DataError
        Naming aggregate and column.
    """
    for output in plan.outputs:
        if output.input is None or output.state is None:
            continue
        column = columns[output.input.column]
        function = FUNCTIONS[output.aggregate.fn]
        if column.values is None or (function.numeric and not column.numeric):
            wants = "numbers" if function.numeric else "numbers or times"
            raise DataError(
                f"{output.name}: {output.aggregate!r} needs {wants}, "
                f"but column {column.name!r} is {column.dtype}"
            )


def input_column(source: Input, columns: dict[str, Column]) -> Column:
    """The column with NaN turned into null, where the aggregate skips NaN."""
    column = columns[source.column]
    if not source.skip_nan or column.kind != "float" or column.values is None:
        return column
    number = ~np.isnan(column.values)
    valid = number if column.valid is None else column.valid & number
    return plain_column(column.name, column.values, valid, column.dtype)


def answers(
    plan: Plan,
    columns: dict[str, Column],
    arrays: dict[str, NDArray[Any]],
    valids: dict[str, NDArray[np.bool_] | None],
    back: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
) -> list[Answer]:
    """The plan's answers with their nulls.

    arrays : per output, what the kernels gave; NaN already where a float answer has too few values
        for its own definition
    valids : per output that can be null, where it is not (None: nowhere)
    back : puts an array back in the order of the input
    """
    made = []
    for output in plan.outputs:
        raw, valid = arrays[output.name], valids.get(output.name)
        if valid is not None and raw.dtype.kind == "f" and output.need > output.natural_need:
            raw = np.where(valid, raw, np.nan)
        if back is not None:
            raw, valid = back(raw), None if valid is None else back(valid)
        like = None
        if output.aggregate.fn in ("min", "max") and output.input is not None:
            like = columns[output.input.column]
        made.append(Answer(output.name, raw, valid, like))
    return made
