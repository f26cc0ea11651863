"""Windows by number on a store: memory that does not grow, I/O by the formulas, the plan."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mta
from mta import agg, costs
from mta.errors import DataError
from mta.open_plans import ENOUGH
from mta.stores import MemoryStore
from stored_rows import ALL, SUMS, rows_of, spec_of

DAY = 24 * 3600
SPEC = mta.hopping("24h", slide="10s", on="ts", by="k").watermark("20s")


def pushed(op, rate: float, hours: float, step: int = 3_000, groups: int = 30):
    """Rows at an even rate; the greatest memory held after a push, by hours of 6."""
    rng, held = np.random.default_rng(0), []
    n = int(rate * hours * 3600)
    for at in range(0, n, step):
        i = np.arange(at, min(at + step, n))
        ts = (i * (1e6 / rate)).astype("datetime64[us]")
        op.push({"ts": ts, "k": i % groups, "x": rng.standard_normal(len(i)), "i": i})
        held.append((i[-1] / rate / 3600, op.stats().memory))
    return [max(m for t, m in held if q <= t < q + 6) for q in range(0, int(hours), 6)]


@pytest.mark.parametrize("plan", ["2LA", "1W"])
@pytest.mark.parametrize("aggs", [SUMS, ALL])
def test_a_day_by_ten_seconds_in_two_blocks(plan, aggs):
    """8,640 panes: after a window what is held is what was held after six hours."""
    blocks, block = (3, 4096) if aggs is ALL else (2, 4096)
    with SPEC.agg(**aggs).stream(memory=blocks * block, store="memory:", plan=plan) as op:
        held = pushed(op, rate=0.3, hours=42)
        stats = op.stats()
    assert stats.stored > 20 * blocks
    assert stats.pooled <= 2
    assert max(held) < 1.2 * held[0]
    assert max(held) < 60_000
    assert min(stats.stored * block, stats.bytes_written) > 10 * max(held)


@pytest.mark.parametrize("plan", ["2LA", "1W"])
def test_blocks_are_written_once_and_read_once(plan):
    """Formula 3.1, counted; extremes read them once more, and write and read what is put back."""
    counted = {}
    for name, aggs in (("sums", SUMS), ("all", ALL)):
        op = SPEC.agg(**aggs).stream(memory="12KB", store=MemoryStore(), plan=plan)
        pushed(op, rate=0.3, hours=36)
        counted[name] = op.stats()
    stats = counted["sums"]
    blocks = stats.records / stats.records_per_block
    assert stats.written == pytest.approx(blocks, rel=0.02)
    assert stats.read == pytest.approx(blocks - stats.stored, rel=0.08)
    assert stats.expected == pytest.approx(2 * blocks)
    block = stats.expected_bytes / stats.expected
    assert stats.expected == pytest.approx(
        costs.requests_a_second(stats.records, block, block / stats.records_per_block), rel=0.01
    )
    more = counted["all"]
    blocks = more.records / more.records_per_block
    assert blocks < more.written < 2.2 * blocks
    assert more.read < 3.2 * blocks


def test_the_plan_is_what_takes_less_space():
    """Many rows of a group in a pane: partial aggregates; few: rows. Both numbers are told."""
    plans = {}
    for groups in (2, 5_000):
        rows = rows_of(2 * ENOUGH, groups=groups)
        rows["k"] = np.arange(2 * ENOUGH) % groups
        spec = spec_of(SUMS, length=3_000, slide=100)
        with spec.stream(memory="64KB", store="memory:") as op:
            op.push({name: column[:100] for name, column in rows.items()})
            assert "until enough rows have been seen" in op.explain()
            op.push({name: column[100:] for name, column in rows.items()})
            told = op.explain()
            assert re.search(r"2LA takes .* \(formula 2.1: .*\), 1W .* \(formula 2.2: ", told)
            plans[groups] = op.state()["plan"]
            assert op.stats().plan == plans[groups]
    assert plans == {2: "2LA", 5_000: "1W"}


def test_memory_names_blocks():
    """128 KB are the paper's two blocks of 64 KB; extremes have one for what is put back."""
    for aggs, size in ((SUMS, 65_536), (ALL, 131_072 // 3)):
        with spec_of(aggs).stream(memory="128KB", store="memory:") as op:
            assert op.place.block == size
    with spec_of().stream(memory="64KB", block=2048, store="memory:", plan="2LA") as op:
        op.push(rows_of(100))
        assert (op.place.block, op.open.shelf.pool_size) == (2048, 31)
    with spec_of({"a": agg.sum("x")}).stream(memory="1MB", store="memory:", plan="2LA") as op:
        op.push(rows_of(100))
        assert op.open.shelf.pool_size == 16


def test_batches_larger_than_memory():
    """An iterator of batches in, an iterator of answers out: together those of the batch."""
    aggs = {"n": agg.count(), "s": agg.sum("x"), "v": agg.var("x"), "last": agg.last("x")}
    spec = mta.hopping("600i", slide="200i", on="t", by="k").agg(**aggs)
    t = np.arange(5000)
    rows = {"t": t, "k": t % 7, "x": np.sin(t)}
    batches = ({name: v[i : i + 300] for name, v in rows.items()} for i in range(0, 5000, 300))
    parts = list(spec(batches, memory="64KB"))
    got = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    want = spec(rows)
    order, right = (np.lexsort((a["start"], a["k"])) for a in (got, want))
    assert all((got[name][order] == want[name][right]).all() for name in want)
    late = [{"t": np.array([v]), "k": np.array([0]), "x": np.ones(1)} for v in (5000, 1)]
    with pytest.raises(DataError, match="sort them"):
        list(spec(late, memory="64KB"))
