"""Windows per key: 1,000 keys that take turns at random, as numbers and as strings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import mta
from asv_benchmarks.benchmarks.row_windows import PANDAS, POLARS
from asv_benchmarks.benchmarks.time_windows import by_polars
from asv_benchmarks.data import KEYS, Recipe
from asv_benchmarks.peers import LIBRARIES
from asv_benchmarks.suite import Axes, Point, Runner, Subject, duel
from mta import agg


class Grouped(Subject):
    place = 3
    title = "Grouped by 1,000 keys: windows of N rows of a key (time windows: of about N)"
    note = "pandas answers in the order of the keys; putting them back is not counted."
    axes: ClassVar[Axes] = {
        "windows": ("time", "rows"),
        "keys": ("int", "string"),
        "aggregate": ("sum", "max"),
        "window": (16, 2**10),
    }

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows, keys=point["keys"])

    def fits(self, rows: int, point: Point) -> bool:
        return bool(point["window"] * KEYS < rows)

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, window = point["aggregate"], point["window"]
        answer = getattr(agg, aggregate)("x")
        if point["windows"] == "rows":
            spec = mta.rolling(window, by="key").agg(answer)
            return (
                *duel(
                    "pandas", "pandas", spec, lambda df: keyed_rows_by_pandas(df, aggregate, window)
                ),
                *duel(
                    "polars", "polars", spec, lambda df: keyed_rows_by_polars(df, aggregate, window)
                ),
            )
        span = f"{window * KEYS}ms"  # a key's rows come KEYS ms apart on average
        spec = mta.rolling(span, on="ts", by="key").agg(answer)
        return (
            *duel("pandas", "pandas", spec, lambda df: keyed_times_by_pandas(df, aggregate, span)),
            *duel("polars", "polars", spec, lambda df: keyed_times_by_polars(df, aggregate, span)),
        )

    def answers(self, runner: Runner, result: Any) -> NDArray[np.float64]:
        if runner.name == "pandas":
            result = result.droplevel(0).sort_index()
        return super().answers(runner, result)


def keyed_rows_by_pandas(df: Any, aggregate: str, window: int) -> Any:
    return getattr(df.groupby("key")["x"].rolling(window, **PANDAS), aggregate)()


def keyed_rows_by_polars(df: Any, aggregate: str, window: int) -> Any:
    column = LIBRARIES["polars"].col("x")
    return df.select(getattr(column, f"rolling_{aggregate}")(window, **POLARS).over("key"))


def keyed_times_by_pandas(df: Any, aggregate: str, span: str) -> Any:
    return getattr(df.groupby("key").rolling(span, on="ts")["x"], aggregate)()


def keyed_times_by_polars(df: Any, aggregate: str, span: str) -> Any:
    return df.select(by_polars(aggregate, span).over("key"))
