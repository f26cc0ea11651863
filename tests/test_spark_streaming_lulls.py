"""Lulls of streams on Spark: time goes on by the clock, and what comes behind it is late."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import SpecError
from mta.stream import RollingStream

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
pytest.importorskip("pyspark.sql.streaming.tws_tester")

from shard_queries import SCHEMA, Query, comparable  # noqa: E402
from spark_bridge import state, streaming  # noqa: E402
from spark_bridge.lulls import Lull  # noqa: E402
from spark_bridge.shards import told_from_outside  # noqa: E402
from spark_streams import Source, session_of_streams  # noqa: E402

AGGS = {"s": agg.sum("x"), "q": agg.median("x"), "n": agg.count()}
IDLE = 20
SPECS = {
    "rolling": mta.rolling("9i", on="t", by="k"),
    "all": mta.rolling(None, on="t"),
    "hopping": mta.hopping("10i", slide="4i", on="t", by="k"),
    "landmark": mta.landmark("7i", on="t", by="k", origin="5i"),
}
SPECS = {n: s.watermark("4i", idle_after=f"{IDLE}i").agg(**AGGS) for n, s in SPECS.items()}


@st.composite
def micro_batches(draw):
    """Some with rows, some without, and when they are by the clock."""
    made, clock, at, number = [], 1000, 10, 0
    for size in draw(st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=4, max_size=14)):
        step = draw(st.integers(1, 40))
        clock, at = clock + step, at + step
        rows = [at + draw(st.integers(-25, 5)) for _ in range(size)]
        keys = [draw(st.sampled_from("abc")) for _ in rows]
        values = [draw(st.floats(-1e6, 1e6)) for _ in rows]
        numbers = range(number, number + size)
        made.append((clock, pa.table([rows, keys, values, numbers], schema=SCHEMA)))
        number += size
    return made


def by_one_stream(spec, batches):
    """What one local stream of all keys answers that is told the times that the rules say."""
    stream, delay = told_from_outside([spec])[0].stream(), spec.progress.delay.amount
    newest, told, heard, due, made = 0, 0, None, None, []
    for clock, rows in batches:
        told = max(told, newest - delay)
        if len(rows):
            heard, due = clock, clock + 1
        elif due is not None and clock >= due:
            due = heard + IDLE if clock - heard < IDLE else clock + IDLE
            if clock - heard >= IDLE and newest > delay:
                told = max(told, newest - delay + clock - heard)
        else:
            continue  # no micro-batch that a shard sees; Spark's watermark stands still as well
        if told > 0 and stream.frame is not None:
            made += answers(stream, stream.advance(told), batches)
        if len(rows):
            if stream.frame is None:
                stream.push(rows.slice(0, 0))
                made += answers(stream, stream.advance(told), batches) if told > 0 else []
            made += answers(stream, stream.push(rows), batches)
            newest = max([newest, *rows["t"].to_pylist()])
    return made, [] if stream.frame is None else stream.late().to_pylist()


def answers(stream, made, batches):
    """Of a trailing window beside the rows, by their numbers."""
    if not isinstance(stream, RollingStream):
        return made.to_pylist()
    rows = pa.concat_tables([rows for _, rows in batches]).to_pylist()
    told = made.select(list(AGGS)).to_pylist()
    return [rows[i] | row for i, row in zip(stream.answered_rows.tolist(), told, strict=True)]


@pytest.mark.parametrize("name", SPECS)
@settings(max_examples=30)
@given(micro_batches(), st.data())
def test_all_shards_go_on_as_one_stream_does(name, batches, data):
    """However keys are spread, and whatever workers have forgotten or done twice."""
    query = Query(SPECS[name], shards=3)
    for clock, rows in batches:
        state.LOG_ENTRIES, before = data.draw(st.sampled_from([0, 2, 64])), state.LOG_ENTRIES
        try:
            mishap = data.draw(st.sampled_from([None, "cold", "failed"]))
            query.run_at(clock, [rows] if len(rows) else [], mishap)
        finally:
            state.LOG_ENTRIES = before
    expected, late = by_one_stream(SPECS[name], batches)
    assert comparable(query.output("answers")) == comparable(expected)
    assert comparable(query.output("late")) == comparable(late)


def test_time_goes_on_only_while_nothing_comes():
    lull = Lull()
    assert lull.rows(1000) == 1001
    assert lull.quiet(1010, 500, 30) == 1030  # not silent for long enough
    assert lull.reached == 0
    assert lull.quiet(1041, 500, 30) == 1071
    assert lull.reached == 541
    assert lull.quiet(1080, 500, 30) == 1110
    assert lull.reached == 580
    assert lull.rows(9000) == 9001  # a query that was down, and finds rows
    assert lull.reached == 580
    assert lull.quiet(9040, 570, 30) == 9070
    assert lull.reached == 610


def test_before_there_is_a_watermark_the_clock_tells_nothing():
    lull = Lull()
    lull.rows(1000)
    lull.quiet(2000, 0, 30)
    assert lull.reached == 0


def test_what_a_lull_can_not_be_is_refused():
    spec = mta.tumbling("9i", on="t").agg(n=agg.count())
    with pytest.raises(SpecError, match="idle_after: must be longer than nothing"):
        streaming.check(spec.watermark("1i", idle_after="0i"), None)
    with pytest.raises(SpecError, match="of streams on Spark only"):
        spec.watermark("1i", idle_after="5i").stream()


def test_the_last_windows_of_a_real_stream_close(spark, tmp_path):
    """Also after a restart in the lull; and what comes behind them is late."""
    spec = mta.tumbling("2s", on="ts", by="k").watermark("1s", idle_after="1s")
    spec = spec.agg(n=agg.count(), s=agg.sum("x"))
    source = Source(spark, tmp_path)
    source.put(rows_at([0, 1, 2, 3, 4, 5]))
    with session_of_streams(spark, {streaming.NO_DATA: "true"}):
        assert "by the clock when there were no rows for 1000 ms" in streaming.explain(
            spec, source.read()
        )
        query = source.start(spec, trigger={"processingTime": "500 milliseconds"}, late="late")
        wait_for(source, query, lambda rows: counted(rows) == 6)
        query.stop()
        source.put(rows_at([4, 5, 2000]))
        query = source.start(spec, trigger={"processingTime": "500 milliseconds"}, late="late")
        rows = wait_for(source, query, lambda rows: len(late_of(rows)) > 0)
        query.stop()
    assert late_of(rows) == [4.0, 5.0]
    told = {(row["start"].timestamp() - 1e6, row["n"], row["s"]) for row in rows if row["start"]}
    assert told == {(0, 2, 1.0), (2, 2, 5.0), (4, 2, 9.0)}


def test_a_lull_goes_on_over_a_restart_without_rows(spark, tmp_path):
    """Its query has ended when the rows were taken in, and no more come, ever."""
    spec = mta.tumbling("2s", on="ts", by="k").watermark("1s", idle_after="1s").agg(n=agg.count())
    source = Source(spark, tmp_path)
    source.put(rows_at([0, 1, 2, 3, 4, 5]))
    with session_of_streams(spark, {streaming.NO_DATA: "true"}):
        assert not len(source.answer(spec))  # one micro-batch
        query = source.start(spec, trigger={"processingTime": "500 milliseconds"})
        wait_for(source, query, lambda rows: counted(rows) == 6)
        query.stop()


def late_of(rows):
    return [row["late"]["x"] for row in rows if row["late"] is not None]


def rows_at(seconds):
    ts = pa.array(np.array(seconds) * 10**6 + 10**12, pa.timestamp("us", "UTC"))
    return pa.table({"ts": ts, "k": [None] * len(ts), "x": np.array(seconds) * 1.0})


def counted(rows):
    return sum(row["n"] for row in rows if row["start"] is not None)


def wait_for(source, query, done):
    until = time.monotonic() + 60
    while True:
        rows = [row for table in list(source.batches.values()) for row in table.to_pylist()]
        if done(rows):
            return rows
        assert query.isActive
        assert time.monotonic() < until, rows
        time.sleep(0.1)
