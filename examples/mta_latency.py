"""Experiments 1 and 2 of the MTA paper: windows of constant size, and evictions in bulk."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from mta_algorithms import Array, Progress, able, check_same, check_some, opened

from mta import agg

SIZES = tuple(2**k for k in range(23))
LEAST_STEPS = 2**16  # of a window that is small, so that the slowest thousandth is many
RECOMPUTED = 2**28  # values that Recompute may combine in one measurement
STEPS_OF_RECOMPUTE = 2**12


@dataclass(frozen=True)
class Latency:
    """What a step costs: insert, evict what is above the size, answer. Nanoseconds."""

    aggregate: str
    algorithm: str
    size: int
    steps: int
    mean: float  # by the clock, read once a step; of every step the least of several runs
    p999: float
    worst: float
    pushed: float  # CPU time a value of an array slid over in one call


@dataclass(frozen=True)
class Measured:
    """An aggregate, values for it, and what it is over an array."""

    aggregate: Any
    values: Callable[[np.random.Generator, int], Array]
    total: Callable[[Array], Any]


SUM = Measured(agg.sum("x"), lambda rng, n: rng.integers(0, 1000, n), np.sum)
MAX = Measured(agg.max("x"), lambda rng, n: rng.random(n), np.max)
MEASURED = {"sum of ints": SUM, "max of floats": MAX}


def by_size(
    algorithms: Sequence[str],
    sizes: Sequence[int],
    most_steps: int,
    repeats: int,
    progress: Progress,
) -> list[Latency]:
    """Experiment 1: a full window slides until nothing of the beginning is inside, or longer.

    The answers are compared with each other and with those of NumPy.
    """
    found = []
    for name, what in MEASURED.items():
        rng = np.random.default_rng(2018)
        for size in sizes:
            values = what.values(rng, size + min(max(size, LEAST_STEPS), most_steps))
            answers = {}
            for algorithm in able(algorithms, what.aggregate, values):
                progress(f"1: {name}, {size} values, {algorithm}")
                cost, answers[algorithm] = _slide(
                    name, algorithm, what.aggregate, size, values, repeats
                )
                found.append(cost)
            check_same(answers)
            for given in answers.values():
                check_some(given, values, size, what.total)
    return found


def _slide(
    name: str, algorithm: str, aggregate: Any, size: int, values: Array, repeats: int
) -> tuple[Latency, Any]:
    """Fill; slide over an array, as often as told; then take the time of every step."""
    steps = len(values) - size
    if algorithm == "Recompute":
        steps = max(min(steps, RECOMPUTED // size, STEPS_OF_RECOMPUTE), 1)
    window, moving = opened(algorithm, aggregate), values[size : size + steps]
    window.insert_many(values[:size])
    pushed, answers = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        given = window.slide(moving, size)
        pushed = min(pushed, 1e9 * (time.process_time() - start) / steps)
        answers = given if answers is None else answers
    took = steps_of(lambda: window.latencies(moving, size), window, values[:size], repeats)
    shown = [float(n) for n in (took.mean(), np.percentile(took, 99.9), took.max())]
    return Latency(name, algorithm, size, steps, *shown, pushed), answers


def steps_of(run: Callable[[], Array], window: Any, filled: Array, repeats: int) -> Array:
    """The least that every step took in so many runs, all of which begin with the same values.

    What the algorithm does at a step it does in all of them; what other processes do, it does not.
    """
    least: Array | None = None
    for _ in range(repeats):
        window.evict_many(len(window))
        window.insert_many(filled)
        took = run()
        least = took if least is None else np.minimum(least, took)
    assert least is not None
    return least


def clock_cost(steps: int = 2**12, runs: int = 16) -> float:
    """Nanoseconds of the steps that do least, a window of no values: of the clock, above all."""
    window, values = opened("Recompute", MAX.aggregate), np.zeros(steps)
    return min(float(window.latencies(values, 0).mean()) for _ in range(runs))


# ---- bulk eviction ---------------------------------------------------------------------------

BULK = 2**22


@dataclass(frozen=True)
class Eviction:
    """Microseconds to drop the oldest values and answer again: the median of several times."""

    algorithm: str
    how: str
    dropped: int
    median: float


WARMING = 5  # single evictions before one that is measured


def evictions(size: int) -> list[int]:
    """How many: 1, 3, 7 and so on to size - 1, as in the paper's Figure 7."""
    return [2**k - 1 for k in range(1, size.bit_length())]


def by_eviction(
    algorithms: Sequence[str], size: int, repeats: int, progress: Progress
) -> list[Eviction]:
    """Experiment 2: evict 1 .. size - 1 of so many values, by number and by a policy.

    Every value is 1, so that the sum counts them, as the paper's monoid does, and its policy
    (Listing 3) is that of the paper.
    """
    found = []
    for algorithm in algorithms:
        window = opened(algorithm, SUM.aggregate, policy=True)
        window.insert_many(np.ones(size, np.int64))
        for how, drop in WAYS.items():
            progress(f"2: {algorithm}, {how}")
            _evict(window, drop, 1, size)  # what is done for the first time takes longer
            for dropped in evictions(size):
                took = [
                    _evict(window, drop, dropped, size) for _ in range(_times(dropped, repeats))
                ]
                found.append(Eviction(algorithm, how, dropped, float(np.median(took))))
    return found


def _times(dropped: int, repeats: int) -> int:
    """More often where it takes no time to fill the window again."""
    return repeats if dropped > 2**16 else 4 * repeats


def _evict(window: Any, drop: Callable[[Any, int], None], dropped: int, size: int) -> float:
    """Microseconds of one eviction and the answer; then the window is filled again.

    A few values go before, one by one: after all that was filled in, the interpreter and the calls
    are in no cache either, which takes ten times as long as an eviction.
    """
    for _ in range(WARMING):
        window.insert(1)
        drop(window, size)
        window.query()
    start = time.perf_counter_ns()
    drop(window, size - dropped)
    answer = window.query()
    took = (time.perf_counter_ns() - start) / 1e3
    if answer != size - dropped or len(window) != size - dropped:
        raise AssertionError(f"{answer} and {len(window)} are left of {size}, {dropped} dropped")
    window.insert_many(np.ones(dropped, np.int64))
    return took


def by_number(window: Any, keep: int) -> None:
    """All but so many."""
    window.evict_many(len(window) - keep)


def more_than(keep: int, total: int, old: int) -> bool:
    """Listing 3: the window is no smaller than this without the old values."""
    return total - old >= keep


def by_policy(window: Any, keep: int) -> None:
    """The same, found by a policy, which is a function of Python."""
    window.evict_while(partial(more_than, keep))


WAYS = {"evict_many": by_number, "evict_while": by_policy}


def call_cost(times: int = 2000) -> float:
    """Microseconds of the two calls where there is nothing to do: of Python and the clock."""
    window = opened("AMTA", SUM.aggregate)
    window.insert(1)
    took = []
    for _ in range(times):
        start = time.perf_counter_ns()
        by_number(window, 1)
        window.query()
        took.append((time.perf_counter_ns() - start) / 1e3)
    return float(np.median(took))
