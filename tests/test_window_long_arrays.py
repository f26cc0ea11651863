"""Long arrays pushed into windows of many columns, whose answers come from the kernels of a batch:
to the last bit those of short arrays, which go through the forests."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg

FEWER = settings(max_examples=max(5, settings.default.max_examples // 10), deadline=None)
AGGS = {
    "n": agg.count(), "seen": agg.count("a", nan="skip"), "named": agg.count("word"),
    "s": agg.sum("a"), "m": agg.mean("a", min_count=3), "kept": agg.sum("a", nan="skip"),
    "t": agg.sum("b"), "top": agg.max("a"), "low": agg.min("b", nan="greatest"),
    "few": agg.min("a", min_count=40), "std": agg.std("b"), "med": agg.median("b"),
}  # fmt: skip
OF_INTS = {
    "s": agg.sum("i"), "m": agg.mean("i"), "top": agg.max("i", min_count=2), "f": agg.sum("a")
}  # fmt: skip
SHORT = 1000  # rows of an array that forests answer
WARM = 600  # and without nulls, of which a column can't tell its type


def columns_of(rng, rows, wild):
    """Floats, integers and what is only counted; `wild` ones are NaN, infinite or null."""
    a, b = rng.standard_normal((2, rows)) * 10.0 ** rng.integers(-9, 9, (2, rows))
    odd = rng.random(rows) < 0.003 * wild
    a[odd] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -0.0], odd.sum())
    nulls = rng.random(rows) < 0.2 * wild
    return {
        "a": np.ma.MaskedArray(a, nulls & (np.arange(rows) >= WARM)) if wild else a,
        "b": np.where(rng.random(rows) < 0.001 * wild, np.nan, b),
        "i": rng.integers(-(2**40), 2**40, rows),
        "word": rng.random(rows) < 0.5,
        "ts": np.cumsum(rng.choice([0, 1, 1, 2, 50] if wild else [1], rows)),
    }


def pushed(window, columns, names, cuts):
    pieces = [window.push({name: columns[name][a:b] for name in names}) for a, b in pairwise(cuts)]
    return [np.ma.concatenate(parts) for parts in zip(*pieces, strict=True)]


def compare(aggs, policy, columns, rows, names):
    fast, slow = mta.Window(aggs, policy), mta.Window(aggs, policy)
    got = pushed(fast, columns, names, [0, WARM, rows])
    wanted = pushed(slow, columns, names, [0, *range(WARM, rows, SHORT), rows])
    for name, one, other in zip(aggs, got, wanted, strict=True):
        np.testing.assert_array_equal(np.ma.getmaskarray(one), np.ma.getmaskarray(other), name)
        one, other = np.ma.filled(one, 0), np.ma.filled(other, 0)
        np.testing.assert_array_equal(one, other, name)
        one, other = (np.signbit(x) & ~np.isnan(x) for x in (one, other))
        np.testing.assert_array_equal(one, other, name)
    assert fast.to_bytes() == slow.to_bytes()
    for k in range(40):  # and the forests are what they would be
        row = {name: columns[name][k : k + 1].tolist()[0] for name in names}
        row.update({"ts": int(columns["ts"][-1]) + k} if "ts" in names else {})
        assert repr(fast.push(row)) == repr(slow.push(row))
        if k == 20:
            fast.evict(len(fast) // 2)
            slow.evict(len(slow) // 2)


@pytest.mark.parametrize("wild", [0, 1])
@pytest.mark.parametrize("policy", ["rows", "time", "all"])
@FEWER
@given(st.integers(0, 2**32 - 1), st.data())
def test_long_arrays_are_short_ones(wild, policy, seed, data):
    rng = np.random.default_rng(seed)
    rows = data.draw(st.sampled_from([2048 + 100, 5000, 9001, 20_000]))
    size = data.draw(st.sampled_from([1, 2, 15, 16, 17, 100, 1024, 3000, 6000]))
    policies = {"rows": mta.last(size), "time": mta.last(f"{size}i"), "all": None}
    columns = columns_of(rng, rows, wild)
    times = ["ts"] if policy == "time" else []
    compare(AGGS, policies[policy], columns, rows, ["a", "b", "word", *times])
    compare(OF_INTS, policies[policy], columns, rows, ["a", "i", *times])


def test_bare_counts_need_no_python():
    """What is only counted may be of any plain type, and changes type from array to array."""
    window = mta.Window({"n": agg.count("x"), "k": agg.count("x", nan="skip")}, mta.last(3))
    x = np.ma.MaskedArray([1.0, np.nan, 2.0, 3.0], [False, False, True, False])
    assert window.push(x=x).n.tolist() == [1, 2, 2, 2]
    answers = window.push(x=np.array([True, False]))
    assert (answers.n.tolist(), answers.k.tolist()) == ([2, 3], [2, 3])
    assert tuple(window.push(x="text")) == (3, 3)
    answers = window.push(x=np.array([np.nan, 1.0]))
    assert (answers.n.tolist(), answers.k.tolist()) == ([3, 3], [2, 2])


def test_long_arrays_leave_no_more_memory_than_short_ones():
    """Kernels go when the array has gone by, and of the columns only the rows inside stay."""
    x = np.random.default_rng(1).random(400_000)
    window = mta.Window({"s": agg.sum("x"), "top": agg.max("x")}, mta.last(1000))
    window.push(x=x[:20_000])
    tracemalloc.start()
    window.push(x=x)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000
