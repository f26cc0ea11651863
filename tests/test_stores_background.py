"""Writing behind and reading ahead: nothing is lost when the store fails, nobody waits in vain."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from threading import Event, Thread, current_thread, main_thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failing_store import FailingStore, until_it_works
from mta.errors import DamageError, SpecError, StoreError
from mta.stores import BackgroundStore, BlockCache, FileStore, MemoryStore
from store_kinds import contents


class GatedStore(MemoryStore):
    """Its calls wait until the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.reading = Event(), Event()
        self.batches = []

    def _write(self, batch):
        assert self.gate.wait(20)
        self.batches.append(list(batch))
        super()._write(batch)

    def _get_many(self, keys):
        found = super()._get_many(keys)
        self.reading.set()
        assert self.gate.wait(20)
        return found


def ended(call: Callable, seconds: float = 20) -> bool:
    thread = Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
BATCHES = st.dictionaries(KEYS, st.none() | st.binary(max_size=4), min_size=1)
CALLS = st.lists(
    st.tuples(st.just("write"), BATCHES)
    | st.tuples(st.just("get"), KEYS)
    | st.tuples(st.just("prefetch"), st.lists(KEYS))
    | st.tuples(st.just("flush"), st.none()),
    max_size=30,
)
NUMBERS = st.sets(st.integers(1, 40), max_size=12)


@given(CALLS, NUMBERS, NUMBERS, st.integers(1, 6))
def test_failures_lose_nothing(calls, before, after, buffer):
    """A call that raised is made again, and has done nothing before."""
    inner = FailingStore(before=before, after=after)
    store = BackgroundStore(inner, buffer=buffer, ahead=6)
    model = {}
    for call, argument in calls:
        made = partial(getattr(store, call), *([] if call == "flush" else [argument]))
        answer = until_it_works(made)
        if call == "write":
            model.update(argument)
        elif call == "get":
            assert answer == model.get(argument)
        elif call == "flush":
            assert inner._values == {k: v for k, v in model.items() if v is not None}
    until_it_works(store.flush)
    assert inner._values == {k: v for k, v in model.items() if v is not None}
    assert store.waiting == 0
    inner.before = inner.after = frozenset()
    store.close()


def test_errors_come_with_the_next_call_and_name_store_and_key():
    inner = FailingStore(before={1, 2})
    store = BackgroundStore(inner)
    store.write({b"one": b"1", b"two": b"2"})
    calls = [lambda: store.put(b"c", b"3"), store.flush]
    for call in calls:
        while store._error is None:  # the thread has not met it yet
            pass
        with pytest.raises(StoreError) as raised:
            call()
        message = str(raised.value)
        assert message.startswith("in the background: FailingStore('memory'): write b'one' and 1")
        assert "the cable is out" in message
    store.flush()
    assert contents(inner) == {b"one": b"1", b"two": b"2"}  # c was not taken
    store.close()


def test_any_exception_of_a_store_surfaces():
    class Odd(MemoryStore):
        def write(self, changes):
            raise RuntimeError("odd")

    store = BackgroundStore(Odd())
    store.put(b"a", b"1")
    with pytest.raises(StoreError, match="in the background: odd"):
        store.flush()
    store.abandon()


def test_a_full_buffer_waits_for_the_store_and_only_then():
    inner = GatedStore()
    store = BackgroundStore(inner, buffer=512)
    assert ended(lambda: [store.put(b"%d" % i, b"x") for i in range(512)])
    assert store.waiting == 512
    assert store.get(b"511") == b"x"
    waits = Thread(target=lambda: store.put(b"512", b"y"))
    waits.start()
    waits.join(0.1)
    assert waits.is_alive()
    inner.gate.set()
    waits.join(20)
    assert not waits.is_alive()
    store.flush()
    assert len(contents(inner)) == 513
    store.close()


def test_a_full_buffer_does_not_wait_for_a_store_that_fails():
    inner = FailingStore(before=set(range(1000)))
    store = BackgroundStore(inner, buffer=2)
    store.write({b"a": b"1", b"b": b"2"})

    raised = []

    def put():
        try:
            for _ in range(2):
                store.put(b"c", b"3")
        except StoreError as error:
            raised.append(str(error))

    assert ended(put)
    assert "the cable is out" in raised[0]
    inner.before = set()
    until_it_works(store.flush)
    assert {b"a", b"b"} <= set(contents(inner))
    store.close()


