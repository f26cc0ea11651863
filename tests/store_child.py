"""A process that the tests kill: it writes numbered batches and tells which are flushed.

Batch n puts two blocks, and takes those out that are `WIDTH` batches old, as a window does. So what
a store holds tells how many batches it has taken.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mta.stores import FileStore, RedisStore, Store
from store_kinds import DURABLE

WIDTH = 6
SIZE = 65536
COUNT = b"count"


def block(number: int, side: bytes) -> bytes:
    return (b"%08d" % number + side).ljust(16, b".") * (SIZE // 16)


def batch(number: int) -> dict[bytes, bytes | None]:
    changes: dict[bytes, bytes | None] = {COUNT: b"%d" % number}
    for side in (b"left", b"right"):
        changes[b"%08d" % number + side] = block(number, side)
        changes[b"%08d" % (number - WIDTH) + side] = None
    return changes


def after(number: int) -> dict[bytes, bytes]:
    """What a store holds that has taken the batches up to this one."""
    held: dict[bytes, bytes] = {COUNT: b"%d" % number} if number else {}
    for one in range(max(1, number - WIDTH + 1), number + 1):
        for side in (b"left", b"right"):
            held[b"%08d" % one + side] = block(one, side)
    return held


def opened(kind: str, where: str) -> Store:
    if kind == "redis":
        url, _, name = where.partition(" ")
        return RedisStore(url, name=name)
    if kind == "files":  # segments that end every few batches
        return FileStore(where, segment=8 * SIZE)
    return DURABLE[kind](Path(where))


def main(kind: str, where: str) -> None:
    store = opened(kind, where)
    number = int(store.get(COUNT) or 0)
    while True:
        for number in range(number + 1, number + 4):  # noqa: B020
            store.write(batch(number))
        store.flush()
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
