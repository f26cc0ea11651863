"""From the columns of a frame to what kernels read: 8-byte values, codes, and which rows count."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mta._keys import factorize, filled_numbers
from mta._sketch_kernel import Items
from mta._vector import Vector
from mta.errors import DataError
from mta.frames import Column, Frame
from mta.items import check_items
from mta.plan import Feed, Input, Plan

Mask = NDArray[np.bool_]


def fed_values(column: Column, feed: Feed) -> NDArray[Any]:
    """The values, 0 where null or, where NaN is skipped, NaN."""
    assert column.values is not None  # check_types has seen to it
    if feed.skip_nan and column.kind == "float":
        return filled_numbers(column.values)
    return column.values


def value_codes(frame: Frame, column: Column) -> NDArray[np.int64]:
    """int64 codes, equal for equal values (NaN is one value, and so is zero)."""
    if column.values is None:
        codes, _ = frame.encode(column.name)
        return np.ascontiguousarray(codes).view(np.int64)
    values = column.values
    if column.kind == "float":
        values = np.where(np.isnan(values), np.nan, values + 0.0)
    return values.view(np.int64)


def first_rows(codes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The first row of every code, of which each of 0..count is there."""
    firsts = np.empty(count, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal places the last one stays
    return firsts


def distinct_values(
    frame: Frame, column: Column
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Any]]:
    """Of a column without 8-byte values: dense codes, the first row of each, and what it is."""
    codes = value_codes(frame, column)
    if column.valid is not None:
        codes = np.where(column.valid, codes, -1)  # nulls share a code with nothing else
    places, found = factorize(codes)
    firsts = first_rows(places, found)
    return places, firsts, frame.list_native(column.native, firsts)


def counted_rows(source: Input, columns: dict[str, Column]) -> Mask | None:
    """The rows in which no column is null (or, where NaN is skipped, NaN); None: all."""
    kept: Mask | None = None
    for name in source.columns:
        mask = _not_null(columns[name], source.skip_nan)
        if mask is not None:
            kept = mask if kept is None else kept & mask
    return kept


def _not_null(column: Column, skip_nan: bool) -> Mask | None:
    if not skip_nan or column.kind != "float" or column.values is None:
        return column.valid
    number = ~np.isnan(column.values)
    if column.valid is not None:
        number &= column.valid
    return None if number.all() else number


class Chunk(NamedTuple):
    """Some rows as the kernels of a plan read them.

    columns : of the plan; those in `taken`, which answers are taken from, with these rows, of the
        others only the types count
    frame : one of their kind
    """

    rows: int
    feeds: dict[Feed, NDArray[Any]]
    valids: dict[Input, Mask | None]
    columns: dict[str, Column]
    taken: tuple[str, ...]
    frame: Frame
    items: dict[Feed, Items | None]

    def slice(self, start: int, stop: int) -> Chunk:
        """The rows from `start` to before `stop`, without a copy."""
        return Chunk(
            stop - start,
            {feed: data[start:stop] for feed, data in self.feeds.items()},
            {s: None if v is None else v[start:stop] for s, v in self.valids.items()},
            self._with({name: self.columns[name].slice(start, stop) for name in self.taken}),
            self.taken,
            self.frame,
            self.items,
        )

    def take(self, rows: NDArray[np.int64]) -> Chunk:
        """Some of the rows, in this order."""
        return Chunk(
            len(rows),
            {feed: data[rows] for feed, data in self.feeds.items()},
            {s: None if v is None else v[rows] for s, v in self.valids.items()},
            self._with({n: taken_column(self.columns[n], rows, self.frame) for n in self.taken}),
            self.taken,
            self.frame,
            self.items,
        )

    def _with(self, columns: dict[str, Column]) -> dict[str, Column]:
        return {**self.columns, **columns} if columns else self.columns


