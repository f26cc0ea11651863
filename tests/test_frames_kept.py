"""What streams keep of frames that are pushed: put together, and as the bytes of a snapshot."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import mta
from kinds import build, read
from mta import agg
from mta._frames_bytes import bytes_frame, frame_bytes
from mta.errors import ColumnError, DataError
from mta.frames import open_frame
from oracle import NULL_OR_NAN

KINDS = ("dict", "pandas", "pandas-nullable", "pandas-arrow", "polars", "pyarrow")
CODES = pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))
DECIMAL = pd.ArrowDtype(pa.decimal128(10, 2))
PANDAS = {
    "integers as objects": pd.Series([1, None, 2], dtype=object),
    "texts as objects": pd.Series(["a", None, "b"], dtype=object),
    "NaN as an object": pd.Series([1.5, None, float("nan")], dtype=object),
    "nulls as objects": pd.Series([None, None, None], dtype=object),
    "texts": pd.Series(["a", None, "b"], dtype="str"),
    "texts with NA": pd.Series(["a", None, "b"], dtype="string"),
    "Arrow's texts": pd.Series(["a", None, "b"], dtype=pd.ArrowDtype(pa.string())),
    "decimals": pd.Series([decimal.Decimal("1.5"), None, None], dtype=DECIMAL),
    "codes": pd.Series(["a", None, "b"], dtype=CODES),
    "categories": pd.Series(pd.Categorical(["a", None, "b"], ["b", "a"], ordered=True)),
    "integers": pd.Series([1, None, 2], dtype="Int64"),
    "floats": pd.Series([1.0, float("nan"), None], dtype="float64"),
    "times": pd.Series(["2024-01-01", None, "2024-01-02"]).astype("datetime64[us, Asia/Tokyo]"),
}  # fmt: skip
NUMPY = {
    "bytes the other way": np.array([1, 2**20], ">i4"),
    "years": np.array(["2024", "NaT"], "M8[Y]"),
    "steps of 25 s": np.array(["2024-01-01T00:00:25", "1969-12-31T23:59:35"], "M8[25s]"),
    "hours": np.array([3, -5], "m8[h]"),
}


@pytest.mark.parametrize("name", PANDAS)
def test_pandas_columns_come_back_from_bytes_with_their_types(name):
    given = PANDAS[name]
    frame = pd.DataFrame({"n": [1, 2, 3], "x": given, "y": given}).set_index(pd.Index([5, 5, 6]))
    back = bytes_frame(frame_bytes(open_frame(frame))).data
    pd.testing.assert_frame_equal(back, frame)
    kinds = [[type(v) for v in column.tolist()] for column in (back["x"], given)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_arrays_come_back_from_bytes_with_their_types(name):
    back = bytes_frame(frame_bytes(open_frame({"x": NUMPY[name]}))).data["x"]
    assert back.dtype == NUMPY[name].dtype
    assert back.astype(str).tolist() == NUMPY[name].astype(str).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [("string", "string"), ("string", "category")])
def test_null_is_one_key_over_a_snapshot_and_whatever_its_pushes_hold(kind, texts):
    if kind in ("polars", "pyarrow") and texts[1] == "category":
        texts = ("string", "string")  # one schema has one type of text
    spec = mta.tumbling("10i", on="ts", by="k").watermark(delay="50i")
    spec = spec.agg(n=agg.count_all(), texts=agg.list("k"))
    op = spec.stream()
    for keys in (["a", None], [None], ["b", None]):
        for text in texts:
            op.push(build(kind, {"ts": ("int64", [1] * len(keys)), "k": (text, keys)}))
        op = spec.stream(op.to_bytes())
    got = sorted((row["n"], row["texts"]) for row in read(op.finish()))
    assert got == [(2, ["a"] * 2), (2, ["b"] * 2), (6, [])]


@pytest.mark.parametrize("as_frame", [dict, pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    "keys", [[None, "a", "b", "a"], ["a", None, None, "b"], [None, None, "a", "b"]]
)
def test_windows_answered_together_may_have_only_nulls_or_texts(as_frame, keys):
    spec = mta.tumbling("10i", on="ts", by="k").watermark(delay="0i")
    op = spec.agg(last=agg.last("k"), texts=agg.list("k")).stream()
    got = []
    for rows in (slice(0, 1), slice(1, 2), slice(2, 4)):
        ts, k = np.array([1, 11, 21, 31])[rows], np.array(keys, object)[rows]
        plain = as_frame in (dict, pd.DataFrame)
        got += read(op.push(as_frame({"ts": ts, "k": k} if plain else {"ts": ts, "k": k.tolist()})))
    got += read(op.finish())
    assert [None if row["k"] is NULL_OR_NAN else row["k"] for row in got] == keys
    assert [row["texts"] for row in got] == [[] if key is None else [key] for key in keys]


@pytest.mark.parametrize("windows", [mta.rolling("9i", on="ts"), mta.tumbling("9i", on="ts")])
@pytest.mark.parametrize("as_frame", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_first_push_of_nulls_leaves_the_type_open(as_frame, windows):
    op = windows.watermark(delay="9i").agg(top=agg.max("x"), all=agg.list("x")).stream()
    nulls = np.array([None], object) if as_frame in (dict, pd.DataFrame) else [None]
    got = read(op.push(as_frame({"ts": [1], "x": nulls})))
    got += read(op.push(as_frame({"ts": [2, 3], "x": [5, 7]})))
    got += read(op.finish())
    assert (got[-1]["top"], got[-1]["all"]) == (7, [5, 7])


@pytest.mark.parametrize("windows", [mta.rolling("9i", on="ts"), mta.tumbling("9i", on="ts")])
@pytest.mark.parametrize("kind", KINDS)
def test_a_later_push_of_nulls_fits_any_type(kind, windows):
    spec = windows.watermark(delay="0i").agg(text=agg.last("k"), top=agg.max("x"))
    op, got = spec.stream(), []
    for ts, k, x in (([1], ["a"], [3]), ([2], [None], [None]), ([10], ["b"], [1])):
        columns = {"ts": ("int64", ts), "k": ("string", k), "x": ("int64", x)}
        if k == [None]:
            nulls = np.array([None], object)
            frame = {"dict": dict, "polars": pl.DataFrame, "pyarrow": pa.table}.get(
                kind, pd.DataFrame
            )
            plain = kind in ("polars", "pyarrow")
            more = {"k": [None], "x": [None]} if plain else {"k": nulls, "x": nulls}
            got += read(op.push(frame({"ts": np.array(ts), **more})))
        else:
            got += read(op.push(build(kind, columns)))
    got += read(op.finish())
    assert (got[0]["text"], got[0]["top"]) == ("a", 3)
    assert (got[-1]["text"], got[-1]["top"]) == ("b", 1)


@pytest.mark.parametrize("windows", [mta.rolling("9i", on="ts"), mta.tumbling("9i", on="ts")])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("first", "then"),
    [(("int64", [2**53 + 1]), ("float64", [0.5])), (("int64", [1]), ("string", ["a"])),
     (("string", ["a"]), ("int64", [1])), (("bool", [True]), ("int64", [2])),
     (("float64", [0.5]), ("int64", [2**53 + 1]))],
)  # fmt: skip
def test_a_column_keeps_its_type_over_pushes(kind, windows, first, then):
    spec = windows.watermark(delay="0i").agg(last=agg.last("x"))
    op = spec.stream(plan="rows") if isinstance(spec, mta.Hopping) else spec.stream()
    op.push(build(kind, {"ts": ("int64", [1]), "x": first}))
    with pytest.raises(DataError, match=r"column 'x'"):
        op.push(build(kind, {"ts": ("int64", [2]), "x": then}))
    assert [row["last"] for row in read(op.finish())] == first[1]


def test_dates_as_objects_are_kept_as_dates():
    op = mta.tumbling("2d", on="day").watermark(delay="9d").agg(last=agg.last("day")).stream()
    for day in (1, 2):
        op.push(pd.DataFrame({"day": pd.Series([dt.date(2024, 1, day)], dtype=object)}))
        op = op.spec.stream(op.to_bytes())
    assert op.finish()["last"].astype(str).tolist()[-1].startswith("2024-01-02")


EMPTY = {
    "pandas": lambda: pd.DataFrame(columns=["ts", "k", "x"]),
    "polars": lambda: pl.DataFrame({"ts": [], "k": [], "x": []}),
    "pyarrow": lambda: pa.table({name: pa.nulls(0) for name in ("ts", "k", "x")}),
    "dict": lambda: {"ts": [], "k": [], "x": []},
}


@pytest.mark.parametrize("memory", [None, "64KB"])
@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize(
    "windows",
    [mta.rolling("2d", on="ts", by="k"), mta.rolling("2d", on="ts", by="k").watermark("1h"),
     mta.tumbling("2d", on="ts", by="k").watermark("1h"),
     mta.calendar("1 day", on="ts", by="k").watermark()],
)  # fmt: skip
def test_of_no_rows_nothing_tells_the_types(windows, kind, memory):
    """As a poll gives them that has found nothing: before the first rows, between them, after."""
    op = windows.agg(n=agg.count(), total=agg.sum("x")).stream(memory=memory)
    got, late = [], []
    for hour in (None, 0, None, 60, 2, None):
        columns = {"ts": ("timestamp[us]", [3_600_000_000 * (hour or 0)]), "k": ("string", ["a"])}
        frame = EMPTY[kind]() if hour is None else build(kind, {**columns, "x": ("int64", [2**60])})
        got += read(op.push(frame))
    with pytest.raises(ColumnError, match="x"):
        op.push(
            pl.DataFrame({"ts": [], "k": []}) if kind == "polars" else _without(EMPTY[kind](), "x")
        )
    got, late = got + read(op.finish()), read(op.late())
    assert sum(row["n"] for row in got) == 2
    assert all(row["total"] == row["n"] * 2**60 for row in got)
    assert len(late) == 1


def _without(frame, name):
    if isinstance(frame, dict):
        return {n: v for n, v in frame.items() if n != name}
    return frame.drop(columns=name) if isinstance(frame, pd.DataFrame) else frame.drop_columns(name)


def test_a_first_push_of_no_rows_that_tells_its_types_is_one():
    """After it calls know what a time is."""
    op = mta.tumbling("10i", on="ts").watermark("0i").agg(n=agg.count()).stream()
    assert read(op.push({"ts": np.array([], "int64")})) == []
    op.advance(20)
    assert read(op.push({"ts": np.array([15, 25])})) == []
    assert (op.state()["late"], [row["n"] for row in read(op.finish())]) == (1, [1])


TIMES = {
    "dates": (lambda day: dt.date(2024, 1, day), "d"),
    "datetimes": (lambda day: dt.datetime(2024, 1, day), "d"),
    "integers": (int, "i"),
}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame])
@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("aggs", [{"n": agg.count()}, {"top": agg.max("ts"), "x": agg.last("x")}])
@pytest.mark.parametrize("windows", ["rolling", "rolling by watermark", "tumbling"])
def test_columns_of_objects_are_known_again_after_a_snapshot(windows, aggs, times, kind):
    """That a frame of no rows has no objects to tell their type by leaves no trace."""
    make, unit = TIMES[times]
    windows, *told = windows.split(" by ")
    spec = getattr(mta, windows)(f"3{unit}", on="ts")
    spec = (spec.watermark(f"2{unit}") if told or windows == "tumbling" else spec).agg(**aggs)
    answers = []
    for save in (False, True):
        op, got = spec.stream(), []
        for day in (1, 5, 6, 9, 10):
            got += read(
                op.push(kind({name: np.array([make(day)], object) for name in ("ts", "x")}))
            )
            op = spec.stream(op.to_bytes()) if save else op
        answers.append(repr(got + read(op.finish())))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("windows", [mta.rolling("9i", on="ts"), mta.tumbling("9i", on="ts")])
@pytest.mark.parametrize("kind", [*KINDS, "batch"])
def test_with_memory_a_frame_is_the_only_batch(kind, windows):
    spec, columns = windows.agg(n=agg.count()), {"ts": ("int64", [1, 2, 10])}
    parts = list(spec(build(kind, columns), memory="64KB"))
    assert [row["n"] for part in parts for row in read(part)] == [
        row["n"] for row in read(spec(build(kind, columns)))
    ]


VIEWED = {
    "texts": pa.array(["a", None, "b", "a"], pa.string_view()),
    "bytes": pa.array([b"a", None, b"b", b"a"], pa.binary_view()),
    "runs": pc.run_end_encode(pa.array([1, 1, None, 2])),
    "within": pa.array(
        [{"a": "x"}, None, {"a": "y"}, {"a": "x"}], pa.struct({"a": pa.string_view()})
    ),
}


@pytest.mark.parametrize("name", VIEWED)
@pytest.mark.parametrize("windows", [mta.rolling("2i", on="ts"), mta.tumbling("2i", on="ts")])
def test_arrow_types_that_arrow_itself_takes_no_rows_of(name, windows):
    """Views, above all, as `pa.table` makes them of polars' texts."""
    table = pa.table({"ts": [2, 0, 3, 1], "v": VIEWED[name], "other": VIEWED["texts"]})
    spec = windows.agg(a=agg.first("v"), n=agg.count("v"), all=agg.list("v"))
    expected = spec(table)
    op = spec.watermark("9i").stream()
    for row in range(4):
        op.push(table.slice(row, 1))
    if name == "texts":
        op = op.spec.stream(op.to_bytes())
    answers = op.finish()
    given, wanted = ([repr([r["a"], r["n"], r["all"]]) for r in t.to_pylist()]
                     for t in (answers, expected))  # fmt: skip
    assert sorted(given) == sorted(wanted)
    assert answers.schema.field("a").type == expected.schema.field("a").type
    op = mta.rolling("2i", on="ts").watermark("0i").agg(n=agg.count()).stream()
    op.push(table)
    assert op.late()["other"].to_pylist() == [None, "a"]


