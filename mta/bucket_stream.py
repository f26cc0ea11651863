"""BucketStream: hopping, tumbling, landmark and calendar windows over rows that are pushed.

Rows may come in any order. What open windows hold (`mta.open_windows`) is rows or partial
aggregates, as the plan says; a window is answered when the watermark (`mta.progress`) has come to
its end. The answers are those of a batch over the rows that were not late, and do not depend on how
the rows were cut into pushes, nor on the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from mta.buckets import check_edge_names
from mta.engine import Ints
from mta.errors import DataError, SpecError
from mta.frames import Answer, Frame, open_frame
from mta.open_panes import OpenPanes
from mta.open_plans import ENOUGH, better_choice, empty_windows, first_choice, follow
from mta.open_rows import OpenRows
from mta.open_tallies import OpenTallies
from mta.open_windows import OpenWindows, Revisions, WindowAxis
from mta.partial_batch import PartialBatch
from mta.periodic import Periodic
from mta.periodic_stream import Mask, PeriodicStream, places_in
from mta.planner import Choice
from mta.push import EVER, NEVER, NO_ROWS, Punctuation, key_values
from mta.slider import join_answers


class BucketStream(PeriodicStream):
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
        self.wanted_plan = plan
        self.choice, self.may_choose = first_choice(spec, self.plan, plan)
        self.open: OpenWindows | None = None
        self.revisions = Revisions()
        self.undo: list[Any] = []

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
        return self._take_in(self._push, data)

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
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) != len(self.spec.by):
            raise DataError(
                f"advance: key: a value of each of {self.spec.by} is needed, not {key!r}"
            )
        return self._attempt(self._advance_group, to, keys)

    def merge(self, batch: PartialBatch | bytes, source: Hashable = None) -> Any:
        """Take partial aggregates of rows, which a low-level stage gave; the answers that are
        complete by them.

        They are those of the rows themselves, less those that were late in the stage. The plans
        "paned", "wid" and "adapt" take partials; "auto" becomes "paned" by the first of them.

        Parameters
        ----------
        batch : what a call of ``spec.low_level()`` of the same spec gave, or its bytes
        source : which of several stages it is from; each has a watermark of its own, and the least
            one counts (name them by ``.watermark(sources=)`` so that none is waited for in vain)
            None: the only one

        Returns
        -------
        As `push`.

        Raises
        ------
        DataError
            It is no such batch, of another spec, or of rows with other types; `origin="first"`, and
            another stage began with another row. Nothing of it has been taken in.
        SnapshotError
            The bytes are damaged, or no batch.
        SpecError
            The plan keeps rows as they are.
        OverflowError
            An integer answer does not fit. Nothing of it has been taken in.

        Notes
        -----
        Rows of a batch whose windows have all been answered (because this source was silent, or not
        waited for) are counted as late; ``op.late()`` can't show them. Thesis on window-ids, 8.3.3.
        """
        if isinstance(batch, bytes):
            batch = PartialBatch.from_bytes(batch)
        return self._attempt(self._merge, batch, source)

    def peek(self) -> Any:
        """The answers of the windows that are open and hold a row, as if no more came; None before
        a push.

        Nothing changes by it: the windows are answered, as `push` and `advance` give them, when
        they are complete. Until then rows that come may change their answers, or open more windows.
        "revision" is the number that the answer would have. Cost: as that of giving them, and of a
        copy of the partial aggregates that are held.

        Raises
        ------
        OverflowError
            An integer answer does not fit.
        """
        if self.frame is None or self.open is None:
            return None
        return self._assemble(self.open.peek(self.answered_to))

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
        made: list[list[Answer]] = []
        for step in self._steps(frame):
            made += step()
        return made

    def _steps(self, frame: Frame) -> list[Callable[[], list[list[Answer]]]]:
        """What is to be done to take rows and answer the windows that are complete by them. All
        errors that the rows can have are raised here."""
        ts = self._read(frame)
        assert self.progress is not None and self.open is not None
        before, after = self.progress.see(ts, self._sources(frame))
        done = np.maximum(before, self.answered_to)  # windows complete by then are answered
        own = self._own_done(frame, done)
        late, outside, cuts = self._sort_out(ts, done, own)
        rows = self.open.prepare(frame, ts)
        self.undo.append(self.open.checkpoint(*self.open.weight(rows)))
        steps: list[Callable[[], list[list[Answer]]]] = []
        for start, stop in pairwise(sorted({0, *cuts, len(ts)})):
            steps += [partial(self._close, int(done[start]))] if start else []
            steps.append(partial(self._add, rows, places_in(start, stop, late, outside)))
            if self.lateness.mode == "revise" and start < stop:
                steps.append(partial(self._revise, rows, start, int(own[start]), late, outside))
        steps += [partial(self._close, int(after[-1]))] if len(ts) else []
        self._keep_late(frame, NO_ROWS if late is None else np.flatnonzero(late))
        self.unassigned += 0 if outside is None else int(outside.sum())
        self.received += len(ts)
        return steps

    def _add(self, rows: Any, at: Ints) -> list[list[Answer]]:
        assert self.open is not None
        self.open.add(rows, at)
        return []

    def _read(self, frame: Frame) -> Ints:
        """The times, and of the first push all that is known from then on."""
        ts = self._read_columns(frame)
        assert self.axis is not None and self.frame is not None
        if self.open is None:
            self.open = OpenRows(self.axis, self.plan, self.frame, self.revisions)
        self.open.axis = self.axis
        return ts

    def _own_done(self, frame: Frame, done: Ints) -> Ints:
        """By when windows of each row's own group have been answered."""
        assert self.open is not None
        ahead = self.open.ahead
        if not ahead:
            return done
        keys = key_values(frame, self.spec.by, np.arange(frame.rows))
        return np.maximum(done, np.array([ahead.get(key, NEVER) for key in keys], np.int64))

    # ------------------------------------------------------------------------- partials

    def _merge(self, batch: PartialBatch, source: Hashable) -> Any:
        if not isinstance(batch, PartialBatch):
            raise DataError(
                "merge: partial aggregates of a low-level stage are needed, not "
                f"{type(batch).__name__}"
            )
        self._check_batch(batch)
        assert self.progress is not None
        panes, partials, rows = None, [], batch.rows
        if rows:
            panes = self._panes_for(open_frame(batch.example))
            partials = panes.prepare_partials(batch)
            self.undo.append(panes.checkpoint(batch.magnitude, rows))
        made: list[list[Answer]] = []
        for k, part in enumerate(batch.parts):
            if panes is not None:
                self.late_count += panes.merge(partials[k], batch.magnitude, self.answered_to)
            if part.mark is not None:
                self.progress.promise(part.mark, source, source is None)
            made += [] if self.progress.now is None else self._close(self.progress.now)
        self.received += rows
        answered = self._assemble(made)
        self._let_go()
        return answered

    def _check_batch(self, batch: PartialBatch) -> None:
        """Refuse what does not fit; from the first batch, learn what a time is."""
        if batch.spec != self.spec:
            raise DataError(f"merge: partial aggregates of another spec: {batch.spec!r}")
        if self.wanted_plan == "rows":
            raise SpecError("plan: 'rows' keeps rows as they are; to merge take 'paned' or 'auto'")
        self._read(open_frame(open_frame(batch.example).take(NO_ROWS)))
        assert self.axis is not None and self.ticks is not None and self.open is not None
        if batch.origin is not None and len(batch):
            if isinstance(self.open, OpenRows) and not self.received:
                self.axis = self.open.axis = WindowAxis(self.spec, self.ticks, batch.origin)
            if batch.origin != self.axis.origin:
                raise DataError("merge: windows begin with the first row, and here it was another")

    def _panes_for(self, frame: Frame) -> OpenPanes:
        """What takes partials of rows like these."""
        assert self.open is not None
        if not isinstance(self.open, OpenPanes):
            if self.choice.plan == "rows":
                self.choice = Choice("paned", "partial aggregates are merged")
            assert isinstance(self.open, OpenRows)
            self.may_choose, ahead = False, self.open.ahead
            self.open = follow(self.choice, self.open) or self._empty_panes(frame)
            self.open.ahead = ahead
        assert isinstance(self.open, OpenPanes)
        return self.open

    def _empty_panes(self, frame: Frame) -> OpenPanes:
        assert self.axis is not None and self.open is not None
        if self.open.state()["rows"]:
            raise DataError("merge: the rows pushed so far do not tell the types of their columns")
        return OpenPanes(self.axis, self.plan, frame, self.revisions, self.choice.plan)

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

    def _empty_windows(self, kind: str, frame: Frame) -> OpenWindows:
        """Nothing yet, held in this way; `frame` shows the types of the columns."""
        assert self.axis is not None
        return empty_windows(kind, self.choice, self.axis, self.plan, frame, self.revisions)

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
        self.undo = []
        ahead = {} if self.open is None else self.open.ahead
        return super()._mark(), self.revisions.counts, ahead

    def _is_whole(self) -> bool:
        return None not in self.undo  # else rows are in, and nothing was kept to take them out

    def _go_back(self, before: Any) -> None:
        values, counts, ahead = before
        for back in reversed(self.undo if self._is_whole() else []):
            back()
        super()._go_back(values)
        self.undo = []
        self.revisions.counts = counts
        if self.open is not None:
            self.open.ahead = ahead
