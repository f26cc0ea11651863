"""Running a stream with punctuation by any physical plan, and what the run costs."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from disorder import Punctuation
from numpy.typing import NDArray

import mta

PLANS = ("rows", "wid", "paned", "adapt")
"""The physical plans of a stream: the same answers, at other costs."""

Columns = dict[str, NDArray[Any]]


def open_stream(spec: Any, plan: str) -> Any:
    """The stream of a spec by one of the plans."""
    return spec.stream(plan=plan)


@dataclass
class Run:
    """What came out, and what it cost."""

    answers: Columns
    seconds: float = 0.0  # CPU time of all calls
    latencies: list[float] = field(default_factory=list)  # seconds a punctuation took to answer
    peak_bytes: int = 0  # the most that the stream held after a punctuation's rows
    late: int = 0

    @property
    def latency(self) -> float:
        """The mean time from a punctuation's arrival to the last of its answers, in seconds."""
        return float(np.mean(self.latencies)) if self.latencies else 0.0


def part(columns: Columns, rows: Any) -> Columns:
    """Some of the rows."""
    return {name: column[rows] for name, column in columns.items()}


def joined(parts: list[Columns]) -> Columns:
    """The answers of several calls as one table."""
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def run_punctuated(
    spec: Any, plan: str, columns: Columns, told: Punctuation, watch: bool = False
) -> Run:
    """Push what comes before each punctuation, then say it; at the end, that there is no more.

    watch : ask after every push how many bytes are held (the clock stands still meanwhile)
    """
    op, run, parts = open_stream(spec, plan), Run({}), []
    sources = [None] * len(told) if told.source is None else told.source.tolist()
    rows = len(next(iter(columns.values())))
    gc.collect()
    for (some, value), source in zip(told.parts(rows), [*sources, None], strict=True):
        pushed = part(columns, some)
        start = time.process_time()
        parts.append(op.push(pushed))
        middle = time.process_time()
        run.seconds += middle - start
        if watch:
            run.peak_bytes = max(run.peak_bytes, held_bytes(op))
            middle = time.process_time()
        parts.append(op.finish() if value is None else op.advance(value, source=source))
        spent = time.process_time() - middle
        run.seconds += spent
        if value is not None:
            run.latencies.append(spent)
    run.answers, run.late = joined(parts), op.state()["late"]
    return run


def run_batches(spec: Any, plan: str, columns: Columns, batch: int) -> Run:
    """Push rows by batches of one size; their watermark says what is complete."""
    op, run, parts = open_stream(spec, plan), Run({}), []
    rows = len(next(iter(columns.values())))
    batches = [part(columns, slice(i, i + batch)) for i in range(0, rows, batch)]
    gc.collect()
    start = time.process_time()
    parts += [op.push(one) for one in batches]
    parts.append(op.finish())
    run.seconds = time.process_time() - start
    run.answers = joined(parts)
    return run


def held_bytes(op: Any) -> int:
    """What a stream says that it holds; 0 where it does not say."""
    held: int = op.state().get("bytes", 0)
    return held


def hopping(length: int, slide: int, by: str | None = None) -> Any:
    """Windows ``[k slide, k slide + length)`` in ticks of `ts`."""
    return mta.hopping(f"{length}i", f"{slide}i", on="ts", by=by)
