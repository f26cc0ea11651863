"""Snapshots of ``mta.Window``: they continue exactly, and nothing else is taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from mta import agg
from mta.errors import SnapshotError
from test_window import AGGS, SMALL, arrivals

POLICIES = {
    "rows": (mta.last(5), ("x", "i")),
    "ticks": (mta.last("6i", on="t"), ("x", "i", "t")),
    "python": (lambda total, old: total.n - old.n >= 7, ("x", "i")),
}


@pytest.mark.parametrize("name", POLICIES)
@given(arrivals(), st.data())
def test_a_restored_window_goes_on_exactly(name, rows, draw):
    policy, columns = POLICIES[name]
    rows = [{c: row[c] for c in columns} for row in rows]
    here = draw.draw(st.integers(0, len(rows)))
    window = mta.Window(AGGS, policy)
    for row in rows[:here]:
        window.push(row)
    again = mta.Window.from_bytes(window.to_bytes(), AGGS, policy)
    assert len(again) == len(window) and repr(again.result()) == repr(window.result())
    assert again.to_bytes() == window.to_bytes()
    for row in rows[here:]:
        assert repr(again.push(row)) == repr(window.push(row))
    assert again.to_bytes() == window.to_bytes()


def test_long_windows_with_spikes_go_on_exactly():
    rng = np.random.default_rng(5)
    values = (rng.normal(size=3000) * 10.0 ** rng.integers(-30, 30, 3000)).tolist()
    policy = mta.last(777)
    window = mta.Window(SMALL, policy)
    for i, x in enumerate(values):
        if i % 211 == 0:
            window = mta.Window.from_bytes(window.to_bytes(), SMALL, policy)
        got = window.push(x=x)
        if i % 97 == 0:
            plain = mta.Window(SMALL, policy)
            for y in values[: i + 1]:
                expected = plain.push(x=y)
            assert repr(got) == repr(expected)


def test_snapshots_of_piled_up_rows():
    window = mta.Window(SMALL, mta.last(2))
    for x in range(40):
        window.insert(x=float(x))
    window.evict(3)
    again = mta.Window.from_bytes(window.to_bytes(), SMALL, mta.last(2))
    assert len(again) == 37 and again.result() == window.result()
    assert again.push(x=1.0) == window.push(x=1.0)


def test_a_snapshot_is_a_value():
    """Taking one changes nothing, and the bytes do not follow the window."""
    window = mta.Window(SMALL, mta.last(3))
    window.push(x=1.0)
    saved = window.to_bytes()
    assert isinstance(saved, bytes) and saved == window.to_bytes()
    window.push(x=2.0)
    assert saved != window.to_bytes()
    assert mta.Window.from_bytes(saved, SMALL, mta.last(3)).result() == (1, 1.0, 1.0)
    one, two = (mta.Window.from_bytes(saved, SMALL, mta.last(3)) for _ in range(2))
    one.push(x=5.0)
    assert two.result() == (1, 1.0, 1.0)


def test_the_type_of_a_column_is_part_of_the_state():
    ints = mta.Window(SMALL, mta.last(3))
    ints.push(x=2**60)
    ints.push(x=1)
    again = mta.Window.from_bytes(ints.to_bytes(), SMALL, mta.last(3))
    assert repr(again.result()) == f"{type(again.result()).__name__}(n=2, s={2**60 + 1}, m={2**60})"
    assert again.push(x=3) == (3, 2**60 + 4, 2**60)


# ---- what is no snapshot ---------------------------------------------------------------------


def saved(policy, aggs=SMALL):
    window = mta.Window(aggs, policy)
    for t in range(9):
        window.push(x=t * 1.5, **({"t": t} if policy is TICKS else {}))
    return window.to_bytes()


TICKS = mta.last("5i", on="t")
ROWS = mta.last(5)


@pytest.mark.parametrize("policy", [ROWS, TICKS], ids=["rows", "ticks"])
def test_cut_short_at_every_byte(policy):
    whole = saved(policy)
    for size in range(len(whole)):
        with pytest.raises(SnapshotError):
            mta.Window.from_bytes(whole[:size], SMALL, policy)


@pytest.mark.parametrize("policy", [ROWS, TICKS], ids=["rows", "ticks"])
def test_every_bit_flipped(policy):
    whole = saved(policy)
    for place in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            with pytest.raises(SnapshotError):
                mta.Window.from_bytes(bytes(flipped), SMALL, policy)


def test_anything_added_moved_or_repeated():
    whole = saved(ROWS)
    half = len(whole) // 2
    for wrong in (whole + b"\0", b"\0" + whole, whole + whole, whole[half:] + whole[:half],
                  whole[::-1], bytes(len(whole)), b"", b"mta"):  # fmt: skip
        with pytest.raises(SnapshotError):
            mta.Window.from_bytes(wrong, SMALL, ROWS)


@pytest.mark.parametrize("wrong", ["text", None, 3, [1, 2]], ids=repr)
def test_things_that_are_no_bytes(wrong):
    with pytest.raises((SnapshotError, TypeError)):
        mta.Window.from_bytes(wrong, SMALL, ROWS)


@pytest.mark.parametrize("aggs", [
    {"n": agg.count(), "s": agg.sum("x")},
    {"n": agg.count(), "s": agg.sum("x"), "m": agg.min("x")},
    {"n": agg.count(), "s": agg.sum("x"), "m": agg.max("y")},
    {"n": agg.count(), "s": agg.sum("x"), "M": agg.max("x")},
    {"n": agg.count(), "s": agg.sum("x", nan="skip"), "m": agg.max("x")},
    {"n": agg.count(), "s": agg.sum("x", min_count=2), "m": agg.max("x")},
    {"s": agg.sum("x"), "n": agg.count(), "m": agg.max("x")},
    SMALL | {"v": agg.var("x")},
    agg.sum("x"),
], ids=repr)  # fmt: skip
def test_a_snapshot_of_other_aggregates(aggs):
    with pytest.raises(SnapshotError):
        mta.Window.from_bytes(saved(ROWS), aggs, ROWS)


@pytest.mark.parametrize(
    "policy", [mta.last(6), mta.last("5i"), TICKS, mta.last("5s"), lambda total, old: False]
)
def test_a_snapshot_of_another_policy(policy):
    with pytest.raises(SnapshotError):
        mta.Window.from_bytes(saved(ROWS), SMALL, policy)


def test_a_refused_snapshot_leaves_the_window_that_made_it_alone():
    window = mta.Window(SMALL, ROWS)
    window.push(x=1.0)
    data = window.to_bytes()
    with pytest.raises(SnapshotError):
        mta.Window.from_bytes(data[:-1], SMALL, ROWS)
    assert window.push(x=2.0) == (2, 3.0, 2.0) and window.to_bytes() != data
