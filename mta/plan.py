"""From the aggregates of a spec to the states that they share.

mean and sum of one column hold one state, var and std another, all quantiles of a column a third; a
count is kept per column, and only where the column has nulls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mta.errors import DataError, SpecError
from mta.frames import Column
from mta.functions import FUNCTIONS, Aggregate

# MAX_OUTPUTS of the kernels.
MAX_ANSWERS = 64


class Parts:
    """The parts of one plan: equal ones are one object, so that streams find them by identity."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def one(self, part: Any) -> Any:
        """The part that is known as this, or else this."""
        return self._known.setdefault((type(part), *vars(part).values()), part)


@dataclass(frozen=True, eq=False)
class Input:
    """The rows that an aggregate counts: those where none of its columns is null (or, where NaN is
    skipped, NaN)."""

    columns: tuple[str, ...]
    skip_nan: bool


@dataclass(frozen=True, eq=False)
class Feed:
    """A column as a kernel reads it: 8-byte values, or codes that are equal for equal values.

    items : what values without an 8-byte form have to be: "texts", or the bytes of sketches. The
        kernel gets codes of them, and what these stand for
    """

    column: str
    skip_nan: bool
    codes: bool = False
    items: str | SketchOf | None = None

    @property
    def takes_sketches(self) -> bool:
        """Whether its values are the bytes of sketches."""
        return isinstance(self.items, SketchOf)


@dataclass(frozen=True)
class SketchOf:
    """Which sketch: its family, its size and, where sketches are merged, what they are of."""

    family: str
    size: int
    merge: bool = False
    source: str | None = None


@dataclass(frozen=True, eq=False)
class State:
    """What one kernel keeps: one state of the table of functions, over one input."""

    name: str
    input: Input
    feeds: tuple[Feed, ...]
    nan: str = "propagate"
    numerics: str = "compensated"
    overflow: str = "raise"
    monoid: Any = None  # of the user's own
    sketch: SketchOf | None = None


@dataclass(frozen=True)
class Output:
    """One answer: which state it is lowered from, and what it needs not to be null."""

    name: str
    aggregate: Aggregate
    input: Input | None
    state: State | None
    need: int

    @cached_property
    def question(self) -> tuple[State | None, Aggregate]:
        """What the kernel is asked, however many values the answer then needs."""
        return self.state, replace(self.aggregate, min_count=0)

    @cached_property
    def needed(self) -> Aggregate:
        """The aggregate with what its answer needs: a null one need not fit in 64 bits."""
        return replace(self.aggregate, min_count=self.need)


