"""Runs a spec over a whole batch: orders the rows, finds the windows, calls the kernels.

A row's way: adapter (`frames`) → plain columns → rows sorted by (key, time, arrival) → window
bounds → one kernel per state → answers back in the order of the input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._bounds import Bounds, GivenBounds, RowBounds, TimeBounds
from mta._keys import first_fall, group_places, sort_times, spread
from mta.arguments import plain_number
from mta.durations import NANOSECONDS, Duration, since_epoch
from mta.errors import DataError, SpecError
from mta.frames import Answer, Column, Frame, is_lazy, open_frame, run_later
from mta.items import check_items
from mta.plan import Feed, Input, Plan, check_types, make_plan
from mta.rows import counted_rows, distinct_values, fed_values, value_codes
from mta.slider import AnswerOverflowError, Mask, taken_answer
from mta.specs import Rolling, Spec
from mta.threads import check_threads, slide_in_threads

Ints = NDArray[np.int64]

# Units from coarse to fine; a range that is no whole number of one is told in a finer one.
_FINER = ("d", "s", "ms", "us", "ns")


@dataclass(frozen=True)
class Ticks:
    """The time axis of one run: what a tick is, and the window in ticks."""

    unit: str | None
    scale: int  # ticks per unit of the column
    range: int | None
    lag: int
    finer: str = "i"  # the unit of a tick

    def of(self, time: Any, argument: str) -> int:
        """A single time (integer, datetime, numpy.datetime64 or pandas.Timestamp) in ticks.

        Raises
        ------
        DataError
            It is not a time of this axis.
        """
        if self.unit is None or self.unit == "i":
            ticks = plain_number(time)
            if not isinstance(ticks, int) or isinstance(ticks, bool):
                raise DataError(f"{argument}: an integer like the column's is needed, not {time!r}")
        else:
            try:
                since = since_epoch(np.datetime64(time) if isinstance(time, str) else time)
            except ValueError:
                since = None
            if since is None:
                raise DataError(f"{argument}: a time is needed, not {time!r}")
            ticks = since // NANOSECONDS[self.unit] * self.scale
        if not -(2**63) <= ticks < 2**63:
            raise DataError(f"{argument}: {time!r} is beyond the times that the column can hold")
        return ticks


def run_batch(spec: Rolling, data: Any, threads: int = 1) -> Any:
    """Answer every row of `data`; see ``Rolling.__call__``."""
    if is_lazy(data):
        return run_later(lambda rows: run_batch(spec, rows, threads), data, columns_of(spec))
    batch = Batch(spec, data)
    picked = None if spec.every is None else every_rows(batch.offsets, spec.every)
    plan, columns, rows = batch.plan, batch.columns, batch.rows
    if spec.by_rank or batch.places is None:

        def make_bounds() -> Bounds:
            return find_bounds(spec, batch.ts, batch.offsets, batch.ticks)

        answers = slide_columns(plan, columns, make_bounds, rows, picked, check_threads(threads))
    else:
        assert spec.every is not None
        picked = every_arrival(batch.offsets, batch.places, spec.every)
        given = picked_bounds(spec, batch, picked)
        answers = slide_columns(plan, columns, given, rows, picked, check_threads(threads), True)
    if picked is None:
        return batch.frame.build(answers)
    at = np.sort(batch.rows.to_input(picked))
    shown = [taken_answer(name, batch.frame.column(name), at) for name in labels(spec)]
    return batch.frame.build([*shown, *answers], at)


def columns_of(spec: Spec) -> list[str]:
    """All columns that it reads."""
    plan = make_plan(spec.asked, spec.min_periods or 0)
    return list(dict.fromkeys([*labels(spec), *plan.columns]))


class Batch:
    """Data that a spec can be run over: its rows in order of (key, time, arrival).

    Raises
    ------
    SpecError, DataError, ColumnError
        It can't.
    """

    def __init__(self, spec: Spec, data: Any) -> None:
        self.plan = make_plan(spec.asked, spec.min_periods or 0)
        self.frame = open_frame(data)
        for name in self.plan.columns:
            self.frame.require(name, "agg")
        self.columns = {name: self.frame.column(name) for name in self.plan.columns}
        check_types(self.plan, self.columns)
        self.places, self.offsets, self.ts, self.ticks = sort_rows(spec, self.frame)
        self.rows = SortedRows(self.frame, self.columns, self.places)


def labels(spec: Spec) -> list[str]:
    """The columns that say which row an answer belongs to, where not every row has one."""
    return list(dict.fromkeys([*spec.by, *([spec.on] if spec.on else [])]))


def every_rows(offsets: Ints, every: int) -> Ints:
    """The sorted rows after which there are so many more of their key, 2 times so many, …"""
    sizes = np.diff(offsets)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    return np.flatnonzero((within + 1) % every == 0)


def every_arrival(offsets: Ints, places: Ints, every: int) -> Ints:
    """The sorted rows that are the `every`-th, 2 times `every`-th, … of their key to come."""
    sizes = np.diff(offsets)
    keys = np.repeat(np.arange(len(sizes)), sizes)[places]
    arrived, _ = group_places(keys, len(sizes), None)
    wanted = (arrived - offsets[keys] + 1) % every == 0
    return np.sort(places[wanted])


def picked_bounds(spec: Rolling, batch: Batch, picked: Ints) -> Callable[[], Bounds]:
    """Makes the windows of these sorted rows."""
    every_row = replace(spec, every=None, every_by="rank")
    lo, hi = find_bounds(every_row, batch.ts, batch.offsets, batch.ticks).arrays()
    lo, hi = lo[picked], hi[picked]
    return lambda: GivenBounds(lo, hi)


def sort_rows(spec: Spec, frame: Frame) -> tuple[Ints | None, Ints, Ints | None, Ticks]:
    """Rows by (key, time, arrival): each row's place in that order (None: its own), the offsets of
    the keys there, and the times in that order."""
    for name in spec.by:
        frame.require(name, "by")
    ticks = Ticks(None, 1, None, 0)
    ts = order = None
    places: Ints | None
    if spec.on is not None:
        frame.require(spec.on, "on")
        column = frame.column(spec.on)
        ticks = time_axis(spec, column)
        ts = time_values(column, ticks)
        if first_fall(ts) >= 0:
            order = sort_times(ts)
    if spec.by:
        places, offsets = group_places(*frame.key_codes(spec.by), order)
    else:
        offsets = np.array([0, frame.rows], np.int64)
        places = None if order is None else spread(np.arange(frame.rows), order)
    return places, offsets, ts if ts is None or places is None else spread(ts, places), ticks


def time_axis(spec: Spec, column: Column) -> Ticks:
    """The range and the lag in ticks of the column, or of the least finer unit that is exact."""
    if column.kind not in ("time", "date", "int", "uint", "null"):
        raise DataError(f"on: column {column.name!r} is {column.dtype}, not times or integers")
    lengths = spec.lengths
    unit = column.unit or "i"
    if column.kind == "null" and not all(length.ticks for length in lengths):
        unit = "ns"
    check_lengths(spec, column.name, unit != "i")
    start = _FINER.index(unit) if unit != "i" else 0
    if spec.kind == "calendar":  # by the clocks of a zone a day need not begin at midnight in UTC
        start = max(start, _FINER.index("s"))
    for finer in _FINER[start:] if unit != "i" else ("i",):
        if all(length.in_unit(finer) is not None for length in lengths):
            break
    scale = NANOSECONDS[unit] // NANOSECONDS[finer] if unit != "i" else 1
    extent, lag = getattr(spec, "range", None), getattr(spec, "lag", None)
    return Ticks(unit, scale, _in_ticks(extent, finer), _in_ticks(lag, finer) or 0, finer)


def check_lengths(spec: Spec, on: str, holds_times: bool) -> None:
    """Refuse a range or lag of time over a column of integers, and one of ticks over times."""
    for length in spec.lengths:
        if not length.amount:
            continue  # nothing is nothing in any unit
        if length.ticks and holds_times:
            raise SpecError(f"range: {length} counts integers, but column {on!r} holds times")
        if not length.ticks and not holds_times:
            raise SpecError(
                f"range: {length} is a time, but column {on!r} holds integers; "
                "write it in their ticks, like '3600i'"
            )


def _in_ticks(length: int | Duration | None, unit: str) -> int | None:
    return length.in_unit(unit) if isinstance(length, Duration) else None


def time_values(column: Column, ticks: Ticks) -> Ints:
    """The times in ticks.

    Raises
    ------
    DataError
        A time is null, or does not fit in 64 bits of the unit that the range needs.
    """
    if column.valid is not None:
        missing = np.flatnonzero(~column.valid)
        raise DataError(
            f"on: column {column.name!r} is null in row {missing[0]} "
            f"({len(missing)} of {len(column.valid)} rows); a row without a time has no window"
        )
    assert column.values is not None
    if column.kind == "uint" or ticks.scale > 1:
        _check_fits(column.name, column.values, 2**63 // ticks.scale - 1)
    values = column.values.astype(np.int64, copy=False)
    return values * ticks.scale if ticks.scale > 1 else values


def _check_fits(name: str, values: NDArray[Any], limit: int) -> None:
    least = 0 if values.dtype == np.uint64 else -limit
    outside = np.flatnonzero((values > limit) | (values < least))
    if len(outside):
        raise DataError(
            f"on: column {name!r}, row {outside[0]}: {values[outside[0]]} does not fit in 64 bits "
            f"of the ticks that the range needs ({len(outside)} rows)"
        )


def find_bounds(spec: Rolling, ts: Ints | None, offsets: Ints, ticks: Ticks) -> Bounds:
    """Every row's window as an interval of sorted rows."""
    if spec.over_rows:
        return RowBounds(offsets, *row_edges(spec), spec.every or 1)
    assert ts is not None
    return TimeBounds(
        ts, offsets, ticks.range, ticks.lag, spec.left_closed, spec.right_closed,
        ties_by_arrival(spec, ticks), spec.every or 1,
    )  # fmt: skip


