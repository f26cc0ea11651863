"""Rows out of order, answered where they stand."""

from __future__ import annotations

from typing import Any, ClassVar

import mta
from asv_benchmarks.benchmarks.time_windows import by_pandas, by_polars
from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import Axes, Point, Runner, Subject, duel
from mta import agg


class Unsorted(Subject):
    place = 4
    title = "Unsorted input: time windows that hold about N rows"
    note = (
        '"late": every row comes late by up to 1,000 rows. pandas takes sorted rows only: it is '
        "given what its users write, sort_values before and sort_index after."
    )
    axes: ClassVar[Axes] = {
        "order": ("late", "shuffled"),
        "aggregate": ("sum", "max"),
        "window": (2**10,),
    }

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows, order=point["order"])

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, span = point["aggregate"], f"{point['window']}ms"
        spec = mta.rolling(span, on="ts").agg(getattr(agg, aggregate)("x"))
        return (
            *duel("pandas", "pandas", spec, lambda df: sorted_by_pandas(df, aggregate, span)),
            *duel("polars", "polars", spec, lambda df: df.select(by_polars(aggregate, span))),
        )


def sorted_by_pandas(df: Any, aggregate: str, span: str) -> Any:
    return by_pandas(df.sort_values("ts", kind="stable"), aggregate, span).sort_index()
