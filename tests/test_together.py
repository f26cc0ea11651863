"""Several specs over one stream, whose rows are kept once: what each of them answers alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from kinds import build
from mta import agg
from mta.errors import DataError, SnapshotError, SpecError
from mta.stores import MemoryStore
from strategies import data
from test_stored_rolling import call, edges, least_memory, retried, specs
from test_stream import cut, in_time
from test_stream_disorder import DELAYS


def several(draws):
    """Specs that differ in all but their time and keys."""
    first = specs(draws)
    others = draws.draw(st.lists(st.just(None), max_size=2))
    made = [first]
    for _ in others:
        spec = specs(draws)
        if spec.on == first.on:
            made.append(replace(spec, by=first.by))
    return made


def answers_of(f, *arguments):
    """Of every spec, as text; or the error of the first that has one."""
    try:
        made = f(*arguments)
    except OverflowError as error:
        return str(error)
    return [None if one is None else call("pandas", lambda one=one: one) for one in made]


def opened(chosen, store, name="stream"):
    memory = least_memory(*chosen)
    return mta.together(*chosen).stream(memory=memory, store=store, block=300, name=name)


def apart(chosen):
    """Streams of their own; what one of them raises, all of them raise."""
    ops = [spec.stream() for spec in chosen]

    def push(rows):
        before = [op.to_bytes() for op in ops]
        try:
            return [op.push(rows) for op in ops]
        except OverflowError:
            ops[:] = [s.stream(saved) for s, saved in zip(chosen, before, strict=True)]
            raise

    return ops, push


@given(data(max_size=40, keys=("int64", "int64")), DELAYS, st.data())
def test_any_specs_any_cuts(sample, delay, draws):
    chosen, columns = several(draws), in_time(sample)
    if chosen[0].on is not None and draws.draw(st.booleans()):
        chosen = [spec.watermark(f"{delay}i") for spec in chosen]
        columns = sample.columns
    op, (ops, push) = opened(chosen, MemoryStore()), apart(chosen)
    for start, stop in edges(draws, len(columns["t"][1])):
        rows = build("pandas", cut(columns, start, stop))
        assert answers_of(op.push, rows) == answers_of(push, rows)
    assert answers_of(op.finish) == answers_of(lambda: [one.finish() for one in ops])
    assert [s["late"] for s in op.state()] == [one.state()["late"] for one in ops]


@given(data(max_size=40, keys=("int64", "int64")), st.sets(st.integers(1, 60)), st.data())
def test_failing_stores_and_crashes(sample, failing, draws):
    chosen, columns = several(draws), in_time(sample)
    store = FailingStore(before=failing)
    op, (ops, push) = retried_open(chosen, store), apart(chosen)
    for start, stop in edges(draws, len(columns["t"][1])):
        rows = build("pandas", cut(columns, start, stop))
        assert retried_answers(op.push, rows) == answers_of(push, rows)
        if draws.draw(st.booleans()):
            retried(op.flush, plain=True)
            op = retried_open(chosen, store)
            assert op.received == ops[0].received
    assert retried_answers(op.finish) == answers_of(lambda: [one.finish() for one in ops])


def retried_open(chosen, store):
    return retried(opened, chosen, store, plain=True)


def retried_answers(f, *arguments):
    return retried(answers_of, f, *arguments, plain=True)


def test_rows_are_stored_once_and_read_by_those_who_need_them():
    rng = np.random.default_rng(1)
    specs = [
        mta.rolling(n).agg(s=agg.sum("x"), m=agg.weighted_mean("x", "y")) for n in (900, 3000, 7000)
    ]
    rows = [{"x": rng.random(500), "y": rng.random(500)} for _ in range(60)]
    with mta.together(*specs).stream(memory="192KB", block=2048) as op:  # as the three have
        for some in rows:
            got = op.push(some)
        together = op.stats()
    alone = []
    for spec, answers in zip(specs, got, strict=True):
        with spec.stream(memory="64KB", block=2048) as one:
            for some in rows:
                want = one.push(some)
            alone.append(one.stats())
        assert all((answers[name] == want[name]).all() for name in want)
    assert together.written <= 60 * 500 // 64  # as many blocks as have come
    assert together.stored <= 7000 // 64 + 2
    # Alone the smallest one has room for all of its rows.
    assert together.requests < 0.7 * sum(stats.expected for stats in alone)


def test_dead_keys_leave_no_rows():
    specs = [mta.rolling(f"{n}i", on="t", by="k").agg(s=agg.sum("x")) for n in (40, 90)]
    specs = [spec.watermark("0i") for spec in specs]
    store = MemoryStore()
    op = mta.together(*specs).stream(memory=8192, store=store, block=300)
    for i in range(200):
        t = np.arange(30 * i, 30 * i + 30)
        op.push({"t": t, "k": np.full(30, i // 2), "x": np.ones(30)})
    op.flush()
    assert op.state()[0]["keys"] < 80
    assert len(store._values) < 300


def test_what_does_not_go_together():
    hour = mta.rolling("1h", on="t").agg(s=agg.sum("x"))
    with pytest.raises(SpecError, match="the same by"):
        mta.together(hour, mta.rolling("1h", on="t", by="k").agg(s=agg.sum("x")))
    with pytest.raises(SpecError, match="the same watermark"):
        mta.together(hour, hour.watermark("1m"))
    with pytest.raises(SpecError, match="no trailing spec"):
        mta.together(hour, mta.tumbling("1h", on="t").agg(s=agg.sum("x")))
    with pytest.raises(SpecError, match="give it specs"):
        mta.together()


def test_rows_out_of_order_are_an_error_and_not_taken_in():
    spec = mta.rolling("10i", on="t").agg(s=agg.sum("x"))
    op = mta.together(spec, replace(spec, ties="arrival")).stream(memory="64KB")
    op.push({"t": np.array([1, 5]), "x": np.ones(2)})
    with pytest.raises(DataError, match="sort them"):
        op.push({"t": np.array([2]), "x": np.ones(1)})
    one, other = op.push({"t": np.array([6]), "x": np.ones(1)})
    assert (one["s"].tolist(), other["s"].tolist()) == ([2.0], [3.0])
    store = MemoryStore()
    opened([spec, spec], store).flush()
    with pytest.raises(SnapshotError, match="another specification"):
        opened([spec], store)
