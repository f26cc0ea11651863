"""Texts and bytes in windows larger than memory: as codes in blocks; the values are in memory."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from mta import agg
from mta.errors import SnapshotError, SpecError
from mta.stores import MemoryStore
from strategies import data, engine_spec, rollings
from test_stored_rolling import BLOCKS, retried, same_as_in_memory, small
from test_stored_rolling_users import JOINED, goes_on, loses_nothing
from test_stream import in_time
from test_stream_disorder import KINDS

TAKEN = ("first", "last", "arg_min", "arg_max", "list", "approx_top_k")


def specs(draws):
    """Answers that are values of any type."""
    made = engine_spec(draws.draw(rollings(TAKEN)))
    return replace(made, every=draws.draw(st.sampled_from([None, None, 2, 3])))


@given(data(max_size=40), st.sampled_from(KINDS), BLOCKS, st.data())
def test_values_of_any_type(sample, kind, block, draws):
    same_as_in_memory(specs(draws), sample, kind, block, draws)


@settings(max_examples=40)
@given(data(max_size=30, keys=("string", "string")), st.sets(st.integers(1, 60)), st.data())
def test_a_store_that_fails(sample, failing, draws):
    loses_nothing(specs(draws), in_time(sample), failing, draws)


@settings(max_examples=40)
@given(
    data(max_size=30, keys=("string", "category")),
    st.sampled_from(["pandas-nullable", "polars", "pyarrow"]),
    st.data(),
)
def test_a_crash_at_any_time(sample, kind, draws):
    assume(sample.rows)
    goes_on(specs(draws), in_time(sample), kind, draws)


def test_texts_are_known_as_long_as_a_window_has_them():
    """By one window or several, that go on after a crash."""
    rng = np.random.default_rng(3)
    aggs = {"n": agg.approx_count_distinct("s"), "j": JOINED("s"), "f": agg.first("s")}
    specs = [mta.rolling(f"{n}i", on="t", every=3).agg(**aggs) for n in (50, 300)]
    memory = [spec.stream() for spec in specs]
    stores = MemoryStore(), MemoryStore()

    def opened():
        both = mta.together(*specs).stream(memory=16384, store=stores[1], block=250)
        return small(specs[1], stores[0]), both

    one, both = opened()
    for start in range(0, 6000, 125):
        texts = [f"v{v}" if v % 7 else None for v in rng.integers(start, start + 900, 125)]
        rows = pd.DataFrame({"t": np.arange(start, start + 125), "s": texts})
        want = [op.push(rows) for op in memory]
        assert one.push(rows).equals(want[1])
        assert all(got.equals(mine) for got, mine in zip(both.push(rows), want, strict=True))
        if start % 3000 == 1500:
            one.flush(), both.flush()
            one, both = opened()
        for op, stream in ((one, one), (both, both.carrier)):
            assert len(stream.coders.known_values()[0][1]) < 1024 + 2 * 1400
            assert all(len(t.coded.columns["s"].known) < 1024 + 2 * 1400 for t in op._tracks())
        assert both.stats().memory < 1_000_000
    one.flush(), both.flush()
    one, both = opened()
    want = [op.finish() for op in memory]
    assert one.finish().equals(want[1])
    assert all(got.equals(mine) for got, mine in zip(both.finish(), want, strict=True))


def test_values_are_forgotten_though_the_store_fails_now_and_then():
    store = FailingStore(before=set(range(40, 4000, 7)))
    spec = mta.rolling(100).agg(f=agg.first("s"), n=agg.approx_count_distinct("s"))
    memory, op = spec.stream(), retried(small, spec, store, plain=True)
    for start in range(0, 12_000, 250):
        rows = {"s": np.array([f"v{v}" for v in range(start, start + 250)], object)}
        want = memory.push(rows)
        got = retried(op.push, rows, plain=True)
        assert got["f"].tolist() == want["f"].tolist()
        assert got["n"].tolist() == want["n"].tolist()
    (track,) = op._tracks()
    assert len(track.coded.columns["s"].known) < 1024 + 2 * 600
    assert len(op.coders.known_values()[0][1]) < 1024 + 2 * 600


def test_what_is_neither_text_nor_bytes_is_refused():
    rolling = mta.rolling(3)
    op = rolling.agg(f=agg.first("s")).stream(memory="1MB")
    with pytest.raises(SpecError, match=r"column 's'.*not Decimal"):
        op.push({"s": np.array(["a", Decimal(1), None], object)})
    assert op.push({"s": np.array(["a", "b", None], object)})["f"].tolist() == ["a"] * 3
    with pytest.raises(SpecError, match=r"column 'x'.*complex"):
        rolling.agg(f=agg.last("x")).stream(memory="1MB").push({"x": np.array([1j])})


def test_damaged_values_are_refused():
    store = MemoryStore()
    spec = mta.rolling(9).agg(f=agg.first("s"))
    op = small(spec, store)
    op.push({"s": np.array([f"v{i}" for i in range(40)], object)})
    (track,) = op._tracks()
    count, name, following, codes, values = track.coded.to_parts(track.rows.frame)
    for wrong in ([codes[:-8], values], [b"x" + codes[1:], values], [codes, values[:-9]]):
        with pytest.raises((ValueError, SnapshotError)):
            type(track.coded)().fill(iter([count, name, following, *wrong]), track.rows.frame)
