"""Lengths of time, as written ("24h", "1h30m", "500us") or as timedelta objects.

Everything is kept in whole nanoseconds; integer time columns are measured in ticks ("5i").
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from mta.errors import SpecError

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
_ALIASES = {"min": "m", "µs": "us", "day": "d", "days": "d"}
_NUMPY_UNITS = {"D": "d", "W": "w"}  # those that NumPy has other names for
_CALENDAR = ("mo", "q", "y")
_PART = re.compile(r"(\d+)\s*([a-zA-Zµ]+)\s*")


@dataclass(frozen=True)
class Duration:
    """A length on the time axis: nanoseconds, or ticks of an integer column."""

    amount: int
    ticks: bool = False

    def __str__(self) -> str:
        if self.ticks:
            return f"{self.amount}i"
        for unit in ("d", "h", "m", "s", "ms", "us"):
            if self.amount % NANOSECONDS[unit] == 0:
                return f"{self.amount // NANOSECONDS[unit]}{unit}"
        return f"{self.amount}ns"

    def in_unit(self, unit: str) -> int | None:
        """Whole ticks of `unit` ("s", "ms", "us", "ns", "d" or "i"); None if it is not whole."""
        if not self.amount:
            return 0
        if self.ticks or unit == "i":
            return self.amount if self.ticks and unit == "i" else None
        whole, rest = divmod(self.amount, NANOSECONDS[unit])
        return None if rest else whole


def parse_duration(value: object, argument: str) -> Duration:
    """Read a duration; `argument` is named in the error."""
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        return _parse_text(value, argument)
    if isinstance(value, dt.timedelta):  # pandas.Timedelta is one, with nanoseconds on top
        whole = (value.days * 86400 + value.seconds) * 10**9 + value.microseconds * 1000
        return Duration(whole + getattr(value, "nanoseconds", 0))
    if isinstance(value, np.timedelta64):
        return _parse_timedelta64(value, argument)
    raise SpecError(
        f"{argument}: {value!r} is not a length of time; write it like '24h', '90s' or '1h30m', "
        "'5i' for five ticks of an integer column, or pass a timedelta"
    )


def since_epoch(time: Any) -> int | None:
    """Nanoseconds since the epoch of a datetime, date, numpy.datetime64 or pandas.Timestamp, in UTC
    where it names no zone; None: it is none of these, or NaT."""
    if isinstance(time, dt.datetime) and time.tzinfo is not None:
        time = time.astimezone(dt.timezone.utc).replace(tzinfo=None)
    if hasattr(time, "to_datetime64"):
        time = time.to_datetime64()  # NumPy does not ask pandas for its nanoseconds
    elif isinstance(time, dt.date):
        time = np.datetime64(time)
    if not isinstance(time, np.datetime64) or np.isnat(time):
        return None
    unit, step = np.datetime_data(time.dtype)
    if unit in ("Y", "M"):
        time, unit, step = time.astype("M8[D]"), "D", 1
    name = _NUMPY_UNITS.get(unit, unit)
    return int(time.astype(np.int64)) * step * NANOSECONDS[name] if name in NANOSECONDS else None


def _parse_timedelta64(value: np.timedelta64, argument: str) -> Duration:
    unit, step = np.datetime_data(value.dtype)
    name = _NUMPY_UNITS.get(unit, unit)
    if np.isnat(value) or name not in NANOSECONDS:
        raise SpecError(f"{argument}: {value!r} has no fixed length")
    return Duration(int(value.astype(np.int64)) * step * NANOSECONDS[name])


def _parse_text(text: str, argument: str) -> Duration:
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body.lstrip("+-").strip()
    parts = _PART.findall(body)
    if not parts or "".join(n + u for n, u in parts) != re.sub(r"\s", "", body):
        raise SpecError(f"{argument}: {text!r} is not a duration; write it like '24h' or '1h30m'")
    if [unit for _, unit in parts] == ["i"]:
        return Duration(sign * int(parts[0][0]), ticks=True)
    return Duration(sign * sum(int(n) * _unit(unit, text, argument) for n, unit in parts))


def _unit(unit: str, text: str, argument: str) -> int:
    small = unit.lower()
    name = _ALIASES.get(small, small)
    months = unit != small and small in ("m", "ms")  # which other libraries write like this
    if name in NANOSECONDS and not months:
        return NANOSECONDS[name]
    if name in _CALENDAR or months:
        raise SpecError(
            f"{argument}: {text!r} has no fixed length; a trailing window needs one ('30d')"
        )
    known = ", ".join(NANOSECONDS)
    raise SpecError(f"{argument}: unknown unit {unit!r} in {text!r}; known: {known}")
