"""Runs hopping, tumbling, landmark and calendar specs over a whole batch.

Rows are sorted by (key, time, arrival) as for trailing windows. Every window of a group is an
interval of its sorted rows, and both edges only move forward, so the same kernels answer it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta._bounds import GivenBounds
from mta._buckets import Extents
from mta.durations import NANOSECONDS
from mta.engine import Batch, Ints, Ticks, columns_of
from mta.errors import DataError, SpecError
from mta.frames import Answer, Column, Frame, is_lazy, run_later
from mta.periodic import Calendar, Hopping, Landmark, Periodic
from mta.slider import AnswerOverflowError, RawAnswers, taken_answer
from mta.threads import check_threads, slide_in_threads


def run_periodic(spec: Periodic, data: Any, threads: int = 1) -> Any:
    """Answer every window of `data`; see ``Periodic.__call__``."""
    check_threads(threads)
    check_edge_names(spec)
    if is_lazy(data):
        return run_later(lambda rows: run_periodic(spec, rows, threads), data, columns_of(spec))
    batch = Batch(spec, data)
    assert batch.ts is not None and spec.on is not None
    places = batch.rows.to_input(np.arange(len(batch.ts)))
    origin = int(batch.ts[places.argmin()]) if len(batch.ts) else 0
    extents = find_extents(spec, batch.ts, batch.ticks, origin)
    check_edges(extents, batch.ts)
    last = landmark_end(extents, batch.ts) if isinstance(spec, Landmark) else None
    group, wid, lo, hi = extents.over(batch.ts, batch.offsets, spec.empty == "emit", last)
    try:
        raw = slide_windows(batch, extents, wid, lo, hi, threads)
    except AnswerOverflowError as error:
        first = int(batch.rows.to_input(lo[error.window : error.window + 1])[0])
        raise error.explain(f"number {wid[error.window]} of row {first}") from None
    answers = raw.answers(None, batch.rows.to_input)
    shown = key_answers(spec, batch, group) + edge_answers(
        spec, batch.frame, batch.ticks, extents, wid
    )
    return batch.frame.build_numbered([*shown, *answers], np.arange(len(wid)))


def slide_windows(
    batch: Batch, extents: Extents, wid: Ints, lo: Ints, hi: Ints, threads: int = 1
) -> RawAnswers:
    """The answers of the windows of these numbers, [lo, hi) of a batch's sorted rows."""
    assert batch.ts is not None
    cut = extents.cuts(batch.ts, wid, lo, hi)
    return slide_in_threads(
        batch.plan, batch.columns, batch.rows, lambda: GivenBounds(lo, hi, cut), None, threads
    )


def check_edge_names(spec: Periodic, *more: str) -> None:
    """Refuse keys and answers that are called as the edges of a window, and answers as keys."""
    answers = [name for name, _ in spec.aggs]
    for name in answers:
        if name in spec.by:
            raise SpecError(f"agg: {name!r} is the column of the key (by=); name it otherwise")
    for name in (*spec.by, *answers):
        if name in ("start", "end", *more):
            raise SpecError(f"{name!r} is what a window's own column is called; name it otherwise")


def landmark_end(extents: Extents, ts: Ints) -> int:
    """The window that the last of these rows comes in."""
    return int(extents.wids(ts.max(keepdims=True))[1][0]) if len(ts) else 0


def find_extents(spec: Periodic, ts: Ints, ticks: Ticks, first: int) -> Extents:
    """The windows in ticks.

    ts : all times
    first : that of the row that came first
    """
    right = spec.right_closed
    if isinstance(spec, Calendar):
        return Extents(1, 1, 0, right, calendar_edges(spec, ts, ticks))
    origin = _origin(spec, ticks, first)
    if isinstance(spec, Landmark):
        slide = _whole(spec.slide.in_unit(ticks.finer))
        return Extents(None, slide, origin, right, landmark=spec.origin is not None)
    assert isinstance(spec, Hopping)
    length = _whole(spec.range.in_unit(ticks.finer))
    slide = _whole((spec.slide or spec.range).in_unit(ticks.finer))
    return Extents(length, slide, origin, right)


def _whole(length: int | None) -> int:
    assert length is not None  # time_axis has found a unit in which all lengths are whole
    return length


def _origin(spec: Periodic, ticks: Ticks, first: int) -> int:
    if spec.origin is None:
        return 0
    return first if isinstance(spec.origin, str) else _whole(spec.origin.in_unit(ticks.finer))


def calendar_edges(spec: Calendar, ts: Ints, ticks: Ticks) -> Ints:
    """Where the periods begin that hold these times, and one more."""
    if ticks.finer == "i":
        raise DataError(f"on: column {spec.on!r} holds integers; a calendar needs times")
    low, high = (int(ts.min()), int(ts.max())) if len(ts) else (0, 0)
    _, edges = spec.clock(ticks.finer).edges(low - spec.right_closed, high)
    return np.array(edges, np.int64)


def key_answers(spec: Periodic, batch: Batch, group: Ints) -> list[Answer]:
    """The key columns of windows of these groups."""
    firsts = batch.rows.to_input(batch.offsets[:-1][group])
    return [taken_answer(name, batch.frame.column(name), firsts) for name in spec.by]


def check_edges(extents: Extents, ts: Ints) -> None:
    """Refuse times of which a window has an edge that 64 bits can't hold.

    Raises
    ------
    DataError
        There is one.
    """
    try:
        if len(ts):
            extents.check(int(ts.min()), int(ts.max()))
    except OverflowError as error:
        raise DataError(
            f"on: a window that holds the time {error.args[0]} has an edge that does not fit in "
            "64 bits"
        ) from None


def window_edges(extents: Extents, wid: Ints) -> tuple[Ints, Ints]:
    """Start and end of windows in ticks.

    Raises
    ------
    DataError
        One is beyond 64 bits.
    """
    try:
        return extents.edges_of(wid)
    except OverflowError as error:
        raise DataError(
            f"on: the window number {wid[error.args[0]]} has an edge that does not fit in 64 bits"
        ) from None


def edge_answers(
    spec: Periodic, frame: Frame, ticks: Ticks, extents: Extents, wid: Ints
) -> list[Answer]:
    """The columns "start" and "end" of windows of these numbers.

    frame : of the kind and with the time column of the rows
    """
    start, end = window_edges(extents, wid)
    assert spec.on is not None
    like, factor = edge_type(frame, frame.column(spec.on), ticks)
    open_start = isinstance(spec, Landmark) and spec.origin is None
    known = np.zeros(len(wid), np.bool_) if open_start else None
    if factor != 1:
        start, end = start * factor, end * factor
    return [Answer("start", start, known, like), Answer("end", end, None, like)]


def edge_type(frame: Frame, column: Column, ticks: Ticks) -> tuple[Column | None, int]:
    """What the edges are like (None: int64), and by how much ticks have to be multiplied for it."""
    if ticks.finer == "i":
        return None, 1
    if ticks.scale == 1 and column.kind != "null":
        return column, 1
    like = frame.times_like(column, ticks.finer)
    return like, NANOSECONDS[ticks.finer] // NANOSECONDS[like.unit or ticks.finer]