@pytest.mark.parametrize("make", [agg.first, agg.mode, agg.last])
@pytest.mark.parametrize("memory", [None, "1MB"])
def test_values_without_nulls_keep_their_type_in_a_stream(make, memory):
    """They came masked, or as pandas' nullable integers, where a batch gives plain ones."""
    rows = {"v": np.array([3, 1, 2], np.int8), "b": np.array([True, False, True])}
    spec = mta.rolling(2).agg(v=make("v"), b=make("b"))
    for frame in (rows, pd.DataFrame(rows)):
        batch, pushed = spec(frame), spec.stream(memory=memory).push(frame)
        for name in rows:
            assert type(pushed[name]) is type(batch[name])
            assert pushed[name].dtype == batch[name].dtype
            assert pushed[name].tolist() == batch[name].tolist()


@pytest.mark.parametrize(
    "windows",
    [
        mta.rolling("5i", on="ts", by="k"),
        mta.rolling("5i", on="ts", by="k").watermark("1i"),
        mta.tumbling("5i", on="ts", by="k").watermark("1i"),
    ],
)
@pytest.mark.parametrize("memory", [None, "1MB"])
def test_keys_of_another_type_that_are_refused_leave_no_trace(windows, memory):
    """Their numbers stayed, without keys, and the next new key was out of bounds."""
    spec = windows.agg(n=agg.count())
    op, other = spec.stream(memory=memory), spec.stream(memory=memory)
    first = pa.table({"ts": [1, 2], "k": ["a", "b"]})
    op.push(first), other.push(first)
    state = op.state()
    with pytest.raises(DataError, match=r"the keys are not of the types|was string and now is"):
        op.push(pa.table({"ts": [3, 3], "k": [7, 8]}))
    assert op.state() == state
    then = pa.table({"ts": [3, 9, 19], "k": ["c", "a", "d"]})
    assert op.push(then).equals(other.push(then))
    assert op.finish().equals(other.finish())


