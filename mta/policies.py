"""Window slide policies: when the oldest rows go.

A policy is ``policy(total, old) -> bool``: `total` holds the answers over the whole window, `old`
those over its oldest rows, by name (``total.n``, ``old.n``). True means that those rows go. It has
to be monotone: if a prefix goes, so does every shorter one. The longest prefix that goes is then
found in O(log n) calls (MTA 2018, §3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mta.durations import Duration, parse_duration
from mta.errors import SpecError


@dataclass(frozen=True)
class Last:
    """Keep the last rows, or the rows of the last stretch of time. Made by `last`."""

    range: int | Duration
    on: str = "ts"

    def __repr__(self) -> str:
        if isinstance(self.range, int):
            return f"mta.last({self.range})"
        on = "" if self.on == "ts" else f", on={self.on!r}"
        return f"mta.last({str(self.range)!r}{on})"


def last(range: int | str | Any, on: str = "ts") -> Last:
    """The policy of a trailing window.

    Parameters
    ----------
    range : int for that many rows; a duration ("1h", a timedelta) for the rows of the last hour,
        ``(t - range, t]``; "5i" for five ticks of integer times
    on : name of the time in pushed rows

    Raises
    ------
    SpecError
        If the range is not positive.

    Examples
    --------
    >>> import mta
    >>> mta.last("90m"), mta.last(1024)
    (mta.last('90m'), mta.last(1024))
    """
    if isinstance(range, bool) or not isinstance(range, int):
        range = parse_duration(range, "range")
    amount = range if isinstance(range, int) else range.amount
    if not 0 < amount < 2**63:
        raise SpecError(f"range: must be positive and fit in 64 bits, not {range!s}")
    if not isinstance(on, str):
        raise SpecError(f"on: must be the name of the time, not {on!r}")
    return Last(range, on)
