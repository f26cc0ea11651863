"""What every store of blocks is: one small interface, its checks, and how it says what failed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any, ClassVar, Literal, get_args

from mta.errors import DataError, SpecError, StoreError

LONGEST_KEY = 511  # bytes; what LMDB takes
LARGEST_VALUE = 1 << 28  # bytes; Redis takes 512 MiB, and a block is some 64 KiB

Changes = Mapping[bytes, bytes | None]
"""A batch: a value for each key, or None for a key that goes."""

Sync = Literal["write", "flush", "never"]
"""When a store forces its disk: at every write, at `Store.flush`, or never."""


class Store(ABC):
    """Values by key, outside of the window's memory.

    A value is a block, bytes of some 64 KiB; a key is 1 to 511 bytes. What all stores promise:

    - A batch (`write`, `put_many`, `delete_many`) is atomic: after a crash all of it is there, or
      nothing. What is there after a crash is what was there after some batch, and no batch before
      the last `flush` is missing.
    - `flush` is the promise of durability: once it has returned, everything written before
      survives the death of the process (kill −9) and, as far as the store's ``sync`` says so,
      of the machine. `close` flushes too.
    - A value is handed out as it was written, or `DamageError` is raised.
    - A call that fails raises `StoreError` with the store, the call, the key and the engine's own
      message, and has changed nothing, or all of it where an answer got lost on the way.
    - Several threads may share a store. A reader may see a batch of another thread in part.

    A store is a context manager; leaving it closes it.
    """

    kind: ClassVar[str]
    local: ClassVar[bool] = False
    """Blocks are in this machine's memory as a rule, and read faster than a thread is woken."""
    quick: bool = False
    """A write is done as soon as it would be in line for a thread: it is copied to memory, where
    the system or the engine keeps it, and waits for no disk."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._open = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r}{'' if self._open else ', closed'})"

    def get(self, key: bytes) -> bytes | None:
        """The value of `key`, or None if there is none.

        Raises
        ------
        StoreError
            The store can't be read; `DamageError` if the value is not what was written.
        """
        wanted = _checked_keys((key,))
        try:
            self._check_open("get")
            return self._get(key)
        except StoreError:
            raise
        except Exception as error:
            raise self._failure("get", wanted, error) from error

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; one round trip where the engine has that."""
        wanted = _checked_keys(keys)
        try:
            self._check_open("get")
            return self._get_many(wanted)
        except StoreError:
            raise
        except Exception as error:
            raise self._failure("get", wanted, error) from error

    def put(self, key: bytes, value: bytes) -> None:
        """Gives `key` this value; what it had before is gone."""
        self.write({key: value})

    def put_many(self, values: Mapping[bytes, bytes]) -> None:
        """Gives each key its value, as one atomic batch."""
        self.write(values)

    def delete(self, key: bytes) -> None:
        """Takes `key` out; nothing happens if it is not there."""
        self.write({key: None})

    def delete_many(self, keys: Iterable[bytes]) -> None:
        """Takes all `keys` out, as one atomic batch."""
        self.write(dict.fromkeys(keys))

    def write(self, changes: Changes) -> None:
        """Puts and deletes, as one atomic batch.

        Parameters
        ----------
        changes
            A value for each key, or None for a key that is to go.

        Raises
        ------
        StoreError
            The store did not take them.
        """
        keys = _checked_keys(changes)
        batch = {key: _checked_value(key, changes[key]) for key in keys}
        try:
            self._check_open("write")
            if batch:
                self._write(batch)
        except StoreError:
            raise
        except Exception as error:
            raise self._failure("write", keys, error) from error

    def keys(self, prefix: bytes = b"") -> Iterator[bytes]:
        """All keys that begin with `prefix`, ascending. For recovery: O(keys) time and memory."""
        with self._saying("keys", (prefix,) if prefix else ()):
            found = sorted(self._keys(prefix))
        return iter(found)

    def flush(self) -> None:
        """Returns when all that was written before is durable.

        Raises
        ------
        StoreError
            It is not; what was flushed before still is.
        """
        with self._saying("flush", ()):
            self._flush()

    def close(self) -> None:
        """Flushes and lets go of files, locks and connections; a second close does nothing."""
        if not self._open:
            return
        try:
            self.flush()
        finally:
            self._open = False
            with self._saying("close", (), closing=True):
                self._close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _saying(self, call: str, keys: Sequence[bytes], *, closing: bool = False) -> Iterator[None]:
        if not closing:
            self._check_open(call)
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            raise self._failure(call, keys, error) from error

    # (What is called for every block does without a context manager, which takes 1 µs.)

    def _check_open(self, call: str) -> None:
        if not self._open:
            raise StoreError(f"{self!r}: {call}: the store is closed")

    def _failure(self, call: str, keys: Sequence[bytes], error: Exception) -> StoreError:
        """What says that a call has failed."""
        which = f" {named(keys)}" if keys else ""
        return StoreError(f"{self!r}: {call}{which}: {str(error) or type(error).__name__}")

    @abstractmethod
    def _get(self, key: bytes) -> bytes | None: ...

    def _get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._get(key) for key in keys]

    @abstractmethod
    def _write(self, batch: dict[bytes, bytes | None]) -> None: ...

    @abstractmethod
    def _keys(self, prefix: bytes) -> Iterable[bytes]: ...

    @abstractmethod
    def _flush(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


def named(keys: Sequence[bytes]) -> str:
    """The first of `keys`, and how many others there are, for messages."""
    others = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return f"{keys[0]!r}{others}"


def checked_sync(sync: str) -> str:
    """`sync`, if it is one of the three.

    Raises
    ------
    SpecError
        It is not.
    """
    if sync not in get_args(Sync):
        raise SpecError(f"sync: {sync!r} is none of {', '.join(map(repr, get_args(Sync)))}")
    return sync


def package(name: str, store: str) -> Any:
    """The package `name`, which the store called `store` needs.

    Raises
    ------
    ImportError
        It is not installed; the message says how to get it.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{store} needs the package {name}: pip install 'mta-windows[{name}]'"
        ) from error


def _checked_keys(keys: Iterable[bytes]) -> list[bytes]:
    checked = list(keys)
    for key in checked:
        if not isinstance(key, bytes):
            raise DataError(f"a key of a store is bytes, not {type(key).__name__}: {key!r}")
        if not 0 < len(key) <= LONGEST_KEY:
            raise DataError(
                f"a key of a store has 1 to {LONGEST_KEY} bytes, not {len(key)}: {key[:40]!r}"
            )
    return checked


def _checked_value(key: bytes, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        checked = value
    elif isinstance(value, (bytearray, memoryview)):
        checked = bytes(value)
    else:
        raise DataError(f"the value of {key!r} is bytes, not {type(value).__name__}")
    if checked is not None and len(checked) > LARGEST_VALUE:
        raise DataError(
            f"the value of {key!r} has {len(checked):,} bytes, {LARGEST_VALUE:,} at most"
        )
    return checked
