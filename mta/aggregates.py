"""WHAT is computed: ``agg.sum("amount")`` and its kin, as plain descriptions.

An aggregate says nothing about windows, and computes nothing: ``mta.rolling(...).agg(...)`` and
``mta.Window`` take it. Every function below accepts

min_count : int, default 0
    Fewer non-null values in the window give null.
nan : {"propagate", "skip", "greatest"}, default "propagate"
    What a float NaN means: it makes the answer NaN for as long as it is inside; it counts as null;
    or, to what compares values, it is one above +inf. Nulls are skipped always; of several columns,
    a row counts where none is null.

An empty window answers 0 for counts and sums, an empty list where lists are answered, and null for
everything else. Rows stand in order of
(time, arrival). Costs are per row and do not depend on the window's length unless stated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mta.algebraic import (
    corr,
    cov,
    geometric_mean,
    kurt,
    product,
    skew,
    slope,
    weighted_mean,
)
from mta.approximate import (
    approx_count_distinct,
    approx_quantile,
    approx_top_k,
    frequent_items_sketch,
    hll_sketch,
    kll_sketch,
    theta_sketch,
)
from mta.functions import Aggregate
from mta.monoids import UserMonoid

__all__ = [
    "Aggregate",
    "all",
    "any",
    "approx_count_distinct",
    "approx_quantile",
    "approx_top_k",
    "arg_max",
    "arg_min",
    "corr",
    "count",
    "count_all",
    "count_distinct",
    "cov",
    "first",
    "frequent_items_sketch",
    "geometric_mean",
    "hll_sketch",
    "kll_sketch",
    "kurt",
    "last",
    "list",
    "longest_run",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "monoid",
    "most_common",
    "product",
    "quantile",
    "skew",
    "slope",
    "std",
    "sum",
    "theta_sketch",
    "top_k",
    "var",
    "weighted_mean",
]


def count(column: str | None = None, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Number of non-null values of `column`, or of rows where no column is given. int64.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([5.0, 6.0, 7.0])}
    >>> mta.rolling(2).agg(a=agg.count())(rows)["a"].tolist()
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


def sum(
    column: str,
    *,
    numerics: str = "compensated",
    overflow: str = "raise",
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """Sum, exact for integers.

    Integers are summed in 128 bits. Floats err by at most ``2^-52 |sum| + n^2 2^-104 sum|x|`` over
    the rows inside, and nothing that has left the window counts.

    Parameters
    ----------
    numerics : {"compensated", "exact", "fast"}
        Of floats: double-doubles; correctly rounded whatever the magnitudes; plain doubles.
    overflow : {"raise", "wrap", "float"}
        Of an integer sum that does not fit in 64 bits: OverflowError, or the sum modulo 2^64;
        "float" answers every integer sum as the nearest double.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1e16, 1.0, 2.0, 3.0])}
    >>> mta.rolling(2).agg(a=agg.sum("x"))(rows)["a"].tolist()
    [1e+16, 1e+16, 3.0, 5.0]
    """
    return Aggregate(
        "sum", column, numerics=numerics, overflow=overflow, min_count=min_count, nan=nan
    )


def mean(
    column: str,
    *,
    numerics: str = "compensated",
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """Arithmetic mean, float64. Of integers: correctly rounded, also above 2^53.

    `numerics` is that of `sum`.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1, 2, 4])}
    >>> mta.rolling(2).agg(a=agg.mean("x"))(rows)["a"].tolist()
    [1.0, 1.5, 3.0]
    """
    return Aggregate("mean", column, numerics=numerics, min_count=min_count, nan=nan)


def min(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Least value, in the column's own type (numbers, booleans, times).

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([3, 1, 2])}
    >>> mta.rolling(2).agg(a=agg.min("x"))(rows)["a"].tolist()
    [3, 1, 1]
    """
    return Aggregate("min", column, min_count=min_count, nan=nan)


def max(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Greatest value, in the column's own type (numbers, booleans, times).

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([3, 1, 2])}
    >>> mta.rolling(2).agg(a=agg.max("x"))(rows)["a"].tolist()
    [3, 3, 2]
    """
    return Aggregate("max", column, min_count=min_count, nan=nan)


def any(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Whether any value of a boolean column is true.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([True, False, False])}
    >>> mta.rolling(2).agg(a=agg.any("x"))(rows)["a"].tolist()
    [True, True, False]
    """
    return Aggregate("any", column, min_count=min_count, nan=nan)


