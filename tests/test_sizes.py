"""Amounts of memory as text and as numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.errors import SpecError
from mta.sizes import parse_bytes

UNITS = {"": 0, "B": 0, "K": 1, "KB": 1, "KiB": 1, "MB": 2, "mib": 2, "gb": 3, "G": 3, "TB": 4}


@given(st.integers(1, 10**6), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " ", "  "]))
def test_text_is_its_number_times_its_unit(number, unit, space):
    assert parse_bytes(f" {number}{space}{unit} ") == number * 1024 ** UNITS[unit]


def test_parts_of_a_unit_are_whole_bytes_rounded_down():
    assert parse_bytes("0.5KB") == 512
    assert parse_bytes("1.25 MB") == 1310720
    assert parse_bytes("0.001KB") == 1


def test_numbers_are_bytes():
    assert parse_bytes(7) == 7
    assert parse_bytes(np.int64(2**40)) == 2**40


@pytest.mark.parametrize(
    "value",
    ["", "KB", "1 XB", "-1KB", "1e3", "1,5 KB", "1.KB", "nan", "inf", 1.5, True, None, b"1KB", []],
)  # fmt: skip
def test_what_is_no_amount_is_refused_by_the_name_of_the_argument(value):
    with pytest.raises(SpecError, match=r"^memory: .* is not an amount of memory"):
        parse_bytes(value)
    with pytest.raises(SpecError, match=r"^pool: "):
        parse_bytes(value, "pool")


@pytest.mark.parametrize("value", [0, -1, "0", "0KB", "0.0001KB"])
def test_less_than_a_byte_is_refused(value):
    with pytest.raises(SpecError, match=r"^memory: a byte at least"):
        parse_bytes(value)
