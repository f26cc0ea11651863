"""User monoids: what is refused, what is compiled, what type answers have."""

from __future__ import annotations

import operator
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from mta._kernel import Counter
from mta.errors import SpecError
from mta.monoids import UserMonoid, answer_array, make_user_kernel, settled


def one(x):
    return x


def add(a, b):
    return a + b


def three(a, b, c):
    return a


class Plain:
    """A value without a notion of equality."""


GOOD = {"lift": one, "combine": add, "lower": one, "zero": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lift": 5}, "lift must be a function, not 5"),
        ({"combine": None}, "combine must be a function"),
        ({"combine": one}, r"combine must take two partials, but is one\(x\)"),
        ({"combine": three}, r"two partials, but is three\(a, b, c\)"),
        ({"lower": add}, r"lower must take one partial, but is add\(a, b\)"),
        ({"lower": "mean"}, "lower must be a function"),
        ({"zero": None}, "zero is missing"),
        ({"zero": one}, r"zero must take nothing, but is one\(x\)"),
        ({"name": 3}, "name must be a text"),
    ],
)
def test_functions_are_checked(change, message):
    with pytest.raises(SpecError, match=message):
        UserMonoid(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("lift", "columns", "message"),
    [
        (one, [], "the name of a column is needed"),
        (one, ["x", 3], "columns must be names, not 3"),
        (
            one,
            ["x", "y"],
            r"take 2 values, one for each of \['x', 'y'\], but is one\(x\)",
        ),
        (add, ["x"], r"lift must take 1 value,"),
        (print, ["a", "b", "c", "d", "e"], "at most 4 columns"),
    ],
)
def test_columns_are_checked(lift, columns, message):
    with pytest.raises(SpecError, match=message):
        UserMonoid(lift, add, None, 0).check_columns(columns)


@pytest.mark.parametrize(
    ("lift", "columns"), [(max, ["x", "y"]), (float, ["x"]), (add, ["a", "b"])]
)
def test_builtins_that_do_not_tell_their_arguments_pass(lift, columns):
    UserMonoid(lift, max, None, 0).check_columns(columns)


def attach(monoid, *columns, valid=None, sources=None, way=False):
    kernel = make_user_kernel(
        monoid, Counter([]), sources or ["float"] * len(columns), compiled=way
    )
    kernel.attach([np.array(c) for c in columns], valid, 0)
    return kernel


def merge(a, b):
    a.update(b)
    return a


@pytest.mark.parametrize(
    ("combine", "zero", "message"),
    [
        (add, 1.0, r"zero 1.0 is no identity: combine\(zero, lift\(5.0\)\) is 6.0, not 5.0"),
        (lambda a, b: a - b, 0.0, r"combine\(zero, lift\(5.0\)\) is -5.0"),
        (lambda a, b: b, 0.0, r"combine\(lift\(5.0\), zero\) is 0.0, not 5.0"),
        (lambda a, b: max(a, b), 9, "zero 9 is no identity"),
    ],
)
def test_a_zero_that_changes_a_partial_is_refused_every_time(combine, zero, message):
    monoid = UserMonoid(one, combine, None, zero)
    for _ in range(2):
        with pytest.raises(SpecError, match=message):
            attach(monoid, [0.0, 5.0], valid=np.array([0, 1], np.uint8))


@pytest.mark.parametrize("zero", [set, set()])
def test_a_combine_that_changes_its_arguments_is_refused(zero):
    with pytest.raises(SpecError, match="combine changes its arguments"):
        attach(UserMonoid(lambda x: {x}, merge, len, zero), [5.0])


@pytest.mark.parametrize(
    ("lift", "combine", "zero", "x"),
    [
        (one, lambda a, b: b if b > a else a, -np.inf, np.nan),  # a NaN proves nothing
        (one, lambda a, b: np.log(np.exp(a) + np.exp(b)), -np.inf, 0.1),  # rounding neither
        (lambda x: Plain(), lambda a, b: Plain(), Plain, 1.0),
        (lambda x: np.full(2, x), add, np.zeros(2), 1.0),
        (lambda x: 1 / x, add, 0.0, 0.0),  # is raised where the row is answered
    ],
)
def test_nothing_is_refused_without_proof(lift, combine, zero, x):
    attach(UserMonoid(lift, combine, None, zero), [x])


def test_equal_where_made_of_the_same():
    made = UserMonoid(one, add, None, 0.0)
    assert made == UserMonoid(one, add, None, 0.0)
    assert hash(made) == hash(UserMonoid(one, add, None, 0.0))
    others = [
        UserMonoid(one, add, one, 0.0),
        UserMonoid(one, add, None, 0),
        UserMonoid(lambda x: x, add, None, 0.0),
        UserMonoid(one, add, None, 0.0, name="total"),
    ]
    assert made not in others
    assert len({made, *others}) == 5
    assert UserMonoid(one, add, None, {}) != UserMonoid(one, add, None, {})  # hashable all the same


def test_it_prints_its_functions():
    assert repr(UserMonoid(one, add, len, set)) == "agg.monoid(one, add, len, zero=set)"
    assert repr(UserMonoid(one, add, None, 0.0, "sum")) == (
        "agg.monoid(one, add, zero=0.0, name='sum')"
    )


# ------------------------------------------------------------------------ what is compiled


def pair(x):
    return (x, 1)


def add_pairs(a, b):
    return (a[0] + b[0], a[1] + b[1])


def first_of(p):
    return p[0]


