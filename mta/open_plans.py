"""From what a stream of windows by number has seen of its rows to what it keeps of them."""

from __future__ import annotations

import numpy as np

from mta._keys import factorize
from mta.errors import SpecError
from mta.frames import Frame, open_frame
from mta.open_panes import OpenPanes
from mta.open_rows import OpenRows
from mta.open_tallies import OpenTallies, no_tallies
from mta.open_windows import OpenWindows, Revisions, WindowAxis
from mta.pane_rows import no_partials
from mta.periodic import Landmark, Periodic
from mta.plan import Plan
from mta.planner import PLANS, Choice, Observed, choose_plan, memory_by_group
from mta.rows import first_rows
from mta.spec_arguments import check_choice

# Before that many rows a stream does not know yet what it is about.
ENOUGH = 4096
# Rows that are alike are put together where that leaves at most this share of them.
_ALIKE = 0.5


def first_choice(spec: Periodic, plan: Plan, wanted: str) -> tuple[Choice, bool]:
    """The plan to begin with, and whether a better one may be looked for."""
    check_choice(wanted, "plan", PLANS)
    if isinstance(spec, Landmark) and wanted in ("wid", "adapt"):
        raise SpecError(
            f"plan: a landmark's windows share all their rows; {wanted!r} is not for it"
        )
    why_not = _why_not(spec, plan, wanted)
    if wanted == "rows" or (wanted == "auto" and why_not is not None):
        why = "asked for" if wanted == "rows" else f"{why_not}; so rows are kept as they are"
        return Choice("rows", why), False
    if wanted == "auto":
        return Choice("rows", f"until {ENOUGH} rows have been seen"), True
    if why_not is not None:
        raise SpecError(f"plan: {wanted!r} needs partial aggregates, but {why_not}; take 'rows'")
    return Choice(wanted, "asked for"), False


def _why_not(spec: Periodic, plan: Plan, wanted: str) -> str | None:
    """Why rows have to be kept as they are; None: they need not."""
    late = spec.lateness
    if isinstance(spec, Landmark) and late is not None and late.mode == "revise":
        return "a landmark's partials know no earlier windows, which late rows could revise"
    why_not = no_partials(plan)
    if why_not is not None and wanted in ("auto", "paned") and no_tallies(plan) is None:
        return None
    return why_not


def better_choice(rows: OpenRows) -> Choice:
    """The best plan for windows over rows like those that are held."""
    return _by_costs(rows) if no_partials(rows.plan) is None else _by_likeness(rows)


def _by_costs(rows: OpenRows) -> Choice:
    """The rows are made panes for it, of which partials, groups and panes are counted."""
    kept, frame = rows.kept, open_frame(rows.kept.data)
    panes = OpenPanes(rows.axis, rows.plan, frame, rows.revisions, "paned")
    prepared = panes.prepare(frame, kept.ts)
    bucket, buckets = factorize(prepared.buckets)
    pair, pairs = factorize(prepared.codes * buckets + bucket)
    firsts = first_rows(pair, pairs)
    by_group = np.bincount(prepared.codes[firsts], minlength=len(panes.groups))
    span = max(int(kept.ts.max()) - int(kept.ts.min()), panes.pane)
    partial, row = panes.panes.layout.size + 6, 8 * (1 + len(panes.measures.feeds))
    eager, lazy = memory_by_group(np.bincount(prepared.codes), by_group, partial, row)
    return choose_plan(
        Observed(
            panes.range, panes.slide, len(kept.ts) * panes.range / span, pairs / buckets,
            eager, lazy,
        )
    )  # fmt: skip


def _by_likeness(rows: OpenRows) -> Choice:
    tallies = _tallies(rows)
    tallies.put_together()
    some, all_rows = len(tallies.kept.ts), len(rows.kept.ts)
    shown = f"{some} of {all_rows} rows of a group and pane differ"
    return Choice("paned" if some <= _ALIKE * all_rows else "rows", shown)


def follow(choice: Choice, rows: OpenRows) -> OpenWindows | None:
    """The same rows, held as a plan says; None: their types are not known yet."""
    frame = open_frame(rows.kept.data)
    types = [frame.column(name).kind for name in rows.plan.columns]
    if choice.plan == "rows" or "null" in types or not len(rows.kept.ts):
        return None
    if no_partials(rows.plan) is not None:
        return _tallies(rows)
    panes = OpenPanes(rows.axis, rows.plan, frame, rows.revisions, choice.plan)
    panes.add(panes.prepare(frame, rows.kept.ts), np.arange(len(rows.kept.ts)))
    panes.ahead = rows.ahead
    return panes


def _tallies(rows: OpenRows) -> OpenTallies:
    made = OpenTallies(rows.axis, rows.plan, rows.frame, rows.revisions)
    made.kept, made.ahead = rows.kept, rows.ahead
    return made


def empty_windows(
    kind: str, choice: Choice, axis: WindowAxis, plan: Plan, frame: Frame, revisions: Revisions
) -> OpenWindows:
    """Nothing yet, held in this way; `frame` shows the types of the columns."""
    if kind == OpenPanes.kind:
        return OpenPanes(axis, plan, frame, revisions, choice.plan)
    made = OpenTallies if kind == OpenTallies.kind else OpenRows
    return made(axis, plan, frame, revisions)
