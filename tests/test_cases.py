"""The shared cases, each in every kind of input and every mode that its spec allows.

A case whose kind of window or aggregate is still to come is expected to fail, strictly: the test
tries the public API all the same, and the day it succeeds the mark has to go.
"""

from __future__ import annotations

import pytest

import mta
from case_vocabulary import CASES, Case, as_times, load, problems, time_unit, typed_columns
from kinds import build, read
from mta import agg
from other_windows import ATTEMPTS

BUILT_WINDOWS = {"rolling", "rows"}
TOPICS = {
    "snapshot": "snapshots",
    "interval_join": "interval join",
}
UNDERSTOOD = {
    "window",
    "range",
    "rows",
    "closed",
    "ties",
    "lag",
    "by",
    "nan",
    "aggs",
    "min_periods",
}
ALL_CASES = load()
TRAILING = [case for case in ALL_CASES if case.window in BUILT_WINDOWS]
OTHERS = [case for case in ALL_CASES if case.window not in BUILT_WINDOWS]
FRAMES = ("dict", "pandas", "pandas-nullable", "polars", "pyarrow")


def not_yet(case: Case) -> str | None:
    """The topic that a case waits for, or None."""
    return TOPICS.get(case.window)


def modes(cases, applies=lambda case: True, *extra):
    """pytest parameters of the cases to which a mode applies, with their marks."""
    chosen = [case for case in cases if applies(case)]
    if not chosen:
        reason = f"no such case in {CASES.name}" if ALL_CASES else f"{CASES.name} is not there"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="none")]
    return [
        pytest.param(case, id=case.id, marks=[*_expected_to_fail(case), *extra]) for case in chosen
    ]


def _expected_to_fail(case: Case) -> list:
    topic = not_yet(case)
    # The public API has no such name or argument yet; anything else is a failure.
    missing = (AttributeError, TypeError)
    return [pytest.mark.xfail(strict=True, raises=missing, reason=topic)] if topic else []


# ---- to the public API -----------------------------------------------------------------------


def aggregates(case: Case) -> dict:
    """The case's aggregates by the names of their answers."""
    return {a.get("as", a["fn"]): _aggregate(a, case.spec.get("nan")) for a in case.spec["aggs"]}


def _aggregate(description: dict, nan: str | None):
    options = {n: v for n, v in description.items() if n not in ("fn", "col", "as")}
    make = getattr(agg, description["fn"])
    if description["fn"] == "count_all":
        return make(**options)
    if nan:
        options = {"nan": nan} | options
    return make(description.get("col", "v"), **options)


def spec_of(case: Case, unit: str = "i", ticks: int = 1):
    """The case's spec, with times counted in ``unit``, ``ticks`` of them to a tick."""
    spec = case.spec
    assert UNDERSTOOD.issuperset(spec), f"words not mapped: {set(spec) - UNDERSTOOD}"
    aggs = aggregates(case)

    def extent(length):
        if length is None or case.window == "rows":
            return length
        return f"{length * ticks}{unit}"

    options = {n: spec[n] for n in ("closed", "ties", "min_periods") if n in spec}
    return mta.rolling(
        extent(spec["rows"] if case.window == "rows" else spec["range"]),
        on="ts",
        by=spec.get("by"),
        lag=extent(spec["lag"]) if spec.get("lag") else None,
        **options,
    ).agg(**aggs)


def verify(case: Case, rows: list[dict]):
    """The answers are the expected ones, line by line in the order of the input."""
    places = [{name: line.get(name) for name in ("ts", *case.by)} for line in case.rows]
    got = [place | row for place, row in zip(places, rows, strict=True)]
    wrong = problems(case, got, case.expected)
    assert not wrong, f"{case.id}: {case.what}\n" + "\n".join(wrong)


# ---- trailing windows, in batch --------------------------------------------------------------


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("case", modes(TRAILING))
def test_trailing_over_ticks(case, kind):
    verify(case, read(spec_of(case)(build(kind, typed_columns(case)))))


@pytest.mark.parametrize("zone", ["", ", America/New_York"], ids=["naive", "zone"])
@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("case", modes(TRAILING, time_unit))
def test_trailing_over_timestamps(case, kind, zone):
    if kind == "dict" and zone:
        zone = ""  # NumPy has no zones
    frame = build(kind, as_times(case, typed_columns(case), zone))
    verify(case, read(spec_of(case, *time_unit(case))(frame)))


@pytest.mark.parametrize("case", modes(TRAILING))
def test_trailing_after_a_trip_through_json(case):
    spec = mta.spec_from_json(spec_of(case).to_json())
    verify(case, read(spec(build("pyarrow", typed_columns(case)))))


# ---- trailing windows, pushed ----------------------------------------------------------------


