"""Every aggregate from its definition, over the rows of one window, in exact arithmetic.

What is rational is computed with ``fractions.Fraction``; square roots are the nearest doubles, and
n-th roots have 60 digits. Beside each answer stands how far the engine may be off. That is
nothing, or

- a bound for sums of rounded terms in 106 bits (``sum_bound``) or in doubles (numerics="fast"); or
- 1e-12 of the answer's scale: of the answer itself, or, for what comes out of a difference that
  may cancel (cov, corr, slope, skew, kurt), of what it is at most by Cauchy and Schwarz.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from oracle_exact import SMALLEST, Exact, exactly, is_nan, nearest_double, nearest_sqrt, root

SCALE = Fraction(1, 10**12)


class Agg(NamedTuple):
    """One aggregate: a name of the vocabulary and its options."""

    fn: str
    col: str | None = None
    min_count: int | None = None
    nan: str = "propagate"
    ddof: int = 1
    other: str | None = None
    """The second column: order, by, weights; y of cov and corr, x of slope."""
    q: float = 0.5
    interp: str = "linear"
    k: int = 1
    bias: bool = False
    numerics: str = "compensated"
    overflow: str = "raise"
    """Of integer sums; with "raise" the answer here is the true sum, whether it fits or not."""
    unsigned: bool = False
    """The type of the column's integers, which overflow="wrap" wraps into."""


class Inside(NamedTuple):
    """The rows of a window that count for an aggregate, in window order."""

    values: list
    others: list
    """Their values of the second column; Nones where there is none."""
    ages: list[int]
    """How many rows of the window, counting or not, come after each."""


def inside(agg: Agg, window: Sequence[dict]) -> Inside:
    """The rows where no column that the aggregate reads is null."""
    read = [column for column in (agg.col, agg.other) if column is not None]
    nan = "skip" if agg.fn == "approx_quantile" else agg.nan  # NaN has no rank
    places = [
        place
        for place, row in enumerate(window)
        if agg.fn == "count_all" or not any(_is_null(row[column], nan) for column in read)
    ]
    return Inside(
        [window[p].get(agg.col) for p in places],
        [window[p].get(agg.other) for p in places],
        [len(window) - 1 - p for p in places],
    )


def _is_null(value: Any, nan: str) -> bool:
    return value is None or (nan == "skip" and is_nan(value))


def needs(agg: Agg) -> int:
    """The rows that must count, or the answer is null whatever the caller asks for."""
    if agg.fn in ("count", "count_all", "count_distinct", "sum", "list", "top_k", "most_common"):
        return 0
    if agg.fn in ("approx_count_distinct", "approx_top_k"):
        return 0
    if agg.fn in ("var", "std", "cov"):
        return agg.ddof + 1
    if agg.fn in ("skew", "kurt"):
        return 1 if agg.bias else {"skew": 3, "kurt": 4}[agg.fn]
    return 2 if agg.fn in ("corr", "slope") else 1


# ---- how many, how much ----------------------------------------------------------------------


def _count(rows: Inside, agg: Agg) -> Exact:
    return Exact(len(rows.ages))


def _sum(rows: Inside, agg: Agg) -> Exact:
    special = _special_sum(rows.values)
    if special is not None:
        return Exact(special)
    if _are_ints(rows.values):
        return _int_sum(sum(map(int, rows.values)), agg)
    return Exact(sum(map(Fraction, rows.values)), _error_of_sum(rows.values, agg.numerics))


def _int_sum(total: int, agg: Agg) -> Exact:
    if agg.overflow == "float":
        return Exact(Fraction(total))
    if agg.overflow == "wrap":
        least = 0 if agg.unsigned else -(2**63)
        total = (total - least) % 2**64 + least
    return Exact(total)


def _mean(rows: Inside, agg: Agg) -> Exact:
    values = rows.values
    special = _special_sum(values)
    if special is not None:
        return Exact(special)
    mean = Fraction(sum(map(Fraction, values)), len(values))
    if _are_ints(values) or agg.numerics == "exact":
        return Exact(mean)
    division = abs(mean) / 2**53 if agg.numerics == "fast" else 0
    return Exact(mean, _error_of_sum(values, agg.numerics) / len(values) + division + SMALLEST)


