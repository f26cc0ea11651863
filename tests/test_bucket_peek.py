"""``peek()`` of streams of windows by number: a batch so far, of the windows that are open."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg, open_tallies
from strategies import EVERY, aggregates, data, engine_agg
from test_bucket_stream import KINDS, as_text, cut, tells_nulls
from test_plans import FREE, HOLISTIC, plans_of
from test_windows import hops

DELAY = 40  # by which no row is late, and some windows are over


@given(
    st.data(), data(max_size=24), hops(), st.sampled_from(KINDS),
    st.sampled_from([(), ("k0",), ("s",), ("k0", "k1")]),
)  # fmt: skip
def test_what_is_open_is_told_as_a_batch_so_far_would(draws, sample, spec, kind, by):
    """And nothing changes by it, whatever the plan."""
    assume(tells_nulls(kind, sample.columns))
    spec = replace(spec, by=by, **({"empty": "skip"} if spec.kind == "hopping" else {}))
    spec = spec.watermark(f"{draws.draw(st.sampled_from([3, DELAY]))}i")
    plan = draws.draw(st.sampled_from(["rows", *plans_of(spec)]))
    known = {"rows": EVERY, "paned": draws.draw(st.sampled_from([FREE, HOLISTIC]))}.get(plan, FREE)
    aggs = {name: engine_agg(a) for name, a in draws.draw(aggregates(known)).items()}
    check_peeks(spec.agg(**aggs), sample.columns, kind, plan, draws)


def check_peeks(spec, columns, kind, plan, draws):
    ordered = sorted(range(len(columns["t"][1])), key=lambda i: columns["t"][1][i])
    columns = {n: (t, [v[i] for i in ordered]) for n, (t, v) in columns.items()}
    cuts = draws.draw(st.lists(st.integers(0, len(ordered)), min_size=1, max_size=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_tallies, "_FEW_ROWS", 1)
        op, plain = spec.stream(plan=plan), spec.stream(plan=plan)
        final = []
        assert op.peek() is None
        for start, stop in pairwise([0, *sorted(cuts), len(ordered)]):
            piece = build(kind, cut(columns, start, stop))
            try:
                final += read(op.push(piece))
                told = read(op.peek())
                want = read(spec(build(kind, cut(columns, 0, stop))))
            except OverflowError:
                return
            assert texts(final + told, kind) == texts(want, kind)
            assert {row["revision"] for row in told} <= {1}
            plain.push(piece)
            assert op.state() == plain.state()


def texts(rows, kind):
    """(Whether a float of pandas is null or NaN depends on the other rows of a frame.)"""
    if kind == "pandas":
        rows = [{n: None if v != v else v for n, v in row.items()} for row in rows]
    return as_text(rows, kind)


def test_answers_that_late_rows_may_revise_are_no_more_told():
    spec = mta.tumbling("10i", on="t", by="k").watermark("0i").late("revise", within="20i")
    op = spec.agg(n=agg.count()).stream(plan="paned")
    op.push({"t": np.array([3, 12, 5]), "k": ["a", "a", "b"]})
    assert op.peek()["end"].tolist() == [20]
    told = op.push({"t": np.array([4]), "k": ["b"]})
    assert told["revision"].tolist() == [2] and told["n"].tolist() == [2]
    assert op.peek()["revision"].tolist() == [1]
    assert op.finish()["revision"].tolist() == [1]


def test_groups_that_are_ahead_have_been_told():
    op = mta.tumbling("10i", on="t", by="k").watermark("50i").agg(n=agg.count()).stream()
    op.push({"t": np.array([3, 12, 5]), "k": np.array([1, 1, 2])})
    assert op.advance(10, key=1)["n"].tolist() == [1]
    ahead = op.peek()
    assert sorted(zip(ahead["k"], ahead["end"], strict=True)) == [(1, 20), (2, 10)]


def test_a_peek_fails_where_an_answer_does_not_fit_yet_and_nothing_has_changed():
    op = mta.hopping("10i", slide="5i", on="t").watermark("50i").agg(s=agg.sum("x"))
    for plan in ("rows", "paned", "wid"):
        stream = op.stream(plan=plan)
        stream.push({"t": np.array([1, 2]), "x": np.array([2**62, 2**62])})
        with pytest.raises(OverflowError, match="s: the sum"):
            stream.peek()
        stream.push({"t": np.array([3]), "x": np.array([-(2**62)])})
        assert stream.peek()["s"].tolist() == [2**62] * 2
        assert stream.finish()["s"].tolist() == [2**62] * 2
