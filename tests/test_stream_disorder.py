"""Trailing windows over rows in any order: a batch over those that were not late, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import DataError, SpecError
from strategies import EVERY, NUMERIC, data, engine_spec, rollings
from test_stream import TRACK_COSTS, as_text, cut, tracks_at

KINDS = ("dict", "pandas", "pandas-nullable", "polars", "pyarrow")
DELAYS = st.sampled_from([0, 1, 3, 8, 40])


def over_time(draws, fns=EVERY):
    """A rolling spec with a time column, and perhaps with `every`."""
    spec = draws.draw(rollings(fns).filter(lambda spec: spec.on is not None))
    made = engine_spec(spec)
    every, by = draws.draw(st.sampled_from([None, None, 2, 3])), ("rank", "arrival")
    if every is None:
        return made
    return replace(made, every=every, every_by=draws.draw(st.sampled_from(by)))


def on_time(ts, delay):
    """The rows that are not late, told row by row as the words say."""
    mark, kept = -(2**62), []
    for row, t in enumerate(ts):
        if t >= mark:
            kept.append(row)
        mark = max(mark, t - delay)
    return kept


def only(columns, rows):
    return {name: (t, [v[i] for i in rows]) for name, (t, v) in columns.items()}


def pushed(spec, columns, kind, cuts, save=False):
    """The answers of every call, and the stream."""
    op, made = spec.stream(), []
    for start, stop in pairwise([0, *sorted(cuts), len(columns["t"][1])]):
        made.append(op.push(build(kind, cut(columns, start, stop))))
        if save:
            op = spec.stream(op.to_bytes())
    return [*made, op.finish()], op


@given(data(max_size=20, keys=("string", "int64")), st.sampled_from(KINDS), DELAYS, st.data())
def test_any_order_and_any_cuts_give_what_batch_gives(sample, kind, delay, draws):
    # (A NumPy text column has no type as long as all its values are null.)
    typed = kind in ("pandas-nullable", "polars", "pyarrow")
    spec = over_time(draws, EVERY if typed else NUMERIC).watermark(f"{delay}i")
    ts = sample.columns["t"][1]
    kept = on_time(ts, delay)
    columns = only(sample.columns, kept)
    whole = replace(spec, progress=None)
    want = read(whole(build(kind, columns)))
    cuts = draws.draw(st.lists(st.integers(0, len(ts)), max_size=4))
    with tracks_at(draws.draw(TRACK_COSTS)):
        made, op = pushed(spec, sample.columns, kind, cuts, draws.draw(st.booleans()))
    names = [name for name, _ in spec.aggs]
    rows = [row for answers in made for row in read(answers)]
    got = [{name: row[name] for name in names} for row in rows]
    want = [{name: row[name] for name in names} for row in want]
    assert sorted(as_text(got, kind)) == sorted(as_text(want, kind))
    # None is lost: answered or late.
    state = op.state()
    assert state["received"] == len(ts)
    assert state["late"] == len(ts) - len(kept) == len(op.late()["t"])
    assert state["waiting"] == 0


@given(data(max_size=24), DELAYS, st.data())
def test_each_row_has_its_own_answer(sample, delay, draws):
    """By the index of pandas, and by the columns of key and time."""
    spec = over_time(draws).watermark(f"{delay}i")
    kept = on_time(sample.columns["t"][1], delay)
    frame = build("pandas-arrow", sample.columns)
    want = replace(spec, progress=None)(frame.iloc[kept])
    n = len(frame)
    cuts = draws.draw(st.lists(st.integers(0, n), max_size=4))
    op, made = spec.stream(), []
    for start, stop in pairwise([0, *sorted(cuts), n]):
        made.append(op.push(frame.iloc[start:stop]))
        assert made[-1].index.is_monotonic_increasing
    got = pd.concat([*made, op.finish()]).sort_index()
    labels = list(dict.fromkeys([*spec.by, "t"]))
    assert list(got.columns) == [*labels, *(name for name, _ in spec.aggs)]
    answers = want[[name for name, _ in spec.aggs]]
    assert repr(got[answers.columns].to_dict("list")) == repr(answers.to_dict("list"))
    assert got.index.tolist() == want.index.tolist()
    assert repr(got[labels].to_dict("list")) == repr(frame.loc[got.index, labels].to_dict("list"))


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize("delay", [3, 300])
def test_long_disorder_to_the_last_bit(size, by, delay):
    """Many runs and keys that come and go, over values that show every rounding."""
    rng = np.random.default_rng(size)
    n = 5000 if size > 1 else 700
    frame = pd.DataFrame({"t": np.arange(n) + rng.integers(0, delay, n) - n // 2})
    frame["k"] = (frame["t"] // 60) * 7 + rng.integers(0, 3, n)  # most keys die
    frame["x"] = rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, n)
    spec = mta.rolling("25i", on="t", by=by).agg(s=agg.sum("x"), d=agg.std("x"), m=agg.max("x"))
    op = spec.watermark(f"{delay}i").stream()
    op.sweep_at = 4
    parts = [op.push(frame.iloc[i : i + size]) for i in range(0, n, size)]
    if by:
        assert op.state()["keys"] < (100 if size < 100 else 400)
    got = pd.concat([*parts, op.finish()]).sort_index()[["s", "d", "m"]]
    pd.testing.assert_frame_equal(got, spec(frame), check_exact=True)
    assert op.state()["late"] == 0


def test_keys_whose_kernels_were_let_go_of_go_on_to_the_last_bit(monkeypatch):
    monkeypatch.setattr("mta.keyed.AWAKE", 3)
    monkeypatch.setattr("mta.pool_room.TRACK", 0)  # all keys get one
    rng = np.random.default_rng(9)
    n = 3000
    frame = pd.DataFrame({"t": np.arange(n) + rng.integers(0, 50, n), "k": rng.integers(0, 9, n)})
    frame["x"] = rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, n)
    spec = mta.rolling("200i", on="t", by="k")
    spec = spec.agg(s=agg.sum("x"), d=agg.std("x"), q=agg.median("x"), m=agg.skew("x"))
    op = spec.watermark("50i").stream()
    got = pd.concat([*(op.push(frame.iloc[i : i + 70]) for i in range(0, n, 70)), op.finish()])
    assert len(op.keyed.tracks) == 9
    assert sum(state.track.slider is not None for state in op.keyed.tracks.values()) <= 3
    pd.testing.assert_frame_equal(
        got.sort_index()[[name for name, _ in spec.aggs]], spec(frame), check_exact=True
    )


def test_a_row_from_far_ahead_holds_no_memory():
    op = mta.rolling("10i", on="t").watermark(None).agg(s=agg.sum("x")).stream()
    op.push({"t": np.array([10**9]), "x": np.array([1.0])})
    for start in range(0, 100_000, 1000):
        op.push({"t": np.arange(start, start + 1000), "x": np.ones(1000)})
        assert len(op.advance(start + 1000)["s"]) == 1000
    assert op.state()["waiting"] == 1
    rows = op.reorder.rows
    assert rows.end - rows.first < 5000
    assert op.finish()["s"].tolist() == [1.0]


# ------------------------------------------------------------------------- how time goes on

COUNT = mta.rolling("10i", on="t").agg(n=agg.count())


def rows(ts, source=None):
    frame = {"t": np.array(ts)}
    return frame if source is None else frame | {"src": np.array(source)}


def answered(answers):
    return list(zip(answers["t"].tolist(), answers["n"].tolist(), strict=True))


def test_peers_are_waited_for_and_no_longer():
    op = COUNT.watermark(0).stream()
    assert answered(op.push(rows([5, 3, 5]))) == []
    assert op.state()["late"] == 1
    assert answered(op.push(rows([5]))) == []
    assert answered(op.push(rows([6]))) == [(5, 3)] * 3
    op = mta.rolling("10i", on="t", ties="arrival").watermark(0).agg(n=agg.count()).stream()
    assert answered(op.push(rows([5, 3, 5]))) == [(5, 1), (5, 2)]


def test_time_is_told_by_calls_and_sources():
    op = COUNT.watermark(None).stream()
    assert answered(op.push(rows([7, 2, 4]))) == []
    assert answered(op.advance(5)) == [(2, 1), (4, 2)]
    assert answered(op.advance(3)) == []
    assert answered(op.push(rows([4]))) == []
    assert op.late()["t"].tolist() == [4]
    op = COUNT.watermark(0, source="src", sources=["a", "b"]).stream()
    assert answered(op.push(rows([1, 9, 2], ["a", "a", "b"]))) == [(1, 1)]
    assert answered(op.idle("b")) == [(2, 2)]
    assert op.state()["watermark"] == 9
    assert answered(op.push(rows([10, 30], ["b", "a"]))) == [(9, 3)]
    assert answered(op.advance(20, "b")) == [(10, 4)]


def test_after_the_end_all_is_late():
    op = COUNT.watermark("9i").stream()
    op.push(rows([1, 9]))
    assert answered(op.finish()) == [(1, 1), (9, 2)]
    assert answered(op.push(rows([8, 20]))) == []
    assert op.state()["late"] == 2


def test_what_waits_is_answered_after_a_restart():
    spec = mta.rolling("10i", on="t", by="src").watermark("3i").agg(n=agg.count())
    op = spec.stream()
    op.push(rows([5, 4, 6, 3], ["a", "b", "a", "b"]))
    again = spec.stream(op.to_bytes())
    assert again.state() == op.state()
    for one in (op, again):
        assert one.push(rows([2, 9], ["b", "b"]))["n"].tolist() == [1, 2, 1]
        assert one.late()["t"].tolist() == [2]


# ------------------------------------------------------------------------------ what can't be


def test_a_push_that_fails_takes_nothing_in():
    spec = mta.rolling("10i", on="t", by="k").watermark("2i").agg(s=agg.sum("x"), l=agg.last("x"))
    op = spec.late("error").stream()

    def some(ts, x, k):
        return {"t": np.array(ts), "x": np.array(x), "k": np.array(list(k))}

    op.push(some([5, 9, 7], [1, 2, 3], "aba"))
    before = op.state() | {"bytes": op.to_bytes()}
    with pytest.raises(DataError, match=r"row 1 \(t = 6 ticks\) is late"):
        op.push(some([30, 6], [1, 1], "cd"))
    with pytest.raises(OverflowError, match="does not fit"):
        op.push(some([9, 9, 30], [2**62, 2**62, 1], "ddd"))
    with pytest.raises(DataError, match="push one kind of data"):
        op.push(pd.DataFrame({"t": [9], "x": [1], "k": ["a"]}))
    assert op.state() | {"bytes": op.to_bytes()} == before
    assert op.push(some([30], [1], "a"))["s"].tolist() == [2, 4]


WRONG = [
    (lambda: mta.rolling(5).watermark(0), "watermark: rows without a time column"),
    (lambda: mta.rolling(5, by="k").late("error"), "late: rows without a time column"),
    (lambda: COUNT.watermark("5s"), "must all be times or all be ticks"),
    (lambda: COUNT.watermark("-5i"), "delay: must not be negative"),
    (lambda: COUNT.late("drop", within="5i"), "within: only rows that revise"),
    (lambda: mta.rolling("5i", on="t", every_by="arrival"), "every_by: says what `every` counts"),
    (lambda: mta.rolling("5i", on="t", every=2, every_by="row"), "every_by: must be one of"),
    (lambda: mta.rolling("5i", on="t", every=2).late("revise", within="5i"), "changes the ranks"),
    (
        lambda: mta.rolling("5i", on="t").watermark(0).agg(t=agg.count()).stream(),
        "'t' is the column that says",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_has_no_meaning_is_refused(make, message):
    with pytest.raises(SpecError, match=message):
        make()


def test_specs_print_and_travel_with_their_progress():
    spec = mta.rolling("1h", on="ts", by="k", every=3, every_by="arrival")
    spec = spec.watermark("5m", idle_after="1h", source="src", sources=["one", "two"])
    spec = spec.late("revise", within="30m").agg(n=agg.count())
    assert eval(repr(spec), {"mta": mta, "agg": agg}) == spec
    assert mta.Spec.from_json(spec.to_json()) == spec
    assert len({spec, mta.Spec.from_json(spec.to_json()), replace(spec, lateness=None)}) == 2
    # A delay of nothing has no unit, whatever the column holds.
    for ts in (np.array([1, 2]), np.array([1, 2], "M8[s]")):
        op = mta.rolling(2, on="t").watermark().agg(n=agg.count()).stream()
        assert op.push({"t": ts})["n"].tolist() == [1, 2]


def test_times_keep_their_type():
    ts = pl.Series("t", [3, 1, 2]).cast(pl.Datetime("ms", "Europe/Paris"))
    spec = mta.rolling("1ms", on="t").watermark("500us").agg(n=agg.count())
    op = spec.stream()
    op.push(pl.DataFrame({"t": ts}))
    got = op.finish()
    assert got["t"].dtype == ts.dtype
    assert got["t"].to_list() == ts.to_list()[:1]
    assert op.late()["t"].to_list() == ts.to_list()[1:]


# ------------------------------------------------------------------------- answers ahead of time


@given(data(max_size=16, keys=("string", "int64")), DELAYS, st.data())
def test_a_peek_gives_what_a_batch_so_far_would_and_changes_nothing(sample, delay, draws):
    spec = over_time(draws).watermark(f"{delay}i")
    names = [name for name, _ in spec.aggs]
    ts = sample.columns["t"][1]
    cuts = draws.draw(st.lists(st.integers(0, len(ts)), max_size=4))
    plain, given_so_far = spec.stream(), []
    with tracks_at(draws.draw(TRACK_COSTS)):
        op = spec.stream()
        for start, stop in pairwise([0, *sorted(cuts), len(ts)]):
            piece = build("pyarrow", cut(sample.columns, start, stop))
            got, want = read(op.push(piece)), read(plain.push(piece))
            assert as_text(got, "pyarrow") == as_text(want, "pyarrow")
            given_so_far += got
            ahead = read(op.peek())
            so_far = only(sample.columns, on_time(ts[:stop], delay))
            batch = read(replace(spec, progress=None)(build("pyarrow", so_far)))
            told = [{name: row[name] for name in names} for row in [*given_so_far, *ahead]]
            batch = [{name: row[name] for name in names} for row in batch]
            assert sorted(as_text(told, "pyarrow")) == sorted(as_text(batch, "pyarrow"))
        assert op.state() == plain.state()
        assert as_text(read(op.finish()), "pyarrow") == as_text(read(plain.finish()), "pyarrow")


def test_a_peek_says_which_rows_and_raises_where_an_answer_does_not_fit():
    spec = mta.rolling("9i", on="t").watermark("5i").agg(s=agg.sum("x"))
    op = spec.stream()
    assert op.peek() is None
    op.push({"t": np.array([7, 3, 20]), "x": np.array([1, 2, 3])})
    assert op.answered_rows.tolist() == [0, 1]
    assert op.peek()["t"].tolist() == [20]
    assert op.answered_rows.tolist() == [2]
    op.push({"t": np.array([19]), "x": np.array([2**63 - 1])})
    with pytest.raises(OverflowError):
        op.peek()
    assert op.push({"t": np.array([24]), "x": np.array([0])})["t"].tolist() == []
