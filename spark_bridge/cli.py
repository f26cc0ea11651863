"""The command line: trailing windows over anyone's Parquet or CSV.

>>> from spark_bridge.cli import parse_agg
>>> parse_agg("total=sum:amount")
('total', agg.sum('amount'))
"""
# ruff: noqa: T201 (a command line prints)

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import mta
from mta.errors import DataError, MtaError, SpecError
from mta.functions import Aggregate
from mta.specs import CLOSED, TIES, Rolling
from spark_bridge.batch import apply
from spark_bridge.console import Progress, open_session
from spark_bridge.schemas import quoted

PROGRAM = "python -m spark_bridge"
DESCRIPTION = (
    "Compute trailing-window features for every row of a Parquet or CSV data set on Spark."
)
EXAMPLES = """\
example: what each card spent in the 24 hours before each payment

  python -m spark_bridge --input payments.csv --output features.parquet \\
      --by card --on paid_at --window 24h --closed left \\
      --agg n=count --agg total=sum:amount --agg spread=std:amount,ddof=0

The output has the input's columns and one for each --agg, so that another run can take it
as its input and add answers over another window or by another key. Times without a zone are
taken as they are. Exit code: 0 done, 2 for a mistake in the arguments or the data.
"""
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
ROWS = re.compile(r"(?:rows\s*)?(\d+)(?:\s*rows?)?")
AGGREGATE = re.compile(
    r"(?:(?P<name>[^=:,]+)=)?(?P<fn>\w+)(?::(?P<column>[^,]+))?(?P<options>(?:,.*)?)"
)
# What our own messages begin with, by the name that it has here.
ARGUMENTS = {
    "range": "--window",
    "min_periods": "--min-periods",
    **{name: f"--{name}" for name in ("on", "by", "closed", "lag", "ties", "agg")},
}
# What our code raised in a Python worker, in the text of Spark's exception.
WORKER_ERROR = re.compile(r"^(?:mta\.errors\.\w+|OverflowError): (.+)$", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.output is None and not (options.show or options.explain):
        parser.error("--output is needed, or --show, or --explain")
    try:
        spec = make_spec(options)
        check_paths(options)
        return run(options, spec)
    except (MtaError, AnalysisException) as error:
        return _fail(str(error).partition("\n")[0])
    except PySparkException as error:
        found = WORKER_ERROR.search(str(error))
        if found is None:
            raise
        return _fail(found[1])


def run(options: argparse.Namespace, spec: Rolling) -> int:
    """Read, compute, write and show, in a session that is ended if it was begun here."""
    ours = SparkSession.getActiveSession() is None
    spark = open_session("spark_bridge", options.master, log_level="FATAL")
    try:
        answered = apply(spec, read_input(spark, options, spec))
        if options.explain:
            print(spec, end="\n\n")
            answered.explain()
            return 0
        if options.output is not None:
            answered = write_output(spark, options, answered)
        if options.show:
            answered.show(options.show, truncate=False)
        return 0
    finally:
        if ours:
            spark.stop()


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Print the message and leave with code 2."""
        sys.exit(_fail(f"{message} (--help tells more)"))


def make_parser() -> argparse.ArgumentParser:
    """All arguments; their meaning is that of `mta.rolling` and of ``agg``."""
    parser = Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _data_arguments(parser.add_argument_group("data").add_argument)
    _window_arguments(parser.add_argument_group("window").add_argument)
    _answer_arguments(parser.add_argument_group("answers").add_argument)
    return parser


def _data_arguments(add: Callable[..., Any]) -> None:
    add("--input", required=True, metavar="PATH", help="file, directory or pattern")
    add("--format", choices=["parquet", "csv"], help="of the input; default: by its suffix")
    add(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=parse_option,
        help="for Spark's reader, like sep=';' or timestampFormat='dd.MM.yyyy HH:mm' (repeatable)",
    )
    add("--output", metavar="PATH", help="directory to write: CSV if it ends in .csv, else Parquet")
    add("--overwrite", action="store_true", help="replace the output if it exists")


def _window_arguments(add: Callable[..., Any]) -> None:
    add(
        "--window",
        required=True,
        metavar="LENGTH",
        help="24h, 7d, 90s (time); 5i (ticks of an integer time); 1000 or 'rows 1000'; all",
    )
    add("--on", metavar="COLUMN", help="the time: timestamps, dates or integers")
    add(
        "--by",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a key; each has windows of its own (repeatable, or a,b)",
    )
    add("--closed", choices=CLOSED, default="right", help="edges that belong to it (right)")
    add("--lag", metavar="LENGTH", help="move it back by so much (forward: --lag=-1h)")
    add(
        "--ties",
        choices=TIES,
        default="peers",
        help="do rows of one time see each other, or only earlier arrivals? (peers)",
    )
    add("--min-periods", type=int, metavar="N", help="with fewer values than this: null")


def _answer_arguments(add: Callable[..., Any]) -> None:
    add(
        "--agg",
        action="append",
        required=True,
        metavar="[NAME=]FN[:COLUMN]",
        type=parse_agg,
        help="count, sum, mean, min, max, var or std, like n=count or total=sum:amount; options "
        "ddof, min_count, nan follow, like p=std:amount,ddof=0 (repeatable)",
    )
    add("--show", type=int, default=0, metavar="N", help="print N rows of the result")
    add("--explain", action="store_true", help="print the window and Spark's plan; compute nothing")
    add("--master", metavar="URL", help="where Spark runs, like local[4]; default: as configured")


def parse_agg(text: str) -> tuple[str, Aggregate]:
    """The name and the aggregate that one --agg asks for.

    >>> parse_agg("std:amount,ddof=0")
    ('amount_std', agg.std('amount', ddof=0))
    """
    parts = AGGREGATE.fullmatch(text.strip())
    if parts is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not like n=count or total=sum:amount")
    options = dict(parse_option(option) for option in parts["options"].split(",")[1:])
    given: dict[str, Any] = {}
    for key, value in options.items():
        if key not in ("ddof", "min_count", "nan"):
            raise argparse.ArgumentTypeError(f"{text!r}: no option {key!r}; ddof, min_count, nan")
        given[key] = int(value) if value.isdecimal() else value
    try:
        aggregate = Aggregate(parts["fn"], parts["column"], **given)
    except SpecError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return parts["name"] or aggregate.default_name, aggregate


def parse_option(text: str) -> tuple[str, str]:
    """Key and value of ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not like key=value")
    return key.strip(), value


def make_spec(options: argparse.Namespace) -> Rolling:
    """The window that the arguments describe.

    Raises
    ------
    SpecError
        They make no sense together.
    """
    names = [name for name, _ in options.agg]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SpecError(f"agg: two answers are named {min(twice)!r}; give one another name")
    lag = options.lag
    return mta.rolling(
        parse_window(options.window),
        on=options.on,
        by=[key for keys in options.by for key in keys.split(",")] or None,
        closed=options.closed,
        lag=int(lag) if lag is not None and re.fullmatch(r"[+-]?\d+", lag) else lag,
        ties=options.ties,
        min_periods=options.min_periods,
    ).agg(**dict(options.agg))


def parse_window(text: str) -> int | str | None:
    """The range as `mta.rolling` takes it: a duration, a number of rows, or None for all.

    >>> parse_window("24h"), parse_window("rows 1000"), parse_window("all")
    ('24h', 1000, None)
    """
    text = text.strip()
    rows = ROWS.fullmatch(text)
    if rows:
        return int(rows[1])
    return None if text == "all" else text


def check_paths(options: argparse.Namespace) -> None:
    """What can be said about the paths before Spark is started.

    Raises
    ------
    DataError
        There is no input, it is of an unknown format, or there is an output already.
    """
    pattern = set("*?[{") & set(options.input)
    if _is_local(options.input) and not pattern and not Path(options.input).exists():
        raise DataError(f"--input: there is no {options.input}")
    options.format = options.format or guess_format(options.input)
    if options.output is not None:
        _check_output(options)


def _check_output(options: argparse.Namespace) -> None:
    output = options.output
    if not _is_local(output):
        return
    if Path(output).exists() and not options.overwrite:
        raise DataError(f"--output: {output} exists; --overwrite replaces it")
    source, target = Path(options.input).resolve(), Path(output).resolve()
    if source == target or target in source.parents:
        raise DataError(f"--output: {output} is what is read; write to another place")


def _is_local(path: str) -> bool:
    return ":/" not in path  # not s3a://, hdfs:// or file:/


def guess_format(path: str) -> str:
    """The format by the suffix of the path, or of the first file in a local directory.

    Raises
    ------
    DataError
        The suffix tells nothing.
    """
    inside = sorted(Path(path).rglob("*")) if Path(path).is_dir() else []
    for name in (path, *map(str, inside)):
        for suffix in PurePosixPath(name).suffixes[::-1]:  # also events.csv.gz
            if suffix.lower() in FORMATS:
                return FORMATS[suffix.lower()]
    raise DataError(f"--format: is {path} parquet or csv? The suffix does not tell")


def read_input(spark: SparkSession, options: argparse.Namespace, spec: Rolling) -> DataFrame:
    """The input, with the types of a CSV's columns found out by Spark.

    Raises
    ------
    DataError
        The time column is text.
    """
    given = dict(options.option)
    if options.format == "csv":
        sdf = _read_csv(spark, options.input, given)
    else:
        sdf = spark.read.options(**given).parquet(options.input)
    field = next((field for field in sdf.schema.fields if field.name == spec.on), None)
    if field is not None and isinstance(field.dataType, T.StringType):
        _reject_text(sdf, field.name, options)
    return sdf


def _read_csv(spark: SparkSession, path: str, given: dict[str, str]) -> DataFrame:
    if "timestampFormat" in given:
        given = {"timestampNTZFormat": given["timestampFormat"], **given}
    separator = "\t" if ".tsv" in PurePosixPath(path).suffixes else ","
    known: dict[str, Any] = {"header": True, "inferSchema": True, "sep": separator, **given}
    setting = "spark.sql.timestampType"
    before = str(spark.conf.get(setting))
    spark.conf.set(setting, "TIMESTAMP_NTZ")  # a time written without a zone gets none
    try:
        return spark.read.options(**known).csv(path)
    finally:
        spark.conf.set(setting, before)


def _reject_text(sdf: DataFrame, name: str, options: argparse.Namespace) -> NoReturn:
    column = F.col(quoted(name))
    if options.format != "csv":
        raise DataError(f"on: column {name!r} is text; cast it to a timestamp first")
    pattern = dict(options.option).get("timestampFormat")
    time = F.try_to_timestamp(column, F.lit(pattern) if pattern else None)
    wrong = sdf.select(column).where(column.isNotNull() & time.isNull()).first()
    like = f": {wrong[0]!r} could not be read as a time" if wrong else ""
    raise DataError(
        f"on: column {name!r} is text{like}; correct it, or say how times are written with "
        "--option timestampFormat=..."
    )


def write_output(spark: SparkSession, options: argparse.Namespace, sdf: DataFrame) -> DataFrame:
    """Compute and write; the result as it was written."""
    target = "csv" if PurePosixPath(options.output).suffix == ".csv" else "parquet"
    counted = Observation()
    writer = sdf.observe(counted, F.count(F.lit(1)).alias("rows")).write
    writer = writer.mode("overwrite" if options.overwrite else "error").format(target)
    fresh = _is_local(options.output) and not Path(options.output).exists()
    try:
        with Progress(spark, "computing"):
            writer.options(header=True).save(options.output)
    except BaseException:
        if fresh:  # what Spark leaves of a failed job would be in the way of the next
            shutil.rmtree(options.output, ignore_errors=True)
        raise
    print(f"{counted.get['rows']:,} rows written to {options.output} ({target})")
    return spark.read.options(header=True).format(target).load(options.output)


def _fail(message: str) -> int:
    where, colon, what = message.partition(": ")
    where = ARGUMENTS.get(where, where)
    print(f"{PROGRAM}: error: {where}{colon}{what}", file=sys.stderr)
    return 2
