"""From what windows on a store come to, to columns of answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._partials import Partials
from mta.engine import Ints
from mta.frames import Answer
from mta.kernels import Columns
from mta.pane_answers import Measures, PaneAnswers
from mta.plan import Output, Plan, State
from mta.slider import AnswerOverflowError
from mta.stored_folds import Folds, Parts
from mta.stored_holistic import SortedAnswers
from mta.stored_kinds import WindowLists, summed_plan


@dataclass
class Answered:
    """Partials of windows and groups: their places are numbers of these windows. What was folded is
    beside them; what was found by sorting is of all groups, and of the first window only."""

    made: Partials
    wid: Ints
    folded: dict[str, NDArray[Any]] = field(default_factory=dict)
    sorted: dict[str, WindowLists] = field(default_factory=dict)


class StoredAnswers:
    """The answers of a plan: those that are summed, folded, and sorted for."""

    def __init__(
        self, plan: Plan, measures: Measures, types: Columns, folds: Folds, sorted: SortedAnswers
    ) -> None:
        self.plan, self.measures, self.types = plan, measures, types
        self.folds, self.sorted = folds, sorted
        self.summed = summed_plan(plan)

    @property
    def one_by_one(self) -> bool:
        """Whether more than sums and extremes is to be found for every window."""
        return bool(self.folds.states or self.sorted.states)

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
        return [*shown(wid, codes), *(made[output.name] for output in self.plan.outputs)]

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
