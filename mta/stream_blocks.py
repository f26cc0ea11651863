"""Checkpoints of a trailing stream: a head, and blocks of rows that are written once.

A snapshot (`mta.stream_state`) holds everything, so a stream that is saved often would write the
rows of its windows again each time. A checkpoint writes a head with what changes (how far every key
has got, the rows that wait for the watermark) and a block of the rows that have come since the last
one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mta._pool import offsets_of, ranges
from mta._vector import Vector
from mta.engine import Ints
from mta.errors import SnapshotError
from mta.keyed import KeyedWindows
from mta.ledger import Block
from mta.push import NO_ROWS, as_json
from mta.rows import KeptRows
from mta.snapshot import refusing_damage, seal, unseal
from mta.specs import Rolling
from mta.stream import RollingStream
from mta.stream_state import fill_rows, row_parts, stream_bytes, stream_from_bytes

KIND = "stream-block"


class Checkpoint(NamedTuple):
    """What is to be kept: the head in place of the one before, and these blocks with those that
    were told before and are not gone."""

    head: bytes
    blocks: dict[int, bytes]
    gone: list[int]


def checkpoint(stream: RollingStream) -> Checkpoint:
    """What has to be kept now so that `stream_from_checkpoint` can go on from here.

    Cost: the head, about 100 bytes a key; and the rows that have come since the last checkpoint.
    Now and then blocks of which many rows are gone, or that are small, are written anew.

    Raises
    ------
    SnapshotError
        It holds keys or values that no snapshot can store, or pyarrow is missing.
    """
    keyed = stream.keyed
    if keyed is None or keyed.within is not None:  # nothing is there, or rows may be put between
        return Checkpoint(stream_bytes(stream), {}, [])
    if stream.reorder is not None and stream.progress is not None:
        keyed.trim(stream.progress.now)
    base, received = keyed.spans()
    gone = keyed.ledger.drop(base)
    since = np.maximum(keyed.ledger.written.view(), base)
    keys = np.flatnonzero(since < received)
    blocks = {}
    if len(keys):
        rows, times = keyed.rows_since(keys, since[keys])
        block = keyed.ledger.add(keys, (received - since)[keys], received[keys])
        blocks[block.number] = _block_bytes(stream, block, rows, times)
    return Checkpoint(stream_bytes(stream, rows=False), blocks, gone)


def stream_from_checkpoint(
    spec: Rolling, head: bytes, read: Callable[[int], bytes]
) -> RollingStream:
    """The stream that stood where `checkpoint` gave this head.

    read : gives a block by its number

    Raises
    ------
    SnapshotError
        The head or a block is damaged, of another spec, or they do not belong together.
    """

    def attach(stream: RollingStream, keyed: KeyedWindows, numbers: list[int]) -> None:
        _attach(stream, keyed, [(number, read(number)) for number in numbers])

    return stream_from_bytes(spec, head, attach)


def _block_bytes(stream: RollingStream, block: Block, rows: KeptRows, times: Ints) -> bytes:
    head = {"number": block.number, "rows": block.rows}
    arrays = [block.serials, block.first, block.sizes, times]
    parts = [as_json(head), *(array.tobytes() for array in arrays), *row_parts(rows)]
    return seal(KIND, stream.spec.identity(), parts)


def _attach(stream: RollingStream, keyed: KeyedWindows, blocks: list[tuple[int, bytes]]) -> None:
    """Give keys the rows that they have in these blocks."""
    base, received = keyed.spans()
    all_rows, times = KeptRows(stream.plan), Vector()
    numbers: list[Ints] = [NO_ROWS]
    for number, data in blocks:
        block, rows, their_times = _read_block(stream, number, data)
        keyed.ledger.blocks.append(block)
        found, keys = keyed.ledger.places(block.serials)
        starts = (offsets_of(block.sizes)[:-1])[found]
        skipped = np.clip(base[keys] - block.first[found], 0, block.sizes[found])
        sizes = block.sizes[found] - skipped
        places = ranges(starts + skipped, sizes)
        all_rows.append(rows.chunk(places))
        times.extend(their_times[places])
        numbers.append(keys.repeat(sizes))
    key = np.concatenate(numbers)
    counts = np.bincount(key, minlength=len(base))
    if (counts != received - base).any():
        raise SnapshotError("snapshot: damaged (the blocks do not have the rows that are wanted)")
    order = key.argsort(kind="stable")
    keyed.adopt_rows(all_rows.chunk(order) if len(key) else None, times.view()[order])


def _read_block(stream: RollingStream, number: int, data: bytes) -> tuple[Block, KeptRows, Ints]:
    parts = unseal(KIND, stream.spec.identity(), data)
    with refusing_damage():
        head = json.loads(parts[0])
        serials, first, count, times = (np.frombuffer(part, np.int64) for part in parts[1:5])
        block = Block(number, serials, first, count)
        rows = KeptRows(stream.plan)
        fill_rows(stream, rows, 0, head["rows"], iter(parts[5:]))
        whole = head["number"] == number and len(serials) == len(first) == len(count)
        if not whole or not block.rows == head["rows"] == len(times):
            raise ValueError("a block is not what its number says")
    return block, rows, times
