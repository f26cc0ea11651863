"""Experiment 4 of the MTA paper: the largest window within a memory budget.

Every window grows in a process of its own, whose private memory may grow by the budget from where
it stood when all was imported (RLIMIT_DATA, which counts anonymous maps, and not files mapped
from a disk). The paper sets the heap of a JVM.

    python examples/mta_memory.py ALGORITHM BUDGET CAPACITY
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mta_redis
import numpy as np
from mta_algorithms import ALGORITHMS, Progress, opened

from mta import agg, fifo

CAPACITY = 2**25
BUDGETS = tuple(2**k for k in range(20, 32))
PIECE = 2**12  # values an array; the window is found to be full within one
SLID_ON = 4  # values that come when the window is at its capacity
PARTIALS = {
    "Recompute": 1, "SubtractOnEvict": 1, "TwoStacks": 1, "DABA": 2, "DABALite": 1, "FlatFAT": 2,
    "LogMTA": 2, "AMTA": 2,
}  # fmt: skip
"""Partials a value, as the docstrings of ``mta.fifo`` say (FlatFAT: a place of its ring)."""

PARTIAL = 16  # bytes, of a sum of integers


@dataclass(frozen=True)
class Reached:
    """How large a window became."""

    algorithm: str
    budget: int
    values: int
    full: bool  # the capacity was reached, and the window slid on
    nbytes: int  # what it says that it holds
    resident: int  # by how much the resident memory of the process grew
    seconds: float


WINDOWS: dict[str, Callable[[], Any]] = {
    name: partial(opened, name, agg.sum("x")) for name in ALGORITHMS
}
"""What grows: a name, and how an empty window of sums of integers is opened in the new process."""


def by_budget(
    names: Sequence[str], budgets: Sequence[int], capacity: int, progress: Progress
) -> list[Reached]:
    """Every window within every budget; where the capacity is reached, larger ones are left out."""
    found = []
    for name in names:
        for budget in budgets:
            progress(f"4: {name}, {budget / 2**20:g} MiB")
            found.append(in_child(name, budget, capacity))
            if found[-1].full:
                break
    return found


def in_child(name: str, budget: int, capacity: int) -> Reached:
    """Let it grow in a process of its own."""
    return Reached(**_child(name, str(budget), str(capacity)))


def _child(*arguments: str) -> dict[str, Any]:
    """What this file prints as a program."""
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# ---- on a store ------------------------------------------------------------------------------

STORES = {"files": None, "LMDB": "lmdb", "RocksDB": "rocksdict", "Redis": "redis"}
"""Names, and the packages that they need. All are on a disk, Redis in its memory as well."""

SCHEMES = {"files": "file", "LMDB": "lmdb", "RocksDB": "rocksdb"}


def stores_here() -> list[str]:
    """Those of `STORES` that can be had."""
    found = [name for name, package in STORES.items() if package is None or find_spec(package)]
    return [name for name in found if name != "Redis" or mta_redis.program()]


@contextmanager
def url_of(name: str, folder: Path) -> Iterator[str]:
    """Of an empty store with its files in this folder."""
    if name == "Redis":
        with mta_redis.server(folder) as url:
            yield url
    else:
        yield f"{SCHEMES[name]}://{folder}/window"


@dataclass(frozen=True)
class Stored:
    """A window whose nodes are on a store, when it has grown and slid on by as many values."""

    store: str
    values: int
    anonymous: int  # by how much the anonymous resident memory of the process grew at most
    seconds: float
    stored: int  # bytes of the files


def on_stores(stores: Sequence[str], values: int, progress: Progress) -> list[Stored]:
    """AMTA with so many values inside, on each of the stores, in a process of its own."""
    found = []
    for name in stores:
        progress(f"4: {name}, {values} values")
        found.append(Stored(**_child(name, "0", str(values))))
    return found


def grow_on_store(name: str, values: int) -> Stored:
    """Fill, and slide on until nothing of the beginning is inside; every answer is checked."""
    ones, most = np.ones(min(2**16, values), np.int64), 0
    with tempfile.TemporaryDirectory() as folder, url_of(name, Path(folder)) as url:
        with fifo.StoredAMTA(agg.sum("x"), url, type="int") as window:
            window.insert_many(ones[:1])
            before, start = memory("RssAnon"), time.perf_counter()
            for count in range(0, 2 * values, len(ones)):
                answers = window.slide(ones, values)
                if answers[-1] != min(count + 1 + len(ones), values):
                    raise AssertionError(f"{name}: {answers[-1]} after {count + 1} and an array")
                most = max(most, memory("RssAnon") - before)
            window.flush()
            seconds = time.perf_counter() - start
        size = sum(p.stat().st_blocks * 512 for p in Path(folder).rglob("*") if p.is_file())
    return Stored(name, values, most, seconds, size)


# ---- in the child ----------------------------------------------------------------------------


def grow(name: str, budget: int, capacity: int) -> Reached:
    """Insert until memory ends, or slide on a little where the capacity is reached.

    The window answers for what it holds, whatever happened, or it raises.
    """
    window, ones = WINDOWS[name](), np.ones(min(PIECE, capacity), np.int64)
    window.insert_many(ones[:1])
    window.query()
    resident, start = memory("VmRSS"), time.perf_counter()
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (memory("VmData") + budget, hard))
    full = False
    try:
        while len(window) < capacity:
            window.insert_many(ones[: capacity - len(window)])
        window.slide(ones[:SLID_ON], capacity)
        full = True
    except MemoryError:
        pass
    seconds = time.perf_counter() - start
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    if window.query() != len(window):
        raise AssertionError(f"{name}: the sum of {len(window)} ones is {window.query()}")
    grown = memory("VmRSS") - resident
    return Reached(name, budget, len(window), full, window.nbytes, grown, seconds)


def memory(field: str) -> int:
    """Bytes, as the system counts them for this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise LookupError(field)


def main(name: str, budget: int, capacity: int) -> Any:
    """What the process is told to grow."""
    return grow_on_store(name, capacity) if name in STORES else grow(name, budget, capacity)


if __name__ == "__main__":
    print(json.dumps(asdict(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
