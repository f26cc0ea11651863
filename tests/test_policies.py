"""Ready-made policies against brute force; functions as policies, compiled and not."""

from __future__ import annotations

import math
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from fifo_cases import ALL, GENERAL, brute_since, make
from mta import agg, fifo
from mta.errors import PolicyError, SpecError

FLOATS = st.one_of(
    st.integers(-3, 6).map(float), st.sampled_from([math.nan, math.inf, -math.inf, -0.0])
)
SUMMANDS = st.one_of(
    st.integers(0, 9).map(float), st.sampled_from([math.nan, math.inf, 1e300, -0.0])
)


def brute_since_longest_run(rows):
    best, begins, length, begin, last = 0, 0, 0, 0, None
    for i, x in enumerate(rows):
        if x is None:
            continue
        if last is not None and last < x:
            length += 1
        else:
            length, begin = 1, i
        last = x
        if length > best:
            best, begins = length, begin
    return begins


def total_of(rows):
    try:
        return math.fsum(x for x in rows if x is not None)
    except (OverflowError, ValueError):
        return math.inf


def brute_at_most(total):
    return lambda rows: next(k for k in range(len(rows) + 1) if total_of(rows[k:]) <= total)


READY = {
    "since_max": (agg.max, mta.since_max, brute_since(max), FLOATS),
    "since_min": (agg.min, mta.since_min, brute_since(min), FLOATS),
    "since_longest_run": (
        agg.longest_run, mta.since_longest_run, brute_since_longest_run, FLOATS,
    ),
    "at_most": (
        agg.sum, lambda *name: mta.at_most(20, *name), brute_at_most(20), SUMMANDS,
    ),
    "at_most half": (
        agg.sum, lambda *name: mta.at_most(7.5, *name), brute_at_most(7.5), SUMMANDS,
    ),
    "last": (agg.max, lambda *name: mta.last(5), lambda rows: max(len(rows) - 5, 0), FLOATS),
}  # fmt: skip


def lengths(gone, values):
    """How many rows are inside after every push, by definition."""
    inside, found = [], []
    for x in values:
        inside.append(x)
        del inside[: gone(inside)]
        found.append(len(inside))
    return found


def as_masked(values, dtype=np.float64):
    data = np.array([0 if x is None else x for x in values], dtype)
    return np.ma.MaskedArray(data, [x is None for x in values])


def plain(answers):
    """Null is NaN."""
    return np.ma.filled(np.ma.asarray(answers, np.float64), np.nan)


def floats(answers):
    return np.array([math.nan if x is None else x for x in answers], np.float64)


def windows(name, policy):
    """A window that tells its rows, with another aggregate and a kernel beside it."""
    aggs = {"n": agg.count(), "a": READY[name][0]("x"), "s": agg.var("y"), "q": agg.median("y")}
    return mta.Window(aggs, policy)


@pytest.mark.parametrize("name", READY)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_windows_of_rows_and_of_arrays(name, data):
    _, of, gone, values = READY[name]
    rows = data.draw(st.lists(st.one_of(values, values, values, st.none()), max_size=70))
    y = np.arange(len(rows)) % 7 * 1.5
    slow, fast = (windows(name, of("a") if name != "last" else of()) for _ in range(2))
    expected = lengths(gone, rows)
    answers = [slow.push(x=x, y=v) for x, v in zip(rows, y, strict=True)]
    assert [a.n for a in answers] == expected
    start = 0
    while start < len(rows):
        stop = min(len(rows), start + data.draw(st.integers(1, 40)))
        got = fast.push(x=as_masked(rows[start:stop]), y=y[start:stop])
        for column, field in enumerate(got._fields):
            wanted = floats([a[column] for a in answers[start:stop]])
            np.testing.assert_array_equal(plain(got[column]), wanted, field)
        start = stop
    assert fast.to_bytes() == slow.to_bytes() or any(x is None for x in rows)


