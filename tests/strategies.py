"""What hypothesis generates: rows in any order, and rolling specs over them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hypothesis import strategies as st

import mta
from mta import agg
from oracle import Agg, Rolling

CLOSED = ("right", "left", "both", "neither")
NUMERIC = ("sum", "mean", "min", "max", "var", "std")
NAN_MODES = ("propagate", "skip", "greatest")

# ---- values ----------------------------------------------------------------------------------

# Magnitudes keep to what the engine promises: sums of |x| far below 1e308, and for variances
# squares far from underflow and overflow.
SPECIAL_FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, None, 0.0, -0.0])
TAME_FLOATS = st.one_of(
    st.sampled_from([0.1, 0.2, 0.3, 1.0, -1.0, 3.3, 1e9, 1e9 + 1, 2.0**53, 1e16, -1e16]),
    st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-60),
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
    """Columns ``t``, ``x`` (floats), ``i`` (ints) and, typed at random, keys ``k0``, ``k1``."""
    n = draw(st.integers(0, max_size))
    types = draw(st.sampled_from(list(KEYS))), draw(st.sampled_from(list(KEYS)))
    types = keys or types
    values = st.one_of(floats, floats, floats, SPECIAL_FLOATS)
    columns = {
        "t": (time_type, [tick * v for v in _column(draw, times(), n)]),
        "x": ("float64", _column(draw, values, n)),
        "i": ("int64", _column(draw, ints, n)),
    }
    for number, name in enumerate(types):
        columns[f"k{number}"] = (name, _column(draw, KEYS[name], n))
    names = list(columns)
    values_by_row = zip(*(values for _, values in columns.values()), strict=True)
    return Data([dict(zip(names, v, strict=True)) for v in values_by_row], columns)


def _column(draw: st.DrawFn, values: st.SearchStrategy, n: int) -> list:
    return draw(st.lists(values, min_size=n, max_size=n))


# ---- specs -----------------------------------------------------------------------------------


@st.composite
def aggregates(draw: st.DrawFn, fns: tuple[str, ...] = NUMERIC) -> dict[str, Agg]:
    """A few aggregates over ``x`` and ``i`` with any options, under short names."""
    some = draw(st.lists(st.sampled_from(("count", "count_all", *fns)), min_size=1, max_size=5))
    out = {}
    for number, fn in enumerate(some):
        least = draw(st.one_of(st.none(), st.integers(0, 4)))
        if fn == "count_all":
            out[f"a{number}"] = Agg(fn, None, least)
            continue
        col = draw(st.sampled_from(["x", "x", "i"] + [None] * (fn == "count")))
        nan = draw(st.sampled_from(NAN_MODES)) if col else "propagate"
        ddof = draw(st.sampled_from([0, 1, 1, 2])) if fn in ("var", "std") else 1
        out[f"a{number}"] = Agg(fn, col, least, nan, ddof)
    return out


@st.composite
def rollings(draw: st.DrawFn, fns: tuple[str, ...] = NUMERIC, tick: int = 1) -> Rolling:
    """Any trailing window over the columns of ``data``."""
    kind = draw(st.sampled_from(["time", "time", "rows", "all"]))
    on = draw(st.sampled_from(["t", None])) if kind != "time" else "t"
    lag = draw(st.sampled_from([0, 0, 0, 1, 3, -1, -4]))
    by = draw(st.sampled_from([(), (), ("k0",), ("k0", "k1")]))
    by_time = on is not None and kind != "rows"
    arrival = not (by_time and lag < 0) and draw(st.booleans())
    return Rolling(
        aggs=draw(aggregates(fns)),
        kind=kind,
        range=None if kind == "all" else draw(st.integers(1, 8)) * (tick if by_time else 1),
        on=on,
        by=by,
        closed=draw(st.sampled_from(CLOSED)),
        lag=lag * (tick if by_time else 1),
        ties="arrival" if arrival else "peers",
        min_periods=draw(st.sampled_from([None, None, 1, 3])),
    )


# ---- to the public API -----------------------------------------------------------------------


def engine_agg(a: Agg) -> Any:
    """The engine's aggregate for the oracle's."""
    options: dict[str, Any] = {} if a.min_count is None else {"min_count": a.min_count}
    if a.fn == "count_all":
        return agg.count_all(**options)
    if a.nan != "propagate":
        options["nan"] = a.nan
    if a.fn in ("var", "std"):
        options["ddof"] = a.ddof
    return getattr(agg, a.fn)(a.col, **options)


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
