"""count_distinct, mode and most_common against counting by hand, in any pieces and windows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sliding
from mta._kernel import Lists
from mta._tallies import TallyKernel

CODES = {
    "few": lambda rng, n: rng.integers(0, 3, n),
    "some": lambda rng, n: rng.integers(0, 1 + n // 4, n),
    "all different": lambda rng, n: rng.permutation(n) * 2**40,
    "one": lambda rng, n: np.full(n, -1),
    "two in turn": lambda rng, n: np.arange(n) % 2 + 5,
    "in turn": lambda rng, n: np.arange(n) % (2 + n // 5),
    "skewed": lambda rng, n: (rng.random(n) ** -1.0).astype(np.int64),
    "runs": lambda rng, n: np.arange(n) // 4 % 5,
    "there and back": lambda rng, n: np.abs(np.arange(n) % 14 - 7),
    "drifting": lambda rng, n: rng.integers(0, 9, n) + np.arange(n) // 7,
    "different, then one": lambda rng, n: np.where(np.arange(n) < n // 2, rng.permutation(n), 1),
    "any": lambda rng, n: rng.choice(rng.integers(-(2**63), 2**63, 6), n),
    "doubles": lambda rng, n: rng.integers(0, 9, n).astype(np.float64).view(np.int64),
}
WANTED = ["mode", ("most_common", 2), "count_distinct", ("most_common", 1), ("most_common", 12)]
ROOMS = ["i8", Lists, "i8", Lists, Lists]


def ranked(codes, rows):
    """The first row of every code, the most frequent one first."""
    firsts: dict[int, int] = {}
    for row in rows:
        firsts.setdefault(codes[row], row)
    counts = Counter(codes[row] for row in rows)
    return sorted(firsts.values(), key=lambda row: (-counts[codes[row]], row))


def expected(codes, valid, lo, hi):
    places = [ranked(codes, sliding.inside(valid, *e)) for e in zip(lo, hi, strict=True)]
    return [
        [p[0] if p else -1 for p in places],
        [p[:2] for p in places],
        [len(p) for p in places],
        [p[:1] for p in places],
        [p[:12] for p in places],
    ]


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 120),
    shape=st.sampled_from(sliding.SHAPES),
    pieces=st.integers(0, 4),
    nulls=st.sampled_from([0.0, 0.2, 0.9]),
    codes=st.sampled_from(sorted(CODES)),
)
@example(seed=1, n=120, shape="steady", pieces=0, nulls=0.0, codes="all different")
def test_values_are_counted_as_by_hand(seed, n, shape, pieces, nulls, codes):
    rng = np.random.default_rng(seed)
    x = CODES[codes](rng, n).astype(np.int64)
    valid = (rng.random(n) >= nulls).astype(np.uint8) if nulls else None
    lo, hi = sliding.windows(rng, n, shape)
    stops = sliding.stops(rng, len(lo), pieces)
    wanted = expected(x.tolist(), valid, lo.tolist(), hi.tolist())
    kernel = TallyKernel(sliding.nobody(), WANTED)
    assert sliding.answer(kernel, [x], valid, lo, hi, ROOMS, stops) == wanted
    for k in range(3):
        alone = TallyKernel(sliding.nobody(), [WANTED[k]])
        assert sliding.answer(alone, [x], valid, lo, hi, [ROOMS[k]], stops) == [wanted[k]]


class Peer:
    """Counts kept in a dict, the leaders found by sorting now and then."""

    def __init__(self, codes):
        self.codes = codes
        self.rows: dict[int, list[int]] = {}

    def enter(self, row):
        self.rows.setdefault(self.codes[row], []).append(row)

    def leave(self, row):
        rows = self.rows[self.codes[row]]
        assert rows.pop(0) == row
        if not rows:
            del self.rows[self.codes[row]]

    def best(self, k):
        ordered = sorted(self.rows.values(), key=lambda rows: (-len(rows), rows[0]))
        return [rows[0] for rows in ordered[:k]]


@pytest.mark.parametrize("codes", sorted(CODES))
@pytest.mark.parametrize("width", [300, 5000])
def test_long_windows(codes, width):
    """Trees of several levels, tables made anew many times, longer than a chunk of windows."""
    rng = np.random.default_rng(11)
    n = 3 * width + 1500
    x = CODES[codes](rng, n).astype(np.int64)
    hi = np.arange(1, n + 1)
    lo = np.maximum(hi - width, 0)
    lo[hi > 2 * width + 900] += width - 7  # the window shrinks at a stroke
    kernel = TallyKernel(sliding.nobody(), ["mode", "count_distinct", ("most_common", 9)])
    modes, counts, lists = sliding.answer(kernel, [x], None, lo, hi, ["i8", "i8", Lists], [n // 3])
    peer, front = Peer(x.tolist()), 0
    for i in range(n):
        while front < lo[i]:
            peer.leave(front)
            front += 1
        peer.enter(i)
        assert counts[i] == len(peer.rows)
        if i % 97 == 0:
            assert lists[i] == peer.best(9)
        assert modes[i] == lists[i][0]


def test_codes_are_told_apart_where_32_bits_of_a_hash_are_equal():
    """Among so many codes about ten pairs agree in the half of the hash that the table keeps."""
    x = np.random.default_rng(1).permutation(300_000)
    hi = np.array([len(x) // 2, len(x)])
    kernel = TallyKernel(sliding.nobody(), ["count_distinct"])
    (counts,) = sliding.answer(kernel, [x], None, hi * 0, hi, ["i8"])
    assert counts == hi.tolist()


@pytest.mark.parametrize("wanted", ["count_distinct", "mode"])
def test_row_numbers_beyond_32_bits(wanted):
    """The table counts rows from a base in 32 bits; windows go on across its end, or jump."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 40, 4000)
    hi = np.arange(1, len(x) + 1)
    lo = np.maximum(hi - 100, 0)
    (plain,) = sliding.answer(TallyKernel(sliding.nobody(), [wanted]), [x], None, lo, hi, ["i8"])
    for begin in (2**32 - 2000, 2**33, 2**40 + 5):
        kernel = TallyKernel(sliding.nobody(), [wanted])
        kernel.attach([x], None, 0)
        out = np.empty(1, np.int64)
        kernel.answer_to([out])
        sliding.slide_once(kernel, lo[60:61], hi[60:61])
        assert out[0] == plain[60]
        kernel.attach([x], None, begin)
        out = np.empty(len(x), np.int64)
        kernel.answer_to([out])
        sliding.slide_once(kernel, lo + begin, hi + begin)
        assert (out - (begin if wanted == "mode" else 0)).tolist() == plain


def test_what_is_not_there_is_refused():
    for wanted in ("median", ("most_common", 0), ("most_common",)):
        with pytest.raises(ValueError, match="no answer"):
            TallyKernel(sliding.nobody(), [wanted])
