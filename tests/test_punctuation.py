"""Punctuation: no row will come before a time, of a source or a group, by call or among rows."""

from __future__ import annotations

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
from mta.planner import PLANS
from test_bucket_stream import as_text, disordered

# ------------------------------------------------------------------------------- of a group


def told_apart(columns, spec, plan, draws):
    """Rows one by one; now and then a group is told to have no rows before the least still to come.

    Returns the answers, the stream, and how many were given ahead of the watermark.
    """
    op, got, early = spec.stream(plan=plan), [], 0
    ts, keys = columns["t"][1], columns["k"][1]
    for row in range(len(ts)):
        got += read(
            op.push(build("pyarrow", {n: (t, v[row : row + 1]) for n, (t, v) in columns.items()}))
        )
        for key in "ab":
            still = [t for t, k in zip(ts[row + 1 :], keys[row + 1 :], strict=True) if k == key]
            if draws.draw(st.booleans()):
                made = read(op.advance(min(still, default=99), key=key))
                assert all(line["k"] == key for line in made)
                got += made
                early += len(made)
        if draws.draw(st.booleans()):
            op = spec.stream(op.to_bytes())
    return got + read(op.finish()), op, early


@given(disordered(), st.data(), st.sampled_from(PLANS))
def test_groups_that_are_told_of_are_answered_once_and_as_in_a_batch(made, draws, plan):
    columns, spec = made
    spec = mta.hopping(spec.range, spec.slide, on="t", by="k", closed=spec.closed)
    spec = spec.watermark(None).agg(n=agg.count(), s=agg.sum("x"), low=agg.min("x"))
    got, op, _ = told_apart(columns, spec, plan, draws)
    assert as_text(got, "pyarrow") == as_text(read(spec(build("pyarrow", columns))), "pyarrow")
    assert op.state()["late"] == 0
    assert op.state()["rows"] + op.state()["partials"] == 0


@given(disordered(), st.data(), st.sampled_from(PLANS))
def test_groups_may_be_ahead_of_a_watermark_that_goes_on(made, draws, plan):
    columns, spec = made
    spec = mta.hopping(spec.range, spec.slide, on="t", by="k", closed=spec.closed)
    spec = spec.watermark("40i").agg(n=agg.count(), s=agg.sum("x"), high=agg.max("x"))
    got, op, _ = told_apart(columns, spec, plan, draws)
    assert as_text(got, "pyarrow") == as_text(read(spec(build("pyarrow", columns))), "pyarrow")
    assert op.state()["late"] == 0


def some(ts, keys=None, marks=None, kind=dict):
    frame = {"t": np.array(ts), "x": np.arange(len(ts))}
    if keys is not None:
        frame["k"] = np.array(list(keys))
    if marks is not None:
        frame["end"] = np.array(marks, bool)
    return frame if kind is dict else kind(frame)


SUMS = mta.tumbling("10i", on="t", by="k").watermark("20i").agg(s=agg.sum("x"))


@pytest.mark.parametrize("plan", PLANS)
def test_a_row_behind_its_groups_punctuation_is_late_and_others_are_not(plan):
    op = SUMS.stream(plan=plan)
    op.push(some([1, 2, 3], "aab"))
    answered = op.advance(10, key="a")
    assert (answered["k"].tolist(), answered["s"].tolist()) == (["a"], [1])
    op.push(some([4, 5], "ab"))
    assert op.state()["late"] == 1
    assert op.late()["k"].tolist() == ["a"]
    assert len(op.advance(10, key="a")["s"]) == 0  # not again
    assert sorted(op.finish()["s"].tolist()) == [2 + 1]


@pytest.mark.parametrize("plan", PLANS)
def test_a_row_behind_its_groups_punctuation_may_revise(plan):
    op = SUMS.late("revise", within="50i").stream(plan=plan)
    op.push(some([1, 2, 3], "aab"))
    op.advance(10, key="a")
    again = op.push(some([4], "a"))
    assert (again["s"].tolist(), again["revision"].tolist()) == ([1], [2])
    assert op.state()["late"] == 0


@pytest.mark.parametrize("plan", PLANS)
def test_a_group_is_answered_once_where_sums_of_integers_may_overflow(plan):
    """Then all is kept twice while rows come in."""
    op = SUMS.stream(plan=plan)
    op.push(some([1, 2, 3], "aab"))
    op.advance(10, key="a")
    op.push({**some([5], "b"), "x": np.array([2**62])})
    answered = op.finish()
    assert (answered["k"].tolist(), answered["s"].tolist()) == (["b"], [2 + 2**62])


def test_a_group_that_is_not_known_has_no_answers():
    op = SUMS.stream(plan="paned")
    op.push(some([1], "a"))
    assert len(op.advance(10, key="z")["s"]) == 0
    op.push(some([2], "z"))
    assert op.state()["late"] == 1
    with pytest.raises(DataError, match="a key is of the columns of `by`, and of no source"):
        op.advance(10, "source", key="z")


# -------------------------------------------------------------------------- among the rows

