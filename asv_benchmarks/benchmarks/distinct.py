"""How many different values the last stretch of time holds, and the most frequent of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import mta
from asv_benchmarks.data import Recipe
from asv_benchmarks.peers import LIBRARIES
from asv_benchmarks.suite import Axes, Point, Runner, Subject, duel
from mta import agg

WINDOWS = (16, 2**10)  # duckdb and polars look at every row of every window, or nearly
VALUES = ("of 100", "of 1M", "skewed")


@dataclass(frozen=True)
class Visits:
    """Times, and whole numbers drawn evenly from 0..100 or 0..1M, or those below 1M with a
    probability that falls as 1/value."""

    rows: int
    values: str

    def spiked(self) -> Visits:
        """Whole numbers have no digits to lose."""
        return self

    def frame(self, kind: str) -> Any:
        rng = np.random.default_rng(2018)
        if self.values == "skewed":
            values = np.exp(rng.random(self.rows) * np.log(1e6)).astype(np.int64)
        else:
            values = rng.integers(0, {"of 100": 100, "of 1M": 10**6}[self.values], self.rows)
        columns = {"ts": Recipe(self.rows).frame("arrays")["ts"], "x": values}
        return LIBRARIES[kind].DataFrame(columns)


class Distinct(Subject):
    place = 10
    title = "Different values in time windows that hold about N rows (count_distinct)"
    axes: ClassVar[Axes] = {"aggregate": ("count_distinct",), "values": VALUES, "window": WINDOWS}

    def data(self, rows: int, point: Point) -> Visits:
        return Visits(rows, point["values"])

    def rows_of(self, rows: int) -> int:
        return rows // 4

    def runners(self, point: Point) -> tuple[Runner, ...]:
        span = point["window"]
        spec = mta.rolling(f"{span}ms", on="ts").agg(agg.count_distinct("x"))
        return (
            *duel(
                "pandas", "pandas", spec, lambda df: df.rolling(f"{span}ms", on="ts")["x"].nunique()
            ),
            *duel("polars", "polars", spec, lambda df: by_polars(df, span)),
            Runner("duckdb", "pandas", lambda df: by_duckdb(df, "count(DISTINCT x)", span)),
        )


class Mode(Subject):
    place = 11
    title = "The most frequent value in time windows that hold about N rows (mode)"
    note = "pandas, polars and bottleneck have no rolling mode."
    axes: ClassVar[Axes] = {"aggregate": ("mode",), "values": VALUES, "window": WINDOWS}

    def data(self, rows: int, point: Point) -> Visits:
        return Visits(rows, point["values"])

    def rows_of(self, rows: int) -> int:
        return rows // 4

    def runners(self, point: Point) -> tuple[Runner, ...]:
        span = point["window"]
        spec = mta.rolling(f"{span}ms", on="ts").agg(agg.mode("x"))
        return duel("duckdb", "pandas", spec, lambda df: by_duckdb(df, "mode(x)", span))


def by_polars(df: Any, span: int) -> Any:
    column = LIBRARIES["polars"].col("x")
    return df.rolling("ts", period=f"{span}ms").agg(column.n_unique())


def by_duckdb(df: Any, what: str, span: int) -> Any:
    """(t - span, t], as the others have it; times are whole microseconds."""
    before = f"INTERVAL {1000 * span - 1} MICROSECONDS PRECEDING"
    with LIBRARIES["duckdb"].connect(config={"threads": 1}) as connection:
        connection.register("visits", df)
        query = f"SELECT {what} OVER (ORDER BY ts RANGE {before}) AS answer FROM visits ORDER BY ts"
        return connection.execute(query).fetchnumpy()
