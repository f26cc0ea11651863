"""The pictures of the SlideM paper's experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import slidem_published as paper
from paper_axes import INK, MUTED, headline, plain_axes, plain_numbers, save
from slidem_calls import IN_MEMORY, ONE_WINDOW, TWO_LEVELS, Run
from slidem_shared import Held
from slidem_vwap import WAYS, Injected

COLOURS = {IN_MEMORY: "#c0392b", ONE_WINDOW: "#2c6fbb", TWO_LEVELS: "#1f6f5c"}
OF_WAY = dict(zip(WAYS, ("#2c6fbb", "#1f6f5c"), strict=True))
Line = tuple[str, str, Sequence[float], Sequence[float]]


def calls(found: Sequence[Run], title: str, path: Path) -> None:
    """Figure 10: memory and latency over the stream's time, in memory and on files."""
    figure, panels = plt.subplots(1, 3, figsize=(14, 4.8), dpi=90)
    mb = [
        ("what the windows hold, MB", [(r, [x / 1e6 for x in r.held]) for r in found]),
        ("by how much the process grew, MB", [(r, [x / 1e6 for x in r.anonymous]) for r in found]),
        ("a push into all 8 windows, ms", [(r, r.pushed_ms) for r in found]),
    ]
    for axes, (label, lines) in zip(panels, mb, strict=True):
        _lines(axes, label, [(r.how, COLOURS[r.how], r.hours, values) for r, values in lines])
        axes.set_xlabel("hours of the stream", color=INK)
        axes.set_ylim(bottom=0)
    _finish(figure, panels, title, path)


def rates(found: Sequence[Injected], path: Path) -> None:
    """Table 1 as lines: latency and CPU by rate."""
    figure, panels = plt.subplots(1, 2, figsize=(12, 4.8), dpi=90)
    kinds = [
        ("latency of a push, ms: mean, and dashed the greatest", "mean_ms", "max_ms"),
        ("CPU, % of one core (the paper's: of 8)", "cpu", "cpu"),
    ]
    for axes, (label, mean, most) in zip(panels, kinds, strict=True):
        for which, style in ((most, (0, (4, 3))), (mean, "-")):
            lines = [
                (way, OF_WAY[way], [r.rate for r in mine], [getattr(r, which) for r in mine])
                for way in WAYS
                if (mine := [r for r in found if r.way == way])
            ]
            theirs = [float(getattr(line, which)) for line in paper.TABLE_1]
            lines.append(("the paper", MUTED, [line.rate for line in paper.TABLE_1], theirs))
            _lines(axes, label, lines, style)
        axes.set_xscale("log")
        axes.set_xlabel("rows a second", color=INK)
        axes.xaxis.set_major_formatter(plain_numbers())
    panels[0].set_yscale("log")
    _finish(figure, panels, "VWAP at every row, by rate (the paper's pushes are one row)", path)


def shared(found: Sequence[tuple[Held, Held]], path: Path) -> None:
    """Figure 11: space and requests, shared and not."""
    figure, panels = plt.subplots(1, 2, figsize=(12, 4.8), dpi=90)
    kinds = [
        ("blocks in memory and on the store", "space"),
        ("requests a block of rows", "a_block"),
    ]
    for axes, (label, what) in zip(panels, kinds, strict=True):
        lines = [
            (name, colour, [p[0].windows for p in found], [getattr(p[i], what) for p in found])
            for i, (name, colour) in enumerate((("SSM", "#1f6f5c"), ("unshared", "#c0392b")))
        ]
        if what == "a_block":
            counts, formula = [p[0].windows for p in found], [p[0].formula for p in found]
            lines.append(("formula 4.1", MUTED, counts, formula))
        _lines(axes, label, lines)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("windows", color=INK)
    _finish(figure, panels, "Several windows over one stream", path)


def _lines(axes: Any, label: str, lines: Sequence[Line], style: Any = "-") -> None:
    for name, colour, x, y in lines:
        axes.plot(x, y, ls=style, lw=1.8, color=colour, label=name if style == "-" else None)
    axes.set_title(label, loc="left", fontsize=11, color=INK)
    axes.yaxis.set_major_formatter(plain_numbers())
    plain_axes(axes)


def _finish(figure: Any, panels: Any, title: str, path: Path) -> None:
    headline(figure, title)
    panels[-1].legend(loc="best", frameon=False, labelcolor=INK)
    save(figure, path)
