"""Window-ids as columns that Spark computes itself: `wids`, `pane`, `extent`, without Python."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta import aggregates as agg
from mta.errors import SpecError
from mta.periodic import FIRST, Calendar, Hopping, Periodic
from mta.spec_arguments import check_choice
from spark_bridge.pane_axis import pane_start
from spark_bridge.panes import no_panes
from spark_bridge.schemas import periodic_schema
from spark_bridge.times import DAY, from_ticks, to_ticks

TIMES = {
    "timestamp": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "date": T.DateType(),
}
_WHOLE = ("tinyint", "smallint", "int", "bigint")


def wids(spec: Periodic, ts: Column | str, times: str | None = None) -> Column:
    """The numbers of the windows that hold a time (``mta.windows.wids``), as an array of bigint.

    Parameters
    ----------
    spec : hopping or tumbling; its aggregates, if any, do not matter
    ts : the time; null gives null
    times : "timestamp" (the default), "timestamp_ntz" or "date": the type of the time. Of windows
        of ticks ("5i") it is any integer.

    Raises
    ------
    SpecError
        The windows are of another kind, or no whole microseconds. (A column of another type than
        was said fails the job.)

    Notes
    -----
    ``explode`` makes range / slide rows of each, which is what makes ``F.window`` slow.
    """
    length, slide, origin = hops(spec)
    ticks = _micros(spec, ts, times)
    # A time t is in (s, e] if it is in [s + 1, e + 1), in ticks.
    origin += spec.right_closed
    last = _floor_div(ticks, slide, origin)
    first = _floor_div(ticks, slide, origin + length - slide)
    none = F.array().cast("array<bigint>")
    numbers = F.when(first <= last, F.sequence(first, last, F.lit(1).cast("bigint")))
    return F.when(ticks.isNotNull(), F.coalesce(numbers, none))


def pane(spec: Periodic, ts: Column | str, times: str | None = None) -> Column:
    """Where the pane of a time begins, in the type of the time: pieces of which windows are made,
    of length gcd(range, slide). (The panes of ``closed="right"`` are of times one tick earlier.
    Dates are panes themselves where windows are no whole days.)

    Parameters
    ----------
    As `wids`; landmarks and calendars have panes, too.

    Raises
    ------
    SpecError
        These windows have no panes of one length.
    """
    kind = time_type(spec, times)
    edge_type(spec, kind)  # refuses what has no edges in whole microseconds
    name = str(spec.on)
    spec = _without_keys(spec)
    why = no_panes(spec, T.StructType([T.StructField(name, kind)]))
    if why is not None:
        raise SpecError(f"spec: no panes: {why}")
    return pane_start(spec, kind, _checked_type(ts, kind))


def extent(spec: Periodic, wid: Column | str, times: str | None = None) -> Column:
    """Where a window lies (``mta.windows.interval``), as a struct of start and end.

    Parameters
    ----------
    spec : hopping or tumbling
    wid : its number, as `wids` gives it; null gives null
    times : as in `wids`; edges have this type, but for dates, where windows are no whole days: then
        they are "timestamp_ntz"
    """
    length, slide, origin = hops(spec)
    kind = edge_type(spec, time_type(spec, times))
    number = F.col(wid) if isinstance(wid, str) else wid
    start = F.try_add(F.try_multiply(number.cast("bigint"), _long(slide)), _long(origin))
    end = F.try_add(start, _long(length))
    whole = F.coalesce(end, _too_large())
    edges = [_from_micros(kind, side) for side in (F.when(whole.isNotNull(), start), whole)]
    return F.when(number.isNotNull(), F.struct(edges[0].alias("start"), edges[1].alias("end")))


def _floor_div(t: Column, slide: int, origin: int) -> Column:
    """floor((t - origin) / slide), of which no part can overflow on the way."""
    whole, rest = divmod(origin, slide)
    below = F.when(t % _long(slide) < 0, 1).otherwise(0)
    before = F.when(F.pmod(t, _long(slide)) < rest, 1).otherwise(0)
    number = F.call_function("div", t, _long(slide)) - below - before
    if not whole:
        return number
    return F.when(t.isNotNull(), F.coalesce(F.try_subtract(number, _long(whole)), _too_large()))


def _too_large() -> Column:
    return F.raise_error(F.lit("a window's number or edge does not fit in 64 bits")).cast("bigint")


def _long(number: int) -> Column:
    if not -(2**63) <= number < 2**63:
        raise SpecError(f"range, slide and origin: {number} does not fit in 64 bits")
    return F.lit(number).cast("bigint")


def _micros(spec: Periodic, ts: Column | str, times: str | None) -> Column:
    """A time in microseconds, or in ticks of its own."""
    kind = time_type(spec, times)
    ticks = to_ticks(_checked_type(ts, kind), kind)
    return ticks * _long(DAY) if isinstance(kind, T.DateType) else ticks


def _from_micros(kind: T.DataType, ticks: Column) -> Column:
    days = isinstance(kind, T.DateType)
    return from_ticks(F.call_function("div", ticks, _long(DAY)) if days else ticks, kind)


def _checked_type(ts: Column | str, kind: T.DataType) -> Column:
    """The time; if it is of another type the job fails, instead of Spark casting it by a zone."""
    time = F.col(ts) if isinstance(ts, str) else ts
    known = _WHOLE if isinstance(kind, T.LongType) else (kind.simpleString(),)
    wrong = F.concat(F.lit(f"ts: a {kind.simpleString()} was said, but it is a "), F.typeof(time))
    return F.when(F.typeof(time).isin(*known), time).otherwise(F.raise_error(wrong).cast(kind))


# ---- what is asked -------------------------------------------------------------------------------


def of_integers(spec: Periodic) -> bool:
    """Whether its times are integers."""
    return any(length.ticks for length in spec.lengths)


def time_type(spec: Periodic, times: str | None) -> T.DataType:
    """The type that the time column was said to have."""
    if not isinstance(spec, Periodic):
        raise SpecError(f"spec: windows by number are needed, not {spec!r}")
    if of_integers(spec):
        if times is not None:
            raise SpecError(f"times: {times!r}, but the windows are of integers")
        return T.LongType()
    if times is not None:
        check_choice(times, "times", tuple(TIMES))
    return TIMES[times or "timestamp"]


def edge_type(spec: Periodic, kind: T.DataType) -> T.DataType:
    """The type of a window's edges."""
    name = str(spec.on)
    made = periodic_schema(_without_keys(spec), T.StructType([T.StructField(name, kind)]))
    return made.fields[0].dataType


def _without_keys(spec: Periodic) -> Periodic:
    return replace(spec, by=(), aggs=(("n", agg.count()),))


def hops(spec: Periodic) -> tuple[int, int, int]:
    """Range, slide and origin in microseconds, or ticks."""
    if not isinstance(spec, Hopping):
        raise SpecError(f"spec: hopping or tumbling windows are needed, not {spec!r}")
    check_numbered(spec)
    unit = "i" if of_integers(spec) else "us"
    lengths = [spec.range, spec.slide or spec.range, spec.origin]
    whole = [0 if n is None else n.in_unit(unit) for n in lengths]  # type: ignore[union-attr]
    if None in whole:
        raise SpecError(f"range: the times of Spark are whole microseconds; {spec!r} has others")
    return cast(tuple[int, int, int], tuple(whole))


def check_numbered(spec: Periodic) -> None:
    """Refuse windows that a time alone does not tell."""
    if not isinstance(spec, (Hopping, Calendar)):
        raise SpecError(f"spec: hopping, tumbling or calendar windows are needed, not {spec!r}")
    if getattr(spec, "origin", None) == FIRST:
        raise SpecError("origin: which row comes first is not known here; give a time")