def taken_column(column: Column, rows: NDArray[np.int64], frame: Frame) -> Column:
    """The values in these rows; `frame` is one of their kind."""
    return column._replace(
        values=None if column.values is None else column.values[rows],
        valid=None if column.valid is None else column.valid[rows],
        native=None if column.native is None else frame.take_native(column.native, rows),
    )


class Coded(Protocol):
    """Rows whose columns have codes."""

    @property
    def first(self) -> int:
        """The number of the first of these rows."""

    @property
    def end(self) -> int:
        """That of the first one behind them."""

    def feed(self, feed: Feed) -> NDArray[Any]:
        """All codes that are there, in any order."""


class Coders:
    """Codes of values that come in chunks: equal for equal values, whatever chunk they are in."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._shared = False
        self._feeds = plan.feeds
        self._taken = _taken(plan)
        self._coders = {f: Coder(f) for f in self._feeds if f.codes or f.items}

    def __bool__(self) -> bool:
        return bool(self._coders)

    def chunk(self, frame: Frame, columns: dict[str, Column]) -> Chunk:
        """The rows of a frame."""
        feeds, valids = {}, {}
        for feed in self._feeds:
            feeds[feed] = self._fed(frame, columns[feed.column], feed)
        for source in self._plan.inputs:
            valids[source] = counted_rows(source, columns)
        items = self.items_of(columns)
        return Chunk(frame.rows, feeds, valids, columns, self._taken, frame, items)

    def items_of(self, columns: dict[str, Column]) -> dict[Feed, Items | None]:
        """What codes stand for, in columns of these types."""
        return {
            feed: self._items(columns[feed.column], feed)
            for feed in self._coders
            if feed.items and feed.column in columns
        }

    def forget_all(self) -> None:
        """Give codes anew from now on."""
        for coder in self._coders.values():
            coder.forget_all_but(np.zeros(0, np.int64))

    def log_sketches(self) -> None:
        """Those that rows have come with are in logs soon: then they are to be forgotten here."""
        for coder in self._coders.values():
            coder.logged = coder.feed.takes_sketches

    def share(self, others: Coders) -> None:
        """Give the codes of these, which have the same feeds and more, and forget when they do."""
        self._coders = {feed: others._coders[feed] for feed in self._coders}
        self._shared = True

    @property
    def nbytes(self) -> int:
        """Bytes of the values that are known, about; shared ones are those of others."""
        return 0 if self._shared else sum(coder.nbytes for coder in self._coders.values())

    def known_values(self) -> list[tuple[int, list[tuple[Any, int]]]]:
        """Of every feed that has codes of its own: the next code, and the values with theirs."""
        if self._shared:
            return []
        return [(c.next, list(c.known.items())) for c in self._coders.values()]

    def adopt(self, known: list[Any]) -> None:
        """Go on from what `known_values` gave."""
        if self._shared:
            return
        for coder, (following, pairs) in zip(self._coders.values(), known, strict=True):
            coder.adopt(following, pairs)

    def forget_the_gone(self, kept: Sequence[Coded]) -> None:
        """Forget values that none of these rows has, once most have gone. Amortised O(1) a row.

        Raises
        ------
        StoreError
            The rows are on a store that fails. Nothing has been forgotten.
        """
        if self._shared:
            return
        held = sum(rows.end - rows.first for rows in kept)
        for feed, coder in self._coders.items():
            if coder.has_many(held):
                views = [rows.feed(feed) for rows in kept]
                coder.forget_all_but(np.concatenate([np.zeros(0, np.int64), *views]))

    def _fed(self, frame: Frame, column: Column, feed: Feed) -> NDArray[Any]:
        if column.values is None and feed in self._coders:
            return self._coders[feed].codes(frame, column)
        return value_codes(frame, column) if feed.codes else fed_values(column, feed)

    def _items(self, column: Column, feed: Feed) -> Items | None:
        return None if column.values is not None else self._coders[feed].items


def _taken(plan: Plan) -> tuple[str, ...]:
    """The columns that answers are taken from."""
    names = [o.aggregate.columns[0] for o in plan.outputs if o.aggregate.answers_rows]
    return tuple(dict.fromkeys(names))


class Coder:
    """Numbers for the values of one column, given as they come and never twice.

    items : by number, where the feed asks for them
    """

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.known: dict[Any, int] = {}
        self.items: dict[int, Any] = {}
        self.next = 0
        self.logged = False
        self._left = 0  # values when some were forgotten last

    def has_many(self, rows: int) -> bool:
        """Whether most values may be forgotten where so many rows are held; where logs have those
        of rows, only few are needed here."""
        return len(self) > (16 + 2 * self._left if self.logged else 1024 + 2 * rows)

    def __len__(self) -> int:
        return len(self.known)

    @property
    def nbytes(self) -> int:
        """Bytes of the values, and of the tables."""
        tables = getsizeof(self.known) + getsizeof(self.items)
        return tables + sum(getsizeof(value) + getsizeof(0) for value in self.known)

    def codes(self, frame: Frame, column: Column) -> NDArray[np.int64]:
        """The codes of a column that has no 8-byte values.

        Raises
        ------
        DataError
            There are values that can't be told apart, or that the feed can't take.
        """
        places, firsts, values = distinct_values(frame, column)
        known = np.zeros(len(values), np.int64)  # of null any code will do
        counts = np.ones(len(values), np.bool_) if column.valid is None else column.valid[firsts]
        try:
            new = [i for i in np.flatnonzero(counts) if values[i] not in self.known]
            if self.feed.items:
                check_items(column, self.feed, firsts[new], [values[i] for i in new])
            known[counts] = [self._number(values[i]) for i in np.flatnonzero(counts)]
        except TypeError as error:
            raise DataError(f"column {column.name!r}: can't tell equal values: {error}") from None
        return known[places]

    def _number(self, value: Any) -> int:
        number = self.known.setdefault(value, self.next)
        if number == self.next:
            self.next += 1
            if self.feed.items:
                self.items[number] = value
        return number

    def adopt(self, following: int, pairs: list[tuple[Any, int]]) -> None:
        """Go on from these values and their numbers."""
        self.next, self.known = following, dict(pairs)
        if self.feed.items:
            self.items.clear()  # (rows know them already)
            self.items.update((number, value) for value, number in pairs)

    def forget_all_but(self, live: NDArray[np.int64]) -> None:
        """Drop the values whose numbers no row has any more."""
        numbers = set(live.tolist())
        self.known = {value: n for value, n in self.known.items() if n in numbers}
        for number in self.items.keys() - numbers:
            del self.items[number]
        self._left = len(self)


class KeptRows:
    """The rows that the kernels of a plan may still read, in the order of the windows."""

    def __init__(self, plan: Plan) -> None:
        self.first = 0
        self.end = 0
        feeds = {feed: Vector() for feed in plan.feeds}
        self.hold(feeds, dict.fromkeys(plan.inputs))
        self.values = {name: KeptColumn() for name in _taken(plan)}
        self._columns: dict[str, Column] = {}
        self._items: dict[Feed, Items | None] = {}
        self.frame: Any = None  # one of their kind, when rows have come

    def hold(self, feeds: dict[Feed, Vector], valids: dict[Input, Vector | None]) -> None:
        """Have these rows, but for the values that answers are taken from."""
        self.feeds, self.valids = feeds, valids
        masks = [mask for mask in valids.values() if mask is not None]
        self._vectors = [*feeds.values(), *masks]

    @property
    def nbytes(self) -> int:
        """Bytes held, with the room for rows to come."""
        return sum([vector.nbytes for vector in self.vectors()])

    def vectors(self) -> list[Vector]:
        """What holds the rows, but for values that have no 8 bytes."""
        beside = [v for column in self.values.values() for v in (column.values, column.valid)]
        return [*self._vectors, *[vector for vector in beside if vector is not None]]

    def begin_at(self, row: int) -> None:
        """Let the first row, which is yet to come, have this number."""
        self.first = self.end = row
        for vector in self.feeds.values():
            vector.first = row

    def append(self, chunk: Chunk) -> None:
        """More rows."""
        self._columns, self._items, self.frame = chunk.columns, chunk.items, chunk.frame
        for feed, vector in self.feeds.items():
            vector.extend(chunk.feeds[feed])
        for source, valid in chunk.valids.items():
            old = self.valids[source]
            if valid is not None or old is not None:
                kept = extended_mask(old, valid, self.first, self.end, chunk.rows)
                if old is None and kept is not None:
                    self.valids[source] = kept
                    self._vectors.append(kept)
        for name, column in self.values.items():
            column.append(chunk.columns[name], chunk, self.first, self.end)
        self.end += chunk.rows

    def feed(self, feed: Feed) -> NDArray[Any]:
        """A column's 8-byte values or codes."""
        return self.feeds[feed].view()

    def items(self, feed: Feed) -> Items | None:
        """What its codes stand for."""
        return self._items.get(feed)

    def valid(self, source: Input) -> Mask | None:
        """Which rows count."""
        kept = self.valids[source]
        return None if kept is None else kept.view().view(np.bool_)

    def columns(self) -> dict[str, Column]:
        """The columns as they came last; those that answers are taken from with all rows kept."""
        if not self.values:
            return self._columns
        kept = {name: column.like(self._columns[name]) for name, column in self.values.items()}
        return {**self._columns, **kept}

    def chunk(self, places: NDArray[np.int64]) -> Chunk:
        """The rows at these places, counted from the first that is kept."""
        kept = Chunk(
            self.end - self.first,
            {feed: vector.view() for feed, vector in self.feeds.items()},
            {source: self.valid(source) for source in self.valids},
            self.columns(), tuple(self.values), self.frame, self._items,
        )  # fmt: skip
        return kept.take(places)

    @property
    def has_cells(self) -> bool:
        """All that there is of a row are 8-byte items, and marks."""
        known = self._columns
        return all(name in known and known[name].values is not None for name in self.values)

    def cells(self, places: NDArray[np.int64]) -> tuple[list[NDArray[Any]], list[Mask | None]]:
        """The items and marks of the rows at these places, where that is all; see `chunk_of`."""
        kept = self.chunk(places)
        taken = [kept.columns[name] for name in self.values]
        values = [column.values for column in taken if column.values is not None]
        return [*kept.feeds.values(), *values], [*kept.valids.values(), *[c.valid for c in taken]]

    def chunk_of(self, cells: Sequence[Any], masks: Sequence[Mask | None], rows: int) -> Chunk:
        """Rows like these, of which so much was told by `cells`."""
        feeds, valids, columns = len(self.feeds), len(self.valids), dict(self._columns)
        for name, items, valid in zip(self.values, cells[feeds:], masks[valids:], strict=True):
            like = columns[name].values
            assert like is not None  # there are just items
            columns[name] = columns[name]._replace(values=items.view(like.dtype), valid=valid)
        return Chunk(
            rows,
            dict(zip(self.feeds, cells[:feeds], strict=True)),
            dict(zip(self.valids, masks[:valids], strict=True)),
            columns, tuple(self.values), self.frame, self._items,
        )  # fmt: skip

    def keep(self, places: NDArray[np.int64]) -> None:
        """Only the rows at these places, which ascend; they are numbered anew."""
        for vector in self._vectors:
            vector.keep(places)
        for column in self.values.values():
            column.keep(places, self.frame)
        self.end = self.first + len(places)

    def move_last(self, place: int, back: bool = False) -> None:
        """Put the newest row at this place, before those from there on (back: undo that)."""
        for vector in self._vectors:
            move_last(vector, place, back)
        for column in self.values.values():
            column.move_last(place, self.end - self.first, self.frame, back)

    def take_back(self, rows: int) -> None:
        """Take the newest rows back."""
        for vector in self._vectors:
            vector.take_back(rows)
        for column in self.values.values():
            column.take_back(rows)
        self.end -= rows

    def adopt(
        self, columns: dict[str, Column], frame: Frame,
        items: dict[Feed, Items | None] | None = None,
    ) -> None:  # fmt: skip
        """Take the types of these columns, the kind of their frame, and what codes stand for, where
        no chunk has come."""
        self._columns, self.frame = columns, frame
        self._items = self._items if items is None else items

    def drop_to(self, row: int) -> None:
        """Let go of the rows before this number."""
        row = max(row, self.first)
        for vector in self._vectors:
            vector.drop_to(row)
        for column in self.values.values():
            column.drop(row - self.first, row)
        self.first = row


