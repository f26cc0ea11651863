"""PoolRoom: which keys leave a pool (`mta.pool`) whose rows may go to a store."""

from __future__ import annotations

import numpy as np

from mta.budget import Budget
from mta.engine import Ints
from mta.plan import Plan
from mta.pool import Pool
from mta.push import NO_ROWS

# Nanoseconds (ADR 8, 14): what a track costs a push beside its rows; what a pool costs for each
# row that it keeps of the keys at hand, and for each of their states that takes the row up again.
TRACK, POOL_ROW, STATE_ROW = 30_000, 1, 3
STATE_ROWS = {
    "powers": 8, "pairs": 14, "weighted": 14, "products": 14, "runs": 9, "ranks": 16, "tally": 20,
    "kll": 1000, "hll": 1000, "theta": 1000, "frequent": 1000, "user": 1000,
}  # fmt: skip
# Places are given back after one for so many rows of the pool has been copied.
_OFTEN = 8
# The budget is told after one for so many rows of the pool, and of so many more.
_NOTED, _AT_LEAST = 16, 1024
# Of rows on a store this share is in memory, in blocks.
BLOCKS_OF_ROWS = 4


def rows_for_a_track(plan: Plan) -> int:
    """From how many rows on a key is better off with a track."""
    states = sum(STATE_ROWS.get(state.name, STATE_ROW) for state in plan.states)
    return TRACK // (POOL_ROW + states)


class PoolRoom:
    """What a pool may hold of the memory of a stream on a store; ADR 16.

    A key leaves it for a track of its own, which has its rows on the store, where that is faster
    and there is memory for the track; and where memory is short, if the track needs less of it.

    budget : of all keys
    fast : a key with more rows than this is faster with a track
    track : bytes that a track needs in any case
    counted : of each row, bytes in which a track is to count its values (else it is slow)

    Cost: O(keys at hand) a call; O(keys) where memory is short.
    """

    def __init__(self, budget: Budget, fast: int, track: int, counted: int = 0) -> None:
        self.budget, self.fast, self.track, self.counted = budget, fast, track, counted
        self.pool: Pool | None = None  # when there are keys
        self.leaving = 0  # keys, by the last call
        self._copied = 0  # rows, since places were given back
        self._unnoted = 0  # likewise, since the budget was told

    def sizes(self) -> tuple[int, int]:
        """Bytes held, and those of them that can't be given back."""
        return (0, 0) if self.pool is None else (self.pool.nbytes, self.pool.least)

    def give_back(self, over: int) -> bool:
        """Hold no places of rows that are gone, and no room for more; O(1) a row that is copied."""
        if self.pool is not None and _OFTEN * self._copied >= self.pool.live:
            self.pool.thin_out()
            self._copied = 0
        return False

    def note(self) -> None:
        """Rows have come or left."""
        self._unnoted = 0
        if (over := self.sizes()[0] - self.budget.room_of(self)) > 0:
            self.give_back(over)
        self.budget.note(self)

    def choose(self) -> Ints:
        """The keys that are to leave, after a call: those with most rows first."""
        assert self.pool is not None
        copied = int(self.pool.of("kept", self.pool.fed).sum())
        self._copied += copied
        self._unnoted += copied
        if _NOTED * self._unnoted >= self.pool.live + _AT_LEAST:
            self.note()
        over = -self.budget.room
        chosen = self._to_be_fast(self.pool, -over) if over <= 0 else self._to_save(self.pool, over)
        self.leaving = len(chosen)
        return chosen

    def _to_be_fast(self, pool: Pool, room: int) -> Ints:
        fed = pool.fed
        long = fed[pool.of("kept", fed) > self.fast]
        if not len(long):
            return NO_ROWS
        long = self._longest(pool, long)
        needed = np.cumsum(self.track + self.counted * pool.of("kept", long))
        return long[: int(needed.searchsorted(room, "right"))]

    def _to_save(self, pool: Pool, over: int) -> Ints:
        """Keys whose rows are more than their tracks would be, until that is so many bytes."""
        in_blocks = pool.row_bytes / BLOCKS_OF_ROWS
        least = int(self.track / (pool.row_bytes - in_blocks))
        keys = self._longest(pool, np.flatnonzero(pool.of("kept") > least))
        saved = np.cumsum(pool.of("kept", keys) * (pool.row_bytes - in_blocks) - self.track)
        return keys[: int(saved.searchsorted(over)) + 1]

    @staticmethod
    def _longest(pool: Pool, keys: Ints) -> Ints:
        """The same, those with most rows first."""
        found: Ints = keys[np.argsort(-pool.of("kept", keys), kind="stable")]
        return found
