"""The algorithms of mta.fifo against a list, in any order of calls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import mta
from fifo_cases import (
    ALL,
    CASES,
    GENERAL,
    INTS,
    INVERTIBLE,
    LAST,
    LITE,
    POLICIES,
    WORDS,
    make,
    same,
)
from mta import agg, fifo
from mta.errors import DataError, PolicyError, SnapshotError, SpecError


class Machine(RuleBasedStateMachine):
    """One window of every algorithm beside a list."""

    @initialize(name=st.sampled_from(list(CASES)), data=st.data())
    def begin(self, name, data):
        self.policies = [POLICIES.get(name, LAST), LAST]
        self.aggregate, self.values, self.expected = CASES[name]
        kinds = ALL if name in INVERTIBLE else GENERAL
        self.windows = [make(kind, self.aggregate) for kind in kinds]
        self.rows = []

    @rule(data=st.data(), times=st.integers(1, 3))
    def insert(self, data, times):
        for _ in range(times):
            value = data.draw(st.one_of(self.values, self.values, self.values, st.none()))
            for window in self.windows:
                window.insert(value)
            self.rows.append(value)

    @rule(data=st.data(), times=st.integers(20, 70))
    def insert_same(self, data, times):
        value = data.draw(self.values)
        for window in self.windows:
            for _ in range(times):
                window.insert(value)
        self.rows += [value] * times

    @precondition(lambda self: self.rows)
    @rule()
    def evict(self):
        for window in self.windows:
            window.evict()
        del self.rows[0]

    @rule(share=st.floats(0, 1))
    def evict_many(self, share):
        gone = round(share * len(self.rows))
        for window in self.windows:
            window.evict_many(gone)
        del self.rows[:gone]

    @rule(which=st.sampled_from([0, 0, 1]), k=st.integers(0, 90))
    def evict_while(self, which, k):
        policy, by_definition = self.policies[which]
        gone = by_definition(k, self.rows)
        for window in self.windows:
            assert window.evict_while(policy(k)) == gone, window
        del self.rows[:gone]

    @rule()
    def store(self):
        self.windows = [
            type(w).from_bytes(
                w.to_bytes(), self.aggregate, **({"keep_values": True} if w.keep_values else {})
            )
            for w in self.windows
        ]

    @invariant()
    def answers(self):
        if not hasattr(self, "windows"):
            return
        expected = self.expected(self.rows)
        for window in self.windows:
            assert len(window) == len(self.rows)
            assert same(window.query(), expected), window


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestMachine = Machine.TestCase


# ---- arrays ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
@given(
    values=st.lists(st.one_of(INTS, st.none()), max_size=70),
    keep=st.integers(0, 20),
    already=st.lists(st.one_of(INTS, st.none()), max_size=9),
    split=st.floats(0, 1),
)
@settings(max_examples=30, deadline=None)
def test_a_slide_is_insert_evict_query(kind, values, keep, already, split):
    aggregate = agg.sum("x", min_count=2)
    one_by_one, at_once = (make(kind, aggregate, type="int") for _ in range(2))
    for window in (one_by_one, at_once):
        for value in already:
            window.insert(value)
    expected = []
    for value in values:
        one_by_one.insert(value)
        one_by_one.evict_many(max(len(one_by_one) - keep, 0))
        expected.append(one_by_one.query())
    array = np.ma.MaskedArray([x or 0 for x in values], [x is None for x in values], np.int64)
    cut, found = round(split * len(values)), []
    for part in (array[:cut], array[cut:]):
        found += at_once.slide(part if np.ma.getmaskarray(part).any() else part.data, keep).tolist()
    assert found == expected
    assert (len(at_once), at_once.query()) == (len(one_by_one), one_by_one.query())


@pytest.mark.parametrize("kind", GENERAL)
@pytest.mark.parametrize("fn", ["sum", "mean", "max", "var"])
def test_slides_of_floats_are_those_of_rolling(kind, fn):
    x = np.random.default_rng(3).standard_normal(5000) * 10.0 ** (np.arange(5000) % 7)
    x[[700, 701, 3000]] = np.nan, np.inf, -np.inf
    for keep in (1, 7, 600, 1024):
        found = make(kind, getattr(agg, fn)("x")).slide(x, keep)
        expected = mta.rolling(keep).agg(a=getattr(agg, fn)("x"))({"x": x})["a"]
        assert found.dtype == np.float64
        if kind in (fifo.AMTA, fifo.LogMTA) or fn == "max":
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("kind", ALL)
def test_arrays_go_in_as_values_do(kind):
    window = make(kind, agg.sum("x"))
    window.insert_many(np.arange(3000))
    window.evict_many(2990)
    window.insert_many(np.ma.MaskedArray([7, 8], [True, False]))
    assert (len(window), window.query()) == (12, sum(range(2990, 3000)) + 8)
    took = window.latencies(np.arange(100), 5)
    assert len(took) == 100 and (took >= 0).all() and window.query() == sum(range(95, 100))


def test_answers_come_in_their_type():
    flags = fifo.DABA(agg.all("x")).slide(np.array([True, False, True]), 1)
    assert flags.tolist() == [True, False, True] and flags.dtype == np.bool_
    nan = fifo.AMTA(agg.max("x", nan="skip")).slide(np.array([np.nan, 2.0]), 1)
    assert math.isnan(nan[0]) and nan[1] == 2
    masked = fifo.AMTA(agg.min("x", min_count=2)).slide(np.array([3, 4]), 2)
    assert masked.tolist() == [None, 3]
    words = fifo.TwoStacks(WORDS("x")).slide(np.array(["a", "b", "c"]), 2)
    assert words.tolist() == ["a", "ab", "bc"]


@pytest.mark.parametrize("kind", ALL)
def test_sums_that_do_not_fit(kind):
    big, x = 2**62, np.array([2**62, 2**62, 1])
    window = kind(agg.sum("x"))
    with pytest.raises(OverflowError):
        window.slide(x, 2)
    assert window.query() == big + 1
    assert kind(agg.sum("x", overflow="wrap")).slide(x, 2).tolist() == [big, -(2**63), big + 1]
    assert kind(agg.sum("x", overflow="float")).slide(x, 2).tolist() == [big, 2.0**63, float(big)]


# ---- policies --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GENERAL)
@given(st.lists(st.integers(0, 9), max_size=80), st.integers(0, 30))
@settings(max_examples=30, deadline=None)
def test_a_policy_lets_the_longest_run_go(kind, rows, most):
    window = make(kind, agg.sum("x"))
    window.insert_many(np.array(rows, np.int64))
    total, kept = sum(rows), list(rows)
    while kept and total - (sum(rows) - sum(kept)) - kept[0] >= most:
        del kept[0]
    assert window.evict_while(lambda total, old: total - old >= most) == len(rows) - len(kept)
    assert window.query() == sum(kept)


@pytest.mark.parametrize("kind", GENERAL)
def test_policies_that_break_their_word(kind):
    window = make(kind, agg.count_all())
    for _ in range(100):
        window.insert(0)
    assert window.evict_while(lambda total, old: False) == 0
    with pytest.raises(PolicyError, match="not monotone"):
        window.evict_while(lambda total, old: old in (1, 100))
    with pytest.raises(PolicyError, match="under way"):
        window.evict_while(lambda total, old: window.evict())
    with pytest.raises(ZeroDivisionError):
        window.evict_while(lambda total, old: 1 // 0)
    assert len(window) == window.query() == 100
    assert window.evict_while(lambda total, old: True) == 100
    assert window.evict_while(lambda total, old: True) == 0


@pytest.mark.parametrize("kind", [fifo.FlatFAT, fifo.LogMTA, fifo.AMTA])
def test_trees_ask_a_policy_rarely(kind):
    window, asked = kind(agg.count_all()), []
    window.insert_many(np.zeros(100_000))
    for gone in (0, 1, 70_000, 29_998):
        asked.clear()
        assert window.evict_while(lambda total, old: asked.append(0) or old <= gone) == gone  # noqa: B023
        assert len(asked) <= (3 if gone < 2 else 2 * 17 + 4)


@pytest.mark.parametrize("kind", LITE)
def test_suffixes_make_no_prefixes(kind):
    with pytest.raises(SpecError, match="keep_values"):
        kind(agg.max("x")).evict_while(lambda total, old: True)


# ---- refusals --------------------------------------------------------------------------------


def test_what_has_no_inverse_is_not_subtracted():
    for aggregate in (agg.max("x"), agg.var("x"), WORDS("x")):
        with pytest.raises(SpecError, match="no inverse"):
            fifo.SubtractOnEvict(aggregate)
    window = fifo.SubtractOnEvict(agg.sum("x"))
    with pytest.raises(DataError, match="no exact inverse"):
        window.insert(1.5)
    window.insert(2)
    assert window.query() == 2


@pytest.mark.parametrize("kind", ALL)
def test_types_and_ranges(kind):
    window = kind(agg.sum("x"))
    assert (window.query(), window.type, len(window)) == (0, None, 0)
    window.insert(None)
    window.insert(3)
    with pytest.raises(DataError, match="type='float'"):
        window.insert(1.5)
    for wrong in ("a", 2**70):
        with pytest.raises(DataError):
            window.insert(wrong)
    for wrong in (-1, 3):
        with pytest.raises(IndexError):
            window.evict_many(wrong)
    assert (window.query(), window.type, len(window)) == (3, "int", 2)
    with pytest.raises(IndexError):
        kind(agg.count_all()).evict()
    with pytest.raises(SpecError):
        kind(agg.median("x"))
    with pytest.raises(SpecError):
        kind(agg.sum("x"), type="text")
    with pytest.raises(SpecError):
        kind("x")


def test_floats_take_ints_that_they_can_hold():
    window = fifo.AMTA(agg.sum("x"), type="float")
    window.insert(3)
    with pytest.raises(DataError):
        window.insert(2**53 + 1)
    assert window.query() == 3.0 and isinstance(window.query(), float)


def test_rows_by_name():
    both = agg.monoid(lift=lambda x, y: x * y, combine=lambda a, b: a + b, zero=0)
    window = fifo.AMTA(both("x", "y"))
    window.insert({"x": 2, "y": 3})
    window.insert((4, 5))
    window.insert((4, None))
    assert window.query() == 26
    with pytest.raises(DataError):
        window.insert(4)
    window = fifo.DABA(agg.sum("x"))
    window.insert({"x": 2})
    assert window.query() == 2


# ---- snapshots -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GENERAL)
def test_snapshots_go_on_to_the_last_bit(kind):
    rng = np.random.default_rng(4)
    x, more = rng.standard_normal(3000) * 1e10, rng.standard_normal(2000)
    for aggregate in (agg.sum("x"), agg.var("x"), agg.max("x")):
        window = make(kind, aggregate)
        window.slide(x, 700)
        window.evict_many(13)
        options = {"keep_values": True} if kind in LITE else {}
        other = kind.from_bytes(window.to_bytes(), aggregate, **options)
        np.testing.assert_array_equal(window.slide(more, 650), other.slide(more, 650))
        assert window.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("kind", ALL)
def test_damage_is_refused(kind):
    window = make(kind, agg.sum("x"))
    window.insert_many(np.arange(40))
    data = window.to_bytes()
    options = {"keep_values": True} if kind in LITE else {}
    damaged = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 7)]
    for wrong in [*damaged, data[:-3]]:
        with pytest.raises(SnapshotError):
            kind.from_bytes(wrong, agg.sum("x"), **options)
    with pytest.raises(SnapshotError):
        kind.from_bytes(data, agg.sum("y"), **options)
    empty = make(kind, agg.sum("x")).to_bytes()
    assert kind.from_bytes(empty, agg.sum("x"), **options).query() == 0


def test_partials_that_can_not_be_stored():
    sets = agg.monoid(lift=lambda x: {x}, combine=lambda a, b: a | b, zero=set)
    window = fifo.AMTA(sets("x"))
    window.insert(1)
    with pytest.raises(SnapshotError, match="set"):
        window.to_bytes()
