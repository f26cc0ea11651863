"""User-written slide policies of ``mta.Window``, and policies that break their contract."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import PolicyError

AGGS = {
    "n": agg.count(),
    "s": agg.sum("x"),
    "top": agg.max("x"),
    "before": agg.max("before"),
    "after": agg.max("after"),
    "t": agg.max("t"),
}


def rows_of(values):
    """Rows with the running sum before and after each, and a time."""
    total, rows = 0, []
    for t, x in enumerate(values):
        rows.append({"x": x, "before": total, "after": total + x, "t": 3 * t + x % 3})
        total += x
    return rows


def answers(rows):
    """The named answers by definition."""
    xs = [row["x"] for row in rows]
    columns = (max((row[c] for row in rows), default=None) for c in ("before", "after", "t"))
    return (len(rows), sum(xs), max(xs, default=None), *columns)


class Total:
    """The answers by name, as a policy sees them."""

    def __init__(self, rows):
        self.n, self.s, self.top, self.before, self.after, self.t = answers(rows)


POLICIES = {
    "last 5 rows": lambda total, old: total.n - old.n >= 5,
    "largest suffix with sum <= 40": lambda total, old: total.after - old.before > 40,
    "shortest suffix with sum >= 40": lambda total, old: total.s - old.s >= 40,
    "nothing before the maximum": lambda total, old: old.top < total.top,
    "last 20 ticks": lambda total, old: total.t - old.t >= 20,
    "everything": lambda total, old: True,
    "nothing": lambda total, old: False,
    "all but the newest": lambda total, old: old.n < total.n,
}


def by_brute_force(policy, rows):
    """How many rows go: the longest prefix that the policy names."""
    total = Total(rows)
    return max((k for k in range(1, len(rows) + 1) if policy(total, Total(rows[:k]))), default=0)


@pytest.mark.parametrize("name", POLICIES)
@given(st.lists(st.integers(0, 60), max_size=50))
def test_policies_against_brute_force(name, values):
    policy = POLICIES[name]
    window, inside = mta.Window(AGGS, policy), []
    for row in rows_of(values):
        got = window.push(row)
        inside.append(row)
        del inside[: by_brute_force(policy, inside)]
        assert len(window) == len(inside)
        assert got == answers(inside)


@pytest.mark.parametrize("name", ["largest suffix with sum <= 40", "last 5 rows", "last 20 ticks"])
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=30))
def test_policies_after_inserts_and_evictions_by_hand(name, steps):
    """``insert`` lets rows pile up; the next ``push`` evicts many at once."""
    policy = POLICIES[name]
    window, inside = mta.Window(AGGS, policy), []
    for row, (_, how) in zip(rows_of([x for x, _ in steps]), steps, strict=True):
        if how == 0 and inside:
            window.evict()
            inside.pop(0)
        inside.append(row)
        if how < 3:
            window.insert(row)
        else:
            window.push(row)
            del inside[: by_brute_force(policy, inside)]
        assert len(window) == len(inside) and window.result() == answers(inside)


def test_a_policy_of_one_aggregate_sees_bare_values():
    window = mta.Window(agg.sum("x"), lambda total, old: total - old >= 10)
    assert [window.push(x) for x in (4, 4, 4, 4, 10, 1)] == [4, 8, 12, 12, 10, 11]


def test_the_running_example_of_the_paper():
    """[2, 2, 3, 3] and then 4: the two oldest go, 3 + 3 + 4 <= 10 stays."""
    window = mta.Window(AGGS, lambda total, old: total.after - old.before > 10)
    for row in rows_of([2, 2, 3, 3, 4]):
        got = window.push(row)
    assert (got.n, got.s, got.top) == (3, 10, 4)


def test_a_policy_is_asked_a_logarithmic_number_of_times():
    calls = 0

    def policy(total, old):
        nonlocal calls
        calls += 1
        return total.n - old.n >= 10

    window = mta.Window(AGGS, policy)
    for row in rows_of([1] * 5000):
        window.insert(row)
    window.push(rows_of([1])[0])
    assert len(window) == 10 and calls <= 60


# ---- policies that break their contract ------------------------------------------------------


def filled(policy, n=13):
    """A window with some rows in it, whose policy may then be made to misbehave."""
    switch = {"on": False}
    window = mta.Window(AGGS, lambda total, old: switch["on"] and policy(total, old))
    for row in rows_of(range(n)):
        window.push(row)
    assert len(window) == n
    return window, switch


def refused(policy, *errors, n=13):
    """The push raises, nothing has changed, and the window goes on as if it had not been."""
    window, switch = filled(policy, n)
    before = (len(window), window.result(), window.to_bytes())
    switch["on"] = True
    with pytest.raises(errors):
        window.push(rows_of([99])[0])
    assert (len(window), window.result(), window.to_bytes()) == before
    switch["on"] = False
    row = rows_of([7])[0]
    assert window.push(row) == answers([*rows_of(range(n)), row])


@pytest.mark.parametrize("n", [1, 2, 7, 8, 13, 64])
@pytest.mark.parametrize("fail_at", range(6))
def test_a_policy_that_raises(n, fail_at):
    calls = 0

    def policy(total, old):
        nonlocal calls
        calls += 1
        if calls > fail_at or old.n == total.n:
            raise ZeroDivisionError("mine")
        return True

    refused(policy, ZeroDivisionError, PolicyError, n=n)


@pytest.mark.parametrize("yes", [True, np.True_, 1])
def test_truth_may_come_from_numpy(yes):
    window = mta.Window(AGGS, lambda total, old: yes if old.n < total.n else yes == 0)
    for row in rows_of(range(9)):
        assert window.push(row).n == 1


@pytest.mark.parametrize("length", range(2, 14))
def test_a_policy_that_names_long_prefixes_but_not_short_ones(length):
    """If a prefix must go, so must every shorter one; here the whole window goes, one row not."""
    refused(lambda total, old: old.n >= length, PolicyError)


ERRATIC = {
    "odd": lambda total, old: old.n % 2 == 1,
    "even": lambda total, old: old.n % 2 == 0,
    "threes": lambda total, old: old.n % 3 == 0,
    "middle": lambda total, old: 4 <= old.n <= 6,
    "not four": lambda total, old: old.n != 4,
    "small values": lambda total, old: old.top < 5 or old.top > 9,
}


@pytest.mark.parametrize("name", ERRATIC)
@pytest.mark.parametrize("n", [1, 5, 13, 32, 100])
def test_an_erratic_policy_never_breaks_the_window(name, n):
    """Not every breach shows in O(log n) questions, but then some suffix is what stays."""
    window, switch = filled(ERRATIC[name], n)
    switch["on"] = True
    inside = rows_of(range(n))
    for row in rows_of(range(20)):
        before = (len(window), window.result(), window.to_bytes())
        try:
            got = window.push(row)
        except PolicyError:
            assert (len(window), window.result(), window.to_bytes()) == before
            continue
        inside.append(row)
        inside = inside[len(inside) - len(window) :]
        assert got == answers(inside) == window.result()


def test_a_policy_that_changes_its_mind():
    answers_given = iter([True, False] * 10_000)
    window = mta.Window(AGGS, lambda total, old: next(answers_given))
    inside = []
    for row in rows_of(range(200)):
        before = len(window)
        try:
            got = window.push(row)
        except PolicyError:
            assert len(window) == before
            continue
        inside.append(row)
        inside = inside[len(inside) - len(window) :]
        assert got == answers(inside)


MEDDLING = {
    "push": lambda window: window.push(rows_of([1])[0]),
    "insert": lambda window: window.insert(rows_of([1])[0]),
    "evict": lambda window: window.evict(),
    "result": lambda window: window.result(),
    "to_bytes": lambda window: window.to_bytes(),
}


@pytest.mark.parametrize("name", MEDDLING)
def test_a_policy_that_reaches_into_its_own_window(name):
    """Refused or harmless, never a crash or a broken window."""
    windows = []

    def policy(total, old):
        MEDDLING[name](windows[0])
        return False

    windows.append(mta.Window(AGGS, policy))
    windows[0].insert(rows_of([1])[0])
    before = windows[0].to_bytes()
    if name in ("result", "to_bytes"):  # they only look
        assert windows[0].push(rows_of([2])[0]).n == 2
    else:
        with pytest.raises(PolicyError):
            windows[0].push(rows_of([2])[0])
        assert windows[0].to_bytes() == before
    assert windows[0].result().n == len(windows[0])
