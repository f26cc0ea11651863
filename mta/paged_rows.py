"""PagedRows: the older rows of one key's window, on a store; the newest ones are with the track.

Rows go to a repository (`mta.repository`) a block at a time, and are read when the window's front
comes to them. Of each block a few numbers stay in memory: its first time, and how many rows count
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mta._vector import Vector
from mta.engine import Ints
from mta.frames import Column
from mta.plan import Feed, Input, Plan, State
from mta.repository import Repository
from mta.rows import KeptRows, Mask

_TIMES = "time"
_KNOWN_BLOCKS = 2  # values that were asked for stay in memory if they are at most so many blocks


class Part(NamedTuple):
    """Rows first, first + 1, ... as arrays by name, and the marks of those that count."""

    first: int
    end: int
    columns: dict[str, NDArray[Any]]
    valid: dict[str, Mask]


class Told(NamedTuple):
    """What a header says of a repository."""

    block: int
    parts: list[bytes]


MakeRepository = Callable[[dict[str, str], list[str], "Told | None"], Repository]


class Names:
    """What the columns of a plan are called in blocks.

    timed : times are kept as well
    taken : the columns that answers are taken from
    """

    def __init__(self, plan: Plan, timed: bool, taken: list[str]) -> None:
        self.feeds: dict[Feed, str] = {feed: f"feed {i}" for i, feed in enumerate(plan.feeds)}
        self.inputs: dict[Input, str] = {
            source: f"rows {i}" for i, source in enumerate(plan.inputs)
        }
        self.taken = {name: f"value {name}" for name in taken}
        self.timed = timed

    def types(self) -> dict[str, str]:
        """The columns of a block."""
        names = [*([_TIMES] if self.timed else []), *self.feeds.values(), *self.taken.values()]
        # (A window that only counts rows by their number has nothing to keep but marks.)
        return dict.fromkeys(names, "int64") or {"row": "bool"}

    def marks(self) -> list[str]:
        """Of what only null marks are kept."""
        return list(self.inputs.values())


def _new_names(plan: Plan, timed: bool, taken: tuple[str, ...]) -> Names:
    return Names(plan, timed, list(taken))


_names = lru_cache(maxsize=16)(_new_names)  # one for all keys


class Found(NamedTuple):
    """Values of a column in some rows, which ascend."""

    rows: Ints
    values: Ints
    valid: Mask

    def copy(self, known: Found | None) -> Ints:
        """Take those that are known; the places of the others."""
        if known is None or not len(known.rows):
            return np.arange(len(self.rows))
        at = np.minimum(known.rows.searchsorted(self.rows), len(known.rows) - 1)
        same = known.rows[at] == self.rows
        self.values[same], self.valid[same] = known.values[at[same]], known.valid[at[same]]
        return np.flatnonzero(~same)


class PagedRows:
    """Rows that a repository holds, by number; row `end` is the first one that it does not.

    tail : of the track
    make : makes the repository of these columns and marks; or opens it, by what `to_parts` told
    names : of the columns, where others have rows there too
    """

    def __init__(
        self,
        plan: Plan,
        timed: bool,
        tail: KeptRows,
        times: Vector,
        make: MakeRepository,
        told: Told | None = None,
        names: Names | None = None,
    ) -> None:
        self.tail, self.times, self.timed = tail, times, timed
        self.names = names or _names(plan, timed, tuple(tail.values))
        self.repository = make(self.names.types(), self.names.marks(), told)
        self.block_rows = self.repository.layout.rows
        # Of each block from that of the front on: its first time; how many rows before it count.
        block = self.first // self.block_rows
        self.first_times = Vector(True, block)
        self.counted = {source: Vector(True, block) for source in plan.inputs}
        self._found: dict[str, Found] = {}  # the values that were asked for last
        self._joined: Part | None = None  # rows of more than one block that were read last
        self._times: tuple[int, Ints] = 0, np.zeros(0, np.int64)  # of the block of the last front

    window = 0  # its number in the repository

    @property
    def first(self) -> int:
        """The first row that is here."""
        return self.repository.fronts[self.window]

    @property
    def end(self) -> int:
        """The first row that is not."""
        return self.repository.back

    @property
    def read_bytes(self) -> int:
        """Bytes of blocks in memory, about."""
        joined = 0 if self._joined is None else self._joined.end - self._joined.first
        return self.repository.pooled_bytes + int(joined * self.repository.layout.row_bytes)

    @property
    def tail_bytes(self) -> int:
        """Bytes of the tail, and of what stays in memory of every block."""
        beside = [self.first_times, *self.counted.values(), self.times]
        return self.tail.nbytes + sum([vector.nbytes for vector in beside])

    def shrink(self, times: int = 4) -> bool:
        """Give room back that the rows of large pushes had in the tail, where it is for so many
        times as many rows; whether there was any."""
        shrunk = [vector.shrink(times) for vector in [*self.tail.vectors(), self.times]]
        return any(shrunk)

    # ------------------------------------------------------------------------------ rows in

    def will_take(self, stop: int) -> bool:
        """`take_in` will, as they fill blocks."""
        return self.end + self.block_rows <= stop

    def take_in(self, stop: int) -> None:
        """Take the rows before `stop` from the tail, as far as they fill blocks.

        Raises
        ------
        StoreError
            A block could not be written; those before it are here.
        """
        while self.will_take(stop):
            start = self.end
            values, valid = self._of_tail(start, start + self.block_rows)
            self.repository.append_checked(values, valid)
            self._note_block(values, valid)
            self._drop_tail()

    def _drop_tail(self) -> None:
        self.tail.drop_to(self.end)
        if self.timed:
            self.times.drop_to(self.end)

    def _of_tail(self, start: int, stop: int) -> tuple[dict[str, Any], dict[str, Mask]]:
        mine = slice(start - self.tail.first, stop - self.tail.first)
        values: dict[str, Any] = {}
        if self.timed:
            values[_TIMES] = self.times.view()[start - self.times.first : stop - self.times.first]
        for feed in self.tail.feeds:
            values[self.names.feeds[feed]] = self.tail.feed(feed)[mine].view(np.int64)
        valid = {}
        for source in self.tail.valids:
            mask = self.tail.valid(source)
            if mask is not None:
                valid[self.names.inputs[source]] = mask[mine]
        columns = self.tail.columns() if self.tail.values else {}
        for column in self.tail.values:
            name = self.names.taken[column]
            taken = columns[column].slice(mine.start, mine.stop)
            assert taken.values is not None
            values[name] = taken.values.view(np.int64)
            if taken.valid is not None:
                valid[name] = taken.valid
        if not values:
            values["row"] = np.ones(stop - start, np.bool_)
        return values, valid

    def _note_block(self, values: dict[str, Any], valid: dict[str, Mask]) -> None:
        if self.timed:
            self.first_times.extend(values[_TIMES][:1])
        for source, counted in self.counted.items():
            name = self.names.inputs[source]
            if not len(counted):
                counted.extend(np.zeros(1, np.int64))
            here = int(valid[name].sum()) if name in valid else self.block_rows
            counted.extend(counted.view()[-1:] + here)

    def let_go(self, row: int) -> None:
        """No row before this one is needed any more. (Blocks go as a whole.)

        Raises
        ------
        StoreError
            A block could not be read ahead; it will be asked for again.
        """
        block = max(min(row, self.end), self.first) // self.block_rows
        self.first_times.drop_to(block)
        for counted in self.counted.values():
            counted.drop_to(block)
        if self._joined is not None and self._joined.end <= row:
            self._joined = None
        self.repository.let_go(block * self.block_rows, self.window)

    def forget_read(self) -> None:
        """What was read may be of rows that are taken back."""
        self._joined, self._found = None, {}

    def thin_out(self, over: int) -> None:
        """Keep no rows in memory that were read last; and give so many bytes back with them.

        Raises
        ------
        StoreError
            A block could not be written; it is still here.
        """
        held = self.read_bytes
        self.forget_read()
        self._times = 0, np.zeros(0, np.int64)
        self.repository.thin_out(over - held + self.read_bytes)

    def pass_by(self, row: int) -> None:
        """The window that is being answered has come so far; the call may yet fail."""
        self.repository.pass_by(min(row, self.end))

    # ----------------------------------------------------------------------------- rows out

    def part(self, start: int, stop: int) -> Part:
        """These rows, or more; some of them may be in the tail.

        Raises
        ------
        StoreError
            A block could not be read.
        """
        block = start // self.block_rows
        if stop <= min((block + 1) * self.block_rows, self.end):
            first, end = block * self.block_rows, (block + 1) * self.block_rows
            (rows,) = self.repository.visit(first, end)
            return Part(first, end, rows.columns, rows.valid)
        if self._joined is None or self._joined.first > start or self._joined.end < stop:
            self._joined = self._join(start, stop)
        return self._joined

    def _join(self, start: int, stop: int) -> Part:
        pieces = []
        if start < self.end:
            visited = self.repository.visit(start, min(stop, self.end))
            pieces += [(rows.columns, rows.valid, len(rows)) for rows in visited]
        if stop > self.end:
            values, marks = self._of_tail(max(start, self.end), stop)
            pieces.append((values, marks, stop - max(start, self.end)))
        here = pieces[-1][0]  # (what others have is not in the tail)
        columns = {name: np.concatenate([v[name] for v, _, _ in pieces]) for name in here}
        masked = {name for _, marks, _ in pieces for name in marks}
        valid = {
            name: np.concatenate([m.get(name, np.ones(n, np.bool_)) for _, m, n in pieces])
            for name in masked
        }
        return Part(start, stop, columns, valid)

    def loader(
        self, state: State, in_turn: bool = False
    ) -> Callable[[int, int], tuple[list[Any], Any, int]]:
        """What the kernel of a state reads its rows by.

        in_turn : it is the only one, so what it reads is where the window has come to
        """

        def load(start: int, stop: int) -> tuple[list[Any], Any, int]:
            if in_turn:
                self.pass_by(start)
            part = self.part(start, stop)
            mask = part.valid.get(self.names.inputs[state.input])
            feeds = [part.columns[self.names.feeds[feed]] for feed in state.feeds]
            # (A kernel that looks at no values has to know how many rows there are.)
            feeds = feeds or [np.zeros(part.end - part.first, np.int64)]
            return feeds, None if mask is None else mask.view(np.uint8), part.first

        return load

    def counts_before(self, source: Input, rows: Ints) -> Ints:
        """How many rows that count are before each of these rows, which ascend: some constant more
        or less, which is the same for all rows that are here and in the tail."""
        counts = np.empty(len(rows), np.int64)
        stored = int(rows.searchsorted(self.end))
        known = self.counted[source]
        for block in np.unique(rows[:stored] // self.block_rows).tolist():
            first = block * self.block_rows
            start, stop = rows[:stored].searchsorted([first, first + self.block_rows])
            offset = int(known.view()[block - known.first])
            counts[start:stop] = offset + self._count_in(source, first, rows[start:stop])
        offset = int(known.view()[-1]) if len(known) else 0
        counts[stored:] = offset + self._count_in_tail(source, rows[stored:])
        return counts

    def _count_in(self, source: Input, first: int, rows: Ints) -> Ints:
        if rows[-1] == first:
            return rows - first
        part = self.part(first, int(rows[-1]))
        return _counted(part.valid.get(self.names.inputs[source]), part.first, first, rows)

    def _count_in_tail(self, source: Input, rows: Ints) -> Ints:
        return _counted(self.tail.valid(source), self.tail.first, self.end, rows)

    def block_at(self, edge: int, since: int) -> tuple[int, Ints] | None:
        """The first row that is not before this time, and not before `since`, is in a block: the
        times in it, and of which row they are the first. None: it is not here."""
        times = self._times[1]
        if not (len(times) and times[0] < edge <= times[-1]):
            found = self._block_at(edge, since)
            if found is None:
                return None
            self._times = found
        return self._times

    def _block_at(self, edge: int, since: int) -> tuple[int, Ints] | None:
        """The first block, from that of `since` on, that ends at this time or later: its first row,
        and its times. None: there is none here."""
        block = int(self.first_times.view().searchsorted(edge)) - 1 + self.first_times.first
        first = max(block, since // self.block_rows) * self.block_rows
        while first < self.end:
            self.pass_by(first)
            part = self.part(max(first, since), first + self.block_rows)
            times = part.columns[_TIMES][max(first - part.first, 0) :][: self.block_rows]
            if times[-1] >= edge:
                return max(first, part.first), times
            first += self.block_rows
        return None

    def values(self, column: Column, rows: Ints) -> Column:
        """The values that a column has in these rows, which ascend and may be in the tail.

        Cost: a read for each of their blocks that is not in memory, but for rows that were asked
        for the last time too.
        """
        found = Found(rows, np.empty(len(rows), np.int64), np.ones(len(rows), np.bool_))
        missing = found.copy(self._found.get(column.name))
        stored = missing[: int(rows[missing].searchsorted(self.end))]
        self._find_stored(self.names.taken[column.name], found, stored)
        kept = self.tail.columns()[column.name]
        assert kept.values is not None
        newer = missing[len(stored) :]
        found.values[newer] = kept.values.view(np.int64)[rows[newer] - self.tail.first]
        if kept.valid is not None:
            found.valid[newer] = kept.valid[rows[newer] - self.tail.first]
        if len(rows) <= _KNOWN_BLOCKS * self.block_rows:  # lists may be of whole windows
            self._found[column.name] = found
        else:
            self._found.pop(column.name, None)
        mask = None if found.valid.all() else found.valid
        return column._replace(values=found.values.view(kept.values.dtype), valid=mask)

    def _find_stored(self, name: str, found: Found, places: Ints) -> None:
        """Fill in the values of these rows, which are here."""
        blocks = found.rows[places] // self.block_rows
        for block in np.unique(blocks).tolist():
            mine = places[blocks == block]
            rows = found.rows[mine]
            for some in self.repository.rows(int(rows[0]), int(rows[-1]) + 1):
                found.values[mine] = some.columns[name][rows - some.first]
                if name in some.valid:
                    found.valid[mine] = some.valid[name][rows - some.first]

    # ----------------------------------------------------------------------------- recovery

    def to_parts(self) -> tuple[list[bytes], dict[bytes, bytes | None]]:
        """All but the tail and the blocks that are stored; and the batch that goes with it."""
        parts, batch = self.repository.pending()
        block = str(self.repository.layout.block).encode()
        return [block, *parts, *self._beside()], batch

    def _beside(self) -> list[bytes]:
        told = [self.first_times, *self.counted.values()]
        return [vector.view().tobytes() for vector in told]

    def wrote(self) -> None:
        """The batch is on the store."""
        self.repository.wrote()

    def fill(self, parts: Iterator[bytes]) -> None:
        """Take what `to_parts` gave, but for what the repository was opened by.

        Raises
        ------
        ValueError
            They are damaged.
        """
        block = self.first // self.block_rows
        if self.tail.first != self.end:
            raise ValueError("the rows in memory do not follow those on the store")
        for vector in (self.first_times, *self.counted.values()):
            vector.first = block
            vector.extend(np.frombuffer(next(parts), np.int64))


def _counted(mask: Mask | None, first: int, since: int, rows: Ints) -> Ints:
    """How many rows from `since` to before each of these count; mask[0] is that of row `first`."""
    if mask is None or not len(rows):
        return rows - since
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(mask)])
    counts: Ints = before[rows - first] - before[since - first]
    return counts
