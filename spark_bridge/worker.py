"""What runs in Spark's Python workers: a partition, sorted by key and time, batch by batch.

Memory is bounded by the window: of the key that a batch ends in, the window state (`mta.track`)
goes on to the next batch; every key that begins and ends in one batch is answered by the batch
kernels, all of them in one call.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from mta.rows import Coders
from mta.specs import Rolling
from mta.track import Track


def answer_batches(
    spec: Rolling, names: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of a sorted partition with their answers; the function that mapInArrow calls.

    names : of the columns; whatever comes after them has only served to sort
    """
    run = SortedRun(spec)
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch]).select(range(len(names))).rename_columns(names)
            yield from _as_batches(run.feed(table))
    yield from _as_batches(run.finish())


def _as_batches(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        if table.num_rows:
            yield from table.combine_chunks().to_batches()


class SortedRun:
    """Answers rows that come sorted by (key, time, arrival), cut into tables anywhere."""

    def __init__(self, spec: Rolling) -> None:
        self.spec = spec
        self.plan = make_plan(spec.aggs, spec.min_periods or 0)
        self.ticks: Ticks | None = None
        self.coders = Coders(self.plan)
        self.track: Track | None = None  # of the key that the rows so far end in
        self.last_row: pa.Table | None = None  # its key columns
        self.waiting: pa.Table | None = None  # its rows that have no answer yet

    def feed(self, table: pa.Table) -> list[pa.Table]:
        """Take the next rows; the rows that have their answers now, in order."""
        starts = self._key_starts(table)
        if not len(starts):
            return [self._continue(table, final=False)]
        first, last = int(starts[0]), int(starts[-1])
        made = []
        if self.track is not None:
            made.append(self._continue(table.slice(0, first), final=True))
        if last > first:
            made.append(self._whole_keys(table.slice(first, last - first), starts - first))
        self.track = None
        made.append(self._continue(table.slice(last), final=False))
        return made

    def finish(self) -> list[pa.Table]:
        """No more rows: the answers that still wait."""
        if self.track is None or self.waiting is None:
            return []
        return [self._continue(self.waiting.slice(0, 0), final=True)]

    def _key_starts(self, table: pa.Table) -> Ints:
        """The rows at which another key begins than the row before has."""
        if not self.spec.by:
            return np.zeros(0 if self.track else 1, np.int64)
        keys = table.select(list(self.spec.by))
        seen = 0 if self.last_row is None else 1
        joined = keys if self.last_row is None else pa.concat_tables([self.last_row, keys])
        codes, _ = ArrowFrame(joined).key_codes(self.spec.by)
        self.last_row = keys.slice(keys.num_rows - 1)
        changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return changes - 1 if seen else np.concatenate([[0], changes])

    def _continue(self, table: pa.Table, final: bool) -> pa.Table:
        """More rows of the key at hand."""
        frame, columns, ts = self._read(table)
        if self.track is None:
            assert self.ticks is not None
            self.track = Track(self.spec, self.plan, self.ticks)
            self.coders = Coders(self.plan)
            self.waiting = table.slice(0, 0)
        first = self.track.answered
        try:
            chunk = self.coders.chunk(frame, columns)
        except BadItemError as error:
            raise DataError(_bad_item(error, table)) from None
        at, made = self.track.feed(ts, chunk, final)
        self.track.settle()
        self.coders.forget_the_gone([self.track.rows])
        rows = pa.concat_tables([self.waiting, table])
        self.waiting = rows.slice(self.track.answered - first)
        answered = rows.slice(0, self.track.answered - first)
        return _with_answers(
            answered if self.spec.every is None else answered.take(at - first), made
        )

    def _whole_keys(self, table: pa.Table, offsets: Ints) -> pa.Table:
        """Keys that begin and end here."""
        frame, columns, ts = self._read(table)
        assert self.ticks is not None
        bounds = find_bounds(self.spec, ts, np.ascontiguousarray(offsets), self.ticks)
        rows = SortedRows(frame, columns, None)
        picked = None if self.spec.every is None else every_rows(offsets, self.spec.every)
        try:
            made = slide_columns(self.plan, columns, lambda: bounds, rows, picked)
        except BadItemError as error:
            raise DataError(_bad_item(error, table)) from None
        return _with_answers(table if picked is None else table.take(picked), made)

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


def _null_time(on: str, valid: NDArray[np.bool_], table: pa.Table) -> str:
    rows = np.flatnonzero(~valid)
    shown = _shown(table, int(rows[0]))
    return (
        f"on: column {on!r} is null in {len(rows)} of {len(valid)} rows of a batch; the first of "
        f"them: {shown}; a row without a time has no window"
    )


def _bad_item(error: BadItemError, table: pa.Table) -> str:
    return f"column {error.column!r}: {error.reason}, in the row with {_shown(table, error.row)}"


def _shown(table: pa.Table, row: int) -> str:
    """A row, as its number means nothing in a sorted partition; long values cut short."""
    first = table.slice(row, 1).to_pylist()[0]
    texts = {name: repr(value) for name, value in first.items()}
    return ", ".join(f"{n}={t if len(t) <= 50 else t[:49] + '…'}" for n, t in texts.items())


def _with_answers(rows: pa.Table, made: list[Answer]) -> pa.Table:
    for answer in made:
        rows = rows.append_column(answer.name, arrow_answer(answer))
    return rows
