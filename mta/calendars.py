"""Periods of the calendar in a time zone: where they begin, as ticks since the epoch."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from mta.errors import DataError, SpecError

_UNITS = {"day": "day", "d": "day", "week": "week", "w": "week", "month": "month", "mo": "month",
          "quarter": "quarter", "q": "quarter", "year": "year", "y": "year"}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}
_MONDAY = dt.date(1970, 1, 5)
_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True)
class Period:
    """So many days, weeks, months, quarters or years."""

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'s' * (self.count > 1)}"

    def begin_of(self, number: int) -> dt.date:
        """The first day of a period; they are counted from 1970 on."""
        number *= self.count
        if self.unit in _DAYS:
            first = _MONDAY if self.unit == "week" else _EPOCH
            return first + dt.timedelta(days=number * _DAYS[self.unit])
        months = number * _MONTHS[self.unit]
        return dt.date(1970 + months // 12, months % 12 + 1, 1)

    def number_of(self, day: dt.date) -> int:
        """The period that a day is in."""
        if self.unit in _DAYS:
            first = _MONDAY if self.unit == "week" else _EPOCH
            return (day - first).days // (self.count * _DAYS[self.unit])
        months = 12 * (day.year - 1970) + day.month - 1
        return months // (self.count * _MONTHS[self.unit])


def parse_period(value: object) -> Period:
    """Read "1 day", "2 weeks", "month" ...

    Raises
    ------
    SpecError
        It is no such thing.
    """
    if isinstance(value, Period):
        return value
    match = (
        re.fullmatch(r"\s*(\d*)\s*([a-z]+)\s*", value.lower()) if isinstance(value, str) else None
    )
    name = match[2] if match else ""
    unit = _UNITS.get(name) or _UNITS.get(name.removesuffix("s"))
    if match is None or unit is None or match[1] == "0" * max(len(match[1]), 1):
        raise SpecError(
            f"period: {value!r} is not one; write it like '1 day', '2 weeks', '1 month', "
            "'1 quarter' or '1 year'"
        )
    return Period(int(match[1] or 1), unit)


@dataclass(frozen=True)
class Clock:
    """Where periods begin by the clocks of a zone, in ticks since the epoch.

    zone : its name; None: UTC
    at : ticks after local midnight
    per_second : ticks in a second
    """

    period: Period
    zone: str | None
    at: int
    per_second: int

    def edge(self, number: int) -> int:
        """The beginning of a period."""
        whole, rest = divmod(self.at, self.per_second)
        midnight = dt.datetime.combine(self.period.begin_of(number), dt.time())
        wall = (midnight + dt.timedelta(seconds=whole)).replace(tzinfo=_zone(self.zone))
        return int(wall.timestamp()) * self.per_second + rest

    def number(self, tick: int) -> int:
        """The period that holds a tick."""
        day = dt.datetime.fromtimestamp(tick // self.per_second, _zone(self.zone)).date()
        # `at` and the turn of the clocks move an edge by less than two days.
        number = self.period.number_of(day + dt.timedelta(days=2))
        while self.edge(number) > tick:
            number -= 1
        return number

    def edges(self, first: int, last: int) -> tuple[int, list[int]]:
        """The number of the period that holds `first`, and where it and all others begin, up to
        one after `last`.

        Raises
        ------
        DataError
            A time is outside of the years that a calendar has (1 to 9999).
        """
        try:
            low, high = self.number(first), self.number(last)
            return low, [self.edge(number) for number in range(low, high + 2)]
        except (OverflowError, ValueError, OSError):
            raise DataError("on: a time is outside of the years that a calendar has") from None


def _zone(name: str | None) -> dt.tzinfo:
    return ZoneInfo(name) if name else dt.timezone.utc
