"""A window that forgets what was before a change: ADWIN as a policy of ``mta.Window``.

The window grows while the mean of its values stays what it is. Where the mean of its newest rows
differs from that of the rows before by more than chance allows, the older rows go. What chance
allows is the bound of Bifet and Gavaldà, Learning from time-changing data with adaptive windowing
(ADWIN), SDM 2007, §3: with n0 old and n1 new rows, 1/m = 1/n0 + 1/n1, the variance v of the window
and d = delta / n,

    |mean0 - mean1| > sqrt(2/m v ln(2/d)) + 2/(3m) ln(2/d)    (values between 0 and 1)

As in their ADWIN2, not every split of the window is tried, but one at every power of two: the
newest 32 rows, 64, 128 ... Those are windows of their own, by ``mta.last``. The oldest split at
which the means differ decides.

    python examples/adwin.py            # a table, and out/adwin.png
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import mta
from mta import agg

AGGS = {"n": agg.count(), "mean": agg.mean("x"), "var": agg.var("x", ddof=0)}
FEWEST = 32  # rows that a mean is taken of
SPLITS = 14  # the longest of the newest stretches has 32 * 2^13 rows


class Change(NamedTuple):
    """At row `at` so many rows went; the means of what went and of what stayed."""

    at: int
    gone: int
    before: float
    after: float


def bound(n0: int, n1: int, var: float, delta: float) -> float:
    """By how much two means of one distribution differ, but with probability delta."""
    m = 1 / (1 / n0 + 1 / n1)
    wide = log(2 * (n0 + n1) / delta)
    return sqrt(2 / m * var * wide) + 2 / (3 * m) * wide


class Adwin:
    """A window of values between 0 and 1 over which the mean does not change.

    Cost: a push into log2(n / 32) windows, O(1) combines each, and as many comparisons; what goes
    leaves in O(log n) combines however much it is.
    """

    def __init__(self, delta: float = 0.002) -> None:
        self.delta = delta
        self.recent: list[mta.Window] = []
        self.window = mta.Window(AGGS, self._goes)
        self.changes: list[Change] = []
        self.rows = 0
        self._gone = 0

    def push(self, x: float) -> Any:
        """The answers over the window that this value leaves."""
        for recent in self.recent:
            recent.push(x)
        if len(self.window) + 1 >= 2 * FEWEST << len(self.recent) and len(self.recent) < SPLITS:
            self._split_once_more(x)
        self.rows += 1
        self._gone = -1
        return self.window.push(x)

    def _split_once_more(self, x: float) -> None:
        """The newest 32 * 2^k rows as a window of their own. It fills with rows to come."""
        self.recent.append(mta.Window(AGGS, mta.last(FEWEST << len(self.recent))))
        self.recent[-1].push(x)

    def _goes(self, total: Any, old: Any) -> bool:
        """The policy. Where to split is found once a push, whatever `old` is: so it is monotone."""
        if self._gone < 0:
            self._gone = self._older(total)
        return bool(old.n <= self._gone)

    def _older(self, total: Any) -> int:
        """How many of the oldest rows have another mean than the newest ones."""
        for length, recent in reversed([*enumerate(self.recent)]):
            new = recent.result()
            n0 = total.n - new.n
            if new.n < FEWEST << length or n0 < FEWEST:
                continue
            mean = (total.n * total.mean - new.n * new.mean) / n0
            if abs(mean - new.mean) > bound(n0, new.n, total.var, self.delta):
                self.changes.append(Change(self.rows, n0, mean, new.mean))
                return int(n0)
        return 0


def stream(rows: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coin tosses whose odds change four times, once of them slowly; and the odds."""
    odds = np.full(rows, 0.5)
    fifth = rows // 5
    odds[fifth : 2 * fifth] = 0.7
    odds[2 * fifth : 3 * fifth] = 0.3
    odds[3 * fifth : 4 * fifth] = np.linspace(0.3, 0.8, fifth)
    odds[4 * fifth :] = 0.8
    return (np.random.default_rng(seed).random(rows) < odds).astype(np.float64), odds


def run(x: NDArray[np.float64], delta: float = 0.002) -> tuple[list[Change], NDArray[np.float64]]:
    """The changes that were found, and the window's rows and mean after every row."""
    adwin = Adwin(delta)
    told = np.empty((len(x), 2))
    for i, value in enumerate(x.tolist()):
        answers = adwin.push(value)
        told[i] = answers.n, answers.mean
    return adwin.changes, told


def draw(odds: NDArray[np.float64], told: NDArray[np.float64], path: Path) -> None:
    """The odds beside the window's mean, and below how long the window is."""
    import matplotlib as mpl

    mpl.use("agg")  # a file, no screen
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(9, 5), layout="constrained")
    above.plot(odds, color="#6b6f7b", label="odds")
    above.plot(told[:, 1], color="#c0392b", label="mean of the window")
    above.legend(frameon=False)
    below.plot(told[:, 0], color="#1f6f5c")
    below.set(xlabel="row", ylabel="rows in the window")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Toss coins, tell where the odds were seen to change, and draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000, help="tosses (20000)")
    parser.add_argument(
        "--delta", type=float, default=0.002, help="chance of a false alarm (0.002)"
    )
    parser.add_argument("--output", type=Path, default=Path("out"), help="directory (out)")
    options = parser.parse_args(arguments)
    x, odds = stream(options.rows)
    changes, told = run(x, options.delta)
    print(f"{'at row':>8} {'rows gone':>10} {'mean before':>12} {'and after':>10}")
    for change in changes:
        print(f"{change.at:8,} {change.gone:10,} {change.before:12.3f} {change.after:10.3f}")
    options.output.mkdir(parents=True, exist_ok=True)
    draw(odds, told, options.output / "adwin.png")
    print(f"Picture: {options.output / 'adwin.png'}")


if __name__ == "__main__":
    main()
