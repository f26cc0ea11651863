"""The last N rows, whole calls on the frame that people have."""

from __future__ import annotations

from typing import Any, ClassVar

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.peers import LIBRARIES
from asv_benchmarks.suite import AGGREGATES, WINDOWS, Axes, Point, Runner, Subject, duel
from mta import agg

# All answer windows that are not full yet, as we do.
PANDAS = {"min_periods": 1}
POLARS = {"min_samples": 1}
BOTTLENECK = {"min_count": 1}


class RowWindows(Subject):
    place = 1
    title = "Row windows: the last N rows"
    note = "Peers are told to answer windows that are not full yet (min_periods=1), as mta does."
    axes: ClassVar[Axes] = {"aggregate": AGGREGATES, "window": WINDOWS}

    def data(self, rows: int, point: Point) -> Recipe:
        return Recipe(rows)

    def runners(self, point: Point) -> tuple[Runner, ...]:
        aggregate, window = point["aggregate"], point["window"]
        return row_duels(aggregate, window, mta.rolling(window).agg(getattr(agg, aggregate)("x")))


def row_duels(
    aggregate: str, window: int, spec: Any, pandas_spec: Any = None
) -> tuple[Runner, ...]:
    """Us against pandas, polars and bottleneck over row windows.

    pandas_spec : what asks the same of frames whose missing values are NaN
    """
    of_nan = pandas_spec or spec
    return (
        *duel("pandas", "pandas", of_nan, lambda df: by_pandas(df, aggregate, window)),
        *duel("polars", "polars", spec, lambda df: by_polars(df, aggregate, window)),
        *duel("bottleneck", "arrays", of_nan, lambda data: by_bottleneck(data, aggregate, window)),
    )


def by_pandas(df: Any, aggregate: str, window: int) -> Any:
    return getattr(df["x"].rolling(window, **PANDAS), aggregate)()


def by_polars(df: Any, aggregate: str, window: int) -> Any:
    column = LIBRARIES["polars"].col("x")
    return df.select(getattr(column, f"rolling_{aggregate}")(window, **POLARS))


def by_bottleneck(data: Any, aggregate: str, window: int) -> Any:
    more = {"ddof": 1} if aggregate == "std" else {}
    move = getattr(LIBRARIES["bottleneck"], f"move_{aggregate}")
    return move(data["x"], window, **BOTTLENECK, **more)
