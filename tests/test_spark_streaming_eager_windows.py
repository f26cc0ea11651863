"""Streams on Spark, output="eager", windows by number: answers as of each micro-batch.

The stateful processor runs without a query (pyspark's TwsTester) but for the last test.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")

from shard_queries import SCHEMA, Query, micro_batches  # noqa: E402
from spark_bridge import state  # noqa: E402
from spark_bridge.ahead import ToldWindows  # noqa: E402
from spark_bridge.shards import told_from_outside  # noqa: E402
from spark_streams import Source  # noqa: E402
from test_spark_streaming_eager import told_since  # noqa: E402
from test_spark_streaming_shards import AGGS, PERIODIC, SPECS  # noqa: E402

EAGER = {name: SPECS[name] for name in [*PERIODIC, "panes", "revised windows"]}
EAGER["revised panes"] = replace(EAGER["panes"], progress=EAGER["revised windows"].progress)
EAGER["revised panes"] = EAGER["revised panes"].late("revise", within="5i")
EAGER["patient"] = PERIODIC["hopping"].watermark("60i").agg(**AGGS)  # no row is late
MISHAPS = st.lists(st.sampled_from([None, "cold", "failed"]), min_size=7, max_size=7)


def window(row):
    return repr((row.get("k"), row["end"]))


def content(row):
    return repr(sorted((name, value) for name, value in row.items() if name != "revision"))


def take_in(known, rows):
    """What is told now, of each window; an answer is one more, and news."""
    for row in rows:
        before, text = known.get(window(row), (0, None))
        assert row["revision"] == before + 1
        assert content(row) != text
        known[window(row)] = row["revision"], content(row)


def contents(known):
    return {name: text for name, (_, text) in known.items()}


@pytest.mark.parametrize("name", EAGER)
@settings(max_examples=8)
@given(micro_batches(), MISHAPS)
def test_every_micro_batch_tells_what_one_stream_would(name, batches, mishaps):
    """That has all keys, and is told the same times; where nothing is late, what a batch does."""
    spec = EAGER[name]
    query, local = Query(spec, eager=True), told_from_outside([spec])[0].stream()
    known, wanted, newest = {}, {}, 0
    for parts, mishap in zip(batches, mishaps, strict=False):
        heard, table = len(query.told), pa.concat_tables(parts)
        query.run(parts, mishap)
        take_in(known, told_since(query, heard))
        final = []
        if time := max(newest - spec.progress.delay.amount, 0):
            final += local.advance(time).to_pylist()
        final += local.push(table).to_pylist()
        wanted |= {window(row): content(row) for row in final}
        if len(table):
            open_now = {window(row): content(row) for row in local.peek().to_pylist()}
            assert contents(known) == wanted | open_now
        newest = max([newest, *table["t"].to_pylist()])
    heard = len(query.told)
    query.lull()
    take_in(known, told_since(query, heard))
    if local.state()["received"]:
        final = local.advance(10_000 - spec.progress.delay.amount).to_pylist()
        wanted |= {window(row): content(row) for row in final}
    if name == "patient":
        table = pa.concat_tables([part for parts in batches for part in parts])
        batch = replace(spec, progress=None)(table).to_pylist()
        assert wanted == {window(row): content(row) for row in batch}
    assert contents(known) == wanted


def test_windows_that_no_row_can_change_are_forgotten(monkeypatch):
    """And the state holds what the open ones were told, so that a worker may be another one."""
    monkeypatch.setattr(state, "LOG_ENTRIES", 2)
    query = Query(SPECS["tumbling"], shards=1, eager=True)
    for start in range(0, 600, 3):
        times = np.arange(start, start + 3)
        rows = {"t": times, "k": ["a"] * 3, "x": [1.0] * 3, "i": times}
        query.run([pa.table(rows, schema=SCHEMA)], "cold" if start % 5 == 0 else None)
    ((_, _, shard),) = state.COPIES.held.values()
    assert len(shard.told.table) <= 3
    told = query.output("answers")
    assert max(row["revision"] for row in told) == 3  # six ticks in micro-batches of three
    state.COPIES.held.clear()


def test_what_is_told_twice_in_one_call_is_counted_twice():
    told = ToldWindows(("k",))

    def news(*rows):
        names = ["k", "start", "end", "revision", "n"]
        table = pa.table({n: pa.array([row[i] for row in rows]) for i, n in enumerate(names)})
        return [(r["k"], r["end"], r["revision"], r["n"]) for r in told.news(table).to_pylist()]

    assert news(("a", 0, 9, 1, 5), ("b", 0, 9, 1, 5), ("a", 0, 9, 1, 6)) == [
        ("a", 9, 1, 5), ("b", 9, 1, 5), ("a", 9, 2, 6)
    ]  # fmt: skip
    assert news(("a", 0, 9, 1, 6), ("b", 0, 9, 1, 7), ("b", 0, 9, 1, 5)) == [
        ("b", 9, 2, 7), ("b", 9, 3, 5)
    ]  # fmt: skip
    assert news(("a", 9, 18, 1, 5)) == [("a", 18, 1, 5)]


# ---- on Spark ----------------------------------------------------------------------------------

HOUR = 3_600_000_000
START = 1_711_800_000_000_000  # the day before the clocks of Paris go on
REAL = {
    "hopping": mta.hopping("5m", slide="2m", on="t", by="k", origin="30s", closed="right"),
    "calendar": mta.calendar("1 day", tz="Europe/Paris", on="t", by="k"),
}


def disordered(rows, seed, step):
    """Rows out of order by less than 20 steps, with ties, nulls and NaN."""
    rng = np.random.default_rng(seed)
    at = np.arange(rows) // 2 + rng.integers(0, 20, rows)
    x = rng.normal(size=rows) * 10.0 ** rng.integers(-3, 15, rows)
    x[rng.random(rows) < 0.05] = np.nan
    return pa.table({
        "t": pa.array(START + at * step).cast(pa.timestamp("us", "UTC")),
        "k": pa.array([[None, "a", "ä"][c] for c in rng.integers(0, 3, rows)]),
        "x": pa.array(x, mask=rng.random(rows) < 0.1, from_pandas=False),
        "i": pa.array(range(rows), pa.int64()),
    })  # fmt: skip


@pytest.mark.spark
@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize("name", REAL)
def test_the_last_answers_are_those_of_a_batch(spark, tmp_path, name):
    """With a restart between micro-batches, of which one fails in the sink; and revised ones."""
    step = HOUR if name == "calendar" else 9_000_000
    table = disordered(160, len(name), step)
    late = {"within": f"{20 * step}us"} if name == "hopping" else {}
    spec = REAL[name].watermark(f"{(1 if late else 20) * step}us")
    spec = (spec.late("revise", **late) if late else spec).agg(**AGGS, f=agg.first("i"))
    source = Source(spark, tmp_path)
    for start, stop in ((0, 30), (30, 31), (31, 90)):
        source.put(table.slice(start, stop - start))
    with pytest.raises(Exception, match="the sink is full"):
        source.answer(spec, fails_in=1, output="eager", shards=2)
    told = source.answer(spec, output="eager", shards=2)
    assert pc.max(told["revision"]).as_py() > 1
    end = {"t": pa.array([START + 300 * step]).cast(table["t"].type), "k": pa.array(["end"])}
    table = pa.concat_tables([table, pa.table(end)], promote_options="default")
    source.put(table.slice(90))
    source.put(table.slice(160))  # so that time goes on to the row before
    known = {}
    for row in source.answer(spec, output="eager", shards=2).to_pylist():
        before = known.get(window(row), {"revision": 0})
        assert row["revision"] == before["revision"] + 1
        known[window(row)] = row
    table = pa.concat_tables([table, table.slice(160)])
    batch = replace(spec, progress=None)(table).to_pylist()
    assert {w: content(row) for w, row in known.items()} == {
        window(row): content(row) for row in batch
    }
