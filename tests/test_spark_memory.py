"""A giant key passes through a worker's memory: what it holds is the window, not the key."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import mta
from mta import agg
from spark_streams import Source, session_with

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures in /proc"),
]

ROWS = 60_000
TEXT = 400  # bytes of a row that are only carried through
OWN_WORKERS = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"  # other workers than others


def peaks() -> dict[int, float]:
    """The most memory that each Python worker of this process's Spark has had, in MB."""
    parents, words, most = {}, {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(x.split(":", 1) for x in (entry / "status").read_text().splitlines())
            words[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # it has just ended
            continue
        parents[int(entry.name)] = int(status["PPid"])
        most[int(entry.name)] = float(status.get("VmHWM", "0").split()[0]) / 1024

    def ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    daemons = {pid for pid in words if "pyspark.daemon" in words[pid] and ours(pid)}
    return {pid: most[pid] for pid in daemons if parents[pid] in daemons}


def keyed(spark, rows):
    """Two rows in five are of one key; every row is wide."""
    key = "CASE WHEN id % 5 < 2 THEN 0 ELSE 1 + id % 500 END AS k"
    wide = f"repeat(cast(id % 10 AS string), {TEXT}) AS text"
    return spark.range(rows).selectExpr(key, "id AS t", "double(id % 1000) AS x", wide)


def peak_of_others(others):
    """The most that a worker has had that is none of these."""
    return max(peak for pid, peak in peaks().items() if pid not in others)


def test_memory_does_not_grow_with_a_key(spark, monkeypatch):
    spec = mta.rolling("5000i", on="t", by="k").agg(
        n=agg.count(), s=agg.sum("x"), q=agg.median("x"), hi=agg.max("x")
    )
    others = set(peaks())
    with session_with(spark, {OWN_WORKERS: "true"}):
        most = []
        for rows in (ROWS, 4 * ROWS):
            spark_bridge.apply(spec, keyed(spark, rows)).write.format("noop").mode("append").save()
            most.append(peak_of_others(others))
    held = 3 * ROWS * 2 / 5 * TEXT / 2**20  # MB that more rows of the key would take
    assert most[1] - most[0] < held / 3, most


BATCHES, EARLY = 12, 5  # micro-batches: of all, and those before memory is first looked at
PIECE = 2_500  # rows in each
WIDE = 3_000  # bytes of a row


def piece_of(number):
    """A micro-batch of rows in order; nine in ten are of one key."""
    ids = list(range(number * PIECE, (number + 1) * PIECE))
    return pa.table({
        "k": pa.array([0 if i % 10 else 1 + i % 500 for i in ids], pa.int64()),
        "t": pa.array(ids, pa.int64()),
        "x": pa.array([float(i % 1000) for i in ids]),
        "text": pa.array([str(i % 10) * WIDE for i in ids]),
    })  # fmt: skip


@pytest.mark.usefixtures("rocksdb")
def test_memory_does_not_grow_with_a_key_of_a_stream(spark, tmp_path, monkeypatch):
    """What workers hold is the micro-batch, the rows that wait, and the windows; not what was."""
    pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
    spec = mta.rolling("2000i", on="t", by="k").watermark("500i")
    spec = spec.agg(n=agg.count(), s=agg.sum("x"), q=agg.median("x"))
    source, most, told = Source(spark, tmp_path), [], []
    for number in range(BATCHES):
        source.put(piece_of(number))
    others = set(peaks())

    def look(frame, number):
        told.append(frame.selectExpr("count(*)", "max(n)").collect()[0])
        most.append(peak_of_others(others))

    python = Path(sys.executable)  # by another name, so that all workers are new
    monkeypatch.setattr(spark.sparkContext, "pythonExec", f"{python.parent}/./{python.name}")
    made = spark_bridge.apply(spec, source.read(), shards=2)
    query = made.writeStream.foreachBatch(look).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    answered = sum(count for count, _ in told)
    assert answered >= (BATCHES - 1) * PIECE and max(n or 0 for _, n in told) == 1800
    held = (BATCHES - EARLY) * PIECE * WIDE / 2**20  # MB that the rows since then would take
    assert most[-1] - most[EARLY - 1] < held / 2, most
