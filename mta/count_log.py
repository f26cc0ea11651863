"""CountLog: how often every key occurs, in bounded memory: sorted runs of changes on a store.

A log-structured merge tree (O'Neil et al., The log-structured merge-tree, Acta Informatica, 1996),
for counts: a run says by how much the counts of some keys have changed. The changes of all runs
together are the counts, so runs may be merged in any order, and what comes and goes cancels out.

As bytes, a block of a run says which one it is, and is checked when it is read::

    magic "MTAC" | CRC-32 of what follows | run | block | entries | bytes of a count | keys | counts
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mta._crc import crc32
from mta.engine import Ints
from mta.errors import DamageError
from mta.item_log import ItemLog
from mta.stores import Store

_MAGIC = b"MTAC"
_HEAD = struct.Struct("<4sIqIIB7x")
_FAN = 4  # runs of about one size, which become one
_WORK = 4  # entries that merges go through for every one that comes
_KEY = 8  # bytes; and one of a count, most often
_ENTRY = 3 * _KEY  # in memory: key, count, and their order
_MOST_ENTRIES = 4096  # of a block
_LEAST_ENTRIES = 4
LEAST_MEMORY = 8192
_WASTED = 16  # blocks that a newer header would free, beyond as many as are in use
_AT_ONCE = 3  # merges
_BLOCKS = 8  # as many as fit in memory: those that merges have at hand


class Tallies(NamedTuple):
    """Keys, ascending and each once, and how many there are of each, or how many more or less."""

    keys: Ints
    counts: Ints

    def between(self, low: int, high: int) -> Tallies:
        """Those of keys from `low` to `high`, both among them."""
        start, stop = self.keys.searchsorted(low), self.keys.searchsorted(high, "right")
        return Tallies(self.keys[start:stop], self.counts[start:stop])


NONE = Tallies(np.zeros(0, np.int64), np.zeros(0, np.int64))


def combined(parts: Sequence[Tallies]) -> Tallies:
    """The sum of some tallies, without keys of which there are none."""
    some = [part for part in parts if len(part.keys)]
    if len(some) < 2:
        return some[0] if some else NONE
    return _summed([part.keys for part in some], [part.counts for part in some])


def tallied(entered: Ints, left: Ints) -> Tallies:
    """What keys that have come and keys that have left make together."""
    ones, minus = np.ones(len(entered), np.int64), np.full(len(left), -1)
    return _summed([np.sort(entered), np.sort(left)], [ones, minus])


def _summed(keys: list[Ints], counts: list[Ints]) -> Tallies:
    """Those of equal keys are added up; in each part keys ascend."""
    joined = np.concatenate(keys)
    if not len(joined):
        return NONE
    order = joined.argsort(kind="stable")
    joined = joined[order]
    first = np.flatnonzero(np.concatenate([[True], joined[1:] != joined[:-1]]))
    sums = np.add.reduceat(np.concatenate(counts)[order], first)
    there = sums != 0
    return Tallies(joined[first[there]], sums[there])


@dataclass(frozen=True, eq=False)
class Run:
    """Tallies on the store.

    firsts : the first key of every block
    size : entries
    """

    number: int
    firsts: Ints
    size: int


class CountLog:
    """How often every key occurs: the sum of what was given to `extend`.

    Cost: an entry is written once, and merged O(log entries) times, a few at a time, so that no
    call takes long; `read` has to read a block of every run at least. Of runs there are
    O(log entries).
    Memory: the first key of every block; blocks that are being merged; no more than `memory`.

    store, name : where runs are: under keys that begin with the name
    memory : bytes, for blocks at hand
    note_due : is called when the store has much that is not needed
    """

    def __init__(
        self, store: Store, name: str, memory: int, note_due: Callable[[], None] | None = None
    ) -> None:
        self.store, self.name, self._note_due = store, name, note_due
        most = memory // (_BLOCKS * _ENTRY)
        self.block = max(_LEAST_ENTRIES, min(_MOST_ENTRIES, most))
        self.runs: tuple[Run, ...] = ()
        self.written = self.read_blocks = 0
        self._next = 0
        self._there: dict[int, int] = {}  # of runs that the store may have, how many blocks
        self._merges: list[Merge] = []
        self._told: set[int] = set()  # runs that the header names which is to be written

    # ---------------------------------------------------------------------------- changes

    def extend(self, keys: Ints, counts: Ints) -> None:
        """Take a run of changes, of keys that ascend, each once; and get on with merging.

        Raises
        ------
        StoreError
            Nothing has changed.
        """
        if not len(keys):
            return
        before = self.runs
        writer = self.writer()
        try:
            writer.take(Tallies(keys, counts))
            self.runs = (*self.runs, writer.finish())
            self._merge(_WORK * len(keys))
        except BaseException:
            self.restore(before)
            raise
        unused = sum(self._there[number] for number in self._unused(set()))
        if self._note_due is not None and unused > _WASTED + self.stored:
            self._note_due()

    def _merge(self, work: int) -> None:
        """Go through so many entries in every merge that is going on, after beginning new ones."""
        busy = {run for merge in self._merges for run in merge.runs}
        due = self._due([run for run in self.runs if run not in busy])
        for some in due[: _AT_ONCE - len(self._merges)]:
            self._merges.append(Merge(self, some))
        for merge in tuple(self._merges):
            try:
                made = merge.go_on(work)
            except BaseException:
                self._merges.remove(merge)  # it begins anew some other time
                raise
            if made is not None:
                self._merges.remove(merge)
                rest = tuple(run for run in self.runs if run not in merge.runs)
                self.runs = (*rest, made) if made.size else rest

    def _due(self, runs: list[Run]) -> list[list[Run]]:
        """Which of these are to become one: some of about one size; of the largest, two already."""
        levels: dict[int, list[Run]] = {}
        for run in runs:
            levels.setdefault(max(run.size // self.block, 1).bit_length() // 2, []).append(run)
        enough = dict.fromkeys(levels, _FAN)
        if levels and not self._merges:
            enough[max(levels)] = 2
        return [levels[level] for level in sorted(levels) if len(levels[level]) >= enough[level]]

    def writer(self) -> RunWriter:
        """Of a run that nothing names yet."""
        self._next += 1
        return RunWriter(self, self._next)

    def write_block(self, run: int, block: int, tallies: Tallies) -> None:
        """Write one block of a run."""
        self._there[run] = block + 1
        self.store.put(self._key(run, block), _to_bytes(run, block, tallies))
        self.written += 1

    def summed(self, settled: tuple[Ints, Ints], entered: Ints, left: Ints) -> Tallies:
        """Tallies, and keys that came and that left since, together."""
        return combined([Tallies(*settled), tallied(entered, left)])

    # ------------------------------------------------------------------------------ counts

    def contents(
        self, low: int, high: int, settled: tuple[Ints, Ints], entered: Ints, left: Ints
    ) -> Tallies:
        """All keys from `low` to `high`: of the runs, and of what has not been given to them yet.

        Raises
        ------
        StoreError
            A block could not be read.
        """
        newest = Tallies(*settled).between(low, high)
        return combined([*self.read(low, high), newest, tallied(entered, left)])

    def read(self, low: int, high: int) -> list[Tallies]:
        """What all runs say of the keys from `low` to `high`, both among them.

        Raises
        ------
        StoreError
            A block could not be read.
        """
        found = []
        for run in self.runs:
            start = max(int(run.firsts.searchsorted(low, "right")) - 1, 0)
            stop = int(run.firsts.searchsorted(high, "right"))
            blocks = range(start, stop)
            found += [part.between(low, high) for part in self.blocks(run, blocks)]
        return found

    def find(self, keys: Ints) -> Ints:
        """How often each of these keys occurs, which ascend.

        Cost: of every run the blocks in which they may be are read.

        Raises
        ------
        StoreError
            A block could not be read.
        """
        counts = np.zeros(len(keys), np.int64)
        for run in self.runs:
            at = run.firsts.searchsorted(keys, "right") - 1
            wanted = np.unique(at[at >= 0])
            for block, part in zip(wanted, self.blocks(run, wanted.tolist()), strict=True):
                start, stop = at.searchsorted([block, block + 1])
                place = part.keys.searchsorted(keys[start:stop])
                place[place == len(part.keys)] = 0
                there = part.keys[place] == keys[start:stop]
                counts[start:stop] += np.where(there, part.counts[place], 0)
        return counts

    def blocks(self, run: Run, numbers: Sequence[int] | range) -> Iterator[Tallies]:
        """Some blocks of a run, one after the other."""
        for number in numbers:
            key = self._key(run.number, number)
            data, what = self.store.get(key), f"{self.store!r}: {key!r}"
            self.read_blocks += 1
            if data is None:
                raise DamageError(f"{what}: the block is missing")
            yield _from_bytes(run.number, number, data, what)

    @property
    def stored(self) -> int:
        """Blocks in use."""
        return sum(len(run.firsts) for run in self.runs)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, but for blocks that are being merged."""
        return sum(run.firsts.nbytes for run in self.runs)

    # ------------------------------------------------------------- going back, letting go

    def save(self) -> tuple[Run, ...]:
        """What there is: for `restore`, as long as nothing has been let go of since."""
        return self.runs

    def restore(self, runs: tuple[Run, ...]) -> None:
        """There is again what was when `save` gave this."""
        self.runs = runs
        self._merges = [merge for merge in self._merges if set(merge.runs) <= set(runs)]

    def clear(self) -> None:
        """There are no keys any more."""
        self.restore(())

    def forget(self) -> None:
        """Have the store forget what is not needed, where no header names it.

        Raises
        ------
        StoreError
            It is still there.
        """
        gone = self._unused(set())
        self.store.delete_many(self._keys(gone))
        self._drop(gone)

    def all_keys(self) -> list[bytes]:
        """The keys of all blocks that the store may have."""
        return self._keys(list(self._there))

    def _unused(self, also: set[int]) -> list[int]:
        used = {run.number for run in self.runs} | also
        used |= {merge.number for merge in self._merges}
        return [number for number in self._there if number not in used]

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            del self._there[number]

    # ---------------------------------------------------------------------------- recovery

    def to_parts(self) -> list[bytes]:
        """What a header has to hold, as two: for `fill`."""
        self._told = {run.number for run in self.runs}
        runs = [[run.number, run.size, len(run.firsts)] for run in self.runs]
        told = json.dumps({"block": self.block, "next": self._next, "runs": runs})
        return [told.encode(), b"".join(run.firsts.tobytes() for run in self.runs)]

    def pending(self) -> dict[bytes, bytes | None]:
        """The batch that goes with the header: off with what it does not name; then say `wrote`."""
        return dict.fromkeys(self._keys(self._unused(self._told)))

    def wrote(self) -> None:
        """The header is on the store."""
        self._drop(self._unused(self._told))

    def fill(self, told: bytes, firsts: bytes) -> None:
        """Take what `to_parts` gave, and forget what was written after it.

        Raises
        ------
        ValueError
            It is damaged.
        """
        known: dict[str, Any] = json.loads(told)
        self.block, self._next = int(known["block"]), int(known["next"])
        all_firsts, at, runs = np.frombuffer(firsts, np.int64), 0, []
        for number, size, blocks in known["runs"]:
            runs.append(Run(number, all_firsts[at : at + blocks], size))
            self._there[number] = blocks
            at += blocks
        if at != len(all_firsts) or self.block < 1:
            raise ValueError("runs and their blocks do not fit")
        self.runs = tuple(runs)
        named = set(self.all_keys())
        found = self.store.keys(f"{self.name}/".encode())
        self.store.delete_many([key for key in found if key not in named])

    def _keys(self, numbers: list[int]) -> list[bytes]:
        return [self._key(n, block) for n in numbers for block in range(self._there[n])]

    def _key(self, run: int, block: int) -> bytes:
        return f"{self.name}/{run:x}.{block:08x}".encode()


