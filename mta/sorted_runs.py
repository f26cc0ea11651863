"""Sorting in bounded memory: values of groups, and how often they occur, or their rows.

A merge sort over a store (Knuth, The Art of Computer Programming 3, 5.4): what fits in memory is
sorted and written as a run; runs are merged as many at a time as a part of each fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mta.engine import Ints
from mta.repository import stored_block
from mta.row_blocks import Arrays, Layout, RowBlock
from mta.stores import Store

CODE, KEY, COUNT, TIME, PLACE, RAW = "code", "key", "count", "time", "place", "raw"
COLUMNS = (CODE, KEY, COUNT, TIME, PLACE, RAW)

_FAN = 16  # runs that are merged at a time


class SortedRuns:
    """Tallies of groups: `code` and `key`, how often (`count`), and the first place of all in
    window order (`time`, `place`) with what stood there (`raw`).

    columns : that there are, if not all of these: `code`, `key`, `place` and any others
    apart : equal ones are not to become one; they go by `place`, which is another for each

    Cost: O(tallies log tallies) time; each is written and read once, and once more for every 16
    times as many as fit in memory. Memory: `memory`, a few times over while NumPy sorts.
    """

    def __init__(
        self, store: Store, name: str, memory: int, columns: Sequence[str] = COLUMNS
    ) -> None:
        self.store, self.name = store, name
        row = 8 * len(columns)
        self.most = max(memory // row, 2 * _FAN)
        types = dict.fromkeys(columns, "int64")
        rows = Layout(types, 64 + (row + 1) * max(self.most // _FAN, 2)).rows
        self.bits = rows.bit_length() - 1  # a block has 2^bits rows
        self.layout = Layout(types, Layout(types).bytes_of(1 << self.bits))
        self.apart = False
        self.held: list[Arrays] = []
        self.rows = 0
        self.runs: list[tuple[int, int]] = []  # of each its first block and its tallies
        self.blocks = 0
        self.written = self.read = 0

    def add(self, tallies: Arrays) -> None:
        """Take tallies, in any order."""
        start, n = 0, len(tallies[CODE])
        while start < n:
            step = min(self.most - self.rows, n - start)
            self.held.append({name: c[start : start + step] for name, c in tallies.items()})
            self.rows += step
            start += step
            if self.rows == self.most:
                self._write_run([self._combined(self.held)])
                self.held, self.rows = [], 0

    def merged(self) -> Iterator[Arrays]:
        """All tallies in order of groups and keys, the equal ones as one; then there are none."""
        if not self.runs:
            if self.held:
                yield self._combined(self.held)
            self.held, self.rows = [], 0
            return
        self._leave_few_runs()
        yield from self._merged(self.runs)
        self.runs = []

    def _leave_few_runs(self) -> None:
        """Write what is held, and merge so many runs that the others can be merged at a time."""
        if self.held:
            self._write_run([self._combined(self.held)])
            self.held, self.rows = [], 0
        while len(self.runs) > _FAN:
            some, self.runs = self.runs[:_FAN], self.runs[_FAN:]
            self._write_run(self._merged(some))

    def pages(self) -> SortedPages:
        """All that was taken in order, to be read anywhere, until `clear`.

        Cost: as `merged`; if not all of it fits in memory, it is written once more.
        """
        if not self.runs:
            held = [self._combined(self.held)] if self.held else []
            return SortedPages(self, held)
        self._leave_few_runs()
        if len(self.runs) > 1:
            some, self.runs = self.runs, []
            self._write_run(self._merged(some))
        return SortedPages(self)

    def _combined(self, parts: list[Arrays]) -> Arrays:
        return in_order(parts) if self.apart else combined(parts)

    def clear(self) -> None:
        """Have the store forget the runs."""
        self.store.delete_many(self._key(number) for number in range(self.blocks))
        self.held, self.rows, self.runs, self.blocks = [], 0, [], 0

    def _write_run(self, parts: Iterator[Arrays] | list[Arrays]) -> None:
        first, count, rest = self.blocks, 0, None
        for part in parts:
            tallies = part if rest is None else _joined([rest, part])
            n = len(tallies[CODE])
            whole = n // self.layout.rows * self.layout.rows
            for start in range(0, whole, self.layout.rows):
                self._write_block(tallies, start, start + self.layout.rows)
            rest = {name: column[whole:].copy() for name, column in tallies.items()}
            count += whole
        if rest is not None and len(rest[CODE]):
            self._write_block(rest, 0, len(rest[CODE]))
            count += len(rest[CODE])
        self.runs.append((first, count))

    def _write_block(self, tallies: Arrays, start: int, stop: int) -> None:
        block = RowBlock(self.layout, self.blocks)
        block.append(tallies, {}, start, stop)
        self.store.put(self._key(self.blocks), block.to_bytes())
        self.blocks += 1
        self.written += 1

    def _read_run(self, run: tuple[int, int]) -> Iterator[Arrays]:
        first, count = run
        for number in range(first, first - (-count // self.layout.rows)):
            yield self.read_block(number)

    def read_block(self, number: int) -> Arrays:
        """The tallies of a block."""
        self.read += 1
        block = stored_block(self.store, self._key(number), self.layout, number)
        return {name: column[: block.count] for name, column in block.columns.items()}

    def _merged(self, runs: list[tuple[int, int]]) -> Iterator[Arrays]:
        """The tallies of runs: of each a block is at hand, and what can't come again goes out."""
        readers = [self._read_run(run) for run in runs]
        heads = [next(reader, None) for reader in readers]
        while any(head is not None for head in heads):
            present = [head for head in heads if head is not None]
            names = (CODE, KEY, PLACE) if self.apart else (CODE, KEY)
            last = min(tuple(int(head[name][-1]) for name in names) for head in present)
            some = []
            for k, head in enumerate(heads):
                if head is None:
                    continue
                to = _upto(head, names, last)
                some.append({name: column[:to] for name, column in head.items()})
                rest = {name: column[to:] for name, column in head.items()}
                heads[k] = rest if len(rest[CODE]) else next(readers[k], None)
            yield self._combined(some)

    def _key(self, number: int) -> bytes:
        return f"{self.name}/{number:016x}".encode()


