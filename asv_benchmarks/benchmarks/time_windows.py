"""The rows of the last stretch of time, over irregular sorted times."""

from __future__ import annotations

from typing import Any, ClassVar

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.peers import LIBRARIES
from asv_benchmarks.suite import AGGREGATES, WINDOWS, Axes, Point, Runner, Subject, duel
from mta import agg


class TimeWindows(Subject):
    place = 2
    title = "Time windows that hold about N rows: times sorted, 1 ms apart on average"
    axes: ClassVar[Axes] = {"aggregate": AGGREGATES, "window": WINDOWS}

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows)

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, span = point["aggregate"], f"{point['window']}ms"
        spec = mta.rolling(span, on="ts").agg(getattr(agg, aggregate)("x"))
        return (
            *duel("pandas", "pandas", spec, lambda df: by_pandas(df, aggregate, span)),
            *duel("polars", "polars", spec, lambda df: df.select(by_polars(aggregate, span))),
        )


def by_pandas(df: Any, aggregate: str, span: str) -> Any:
    return getattr(df.rolling(span, on="ts")["x"], aggregate)()


def by_polars(aggregate: str, span: str) -> Any:
    column = LIBRARIES["polars"].col("x")
    return getattr(column, f"rolling_{aggregate}_by")("ts", window_size=span)
