"""Accuracy and latency under disorder: punctuation against slack (Figures 6-11, 6-12, flights).

The latency of an answer is told on the clock of the stream, as in 6.1.5.2: from the arrival of the
punctuation that covers its window, which is when all of its rows have come, until it is given; 0 if
it is given before that. An answer by punctuation is given then: its latency is the time that it
takes to compute, which is told apart, for slack too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import disorder
import numpy as np
from buffering import Answers, Buffering
from disorder import Ints, Punctuation, Rows
from paper_streams import Columns, hopping, joined, part, run_punctuated

from mta import agg

Progress = Callable[[str], None]
PUNCTUATION = "punctuation"


@dataclass(frozen=True)
class Study:
    """One stream, one query, and the slacks to try. Lengths in ticks, of which `second` make a unit
    to show."""

    rows: Rows
    x: np.ndarray
    told: Punctuation
    range: int
    slide: int
    aggregate: str
    slacks: tuple[int, ...]
    drops: tuple[str, ...]
    unit: float = 1.0
    relative: bool = True  # errors are in percent of the true answer, not in its own unit

    @property
    def last_end(self) -> int:
        """The last window to look at: all later ones close by the end of the stream alone."""
        return int(self.rows.ts.max()) - max(self.slacks)


@dataclass(frozen=True)
class Outcome:
    """How good one way was: means over the windows."""

    way: str
    slack: float  # in units; nan: none
    error: float  # mean error; a missing answer is one of 100 %, or none in the answers' own unit
    wrong: float  # percent of the windows whose answer is not the true one, or missing
    latency: float  # in units: after punctuation
    age: float  # in units: after the window's end
    lost: float  # percent of the rows that are missing from a window
    milliseconds: (
        float  # CPU time from a punctuation, or a push that closes windows, to the answers
    )
    seconds: float  # CPU time of the run


def compare(study: Study, plans: Sequence[str], progress: Progress) -> list[Outcome]:
    """Punctuation by every plan, then every kind of slack."""
    end, truth = true_answers(study)
    found = []
    for plan in plans:
        progress(f"{PUNCTUATION}, plan {plan}")
        found.append(_by_punctuation(study, plan, end, truth))
    for drop in study.drops:
        for slack in study.slacks:
            progress(f"{drop} slack {slack / study.unit:g}")
            found.append(_by_slack(study, slack, drop, end, truth))
    return found


def columns_of(study: Study) -> Columns:
    """The rows in order of arrival."""
    return {"ts": study.rows.ts, "x": study.x}


def true_answers(study: Study) -> tuple[Ints, np.ndarray]:
    """The windows' ends, and the answers of a batch over all rows."""
    batch = _spec(study)(columns_of(study))
    some = batch["end"] <= study.last_end
    return batch["end"][some], batch["answer"][some].astype(float)


def _spec(study: Study) -> object:
    answer = agg.count() if study.aggregate == "count" else getattr(agg, study.aggregate)("x")
    return hopping(study.range, study.slide).watermark(None).agg(answer=answer)


def _by_punctuation(study: Study, plan: str, end: Ints, truth: np.ndarray) -> Outcome:
    run = run_punctuated(_spec(study), plan, columns_of(study), study.told)
    given = dict(zip(run.answers["end"].tolist(), run.answers["answer"].tolist(), strict=True))
    value = np.array([given.get(e, np.nan) for e in end.tolist()], float)
    arrives = _punctuated_at(study, end)
    return Outcome(
        f"{PUNCTUATION}, {plan}",
        np.nan,
        *_errors(study, value, truth),
        0.0,
        float(np.mean(arrives - end)) / study.unit,
        100 * run.late / len(study.rows),
        1e3 * run.latency,
        run.seconds,
    )


def _by_slack(study: Study, slack: int, drop: str, end: Ints, truth: np.ndarray) -> Outcome:
    op = Buffering(study.range, study.slide, slack, study.aggregate, drop)
    parts, spent = [], []
    # As many rows at a time as between two punctuations, so that both have the same pushes.
    for some, _ in study.told.parts(len(study.rows)):
        start = time.process_time()
        parts.append(op.push(study.rows.ts[some], study.x[some]))
        spent.append(time.process_time() - start)
    got = Answers.join([*parts, op.finish()])
    closing = [s for s, made in zip(spent, parts, strict=True) if len(made.end)]
    at = {e: i for i, e in enumerate(got.end.tolist())}
    index = np.array([at.get(e, -1) for e in end.tolist()])
    value = np.where(index >= 0, got.value[index], np.nan)
    some = index >= 0
    given = study.rows.arrives[got.after[index[some]] - 1]
    latency = np.maximum(given - _punctuated_at(study, end[some]), 0)
    return Outcome(
        f"{drop} slack",
        slack / study.unit,
        *_errors(study, value, truth),
        float(np.mean(latency)) / study.unit,
        float(np.mean(given - end[some])) / study.unit,
        100 * (op.dropped + op.partly_dropped) / len(study.rows),
        1e3 * float(np.mean(closing)),
        sum(spent),
    )


