"""What an aggregate is: its description, and the table of all functions.

The table is the one place that knows, for every function, its columns, its options, the types it
takes and gives, and the state (`State` of ``mta.plan``) that answers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from mta.arguments import MOST, is_choice, no_whole, plain_number
from mta.errors import SpecError

NAN_MODES = ("propagate", "skip", "greatest")
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
NUMERICS = ("compensated", "exact", "fast")
OVERFLOWS = ("raise", "wrap", "float")


@dataclass(frozen=True)
class Function:
    """How a function is answered.

    state : the state that answers it; None: the number of values, which every window knows
    columns : the names of its column arguments; those after a "?" may be left out
    needs : non-null values without which the answer is null (`ddof` comes on top)
    takes : of its first column: "numbers", "ordered" (numbers, booleans, times), "hashed" (these
        and texts), "bools" or "any"
    gives : "int", "float", "bool", "own" (the type of the first column), "total" (exact for
        integers), "list" (of the column's own type) or "bytes"
    options : further arguments, by name
    size : of what is answered from a sketch: the option that says how large it is, its least and
        greatest value, and its default
    sources : what merged sketches can be of, where their bytes do not tell; the first by default
    """

    state: str | None
    columns: tuple[str, ...] = ("column",)
    needs: int = 1
    takes: str = "numbers"
    gives: str = "float"
    options: tuple[str, ...] = ()
    size: tuple[str, int, int, int] | None = None
    sources: tuple[str, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the column arguments."""
        return tuple(name.rstrip("?") for name in self.columns)

    @property
    def least_columns(self) -> int:
        """How many columns have to be named."""
        return sum(not name.endswith("?") for name in self.columns)


_KLL, _FREQUENT = ("k", 8, 65535, 200), ("max_items", 1, 1_000_000, 10_000)
_HLL, _THETA = ("lg_k", 4, 21, 12), ("lg_k", 5, 26, 12)

FUNCTIONS = {
    "count": Function(None, ("column?",), needs=0, takes="any", gives="int"),
    "count_all": Function(None, (), needs=0, takes="any", gives="int"),
    "sum": Function("sum", needs=0, gives="total", options=("numerics", "overflow")),
    "mean": Function("sum", options=("numerics",)),
    "min": Function("min", takes="ordered", gives="own"),
    "max": Function("max", takes="ordered", gives="own"),
    "any": Function("max", takes="bools", gives="bool"),
    "all": Function("min", takes="bools", gives="bool"),
    "var": Function("moments", options=("ddof",)),
    "std": Function("moments", options=("ddof",)),
    "skew": Function("powers", options=("bias",)),
    "kurt": Function("powers", options=("bias",)),
    "product": Function("products", gives="total"),
    "geometric_mean": Function("products"),
    "weighted_mean": Function("weighted", ("column", "weights")),
    "cov": Function("pairs", ("x", "y"), options=("ddof",)),
    "corr": Function("pairs", ("x", "y"), needs=2),
    "slope": Function("pairs", ("y", "x"), needs=2),
    "longest_run": Function("runs", gives="int"),
    "first": Function("ends", ("column", "order?"), gives="own", takes="any"),
    "last": Function("ends", ("column", "order?"), gives="own", takes="any"),
    "arg_min": Function("arg", ("column", "by?"), gives="own", takes="any"),
    "arg_max": Function("arg", ("column", "by?"), gives="own", takes="any"),
    "quantile": Function("ranks", options=("q", "interp")),
    "median": Function("ranks", options=("interp",)),
    "top_k": Function("ranks", needs=0, gives="list", takes="ordered", options=("k",)),
    "count_distinct": Function("tally", needs=0, gives="int", takes="any"),
    "mode": Function("tally", gives="own", takes="any"),
    "most_common": Function("tally", needs=0, gives="list", options=("k",), takes="any"),
    "monoid": Function("user", ("column",), gives="user", takes="values", options=("monoid",)),
    "list": Function("list", needs=0, gives="list", takes="any"),
    "approx_quantile": Function(
        "kll", takes="ordered", gives="own", options=("q", "k"), size=_KLL
    ),
    "approx_count_distinct": Function(
        "hll", needs=0, takes="hashed", gives="int", options=("lg_k",), size=_HLL
    ),
    "approx_top_k": Function(
        "frequent", needs=0, takes="hashed", gives="list", options=("k", "max_items"),
        size=_FREQUENT,
    ),
    "kll_sketch": Function(
        "kll", takes="ordered", gives="bytes", options=("k", "merge", "source"), size=_KLL,
        sources=("float", "int"),
    ),
    "hll_sketch": Function(
        "hll", takes="hashed", gives="bytes", options=("lg_k", "merge"), size=_HLL
    ),
    "theta_sketch": Function(
        "theta", takes="hashed", gives="bytes", options=("lg_k", "merge"), size=_THETA
    ),
    "frequent_items_sketch": Function(
        "frequent", takes="hashed", gives="bytes", options=("max_items", "merge", "source"),
        size=_FREQUENT, sources=("int", "float", "text"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Aggregate:
    """One answer to compute. Made by the functions of ``mta.agg``; prints as the call."""

    fn: str
    column: str | None = None
    others: tuple[str, ...] = ()
    ddof: int = 1
    q: float = 0.5
    interp: str = "linear"
    k: int = 1
    bias: bool = False
    numerics: str = "compensated"
    overflow: str = "raise"
    monoid: Any = None  # a UserMonoid
    lg_k: int = 12
    max_items: int = 10_000
    merge: bool = False
    source: str | None = None
    min_count: int = 0
    nan: str = "propagate"

    def __post_init__(self) -> None:
        if str(self.fn) not in FUNCTIONS:
            raise SpecError(f"no aggregate {self.fn!r}; known: {', '.join(sorted(FUNCTIONS))}")
        object.__setattr__(self, "others", tuple(self.others))
        _check_columns(self)
        allowed = (*FUNCTIONS[self.fn].options, "min_count", "nan")
        for name, check in _CHECKS.items():
            value = plain_number(getattr(self, name))
            object.__setattr__(self, name, value)
            if name in allowed:
                check(f"agg.{self.fn}: {name}", value)
            elif value != _DEFAULTS[name]:
                raise SpecError(f"agg.{self.fn}: {name}={value!r} means nothing to it")
        _check_sketch(self)

    def __repr__(self) -> str:
        names = FUNCTIONS[self.fn].columns
        if self.monoid is not None:
            names = names * len(self.columns)
        shown = [
            f"{name[:-1]}={column!r}" if place and name.endswith("?") else repr(column)
            for place, (name, column) in enumerate(zip(names, self.columns, strict=False))
        ]
        for name in _CHECKS:
            value = getattr(self, name)
            if name != "monoid" and (name in self._told or value != self._default(name)):
                shown.append(f"{name}={value!r}")
        head = f"agg.{self.fn}" if self.monoid is None else repr(self.monoid)
        return f"{head}({', '.join(shown)})"

    @property
    def _told(self) -> tuple[str, ...]:
        """The options that have no default."""
        return _GIVEN.get(self.fn, ())

    def _default(self, name: str) -> Any:
        size = FUNCTIONS[self.fn].size
        return size[3] if size is not None and name == size[0] else _DEFAULTS[name]

    @property
    def size(self) -> int:
        """Of the sketch that answers it; 0 where none does."""
        size = FUNCTIONS[self.fn].size
        return getattr(self, size[0]) if size is not None else 0

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads."""
        return () if self.column is None else (self.column, *self.others)

    @cached_property
    def state(self) -> str | None:
        """As its function says."""
        return FUNCTIONS[self.fn].state

    @cached_property
    def gives(self) -> str:
        """As its function says."""
        return FUNCTIONS[self.fn].gives

    @cached_property
    def answers_rows(self) -> bool:
        """Whether the answer is the number of a row, or a list of them, whose value is to be
        taken."""
        if self.state == "arg":
            return bool(self.others)
        return self.state in ("ends", "list") or self.fn in ("mode", "most_common", "approx_top_k")

    @cached_property
    def keeps_type(self) -> bool:
        """Whether the answer has the type of its (first) column."""
        if self.fn in ("quantile", "median"):
            return self.interp not in ("linear", "midpoint")
        if self.fn in ("arg_min", "arg_max"):
            return bool(self.others)
        return self.gives in ("own", "bool", "list")

    @property
    def default_name(self) -> str:
        """The answer's name where none is given: "amount_sum", "count"."""
        fn = self.fn if self.monoid is None else self.monoid.label
        return fn if self.column is None else f"{self.column}_{fn}"

    def to_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        if self.monoid is not None:
            raise SpecError(f"{self!r}: functions can't be written as JSON; build the spec anew")
        return self.identity()

    def identity(self) -> dict[str, Any]:
        """The same; of functions of the user, the name."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.monoid is not None:
            values["monoid"] = self.monoid.label
        values["others"] = list(self.others)
        return {
            name: value
            for name, value in values.items()
            if name == "fn" or value not in (_DEFAULTS[name], [])
        }

    def needed(self, min_periods: int) -> int:
        """Non-null values without which the answer is null."""
        function = FUNCTIONS[self.fn]
        least = function.needs + (self.ddof if "ddof" in function.options else 0)
        if self.fn in ("skew", "kurt") and not self.bias:
            least = 3 if self.fn == "skew" else 4
        return max(least, self.min_count, min_periods)


def _check_columns(aggregate: Aggregate) -> None:
    function, where = FUNCTIONS[aggregate.fn], f"agg.{aggregate.fn}"
    names, columns = function.column_names, aggregate.columns
    if aggregate.fn == "monoid":
        names = names * max(len(columns), 1)  # as many as its lift takes
    if not names and columns:
        raise SpecError(f"{where}: counts rows; use agg.count({columns[0]!r}) for values")
    for place, name in enumerate(names[: function.least_columns]):
        if len(columns) <= place:
            raise SpecError(f"{where}: {name}: the name of a column is needed")
    if len(columns) > len(names) or (aggregate.others and aggregate.column is None):
        raise SpecError(f"{where}: takes {len(names)} columns, not {list(columns)}")
    for name, column in zip(names, columns, strict=False):
        if not isinstance(column, str):
            raise SpecError(f"{where}: {name} must be a name, not {column!r}")


def _check_sketch(aggregate: Aggregate) -> None:
    function, where = FUNCTIONS[aggregate.fn], f"agg.{aggregate.fn}"
    if function.size is not None:
        name, least, most, _ = function.size
        if not least <= aggregate.size <= most:
            raise SpecError(f"{where}: {name} must be {least} to {most}, not {aggregate.size!r}")
    if aggregate.source is None:
        return
    if not aggregate.merge:
        raise SpecError(f"{where}: source: with merge=True only; else the column's type tells")
    _one_of(function.sources)(f"{where}: source", aggregate.source)


def _whole(least: int, most: int = MOST) -> Callable[[str, Any], None]:
    def check(where: str, value: Any) -> None:
        if why := no_whole(value, least, most):
            raise SpecError(f"{where} {why}")

    return check


def _one_of(choices: Sequence[Any]) -> Callable[[str, Any], None]:
    def check(where: str, value: Any) -> None:
        if not is_choice(value, choices):
            raise SpecError(f"{where} must be one of {tuple(choices)}, not {value!r}")

    return check


def _fraction(where: str, value: Any) -> None:
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or math.isnan(value) or not 0 <= value <= 1:
        raise SpecError(f"{where} must be a number from 0 to 1, not {value!r}")


def _anything(where: str, value: Any) -> None:
    """Checked elsewhere."""


def _user_monoid(where: str, value: Any) -> None:
    if not hasattr(value, "combine"):
        raise SpecError(f"{where} must come from agg.monoid(...), not {value!r}")


def _flag(where: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise SpecError(f"{where} must be True or False, not {value!r}")


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "q": _fraction,
    "k": _whole(1, 2**31 - 1),  # there is room for so many from the start
    "ddof": _whole(0),
    "interp": _one_of(INTERPOLATIONS),
    "bias": _flag,
    "monoid": _user_monoid,
    "numerics": _one_of(NUMERICS),
    "overflow": _one_of(OVERFLOWS),
    "lg_k": _whole(1),
    "max_items": _whole(1),
    "merge": _flag,
    "source": _anything,
    "min_count": _whole(0),
    "nan": _one_of(NAN_MODES),
}
_GIVEN = {
    "quantile": ("q",),
    "top_k": ("k",),
    "most_common": ("k",),
    "approx_quantile": ("q",),
    "approx_top_k": ("k",),
}
_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(Aggregate)}


def named(aggs: tuple[Any, ...], by_name: dict[str, Any]) -> tuple[tuple[str, Aggregate], ...]:
    """(name, aggregate) pairs of what ``.agg(*aggs, **by_name)`` was given, names unique."""
    pairs = [(getattr(a, "default_name", None), a) for a in aggs] + list(by_name.items())
    if not pairs:
        raise SpecError("agg: at least one aggregate is needed, like agg.sum('amount')")
    return check_names(pairs)


def check_names(pairs: Sequence[tuple[Any, Any]]) -> tuple[tuple[str, Aggregate], ...]:
    """The pairs, if their names are unique and each names an aggregate."""
    seen: set[str] = set()
    for name, aggregate in pairs:
        if not isinstance(name, str) and isinstance(aggregate, Aggregate):
            raise SpecError(f"agg: an answer's name must be a text, not {name!r}")
        if not isinstance(aggregate, Aggregate):
            label = f"{name}=" if name else ""
            raise SpecError(f"agg: {label}{aggregate!r} is not an aggregate like agg.sum('amount')")
        if name in seen:
            raise SpecError(f"agg: two answers are named {name!r}; give one another name")
        seen.add(name)
    return tuple(pairs)
