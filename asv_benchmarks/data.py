"""The inputs: random rows, the same for everyone, in the kind of frame that each takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asv_benchmarks.peers import LIBRARIES

KEYS = 1000
SPIKE = 1e16
LATENESS = 1000


@dataclass(frozen=True)
class Recipe:
    """How rows are made; equal recipes give equal rows.

    rows : how many, with values of 0 to 100 and times 1 ms apart on average (exponential gaps)
    order : "sorted"; "late" (every row late by up to 1,000 rows); "shuffled"
    keys : "" for no key column; "int" or "string" for one of 1,000 keys drawn at random
    nulls : share of the values that are missing
    spike : whether one value, a quarter of the way, is 1e16
    """

    rows: int
    order: str = "sorted"
    keys: str = ""
    nulls: float = 0.0
    spike: bool = False

    def frame(self, kind: str) -> Any:
        """The rows as "arrays" (a dict), a "pandas" or a "polars" DataFrame."""
        return _frame(self, kind)

    def spiked(self) -> Recipe:
        """The same with a spike."""
        return replace(self, spike=True)


@lru_cache(maxsize=4)
def _frame(recipe: Recipe, kind: str) -> Any:
    columns = _columns(recipe)
    if kind == "arrays":
        return columns
    if kind == "pandas":
        return LIBRARIES["pandas"].DataFrame(columns)
    if kind == "polars":
        return _polars(recipe, columns)
    raise ValueError(f"no frame of kind {kind!r}")


def _polars(recipe: Recipe, columns: dict[str, NDArray[Any]]) -> Any:
    pl = LIBRARIES["polars"]
    frame = pl.DataFrame(columns).with_columns(pl.col("x").fill_nan(None))
    if recipe.order == "sorted":  # as it would know after a sort
        frame = frame.with_columns(pl.col("ts").set_sorted())
    return frame


@lru_cache(maxsize=4)
def _columns(recipe: Recipe) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(2018)
    columns: dict[str, NDArray[Any]] = {
        "ts": _times(recipe.rows, rng).view("M8[us]"),
        "x": _values(recipe, rng),
    }
    if recipe.keys:
        numbers = rng.integers(0, KEYS, recipe.rows)
        names = np.array([f"customer-{k:05}" for k in range(KEYS)], dtype=object)
        columns["key"] = numbers if recipe.keys == "int" else names[numbers]
    order = _order(recipe, rng)
    return columns if order is None else {name: data[order] for name, data in columns.items()}


def _times(rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Microseconds. No two are equal: libraries differ in what equal times see of each other."""
    times: NDArray[np.int64] = np.cumsum(1 + rng.exponential(999, rows).astype(np.int64))
    return times


def _values(recipe: Recipe, rng: np.random.Generator) -> NDArray[np.float64]:
    values = 100 * rng.random(recipe.rows)
    if recipe.nulls:
        values[rng.random(recipe.rows) < recipe.nulls] = np.nan
    if recipe.spike:
        values[recipe.rows // 4] = SPIKE
    return values


def _order(recipe: Recipe, rng: np.random.Generator) -> NDArray[np.int64] | None:
    if recipe.order == "sorted":
        return None
    if recipe.order == "shuffled":
        return rng.permutation(recipe.rows)
    arrival = np.arange(recipe.rows) + rng.integers(0, LATENESS, recipe.rows)
    return np.argsort(arrival, kind="stable")
