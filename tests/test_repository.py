"""The row repository against a list: any pool, blocks and number of windows; crashes, failures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import costs
from mta.block_pool import BlockPool
from mta.errors import DamageError, DataError, SnapshotError, SpecError, StoreError
from mta.repository import Repository
from mta.row_blocks import Layout, RowBlock
from mta.stores import BackgroundStore, MemoryStore
from store_kinds import DURABLE

TYPES = {"ts": "int64", "x": "float64", "k": "int16"}


def rows_of(start: int, stop: int) -> dict[str, np.ndarray]:
    i = np.arange(start, stop)
    return {"ts": 3 * i, "x": i / 7, "k": (i % 100).astype(np.int16)}


def nulls_of(start: int, stop: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(start, stop) % 5 != 0}


def check(parts, start: int, stop: int) -> None:
    """The parts are the rows [start, stop)."""
    at = start
    for part in parts:
        assert part.first == at
        expected, valid = rows_of(at, at + len(part)), nulls_of(at, at + len(part))
        for name, values in part.columns.items():
            assert values.dtype == TYPES[name]
            np.testing.assert_array_equal(values, expected[name])
        np.testing.assert_array_equal(part.valid.get("x", np.ones(len(part), bool)), valid["x"])
        at += len(part)
    assert at == stop


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "expire", "expire", "rows", "find", "flush", "open"]),
        st.integers(0, 60),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 4), st.integers(0, 4), st.integers(100, 400))
@settings(deadline=None)
def test_any_use_gives_the_rows_that_came(steps, windows, spare, block):
    store = MemoryStore()
    options = {"windows": windows, "pool": windows + 1 + spare, "block": block}
    kept = Repository(TYPES, store, **options)
    back, fronts = 0, [0] * windows
    flushed = back, list(fronts)
    for step, amount, window in steps:
        window %= windows
        if step == "append":
            kept.append(rows_of(back, back + amount), nulls_of(back, back + amount))
            back += amount
        elif step == "expire":
            to = min(fronts[window] + amount, back)
            check(kept.expire(to, window), fronts[window], to)
            fronts[window] = to
        elif step == "rows":
            start = min(min(fronts) + amount, back)
            check(kept.rows(start, back), start, back)
        elif step == "find":
            front = min(fronts)
            time = 3 * (front + amount) - window
            expected = min(max(-(-time // 3), front), back)
            assert kept.find("ts", time) == expected
        elif step == "flush":
            kept.flush()
            flushed = back, list(fronts)
        else:  # the process has died
            kept = Repository(TYPES, store, **options)
            assert kept.back >= flushed[0]
            assert all(a >= b for a, b in zip(kept.fronts, flushed[1], strict=True))
            back, fronts = kept.back, list(kept.fronts)
        assert (kept.back, kept.fronts, len(kept)) == (back, fronts, back - min(fronts))
        stats = kept.stats()
        assert stats.pooled <= options["pool"]
    check(kept.rows(min(fronts), back), min(fronts), back)


@pytest.mark.parametrize("pool", [2, 3, 10])
def test_one_window_writes_and_reads_every_block_once(pool):
    kept = Repository(TYPES, MemoryStore(), pool=pool, block=1024)
    size, blocks = kept.layout.rows, 40
    window, n = size * blocks, 400 * size
    half = size // 2
    for back in range(0, n, half):
        if back == 100 * size:
            before = kept.stats().requests
        kept.append(rows_of(back, back + half))
        for _ in kept.expire(max(0, back + half - window)):
            pass
    stats = kept.stats()
    expected = costs.requests_a_second(300 * size, 4096, 4096 / size)
    assert abs(stats.requests - before - expected) <= 0.01 * expected
    assert stats.pooled == pool and stats.stored <= blocks + 2


@given(
    st.sets(st.integers(0, 40), min_size=3),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_the_victim_is_as_far_as_any(numbers, fronts, kept):
    pool, layout = BlockPool(), Layout(TYPES, 1024)
    for number in numbers:
        pool.put(number, RowBlock(layout, number * layout.rows))

    def distance(number: int) -> float:
        return min((number - front for front in fronts if front <= number), default=np.inf)

    blocks = sorted(set(fronts))
    victim = pool.victim(blocks, blocks[0], kept)
    assert victim in numbers - set(kept)
    assert distance(victim) == max(map(distance, numbers - set(kept)))


def test_what_a_window_has_passed_by_leaves_a_full_pool_first():
    """It goes over many blocks, and lets go of them only then."""
    kept = Repository(TYPES, MemoryStore(), pool=4, block=1024)
    size = kept.layout.rows
    kept.append(rows_of(0, 20 * size))
    kept.flush()  # 0, 1, 2 and 19 are in memory, and stored
    kept.pass_by(size)
    for number in (3, 2, 1, 3):
        list(kept.visit(number * size, number * size + 1))
    assert kept.stats().read == 1  # of block 3, for which block 0 has gone
    kept.let_go(size)
    assert kept.stats().read == 1
    assert [part.first for part in kept.visit(size, 3 * size)] == [size, 2 * size]


def requests(windows: list[int], pool: int, shared: bool, rows: int) -> tuple[int, int]:
    """(requests, most blocks held) of windows of these many rows, over one repository or N."""
    groups = [windows] if shared else [[w] for w in windows]
    made = held = 0
    for group in groups:
        share = pool if shared else max(2, pool // len(windows))
        kept = Repository(TYPES, MemoryStore(), windows=len(group), pool=share, block=512)
        most = 0
        for back in range(0, rows, 10):
            kept.append(rows_of(back, back + 10))
            for number, size in enumerate(group):
                for _ in kept.expire(max(0, back + 10 - size), number):
                    pass
            most = max(most, kept.stats().stored)
        made += kept.stats().requests
        held += most
    return made, held


def test_sharing_saves_space_and_requests():
    sizes = [1000 + 125 * i for i in range(8)]
    shared, unshared = (requests(sizes, 40, one, 8000) for one in (True, False))
    assert shared[1] * 5 < unshared[1]  # 8 windows hold little more than the largest
    assert shared[0] < unshared[0]


def test_the_victim_is_what_is_needed_last():
    kept = Repository({"x": "int64"}, MemoryStore(), windows=2, pool=4, block=1024)
    size = kept.layout.rows
    kept.append({"x": np.arange(10 * size)})
    list(kept.expire(7 * size + 1, 0))  # the small window is at block 7, the large one at block 0
    kept.append({"x": np.arange(2 * size)})
    # Of 0, 1, 2, 7 it was 2 that went, which is needed in 2 blocks' time, then 10, in 3.
    assert set(kept._pool.numbers) == {0, 1, 7, 11}


def test_reading_by_position_and_time_leaves_the_pool_alone():
    kept = Repository(TYPES, MemoryStore(), block=512)
    kept.append(rows_of(0, 5000), nulls_of(0, 5000))
    before = kept.stats()
    check(kept.rows(1234, 4321), 1234, 4321)
    assert kept.find("ts", 3 * 2000) == 2000
    assert kept.find("ts", 10**9) == 5000
    blocks = -(-5000 // kept.layout.rows)
    assert kept.stats().pooled == before.pooled
    reads = kept.stats().read - before.read
    assert reads <= -(-3087 // kept.layout.rows) + 1 + 2 * (blocks.bit_length() + 1)
    for start, stop in ((-1, 3), (3, 2), (0, 5001)):
        with pytest.raises(DataError, match="not within"):
            list(kept.rows(start, stop))


class Failing(MemoryStore):
    """Fails at every `every`th call."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every, self.calls = every, 0

    def _fail(self) -> None:
        self.calls += 1
        if self.calls % self.every == 0:
            raise OSError("disk full")

    def _get(self, key):
        self._fail()
        return super()._get(key)

    def _write(self, batch):
        self._fail()
        super()._write(batch)


