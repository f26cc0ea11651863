"""Groups: numbers of the keys of a stream, and the keys of these numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mta._frames_bytes import bytes_frame, frame_bytes
from mta._groups import Codes
from mta.errors import DataError
from mta.frames import Answer, Column, Frame, open_frame
from mta.push import key_column, key_values
from mta.rows import first_rows
from mta.slider import taken_answer
from mta.snapshot import key_of, plain_key

Ints = NDArray[np.int64]


def make_groups(by: tuple[str, ...], frame: Frame) -> Groups:
    """The groups of rows like these."""
    if len(by) == 1:
        column = frame.column(by[0])
        if column.values is not None and column.kind != "null":
            return ValueGroups(by, frame)
    return RowGroups(by, frame)


class Groups:
    """Codes 0, 1, … of keys, in the order in which they first came.

    A key that is forgotten and comes again gets a new code.
    """

    by: tuple[str, ...]
    example: Frame  # for the kind of frame

    def codes(self, frame: Frame) -> Ints:
        """Of every row."""
        raise NotImplementedError

    def code(self, key: tuple[Any, ...]) -> int | None:
        """Of one key, as `key_values` gives it; None: it is not known."""
        keys = self.key_values(np.arange(len(self)))
        return keys.index(key) if key in keys else None

    def __len__(self) -> int:
        raise NotImplementedError

    def keys(self, codes: Ints) -> list[Answer]:
        """The key columns of these groups."""
        raise NotImplementedError

    def key_values(self, codes: Ints) -> list[tuple[Any, ...]]:
        """The keys of these groups as tuples, no two of which are equal."""
        raise NotImplementedError

    def rows_of(self, codes: Ints) -> Any:
        """The keys of these groups as data, of the kind and with the types that came in."""
        data = self.example.build_numbered(self.keys(codes), np.arange(len(codes)))
        for answer in self.keys(codes) if isinstance(data, dict) else []:
            if answer.valid is not None and answer.values.dtype.kind in "iuf":
                # (An answer would have NaN for null.)
                plain = self.example.build_numbered([answer._replace(valid=None)], codes)
                data[answer.name] = np.ma.MaskedArray(plain[answer.name], ~answer.valid)
        return data

    def codes_of_keys(self, rows: Any, groups: int) -> Ints:
        """The codes of so many keys, as `rows_of` of other groups gave them."""
        if self.by:
            return self.codes(open_frame(rows))
        self.codes(self.example)
        return np.zeros(groups, np.int64)

    def renumber(self, new: NDArray[np.int32]) -> None:
        """Give group i the code new[i], none of which is greater than i; -1: forget it."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes held, or nearly so."""
        raise NotImplementedError

    def to_parts(self) -> list[bytes]:
        """All keys as bytes; `fill` of new groups of the same columns takes them."""
        raise NotImplementedError

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave. ValueError: it is damaged."""
        raise NotImplementedError


class ValueGroups(Groups):
    """Groups by one column of 8-byte values: 12 to 19 bytes a group."""

    def __init__(self, by: tuple[str, ...], frame: Frame) -> None:
        self.by, self.example = by, frame
        self.like = frame.column(by[0]).slice(0, 0)
        self._codes = Codes()

    def codes(self, frame: Frame) -> Ints:
        column = frame.column(self.by[0])
        if column.kind == "null":
            nulls = np.zeros(frame.rows, np.int64)
            return self._codes.of(nulls, np.zeros(frame.rows, np.uint8))
        if (column.kind, column.unit) != (self.like.kind, self.like.unit) or column.values is None:
            raise DataError(
                f"by: column {column.name!r} was {self.like.dtype} and now is {column.dtype}"
            )
        values = column.values
        if column.kind == "float":  # one zero and one NaN, whatever their bits
            values = np.where(np.isnan(values), np.nan, values + 0.0)
        valid = None if column.valid is None else column.valid.view(np.uint8)
        return self._codes.of(np.ascontiguousarray(values).view(np.int64), valid)

    def __len__(self) -> int:
        return self._codes.n

    def keys(self, codes: Ints) -> list[Answer]:
        assert self.like.values is not None
        values = self._codes.values[codes].view(self.like.values.dtype)
        valid = None if self._codes.null < 0 else codes != self._codes.null
        if valid is not None and values.dtype.kind == "f":
            values = np.where(valid, values, np.nan)
        return [Answer(self.by[0], values, valid, self.like)]

    def key_values(self, codes: Ints) -> list[tuple[Any, ...]]:
        (answer,) = self.keys(codes)
        column = self.like._replace(values=answer.values, valid=answer.valid)
        return [(value,) for value in key_column(column, self.example, np.arange(len(codes)))]

    def renumber(self, new: NDArray[np.int32]) -> None:
        self._codes.renumber(new)

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes

    def to_parts(self) -> list[bytes]:
        return [np.int64(self._codes.null).tobytes(), self._codes.values.tobytes()]

    def fill(self, parts: list[bytes]) -> None:
        null, values = int(np.frombuffer(parts[0], np.int64)[0]), np.frombuffer(parts[1], np.int64)
        valid = np.arange(len(values)) != null
        codes = self._codes.of(values, valid.view(np.uint8))
        if (codes != np.arange(len(values))).any():
            raise ValueError("a key is there twice")


class RowGroups(Groups):
    """Groups by columns of any kind, or by none: a row of each is kept, and a Python object."""

    def __init__(self, by: tuple[str, ...], frame: Frame) -> None:
        self.by, self.example = by, frame
        self.codes_of: dict[tuple[Any, ...], int] = {}
        self.rows = self._take(frame, np.zeros(0, np.int64))  # one per code, of the key columns
        self._columns: list[Column] | None = None  # of them
        self._keys: list[tuple[Any, ...]] = []  # by code, as many as were known when last asked

    def codes(self, frame: Frame) -> Ints:
        if not self.by:
            self.codes_of.setdefault((), 0)
            return np.zeros(frame.rows, np.int64)
        if not frame.rows:
            return np.zeros(0, np.int64)
        dense, count = frame.key_codes(self.by)
        firsts = first_rows(dense, count)
        known = np.empty(count, np.int64)
        new: list[int] = []
        for i, key in enumerate(key_values(frame, self.by, firsts)):
            code = self.codes_of.setdefault(key, len(self.codes_of))
            known[i] = code
            if code == len(self) + len(new):
                new.append(i)
        if new:
            held = len(self)
            try:
                self._append(frame, firsts[new])
            except Exception:
                self.codes_of = {key: code for key, code in self.codes_of.items() if code < held}
                raise
        return known[dense]

    def rows_of(self, codes: Ints) -> Any:
        return open_frame(self.rows).take(codes) if self.by else None

    def _take(self, frame: Frame, rows: Ints) -> Any:
        return open_frame(frame.select(list(self.by))).take(rows) if self.by else None

    def code(self, key: tuple[Any, ...]) -> int | None:
        return self.codes_of.get(key)

    def _append(self, frame: Frame, firsts: Ints) -> None:
        more = self._take(frame, firsts)
        self._columns = None
        try:
            self.rows = open_frame(more).join([self.rows, more]) if len(self) else more
        except Exception as error:
            raise DataError(f"by: the keys are not of the types of before ({error})") from None

    def __len__(self) -> int:
        if not self.by:
            return len(self.codes_of)
        return open_frame(self.rows).rows

    def keys(self, codes: Ints) -> list[Answer]:
        if not self.by:
            return []
        if self._columns is None:  # answers of the same columns are easy to put together
            frame = open_frame(self.rows)
            self._columns = [frame.column(name) for name in self.by]
        return [taken_answer(column.name, column, codes) for column in self._columns]

    def key_values(self, codes: Ints) -> list[tuple[Any, ...]]:
        if len(self._keys) != len(self.codes_of):
            self._keys = list(self.codes_of)
        return [self._keys[code] for code in codes.tolist()]

    def renumber(self, new: NDArray[np.int32]) -> None:
        kept = [(key, int(new[code])) for key, code in self.codes_of.items() if new[code] >= 0]
        self.codes_of, self._keys = dict(kept), []
        if self.by:
            self.rows = open_frame(self.rows).take(np.flatnonzero(new >= 0))
            self._columns = None

    @property
    def nbytes(self) -> int:
        return len(self.codes_of) * (100 + 60 * len(self.by))

    def to_parts(self) -> list[bytes]:
        # (Keys that differ may not do so in the rows: NaN and null in pandas.)
        keys = json.dumps([plain_key(key) for key in self.codes_of]).encode()
        return [keys, frame_bytes(open_frame(self.rows))] if self.by else [keys]

    def fill(self, parts: list[bytes]) -> None:
        keys = [key_of(key) for key in json.loads(parts[0])]
        self.codes_of = {key: code for code, key in enumerate(keys)}
        if self.by:
            frame = bytes_frame(parts[1])
            self.rows = frame.take(np.arange(frame.rows))
            if len(keys) != frame.rows:
                raise ValueError("keys and their rows are not as many")
        if len(self.codes_of) != len(keys):
            raise ValueError("a key is there twice")
