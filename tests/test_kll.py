"""The KLL sketch with reproducible coins: as accurate as it says, in DataSketches' bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta._kll import Kll

RANKS = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


def sketch_of(x: np.ndarray, k: int = 200, seed: int = 0, source: str = "float") -> Kll:
    sketch = Kll(k, source, seed)
    sketch.extend(x.view(np.int64))
    return sketch


def merged(parts: list[np.ndarray], k: int = 200, source: str = "float") -> Kll:
    """Merged as a tree, so that sketches of every size meet."""
    sketches = [sketch_of(x, k, seed, source) for seed, x in enumerate(parts)]
    while len(sketches) > 1:
        for a, b in zip(sketches[::2], sketches[1::2], strict=False):
            a.merge(b)
        sketches = sketches[::2]
    return sketches[0]


def floats(cells: list) -> np.ndarray:
    return np.array(cells, np.int64).view(np.float64)


def rank_errors(sketch: Kll, x: np.ndarray, ranks=RANKS) -> np.ndarray:
    """How far each answer is from a value of that rank, as a share of n."""
    x = np.sort(x)
    answers = np.array(sketch.quantiles(ranks), np.int64).view(x.dtype)
    first, last = (np.searchsorted(x, answers, side) for side in ("left", "right"))
    target = np.maximum(np.ceil(np.array(ranks) * len(x) - 1e-6), 1)
    return np.maximum(0, np.maximum(first + 1 - target, target - last)) / len(x)


def rank_error(k: int) -> float:
    """Of DataSketches' KLL sketches: exceeded with a probability of 1 %. (Its documented fit.)"""
    return 2.296 / k**0.9723


DATA = {
    "normal": lambda rng, n: rng.normal(size=n),
    "rising": lambda rng, n: np.arange(n, dtype=float),
    "falling": lambda rng, n: -np.arange(n, dtype=float),
    "saw": lambda rng, n: np.arange(n, dtype=float) % 64,  # every part the same
    "ties": lambda rng, n: rng.integers(0, 5, n).astype(float),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("k", [8, 50, 200, 1000])
def test_ranks_are_as_close_as_the_library_promises(k, data):
    rng = np.random.default_rng(k)
    for parts in (1, 2, 17, 300):
        x = DATA[data](rng, 64 * 300)
        sketch = merged(np.array_split(x, parts), k)
        assert sketch.n == len(x)
        assert sketch.num_retained <= 3 * k + 8 * 15
        assert rank_errors(sketch, x).max() <= rank_error(k)


def test_errors_of_equal_parts_cancel():
    """Coins that fall alike in every part would add up their errors to the same side."""
    rng = np.random.default_rng(5)
    part = rng.normal(size=1000)
    sides = [
        merged([part] * 256, 20).rank(int(np.float64(x).view(np.int64))) - np.mean(part <= x)
        for x in np.quantile(part, np.linspace(0.1, 0.9, 9))
    ]
    assert np.abs(sides).max() < rank_error(20)
    assert min(sides) < 0 < max(sides)


@given(
    x=st.lists(st.floats(allow_nan=True), max_size=60),
    k=st.integers(60, 300),
    q=st.floats(0, 1),
)
def test_up_to_k_values_it_is_exact(x, k, q):
    sketch = sketch_of(np.array(x, float), k)
    values = sorted((v for v in x if v == v), key=lambda v: (v, math.copysign(1, v)))
    assert sketch.n == len(values)
    if not values:
        assert sketch.quantiles([q]) == [None]
        assert math.isnan(sketch.rank(0))
        return
    place = max(1, math.ceil(q * len(values) - 1e-12 * len(values)))
    got = floats(sketch.quantiles([q]))[0]
    assert got == values[place - 1]
    cell = int(np.float64(got).view(np.int64))
    assert sketch.rank(cell) >= q - 1e-9


def test_a_rank_that_is_whole_but_for_rounding_counts_as_whole():
    sketch = sketch_of(np.arange(1.0, 101.0))
    assert floats(sketch.quantiles([0.07, 0.29, 0.57])).tolist() == [7.0, 29.0, 57.0]


@pytest.mark.parametrize(
    ("source", "dtype", "values"),
    [
        ("int", np.int64, [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
        ("uint", np.uint64, [0, 1, 2**63, 2**64 - 1]),
        ("float", np.float64, [-np.inf, -1e300, -0.0, 0.0, 5e-324, np.inf]),
    ],
)
def test_values_of_every_type_keep_their_order(source, dtype, values):
    x = np.array(values, dtype)
    for order in (x, x[::-1]):
        sketch = sketch_of(np.ascontiguousarray(order), source=source)
        ranks = (np.arange(len(x)) + 1) / len(x)
        assert np.array(sketch.quantiles(ranks), np.int64).view(dtype).tolist() == values


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 3000),
    k=st.sampled_from([8, 9, 64, 200]),
    cuts=st.lists(st.integers(0, 3000), max_size=6),
)
def test_the_same_rows_give_the_same_bytes(seed, n, k, cuts):
    x = np.random.default_rng(seed).normal(size=n)
    whole, parts = sketch_of(x, k, 3), Kll(k, "float", 3)
    for part in np.split(x, sorted(min(c, n) for c in cuts)):
        parts.extend(part.view(np.int64))
    assert parts.to_bytes() == whole.to_bytes()
    assert whole.copy().to_bytes() == whole.to_bytes()


def test_another_seed_gives_another_sketch():
    x = np.random.default_rng(0).normal(size=5000)
    assert len({sketch_of(x, 50, seed).to_bytes() for seed in range(8)}) == 8


def test_merging_leaves_the_other_as_it_was():
    rng = np.random.default_rng(1)
    a, b = sketch_of(rng.normal(size=5000)), sketch_of(rng.normal(size=7000))
    before = b.to_bytes()
    a.merge(b)
    assert b.to_bytes() == before
    assert (a.n, b.n) == (12000, 7000)
    a.merge(a)
    assert a.n == 24000
    b.merge(Kll())
    assert b.to_bytes() == before


def test_a_merge_of_different_k_is_as_accurate_as_the_lesser():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=20000), rng.normal(size=20000)
    a, b = sketch_of(x, 400), sketch_of(y, 50)
    a.merge(b)
    assert (a.k, a.min_k, a.n) == (400, 50, 40000)
    assert rank_errors(a, np.r_[x, y]).max() <= rank_error(50)
    exact = sketch_of(rng.normal(size=10), 50)
    c = sketch_of(x, 400)
    c.merge(exact)  # nothing of it was lost
    assert c.min_k == 400


