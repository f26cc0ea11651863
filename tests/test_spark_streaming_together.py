"""Several trailing specs over one stream of Spark: the answers of each, side by side in one row."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import SnapshotError, SpecError

pytest.importorskip("pyspark", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
pytest.importorskip("pyspark.sql.streaming.tws_tester")

from shard_queries import SCHEMA, Query, comparable, micro_batches, on_time
from spark_bridge import state, streaming
from spark_bridge.shards import Shard, told_from_outside


def rolling(name, length, **options):
    """A spec whose answers have this name in theirs."""
    spec = mta.rolling(length, on="t", by="k", **options).watermark("4i")
    aggs = {"s": agg.sum("x"), "q": agg.median("x"), "n": agg.count(), "l": agg.last("i")}
    return spec.agg(**{f"{name}_{which}": each for which, each in aggs.items()})


TOGETHER = {
    "short and long": [rolling("a", "5i"), rolling("b", "40i", closed="left")],
    "one looks ahead": [rolling("a", "9i"), rolling("b", "6i", lag="-5i"), rolling("c", 3)],
    "by rows and all": [rolling("a", 2), rolling("b", None)],
    "waits for rows": [rolling("a", "7i"), rolling("b", 2, lag=-1)],
}


@pytest.mark.parametrize("eager", [False, True], ids=["final", "eager"])
@pytest.mark.parametrize("name", TOGETHER)
@settings(max_examples=8)
@given(micro_batches(), st.data())
def test_answers_side_by_side_are_those_of_each_batch(name, eager, batches, data):
    """Whatever workers have forgotten, and however short a log is kept."""
    specs = TOGETHER[name]
    query = Query(specs, eager=eager)
    for parts in batches:
        state.LOG_ENTRIES, before = data.draw(st.sampled_from([0, 2, 64])), state.LOG_ENTRIES
        try:
            query.run(parts, data.draw(st.sampled_from([None, "cold", "failed"])))
        finally:
            state.LOG_ENTRIES = before
    query.lull()
    kept, late = on_time(specs[0], batches)
    rows = kept.to_pylist()
    for spec in specs:
        rows = [row | made for row, made in zip(rows, spec(kept).to_pylist(), strict=True)]
    got = query.output("answers")
    if eager:
        got = newest_answers(got)
    elif name == "waits for rows":  # the last row of a key waits for one more
        known = {row["i"] for row in got}
        waiting = [row["i"] for row in rows if row["i"] not in known]
        newest = {row["k"]: row["i"] for row in sorted(rows, key=lambda r: (r["t"], r["i"]))}
        assert sorted(waiting) == sorted(newest.values())
        rows = [row for row in rows if row["i"] in known]
    assert comparable(got) == comparable(rows)
    assert comparable(query.output("late")) == comparable(late)
    assert sum(made["late_rows"].sum() for made in query.told if len(made)) == len(late)


def newest_answers(answers):
    """Of each row, which is told at once, and again only when an answer changes."""
    newest = {}
    for row in answers:
        revision = row.pop("revision")
        before, told = newest.get(row["i"], (0, None))
        assert revision == before + 1
        assert repr(row) != repr(told)
        newest[row["i"]] = revision, row
    return [row for _, row in newest.values()]


def rows_at(times):
    rows = {"t": times, "k": ["a"] * len(times), "x": [1.0] * len(times), "i": times}
    return pa.table(rows, schema=SCHEMA)


def test_a_row_comes_when_all_of_its_answers_are_final():
    shard = Shard(told_from_outside(TOGETHER["one looks ahead"]))
    assert shard.take(None, rows_at([10, 11, 20])).answers is None
    assert shard.take(15, None).answers is None  # the first spec has answered two rows
    assert shard.waits
    assert shard.take(16, None).answers["i"].to_pylist() == [10]
    assert shard.take(30, None).answers["i"].to_pylist() == [11, 20]
    assert not shard.waits
    assert shard.answers == shard.received == 3
    assert [table is None for table in shard.waiting.beside.held] == [True] * 3


def test_a_checkpoint_is_of_all_specs_and_has_blocks_of_each(monkeypatch):
    monkeypatch.setattr(state, "LOG_ENTRIES", 1)
    specs = TOGETHER["short and long"]
    query = Query(specs, shards=1)
    for start in range(0, 200, 10):
        query.run([rows_at(list(range(start, start + 10)))])
    head = query.tester.processor.store
    query.tester.handle.setGroupingKey(0)
    assert {number % 2 for number in head.read().blocks} == {0, 1}
    for others in (specs[:1], specs[::-1]):
        head.specs = told_from_outside(others)
        with pytest.raises(SnapshotError, match=r"checkpoint: .*another specification"):
            query.run([rows_at([300])])


A = mta.rolling("9i", on="t", by="k").watermark("4i")
NOT_TOGETHER = [
    (mta.tumbling("9i", on="t", by="k").watermark("4i"), "spec: windows by number have rows"),
    (mta.rolling("9i", on="t", by="k", every=2).watermark("4i"), "every: answers for some rows"),
    (mta.rolling("9i", on="t").watermark("4i"), "spec: one shuffle and one sort"),
    (A.watermark("5i"), "watermark: specs that share a stream have one"),
    (A.late("error"), "late: rows are late for all specs alike"),
]


@pytest.mark.parametrize(("spec", "message"), NOT_TOGETHER)
def test_what_cannot_share_a_stream_is_refused(spec, message):
    with pytest.raises(SpecError, match=message):
        streaming.check([A.agg(n=agg.count()), spec.agg(m=agg.count())], None)


def test_revisions_are_refused_beside_each_other():
    specs = [A.late("revise", within="9i").agg(**{n: agg.count()}) for n in "ab"]
    with pytest.raises(SpecError, match="late: a late row revises other answers of each"):
        streaming.check(specs, None)
