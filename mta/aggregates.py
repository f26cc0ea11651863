"""WHAT is computed: ``agg.sum("amount")`` and its kin, as plain descriptions.

An aggregate says nothing about windows, and computes nothing: ``mta.rolling(...).agg(...)`` and
``mta.Window`` take it. Every function below accepts

min_count : int, default 0
    Fewer non-null values in the window give null.
nan : {"propagate", "skip", "greatest"}, default "propagate"
    What a float NaN means: it makes the answer NaN for as long as it is inside; it counts as null;
    or (for min and max) it is a value above +inf. Nulls are skipped always.

An empty window answers 0 for count and sum and null for everything else.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from mta.errors import SpecError

__all__ = [
    "Aggregate",
    "count",
    "count_all",
    "max",
    "mean",
    "min",
    "std",
    "sum",
    "var",
]

_NAN_MODES = ("propagate", "skip", "greatest")


@dataclass(frozen=True)
class Aggregate:
    """One answer to compute. Made by the functions of this module; prints as the call."""

    fn: str
    column: str | None = None
    ddof: int = 1
    min_count: int = 0
    nan: str = "propagate"

    def __post_init__(self) -> None:
        where = f"agg.{self.fn}"
        if self.fn not in FUNCTIONS:
            raise SpecError(f"no aggregate {self.fn!r}; known: {', '.join(sorted(FUNCTIONS))}")
        if self.column is None and FUNCTIONS[self.fn].needs_column:
            raise SpecError(f"{where}: the name of a column is needed")
        if self.column is not None and not isinstance(self.column, str):
            raise SpecError(f"{where}: column must be a name, not {self.column!r}")
        if self.column is not None and self.fn == "count_all":
            raise SpecError(f"{where}: counts rows; use agg.count({self.column!r}) for values")
        _check_whole(where, "ddof", self.ddof)
        _check_whole(where, "min_count", self.min_count)
        if self.nan not in _NAN_MODES:
            raise SpecError(f"{where}: nan must be one of {_NAN_MODES}, not {self.nan!r}")

    def __repr__(self) -> str:
        shown = [repr(self.column)] if self.column is not None else []
        for field in fields(self)[2:]:
            value = getattr(self, field.name)
            if value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"agg.{self.fn}({', '.join(shown)})"

    @property
    def default_name(self) -> str:
        """The answer's name where none is given: "amount_sum", "count"."""
        return self.fn if self.column is None else f"{self.column}_{self.fn}"

    def to_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name == "fn" or getattr(self, f.name) != f.default
        }


def _check_whole(where: str, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SpecError(f"{where}: {name} must be a whole number from 0, not {value!r}")


@dataclass(frozen=True)
class Function:
    """How an aggregate is made of a monoid: which one, what is lowered, what an answer needs."""

    monoid: str | None  # None: the number of values, which every window knows
    needs_column: bool = True
    needs_values: int = 1  # non-null values without which the answer is null (var adds its ddof)
    numeric: bool = True  # False: any ordered type will do


FUNCTIONS = {
    "count": Function(None, needs_column=False, needs_values=0, numeric=False),
    "count_all": Function(None, needs_column=False, needs_values=0, numeric=False),
    "sum": Function("sum", needs_values=0),
    "mean": Function("sum"),
    "min": Function("min", numeric=False),
    "max": Function("max", numeric=False),
    "var": Function("moments"),
    "std": Function("moments"),
}


def count(column: str | None = None, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Number of non-null values of `column`, or of rows where no column is given. int64.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> mta.rolling(2).agg(n=agg.count())({"x": np.array([5.0, 6.0, 7.0])})["n"].tolist()
    [1, 2, 2]
    """
    return Aggregate("count", column, min_count=min_count, nan=nan)


def count_all(*, min_count: int = 0) -> Aggregate:
    """Number of rows, null or not (SQL's ``count(*)``). int64.

    Examples
    --------
    >>> from mta import agg
    >>> agg.count_all()
    agg.count_all()
    """
    return Aggregate("count_all", min_count=min_count)


def sum(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Sum. Integers are exact (128 bits inside) and raise OverflowError where the answer does not
    fit in 64; floats err by at most ``2^-52 |sum| + n^2 2^-104 sum|x|`` over the rows inside, and
    nothing that has left the window counts.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> spike = {"x": np.array([1e16, 1.0, 2.0, 3.0])}
    >>> mta.rolling(2).agg(s=agg.sum("x"))(spike)["s"].tolist()
    [1e+16, 1e+16, 3.0, 5.0]
    """
    return Aggregate("sum", column, min_count=min_count, nan=nan)


def mean(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Arithmetic mean, float64. Of integers: correctly rounded, also above 2^53.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> mta.rolling(2).agg(m=agg.mean("x"))({"x": np.array([1, 2, 4])})["m"].tolist()
    [1.0, 1.5, 3.0]
    """
    return Aggregate("mean", column, min_count=min_count, nan=nan)


def min(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Least value, in the column's own type (numbers, booleans, times).

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> mta.rolling(2).agg(m=agg.min("x"))({"x": np.array([3, 1, 2])})["m"].tolist()
    [3, 1, 1]
    """
    return Aggregate("min", column, min_count=min_count, nan=nan)


def max(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Greatest value, in the column's own type (numbers, booleans, times).

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> mta.rolling(2).agg(m=agg.max("x"))({"x": np.array([3, 1, 2])})["m"].tolist()
    [3, 3, 2]
    """
    return Aggregate("max", column, min_count=min_count, nan=nan)


def var(column: str, *, ddof: int = 1, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Variance with `ddof` delta degrees of freedom; null with `ddof` values or fewer.

    Computed in 106 bits around a value of the window, so a large offset costs no digits. Never
    negative; exactly 0 where all values are equal.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> mta.rolling(3).agg(v=agg.var("x"))({"x": 1e9 + np.array([4.0, 7.0, 13.0])})["v"].tolist()
    [nan, 4.5, 21.0]
    """
    return Aggregate("var", column, ddof=ddof, min_count=min_count, nan=nan)


def std(column: str, *, ddof: int = 1, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Standard deviation: the square root of `var`, rounded once.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> mta.rolling(2).agg(s=agg.std("x", ddof=0))({"x": np.array([1.0, 3.0, 9.0])})["s"].tolist()
    [0.0, 1.0, 3.0]
    """
    return Aggregate("std", column, ddof=ddof, min_count=min_count, nan=nan)


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


def needed(aggregate: Aggregate, min_periods: int) -> int:
    """Non-null values without which the answer is null."""
    least = FUNCTIONS[aggregate.fn].needs_values
    if aggregate.fn in ("var", "std"):
        least += aggregate.ddof
    return builtins.max(least, aggregate.min_count, min_periods)
