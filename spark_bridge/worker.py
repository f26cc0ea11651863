"""What runs in Spark's Python workers: a partition, sorted by key and time, batch by batch.

Memory is bounded by the window: of the key that a batch ends in, the state goes on to the next
batch; every key that begins and ends in one batch is answered by the batch kernels, all of them in
one call. Here trailing windows; `spark_bridge.periods` has those by number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mta._frames_arrow import ArrowFrame, arrow_answer
from mta.engine import (
    Ints,
    SortedRows,
    Ticks,
    every_rows,
    find_bounds,
    slide_columns,
    time_axis,
    time_values,
)
from mta.errors import DataError
from mta.frames import Column
from mta.items import BadItemError
from mta.plan import check_types, make_plan
from mta.rows import Chunk, Coders
from mta.specs import Rolling, Spec
from mta.track import Track

# Spark's batches are joined up to so many rows or bytes: a batch costs some 0.1 ms, however small.
ROWS = 1 << 15
BYTES = 1 << 23

Made = TypeVar("Made")  # what a run gives for the rows it is fed


def answer_batches(
    specs: Rolling | Sequence[Rolling], names: list[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of a sorted partition with their answers; the function that mapInArrow calls.

    specs : of one order of rows; the answers of one stand before those of the next
    names : of the columns; whatever comes after them has only served to sort
    """
    run, waiting = SortedRun(specs), WaitingRows()
    for table in named_tables(names, batches):
        waiting.add(table)
        yield from as_batches(waiting.beside(answered) for answered in run.feed(table))
    yield from as_batches(waiting.beside(answered) for answered in run.finish())


def answer_columns(
    specs: Sequence[Rolling], names: list[str], columns: Iterable[Any]
) -> Iterator[pa.StructArray]:
    """The answers of a sorted partition alone, row by row; what an Arrow UDF gives.

    columns : batch by batch, those that are read; an array where it is one, else a tuple
    """
    run = SortedRun(specs)
    for table in named_tables(names, gathered(_as_batch(names, part) for part in columns)):
        yield from _structs(run.feed(table))
    yield from _structs(run.finish())


def _as_batch(names: list[str], part: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(part) if isinstance(part, tuple) else [part], names)


def _structs(made: Iterable[Answered]) -> Iterator[pa.StructArray]:
    for answered in made:
        if answered.rows:
            fields = [f"a{i}" for i in range(len(answered.answers))]
            yield pa.StructArray.from_arrays(answered.answers, names=fields)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in fewer batches."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        parts.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS or size >= BYTES:
            yield from as_batches([pa.Table.from_batches(parts)])
            parts, rows, size = [], 0, 0
    if parts:
        yield from as_batches([pa.Table.from_batches(parts)])


