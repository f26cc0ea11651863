"""Numbers for texts from Arrow's buffers: dense, by appearance, equal for equal texts only."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from mta import agg
from mta._frames_arrow import arrow_text_codes
from mta._keys import first_fall

TYPES = {
    "string": pa.string(), "large_string": pa.large_string(), "string_view": pa.string_view(),
    "binary": pa.binary(), "large_binary": pa.large_binary(), "binary_view": pa.binary_view(),
}  # fmt: skip
# Of every size around those that are hashed apart, alike but for one letter at any place.
STEM = "abcdefghijklmnopqrstuvwxyz0123456789"
ALIKE = st.builds(
    lambda n, at: STEM[:n] if at >= n else STEM[:at] + "#" + STEM[at + 1 : n],
    st.integers(0, 36), st.integers(0, 40),
)  # fmt: skip
TEXTS = st.one_of(
    ALIKE, ALIKE, st.text(max_size=20), st.just("\x00"), st.just("\x00\x00"), st.none()
)


def by_appearance(values):
    numbers = {}
    return [numbers.setdefault(v, len(numbers)) for v in values], len(numbers)


def array_of(values, dtype):
    if dtype in (pa.binary(), pa.large_binary(), pa.binary_view()):
        values = [None if v is None else v.encode() for v in values]
    return pa.array(values, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@given(st.lists(st.lists(TEXTS, max_size=40), max_size=4), st.integers(0, 9), st.integers(0, 9))
def test_texts_of_every_form(dtype, pieces, head, tail):
    """In chunks, some of them slices."""
    chunks = [
        array_of([*["cut off"] * head, *values, *["cut off"] * tail], TYPES[dtype])
        for values in pieces
    ]
    chunks = [c.slice(head, len(v)) for c, v in zip(chunks, pieces, strict=True)]
    codes, groups = arrow_text_codes(pa.chunked_array(chunks, TYPES[dtype]))
    expected = by_appearance([v for values in pieces for v in values])
    assert (codes.tolist(), groups) == expected


def test_more_texts_than_a_first_table_holds():
    names = [f"{'customer' * (k % 4)}-{k % 20_000}" for k in range(50_000)]
    codes, groups = arrow_text_codes(pa.array(names, pa.string_view()))
    assert (codes.tolist(), groups) == by_appearance(names)


@pytest.mark.parametrize("kind", ["polars", "polars sliced", "pyarrow", "pandas"])
def test_keys_of_texts_with_nulls(kind):
    rng = np.random.default_rng(3)
    names = ["", "a", "a longer name than twelve", "another, of more than sixteen", None]
    keys = [names[k] for k in rng.integers(0, len(names), 500)]
    frame = pl.DataFrame({"key": keys, "x": np.ones(500)})
    if kind == "polars sliced":
        frame = pl.concat([frame, frame])[250:750]
        keys = frame["key"].to_list()
    data = {"pyarrow": frame.to_arrow, "pandas": frame.to_pandas}.get(kind, lambda: frame)()
    answers = mta.rolling(1000, by="key").agg(n=agg.count("x"))(data)
    seen = {}
    expected = [seen.update({k: seen.get(k, 0) + 1}) or seen[k] for k in keys]
    assert [int(n) for n in answers["n"]] == expected


def test_first_fall_at_every_place():
    for n in (1, 2, 5, 4095, 4096, 4097, 9000):
        ts = np.arange(n)
        assert first_fall(ts) == -1
        for at in {1, 2, 3, 4, n // 2, n - 1, 4095, 4096, 4097} & set(range(1, n)):
            fallen = ts.copy()
            fallen[at] = fallen[at - 1] - 1
            assert first_fall(fallen) == at
