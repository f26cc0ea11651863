"""Rolling answers straight from the definitions, in exact rational arithmetic.

Slow on purpose and sharing no code with the engine: every row's window is found by looking at
every row (here), and every aggregate is computed anew from the rows in it (`oracle_aggregates`).
Rows are plain dicts; ``None`` is null, NaN and infinities are ordinary floats, ints have no size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oracle_aggregates import FUNCTIONS, Agg, inside, needs, sum_bound, variance
from oracle_exact import (
    NULL_OR_NAN,
    Exact,
    differences,
    is_nan,
    matches,
    nearest_double,
    nearest_sqrt,
)

__all__ = [
    "NULL_OR_NAN",
    "Agg",
    "Exact",
    "Rolling",
    "aggregate",
    "answers",
    "differences",
    "frame",
    "group_of",
    "matches",
    "nearest_double",
    "nearest_sqrt",
    "sum_bound",
    "variance",
]

Row = Mapping[str, Any]


class Rolling(NamedTuple):
    """A trailing window. ``kind`` is "time", "rows" or "all" (everything so far)."""

    aggs: Mapping[str, Agg]
    kind: str
    range: int | None = None
    on: str | None = None
    by: tuple[str, ...] = ()
    closed: str = "right"
    lag: int = 0
    ties: str = "peers"
    min_periods: int | None = None


# ---- which rows ------------------------------------------------------------------------------


def group_of(row: Row, by: Sequence[str]) -> tuple:
    """The row's group: nulls are one value, NaNs are another."""
    return tuple("<NaN>" if is_nan(row[c]) else (row[c],) for c in by)


def in_order(rows: Sequence[Row], on: str | None) -> list[int]:
    """Row numbers by (time, arrival), or by arrival alone where there is no time."""
    return sorted(range(len(rows)), key=lambda i: (rows[i][on] if on else 0, i))


def frame(rows: Sequence[Row], i: int, spec: Rolling) -> list[int]:
    """The row numbers inside the window of row ``i``, in (time, arrival) order."""
    group = group_of(rows[i], spec.by)
    mates = [j for j in in_order(rows, spec.on) if group_of(rows[j], spec.by) == group]
    if spec.kind == "rows" or spec.on is None:
        return _frame_by_position(mates, mates.index(i), spec)
    return [j for j in mates if _inside_by_time(rows, j, i, spec)]


def _frame_by_position(mates: list[int], here: int, spec: Rolling) -> list[int]:
    right = here - spec.lag
    left = -math.inf if spec.range is None else right - spec.range
    return [j for p, j in enumerate(mates) if between(p, left, right, spec.closed)]


def _inside_by_time(rows: Sequence[Row], j: int, i: int, spec: Rolling) -> bool:
    now, then = rows[i][spec.on], rows[j][spec.on]
    right = now - spec.lag
    left = -math.inf if spec.range is None else right - spec.range
    if spec.ties == "arrival" and not spec.lag:
        # The right edge lies between two rows of one instant, just before or just after row i.
        # With a lag it lies elsewhere, and all rows of one instant are on one side of it.
        closed_right = spec.closed in ("right", "both")
        before_right = (then, j) <= (right, i) if closed_right else (then, j) < (right, i)
        return before_right and (then >= left if spec.closed in ("left", "both") else then > left)
    return between(then, left, right, spec.closed)


def between(x: float, left: float, right: float, closed: str) -> bool:
    """Whether ``x`` lies in the interval, each edge open or closed."""
    above = x >= left if closed in ("left", "both") else x > left
    below = x <= right if closed in ("right", "both") else x < right
    return above and below


# ---- what ------------------------------------------------------------------------------------


def answers(spec: Rolling, rows: Sequence[Row]) -> list[dict[str, Exact]]:
    """Every aggregate's exact answer for every row, in input order."""
    out = []
    for i in range(len(rows)):
        window = [rows[j] for j in frame(rows, i, spec)]
        out.append({name: aggregate(a, window, spec.min_periods) for name, a in spec.aggs.items()})
    return out


def aggregate(agg: Agg, window: Sequence[Row], min_periods: int | None = None) -> Exact:
    """One aggregate of the rows of one window, given in window order."""
    counting = inside(agg, window)
    if len(counting.ages) < max(min_periods or 0, agg.min_count or 0, needs(agg)):
        return Exact(None)
    return FUNCTIONS[agg.fn](counting, agg)