@pytest.mark.parametrize("name", READY)
@pytest.mark.parametrize("kind", GENERAL)
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_every_algorithm(name, kind, data):
    aggregate, of, gone, values = READY[name]
    rows = data.draw(st.lists(st.one_of(values, values, st.none()), max_size=50))
    one, many = make(kind, aggregate("x"), type="float"), make(kind, aggregate("x"), type="float")
    found, answers = [], []
    for x in rows:
        one.insert(x)
        one.evict_while(of())
        found.append(len(one))
        answers.append(one.query())
    assert found == lengths(gone, rows)
    got = many.slide_while(as_masked(rows), of())
    np.testing.assert_array_equal(plain(got), floats(answers))
    assert one.to_bytes() == many.to_bytes()


@pytest.mark.parametrize("kind", [k for k in ALL if k is not fifo.Recompute])
@given(st.lists(st.integers(0, 30), max_size=60), st.integers(0, 300))
@settings(max_examples=20, deadline=None)
def test_whole_sums_and_many_at_once(kind, rows, heavy):
    """A long stretch of rows goes with the last one."""
    rows = [*rows, *[1] * 200, heavy]
    window = make(kind, agg.sum("x"))
    window.insert_many(np.array(rows))
    gone = brute_at_most(100)(rows)
    assert window.evict_while(mta.at_most(100.5)) == gone
    assert window.query() == sum(rows[gone:])


@pytest.mark.parametrize("most", [0, 3, 250, 2**40])
def test_sums_of_long_windows(most):
    rng = np.random.default_rng(most)
    x = rng.integers(0, 3, 5000)
    x[[1000, 3000]] = 10_000
    expected, lo = [], 0
    for i in range(len(x)):
        while x[lo : i + 1].sum() > most:
            lo += 1
        expected.append(x[lo : i + 1].sum())
    for kind in (fifo.AMTA, fifo.LogMTA, fifo.DABA):
        assert kind(agg.sum("x")).slide_while(x, mta.at_most(most)).tolist() == expected
    assert mta.Window(agg.sum("x"), mta.at_most(most)).push(x).tolist() == expected


def test_policies_in_turn():
    x = np.random.default_rng(0).integers(0, 1000, 3000)
    policies = mta.last(50), mta.since_max()
    for kind in (fifo.AMTA, fifo.FlatFAT, fifo.Recompute):
        one, many = make(kind, agg.max("x")), make(kind, agg.max("x"))
        answers = []
        for value in x.tolist():
            one.insert(value)
            for policy in policies:
                one.evict_while(policy)
            answers.append(one.query())
        assert many.slide_while(x, *policies).tolist() == answers
        assert one.to_bytes() == many.to_bytes()
    assert len(many) < 50 and many.slide_while(x).tolist()[-1] == x.max()


@pytest.mark.parametrize("kind", [fifo.AMTA, fifo.LogMTA])
@given(st.lists(st.none() | st.integers(0, 3).map(float), max_size=60), st.integers(1, 12))
def test_policies_in_turn_over_nulls(kind, values, most):
    """What the first lets go of is not counted by the second."""
    window, inside = kind(agg.longest_run("x"), type="float"), []
    for value in values:
        one = np.ma.MaskedArray([value or 0.0], [value is None])
        window.slide_while(one, mta.last(most), mta.since_longest_run())
        last = [*inside, value][-most:]
        inside = last[brute_since_longest_run(last) :]
        assert len(window) == len(inside)


