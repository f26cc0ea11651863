"""Low-level aggregation: rows become partial aggregates in a table of fixed size, before anything
else looks at them.

The stage stands where rows come in fast (a network card, a sensor, one of many machines), and what
it puts out is merged into the windows elsewhere (``BucketStream.merge``). It answers nothing. As
windows take partials in any order, it need not put out those of a window at once when the window is
complete: they go when others need their place (lazy flush), or one by one (slow flush), up to so
many windows late. Thesis on window-ids, 8.3.3 and Figure 8-6.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from mta._lowlevel import LowTable
from mta._partials import Partials
from mta.arguments import no_whole, plain_number
from mta.buckets import window_edges
from mta.engine import Ints
from mta.errors import DataError, SpecError
from mta.frames import Frame, open_frame
from mta.groups import Groups, make_groups
from mta.pane_rows import PaneRows, Prepared, lengths_of, no_partials
from mta.partial_batch import Part, PartialBatch, batch_layout
from mta.periodic import FIRST, Periodic
from mta.periodic_stream import PeriodicStream, places_in
from mta.push import EVER, NEVER, NO_ROWS
from mta.spec_arguments import check_choice, source_names

FLUSH = ("lazy", "slow")
# Keys are forgotten when there are so many times more of them than slots.
_MOST_KEYS = 8
_FEW_KEYS = 1024
Step = Callable[[], None]


class LowLevelStream(PeriodicStream):
    """Pushes rows into a table of partial aggregates; see ``Periodic.low_level``, which makes it.

    Every call gives a ``PartialBatch``: what has gone out by it, and how far time has come.
    """

    snapshot_kind = "low-level"

    def __init__(
        self,
        spec: Periodic,
        size: int = 4096,
        flush: str = "lazy",
        within: int = 2,
        every: int = 16,
        sources: Sequence[Hashable] | None = None,
    ) -> None:
        super().__init__(spec)
        _check(spec, no_partials(self.plan), size, flush, within, every)
        self.size, self.flush, self.within, self.every = int(size), flush, int(within), int(every)
        assert self.watermark is not None
        declared = self.watermark.sources if sources is None else source_names(sources)
        if self.watermark.source is None:  # a source's name tells stages apart, and not rows
            declared = ()
        self.watermark = replace(self.watermark, sources=declared)
        self.rows: PaneRows | None = None
        self.table: LowTable | None = None
        self.magnitude = 0
        self.mark = NEVER  # no row before it is in the table, nor will be
        self.flushed = NEVER  # all panes that start before it have been put out
        self.settled = NEVER  # windows that are complete by then have gone out, or will first
        self.swept = NEVER  # slow flush has, but for rows that came behind
        self.out: tuple[Part, ...] = ()
        self.working = False

    # ----------------------------------------------------------------------- the calls

    def push(self, data: Any) -> PartialBatch:
        """Take rows, in any order; the partial aggregates that have gone out by them.

        How late partials are is looked at once per push.

        Parameters
        ----------
        data : what the spec takes in batch, always of the same kind and with the same types

        Raises
        ------
        DataError, ColumnError
            As in batch; the types have changed; a column that is aggregated holds nothing but nulls
            in the first rows, so that its type is not known; or a row is late where that is an
            error. Nothing of the push has been taken in.
        """
        made: PartialBatch = self._attempt(self._push, data)
        return made

    def state(self) -> dict[str, Any]:
        """What it holds: partial aggregates, groups whose keys are known, bytes; the watermark in
        ticks, and that of what has gone out (None: there is none yet); how many rows have come,
        come late, and fell between windows."""
        table, rows = self.table, self.rows
        bytes_held = 0 if table is None or rows is None else table.nbytes + rows.groups.nbytes
        return {
            "partials": 0 if table is None else table.held,
            "groups": 0 if rows is None else len(rows.groups),
            "bytes": bytes_held,
            "watermark": None if self.progress is None else self.progress.now,
            "flushed": None if self.mark == NEVER else self.mark,
            "received": self.received,
            "late": self.late_count,
            "unassigned": self.unassigned,
        }

    def to_bytes(self) -> bytes:
        """Everything it holds as bytes: versioned, checksummed, no code inside (needs pyarrow).

        Raises
        ------
        SnapshotError
            It holds values that a snapshot can't store, such as Python objects.
        """
        from mta.lowlevel_state import stage_bytes  # it builds on this module

        return stage_bytes(self)

    # ------------------------------------------------------------------ what is pushed

    def _push(self, data: Any) -> PartialBatch:
        # What can fail comes first: a table can't be put back.
        steps: list[Step] = []
        for frame, mark in self._pieces(open_frame(data)):
            steps += self._take(frame)
            if mark is not None:
                assert self.progress is not None
                self.progress.promise(mark.time, mark.source, mark.source is None)
                self._go_on()
        self.working = True
        for step in steps:
            step()
        return self._put_out()

    def _take(self, frame: Frame) -> list[Step]:
        """What these rows will do."""
        ts = self._read_columns(frame)
        rows = self._reader(frame)
        assert self.progress is not None
        before, _ = self.progress.see(ts, self._sources(frame))
        done = np.maximum(before, self.answered_to)
        late, outside, told = self._sort_out(ts, done, done)
        cuts = set(told)
        prepared = rows.read_rows(frame, ts)
        steps: list[Step] = []
        for start, stop in pairwise(sorted({0, *cuts, len(ts)})):
            if start in cuts:  # a row is behind some of its windows, which have to go without it
                self.settled = int(done[start])
                steps.append(self._settling(self.settled))
            steps.append(self._adding(prepared, places_in(start, stop, late, outside)))
        self._keep_late(frame, NO_ROWS if late is None else np.flatnonzero(late))
        self.unassigned += 0 if outside is None else int(outside.sum())
        self.received += len(ts)
        self.magnitude = max(self.magnitude, prepared.magnitude)
        self._go_on()
        return steps

    def _go_on(self) -> None:
        """Windows that are complete at the watermark take no more rows."""
        assert self.progress is not None
        now = self.progress.now
        self.answered_to = self.answered_to if now is None else max(self.answered_to, now)

    def _told_to(self) -> int:
        return max(self.settled, self.mark)

    def _reader(self, frame: Frame) -> PaneRows:
        assert self.axis is not None
        if self.rows is None:
            for name in self.plan.columns:
                if frame.rows and frame.column(name).kind == "null":
                    raise DataError(
                        f"column {name!r} holds nothing but nulls so far; give it a type, which "
                        "partial aggregates have to know"
                    )
            if not frame.rows:
                return PaneRows(self.axis, self.plan, frame, "paned")
            self.rows = PaneRows(self.axis, self.plan, frame, "paned")
            layout = batch_layout(self.rows.measures, self.rows.specs)
            self.table = LowTable(layout, self.size, self.every if self.flush == "slow" else 0)
        self.rows.axis = self.axis
        return self.rows

    def _settling(self, done: int) -> Step:
        return lambda: self._settle(done, 0)

    def _adding(self, rows: Prepared, at: Ints) -> Step:
        def add() -> None:
            if len(at):
                assert self.table is not None
                some = rows.take(at)
                self.table.add(some.codes, some.buckets, some.feeds, some.counted)

        return add

    # -------------------------------------------------------------------- what goes out

    def _answer(self, final: bool = False) -> PartialBatch:
        if self.progress is None:  # only an empty frame has come
            raise DataError("push rows first, which say what a time is")
        self._go_on()
        self.working = True
        return self._put_out(final)

    def _put_out(self, final: bool = False) -> PartialBatch:
        """What goes out now, and what has gone out in this call."""
        assert self.progress is not None
        now = EVER if final else self.progress.now
        if final:
            self.answered_to = EVER
        if now is not None:
            self._settle(now, self.within)
        made = self._batch()
        self.out, self.working = (), False
        return made

    def _settle(self, now: int, within: int) -> None:
        """Put out what is more than so many windows late at this watermark."""
        if now == EVER or self.table is None:
            self.mark = max(self.mark, now)
            if self.table is not None:
                self.table.flush(EVER)
                self._part()
            return
        complete, before = self._complete(now, within)
        self.table.complete(complete)
        if before > self.flushed or (self.table.swept and complete > self.swept):
            self.flushed = max(before, self.flushed)
            self.swept = complete if self.table.swept else self.swept
            least = self.table.flush(before)
            held = EVER if least == EVER else least + self._right()
            self.mark = max(self.mark, min(now, held))
            self._part()

    def _complete(self, now: int, within: int) -> tuple[int, int]:
        """The ends of the last window that is complete, and of the one so many windows before."""
        assert self.axis is not None
        back = 2 * (within + 2) * lengths_of(self.axis)[0]  # a calendar's periods differ
        extents = self.axis.extents(np.array([max(now - back, NEVER), now]))
        last = self.axis.ended(extents, now)
        try:
            ends = window_edges(extents, np.array([last, last - within]))[1]
        except DataError:  # it would be before all times
            return NEVER, NEVER
        return int(ends[0]), int(ends[1])

    def _right(self) -> int:
        assert self.axis is not None
        return self.axis.right

    def _part(self) -> None:
        assert self.table is not None
        mark = None if self.mark == NEVER else self.mark
        self.out = (*self.out, Part(self.table.take(), mark))

    def _batch(self) -> PartialBatch:
        assert self.frame is not None and self.axis is not None and self.ticks is not None
        rows = self.rows or PaneRows(self.axis, self.plan, self.frame, "paned")
        crowded = len(rows.groups) > _MOST_KEYS * self.size + _FEW_KEYS
        if self.table is not None:
            if crowded:
                self.table.flush(EVER)
            self._part()
        elif self.mark != NEVER:
            none = Partials(batch_layout(rows.measures, rows.specs))
            self.out = (Part(none, self.mark),)
        parts = _that_tell(self.out)
        keys, groups = _number_anew(rows.groups, [part.partials for part in parts])
        if crowded:
            rows.groups = make_groups(self.spec.by, open_frame(rows.groups.example.data))
        origin = self.axis.origin if self.spec.origin == FIRST else None
        return PartialBatch(
            self.spec, rows.frame.data, keys, groups, parts, self.ticks, origin,
            self.magnitude,
        )  # fmt: skip

    # ------------------------------------------------------------------- all or nothing

    def _is_whole(self) -> bool:
        return not self.working


def _that_tell(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Those that hold partials, or tell that time has come further."""
    before = [None, *(part.mark for part in parts)]
    told = [len(part.partials) or part.mark != before[k] for k, part in enumerate(parts)]
    return tuple(part for part, tells in zip(parts, told, strict=True) if tells)


