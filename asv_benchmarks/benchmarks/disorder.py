"""Rows that come out of order, pushed: each row's time is its number and up to so many more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import mta
from asv_benchmarks.benchmarks.push import PEERS
from asv_benchmarks.suite import Axes, Point, Runner, Subject, duel
from mta import agg

Batches = list[dict[str, NDArray[Any]]]
DISTANCES = (0, 2**8, 2**16)


@dataclass(frozen=True)
class Banded:
    """Batches of rows in band disorder.

    distance : how far a row's time may be beyond its number
    """

    rows: int
    distance: int
    size: int
    keys: int
    spike: bool = False

    def spiked(self) -> Banded:
        return replace(self, spike=True)

    def frame(self, kind: str) -> Batches:
        rng = np.random.default_rng(2008)
        times = np.arange(self.rows) + rng.integers(0, max(self.distance, 1), self.rows)
        values = 100 * rng.random(self.rows)
        if self.spike:
            values[self.rows // 4] = 1e16
        columns = {"ts": times, "x": values, "key": rng.integers(0, self.keys, self.rows)}
        return [
            {name: column[start : start + self.size] for name, column in columns.items()}
            for start in range(0, self.rows, self.size)
        ]


class Disorder(Subject):
    place = 15
    title = "Push of batches out of order: windows of N rows over time"
    note = (
        "Each row's time is its number and up to `distance` more; the watermark is that far "
        "behind. heap: what one writes by hand, a heapq of the rows that wait and behind it a "
        "deque a key, a row at a time."
    )
    axes: ClassVar[Axes] = {
        "aggregate": ("sum", "max"),
        "distance": DISTANCES,
        "batch": (10_000, 100_000),
        "keys": (1, 1000),
        "window": (2**10,),
    }

    def data(self, rows: int, point: Point) -> Banded:
        return Banded(rows, point["distance"], point["batch"], point["keys"])

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, keys, distance = point["aggregate"], point["keys"], point["distance"]
        length = point["window"] * keys
        spec = mta.rolling(f"{length}i", on="ts", by="key" if keys > 1 else None, ties="arrival")
        op = spec.watermark(f"{distance}i").agg(a=getattr(agg, aggregate)("x"))
        peer = PEERS[aggregate]
        return duel(
            "heap",
            "batches",
            lambda batches: push_ours(batches, op),
            lambda batches: push_heap(batches, peer, length, distance),
        )


def push_ours(batches: Batches, spec: Any) -> NDArray[np.float64]:
    """The answers in order of (time, arrival)."""
    op = spec.stream()
    made = [op.push(batch) for batch in batches]
    made.append(op.finish())
    times = np.concatenate([answers["ts"] for answers in made])
    answers: NDArray[np.float64] = np.concatenate([answers["a"] for answers in made])
    return answers[np.argsort(times, kind="stable")]


def push_heap(batches: Batches, peer: Any, length: int, distance: int) -> list[float]:
    waiting: list[tuple[int, int, int, float]] = []
    windows: dict[int, Any] = {}
    made: list[float] = []
    newest = number = 0

    def answer(until: int) -> None:
        while waiting and waiting[0][0] <= until:
            t, _, key, x = heappop(waiting)
            window = windows.get(key)
            if window is None:
                window = windows[key] = peer(length)
            made.append(window.push(x, t))

    for batch in batches:
        columns = (batch[name].tolist() for name in ("ts", "key", "x"))
        for t, key, x in zip(*columns, strict=True):
            heappush(waiting, (t, number, key, x))
            number += 1
            newest = max(newest, t)
            answer(newest - distance)
    answer(2**62)
    return made
