"""Tables of what was measured, to read in a terminal or as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from asv_benchmarks.measure import Line, Measured
from asv_benchmarks.suite import US, Runner

Table = list[list[str]]
MARK = "†"


def size(value: Any) -> str:
    """1024 as 1k, 2^20 as 1M; anything else as it is."""
    if isinstance(value, int):
        for power, letter in ((2**20, "M"), (2**10, "k")):
            if value >= power and value % power == 0:
                return f"{value // power}{letter}"
    return str(value)


def pairs(runners: Iterable[Runner]) -> list[tuple[Runner, Runner]]:
    """Every peer with us on the same frame."""
    runners = list(runners)
    ours = {runner.frame: runner for runner in runners if runner.name == US}
    return [(r, ours[r.frame]) for r in runners if r.name != US and r.frame in ours]


def ratio(line: Line, peer: Runner, ours: Runner) -> float:
    """How many times the CPU time of ours the peer took."""
    theirs, mine = line.nanoseconds[peer.label], line.nanoseconds[ours.label]
    return theirs / mine if mine else math.nan


def times(value: float) -> str:
    """A ratio to two or three digits."""
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def detail(measured: Measured) -> Table:
    """Nanoseconds a row of everyone, with the ratio after every peer and us."""
    duels = pairs(measured.runners)
    alone = [r for r in measured.runners if r.name != US and all(r is not p for p, _ in duels)]
    head = list(measured.subject.axes)
    for peer, _ in duels:
        head += [peer.name, US, "×"]
    head += [runner.name for runner in alone]
    return [head, *(_detail_row(line, duels, alone) for line in measured.lines)]


def _detail_row(
    line: Line, duels: list[tuple[Runner, Runner]], alone: Sequence[Runner]
) -> list[str]:
    row = [size(value) for value in line.point.values()]
    for peer, ours in duels:
        mark = MARK if peer.name in line.wrong else ""
        row += [
            f"{line.nanoseconds[peer.label]:.1f}{mark}",
            f"{line.nanoseconds[ours.label]:.1f}",
            times(ratio(line, peer, ours)),
        ]
    return row + [f"{line.nanoseconds[runner.label]:.1f}" for runner in alone]


def summary(everything: Iterable[Measured]) -> Table:
    """Least and greatest ratio over the windows, by subject, aggregate and peer."""
    table = [["subject", "aggregate", "peer", "least ×", "greatest ×"]]
    for measured in everything:
        for aggregate in dict.fromkeys(line.point.get("aggregate", "") for line in measured.lines):
            lines = [
                line for line in measured.lines if line.point.get("aggregate", "") == aggregate
            ]
            for peer, ours in pairs(measured.runners):
                ratios = [ratio(line, peer, ours) for line in lines]
                mark = MARK if any(peer.name in line.wrong for line in lines) else ""
                name = type(measured.subject).__name__
                bounds = [times(min(ratios)), times(max(ratios))]
                table.append([name, aggregate, peer.name + mark, *bounds])
    return table


def notes(measured: Measured) -> list[str]:
    """The subject's remark, and whose answers are not ours."""
    found = [measured.subject.note] if measured.subject.note else []
    worst: dict[str, float] = {}
    for line in measured.lines:
        for peer, error in line.wrong.items():
            worst[peer] = max(worst.get(peer, 0.0), error)
    if worst:
        who = ", ".join(f"{peer} up to {error:.0e}" for peer, error in worst.items())
        found.append(
            f"{MARK} gives other answers: on a small input with one value of 1e16, off by "
            f"(relative) {who}."
        )
    return found


def text(table: Table) -> str:
    """Aligned columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    numeric = _numeric_columns(table)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in table
    )


def markdown(table: Table) -> str:
    """A table of GitHub's Markdown."""
    rule = ["---:" if number else "---" for number in _numeric_columns(table)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (table[0], rule, *table[1:]))


def _numeric_columns(table: Table) -> list[bool]:
    return [
        all(cell[:1].isdigit() or cell == "nan" for cell in column[1:])
        for column in zip(*table, strict=True)
    ]


def report(everything: Sequence[Measured], as_markdown: bool) -> str:
    """All tables with their titles and notes, and the summary."""
    draw: Callable[[Table], str] = markdown if as_markdown else text
    blank = "\n\n" if as_markdown else "\n"
    parts = [
        blank.join([_title(m.subject.title, as_markdown), draw(detail(m)), *notes(m)])
        for m in everything
    ]
    if any(pairs(m.runners) for m in everything):
        parts.append(blank.join([_title("Summary", as_markdown), draw(summary(everything))]))
    return "\n\n".join(parts)


def _title(title: str, as_markdown: bool) -> str:
    return f"### {title}" if as_markdown else f"{title}\n{'=' * len(title)}"
