"""Experiment 5 of the MTA paper: many dimensions in one window, against a window for each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mta_algorithms import Array, Progress

import mta
from mta import agg

WINDOW = 2**15  # as in the paper
DIMENSIONS = tuple(range(1, 51))
BY_ROWS = (1, 2, 5, 10, 20, 50)
BATCH = 2**12  # rows an array: what fits in the caches, as the rows of a stream would

Columns = dict[str, Array]


@dataclass(frozen=True)
class Dimensions:
    """CPU nanoseconds a row: one window with so many sums, and so many windows with one each."""

    how: str
    dimensions: int
    together: float
    apart: float


def by_arrays(
    dimensions: Sequence[int], rows: int, window: int, repeats: int, progress: Progress
) -> list[Dimensions]:
    """Rows pushed as arrays, with an array of answers."""
    return _measured("as arrays", dimensions, rows, window, repeats, progress)


def by_rows(
    dimensions: Sequence[int], rows: int, window: int, repeats: int, progress: Progress
) -> list[Dimensions]:
    """Rows pushed one by one, a dict each: what a row costs in Python is shared as well."""
    return _measured("one by one", dimensions, rows, window, repeats, progress)


def _measured(
    how: str,
    dimensions: Sequence[int],
    rows: int,
    window: int,
    repeats: int,
    progress: Progress,
) -> list[Dimensions]:
    rng, found = np.random.default_rng(5), []
    for k in dimensions:
        progress(f"5: {k} dimensions, rows {how}")
        columns = {f"x{i}": rng.random(rows) for i in range(k)}
        fill = {f"x{i}": rng.random(window) for i in range(k)}
        together = apart = np.inf
        for _ in range(repeats):
            seconds, answers = _push([list(columns)], columns, fill, how)
            together = min(together, seconds)
            seconds, others = _push([[name] for name in columns], columns, fill, how)
            apart = min(apart, seconds)
            for name in columns:
                if not np.array_equal(answers[name], others[name]):
                    raise AssertionError(f"{name}: one window and its own must answer alike")
        found.append(Dimensions(how, k, 1e9 * together / rows, 1e9 * apart / rows))
    return found


def _push(
    windows: list[list[str]], columns: Columns, fill: Columns, how: str
) -> tuple[float, dict[str, Any]]:
    """CPU seconds of pushing all rows into a window for each list of names; the last answers."""
    spent, answers = 0.0, {}
    for names in windows:
        kept = len(fill[names[0]])
        op = mta.Window({name: agg.sum(name) for name in names}, mta.last(kept))
        op.push({name: fill[name] for name in names})
        batches = _pushed({name: columns[name] for name in names}, how)
        given = None
        start = time.process_time()
        for batch in batches:
            given = op.push(batch)
        spent += time.process_time() - start
        last = given if how == "one by one" else [column[-1] for column in given]
        answers |= dict(zip(names, last, strict=True))
    return spent, answers


def _pushed(columns: Columns, how: str) -> list[dict[str, Any]]:
    if how == "one by one":
        lists = [column.tolist() for column in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    rows = len(next(iter(columns.values())))
    return [
        {name: column[i : i + BATCH] for name, column in columns.items()}
        for i in range(0, rows, BATCH)
    ]


def line(found: Sequence[Dimensions]) -> tuple[float, float]:
    """Least squares through the cost together: nanoseconds a dimension more, and without any."""
    slope, shared = np.polyfit([d.dimensions for d in found], [d.together for d in found], 1)
    return float(slope), float(shared)
