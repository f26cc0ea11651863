"""``spec(data, threads=n)``: the answers of one thread, to the last bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import KINDS, build, read
from mta import agg
from mta._bounds import GivenBounds
from mta._fastsums import FastSumKernel
from mta._kernel import KEPT, Counter, slide
from mta._spreads import SpreadKernel
from mta._sum_blocks import CompensatedSumKernel
from mta.errors import SpecError
from strategies import data, engine_spec, rollings


@pytest.fixture
def short_stretches(monkeypatch):
    """A thread for two rows, too."""
    monkeypatch.setattr("mta.threads.LEAST_ROWS", 1)


def bits(frame):
    """Rows of text in which equal means equal in every bit."""
    return [
        {n: v.hex() if isinstance(v, float) else repr(v) for n, v in row.items()}
        for row in read(frame)
    ]


@pytest.mark.usefixtures("short_stretches")
@given(data(max_size=30), rollings(), st.sampled_from(KINDS), st.integers(2, 5))
def test_any_number_of_threads(sample, spec, kind, threads):
    run, frame = engine_spec(spec), build(kind, sample.columns)
    assert bits(run(frame, threads=threads)) == bits(run(frame))


@st.composite
def some_windows(draw):
    """Rows whose sums tell in which order they are added; windows that slide, jump and stall."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, width = draw(st.integers(1, 3000)), draw(st.sampled_from([2, 20, 300, 1500]))
    x = rng.normal(size=n) * 10.0 ** rng.integers(0, 40, n)
    x[1 : n // 2 * 2 : 2] = -np.roll(x[: n // 2 * 2 : 2], 3)  # what is left is small
    lo = np.sort(rng.integers(0, n + 1, n))
    lo = np.maximum.accumulate(np.where(rng.random(n) < 0.9, np.arange(n) - width, lo)).clip(0)
    hi = np.maximum.accumulate(np.minimum(np.maximum(lo, np.arange(n)) + 1, n))
    return x, np.minimum(lo, hi), hi


def answers(make, x, lo, hi, start, stop, marks=None):
    """The answers start..stop of a fresh kernel, and its marks after them."""
    counter = Counter([0])
    kernel = make(counter)
    first = max(int(lo[start]) - KEPT, 0) if marks is not None else 0
    counter.attach(None, first)
    counter.answer_to([(None, None)])
    kernel.attach([x[first:]], None, first)
    out = np.empty(stop - start)
    kernel.answer_to([out])
    if marks is None:
        slide(GivenBounds(lo, hi), [counter], [kernel], start, stop)
    else:
        kernel.resume(marks)
        slide(GivenBounds(lo[start:stop], hi[start:stop]), [counter], [kernel])
    return out, kernel.marks()


KERNELS = {
    "compensated": lambda counter: CompensatedSumKernel(counter, [("sum", 0)]),
    "fast": lambda counter: FastSumKernel(counter, [("sum", 0)]),
    "spread": lambda counter: SpreadKernel(counter, "float", [("std", 1)]),
}


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@given(some_windows(), st.floats(0, 1))
def test_kernels_go_on_from_the_middle(kernel, windows, part):
    """After windows that were gone past, and from marks, as if these had been answered."""
    x, lo, hi = windows
    make, n = KERNELS[kernel], len(lo)
    middle = min(int(part * n), n - 1)
    whole, end = answers(make, x, lo, hi, 0, n)
    _, marks = answers(make, x, lo, hi, 0, middle)
    np.testing.assert_array_equal(answers(make, x, lo, hi, middle, n)[0], whole[middle:])
    resumed, also_end = answers(make, x, lo, hi, middle, n, marks)
    np.testing.assert_array_equal(resumed, whole[middle:])
    assert also_end == end


def test_large_batches_by_key_and_rows():
    rng = np.random.default_rng(3)
    n = 60_000
    table = pa.table(
        {
            "t": rng.integers(0, 10_000, n),
            "k": np.where(rng.random(n) < 0.7, 0, rng.integers(0, 50, n)),
            "x": rng.normal(size=n) * 10.0 ** rng.integers(0, 20, n),
        }
    )
    spec = mta.rolling("500i", on="t", by="k").agg(
        agg.sum("x"), agg.std("x"), agg.skew("x"), agg.median("x"), agg.count_distinct("x"),
        agg.list("x"), last=agg.last("x"), fast=agg.sum("x", numerics="fast"),
    )  # fmt: skip
    one = spec(table)
    for threads in (2, 3):
        assert spec(table, threads=threads).equals(one)


@pytest.mark.usefixtures("short_stretches")
def test_the_first_row_at_fault_is_named():
    x = pd.DataFrame({"x": [1, 2, 2**62, 2**62, 1, 2**62, 2**62]})
    for threads in (1, 2, 3):
        with pytest.raises(OverflowError, match="window of row 3"):
            mta.rolling(2).agg(agg.sum("x"))(x, threads=threads)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, None])
def test_threads_are_a_number(threads):
    with pytest.raises(SpecError, match="threads: must be a whole number from 1"):
        mta.rolling(2).agg(agg.count())({"x": np.array([1])}, threads=threads)
