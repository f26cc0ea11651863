"""Windows by a policy and by an algorithm, over arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import WINDOWS, Axes, Point, Runner, Subject
from mta import agg, fifo

MAXIMUM = agg.monoid(lift=lambda x: x, combine=lambda a, b: a if a > b else b, zero=-np.inf)


@dataclass(frozen=True)
class Column:
    """The values alone."""

    recipe: Recipe

    def spiked(self) -> Column:
        return Column(self.recipe.spiked())

    def frame(self, kind: str) -> NDArray[Any]:
        return np.abs(self.recipe.frame("arrays")["x"])


class Policies(Subject):
    place = 17
    title = "Policies: fifo.AMTA over an array, one row at a time"
    note = (
        "slide: `slide(x, N)`. last: `slide_while(x, mta.last(N))`. max: the same and "
        "`mta.since_max()`. function: what `mta.last` does, as a function that numba compiles "
        "(through Python where that is missing). user: `slide` with a maximum of one's own, "
        "compiled alike."
    )
    axes: ClassVar[Axes] = {"window": WINDOWS}

    def data(self, rows: int, point: Point) -> Column:
        return Column(Recipe(rows))

    def rows_of(self, rows: int) -> int:
        return rows // 4

    def runners(self, point: Point) -> tuple[Runner, ...]:
        n = point["window"]
        return (
            Runner("slide", "rows", lambda x: fifo.AMTA(agg.max("x")).slide(x, n)),
            Runner("last", "rows", lambda x: by_policies(x, mta.last(n))),
            Runner("max", "rows", lambda x: by_policies(x, mta.last(n), mta.since_max())),
            Runner("function", "rows", lambda x: by_function(x, n)),
            Runner("user", "rows", lambda x: fifo.AMTA(MAXIMUM("x")).slide(x, n)),
        )

    def setup(self, *params: Any) -> None:
        by_function(np.ones(3), 2)  # compiling is not counted
        fifo.AMTA(MAXIMUM("x")).slide(np.ones(3), 2)
        super().setup(*params)


def by_policies(x: NDArray[Any], *policies: Any) -> NDArray[Any]:
    answers: NDArray[Any] = fifo.AMTA(agg.max("x")).slide_while(x, *policies)
    return answers


def keeps(total: Any, old: Any) -> bool:
    """Row limits travel with the rows: a function that is compiled reads no changing global."""
    return bool(total.n - old.n >= total.limit)


def by_function(x: NDArray[Any], n: int) -> NDArray[Any]:
    aggs = {"n": agg.count(), "limit": agg.max("limit"), "top": agg.max("x")}
    answers: NDArray[Any] = mta.Window(aggs, keeps).push(x=x, limit=np.full(len(x), float(n))).top
    return answers
