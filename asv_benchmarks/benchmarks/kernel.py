"""The compiled kernels alone, over arrays that are already there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import WINDOWS, Axes, Point, Runner, Subject
from mta._bounds import RowBounds
from mta._core import Forest
from mta._extremes import ExtremesKernel
from mta._kernel import Counter, slide
from mta._kernel import Kernel as BatchKernel
from mta._spreads import SpreadKernel
from mta._sum_blocks import CompensatedSumKernel
from mta._widesums import WideSumKernel

# monoid and type of the values, by what is asked
KERNELS = {
    "sum": ("sum", "float"),
    "mean": ("sum", "float"),
    "max": ("max", "float"),
    "std": ("moments", "float"),
    "int sum": ("sum", "int"),
}


@dataclass(frozen=True)
class Bounds:
    """What a kernel takes: the values and every row's window; and where its answers go."""

    recipe: Recipe
    window: int
    source: str

    def spiked(self) -> Bounds:
        return Bounds(self.recipe.spiked(), self.window, self.source)

    def frame(self, kind: str) -> tuple[NDArray[Any], ...]:
        values = self.recipe.frame("arrays")["x"]
        if self.source == "int":
            values = values.astype(np.int64)
        bounds = RowBounds(np.array([0, len(values)]), 1 - self.window, 1)
        return values, bounds, *bounds.arrays(), np.empty_like(values)


class Kernel(Subject):
    place = 7
    title = "Kernels alone: the last N rows"
    note = (
        "forest: Forest.slide, the structure that every window pushed or streamed is made of "
        "(evict, insert and answer a row), over bounds that are there. batch: the kernel that "
        "whole calls on frames use, bounds included."
    )
    axes: ClassVar[Axes] = {"aggregate": tuple(KERNELS), "window": WINDOWS}

    def data(self, rows: int, point: Point) -> Bounds:
        return Bounds(Recipe(rows), point["window"], KERNELS[point["aggregate"]][1])

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate = point["aggregate"]
        return (
            Runner("forest", "bounds", lambda frame: slide_forest(aggregate, *frame)),
            Runner("batch", "bounds", lambda frame: slide_batch(aggregate, *frame)),
        )


def slide_forest(
    aggregate: str,
    values: NDArray[Any],
    _bounds: RowBounds,
    lo: NDArray[Any],
    hi: NDArray[Any],
    out: NDArray[Any],
) -> NDArray[Any]:
    forest = Forest(*KERNELS[aggregate])
    forest.slide(values, None, 0, lo, hi, None, outputs(aggregate, out))
    return out


def slide_batch(
    aggregate: str,
    values: NDArray[Any],
    bounds: RowBounds,
    _lo: NDArray[Any],
    _hi: NDArray[Any],
    out: NDArray[Any],
) -> NDArray[Any]:
    kernel = make_kernel(aggregate)
    kernel.attach([values], None, 0)
    kernel.answer_to([out])
    slide(bounds, [], [kernel])
    return out


def make_kernel(aggregate: str) -> BatchKernel:
    counter, (monoid, source) = Counter([]), KERNELS[aggregate]
    if monoid == "max":
        return ExtremesKernel(counter, monoid, source, "propagate", [("max", 0)])
    if monoid == "moments":
        return SpreadKernel(counter, source, [("std", 1)])
    if source == "int":
        return WideSumKernel(counter, source, [("sum", 0)], "raise")
    return CompensatedSumKernel(counter, [(aggregate, 0)])


def outputs(aggregate: str, out: NDArray[Any]) -> list[tuple[str, int, NDArray[Any]]]:
    """One answer, with one delta degree of freedom, into `out`."""
    return [(aggregate.rpartition(" ")[2], 1, out.view(np.int64))]
