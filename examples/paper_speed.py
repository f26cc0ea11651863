"""What answers cost: streams against buffering (Figure 6-10), and panes against WID (6-15)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from buffering import Answers, Buffering
from disorder import Ints
from paper_streams import Columns, hopping, part, run_batches

from mta import agg

Progress = Callable[[str], None]
BATCH = 10_000  # rows a push
RANGE = 4000
SLIDES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000)
SCAN, BUFFERING = "scan", "buffering"


@dataclass(frozen=True)
class Times:
    """CPU nanoseconds a row, by who and by slide."""

    who: tuple[str, ...]
    slides: tuple[int, ...]
    nanoseconds: dict[tuple[str, int], float]
    rows: int


def numbered_rows(rng: np.random.Generator, rows: int) -> Columns:
    """Rows in order, whose time is their number."""
    return {"ts": np.arange(rows), "x": rng.random(rows)}


def by_slide(
    columns: Columns, plans: Sequence[str], slides: Sequence[int], repeats: int, progress: Progress
) -> Times:
    """Figure 6-10: maxima of 4000 rows at every slide, by every plan and by buffering.

    Every answer is compared with that of the others.
    """
    rows = len(columns["ts"])
    found: dict[tuple[str, int], float] = {}
    for slide in slides:
        progress(f"a maximum of {RANGE} rows every {slide} rows")
        for _ in range(repeats):
            seconds, end, most = buffered(columns, slide)
            _least(found, (BUFFERING, slide), seconds, rows)
            _least(found, (SCAN, slide), scan(columns), rows)
            for plan in plans:
                spec = hopping(RANGE, slide).watermark(0).agg(most=agg.max("x"))
                run = run_batches(spec, plan, columns, BATCH)
                _least(found, (plan, slide), run.seconds, rows)
                _same(run.answers, end, most)
    return Times((*plans, BUFFERING, SCAN), tuple(slides), found, rows)


def buffered(columns: Columns, slide: int) -> tuple[float, Ints, np.ndarray]:
    """CPU seconds of buffering, and its answers. The rows are in order, and it knows."""
    op = Buffering(RANGE, slide, aggregate="max", ordered=True)
    batches = batches_of(columns)
    start = time.process_time()
    got = Answers.join([*(op.push(b["ts"], b["x"]) for b in batches), op.finish()])
    return time.process_time() - start, got.end, got.value


def scan(columns: Columns) -> float:
    """CPU seconds of reading the rows, batch by batch, and doing no more with them."""
    batches = batches_of(columns)
    start = time.process_time()
    for batch in batches:
        batch["ts"].max()
        batch["x"].max()
    return time.process_time() - start


def batches_of(columns: Columns) -> list[Columns]:
    """The rows by batches."""
    return [part(columns, slice(i, i + BATCH)) for i in range(0, len(columns["ts"]), BATCH)]


def _least(found: dict[tuple[str, int], float], at: tuple[str, int], s: float, rows: int) -> None:
    found[at] = min(found.get(at, np.inf), 1e9 * s / rows)


def _same(answers: Columns, end: Ints, most: np.ndarray) -> None:
    order = np.argsort(answers["end"])
    if not (
        np.array_equal(answers["end"][order], end) and np.array_equal(answers["most"][order], most)
    ):
        raise AssertionError("the plans and buffering must give the same answers")


# ---- panes over WID --------------------------------------------------------------------------

ROWS_PER_PANE = (1, 2, 5, 10, 20, 50, 100)
PANES_PER_WINDOW = (2, 5, 10, 20, 50)


def pane_ratios(
    columns: Columns,
    per_pane: Sequence[int],
    per_window: Sequence[int],
    repeats: int,
    progress: Progress,
) -> dict[tuple[int, int], float]:
    """Figure 6-15: CPU time by panes over that without, both less the scan.

    A maximum every pane: (rows a pane, panes a window) to the ratio. What both plans share, such
    as taking pushes in and putting answers out, is in both times.
    """
    found = {}
    for rows, panes in [(r, p) for r in per_pane for p in per_window]:
        progress(f"{rows} rows a pane, {panes} panes a window")
        spec = hopping(rows * panes, rows).watermark(0).agg(most=agg.max("x"))
        spent = {"wid": np.inf, "paned": np.inf}
        for _ in range(repeats):
            answers = {}
            for plan in spent:
                run = run_batches(spec, plan, columns, BATCH)
                spent[plan] = min(spent[plan], run.seconds)
                answers[plan] = run.answers
            order = np.argsort(answers["wid"]["end"])
            _same(answers["paned"], *(answers["wid"][n][order] for n in ("end", "most")))
        read = min(scan(columns) for _ in range(repeats))
        found[rows, panes] = (spent["paned"] - read) / (spent["wid"] - read)
    return found
