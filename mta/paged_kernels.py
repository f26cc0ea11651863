"""Which kernels answer windows larger than memory, and of which specs there are any."""

from __future__ import annotations

from typing import Any, cast

from mta._halves import HalvesKernel
from mta._kernel import Counter, Kernel
from mta._leaving import LeavingFloats, LeavingInts, LeavingKernel
from mta._paged import PagedKernel
from mta._paged_distinct import PagedDistinct
from mta._paged_extremes import PagedExtremes
from mta._paged_fastsums import PagedFastSums
from mta._paged_halves import PagedHalves
from mta._paged_kernels import PagedPlaces
from mta._paged_lists import PagedLists
from mta._paged_ranks import PagedRanks
from mta._paged_spreads import SquaresKernel
from mta._paged_sums import PagedSums
from mta._paged_tallies import PagedTallies
from mta._paged_user import PagedCompiledUser, PagedPythonUser
from mta._sketch_kernel import SketchKernel
from mta._user import CompiledUserKernel, PythonUserKernel
from mta.errors import SpecError
from mta.kernels import Columns, make_kernel, wanted_ranks, wanted_tallies
from mta.paged_sketches import PagedSketches
from mta.plan import Output, Plan, State
from mta.specs import Rolling

_HALVES = ("powers", "pairs", "weighted", "products", "runs")
_SKETCHES = ("kll", "hll", "theta", "frequent")
_CUT = ("user", *_SKETCHES)  # answers of which depend on the windows before
_PagedUser = PagedCompiledUser | PagedPythonUser
# All kernels over rows in pages.
_Halves = PagedHalves | PagedFastSums | _PagedUser | PagedSketches
Paged = PagedKernel | LeavingKernel | _Halves | PagedLists
COUNTING = (PagedRanks, PagedDistinct)  # those that keep a log of counts
_COUNTED = ("ranks", "tally")


# Of the page in which the window begins, bytes that a kernel has for every row; measured.
_PAGE_BYTES = {
    "sum": 17, "fast": 25, "min": 9, "max": 9, "moments": 34, "powers": 74, "pairs": 98,
    "weighted": 98, "products": 34, "runs": 50, "ends": 50, "arg": 53, "user": 32, "kll": 9,
    "hll": 9, "theta": 9, "frequent": 9,
}  # fmt: skip


def page_bytes(plan: Plan) -> int:
    """Bytes for every row of a page that the kernels of a key have at hand, about."""
    fast = [state.name == "sum" and state.numerics == "fast" for state in plan.states]
    names = ["fast" if one else s.name for one, s in zip(fast, plan.states, strict=True)]
    return sum(_PAGE_BYTES.get(name, 0) for name in names)


def count_logs(plan: Plan) -> int:
    """How many logs of counts, and of items, a key has."""
    return sum(state.name in _COUNTED for state in plan.states) + len(plan.sketch_feeds)


def check_spillable(spec: Rolling, plan: Plan) -> None:
    """Refuse what has no window larger than memory.

    Raises
    ------
    SpecError
        Naming the answer, or the argument.
    """
    if spec.lateness is None or spec.lateness.mode != "revise":
        return
    for output in plan.outputs:
        state = output.state
        fast = state is not None and state.name == "sum" and state.numerics == "fast"
        if state is not None and (fast or state.name in _CUT):
            raise SpecError(
                f"memory: {output.name}: {output.aggregate!r} depends on where windows are cut in "
                "two, which late rows that revise move"
            )


def make_paged_kernel(
    state: State, outputs: list[Output], columns: Columns, counter: Counter
) -> Kernel:
    """A kernel that answers these outputs of one state, over rows in pages."""
    if state.name == "list":
        return PagedLists(counter)
    if state.name == "user" or state.name in _SKETCHES:
        return _over_pages(make_kernel(state, outputs, columns, counter), counter)
    aggs = [output.needed for output in outputs]
    sources = [columns[feed.column].source for feed in state.feeds]
    if state.name in _HALVES:
        halves = cast(HalvesKernel, make_kernel(state, outputs, columns, counter))
        return PagedHalves(counter, halves)
    if state.name == "tally":
        if all(a.fn == "count_distinct" for a in aggs):
            return PagedDistinct(counter, len(aggs))
        return PagedTallies(counter, wanted_tallies(aggs))
    if state.name == "ranks":
        return PagedRanks(counter, sources[0], state.nan, wanted_ranks(aggs))
    if state.name in ("ends", "arg"):
        places = [a.fn if state.name == "ends" or a.others else _back(a.fn) for a in aggs]
        return PagedPlaces(counter, sources[0] if sources else None, state.nan, places)
    if state.name == "moments":
        wanted = [(a.fn, a.ddof) for a in aggs]
        return PagedHalves(counter, SquaresKernel(counter, sources[0], wanted))
    if state.name in ("min", "max"):
        wanted = [(state.name, 0) for _ in aggs]
        return PagedExtremes(counter, state.name, sources[0], state.nan, wanted)
    return _sum_kernel(state, [(a.fn, 0) for a in aggs], sources[0], counter, outputs)


def _over_pages(kernel: Kernel, counter: Counter) -> Kernel:
    """The same over rows in pages."""
    if isinstance(kernel, CompiledUserKernel):
        return PagedCompiledUser(kernel)
    if isinstance(kernel, PythonUserKernel):
        return PagedPythonUser(kernel)
    return PagedSketches(counter, cast(SketchKernel, kernel))


def _back(fn: str) -> str:
    """Without a second column the answer is a distance, not a row."""
    return fn.replace("arg", "back")


def _sum_kernel(
    state: State, wanted: Any, source: str, counter: Counter, outputs: list[Output]
) -> Kernel:
    if source != "float":
        kernel = LeavingInts(counter, source, wanted, state.overflow)
        kernel.least = min(output.need for output in outputs)
        return kernel
    if state.numerics == "exact":
        return LeavingFloats(counter, wanted)
    if state.numerics == "fast":
        return PagedFastSums(counter, wanted)
    return PagedSums(counter, "sum", source, "propagate", wanted)
