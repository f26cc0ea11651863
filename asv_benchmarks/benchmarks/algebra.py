"""Higher powers, pairs of columns and products over the last N rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.peers import LIBRARIES
from asv_benchmarks.suite import WINDOWS, Axes, Point, Runner, Subject, duel
from mta import agg

LEAST = 4  # values that all answers need: libraries differ in what they make of fewer

AGGREGATES = {
    "skew": agg.skew("x", min_count=LEAST),
    "kurt": agg.kurt("x", min_count=LEAST),
    "cov": agg.cov("x", "y", min_count=LEAST),
    "corr": agg.corr("x", "y", min_count=LEAST),
    "weighted_mean": agg.weighted_mean("x", "y", min_count=LEAST),
    "geometric_mean": agg.geometric_mean("x", min_count=LEAST),
}


@dataclass(frozen=True)
class Pairs:
    """The rows of a recipe, and y beside x: half of it is x, half of it is not."""

    recipe: Recipe

    def spiked(self) -> Pairs:
        return Pairs(self.recipe.spiked())

    def frame(self, kind: str) -> Any:
        return _frame(self, kind)


@lru_cache(maxsize=4)
def _frame(pairs: Pairs, kind: str) -> Any:
    data, x = pairs.recipe.frame(kind), pairs.recipe.frame("arrays")["x"]
    y: NDArray[np.float64] = 0.5 * x + 50 * np.random.default_rng(1997).random(len(x))
    if kind == "pandas":
        return data.assign(y=y)
    if kind == "polars":
        return data.with_columns(LIBRARIES["polars"].Series("y", y))
    return {**data, "y": y}


class Algebra(Subject):
    place = 8
    title = "Higher powers, pairs of columns and products: the last N rows"
    note = (
        "Weighted and geometric means of the peers are written by hand, from running sums. All are "
        f"told to answer from {LEAST} values on."
    )
    axes: ClassVar[Axes] = {"aggregate": tuple(AGGREGATES), "window": WINDOWS}

    def data(self, rows: int, point: Point) -> Pairs:
        return Pairs(Recipe(rows))

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, window = point["aggregate"], point["window"]
        spec = mta.rolling(window).agg(AGGREGATES[aggregate])
        return (
            *duel("pandas", "pandas", spec, lambda df: by_pandas(df, aggregate, window)),
            *duel("polars", "polars", spec, lambda df: by_polars(df, aggregate, window)),
        )


def by_pandas(df: Any, aggregate: str, window: int) -> Any:
    x, y = df["x"], df["y"]

    def rolling(column: Any) -> Any:
        return column.rolling(window, min_periods=LEAST)

    if aggregate == "weighted_mean":
        return rolling(x * y).sum() / rolling(y).sum()
    if aggregate == "geometric_mean":
        return np.exp(rolling(np.log(x)).mean())
    return getattr(rolling(x), aggregate)(*([y] if aggregate in ("cov", "corr") else []))


def by_polars(df: Any, aggregate: str, window: int) -> Any:
    pl = LIBRARIES["polars"]
    x, y, filled = pl.col("x"), pl.col("y"), {"min_samples": LEAST}
    if aggregate in ("skew", "kurt"):
        name = {"skew": "rolling_skew", "kurt": "rolling_kurtosis"}[aggregate]
        return df.select(getattr(x, name)(window, bias=False, **filled))
    if aggregate in ("cov", "corr"):
        both = getattr(pl, f"rolling_{aggregate}")
        return df.select(both("x", "y", window_size=window, **filled))
    if aggregate == "weighted_mean":
        sums = (x * y).rolling_sum(window, **filled), y.rolling_sum(window, **filled)
        return df.select(sums[0] / sums[1])
    return df.select(x.log().rolling_mean(window, **filled).exp())
