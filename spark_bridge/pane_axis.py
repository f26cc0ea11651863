"""Where panes lie on the time axis: pieces of time of which every window of a spec is made.

Windows of lengths are made of panes of one length. The periods of a time zone are not: clocks go on
and back. But all their edges in the years that a program is likely to see are whole multiples of
some length from one of them (an hour, in most zones a quarter of one): that is found from the edges
themselves, by the clock that the windows go by. Before and after these years every tick is a pane.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta.calendars import Clock
from mta.durations import NANOSECONDS
from mta.periodic import FIRST, Calendar, Hopping, Landmark, Periodic
from spark_bridge.times import DAY, from_ticks, to_ticks, unit_of

# Of windows that are more panes than these, not many rows are expected in one.
MOST_PANES = 100
# The years whose edges are looked at, in seconds: 1970 to 2099.
_YEARS = (0, 4_102_444_800)


@dataclass(frozen=True)
class PaneAxis:
    """The panes of windows over a time column, in its ticks.

    length, origin : of a pane, and where one begins
    right : panes are of times that are so much earlier: (start, end] is [start, end) then
    years : from when to when they have this length; beyond, every tick is a pane. None: ever
    most : how many panes a window is made of, or more
    """

    length: int
    origin: int = 0
    right: int = 0
    years: tuple[int, int] | None = None
    most: int = 1

    @staticmethod
    def of(spec: Periodic, kind: T.DataType) -> PaneAxis:
        """The longest panes that do; the windows do not begin with the first row."""
        unit = unit_of(kind)
        if unit == "d" and _finer_than_days(spec):
            return PaneAxis(1)  # a date is one time
        right = int(spec.right_closed)
        if isinstance(spec, Calendar) and spec.tz not in (None, "UTC", "Etc/UTC"):
            return _of_zone(spec.clock(unit), right)
        if isinstance(spec, Calendar):
            return PaneAxis(DAY, 0 if spec.at is None else _ticks(spec.at.amount, unit), right)
        begins = _ticks(getattr(spec.origin, "amount", 0), unit)
        if isinstance(spec, Landmark):
            return PaneAxis(_ticks(spec.slide.amount, unit), begins, right)
        assert isinstance(spec, Hopping)
        length = gcd(spec.range.amount, (spec.slide or spec.range).amount)
        return PaneAxis(_ticks(length, unit), begins, right, most=spec.range.amount // length)

    def floor(self, on: str, ticks: Column) -> Column:
        """Where the pane of a time begins."""
        t = F.try_subtract(ticks, F.lit(self.right).cast("bigint")) if self.right else ticks
        length = F.lit(self.length).cast("bigint")
        into = F.pmod(F.pmod(t, length) - F.lit(self.origin % self.length), length)
        start = F.try_subtract(t, into) if self.length > 1 else t
        if self.years is not None:
            first, last = (F.lit(year).cast("bigint") for year in self.years)
            start = F.when((t >= first) & (t < last), start).otherwise(t)
        # Beyond 64 bits there is no pane, and would be no window.
        beyond = F.raise_error(F.lit(f"on: a window of column {on!r} does not fit in 64 bits"))
        return F.when(ticks.isNotNull(), F.coalesce(start, beyond.cast("bigint")))


def no_pane_axis(spec: Periodic) -> str | None:
    """Why these windows have no panes that are known before the first row; None: they have."""
    if getattr(spec, "origin", None) == FIRST:
        return "where panes begin is known after the first row only"
    return None


def pane_start(spec: Periodic, kind: T.DataType, time: Column) -> Column:
    """Where the pane of a time begins, in the type of the time."""
    return from_ticks(PaneAxis.of(spec, kind).floor(str(spec.on), to_ticks(time, kind)), kind)


def poor_panes(spec: Periodic, kind: T.DataType) -> str | None:
    """Why panes may cost more than they save; None: it is not likely.

    Panes cost twice as much as rows where each holds one row, as much where it holds about three,
    and a third where it holds twenty. How many it holds is not known before.
    """
    panes = PaneAxis.of(spec, kind).most
    if panes <= MOST_PANES:
        return None
    return (
        f"a window would be {panes} panes; they pay where each holds three rows of a key or more, "
        "then ask for plan='panes'"
    )


def _finer_than_days(spec: Periodic) -> bool:
    lengths = any(length.amount % NANOSECONDS["d"] for length in spec.lengths)
    return lengths or isinstance(spec, Calendar)


def _ticks(amount: int, unit: str) -> int:
    """Of nanoseconds, or ticks as they are."""
    return amount if unit == "i" else amount // NANOSECONDS[unit]


@lru_cache(maxsize=64)
def _of_zone(clock: Clock, right: int) -> PaneAxis:
    """Panes of which all edges of a calendar's periods are multiples."""
    first, last = (second * clock.per_second for second in _YEARS)
    _, edges = clock.edges(first, last)
    edges = edges[1:]  # the first period may have begun before
    steps = [after - before for before, after in pairwise(edges)]
    if not steps:  # they are longer than these years
        return PaneAxis(1, right=right, most=MOST_PANES + 1)
    length = gcd(*steps)
    return PaneAxis(length, edges[0], right, (edges[0], edges[-1]), max(steps) // length)
