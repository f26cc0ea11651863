"""Holding the engine's answers to the oracle's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kinds import build, in_ticks, named_columns, read
from oracle import Exact, Rolling, answers, differences
from strategies import Data, engine_spec

RANGES = {False: (-(2**63), 2**63 - 1), True: (0, 2**64 - 1)}
"""What an integer answer can be, of a signed column and of an unsigned one."""


def check(spec: Rolling, sample: Data, kind: str = "pyarrow", unit: str = "i") -> None:
    """The engine's answers for the sample are the oracle's, or refused where one does not fit."""
    run, frame = engine_spec(spec, unit), build(kind, sample.columns)
    exact = answers(spec, sample.rows)
    if not all_fit(spec, exact):
        with pytest.raises(OverflowError):
            run(frame)
        return
    result = run(frame)
    assert list(named_columns(result)) == list(spec.aggs)
    got = read(result) if unit == "i" else in_ticks(read(result), unit)
    wrong = differences(got, exact)
    assert not wrong, "\n".join(wrong)


def all_fit(spec: Rolling, exact: Sequence[dict[str, Exact]]) -> bool:
    """Whether every integer answer is one of 64 bits."""
    return all(
        not _is_int(answer.value)
        or RANGES[spec.aggs[name].unsigned][0]
        <= answer.value
        <= RANGES[spec.aggs[name].unsigned][1]
        for row in exact
        for name, answer in row.items()
    )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
