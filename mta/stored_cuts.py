"""Aggregates of windows on a store whose answers depend on where a window is cut in two: users'
monoids, sketches, and numerics="fast".

The rows of a window are sorted by group and time, and read a page at a time by the kernels of
trailing windows in pages (`paged_kernels`); bounds tell them the cuts that windows in memory have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mta._bounds import GivenBounds
from mta._paged import GivenCounter
from mta._sketch_kernel import Items
from mta.engine import Ints
from mta.frames import Answer, Column
from mta.paged_kernels import Paged, make_paged_kernel
from mta.plan import Feed, Input, Plan, State
from mta.row_blocks import Arrays
from mta.rows import Mask
from mta.shelf import AT
from mta.slider import KeyedAnswers, RawAnswers, Slider, reordered
from mta.sorted_runs import CODE, KEY, PLACE, SortedPages, SortedRuns
from mta.stored_kinds import SEQ, TS, SomeAnswers, is_cut_for, value_column
from mta.stored_values import StoredValues

_HEAD = "head"  # for which inputs a row counts
_NONE = np.zeros(0, np.int64)
Read = tuple[list[NDArray[Any]], NDArray[np.uint8] | None, int]


@dataclass
class CutWindow:
    """The answers of a window, and which of them is that of each of its groups."""

    answers: KeyedAnswers
    places: Ints


class SortedRows:
    """The rows of a window by group and time: to kernels, rows that are all in pages.

    counted : gives 1 for each record that counts for an input, by the number of this
    """

    def __init__(
        self, plan: Plan, pages: SortedPages, rows: int, counted: Callable[[Arrays, int], Ints],
        values: StoredValues,
    ) -> None:  # fmt: skip
        self.first = rows
        self._plan, self._pages, self._counted = plan, pages, counted
        self._values = values

    def feed(self, feed: Feed) -> NDArray[Any]:
        """Of the rows that are in no page."""
        return _NONE

    def items(self, feed: Feed) -> Items | None:
        """What its cells stand for; None: they are values."""
        return self._values.items(feed)

    def valid(self, source: Input) -> Mask | None:
        """As `feed`."""
        return None

    def loader(self, state: State, number: int) -> Callable[[int, int], Read]:
        """What the kernel of a state, whose input has this number, reads pages by."""
        at_hand: Read = [], None, -1

        def load(start: int, stop: int) -> Read:
            nonlocal at_hand
            first, page = self._pages.read(start)
            if first != at_hand[2]:
                counted = self._counted(page, number)
                feeds = [_cells_of(feed, page) for feed in state.feeds]
                if counted.all():
                    at_hand = feeds, None, first
                else:
                    feeds = [np.where(counted, cells, 0) for cells in feeds]
                    at_hand = feeds, counted.astype(np.uint8), first
            return at_hand

        return load

    def look_up(self, column: Column, rows: Ints) -> tuple[Column, Ints]:
        """The values of a column in these rows, and where each of them is."""
        found, at = np.unique(rows, return_inverse=True)
        cells, done = np.empty(len(found), np.int64), 0
        while done < len(found):
            first, page = self._pages.read(int(found[done]))
            mine = page[value_column(column.name)]
            to = int(np.searchsorted(found, first + len(mine)))
            cells[done:to] = mine[found[done:to] - first]
            done = to
        assert column.values is not None  # others have codes
        return column._replace(values=cells.view(column.values.dtype), valid=None), at


class CutAnswers(SomeAnswers):
    """The answers of some states of a plan over windows whose rows come by pieces.

    values : of the columns
    """

    def __init__(self, plan: Plan, values: StoredValues) -> None:
        super().__init__(plan, values.types, is_cut_for)
        self.frame, self.known = values.frame, values
        self.mine = Plan(tuple(self.outputs))
        read = dict.fromkeys(f.column for f in self.mine.feeds if not f.takes_sketches)
        self.values = tuple(map(value_column, read))
        self.columns = (CODE, KEY, PLACE, _HEAD, *self.values)  # of rows that are sorted
        self.written = self.read = 0

    def of_window(
        self,
        pieces: Iterator[tuple[Arrays, Ints, Ints]],
        runs: SortedRuns,
        cut: int | None,
        codes: Ints,
        counts: Callable[[Input], Ints],
        counted: Callable[[Arrays, int], Ints],
    ) -> CutWindow:
        """The answers of a window.

        pieces : records, their groups, and which of them are inside
        cut : the pane before which rows are in the older half; None: kernels choose
        codes : the groups of the window
        counts : gives how many rows of each of them count for an input
        counted : as that of `SortedRows`

        Raises
        ------
        AnswerOverflowError
            An answer does not fit its type; the window is the place among groups that rise.
        """
        order = np.argsort(codes)
        every, older = self._sorted_by(pieces, runs, cut, codes[order])
        ends = np.cumsum(every)
        lo = ends - every
        slider = Slider(self.mine, self.types, make_paged_kernel, GivenCounter)
        pages = runs.pages()
        rows = SortedRows(self.mine, pages, int(every.sum()), counted, self.known)
        for state, kernel in slider.kernels.items():
            load = rows.loader(state, self.plan.inputs.index(state.input))
            cast(Paged, kernel).open_pages(pages.bits, load)
        for source, counter in slider.counters.items():
            assert source is not None and isinstance(counter, GivenCounter)
            counter.give(counts(source)[order])
        bounds = GivenBounds(lo, ends, None if cut is None else lo + older)
        answers = KeyedAnswers(self.mine, self.types, len(codes))
        answers.run(slider, rows, bounds, self.types, rows.look_up)
        self.written, self.read = self.written + runs.written, self.read + runs.read
        runs.clear()
        return CutWindow(answers, np.argsort(order))

    def _sorted_by(
        self, pieces: Iterator[tuple[Arrays, Ints, Ints]], runs: SortedRuns, cut: int | None,
        groups: Ints,
    ) -> tuple[Ints, Ints]:  # fmt: skip
        """Sort the rows; how many each group has, and how many of them before the cut."""
        runs.apart = True
        every, older = np.zeros((2, len(groups)), np.int64)
        for columns, codes, inside in pieces:
            mine = codes[inside]
            at = np.searchsorted(groups, mine)
            every += np.bincount(at, minlength=len(groups))
            if cut is not None:
                before = at[columns[AT][inside] < cut]
                older += np.bincount(before, minlength=len(groups))
            made = {CODE: mine, KEY: columns[TS][inside], PLACE: columns[SEQ][inside]}
            runs.add({**made, **{n: columns[n][inside] for n in (_HEAD, *self.values)}})
        return every, older

    def answers(self, windows: list[CutWindow]) -> dict[str, Answer]:
        """The columns of these windows, one after the other."""
        if not windows:
            made = RawAnswers(self.mine, self.types, 0).answers()
            return {answer.name: answer for answer in made}
        starts = np.cumsum([0, *(len(window.places) for window in windows)])
        parts = [window.answers for window in windows]
        whole = KeyedAnswers(self.mine, self.types, int(starts[-1]))
        for output in self.mine.outputs:
            if output.name in whole.taken:
                whole.taken[output.name] = [one for p in parts for one in p.taken[output.name]]
            else:
                rooms = [part.raw.room(output) for part in parts]
                np.concatenate(rooms, out=whole.raw.room(output))
        for name in parts[0].raw.masks:
            whole.raw.masks[name] = np.concatenate([part.raw.masks[name] for part in parts])
            whole.holed |= {name for part in parts if name in part.holed}
        places = [window.places + start for window, start in zip(windows, starts, strict=False)]
        made = whole.answers(self.frame)
        return {answer.name: reordered(answer, np.concatenate(places)) for answer in made}


def _cells_of(feed: Feed, page: Arrays) -> Ints:
    return -1 - page[PLACE] if feed.takes_sketches else page[value_column(feed.column)]
