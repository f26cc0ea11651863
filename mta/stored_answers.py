"""From what windows on a store come to, to columns of answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._partials import Partials
from mta.engine import Ints
from mta.frames import Answer
from mta.pane_answers import Measures, PaneAnswers
from mta.plan import Input, Output, Plan, State
from mta.rows_inside import RowsInside
from mta.slider import AnswerOverflowError
from mta.sorted_runs import COLUMNS, SortedRuns
from mta.stored_cuts import CutAnswers, CutWindow
from mta.stored_folds import Folds, Parts
from mta.stored_holistic import SortedAnswers
from mta.stored_kinds import WindowLists, summed_plan
from mta.stored_place import Place
from mta.stored_values import StoredValues


@dataclass
class Answered:
    """Partials of windows and groups: their places are numbers of these windows. What was folded is
    beside them; what was found in rows is of the first window only, and what was found by sorting
    of all groups."""

    made: Partials
    wid: Ints
    folded: dict[str, NDArray[Any]] = field(default_factory=dict)
    sorted: dict[str, WindowLists] = field(default_factory=dict)
    cut: CutWindow | None = None


class StoredAnswers:
    """The answers of a plan: those that are summed, folded, and found in all rows of a window.

    values : of the columns; place : where rows are sorted
    """

    def __init__(
        self, plan: Plan, measures: Measures, values: StoredValues, folds: Folds, place: Place
    ) -> None:
        self.plan, self.measures, self.types = plan, measures, values.types
        self.folds, self.values, self.place = folds, values, place
        self.sorted, self.cut = SortedAnswers(plan, self.types), CutAnswers(plan, values)
        self.summed = summed_plan(plan)

    @property
    def one_by_one(self) -> bool:
        """Whether more than sums and extremes is to be found for every window."""
        return bool(self.folds.states) or self.reads_rows

    @property
    def reads_rows(self) -> bool:
        """Whether answers are found in all rows of a window."""
        return bool(self.sorted.states or self.cut.states)

    @property
    def requests(self) -> tuple[int, int]:
        """How many blocks were written and read to sort rows."""
        return self.sorted.written + self.cut.written, self.sorted.read + self.cut.read

    def of_rows(
        self, rows: RowsInside, made: Partials, groups: int, cut: int | None, wid: int
    ) -> tuple[dict[str, WindowLists], CutWindow | None]:
        """What is found by sorting the rows of a window, and by reading them from a cut on.

        made : its partials; groups : how many there are
        cut : the pane at which it is cut in two; None: at none

        Raises
        ------
        OverflowError
            The bytes of a sketch can't tell a value.
        """
        found: dict[str, WindowLists] = {}
        for state in self.sorted.states:
            counts = np.zeros(groups, np.int64)
            counts[made.codes] = made.counts(self.measures.counts[state.input])
            number = self.measures.inputs.index(state.input)
            found |= self.sorted.of_window(state, rows.counted(number), self._runs(), counts)
        if not self.cut.states or not len(made):
            return found, None

        def counts_of(source: Input) -> Ints:
            return made.counts(self.measures.counts[source])

        runs, counted = self._runs(self.cut.columns), rows.records.counted
        try:
            mine = self.cut.of_window(rows.pieces(), runs, cut, made.codes, counts_of, counted)
        except AnswerOverflowError as error:
            raise error.explain(f"number {wid}") from None
        return found, mine

    def _runs(self, columns: Sequence[str] = COLUMNS) -> SortedRuns:
        name = f"{self.place.name}~sorted"
        return SortedRuns(self.place.store, name, self.place.memory, columns)

    def fold(self, made: Partials, parts: Parts, wid: Ints) -> dict[str, NDArray[Any]]:
        """What is read off folded partials, which belong to these of windows and groups.

        Raises
        ------
        OverflowError
            A product of integers does not fit.
        """

        def counts(state: State) -> Ints:
            return made.counts(self.measures.counts[state.input])

        try:
            return self.folds.answers(parts, counts)
        except AnswerOverflowError as error:
            raise error.explain(f"number {wid[made.places[error.window]]}") from None

    def columns(
        self, pieces: list[Answered], shown: Callable[[Ints, Ints], list[Answer]]
    ) -> list[Answer]:
        """The columns of all pieces, those of the plan after those that say which window it is.

        shown : gives these, of windows and codes
        """
        most = sum(len(piece.made) for piece in pieces)
        answers = PaneAnswers(self.summed, self.measures, self.types, most)
        for piece in pieces:
            answers.take(piece.made, piece.wid[piece.made.places], piece.made.codes, None)
        raw, _, wid, codes = answers.finish()
        made = {answer.name: answer for answer in raw.answers(None)}
        for output in self.folds.outputs:
            cells = [piece.folded[output.name] for piece in pieces if len(piece.made)]
            made[output.name] = self.folds.column(output, cells, self._counts(output, pieces))
        for output in self.sorted.outputs:
            made[output.name] = self._sorted_column(output, pieces)
        if self.cut.states:
            made |= self.cut.answers([piece.cut for piece in pieces if piece.cut is not None])
        outputs = [self.values.decoded(made[output.name]) for output in self.plan.outputs]
        return [*shown(wid, codes), *outputs]

    def _sorted_column(self, output: Output, pieces: list[Answered]) -> Answer:
        full = [piece for piece in pieces if len(piece.made)]
        taken = [p.sorted[output.name].take(p.made.codes) for p in full]
        cells, lengths = [cells for cells, _ in taken], [sizes for _, sizes in taken]
        return self.sorted.column(output, cells, lengths, self._counts(output, pieces))

    def _counts(self, output: Output, pieces: list[Answered]) -> Ints:
        """How many rows each answer counts."""
        assert output.input is not None
        measure = self.measures.counts[output.input]
        return np.concatenate([np.zeros(0, np.int64), *(p.made.counts(measure) for p in pieces)])