def can_be_pushed(case: Case) -> bool:
    """Rows arrive in order and see only what came before: what ``mta.Window`` is."""
    spec = case.spec
    plain = (
        not spec.get("lag")
        and not spec.get("min_periods")
        and spec.get("closed", "right") == "right"
    )
    length = spec.get("rows") or spec.get("range")
    groups: dict = {}
    for row in case.rows:
        groups.setdefault(tuple(map(repr, (row.get(c) for c in case.by))), []).append(row["ts"])
    ascending = all(ts == sorted(ts) for ts in groups.values())
    distinct = all(len(ts) == len(set(ts)) for ts in groups.values())
    alone = distinct or case.window == "rows" or spec.get("ties") == "arrival"
    return bool(length) and plain and ascending and alone


@pytest.mark.parametrize("case", modes(TRAILING, can_be_pushed))
def test_trailing_pushed_row_by_row(case):
    verify(case, push(case, save=False))


@pytest.mark.parametrize("case", modes(TRAILING, can_be_pushed))
def test_trailing_pushed_with_a_snapshot_after_every_row(case):
    verify(case, push(case, save=True))


def push(case: Case, save: bool) -> list[dict]:
    """Each group's rows through a window of its own."""
    aggs, columns = aggregates(case), typed_columns(case)
    policy = mta.last(
        case.spec["rows"] if case.window == "rows" else f"{case.spec['range']}i", on="ts"
    )
    used = {a.get("col", "v") for a in case.spec["aggs"]} | {"ts"}
    windows: dict = {}
    answers = []
    for i, row in enumerate(case.rows):
        group = tuple(map(repr, (row.get(c) for c in case.by)))
        window = windows.get(group) or mta.Window(aggs, policy)
        answers.append(window.push({n: columns[n][1][i] for n in used})._asdict())
        windows[group] = mta.Window.from_bytes(window.to_bytes(), aggs, policy) if save else window
    return answers


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("case", modes(TRAILING, can_be_pushed))
def test_trailing_streamed_in_chunks_of_every_size(case, kind):
    for size in range(1, len(case.rows) + 1):
        verify(case, stream(case, size, kind))


def stream(case: Case, size: int, kind: str) -> list[dict]:
    """The rows pushed in chunks into the spec's own operator."""
    columns, answers = typed_columns(case), []
    operator = spec_of(case).stream()
    for start in range(0, len(case.rows), size):
        chunk = {n: (t, v[start : start + size]) for n, (t, v) in columns.items()}
        answers += read(operator.push(build(kind, chunk)))
    return answers + read(operator.finish())


# ---- trailing windows, on Spark --------------------------------------------------------------


@pytest.mark.parametrize("case", modes(TRAILING, lambda case: True, pytest.mark.spark))
def test_trailing_on_spark_over_ticks(case, spark):
    verify(case, on_spark(spark, spec_of(case), typed_columns(case)))


def fits_spark(case: Case) -> bool:
    """Spark's timestamps are microseconds."""
    unit = time_unit(case)
    return unit is not None and unit[0] != "ns"


@pytest.mark.parametrize("case", modes(TRAILING, fits_spark, pytest.mark.spark))
def test_trailing_on_spark_over_timestamps(case, spark):
    columns = as_times(case, typed_columns(case), ", UTC")
    verify(case, on_spark(spark, spec_of(case, *time_unit(case)), columns))


def on_spark(spark, spec, columns: dict) -> list[dict]:
    """The answers of ``spark_bridge`` in the order of the input."""
    bridge = pytest.importorskip("spark_bridge")
    number = ("int64", list(range(len(columns["ts"][1]))))
    frame = spark.createDataFrame(build("pyarrow", columns | {"row": number}))
    result = bridge.apply(spec, frame)
    names = [name for name, _ in spec.aggs]
    assert result.columns == [*frame.columns, *names]
    rows = sorted(result.toArrow().to_pylist(), key=lambda row: row["row"])
    return [{name: row[name] for name in names} for row in rows]


# ---- the other kinds of window ---------------------------------------------------------------


@pytest.mark.parametrize("case", modes(OTHERS))
def test_other_windows(case):
    ATTEMPTS[case.window](case, aggregates(case))


ON_SPARK = ("hopping", "tumbling", "calendar")


@pytest.mark.parametrize(
    "case", modes(OTHERS, lambda case: case.window in ON_SPARK, pytest.mark.spark)
)
def test_other_windows_on_spark(case, spark):
    bridge = pytest.importorskip("spark_bridge")

    def run(spec, columns):
        frame = spark.createDataFrame(build("pyarrow", columns))
        return read(bridge.apply(spec, frame).toArrow())

    ATTEMPTS[case.window](case, aggregates(case), run)


@pytest.mark.skipif(
    not ALL_CASES, reason=f"{CASES.name} is not there (it does not come with a clone)"
)
def test_every_kind_of_window_is_known():
    unknown = {case.window for case in ALL_CASES} - BUILT_WINDOWS - set(ATTEMPTS)
    assert not unknown, f"cases of an unknown kind: {unknown}"