def _punctuated_at(study: Study, end: Ints) -> Ints:
    """When the punctuation came that covers each window."""
    told = study.told
    return told.arrives[np.searchsorted(told.value, end)]


def _errors(study: Study, value: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Mean error, and the percentage of wrong answers."""
    error = np.abs(value - truth)
    right = error <= 1e-12 * np.abs(truth)
    if study.relative:
        error = np.where(np.isnan(value), 1.0, error / np.where(right, 1.0, np.abs(truth))) * 100
    return float(np.nanmean(np.where(right, 0.0, error))), 100 * float(np.mean(~right))


# ---- the three streams -----------------------------------------------------------------------

MS = 1000  # ticks in a second of the band-disordered stream


def band_study(rng: np.random.Generator, rows: int) -> Study:
    """Figure 6-11: means of 64 s every 6.4 s, rows up to 3.2 s late; slacks of the caption.

    A row every 20 ms. The delays are exponential, of 0.4 s on average, and cut off at 3.2 s. Values
    are lengths of packets: most of 40, 576 or 1500 bytes.
    """
    made = disorder.band(rng, disorder.times(rng, rows, 20), 3200, mean=400)
    x = rng.choice([40.0, 576.0, 1500.0], rows, p=[0.6, 0.2, 0.2]) + rng.integers(0, 60, rows)
    slacks = (0, 320, 640, 1280, 2560, 3200)
    told = disorder.punctuate(made, 6400)
    both = ("consistent", "generous")
    return Study(made, x, told, 64 * MS, 6400, "mean", slacks, both, MS)


def block_study(rng: np.random.Generator, rows: int) -> Study:
    """Figure 6-12: counts of 600 s every 60 s, blocks of 490 s; slacks of the caption.

    Ten rows a second; punctuation after every block.
    """
    block = 490 * MS
    made = disorder.block_sorted(rng, disorder.times(rng, rows, 100), block)
    told = disorder.punctuate(made, block)
    seconds = (0, 54.4, 109.1, 218.2, 327.3, 434.2, 490.9, 600)
    slacks = tuple(round(s * MS) for s in seconds)
    return Study(made, np.ones(rows), told, 600 * MS, 60 * MS, "count", slacks, ("consistent",), MS)


HOUR = 60  # ticks in an hour of the flights


def flight_study(days: int | None) -> Study:
    """Means of the delays of flights scheduled in 6 hours, every hour, as the flights leave.

    An airport knows which of the flights scheduled before some hour are still to leave, so the
    punctuation is one that it could give.
    """
    rows, delay = disorder.flights(days)
    slacks = (0, 10, 30, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 22 * HOUR)
    told = disorder.punctuate(rows, HOUR)
    both = ("consistent", "generous")
    x = delay.astype(float)
    return Study(rows, x, told, 6 * HOUR, HOUR, "mean", slacks, both, HOUR, relative=False)


@dataclass(frozen=True)
class Revised:
    """Answers that are given early, and again as late rows come."""

    answers: int
    windows: int
    first_error: float
    last_error: float


def revise(study: Study, delay: int, within: int) -> Revised:
    """What a stream answers that waits for `delay` only, but takes late rows in for a while."""
    spec = hopping(study.range, study.slide).watermark(f"{delay}i")
    spec = spec.late("revise", within=f"{within}i")
    op = spec.agg(answer=agg.mean("x")).stream()
    columns, told = columns_of(study), study.told
    parts = [op.push(part(columns, some)) for some, _ in told.parts(len(study.rows))]
    got = joined([*parts, op.finish()])
    end, truth = true_answers(study)
    first, last = (_picked(got, end, newest) for newest in (False, True))
    errors = (_errors(study, value, truth)[0] for value in (first, last))
    return Revised(len(got["end"]), len(np.unique(got["end"])), *errors)


def _picked(got: Columns, end: Ints, newest: bool) -> np.ndarray:
    """The first or the last answer of every window."""
    order = slice(None) if newest else slice(None, None, -1)
    pairs = zip(got["end"][order].tolist(), got["answer"][order].tolist(), strict=True)
    given = dict(pairs)
    return np.array([given.get(e, np.nan) for e in end.tolist()])