def _number_anew(groups: Groups, every: list[Partials]) -> tuple[Any, int]:
    """Number the groups of these partials from 0: their keys, and how many they are."""
    codes = np.concatenate([NO_ROWS, *(partials.codes for partials in every)])
    known = np.zeros(len(groups), np.bool_)
    known[codes] = True
    numbers = np.cumsum(known, dtype=np.int32) - np.int32(1)
    for partials in every:
        partials.renumber(numbers)
    found = np.flatnonzero(known)
    return (groups.rows_of(found) if groups.by else None), len(found)


def _check(
    spec: Periodic, why_not: str | None, size: int, flush: str, within: int, every: int
) -> None:
    check_choice(flush, "flush", FLUSH)
    for name, number, least in (("size", size, 1), ("within", within, 0), ("every", every, 1)):
        if why := no_whole(plain_number(number), least, 2**31 - 1):
            raise SpecError(f"{name}: {why}")
    if why_not is not None:
        raise SpecError(f"low_level: it needs partial aggregates, but {why_not}")
    if spec.lateness is not None and spec.lateness.mode == "revise":
        raise SpecError(
            "late: 'revise' answers again with every late row; a low-level stage puts rows together"
        )
    if spec.progress is not None and spec.progress.per == "group":
        raise SpecError("per: a low-level stage has one watermark, and none of each group")
