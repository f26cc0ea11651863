"""Sketches as monoids and over windows: laws, error bounds, nulls, chunks, bytes of others."""

from __future__ import annotations

import math
from collections import Counter as Tally
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta._bounds import GivenBounds
from mta._kernel import KEPT, Counter, Lists, slide
from mta.sketches import Frequent, Hll, Quantiles, Theta, make_sketch_kernel

lib = pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")

MEDIAN = [("quantile", 0.5)]
ESTIMATE = [("estimate", None)]
BYTES = [("bytes", None)]


def windows(rng: np.random.Generator, n: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges that rest, run and jump; some windows empty, some of one row, some overlapping none."""
    steps = rng.integers(0, 4, size=n) * (rng.random(n) < 0.6)
    hi = np.cumsum(steps + (rng.random(n) < 0.02) * rng.integers(0, 3 * width, size=n))
    lo = np.maximum.accumulate(np.maximum(0, hi - rng.integers(0, width + 1, size=n)))
    return lo, np.maximum(lo, hi)


def arrays(wanted, n, dtype=np.float64):
    kinds = {"quantile": dtype, "estimate": np.int64}
    return [np.empty(n, kinds.get(what, object)) for what, _ in wanted]


def run(sketch, wanted, cells, lo, hi, valid=None, items=None, cuts=(), resumed=False):
    """The kernel's answers; the windows in chunks cut at `cuts`, rows as late as can be."""
    kernel = make_sketch_kernel(sketch, Counter([]), wanted, items)
    parts = []
    edges = [0, *sorted(min(c, len(lo)) for c in cuts), len(lo)]
    for start, stop in pairwise(edges):
        if start == stop:
            continue
        if resumed:
            kernel, old = make_sketch_kernel(sketch, Counter([]), wanted, items), kernel
            kernel.resume(old.marks())
        first, last = max(0, lo[start] - KEPT), hi[stop - 1]
        kernel.attach(
            [cells[first:last]], None if valid is None else valid[first:last].view(np.uint8), first
        )
        made = arrays(wanted, stop - start, float if sketch.source == "float" else int)
        kernel.answer_to(made)
        assert (
            slide(GivenBounds(lo[start:stop].copy(), hi[start:stop].copy()), [], [kernel]) is None
        )
        parts.append(made)
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


CASES = {
    "quantiles": (Quantiles(20), MEDIAN + BYTES),
    "ints": (Quantiles(20, "int"), MEDIAN + BYTES),
    "hll": (Hll(7), ESTIMATE + BYTES),
    "hll of floats": (Hll(12, "float"), ESTIMATE + BYTES),
    "theta": (Theta(5), ESTIMATE + BYTES),
    "frequent": (Frequent(8), [("items", 3), ("counts", 3), *BYTES]),
    "frequent floats": (Frequent(8, "float"), [("items", 3), *BYTES]),
    "texts": (Hll(6, "text"), ESTIMATE + BYTES),
    "frequent texts": (Frequent(8, "text"), [("items", 3), *BYTES]),
}
TEXTS = [f"text {i} é" for i in range(100)]


def column(sketch, rng: np.random.Generator, n: int) -> tuple[np.ndarray, list[str] | None]:
    """Cells with many repetitions, and what they stand for."""
    codes = np.minimum(rng.zipf(1.2, size=n), 100) - 1
    if sketch.source == "text":
        return codes, TEXTS
    if sketch.source == "float":
        x = codes / 7.0
        x[rng.random(n) < 0.05] = np.nan
        return x.view(np.int64), None
    return codes * 3, None


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    width=st.sampled_from([1, 5, 70, 700]),
    cuts=st.lists(st.integers(0, 300), max_size=8),
    resumed=st.booleans(),
)
def test_answers_do_not_depend_on_chunks(case, seed, width, cuts, resumed):
    rng = np.random.default_rng(seed)
    sketch, wanted = CASES[case]
    lo, hi = windows(rng, 300, width)
    cells, items = column(sketch, rng, int(hi[-1]) + 1)
    valid = rng.random(len(cells)) < 0.8 if rng.random() < 0.5 else None
    whole = run(sketch, wanted, cells, lo, hi, valid, items)
    parts = run(sketch, wanted, cells, lo, hi, valid, items, cuts, resumed)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", CASES)
