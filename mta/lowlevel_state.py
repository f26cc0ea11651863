"""Snapshots of a low-level stage: a JSON head; the frames of no rows and of late ones; the table
and the keys of its groups."""

from __future__ import annotations

import json
from typing import Any

from mta._frames_bytes import bytes_frame, frame_bytes
from mta.lowlevel import LowLevelStream
from mta.open_windows import WindowAxis
from mta.periodic import Periodic
from mta.push import as_json
from mta.snapshot import refusing_damage, seal, unseal

_NUMBERS = ("answered_to", "unassigned", "magnitude", "mark", "flushed", "swept")
_OPTIONS = ("size", "flush", "within", "every")


def stage_bytes(stage: LowLevelStream) -> bytes:
    """A snapshot of a stage."""
    assert stage.watermark is not None
    head = stage._common_head()
    head |= {name: getattr(stage, name) for name in (*_NUMBERS, *_OPTIONS)}
    head["declared"] = list(stage.watermark.sources)
    head["origin"] = None if stage.axis is None else stage.axis.origin
    parts = stage._common_parts()
    if stage.rows is not None and stage.table is not None:
        parts += [frame_bytes(stage.rows.frame), *stage.table.to_parts()]
        parts += stage.rows.groups.to_parts()
    return seal(stage.snapshot_kind, stage.spec.to_json(), [as_json(head), *parts])


def stage_from_bytes(spec: Periodic, data: bytes) -> LowLevelStream:
    """The stage that `stage_bytes` described.

    Raises
    ------
    SnapshotError
        `data` is damaged, or of another spec.
    """
    parts = unseal(LowLevelStream.snapshot_kind, spec.to_json(), data)
    with refusing_damage():
        head = json.loads(parts[0])
        options = {name: head[name] for name in _OPTIONS}
        stage = LowLevelStream(spec, **options, sources=head["declared"])
        _fill(stage, head, stage._fill_common(head, parts[1:]))
    return stage


def _fill(stage: LowLevelStream, head: dict[str, Any], parts: list[bytes]) -> None:
    for name in _NUMBERS:
        setattr(stage, name, int(head[name]))
    if stage.ticks is not None:
        stage.axis = WindowAxis(stage.spec, stage.ticks, head["origin"])
    if not parts:
        return
    rows = stage._reader(bytes_frame(parts[0]))
    rows.groups.fill(parts[5:])
    assert stage.table is not None
    stage.table.fill(parts[1:5], len(rows.groups))
