"""Answers ahead of time: what rows that wait are told before they are final.

After every micro-batch that brings rows, all rows that wait are answered as if no more came
(``op.peek()``), and those are told whose answer is new or is another one than was told. When a row
is final, it is told once more only if its answer has changed. So the last answer of every row is
the final one, and rows that nothing late touches are told once, at once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Told:
    """What rows were told last.

    names : of the answers
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.numbers: Ints = np.zeros(0, np.int64)  # of the rows; rising
        self.revisions: Ints = np.zeros(0, np.int64)  # how often each was told
        self.answers: pa.Table | None = None

    def news(self, numbers: Ints, answers: pa.Table) -> tuple[NDArray[np.bool_], Ints]:
        """Which of these rows, which rise, have answers that were not told; and how often each will
        have been told when they are."""
        places = self.numbers.searchsorted(numbers)
        places[places == len(self.numbers)] = 0
        known = (
            self.numbers[places] == numbers if len(self.numbers) else np.zeros(len(places), bool)
        )
        new = np.ones(len(numbers), np.bool_)
        revisions = np.ones(len(numbers), np.int64)
        if known.any() and self.answers is not None:
            before = self.answers.take(pa.array(places[known]))
            new[known] = ~alike(before, answers.filter(pa.array(known)), self.names)
            revisions[known] = self.revisions[places[known]] + new[known]
        return new, revisions

    def keep(self, numbers: Ints, revisions: Ints, answers: pa.Table) -> None:
        """These rows, and no others, wait, and have been told this."""
        self.numbers, self.revisions = numbers, revisions
        self.answers = answers.select(self.names)

    def table(self) -> pa.Table | None:
        """Everything, for a snapshot; `fill` takes it up again."""
        if self.answers is None:
            return None
        plain = self.answers.rename_columns([f"c{i}" for i in range(len(self.names))])
        for name, values in (("number", self.numbers), ("revision", self.revisions)):
            plain = plain.append_column(name, pa.array(values))
        return plain

    def fill(self, table: pa.Table) -> None:
        """Take up what `table` gave."""
        self.numbers, self.revisions = (table.column(n).to_numpy() for n in ("number", "revision"))
        self.answers = table.drop_columns(["number", "revision"]).rename_columns(self.names)

    def forget(self, numbers: Ints) -> None:
        """These rows wait no more."""
        if self.answers is None or not len(numbers):
            return
        stay = ~np.isin(self.numbers, numbers)
        self.numbers, self.revisions = self.numbers[stay], self.revisions[stay]
        self.answers = self.answers.filter(pa.array(stay))


def alike(one: pa.Table, other: pa.Table, names: list[str]) -> NDArray[np.bool_]:
    """In which rows these columns have the same values; floats bit by bit."""
    same = np.ones(len(one), np.bool_)
    for name in names:
        same &= _alike(one.column(name).combine_chunks(), other.column(name).combine_chunks())
    return same


def _alike(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([repr(x) == repr(y) for x, y in pairs], np.bool_)
    if pa.types.is_floating(one.type):
        one, other = _bits(one), _bits(other)
    equal = pc.fill_null(pc.equal(one, other), False)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    found: NDArray[np.bool_] = pc.or_(equal, both_null).to_numpy(zero_copy_only=False)
    return found


def _bits(floats: pa.Array) -> pa.Array:
    values = floats.cast(pa.float64())
    null = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values.fill_null(0.0).to_numpy().view(np.int64), mask=null)
