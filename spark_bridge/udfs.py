"""Functions for plans that people write themselves; `spark_bridge.apply` needs none of them.

What runs in Python, over Arrow or pandas:

- `partition`: for ``mapInArrow`` over partitions that are sorted; memory bounded by the window
- `group`: for ``applyInArrow`` and ``applyInPandas``; the whole group is in memory
- `aggregate_udf`: one aggregate, for ``groupBy().agg``, ``.over(window)`` and SQL
- `wids_udf`, `extent_udf`: the windows of a time, and where one lies, for SQL

What Spark computes itself, as columns: `wids`, `pane` and `extent`.

Answers are the doubles of ``spec(table)`` for the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas import functions
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

import mta
from mta._buckets import Extents
from mta._frames_arrow import arrow_column
from mta.buckets import find_extents, window_edges
from mta.engine import Ints, time_axis, time_values
from mta.errors import SpecError
from mta.functions import Aggregate
from mta.periodic import FIRST, Calendar, Landmark, Periodic
from mta.plan import make_plan
from mta.spec_arguments import check_choice
from mta.specs import Rolling, Spec
from spark_bridge.order import checked
from spark_bridge.periods import answer_periods
from spark_bridge.schemas import periodic_schema, rolling_schema
from spark_bridge.times import DAY
from spark_bridge.wid_columns import (
    check_numbered,
    edge_type,
    extent,
    hops,
    of_integers,
    pane,
    time_type,
    wids,
)
from spark_bridge.worker import answer_batches

__all__ = [
    "partition",
    "group",
    "aggregate_udf",
    "wids_udf",
    "extent_udf",
    "wids",
    "pane",
    "extent",
    "Made",
]

FORMS = ("arrow", "pandas")


class Made(NamedTuple):
    """A function and the schema of what it gives: ``sdf.mapInArrow(*made)``."""

    function: Callable[[Any], Any]
    schema: T.StructType


# ---- series to series: over sorted partitions, and over groups ---------------------------------


def partition(spec: Rolling | Periodic, schema: T.StructType) -> Made:
    """A spec over partitions that are sorted by its keys and time, for ``mapInArrow``.

    Parameters
    ----------
    spec : with aggregates; trailing, hopping, tumbling or calendar
    schema : of the DataFrame, whose columns have names without dots and backticks (``mapInArrow``
        reads these as syntax)

    Returns
    -------
    Made
        To be used as ``sdf.repartition("k").sortWithinPartitions("k", "ts").mapInArrow(*made)``.
        Rows of one key and time are answered in the order in which they stand.

    Raises
    ------
    ColumnError, DataError, SpecError
        As ``spark_bridge.apply``; or the windows depend on rows of other partitions.

    Notes
    -----
    A worker holds one Arrow batch and the rows of one window. A partition that turns out not to be
    sorted fails the job; that the rows of a key are all in one partition nobody checks.
    """
    made, names = _schema(spec, schema), list(schema.names)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = checked(spec, names, batches)
        if isinstance(spec, Periodic):
            return answer_periods(spec, names, rows)
        return answer_batches(spec, names, rows)

    return Made(run, made)


def group(spec: Rolling | Periodic, schema: T.StructType, form: str = "arrow") -> Made:
    """A spec over whole groups, for ``applyInArrow`` or ``applyInPandas``.

    Parameters
    ----------
    spec : with aggregates; trailing (without `every`), hopping, tumbling or calendar
    schema : of the DataFrame
    form : "arrow" for ``applyInArrow``; "pandas" for ``applyInPandas``, which makes NaN of nulls:
        both are nulls then

    Returns
    -------
    Made
        To be used as ``sdf.groupBy("k").applyInArrow(*made)``. Rows may stand in any order; those
        of one key and time count in the order in which they stand.

    Raises
    ------
    ColumnError, DataError, SpecError
        As ``spark_bridge.apply``; or the windows depend on rows of other groups; or "pandas" is
        asked for where its times, which are those of the session's clocks, are not those of UTC.

    Notes
    -----
    A worker holds a whole group, and each group is a call: of a few rows each, 0.04 M rows/s. For
    many small groups, or a large one, take `partition` or ``spark_bridge.apply``.
    """
    made = _schema(spec, schema)
    if isinstance(spec, Rolling) and spec.every is not None:
        raise SpecError("every: answers for some rows have none beside them; take partition()")
    kinds = [field.dataType for field in schema.fields if field.name == spec.on]
    _check_form(form, kinds)
    given = to_arrow_schema(made, timezone="UTC")
    plain = _naive(to_arrow_schema(schema, timezone="UTC"))

    def of_table(table: pa.Table) -> pa.Table:
        answers = spec(table)
        if isinstance(spec, Periodic):
            return _like(answers, given, table)
        for name in answers.column_names:
            table = table.append_column(name, answers.column(name))
        return table

    def of_frame(frame: pd.DataFrame) -> pd.DataFrame:
        return of_table(pa.Table.from_pandas(frame, plain, preserve_index=False)).to_pandas()

    return Made(of_table if form == "arrow" else of_frame, made)


def _like(answers: pa.Table, given: pa.Schema, table: pa.Table) -> pa.Table:
    """Edges of windows in the unit of Spark's times."""
    arrays = []
    for field, column in zip(given, answers.columns, strict=True):
        kind = field.type
        if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
            kind = pa.timestamp(kind.unit, column.type.tz)
        arrays.append(column.cast(kind) if pa.types.is_timestamp(kind) else column)
    return pa.Table.from_arrays(arrays, names=given.names)


