"""The papers' cost functions, under the names that they have there.

Thesis on window-ids, chapter 6: what a window aggregate costs a window by panes or without (Eq. 6.1
to 6.4), and what it holds if it aggregates at once or keeps the rows (Eq. 6.5 to 6.8).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd


def panes_per_window(range_: int, slide: int) -> int:
    """P: panes are of length gcd(range, slide).

    >>> panes_per_window(9, 6)
    3
    """
    return range_ // gcd(range_, slide)


def time_panes(a: float, b: float, c: float, rows: float, panes: float, groups: float) -> float:
    """Eq. 6.1: the cost of a window by panes, where nothing can be subtracted.

    a, b, c : of a row that comes into a pane, of a partial that a pane gives, of a partial that a
        window takes; any unit
    rows : T, in a window; panes : P, of a window; groups : G, in a pane

    >>> time_panes(1, 1, 1, 4000, 4, 10)
    1050.0
    """
    return a * rows / panes + b * groups + c * panes * groups


def time_panes_differential(
    a: float, b: float, c: float, rows: float, panes: float, groups: float, range_: int, slide: int
) -> float:
    """Eq. 6.2: the same where what leaves is subtracted: only the panes of a slide come and go.

    >>> time_panes_differential(1, 1, 1, 4000, 4, 10, 4, 1)
    1030.0
    """
    return a * rows / panes + b * groups + 2 * c * groups * slide / gcd(range_, slide)


def time_windows(a: float, rows: float) -> float:
    """Eq. 6.3: the cost of a window without panes: every row of it, once.

    >>> time_windows(1, 4000)
    4000
    """
    return a * rows


def time_windows_differential(a: float, rows: float, range_: int, slide: int) -> float:
    """Eq. 6.4: the same of rows that are kept in order, and come and go one by one.

    >>> time_windows_differential(1, 4000, 4, 1)
    2000.0
    """
    return 2 * a * slide * (rows / range_)


def memory_eager(partial: float, duration: float, slide: float) -> float:
    """Eq. 6.5: bytes of a group that is aggregated at once.

    partial : bytes of a partial
    duration : for how long a window is open (wed); slide : distance of two windows, or of two panes
        where the partials are theirs

    >>> memory_eager(40, 600, 60)
    400.0
    """
    return partial * (duration / slide)


def memory_lazy(
    row: float, volume: float, duration: float, offsets: Iterable[tuple[float, float]] = ()
) -> float:
    """Eq. 6.6, and with offsets Eq. 6.8: bytes of a group whose rows are kept.

    row : bytes of a row; volume : rows per unit of time
    offsets : of every source its volume, and by how much it is behind the first one

    >>> memory_lazy(16, 0.5, 600), memory_lazy(16, 0.5, 600, [(0.25, 400)])
    (4800.0, 3200.0)
    """
    return row * (volume * duration - sum(mine * behind for mine, behind in offsets))


def eager_above(
    partial: float,
    row: float,
    duration: float,
    slide: float,
    offsets: Iterable[tuple[float, float]] = (),
) -> float:
    """Cond. 6.9: with more rows than these in a window, a group is better aggregated at once.

    offsets : of every source its share of the rows, and by how much it is behind the first one

    The sum of volumes times offsets in the condition is a share of the window's own volume, so the
    bound is solved for it here. It is infinite where no row would ever be held for long.

    >>> eager_above(40, 16, 600, 60)
    25.0
    >>> eager_above(40, 16, 600, 60, [(0.5, 600)])
    50.0
    """
    held = 1 - sum(share * behind for share, behind in offsets) / duration
    return partial * duration / (row * slide) / held if held > 0 else float("inf")
