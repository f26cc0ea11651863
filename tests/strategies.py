"""What hypothesis generates: rows in any order, and rolling specs over them."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any, NamedTuple

from hypothesis import strategies as st

import mta
from mta import agg
from oracle import Agg, Rolling

CLOSED = ("right", "left", "both", "neither")
NAN_MODES = ("propagate", "skip", "greatest")

# The aggregates by family: those of one family bear the same numbers.
NUMERIC = ("sum", "mean", "min", "max", "var", "std")
SELECTIONS = ("first", "last", "arg_min", "arg_max")
PRODUCTS = ("product", "geometric_mean")  # numbers of any magnitude
PAIRED = ("weighted_mean", "cov", "corr", "slope")  # those whose squares are doubles
SHAPE = ("skew", "kurt")  # those whose fourth powers are
ALGEBRAIC = PRODUCTS + PAIRED + SHAPE
RANKS = ("quantile", "median", "top_k")
TALLIES = ("count_distinct", "mode", "most_common")
GATHERED = ("list", "any", "all", "longest_run")
HOLISTIC = RANKS + TALLIES + GATHERED
EVERY = NUMERIC + SELECTIONS + ALGEBRAIC + HOLISTIC
SKETCHED = ("approx_quantile", "approx_count_distinct", "approx_top_k")  # of few rows, exact

QUANTILES = (0, 1, 0.5, 0.9, 1 / 3, 0.07)
BETWEEN = ("linear", "midpoint")  # interpolations that make new numbers
INTERPOLATIONS = (*BETWEEN, "lower", "higher", "nearest")

# The columns of `data` that a family reads: numbers, what has an order, what is equal or not.
NUMBERS = ("x", "y", "i")
ORDERED = (*NUMBERS, "t", "b")
ANYTHING = ("x", "i", "s", "b", "t", "k0")

# ---- values ----------------------------------------------------------------------------------

# Magnitudes keep to what the engine promises: sums of |x| far below 1e308, and for variances
# squares far from underflow and overflow.
SPECIAL_FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, None, 0.0, -0.0])
TAME_FLOATS = st.one_of(
    st.sampled_from([0.1, 0.2, 0.3, 1.0, -1.0, 3.3, 1e9, 1e9 + 1, 2.0**53, 1e16, -1e16]),
    st.floats(-1e6, 1e6).map(lambda x: x if x == 0 or abs(x) > 1e-60 else 1.0),
    st.integers(-3, 3).map(float),
)
WILD_FLOATS = st.one_of(
    TAME_FLOATS,
    st.sampled_from([1e90, -1e90, 1e-90, 1e140, -1e140, 1e-130, 1.5e100]),
    st.floats(1e-130, 1e140),
    st.floats(-1e140, -1e-130),
)
HUGE_FLOATS = st.one_of(
    WILD_FLOATS, st.sampled_from([1e200, -1e200, 1e290, -1e290, 5e-324, 1e-310, 2.2e-308])
)
# Nor do fourth powers of these, or of any difference of two, come near either end.
TAMER_FLOATS = st.one_of(
    TAME_FLOATS,
    st.sampled_from([1e60, -1e60, 1e-60, 3.5e40]),
    st.floats(1e-60, 1e60),
    st.floats(-1e60, -1e-60),
)
# Weights lie close enough together for sums of them to be exact in 106 bits. So a sum of 0 is
# 0, and no other is, whatever the order of additions.
WEIGHTS = st.one_of(
    st.sampled_from([None, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 0.1, 0.3, 1e-3, 1e3]),
    st.floats(1e-3, 1e3),
)
TEXTS = st.sampled_from([None, "", "a", "b", "ab", "None", "NaN", "é😀"])
TRUTHS = st.sampled_from([None, True, False])
INTS = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
)
SMALL_INTS = st.one_of(st.none(), st.integers(-100, 100))

KEYS = {
    "int64": st.one_of(st.none(), st.integers(-2, 2)),
    "string": st.sampled_from([None, "", "a", "b", "None", "NaN"]),
    "float64": st.sampled_from([None, math.nan, 0.0, 1.5, math.inf]),
    "bool": st.sampled_from([None, True, False]),
    "category": st.sampled_from([None, "a", "b"]),
}


class Data(NamedTuple):
    """Rows as the oracle reads them, and as typed columns for a frame."""

    rows: list[dict[str, Any]]
    columns: dict[str, tuple[str, list]]


def times(width: int = 12) -> st.SearchStrategy[int]:
    """Ticks close together, so that ties and edges are common, on both sides of zero."""
    return st.integers(-width // 2, width)


@st.composite
def data(
    draw: st.DrawFn,
    floats: st.SearchStrategy = WILD_FLOATS,
    ints: st.SearchStrategy = SMALL_INTS,
    max_size: int = 24,
    time_type: str = "int64",
    tick: int = 1,
    keys: tuple[str, ...] | None = None,
) -> Data:
    """Columns ``t``, ``x`` and ``y`` (floats), ``w`` (weights), ``i`` (ints), ``s`` (texts),
    ``b`` (truths) and, typed at random, keys ``k0``, ``k1``."""
    n = draw(st.integers(0, max_size))
    types = draw(_any_of(*KEYS)), draw(_any_of(*KEYS))
    types = keys or types
    columns = {
        "t": (time_type, [tick * v for v in _column(draw, times(), n)]),
        "x": ("float64", _column(draw, _mostly(floats), n)),
        "i": ("int64", _column(draw, ints, n)),
        "y": ("float64", _column(draw, _mostly(floats), n)),
        "w": ("float64", _column(draw, _mostly(WEIGHTS), n)),
        "s": ("string", _column(draw, TEXTS, n)),
        "b": ("bool", _column(draw, TRUTHS, n)),
    }
    for number, name in enumerate(types):
        columns[f"k{number}"] = (name, _column(draw, KEYS[name], n))
    names = list(columns)
    values_by_row = zip(*(values for _, values in columns.values()), strict=True)
    return Data([dict(zip(names, v, strict=True)) for v in values_by_row], columns)


# Making a strategy takes longer than drawing from it.


@cache
def _mostly(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(values, values, values, SPECIAL_FLOATS)


@cache
def _lists(values: st.SearchStrategy, n: int) -> st.SearchStrategy:
    return st.lists(values, min_size=n, max_size=n)


@lru_cache(maxsize=None, typed=True)  # False is not 0
def _any_of(*choices: Any) -> st.SearchStrategy:
    return st.sampled_from(choices)


@cache
def _some_of(*choices: str) -> st.SearchStrategy:
    return st.lists(st.sampled_from(choices), min_size=1, max_size=5)


def _column(draw: st.DrawFn, values: st.SearchStrategy, n: int) -> list:
    return draw(_lists(values, n))


# ---- specs -----------------------------------------------------------------------------------


@st.composite
def aggregates(
    draw: st.DrawFn,
    fns: tuple[str, ...] = NUMERIC,
    numerics: tuple[str, ...] = ("compensated",),
    overflow: tuple[str, ...] = ("raise",),
) -> dict[str, Agg]:
    """A few aggregates over the columns of ``data`` with any options, under short names.

    numerics, overflow : those of sums and means to draw from
    """
    some = draw(_some_of("count", "count_all", *fns))
    out = {}
    for number, fn in enumerate(some):
        a = draw(aggregate(fn))
        if fn in ("sum", "mean"):
            a = a._replace(numerics=draw(_any_of(*numerics)))
        if fn == "sum" and a.col == "i":
            a = a._replace(overflow=draw(_any_of(*overflow)))
        out[f"a{number}"] = a
    return out


MIN_COUNTS = st.one_of(st.none(), st.integers(0, 4))
RANGES = st.integers(1, 8)


@st.composite
def aggregate(draw: st.DrawFn, fn: str) -> Agg:
    """One aggregate with any columns that it can read, and any options."""

    def one_of(*choices: Any) -> Any:
        return draw(_any_of(*choices))

    a = Agg(fn, min_count=draw(MIN_COUNTS))
    if fn == "count_all":
        return a
    if fn in ("var", "std", "cov"):
        a = a._replace(ddof=one_of(0, 1, 1, 2))
    if fn in ("skew", "kurt"):
        a = a._replace(bias=one_of(False, True))
    if fn in ("top_k", "most_common", "approx_top_k"):
        a = a._replace(k=one_of(1, 2, 3, 4))
    if fn == "quantile":
        a = a._replace(q=one_of(*QUANTILES), interp=one_of(*INTERPOLATIONS))
    if fn == "approx_quantile":
        a = a._replace(q=one_of(*QUANTILES))
    a = a._replace(other=one_of(*_second_columns(fn)))
    a = a._replace(col=one_of(*_columns(a)))
    return a._replace(nan=one_of(*_nan_modes(a)))


def _second_columns(fn: str) -> tuple[str | None, ...]:
    if fn in SELECTIONS:
        return (None, *ORDERED)  # order=, by=
    return ("w", "w", "i") if fn == "weighted_mean" else NUMBERS if fn in PAIRED else (None,)


def _columns(a: Agg) -> tuple[str | None, ...]:
    """What it can read as its first column; of one that is no number, only where that is right."""
    if a.fn == "count":
        return ("x", "x", "i", None)
    if a.fn in NUMERIC:
        return ("x", "x", "i")
    if a.fn in ("any", "all"):
        return ("b",)
    if a.fn == "approx_quantile" or (a.fn in ("arg_min", "arg_max") and a.other is None):
        return ORDERED
    if a.fn in (*SELECTIONS, *TALLIES, *SKETCHED, "list"):
        return ANYTHING
    as_they_are = a.fn == "top_k" or (a.fn == "quantile" and a.interp not in BETWEEN)
    return (*NUMBERS, "t") if as_they_are else NUMBERS


def _nan_modes(a: Agg) -> tuple[str, ...]:
    """NaN can be the greatest only where there is an order (sums and such take it as it comes)."""
    ordered = a.fn in (*RANKS, "arg_min", "arg_max") or (a.fn in SELECTIONS and a.other)
    if a.col is None:
        return ("propagate",)
    return NAN_MODES if ordered or a.fn in ("count", *NUMERIC) else ("propagate", "skip")


@st.composite
def rollings(
    draw: st.DrawFn, fns: tuple[str, ...] = NUMERIC, tick: int = 1, **options: Any
) -> Rolling:
    """Any trailing window over the columns of ``data``; ``options`` are those of aggregates."""
    kind = draw(_any_of("time", "time", "rows", "all"))
    on = draw(_any_of("t", None)) if kind != "time" else "t"
    lag = draw(_any_of(0, 0, 0, 1, 3, -1, -4))
    by = draw(_any_of((), (), ("k0",), ("k0", "k1")))
    by_time = on is not None and kind != "rows"
    arrival = not (by_time and lag < 0) and draw(_any_of(False, True))
    return Rolling(
        aggs=draw(aggregates(fns, **options)),
        kind=kind,
        range=None if kind == "all" else draw(RANGES) * (tick if by_time else 1),
        on=on,
        by=by,
        closed=draw(_any_of(*CLOSED)),
        lag=lag * (tick if by_time else 1),
        ties="arrival" if arrival else "peers",
        min_periods=draw(_any_of(None, None, 1, 3)),
    )


# ---- to the public API -----------------------------------------------------------------------


def engine_agg(a: Agg) -> Any:
    """The engine's aggregate for the oracle's."""
    options: dict[str, Any] = {} if a.min_count is None else {"min_count": a.min_count}
    if a.fn == "count_all":
        return agg.count_all(**options)
    columns = [a.col]
    if a.fn in PAIRED:
        columns.append(a.other)
    elif a.other is not None:
        options["order" if a.fn in ("first", "last") else "by"] = a.other
    for name in ALWAYS_GIVEN.get(a.fn, ()):
        options[name] = getattr(a, name)
    for name in ("nan", "interp", "bias", "numerics", "overflow"):
        if getattr(a, name) != Agg._field_defaults[name]:
            options[name] = getattr(a, name)
    return getattr(agg, a.fn)(*columns, **options)


ALWAYS_GIVEN = {
    "var": ("ddof",), "std": ("ddof",), "cov": ("ddof",), "quantile": ("q",), "top_k": ("k",),
    "most_common": ("k",), "approx_quantile": ("q",), "approx_top_k": ("k",),
}  # fmt: skip


def engine_spec(spec: Rolling, unit: str = "i") -> Any:
    """The engine's spec for the oracle's; time is written in ``unit``."""
    by_time = spec.on is not None and spec.kind != "rows"

    def extent(ticks: int | None) -> Any:
        return f"{ticks}{unit}" if by_time and ticks is not None else ticks

    return mta.rolling(
        extent(spec.range),
        on=spec.on,
        by=_one_or_many(spec.by),
        closed=spec.closed,
        lag=extent(spec.lag) if spec.lag else None,
        ties=spec.ties,
        min_periods=spec.min_periods,
    ).agg(**{name: engine_agg(a) for name, a in spec.aggs.items()})


def _one_or_many(by: tuple[str, ...]) -> Any:
    return (by[0] if len(by) == 1 else list(by)) if by else None
