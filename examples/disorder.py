"""Rows that come out of order, and correct punctuation for them, for any test, example, benchmark.

Everything is made of a ``numpy.random.Generator`` and given as arrays in order of arrival, so equal
seeds give equal rows. Times are whole ticks of whatever unit the caller has in mind, on one clock
for what a row tells of itself (`ts`) and for when it comes (`arrives`).

Band disorder (`band`): every row is under way for a bounded time. Block-sorted disorder
(`block_sorted`): the rows of a block come in any order, but no row before one of an earlier block.
Sources that run behind each other (`together`), fall silent (`lull`) or hold back what they have
(`outage`). Group sizes as skewed as those of Table 6-2 (`skewed_groups`). And the flights from New
York, by scheduled time in order of actual departure (`flights`). After Jin Li, "Window Queries over
Data Streams" (thesis, 2008), 6.1.5.1 and 6.3.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
GREATEST = 2**63 - 1

SMALL_SHARES = {"DS1": 0.01, "DS2": 0.03, "DS3": 0.05, "DS4": 0.07, "DS5": 0.09}  # of the rows
MEDIUM_SHARE, MEDIUM_ROWS, LARGE_ROWS = 0.20, 15, 300


@dataclass(frozen=True)
class Rows:
    """Rows in order of arrival: when they come, the time they bear, and the source of each."""

    ts: Ints
    arrives: Ints
    source: Ints

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, which: Any) -> Rows:
        """Some of them: indices, in order, or a mask."""
        return Rows(self.ts[which], self.arrives[which], self.source[which])


@dataclass(frozen=True)
class Punctuation:
    """What a stream says about the rows to come, in the order in which it says it.

    `value`[k] comes after `at`[k] rows: none of the rows from number `at`[k] on (of `source`[k], or
    of any if that is None) has a time before `value`[k].
    """

    at: Ints
    value: Ints
    arrives: Ints
    source: Ints | None = None

    def __len__(self) -> int:
        return len(self.at)

    def parts(self, rows: int) -> Iterator[tuple[slice, int | None]]:
        """The rows between two punctuations, each followed by its value; None: there are no more.

        rows : of the stream. Parts may hold no rows, where punctuations follow each other.
        """
        edges = [0, *self.at.tolist(), rows]
        values: list[int | None] = [*self.value.tolist(), None]
        for (start, stop), value in zip(pairwise(edges), values, strict=True):
            yield slice(start, stop), value


# ---- times ----------------------------------------------------------------------------------


def times(rng: np.random.Generator, rows: int, gap: float, start: int = 0) -> Ints:
    """Times in order, with exponential gaps of `gap` ticks on average (a Poisson process)."""
    passed: Ints = start + np.cumsum(rng.exponential(gap, rows)).astype(np.int64)
    return passed


# ---- disorder --------------------------------------------------------------------------------


def in_order(ts: Ints, source: int = 0) -> Rows:
    """Rows that come at once."""
    ts = np.sort(ts)
    return Rows(ts, ts.copy(), np.full(len(ts), source, np.int64))


def band(
    rng: np.random.Generator, ts: Ints, delay: int, mean: float | None = None, source: int = 0
) -> Rows:
    """Band disorder: every row is under way for 0 to `delay` ticks.

    So no row comes after one whose time is more than `delay` later than its own.

    delay : the longest
    mean : None: all delays are alike; else they are exponential with this mean, those beyond
        `delay` left out: a few rows are late by much
    """
    share = rng.random(len(ts))
    if mean is not None:
        share = -np.log1p(-share * -np.expm1(-delay / mean)) * mean / delay
    arrives = ts + np.floor(share * delay + 0.5).astype(np.int64)
    order = np.argsort(arrives, kind="stable")
    return Rows(ts[order], arrives[order], np.full(len(ts), source, np.int64))


def block_sorted(rng: np.random.Generator, ts: Ints, block: int, source: int = 0) -> Rows:
    """Block-sorted disorder: the rows of ``[k block, (k + 1) block)`` come in any order.

    They come when the same number of rows would come in order, so the k-th arrives at the k-th
    time, and a block takes as long as it would. No row comes after one of a later block.
    """
    arrives = np.sort(ts)
    order = np.lexsort((rng.random(len(ts)), arrives // block))
    return Rows(arrives[order], arrives, np.full(len(ts), source, np.int64))


def together(sources: Sequence[Rows], offsets: Sequence[int] | None = None) -> Rows:
    """The rows of several sources as they come, those of each by its offset later (arrival skew).

    Each source keeps the order of its rows; the sources are numbered from 0.
    """
    late = offsets if offsets is not None else [0] * len(sources)
    arrives = np.concatenate([s.arrives + by for s, by in zip(sources, late, strict=True)])
    ts = np.concatenate([s.ts for s in sources])
    numbers = np.repeat(np.arange(len(sources)), [len(s) for s in sources])
    order = np.argsort(arrives, kind="stable")
    return Rows(ts[order], arrives[order], numbers[order])


def lull(rows: Rows, start: int, stop: int, source: int | None = None) -> Rows:
    """The same without the rows (of a source, or of all) with times of ``[start, stop)``: nothing
    happens there, and nobody says so."""
    silent = (rows.ts >= start) & (rows.ts < stop)
    if source is not None:
        silent &= rows.source == source
    return rows.take(~silent)


def outage(rows: Rows, start: int, stop: int, source: int | None = None) -> Rows:
    """What would come (from a source, or from all) during ``[start, stop)`` comes at its end, in
    the order in which it would have come."""
    held = (rows.arrives >= start) & (rows.arrives < stop)
    if source is not None:
        held &= rows.source == source
    arrives = np.where(held, stop, rows.arrives)
    order = np.argsort(arrives, kind="stable")
    return Rows(rows.ts[order], arrives[order], rows.source[order])


# ---- what is known of the rows to come -------------------------------------------------------


def low_watermark(ts: Ints) -> Ints:
    """The least time of the rows from number i on, for i = 0 … rows (Eq. 4.1; the last: no more).

    Nobody can know it who does not know the future; correct punctuation stays at or below it.
    """
    least = np.minimum.accumulate(ts[::-1])[::-1]
    return np.append(least, GREATEST).astype(np.int64)


def punctuate(rows: Rows, every: int, source: int | None = None) -> Punctuation:
    """The soonest correct punctuation at the multiples of `every`.

    A value is said right after the last row with a time before it; values that none of the rows
    reaches are not said. Where several become true at once, the greatest alone is said.

    source : of which to speak; None: of all together
    """
    mine = np.arange(len(rows)) if source is None else np.flatnonzero(rows.source == source)
    if not len(mine):
        none = np.zeros(0, np.int64)
        return Punctuation(none, none, none, None if source is None else none)
    known = low_watermark(rows.ts[mine])
    known[-1] = rows.ts[mine].max() + 1  # after the last row: as far as the rows went
    steps = known[1:] // every * every
    new = steps > np.concatenate([[known[0] // every * every], steps[:-1]])
    after = mine[new]
    named = None if source is None else np.full(len(after), source, np.int64)
    return Punctuation(after + 1, steps[new], rows.arrives[after], named)


def punctuate_sources(rows: Rows, every: int) -> Punctuation:
    """The soonest correct punctuation of every source, as it comes."""
    parts = [punctuate(rows, every, int(s)) for s in np.unique(rows.source)]
    if not parts:
        return punctuate(rows, every)
    at = np.concatenate([p.at for p in parts])
    order = np.argsort(at, kind="stable")
    named = np.concatenate([p.source for p in parts if p.source is not None])
    value, arrives = (np.concatenate([getattr(p, n) for p in parts]) for n in ("value", "arrives"))
    return Punctuation(at[order], value[order], arrives[order], named[order])


def meld(told: Punctuation, sources: int) -> Punctuation:
    """What the punctuations of all sources say together: the least of them, as often as it rises.

    That is Meld of Figure 8-2, whose rows pass as they come.
    """
    assert told.source is not None
    said = np.full(sources, -GREATEST)
    kept, values = [], []
    least = -GREATEST
    for k, (source, value) in enumerate(zip(told.source.tolist(), told.value, strict=True)):
        said[source] = value
        if said.min() > least:
            least = int(said.min())
            kept.append(k)
            values.append(least)
    which = np.array(kept, np.int64)
    return Punctuation(told.at[which], np.array(values, np.int64), told.arrives[which])


def behind(ts: Ints) -> Ints:
    """How far each row is behind the latest time before it; 0 where it is in order."""
    if not len(ts):
        return ts
    latest = np.maximum.accumulate(ts)
    before = np.concatenate([ts[:1], latest[:-1]])
    behind: Ints = np.maximum(before - ts, 0)
    return behind


# ---- skewed groups ---------------------------------------------------------------------------


def skewed_groups(rng: np.random.Generator, ts: Ints, small: float, span: int) -> Ints:
    """A group for every row, of three sizes: 1 row, 15 and 300 on average (Table 6-2).

    The thesis gives the sizes of the groups, not how their rows lie in time. Here those of a group
    lie in one ``[k span, (k + 1) span)``, at random: with `span` the range of the window, a group
    has so many rows in a window.

    small : share of the rows in small groups; a fifth is in medium ones, the rest in large ones
        (`SMALL_SHARES` has those of DS1 to DS5)
    """
    groups = np.zeros(len(ts), np.int64)
    order = np.argsort(ts, kind="stable")
    counts = np.unique(ts // span, return_counts=True)[1]
    number = 0
    for of_span in np.split(order, np.cumsum(counts)[:-1]):
        sizes = _group_sizes(rng, len(of_span), small)
        groups[of_span] = rng.permutation(np.repeat(number + np.arange(len(sizes)), sizes))
        number += len(sizes)
    return groups


def _group_sizes(rng: np.random.Generator, rows: int, small: float) -> Ints:
    """Sizes of groups that hold so many rows together; the last large one is what is left."""
    singles = round(small * rows)
    medium = _sizes_of(rng, round(MEDIUM_SHARE * rows), MEDIUM_ROWS)
    large = _sizes_of(rng, rows - singles - int(medium.sum()), LARGE_ROWS)
    return np.concatenate([np.ones(singles, np.int64), medium, large])


def _sizes_of(rng: np.random.Generator, rows: int, mean: int) -> Ints:
    """Sizes from half the mean to one and a half, together `rows`."""
    half = mean // 2
    drawn = rng.integers(mean - half, mean + half + 1, 2 * rows // mean + 2)
    edges = np.minimum(np.cumsum(drawn), rows)
    sizes: Ints = np.diff(edges, prepend=0)
    return sizes[sizes > 0]


# ---- real disorder ---------------------------------------------------------------------------

MINUTES_OF_DAY = 24 * 60


def flights(days: int | None = None) -> tuple[Rows, Ints]:
    """The departures from New York in 2013: by scheduled time, in order of actual departure.

    Ticks are minutes since the start of the year, local clock time. A row comes when the plane
    leaves; flights that leave in the same minute come in order of schedule. Also the delays, in
    minutes (negative: it left early).

    days : only the first so many of the year
    """
    import zipfile

    import pyarrow as pa
    import pyarrow.csv
    from flight_data import package_file

    read = ("month", "day", "sched_dep_time", "dep_delay", "dep_time")
    with zipfile.ZipFile(package_file("flights.csv.zip")).open("flights.csv") as file:
        options = pa.csv.ConvertOptions(
            include_columns=read,
            column_types=dict.fromkeys(read, pa.int32()),
            strings_can_be_null=True,
        )
        table = pa.csv.read_csv(file, convert_options=options).drop_null()
    month, day, clock, delay = (table[n].to_numpy().astype(np.int64) for n in read[:4])
    first = np.array([np.datetime64(f"2013-{m:02}") for m in range(1, 13)], "M8[D]")
    date = (first - first[0]).astype(np.int64)[month - 1] + day - 1
    ts = date * MINUTES_OF_DAY + clock // 100 * 60 + clock % 100
    left = ts + delay
    order = np.lexsort((ts, left))
    if days is not None:
        order = order[ts[order] < days * MINUTES_OF_DAY]
    rows = Rows(ts[order], left[order], np.zeros(len(order), np.int64))
    return rows, delay[order]
