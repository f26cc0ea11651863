"""Windows by number on a store: the answers of those in memory, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta.errors import DataError
from mta.stores import MemoryStore
from oracle import NULL_OR_NAN
from stored_rows import ALL, SUMS, answered, bits, part, rows_of, spec_of
from strategies import HUGE_FLOATS, aggregates, data, engine_agg
from test_bucket_stream import tells_nulls
from test_windows import hops

PARTIAL = ("sum", "mean", "min", "max", "any", "all")
PLANS = ("2LA", "1W", "auto")
KINDS = ("dict", "pandas", "polars", "pyarrow")


def cut(columns, start, stop):
    return {name: (t, v[start:stop]) for name, (t, v) in columns.items()}


def to_bits(rows):
    """Rows to compare, in any order, by the bits of their floats. (A NumPy column may have NaN for
    null, or an object; which of them depends on what is held.)"""
    return sorted(repr({name: _bits(value) for name, value in row.items()}) for row in rows)


def _bits(value):
    if value is None or value is NULL_OR_NAN:
        return "none"
    return float.hex(value) if isinstance(value, float) else value


def outcome(op, columns, kind, cuts):
    """What pushes give, each by itself, or that integers do not fit; and the rows left out."""
    got = []
    try:
        for start, stop in pairwise([0, *sorted(cuts), len(columns["t"][1])]):
            got.append(to_bits(read(op.push(build(kind, cut(columns, start, stop))))))
        got.append(to_bits(read(op.finish())))
    except OverflowError:
        return "overflow"
    return got, op.state()["late"], op.state()["unassigned"]


@given(
    data(floats=HUGE_FLOATS, max_size=40), hops(), aggregates(PARTIAL), st.sampled_from(KINDS),
    st.sampled_from([(), ("k0",), ("k0", "k1")]), st.sampled_from(PLANS),
    st.integers(2200, 9000), st.integers(0, 12), st.data(),
)  # fmt: skip
def test_any_windows_have_the_bits_of_those_in_memory(
    sample, spec, aggs, kind, by, plan, memory, delay, draws
):
    """Rows in any order, cut anywhere, in any amount of memory."""
    assume(tells_nulls(kind, sample.columns))
    plan = "auto" if spec.kind == "landmark" else plan
    spec = replace(spec, by=by, **({"empty": "skip"} if spec.kind == "hopping" else {}))
    spec = spec.watermark(f"{delay}i")
    spec = spec.agg(**{name: engine_agg(a) for name, a in aggs.items()})
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=6))
    with spec.stream(memory=memory, store=MemoryStore(), plan=plan) as op:
        got = outcome(op, sample.columns, kind, cuts)
        assert got == outcome(spec.stream(), sample.columns, kind, cuts)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("memory", [4000, 20_000])
def test_many_panes_with_groups_that_come_and_go(plan, memory):
    """Most of the window is on the store; sums move into wide accumulators and back; groups are
    numbered anew."""
    rows, spec = rows_of(12_000), spec_of()
    want = answered(spec.stream(), rows, 700)
    with spec.stream(memory=memory, store="memory:", plan=plan) as op:
        assert answered(op, rows, 700) == want
        assert len(op.open.groups) < 100  # of 144
        assert op.stats().read > 50
        assert op.state()["late"] == 0


@pytest.mark.parametrize("plan", ["2LA", "1W"])
@pytest.mark.parametrize("aggs", [SUMS, ALL])
def test_rows_far_behind_are_put_in_their_place(plan, aggs):
    """They are in windows that are open still; there are more of them than there is memory for."""
    rows = rows_of(9_000, 1, jitter=250)
    spec = spec_of(aggs, length=600, delay=0)
    want = answered(spec.stream(), rows, 100)
    with spec.stream(memory=3000, store="memory:", plan=plan) as op:
        assert answered(op, rows, 100) == want
        assert op.open.generation > 5
        assert op.stats().memory < 60_000


@pytest.mark.parametrize("origin", [None, 100])
def test_a_landmark_s_windows_go_on_from_a_flush(origin):
    """They need no blocks, but may be opened again."""
    rows, store, got = rows_of(2_000), MemoryStore(), {}
    spec = mta.landmark("50i", on="ts", by="k", origin=origin).watermark("15i").agg(**ALL)
    for at in range(0, 2_000, 500):
        op = spec.stream(memory=4000, store=store)
        got |= by_end(op.push(part(rows, at, at + 500)))
        op.flush()
    op = spec.stream(memory=4000, store=store)
    fresh = spec.stream()
    want = by_end(fresh.push(rows)) | by_end(fresh.finish())
    assert got | by_end(op.finish()) == want
    assert op.stats().stored == 0


def by_end(answers):
    return bits({**answers, "start": answers["end"]})


@pytest.mark.parametrize("plan", ["2LA", "1W"])
def test_gaps_cost_nothing(plan):
    """Windows that hold no row are not looked at, however many they are."""
    rows = rows_of(3_000)
    rows["ts"] = rows["ts"] + np.arange(3_000) // 500 * 10**12
    spec = spec_of()
    with spec.stream(memory=4000, store="memory:", plan=plan) as op:
        assert answered(op, rows, 400) == answered(spec.stream(), rows, 400)


def test_windows_of_one_pane_need_no_store():
    """Calendar and tumbling windows are made of partial aggregates, and gone when they end."""
    rows = rows_of(3_000)
    rows["ts"] = (rows["ts"] * 60).astype("datetime64[s]")
    days = mta.calendar("day", on="ts", by="k", tz="Europe/Berlin").watermark("1h").agg(**ALL)
    hours = mta.tumbling("6h", on="ts", by="k").watermark("1h").agg(**ALL)
    for spec in (days, hours):
        with spec.stream(memory="4KB", store="memory:", plan="2LA") as op:
            assert answered(op, rows, 333) == answered(spec.stream(), rows, 333)
            assert op.stats().written == 0


def test_advance_and_sources_and_late_rows_are_as_in_memory():
    rows = rows_of(4_000, 2, jitter=40)
    rows["at"] = np.arange(4_000) % 3
    spec = spec_of(delay=0).watermark("5i", source="at", sources=(0, 1, 2))
    ops = [spec.stream(), spec.stream(memory=4000, store="memory:", plan="2LA")]
    seen = []
    for op in ops:
        got = bits(op.push(part(rows, 0, 2000)))
        got |= bits(op.idle(1)) | bits(op.advance(2600))
        got |= bits(op.push(part(rows, 2000, 4000))) | bits(op.finish())
        late = op.late()
        seen.append((got, late["x"].tobytes(), op.late_count))
    assert seen[0] == seen[1]
    assert seen[0][2] > 0
    strict = spec_of(delay=0).late("error").stream(memory=4000, store="memory:", plan="2LA")
    strict.push(part(rows, 2000, 4000))
    before = strict.state()
    with pytest.raises(DataError, match="late"):
        strict.push(part(rows, 0, 2000))
    assert strict.state() == before


@pytest.mark.parametrize("plan", PLANS)
def test_rows_newer_than_all_others_may_come_behind_the_watermark(plan):
    """A call has told that time is ahead of all rows: the windows of the next ones are open."""
    spec, rows = spec_of(SUMS, length=12, slide=3, delay=50), rows_of(3)
    answers = []
    for more in ({}, {"memory": 20_000, "store": MemoryStore(), "plan": plan}):
        op = spec.stream(**more)
        got = [op.push({**rows, "ts": np.array([-14, -20, -15])}), op.advance(-8)]
        got += [op.push({**rows, "ts": np.array([-10, -11, -10])}), op.finish()]
        answers.append(to_bits([row for each in got for row in read(each)]))
    assert answers[0] == answers[1]
