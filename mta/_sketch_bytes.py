"""Checks of HLL sketches in bytes, for the library takes on trust what would make it crash.

The layout is that of Apache DataSketches: byte 0 the ints of the preamble, 1 the version, 2 the
family, 3 lg_k, 4 the size of a hash table, 5 flags, 6 a count, 7 mode and type.
"""

from __future__ import annotations

import math
import struct

import numpy as np

_COMPACT = 8  # a flag: hash tables are written without their holes
_FIRST = 40  # where the registers begin
_EXCEPTION = 15  # of a register of four bits: look in the table


def check_hll(data: bytes) -> None:
    """Refuse, by a ValueError, what is not a whole HLL sketch in itself consistent."""
    if len(data) < 8 or data[1] != 1 or data[2] != 7 or not 4 <= data[3] <= 21:
        raise ValueError("an unknown family, version or lg_k")
    checks = (_list_fits, _set_fits, _registers_fit)
    mode = data[7] & 3
    if mode > 2 or not checks[mode](data, bool(data[5] & _COMPACT)):
        raise ValueError("sizes that do not fit, or cut short")


def _list_fits(data: bytes, compact: bool) -> bool:
    """Up to 8 hashes."""
    count = data[6]
    return (data[0], data[4]) == (2, 3) and count <= 8 and _holds(data, 8, count if compact else 8)


def _set_fits(data: bytes, compact: bool) -> bool:
    """A table of hashes, at most three quarters full."""
    if data[0] != 3 or len(data) < 12 or not 5 <= data[4] <= data[3]:
        return False
    count, room = int.from_bytes(data[8:12], "little"), 2 ** data[4]
    return count <= 0.75 * room and _holds(data, 12, count if compact else room)


def _registers_fit(data: bytes, compact: bool) -> bool:
    """2^lg_k registers of 4, 6 or 8 bits, after their sums and the number of the least ones."""
    registers, kind = 2 ** data[3], data[7] >> 2 & 3
    if data[0] != 10 or kind > 2 or len(data) < _FIRST:
        return False
    hip, low, high, least = struct.unpack_from("<dddi", data, 8)
    if not (0 <= hip < math.inf and low >= 0 and high >= 0 and 0 < low + high <= registers):
        return False
    if not 0 <= least <= registers:
        return False
    size = _FIRST + (registers // 2, 3 * registers // 4 + 1, registers)[kind]
    return len(data) >= size and (kind > 0 or _exceptions_fit(data, compact, size))


def _exceptions_fit(data: bytes, compact: bool, end: int) -> bool:
    """Whether the registers that say so, and only those, are in the table behind them."""
    count = int.from_bytes(data[36:40], "little")
    nibbles = np.frombuffer(data, np.uint8, end - _FIRST, _FIRST)
    marked = np.stack([nibbles & 15, nibbles >> 4], 1).reshape(-1) == _EXCEPTION
    if count != np.count_nonzero(marked) or (count and data[4] > data[3]):
        return False
    entries = count if compact or not count else 2 ** data[4]
    if not _holds(data, end, entries):
        return False
    table = np.frombuffer(data, "<u4", entries, end)
    places = (table[table != 0] & (len(marked) - 1)).astype(np.int64)
    return len(places) == count and np.array_equal(np.sort(places), np.flatnonzero(marked))


def _holds(data: bytes, start: int, ints: int) -> bool:
    return len(data) >= start + 4 * ints
