"""Sketches to be merged, in windows larger than memory: as in memory, byte for byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mta
from failing_store import FailingStore
from mta import agg, sketches
from mta.errors import DamageError, DataError, StoreError
from mta.item_log import ItemLog, LoggedItems
from mta.stores import MemoryStore
from stored_rows import answered, part, plain
from strategies import data, engine_spec, rollings
from test_bucket_stream import tells_nulls
from test_stored_buckets import outcome
from test_stored_buckets_recovery import (
    answered_over_a_crash,
    answered_through_failures,
    failing_store,
)
from test_stored_rolling import BLOCKS, retried, same_as_in_memory, small
from test_stored_rolling_users import TIMES, goes_on, loses_nothing, repeated
from test_stream import in_time
from test_windows import hops

pytest.importorskip("datasketches", reason="the [sketches] extra is not installed")

KINDS = ("dict", "pandas-nullable", "polars", "pyarrow")
FAMILIES = {
    "q": (sketches.Quantiles(k=8), agg.kll_sketch, {"k": 8}),
    "h": (sketches.Hll(lg_k=4), agg.hll_sketch, {"lg_k": 4}),
    "u": (sketches.Theta(lg_k=5), agg.theta_sketch, {"lg_k": 5}),
    "f": (sketches.Frequent(max_items=6), agg.frequent_items_sketch, {"max_items": 6}),
}


def sketch_of(name, values):
    """The bytes of a sketch of these values."""
    family = FAMILIES[name][0]
    return family.to_bytes(family.extend(family.zero(), family.wrap(values)))


def with_sketches(sample, kind, seed):
    """The same rows with columns of sketches, of nothing or many values, nulls among them."""
    rng, type_ = np.random.default_rng(seed), "binary" if kind.startswith("p") else "object"
    type_ = "object" if kind.startswith("pandas") else type_
    columns = dict(sample.columns)
    for name in FAMILIES:
        made = [None, *(sketch_of(name, rng.integers(0, 40, n).tolist()) for n in (0, 1, 9, 30))]
        more = [sketch_of(name, [float(v) if name == "q" else v]) for v in range(9)]
        columns[name] = type_, [(made + more)[k] for k in rng.integers(0, 14, len(sample.rows))]
    names = list(columns)
    by_row = zip(*(values for _, values in columns.values()), strict=True)
    return type(sample)([dict(zip(names, row, strict=True)) for row in by_row], columns)


def merging(draws, families="fhqu", **beside):
    """Aggregates that merge some of them, and some others."""
    few = {"min_count": draws.draw(st.integers(0, 2))}
    names = draws.draw(st.sets(st.sampled_from(families), min_size=1, max_size=3))
    made = {n: FAMILIES[n][1](n, merge=True, **FAMILIES[n][2], **few) for n in sorted(names)}
    others = {"n": agg.count(next(iter(names))), "x": agg.sum("x"), **beside}
    return {**made, **{n: a for n, a in others.items() if draws.draw(st.booleans())}}


def trailing(draws):
    spec = engine_spec(draws.draw(rollings(("sum",))))
    beside = {"s": agg.first("s"), "a": agg.approx_count_distinct("s", lg_k=4)}
    every = draws.draw(st.sampled_from([None, None, 2, 3]))
    aggs = merging(draws, **beside)
    return replace(spec, aggs=tuple(aggs.items()), every=every)


@settings(max_examples=40)
@given(data(max_size=20), TIMES, st.sampled_from(KINDS), BLOCKS, st.integers(0, 9), st.data())
def test_any_window_any_cuts(sample, times, kind, block, seed, draws):
    sample = with_sketches(repeated(sample, times), kind, seed)
    same_as_in_memory(trailing(draws), sample, kind, block, draws)


@settings(max_examples=40)
@given(
    data(max_size=20, keys=("int64", "int64")), TIMES, st.integers(0, 9),
    st.sets(st.integers(1, 90)), st.data(),
)  # fmt: skip
def test_a_store_that_fails(sample, times, seed, failing, draws):
    columns = in_time(with_sketches(repeated(sample, times), "polars", seed))
    loses_nothing(trailing(draws), columns, failing, draws)


@settings(max_examples=40)
@given(
    data(max_size=20, keys=("int64", "float64")), TIMES, st.integers(0, 9),
    st.sampled_from(["polars", "pandas-nullable"]), st.data(),
)  # fmt: skip
def test_a_crash_at_any_time(sample, times, seed, kind, draws):
    assume(sample.rows)
    columns = in_time(with_sketches(repeated(sample, times), kind, seed))
    goes_on(trailing(draws), columns, kind, draws)


def many(n, seed=0, each=400):
    """Rows with sketches of some KB, all different."""
    rng = np.random.default_rng(seed)
    made = sketches.Quantiles(k=200)
    kept = [
        made.to_bytes(made.extend(made.zero(), rng.normal(size=each).view(np.int64)))
        for _ in range(n)
    ]
    return {"t": np.arange(n), "k": np.arange(n) % 3, "q": np.array(kept, object)}


def test_large_sketches_are_on_the_store():
    """A window of several MB; one spec, and two together that go on after a crash."""
    rows = many(1500)
    aggs = {"q": agg.kll_sketch("q", merge=True), "n": agg.count("q")}
    specs = [mta.rolling(f"{n}i", on="t", by="k", every=40).agg(**aggs) for n in (700, 1200)]
    memory = [spec.stream() for spec in specs]
    stores = MemoryStore(), MemoryStore()

    def opened():
        both = mta.together(*specs).stream(memory="256KB", store=stores[1])
        return specs[1].stream(memory="256KB", store=stores[0]), both

    one, both = opened()
    for start in range(0, 1500, 50):
        some = {name: column[start : start + 50] for name, column in rows.items()}
        want = [op.push(some) for op in memory]
        assert one.push(some)["q"].tolist() == want[1]["q"].tolist()
        for got, mine in zip(both.push(some), want, strict=True):
            assert got["q"].tolist() == mine["q"].tolist()
        if start % 500 == 250:
            one.flush(), both.flush()
            one, both = opened()
        assert all(len(op.coders.known_values()[0][1]) <= 60 for op in (one, both.carrier))
        assert one.stats().memory < 600_000 and both.stats().memory < 900_000
    assert sum(map(len, stores[0]._values.values())) > 3_000_000
    one.flush(), both.flush()
    one, both = opened()
    assert one.finish()["q"].tolist() == memory[1].finish()["q"].tolist()


def test_keys_that_come_and_go_give_back_and_leave_nothing():
    """Two hundred keys at a time share what memory there is."""
    n, store = 4000, MemoryStore()
    rows = many(n, each=40)
    rows["k"] = np.arange(n) % 100 + np.arange(n) // 1000 * 100
    spec = mta.rolling("1200i", on="t", by="k", every=4).agg(q=agg.kll_sketch("q", merge=True))
    memory, op = spec.stream(), spec.stream(memory="128KB", store=store)
    for at in range(0, n, 500):
        some = {name: column[at : at + 500] for name, column in rows.items()}
        assert op.push(some)["q"].tolist() == memory.push(some)["q"].tolist()
        stats = op.stats()  # beside the least each has two small blocks
        assert stats.memory < stats.least + stats.repositories * 4_096 + 100 * 4_000
    spec = replace(spec, every=None, range=mta.rolling("40i", on="t").range)
    op = spec.stream(memory="128KB", store=store, name="other")
    for at in range(0, n, 500):
        op.push({name: column[at : at + 500] for name, column in rows.items()})
        op.flush()
    named = {track._logs.name.encode() for track in op._tracks()}
    left = {key.split(b".items")[0] for key in store.keys(b"other") if b".items" in key}
    assert left <= named and len(named) <= 200


def test_rows_that_wait_for_the_watermark_keep_their_sketches():
    rows = many(400, each=5)
    spec = mta.rolling("60i", on="t", by="k").watermark("50i")
    spec = spec.agg(q=agg.kll_sketch("q", merge=True))
    order = np.argsort(np.arange(400) + np.random.default_rng(1).integers(0, 40, 400))
    store = MemoryStore()
    memory, op = spec.stream(), small(spec, store)
    for at in range(0, 400, 23):
        some = {name: column[order[at : at + 23]] for name, column in rows.items()}
        assert op.push(some)["q"].tolist() == memory.push(some)["q"].tolist()
        op.flush()
        op = small(spec, store)
    memory = spec.stream(memory.to_bytes())
    assert op.finish()["q"].tolist() == memory.finish()["q"].tolist()


def test_what_is_no_sketch_is_refused_with_its_row():
    spec = mta.rolling(3).agg(q=agg.kll_sketch("q", merge=True))
    op = spec.stream(memory="1MB")
    op.push({"q": np.array([sketch_of("q", [1.0]), None], object)})
    with pytest.raises(DataError, match=r"column 'q', row 1: not the bytes of a quantiles sketch"):
        op.push({"q": np.array([None, b"nothing"], object)})
    assert op.push({"q": np.array([None], object)})["q"][0] is not None


# ---- windows by number -----------------------------------------------------------------------


@settings(max_examples=40)
@given(
    data(max_size=40), hops(), st.sampled_from(["dict", "pandas", "polars", "pyarrow"]),
    st.sampled_from([(), ("k0",), ("k0", "k1")]), st.integers(14_000, 24_000), st.integers(0, 12),
    st.integers(0, 9), st.data(),
)  # fmt: skip
def test_any_windows_by_number(sample, spec, kind, by, memory, delay, seed, draws):
    """Rows in any order, cut anywhere, in any amount of memory."""
    assume(sample.rows and spec.kind == "hopping" and tells_nulls(kind, sample.columns))
    sample = with_sketches(sample, kind, seed)
    spec = replace(spec, by=by, empty="skip").watermark(f"{delay}i")
    spec = spec.agg(**merging(draws, m=agg.mode("i"), s=agg.first("s"), q2=agg.last("q")))
    cuts = draws.draw(st.lists(st.integers(0, len(sample.rows)), max_size=6))
    with spec.stream(memory=memory, store=MemoryStore()) as op:
        got = outcome(op, sample.columns, kind, cuts)
        assert got == outcome(spec.stream(), sample.columns, kind, cuts)


def hourly(n=900):
    rows = many(n, each=30)
    rows["ts"] = np.arange(n) + np.random.default_rng(2).integers(-30, 31, n)
    return rows


BY_NUMBER = mta.hopping("200i", slide="50i", on="ts", by="k").watermark("20i")
BY_NUMBER = BY_NUMBER.agg(q=agg.kll_sketch("q", merge=True), n=agg.count())
HOURLY = hourly()


WANT = {}


def wanted():
    if not WANT:
        WANT.update(answered(BY_NUMBER.stream(), HOURLY, 900, told=plain))
    return WANT


@given(st.sets(st.integers(3, 900), max_size=80), st.integers(60, 700), st.integers(9000, 30_000))
@settings(max_examples=15)
def test_by_number_a_store_that_fails_costs_no_answer(failing, step, memory):
    op = BY_NUMBER.stream(memory=memory, store=failing_store(failing))
    assert answered_through_failures(op, HOURLY, step, plain) == wanted()


@given(st.integers(40, 500), st.integers(1, 4), st.data())
@settings(max_examples=15)
def test_by_number_it_goes_on_from_the_last_flush(step, every, draws):
    got = answered_over_a_crash(
        lambda store: BY_NUMBER.stream(memory=9000, store=store), HOURLY, step, every, draws, plain
    )
    assert got == wanted()


def test_by_number_memory_is_bounded_and_the_store_emptied():
    rows = many(1500)
    spec = mta.hopping("600i", slide="300i", on="t").agg(q=agg.kll_sketch("q", merge=True))
    memory, store = spec.watermark("0i").stream(), MemoryStore()
    op = spec.watermark("0i").stream(memory="200KB", store=store)
    for at in range(0, 1500, 50):
        some = part(rows, at, at + 50)
        assert op.push(some)["q"].tolist() == memory.push(some)["q"].tolist()
        op.flush()
        assert op.stats().memory < 400_000
    assert op.finish()["q"].tolist() == memory.finish()["q"].tolist()
    op.flush()
    large = sum(map(len, rows["q"]))
    assert sum(map(len, store._values.values())) < 0.4 * large  # of the last window


# ---- the log ---------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 20)), max_size=60),
    st.integers(0, 9000), st.sets(st.integers(1, 80), max_size=20), st.data(),
)  # fmt: skip
def test_a_log_is_a_list(items, memory, failing, draws):
    """Whatever was let go of, written and opened again; its places may come in any order."""
    store = FailingStore(before=failing)
    log, kept = ItemLog(store, "log", memory), {}
    low = 0
    for number, (length, place) in enumerate(items):
        item = bytes([number]) * length
        log.append(item, place)
        kept[number] = item, place
        until_done(log.make_room)
        assert log.nbytes <= memory + 2 * 3100 + log.chunk + 16 * log.stored
        step = draws.draw(st.sampled_from(["", "", "go", "read", "open"]))
        if step == "go":
            low += 1
            log.let_go(low)
            kept = {n: (item, p) for n, (item, p) in kept.items() if p >= low}
        elif step == "read":
            for n, (item, _) in kept.items():
                assert until_done(lambda n=n, log=log: LoggedItems(log)[-1 - n]) == item
        elif step == "open":
            header = log.to_parts()
            until_done(lambda log=log: store.write(log.pending()))
            log.wrote()
            log.append(b"lost", 0)
            log = ItemLog(store, "log", memory)
            until_done(lambda log=log, header=header: log.fill(*header))
    until_done(log.forget)
    assert set(log.all_keys()) >= set(store._values)
    log.let_go(99)
    until_done(log.forget)
    assert not store._values


def until_done(call):
    return retried(call, plain=True)


def test_damaged_items_are_not_read():
    store = MemoryStore()
    log = ItemLog(store, "log", 0)
    for n in range(50):
        log.append(bytes([n]) * 99, n)
    log.thin_out()
    told, newest = log.to_parts()
    with pytest.raises(DamageError):
        ItemLog(MemoryStore(), "log", 0).fill(told, newest[:-1])
    with pytest.raises(ValueError, match="do not fit"):
        ItemLog(MemoryStore(), "log", 0).fill(told.replace(b'"end": 50', b'"end": 51'), newest)
    good = dict(store._values)
    for key, value in good.items():
        for wrong in (value[:-1], b"x" + value[1:], value[:30] + b"!" + value[31:], None):
            store._values = (
                {**good, key: wrong} if wrong else {k: good[k] for k in good if k != key}
            )
            with pytest.raises(StoreError):
                [log[n] for n in range(50)]
            log.thin_out()
    keys = sorted(good)
    store._values = {**good, keys[0]: good[keys[1]]}
    with pytest.raises(DamageError, match="another one"):
        log[0]
