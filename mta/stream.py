"""RollingStream: a trailing window over rows that are pushed, a batch at a time.

The windows of all keys (`mta.keyed`) take the rows of a key in order of time. With a watermark rows
may come in any order: they wait (`mta.reorder`) until it has gone past them. Without one they have
to come in order; time then is the greatest time pushed or given to `advance`. A row is answered as
soon as no row that may still come can join its window. ADR 7.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Any

import numpy as np

from mta._keys import factorize, first_fall, group_places, sort_times, spread
from mta.engine import Ints, Ticks, labels, ties_by_arrival
from mta.errors import DataError, SpecError, StoreError
from mta.frames import Answer, Column, Frame, open_frame
from mta.items import BadItemError
from mta.key_state import Made, join_made
from mta.keyed import KeyedWindows, Paged
from mta.plan import Plan, check_types
from mta.pool_room import PoolRoom
from mta.push import EVER, NEVER, NO_ROWS, PushedStream, fitted
from mta.reorder import Arrived, Reorder
from mta.rows import Chunk, Coders
from mta.slider import reordered
from mta.specs import Rolling
from mta.track import Track


class RollingStream(PushedStream[Rolling]):
    """Pushes rows through a rolling spec; see ``Rolling.stream``, which makes it.

    With a watermark, rows may come in any order. Answers are those of a batch over all rows that
    were not late, in order of (time, arrival), to the last bit, however rows come and are cut into
    pushes. A row is late if it comes when the watermark is beyond its time: the rows before it in
    its window have all come, those after it may have been answered, and its place in the order has
    been passed. It is counted, kept for `late`, and changes nothing. (That it may be the first of
    its key does not help it: whether a row is late depends on no other row but those that moved the
    watermark.)

    Where late rows revise (``spec.late("revise", within=)``), a row is late only if the watermark
    is beyond its time by more than `within`. Else it is taken in, and all rows with an answer whose
    windows hold it (or, over rows, hold others by it) are answered again, one revision a late row.
    "row" and "revision" then say which row, by the number of its arrival, and its how manieth
    answer it is. The last answers are those of the batch; those of aggregates whose last bits
    depend on which windows were answered before (var, std and other moments) within the errors that
    they state.

    Without a watermark, rows of one key have to come in order of time; keys may be out of step. A
    row that comes after one of its key with a greater time, or that belongs into a window of its
    key that was answered (its peers', as a rule), is late.

    Keys cost nothing once no window can reach their rows any more. (With `every`, and over windows
    of rows, there is no such time.)
    """

    snapshot_kind = "stream"

    def __init__(self, spec: Rolling, plan: Plan | None = None) -> None:
        super().__init__(spec, plan)
        waits = spec.progress is not None
        self.revises = self.lateness.mode == "revise"
        if self.revises and not waits:
            raise SpecError("late: rows can revise answers only where there is a .watermark()")
        # Where not every row is answered at once, answers say which row they are of.
        self.labels = tuple(labels(spec)) if waits or spec.every is not None else ()
        taken = (*self.labels, *(("row", "revision") if self.revises else ()))
        for name, _ in spec.aggs if waits else ():
            if name in taken:
                raise SpecError(f"agg: {name!r} is the column that says which row an answer is of")
        self.coders = Coders(self.plan)
        picks = not spec.by_rank
        self.reorder = Reorder(self.plan, bool(spec.by), picks) if waits else None
        self.keyed: KeyedWindows | None = None  # when a push has said what keys and times are
        self.types: dict[str, Column] = {}
        self.now: int | None = None  # time, where there is no watermark
        self.forgotten: int | None = None  # then: keys that are not known had no rows from here on
        self.finished = False
        self.answered_rows = NO_ROWS  # by the call before: the arrivals of the rows of its answers
        self.sweep_at = 64  # that many keys: look for dead ones
        self.paged: Paged | None = None  # as those of `KeyedWindows`
        self.room: PoolRoom | None = None
        self.holds = False  # somebody else says when a call is sure to succeed, by `settle`

    # ----------------------------------------------------------------------- the calls

    def push(self, data: Any) -> Any:
        """Take rows; the answers that became final, in order of the rows' arrival.

        Parameters
        ----------
        data : what the spec takes in batch, always of the same kind and with the same types

        Returns
        -------
        The same kind: one row per row that is answered now, of this push or of one before. With a
        watermark, or with `every`, key and time of the row come before its answers. In pandas the
        index counts all rows pushed, from 0; of any kind, `answered_rows` has these numbers.

        Raises
        ------
        DataError, ColumnError
            As in batch, or the types have changed, or a row is late where that is an error. Nothing
            of the push has been taken in.
        OverflowError
            An integer answer does not fit. Nothing of the push has been taken in.
        """
        return super().push(data)

    def peek(self) -> Any:
        """The answers of the rows that wait, as if no more rows came; None before a push.

        Nothing changes by it: these answers come again, as `push` and `advance` give them, when
        they are final. Until then rows that come may change them. Cost: as that of giving them.

        Raises
        ------
        OverflowError
            An integer answer does not fit.
        """
        if self.frame is None:
            return None
        before = self._mark()
        try:
            made = (
                self._feed(None, self.now, True)
                if self.reorder is None
                else self._release(EVER, True)
            )
            answers = self._assemble(made)
            rows = self.answered_rows
        finally:
            self._go_back(before)
        self.answered_rows = rows
        return answers

    def state(self) -> dict[str, Any]:
        """What it holds: keys, rows inside windows, rows waiting for an answer, the watermark in
        ticks (None: there is none), and how many rows have come, and come late."""
        keyed = self.keyed
        unordered = 0 if self.reorder is None else len(self.reorder)
        return {
            "keys": 0 if keyed is None else len(keyed.groups),
            "rows": unordered if keyed is None else keyed.rows + unordered,
            "waiting": unordered if keyed is None else keyed.unanswered + unordered,
            "watermark": None if self.progress is None else self.progress.now,
            "received": self.received,
            "late": self.late_count,
        }

    def to_bytes(self) -> bytes:
        """Everything it holds as bytes: versioned, checksummed, no code inside (needs pyarrow).

        ``spec.stream(state=...)`` goes on from there, in another process too, and gives the same
        doubles.

        Raises
        ------
        SnapshotError
            It holds values that a snapshot can't store, such as Python objects.
        """
        from mta.stream_state import stream_bytes  # it builds on this module

        return stream_bytes(self)

    def _advance(self, to: Any, source: Hashable) -> Any:
        self._check_source(source, "advance")
        if self.watermark is not None:
            return super()._advance(to, source)
        if self.ticks is None:
            raise DataError("advance: push rows first, which say what a time is")
        if self.spec.on is None:
            raise DataError("advance: this window has no time column")
        self.now = _later(self.now, self.ticks.of(to, "advance"))
        return self._answer()

    def _idle(self, source: Hashable) -> Any:
        self._check_source(source, "idle")
        return super()._idle(source)

    def _check_source(self, source: Hashable, call: str) -> None:
        named = self.watermark is not None and self.watermark.source is not None
        if source is not None and not named:  # it would be one that no row is of
            raise DataError(f"{call}: this spec has no sources; say them by .watermark(source=)")

    def _answer(self, final: bool = False) -> Any:
        if self.reorder is not None:
            self.finished |= final
            made = self._release(EVER if final else self._mark_now(), final)
        else:
            made = self._feed(None, self.now, final)
        return self._give(made)

    # ------------------------------------------------------------------------ rows in

    def _push(self, data: Any) -> Any:
        frame = open_frame(data)
        self._check_kind(frame)
        self._require(frame)
        ts = None
        if self.spec.on is not None:
            ts = self._read_times(frame)
        elif self.ticks is None:
            self.ticks = Ticks(None, 1, None, 0)
        if self.keyed is None:
            self._begin_keys()
        if self.reorder is None:
            made, late = self._push_in_order(frame, ts)
        else:
            assert ts is not None
            made, late = self._push_any_order(frame, ts)
        self.received += frame.rows
        answers = self._give(made)
        self._keep_late(frame, late)
        return answers

    def _push_any_order(self, frame: Frame, ts: Ints) -> tuple[list[Made], Ints]:
        assert self.reorder is not None and self.progress is not None
        before, after = self.progress.see(ts, self._sources(frame))
        edge = np.maximum(before, NEVER + self._within()) - self._within()
        is_late = ts < (EVER if self.finished else edge)
        self._refuse_late(is_late, ts)
        late, kept = NO_ROWS, None
        if is_late.any():
            late, kept = np.flatnonzero(is_late), np.flatnonzero(~is_late)
            frame, ts, before = open_frame(frame.take(kept)), ts[kept], before[kept]
        chunk = self._chunk(frame, kept)
        rows = self._arrived(ts, self._keyed.numbers(frame), frame.rows, kept, chunk)
        made: list[Made] = []
        start = 0
        for row in np.flatnonzero(ts < before).tolist() if self.revises else ():
            # All that has come before it is answered first, as far as it can be.
            self.reorder.add(rows.slice(start, row))
            made += self._release(int(before[row]))
            made += self._keyed.revise(rows.slice(row, row + 1), int(before[row]))
            start = row + 1
        self.reorder.add(rows.slice(start, frame.rows))
        return made + self._release(int(after[-1]) if len(after) else NEVER), late

    def _push_in_order(self, frame: Frame, ts: Ints | None) -> tuple[list[Made], Ints]:
        chunk, late, keyed = self._chunk(frame, None), NO_ROWS, self._keyed
        keys = keyed.numbers(frame)
        kept = None
        falls = ts is not None and first_fall(ts) >= 0
        if ts is not None and len(ts) and (falls or keys is not None or ts[0] < keyed.edge()):
            is_late = ts < (keyed.edge() if keys is None else self._edges(keys))
            if is_late.any():
                self._refuse_late(is_late, ts)
                late, kept = np.flatnonzero(is_late), np.flatnonzero(~is_late)
                chunk, ts = chunk.take(kept), ts[kept]
                keys = None if keys is None else keys[kept]
        rows = self._arrived(ts, keys, frame.rows, kept, chunk)
        if ts is not None and len(ts):
            self.now = _later(self.now, int(ts.max() if falls else ts[-1]))
            rows = rows.take(sort_times(ts)) if falls else rows
        return self._feed(rows, self.now), late

    def _edges(self, keys: Ints) -> Ints:
        """The times from which on rows of these keys, row by row, are not late."""
        codes, groups = factorize(keys)
        numbers = np.empty(groups, np.int64)
        numbers[codes] = keys
        edges: Ints = self._keyed.edges(numbers, self.forgotten)[codes]
        return edges

    def _arrived(
        self, ts: Ints | None, keys: Ints | None, rows: int, kept: Ints | None, chunk: Chunk
    ) -> Arrived:
        """So many rows of a push, or those of them that are kept, with what says which they are."""
        start = self.received
        arrivals = np.arange(start, start + rows) if kept is None else start + kept
        return Arrived(ts, keys, arrivals, self._keyed.picks(keys, len(arrivals)), chunk)

    def _chunk(self, frame: Frame, kept: Ints | None) -> Chunk:
        """The plan's columns as kernels read them, in the types of the first push.

        kept : the rows of the push that these are
        """
        known, columns = self.types, {}
        alike = True
        for name in self.plan.columns:
            column = columns[name] = frame.column(name)
            alike = alike and name in known and _alike(column, known[name])
        if not alike:
            check_types(self.plan, columns)
            columns = {n: fitted(column, known.get(n), frame) for n, column in columns.items()}
            if frame.rows:
                self.types = {**{n: c.slice(0, 0) for n, c in columns.items()}, **known}
        try:
            return self.coders.chunk(frame, columns)
        except BadItemError as error:
            raise (error if kept is None else error.at(int(kept[error.row]))) from None

    # ---------------------------------------------------------------------------- keys

    @property
    def _keyed(self) -> KeyedWindows:
        assert self.keyed is not None  # a push has made it
        return self.keyed

    def _begin_keys(self) -> None:
        assert self.frame is not None and self.ticks is not None
        timed = bool(self.labels) and self.spec.on is not None
        within = self._within() if self.revises else None
        self.keyed = KeyedWindows(
            self.spec, self.plan, self.ticks, self.frame, timed, within, self.paged, self.room
        )

    # --------------------------------------------------------------------- answers out

    def _mark_now(self) -> int:
        now = None if self.progress is None else self.progress.now
        return NEVER if now is None else now

    def _release(self, now: int, final: bool = False) -> list[Made]:
        """Feed the rows that the watermark has come to."""
        assert self.reorder is not None
        # Rows at the watermark may have peers, and these may join their windows.
        last = now if final or self._in_place_at_once() else max(now, NEVER + 1) - 1
        rows = self.reorder.release(last) if now > NEVER or final else None
        return self._feed(rows, now, final)

    def _in_place_at_once(self) -> bool:
        """Whether rows at the watermark can be answered: no later row of their time joins."""
        spec, ticks = self.spec, self.ticks
        assert ticks is not None
        grows = spec.right_closed and not ties_by_arrival(spec, ticks) and ticks.lag <= 0
        return spec.over_rows or not grows

    def _feed(self, rows: Arrived | None, now: int | None, final: bool = False) -> list[Made]:
        """Feed rows, which are in order of time, to their keys."""
        if rows is None or not len(rows.arrivals):
            nothing = self._nothing()
            if nothing is None:
                return []
            return self._keyed.feed(NO_ROWS, NO_ROWS, NO_ROWS, nothing, now, final)
        if rows.keys is None:
            return self._keyed.feed_one(rows, now, final)
        codes, groups = factorize(rows.keys)
        places, offsets = group_places(codes, groups, None)
        rows = rows.take(spread(np.arange(len(codes)), places))
        assert rows.keys is not None
        keys = rows.keys[offsets[:-1]]
        begin = offsets[:-1]
        return self._keyed.feed(keys, begin, offsets[1:] - begin, rows, now, final)

    def _nothing(self) -> Arrived | None:
        """No rows."""
        if self.frame is None:
            return None
        names = self.plan.columns
        columns = {n: self.types[n] if n in self.types else self.frame.column(n) for n in names}
        chunk = self.coders.chunk(self.frame, columns)
        picked = None if self.spec.by_rank else np.zeros(0, np.bool_)
        return Arrived(NO_ROWS, None, NO_ROWS, picked, chunk)

    def _give(self, made: list[Made]) -> Any:
        """The answers of all keys as one frame, in order of arrival. Then the call can't fail."""
        answers = self._assemble(made)
        if not self.holds:
            self.settle()
        return answers

    def settle(self) -> None:
        """Let go of what only going back would need."""
        if self.keyed is not None:
            self.keyed.settle(None if self.reorder is None else self._mark_now())
        if self.reorder is not None:
            self.reorder.settle()
        if not self.holds:
            self._forget_dead_keys()
        if self.coders and self.keyed is not None:
            kept = self.keyed.kept()
            # (Where a store fails, values are forgotten the next time.)
            with suppress(StoreError):
                self.coders.forget_the_gone(
                    kept if self.reorder is None else [*kept, self.reorder.rows]
                )

    def _assemble(self, made: list[Made]) -> Any:
        assert self.frame is not None  # a push has set it
        parts = join_made(made, self.frame) if made else self._no_answers()
        arrivals, keys, times, revisions, answers = parts
        if self.revises:
            answers = [Answer("row", arrivals), Answer("revision", revisions), *answers]
        if self.labels:
            answers = [*self._label(keys, times), *answers]
        if first_fall(arrivals) >= 0:
            order = sort_times(arrivals)
            answers = [reordered(answer, order) for answer in answers]
            arrivals = arrivals[order]
        self.answered_rows = arrivals
        return self.frame.build_numbered(answers, arrivals)

    def _label(self, keys: Ints, times: Ints) -> list[Answer]:
        """The columns that say which rows answers are of."""
        assert self.frame is not None and self.ticks is not None
        by = {answer.name: answer for answer in self._keyed.groups.keys(keys)}
        made = []
        for name in self.labels:
            if name in by:
                made.append(by[name])
                continue
            assert self.on_type is not None and self.on_type.values is not None
            values = (times // self.ticks.scale).view(self.on_type.values.dtype)
            made.append(Answer(name, values, None, self.on_type))
        return made

    def _no_answers(self) -> Made:
        nothing = self._nothing()
        assert nothing is not None and self.ticks is not None
        track = Track(self.spec, self.plan, self.ticks)
        at, answers = track.feed(NO_ROWS, nothing.chunk, True, None, nothing.picked)
        return Made(at, NO_ROWS, NO_ROWS, NO_ROWS, answers)

    # ------------------------------------------------------------------- all or nothing

    def _mark(self) -> Any:
        if self.keyed is not None:
            self.keyed.mark()
        return super()._mark(), None if self.reorder is None else self.reorder.place()

    def _go_back(self, before: Any) -> None:
        values, place = before
        super()._go_back(values)
        if self.keyed is not None:
            self.keyed.go_back()
        if self.reorder is not None:
            self.reorder.go_back(place)

    # ------------------------------------------------------------------------- dead keys

    def _forget_dead_keys(self) -> None:
        """Drop keys whose rows no window can reach any more, once they may be most of all keys."""
        if self.keyed is None or len(self.keyed.groups) < self.sweep_at:
            return
        alive = self.alive_keys()
        if alive is not None:
            self.keep_keys(alive)

    def alive_keys(self) -> Ints | None:
        """The keys with rows that a window can still reach; None: that can't be told."""
        now = self._mark_now() if self.reorder is not None else self.now
        ticks = self.ticks
        if self.keyed is None or ticks is None or now is None:
            return None
        if self.spec.over_rows or ticks.range is None or self.spec.every is not None:
            return None
        edge = now - self._within() - ticks.range - abs(ticks.lag)
        unordered: set[int] = set() if self.reorder is None else self.reorder.key_numbers()
        return self.keyed.alive(max(edge, NEVER), unordered)

    def keep_keys(self, alive: Ints) -> None:
        """Forget all others."""
        keyed = self._keyed
        if len(alive) < len(keyed.groups):
            numbers = keyed.keep(alive)
            if self.reorder is not None:
                self.reorder.renumber(numbers)
            self.forgotten = self._mark_now() if self.reorder is not None else self.now
        self.sweep_at = 64 + 2 * len(keyed.groups)


def _later(now: int | None, time: int | None) -> int | None:
    if now is None or time is None:
        return now if time is None else time
    return max(now, time)


def _alike(column: Column, known: Column) -> bool:
    if column.kind != known.kind or column.unit != known.unit:
        return False
    # (Of texts, Arrow has several types.)
    return getattr(column.native, "type", None) == getattr(known.native, "type", None)
