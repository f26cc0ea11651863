"""Which compiled kernel runs a state, and where its answers go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mta._algebra import (
    PairsKernel,
    PowersKernel,
    ProductsKernel,
    RunsKernel,
    WeightedMeanKernel,
)
from mta._extremes import ExtremesKernel
from mta._fastsums import FastSumKernel
from mta._kernel import Counter, Kernel, Lists
from mta._places import ArgKernel, FirstLastKernel, ListKernel
from mta._ranks import RanksKernel
from mta._sketch_kernel import Wanted
from mta._spreads import SpreadKernel
from mta._sum_blocks import CompensatedSumKernel
from mta._sums import ExactSumKernel
from mta._tallies import TallyKernel
from mta._widesums import WideSumKernel
from mta.frames import Column
from mta.functions import Aggregate
from mta.monoids import answer_array, make_user_kernel
from mta.plan import Output, SketchOf, State
from mta.sketches import Frequent, Hll, Quantiles, Sketch, Theta, make_sketch_kernel

Columns = dict[str, Column]


def make_kernel(state: State, outputs: list[Output], columns: Columns, counter: Counter) -> Kernel:
    """A kernel that answers these outputs of one state."""
    mine = [columns[feed.column] for feed in state.feeds]
    if state.name == "user":
        sources = user_sources(mine)
    elif state.sketch is not None:
        sources = ["text" if column.kind == "other" else column.source for column in mine]
    else:
        sources = [column.source for column in mine]
    return _MAKERS[state.name](state, [o.needed for o in outputs], sources, counter)


Make = Callable[[State, list[Aggregate], list[str], Counter], Kernel]


_LOWERINGS = {"any": "max", "all": "min"}


def _extreme(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    wanted = [(_LOWERINGS.get(a.fn, a.fn), 0) for a in aggs]
    return ExtremesKernel(counter, state.name, sources[0], state.nan, wanted)


def _moments(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return SpreadKernel(counter, sources[0], [(a.fn, a.ddof) for a in aggs])


def _sum(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    wanted = [(a.fn, 0) for a in aggs]
    if sources[0] != "float":
        kernel = WideSumKernel(counter, sources[0], wanted, state.overflow)
        kernel.least = min(a.min_count for a in aggs)
        return kernel
    if state.numerics == "exact":
        return ExactSumKernel(counter, wanted)
    if state.numerics == "fast":
        return FastSumKernel(counter, wanted)
    return CompensatedSumKernel(counter, wanted)


def _powers(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return PowersKernel(counter, sources[0], [(a.fn, a.bias) for a in aggs])


def _pairs(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return PairsKernel(counter, sources, [(a.fn, a.ddof if a.fn == "cov" else 0) for a in aggs])


def _weighted(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return WeightedMeanKernel(counter, sources, [(a.fn, 0) for a in aggs])


def _products(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return ProductsKernel(counter, sources[0], [(a.fn, a.min_count) for a in aggs])


def _runs(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return RunsKernel(counter, sources[0])


def _ends(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return FirstLastKernel(counter, [a.fn for a in aggs])


def _arg(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    # Without a second column the answer is a distance, not a row.
    wanted = [a.fn if a.others else a.fn.replace("arg", "back") for a in aggs]
    return ArgKernel(counter, sources[0], state.nan, wanted)


def _list(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return ListKernel(counter)


def _tally(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return TallyKernel(counter, wanted_tallies(aggs))


def wanted_tallies(aggs: list[Aggregate]) -> list[Any]:
    """What a kernel of tallies is to answer."""
    return [(a.fn, a.k) if a.fn == "most_common" else a.fn for a in aggs]


def _ranks(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return RanksKernel(counter, sources[0], state.nan, wanted_ranks(aggs))


def wanted_ranks(aggs: list[Aggregate]) -> list[tuple[Any, ...]]:
    """What a kernel of ranks is to answer."""
    return [("top", a.k) if a.fn == "top_k" else ("quantile", a.q, a.interp) for a in aggs]


def _user(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    return make_user_kernel(state.monoid, counter, sources, min(a.min_count for a in aggs))


def _sketch(state: State, aggs: list[Aggregate], sources: list[str], counter: Counter) -> Kernel:
    assert state.sketch is not None
    made = make_sketch(state.sketch, sources[0])
    return make_sketch_kernel(made, counter, [_lowered(a) for a in aggs])


def _lowered(aggregate: Aggregate) -> Wanted:
    if aggregate.fn == "approx_quantile":
        return "quantile", aggregate.q
    if aggregate.fn == "approx_top_k":
        return "items", aggregate.k
    return ("estimate" if aggregate.fn == "approx_count_distinct" else "bytes"), None


def make_sketch(what: SketchOf, source: str) -> Sketch:
    """The sketch of values of a type ("float", "int", "uint", "text").

    Raises
    ------
    ImportError
        The package that computes it is not installed.
    """
    if what.family == "kll":
        return Quantiles(what.size, what.source or source, merge=what.merge)
    if what.family == "frequent":
        return Frequent(what.size, what.source or source, merge=what.merge)
    # Hashes look the same whatever they are of.
    kind = Hll if what.family == "hll" else Theta
    return kind(what.size, "int" if what.merge else source, merge=what.merge)


_MAKERS: dict[str, Make] = {
    "sum": _sum,
    "min": _extreme,
    "max": _extreme,
    "moments": _moments,
    "powers": _powers,
    "pairs": _pairs,
    "weighted": _weighted,
    "products": _products,
    "runs": _runs,
    "ends": _ends,
    "arg": _arg,
    "list": _list,
    "tally": _tally,
    "ranks": _ranks,
    "user": _user,
    "kll": _sketch,
    "hll": _sketch,
    "theta": _sketch,
    "frequent": _sketch,
}


def user_sources(columns: Iterable[Column]) -> list[str]:
    """What a user's monoid calls the types of its columns: to it, booleans are no integers."""
    names = {"bool": "bool", "other": "text"}
    return [names.get(column.kind, column.source) for column in columns]


def user_type(aggregate: Aggregate, columns: Columns) -> str:
    """What a user's monoid gives over columns of these types."""
    sources = user_sources(columns[name] for name in aggregate.columns)
    program = aggregate.monoid.program(sources)
    gives: str = program.gives
    return gives


def answer_room(output: Output, columns: Columns, n: int) -> Any:
    """Room for n answers: an array of 8-byte items, or `Lists`."""
    aggregate = output.aggregate
    gives = aggregate.gives
    if gives == "list":
        return Lists(n)
    if gives == "bytes":
        return np.empty(n, np.object_)
    if gives == "user":
        return answer_array(user_type(aggregate, columns), n)
    if gives == "int" or aggregate.answers_rows or aggregate.state == "arg":
        return np.empty(n, np.int64)  # counts, rows and distances between rows
    assert aggregate.column is not None
    source = columns[aggregate.column].source
    whole = aggregate.keeps_type or (gives == "total" and aggregate.overflow != "float")
    if not whole or source == "float":
        return np.empty(n, np.float64)
    return np.empty(n, np.uint64 if source == "uint" else np.int64)