def _naive(schema: pa.Schema) -> pa.Schema:
    """With times as pandas is given them."""
    return pa.schema([pa.field(field.name, _naive_type(field.type)) for field in schema])


def _naive_type(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind


def _schema(spec: Spec, schema: T.StructType) -> T.StructType:
    """Of what comes out."""
    if isinstance(spec, Rolling):
        if not spec.by_rank:
            raise SpecError("every_by: rows of a Spark DataFrame do not arrive in any order")
        return rolling_schema([spec], schema)
    if not isinstance(spec, Periodic):
        raise SpecError(f"spec: a window with .agg(...) is needed, not {spec!r}")
    if isinstance(spec, Landmark) or getattr(spec, "origin", None) == FIRST:
        raise SpecError("spec: its windows depend on all rows of all keys; use spark_bridge.apply")
    return periodic_schema(spec, schema)


def _check_form(form: str, kinds: list[T.DataType]) -> None:
    check_choice(form, "form", FORMS)
    if form == "arrow" or not any(isinstance(kind, T.TimestampType) for kind in kinds):
        return
    session = SparkSession.getActiveSession()
    zone = None if session is None else session.conf.get("spark.sql.session.timeZone")
    if zone not in ("UTC", "Etc/UTC", "Z", "GMT"):
        raise SpecError(
            "form: pandas is given times as the session's clocks show them, where an hour may come "
            f"twice ({zone}); take 'arrow', or set spark.sql.session.timeZone to UTC"
        )


# ---- one aggregate over the rows it is given ---------------------------------------------------


def aggregate_udf(aggregate: Aggregate, schema: T.StructType, form: str = "arrow") -> Any:
    """A grouped-aggregate UDF: any aggregate of `mta` over whatever rows Spark hands it.

    Parameters
    ----------
    aggregate : of one column or several, such as ``agg.weighted_mean("price", "volume")``
    schema : with these columns; their types decide that of the answer
    form : "arrow" (PySpark 4.1 or later) or "pandas", where NaN counts as null

    Returns
    -------
    A UDF to be called with the columns in the order of the aggregate, in ``groupBy().agg(...)`` and
    ``.over(window)``; or in SQL, after ``spark.udf.register("vwap", udf)``.

    Raises
    ------
    ColumnError, DataError, SpecError
        As ``spark_bridge.apply``; or the aggregate has no column.

    Notes
    -----
    **Over a bounded window Spark calls it once for every row, with all rows of that window**: 14 us
    a row and the whole window anew, 0.07 M rows/s at best, where ``spark_bridge.apply`` carries the
    window on (0.3 to 1.5 M rows/s, whatever the window's length). So use it for `groupBy`, for
    unbounded windows (one call a partition), and for small things. Float sums are rounded once, as
    those of windows by number.
    """
    if not aggregate.columns:
        raise SpecError(f"aggregate: {aggregate!r} has no column to be called with; name one")
    _check_form(form, [f.dataType for f in schema.fields if f.name in aggregate.columns])
    made = rolling_schema([mta.rolling(None).agg(**{"\0answer": aggregate})], schema).fields[-1]
    spec = mta.tumbling("1i", on="\0time").agg(answer=aggregate)
    names = list(dict.fromkeys(aggregate.columns))
    types = [_naive_type(to_arrow_type(schema[n].dataType, timezone="UTC")) for n in names]
    gives = to_arrow_type(made.dataType, timezone="UTC")
    nothing = _answer_of_nothing(aggregate)

    def of_arrays(*columns: pa.Array) -> Any:
        if not len(columns[0]):
            return pa.scalar(nothing, gives)
        times = pa.array(np.zeros(len(columns[0]), np.int64))
        table = pa.table([times, *columns], names=["\0time", *names])
        return spec(table).column("answer")[0].cast(gives)

    def of_series(*columns: pd.Series) -> Any:
        arrays = [pa.Array.from_pandas(c, type=t) for c, t in zip(columns, types, strict=True)]
        return of_arrays(*arrays).as_py()

    function = of_arrays if form == "arrow" else of_series
    return _udf(function, made.dataType, form)


def _answer_of_nothing(aggregate: Aggregate) -> int | None:
    """Of no rows a count and a sum are 0, where 0 values are enough; all else is null."""
    output = make_plan((("answer", aggregate),), 0).outputs[0]
    zero = output.state is None or aggregate.fn == "sum" or aggregate.fn == "count_distinct"
    return 0 if zero and not output.need else None


# ---- window-ids in SQL ---------------------------------------------------------------------------


def wids_udf(spec: Periodic, form: str = "arrow") -> Any:
    """The numbers of the windows that hold a time (``mta.windows.wids``), as an array, for SQL.

    ``spark.udf.register("wids", wids_udf(spec))``, then ``SELECT explode(wids(ts)) AS wid``. Also
    for calendars of any zone, which `wids` can't do. A null time gives null.

    Raises
    ------
    SpecError
        Of a landmark, as no window is the last; and of ``origin="first"``.
    """
    check_numbered(spec)
    zoned = [T.TimestampType()] if not of_integers(spec) else []
    _check_form(form, cast(list[T.DataType], zoned))

    def of_array(ts: pa.Array) -> pa.Array:
        first, last = _wids(spec, ts)
        sizes = np.zeros(len(ts), np.int64)
        valid = np.asarray(ts.is_valid())
        sizes[valid] = np.maximum(last - first + 1, 0)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        begins = np.repeat(first - offsets[:-1][valid], sizes[valid])
        numbers = pa.array(begins + np.arange(offsets[-1]))
        return pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32)), numbers, mask=pa.array(~valid)
        )

    def of_series(ts: pd.Series) -> pd.Series:
        kind = pa.int64() if of_integers(spec) else None  # integers with nulls come as doubles
        made = of_array(pa.Array.from_pandas(ts, type=kind))
        return pd.Series(made.to_pylist(), dtype=object)

    function = of_array if form == "arrow" else of_series
    return _udf(function, T.ArrayType(T.LongType()), form)


