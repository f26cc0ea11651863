"""The aggregates of ``mta.agg`` of shape, of products, and of two columns.

All are computed in about twice the precision of a double, around a value of the window: no large
offset costs digits. What every function accepts is in ``mta.aggregates``.
"""

from __future__ import annotations

from mta.functions import Aggregate

__all__ = [
    "corr",
    "cov",
    "geometric_mean",
    "kurt",
    "product",
    "skew",
    "slope",
    "weighted_mean",
]


def skew(
    column: str,
    *,
    bias: bool = False,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """Skewness: adjusted Fisher-Pearson (pandas'; null below 3 values), or with `bias` that of the
    population. NaN where all values are equal. Computed in 106 bits around a value of the window.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([0.0, 0.0, 3.0])}
    >>> mta.rolling(3).agg(a=agg.skew("x"))(rows)["a"].round(6).tolist()
    [nan, nan, 1.732051]
    """
    return Aggregate("skew", column, bias=bias, min_count=min_count, nan=nan)


def kurt(
    column: str,
    *,
    bias: bool = False,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """Excess kurtosis: unbiased (pandas'; null below 4 values), or with `bias` that of the
    population. NaN where all values are equal. Computed in 106 bits around a value of the window.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([0.0, 0.0, 0.0, 2.0])}
    >>> mta.rolling(4).agg(a=agg.kurt("x"))(rows)["a"].tolist()
    [nan, nan, nan, 4.0]
    """
    return Aggregate("kurt", column, bias=bias, min_count=min_count, nan=nan)


def product(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Product. Integers are exact and raise OverflowError where the answer does not fit in 64 bits;
    floats neither overflow nor underflow on the way, and a zero that has left leaves no trace.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([0, 3, 4])}
    >>> mta.rolling(2).agg(a=agg.product("x"))(rows)["a"].tolist()
    [0, 0, 12]
    """
    return Aggregate("product", column, min_count=min_count, nan=nan)


def geometric_mean(column: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """The n-th root of the product of n values; NaN where one is negative, 0 where one is 0.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1.0, 4.0, 9.0])}
    >>> mta.rolling(2).agg(a=agg.geometric_mean("x"))(rows)["a"].tolist()
    [1.0, 2.0, 6.0]
    """
    return Aggregate("geometric_mean", column, min_count=min_count, nan=nan)


def weighted_mean(
    column: str,
    weights: str,
    *,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """``sum(weight * value) / sum(weight)``: of prices and volumes, the VWAP. NaN where the weights
    cancel to 0. Products are exact and added as double-doubles.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"p": np.array([10.0, 20.0]), "v": np.array([3, 1])}
    >>> mta.rolling(2).agg(a=agg.weighted_mean("p", "v"))(rows)["a"].tolist()
    [10.0, 12.5]
    """
    return Aggregate("weighted_mean", column, (weights,), min_count=min_count, nan=nan)


def cov(x: str, y: str, *, ddof: int = 1, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Covariance of two columns; null with `ddof` rows or fewer.

    Computed in 106 bits around a row of the window.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1.0, 3.0]), "y": np.array([5.0, 9.0])}
    >>> mta.rolling(2).agg(a=agg.cov("x", "y"))(rows)["a"].tolist()
    [nan, 4.0]
    """
    return Aggregate("cov", x, (y,), ddof=ddof, min_count=min_count, nan=nan)


def corr(x: str, y: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Pearson's correlation of two columns, from -1 to 1; null below 2 rows, NaN where one is
    constant.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1.0, 3.0]), "y": np.array([9.0, 5.0])}
    >>> mta.rolling(3).agg(a=agg.corr("x", "y"))(rows)["a"].tolist()
    [nan, -1.0]
    """
    return Aggregate("corr", x, (y,), min_count=min_count, nan=nan)


def slope(y: str, x: str, *, min_count: int = 0, nan: str = "propagate") -> Aggregate:
    """Slope of the least-squares line of `y` over `x`; null below 2 rows, NaN where x is constant.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([1.0, 3.0]), "y": np.array([9.0, 5.0])}
    >>> mta.rolling(3).agg(a=agg.slope("y", "x"))(rows)["a"].tolist()
    [nan, -2.0]
    """
    return Aggregate("slope", y, (x,), min_count=min_count, nan=nan)
