"""What every algorithm of mta.fifo costs, in calls of combine; and what one that raises does."""

from __future__ import annotations

import gc
import math
import random
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fifo_cases import GENERAL, LITE, make
from mta import agg, fifo
from mta.errors import PolicyError

SIZES = [1, 2, 3, 16, 100, 1000, 4097]


class Counting:
    """Addition that counts its calls and can be told to fail."""

    def __init__(self):
        self.calls = 0
        self.fail_at = -1

    def __call__(self, a, b):
        self.calls += 1
        if self.calls == self.fail_at:
            raise RuntimeError("told to fail")
        return a + b

    def cost(self, call, *arguments):
        before = self.calls
        call(*arguments)
        return self.calls - before


def counted(kind, zero=0):
    combine = Counting()
    monoid = agg.monoid(lift=lambda x: x, combine=combine, zero=zero)
    window = make(kind, monoid("x"))
    window.insert(zero if zero == "" else 1)  # the first one is checked against zero
    window.evict()
    return window, combine


def steps(kind, size, rounds=3):
    """The costs of insert, evict and query while a window of this size slides on."""
    window, combine = counted(kind)
    costs = {"insert": [], "evict": [], "query": []}
    for row in range(size * (rounds + 1) + 40):
        insert = combine.cost(window.insert, 1)
        if row < size:
            continue
        costs["insert"].append(insert)
        costs["evict"].append(combine.cost(window.evict))
        costs["query"].append(combine.cost(window.query))
    return costs


def mean(costs):
    return sum(costs) / len(costs)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("kind", "insert", "evict"), [(fifo.DABA, 4, 3), (fifo.DABALite, 3, 2)])
def test_daba_costs_a_constant_at_every_call(kind, size, insert, evict):
    costs = steps(kind, size)
    assert max(costs["insert"]) <= insert
    assert max(costs["evict"]) <= evict
    assert max(costs["query"]) <= 1


@pytest.mark.parametrize("size", SIZES)
def test_daba_costs_a_constant_in_any_order(size):
    rng = random.Random(size)
    for kind, insert, evict in ((fifo.DABA, 4, 3), (fifo.DABALite, 3, 2)):
        window, combine = counted(kind)
        for _ in range(4 * size):
            if rng.random() < 0.5 and len(window):
                assert combine.cost(window.evict) <= evict
            else:
                assert combine.cost(window.insert, 1) <= insert
            assert combine.cost(window.query) <= 1


@pytest.mark.parametrize("size", SIZES)
def test_two_stacks_cost_a_constant_on_average_and_stall(size):
    costs = steps(fifo.TwoStacks, size, rounds=6)
    assert max(costs["insert"]) <= 1 and max(costs["query"]) <= 1
    assert mean(costs["evict"]) <= 1 + 1 / 6  # the rounds may begin with a flip
    assert max(costs["evict"]) >= size - 1


@pytest.mark.parametrize("size", SIZES)
def test_amta_costs_a_constant_on_average(size):
    costs = steps(fifo.AMTA, size, rounds=6)
    assert mean(costs["insert"]) <= 2.1 and mean(costs["evict"]) <= 1.1
    assert max(costs["query"]) <= 1
    levels = math.ceil(math.log2(size + 1)) + 1
    assert max(costs["insert"]) <= 3 * levels and max(costs["evict"]) <= 2 * levels


@pytest.mark.parametrize("size", SIZES)
def test_log_mta_costs_log_n_at_every_call(size):
    costs = steps(fifo.LogMTA, size)
    levels = math.ceil(math.log2(size + 1)) + 1
    assert max(costs["insert"]) <= 3 * levels and max(costs["evict"]) <= 2 * levels
    assert max(costs["query"]) <= 1


@pytest.mark.parametrize("size", SIZES)
def test_flatfat_costs_log_n_at_every_call(size):
    costs = steps(fifo.FlatFAT, size)
    levels = math.ceil(math.log2(size + 1))  # one more is inside before the oldest goes
    assert max(costs["insert"][40:]) <= levels and max(costs["evict"]) <= levels
    assert max(costs["query"]) <= 2 * levels


def test_recompute_costs_nothing_but_the_answer():
    costs = steps(fifo.Recompute, 100)
    assert max(costs["insert"] + costs["evict"]) == 0
    assert set(costs["query"]) == {99}


