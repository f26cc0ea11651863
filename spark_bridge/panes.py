"""Windows of panes that Spark has aggregated: its own partial aggregation before the shuffle.

A window by number is made of panes, pieces of time of one length. Where an aggregate of a window is
an aggregate of those of its panes, free of the order of rows and exact (counts, sums and means of
integers, extremes), Spark makes the panes and we make the windows, by the same kernels: of counts a
sum, of least values the least. Sums of floats are not among them: Spark's are rounded at every step
in the order of rows, ours once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta import aggregates as agg
from mta.functions import Aggregate
from mta.periodic import Periodic
from mta.plan import Output, make_plan
from spark_bridge.pane_axis import PaneAxis, no_pane_axis

Ints = NDArray[np.int64]
Fields = dict[str, T.StructField]

_LOW = 32  # bits of the lower half of a sum
_WHOLE = (T.IntegralType, T.BooleanType)
FLOATS = (T.FloatType, T.DoubleType)


# ---- which specs -----------------------------------------------------------------------------


def no_panes(spec: Periodic, schema: T.StructType) -> str | None:
    """Why Spark can't make the panes of these windows; None: it can."""
    fields = {field.name: field for field in schema.fields}
    return no_pane_axis(spec) or _no_native(spec, fields)


def _no_native(spec: Periodic, fields: Fields) -> str | None:
    for output in make_plan(spec.asked, 0).outputs:
        kinds = [fields[column].dataType for column in output.aggregate.columns]
        why = _no_native_part(output, kinds)
        if why is not None:
            return f"{output.name}: {why}"
    return None


def _no_native_part(output: Output, kinds: list[T.DataType]) -> str | None:
    state, shown = output.state, repr(output.aggregate)
    if state is None:
        return None
    if state.name not in ("sum", "min", "max"):
        return f"{shown} is not made of one number for each pane"
    if isinstance(kinds[0], T.NullType):
        return f"{shown} is over a column of nothing but nulls"
    if state.name != "sum":
        return None
    if not isinstance(kinds[0], _WHOLE):
        return f"{shown}: Spark's sum of floats is rounded at every step"
    return f"{shown} does not raise" if state.overflow != "raise" else None


# ---- what a pane has, a window of panes, and its answer --------------------------------------


@dataclass(frozen=True)
class Lowered:
    """An answer of a window by the names of what its panes were aggregated to.

    kind : "count", "sum", "mean" or "own"
    values : of a sum or mean: one name, or those of its lower and upper half
    count : of the values, where fewer than `need` make it null
    """

    name: str
    kind: str
    values: tuple[str, ...]
    count: str | None
    need: int


class PanePlan:
    """From a spec to what Spark aggregates for each pane, the spec of windows over panes, and from
    its answers to those that were asked."""

    def __init__(self, spec: Periodic, schema: T.StructType) -> None:
        self.asked = spec
        self.fields = {field.name: field for field in schema.fields}
        self._known: dict[tuple[str, str, bool], str] = {}
        self.native: dict[str, Callable[[Column], Column]] = {}
        self.columns: dict[str, str | None] = {}  # that Spark aggregates; None: any row
        self.level: dict[str, Aggregate] = {}
        outputs = make_plan(spec.asked, 0).outputs
        self.lowered = [self._lowered(output) for output in outputs]
        earlier = PaneAxis.of(spec, self.fields[str(spec.on)].dataType).right
        closed = "left" if earlier else spec.closed
        self.spec = replace(spec, closed=closed, aggs=tuple(self.level.items()))

    def _lowered(self, output: Output) -> Lowered:
        aggregate = output.aggregate
        if output.state is None:
            count = self._count(aggregate)
            return Lowered(output.name, "count", (count,), count, output.need)
        if output.state.name == "sum":
            values = self._sum(str(aggregate.column))
            counted = aggregate.fn == "mean" or output.need > 0
            count = self._count(aggregate) if counted else ""
            return Lowered(output.name, aggregate.fn, values, count or None, output.need)
        value = self._extreme(output.state.name, aggregate)
        counted = output.need > 1  # of none it is null anyway
        return Lowered(
            output.name, "own", (value,), self._count(aggregate) if counted else None, output.need
        )

    def _part(
        self, kind: str, column: str | None, skip: bool, native: Callable[[Column], Column],
        level: Callable[[str], Aggregate],
    ) -> str:  # fmt: skip
        key = (kind, column or "", skip)
        name = self._known.setdefault(key, f"\0{len(self._known)}")
        if name not in self.native:
            self.native[name], self.columns[name] = native, column
            self.level[name] = level(name)
        return name

    def _skips(self, aggregate: Aggregate) -> bool:
        kind = self.fields[str(aggregate.column)].dataType
        return aggregate.nan == "skip" and isinstance(kind, FLOATS)

    def _count(self, aggregate: Aggregate) -> str:
        if aggregate.column is None:
            return self._part("rows", None, False, lambda c: F.count(F.lit(1)), agg.sum)
        skip = self._skips(aggregate)
        native = (lambda c: F.count(F.when(~F.isnan(c), c))) if skip else F.count
        return self._part("count", aggregate.column, skip, native, agg.sum)

    def _sum(self, column: str) -> tuple[str, ...]:
        """The sum of a column, or of long integers its halves, which can't overflow."""
        if not isinstance(self.fields[column].dataType, T.LongType):
            whole = self._part("sum", column, False, lambda c: F.sum(c.cast("bigint")), agg.sum)
            return (whole,)
        low = self._part("low", column, False, _lower_half, agg.sum)
        high = self._part("high", column, False, lambda c: F.sum(F.shiftright(c, _LOW)), agg.sum)
        return low, high

    def _extreme(self, state: str, aggregate: Aggregate) -> str:
        column = str(aggregate.column)
        nan, floats = aggregate.nan, isinstance(self.fields[column].dataType, FLOATS)
        native: Callable[[Column], Column] = F.min if state == "min" else F.max
        if floats:
            native = _float_extreme(state, nan)
        level = agg.min if state == "min" else agg.max
        return self._part(
            f"{state} {nan}", column, False, native, lambda name: level(name, nan=nan)
        )

    # ------------------------------------------------------------------------- the answers

    def lower(self, table: pa.Table) -> pa.Table:
        """The answers that were asked, of the windows of panes."""
        names = [*self.asked.by, "start", "end"]
        columns = [table.column(name) for name in names]
        for lowered in self.lowered:
            names.append(lowered.name)
            columns.append(_answer(lowered, table))
        return pa.Table.from_arrays(columns, names=names)

    def __getstate__(self) -> dict[str, Any]:
        """Workers only lower: what Spark aggregates stays behind."""
        return {"asked": self.asked, "lowered": self.lowered, "spec": self.spec}


