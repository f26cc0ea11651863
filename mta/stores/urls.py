"""Stores by URL, for those who say where blocks go in one text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from mta.errors import SpecError
from mta.stores.background import BackgroundStore
from mta.stores.base import Store
from mta.stores.files import FileStore
from mta.stores.lmdb_store import LmdbStore
from mta.stores.memory import MemoryStore
from mta.stores.redis_store import RedisStore
from mta.stores.rocks_store import RocksStore
from mta.stores.slots import SlotStore

_FOLDERS: dict[str, Callable[..., Store]] = {
    "file": FileStore,
    "lmdb": LmdbStore,
    "rocksdb": RocksStore,
    "slots": SlotStore,
}
_SERVERS = ("redis", "rediss", "unix")
_NUMBERS = ("segment", "map_size", "memory", "slot")  # options that are bytes
_YES = {"true": True, "false": False}
_TRUTHS = ("direct", "durable")
_BUFFER = 64  # blocks behind: 4 MiB


def open_store(url: str, *, background: bool = True, buffer: int = _BUFFER, room: int = 0) -> Store:
    """Opens the store that a URL names.

    Parameters
    ----------
    url
        ``memory:``, ``file:///folder``, ``slots:///folder``, ``lmdb:///folder``,
        ``rocksdb:///folder``, or the URL of a Redis server (``redis://``, ``rediss://``,
        ``unix://``). A folder may be relative: ``file:folder``. Options of the store follow a
        question mark: ``slots:///folder?sync=never&direct=true``; for Redis ``name``, the hash.
    background
        Whether it is written and read ahead on threads of its own, see `BackgroundStore`.
    buffer
        Blocks that may wait to be written then.
    room
        More of them may, as long as they are not more bytes than this.

    Raises
    ------
    SpecError
        The URL names no store, or an option that it does not have.
    ImportError
        A package is missing; the message says which.
    StoreError
        The store can't be opened.

    >>> with open_store("memory:") as store:
    ...     store
    BackgroundStore('memory')
    """
    if not isinstance(url, str):
        raise SpecError(f"store: a store or its URL is needed, not {url!r}")
    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in _NUMBERS:
        if name in options:
            options[name] = _number(url, name, options[name])
    for name in _TRUTHS:
        if name in options:
            if options[name] not in _YES:
                raise SpecError(f"store: {url!r}: {name} is true or false, not {options[name]!r}")
            options[name] = _YES[options[name]]
    try:
        store = _opened(url, parts, options)
    except TypeError:
        raise SpecError(f"store: {url!r} has an option that this store has not") from None
    return BackgroundStore(store, buffer=buffer, room=room) if background else store


def _opened(url: str, parts: SplitResult, options: dict[str, Any]) -> Store:
    if parts.scheme == "memory" and not parts.netloc + parts.path:
        return MemoryStore(**options)
    if parts.scheme in _FOLDERS and parts.path and parts.netloc in ("", "localhost"):
        return _FOLDERS[parts.scheme](unquote(parts.path), **options)
    if parts.scheme in _SERVERS:
        return RedisStore(urlunsplit(parts._replace(query="", fragment="")), **options)
    raise SpecError(
        f"store: {url!r} names no store; memory:, file:///folder, lmdb:///folder, "
        "rocksdb:///folder and redis://host do"
    )


def _number(url: str, name: str, text: str) -> int:
    if not text.isdecimal():
        raise SpecError(f"store: {url!r}: {name} is a number of bytes, not {text!r}")
    return int(text)