KINDS = (dict, pd.DataFrame, pl.DataFrame)


def lines(answered, *names):
    return [tuple(row[name] for name in names) for row in read(answered)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_punctuation_say_it_of_the_stream(kind):
    spec = mta.tumbling("10i", on="t", by="k").watermark(None, punctuation="end")
    op = spec.agg(n=agg.count()).stream()
    rows = some([1, 12, 3, 10, 4, 15, 20], "abcaabb", [0, 0, 0, 1, 0, 0, 1], kind)
    answered = op.push(rows)
    assert lines(answered, "k", "start", "n") == [("a", 0, 1), ("c", 0, 1), ("b", 10, 2)]
    assert op.state()["received"] == 5
    assert lines(op.late(), "k", "t") == [("a", 4)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_punctuation_say_it_of_their_group(kind):
    spec = mta.tumbling("10i", on="t", by="k").watermark(None, punctuation="end", per="group")
    op = spec.agg(n=agg.count()).stream()
    answered = op.push(some([1, 12, 3, 10, 4, 15], "abaaab", [0, 0, 0, 1, 0, 0], kind))
    assert lines(answered, "k", "n") == [("a", 2)]
    assert op.state()["late"] == 1
    assert lines(op.finish(), "k", "n") == [("b", 2)]


def test_of_a_source():
    spec = mta.tumbling("10i", on="t").watermark(
        None, punctuation="end", source="k", sources=["a", "b"]
    )
    op = spec.agg(n=agg.count()).stream()
    assert lines(op.push(some([1, 2, 10], "aba", [0, 0, 1])), "n") == []
    assert lines(op.push(some([11], "b", [1])), "n") == [(2,)]


@pytest.mark.parametrize("kind", KINDS)
def test_of_trailing_windows(kind):
    spec = mta.rolling("10i", on="t").watermark(None, punctuation="end").agg(s=agg.sum("x"))
    op = spec.stream()
    answered = op.push(some([5, 1, 3, 7], None, [0, 0, 1, 0], kind))
    assert lines(answered, "s") == [(1,)]
    assert sorted(lines(op.finish(), "s")) == [(1,), (4,)]


@given(disordered(), st.lists(st.integers(0, 14), max_size=4), st.data())
def test_punctuation_among_rows_is_that_of_calls(made, places, draws):
    """Wherever it stands, and however the rows are cut."""
    columns, spec = made
    spec = spec.agg(rows=agg.list("x"))
    n = len(columns["t"][1])
    places = sorted(min(p, n) for p in places)
    times = [draws.draw(st.integers(-5, 30)) for _ in places]
    op, want, start = spec.stream(), [], 0
    for place, time in zip([*places, n], [*times, None], strict=True):
        part = {name: (t, v[start:place]) for name, (t, v) in columns.items()}
        want += read(op.push(build("pyarrow", part)))
        want += [] if time is None else read(op.advance(time))
        start = place
    marked = {name: (t, [*v]) for name, (t, v) in columns.items()}
    marked["end"] = ("bool", [False] * n)
    for place, time in reversed(list(zip(places, times, strict=True))):
        for name, (_, values) in marked.items():
            values.insert(place, {"t": time, "end": True, "k": "a", "x": -1}[name])
    delay = spec.progress.delay
    told = spec.watermark(delay, punctuation="end")
    other, got = told.stream(), []
    cut = draws.draw(st.integers(0, len(marked["t"][1])))
    for part in (slice(0, cut), slice(cut, None)):
        got += read(other.push(build("pyarrow", {n: (t, v[part]) for n, (t, v) in marked.items()})))
    assert sorted(map(repr, got)) == sorted(map(repr, want))
    same = ("late", "received", "unassigned", "watermark")
    assert [other.state()[k] for k in same] == [op.state()[k] for k in same]


WRONG = [
    (lambda: SUMS.watermark(per="group"), "per: needs the name of the column"),
    (lambda: SUMS.watermark(punctuation="p", per="key"), "per: must be one of"),
    (lambda: SUMS.watermark(punctuation=1), "punctuation: must be the name"),
    (
        lambda: mta.tumbling("1i", on="t").watermark(punctuation="p", per="group"),
        r"per: 'group' is for specs with keys",
    ),
    (
        lambda: mta.rolling("1i", on="t", by="k").watermark(punctuation="p", per="group"),
        "per: a trailing window's rows become final together",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_has_no_meaning_is_refused(make, message):
    with pytest.raises(SpecError, match=message):
        make()


def test_punctuation_has_to_be_booleans():
    op = SUMS.watermark(punctuation="x").stream()
    with pytest.raises(DataError, match="punctuation: column 'x' is int64, not booleans"):
        op.push(some([1], "a"))


def test_punctuation_belongs_to_the_spec():
    spec = SUMS.watermark("1i", punctuation="p", per="group")
    assert eval(repr(spec), {"mta": mta, "agg": agg}) == spec
    assert mta.Spec.from_json(spec.to_json()) == spec
