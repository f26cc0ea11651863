"""Partial aggregates that are Python values, as JSON."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import numpy as np

from mta.errors import SnapshotError
from mta.snapshot import refusing_damage


def partials_to_bytes(partials: list[Any], zero: Any, like: Any = None) -> bytes:
    """Numbers, texts, bytes, None, and tuples and lists of them; a partial may be a named tuple, if
    zero (or `like`) is one of that class.

    Raises
    ------
    SnapshotError
        One is something else.
    """
    named = _named(zero if like is None else like)
    bare = [tuple(p) if named and type(p) is named and p is not zero else p for p in partials]
    return json.dumps([{"zero": 0} if p is zero else _plain(p) for p in bare]).encode()


def partials_of_bytes(data: bytes, zero: Any, like: Any = None) -> list[Any]:
    """What `partials_to_bytes` was given.

    Raises
    ------
    SnapshotError
        `data` is something else.
    """
    named = _named(zero if like is None else like)
    with refusing_damage():
        found = [zero if p == {"zero": 0} else _value(p) for p in json.loads(data)]
        return [named(*p) if named and type(p) is tuple else p for p in found]


def _named(zero: Any) -> Any:
    """Its class, if it is a named tuple."""
    return type(zero) if isinstance(zero, tuple) and hasattr(zero, "_fields") else None


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
