"""The page of the call centre: what the last hour was like, at every 10 seconds of the day."""

from __future__ import annotations

import datetime as dt
import html
import io
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")  # a file, no screen

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np

INK, MUTED, GRID = "#1c1c28", "#6b6f7b", "#e6e7eb"
COLORS = ("#c0392b", "#1f6f5c", "#3b6fb6")
TARGET = 0.8

Rows = list[dict[str, Any]]

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{refresh}<title>Call centre, live</title>
<style>
body {{ font: 16px/1.45 system-ui, sans-serif; color: #1c1c28; margin: 1.5rem auto;
        max-width: 62rem; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; margin: 0; }} p {{ color: #6b6f7b; margin: .2rem 0 1rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }}
th {{ font-weight: 500; color: #6b6f7b; text-align: right; }}
td {{ text-align: right; font-size: 1.15rem; }}
th, td {{ padding: .3rem .7rem; border-bottom: 1px solid #e6e7eb; }}
th:first-child, td:first-child {{ text-align: left; }}
td.bad {{ color: #c0392b; font-weight: 600; }}
svg {{ width: 100%; height: auto; margin-top: 1rem; }}
</style></head><body>
<h1>Call centre: the hour up to {now}</h1>
<p>{state} Made-up calls; every figure is of the calls that ended in that hour, exact and final.</p>
<table><tr><th>queue</th><th>calls</th><th>taken within 20 s</th><th>given up</th><th>mean wait</th>
<th>9 in 10 waited at most</th><th>mean talk</th></tr>
{rows}</table>
{picture}
</body></html>
"""


def write_page(path: Path, rows: Rows, queues: list[str], live: bool) -> None:
    """The page as HTML with the picture inside, and at the end the picture as PNG, too.

    rows : answers in order of their ends
    """
    now = rows[-1]["end"]
    newest = {row["queue"]: row for row in rows if row["end"] == now}
    figure = draw(rows, queues)
    vector = io.StringIO()
    figure.savefig(vector, format="svg")
    if not live:
        figure.savefig(path.with_suffix(".png"), dpi=130)
    plt.close(figure)
    drawn = vector.getvalue()
    text = PAGE.format(
        refresh='<meta http-equiv="refresh" content="2">' if live else "",
        now=f"{now:%H:%M:%S}",
        state="Live; the page reloads itself." if live else "The day is over.",
        rows="\n".join(table_row(newest[name]) for name in queues if name in newest),
        picture=drawn[drawn.index("<svg") :],
    )
    hidden = path.with_name("." + path.name)
    hidden.write_text(text, encoding="utf-8")
    hidden.rename(path)


def table_row(row: dict[str, Any]) -> str:
    """One queue's newest answers."""
    talk = "–" if row["talk"] is None else minutes(row["talk"])
    cells = [f"{row['calls']:,}", f"{row['in_time']:.0%}", f"{row['given_up']:.1%}"]
    cells += [minutes(row["wait"]), minutes(row["wait_90"]), talk]
    bad = row["in_time"] < TARGET
    shown = [f'<td class="bad">{c}</td>' if bad and i == 1 else f"<td>{c}</td>"
             for i, c in enumerate(cells)]  # fmt: skip
    return f"<tr><td>{html.escape(row['queue'])}</td>{''.join(shown)}</tr>"


def minutes(seconds: float) -> str:
    """2:05 min."""
    whole, rest = divmod(round(seconds), 60)
    return f"{whole}:{rest:02} min"


def draw(rows: Rows, queues: list[str]) -> Any:
    """Three panels over the day: service level, waits, calls."""
    figure, panels = plt.subplots(3, 1, figsize=(11, 8.4), sharex=True, height_ratios=[1.2, 1, 0.8])
    figure.subplots_adjust(left=0.09, right=0.9, top=0.85, bottom=0.085, hspace=0.36)
    level, wait, calls = panels
    level.axhline(TARGET * 100, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    for name, color in zip(queues, COLORS, strict=True):
        of = [row for row in rows if row["queue"] == name]
        if not of:
            continue
        time = np.array([row["end"].replace(tzinfo=None) for row in of], "M8[us]")
        columns = {key: np.array([row[key] for row in of], float) for key in
                   ("in_time", "wait", "wait_90", "calls")}  # fmt: skip
        level.plot(time, 100 * columns["in_time"], color=color, linewidth=2)
        wait.plot(time, columns["wait_90"] / 60, color=color, linewidth=1, alpha=0.55)
        wait.plot(time, columns["wait"] / 60, color=color, linewidth=2)
        calls.plot(time, columns["calls"], color=color, linewidth=2)
    label_ends(level, rows, queues, lambda row: 100 * row["in_time"], 6.5)
    titles(figure, level, wait, calls)
    style(panels, rows)
    return figure


def titles(figure: Any, level: Any, wait: Any, calls: Any) -> None:
    """What each panel shows, and in what."""
    place = {"x": 0.022, "va": "top"}
    figure.text(y=0.975, s="The last hour, every 10 seconds", fontsize=14.5, color=INK,
                fontweight="bold", **place)  # fmt: skip
    figure.text(y=0.937, s="By queue; a point is the hour of calls that ended up to that time.",
                fontsize=10.5, color=MUTED, **place)  # fmt: skip
    for axes, text, unit in (
        (level, "Service level: calls taken within 20 s (dashed: the target of 80 %)", "%"),
        (wait, "Wait: the mean, and thin the wait that 9 in 10 did not exceed", "minutes"),
        (calls, "Calls", "calls an hour"),
    ):
        axes.set_title(text, loc="left", fontsize=11, color=INK, pad=8)
        axes.set_ylabel(unit, color=MUTED, fontsize=9.5)
    calls.set_xlabel("time of day at which the hour ends", color=MUTED, fontsize=9.5)
    figure.align_ylabels()
    level.set_ylim(0, 102)
    wait.set_ylim(bottom=0)
    calls.set_ylim(bottom=0)
    calls.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def style(panels: Any, rows: Rows) -> None:
    """The day from nine on, whatever has been of it."""
    day = rows[0]["end"].replace(tzinfo=None, hour=0, minute=0, second=0)
    first = day + dt.timedelta(hours=9)
    newest = rows[-1]["end"].replace(tzinfo=None)
    for axes in panels:
        axes.set_xlim(first, max(day + dt.timedelta(hours=18), newest))
        axes.xaxis.set_major_locator(mdates.HourLocator())
        axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=MUTED, length=0, labelsize=9.5)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color("#c9cbd2")


def label_ends(axes: Any, rows: Rows, queues: list[str], value: Any, room: float) -> None:
    """The names of the lines where they end, none over another."""
    ends = []
    for name, color in zip(queues, COLORS, strict=True):
        of = [row for row in rows if row["queue"] == name]
        if of:
            ends.append((value(of[-1]), name, color, of[-1]["end"].replace(tzinfo=None)))
    level = np.inf
    for at, name, color, end in sorted(ends, reverse=True):
        level = min(at, level - room)
        axes.annotate(name, (end, level), xytext=(8, 0), textcoords="offset points",
                      va="center", color=color, fontsize=11, fontweight="bold",
                      annotation_clip=False)  # fmt: skip
