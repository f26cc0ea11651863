"""Keys of every type: equal values are one group, and nothing else is."""

from __future__ import annotations

import decimal
import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import KINDS, build, read
from mta import agg
from mta.errors import DataError

NAN = math.nan
COUNT = mta.rolling(None, by="k").agg(n=agg.count())


def numbered(frame, spec=COUNT):
    """For every row, the how-manieth of its group it is."""
    return [row["n"] for row in read(spec(frame))]


def expected(keys):
    """The same by comparing Python values, NaN and null apart."""
    seen: dict = {}
    out = []
    for key in keys:
        same = "<NaN>" if isinstance(key, float) and math.isnan(key) else (key,)
        seen[same] = seen.get(same, 0) + 1
        out.append(seen[same])
    return out


# ---- plain types in every frame --------------------------------------------------------------

INTEGERS = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63), -(2**63) + 1]),
)
TEXTS = st.one_of(
    st.none(), st.text("ab", max_size=3), st.sampled_from(["", "None", "nan", "<NA>"])
)
NUMBERS = st.sampled_from([None, NAN, 0.0, -0.0, 1.5, math.inf, -math.inf, 5e-324, 1e300])


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("int64", INTEGERS),
        ("uint64", st.sampled_from([None, 0, 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1])),
        ("int8", st.sampled_from([None, 0, 1, -1, 127, -128])),
        ("float64", NUMBERS),
        ("float32", st.sampled_from([None, NAN, 0.0, -0.0, 1.5, math.inf])),
        ("string", TEXTS),
        ("category", TEXTS),
        ("bool", st.sampled_from([None, True, False])),
        ("timestamp[us]", st.sampled_from([None, 0, 1, 2**53, 2**53 + 1])),
        ("timestamp[ns, Asia/Tokyo]", st.sampled_from([None, 0, 1, 2**53, 2**53 + 1])),
        ("duration[ms]", st.sampled_from([None, 0, 1, -1])),
        ("date", st.sampled_from([0, 1, -1])),
    ],
)
@given(kind=st.sampled_from(KINDS), draw=st.data())
def test_keys_of_one_type(type_, values, kind, draw):
    if kind == "dict" and "," in type_:
        type_ = "timestamp[ns]"  # NumPy has no zones
    keys = draw.draw(st.lists(values, max_size=20))
    assert numbered(build(kind, {"k": (type_, keys)})) == expected(keys)


@given(st.lists(st.tuples(TEXTS, INTEGERS, NUMBERS), max_size=20), st.sampled_from(KINDS))
def test_several_keys(keys, kind):
    columns = {
        "a": ("string", [k[0] for k in keys]),
        "b": ("int64", [k[1] for k in keys]),
        "c": ("float64", [k[2] for k in keys]),
    }
    groups = [tuple("<NaN>" if part != part else part for part in key) for key in keys]
    for order in (["a", "b", "c"], ["c", "a", "b"]):
        spec = mta.rolling(None, by=order).agg(n=agg.count())
        assert numbered(build(kind, columns), spec) == expected(groups)


def test_keys_that_would_be_one_if_glued_together():
    columns = {"a": ("string", ["x", "xy", "", "xyz"]), "b": ("string", ["yz", "z", "xyz", ""])}
    spec = mta.rolling(None, by=["a", "b"]).agg(n=agg.count())
    assert numbered(build("pyarrow", columns), spec) == [1, 1, 1, 1]


@pytest.mark.parametrize("groups", [3, 1000, 30_000])
def test_many_keys(groups):
    """Enough to make every table grow several times, among values that hash badly."""
    rng = np.random.default_rng(groups)
    pool = np.unique(np.concatenate([np.arange(groups) << 40, [-(2**63), 2**63 - 1, -1, 0]]))
    keys = rng.choice(pool, 60_000)
    order = np.argsort(keys, kind="stable")
    _, starts = np.unique(keys[order], return_index=True)
    place = np.arange(len(keys)) - np.repeat(starts, np.diff([*starts, len(keys)]))
    wanted = np.empty(len(keys), np.int64)
    wanted[order] = place + 1
    assert np.array_equal(COUNT({"k": keys})["n"], wanted)
    assert np.array_equal(COUNT({"k": keys.astype(str)})["n"], wanted)
    two = mta.rolling(None, by=["k", "j"]).agg(n=agg.count())
    assert np.array_equal(two({"k": keys, "j": keys % 7})["n"], wanted)


