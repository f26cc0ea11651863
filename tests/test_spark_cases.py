"""The shared cases on Spark, batch and streaming, with the exact answers that each expects.

Those of one window share a job or a query (`spark_cases`). Those about time have a query each: a
micro-batch ends wherever Spark's watermark, which goes on between micro-batches, would differ from
one that goes on with every row.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from case_specs import ALL_CASES, TRAILING, aggregates, modes, not_yet, spec_of, verify
from case_vocabulary import Case, as_times, time_unit, typed_columns
from kinds import build, read
from mta.errors import DataError, SpecError
from other_windows import assert_streamed, stream_spec
from spark_cases import Group, asked, groups

spark_bridge = pytest.importorskip("spark_bridge", reason="the [spark] extra is not installed")
pytest.importorskip("google.protobuf", reason="Spark needs it for state in Python")
from spark_bridge.blobs import LIMIT_MS  # noqa: E402
from spark_streams import Source, session_of_streams  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

# ---- batch -----------------------------------------------------------------------------------


def fits_spark(case: Case) -> bool:
    """Spark's timestamps are microseconds."""
    unit = time_unit(case)
    return unit is not None and unit[0] != "ns"


@pytest.mark.parametrize("case", modes(TRAILING, fits_spark))
def test_trailing_over_timestamps(case, spark):
    columns = as_times(case, typed_columns(case), ", UTC")
    verify(case, on_spark(spark, spec_of(case, *time_unit(case)), columns))


def on_spark(spark, spec, columns: dict) -> list[dict]:
    """The answers of ``spark_bridge`` in the order of the input."""
    number = ("int64", list(range(len(columns["ts"][1]))))
    frame = spark.createDataFrame(build("pyarrow", columns | {"row": number}))
    result = spark_bridge.apply(spec, frame)
    names = [name for name, _ in spec.aggs]
    assert result.columns == [*frame.columns, *names]
    rows = sorted(result.toArrow().to_pylist(), key=lambda row: row["row"])
    return [{name: row[name] for name in names} for row in rows]


ROWS = ("rolling", "rows", "count_hop")
BY_NUMBER = ("hopping", "tumbling", "calendar")
IN_BATCH = groups([c for c in ALL_CASES if c.window in {*BY_NUMBER, *ROWS}], 2**63)


@pytest.mark.parametrize("group", modes(IN_BATCH))
def test_every_kind_of_window_in_batch(group, spark):
    spec, tables = group.asks()
    frame = spark.createDataFrame(pa.concat_tables(tables, promote_options="default"))
    answers = spark_bridge.apply(spec, frame).toArrow()
    for member in group.members:
        member.check(answers)


# ---- what no stream of Spark can answer --------------------------------------------------------


class Refusal(NamedTuple):
    """Cases that a stream of Spark refuses, and what it says."""

    why: str
    applies: Any
    error: type[Exception]
    message: str


REFUSED = {
    "one watermark": Refusal(
        "Spark has one watermark for all rows, and cannot wait for the slowest of some sources",
        lambda case: "sources" in case.spec,
        SpecError, "source: Spark has one watermark for all sources",
    ),
    "empty windows": Refusal(
        "a stream would have to remember every group for ever",
        lambda case: case.spec.get("empty") == "emit",
        SpecError, "empty: 'emit' is for batches",
    ),
    "beyond Spark's time": Refusal(
        "Spark's watermark counts microseconds of 64 bits, so a row at 2^63 has no time in it",
        lambda case: max((abs(row["ts"]) for row in case.rows), default=0) >= LIMIT_MS,
        DataError, f"a stream's integers stand for milliseconds.*below {LIMIT_MS}",
    ),
}  # fmt: skip


def refused(case: Case) -> str | None:
    """Why no stream of Spark answers a case."""
    if "sources" in case.spec and case.spec.get("combine") == "max":
        return None  # the greatest time of all: that is Spark's own
    return next((name for name, told in REFUSED.items() if told.applies(case)), None)


KINDS = {*BY_NUMBER, *ROWS, "stream"}
STREAMED = [case for case in ALL_CASES if case.window in KINDS and not not_yet(case)]


@pytest.mark.parametrize("case", modes(STREAMED, lambda case: refused(case) is not None))
def test_what_no_stream_can_answer_is_refused(case, spark, tmp_path):
    told = REFUSED[refused(case)]
    spec, columns = stream_asks(case)
    source = Source(spark, tmp_path / case.id)
    source.put(build("pyarrow", columns))
    if told.error is SpecError:  # before anything runs
        with pytest.raises(SpecError, match=told.message):
            spark_bridge.apply(spec, source.read())
        return
    with pytest.raises(Exception, match=rf"{told.error.__name__}: .*{told.message}"):
        source.answer(spec)


def stream_asks(case: Case) -> tuple[Any, dict]:
    """A case's windows with a delay, and its rows."""
    if case.window == "stream":
        delay = case.spec.get("watermark_delay", 0)
        return stream_spec(case, aggregates(case), delay), typed_columns(case)
    spec, columns = asked(case, aggregates(case))
    return spec.watermark(), columns


# ---- streams: windows of all kinds, in groups --------------------------------------------------

