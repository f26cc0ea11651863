"""One row at a time from Python, each answered at once."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

import numpy as np

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import WINDOWS, Axes, Point, Runner, Subject, duel
from mta import agg

Rows = list[tuple[float, int]]


@dataclass(frozen=True)
class PushedRows:
    """Value and time of every row, as Python numbers."""

    recipe: Recipe

    def spiked(self) -> PushedRows:
        return PushedRows(self.recipe.spiked())

    def frame(self, kind: str) -> Rows:
        columns = self.recipe.frame("arrays")
        return list(zip(columns["x"].tolist(), columns["ts"].view(np.int64).tolist(), strict=True))


class Push(Subject):
    place = 6
    title = "Push: one row at a time from Python"
    note = (
        "deque: what one writes by hand, a collections.deque and a total (for max, a "
        "monotonic deque, for median, a sorted list too, for count_distinct a dict of counts). "
        "pandas, polars and bottleneck have nothing of the kind."
    )
    axes: ClassVar[Axes] = {
        "windows": ("rows", "time"),
        "aggregate": ("sum", "max", "std", "median", "count_distinct"),
        "window": WINDOWS,
    }

    def data(self, rows: int, point: Point) -> PushedRows:
        return PushedRows(Recipe(rows))

    def rows_of(self, rows: int) -> int:
        return rows // 4

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, window = point["aggregate"], point["window"]
        timed, peer = point["windows"] == "time", PEERS[aggregate]
        length: Any = f"{1000 * window}i" if timed else window
        answer = getattr(agg, aggregate)("x")
        return duel(
            "deque",
            "rows",
            lambda rows: push_ours(rows, answer, length),
            lambda rows: push_deque(rows, peer(1000 * window if timed else window), timed),
        )


def push_ours(rows: Rows, answer: Any, length: Any) -> list[float]:
    push = mta.Window(answer, mta.last(length)).push
    if isinstance(length, int):
        return [push(x) for x, _ in rows]
    return [push(x, t) for x, t in rows]


def push_deque(rows: Rows, window: Any, timed: bool) -> list[float]:
    push = window.push
    if timed:
        return [push(x, t) for x, t in rows]
    return [push(x, i) for i, (x, _) in enumerate(rows)]


class DequeSum:
    """Running total; what a large value rounded away stays away after it has left."""

    def __init__(self, span: int) -> None:
        self.span, self.total, self.rows = span, 0.0, deque[tuple[int, float]]()

    def push(self, x: float, t: int) -> float:
        rows, edge = self.rows, t - self.span
        rows.append((t, x))
        self.total += x
        while rows[0][0] <= edge:
            self.total -= rows.popleft()[1]
        return self.total


class DequeMax:
    """Values that are still to be a maximum, greatest first."""

    def __init__(self, span: int) -> None:
        self.span, self.rows = span, deque[tuple[int, float]]()

    def push(self, x: float, t: int) -> float:
        rows, edge = self.rows, t - self.span
        while rows and rows[-1][1] <= x:
            rows.pop()
        rows.append((t, x))
        while rows[0][0] <= edge:
            rows.popleft()
        return rows[0][1]


class DequeStd:
    """Running totals of values and squares."""

    def __init__(self, span: int) -> None:
        self.span, self.rows = span, deque[tuple[int, float]]()
        self.total = self.squares = 0.0

    def push(self, x: float, t: int) -> float:
        rows, edge = self.rows, t - self.span
        rows.append((t, x))
        self.total += x
        self.squares += x * x
        while rows[0][0] <= edge:
            _, old = rows.popleft()
            self.total -= old
            self.squares -= old * old
        n = len(rows)
        return sqrt(max(self.squares - self.total**2 / n, 0.0) / (n - 1)) if n > 1 else float("nan")


class DequeMedian:
    """Values in order of time and, found by bisection, in order."""

    def __init__(self, span: int) -> None:
        self.span, self.rows, self.ordered = span, deque[tuple[int, float]](), list[float]()

    def push(self, x: float, t: int) -> float:
        rows, ordered, edge = self.rows, self.ordered, t - self.span
        rows.append((t, x))
        insort(ordered, x)
        while rows[0][0] <= edge:
            del ordered[bisect_left(ordered, rows.popleft()[1])]
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class DequeDistinct:
    """How often every value is inside."""

    def __init__(self, span: int) -> None:
        self.span, self.rows, self.counts = span, deque[tuple[int, float]](), dict[float, int]()

    def push(self, x: float, t: int) -> int:
        rows, counts, edge = self.rows, self.counts, t - self.span
        rows.append((t, x))
        counts[x] = counts.get(x, 0) + 1
        while rows[0][0] <= edge:
            _, old = rows.popleft()
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        return len(counts)


PEERS: dict[str, Any] = {
    "sum": DequeSum,
    "max": DequeMax,
    "std": DequeStd,
    "median": DequeMedian,
    "count_distinct": DequeDistinct,
}
