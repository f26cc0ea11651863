"""One picture: the day on which delays spread furthest through one airport."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import matplotlib as mpl
import numpy as np

mpl.use("agg")  # a file, no screen

import matplotlib.dates as mdates
import matplotlib.pyplot as plt

AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
INK, MUTED, DOT, MEAN, USUAL = "#1c1c28", "#6b6f7b", "#9fb4cc", "#c0392b", "#1f6f5c"
DAY_STARTS = dt.timedelta(hours=4)  # the quietest hour; what leaves after midnight belongs before
HOURS_24 = np.timedelta64(24, "h")

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Peak:
    """The departure with the worst 6 hours before it, and the last one before it that had 6
    hours no worse than the week. Means in minutes.
    """

    origin: str
    time: dt.datetime
    mean: float
    flights: int
    calm_time: dt.datetime
    calm_mean: float

    @property
    def day(self) -> dt.datetime:
        """When the day began whose delays these are."""
        midnight = dt.datetime.combine((self.time - DAY_STARTS).date(), dt.time())
        return midnight + DAY_STARTS

    def __str__(self) -> str:
        return (
            f"{AIRPORTS[self.origin]}, {self.day:%-d %B %Y}: on average {in_words(self.calm_mean)} "
            f"late at {self.calm_time:%H:%M}, {in_words(self.mean)} at {self.time:%H:%M}"
        )


def draw(con: duckdb.DuckDBPyConnection, answers: Path, busy: int, path: Path) -> str | None:
    """Draw the worst day as a PNG; the finding in a sentence, or None if there is nothing to see
    because no airport was busy.
    """
    peak = find_peak(con, answers, busy)
    if peak is None:
        return None
    figure = plt.figure(figsize=(11, 8.2), dpi=150, facecolor="white")
    grid = figure.add_gridspec(
        2, 2, height_ratios=[2.1, 1], hspace=0.34, wspace=0.06,
        left=0.068, right=0.965, top=0.855, bottom=0.06,
    )  # fmt: skip
    main = figure.add_subplot(grid[0, :])
    day = read_day(con, answers, peak.origin, peak.day)
    draw_airport(main, day, peak.day, large=True)
    name_lines(main, day, peak)
    for i, code in enumerate(code for code in AIRPORTS if code != peak.origin):
        panel = figure.add_subplot(grid[1, i], sharey=main)
        draw_airport(panel, read_day(con, answers, code, peak.day), peak.day, large=False)
        panel.set_title(f"{AIRPORTS[code]}, the same day", loc="left", fontsize=11, color=INK)
        panel.tick_params(labelleft=i == 0)
    headline(figure, peak)
    figure.savefig(path)
    plt.close(figure)
    return f"{peak} (the {peak.flights} departures in the 6 hours before)."


def find_peak(con: duckdb.DuckDBPyConnection, answers: Path, busy: int) -> Peak | None:
    """The worst 6 hours of any airport with at least `busy` departures."""
    found = con.execute(
        f"""
        with peak as (
            from '{answers}/*.parquet' where origin_6h_flights >= {busy}
            order by origin_6h_mean desc, departed limit 1
        )
        select peak.origin, peak.departed, peak.origin_6h_mean, peak.origin_6h_flights,
            calm.departed, calm.origin_6h_mean
        from peak join '{answers}/*.parquet' calm
            on calm.origin = peak.origin and calm.departed < peak.departed
            and calm.origin_6h_mean <= calm.origin_7d_mean
        order by calm.departed desc limit 1
        """
    ).fetchone()
    return None if found is None else Peak(*found)


def read_day(
    con: duckdb.DuckDBPyConnection, answers: Path, origin: str, start: dt.datetime
) -> Columns:
    """The departures of a day and their answers, in order of time; delays in hours."""
    return con.execute(
        f"""
        select departed, dep_delay / 60 as delay, origin_6h_mean / 60 as mean,
            origin_6h_max / 60 as max, origin_6h_std / 60 as std, origin_7d_mean / 60 as usual
        from '{answers}/*.parquet'
        where origin = $1 and departed >= $2 and departed < $2 + interval '1 day'
        order by departed
        """,
        [origin, start],
    ).fetchnumpy()


def draw_airport(axes: Any, day: Columns, start: dt.datetime, large: bool) -> None:
    """Departures as dots, the windows before them as lines."""
    time = day["departed"]
    axes.scatter(time, day["delay"], s=15 if large else 7, color=DOT, linewidths=0, zorder=2)
    low, high = day["mean"] - day["std"], day["mean"] + day["std"]
    axes.fill_between(time, low, high, color=MEAN, alpha=0.10, linewidth=0, zorder=1)
    axes.plot(time, day["max"], color=MUTED, linewidth=0.9, drawstyle="steps-pre", zorder=3)
    axes.plot(time, day["usual"], color=USUAL, linewidth=1.5, linestyle=(0, (4, 2)), zorder=4)
    axes.plot(time, day["mean"], color=MEAN, linewidth=2.6 if large else 1.9, zorder=5)
    axes.set_xlim(start + dt.timedelta(hours=1), start + dt.timedelta(hours=24))
    axes.xaxis.set_major_locator(mdates.HourLocator(byhour=range(0, 24, 3)))
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))
    axes.yaxis.set_major_locator(plt.MultipleLocator(2))
    axes.yaxis.set_major_formatter(lambda hours, _: f"{hours:.0f} h late" if hours else "on time")
    axes.set_ylim(bottom=-1.2)  # ends autoscaling: panels that share this axis keep its scale
    axes.grid(axis="y", color="#e6e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=0, labelsize=9.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#c9cbd2")


def name_lines(axes: Any, day: Columns, peak: Peak) -> None:
    """Write what the lines are where they end, and mark the two moments of the title."""
    end = day["departed"][-1]
    axes.set_xlim(right=max(end + np.timedelta64(160, "m"), np.datetime64(peak.day) + HOURS_24))
    low, high = axes.get_ylim()
    room, level = (high - low) / 10, np.inf
    for name, text, color in (
        ("max", "maximum of\nthe last 6 h", MUTED),
        ("mean", "mean of the last\n6 h (band: ± std)", MEAN),
        ("usual", "mean of the\nlast 7 days", USUAL),
    ):
        level = min(day[name][-1], level - room)  # not over the name above
        place = {"xytext": (9, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(text, (end, level), color=color, fontsize=10, **place)
    for time, minutes, above in (
        (peak.calm_time, peak.calm_mean, (-58, 46)),
        (peak.time, peak.mean, (-30, 84)),
    ):
        axes.plot([time], [minutes / 60], "o", color="white", mec=MEAN, mew=2, ms=7.5, zorder=6)
        axes.annotate(
            f"{time:%H:%M}\n{in_words(minutes)}", (time, minutes / 60), xytext=above,
            textcoords="offset points", ha="center", color=MEAN, fontsize=11, fontweight="bold",
            arrowprops={"arrowstyle": "-", "color": MEAN, "linewidth": 0.8, "shrinkB": 5}, zorder=7,
        )  # fmt: skip


def headline(figure: Any, peak: Peak) -> None:
    """The finding as title, and how to read the picture below it."""
    figure.text(0.022, 0.968, str(peak), fontsize=14.5, fontweight="bold", color=INK, va="top")
    figure.text(
        0.022, 0.928,
        "Each dot is a departure, at the local time it left. The lines are what was known just "
        "before it left:\nthe delays of the flights that had left in the last 6 hours, or 7 days.",
        fontsize=10.5, color=MUTED, va="top", linespacing=1.4,
    )  # fmt: skip


def in_words(minutes: float) -> str:
    """A delay as people say it: 3 h 33 min."""
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest:02} min" if hours else f"{rest} min"
