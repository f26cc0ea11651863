"""``mta.Window``: one window pushed by hand, against brute force and against ``rolling``."""

from __future__ import annotations

import datetime as dt
import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import DataError, PolicyError, SpecError
from oracle import Agg, Rolling, aggregate, differences
from strategies import INTS, NUMERIC, SPECIAL_FLOATS, WILD_FLOATS, engine_agg, engine_spec

ORACLE_AGGS = {
    "n": Agg("count"),
    "c": Agg("count", "x", nan="skip"),
    **{f"x_{fn}": Agg(fn, "x") for fn in NUMERIC},
    **{f"i_{fn}": Agg(fn, "i") for fn in ("mean", "min", "max", "var")},
    "skip": Agg("max", "x", nan="skip"),
    "least": Agg("min", "x", 3, "greatest"),
    "sd0": Agg("std", "x", ddof=0),
}
AGGS = {name: engine_agg(a) for name, a in ORACLE_AGGS.items()}
SMALL = {"n": agg.count(), "s": agg.sum("x"), "m": agg.max("x")}

FLOATS = st.one_of(WILD_FLOATS, SPECIAL_FLOATS)
GAPS = st.sampled_from([0, 0, 1, 1, 2, 7])


@st.composite
def arrivals(draw, max_size=40):
    """Rows with times that never fall."""
    gaps = draw(st.lists(GAPS, max_size=max_size))
    times = np.cumsum([-5, *gaps])[1:].tolist()
    return [{"x": draw(FLOATS), "i": draw(INTS), "t": t} for t in times]


def push_all(window, rows):
    return [window.push(row)._asdict() for row in rows]


def brute(aggs, rows):
    return {name: aggregate(a, rows) for name, a in aggs.items()}


# ---- against brute force ---------------------------------------------------------------------


@given(arrivals(), st.integers(1, 9))
def test_last_rows(rows, n):
    got = push_all(mta.Window(AGGS, mta.last(n)), [{"x": r["x"], "i": r["i"]} for r in rows])
    expected = [brute(ORACLE_AGGS, rows[max(0, i + 1 - n) : i + 1]) for i in range(len(rows))]
    assert not (wrong := differences(got, expected)), "\n".join(wrong)


@given(arrivals(), st.integers(1, 9))
def test_last_ticks(rows, length):
    window = mta.Window(AGGS, mta.last(f"{length}i", on="t"))
    got = push_all(window, rows)
    expected = [
        brute(ORACLE_AGGS, [r for r in rows[: i + 1] if r["t"] > row["t"] - length])
        for i, row in enumerate(rows)
    ]
    assert not (wrong := differences(got, expected)), "\n".join(wrong)


@given(
    arrivals(),
    st.lists(st.tuples(st.sampled_from(["insert", "evict", "result"]), st.integers(0, 9))),
)
def test_insert_and_evict_by_hand(rows, operations):
    window, inside, rows = mta.Window(AGGS, mta.last(3)), [], iter(rows)
    for operation, amount in operations:
        if operation == "insert":
            for _ in range(amount):
                if row := next(rows, None):
                    window.insert({"x": row["x"], "i": row["i"]})
                    inside.append(row)
        elif operation == "evict" and amount <= len(inside):
            window.evict(amount)
            del inside[:amount]
        assert len(window) == len(inside)
        wrong = differences([window.result()._asdict()], [brute(ORACLE_AGGS, inside)])
        assert not wrong, "\n".join(wrong)


# ---- against rolling, to the last bit --------------------------------------------------------


def same_bits(pushed, rolled):
    """The same answers to the last bit; a window that has met only nulls knows no type yet."""
    assert [{n: bits(v) for n, v in p.items()} for p in pushed] == [
        {n: bits(v) for n, v in r.items()} for r in rolled
    ]


def bits(value):
    return repr(value) if value else "0" if value == 0 else repr(value)


def columns_of(rows):
    types = {"x": "float64", "i": "int64", "t": "int64"}
    return {name: (type_, [row[name] for row in rows]) for name, type_ in types.items()}


@given(arrivals(max_size=70), st.integers(1, 40))
def test_row_windows_equal_rolling_bit_for_bit(rows, n):
    rolled = read(mta.rolling(n).agg(**AGGS)(build("pyarrow", columns_of(rows))))
    pushed = push_all(mta.Window(AGGS, mta.last(n)), [{"x": r["x"], "i": r["i"]} for r in rows])
    same_bits(pushed, rolled)


