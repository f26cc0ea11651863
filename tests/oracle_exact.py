"""Exact answers, the doubles nearest to them, and whether an engine's answer is one of them.

Numbers are ints, ``fractions.Fraction``, and floats for NaN and the infinities only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

NULL_OR_NAN = "<null or NaN>"
"""A NaN read from a container that writes nulls as NaN: it may stand for either."""

SMALLEST = Fraction(1, 2**1074)
OVERFLOW = Fraction(2**1024 - 2**970)
"""From here on the nearest double is an infinity."""


class Exact(NamedTuple):
    """An exact answer: null, a number, a truth, a text, or a list of exact answers.

    A Fraction is met by a double within ``tolerance`` of it; tolerance 0 asks for the nearest
    double (either zero will do for a zero, and an infinity beyond the largest double). Whatever
    the tolerance, the double lies in the closed interval ``within``. An int is met by the same
    int, and a NaN or infinity (float) by itself.
    """

    value: int | float | Fraction | str | list[Exact] | None
    tolerance: Fraction = Fraction(0)
    within: tuple[float, float] = (-math.inf, math.inf)


def exactly(value: Any) -> Exact:
    """A value of a column, of any type, as an answer in the column's own type."""
    if isinstance(value, float) and math.isfinite(value):
        return Exact(Fraction(value))
    return Exact(value)


def is_nan(value: Any) -> bool:
    """Whether this is the float NaN; text and the like are not."""
    return isinstance(value, float) and math.isnan(value)


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


def root(x: Fraction, n: int) -> Fraction:
    """The n-th root of ``x`` > 0, to 60 digits and more."""
    with localcontext() as context:
        context.prec = 80
        power = Decimal(x.numerator) / Decimal(x.denominator)
        return Fraction(power ** (1 / Decimal(n)))


# ---- comparing -------------------------------------------------------------------------------


def matches(got: Any, exact: Exact) -> bool:
    """Whether an engine's answer is the exact one, within its tolerance."""
    value = exact.value
    if value is None:
        return got is None or got is NULL_OR_NAN
    if isinstance(value, list):
        return (
            isinstance(got, list)
            and len(got) == len(value)
            and all(map(matches, got, value))  # item by item
        )
    if is_nan(value):
        return got is NULL_OR_NAN or is_nan(got)
    if isinstance(value, (bool, str)):
        return type(got) is type(value) and got == value
    if isinstance(value, int):
        # An empty sum is 0 whatever the column; the dtype of a whole column is tested elsewhere.
        return (type(got) is int and got == value) or (
            value == 0 and type(got) is float and got == 0
        )
    return type(got) is float and _is_double_of(got, exact)


def _is_double_of(got: float, exact: Exact) -> bool:
    value, tolerance, (low, high) = exact
    if isinstance(value, float):
        return got == value
    if not low <= got <= high:  # nor is NaN
        return False
    if math.isinf(got):
        return (value if got > 0 else -value) + tolerance >= OVERFLOW
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
    if isinstance(exact.value, list):
        return f"[{', '.join(map(show, exact.value))}]"
    if isinstance(exact.value, Fraction):
        return f"{nearest_double(exact.value)!r} (± {nearest_double(exact.tolerance):.3g})"
    return repr(exact.value)
