"""Rows pushed through ``spec.stream()``: what batch answers, however they are cut and resumed."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import ColumnError, DataError, SnapshotError
from oracle import NULL_OR_NAN
from strategies import data, engine_spec, rollings

KINDS = ("dict", "pandas", "pandas-nullable", "polars", "pyarrow")


def in_time(sample):
    """The columns with their rows in order of time."""
    order = sorted(range(len(sample.rows)), key=lambda i: sample.rows[i]["t"])
    return {name: (t, [v[i] for i in order]) for name, (t, v) in sample.columns.items()}


def cut(columns, start, stop):
    return {name: (t, v[start:stop]) for name, (t, v) in columns.items()}


def pushed(spec, columns, kind, cuts, save=False):
    """The answers of all pushes and of the end, each with the number of its row where known."""
    op, got = spec.stream(), []
    edges = [0, *sorted(cuts), len(columns["t"][1])]
    for start, stop in pairwise(edges):
        got += read(op.push(build(kind, cut(columns, start, stop))))
        if save:
            op = spec.stream(op.to_bytes())
    return got + read(op.finish())


@contextmanager
def tracks_at(cost):
    """Keys get a track at other numbers of rows: as if it cost so much (0: with their first)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mta.pool_room.TRACK", cost)
        yield


TRACK_COSTS = st.sampled_from([0, 60, 60_000])


def as_text(rows, kind):
    """Rows to compare; a NumPy column has NaN for null, whatever other chunks have."""
    alike = (None, NULL_OR_NAN) if kind in ("dict", "pandas") else ()
    return [repr({n: "none" if v in alike else v for n, v in row.items()}) for row in rows]


@given(data(max_size=20), rollings(), st.sampled_from(KINDS), st.data())
def test_any_cuts_give_what_batch_gives(sample, spec, kind, draws):
    columns, run = in_time(sample), engine_spec(spec)
    n = len(sample.rows)
    cuts = draws.draw(st.lists(st.integers(0, n), max_size=4))
    save = draws.draw(st.booleans())
    want = read(run(build(kind, columns)))
    with tracks_at(draws.draw(TRACK_COSTS)):
        got = pushed(run, columns, kind, cuts, save)
    # Answers come when they are final; where all are at once, in the order of the rows.
    got, want = as_text(got, kind), as_text(want, kind)
    assert sorted(got) == sorted(want)
    if spec.kind != "time" and spec.lag >= 0:
        assert got == want


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 3))
def test_one_row_at_a_time_comes_back_in_order(steps, length):
    ts = np.cumsum(steps, dtype=np.int64)
    frame = pd.DataFrame({"t": ts, "x": np.arange(len(ts)) * 0.1})
    spec = mta.rolling(f"{length}i", on="t").agg(s=agg.sum("x"), m=agg.max("x"))
    op = spec.stream()
    parts = [op.push(frame.iloc[i : i + 1]) for i in range(len(frame))]
    got = pd.concat([*parts, op.finish()]) if parts else spec(frame)
    pd.testing.assert_frame_equal(got, spec(frame))


def test_every_n_rows_with_their_key_and_time():
    columns = {"t": ("int64", [1, 1, 2, 2, 3, 4, 3]), "k": ("string", list("xyxyxxy"))}
    columns["x"] = ("int64", [1, 10, 2, 20, 4, 8, 40])
    spec = mta.rolling(3, on="t", by="k", every=2).agg(s=agg.sum("x"))
    op, got = spec.stream(), []
    for i in range(7):
        got += read(op.push(build("pyarrow", cut(columns, i, i + 1))))
    assert got == [
        {"k": "x", "t": 2, "s": 3},
        {"k": "y", "t": 2, "s": 30},
        {"k": "x", "t": 4, "s": 14},
    ]
    assert got == read(spec(build("pyarrow", columns)))


# ------------------------------------------------------------------------------- late rows


