"""BucketStream: hopping, tumbling, landmark and calendar windows over rows that are pushed.

Rows may come in any order. They are kept, as they are, until no window that holds them is open; a
window is answered from its rows, in order of (time, arrival), when the watermark (`mta.progress`)
has come to its end. So every aggregate is there, the answers are those of a batch over the rows
that were not late, and they do not depend on how the rows were cut into pushes.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._buckets import Extents
from mta._frames_bytes import bytes_frame, frame_bytes
from mta.buckets import (
    check_edge_names,
    edge_answers,
    find_extents,
    key_answers,
    landmark_end,
    slide_windows,
    window_edges,
)
from mta.durations import Duration
from mta.engine import Batch, Ints, Ticks, time_axis, time_values
from mta.errors import DataError, SnapshotError, SpecError
from mta.frames import Answer, Frame, open_frame
from mta.periodic import Landmark, Periodic
from mta.plan import make_plan
from mta.progress import Late, Progress, Source, Watermark
from mta.slider import AnswerOverflowError, join_answers, reordered
from mta.snapshot import seal, unseal
from mta.stream import check_kind, check_ticks, key_values

_KIND = "buckets"
_NEVER = -(2**63)
_EVER = 2**63 - 1
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Kept:
    """Rows in order of arrival, and their times."""

    data: Any
    ts: Ints

    def take(self, rows: Ints) -> Kept:
        """Some of them."""
        return Kept(open_frame(self.data).take(rows), self.ts[rows])


class BucketStream:
    """Pushes rows through a periodic spec; see ``Periodic.stream``, which makes it.

    A row that is in no open window any more is late; one that falls between two windows (slide >
    range) is unassigned. Both are counted.
    """

    def __init__(self, spec: Periodic) -> None:
        check_edge_names(spec, "revision")
        if spec.empty == "emit":
            raise SpecError(
                "empty: 'emit' is for batches: of a window that is empty so far, a stream does not "
                "know whether its group will ever have another one"
            )
        self.spec = spec
        self.plan = make_plan(spec.asked, 0)
        self.watermark = spec.progress or Watermark()
        self.lateness = spec.lateness or Late()
        self.frame: Frame | None = None  # of no rows; of the kind that is pushed
        self.ticks: Ticks | None = None
        self.progress: Progress | None = None
        self.kept: Kept | None = None
        self.origin: int | None = None  # of a spec that begins with the first row
        self.revisions: dict[tuple[Any, ...], int] = {}  # by group and end: answers so far, from 2
        self.answered_to = _NEVER  # windows that end here or before have been answered
        self.received = self.late_count = self.unassigned = 0
        self.late_rows: list[Any] = []

    # ----------------------------------------------------------------------- rows in

    def push(self, data: Any) -> Any:
        """Take rows, in any order; the answers of the windows that are complete by them.

        Parameters
        ----------
        data : what the spec takes in batch, always of the same kind and with the same types

        Returns
        -------
        The same kind: what the spec gives in batch, and "revision", the number of the answer of a
        window (1, and more where late rows revise it). In order of the windows' ends.

        Raises
        ------
        DataError, ColumnError
            As in batch, or the types have changed, or a row is late where that is an error. Nothing
            of the push has been taken in.
        OverflowError
            An integer answer does not fit. Nothing of the push has been taken in.
        """
        before = dict(vars(self)), None if self.progress is None else self.progress.copy()
        try:
            return self._push(data)
        except Exception:
            vars(self).clear()
            vars(self).update(before[0])
            self.progress = before[1]
            raise

    def advance(self, to: Any, source: Hashable = None) -> Any:
        """Say that no row before this time will come (from a source): what is complete by that.

        to : a time as the column holds them (datetime, numpy.datetime64, pandas.Timestamp or int)
        """
        progress, ticks = self._started("advance")
        progress.promise(ticks.of(to, "advance"), source, source is None)
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
        return self.frame.join(rows) if rows else self.frame.take(_NONE)

    def state(self) -> dict[str, Any]:
        """What it holds: rows in open windows, the watermark in ticks (None: there is none yet),
        how many rows have come, come late, and fell between windows."""
        return {
            "rows": 0 if self.kept is None else len(self.kept.ts),
            "watermark": None if self.progress is None else self.progress.now,
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
        return stream_bytes(self)

    # ------------------------------------------------------------------ what is pushed

    def _push(self, data: Any) -> Any:
        frame = open_frame(data)
        ts = self._read(frame)
        assert self.progress is not None
        before, after = self.progress.see(ts, self._sources(frame))
        done = np.maximum(before, self.answered_to)  # windows that end here or before are answered
        first, last, first_end, last_end = self._windows_of(ts)
        outside = last < first
        late = ~outside & (_later(last_end, self._within()) <= done)
        self._refuse_late(late, ts)
        # Where a row belongs to a window that has been answered, all before it come first.
        behind = ~outside & ~late & (first_end <= done)
        cuts = np.flatnonzero(behind)
        made = []
        for start, stop in pairwise(sorted({0, *cuts.tolist(), *(cuts + 1).tolist(), len(ts)})):
            rows = np.arange(start, stop)[~(late | outside)[start:stop]]
            self._keep(Kept(frame.take(rows), ts[rows]))
            if len(rows) and behind[rows[0]]:
                made.append(self._revise(int(ts[rows[0]]), int(done[rows[0]])))
            made.append(self._close(int(after[stop - 1])))
        self._keep_late(frame, np.flatnonzero(late))
        self.unassigned += int(outside.sum())
        self.received += len(ts)
        return self._assemble(made)

    def _started(self, call: str) -> tuple[Progress, Ticks]:
        if self.progress is None or self.ticks is None:
            raise DataError(f"{call}: push rows first, which say what a time is")
        return self.progress, self.ticks

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
        check_ticks(self.spec, ticks, self.ticks)
        if self.ticks is None:
            self._begin(frame, ticks)
        if self.origin is None and len(ts):
            self.origin = int(ts[0])
        return ts

    def _begin(self, frame: Frame, ticks: Ticks) -> None:
        def length(of: Duration | None) -> int | None:
            return None if of is None else of.in_unit(ticks.finer)

        told = self.watermark
        self.ticks = ticks
        self.frame = open_frame(frame.take(_NONE))
        self.progress = Progress(
            length(told.delay), length(told.idle_after), length(told.max_ahead), told.sources,
            told.combine,
        )  # fmt: skip
        self.kept = Kept(self.frame.take(_NONE), _NONE)

    def _sources(self, frame: Frame) -> list[Hashable] | None:
        name = self.watermark.source
        if name is None:
            return None
        frame.require(name, "source")  # null: of no source
        return [key[0] for key in key_values(frame, (name,), np.arange(frame.rows))]

    def _within(self) -> int:
        within = self.lateness.within
        assert self.ticks is not None
        return (within.in_unit(self.ticks.finer) or 0) if within is not None else 0

    def _refuse_late(self, late: NDArray[np.bool_], ts: Ints) -> None:
        if self.lateness.mode == "error" and late.any():
            row = int(np.flatnonzero(late)[0])
            raise DataError(
                f"push: row {row} ({self.spec.on} = {ts[row]} ticks) is late: all its windows have "
                f"been answered ({int(late.sum())} rows)"
            )

    def _keep_late(self, frame: Frame, rows: Ints) -> None:
        if len(rows):
            self.late_rows = [*self.late_rows, frame.take(rows)]
            self.late_count += len(rows)

    # ------------------------------------------------------------------ rows that are kept

    def _extents(self, ts: Ints) -> Extents:
        assert self.ticks is not None
        return find_extents(self.spec, ts, self.ticks, self.origin or 0)

    def _windows_of(self, ts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Of every row: its first and its last window, and where they end."""
        extents = self._extents(ts)
        first, last = extents.wids(ts)
        first_end = self._complete_at(extents, first)
        if isinstance(self.spec, Landmark):  # open for ever, unless the row is before the landmark
            before = self.spec.origin is not None
            last = np.where((first < 0) & before, first - 1, first)
            return first, last, first_end, np.full(len(ts), _EVER)
        return first, last, first_end, self._complete_at(extents, last)

    def _complete_at(self, extents: Extents, wid: Ints) -> Ints:
        """The watermark at which no more rows of these windows can come: their end, or one tick
        after it where a row at the end is inside."""
        return _later(window_edges(extents, wid)[1], int(self.spec.right_closed))

    def _ended(self, extents: Extents, now: int) -> int:
        """The last window of which no more rows can come."""
        return extents.ended(max(now - self.spec.right_closed, _NEVER))

    def _keep(self, more: Kept) -> None:
        assert self.kept is not None and self.frame is not None
        if not len(more.ts):
            return
        try:
            data = self.frame.join([self.kept.data, more.data]) if len(self.kept.ts) else more.data
        except Exception as error:
            raise DataError(f"push: the columns are not of the types of before ({error})") from None
        self.kept = Kept(data, np.concatenate([self.kept.ts, more.ts]))

    def _forget(self) -> None:
        """Drop the rows that no open window holds."""
        assert self.kept is not None
        if len(self.kept.ts):
            last_end = self._windows_of(self.kept.ts)[3]
            open_rows = _later(last_end, self._within()) > self.answered_to
            if not open_rows.all():
                self.kept = self.kept.take(np.flatnonzero(open_rows))

    # --------------------------------------------------------------------- answers out

    def _answer(self, final: bool = False) -> Any:
        assert self.progress is not None
        now = _EVER if final else self.progress.now
        return self._assemble([] if now is None else [self._close(now)])

    def _close(self, now: int) -> list[Answer]:
        """Answer the windows that end after those answered so far, up to now."""
        assert self.kept is not None
        if now <= self.answered_to:
            return []
        extents = self._extents(self.kept.ts)
        low, high = self._ended(extents, self.answered_to) + 1, self._ended(extents, now)
        if isinstance(self.spec, Landmark) and len(self.kept.ts):
            high = min(high, landmark_end(extents, self.kept.ts))
        made = self._run(self.kept, low, high) if low <= high and len(self.kept.ts) else []
        self.answered_to = now
        self._forget()
        return made

    def _revise(self, t: int, done: int) -> list[Answer]:
        """Answer again the windows that hold the newest row, at t, as far as they are not final."""
        assert self.kept is not None
        extents, at = self._extents(self.kept.ts), np.array([t])
        first, last = (int(wid[0]) for wid in extents.wids(at))
        low = max(first, self._ended(extents, done - self._within()) + 1)
        high = min(last, self._ended(extents, done))
        if low > high:
            return []
        mates = self.kept
        if self.spec.by:
            data = open_frame(mates.data)
            keys = key_values(data, self.spec.by, np.arange(len(mates.ts)))
            mates = mates.take(np.flatnonzero([key == keys[-1] for key in keys]))
        return self._run(mates, low, high)

    def _run(self, kept: Kept, low: int, high: int) -> list[Answer]:
        """The answers of the windows low..high of these rows, in order of their ends."""
        batch = Batch(self.spec, kept.data)
        assert batch.ts is not None
        extents = self._extents(kept.ts)
        group, wid, lo, hi = extents.over(batch.ts, batch.offsets, False, high, low)
        if not len(wid):
            return []
        order = np.lexsort((group, wid))
        answers = self._answers_of(batch, extents, group, wid, lo, hi)
        return [reordered(answer, order) for answer in answers]

    def _answers_of(
        self, batch: Batch, extents: Extents, group: Ints, wid: Ints, lo: Ints, hi: Ints
    ) -> list[Answer]:
        try:
            raw = slide_windows(batch, lo, hi)
        except AnswerOverflowError as error:
            raise error.explain(f"number {wid[error.window]}") from None
        return [
            *key_answers(self.spec, batch, group),
            *edge_answers(self.spec, batch, extents, wid),
            Answer("revision", self._number_answers(batch, group, self._complete_at(extents, wid))),
            *raw.answers(None, batch.rows.to_input),
        ]

    def _number_answers(self, batch: Batch, group: Ints, end: Ints) -> Ints:
        if self.lateness.within is None:
            return np.ones(len(group), np.int64)
        firsts = batch.rows.to_input(batch.offsets[:-1])
        keys = key_values(batch.frame, self.spec.by, firsts)
        counts = dict(self.revisions)
        numbers = np.empty(len(group), np.int64)
        for i, (g, e) in enumerate(zip(group.tolist(), end.tolist(), strict=True)):
            numbers[i] = counts[keys[g], e] = counts.get((keys[g], e), 0) + 1
        final = self.answered_to - self._within()
        self.revisions = {key: count for key, count in counts.items() if key[1] > final}
        return numbers

    def _assemble(self, made: list[list[Answer]]) -> Any:
        assert self.frame is not None
        parts = [answers for answers in made if answers] or [self._no_answers()]
        columns = [join_answers(list(same), self.frame) for same in zip(*parts, strict=True)]
        count = len(columns[-1].lengths if columns[-1].lengths is not None else columns[-1].values)
        return self.frame.build_numbered(columns, np.arange(count))

    def _no_answers(self) -> list[Answer]:
        assert self.frame is not None
        batch = Batch(self.spec, self.frame.take(_NONE))
        return self._answers_of(batch, self._extents(_NONE), _NONE, _NONE, _NONE, _NONE)


