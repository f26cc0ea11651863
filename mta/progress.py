"""WHEN: how far time has come, and what becomes of rows that come later than that.

The watermark W promises that every row with a time before W has come. It is told by the rows (the
greatest time of a source, less a delay) or by a call (a punctuation), and never goes back. With
several sources it is the least over those that are active. Thesis on window-ids, chapters 3 and 6.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta.durations import Duration
from mta.errors import SpecError

LATE = ("drop", "revise", "error")
COMBINE = ("min", "max")
PER = ("stream", "group")
_NEVER = -(2**63)  # before every time


@dataclass(frozen=True)
class Watermark:
    """How the rows tell how far time has come; see ``Streamed.watermark``, which makes it."""

    delay: Duration | None = None
    idle_after: Duration | None = None
    max_ahead: Duration | None = None
    source: str | None = None
    sources: tuple[Any, ...] = ()
    combine: str = "min"
    punctuation: str | None = None
    per: str = "stream"

    def __post_init__(self) -> None:
        for argument in ("delay", "idle_after", "max_ahead"):
            length = getattr(self, argument)
            if length is not None and length.amount < 0:
                raise SpecError(f"{argument}: must not be negative, not {length}")
        if self.source is not None and not isinstance(self.source, str):
            raise SpecError(f"source: must be the name of a column, not {self.source!r}")
        if self.source is None and (self.sources or self.idle_after is not None):
            raise SpecError("source: sources and idle_after need the name of their column")
        if self.punctuation is not None and not isinstance(self.punctuation, str):
            raise SpecError(f"punctuation: must be the name of a column, not {self.punctuation!r}")
        if self.per not in PER:
            raise SpecError(f"per: must be one of {PER}, not {self.per!r}")
        if self.per != "stream" and self.punctuation is None:
            raise SpecError("per: needs the name of the column that marks punctuation")
        if self.combine not in COMBINE:
            raise SpecError(f"combine: must be one of {COMBINE}, not {self.combine!r}")

    @property
    def lengths(self) -> list[Duration]:
        """All lengths on the time axis that it names."""
        return [x for x in (self.delay, self.idle_after, self.max_ahead) if x is not None]


@dataclass(frozen=True)
class Late:
    """What becomes of late rows; see ``Streamed.late``, which makes it."""

    mode: str = "drop"
    within: Duration | None = None

    def __post_init__(self) -> None:
        if self.mode not in LATE:
            raise SpecError(f"late: must be one of {LATE}, not {self.mode!r}")
        if self.within is not None and self.within.amount < 0:
            raise SpecError(f"within: must not be negative, not {self.within}")
        if self.within is not None and self.mode != "revise":
            raise SpecError(
                f"within: only rows that revise an answer may come later, not {self.mode!r}"
            )


@dataclass
class Source:
    """One source of rows: its newest time, what it has promised, and whether it is silent."""

    newest: int | None = None
    promised: int | None = None
    ahead: int | None = None  # a time too far ahead to be believed at once
    heard_at: int | None = None  # the newest time of all when it was heard of last
    idle: bool = False
    rows: int = 0

    def mark(self, delay: int | None) -> int | None:
        """Its own watermark."""
        told = None if delay is None or self.newest is None else self.newest - delay
        known = [x for x in (told, self.promised) if x is not None]
        return max(known) if known else None


class Progress:
    """The watermark of a stream, in ticks.

    delay, idle_after, max_ahead : of the spec, in ticks
    declared : sources that hold the watermark back until they have been heard of
    """

    def __init__(
        self,
        delay: int | None,
        idle_after: int | None = None,
        max_ahead: int | None = None,
        declared: Sequence[Hashable] = (),
        combine: str = "min",
    ) -> None:
        self.delay = delay
        self.idle_after = idle_after
        self.max_ahead = max_ahead
        self.combine = combine
        self.sources: dict[Hashable, Source] = {name: Source() for name in declared}
        self.now: int | None = None

    def see(
        self, ts: NDArray[np.int64], names: Sequence[Hashable] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows have come: the watermark before and after each (the least int64: there is none).

        names : the rows' sources (None: of none, which tells nothing); None: all have one source
        """
        if names is None and self.max_ahead is None and len(ts):
            return self._see_plain(ts)
        after = np.empty(len(ts), np.int64)
        at_first = self._shown()
        for i, (t, name) in enumerate(zip(ts.tolist(), names or [None] * len(ts), strict=True)):
            if name is not None or names is None:
                source = self.sources.setdefault(name, Source())
                self._see_row(t, source)
                source.heard_at = self._newest()
                self._go_on()
            after[i] = self._shown()
        return np.concatenate([[at_first], after[:-1]])[: len(ts)].astype(np.int64), after

    def copy(self) -> Progress:
        """As it is now."""
        made = copy(self)
        made.sources = {name: copy(source) for name, source in self.sources.items()}
        return made

    def promise(self, to: int, name: Hashable = None, everyone: bool = False) -> None:
        """No more rows of a source (or of any) before this time."""
        names = list(self.sources) if everyone else []
        for source in [self.sources.setdefault(n, Source()) for n in names or [name]]:
            source.promised = to if source.promised is None else max(to, source.promised)
            source.idle = False
        self._go_on()

    def silence(self, name: Hashable) -> None:
        """A source is silent: it holds nothing back until its next row."""
        self.sources.setdefault(name, Source()).idle = True
        self._go_on()

    def lags(self) -> tuple[int, tuple[tuple[float, float], ...]]:
        """How far the watermark is behind the newest row of all; and of every source its share of
        the rows, and how far it is behind the first one."""
        newest = self._newest()
        if newest is None or self.now is None:
            return 0, ()
        heard = [s for s in self.sources.values() if s.newest is not None]
        rows = max(sum(s.rows for s in heard), 1)
        lags = tuple((s.rows / rows, float(newest - (s.newest or 0))) for s in heard)
        return max(newest - self.now, 0), lags

    def _shown(self) -> int:
        return _NEVER if self.now is None else self.now

    def _see_plain(self, ts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        source, at_first = self.sources.setdefault(None, Source()), self._shown()
        newest = np.maximum.accumulate(ts)
        if source.newest is not None:
            newest = np.maximum(newest, source.newest)
        source.newest = int(newest[-1])
        after = np.full(len(ts), at_first)
        if self.delay is not None:
            least = _NEVER + self.delay
            after = np.maximum(np.maximum(newest, least) - self.delay, at_first)
        self._go_on()
        return np.concatenate([[at_first], after[:-1]]), after

    def _see_row(self, t: int, source: Source) -> None:
        source.idle = False
        source.rows += 1
        if source.newest is not None and self.max_ahead is not None:
            if t > source.newest + self.max_ahead:
                # One row from the future is not believed; a second one near it is.
                first, source.ahead = source.ahead, t
                if first is None or abs(t - first) > self.max_ahead:
                    return
                t = min(t, first)
            elif t > source.newest:
                source.ahead = None
        source.newest = t if source.newest is None else max(t, source.newest)

    def _go_on(self) -> None:
        """Work the watermark out anew."""
        self._find_silent()
        active = [s for s in self.sources.values() if not s.idle]
        marks = [s.mark(self.delay) for s in active or self.sources.values()]
        known = [mark for mark in marks if mark is not None]
        if not known or (active and self.combine == "min" and len(known) < len(marks)):
            return
        mark = min(known) if active and self.combine == "min" else max(known)
        self.now = mark if self.now is None else max(self.now, mark)

    def _find_silent(self) -> None:
        if self.idle_after is None:
            return
        newest = self._newest()
        for source in self.sources.values():
            if source.heard_at is not None and newest is not None:
                source.idle = source.idle or newest - source.heard_at > self.idle_after

    def _newest(self) -> int | None:
        return max((s.newest for s in self.sources.values() if s.newest is not None), default=None)