def rides(ts, x, k=None):
    frame = {"ts": np.array(ts), "x": np.array(x)}
    return frame if k is None else frame | {"k": np.array(k)}


def test_a_late_row_is_counted_and_kept_and_changes_nothing():
    op = mta.rolling("10i", on="ts", ties="arrival").agg(s=agg.sum("x")).stream()
    assert op.push(rides([5, 7], [1, 2]))["s"].tolist() == [1, 3]
    assert op.push(rides([6, 8], [100, 4]))["s"].tolist() == [7]
    assert op.state()["late"] == 1
    late = op.late()
    assert late["ts"].tolist() == [6]
    assert late["x"].tolist() == [100]
    assert len(op.late()["ts"]) == 0


def test_a_peer_of_rows_that_were_answered_is_late():
    op = mta.rolling("10i", on="ts", by="k").agg(s=agg.sum("x")).stream()
    assert op.push(rides([5], [1], ["a"]))["s"].tolist() == []
    assert op.push(rides([5], [2], ["a"]))["s"].tolist() == []
    assert op.push(rides([6], [4], ["b"]))["s"].tolist() == [3, 3]
    op.push(rides([5], [8], ["a"]))
    assert op.late()["x"].tolist() == [8]


def test_with_a_lag_a_peer_changes_no_answer_and_is_not_late():
    op = mta.rolling("1i", on="ts", lag="1i").agg(n=agg.count()).stream()
    got = [*op.push(rides([5], [1]))["n"], *op.push(rides([5, 5, 6], [1, 1, 1]))["n"]]
    assert got + op.finish()["n"].tolist() == [0, 0, 0, 3]
    assert op.state()["late"] == 0


def test_a_later_row_of_a_window_that_was_answered_is_late():
    op = mta.rolling("10i", on="ts", lag="-5i").agg(n=agg.count()).stream()
    op.push(rides([1, 4], [1, 1]))
    assert op.advance(7)["n"].tolist() == [2]  # the window of 1, up to 6
    assert op.push(rides([5, 6, 7], [1, 1, 1]))["n"].tolist() == []
    assert op.late()["ts"].tolist() == [5, 6]
    assert op.finish()["n"].tolist() == [3, 2]


@given(
    st.lists(st.tuples(st.sampled_from(["push", "advance"]), st.integers(0, 12)), max_size=12),
    st.integers(1, 4), st.integers(-3, 3), st.sampled_from(["right", "left", "both", "neither"]),
    st.sampled_from(["peers", "arrival"]),
)  # fmt: skip
def test_what_is_not_late_is_answered_as_in_batch(steps, length, lag, closed, ties):
    ties = ties if lag >= 0 else "peers"
    spec = mta.rolling(f"{length}i", on="ts", lag=f"{lag}i", closed=closed, ties=ties)
    spec = spec.agg(x=agg.list("x"), n=agg.count())
    op, got, kept = spec.stream(), {}, {}
    for number, (step, time) in enumerate([("push", 0), *steps]):
        if step == "push":
            kept[number] = time
            answers = op.push(pd.DataFrame({"ts": [time], "x": [number]}, index=[number]))
        else:
            answers = op.advance(time)
        got |= dict(zip(answers.index, answers["x"], strict=True))
        for number in op.late()["x"]:
            del kept[number]
    answers = op.finish()
    got |= dict(zip(answers.index, answers["x"], strict=True))
    want = spec(pd.DataFrame({"ts": list(kept.values()), "x": list(kept)}, dtype="int64"))
    assert [list(x) for x in got.values()] == [list(x) for x in want["x"]]


def test_keys_may_be_out_of_step():
    op = mta.rolling("10i", on="ts", by="k", ties="arrival").agg(s=agg.sum("x")).stream()
    got = [op.push(rides([t], [x], [k]))["s"].tolist() for t, x, k in [(9, 1, "a"), (3, 2, "b")]]
    assert got == [[1], [2]]
    assert op.state()["late"] == 0


