"""Every store against a dict, over any calls, before and after it is opened again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mta.errors import DamageError, DataError, SpecError, StoreError
from mta.stores import BackgroundStore, FileStore, LmdbStore, RedisStore, RocksStore, base
from redis_server import RedisServer
from store_kinds import DURABLE, EVERY, contents, on_redis

KEYS = st.sampled_from([b"a", b"ab", b"ab\0", b"b", b"\0", b"\xff\xff", b"k" * 511])
PREFIXES = st.sampled_from([b"", b"a", b"ab", b"\xff", b"z"])
VALUES = st.binary(max_size=40) | st.builds(
    lambda byte, size: bytes([byte]) * size, st.integers(0, 255), st.integers(4000, 70_000)
)
BATCHES = st.dictionaries(KEYS, st.none() | VALUES, max_size=5)


class AgainstDict(RuleBasedStateMachine):
    """A store does what a dict does."""

    kind: str

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="mta-store-"))
        self.store = EVERY[self.kind](self.folder)
        self.model: dict[bytes, bytes] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(batch=BATCHES)
    def write(self, batch):
        self.store.write(batch)
        self.model.update(batch)
        self.model = {key: value for key, value in self.model.items() if value is not None}

    @rule(key=KEYS, value=VALUES, kind=st.sampled_from([bytes, bytearray, memoryview]))
    def put(self, key, value, kind):
        self.store.put(key, kind(value))
        self.model[key] = value

    @rule(values=st.dictionaries(KEYS, VALUES, max_size=4))
    def put_many(self, values):
        self.store.put_many(values)
        self.model.update(values)

    @rule(key=KEYS)
    def delete(self, key):
        self.store.delete(key)
        self.model.pop(key, None)

    @rule(keys=st.lists(KEYS, max_size=4))
    def delete_many(self, keys):
        self.store.delete_many(keys)
        for key in keys:
            self.model.pop(key, None)

    @rule(key=KEYS)
    def get(self, key):
        assert self.store.get(key) == self.model.get(key)

    @rule(keys=st.lists(KEYS, max_size=6))
    def get_many(self, keys):
        assert self.store.get_many(keys) == [self.model.get(key) for key in keys]

    @rule(prefix=PREFIXES)
    def keys(self, prefix):
        expected = sorted(key for key in self.model if key.startswith(prefix))
        assert list(self.store.keys(prefix)) == expected

    @rule()
    def flush(self):
        self.store.flush()

    @precondition(lambda self: isinstance(self.store, BackgroundStore))
    @rule(keys=st.lists(KEYS, max_size=6))
    def prefetch(self, keys):
        self.store.prefetch(keys)

    @precondition(lambda self: self.kind in DURABLE)
    @rule()
    def reopen(self):
        self.store.close()
        self.store = EVERY[self.kind](self.folder)

    @invariant()
    def holds_the_same(self):
        assert contents(self.store) == self.model


@pytest.mark.parametrize("kind", EVERY)
def test_any_calls(kind):
    # Opening RocksDB takes some 20 ms.
    examples = settings(
        settings(), max_examples=settings().max_examples // 8, stateful_step_count=20
    )
    machine = type(f"AgainstDict_{kind}", (AgainstDict,), {"kind": kind})
    machine.TestCase.settings = examples
    machine.TestCase("runTest").runTest()


@pytest.mark.parametrize("kind", EVERY)
def test_keys_and_values_are_checked(kind, tmp_path):
    with EVERY[kind](tmp_path) as store:
        for key in (b"", b"k" * 512, "text", 1, None):
            for call in (store.get, store.delete):
                with pytest.raises(DataError, match="a key of a store"):
                    call(key)
            with pytest.raises(DataError, match="a key of a store"):
                store.put(key, b"value")
        for value in ("text", 1):
            with pytest.raises(DataError, match="the value of b'key' is bytes"):
                store.write({b"other": b"value", b"key": value})
        assert contents(store) == {}


@pytest.mark.parametrize("kind", EVERY)
def test_a_closed_store_says_so(kind, tmp_path):
    store = EVERY[kind](tmp_path)
    store.close()
    store.close()
    for call in (lambda: store.get(b"a"), lambda: store.put(b"a", b""), store.keys, store.flush):
        with pytest.raises(StoreError, match="the store is closed"):
            call()


def test_values_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "LARGEST_VALUE", 10)
    with FileStore(tmp_path) as store, pytest.raises(DataError, match="has 11 bytes, 10 at most"):
        store.put(b"key", bytes(11))


@pytest.mark.parametrize("store", [FileStore, LmdbStore, RocksStore])
def test_sync(store, tmp_path):
    for sync in ("write", "flush", "never"):
        with store(tmp_path / sync, sync=sync) as opened:
            opened.put(b"a", b"1")
            opened.flush()
            assert contents(opened) == {b"a": b"1"}
    with pytest.raises(SpecError, match="sync: 'always' is none of 'write', 'flush', 'never'"):
        store(tmp_path / "other", sync="always")


@pytest.mark.parametrize("store", [FileStore, LmdbStore, RocksStore])
def test_no_folder_can_be_made(store, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=f"{store.__name__}.*: open: .*file"):
        store(tmp_path / "file" / "folder")


@pytest.mark.parametrize("store", [FileStore, RocksStore])
def test_only_one_may_have_it_open(store, tmp_path):
    with store(tmp_path) as first:
        first.put(b"a", b"1")
        with pytest.raises(StoreError, match=r"open as a store already|[Ll]ock"):
            store(tmp_path)
        assert contents(first) == {b"a": b"1"}


@pytest.mark.parametrize(
    ("package", "store"),
    [
        ("lmdb", LmdbStore),
        ("rocksdict", RocksStore),
        ("redis", lambda _: RedisStore("redis://127.0.0.1:1")),
    ],
)
def test_missing_packages(package, store, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'mta-windows\[{package}\]'"):
        store(tmp_path)


def test_a_full_lmdb_keeps_what_it_has(tmp_path):
    with LmdbStore(tmp_path, map_size=1 << 20) as store:
        store.put(b"a", bytes(100_000))
        with pytest.raises(StoreError, match="map_size above 1,048,576"):
            store.put_many({b"%d" % i: bytes(100_000) for i in range(20)})
        assert list(store.keys()) == [b"a"]
    with LmdbStore(tmp_path, map_size=1 << 22) as store:
        store.put_many({b"%d" % i: bytes(100_000) for i in range(20)})
        assert len(contents(store)) == 21


def test_rocksdb_needs_some_memory(tmp_path):
    with pytest.raises(SpecError, match="RocksDB needs 1,048,576 bytes"):
        RocksStore(tmp_path, memory=1000)


def test_rocksdb_with_a_log_and_files_of_values_is_read(tmp_path):
    """As it was written before, by a process that was killed."""
    code = """
