"""The aggregates of ``mta.agg`` that are answered from sketches, or are sketches.

A sketch answers approximately from memory that does not grow with the window, and its bytes are
those of Apache DataSketches: Spark SQL's own functions read them, and the other way round. Their
errors, and what they are a function of, are in docs/sketches.md. Several aggregates of one column
with one size share a sketch. All but the two of KLL need ``pip install 'mta-windows[sketches]'``.

Nulls are skipped. Times count by their ticks in the column's unit, in Spark microseconds.
"""

from __future__ import annotations

from mta.functions import Aggregate

__all__ = [
    "approx_count_distinct",
    "approx_quantile",
    "approx_top_k",
    "frequent_items_sketch",
    "hll_sketch",
    "kll_sketch",
    "theta_sketch",
]


def approx_quantile(
    column: str, q: float, *, k: int = 200, min_count: int = 0, nan: str = "propagate"
) -> Aggregate:
    """A value of the window whose rank is about `q`, in the column's own type (numbers, times).

    The least value with at least ``q * n`` of the n values at or below it, exactly so up to `k`
    values (KLL, Karnin et al. 2016); beyond that its rank is off by less than 1.33 % of n with a
    probability of 99 % for a `k` of 200, by less than ``2.3 / k^0.97`` otherwise. NaN has no rank
    and counts as null, whatever `nan` says.

    Parameters
    ----------
    k : accuracy, 8 to 65535; a sketch keeps about 3 k values

    Where a window fits in memory `quantile` is exact, and faster. Some 12 us a row.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([5, 1, 4])}
    >>> mta.rolling(3).agg(a=agg.approx_quantile("x", 0.5))(rows)["a"].tolist()
    [5, 1, 4]
    """
    return Aggregate("approx_quantile", column, q=q, k=k, min_count=min_count, nan=nan)


def approx_count_distinct(
    column: str, *, lg_k: int = 12, min_count: int = 0, nan: str = "propagate"
) -> Aggregate:
    """About how many different values (numbers, times or texts) there are; int64.

    From a HyperLogLog sketch of ``2^lg_k`` registers (Flajolet et al. 2007): exact for few values,
    then with a relative standard error of ``1.04 / 2^(lg_k / 2)``, 1.6 % for 12. A function of the
    set of values. All NaN are one value, 0.0 and -0.0 are one; an empty text is not counted.

    Parameters
    ----------
    lg_k : accuracy, 4 to 21; a sketch takes ``2^lg_k`` bytes

    Some 20 us a row; see `count_distinct` for the exact number.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array(["a", "b", "a"])}
    >>> mta.rolling(3).agg(a=agg.approx_count_distinct("x"))(rows)["a"].tolist()
    [1, 2, 2]
    """
    return Aggregate("approx_count_distinct", column, lg_k=lg_k, min_count=min_count, nan=nan)


