"""Ledger: which rows of a stream have been written in blocks, and which blocks are still needed.

Most of what a stream with long windows holds are rows that do not change. A checkpoint writes those
that have come since the one before as a block, once; what does change is in its head
(`mta.stream_blocks`). A block is needed until all its rows are gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mta._vector import Vector
from mta.engine import Ints

LEAST_ROWS = 1 << 14  # a block with fewer rows than this is written anew with those that follow


class Block(NamedTuple):
    """Rows first..first + size of some keys.

    serials : of the keys
    """

    number: int
    serials: Ints
    first: Ints
    sizes: Ints

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.sizes.sum())


@dataclass
class Ledger:
    """What has been written of the rows of all keys.

    serials : of every key; other than its number it never changes, and is never given again
    in_blocks : rows are to be written there at all
    written : of every key, the row up to which all are
    """

    in_blocks: bool = True
    serials: Vector = field(default_factory=Vector)
    written: Vector = field(default_factory=Vector)
    blocks: list[Block] = field(default_factory=list)
    next_serial: int = 0
    next_block: int = 0

    def grow(self, keys: int) -> None:
        """Have so many keys."""
        more = keys - len(self.serials)
        self.serials.extend(np.arange(self.next_serial, self.next_serial + more))
        self.written.extend(np.zeros(more if self.in_blocks else 0, np.int64))
        self.next_serial += more

    def shrink(self, keys: int) -> None:
        """Undo `grow`, before which there were so many."""
        for vector in self._of_keys():
            vector.take_back(len(vector) - keys)

    def keep(self, keys: Ints) -> None:
        """Only these keys, which ascend; they are numbered anew."""
        for vector in self._of_keys():
            vector.keep(keys)

    def _of_keys(self) -> list[Vector]:
        return [self.serials, self.written] if self.in_blocks else [self.serials]

    def places(self, serials: Ints) -> tuple[Ints, Ints]:
        """Which of these serials are there still, as places among them; and the keys' numbers."""
        known = self.serials.view()
        at = known.searchsorted(serials)
        found = np.flatnonzero(at < len(known))
        found = found[known[at[found]] == serials[found]]
        return found, at[found]

    def live(self, block: Block, base: Ints) -> int:
        """How many of its rows are there still; key k has those from base[k] on."""
        found, keys = self.places(block.serials)
        end = block.first[found] + block.sizes[found]
        return int(np.maximum(end - np.maximum(base[keys], block.first[found]), 0).sum())

    def drop(self, base: Ints) -> list[int]:
        """Let go of the blocks that are needed no more or are to be written anew: which."""
        live = [self.live(block, base) for block in self.blocks]
        rows = [block.rows for block in self.blocks]
        kept = [block for block, n in zip(self.blocks, live, strict=True) if n]
        dead = sum(r - n for r, n in zip(rows, live, strict=True) if n)
        if dead > sum(live) // 4 + LEAST_ROWS:
            again = kept
        else:
            again = [block for block in kept[-1:] if block.rows < LEAST_ROWS]
        for block in again:
            found, keys = self.places(block.serials)
            written = self.written.view()
            written[keys] = np.minimum(written[keys], block.first[found])
        before = [block.number for block in self.blocks]
        anew = {block.number for block in again}
        self.blocks = [block for block in kept if block.number not in anew]
        stay = {block.number for block in self.blocks}
        return [number for number in before if number not in stay]

    def add(self, keys: Ints, sizes: Ints, received: Ints) -> Block:
        """A block of the rows of these keys that come last before received[i]."""
        block = Block(self.next_block, self.serials.view()[keys], received - sizes, sizes)
        self.next_block += 1
        self.blocks.append(block)
        self.written.view()[keys] = received
        return block
