"""The stateful processor of streams without a query: pyspark's TwsTester, and mishaps.

Workers that have seen nothing of a shard, or an old state of it, or an attempt of which nothing was
kept, have to give the answers that one local run gives.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import DataError, SnapshotError, SpecError

pytest.importorskip("pyspark", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
pytest.importorskip("pyspark.sql.streaming.tws_tester")

from shard_queries import SCHEMA, Query, comparable, micro_batches, on_time
from spark_bridge import blobs, state, streaming
from spark_bridge.shards import Shard, told_from_outside

AGGS = {"s": agg.sum("x"), "q": agg.median("x"), "n": agg.count(), "l": agg.last("x")}
KINDS = agg.monoid(lambda x: {x}, lambda a, b: a | b, len, zero=set, gives="int", name="kinds")
ROLLING = {
    "time": mta.rolling("9i", on="t", by="k"),
    "rows": mta.rolling(3, on="t", by="k"),
    "all": mta.rolling(None, on="t"),
    "ahead": mta.rolling("5i", on="t", by="k", lag="-4i", closed="both"),
    "next rows": mta.rolling(2, on="t", by="k", lag=-1),
    "every": mta.rolling("9i", on="t", by="k", every=2),
}
PERIODIC = {
    "hopping": mta.hopping("10i", slide="4i", on="t", by="k"),
    "tumbling": mta.tumbling("6i", on="t", closed="right"),
    "landmark": mta.landmark("7i", on="t", by="k", origin="5i"),
}
SPECS = {
    **{name: spec.watermark("4i").agg(**AGGS) for name, spec in (ROLLING | PERIODIC).items()},
    "revised rows": ROLLING["time"].watermark("1i").late("revise", within="5i").agg(**AGGS),
    "revised windows": PERIODIC["hopping"].watermark("1i").late("revise", within="5i").agg(**AGGS),
    "user": ROLLING["time"].watermark("4i").agg(kinds=KINDS("i")),
    "panes": PERIODIC["hopping"].watermark("2i").agg(s=agg.sum("x"), n=agg.count()),
}


@pytest.mark.parametrize("name", [*ROLLING, "revised rows", "user"])
@settings(max_examples=10)
@given(micro_batches())
def test_rows_with_answers_are_those_of_a_batch(name, batches):
    spec = SPECS[name]
    query = Query(spec)
    for parts in batches:
        query.run(parts)
    query.lull()
    kept, late = on_time(spec, batches)
    expected = spec(kept)
    if spec.every is None:
        pairs = zip(kept.to_pylist(), expected.to_pylist(), strict=True)
        rows = [row | made for row, made in pairs]
        got = query.output("answers")
        newest = {}
        for row in got:
            revision = row.pop("revision", 1)
            before = newest.get(row["i"], (0, {}))
            newest[row["i"]] = max(before, (revision, row), key=lambda x: x[0])
        if name == "next rows":  # the last rows of a key wait for more
            rows = [row for row in rows if row["i"] in newest]
        assert comparable(row for _, row in newest.values()) == comparable(rows)
    else:
        got = [{n: row[n] for n in expected.column_names} for row in query.output("answers")]
        assert comparable(got) == comparable(expected.to_pylist())
    assert comparable(query.output("late")) == comparable(late)
    assert sum(made["late_rows"].sum() for made in query.told if len(made)) == len(late)


@pytest.mark.parametrize("name", [*PERIODIC, "panes", "revised windows"])
@settings(max_examples=10)
@given(micro_batches())
def test_windows_are_those_of_one_local_stream(name, batches):
    """That has all keys, and is told the same times."""
    spec = SPECS[name]
    query, local, expected, newest = Query(spec), told_from_outside([spec])[0].stream(), [], 0
    for parts in batches:
        query.run(parts)
        table = pa.concat_tables(parts)
        if query_time := max(newest - spec.progress.delay.amount, 0):
            expected += local.advance(query_time).to_pylist()
        expected += local.push(table).to_pylist()
        newest = max([newest, *table["t"].to_pylist()])
    query.lull()
    late = local.late().to_pylist()
    if local.state()["received"]:
        expected += local.advance(10_000 - spec.progress.delay.amount).to_pylist()
    assert comparable(query.output("answers")) == comparable(expected)
    assert comparable(query.output("late")) == comparable(late)


@pytest.mark.parametrize("name", SPECS)
@settings(max_examples=6)
@given(micro_batches(), st.data())
def test_mishaps_change_nothing(name, batches, data):
    """Answers, late rows and timers do not depend on what workers have in memory."""
    plain, hurt = Query(SPECS[name]), Query(SPECS[name])
    for parts in batches:
        plain.run(parts)
        mishap = data.draw(st.sampled_from([None, "cold", "failed"]))
        hurt.run(parts, mishap)
    plain.lull()
    state.COPIES.held.clear()
    hurt.lull()
    for column in ("answers", "late"):
        assert comparable(plain.output(column)) == comparable(hurt.output(column))


def test_a_log_gives_way_to_a_snapshot(monkeypatch):
    """And old pieces are removed; counters tell what is held."""
    monkeypatch.setattr(state, "LOG_BYTES", 3000)
    monkeypatch.setattr(state, "PIECE_BYTES", 512)
    spec = SPECS["time"]
    query, sizes = Query(spec, shards=1), []
    for start in range(0, 400, 10):
        rows = {"t": range(start, start + 10), "k": ["a"] * 10, "x": [1.0] * 10, "i": range(10)}
        query.run([pa.table(rows, schema=SCHEMA)])
        pieces = query.tester.peekMapState("pieces", 0)
        _, received, late, answers, held, watermark = query.tester.peekValueState("head", 0)
        assert received == start + 10
        assert late == 0
        assert answers == len(query.output("answers"))
        assert held == sum(len(piece) for (piece,) in pieces.values())
        assert watermark is None or watermark == start - 5
        assert max(len(piece) for (piece,) in pieces.values()) <= 512
        sizes.append(held)
    assert min(sizes[10:]) < 6000 < max(sizes) < 12_000


def test_a_checkpoint_keeps_its_shards_and_its_spec():
    spec = SPECS["time"]
    query = Query(spec, shards=2)
    row = [pa.table({"t": [5], "k": ["a"], "x": [1.0], "i": [0]}, schema=SCHEMA)]
    query.run(row)
    query.tester.processor.store.shards = 3
    with pytest.raises(DataError, match=r"shards: .* begun with 2, which it keeps, not with 3"):
        query.run(row)
    query.tester.processor.store.shards = 2
    query.tester.processor.store.specs = told_from_outside([SPECS["rows"]])
    with pytest.raises(SnapshotError, match=r"checkpoint: .*another specification"):
        query.run(row)


def test_a_damaged_state_is_refused():
    query = Query(SPECS["time"], shards=1)
    row = [pa.table({"t": [5], "k": ["a"], "x": [1.0], "i": [0]}, schema=SCHEMA)]
    query.run(row)
    pieces = query.tester.handle.map_states["pieces"].state[0]
    pieces.clear()
    state.COPIES.held.clear()
    with pytest.raises(SnapshotError, match=r"checkpoint: damaged \(0 bytes"):
        query.run(row)


def test_late_rows_can_be_an_error():
    spec = ROLLING["time"].watermark("1i").late("error").agg(n=agg.count())
    shard = Shard(told_from_outside([spec]))
    rows = pa.table({"t": [50], "k": ["a"], "x": [1.0], "i": [0]}, schema=SCHEMA)
    shard.take(None, rows)
    with pytest.raises(DataError, match="late"):
        shard.take(51, rows)


def test_rows_wait_no_longer_than_they_may():
    """Also those that are late, or are never answered."""
    for name in ("time", "every", "revised rows"):
        shard = Shard(told_from_outside([SPECS[name]]))
        for now in range(20, 400, 20):
            times = np.arange(now - 40, now)
            rows = {"t": times, "k": ["a"] * 40, "x": times * 1.0, "i": times}
            shard.take(now - 20, pa.table(rows, schema=SCHEMA))
        assert len(shard.waiting.numbers) <= 40


NOT_ON_STREAMS = [
    (mta.rolling("9i", on="t"), r"watermark: a stream needs \.watermark"),
    (mta.rolling("9i", on="t").watermark(None), r"watermark: a stream needs \.watermark"),
    (mta.rolling(4), "on: a stream of Spark"),
    (mta.rolling("9i", on="t").watermark(source="k"), "source: Spark has one watermark"),
    (mta.rolling("9i", on="t").watermark(max_ahead="9i"), "max_ahead: "),
    (mta.rolling("9i", on="t").watermark(punctuation="k"), "punctuation: "),
    (mta.rolling("9i", on="t", every=2, every_by="arrival").watermark(), "every_by: "),
    (mta.rolling(3, on="t", every=2, lag=-1).watermark(), "every: rows can't be picked"),
    (mta.tumbling("9i", on="t", origin="first").watermark(), "origin: which row comes first"),
    (mta.tumbling("9i", on="t", empty="emit").watermark(), "empty: 'emit' is for batches"),
]


@pytest.mark.parametrize(("spec", "message"), NOT_ON_STREAMS)
def test_what_no_stream_of_spark_can_do_is_refused(spec, message):
    with pytest.raises(SpecError, match=message):
        streaming.check(spec.agg(n=agg.count()), None)


def test_times_are_whole_milliseconds():
    def ms(values, kind):
        return blobs.milliseconds(pa.chunked_array([pa.array(values, kind)]), "t").tolist()

    assert ms([-1, 999, 1000], pa.timestamp("us", "UTC")) == [-1, 0, 1]
    assert ms([-1, 2], pa.date32()) == [-86_400_000, 172_800_000]
    assert ms([7], pa.int16()) == [7]
    with pytest.raises(DataError, match="below"):
        ms([2**60], pa.int64())
    with pytest.raises(DataError, match="null in 1 of 2 rows"):
        ms([None, 1], pa.int64())


def test_rows_of_long_windows_are_written_once_more_and_not_again(monkeypatch):
    monkeypatch.setattr(state, "LOG_BYTES", 20_000)
    monkeypatch.setattr("mta.ledger.LEAST_ROWS", 500)
    spec = mta.rolling("4000i", on="t", by="k").watermark("10i").agg(s=agg.sum("x"), n=agg.count())
    query, rng = Query(spec, shards=1), np.random.default_rng(2)
    batches = []
    for start in range(100, 9000, 300):
        t = np.arange(start, start + 300)
        k = rng.choice(["a", "b", "c"], 300)
        rows = {"t": t, "k": k, "x": rng.normal(size=300), "i": t}
        batches.append(pa.table(rows, schema=SCHEMA))
    written: dict[int, bytes] = {}
    for number, batch in enumerate(batches):
        query.run([batch])
        pieces = query.tester.handle.map_states["pieces"].state[0]
        for key, value in pieces.items():
            assert written.setdefault(key, value) == value  # a piece is never another one
        if number % 7 == 3:
            state.COPIES.held.clear()  # as where a worker is new
    head = query.tester.processor.store.read()
    assert len(head.blocks) > 3
    assert head.bytes == sum(len(value[0]) for value in pieces.values())
    raw = 16 * 4000  # a time and a value of each row inside
    assert sum(stored.bytes for stored in head.blocks.values()) < 1.3 * raw
    query.lull(10**5)
    got = [{name: row[name] for name in ("s", "n")} for row in query.output("answers")]
    want = replace(spec, progress=None)(pa.concat_tables(batches)).to_pylist()
    assert comparable(got) == comparable(want)
