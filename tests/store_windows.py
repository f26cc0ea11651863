"""Stores that fail by plan, deaths without a flush, and what a window was at any moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from failing_store import FailingStore
from mta import fifo
from mta.stores import BackgroundStore, MemoryStore, Store

IN_MEMORY = {fifo.StoredAMTA: fifo.AMTA, fifo.StoredLogMTA: fifo.LogMTA}
BUFFER = 6


class LastingStore(FailingStore):
    """Its blocks outlive it, and it fails at the calls that are planned."""

    def __init__(self, blocks: dict[bytes, bytes]) -> None:
        super().__init__()
        self._values = blocks

    def fail(self, numbers: Iterable[int]) -> None:
        """At these calls from now on; at -n the call is done, and only its answer is lost."""
        planned = set(numbers)
        self.before = {self.calls + n for n in planned if n > 0}
        self.after = {self.calls - n for n in planned if n < 0}

    def _get(self, key):
        return self._failing(lambda: self._values.get(key))

    def _keys(self, prefix):
        return self._failing(lambda: list(MemoryStore._keys(self, prefix)))

    def _close(self):
        pass


class Shelf:
    """Blocks, and the stores through which one process after the other sees them."""

    def __init__(self, *, behind: bool) -> None:
        self.blocks: dict[bytes, bytes] = {}
        self.behind = behind
        self.store: Store | None = None

    def open(self) -> Store:
        self.inner = LastingStore(self.blocks)
        self.store = BackgroundStore(self.inner, buffer=BUFFER) if self.behind else self.inner
        return self.store

    def die(self) -> None:
        """The process is gone, and with it what was not written."""
        self.inner.fail(())
        if self.behind:
            self.store.abandon()


class History:
    """What has come in and gone, so that the window of any moment can be made again."""

    def __init__(self, kind, aggregate, type_: str) -> None:
        self.kind, self.aggregate, self.type = IN_MEMORY[kind], aggregate, type_
        self.rows: list = []
        self.begun = [0]  # where windows began that had been empty
        self.moments = [(0, 0)]  # (front, back) of every step
        self.front = 0

    def insert(self, value) -> None:
        if self.front == len(self.rows):
            self.begun.append(self.front)
        self.rows.append(value)

    def evict_to(self, front: int) -> None:
        self.front = front

    def mark(self) -> None:
        self.moments.append((self.front, len(self.rows)))

    def window(self, front: int, back: int) -> fifo.Fifo:
        """The window in memory that holds these rows."""
        begun = max((b for b in self.begun if b < back), default=0) if front < back else back
        window = self.kind(self.aggregate, type=self.type)
        for row in range(begun, back):
            window.insert(self.rows[row])
        window.evict_many(front - begun)
        return window

    def was(self, front: int, back: int) -> bool:
        """Whether the window was so at some moment, or in the middle of some call."""
        place = bisect_left([b for _, b in self.moments], back)
        after = [f for f, b in self.moments[place:] if b > back]
        earliest = self.moments[max(place - 1, 0)][0]
        return earliest <= front <= (after[0] if after else self.front)

    def go_back(self, front: int, back: int) -> None:
        """Rows after `back` have never come."""
        del self.rows[back:]
        self.begun = [b for b in self.begun if b < back] or [0]
        self.moments = [(f, b) for f, b in self.moments if b < back or (b == back and f <= front)]
        self.front = front
        self.mark()


def bits(answer) -> str:
    """What differs where one bit does."""
    return repr(answer.item() if isinstance(answer, np.generic) else answer)
