"""Texts and bytes in windows by number on a store: codes in records, and the values in memory."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from mta import agg
from mta.stored_values import CodesByPane
from mta.stores import MemoryStore
from stored_rows import answered, plain, rows_of, spec_of
from test_stored_buckets_recovery import (
    answered_over_a_crash,
    answered_through_failures,
    failing_store,
)
from test_stored_rolling_users import JOINED

FOLDED = {"f": agg.first("s"), "l": agg.last("b"), "a": agg.arg_max("s", by="i"), "n": agg.count()}
EVERY = {
    **FOLDED, "m": agg.mode("s"), "o": agg.most_common("s", 2), "c": agg.count_distinct("b"),
    "all": agg.list("s"), "h": agg.approx_count_distinct("s", lg_k=4),
    "t": agg.approx_top_k("s", 2, max_items=6), "j": JOINED("s"),
}  # fmt: skip


def texts(n, seed=0, **options):
    """Some are there for ever, most for a short time; some are null."""
    rows, rng = rows_of(n, seed, **options), np.random.default_rng(seed)
    rows["i"] //= 2**4
    numbers = np.where(rng.random(n) < 0.3, rng.integers(0, 5, n), np.arange(n) // 6)
    rows["s"] = np.array([f"v{v}" if v % 7 else None for v in numbers], object)
    rows["b"] = np.array([b"%d" % (v % 90) for v in numbers], object)
    return rows


@pytest.mark.parametrize(("aggs", "plan"), [(FOLDED, "2LA"), (FOLDED, "1W"), (EVERY, "1W")])
@pytest.mark.parametrize("delay", [0, 100])
def test_groups_that_come_and_go(aggs, plan, delay):
    """Rows far behind are put in place."""
    rows, spec = texts(900, seed=5, jitter=60), spec_of(aggs, delay=delay)
    want = answered(spec.stream(), rows, 300, told=plain)
    with spec.stream(memory=9000, store="memory:", plan=plan) as op:
        assert answered(op, rows, 90, told=plain) == want
        assert op.stats().read > 10


ROWS = texts(900, 3, groups=4)
SPECS = {"2LA": spec_of(FOLDED, length=160), "1W": spec_of(EVERY, length=160)}
WANT = {plan: answered(spec.stream(), ROWS, 100, told=plain) for plan, spec in SPECS.items()}


@given(
    st.sampled_from(sorted(SPECS)), st.sets(st.integers(3, 900), max_size=80),
    st.integers(60, 700), st.integers(9000, 14_000),
)  # fmt: skip
@settings(max_examples=15)
def test_a_store_that_fails_costs_no_row_and_no_answer(plan, failing, step, memory):
    op = SPECS[plan].stream(memory=memory, store=failing_store(failing), plan=plan)
    assert answered_through_failures(op, ROWS, step, plain) == WANT[plan]


@given(st.sampled_from(sorted(SPECS)), st.integers(40, 500), st.integers(1, 4), st.data())
@settings(max_examples=15)
def test_after_a_crash_it_goes_on_from_the_last_flush(plan, step, every, draws):
    got = answered_over_a_crash(
        lambda store: SPECS[plan].stream(memory=9000, store=store, plan=plan),
        ROWS, step, every, draws, plain,
    )  # fmt: skip
    assert got == WANT[plan]


@pytest.mark.parametrize(("aggs", "plan"), [(FOLDED, "2LA"), (EVERY, "1W")])
def test_values_are_known_as_long_as_a_window_has_them(aggs, plan):
    """In answers of the type of the column, also of categories; and after a crash."""
    spec = mta.hopping("300i", slide="100i", on="t").watermark("0i")
    spec = spec.agg(**{name: a for name, a in aggs.items() if name != "j"})
    want, store = spec.stream(), MemoryStore()
    op = spec.stream(memory="64KB", store=store, plan=plan)
    for at in range(0, 9_000, 250):
        t = np.arange(at, at + 250)
        some = {"t": t, "i": t % 17, "s": [f"v{v}" for v in t], "b": [b"%d" % v for v in t // 2]}
        table = pl.DataFrame(some).with_columns(pl.col("s").cast(pl.Categorical))
        assert op.push(table).equals(want.push(table))
        assert all(len(c.coded.known) < 2_000 for c in op.open.values.codes.values())
        if at % 3_000 == 1_000:
            op.flush()
            op = spec.stream(memory="64KB", store=store, plan=plan)
    assert op.finish().equals(want.finish())


def test_damaged_values_are_refused():
    columns = CodesByPane()
    table = mta.frames.open_frame(pl.DataFrame({"s": ["a", None, "b"]}))
    panes = np.array([3, 4, 5])
    assert columns.take(table.column("s"), table, panes).tolist() == [0, -1, 1]
    codes, last, *coded = columns.to_parts(table)
    for wrong in ([codes[:-8], last], [codes, last + last], [codes + codes, last + last]):
        with pytest.raises(ValueError, match="do not fit"):
            CodesByPane().fill([*wrong, *coded], table)
