"""What a spec says about a Spark schema before any row is read: refusals, and types of answers."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from mta.buckets import check_edge_names
from mta.durations import NANOSECONDS
from mta.engine import check_lengths
from mta.errors import ColumnError, DataError, SpecError
from mta.functions import Aggregate
from mta.periodic import Calendar, Landmark, Periodic
from mta.plan import make_plan, wanted_type
from mta.specs import Rolling, Spec


def rolling_schema(specs: Sequence[Rolling], schema: T.StructType) -> T.StructType:
    """The input's fields and the answers' of all specs."""
    fields = _fields(schema)
    answers: list[T.StructField] = []
    for spec in specs:
        _check(spec, fields, schema.names)
        for field in _answer_fields(spec, fields):
            if field.name in fields:
                raise SpecError(
                    f"agg: {field.name!r} is a column of the input; give the answer another name"
                )
            if field.name in [answer.name for answer in answers]:
                raise SpecError(f"agg: two of the specs have an answer called {field.name!r}")
            answers.append(field)
    return T.StructType(schema.fields + answers)


def periodic_schema(spec: Periodic, schema: T.StructType) -> T.StructType:
    """The fields of the keys, of a window's edges, and of the answers."""
    check_edge_names(spec)
    fields = _fields(schema)
    _check(spec, fields, schema.names)
    assert spec.on is not None
    edge = _edge_type(spec, fields[spec.on])
    open_start = isinstance(spec, Landmark) and spec.origin is None
    edges = [T.StructField("start", edge, open_start), T.StructField("end", edge, False)]
    return T.StructType([fields[name] for name in spec.by] + edges + _answer_fields(spec, fields))


def quoted(name: str) -> str:
    """A column name as Spark takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _fields(schema: T.StructType) -> dict[str, T.StructField]:
    fields = {field.name: field for field in schema.fields}
    if len(fields) != len(schema.fields):
        raise DataError(f"sdf: two columns have one name among {schema.names}")
    return fields


def _check(spec: Spec, fields: dict[str, T.StructField], names: list[str]) -> None:
    """All checks that need no data."""
    make_plan(spec.asked, spec.min_periods or 0)  # refuses here what the workers would
    for name, argument in _named_columns(spec):
        if name not in fields:
            known = ", ".join(names) + _hint(name, fields)
            raise ColumnError(f"{argument}: no column {name!r}; there are: {known}")
    for name in spec.by:
        _check_key(fields[name])
    if spec.on is not None:
        _check_time(spec, fields[spec.on])


def _hint(name: str, fields: dict[str, T.StructField]) -> str:
    """What may have been meant, as Spark itself would have taken it."""
    alike = [known for known in fields if known.lower() == name.lower()]
    if alike:
        return f" (names are told apart by case: {alike[0]!r}?)"
    outer = fields.get(name.partition(".")[0])
    if outer is not None and isinstance(outer.dataType, T.StructType):
        made = f"sdf.withColumn(name, F.col({name!r}))"
        return f" (a field of a struct is no column; {made} makes it one)"
    return ""


def _named_columns(spec: Spec) -> list[tuple[str, str]]:
    named = [(name, "by") for name in spec.by]
    if spec.on is not None:
        named.append((spec.on, "on"))
    return named + [(column, f"agg.{a.fn}") for _, a in spec.aggs for column in a.columns]


def _check_key(field: T.StructField) -> None:
    kind = field.dataType
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType, T.VariantType)):
        raise DataError(f"by: column {field.name!r}: {kind.simpleString()} can't be a key")
    # Where different texts count as one, the rows of one text do not come one after the other.
    if isinstance(kind, T.StringType) and getattr(kind, "collation", "UTF8_BINARY") not in _PLAIN:
        raise DataError(
            f"by: column {field.name!r}: of {kind.simpleString()} different texts may be equal; "
            "use a normal form of it, such as lower(...) with collation UTF8_BINARY"
        )


_PLAIN = ("UTF8_BINARY", None)


def _check_time(spec: Spec, field: T.StructField) -> None:
    times = (T.TimestampType, T.TimestampNTZType, T.DateType)
    if not isinstance(field.dataType, (*times, T.IntegralType)):
        raise DataError(
            f"on: column {field.name!r} is {field.dataType.simpleString()}, "
            "not a timestamp, a date or an integer"
        )
    whole = isinstance(field.dataType, T.IntegralType)
    check_lengths(spec, field.name, not whole)
    if whole and isinstance(spec, Calendar):
        raise DataError(f"on: column {field.name!r} holds integers; a calendar needs times")


def _edge_type(spec: Periodic, field: T.StructField) -> T.DataType:
    """The type of a window's edges: that of its times, or finer."""
    kind = field.dataType
    if isinstance(kind, T.IntegralType):
        return T.LongType()
    if any(length.in_unit("us") is None for length in spec.lengths):
        raise SpecError(
            f"range: the times of Spark are whole microseconds, and so are the edges of windows; "
            f"{spec!r} has others"
        )
    if not isinstance(kind, T.DateType):
        return kind
    days = all(length.amount % (24 * NANOSECONDS["h"]) == 0 for length in spec.lengths)
    return kind if days and not isinstance(spec, Calendar) else T.TimestampNTZType()


def _answer_fields(spec: Spec, fields: dict[str, T.StructField]) -> list[T.StructField]:
    made = []
    for name, aggregate in spec.aggs:
        kind = _answer_type(name, aggregate, [fields[column] for column in aggregate.columns])
        made.append(T.StructField(name, kind, True))
    return made


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
    gives = aggregate.gives
    if gives == "list":
        return T.ArrayType(fields[0].dataType)
    if gives == "bytes":
        return T.BinaryType()
    if aggregate.keeps_type:
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


def check_case(specs: Sequence[Spec], sdf: DataFrame, late: str | None = None) -> None:
    """Refuse answers that nobody could select, as Spark takes their names for those of others.

    late : the column of late rows, if there is one
    """
    if str(sdf.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true":
        return
    before = sdf.columns if isinstance(specs[0], Rolling) else [*specs[0].by, "start", "end"]
    known = {name.lower(): name for name in before}
    answers = [("agg", name) for spec in specs for name, _ in spec.aggs]
    for argument, name in [*answers, *([] if late is None else [("late", late)])]:
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise SpecError(
                f"{argument}: to Spark, the answer {name!r} and {other!r} have one name "
                "(spark.sql.caseSensitive is off); give the answer another"
            )
