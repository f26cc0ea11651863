"""Hopping windows: sums of about N rows, one every millisecond, in which about one row comes."""

from __future__ import annotations

from typing import Any, ClassVar

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.peers import LIBRARIES
from asv_benchmarks.suite import Axes, Point, Runner, Subject, duel
from mta import agg


class Hopping(Subject):
    place = 14
    per_row = False
    title = "Sums of hopping windows that hold about N rows, an answer about every row"
    axes: ClassVar[Axes] = {"order": ("sorted", "late"), "window": (2**6, 2**10, 2**14)}

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows, order=point["order"])

    def rows_of(self, rows: int) -> int:
        """The peer reads every row once for every window that holds it."""
        return rows // 4

    def runners(self, point: Point) -> tuple[Runner, ...]:
        length = point["window"]
        spec = mta.hopping(f"{length}ms", "1ms", on="ts").agg(agg.sum("x"))
        return duel("polars", "polars", spec, lambda df: by_polars(df, length))


def by_polars(df: Any, length: int) -> Any:
    pl = LIBRARIES["polars"]
    windows = df.sort("ts").group_by_dynamic(
        "ts", every="1ms", period=f"{length}ms", offset=f"-{length - 1}ms"
    )
    return windows.agg(pl.col("x").sum())