@pytest.mark.parametrize("every", [2, 3, 7])
@pytest.mark.parametrize("windows", [1, 3])
def test_a_store_that_fails_loses_nothing(every, windows):
    kept = Repository(TYPES, Failing(every), windows=windows, pool=windows + 2, block=400)
    back, failures = 0, 0
    while back < 3000:
        try:
            kept.append(rows_of(back, back + 50), nulls_of(back, back + 50))
        except StoreError:
            failures += 1
        back = kept.back  # go on with the row after the last one taken
        for window in range(windows):
            to = max(0, back - 400 * (window + 1))
            while kept.fronts[window] < to:
                start = kept.fronts[window]
                try:
                    for part in kept.expire(to, window):
                        check([part], part.first, part.first + len(part))
                        assert part.first >= start
                except StoreError:
                    failures += 1
        assert kept.back == back
    assert failures > 5
    while True:
        try:
            kept.flush()
            break
        except StoreError:
            pass


@pytest.mark.parametrize("kind", DURABLE)
def test_on_every_store(kind, tmp_path: Path):
    for _ in range(2):
        with DURABLE[kind](tmp_path) as store:
            kept = Repository(TYPES, store, block=600, note=lambda: b"aggregates")
            start = kept.back
            assert kept.noted == (b"aggregates" if start else None)
            kept.append(rows_of(start, start + 1000), nulls_of(start, start + 1000))
            front = kept.front
            check(kept.expire(kept.back - 300), front, kept.back - 300)
            kept.flush()
            check(kept.rows(kept.front, kept.back), kept.back - 300, kept.back)


