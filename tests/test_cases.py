"""The shared cases, each in every kind of input and every mode that its spec allows.

A case whose kind of window or aggregate is still to come is expected to fail, strictly: the test
tries the public API all the same, and the day it succeeds the mark has to go. (Spark has them in
test_spark_cases.py.)
"""

from __future__ import annotations

import pytest

import mta
from case_specs import (
    ALL_CASES,
    BUILT_WINDOWS,
    OTHERS,
    TRAILING,
    aggregates,
    modes,
    spec_of,
    verify,
)
from case_vocabulary import CASES, Case, as_times, time_unit, typed_columns
from kinds import build, read
from other_windows import ATTEMPTS

FRAMES = ("dict", "pandas", "pandas-nullable", "polars", "pyarrow")


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


# ---- the other kinds of window ---------------------------------------------------------------


@pytest.mark.parametrize("case", modes(OTHERS))
def test_other_windows(case):
    ATTEMPTS[case.window](case, aggregates(case))


@pytest.mark.skipif(
    not ALL_CASES, reason=f"{CASES.name} is not there (it does not come with a clone)"
)
def test_every_kind_of_window_is_known():
    unknown = {case.window for case in ALL_CASES} - BUILT_WINDOWS - set(ATTEMPTS)
    assert not unknown, f"cases of an unknown kind: {unknown}"