@given(arrivals(max_size=70), st.integers(1, 30))
def test_time_windows_equal_rolling_bit_for_bit(rows, length):
    spec = mta.rolling(f"{length}i", on="t", ties="arrival").agg(**AGGS)
    rolled = read(spec(build("pyarrow", columns_of(rows))))
    same_bits(push_all(mta.Window(AGGS, mta.last(f"{length}i", on="t")), rows), rolled)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 64, 100, 1000])
def test_long_series_equal_rolling_bit_for_bit(n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=3000) * 10.0 ** rng.integers(-12, 12, 3000)
    aggs = {fn: getattr(agg, fn)("x") for fn in NUMERIC}
    rolled = mta.rolling(n).agg(**aggs)({"x": x})
    window = mta.Window(aggs, mta.last(n))
    pushed = [window.push(x=v) for v in x.tolist()]
    for place, name in enumerate(aggs):
        np.testing.assert_array_equal(np.array([p[place] for p in pushed], float), rolled[name])


@pytest.mark.parametrize("seed", range(6))
def test_sparse_and_dense_times_equal_rolling_bit_for_bit(seed):
    """Gaps longer than the window empty it; bursts fill it far beyond a block. Odd seeds have
    nulls and NaN as well."""
    rng = np.random.default_rng(seed)
    gaps = np.where(rng.random(4000) < 0.01, 500, rng.integers(0, 3, 4000))
    t, x = np.cumsum(gaps), rng.lognormal(0, 6, 4000)
    null = (rng.random(4000) < 0.2) & bool(seed % 2)
    x[(rng.random(4000) < 0.02) & bool(seed % 2)] = math.nan
    aggs = {fn: getattr(agg, fn)("x", nan="skip") for fn in NUMERIC}
    aggs |= {f"n_{fn}": getattr(agg, fn)("x", min_count=20) for fn in (*NUMERIC, "count")}
    rows = [{"x": None if n else v, "t": s} for n, v, s in zip(null, x.tolist(), t, strict=True)]
    spec = mta.rolling("300i", on="t", ties="arrival").agg(**aggs)
    rolled = spec({"t": t, "x": np.ma.MaskedArray(x, null)})
    pushed = push_all(mta.Window(aggs, mta.last("300i", on="t")), rows)
    for name in aggs:
        mine = np.array([math.nan if p[name] is None else p[name] for p in pushed])
        np.testing.assert_array_equal(mine, np.ma.filled(rolled[name].astype(float), math.nan))


def test_the_oracle_agrees_on_a_window_by_key():
    """Each key of a rolling spec is a window of its own."""
    rows = [{"k": k, "x": float(v)} for v, k in enumerate("abacabadabacaba")]
    columns = {"k": ("string", [r["k"] for r in rows]), "x": ("float64", [r["x"] for r in rows])}
    spec = Rolling({"s": Agg("sum", "x"), "v": Agg("var", "x")}, "rows", 3, by=("k",))
    rolled = read(engine_spec(spec)(build("pyarrow", columns)))
    aggs = {n: engine_agg(a) for n, a in spec.aggs.items()}
    windows = {k: mta.Window(aggs, mta.last(3)) for k in "abcd"}
    same_bits([windows[r["k"]].push(x=r["x"])._asdict() for r in rows], rolled)


# ---- how rows are given, how answers look ----------------------------------------------------


def test_rows_by_name_by_mapping_and_bare():
    by_name, by_mapping, bare = (mta.Window(SMALL, mta.last(2)) for _ in range(3))
    for x in (1.0, 5.0, 2.0):
        answers = by_name.push(x=x), by_mapping.push({"x": x}), bare.push(x)
        assert answers[0] == answers[1] == answers[2]
    assert answers[0] == (2, 7.0, 5.0) and answers[0]._fields == ("n", "s", "m")
    assert (answers[0].n, answers[0].s, answers[0].m) == (2, 7.0, 5.0)
    assert by_name.result() == answers[0]


def test_one_aggregate_answers_with_its_bare_value():
    window = mta.Window(agg.max("x"), mta.last(2))
    assert [window.push(x) for x in (3, 1, 2)] == [3, 3, 2]
    assert window.result() == 2


def test_bare_values_with_a_time():
    window = mta.Window(agg.sum("x"), mta.last("3i"))
    assert [window.push(float(x), t) for x, t in ((1, 0), (2, 2), (4, 3), (8, 9))] == [1, 3, 6, 8]


