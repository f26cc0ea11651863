"""StoredBucketStream: windows by number larger than memory, over rows that are pushed.

Its calls are done in steps. One that a store cuts short stays where it is, and what is left of the
call is done before anything else; so no row is counted twice, and no answer is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from mta.arguments import plain_number
from mta.bucket_stream import BucketStream
from mta.costs import requests_a_second
from mta.engine import Ints
from mta.errors import DataError, SnapshotError, SpecError, StoreError
from mta.frames import Answer, Frame, batches_of, open_frame
from mta.one_batch import OneBatch
from mta.open_plans import ENOUGH
from mta.open_rows import OpenRows
from mta.open_stored import StoredPanes
from mta.open_windows import OpenWindows, revises
from mta.periodic import Periodic
from mta.plan import make_plan
from mta.push import EVER
from mta.sizes import parse_bytes
from mta.snapshot import refusing_damage, seal, unseal
from mta.spec_arguments import check_stream_name, check_whole
from mta.stored_place import Place, blocks_needed
from mta.stored_plans import first_stored_choice, follow_stored, stored_choice
from mta.stores import FileStore, Store, open_store

_BLOCK = 1 << 16
_BEHIND = 4  # blocks that wait to be written
_KIND = "stored buckets"
Answers = list[list[Answer]]


class StoredStats(NamedTuple):
    """What windows on a store have read and written since they were opened, and hold now.

    expected, expected_bytes : blocks and bytes by formulas 3.1 and 3.2, of the records so far: each
        block of them is written once and read once. What is in memory is neither, so a stream that
        has not lost its rows yet is below it; extremes, what is folded (var and the like) or
        sorted, a flush, and rows that come behind are beyond it.
    """

    plan: str
    written: int
    read: int
    expected: float
    bytes_written: int
    bytes_read: int
    expected_bytes: float
    hits: int  # blocks that were in memory when a window came to them
    misses: int
    records: int  # partials or rows, that were put on the store
    records_per_block: int
    pooled: int  # blocks in memory now
    stored: int  # blocks in use on the store now
    memory: int  # bytes in memory: blocks, totals, keys, rows that wait for the watermark


class StoredBucketStream(BucketStream):
    """Pushes rows through a periodic spec whose windows are larger than memory; see
    ``Periodic.stream``, which makes it.

    A StoreError of `push`, `advance`, `idle` or `finish` says that the store failed on the way.
    The rows are in where `received` has grown; what is left to be done is done by `retry`, which
    gives the answers, or before the next call, with whose answers they come.

    An OverflowError, or what a function of the user raises, leaves the stream of no use but for
    `close`: open it again, to go on from the last flush.
    """

    def __init__(self, spec: Periodic, plan: str, place: Place, own: list[Any]) -> None:
        super().__init__(spec)
        self.wanted_plan, self.place = plan, place
        self.choice = first_stored_choice(spec, self.plan, plan)
        place.check(self.plan, revises(spec))
        self.may_choose = self.choice.plan == "rows"
        self.own = own  # what is to be closed with it, in this order
        self.todo: list[Callable[[], Answers]] = []
        self.answers: Answers = []  # that wait for the rest of their call

    # ----------------------------------------------------------------------- the calls

    def retry(self) -> Any:
        """Do what is left of a call that a StoreError has cut short; its answers. None before a
        push.

        Raises
        ------
        StoreError
            As before.
        """
        return None if self.frame is None or self.open is None else self._results()

    def flush(self) -> None:
        """Return when everything is durable: one that is opened by this name goes on from here.

        `received` says how many rows are in; those after them have to be pushed again then. Answers
        that come again are the same. Cost: the blocks that are only in memory, totals, keys and
        panes that are not complete.

        Raises
        ------
        StoreError
            It is not; what was flushed before still is.
        DataError
            A call was cut short; `retry` goes on with it.
        """
        self._save()
        self.place.store.flush()

    def close(self) -> None:
        """Flush, and close a store that was not given as one; a temporary one is removed.

        Raises
        ------
        StoreError, DataError
            As `flush`; it is open still.
        """
        if self.broken is None and not any(isinstance(x, TemporaryDirectory) for x in self.own):
            self.flush()
        self._let_go_of_store()

    def _let_go_of_store(self) -> None:
        own, self.own = self.own, []
        for each in own:
            each.cleanup() if isinstance(each, TemporaryDirectory) else each.close()
        self.broken = DataError("it is closed")

    def __enter__(self) -> StoredBucketStream:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """After an error nothing is flushed: what was flushed before is what is kept."""
        if kind is None:
            self.close()
        else:
            self._let_go_of_store()

    def advance(self, to: Any, source: Hashable = None, *, key: Any = None) -> Any:
        """Say that no row before this time will come (from a source); as in memory, but not of one
        group."""
        if key is not None:
            raise SpecError("memory: windows on a store go on for all groups together, not by key")
        return super().advance(to, source)

    def merge(self, batch: Any, source: Hashable = None) -> Any:
        """Partial aggregates of a low-level stage are for windows in memory."""
        raise SpecError("memory: windows on a store take rows, no partial aggregates")

    def peek(self) -> Any:
        """Open windows are answered in memory only."""
        raise SpecError("memory: windows on a store can't be answered before they are complete")

    def to_bytes(self) -> bytes:
        """Refused: what such a stream holds is on its store. See `flush`.

        Raises
        ------
        SnapshotError
            Always.
        """
        raise SnapshotError(
            f"to_bytes: the windows are on {self.place.store.store!r}; flush() the stream, and "
            f"open it again by its name, {self.place.name!r}"
        )

    def stats(self) -> StoredStats:
        """Counts of reads and writes beside what the paper's formulas say, and what it holds."""
        held, store = self.open, self.place.store
        if not isinstance(held, StoredPanes):
            memory = 0 if held is None else held.state()["bytes"]
            io = (0, 0, 0.0, store.bytes_written, store.bytes_read, 0.0)
            return StoredStats(self.choice.plan, *io, 0, 0, 0, 0, 0, 0, memory)
        shelf, layout = held.shelf.stats(), held.shelf.layout
        written, read = held.answers.requests
        for stack in held.stacks:
            again = stack.stats()
            written, read = written + again[0], read + again[1]
        expected = requests_a_second(held.out.taken, layout.block, layout.block / layout.rows)
        return StoredStats(
            self.choice.plan, shelf.written + written, shelf.read + read, expected,
            store.bytes_written, store.bytes_read, expected * layout.block, shelf.hits,
            shelf.misses, held.out.taken, layout.rows, shelf.pooled, shelf.stored,
            held.in_memory() + store.waiting,
        )  # fmt: skip

    # --------------------------------------------------------------------------- in steps

    def _attempt(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Do what is left of the call before, find out what this one is to do, and do that."""
        self._work()
        self._save_in_passing()
        super()._attempt(call, *arguments)
        return self._results()

    def _read(self, frame: Frame) -> Ints:
        ts = super()._read(frame)
        held = self.open
        if not self.may_choose and isinstance(held, OpenRows) and not len(held.kept.ts):
            self.open = follow_stored(self.choice, held, self.place, frame) or held
        return ts

    def _push(self, data: Any) -> None:
        self.todo = [*self.todo, *self._steps(open_frame(data)), self._better_plan, self._tidy]

    def _answer(self, final: bool = False) -> None:
        if self.progress is None or self.open is None:  # only an empty frame has come
            raise DataError("push rows first, which say what a time is")
        now = EVER if final else self.progress.now
        steps = [] if now is None else [lambda: self._close(now)]
        self.todo = [*self.todo, *steps, self._tidy]

    def _work(self) -> None:
        """Do what is to be done."""
        self._refuse_broken()
        while self.todo:
            try:
                self.answers = [*self.answers, *self.todo[0]()]
            except StoreError:
                raise
            except BaseException as error:
                self.broken = error
                raise
            self.todo = self.todo[1:]

    def _results(self) -> Any:
        self._work()
        answered = self._assemble(self.answers)
        self.answers = []
        return answered

    def _is_whole(self) -> bool:
        return True  # of what fails before its steps are done, nothing has happened

    def _refuse_broken(self) -> None:
        if self.broken is not None:
            raise DataError(f"the stream can't go on ({self.broken!r}); open it again")

    # ------------------------------------------------------------------------- the plan

    def _better_plan(self) -> Answers:
        """Once it is known what the rows are like, hold them as they are best held."""
        held = self.open
        if not isinstance(held, OpenRows):
            return []
        held.forget(self.answered_to)
        if self.may_choose and len(held.kept.ts):
            if self.received < ENOUGH and held.state()["bytes"] <= self.place.memory:
                return []
            self.choice, self.may_choose = stored_choice(held, self.place), False
        kept = open_frame(held.kept.data)
        self.open = follow_stored(self.choice, held, self.place, kept) or held
        return []

    def _tidy(self) -> Answers:
        if isinstance(self.open, StoredPanes) and self.progress is not None:
            self.open.tidy(self.progress.now)
        return []

    def _empty_windows(self, kind: str, frame: Frame) -> OpenWindows:
        if kind != StoredPanes.kind:
            return super()._empty_windows(kind, frame)
        assert self.axis is not None
        return StoredPanes(
            self.axis, self.plan, frame, self.revisions, self.choice.plan, self.place
        )

    # --------------------------------------------------------------------------- recovery

    def _key(self) -> bytes:
        return f"{self.place.name}~stream".encode()

    def _save(self) -> None:
        """One batch: what the stream is, and the blocks that belong to it."""
        self._refuse_broken()
        if self.todo or self.answers:
            raise DataError("flush: a call was cut short by its store; retry() goes on with it")
        from mta.bucket_state import stream_bytes  # it builds on streams

        told = json.dumps({"block": self.place.block}).encode()
        with self.place.store.together():
            if isinstance(self.open, StoredPanes):
                self.open.save()
            parts = [told, stream_bytes(self)]
            self.place.store.put(self._key(), seal(_KIND, self.spec.identity(), parts))

    def _save_in_passing(self) -> None:
        """Where the store holds much that is no more, say so: all answers have been given."""
        held = self.open
        if isinstance(held, StoredPanes) and held.shelf.overdue and self.broken is None:
            try:
                self._save()
            except StoreError:
                return  # it will be told again


def open_stored(
    spec: Periodic,
    plan: str,
    memory: object,
    store: Store | str | None,
    name: str,
    block: int | None = None,
) -> StoredBucketStream:
    """A stream whose windows are on a store, as it was flushed; see ``Periodic.stream``."""
    size = parse_bytes(memory, "memory")
    check_stream_name(name, "/~")
    block = plain_number(block)
    check_whole(block, "block", 1)
    opened, own = _opened(store)
    try:
        together = OneBatch(opened)
        data = together.get(f"{name}~stream".encode())
        if data is None:
            if block is None:
                needed = blocks_needed(make_plan(spec.asked, spec.min_periods or 0), revises(spec))
                block = min(_BLOCK, size // needed)
            return StoredBucketStream(spec, plan, Place(together, name, size, block), own)
        return _filled(spec, Place(together, name, size, 0), own, data)
    except BaseException:
        for each in own:
            each.cleanup() if isinstance(each, TemporaryDirectory) else each.close()
        raise


def _opened(store: Store | str | None) -> tuple[Store, list[Any]]:
    if isinstance(store, Store):
        return store, []
    if store is not None:
        opened = open_store(store, buffer=_BEHIND)
        return opened, [opened]
    folder = TemporaryDirectory(prefix="mta-")
    files = FileStore(folder.name, sync="never")
    return files, [files, folder]


def _filled(spec: Periodic, place: Place, own: list[Any], data: bytes) -> StoredBucketStream:
    from mta.bucket_state import fill_stream  # it builds on streams

    told, state = unseal(_KIND, spec.identity(), data)
    with refusing_damage():
        block = int(json.loads(told)["block"])
        place = Place(place.store, place.name, place.memory, block)

        def made(plan: str) -> StoredBucketStream:
            return StoredBucketStream(spec, plan, place, own)

        stream = fill_stream(spec, state, made)
    _forget_others(stream)
    return stream


def _forget_others(stream: StoredBucketStream) -> None:
    """Take off the store what came after the last flush and is not known any more."""
    held, store = stream.open, stream.place.store
    names = {stream._key()}
    if isinstance(held, StoredPanes):
        names |= {f"{held.shelf.name}/".encode()}
        names |= {f"{each.stack.name}/".encode() for each in held.stacks}
        names |= {f"{log.name}/".encode() for log in held.values.logs.values()}
    every = store.keys(f"{stream.place.name}~".encode())
    store.delete_many([key for key in every if not key.startswith(tuple(names))])


def answer_batches(spec: Periodic, batches: Iterable[Any], memory: int | str) -> Iterator[Any]:
    """The answers over rows that come in batches; see ``Periodic.__call__``."""
    in_order = spec.progress is None
    with (spec.watermark("0i") if in_order else spec).stream(memory=memory) as op:
        for batch in batches_of(batches):
            answers = op.push(batch)
            if op.late_count and in_order:
                raise DataError(
                    f"on: {op.late_count} rows come after all their windows have been answered; "
                    "sort them by time, or say by .watermark(delay=) how late they may be"
                )
            yield answers
        answers = op.finish()
        if answers is not None:
            yield answers