@pytest.mark.parametrize(
    ("monoid", "source", "gives"),
    [
        (UserMonoid(one, add, None, 0.0), "float", "float"),
        (UserMonoid(one, add, None, 0), "int", "int"),
        (UserMonoid(one, max, None, 0), "uint", "uint"),
        (UserMonoid(one, operator.or_, None, False), "bool", "bool"),
        (UserMonoid(one, add, None, 0), "bool", "int"),
        (UserMonoid(float, operator.add, None, 0.0), "int", "float"),
        (UserMonoid(pair, add_pairs, first_of, (0, 0)), "int", "int"),
        (UserMonoid(pair, add_pairs, lambda p: p[0] / p[1], (0, 0)), "int", "float"),
        (UserMonoid(one, lambda a, b: a / 2 + b, None, 0), "int", "float"),
    ],
)
def test_numbers_and_flat_tuples_are_compiled(monoid, source, gives):
    pytest.importorskip("numba")
    assert monoid.compiled is None
    kernel = make_user_kernel(monoid, Counter([]), [source])
    assert (kernel.compiled, kernel.gives, kernel.program.why_python) == (True, gives, "")
    assert monoid.compiled
    assert monoid.program([source]) is kernel.program  # compiled once


@pytest.mark.parametrize(
    ("functions", "source", "reason"),
    [
        ((one, add, None), "object", "neither numbers nor booleans"),
        ((str, add, None), "int", "lift gives unicode_type, not a number"),
        ((lambda x: {x}, operator.or_, len), "float", "lift gives set"),
        ((lambda x: (x, (x, x)), lambda a, b: a, None), "float", "not a number or a tuple"),
        ((lambda x: (), lambda a, b: a, None), "float", "not a number or a tuple"),
        ((np.float32, add, None), "float", "float32, not a number"),
        ((lambda x: Plain(), add, None), "float", "numba does not compile lift"),
        ((one, partial(add), None), "float", "numba does not compile combine"),
        ((pair, add_pairs, None), "float", "the answer is .*, not a number"),
        ((pair, lambda a, b: a[0], None), "float", r"lift gives tuple\(float, int\), but combine"),
        ((one, lambda a, b: a + np.int64(b), None), "uint", "uint"),
        ((pair, add_pairs, lambda p: None if p[1] < 2 else p[0]), "float", "the answer is"),
    ],
)
def test_why_it_runs_through_python(functions, source, reason):
    pytest.importorskip("numba")
    monoid = UserMonoid(*functions, zero=0)
    program = monoid.program([source])
    assert (program.compiled, program.gives, monoid.compiled) == (False, "object", False)
    assert program.why_python == monoid.why_python
    with pytest.raises(SpecError, match=reason):
        make_user_kernel(monoid, Counter([]), [source], compiled=True)


def test_without_numba_it_runs_through_python(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "mta._compiled_monoids", raising=False)
    monkeypatch.delattr("mta._compiled_monoids", raising=False)
    monoid = UserMonoid(one, add, None, 0)
    assert not make_user_kernel(monoid, Counter([]), ["int"]).compiled
    assert monoid.why_python == "numba is not installed"


def test_numba_is_imported_only_when_a_monoid_is_used():
    text = (
        "import sys, mta, mta.monoids; from operator import add;"
        "mta.monoids.UserMonoid(int, add, None, 0); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


# ------------------------------------------------------------------------- types of answers


@pytest.mark.parametrize(
    ("answers", "dtype"),
    [
        ([1.5, 2.5], np.float64),
        ([1, 2], np.int64),
        ([True, False], np.bool_),
        ([True, 2], np.int64),
        ([1, 2.5], np.float64),
        ([np.float64(1), np.int64(2)], np.float64),
        ([2**63, 1], np.uint64),
        ([2**63, -1], object),
        ([2**60, 0.5], object),
        (["a", 1.0], object),
        ([(1, 2), (3, 4)], object),
        ([None, 3], np.int64),
        ([None, "a"], object),
        ([None, None], np.float64),
        ([], np.float64),
    ],
)
def test_answers_of_python_get_the_type_they_are_all_of(answers, dtype):
    raw = answer_array("object", len(answers))
    for k, answer in enumerate(answers):
        raw[k] = answer
    typed, valid = settled("object", raw)
    assert typed.dtype == dtype
    kept = typed.tolist() if valid is None else typed[valid].tolist()
    assert kept == [answer for answer in answers if answer is not None]
    assert (valid is None) == (None not in answers)


def test_nulls_of_both_kinds_are_kept():
    raw = answer_array("object", 3)
    raw[:] = [None, 7, 8]
    typed, valid = settled("object", raw, np.array([True, False, True]))
    assert (typed[2], valid.tolist()) == (8, [False, False, True])
    raw[:] = ["a", "b", "c"]
    assert settled("object", raw, np.array([True, False, True]))[0].tolist() == ["a", None, "c"]


def test_booleans_of_compiled_code_are_booleans():
    typed, valid = settled("bool", np.array([1, 0]))
    assert (typed.tolist(), valid) == ([True, False], None)


def test_objects_are_read_as_they_are():
    monoid = UserMonoid(one, add, None, "")
    kernel = attach(monoid, np.array(["ab", "c"], object), sources=["object"], way=None)
    assert not kernel.compiled
    with pytest.raises(SpecError, match=r"lift\('c'\)"):
        attach(UserMonoid(one, add, None, "-"), np.array(["c"], object), sources=["object"])