CHEAP = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
AT_ONCE = 2  # queries; Spark gives the Python that one begins with 10 s to come up
PIECES = 2  # micro-batches of a case
GROUPS = groups(
    [case for case in STREAMED if case.window != "stream" and refused(case) is None], LIMIT_MS
)
OF_GROUPS = [(group, member) for group in GROUPS for member in group.members]


def feed(group: Group, source: Source) -> Any:
    """Put a group's rows, each case's in pieces, and a last row far ahead; the spec with a delay
    that makes no row late."""
    spec, tables = group.asks()
    pieces = [_piece(tables, number) for number in range(PIECES)]
    times = [_ticks(piece) for piece in pieces]
    newest = max(int(max(t, default=0)) for t in times)
    delay = max([newest - int(min(times[-1], default=newest)), 0])
    unit = "s" if pa.types.is_timestamp(pieces[0]["ts"].type) else "i"
    far = newest + 3 * (delay + abs(newest)) + 10**6
    last = pa.table({"ts": pa.array([far]).cast(pieces[0]["ts"].type), "case": [-1], "row": [-1]})
    empty = pieces[0].slice(0, 0)
    for piece in (*pieces[:-1], pa.concat_tables([pieces[-1], last], promote_options="default")):
        source.put(pa.concat_tables([empty, piece], promote_options="default"))
    return spec.watermark(f"{delay}{unit}")


def _piece(tables: list[pa.Table], number: int) -> pa.Table:
    parts = []
    for table in tables:
        start, stop = (len(table) * n // PIECES for n in (number, number + 1))
        parts.append(table.slice(start, stop - start))
    return pa.concat_tables(parts, promote_options="default")


def _ticks(table: pa.Table) -> list[int]:
    return table["ts"].cast(pa.int64()).to_pylist()


@pytest.fixture(scope="module")
def streamed(spark, tmp_path_factory):
    """The answers of every group and of every case about time."""

    def answer(item):
        if isinstance(item, Case):
            return answer_case(spark, item, tmp_path_factory.mktemp(item.id))
        source = Source(spark, tmp_path_factory.mktemp("group"))
        return source.answer(feed(item, source), shards=2)

    def outcome(item):
        try:
            return answer(item)
        except Exception as error:  # the test of the case raises it
            return error

    items = [*GROUPS, *ABOUT_TIME]
    with session_of_streams(spark, CHEAP), ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip([item.id for item in items], pool.map(outcome, items), strict=True))


def told(outcome: Any) -> Any:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@pytest.mark.parametrize(
    ("group", "member"), OF_GROUPS, ids=[member.case.id for _, member in OF_GROUPS]
)
def test_every_kind_of_window_streamed(group, member, streamed):
    member.check(told(streamed[group.id]))


# ---- streams: when answers are given, and what is late ------------------------------------------

ABOUT_TIME = [case for case in STREAMED if case.window == "stream" and refused(case) is None]


def answer_case(spark: Any, case: Case, path: Any) -> tuple[list[dict], list[dict]]:
    """The answers and the late rows, over as many queries as the case has restarts."""
    rows = pa.Table.from_pylist(case.rows, build("pyarrow", typed_columns(case)).schema)
    lengths = [abs(row["ts"]) for row in case.rows] + [p.get("value", 0) for p in case.punctuations]
    ahead = 4 * (max(lengths) + case.spec["range"])  # where rows that just tell time are in no way
    stated = case.spec.get("watermark_delay")
    spec = stream_spec(case, aggregates(case), ahead if stated is None else stated)
    source, out = Source(spark, path), None
    for query in queries_of(case, ahead if stated is None else stated):
        for batch in query:
            given = [row if isinstance(row, dict) else {"ts": row} for row in batch]
            source.put(pa.Table.from_pylist(given, rows.schema))
        out = source.answer(spec, shards=2, late="late")
    late = [row["late"] for row in out.to_pylist() if row["late"] is not None]
    answers = out.filter(pc.is_valid(out["end"])).drop_columns(["late"])
    return read(answers), late


def queries_of(case: Case, delay: int) -> list[list[list]]:
    """The micro-batches of each query: rows, and times of rows that just tell time.

    One ends before a row that is behind another (in a micro-batch of rows that only go on in time,
    none is late by those before it), and where time is told.
    """
    queries: list[list[list]] = [[[]]]
    newest = -(2**62)
    for number in range(len(case.rows) + 1):
        for event in [p for p in case.punctuations if p["after"] == number]:
            if event["type"] == "restore":
                queries.append([[]])
            elif event["type"] in ("watermark", "end"):
                end = max(row["ts"] for row in case.rows) + case.spec["range"]
                queries[-1][-1].append(event.get("value", end) + delay)
                queries[-1].append([])
        if number < len(case.rows):
            if case.rows[number]["ts"] < newest:
                queries[-1].append([])
            queries[-1][-1].append(case.rows[number])
            newest = max(newest, case.rows[number]["ts"])
    return [[batch for batch in query if batch] for query in queries]


@pytest.mark.parametrize("case", modes(ABOUT_TIME))
def test_time_streamed(case, streamed):
    answers, late = told(streamed[case.id])
    assert_streamed(case, answers, late, ordered=False)
