"""User monoids: both kernels against a fold from left to right over each window."""

from __future__ import annotations

import math
import operator
import sys
import time
from collections import namedtuple
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._bounds import GivenBounds
from mta._kernel import Counter, slide
from mta.monoids import UserMonoid, answer_array, make_user_kernel, settled

try:
    import numba  # noqa: F401
except ImportError:
    WAYS = [False]
else:
    WAYS = [True, False]
compiled_only = pytest.mark.skipif(True not in WAYS, reason="numba is not installed")
both_ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: "compiled" if way else "python")

Run = namedtuple("Run", "rows first last head tail tail_at best best_at")


def join_runs(a, b):
    """The longest contiguous increasing run, the earliest of equal ones, and where it starts."""
    if a.rows == 0 or b.rows == 0:
        return b if a.rows == 0 else a
    rises = a.last < b.first
    head = a.head + b.head if rises and a.head == a.rows else a.head
    tail, tail_at = b.tail, b.tail_at
    if rises and b.tail == b.rows:
        tail, tail_at = a.tail + b.tail, a.tail_at
    best, best_at = a.best, a.best_at
    if rises and a.tail + b.head > best:
        best, best_at = a.tail + b.head, a.tail_at
    if b.best > best:
        best, best_at = b.best, b.best_at
    return Run(a.rows + b.rows, a.first, b.last, head, tail, tail_at, best, best_at)


# What may be rounded or be NaN is left out here: folds of another association would differ.
MONOIDS = {
    "max": UserMonoid(lambda x: x, lambda a, b: a if a > b else b, None, -math.inf),
    "first and last": UserMonoid(
        lambda x: (x, x, 1),
        lambda a, b: b if a[2] == 0 else a if b[2] == 0 else (a[0], b[1], a[2] + b[2]),
        lambda p: p[0] * 1000 - p[1],
        (0, 0, 0),
    ),
    "maps": UserMonoid(  # x -> x·a + b, one after the other: matrices that do not commute
        lambda x: (x % 3 - 1, x),
        lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]),
        lambda f: 5 * f[0] + f[1],
        (1, 0),
    ),
    "drawdown": UserMonoid(
        lambda x: (x, x, x - x),
        lambda a, b: (max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2], a[0] - b[1])),
        lambda p: p[2],
        (-math.inf, math.inf, 0.0),
    ),
    "vwap": UserMonoid(
        lambda price, volume: (price * (volume + 10), volume + 10),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda p: p[0] / p[1],
        (0, 0),
    ),
    "run": UserMonoid(
        lambda x, row: Run(1, x, x, 1, 1, row, 1, row),
        join_runs,
        lambda r: 1000 * r.best + r.best_at,
        Run(0, 0, 0, 0, 0, 0, 0, 0),
    ),
    "any above": UserMonoid(lambda x: x > 2, lambda a, b: a or b, None, False),
}
PYTHON_ONLY = {
    "text": UserMonoid(lambda x: f"{x};", operator.add, None, ""),
    "set": UserMonoid(lambda x: {x}, operator.or_, len, set),
    "counts": UserMonoid(
        lambda x: {x: 1},
        lambda a, b: {k: a.get(k, 0) + b.get(k, 0) for k in {**a, **b}},
        lambda p: max(p.items(), key=lambda item: (item[1], item[0])),
        dict,
    ),
}


def fold(monoid, rows, lo, hi):
    """The answers by definition; None where no row counts. rows : tuples, None for a null."""
    answers = []
    for start, stop in zip(lo, hi, strict=True):
        parts = [monoid.lift(*row) for row in rows[start:stop] if row is not None]
        part = reduce(monoid.combine, parts) if parts else None
        answers.append(part if monoid.lower is None or not parts else monoid.lower(part))
    return answers


def run(monoid, columns, valid, lo, hi, way, cuts=(), restart=()):
    """The kernel's answers, over windows cut into chunks; at `restart` a fresh kernel goes on."""
    sources = ["float" if c.dtype == np.float64 else "int" for c in columns]
    kernel = counter = None
    answers = []
    for start, stop in pairwise(sorted({0, *cuts, *restart, len(lo)})):
        if kernel is None or start in restart:
            marks = kernel.marks() if kernel else None
            counter = Counter([1])
            kernel = make_user_kernel(monoid, counter, sources, compiled=way)
            if marks is not None:
                kernel.resume(marks)
        first, end = lo[start], hi[stop - 1]
        mask = None if valid is None else valid[first:end]
        counter.attach(mask, first)
        counter.answer_to([(None, None)])
        kernel.attach([c[first:end] for c in columns], mask, first)
        out, twin = (answer_array(kernel.gives, stop - start) for _ in range(2))
        kernel.answer_to([out, twin])
        assert slide(GivenBounds(lo[start:stop], hi[start:stop]), [counter], [kernel]) is None
        assert repr(out.tolist()) == repr(twin.tolist())
        answers.extend(out.tolist())
    return answers


Problem = namedtuple("Problem", "columns valid lo hi cuts restart")


@st.composite
def problems(draw, values=range(-4, 5)):
    """Two columns, nulls, windows that slide, jump and empty, and where the windows are cut."""
    n, count = draw(st.integers(0, 60)), draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = [rng.choice(list(values), n) for _ in range(2)]
    nulls = draw(st.sampled_from([0.0, 0.1, 0.6]))
    valid = (rng.random(n) >= nulls).astype(np.uint8) if nulls else None
    step = rng.integers(0, draw(st.integers(1, 4)), (2, count))
    step += rng.integers(0, 15, (2, count)) * (rng.random((2, count)) < draw(st.floats(0, 0.2)))
    step[1, 0] += draw(st.integers(0, 30))
    hi = np.minimum(np.cumsum(step[1]), n)
    lo = np.minimum(np.cumsum(step[0]), hi)
    cuts, restart = (set(rng.integers(1, count + 1, rng.integers(0, 5)).tolist()) for _ in "ab")
    return Problem(columns, valid, lo, hi, cuts, restart & set(range(1, count)))


def rows_of(columns, valid):
    rows = list(zip(*(c.tolist() for c in columns), strict=True))
    return rows if valid is None else [r if v else None for r, v in zip(rows, valid, strict=True)]


def same(got, expected):
    """Where there is an answer, it is this one; elsewhere, anything."""
    return all(w is None or g == w for g, w in zip(got, expected, strict=True))


FLOATS = ("max", "drawdown", "vwap")


def columns_of(name, columns):
    """The columns that a monoid reads, in the type that it is tested with."""
    first, second = (c.astype(np.float64 if name in FLOATS else np.int64) for c in columns)
    return {"vwap": [first, second], "run": [first, np.arange(len(first))]}.get(name, [first])


@both_ways
@pytest.mark.parametrize("name", sorted(MONOIDS))
@given(problem=problems())
def test_answers_are_those_of_a_fold(name, way, problem):
    columns, valid, lo, hi, cuts, _ = problem
    columns = columns_of(name, columns)
    got = run(MONOIDS[name], columns, valid, lo, hi, way, cuts)
    assert same(got, fold(MONOIDS[name], rows_of(columns, valid), lo, hi))


@pytest.mark.parametrize("name", sorted(PYTHON_ONLY))
@given(problem=problems())
def test_any_python_objects_will_do(name, problem):
    columns, valid, lo, hi, cuts, _ = problem
    got = run(PYTHON_ONLY[name], columns[:1], valid, lo, hi, None, cuts)
    assert same(got, fold(PYTHON_ONLY[name], rows_of(columns[:1], valid), lo, hi))


ANY_FLOATS = (0.1, -0.7, 1e16, 3.3, 1e-9, 0.0, -0.0, math.nan, math.inf, -math.inf)
ROUNDED = {
    "decayed": UserMonoid(
        lambda x: (x, 0.9),
        lambda a, b: (a[0] * b[1] + b[0], a[1] * b[1]),
        lambda p: p[0],
        (0.0, 1.0),
    ),
    "max": UserMonoid(lambda x: x, max, None, -math.inf),
    "least": UserMonoid(float, lambda a, b: b if b < a else a, None, math.inf),
}


def bits(answers):
    return [None if x is None or x != x else (x, math.copysign(1, x)) for x in answers]


@compiled_only
@pytest.mark.parametrize("name", sorted(ROUNDED))
@given(problem=problems(ANY_FLOATS))
def test_compiled_code_and_python_give_the_same_doubles(name, problem):
    columns, valid, lo, hi, cuts, _ = problem
    columns = [columns[0].astype(np.float64)]
    python, compiled = (
        run(ROUNDED[name], columns, valid, lo, hi, way, cuts) for way in (False, True)
    )
    assert bits(compiled) == bits(python)


@both_ways
@given(problem=problems(ANY_FLOATS))
def test_chunks_and_restarts_change_no_bit(way, problem):
    columns, valid, lo, hi, cuts, restart = problem
    columns = [columns[0].astype(np.float64)]
    whole = run(ROUNDED["decayed"], columns, valid, lo, hi, way)
    for pieces in ((cuts, ()), (cuts, restart), (range(len(lo)), ()), ((), range(1, len(lo)))):
        assert bits(run(ROUNDED["decayed"], columns, valid, lo, hi, way, *pieces)) == bits(whole)


@both_ways
@pytest.mark.parametrize("window", [1, 3, 700, 5000])
def test_windows_beyond_a_chunk_of_the_engine(way, window):
    rng = np.random.default_rng(window)
    x = rng.integers(-50, 50, 4000).astype(np.float64)
    hi = np.arange(1, 4001)
    lo = np.maximum(hi - window, 0)
    got = run(MONOIDS["max"], [x], None, lo, hi, way, cuts=[100, 2500])
    assert got == [x[a:b].max() for a, b in zip(lo, hi, strict=True)]


# ------------------------------------------------------------------- what is called, and when


@pytest.mark.parametrize("nulls", ["none", "some", "a long stretch"])
def test_a_row_costs_one_lift_three_combines_and_one_lower(nulls):
    n, window = 2000, 50
    calls = dict.fromkeys(("lift", "combine", "lower"), 0)

    def counted(role, function):
        def call(*arguments):
            calls[role] += 1
            return function(*arguments)

        return call

    monoid = UserMonoid(
        counted("lift", lambda x: x), counted("combine", max), counted("lower", lambda p: p), -9.0
    )
    valid = np.ones(n, np.uint8)
    if nulls == "some":
        valid[::3] = 0
    elif nulls == "a long stretch":
        valid[300:1500] = 0
    hi = np.arange(1, n + 1)
    run(monoid, [np.arange(n) % 7.0], valid, np.maximum(hi - window, 0), hi, False)
    assert calls["lift"] <= n + 3
    assert calls["combine"] <= 3 * n
    assert calls["lower"] <= n


@both_ways
def test_a_long_stretch_of_nulls_is_read_once(way):
    """Not again for every window in it, which would take a hundred times as long."""
    n, window = 200_000, 50_000
    x, hi = np.arange(float(n)), np.arange(1, n + 1)
    lo = np.maximum(hi - window, 0)
    valid = np.zeros(n, np.uint8)
    valid[[0, n - 1]] = 1
    run(MONOIDS["max"], [x], None, lo[:9], hi[:9], way)  # compiles it
    start = time.process_time()
    run(MONOIDS["max"], [x], None, lo, hi, way)
    middle = time.process_time()
    got = run(MONOIDS["max"], [x], valid, lo, hi, way)
    assert time.process_time() - middle < 0.5 + 10 * (middle - start)
    assert (got[0], got[window - 1], got[-1]) == (0.0, 0.0, n - 1.0)
    assert len({repr(x) for x in got[window:-1]}) == 1


def spread(p):
    if p[1] < 2:
        raise ValueError("one row has no spread")
    return p[0] / (p[1] - 1)


@both_ways
def test_too_few_rows_are_not_lowered(way):
    monoid = UserMonoid(lambda x: (x, 1), lambda a, b: (a[0] + b[0], a[1] + b[1]), spread, (0.0, 0))
    kernel = make_user_kernel(monoid, Counter([2]), ["float"], need=2, compiled=way)
    kernel.attach([np.array([1.0, 2.0])], None, 0)
    out = answer_array(kernel.gives, 2)
    kernel.answer_to([out])
    slide(GivenBounds(np.array([0, 0]), np.array([1, 2])), [], [kernel])
    assert settled(kernel.gives, out, np.array([False, True]))[0][1] == 3.0


def refuse_seven(x):
    if x == 7:
        raise ValueError("seven")
    return x


@both_ways
@pytest.mark.parametrize("role", ["lift", "combine", "lower"])
def test_what_a_function_raises_surfaces_and_the_kernel_goes_on(role, way):
    functions = {"lift": lambda x: x, "combine": lambda a, b: a + b, "lower": lambda p: p}
    functions[role] = {
        "lift": refuse_seven,
        "combine": lambda a, b: refuse_seven(a + b),
        "lower": refuse_seven,
    }[role]
    if way and role == "combine":
        import numba

        seven = numba.njit(refuse_seven)
        functions[role] = lambda a, b: seven(a + b)
    elif role == "combine":
        functions[role] = lambda a, b: refuse_seven(a + b)
    monoid = UserMonoid(**functions, zero=0)
    bad = [1, 2, 7, 1] if role == "lift" else [1, 3, 4, 1]
    x = np.array([1, 1, *bad, 2, 3, 2, 9])
    lo, hi = np.arange(9), np.arange(9) + 2
    kernel = make_user_kernel(monoid, Counter([]), ["int"], compiled=way)
    kernel.attach([x], None, 0)
    out = answer_array(kernel.gives, 9)
    kernel.answer_to([out])
    slide(GivenBounds(lo[:1], hi[:1]), [], [kernel])
    marks = kernel.marks()
    for _ in range(2):
        with pytest.raises(ValueError, match="seven") as caught:
            slide(GivenBounds(lo[1:], hi[1:]), [], [kernel])
        assert kernel.marks() == marks  # as if the step had not been tried
        if sys.version_info >= (3, 11):
            assert f"raised by {role} for" in caught.value.__notes__[0]
    kernel.attach([x], None, 0)
    slide(GivenBounds(lo[5:], hi[5:]), [], [kernel])
    assert out[:4].tolist() == [3, 5, 5, 11]


def test_a_note_names_the_row():
    monoid = UserMonoid(lambda x, y: 1 / y, operator.add, None, 0.0)
    kernel = make_user_kernel(monoid, Counter([]), ["float", "int"], compiled=False)
    kernel.attach([np.array([1.5, 2.5]), np.array([1, 0])], None, 3)
    kernel.answer_to([np.empty(1, object)])
    with pytest.raises(ZeroDivisionError) as caught:
        slide(GivenBounds(np.array([3]), np.array([5])), [], [kernel])
    if sys.version_info >= (3, 11):
        assert "raised by lift for lift(2.5, 0), row 4" in caught.value.__notes__[0]
