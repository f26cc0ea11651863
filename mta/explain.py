"""What a spec will do, in words: the order of rows, the shared states, memory and cost."""

from __future__ import annotations

from dataclasses import dataclass

from mta.costs import panes_per_window
from mta.functions import FUNCTIONS
from mta.monoids import UserMonoid
from mta.open_plans import first_choice
from mta.periodic import Hopping, Periodic
from mta.plan import Input, Plan, State, make_plan
from mta.specs import Spec


@dataclass(frozen=True)
class Costs:
    """Of one state: what it does, nanoseconds and bytes a row.

    nanoseconds : in batch, windows of 1,000 rows of random floats; an estimate for orientation,
        measured on the machine that the README names
    bytes : in batch, beyond the rows themselves and the answers
    inside : what a row inside a pushed window takes beside its values
    """

    way: str
    nanoseconds: float
    bytes: int = 0
    inside: int = 0


_COSTS = {
    "sum": Costs("double-doubles (integers: 128 bits)", 8, 0, 2),
    "min": Costs("suffixes of the older half, a running prefix of the newer one", 6, 0, 8),
    "max": Costs("suffixes of the older half, a running prefix of the newer one", 6, 0, 8),
    "moments": Costs("106-bit sums around a value of the window, in two halves", 20, 0, 32),
    "powers": Costs("106-bit power sums around a value of the window, in two halves", 60, 0, 64),
    "pairs": Costs("106-bit sums of products around a row of the window, in two halves", 60, 0, 88),
    "weighted": Costs("exact products in double-doubles, in two halves", 40, 0, 40),
    "products": Costs("mantissa and exponent apart, in two halves", 25, 0, 40),
    "runs": Costs("first, last and longest run of two halves", 15, 0, 48),
    "ends": Costs("the first and the last row inside", 2),
    "arg": Costs("a queue of the rows that may still become the extreme", 10, 0, 16),
    "ranks": Costs("order statistics, shared by all quantiles: O(log n) a row", 80, 16, 16),
    "tally": Costs("counts of values by hash: O(log distinct) a row", 60, 16, 32),
    "list": Costs("the rows inside, written out: O(rows inside) a row", 10),
    "kll": Costs("KLL sketches of suffixes and a prefix, merged", 13_000),
    "hll": Costs("HyperLogLog sketches of suffixes and a prefix, merged", 20_000),
    "theta": Costs("theta sketches of suffixes and a prefix, merged", 38_000),
    "frequent": Costs("counts of frequent items of suffixes and a prefix, merged", 70_000),
}
_SUMS = {
    "exact": Costs("exact fixed-point sums, rounded once", 15, 0, 8),
    "fast": Costs("plain doubles in two halves", 2, 0, 8),
}


def explain(spec: Spec) -> str:
    """The plan of a spec as text; see ``Spec.explain``."""
    plan = make_plan(spec.asked, spec.min_periods or 0)
    states = [_state_line(plan, state) for state in plan.states]
    counted = [_counted(source) for source in [None, *plan.inputs] if _counts(plan, source)]
    costs = [_costs(state) for state in plan.states]
    per_row = 2 + (0 if spec.over_rows else 4) + (8 if spec.by else 0) + 3 * len(counted)
    moved = 8 * len(plan.columns)  # in order of the keys
    batch = 2 + (16 + moved if spec.by else 0) + sum(c.bytes for c in costs)
    inside = 8 * (1 + len(plan.columns)) + sum(c.inside for c in costs)
    lines = [repr(spec), f"rows     {_order(spec)}", f"windows  {_windows(spec)}"]
    lines += [f"state    {line}" for line in states]
    lines += [f"count    {line}" for line in counted]
    per_answer = "" if spec.kind == "rolling" else " and 32 an answer"
    batched = f"about {batch} bytes a row{per_answer} beside input and answers, in batch"
    lines.append(f"memory   {batched}")
    lines.append(f"         about {inside} bytes a row inside a window, pushed")
    lines += _stream_lines(spec, plan)
    cost = per_row + sum(c.nanoseconds for c in costs)
    lines.append(f"cost     about {cost:.0f} ns a row, in batch")
    return "\n".join(lines)


def _stream_lines(spec: Spec, plan: Plan) -> list[str]:
    """What a stream of windows by number would hold."""
    if not isinstance(spec, Periodic):
        return []
    choice, may_choose = first_choice(spec, plan, "auto")
    more = ", then by cost (Eq. 6.1 to 6.6 of the thesis on window-ids)" if may_choose else ""
    lines = [f"stream   {choice.plan}, {choice.why}{more}"]
    if isinstance(spec, Hopping):
        slide, length = (spec.slide or spec.range).amount, spec.range.amount
        panes, windows = panes_per_window(length, slide), max(length // slide, 1)
        lines.append(f"         a window is {panes} panes, and a row in {windows} windows")
    return lines


def _costs(state: State) -> Costs:
    if state.monoid is not None:
        return _user_costs(state.monoid)
    special = _SUMS.get(state.numerics) if state.name == "sum" else None
    return special or _COSTS[state.name]


def _user_costs(monoid: UserMonoid) -> Costs:
    """Whether it is compiled shows when the types of its columns are known."""
    if monoid.compiled:
        return Costs("a monoid of your own, compiled, in two halves: 3 combines a row", 5, 0, 32)
    why = monoid.why_python
    how = f"through Python ({why})" if why else "compiled if it can be, at its first use"
    way = f"a monoid of your own, {how}, in two halves: 3 combines a row"
    return Costs(way, 400 if why else 5, 0, 32)


def _state_line(plan: Plan, state: State) -> str:
    answers = ", ".join(o.name for o in plan.of_state(state))
    columns = ", ".join(state.input.columns)
    skipped = ", NaN skipped" if state.input.skip_nan else ""
    sketch = _sketch_words(plan, state)
    return f"{state.name}({columns}{sketch}{skipped}) -> {answers}: {_costs(state).way}"


def _sketch_words(plan: Plan, state: State) -> str:
    size = FUNCTIONS[plan.of_state(state)[0].aggregate.fn].size
    if state.sketch is None or size is None:
        return ""
    return f", {size[0]}={state.sketch.size}{', merge=True' * state.sketch.merge}"


def _counts(plan: Plan, source: Input | None) -> bool:
    return any(o.state is None or o.need > 0 for o in plan.of_input(source))


def _counted(source: Input | None) -> str:
    if source is None:
        return "rows"
    skipped = " and not NaN" if source.skip_nan else ""
    return f"rows where {', '.join(source.columns)} is not null{skipped}"


def _order(spec: Spec) -> str:
    keys = f"by key ({', '.join(spec.by)}), then " if spec.by else ""
    time = f"{spec.on}, then " if spec.on else ""
    return f"in order of {keys}{time}arrival; sorted in O(n) where they are not"


def _windows(spec: Spec) -> str:
    if spec.over_rows:
        return "edges by row number"
    if spec.kind != "rolling":
        return "every window of a group by its number, as an interval of the sorted rows"
    return "edges by two pointers over the sorted times, all edges of one chunk of rows at a time"
