"""A stream as bytes and back: one sealed snapshot (`mta.snapshot`) of everything it holds.

Parts: a JSON head; the frames of no rows (which has the types), of the late rows and of the keys;
then the arrays of the rows that wait for the watermark, and of every key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mta._frames_bytes import bytes_frame, frame_bytes
from mta._vector import Vector
from mta.errors import SnapshotError
from mta.key_state import KeyState
from mta.keyed import KeyedWindows
from mta.ledger import Ledger
from mta.pool import Pool
from mta.push import as_json, typed_column
from mta.reorder import Reorder
from mta.rows import KeptColumn, KeptRows
from mta.snapshot import (
    plain_value,
    refusing_damage,
    seal,
    unseal,
    value_of,
)
from mta.specs import Rolling
from mta.stream import RollingStream
from mta.track import Place

Attach = Callable[[RollingStream, KeyedWindows, list[int]], None]


def stream_bytes(stream: RollingStream, rows: bool = True) -> bytes:
    """A snapshot of a stream.

    rows : with the rows of its windows; else these are in blocks (`mta.stream_blocks`)

    Raises
    ------
    SnapshotError
        It holds keys or values that no snapshot can store, or pyarrow is missing.
    """
    parts = stream_parts(stream, rows)
    return seal(stream.snapshot_kind, stream.spec.identity(), parts)


def stream_parts(stream: RollingStream, rows: bool = True) -> list[bytes]:
    """The parts of that snapshot; `fill_stream` takes them up."""
    head = stream._common_head() | {
        "now": stream.now,
        "forgotten": stream.forgotten,
        "finished": stream.finished,
        "known": [
            [following, [[plain_value(value), code] for value, code in pairs]]
            for following, pairs in stream.coders.known_values()
        ],
        "types": {name: [c.kind, c.unit] for name, c in stream.types.items()},
    }
    parts = stream._common_parts()
    if parts and stream.reorder is not None:
        reorder = stream.reorder
        ts = reorder.in_order_of_arrival()
        head["unordered"] = [reorder.rows.first, len(ts)]
        parts += [ts.tobytes(), *map(vector_bytes, reorder.beside()), *row_parts(reorder.rows)]
    if stream.keyed is not None:
        told, more = _keyed_parts(stream.keyed, rows)
        head |= told
        parts += more
    return [as_json(head), *parts]


def stream_from_bytes(spec: Rolling, data: bytes, attach: Attach | None = None) -> RollingStream:
    """The stream that `stream_bytes` described.

    attach : gives keys their rows from the blocks of these numbers

    Raises
    ------
    SnapshotError
        `data` is damaged, or of another spec.
    """
    stream = RollingStream(spec)
    fill_stream(stream, unseal(stream.snapshot_kind, spec.identity(), data), attach)
    return stream


def fill_stream(stream: RollingStream, parts: list[bytes], attach: Attach | None = None) -> None:
    """Have a fresh stream go on where one stood that gave these parts; see `stream_from_bytes`."""
    with refusing_damage():
        head = json.loads(parts[0])
        _fill(stream, head, stream._fill_common(head, parts[1:]), attach)


def _keyed_parts(keyed: KeyedWindows, rows: bool) -> tuple[dict[str, Any], list[bytes]]:
    """Of all keys: what JSON can tell, and arrays."""
    groups, pool, states = keyed.groups.to_parts(), keyed.pool, list(keyed.tracks.values())
    head: dict[str, Any] = {
        "groups": len(groups),
        "states": [_state_head(state) for state in states],
    }
    parts = [*groups, vector_bytes(keyed.counts)]
    if keyed.paged is not None:
        head["next_serial"] = keyed.ledger.next_serial
        parts.append(vector_bytes(keyed.ledger.serials))
    if not rows:
        ledger = keyed.ledger
        head["blocks"] = [[b.number for b in ledger.blocks], ledger.next_block, ledger.next_serial]
        parts += [vector_bytes(ledger.serials), vector_bytes(ledger.written)]
    if pool is not None:
        marks = pool.all_marks()
        head["pool"] = {"live": pool.compact(), "marks": [mine.shape[1] for mine in marks]}
        parts += [vector_bytes(vector) for vector in pool.vectors(rows)]
        parts += row_parts(pool.rows) if rows else []
        parts += [mine[: len(pool)].tobytes() for mine in marks]
    if keyed.cold is not None:
        head["cold"] = keyed.cold.head()
        parts += [vector_bytes(vector) for vector in keyed.cold.vectors()]
    for state in states:
        parts += [vector_bytes(vector) for vector in _beside(state, rows)]
        parts += row_parts(state.track.rows) if rows else []
    return head, parts


def _state_head(state: KeyState) -> dict[str, Any]:
    track = state.track
    return {
        "key": state.number,
        "place": track.where()._asdict(),
        "newest": state.newest,
        "times": track.times.first,
        "open": track.open_from,
        "first": track.rows.first,
    }


def _beside(state: KeyState, rows: bool) -> list[Vector]:
    """What a key's track and state hold beside the rows as kernels read them; times are `rows`."""
    vectors = [state.track.times if rows else None, state.track.picked, *state.beside]
    return [vector for vector in vectors if vector is not None]