def test_numpy_keeps_keys_of_several_types_apart():
    """It would join 7 and "a" to texts, and 7 came out as "7"."""
    op = mta.rolling("5i", on="ts", by="k").watermark("9i").agg(n=agg.count()).stream()
    op.push({"ts": np.array([1, 1]), "k": np.array(["a", "7"])})
    op.push({"ts": np.array([1, 1]), "k": np.array([7, 8])})
    assert op.finish()["k"].tolist() == ["a", "7", 7, 8]


TEXT_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
]


@pytest.mark.parametrize("first", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("memory", [None, "1MB"])
def test_arrow_has_several_types_of_texts_and_all_go_on_as_the_first(first, memory):
    spec = mta.rolling(3).agg(f=agg.first("v"), m=agg.mode("v"), n=agg.count_distinct("v"))
    op, got = spec.stream(memory=memory), []
    for number, kind in enumerate([first, *TEXT_TYPES]):
        values = pa.array(["x" if number % 2 else "y"]).cast(pa.string()).cast(kind)
        answers = op.push(pa.table({"v": values}))
        assert answers.schema.field("f").type == first
        got += read(answers)
    assert [row["f"] for row in got] == ["y", "y", "y", "x", "y"]
    assert [row["n"] for row in got] == [1, 2, 2, 2, 2]
    state = op.state()
    for other in (pa.array([b"x"]), pa.array([5])):
        with pytest.raises(DataError, match=r"column 'v' was .* and now is (binary|int64)"):
            op.push(pa.table({"v": other}))
    assert op.state() == state