def _error_of_sum(values: Sequence, numerics: str) -> Fraction:
    if numerics == "fast":  # n - 1 roundings, each of at most half an ulp, in whatever order
        return Fraction(len(values), 2**53) * sum(abs(Fraction(v)) for v in values)
    return Fraction(0) if numerics == "exact" else sum_bound(values)


def sum_bound(values: Sequence) -> Fraction:
    """How far a compensated sum may lie from the exact sum of these finite numbers."""
    total = abs(sum(map(Fraction, values)))
    return total / 2**52 + _error_inside(map(Fraction, values))


def _error_inside(terms: Iterable[Fraction]) -> Fraction:
    """How far the sum of these terms in 106 bits may be off before it is rounded to a double."""
    sizes = [abs(term) for term in terms]
    return Fraction(len(sizes) ** 2, 2**104) * sum(sizes)


def _special_sum(values: Sequence) -> float | None:
    """NaN or an infinity where the sum is not a finite number, else None."""
    signs = {math.copysign(1.0, v) for v in values if isinstance(v, float) and math.isinf(v)}
    if any(map(is_nan, values)) or len(signs) == 2:
        return math.nan
    return math.inf * signs.pop() if signs else None


def _weighted_mean(rows: Inside, agg: Agg) -> Exact:
    values, weights = rows.values, rows.others
    if not all(map(math.isfinite, weights)) or sum(map(Fraction, weights)) == 0:
        return Exact(math.nan)  # an infinite weight: inf / inf, or inf * 0
    if not all(map(math.isfinite, values)):
        return Exact(_special_weighted_mean(values, weights))
    terms = [Fraction(w) * Fraction(v) for v, w in zip(values, weights, strict=True)]
    weight = sum(map(Fraction, weights))
    mean = sum(terms) / weight
    off, off_below = _error_inside(terms), _error_inside(map(Fraction, weights))
    assert off_below < abs(weight) / 2, "weights that cancel so far have no sum in 106 bits"
    return Exact(mean, abs(mean) / 2**52 + (off + abs(mean) * off_below) / (abs(weight) / 2))


def _special_weighted_mean(values: Sequence, weights: Sequence) -> float:
    """Of values that are not all finite: w * inf is an infinity or, for w = 0, NaN."""
    ends = [float(v) * math.copysign(w != 0, w) for v, w in zip(values, weights, strict=True)
            if not math.isfinite(v)]  # fmt: skip
    total = _special_sum(ends)
    return total if sum(map(Fraction, weights)) > 0 else -total


def _product(rows: Inside, agg: Agg) -> Exact:
    values = rows.values
    if _are_ints(values):
        return Exact(math.prod(values))
    if any(map(is_nan, values)) or (0 in values and any(map(math.isinf, values))):
        return Exact(math.nan)
    if any(map(math.isinf, values)):
        return Exact(math.prod(math.copysign(1, v) for v in values) * math.inf)
    product = exact_product(values)
    return Exact(product, abs(product) / 2**52 + SMALLEST / 2)  # the latter where it is subnormal


def _geometric_mean(rows: Inside, agg: Agg) -> Exact:
    """0 with any zero, inf with any infinity, NaN with both, anything negative or NaN."""
    values = rows.values
    endless = any(map(math.isinf, values))
    if any(is_nan(v) or v < 0 for v in values) or (endless and 0 in values):
        return Exact(math.nan)
    if endless or 0 in values:
        return Exact(math.inf if endless else Fraction(0))
    mean = root(exact_product(values), len(values))
    return Exact(mean, 4 * Fraction(math.ulp(nearest_double(mean))))


def exact_product(values: Sequence) -> Fraction:
    """The product of finite numbers."""
    terms = [Fraction(v) for v in values]
    return Fraction(math.prod(t.numerator for t in terms), math.prod(t.denominator for t in terms))


