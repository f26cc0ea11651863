"""Where panes go that are not in memory, and how much memory that takes at least."""

from __future__ import annotations

from dataclasses import dataclass

from mta.errors import SpecError
from mta.one_batch import OneBatch
from mta.plan import Plan
from mta.stored_folds import MOST_WORDS
from mta.stored_kinds import is_folded_for, merges, needs_rows


@dataclass(frozen=True)
class Place:
    """Where panes go: a store, the name there, bytes of memory and of a block."""

    store: OneBatch
    name: str
    memory: int
    block: int

    def check(self, plan: Plan, keeps: bool = False) -> None:
        """Refuse a place that is too small; keeps: for windows that late rows revise.

        Raises
        ------
        SpecError
            There is no room for as many blocks as are needed, or a block has none for two records.
        """
        least, blocks = least_block(plan), blocks_needed(plan, keeps)
        if self.block < least or self.memory < blocks * self.block:
            size = max(self.block, least)
            raise SpecError(
                f"memory: {self.memory} bytes have no room for {blocks} blocks of {size}, which "
                "are needed at least"
            )


def blocks_needed(plan: Plan, keeps: bool = False) -> int:
    """How many blocks have to be in memory at least: the newest and the oldest one, and where there
    are extremes, or folded partials, one of what is to be put back of them; as many as two for
    sketches to be merged; one more where late rows revise."""
    extremes = any(state.name in ("min", "max") for state in plan.states)
    logs = 2 * any(map(merges, plan.states))
    return 2 + extremes + any(map(is_folded_for, plan.states)) + logs + keeps


def least_block(plan: Plan) -> int:
    """Bytes of a block with room for two records of the plan, whatever types its columns have."""
    sums = sum(state.name == "sum" for state in plan.states)
    folds = sum(MOST_WORDS[state.name] for state in plan.states if is_folded_for(state))
    by_rows = folds or any(map(needs_rows, plan.states))
    others = 2 + sum(len(source.columns) for source in plan.inputs) if by_rows else 0
    words = 3 + (11 + 4 * sums) // 8 + len(plan.states) + sums + len(plan.inputs)
    words += others + folds
    return 24 + words + 2 * (9 * words)
