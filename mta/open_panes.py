"""Partial aggregates of open windows: a row is looked at once, in whatever order it comes.

The plans "wid", "paned" and "adapt" (WID, Paned-WID and AdaptWID of the thesis on window-ids,
chapter 6), for aggregates whose partials do not depend on the order of rows: counts, sums and means
of integers and exact ones of floats, extremes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from mta._buckets import Extents
from mta._panes import Panes
from mta._partials import MOST_INPUTS, Layout, Partials
from mta.buckets import edge_answers, landmark_end, window_edges
from mta.costs import eager_above
from mta.engine import Ints
from mta.frames import Answer, Frame, open_frame
from mta.groups import make_groups
from mta.open_windows import OpenWindows, Revisions, WindowAxis
from mta.pane_answers import Measures, PaneAnswers
from mta.periodic import Calendar, Hopping, Landmark
from mta.plan import Plan, State, check_types
from mta.push import EVER, fitted, key_values
from mta.rows import Chunk, Coders

# A group that has just become lazy should not become eager at once: the lower of the two bounds.
_SLACK = 0.75
# So many partials are in the cache; and so many answers are made in one piece, at most.
_AT_ONCE = 1 << 15
_MOST = 1 << 22
# Dead groups are forgotten when they are most, and more than these.
_FEW_GROUPS = 64


def no_partials(plan: Plan) -> str | None:
    """Why the aggregates of a plan have no partials that are free of order; None: they have."""
    if len(plan.inputs) > MOST_INPUTS:
        return f"more than {MOST_INPUTS} different sets of rows are counted"
    for output in plan.outputs:
        state = output.state
        if state is not None and not _is_free_of_order(state):
            shown = f"{output.aggregate!r} depends on the order of rows, or needs all of them"
            if state.name == "sum":
                shown = f"{output.aggregate!r} is summed in the order of rows"
            return f"{output.name}: {shown}"
    return None


def _is_free_of_order(state: State) -> bool:
    if state.name == "sum":
        return state.numerics == "exact" or state.numerics == "compensated"
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


class OpenPanes(OpenWindows):
    """Partial aggregates by group and bucket, where a bucket is a pane or a window.

    plan_name : "wid", "paned" or "adapt"
    frame : of rows, for the types of their columns
    """

    kind = "panes"

    def __init__(
        self,
        axis: WindowAxis,
        plan: Plan,
        frame: Frame,
        revisions: Revisions,
        plan_name: str,
    ) -> None:
        super().__init__(axis, plan, example_of(frame), revisions)
        self.plan_name = plan_name
        columns = {name: self.frame.column(name) for name in plan.columns}
        self.types = {name: column.slice(0, 0) for name, column in columns.items()}
        # In ticks one earlier, windows that hold their end are windows that hold their start.
        self.left = replace(axis, spec=replace(self.spec, closed="left"))
        self.measures, specs = Measures.of(plan, columns)
        self.coders = Coders(plan)
        self.groups = make_groups(self.spec.by, frame)
        layout = Layout(specs, len(self.measures.feeds))
        endless = isinstance(self.spec, Landmark)
        self.panes = Panes(layout, not endless and self._buckets_of_window() == 1, endless)
        self.newest: int | None = None  # the last bucket of all
        self.received = 0
        self.magnitude = 0  # of the integers so far
        if plan_name == "adapt":
            self.adapt(0, ())

    # ---------------------------------------------------------------------- the buckets

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

    def _buckets_of_window(self) -> int:
        return 1 if self.plan_name == "wid" else self.range // self.pane

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

    # -------------------------------------------------------------------------- rows in

    def prepare(self, frame: Frame, ts: Ints) -> Prepared:
        columns = {name: frame.column(name) for name in self.plan.columns}
        check_types(self.plan, columns)
        fit = {name: fitted(column, self.types[name]) for name, column in columns.items()}
        chunk = self.coders.chunk(frame, fit)
        buckets, repeats = self.buckets_of(ts)
        feeds = [np.ascontiguousarray(chunk.feeds[feed]) for feed in self.measures.feeds]
        return Prepared(
            self.groups.codes(frame), buckets, repeats, feeds, self._counted(chunk),
            max((_magnitude(feed) for feed in feeds), default=0),
            int(buckets.max()) if len(buckets) else -EVER,
        )  # fmt: skip

    def _counted(self, chunk: Chunk) -> list[Any]:
        valids = [chunk.valids[source] for source in self.measures.inputs]
        for number, valid in enumerate(valids):
            source = self.measures.inputs[number]
            if valid is not None and source not in self.measures.counts:
                self.measures.counts[source] = len(self.panes.layout.specs)
                self.panes.count_input(number)
        return [None if v is None else np.ascontiguousarray(v).view(np.uint8) for v in valids]

    def add(self, rows: Prepared, at: Ints) -> None:
        if not len(at):
            return
        whole = len(at) == len(rows.codes)

        def pick(array: Any) -> Any:
            return array if whole or array is None else array[at]

        self.panes.add(
            pick(rows.codes), pick(rows.buckets), [pick(x) for x in rows.feeds],
            [pick(x) for x in rows.counted], pick(rows.repeats), self.slide,
        )  # fmt: skip
        self.received += len(at)
        self.magnitude = max(self.magnitude, rows.magnitude)
        newest = rows.newest if whole else int(rows.buckets[at].max())
        self.newest = newest if self.newest is None else max(self.newest, newest)

    # --------------------------------------------------------------------- answers out

    def close(self, done: int, now: int) -> list[list[Answer]]:
        extents, wid = self._windows(done, now)
        step = max(1, _MOST // max(self.panes.alive, 1))
        parts = [self._close(extents, wid[i : i + step]) for i in range(0, len(wid), step)]
        return [part for part in parts if part]

    def _close(self, extents: Extents, wid: Ints) -> list[Answer]:
        """The answers of all groups over these windows, of which there is one at least."""
        groups = max(self.panes.alive, 1)
        answers = PaneAnswers(self.plan, self.measures, self.types, len(wid) * groups)
        made, step = Partials(self.panes.layout), max(1, _AT_ONCE // groups)
        for i in range(0, len(wid), step):
            some = wid[i : i + step]
            self.panes.close(*window_edges(extents, some), made)
            if len(made):
                mine, codes = some[made.places], made.codes
                answers.take(made, mine, codes, self._order_of(extents, mine, codes))
        return self._columns_of(extents, answers) if answers.n else []

    def _order_of(self, extents: Extents, wid: Ints, codes: Ints) -> Ints | None:
        """Which of these are answers, in order of windows and codes; None: all, as they are."""
        order = np.lexsort((codes, wid)) if self.panes.single else None
        if self.ahead:
            order = np.arange(len(wid)) if order is None else order
            complete = self.axis.complete_at(extents, wid[order])
            order = order[self.not_ahead(self._keys_of(codes[order]), complete)]
        return order

    def close_group(self, key: tuple[Any, ...], done: int, now: int) -> list[list[Answer]]:
        extents, wid = self._windows(done, now)
        code = self.groups.code(key)
        return [] if code is None else self._close_one(code, extents, wid)

    def _close_one(self, code: int, extents: Extents, wid: Ints) -> list[list[Answer]]:
        """The answers of one group over these windows."""
        if not len(wid):
            return []
        start, end = window_edges(extents, wid)
        if self.panes.single:
            end = start + 1
        made = self.panes.close_group(code, start, end)
        if not len(made):
            return []
        answers = PaneAnswers(self.plan, self.measures, self.types, len(made))
        answers.take(made, wid[made.places], made.codes, None)
        return [self._columns_of(extents, answers)]

    def _windows(self, done: int, now: int) -> tuple[Extents, Ints]:
        """The windows complete at `now` and not at `done` that may hold a bucket."""
        buckets = self.panes.buckets
        endless = isinstance(self.spec, Landmark)
        if endless and self.newest is not None:
            buckets = np.append(buckets, self.newest)
        extents = self._extents(buckets)
        none = np.zeros(0, np.int64)
        if not len(buckets):
            return extents, none
        low, high = self.axis.ended(extents, done) + 1, self.axis.ended(extents, now)
        first, last = extents.wids(buckets[[0, -1]])
        if endless:
            high = min(high, landmark_end(extents, buckets))
            low = low if done > -EVER else int(first[0])
        else:
            low, high = max(low, int(first[0])), min(high, int(last[1]))
        if low > high:
            return extents, none
        if endless or high - low <= 4 * len(buckets):
            return extents, np.arange(low, high + 1)
        offsets = np.array([0, len(buckets)])
        return extents, extents.over(buckets, offsets, False, high, low)[1]

    def revise(self, rows: Prepared, at: int, done: int) -> list[list[Answer]]:
        extents = self._extents(self.panes.buckets)
        bucket = rows.buckets[at : at + 1]
        first, last = (int(wid[0]) for wid in extents.wids(bucket))
        if self.plan_name == "wid" and rows.repeats is not None:
            last = first = int(extents.wids(bucket)[1][0])
            last += int(rows.repeats[at]) - 1
        low = max(first, self.axis.ended(extents, done - self.axis.within) + 1)
        wid = np.arange(low, min(last, self.axis.ended(extents, done)) + 1)
        return self._close_one(int(rows.codes[at]), extents, wid)

    def _columns_of(self, extents: Extents, answers: PaneAnswers) -> list[Answer]:
        raw, order, wid, codes = answers.finish()

        def keys() -> list[Any]:
            return self._keys_of(codes)

        def complete() -> Ints:
            return self.axis.complete_at(extents, wid)

        return [
            *self.groups.keys(codes),
            *edge_answers(self.spec, self.frame, self.axis.ticks, extents, wid),
            Answer("revision", self.numbers(len(wid), keys, complete)),
            *raw.answers(order),
        ]

    def _keys_of(self, codes: Ints) -> list[Any]:
        frame = self.frame.build_numbered(self.groups.keys(codes), np.arange(len(codes)))
        return key_values(open_frame(frame), self.spec.by, np.arange(len(codes)))

    def no_answers(self) -> list[Answer]:
        none = np.zeros(0, np.int64)
        nothing = PaneAnswers(self.plan, self.measures, self.types, 0)
        return self._columns_of(self._extents(none), nothing)

    # ----------------------------------------------------------------------- letting go

    def forget(self, done: int) -> None:
        buckets = self.panes.buckets
        if isinstance(self.spec, Landmark):
            if len(buckets):
                extents = self._extents(buckets)
                last = min(self.axis.ended(extents, done), landmark_end(extents, buckets))
                self.panes.seal(int(window_edges(extents, np.array([last]))[1][0]))
            return
        if len(buckets):
            extents = self._extents(buckets)
            needed = self.axis.ended(extents, max(done - self.axis.within, -EVER)) + 1
            if int(extents.wids(buckets[-1:])[1][0]) < needed:
                self.panes.drop(int(buckets[-1]) + 1)  # no further: later windows begin there
            elif int(extents.wids(buckets[:1])[0][0]) < needed:
                self.panes.drop(int(window_edges(extents, np.array([needed]))[0][0]))
        dead = len(self.groups) - self.panes.alive
        if dead > self.panes.alive + _FEW_GROUPS:
            self.groups.renumber(self.panes.compact(len(self.groups)))

    def adapt(self, behind: int, offsets: tuple[tuple[float, float], ...]) -> None:
        """Set when groups become eager, by Cond. 6.9.

        behind : how far the watermark is behind the newest row: so much longer windows are open
        offsets : of every source its share of the rows, and how far it is behind the first one
        """
        layout = self.panes.layout
        row = 8 * (1 + len(self.measures.feeds))
        duration = self.range + behind
        most = eager_above(layout.size + 6, row, duration, self.pane, offsets)
        bound = int(min(most, 2.0**62))
        self.panes.set_bounds(bound, int(_SLACK * bound))

    # ---------------------------------------------------------------------------- state

    def checkpoint(self, rows: Prepared) -> Callable[[], None] | None:
        """Only sums of integers can fail once rows are in; where they might, all is kept twice."""
        magnitude, more = max(self.magnitude, rows.magnitude), len(rows.codes)
        if magnitude * (self.received + more) < 2**63 or not self._sums_integers():
            return None
        if magnitude * (int(self.panes.rows.sum()) + more) < 2**63:
            return None
        names = ("panes", "groups", "newest", "received", "magnitude", "measures")
        saved = {name: getattr(self, name) for name in names}
        self._become(self.to_parts())

        def undo() -> None:
            vars(self).update(saved)

        return undo

    def _sums_integers(self) -> bool:
        return any(
            o.state is not None
            and o.state.name == "sum"
            and o.aggregate.fn == "sum"
            and o.state.overflow == "raise"
            and self.types[o.state.feeds[0].column].source != "float"
            for o in self.plan.outputs
        )

    def state(self) -> dict[str, int]:
        partials, rows = self.panes.held
        held = self.panes.nbytes + self.groups.nbytes
        return {"rows": rows, "partials": partials, "groups": self.panes.alive, "bytes": held}

    def to_parts(self) -> list[bytes]:
        newest = -EVER if self.newest is None else self.newest
        head = np.array([newest, self.received, *self._counted_inputs()], np.int64)
        panes, groups = self.panes.to_parts(), self.groups.to_parts()
        return [head.tobytes(), str(self.magnitude).encode(), *panes, *groups]

    def _counted_inputs(self) -> list[int]:
        return [self.measures.inputs.index(source) for source in self.measures.counts]

    def fill(self, parts: list[bytes]) -> None:
        newest, received, *counted = np.frombuffer(parts[0], np.int64).tolist()
        for number in counted:
            self.measures.counts[self.measures.inputs[number]] = len(self.panes.layout.specs)
            self.panes.count_input(number)
        self.newest = None if newest == -EVER else newest
        self.received, self.magnitude = received, int(parts[1])
        self.panes.fill(parts[2:10])
        self.groups.fill(parts[10:])
        if len(self.groups) < self.panes.codes:
            raise ValueError("a group has no key")

    def _become(self, parts: list[bytes]) -> None:
        """Go on with a copy of what these parts tell of."""
        copy = OpenPanes(self.axis, self.plan, self.frame, self.revisions, self.plan_name)
        copy.fill(parts)
        vars(self).update(vars(copy))


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
