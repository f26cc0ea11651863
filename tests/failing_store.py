"""A store that fails by plan, and what its user does then."""

from __future__ import annotations

from collections.abc import Callable

from mta.errors import StoreError
from mta.stores import MemoryStore


class FailingStore(MemoryStore):
    """Fails at calls of given numbers, before it does anything or after."""

    def __init__(self, *, before: set[int] = frozenset(), after: set[int] = frozenset()) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.calls = 0

    def _failing(self, call: Callable):
        self.calls += 1
        if self.calls in self.before:
            raise OSError(5, "the cable is out")
        answer = call()
        if self.calls in self.after:
            raise OSError(5, "no answer came")
        return answer

    def _get_many(self, keys):
        return self._failing(lambda: [self._values.get(key) for key in keys])

    def _write(self, batch):
        self._failing(lambda: MemoryStore._write(self, batch))

    def _flush(self):
        self._failing(lambda: None)


def until_it_works(call: Callable, check: Callable = lambda: None):
    """What a caller does that tries again, after a look at what it has; the error must name the
    store's own message."""
    for _ in range(50):
        try:
            return call()
        except StoreError as error:
            if "the cable is out" not in str(error) and "no answer came" not in str(error):
                raise
            check()
    raise AssertionError("it never works")
