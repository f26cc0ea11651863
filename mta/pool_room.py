"""PoolRoom: which keys leave a pool (`mta.pool`) whose rows may go to a store."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mta.budget import Budget
from mta.cold_records import ColdRecords
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
# One byte in so many is left to places of rows that are gone, and to room for more.
_SPARE = 4
# Hot keys may always have one for so many bytes of the memory, whatever others need of it.
_HOT = 4
# Tracks that are made to save memory have one for so many bytes at most, where records can do it.
_TRACKS = 2
# Of rows on a store this share is in memory, in blocks.
BLOCKS_OF_ROWS = 4


def rows_for_a_track(plan: Plan) -> int:
    """From how many rows on a key is better off with a track."""
    states = sum(STATE_ROWS.get(state.name, STATE_ROW) for state in plan.states)
    return TRACK // (POOL_ROW + states)


class Index(Protocol):
    """What is known of keys that are not in the pool."""

    @property
    def held(self) -> int:
        """Its bytes."""

    @property
    def can_freeze(self) -> bool:
        """Whether keys can leave the pool for records."""


class PoolRoom:
    """What a pool may hold of the memory of a stream on a store; ADR 16.

    A key leaves it for a track of its own, which has its rows on the store, where that is faster
    and there is memory for the track; and where memory is short, if the track needs less of it.
    Others leave it for records where it needs more than `for_hot` (`mta.cold_keys`).

    budget : of all keys
    fast : a key with more rows than this is faster with a track
    track : bytes that a track needs in any case
    records : of keys that are not in the pool
    counted : of each row, bytes in which a track is to count its values (else it is slow)

    Cost: O(keys at hand) a call; O(keys) where memory is short.
    """

    def __init__(
        self, budget: Budget, fast: int, track: int, records: ColdRecords, counted: int = 0
    ) -> None:  # fmt: skip
        self.budget, self.fast, self.track, self.counted = budget, fast, track, counted
        self.records = records
        self.pool: Pool | None = None  # when there are keys
        self.index: Index | None = None  # likewise
        # Bytes for hot keys, whatever room there is; and how seldom they are looked at.
        self.most, self.often = budget.memory, _NOTED
        # When it was noted last, which is to be told to those keys: what hot ones need beyond
        # `for_hot`, or less than 0.
        self.noted, self.excess = False, 0
        self.leaving = 0  # keys, by the last call
        self._copied = 0  # rows, since places were given back
        self._unnoted = 0  # likewise, since the budget was told

    def sizes(self) -> tuple[int, int]:
        """Bytes held, and those of them that can't be given back."""
        if self.pool is None:
            return 0, 0
        beside = self._beside()
        return self.pool.nbytes + beside, self.pool.least + beside

    @property
    def over(self) -> int:
        """Bytes that are held and should not be; 0 or less where there are none."""
        return self.sizes()[0] - self.budget.room_of(self)

    def _beside(self) -> int:
        return 0 if self.index is None else self.index.held

    def for_hot(self) -> int:
        """Bytes that the keys in the pool may need."""
        room = self.budget.room_of(self) - self._beside()
        return min(self.most, max(room - room // _SPARE, self.budget.memory // _HOT))

    def give_back(self, over: int) -> bool:
        """Hold no places of rows that are gone, and no room for more; O(1) a row that is copied."""
        if self.pool is not None and _OFTEN * self._copied >= self.pool.live:
            self.pool.thin_out()
            self._copied = 0
        return False

    def note(self) -> None:
        """Rows have come or left."""
        self._unnoted, self.noted = 0, True
        if (over := self.over) > 0:
            self.give_back(over)
        self.budget.note(self)
        self.excess = 0 if self.pool is None else self.pool.least - self.for_hot()

    def choose(self) -> Ints:
        """The keys that are to leave, after a call: those with most rows first."""
        assert self.pool is not None
        copied = int(self.pool.of("kept", self.pool.fed).sum())
        self._copied += copied
        self._unnoted += copied
        if self.often * self._unnoted >= self.pool.live + _AT_LEAST:
            self.note()
        over = self._over()
        chosen = self._to_be_fast(self.pool, -over) if over <= 0 else self._to_save(self.pool, over)
        self.leaving = len(chosen)
        return chosen

    def _over(self) -> int:
        """Bytes that are to leave; less than 0 where there is room."""
        over = -self.budget.room
        if not self._frozen:
            return over
        return max(over, self.excess) if self.noted else min(over, 0)

    @property
    def _frozen(self) -> bool:
        """Keys that stay in the pool can leave it for records."""
        return self.index is not None and self.index.can_freeze

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
        keys = keys[: int(saved.searchsorted(over)) + 1]
        if not self._frozen:
            return keys
        room = self.budget.room_of(self) - self._beside() - self.budget.memory // _TRACKS
        needed = np.cumsum(self.track + pool.of("kept", keys) * in_blocks)
        return keys[: int(needed.searchsorted(room, "right"))]

    @staticmethod
    def _longest(pool: Pool, keys: Ints) -> Ints:
        """The same, those with most rows first."""
        found: Ints = keys[np.argsort(-pool.of("kept", keys), kind="stable")]
        return found