def extent_udf(spec: Periodic, times: str | None = None) -> Any:
    """Where a window lies (``mta.windows.interval``), as a struct of start and end, for SQL.

    Parameters
    ----------
    spec : as for `wids_udf`
    times : "timestamp" (the default), "timestamp_ntz" or "date": the type of the time column. Edges
        have it, but for dates, where windows are no whole days: then they are "timestamp_ntz".
    """
    check_numbered(spec)
    edge = edge_type(spec, time_type(spec, times))
    kind = to_arrow_type(edge, timezone="UTC")
    unit = "i" if of_integers(spec) else "us"

    def of_array(wids: pa.Array) -> pa.Array:
        start, end = _edges(spec, unit, np.asarray(wids.fill_null(0), np.int64))
        if pa.types.is_date(kind):
            start, end = (start // DAY).astype(np.int32), (end // DAY).astype(np.int32)
        edges = [pa.array(side).cast(kind) for side in (start, end)]
        return pa.StructArray.from_arrays(edges, ["start", "end"], mask=wids.is_null())

    made = T.StructType([T.StructField("start", edge), T.StructField("end", edge)])
    return _udf(of_array, made, "arrow")


def _wids(spec: Periodic, ts: pa.Array) -> tuple[Ints, Ints]:
    """The first and last window of every time that is there."""
    column = arrow_column(str(spec.on), pa.chunked_array([ts.drop_null()]))
    ticks = time_axis(spec, column)
    times = time_values(column, ticks)
    if not isinstance(spec, Calendar) or not len(times):
        return find_extents(spec, times, ticks, 0).wids(times)
    at = times - spec.right_closed
    low, edges = spec.clock(ticks.finer).edges(int(at.min()), int(at.max()))
    number = low - 1 + np.searchsorted(np.array(edges, np.int64), at, "right").astype(np.int64)
    return number, number


def _edges(spec: Periodic, unit: str, wids: Ints) -> tuple[Ints, Ints]:
    """Start and end of windows, in ticks."""
    if isinstance(spec, Calendar):
        clock, known = spec.clock(unit), {}
        for number in np.unique(wids).tolist():
            known[number] = clock.edge(number), clock.edge(number + 1)
        found = np.array([known[number] for number in wids.tolist()], np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]
    length, slide, origin = hops(spec)
    return window_edges(Extents(length, slide, origin, spec.right_closed), wids)


def _udf(function: Any, returns: T.DataType, form: str) -> Any:
    """A UDF of the kind that the type hints of the function say."""
    made: Any = functions
    if form == "pandas":
        return made.pandas_udf(function, returns)
    if not hasattr(made, "arrow_udf"):
        raise SpecError("form: 'arrow' needs PySpark 4.1 or later; take 'pandas'")
    return made.arrow_udf(function, returns)
