"""Arrays pushed into ``mta.Window``: to the last bit what pushing their rows one by one gives."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import DataError

FEWER = settings(max_examples=settings.default.max_examples // 2)
FLOATS = st.one_of(
    st.floats(-1e3, 1e3), st.sampled_from([0.0, -0.0, 1e16, -1e16, 1e200, np.inf, -np.inf, np.nan])
)
INTS = st.integers(-(2**40), 2**40)
OF_FLOATS = {
    "n": agg.count(), "sum": agg.sum("x"), "mean": agg.mean("x", min_count=2), "std": agg.std("x"),
    "var0": agg.var("x", ddof=0), "max": agg.max("x"), "min": agg.min("x", nan="greatest"),
    "kept": agg.sum("x", nan="skip"), "seen": agg.count("x", nan="skip"),
    "exact": agg.sum("x", numerics="exact"), "med": agg.median("x"), "skew": agg.skew("x"),
    "corr": agg.corr("x", "y"), "product": agg.product("x"),
}  # fmt: skip
OF_INTS = {
    "n": agg.count(), "sum": agg.sum("i"), "mean": agg.mean("i"), "max": agg.max("i"),
    "std": agg.std("i"), "few": agg.min("i", min_count=3),
}  # fmt: skip
SLOW = {"first": agg.first("x"), "top": agg.top_k("x", 2), "mode": agg.mode("i")}


def bits(value):
    if isinstance(value, list):
        return [bits(item) for item in value]
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "null or nan"  # one and the same in an array of floats
    # A column that has seen no value yet has no type: its sum is the integer 0.
    return "0" if value == 0 and not isinstance(value, str) else repr(value)


@st.composite
def rows_of(draw, max_size=60):
    """Columns of one length, and where they are cut."""
    n = draw(st.integers(1, max_size))
    column = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    nulls = draw(st.sampled_from([(False,), (False,), (False, False, True)]))
    columns = {
        "x": np.ma.MaskedArray(column(FLOATS), column(st.sampled_from(nulls)), np.float64),
        "y": np.array(column(FLOATS)),
        "i": np.ma.MaskedArray(column(INTS), column(st.sampled_from(nulls)), np.int64),
        "ts": np.cumsum(column(st.sampled_from([0, 0, 1, 1, 2, 9, 40]))),
    }
    if nulls == (False,):
        columns = {name: np.asarray(values) for name, values in columns.items()}
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=4)))
    return columns, [0, *cuts, n]


def by_arrays(window, columns, cuts):
    """The answers by name, of one push per piece."""
    pieces = [
        window.push({name: values[a:b] for name, values in columns.items()})
        for a, b in pairwise(cuts)
    ]
    joined = [[x for part in parts for x in part.tolist()] for parts in zip(*pieces, strict=True)]
    return {name: bits(values) for name, values in zip(pieces[0]._fields, joined, strict=True)}


def as_rows(columns):
    lists = [values.tolist() for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def one_by_one(window, columns):
    answers = [window.push(row) for row in as_rows(columns)]
    return {name: bits([getattr(a, name) for a in answers]) for name in answers[0]._fields}


def same(aggs, policy, sample):
    columns, cuts = sample
    names = {c for a in aggs.values() for c in a.columns if c}
    if isinstance(policy, type(mta.last(1))) and not isinstance(policy.range, int):
        names.add("ts")
    columns = {name: columns[name] for name in columns if name in names}
    window, other = mta.Window(aggs, policy), mta.Window(aggs, policy)
    assert by_arrays(window, columns, cuts) == one_by_one(other, columns)
    more = {name: values[-1:] for name, values in columns.items()}
    assert one_by_one(window, more) == one_by_one(other, more)  # and goes on alike
    assert len(window) == len(other)


@pytest.mark.parametrize("aggs", [OF_FLOATS, OF_INTS, {**OF_FLOATS, **SLOW}])
@pytest.mark.parametrize("policy", ["rows", "time", "all", "own"])
@FEWER
@given(st.data(), rows_of(), st.integers(1, 20))
def test_arrays_are_rows_one_by_one(aggs, policy, draw, sample, n):
    policies = {
        "rows": mta.last(n), "time": mta.last(f"{n}i"), "all": None,
        "own": lambda total, old: old.n < total.n - n,
    }  # fmt: skip
    same(aggs, policies[policy], sample)


@FEWER
@given(st.data(), rows_of(), st.integers(1, 20))
def test_arrays_and_single_steps_take_turns(draw, sample, n):
    columns, cuts = sample
    columns = {name: columns[name] for name in ("x", "y")}
    window, other = (mta.Window(OF_FLOATS, mta.last(n)) for _ in range(2))
    for a, b in pairwise(cuts):
        piece = {name: values[a:b] for name, values in columns.items()}
        rows = as_rows(piece)
        step = draw.draw(st.sampled_from(["push", "insert", "evict"]))
        if step == "push":
            window.push(piece)
            [other.push(row) for row in rows]
        elif step == "insert":
            window.insert(**piece)
            [other.insert(row) for row in rows]
        else:
            amount = draw.draw(st.integers(0, len(window)))
            window.evict(amount)
            other.evict(amount)
        assert bits(list(window.result())) == bits(list(other.result()))
        assert len(window) == len(other)


@FEWER
@given(rows_of(), st.integers(1, 20))
def test_a_snapshot_after_arrays_is_that_after_rows(sample, n):
    columns, cuts = sample
    columns = {name: columns[name] for name in ("x", "y")}
    window, other = (mta.Window(OF_FLOATS, mta.last(n)) for _ in range(2))
    by_arrays(window, columns, cuts)
    one_by_one(other, columns)
    again = mta.Window.from_bytes(window.to_bytes(), OF_FLOATS, mta.last(n))
    rows = {name: values[:1] for name, values in columns.items()}
    assert one_by_one(again, rows) == one_by_one(other, rows)


def test_many_blocks_and_bare_answers():
    """Longer than what comes in at once, in the array's order, one array for one aggregate."""
    x = np.random.default_rng(5).normal(1e9, 1, 50_000)
    for policy, times in ((mta.last(1000), None), (mta.last("1000i"), np.arange(50_000))):
        window, other = mta.Window(agg.std("x"), policy), mta.Window(agg.std("x"), policy)
        got = window.push(x) if times is None else window.push(x, times)
        rows = (
            zip(x.tolist(), strict=True)
            if times is None
            else zip(x.tolist(), times.tolist(), strict=True)
        )
        expected = np.array([np.nan if (a := other.push(*row)) is None else a for row in rows])
        np.testing.assert_array_equal(got, expected)


