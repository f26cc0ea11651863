"""The algorithms of mta.fifo and what tests ask of them, with its brute force."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

import mta
from mta import agg, fifo

ALL = [
    fifo.Recompute,
    fifo.SubtractOnEvict,
    fifo.TwoStacks,
    fifo.DABA,
    fifo.DABALite,
    fifo.FlatFAT,
    fifo.LogMTA,
    fifo.AMTA,
]
GENERAL = [kind for kind in ALL if kind is not fifo.SubtractOnEvict]
LITE = (fifo.TwoStacks, fifo.DABALite)


def make(kind, aggregate, **options):
    """With values, so that everything can be asked of it."""
    return kind(aggregate, **({"keep_values": True} if kind in LITE else {}), **options)


def joined(a: str, b: str) -> str:
    return a + b


def ends(a, b):
    return (a[0], b[1])


WORDS = agg.monoid(lift=str, combine=joined, zero="", name="words")
ENDS = agg.monoid(lift=lambda x: (x, x), combine=ends, zero=(None, None), name="ends")

FLOATS = st.one_of(
    st.integers(-50, 50).map(float),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 1e300, 1e-300]),
)
INTS = st.integers(-(2**40), 2**40)


def present(rows):
    return [x for x in rows if x is not None]


def total_of(rows):
    rows = present(rows)
    if any(map(math.isnan, rows)) or {math.inf, -math.inf} <= set(rows):
        return math.nan
    infinite = [x for x in rows if math.isinf(x)]
    return infinite[0] if infinite else math.fsum(rows)


def extreme(choose):
    def of(rows):
        rows = present(rows)
        if not rows:
            return None
        return math.nan if any(map(math.isnan, rows)) else choose(rows)

    return of


def mean_of(rows):
    return total_of(rows) / len(present(rows)) if present(rows) else None


def ends_of(rows):
    rows = present(rows)
    return (rows[0], rows[-1]) if rows else None


def any_of(rows):
    return any(present(rows)) if present(rows) else None


CASES = {
    "sum of ints": (agg.sum("x"), INTS, lambda rows: sum(present(rows))),
    "count": (agg.count("x"), FLOATS, lambda rows: len(present(rows))),
    "count_all": (agg.count_all(), FLOATS, len),
    "mean of ints": (agg.mean("x"), st.integers(0, 99), mean_of),
    "sum": (agg.sum("x"), FLOATS, total_of),
    "mean": (agg.mean("x"), FLOATS, mean_of),
    "max": (agg.max("x"), FLOATS, extreme(max)),
    "min": (agg.min("x"), INTS, extreme(min)),
    "max without NaN": (
        agg.max("x", nan="skip"),
        FLOATS,
        lambda rows: max((x for x in present(rows) if x == x), default=None),
    ),
    "any": (agg.any("x"), st.booleans(), any_of),
    "var": (
        agg.var("x"),
        st.integers(-9, 9).map(float),
        lambda rows: np.var(present(rows), ddof=1) if len(present(rows)) > 1 else None,
    ),
    "words": (WORDS("x"), st.sampled_from("abcdefgh"), lambda rows: "".join(present(rows)) or None),
    "ends": (ENDS("x"), st.integers(), ends_of),
}
INVERTIBLE = list(CASES)[:4]


def same(found, expected):
    if isinstance(expected, float) and isinstance(found, float):
        both_nan = math.isnan(found) and math.isnan(expected)
        return both_nan or math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12)
    return found == expected and (found is None) == (expected is None)


# ---- policies: what makes one of a number, and how many rows go by definition ------------------


def brute_since(choose):
    def gone(rows):
        values = [x for x in rows if x is not None]
        nans = [i for i, x in enumerate(rows) if x is not None and x != x]
        if nans or not values:
            return nans[0] if nans else 0
        return rows.index(choose(values))

    return gone


def longest_that_leaves(size):
    """The longest prefix that leaves this much."""

    def of(k, rows):
        return max((p for p in range(len(rows) + 1) if size(rows[p:]) >= k), default=0)

    return of


def letters(total):
    return len(total or "")


POLICIES = {
    "count": (
        lambda k: lambda total, old: total - old >= k,
        longest_that_leaves(lambda rows: len(present(rows))),
    ),
    "count_all": (lambda k: lambda total, old: total - old >= k, longest_that_leaves(len)),
    "words": (
        lambda k: lambda total, old: letters(total) - letters(old) >= k,
        longest_that_leaves(lambda rows: len(present(rows))),
    ),
    "ends": (
        lambda k: lambda total, old: old is None,
        lambda k, rows: next((i for i, x in enumerate(rows) if x is not None), len(rows)),
    ),
    "max": (lambda k: mta.since_max(), lambda k, rows: brute_since(max)(rows)),
    "min": (lambda k: mta.since_min(), lambda k, rows: brute_since(min)(rows)),
}
LAST = (lambda k: mta.last(k + 1), lambda k, rows: max(len(rows) - k - 1, 0))
