"""What Spark keeps of a shard between micro-batches: a checkpoint, and a log of what came since.

Writing everything that a shard holds after every micro-batch would cost more, the longer its
windows are. So a micro-batch writes just the rows that it brought, as they came, and a small head;
when the log has become long, a new checkpoint takes the place of it. Of a trailing window the rows
that have come since the last checkpoint then are one more block, which is never written again and
goes when all its rows have left their windows (`mta.stream_blocks`). So every row is written twice,
in the log and in a block, however long windows are.

A worker process keeps the shards that it has worked on. A head has a stamp, drawn anew for every
write: a copy with the stamp of the checkpoint, or of an entry of the log, takes in the entries
after it and is up to date. Without one, the shard is made from the checkpoint and the whole log. A
copy of an attempt that failed has a stamp that stands nowhere, and is not used.

Layout, of each shard: a value `head` (a sealed JSON text, and counters as plain columns, to be read
through Spark's state data source), and a map `pieces` of at most 256 kB each, which are written
once and removed, never rewritten.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa

from mta.errors import DataError, SnapshotError
from mta.snapshot import seal, unseal
from mta.specs import Streamed
from spark_bridge.blobs import from_blob, to_blob
from spark_bridge.lulls import Lull
from spark_bridge.shards import Shard, identity

HEAD = "head binary, received bigint, late bigint, answers bigint, bytes bigint, watermark bigint"
PIECE_ID, PIECE = "id bigint", "piece binary"
PIECE_BYTES = 1 << 18  # a state call costs about 60 us, and 3 us a kB
LOG_BYTES = 1 << 20  # a log shorter than this is not worth a checkpoint
LOG_ENTRIES = 64
COPIES_BYTES = 1 << 28  # of the shards that a worker keeps
KIND = "shard-head"


@dataclass
class Stored:
    """Bytes in pieces: a checkpoint, a block of it, or rows with the watermark before them."""

    stamp: str
    ids: list[int] = field(default_factory=list)
    bytes: int = 0
    watermark: int | None = None


@dataclass
class Head:
    """Where a shard's state is."""

    shards: int
    store: str = field(default_factory=lambda: uuid4().hex)
    base: Stored | None = None
    blocks: dict[int, Stored] = field(default_factory=dict)
    log: list[Stored] = field(default_factory=list)
    next_id: int = 0
    timer: int | None = None
    lull: Lull = field(default_factory=Lull)

    @property
    def stamp(self) -> str | None:
        """Of the newest entry."""
        last = self.log[-1] if self.log else self.base
        return None if last is None else last.stamp

    @property
    def bytes(self) -> int:
        """Of all pieces."""
        kept = [*self.log, *self.blocks.values(), *([] if self.base is None else [self.base])]
        return sum(stored.bytes for stored in kept)


class Copies:
    """Shards that this process has worked on, the newest last."""

    def __init__(self, limit: int = COPIES_BYTES) -> None:
        self.limit = limit
        self.held: OrderedDict[str, tuple[str | None, int, Shard]] = OrderedDict()

    def take(self, store: str) -> tuple[str | None, Shard | None]:
        """Take out the copy of a shard, and its stamp."""
        stamp, _, shard = self.held.pop(store, (None, 0, None))
        return stamp, shard

    def put(self, head: Head, shard: Shard) -> None:
        """Keep it, as of this head; and forget others where there are too many."""
        self.held[head.store] = head.stamp, head.bytes, shard
        while sum(size for _, size, _ in self.held.values()) > self.limit:
            self.held.popitem(last=False)


COPIES = Copies()


