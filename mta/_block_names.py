"""What the blocks of a window on a store are called, which of them can go, and what is wrong."""

from __future__ import annotations

import json
import re
from struct import Struct
from typing import Any
from zlib import crc32

from mta.errors import DamageError, SnapshotError

_MARK = Struct("<I")


class BlockNames:
    """Keys of one window, and marks that tell its blocks from those of others.

    Parameters
    ----------
    where
        The store, for messages.
    name
        Of the window; all its keys begin with it.
    made
        What the window is, by name; a window that was made otherwise is another one.
    """

    mark_bytes = _MARK.size

    def __init__(self, where: str, name: str, made: dict[str, Any]) -> None:
        self.where = where
        self.name = name
        self.made = made
        self.header = f"{name}/header".encode()
        self._identity = crc32(json.dumps(made).encode())

    def block(self, base: int, tier: int, number: int) -> bytes:
        """The key of a block; tier -1: of nulls. `base` is the first row of the window's forest."""
        which = "nulls" if tier < 0 else f"tier {tier}"
        return f"{self.name}/{base:016x}/{which}/{number:016x}".encode()

    def blocks(self, keys: Any) -> set[bytes]:
        """Those of the keys that are of its blocks."""
        name = re.escape(self.name.encode())
        mine = re.compile(name + b"/[0-9a-f]{16}/(nulls|tier [0-9]+)/[0-9a-f]{16}")
        return {key for key in keys if mine.fullmatch(key)}

    def mark(self, key: bytes) -> bytes:
        """The end of a block: those of other windows, and of other places, are refused."""
        return _MARK.pack(crc32(key, self._identity))

    def check_made(self, made: dict[str, Any]) -> None:
        """Refuses a header of a window that was made otherwise."""
        for name, value in self.made.items():
            if made[name] != value:
                raise SnapshotError(f"it was made with {name} {made[name]}, not {value}")

    def missing(self, key: bytes) -> DamageError:
        """The store has lost a block."""
        return DamageError(f"{self.where}: the block {key!r} is missing")

    def not_ours(self, key: bytes) -> DamageError:
        """The mark of a block is another one."""
        return DamageError(
            f"{self.where}: the block {key!r} is damaged: it is not what this window has put there"
        )

    def wrong_length(self, key: bytes, found: int, expected: int, what: str) -> DamageError:
        """A block holds more or fewer nodes than it should."""
        return DamageError(
            f"{self.where}: {key!r} is damaged: it has {found} {what}, not {expected}"
        )


class Leaving:
    """Blocks that nobody needs any more: ranges of numbers, [base, tier, from, to].

    Those that the last header names stay until there is a newer one.
    """

    def __init__(self, names: BlockNames) -> None:
        self.names = names
        self.free: list[list[int]] = []  # they may be taken off the store
        self.named: list[list[int]] = []  # the last header still names them,
        self.waiting = 0  # which are so many

    def add(self, base: int, tier: int, start: int, stop: int) -> None:
        """Blocks that a header which is written from now on does not name."""
        self.named.append([base, tier, start, stop])
        self.waiting += stop - start

    def after_header(self) -> list[list[int]]:
        """What may go when a header has been written now."""
        return self.free + self.named

    def header_written(self) -> None:
        """It has been."""
        self.free, self.named, self.waiting = self.after_header(), [], 0

    def keys(self, ranges: list[list[int]], most: int) -> dict[bytes, None]:
        """The first of these, to be taken off in a batch."""
        keys: dict[bytes, None] = {}
        for base, tier, start, stop in ranges:
            for number in range(start, min(stop, start + most - len(keys))):
                keys[self.names.block(base, tier, number)] = None
            if len(keys) >= most:
                break
        return keys

    def taken(self, most: int) -> None:
        """The first of those that are free have been taken off."""
        while self.free and most > 0:
            first = self.free[0]
            step = min(most, first[3] - first[2])
            most -= step
            first[2] += step
            if first[2] == first[3]:
                self.free.pop(0)