def test_bits_of_nan_and_zero_do_not_matter():
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x7FF8000000000000], np.uint64)
    keys = np.concatenate([odd.view(np.float64), [0.0, -0.0, NAN]])
    assert numbered({"k": keys}) == [1, 2, 3, 1, 2, 4]


# ---- types of one library --------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([decimal.Decimal("1.0"), decimal.Decimal("2.0"), decimal.Decimal("1.0")]),
        pa.array([b"a", b"b", b"a"]),
        pa.array(["a", "b", "a"], pa.large_string()),
        pa.array(["a", "b", "a"], pa.string_view()),
        pa.array([1, 2, 1], pa.time64("us")),
        pa.array([0, 86_400_000, 0], pa.date64()),
        pa.array(np.array([1, 2, 1], np.float16)),
        pa.array([5, 6, 5]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_arrow_types(keys):
    table = pa.table({"k": keys})
    assert numbered(table) == [1, 1, 2]
    assert numbered(pl.from_arrow(table)) == [1, 1, 2]
    assert numbered(table.to_pandas()) == [1, 1, 2]
    wrapped = pd.arrays.ArrowExtensionArray(pa.chunked_array([keys]))
    assert numbered(pd.DataFrame({"k": wrapped})) == [1, 1, 2]


def test_a_column_of_nulls_is_one_group():
    assert numbered(pa.table({"k": pa.nulls(3)})) == [1, 2, 3]
    assert numbered(pl.DataFrame({"k": [None, None, None]})) == [1, 2, 3]
    assert numbered(pd.DataFrame({"k": [None, None, None]})) == [1, 2, 3]


def test_dictionaries_of_arrow_are_what_they_decode_to():
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None]), pa.array([None, "a"]))
    assert numbered(pa.table({"k": with_null})) == [1, 1, 2, 3]
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["a", "a", "b"]))
    assert numbered(pa.table({"k": repeated})) == [1, 2, 1, 3]
    wrapped = pd.arrays.ArrowExtensionArray(pa.chunked_array([repeated]))
    assert numbered(pd.DataFrame({"k": wrapped})) == [1, 2, 1, 3]
    chunks = [pa.array(list(text)).dictionary_encode() for text in ("ab", "ba", "cb")]
    assert numbered(pa.table({"k": pa.chunked_array(chunks)})) == [1, 1, 2, 2, 1, 3]


def test_categories_of_pandas_and_polars():
    assert numbered(pd.DataFrame({"k": pd.Categorical([3.5, None, 3.5, 4])})) == [1, 1, 2, 1]
    unused = pd.Categorical(["b", "a", "b"], categories=["z", "b", "y", "a"], ordered=True)
    assert numbered(pd.DataFrame({"k": unused})) == [1, 1, 2]
    enum = pl.Series(["a", None, "a", "b"], dtype=pl.Enum(["b", "a"]))
    assert numbered(pl.DataFrame({"k": enum})) == [1, 1, 2, 1]


def test_other_types_of_pandas():
    periods = pd.PeriodIndex(["2020", "2021", "2020"], freq="Y")
    assert numbered(pd.DataFrame({"k": periods})) == [1, 1, 2]
    assert numbered(pd.DataFrame({"k": pd.interval_range(0, 2).repeat(2)})) == [1, 2, 1, 2]
    assert numbered(pd.DataFrame({"k": pd.arrays.SparseArray([0, 0, 1])})) == [1, 2, 1]


def test_masked_and_bytes_keys_of_numpy():
    texts = np.ma.MaskedArray(np.array(["a", "b", "a", "b"]), [0, 1, 0, 1])
    assert numbered({"k": texts}) == [1, 1, 2, 2]
    objects = np.ma.MaskedArray(np.array(["a", "b", "a", "b"], object), [0, 1, 0, 1])
    assert numbered({"k": objects}) == [1, 1, 2, 2]
    assert numbered({"k": np.array([b"a", b"b", b"a"])}) == [1, 1, 2]