class KeptColumn:
    """The values of one column in the rows that are kept: 8-byte ones, or as the frame has them."""

    def __init__(self) -> None:
        self.values: Vector | None = None
        self.valid: Vector | None = None
        self.native: Any = None

    def append(self, column: Column, chunk: Chunk, first: int, end: int) -> None:
        """More values; the rows kept so far are first..end."""
        if column.values is None:
            new = column.native
            self.native = new if self.native is None else chunk.frame.join_natives(self.native, new)
        else:
            self.values = Vector(True, first) if self.values is None else self.values
            self.values.extend(column.values)
        self.valid = extended_mask(self.valid, column.valid, first, end, chunk.rows)

    def like(self, column: Column) -> Column:
        """A column of this type with all values kept."""
        valid = None if self.valid is None else self.valid.view().view(np.bool_)
        if self.values is None or column.values is None:
            return column._replace(native=self.native, valid=valid)
        return column._replace(values=self.values.view().view(column.values.dtype), valid=valid)

    def move_last(self, place: int, rows: int, frame: Frame, back: bool) -> None:
        """Put the newest of so many values at this place (back: undo that)."""
        for vector in (self.values, self.valid):
            if vector is not None:
                move_last(vector, place, back)
        if self.native is not None:
            order = np.arange(rows - 1)
            last, stays = (place, order + (order >= place)) if back else (rows - 1, order)
            moved = np.append(stays, last) if back else np.insert(stays, place, last)
            self.native = frame.take_native(self.native, moved)

    def keep(self, places: NDArray[np.int64], frame: Frame | None) -> None:
        """Only the values at these places, which ascend."""
        for vector in (self.values, self.valid):
            if vector is not None:
                vector.keep(places)
        if self.native is not None and frame is not None:
            self.native = frame.take_native(self.native, places)

    def take_back(self, rows: int) -> None:
        """Take the newest values back."""
        for vector in (self.values, self.valid):
            if vector is not None:
                vector.take_back(rows)
        if self.native is not None and rows:
            self.native = self.native[: len(self.native) - rows]

    def drop(self, gone: int, row: int) -> None:
        """Let go of so many values, those before a row."""
        for vector in (self.values, self.valid):
            if vector is not None:
                vector.drop_to(row)
        if self.native is not None and gone:
            self.native = self.native[gone:]


def move_last(vector: Vector, place: int, back: bool) -> None:
    """Put the newest item at this place (back: undo that)."""
    if back:
        vector.move_to_last(place)
    else:
        vector.move_last(place)


def extended_mask(
    kept: Vector | None, valid: Mask | None, first: int, end: int, rows: int
) -> Vector | None:
    """A mask over the rows first..end, with more rows; None as long as every row counts."""
    if valid is not None and kept is None:
        kept = Vector(False, first)
        kept.extend(np.ones(end - first, np.uint8))
    if kept is not None:
        kept.extend(np.ones(rows, np.uint8) if valid is None else valid)
    return kept
