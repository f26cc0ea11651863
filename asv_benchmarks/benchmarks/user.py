"""A user's own maximum beside the built-in one: the kernels alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from asv_benchmarks.data import Recipe
from asv_benchmarks.suite import WINDOWS, Axes, Point, Runner, Subject
from mta._bounds import RowBounds
from mta._extremes import ExtremesKernel
from mta._kernel import Counter, Kernel, slide
from mta.monoids import UserMonoid, answer_array, make_user_kernel

Frame = tuple[NDArray[Any], RowBounds]

MAXIMUM = UserMonoid(lambda x: x, lambda a, b: a if a > b else b, None, -np.inf, "max")


@dataclass(frozen=True)
class Rows:
    """The values and every row's window."""

    recipe: Recipe
    window: int

    def spiked(self) -> Rows:
        return Rows(self.recipe.spiked(), self.window)

    def frame(self, kind: str) -> Frame:
        values = self.recipe.frame("arrays")["x"]
        return values, RowBounds(np.array([0, len(values)]), 1 - self.window, 1)


class UserMonoids(Subject):
    place = 8
    title = "User monoids: the maximum of the last N rows"
    note = (
        "built-in: agg.max. compiled: the same written by a user, compiled by numba (through "
        "Python where that is missing). Python: the same without numba. Kernels alone; compiling "
        "is not counted."
    )
    axes: ClassVar[Axes] = {"window": WINDOWS}

    def data(self, rows: int, point: Point) -> Rows:
        return Rows(Recipe(rows), point["window"])

    def runners(self, point: Point) -> tuple[Runner, ...]:
        return (
            Runner("built-in", "rows", lambda frame: answers(built_in(), "float", frame)),
            Runner("compiled", "rows", lambda frame: by_user(None, frame)),
            Runner("Python", "rows", lambda frame: by_user(False, frame)),
        )

    def setup(self, *params: Any) -> None:
        MAXIMUM.program(["float"])
        super().setup(*params)


def built_in() -> Kernel:
    return ExtremesKernel(Counter([]), "max", "float", "propagate", [("max", 1)])


def by_user(compiled: bool | None, frame: Frame) -> NDArray[Any]:
    kernel = make_user_kernel(MAXIMUM, Counter([]), ["float"], compiled=compiled)
    return answers(kernel, kernel.gives, frame)


def answers(kernel: Kernel, gives: str, frame: Frame) -> NDArray[Any]:
    values, bounds = frame
    out = answer_array(gives, len(values))
    kernel.attach([values], None, 0)
    kernel.answer_to([out])
    slide(bounds, [], [kernel])
    return out