def all(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Whether all values of a boolean column are true.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([True, True, False])}
    >>> mta.rolling(2).agg(a=agg.all("x"))(rows)["a"].tolist()
    [True, True, False]
    """
    return Aggregate("all", column, min_count=min_count, nan=nan)


def var(column: str, *, ddof: int = 1, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Variance with `ddof` delta degrees of freedom; null with `ddof` values or fewer.

    Computed in 106 bits around a value of the window, so a large offset costs no digits. Never
    negative; exactly 0 where all values are equal.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": 1e9 + np.array([4.0, 7.0, 13.0])}
    >>> mta.rolling(3).agg(a=agg.var("x"))(rows)["a"].tolist()
    [nan, 4.5, 21.0]
    """
    return Aggregate("var", column, ddof=ddof, min_count=min_count, nan=nan)


def std(column: str, *, ddof: int = 1, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Standard deviation: the square root of `var`, rounded once.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1.0, 3.0, 9.0])}
    >>> mta.rolling(2).agg(a=agg.std("x", ddof=0))(rows)["a"].tolist()
    [0.0, 1.0, 3.0]
    """
    return Aggregate("std", column, ddof=ddof, min_count=min_count, nan=nan)


def longest_run(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Rows in the longest contiguous strictly increasing run, int64 (LIS of the MTA paper).

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1, 2, 1, 5, 6])}
    >>> mta.rolling(4).agg(a=agg.longest_run("x"))(rows)["a"].tolist()
    [1, 2, 2, 2, 3]
    """
    return Aggregate("longest_run", column, min_count=min_count, nan=nan)


