"""StoredRollingStream: trailing windows larger than memory over rows that are pushed. SlideM, 2013.

What a `RollingStream` does, with the same doubles; but of the rows of a key only the newest and the
oldest of its window are in memory (`mta.paged`).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from mta.budget import Holder
from mta.cold_keys import ColdKeys
from mta.engine import Ints
from mta.errors import DataError, SnapshotError
from mta.frames import batches_of, open_frame
from mta.keyed import KeyedWindows
from mta.paged import Counters, PagedTrack
from mta.paged_kernels import check_spillable, count_logs, page_bytes
from mta.paged_revised import PagedRevisedTrack
from mta.plan import Plan
from mta.push import NO_ROWS
from mta.snapshot import refusing_damage, seal, unseal
from mta.specs import Rolling
from mta.spill import Spill, SpillStats
from mta.stores import Store
from mta.stream import RollingStream
from mta.stream_state import fill_stream, stream_parts
from mta.track import Track

if TYPE_CHECKING:
    from typing_extensions import Self


class OnStore(ABC):
    """What streams have in common whose rows are on a store."""

    spill: Spill
    kind: str  # how a header calls it

    @property
    @abstractmethod
    def _streams(self) -> list[RollingStream]:
        """All of them, in the order in which they take rows."""

    @abstractmethod
    def _identity(self) -> str:
        """Of what a header has to be."""

    def _tracks(self) -> list[PagedTrack]:
        """Of all keys."""
        return [track for stream in self._streams for track in tracks_of(stream)]

    def _begin(
        self, memory: int | str, store: Store | str | None, name: str, block: int | None,
        plans: Sequence[Plan],
    ) -> None:  # fmt: skip
        """Go on from what the store has under this name.

        plans : of all that is answered
        """
        logs, pages = sum(map(count_logs, plans)), sum(map(page_bytes, plans))
        self.spill = Spill(memory, store, name, block, logs, pages)
        self._share_memory()
        try:
            self._open()
        except BaseException:
            self.spill.close()
            raise

    @abstractmethod
    def _share_memory(self) -> None:
        """Say what there may be beside tracks."""

    def _open(self) -> None:
        header = self.spill.read_header()
        if header is None:
            return
        parts = unseal(self.kind, self._identity(), header)
        for stream in self._streams:
            parts = fill_stored(stream, parts)
        if parts:
            raise SnapshotError("snapshot: damaged (there are parts of something else)")

    def _write(self) -> None:
        """A header with all that is in memory, and the blocks that it names; or, where nothing is
        to outlive this process, only take off what is needed no more."""
        if not self.spill.lasts:
            self.spill.take_off()
            return
        self.spill.write_header(*self._header())
        for track in self._tracks():
            track.wrote()

    def _header(self) -> tuple[bytes, dict[bytes, bytes | None]]:
        """One of all that is in memory (of which there is no further copy then), and its blocks."""
        parts: list[bytes] = []
        batch: dict[bytes, bytes | None] = {}
        for stream in self._streams:
            mine, blocks = stored_parts(stream)
            parts += mine
            batch |= blocks
        return seal(self.kind, self._identity(), parts), batch

    def _prepare(self) -> None:
        """Before a call: what the store failed at is tried again, and told; a header, if due."""
        if not self.spill.is_open:
            raise DataError("push: the stream is closed; open it again")
        self._raise_failures()
        if self.spill.due:
            self._write()

    def _raise_failures(self) -> None:
        raise_failures(self._tracks())
        for keys in self._cold():
            keys.raise_failure()

    def _cold(self) -> list[ColdKeys]:
        """Of all streams, the keys with few rows."""
        keyed = [stream.keyed for stream in self._streams]
        return [each.cold for each in keyed if each is not None and each.cold is not None]

    def flush(self) -> None:
        """Returns when all that was pushed is durable: whatever happens to the process, a stream
        that is opened by this name goes on from here, and ``received`` says after which row.

        Cost: what is in memory is written: the newest rows of every key, its partial aggregates;
        of a key that has had no rows for long, 40 bytes.

        Raises
        ------
        StoreError
            It is not durable; what was flushed before still is.
        """
        self._raise_failures()
        if self.spill.lasts:
            self._write()
            self.spill.store.flush()

    def close(self) -> None:
        """`flush`, and close the store if it was given by its URL. A second close does nothing."""
        if self.spill.is_open:
            self.flush()
            self.spill.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def stats(self) -> SpillStats:
        """Blocks written and read, what formula 3.1 expects, what is on the store and in memory."""
        values = sum(stream.coders.nbytes for stream in self._streams)
        rooms = [stream.room for stream in self._streams if stream.room is not None]
        holders: list[Holder] = [*rooms, *self._tracks()]
        sizes = [holder.sizes() for holder in holders]
        held, least = (sum(some) for some in zip((0, 0), *sizes, strict=True))
        cold = sum(keys.keys for keys in self._cold())
        records = [holder.records for holder in rooms]
        return self.spill.stats(values + held, values + least, cold, records)


class StoredRollingStream(OnStore, RollingStream):
    """Pushes rows through a rolling spec in bounded memory; see ``Rolling.stream``.

    What the store fails at once a push has its answers (rows that are to leave memory) is tried
    again by the next push. That one raises what was wrong and takes nothing in, and after it all
    goes on as before; rows are neither lost nor counted twice.
    """

    kind = "stream on a store"

    def __init__(
        self, spec: Rolling, memory: int | str, store: Store | str | None, name: str,
        block: int | None,
    ) -> None:  # fmt: skip
        super().__init__(spec)
        check_spillable(spec, self.plan)
        self.coders.log_sketches()
        self.paged, self._counters = self._track, Counters()
        self._begin(memory, store, name, block, [self.plan])

    # ----------------------------------------------------------------------- the calls

    def push(self, data: Any) -> Any:
        """As that of ``RollingStream``.

        Raises
        ------
        StoreError
            The store has failed. Nothing of the push has been taken in.
        """
        self._prepare()
        return super().push(data)

    def to_bytes(self) -> bytes:
        """Refused: the stream is on its store. See `flush`.

        Raises
        ------
        SnapshotError
            Always.
        """
        raise SnapshotError(
            f"to_bytes: the rows are on {self.spill.store!r}; flush() the stream, and open it "
            f"again by its name, {self.spill.name!r}"
        )

    # ------------------------------------------------------------------------------- tracks

    @property
    def _streams(self) -> list[RollingStream]:
        return [self]

    def _identity(self) -> str:
        return self.spec.identity()

    def _share_memory(self) -> None:
        self.room = None if self.revises else self.spill.room_of(self.plan)

    def _track(self, number: int, serial: int, kept: range) -> Track:
        assert self.ticks is not None
        keys = None if self.keyed is None or not self.spec.by else self._tracks_soon(self.keyed)
        make = self.spill.maker(serial, keys, kept=kept)
        logs, leave, budget = self.spill.logs_of(serial, keys), self.spill.leave, self.spill.budget
        of_all = self.spec, self.plan, self.ticks
        if self.revises:
            return PagedRevisedTrack(
                *of_all, self._within(), make, leave, logs, self._counters, budget
            )
        return PagedTrack(*of_all, make, leave, logs, self._counters, budget)

    def _tracks_soon(self, keyed: KeyedWindows) -> int:
        """How many keys have one, with those that are getting one."""
        if self.room is None:
            return len(keyed.groups)
        return len(keyed.tracks) + max(self.room.leaving, 1)


def tracks_of(stream: RollingStream) -> list[PagedTrack]:
    """The tracks of all keys."""
    states = [] if stream.keyed is None else stream.keyed.tracks.values()
    return [state.track for state in states if isinstance(state.track, PagedTrack)]


def raise_failures(tracks: list[PagedTrack]) -> None:
    """What the store failed at after the last call is tried again, and then told."""
    failed = [(track, track.failure) for track in tracks if track.failure is not None]
    for track, _ in failed:
        track.settle()
    for _, failure in failed:
        assert failure is not None
        raise failure


def stored_parts(stream: RollingStream) -> tuple[list[bytes], dict[bytes, bytes | None]]:
    """All that a stream has in memory, and the batch that goes with it."""
    parts: list[bytes] = []
    batch: dict[bytes, bytes | None] = {}
    for track in tracks_of(stream):
        mine, blocks = track.to_parts()
        parts += mine
        batch |= blocks
    told = stream_parts(stream)
    sizes = json.dumps([len(told), len(parts)]).encode()
    return [sizes, *told, *parts], batch


def fill_stored(stream: RollingStream, parts: list[bytes]) -> list[bytes]:
    """Have a fresh stream take what `stored_parts` gave; the parts that are left.

    Raises
    ------
    SnapshotError
        They are damaged.
    """
    with refusing_damage():
        of_stream, of_tracks = json.loads(parts[0])
        end = 1 + of_stream + of_tracks
        if len(parts) < end:
            raise ValueError("parts are missing")
        fill_stream(stream, parts[1 : 1 + of_stream])
        mine = iter(parts[1 + of_stream : end])
        for track in tracks_of(stream):
            track.fill(mine)
    return parts[end:]


def answer_batches(
    spec: Rolling, batches: Iterable[Any], memory: int | str, store: Store | str | None
) -> Iterator[Any]:
    """The answers over rows that come in batches; see ``Rolling.__call__``."""
    op = StoredRollingStream(spec, memory, store, f"batches-{uuid4().hex}", None)
    in_order = InOrder() if spec.every is None and spec.progress is None else None
    try:
        for batch in batches_of(batches):
            answers = op.push(batch)
            if op.late_count and spec.progress is None:
                raise DataError(
                    f"on: {op.late_count} rows come after rows of their key with a later "
                    f"{spec.on!r}; sort them, or say by .watermark(delay=) how late they may be"
                )
            yield answers if in_order is None else in_order.take(answers, op.answered_rows)
        answers = op.finish()
        if answers is not None:
            yield answers if in_order is None else in_order.take(answers, op.answered_rows)
    finally:
        op.spill.remove()


class InOrder:
    """Answers in the order of their rows: those that come too soon wait for the ones before."""

    def __init__(self) -> None:
        self.next = 0
        self.rows = NO_ROWS  # of the answers that wait
        self.waiting: list[Any] = []

    def take(self, answers: Any, rows: Ints) -> Any:
        """Take answers of these rows; those that follow the ones handed out before."""
        rows = np.concatenate([self.rows, rows])
        frame = open_frame(answers)
        frame = open_frame(frame.join([*self.waiting, answers]))
        order = rows.argsort()
        ready = int((rows[order] == self.next + np.arange(len(rows))).sum())
        self.next += ready
        self.rows = rows[order[ready:]]
        self.waiting = [frame.take(order[ready:])] if ready < len(rows) else []
        return frame.take(order[:ready])
