"""explain(): which way apply() goes, and why, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from mta.durations import parse_duration
from mta.engine import columns_of
from mta.pane_rows import no_partials
from mta.periodic import Landmark, Periodic
from mta.plan import make_plan
from mta.specs import Rolling, Spec
from spark_bridge import streaming
from spark_bridge.batch import (
    beside_rows,
    check,
    check_batch_options,
    check_slices,
    of_panes,
    read_columns,
)
from spark_bridge.pane_axis import PaneAxis, poor_panes
from spark_bridge.panes import no_panes
from spark_bridge.periods import Told
from spark_bridge.schemas import periodic_schema, rolling_schema
from spark_bridge.slices import Slices
from spark_bridge.times import unit_of
from spark_bridge.together import specs_of
from spark_bridge.worker import ROWS

# Aggregates that Spark's segment tree serves about as fast as we do, when there is one of them.
_LEVEL = ("count", "count_all", "sum", "mean", "min", "max")


def explain(
    spec: Spec | Sequence[Spec],
    sdf: DataFrame,
    *,
    plan: str = "auto",
    slices: Any = None,
    **options: Any,
) -> str:
    """How `apply` would answer: the plan, why, and what a worker holds; nothing is run.

    Parameters
    ----------
    spec, sdf, plan, slices : as those of `apply`
    options : of streams only; see ``spark_bridge.streaming.explain``, which answers for them

    Raises
    ------
    As `apply`.
    """
    if check_batch_options(sdf, plan, slices, options):
        return streaming.explain(spec, sdf, **options)
    specs = specs_of(spec)
    check(specs, sdf, plan)
    check_slices(specs, slices)
    one = specs[0]
    if isinstance(one, Periodic):
        lines = _periodic_lines(one, sdf, plan)
    else:
        lines = _rolling_lines([s for s in specs if isinstance(s, Rolling)], sdf, slices)
    return "\n".join([*map(repr, specs), *lines])


def _rolling_lines(specs: list[Rolling], sdf: DataFrame, slices: object) -> list[str]:
    rolling_schema(specs, sdf.schema)
    one = specs[0]
    shared = f", shared by {len(specs)} specs" if len(specs) > 1 else ""
    lines: list[str] = []
    key = "key"
    if slices is not None:
        Slices.of(specs, sdf.schema, slices)
        length = parse_duration(slices, "slices")
        lines.append(f"slices   of {length}: a row is also in the slices whose windows reach it")
        one, key = replace(one, by=(*one.by, "slice")), "slice"
    if beside_rows(specs):
        read = ", ".join(read_columns(specs)) or "none"
        lines += [
            f"plan     rows: {_shuffle(one)} -> Arrow UDF{shared}",
            "shuffle  once, all columns that are asked for afterwards",
            f"python   gets the columns {read}; the others wait in Spark for the answers",
        ]
    else:
        lines += [
            f"plan     rows: {_shuffle(one)} -> mapInArrow{shared}",
            "shuffle  once, all columns: every row comes back with its answers",
        ]
    lines.append(f"memory   of a worker: some {ROWS:,} rows and {_held(specs)} of one {key}")
    native = _native(specs)
    return lines + ([f"native   {native}"] if native else [])


def _held(specs: list[Rolling]) -> str:
    if any(s.range is None for s in specs):
        return "all rows so far (the window has no start)"
    return "the rows of one window" if len(specs) == 1 else "the rows of the longest window"


def _native(specs: list[Rolling]) -> str | None:
    """Where Spark's own window functions are as fast, and how."""
    one = specs[0]
    if len(specs) > 1 or len(one.aggs) > 1 or one.range is None:
        return None
    aggregate = one.aggs[0][1]
    if aggregate.fn not in _LEVEL or one.every is not None:
        return None
    return (
        f"{aggregate!r} alone, over some thousand rows or less, is as fast by Spark's own window "
        "functions with spark.sql.window.segmentTree.enabled (off by default; its float sums are "
        "rounded at every step)"
    )


def _periodic_lines(spec: Periodic, sdf: DataFrame, plan: str) -> list[str]:
    periodic_schema(spec, sdf.schema)
    kind = sdf.schema[str(spec.on)].dataType
    why_not = no_panes(spec, sdf.schema)
    panes = of_panes(spec, sdf.schema, plan)
    if panes:
        lines = [f"plan     panes: Spark aggregates {_panes(spec, kind)}, then {_shuffle(spec)}"]
        lines.append(
            "         -> mapInArrow over the panes: all aggregates are made of them exactly"
        )
        lines.append("shuffle  twice, of panes only: by key and pane, then by key")
    else:
        lines = [f"plan     rows: {_shuffle(spec, sdf)} -> mapInArrow"]
        poor = "asked for" if plan == "rows" else f"no panes: {poor_panes(spec, kind)}"
        lines.append(f"         {poor if why_not is None else f'no panes: {why_not}'}")
        lines.append(f"shuffle  once, of the columns {', '.join(columns_of(spec))}")
    what = "panes" if panes else "rows"
    lines.append(f"memory   of a worker: some {ROWS:,} rows and {_open(spec, what)} of one key")
    return lines + _reads(spec)


def _panes(spec: Periodic, kind: T.DataType) -> str:
    length, unit = PaneAxis.of(spec, kind).length, unit_of(kind)
    shown = {"i": f"{length} ticks", "d": f"{length} days", "us": f"{length / 1e6:g} s"}[unit]
    return f"panes of {shown} for each key"


def _open(spec: Periodic, what: str) -> str:
    if not isinstance(spec, Landmark):
        return f"the {what} of open windows"
    why = no_partials(make_plan(spec.asked, 0))
    if what == "panes":
        return "one partial aggregate"
    return "one partial aggregate" if why is None else f"all rows ({why})"


def _reads(spec: Periodic) -> list[str]:
    told = Told.of(spec)
    asked = [f"the {word} time" for word, is_asked in
             (("first", told.first), ("latest", told.last)) if is_asked]  # fmt: skip
    if not asked:
        return []
    return [f"before   one aggregation that reads {spec.on!r} only: {' and '.join(asked)} of all"]


def _shuffle(spec: Spec, sdf: DataFrame | None = None) -> str:
    keys = ", ".join(spec.by)
    parted = f"repartition({keys})" if keys else "one partition (there is no `by`)"
    time = [str(spec.on)] if spec.on else []
    return f"{parted} -> sort by {', '.join([*spec.by, *time, 'arrival'])}"
