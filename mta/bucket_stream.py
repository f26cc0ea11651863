"""BucketStream: hopping, tumbling, landmark and calendar windows over rows that are pushed.

Rows may come in any order. What open windows hold (`mta.open_windows`) is rows or partial
aggregates, as the plan says; a window is answered when the watermark (`mta.progress`) has come to
its end. The answers are those of a batch over the rows that were not late, and do not depend on how
the rows were cut into pushes, nor on the plan.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta.buckets import check_edge_names
from mta.durations import Duration
from mta.engine import Ints, Ticks, time_axis, time_values
from mta.errors import DataError, SpecError
from mta.frames import Answer, Frame, open_frame
from mta.open_panes import OpenPanes
from mta.open_plans import ENOUGH, better_choice, first_choice, follow
from mta.open_rows import OpenRows
from mta.open_tallies import OpenTallies
from mta.open_windows import EVER, NEVER, NO_ROWS, OpenWindows, Revisions, WindowAxis, later
from mta.periodic import Periodic
from mta.plan import make_plan
from mta.progress import Late, Progress, Watermark
from mta.slider import join_answers
from mta.stream import check_kind, check_ticks, key_values


class BucketStream:
    """Pushes rows through a periodic spec; see ``Periodic.stream``, which makes it.

    A row that is in no open window any more is late; one that falls between two windows (slide >
    range) is unassigned. Both are counted.
    """

    def __init__(self, spec: Periodic, plan: str = "auto") -> None:
        check_edge_names(spec, "revision")
        if spec.empty == "emit":
            raise SpecError(
                "empty: 'emit' is for batches: of a window that is empty so far, a stream does not "
                "know whether its group will ever have another one"
            )
        self.spec = spec
        self.plan = make_plan(spec.asked, 0)
        self.wanted_plan = plan
        self.choice, self.may_choose = first_choice(spec, self.plan, plan)
        self.watermark = spec.progress or Watermark()
        self.lateness = spec.lateness or Late()
        self.frame: Frame | None = None  # of no rows; of the kind that is pushed
        self.axis: WindowAxis | None = None
        self.progress: Progress | None = None
        self.open: OpenWindows | None = None
        self.revisions = Revisions()
        self.answered_to = NEVER  # windows that are complete by then have been answered
        self.received = self.late_count = self.unassigned = 0
        self.late_rows: list[Any] = []
        self.broken: BaseException | None = None

    # ----------------------------------------------------------------------- rows in

    def push(self, data: Any) -> Any:
        """Take rows, in any order; the answers of the windows that are complete by them.

        Parameters
        ----------
        data : what the spec takes in batch, always of the same kind and with the same types

        Returns
        -------
        The same kind: what the spec gives in batch, and "revision", the number of the answer of a
        window (1, and more where late rows revise it). In order of the windows' ends; groups of one
        window come in no particular order.

        Raises
        ------
        DataError, ColumnError
            As in batch, or the types have changed, or a row is late where that is an error. Nothing
            of the push has been taken in.
        OverflowError
            An integer answer does not fit. Nothing of the push has been taken in.
        """
        self._check_whole()
        before = dict(vars(self))
        progress = None if self.progress is None else self.progress.copy()
        counts = self.revisions.counts
        undo: list[Any] = []
        try:
            return self._push(data, undo)
        except Exception as error:
            begun = undo and undo[0] is None  # rows are in, and nothing was kept to take them out
            for back in undo if not begun else []:
                back()
            vars(self).clear()
            vars(self).update(before)
            self.progress, self.revisions.counts = progress, counts
            self.broken = error if begun else None
            raise

    def advance(self, to: Any, source: Hashable = None) -> Any:
        """Say that no row before this time will come (from a source): what is complete by that.

        to : a time as the column holds them (datetime, numpy.datetime64, pandas.Timestamp or int)
        """
        progress, axis = self._started("advance")
        progress.promise(axis.ticks.of(to, "advance"), source, source is None)
        return self._answer()

    def idle(self, source: Hashable) -> Any:
        """Say that a source is silent and shall hold nothing back before its next row."""
        progress, _ = self._started("idle")
        progress.silence(source)
        return self._answer()

    def finish(self) -> Any:
        """No more rows: the answers of all windows that are still open. None before a push."""
        if self.frame is None:
            return None
        return self._answer(final=True)

    def late(self) -> Any:
        """The rows that came too late, as they were pushed, and forget them. None before a push."""
        if self.frame is None:
            return None
        rows, self.late_rows = self.late_rows, []
        return self.frame.join(rows) if rows else self.frame.take(NO_ROWS)

    def state(self) -> dict[str, Any]:
        """What it holds: the plan; single rows and partial aggregates of open windows, of how many
        groups (where that is known), and their bytes; the watermark in ticks (None: there is none
        yet); how many rows have come, come late, and fell between windows."""
        held = {"rows": 0, "partials": 0, "bytes": 0} if self.open is None else self.open.state()
        return {
            "plan": self.choice.plan,
            **held,
            "watermark": None if self.progress is None else self.progress.now,
            "received": self.received,
            "late": self.late_count,
            "unassigned": self.unassigned,
        }

    def explain(self) -> str:
        """The plan that it follows, why, and what it holds, as text."""
        held = {k: v for k, v in self.state().items() if k != "plan"}
        shown = ", ".join(f"{name} {value}" for name, value in held.items())
        return "\n".join(
            [
                repr(self.spec),
                f"plan     {self.choice.plan}: {self.choice.why}",
                f"state    {shown}",
            ]
        )

    def to_bytes(self) -> bytes:
        """Everything it holds as bytes: versioned, checksummed, no code inside (needs pyarrow).

        Raises
        ------
        SnapshotError
            It holds values that a snapshot can't store, such as Python objects.
        """
        from mta.bucket_state import stream_bytes  # it builds on this module

        return stream_bytes(self)

    # ------------------------------------------------------------------ what is pushed

    def _push(self, data: Any, undo: list[Any]) -> Any:
        frame = open_frame(data)
        ts = self._read(frame)
        assert self.progress is not None and self.open is not None
        before, after = self.progress.see(ts, self._sources(frame))
        done = np.maximum(before, self.answered_to)  # windows complete by then are answered
        late, outside, cuts = self._sort_out(ts, done)
        rows = self.open.prepare(frame, ts)
        undo.append(self.open.checkpoint(rows))
        made: list[list[Answer]] = []
        for start, stop in zip(cuts, [*cuts[1:], len(ts)], strict=True):
            made += self._close(int(done[start])) if start else []
            self.open.add(rows, _places(start, stop, late, outside))
            if self.lateness.mode == "revise" and start < stop:
                made += self._revise(rows, start, int(done[start]), late, outside)
        made += self._close(int(after[-1])) if len(ts) else []
        self._keep_late(frame, late)
        self.unassigned += 0 if outside is None else int(outside.sum())
        self.received += len(ts)
        answered = self._assemble(made)
        self.open.forget(self.answered_to)
        self._choose_plan()
        return answered

    def _sort_out(
        self, ts: Ints, done: Ints
    ) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None, list[int]]:
        """Which rows are late, and which between windows (None: none); and the rows before which
        windows have to be answered that they belong to, after row 0."""
        assert self.axis is not None
        if not len(ts):
            return None, None, [0]
        if not self.spec.leaves_rows_out:
            first_end = self.axis.windows_of(ts.min(keepdims=True))[2]
            self.axis.windows_of(ts.max(keepdims=True))  # that its edges fit
            if first_end[0] > done[-1]:  # as a rule
                return None, None, [0]
        first, last, first_end, last_end = self.axis.windows_of(ts)
        outside = last < first
        late = ~outside & (later(last_end, self.axis.within) <= done)
        self._refuse_late(late, ts)
        behind = np.flatnonzero(~outside & ~late & (first_end <= done))
        return late, outside, self._cuts(ts, behind, done)

    def _cuts(self, ts: Ints, behind: Ints, done: Ints) -> list[int]:
        """Of rows that are in a window which has been answered, those that come after one more."""
        assert self.axis is not None
        if self.lateness.mode == "revise":  # each is an answer more
            return sorted({0, *behind.tolist(), *(behind + 1).tolist()} - {len(ts)})
        ended = self.axis.extents(ts).ended_by(np.maximum(done[behind] - self.axis.right, NEVER))
        so_far = self.axis.ended(self.axis.extents(ts), self.answered_to)
        return sorted({0, *behind[ended > np.append(so_far, ended[:-1])].tolist()})

    def _check_whole(self) -> None:
        if self.broken is not None:
            raise DataError(f"push: one has failed half-way before ({self.broken!r}); start anew")

    def _started(self, call: str) -> tuple[Progress, WindowAxis]:
        if self.progress is None or self.axis is None:
            raise DataError(f"{call}: push rows first, which say what a time is")
        return self.progress, self.axis

    def _read(self, frame: Frame) -> Ints:
        """The times, and of the first push all that is known from then on."""
        check_kind(frame, self.frame)
        on = self.spec.on
        assert on is not None
        for name, argument in [(on, "on"), *((n, "by") for n in self.spec.by)]:
            frame.require(name, argument)
        for name in self.plan.columns:
            frame.require(name, "agg")
        column = frame.column(on)
        ticks = time_axis(self.spec, column)
        ts = time_values(column, ticks)
        check_ticks(self.spec, ticks, None if self.axis is None else self.axis.ticks)
        if self.axis is None:
            self.begin(frame, ticks)
        assert self.axis is not None
        if self.axis.origin is None and len(ts):
            self.axis = WindowAxis(self.spec, ticks, int(ts[0]))
            assert self.open is not None
            self.open.axis = self.axis
        return ts

    def begin(self, frame: Frame, ticks: Ticks) -> None:
        """Rows like these are what is pushed."""

        def length(of: Duration | None) -> int | None:
            return None if of is None else of.in_unit(ticks.finer)

        told = self.watermark
        self.frame = open_frame(frame.take(NO_ROWS))
        self.progress = Progress(
            length(told.delay), length(told.idle_after), length(told.max_ahead), told.sources,
            told.combine,
        )  # fmt: skip
        self.axis = WindowAxis(self.spec, ticks)
        self.open = OpenRows(self.axis, self.plan, self.frame, self.revisions)

    def _sources(self, frame: Frame) -> list[Hashable] | None:
        name = self.watermark.source
        if name is None:
            return None
        frame.require(name, "source")  # null: of no source
        return [key[0] for key in key_values(frame, (name,), np.arange(frame.rows))]

    def _refuse_late(self, late: NDArray[np.bool_], ts: Ints) -> None:
        if self.lateness.mode == "error" and late.any():
            row = int(np.flatnonzero(late)[0])
            raise DataError(
                f"push: row {row} ({self.spec.on} = {ts[row]} ticks) is late: all its windows have "
                f"been answered ({int(late.sum())} rows)"
            )

    def _keep_late(self, frame: Frame, late: NDArray[np.bool_] | None) -> None:
        if late is not None and late.any():
            self.late_rows = [*self.late_rows, frame.take(np.flatnonzero(late))]
            self.late_count += int(late.sum())

    # ------------------------------------------------------------------------- the plan

    def _choose_plan(self) -> None:
        """Once it is known what the rows are like, do better than to keep them."""
        assert self.open is not None
        if isinstance(self.open, OpenPanes) and self.choice.plan == "adapt":
            assert self.progress is not None
            self.open.adapt(*self.progress.lags())
        if not isinstance(self.open, OpenRows) or isinstance(self.open, OpenTallies):
            return
        if self.may_choose and self.received >= ENOUGH and len(self.open.kept.ts):
            self.choice, self.may_choose = better_choice(self.open), False
        self.open = follow(self.choice, self.open) or self.open

    # --------------------------------------------------------------------- answers out

    def _answer(self, final: bool = False) -> Any:
        self._check_whole()
        assert self.progress is not None and self.open is not None
        now = EVER if final else self.progress.now
        answered = self._assemble([] if now is None else self._close(now))
        self.open.forget(self.answered_to)
        return answered

    def _close(self, now: int) -> list[list[Answer]]:
        """Answer the windows that end after those answered so far, up to now."""
        assert self.open is not None
        if now <= self.answered_to:
            return []
        made = self.open.close(self.answered_to, now)
        self.answered_to = now
        if self.axis is not None:
            self.revisions.forget(now - self.axis.within)
        return made

    def _revise(
        self, rows: Any, at: int, done: int, late: NDArray[np.bool_] | None,
        outside: NDArray[np.bool_] | None,
    ) -> list[list[Answer]]:  # fmt: skip
        """Answer windows again that this row is in, if it is in any that has been answered."""
        assert self.open is not None
        if late is None or outside is None or late[at] or outside[at]:
            return []
        return self.open.revise(rows, at, done)

    def _assemble(self, made: list[list[Answer]]) -> Any:
        assert self.frame is not None and self.open is not None
        parts = made or [self.open.no_answers()]
        columns = [join_answers(list(same), self.frame) for same in zip(*parts, strict=True)]
        count = len(columns[-1].lengths if columns[-1].lengths is not None else columns[-1].values)
        return self.frame.build_numbered(columns, np.arange(count))


def _places(
    start: int, stop: int, late: NDArray[np.bool_] | None, outside: NDArray[np.bool_] | None
) -> Ints:
    """The rows from start to stop that are in a window."""
    places = np.arange(start, stop)
    if late is None or outside is None:
        return places
    return places[~(late | outside)[start:stop]]
