"""Blocks that were read ahead, within a bound: the block that is needed last goes first."""

from __future__ import annotations

from heapq import heappop, heappush

from mta.errors import SpecError


class BlockCache:
    """Blocks by key within a number of bytes, each with the turn at which it will be needed.

    A window knows in which order it will ask for its blocks, so what is needed last can go first,
    which no other choice beats (Belady, 1966); SlideM spills by the same rule. A block that is
    needed later than all others and finds no room is not taken. Not safe for several threads.

    `put` and `pop` cost O(log n) for n blocks.

    Parameters
    ----------
    limit
        The largest sum of the lengths of all blocks, in bytes.

    >>> cache = BlockCache(10)
    >>> for turn, key in enumerate([b"a", b"b", b"c"]):
    ...     cache.put(key, b"12345", turn)
    >>> b"b" in cache, b"c" in cache
    (True, False)
    >>> cache.put(b"now", b"123", -1)   # needed before all others: b goes
    >>> cache.pop(b"a"), cache.pop(b"b"), cache.size
    (b'12345', None, 3)
    """

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise SpecError(f"limit: a cache has no less than 0 bytes, not {limit}")
        self.limit = limit
        self.size = 0
        self._blocks: dict[bytes, tuple[bytes, int]] = {}
        self._last: list[tuple[int, bytes]] = []  # a heap of (−turn, key); may name what is gone

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, key: bytes) -> bool:
        return key in self._blocks

    def put(self, key: bytes, block: bytes, turn: int) -> None:
        """Takes `block`, needed at `turn`; what is needed later goes where room is short."""
        self.pop(key)
        if len(block) > self.limit:
            return
        self._blocks[key] = block, turn
        self.size += len(block)
        heappush(self._last, (-turn, key))
        while self.size > self.limit:
            self._drop_last()
        if len(self._last) > 2 * len(self._blocks) + 8:
            self._last = sorted((-turn, key) for key, (_, turn) in self._blocks.items())

    def pop(self, key: bytes) -> bytes | None:
        """The block of `key`, which leaves the cache; None if it is not there."""
        block, _ = self._blocks.pop(key, (None, 0))
        if block is not None:
            self.size -= len(block)
        return block

    def clear(self) -> None:
        """Forgets all blocks."""
        self._blocks.clear()
        self._last.clear()
        self.size = 0

    def _drop_last(self) -> None:
        turn, key = heappop(self._last)
        if key in self._blocks and self._blocks[key][1] == -turn:
            self.pop(key)
