"""A CRC-32 of key and value behind each value, for engines that don't check what they read."""

from __future__ import annotations

import struct
from zlib import crc32 as short_crc32

from mta._crc import crc32
from mta.errors import DamageError

_SUM = struct.Struct("<I")


def checksum(key: bytes, value: bytes | memoryview) -> int:
    """The CRC-32 of both, so that a value under a wrong key is seen too; some 3 µs for 64 KiB."""
    return crc32(value, short_crc32(key))


def with_checksum(key: bytes, value: bytes) -> bytes:
    """`value` as it is stored."""
    return b"".join((value, _SUM.pack(checksum(key, value))))


def without_checksum(where: str, key: bytes, stored: bytes | memoryview | None) -> bytes | None:
    """The value that was stored.

    Raises
    ------
    DamageError
        It is another one, or was stored by something else.
    """
    if stored is None:
        return None
    view = memoryview(stored)
    value = view[: -_SUM.size]
    if len(view) < _SUM.size or _SUM.unpack(view[-_SUM.size :])[0] != checksum(key, value):
        raise DamageError(f"{where}: the value of {key!r} is damaged (the checksum does not fit)")
    return bytes(value)
