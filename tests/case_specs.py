"""The shared cases as specs of the public API, and as parameters of tests."""

from __future__ import annotations

import pytest

import mta
from case_vocabulary import CASES, Case, load, problems
from mta import agg

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
    return windows_of(case, unit, ticks).agg(**aggregates(case))


def windows_of(case: Case, unit: str = "i", ticks: int = 1):
    """The spec of a trailing window, without its aggregates."""
    spec = case.spec
    assert UNDERSTOOD.issuperset(spec), f"words not mapped: {set(spec) - UNDERSTOOD}"

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
    )


def verify(case: Case, rows: list[dict]):
    """The answers are the expected ones, line by line in the order of the input."""
    places = [{name: line.get(name) for name in ("ts", *case.by)} for line in case.rows]
    got = [place | row for place, row in zip(places, rows, strict=True)]
    wrong = problems(case, got, case.expected)
    assert not wrong, f"{case.id}: {case.what}\n" + "\n".join(wrong)
