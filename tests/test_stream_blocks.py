"""Checkpoints of streams: a head, and blocks of rows that are written once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mta
from kinds import build, read
from mta import agg
from mta.errors import SnapshotError
from mta.ledger import LEAST_ROWS
from mta.stream_blocks import checkpoint, stream_from_checkpoint
from strategies import data
from test_pool import EVERYTHING, rows
from test_stream import TRACK_COSTS, as_text, cut, tracks_at
from test_stream_disorder import DELAYS, on_time, only, over_time


class Store:
    """Keeps what a checkpoint says, and counts what is written."""

    def __init__(self, spec):
        self.spec, self.head, self.blocks, self.written = spec, None, {}, 0

    def save(self, op):
        told = checkpoint(op)
        for number in told.gone:
            del self.blocks[number]
        assert not self.blocks.keys() & told.blocks.keys()
        self.head, self.blocks = told.head, self.blocks | told.blocks
        self.written += sum(map(len, told.blocks.values()))

    def load(self):
        return stream_from_checkpoint(self.spec, self.head, self.blocks.__getitem__)


@given(data(max_size=20, keys=("string", "int64")), DELAYS, st.data())
def test_a_stream_goes_on_from_its_last_checkpoint(sample, delay, draws):
    spec = over_time(draws).watermark(f"{delay}i")
    ts = sample.columns["t"][1]
    want = read(
        replace(spec, progress=None)(build("pyarrow", only(sample.columns, on_time(ts, delay))))
    )
    cuts = draws.draw(st.lists(st.integers(0, len(ts)), max_size=5))
    least = draws.draw(st.sampled_from([0, 3, LEAST_ROWS]))
    with tracks_at(draws.draw(TRACK_COSTS)), pytest.MonkeyPatch.context() as patch:
        patch.setattr("mta.ledger.LEAST_ROWS", least)
        store, op, made = Store(spec), spec.stream(), []
        for start, stop in pairwise([0, *sorted(cuts), len(ts)]):
            made += read(op.push(build("pyarrow", cut(sample.columns, start, stop))))
            store.save(op)
            if draws.draw(st.booleans()):
                op = store.load()
        made += read(op.finish())
    names = [name for name, _ in spec.aggs]
    got, want = ([{n: row[n] for n in names} for row in rows] for rows in (made, want))
    assert sorted(as_text(got, "pyarrow")) == sorted(as_text(want, "pyarrow"))


@pytest.mark.parametrize("cost", [0, 3000, 60_000])
@pytest.mark.parametrize("length", ["300i", 40])
def test_every_aggregate_goes_on_to_the_last_bit(cost, length, monkeypatch):
    monkeypatch.setattr("mta.ledger.LEAST_ROWS", 200)
    frame = rows(2000, 7, disorder=20)
    plain = mta.rolling(length, on="t", by="k").agg(**EVERYTHING)
    spec = plain.watermark("20i")
    store, op, made = Store(spec), spec.stream(), []
    with tracks_at(cost):
        for start in range(0, len(frame), 90):
            made.append(op.push(frame.iloc[start : start + 90]))
            store.save(op)
            op = store.load()
    got = pd.concat([*made, op.finish()]).sort_index()
    pd.testing.assert_frame_equal(got[list(EVERYTHING)], plain(frame), check_exact=True)
    assert len(store.blocks) > 1


def steady(spec, pushes, size, keys, idle=0):
    """A store with the checkpoints of many pushes; `idle` keys have rows only at first."""
    store, op, rng = Store(spec), spec.stream(), np.random.default_rng(3)
    for push in range(pushes):
        t = push * size + np.arange(size)
        k = rng.integers(0 if push < 3 else idle, keys, size)
        op.push({"t": t, "k": k, "x": rng.normal(size=size)})
        store.save(op)
    return store, op


def test_a_row_is_written_about_once_and_blocks_go_with_their_rows():
    size, pushes = 20_000, 40
    spec = mta.rolling(f"{5 * size}i", on="t", by="k").watermark("0i").agg(s=agg.sum("x"))
    store, op = steady(spec, pushes, size, 50)
    assert store.written < 1.1 * 16 * size * pushes  # a time and a value of each
    held = sum(map(len, store.blocks.values())) + len(store.head)
    assert held < 1.3 * 16 * op.state()["rows"]
    assert 5 <= len(store.blocks) <= 8


def test_idle_keys_hold_no_block():
    size = 20_000
    spec = mta.rolling(f"{5 * size}i", on="t", by="k").watermark("0i").agg(s=agg.sum("x"))
    store, op = steady(spec, 30, size, 90, idle=60)
    assert min(block.number for block in op.keyed.ledger.blocks) > 15
    assert sum(block.rows for block in op.keyed.ledger.blocks) < 8 * size
    rows, answers = {"t": [30 * size], "k": [3], "x": [0.5]}, []
    for again in (op, store.load()):
        again.push({name: np.array(values) for name, values in rows.items()})
        answers.append(again.finish()["s"].tolist())
    assert answers[0] == answers[1] == [0.5]


def test_where_most_rows_of_blocks_are_gone_they_are_written_anew(monkeypatch):
    monkeypatch.setattr("mta.ledger.LEAST_ROWS", 100)
    spec = mta.rolling(10, on="t", by="k").watermark("0i").agg(s=agg.sum("x"))  # of rows: no time
    store, op = steady(spec, 40, 2000, 90, idle=60)
    live = op.state()["rows"]
    assert sum(block.rows for block in op.keyed.ledger.blocks) <= 1.25 * live + 2 * 2000
    assert len(op.keyed.ledger.blocks) < 10
    again = store.load()
    more = {"t": np.arange(10**6, 10**6 + 90), "k": np.arange(90), "x": np.ones(90)}
    for one, other in ((op.push(more), again.push(more)), (op.finish(), again.finish())):
        assert one["s"].tolist() == other["s"].tolist()


def test_what_does_not_belong_together_is_refused(monkeypatch):
    spec = mta.rolling("1000i", on="t", by="k").watermark("0i").agg(s=agg.sum("x"))
    monkeypatch.setattr("mta.ledger.LEAST_ROWS", 10)
    store, _ = steady(spec, 4, 60, 5)
    with pytest.raises(SnapshotError, match="needs its blocks"):
        spec.stream(store.head)
    numbers = sorted(store.blocks)
    assert len(numbers) > 1
    swapped = {numbers[0]: store.blocks[numbers[-1]], numbers[-1]: store.blocks[numbers[0]]}
    for blocks in (swapped, {n: b[:-1] for n, b in store.blocks.items()}):
        with pytest.raises(SnapshotError, match=r"damaged|bytes after"):
            stream_from_checkpoint(spec, store.head, lambda n, b=blocks: b[n])
    other = mta.rolling("1001i", on="t", by="k").watermark("0i").agg(s=agg.sum("x"))
    with pytest.raises(SnapshotError, match="another specification"):
        stream_from_checkpoint(other, store.head, store.blocks.__getitem__)


def test_rows_that_revise_are_in_the_head():
    spec = mta.rolling("100i", on="t").watermark("0i").late("revise", within="50i")
    op = spec.agg(s=agg.sum("x")).stream()
    op.push({"t": np.array([10, 5, 20]), "x": np.ones(3)})
    told = checkpoint(op)
    assert not told.blocks
    again = stream_from_checkpoint(op.spec, told.head, {}.__getitem__)
    late = {"t": np.array([6]), "x": np.ones(1)}
    assert again.push(late)["s"].tolist() == op.push(late)["s"].tolist() == [3.0, 2.0]
