"""Snapshots of a BucketStream: a JSON head; the frames of no rows and of late ones; what open
windows hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from mta._frames_bytes import bytes_frame, frame_bytes
from mta.bucket_stream import BucketStream
from mta.open_windows import WindowAxis
from mta.periodic import Periodic
from mta.planner import Choice
from mta.push import as_json
from mta.snapshot import key_of, plain_key, refusing_damage, seal, unseal

StreamT = TypeVar("StreamT", bound=BucketStream)


def stream_bytes(stream: BucketStream) -> bytes:
    """A snapshot of a stream."""
    head = stream._common_head() | {
        "answered_to": stream.answered_to,
        "unassigned": stream.unassigned,
        "wanted_plan": stream.wanted_plan,
        "choice": asdict(stream.choice),
        "may_choose": stream.may_choose,
        "revisions": [
            [plain_key(key), end, n] for (key, end), n in stream.revisions.counts.items()
        ],
    }
    parts = stream._common_parts()
    if stream.axis is not None and stream.open is not None:
        head["origin"], head["kind"] = stream.axis.origin, stream.open.kind
        head["ahead"] = [[plain_key(key), to] for key, to in stream.open.ahead.items()]
        parts += [frame_bytes(stream.open.frame), *stream.open.to_parts()]
    return seal(stream.snapshot_kind, stream.spec.identity(), [as_json(head), *parts])


def stream_from_bytes(spec: Periodic, data: bytes) -> BucketStream:
    """The stream that `stream_bytes` described.

    Raises
    ------
    SnapshotError
        `data` is damaged, or of another spec.
    """
    return fill_stream(spec, data, lambda plan: BucketStream(spec, plan))


def fill_stream(spec: Periodic, data: bytes, make: Callable[[str], StreamT]) -> StreamT:
    """The same of a stream of any kind, which `make` makes for the plan that was asked for."""
    parts = unseal(BucketStream.snapshot_kind, spec.identity(), data)
    with refusing_damage():
        head = json.loads(parts[0])
        stream = make(head["wanted_plan"])
        _fill(stream, head, stream._fill_common(head, parts[1:]))
    return stream


def _fill(stream: BucketStream, head: dict[str, Any], parts: list[bytes]) -> None:
    stream.answered_to, stream.unassigned = int(head["answered_to"]), int(head["unassigned"])
    stream.choice, stream.may_choose = Choice(**head["choice"]), bool(head["may_choose"])
    stream.revisions.counts = {(key_of(key), end): n for key, end, n in head["revisions"]}
    if "kind" not in head:
        return
    assert stream.ticks is not None
    stream.axis = WindowAxis(stream.spec, stream.ticks, head["origin"])
    stream.open = stream._empty_windows(head["kind"], bytes_frame(parts[0]))
    stream.open.fill(parts[1:])
    stream.open.ahead = {key_of(key): to for key, to in head["ahead"]}