@pytest.mark.parametrize(
    "text",
    [
        "mta.since_max('top')", "mta.since_max()", "mta.since_min('low')",
        "mta.since_longest_run('run')", "mta.at_most(10, 'total')", "mta.at_most(0.5)",
        "mta.last(3)", "mta.last('1h')",
    ],
)  # fmt: skip
def test_a_policy_is_the_code_that_makes_it(text):
    policy = eval(text)
    assert repr(policy) == text and eval(text) == policy and {policy: 1}[eval(text)]
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_snapshots_hold_their_policy():
    aggs = {"top": agg.max("x"), "low": agg.min("x")}
    window = mta.Window(aggs, mta.since_max("top"))
    window.push(x=np.array([3.0, 1.0, 2.0]))
    data = window.to_bytes()
    again = mta.Window.from_bytes(data, aggs, mta.since_max("top"))
    assert [w.push(x=9.0) for w in (window, again)] == [(9.0, 9.0)] * 2
    with pytest.raises(mta.errors.SnapshotError):
        mta.Window.from_bytes(data, aggs, mta.since_min("low"))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (lambda: mta.since_max("low"), "over agg.max, not over agg.min"),
        (lambda: mta.since_max("other"), "no answer of that name; there are 'low', 'total'"),
        (lambda: mta.since_min(), "has to name an answer"),
        (lambda: mta.at_most(5, "exact"), "numerics='compensated'"),
        (lambda: 7, "neither a function"),
    ],
)
def test_what_a_window_can_not_ask(policy, words):
    aggs = {"low": agg.min("x"), "total": agg.sum("x"), "exact": agg.sum("x", numerics="exact")}
    with pytest.raises(SpecError, match=words):
        mta.Window(aggs, policy())


def test_what_a_fifo_can_not_ask():
    window = fifo.AMTA(agg.max("x"))
    for policy, words in (
        (mta.last("1h"), "no times"), (mta.since_min(), "over agg.min"), (7, "neither"),
        (mta.since_max("top"), "no answer of that name"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=words):
            window.evict_while(policy)
        with pytest.raises(SpecError, match=words):
            window.slide_while(np.ones(3), policy)
    with pytest.raises(SpecError, match="keep_values"):
        fifo.DABALite(agg.max("x")).evict_while(mta.since_max())
    for total in (-1, math.nan, 2**63, "7", True):
        with pytest.raises(SpecError, match="total"):
            mta.at_most(total)


# ---- functions -------------------------------------------------------------------------------

AGGS = {
    "n": agg.count(), "s": agg.sum("x"), "top": agg.max("x"), "m": agg.mean("x"), "y": agg.any("b"),
}  # fmt: skip
FUNCTIONS = {
    "rows": lambda total, old: total.n - old.n >= 9,
    "sum": lambda total, old: total.s - old.s >= 20.5,
    "maximum": lambda total, old: old.top < total.top,
    "means": lambda total, old: abs(total.m - old.m) > 2 and old.n < total.n,
    "division": lambda total, old: old.n < total.n and total.s / old.s > 3,
    "truth": lambda total, old: total.y and old.n * 2 < total.n,
    "everything": lambda total, old: True,
    "nothing": lambda total, old: False,
    "number": lambda total, old: total.n // 20,
}


def outcome(call):
    """What it gives, or the error's type."""
    try:
        return call()
    except (PolicyError, ZeroDivisionError) as error:
        return type(error)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["int", "float"])
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_compiled_functions_are_those_of_python(name, kind, data):
    function = FUNCTIONS[name]
    values = st.integers(0, 6) if kind == "int" else FLOATS
    rows = data.draw(st.lists(values, min_size=1, max_size=120))
    x = np.array(rows, np.int64 if kind == "int" else np.float64)
    aggs = {key: a for key, a in AGGS.items() if key != "y" or name == "truth"}
    given_rows = {"x": x, "b": x > 3} if name == "truth" else {"x": x}
    slow, fast = mta.Window(aggs, function), mta.Window(aggs, function)
    answers = []
    for i in range(len(x)):
        got = outcome(lambda i=i: slow.push({key: v[i].item() for key, v in given_rows.items()}))
        if isinstance(got, type):
            assert outcome(lambda: fast.push(given_rows)) is got
            break
        answers.append(got)
    else:
        found = fast.push(given_rows)
        for column in range(len(aggs)):
            wanted = [a[column] for a in answers]
            np.testing.assert_array_equal(plain(found[column]), floats(wanted))
    assert fast.to_bytes() == slow.to_bytes()
    if name != "truth":  # booleans are read one by one
        assert mta.policy(function).compiled, mta.policy(function).why_python


