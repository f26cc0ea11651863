"""StoredValues: values without 8 bytes of rows in windows by number on a store: as numbers.

Texts and bytes have codes, and the distinct ones are in memory as long as a window can have them.
Sketches to be merged, which are large and all different, are items of a log.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mta._sketch_kernel import Items
from mta._vector import Vector
from mta.coded_values import CodedColumn
from mta.engine import Ints
from mta.frames import Answer, Column, Frame
from mta.item_log import ItemLog, LoggedItems
from mta.kernels import Columns
from mta.plan import Feed, Plan
from mta.stored_kinds import SEQ, TS, columns_of
from mta.stores import Store

_FEW = 1024  # values of which none is forgotten


class CodesByPane:
    """Of one column: codes of its values, and the last pane that has each."""

    def __init__(self) -> None:
        self.coded = CodedColumn()
        self.codes = Vector()  # rising, and of each:
        self.last = Vector()
        self.left = 0  # values when some were forgotten last

    def take(self, column: Column, frame: Frame, panes: Ints) -> Ints:
        """The codes of the values in these panes; -1 of nulls.

        Raises
        ------
        SpecError
            There are values that are neither texts nor bytes.
        """
        codes = self.coded.coded(column, frame.rows, frame).values
        assert codes is not None
        found, at = np.unique(codes, return_inverse=True)
        newest = np.full(len(found), -(2**63))
        np.maximum.at(newest, at, panes)
        known = self.codes.view()
        new = found[found > (known[-1] if len(known) else -1)]  # codes rise as they are given
        self.codes.extend(new)
        self.last.extend(np.full(len(new), -(2**63)))
        mine = found >= 0
        places = self.codes.view().searchsorted(found[mine])
        last = self.last.view()
        last[places] = np.maximum(last[places], newest[mine])
        return codes.view(np.int64)

    def forget(self, before: int, frame: Frame) -> None:
        """Forget those that no pane from this one on has, once they are most. Amortised O(1)."""
        if len(self.codes) <= _FEW + 2 * self.left:
            return
        live = np.flatnonzero(self.last.view() >= before)
        self.coded.forget_all_but(self.codes.view()[live], frame)
        self.codes.keep(live)
        self.last.keep(live)
        self.left = len(live)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.coded.nbytes + self.codes.nbytes + self.last.nbytes

    def to_parts(self, frame: Frame) -> list[bytes]:
        """Everything, as bytes; what `fill` takes."""
        told = [vector.view().tobytes() for vector in (self.codes, self.last)]
        return [*told, *self.coded.to_parts(frame)]

    def fill(self, parts: list[bytes], frame: Frame) -> None:
        """Take what `to_parts` gave. ValueError: it is damaged."""
        for vector, part in zip((self.codes, self.last), parts, strict=False):
            vector.extend(np.frombuffer(part, np.int64))
        self.coded.fill(iter(parts[2:]), frame)
        if len(self.codes) != len(self.last) or len(self.codes) != len(self.coded.known):
            raise ValueError("values and their codes do not fit")


_CODE_PARTS, _LOG_PARTS = 5, 2


class StoredValues:
    """Of the columns of a plan.

    types : of the columns, by name; frame : of their kind
    store, name : where logs are; memory : bytes, for the items of all of them
    note_due : is called when the store has much that is not needed
    """

    def __init__(
        self, plan: Plan, types: Columns, frame: Frame, store: Store, name: str, memory: int,
        note_due: Callable[[], None],
    ) -> None:  # fmt: skip
        self.frame, self._types = frame, types
        read = [column[2:] for column in columns_of(plan) if column not in (TS, SEQ)]
        self.codes = {column: CodesByPane() for column in read if types[column].values is None}
        merged = dict.fromkeys(feed.column for feed in plan.sketch_feeds)
        self.logs = {
            column: ItemLog(store, f"{name}~items{k}", memory // len(merged), note_due)
            for k, column in enumerate(merged)
        }
        self._saved: list[bytes] = []  # what logs told when they were saved

    @property
    def types(self) -> Columns:
        """The types of the columns as records have them."""
        none = np.zeros(0, np.int64)
        coded = {name: self._types[name]._replace(values=none) for name in self.codes}
        return {**self._types, **coded}

    # -------------------------------------------------------------------------- rows in

    def cells(self, column: Column, frame: Frame, panes: Ints) -> Ints:
        """The values of a column as records have them, in rows of these panes.

        Raises
        ------
        SpecError
            There are values that are neither texts nor bytes.
        """
        if column.name in self.codes:
            return self.codes[column.name].take(column, frame, panes)
        assert column.values is not None
        return np.ascontiguousarray(column.values).view(np.int64)

    def log(self, name: str, column: Column, frame: Frame, panes: Ints) -> None:
        """Take the sketches of the next rows, whose numbers are those of the items."""
        log, rows = self.logs[name], np.arange(frame.rows)
        items = [b""] * len(rows) if column.native is None else frame.list_native(
            column.native, rows
        )  # fmt: skip
        known = np.ones(len(rows), np.bool_) if column.valid is None else column.valid
        for item, pane, counts in zip(items, panes.tolist(), known.tolist(), strict=True):
            log.append(item if counts else b"", pane)

    # ------------------------------------------------------------------------ answers out

    def items(self, feed: Feed) -> Items | None:
        """What the cells of a feed stand for; None: they are values."""
        if feed.takes_sketches:
            return LoggedItems(self.logs[feed.column])
        codes = self.codes.get(feed.column)
        if codes is None or not feed.items:
            return None
        return {code: value for value, code in codes.coded.known.items()}

    def decoded(self, answer: Answer) -> Answer:
        """An answer with the values that stand behind codes; another one stays as it is."""
        like = answer.like
        if like is None or like.name not in self.codes:
            return answer
        if not len(answer.values):
            return answer._replace(like=self._types[like.name], rows=True)
        valid = answer.valid if answer.lengths is None else None
        column = like._replace(values=answer.values, valid=valid)
        found = self.codes[like.name].coded.decoded(column, self.frame)
        return answer._replace(values=np.arange(len(answer.values)), like=found, rows=True)

    # ------------------------------------------------------------------------ letting go

    def tidy(self, before: int) -> None:
        """Let go of what only earlier panes have, and of what is too much for the memory.

        Raises
        ------
        StoreError
            Something could not be written; it is still here.
        """
        for codes in self.codes.values():
            codes.forget(before, self.frame)
        for log in self.logs.values():
            log.let_go(before)
            log.make_room()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        values = sum(codes.nbytes for codes in self.codes.values())
        return values + sum(log.nbytes for log in self.logs.values())

    # ---------------------------------------------------------------------------- recovery

    def save(self, store: Store) -> None:
        """Write what belongs to the header, and take off what is needed no more."""
        self._saved = [part for log in self.logs.values() for part in log.to_parts()]
        for log in self.logs.values():
            store.write(log.pending())
            log.wrote()

    def to_parts(self) -> list[bytes]:
        """Everything that `save` has not written, as bytes; what `fill` takes."""
        told = [part for codes in self.codes.values() for part in codes.to_parts(self.frame)]
        saved, self._saved = self._saved, []
        return [*told, *saved]

    def fill(self, parts: list[bytes]) -> None:
        """Take what `to_parts` gave. ValueError: it is damaged."""
        at = 0
        for codes in self.codes.values():
            codes.fill(parts[at : at + _CODE_PARTS], self.frame)
            at += _CODE_PARTS
        for log in self.logs.values():
            log.fill(*parts[at : at + _LOG_PARTS])
            at += _LOG_PARTS
