"""OneBatch: what several parts of one state write to a store, as one atomic batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from mta.stores import Store


class OneBatch(Store):
    """A store whose writes can be held back, to go to another one together.

    Within `together` nothing is written; at its end everything is, as one batch. Should that fail,
    it stays here: it is read from here as if it were written, and goes with the next batch. So what
    has written it need not write it again.

    Memory: what is held back.

    >>> from mta.stores import MemoryStore
    >>> below = MemoryStore()
    >>> store = OneBatch(below)
    >>> with store.together():
    ...     store.put(b"a", b"1")
    ...     below.get(b"a"), store.get(b"a")
    (None, b'1')
    >>> below.get(b"a"), store.bytes_written
    (b'1', 1)
    """

    kind: ClassVar[str] = "one batch"

    def __init__(self, store: Store) -> None:
        super().__init__(store.where)
        self.store = store
        self.bytes_written = self.bytes_read = 0
        self._held: dict[bytes, bytes | None] = {}
        self._holds = False
        below: Any = store
        if hasattr(store, "prefetch"):
            self.prefetch = below.prefetch

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written within goes as one batch; nothing of it does where it is cut short."""
        before, self._holds = dict(self._held), True
        try:
            yield
        except BaseException:
            self._held = before
            raise
        finally:
            self._holds = False
        self._write({})

    @property
    def waiting(self) -> int:
        """Bytes that are held back."""
        return sum(len(value or b"") for value in self._held.values())

    def _get(self, key: bytes) -> bytes | None:
        value = self._held[key] if key in self._held else self.store.get(key)
        self.bytes_read += len(value or b"")
        return value

    def _get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._get(key) for key in keys]

    def _write(self, batch: dict[bytes, bytes | None]) -> None:
        if self._holds:
            self._held.update(batch)
            return
        every = {**self._held, **batch}
        self.store.write(every)
        self.bytes_written += sum(len(value or b"") for value in every.values())
        self._held = {}

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        gone = {key for key, value in self._held.items() if value is None}
        held = {key for key in self._held if key.startswith(prefix)}
        return ({*self.store.keys(prefix)} | held) - gone

    def _flush(self) -> None:
        if self._held:
            self._write({})
        self.store.flush()

    def _close(self) -> None:
        """The store below belongs to another."""