# ---- Python objects --------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [dict, pd.DataFrame])
@pytest.mark.parametrize(
    "keys",
    [
        ["a", None, "b", None, "a"],
        [1, None, 2, None, 1],
        [("a", 1), ("a", 2), ("a", 1)],
        [2**63, -1, 2**63 + 1, 2**63],
        [2**53, 2**53 + 1, 0.5, 2**53],
        [decimal.Decimal("0.1"), decimal.Decimal("0.10"), decimal.Decimal("0.2")],
        ["\0nan", None, "\0nan", "nan"],
    ],
    ids=repr,
)
def test_objects(keys, wrap):
    array = np.empty(len(keys), dtype=object)
    array[:] = keys
    assert numbered(wrap({"k": array})) == expected(keys)


def test_text_that_looks_like_a_mark_is_not_taken_for_nan():
    array = np.array(["\0nan", NAN, "\0nan", NAN, "nan"], dtype=object)
    assert numbered({"k": array}) == [1, 1, 2, 2, 1]


@pytest.mark.parametrize("wrap", [dict, pd.DataFrame])
def test_none_and_nan_among_objects_are_two_keys(wrap):
    for keys in (
        ["a", None, NAN, "a", None, np.float32("nan"), float("nan")],
        [1.5, None, NAN, 1.5, None, NAN, decimal.Decimal("NaN")],
    ):
        array = np.empty(len(keys), dtype=object)
        array[:] = keys
        frame = wrap({"k": pd.Index(array, dtype=object) if wrap is pd.DataFrame else array})
        assert numbered(frame) == [1, 1, 1, 2, 2, 2, 3]


def test_missing_values_among_objects_are_nulls():
    array = np.array(["a", None, pd.NA, pd.NaT, "a", np.datetime64("NaT")], dtype=object)
    assert numbered({"k": array}) == numbered(pd.DataFrame({"k": array})) == [1, 1, 2, 3, 2, 4]


ODD = {
    "list": pa.table({"k": [[1], [2]]}),
    "struct": pa.table({"k": [{"a": 1}, {"a": 2}]}),
    "run ends": pa.table(
        {"k": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"]))}
    ),
    "polars list": pl.DataFrame({"k": [[1], [2]]}),
    "polars object": pl.DataFrame({"k": pl.Series([object(), 2], dtype=pl.Object)}),
    "pandas dict": pd.DataFrame({"k": [{}, {"a": 1}]}),
    "numpy dict": {"k": np.array([{}, {"a": 1}], dtype=object)},
    "numpy structured": {"k": np.array([(1, 2), (1, 3)], dtype="i4,i4")},
    "huge ints": {"k": np.array([2**70, 2**70 + 1], dtype=object)},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_keys_are_told_apart_or_refused_by_name(name):
    """Support is welcome; what is not supported says so, naming the column."""
    try:
        got = numbered(ODD[name])
    except DataError as error:
        got, message = None, str(error)
    assert got == ([1, 2] if name == "run ends" else [1, 1]) if got else "'k'" in message


def test_groups_do_not_disturb_each_other():
    """Windows of interleaved keys equal those of each key alone."""
    rng = np.random.default_rng(3)
    keys, x, t = rng.integers(0, 9, 900), rng.lognormal(0, 5, 900), rng.integers(0, 400, 900)
    aggs = {fn: getattr(agg, fn)("x") for fn in ("sum", "mean", "min", "max", "std")}
    options = itertools.product(["40i", 5, None], ["right", "left"])
    for range_, closed in options:
        together = mta.rolling(range_, on="t", by="k", closed=closed).agg(**aggs)
        alone = mta.rolling(range_, on="t", closed=closed).agg(**aggs)
        got = together({"k": keys, "x": x, "t": t})
        for key in range(9):
            mine = keys == key
            for name, column in alone({"x": x[mine], "t": t[mine]}).items():
                np.testing.assert_array_equal(got[name][mine], column)
