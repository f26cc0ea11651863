"""Low-level aggregation: partial aggregates merged are the rows that they were made of."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import DataError, SnapshotError, SpecError
from mta.frames import open_frame
from mta.lowlevel import LowLevelStream
from mta.partial_batch import PartialBatch
from mta.plan import make_plan
from strategies import aggregates, data, engine_agg
from test_bucket_stream import as_text, cut, disordered, pushed
from test_plans import FREE, plans_of
from test_windows import CLOSED, hops

KINDS = ("dict", "pandas-nullable", "polars", "pyarrow")  # types of empty columns are known
OPTIONS = st.fixed_dictionaries(
    {
        "size": st.sampled_from([1, 2, 5, 64]),
        "flush": st.sampled_from(["lazy", "slow"]),
        "within": st.integers(0, 3),
        "every": st.sampled_from([1, 3]),
    }
)
SUMS = {"n": agg.count("x"), "s": agg.sum("x"), "low": agg.min("x"), "high": agg.max("x")}


def travelled(batch):
    """As bytes and back."""
    again = PartialBatch.from_bytes(batch.to_bytes())
    assert (len(again), again.rows, again.watermark) == (len(batch), batch.rows, batch.watermark)
    return again


def staged(spec, columns, kind, cuts, options, plan="auto", save=False):
    """All answers by way of a stage, the stage and the stream."""
    low, op, got, rows = spec.low_level(**options), spec.stream(plan=plan), [], 0
    for start, stop in pairwise([0, *sorted(cuts), len(columns["t"][1])]):
        batch = low.push(build(kind, cut(columns, start, stop)))
        rows += batch.rows
        if save:
            batch, low = travelled(batch), spec.low_level(low.to_bytes())
        got += read(op.merge(batch))
        if save:
            op = spec.stream(op.to_bytes())
    last = low.finish()
    state = low.state()
    assert rows + last.rows + state["late"] + state["unassigned"] == state["received"]
    assert state["partials"] == 0
    return got + read(op.merge(last)), low, op


def untyped(spec, native):
    """Whether these rows do not tell the types of the columns that are aggregated."""
    frame = open_frame(native)
    plan = make_plan(spec.asked, 0)
    return frame.rows and any(frame.column(name).kind == "null" for name in plan.columns)


@given(
    data(max_size=20), hops(), aggregates(FREE, overflow=("raise", "wrap", "float")),
    st.sampled_from(KINDS), st.data(), st.sampled_from([(), ("k0",), ("s",), ("k0", "k1")]),
    st.booleans(), OPTIONS,
)  # fmt: skip
def test_where_no_row_is_late_the_answers_are_those_of_a_batch(
    sample, spec, aggs, kind, draws, by, save, options
):
    """In any order of arrival, any cuts, by any plan, and from snapshots."""
    spec = replace(spec, by=by, **({"empty": "skip"} if spec.kind == "hopping" else {}))
    spec = spec.watermark("40i").agg(**{name: engine_agg(a) for name, a in aggs.items()})
    try:
        want = read(spec(build(kind, sample.columns)))
    except OverflowError:
        return
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=4))
    plan = draws.draw(st.sampled_from(("auto", *plans_of(spec))))
    if untyped(spec, build(kind, cut(sample.columns, 0, min([*cuts, len(sample.rows)])))):
        with pytest.raises(DataError, match="nothing but nulls"):
            staged(spec, sample.columns, kind, cuts, options)
        return
    got, low, op = staged(spec, sample.columns, kind, cuts, options, plan, save)
    assert as_text(got, kind) == as_text(want, kind)
    assert low.state()["late"] == op.state()["late"] == 0
    assert op.state()["rows"] + op.state()["partials"] == 0


@given(disordered(), st.data(), st.booleans(), OPTIONS)
def test_late_rows_change_nothing_and_are_kept(made, draws, save, options):
    """And rows that are late for some of their windows are not in these."""
    columns, spec = made
    spec = spec.agg(**SUMS)
    n = len(columns["t"][1])
    cuts = draws.draw(st.lists(st.integers(0, n), max_size=4))
    want, plain = pushed(spec, columns, "pyarrow", cuts)
    plan = draws.draw(st.sampled_from(["auto", "paned", "wid", "adapt"]))
    got, low, op = staged(spec, columns, "pyarrow", cuts, options, plan, save)
    assert as_text(got, "pyarrow") == as_text(want, "pyarrow")
    assert low.late().equals(plain.late())
    same = ("received", "late", "unassigned")
    assert [low.state()[k] for k in same] == [plain.state()[k] for k in same]
    assert op.state()["late"] == 0


@given(disordered(), st.data(), OPTIONS, OPTIONS)
def test_two_stages_feed_one_stream(made, draws, first, second):
    """Each with its own watermark, merged in any order; no row is counted twice, or lost."""
    columns, spec = made
    assume(spec.origin != "first")  # which row was first, two stages do not agree on
    calm = draws.draw(st.booleans())
    spec = spec.watermark("40i" if calm else spec.progress.delay, sources=["one", "two"])
    spec = spec.agg(**SUMS)
    n = len(columns["t"][1])
    links = [draws.draw(st.sampled_from(["one", "two"])) for _ in range(n)]
    stages = {"one": spec.low_level(**first), "two": spec.low_level(**second)}
    op, got, kept = spec.stream(), [], []
    for row, link in enumerate(links):
        before = stages[link].state()
        batch = stages[link].push(build("pyarrow", cut(columns, row, row + 1)))
        got += read(op.merge(batch, link))
        after = stages[link].state()
        if after["late"] + after["unassigned"] == before["late"] + before["unassigned"]:
            kept.append(row)
    for link, low in stages.items():
        last = low.finish()
        if last is None:
            got += read(op.advance(10**6, link)) if op.frame is not None else []
        else:
            got += read(op.merge(last, link))
    got += read(op.finish()) if kept else []
    assert op.state()["late"] == 0
    assert op.state()["received"] == len(kept)
    if spec.range.amount <= spec.slide.amount or calm:  # a row is late for all its windows or none
        of_kept = {name: (t, [v[i] for i in kept]) for name, (t, v) in columns.items()}
        want = read(spec(build("pyarrow", of_kept)))
        assert as_text(got, "pyarrow") == as_text(want, "pyarrow")


@given(st.lists(st.integers(0, 40 * 86_400), min_size=1, max_size=12), CLOSED, st.data(), OPTIONS)
def test_calendar_days_as_in_a_batch(ts, closed, draws, options):
    """Around the end of October, when the clocks go back."""
    spec = mta.calendar("1 day", at="6h", tz="Europe/Paris", on="t", closed=closed)
    spec = spec.watermark("50d").agg(n=agg.count(), s=agg.sum("x"))
    columns = {"t": ("timestamp[s]", [1_696_100_000 + t for t in ts])}
    columns["x"] = ("int64", list(range(len(ts))))
    cuts = draws.draw(st.lists(st.integers(0, len(ts)), max_size=3))
    got, _, _ = staged(spec, columns, "pyarrow", cuts, options, save=True)
    assert as_text(got, "pyarrow") == as_text(read(spec(build("pyarrow", columns))), "pyarrow")


# ------------------------------------------------------------------------- what goes out when

COUNTS = mta.tumbling("10i", on="t", by="k").watermark(0).agg(n=agg.count())


def some(ts, keys=None):
    return {"t": np.asarray(ts), "k": np.zeros(len(ts), int) if keys is None else np.asarray(keys)}


@pytest.mark.parametrize("within", [0, 1, 3])
def test_a_partial_is_so_many_windows_late_at_most(within):
    low = COUNTS.low_level(size=64, within=within)
    marks = [low.push(some([10 * k])).watermark for k in range(8)]
    # Window 0 is complete at 10, and after so many more it has gone out.
    assert marks[within + 1 :] == [10 * (k - within) for k in range(within + 1, 8)]
    assert all(mark is None or mark <= 0 for mark in marks[: within + 1])
    assert low.state()["partials"] == within + 1


def test_slow_flush_puts_one_out_with_every_so_many_rows():
    low = COUNTS.low_level(size=256, flush="slow", within=9, every=2)
    low.push(some(np.zeros(20, int), np.arange(20)))
    low.push(some([10]))
    out = [len(low.push(some([11 + k // 10]))) for k in range(60)]
    assert sum(out) == 20
    assert max(out) == 1
    assert low.push(some([20])).watermark >= 10


def test_the_table_never_grows_and_keys_are_forgotten():
    low = COUNTS.low_level(size=64, within=1)
    rows = 0
    for k in range(20):
        batch = low.push(some(np.full(1000, 10 * k), np.arange(1000 * k, 1000 * (k + 1))))
        rows += batch.rows
        assert low.state()["partials"] <= 64
        assert low.state()["groups"] < 8 * 64 + 1024 + 1000
    assert rows + low.finish().rows == 20_000


def test_the_number_of_partials_is_that_of_groups_and_not_of_rows():
    low = COUNTS.low_level(size=1024)
    rng = np.random.default_rng(0)
    batch = low.push(some(np.full(50_000, 5), rng.integers(0, 50, 50_000)))
    last = low.finish()
    assert len(batch) + len(last) == 50
    assert last.groups == 50
    assert 0 < last.nbytes < 50 * 100
    assert last.watermark == 2**63 - 1


def test_time_goes_on_by_calls():
    low = mta.tumbling("10i", on="t").agg(n=agg.count()).low_level(within=0)
    with pytest.raises(DataError, match="push rows first"):
        low.advance(10)
    assert low.finish() is None
    assert low.push({"t": np.array([1, 12])}).watermark is None
    batch = low.advance(11)
    assert (len(batch), batch.rows, batch.watermark) == (1, 1, 10)  # more is held
    low.push({"t": np.array([2])})
    assert low.state()["late"] == 1
    assert low.late()["t"].tolist() == [2]


def test_sources_within_a_stage_and_of_stages():
    spec = mta.tumbling("10i", on="t").watermark(0, source="src", sources=["a", "b", "c"])
    spec = spec.agg(n=agg.count())
    one, two, op = spec.low_level(sources=["a", "b"], within=0), spec.low_level(
        sources=["c"], within=0
    ), spec.stream()  # fmt: skip
    rows = {"t": np.array([1, 2, 15]), "src": np.array(["a", "b", "a"])}
    assert one.push(rows).watermark == 0  # of pane 0 more is held
    assert one.state()["watermark"] == 2
    batch = one.idle("b")
    assert batch.watermark == 10
    assert len(op.merge(batch, "a")["n"]) == 0
    op.idle("b")
    other = two.push({"t": np.array([3, 30]), "src": np.array(["c", "c"])})
    assert op.merge(other, "c")["n"].tolist() == [3]


# -------------------------------------------------------------------------------- what fails


def test_what_comes_too_late_for_the_stream_is_counted():
    low, other, op = COUNTS.low_level(within=0), COUNTS.low_level(within=0), COUNTS.stream()
    op.merge(low.push(some([1, 50])), "one")
    op.merge(other.push(some([2, 3, 12])), "two")
    assert op.state()["late"] == 2
    assert op.state()["received"] == 3


def test_a_push_that_fails_takes_nothing_in():
    spec = COUNTS.late("error").agg(s=agg.sum("x"))
    low = spec.low_level(within=0)
    rows = {**some([1, 12]), "x": np.array([1, 2])}
    low.push(rows)
    before = low.state()
    with pytest.raises(DataError, match="is late"):
        low.push({**some([13, 2]), "x": np.array([1, 2])})
    with pytest.raises(DataError, match="x"):
        low.push({**some([13, 14]), "x": np.array(["a", "b"])})
    with pytest.raises(DataError, match="push one kind of data"):
        low.push(pd.DataFrame(rows))
    assert low.state() == before
    assert low.push({**some([20]), "x": np.array([5])}).rows == 1


def test_a_merge_that_fails_takes_nothing_in():
    spec = COUNTS.agg(s=agg.sum("x"))
    low, op = spec.low_level(within=0), spec.stream()
    op.merge(low.push({**some([1, 5, 12]), "x": np.array([1, 2, 3])}))
    before = {k: v for k, v in op.state().items() if k != "bytes"}
    with pytest.raises(OverflowError, match="does not fit"):
        op.merge(low.push({**some([13, 14, 20]), "x": np.array([2**62, 2**62, 0])}))
    assert {k: v for k, v in op.state().items() if k != "bytes"} == before
    floats = spec.low_level(within=0)
    with pytest.raises(DataError, match="another type"):
        op.merge(floats.push({**some([22, 30]), "x": np.array([0.5, 1])}))
    other = COUNTS.low_level()
    for wrong, message in ((None, "not NoneType"), (other.push(some([1])), "of another spec")):
        with pytest.raises(DataError, match=message):
            op.merge(wrong)
    with pytest.raises(SpecError, match="'rows' keeps rows as they are"):
        spec.stream(plan="rows").merge(low.push({**some([21]), "x": np.array([0])}))
    assert op.merge(low.push({**some([25, 31]), "x": np.array([7, 1])}))["s"].tolist() == [7]


def test_rows_may_come_directly_too():
    low, op = COUNTS.low_level(within=0), COUNTS.stream()
    op.push(some([1, 2], [5, 6]))
    low.push(some([3, 4], [6, 7]))
    answers = op.merge(low.advance(10).to_bytes())
    assert dict(zip(answers["k"].tolist(), answers["n"].tolist(), strict=True)) == {
        5: 1,
        6: 2,
        7: 1,
    }
    assert op.state()["plan"] == "paned"


def test_damaged_bytes_are_refused():
    low = COUNTS.low_level()
    low.push(some([1, 2]))
    for read_bytes, saved in (
        (COUNTS.low_level, low.to_bytes()), (PartialBatch.from_bytes, low.finish().to_bytes()),
    ):  # fmt: skip
        for place in range(0, len(saved), 41):
            with pytest.raises(SnapshotError):
                read_bytes(saved[:place] + bytes([saved[place] ^ 1]) + saved[place + 1 :])


WRONG = [
    (lambda: COUNTS.low_level(size=0), "size: must be a whole number from 1"),
    (lambda: COUNTS.low_level(flush="never"), "flush: must be one of"),
    (lambda: COUNTS.low_level(within=-1), "within: must be a whole number from 0"),
    (lambda: COUNTS.low_level(every=0.5), "every: must be a whole number from 1"),
    (lambda: COUNTS.agg(m=agg.median("x")).low_level(), "low_level: it needs partial aggregates"),
    (lambda: COUNTS.late("revise").low_level(), "late: 'revise' answers again"),
    (
        lambda: COUNTS.watermark(punctuation="p", per="group").low_level(),
        "per: a low-level stage has one watermark",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_has_no_meaning_is_refused(make, message):
    with pytest.raises(SpecError, match=message):
        make()


def test_a_stage_that_fails_half_way_is_done(monkeypatch):
    low = COUNTS.low_level()
    low.push(some([1]))

    def fail(*_):
        raise MemoryError("of all")

    monkeypatch.setattr(LowLevelStream, "_settle", fail)
    with pytest.raises(MemoryError):
        low.push(some([20]))
    monkeypatch.undo()
    with pytest.raises(DataError, match="failed half-way"):
        low.push(some([20]))
