"""Aggregates of windows on a store whose partials can't be taken out of a total: var, std, skew,
kurt, cov, corr, slope, weighted_mean, product, geometric_mean, first, last, arg_min and arg_max.

A pane has a partial of fixed size for each of them, and those of the panes inside are joined by two
stacks (`front_back`), like extremes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mta._folds import Fold, PlacedKernel
from mta._halves import HalvesKernel
from mta._kernel import Counter
from mta._paged_kernels import FoldedHalves, FoldedSpreads
from mta.engine import Ints
from mta.frames import Answer
from mta.kernels import Columns, answer_room, make_kernel
from mta.plan import Output, Plan, State
from mta.row_blocks import Arrays
from mta.slider import AnswerOverflowError
from mta.stored_kinds import (
    SEQ,
    TS,
    SomeAnswers,
    answer_column,
    is_folded_for,
    of_questions,
    value_column,
)

Parts = NDArray[np.int64]  # by record and word
# Of 8 bytes, of a partial of each state, at most.
MOST_WORDS = {"moments": 7, "powers": 12, "pairs": 16, "weighted": 16, "products": 4}
MOST_WORDS |= {"ends": 8, "arg": 12}
_FEW = 1024  # partials, before which they are not joined


class Folds(SomeAnswers):
    """The partials of some states of a plan, side by side in one array of words."""

    def __init__(self, plan: Plan, types: Columns) -> None:
        super().__init__(plan, types, is_folded_for)
        self.folds = [Fold(self._kernel(state)) for state in self.states]
        for state, fold in zip(self.states, self.folds, strict=True):
            if fold.words > MOST_WORDS[state.name]:
                raise ValueError(f"a partial of {state.name} has {fold.words} words")
        ends = np.cumsum([0, *(fold.words for fold in self.folds)]).tolist()
        self.places = [slice(a, b) for a, b in pairwise(ends)]
        self.width: int = ends[-1]

    def __bool__(self) -> bool:
        return bool(self.states)

    def _kernel(self, state: State) -> Any:
        outputs, counter = self.plan.asked(state), Counter([])
        source = self.types[state.feeds[0].column].source if state.feeds else None
        if state.name == "moments":
            wanted = [(o.needed.fn, o.needed.ddof) for o in outputs]
            return FoldedSpreads(counter, "moments", str(source), "propagate", wanted)
        if state.name not in ("ends", "arg"):
            halves = cast(HalvesKernel, make_kernel(state, outputs, self.types, counter))
            return FoldedHalves(counter, halves)
        return PlacedKernel(counter, source, state.nan, [o.aggregate.fn for o in outputs])

    def nothing(self, n: int) -> Parts:
        """So many partials of no rows."""
        parts = np.zeros((n, self.width), np.int64)
        for fold, place in self._each():
            fold.clear(parts[:, place])
        return parts

    def _each(self) -> zip[tuple[Fold, slice]]:
        return zip(self.folds, self.places, strict=True)

    def of_rows(
        self, columns: Arrays, counted: Callable[[int], Ints], order: Ints, edges: Ints
    ) -> Parts:
        """The partial of each stretch of rows in this order.

        counted : gives 1 for each row that counts for an input, by the number of this
        """
        parts = np.empty((len(edges) - 1, self.width), np.int64)
        for state, fold, place in zip(self.states, self.folds, self.places, strict=True):
            counts = counted(self.plan.inputs.index(state.input))[order].astype(np.uint8)
            names = [value_column(name) for name in state.input.columns]
            if state.name in ("ends", "arg"):
                names[1:1] = [TS, SEQ]
            mine = [np.ascontiguousarray(columns[name][order]) for name in names]
            fold.fold(mine, None if counts.all() else counts, edges, parts[:, place])
        return parts

    def join(self, table: Parts, codes: Ints, parts: Parts) -> None:
        """Join partials to those that a table has for their groups."""
        for fold, place in self._each():
            fold.join(table[:, place], codes, parts[:, place])

    def walk_back(self, table: Parts, codes: Ints, parts: Parts) -> tuple[Ints, Parts]:
        """The same, from the last to the first; and what is to be put back when they leave again:
        the numbers of the partials, falling, and what the table had before each."""
        before = np.empty((len(codes), self.width), np.int64)
        for fold, place in self._each():
            fold.walk_back(table[:, place], codes, parts[:, place], before[:, place])
        return np.arange(len(codes))[::-1], before

    def answers(self, parts: Parts, counts: Callable[[State], Ints]) -> dict[str, NDArray[Any]]:
        """What each output is of partials.

        counts : gives how many rows each has that count for a state

        Raises
        ------
        AnswerOverflowError
            The product of integers of one does not fit.
        """
        made: dict[str, NDArray[Any]] = {}
        for state, fold, place in zip(self.states, self.folds, self.places, strict=True):
            outputs = self.plan.asked(state)
            rooms = [answer_room(output, self.types, len(parts)) for output in outputs]
            mine = np.ascontiguousarray(parts[:, place])
            failed = fold.lower(mine, counts(state), rooms)
            if failed >= 0:
                product = next(o for o in outputs if o.aggregate.fn == "product")
                raise AnswerOverflowError(product, failed)
            made |= of_questions(self.plan, state, rooms)
        return made

    def column(self, output: Output, cells: list[NDArray[Any]], counts: Ints) -> Answer:
        """The column of an answer, of windows one after the other."""
        values = np.concatenate([answer_room(output, self.types, 0), *cells])
        if not output.aggregate.answers_rows:
            return answer_column(output, values, counts)
        like = self.types[output.aggregate.columns[0]]
        assert like.values is not None  # others have codes
        return answer_column(output, values.view(like.values.dtype), counts, like)


class FoldedPanes:
    """Partials by pane and group, in memory.

    Memory: of a pane and group one partial, and while rows come up to twice as many.
    """

    def __init__(self, folds: Folds) -> None:
        self.folds = folds
        none = np.zeros(0, np.int64)
        self.at, self.codes, self.parts = none, none, folds.nothing(0)  # rising
        self.more: list[tuple[Ints, Ints, Parts]] = []
        self.count = 0  # of those in `more`

    def add(self, at: Ints, codes: Ints, parts: Parts) -> None:
        """Take partials of panes and groups."""
        if not len(at):
            return
        self.count += len(at)
        while self.more and len(self.more[-1][0]) <= len(at):  # so that they are few
            both = zip(self.more.pop(), (at, codes, parts), strict=True)
            at, codes, parts = (np.concatenate(each) for each in both)
        self.more.append((at, codes, parts))
        if self.count > max(_FEW, len(self.at)):
            self._settle()

    def _settle(self) -> None:
        """One partial for each pane and group, in order of both."""
        if not self.more:
            return
        every = [(self.at, self.codes, self.parts), *self.more]
        at, codes, parts = (np.concatenate(each) for each in zip(*every, strict=True))
        order, edges = stretches(at, codes)
        first = order[edges[:-1]]
        table = parts[first]
        others = np.ones(len(order), np.bool_)
        others[edges[:-1]] = False
        numbers = np.repeat(np.arange(len(first)), np.diff(edges))[others]
        self.folds.join(table, numbers, parts[order[others]])
        self.at, self.codes, self.parts = at[first], codes[first], table
        self.more, self.count = [], 0

    def beside(self, at: Ints, codes: Ints) -> Parts:
        """The partials of neighbouring panes with all their groups, which are given in any order;
        where one comes again, those of no rows."""
        parts = self.folds.nothing(len(at))
        if not self.folds or not len(at):
            return parts
        self._settle()
        order, edges = stretches(at, codes)
        first = order[edges[:-1]]
        start = int(np.searchsorted(self.at, at[first[0]]))
        mine = slice(start, start + len(first))
        if not (self.at[mine] == at[first]).all() or not (self.codes[mine] == codes[first]).all():
            raise ValueError("other panes and groups than those that are held")
        parts[first] = self.parts[mine]
        return parts

    def between(self, low: int, high: int) -> tuple[Ints, Parts]:
        """The groups and partials of the panes from low to high."""
        self._settle()
        some = slice(*np.searchsorted(self.at, [low, high]).tolist())
        return self.codes[some], self.parts[some]

    def of_group(self, code: int, at: Ints) -> Parts:
        """The partials of a group in these panes, which rise and are all that it has from the first
        to the last; where one comes again, those of no rows."""
        made = self.folds.nothing(len(at))
        if not self.folds or not len(at):
            return made
        for panes, codes, parts in [(self.at, self.codes, self.parts), *self.more]:
            mine = np.flatnonzero((codes == code) & (panes >= at[0]) & (panes <= at[-1]))
            self.folds.join(made, np.searchsorted(at, panes[mine]), parts[mine])
        return made

    def drop(self, before: int) -> None:
        """Let go of the panes before this one."""
        self._settle()
        first = int(np.searchsorted(self.at, before))
        self.at, self.codes = self.at[first:].copy(), self.codes[first:].copy()
        self.parts = self.parts[first:].copy()

    def renumber(self, new: NDArray[np.int32]) -> None:
        """Code i is new[i], which rises with it."""
        self._settle()
        self.codes = new[self.codes].astype(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        word = 8 * (2 + self.folds.width)
        return word * (len(self.at) + self.count)

    def to_parts(self) -> list[bytes]:
        """Everything, as bytes; what `fill` takes."""
        self._settle()
        return [self.at.tobytes(), self.codes.tobytes(), self.parts.tobytes()]

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave. ValueError: they do not fit."""
        at, codes, words = (np.frombuffer(part, np.int64) for part in parts)
        self.at, self.codes = at, codes
        self.parts = words.reshape(len(at), self.folds.width).copy()
        if len(at) != len(codes) or (codes < 0).any():
            raise ValueError("panes, groups and partials do not fit")


def stretches(at: Ints, codes: Ints) -> tuple[Ints, Ints]:
    """The order of rows by panes and groups, and where in it one of these begins."""
    order: Ints = np.lexsort((codes, at))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(at[order]) != 0) | (np.diff(codes[order]) != 0)
    return order, np.append(np.flatnonzero(new), len(order))
