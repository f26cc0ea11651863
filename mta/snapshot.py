"""The byte format of every state: magic, format version, kind, spec, length, CRC.

``seal`` makes a snapshot, ``unseal`` refuses whatever is not one of this very kind and spec. The
payload is a list of byte strings; nothing in it is code, so reading foreign bytes is safe.

====== ===== ==================================================
offset bytes content
====== ===== ==================================================
0      4     magic "MTA1"
4      2     format version, little endian
6      2     length of the kind's name
8      8     length of everything after the header
16     32    SHA-256 of kind and spec
48     4     CRC-32 of all other bytes
52           kind, then parts, each as an 8-byte length and bytes
====== ===== ==================================================
"""

from __future__ import annotations

import hashlib
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mta._crc import crc32
from mta.errors import SnapshotError

MAGIC = b"MTA1"
VERSION = 1
_HEADER = struct.Struct("<4sHHQ32sI")
_LENGTH = struct.Struct("<Q")


def seal(kind: str, spec: str, parts: Sequence[bytes]) -> bytes:
    """A snapshot of `parts`, a state of `kind` that belongs to `spec`."""
    # (Parts may be most of what there is room for in memory: they are copied once.)
    body = [kind.encode()]
    for part in parts:
        body += [_LENGTH.pack(len(part)), part]
    digest = hashlib.sha256(f"{kind}\0{spec}".encode()).digest()
    head = _HEADER.pack(MAGIC, VERSION, len(body[0]), sum(map(len, body)), digest, 0)[:-4]
    crc = 0
    for piece in (head, *body):
        crc = crc32(piece, crc)
    return b"".join([head, struct.pack("<I", crc), *body])


def unseal(kind: str, spec: str, data: bytes) -> list[bytes]:
    """The parts of a snapshot.

    Raises
    ------
    SnapshotError
        `data` is no snapshot, of another version, kind or spec, cut short, or damaged.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SnapshotError(f"snapshot: bytes are needed, not {type(data).__name__}")
    data = bytes(data)
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        raise SnapshotError("snapshot: these bytes are not a snapshot of mta")
    _, version, kind_length, length, digest, crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(f"snapshot: format {version}, only {VERSION} is known")
    body = data[_HEADER.size :]
    if len(body) != length:
        raise SnapshotError(f"snapshot: {len(body)} bytes after the header, {length} were written")
    if crc32(body, crc32(data[: _HEADER.size - 4])) != crc:
        raise SnapshotError("snapshot: damaged (the checksum does not fit)")
    found = body[:kind_length].decode(errors="replace")
    if found != kind:
        raise SnapshotError(f"snapshot: of a {found}, not of a {kind}")
    if digest != hashlib.sha256(f"{kind}\0{spec}".encode()).digest():
        raise SnapshotError(f"snapshot: of another specification than this {kind}'s")
    return _parts(body, kind_length)


def _parts(body: bytes, place: int) -> list[bytes]:
    parts = []
    while place < len(body):
        if place + _LENGTH.size > len(body):
            raise SnapshotError("snapshot: damaged (a length is cut short)")
        (length,) = _LENGTH.unpack_from(body, place)
        place += _LENGTH.size
        if place + length > len(body):
            raise SnapshotError("snapshot: damaged (a part is cut short)")
        parts.append(body[place : place + length])
        place += length
    return parts


@contextmanager
def refusing_damage() -> Iterator[None]:
    """Whatever fails while parts are read, the snapshot is damaged.

    Raises
    ------
    SnapshotError
        Something has failed.
    """
    try:
        yield
    except SnapshotError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise SnapshotError(f"snapshot: damaged ({error})") from None


def plain_value(value: Any) -> Any:
    """A value of a key or a column as JSON has it; bytes as a list of one text.

    Raises
    ------
    SnapshotError
        It is of a type that can't be stored.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, bytes):
        return [b64encode(value).decode()]
    raise SnapshotError(f"to_bytes: a {type(value).__name__}, {value!r}, can't be stored")


def value_of(plain: Any) -> Any:
    """What `plain_value` was given."""
    return b64decode(plain[0]) if isinstance(plain, list) else plain


def plain_key(key: tuple[Any, ...]) -> list[Any]:
    """A key as JSON has it; see `plain_value`."""
    return [plain_value(x) for x in key]


def key_of(plain: list[Any]) -> tuple[Any, ...]:
    """What `plain_key` was given."""
    return tuple(value_of(x) for x in plain)
