"""WHEN: how far time has come, and what becomes of rows that come later than that.

The watermark W promises that every row with a time before W has come. It is told by the rows (the
greatest time of a source, less a delay) or by a call (a punctuation), and never goes back. With
several sources it is the least over those that are active. Thesis on window-ids, chapters 3 and 6.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._progress import Marks
from mta.durations import Duration
from mta.errors import DataError, SpecError
from mta.spec_arguments import check_choice, check_column

LATE = ("drop", "revise", "error")
COMBINE = ("min", "max")
PER = ("stream", "group")

Ints = NDArray[np.int64]


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
        check_column(self.source, "source")
        check_column(self.punctuation, "punctuation")
        check_choice(self.per, "per", PER)
        if self.per != "stream" and self.punctuation is None:
            raise SpecError("per: needs the name of the column that marks punctuation")
        check_choice(self.combine, "combine", COMBINE)

    def check_here(self) -> None:
        """Refuse what needs a clock, which streams in this process do not look at.

        Raises
        ------
        SpecError
            It says when all is silent, and not only one source beside others.
        """
        if self.source is None and self.idle_after is not None:
            raise SpecError(
                "source: idle_after needs the name of the column of sources (without one it is of "
                "streams on Spark only); here `op.advance(time)` says that time goes on"
            )

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
        check_choice(self.mode, "mode", LATE)
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


@dataclass(frozen=True)
class SourceCodes:
    """The sources of rows: their names (None: of none), and of every row which of these it is."""

    names: list[Hashable]
    codes: Ints


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
        self.marks = Marks(delay, idle_after, max_ahead, combine == "max")
        self.numbers: dict[Hashable, int] = {}
        for name in declared:
            self._number(name)

    @property
    def now(self) -> int | None:
        """The watermark; None: there is none yet."""
        return self.marks.now

    @property
    def sources(self) -> dict[Hashable, Source]:
        """What is known of every source."""
        return {name: Source(*self.marks.get(number)) for name, number in self.numbers.items()}

    def see(self, ts: Ints, of: SourceCodes | None) -> tuple[Ints, Ints]:
        """Rows have come: the watermark before and after each (the least int64: there is none).

        of : their sources; a row of none tells nothing; None: all have one source, called None
        """
        if of is None:
            only = self._number(None) if len(ts) else 0
            sources = np.full(len(ts), only) if only else None
            return self.marks.see(ts, sources)
        known = [-1 if name is None else self._number(name, True) for name in of.names]
        return self.marks.see(ts, np.array([*known, -1], np.int64)[of.codes])

    def copy(self) -> Progress:
        """As it is now."""
        made = copy(self)
        made.marks, made.numbers = self.marks.copy(), dict(self.numbers)
        return made

    def resume(self, now: int | None, sources: Iterable[tuple[Hashable, Source]]) -> None:
        """Go on from what `now` and `sources` have told."""
        for name, s in sources:
            told = (s.newest, s.promised, s.ahead, s.heard_at, s.idle, s.rows)
            self.marks.put(self._number(name), told)
        self.marks.resume(now)

    def promise(self, to: int, name: Hashable = None, everyone: bool = False) -> None:
        """No more rows of a source before this time; or of any, which wakes none that is silent."""
        for each in (list(self.numbers) if everyone else []) or [name]:
            self.marks.promise(self._number(each), to, not everyone)
        self.marks.settle()

    def silence(self, name: Hashable) -> None:
        """A source is silent: it holds nothing back until its next row or promise."""
        self.marks.silence(self._number(name))
        self.marks.settle()

    def lags(self) -> tuple[int, tuple[tuple[float, float], ...]]:
        """How far the watermark is behind the newest row of all; and of every source its share of
        the rows, and how far it is behind the first one."""
        newest, now = self.marks.newest, self.now
        if newest is None or now is None:
            return 0, ()
        heard = [s for s in self.sources.values() if s.newest is not None]
        rows = max(sum(s.rows for s in heard), 1)
        lags = tuple((s.rows / rows, float(newest - (s.newest or 0))) for s in heard)
        return max(newest - now, 0), lags

    def _number(self, name: Hashable, coming: bool = False) -> int:
        if not isinstance(name, Hashable):
            raise DataError(f"source: {name!r} is not the name of a source")
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = self.marks.add(coming)
        return number
