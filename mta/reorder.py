"""Reorder: rows that come in any order wait here until the watermark has come to their time.

Rows lie where they came. What is kept in order are runs of (time, place), a run a push: as in a
log-structured merge, a run is merged into the one before it when that is not twice as long any
more. So a row is moved O(log(rows waiting / rows a push)) times before it goes out, 16 bytes each
time, and a push costs nothing for rows that go on waiting. Runs that are let go of in part lose
their front; what goes out is merged from the fronts of O(log) runs. ADR 7 has the alternatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mta._keys import first_fall, sort_times
from mta._reorder import merge_runs
from mta._vector import Vector
from mta.engine import Ints
from mta.plan import Plan
from mta.rows import Chunk, KeptRows, Mask

_NO_ROWS = np.zeros(0, np.int64)
_SPARE = 1024  # places of rows that are gone are given back when there are more than this


class Arrived(NamedTuple):
    """Rows that are taken in.

    keys : numbers of their keys; None where there is one
    arrivals : their numbers among all rows that were pushed
    picked : where an answer is wanted; None: everywhere, or their order tells
    """

    ts: Ints | None
    keys: Ints | None
    arrivals: Ints
    picked: Mask | None
    chunk: Chunk

    def take(self, rows: Ints) -> Arrived:
        """Some of them, in this order."""
        return Arrived(
            None if self.ts is None else self.ts[rows],
            None if self.keys is None else self.keys[rows],
            self.arrivals[rows],
            None if self.picked is None else self.picked[rows],
            self.chunk.take(rows),
        )

    def slice(self, start: int, stop: int) -> Arrived:
        """The rows from `start` to before `stop`, without a copy."""
        if start == 0 and stop == len(self.arrivals):
            return self
        return Arrived(
            None if self.ts is None else self.ts[start:stop],
            None if self.keys is None else self.keys[start:stop],
            self.arrivals[start:stop],
            None if self.picked is None else self.picked[start:stop],
            self.chunk.slice(start, stop),
        )


class Run(NamedTuple):
    """Rows by (time, arrival): their times and their numbers."""

    ts: Ints
    rows: Ints


class Reorder:
    """Rows that wait. Memory: those rows, and at most as many again that are gone."""

    def __init__(self, plan: Plan, keyed: bool, picks: bool) -> None:
        self.rows = KeptRows(plan)
        self.keys = Vector() if keyed else None
        self.arrivals = Vector()
        self.picked = Vector(False) if picks else None
        self.runs: tuple[Run, ...] = ()  # in order of arrival

    def __len__(self) -> int:
        return sum(len(run.ts) for run in self.runs)

    def add(self, new: Arrived) -> None:
        """More rows, which have come after all others."""
        ts, first = new.ts, self.rows.end
        assert ts is not None
        if not len(ts):
            return
        self.rows.append(new.chunk)
        self.arrivals.extend(new.arrivals)
        if self.keys is not None and new.keys is not None:
            self.keys.extend(new.keys)
        if self.picked is not None and new.picked is not None:
            self.picked.extend(new.picked)
        run = Run(ts, np.arange(first, first + len(ts)))
        if first_fall(ts) >= 0:
            order = sort_times(ts)
            run = Run(ts[order], order + first)
        self.runs = (*self.runs, run)

    def release(self, until: int) -> Arrived | None:
        """The rows with times up to this, in order of (time, arrival); they wait no more."""
        gone, left = [], []
        for run in self.runs:
            cut = int(run.ts.searchsorted(until, side="right"))
            if cut:
                gone.append(Run(run.ts[:cut], run.rows[:cut]))
            if cut < len(run.ts):
                left.append(Run(run.ts[cut:], run.rows[cut:]) if cut else run)
        self.runs = tuple(left)
        if not gone:
            return None
        merged = gone.pop()
        while gone:
            merged = _merge(gone.pop(), merged)
        at = merged.rows - self.rows.first
        return Arrived(
            merged.ts,
            None if self.keys is None else self.keys.view()[at],
            self.arrivals.view()[at],
            None if self.picked is None else self.picked.view()[at].view(np.bool_),
            self.rows.chunk(at),
        )

    def place(self) -> tuple[int, tuple[Run, ...]]:
        """Where it stands; `go_back` returns to it as long as `settle` has not been called."""
        return self.rows.end, self.runs

    def go_back(self, place: tuple[int, tuple[Run, ...]]) -> None:
        """Undo everything since it stood at `place`."""
        end, self.runs = place
        surplus = self.rows.end - end
        self.rows.take_back(surplus)
        for vector in self.beside():
            vector.take_back(surplus)

    def settle(self) -> None:
        """Merge runs, and let go of the places of rows that are gone."""
        runs = list(self.runs)
        while len(runs) > 1 and len(runs[-2].ts) < 2 * len(runs[-1].ts):
            newest = runs.pop()
            runs[-1] = _merge(runs[-1], newest)
        self.runs = tuple(runs)
        live = len(self)
        if not live:
            self._drop_to(self.rows.end)
        elif self.rows.end - self.rows.first > 2 * live + _SPARE:
            self._drop_to(min(int(run.rows.min()) for run in runs))
            if self.rows.end - self.rows.first > 2 * live + _SPARE:
                self._compact()  # a row from far ahead would hold all that came after it

    def key_numbers(self) -> set[int]:
        """The numbers of the keys that have rows here."""
        if self.keys is None or not len(self):
            return set()
        self._compact()
        return set(self.keys.view().tolist())

    def renumber(self, numbers: Ints) -> None:
        """Give keys other numbers; those of keys without rows here may be any."""
        if self.keys is not None and len(self):
            self._compact()
            keys = self.keys.view()
            keys[:] = numbers[keys]

    def in_order_of_arrival(self) -> Ints:
        """The times of the rows that wait, after `settle` and without rows that are gone."""
        self._compact()
        ts = np.empty(len(self), np.int64)
        for run in self.runs:
            ts[run.rows - self.rows.first] = run.ts
        return ts

    def adopt(self, ts: Ints) -> None:
        """Go on with rows that have been put in their places, and have these times."""
        order = sort_times(ts)
        self.runs = (Run(ts[order], order + self.rows.first),) if len(ts) else ()

    def beside(self) -> list[Vector]:
        """What is kept of every row beside what kernels read."""
        return [v for v in (self.keys, self.arrivals, self.picked) if v is not None]

    def _drop_to(self, row: int) -> None:
        self.rows.drop_to(row)
        for vector in self.beside():
            vector.drop_to(row)

    def _compact(self) -> None:
        if self.rows.end - self.rows.first == len(self):
            return
        first = self.rows.first
        live = np.sort(np.concatenate([_NO_ROWS, *(run.rows for run in self.runs)])) - first
        self.rows.keep(live)
        for vector in self.beside():
            vector.keep(live)
        numbers = np.empty(0 if not len(live) else int(live[-1]) + 1, np.int64)
        numbers[live] = np.arange(first, first + len(live))
        self.runs = tuple(run._replace(rows=numbers[run.rows - first]) for run in self.runs)


def _merge(old: Run, new: Run) -> Run:
    if old.ts[-1] <= new.ts[0]:
        return Run(np.concatenate([old.ts, new.ts]), np.concatenate([old.rows, new.rows]))
    return Run(*merge_runs(old.ts, old.rows, new.ts, new.rows))
