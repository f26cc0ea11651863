"""apply() on batch DataFrames: trailing windows and windows by number.

The plan is ``repartition(by)`` → ``sortWithinPartitions(by, on, arrival)`` → an Arrow UDF, which
gives answers beside rows that stay in Spark, or ``mapInArrow``, where there is not one answer for
each row. Where Spark can aggregate panes (`spark_bridge.panes`), they are what is shuffled. Only
the public DataFrame API is used, so it runs on classic Spark and on Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta.arguments import is_choice
from mta.engine import columns_of
from mta.errors import DataError, SpecError
from mta.pane_rows import no_partials
from mta.periodic import Periodic
from mta.plan import make_plan
from mta.spec_arguments import check_choice
from mta.specs import Rolling, Spec
from spark_bridge import streaming
from spark_bridge.pane_axis import pane_start, poor_panes
from spark_bridge.panes import FLOATS, PanePlan, no_panes
from spark_bridge.periods import Lower, Told, answer_periods
from spark_bridge.schemas import check_case, periodic_schema, quoted, rolling_schema
from spark_bridge.slices import MINE, Slices
from spark_bridge.together import check_together, specs_of
from spark_bridge.worker import answer_batches, answer_columns, gathered

PLANS = ("auto", "rows", "panes")


def apply(
    spec: Spec | Sequence[Spec],
    sdf: DataFrame,
    *,
    plan: str = "auto",
    slices: Any = None,
    **options: Any,
) -> DataFrame:
    """The answers of a spec over a Spark DataFrame.

    Parameters
    ----------
    spec : a spec with aggregates, such as ``mta.rolling("24h", on="ts", by="card").agg(...)``; or
        several trailing ones of the same `by` and `on`, which share one shuffle and one sort, or
        one stream
    sdf : a batch DataFrame, with its columns in any order; or a stream
    plan : of windows by number in batch, what is shuffled

        - "rows": the rows, of the columns that are read; for every aggregate
        - "panes": what Spark has aggregated them to for each key and pane, of length
          gcd(range, slide); for counts, sums and means of integers, and extremes
        - "auto" (default): panes where they can be had and are likely to pay; `explain` says why
    slices : of trailing windows over time in batch: a length of time, like "7d", to cut each key
        by, so that several workers share the rows of one key; see the notes
    options : of streams only; see ``spark_bridge.streaming.apply``, which answers them

    Returns
    -------
    DataFrame
        Lazy, like every DataFrame. Of ``mta.rolling``: the input columns, then the answers, those
        of one spec after those of another; sorted by key and time within a partition. Of windows
        by number (hopping, tumbling, landmark, calendar): the columns of `by`, "start" and "end" in
        the type of `on`, then the answers, a row for each window and group that ``spec(df)``
        gives. The answers are the same doubles that ``spec(df)`` gives for the same rows in the
        same order.

    Raises
    ------
    ColumnError
        A column that the spec names is not there.
    DataError
        A column has a type that its aggregate or the window can't use. (A null time is found when
        the job runs, and fails it with a message that names the column.)
    SpecError
        The spec has no aggregates, or an answer has the name of an input column or of another
        answer; or several specs can't share a pass.

    Notes
    -----
    One shuffle by the key columns; without `by`, all rows go through one worker. A worker holds
    some Arrow batches (32,768 rows or 8 MB, or one batch of
    ``spark.sql.execution.arrow.maxRecordsPerBatch``) and the open windows of one key, however
    large a key is (of a landmark window: a partial aggregate, or all rows where there
    is none). Rows of one key and one time keep the order of the DataFrame's partitions.

    With `slices`, a worker gets a slice of a key's time, and the rows beside it that its windows
    reach: every row is sent 1 + range / slices times, so slices of several ranges cost little. It
    pays where a few keys have most of the rows, or there is no `by`. Answers are the same doubles
    still: what could differ in its last bits is refused, that is everything that rounds on its way
    (sums and means of floats but for ``numerics="exact"``, std and the like, monoids, sketches).
    The rows of a key then come in several partitions.

    A landmark's groups are answered up to the last window of all: the latest time is found before,
    by an aggregation that reads that column only. So is the first, for ``origin="first"``.
    """
    if check_batch_options(sdf, plan, slices, options):
        return streaming.apply(spec, sdf, **options)
    specs = specs_of(spec)
    check(specs, sdf, plan)
    check_slices(specs, slices)
    one = specs[0]
    if isinstance(one, Periodic):
        return _periods(one, sdf, plan)
    trailing = [s for s in specs if isinstance(s, Rolling)]
    return _rolling(trailing, sdf) if slices is None else _sliced(trailing, sdf, slices)


def check_batch_options(sdf: Any, plan: str, slices: Any, options: dict[str, Any]) -> bool:
    """Refuse options of batches for a stream, and those of streams for a batch; whether this is a
    stream."""
    if not getattr(sdf, "isStreaming", False):
        if options:
            raise SpecError(f"apply: {', '.join(options)}: of streams only; this is a batch")
        return False
    if slices is not None:
        raise SpecError("slices: of batches only; a stream is spread by its shards")
    if not is_choice(plan, ("auto",)):
        raise SpecError(f"plan: {plan!r} is of batches; a stream takes what state is least of")
    return True


def check(specs: Sequence[Spec], sdf: Any, plan: str) -> None:
    """Refuse what can't be answered, or not in one pass."""
    if not isinstance(getattr(sdf, "schema", None), T.StructType):
        raise DataError(f"sdf: a Spark DataFrame is needed, not a {type(sdf).__name__}")
    check_choice(plan, "plan", PLANS)
    for one in specs:
        if isinstance(one, Rolling) and not one.by_rank:
            raise SpecError("every_by: rows of a Spark DataFrame do not arrive in any order")
        if isinstance(one, Rolling) and plan != "auto":
            raise SpecError(f"plan: {plan!r} is of windows by number; this is {one!r}")
    check_together(specs)
    check_case(specs, sdf)


