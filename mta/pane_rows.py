"""Rows as partial aggregates by group and pane take them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from mta._buckets import Extents
from mta._partials import MOST_INPUTS
from mta.buckets import window_edges
from mta.engine import Ints
from mta.frames import Frame, open_frame
from mta.groups import make_groups
from mta.open_windows import WindowAxis
from mta.pane_answers import Measures
from mta.periodic import Calendar, Hopping, Landmark
from mta.plan import Plan, State, check_types
from mta.push import EVER, fitted
from mta.rows import Coders


def no_partials(plan: Plan) -> str | None:
    """Why the aggregates of a plan have no partials that are free of order; None: they have."""
    if len(plan.inputs) > MOST_INPUTS:
        return f"more than {MOST_INPUTS} different sets of rows are counted"
    for output in plan.outputs:
        state = output.state
        if state is not None and not is_free_of_order(state):
            shown = f"{output.aggregate!r} depends on the order of rows, or needs all of them"
            if state.name == "sum":
                shown = f"{output.aggregate!r} is summed in the order of rows"
            return f"{output.name}: {shown}"
    return None


def is_free_of_order(state: State) -> bool:
    """Whether a partial of it is of bounded size, whatever order its rows come in."""
    if state.name == "sum":
        return state.numerics != "fast"
    return state.name in ("min", "max")


@dataclass(frozen=True)
class Prepared:
    """Rows as panes take them."""

    codes: Ints
    buckets: Ints
    repeats: Ints | None
    feeds: list[Any]
    counted: list[Any]
    magnitude: int
    newest: int
    more: dict[str, Any] = field(default_factory=dict)  # other columns of them

    def take(self, at: Ints) -> Prepared:
        """The rows at these places, which rise."""
        if len(at) == len(self.codes):
            return self

        def pick(array: Any) -> Any:
            return None if array is None else array[at]

        return Prepared(
            pick(self.codes), pick(self.buckets), pick(self.repeats),
            [pick(x) for x in self.feeds], [pick(x) for x in self.counted], self.magnitude,
            int(self.buckets[at].max()) if len(at) else -EVER,
            {name: pick(column) for name, column in self.more.items()},
        )  # fmt: skip


class PaneRows:
    """Codes of groups, buckets and columns of rows.

    plan_name : "wid", "paned" or "adapt": what a bucket is
    frame : of rows, for the types of their columns
    """

    def __init__(self, axis: WindowAxis, plan: Plan, frame: Frame, plan_name: str) -> None:
        self.axis, self.spec, self.plan = axis, axis.spec, plan
        self.plan_name = plan_name
        self.frame = example_of(frame)
        columns = {name: self.frame.column(name) for name in plan.columns}
        self.types = {name: column.slice(0, 0) for name, column in columns.items()}
        # In ticks one earlier, windows that hold their end are windows that hold their start.
        self.left = replace(axis, spec=replace(self.spec, closed="left"))
        self.measures, self.specs = Measures.of(plan, columns)
        self.coders = Coders(plan)
        self.groups = make_groups(self.spec.by, frame)

    @cached_property
    def range(self) -> int:
        """Length of a window in ticks; of endless ones the slide, by which they grow."""
        return lengths_of(self.axis)[0]

    @cached_property
    def slide(self) -> int:
        """Distance of two windows in ticks."""
        return lengths_of(self.axis)[1]

    @cached_property
    def pane(self) -> int:
        """Length of a bucket in ticks."""
        return self.slide if self.plan_name == "wid" else pane_length(self.axis)

    def _extents(self, buckets: Ints) -> Extents:
        return self.left.extents(buckets)

    def buckets_of(self, ts: Ints) -> tuple[Ints, Ints | None]:
        """The first bucket of every time, and in how many it is."""
        t = ts - self.axis.right
        if isinstance(self.spec, Calendar):
            extents = self._extents(t)
            return window_edges(extents, extents.wids(t)[1])[0], None
        if self.plan_name == "wid" and isinstance(self.spec, Hopping):
            extents = self._extents(t)
            first, last = extents.wids(t)
            return first * self.slide + extents.origin, last - first + 1
        return self._panes_of_time.starts(t), None

    @cached_property
    def _panes_of_time(self) -> Extents:
        return Extents(self.pane, self.pane, self._extents(np.zeros(0, np.int64)).origin)

    def read_rows(self, frame: Frame, ts: Ints) -> Prepared:
        """All errors that rows can have are raised here."""
        columns = {name: frame.column(name) for name in self.plan.columns}
        check_types(self.plan, columns)
        fit = {name: fitted(column, self.types[name], frame) for name, column in columns.items()}
        chunk = self.coders.chunk(frame, fit)
        buckets, repeats = self.buckets_of(ts)
        feeds = [np.ascontiguousarray(chunk.feeds[feed]) for feed in self.measures.feeds]
        valids = [chunk.valids[source] for source in self.measures.inputs]
        counted = [None if v is None else np.ascontiguousarray(v).view(np.uint8) for v in valids]
        return Prepared(
            self.groups.codes(frame), buckets, repeats, feeds, counted,
            max((_magnitude(feed) for feed in feeds), default=0),
            int(buckets.max()) if len(buckets) else -EVER,
        )  # fmt: skip


def lengths_of(axis: WindowAxis) -> tuple[int, int]:
    """Range and slide in ticks: of endless windows the slide twice, of others their length."""
    spec, unit = axis.spec, axis.ticks.finer
    if isinstance(spec, Calendar):
        clock = spec.clock(unit)
        return (clock.edge(1) - clock.edge(0),) * 2
    if isinstance(spec, Landmark):
        return (spec.slide.in_unit(unit) or 1,) * 2
    assert isinstance(spec, Hopping)
    return spec.range.in_unit(unit) or 1, (spec.slide or spec.range).in_unit(unit) or 1


def pane_length(axis: WindowAxis) -> int:
    """The longest length of which all windows are made, in ticks.

    (Calendar windows are not all of one length; each is a pane of its own.)
    """
    return gcd(*lengths_of(axis))


def example_of(frame: Frame) -> Frame:
    """A few rows that show the types of all columns: of each, one with a value."""
    rows = {0} if frame.rows else set()
    for name in frame.names():
        valid = frame.column(name).valid
        rows |= set() if valid is None else set(np.flatnonzero(valid)[:1].tolist())
    return open_frame(frame.take(np.array(sorted(rows), np.int64)))


def _magnitude(feed: Any) -> int:
    """The greatest of integers without their signs; 0 of floats."""
    if feed.dtype.kind == "f" or not len(feed):
        return 0
    return max(int(feed.max()), -int(feed.min()))