def row_parts(rows: KeptRows) -> list[bytes]:
    """Rows as kernels read them; `fill_rows` takes them up again."""
    parts = [vector_bytes(vector) for vector in (*rows.feeds.values(), *rows.valids.values())]
    for column in rows.values.values():
        native = b""
        if column.native is not None:
            native = frame_bytes(rows.frame.one_column(column.native))
        # (Values that were taken back leave an empty vector.)
        values = None if column.values is None or not len(column.values) else column.values
        parts += [vector_bytes(values), vector_bytes(column.valid), native]
    return parts


def vector_bytes(vector: Vector | None) -> bytes:
    """Its items; empty where there is none."""
    return b"" if vector is None else b"v" + vector.view().tobytes()


def _fill(
    stream: RollingStream, head: dict[str, Any], parts: list[bytes], attach: Attach | None
) -> None:
    stream.now, stream.forgotten = head["now"], head["forgotten"]
    stream.finished = bool(head["finished"])
    if stream.frame is None:
        return
    left = iter(parts)
    empty = stream.frame
    stream.types = {n: typed_column(empty, n, *known) for n, known in head["types"].items()}
    if stream.reorder is not None:
        first, rows = head["unordered"]
        _fill_reorder(stream, stream.reorder, first, rows, left)
    if "groups" in head:
        stream._begin_keys()
        assert stream.keyed is not None
        _fill_keyed(stream, stream.keyed, head, left, attach)
    stream.coders.adopt(
        [
            (following, [(value_of(value), code) for value, code in pairs])
            for following, pairs in head["known"]
        ]
    )


def _fill_reorder(
    stream: RollingStream, reorder: Reorder, first: int, rows: int, left: Iterator[bytes]
) -> None:
    ts = np.frombuffer(next(left), np.int64)
    if len(ts) != rows:
        raise SnapshotError(f"snapshot: damaged ({len(ts)} times, {rows} were expected)")
    for vector in reorder.beside():
        items = next(left)
        vector.first = first
        vector.extend(_items(items, rows, np.int64 if vector is not reorder.picked else np.uint8))
    fill_rows(stream, reorder.rows, first, first + rows, left)
    reorder.adopt(ts)


def _fill_keyed(
    stream: RollingStream, keyed: KeyedWindows, head: dict[str, Any], left: Iterator[bytes],
    attach: Attach | None,
) -> None:  # fmt: skip
    told = head.get("blocks")
    if told is not None and attach is None:
        raise SnapshotError("snapshot: this is the head of a checkpoint, and needs its blocks")
    keyed.groups.fill([next(left) for _ in range(head["groups"])])
    keys = len(keyed.groups)
    counts = next(left)
    if not keyed.spec.by_rank:
        keyed.counts.extend(_items(counts, keys, np.int64))
    _fill_ledger(keyed.ledger, head, keys, left)
    if keyed.pool is not None:
        hot = head["cold"]["keys"] if "cold" in head else keys
        _fill_pool(stream, keyed.pool, hot, head.get("pool"), left, told is None)
    if "cold" in head:
        _fill_cold(keyed, keys, head["cold"], left)
    for mine in head["states"]:
        state = keyed.new_state(mine["key"])
        _fill_state(stream, state, mine, left, told is None)
        if state.track.answered < state.track.received:
            keyed.waiting.add(state)
    if told is not None and attach is not None:
        attach(stream, keyed, told[0])
    if keyed.pool is not None:
        keyed.pool.adopt()
    if keyed.cold is not None and "cold" not in head:  # all keys were in the pool, or had tracks
        keyed.cold.adopt_all(keys, keyed.tracks)


