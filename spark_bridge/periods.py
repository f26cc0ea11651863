"""Windows by number in Spark's Python workers: a sorted partition, batch by batch.

Of the key that a batch ends in, the rows of open windows go on to the next batch (of a landmark
window, whose rows would be all, a partial aggregate); its windows are answered as its rows go past
their ends. Keys that begin and end in one batch are answered by the batch kernels in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mta._bounds import GivenBounds
from mta._buckets import Extents
from mta._frames_arrow import ArrowFrame, arrow_answer, arrow_column
from mta._kernel import KEPT
from mta._vector import Vector
from mta.buckets import edge_answers, landmark_end, window_edges
from mta.engine import Ints, SortedRows, time_values
from mta.errors import DataError
from mta.frames import Answer, Column
from mta.items import BadItemError
from mta.open_panes import OpenPanes
from mta.open_windows import Revisions, WindowAxis
from mta.pane_rows import no_partials
from mta.periodic import Landmark, Periodic
from mta.plan import Plan
from mta.push import EVER, NEVER
from mta.rows import Chunk, KeptRows
from mta.slider import AnswerOverflowError, KeyedAnswers, Slider, taken_answer
from mta.threads import slide_in_threads
from spark_bridge.worker import KeyedRun, Piece, Reader, as_batches, bad_item, named_tables

# About so many windows are answered at a time, whatever their number.
MOST_WINDOWS = 1 << 17
# What Spark is told of all rows: a column beside theirs.
TOLD = "\0told"

Lower = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Told:
    """What one time of all rows has to be known before the first row, if any."""

    first: bool = False  # that of the row that comes first
    last: bool = False  # the latest

    @staticmethod
    def of(spec: Periodic) -> Told:
        """What the windows of a spec depend on beside the rows of their key."""
        return Told(getattr(spec, "origin", None) == "first", isinstance(spec, Landmark))


def answer_periods(
    spec: Periodic, names: list[str], batches: Iterator[pa.RecordBatch], lower: Lower | None = None
) -> Iterator[pa.RecordBatch]:
    """The windows of a sorted partition; the function that mapInArrow calls.

    names : of the columns; then there are those that `Told` asks for (the first, then the last
        time), and what has only served to sort
    lower : what becomes of the answers
    """
    told = Told.of(spec)
    more = [TOLD + str(number) for number in range(told.first + told.last)]
    run = PeriodicRun(spec)
    for table in named_tables([*names, *more], batches):
        run.tell([table.column(name).slice(0, 1) for name in more])
        yield from _lowered(run.feed(table.select(names)), lower)
    yield from _lowered(run.finish(), lower)


def _lowered(tables: Iterable[pa.Table], lower: Lower | None) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from as_batches([table if lower is None else lower(table)])


class PeriodicRun(KeyedRun[pa.Table]):
    """Answers every window of every key."""

    def __init__(self, spec: Periodic) -> None:
        super().__init__(spec.by)
        self.spec = spec
        self.reader = Reader(spec)
        self.plan = self.reader.plan
        self.told: list[Any] = []
        self.times: list[int] = []  # what was told, in ticks
        self.key: pa.Table | None = None  # its columns, of the key at hand
        self.open: KeyWindows | KeyPanes | None = None

    def tell(self, columns: list[Any]) -> None:
        """Times that are the same beside every row."""
        self.told = self.told or columns

    # ------------------------------------------------------------------- the key at hand

    def _begin(self, table: pa.Table) -> None:
        self.key, self.open = table.select(list(self.spec.by)).slice(0, 1), None
        self.reader.start_over()
        self.empty = table.slice(0, 0)

    def _continue(self, table: pa.Table, final: bool) -> Iterator[pa.Table]:
        piece = Piece(table)
        columns, ts = self.reader.read(piece)
        assert ts is not None
        if self.open is None:
            self.open = self._open(piece.frame, columns, ts)
        chunk = self.reader.chunk(piece, columns)
        for answers in self.open.take(piece.frame, chunk, ts, final):
            yield self._table(answers)
        if isinstance(self.open, KeyWindows):
            self.reader.coders.forget_the_gone([self.open.rows])

    def _end(self) -> Iterator[pa.Table]:
        return self._continue(self.empty, final=True)

    def _open(self, frame: ArrowFrame, columns: dict[str, Column], ts: Ints) -> Any:
        axis = self._axis(ts)
        last = self.times[-1] if isinstance(self.spec, Landmark) else None
        partial = isinstance(self.spec, Landmark) and no_partials(self.plan) is None
        if partial and all(column.kind != "null" for column in columns.values()):
            assert last is not None
            return KeyPanes(axis, self.plan, frame, last)
        return KeyWindows(axis, self.plan, last)

    def _table(self, answers: list[Answer]) -> pa.Table:
        """Answers of one key, with its columns before them."""
        assert self.key is not None
        arrays = [_edges_in_us(answer) for answer in answers]
        keys = self.key.take(pa.array(np.zeros(len(arrays[0]), np.int64)))
        return pa.Table.from_arrays(
            [*keys.columns, *arrays],
            names=[*self.spec.by, *(answer.name for answer in answers)],
        )

    def _axis(self, ts: Ints) -> WindowAxis:
        ticks = self.reader.ticks
        if self.told and not self.times:
            self.times = [
                int(time_values(arrow_column(str(self.spec.on), c), ticks)[0]) for c in self.told
            ]
        return WindowAxis(self.spec, ticks, self.times[0] if self.times else None)

    # ------------------------------------------------------------------------ whole keys

    def _whole_keys(self, table: pa.Table, offsets: Ints) -> Iterator[pa.Table]:
        piece = Piece(table)
        ts = self.reader.read(piece)[1]
        assert ts is not None
        axis = self._axis(ts)
        most = self._most_windows(axis, ts, offsets)
        if most.sum() <= MOST_WINDOWS:
            yield self._answer(axis, piece, offsets)
            return
        for first, stop in _stretches(most):
            part = table.slice(offsets[first], offsets[stop] - offsets[first])
            if most[first] > MOST_WINDOWS:
                self._begin(part)
                yield from self._continue(part, final=True)
            else:
                inside = offsets[first : stop + 1] - offsets[first]
                yield self._answer(axis, Piece(part), inside)

    def _most_windows(self, axis: WindowAxis, ts: Ints, offsets: Ints) -> NDArray[np.float64]:
        """At most so many windows has each key."""
        firsts, lasts = axis.extents(ts).wids(ts)
        each = np.maximum(lasts.astype(np.float64) - firsts + 1, 0)
        last = lasts[offsets[1:] - 1]
        if isinstance(self.spec, Landmark):
            last = np.full(len(last), self._landmark_end(axis))
        span = np.maximum(last.astype(np.float64) - firsts[offsets[:-1]] + 1, 0)
        if isinstance(self.spec, Landmark) or self.spec.empty == "emit":
            return span
        return np.minimum(span, np.add.reduceat(each, offsets[:-1]))

    def _landmark_end(self, axis: WindowAxis) -> int:
        last = np.array(self.times[-1:], np.int64)
        return landmark_end(axis.extents(last), last)

    def _answer(self, axis: WindowAxis, piece: Piece, offsets: Ints) -> pa.Table:
        """The windows of keys that are there as a whole."""
        (columns, ts), frame = self.reader.read(piece), piece.frame
        assert ts is not None
        offsets, extents = np.ascontiguousarray(offsets), axis.extents(ts)
        last = self._landmark_end(axis) if isinstance(self.spec, Landmark) else None
        group, wid, lo, hi = extents.over(ts, offsets, self.spec.empty == "emit", last)
        rows = SortedRows(frame, columns, None)
        bounds = GivenBounds(lo, hi, extents.cuts(ts, wid, lo, hi))
        try:
            raw = slide_in_threads(self.plan, columns, rows, lambda: bounds, None, 1)
        except BadItemError as error:
            raise bad_item(error, piece.table) from None
        except AnswerOverflowError as error:
            raise _overflow(error, axis, extents, wid) from None
        firsts = offsets[:-1][group]
        keys = [taken_answer(name, frame.column(name), firsts) for name in self.spec.by]
        edges = edge_answers(self.spec, frame, axis.ticks, extents, wid)
        made = [*keys, *edges, *raw.answers(None, rows.to_input)]
        return pa.Table.from_arrays(
            [_edges_in_us(answer) for answer in made], names=[answer.name for answer in made]
        )


def _stretches(most: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Keys in a row that have few enough windows, or one that has not."""
    first, total = 0, 0.0
    for key, windows in enumerate(most.tolist()):
        if key > first and total + windows > MOST_WINDOWS:
            yield first, key
            first, total = key, 0.0
        total += windows
    yield first, len(most)


