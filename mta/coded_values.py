"""CodedValues: texts and bytes that answers are taken from, as codes, which fit into blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._frames_bytes import bytes_frame, frame_bytes
from mta.errors import SpecError
from mta.frames import Column, Frame
from mta.rows import Chunk

_Ints = NDArray[np.int64]
_FEW = 1024  # values of which none is forgotten


class CodedValues:
    """Of one track: which code each value has, and the values as the frame has them.

    Memory: every distinct value that the rows of the window have, and as many again that have left.
    """

    def __init__(self) -> None:
        self.columns: dict[str, CodedColumn] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the values and their codes, about."""
        return sum(column.nbytes for column in self.columns.values())

    def chunk(self, chunk: Chunk) -> Chunk:
        """The same rows with codes for values without an 8-byte form.

        Raises
        ------
        SpecError
            There are values that are neither texts nor bytes.
        """
        taken = {name: chunk.columns[name] for name in chunk.taken}
        coded = {
            name: self._known(name).coded(column, chunk.rows, chunk.frame)
            for name, column in taken.items()
            if column.values is None
        }
        return chunk._replace(columns={**chunk.columns, **coded}) if coded else chunk

    def _known(self, name: str) -> CodedColumn:
        return self.columns.setdefault(name, CodedColumn())

    def types(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Columns of these types, with codes where they have some here."""
        return {
            name: column._replace(values=np.zeros(0, np.int64)) if name in self.columns else column
            for name, column in columns.items()
        }

    def decoded(self, column: Column, frame: Frame) -> Column:
        """The values that stand behind codes; another column stays as it is."""
        known = self.columns.get(column.name)
        return column if known is None else known.decoded(column, frame)

    def forget_the_gone(self, rows: int, live: Callable[[str], _Ints], frame: Frame) -> None:
        """Forget what no row has, once most values have gone. Amortised O(1) a row.

        rows : how many there are
        live : the codes that a column has in them
        """
        for name, column in self.columns.items():
            if len(column.known) > _FEW + 2 * rows:
                column.forget_all_but(live(name), frame)

    def to_parts(self, frame: Frame | None) -> list[bytes]:
        """All that is known: for `fill`.

        Raises
        ------
        SnapshotError
            pyarrow is missing.
        """
        parts = [str(len(self.columns)).encode()]
        for name, column in self.columns.items():
            assert frame is not None  # of the rows that had these values
            parts += [name.encode(), *column.to_parts(frame)]
        return parts

    def fill(self, parts: Iterator[bytes], frame: Frame | None) -> None:
        """Take what `to_parts` gave.

        Raises
        ------
        ValueError, SnapshotError
            It is damaged.
        """
        for _ in range(int(next(parts))):
            assert frame is not None
            self._known(next(parts).decode()).fill(parts, frame)


class CodedColumn:
    """Of one column: its values, each with a code, in the order in which they came.

    A value that was forgotten and comes again gets a new code.
    """

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}
        self._next = 0
        # Values as the frame has them, in pieces that are twice as long as the next at least; the
        # first of all is any value, for rows that have none.
        self._pieces: list[tuple[int, Any]] = []  # how many there are, and they
        self._codes: list[_Ints] = []  # of the values of each piece
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the values and their codes, about."""
        return 2 * self._bytes + getsizeof(self.known)

    def coded(self, column: Column, rows: int, frame: Frame) -> Column:
        """The column as codes."""
        values = frame.list_native(column.native, np.arange(rows))
        codes = np.full(rows, -1, np.int64)
        marks = np.ones(rows, np.bool_) if column.valid is None else column.valid
        counted, new = np.flatnonzero(marks).tolist(), []
        for row in counted:
            if not isinstance(values[row], (str, bytes)):
                raise _refused(column, values[row])
        for row in counted:
            code = self.known.get(values[row])
            if code is None:
                code = self._learn(values[row])
                new.append(row)
            codes[row] = code
        self._keep(new if self._pieces or not rows else [0, *new], column.native, frame)
        return column._replace(values=codes, native=None)

    def _learn(self, value: Any) -> int:
        code = self.known[value] = self._next
        self._next += 1
        self._bytes += getsizeof(value) + getsizeof(0)
        return code

    def _keep(self, rows: list[int], native: Any, frame: Frame) -> None:
        """The values in these rows are those that were learnt last."""
        if rows:
            codes = np.arange(self._next - len(rows), self._next)
            if not self._pieces:
                codes[0] = -1
            self._pieces.append((len(rows), frame.take_native(native, np.array(rows))))
            self._codes.append(codes)
        while len(self._pieces) > 1 and 2 * self._pieces[-1][0] > self._pieces[-2][0]:
            (before, old), (after, new) = self._pieces[-2:]
            self._pieces[-2:] = [(before + after, frame.join_natives(old, new))]
            self._codes[-2:] = [np.concatenate(self._codes[-2:])]

    def decoded(self, column: Column, frame: Frame) -> Column:
        """The values that stand behind codes."""
        assert column.values is not None
        codes = column.values.view(np.int64)
        if column.valid is not None:
            codes = np.where(column.valid, codes, -1)
        wanted, at = np.unique(codes, return_inverse=True)
        native = frame.take_native(self._natives(wanted, frame), at)
        return column._replace(values=None, native=native)

    def _natives(self, codes: _Ints, frame: Frame) -> Any:
        """The values of these codes, which ascend and are known, or are -1."""
        found = []
        for mine, (_, native) in zip(self._codes, self._pieces, strict=True):
            here = codes[(codes >= mine[0]) & (codes <= mine[-1])]
            if len(here):
                found.append(frame.take_native(native, mine.searchsorted(here)))
        return reduce(frame.join_natives, found)

    def forget_all_but(self, live: _Ints, frame: Frame) -> None:
        """Drop the values whose codes no row has any more."""
        codes = np.concatenate(self._codes)
        kept = np.flatnonzero(np.isin(codes, live))
        kept = kept if len(kept) and kept[0] == 0 else np.insert(kept, 0, 0)
        native = reduce(frame.join_natives, [native for _, native in self._pieces])
        self._pieces = [(len(kept), frame.take_native(native, kept))]
        self._codes = [codes[kept]]
        numbers = set(live.tolist())
        self.known = {value: code for value, code in self.known.items() if code in numbers}
        self._bytes = sum(getsizeof(value) + getsizeof(0) for value in self.known)

    def to_parts(self, frame: Frame) -> list[bytes]:
        """All that is known: for `fill`."""
        if not self._pieces:
            return [b"0", b"", b""]
        native = reduce(frame.join_natives, [native for _, native in self._pieces])
        codes = np.concatenate(self._codes)
        return [str(self._next).encode(), codes.tobytes(), frame_bytes(frame.one_column(native))]

    def fill(self, parts: Iterator[bytes], frame: Frame) -> None:
        """Take what `to_parts` gave."""
        self._next, codes, data = (
            int(next(parts)),
            np.frombuffer(next(parts), np.int64),
            next(parts),
        )
        if not len(codes):
            return
        known = bytes_frame(data)
        if known.rows != len(codes) or codes[0] != -1:
            raise ValueError(f"{known.rows} values have {len(codes)} codes")
        native = known.column(known.names()[0]).native
        self._pieces, self._codes = [(len(codes), native)], [codes]
        values = frame.list_native(native, np.arange(1, len(codes)))
        self.known = dict(zip(values, codes[1:].tolist(), strict=True))
        self._bytes = sum(getsizeof(value) + getsizeof(0) for value in self.known)


def _refused(column: Column, value: Any) -> SpecError:
    return SpecError(
        f"memory: values of column {column.name!r} ({column.dtype}) can't be kept on a store; "
        f"numbers, booleans, times, texts and bytes can, not {type(value).__name__}"
    )
