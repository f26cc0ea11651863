"""first, last, arg_min, arg_max and list against brute force, in any pieces, over any windows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sliding
from mta._kernel import Lists
from mta._places import ArgKernel, FirstLastKernel, ListKernel

VALUES = {
    "even": lambda rng, n: rng.normal(size=n),
    "few": lambda rng, n: rng.choice([0.0, -0.0, 1.0, -1.0], size=n),
    "broken": lambda rng, n: rng.choice([math.nan, math.inf, -math.inf, 1.0, -0.0], size=n),
    "negative": lambda rng, n: -1.0 - rng.random(n),
    "positive": lambda rng, n: 5e-324 * rng.integers(1, 4, n),
    "rising": lambda rng, n: np.arange(n) // 3 * 1.0,
    "falling": lambda rng, n: -(np.arange(n) // 3) * 1.0,
    "nan": lambda rng, n: np.full(n, math.nan),
    "extreme ints": lambda rng, n: rng.choice([-(2**63), 2**63 - 1, 0, -1], size=n),
    "ints": lambda rng, n: rng.integers(-3, 3, size=n),
    "uints": lambda rng, n: rng.choice(
        np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64), size=n
    ),
}
WANTED = ["arg_min", "arg_max", "first", "last", "back_min", "back_max"]
SOURCES = {"f": "float", "i": "int", "u": "uint"}

WINDOWS = {
    "seed": st.integers(0, 2**32),
    "n": st.integers(1, 90),
    "shape": st.sampled_from(sliding.SHAPES),
    "pieces": st.integers(0, 4),
    "nulls": st.sampled_from([0.0, 0.2, 0.9]),
}


def some_valid(rng, n, nulls):
    return (rng.random(n) >= nulls).astype(np.uint8) if nulls else None


def rank(value, least, nan):
    """Where a value stands: the extreme has the greatest rank."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0) if nan == "propagate" or not least else (-1, 0)
    return (0, -value if least else value)


def extreme(values, rows, least, latest, nan):
    """The row of the extreme; of equals the latest or the earliest."""
    ranks = [(rank(values[row], least, nan), row if latest else -row) for row in rows]
    return abs(max(ranks)[1]) if ranks else -1


def expected(what, values, rows, hi, nan):
    if what == "last":
        return extreme(values, rows, False, True, nan)
    row = extreme(values, rows, what in ("arg_min", "first", "back_min"), False, nan)
    return hi - 1 - row if what.startswith("back") and row >= 0 else row


@given(
    **WINDOWS,
    values=st.sampled_from(sorted(VALUES)),
    nan=st.sampled_from(["propagate", "greatest"]),
)
@example(seed=1, n=80, shape="steady", pieces=1, nulls=0.0, values="broken", nan="greatest")
def test_extremes_lie_where_a_search_finds_them(seed, n, shape, pieces, nulls, values, nan):
    rng = np.random.default_rng(seed)
    x, valid = VALUES[values](rng, n), some_valid(rng, n, nulls)
    if valid is not None:
        x[valid == 0] = 0
    lo, hi = sliding.windows(rng, n, shape)
    kernel = ArgKernel(sliding.nobody(), SOURCES[x.dtype.kind], nan, WANTED)
    stops = sliding.stops(rng, len(lo), pieces)
    answers = sliding.answer(kernel, [x], valid, lo, hi, ["i8"] * len(WANTED), stops)
    values = x.tolist()
    for i, (first, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        rows = sliding.inside(valid, first, end)
        wanted = [expected(what, values, rows, end, nan) for what in WANTED]
        assert [answer[i] for answer in answers] == wanted


@pytest.mark.parametrize("what", WANTED)
def test_each_is_answered_alone(what):
    rng = np.random.default_rng(5)
    x = rng.integers(0, 5, 5000) * 1.0
    lo, hi = sliding.windows(rng, len(x), "ragged")
    both = ArgKernel(sliding.nobody(), "float", "propagate", [what, "arg_min", what])
    alone = ArgKernel(sliding.nobody(), "float", "propagate", [what])
    (answers,) = sliding.answer(alone, [x], None, lo, hi, ["i8"])
    again, _, twice = sliding.answer(both, [x], None, lo, hi, ["i8"] * 3)
    assert answers == again == twice
    assert len(set(answers)) > 5


@given(**WINDOWS)
def test_first_and_last_are_the_ends_of_what_counts(seed, n, shape, pieces, nulls):
    rng = np.random.default_rng(seed)
    x, valid = np.zeros(n), some_valid(rng, n, nulls)
    lo, hi = sliding.windows(rng, n, shape)
    kernel = FirstLastKernel(sliding.nobody(), ["first", "last", "first", "last"])
    stops = sliding.stops(rng, len(lo), pieces)
    answers = sliding.answer(kernel, [x], valid, lo, hi, ["i8"] * 4, stops)
    rows = [sliding.inside(valid, *edges) for edges in zip(lo, hi, strict=True)]
    assert answers[0] == answers[2] == [r[0] if r else -1 for r in rows]
    assert answers[1] == answers[3] == [r[-1] if r else -1 for r in rows]


@given(**WINDOWS)
def test_lists_hold_the_rows_that_count(seed, n, shape, pieces, nulls):
    rng = np.random.default_rng(seed)
    x, valid = np.zeros(n), some_valid(rng, n, nulls)
    lo, hi = sliding.windows(rng, n, shape)
    stops = sliding.stops(rng, len(lo), pieces)
    kernel = ListKernel(sliding.nobody())
    (lists,) = sliding.answer(kernel, [x], valid, lo, hi, [Lists], stops)
    assert lists == [sliding.inside(valid, *edges) for edges in zip(lo, hi, strict=True)]


def test_long_windows_and_many_of_them():
    """Longer than a chunk of windows, and lists longer than their first room."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 1000, 30_000)
    hi = np.arange(1, len(x) + 1)
    lo = np.maximum(hi - 5000, 0)
    kernel = ArgKernel(sliding.nobody(), "int", "propagate", ["arg_max"])
    (rows,) = sliding.answer(kernel, [x], None, lo, hi, ["i8"], [12_345])
    for i in range(0, len(x), 997):
        assert rows[i] == lo[i] + np.argmax(x[lo[i] : hi[i]])
    (lists,) = sliding.answer(
        ListKernel(sliding.nobody()), [x], None, lo[:3000], hi[:3000], [Lists]
    )
    assert lists[-1] == list(range(3000))


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="middle"):
        FirstLastKernel(sliding.nobody(), ["middle"])
    with pytest.raises(ValueError, match="arg_mean"):
        ArgKernel(sliding.nobody(), "float", "propagate", ["arg_mean"])
