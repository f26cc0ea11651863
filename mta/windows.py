"""The meaning of every kind of window, as plain functions over plain lists; nothing here is fast.

A spec gives its windows numbers (window-ids). `windows` lists those of some rows, `extent` the
rows of a window, and `wids`, its inverse, the windows of a row: a row is in the extent of a window
if and only if the window is among its wids. The thesis on window-ids, chapter 4, has the three. A
hopping window counts from its start here, ``[origin + w slide, origin + w slide + range)``, from
its end there, and Eq. 5.3, 5.6 and 5.9 there are misprinted.

The rows are those of one group, as their times in order of arrival. Times are whole numbers of
`unit` ("i": ticks; or "s", "ms", "us", "ns"). A window of a trailing spec (`mta.rolling`) has the
number of its row. ``mta._buckets.Extents`` does the same over arrays.

>>> import mta
>>> from mta.windows import extent, wids, windows
>>> hops, ts = mta.hopping("10i", slide="4i", on="ts"), [3, -1, 0]
>>> windows(hops, ts)
[-2, -1, 0]
>>> extent(hops, -1, ts)
[1, 2, 0]
>>> wids(hops, 1, ts)
[-2, -1]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mta.durations import Duration
from mta.errors import SpecError
from mta.periodic import FIRST, Calendar, Hopping, Landmark, Periodic
from mta.specs import Rolling, Spec

Times = Sequence[int]


def windows(spec: Spec, ts: Times, unit: str = "i") -> list[int]:
    """The numbers of the windows that hold a row, in order.

    Of a landmark spec: up to the window that the last row comes in. Of a trailing one (slide by
    tuples): of every row, or after `every` more by rank, or after `every` more arrivals, always in
    order of (time, arrival).
    """
    if isinstance(spec, Rolling):
        step, rows = spec.every or 1, in_order(spec, ts)
        return rows[step - 1 :: step] if spec.by_rank else [i for i in rows if (i + 1) % step == 0]
    return sorted({wid for row in range(len(ts)) for wid in wids(spec, row, ts, unit)})


def extent(spec: Spec, wid: int, ts: Times, unit: str = "i") -> list[int]:
    """The rows of a window, in order of (time, arrival)."""
    if isinstance(spec, Rolling):
        return _trailing_rows(spec, wid, ts, unit)
    assert isinstance(spec, Periodic)
    start, end = interval(spec, wid, ts, unit)
    left, right = not spec.right_closed, spec.right_closed
    return [i for i in in_order(spec, ts) if _between(ts[i], start, end, left, right)]


def wids(spec: Spec, row: int, ts: Times, unit: str = "i") -> list[int]:
    """The windows that a row is in, in order; none where it falls between windows (slide > range).

    A landmark spec has no last window; here they end with the one that the last row comes in.
    """
    if isinstance(spec, Rolling):
        return [wid for wid in windows(spec, ts, unit) if row in extent(spec, wid, ts, unit)]
    # A time t is in (s, e] if t - 1, in ticks, is in [s, e).
    t = ts[row] - spec.right_closed
    if isinstance(spec, Calendar):
        return [spec.clock(unit).number(t)]
    assert isinstance(spec, (Hopping, Landmark))
    origin = _origin(spec, ts, unit)
    if isinstance(spec, Hopping):
        slide = _length(spec.slide or spec.range, unit)
        first = (t - _length(spec.range, unit) - origin) // slide + 1
        return list(range(first, (t - origin) // slide + 1))
    slide = _length(spec.slide, unit)
    last = (max(ts) - spec.right_closed - origin) // slide
    first = (t - origin) // slide
    return [] if spec.origin is not None and first < 0 else list(range(first, last + 1))


def interval(spec: Periodic, wid: int, ts: Times, unit: str = "i") -> tuple[float, float]:
    """Start and end of a window in time; -inf where it has no start."""
    if isinstance(spec, Calendar):
        clock = spec.clock(unit)
        return clock.edge(wid), clock.edge(wid + 1)
    assert isinstance(spec, (Hopping, Landmark))
    origin = _origin(spec, ts, unit)
    if isinstance(spec, Landmark):
        start = -math.inf if spec.origin is None else origin
        return start, origin + (wid + 1) * _length(spec.slide, unit)
    start = origin + wid * _length(spec.slide or spec.range, unit)
    return start, start + _length(spec.range, unit)


def in_order(spec: Spec, ts: Times) -> list[int]:
    """The rows in order of (time, arrival); of arrival, where no time is given."""
    return sorted(range(len(ts)), key=lambda i: (ts[i] if spec.on is not None else 0, i))


def _trailing_rows(spec: Rolling, row: int, ts: Times, unit: str) -> list[int]:
    order = in_order(spec, ts)
    if spec.over_rows:
        place = {i: at for at, i in enumerate(order)}
        lag = spec.lag if isinstance(spec.lag, int) else 0
        start, end = _edges(place[row], lag, spec.range if isinstance(spec.range, int) else None)
        left, right = spec.left_closed, spec.right_closed
        return [i for i in order if _between(place[i], start, end, left, right)]
    lag = _length(spec.lag, unit) if isinstance(spec.lag, Duration) else 0
    length = _length(spec.range, unit) if isinstance(spec.range, Duration) else None
    start, end = _edges(ts[row], lag, length)
    inside = [i for i in order if _between(ts[i], start, end, spec.left_closed, spec.right_closed)]
    if spec.ties == "peers" or lag:
        return inside
    # A row sees those of its own time that came before it; with a closed edge, itself.
    before = [i for i in order if _between(ts[i], start, end, spec.left_closed, True)]
    return [i for i in before if (ts[i], i) < (ts[row], row + spec.right_closed)]


def _edges(at: int, lag: int, length: int | None) -> tuple[float, float]:
    return -math.inf if length is None else at - lag - length, at - lag


def _between(t: int, start: float, end: float, left: bool, right: bool) -> bool:
    return (t >= start if left else t > start) and (t <= end if right else t < end)


def _length(length: Duration | int | None, unit: str) -> int:
    ticks = length.in_unit(unit) if isinstance(length, Duration) else None
    if ticks is None:
        raise SpecError(f"unit: {length} is no whole number of {unit!r}")
    return ticks


def _origin(spec: Hopping | Landmark, ts: Times, unit: str) -> int:
    if spec.origin == FIRST:
        return ts[0]
    return _length(spec.origin, unit) if isinstance(spec.origin, Duration) else 0
