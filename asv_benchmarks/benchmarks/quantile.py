"""Medians and a high quantile: of the last N rows, and of the last stretch of time."""

from __future__ import annotations

from typing import Any, ClassVar

import mta
from asv_benchmarks.benchmarks.row_windows import row_duels
from asv_benchmarks.data import Recipe
from asv_benchmarks.peers import LIBRARIES
from asv_benchmarks.suite import WINDOWS, Axes, Point, Runner, Subject, duel
from mta import agg

ANSWERS = {"median": agg.median("x"), "p99": agg.quantile("x", 0.99)}


class Medians(Subject):
    place = 12
    title = "Medians of the last N rows"
    axes: ClassVar[Axes] = {"aggregate": ("median",), "window": WINDOWS}

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows)

    def runners(self, point: Point) -> tuple[Runner, ...]:
        window = point["window"]
        return row_duels("median", window, mta.rolling(window).agg(ANSWERS["median"]))


class TimeQuantiles(Subject):
    place = 13
    title = "Medians and 99th percentiles of time windows that hold about N rows"
    axes: ClassVar[Axes] = {"aggregate": tuple(ANSWERS), "window": WINDOWS}

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows)

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, span = point["aggregate"], f"{point['window']}ms"
        spec = mta.rolling(span, on="ts").agg(ANSWERS[aggregate])
        return (
            *duel("pandas", "pandas", spec, lambda df: by_pandas(df, aggregate, span)),
            *duel("polars", "polars", spec, lambda df: by_polars(df, aggregate, span)),
        )


def by_pandas(df: Any, aggregate: str, span: str) -> Any:
    windows = df.rolling(span, on="ts")["x"]
    return windows.median() if aggregate == "median" else windows.quantile(0.99)


def by_polars(df: Any, aggregate: str, span: str) -> Any:
    column = LIBRARIES["polars"].col("x")
    if aggregate == "median":
        return df.select(column.rolling_median_by("ts", window_size=span))
    how = {"quantile": 0.99, "interpolation": "linear"}
    return df.select(column.rolling_quantile_by("ts", window_size=span, **how))