def _fill_ledger(ledger: Ledger, head: dict[str, Any], keys: int, left: Iterator[bytes]) -> None:
    if "next_serial" in head:
        ledger.next_serial = head["next_serial"]
        ledger.serials.extend(_items(next(left), keys, np.int64))
    elif "serials" in head:  # written before many keys were told as items
        serials, ledger.next_serial = head["serials"]
        ledger.serials.extend(np.array(serials, np.int64))
    elif "blocks" in head:
        _, ledger.next_block, ledger.next_serial = head["blocks"]
        for vector in (ledger.serials, ledger.written):
            vector.extend(_items(next(left), keys, np.int64))
    else:
        ledger.grow(keys)


def _fill_cold(
    keyed: KeyedWindows, keys: int, head: dict[str, int], left: Iterator[bytes]
) -> None:  # fmt: skip
    cold = keyed.cold
    assert cold is not None  # these are headers of streams on a store
    for vector, size in zip(cold.vectors(), cold.sizes(head, keys), strict=True):
        vector.extend(_items(next(left), size, np.int64))
    cold.adopt(head, keys)


def _fill_pool(
    stream: RollingStream, pool: Pool, keys: int, head: dict[str, Any] | None,
    left: Iterator[bytes], with_rows: bool,
) -> None:  # fmt: skip
    if head is None:  # written when streams on a store had no pool: all keys have tracks
        pool.grow(keys)
        return
    rows, beside = head["live"]
    sizes = pool.sizes(keys, rows, beside, with_rows)
    for vector, size in zip(pool.vectors(with_rows), sizes, strict=True):
        wide = np.uint8 if vector is pool.picked else np.int64
        vector.extend(_items(next(left), size, wide))
    _fill_or_adopt(stream, pool.rows, 0, rows, left if with_rows else None)
    marks = []
    for width in head["marks"]:
        items = np.frombuffer(next(left), np.int64)
        marks.append(items.reshape(keys, width).copy())
    pool.marks = marks or None


def _fill_or_adopt(
    stream: RollingStream, rows: KeptRows, first: int, end: int, left: Iterator[bytes] | None
) -> None:
    """Rows; or only their types, where they come from blocks."""
    assert stream.frame is not None
    if left is None:
        rows.adopt(stream.types, stream.frame, stream.coders.items_of(stream.types))
    else:
        fill_rows(stream, rows, first, end, left)


def _fill_state(
    stream: RollingStream, state: KeyState, head: dict[str, Any], left: Iterator[bytes],
    with_rows: bool,
) -> None:  # fmt: skip
    track = state.track
    place = Place(**{**head["place"], "marks": tuple(map(tuple, head["place"]["marks"]))})
    state.newest = head["newest"]
    track.begin_at(place, head["first"])
    waiting = place.received - head["open"]
    for vector in _beside(state, with_rows):
        of_track = vector is track.times
        vector.first = head["times"] if of_track else head["open"]
        wide = np.uint8 if vector is track.picked else np.int64
        vector.extend(_items(next(left), None if of_track else waiting, wide))
    rows = left if with_rows else None
    _fill_or_adopt(stream, track.rows, head["first"], place.received, rows)


def fill_rows(
    stream: RollingStream, rows: KeptRows, first: int, end: int, left: Iterator[bytes]
) -> None:
    """Take up what `row_parts` gave; the rows have the numbers first..end."""
    assert stream.frame is not None
    rows.first, rows.end = first, end
    feeds = {feed: _read(next(left), first, end - first) for feed in rows.feeds}
    masks = {source: next(left) for source in rows.valids}
    rows.hold(
        feeds,
        {s: _read(d, first, end - first, np.uint8) if d else None for s, d in masks.items()},
    )
    for column in rows.values.values():
        _fill_column(column, first, end - first, left)
    rows.adopt(stream.types, stream.frame, stream.coders.items_of(stream.types))


def _fill_column(column: KeptColumn, first: int, kept: int, left: Any) -> None:
    values, valid, native = next(left), next(left), next(left)
    column.values = _read(values, first, kept) if values else None
    column.valid = _read(valid, first, kept, np.uint8) if valid else None
    if native:
        frame = bytes_frame(native)
        column.native = frame.column(frame.names()[0]).native


def _read(data: bytes, first: int, size: int | None, dtype: Any = np.int64) -> Vector:
    """A vector of the items that were written, the first of them numbered `first`."""
    vector = Vector(dtype is np.int64, first)
    vector.extend(_items(data, size, dtype))
    return vector


def _items(data: bytes, size: int | None, dtype: Any) -> Any:
    items = np.frombuffer(data[1:], dtype)
    if data[:1] != b"v" or (size is not None and len(items) != size):
        raise SnapshotError(f"snapshot: damaged ({len(items)} items, {size} were expected)")
    return items
