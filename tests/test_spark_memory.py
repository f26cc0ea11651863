"""A giant key passes through a worker's memory: what it holds is the window, not the key."""

from __future__ import annotations

import os
import subprocess
import sys
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
MORE = 6  # times as many
TEXT = 400  # bytes of a row that are only carried through
OWN_WORKERS = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"  # other workers than others

CHILD = Path(__file__).with_name("shard_memory_child.py")
BATCHES = 32  # the state is as large in every other one: a log of rows comes and goes
# At most a byte a row of 80,000; and the noise of malloc.
SPREAD = {"traced": 80_000, "arrow": 80_000, "resident": 5_000_000}


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
        for rows in (ROWS, ROWS, MORE * ROWS):  # once for what a worker is from then on
            spark_bridge.apply(spec, keyed(spark, rows)).write.format("noop").mode("append").save()
            most.append(peak_of_others(others))
    held = (MORE - 1) * ROWS * 2 / 5 * TEXT / 2**20  # MB that more rows of the key would take
    assert most[2] - most[1] < held / 3, most


@pytest.mark.parametrize("output", ["final", "eager"])
def test_memory_does_not_grow_with_the_micro_batches_of_a_key(output):
    pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
    done = subprocess.run(
        [sys.executable, CHILD, output, str(BATCHES)],
        capture_output=True, env=os.environ | {"PYTHONPATH": ":".join(sys.path)}, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(told) == BATCHES
    for name, bytes_held in zip(SPREAD, zip(*told, strict=True), strict=True):
        early, late = max(bytes_held[BATCHES // 4 : BATCHES // 2]), max(bytes_held[-BATCHES // 4 :])
        assert late - early < SPREAD[name], (name, bytes_held)