def test_blocks_that_no_window_needs_leave_the_store():
    store = MemoryStore()
    kept = Repository(TYPES, store, block=400)
    for back in range(0, 40_000, 100):  # nobody flushes
        kept.append(rows_of(back, back + 100))
        list(kept.expire(max(0, back - 200)))
    assert len(list(store.keys())) < 60
    kept.flush()
    assert len(list(store.keys())) <= 200 // kept.layout.rows + 12
    small = MemoryStore()
    kept = Repository(TYPES, small, block=1024)
    for back in range(0, 4000, 10):  # it fits into the pool
        kept.append(rows_of(back, back + 10))
        list(kept.expire(back))
    assert list(small.keys()) == [] and kept.stats().requests == 0


def test_background_store_reads_ahead():
    with BackgroundStore(MemoryStore(), buffer=8) as store:
        kept = Repository(TYPES, store, block=400)
        kept.append(rows_of(0, 5000), nulls_of(0, 5000))
        check(kept.expire(4900), 0, 4900)


# ---- damage and mistakes -----------------------------------------------------------------------


def stored(**options) -> tuple[MemoryStore, Repository]:
    store = MemoryStore()
    kept = Repository(TYPES, store, block=400, **options)
    kept.append(rows_of(0, 500))
    kept.flush()
    return store, kept


def test_damaged_blocks_are_refused():
    store, kept = stored()
    key = kept._key(3)
    whole = store.get(key)
    assert whole is not None
    other = store.get(kept._key(4))
    changed = [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(len(whole))]
    for wrong in [*changed, whole[:-1], whole + b"x", b"", other]:
        assert wrong is not None
        store.put(key, wrong)
        with pytest.raises(DamageError):
            list(kept.rows(0, 400))
    store.delete(key)
    with pytest.raises(DamageError, match="missing"):
        list(kept.rows(0, 400))
    store.put(key, whole)
    assert sum(len(part) for part in kept.rows(0, 400)) == 400


def test_foreign_headers_are_refused():
    store, kept = stored()
    for types, options in (({"x": "int64"}, {}), (TYPES, {"windows": 2, "pool": 3})):
        with pytest.raises(SnapshotError):
            Repository(types, store, block=400, **options)
    with pytest.raises(SnapshotError):
        Repository(TYPES, store, block=800)
    header = store.get(b"rows/header")
    assert header is not None
    for at in range(0, len(header), 11):
        store.put(b"rows/header", header[:at] + bytes([header[at] ^ 1]) + header[at + 1 :])
        with pytest.raises((SnapshotError, DamageError)):
            Repository(TYPES, store, block=400)
    store.put(b"rows/header", header)
    assert Repository(TYPES, store, block=400).back == kept.back


def test_arguments_are_checked():
    memory = MemoryStore()
    for wrong in ({"windows": 0}, {"windows": 2, "pool": 2}, {"pool": 1}, {"block": 30}):
        with pytest.raises(SpecError):
            Repository(TYPES, memory, **{"pool": 4, **wrong})
    for types in ({}, {"x": "O"}, {"x": "U5"}):
        with pytest.raises(SpecError):
            Repository(types, memory)
    for name in ("", "a/b"):
        with pytest.raises(SpecError, match="name"):
            Repository(TYPES, memory, name)
    with pytest.raises(SpecError, match="URL"):
        Repository(TYPES, 7)
    kept = Repository(TYPES, memory)
    good = rows_of(0, 3)
    for bad in ({**good, "x": ["a"] * 3}, {**good, "k": np.arange(4)}, {"ts": good["ts"]}):
        with pytest.raises(DataError):
            kept.append(bad)
    with pytest.raises(DataError, match="lengths"):
        kept.append(good, {"x": np.ones(4, bool)})
    with pytest.raises(DataError, match="lengths"):
        kept.append({**good, "x": np.zeros(2)})
    assert kept.back == 0
    kept.append(good)
    with pytest.raises(DataError, match="not between"):
        next(kept.expire(4))
    with pytest.raises(DataError, match="column"):
        kept.find("y", 1)


def test_a_block_has_as_many_rows_as_fit():
    for size in (200, 401, 65536):
        layout = Layout(TYPES, size)
        block = RowBlock(layout, 0)
        block.append(rows_of(0, layout.rows), nulls_of(0, layout.rows), 0, layout.rows)
        assert size - layout.row_bytes - 8 < len(block.to_bytes()) <= size
