"""A store whose writes and read-aheads happen on threads of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from threading import Condition, RLock, Thread
from typing import ClassVar

from mta.errors import SpecError, StoreError
from mta.stores.base import Store
from mta.stores.cache import BlockCache

_WRITTEN_AT_ONCE = 64  # blocks in one call of the store, about: batches are joined up to here
_READ_AT_ONCE = 16
_GATHERED = 8  # blocks that are worth waking a thread for, and
_LINGERING = 0.02  # seconds that fewer may wait for others
_READS_LINGERING = 0.005  # the same of reads, where the store is local


class BackgroundStore(Store):
    """Any store, written in the background.

    `write` and its kin put a batch into a buffer and return; a thread brings the batches to the
    store, in their order, joined into larger ones; a few blocks linger some 20 ms for others. The
    calls wait only while the buffer is full; if the store is `local`, they then write it
    themselves, which takes less than to wake a thread. What is in the buffer is found by `get`. A
    batch stays atomic. A store that is `quick` needs no buffer: the caller writes to it at once,
    and its errors are raised by that call.

    `flush` returns when all batches of before are written and the store has flushed. If the store
    fails, its error is raised by the next call, which then has done nothing else; no batch leaves
    the buffer before the store has taken it, and the store is tried again after that. So a failure
    that passes costs nothing, and one that stays is raised by every second call or so, while reads
    go on. A full buffer never waits for a store that fails.

    `prefetch` has blocks read ahead on a second thread, into a `BlockCache`; `get` hands each of
    them out once, and reads from the store itself where they have not arrived. Of a store that is
    `local`, few blocks linger some 5 ms for others: who needs one sooner has it sooner without a
    thread. An error of reading ahead is not raised: whoever asks for the block meets it.

    Costs: a write is a few µs of the caller's time; memory is bounded by `buffer` blocks and
    `ahead` bytes (a batch larger than the buffer is taken when the buffer is empty). The threads
    start when they are first needed, and don't keep the process alive: close the store.

    Parameters
    ----------
    store
        Where the blocks go; it is flushed and closed with this one.
    buffer
        How many blocks may wait, at most.
    room
        More of them may, as long as they are not more bytes than this.
    ahead
        How many bytes of blocks may be held that were read ahead.

    >>> from mta.stores import MemoryStore
    >>> with BackgroundStore(MemoryStore()) as store:
    ...     store.put(b"block 1", b"abc")
    ...     found = store.get(b"block 1")   # wherever it is by now
    ...     store.flush()                   # it is in the store, and that has flushed
    >>> found
    b'abc'
    """

    kind: ClassVar[str] = "background"

    def __init__(
        self, store: Store, *, buffer: int = 512, room: int = 0, ahead: int = 16 << 20
    ) -> None:
        super().__init__(store.where)
        if buffer < 1:
            raise SpecError(f"buffer: at least one block has to have room, not {buffer}")
        self.store = store
        self._limit, self._room = buffer, room
        self._gathered = min(_GATHERED, buffer)
        # One lock guards all below, and is never held while the store is at work. What is waited
        # for is told apart, so that nobody is woken for nothing.
        lock = RLock()
        self._changed = Condition(lock)  # batches were written, or could not be
        self._to_write = Condition(lock)
        self._to_read = Condition(lock)
        self._hurrying = 0  # callers that wait for the writer
        self._batches: deque[dict[bytes, bytes | None]] = deque()  # not yet with the store
        self._newest: dict[bytes, tuple[bytes | None, int]] = {}  # by key; and in how many batches
        self._waiting = self._held = 0  # blocks in all batches, and bytes
        self._writes_linger = self._reads_linger = False  # a thread waits for more to do
        self._came = self._went = 0  # how many batches, ever
        self._error: Exception | None = None  # not raised yet; nothing is written meanwhile
        self._at_work = False  # a thread is writing
        self._stopping = False
        self._ahead = BlockCache(ahead)
        self._wanted: dict[bytes, int] = {}  # to be read ahead, by turn
        self._turn = 0
        self._threads: dict[str, Thread] = {}

    def prefetch(self, keys: Iterable[bytes]) -> None:
        """Has the blocks of `keys` read ahead; returns at once.

        Parameters
        ----------
        keys
            In the order in which they will be asked for, all after those of earlier calls. Where
            room is short, what is asked for last is not kept.

        Raises
        ------
        StoreError
            An earlier write has failed.
        """
        wanted = list(keys)
        self._check_open("prefetch")
        with self._changed:
            self._raise_error()
            for key in wanted:
                self._turn += 1
                self._want(key, self._turn)
            self._start("reader", self._read_ahead)
            if not self._reads_linger or len(self._wanted) >= _GATHERED:
                self._to_read.notify()

    def _want(self, key: bytes, turn: int) -> None:
        if key not in self._newest:
            if key not in self._ahead:
                self._wanted.setdefault(key, turn)
            return
        # What the store has of this key is old, or is about to be.
        block, _ = self._newest[key]
        if block is not None:
            self._ahead.put(key, block, turn)

    @property
    def waiting(self) -> int:
        """How many blocks are in the buffer."""
        return self._waiting

    def _get(self, key: bytes) -> bytes | None:
        with self._changed:
            self._raise_error()
            if self._wanted:
                self._wanted.pop(key, None)
            ahead = self._ahead.pop(key)
            if key in self._newest:
                return self._newest[key][0]
        return self.store.get_many((key,))[0] if ahead is None else ahead

    def _get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found: dict[bytes, bytes | None] = {}
        with self._changed:
            self._raise_error()
            for key in keys:
                self._wanted.pop(key, None)
                ahead = self._ahead.pop(key)
                if key in self._newest:
                    found[key] = self._newest[key][0]
                elif ahead is not None:
                    found[key] = ahead
        # A key that was not in the buffer is in the store, if it is anywhere.
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        if missing:
            found.update(zip(missing, self.store.get_many(missing), strict=True))
        return [found[key] for key in keys]

    def _keys(self, prefix: bytes) -> Iterable[bytes]:
        with self._changed:
            self._raise_error()
            waiting = {key: value for key, (value, _) in self._newest.items()}
        keys = {key for key in self.store.keys(prefix) if waiting.get(key, b"") is not None}
        return keys.union(
            key for key, value in waiting.items() if value is not None and key.startswith(prefix)
        )

    def _write(self, batch: dict[bytes, bytes | None]) -> None:
        if self.store.quick:
            self.store.write(batch)
            self._forget_ahead(batch)
            return
        size = _bytes_of(batch)
        while not self._put_in_line(batch, size):
            self._write_some()

    def _forget_ahead(self, batch: dict[bytes, bytes | None]) -> None:
        """What was read ahead, or is just being read, may be from before this batch."""
        with self._changed:
            if self._wanted or len(self._ahead):
                for key in batch:
                    self._wanted.pop(key, None)
                    self._ahead.pop(key)

    def _put_in_line(self, batch: dict[bytes, bytes | None], size: int) -> bool:
        """False: there is no room, and who wants it is to write."""
        with self._changed:
            self._raise_error()
            while self._is_full(len(batch), size):
                if not self._wait():
                    return False
            self._batches.append(batch)
            self._came += 1
            self._waiting += len(batch)
            self._held += size
            for key, value in batch.items():
                self._newest[key] = value, self._newest.get(key, (None, 0))[1] + 1
                self._wanted.pop(key, None)
                self._ahead.pop(key)
            self._start("writer", self._write_behind)
            if not self._writes_linger or self._are_many():
                self._to_write.notify()
            return True

    def _is_full(self, blocks: int, size: int) -> bool:
        """Whether so much more has to wait for the writer."""
        full = self._waiting + blocks > self._limit and self._held + size > self._room
        return self._waiting > 0 and full

    def _wait(self) -> bool:
        """For the writer, who does not linger then. False: nobody is writing, and a local store has
        taken a batch sooner than a thread is woken for it."""
        if self.store.local and not self._at_work:
            return False
        self._hurrying += 1
        try:
            self._to_write.notify()
            self._changed.wait()
        finally:
            self._hurrying -= 1
        self._raise_error()
        return True

    def _flush(self) -> None:
        before = self._came
        while not self._is_written(before):
            self._write_some()
        self.store.flush()

    def _is_written(self, before: int) -> bool:
        """Whether so many batches have gone to the store. False: who wants that is to write."""
        with self._changed:
            self._raise_error()
            while self._went < before:
                if not self._wait():
                    return False
        return True

    def close(self) -> None:
        """Flushes, ends the threads and closes the store; a second close does nothing.

        Raises
        ------
        StoreError
            The store failed. This one is then still open: call again, or `abandon` it.
        """
        if self._open:
            self.flush()
            self.abandon()

    def abandon(self) -> None:
        """Ends the threads and closes the store, without what is still in the buffer."""
        self._open = False
        with self._changed:
            self._stopping = True
            self._to_write.notify()
            self._to_read.notify()
        for thread in self._threads.values():
            thread.join()
        self._ahead.clear()
        self._close()

    def _close(self) -> None:
        self.store.close()

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        finally:
            if self._open:
                self.abandon()

    def _raise_error(self) -> None:
        """Raises what the writer met; it goes on after that."""
        error, self._error = self._error, None
        if error is not None:
            self._to_write.notify()
            raise StoreError(f"in the background: {error}") from error

    # What the threads do.

    def _start(self, name: str, work: Callable[[], None]) -> None:
        if name not in self._threads:
            thread = Thread(target=work, name=f"mta-{name}", daemon=True)
            self._threads[name] = thread
            thread.start()

    def _write_behind(self) -> None:
        while True:
            with self._changed:
                self._to_write.wait_for(self._can_write)
                self._writes_linger = True
                self._to_write.wait_for(self._worth_it, _LINGERING)
                self._writes_linger = False
                if self._stopping:
                    return
            self._write_some()

    def _write_some(self) -> None:
        """The first batches, on this thread, unless another one is at it."""
        with self._changed:
            if self._at_work or not self._batches or self._error is not None:
                return
            self._at_work = True
            taken, together = self._joined()
        failure: Exception | None = StoreError("the write was interrupted")
        try:
            self.store.write(together)
            failure = None
        except Exception as error:
            failure = error
        finally:
            with self._changed:
                self._at_work = False
                if failure is None:
                    self._done(taken)
                self._error = failure
                self._changed.notify_all()
                if self._batches:
                    self._to_write.notify()

    def _can_write(self) -> bool:
        free = self._error is None and not self._at_work
        return self._stopping or bool(self._batches and free)

    def _worth_it(self) -> bool:
        return self._stopping or self._hurrying > 0 or self._are_many()

    def _are_many(self) -> bool:
        """Whether a thread is worth being woken for what waits. (Whoever fills the buffer of a
        local store writes it.)"""
        return self._waiting >= self._gathered and not self.store.local

    def _joined(self) -> tuple[int, dict[bytes, bytes | None]]:
        """The first batches as one, and how many they are; whole batches, so it stays atomic."""
        together: dict[bytes, bytes | None] = {}
        taken = 0
        for batch in self._batches:
            if taken and len(together) + len(batch) > _WRITTEN_AT_ONCE:
                break
            together.update(batch)
            taken += 1
        return taken, together

    def _done(self, taken: int) -> None:
        self._went += taken
        for _ in range(taken):
            batch = self._batches.popleft()
            self._waiting -= len(batch)
            self._held -= _bytes_of(batch)
            for key in batch:
                value, batches = self._newest[key]
                if batches == 1:
                    del self._newest[key]
                else:
                    self._newest[key] = value, batches - 1

    def _read_ahead(self) -> None:
        while True:
            with self._changed:
                self._to_read.wait_for(lambda: self._stopping or self._wanted)
                if self.store.local:
                    self._reads_linger = True
                    self._to_read.wait_for(
                        lambda: self._stopping or len(self._wanted) >= _GATHERED, _READS_LINGERING
                    )
                    self._reads_linger = False
                if self._stopping:
                    return
                keys = list(islice(self._wanted.items(), _READ_AT_ONCE))
            try:
                blocks = self.store.get_many(key for key, _ in keys)
            except Exception:  # met again by whoever asks for the block
                blocks = [None] * len(keys)
            with self._changed:
                for (key, turn), block in zip(keys, blocks, strict=True):
                    # If not: written, deleted or read by somebody else meanwhile.
                    if self._wanted.get(key) == turn:
                        del self._wanted[key]
                        if block is not None:
                            self._ahead.put(key, block, turn)


def _bytes_of(batch: dict[bytes, bytes | None]) -> int:
    return sum([len(value) for value in batch.values() if value is not None])