def check_slices(specs: Sequence[Spec], slices: object) -> None:
    """Refuse to slice windows by number: panes spread a key over all cores."""
    if slices is not None and isinstance(specs[0], Periodic):
        raise SpecError(f"slices: of trailing windows only; this is {specs[0]!r}")


# ---- trailing windows ------------------------------------------------------------------------


def _rolling(specs: list[Rolling], sdf: DataFrame) -> DataFrame:
    schema = rolling_schema(specs, sdf.schema)
    rows = _sorted(specs[0], _numbered(sdf), sdf.columns)
    if beside_rows(specs):
        return _beside_rows(specs, rows, sdf.columns, schema)
    names = sdf.columns

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return answer_batches(specs, names, gathered(batches))

    return rows.mapInArrow(run, schema)


def _sliced(specs: list[Rolling], sdf: DataFrame, slices: object) -> DataFrame:
    schema = rolling_schema(specs, sdf.schema)
    apart, rows = Slices.of(specs, sdf.schema, slices).mark(specs, sdf)
    made = _rolling(apart, rows)
    answered = made.where(F.col(quoted(MINE)))
    return answered.select(*[F.col(quoted(name)) for name in schema.names])


def beside_rows(specs: list[Rolling]) -> bool:
    """Whether workers give the answers alone, and Spark puts them beside the rows.

    PySpark before 4.1 has no such functions, and they answer every row.
    """
    return specs[0].every is None and hasattr(F, "arrow_udf")


