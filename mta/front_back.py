"""What can't be taken out of a total, of windows whose panes are on a store: two stacks of tables,
two of which are held.

The partials of a window are those of its front, panes up to a border, joined with those of its
back, the panes after it. The back is only joined to, as panes come. When the front is used up, the
records of the back are read from the newest to the oldest, and it becomes the front: a table of
what all of it comes to, and on the store a stack of what the table was before each record, to be
put back when that record's pane leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mta._totals import NOTHING, raise_to, restore, walk_back
from mta.engine import Ints
from mta.row_blocks import Arrays, Layout
from mta.shelf import AT, Renames, Stack
from mta.stores import Store

Parts = NDArray[np.int64]  # by group, or record, and word
Pieces = Iterable[tuple[Ints, Ints, list[Parts]]]  # panes, codes, and partials of several kinds


class Joins(Protocol):
    """A monoid by groups: how partials of some words are joined in tables."""

    width: int

    def nothing(self, n: int) -> Parts:
        """So many partials of no rows."""

    def join(self, table: Parts, codes: Ints, parts: Parts) -> None:
        """Join partials to those that a table has for their groups."""

    def walk_back(self, table: Parts, codes: Ints, parts: Parts) -> tuple[Ints, Parts]:
        """The same, from the last to the first; and what is to be put back when they leave again:
        the numbers of partials, falling, and what the table had before each."""


class Extremes:
    """Extremes as keys, the greatest of which counts.

    width : how many a group has
    """

    def __init__(self, width: int) -> None:
        self.width = width

    def nothing(self, n: int) -> Parts:
        """Keys of no rows."""
        return np.full((n, self.width), NOTHING, np.int64)

    def join(self, table: Parts, codes: Ints, parts: Parts) -> None:
        """Let groups have those keys that are greater."""
        raise_to(table, codes, parts)

    def walk_back(self, table: Parts, codes: Ints, parts: Parts) -> tuple[Ints, Parts]:
        """Only what was greater is put back later."""
        return walk_back(table, codes, parts)


class FrontBack:
    """The partials of all groups over a window that moves on.

    joins : how they are joined

    Cost: O(1) a record, amortised: it is read once more than others are, and what is put back for
    it is written once and read once, at most. The window at which the back becomes the front goes
    over all records inside. Memory: two partials per group, and one block.

    It is the algorithm of `fifo.TwoStacks` over panes, but for this: the front is one table and a
    way back from it, not a table per pane, as a record changes one group of a table.
    """

    def __init__(self, joins: Joins, store: Store, name: str, block: int) -> None:
        self.joins, self.store, self.name = joins, store, name
        self.words = [f"k{i}" for i in range(joins.width)]
        self.layout = Layout(dict.fromkeys([AT, "code", *self.words], "int64"), block)
        self.front, self.back = joins.nothing(0), joins.nothing(0)
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
            more = self.joins.nothing(max(missing, len(self.front) // 4))
            self.front, self.back = (np.concatenate([t, more]) for t in (self.front, self.back))

    def add(self, pane: int, codes: Ints, parts: Parts) -> None:
        """Records come in, the first of which is of this pane, and none of an earlier one."""
        if not len(codes):
            return
        self.reserve(int(codes.max()) + 1)
        self.joins.join(self.back, codes, parts)
        if self.back_first is None:
            self.back_first = pane

    def is_used_up(self, low: int) -> bool:
        """Whether panes of the back are before `low`, so that it has to `turn` first."""
        return self.back_first is not None and low > self.back_first

    def slide(self, low: int) -> None:
        """Panes before `low` have left.

        Raises
        ------
        StoreError
            Ask again.
        """
        while self.stack.count:
            top = self.stack.top()
            leaving = len(top[AT]) - int(np.searchsorted(-top[AT], -low, "right"))
            if not leaving:
                return
            some = {name: column[len(column) - leaving :] for name, column in top.items()}
            codes = self.renames.now(0, some["code"])
            restore(self.front, codes, np.stack([some[word] for word in self.words], axis=1))
            self.stack.drop(leaving)

    def fill_front(self, front: Parts, stack: Stack) -> None:
        """Go on with this front, and what is to be put back of it; the back is empty."""
        self.written, self.read = self._io()
        self.retired.append(self.stack)
        self.front, self.stack, self.renames = front, stack, Renames()
        self.back = self.joins.nothing(len(front))
        self.back_first = None
        self.turns += 1

    def new_stack(self) -> Stack:
        """For a front that is being made."""
        return Stack(self.layout, self.store, self._stack_name(self.turns + 1))

    def add_back(self, front: Parts, stack: Stack, panes: Ints, codes: Ints, parts: Parts) -> None:
        """Take records, older than all before, into a front that is being made."""
        places, before = self.joins.walk_back(front, codes, parts)
        columns: Arrays = {AT: panes[places], "code": codes[places]}
        stack.push({**columns, **dict(zip(self.words, before.T, strict=True))})

    def inside(self, codes: Ints) -> Parts:
        """What groups have inside."""
        parts = self.front[codes]
        self.joins.join(parts, np.arange(len(codes)), self.back[codes])
        return parts

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
            table, made = getattr(self, name), self.joins.nothing(len(alive))
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
        width = self.joins.width
        tables = [np.frombuffer(part, np.int64).reshape(-1, width) for part in parts[:2]]
        self.front, self.back = (table.copy() for table in tables)
        self.back_first, self.turns, count = head
        self.stack = Stack(self.layout, self.store, self._stack_name(self.turns), count)
        self.renames.fill(parts[2:])
        if len(self.front) != len(self.back):
            raise ValueError("the tables are not of the same groups")


def turn(all_of: list[FrontBack], inside: Pieces) -> None:
    """Make all records inside the front of each of these, in one go over them.

    inside : panes, codes, and partials for each, by pieces, from the newest piece to the oldest

    Raises
    ------
    StoreError
        Nothing is changed.
    """
    if not all_of:  # then there is nothing to be read
        return
    made = [(each, each.joins.nothing(len(each.front)), each.new_stack()) for each in all_of]
    for panes, codes, partials in inside:
        for (each, front, stack), parts in zip(made, partials, strict=True):
            each.add_back(front, stack, panes, codes, parts)
    for _, _, stack in made:
        stack.seal()
    for each, front, stack in made:
        each.fill_front(front, stack)
