"""Hopping windows of 50 keys, in batch and pushed: hours long, one every second or ten."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import mta
from asv_benchmarks.data import SPIKE
from asv_benchmarks.peers import LIBRARIES
from asv_benchmarks.suite import US, Axes, Point, Runner, Subject, duel
from mta import agg

KEYS = 50
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class KeyedSeconds:
    """Rows in order of time, of each key one a second on average."""

    rows: int
    spike: bool = False

    def spiked(self) -> KeyedSeconds:
        return replace(self, spike=True)

    def frame(self, kind: str) -> Any:
        return _frame(self, kind)


@lru_cache(maxsize=4)
def _frame(data: KeyedSeconds, kind: str) -> Any:
    rng = np.random.default_rng(2008)
    gaps = 1 + rng.exponential(1e6 / KEYS, data.rows).astype(np.int64)
    x = 100 * rng.random(data.rows)
    if data.spike:
        x[data.rows // 4] = SPIKE
    ts = np.cumsum(gaps).view("M8[us]")
    columns: Columns = {"ts": ts, "key": rng.integers(0, KEYS, data.rows), "x": x}
    return columns if kind == "arrays" else LIBRARIES[kind].DataFrame(columns)


class _Keyed(Subject):
    """What the two subjects share; the windows are `window` seconds long."""

    per_row = False

    def data(self, rows: int, point: Point) -> KeyedSeconds:
        return KeyedSeconds(rows)

    def rows_of(self, rows: int) -> int:
        """polars reads every row once for every window that holds it."""
        return rows // 8

    def fits(self, rows: int, point: Point) -> bool:
        """Windows that are longer than the data close one by one at its end."""
        return True

    def answers(self, runner: Runner, result: Any) -> NDArray[np.float64]:
        """In order of keys and of time, for a comparison: nobody promises one order."""
        if not isinstance(result, dict):
            result = {name: np.asarray(result[name]) for name in ("key", "start", "x")}
        order = np.lexsort((result["start"], result["key"]))
        return np.asarray(result["x"], np.float64)[order]


Subject.registry.remove(_Keyed)


def windows(point: Point) -> Any:
    return mta.hopping(f"{point['window']}s", f"{point['slide']}s", on="ts", by="key")


class HoppingKeys(_Keyed):
    place = 15
    title = "Sums of hopping windows by key: N seconds, an answer a slide and key"
    note = (
        f"{KEYS} keys, of each one row a second on average. pandas: a grid of sums by key and "
        "slide, rolled (it forgets digits after large values)."
    )
    axes: ClassVar[Axes] = {"slide": (1, 10), "window": (3600, 86_400)}

    def runners(self, point: Point) -> tuple[Runner, ...]:
        length, slide = point["window"], point["slide"]
        spec = windows(point).agg(x=agg.sum("x"))
        return (
            *duel("polars", "polars", spec, lambda df: by_polars(df, length, slide)),
            *duel("pandas", "pandas", spec, lambda df: by_pandas(df, length, slide)),
        )


class HoppingPushed(_Keyed):
    place = 16
    title = "The same windows pushed by batches of B rows, answers when they are complete"
    note = "batch: the same spec over all rows at once."
    axes: ClassVar[Axes] = {
        "slide": (1, 10),
        "window": (3600, 86_400),
        "B": (1000, 10_000, 100_000),
    }

    def runners(self, point: Point) -> tuple[Runner, ...]:
        spec = windows(point).watermark("5s").agg(x=agg.sum("x"))
        batch = point["B"]
        return (
            Runner("batch", "arrays", spec),
            Runner(US, "arrays", lambda columns: push(spec, columns, batch)),
        )


def push(spec: Any, columns: Columns, batch: int) -> Columns:
    op, rows = spec.stream(), len(columns["ts"])
    parts = [
        op.push({name: column[i : i + batch] for name, column in columns.items()})
        for i in range(0, rows, batch)
    ]
    parts.append(op.finish())
    return {name: np.concatenate([p[name] for p in parts]) for name in ("key", "start", "x")}


def by_polars(df: Any, length: int, slide: int) -> Any:
    pl = LIBRARIES["polars"]
    before = (length - 1) // slide * slide  # the first windows with a row start this much earlier
    groups = df.set_sorted("ts").group_by_dynamic(
        "ts", every=f"{slide}s", period=f"{length}s", offset=f"-{before}s", group_by="key"
    )
    return groups.agg(pl.col("x").sum()).rename({"ts": "start"})


def by_pandas(df: Any, length: int, slide: int) -> Any:
    """Sums of panes, of which windows are made, and of as many as make a window."""
    pd = LIBRARIES["pandas"]
    pane = gcd(length, slide)
    number = df["ts"].astype("M8[s]").astype("int64") // pane
    grid = df["x"].groupby([number, df["key"]]).sum().unstack()
    panes = length // pane
    grid = grid.reindex(range(number.iloc[0], number.iloc[-1] + panes))
    grid.index = (grid.index - panes + 1) * pane
    sums = grid.rolling(panes, min_periods=1).sum()[grid.index % slide == 0]
    made = sums.stack().dropna().rename("x").rename_axis(["start", "key"]).reset_index()
    return pd.DataFrame({**made, "start": made["start"].astype("M8[s]")})
