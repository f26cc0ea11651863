"""One window over many columns, pushed as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import Axes, Point, Runner, Subject
from mta import agg

DIMENSIONS = (1, 5, 50)


@dataclass(frozen=True)
class Columns:
    """One column of values, under as many names as there are dimensions."""

    recipe: Recipe
    dimensions: int

    def spiked(self) -> Columns:
        return Columns(self.recipe.spiked(), self.dimensions)

    def frame(self, kind: str) -> dict[str, NDArray[Any]]:
        x = self.recipe.frame("arrays")["x"]
        return {f"x{k}": np.roll(x, k) for k in range(self.dimensions)}


class Dimensions(Subject):
    place = 18
    title = "Dimensions: one mta.Window with an aggregate per column, pushed as arrays"
    note = (
        "together: one window. apart: a window for each column. A time is that of all dimensions, "
        "so that 50 of them are 50 answers a row."
    )
    axes: ClassVar[Axes] = {
        "aggregate": ("count", "sum", "max", "std"),
        "dimensions": DIMENSIONS,
        "window": (2**10, 2**16),
    }

    def data(self, rows: int, point: Point) -> Columns:
        return Columns(Recipe(rows), point["dimensions"])

    def rows_of(self, rows: int) -> int:
        return rows // 10

    def runners(self, point: Point) -> tuple[Runner, ...]:
        function, n = getattr(agg, point["aggregate"]), point["window"]
        return (
            Runner("together", "rows", lambda columns: together(columns, function, n)),
            Runner("apart", "rows", lambda columns: apart(columns, function, n)),
        )


def together(columns: dict[str, NDArray[Any]], function: Any, n: int) -> NDArray[Any]:
    window = mta.Window({name: function(name) for name in columns}, mta.last(n))
    answers: NDArray[Any] = window.push(**columns)[0]
    return answers


def apart(columns: dict[str, NDArray[Any]], function: Any, n: int) -> NDArray[Any]:
    answers = [mta.Window(function(name), mta.last(n)).push(x) for name, x in columns.items()]
    first: NDArray[Any] = answers[0]
    return first
