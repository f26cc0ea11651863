"""Budget: what the keys of a stream have in memory, and who gives some back when it is too much."""

from __future__ import annotations

from typing import Protocol

_BESIDE = 8  # one for so many bytes of the memory
_OF_EACH = 4096  # bytes: the two least blocks in which a window begins and ends


class Holder(Protocol):
    """Who has something in memory, some of it only to be faster."""

    def sizes(self) -> tuple[int, int]:
        """Bytes held, and those of them that can't be given back."""

    def give_back(self, over: int) -> bool:
        """Give so many bytes back, or all but what it needs until there are rows again; whether
        there may be more to give."""


class Budget:
    """Bytes for all holders together.

    Whoever has not been used for longest gives back first. Where the least that holders need is
    more than there is, so much is for what they have beside it: less would be slow, and be too
    much as well; and two small blocks for each of them, so that none is read twice. Where it is
    nearly as much, a share of it: the block in which a window begins.

    Cost: O(1) for each use, beside what giving back takes.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._held = self._least = 0
        self._bytes: dict[Holder, tuple[int, int]] = {}
        self._full: dict[Holder, None] = {}  # who may have something to give, used last at the end

    def note(self, holder: Holder) -> None:
        """It has been used."""
        self._count(holder, *holder.sizes())
        self._full.pop(holder, None)
        self._full[holder] = None
        while self._held > self._allowed and self._full:
            coldest = next(iter(self._full))
            if not coldest.give_back(self._held - self._allowed):
                del self._full[coldest]
            self._count(coldest, *coldest.sizes())

    @property
    def room(self) -> int:
        """Bytes that nobody holds; less than 0 where too many are held."""
        return self.memory - self._held

    def room_of(self, holder: Holder) -> int:
        """Bytes that it may hold as long as others hold theirs."""
        return self.room + self._bytes.get(holder, (0, 0))[0]

    @property
    def _allowed(self) -> int:
        if self._least > self.memory:
            return self._least + max(self.memory, len(self._bytes) * _OF_EACH)
        return max(self.memory, self._least + self.memory // _BESIDE)

    def _count(self, holder: Holder, held: int, least: int) -> None:
        before = self._bytes.get(holder, (0, 0))
        self._held, self._least = self._held + held - before[0], self._least + least - before[1]
        self._bytes[holder] = held, least

    def leave(self, holder: Holder) -> None:
        """It holds nothing any more."""
        self._count(holder, 0, 0)
        del self._bytes[holder]
        self._full.pop(holder, None)
