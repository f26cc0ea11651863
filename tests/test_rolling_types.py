"""Columns of every type of every library: as values, as keys, as times, and just standing by.

A type either means what it says or is refused by name; no value is rounded, and no null lost.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections import OrderedDict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mta
from kinds import build, read
from mta import agg
from mta.errors import ColumnError, DataError

D = decimal.Decimal
NAN = math.nan
TICKS = pa.array([1, 2, None, 2], pa.int64())
STAMPS = TICKS.cast(pa.timestamp("us", "UTC"))


def in_polars(array):
    """The array as column "v" of polars, or None where that version has no such type."""
    if pa.types.is_decimal256(array.type) or pa.types.is_interval(array.type):
        return None  # which panic
    try:
        return pl.DataFrame({"v": pl.from_arrow(array)})
    except pl.exceptions.ComputeError:
        return None


def every_frame(array):
    """An Arrow array as column "v" of everything that holds it."""
    yield pa.table({"v": array})
    yield pa.table({"v": pa.chunked_array([array.slice(0, 1), array.slice(1, 0), array.slice(1)])})
    yield pd.DataFrame({"v": pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))})
    if (frame := in_polars(array)) is not None:
        yield frame


def values_of(make, frame):
    return [row["a"] for row in read(mta.rolling(None).agg(a=make("v"))(frame))]


def counted(frame):
    return values_of(agg.count, frame)


def numbered(frame):
    return [row["a"] for row in read(mta.rolling(None, by="v").agg(a=agg.count())(frame))]


# ---- types that are no numbers -----------------------------------------------------------------

OPAQUE = {
    "decimal128": pa.array([D("1.10"), D("2.20"), None, D("2.20")]),
    "decimal256": pa.array([D("1.10"), D("2.20"), None, D("2.20")], pa.decimal256(50, 2)),
    "string": pa.array(["a", "b", None, "b"]),
    "large_string": pa.array(["a", "b", None, "b"], pa.large_string()),
    "string_view": pa.array(["a", "b", None, "b"], pa.string_view()),
    "binary": pa.array([b"a", b"b", None, b"b"]),
    "fixed_size_binary": pa.array([b"a", b"b", None, b"b"], pa.binary(1)),
    "time32": pa.array([1, 2, None, 2], pa.time32("s")),
    "time64": pa.array([1, 2, None, 2], pa.time64("us")),
    "categories": pa.array(["a", "b", None, "b"]).dictionary_encode(),
    "interval": pa.array([(1, 2, 3), (1, 2, 4), None, (1, 2, 4)], pa.month_day_nano_interval()),
    "struct": pa.array([{"a": 1}, {"a": 2}, None, {"a": 2}]),
    "list": pa.array([[1], [2], None, [2]]),
    "map": pa.array([[("a", 1)], [("b", 2)], None, []], pa.map_(pa.string(), pa.int64())),
}  # fmt: skip
NESTED = {"struct", "list", "map"}


@pytest.mark.parametrize("name", OPAQUE)
def test_what_is_no_number_and_no_time(name):
    for frame in every_frame(OPAQUE[name]):
        assert counted(frame) == [1, 2, 2, 3]
        for make in (agg.sum, agg.mean, agg.min, agg.max, agg.var):
            with pytest.raises(DataError, match="'v'"):
                values_of(make, frame)
        for range_ in ("1s", "5i", 3):
            with pytest.raises(DataError, match="'v'"):
                mta.rolling(range_, on="v").agg(a=agg.count())(frame)
        if name in NESTED:
            with pytest.raises(DataError, match="'v'"):
                numbered(frame)
        else:
            assert numbered(frame) == [1, 1, 1, 2]


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, 2.5, 1.5], np.longdouble),
        np.array([1 + 1j, 2, 1 + 1j]),
        np.array(["a", "b", "a"]),
        np.array([b"a", b"b", b"a"]),
        np.array([b"a", b"b", b"a"], "V3"),
        np.array([(1, 2.0), (1, 3.0), (1, 2.0)], "i4,f8"),
        np.array([1, 2, 1], "m8[Y]"),
        np.array([1, 2, 1], "M8[ps]"),
        np.array([D(1), D(2), D(1)], object),
        np.array([dt.time(1), dt.time(2), dt.time(1)], object),
        np.array([dt.timedelta(1), dt.timedelta(2), dt.timedelta(1)], object),
        np.array([1j, "x", 1j], object),
    ],
    ids=lambda array: f"{array.dtype} {type(array[0]).__name__}",
)
def test_what_is_no_number_and_no_time_in_numpy(array):
    assert counted({"v": array}) == [1, 2, 3] and numbered({"v": array}) == [1, 1, 2]
    for spec in (mta.rolling(2).agg(a=agg.max("v")), mta.rolling(2).agg(a=agg.sum("v")),
                 mta.rolling("1s", on="v").agg(a=agg.count()),
                 mta.rolling("1i", on="v").agg(a=agg.count())):  # fmt: skip
        with pytest.raises(DataError, match="'v'"):
            spec({"v": array})


# ---- numbers -----------------------------------------------------------------------------------


def test_half_floats():
    array = pa.array(np.array([1.5, 2.5, 2.5], np.float16))
    for frame in (*every_frame(array), {"v": array.to_numpy()}):
        assert values_of(agg.sum, frame) == [1.5, 4.0, 6.5]
        column = mta.rolling(2).agg(v=agg.max("v"))(frame)["v"]
        type_ = str(column.type if isinstance(frame, pa.Table) else column.dtype).lower()
        assert type_ in ("float16", "halffloat", "halffloat[pyarrow]") or type_ == (
            "float32" if isinstance(frame, pl.DataFrame) else ""  # old polars has no narrower one
        )
        assert [float(x) for x in np.asarray(column)] == [1.5, 2.5, 2.5]
        assert numbered(frame) == [1, 1, 2]


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="this polars has no such type")
def test_integers_of_128_bits_are_refused_and_not_cut():
    frame = pl.DataFrame({"v": pl.Series([1, 2**100, 1], dtype=pl.Int128)})
    assert numbered(frame) == [1, 1, 2]
    with pytest.raises(DataError, match="'v'"):
        values_of(agg.sum, frame)


def test_sparse_columns_of_pandas_are_what_they_hold():
    big = 2**60 + 1
    frame = pd.DataFrame({"v": pd.arrays.SparseArray([0, 0, big])})
    assert values_of(agg.max, frame) == [0, 0, big] and numbered(frame) == [1, 2, 1]
    frame = pd.DataFrame({"v": pd.arrays.SparseArray([0.0, NAN, 1.5])})
    assert counted(frame) == [1, 2, 3], "a NaN is a value, as in any column of NumPy"


# ---- encoded columns are what they decode to ---------------------------------------------------

RUNS = pa.RunEndEncodedArray.from_arrays
ENCODED = {
    "dictionary": TICKS.dictionary_encode(),
    "null in the dictionary": pa.DictionaryArray.from_arrays([0, 1, 2, 1], pa.array([1, 2, None])),
    "run ends": RUNS([1, 2, 3, 4], TICKS),
    "bool8": pa.array([1, 0, None, 0], pa.bool8()),
}


@pytest.mark.parametrize("name", ENCODED)
def test_encoded_numbers(name):
    second = 0 if name == "bool8" else 2
    for frame in every_frame(ENCODED[name]):
        if isinstance(frame, pl.DataFrame) and name == "bool8":
            continue  # a type of its own there, and no number
        assert counted(frame) == [1, 2, 2, 3]
        assert values_of(agg.sum, frame) == [1, 1 + second, 1 + second, 1 + 2 * second]
        assert numbered(frame) == [1, 1, 1, 2]


@pytest.mark.parametrize(
    "encode",
    [lambda a: a.dictionary_encode(), lambda a: RUNS([1, 2, 3, 4], a)],
    ids=["dictionary", "runs"],
)
def test_encoded_times(encode):
    array = encode(STAMPS)
    for frame in (pa.table({"v": array}), next(every_frame(array))):
        latest = mta.rolling(2).agg(a=agg.max("v"))(frame)
        assert latest.schema.types == [STAMPS.type]
        assert latest["a"].to_pylist() == STAMPS.take([0, 1, 1, 3]).to_pylist()
        with pytest.raises(DataError, match=r"'v' is null in row 2"):
            mta.rolling("1us", on="v").agg(a=agg.count())(frame)
        spec = mta.rolling("1us", on="v", closed="both").agg(a=agg.count())
        assert spec(frame.slice(0, 2))["a"].to_pylist() == [1, 2]


def test_keys_of_extension_types():
    uuids = pa.array([b"a" * 16, b"b" * 16, None, b"b" * 16], pa.uuid())
    assert numbered(pa.table({"v": uuids})) == [1, 1, 1, 2]


# ---- columns of nothing but nulls --------------------------------------------------------------

NOTHING = {
    "pyarrow": pa.table({"v": pa.nulls(2)}),
    "polars": pl.DataFrame({"v": [None, None]}),
    "pandas": pd.DataFrame({"v": pd.Series([None, None], dtype=object)}),
    "pandas-arrow": pd.DataFrame(
        {"v": pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.nulls(2)]))}
    ),
    "dict": {"v": np.array([None, pd.NA], dtype=object)},
    "list": {"v": [None, None]},
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_but_nulls(name):
    frame = NOTHING[name]
    assert counted(frame) == [0, 0] and values_of(agg.sum, frame) == [0, 0]
    assert numbered(frame) == [1, 2]
    for make in (agg.min, agg.max, agg.mean, agg.std):
        assert all(value is None or value != value or isinstance(value, str)
                   for value in values_of(make, frame))  # fmt: skip
    for range_ in ("1h", "5i", 3):
        with pytest.raises(DataError, match=r"'v' is null in row 0 \(2 of 2 rows\)"):
            mta.rolling(range_, on="v").agg(a=agg.count())(frame)


@pytest.mark.parametrize("name", NOTHING)
def test_no_rows_of_no_type(name):
    frame = NOTHING[name]
    empty = {"v": frame["v"][:0]} if isinstance(frame, dict) else frame[:0]
    for range_ in ("1h", "5i", 3):
        assert read(mta.rolling(range_, on="v", by="v").agg(a=agg.sum("v"))(empty)) == []


# ---- names, and other columns ------------------------------------------------------------------


@pytest.mark.parametrize("frame", [
    pd.DataFrame([[1, 2.0, 3], [4, 5.0, 6]], columns=["x", "x", "v"]),
    pa.table([[1, 4], ["2", "5"], [3, 6]], names=["x", "x", "v"]),
], ids=["pandas", "pyarrow"])  # fmt: skip
def test_a_name_used_twice_matters_only_where_it_is_asked_for(frame):
    assert values_of(agg.sum, frame) == [3, 9]
    for spec in (mta.rolling(2).agg(a=agg.sum("x")), mta.rolling(2).agg(a=agg.count("x")),
                 mta.rolling(2, by="x").agg(a=agg.count()),
                 mta.rolling("2i", on="x").agg(a=agg.count())):  # fmt: skip
        with pytest.raises(DataError, match=r"'x': there are 2"):
            spec(frame)


def test_pandas_columns_whose_names_are_no_text():
    odd = pd.DataFrame({1: [1, 2], None: [3, 4], "v": [1.0, 2.0], ("a", "b"): [1, 2], 2.5: [0, 0]})
    assert values_of(agg.sum, odd) == [1.0, 3.0]
    levels = pd.MultiIndex.from_tuples([("v", "a"), ("v", "b"), ("y", "")])
    deep = pd.DataFrame([[1, 2.0, 3]], columns=levels)
    assert read(mta.rolling(2).agg(a=agg.count())(deep)) == [{"a": 1}]
    for frame in (deep, odd.drop(columns="v")):
        with pytest.raises(ColumnError, match="'v'"):
            values_of(agg.sum, frame)
    categories = pd.DataFrame([[1, 2]], columns=pd.CategoricalIndex(["v", "w"]))
    assert values_of(agg.sum, categories) == [1]


@pytest.mark.parametrize(("frame", "expected"), [
    ({}, []), (pd.DataFrame(), []), (pl.DataFrame(), []), (pa.table({}), []),
    (pd.DataFrame(index=[7, 8, 8]), [1, 2, 2]), (pa.table({"x": [1, 2, 3]}).select([]), [1, 2, 2]),
], ids=["dict", "pandas", "polars", "pyarrow", "pandas rows", "pyarrow rows"])  # fmt: skip
def test_frames_without_columns(frame, expected):
    spec = mta.rolling(2).agg(a=agg.count())
    assert [row["a"] for row in read(spec(frame))] == expected
    if isinstance(frame, pd.DataFrame):
        assert spec(frame).index.equals(frame.index)
    with pytest.raises(ColumnError, match="there are: none"):
        mta.rolling(2).agg(a=agg.sum("v"))(frame)


# ---- other kinds of data -----------------------------------------------------------------------

TABLE = pa.table({"t": [1, 2, 3], "k": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
SPEC = mta.rolling("2i", on="t", by="k").agg(n=agg.count(), s=agg.sum("x"))


class Stream:
    def __init__(self, data):
        self.data = data

    def __arrow_c_stream__(self, requested_schema=None):
        return self.data.__arrow_c_stream__(requested_schema)


class Array:
    def __init__(self, data):
        self.data = data

    def __arrow_c_array__(self, requested_schema=None):
        return self.data.__arrow_c_array__(requested_schema)


def test_whatever_speaks_arrow():
    expected = SPEC(TABLE)
    for source in (TABLE.to_reader(2), Stream(TABLE), Array(TABLE.to_batches()[0])):
        got = SPEC(source)
        assert isinstance(got, pa.Table) and got.equals(expected)
    with pytest.raises(DataError, match="no table"):
        SPEC(Stream(TABLE["x"]))


def test_subclasses_of_frames():
    class Special(pd.DataFrame):
        pass

    class Rare(pl.DataFrame):
        pass

    for cls in (Special, Rare):
        got = SPEC(cls(TABLE.to_pydict()))
        assert isinstance(got, cls.__base__) and read(got) == read(SPEC(TABLE))
    ordered = OrderedDict(build("dict", {"v": ("int64", [1, 2])}))
    assert values_of(agg.sum, ordered) == [1, 3]


def test_a_lazy_frame_of_which_rows_are_needed_asks_to_be_collected():
    with pytest.raises(DataError, match="collect"):
        SPEC.stream().push(pl.DataFrame(TABLE).lazy())


# ---- dicts -------------------------------------------------------------------------------------


def test_lists_in_dicts_are_taken_exactly():
    big = 2**53 + 1
    assert values_of(agg.max, {"v": [1, big, None]}) == [1, big, big]
    assert values_of(agg.sum, {"v": (1, 2)}) == [1, 3]
    assert values_of(agg.sum, {"v": range(3)}) == [0, 1, 3]
    assert numbered({"v": ["1", 1, None, "1"]}) == [1, 1, 1, 2]
    stamps = [np.datetime64("2024-01-01", "s"), np.datetime64("2024-01-02", "s")]
    got = mta.rolling("1d", on="v", closed="both").agg(a=agg.count())({"v": stamps})
    assert got["a"].tolist() == [1, 2]
    with pytest.raises(DataError, match="'v'"):
        values_of(agg.max, {"v": [0.5, big]})
    with pytest.raises(DataError, match="'v'"):
        values_of(agg.max, {"v": [[1], [1, 2]]})


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None]), pl.Series([1, None]), pd.Series([1, None], dtype="Int64"),
        pd.Series([pd.Timestamp(0, tz="UTC")]), (i for i in range(3)), "text", {1, 2}, None, 5,
    ],
    ids=lambda column: type(column).__module__ + "." + type(column).__name__,
)  # fmt: skip
def test_columns_that_numpy_would_round_or_not_read_are_refused(column):
    with pytest.raises(DataError, match="'v'"):
        values_of(agg.count, {"v": column})


def test_series_of_plain_numbers_are_arrays():
    column = pd.Series([1, 2**53 + 1], index=[9, 9])
    assert values_of(agg.max, {"v": column}) == [1, 2**53 + 1]
