"""Exactly once: a driver and its Python workers are killed, and begun again, until all is done.

What has come out then, of a file sink and of files by the number of the micro-batch, is exactly the
answer of the local engine to the rows that were not late; and exactly the late rows. With
output="eager" it is exactly the answers that each micro-batch has made or changed, each once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
from killed_driver import AGGS, EAGER, FILE_SINK, SCHEMA, SPECS
from spark_streams import put_file

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]

FILES, ROWS = 9, 60
LATE = 3  # of a file's rows, from the fifth on
FAR = 100_000
PATIENCE = 240.0  # seconds
# When, by the greatest number of a micro-batch that a query has begun or committed; inside of one
# or between two of them; who is killed.
KILLS = [
    (1, "inside", "workers"),
    (2, "between", "driver"),
    (4, "inside", "workers and daemon"),
    (5, "between", "workers"),
    (6, "inside", "driver"),
]


def files() -> list[pa.Table]:
    """Micro-batches: rows out of order by less than the delay, some of them late for all windows,
    ties, nulls and NaN; then one row that is far ahead."""
    rng = np.random.default_rng(11)
    made = []
    for number in range(FILES):
        first = number * ROWS
        times = (first + np.arange(ROWS)) // 2 + rng.integers(0, 9, ROWS)
        if number > 3:
            times[rng.choice(ROWS, LATE, replace=False)] -= 120
        x = rng.normal(size=ROWS) * 10.0 ** rng.integers(-3, 12, ROWS)
        x[rng.random(ROWS) < 0.02] = np.nan
        keys = [f"k{k}" if k else None for k in rng.integers(0, 7, ROWS)]
        values = pa.array(x, mask=rng.random(ROWS) < 0.1, from_pandas=False)
        made.append(pa.table([times, keys, values, range(first, first + ROWS)], schema=SCHEMA))
    return [*made, pa.table([[FAR], ["k1"], [1.0], [-1]], schema=SCHEMA)]


class Driver:
    """A process with children, in a session of its own."""

    def __init__(self, folder: Path) -> None:
        here = Path(__file__).parent
        paths = [str(here.parent), str(here), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        self.folder = folder
        self.log = (folder / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(here / "killed_driver.py"), str(folder)],
            start_new_session=True, env=environment, stdout=self.log, stderr=self.log,
        )  # fmt: skip

    def kill(self, whom: str) -> None:
        """Kill -9 of the whole session; or of Python workers, or of these and what forks them."""
        everyone = whom == "driver"
        while everyone or self.process.poll() is None:
            killed = [pid for pid in self._pids(whom) if _kill(pid)]
            if bool(killed) != everyone:  # all are gone; or some have been hit
                break
            time.sleep(0.005)
        if everyone:
            self.close()

    def close(self) -> int:
        """Wait until it has ended; how it has."""
        self.log.close()
        return self.process.wait(PATIENCE)

    def _pids(self, whom: str) -> list[int]:
        session = self._session()
        daemons = {pid for pid, (_, command) in session.items() if "pyspark.daemon" in command}
        workers = {pid for pid in daemons if session[pid][0] in daemons}
        return sorted({"driver": set(session), "workers": workers}.get(whom, daemons))

    def _session(self) -> dict[int, tuple[int, str]]:
        """The processes that are alive, with their parents and commands."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                told = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:  # it has just ended
                continue
            state, parent, session = told[0], int(told[1]), int(told[3])
            if session == self.process.pid and state != "Z":
                found[int(entry.name)] = (parent, command)
        return found


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def newest(folder: Path, log: str) -> int:
    """The greatest number of a micro-batch that a query has begun ("offsets") or committed."""
    numbers = [-1]
    for name in (*SPECS, *EAGER):
        found = (folder / name / "checkpoint" / log).glob("[0-9]*")
        numbers += [int(entry.name) for entry in found]
    return max(numbers)


