"""ColdKeys: which keys of a pool are in memory, and which are records on a store. ADR 17.

A pool (`mta.pool`) whose rows may go to a store has only the keys that have had rows lately, its
*hot* keys, by numbers of its own. The others are cold: of each there is an entry in an index here,
and its rows are in a record (`mta.cold_records`), with those of other keys that got cold with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from mta._cold import entries_of
from mta._pool import offsets_of, ranges
from mta._vector import Vector
from mta.cold_records import SERIAL, SIZE, RecordLayout, record_edges
from mta.engine import Ints
from mta.errors import StoreError
from mta.ledger import Ledger
from mta.plan import Feed
from mta.pool import Pool
from mta.pool_room import PoolRoom
from mta.push import EVER, NEVER, NO_ROWS

# Of a key, in its head, behind `SERIAL` and `SIZE`; then the marks of its kernels.
_TOLD = ("received", "lo", "hi", "newest", "marked")
_REQUEST = 1 << 20  # bytes of records that are read or written at once, about
# Where of the keys of a record no more than one in so many is still in it, all of them come back
# with the next that does: so records take no more than so many times their keys.
_SPARSE = 4
# Of what hot keys may hold one byte in so many is made free at a time: keys are looked through that
# seldom. (The room for what comes in their place stays: to give it back and take it again leaves
# holes between what else is held.)
_FREED = 2
# Where a key is: in the pool, by its number there; nowhere, as it has no rows there; in a record,
# the first place of which is _FIRST and the next ones below, so many in a record (of 4 KB, which
# has no room for more).
_NOWHERE, _FIRST, _ENTRIES = -1, -2, 1 << 10


class ColdKeys:
    """Where each key of a stream is that has no track.

    Cost: 24 bytes a key, and 32 a record. A push costs O(1) a key at hand, and a request for those
    that are cold. When keys get cold it is O(n log n) for n hot ones and for n records, once for
    as much as half of what hot keys may hold.
    """

    def __init__(self, pool: Pool, ledger: Ledger, room: PoolRoom) -> None:
        self.pool, self.ledger, self.room = pool, ledger, room
        self.records = room.records
        # Of every key: where it is; of a cold one, the time of its last row, and how many.
        self.place, self.newest, self.kept = Vector(), Vector(), Vector()
        # Of every key of the pool: its number here (-1: it has left), and when it had rows last.
        self.owner, self.seen = Vector(), Vector()
        # Of every record (those without keys are free places): its number on the store; how many
        # of its keys are still in it, and were; its bytes.
        self.number, self.live, self.size, self.nbytes = Vector(), Vector(), Vector(), Vector()
        self.rows = 0  # of cold keys
        self.calls = 1
        self.failure: StoreError | None = None  # of the store, once a call had its answers
        self._again = 0  # what hot keys need too much when they are looked through again
        self._known: RecordLayout | None = None
        room.index, pool.tight = self, True

    # ------------------------------------------------------------------------- all keys

    @property
    def held(self) -> int:
        """Bytes of the index."""
        of_records = len(self.number) * 32
        return 24 * len(self.place) + 16 * len(self.owner) + of_records

    @property
    def keys(self) -> int:
        """How many keys are cold."""
        return int(self.live.view().sum())

    def grow(self, keys: int) -> None:
        """Know so many keys; the new ones are nowhere."""
        more = keys - len(self.place)
        if more > 0:
            self.place.extend(np.full(more, _NOWHERE, np.int64))
            self.newest.extend(np.full(more, NEVER, np.int64))
            self.kept.extend(np.zeros(more, np.int64))

    def shrink(self, keys: int) -> None:
        """Undo `grow`, before which there were so many."""
        owner = self.owner.view()
        if (owner >= keys).any():
            self._stay(np.flatnonzero(owner < keys))
        for vector in (self.place, self.newest, self.kept):
            vector.take_back(len(vector) - keys)

    def keep(self, keys: Ints, numbers: Ints) -> None:
        """Only these keys; `numbers` are the new ones of all (-1: it is gone)."""
        place, owner = self.place.view(), self.owner.view()
        gone = np.flatnonzero((numbers < 0) & (place <= _FIRST))
        self.rows -= int(self.kept.view()[gone].sum())
        self._leave_records((_FIRST - place[gone]) // _ENTRIES)
        stay = owner >= 0
        stay[stay] = numbers[owner[stay]] >= 0
        self.owner.view()[stay] = numbers[owner[stay]]
        for vector in (self.place, self.newest, self.kept):
            vector.keep(keys)
        self._stay(np.flatnonzero(stay))

    def _stay(self, slots: Ints) -> None:
        """Only these keys stay in the pool."""
        self.pool.keep(slots)
        self.owner.keep(slots)
        self.seen.keep(slots)
        self._tell_places()

    def _tell_places(self) -> None:
        owner = self.owner.view()
        slots = np.flatnonzero(owner >= 0)
        self.place.view()[owner[slots]] = slots

    def move_out(self, slot: int) -> int:
        """A key has left the pool for a track: which."""
        key = int(self.owner.view()[slot])
        self.owner.view()[slot] = -1
        self.place.view()[key] = _NOWHERE
        self.newest.view()[key] = NEVER
        return key

    def newest_of_all(self) -> Ints:
        """The time of the last row of every key; of those that are nowhere, NEVER."""
        newest, owner = self.newest.view().copy(), self.owner.view()
        slots = np.flatnonzero(owner >= 0)
        newest[owner[slots]] = self.pool.of("newest", slots)
        return newest

    def waiting(self) -> Ints:
        """The keys with rows without an answer."""
        found: Ints = self.owner.view()[self.pool.waiting]
        return found

    def edges(self, keys: Ints) -> Ints:
        """As those of `Pool.edges`."""
        place, pool = self.place.view()[keys], self.pool
        edges = np.full(len(keys), NEVER)
        hot, cold = place >= 0, place <= _FIRST
        edges[hot] = pool.edges(place[hot])
        if cold.any():
            newest = self.newest.view()[keys[cold]]
            edges[cold] = newest
            if not pool.spec.over_rows and not pool.by_arrival:
                # All its rows have answers, so the last of these is the newest.
                lag = pool.ticks.lag
                joined = np.clip(newest, NEVER + max(lag, 0), EVER - 1 + min(lag, 0)) - lag
                edges[cold] = np.maximum(newest, joined + pool.sides[1])
        return edges

    # ------------------------------------------------------------------------ keys come

    def slots(self, keys: Ints) -> Ints:
        """The numbers in the pool of these keys, which are there from now on.

        Raises
        ------
        StoreError
            A record could not be read.
        """
        found: Ints = self.place.view()[keys]
        # (Who has left the pool for a track is not asked for: with as many as keys, all are there.)
        if len(self.owner) < len(self.place) and (found < 0).any():
            self._thaw(keys[found <= _FIRST])
            new = keys[found == _NOWHERE]
            self.pool.grow(len(self.pool) + len(new))
            self._has_come(new, np.full(len(new), self.calls))
            found = self.place.view()[keys]
        return found

    def _has_come(self, keys: Ints, seen: Ints) -> None:
        """The pool has more keys by now."""
        first = len(self.owner)
        self.owner.extend(keys)
        self.seen.extend(seen)
        self.place.view()[keys] = np.arange(first, first + len(keys))

    def _thaw(self, keys: Ints) -> None:
        """Have these cold keys in the pool."""
        codes = _FIRST - self.place.view()[keys]
        order = codes.argsort()
        keys, codes = keys[order], codes[order]
        records, first, asked = np.unique(
            codes // _ENTRIES, return_index=True, return_counts=True
        )  # fmt: skip
        ends = np.append(first, len(keys))
        whole = _SPARSE * (self.live.view()[records] - asked) <= self.size.view()[records]
        for start, stop in self._requests(records):
            mine = slice(*ends[[start, stop]].tolist())
            self._thaw_some(records[start:stop], keys[mine], codes[mine], whole[start:stop])

    def _requests(self, records: Ints) -> list[tuple[int, int]]:
        """These records in parts that are read at once."""
        edges = [0, *_cuts(self.nbytes.view()[records]).tolist(), len(records)]
        return list(pairwise(edges)) if len(records) else []

    def _thaw_some(self, records: Ints, keys: Ints, codes: Ints, whole: Any) -> None:
        """Take these keys from these records; and of some records all that are there."""
        values = self.records.read_some(self._layout(), self.number.view()[records])
        also, codes_also = self._inside(values, records, np.flatnonzero(whole))
        others = np.isin(also, keys, invert=True)
        also, codes_also = also[others], codes_also[others]
        seen = np.repeat([self.calls, 0], [len(keys), len(also)])
        keys, codes = np.concatenate([keys, also]), np.concatenate([codes, codes_also])
        record, entry = np.divmod(codes, _ENTRIES)
        heads, rows = self._layout().taken(values, records.searchsorted(record), entry)
        if (heads[:, SERIAL] != self.ledger.serials.view()[keys]).any():
            raise self.records.damage(f"the records of {self.records.name} are of other keys")
        sizes, told = heads[:, SIZE].copy(), dict(zip(_TOLD, heads.T[2:].copy(), strict=False))
        told |= {"kept": sizes, "answered": told["received"], "begin": offsets_of(sizes)[:-1]}
        marks = self._split(heads[:, 2 + len(_TOLD) :])
        self.pool.take_in(told, *self._unpacked(rows), marks)
        self._has_come(keys, seen)
        self.rows -= len(rows)
        self._leave_records(record)

    def _inside(self, values: list[bytes], records: Ints, which: Ints) -> tuple[Ints, Ints]:
        """The keys that are in some of these records still, and where each is."""
        record, entry = entries_of(values, which)
        heads, _ = self._layout().taken(values, record, entry)
        found, keys = self.ledger.places(heads[:, SERIAL])
        codes = records[record[found]] * _ENTRIES + entry[found]
        here = self.place.view()[keys] == _FIRST - codes
        return keys[here], codes[here]

    def _split(self, marks: Ints) -> list[Ints]:
        """Those of each kernel, a row a key."""
        ends = np.cumsum([mine.shape[1] for mine in self.pool.all_marks()])
        return np.split(marks, ends[:-1], axis=1) if len(ends) else []

    def _leave_records(self, records: Ints) -> None:
        """So many keys are no more in these records, each of which is told for every one."""
        which, gone = np.unique(records, return_counts=True)
        live = self.live.view()
        live[which] -= gone
        empty = which[live[which] == 0]
        self.records.forget(self.number.view()[empty], int(self.nbytes.view()[empty].sum()))

    # ------------------------------------------------------------------------ keys leave

    def settle(self) -> None:
        """A call has been made: keys that had no rows for longest leave the pool, where it holds
        more than it may.

        What the store fails at is done the next time; `failure` says so.
        """
        self.seen.view()[self.pool.fed] = self.calls
        self.calls += 1
        if self.room.noted:
            self.room.noted = False
            self._freeze()

    def _freeze(self) -> None:
        excess = self.room.excess
        if excess <= 0:
            self._again = 0
        if excess <= self._again or not self.can_freeze:
            return
        self.failure = None
        freed = self.room.for_hot() // _FREED
        frozen = []
        try:
            self._collect(freed)
            for slots in self._coldest(self.pool.least - freed):
                self._write(slots)
                frozen.append(slots)
        except StoreError as error:
            self.failure = error
        self._leave_pool(frozen)
        self._again = max(self.room.excess + freed, 0)

    def raise_failure(self) -> None:
        """What the store failed at is tried again, and then told."""
        failure = self.failure
        if failure is not None:
            self._again, self.failure = 0, None
            self._freeze()
            raise failure

    @property
    def can_freeze(self) -> bool:
        """Whether keys can have records: those are of 8-byte items and marks that are known."""
        return self.pool.marks is not None and self.pool.rows.has_cells

    def _collect(self, most: int) -> None:
        """Have the keys of some records in the pool of which most keys are gone, where there are
        many: not much more than so many bytes."""
        live, size = self.live.view(), self.size.view()
        used = np.flatnonzero(live)
        if int(size[used].sum()) <= _SPARSE * int(live[used].sum()):
            return
        sparse = used[np.argsort(live[used] / size[used], kind="stable")]
        held = np.cumsum(self.nbytes.view()[sparse] * live[sparse] // size[sparse])
        sparse = sparse[: int(held.searchsorted(most)) + 1]
        sparse = np.sort(sparse)
        for start, stop in self._requests(sparse):
            every = np.ones(stop - start, np.bool_)
            self._thaw_some(sparse[start:stop], NO_ROWS, NO_ROWS, every)

    def _coldest(self, excess: int) -> list[Ints]:
        """Keys of the pool that hold so much, those without rows for longest, in parts that are
        written at once."""
        pool = self.pool
        ready = (pool.of("received") == pool.of("answered")) & (pool.of("received") > 0)
        slots = np.flatnonzero(ready & (self.owner.view() >= 0))
        slots = slots[np.argsort(self.seen.view()[slots], kind="stable")]
        sizes = pool.key_bytes + pool.of("kept", slots) * pool.row_bytes
        last = int(np.cumsum(sizes).searchsorted(excess)) + 1
        return np.split(slots[:last], _cuts(sizes[:last])) if len(slots) else []

    def _write(self, slots: Ints) -> None:
        """Have records of these keys of the pool, which are not in the pool from then on."""
        pool, keys = self.pool, self.owner.view()[slots]
        kept = pool.of("kept", slots)
        told = [pool.of(name, slots) for name in _TOLD]
        serials = self.ledger.serials.view()[keys]
        marks = [mine[slots] for mine in pool.all_marks()]
        heads = np.column_stack([serials, kept, *told, *marks])
        rows = self._packed(ranges(pool.of("begin", slots), kept))
        layout = self._layout()
        edges = record_edges(8 * layout.head + kept * layout.row.itemsize)
        numbers, nbytes = self.records.write(layout, heads, kept, rows, edges)
        counts = np.diff(edges)
        records = self._places_for(len(numbers))
        for vector, items in (
            (self.number, numbers), (self.live, counts), (self.size, counts), (self.nbytes, nbytes)
        ):  # fmt: skip
            vector.view()[records] = items
        entries = np.arange(len(keys)) - edges[:-1].repeat(counts)
        self.place.view()[keys] = _FIRST - (records.repeat(counts) * _ENTRIES + entries)
        self.newest.view()[keys] = pool.of("newest", slots)
        self.kept.view()[keys] = kept
        self.rows += len(rows)

    def _places_for(self, records: int) -> Ints:
        """Places for so many records."""
        free = np.flatnonzero(self.live.view() == 0)[:records]
        more = records - len(free)
        made = np.arange(len(self.live), len(self.live) + more)
        for vector in (self.number, self.live, self.size, self.nbytes):
            vector.extend(np.zeros(more, np.int64))
        return np.concatenate([free, made])

    def _leave_pool(self, frozen: list[Ints]) -> None:
        """These keys have records; so have the pool without them, and without any that left."""
        stays = self.owner.view() >= 0
        for slots in frozen:
            stays[slots] = False
        if not stays.all():
            self._stay(np.flatnonzero(stays))
        if self.room.over > 0:
            self.pool.thin_out()
        self.room.note()
        self.room.noted = False

    # ------------------------------------------------------------------------ in records

    def _layout(self) -> RecordLayout:
        if self._known is not None:
            return self._known
        pool = self.pool
        head = 2 + len(_TOLD) + sum([mine.shape[1] for mine in pool.all_marks()])
        rows, timed = pool.rows, pool.spec.on is not None
        cells = len(rows.feeds) + len(rows.values) + timed
        masks = len(rows.valids) + len(rows.values)
        self._known = RecordLayout(pool.spec.identity(), head, cells, masks)
        return self._known

    def _packed(self, places: Ints) -> Any:
        cells, masks = self.pool.rows.cells(places)
        timed = self.pool.spec.on is not None
        times = [self.pool.times.view()[places]] if timed else []
        return self._layout().pack([*times, *cells], masks, len(places))

    def _unpacked(self, rows: Any) -> tuple[Any, Ints]:
        """A chunk, and the times."""
        cells, masks = self._layout().unpack(rows)
        timed = int(self.pool.spec.on is not None)
        times = cells[0] if timed else np.zeros(0, np.int64)
        return self.pool.rows.chunk_of(cells[timed:], masks, len(rows)), times

    # As rows that have codes (`mta.rows.Coded`).

    first = 0

    @property
    def end(self) -> int:
        """How many rows are cold."""
        return self.rows

    def feed(self, feed: Feed) -> Any:
        """All codes that there are, in no order."""
        records, codes = np.flatnonzero(self.live.view()), [NO_ROWS]
        if not len(records):
            return NO_ROWS  # (and it may not be known yet what a record has)
        layout = self._layout()
        at = list(self.pool.rows.feeds).index(feed) + (self.pool.spec.on is not None)
        for start, stop in self._requests(records):
            some = records[start:stop]
            values = self.records.read_some(layout, self.number.view()[some])
            _, places = self._inside(values, some, np.arange(len(some)))
            record, entry = np.divmod(places, _ENTRIES)
            rows = layout.taken(values, some.searchsorted(record), entry)[1]
            codes.append(np.unique(rows["cells"][:, at]))
        return np.concatenate(codes)

    # ------------------------------------------------------------------------ snapshots

    def vectors(self) -> list[Vector]:
        """What is to be told, beside `head`."""
        of_keys, of_records = (self.newest, self.kept), (self.number, self.live, self.size)
        return [self.owner, self.seen, self.place, *of_keys, *of_records, self.nbytes]

    def head(self) -> dict[str, int]:
        """And in JSON."""
        return {
            "keys": len(self.owner), "records": len(self.live), "next": self.records.next,
            "calls": self.calls,
        }  # fmt: skip

    @staticmethod
    def sizes(head: dict[str, int], keys: int) -> list[int]:
        """How long these are where there are so many keys."""
        return [head["keys"]] * 2 + [keys] * 3 + [head["records"]] * 4

    def adopt(self, head: dict[str, int], keys: int) -> None:
        """Go on, when the vectors have been filled.

        Raises
        ------
        ValueError
            They do not fit together.
        """
        self.records.next, self.calls = head["next"], head["calls"]
        place, owner = self.place.view(), self.owner.view()
        cold, hot = place <= _FIRST, np.flatnonzero(owner >= 0)
        self.rows = int(self.kept.view()[cold].sum())
        records = (_FIRST - place[cold]) // _ENTRIES
        live = np.bincount(records, minlength=len(self.live))
        fits = len(live) == len(self.live) and bool((live == self.live.view()).all())
        fits = fits and bool((owner < keys).all()) and int((place >= 0).sum()) == len(hot)
        if not fits or (place[owner[hot]] != hot).any():
            raise ValueError("keys are not where they should be")

    def adopt_all(self, keys: int, tracked: Iterable[int]) -> None:
        """Go on where there were no cold keys: all are in the pool, but for those with a track."""
        self.grow(keys)
        self._has_come(np.arange(keys), np.zeros(keys, np.int64))
        for key in tracked:
            self.move_out(key)


def _cuts(sizes: Ints) -> Ints:
    """Where to cut items of so many bytes into requests."""
    return np.flatnonzero(np.diff(np.cumsum(sizes) // _REQUEST)) + 1