def test_a_key_is_answered_as_if_it_were_alone(case):
    """Windows that hold nothing of those before, as where a key begins."""
    rng = np.random.default_rng(12)
    sketch, wanted = CASES[case]
    cells, items = column(sketch, rng, 1000)
    hi = np.arange(300, 1000)
    lo = np.maximum(300, hi - 150)
    alone = run(sketch, wanted, cells[300:], lo - 300, hi - 300, items=items)
    before = np.arange(1, 300)
    both = run(
        sketch,
        wanted,
        cells,
        np.r_[before // 2, lo],
        np.r_[before, hi],
        items=items,
        cuts=[40, 400],
    )
    for a, b in zip(alone, both, strict=True):
        np.testing.assert_array_equal(a, b[len(before) :])


def test_a_row_is_added_a_few_times_whatever_the_width():
    taken = 0

    class Counting(Quantiles):
        def extend_by(self, partial, values):
            nonlocal taken
            taken += len(values)
            return super().extend_by(partial, values)

    n = 60_000
    for width in (64 * 15, 64 * 255, 50_000):
        taken = 0
        hi = np.arange(64, n, 64)
        run(Counting(8), MEDIAN, np.arange(n), np.maximum(0, hi - width), hi)
        assert taken <= n * (3 + math.log(width / 64, 16))


# ---- quantiles -------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["float", "int", "uint"])
@given(seed=st.integers(0, 2**32), q=st.floats(0, 1), width=st.integers(1, 200))
def test_quantiles_of_up_to_k_values_are_exact(source, seed, q, width):
    rng = np.random.default_rng(seed)
    lo, hi = windows(rng, 120, width)
    n = int(hi[-1]) + 1
    x = rng.integers(0, 2**64, n, np.uint64).view(
        {"float": "f8", "int": "i8", "uint": "u8"}[source]
    )
    valid = rng.random(n) < 0.8
    (got,) = run(Quantiles(200, source), [("quantile", q)], x.view("i8"), lo, hi, valid)
    got = got.view(x.dtype)
    for i, (a, b) in enumerate(zip(lo, hi, strict=True)):
        inside = np.sort(x[a:b][valid[a:b]])
        inside = inside[inside == inside]  # NaN has no rank
        if len(inside):
            assert got[i] == inside[max(1, math.ceil(q * len(inside) - 1e-9)) - 1]
        elif source == "float":
            assert np.isnan(got[i])


@pytest.mark.parametrize("k", [8, 50, 200])
@pytest.mark.parametrize("width", [300, 5000])
def test_quantiles_of_many_values_keep_to_the_bound(k, width):
    rng = np.random.default_rng(k + width)
    n = width + 6000
    x = rng.lognormal(sigma=3, size=n)
    hi = np.arange(7, n, 97)
    lo = np.maximum(0, hi - width)
    ranks = (0.01, 0.1, 0.5, 0.9, 0.99)
    got = run(Quantiles(k), [("quantile", q) for q in ranks], x.view("i8"), lo, hi)
    errors = []
    for i, (a, b) in enumerate(zip(lo, hi, strict=True)):
        inside = np.sort(x[a:b])
        place = np.searchsorted(inside, [column[i] for column in got]) + 1
        errors.append(np.abs(place - np.ceil(np.array(ranks) * (b - a))) / (b - a))
    error = lib.kll_doubles_sketch.get_normalized_rank_error(k, False)  # with 99 %
    assert np.mean(np.array(errors) > error) <= 0.01
    assert np.max(errors) < 2 * error


def test_the_median_of_the_bytes_is_the_median():
    rng = np.random.default_rng(3)
    x = rng.normal(size=3000)
    hi = np.arange(1, 3000, 37)
    median, data = run(Quantiles(30), MEDIAN + BYTES, x.view("i8"), np.maximum(0, hi - 1000), hi)
    for value, sketch in zip(median, data, strict=True):
        assert lib.kll_doubles_sketch.deserialize(sketch).get_quantile(0.5, True) == value


# ---- distinct --------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [Hll(4), Hll(7), Hll(8), Hll(12), Theta(5), Theta(10)], ids=repr)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), width=st.sampled_from([3, 60, 600, 3000]))
def test_the_estimate_is_a_function_of_the_set_of_values(sketch, seed, width):
    rng = np.random.default_rng(seed)
    lo, hi = windows(rng, 40, width)
    cells = rng.integers(0, 10 * width, int(hi[-1]) + 1)
    (got,) = run(sketch, ESTIMATE, cells, lo, hi)
    for answer, a, b in zip(got, lo, hi, strict=True):
        inside = list(set(cells[a:b].tolist()))
        rng.shuffle(inside)
        half = len(inside) // 3
        parts = [sketch.extend(sketch.zero(), part) for part in (inside[:half], inside[half:])]
        assert sketch.lower(sketch.combine(*parts), ESTIMATE) == [answer]


@pytest.mark.parametrize("sketch", [Hll(8), Hll(12), Hll(14), Theta(8), Theta(12)], ids=repr)
def test_distinct_counts_keep_to_the_bound(sketch):
    rng = np.random.default_rng(sketch.lg_k)
    n = 42_000
    cells = rng.integers(0, 2**40, n) // 7 * 7
    hi = np.arange(500, n, 1031)
    lo = np.maximum(0, hi - rng.integers(1, 30_000, len(hi)))
    lo = np.maximum.accumulate(lo)
    (got,) = run(sketch, ESTIMATE, cells, lo, hi)
    exact = np.array([len(np.unique(cells[a:b])) for a, b in zip(lo, hi, strict=True)])
    if isinstance(sketch, Hll):
        bound = lib.hll_sketch.get_rel_err(True, True, sketch.lg_k, 1)
        assert abs(bound) == pytest.approx(1.04 / 2 ** (sketch.lg_k / 2), rel=0.12)
    else:
        bound = 1 / math.sqrt(2**sketch.lg_k - 1)
    errors = np.abs(got - exact) / exact / abs(bound)
    assert errors.max() < 4
    assert np.mean(errors > 2) <= 0.15  # neighbouring windows err alike
    few = exact <= 2 ** (sketch.lg_k - 4)
    assert (got[few] == exact[few]).all()


def test_what_counts_as_one_value():
    x = np.array([0.0, -0.0, np.nan, -np.nan, 1.0, 2.0**60, np.inf])
    texts = ["", "a", "a", "é", "e\u0301"]  # an empty text is not counted
    for family in (Hll, Theta):
        for source, cells, distinct in (("float", x.view("i8"), 5), ("text", np.arange(5), 3)):
            window = np.zeros(1, np.int64), np.array([len(cells)])
            items = texts if source == "text" else None
            assert run(family(source=source), ESTIMATE, cells, *window, items=items) == [[distinct]]


# ---- heavy hitters ---------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    k=st.integers(1, 6),
    source=st.sampled_from(["int", "float", "uint"]),
)
def test_top_k_of_few_values_is_exact(seed, k, source):
    rng = np.random.default_rng(seed)
    lo, hi = windows(rng, 150, 120)
    values = np.array([0.0, -0.0, -2.5, -7.0, 3.0, 1e300, np.nan, -np.nan])
    if source != "float":
        values = np.array([0, -3, 4, 2**62, 5, -1]).view({"int": "i8", "uint": "u8"}[source])
    x = rng.choice(values, int(hi[-1]) + 1)
    valid = rng.random(len(x)) < 0.9
    items, counts = run(
        Frequent(20, source), [("items", k), ("counts", k)], x.view("i8"), lo, hi, valid
    )
    same = x + x.dtype.type(0)  # no -0.0, and of all NaN one
    same[np.isnan(same)] = np.nan if source == "float" else 0
    for i, (a, b) in enumerate(zip(lo, hi, strict=True)):
        tally = Tally(same[a:b][valid[a:b]].view("i8").tolist())
        best = sorted(
            tally.items(),
            key=lambda e: (-e[1], np.isnan(v := np.int64(e[0]).view(x.dtype)), v),
        )[:k]
        assert list(zip(items[i], counts[i], strict=True)) == best