class ShardStore:
    """The state of the shard at hand; of whichever group Spark is at.

    handle : of pyspark's StatefulProcessor
    specs : from `told_from_outside`
    shards : how many there are, which a checkpoint never changes
    eager : as of `Shard`
    """

    def __init__(
        self, handle: Any, specs: Sequence[Streamed], shards: int, eager: bool = False
    ) -> None:
        self.specs, self.shards, self.eager = specs, shards, eager
        self.heads = handle.getValueState("head", HEAD)
        self.pieces = handle.getMapState("pieces", PIECE_ID, PIECE)

    def read(self) -> Head:
        """The head; a new one, where there is none.

        Raises
        ------
        DataError
            The checkpoint has another number of shards.
        SnapshotError
            It is of another spec, or damaged.
        """
        kept = self.heads.get()
        if kept is None:
            return Head(self.shards)
        try:
            (text,) = unseal(KIND, identity(self.specs), bytes(kept[0]))
        except SnapshotError as error:
            raise SnapshotError(f"checkpoint: {error}") from None
        told = json.loads(text)
        base = told.pop("base")
        log = [Stored(**entry) for entry in told.pop("log")]
        blocks = {int(number): Stored(**entry) for number, entry in told.pop("blocks").items()}
        base = None if base is None else Stored(**base)
        lull = Lull(**told.pop("lull"))
        head = Head(base=base, blocks=blocks, log=log, lull=lull, **told)
        if head.shards != self.shards:
            raise DataError(
                f"shards: this checkpoint was begun with {head.shards}, which it keeps, "
                f"not with {self.shards}"
            )
        return head

    def load(self, head: Head, copies: Copies = COPIES) -> Shard:
        """The shard as of the head."""
        stamp, shard = copies.take(head.store)
        stamps = [None if head.base is None else head.base.stamp, *(e.stamp for e in head.log)]
        if shard is None or stamp not in stamps:
            base = None if head.base is None else self._bytes(head.base)
            read = partial(self._block, head)
            shard, stamp = Shard(self.specs, base, read, self.eager), stamps[0]
        for entry in head.log[stamps.index(stamp) :]:
            shard.take(entry.watermark, from_blob(self._bytes(entry)) if entry.ids else None)
        return shard

    def log(self, head: Head, watermark: int | None, table: pa.Table | None) -> None:
        """Write what the shard has taken since the head; `write` has to follow."""
        blob = b"" if table is None else to_blob(table)
        head.log.append(self._put(head, blob, watermark))

    def write(
        self, head: Head, shard: Shard, copies: Copies = COPIES, new_base: bool = False
    ) -> None:
        """Write the head, and a checkpoint in place of a log that has become long."""
        if new_base or self._is_long(head):
            self._write_base(head, shard)
        self._write_head(head, shard)
        copies.put(head, shard)

    def _write_base(self, head: Head, shard: Shard) -> None:
        """A checkpoint of the shard, in place of the one before and the log."""
        told = shard.checkpoint()
        old = [*([] if head.base is None else [head.base]), *head.log]
        old += [head.blocks.pop(number) for number in told.gone]
        head.base, head.log = self._put(head, told.head, None), []
        head.blocks |= {number: self._put(head, data, None) for number, data in told.blocks.items()}
        for number in [number for stored in old for number in stored.ids]:
            self.pieces.removeKey((number,))

    def guard(self) -> None:
        """In the group that is no shard: as `read`, so that a checkpoint that does not fit is
        refused by the first micro-batch, whichever shards have rows in it."""
        if not self.heads.exists():
            self._write_head(Head(self.shards), None)
        self.read()

    def _write_head(self, head: Head, shard: Shard | None) -> None:
        sealed = seal(KIND, identity(self.specs), [_as_json(head)])
        if shard is None:
            self.heads.update((sealed, 0, 0, 0, 0, None))
            return
        counts = shard.received, shard.late_count, shard.answers, head.bytes
        self.heads.update((sealed, *counts, shard.watermark))

    def _is_long(self, head: Head) -> bool:
        base = 0 if head.base is None else head.base.bytes
        logged = sum(entry.bytes for entry in head.log)
        most = LOG_ENTRIES + base // PIECE_BYTES
        return logged > max(base, LOG_BYTES) or len(head.log) > most

    def _put(self, head: Head, data: bytes, watermark: int | None) -> Stored:
        stored = Stored(uuid4().hex, bytes=len(data), watermark=watermark)
        for start in range(0, len(data), PIECE_BYTES):
            self.pieces.updateValue((head.next_id,), (data[start : start + PIECE_BYTES],))
            stored.ids.append(head.next_id)
            head.next_id += 1
        return stored

    def _block(self, head: Head, number: int) -> bytes:
        if number not in head.blocks:
            raise SnapshotError(f"checkpoint: damaged (block {number} is missing)")
        return self._bytes(head.blocks[number])

    def _bytes(self, stored: Stored) -> bytes:
        pieces = [self.pieces.getValue((number,)) for number in stored.ids]
        data = b"".join(bytes(piece[0]) for piece in pieces if piece is not None)
        if len(data) != stored.bytes:
            raise SnapshotError(
                f"checkpoint: damaged ({len(data)} bytes, {stored.bytes} were written)"
            )
        return data


def _as_json(head: Head) -> bytes:
    told = {**vars(head), "log": [vars(entry) for entry in head.log]}
    told["lull"] = vars(head.lull)
    told["base"] = None if head.base is None else vars(head.base)
    told["blocks"] = {number: vars(stored) for number, stored in head.blocks.items()}
    return json.dumps(told).encode()