def ties_by_arrival(spec: Rolling, ticks: Ticks) -> bool:
    """Whether a row's place decides what it sees; with a lag, no row of its time is inside."""
    return spec.ties == "arrival" and ticks.lag == 0


def row_edges(spec: Rolling) -> tuple[int, int]:
    """A row window as offsets from its own row: rows [i + first, i + last)."""
    far = 2**61  # beyond any row, and sums of two still fit in 64 bits
    rows = min(spec.range, far) if isinstance(spec.range, int) else far
    lag = max(-far, min(spec.lag, far)) if isinstance(spec.lag, int) else 0
    # (i - rows, i] in half-open terms is [i - rows + 1, i + 1).
    first = -lag - rows + (not spec.left_closed) if spec.range is not None else -2 * far
    return first, spec.right_closed - lag


def row_windows(spec: Rolling, at: Ints, received: int | Ints) -> tuple[Ints, Ints]:
    """The windows of a key's rows number `at`, over rows, when so many have come: (lo, hi)."""
    first, last = row_edges(spec)
    hi = np.minimum(np.maximum(at + last, 0), received)
    return np.minimum(np.maximum(at + first, 0), hi), hi


def slide_columns(
    plan: Plan,
    columns: dict[str, Column],
    make_bounds: Callable[[], Bounds],
    rows: SortedRows,
    picked: Ints | None = None,
    threads: int = 1,
    given: bool = False,
) -> list[Answer]:
    """Run every kernel over the sorted rows and put the answers in input order.

    make_bounds : fresh bounds, for each thread
    picked : the sorted rows that have a window; None: all
    given : the bounds are of these rows only
    """
    told = None if given else picked
    try:
        raw = slide_in_threads(plan, columns, rows, make_bounds, told, threads)
    except AnswerOverflowError as error:
        row = error.window if picked is None else picked[error.window]
        raise error.explain(f"of row {rows.to_input(np.array([row]))[0]}") from None
    rows.release()
    places = rows.places
    if picked is not None and places is not None:
        places = np.argsort(rows.to_input(picked))
    return raw.answers(places, rows.to_input)


