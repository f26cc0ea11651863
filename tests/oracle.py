"""Rolling answers straight from the definitions, in exact rational arithmetic.

Slow on purpose and sharing no code with the engine: every row's window is found by looking at
every row, and every aggregate is computed anew from the rows in it with ``fractions.Fraction``.
Rows are plain dicts; ``None`` is null, NaN and infinities are ordinary floats, ints have no size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

Row = Mapping[str, Any]

NULL_OR_NAN = "<null or NaN>"
"""A NaN read from a container that writes nulls as NaN: it may stand for either."""

LARGEST = Fraction((2**53 - 1) * 2**971)
SMALLEST = Fraction(1, 2**1074)


class Agg(NamedTuple):
    """One aggregate: a name of the vocabulary and its options."""

    fn: str
    col: str | None = None
    min_count: int | None = None
    nan: str = "propagate"
    ddof: int = 1


class Rolling(NamedTuple):
    """A trailing window. ``kind`` is "time", "rows" or "all" (everything so far)."""

    aggs: Mapping[str, Agg]
    kind: str
    range: int | None = None
    on: str | None = None
    by: tuple[str, ...] = ()
    closed: str = "right"
    lag: int = 0
    ties: str = "peers"
    min_periods: int | None = None


class Exact(NamedTuple):
    """An exact answer: null, int, NaN or infinity (float), or a real number (Fraction).

    A Fraction is met by a double within ``tolerance``; tolerance 0 asks for the nearest double.
    """

    value: int | float | Fraction | None
    tolerance: Fraction = Fraction(0)


# ---- which rows ------------------------------------------------------------------------------


def group_of(row: Row, by: Sequence[str]) -> tuple:
    """The row's group: nulls are one value, NaNs are another."""
    return tuple("<NaN>" if _is_nan(row[c]) else (row[c],) for c in by)


def in_order(rows: Sequence[Row], on: str | None) -> list[int]:
    """Row numbers by (time, arrival), or by arrival alone where there is no time."""
    return sorted(range(len(rows)), key=lambda i: (rows[i][on] if on else 0, i))


def frame(rows: Sequence[Row], i: int, spec: Rolling) -> list[int]:
    """The row numbers inside the window of row ``i``, in (time, arrival) order."""
    group = group_of(rows[i], spec.by)
    mates = [j for j in in_order(rows, spec.on) if group_of(rows[j], spec.by) == group]
    if spec.kind == "rows" or spec.on is None:
        return _frame_by_position(mates, mates.index(i), spec)
    return [j for j in mates if _inside_by_time(rows, j, i, spec)]


def _frame_by_position(mates: list[int], here: int, spec: Rolling) -> list[int]:
    right = here - spec.lag
    left = -math.inf if spec.range is None else right - spec.range
    return [j for p, j in enumerate(mates) if between(p, left, right, spec.closed)]


def _inside_by_time(rows: Sequence[Row], j: int, i: int, spec: Rolling) -> bool:
    now, then = rows[i][spec.on], rows[j][spec.on]
    right = now - spec.lag
    left = -math.inf if spec.range is None else right - spec.range
    if spec.ties == "arrival" and not spec.lag:
        # The right edge lies between two rows of one instant, just before or just after row i.
        # With a lag it lies elsewhere, and all rows of one instant are on one side of it.
        closed_right = spec.closed in ("right", "both")
        before_right = (then, j) <= (right, i) if closed_right else (then, j) < (right, i)
        return before_right and (then >= left if spec.closed in ("left", "both") else then > left)
    return between(then, left, right, spec.closed)


def between(x: float, left: float, right: float, closed: str) -> bool:
    """Whether ``x`` lies in the interval, each edge open or closed."""
    above = x >= left if closed in ("left", "both") else x > left
    below = x <= right if closed in ("right", "both") else x < right
    return above and below


# ---- what ------------------------------------------------------------------------------------


def answers(spec: Rolling, rows: Sequence[Row]) -> list[dict[str, Exact]]:
    """Every aggregate's exact answer for every row, in input order."""
    out = []
    for i in range(len(rows)):
        window = [rows[j] for j in frame(rows, i, spec)]
        out.append({name: aggregate(a, window, spec.min_periods) for name, a in spec.aggs.items()})
    return out


def aggregate(agg: Agg, window: Sequence[Row], min_periods: int | None = None) -> Exact:
    """One aggregate of the rows of one window, given in window order."""
    least = max(min_periods or 0, agg.min_count or 0)
    if agg.fn == "count_all" or (agg.fn == "count" and agg.col is None):
        values: list = list(window)
    else:
        values = [row[agg.col] for row in window if not _is_null(row[agg.col], agg.nan)]
    if len(values) < least:
        return Exact(None)
    return FUNCTIONS[agg.fn](values, agg)


def _count(values: list, agg: Agg) -> Exact:
    return Exact(len(values))


def _sum(values: list, agg: Agg) -> Exact:
    special = _special_sum(values)
    if special is not None:
        return Exact(special)
    if all(isinstance(v, int) for v in values):
        return Exact(sum(int(v) for v in values))
    return Exact(sum(map(Fraction, values)), sum_bound(values))


