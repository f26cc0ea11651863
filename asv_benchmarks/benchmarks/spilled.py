"""Trailing windows larger than memory, beside the same windows in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import Axes, Point, Runner, Subject
from mta import agg

PUSHED = 100_000  # rows at a time
MEMORY = ("4MB", "256KB")
AGGREGATES = {
    "sum": agg.sum("x"),
    "max": agg.max("x"),
    "std": agg.std("x"),
    "weighted_mean": agg.weighted_mean("x", "w"),
    "median": agg.median("x"),
    "count_distinct": agg.count_distinct("x"),
}


class SpilledWindows(Subject):
    place = 19
    title = "Trailing windows larger than memory: pushes of 100,000 rows"
    note = (
        "in memory: spec.stream(). All others: spec.stream(memory=), in files of a temporary "
        "folder; CPU of all threads, filling the window included. weighted_mean over time is the "
        "VWAP of the SlideM paper, of 24 bytes a row."
    )
    axes: ClassVar[Axes] = {
        "windows": ("rows", "time"),
        "aggregate": tuple(AGGREGATES),
        "window": (2**16, 2**20),
    }

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows)

    def rows_of(self, rows: int) -> int:
        return 4 * rows

    def runners(self, point: Point) -> tuple[Runner, ...]:
        timed, window = point["windows"] == "time", point["window"]
        length: Any = f"{1000 * window}us" if timed else window
        spec = mta.rolling(length, on="ts").agg(answer=AGGREGATES[point["aggregate"]])
        return (
            Runner("in memory", "arrays", pushing(spec, None)),
            *(Runner(memory, "arrays", pushing(spec, memory)) for memory in MEMORY),
        )


def pushing(spec: Any, memory: str | None) -> Callable[[Any], NDArray[np.float64]]:
    """Pushes all rows; all answers."""

    def call(frame: Any) -> NDArray[np.float64]:
        columns = {"ts": frame["ts"], "x": frame["x"], "w": frame["x"][::-1]}
        op = spec.stream() if memory is None else spec.stream(memory=memory)
        made = []
        for start in range(0, len(frame["x"]), PUSHED):
            part = {name: column[start : start + PUSHED] for name, column in columns.items()}
            made.append(np.asarray(op.push(part)["answer"], np.float64))
        made.append(np.asarray(op.finish()["answer"], np.float64))
        if memory is not None:
            op.close()
        return np.concatenate(made)

    return call
