"""Where blocks live that don't stay in the window's memory: one interface, six stores.

==================  =====================================  ==============================
store               blocks are                             needs
==================  =====================================  ==============================
`MemoryStore`       in this process                        nothing
`FileStore`         in plain files, a log of batches       nothing
`SlotStore`         in places of one file, used again      nothing
`LmdbStore`         in a memory-mapped tree                ``mta-windows[lmdb]``
`RocksStore`        in RocksDB                             ``mta-windows[rocksdict]``
`RedisStore`        on a Redis server                      ``mta-windows[redis]``
==================  =====================================  ==============================

All keep the promises of `Store`: atomic batches, `flush` for durability, damage refused.
`BackgroundStore` goes around any of them: it writes and reads ahead on threads of its own, with the
bounded `BlockCache` for what was read. `open_store` opens any of them by its URL.

A block of 64 KiB takes, in µs (2 cores that others use too, best of 3; the disk does 3 to 10 ms a
forced write; "behind" is what the caller of a `BackgroundStore` waits):

=======================  =====  ====  ============  ==========
store                    put    get   put, behind   get, ahead
=======================  =====  ====  ============  ==========
files                    67     31    4             4
slots, ``sync="never"``  60     25    4             4
the same, ``direct``     273    244   13            4
LMDB                     2115   23    4             4
LMDB, ``sync="never"``   64     46    18            4
RocksDB                  190    16    6             4
Redis, everysec          196    114   12            4
=======================  =====  ====  ============  ==========

>>> store = BackgroundStore(MemoryStore(), buffer=512)
>>> for number in range(3):
...     store.put(b"block %d" % number, bytes(65536))   # returns at once
>>> store.flush()                                       # until all of it is safe
>>> store.prefetch([b"block 0", b"block 1"])
>>> len(store.get(b"block 0"))
65536
>>> store.close()
"""

from mta.stores.background import BackgroundStore
from mta.stores.base import Changes, Store, Sync
from mta.stores.cache import BlockCache
from mta.stores.files import FileStore
from mta.stores.lmdb_store import LmdbStore
from mta.stores.memory import MemoryStore
from mta.stores.redis_store import RedisStore
from mta.stores.rocks_store import RocksStore
from mta.stores.slots import SlotStore
from mta.stores.urls import open_store

__all__ = [
    "BackgroundStore",
    "BlockCache",
    "Changes",
    "FileStore",
    "LmdbStore",
    "MemoryStore",
    "RedisStore",
    "RocksStore",
    "SlotStore",
    "Store",
    "Sync",
    "open_store",
]
