"""A stream as bytes and back: one sealed snapshot (`mta.snapshot`) of everything it holds.

Parts: a JSON head; the frames of no rows (which has the types), of the late rows and of the values
that are kept for answers; then the arrays of every key.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from mta._frames_bytes import bytes_frame, frame_bytes
from mta._vector import Vector
from mta.engine import Ticks
from mta.errors import SnapshotError
from mta.frames import Column, Frame, open_frame
from mta.rows import KeptColumn
from mta.snapshot import seal, unseal
from mta.specs import Rolling
from mta.stream import KeyState, RollingStream
from mta.track import Place, Track

_KIND = "stream"


def stream_bytes(stream: RollingStream) -> bytes:
    """A snapshot of a stream.

    Raises
    ------
    SnapshotError
        It holds keys or values that no snapshot can store, or pyarrow is missing.
    """
    head: dict[str, Any] = {
        "now": stream.now,
        "forgotten": stream.forgotten,
        "received": stream.received,
        "late": stream.late_count,
        "keys": [[_plain(x) for x in key] for key in stream.keys],
        "known": [
            [following, [[_plain(value), code] for value, code in pairs]]
            for following, pairs in stream.coders.known_values()
        ],
    }
    parts: list[bytes] = []
    if stream.frame is not None and stream.ticks is not None:
        head["ticks"] = asdict(stream.ticks)
        head["types"] = {name: [c.kind, c.unit] for name, c in stream.types.items()}
        late = stream.frame.join([stream.frame.take(np.zeros(0, np.int64)), *stream.late_rows])
        parts = [frame_bytes(stream.frame), frame_bytes(open_frame(late))]
    head["tracks"] = [_track_head(state) for state in stream.keys.values()]
    for state in stream.keys.values():
        parts += _track_parts(state, stream.frame)
    return seal(_KIND, stream.spec.to_json(), [json.dumps(head).encode(), *parts])


def stream_from_bytes(spec: Rolling, data: bytes) -> RollingStream:
    """The stream that `stream_bytes` described.

    Raises
    ------
    SnapshotError
        `data` is damaged, or of another spec.
    """
    parts = unseal(_KIND, spec.to_json(), data)
    stream = RollingStream(spec)
    try:
        head = json.loads(parts[0])
        _fill(stream, head, parts[1:])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(f"snapshot: damaged ({error})") from None
    return stream


def _plain(value: Any) -> Any:
    """A value of a key or a column as JSON has it; bytes as a list of one text."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, bytes):
        return [b64encode(value).decode()]
    raise SnapshotError(f"to_bytes: a {type(value).__name__}, {value!r}, can't be stored")


def _value(plain: Any) -> Any:
    """What `_plain` was given."""
    return b64decode(plain[0]) if isinstance(plain, list) else plain


def _track_head(state: KeyState) -> dict[str, Any]:
    track = state.track
    return {
        "place": asdict(track.place()),
        "newest": state.newest,
        "arrivals": state.arrivals.first,
        "times": track.times.first,
        "first": track.rows.first,
        "made": track.slider is not None,
    }


def _track_parts(state: KeyState, frame: Frame | None) -> list[bytes]:
    rows = state.track.rows
    vectors = [state.arrivals, state.track.times, *rows.feeds.values(), *rows.valids.values()]
    parts = [_vector(vector) for vector in vectors]
    for column in rows.values.values():
        native = b""
        if column.native is not None and frame is not None:
            native = frame_bytes(frame.one_column(column.native))
        parts += [_vector(column.values), _vector(column.valid), native]
    return parts


def _vector(vector: Vector | None) -> bytes:
    return b"" if vector is None else b"v" + vector.view().tobytes()


def _fill(stream: RollingStream, head: dict[str, Any], parts: list[bytes]) -> None:
    stream.now, stream.forgotten = head["now"], head["forgotten"]
    stream.received, stream.late_count = head["received"], head["late"]
    if "ticks" not in head:
        return
    stream.ticks = Ticks(**head["ticks"])
    frame, late = bytes_frame(parts[0]), bytes_frame(parts[1])
    stream.frame = frame
    stream.late_rows = [late.take(np.arange(late.rows))] if late.rows else []
    stream.types = {n: _type(frame, n, *known) for n, known in head["types"].items()}
    left = iter(parts[2:])
    for key, track in zip(head["keys"], head["tracks"], strict=True):
        state = KeyState(Track(stream.spec, stream.plan, stream.ticks, stream.labels))
        _fill_track(stream, state, track, left)
        stream.keys[tuple(map(_value, key))] = state
        if state.track.answered < state.track.received:
            stream.waiting.add(tuple(map(_value, key)))
    stream.coders.adopt(
        [
            (following, [(_value(value), code) for value, code in pairs])
            for following, pairs in head["known"]
        ]
    )


def _type(frame: Frame, name: str, kind: str, unit: str | None) -> Column:
    """The column of no rows; of NumPy objects, only what it held tells its type."""
    column = frame.column(name)
    if (column.kind, column.unit) == (kind, unit):
        return column
    if kind == "other":
        return replace(column, kind=kind, values=None, valid=None, native=np.empty(0, object))
    plain = {"float": np.float64, "uint": np.uint64}.get(kind, np.int64)
    return replace(column, kind=kind, unit=unit, values=np.zeros(0, plain), valid=None)


def _fill_track(stream: RollingStream, state: KeyState, head: dict[str, Any], left: Any) -> None:
    track, rows = state.track, state.track.rows
    place = Place(**{**head["place"], "marks": tuple(map(tuple, head["place"]["marks"]))})
    state.newest = head["newest"]
    rows.first, rows.end = head["first"], place.received
    kept = place.received - rows.first
    state.arrivals = _read(next(left), head["arrivals"], place.received - head["arrivals"])
    track.times = _read(next(left), head["times"], None)
    for feed in rows.feeds:
        rows.feeds[feed] = _read(next(left), rows.first, kept)
    for source in rows.valids:
        data = next(left)
        rows.valids[source] = _read(data, rows.first, kept, np.uint8) if data else None
    for column in rows.values.values():
        _fill_column(column, rows.first, kept, left)
    rows.adopt(stream.types)
    track.received, track.answered = place.received, place.answered
    track.lo, track.hi = place.lo, place.hi
    if head["made"]:
        track.make_slider().resume(list(place.marks))


def _fill_column(column: KeptColumn, first: int, kept: int, left: Any) -> None:
    values, valid, native = next(left), next(left), next(left)
    column.values = _read(values, first, kept) if values else None
    column.valid = _read(valid, first, kept, np.uint8) if valid else None
    if native:
        frame = bytes_frame(native)
        column.native = frame.column(frame.names()[0]).native


def _read(data: bytes, first: int, size: int | None, dtype: Any = np.int64) -> Vector:
    """A vector of the items that were written, the first of them numbered `first`."""
    items = np.frombuffer(data[1:], dtype)
    if data[:1] != b"v" or (size is not None and len(items) != size):
        raise SnapshotError(f"snapshot: damaged ({len(items)} items, {size} were expected)")
    vector = Vector(dtype is np.int64, first)
    vector.extend(items)
    return vector
