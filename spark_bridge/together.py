"""One spec or several in one pass: which of them, and the answers of all beside each row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mta.errors import SpecError
from mta.periodic import Periodic
from mta.progress import Late
from mta.specs import Rolling, Spec, Streamed

NUMBER = "\0row"  # a column that no one else calls so: which row an answer is of


def specs_of(spec: Spec | Sequence[Spec]) -> list[Streamed]:
    """One spec or several, all of a kind that is known here."""
    specs: list[Any] = list(spec) if isinstance(spec, (list, tuple)) else [spec]
    if not specs or not all(isinstance(s, (Rolling, Periodic)) for s in specs):
        raise SpecError(
            "spec: mta.rolling(...).agg(...), or hopping, tumbling, landmark or calendar, is "
            f"needed, not {spec!r}"
        )
    return specs


def check_together(specs: Sequence[Spec]) -> None:
    """Refuse several specs that have no answers beside each other.

    Raises
    ------
    SpecError
        They are not all trailing ones of the same `by` and `on`, or do not answer every row.
    """
    first = specs[0]
    for one in specs if len(specs) > 1 else ():
        if not isinstance(one, Rolling):
            raise SpecError(
                "spec: windows by number have rows of their own, one for each window and group, so "
                "the answers of several specs can't stand side by side; call apply() for each (and "
                "sdf.persist() before, where the rows cost much), or give one spec more "
                f"aggregates. This is one: {one!r}"
            )
        if one.every is not None:
            raise SpecError(f"every: answers for some rows have none beside them: {one!r}")
        if (one.by, one.on) != (first.by, first.on):
            raise SpecError(
                "spec: one shuffle and one sort serve specs of the same `by` and `on` only, not "
                f"{first!r} and {one!r}"
            )


def check_together_on_stream(specs: Sequence[Streamed]) -> None:
    """Refuse several specs that can't share a stream.

    Raises
    ------
    SpecError
        As `check_together`, or they differ in how far time has come, or in what is late.
    """
    check_together(specs)
    first = specs[0]
    for one in specs if len(specs) > 1 else ():
        if one.progress != first.progress:
            raise SpecError(
                "watermark: specs that share a stream have one watermark, not "
                f"{first!r} and {one!r}"
            )
        late, others = (spec.lateness or Late() for spec in (one, first))
        if late != others:
            raise SpecError(f"late: rows are late for all specs alike, not {late} and {others}")
        if late.mode == "revise":
            raise SpecError(
                "late: a late row revises other answers of each spec, so revisions can't stand "
                "side by side; call apply() for each spec"
            )


class Beside:
    """Answers of several specs to the same rows, until all have answered a row.

    names : the columns of answers, of each spec
    """

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        self.names = [[NUMBER, *mine] for mine in names]
        self.held: list[pa.Table | None] = [None] * len(names)

    def add(self, place: int, numbers: NDArray[np.int64], answers: pa.Table) -> None:
        """The spec at this place has answered the rows of these numbers."""
        if len(numbers):
            self.held[place] = self._more(place, numbers, answers)

    def _more(self, place: int, numbers: NDArray[np.int64], answers: pa.Table) -> pa.Table:
        """What is held of a spec, and these answers."""
        told = answers.append_column(NUMBER, pa.array(numbers)).select(self.names[place])
        before = self.held[place]
        return told if before is None else pa.concat_tables([before, told])

    def complete(self) -> pa.Table | None:
        """The answers to rows that all specs have answered, `NUMBER` first; they are not held any
        more. Of several specs in order of the rows' numbers, each of which a spec answers once.
        """
        told = [table for table in self.held if table is not None]
        if len(told) < len(self.held):
            return None
        made = self._joined(told)
        done = made.column(NUMBER).to_numpy()
        for place, table in enumerate(told):
            left = table.filter(pa.array(~np.isin(table.column(NUMBER).to_numpy(), done)))
            self.held[place] = left.combine_chunks() if len(left) else None
        return made

    def ahead(self, peeked: Sequence[tuple[pa.Table, NDArray[np.int64]]]) -> pa.Table:
        """The same of rows of which some specs tell, just now, what they would answer; nothing is
        kept of that."""
        told = [self._more(place, at, answers) for place, (answers, at) in enumerate(peeked)]
        return self._joined(told)

    def _joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The answers to rows that stand in all of these, beside each other."""
        if len(tables) == 1:
            return tables[0]
        numbers = [table.column(NUMBER).to_numpy() for table in tables]
        common = reduce(np.intersect1d, numbers)
        made = pa.table({NUMBER: common})
        for place, (table, mine) in enumerate(zip(tables, numbers, strict=True)):
            order = np.argsort(mine)
            picked = table.take(pa.array(order[mine.searchsorted(common, sorter=order)]))
            for name in self.names[place][1:]:
                made = made.append_column(name, picked.column(name))
        return made
