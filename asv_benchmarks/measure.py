"""Measuring: CPU time, everyone in turns, the least of the repeats."""

from __future__ import annotations

import gc
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asv_benchmarks.suite import US, Point, Profile, Runner, Subject

# For the check of answers: enough rows of each of 1,000 keys for the spike to come and go.
CHECK_ROWS = 50_000
CHECK_WINDOW = 16
AGREE = 1e-9


@dataclass(frozen=True)
class Line:
    """What was measured at one point: nanoseconds a row by runner."""

    point: Point
    nanoseconds: dict[str, float]
    wrong: dict[str, float] = field(default_factory=dict)  # the peers whose answers differ


@dataclass(frozen=True)
class Measured:
    """A subject's lines, and the runners that took part."""

    subject: Subject
    runners: tuple[Runner, ...]
    lines: list[Line]


def measure(subject: Subject, profile: Profile, progress: Callable[[str], None]) -> Measured:
    """Measure a subject at all points that fit."""
    rows = subject.rows_of(profile.rows)
    runners: tuple[Runner, ...] = ()
    lines = []
    for point in subject.points():
        if not subject.fits(rows, point):
            continue
        progress(f"{type(subject).__name__}: {', '.join(map(str, point.values()))}")
        runners = tuple(r for r in subject.runners(point) if r.available)
        spent = _take_turns(subject, runners, point, rows, profile.repeats)
        times = {label: 1e9 * seconds / rows for label, seconds in spent.items()}
        lines.append(Line(point, times, disagreements(subject, point)))
    return Measured(subject, runners, lines)


def _take_turns(
    subject: Subject, runners: tuple[Runner, ...], point: Point, rows: int, repeats: int
) -> dict[str, float]:
    """Every runner once, then every runner again: a slow minute of the machine hits all alike."""
    data = subject.data(rows, point)
    frames = {runner.frame: data.frame(runner.frame) for runner in runners}
    spent = dict.fromkeys((runner.label for runner in runners), math.inf)
    gc.collect()
    for _ in range(repeats):
        for runner in runners:
            seconds = cpu_seconds(runner.call, frames[runner.frame])
            spent[runner.label] = min(spent[runner.label], seconds)
    return spent


def cpu_seconds(call: Callable[[Any], Any], frame: Any) -> float:
    """CPU time of this process during one call; freeing the result is not part of it."""
    gc.disable()
    try:
        start = time.process_time()
        result = call(frame)
        spent = time.process_time() - start
    finally:
        gc.enable()
    del result
    return spent


def disagreements(subject: Subject, point: Point) -> dict[str, float]:
    """Peers whose answers differ from ours, and by how much at most (relative).

    The input is a small one with one value of 1e16, which makes a running total forget all digits
    of its neighbours. Ours have been checked against exact arithmetic in the tests.
    """
    found = {}
    point = {**point, "window": CHECK_WINDOW}
    data = subject.data(CHECK_ROWS, point).spiked()
    ours: dict[str, Any] = {}
    # Us first, to have something to compare with.
    for runner in sorted(subject.runners(point), key=lambda runner: runner.name != US):
        if not runner.available:
            continue
        answers = subject.answers(runner, runner.call(data.frame(runner.frame)))
        error = _distance(answers, ours.setdefault(runner.frame, answers))
        if error > AGREE:
            found[runner.name] = error
    return found


def _distance(theirs: Any, ours: Any) -> float:
    """The greatest relative difference; infinite where only one of the two has a value."""
    if (np.isnan(theirs) != np.isnan(ours)).any():
        return math.inf
    both = ~np.isnan(ours)
    difference = np.abs(theirs[both] - ours[both]) / np.maximum(np.abs(ours[both]), 1e-300)
    return float(difference.max(initial=0.0))


def machine() -> str:
    """Processor, cores and system."""
    cpuinfo = Path("/proc/cpuinfo")
    name = platform.processor() or platform.machine()
    if cpuinfo.exists():
        models = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    return f"{name}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