def test_datetimes():
    ts = np.array(["2026-01-01", "2026-01-01T00:30", "2026-01-01T02:00"], "M8[m]")
    window = mta.Window({"n": agg.count(), "s": agg.sum("x")}, mta.last("1h"))
    answers = window.push(x=np.array([1, 2, 4]), ts=ts)
    assert [answers.n.tolist(), answers.s.tolist()] == [[1, 2, 1], [1, 3, 4]]


def test_what_cannot_be_read_is_told_with_its_row():
    window = mta.Window(agg.sum("x"), mta.last("5i"))
    with pytest.raises(DataError, match="different lengths"):
        window.push(np.zeros(3), np.arange(2))
    with pytest.raises(DataError, match="no values for column 'ts'"):
        window.push(np.zeros(3))
    with pytest.raises(DataError, match="array of one dimension"):
        window.push(np.zeros(3), 5)
    assert len(window) == 0
    with pytest.raises(DataError, match="row 2: ts=0: is before"):
        window.push(np.ones(3), np.array([1, 2, 0]))
    assert (len(window), window.result()) == (2, 2.0)  # those above it are inside
    with pytest.raises(DataError, match="uses none"):
        mta.Window(agg.sum("x"), mta.last(5)).push(np.ones(3), np.arange(3))


def test_sums_that_do_not_fit():
    window = mta.Window(agg.sum("x"), mta.last(2))
    with pytest.raises(OverflowError):
        window.push(np.array([1, 2**62, 2**62, 5]))
    assert len(window) == 2  # the row that did it has been taken in
    assert window.push(np.array([1, 1])).tolist() == [2**62 + 1, 2]


def test_an_array_costs_a_fraction_of_its_rows():
    x = np.random.default_rng(6).random(20_000)
    window, other = (mta.Window(agg.sum("x"), mta.last(1000)) for _ in range(2))

    def cpu(run):
        start = time.process_time()
        run()
        return time.process_time() - start

    values = x.tolist()
    assert min(cpu(lambda: window.push(x)) for _ in range(5)) < 0.7 * min(
        cpu(lambda: [other.push(v) for v in values]) for _ in range(5)
    )
