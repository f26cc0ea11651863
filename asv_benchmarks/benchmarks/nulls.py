"""Values that are missing, and are skipped."""

from __future__ import annotations

from typing import ClassVar

import mta
from asv_benchmarks.benchmarks.row_windows import row_duels
from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import AGGREGATES, Axes, Point, Runner, Subject
from mta import agg


class Nulls(Subject):
    place = 5
    title = "One value in ten missing: row windows"
    note = (
        "Missing is NaN for pandas and bottleneck, and so for mta beside them (nan='skip'); null "
        "for polars. A window without a value answers null (min_count=1)."
    )
    axes: ClassVar[Axes] = {"aggregate": AGGREGATES, "window": (16, 2**10)}

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows, nulls=0.1)

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, window = point["aggregate"], point["window"]
        named, windows = getattr(agg, aggregate), mta.rolling(window)
        of_null = windows.agg(named("x", min_count=1))
        of_nan = windows.agg(named("x", min_count=1, nan="skip"))
        return row_duels(aggregate, window, of_null, of_nan)
