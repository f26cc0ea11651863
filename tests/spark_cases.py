"""The shared cases put together, so that few queries of Spark answer many of them.

Cases whose windows differ by the length of a tick only are one **group**: their times are stretched
until the windows are the same, every case has columns and aggregates of its own, and its number is
a key. A case's answers are read back out of the group's, and go to the runner that it always has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from case_specs import aggregates, verify, windows_of
from case_vocabulary import SECOND_COLUMNS, Case, typed_columns
from kinds import build, read
from other_windows import ATTEMPTS

LENGTHS = ("range", "lag", "slide", "offset")
COUNTED = ("rows", "count_hop")  # windows of so many rows, which no time stretches
EDGES = ("ts", "start", "end")
FACTS = ("case", "row")


def trailing(case: Case, aggs: dict, run: Callable) -> None:
    """A runner of trailing windows, as `ATTEMPTS` has them for others."""
    verify(case, run(windows_of(case).agg(**aggs), typed_columns(case)))


RUNNERS = {**ATTEMPTS, "rolling": trailing, "rows": trailing}


class Asked(Exception):
    """What a runner wants answered; it is no error, but how the runner is left."""


def asked(case: Case, aggs: dict) -> tuple[Any, dict]:
    """The spec and the columns that a case's runner asks about."""

    def leave(spec: Any, columns: dict) -> None:
        raise Asked(spec, columns)

    try:
        RUNNERS[case.window](case, aggs, leave)
    except Asked as told:
        return told.args[0], told.args[1]
    raise AssertionError(f"{case.id}: nothing was asked")


# ---- one case in a group -----------------------------------------------------------------------


class Member(NamedTuple):
    """A case, stretched, and its number in the group."""

    case: Case
    number: int

    def own(self, name: str) -> str:
        """A name that no other case of the group has."""
        return f"{name}_{self.number}"

    def asks(self) -> tuple[Any, pa.Table]:
        """The spec and the rows, with names of its own."""
        marked = [self._marked(description) for description in self.case.spec["aggs"]]
        aggs = aggregates(self.case._replace(spec={**self.case.spec, "aggs": marked}))
        spec, columns = asked(self.case, aggs)
        shared = {"ts", *self.case.by}
        named = {n if n in shared else self.own(n): column for n, column in columns.items()}
        count = len(columns["ts"][1])
        facts = {"case": [self.number] * count, "row": list(range(count))}
        return spec, build("pyarrow", {**named, **{n: ("int64", v) for n, v in facts.items()}})

    def _marked(self, description: dict) -> dict:
        columns = [n for n in ("col", *SECOND_COLUMNS) if n in description]
        told = {"col": "v"} | description | {"as": description.get("as", description["fn"])}
        return told | {n: self.own(told[n]) for n in {"as", "col", *columns}}

    def check(self, answers: pa.Table) -> None:
        """The expected answers are those that the group has for this case."""
        mine = answers.filter(pc.equal(answers["case"], self.number))
        mine = mine.sort_by("row") if "row" in mine.column_names else mine
        own = {self.own(name): name for name in aggregates(self.case)}
        kept = [n for n in mine.column_names if n in own or n in (*EDGES, *self.case.by)]
        lines = read(mine.select(kept).rename_columns([own.get(n, n) for n in kept]))
        RUNNERS[self.case.window](self.case, aggregates(self.case), lambda *_: lines)


def stretched(case: Case, factor: int) -> Case:
    """The same case with ticks that are so many times shorter."""

    def longer(line: dict, names: Sequence[str]) -> dict:
        return line | {n: line[n] * factor for n in names if isinstance(line.get(n), int)}

    def expected(told: Any) -> Any:
        if isinstance(told, list):
            return [longer(line, EDGES) for line in told]
        return {n: expected(v) if isinstance(v, list) else v for n, v in told.items()}

    rows = [longer(row, EDGES) for row in case.rows]
    spec = longer(case.spec, LENGTHS)
    return case._replace(spec=spec, rows=rows, expected=expected(case.expected))


# ---- groups ------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Cases of one window."""

    members: list[Member]

    @property
    def id(self) -> str:
        return "+".join(member.case.id for member in self.members)

    @property
    def window(self) -> str:
        return self.members[0].case.window

    def asks(self) -> tuple[Any, list[pa.Table]]:
        """One spec for all, and the rows of each case."""
        pairs = [member.asks() for member in self.members]
        specs = [spec for spec, _ in pairs]
        bare = {replace(spec, aggs=()) for spec in specs}
        assert len(bare) == 1, f"{self.id}: {bare}"
        every = tuple(a for spec in specs for a in spec.aggs)
        (window,) = bare
        by = ("case", *window.by)
        return replace(window, by=by, aggs=every), [table for _, table in pairs]


def groups(cases: Sequence[Case], limit: int) -> list[Group]:
    """Every case in a group, with no time beyond a limit."""
    alike: dict[Any, list[Case]] = {}
    for case in cases:
        alike.setdefault(_shape(case), []).append(case)
    return [Group(members) for same in alike.values() for members in _members(same, limit)]


def _shape(case: Case) -> Any:
    """What two cases of one group have in common: all of the window but the length of a tick."""
    usual = {"ties": "peers", "closed": "right"} if case.window == "rolling" else {}
    spec = usual | {n: v for n, v in case.spec.items() if n not in ("aggs", "nan")}
    whole = spec.get("range")
    if case.window not in COUNTED and whole:
        spec |= {n: Fraction(spec[n], whole) for n in LENGTHS if isinstance(spec.get(n), int)}
    return tuple(sorted((n, repr(v)) for n, v in spec.items()))


def _members(cases: list[Case], limit: int) -> list[list[Member]]:
    """Cases of one shape with ticks that fit; those that can't be stretched so far, alone."""
    lengths = [case.spec.get("range") or 1 for case in cases]
    counted = cases[0].window in COUNTED
    together, alone = [], []
    for case, length in zip(cases, lengths, strict=True):
        factor = 1 if counted else lcm(*lengths) // length
        reach = max((abs(row["ts"]) for row in case.rows), default=0) + abs(length)
        if reach * factor < limit:
            together.append(stretched(case, factor))
        else:
            alone.append([Member(case, 0)])
    numbered = [Member(case, number) for number, case in enumerate(together)]
    return [*([numbered] if numbered else []), *alone]
