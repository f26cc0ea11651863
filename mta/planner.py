"""Which physical plan answers the windows of a stream, by what the papers' cost functions say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mta.costs import (
    memory_eager,
    memory_lazy,
    panes_per_window,
    time_panes_differential,
    time_windows,
)

PLANS = ("auto", "rows", "wid", "paned", "adapt")

# Nanoseconds, measured on the machine that the README names: a row that goes into a partial (a,
# a'), a partial that comes out of a pane (b), a partial that enters or leaves a window (c).
_ROW, _OUT, _STEP = 40.0, 20.0, 15.0
# The share of eager aggregation's memory that keeping rows must save to be worth two kinds of
# state.
_WORTH = 0.8


@dataclass(frozen=True)
class Observed:
    """What a stream has seen of its rows.

    range, slide : in ticks
    rows : T, in a window; groups : G, in a pane
    eager, lazy : what the groups seen would hold as partials by pane, and what each of them would
        that is cheaper kept as rows, in bytes
    """

    range: int
    slide: int
    rows: float
    groups: float
    eager: float
    lazy: float


@dataclass(frozen=True)
class Choice:
    """A plan, and why."""

    plan: str
    why: str


def choose_plan(seen: Observed) -> Choice:
    """The plan that costs least by Eq. 6.1 to 6.6.

    >>> few = Observed(3600, 10, 72_000, 50, 720_000, 720_000)
    >>> choose_plan(few).plan
    'paned'
    """
    panes = panes_per_window(seen.range, seen.slide)
    by_window = time_windows(_ROW, seen.rows)
    # What leaves is subtracted, and extremes are kept as wedges: either way a pane comes and goes
    # once, so Eq. 6.2 holds where the thesis would go over all panes of a window (Eq. 6.1).
    by_pane = time_panes_differential(
        _ROW, _OUT, _STEP, seen.rows, panes, seen.groups, seen.range, seen.slide
    )
    costs = (
        f"a window costs about {_micro(by_pane)} by panes (Eq. 6.2; {panes} of them, "
        f"{seen.groups:.0f} groups in one) and {_micro(by_window)} without (Eq. 6.3; "
        f"{seen.rows:.0f} rows)"
    )
    if by_window < by_pane:
        return Choice("wid", costs)
    if seen.lazy < _WORTH * seen.eager:
        return Choice(
            "adapt",
            f"{costs}; partials would take {seen.eager:.0f} bytes (Eq. 6.5), rows where they are "
            f"fewer {seen.lazy:.0f} (Eq. 6.6)",
        )
    return Choice("paned", costs)


def _micro(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.3g} us"


def memory_by_group(
    rows: NDArray[np.int64], panes: NDArray[np.int64], partial: int, row: int
) -> tuple[float, float]:
    """What groups with so many rows, in so many panes, hold: all as partials by pane, and each the
    cheaper way.

    >>> import numpy as np
    >>> memory_by_group(np.array([1, 100]), np.array([1, 5]), 40, 16)
    (240.0, 216.0)
    """
    eager = np.array([memory_eager(partial, n, 1) for n in panes.tolist()])
    lazy = np.array([memory_lazy(row, n, 1) for n in rows.tolist()])
    return float(eager.sum()), float(np.minimum(eager, lazy).sum())