def approx_top_k(
    column: str,
    k: int,
    *,
    max_items: int = 10_000,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """The `k` most frequent values (numbers, times or texts), most frequent first, ties in their
    own order: a list.

    From counts of at most `max_items` values (Misra and Gries 1982; Anderson et al. 2017): exact up
    to so many different ones, beyond that counts are too high by at most ``2.7 n / max_items``, and
    only values are listed that surely are more frequent than that error. So the list may be
    shorter than `k`, even empty.

    Parameters
    ----------
    max_items : values to keep count of, up to 1,000,000

    Up to 0.3 us a row for every value that is kept count of; see `most_common` for the exact list.

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array(["b", "a", "a"])}
    >>> [a.tolist() for a in mta.rolling(3).agg(a=agg.approx_top_k("x", 2))(rows)["a"]]
    [['b'], ['a', 'b'], ['a', 'b']]
    """
    return Aggregate("approx_top_k", column, k=k, max_items=max_items, min_count=min_count, nan=nan)


def kll_sketch(
    column: str,
    *,
    k: int = 200,
    merge: bool = False,
    source: str | None = None,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """A KLL sketch of quantiles, in bytes: of doubles, or of longs where the column holds integers,
    times or truths. Spark reads it by ``kll_sketch_get_quantile_double`` (``_bigint``) and its kin.

    The same rows give the same bytes, here: the coins that KLL tosses are a function of the window.
    NaN is left out.

    Parameters
    ----------
    k : as for `approx_quantile`
    merge : the column holds the bytes of such sketches, ours or another's; they are merged. Bytes
        that are no such sketch are a DataError, which names the column and the row
    source : with `merge`, what they are of, which bytes of KLL do not tell: "float" (doubles) or
        "int" (longs)

    Examples
    --------
    A sketch of every week, from one of every day:

    >>> import numpy as np, mta
    >>> from mta import agg
    >>> days = {"day": np.repeat(np.arange(9), 10), "x": np.arange(90.0)}
    >>> last = mta.rolling("1i", on="day", every=10)
    >>> daily = last.agg(sketch=agg.kll_sketch("x"))(days)
    >>> weekly = mta.rolling("7i", on="day").agg(sketch=agg.kll_sketch("sketch", merge=True))(daily)
    >>> from mta.sketches import Quantiles
    >>> Quantiles().from_bytes(weekly["sketch"][-1])
    <Kll of float, k=200: 70 values, 70 retained>
    """
    return Aggregate(
        "kll_sketch", column, k=k, merge=merge, source=source, min_count=min_count, nan=nan
    )


def hll_sketch(
    column: str,
    *,
    lg_k: int = 12,
    merge: bool = False,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """A HyperLogLog sketch of the different values, in bytes, as Spark's ``hll_sketch_agg`` makes
    them: ``hll_sketch_estimate`` and ``hll_union`` read it.

    Parameters
    ----------
    lg_k : as for `approx_count_distinct`
    merge : the column holds the bytes of such sketches, as for `kll_sketch`

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([5, 1, 5])}
    >>> sketch = mta.rolling(3).agg(a=agg.hll_sketch("x"))(rows)["a"][-1]
    >>> import datasketches
    >>> round(datasketches.hll_sketch.deserialize(sketch).get_estimate())
    2
    """
    return Aggregate("hll_sketch", column, lg_k=lg_k, merge=merge, min_count=min_count, nan=nan)


def theta_sketch(
    column: str,
    *,
    lg_k: int = 12,
    merge: bool = False,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """A theta sketch of the different values, in bytes, as Spark's ``theta_sketch_agg`` makes them:
    ``theta_sketch_estimate``, ``theta_union``, ``theta_intersection`` and ``theta_difference`` read
    it. Exact up to ``2^lg_k`` values, then with a relative standard error of ``2^(-lg_k / 2)``.

    Parameters
    ----------
    lg_k : accuracy, 5 to 26; a sketch takes up to ``2^(lg_k + 4)`` bytes
    merge : the column holds the bytes of such sketches, as for `kll_sketch`

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array(["a", "b", "a"])}
    >>> sketch = mta.rolling(3).agg(a=agg.theta_sketch("x"))(rows)["a"][-1]
    >>> import datasketches
    >>> datasketches.compact_theta_sketch.deserialize(sketch).get_estimate()
    2.0
    """
    return Aggregate("theta_sketch", column, lg_k=lg_k, merge=merge, min_count=min_count, nan=nan)


def frequent_items_sketch(
    column: str,
    *,
    max_items: int = 10_000,
    merge: bool = False,
    source: str | None = None,
    min_count: int = 0,
    nan: str = "propagate",
) -> Aggregate:
    """The counts of the most frequent values, in bytes: the field `sketch` of what Spark's
    ``approx_top_k_accumulate`` gives.

    Parameters
    ----------
    max_items : as for `approx_top_k`
    merge : the column holds the bytes of such sketches, as for `kll_sketch`
    source : with `merge`, what they are of: "int" (and times), "float" or "text"

    Examples
    --------
    >>> import numpy as np, mta
    >>> from mta import agg
    >>> rows = {"x": np.array([5, 1, 5])}
    >>> sketch = mta.rolling(3).agg(a=agg.frequent_items_sketch("x"))(rows)["a"][-1]
    >>> from mta.sketches import Frequent
    >>> counts = Frequent()
    >>> counts.lower(counts.from_bytes(sketch), [("items", 2), ("counts", 2)])
    [[5, 1], [2, 1]]
    """
    return Aggregate(
        "frequent_items_sketch", column, max_items=max_items, merge=merge, source=source,
        min_count=min_count, nan=nan,
    )  # fmt: skip