class SortedRows:
    """The rows of a frame in order of (key, time, arrival), as the kernels read them.

    places : each row's place in that order; None: its own
    """

    first = 0

    def __init__(self, frame: Frame, columns: dict[str, Column], places: Ints | None) -> None:
        self.frame = frame
        self.columns = columns
        self.places = places
        self._feeds: dict[Feed, NDArray[Any]] = {}
        self._valids: dict[Input, Mask | None] = {}
        self._items: dict[Feed, list[Any]] = {}
        self._rows: Ints | None = None

    def feed(self, feed: Feed) -> NDArray[Any]:
        """A column's 8-byte values or codes."""
        if feed not in self._feeds:
            column = self.columns[feed.column]
            data = self._fed(column, feed)
            self._feeds[feed] = data if self.places is None else spread(data, self.places)
        return self._feeds[feed]

    def _fed(self, column: Column, feed: Feed) -> NDArray[Any]:
        if feed.codes:
            return value_codes(self.frame, column)
        if column.values is not None or not feed.items:
            return fed_values(column, feed)
        codes, firsts, items = distinct_values(self.frame, column)
        check_items(column, feed, firsts, items)
        self._items[feed] = items
        return codes

    def items(self, feed: Feed) -> list[Any] | None:
        """What the codes of a feed stand for."""
        return self._items.get(feed)

    def valid(self, source: Input) -> Mask | None:
        """Which rows count."""
        if source not in self._valids:
            valid = counted_rows(source, self.columns)
            if valid is not None and self.places is not None:
                valid = spread(valid, self.places)
            self._valids[source] = valid
        return self._valids[source]

    def release(self) -> None:
        """Forget the columns in this order; kernels have read them."""
        self._feeds.clear()
        self._valids.clear()

    def to_input(self, rows: Ints) -> Ints:
        """From places in the order to rows of the input."""
        if self.places is None:
            return rows
        if self._rows is None:
            self._rows = spread(np.arange(len(self.places)), self.places)
        return self._rows[rows]