def _edges_in_us(answer: Answer) -> Any:
    """As an Arrow array; times in the unit that Spark has."""
    array = arrow_answer(answer)
    if pa.types.is_timestamp(array.type) and array.type.unit != "us":
        return array.cast(pa.timestamp("us", array.type.tz))
    return array


def _overflow(
    error: AnswerOverflowError, axis: WindowAxis, extents: Extents, wid: Ints
) -> OverflowError:
    window = int(wid[error.window])
    _, end = window_edges(extents, np.array([window]))
    unit = "" if axis.ticks.finer == "i" else f" {axis.ticks.finer} since 1970"
    return error.explain(f"that ends at {int(end[0])}{unit}")


class KeyWindows:
    """One key's windows: its rows come in order of time, and those of open windows are kept.

    last : the latest time of all keys, where windows go on to that (landmark)
    """

    def __init__(self, axis: WindowAxis, plan: Plan, last: int | None) -> None:
        self.axis, self.plan, self.last = axis, plan, last
        self.spec = axis.spec
        self.endless = last is not None
        self.emits = self.spec.empty == "emit"
        self.times = Vector()
        self.rows = KeptRows(plan)
        self.slider: Slider | None = None
        self.newest = NEVER  # time
        self.done = NEVER  # windows that are complete by then have been answered

    def take(
        self, frame: ArrowFrame, chunk: Chunk, ts: Ints, final: bool
    ) -> Iterator[list[Answer]]:
        """Take the next rows; the answers of the windows that are complete by them, in parts."""
        self.newest = int(ts[-1]) if len(ts) else self.newest
        inside = self._inside(ts)
        if inside is not None:
            ts, chunk = ts[inside], chunk.take(inside)
        if chunk.rows or self.slider is None:
            self.rows.append(chunk)
        self.times.extend(ts)
        if not len(self.times):
            return
        extents = self._extents()
        low, high = self._range(extents, final)
        if low <= high:
            for first, stop in self._parts(extents, low, high):
                answers = self._answer(frame, extents, first, stop)
                if answers is not None:
                    yield answers
            self.done = self.newest
            if self.emits:  # those after the last row are not, unless there is a later one
                self.done = int(self.axis.complete_at(extents, np.array([high]))[0])
        if not (self.endless or final):
            self._let_go(extents)

    def _inside(self, ts: Ints) -> Ints | None:
        """The rows that are in a window; None: all."""
        if not self.spec.leaves_rows_out or not len(ts):
            return None
        first, last = self.axis.extents(ts).wids(ts)
        if isinstance(self.spec, Landmark):
            return np.flatnonzero(first >= 0)
        return np.flatnonzero(first <= last)

    def _extents(self) -> Extents:
        """The windows from the next one to be answered on."""
        times = self.times.view()
        first = int(times[0]) if self.done == NEVER else self.done - self.axis.right
        return self.axis.extents(np.array([min(first, int(times[0])), self.newest]))

    def _range(self, extents: Extents, final: bool) -> tuple[int, int]:
        """The windows, from one to another, that are to be answered now."""
        times = self.times.view()
        firsts, lasts = extents.wids(times[[0, -1]])
        low, high = int(firsts[0]), int(lasts[-1])
        if self.done != NEVER:
            low = self.axis.ended(extents, self.done) + 1
        if self.last is not None:
            end = np.array([self.last])
            high = landmark_end(self.axis.extents(end), end)
        return low, high if final else min(high, self.axis.ended(extents, self.newest))

    def _parts(self, extents: Extents, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The same windows, from one to another, of which not too many hold a row."""
        if self.endless or self.emits or high - low < MOST_WINDOWS:
            yield from _steps(low, high)
            return
        times = self.times.view()
        firsts, lasts = extents.wids(times)
        rows = max(1, MOST_WINDOWS // int((lasts - firsts).max() + 1))
        for start in range(0, len(times), rows):
            stop = min(high, int(lasts[min(start + rows, len(times)) - 1]))
            first = max(low, int(firsts[start]))
            if first <= stop:
                yield from _steps(first, stop) if rows == 1 else [(first, stop)]
                low = stop + 1

    def _answer(
        self, frame: ArrowFrame, extents: Extents, first: int, last: int
    ) -> list[Answer] | None:
        """The answers of these windows, or those of them that hold a row."""
        wid, lo, hi = self._bounds(extents, first, last)
        if not len(wid):
            return None
        columns = self.rows.columns()
        if self.slider is None:
            self.slider = Slider(self.plan, columns)
        answers = KeyedAnswers(self.plan, columns, len(wid))
        at, cut = self.times.first, extents.cuts(self.times.view(), wid, lo, hi)
        bounds = GivenBounds(lo + at, hi + at, None if cut is None else cut + at)
        try:
            answers.run(self.slider, self.rows, bounds, columns)
        except AnswerOverflowError as error:
            raise _overflow(error, self.axis, extents, wid) from None
        edges = edge_answers(self.spec, frame, self.axis.ticks, extents, wid)
        return [*edges, *answers.answers(frame)]

    def _bounds(self, extents: Extents, first: int, last: int) -> tuple[Ints, Ints, Ints]:
        """Numbers of windows, and their rows as intervals of those that are kept."""
        times, right = self.times.view(), self.axis.right
        if not (self.endless or self.emits):
            edge = window_edges(extents, np.array([first]))[0] + right
            skip = int(times.searchsorted(edge[0]))
            rest = np.ascontiguousarray(times[skip:])
            offsets = np.array([0, len(rest)])
            _, wid, lo, hi = extents.over(rest, offsets, False, last, first)
            return wid, lo + skip, hi + skip
        wid = np.arange(first, last + 1)
        start, end = window_edges(extents, wid)
        hi = times.searchsorted(end + right)
        lo = np.zeros(len(wid), np.int64) if self.endless else times.searchsorted(start + right)
        return wid, lo.astype(np.int64), hi.astype(np.int64)

    def _let_go(self, extents: Extents) -> None:
        """Drop the rows that only windows hold that have been answered."""
        if self.done == NEVER:
            return
        following = np.array([self.axis.ended(extents, self.done) + 1])
        try:
            start = int(window_edges(extents, following)[0][0])
        except DataError:  # beyond 64 bits, but nothing may ever be in it
            return
        gone = int(self.times.view().searchsorted(start + self.axis.right))
        # One row has to stay, by which the windows go on.
        kept_from = self.times.first + min(gone, len(self.times) - 1)
        self.times.drop_to(kept_from)
        self.rows.drop_to(kept_from - KEPT)


def _steps(low: int, high: int) -> Iterator[tuple[int, int]]:
    for first in range(low, high + 1, MOST_WINDOWS):
        yield first, min(first + MOST_WINDOWS - 1, high)


class KeyPanes:
    """One key's landmark windows: one partial aggregate is kept, not its rows."""

    def __init__(self, axis: WindowAxis, plan: Plan, frame: ArrowFrame, last: int) -> None:
        self.axis, self.last = axis, last
        self.panes = OpenPanes(axis, plan, frame, Revisions(), "paned")
        self.panes.most = MOST_WINDOWS
        self.by = len(axis.spec.by)
        self.done = NEVER
        self.newest = NEVER

    def take(
        self, frame: ArrowFrame, chunk: Chunk, ts: Ints, final: bool
    ) -> Iterator[list[Answer]]:
        """As that of `KeyWindows`."""
        if len(ts):
            self.newest = int(ts[-1])
            inside = np.arange(len(ts))
            if self.axis.spec.leaves_rows_out:
                inside = np.flatnonzero(self.axis.extents(ts).wids(ts)[0] >= 0)
            self.panes.add(self.panes.prepare(frame, ts), inside)
        if self.panes.newest is None:
            return
        if final:  # it is answered up to the last window of all
            last = self.panes.buckets_of(np.array([self.last]))[0]
            self.panes.newest = max(self.panes.newest, int(last[0]))
        now = EVER if final else self.newest
        if now > self.done:
            for answers in self.panes.close(self.done, now):
                yield [a for a in answers[self.by :] if a.name != "revision"]
            self.done = now
            self.panes.forget(now)
