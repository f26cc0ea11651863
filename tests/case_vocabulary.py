"""The vocabulary of the shared cases: reading them, typing their columns, comparing answers.

The file's README defines the words. Nothing here knows a case by its id, so a larger file of the
same vocabulary runs as it is.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from oracle import NULL_OR_NAN

CASES = Path(
    os.environ.get("MTA_CASES")
    or Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.json"
)

SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
INHERITED = ("unit", "spec", "rows", "punctuations", "expected", "compare")
UNITS = {"s": ("s", 1), "ms": ("ms", 1), "us": ("us", 1), "ns": ("ns", 1), "min": ("s", 60),
         "h": ("s", 3600), "day": ("s", 86_400), "week": ("s", 604_800)}  # fmt: skip
SECOND_COLUMNS = ("order", "by", "weights", "x", "y")  # of an aggregate that reads two
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Case(NamedTuple):
    """One case or one of its variants, whole: what a variant leaves out is its case's."""

    id: str
    what: str
    unit: str
    spec: dict
    rows: list[dict]
    punctuations: list[dict]
    expected: Any
    compare: dict

    @property
    def window(self) -> str:
        return self.spec["window"]

    @property
    def functions(self) -> list[str]:
        return [a["fn"] for a in self.spec["aggs"]]

    @property
    def by(self) -> list[str]:
        by = self.spec.get("by") or []
        return [by] if isinstance(by, str) else list(by)


def load() -> list[Case]:
    """Every case and variant of the file; empty where there is no file."""
    if not CASES.exists():
        return []
    content = json.loads(CASES.read_text(encoding="utf-8"))
    return [variant for case in content for variant in _variants(case)]


def _variants(case: dict) -> Iterable[Case]:
    whole = {"unit": "tick", "punctuations": [], "compare": {}} | case
    for number, part in enumerate([case, *case.get("more", [])]):
        fields = {name: part.get(name, whole.get(name)) for name in INHERITED}
        what = part.get("what", case.get("kind", ""))
        yield Case(f"{case['id']}.{number}" if number else case["id"], what, **fields)


# ---- columns ---------------------------------------------------------------------------------


def typed_columns(case: Case) -> dict[str, tuple[str, list]]:
    """The rows as typed columns; ``ts`` holds integer ticks."""
    values = [a.get("col", "v") for a in case.spec["aggs"] if a["fn"] != "count_all"]
    values += [a[name] for a in case.spec["aggs"] for name in SECOND_COLUMNS if name in a]
    names = dict.fromkeys(["ts", *values, *case.by, *(name for row in case.rows for name in row)])
    columns = {name: _typed([row.get(name) for row in case.rows]) for name in names}
    return columns if case.rows else columns | {"ts": ("int64", [])}


def _typed(values: list) -> tuple[str, list]:
    present = [v for v in values if v is not None]
    if any(isinstance(v, str) and v not in SPECIAL for v in present):
        return "string", values
    if present and all(isinstance(v, bool) for v in present):
        return "bool", values
    if present and all(isinstance(v, int) for v in present):
        return ("int64" if max(present) < 2**63 else "uint64"), values
    numbers = [
        None if v is None else SPECIAL.get(v, v) if isinstance(v, str) else v for v in values
    ]
    return "float64", [None if v is None else float(v) for v in numbers]


def time_unit(case: Case) -> tuple[str, int] | None:
    """The Arrow unit of ``ts`` and how many of it a tick is, where the case names a real unit.

    None too where an instant or an edge would not fit 64-bit nanoseconds, microseconds for
    units of a second and more (frames and Spark convert coarser units to those).
    """
    unit = UNITS.get(case.unit.split()[0])
    if unit is None:
        return None
    lengths = [case.spec.get(name) or 0 for name in ("range", "lag", "slide", "offset")]
    reach = max([abs(row["ts"]) for row in case.rows], default=0) + sum(map(abs, lengths))
    return unit if reach * unit[1] * 10**9 // PER_SECOND[unit[0]] < 2**62 else None


def as_times(case: Case, columns: dict, zone: str = "") -> dict:
    """The same columns with ``ts`` as timestamps."""
    unit, ticks = time_unit(case)
    times = (f"timestamp[{unit}{zone}]", [t * ticks for t in columns["ts"][1]])
    return columns | {"ts": times}


# ---- comparing -------------------------------------------------------------------------------


def problems(case: Case, got: list[dict], expected: list[dict]) -> list[str]:
    """Every place where the answers are not what the case expects, as readable lines."""
    if len(got) != len(expected):
        return [f"{len(got)} answers instead of {len(expected)}: {got} / {expected}"]
    return [
        f"answer {i}, {name}: {g.get(name, '<missing>')!r} instead of {want!r}"
        for i, (g, line) in enumerate(zip(got, expected, strict=True))
        for name, want in line.items()
        if not same(g.get(name, "<missing>"), want, case.compare)
    ]


def same(got: Any, want: Any, compare: dict) -> bool:
    """Whether one answer is the expected one, under the rules of the case's ``compare``."""
    if isinstance(want, list):
        values = list(got) if hasattr(got, "__len__") and not isinstance(got, str) else None
        return (
            values is not None
            and len(values) == len(want)
            and all(same(g, w, compare) for g, w in zip(values, want, strict=True))
        )
    if want is None:
        return got is None or got is NULL_OR_NAN
    if isinstance(want, str) and want in SPECIAL:
        want = SPECIAL[want]
    if isinstance(want, (str, bool)) or not isinstance(got, (int, float)):
        return got == want or (got is NULL_OR_NAN and repr(want) == "nan")
    return _same_number(got, want, compare.get("floats", "same double"))


def _same_number(got: float, want: float, rule: str) -> bool:
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if isinstance(want, int) or isinstance(got, int):
        return got == want and not isinstance(got, bool)  # exact: Python compares without rounding
    if "never negative" in rule and want >= 0 and got < 0:
        return False
    if "exactly 0" in rule and want == 0:
        return got == 0
    relative = re.search(r"relative ([\d.e+-]+)", rule)
    absolute = re.search(r"absolute ([\d.e+-]+)", rule)
    if (relative or absolute) and math.isfinite(want):
        allowed = abs(want) * float(relative[1]) if relative else 0.0
        return abs(got - want) <= max(allowed, float(absolute[1]) if absolute else 0.0)
    return got == want and math.copysign(1, got) == math.copysign(1, want)