def wait_for(driver: Driver, batch: int, where: str, rng: np.random.Generator) -> None:
    """Until a query has come so far; then a little longer."""
    end = time.monotonic() + PATIENCE
    log = {"inside": "offsets", "between": "commits"}[where]
    while newest(driver.folder, log) < batch:
        assert driver.process.poll() is None, f"it has ended before micro-batch {batch}"
        assert time.monotonic() < end, f"micro-batch {batch} has not come"
        time.sleep(0.005)
    if where == "inside":
        time.sleep(rng.random() * 0.3)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder in which all was done in the end."""
    folder, rng = tmp_path_factory.mktemp("killed"), np.random.default_rng()
    (folder / "in").mkdir()
    for number, table in enumerate(files()):
        put_file(folder / "in", number, table)
    driver = Driver(folder)
    try:
        for batch, where, whom in KILLS:
            wait_for(driver, batch, where, rng)
            driver.kill(whom)
            driver = Driver(folder) if whom == "driver" else driver
        assert driver.close() == 0, (folder / "log").read_text()[-3000:]
    finally:
        driver.kill("driver")
    return folder


def out_of(spark, folder: Path, name: str) -> pa.Table:
    """What the sink has: that of Spark, by its own log of what is valid."""
    out = folder / name / "out"
    if name in FILE_SINK:
        return spark.read.parquet(str(out)).toArrow()
    return pa.concat_tables([pq.read_table(file) for file in out.glob("*.parquet")])


def on_time(name: str) -> tuple[list[pa.Table], pa.Table]:
    """Of each file the rows that were not late; and the late ones."""
    late, kept, so_far = [], [], 0
    for table in files():
        edge = so_far - (SPECS | EAGER)[name].progress.delay.amount
        behind = pc.less(table["t"], edge)
        late.append(table.filter(behind))
        kept.append(table.filter(pc.invert(behind)))
        so_far = max(so_far, pc.max(table["t"]).as_py())
    return kept, pa.concat_tables(late)


def answered(name: str, rows: pa.Table) -> pa.Table:
    """The answers of the local engine, as a query gives them."""
    answers = (SPECS | EAGER)[name](rows)
    if name.endswith("hopping"):
        return answers
    return pa.table([*rows.columns, *answers.columns], [*SCHEMA.names, *AGGS])


def lines(table: pa.Table) -> list[str]:
    return sorted(repr(line) for line in table.to_pylist())


@pytest.mark.parametrize("name", SPECS)
def test_killed_at_any_time_all_comes_once(name, killed, spark):
    got = out_of(spark, killed, name)
    kept, late = on_time(name)
    answers = answered(name, pa.concat_tables(kept))
    final = pc.not_equal(answers["row"], -1) if name == "rolling" else pc.less(answers["end"], FAR)
    answers = answers.filter(final)
    check(got, answers, late)
    heads = spark.read.format("statestore").option("stateVarName", "head")
    kept = heads.load(str(killed / name / "checkpoint")).select("value.*").toPandas()
    rows = FILES * ROWS + 1
    counts = (kept["received"].sum(), kept["late"].sum(), kept["answers"].sum())
    assert counts == (rows, late.num_rows, answers.num_rows)


@pytest.mark.parametrize("name", EAGER)
def test_killed_at_any_time_each_change_comes_once(name, killed, spark):
    kept, late = on_time(name)
    names = ["row"] if name == "eager rolling" else ["k", "end"]
    told: dict[tuple, tuple[int, str]] = {}
    changes = []
    for count in range(1, len(kept) + 1):
        for line in answered(name, pa.concat_tables(kept[:count])).to_pylist():
            what, value = tuple(line[n] for n in names), repr(line)
            revision, before = told.get(what, (0, None))
            if value != before:
                told[what] = revision + 1, value
                changes.append(line | {"revision": revision + 1})
    answers = pa.Table.from_pylist(changes)
    assert pc.sum(pc.equal(answers["revision"], 2)).as_py() > FILES
    check(out_of(spark, killed, name), answers, late)


def check(got: pa.Table, answers: pa.Table, late: pa.Table) -> None:
    """Exactly these answers and these late rows have come."""
    assert late.num_rows == LATE * (FILES - 4)
    assert lines(got.filter(pc.is_valid(got["n"])).select(answers.column_names)) == lines(answers)
    told = got["late"].drop_null().to_pylist()
    assert sorted(map(repr, told)) == lines(late)
