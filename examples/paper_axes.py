"""What the pictures of all papers share: plain axes, and lines that bear their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("agg")  # a file, no screen

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

INK, MUTED, GRID = "#1c1c28", "#6b6f7b", "#e6e7eb"


def one(title: str, label: str) -> tuple[Any, Any]:
    """A figure of one panel."""
    figure, axes = plt.subplots(figsize=(8.5, 5.2), dpi=110)
    headline(figure, title)
    axes.set_ylabel(label, color=INK)
    plain_axes(axes)
    return figure, axes


def save(figure: Any, path: Path) -> None:
    """Write it out."""
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figure.savefig(path)
    plt.close(figure)


def headline(figure: Any, title: str) -> None:
    """What is shown, above all."""
    figure.text(0.015, 0.985, title, fontsize=13, fontweight="bold", color=INK, va="top")


def plain_axes(axes: Any) -> None:
    """A few pale lines, no frame."""
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=MUTED, length=0, labelsize=9.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#c9cbd2")


def plain_numbers() -> Any:
    """Ticks as numbers, not as powers."""
    return FuncFormatter(lambda value, _: f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")


def name_ends(axes: Any, lines: Sequence[tuple[str, Any, float, float]]) -> None:
    """Write the name of every line where it ends, none over another."""
    axes.figure.canvas.draw()
    lines = sorted(lines, key=lambda line: line[3])
    wanted = [axes.transData.transform((axes.convert_xunits(x), y))[1] for _, _, x, y in lines]
    shown = _apart(wanted, 14 * axes.figure.dpi / 72)
    for (name, colour, x, y), at, to in zip(lines, wanted, shown, strict=True):
        axes.annotate(
            name, (x, y), (9, (to - at) * 72 / axes.figure.dpi), textcoords="offset points",
            va="center", color=colour, fontsize=10, annotation_clip=False,
        )  # fmt: skip


def _apart(wanted: Sequence[float], room: float) -> list[float]:
    """Places near those wanted, which rise, and at least so far apart."""
    clusters: list[list[float]] = []
    for at in wanted:
        clusters.append([at])
        while len(clusters) > 1 and _bottom(clusters[-1], room) < _top(clusters[-2], room) + room:
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    return [_bottom(c, room) + i * room for c in clusters for i in range(len(c))]


def _bottom(cluster: list[float], room: float) -> float:
    return float(np.mean(cluster)) - room * (len(cluster) - 1) / 2


def _top(cluster: list[float], room: float) -> float:
    return _bottom(cluster, room) + room * (len(cluster) - 1)


def say(axes: Any, text: str, colour: Any, at: Any, offset: Any, side: str) -> None:
    """Write a name beside a point of its line."""
    axes.annotate(text, at, offset, textcoords="offset points", color=colour, ha=side, fontsize=10)
