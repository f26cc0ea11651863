"""Which of SlideM's plans keeps the panes of open windows on a store: 2LA or 1W, by their space."""

from __future__ import annotations

import numpy as np

from mta._keys import factorize
from mta.arguments import is_choice
from mta.costs import space_one_window, space_two_levels
from mta.errors import SpecError
from mta.frames import Frame, open_frame
from mta.one_batch import OneBatch
from mta.open_rows import OpenRows
from mta.open_stored import StoredPanes
from mta.open_windows import revises
from mta.periodic import Landmark, Periodic
from mta.plan import Plan
from mta.planner import Choice
from mta.row_blocks import Layout
from mta.stored_kinds import needs_rows, why_not_stored
from mta.stored_place import Place
from mta.stores import MemoryStore

STORED_PLANS = ("auto", "2LA", "1W")


def first_stored_choice(spec: Periodic, plan: Plan, wanted: str) -> Choice:
    """The plan to begin with: that which is asked for, or rows in memory until more is known.

    Raises
    ------
    SpecError
        These windows, or aggregates, can't be kept on a store.
    """
    if not is_choice(wanted, STORED_PLANS):
        raise SpecError(f"plan: with memory= one of {STORED_PLANS}, not {wanted!r}")
    _check_stored(spec, plan)
    sorts = [f"{o.name}: {o.aggregate!r}" for o in plan.outputs if needs_rows(o.state)]
    if isinstance(spec, Landmark):
        if sorts or wanted == "1W":
            what = (sorts or ["'1W'"])[0]
            raise SpecError(f"memory: {what} keeps rows, and of a landmark's windows none ever go")
        return Choice("2LA", "a landmark's windows hold one partial aggregate of a group")
    if sorts and wanted == "2LA":
        raise SpecError(
            f"plan: '2LA' keeps partial aggregates, and {sorts[0]} needs the rows; take '1W'"
        )
    if sorts and wanted == "auto":
        return Choice("1W", f"{sorts[0]} needs the rows")
    if wanted == "auto":
        return Choice("rows", "until enough rows have been seen")
    return Choice(wanted, "asked for")


def _check_stored(spec: Periodic, plan: Plan) -> None:
    if isinstance(spec, Landmark) and revises(spec):
        raise SpecError(
            "memory: of a landmark's windows a store has what they come to, and not what earlier "
            "ones were, which late rows could revise; take 'drop'"
        )
    if spec.progress is not None and spec.progress.punctuation is not None:
        raise SpecError("memory: rows that are punctuation can't be told; call op.advance(time)")
    why_not = why_not_stored(plan)
    if why_not is not None:
        raise SpecError(f"memory: {why_not}")


def stored_choice(rows: OpenRows, place: Place) -> Choice:
    """The plan that takes least space for windows over rows like those that are held."""
    kept, frame = rows.kept, open_frame(rows.kept.data)
    nowhere = Place(OneBatch(MemoryStore()), "trial", 1 << 40, 1 << 16)
    panes = StoredPanes(rows.axis, rows.plan, frame, rows.revisions, "2LA", nowhere)
    prepared = panes.prepare(frame, kept.ts)
    bucket, buckets = factorize(prepared.buckets)
    _, pairs = factorize(prepared.codes * buckets + bucket)
    span = max(int(kept.ts.max()) - int(kept.ts.min()), panes.pane)
    groups, answers = len(panes.groups), max(len(rows.plan.outputs), 1)
    operators = max(len(panes.specs) - 1 + len(panes.folds.states), 1)
    row, partial = (Layout(kind.columns).row_bytes for kind in (panes.rows, panes.records))
    state = panes.layout.size + 8 * panes.folds.width
    two = space_two_levels(
        operators, pairs / buckets, groups, panes.range, panes.pane, state / operators,
        partial / operators, state / operators,
    )  # fmt: skip
    one = space_one_window(answers, groups, panes.range, len(kept.ts) / span, row, state / answers)
    rows_inside = len(kept.ts) * panes.range / span
    shown = (
        f"2LA takes {_bytes(two)} (formula 2.1: {operators} operators, {pairs / buckets:.3g} of "
        f"{groups} groups in a pane, {partial:.3g} bytes a partial), 1W {_bytes(one)} (formula "
        f"2.2: {answers} answers, {rows_inside:.3g} rows of {row:.3g} bytes in a "
        "window)"
    )
    return Choice("2LA" if two <= one else "1W", shown)


def _bytes(amount: float) -> str:
    for unit, size in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if amount >= size:
            return f"{amount / size:.3g} {unit}"
    return f"{amount:.0f} bytes"


def follow_stored(choice: Choice, rows: OpenRows, place: Place, frame: Frame) -> StoredPanes | None:
    """The same rows, held as a plan says; None: their types are not known yet.

    frame : of rows, for the types of their columns
    """
    types = [frame.column(name).kind for name in rows.plan.columns]
    if choice.plan == "rows" or "null" in types or not frame.rows:
        return None
    panes = StoredPanes(rows.axis, rows.plan, frame, rows.revisions, choice.plan, place)
    if len(rows.kept.ts):
        panes.add(panes.prepare(frame, rows.kept.ts), np.arange(len(rows.kept.ts)))
    return panes
