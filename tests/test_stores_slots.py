"""The slots of `SlotStore`: reused in order, never written over, found again, checked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta.errors import DamageError, SpecError, StoreError
from mta.stores import SlotStore

SLOT = 4096


@given(
    st.lists(
        st.dictionaries(
            st.integers(0, 5).map(lambda n: b"%d" % n),
            st.one_of(st.none(), st.integers(0, 3 * SLOT)),
            max_size=4,
        ),
        max_size=25,
    ),
    st.sampled_from(["write", "flush", "never"]),
    st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_it_holds_what_a_dict_holds(tmp_path_factory, batches, sync, direct):
    folder = tmp_path_factory.mktemp("slots")
    store = SlotStore(folder, slot=SLOT, sync=sync, direct=direct)
    held: dict[bytes, bytes] = {}
    for number, batch in enumerate(batches):
        changes = {
            key: None if size is None else bytes([number]) * size for key, size in batch.items()
        }
        store.write(changes)
        for key, value in changes.items():
            held.pop(key, None)
            if value is not None:
                held[key] = value
        if number % 5 == 4:
            store.close()
            store = SlotStore(folder, slot=SLOT, sync=sync, direct=direct)
        assert list(store.keys()) == sorted(held)
        assert store.get_many(held) == list(held.values())
    store.close()


def test_released_slots_are_used_again_least_recent_first(tmp_path: Path):
    with SlotStore(tmp_path, slot=SLOT, sync="never") as store:
        store.put_many({b"%d" % n: b"x" for n in range(4)})
        for key in (b"2", b"0", b"3"):
            store.delete(key)
        store.put_many({b"a": b"y", b"b": b"y"})
        assert [store._entries[key][2] for key in (b"a", b"b")] == [(2,), (0,)]
        store.put(b"long", b"z" * (2 * SLOT + 1))  # the one that is left, and two at the end
        assert store._entries[b"long"][2] == (3, 4, 5)
        assert os.path.getsize(tmp_path / "blocks") <= 6 * SLOT


def test_a_window_of_blocks_takes_little_more_than_itself(tmp_path: Path):
    with SlotStore(tmp_path, slot=SLOT) as store:  # nobody flushes
        for number in range(2000):
            store.write({b"%d" % number: b"%d" % number, b"%d" % (number - 50): None})
        assert store.slots <= 50 + 2 * (50 + 2 * 64)
        assert store.get(b"1960") == b"1960"


def test_slots_released_since_the_last_flush_are_left_as_they_are(tmp_path: Path):
    with SlotStore(tmp_path, slot=SLOT) as store:
        store.put(b"a", b"1")
        store.flush()
        (slot,) = store._entries[b"a"][2]
        store.put(b"a", b"2")
        store.put(b"b", b"3")
        assert slot not in {*store._entries[b"a"][2], *store._entries[b"b"][2]}
        store.flush()
        store.put(b"c", b"4")
        assert store._entries[b"c"][2] == (slot,)


def test_damage_is_refused(tmp_path: Path):
    with SlotStore(tmp_path, slot=SLOT) as store:
        store.put(b"a", b"value" * 100)
    data = (tmp_path / "blocks").read_bytes()
    for wrong in (data[:200] + b"!" + data[201:], data[:300], b""):
        (tmp_path / "blocks").write_bytes(wrong)
        with SlotStore(tmp_path, slot=SLOT) as store, pytest.raises(DamageError, match="slot 0"):
            store.get(b"a")
    (tmp_path / "blocks").write_bytes(data)
    with SlotStore(tmp_path, slot=SLOT) as store:
        assert store.get(b"a") == b"value" * 100


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with SlotStore(tmp_path, slot=SLOT) as store:
        store.put(b"a", b"1")
        real = os.pwrite
        monkeypatch.setattr(os, "pwrite", lambda file, data, at: real(file, data[:10], at))
        with pytest.raises(StoreError, match="full"):
            store.write({b"a": b"2" * 100, b"b": b"3" * 100})
        monkeypatch.undo()
        assert (store.get(b"a"), store.get(b"b")) == (b"1", None)
        store.write({b"a": b"2" * 100, b"b": b"3" * 100})
        assert store.get(b"b") == b"3" * 100 and store.slots == 3


def test_sizes_are_checked(tmp_path: Path):
    for wrong in (0, 100, 5000):
        with pytest.raises(SpecError, match="slot"):
            SlotStore(tmp_path, slot=wrong)
    SlotStore(tmp_path, slot=SLOT).close()
    with pytest.raises(SpecError, match="slots of 4096"):
        SlotStore(tmp_path, slot=2 * SLOT)
    with SlotStore(tmp_path, slot=SLOT), pytest.raises(StoreError):
        SlotStore(tmp_path, slot=SLOT)  # one at a time