@dataclass
class Logs:
    """The logs of one key, by the number of what keeps one.

    memory : bytes, of each, 8 KiB at least; half of them is for the log, if it can use so much
    leave : is told when they are needed no more
    """

    store: Store
    name: str
    memory: int
    note_due: Callable[[], None]
    leave: Callable[[Logs], None]
    live: dict[int, CountLog] = field(default_factory=dict)
    items: dict[int, ItemLog] = field(default_factory=dict)

    def __iter__(self) -> Iterator[CountLog | ItemLog]:
        yield from self.live.values()
        yield from self.items.values()

    def items_of(self, number: int) -> ItemLog:
        """One for items."""
        log = self.items.get(number)
        if log is None:
            memory = max(self.memory, LEAST_MEMORY)
            name = f"{self.name}.items{number}"
            log = self.items[number] = ItemLog(self.store, name, memory, self.note_due)
        return log

    def open(self, number: int) -> tuple[CountLog, int]:
        """One, with no keys, and how much memory there is beside it."""
        memory = max(self.memory, LEAST_MEMORY)
        own = min(memory // 2, _MOST_ENTRIES * _BLOCKS * _ENTRY)
        log = self.live.get(number)
        if log is None:
            name = f"{self.name}.{number}"
            log = CountLog(self.store, name, own, self.note_due)
            self.live[number] = log
        log.clear()
        return log, memory - own


class RunWriter:
    """Writes a run, block by block."""

    def __init__(self, log: CountLog, number: int) -> None:
        self.log, self.number = log, number
        self._firsts: list[int] = []
        self._size = 0
        self._rest = NONE  # not enough for a block

    def take(self, tallies: Tallies) -> None:
        """The next ones."""
        keys = np.concatenate([self._rest.keys, tallies.keys])
        counts = np.concatenate([self._rest.counts, tallies.counts])
        whole = len(keys) - len(keys) % self.log.block
        for start in range(0, whole, self.log.block):
            stop = start + self.log.block
            self._write(Tallies(keys[start:stop], counts[start:stop]))
        self._rest = Tallies(keys[whole:], counts[whole:])

    def finish(self) -> Run:
        """The run; there will be no more."""
        if len(self._rest.keys):
            self._write(self._rest)
        return Run(self.number, np.array(self._firsts, np.int64), self._size)

    def _write(self, block: Tallies) -> None:
        self.log.write_block(self.number, len(self._firsts), block)
        self._firsts.append(int(block.keys[0]))
        self._size += len(block.keys)


class Merge:
    """Makes one run of some, a part at a time. They are there until it is done."""

    def __init__(self, log: CountLog, runs: list[Run]) -> None:
        self.runs = tuple(runs)
        self._writer = log.writer()
        self.number = self._writer.number
        self._readers = [log.blocks(run, range(len(run.firsts))) for run in runs]
        self._heads: list[Tallies | None] = [next(reader) for reader in self._readers]

    def go_on(self, work: int) -> Run | None:
        """Go through so many entries; what has been made, if that was all."""
        while work > 0:
            present = [head for head in self._heads if head is not None]
            if not present:
                return self._writer.finish()
            last = min(int(head.keys[-1]) for head in present)
            some = [self._take(k, last) for k in range(len(self._heads))]
            work -= sum(len(part.keys) for part in some)
            self._writer.take(combined(some))
        return None

    def _take(self, k: int, last: int) -> Tallies:
        """What is at hand of a run up to this key; if that is all, its next block is at hand."""
        head = self._heads[k]
        if head is None:
            return NONE
        to = int(head.keys.searchsorted(last, "right"))
        rest = Tallies(head.keys[to:], head.counts[to:])
        self._heads[k] = rest if len(rest.keys) else next(self._readers[k], None)
        return Tallies(head.keys[:to], head.counts[:to])


def _to_bytes(run: int, block: int, tallies: Tallies) -> bytes:
    counts = tallies.counts
    most = max(int(counts.max()), -int(counts.min()) - 1)
    width = next(w for w in (1, 2, 4, 8) if most < 1 << (8 * w - 1))
    told = counts.astype(f"<i{width}").tobytes()
    head = _HEAD.pack(_MAGIC, 0, run, block, len(counts), width)
    body = b"".join([head[8:], tallies.keys.tobytes(), told])
    return struct.pack("<4sI", _MAGIC, crc32(body)) + body


def _from_bytes(run: int, block: int, data: bytes, what: str) -> Tallies:
    if len(data) < _HEAD.size or data[:4] != _MAGIC:
        raise DamageError(f"{what}: this is no block of counts")
    _, crc, of_run, number, entries, width = _HEAD.unpack_from(data)
    if crc32(memoryview(data)[8:]) != crc:
        raise DamageError(f"{what}: the block is damaged (the checksum does not fit)")
    if (of_run, number) != (run, block) or len(data) != _HEAD.size + entries * (_KEY + width):
        raise DamageError(f"{what}: the block is of another run ({of_run}, {number})")
    keys = np.frombuffer(data, "<i8", entries, _HEAD.size)
    counts = np.frombuffer(data, f"<i{width}", entries, _HEAD.size + _KEY * entries)
    return Tallies(keys, counts.astype(np.int64))