def test_top_k_of_many_values_keeps_to_the_bound():
    rng = np.random.default_rng(8)
    n, width = 30_000, 12_000
    x = rng.zipf(1.3, n) % 100_000
    hi = np.arange(width, n, 700)
    sketch = Frequent(100)
    items, counts = run(sketch, [("items", 10), ("counts", 10)], x, hi - width, hi)
    error = lib.frequent_items_sketch.get_epsilon_for_lg_size(sketch.lg_size) * width
    assert error <= 2.7 * width / 100
    for i, b in enumerate(hi):
        tally = Tally(x[b - width : b].tolist())
        assert counts[i] == sorted(counts[i], reverse=True)
        for item, count in zip(items[i], counts[i], strict=True):
            assert tally[item] <= count <= tally[item] + error
        sure = [item for item, count in tally.most_common(10) if count > 2 * error]
        assert sure and set(sure) <= set(items[i])


@pytest.mark.parametrize("case", ["frequent", "frequent floats", "frequent texts"])
def test_lists_may_go_to_lists(case):
    """As the first row of the window that holds each item."""
    rng = np.random.default_rng(2)
    sketch, _ = CASES[case]
    lo, hi = windows(rng, 200, 40)
    cells, items = column(sketch, rng, int(hi[-1]) + 1)
    (objects,) = run(sketch, [("items", 4)], cells, lo, hi, items=items)
    kernel = make_sketch_kernel(sketch, Counter([]), [("items", 4)], items)
    kernel.attach([cells], None, 0)
    lists = Lists(len(lo))
    kernel.answer_to([lists])
    slide(GivenBounds(lo, hi), [], [kernel])
    assert lists.lengths.tolist() == [len(x) for x in objects]
    ends = np.cumsum(lists.lengths)
    values = sketch.values(cells, items)
    for rows, wanted, a, b in zip(np.split(lists.items(), ends[:-1]), objects, lo, hi, strict=True):
        assert rows.tolist() == [values.index(item, a, b) for item in wanted]