def _mean(values: list, agg: Agg) -> Exact:
    if not values:
        return Exact(None)
    special = _special_sum(values)
    if special is not None:
        return Exact(special)
    mean = Fraction(sum(map(Fraction, values)), len(values))
    if all(isinstance(v, int) for v in values):
        return Exact(mean)
    return Exact(mean, sum_bound(values) / len(values) + SMALLEST)


def _least(values: list, agg: Agg) -> Exact:
    return _extreme(values, agg, min)


def _greatest(values: list, agg: Agg) -> Exact:
    return _extreme(values, agg, max)


def _extreme(values: list, agg: Agg, pick: Any) -> Exact:
    if not values:
        return Exact(None)
    numbers = [v for v in values if not _is_nan(v)]
    if len(numbers) < len(values) and (agg.nan == "propagate" or pick is max or not numbers):
        return Exact(math.nan)
    best = pick(numbers)
    return Exact(best if isinstance(best, int) or math.isinf(best) else Fraction(best))


def _var(values: list, agg: Agg) -> Exact:
    if len(values) <= agg.ddof:
        return Exact(None)
    if any(not math.isfinite(v) for v in values):
        return Exact(math.nan)
    var = variance(values, agg.ddof)
    return Exact(var, Fraction(1, 10**12) * var)


def _std(values: list, agg: Agg) -> Exact:
    var = _var(values, agg)
    if not isinstance(var.value, Fraction):
        return var
    std = Fraction(nearest_sqrt(var.value))
    return Exact(std, Fraction(1, 10**12) * std)


FUNCTIONS = {
    "count": _count,
    "count_all": _count,
    "sum": _sum,
    "mean": _mean,
    "min": _least,
    "max": _greatest,
    "var": _var,
    "std": _std,
}


def variance(values: Sequence, ddof: int) -> Fraction:
    """The exact variance of finite numbers: (n sum(x^2) - sum(x)^2) / (n (n - ddof))."""
    n, numbers = len(values), [Fraction(v) for v in values]
    unit = math.lcm(*(x.denominator for x in numbers))
    whole = [x.numerator * (unit // x.denominator) for x in numbers]
    return Fraction(n * sum(x * x for x in whole) - sum(whole) ** 2, n * (n - ddof) * unit**2)


def sum_bound(values: Sequence) -> Fraction:
    """How far a compensated sum may lie from the exact sum of these finite numbers."""
    total = abs(sum(map(Fraction, values)))
    magnitude = sum(abs(Fraction(v)) for v in values)
    return total / 2**52 + Fraction(len(values) ** 2, 2**104) * magnitude


def _special_sum(values: Sequence) -> float | None:
    """NaN or an infinity where the sum is not a finite number, else None."""
    signs = {math.copysign(1.0, v) for v in values if isinstance(v, float) and math.isinf(v)}
    if any(_is_nan(v) for v in values) or len(signs) == 2:
        return math.nan
    return math.inf * signs.pop() if signs else None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_null(value: Any, nan: str) -> bool:
    return value is None or (nan == "skip" and _is_nan(value))


# ---- doubles ---------------------------------------------------------------------------------


def nearest_double(x: Fraction) -> float:
    """The double nearest to ``x``, ties to even; beyond the largest one, an infinity."""
    try:
        return float(x)  # numerator / denominator: Python rounds the quotient of ints correctly
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def nearest_sqrt(x: Fraction) -> float:
    """The double nearest to the square root of ``x`` >= 0.

    The root is taken to at least 80 bits; one more bit says whether anything was cut off, so the
    final rounding sees which side of a tie the true root lies on.
    """
    if x == 0:
        return 0.0
    shift = max(0, 160 - x.numerator.bit_length() + x.denominator.bit_length())
    shift += shift % 2
    scaled, rest = divmod(x.numerator << shift, x.denominator)
    root = math.isqrt(scaled)
    sticky = 1 if rest or root * root != scaled else 0
    return nearest_double(Fraction(2 * root + sticky, 2 << (shift // 2)))


def matches(got: Any, exact: Exact) -> bool:
    """Whether an engine's answer is the exact one, within its tolerance."""
    value, tolerance = exact
    if value is None:
        return got is None or got is NULL_OR_NAN
    if _is_nan(value):
        return got is NULL_OR_NAN or _is_nan(got)
    if isinstance(value, int):
        # An empty sum is 0 whatever the column; the dtype of a whole column is tested elsewhere.
        return (type(got) is int and got == value) or (value == 0 and got == 0)
    if type(got) is not float:
        return False
    if isinstance(value, float) or not math.isfinite(got):
        return got == value
    if tolerance == 0:
        return got == nearest_double(value)
    return abs(Fraction(got) - value) <= tolerance


def differences(got: Sequence[Mapping[str, Any]], exact: Sequence[Mapping[str, Exact]]) -> list:
    """Every place where ``got`` is not ``exact``, as readable lines; empty means equal."""
    if len(got) != len(exact):
        return [f"{len(got)} rows instead of {len(exact)}"]
    return [
        f"row {i}, {name}: {g.get(name)!r} instead of {show(e)}"
        for i, (g, want) in enumerate(zip(got, exact, strict=True))
        for name, e in want.items()
        if name not in g or not matches(g[name], e)
    ]


def show(exact: Exact) -> str:
    """An exact answer for a person."""
    if isinstance(exact.value, Fraction):
        return f"{nearest_double(exact.value)!r} (± {float(exact.tolerance):.3g})"
    return repr(exact.value)