@pytest.mark.parametrize("kind", [fifo.LogMTA, fifo.AMTA])
def test_many_leave_a_forest_in_log_n(kind):
    for gone in (0, 1, 2, 3, 500, 4095, 4096, 4097, 9_998, 9_999, 10_000):
        for offset in (0, 1, 777):
            window, combine = counted(kind)
            for _ in range(offset):
                window.insert(1)
            for _ in range(10_000):
                window.insert(1)
            window.evict_many(offset)
            assert combine.cost(window.evict_many, gone) <= 2 * 14
            assert window.query() == (10_000 - gone or None)


def test_many_leave_a_list_in_their_number():
    for kind, most in ((fifo.DABA, 3), (fifo.DABALite, 2), (fifo.Recompute, 0)):
        window, combine = counted(kind)
        for _ in range(1000):
            window.insert(1)
        assert combine.cost(window.evict_many, 400) <= 400 * most
        assert combine.cost(window.evict_many, 600) == 0
    window, combine = counted(fifo.FlatFAT)
    for _ in range(1024):
        window.insert(1)
    assert combine.cost(window.evict_many, 400) <= 400 + 20


@pytest.mark.parametrize("kind", GENERAL)
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_what_raises_changes_nothing(kind, data):
    window, combine = counted(kind, zero="")
    inside = ""
    for _ in range(data.draw(st.integers(1, 40))):
        what = data.draw(st.sampled_from(["insert", "insert", "insert", "evict", "many", "query"]))
        combine.fail_at = combine.calls + data.draw(st.integers(1, 9))
        gone = 1 if what == "evict" else data.draw(st.integers(0, len(inside)))
        try:
            if what == "insert":
                letter = data.draw(st.sampled_from("abcdef"))
                window.insert(letter)
                inside += letter
            elif what == "query":
                window.query()
            elif len(inside) >= gone:
                window.evict_many(gone)
                inside = inside[gone:]
        except RuntimeError:
            pass
        combine.fail_at = -1
        assert len(window) == len(inside)
        assert window.query() == (inside or None)


class Part:
    """A partial that can be watched."""

    def __init__(self, n):
        self.n = n


@pytest.mark.parametrize("kind", GENERAL)
def test_partials_are_let_go(kind):
    made = weakref.WeakSet()

    def part(n):
        new = Part(n)
        made.add(new)
        return new

    monoid = agg.monoid(
        lift=part, combine=lambda a, b: part(a.n + b.n), lower=lambda a: a.n, zero=lambda: part(0)
    )
    window = make(kind, monoid("x"))
    for row in range(5000):
        window.insert(row)
        if len(window) > 10:
            window.evict()
        assert window.query() == sum(range(max(row - 9, 0), row + 1))
    gc.collect()
    assert len(made) < 1000


@pytest.mark.parametrize("kind", GENERAL)
def test_a_monoid_may_not_change_its_window(kind):
    window = None

    def combine(a, b):
        if window is not None:
            window.insert("x")
        return a + b

    window_now = make(kind, agg.monoid(lift=str, combine=combine, zero="")("x"))
    for letter in "abcdefgh":
        window_now.insert(letter)
    window = window_now

    def use():
        for _ in range(8):
            window_now.evict()
            window_now.query()

    with pytest.raises(PolicyError, match="under way"):
        use()


@pytest.mark.parametrize("kind", [k for k in GENERAL if k is not fifo.FlatFAT])
def test_growing_keeps_what_is_inside(kind):
    # Rings of many chunks, full, and beginning anywhere.
    for begin in (0, 1, 511, 512, 700):
        window = make(kind, agg.max("x"), type="int")
        for row in range(begin):
            window.insert(row)
        window.evict_many(begin)
        inside = list(range(5000, 0, -1))
        for row in inside:
            window.insert(row)
        for gone in (1, 510, 1, 1, 600, 1024, 2000):
            window.evict_many(gone)
            inside = inside[gone:]
            assert window.query() == inside[0]


def test_lists_hold_one_partial_a_value():
    def bytes_of(kind, **options):
        window = kind(agg.max("x"), **options)
        window.insert_many(np.zeros(2**16))
        return window.nbytes / 2**16

    assert [round(bytes_of(kind)) for kind in (fifo.Recompute, *LITE)] == [8, 8, 8]
    assert [round(bytes_of(kind)) for kind in (fifo.DABA, fifo.AMTA, fifo.FlatFAT)] == [16, 16, 16]
    assert round(bytes_of(fifo.TwoStacks, keep_values=True)) == 16
