"""A key cut into slices of time, so that the rows of one key keep all cores busy.

A slice also gets the rows beside it that windows of its own rows reach: they are read there and
answered in the slice that they belong to. So a worker may see rows that one who reads the whole key
has seen long before, or never sees: aggregates whose last bits depend on rows that have left the
window are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta.durations import NANOSECONDS, Duration, parse_duration
from mta.errors import SpecError
from mta.plan import Output, make_plan
from mta.specs import Rolling
from spark_bridge.times import to_ticks, unit_of

# Columns beside the rows: which slice, and whether the row is answered there.
SLICE, MINE = "\0slice", "\0mine"
_LEAST, _MOST = -(2**63), 2**63 - 1
# States of which an answer is a function of the window alone, sums of floats aside.
_OF_WINDOW = ("min", "max", "ends", "arg", "list", "tally", "ranks", "runs")
_WHOLE = (T.IntegralType, T.BooleanType)


@dataclass(frozen=True)
class Slices:
    """Slices of one length, in ticks of the time column.

    before, after : rows whose windows may reach a row of time t have times from t + before to
        t + after
    """

    length: int
    before: int
    after: int

    @staticmethod
    def of(specs: Sequence[Rolling], schema: T.StructType, slices: object) -> Slices:
        """Slices that serve all these specs.

        Raises
        ------
        SpecError
            There are none, or an answer's bits would depend on them.
        """
        fields = {field.name: field for field in schema.fields}
        for spec in specs:
            _check(spec, fields)
        unit, shown = _TICKS[unit_of(fields[str(specs[0].on)].dataType)]
        length = parse_duration(slices, "slices")
        if length.amount <= 0 or length.ticks != (unit == 0) or length.amount % max(unit, 1):
            raise SpecError(
                f"slices: column {specs[0].on!r} takes a length of whole {shown}, from 1 on, not "
                f"{slices!r}"
            )
        reach = [_reach(spec, max(unit, 1)) for spec in specs]
        before, after = min(r[0] for r in reach), max(r[1] for r in reach)
        return Slices(length.amount // max(unit, 1), before, after)

    def mark(self, specs: Sequence[Rolling], sdf: DataFrame) -> tuple[list[Rolling], DataFrame]:
        """Specs that keep slices apart, and the rows, each in all slices that have to see it."""
        place = sdf.columns.index(str(specs[0].on))
        names = [f"c{i}" for i in range(len(sdf.columns))]
        ticks = to_ticks(F.col(names[place]), sdf.schema.fields[place].dataType)
        ticks = F.coalesce(ticks, F.lit(0).cast("bigint"))  # a worker finds that it is null
        slices = F.sequence(self._at(_plus(ticks, self.before)), self._at(_plus(ticks, self.after)))
        rows = sdf.toDF(*names).select("*", F.explode(slices).alias("slice"))
        rows = rows.select("*", (F.col("slice") == self._at(ticks)).alias("mine"))
        apart = [replace(spec, by=(*spec.by, SLICE)) for spec in specs]
        return apart, rows.toDF(*sdf.columns, SLICE, MINE)

    def _at(self, ticks: Column) -> Column:
        """The number of the slice that holds a time: the quotient, rounded down."""
        length = F.lit(self.length).cast("bigint")
        below = F.when(ticks % length < 0, 1).otherwise(0)
        return F.call_function("div", ticks, length) - below


def _plus(ticks: Column, length: int) -> Column:
    """A time later or earlier by a length; beyond 64 bits, the last or first one."""
    beyond = F.lit(_MOST if length > 0 else _LEAST).cast("bigint")
    length = max(_LEAST, min(length, _MOST))
    return F.coalesce(F.try_add(ticks, F.lit(length).cast("bigint")), beyond)


# Nanoseconds of a tick, and how people call several of them.
_TICKS = {
    "d": (NANOSECONDS["d"], "days"),
    "us": (NANOSECONDS["us"], "microseconds"),
    "i": (0, "ticks, like '3600i'"),
}


def _reach(spec: Rolling, unit: int) -> tuple[int, int]:
    """From the time of a row, which times those rows may have whose windows it is in, in ticks."""
    assert isinstance(spec.range, Duration)
    lag = spec.lag.amount if isinstance(spec.lag, Duration) else 0
    first, last = min(lag, 0), max(lag + spec.range.amount, 0)
    return first // unit, -(-last // unit)


def _check(spec: Rolling, fields: dict[str, T.StructField]) -> None:
    if not isinstance(spec.range, Duration) or spec.on is None:
        raise SpecError(
            f"slices: a window of rows, or one without a start, reaches beyond any time: {spec!r}"
        )
    if spec.every is not None:
        raise SpecError(f"slices: rows are counted from a key's first one: {spec!r}")
    for output in make_plan(spec.asked, spec.min_periods or 0).outputs:
        kinds = [fields[name].dataType for name in output.aggregate.columns]
        if not _is_of_window(output, kinds):
            exact = "; numerics='exact' does not" if output.aggregate.fn in ("sum", "mean") else ""
            raise SpecError(
                f"slices: {output.name}: the last bits of {output.aggregate!r} may depend on rows "
                f"that have left the window, which other slices have{exact}"
            )


def _is_of_window(output: Output, kinds: list[T.DataType]) -> bool:
    """Whether an answer depends on nothing but the rows of its window, in their order."""
    state = output.state
    if state is None or state.name in _OF_WINDOW:
        return True
    return state.name == "sum" and (state.numerics == "exact" or isinstance(kinds[0], _WHOLE))
