"""What runs in Spark's Python workers: a partition, sorted by key and time, batch by batch.

Memory is bounded by the window: of the key that a batch ends in, the state goes on to the next
batch; every key that begins and ends in one batch is answered by the batch kernels, all of them in
one call. Here trailing windows; `spark_bridge.periods` has those by number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

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
from mta.frames import Answer, Column
from mta.items import BadItemError
from mta.plan import check_types, make_plan
from mta.rows import Chunk, Coders
from mta.specs import Rolling, Spec
from mta.track import Track


def answer_batches(
    specs: Rolling | Sequence[Rolling], names: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of a sorted partition with their answers; the function that mapInArrow calls.

    specs : of one order of rows; the answers of one are carried through those of the next
    names : of the columns; whatever comes after them has only served to sort
    """
    runs = [SortedRun(spec) for spec in ([specs] if isinstance(specs, Rolling) else specs)]
    for table in named_tables(names, batches):
        yield from as_batches(_through(runs, [table]))
    for number, run in enumerate(runs):
        yield from as_batches(_through(runs[number + 1 :], run.finish()))


def named_tables(names: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches that hold rows, with the names that their columns had before Spark sorted."""
    for batch in batches:
        if batch.num_rows:
            yield pa.Table.from_batches([batch]).select(range(len(names))).rename_columns(names)


def as_batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The rows of these tables, those of each in one batch if it can be."""
    for table in tables:
        if table.num_rows:
            yield from table.combine_chunks().to_batches()


def _through(runs: list[SortedRun], tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """These rows with the answers of all runs, as far as there are answers."""
    for run in runs:
        tables = [made for table in tables if len(table) for made in run.feed(table)]
    return tables


class KeyedRun(ABC):
    """Rows that come sorted by (key, time, arrival), cut into tables anywhere: who takes what.

    A subclass answers the key at hand, whose rows may go on, and keys that are there as a whole.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.plan = make_plan(spec.asked, spec.min_periods or 0)
        self.ticks: Ticks | None = None
        self.coders = Coders(self.plan)
        self.last_row: pa.Table | None = None  # the key columns of the last row
        self.is_open = False  # there is a key at hand

    def feed(self, table: pa.Table) -> Iterator[pa.Table]:
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

    def finish(self) -> Iterator[pa.Table]:
        """No more rows: the answers that still wait."""
        if self.is_open:
            yield from self._end()

    @abstractmethod
    def _begin(self, table: pa.Table) -> None:
        """Another key is at hand now; its first rows."""

    @abstractmethod
    def _continue(self, table: pa.Table, final: bool) -> Iterable[pa.Table]:
        """More rows, if any, of the key at hand. final: the last ones."""

    @abstractmethod
    def _whole_keys(self, table: pa.Table, offsets: Ints) -> Iterable[pa.Table]:
        """Keys that begin and end here, at these rows and the last one's end."""

    @abstractmethod
    def _end(self) -> Iterable[pa.Table]:
        """No more rows of the key at hand."""

    def _key_starts(self, table: pa.Table) -> Ints:
        """The rows at which another key begins than the row before has."""
        if not self.spec.by:
            return np.zeros(0 if self.is_open else 1, np.int64)
        keys = table.select(list(self.spec.by))
        seen = 0 if self.last_row is None else 1
        joined = keys if self.last_row is None else pa.concat_tables([self.last_row, keys])
        codes, _ = ArrowFrame(joined).key_codes(self.spec.by)
        self.last_row = keys.slice(keys.num_rows - 1)
        changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return changes - 1 if seen else np.concatenate([[0], changes])

    def _read(self, table: pa.Table) -> tuple[ArrowFrame, dict[str, Column], Ints | None]:
        """The rows, the columns that the aggregates use, and the times in ticks."""
        frame = ArrowFrame(table)
        columns = {name: frame.column(name) for name in self.plan.columns}
        check_types(self.plan, columns)
        if self.spec.on is None:
            self.ticks = self.ticks or Ticks(None, 1, None, 0)
            return frame, columns, None
        column = frame.column(self.spec.on)
        if column.valid is not None:
            raise DataError(_null_time(self.spec.on, column.valid, table))
        if self.ticks is None:
            self.ticks = time_axis(self.spec, column)
        return frame, columns, time_values(column, self.ticks)

    def _chunk(self, frame: ArrowFrame, columns: dict[str, Column], table: pa.Table) -> Chunk:
        """The rows as kernels that go on read them."""
        try:
            return self.coders.chunk(frame, columns)
        except BadItemError as error:
            raise bad_item(error, table) from None


class SortedRun(KeyedRun):
    """Answers every row."""

    spec: Rolling

    def __init__(self, spec: Rolling) -> None:
        super().__init__(spec)
        self.track: Track | None = None  # of the key at hand
        self.waiting: pa.Table | None = None  # its rows that have no answer yet

    def _begin(self, table: pa.Table) -> None:
        self.track = self.waiting = None

    def _continue(self, table: pa.Table, final: bool) -> list[pa.Table]:
        frame, columns, ts = self._read(table)
        if self.track is None:
            assert self.ticks is not None
            self.track = Track(self.spec, self.plan, self.ticks)
            self.coders = Coders(self.plan)
            self.waiting = table.slice(0, 0)
        first = self.track.answered
        at, made = self.track.feed(ts, self._chunk(frame, columns, table), final)
        self.track.settle()
        self.coders.forget_the_gone([self.track.rows])
        rows = pa.concat_tables([self.waiting, table])
        self.waiting = rows.slice(self.track.answered - first)
        answered = rows.slice(0, self.track.answered - first)
        if self.spec.every is not None:
            answered = answered.take(at - first)
        return [_with_answers(answered, made)]

    def _end(self) -> list[pa.Table]:
        assert self.waiting is not None
        return self._continue(self.waiting.slice(0, 0), final=True)

    def _whole_keys(self, table: pa.Table, offsets: Ints) -> list[pa.Table]:
        frame, columns, ts = self._read(table)
        assert self.ticks is not None
        bounds = find_bounds(self.spec, ts, np.ascontiguousarray(offsets), self.ticks)
        rows = SortedRows(frame, columns, None)
        picked = None if self.spec.every is None else every_rows(offsets, self.spec.every)
        try:
            made = slide_columns(self.plan, columns, lambda: bounds, rows, picked)
        except BadItemError as error:
            raise bad_item(error, table) from None
        return [_with_answers(table if picked is None else table.take(picked), made)]


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


def _with_answers(rows: pa.Table, made: list[Answer]) -> pa.Table:
    for answer in made:
        rows = rows.append_column(answer.name, arrow_answer(answer))
    return rows
