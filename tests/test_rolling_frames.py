"""Frames in and out of ``rolling``: kinds, index, names, dtypes, layouts in memory."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import KINDS, build, named_columns, read
from mta import agg
from mta.errors import ColumnError, DataError
from oracle import NULL_OR_NAN, Agg, Rolling, answers, differences
from strategies import data, engine_spec, rollings

TICKS = {"t": ("int64", [4, 1, 2, 2, 9]), "x": ("float64", [1.0, 2.0, None, 4.0, 8.0])}
LAST_THREE = mta.rolling("3i", on="t").agg(n=agg.count(), s=agg.sum("x"), m=agg.mean("x"))
LAST_THREE_ANSWERS = {"n": [3, 1, 3, 3, 1], "s": [5.0, 2.0, 6.0, 6.0, 8.0], "m": [2.5, 2, 3, 3, 8]}

TYPES = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "pandas-nullable": pd.DataFrame,
    "pandas-arrow": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.Table,
    "batch": pa.RecordBatch,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_kind_comes_back_with_just_the_answers(kind):
    result = LAST_THREE(build(kind, TICKS))
    assert type(result) is TYPES[kind]
    assert list(named_columns(result)) == ["n", "s", "m"]
    rows = read(result)
    assert {name: [row[name] for row in rows] for name in rows[0]} == LAST_THREE_ANSWERS


@given(data(), rollings(), st.integers(1, 2))
def test_a_lazy_frame_gives_what_its_rows_will_give(sample, spec, threads):
    run, frame = engine_spec(spec), build("polars", sample.columns)
    later = run(frame.lazy(), threads=threads)
    want = run(frame)
    assert later.collect_schema() == want.schema
    assert repr(read(later.collect())) == repr(read(want))


def test_a_lazy_frame_reads_what_it_needs_and_answers_all_rows():
    frame = build("polars", TICKS).lazy().with_columns(unused=pl.lit("text"))
    later = LAST_THREE(frame)
    assert "unused" not in later.explain(optimized=True)
    assert later.filter(pl.col("n") == 3).collect()["s"].to_list() == [5.0, 6.0, 6.0]
    assert later.slice(1, 2).collect()["s"].to_list() == [2.0, 6.0]
    assert mta.rolling(2).agg(n=agg.count())(frame).collect()["n"].to_list() == [1, 2, 2, 2, 2]


def test_a_lazy_frame_without_a_column_is_refused_at_once():
    with pytest.raises(ColumnError, match="no column 'x'"):
        LAST_THREE(pl.LazyFrame({"t": [1]}))


def test_a_level_of_the_index_is_no_column_and_it_is_said_how_it_becomes_one():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, pd.Index([3, 4], name="t"))
    spec = mta.rolling("1i", on="t").agg(s=agg.sum("x"))
    with pytest.raises(ColumnError, match=r"on: 't' is a level of the index; reset_index\(\)"):
        spec(frame)
    assert spec(frame.reset_index())["s"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_decimals_are_no_numbers_and_it_is_said_what_they_can_be(kind):
    amounts = pa.table({"x": pa.array([decimal.Decimal("1.10")], pa.decimal128(10, 2))})
    frame = amounts if kind == "arrow" else pl.from_arrow(amounts)
    with pytest.raises(DataError, match="cast it to float64, or to integers of its smallest unit"):
        mta.rolling(2).agg(s=agg.sum("x"))(frame)


@pytest.mark.parametrize("kind", KINDS)
def test_empty_frames_give_empty_answers_of_the_same_dtypes(kind):
    full = LAST_THREE(build(kind, {"t": TICKS["t"], "x": ("float64", [1.0] * 5)}))
    empty = LAST_THREE(build(kind, {name: (t, []) for name, (t, _) in TICKS.items()}))
    assert list(named_columns(empty)) == ["n", "s", "m"]
    assert read(empty) == []
    assert _types(empty) == _types(full)


def _types(frame):
    columns = named_columns(frame).values()
    return [str(c.type) if isinstance(c, (pa.Array, pa.ChunkedArray)) else c.dtype for c in columns]


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([10, 5, 7, 7, 1], name="id"),
        pd.Index(list("abcab")),
        pd.date_range("2020-01-01", periods=5, freq="D", tz="Europe/Paris"),
        pd.MultiIndex.from_arrays([[1, 1, 2, 2, 3], list("xyxyx")], names=["p", "q"]),
    ],
    ids=["duplicates", "strings", "dates", "multi"],
)
def test_the_index_of_pandas_is_kept(index):
    frame = build("pandas", TICKS).set_index(index)
    pd.testing.assert_index_equal(LAST_THREE(frame).index, index, exact=True)


def test_positional_aggregates_are_named_after_function_and_column():
    spec = mta.rolling(2).agg(agg.sum("x"), agg.count(), agg.max("y"), total=agg.sum("y"))
    result = spec({"x": np.arange(3.0), "y": np.arange(3)})
    assert list(result) == ["x_sum", "count", "y_max", "total"]


# ---- dtypes of answers -----------------------------------------------------------------------

ALL = mta.rolling("2i", on="t", closed="left").agg(
    n=agg.count("v"), s=agg.sum("v"), a=agg.mean("v"), lo=agg.min("v"), hi=agg.max("v")
)


def _answers_for(kind, values):
    return ALL(build(kind, {"t": ("int64", list(range(len(values[1])))), "v": values}))


def test_numpy_answers_are_int64_float64_and_masked_where_null():
    result = _answers_for("dict", ("int32", [5, 6, 7]))
    assert result["n"].dtype == result["s"].dtype == np.int64
    assert result["a"].dtype == np.float64 and math.isnan(result["a"][0])
    assert np.issubdtype(result["lo"].dtype, np.integer)
    assert isinstance(result["lo"], np.ma.MaskedArray) and result["lo"].mask.tolist() == [
        True,
        False,
        False,
    ]
    assert not isinstance(result["s"], np.ma.MaskedArray)  # an empty sum is 0, nothing is null


def test_pandas_answers_are_nullable_only_where_they_have_to_be():
    result = _answers_for("pandas", ("int64", [5, 6, 7]))
    assert [str(d) for d in result.dtypes] == ["int64", "int64", "float64", "Int64", "Int64"]
    assert result["hi"].isna().tolist() == [True, False, False]
    floats = _answers_for("pandas", ("float64", [5.0, 6.0, 7.0]))
    assert [str(d) for d in floats.dtypes] == ["int64", "float64", "float64", "float64", "float64"]


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_arrow_and_polars_answers_have_real_nulls(kind):
    result = named_columns(_answers_for(kind, ("int64", [5, 6, 7])))
    null_count = [c.null_count() if kind == "polars" else c.null_count for c in result.values()]
    assert null_count == [0, 0, 1, 1, 1]
    types = [str(c.dtype if kind == "polars" else c.type).lower() for c in result.values()]
    assert types[:2] == ["int64", "int64"] and types[2] in ("float64", "double")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "width", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_integers_of_every_width(kind, width):
    top = np.iinfo(width).max if width not in ("int64", "uint64") else 2**62
    check_values(kind, (width, [top, top - 1, None, 0, np.iinfo(width).min // 2, 1]))


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_computed_in_double(kind):
    values = [float(np.float32(v)) for v in (0.1, 0.2, 3e38, 1e-40)]
    check_values(kind, ("float32", values))


@pytest.mark.parametrize("kind", KINDS)
def test_booleans_are_zero_and_one(kind):
    columns = {"t": ("int64", [0, 1, 2, 3]), "v": ("bool", [True, None, True, False])}
    spec = mta.rolling("3i", on="t").agg(n=agg.count("v"), s=agg.sum("v"), a=agg.mean("v"))
    rows = read(spec(build(kind, columns)))
    assert [(r["n"], r["s"], r["a"]) for r in rows] == [
        (1, 1, 1.0), (1, 1, 1.0), (2, 2, 1.0), (2, 1, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "type_",
    [
        "bool",
        "date",
        "timestamp[ms]",
        "timestamp[ns, Asia/Tokyo]",
        "duration[us]",
        "int8",
        "int16",
        "int64",
        "uint8",
        "uint32",
        "uint64",
        "float32",
        "float64",
    ],
)
def test_extremes_keep_the_type_of_their_column(kind, type_):
    if kind == "dict" and "," in type_:
        type_ = "timestamp[ns]"  # NumPy has no zones
    ticks = [True, False, True] if type_ == "bool" else [5, 3, 4]
    frame = build(kind, {"v": (type_, ticks)})
    result = mta.rolling(2).agg(lo=agg.min("v"), hi=agg.max("v"))(frame)
    expected = [(ticks[i], ticks[j]) for i, j in ((0, 0), (1, 0), (1, 2))]
    values = [row["v"] for row in read(frame)]
    value_of = dict(zip(ticks, values, strict=True))
    assert [(r["lo"], r["hi"]) for r in read(result)] == [
        (value_of[lo], value_of[hi]) for lo, hi in expected
    ]
    assert _types(result) == _types(frame) * 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type_", ["int16", "uint64", "float32", "bool", "date", "timestamp[ms]"])
def test_extremes_keep_their_type_where_some_are_null(kind, type_):
    values = [True, None, False] if type_ == "bool" else [5, None, 3]
    frame = build(kind, {"v": (type_, values)})
    result = mta.rolling(1, closed="left").agg(hi=agg.max("v"))(frame)
    got, given_ = [r["hi"] for r in read(result)], [r["v"] for r in read(frame)]
    nulls = (None, NULL_OR_NAN, pd.NaT)
    assert got[0] in nulls and got[2] in nulls and got[1] == given_[0]
    # NumPy-backed pandas has no null among integers and booleans.
    if kind == "pandas" and type_ in ("int16", "uint64", "bool"):
        assert str(result["hi"].dtype) == {"int16": "Int16", "uint64": "UInt64"}.get(
            type_, "boolean"
        )
    else:
        assert _types(result) == _types(frame)


def test_extremes_of_objects():
    """Times stay the objects they were; numbers are answered in the type that holds them."""
    days = [dt.date(2024, 2, 29), dt.date(2024, 2, 28), dt.date(9999, 12, 31)]
    stamps = [dt.datetime(2024, 2, 29, 1), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)]
    for values in (days, stamps):
        array = np.array([*values, None, None], dtype=object)
        expected = [values[0], values[0], values[2], values[2], None]
        for frame in ({"v": array}, pd.DataFrame({"v": pd.Index(array, dtype=object)})):
            answer = mta.rolling(2).agg(hi=agg.max("v"))(frame)["hi"]
            assert answer.dtype == object and list(answer) == expected
    numbers = {"v": np.array([2**63, None, 1], dtype=object)}
    assert mta.rolling(1).agg(m=agg.max("v"))(numbers)["m"].dtype == np.uint64


@pytest.mark.parametrize("kind", ["pandas", "pandas-nullable", "polars", "pyarrow"])
@pytest.mark.parametrize("type_", ["timestamp[us, UTC]", "duration[ms]"])
def test_extremes_of_times_with_nulls(kind, type_):
    frame = build(kind, {"v": (type_, [None, 5, 3, None, None])})
    values = read(frame)
    result = read(mta.rolling(2).agg(hi=agg.max("v"))(frame))
    assert result[0]["hi"] is None or result[0]["hi"] is pd.NaT
    assert [r["hi"] for r in result[1:4]] == [values[i]["v"] for i in (1, 1, 2)]
    assert result[4]["hi"] is None or result[4]["hi"] is pd.NaT


def check_values(kind, values):
    aggs = {fn: Agg(fn, "v") for fn in ("count", "sum", "mean", "min", "max", "var", "std")}
    spec = Rolling(aggs, "rows", 3)
    rows = [{"v": v} for v in values[1]]
    wrong = differences(read(engine_spec(spec)(build(kind, {"v": values}))), answers(spec, rows))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("string", ["a", None, ""]),
        ("bool", [False, None, True]),
        ("category", ["b", None, "a"]),
        ("timestamp[us]", [0, None, 5]),
        ("timestamp[ns, Asia/Tokyo]", [0, None, 5]),
        ("duration[ms]", [0, None, 5]),
        ("date", [0, None, 5]),
    ],
)
def test_values_of_any_type_can_be_counted(kind, type_, values):
    if kind == "dict" and type_ == "date":
        values = [0, 3, 5]  # the builder writes dates with nulls as a masked array of days
    spec = mta.rolling(None).agg(n=agg.count("v"), all=agg.count_all())
    rows = read(spec(build(kind, {"v": (type_, values)})))
    present = np.cumsum([v is not None for v in values]).tolist()
    assert [r["n"] for r in rows] == present and [r["all"] for r in rows] == [1, 2, 3]


# ---- windows of rows without a time ------------------------------------------------------------


@pytest.mark.parametrize("lag", [0, 1, 3, -1, -9])
@pytest.mark.parametrize("closed", ["right", "left"])
def test_everything_so_far_with_a_lag_of_rows(lag, closed):
    values = [1, 2, 4, 8, 16]
    spec = mta.rolling(None, lag=lag, closed=closed).agg(s=agg.sum("x"))
    ends = [max(0, i - lag + (closed == "right")) for i in range(5)]
    assert spec({"x": np.array(values)})["s"].tolist() == [sum(values[:end]) for end in ends]


# ---- layouts in memory -----------------------------------------------------------------------


def _same(frame):
    rows = read(LAST_THREE(frame))
    assert {name: [row[name] for row in rows] for name in rows[0]} == LAST_THREE_ANSWERS


def test_chunked_and_sliced_arrow():
    table = build("pyarrow", TICKS)
    padded = pa.concat_tables([table, table, table])
    _same(padded.slice(5, 5))
    _same(padded.combine_chunks().slice(5, 5))
    _same(padded.combine_chunks().to_batches()[0].slice(5, 5))
    _same(pa.concat_tables([table.slice(0, 2), table.slice(2, 0), table.slice(2, 3)]))


def test_chunked_and_sliced_polars():
    frame = build("polars", TICKS)
    _same(pl.concat([frame[:2], frame[2:]], rechunk=False))
    _same(pl.concat([frame, frame])[5:])
    _same(pl.concat([frame, frame]).slice(5, 5))


def test_views_of_numpy_and_pandas():
    plain = {
        "t": np.array(TICKS["t"][1]),
        "x": np.ma.MaskedArray([1.0, 2, 3, 4, 8], [0, 0, 1, 0, 0]),
    }
    _same(plain)
    _same({n: np.repeat(c, 2)[::2] for n, c in plain.items()})
    _same({n: c[::-1].copy()[::-1] for n, c in plain.items()})
    _same({n: c.astype(c.dtype.newbyteorder()) for n, c in plain.items()})
    for column in plain.values():
        column.flags.writeable = False
    _same(plain)
    wide = pd.DataFrame(np.arange(20.0).reshape(5, 4), columns=list("abcx"))  # rows of one block
    got = mta.rolling(2).agg(s=agg.sum("x"))(wide)["s"].tolist()
    assert got == [3.0, 10.0, 18.0, 26.0, 34.0]


def test_object_columns_of_pandas_and_numpy():
    """What people have who built a frame from Python objects."""
    ints = pd.DataFrame({"x": pd.Series([1, None, 2**60, 2**60 + 1], dtype=object)})
    assert read(mta.rolling(2).agg(s=agg.sum("x"))(ints)) == [
        {"s": 1}, {"s": 1}, {"s": 2**60}, {"s": 2**61 + 1},
    ]  # fmt: skip
    floats = {"x": np.array([1.5, None, 2, math.nan], dtype=object)}
    assert [r["n"] for r in read(mta.rolling(None).agg(n=agg.count("x"))(floats))] == [1, 1, 2, 3]


@pytest.mark.parametrize("make", [mta.rolling(2), mta.tumbling("9i", on="t")])
@pytest.mark.parametrize(
    "name", ["t", "small", "flag", "x", "nullable", "maybe", "objects", "text"]
)
def test_columns_of_numpy_beside_those_of_arrow(name, make):
    columns = {
        "t": np.array([1, 2, 3]),
        "arrow": pd.array([1, None, 3], dtype="int64[pyarrow]"),
        "small": np.array([1, 2, 3], "int8"),
        "flag": np.array([True, False, True]),
        "x": np.array([1, 2, math.nan], "float32"),
        "nullable": pd.array([1, None, 2], dtype="Int8"),
        "maybe": pd.array([True, None, False], dtype="boolean"),
        "objects": pd.Series([1, None, 2], dtype=object),
        "text": ["a", None, "b"],
    }
    aggs = {"last": agg.last(name), "all": agg.list(name), "mode": agg.mode(name)}
    mixed, plain = pd.DataFrame(columns), pd.DataFrame(columns).drop(columns="arrow")
    by = {} if make.over_rows else {"by": (name,)}
    spec = dataclasses.replace(make, **by).agg(**aggs)
    pd.testing.assert_frame_equal(spec(mixed)[["last", "mode"]], spec(plain)[["last", "mode"]])
    assert list(map(list, spec(mixed)["all"])) == list(map(list, spec(plain)["all"])) or name == "x"


def test_nan_and_null_of_nullable_pandas_are_told_apart():
    frame = build("pandas-nullable", {"x": ("float64", [1.0, math.nan, None])})
    rows = read(mta.rolling(1).agg(s=agg.sum("x"), n=agg.count("x"))(frame))
    assert rows[1] == {"s": NULL_OR_NAN, "n": 1}
    assert rows[2] == {"s": 0.0, "n": 0}


def test_columns_that_the_spec_does_not_name_may_be_anything():
    table = build("pyarrow", TICKS)
    odd = table.append_column("odd", pa.array([[1], None, [], [2, 3], [4]]))
    odd = odd.append_column("deep", pa.array([{"a": 1}] * 5))
    _same(odd)
    _same(pl.from_arrow(odd))
    _same({**build("dict", TICKS), "odd": np.array([object()] * 5, dtype=object)})
    _same(build("pandas", TICKS).assign(odd=[object()] * 5))


@given(data(max_size=8), st.sampled_from(KINDS))
def test_the_input_is_left_as_it_was(sample, kind):
    frame = build(kind, sample.columns)
    before = copy.deepcopy(read(frame))
    engine_spec(Rolling({"s": Agg("std", "x")}, "time", 3, "t", ("k0",)))(frame)
    assert repr(read(frame)) == repr(before)


def test_several_outputs_do_not_share_memory():
    result = mta.rolling(2).agg(a=agg.sum("x"), b=agg.sum("x"))({"x": np.arange(4.0)})
    result["a"][:] = -1
    assert result["b"].tolist() == [0.0, 1.0, 3.0, 5.0]


@pytest.mark.parametrize("kind", KINDS)
def test_one_spec_serves_frames_of_different_types_in_turn(kind):
    spec = mta.rolling(2).agg(s=agg.sum("x"))
    assert [r["s"] for r in read(spec(build(kind, {"x": ("int64", [1, 2])})))] == [1, 3]
    assert [r["s"] for r in read(spec(build(kind, {"x": ("float64", [0.5, 2.0])})))] == [0.5, 2.5]
    assert [r["s"] for r in read(spec(build(kind, {"x": ("int64", [1, 2])})))] == [1, 3]


def test_one_spec_runs_in_several_threads():
    rng = np.random.default_rng(0)
    frames = [{"k": rng.integers(0, 9, 5000), "x": rng.normal(size=5000)} for _ in range(8)]
    spec = mta.rolling(50, by="k").agg(s=agg.sum("x"), v=agg.var("x"), m=agg.max("x"))
    alone = [spec(frame) for frame in frames]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(spec, frames * 4))
    for number, answer in enumerate(together):
        for name, column in alone[number % 8].items():
            np.testing.assert_array_equal(answer[name], column)


def test_plain_dates_of_python_are_times():
    frame = pd.DataFrame({"t": [dt.date(2024, 2, 28), dt.date(2024, 3, 1)], "x": [1, 2]})
    assert mta.rolling("2d", on="t").agg(s=agg.sum("x"))(frame)["s"].tolist() == [1, 2]
    assert mta.rolling("3d", on="t").agg(s=agg.sum("x"))(frame)["s"].tolist() == [1, 3]
    array = frame["t"].to_numpy()
    assert array.dtype == object
    assert mta.rolling("3d", on="t").agg(n=agg.count())({"t": array})["n"].tolist() == [1, 2]


def test_plain_datetimes_of_python_are_times():
    times = [dt.datetime(2024, 2, 28, 12), dt.datetime(2024, 2, 28, 12, 0, 0, 1)]
    array = np.array([*times, dt.datetime(1, 1, 1)], dtype=object)
    spec = mta.rolling("1us", on="t", closed="both").agg(n=agg.count())
    for frame in ({"t": array}, pd.DataFrame({"t": pd.Index(array, dtype=object)})):
        assert list(spec(frame)["n"]) == [1, 2, 1]


@pytest.mark.parametrize("odd", [
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc),  # beside one without a zone
    pd.Timestamp(1),  # a nanosecond, which no datetime has
    dt.date(2024, 1, 1),  # beside a datetime
    dt.time(1), "2024-01-01", 5,
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("wrap", [dict, pd.DataFrame])
def test_objects_that_are_not_all_naive_times(odd, wrap):
    array = np.array([dt.datetime(2024, 1, 1), odd], dtype=object)
    frame = wrap({"t": pd.Index(array, dtype=object) if wrap is pd.DataFrame else array})
    with pytest.raises(DataError, match="'t'"):
        mta.rolling("1h", on="t").agg(n=agg.count())(frame)


@pytest.mark.parametrize("values", [
    [2**53 + 1, 0.5], [2**1100, 0.5], [0.5, np.int64(2**53 + 1)], [2**64, 0], [-1, 2**63],
], ids=str)  # fmt: skip
@pytest.mark.parametrize("wrap", [dict, pd.DataFrame])
def test_integers_among_objects_are_exact_or_refused(values, wrap):
    array = np.array(values, dtype=object)
    frame = wrap({"x": pd.Index(array, dtype=object) if wrap is pd.DataFrame else array})
    with pytest.raises(DataError, match="'x'"):
        mta.rolling(2).agg(s=agg.sum("x"))(frame)
