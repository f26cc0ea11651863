"""The checksum of blocks is zlib's, whatever the length, the alignment and the kind of buffer."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._crc import crc32

LENGTHS = [*range(200), 4095, 4096, 4097, 65536, 65551]


@pytest.mark.parametrize("offset", [0, 1, 7, 15])
def test_all_lengths(offset):
    data = memoryview(np.random.default_rng(1).bytes(70_000))
    for length in LENGTHS:
        part = data[offset : offset + length]
        assert crc32(part) == zlib.crc32(part)
        assert crc32(part, 0xDEADBEEF) == zlib.crc32(part, 0xDEADBEEF)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_in_two_parts(first, second):
    assert crc32(second, crc32(first)) == zlib.crc32(first + second)


def test_of_any_buffer():
    data = bytes(range(256)) * 20
    assert {crc32(kind(data)) for kind in (bytes, bytearray, memoryview)} == {zlib.crc32(data)}
