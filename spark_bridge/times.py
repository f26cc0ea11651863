"""From the times of Spark to the ticks of the engine and back, by Spark's own expressions.

A TIMESTAMP is the microseconds since 1970 in UTC, a TIMESTAMP_NTZ those since the clock showed 1970
(whatever zone the session has), a DATE the days, an integer itself: the numbers that the engine
reads from the Arrow columns of these types.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta.durations import NANOSECONDS

DAY = NANOSECONDS["d"] // NANOSECONDS["us"]  # microseconds
# The units of the clock into which Spark takes an interval apart, in microseconds.
_PARTS = (("DAY", DAY), ("HOUR", DAY // 24), ("MINUTE", DAY // 1440))


def unit_of(kind: T.DataType) -> str:
    """What a tick of such a column is: "us", "d", or "i" of integers."""
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        return "us"
    if isinstance(kind, T.DateType):
        return "d"
    assert isinstance(kind, T.IntegralType), kind  # no other is a time
    return "i"


def to_ticks(time: Column, kind: T.DataType) -> Column:
    """A time as a bigint; null gives null."""
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(time)
    if isinstance(kind, T.TimestampNTZType):
        return _clock_micros(time)
    return (F.unix_date(time) if isinstance(kind, T.DateType) else time).cast("bigint")


def from_ticks(ticks: Column, kind: T.DataType) -> Column:
    """The time of a bigint; of integers a bigint, whatever they were."""
    if isinstance(kind, T.TimestampType):
        return F.timestamp_micros(ticks)
    if isinstance(kind, T.TimestampNTZType):
        return _epoch() + F.expr("INTERVAL '0.000001' SECOND") * ticks
    return F.date_from_unix_date(ticks.cast("int")) if isinstance(kind, T.DateType) else ticks


def _clock_micros(time: Column) -> Column:
    """Spark's own functions go by way of a zone, in which some clock times are not there."""
    since = time - _epoch()
    whole = [F.extract(F.lit(p), since).cast("bigint") * F.lit(size) for p, size in _PARTS]
    seconds = F.extract(F.lit("SECOND"), since) * F.lit(1_000_000)
    return whole[0] + whole[1] + whole[2] + seconds.cast("bigint")


def _epoch() -> Column:
    return F.to_timestamp_ntz(F.lit("1970-01-01 00:00:00"))