def _lower_half(c: Column) -> Column:
    return F.sum(c.bitwiseAND(F.lit((1 << _LOW) - 1)))


def _float_extreme(state: str, nan: str) -> Callable[[Column], Column]:
    """The least or greatest float as ours: -0.0 below 0.0, and NaN as the aggregate wants it."""

    def native(c: Column) -> Column:
        numbers = F.when(~F.isnan(c), c) if nan == "skip" else c
        if nan == "propagate" and state == "min":
            numbers = F.when(~F.isnan(c), c)
        found = F.min(numbers) if state == "min" else F.max(numbers)
        # To Spark the two zeros are one; which of them it finds depends on the order of rows.
        wanted = F.lit("-0.0" if state == "min" else "0.0")
        zero = F.max(F.when((c == F.lit(0.0)) & (c.cast("string") == wanted), c))
        made = F.when(found == F.lit(0.0), F.coalesce(zero, found)).otherwise(found)
        if nan == "propagate" and state == "min":
            made = F.when(F.max(F.isnan(c)), F.lit(float("nan"))).otherwise(made)
        return made

    return native


def _answer(lowered: Lowered, table: pa.Table) -> Any:
    counts = None if lowered.count is None else _numbers(table, lowered.count)
    if lowered.kind in ("own", "count"):
        made = table.column(lowered.values[0])
    else:
        low, high = _halves(lowered, table)
        made = _sums(lowered, low, high, counts, table) if lowered.kind == "sum" else None
        if made is None:
            assert counts is not None
            made = pa.array(_means(low, high, counts))
    if counts is None or lowered.need <= 0:
        return made
    enough = pa.array(counts >= lowered.need)
    return pc.if_else(enough, made, pa.scalar(None, made.type))


def _numbers(table: pa.Table, name: str) -> Ints:
    values: Ints = table.column(name).to_numpy().astype(np.int64, copy=False)
    return values


def _halves(lowered: Lowered, table: pa.Table) -> tuple[Ints, Ints]:
    """The sum is high 2^32 + low, and 0 <= low < 2^32."""
    low = _numbers(table, lowered.values[0])
    high = low >> _LOW
    if len(lowered.values) > 1:
        high = high + _numbers(table, lowered.values[1])
    return low & ((1 << _LOW) - 1), high


def _sums(lowered: Lowered, low: Ints, high: Ints, counts: Ints | None, table: pa.Table) -> Any:
    wide = (high >= 2**31) | (high < -(2**31))
    if counts is not None:
        wide &= counts >= lowered.need
    if wide.any():
        row = int(np.flatnonzero(wide)[0])
        end = table.column("end")[row].as_py()
        raise OverflowError(
            f"{lowered.name}: the sum over the window that ends at {end} does not fit in 64 bits; "
            "sum a float column, a shorter window, or with overflow='float'"
        )
    return pa.array((high << _LOW) + low)


def _means(low: Ints, high: Ints, counts: Ints) -> NDArray[np.float64]:
    """Sums by counts, correctly rounded; of none, any."""
    divisors = np.maximum(counts, 1)
    small = (high >= -(2**20)) & (high < 2**20)  # and so the sum has 53 bits
    made: NDArray[np.float64] = (np.where(small, high, 0) * 2**_LOW + low) / divisors
    for row in np.flatnonzero(~small).tolist():
        made[row] = ((int(high[row]) << _LOW) + int(low[row])) / int(divisors[row])
    return made