@given(
    n=st.integers(0, 5000), k=st.sampled_from([8, 200]), source=st.sampled_from(["float", "int"])
)
def test_bytes_come_back_as_the_same_sketch(n, k, source):
    x = np.random.default_rng(n).normal(size=n)
    sketch = sketch_of(x, k, n, source)
    again = Kll.from_bytes(sketch.to_bytes(), source)
    assert again.to_bytes() == sketch.to_bytes()
    assert (again.n, again.k, again.num_retained) == (n, k, sketch.num_retained)
    assert again.quantiles(RANKS) == sketch.quantiles(RANKS)
    other = Kll.from_bytes(sketch.to_bytes(), source)
    for one in (again, other):
        one.extend(np.random.default_rng(1).normal(size=500).view(np.int64))
        one.merge(sketch)
    assert again.to_bytes() == other.to_bytes()  # its coins are a function of the bytes


@given(data=st.data(), n=st.sampled_from([0, 1, 2, 100, 3000]))
def test_broken_bytes_are_refused(data, n):
    whole = sketch_of(np.random.default_rng(n).normal(size=n), 50).to_bytes()
    with pytest.raises(ValueError, match="KLL sketch"):
        Kll.from_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    place = data.draw(st.integers(0, min(len(whole), 60) - 1))
    changed = bytearray(whole)
    changed[place] ^= data.draw(st.integers(1, 255))
    try:  # what is taken has to hold together
        read = Kll.from_bytes(bytes(changed))
    except (ValueError, MemoryError):
        return
    read.extend(np.zeros(500, np.int64))
    assert sum(1 for _ in read.quantiles(RANKS)) == len(RANKS)


def test_wrong_options_are_named():
    for k in (7, 65536):
        with pytest.raises(ValueError, match="k must be"):
            Kll(k)
    with pytest.raises(ValueError, match="source must be"):
        Kll(200, "text")
    with pytest.raises(ValueError, match="do not merge"):
        Kll(200, "int").merge(Kll(200, "float"))
    with pytest.raises(OverflowError, match=r"2\^63"):
        sketch_of(np.array([2**63], np.uint64), source="uint").to_bytes()


# ---- against the library ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 50, 200, 201, 1000, 60000])
@pytest.mark.parametrize("k", [8, 200])
def test_the_library_reads_ours_and_we_read_its_own(k, n):
    lib = pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")
    x = np.random.default_rng(n).normal(size=n)
    ours = sketch_of(x, k)
    theirs = lib.kll_doubles_sketch.deserialize(ours.to_bytes())
    assert (theirs.n, theirs.k, theirs.num_retained) == (n, k, ours.num_retained)
    assert theirs.serialize() == ours.to_bytes()
    own = lib.kll_doubles_sketch(k)
    own.update(x)
    read = Kll.from_bytes(own.serialize())
    assert (read.n, read.num_retained) == (n, own.num_retained)
    if n:
        some = [0.001, 0.3333, 0.5, 0.7777, 0.999]
        assert floats(ours.quantiles(some)).tolist() == theirs.get_quantiles(some, True)
        assert floats(read.quantiles(some)).tolist() == own.get_quantiles(some, True)
        theirs.merge(own)
        assert theirs.n == 2 * n
    error = lib.kll_doubles_sketch.get_normalized_rank_error(k, False)
    assert error == pytest.approx(rank_error(k), rel=0.01)


def test_we_are_as_accurate_as_the_library():
    lib = pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")
    rng = np.random.default_rng(11)
    ours, theirs = [], []
    for _ in range(40):
        x = rng.normal(size=20000)
        ours.append(rank_errors(merged(np.split(x, 40), 64), x))
        own = lib.kll_doubles_sketch(64)
        for part in np.split(x, 40):
            one = lib.kll_doubles_sketch(64)
            one.update(part)
            own.merge(one)
        theirs.append(rank_errors(Kll.from_bytes(own.serialize()), x))
    rms = [np.sqrt(np.mean(np.square(errors))) for errors in (ours, theirs)]
    assert rms[0] <= 1.3 * rms[1]
