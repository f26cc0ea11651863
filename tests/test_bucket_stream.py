"""Windows by number over pushed rows: what a batch over the rows that were not late answers."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import DataError, SnapshotError, SpecError
from mta.progress import Progress, SourceCodes
from mta.windows import interval, wids
from oracle import NULL_OR_NAN
from strategies import EVERY, aggregates, data, engine_agg
from test_windows import CLOSED, ORIGINS, hops

KINDS = ("dict", "pandas", "pandas-nullable", "polars", "pyarrow")


def cut(columns, start, stop):
    return {name: (t, v[start:stop]) for name, (t, v) in columns.items()}


def pushed(spec, columns, kind, cuts, save=False, finish=True, plan="auto"):
    """All answers, and the stream."""
    op, got = spec.stream(plan=plan), []
    for start, stop in pairwise([0, *sorted(cuts), len(columns["t"][1])]):
        got += read(op.push(build(kind, cut(columns, start, stop))))
        if save:
            op = spec.stream(op.to_bytes())
    return got + (read(op.finish()) if finish else []), op


def tells_nulls(kind, columns):
    """Whether every piece of the columns does: in a float column of pandas null is NaN."""
    mixed = (None in v and any(x != x for x in v) for _, v in columns.values())
    return kind != "pandas" or not any(mixed)


def as_text(rows, kind):
    """Rows to compare, in any order; a NumPy column has NaN for null."""
    alike = (None, NULL_OR_NAN) if kind in ("dict", "pandas") else ()
    named = [{n: v for n, v in row.items() if n != "revision"} for row in rows]
    return sorted(repr({n: "none" if v in alike else v for n, v in row.items()}) for row in named)


@given(
    data(max_size=20), hops(), aggregates(EVERY), st.sampled_from(KINDS), st.data(),
    st.sampled_from([(), ("k0",), ("k0", "k1")]), st.booleans(),
)  # fmt: skip
def test_where_no_row_is_late_the_answers_are_those_of_a_batch(
    sample, spec, aggs, kind, draws, by, save
):
    """In any order of arrival, any cuts, and from snapshots."""
    assume(tells_nulls(kind, sample.columns))
    spec = replace(spec, by=by, **({"empty": "skip"} if spec.kind == "hopping" else {}))
    spec = spec.watermark("40i").agg(**{name: engine_agg(a) for name, a in aggs.items()})
    try:
        want = read(spec(build(kind, sample.columns)))
    except OverflowError:
        return
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=4))
    got, op = pushed(spec, sample.columns, kind, cuts, save)
    assert as_text(got, kind) == as_text(want, kind)
    assert op.state()["late"] == 0
    assert op.state()["rows"] == 0 or spec.kind == "landmark"


@pytest.mark.parametrize("size", [1, 7, 100])
def test_sums_that_cancel_are_the_same_double_however_rows_are_cut(size):
    rng = np.random.default_rng(size)
    x = rng.normal(size=400) * 10.0 ** rng.integers(0, 40, 400)
    x[1::2] = -np.roll(x[::2], 3)  # what is left is small
    t = np.arange(400) // 3
    spec = mta.hopping("60i", "2i", on="t").watermark("5i")
    spec = spec.agg(s=agg.sum("x"), m=agg.mean("x"))
    order = np.argsort(t + rng.integers(0, 4, 400), kind="stable")
    op = spec.stream()
    parts = [
        op.push(pd.DataFrame({"t": t[order[i : i + size]], "x": x[order[i : i + size]]}))
        for i in range(0, 400, size)
    ]
    got = pd.concat([*parts, op.finish()], ignore_index=True).drop(columns="revision")
    pd.testing.assert_frame_equal(got, spec(pd.DataFrame({"t": t, "x": x})), check_exact=True)
    assert op.state()["late"] == 0


@given(st.lists(st.integers(0, 40 * 86_400), min_size=1, max_size=12), CLOSED, st.data())
def test_calendar_days_as_in_a_batch(ts, closed, draws):
    """Around the end of October, when the clocks go back."""
    spec = mta.calendar("1 day", at="6h", tz="Europe/Paris", on="t", closed=closed)
    spec = spec.watermark("50d").agg(rows=agg.list("x"))
    columns = {"t": ("timestamp[s]", [1_696_100_000 + t for t in ts])}
    columns["x"] = ("int64", list(range(len(ts))))
    cuts = draws.draw(st.lists(st.integers(0, len(ts)), max_size=3))
    got, op = pushed(spec, columns, "pyarrow", cuts, save=True)
    assert as_text(got, "pyarrow") == as_text(read(spec(build("pyarrow", columns))), "pyarrow")
    assert op.state()["late"] == 0


@st.composite
def disordered(draw):
    """Hopping windows with a short delay over rows of two keys, some of them late."""
    n = draw(st.integers(1, 14))
    ts = draw(st.lists(st.integers(-5, 25), min_size=n, max_size=n))
    keys = draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n))
    columns = {"t": ("int64", ts), "k": ("string", keys), "x": ("int64", list(range(n)))}
    length, slide = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    options = {"on": "t", "by": draw(st.sampled_from([None, "k"])), "closed": draw(CLOSED)}
    spec = mta.hopping(f"{length}i", f"{slide}i", origin=draw(ORIGINS), **options)
    return columns, spec.watermark(f"{draw(st.integers(0, 6))}i").agg(rows=agg.list("x"))


def by_rows(spec, columns, within=0):
    """The last answer of every window, and the late rows, told row by row as the words say."""
    ts, keys = columns["t"][1], columns["k"][1]
    delay, mark, late, held = spec.progress.delay.amount, -(2**62), [], {}
    for row, t in enumerate(ts):
        mine = wids(spec, row, ts)
        # A row at its end is inside: then no more come once the watermark is beyond it.
        ends = {w: interval(spec, w, ts)[1] + (spec.closed == "right") for w in mine}
        still_open = [w for w in mine if ends[w] + within > mark]
        if mine and not still_open:
            late.append(row)
        for w in still_open:
            held.setdefault((keys[row] if spec.by else None, w), []).append(row)
        mark = max(mark, t - delay)
    in_order = {window: sorted(rows, key=lambda i: (ts[i], i)) for window, rows in held.items()}
    return in_order, late


@given(disordered(), st.data(), st.booleans())
def test_late_rows_change_nothing_and_are_kept(made, draws, save):
    columns, spec = made
    n = len(columns["t"][1])
    cuts = draws.draw(st.lists(st.integers(0, n), max_size=4))
    got, op = pushed(spec, columns, "pandas", cuts, save)
    want, late = by_rows(spec, columns)
    lines = {(row.get("k"), row["start"]): list(row["rows"]) for row in got}
    ts = columns["t"][1]
    assert lines == {(k, interval(spec, w, ts)[0]): rows for (k, w), rows in want.items()}
    assert sorted(op.late()["x"]) == late
    # Every row is answered, late, or between two windows.
    seen = {row for rows in want.values() for row in rows}
    assert op.state()["unassigned"] == n - len(late) - len(seen)


@given(disordered(), st.data(), st.integers(1, 9))
def test_late_rows_revise_answers_however_rows_are_cut(made, draws, within):
    columns, spec = made
    spec = spec.late("revise", within=f"{within}i")
    n = len(columns["t"][1])
    one_by_one, op = pushed(spec, columns, "pyarrow", range(n))
    cuts = draws.draw(st.lists(st.integers(0, n), max_size=4))
    got = pushed(spec, columns, "pyarrow", cuts)[0]
    # (Groups of one window come in no particular order.)
    assert [row["end"] for row in got] == [row["end"] for row in one_by_one]
    assert sorted(map(repr, got)) == sorted(map(repr, one_by_one))
    want, late = by_rows(spec, columns, within)
    latest, ts = {}, columns["t"][1]
    for row in one_by_one:
        window = row.get("k"), row["start"]
        assert row["revision"] == latest.get(window, {"revision": 0})["revision"] + 1
        latest[window] = row
    lines = {window: row["rows"] for window, row in latest.items()}
    assert lines == {(k, interval(spec, w, ts)[0]): rows for (k, w), rows in want.items()}
    assert sorted(op.late()["x"].to_pylist()) == late


# ----------------------------------------------------------------------------- how time goes on

TUMBLING = mta.tumbling("10i", on="t").agg(n=agg.count())


def rows(ts, source=None):
    frame = {"t": np.array(ts)}
    return frame if source is None else frame | {"src": np.array(source)}


def test_without_a_watermark_time_goes_on_when_it_is_told():
    op = TUMBLING.stream()
    assert len(op.push(rows([1, 50, 2]))["n"]) == 0
    assert op.advance(10)["n"].tolist() == [2]
    assert len(op.advance(5)["n"]) == 0  # never back
    assert op.state()["watermark"] == 10
    op.push(rows([3]))
    assert op.state()["late"] == 1
    assert op.finish()["n"].tolist() == [1]


def test_times_are_told_as_the_column_holds_them():
    spec = mta.tumbling("1h", on="t").watermark("5m").agg(n=agg.count())
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
    op = spec.stream()
    frame = pl.DataFrame({"t": [noon, noon + dt.timedelta(minutes=64)]})
    assert op.push(frame).height == 0
    assert op.advance(noon + dt.timedelta(minutes=60))["start"].to_list() == [noon]


def test_a_source_that_is_silent_holds_nothing_back():
    spec = replace(TUMBLING, progress=None).watermark(
        0, source="src", sources=["a", "b"], idle_after="20i"
    )
    op = spec.stream()
    op.push(rows([1, 2], ["a", "b"]))
    assert len(op.push(rows([15], ["a"]))["n"]) == 0
    assert op.push(rows([23], ["a"]))["n"].tolist() == [2, 1]  # b has been silent for 21
    op.push(rows([24, 21], ["b", "b"]))  # and is heard again
    assert op.state()["watermark"] == 23
    assert op.state()["late"] == 0


def test_a_row_from_the_future_is_not_believed_before_a_second_one():
    op = replace(TUMBLING, progress=None).watermark(0, max_ahead="100i").stream()
    op.push(rows([5, 10_000, 8]))
    state = op.state()
    assert state.pop("bytes") >= 3 * 8
    assert state == {
        "plan": "rows", "rows": 3, "partials": 0, "watermark": 8, "received": 3, "late": 0,
        "unassigned": 0,
    }  # fmt: skip
    assert op.push(rows([10_050]))["n"].tolist() == []
    assert op.push(rows([10_060]))["n"].tolist() == [2, 1]
    assert op.state()["watermark"] == 10_050


def coded(names):
    known = list(dict.fromkeys(names))
    return SourceCodes(known, np.array([known.index(name) for name in names], np.int64))


@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab")), max_size=10),
    st.integers(0, 5), st.one_of(st.none(), st.integers(1, 20)), st.lists(st.integers(0, 10)),
)  # fmt: skip
def test_a_watermark_never_goes_back_and_does_not_depend_on_cuts(sent, delay, idle, cuts):
    def marks(edges):
        progress, seen = Progress(delay, idle, None, ["a"]), []
        for start, stop in pairwise([0, *sorted(min(c, len(sent)) for c in edges), len(sent)]):
            part = sent[start:stop]
            ts, names = np.array([t for t, _ in part], np.int64), [name for _, name in part]
            seen += progress.see(ts, coded(names))[1].tolist()
        return seen

    whole = marks([])
    assert whole == sorted(whole) == marks(cuts)


# ------------------------------------------------------------------------------------- refusals


def test_a_push_that_fails_takes_nothing_in():
    spec = mta.tumbling("10i", on="t").watermark(0).late("error").agg(s=agg.sum("x"))
    op = spec.stream()
    op.push({"t": np.array([1, 12]), "x": np.array([1, 2])})
    before = op.state()
    with pytest.raises(DataError, match=r"row 1 \(t = 3 ticks\) is late"):
        op.push({"t": np.array([13, 3]), "x": np.array([1, 2])})
    with pytest.raises(OverflowError, match="does not fit"):
        op.push({"t": np.array([13, 14, 25]), "x": np.array([2**62, 2**62, 0])})
    with pytest.raises(DataError, match="an edge that does not fit in 64 bits"):
        op.push({"t": np.array([2**63 - 2]), "x": np.array([1])})
    with pytest.raises(DataError, match="push one kind of data"):
        op.push(pd.DataFrame({"t": [13], "x": [1]}))
    assert op.state() == before
    assert op.push({"t": np.array([20]), "x": np.array([0])})["s"].tolist() == [2]


def test_snapshots_of_another_spec_or_damaged_are_refused():
    op = TUMBLING.stream()
    op.push(rows([1, 2]))
    saved = op.to_bytes()
    assert TUMBLING.stream(saved).finish()["n"].tolist() == [2]
    with pytest.raises(SnapshotError):
        mta.tumbling("11i", on="t").agg(n=agg.count()).stream(saved)
    for place in range(0, len(saved), 37):
        with pytest.raises(SnapshotError):
            TUMBLING.stream(saved[:place] + bytes([saved[place] ^ 1]) + saved[place + 1 :])


WRONG = [
    (lambda: TUMBLING.watermark("5s"), "must all be times or all be ticks"),
    (lambda: TUMBLING.watermark("-5i"), "delay: must not be negative"),
    (lambda: TUMBLING.watermark(idle_after="5i").stream(), "source: idle_after needs the name"),
    (lambda: TUMBLING.watermark(source="s", combine="avg"), "combine: must be one of"),
    (lambda: TUMBLING.late("ignore"), "mode: must be one of"),
    (lambda: TUMBLING.late("drop", within="5i"), "within: only rows that revise"),
    (lambda: mta.tumbling("9i", on="t", empty="emit").agg(n=agg.count()).stream(), "empty: 'emit'"),
    (lambda: mta.tumbling("9i", on="t").agg(revision=agg.count()).stream(), "'revision' is what"),
    (lambda: mta.tumbling("9i", on="t").stream(), "say what to compute first"),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_has_no_meaning_is_refused(make, message):
    with pytest.raises(SpecError, match=message):
        make()


def test_progress_and_lateness_belong_to_the_spec():
    spec = (
        mta.hopping("1h", "10m", "ts")
        .watermark("5m", idle_after="1h", source="src", sources=["one", "two"])
        .late("revise", within="30m")
        .agg(n=agg.count())
    )
    assert eval(repr(spec), {"mta": mta, "agg": agg}) == spec
    assert mta.Spec.from_json(spec.to_json()) == spec
    plain = mta.tumbling("1h", on="t").watermark("5m").agg(n=agg.count())
    assert mta.Spec.from_json(plain.to_json()) == plain
    one = mta.tumbling("1h", on="t").watermark(source="s", sources=["ab"]).agg(n=agg.count())
    assert mta.Spec.from_json(one.to_json()) == one


@pytest.mark.parametrize(("plan", "memory"), [("rows", None), ("paned", None), ("2LA", "64KB")])
def test_a_landmark_is_answered_from_the_first_row_on_however_far_the_watermark_is_behind(
    plan, memory
):
    """There were as many empty windows as fit into the delay: more than memory holds."""
    spec = mta.landmark("1ms", on="ts", by="k").watermark("3650d").agg(n=agg.count())
    op = spec.stream(plan=plan, memory=memory)
    rows = {"ts": np.array([0, 7, 2], "M8[ms]"), "k": np.array([1, 2, 1])}
    assert len(op.push(rows)["n"]) == 0
    later = {"ts": np.array([4], "M8[ms]"), "k": np.array([1])}
    assert len(op.push(later)["n"]) == 0
    answers = op.finish()
    found = sorted(zip(answers["k"].tolist(), answers["n"].tolist(), strict=True))
    assert found == [(1, 1), (1, 1), (1, 2), (1, 2), (1, 3), (1, 3), (1, 3), (1, 3), (2, 1)]


@pytest.mark.parametrize("combine", ["min", "max"])
def test_what_is_said_of_all_sources_wakes_none_that_is_silent(combine):
    """It did, and a source that had been said to be silent held all others back again."""
    spec = mta.tumbling("10i", on="ts").watermark(source="src", combine=combine)
    op = spec.agg(n=agg.count()).stream()
    op.push({"ts": np.array([1, 2]), "src": np.array(["a", "b"])})
    op.idle("b")
    op.advance(8)
    assert op.push({"ts": np.array([25]), "src": np.array(["a"])})["n"].tolist() == [2]
    assert op.state()["watermark"] == 25
    op.advance(26, "b")  # which is news from it
    op.push({"ts": np.array([40]), "src": np.array(["a"])})
    assert op.state()["watermark"] == (26 if combine == "min" else 40)
