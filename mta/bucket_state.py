"""Snapshots of a BucketStream: a JSON head; the frames of no rows and of late ones; what open
windows hold."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from mta._frames_bytes import bytes_frame, frame_bytes
from mta.bucket_stream import BucketStream
from mta.engine import Ticks
from mta.errors import SnapshotError
from mta.frames import open_frame
from mta.open_plans import empty_windows
from mta.open_windows import NO_ROWS, WindowAxis
from mta.periodic import Periodic
from mta.planner import Choice
from mta.progress import Source
from mta.snapshot import seal, unseal

_KIND = "buckets"


def stream_bytes(stream: BucketStream) -> bytes:
    """A snapshot of a stream."""
    head = {
        name: getattr(stream, name)
        for name in ("answered_to", "received", "late_count", "unassigned", "wanted_plan")
    }
    head["choice"], head["may_choose"] = asdict(stream.choice), stream.may_choose
    head["revisions"] = [[list(key), end, n] for (key, end), n in stream.revisions.counts.items()]
    parts: list[bytes] = []
    if stream.frame is not None and stream.axis is not None and stream.open is not None:
        assert stream.progress is not None
        head["ticks"], head["origin"] = asdict(stream.axis.ticks), stream.axis.origin
        head["now"], head["kind"] = stream.progress.now, stream.open.kind
        head["sources"] = [[name, asdict(s)] for name, s in stream.progress.sources.items()]
        late = stream.frame.join([stream.frame.take(NO_ROWS), *stream.late_rows])
        frames = [stream.frame, open_frame(late)]
        frames.append(stream.open.frame)
        parts = [*map(frame_bytes, frames), *stream.open.to_parts()]
    try:
        text = json.dumps(head).encode()
    except TypeError as error:
        raise SnapshotError(f"to_bytes: a key or source can't be stored ({error})") from None
    return seal(_KIND, stream.spec.to_json(), [text, *parts])


def stream_from_bytes(spec: Periodic, data: bytes) -> BucketStream:
    """The stream that `stream_bytes` described.

    Raises
    ------
    SnapshotError
        `data` is damaged, or of another spec.
    """
    parts = unseal(_KIND, spec.to_json(), data)
    try:
        head = json.loads(parts[0])
        stream = BucketStream(spec, head["wanted_plan"])
        _fill(stream, head, parts[1:])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(f"snapshot: damaged ({error})") from None
    return stream


def _fill(stream: BucketStream, head: dict[str, Any], parts: list[bytes]) -> None:
    for name in ("answered_to", "received", "late_count", "unassigned"):
        setattr(stream, name, int(head[name]))
    stream.may_choose = bool(head["may_choose"])
    stream.choice = Choice(**head["choice"])
    stream.revisions.counts = {(tuple(key), end): n for key, end, n in head["revisions"]}
    if "ticks" not in head:
        return
    empty, late = (bytes_frame(part) for part in parts[:2])
    stream.begin(empty, Ticks(**head["ticks"]))
    assert stream.progress is not None
    stream.progress.now = head["now"]
    stream.progress.sources = {name: Source(**s) for name, s in head["sources"]}
    stream.axis = WindowAxis(stream.spec, Ticks(**head["ticks"]), head["origin"])
    stream.late_rows = [late.take(np.arange(late.rows))] if late.rows else []
    stream.open = empty_windows(
        head["kind"], stream.choice, stream.axis, stream.plan, bytes_frame(parts[2]),
        stream.revisions,
    )  # fmt: skip
    stream.open.fill(parts[3:])
