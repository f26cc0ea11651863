"""Partials per (group, bucket), their window level and their bytes, against brute force.

Floats are checked against exact fractions: a sum is the nearest double to the exact one, whatever
order the rows came in, however buckets were merged, and whatever has been inside before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._panes import Panes
from mta._partials import Layout, Partials

SPECS = [
    ("rows", 0, -1, "", ""),
    ("sum", 0, 0, "float", "propagate"),
    ("max", 0, 0, "float", "propagate"),
    ("min", 0, 0, "float", "greatest"),
    ("sum", 1, -1, "int", "propagate"),
    ("values", 0, 0, "", ""),
    ("min", 1, -1, "int", "propagate"),
]
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1e16, -1e16, 1e300, -1e300, 5e-324, 1e-200, 1.5e308]),
    st.sampled_from([math.inf, -math.inf, math.nan]),
    st.floats(),
    st.integers(-9, 9).map(float),
)
ROW = st.tuples(
    st.integers(0, 3), st.integers(-4, 8), FLOATS, st.booleans(), st.integers(-(2**63), 2**63 - 1)
)
Row = tuple[int, int, float, bool, int]


def add(panes: Panes, rows: list[Row]) -> None:
    code, bucket, x, known, i = ([row[k] for row in rows] for k in range(5))
    panes.add(
        np.array(code, np.int64),
        np.array(bucket, np.int64),
        [np.array(x, np.float64), np.array(i, np.int64)],
        [np.array(known, np.uint8)],
    )


def exact_sum(xs: list[float]) -> float:
    odd = [x for x in xs if not math.isfinite(x)]
    if odd:
        return sum(odd)
    total = sum(map(Fraction, xs), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def key(x: float, nan_last: bool) -> tuple[bool, float, float]:
    return math.isnan(x) == nan_last, 0.0 if math.isnan(x) else x, math.copysign(1, x)


def expected(rows: list[Row]) -> tuple[Any, ...]:
    xs = [x for _, _, x, known, _ in rows if known]
    greatest = max(xs, key=lambda x: key(x, True)) if xs else None
    least = min((x for x in xs if x == x), key=lambda x: key(x, False), default=math.nan)
    ints = [i for *_, i in rows]
    total = (sum(ints) + 2**63) % 2**64 - 2**63
    return len(rows), exact_sum(xs), greatest, least if xs else None, total, len(xs), min(ints)


def answers(made: Partials) -> dict[tuple[int, int], tuple[Any, ...]]:
    n = len(made)
    ones = np.ones(n, np.int64)
    sums, most, least = (np.empty(n) for _ in range(3))
    total, lowest = np.empty(n, np.int64), np.empty(n, np.int64)
    made.quotients(1, ones, sums)
    made.extremes(2, most)
    made.extremes(3, least)
    made.totals(4, ones, 0, True, total)
    made.extremes(6, lowest)
    counts = made.counts(5).tolist()
    columns = [made.counts(0), sums, most, least, total]
    lists = [column.tolist() for column in columns]
    out = {}
    for k, place in enumerate(zip(made.places.tolist(), made.codes.tolist(), strict=True)):
        row = [column[k] for column in lists]
        if not counts[k]:
            row[2] = row[3] = None
        out[place] = (*row, counts[k], int(lowest[k]))
    assert len(out) == n
    return out


def same(a: dict[tuple[int, int], Any], b: dict[tuple[int, int], Any]) -> bool:
    return {k: list(map(repr, v)) for k, v in a.items()} == {
        k: list(map(repr, v)) for k, v in b.items()
    }


@dataclass
class Model:
    """Rows by bucket, as lists."""

    rows: list[Row] = field(default_factory=list)

    def window(self, place: int, low: int, high: int) -> dict[tuple[int, int], Any]:
        inside = [row for row in self.rows if low <= row[1] < high]
        return {
            (place, code): expected([row for row in inside if row[0] == code])
            for code in sorted({row[0] for row in inside})
        }


PUSHES = st.lists(st.lists(ROW, max_size=8), min_size=1, max_size=6)
BOUNDS = st.sampled_from([(0, 0), (3, 2), (10**9, 0)])


@given(PUSHES, st.integers(1, 5), st.integers(1, 4), BOUNDS, st.booleans())
def test_windows_of_panes_are_those_of_their_rows(
    pushes: list[list[Row]], length: int, step: int, bounds: tuple[int, int], restart: bool
) -> None:
    """Rows may come into buckets that earlier windows, or the one at hand, have taken in."""
    panes, model = Panes(Layout(SPECS, 2), False, False, *bounds), Model()
    for k, rows in enumerate(pushes):
        low = -4 + k * step
        rows = [row for row in rows if row[1] >= low]
        add(panes, rows)
        model.rows += rows
        lows = np.arange(low, low + step)
        made = answers(panes.close(lows, lows + length))
        wanted: dict[tuple[int, int], Any] = {}
        for place, start in enumerate(lows.tolist()):
            wanted |= model.window(place, start, start + length)
        assert same(made, wanted)
        for code in range(panes.codes):
            mine = answers(panes.close_group(code, lows, lows + length))
            assert same(mine, {at: row for at, row in wanted.items() if at[1] == code})
        panes.drop(low + step)
        model.rows = [row for row in model.rows if row[1] >= low + step]
        assert panes.rows.sum() == len(model.rows)
        assert panes.alive == len({row[0] for row in model.rows})
        if restart:
            panes = again(panes, Panes(Layout(SPECS, 2), False))


def again(panes: Panes, empty: Panes) -> Panes:
    parts = panes.to_parts()
    empty.fill(parts)
    assert empty.to_parts() == parts
    return empty


@given(PUSHES, BOUNDS)
def test_single_buckets_and_partials_of_partials(
    pushes: list[list[Row]], bounds: tuple[int, int]
) -> None:
    whole, merged, model = (
        Panes(Layout(SPECS, 2), True, False, *bounds),
        Panes(Layout(SPECS, 2)),
        Model(),
    )
    for rows in pushes:
        part = Panes(Layout(SPECS, 2))
        add(part, rows)
        made = part.close(part.buckets, part.buckets)
        merged.merge(made, made.codes, part.buckets[made.places])
        add(whole, rows)
        model.rows += rows
    for panes in (whole, merged):
        at = panes.buckets
        wanted: dict[tuple[int, int], Any] = {}
        for place, bucket in enumerate(at.tolist()):
            wanted |= model.window(place, bucket, bucket + 1)
        assert same(answers(panes.close(at, at + 1)), wanted)


@given(PUSHES, st.booleans())
def test_endless_windows(pushes: list[list[Row]], restart: bool) -> None:
    panes, model = Panes(Layout(SPECS, 2), False, True), Model()
    for k, rows in enumerate(pushes):
        add(panes, rows)
        model.rows += rows
        stop = np.array([-3 + 2 * k])
        wanted = model.window(0, -(10**9), int(stop[0]))
        assert same(answers(panes.close(stop, stop)), wanted)
        panes.seal(int(stop[0]))
        assert (panes.buckets >= stop[0]).all()
        if restart:
            panes = again(panes, Panes(Layout(SPECS, 2), False, True))


@given(PUSHES, st.integers(0, 5))
def test_dead_groups_are_forgotten_and_counts_can_be_added(
    pushes: list[list[Row]], cut: int
) -> None:
    panes, model = Panes(Layout(SPECS[:5], 2), False), Model()
    for k, rows in enumerate(pushes):
        rows = [(code, bucket, x, True, i) for code, bucket, x, _, i in rows if bucket >= cut * k]
        add(panes, rows)
        model.rows += rows
    panes.close(np.array([0]), np.array([3]))
    for spec in SPECS[5:6]:
        panes.count_input(spec[2])
    cut = max(cut, 0)
    panes.drop(cut)
    kept = [row for row in model.rows if row[1] >= cut]
    new = panes.compact(6)
    alive = sorted({row[0] for row in kept})
    assert new.tolist() == [alive.index(k) if k in alive else -1 for k in range(6)]
    assert panes.codes == panes.alive == len(alive)
    made = panes.close(np.array([cut]), np.array([99]))
    model.rows = [(alive.index(row[0]), *row[1:]) for row in kept]
    wanted = model.window(0, cut, 99)
    assert made.codes.tolist() == [code for _, code in wanted]
    assert made.counts(5).tolist() == [row[5] for row in wanted.values()]
    sums = np.empty(len(made))
    made.quotients(1, np.ones(len(made), np.int64), sums)
    assert [repr(x) for x in sums.tolist()] == [repr(row[1]) for row in wanted.values()]


def test_a_dozen_thousand_groups_in_one_bucket_and_one_in_as_many() -> None:
    n = 12_000
    layout = Layout(SPECS[:2], 1)
    for codes, buckets in ((np.arange(n), np.zeros(n, int)), (np.zeros(n, int), np.arange(n))):
        panes = Panes(layout)
        shuffled = np.random.default_rng(0).permutation(n)
        x = np.arange(n) + 0.5
        for part in np.array_split(shuffled, 7):
            panes.add(codes[part], buckets[part], [x[part]], [None])
            panes.add(codes[part], buckets[part], [x[part]], [None])
        made = panes.close(panes.buckets, panes.buckets)
        sums = np.empty(n)
        made.quotients(1, made.counts(0), sums)
        order = np.lexsort((made.codes, made.places))
        assert sums[order].tolist() == x.tolist()


@pytest.mark.parametrize("harm", range(8))
def test_parts_of_the_wrong_length_are_refused(harm: int) -> None:
    parts = _some_panes().to_parts()
    parts[harm] = parts[harm][:-1] or b"?"
    with pytest.raises(ValueError):  # noqa: PT011 (which one it is tells nothing)
        Panes(Layout(SPECS, 2)).fill(parts)


@pytest.mark.parametrize(
    ("part", "at", "message"),
    [(4, 0, "group"), (4, 16, "nowhere"), (5, 0, "group"), (6, 536, "sum")],
)
def test_parts_that_point_elsewhere_are_refused(part: int, at: int, message: str) -> None:
    parts = _some_panes().to_parts()
    assert len(parts[part]) > at + 4
    parts[part] = parts[part][:at] + b"\xff\xff\xff\x7f" + parts[part][at + 4 :]
    with pytest.raises(ValueError, match=message):
        Panes(Layout(SPECS, 2)).fill(parts)


def _some_panes() -> Panes:
    panes = Panes(Layout(SPECS, 2), True, False, 1, 1)
    add(panes, [(0, 0, 1.0, True, 1), (0, 0, 1e300, True, 1), (0, 0, 1e-300, True, 2)])
    add(panes, [(1, 3, 2.0, False, 3)])
    return panes
