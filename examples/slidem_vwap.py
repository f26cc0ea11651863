"""VWAP over the trades of the last hour, an answer at every row, by SlideM (§5.3, Table 1).

What a row costs depends on what comes and goes, not on how long the window is; so the window is
shorter than an hour, and full before anything is measured. Then small pushes come at a rate.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from slidem_streams import ROW_OF_TRADE, Trades

import mta
from mta import agg, costs

BLOCK = 65536
MEMORY = 4 * BLOCK  # the least that gives one window blocks of 64 KB
WAYS = ("one window", "by symbol")
PUSH = {"one window": 1000, "by symbol": 10_000}  # rows
PIECE = 100_000  # rows of a push that fills the window
SPANS = 1.5  # of the window, before it is measured
SATURATED = 0.97  # of the rate that was asked for


def vwap(window: float, way: str) -> mta.Rolling:
    """Query 3, for all trades or for every symbol."""
    by = None if way == "one window" else "symbol"
    spec = mta.rolling(f"{round(window * 1000)}ms", on="ts", by=by)
    return spec.agg(vwap=agg.weighted_mean("price", "volume"))


@contextmanager
def opened(spec: mta.Rolling, memory: int | None) -> Iterator[tuple[Any, Path]]:
    """A stream on files in a temporary folder, which is given, too; without `memory`, in memory."""
    with tempfile.TemporaryDirectory() as name:
        if memory is None:
            yield spec.stream(), Path(name)
            return
        with spec.stream(memory=memory, store=f"file://{name}/window") as op:
            yield op, Path(name)


def on_disk(folder: Path) -> int:
    """Bytes."""
    sizes = 0
    for path in folder.rglob("*"):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:  # what is used up is removed meanwhile
            continue
    return sizes


# ---- Table 1 ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Injected:
    """So many rows a second for some time, in small pushes."""

    way: str
    rate: int
    reached: float  # rows a second
    push: int  # rows
    window: float  # seconds
    held: int  # bytes in memory, as the stream counts them
    disk: int  # bytes of files
    mean_ms: float  # of a push
    p999_ms: float
    max_ms: float
    behind_ms: float  # at most, from when a push was due to when it was answered
    cpu: float  # percent of a core, with the making of the rows
    mb: float  # MB a second, blocks read and written
    requests: int
    expected: float  # by formula 3.1
    rows: int

    @property
    def saturated(self) -> bool:
        """Rows came faster than they could be answered."""
        return self.reached < SATURATED * self.rate

    @property
    def hour_gb(self) -> float:
        """What an hour of such rows takes, of 28 bytes as in the paper."""
        return self.rate * 3600 * ROW_OF_TRADE / 1e9

    @property
    def mean_us_a_row(self) -> float:
        """The paper's latency is that of a call with one row."""
        return 1000 * self.mean_ms / self.push


def injected(way: str, rate: int, window: float, seconds: float, push: int) -> Injected:
    """Fill the window, then push at this rate."""
    trades, spec = Trades(rate), vwap(window, way)
    with opened(spec, MEMORY) as (op, folder):
        first = fill(op, trades, round(SPANS * window * rate))
        before, cpu = op.stats(), time.process_time()
        pushes = max(round(seconds * rate / push), 1)
        begun, took, behind = _paced(op, trades, first, pushes, push)
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
        after, disk, block = op.stats(), on_disk(folder), _block(op)
    requests = after.requests - before.requests
    return Injected(
        way, rate, min(rate, pushes * push / wall), push, window, after.memory, disk,
        1e3 * float(took.mean()), 1e3 * float(np.quantile(took, 0.999)), 1e3 * float(took.max()),
        1e3 * behind, 100 * cpu / wall, requests * block / wall / 1e6, requests,
        after.expected - before.expected, pushes * push,
    )  # fmt: skip


def fill(op: Any, trades: Trades, rows: int) -> int:
    """Push so many rows as fast as it goes; how many have come then."""
    for first in range(0, rows, PIECE):
        op.push(trades.rows(first, min(PIECE, rows - first)))
    return rows


def _block(op: Any) -> float:
    """Bytes of a block."""
    layouts = [repository.layout for repository in op.spill.live]
    return float(np.mean([layout.block for layout in layouts]))


def _paced(
    op: Any, trades: Trades, first: int, pushes: int, push: int
) -> tuple[float, np.ndarray, float]:
    """When it began, seconds of every push, and how far they were behind at most."""
    took, behind = np.empty(pushes), 0.0
    begun = time.perf_counter()
    for number in range(pushes):
        rows = trades.rows(first + number * push, push)
        due = begun + number * push / trades.rate
        if (early := due - time.perf_counter()) > 0:
            time.sleep(early)
        start = time.perf_counter()
        op.push(rows)
        end = time.perf_counter()
        took[number] = end - start
        behind = max(behind, end - due)
    return begun, took, behind


# ---- CPU time of a row -----------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """A row in big pushes."""

    way: str
    memory: int | None  # None: the window is in memory
    rows: int  # in the window
    cpu_ns: float
    wall_ns: float
    system_ns: float  # of the CPU time, that of the operating system: files
    held: int  # bytes, as the stream counts them


def cost(way: str, memory: int | None, rows: int, pushes: int) -> Cost:
    """The median of pushes into a full window of so many rows."""
    rate = 1_000_000
    trades = Trades(rate)
    with opened(vwap(rows / rate, way), memory) as (op, _):
        first = fill(op, trades, round(SPANS * rows / PIECE + 1) * PIECE)
        found = []
        for number in range(pushes):
            push = trades.rows(first + number * PIECE, PIECE)
            before, wall = os.times(), time.perf_counter()
            cpu = time.process_time()
            op.push(push)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            found.append((cpu, wall, os.times().system - before.system))
        held = 0 if memory is None else op.stats().memory
    spent = np.array(found) * 1e9 / PIECE
    cpu, wall = np.median(spent[:, :2], axis=0)
    return Cost(way, memory, rows, float(cpu), float(wall), float(spent[:, 2].mean()), held)


def costs_of_a_row(
    memories: Sequence[int | None], rows: int, pushes: int, progress: Callable[[str], None]
) -> list[Cost]:
    """For one window and for windows by symbol, in memory and in so many bytes."""
    found = []
    for way in WAYS:
        for memory in memories:
            progress(f"vwap: a row, {way}, {'in memory' if memory is None else memory}")
            found.append(cost(way, memory, rows, pushes))
    return found


# ---- the answers -----------------------------------------------------------------------------


def same_answers(way: str, rows: int, push: int, memory: int = MEMORY) -> tuple[int, int]:
    """Push the same rows into a window in memory and one on files: how many answers there were,
    and how many of them were equal to the last bit."""
    trades, spec = Trades(rows), vwap(0.25, way)
    answers: dict[bool, list[np.ndarray]] = {True: [], False: []}
    with opened(spec, memory) as (stored, _):
        for op in (stored, spec.stream()):
            for first in range(0, rows, push):
                some = trades.rows(first, min(push, rows - first))
                answers[op is stored].append(op.push(some)["vwap"])
            answers[op is stored].append(op.finish()["vwap"])
    ours, theirs = (np.concatenate(answers[which]).view(np.int64) for which in (True, False))
    return len(theirs), int((ours == theirs).sum())


def expected_mb(rate: float, block: int = BLOCK) -> float:
    """MB a second by formula 3.2, of rows of 28 bytes."""
    return costs.bytes_a_second(rate, block, ROW_OF_TRADE) / 1e6
