"""RollingStream: a trailing window over rows that are pushed, a batch at a time.

Every key has a track of its own (`mta.track`). A row is answered as soon as no row that may still
come can join its window: under ``ties="peers"`` once time has moved on, else at once. Time is the
greatest time pushed or given to `advance`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from mta._vector import Vector
from mta.engine import Ints, Ticks, labels, sort_rows
from mta.errors import DataError
from mta.frames import Answer, Column, Frame, open_frame
from mta.items import BadItemError
from mta.plan import check_types, make_plan
from mta.rows import Chunk, Coders
from mta.slider import join_answers, reordered
from mta.specs import Rolling, Spec
from mta.track import Place, Track

_NAN = "NaN"  # what stands for it in keys: it is equal to itself


class KeyState:
    """One key: its track, and the numbers of its rows that have no answer yet."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self.arrivals = Vector()
        self.newest: int | None = None  # time of its last row


class RollingStream:
    """Pushes rows through a rolling spec; see ``Rolling.stream``, which makes it.

    Rows of one key have to come in order of time; keys may be out of step. A row that comes after
    one of its key with a greater time, or that belongs into a window of its key that was answered
    (its peers', as a rule), is late: it is counted, kept for `late`, and changes nothing.
    """

    def __init__(self, spec: Rolling) -> None:
        self.spec = spec
        self.plan = make_plan(spec.aggs, spec.min_periods or 0)
        self.labels = tuple(labels(spec)) if spec.every is not None else ()
        self.coders = Coders(self.plan)
        self.keys: dict[tuple[Any, ...], KeyState] = {}
        self.waiting: set[tuple[Any, ...]] = set()  # keys with rows that have no answer yet
        self.types: dict[str, Column] = {}
        self.frame: Frame | None = None  # of no rows; of the kind that is pushed
        self.ticks: Ticks | None = None
        self.now: int | None = None
        self.forgotten: int | None = None  # keys that are not known had no rows from here on
        self.received = 0
        self.late_rows: list[Any] = []
        self.late_count = 0
        self.sweep_at = 64  # that many keys: look for dead ones

    # ----------------------------------------------------------------------- rows in

    def push(self, data: Any) -> Any:
        """Take rows; the answers that became final, in order of the rows' arrival.

        Parameters
        ----------
        data : what the spec takes in batch, always of the same kind and with the same types

        Returns
        -------
        The same kind: one row per row that is answered now, of this push or of one before (with
        `every`, after so many rows of a key, and with its key and time). In pandas the index
        counts all rows pushed, from 0.

        Raises
        ------
        DataError, ColumnError
            As in batch, or the types have changed. Nothing of the push has been taken in.
        OverflowError
            An integer answer does not fit. Nothing of the push has been taken in.
        """
        frame = open_frame(data)
        columns = self._read(frame)
        places, offsets, ts, ticks = sort_rows(self.spec, frame)
        check_ticks(self.spec, ticks, self.ticks)
        self.ticks = ticks
        order = np.arange(frame.rows)
        if places is not None:
            order[places] = np.arange(frame.rows)
            frame = open_frame(frame.take(order))
            columns = self._read(frame)
        starts = offsets[:-1][np.diff(offsets) > 0]
        keys = key_values(frame, self.spec.by, starts)
        try:
            chunk = self.coders.chunk(frame, columns)
        except BadItemError as error:
            raise error.at(int(order[error.row])) from None
        now = self._later(None if ts is None or not len(ts) else int(ts.max()))
        stops = [*starts[1:].tolist(), frame.rows][: len(starts)]
        parts, late = [], []
        for key, start, stop in zip(keys, starts.tolist(), stops, strict=True):
            first = start if ts is None else start + self._count_late(key, ts[start:stop])
            late.append(order[start:first])
            mine = None if ts is None else ts[first:stop]
            parts.append((key, mine, chunk.slice(first, stop), order[first:stop]))
        answered = self._feed(parts, now)
        self._keep_late(open_frame(data), late)
        self.received += frame.rows
        return answered

    def advance(self, to: Any) -> Any:
        """Say that no row before this time will come; the answers that became final by that.

        to : a time as the column holds them (datetime, numpy.datetime64, pandas.Timestamp or int)
        """
        if self.ticks is None or self.frame is None:
            raise DataError("advance: push rows first, which say what a time is")
        if self.spec.on is None:
            raise DataError("advance: this window has no time column")
        return self._feed([], self._later(self.ticks.of(to, "advance")))

    def finish(self) -> Any:
        """No more rows: all answers that were still waiting. None if no row was ever pushed."""
        if self.frame is None:
            return None
        return self._feed([], self.now, final=True)

    def late(self) -> Any:
        """The rows that came too late, as they were pushed, and forget them. None before a push."""
        if self.frame is None:
            return None
        rows, self.late_rows = self.late_rows, []
        return self.frame.join(rows) if rows else self.frame.take(np.zeros(0, np.int64))

    def state(self) -> dict[str, int]:
        """What it holds: keys, rows inside windows, rows waiting for an answer, and how many rows
        have come, and come late."""
        tracks = [key.track for key in self.keys.values()]
        return {
            "keys": len(tracks),
            "rows": sum(track.rows.end - track.rows.first for track in tracks),
            "waiting": sum(track.received - track.answered for track in tracks),
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

    # ------------------------------------------------------------------ what is pushed

    def _read(self, frame: Frame) -> dict[str, Column]:
        """The plan's columns, in the types of the first push."""
        check_kind(frame, self.frame)
        for name in (*self.plan.columns, *self.labels):
            frame.require(name, "agg")
        columns = {name: frame.column(name) for name in self.plan.columns}
        check_types(self.plan, columns)
        columns = {name: fitted(column, self.types.get(name)) for name, column in columns.items()}
        columns.update({name: frame.column(name) for name in self.labels})
        if self.frame is None:
            self.frame = open_frame(frame.take(np.zeros(0, np.int64)))
        if frame.rows:
            self.types = {**{n: c.slice(0, 0) for n, c in columns.items()}, **self.types}
        return columns

    def _later(self, time: int | None) -> int | None:
        times = [t for t in (self.now, time) if t is not None]
        return max(times) if times else None

    def _count_late(self, key: tuple[Any, ...], ts: Ints) -> int:
        """How many of a key's rows, which come in order of time, are late."""
        known = self.keys.get(key)
        if known is None:
            return 0 if self.forgotten is None else int(ts.searchsorted(self.forgotten))
        if known.newest is None:
            return 0
        first = int(ts.searchsorted(known.newest))
        joined = known.track.last_joining()
        return first if joined is None else max(first, int(ts.searchsorted(joined, side="right")))

    def _keep_late(self, frame: Frame, late: list[Ints]) -> None:
        rows = np.sort(np.concatenate(late)) if late else np.zeros(0, np.int64)
        if len(rows):
            self.late_rows.append(frame.take(rows))
            self.late_count += len(rows)

    # --------------------------------------------------------------------- answers out

    def _feed(
        self,
        parts: list[tuple[tuple[Any, ...], Ints | None, Chunk, Ints]],
        now: int | None,
        final: bool = False,
    ) -> Any:
        """Feed the keys that have new rows, and those whose rows wait for time to go on."""
        fed = {key for key, _, _, _ in parts}
        nothing = self._nothing()
        if nothing is not None and (final or now != self.now):
            none = np.zeros(0, np.int64)
            parts = parts + [(key, none, nothing, none) for key in self.waiting - fed]
        undo: list[tuple[KeyState, Place]] = []
        made: list[tuple[Ints, list[Answer]]] = []
        known_keys = set(self.keys)
        try:
            for key, ts, chunk, rows in parts:
                state = self._state_of(key)
                undo.append((state, state.track.place()))
                at, answers = state.track.feed(ts, chunk, final, now)
                state.arrivals.extend(self.received + rows)
                made.append((state.arrivals.view()[at - state.arrivals.first], answers))
        except Exception:
            self._undo(undo, known_keys)
            raise
        self.now = now
        for key, ts, _, _ in parts:
            self._settle(key, ts)
        self._forget_dead_keys()
        self.coders.forget_the_gone([state.track.rows for state in self.keys.values()])
        return self._assemble(made)

    def _nothing(self) -> Chunk | None:
        """A chunk of no rows."""
        if self.frame is None:
            return None
        names = dict.fromkeys((*self.plan.columns, *self.labels))
        columns = {n: self.types[n] if n in self.types else self.frame.column(n) for n in names}
        return self.coders.chunk(self.frame, columns)

    def _state_of(self, key: tuple[Any, ...]) -> KeyState:
        state = self.keys.get(key)
        if state is None:
            assert self.ticks is not None
            state = KeyState(Track(self.spec, self.plan, self.ticks, self.labels))
            self.keys[key] = state
        return state

    def _undo(self, undo: list[tuple[KeyState, Place]], known: set[tuple[Any, ...]]) -> None:
        for state, place in undo:
            surplus = len(state.arrivals) - (place.received - place.answered)
            state.track.go_back(place)
            state.arrivals.take_back(max(surplus, 0))
        self.keys = {key: state for key, state in self.keys.items() if key in known}

    def _settle(self, key: tuple[Any, ...], ts: Ints | None) -> None:
        state = self.keys[key]
        state.track.settle()
        state.arrivals.drop_to(state.track.answered)
        if ts is not None and len(ts):
            state.newest = int(ts[-1])
        if state.track.answered < state.track.received:
            self.waiting.add(key)
        else:
            self.waiting.discard(key)

    def _forget_dead_keys(self) -> None:
        """Drop keys whose rows no window can reach any more, once they may be most of all keys."""
        ticks, now = self.ticks, self.now
        if len(self.keys) < self.sweep_at or ticks is None or now is None:
            return
        if self.spec.over_rows or ticks.range is None or self.spec.every is not None:
            return
        edge = now - ticks.range - max(ticks.lag, 0)
        alive = {
            key: state
            for key, state in self.keys.items()
            if key in self.waiting or state.newest is None or state.newest >= edge
        }
        if len(alive) < len(self.keys):
            self.keys, self.forgotten = alive, now
        self.sweep_at = 64 + 2 * len(self.keys)

    def _assemble(self, made: Iterable[tuple[Ints, list[Answer]]]) -> Any:
        """The answers of all keys as one frame, in order of arrival."""
        parts = [(arrivals, answers) for arrivals, answers in made if len(arrivals)]
        assert self.frame is not None  # a push has set it
        if not parts:
            return self._no_answers()
        arrivals = np.concatenate([a for a, _ in parts])
        order = np.argsort(arrivals, kind="stable")
        columns = zip(*(answers for _, answers in parts), strict=True)
        joined = [reordered(join_answers(list(part), self.frame), order) for part in columns]
        return self.frame.build_numbered(joined, arrivals[order])

    def _no_answers(self) -> Any:
        assert self.frame is not None and self.ticks is not None
        track = Track(self.spec, self.plan, self.ticks, self.labels)
        nothing = self._nothing()
        assert nothing is not None
        at, answers = track.feed(np.zeros(0, np.int64), nothing, True)
        return self.frame.build_numbered(answers, at)


def check_kind(frame: Frame, first: Frame | None) -> None:
    """Refuse data of another kind than that of the first push (None: this is the first)."""
    if first is not None and type(frame) is not type(first):
        kinds = type(first).__name__, type(frame).__name__
        raise DataError(f"push: a {kinds[1]} after a {kinds[0]}; push one kind of data")


def check_ticks(spec: Spec, ticks: Ticks, first: Ticks | None) -> None:
    """Refuse times of another unit than those of the first push."""
    if first is not None and ticks != first:
        raise DataError(
            f"on: column {spec.on!r} was in {first.unit or 'integers'} and now is in "
            f"{ticks.unit or 'integers'}"
        )


def fitted(column: Column, like: Column | None) -> Column:
    """The column in the type of the first push: nulls of any type fit, whole numbers fit floats.

    Raises
    ------
    DataError
        It has another type.
    """
    if like is None or (column.kind, column.unit) == (like.kind, like.unit):
        return column
    if column.kind == "null" and column.values is not None and like.values is not None:
        return replace(like, values=column.values.astype(like.values.dtype), valid=column.valid)
    if column.kind == "null" and isinstance(like.native, np.ndarray):
        nulls = np.full(len(column.values), None) if column.values is not None else None
        return replace(like, valid=column.valid, native=nulls)
    if like.kind in ("float", "null") and column.numeric and column.values is not None:
        floats = column.values.astype(np.float64)
        wrong = np.flatnonzero(floats.astype(column.values.dtype) != column.values)
        if not len(wrong):
            return replace(like, kind="float", values=floats, valid=column.valid)
        shown = column.values[wrong[0]]
        raise DataError(
            f"column {column.name!r}, row {wrong[0]}: it held floats, and none is {shown}"
        )
    raise DataError(f"column {column.name!r} was {like.dtype} and now is {column.dtype}")


def key_values(frame: Frame, by: tuple[str, ...], rows: Ints) -> list[tuple[Any, ...]]:
    """The keys of these rows as tuples that are equal for equal keys; () where there are none."""
    if not by:
        return [()] * len(rows)
    columns = [_key_column(frame, name, rows) for name in by]
    return list(zip(*columns, strict=True))


def _key_column(frame: Frame, name: str, rows: Ints) -> list[Any]:
    column = frame.column(name)
    if column.values is None:
        values = frame.list_native(column.native, rows)
    elif column.kind == "float":
        values = [_NAN if x != x else x + 0.0 for x in column.values[rows].tolist()]
    else:
        values = column.values[rows].tolist()
    if column.valid is None:
        return values
    return [
        x if known else None for x, known in zip(values, column.valid[rows].tolist(), strict=True)
    ]
