"""Keys of a pool that have had no rows for long are records on the store. ADR 17."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from mta import agg, cold_keys, cold_records
from mta.cold_records import ColdRecords, RecordLayout, record_edges
from mta.errors import DamageError, StoreError
from mta.sizes import parse_bytes
from mta.snapshot import seal, unseal
from mta.stores import MemoryStore
from strategies import data
from test_stored_many_keys import ALL, KEYED, SPEC, WINDOWS, list_bits, opened, some
from test_stored_rolling import (
    CANCELLING,
    EXACT,
    SERVED,
    same_pushes,
    same_state,
    specs,
)
from test_stored_rolling_keys import same, same_over_crashes, same_through_failures
from test_stream import in_time
from test_stream_disorder import DELAYS, KINDS


def hot(op, most):
    """The same stream, whose pool may need so many bytes, and is looked at after every call."""
    op.room.most, op.room.often = most, 10**9
    return op


def chilled(spec, most=0, fast=10**6, track=10**6, **how):
    return hot(opened(spec, fast, track, **how), most)


MOST = st.sampled_from([0, 0, 200, 800])  # bytes: a key takes 100 to 300


@given(data(max_size=60, keys=KEYED), st.sampled_from(KINDS), MOST, st.data())
def test_any_window_any_cuts(sample, kind, most, draws):
    same_as_in_memory(specs(draws, SERVED), sample, kind, most, draws)


@given(data(EXACT, max_size=60, keys=KEYED), MOST, st.data())
def test_powers_and_pairs(sample, most, draws):
    same_as_in_memory(specs(draws, CANCELLING), sample, "dict", most, draws)


@given(data(max_size=60, keys=KEYED), DELAYS, MOST, st.data())
def test_rows_in_any_order(sample, delay, most, draws):
    spec = specs(draws, SERVED)
    if spec.on is not None:
        spec = spec.watermark(f"{delay}i")
    same_as_in_memory(spec, sample, "dict", most, draws, spec.on is None)


def same_as_in_memory(spec, sample, kind, most, draws, sort=True):
    columns = in_time(sample) if sort else sample.columns
    fast, track = draws.draw(st.sampled_from([(5, 50), (10**6, 10**6), (10**6, 10**6)]))
    op = chilled(spec, most, fast, track, store=MemoryStore())

    def pushed(op, memory):
        same_state(op, memory, blocks=op.keyed is not None and bool(op.keyed.tracks))

    def again(op):
        reopened = chilled(spec, most, fast, track, store=op.spill.store)
        assert reopened.state() == op.state()
        return reopened

    same_pushes(op, spec.stream(), columns, kind, draws, pushed=pushed, flushed=again)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(st.integers(0, 99), st.sampled_from([0, 3000, 9000]), st.data())
@settings(max_examples=8)
def test_all_kernels_go_on_where_they_were(window, seed, most, draws):
    """Also where keys come back in many requests, and many to a record."""
    spec, rng, at = window.agg(**ALL), np.random.default_rng(seed), 0
    memory, op = spec.stream(), chilled(spec, most, memory="256KB", block=1024)
    for n in draws.draw(st.lists(st.integers(1, 300), min_size=2, max_size=12)):
        rows = some(rng, n, draws.draw(st.sampled_from([3, 30, 90])), at)
        at += n
        assert list_bits(op.push(rows)) == list_bits(memory.push(rows))


@given(st.sets(st.integers(1, 300), max_size=60), st.integers(0, 9), MOST, st.data())
@settings(max_examples=25)
def test_a_store_that_fails(failing, seed, most, draws):
    rng, sizes = np.random.default_rng(seed), st.lists(st.integers(1, 200), min_size=2, max_size=9)
    same_through_failures(
        lambda store: chilled(SPEC, most, store=store),
        SPEC.stream(), failing, draws.draw(sizes), lambda n: some(rng, n, 9),
    )  # fmt: skip


@given(st.integers(0, 9), MOST, st.booleans(), st.data())
@settings(max_examples=25)
def test_a_crash_at_any_time(seed, most, often, draws):
    """What the last header names is there, whatever was read, written and left behind it.

    often : each push writes a header
    """
    rng, sizes = np.random.default_rng(seed), st.lists(st.integers(1, 200), min_size=2, max_size=9)
    with pytest.MonkeyPatch.context() as patch:
        if often:
            patch.setattr("mta.spill._GONE", -(10**9))
        same_over_crashes(
            lambda store: chilled(SPEC, most, store=store),
            SPEC.stream(), draws.draw(sizes), lambda n: some(rng, n, 9),
        )  # fmt: skip


DYING = mta.rolling("100i", on="t", by="k").agg(s=agg.sum("x"))
SUMS = mta.rolling(5, by="k").agg(s=agg.sum("x"), si=agg.sum("i"))


def test_a_push_that_fails_after_keys_have_come_back():
    """Those that came are there; the new ones have never been."""
    rng, memory = np.random.default_rng(0), SUMS.stream()
    op = chilled(SUMS, store=MemoryStore())
    for at in range(12):
        rows = some(rng, 40, 20 + 5 * at)
        if at % 2:
            bad = {**rows, "i": np.full(40, 2**62), "k": np.repeat([3, 1000 + at, 5, 2000], 10)}
            for each in (op, memory):
                with pytest.raises(OverflowError):
                    each.push(bad)
        same(op.push(rows), memory.push(rows))
        assert op.state() == memory.state()
    assert op.stats().cold > 50


@pytest.mark.parametrize("spec", [DYING, DYING.watermark("30i")], ids=str)
@pytest.mark.parametrize("late", [0, 150])
def test_what_nothing_names_is_taken_off(spec, late):
    """Records whose keys have come back, or that no window reaches, go with the next header; which
    rows are late is as in memory, also of keys that are cold, or were forgotten."""
    store, rng = MemoryStore(), np.random.default_rng(0)
    op, memory = chilled(spec, store=store), spec.stream()
    for at in range(0, 20_000, 20):
        t = np.arange(at, at + 20)
        t[3::7] -= rng.integers(0, late + 1, len(t[3::7]))
        rows = {"k": rng.integers(at // 50, at // 50 + 20, 20), "t": t, "x": rng.normal(size=20)}
        same(op.push(rows), memory.push(rows))
        assert op.state() == memory.state()
        if at % 1000 == 0:
            op.flush()
            assert len(store._values) <= 1 + op.stats().cold
    assert op.stats().records_written > 900
    assert (op.late_count > 100) == (late > 0)


def test_headers_are_written_for_what_is_gone(monkeypatch):
    monkeypatch.setattr("mta.spill._GONE", 0)
    store = MemoryStore()
    op, rng = chilled(SUMS, store=store), np.random.default_rng(0)
    for _ in range(40):
        op.push(some(rng, 300, 400))
    assert op.stats().records_written > 200
    assert b"stream/header" in store._values
    assert len(store._values) < 2 * (op.keyed.cold.live.view() > 0).sum()


def test_without_a_name_records_are_taken_off_at_once(monkeypatch):
    monkeypatch.setattr("mta.spill._GONE", 0)
    rng = np.random.default_rng(0)
    with chilled(SUMS) as op:
        for _ in range(40):
            op.push(some(rng, 300, 400))
        stored = list(op.spill.store.keys())
        assert len(stored) < 2 * (op.keyed.cold.live.view() > 0).sum()
        assert all(b".cold/" in key for key in stored)


def test_records_take_no_more_than_four_times_their_keys():
    store, rng = MemoryStore(), np.random.default_rng(0)
    spec = mta.rolling(3, by="k").agg(s=agg.sum("x"))
    op, memory = chilled(spec, store=store, memory="64KB"), spec.stream()
    for at in range(300):
        rows = some(rng, 40, 400 if at % 20 else 3000)
        same(op.push(rows), memory.push(rows))
    op.flush()
    cold = op.keyed.cold
    kept = sum(len(value) for key, value in store._values.items() if b".cold/" in key)
    assert kept == cold.nbytes.view()[cold.live.view() > 0].sum()
    assert kept < 4 * cold.keys * 200 + 20_000


def test_sparse_records_are_collected(monkeypatch):
    """Keys that no window reaches leave records with few keys; these are put together."""
    store = MemoryStore()
    spec = mta.rolling("1000i", on="t", by="k").agg(s=agg.sum("x"))
    op, memory = chilled(spec, store=store), spec.stream()
    for at in range(0, 60_000, 50):  # one key in ten comes again and again, the others once
        k = np.where(np.arange(50) % 10, np.arange(at, at + 50), np.arange(50) + at // 50 % 20 - 99)
        rows = {"k": k, "t": np.arange(at, at + 50), "x": k * 0.1}
        same(op.push(rows), memory.push(rows))
        cold = op.keyed.cold
        live, size = cold.live.view(), cold.size.view()
        assert size[live > 0].sum() <= 4 * max(cold.keys, 1) + 200
    assert op.state() == memory.state()


def test_keys_of_nothing_but_nulls():
    op, memory = chilled(SPEC), SPEC.stream()
    for at in range(6):
        x = np.ma.MaskedArray(np.zeros(30), np.full(30, True))
        x.mask[:at] = False
        rows = {"k": np.arange(30) + 7 * at, "x": x, "i": np.ma.MaskedArray(np.arange(30), x.mask)}
        assert list_bits(op.push(rows)) == list_bits(memory.push(rows))
    assert op.stats().cold


def test_texts_of_cold_keys_are_not_forgotten():
    """Codes of values that only records have stay what they are, and the others are forgotten."""
    spec = mta.rolling(2, by="k").agg(d=agg.count_distinct("w"), m=agg.approx_count_distinct("w"))
    op, memory, rng = chilled(spec, memory="64KB"), spec.stream(), np.random.default_rng(0)
    for at in range(60):
        words = np.array([f"word {n}" for n in rng.integers(0, 10**6, 200)], object)
        words[:20] = "same"
        rows = {"k": rng.integers(0, 200, 200), "w": words}
        assert list_bits(op.push(rows)) == list_bits(memory.push(rows))
        op.flush()
        if at == 40:
            assert op.stats().cold > 100
    assert len(op.coders.known_values()[0][1]) < 1024 + 2 * op.state()["rows"]


def test_values_that_are_no_items_stay_in_memory():
    spec = mta.rolling(2, by="k").agg(f=agg.first("w"), s=agg.sum("x"))
    op, memory = chilled(spec, memory="64KB"), spec.stream()
    for at in range(5):
        rows = pd.DataFrame({"k": np.arange(50) + at, "w": [f"{n}" for n in range(50)], "x": 1.5})
        pd.testing.assert_frame_equal(op.push(rows), memory.push(rows))
    assert op.stats().cold == 0 and op.stats().least > 1000


def test_keys_that_wait_for_rows_stay_in_memory():
    """A window of rows to come has no answer before these; until then nobody lets go of its key."""
    spec = mta.rolling(3, by="k", lag=-1).agg(s=agg.sum("x"))
    op, memory, rng = chilled(spec, memory="64KB"), spec.stream(), np.random.default_rng(0)
    for _ in range(20):
        rows = some(rng, 40, 20)
        same(op.push(rows), memory.push(rows))
        same(op.peek(), memory.peek())
    assert op.stats().cold == 0
    same(op.finish(), memory.finish())


def filled(store, keys=300):
    op = chilled(SUMS, store=store)
    op.push({"k": np.arange(keys), "x": np.arange(keys) * 0.1, "i": np.arange(keys)})
    op.flush()
    assert op.stats().cold == keys
    return op


def every_key(keys=300):
    return {"k": np.arange(keys), "x": np.zeros(keys), "i": np.zeros(keys, np.int64)}


def test_what_is_damaged_missing_or_foreign_is_refused():
    store = MemoryStore()
    filled(store)
    records = [key for key in store._values if b".cold/" in key]
    assert len(records) > 4
    good = dict(store._values)
    for wrong, told in (
        (lambda value: value[:-1] + bytes([value[-1] ^ 1]), "the record is damaged"),
        (lambda value: value[:40], "the record is damaged"),
        (lambda value: b"", "no record of keys"),
        (lambda value: b"MTAB" + value[4:], "no record of keys"),
        (lambda value: good[records[1]], "of other keys"),
        (lambda value: None, "missing"),
    ):
        value = wrong(good[records[0]])
        store._values = {**good, records[0]: value}
        if value is None:
            del store._values[records[0]]
        op = chilled(SUMS, store=store)
        with pytest.raises(DamageError, match=told):
            op.push(every_key())
        assert op.received == 300
        store._values = dict(good)  # it was the cable
        memory = SUMS.stream()
        memory.push({"k": np.arange(300), "x": np.arange(300) * 0.1, "i": np.arange(300)})
        same(op.push(every_key()), memory.push(every_key()))


def test_records_of_another_stream_are_refused():
    """They have the same name, and are of other aggregates."""
    store, other = MemoryStore(), MemoryStore()
    filled(store)
    spec = mta.rolling(6, by="k").agg(s=agg.sum("x"), si=agg.sum("i"))
    op = chilled(spec, store=other)
    op.push({"k": np.arange(300), "x": np.arange(300) * 0.1, "i": np.arange(300)})
    op.flush()
    mine = {key: value for key, value in other._values.items() if b".cold/" in key}
    assert mine.keys() <= store._values.keys()
    store._values.update(mine)
    with pytest.raises(DamageError, match="of other keys"):
        chilled(SUMS, store=store).push(every_key())


@pytest.mark.parametrize("what", ["place", "live", "owner"])
def test_an_index_that_does_not_fit_is_refused(what):
    store = MemoryStore()
    op = filled(store)
    op.room.most = 10**6  # then these are in the pool
    op.push({name: column[:9] for name, column in every_key().items()})
    getattr(op.keyed.cold, what).view()[0] += 1
    op.flush()
    with pytest.raises(mta.errors.SnapshotError, match="not where they should be"):
        chilled(SUMS, store=store)


def test_a_header_without_cold_keys_is_read():
    """Streams on a store had all short keys in the pool before: it has the numbers of keys."""
    rng, store, spec = np.random.default_rng(0), MemoryStore(), replace(SUMS, range=60)
    memory, op = spec.stream(), opened(spec, 30, 1, store=store, memory="1MB")
    for _ in range(5):
        rows = some(rng, 100, 30)
        rows["k"][::4] = 3
        same(op.push(rows), memory.push(rows))
    assert list(op.keyed.tracks) == [0]
    op.flush()
    take_out_cold_keys(op, store)
    op = chilled(spec, store=store, memory="1MB")
    assert op.state()["keys"] == memory.state()["keys"]
    for _ in range(5):
        rows = some(rng, 100, 40)
        same(op.push(rows), memory.push(rows))
    assert op.stats().cold


def take_out_cold_keys(op, store):
    kind, identity = op.kind, op._identity()
    parts = unseal(kind, identity, store.get(b"stream/header"))
    head = json.loads(parts[1])
    del head["cold"], head["next_serial"]
    serials = op.keyed.ledger.serials.view().tolist()
    head["serials"] = [serials, op.keyed.ledger.next_serial]
    pool = op.keyed.pool
    of_groups = head["groups"] + 1
    begin = 1 + 1 + 2 + of_groups  # sizes, the head, two frames, groups and counts
    assert parts[begin] == b"v" + np.array(serials).tobytes()
    rows = len(pool.rows.feeds) + len(pool.rows.valids) + 3 * len(pool.rows.values)
    marks = len(head["pool"]["marks"])
    gone = begin + 1 + len(pool.vectors(True)) + rows + marks
    vectors = len(op.keyed.cold.vectors())
    assert parts[gone] == b"v" + op.keyed.cold.owner.view().tobytes()
    sizes = json.loads(parts[0])
    parts[0] = json.dumps([sizes[0] - 1 - vectors, sizes[1]]).encode()
    parts[1] = json.dumps(head).encode()
    kept = [*parts[:begin], *parts[begin + 1 : gone], *parts[gone + vectors :]]
    store.write({b"stream/header": seal(kind, identity, kept)})


def test_many_keys_hold_no_more_than_memory():
    rng, spec = np.random.default_rng(0), mta.rolling(20, by="k").agg(s=agg.sum("x"))
    memory, held = spec.stream(), []
    with spec.stream(memory="1MB") as op:
        for _ in range(40):
            rows = some(rng, 2_000, 20_000)
            same(op.push(rows), memory.push(rows))
            held.append(op.stats().memory)
        stats = op.stats()
    assert max(held) <= parse_bytes("1MB", "memory")
    assert stats.cold > 5_000 and stats.records_read > 1000
    assert not op.keyed.tracks


def test_a_store_that_fails_is_told_once_answers_are_there():
    store = FailingStore()
    op, memory = chilled(SUMS, store=store), SUMS.stream()
    store.before = {store.calls + 1}
    same(op.push(every_key()), memory.push(every_key()))
    assert op.stats().cold == 0
    with pytest.raises(StoreError, match="the cable is out"):
        op.push(every_key())
    assert op.received == 300 and op.stats().cold == 300
    same(op.push(every_key()), memory.push(every_key()))


def test_peek_and_stats_ask_for_no_record():
    op = filled(MemoryStore())
    before = op.stats().records_read
    op.peek(), op.state()
    assert op.stats().records_read == before


@given(
    st.integers(0, 3), st.integers(0, 19), st.lists(st.integers(0, 5), min_size=1, max_size=9),
    st.integers(0, 99),
)  # fmt: skip
def test_records_give_what_they_took(cells, masks, sizes, seed):
    rng, total = np.random.default_rng(seed), sum(sizes)
    layout = RecordLayout("this", 3, cells, masks)
    columns = [rng.integers(-(2**62), 2**62, total) for _ in range(cells)]
    marks = [None if rng.random() < 0.3 else rng.random(total) < 0.5 for _ in range(masks)]
    heads = np.column_stack([np.arange(len(sizes)), sizes, rng.integers(0, 9, len(sizes))])
    records = ColdRecords(MemoryStore(), "s", lambda keys, size: None)
    edges = np.unique([0, *rng.integers(0, len(sizes), 3), len(sizes)])
    rows = layout.pack(columns, marks, total)
    numbers, nbytes = records.write(layout, heads, np.array(sizes), rows, edges)
    values = records.read_some(layout, numbers)
    assert list(map(len, values)) == nbytes.tolist()
    record, entry = cold_keys.entries_of(values, np.arange(len(values)))
    got, rows = layout.taken(values, record, entry)
    assert (got == heads).all()
    told, found = layout.unpack(rows)
    assert all((a == b).all() for a, b in zip(told, columns, strict=True))
    for mask, want in zip(found, marks, strict=True):
        assert (np.ones(total, np.bool_) if mask is None else mask).tolist() == (
            np.ones(total, np.bool_) if want is None else want
        ).tolist()
    with pytest.raises(IndexError):
        layout.taken(values, np.zeros(1, np.int64), np.full(1, 99))


@given(st.lists(st.integers(60, 9000), min_size=1, max_size=60))
def test_records_are_small(sizes):
    edges = record_edges(np.array(sizes))
    assert edges[0] == 0 and edges[-1] == len(sizes) and (np.diff(edges) > 0).all()
    for start, stop in pairwise(edges.tolist()):
        assert sum(sizes[start : stop - 1]) <= cold_records.RECORD


def test_many_requests(monkeypatch):
    monkeypatch.setattr(cold_keys, "_REQUEST", 3000)
    rng, store = np.random.default_rng(0), MemoryStore()
    op, memory = chilled(SUMS, store=store), SUMS.stream()
    for _ in range(10):
        rows = some(rng, 500, 800)
        same(op.push(rows), memory.push(rows))
        with suppress(StoreError):
            op.flush()
    assert op.stats().records_read > 50