@pytest.mark.parametrize("kind", ALL)
@given(st.lists(st.integers(-5, 9), min_size=1, max_size=60))
@settings(max_examples=10, deadline=None)
def test_compiled_functions_in_every_algorithm(kind, rows):
    x = np.array(rows, np.int64)
    one, many = make(kind, agg.sum("x")), make(kind, agg.sum("x"))
    answers = []
    for value in rows:
        one.insert(value)
        one.evict_while(SUM_UP)
        answers.append(one.query())
    assert many.slide_while(x, SUM_UP).tolist() == answers
    assert one.to_bytes() == many.to_bytes() and mta.policy(SUM_UP).compiled is not False


def SUM_UP(total, old):
    return old * old < total


def test_rows_that_only_python_can_decide():
    """Nulls at first, then integers beyond the doubles: the answers of Python, from both."""
    policy = mta.policy(lambda total, old: old.v is None or total.s - old.s > 2**60)
    aggs = {"v": agg.var("x"), "s": agg.sum("x")}
    x = np.array([2**58] * 30)
    slow, fast = mta.Window(aggs, policy), mta.Window(aggs, policy)
    answers = [slow.push(x=v) for v in x.tolist()]
    got = fast.push(x=x)
    assert got.s.tolist() == [a.s for a in answers] and len(fast) == len(slow)
    got = mta.Window({"s": agg.sum("x")}, lambda t, o: t.s - o.s >= 2**60).push(x=x)
    assert got.s.max() == 2**60


def test_a_function_that_is_not_monotone_stops_an_array():
    window = mta.Window({"n": agg.count()}, mta.policy(lambda total, old: old.n >= 7))
    with pytest.raises(PolicyError, match="not monotone"):
        window.push({"x": np.arange(20.0)})
    assert len(window) == 6
    window = fifo.AMTA(agg.count_all())
    with pytest.raises(PolicyError, match="not monotone"):
        window.slide_while(np.arange(20.0), lambda total, old: old >= 7)
    assert len(window) == 7  # that row is inside


def test_why_a_function_is_not_compiled():
    seen = []

    def policy(total, old):
        seen.append(old)
        return False

    told = mta.policy(policy)
    assert told.compiled is None and mta.policy(policy) is told and mta.policy(told) is told
    window = mta.Window({"n": agg.count(), "s": agg.sum("x")}, policy)
    window.push(x=np.ones(50))
    assert told.compiled is False and "numba" in told.why_python and len(seen) >= 50
    assert pickle.loads(pickle.dumps(mta.policy(outcome))).compiled is None
    with pytest.raises(SpecError):
        mta.policy(mta.last(5))


def test_without_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "mta._compiled_policies", None)
    monkeypatch.delattr(mta, "_compiled_policies", raising=False)
    policy = mta.policy(lambda total, old: total.n - old.n >= 5)
    window = mta.Window({"n": agg.count(), "s": agg.sum("x")}, policy)
    assert window.push(x=np.ones(9)).n.tolist() == [1, 2, 3, 4, 5, 5, 5, 5, 5]
    assert "numba" in policy.why_python
    window = mta.Window(agg.max("x"), mta.since_max())
    assert window.push(np.array([3.0, 1.0, 4.0])).tolist() == [3, 3, 4]


def test_no_call_of_python_per_row():
    """Compiled loops ask no Python function: this one could not answer."""
    policy = mta.policy(lambda total, old: total.n - old.n >= 100)
    window = mta.Window({"n": agg.count(), "s": agg.sum("x")}, policy)
    window.push(x=np.ones(1000))
    object.__setattr__(policy, "function", None)
    assert window.push(x=np.ones(10_000)).s.tolist() == [100.0] * 10_000
