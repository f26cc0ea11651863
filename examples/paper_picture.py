"""The pictures of the figures: axes with units, lines that bear their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter, NullLocator
from paper_accuracy import Outcome
from paper_axes import (
    GRID,
    INK,
    MUTED,
    headline,
    name_ends,
    one,
    plain_axes,
    plain_numbers,
    save,
    say,
)
from paper_lowlevel import Rate
from paper_skew import Cost
from paper_speed import BUFFERING, SCAN, Times

COLOURS = {
    "rows": "#c0392b", "wid": "#8e5ea2", "paned": "#1f6f5c", "adapt": "#2a6fb0",
    BUFFERING: "#b7791f", SCAN: MUTED, "punctuation": "#1f6f5c", "generous slack": "#2a6fb0",
    "consistent slack": "#c0392b",
}  # fmt: skip
WAY_COLOURS = {"in order": "#c0392b", "slow flush": "#1f6f5c", "lazy flush": "#2a6fb0"}
NAMES = {
    "rows": "rows kept", "wid": "WID", "paned": "Paned-WID", "adapt": "AdaptWID",
    BUFFERING: "buffering (NumPy)", SCAN: "scan",
}  # fmt: skip


def by_slide(times: Times, path: Path) -> None:
    """Figure 6-10."""
    figure, axes = one("Cost of a sliding maximum over 4000 rows", "CPU time, ns a row")
    lines = []
    for who in times.who:
        y = [times.nanoseconds[who, slide] for slide in times.slides]
        axes.plot(times.slides, y, "o-", ms=4, lw=2, color=COLOURS[who])
        lines.append((NAMES[who], COLOURS[who], times.slides[-1], y[-1]))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("SLIDE: rows from one answer to the next", color=INK)
    axes.xaxis.set_major_locator(plt.FixedLocator([1, 10, 100, 1000, 4000]))
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.yaxis.set_major_formatter(plain_numbers())
    name_ends(axes, lines)
    save(figure, path)


def accuracy(
    outcomes: Sequence[Outcome],
    title: str,
    unit: str,
    error: str,
    path: Path,
    wrong: bool = False,
    even: bool = False,
) -> None:
    """Figures 6-11 and 6-12: error and latency by slack, one above the other.

    error : what the upper panel shows
    wrong : it shows the percentage of wrong answers
    even : the slacks stand at even distances
    """
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(8, 7), dpi=110, sharex=True)
    slacks = sorted({o.slack for o in outcomes if not np.isnan(o.slack)})
    place = {s: i for i, s in enumerate(slacks)} if even else {s: s for s in slacks}
    ways = list(dict.fromkeys(o.way for o in outcomes if not np.isnan(o.slack)))
    for way in ways:
        mine = [o for o in outcomes if o.way == way]
        x, y = [place[o.slack] for o in mine], [o.wrong if wrong else o.error for o in mine]
        upper.plot(x, y, "o-", ms=5, lw=2, color=COLOURS[way])
        say(upper, way, COLOURS[way], (x[1], y[1]), (7, 5), "left")
    # Both kinds of slack wait for the same rows: their latencies are one line.
    mine = [o for o in outcomes if o.way == ways[0]]
    x, y, name = [place[o.slack] for o in mine], [o.latency for o in mine], " and ".join(ways)
    lower.plot(x, y, "o-", ms=5, lw=2, color=INK)
    say(lower, name.replace(" slack and", " and"), INK, (x[-1], y[-1]), (-12, -3), "right")
    for axes, at, side in ((upper, 0.01, "left"), (lower, 0.99, "right")):
        axes.set_ylim(bottom=-axes.get_ylim()[1] / 10)
        axes.axhline(0, color=COLOURS["punctuation"], lw=2)
        axes.annotate(
            "punctuation, no slack", (at, 0), (0, -13), color=COLOURS["punctuation"], ha=side,
            xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=10,
        )  # fmt: skip
        plain_axes(axes)
    upper.set_ylabel(error, color=INK)
    lower.set_ylabel(f"latency, {unit} after\npunctuation (mean)", color=INK)
    lower.set_xlabel(f"slack, {unit}", color=INK)
    lower.set_xticks(list(place.values()), [f"{s:.3g}" for s in slacks], rotation=0)
    headline(figure, title)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(path)
    plt.close(figure)


def panes(ratios: dict[tuple[int, int], float], path: Path) -> None:
    """Figure 6-15."""
    figure, axes = one("Time by panes over time without, a sliding maximum", "Paned-WID / WID")
    windows = sorted({w for _, w in ratios})
    shades = plt.get_cmap("viridis")(np.linspace(0.1, 0.8, len(windows)))
    lines = []
    for window, shade in zip(windows, shades, strict=True):
        x = sorted(r for r, w in ratios if w == window)
        y = [ratios[rows, window] for rows in x]
        axes.plot(x, y, "o-", ms=4, lw=2, color=shade)
        lines.append((f"{window} panes a window", shade, x[-1], y[-1]))
    axes.axhline(1, color=MUTED, lw=1, ls=(0, (4, 3)))
    axes.annotate(
        "as fast as WID", (0.99, 1), (0, 4), xycoords=("axes fraction", "data"), ha="right",
        textcoords="offset points", color=MUTED, fontsize=9.5,
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(plt.FixedLocator(sorted({r for r, _ in ratios})))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.set_xlabel("rows a pane", color=INK)
    name_ends(axes, lines)
    save(figure, path)


def skew(costs: Sequence[Cost], path: Path) -> None:
    """Figure 6-19: memory, latency and time, by data set and by skew of the sources."""
    figure, grid = plt.subplots(3, 3, figsize=(12, 9), dpi=110, sharey="row")
    last = max((c.data for c in costs), default="")
    columns = (
        ("Q6-7: sums of 1 s, one source", [c for c in costs if c.query == "Q6-7"], "data"),
        (
            "Q6-8: counts of 10 s, three sources",
            [c for c in costs if c.query == "Q6-8" and not c.skew],
            "data",
        ),
        (
            f"Q6-8 on {last}, one source behind",
            [c for c in costs if c.query == "Q6-8" and c.data == last],
            "skew",
        ),
    )
    rows = (
        ("peak_bytes", 2**-20, "memory held at most, MiB"),
        ("milliseconds", 1, "punctuation to answers, ms"),
        ("nanoseconds", 1, "CPU time, ns a row"),
    )
    ends = {}
    for i, (what, factor, label) in enumerate(rows):
        for j, (title, mine, by) in enumerate(columns):
            axes = grid[i, j]
            ends[i, j] = _by_plan(axes, mine, what, factor, by)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(plain_numbers())
            axes.yaxis.set_minor_formatter(NullFormatter())
            plain_axes(axes)
            if i == 0:
                axes.set_title(title, loc="left", fontsize=11, color=INK)
            if i == 2:
                axes.set_xlabel("data set" if by == "data" else "skew, s", color=INK)
            if j == 0:
                axes.set_ylabel(label, color=INK)
    headline(figure, "Skewed groups: memory, latency and time of the plans")
    figure.tight_layout(rect=(0, 0, 0.93, 0.96))
    for i in range(3):
        name_ends(grid[i, 2], ends[i, 2])
    figure.savefig(path)
    plt.close(figure)


def _by_plan(
    axes: Any, costs: Sequence[Cost], what: str, factor: float, by: str
) -> list[tuple[str, Any, float, float]]:
    lines = []
    for plan in dict.fromkeys(c.plan for c in costs):
        mine = [c for c in costs if c.plan == plan]
        x = [getattr(c, by) for c in mine]
        y = [factor * getattr(c, what) for c in mine]
        axes.plot(x, y, "o-", ms=4, lw=2, color=COLOURS[plan])
        lines.append((NAMES[plan], COLOURS[plan], x[-1], y[-1]))
    return lines


def low_level(rates: Sequence[Rate], path: Path) -> None:
    """Figure 8-7: the rate by groups, a panel for every size of the table."""
    sizes = sorted({r.size for r in rates})
    figure, panels = plt.subplots(1, len(sizes), figsize=(12, 4.8), dpi=110, sharey=True)
    for axes, size in zip(panels, sizes, strict=True):
        lines = []
        for way, colour in WAY_COLOURS.items():
            mine = [r for r in rates if r.size == size and r.way == way]
            x, y = [r.groups / 1000 for r in mine], [r.million for r in mine]
            axes.plot(x, y, "o-", ms=4, lw=2, color=colour)
            lines.append((way, colour, x[-1], y[-1]))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(plt.FixedLocator(x))
        axes.xaxis.set_minor_locator(NullLocator())
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(plain_numbers())
        axes.set_xlabel("groups, thousands", color=INK)
        axes.set_title(f"{size:g} slots a group", loc="left", fontsize=11, color=INK)
        plain_axes(axes)
        axes.grid(axis="y", which="minor", color=GRID, linewidth=0.4)
    panels[0].set_ylabel("highest rate without a loss,\nmillion rows a second", color=INK)
    headline(figure, "Low-level aggregation: what may go out late smooths the work")
    figure.tight_layout(rect=(0, 0, 0.95, 0.93))
    name_ends(panels[-1], lines)
    figure.savefig(path)
    plt.close(figure)