def test_batches_larger_than_the_buffer_stay_whole():
    inner = GatedStore()
    store = BackgroundStore(inner, buffer=4)
    large = {b"%d" % i: b"x" for i in range(200)}
    store.write(large)
    inner.gate.set()
    store.put(b"last", b"y")
    store.flush()
    assert inner.batches == [list(large), [b"last"]]
    store.close()


def test_batches_are_joined_in_order_and_never_cut():
    inner = GatedStore()
    store = BackgroundStore(inner)
    batches = [{b"%d" % i: b"", b"%d" % (i - 1): None} for i in range(1, 100)]
    for batch in batches:
        store.write(batch)
    inner.gate.set()
    store.flush()
    assert contents(inner) == {b"99": b""}
    assert len(inner.batches) <= 4
    numbers = [int(key) for joined in inner.batches for key in joined]
    ends = [sorted({int(key) for key in joined}) for joined in inner.batches]
    assert set(numbers) == set(range(100))
    assert all(first[-1] == second[0] for first, second in pairwise(ends))
    store.close()


def test_blocks_read_ahead_are_handed_out_once():
    inner = FailingStore()
    inner.put_many({b"%d" % i: b"%d" % i for i in range(20)})
    with BackgroundStore(inner, ahead=100) as store:
        store.prefetch([b"%d" % i for i in range(20)])
        while store._wanted:
            pass
        calls = inner.calls
        assert [store.get(b"%d" % i) for i in range(20)] == [b"%d" % i for i in range(20)]
        assert inner.calls == calls
        assert store.get(b"3") == b"3"
        assert inner.calls == calls + 1


def test_what_is_written_meanwhile_is_newer_than_what_was_read_ahead():
    inner = GatedStore()
    inner._values = {b"a": b"old", b"b": b"old"}
    store = BackgroundStore(inner)
    store.prefetch([b"a"])
    assert inner.reading.wait(20)  # it has been read, but not arrived
    store.put(b"a", b"new")
    inner.gate.set()
    store.flush()
    store.prefetch([b"b"])
    while b"b" not in store._ahead:  # by now a has arrived as well
        pass
    assert store.get(b"a") == b"new"
    store.put(b"b", b"new")
    store.flush()
    assert store.get(b"b") == b"new"
    store.close()


def test_what_is_quick_is_written_by_the_caller():
    class Quick(GatedStore):
        quick = True

    inner = Quick()
    inner._values = {b"a": b"old", b"b": b"old"}
    store = BackgroundStore(inner)
    store.prefetch([b"a"])
    assert inner.reading.wait(20)  # it has been read, but not arrived
    inner._write = partial(MemoryStore._write, inner)
    store.write({b"a": b"new", b"c": b"1"})
    assert inner._values == {b"a": b"new", b"b": b"old", b"c": b"1"}
    assert store.waiting == 0
    inner.gate.set()
    store.prefetch([b"b"])
    while b"b" not in store._ahead:  # by now a has arrived as well
        pass
    assert store.get(b"a") == b"new"
    store.delete(b"b")
    assert store.get(b"b") is None
    store.close()


def test_errors_of_what_is_quick_come_at_once():
    inner = FailingStore(before={1})
    inner.quick = True
    with BackgroundStore(inner) as store:
        with pytest.raises(StoreError, match=r"FailingStore.*: write b'a'"):
            store.put(b"a", b"1")
        store.put(b"a", b"2")
        assert inner._values == {b"a": b"2"}


def test_reading_ahead_of_what_is_still_in_the_buffer():
    inner = GatedStore()
    inner._values = {b"a": b"old", b"b": b"old"}
    store = BackgroundStore(inner)
    store.write({b"a": b"new", b"b": None})
    store.prefetch([b"a", b"b"])
    inner.gate.set()
    store.flush()
    assert store.get_many([b"a", b"b"]) == [b"new", None]
    store.close()


