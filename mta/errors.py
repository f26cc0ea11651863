"""What can go wrong, as types. Every message names the argument or the column, and the row."""

from typing import Any


class MtaError(Exception):
    """Base of every error that this package raises on purpose."""


class SpecError(MtaError, ValueError):
    """A window, aggregate or policy was described in a way that has no meaning."""


class DataError(MtaError, ValueError):
    """The input can't be interpreted; nothing has been computed."""


class ColumnError(DataError, KeyError):
    """A column that the spec names is not in the input."""

    def __str__(self) -> str:
        # KeyError would show the repr of the message.
        return str(self.args[0]) if self.args else ""


class SnapshotError(MtaError, ValueError):
    """Bytes that are not a whole snapshot of this very state."""


class PolicyError(MtaError, ValueError):
    """A window policy broke its contract; the window is as it was before the call."""


class StoreError(MtaError, OSError):
    """A store could not do what it was asked; the message names the store, the call and the key.

    `answers` are those that were made before, where the ``slide`` of a window was cut short.
    """

    answers: Any = None


class DamageError(StoreError):
    """What a store holds is not what was written; it is refused, never handed out."""
