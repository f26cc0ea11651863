"""The rate that low-level aggregation keeps up with (Figure 8-7): slow flush, lazy flush, ordered.

Query 8-1: the rows of every group in a minute. Rows come in order, from a ring buffer; those that
it has no room for are lost. Measured is the CPU time of every small batch; from that follows the
highest even rate at which the buffer never runs over. What takes the partials runs elsewhere, as in
the thesis, and is measured apart.

In order (IOP): partials of a window go out before any of the next one, so when two groups of the
new window meet in the table, all that is left of the old one goes out at once. Out of order (OOP):
they may go out whenever they like, up to `DELAY` windows late: with every 16th row (slow flush), or
when others need their place (lazy flush). The thesis has every 160th row of windows ten times as
large.

What is measured is the table by itself (`mta._lowlevel`), as the public stage has no order to keep;
`staged` takes rows through ``spec.low_level()`` and ``op.merge`` and checks the answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from disorder import Ints

import mta
from mta import agg
from mta._lowlevel import LowTable
from mta._panes import Panes
from mta._partials import Layout

Progress = Callable[[str], None]
GROUPS = (65_536, 131_072, 262_144, 524_288)
SIZES = (0.5, 1.0, 2.0)  # slots a group
RING = 8192  # rows; the thesis does not say how many
BATCH = 512  # rows processed between two looks at the clock
DELAY = 2  # windows by which a partial may be late
SLOW = 16  # rows between two partials of slow flush
WAYS = ("in order", "slow flush", "lazy flush")


@dataclass(frozen=True)
class Rate:
    """One way over one table."""

    way: str
    groups: int
    size: float
    million: float  # rows a second that the ring buffer bears, in millions
    busy: float  # percent of the time that is used at this rate
    nanoseconds: float  # CPU a row
    pause: float  # the longest batch, in milliseconds
    out: float  # partials that go out, a row
    downstream: float  # CPU nanoseconds to merge a partial


def measure(
    rows: int, windows: int, groups: Sequence[int], repeats: int, progress: Progress
) -> list[Rate]:
    """Every way at every number of groups and size of table. rows : of a window"""
    found = []
    for count in groups:
        codes = np.random.default_rng(count).integers(0, count, rows * windows)
        for size in SIZES:
            for way in WAYS:
                progress(f"{count:,} groups, {size:g} slots a group, {way}")
                slots = int(count * size)
                tries = [run(way, codes, rows, slots, merge=not i) for i in range(repeats)]
                found.append(_rate(way, count, size, tries))
    return found


@dataclass(frozen=True)
class _Run:
    seconds: np.ndarray  # CPU time of every batch
    partials: int
    merging: float  # CPU time of what takes them


def run(
    way: str, codes: Ints, rows: int, slots: int, merge: bool = True, check: bool = False
) -> _Run:
    """Rows through a table, and what goes out into panes that answer.

    rows : of a window
    merge : whether somebody takes what goes out
    check : compare the answers with counts of the rows
    """
    table = LowTable(_counts(), slots, {"in order": 1, "slow flush": SLOW}.get(way, 0))
    answers, spent, partials, merging = Panes(_counts()), [], 0, 0.0
    for window, start in enumerate(range(0, len(codes), rows)):
        flushed = way != "in order"
        for i in range(start, min(start + rows, len(codes)), BATCH):
            mine = codes[i : min(i + BATCH, start + rows)]
            panes = np.full(len(mine), window)
            begun = time.process_time()
            if i == start:
                _next_window(table, way, window)
            table.add(mine, panes, [], [])
            made = table.take()
            if not flushed and (made.places == window).any():
                flushed = True
                table.flush(window)
            spent.append(time.process_time() - begun)
            if merge:
                begun = time.process_time()
                answers.merge(made, made.codes, made.places)
                merging += time.process_time() - begun
            partials += len(made)
        if window >= DELAY and not check:
            answers.drop(window - DELAY)
    if check:
        _check(table, answers, codes, rows)
    return _Run(np.array(spent), partials, merging)


def staged(way: str, codes: Ints, rows: int, slots: int, batch: int = 8192) -> int:
    """The same rows through the public stage, whose answers have to be counts of the rows.

    Returns how many partial aggregates went from the stage to the stream.
    """
    spec = mta.tumbling("1i", on="window", by="group").watermark(0).agg(n=agg.count())
    low = spec.low_level(size=slots, flush=way.split()[0], within=DELAY, every=SLOW)
    op, got, partials = spec.stream(), [], 0
    for i in range(0, len(codes), batch):
        window = np.arange(i, min(i + batch, len(codes))) // rows
        made = low.push({"window": window, "group": codes[i : i + batch]})
        partials += len(made)
        got.append(op.merge(made))
    last = low.finish()
    got.append(op.merge(last))
    start, group, n = (np.concatenate([part[k] for part in got]) for k in ("start", "group", "n"))
    found, counts = np.unique(np.arange(len(codes)) // rows * 2**32 + codes, return_counts=True)
    order = np.argsort(start * 2**32 + group)
    same = np.array_equal((start * 2**32 + group)[order], found)
    if not (same and np.array_equal(n[order], counts)):
        raise AssertionError("the stage's answers are not those of its rows")
    return partials + len(last)


def _counts() -> Layout:
    return Layout([("rows", 0, -1, "", "")], 0)


def _next_window(table: LowTable, way: str, window: int) -> None:
    """The rows of all windows before have come."""
    table.flush(window - 1 if way == "in order" else window - DELAY)
    table.complete(window)


def _check(table: LowTable, answers: Panes, codes: Ints, rows: int) -> None:
    table.flush(2**63 - 1)
    made = table.take()
    answers.merge(made, made.codes, made.places)
    for window, start in enumerate(range(0, len(codes), rows)):
        at = np.array([window])
        got = answers.close(at, at + 1)
        counts = np.bincount(codes[start : start + rows], minlength=int(codes.max()) + 1)
        counted = np.zeros(len(counts), np.int64)
        counted[got.codes] = got.counts(0)
        if not np.array_equal(counts, counted):
            raise AssertionError(f"window {window} is counted wrongly")


def _rate(way: str, groups: int, size: float, tries: list[_Run]) -> Rate:
    # Of every batch the least time: what other processes of the machine take is not ours.
    seconds = np.min([one.seconds for one in tries], axis=0)
    rows = len(seconds) * BATCH
    rate = highest_rate(seconds)
    return Rate(
        way, groups, size, rate / 1e6, 100 * rate * float(seconds.sum()) / rows,
        1e9 * float(seconds.sum()) / rows, 1e3 * float(seconds.max()), tries[0].partials / rows,
        1e9 * tries[0].merging / max(tries[0].partials, 1),
    )  # fmt: skip


def highest_rate(seconds: np.ndarray) -> float:
    """The greatest number of rows a second at which never more than the ring buffer holds wait."""
    low, high = 0.0, BATCH / float(np.mean(seconds))
    for _ in range(60):
        rate = (low + high) / 2
        # How far the work is behind, in seconds, after every batch.
        work = np.cumsum(seconds - BATCH / rate)
        behind = work - np.minimum.accumulate(np.append(0.0, work))[:-1]
        if (behind * rate).max() <= RING:
            low = rate
        else:
            high = rate
    return low
