"""Memory, latency and time of eager and lazy aggregation and of AdaptWID (Figure 6-19).

Rows of groups as skewed as those of Table 6-2. Query 6-7: sums of a second, one source in order.
Query 6-8: counts of 10 s every second over the union of three: two main links of 4000 rows a second
each and a control link of few, which runs behind them. Punctuation every second, in 6-8 that of the
sources, melded. The thesis does not say how the rows of a group lie in time; here they lie within
one range of the window (`disorder.skewed_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import disorder
import numpy as np
from disorder import SMALL_SHARES, Punctuation, Rows
from paper_streams import Columns, Run, hopping, run_punctuated

from mta import agg

Progress = Callable[[str], None]
MS = 1000  # ticks in a second
RATE = 4000  # rows a second of a main link
CONTROL_SHARE = 0.01  # of its rate: "almost empty"
SKEWS = (0, 1, 2, 5, 10)  # seconds by which the control link runs behind


@dataclass(frozen=True)
class Cost:
    """What one run cost; of several repeats, the least time."""

    query: str
    data: str
    skew: float  # seconds
    plan: str
    peak_bytes: int
    milliseconds: float  # from a punctuation to its last answer, mean
    nanoseconds: float  # CPU a row
    answers: int


@dataclass(frozen=True)
class Input:
    """Rows, the punctuation for them, and the query."""

    columns: Columns
    told: Punctuation
    spec: object


def one_source(rng: np.random.Generator, rows: int, small: float) -> Input:
    """Query 6-7: the sum of the lengths of a second, every second, by group."""
    ts = disorder.times(rng, rows, MS / RATE)
    made = disorder.in_order(ts)
    groups = disorder.skewed_groups(rng, ts, small, MS)
    told = disorder.punctuate(made, MS)
    spec = hopping(MS, MS, by="g").watermark(None).agg(total=agg.sum("x"))
    return Input(_columns(rng, made, groups), told, spec)


def three_sources(rng: np.random.Generator, rows: int, small: float, skew: float) -> Input:
    """Query 6-8: the rows of 10 seconds, every second, by group, over three sources."""
    links = []
    for number, rate in enumerate((RATE, RATE, CONTROL_SHARE * RATE)):
        count = round(rows * rate / (RATE * (2 + CONTROL_SHARE)))
        links.append(disorder.in_order(disorder.times(rng, count, MS / rate), number))
    made = disorder.together(links, (0, 0, round(skew * MS)))
    groups = disorder.skewed_groups(rng, made.ts, small, 10 * MS)
    told = disorder.meld(disorder.punctuate_sources(made, MS), len(links))
    spec = hopping(10 * MS, MS, by="g").watermark(None).agg(n=agg.count())
    return Input(_columns(rng, made, groups), told, spec)


def _columns(rng: np.random.Generator, rows: Rows, groups: np.ndarray) -> Columns:
    lengths = rng.integers(40, 1500, len(rows))
    return {"ts": rows.ts, "g": groups, "x": lengths}


def measure(
    rows: int,
    plans: Sequence[str],
    data_sets: Sequence[str],
    skews: Sequence[float],
    repeats: int,
    progress: Progress,
) -> list[Cost]:
    """Query 6-7 and, without skew, 6-8 on every data set; 6-8 on the last one with every skew."""
    found = []
    for name in data_sets:
        made = one_source(np.random.default_rng(62), rows, SMALL_SHARES[name])
        found += _run_all("Q6-7", name, 0, made, plans, repeats, progress)
    cases = [(name, skews[0]) for name in data_sets]
    cases += [(data_sets[-1], skew) for skew in skews[1:]]
    for name, skew in cases:
        made = three_sources(np.random.default_rng(68), rows, SMALL_SHARES[name], skew)
        found += _run_all("Q6-8", name, skew, made, plans, repeats, progress)
    return found


def _run_all(
    query: str,
    data: str,
    skew: float,
    made: Input,
    plans: Sequence[str],
    repeats: int,
    progress: Progress,
) -> list[Cost]:
    rows = len(made.columns["ts"])
    costs, first = [], None
    for plan in plans:
        progress(f"{query} on {data}, control link {skew:g} s behind, plan {plan}")
        runs = [run_punctuated(made.spec, plan, made.columns, made.told) for _ in range(repeats)]
        least = min(runs, key=lambda run: run.seconds)
        # Once more for the memory, so that asking for it is in nobody's time.
        peak = run_punctuated(made.spec, plan, made.columns, made.told, watch=True).peak_bytes
        first = first or least
        _check_same(first, least, plan)
        costs.append(
            Cost(
                query, data, skew, plan, peak, 1e3 * min(run.latency for run in runs),
                1e9 * least.seconds / rows, len(least.answers["end"]),
            )
        )  # fmt: skip
    return costs


def _check_same(first: Run, other: Run, plan: str) -> None:
    """All plans must answer alike, whatever the order of groups within a window."""
    orders = [np.lexsort((run.answers["g"], run.answers["end"])) for run in (first, other)]
    for name in first.answers:
        mine, theirs = (r.answers[name][o] for r, o in zip((first, other), orders, strict=True))
        if not np.array_equal(mine, theirs):
            raise AssertionError(f"plan {plan} answers otherwise: {name}")
