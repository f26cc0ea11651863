"""Partial aggregates that are Python values, as JSON."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import numpy as np

from mta.errors import SnapshotError
from mta.snapshot import refusing_damage


def partials_to_bytes(partials: list[Any], zero: Any) -> bytes:
    """Numbers, texts, bytes, None, and tuples and lists of them.

    Raises
    ------
    SnapshotError
        One is something else.
    """
    return json.dumps([{"zero": 0} if p is zero else _plain(p) for p in partials]).encode()


def partials_of_bytes(data: bytes, zero: Any) -> list[Any]:
    """What `partials_to_bytes` was given.

    Raises
    ------
    SnapshotError
        `data` is something else.
    """
    with refusing_damage():
        return [zero if p == {"zero": 0} else _value(p) for p in json.loads(data)]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is bytes:
        return {"bytes": b64encode(value).decode()}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_plain(x) for x in value]}
    raise SnapshotError(f"to_bytes: a {type(value).__name__}, {value!r}, can't be stored")


def _value(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    if "bytes" in plain:
        return b64decode(plain["bytes"])
    if "tuple" in plain:
        return tuple(_value(x) for x in plain["tuple"])
    return [_value(x) for x in plain["list"]]
