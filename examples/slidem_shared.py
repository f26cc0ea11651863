"""SSM: N windows over one repository of rows, against N repositories of a window each (§4, §5.4).

What is counted, blocks on the store and requests, does not depend on how many rows a block has. So
blocks are smaller than the paper's, and there are fewer of them: rate and memory are divided alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import slidem_published as paper

from mta import costs
from mta.repository import Repository, Stats
from mta.row_blocks import Arrays, Layout
from mta.stores import MemoryStore

COLUMNS = {"ts": "int64", "symbol": "int32", "price": "float64", "volume": "float64"}
BLOCK = 2048
_LOOK = 32  # blocks, between two looks at what the store has
SPANS = 1.5  # of the largest window, to warm up, and then to measure: as in the paper


@dataclass(frozen=True)
class Scale:
    """The paper's blocks a second and its memory, divided by `by`."""

    by: int

    @property
    def pool(self) -> int:
        """Blocks in memory."""
        return paper.SHARED_MEMORY // paper.BLOCK // self.by

    def blocks(self, seconds: float) -> float:
        """In so much time."""
        return seconds * paper.SHARED_RATE / Layout(COLUMNS, paper.BLOCK).rows / self.by


@dataclass(frozen=True)
class Held:
    """N windows, once they have been slid over a stretch of rows."""

    windows: int
    pooled: int  # blocks in memory
    stored: int  # blocks of the windows that are on the store
    kept: int  # blocks that the store had at most: what has gone waits for the next header
    requests: int  # while it was measured
    blocks: int  # of rows, that came meanwhile
    hit_rate: float

    @property
    def space(self) -> int:
        """Blocks in memory and on the store; those that are in both are two."""
        return self.pooled + self.stored

    @property
    def a_block(self) -> float:
        """Requests for every block of rows that comes, #IO."""
        return self.requests / self.blocks

    @property
    def formula(self) -> float:
        """4.1, with the hit rate that was counted."""
        return costs.shared_requests(self.windows, self.hit_rate)


def expected_hit_rate(windows: int, scale: Scale) -> float:
    """Formula 4.2, before anything is run: the blocks between fronts are needed soonest, so these
    are in memory as far as there is room, and before them what is left of it."""
    fronts = [scale.blocks(span) for span in spans(windows)]
    segments = np.diff([0.0, *fronts])
    room, resident = float(scale.pool), []
    for blocks in segments[::-1]:
        resident.append(min(room, blocks))
        room -= resident[-1]
    return costs.shared_hit_rate(resident, segments[::-1])


def spans(windows: int) -> list[float]:
    """Seconds of every window, evenly from the least to the greatest."""
    return np.linspace(*paper.SHARED_RANGE, windows).tolist()


def shared(windows: int, scale: Scale) -> Held:
    """One repository with so many fronts."""
    lengths = [round(scale.blocks(s) * _rows()) for s in spans(windows)]
    with Repository(
        COLUMNS, MemoryStore(), windows=windows, pool=max(scale.pool, windows + 1), block=BLOCK
    ) as rows:
        return _slid(rows, lengths)


def unshared(windows: int, scale: Scale) -> Held:
    """A repository each, with an equal part of the memory; one after the other."""
    found = []
    longest = round(scale.blocks(paper.SHARED_RANGE[1]) * _rows())
    for span in spans(windows):
        length = round(scale.blocks(span) * _rows())
        pool = max(scale.pool // windows, 2)
        with Repository(COLUMNS, MemoryStore(), pool=pool, block=BLOCK) as rows:
            found.append(_slid(rows, [length], longest))
    return Held(
        windows,
        sum(held.pooled for held in found),
        sum(held.stored for held in found),
        sum(held.kept for held in found),
        sum(held.requests for held in found),
        found[0].blocks,
        sum(held.hit_rate for held in found) / windows,
    )


def by_windows(
    counts: Sequence[int], scale: Scale, progress: Callable[[str], None]
) -> list[tuple[Held, Held]]:
    """For every number of windows: shared, unshared."""
    found = []
    for windows in counts:
        progress(f"ssm: {windows} windows")
        found.append((shared(windows, scale), unshared(windows, scale)))
    return found


def _rows() -> int:
    return Layout(COLUMNS, BLOCK).rows


def _slid(rows: Repository, lengths: Sequence[int], longest: int = 0) -> Held:
    """Append block by block; every window lets go of its oldest rows."""
    blocks = round(SPANS * max(longest, *lengths) / rows.layout.rows)
    for _ in range(blocks):
        _step(rows, lengths)
    before, kept = rows.stats(), 0
    for step in range(blocks):
        _step(rows, lengths)
        if step % _LOOK == 0:
            kept = max(kept, sum(1 for _ in rows.store.keys(b"")))
    after = rows.stats()
    return Held(
        len(lengths),
        after.pooled,
        after.stored,
        kept,
        after.requests - before.requests,
        blocks,
        _hit_rate(before, after),
    )


def _hit_rate(before: Stats, after: Stats) -> float:
    asked = after.hits + after.misses - before.hits - before.misses
    return (after.hits - before.hits) / asked if asked else 1.0


def _step(rows: Repository, lengths: Sequence[int]) -> None:
    rows.append(_values(rows.back, rows.layout.rows))
    for window, length in enumerate(lengths):
        for left in rows.expire(max(rows.back - length, rows.fronts[window]), window):
            if left.columns["ts"][0] != left.first:
                raise AssertionError(f"row {left.first} is another one")


def _values(first: int, rows: int) -> Arrays:
    ts = np.arange(first, first + rows)
    return {
        "ts": ts,
        "symbol": ts.astype(np.int32) % 100,
        "price": np.ones(rows),
        "volume": np.ones(rows),
    }
