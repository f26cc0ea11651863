"""What windows by id are compared with: buffering, with slack (Li, thesis of 2008, chapters 1, 6).

Rows are sorted in a buffer; time is believed to have come to the latest one seen, less the slack. A
window that ends there or before closes: its rows, which lie one after the other in the buffer (the
window extent, materialised), are aggregated anew, and rows that no open window holds are purged.

A row that comes too late for some of its windows is dropped from those alone (generous slack), or
from all, also from those still open (consistent slack); definitions in 6.1.5.2.

What it costs, over NumPy: rows of a push are appended to the buffer, and what is there is sorted
(nearly sorted, so by merging); all windows that a push closes are aggregated by one call of
``ufunc.reduceat``, range / slide reads of every row, in C. Memory: all rows of open windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

AGGREGATES = ("count", "sum", "mean", "max")
SLACKS = ("consistent", "generous")
_NEVER = -(2**62)


@dataclass(frozen=True)
class Answers:
    """Windows by their ends, in order; `after` is how many rows had come when each was given."""

    end: Ints
    value: Floats
    after: Ints

    @staticmethod
    def join(parts: list[Answers]) -> Answers:
        """Those of several pushes."""
        return Answers(*(np.concatenate([getattr(p, n) for p in parts]) for n in _COLUMNS))


_COLUMNS = ("end", "value", "after")


@dataclass(frozen=True)
class _Held:
    """Rows in the buffer: times, values, and the windows that ended here or before when each came,
    which do not hold it."""

    ts: Ints
    x: Floats
    closed: Ints

    def take(self, which: Any) -> _Held:
        return _Held(self.ts[which], self.x[which], self.closed[which])

    def with_more(self, more: _Held) -> _Held:
        pairs = ((getattr(self, n), getattr(more, n)) for n in ("ts", "x", "closed"))
        return _Held(*(np.concatenate(pair) for pair in pairs))


_NONE = _Held(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))


class Buffering:
    """Windows ``[k slide, k slide + range)`` over pushed rows, of one group, by buffering.

    range, slide : in ticks; slide is at most range
    slack : how far behind the latest row a row may be without being late, in ticks
    aggregate : "count", "sum", "mean" or "max"
    drop : "consistent" or "generous", as above
    ordered : the rows come in order of time: nothing is sorted or checked

    It counts the rows `received`, those `dropped` from all windows and, where slack is generous,
    those `partly_dropped`: from some.
    """

    def __init__(
        self,
        range: int,
        slide: int,
        slack: int = 0,
        aggregate: str = "max",
        drop: str = "generous",
        ordered: bool = False,
    ) -> None:
        self.range, self.slide, self.slack = range, slide, slack
        self.aggregate, self.drop, self.ordered = aggregate, drop, ordered
        self.latest = _NEVER
        self.closed_to = _NEVER  # windows that end here or before have been answered
        self.received = self.dropped = self.partly_dropped = 0
        self.rows = _NONE  # of all windows that were open, in order of time
        self.partly = _NONE  # that some windows, closed by then, do not hold

    @property
    def held(self) -> int:
        """Rows in the buffer."""
        return len(self.rows.ts) + len(self.partly.ts)

    def push(self, ts: Ints, x: Floats) -> Answers:
        """Take rows in order of arrival; the windows that they close."""
        if not len(ts):
            return self._close(self.closed_to, np.zeros(0, np.int64))
        latest = np.maximum(np.maximum.accumulate(ts), self.latest)
        closed = np.append(max(self.latest - self.slack, self.closed_to), latest - self.slack)
        self.latest = int(latest[-1])
        self._keep(ts, x, closed[:-1])
        self.received += len(ts)
        return self._close(int(closed[-1]), closed[1:])

    def finish(self) -> Answers:
        """No more rows: the windows that are still open."""
        parts = [self.rows.ts, self.partly.ts]
        last = max((int(ts.max()) for ts in parts if len(ts)), default=_NEVER)
        return self._close(last + self.range + self.slide, np.zeros(0, np.int64))

    def _keep(self, ts: Ints, x: Floats, closed: Ints) -> None:
        """Put rows into the buffer, in order, as far as they are not late."""
        new = _Held(ts, x, closed)
        if self.ordered:
            self.rows = self.rows.with_more(new)
            return
        first_end, last_end = (
            self._end(self._number(ts) + 1),
            self._end(self._number(ts + self.range)),
        )
        whole, lost = first_end > closed, last_end <= closed
        if self.drop == "generous":
            some = ~whole & ~lost
            if some.any():
                self.partly = self.partly.with_more(new.take(some))
                self.partly_dropped += int(some.sum())
            self.dropped += int(lost.sum())
        else:
            self.dropped += int((~whole).sum())
        self.rows = self.rows.with_more(new if whole.all() else new.take(whole))
        if (np.diff(self.rows.ts) < 0).any():
            self.rows = self.rows.take(np.argsort(self.rows.ts, kind="stable"))

    # ------------------------------------------------------------------------- answers

    def _close(self, to: int, bounds: Ints) -> Answers:
        """Answer the windows that end after those answered so far, up to `to`, and purge.

        bounds : up to where windows were closed after each of the rows just pushed
        """
        numbers = self._numbers(to)
        self.closed_to = max(self.closed_to, to)
        if not len(numbers):
            return Answers(numbers, np.zeros(0), numbers)
        ends = self._end(numbers)
        lo = np.searchsorted(self.rows.ts, ends - self.range)
        hi = np.searchsorted(self.rows.ts, ends)
        count, value = hi - lo, _extents(self._ufunc, self.rows.x, lo, hi)
        self._add_partly(numbers, count, value)
        before = self.received - len(bounds)
        after = before + np.minimum(np.searchsorted(bounds, ends) + 1, len(bounds))
        self._purge()
        some = count > 0
        return Answers(ends[some], self._lower(count, value)[some], after[some])

    def _number(self, t: Any) -> Any:
        """Of the last window that ends at t or before: windows are numbered by their starts."""
        return (t - self.range) // self.slide

    def _end(self, number: Any) -> Any:
        return number * self.slide + self.range

    def _numbers(self, to: int) -> Ints:
        """The windows to answer: none but those that can hold rows of the buffer."""
        times = [ts for ts in (self.rows.ts, self.partly.ts) if len(ts)]
        if to <= self.closed_to or not times:
            return np.zeros(0, np.int64)
        least, most = min(int(ts.min()) for ts in times), max(int(ts.max()) for ts in times)
        first = self._number(max(self.closed_to, least)) + 1
        last = self._number(min(to, most + self.range))
        return np.arange(first, last + 1, dtype=np.int64)

    @property
    def _ufunc(self) -> np.ufunc:
        return np.maximum if self.aggregate == "max" else np.add

    def _lower(self, count: Ints, value: Floats) -> Floats:
        if self.aggregate == "count":
            return count.astype(np.float64)
        return value / np.maximum(count, 1) if self.aggregate == "mean" else value

    def _add_partly(self, numbers: Ints, count: Ints, value: Floats) -> None:
        """Add to the windows the rows that came when others of their windows had closed."""
        rows = self.partly
        if not len(rows.ts):
            return
        start = self._number(np.maximum(rows.closed, rows.ts)) + 1 - numbers[0]
        stop = self._number(rows.ts + self.range) + 1 - numbers[0]
        start, stop = np.clip(start, 0, len(numbers)), np.clip(stop, 0, len(numbers))
        times = np.maximum(stop - start, 0)
        row = np.repeat(np.arange(len(times)), times)
        window = np.arange(len(row)) - np.repeat(np.cumsum(times) - times - start, times)
        np.add.at(count, window, 1)
        self._ufunc.at(value, window, rows.x[row])

    def _purge(self) -> None:
        """Let go of the rows that no open window holds."""
        edge = self._end(self._number(self.closed_to) + 1) - self.range
        self.rows = self.rows.take(slice(int(np.searchsorted(self.rows.ts, edge)), None))
        self.partly = self.partly.take(self.partly.ts >= edge)


def _extents(ufunc: np.ufunc, x: Floats, lo: Ints, hi: Ints) -> Floats:
    """``ufunc.reduce(x[lo:hi])`` of every window, each anew; of an empty one what adds nothing."""
    nothing = -np.inf if ufunc is np.maximum else 0.0
    value = np.full(len(lo), nothing)
    some = np.flatnonzero(hi > lo)
    if len(some):
        edges = np.stack([lo[some], hi[some]], axis=1).ravel()
        value[some] = ufunc.reduceat(np.append(x, nothing), edges)[::2]
    return value