def test_time_can_be_told_to_go_on():
    spec = mta.rolling("1h", on="ts").agg(n=agg.count())
    op = spec.stream()
    noon = dt.datetime(2026, 1, 1, 12)
    frame = pl.DataFrame({"ts": [noon, noon]})
    assert op.push(frame)["n"].to_list() == []
    assert op.advance(noon)["n"].to_list() == []
    assert op.advance(noon + dt.timedelta(microseconds=1))["n"].to_list() == [2, 2]


def test_keys_that_no_window_can_reach_are_forgotten():
    op = mta.rolling("10i", on="ts", by="k", ties="arrival").agg(s=agg.sum("x")).stream()
    for start in range(0, 5000, 100):
        ts = np.arange(start, start + 100)
        op.push({"ts": ts, "x": ts, "k": ts})
        assert op.state()["keys"] <= 400
    # A row of a forgotten key: what its window should hold is gone.
    op.push(rides([20], [1], [3]))
    assert op.state()["late"] == 1


# ------------------------------------------------------------------------------ bad input


def state_of(op):
    return op.state() | {"bytes": op.to_bytes()}


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ({"ts": np.array([9])}, ColumnError, "x"),
        ({"ts": np.array([9]), "x": np.array(["a"])}, DataError, "x"),
        ({"ts": np.array([9]), "x": np.array([1], "M8[s]")}, DataError, "numbers"),
        ({"ts": np.array([9.5]), "x": np.array([1])}, DataError, "ts"),
        (pd.DataFrame({"ts": [9], "x": [1]}), DataError, "PandasFrame"),
        ({"ts": np.array([9]), "x": np.array([2**63 - 1])}, OverflowError, "does not fit"),
    ],
)
def test_a_push_that_fails_takes_nothing_in(bad, error, words):
    spec = mta.rolling("10i", on="ts", ties="arrival").agg(s=agg.sum("x"), m=agg.mean("x"))
    op = spec.stream()
    op.push(rides([5, 6], [1, 2]))
    before = state_of(op)
    with pytest.raises(error, match=words):
        op.push(bad)
    assert state_of(op) == before
    assert op.push(rides([7], [3]))["s"].tolist() == [6]


def test_an_overflow_of_one_key_leaves_all_keys_as_they_were():
    spec = mta.rolling(2, by="k").agg(s=agg.sum("x"), d=agg.std("x"), q=agg.mean("x"))
    op, twin = spec.stream(), spec.stream()
    for one in (op, twin):
        one.push({"x": np.array([1, 2, 3, 4]), "k": np.array(list("abab"))})
    with pytest.raises(OverflowError):
        op.push({"x": np.array([5, 2**63 - 1]), "k": np.array(list("ab"))})
    more = {"x": np.array([7, 8]), "k": np.array(list("ba"))}
    assert [v.tolist() for v in op.push(more).values()] == [
        v.tolist() for v in twin.push(more).values()
    ]


def test_whole_numbers_fit_a_column_of_floats_and_others_do_not():
    op = mta.rolling(2).agg(s=agg.sum("x")).stream()
    op.push({"x": np.array([0.5])})
    assert op.push({"x": np.array([2])})["s"].tolist() == [2.5]
    with pytest.raises(DataError, match="9007199254740993"):
        op.push({"x": np.array([2**53 + 1])})
    op = mta.rolling(2).agg(s=agg.sum("x")).stream()
    op.push({"x": np.array([1])})
    with pytest.raises(DataError, match="was int64 and now is float64"):
        op.push({"x": np.array([0.5])})


def test_nulls_of_no_type_keep_numbers_and_no_texts():
    first = {"x": np.array([None, None])}
    op = mta.rolling(2).agg(n=agg.count("x")).stream()
    op.push(first)
    assert op.push({"x": np.array([2, 3])})["n"].tolist() == [1, 2]
    op = mta.rolling(2).agg(n=agg.count("x")).stream()
    op.push(first)
    with pytest.raises(DataError, match="give nulls that come first the column's type"):
        op.push({"x": np.array(["a"])})
    assert op.received == 2


