"""What the tests read of a frame is what is in it, whatever the kind of frame."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinds import KINDS, build, in_ticks, read
from oracle import Exact, differences
from oracle_exact import exactly
from strategies import SPECIAL_FLOATS, data

NAN = math.nan
NUMBERS = st.one_of(st.floats(allow_nan=False), SPECIAL_FLOATS.filter(lambda x: x is not None))
ITEMS = st.one_of(
    st.tuples(st.just(pa.float64()), st.lists(NUMBERS)),
    st.tuples(st.just(pa.int64()), st.lists(st.integers(-(2**63), 2**63 - 1))),
    st.tuples(st.just(pa.string()), st.lists(st.sampled_from(["", "a", "é😀", "None"]))),
    st.tuples(st.just(pa.bool_()), st.lists(st.booleans())),
)


def is_what_is_in_it(got, values):
    """Compares as the tests compare the engine's answers."""
    exact = [
        exactly(v) if not isinstance(v, list) else Exact(list(map(exactly, v))) for v in values
    ]
    return not differences(got, [{"v": e} for e in exact])


@pytest.mark.parametrize("unit", ["us", "ns"])
@given(sample=data(time_type="int64", max_size=8), kind=st.sampled_from(KINDS))
def test_columns_are_read_as_they_were_built(unit, sample, kind):
    times = {"t": (f"timestamp[{unit}]", sample.columns["t"][1])}
    got = in_ticks(read(build(kind, sample.columns | times)), unit)
    want = [{name: exactly(v) for name, v in row.items()} for row in sample.rows]
    assert not differences(got, want)


def lists_in_every_frame(type_, values):
    array = pa.array(values, pa.list_(type_))
    arrays = [None if v is None else pa.array(v, type_).to_numpy(False) for v in values]
    yield pa.table({"v": array})
    yield pa.table({"v": array}).to_batches()[0] if values else pa.table({"v": array})
    yield pl.DataFrame({"v": pl.from_arrow(array)})
    yield pd.DataFrame({"v": pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))})
    for items in (values, arrays):
        objects = np.empty(len(values), object)
        for place, item in enumerate(items):  # not at once: NumPy would look for a second axis
            objects[place] = item
        yield {"v": objects}
        yield {"v": np.ma.MaskedArray(objects, [v is None for v in values])}
        yield pd.DataFrame({"v": pd.Series(list(items), dtype=object)})


def test_lists_of_times_keep_their_nanoseconds():
    for frame in lists_in_every_frame(pa.timestamp("ns"), [[1, -1], None, []]):
        assert in_ticks(read(frame), "ns") == [{"v": [1, -1]}, {"v": None}, {"v": []}]


@given(ITEMS, st.data())
def test_lists_are_read_from_everything_that_holds_them(typed, draw):
    type_, items = typed
    cuts = st.lists(st.one_of(st.none(), st.integers(0, len(items))), max_size=5)
    values = [None if cut is None else items[:cut] for cut in draw.draw(cuts)]
    for frame in lists_in_every_frame(type_, values):
        assert is_what_is_in_it(read(frame), values), type(frame)


@pytest.mark.parametrize("null", [None, pd.NA, pd.NaT, np.datetime64("NaT")])
def test_every_null_among_objects_is_none(null):
    column = np.array([null, "a", null], object)
    assert read({"v": column}) == [{"v": None}, {"v": "a"}, {"v": None}]
    assert read(pd.DataFrame({"v": column}, dtype=object)) == read({"v": column})


def test_nan_in_a_list_is_nan_and_null_is_null():
    (row,) = read({"v": np.array([[NAN, None, [pd.NA]], 0], object)[:1]})
    assert math.isnan(row["v"][0]) and row["v"][1:] == [None, [None]]


PARIS = dt.timezone(dt.timedelta(hours=1))


@pytest.mark.parametrize(
    ("value", "unit", "ticks"),
    [
        (dt.datetime(1970, 1, 1, 0, 0, 1), "us", 10**6),
        (dt.datetime(1970, 1, 1, 1, 0, 1, tzinfo=PARIS), "us", 10**6),
        (dt.datetime(1, 1, 1), "us", -62135596800 * 10**6),
        (pd.Timestamp(7, unit="ns"), "ns", 7),
        (pd.Timestamp("1970-01-01 01:00:01", tz="Europe/Paris"), "s", 1),
        (np.datetime64(-3, "us"), "us", -3),
        (dt.timedelta(seconds=-1), "ms", -1000),
        (pd.Timedelta(5), "ns", 5),
        (dt.date(1970, 1, 3), "s", 2 * 86400),
        ([dt.date(1970, 1, 2), None], "s", [86400, None]),
        ({"a": [5], "b": "x", "c": True}, "s", {"a": [5], "b": "x", "c": True}),
    ],
)
def test_times_as_ticks(value, unit, ticks):
    assert in_ticks(value, unit) == ticks
