"""Blocks in this process's memory: for tests, and for windows that are to stay there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mta.stores.base import Store


class MemoryStore(Store):
    """Blocks in a dict.

    Nothing of it outlives the process or `close`, so `flush` promises nothing. A call costs below
    2 µs; values are kept by reference, not copied.

    >>> store = MemoryStore()
    >>> store.put_many({b"a": b"block", b"b": b"other"})
    >>> store.get(b"a"), store.get(b"c"), list(store.keys())
    (b'block', None, [b'a', b'b'])
    """

    kind: ClassVar[str] = "memory"
    local: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__("memory")
        self._values: dict[bytes, bytes] = {}

    def _get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def _write(self, batch: dict[bytes, bytes | None]) -> None:
        for key, value in batch.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        return [key for key in list(self._values) if key.startswith(prefix)]

    def _flush(self) -> None:
        pass

    def _close(self) -> None:
        self._values.clear()
