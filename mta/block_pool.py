"""BlockPool: the blocks of a repository that are in memory, and which of them is needed last."""

from __future__ import annotations

from bisect import bisect_left, insort

from mta.row_blocks import RowBlock


class BlockPool:
    """Blocks by number."""

    __slots__ = ("_blocks", "_order", "unstored")

    def __init__(self) -> None:
        self._blocks: dict[int, RowBlock] = {}
        self._order: list[int] = []  # their numbers, ascending
        self.unstored = 0  # of them, that no store has

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, number: int) -> bool:
        return number in self._blocks

    def __getitem__(self, number: int) -> RowBlock:
        return self._blocks[number]

    def get(self, number: int) -> RowBlock | None:
        """A block, if it is here."""
        return self._blocks.get(number)

    @property
    def numbers(self) -> list[int]:
        """Of all blocks, ascending."""
        return self._order.copy()

    def put(self, number: int, block: RowBlock) -> None:
        """It comes."""
        self._blocks[number] = block
        self.unstored += not block.stored
        insort(self._order, number)

    def take(self, number: int) -> RowBlock:
        """It leaves."""
        del self._order[bisect_left(self._order, number)]
        block = self._blocks.pop(number)
        self.unstored -= not block.stored
        return block

    def note_stored(self, block: RowBlock) -> None:
        """A store has this one, which is here."""
        if not block.stored:
            block.stored = True
            self.unstored -= 1

    def victim(self, fronts: list[int], passed: int, kept: tuple[int, int]) -> int:
        """The block that no window needs, or that one needs last: ref of §4.2 is the distance from
        the front before it, so of those between two fronts the last one is looked at.

        fronts : the blocks in which windows begin, ascending
        passed : if the store has blocks before this one, they go first
        kept : blocks that are to stay

        Cost: O(windows log pool).
        """
        for number in self._order[: bisect_left(self._order, passed)]:
            done = number < fronts[0] or self._blocks[number].stored
            if done and number not in kept:
                return number
        ends = [*fronts[1:], self._order[-1] + 1]
        found = [
            self._last_before(end, kept) - front for front, end in zip(fronts, ends, strict=True)
        ]
        farthest = max(range(len(found)), key=found.__getitem__)
        return fronts[farthest] + found[farthest]

    def _last_before(self, end: int, kept: tuple[int, int]) -> int:
        at = bisect_left(self._order, end)
        while at and self._order[at - 1] in kept:
            at -= 1
        return self._order[at - 1] if at else -1
