"""The pictures of the MTA paper's experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator
from mta_dimensions import Dimensions, line
from mta_latency import Eviction, Latency
from mta_memory import PARTIAL, Reached
from paper_axes import INK, MUTED, headline, name_ends, plain_axes, plain_numbers

COLOURS = {
    "Recompute": MUTED, "SubtractOnEvict": "#b7791f", "TwoStacks": "#d0638f", "DABA": "#8e5ea2",
    "DABALite": "#5b4fa0", "FlatFAT": "#7a5c3e", "LogMTA": "#1f6f5c", "AMTA": "#c0392b",
    "StoredAMTA": "#2c6fbb",
}  # fmt: skip

Line = tuple[str, list[float], list[float]]


def latency(found: Sequence[Latency], title: str, path: Path) -> None:
    """Figure 6: the mean by size, and what the paper leaves out, the slowest steps."""
    figure, panels = plt.subplots(1, 3, figsize=(14, 5), dpi=110, sharey=True)
    ways: list[tuple[str, Callable[[Latency], float]]] = [
        ("mean, arrays", lambda f: f.pushed),
        ("p99.9, step by step", lambda f: f.p999),
        ("slowest step", lambda f: f.worst),
    ]
    for axes, (name, what) in zip(panels, ways, strict=True):
        lines = [
            (who, [f.size for f in mine], [what(f) for f in mine])
            for who, mine in _by(found).items()
        ]
        _lines(axes, lines, name, "values in the window")
    panels[0].set_ylabel("ns: insert, evict, answer", color=INK)
    _finish(figure, panels[-1:], title, path)


def evictions(found: Sequence[Eviction], size: int, path: Path) -> None:
    """Figure 7: to drop many at once, by number and by a policy."""
    ways = list(dict.fromkeys(f.how for f in found))
    figure, panels = plt.subplots(1, len(ways), figsize=(12, 5), dpi=110, sharey=True)
    for axes, how in zip(panels, ways, strict=True):
        lines: list[Line] = [
            (who, [f.dropped for f in mine], [f.median for f in mine])
            for who, mine in _by([f for f in found if f.how == how]).items()
        ]
        _lines(axes, lines, how, f"values dropped of {size:,}")
    panels[0].set_ylabel("µs: evict, answer (median)", color=INK)
    _finish(figure, panels[-1:], "To drop many values at once", path)


def memory(found: Sequence[Reached], path: Path) -> None:
    """Figure 8: how large a window becomes."""
    figure, axes = plt.subplots(figsize=(8.5, 5.2), dpi=110)
    lines: list[Line] = [
        (who, [f.budget / 2**20 for f in mine], [f.values for f in mine])
        for who, mine in _by(found).items()
    ]
    _lines(axes, lines, "", "memory that the process may take more, MiB")
    x = np.array(sorted({f.budget for f in found}))
    for partials in (1, 2):
        y = np.minimum(x / (partials * PARTIAL), max(f.values for f in found))
        axes.plot(x / 2**20, y, color=MUTED, lw=1, ls=(0, (4, 3)), zorder=0)
    axes.set_ylabel("values in the window", color=INK)
    axes.legend(loc="lower right", frameon=False, labelcolor=INK)  # the lines lie on each other
    _finish(figure, [], "The largest window in so much memory (dashed: 1 and 2 partials)", path)


def dimensions(ways: Sequence[Sequence[Dimensions]], path: Path) -> None:
    """Figure 9: one window with so many sums, the line through it, and a window for each."""
    figure, panels = plt.subplots(1, len(ways), figsize=(12, 5), dpi=110)
    for axes, found in zip(panels, ways, strict=True):
        k = np.array([f.dimensions for f in found])
        slope, shared = line(found)
        axes.plot(k, [f.together for f in found], "o", ms=4, color=COLOURS["AMTA"])
        axes.plot(k, shared + slope * k, lw=1.5, color=COLOURS["AMTA"])
        axes.plot(k, [f.apart for f in found], "o-", ms=3, lw=1.5, color=COLOURS["LogMTA"])
        axes.plot(k, found[0].together * k, lw=1, ls=(0, (4, 3)), color=MUTED)
        axes.set_title(f"rows {found[0].how}", loc="left", fontsize=11, color=INK)
        axes.set_xlabel("sums, one a column", color=INK)
        axes.yaxis.set_major_formatter(plain_numbers())
        axes.set_ylim(bottom=0)
        plain_axes(axes)
    panels[0].set_ylabel("CPU time, ns a row", color=INK)
    headline(figure, "Many dimensions: one window, or a window for each")
    figure.tight_layout(rect=(0, 0, 0.88, 0.93))
    for axes, found in zip(panels, ways, strict=True):
        last = found[-1]
        proportional = found[0].together * last.dimensions
        ends = [
            ("one window", COLOURS["AMTA"], last.dimensions, last.together),
            ("a window each", COLOURS["LogMTA"], last.dimensions, last.apart),
            ("as many times one", MUTED, last.dimensions, proportional),
        ]
        name_ends(axes, ends if axes is panels[-1] else [])
    figure.savefig(path)
    plt.close(figure)


def analytics(
    ours: dict[str, dict[str, float]], papers: dict[str, dict[str, float]], path: Path
) -> None:
    """Table 2 as dots: ours filled, the paper's as rings."""
    figure, axes = plt.subplots(figsize=(9.5, 5.2), dpi=110)
    names = list(ours)
    ends = []
    for who in ("LogMTA", "DABA", "AMTA", "StoredAMTA"):
        for given, style, by in (
            (ours, {"ls": "-"}, "ours"),
            (papers, {"mfc": "none", "ls": "--"}, "the paper"),
        ):
            y = [given[name].get(who, np.nan) for name in names]
            axes.plot(range(len(names)), y, marker="o", ms=6, lw=1.2, color=COLOURS[who], **style)
            ends.append((f"{who}, {by}", COLOURS[who], len(names) - 1, y[-1]))
    axes.set_yscale("log")
    axes.set_xticks(range(len(names)), names)
    axes.yaxis.set_major_formatter(plain_numbers())
    axes.set_ylabel("mean ns a value: insert, policy, answer", color=INK)
    plain_axes(axes)
    headline(figure, "Latency by analytic, windows of at most 2^20 values")
    figure.tight_layout(rect=(0, 0, 0.86, 0.93))
    name_ends(axes, [end for end in ends if np.isfinite(end[3])])
    figure.savefig(path)
    plt.close(figure)


# ---- what they share -------------------------------------------------------------------------


def _by(found: Sequence[Any]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for one in found:
        grouped.setdefault(one.algorithm, []).append(one)
    return grouped


def _lines(axes: Any, lines: Sequence[Line], title: str, label: str) -> None:
    """Lines over two logarithmic axes; names at the ends come later."""
    for who, x, y in lines:
        axes.plot(x, y, "o-", ms=3, lw=1.8, color=COLOURS[who], label=who)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(16))
    axes.yaxis.set_major_locator(LogLocator(10))
    axes.yaxis.set_major_formatter(plain_numbers())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(label, color=INK)
    plain_axes(axes)


def _finish(figure: Any, named: Sequence[Any], title: str, path: Path) -> None:
    """The names of the lines at the ends of those in the last panel."""
    headline(figure, title)
    figure.tight_layout(rect=(0, 0, 0.9, 0.94))
    for axes in named:
        drawn = [one for one in axes.get_lines() if not one.get_label().startswith("_")]
        name_ends(
            axes,
            [
                (one.get_label(), one.get_color(), one.get_xdata()[-1], one.get_ydata()[-1])
                for one in drawn
            ],
        )
    figure.savefig(path)
    plt.close(figure)