# ---- moments ---------------------------------------------------------------------------------


def deviations(values: Sequence) -> tuple[list[int], int]:
    """How far each finite number lies from the mean of all, as ints and the unit's reciprocal."""
    n, numbers = len(values), [Fraction(v) for v in values]
    unit = math.lcm(*(x.denominator for x in numbers))
    whole = [x.numerator * (unit // x.denominator) for x in numbers]
    total = sum(whole)
    return [n * x - total for x in whole], n * unit


def variance(values: Sequence, ddof: int) -> Fraction:
    """The exact variance of finite numbers."""
    return covariance(values, values, ddof)


def covariance(xs: Sequence, ys: Sequence, ddof: int) -> Fraction:
    """The exact covariance of finite numbers."""
    (dx, unit_x), (dy, unit_y) = deviations(xs), deviations(ys)
    products = sum(a * b for a, b in zip(dx, dy, strict=True))
    return Fraction(products, unit_x * unit_y * (len(xs) - ddof))


def _moments(function: Callable[[Inside, Agg], Exact]) -> Callable[[Inside, Agg], Exact]:
    """What is made of deviations from a mean is NaN where any value is not finite."""

    def of_any_values(rows: Inside, agg: Agg) -> Exact:
        numbers = rows.values + (rows.others if agg.other else [])
        if not all(map(math.isfinite, numbers)):
            return Exact(math.nan)
        return function(rows, agg)

    return of_any_values


@_moments
def _var(rows: Inside, agg: Agg) -> Exact:
    var = variance(rows.values, agg.ddof)
    return Exact(var, SCALE * var)


@_moments
def _std(rows: Inside, agg: Agg) -> Exact:
    std = Fraction(nearest_sqrt(variance(rows.values, agg.ddof)))
    return Exact(std, SCALE * std)


@_moments
def _cov(rows: Inside, agg: Agg) -> Exact:
    xs, ys = rows.values, rows.others
    most = nearest_sqrt(variance(xs, agg.ddof) * variance(ys, agg.ddof))
    return Exact(covariance(xs, ys, agg.ddof), SCALE * Fraction(most))


@_moments
def _corr(rows: Inside, agg: Agg) -> Exact:
    cov, spread = covariance(rows.values, rows.others, 0), Fraction(1)
    for values in (rows.values, rows.others):
        spread *= variance(values, 0)
    if spread == 0:
        return Exact(math.nan)
    corr = _signed(nearest_sqrt(cov**2 / spread), cov)
    return Exact(corr, SCALE, within=(-1.0, 1.0))


@_moments
def _slope(rows: Inside, agg: Agg) -> Exact:
    """Of the values over the others."""
    ys, xs = rows.values, rows.others
    spread = variance(xs, 0)
    if spread == 0:
        return Exact(math.nan)
    most = nearest_sqrt(variance(ys, 0) / spread)
    return Exact(covariance(xs, ys, 0) / spread, SCALE * Fraction(most))


@_moments
def _skew(rows: Inside, agg: Agg) -> Exact:
    """m3 / m2^1.5 of the population, or the adjusted Fisher-Pearson coefficient."""
    off, _ = deviations(rows.values)
    n, squares = len(off), sum(d**2 for d in off)
    if squares == 0:
        return Exact(math.nan)
    cubes, most = sum(d**3 for d in off), sum(abs(d) ** 3 for d in off)
    factor = Fraction(n) if agg.bias else Fraction(n * n * (n - 1), (n - 2) ** 2)
    skew = nearest_sqrt(factor * Fraction(cubes**2, squares**3))
    scale = nearest_sqrt(factor * Fraction(most**2, squares**3))
    return Exact(_signed(skew, cubes), SCALE * Fraction(scale))


@_moments
def _kurt(rows: Inside, agg: Agg) -> Exact:
    """m4 / m2^2 - 3 of the population, or its adjusted form."""
    off, _ = deviations(rows.values)
    n, squares = len(off), sum(d**2 for d in off)
    if squares == 0:
        return Exact(math.nan)
    fourth, normal = Fraction(n * sum(d**4 for d in off), squares**2), Fraction(3)
    if not agg.bias:
        factor = Fraction(n - 1, (n - 2) * (n - 3))
        fourth, normal = factor * (n + 1) * fourth, factor * 3 * (n - 1)
    return Exact(fourth - normal, SCALE * (fourth + normal))


def _signed(size: float, like: Fraction | int) -> Fraction:
    return Fraction(size) if like >= 0 else -Fraction(size)


# ---- which row -------------------------------------------------------------------------------


def _least(rows: Inside, agg: Agg) -> Exact:
    return exactly(rows.values[winner(rows.values, agg.nan, least=True)])


def _greatest(rows: Inside, agg: Agg) -> Exact:
    return exactly(rows.values[winner(rows.values, agg.nan, least=False)])


def _first(rows: Inside, agg: Agg) -> Exact:
    place = winner(rows.others, agg.nan, least=True) if agg.other else 0
    return exactly(rows.values[place])


def _last(rows: Inside, agg: Agg) -> Exact:
    place = winner(rows.others, agg.nan, least=False, latest=True) if agg.other else -1
    return exactly(rows.values[place])


def _arg_min(rows: Inside, agg: Agg) -> Exact:
    return _arg(rows, agg, least=True)


def _arg_max(rows: Inside, agg: Agg) -> Exact:
    return _arg(rows, agg, least=False)


def _arg(rows: Inside, agg: Agg, least: bool) -> Exact:
    if agg.other:
        return exactly(rows.values[winner(rows.others, agg.nan, least)])
    return Exact(rows.ages[winner(rows.values, agg.nan, least)])


def winner(keys: Sequence, nan: str, least: bool, latest: bool = False) -> int:
    """The place of the least or greatest key: the earliest of equals, or the latest.

    A NaN wins over everything, or with nan="greatest" is above everything.
    """
    if nan != "greatest" and any(map(is_nan, keys)):
        best = [p for p, key in enumerate(keys) if is_nan(key)]
    else:
        numbers = [key for key in keys if not is_nan(key)]
        if not numbers or (not least and len(numbers) < len(keys)):
            best = [p for p, key in enumerate(keys) if is_nan(key)]
        else:
            extreme = min(numbers) if least else max(numbers)
            best = [p for p, key in enumerate(keys) if key == extreme]
    return best[-1] if latest else best[0]


# ---- order -----------------------------------------------------------------------------------


def ascending(values: Sequence) -> list:
    """The values in order, NaN above all."""
    return sorted(values, key=lambda v: (is_nan(v), 0 if is_nan(v) else v))


def _median(rows: Inside, agg: Agg) -> Exact:
    return _quantile(rows, agg._replace(q=0.5, interp="linear"))


def _quantile(rows: Inside, agg: Agg) -> Exact:
    """At position q (n - 1), a product of doubles as in NumPy, among the ordered values."""
    if agg.nan != "greatest" and any(map(is_nan, rows.values)):
        return Exact(math.nan)
    ordered = ascending(rows.values)
    position = float(agg.q) * (len(ordered) - 1)
    below, above = math.floor(position), math.ceil(position)
    ranks = {"lower": below, "higher": above, "nearest": round(position)}  # round: ties to even
    if agg.interp in ranks:
        return exactly(ordered[ranks[agg.interp]])
    part = Fraction(position) - below
    if agg.interp == "midpoint":
        part = Fraction(1, 2) if part else part
    return _between(ordered[below], ordered[above], part, rounded=agg.interp == "midpoint")


def _between(a: Any, b: Any, part: Fraction, rounded: bool) -> Exact:
    """The value at ``part`` of the way from a to b, as a double; ``rounded``: correctly.

    Else the rounding of b - a, of its product and of the sum may show, as in NumPy's lerp; not in
    the middle between two ints, though.
    """
    if part == 0 or a == b:
        return exactly(float(a) if is_nan(a) or math.isinf(a) else Fraction(a))
    if not (math.isfinite(a) and math.isfinite(b)):
        return Exact(a + b)  # an infinity, or NaN between two of them
    a, b, ints = Fraction(a), Fraction(b), _are_ints((a, b))
    value = a + (b - a) * part
    if rounded or (ints and part == Fraction(1, 2)):
        return Exact(value)
    error = (abs(value) + (b - a) * min(part, 1 - part)) / 2**52 + SMALLEST
    return Exact(value, error, within=(nearest_double(a), nearest_double(b)))


def _top_k(rows: Inside, agg: Agg) -> Exact:
    return Exact([exactly(v) for v in ascending(rows.values)[::-1][: agg.k]])


def _longest_run(rows: Inside, agg: Agg) -> Exact:
    """A NaN is neither above nor below anything, so it is a run of its own."""
    best = length = 1
    for before, value in zip(rows.values, rows.values[1:], strict=False):
        length = length + 1 if before < value else 1
        best = max(best, length)
    return Exact(best)


# ---- sets and lists --------------------------------------------------------------------------


def tally(values: Sequence) -> list[list]:
    """Equal values together, in the order of their first ones; all NaNs are equal."""
    groups: list[list] = []
    for value in values:
        for group in groups:
            if group[0] == value or (is_nan(group[0]) and is_nan(value)):
                group.append(value)
                break
        else:
            groups.append([value])
    return groups


def _count_distinct(rows: Inside, agg: Agg) -> Exact:
    return Exact(len(tally(rows.values)))


def _mode(rows: Inside, agg: Agg) -> Exact:
    return exactly(max(tally(rows.values), key=len)[0])  # max: the first of equals


def _most_common(rows: Inside, agg: Agg) -> Exact:
    by_size = sorted(tally(rows.values), key=len, reverse=True)  # and stays in order among equals
    return Exact([exactly(group[0]) for group in by_size[: agg.k]])


def _list(rows: Inside, agg: Agg) -> Exact:
    return Exact([exactly(v) for v in rows.values])


def _approx_quantile(rows: Inside, agg: Agg) -> Exact:
    """What a sketch answers that has room for all values; so do the next two."""
    values = sorted(rows.values, key=lambda v: (v, math.copysign(1, v)))
    return exactly(values[max(1, math.ceil(agg.q * len(values))) - 1])


def _approx_count_distinct(rows: Inside, agg: Agg) -> Exact:
    return Exact(len(tally([v for v in rows.values if v != ""])))


def _approx_top_k(rows: Inside, agg: Agg) -> Exact:
    """Ties in the order of the values, NaN last."""
    groups = tally(rows.values)
    groups.sort(key=lambda g: (-len(g), is_nan(g[0]), 0 if is_nan(g[0]) else g[0]))
    return Exact([exactly(group[0]) for group in groups[: agg.k]])


def _any(rows: Inside, agg: Agg) -> Exact:
    return Exact(any(rows.values))


def _all(rows: Inside, agg: Agg) -> Exact:
    return Exact(all(rows.values))


def _are_ints(values: Sequence) -> bool:
    return all(isinstance(v, int) for v in values)


FUNCTIONS: dict[str, Callable[[Inside, Agg], Exact]] = {
    "count": _count, "count_all": _count, "sum": _sum, "mean": _mean, "product": _product,
    "geometric_mean": _geometric_mean, "weighted_mean": _weighted_mean,
    "var": _var, "std": _std, "cov": _cov, "corr": _corr, "slope": _slope, "skew": _skew,
    "kurt": _kurt, "min": _least, "max": _greatest, "first": _first, "last": _last,
    "arg_min": _arg_min, "arg_max": _arg_max, "quantile": _quantile, "median": _median,
    "top_k": _top_k, "longest_run": _longest_run, "count_distinct": _count_distinct,
    "approx_quantile": _approx_quantile, "approx_count_distinct": _approx_count_distinct,
    "approx_top_k": _approx_top_k, "mode": _mode, "most_common": _most_common, "list": _list,
    "any": _any, "all": _all,
}  # fmt: skip
