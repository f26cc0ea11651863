"""Quantiles, the greatest and the most frequent values of windows on a store, and what depends on
the order of rows: they are sorted anew for every window, in bounded memory (`sorted_runs`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mta._quantiles import keys_of, lower, places_of, values_of
from mta.engine import Ints
from mta.frames import Answer
from mta.kernels import Columns
from mta.plan import Output, Plan, State
from mta.row_blocks import Arrays
from mta.sorted_runs import (
    CODE,
    COLUMNS,
    COUNT,
    KEY,
    PLACE,
    RAW,
    TIME,
    SortedRuns,
)
from mta.stored_kinds import (
    SEQ,
    TS,
    SomeAnswers,
    WindowLists,
    answer_column,
    is_ordered_for,
    is_sorted_for,
    value_column,
)
from mta.stored_ordered import OrderedAnswers

_NAN = 0x7FF8000000000000
_COUNTS = ("count_distinct", "longest_run", "arg_min", "arg_max")


@dataclass
class Ranked:
    """The values at some places among all, in order of groups and keys, as these go by."""

    wanted: Ints  # places, which rise
    cells: Ints = field(init=False)
    seen: int = 0
    found: int = 0

    def __post_init__(self) -> None:
        self.cells = np.zeros(len(self.wanted), np.int64)

    def take(self, tallies: Arrays) -> None:
        """The next tallies."""
        ends = self.seen + np.cumsum(tallies[COUNT])
        to = int(np.searchsorted(self.wanted, ends[-1]))
        at = np.searchsorted(ends, self.wanted[self.found : to], "right")
        self.cells[self.found : to] = tallies[KEY][at]
        self.seen, self.found = int(ends[-1]), to


class Frequent:
    """The most frequent values of groups, as their tallies go by; of equals the first to come."""

    def __init__(self, most: int, groups: int) -> None:
        self.most = most
        self.distinct = np.zeros(groups, np.int64)
        self.kept: Arrays = {name: np.zeros(0, np.int64) for name in COLUMNS}

    def take(self, tallies: Arrays) -> None:
        """The next tallies, no value of which has come before."""
        np.add.at(self.distinct, tallies[CODE], 1)
        if not self.most:
            return
        again = int(np.searchsorted(self.kept[CODE], tallies[CODE][0]))  # that group goes on
        both = {n: np.concatenate([self.kept[n][again:], tallies[n]]) for n in COLUMNS}
        order = np.lexsort((both[PLACE], both[TIME], -both[COUNT], both[CODE]))
        codes = both[CODE][order]
        rank = np.arange(len(codes)) - np.searchsorted(codes, codes)
        best = order[rank < self.most]
        self.kept = {n: np.concatenate([self.kept[n][:again], both[n][best]]) for n in COLUMNS}

    def cells(self, most: int) -> WindowLists:
        """Of every group the so many most frequent values."""
        codes = self.kept[CODE]
        rank = np.arange(len(codes)) - np.searchsorted(codes, codes)
        first = rank < most
        lengths = np.bincount(codes[first], minlength=len(self.distinct))
        return WindowLists(self.kept[RAW][first], lengths)


class SortedAnswers(SomeAnswers):
    """The answers of some states of a plan over windows whose rows come by pieces."""

    def __init__(self, plan: Plan, types: Columns) -> None:
        super().__init__(plan, types, is_sorted_for)
        self.ordered = OrderedAnswers(plan, types)
        self.written = self.read = 0

    def of_window(
        self,
        state: State,
        pieces: Iterator[tuple[Arrays, Ints, Ints, Ints]],
        runs: SortedRuns,
        counts: Ints,
    ) -> dict[str, WindowLists]:
        """The answers of one state.

        pieces : records, their groups, which of them are inside, and of these 1 for each that
            counts
        counts : how many of them each group has
        """
        runs.apart = is_ordered_for(state)
        for columns, codes, rows, counted in pieces:
            if state.name == "arg":  # rows that do not count lie between those that do
                runs.add(self._tallies(state, columns, codes, rows, counted))
            else:
                some = rows[counted == 1]
                runs.add(self._tallies(state, columns, codes, some, np.ones(len(some), np.int64)))
        if runs.apart:
            answers = self.ordered.of_rows(state, runs.merged(), counts)
        else:
            made = self._ranks if state.name == "ranks" else self._frequent
            answers = made(state, runs, counts)
        self.written, self.read = self.written + runs.written, self.read + runs.read
        runs.clear()
        return answers

    def _tallies(
        self, state: State, columns: Arrays, codes: Ints, rows: Ints, counted: Ints
    ) -> Arrays:
        name = state.input.columns[0]
        raw = np.ascontiguousarray(columns[value_column(name)][rows])
        none = np.zeros(len(rows), np.int64)
        made = {CODE: codes[rows], KEY: raw, COUNT: counted, TIME: none, PLACE: none, RAW: raw}
        if is_ordered_for(state):
            return {**made, KEY: columns[TS][rows], PLACE: columns[SEQ][rows]}
        if state.name == "ranks":
            return {**made, KEY: keys_of(raw, self.types[name].source), RAW: none}
        if self.types[name].kind == "float":  # NaN is one value, and so is zero
            values = raw.view(np.float64)
            made[KEY] = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
        return {**made, TIME: columns[TS][rows], PLACE: columns[SEQ][rows]}

    def _ranks(self, state: State, runs: SortedRuns, counts: Ints) -> dict[str, WindowLists]:
        source = self.types[state.input.columns[0]].source
        ends = np.cumsum(counts)
        starts, greatest = ends - counts, np.maximum(ends - 1, 0)
        asked: dict[str, Any] = {}
        for output in self.plan.of_state(state):
            a = output.aggregate
            if a.fn == "top_k":
                lengths = np.minimum(counts, a.k)
                within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
                asked[output.name] = np.repeat(ends, lengths) - 1 - within, lengths
            else:
                first, second, share = places_of(a.q, a.interp, counts)
                asked[output.name] = starts + first, starts + second, share
        return self._lowered(state, runs, source, counts, greatest, asked)

    def _lowered(
        self, state: State, runs: SortedRuns, source: str, counts: Ints, greatest: Ints,
        asked: dict[str, Any],
    ) -> dict[str, WindowLists]:  # fmt: skip
        wanted = [greatest]
        for one in asked.values():
            wanted += one[:1] if len(one) == 2 else one[:2]
        ranked = Ranked(np.unique(np.concatenate(wanted)))
        for tallies in runs.merged():
            ranked.take(tallies)
        cells = values_of(ranked.cells, source)

        def at(places: Ints) -> Ints:
            return cells[np.minimum(np.searchsorted(ranked.wanted, places), len(cells) - 1)]

        made = {}
        for output in self.plan.of_state(state):
            a, one = output.aggregate, asked[output.name]
            if a.fn == "top_k":
                made[output.name] = WindowLists(at(one[0]), one[1])
                continue
            answer = lower(a.interp, source, at(one[0]), at(one[1]), one[2])
            if source == "float" and state.nan == "propagate":
                nan = np.isnan(at(greatest).view(np.float64)) & (counts > 0)
                answer[nan] = _NAN
            made[output.name] = WindowLists(answer)
        return made

    def _frequent(self, state: State, runs: SortedRuns, counts: Ints) -> dict[str, WindowLists]:
        outputs = self.plan.of_state(state)
        most = max((_listed(output) for output in outputs), default=0)
        frequent = Frequent(most, len(counts))
        for tallies in runs.merged():
            frequent.take(tallies)
        made = {}
        for output in outputs:
            if output.aggregate.fn == "count_distinct":
                made[output.name] = WindowLists(frequent.distinct)
            elif output.aggregate.fn == "mode":
                first = frequent.cells(1)
                assert first.lengths is not None
                cells = np.zeros(len(counts), np.int64)
                cells[first.lengths > 0] = first.cells
                made[output.name] = WindowLists(cells)
            else:
                made[output.name] = frequent.cells(output.aggregate.k)
        return made

    def column(
        self, output: Output, cells: list[Ints], lengths: list[Ints | None], counts: Ints
    ) -> Answer:
        """The column of an answer, of windows one after the other."""
        a = output.aggregate
        values = np.concatenate([np.zeros(0, np.int64), *cells])
        like = self.types[a.columns[0]]
        if a.fn in ("top_k", "most_common", "list"):
            valid = counts >= output.need
            sizes = np.concatenate([counts[:0], *(each for each in lengths if each is not None)])
            values = values[np.repeat(valid, sizes)].view(_dtype(like))
            known = None if valid.all() else valid
            return Answer(output.name, values, known, like, lengths=np.where(valid, sizes, 0))
        if a.fn in _COUNTS:
            return answer_column(output, values, counts)
        if a.fn != "mode" and not a.keeps_type:
            return answer_column(output, values.view(np.float64), counts)
        return answer_column(output, values.view(_dtype(like)), counts, like)


def _dtype(like: Any) -> Any:
    return like.values.dtype


def _listed(output: Output) -> int:
    return {"count_distinct": 0, "mode": 1}.get(output.aggregate.fn, output.aggregate.k)
