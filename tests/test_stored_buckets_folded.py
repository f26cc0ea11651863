"""Windows on a store, of what can't be taken out of a total: the bits of those in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta._folds import Fold, PlacedKernel
from mta._kernel import Counter
from mta.errors import SnapshotError, StoreError
from mta.stores import MemoryStore
from stored_rows import answered, part, rows_of, spec_of
from strategies import aggregates, data, engine_agg
from test_bucket_stream import tells_nulls
from test_stored_buckets import KINDS, PLANS, by_end, outcome
from test_stored_buckets_recovery import (
    Recording,
    answered_over_a_crash,
    answered_through_failures,
    failing_store,
)
from test_windows import hops

FOLDED = (
    "var", "std", "product", "geometric_mean", "weighted_mean", "first", "last", "arg_min",
    "arg_max", "sum", "min",
)  # fmt: skip
# Where these cancel to nothing, what is left are roundings far below their precision.
CANCELLING = ("skew", "kurt", "cov", "corr", "slope")
EXACT = st.one_of(st.none(), st.integers(-50, 50).map(float))  # sums of their powers are exact
ANY = (
    st.sampled_from(KINDS), st.sampled_from([(), ("k0",), ("k0", "k1")]), st.sampled_from(PLANS),
    st.integers(9000, 20_000), st.integers(0, 12), st.data(),
)  # fmt: skip


@given(data(max_size=40), hops(), aggregates(FOLDED), *ANY)
@settings(max_examples=70)
def test_any_windows_have_the_bits_of_those_in_memory(
    sample, spec, aggs, kind, by, plan, memory, delay, draws
):
    """Rows in any order, cut anywhere, in any amount of memory; ties, NaN, zeros of both signs."""
    same_as_in_memory(sample, spec, aggs, kind, by, plan, memory, delay, draws)


@given(data(EXACT, max_size=40), hops(), aggregates(CANCELLING), *ANY)
@settings(max_examples=40)
def test_powers_and_pairs(sample, spec, aggs, kind, by, plan, memory, delay, draws):
    same_as_in_memory(sample, spec, aggs, kind, by, plan, memory, delay, draws)


def same_as_in_memory(sample, spec, aggs, kind, by, plan, memory, delay, draws):
    assume(tells_nulls(kind, sample.columns))
    aggs = {n: a for n, a in aggs.items() if a.fn != "count"}
    distance = {n for n, a in aggs.items() if a.fn.startswith("arg") and a.other is None}
    aggs = {n: engine_agg(a) for n, a in aggs.items() if n not in distance}
    plan = "auto" if spec.kind == "landmark" else plan
    spec = replace(spec, by=by, **({"empty": "skip"} if spec.kind == "hopping" else {}))
    spec = spec.watermark(f"{delay}i").agg(**aggs, rows=agg.count())
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=6))
    with spec.stream(memory=memory, store=MemoryStore(), plan=plan) as op:
        got = outcome(op, sample.columns, kind, cuts)
        assert got == outcome(spec.stream(), sample.columns, kind, cuts)


SOME = {"v": agg.var("x", nan="skip"), "p": agg.product("d"), "f": agg.first("x")}
EVERY = {
    **SOME, "sd": agg.std("i", ddof=0), "sk": agg.skew("d"), "ku": agg.kurt("d", min_count=6),
    "co": agg.cov("d", "i"), "cr": agg.corr("d", "e"), "sl": agg.slope("d", "e"),
    "wm": agg.weighted_mean("x", "e"), "g": agg.geometric_mean("e"), "la": agg.last("i"),
    "am": agg.arg_min("i", by="d"), "ax": agg.arg_max("x", by="d", nan="skip"),
    "fo": agg.first("i", order="d"), "lo": agg.last("i", order="d"), "hi": agg.max("x"),
    "s": agg.sum("x"),
}  # fmt: skip


def many_rows(n: int, seed: int = 0, **options):
    """`d` has few values, so that there are ties, and zeros of both signs; `e` is positive."""
    rows = rows_of(n, seed, **options)
    rows["d"] = np.where(np.arange(n) % 7, rows["i"] % 5 * 0.5, -0.0)
    rows["e"] = (rows["i"] % 11 + 1) * 0.25
    return rows


@pytest.mark.parametrize(
    ("plan", "jitter", "delay"),
    [("2LA", 12, 20), ("1W", 12, 20), ("auto", 12, 20), ("2LA", 200, 0), ("1W", 200, 0)],
)
def test_many_panes_with_groups_that_come_and_go(plan, jitter, delay):
    """Most of the window is on the store; rows far behind are put in their place."""
    n = 4_600 if plan == "auto" else 3_200  # some after it is known what rows are like
    rows, spec = many_rows(n, jitter=jitter), spec_of(EVERY, delay=delay)
    rows["k"] = rows["k"] % 12 + np.arange(n) // 200 * 12
    want = answered(spec.stream(), rows, 500)
    with spec.stream(memory=20_000, store="memory:", plan=plan) as op:
        assert answered(op, rows, 300) == want
        assert len(op.open.groups) < 150 or delay == 0  # (of rows behind, groups stay longer)
        assert op.stats().read > 200 or plan == "auto"
        assert op.open.kind == "stored"
        assert op.open.generation > 3 or delay


@pytest.mark.parametrize("plan", ["2LA", "1W"])
def test_memory_is_that_of_groups_and_blocks(plan):
    """A day of 360 panes, and as much of one pane as there is."""
    spec = mta.hopping("6h", slide="1m", on="ts", by="k").watermark("1m").agg(**SOME)
    held = []
    with spec.stream(memory="16KB", store="memory:", plan=plan) as op:
        for hour in range(15):
            t = np.arange(0, 3600, 6) + hour * 3600
            rows = {name: np.cos(t * 1.0) for name in ("x", "d")}
            op.push({"ts": t.astype("datetime64[s]"), "k": t // 6 % 5, **rows})
            held.append(op.stats().memory)
        stats = op.stats()
    assert max(held) < 1.2 * max(held[3:6])
    assert max(held) < 60_000
    assert stats.bytes_written > 5 * max(held)
    blocks = stats.records / stats.records_per_block
    assert blocks < stats.written < 4 * blocks  # what is put back is longer than a row


def test_windows_of_one_pane_need_no_store():
    rows = many_rows(2_000)
    rows["ts"] = (rows["ts"] * 60).astype("datetime64[s]")
    for spec in (mta.calendar("day", on="ts", by="k"), mta.tumbling("6h", on="ts", by="k")):
        spec = spec.watermark("1h").agg(**EVERY)
        with spec.stream(memory="16KB", store="memory:", plan="1W") as op:
            assert answered(op, rows, 333) == answered(spec.stream(), rows, 333)
            assert op.stats().written == 0


def test_a_landmark_s_windows_go_on_from_a_flush():
    rows, store, got = many_rows(2_000), MemoryStore(), {}
    spec = mta.landmark("50i", on="ts", by="k", origin=100).watermark("15i").agg(**EVERY)
    for at in range(0, 2_000, 500):
        op = spec.stream(memory=20_000, store=store)
        got |= by_end(op.push(part(rows, at, at + 500)))
        op.flush()
    fresh = spec.stream()
    want = by_end(fresh.push(rows)) | by_end(fresh.finish())
    assert got | by_end(spec.stream(memory=20_000, store=store).finish()) == want


ROWS = many_rows(1_200, 3, groups=5)
SPEC = spec_of(SOME, length=160)
WANT = answered(SPEC.stream(), ROWS, 100)


@given(
    st.sampled_from(PLANS), st.sets(st.integers(3, 600), max_size=80), st.integers(60, 700),
    st.integers(6000, 12_000),
)  # fmt: skip
@settings(max_examples=15)
def test_a_store_that_fails_costs_no_row_and_no_answer(plan, failing, step, memory):
    op = SPEC.stream(memory=memory, store=failing_store(failing), plan=plan)
    assert answered_through_failures(op, ROWS, step) == WANT


@given(st.sampled_from(PLANS), st.integers(40, 500), st.integers(1, 4), st.data())
@settings(max_examples=15)
def test_after_a_crash_it_goes_on_from_the_last_flush(plan, step, every, draws):
    got = answered_over_a_crash(
        lambda store: SPEC.stream(memory=8000, store=store, plan=plan), ROWS, step, every, draws
    )
    assert got == WANT


def test_what_is_damaged_is_not_read():
    store = MemoryStore()
    op = SPEC.stream(memory=8000, store=store, plan="2LA")
    op.push(part(ROWS, 0, 700))
    op.flush()
    whole = store._values
    assert any(b"~folds~back" in key for key in whole)
    for key, value in whole.items():
        again = Recording({**whole, key: value[:-9] + bytes([value[-9] ^ 4]) + value[-8:]})
        with pytest.raises((SnapshotError, StoreError)):
            answered(SPEC.stream(memory=8000, store=again), ROWS, 200, 700)


def test_times_and_truths_are_answered_in_their_type_and_so_are_texts():
    base = mta.hopping("8i", slide="2i", on="t").watermark("0i")
    rows = pl.DataFrame({"t": range(40), "at": range(40), "b": [True, False] * 20})
    rows = rows.with_columns(pl.col("at").cast(pl.Datetime("us")), s=pl.lit("a"))
    spec = base.agg(a=agg.last("at"), b=agg.arg_max("b", by="at"), v=agg.var("t"))
    want = spec.stream()
    with spec.stream(memory="1MB", store="memory:", plan="1W") as op:
        assert op.push(rows).equals(want.push(rows), null_equal=True)
        assert op.finish().schema == want.finish().schema
    spec = base.agg(a=agg.first("s"), b=agg.arg_min("s", by="t"))
    want = spec.stream()
    with spec.stream(memory="1MB", store="memory:", plan="2LA") as op:
        assert op.push(rows).equals(want.push(rows))
        assert op.finish().equals(want.finish())


def test_products_that_do_not_fit_are_told_of():
    spec = mta.hopping("8i", slide="2i", on="ts").watermark("0i").agg(p=agg.product("i"))
    op = spec.stream(memory="1MB", store="memory:", plan="2LA")
    with pytest.raises(OverflowError, match=r"p: the product .* number -3"):
        op.push({"ts": np.array([0, 1, 50]), "i": np.array([2**62, 4, 0])})


def test_partials_that_do_not_fit_are_refused():
    """Compiled code reads them where it is told to, so what it is told is looked at."""
    fold = Fold(PlacedKernel(Counter([]), None, "propagate", ["last", "first"]))
    parts = np.zeros((3, fold.words), np.int64)
    fold.clear(parts)
    one, codes = np.zeros(1, np.int64), np.array([0, 1, 3])
    for call in (
        lambda: fold.clear(np.zeros((1, fold.words + 1), np.int64)),
        lambda: fold.clear(parts.T[: fold.words].copy().T),
        lambda: fold.join(parts, codes, parts),
        lambda: fold.join(parts, codes[:2], parts),
        lambda: fold.walk_back(parts, codes % 3, parts, parts[:2]),
        lambda: fold.fold([one] * 3, None, np.array([0, 2]), parts[:1]),
        lambda: fold.fold([one] * 3, None, np.array([0, 1]), parts),
        lambda: fold.lower(parts, one, [np.zeros(3)] * 2),
        lambda: fold.lower(parts, codes, [np.zeros(2)] * 2),
    ):
        with pytest.raises(ValueError, match=r"part|code|edges|size|room"):
            call()