def test_errors_of_reading_ahead_are_met_by_who_asks(tmp_path):
    with FileStore(tmp_path) as files:
        files.put_many({b"a": b"A" * 100, b"b": b"B" * 100})
    (path,) = tmp_path.glob("*.blocks")
    path.write_bytes(path.read_bytes().replace(b"AA", b"AX", 1))
    with BackgroundStore(FileStore(tmp_path)) as store:
        store.prefetch([b"a", b"b"])
        assert store.get(b"b") == b"B" * 100
        with pytest.raises(DamageError, match="the value of b'a' is damaged"):
            store.get(b"a")


def test_leaving_with_a_store_that_fails_ends_the_threads():
    store = BackgroundStore(FailingStore(before=set(range(1000))))

    def use():
        with store:
            store.prefetch([b"b"])
            store.put(b"a", b"1")

    with pytest.raises(StoreError, match="the cable is out"):
        use()
    assert not any(thread.is_alive() for thread in store._threads.values())
    with pytest.raises(StoreError, match="the store is closed"):
        store.get(b"a")


def test_closing_can_be_tried_again():
    inner = FailingStore(before={1})
    store = BackgroundStore(inner)
    store.put(b"a", b"1")
    with pytest.raises(StoreError, match="the cable is out"):
        store.close()
    assert store.get(b"a") == b"1"
    store.close()
    assert inner.calls >= 3


def test_a_buffer_has_room():
    with pytest.raises(SpecError, match="at least one block"):
        BackgroundStore(MemoryStore(), buffer=0)
    with pytest.raises(SpecError, match="no less than 0 bytes"):
        BackgroundStore(MemoryStore(), ahead=-1)


@given(
    st.integers(0, 12),
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 6), st.integers(0, 20) | st.none())
    ),
)
def test_the_cache_keeps_what_is_needed_first(limit, calls):
    """Against the plain meaning: put all in, then drop by turn until it fits."""
    cache = BlockCache(limit)
    model = {}
    for number, (name, size, turn) in enumerate(calls):
        key = name.encode()
        if turn is None:
            assert cache.pop(key) == model.pop(key, (None, 0))[0]
            continue
        block = bytes([number % 256]) * size
        turn = turn * 1000 + number  # no ties
        model.pop(key, None)
        cache.put(key, block, turn)
        if size <= limit:
            model[key] = block, turn
        while sum(len(held) for held, _ in model.values()) > limit:
            del model[max(model, key=lambda k: model[k][1])]
        assert cache.size == sum(len(held) for held, _ in model.values()) <= limit
        assert len(cache) == len(model)
        assert all(k in cache for k in model)
        assert len(cache._last) <= 2 * len(model) + 9
    for key, (block, _) in model.items():
        assert cache.pop(key) == block
    cache.clear()
    assert cache.size == len(cache) == 0


class NearStore(MemoryStore):
    """A store that is local, and knows who wrote."""

    local = True

    def __init__(self) -> None:
        super().__init__()
        self.batches, self.writers = [], []

    def _write(self, batch):
        self.batches += batch
        self.writers.append(current_thread())
        super()._write(batch)


def test_who_fills_the_buffer_of_a_local_store_writes_it():
    keys = [b"%d" % number for number in range(200)]
    with BackgroundStore(NearStore(), buffer=3) as store:
        near = store.store
        for key in keys:
            store.put(key, key)
        assert store.waiting <= 3
        store.flush()
        assert near.batches == keys
        assert near.writers.count(current_thread()) > 20


def test_an_interrupted_write_is_made_again():
    class Interrupted(NearStore):
        def _write(self, batch):
            if current_thread() is main_thread() and not self.writers:
                self.writers.append(current_thread())
                raise KeyboardInterrupt
            super()._write(batch)

    with BackgroundStore(Interrupted(), buffer=1) as store:
        store.put(b"a", b"1")
        with pytest.raises(KeyboardInterrupt):
            store.put(b"b", b"2")
        with pytest.raises(StoreError, match="interrupted"):
            store.put(b"b", b"2")
        store.put(b"b", b"2")
        store.flush()
        assert store.store.batches == [b"a", b"b"]


def test_what_lingers_is_written_by_the_thread():
    with BackgroundStore(NearStore(), buffer=3) as store:
        near = store.store
        store.put(b"a", b"1")
        wait_until(lambda: near.writers)
        assert near.writers != [current_thread()]


def wait_until(done: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.005)
