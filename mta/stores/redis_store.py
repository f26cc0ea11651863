"""Blocks on a Redis server, with its append-only file as the promise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from mta.errors import StoreError
from mta.stores._checksum import with_checksum, without_checksum
from mta.stores.base import Store, package

_FLUSHES = b""  # a field of the hash that counts calls of `flush`; no block has this key


class RedisStore(Store):
    """Blocks in one hash on a Redis server (``pip install 'mta-windows[redis]'``).

    Each batch is one ``MULTI`` … ``EXEC``; all blocks of a store are in the hash `name`, so several
    stores share a server, and deleting the hash deletes the store. Values carry a CRC-32, because
    the append-only file has none. Nothing but this store should write to the hash: no two processes
    may have it open at once, which Redis does not enforce.

    The server must keep what it is sent, and this is looked up when the store is opened: the
    append-only file is on (``appendonly yes``), the server does not throw keys away when its memory
    is full (``maxmemory-policy noeviction`` or ``volatile-…``), and it either forces the file to
    the disk before it answers (``appendfsync always``), or has ``WAITAOF`` (Redis 7.2). `flush`
    then waits for the next time the server does so by itself, up to a second with ``everysec``.
    kill −9 of this process never loses an answered write.

    Costs: a round trip a call, whatever the batch; memory of the server for all blocks.

    Parameters
    ----------
    url
        ``redis://host:port/database``, ``rediss://…`` with TLS, or ``unix://path``.
    name
        The hash.
    durable
        False takes any server, and `flush` then promises only what that server does.
    timeout
        Seconds to wait for the server, after which a call raises `StoreError`.

    Raises
    ------
    ImportError
        The package ``redis`` is not installed.
    StoreError
        The server can't be reached, or does not keep what it is sent.

    >>> RedisStore("redis://127.0.0.1:1/0", timeout=0.1)
    Traceback (most recent call last):
    mta.errors.StoreError: RedisStore('redis://127.0.0.1:1/0'): open: ...
    """

    kind: ClassVar[str] = "redis"

    def __init__(
        self, url: str, *, name: str = "mta", durable: bool = True, timeout: float = 10.0
    ) -> None:
        redis = package("redis", "RedisStore")
        super().__init__(url.rpartition("@")[2] if "@" in url else url)  # without the password
        self._name = name
        self._timeout = timeout
        self._waits = False
        with self._saying("open", ()):
            self._client = redis.Redis.from_url(
                url, socket_timeout=timeout, socket_connect_timeout=timeout
            )
            self._client.ping()
            if durable:
                self._check_durable(redis.ResponseError)

    def _check_durable(self, refused: type[Exception]) -> None:
        try:
            settings = self._client.config_get("append*", "maxmemory*")
        except refused as error:
            raise StoreError(
                f"{self!r}: open: the server does not tell whether it keeps what it is sent "
                f"({error}); durable=False takes it as it is"
            ) from error
        if settings["appendonly"] != "yes":
            raise self._lossy("appendonly", settings, "yes")
        bounded = settings["maxmemory"] != "0"
        if bounded and settings["maxmemory-policy"].startswith("allkeys"):
            raise self._lossy("maxmemory-policy", settings, "noeviction")
        self._waits = settings["appendfsync"] != "always"
        try:
            if self._waits:
                self._client.execute_command("WAITAOF", 0, 0, 1)
        except refused:
            raise self._lossy("appendfsync", settings, "always") from None

    def _lossy(self, setting: str, settings: dict[str, str], needed: str) -> StoreError:
        return StoreError(
            f"{self!r}: open: the server has {setting} {settings[setting]}, which may lose blocks; "
            f"set it to {needed}, or pass durable=False to take it as it is"
        )

    def _get(self, key: bytes) -> bytes | None:
        return without_checksum(repr(self), key, self._client.hget(self._name, key))

    def _get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        values = self._client.hmget(self._name, list(keys))
        return [
            without_checksum(repr(self), key, value)
            for key, value in zip(keys, values, strict=True)
        ]

    def _write(self, batch: dict[bytes, bytes | None]) -> None:
        puts = {k: with_checksum(k, v) for k, v in batch.items() if v is not None}
        gone = [k for k, v in batch.items() if v is None]
        with self._client.pipeline(transaction=bool(puts and gone)) as pipeline:
            if puts:
                pipeline.hset(self._name, mapping=puts)
            if gone:
                pipeline.hdel(self._name, *gone)
            pipeline.execute()

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        keys: list[Any] = self._client.hkeys(self._name)
        return [key for key in keys if key != _FLUSHES and key.startswith(prefix)]

    def _flush(self) -> None:
        if self._waits:
            # WAITAOF waits for what its own connection wrote, and so for all that came before.
            milliseconds = int(self._timeout * 900)
            with self._client.pipeline(transaction=False) as pipeline:
                pipeline.hincrby(self._name, _FLUSHES, 1)
                pipeline.execute_command("WAITAOF", 1, 0, milliseconds)
                local, _ = pipeline.execute()[1]
            if not local:
                raise StoreError(f"{self!r}: flush: not on the disk after {milliseconds} ms")
        else:
            self._client.ping()

    def _close(self) -> None:
        self._client.close()