import os, sys, rocksdict
options = rocksdict.Options(raw_mode=True)
options.set_enable_blob_files(True)
options.set_min_blob_size(4096)
database = rocksdict.Rdict(sys.argv[1], options)
for number in range(20):
    database[b"%d" % number] = bytes([number]) * 9000
    if number == 12:
        database.flush(True)
database.flush_wal(True)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    blocks = {b"%d" % number: bytes([number]) * 9000 for number in range(20)}
    assert [*tmp_path.glob("*.blob")]
    for sync in ("flush", "write", "never"):
        with RocksStore(tmp_path, sync=sync) as store:
            assert contents(store) == blocks
            store.write({b"0": None, b"more": sync.encode()})
        blocks.pop(b"0", None)
        blocks[b"more"] = sync.encode()


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(("store", "files"), [(LmdbStore, "data.mdb"), (RocksStore, "*.sst")])
def test_damaged_blocks_are_refused(store, files, tmp_path):
    blocks = {b"%d" % i: bytes([i]) * 9000 for i in range(50, 90)}
    with store(tmp_path) as opened:
        opened.put_many(blocks)
    (path,) = tmp_path.glob(files)
    flip(path, path.read_bytes().index(bytes([70]) * 9000) + 5000)
    with store(tmp_path) as opened:
        with pytest.raises(StoreError, match=f"{store.__name__}.*: .*70.*(damaged|[Cc]orrupt)"):
            opened.get(b"70")
        assert opened.get(b"71") == blocks[b"71"]


def test_damaged_blocks_on_redis_are_refused(tmp_path):
    with on_redis(tmp_path) as store:
        store.put(b"a", b"block")
        for other in (b"", b"block", store._client.hget(str(tmp_path), b"a").upper()):
            store._client.hset(str(tmp_path), b"a", other)
            with pytest.raises(DamageError, match="the value of b'a' is damaged"):
                store.get(b"a")
        store.put(b"b", b"block")
        store._client.hset(str(tmp_path), b"c", store._client.hget(str(tmp_path), b"b"))
        with pytest.raises(DamageError, match="the value of b'c' is damaged"):
            store.get_many([b"b", b"c"])


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        (("--appendonly", "no"), "appendonly no, which may lose blocks; set it to yes"),
        (
            ("--appendonly", "yes", "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"),
            "maxmemory-policy allkeys-lru, which may lose blocks; set it to noeviction",
        ),
        (
            ("--appendonly", "yes", "--rename-command", "WAITAOF", ""),  # as before Redis 7.2
            "appendfsync everysec, which may lose blocks; set it to always",
        ),
        (("--rename-command", "CONFIG", ""), "does not tell whether it keeps what it is sent"),
    ],
)
def test_redis_servers_that_lose_blocks_are_refused(settings_, message, tmp_path):
    server = RedisServer(tmp_path, *settings_)
    with pytest.raises(StoreError, match=message):
        RedisStore(server.url)
    with RedisStore(server.url, durable=False) as store:
        store.put(b"a", b"1")
        assert contents(store) == {b"a": b"1"}
    server.kill()


def test_redis_waits_for_its_disk_and_says_when_it_is_gone(tmp_path):
    server = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "everysec")
    store = RedisStore(server.url, timeout=5)
    store.put(b"a", b"1")
    store.flush()
    assert contents(store) == {b"a": b"1"}
    server.kill()
    with pytest.raises(StoreError, match=r"RedisStore.*: write b'b' and 1 more: .*refused"):
        store.put_many({b"b": b"2", b"c": b"3"})
    with pytest.raises(StoreError, match="flush"):
        store.close()


def test_the_password_is_not_shown():
    with pytest.raises(StoreError) as raised:
        RedisStore("redis://user:secret@127.0.0.1:1/0", timeout=0.1)
    assert "secret" not in str(raised.value)
