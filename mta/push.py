"""What every stream is: rows of one kind are pushed, time goes on, and answers become final.

A call that fails leaves the stream as it was.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from mta._frames_bytes import bytes_frame, frame_bytes
from mta.durations import Duration
from mta.engine import Ints, Ticks, time_axis, time_values
from mta.errors import DataError, SnapshotError
from mta.frames import Column, Frame, open_frame
from mta.plan import Plan, make_plan
from mta.progress import Late, Progress, Source, SourceCodes, Watermark
from mta.rows import first_rows
from mta.specs import Spec, Streamed

NEVER = -(2**63)  # a watermark before every time
EVER = 2**63 - 1  # and one after the last
NO_ROWS = np.zeros(0, np.int64)
_NAN = "NaN"  # what stands for it in keys: it is equal to itself

SpecT = TypeVar("SpecT", bound=Streamed)


@dataclass(frozen=True)
class Punctuation:
    """What a row says that is none: that no row will come before this time, of a source (None: of
    any) or of a group."""

    time: int
    source: Hashable = None
    key: tuple[Any, ...] | None = None


class PushedStream(ABC, Generic[SpecT]):
    """Base of the streams.

    progress : None where the spec has no watermark and its stream needs none, or before a push
    """

    snapshot_kind: str

    def __init__(self, spec: SpecT, plan: Plan | None = None) -> None:
        self.spec = spec
        self.plan: Plan = plan or make_plan(spec.asked, spec.min_periods or 0)
        self.watermark: Watermark | None = spec.progress
        if self.watermark is not None:
            self.watermark.check_here()
        self.lateness = spec.lateness or Late()
        self.frame: Frame | None = None  # of no rows; of the kind that is pushed
        self.on_type: Column | None = None  # of no rows
        self.ticks: Ticks | None = None
        self.progress: Progress | None = None
        self.received = 0
        self.late_count = 0
        self.late_rows: list[Any] = []

    def __reduce__(self) -> NoReturn:
        """Refused: what a copy held would be this stream's."""
        raise TypeError("a stream is not copied or pickled; see to_bytes and spec.stream(state)")

    # ----------------------------------------------------------- what the subclasses say

    @abstractmethod
    def _push(self, data: Any) -> Any:
        """Take rows; the answers that became final. It may leave anything behind where it fails."""

    @abstractmethod
    def _answer(self, final: bool = False) -> Any:
        """The answers that are final at the watermark (or all)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What it holds."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Everything it holds as bytes."""

    # ------------------------------------------------------------------------ the calls

    def push(self, data: Any) -> Any:
        """Take rows; the answers that became final."""
        if self.watermark is not None and self.watermark.punctuation is not None:
            return self._take_in(self._push_pieces, data)
        return self._take_in(self._push, data)

    def _take_in(self, take: Callable[..., Any], data: Any) -> Any:
        """`take` the rows. Of no rows, nothing need tell the types of their columns."""
        frame = open_frame(data)
        if frame.rows:
            return self._attempt(take, frame)
        if self.frame is not None and self.on_type is not None:
            check_kind(frame, self.frame)
            self._require(frame)
            return self._attempt(take, self.frame)
        before = self._mark()
        answers = self._attempt(take, frame)
        if any(frame.column(name).kind == "null" for name in self._names):
            self._go_back(before)  # the next rows may have any types
        return answers

    @property
    def _names(self) -> list[str]:
        """The columns that the spec reads."""
        on = [] if self.spec.on is None else [self.spec.on]
        return [*on, *self.spec.by, *self.plan.columns]

    def _require(self, frame: Frame) -> None:
        names = frame.names()
        for wanted, argument in ((self.spec.by, "by"), (self.plan.columns, "agg")):
            for name in wanted:
                if name not in names:
                    frame.require(name, argument)

    def _push_pieces(self, data: Any) -> Any:
        """Take rows among which some are punctuation."""
        answered = []
        for rows, mark in self._pieces(open_frame(data)):
            answered.append(self._push(rows.data))
            if mark is not None and self.progress is not None:
                self.progress.promise(mark.time, mark.source, mark.source is None)
                answered.append(self._answer())
        assert self.frame is not None
        return self.frame.join(answered)

    def advance(self, to: Any, source: Hashable = None) -> Any:
        """Say that no row before this time will come (from a source): what is final by that.

        to : a time as the column holds them (datetime, numpy.datetime64, pandas.Timestamp or int)
        """
        return self._attempt(self._advance, to, source)

    def idle(self, source: Hashable) -> Any:
        """Say that a source is silent and shall hold nothing back before its next row, or call of
        `advance` that names it."""
        return self._attempt(self._idle, source)

    def finish(self) -> Any:
        """No more rows: all answers that were still waiting. None if no row was ever pushed."""
        return None if self.frame is None else self._attempt(self._answer, True)

    def late(self) -> Any:
        """The rows that came too late, as they were pushed, and forget them. None before a push."""
        if self.frame is None:
            return None
        rows, self.late_rows = self.late_rows, []
        return self.frame.join(rows) if rows else self.frame.take(NO_ROWS)

    def _advance(self, to: Any, source: Hashable) -> Any:
        progress, ticks = self._started("advance")
        progress.promise(ticks.of(to, "advance"), source, source is None)
        return self._answer()

    def _idle(self, source: Hashable) -> Any:
        progress, _ = self._started("idle")
        progress.silence(source)
        return self._answer()

    def _started(self, call: str) -> tuple[Progress, Ticks]:
        if self.ticks is None:
            raise DataError(f"{call}: push rows first, which say what a time is")
        if self.progress is None:
            raise DataError(f"{call}: this spec has no watermark; give it one (.watermark())")
        return self.progress, self.ticks

    # ------------------------------------------------------------------- all or nothing

    def _attempt(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call it; where it fails, everything is as it was."""
        before = self._mark()
        try:
            return call(*arguments)
        except Exception:
            self._go_back(before)
            raise

    def _mark(self) -> Any:
        """What `_go_back` needs. Values that are replaced are seen to here; what a subclass changes
        in place it has to see to itself."""
        return dict(vars(self)), None if self.progress is None else self.progress.copy()

    def _go_back(self, before: Any) -> None:
        values, progress = before
        vars(self).clear()
        vars(self).update(values)
        self.progress = progress

    # ------------------------------------------------------------------ what is pushed

    def _read_times(self, frame: Frame) -> Ints:
        """The times of rows in ticks; of the first push, also what a tick is from then on."""
        on = self.spec.on
        assert on is not None
        frame.require(on, "on")
        column = frame.column(on)
        known = self.on_type
        if known is not None and self.ticks is not None:
            if column.zoned != known.zoned:
                told = f"column {on!r} was {known.dtype} and now is {column.dtype}"
                raise DataError(f"on: {told}; its times have a zone or have none")
            if (column.kind, column.unit) == (known.kind, known.unit):
                return time_values(column, self.ticks)
            check_ticks(self.spec, time_axis(self.spec, column), self.ticks)
            return time_values(column, self.ticks)
        ticks = time_axis(self.spec, column)
        ts = time_values(column, ticks)
        self._begin_time(ticks, column.slice(0, 0))
        return ts

    def _begin_time(self, ticks: Ticks, on_type: Column) -> None:
        self.ticks, self.on_type = ticks, on_type
        told = self.watermark
        if told is not None:
            self.progress = Progress(
                _in_ticks(told.delay, ticks), _in_ticks(told.idle_after, ticks),
                _in_ticks(told.max_ahead, ticks), told.sources, told.combine,
            )  # fmt: skip

    def _pieces(self, frame: Frame) -> Iterator[tuple[Frame, Punctuation | None]]:
        """The rows up to each punctuation, and what it says."""
        name = None if self.watermark is None else self.watermark.punctuation
        if name is None:
            yield frame, None
            return
        frame.require(name, "punctuation")
        column = frame.column(name)
        if column.kind not in ("bool", "null") or column.values is None:
            raise DataError(f"punctuation: column {name!r} is {column.dtype}, not booleans")
        said = column.values != 0
        start = 0
        for row in np.flatnonzero(said if column.valid is None else said & column.valid).tolist():
            mark = self._punctuation(open_frame(frame.take(np.array([row]))))
            yield open_frame(frame.take(np.arange(start, row))), mark
            start = row + 1
        yield open_frame(frame.take(np.arange(start, frame.rows))), None

    def _punctuation(self, row: Frame) -> Punctuation:
        """What this one row says."""
        assert self.watermark is not None
        time = int(self._read_times(row)[0])
        if self.watermark.per == "group":
            return Punctuation(time, None, key_values(row, self.spec.by, np.zeros(1, np.int64))[0])
        sources = self._sources(row)
        return Punctuation(time, None if sources is None else sources.names[0])

    def _check_kind(self, frame: Frame) -> None:
        """Refuse another kind of data than that of the first push."""
        if type(frame) is type(self.frame):
            return
        check_kind(frame, self.frame)
        if self.frame is None:
            self.frame = open_frame(frame.take(NO_ROWS))

    def _sources(self, frame: Frame) -> SourceCodes | None:
        """The rows' sources; None: all have one."""
        name = None if self.watermark is None else self.watermark.source
        if name is None:
            return None
        frame.require(name, "source")  # null: of no source
        codes, count = frame.key_codes((name,)) if frame.rows else (NO_ROWS, 0)
        names = key_values(frame, (name,), first_rows(codes, count))
        return SourceCodes([key[0] for key in names], codes)

    def _within(self) -> int:
        """For how many ticks an answer may be revised."""
        assert self.ticks is not None
        return _in_ticks(self.lateness.within, self.ticks) or 0

    # ------------------------------------------------------------------------ late rows

    def _refuse_late(self, late: NDArray[np.bool_], ts: Ints) -> None:
        if self.lateness.mode == "error" and late.any():
            row = int(np.flatnonzero(late)[0])
            raise DataError(
                f"push: row {row} ({self.spec.on} = {ts[row]} ticks) is late: all its windows have "
                f"been answered ({int(late.sum())} rows)"
            )

    def _keep_late(self, frame: Frame, rows: Ints) -> None:
        """Hand these rows out by `late`."""
        if len(rows):
            self.late_rows = [*self.late_rows, frame.take(rows)]
            self.late_count += len(rows)

    # ------------------------------------------------------------------------ snapshots

    def _common_head(self) -> dict[str, Any]:
        """Of what all streams hold: what JSON can tell."""
        head: dict[str, Any] = {"received": self.received, "late": self.late_count}
        if self.ticks is not None:
            head["ticks"] = asdict(self.ticks)
        if self.on_type is not None:
            head["on"] = [self.on_type.kind, self.on_type.unit]
        if self.progress is not None:
            head["mark"] = self.progress.now
            head["sources"] = [[name, asdict(s)] for name, s in self.progress.sources.items()]
        return head

    def _common_parts(self) -> list[bytes]:
        """And the frames: of no rows, of late ones."""
        if self.frame is None:
            return []
        late = self.frame.join([self.frame.take(NO_ROWS), *self.late_rows])
        return [frame_bytes(self.frame), frame_bytes(open_frame(late))]

    def _fill_common(self, head: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Take up what these two told; the parts that are left."""
        self.received, self.late_count = int(head["received"]), int(head["late"])
        if not parts:
            return parts
        frame, late = bytes_frame(parts[0]), bytes_frame(parts[1])
        self.frame = frame
        self.late_rows = [late.take(np.arange(late.rows))] if late.rows else []
        if "ticks" in head:
            ticks = Ticks(**head["ticks"])
            on = self.spec.on
            if on is None:
                self.ticks = ticks
            else:
                self._begin_time(ticks, typed_column(frame, on, *head["on"]))
        if self.progress is not None:
            told = [(name, Source(**s)) for name, s in head["sources"]]
            self.progress.resume(head["mark"], told)
        return parts[2:]


def as_json(head: dict[str, Any]) -> bytes:
    """The head of a snapshot.

    Raises
    ------
    SnapshotError
        It holds keys or sources that JSON has no word for.
    """
    try:
        return json.dumps(head).encode()
    except TypeError as error:
        raise SnapshotError(f"to_bytes: a key or source can't be stored ({error})") from None


def _in_ticks(length: Duration | None, ticks: Ticks) -> int | None:
    return None if length is None else length.in_unit(ticks.finer)


def check_kind(frame: Frame, first: Frame | None) -> None:
    """Refuse data of another kind than that of the first push (None: this is the first)."""
    if first is not None and type(frame) is not type(first):
        kinds = type(first).__name__, type(frame).__name__
        raise DataError(f"push: a {kinds[1]} after a {kinds[0]}; push one kind of data")


def check_ticks(spec: Spec, ticks: Ticks, first: Ticks | None) -> None:
    """Refuse times of another unit than those of the first push."""
    if first is not None and ticks != first:
        raise DataError(
            f"on: column {spec.on!r} was in {first.unit or 'integers'} and now is in "
            f"{ticks.unit or 'integers'}"
        )


def fitted(column: Column, like: Column | None, frame: Frame) -> Column:
    """The column of a frame in the type of the first push: nulls of any type fit, whole numbers fit
    floats.

    Raises
    ------
    DataError
        It has another type.
    """
    if like is None or (column.kind, column.unit) == (like.kind, like.unit):
        return column if like is None or like.native is None else frame.native_like(column, like)
    if not frame.rows:
        return like
    if column.kind == "null" and column.values is not None:
        if like.values is None:
            nulls = frame.nulls_like(like.native, len(column.values))
            return like._replace(valid=column.valid, native=nulls)
        return like._replace(values=column.values.astype(like.values.dtype), valid=column.valid)
    if like.kind in ("float", "null") and column.numeric and column.values is not None:
        floats = column.values.astype(np.float64)
        wrong = np.flatnonzero(floats.astype(column.values.dtype) != column.values)
        if not len(wrong):
            return like._replace(kind="float", values=floats, valid=column.valid)
        shown = column.values[wrong[0]]
        raise DataError(
            f"column {column.name!r}, row {wrong[0]}: it held floats, and none is {shown}"
        )
    hint = "; give nulls that come first the column's type" if like.kind == "null" else ""
    raise DataError(f"column {column.name!r} was {like.dtype} and now is {column.dtype}{hint}")


def typed_column(frame: Frame, name: str, kind: str, unit: str | None) -> Column:
    """The column of no rows; of NumPy's objects, only what it held tells its type."""
    column = frame.column(name).slice(0, 0)
    if (column.kind, column.unit) == (kind, unit):
        return column
    if kind == "other":
        return column._replace(kind=kind, values=None, valid=None, native=np.empty(0, object))
    values = np.zeros(0, {"float": np.float64, "uint": np.uint64}.get(kind, np.int64))
    dtype = np.dtype(object) if unit is not None and column.dtype is None else column.dtype
    return column._replace(kind=kind, unit=unit, values=values, valid=None, dtype=dtype)


def key_values(frame: Frame, by: tuple[str, ...], rows: Ints) -> list[tuple[Any, ...]]:
    """The keys of these rows as tuples that are equal for equal keys; () where there are none."""
    if not by:
        return [()] * len(rows)
    columns = [key_column(frame.column(name), frame, rows) for name in by]
    return list(zip(*columns, strict=True))


def key_column(column: Column, frame: Frame, rows: Ints) -> list[Any]:
    """What one column of a frame has in these rows, as part of a key."""
    if column.values is None:
        values = frame.list_native(column.native, rows)
    elif column.kind == "float":
        values = [_NAN if x != x else x + 0.0 for x in column.values[rows].tolist()]
    else:
        values = column.values[rows].tolist()
    if column.valid is None:
        return values
    return [
        x if known else None for x, known in zip(values, column.valid[rows].tolist(), strict=True)
    ]
