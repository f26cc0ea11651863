"""What a stream of windows by number has seen of its rows, for the planner."""

from __future__ import annotations

import numpy as np

from mta._keys import factorize
from mta.frames import open_frame
from mta.open_panes import OpenPanes
from mta.open_rows import OpenRows
from mta.planner import Choice, Observed, choose_plan, memory_by_group


def observe(rows: OpenRows) -> Choice:
    """The best plan for windows over rows like those that are kept.

    The rows are made panes for it, of which the partials, groups and panes are counted.
    """
    kept, frame = rows.kept, open_frame(rows.kept.data)
    panes = OpenPanes(rows.axis, rows.plan, frame, rows.revisions, "paned")
    prepared = panes.prepare(frame, kept.ts)
    bucket, buckets = factorize(prepared.buckets)
    pair, pairs = factorize(prepared.codes * buckets + bucket)
    firsts = np.empty(pairs, np.int64)
    firsts[pair] = np.arange(len(pair))
    by_group = np.bincount(prepared.codes[firsts], minlength=len(panes.groups))
    span = max(int(kept.ts.max()) - int(kept.ts.min()), panes.pane)
    partial, row = panes.panes.layout.size + 6, 8 * (1 + len(panes.measures.feeds))
    eager, lazy = memory_by_group(np.bincount(prepared.codes), by_group, partial, row)
    return choose_plan(
        Observed(
            panes.range, panes.slide, len(kept.ts) * min(1.0, panes.range / span), pairs / buckets,
            partial, row, eager, lazy, all(s.name == "sum" for s in rows.plan.states),
        )
    )  # fmt: skip
