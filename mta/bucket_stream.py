"""BucketStream: hopping, tumbling, landmark and calendar windows over rows that are pushed.

Rows may come in any order. What open windows hold (`mta.open_windows`) is rows or partial
aggregates, as the plan says; a window is answered when the watermark (`mta.progress`) has come to
its end. The answers are those of a batch over the rows that were not late, and do not depend on how
the rows were cut into pushes, nor on the plan.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta.buckets import check_edge_names
from mta.engine import Ints, Ticks
from mta.errors import DataError, SpecError
from mta.frames import Answer, Column, Frame, open_frame
from mta.open_panes import OpenPanes
from mta.open_plans import ENOUGH, better_choice, first_choice, follow
from mta.open_rows import OpenRows
from mta.open_tallies import OpenTallies
from mta.open_windows import OpenWindows, Revisions, WindowAxis, later
from mta.periodic import Periodic
from mta.progress import Watermark
from mta.push import EVER, NEVER, NO_ROWS, Punctuation, PushedStream, key_values
from mta.slider import join_answers

Mask = NDArray[np.bool_]


class BucketStream(PushedStream[Periodic]):
    """Pushes rows through a periodic spec; see ``Periodic.stream``, which makes it.

    A row that is in no open window any more is late; one that falls between two windows (slide >
    range) is unassigned. Both are counted.
    """

    snapshot_kind = "buckets"

    def __init__(self, spec: Periodic, plan: str = "auto") -> None:
        check_edge_names(spec, "revision")
        if spec.empty == "emit":
            raise SpecError(
                "empty: 'emit' is for batches: of a window that is empty so far, a stream does not "
                "know whether its group will ever have another one"
            )
        super().__init__(spec)
        self.watermark = spec.progress or Watermark()
        self.wanted_plan = plan
        self.choice, self.may_choose = first_choice(spec, self.plan, plan)
        self.axis: WindowAxis | None = None
        self.open: OpenWindows | None = None
        self.revisions = Revisions()
        self.answered_to = NEVER  # windows that are complete by then have been answered
        self.unassigned = 0
        self.undo: list[Any] = []
        self.broken: BaseException | None = None

    # ----------------------------------------------------------------------- the calls

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
        return self._attempt(self._push, data)

    def advance(self, to: Any, source: Hashable = None, *, key: Any = None) -> Any:
        """Say that no row before this time will come (from a source, or of a group): what is
        complete by that.

        to : a time as the column holds them (datetime, numpy.datetime64, pandas.Timestamp or int)
        key : of one group only: its key, or a tuple of several
        """
        if key is None:
            return super().advance(to, source)
        if not self.spec.by or source is not None:
            raise DataError("advance: a key is of the columns of `by`, and of no source")
        return self._attempt(self._advance_group, to, key if isinstance(key, tuple) else (key,))

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
        plan = f"plan     {self.choice.plan}: {self.choice.why}"
        return "\n".join([repr(self.spec), plan, f"state    {shown}"])

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

    def _push(self, data: Any) -> Any:
        made: list[list[Answer]] = []
        for rows, mark in self._pieces(open_frame(data)):
            made += self._take(rows)
            made += [] if mark is None else self._punctuate(mark)
        answered = self._assemble(made)
        self._let_go()
        return answered

    def _take(self, frame: Frame) -> list[list[Answer]]:
        """Take rows; the answers of the windows that are complete by them."""
        ts = self._read(frame)
        assert self.progress is not None and self.open is not None
        before, after = self.progress.see(ts, self._sources(frame))
        done = np.maximum(before, self.answered_to)  # windows complete by then are answered
        own = self._own_done(frame, done)
        late, outside, cuts = self._sort_out(ts, done, own)
        rows = self.open.prepare(frame, ts)
        self.undo.append(self.open.checkpoint(rows))
        made: list[list[Answer]] = []
        for start, stop in zip(cuts, [*cuts[1:], len(ts)], strict=True):
            made += self._close(int(done[start])) if start else []
            self.open.add(rows, _places(start, stop, late, outside))
            if self.lateness.mode == "revise" and start < stop:
                made += self._revise(rows, start, int(own[start]), late, outside)
        made += self._close(int(after[-1])) if len(ts) else []
        self._keep_late(frame, NO_ROWS if late is None else np.flatnonzero(late))
        self.unassigned += 0 if outside is None else int(outside.sum())
        self.received += len(ts)
        return made

    def _read(self, frame: Frame) -> Ints:
        """The times, and of the first push all that is known from then on."""
        self._check_kind(frame)
        for name in self.spec.by:
            frame.require(name, "by")
        for name in self.plan.columns:
            frame.require(name, "agg")
        ts = self._read_times(frame)
        assert self.axis is not None and self.frame is not None and self.ticks is not None
        if self.open is None:
            self.open = OpenRows(self.axis, self.plan, self.frame, self.revisions)
        if self.axis.origin is None and len(ts):
            self.axis = self.open.axis = WindowAxis(self.spec, self.ticks, int(ts[0]))
        return ts

    def _begin_time(self, ticks: Ticks, on_type: Column) -> None:
        super()._begin_time(ticks, on_type)
        self.axis = WindowAxis(self.spec, ticks)

    def _own_done(self, frame: Frame, done: Ints) -> Ints:
        """By when windows of each row's own group have been answered."""
        assert self.open is not None
        ahead = self.open.ahead
        if not ahead:
            return done
        keys = key_values(frame, self.spec.by, np.arange(frame.rows))
        return np.maximum(done, np.array([ahead.get(key, NEVER) for key in keys], np.int64))

    def _sort_out(
        self, ts: Ints, done: Ints, own: Ints
    ) -> tuple[Mask | None, Mask | None, list[int]]:
        """Which rows are late, and which between windows (None: none); and the rows before which
        windows have to be answered that they belong to, after row 0."""
        assert self.axis is not None
        if not len(ts):
            return None, None, [0]
        if own is done and not self.spec.leaves_rows_out:
            first_end = self.axis.windows_of(ts.min(keepdims=True))[2]
            self.axis.windows_of(ts.max(keepdims=True))  # that its edges fit
            if first_end[0] > done[-1]:  # as a rule
                return None, None, [0]
        first, last, first_end, last_end = self.axis.windows_of(ts)
        outside = last < first
        late = ~outside & (later(last_end, self.axis.within) <= own)
        self._refuse_late(late, ts)
        behind = np.flatnonzero(~outside & ~late & (first_end <= own))
        return late, outside, self._cuts(ts, behind, done)

    def _cuts(self, ts: Ints, behind: Ints, done: Ints) -> list[int]:
        """Of rows that are in a window which has been answered, those that come after one more."""
        assert self.axis is not None
        if self.lateness.mode == "revise":  # each is an answer more
            return sorted({0, *behind.tolist(), *(behind + 1).tolist()} - {len(ts)})
        extents = self.axis.extents(ts)
        ended = extents.ended_by(np.maximum(done[behind] - self.axis.right, NEVER))
        so_far = self.axis.ended(extents, self.answered_to)
        return sorted({0, *behind[ended > np.append(so_far, ended[:-1])].tolist()})

    # ---------------------------------------------------------------------- punctuation

    def _advance_group(self, to: Any, key: tuple[Any, ...]) -> Any:
        _, ticks = self._started("advance")
        answered = self._assemble(self._close_group(key, ticks.of(to, "advance")))
        self._let_go()
        return answered

    def _punctuate(self, mark: Punctuation) -> list[list[Answer]]:
        """A row has said that there will be none before it."""
        assert self.progress is not None
        if mark.key is not None:
            return self._close_group(mark.key, mark.time)
        self.progress.promise(mark.time, mark.source, mark.source is None)
        now = self.progress.now
        return [] if now is None else self._close(now)

    def _close_group(self, key: tuple[Any, ...], now: int) -> list[list[Answer]]:
        """Answer the windows of one group up to now."""
        assert self.open is not None
        done = max(self.answered_to, self.open.ahead.get(key, NEVER))
        if now <= done:
            return []
        made = self.open.close_group(key, done, now)
        self.open.ahead = {**self.open.ahead, key: now}
        return made

    # ------------------------------------------------------------------------- the plan

    def _let_go(self) -> None:
        """Forget what no window needs; and once it is known what the rows are like, do better than
        to keep them."""
        assert self.open is not None
        self.open.forget(self.answered_to)
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
        if self.progress is None or self.open is None:  # only an empty frame has come
            raise DataError("push rows first, which say what a time is")
        now = EVER if final else self.progress.now
        answered = self._assemble([] if now is None else self._close(now))
        self._let_go()
        return answered

    def _close(self, now: int) -> list[list[Answer]]:
        """Answer the windows that end after those answered so far, up to now."""
        assert self.open is not None and self.axis is not None
        if now <= self.answered_to:
            return []
        made = self.open.close(self.answered_to, now)
        self.answered_to = now
        self.revisions.forget(now - self.axis.within)
        if self.open.ahead:
            self.open.ahead = {key: to for key, to in self.open.ahead.items() if to > now}
        return made

    def _revise(
        self, rows: Any, at: int, done: int, late: Mask | None, outside: Mask | None
    ) -> list[list[Answer]]:
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

    # ------------------------------------------------------------------- all or nothing

    def _mark(self) -> Any:
        if self.broken is not None:
            raise DataError(f"push: one has failed half-way before ({self.broken!r}); start anew")
        self.undo = []
        ahead = {} if self.open is None else self.open.ahead
        return super()._mark(), self.revisions.counts, ahead

    def _go_back(self, before: Any) -> None:
        values, counts, ahead = before
        undo, self.undo = self.undo, []
        whole = None not in undo  # else rows are in, and nothing was kept to take them out
        for back in reversed(undo if whole else []):
            back()
        super()._go_back(values)
        self.revisions.counts = counts
        if self.open is not None:
            self.open.ahead = ahead
        self.broken = None if whole else sys.exc_info()[1]


def _places(start: int, stop: int, late: Mask | None, outside: Mask | None) -> Ints:
    """The rows from start to stop that are in a window."""
    places = np.arange(start, stop)
    if late is None or outside is None:
        return places
    return places[~(late | outside)[start:stop]]
