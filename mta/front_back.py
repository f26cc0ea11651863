"""Extremes of windows whose panes are on a store: two stacks of tables, two of which are held.

The extremes of a window are those of its front, panes up to a border, and of its back, those after
it. In the back keys only rise, as panes come. When the front is used up, the records of the back
are read from the newest to the oldest, and it becomes the front: a table of what all of it comes
to, and on the store a stack of what the table was before each record, to be put back when that
record's pane leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._totals import NOTHING, raise_to, restore, walk_back
from mta.engine import Ints
from mta.row_blocks import Arrays, Layout
from mta.shelf import AT, Renames, Stack
from mta.stores import Store

Keys = NDArray[np.int64]  # by group, or record, and extreme


class FrontBack:
    """The extremes of all groups over a window that moves on.

    extremes : how many a group has

    Cost: O(1) a record, amortised: it is read once more than others are, and what is put back for
    it is written once and read once, at most. The window at which the back becomes the front goes
    over all records inside. Memory: two keys per group and extreme, and one block.

    It is the algorithm of `fifo.TwoStacks` over panes, but for this: the front is one table and a
    way back from it, not a table per pane, as a record changes one group of a table.
    """

    def __init__(self, extremes: int, store: Store, name: str, block: int) -> None:
        self.extremes, self.store, self.name = extremes, store, name
        columns = {AT: "int64", "code": "int64", **{f"k{i}": "int64" for i in range(extremes)}}
        self.layout = Layout(columns, block)
        self.front = _nothing(0, extremes)
        self.back = _nothing(0, extremes)
        self.back_first: int | None = None  # the first pane of the back
        self.turns = 0  # how often the back has become the front
        self.stack = Stack(self.layout, store, self._stack_name(0))
        self.renames = Renames()  # of the codes on the stack
        self.retired: list[Stack] = []  # that a header may still name
        self.written = self.read = 0

    def _stack_name(self, number: int) -> str:
        return f"{self.name}~back{number}"

    def reserve(self, codes: int) -> None:
        """Room for these codes."""
        missing = codes - len(self.front)
        if missing > 0:
            more = _nothing(max(missing, len(self.front) // 4), self.extremes)
            self.front, self.back = (np.concatenate([t, more]) for t in (self.front, self.back))

    def add(self, pane: int, codes: Ints, keys: Keys) -> None:
        """Records come in, the first of which is of this pane, and none of an earlier one."""
        if not len(codes):
            return
        self.reserve(int(codes.max()) + 1)
        raise_to(self.back, codes, keys)
        if self.back_first is None:
            self.back_first = pane

    def slide(self, low: int, inside: Callable[[], Iterable[tuple[Ints, Ints, Keys]]]) -> None:
        """Panes before `low` have left.

        inside : gives the panes, codes and keys of all records inside, by pieces, from the newest
            piece to the oldest

        Raises
        ------
        StoreError
            Ask again.
        """
        if self.back_first is not None and low > self.back_first:
            self.turn(inside)
        while self.stack.count:
            top = self.stack.top()
            leaving = len(top[AT]) - int(np.searchsorted(-top[AT], -low, "right"))
            if not leaving:
                return
            some = {name: column[len(column) - leaving :] for name, column in top.items()}
            codes = self.renames.now(0, some["code"])
            restore(self.front, codes, self._keys(some))
            self.stack.drop(leaving)

    def turn(self, inside: Callable[[], Iterable[tuple[Ints, Ints, Keys]]]) -> None:
        """Make all records inside the front."""
        stack = Stack(self.layout, self.store, self._stack_name(self.turns + 1))
        front = _nothing(len(self.front), self.extremes)
        for panes, codes, keys in inside():
            places, before = walk_back(front, codes, keys)
            columns: Arrays = {AT: panes[places], "code": codes[places]}
            for k in range(self.extremes):
                columns[f"k{k}"] = before[:, k]
            stack.push(columns)
        stack.seal()
        self.written, self.read = self._io()
        self.retired.append(self.stack)
        self.front, self.stack, self.renames = front, stack, Renames()
        self.back = _nothing(len(front), self.extremes)
        self.back_first = None
        self.turns += 1

    def _keys(self, columns: Arrays) -> Keys:
        keys = np.empty((len(columns[AT]), self.extremes), np.int64)
        for k in range(self.extremes):
            keys[:, k] = columns[f"k{k}"]
        return keys

    def _io(self) -> tuple[int, int]:
        return self.written + self.stack.written, self.read + self.stack.read

    def stats(self) -> tuple[int, int]:
        """Blocks written and read."""
        return self._io()

    def renumber(self, new: NDArray[np.int32]) -> None:
        """Code i is new[i], which is not greater; -1: it has no records inside."""
        self.reserve(len(new))
        alive = np.flatnonzero(new >= 0)
        for name in ("front", "back"):
            table, made = getattr(self, name), _nothing(len(alive), self.extremes)
            made[new[alive]] = table[alive]
            setattr(self, name, made)
        self.renames.rename(new, 1 << 62)

    def free(self) -> None:
        """Have the store forget what no header will name from now on."""
        for stack in self.retired:
            stack.count = 0
            stack.free()
        self.retired = []
        self.stack.free()

    @property
    def nbytes(self) -> int:
        """Bytes held: two tables, a block, and what codes are now."""
        return self.front.nbytes + self.back.nbytes + self.layout.block + self.renames.nbytes

    def head(self) -> list[Any]:
        """What JSON can tell of it."""
        return [self.back_first, self.turns, self.stack.count]

    def to_parts(self) -> list[bytes]:
        """The rest."""
        return [self.front.tobytes(), self.back.tobytes(), *self.renames.to_parts()]

    def fill(self, head: list[Any], parts: list[bytes]) -> None:
        """Take what both gave. ValueError: they do not fit."""
        tables = [np.frombuffer(part, np.int64).reshape(-1, self.extremes) for part in parts[:2]]
        self.front, self.back = (table.copy() for table in tables)
        self.back_first, self.turns, count = head
        self.stack = Stack(self.layout, self.store, self._stack_name(self.turns), count)
        self.renames.fill(parts[2:])
        if len(self.front) != len(self.back):
            raise ValueError("the tables are not of the same groups")


def _nothing(codes: int, extremes: int) -> Keys:
    return np.full((codes, extremes), NOTHING, np.int64)