def test_what_a_sketch_has_dropped_counts_after_a_merge():
    """A sketch that kept no item is no empty one: its share of the error has to be passed on."""
    sketch = Frequent(6)
    for n in range(20, 400):
        dropped = sketch.extend(sketch.zero(), range(n))
        if dropped.is_empty():
            break
    assert dropped.is_empty() and dropped.total_weight == n
    some = sketch.extend(sketch.zero(), [3] * 1000)
    for both in (sketch.combine(some, dropped), sketch.combine(dropped, some)):
        assert both.total_weight == 1000 + n
        assert sketch.lower(both, [("items", 1), ("counts", 1)])[0] == [3]
        assert both.get_lower_bound(3) <= 1001 <= both.get_upper_bound(3)


# ---- monoids ---------------------------------------------------------------------------------

FAMILIES = [Quantiles(50), Quantiles(50, "int"), Hll(9), Theta(6), Frequent(30)]


@pytest.mark.parametrize("sketch", FAMILIES, ids=repr)
@given(seed=st.integers(0, 2**32), sizes=st.tuples(*[st.integers(0, 1500)] * 3))
@settings(max_examples=25)
def test_combine_has_a_zero_and_changes_nothing(sketch, seed, sizes):
    rng = np.random.default_rng(seed)
    values = [rng.integers(0, 2000, n).tolist() for n in sizes]
    a, b, c = (sketch.extend(sketch.zero(i), sketch.wrap(v)) for i, v in enumerate(values))
    before = [sketch.to_bytes(p) for p in (a, b, c)]
    ab = sketch.combine(a, b)
    left, right = sketch.combine(ab, c), sketch.combine(a, sketch.combine(b, c))
    assert [sketch.to_bytes(p) for p in (a, b, c)] == before
    n = {"quantiles": lambda p: p.n, "frequent items": lambda p: p.total_weight}
    if sketch.family == "frequent items" and max(sizes) > 30:
        pass  # of two sketches that kept no item the library loses the number of one
    elif sketch.family in n:
        assert n[sketch.family](left) == n[sketch.family](right) == sum(sizes)
    else:
        ways = (left, right, sketch.combine(c, sketch.combine(b, a)))
        assert len({sketch.lower(p, ESTIMATE)[0] for p in ways}) == 1
    for side in (sketch.combine(sketch.zero(), a), sketch.combine(a, sketch.zero())):
        if sketch.family in n:
            assert n[sketch.family](side) == sizes[0]
        else:
            assert sketch.lower(side, ESTIMATE) == sketch.lower(sketch.combine(a, a), ESTIMATE)
    again = sketch.from_bytes(before[0])
    everything = [("items", None)] if sketch.family == "frequent items" else BYTES
    assert sketch.lower(again, everything) == sketch.lower(a, everything)


@pytest.mark.parametrize("sketch", FAMILIES, ids=repr)
def test_sketches_of_rows_merge_over_windows(sketch):
    """Windows over a column of sketches: what the windows over all their rows would say."""
    rng = np.random.default_rng(6)
    rows = rng.integers(0, 3000, (60, 100)).astype(float if sketch.source == "float" else int)
    rows[:, :30] = 1000
    data = [
        sketch.to_bytes(sketch.extend(sketch.zero(i), sketch.wrap(r.tolist())))
        for i, r in enumerate(rows)
    ]
    hi = np.arange(1, 61)
    lo = np.maximum(0, hi - 23)
    merging = type(sketch)(**{**sketch.__dict__, "merge": True})
    wanted = [("items", 1), ("estimate", None), ("quantile", 0.2)]
    wanted = [w for w in wanted if w[0] in sketch.answers]
    (got,) = run(merging, wanted, np.arange(60), lo, hi, items=data)
    (flat,) = run(sketch, wanted, rows.reshape(-1).view("i8"), 100 * lo, 100 * hi)
    if sketch.family == "quantiles":
        np.testing.assert_allclose(got.astype(float), flat.astype(float), rtol=0.2)
    else:
        np.testing.assert_array_equal(got, flat)
