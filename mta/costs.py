"""The papers' cost functions, under the names that they have there.

Thesis on window-ids, chapter 6: what a window aggregate costs a window by panes or without (Eq. 6.1
to 6.4), and what it holds if it aggregates at once or keeps the rows (Eq. 6.5 to 6.8).
SlideM, 2013: what windows hold by one level of aggregation and by two (formulas 2.1 and 2.2), and
how often a window on a store reads and writes, alone (3.1, 3.2) and with others (4.1, 4.2).
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


def space_two_levels(
    aggregates: float,
    groups_a_slide: float,
    groups: float,
    range_: float,
    slide: float,
    pane_state: float,
    row: float,
    state: float,
) -> float:
    """Formula 2.1: bytes of windows by two levels (2LA): tumbling partials, then windows over them.

    aggregates : N, operators (the paper's 104: what several answers share, as a COUNT, is one)
    groups_a_slide : g, in a slide; groups : G, in a window; range_ : W; slide : U, in one unit
    pane_state, state : s' and s, of a group in either level; row : t_agg, what the first one gives

    >>> round(space_two_levels(104, 1000, 10000, 86400, 10, 16, 20, 16) / 2**30, 1)  # "17 GB"
    16.8
    """
    second = groups_a_slide * (pane_state + range_ * row / slide)
    return aggregates * (second + groups * state)


def space_one_window(
    aggregates: float, groups: float, range_: float, rate: float, row: float, state: float
) -> float:
    """Formula 2.2: bytes of windows that keep their rows once for all aggregates (1W).

    aggregates : N, answers (the paper's 144); groups : G, in a window; range_ : W
    rate : λ, rows per unit of time; row : t, bytes of a row; state : s, bytes of an aggregate

    >>> round(space_one_window(144, 10000, 86400, 1000, 94, 16) / 2**30, 1)   # "8 GB"
    7.6
    """
    return rate * range_ * row + aggregates * groups * state


def requests_a_second(rate: float, block: int, row: float) -> float:
    """Formula 3.1: IOPS: every block is written once and read once.

    rate : λ, rows a second; block : bytes of a block; row : bytes of a row

    >>> round(requests_a_second(1000, 64 * 1024, 94), 1)
    2.9
    """
    return 2 * rate / (block // row)


def bytes_a_second(rate: float, block: int, row: float) -> float:
    """Formula 3.2: what these requests move.

    >>> round(bytes_a_second(1000, 64 * 1024, 94) / 2**20, 2)
    0.18
    """
    return requests_a_second(rate, block, row) * block


def shared_requests(windows: int, hit_rate: float, reads: float = 1, writes: float = 1) -> float:
    """Formula 4.1: #IO of N windows over one repository, for every block of rows that comes.

    hit_rate : ρ, how often a window's next block is in memory
    reads, writes : R and W, the cost of a request

    >>> shared_requests(32, 0.0), shared_requests(32, 1.0), shared_requests(1, 0.0)
    (64.0, 1.0, 2.0)
    """
    return writes + (1 - hit_rate) * ((windows - 1) * (reads + writes) + reads)


def shared_hit_rate(resident: Iterable[float], blocks: Iterable[float]) -> float:
    """Formula 4.2: ρ of SSM: how much of what lies between two fronts is in memory, on average.

    resident : B_i, blocks of every segment that are in memory; blocks : S_i, all blocks of it

    >>> shared_hit_rate([1, 2], [4, 4])
    0.375
    """
    shares = [held / of for held, of in zip(resident, blocks, strict=True)]
    return sum(shares) / len(shares)