@pytest.mark.parametrize("make", [
    lambda s: dt.datetime(2024, 1, 1) + dt.timedelta(seconds=s),
    lambda s: dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=s),
    lambda s: np.datetime64("2024-01-01", "us") + np.timedelta64(s, "s"),
    lambda s: np.datetime64("2024-01-01", "s") + np.timedelta64(s, "s"),
], ids=["datetime", "aware", "datetime64[us]", "datetime64[s]"])  # fmt: skip
def test_times_of_every_type(make):
    window = mta.Window({"n": agg.count()}, mta.last("1h"))
    got = [window.push(ts=make(s)).n for s in (0, 1, 3599, 3600, 3601, 9000)]
    assert got == [1, 2, 3, 3, 3, 1]


def test_an_empty_window():
    window = mta.Window(SMALL | {"v": agg.var("x")}, mta.last(2))
    assert len(window) == 0
    assert window.result() == (0, 0, None, None)
    window.insert(x=1.0)
    window.evict()
    assert len(window) == 0 and window.result() == (0, 0, None, None)


def test_integers_stay_integers_and_floats_floats():
    ints, floats = (mta.Window(SMALL, mta.last(3)) for _ in range(2))
    assert repr([tuple(ints.push(x=x)) for x in (2, 1)]) == "[(1, 2, 2), (2, 3, 2)]"
    assert repr([tuple(floats.push(x=x)) for x in (2.0, 1.0)]) == "[(1, 2.0, 2.0), (2, 3.0, 2.0)]"
    numpy = mta.Window(SMALL, mta.last(3))
    assert repr([tuple(numpy.push(x=x)) for x in np.array([2, 1])]) == "[(1, 2, 2), (2, 3, 2)]"


def test_a_column_of_integers_becomes_one_of_floats_with_the_first_float():
    values = [3, None, 2**53, 5, 0.1, 7, 2.5, None, 8]
    floats = [None if v is None else float(v) for v in values]
    aggs = {fn: getattr(agg, fn)("x") for fn in NUMERIC}
    rolled = read(mta.rolling(4).agg(**aggs)(build("pyarrow", {"x": ("float64", floats)})))
    window = mta.Window(aggs, mta.last(4))
    pushed = [window.push(x=v)._asdict() for v in values]
    assert type(pushed[3]["sum"]) is int and type(pushed[4]["sum"]) is float
    same_bits(pushed[4:], rolled[4:])


def test_no_integer_is_rounded_in_silence():
    window = mta.Window(SMALL, mta.last(3))
    window.push(x=2**53 + 1)
    unchanged(window, lambda: window.push(x=0.5), DataError)
    assert window.push(x=1) == (2, 2**53 + 2, 2**53 + 1)
    window = mta.Window(SMALL, mta.last(3))
    window.push(x=0.5)
    unchanged(window, lambda: window.push(x=2**53 + 1), DataError)


def test_a_refused_row_does_not_turn_integers_into_floats():
    window = mta.Window({"s": agg.sum("x"), "m": agg.max("y")}, mta.last("9i", on="t"))
    window.push(x=2**60, y=1, t=0)
    for row in ({"x": 0.5, "y": 1}, {"x": 0.5, "y": 1, "t": None}, {"x": 0.5, "y": "no", "t": 1}):
        unchanged(window, lambda row=row: window.push(row), DataError)
    window = mta.Window({"s": agg.sum("x"), "m": agg.max("y")}, mta.last("9i", on="t"))
    window.push(x=1, y=1, t=0)
    for row in ({"x": 0.5, "y": 1}, {"x": 0.5, "y": 1, "t": None}, {"x": 0.5, "y": "no", "t": 1}):
        unchanged(window, lambda row=row: window.push(row), DataError)
    assert repr(window.push(x=2, y=2, t=1).s) == "3"


def test_nulls_and_nan():
    window = mta.Window(SMALL | {"c": agg.count("x")}, mta.last(2))
    assert window.push(x=None) == (1, 0, None, 0)
    answer = window.push(x=math.nan)
    assert (answer.n, answer.c) == (2, 1) and math.isnan(answer.s) and math.isnan(answer.m)
    assert window.push(x=1.0).c == 2
    assert window.push(x=3.0) == (2, 4.0, 3.0, 2)


def test_insert_does_not_enforce_the_policy_and_push_does():
    window = mta.Window(SMALL, mta.last(2))
    for x in (1.0, 2.0, 4.0, 8.0):
        window.insert(x=x)
    assert len(window) == 4 and window.result().s == 15.0
    assert window.push(x=16.0) == (2, 24.0, 16.0)


# ---- refusals: a clear error, and nothing changed --------------------------------------------