@dataclass(frozen=True)
class Plan:
    """The answers of a spec, and what has to be kept to give them, each once."""

    outputs: tuple[Output, ...]

    @cached_property
    def inputs(self) -> list[Input]:
        """The rows that count, as the aggregates see them."""
        return list(dict.fromkeys(o.input for o in self.outputs if o.input is not None))

    @cached_property
    def states(self) -> list[State]:
        """The states to run."""
        return list(dict.fromkeys(o.state for o in self.outputs if o.state is not None))

    @cached_property
    def feeds(self) -> list[Feed]:
        """What the states are fed with."""
        return list(dict.fromkeys(feed for state in self.states for feed in state.feeds))

    @cached_property
    def sketch_feeds(self) -> list[Feed]:
        """Those of sketches to be merged, which are large, and none is like another."""
        return [feed for feed in self.feeds if feed.takes_sketches]

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns to read."""
        return list(dict.fromkeys(name for i in self.inputs for name in i.columns))

    @cached_property
    def slots(self) -> dict[str, int]:
        """A number for every answer, by its name: one for all that ask the same of one state."""
        numbers: dict[Any, int] = {}
        asked = ((o.name, o.name if o.state is None else o.question) for o in self.outputs)
        return {name: numbers.setdefault(question, len(numbers)) for name, question in asked}

    @cached_property
    def taken(self) -> list[str]:
        """The names of the answers that are values of rows."""
        return [o.name for o in self.outputs if o.aggregate.answers_rows]

    @cached_property
    def shared(self) -> frozenset[int]:
        """The slots that more than one answer has."""
        slots = list(self.slots.values())
        return frozenset(slot for slot in slots if slots.count(slot) > 1)

    @cached_property
    def _of_inputs(self) -> dict[Input | None, list[Output]]:
        known: dict[Input | None, list[Output]] = {source: [] for source in [None, *self.inputs]}
        for output in self.outputs:
            known[output.input].append(output)
        return known

    def of_state(self, state: State) -> list[Output]:
        """The answers that are lowered from one state."""
        return [o for o in self.outputs if o.state == state]

    def asked(self, state: State) -> list[Output]:
        """The same without repetitions: of equal questions, the one that needs least."""
        return self._asked[state]

    @cached_property
    def _asked(self) -> dict[State, list[Output]]:
        known: dict[State, dict[Any, Output]] = {state: {} for state in self.states}
        for output in self.outputs:
            if output.state is not None:
                asked = known[output.state].setdefault(output.question, output)
                if output.need < asked.need:
                    known[output.state][output.question] = output
        return {state: list(asked.values()) for state, asked in known.items()}

    def of_input(self, source: Input | None) -> list[Output]:
        """The answers that count the same rows (None: all of them)."""
        return self._of_inputs.get(source, [])


def make_plan(
    aggs: tuple[tuple[str, Aggregate], ...], min_periods: int, parts: Parts | None = None
) -> Plan:
    """The states and outputs of named aggregates.

    parts : of several plans that are to have equal parts in common

    Raises
    ------
    SpecError
        There are no aggregates, or more of one column than the kernels have room for.
    """
    if not aggs:
        raise SpecError("agg: say what to compute first, like .agg(total=agg.sum('amount'))")
    parts = parts or Parts()
    plan = Plan(tuple(_output(name, aggregate, min_periods, parts) for name, aggregate in aggs))
    for source in [None, *plan.inputs]:
        if len(plan.of_input(source)) > MAX_ANSWERS:
            of = "rows" if source is None else f"column {source.columns[0]!r}"
            raise SpecError(f"agg: more than {MAX_ANSWERS} answers over {of}; make several specs")
    return plan


def _output(name: str, aggregate: Aggregate, min_periods: int, parts: Parts) -> Output:
    need = aggregate.needed(min_periods)
    if aggregate.column is None:
        return Output(name, aggregate, None, None, need)
    # To quantiles of a sketch a NaN has no rank: it is not there.
    ranked = FUNCTIONS[aggregate.fn].state == "kll" and not aggregate.merge
    source = parts.one(Input(aggregate.columns, aggregate.nan == "skip" or ranked))
    return Output(name, aggregate, source, _state(aggregate, source, parts), need)


# States that order their values, and so can take NaN for the greatest of all.
_ORDERED = ("min", "max", "ranks", "arg")


def _state(aggregate: Aggregate, source: Input, parts: Parts) -> State | None:
    name = FUNCTIONS[aggregate.fn].state
    if name is None:
        return None
    if name == "ends" and aggregate.others:
        name = "arg"  # ordered by a column
    nan = "greatest" if aggregate.nan == "greatest" and name in _ORDERED else "propagate"
    sketch = _sketch_of(name, aggregate)
    feeds = tuple(parts.one(feed) for feed in _feeds(name, source, sketch))
    state: State = parts.one(
        State(
            name, source, feeds, nan, aggregate.numerics, aggregate.overflow, aggregate.monoid,
            sketch,
        )
    )  # fmt: skip
    return state


def _sketch_of(name: str, aggregate: Aggregate) -> SketchOf | None:
    if not aggregate.size:
        return None
    source = None
    if aggregate.merge:
        source = aggregate.source or (*FUNCTIONS[aggregate.fn].sources, None)[0]
    return SketchOf(name, aggregate.size, aggregate.merge, source)


def _feeds(name: str, source: Input, sketch: SketchOf | None) -> tuple[Feed, ...]:
    """What the kernel of a state reads."""
    read = source.columns
    if sketch is not None:
        items = sketch if sketch.merge else None if name == "kll" else "texts"
        return (Feed(read[0], source.skip_nan, items=items),)
    if name in ("ends", "list"):
        read = ()  # which rows there are is enough
    elif name == "arg":
        read = source.columns[-1:]
    items = "texts" if name == "user" else None
    return tuple(Feed(column, source.skip_nan, name == "tally", items) for column in read)


def check_types(plan: Plan, columns: dict[str, Column]) -> None:
    """Refuse a column of a type that its aggregate can't use.

    Raises
    ------
    DataError
        Naming aggregate and column.
    """
    for output in plan.outputs:
        names = output.input.columns if output.input is not None else ()
        for place, name in enumerate(names):
            wants = wanted_type(output.aggregate, place)
            if not _TYPES[wants](columns[name]):
                raise DataError(
                    f"{output.name}: {output.aggregate!r} needs {TYPE_WORDS[wants]}, "
                    f"but column {name!r} is {columns[name].dtype}{_cast(columns[name])}"
                )


def _cast(column: Column) -> str:
    """What can be done with a column that is of numbers all the same."""
    if "decimal" not in str(column.dtype).lower():
        return ""
    return "; cast it to float64, or to integers of its smallest unit, whose sums are exact"


def wanted_type(aggregate: Aggregate, place: int) -> str:
    """What the column at this place of its arguments has to be."""
    state, takes = FUNCTIONS[aggregate.fn].state, FUNCTIONS[aggregate.fn].takes
    if aggregate.merge:
        return "sketches"
    if state in ("ends", "arg"):
        # What is compared is the last column; a value is only looked up.
        compared = place == 1 or (state == "arg" and not aggregate.others)
        return "ordered" if compared else "any"
    if aggregate.fn in ("quantile", "median") and aggregate.interp not in ("linear", "midpoint"):
        return "ordered"
    return takes


_TYPES: dict[str, Callable[[Column], bool]] = {
    "numbers": lambda column: column.values is not None and column.numeric,
    "ordered": lambda column: column.values is not None,
    "bools": lambda column: column.kind in ("bool", "null"),
    "values": lambda column: column.values is None or column.numeric,
    "any": lambda column: True,
    # Of these, the values themselves are looked at as well.
    "hashed": lambda column: True,
    "sketches": lambda column: column.kind in ("other", "null"),
}
TYPE_WORDS = {
    "numbers": "numbers",
    "ordered": "numbers or times",
    "bools": "booleans",
    "values": "numbers, booleans or texts",
    "sketches": "the bytes of sketches",
}