def _later(times: Ints, by: int) -> Ints:
    """times + by, as far as 64 bits go."""
    return np.minimum(times, _EVER - by) + by


def stream_bytes(stream: BucketStream) -> bytes:
    """A snapshot of a stream: a JSON head; the frames of no rows, of rows that are kept, of late
    ones; the times of the kept ones."""
    head = {
        name: getattr(stream, name)
        for name in ("origin", "answered_to", "received", "late_count", "unassigned")
    }
    head["revisions"] = [[list(key), end, n] for (key, end), n in stream.revisions.items()]
    parts: list[bytes] = []
    if stream.frame is not None and stream.kept is not None:
        assert stream.ticks is not None and stream.progress is not None
        head["ticks"] = asdict(stream.ticks)
        head["now"] = stream.progress.now
        head["sources"] = [[name, asdict(s)] for name, s in stream.progress.sources.items()]
        late = stream.frame.join([stream.frame.take(_NONE), *stream.late_rows])
        parts = [
            frame_bytes(open_frame(x)) for x in (stream.frame.take(_NONE), stream.kept.data, late)
        ]
        parts.append(stream.kept.ts.tobytes())
    try:
        text = json.dumps(head).encode()
    except TypeError as error:
        raise SnapshotError(f"to_bytes: a key or source can't be stored ({error})") from None
    return seal(_KIND, stream.spec.to_json(), [text, *parts])


