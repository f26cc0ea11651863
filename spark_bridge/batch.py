"""apply() on batch DataFrames: one answer per row.

The plan is ``repartition(by)`` → ``sortWithinPartitions(by, on, arrival)`` → ``mapInArrow``. Only
the public DataFrame API is used, so it runs on classic Spark and on Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta.engine import check_lengths
from mta.errors import ColumnError, DataError, SpecError
from mta.functions import FUNCTIONS, Aggregate
from mta.kernels import keeps_type
from mta.plan import make_plan, wanted_type
from mta.specs import Rolling
from spark_bridge.worker import answer_batches


def apply(spec: Rolling, sdf: DataFrame) -> DataFrame:
    """The rows of a Spark DataFrame with the answers of a spec beside them.

    Parameters
    ----------
    spec : a spec with aggregates, such as ``mta.rolling("24h", on="ts", by="card").agg(...)``
    sdf : a batch DataFrame, with its columns in any order

    Returns
    -------
    DataFrame
        Lazy, like every DataFrame: the input columns, then the answers. The answers are the same
        doubles that ``spec(df)`` gives for the same rows in the same order. The rows come sorted
        by key and time within a partition.

    Raises
    ------
    ColumnError
        A column that the spec names is not there.
    DataError
        A column has a type that its aggregate or the window can't use. (A null time is found when
        the job runs, and fails it with a message that names the column.)
    SpecError
        The spec has no aggregates, or an answer has the name of an input column.

    Notes
    -----
    One shuffle by the key columns; without `by`, all rows go through one worker. A worker holds
    one Arrow batch (``spark.sql.execution.arrow.maxRecordsPerBatch``) and one window, however
    large a key is. Rows of one key and one time keep the order of the DataFrame's partitions.
    """
    if not isinstance(spec, Rolling):
        raise SpecError(f"spec: mta.rolling(...).agg(...) is needed, not {spec!r}")
    if not spec.by_rank:
        raise SpecError("every_by: rows of a Spark DataFrame do not arrive in any order")
    if not isinstance(getattr(sdf, "schema", None), T.StructType):
        raise DataError(f"sdf: a Spark DataFrame is needed, not a {type(sdf).__name__}")
    if sdf.isStreaming:
        raise DataError("sdf: this is a stream; so far only batch DataFrames can be answered")
    schema = _output_schema(spec, sdf.schema)
    names = sdf.columns

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return answer_batches(spec, names, batches)

    return _sorted(spec, sdf).mapInArrow(run, schema)


def _sorted(spec: Rolling, sdf: DataFrame) -> DataFrame:
    """Each key's rows in one partition, in order of (time, arrival).

    The columns are called c0, c1, … on the way, because mapInArrow reads dots and backticks in a
    name as syntax; the last one is the arrival.
    """
    plain = {name: f"c{i}" for i, name in enumerate(sdf.columns)}
    arrival = f"c{len(plain)}"
    numbered = sdf.toDF(*plain.values()).withColumn(arrival, F.monotonically_increasing_id())
    keys = [plain[name] for name in spec.by]
    parted = numbered.repartition(*keys) if keys else numbered.repartition(1)
    return parted.sortWithinPartitions(*keys, *([plain[spec.on]] if spec.on else []), arrival)


def _output_schema(spec: Rolling, schema: T.StructType) -> T.StructType:
    """The input's fields and the answers', after all checks that need no data."""
    make_plan(spec.aggs, spec.min_periods or 0)  # refuses here what the workers would
    fields = {field.name: field for field in schema.fields}
    if len(fields) != len(schema.fields):
        raise DataError(f"sdf: two columns have one name among {schema.names}")
    for name, argument in _named_columns(spec):
        if name not in fields:
            known = ", ".join(schema.names)
            raise ColumnError(f"{argument}: no column {name!r}; there are: {known}")
    for name in spec.by:
        _check_key(fields[name])
    if spec.on is not None:
        _check_time(spec, fields[spec.on])
    answers = []
    for name, aggregate in spec.aggs:
        if name in fields:
            raise SpecError(f"agg: {name!r} is a column of the input; give the answer another name")
        kind = _answer_type(name, aggregate, [fields[column] for column in aggregate.columns])
        answers.append(T.StructField(name, kind, True))
    return T.StructType(schema.fields + answers)


def _named_columns(spec: Rolling) -> list[tuple[str, str]]:
    named = [(name, "by") for name in spec.by]
    if spec.on is not None:
        named.append((spec.on, "on"))
    return named + [(column, f"agg.{a.fn}") for _, a in spec.aggs for column in a.columns]


def _check_key(field: T.StructField) -> None:
    kind = field.dataType
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType, T.VariantType)):
        raise DataError(f"by: column {field.name!r}: {kind.simpleString()} can't be a key")


def _check_time(spec: Rolling, field: T.StructField) -> None:
    times = (T.TimestampType, T.TimestampNTZType, T.DateType)
    if not isinstance(field.dataType, (*times, T.IntegralType)):
        raise DataError(
            f"on: column {field.name!r} is {field.dataType.simpleString()}, "
            "not a timestamp, a date or an integer"
        )
    check_lengths(spec, field.name, not isinstance(field.dataType, T.IntegralType))


def _answer_type(name: str, aggregate: Aggregate, fields: list[T.StructField]) -> T.DataType:
    """The Spark type of an answer; the local engine's, in Spark's words."""
    for place, field in enumerate(fields):
        wants = wanted_type(aggregate, place)
        if not isinstance(field.dataType, _TYPES[wants]):
            kind = field.dataType.simpleString()
            decimal = isinstance(field.dataType, T.DecimalType)
            hint = f"; cast it to double first ({name})" if decimal else ""
            raise DataError(
                f"{name}: {aggregate!r} can't use column {field.name!r}, a {kind}{hint}"
            )
    if aggregate.monoid is not None:
        return _user_type(name, aggregate, fields)
    gives = FUNCTIONS[aggregate.fn].gives
    if gives == "list":
        return T.ArrayType(fields[0].dataType)
    if gives == "bytes":
        return T.BinaryType()
    if keeps_type(aggregate):
        return fields[0].dataType
    if gives == "total" and aggregate.overflow != "float":
        return T.LongType() if isinstance(fields[0].dataType, _WHOLE) else T.DoubleType()
    whole = gives == "int" or aggregate.fn in ("arg_min", "arg_max")
    return T.LongType() if whole else T.DoubleType()


def _user_type(name: str, aggregate: Aggregate, fields: list[T.StructField]) -> T.DataType:
    sources = [_source(field.dataType) for field in fields]
    gives = aggregate.monoid.answer_type(sources)
    if gives is None:
        raise SpecError(
            f"{name}: Spark has to know the type of an answer before there is one; say it, like "
            f"agg.monoid(..., gives='float') (not compiled: {aggregate.monoid.why_python})"
        )
    return {"float": T.DoubleType(), "bool": T.BooleanType()}.get(gives, T.LongType())


def _source(kind: T.DataType) -> str:
    """What a user's monoid calls the type of a column."""
    if isinstance(kind, T.BooleanType):
        return "bool"
    if isinstance(kind, T.StringType):
        return "text"
    return "int" if isinstance(kind, T.IntegralType) else "float"


_WHOLE = (T.IntegralType, T.BooleanType)
_NUMBERS = (*_WHOLE, T.FloatType, T.DoubleType, T.NullType)
_TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType, T.DayTimeIntervalType)
_TYPES: dict[str, tuple[type[T.DataType], ...]] = {
    "numbers": _NUMBERS,
    "ordered": (*_NUMBERS, *_TIMES),
    "bools": (T.BooleanType, T.NullType),
    "values": (*_NUMBERS, T.StringType),
    "any": (T.DataType,),
    "hashed": (*_NUMBERS, *_TIMES, T.StringType),
    "sketches": (T.BinaryType, T.NullType),
}
