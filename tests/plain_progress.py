"""The watermark of a stream as the words say it, row by row: what the compiled one has to equal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

_NEVER = -(2**63)  # before every time


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


class PlainProgress:
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
        self, ts: Sequence[int], names: Sequence[Hashable] | None
    ) -> tuple[list[int], list[int]]:
        """Rows have come: the watermark before and after each (the least int64: there is none).

        names : the rows' sources (None: of none, which tells nothing); None: all have one source
        """
        marks = [self._shown()]
        for t, name in zip(ts, names or [None] * len(ts), strict=True):
            if name is not None or names is None:
                source = self.sources.setdefault(name, Source())
                self._see_row(t, source)
                source.heard_at = self._newest()
                self._go_on()
            marks.append(self._shown())
        return marks[:-1], marks[1:]

    def promise(self, to: int, name: Hashable = None, everyone: bool = False) -> None:
        """No more rows of a source (or of any) before this time."""
        names = list(self.sources) if everyone else []
        for source in [self.sources.setdefault(n, Source()) for n in names or [name]]:
            source.promised = to if source.promised is None else max(to, source.promised)
            source.idle = source.idle and everyone  # it is no news from the source itself
        self._go_on()

    def silence(self, name: Hashable) -> None:
        """A source is silent: it holds nothing back until its next row or promise."""
        self.sources.setdefault(name, Source()).idle = True
        self._go_on()

    def _shown(self) -> int:
        return _NEVER if self.now is None else self.now

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
