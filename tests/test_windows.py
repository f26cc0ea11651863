"""Windows by number: their meaning, its compiled twin, and what a batch answers."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from checks import all_fit
from kinds import KINDS, build, read
from mta import agg
from mta._buckets import Extents
from mta.errors import DataError, SpecError
from mta.windows import extent, interval, wids, windows
from oracle import NULL_OR_NAN, Rolling, aggregate, differences, group_of
from strategies import EVERY, aggregates, data, engine_agg

ORIGINS = st.one_of(st.none(), st.integers(-9, 9), st.just("first"))
CLOSED = st.sampled_from(["left", "right"])


@st.composite
def hops(draw):
    """Any hopping, tumbling or landmark windows of ticks."""
    slide, origin, closed = draw(st.integers(1, 6)), draw(ORIGINS), draw(CLOSED)
    if draw(st.integers(0, 3)) == 0:
        return mta.landmark(f"{slide}i", on="t", origin=origin, closed=closed)
    length = draw(st.integers(1, 9))
    empty = draw(st.sampled_from(["skip", "emit"]))
    options = {"on": "t", "origin": origin, "closed": closed, "empty": empty}
    return mta.hopping(f"{length}i", slide=f"{slide}i", **options)


# ------------------------------------------------------------------------------- their meaning


@given(hops(), st.lists(st.integers(-20, 20), min_size=1, max_size=12))
def test_wids_and_extents_are_inverses(spec, ts):
    numbers = windows(spec, ts)
    for wid in range(min(numbers, default=0) - 2, max(numbers, default=0) + 3):
        held = extent(spec, wid, ts)
        if spec.kind == "hopping" or wid <= max(numbers, default=-99):
            assert held == sorted(
                (i for i in range(len(ts)) if wid in wids(spec, i, ts)), key=lambda i: (ts[i], i)
            )
            assert bool(held) == (wid in numbers)


ROLLING = [
    mta.rolling("5i", on="t"),
    mta.rolling("5i", on="t", closed="left", ties="arrival"),
    mta.rolling("3i", on="t", lag="-2i", closed="both"),
    mta.rolling(3, on="t"),
    mta.rolling(3, lag=1, closed="neither"),
    mta.rolling(4, on="t", every=2),
    mta.rolling("4i", on="t", every=3, every_by="arrival"),
    mta.rolling(2, every=2, every_by="arrival"),
    mta.rolling(None, on="t"),
]


@pytest.mark.parametrize("spec", ROLLING, ids=repr)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12))
def test_trailing_windows_are_what_a_batch_answers(spec, ts):
    got = spec.agg(rows=agg.list("i"))({"t": np.array(ts), "i": np.arange(len(ts))})["rows"]
    want = [extent(spec, wid, ts) for wid in sorted(windows(spec, ts))]
    assert [list(rows) for rows in got] == want
    for row in range(len(ts)):
        assert wids(spec, row, ts) == [w for w in windows(spec, ts) if row in extent(spec, w, ts)]


def test_a_row_between_two_windows_is_in_none():
    spec = mta.hopping("2i", slide="5i", on="t")
    assert [wids(spec, i, [0, 1, 2, 4, 5]) for i in range(5)] == [[0], [0], [], [], [1]]


# ---------------------------------------------------------------------------- the compiled twin


@given(st.integers(1, 9), st.integers(1, 9), st.integers(-9, 9), st.booleans(), st.data())
def test_arrays_of_wids(length, slide, origin, right, draws):
    times = st.one_of(st.integers(-20, 20), st.integers(-(2**63) + 20, 2**63 - 20))
    ts = draws.draw(st.lists(times, max_size=8))
    spec = mta.hopping(f"{length}i", f"{slide}i", "t", origin=origin, closed=CLOSES[right])
    first, last = Extents(length, slide, origin, right).wids(np.array(ts, np.int64))
    for row in range(len(ts)):
        assert list(range(first[row], last[row] + 1)) == wids(spec, row, ts)


CLOSES = {False: "left", True: "right"}


# -------------------------------------------------------------------------- what a batch answers


def oracle(spec, aggs, sample, by):
    """Keys, edges and exact answers of every window of every group, in the order of a batch."""
    groups = {}
    for row in sample.rows:
        groups.setdefault(group_of(row, by), []).append(row)
    first = sample.rows[0]["t"] if sample.rows else 0
    newest = max((row["t"] for row in sample.rows), default=0)
    for rows in groups.values():
        # What a group's windows owe to other groups' rows: the origin, and a landmark's last one.
        ts = [row["t"] for row in rows]
        around = [first, *ts, newest]
        numbers = {w for i in range(1, len(ts) + 1) for w in wids(spec, i, around)}
        if numbers and spec.empty == "emit":
            numbers = range(min(numbers), max(numbers) + 1)
        for wid in sorted(numbers):
            start, end = interval(spec, wid, around)
            held = [rows[i - 1] for i in extent(spec, wid, around) if 0 < i <= len(ts)]
            keys = {name: rows[0][name] for name in by}
            edges = {"start": None if start == -math.inf else start, "end": end}
            yield keys | edges, {name: aggregate(a, held) for name, a in aggs.items()}


@given(
    data(), hops(), aggregates(EVERY), st.sampled_from(KINDS),
    st.sampled_from([(), ("k0",), ("k0", "k1")]), st.integers(1, 2),
)  # fmt: skip
def test_any_windows_over_any_rows(sample, spec, aggs, kind, by, threads):
    want = list(oracle(spec, aggs, sample, by))
    run = replace(spec, by=by).agg(**{name: engine_agg(a) for name, a in aggs.items()})
    frame, exact = build(kind, sample.columns), [answers for _, answers in want]
    if not all_fit(Rolling(aggs, "time"), exact):
        with pytest.raises(OverflowError, match="over the window number"):
            run(frame)
        return
    got = read(run(frame, threads=threads))
    wrong = differences(got, exact)
    assert not wrong, "\n".join(wrong)
    for row, (places, _) in zip(got, want, strict=True):
        assert list(row) == [*places, *aggs]
        assert (row["start"], row["end"]) == (places["start"], places["end"])
        for name in by:  # a NumPy column has NaN for null
            assert row[name] is NULL_OR_NAN or group_of(row, [name]) == group_of(places, [name])


KEYED = {
    "t": ("timestamp[s, Europe/Paris]", [30, 5, 65, -1, 70]),
    "k": ("string", ["b", "a", "b", None, "a"]),
    "x": ("int64", [1, 2, 4, 8, 16]),
}


@pytest.mark.parametrize("kind", ["pandas", "pandas-nullable", "pandas-arrow", "polars", "pyarrow"])
def test_edges_are_times_of_the_column_s_type(kind):
    spec = mta.tumbling("1m", on="t", by="k").agg(s=agg.sum("x"))
    frame = build(kind, KEYED)
    got = spec(frame)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    seconds = [
        tuple((row[edge] - epoch).total_seconds() for edge in ("start", "end")) for row in read(got)
    ]
    assert seconds == [(0, 60), (60, 120), (0, 60), (60, 120), (-60, 0)]
    assert [row["s"] for row in read(got)] == [1, 4, 2, 16, 8]
    assert str(got["start"].dtype if kind != "pyarrow" else got["start"].type) == str(
        frame["t"].dtype if kind != "pyarrow" else frame["t"].type
    )


@pytest.mark.parametrize("kind", ["dict", "pandas", "pandas-arrow", "polars", "pyarrow"])
def test_edges_between_two_ticks_are_of_a_finer_type(kind):
    type_ = "timestamp[ms]" if kind == "polars" else "timestamp[s]"
    times = [0, 1000, 2000] if kind == "polars" else [0, 1, 2]
    slide = "750us" if kind == "polars" else "750ms"
    spec = mta.tumbling(slide, on="t").agg(n=agg.count())
    got = read(spec(build(kind, {"t": (type_, times)})))
    step = dt.timedelta(microseconds=750 if kind == "polars" else 750_000)
    first = got[0]["start"]
    assert [(row["start"] - first) // step for row in got] == [0, 1333, 2666][:1] + (
        [1333, 2666] if kind == "polars" else [1, 2]
    )
    assert [row["end"] - row["start"] for row in got] == [step] * 3


def test_dates_have_half_days():
    frame = pl.DataFrame({"t": [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]})
    got = mta.tumbling("12h", on="t", origin="6h").agg(n=agg.count())(frame)
    assert got["start"].to_list() == [dt.datetime(2025, 12, 31, 18), dt.datetime(2026, 1, 1, 18)]
    whole = mta.tumbling("1d", on="t").agg(n=agg.count())(frame)
    assert whole["start"].dtype == pl.Date


def test_a_lazy_frame_and_an_index():
    frame = pl.DataFrame({"t": [1, 5, 12]})
    spec = mta.tumbling("10i", on="t").agg(n=agg.count())
    assert spec(frame.lazy()).collect().equals(spec(frame))
    got = spec(pd.DataFrame({"t": [1, 5, 12]}, index=[7, 8, 9]))
    assert got.index.tolist() == [0, 1]


@pytest.mark.parametrize(
    "origin",
    [
        dt.datetime(2026, 1, 1, 0, 0, 30),
        np.datetime64("2026-01-01T00:00:30"),
        pd.Timestamp("2026-01-01T00:00:30", tz="UTC"),
        "30s",
        "-30s",
    ],
)
def test_origins(origin):
    ts = np.array(["2026-01-01T00:00:29", "2026-01-01T00:00:30"], "M8[s]")
    got = mta.tumbling("1m", on="ts", origin=origin).agg(n=agg.count())({"ts": ts})
    assert got["start"].tolist() == [dt.datetime(2025, 12, 31, 23, 59, 30), ts[1].item()]


# ----------------------------------------------------------------------------------- calendars

PERIODS = st.tuples(st.integers(1, 3), st.sampled_from(["day", "week", "month", "quarter", "year"]))
ZONES = ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]
DAY = 86_400


@given(
    PERIODS, st.sampled_from(ZONES), st.integers(-DAY + 1, DAY - 1), CLOSED,
    st.lists(st.integers(-10**9, 2 * 10**9), min_size=1, max_size=6),
)  # fmt: skip
def test_calendar_periods_follow_each_other_and_begin_by_the_clock(period, zone, at, closed, ts):
    text = f"{period[0]} {period[1]}"
    spec = mta.calendar(text, at=f"{at}s", tz=zone, on="ts", closed=closed)
    got = spec.agg(rows=agg.list("ts"))({"ts": np.array(ts, "M8[s]")})
    starts, ends = (got[edge].astype(np.int64).tolist() for edge in ("start", "end"))
    assert got["rows"].tolist() is not None
    for start, end, rows in zip(starts, ends, got["rows"], strict=True):
        times = np.asarray(rows).astype("M8[s]").astype(np.int64).tolist()
        inside = [start <= t < end if closed == "left" else start < t <= end for t in times]
        assert all(inside)
        wall = dt.datetime.fromtimestamp(start, ZoneInfo(zone)).replace(tzinfo=None)
        local = wall - dt.timedelta(seconds=at)
        if local.time() == dt.time():  # else the clocks leave this time out
            assert period[1] != "week" or local.weekday() == 0
            assert period[1] in ("day", "week") or local.day == 1
            assert period[1] != "year" or local.month == 1
    for i in range(len(ts)):
        start, end = interval(spec, wids(spec, i, ts, "s")[0], ts, "s")
        assert (start, end) in set(zip(starts, ends, strict=True))


def test_a_calendar_needs_times_and_years():
    with pytest.raises(DataError, match="holds integers; a calendar needs times"):
        mta.calendar("1 day", on="t").agg(n=agg.count())({"t": np.array([1])})
    far = np.array([2**40], "M8[s]")
    with pytest.raises(DataError, match="outside of the years"):
        mta.calendar("1 day", on="t").agg(n=agg.count())({"t": far})


LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("length", "slide", "origin", "right", "ts", "starts"),
    [
        (1, 1, 0, False, [LEAST + 1, LEAST + 2], [LEAST + 1, LEAST + 2]),
        (1, 1, 0, True, [MOST, MOST - 20], [MOST - 21, MOST - 1]),
        (10, 20, -5, False, [LEAST + 8, LEAST + 19], [LEAST + 3]),
        (10, 7, -5, True, [LEAST + 10], [LEAST + 3]),
        (2, 7, "first", False, [LEAST, LEAST], [LEAST]),
    ],
)
def test_windows_next_to_the_ends_of_64_bits(length, slide, origin, right, ts, starts):
    spec = mta.hopping(
        f"{length}i", slide=f"{slide}i", on="t", origin=origin, closed="right" if right else "left"
    ).agg(n=agg.count())
    rows = {"t": np.array(ts)}
    assert spec(rows)["start"].tolist() == starts
    op = spec.watermark("100i").stream()
    assert op.push(rows)["n"].tolist() + op.finish()["n"].tolist() == spec(rows)["n"].tolist()


@pytest.mark.parametrize("time", [MOST, LEAST])
@pytest.mark.parametrize("origin", [0, 5, -(10**12)])
@pytest.mark.parametrize("empty", ["skip", "emit"])
def test_windows_beyond_64_bits_are_refused(time, origin, empty):
    """Their numbers wrapped, and memory was read that is none of theirs."""
    spec = mta.hopping("1000i", slide="1i", on="t", origin=origin, empty=empty).agg(n=agg.count())
    rows = {"t": np.array([time, time])}
    with pytest.raises(DataError, match="edge that does not fit in 64 bits"):
        spec(rows)
    if empty == "skip":
        with pytest.raises(DataError, match="edge that does not fit in 64 bits"):
            spec.watermark().stream().push(rows)


# -------------------------------------------------------------------------------------- refusals

WRONG = [
    (lambda: mta.hopping("5i"), "on: the name of the time column is needed"),
    (lambda: mta.hopping("0i", on="t"), "range: must be positive"),
    (lambda: mta.hopping("5i", "-1i", on="t"), "slide: must be positive"),
    (lambda: mta.hopping("5i", "1s", on="t"), "must all be times or all be ticks"),
    (lambda: mta.tumbling("5s", on="t", origin=3), "must all be times or all be ticks"),
    (lambda: mta.hopping("5i", on="t", closed="both"), "closed: must be one of"),
    (lambda: mta.hopping("5i", on="t", empty="no"), "empty: must be one of"),
    (lambda: mta.hopping("5i", on="t", origin="noon"), "origin: 'noon' is not a duration"),
    (lambda: mta.calendar("fortnight", on="t"), "period: 'fortnight' is not one"),
    (lambda: mta.calendar("0 days", on="t"), "period: '0 days' is not one"),
    (lambda: mta.calendar("day", tz="Mars/Olympus", on="t"), "tz: 'Mars/Olympus'"),
    (lambda: mta.calendar("day", at="25h", on="t"), "at: must be less than a day"),
    (lambda: mta.landmark("5i", by="k"), "on: the name"),
    (lambda: mta.hopping("5s", on="t", origin=pd.NaT), "origin: NaT is not a time"),
    (lambda: mta.hopping("5s", on="t", origin=np.datetime64("NaT")), "origin: .*NaT.* is not a"),
    (lambda: count_as("k")({"t": np.array([1]), "k": np.array([1])}), "agg: 'k' is the column of"),
    (lambda: count_as("k").watermark().stream(), "agg: 'k' is the column of the key"),
]


def count_as(name):
    return mta.hopping("5i", on="t", by="k").agg(**{name: agg.count()})


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_has_no_meaning_is_refused(make, message):
    with pytest.raises(SpecError, match=message):
        make()


def test_data_that_can_not_be_put_in_windows_is_refused():
    spec = mta.tumbling("10i", on="t").agg(n=agg.count())
    edge = {"t": np.array([2**63 - 2])}
    with pytest.raises(DataError, match="an edge that does not fit in 64 bits"):
        spec(edge)
    with pytest.raises(DataError, match="null in row 1"):
        spec(pl.DataFrame({"t": [1, None]}))
    with pytest.raises(SpecError, match="'end' is what a window's own column is called"):
        mta.tumbling("10i", on="t").agg(end=agg.count())(edge)


@pytest.mark.parametrize(
    "spec",
    [
        mta.hopping("1d", "1h", "ts", by=["a", "b"], origin="-8h", empty="emit"),
        mta.tumbling("10i", on="ts", by="k", origin=3, closed="right"),
        mta.tumbling("10i", on="ts", origin="first"),
        mta.landmark("1h", on="ts", origin=dt.datetime(2026, 1, 1)),
        mta.calendar("2 weeks", at="6h", tz="Europe/Paris", on="ts"),
    ],
    ids=repr,
)
def test_a_spec_is_the_code_that_makes_it_and_travels_as_json(spec):
    spec = spec.agg(n=agg.count())
    assert eval(repr(spec), {"mta": mta, "agg": agg}) == spec
    assert mta.Spec.from_json(spec.to_json()) == spec
    assert hash(spec) == hash(mta.Spec.from_json(spec.to_json()))