def first(
    column: str,
    order: str | None = None,
    *,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """Oldest value, of any type; with `order`, the value in the row where that column is least (of
    several, the oldest).

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array(["a", "b", "c"])}
    >>> mta.rolling(2).agg(a=agg.first("x"))(rows)["a"].tolist()
    ['a', 'a', 'b']
    """
    return Aggregate(
        "first", column, () if order is None else (order,), min_count=min_count, nan=nan
    )


def last(
    column: str,
    order: str | None = None,
    *,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """Newest value, of any type; with `order`, the value in the row where that column is greatest
    (of several, the newest).

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array(["a", "b", "c"]), "v": np.array([2, 1, 3])}
    >>> mta.rolling(2).agg(a=agg.last("x", order="v"))(rows)["a"].tolist()
    ['a', 'a', 'c']
    """
    return Aggregate(
        "last", column, () if order is None else (order,), min_count=min_count, nan=nan
    )


def arg_min(
    column: str,
    by: str | None = None,
    *,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """The value of `column`, of any type, in the row where `by` is least (of several, the oldest).
    Without `by`: how many rows before the newest one of the window `column` is least, int64.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array(["a", "b", "c"]), "v": np.array([2, 1, 3])}
    >>> mta.rolling(2).agg(a=agg.arg_min("x", by="v"))(rows)["a"].tolist()
    ['a', 'b', 'b']
    """
    return Aggregate("arg_min", column, () if by is None else (by,), min_count=min_count, nan=nan)


def arg_max(
    column: str,
    by: str | None = None,
    *,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """The value of `column`, of any type, in the row where `by` is greatest (of several, the
    oldest). Without `by`: how many rows before the newest one `column` is greatest, int64.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([5, 1, 3])}
    >>> mta.rolling(3).agg(a=agg.arg_max("x"))(rows)["a"].tolist()
    [0, 1, 2]
    """
    return Aggregate("arg_max", column, () if by is None else (by,), min_count=min_count, nan=nan)


def quantile(
    column: str,
    q: float,
    *,
    interp: str = "linear",
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """The quantile `q` from 0 to 1, at place ``q * (n - 1)`` of the n sorted values.

    Parameters
    ----------
    interp : {"linear", "lower", "higher", "midpoint", "nearest"}
        What is answered between two values; of "nearest", a tie goes to the even place. "linear"
        and "midpoint" give float64, the others a value in the column's own type.

    Several quantiles of a column share one structure. O(log n) a row.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1.0, 2.0, 3.0])}
    >>> mta.rolling(3).agg(a=agg.quantile("x", 0.9))(rows)["a"].tolist()
    [1.0, 1.9, 2.8]
    """
    return Aggregate("quantile", column, q=q, interp=interp, min_count=min_count, nan=nan)


def median(
    column: str,
    *,
    interp: str = "linear",
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """The quantile 0.5.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([5, 1, 4])}
    >>> mta.rolling(3).agg(a=agg.median("x"))(rows)["a"].tolist()
    [5.0, 3.0, 4.0]
    """
    return Aggregate("median", column, interp=interp, min_count=min_count, nan=nan)


def top_k(column: str, k: int, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """The `k` greatest values, greatest first: a list. (The most frequent ones: `most_common`.)

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> rows = {"x": [5, 1, 4]}
    >>> [a.tolist() for a in mta.rolling(3).agg(a=agg.top_k("x", 2))(rows)["a"]]
    [[5], [5, 1], [5, 4]]
    """
    return Aggregate("top_k", column, k=k, min_count=min_count, nan=nan)


def count_distinct(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Number of different values, of any type; int64. Two NaN are one value.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array(["a", "b", "a"])}
    >>> mta.rolling(3).agg(a=agg.count_distinct("x"))(rows)["a"].tolist()
    [1, 2, 2]
    """
    return Aggregate("count_distinct", column, min_count=min_count, nan=nan)


def mode(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """The most frequent value, of any type; of several, the one that came first.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array(["a", "b", "b"])}
    >>> mta.rolling(3).agg(a=agg.mode("x"))(rows)["a"].tolist()
    ['a', 'a', 'b']
    """
    return Aggregate("mode", column, min_count=min_count, nan=nan)


def most_common(column: str, k: int, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """The `k` most frequent values, most frequent first, ties as they came: a list.

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> rows = {"x": [5, 1, 1]}
    >>> [a.tolist() for a in mta.rolling(3).agg(a=agg.most_common("x", 2))(rows)["a"]]
    [[5], [5, 1], [1, 5]]
    """
    return Aggregate("most_common", column, k=k, min_count=min_count, nan=nan)


def list(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """All non-null values in order. The answers take as much memory as the windows have rows.

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> rows = {"x": [5, 1, 4]}
    >>> [a.tolist() for a in mta.rolling(2).agg(a=agg.list("x"))(rows)["a"]]
    [[5], [5, 1], [1, 4]]
    """
    return Aggregate("list", column, min_count=min_count, nan=nan)


def monoid(
    lift: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any] | None = None,
    zero: Any = None,
    *,
    columns: str | Sequence[str] | None = None,
    name: str | None = None,
    gives: str | None = None,
) -> Any:
    """An aggregate of your own, made of a monoid; see docs/user-monoids.md.

    Parameters
    ----------
    lift : makes a partial aggregate of a row; one argument per column
    combine : joins the partials of two neighbouring stretches of rows; has to be associative, need
        not be commutative, and nothing is ever taken back out
    lower : makes the answer of the partial of a window; None: the partial is the answer
    zero : the partial that changes no other, or a function that makes one
    columns : name, or names, of the columns; None: the result is called with them
    gives : type of the answers, "float", "int" or "bool"; None: what the functions give
        Answers of another type are refused. Spark needs it of functions that are not compiled.

    Returns
    -------
    An aggregate, or without `columns` an object that makes one: ``vwap("price", "volume")``.

    With numba installed the functions are compiled once, where partials are numbers or flat tuples
    of numbers, and run without Python; else they run through Python, with the same answers. About 3
    combines a row. A spec that has one can't be written as JSON.

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> energy = agg.monoid(lambda x: x * x, lambda a, b: a + b, lambda e: e**0.5, zero=0.0)
    >>> rows = {"x": [3.0, 4.0, 12.0, 5.0]}
    >>> mta.rolling(2).agg(a=energy("x"))(rows)["a"].round(3).tolist()
    [3.0, 5.0, 12.649, 13.0]
    """
    made = UserMonoid(lift, combine, lower, zero, name, gives)
    if columns is None:
        return made
    return made(*((columns,) if isinstance(columns, str) else columns))