def named_tables(names: list[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches that hold rows, with the names that their columns had before Spark sorted."""
    for batch in batches:
        if batch.num_rows:
            yield pa.Table.from_batches([batch]).select(range(len(names))).rename_columns(names)


def as_batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The rows of these tables, those of each in one batch if it can be."""
    for table in tables:
        if table.num_rows:
            yield from table.combine_chunks().to_batches()


class Answered(NamedTuple):
    """What is known of the next rows.

    rows : so many rows have got what they get
    picked : those among them that have an answer; None: all
    answers : a column for each answer
    """

    rows: int
    picked: Ints | None
    names: list[str]
    answers: list[Any]


class WaitingRows:
    """Rows on their way past the windows, until their answers are there."""

    def __init__(self) -> None:
        self.table: pa.Table | None = None

    def add(self, table: pa.Table) -> None:
        """The next rows."""
        self.table = table if self.table is None else pa.concat_tables([self.table, table])

    def beside(self, answered: Answered) -> pa.Table:
        """The first rows, which then wait no more, with their answers."""
        assert self.table is not None
        rows = self.table.slice(0, answered.rows)
        self.table = self.table.slice(answered.rows)
        if answered.picked is not None:
            rows = rows.take(pa.array(answered.picked))
        return pa.Table.from_arrays(
            [*rows.columns, *answered.answers], names=[*rows.column_names, *answered.names]
        )


class Piece:
    """Some rows as the engine reads them; a column is read once for all specs."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.frame = ArrowFrame(table)
        self._columns: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        """A column as plain arrays."""
        if name not in self._columns:
            self._columns[name] = self.frame.column(name)
        return self._columns[name]

    def time(self, name: str) -> Column:
        """The column of times.

        Raises
        ------
        DataError
            One is null.
        """
        column = self.column(name)
        if column.valid is not None:
            raise DataError(_null_time(name, column.valid, self.table))
        return column


class Reader:
    """How one spec reads rows."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.plan = make_plan(spec.asked, spec.min_periods or 0)
        self.coders = Coders(self.plan)
        self._ticks: Ticks | None = None

    @property
    def ticks(self) -> Ticks:
        """The time axis; the first rows have told it."""
        assert self._ticks is not None
        return self._ticks

    def read(self, piece: Piece) -> tuple[dict[str, Column], Ints | None]:
        """The columns that the aggregates use, and the times in ticks."""
        columns = {name: piece.column(name) for name in self.plan.columns}
        check_types(self.plan, columns)
        if self.spec.on is None:
            self._ticks = self._ticks or Ticks(None, 1, None, 0)
            return columns, None
        column = piece.time(self.spec.on)
        if self._ticks is None:
            self._ticks = time_axis(self.spec, column)
        return columns, time_values(column, self._ticks)

    def chunk(self, piece: Piece, columns: dict[str, Column]) -> Chunk:
        """The rows as kernels that go on read them."""
        try:
            return self.coders.chunk(piece.frame, columns)
        except BadItemError as error:
            raise bad_item(error, piece.table) from None

    def start_over(self) -> None:
        """Another key: no value is known."""
        self.coders = Coders(self.plan)


class KeyedRun(ABC, Generic[Made]):
    """Rows that come sorted by (key, time, arrival), cut into tables anywhere: who takes what.

    A subclass answers the key at hand, whose rows may go on, and keys that are there as a whole.
    """

    def __init__(self, by: Sequence[str]) -> None:
        self.by = list(by)
        self.last_row: pa.Table | None = None  # the key columns of the last row
        self.is_open = False  # there is a key at hand

    def feed(self, table: pa.Table) -> Iterator[Made]:
        """Take the next rows, at least one; what is answered by them, in order."""
        starts = self._key_starts(table)
        if not len(starts):
            yield from self._continue(table, final=False)
            return
        first, last = int(starts[0]), int(starts[-1])
        if self.is_open:
            yield from self._continue(table.slice(0, first), final=True)
        if last > first:
            yield from self._whole_keys(table.slice(first, last - first), starts - first)
        self.is_open = True
        self._begin(table.slice(last))
        yield from self._continue(table.slice(last), final=False)

    def finish(self) -> Iterator[Made]:
        """No more rows: the answers that still wait."""
        if self.is_open:
            yield from self._end()

    @abstractmethod
    def _begin(self, table: pa.Table) -> None:
        """Another key is at hand now; its first rows."""

    @abstractmethod
    def _continue(self, table: pa.Table, final: bool) -> Iterable[Made]:
        """More rows, if any, of the key at hand. final: the last ones."""

    @abstractmethod
    def _whole_keys(self, table: pa.Table, offsets: Ints) -> Iterable[Made]:
        """Keys that begin and end here, at these rows and the last one's end."""

    @abstractmethod
    def _end(self) -> Iterable[Made]:
        """No more rows of the key at hand."""

    def _key_starts(self, table: pa.Table) -> Ints:
        """The rows at which another key begins than the row before has."""
        if not self.by:
            return np.zeros(0 if self.is_open else 1, np.int64)
        keys = table.select(self.by)
        seen = 0 if self.last_row is None else 1
        joined = keys if self.last_row is None else pa.concat_tables([self.last_row, keys])
        codes, _ = ArrowFrame(joined).key_codes(tuple(self.by))
        self.last_row = keys.slice(keys.num_rows - 1)
        changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return changes - 1 if seen else np.concatenate([[0], changes])


class SortedRun(KeyedRun[Answered]):
    """Answers every row by one spec or several."""

    def __init__(self, specs: Rolling | Sequence[Rolling]) -> None:
        specs = [specs] if isinstance(specs, Rolling) else specs
        super().__init__(specs[0].by)
        self.lanes = [Lane(spec) for spec in specs]
        self.names = [name for spec in specs for name, _ in spec.aggs]
        self.empty: pa.Table | None = None  # like the tables that come

    def _begin(self, table: pa.Table) -> None:
        self.empty = table.slice(0, 0)
        for lane in self.lanes:
            lane.begin()

    def _continue(self, table: pa.Table, final: bool) -> list[Answered]:
        piece = Piece(table)
        picked = [lane.go_on(piece, final) for lane in self.lanes]
        rows = min(lane.ready for lane in self.lanes)
        answers = [array for lane in self.lanes for array in lane.take(rows)]
        return [Answered(rows, picked[0], self.names, answers)]

    def _end(self) -> list[Answered]:
        assert self.empty is not None
        return self._continue(self.empty, final=True)

    def _whole_keys(self, table: pa.Table, offsets: Ints) -> list[Answered]:
        piece, offsets = Piece(table), np.ascontiguousarray(offsets)
        answers = [array for lane in self.lanes for array in lane.whole_keys(piece, offsets)]
        every = self.lanes[0].spec.every
        picked = None if every is None else every_rows(offsets, every)
        return [Answered(len(table), picked, self.names, answers)]


class Lane:
    """One spec's windows, and its answers that wait for those of other specs."""

    def __init__(self, spec: Rolling) -> None:
        self.spec = spec
        self.reader = Reader(spec)
        self.track: Track | None = None  # of the key at hand
        self.ready = 0  # rows of it that are answered and have not been taken
        self._waiting: list[list[Any]] = []  # answers of these

    def begin(self) -> None:
        """Another key is at hand."""
        self.track = None

    def go_on(self, piece: Piece, final: bool) -> Ints | None:
        """More rows of the key at hand; which of the rows that are answered now have an answer
        (None: all)."""
        columns, ts = self.reader.read(piece)
        if self.track is None:
            self.track = Track(self.spec, self.reader.plan, self.reader.ticks)
            self.reader.start_over()
        first = self.track.answered
        at, made = self.track.feed(ts, self.reader.chunk(piece, columns), final)
        self.track.settle()
        self.reader.coders.forget_the_gone([self.track.rows])
        self.ready += self.track.answered - first
        self._waiting.append([arrow_answer(answer) for answer in made])
        return None if self.spec.every is None else at - first

    def take(self, rows: int) -> list[Any]:
        """The answers of so many rows, which are ready (with `every`: of all)."""
        columns = [_joined(list(parts)) for parts in zip(*self._waiting, strict=True)]
        self._waiting, rest = [], self.ready - rows
        self.ready = rest
        if not rest:
            return columns
        self._waiting = [[column.slice(rows) for column in columns]]
        return [column.slice(0, rows) for column in columns]

    def whole_keys(self, piece: Piece, offsets: Ints) -> list[Any]:
        """The answers of keys that are there as a whole."""
        columns, ts = self.reader.read(piece)
        bounds = find_bounds(self.spec, ts, offsets, self.reader.ticks)
        rows = SortedRows(piece.frame, columns, None)
        picked = None if self.spec.every is None else every_rows(offsets, self.spec.every)
        try:
            made = slide_columns(self.reader.plan, columns, lambda: bounds, rows, picked)
        except BadItemError as error:
            raise bad_item(error, piece.table) from None
        return [arrow_answer(answer) for answer in made]


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _null_time(on: str, valid: NDArray[np.bool_], table: pa.Table) -> str:
    rows = np.flatnonzero(~valid)
    shown = _shown(table, int(rows[0]))
    return (
        f"on: column {on!r} is null in {len(rows)} of {len(valid)} rows of a batch; the first of "
        f"them: {shown}; a row without a time has no window"
    )


def bad_item(error: BadItemError, table: pa.Table) -> DataError:
    """The error for people: the row itself is shown."""
    row = _shown(table, error.row)
    return DataError(f"column {error.column!r}: {error.reason}, in the row with {row}")


def _shown(table: pa.Table, row: int) -> str:
    """A row, as its number means nothing in a sorted partition; long values cut short."""
    first = table.slice(row, 1).to_pylist()[0]
    texts = {name: repr(value) for name, value in first.items() if name[:1] != "\0"}
    return ", ".join(f"{n}={t if len(t) <= 50 else t[:49] + '…'}" for n, t in texts.items())
