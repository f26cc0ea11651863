"""Sketches in windows pushed by hand: what rolling answers, bit by bit, and snapshots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import DataError, SnapshotError
from test_rolling_sketches import byte_aggs

NUMBERS = st.one_of(st.none(), st.integers(-20, 20), st.floats(allow_nan=True))
WHOLE = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 5))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "né", *(f"t{i}" for i in range(20))]))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(NUMBERS, WHOLE, TEXTS), min_size=1, max_size=40),
    st.integers(1, 5),
    st.integers(1, 300),
    st.sets(st.integers(0, 200), max_size=3),
)
def test_a_pushed_window_answers_what_rolling_does(rows, times, length, saves):
    """Of a column of ints that becomes one of floats, from then on."""
    rows = rows * times
    window, pushed = mta.Window(byte_aggs(), mta.last(length)), []
    for number, (x, i, s) in enumerate(rows):
        pushed.append(window.push(x=x, i=i, s=s))
        if number in saves:
            window = mta.Window.from_bytes(window.to_bytes(), byte_aggs(), mta.last(length))
    columns = {
        "x": np.array([float("nan") if x is None else x for x, _, _ in rows], float),
        "i": np.array([i for _, i, _ in rows], object),
        "s": np.array([s for _, _, s in rows], object),
    }
    nulls = [x is None for x, _, _ in rows]
    columns["x"] = np.ma.MaskedArray(columns["x"], nulls)
    whole = mta.rolling(length).agg(**byte_aggs())(columns)
    floats = next((n for n, (x, _, _) in enumerate(rows) if isinstance(x, float)), len(rows))
    for name, answers in whole.items():
        x_as_int = name in ("kll", "median", "hll_x", "frequent_x", "top_x")
        for n in range(floats if x_as_int else 0, len(rows)):
            assert repr(plain(getattr(pushed[n], name))) == repr(plain(answers[n])), (name, n)


def plain(answer):
    """Null is None or NaN; numbers of a list are equal whatever type they were pushed as."""
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if isinstance(answer, list):
        return [x + 0.0 if isinstance(x, (int, float)) else x for x in answer]
    if answer is np.ma.masked or (isinstance(answer, float) and answer != answer):
        return None
    return answer.item() if isinstance(answer, np.generic) else answer


def test_windows_over_sketches():
    rows = {"x": np.arange(40) % 7, "day": np.repeat(np.arange(4), 10)}
    daily = mta.rolling(10, by="day", every=10).agg(a=agg.theta_sketch("x"))(rows)["a"]
    aggs = {"s": agg.theta_sketch("s", merge=True)}
    window, pushed = mta.Window(aggs, mta.last(2)), []
    for sketch in [None, *daily, None]:
        pushed.append(window.push(s=sketch).s)
        window = mta.Window.from_bytes(window.to_bytes(), aggs, mta.last(2))
    column = np.array([None, *daily, None], object)
    whole = mta.rolling(2).agg(s=agg.theta_sketch("s", merge=True))({"s": column})["s"]
    assert pushed == whole.tolist() and pushed[0] is None and pushed[2] is not None


def test_a_policy_may_ask_for_sketches():
    """With more than three different values inside, the oldest value goes."""
    aggs = {"d": agg.approx_count_distinct("x"), "t": agg.approx_top_k("x", 9)}
    window = mta.Window(aggs, lambda total, old: total.d > 3 and old.d <= 1)
    inside: list[str] = []
    for x in "abcaddddeeebbbaaacde":
        inside.append(x)
        if len(set(inside)) > 3:
            inside = list("".join(inside).lstrip(inside[0]))
        answer = window.push(x)
        assert (answer.d, sorted(answer.t)) == (len(set(inside)), sorted(set(inside)))
    with pytest.raises(DataError, match="column 'x': it holds texts"):
        window.push(1)
    assert window.result() == answer


def test_numbers_and_texts_do_not_mix():
    window = mta.Window(agg.approx_top_k("x", 2))
    assert window.push(None) == []
    assert window.push(2) == [2]
    with pytest.raises(DataError, match="row 2: column 'x': it holds numbers, and 'a' is none"):
        window.push("a")
    with pytest.raises(DataError, match=r"row 2: column 'x': .*bytes"):
        window.push(b"a")
    assert window.push(2.5) == [2, 2.5]


def test_a_damaged_snapshot_is_refused():
    aggs = agg.hll_sketch("x")
    window = mta.Window(aggs)
    window.push("a")
    data = bytearray(window.to_bytes())
    data[-3] ^= 1
    with pytest.raises(SnapshotError):
        mta.Window.from_bytes(bytes(data), aggs)
