"""The baseline that the thesis compares with: buffering, told row by row, and beside streams."""

from __future__ import annotations

from itertools import pairwise

import disorder
import numpy as np
import pytest
from buffering import AGGREGATES, SLACKS, Answers, Buffering
from hypothesis import given
from hypothesis import strategies as st

import mta
from mta import agg
from mta.windows import wids

REDUCE = {"count": len, "sum": sum, "mean": lambda x: sum(x) / len(x), "max": max}


@st.composite
def runs(draw):
    """Rows in some order, windows, a slack, and where to cut the rows."""
    ts = np.array(draw(st.lists(st.integers(-10, 40), max_size=20)), np.int64)
    slide = draw(st.integers(1, 6))
    length, slack = slide + draw(st.integers(0, 12)), draw(st.integers(0, 15))
    cuts = sorted(draw(st.lists(st.integers(0, len(ts)), max_size=4)))
    return ts, length, slide, slack, cuts


def pushed(op, ts, x, cuts):
    parts = [op.push(ts[a:b], x[a:b]) for a, b in pairwise([0, *cuts, len(ts)])]
    return Answers.join([*parts, op.finish()])


def row_by_row(ts, x, length, slide, slack, aggregate, drop):
    """The definition: a window closes when a row comes that is `slack` beyond its end."""
    spec = mta.hopping(f"{length}i", f"{slide}i", on="t", origin=0)
    held, given_after, dropped, latest = {}, {}, 0, -(10**9)
    for i, t in enumerate(ts.tolist()):
        mine = wids(spec, i, ts.tolist())
        still_open = [w for w in mine if w * slide + length > latest - slack]
        if not still_open or (drop == "consistent" and still_open != mine):
            dropped += 1
        else:
            for w in still_open:
                held.setdefault(w, []).append(float(x[i]))
        latest = max(latest, t)
        for w in held:
            if w * slide + length <= latest - slack:
                given_after.setdefault(w, i + 1)
    lines = [
        (w * slide + length, REDUCE[aggregate](rows), given_after.get(w, len(ts)))
        for w, rows in sorted(held.items())
    ]
    return lines, dropped


@pytest.mark.parametrize("drop", SLACKS)
@pytest.mark.parametrize("aggregate", AGGREGATES)
@given(runs())
def test_it_is_what_the_words_say(aggregate, drop, run):
    ts, length, slide, slack, cuts = run
    x = np.arange(len(ts)) * 1.0 - 3
    op = Buffering(length, slide, slack, aggregate, drop)
    got = pushed(op, ts, x, cuts)
    want, dropped = row_by_row(ts, x, length, slide, slack, aggregate, drop)
    assert list(zip(got.end.tolist(), got.value.tolist(), got.after.tolist(), strict=True)) == want
    assert op.dropped == dropped


@pytest.mark.parametrize("drop", SLACKS)
@given(runs(), st.integers(0, 2**32 - 1))
def test_slack_as_great_as_the_disorder_loses_nothing(drop, run, seed):
    ts, length, slide, delay, cuts = run
    rows = disorder.band(np.random.default_rng(seed), np.sort(ts), delay)
    x = rows.ts * 2.0
    op = Buffering(length, slide, delay, "sum", drop)
    got = pushed(op, rows.ts, x, cuts)
    spec = mta.hopping(f"{length}i", f"{slide}i", on="t", origin=0).agg(s=agg.sum("x"))
    want = spec({"t": rows.ts, "x": x})
    assert got.end.tolist() == want["end"].tolist()
    assert got.value.tolist() == want["s"].tolist()
    assert op.dropped == 0


@given(runs())
def test_sorted_rows_need_no_slack(run):
    ts, length, slide, _, cuts = run
    ts, x = np.sort(ts), np.arange(len(ts)) * 1.0
    got = pushed(Buffering(length, slide, ordered=True), ts, x, cuts)
    want = pushed(Buffering(length, slide), ts, x, cuts)
    for name in ("end", "value", "after"):
        assert getattr(got, name).tolist() == getattr(want, name).tolist()


@given(runs())
def test_a_stream_that_drops_late_rows_is_generous(run):
    """The watermark with a delay is slack: the same rows count, the same answers come."""
    ts, length, slide, slack, cuts = run
    x = np.arange(len(ts)) * 1.0
    op = Buffering(length, slide, slack, "sum", "generous")
    want = pushed(op, ts, x, cuts)
    spec = mta.hopping(f"{length}i", f"{slide}i", on="t", origin=0).watermark(f"{slack}i")
    ours = spec.agg(s=agg.sum("x")).stream()
    parts = [ours.push({"t": ts[a:b], "x": x[a:b]}) for a, b in pairwise([0, *cuts, len(ts)])]
    parts.append(ours.finish())
    assert np.concatenate([p["end"] for p in parts]).tolist() == want.end.tolist()
    assert np.concatenate([p["s"] for p in parts]).tolist() == want.value.tolist()
    assert ours.state()["late"] == op.dropped


def test_rows_leave_the_buffer():
    op = Buffering(10, 2, 3)
    for start in range(0, 1000, 50):
        ts = np.arange(start, start + 50)
        op.push(ts, ts * 1.0)
        assert op.held <= 10 + 3 + 2