class SortedPages:
    """Rows in order, by number, of which one page of 2^bits is at hand.

    runs : that have them, all in one
    held : or all of them, as one page
    """

    bits: int

    def __init__(self, runs: SortedRuns, held: list[Arrays] | None = None) -> None:
        self.runs = runs
        self.page, self._number = {}, -1
        if held is None:
            self.bits, (self._first, _) = runs.bits, runs.runs[0]
        else:
            self.bits = 62
            self.page, self._number = (held[0] if held else {}), 0

    def read(self, row: int) -> tuple[int, Arrays]:
        """The page with this row, and the number of its first one.

        Raises
        ------
        StoreError
            It could not be read.
        """
        number = row >> self.bits
        if number != self._number:
            self.page, self._number = self.runs.read_block(self._first + number), number
        return number << self.bits, self.page


def _upto(tallies: Arrays, names: tuple[str, ...], last: tuple[int, ...]) -> int:
    """How many of these, which rise by these columns, come at this one or before."""
    low, high = 0, len(tallies[CODE])
    for name, value in zip(names, last, strict=True):
        start = low
        low = start + int(np.searchsorted(tallies[name][start:high], value))
        high = start + int(np.searchsorted(tallies[name][start:high], value, "right"))
    return high


def edges_of(codes: Ints) -> Ints:
    """Where in these, which rise, another one begins, and where all end."""
    return np.append(np.flatnonzero(np.diff(codes, prepend=-1)), len(codes))


def in_order(parts: list[Arrays]) -> Arrays:
    """Tallies in order of groups, keys, and places."""
    tallies = _joined(parts)
    order: Ints = np.lexsort([tallies[n] for n in (PLACE, TIME, KEY, CODE) if n in tallies])
    return {name: column[order] for name, column in tallies.items()}


def combined(parts: list[Arrays]) -> Arrays:
    """Tallies in order of groups and keys, those of the same as one."""
    tallies = in_order(parts)
    new = np.diff(tallies[CODE], prepend=-1) != 0
    new[1:] |= tallies[KEY][1:] != tallies[KEY][:-1]
    first = np.flatnonzero(new)
    if len(first) == len(new):
        return tallies
    counts = np.add.reduceat(tallies[COUNT], first)
    return {**{name: column[first] for name, column in tallies.items()}, COUNT: counts}


def _joined(parts: list[Arrays]) -> Arrays:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
