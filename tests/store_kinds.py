"""Every kind of store, as the tests open it again and again in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mta.stores import (
    BackgroundStore,
    FileStore,
    LmdbStore,
    MemoryStore,
    RedisStore,
    RocksStore,
    Store,
)
from redis_server import shared_server

# Small segments, so that many are begun, tidied and removed.
SMALL = 600


def on_redis(folder: Path) -> RedisStore:
    """The folder gives the hash its name."""
    return RedisStore(shared_server().url, name=str(folder))


DURABLE: dict[str, Callable[[Path], Store]] = {
    "files": FileStore,
    "small files": lambda folder: FileStore(folder, segment=SMALL),
    "lmdb": LmdbStore,
    "rocksdb": RocksStore,
    "rocksdb at every write": lambda folder: RocksStore(folder, sync="write", memory=1 << 20),
    "rocksdb behind": lambda folder: BackgroundStore(RocksStore(folder, memory=1 << 20)),
    "redis": on_redis,
    "files behind": lambda folder: BackgroundStore(FileStore(folder, segment=SMALL), buffer=3),
    "lmdb behind": lambda folder: BackgroundStore(LmdbStore(folder, sync="never"), buffer=50),
}

EVERY: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "memory behind": lambda _: BackgroundStore(MemoryStore(), ahead=30),
    **DURABLE,
}


def contents(store: Store) -> dict[bytes, bytes]:
    """All that is in it."""
    keys = list(store.keys())
    values = store.get_many(keys)
    assert None not in values
    return dict(zip(keys, values, strict=True))
