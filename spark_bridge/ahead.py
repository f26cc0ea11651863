"""Answers ahead of time: what rows that wait, or windows that are open, are told before the end.

After every micro-batch that brings rows, everything that is yet to be answered is answered as if no
more came (``op.peek()``), and that is told which is new or is another answer than was told. What is
final is told once more only if its answer has changed. So the last answer of every row, or window,
is the final one, and what nothing late touches is told once, at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mta._frames_arrow import ArrowFrame
from mta.bucket_stream import BucketStream
from mta.durations import NANOSECONDS
from mta.open_windows import later

Ints = NDArray[np.int64]
REVISION = "revision"


class Told:
    """What rows were told last.

    names : of the answers
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.numbers: Ints = np.zeros(0, np.int64)  # of the rows; rising
        self.revisions: Ints = np.zeros(0, np.int64)  # how often each was told
        self.answers: pa.Table | None = None

    def news(self, numbers: Ints, answers: pa.Table) -> tuple[NDArray[np.bool_], Ints]:
        """Which of these rows, which rise, have answers that were not told; and how often each will
        have been told when they are."""
        places = self.numbers.searchsorted(numbers)
        places[places == len(self.numbers)] = 0
        known = (
            self.numbers[places] == numbers if len(self.numbers) else np.zeros(len(places), bool)
        )
        new = np.ones(len(numbers), np.bool_)
        revisions = np.ones(len(numbers), np.int64)
        if known.any() and self.answers is not None:
            before = self.answers.take(pa.array(places[known]))
            new[known] = ~alike(before, answers.filter(pa.array(known)), self.names)
            revisions[known] = self.revisions[places[known]] + new[known]
        return new, revisions

    def keep(self, numbers: Ints, revisions: Ints, answers: pa.Table) -> None:
        """These rows, and no others, wait, and have been told this."""
        self.numbers, self.revisions = numbers, revisions
        self.answers = answers.select(self.names)

    def table(self) -> pa.Table | None:
        """Everything, for a snapshot; `fill` takes it up again."""
        if self.answers is None:
            return None
        plain = self.answers.rename_columns([f"c{i}" for i in range(len(self.names))])
        for name, values in (("number", self.numbers), ("revision", self.revisions)):
            plain = plain.append_column(name, pa.array(values))
        return plain

    def fill(self, table: pa.Table) -> None:
        """Take up what `table` gave."""
        self.numbers, self.revisions = (table.column(n).to_numpy() for n in ("number", "revision"))
        self.answers = table.drop_columns(["number", "revision"]).rename_columns(self.names)

    def forget(self, numbers: Ints) -> None:
        """These rows wait no more."""
        if self.answers is None or not len(numbers):
            return
        stay = ~np.isin(self.numbers, numbers)
        self.numbers, self.revisions = self.numbers[stay], self.revisions[stay]
        self.answers = self.answers.filter(pa.array(stay))


class ToldWindows:
    """What windows by number were told last, of every group, as long as they may be told again.

    by : the columns of the key
    """

    def __init__(self, by: tuple[str, ...]) -> None:
        self.by = by
        self.table: pa.Table | None = None  # a row for each window; "revision": how often it was

    def tell(self, stream: BucketStream, answers: list[pa.Table], rows: bool) -> list[pa.Table]:
        """The news among answers that a stream has given, and what it would give of open windows.

        rows : whether rows have come since the last time
        """
        told = [*answers, stream.peek()] if rows else answers
        news = self.news(pa.concat_tables(told)) if told else None
        self._forget(stream)
        return [] if news is None else [news]

    def news(self, answers: pa.Table) -> pa.Table:
        """Those of these answers that differ from the one before of their window, with how manieth
        of them they are."""
        held = answers.slice(0, 0) if self.table is None else self.table
        both = pa.concat_tables([held, answers])
        codes, _ = ArrowFrame(both).key_codes((*self.by, "end"))
        order = np.argsort(codes, kind="stable")
        again = np.diff(codes[order], prepend=-1) == 0
        new = np.ones(len(both), np.bool_)
        new[order[again]] = ~self._as_before(both, order, np.flatnonzero(again))
        new[: len(held)] = False
        counts = np.concatenate([_numbers(held), new[len(held) :]])
        counts[order] = _sums_so_far(counts[order], ~again)
        both = _counted(both, counts)
        self.table = both.take(pa.array(np.sort(order[np.append(~again[1:], True)[: len(order)]])))
        return both.filter(pa.array(new))

    def _as_before(self, both: pa.Table, order: Ints, places: Ints) -> NDArray[np.bool_]:
        """Which of the rows at these places of an order are alike the ones before them."""
        names = [name for name in both.column_names if name != REVISION]
        before, after = (both.take(pa.array(order[at])) for at in (places - 1, places))
        return alike(before, after, names)

    def _forget(self, stream: BucketStream) -> None:
        """Windows that no row can change any more are told for good."""
        axis = stream.axis
        if self.table is None or axis is None or not len(self.table):
            return
        ends = later(_ticks(self.table, "end", axis.ticks.finer), axis.right + axis.within)
        stay = ends > stream.answered_to
        if not stay.all():
            self.table = self.table.filter(pa.array(stay)).combine_chunks()


def _numbers(table: pa.Table) -> Ints:
    numbers: Ints = table.column(REVISION).to_numpy()
    return numbers


def _counted(table: pa.Table, counts: Ints) -> pa.Table:
    place = table.column_names.index(REVISION)
    return table.set_column(place, table.schema.field(place), pa.array(counts))


def _sums_so_far(values: Ints, begins: NDArray[np.bool_]) -> Ints:
    """Running sums, anew wherever one begins."""
    sums: Ints = np.cumsum(values)
    if not len(sums):
        return sums
    starts = np.flatnonzero(begins)
    before = sums[starts] - values[starts]
    return sums - np.repeat(before, np.diff(np.append(starts, len(sums))))


def _ticks(table: pa.Table, name: str, unit: str) -> Ints:
    """A column of times in a unit in which they are whole."""
    column: Any = ArrowFrame(table).column(name)
    values: Ints = column.values
    if column.unit in (None, unit):
        return values
    return values * NANOSECONDS[column.unit] // NANOSECONDS[unit]


def alike(one: pa.Table, other: pa.Table, names: list[str]) -> NDArray[np.bool_]:
    """In which rows these columns have the same values; floats bit by bit."""
    same = np.ones(len(one), np.bool_)
    for name in names:
        same &= _alike(one.column(name).combine_chunks(), other.column(name).combine_chunks())
    return same


def _alike(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([repr(x) == repr(y) for x, y in pairs], np.bool_)
    if pa.types.is_floating(one.type):
        one, other = _bits(one), _bits(other)
    equal = pc.fill_null(pc.equal(one, other), False)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    found: NDArray[np.bool_] = pc.or_(equal, both_null).to_numpy(zero_copy_only=False)
    return found


def _bits(floats: pa.Array) -> pa.Array:
    values = floats.cast(pa.float64())
    null = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values.fill_null(0.0).to_numpy().view(np.int64), mask=null)