def stream_from_bytes(spec: Periodic, data: bytes) -> BucketStream:
    """The stream that `stream_bytes` described.

    Raises
    ------
    SnapshotError
        `data` is damaged, or of another spec.
    """
    parts = unseal(_KIND, spec.to_json(), data)
    stream = BucketStream(spec)
    try:
        _fill(stream, json.loads(parts[0]), parts[1:])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(f"snapshot: damaged ({error})") from None
    return stream


def _fill(stream: BucketStream, head: dict[str, Any], parts: list[bytes]) -> None:
    for name in ("answered_to", "received", "late_count", "unassigned"):
        setattr(stream, name, int(head[name]))
    if "ticks" in head:
        empty, kept, late = (bytes_frame(part) for part in parts[:3])
        stream._begin(empty, Ticks(**head["ticks"]))
        assert stream.progress is not None
        stream.progress.now = head["now"]
        stream.progress.sources = {name: Source(**s) for name, s in head["sources"]}
        ts = np.frombuffer(parts[3], np.int64)
        if kept.rows != len(ts):
            raise SnapshotError("snapshot: damaged (rows and times are not as many)")
        stream.kept = Kept(kept.take(np.arange(kept.rows)), ts)
        stream.late_rows = [late.take(np.arange(late.rows))] if late.rows else []
    stream.origin = head["origin"]
    stream.revisions = {(tuple(key), end): n for key, end, n in head["revisions"]}