def _beside_rows(
    specs: list[Rolling], rows: DataFrame, names: list[str], schema: T.StructType
) -> DataFrame:
    """The rows stay in Spark; workers get the columns that are read."""
    read = read_columns(specs)
    sent = [f"c{names.index(name)}" for name in read]
    if not read:  # how many rows there are
        read, sent = ["\0arrival"], rows.columns[-1:]
    answers = [
        T.StructField(f"a{i}", field.dataType)
        for i, field in enumerate(schema.fields[len(names) :])
    ]

    # The hints tell Spark of which kind it is.
    def run(columns: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return answer_columns(specs, read, columns)

    # It depends on the rows before: Spark must neither drop the sort nor let filters go first.
    made_by = F.arrow_udf(run, T.StructType(answers))  # type: ignore[attr-defined]
    function = made_by.asNondeterministic()
    carried = rows.columns[: len(names)]
    made = rows.select(*carried, function(*sent).alias("answers"))
    return made.select(*carried, "answers.*").toDF(*schema.names)


def read_columns(specs: Sequence[Spec]) -> list[str]:
    """The columns that one of the specs reads."""
    return list(dict.fromkeys(name for spec in specs for name in columns_of(spec)))


# ---- windows by number -----------------------------------------------------------------------


def _periods(spec: Periodic, sdf: DataFrame, plan: str) -> DataFrame:
    schema = periodic_schema(spec, sdf.schema)
    if of_panes(spec, sdf.schema, plan):
        return _of_panes(PanePlan(spec, sdf.schema), sdf, schema)
    names = columns_of(spec)
    return _answered(spec, _numbered(sdf, names), names, schema, _needs_arrival(spec, sdf))


def of_panes(spec: Periodic, schema: T.StructType, plan: str) -> bool:
    """Whether panes are shuffled.

    Raises
    ------
    SpecError
        They are asked for and can't be had.
    """
    if plan == "rows":
        return False
    why_not = no_panes(spec, schema)
    if plan == "panes" and why_not is not None:
        raise SpecError(f"plan: 'panes' can't be had: {why_not}; take 'rows'")
    if why_not is not None:
        return False
    return plan == "panes" or poor_panes(spec, schema[str(spec.on)].dataType) is None


def _of_panes(panes: PanePlan, sdf: DataFrame, schema: T.StructType) -> DataFrame:
    """Spark's aggregates of every key and pane, then the windows over these."""
    spec, on = panes.asked, str(panes.asked.on)
    names = columns_of(spec)
    plain = dict(zip(names, [f"c{i}" for i in range(len(names))], strict=True))
    floats = [name for name in spec.by if isinstance(sdf.schema[name].dataType, FLOATS)]
    rows = _numbered(sdf, names) if floats else _renamed(sdf, names)
    kind = sdf.schema[on].dataType
    keys = [plain[name] for name in spec.by]
    made = {
        f"p{i}": panes.native[part](F.col(plain.get(panes.columns[part] or on, "")))
        for i, part in enumerate(panes.native)
    }
    # To Spark the two zeros are one key, as here; but its groups forget which of them came first.
    arrival = F.struct(plain[on], rows.columns[-1])
    shown = {f"k{i}": F.min_by(plain[name], arrival) for i, name in enumerate(floats)}
    start = pane_start(spec, kind, F.col(plain[on])).alias("pane")
    every = [c.alias(name) for name, c in (made | shown).items()]
    grouped = rows.groupBy(*keys, start).agg(*every)
    level = [*spec.by, on, *panes.native]
    told = {plain[name]: f"k{i}" for i, name in enumerate(floats)}
    grouped = grouped.select(*[told.get(key, key) for key in keys], "pane", *made)
    grouped = grouped.toDF(*[f"c{i}" for i in range(len(level))])
    facts = [pane_start(spec, kind, F.max(plain[on]))] if Told.of(spec).last else []
    beside = rows.agg(*[c.alias("told0") for c in facts]) if facts else None
    return _answered(panes.spec, grouped, level, schema, False, beside, panes.lower)


def _answered(
    spec: Periodic, rows: DataFrame, names: list[str], schema: T.StructType, arrival: bool,
    beside: DataFrame | None = None, lower: Lower | None = None,
) -> DataFrame:  # fmt: skip
    """The windows over rows whose columns are c0, c1, … in the order of `names`.

    arrival : they have to come in order of arrival where their times are equal
    beside : what `Told` asks for; None: it is yet to be found
    """
    told = Told.of(spec)
    if beside is None and (told.first or told.last):
        beside = rows.agg(*_facts(told, f"c{names.index(str(spec.on))}", f"c{len(names)}"))
    read, number = rows.columns[: len(names)], rows.columns[len(names) :]
    more: list[str] = []
    if beside is not None:
        rows, more = rows.crossJoin(F.broadcast(beside)), beside.columns
    rows = rows.select(*read, *more, *(number if arrival else []))

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return answer_periods(spec, names, gathered(batches), lower)

    return _sorted(spec, rows, names, arrival).mapInArrow(run, schema)


def _facts(told: Told, on: str, arrival: str) -> list[Column]:
    facts = [F.min_by(on, arrival).alias("told0")] if told.first else []
    return facts + ([F.max(on).alias(f"told{int(told.first)}")] if told.last else [])


def _needs_arrival(spec: Periodic, sdf: DataFrame) -> bool:
    """Whether the order of rows of one time can be seen in the answers, or in the keys."""
    floats = any(isinstance(sdf.schema[name].dataType, FLOATS) for name in spec.by)
    return floats or no_partials(make_plan(spec.asked, 0)) is not None


# ---- the shuffle and the sort ----------------------------------------------------------------


def _numbered(sdf: DataFrame, names: list[str] | None = None) -> DataFrame:
    """Columns (None: all) as c0, c1, …, and after them the arrival.

    Because mapInArrow reads dots and backticks in a name as syntax.
    """
    rows = _renamed(sdf, names)
    return rows.withColumn(f"c{len(rows.columns)}", F.monotonically_increasing_id())


def _renamed(sdf: DataFrame, names: list[str] | None = None) -> DataFrame:
    every = sdf.toDF(*[f"c{i}" for i in range(len(sdf.columns))])
    if names is None:
        return every
    picked = [F.col(f"c{sdf.columns.index(name)}") for name in names]
    return every.select(*[c.alias(f"c{i}") for i, c in enumerate(picked)])


def _sorted(spec: Spec, rows: DataFrame, names: list[str], arrival: bool = True) -> DataFrame:
    """Each key's rows in one partition, in order of (time, arrival), which is the last column."""
    keys = [f"c{names.index(name)}" for name in spec.by]
    parted = rows.repartition(*keys) if keys else rows.repartition(1)
    time = [f"c{names.index(spec.on)}"] if spec.on else []
    return parted.sortWithinPartitions(*keys, *time, *([rows.columns[-1]] if arrival else []))
