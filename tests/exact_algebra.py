"""skew, cov, product and their kin of a few values, in rational arithmetic, by definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

Numbers = Sequence[Fraction]


def root(x: Fraction, bits: int = 160) -> Fraction:
    """The square root, to that many bits."""
    size = x.numerator.bit_length() - x.denominator.bit_length()
    shift = max(0, bits - size // 2)
    return Fraction(math.isqrt((x.numerator << 2 * shift) // x.denominator), 1 << shift)


def central(x: Numbers, power: int) -> Fraction:
    mean = sum(x) / len(x)
    return sum((v - mean) ** power for v in x) / len(x)


def skew(x: Numbers, bias: bool) -> Fraction | None:
    n = len(x)
    if n < (1 if bias else 3) or min(x) == max(x):
        return None
    m2 = central(x, 2)
    g1 = central(x, 3) / (m2 * root(m2))
    return g1 if bias else g1 * root(Fraction(n * (n - 1))) / (n - 2)


def kurt(x: Numbers, bias: bool) -> Fraction | None:
    n = len(x)
    if n < (1 if bias else 4) or min(x) == max(x):
        return None
    g2 = central(x, 4) / central(x, 2) ** 2 - 3
    return g2 if bias else ((n + 1) * g2 + 6) * (n - 1) / ((n - 2) * (n - 3))


def joint(x: Numbers, y: Numbers) -> Fraction:
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))


def cov(x: Numbers, y: Numbers, ddof: int) -> Fraction | None:
    return joint(x, y) / (len(x) - ddof) if len(x) > max(ddof, 0) else None


def corr(x: Numbers, y: Numbers, _: int = 0) -> Fraction | None:
    spread = joint(x, x) * joint(y, y) if x else 0
    return joint(x, y) / root(spread) if spread else None


def slope(y: Numbers, x: Numbers, _: int = 0) -> Fraction | None:
    spread = joint(x, x) if x else 0
    return joint(x, y) / spread if spread else None


def weighted_mean(x: Numbers, w: Numbers, _: int = 0) -> Fraction | None:
    total = sum(w)
    return sum(a * b for a, b in zip(x, w, strict=True)) / total if total else None


def product(x: Numbers, _: int = 0) -> Fraction | None:
    return math.prod(x, start=Fraction(1)) if x else None


def longest_run(x: Sequence[float]) -> int:
    best = run = min(1, len(x))
    for a, b in pairwise(x):
        run = run + 1 if a < b else 1
        best = max(best, run)
    return best


def rounded(x: Fraction | None) -> float:
    """The nearest double; NaN for None."""
    if x is None:
        return math.nan
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf
