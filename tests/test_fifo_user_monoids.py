"""Monoids of one's own in mta.fifo: compiled, they answer as through Python."""

from __future__ import annotations

import ctypes
import math
from collections import namedtuple
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from fifo_cases import GENERAL, LITE, make
from mta import agg, fifo, monoids
from mta.errors import DataError, SnapshotError, SpecError
from mta.stores import MemoryStore

Runs = namedtuple("Runs", "rows first last head tail best")


class InPython:
    """The same function, but nothing that numba knows."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *values):
        return self.function(*values)


def longer(a, b):
    if a.rows == 0 or b.rows == 0:
        return b if a.rows == 0 else a
    rises = a.last < b.first
    head = a.head + b.head if rises and a.head == a.rows else a.head
    tail = a.tail + b.tail if rises and b.tail == b.rows else b.tail
    middle = a.tail + b.head if rises else 0
    return Runs(a.rows + b.rows, a.first, b.last, head, tail, max(a.best, b.best, middle))


def fall(a, b):
    return (max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2], a[0] - b[1]))


FUNCTIONS = {
    "greatest": {
        "lift": lambda x: x,
        "combine": lambda a, b: a if a > b else b,
        "zero": -math.inf,
    },
    "sum": {"lift": lambda x: x, "combine": lambda a, b: a + b, "zero": 0},
    "last": {
        "lift": lambda x: (1, x),
        "combine": lambda a, b: b if b[0] else a,
        "lower": lambda p: p[1],
        "zero": (0, 0),
    },
    "mean": {
        "lift": lambda x: (x, 1),
        "combine": lambda a, b: (a[0] + b[0], a[1] + b[1]),
        "lower": lambda p: p[0] / p[1],
        "zero": (0.0, 0),
    },
    "drawdown": {
        "lift": lambda x: (x, x, 0.0),
        "combine": fall,
        "lower": lambda p: p[2],
        "zero": (-math.inf, math.inf, 0.0),
    },
    "runs": {
        "lift": lambda x: Runs(1, x, x, 1, 1, 1),
        "combine": longer,
        "lower": lambda p: p.best,
        "zero": Runs(0, 0.0, 0.0, 0, 0, 0),
    },
    "high": {
        "lift": lambda x: x > 3,
        "combine": lambda a, b: a or b,
        "zero": False,
    },
}
COMPILED = {name: agg.monoid(**given, name=name) for name, given in FUNCTIONS.items()}
PYTHON = {
    name: agg.monoid(**{**given, "lift": InPython(given["lift"])}, name=name)
    for name, given in FUNCTIONS.items()
}


def brute(name, rows):
    rows = [x for x in rows if x is not None]
    if not rows:
        return None
    functions = FUNCTIONS[name]
    part = reduce(functions["combine"], map(functions["lift"], rows))
    return functions.get("lower", lambda p: p)(part)


def same(found, expected):
    return repr(found) == repr(expected)  # to the last bit, NaN too


def bits(array):
    """What an array holds, its nulls as None."""
    return repr(array.tolist())


VALUES = st.one_of(
    st.integers(-9, 9).map(float), st.sampled_from([math.inf, -math.inf, -0.0, 0.1, 1e17])
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.one_of(VALUES, VALUES, VALUES, st.none())),
        st.tuples(st.sampled_from(["evict", "keep", "until", "store"]), st.integers(0, 12)),
        st.tuples(st.just("slide"), st.lists(st.one_of(VALUES, st.none()), max_size=40)),
    ),
    max_size=25,
)


def take(window, step, argument):
    """One step; what it gives, as text."""
    if step == "insert":
        return window.insert(argument)
    if step == "evict":
        return window.evict_many(min(argument, len(window)))
    if step == "keep":
        return window.evict_while(mta.last(argument + 1))
    if step == "until":
        return window.evict_while(lambda total, old: old is None)
    if step == "slide":
        return bits(window.slide(masked(argument), 7))
    return None


def masked(values):
    nulls = [x is None for x in values]
    cells = np.array([0.0 if x is None else x for x in values])
    return np.ma.MaskedArray(cells, nulls) if any(nulls) else cells


def stored(window):
    options = {"keep_values": True} if window.keep_values else {}
    return type(window).from_bytes(window.to_bytes(), window.agg, **options)


@pytest.mark.parametrize("kind", GENERAL)
@given(name=st.sampled_from(list(FUNCTIONS)), steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_compiled_windows_are_those_of_python(kind, name, steps):
    compiled, python = (make(kind, made[name]("x")) for made in (COMPILED, PYTHON))
    for step, argument in steps:
        if step == "store":
            compiled, python = stored(compiled), stored(python)
        results = [take(window, step, argument) for window in (compiled, python)]
        assert results[0] == results[1]
        assert same(compiled.query(), python.query()) and len(compiled) == len(python)
    assert python.compiled is not True
    if any(step == "insert" and x is not None for step, x in steps):
        assert compiled.compiled, compiled.why_python


@pytest.mark.parametrize("kind", GENERAL)
@pytest.mark.parametrize("name", ["greatest", "drawdown", "high"])
def test_long_slides_are_those_of_a_loop(kind, name):
    rng = np.random.default_rng(7)
    x = np.ma.MaskedArray(rng.integers(-5, 5, 3000).astype(float), rng.random(3000) < 0.1)
    rows = x.tolist()
    for keep in (1, 5, 64, 300):
        window = make(kind, COMPILED[name]("x"))
        found = [*window.slide(x[:1700], keep).tolist(), *window.slide(x[1700:], keep).tolist()]
        for i in (*range(40), *range(60, 3000, 111), 1699, 1700, 2999):
            expected = brute(name, rows[max(i + 1 - keep, 0) : i + 1])
            answer = found[i]
            assert answer == expected or (answer != answer and expected is None), (keep, i)


def test_long_slides_combine_in_the_same_order():
    x = np.random.default_rng(8).standard_normal(5000) * 10.0 ** (np.arange(5000) % 9)
    for kind in GENERAL:
        for name in ("sum", "mean"):
            compiled, python = (make(kind, m[name]("x")) for m in (COMPILED, PYTHON))
            np.testing.assert_array_equal(compiled.slide(x, 100), python.slide(x, 100))
            by_policy = compiled.slide_while(x[:500], mta.last(30)).tolist()
            assert by_policy == python.slide_while(x[:500], mta.last(30)).tolist()
            compiled.insert_many(x[:200])
            python.insert_many(x[:200])
            assert compiled.query() == python.query()


@pytest.mark.parametrize("at_once", [1, 8, 31, 32, 64, 500])
def test_a_slide_costs_some_five_combines_however_many_go_in_a_call(at_once):
    calls, n = 0, 2000

    @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
    def larger(a, b):
        nonlocal calls
        calls += 1
        return max(a, b)

    x = np.random.default_rng(3).random(6000)
    monoid = agg.monoid(lift=lambda x: x, combine=lambda a, b: larger(a, b), zero=-1.0)
    for keep in (16, 250, 4000):
        window = fifo.AMTA(monoid("x"))
        window.slide(x, keep)
        assert window.compiled
        calls = 0
        for i in range(0, n, at_once):
            window.slide(x[i : i + at_once], keep)
        assert calls <= 5.1 * n


def test_functions_as_policies_take_these_answers():
    x = np.abs(np.random.default_rng(9).standard_normal(800))
    for name in ("sum", "high", "runs"):
        windows = [fifo.AMTA(m[name]("x")) for m in (COMPILED, PYTHON)]
        for window in windows:
            window.slide_while(x, mta.last(40))
        policy = {
            "sum": lambda total, old: total - old >= 9.0,
            "high": lambda total, old: total and not old,
            "runs": lambda total, old: old < 3,
        }[name]
        found = [bits(window.slide_while(x, policy)) for window in windows]
        assert found[0] == found[1] and len(windows[0]) == len(windows[1])


# ---- types -----------------------------------------------------------------------------------


def test_what_is_compiled_and_why_not():
    window = fifo.AMTA(COMPILED["sum"]("x"))
    assert (window.compiled, window.why_python, window.type) == (None, "", None)
    window.insert(None)
    assert window.compiled is None
    window.insert(2)
    assert (window.compiled, window.type, window.query()) == (True, "int", 2)
    raising = agg.monoid(lift=checked, combine=lambda a, b: a + b, zero=0.0)
    window = fifo.AMTA(raising("x"))
    window.insert(1.0)
    assert not window.compiled and window.why_python == "lift may raise"
    with pytest.raises(ValueError, match="negative"):
        window.insert(-1.0)
    with pytest.raises(ValueError, match="negative"):
        window.slide(np.array([2.0, -1.0, 3.0]), 9)
    assert (len(window), window.query()) == (2, 3.0)
    wide = agg.monoid(
        lift=lambda x: (x, x, x, x, x, x, x, x), combine=greater, zero=(-math.inf,) * 8
    )
    window = fifo.DABA(wide("x"))
    window.insert(1.0)
    assert window.query() == (1.0,) * 8 and not window.compiled
    assert fifo.AMTA(agg.sum("x")).compiled


def greater(a, b):
    return a if a[0] > b[0] else b


def checked(x):
    if x < 0:
        raise ValueError("negative")
    return x


@pytest.mark.parametrize("kind", GENERAL)
@pytest.mark.parametrize("other", [1.5, "a", True, 2**70, np.float32(2)])
def test_values_of_another_type_go_on_in_python(kind, other):
    window = make(kind, COMPILED["last"]("x"))
    for value in (1, None, 3, 4):
        window.insert(value)
    window.evict()
    assert window.compiled
    window.insert(other)
    assert window.query() == other and type(window.query()) is type(other)
    assert not window.compiled and "several types" in window.why_python
    assert window.evict_while(lambda total, old: old is None) == 1
    window.evict_many(len(window) - 1)
    assert window.query() == other
    window.insert(5)
    assert window.slide(np.array([6, 7]), 2).tolist() == [6, 7]


def test_arrays_of_another_type_go_on_in_python():
    window = fifo.AMTA(COMPILED["sum"]("x"))
    assert window.slide(np.array([1, 2, 3]), 2).tolist() == [1, 3, 5]
    assert window.compiled
    assert window.slide(np.array([0.5, 4.0]), 3).tolist() == [5.5, 7.5]
    assert not window.compiled
    told = fifo.AMTA(COMPILED["sum"]("x"), type="float")
    told.insert(1)
    assert told.slide(np.array([2, 3]), 3).tolist() == [3.0, 6.0] and told.compiled
    flags = fifo.FlatFAT(agg.monoid(lambda x: x, lambda a, b: a and b, zero=True)("x"))
    answers = flags.slide(np.array([True, True, False]), 2)
    assert answers.tolist() == [True, True, False] and answers.dtype == np.bool_ and flags.compiled


def test_answers_of_nulls():
    x = np.ma.MaskedArray([1, 2, 3], [True, False, True])
    assert fifo.AMTA(COMPILED["sum"]("x")).slide(x, 1).tolist() == [None, 2, None]
    few = fifo.AMTA(COMPILED["sum"]("x", min_count=2)).slide(np.array([1.0, 2.0, 4.0]), 2)
    assert math.isnan(few[0]) and few[1:].tolist() == [3.0, 6.0]
    skipping = fifo.TwoStacks(COMPILED["sum"]("x", nan="skip"))
    assert skipping.slide(np.array([1.0, math.nan, 4.0]), 2).tolist() == [1.0, 1.0, 4.0]
    skipping.insert(math.nan)
    assert (len(skipping), skipping.query()) == (3 - 1 + 1, 4.0)


def test_rows_of_several_columns():
    vwap = agg.monoid(
        lift=lambda price, volume: (price * volume, volume),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda p: p[0] / p[1],
        zero=(0.0, 0),
    )
    for kind in GENERAL:
        window = kind(vwap("price", "volume"))
        for row in ((10.0, 1), {"price": 20.0, "volume": 3}, (30.0, None), (30.0, 1)):
            window.insert(row)
        window.evict()
        assert window.compiled and window.query() == 22.5
        window.insert((1.0, 0.5))
        assert not window.compiled and window.query() == 90.5 / 4.5


def test_a_broken_law_is_told():
    wrong = agg.monoid(lift=lambda x: x, combine=lambda a, b: a + b, zero=1.0)
    for feed in (lambda w: w.insert(2.0), lambda w: w.slide(np.array([2.0]), 2)):
        with pytest.raises(SpecError, match="no identity"):
            feed(fifo.AMTA(wrong("x")))


# ---- snapshots and stores --------------------------------------------------------------------


@pytest.mark.parametrize("kind", GENERAL)
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_snapshots_are_read_where_nothing_is_compiled(kind, name, monkeypatch):
    x = np.random.default_rng(10).standard_normal(700) * 1e9
    window = make(kind, COMPILED[name]("x"))
    window.slide(x[:400], 150)
    window.insert(None)
    data = window.to_bytes()
    monkeypatch.setattr(monoids, "_find_compiler", lambda: (None, "numba is not installed"))
    fresh = agg.monoid(**FUNCTIONS[name], name=name)("x")
    options = {"keep_values": True} if kind in LITE else {}
    other = kind.from_bytes(data, fresh, **options)
    assert other.why_python == "numba is not installed"
    assert bits(other.slide(x[400:], 130)) == bits(window.slide(x[400:], 130))
    monkeypatch.undo()
    back = kind.from_bytes(other.to_bytes(), COMPILED[name]("x"), **options)
    assert same(back.query(), window.query()) and not back.compiled


def test_a_snapshot_tells_zero_from_no_value():
    shifted = agg.monoid(lambda x: x, lambda a, b: a + b, lambda p: p + 5, zero=0)("x")
    window = fifo.DABA(shifted)
    window.insert(0)
    again = fifo.DABA.from_bytes(window.to_bytes(), shifted)
    assert again.compiled and again.query() == window.query() == 5


def plain():
    def lift(x):
        return x

    def combine(a, b):
        return a + b

    def zero():
        return 0

    return agg.monoid(lift, combine, zero=zero)("x")


def paired():
    def lift(x):
        return (x, x)

    def combine(a, b):
        return (a[0] + b[0], a[1] + b[1])

    def zero():
        return (0, 0)

    return agg.monoid(lift, combine, _first, zero=zero)("x")


def _first(p):
    return p[0]


@pytest.mark.parametrize("made", [[plain, paired], [paired, plain]])
def test_partials_of_another_type_are_refused(made, monkeypatch):
    one, other = (make_one() for make_one in made)
    monkeypatch.setattr(type(one), "__repr__", lambda aggregate: "the same to a snapshot")
    window = fifo.AMTA(one)
    window.insert(1)
    assert window.compiled, window.why_python
    with pytest.raises(SnapshotError, match="another type"):
        fifo.AMTA.from_bytes(window.to_bytes(), other)


@pytest.mark.parametrize("kind", [fifo.StoredAMTA, fifo.StoredLogMTA])
@given(name=st.sampled_from(list(FUNCTIONS)), steps=STEPS)
@settings(max_examples=40, deadline=None)
def test_windows_on_a_store(kind, name, steps):
    store = MemoryStore()
    options = {"block": 64, "type": "float"}
    compiled = kind(COMPILED[name]("x"), store, **options)
    python = make(getattr(fifo, kind.__name__[6:]), PYTHON[name]("x"))
    for step, argument in steps:
        if step == "store":
            compiled.close()
            compiled = kind(COMPILED[name]("x"), store, **options)
        assert take(compiled, step, argument) == take(python, step, argument)
        assert same(compiled.query(), python.query()) and len(compiled) == len(python)
    assert compiled.compiled


def test_blocks_of_cells_are_not_taken_for_text():
    store = MemoryStore()
    with fifo.StoredAMTA(COMPILED["drawdown"]("x"), store, type="float", block=256) as window:
        assert window.slide(np.arange(500.0), 300)[-1] == 0.0
        with pytest.raises(DataError):
            window.insert("a")
        assert len(window) == 300 and window.compiled
    with pytest.raises(SnapshotError):
        fifo.StoredAMTA(COMPILED["drawdown"]("x"), store, block=256)
    with fifo.StoredAMTA(COMPILED["last"]("x"), store, "any") as window:
        window.insert("a")
        assert window.query() == "a" and not window.compiled
