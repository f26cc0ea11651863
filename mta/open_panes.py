"""Partial aggregates of open windows: a row is looked at once, in whatever order it comes.

The plans "wid", "paned" and "adapt" (WID, Paned-WID and AdaptWID of the thesis on window-ids,
chapter 6), for aggregates whose partials do not depend on the order of rows: counts, sums and means
of integers and exact ones of floats, extremes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._buckets import Extents
from mta._panes import Panes
from mta._partials import Layout, Partials
from mta.buckets import edge_answers, landmark_end, window_edges
from mta.costs import eager_above
from mta.engine import Ints
from mta.errors import DataError
from mta.frames import Answer, Frame
from mta.open_windows import OpenWindows, Revisions, WindowAxis, later
from mta.pane_answers import PaneAnswers
from mta.pane_rows import PaneRows, Prepared
from mta.partial_batch import PartialBatch
from mta.periodic import Landmark
from mta.plan import Plan
from mta.push import EVER

# A group that has just become lazy should not become eager at once: the lower of the two bounds.
_SLACK = 0.75
# So many partials are in the cache; and so many answers are made in one piece, at most.
_AT_ONCE = 1 << 15
_MOST = 1 << 22
# Dead groups are forgotten when they are most, and more than these.
_FEW_GROUPS = 64


class OpenPanes(PaneRows, OpenWindows):
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
        OpenWindows.__init__(self, axis, plan, frame, revisions)
        PaneRows.__init__(self, axis, plan, frame, plan_name)
        layout = Layout(self.specs, len(self.measures.feeds))
        endless = isinstance(self.spec, Landmark)
        self.panes = Panes(layout, not endless and self._buckets_of_window() == 1, endless)
        self.most = _MOST  # answers in one piece
        self.newest: int | None = None  # the last bucket of all
        self.received = 0
        self.magnitude = 0  # of the integers so far
        if plan_name == "adapt":
            self.adapt(0, ())

    # ---------------------------------------------------------------------- the buckets

    def _buckets_of_window(self) -> int:
        return 1 if self.plan_name == "wid" else self.range // self.pane

    # -------------------------------------------------------------------------- rows in

    def prepare(self, frame: Frame, ts: Ints) -> Prepared:
        rows = self.read_rows(frame, ts)
        self._count_inputs([counted is not None for counted in rows.counted])
        return rows

    def _count_inputs(self, wanted: list[bool]) -> None:
        """Count the rows that count for these inputs, which all have done so far."""
        for number, source in enumerate(self.measures.inputs):
            if wanted[number] and source not in self.measures.counts:
                self.measures.counts[source] = len(self.panes.layout.specs)
                self.panes.count_input(number)

    def add(self, rows: Prepared, at: Ints) -> None:
        if not len(at):
            return
        some = rows.take(at)
        self.panes.add(
            some.codes, some.buckets, some.feeds, some.counted, some.repeats, self.slide
        )  # fmt: skip
        self.received += len(at)
        self.magnitude = max(self.magnitude, rows.magnitude)
        self.newest = some.newest if self.newest is None else max(self.newest, some.newest)

    # ---------------------------------------------------------------------- partials in

    def prepare_partials(self, batch: PartialBatch) -> list[Partials]:
        """The partials of a batch in the layout and with the codes of those that are held.

        All errors that they can have are raised here.
        """
        codes = self._codes_of(batch)
        inputs = len(self.measures.inputs)
        for part in batch.parts:
            rows, first = part.partials.counts(0), len(part.partials.layout.specs) - inputs
            counts = [part.partials.counts(first + k) for k in range(inputs)]
            self._count_inputs([bool((mine != rows).any()) for mine in counts])
        try:
            fitting = [part.partials.in_layout(self.panes.layout) for part in batch.parts]
        except ValueError:
            raise DataError("merge: a column was of another type in the rows before") from None
        for partials in fitting:
            partials.renumber(codes)
        return fitting

    def _codes_of(self, batch: PartialBatch) -> NDArray[np.int32]:
        try:
            return self.groups.codes_of_keys(batch.keys, batch.groups).astype(np.int32)
        except DataError as error:
            raise DataError(f"merge: {error}") from None

    def merge(self, partials: Partials, magnitude: int, done: int) -> int:
        """Take partials, but for those whose windows have all been answered by `done`.

        magnitude : the greatest integer of their rows, without its sign

        Returns
        -------
        How many rows are in those that are not taken.
        """
        ts = partials.places + self.axis.right
        late = later(self.axis.windows_of(ts)[3], self.axis.within) <= done
        rows = partials.counts(0)
        buckets, repeats = self.buckets_of(ts)
        if late.any():
            kept = np.flatnonzero(~late)
            partials, buckets = partials.in_layout(partials.layout, kept), buckets[kept]
            repeats = None if repeats is None else repeats[kept]
        self.panes.merge(partials, partials.codes, buckets, repeats, self.slide)
        self.received += int(rows[~late].sum())
        self.magnitude = max(self.magnitude, magnitude)
        if len(buckets):
            newest = int(buckets.max())
            self.newest = newest if self.newest is None else max(self.newest, newest)
        return int(rows[late].sum())

    # --------------------------------------------------------------------- answers out

    def close(self, done: int, now: int) -> list[list[Answer]]:
        extents, wid = self._windows(done, now)
        step = max(1, self.most // max(self.panes.alive, 1))
        parts = [self._close(extents, wid[i : i + step]) for i in range(0, len(wid), step)]
        return [part for part in parts if part]

    def _peek(self, done: int) -> list[list[Answer]]:
        held = self.panes  # whose window level goes forward only, and where rows become partials
        self.panes = Panes(held.layout, held.single, isinstance(self.spec, Landmark))
        try:
            self.panes.fill(held.to_parts())
            return self.close(done, EVER)
        finally:
            self.panes = held

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
            order = order[self.not_ahead(self.groups.key_values(codes[order]), complete)]
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
        high = min(high, landmark_end(extents, buckets) if endless else int(last[1]))
        if not endless or not self.panes.taken_in:
            # (A watermark may be far behind the first row: what ends between them is empty.)
            low = max(low, int(first[0]))
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
            return self.groups.key_values(codes)

        def complete() -> Ints:
            return self.axis.complete_at(extents, wid)

        return [
            *self.groups.keys(codes),
            *edge_answers(self.spec, self.frame, self.axis.ticks, extents, wid),
            Answer("revision", self.numbers(len(wid), keys, complete)),
            *raw.answers(order),
        ]

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

    def weight(self, rows: Prepared) -> tuple[int, int]:
        return rows.magnitude, len(rows.codes)

    def checkpoint(self, magnitude: int, count: int) -> Callable[[], None] | None:
        """Only sums of integers can fail once rows are in; where they might, all is kept twice."""
        magnitude = max(self.magnitude, magnitude)
        if magnitude * (self.received + count) < 2**63 or not self._sums_integers():
            return None
        if magnitude * (int(self.panes.rows.sum()) + count) < 2**63:
            return None
        names = ("panes", "groups", "newest", "received", "magnitude", "measures")
        saved = {name: getattr(self, name) for name in names}
        copy = OpenPanes(self.axis, self.plan, self.frame, self.revisions, self.plan_name)
        copy.fill(self.to_parts())
        self.panes, self.groups, self.measures = copy.panes, copy.groups, copy.measures

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
