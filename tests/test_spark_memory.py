"""A giant key passes through a worker's memory: what it holds is the window, not the key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mta
from mta import agg
from spark_streams import session_with

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