# ------------------------------------------------------------------------------- snapshots


def test_a_foreign_or_damaged_state_is_refused():
    spec = mta.rolling("10i", on="ts").agg(s=agg.sum("x"))
    op = spec.stream()
    op.push(rides([1, 2], [1.0, 2.0]))
    data = op.to_bytes()
    with pytest.raises(SnapshotError, match="another specification"):
        mta.rolling("11i", on="ts").agg(s=agg.sum("x")).stream(data)
    for broken in (data[:-1], data[:60], b"", data[:80] + b"\0" + data[81:]):
        with pytest.raises(SnapshotError):
            spec.stream(broken)


def test_a_stream_that_saw_nothing_can_be_saved():
    spec = mta.rolling("10i", on="ts").agg(s=agg.sum("x"))
    op = spec.stream(spec.stream().to_bytes())
    assert op.finish() is None
    assert op.late() is None
    assert len(op.push(pa.table({"ts": [1], "x": [1.0]}))) == 0
    assert op.finish().to_pylist() == [{"s": 1.0}]


@pytest.mark.parametrize("kind", ["pandas-nullable", "polars", "pyarrow"])
def test_a_null_is_no_value_to_tell_from_others(kind):
    """Where a column begins with one, the values after it are still the same in later pushes."""
    op = mta.rolling(9).agg(n=agg.count_distinct("s"), m=agg.mode("s")).stream()
    got = []
    for values in ([None, "a"], ["a", None], ["b", "a", None]):
        got += read(op.push(build(kind, {"s": ("string", values)})))
        op = op.spec.stream(op.to_bytes())
    assert [row["n"] for row in got] == [0, 1, 1, 1, 2, 2, 2]
    assert [row["m"] for row in got] == [None, *"aaaaaa"]


@pytest.mark.parametrize("windows", [mta.rolling("1h", on="t"), mta.tumbling("1h", on="t")])
@pytest.mark.parametrize("kind", ["pandas", "pandas-arrow", "polars", "pyarrow"])
def test_times_with_a_zone_and_without_do_not_mix(kind, windows):
    op = windows.watermark().agg(n=agg.count()).stream()
    op.push(build(kind, {"t": ("timestamp[us]", [0])}))
    with pytest.raises(DataError, match=r"'t' was .* and now is .*; its times have a zone or have"):
        op.push(build(kind, {"t": ("timestamp[us, Europe/Paris]", [10**11])}))
    assert op.state()["received"] == 1


@pytest.mark.parametrize("time", [None, np.datetime64("NaT"), pd.NaT, "soon", 5])
def test_time_goes_on_to_a_time_only(time):
    op = mta.tumbling("1h", on="t", by="k").watermark().agg(n=agg.count()).stream()
    op.push({"t": np.array([0], "M8[s]"), "k": np.array([1])})
    with pytest.raises(DataError, match="advance: a time is needed"):
        op.advance(time)
    with pytest.raises(DataError, match=r"advance: key: a value of each of \('k',\) is needed"):
        op.advance(np.datetime64(1, "s"), key=(1, 2))


def test_what_holds_state_is_not_copied_half():
    """A copy would share what changes in place with what it was made of."""
    stream, window = (
        mta.rolling(3).agg(n=agg.count()).stream(),
        mta.Window(agg.count(), mta.last(3)),
    )
    for held in (stream, window):
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="not copied or pickled; see to_bytes"):
                make(held)


def test_a_closed_stream_takes_no_rows():
    op = mta.rolling(3).agg(n=agg.count()).stream(memory="64KB")
    op.close()
    with pytest.raises(DataError, match="push: the stream is closed"):
        op.push({"x": np.array([1])})
    pair = mta.rolling(3).agg(n=agg.count()), mta.rolling(5).agg(n=agg.count())
    assert eval(repr(mta.together(*pair))) == mta.together(*pair) != mta.together(*pair[:1])