def unchanged(window, call, *errors):
    """The call raises one of the errors, the window is as before, and goes on as if nothing was."""
    before = (len(window), window.result(), window.to_bytes())
    with pytest.raises(errors) as caught:
        call()
    assert (len(window), window.result(), window.to_bytes()) == before
    return str(caught.value)


def filled():
    window = mta.Window(SMALL, mta.last("10i", on="t"))
    for t in range(8):
        window.push(x=float(t), t=t)
    return window


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"t": 9}, "x"), ({"x": 1.0}, "t"), ({}, "x"),
        ({"x": "one", "t": 9}, "x"), ({"x": [1], "t": 9}, "x"), ({"x": 1j, "t": 9}, "x"),
        ({"x": 1.0, "t": None}, "t"), ({"x": 1.0, "t": "noon"}, "t"), ({"x": 1.0, "t": 9.5}, "t"),
        ({"x": 1.0, "t": dt.datetime(2024, 1, 1)}, "t"), ({"x": 1.0, "t": 2**63}, "t"),
    ],
    ids=repr,
)  # fmt: skip
def test_rows_that_can_not_be_understood(row, word):
    window = filled()
    for call in (window.push, window.insert):
        message = unchanged(
            window, lambda call=call: call(row), DataError, TypeError, OverflowError
        )
        assert f"{word}" in message
    assert window.push(x=100.0, t=9) == (9, 128.0, 100.0)


def test_a_time_that_goes_back_is_refused():
    window = filled()
    message = unchanged(window, lambda: window.push(x=1.0, t=3), DataError)
    assert "t=3" in message and "before" in message


def test_evicting_what_is_not_there():
    window = filled()
    for n in (9, -1):
        unchanged(window, lambda n=n: window.evict(n), IndexError, ValueError)
    window.evict(8)
    assert len(window) == 0


@pytest.mark.parametrize("policy", [mta.last(3), None])
def test_a_sum_that_does_not_fit(policy):
    """The row is inside all the same, and the answers are back once the sum fits again."""
    window = mta.Window(SMALL, policy)
    window.push(x=2**63 - 1)
    with pytest.raises(OverflowError, match="s: "):
        window.push(x=1)
    assert len(window) == 2
    with pytest.raises(OverflowError, match="s: "):
        window.result()
    assert window.push(x=-5) == (3, 2**63 - 5, 2**63 - 1)


def test_a_sum_that_does_not_fit_leaves_a_policy_of_ones_own_undecided():
    """It can't be asked without the sum: the row has not come."""
    window = mta.Window(SMALL, lambda total, old: total.n - old.n >= 3)
    window.push(x=2**63 - 1)
    assert "s: " in unchanged(window, lambda: window.push(x=1), OverflowError)
    assert window.push(x=-5) == (2, 2**63 - 6, 2**63 - 1)
    window.insert(x=9)  # which asks nobody
    with pytest.raises(OverflowError, match="s: "):
        window.result()


@pytest.mark.parametrize(
    "bad", [{}, None, 3, "sum", {"s": "sum"}, {"s": agg.sum}, {1: agg.sum("x")}], ids=repr
)
def test_bad_aggregates(bad):
    with pytest.raises((SpecError, TypeError)):
        mta.Window(bad, mta.last(3))


@pytest.mark.parametrize("bad", [3, "1h", lambda total: True], ids=["3", "1h", "unary"])
def test_bad_policies(bad):
    with pytest.raises((SpecError, PolicyError, TypeError)):
        mta.Window(SMALL, bad).push(x=1.0)


@pytest.mark.parametrize("bad", [0, -1, "0s", "-1h", "soon", 2.5, None, True], ids=repr)
def test_bad_lengths(bad):
    with pytest.raises((SpecError, TypeError)):
        mta.last(bad)


@pytest.mark.parametrize(
    ("policy", "kept"), [(mta.last(2), 2), (lambda total, old: old.n < total.n - 1, 2)]
)
def test_a_window_answers_again_once_the_row_that_a_monoid_can_not_take_has_gone(policy, kept):
    tens = agg.monoid(lambda x: {int(10 / x)}, lambda a, b: a | b, sorted, set)
    w = mta.Window({"a": tens("x"), "n": agg.count("x")}, policy)
    w.push(x=1), w.push(x=2)
    with pytest.raises(ZeroDivisionError):
        w.push(x=0)
    assert len(w) == kept
    for x in (3, 4):
        with suppress(ZeroDivisionError):
            w.push(x=x)
    assert w.push(x=5) == ([2], 2)
