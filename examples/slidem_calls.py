"""The call centre of the SlideM paper: 144 KPIs of the last 24 hours, every 10 seconds (§5.2, A).

SUM, COUNT and AVG of 6 attributes by 8 keys: 8 specs over one stream, each with 13 answers (what
COUNTs of 6 attributes without nulls have in common is one). Every run is a process of its own.

    python examples/slidem_calls.py HOW RATE SECONDS PUSH
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mta_memory import memory
from slidem_streams import ATTRIBUTES, KEYS, calls

import mta
from mta import agg

IN_MEMORY, ONE_WINDOW, TWO_LEVELS = "in memory", "1W", "2LA"
HOW = (IN_MEMORY, ONE_WINDOW, TWO_LEVELS)
OF_A_KEY = "256KB"  # for its blocks
LOOKS = 120  # at memory, over the whole stream


@dataclass(frozen=True)
class Size:
    """Of a stream: rows a second, for how many seconds, and seconds of it in a push."""

    name: str
    rate: float
    seconds: float
    push: float

    @property
    def rows(self) -> int:
        """In all."""
        return int(self.rate * self.push) * int(self.seconds / self.push)


DAY = Size("a day and a quarter", 20, 30 * 3600, 60)
DENSE = Size("the paper's rate", 1000, 2 * 3600, 10)


@dataclass(frozen=True)
class Run:
    """All 8 specs over the stream."""

    how: str
    rate: float
    rows: int
    wall: float
    cpu: float
    answers: int
    total: int  # of the bits of all answers, modulo 2^64: what does not depend on their order
    hours: list[float]  # of the stream, at every look
    held: list[int]  # bytes, as the streams count them
    anonymous: list[int]  # bytes, by how much the process grew
    pushed_ms: list[float]  # a push into all 8, on average since the look before
    slowest_ms: list[float]
    disk: int  # bytes of the files
    written: int  # blocks
    read: int
    expected: float  # by formula 3.1


def kpis(key: str) -> mta.Periodic:
    """The KPIs of a key."""
    answers: dict[str, Any] = {"calls": agg.count()}
    for name in ATTRIBUTES:
        answers |= {f"sum_{name}": agg.sum(name), f"avg_{name}": agg.mean(name)}
    spec = mta.hopping("24h", slide="10s", on="timestamp", by=key)
    return spec.watermark(delay="1s").agg(**answers)


def compared(size: Size, hows: Sequence[str], progress: Callable[[str], None]) -> list[Run]:
    """The stream, in all these ways: answers have to be the same."""
    found = []
    for how in hows:
        progress(f"calls: {size.name}, {how}")
        found.append(in_child(how, size))
    if len({(run.answers, run.total) for run in found}) > 1:
        raise AssertionError(f"other answers: {[(r.how, r.answers, r.total) for r in found]}")
    return found


def in_child(how: str, size: Size) -> Run:
    """In a process of its own."""
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    told = [how, *(str(x) for x in (size.rate, size.seconds, size.push))]
    done = subprocess.run(
        [sys.executable, __file__, *told],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    return Run(**json.loads(done.stdout))


# ---- in the child ----------------------------------------------------------------------------


def measure(how: str, size: Size) -> Run:
    """Push the stream into the 8 windows, and look at memory now and then."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ops = [_opened(stack, how, key, folder) for key in KEYS]
        looks, total, answers = _Looks(ops, size), 0, 0
        wall, cpu = time.perf_counter(), time.process_time()
        pushes, rows = int(size.seconds / size.push), int(size.rate * size.push)
        for number in range(pushes):
            some = calls(number * rows, rows, size.rate)
            begun = time.perf_counter()
            found = [op.push(some) for op in ops]
            looks.pushed(number, pushes, time.perf_counter() - begun)
            for each in found:
                answers += len(each["calls"])
                total = (total + bits(each)) % 2**64
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        io = [op.stats() for op in ops if how != IN_MEMORY]
        disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        told = [sum(getattr(s, name) for s in io) for name in ("written", "read", "expected")]
    return Run(
        how, size.rate, pushes * rows, wall, cpu, answers, total, *looks.lists(), disk, *told
    )


def _opened(stack: ExitStack, how: str, key: str, folder: Path) -> Any:
    if how == IN_MEMORY:
        return kpis(key).stream()
    url = f"file://{folder}/{key}"
    return stack.enter_context(kpis(key).stream(memory=OF_A_KEY, store=url, plan=how))


class _Looks:
    """Memory and latency, so often."""

    def __init__(self, ops: Sequence[Any], size: Size) -> None:
        self.ops, self.size, self.before = ops, size, memory("RssAnon")
        self.found: list[tuple[float, int, int, float, float]] = []
        self.took: list[float] = []

    def pushed(self, number: int, pushes: int, took: float) -> None:
        """A push into all windows has taken so many seconds."""
        self.took.append(1e3 * took)
        if (number + 1) * LOOKS // pushes > number * LOOKS // pushes:
            hours = (number + 1) * self.size.push / 3600
            held = sum(op.state()["bytes"] for op in self.ops)
            grown = memory("RssAnon") - self.before
            mean, most = float(np.mean(self.took)), max(self.took)
            self.found.append((hours, held, grown, mean, most))
            self.took = []

    def lists(self) -> list[list[Any]]:
        """What was found, by kind."""
        return [list(kind) for kind in zip(*self.found, strict=True)]


def bits(answers: Any) -> int:
    """The sum of all bits of some columns of answers, whatever the order of groups."""
    total = 0
    for name in ("calls", f"sum_{ATTRIBUTES[0]}", f"avg_{ATTRIBUTES[-1]}"):
        column = np.ascontiguousarray(answers[name])
        total += int(column.view(np.uint64).sum(dtype=np.uint64))
    return total


if __name__ == "__main__":
    _, way, *numbers = sys.argv
    print(json.dumps(asdict(measure(way, Size("", *map(float, numbers))))))
