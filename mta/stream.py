"""RollingStream: a trailing window over rows that are pushed, a batch at a time.

Every key has a track of its own (`mta.track`), which takes rows in order of time. With a watermark
rows may come in any order: they wait (`mta.reorder`) until it has gone past them. Without one they
have to come in order; time then is the greatest time pushed or given to `advance`. A row is
answered as soon as no row that may still come can join its window. ADR 7.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from mta._keys import factorize, first_fall, group_places, sort_times, spread
from mta.engine import Ints, Ticks, labels, ties_by_arrival
from mta.errors import DataError, SpecError
from mta.frames import Answer, Column, Frame, open_frame
from mta.items import BadItemError
from mta.key_state import KeyState, Made, join_made, joined
from mta.plan import check_types
from mta.push import EVER, NEVER, NO_ROWS, PushedStream, fitted, key_values
from mta.reorder import Arrived, Reorder
from mta.revise import RevisedTrack
from mta.rows import Chunk, Coders, Mask, first_rows
from mta.slider import KeyedAnswers, reordered, taken_answer
from mta.specs import Rolling
from mta.track import Track, Windows

Key = tuple[Any, ...]
AWAKE = 1024  # so many keys have kernels; those of others are made anew when they get rows


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
    windows hold it are answered again, one revision a late row. "row" and "revision" then say which
    row, by the number of its arrival, and its how manieth answer it is. The last answers are those
    of the batch; those of aggregates whose last bits depend on which windows were answered before
    (var, std and other moments) within the errors that they state.

    Without a watermark, rows of one key have to come in order of time; keys may be out of step. A
    row that comes after one of its key with a greater time, or that belongs into a window of its
    key that was answered (its peers', as a rule), is late.

    Keys cost nothing once no window can reach their rows any more. (With `every`, and over windows
    of rows, there is no such time.)
    """

    snapshot_kind = "stream"

    def __init__(self, spec: Rolling) -> None:
        super().__init__(spec)
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
        self.keys: dict[Key, KeyState] = {}
        self.numbered: list[KeyState] = []
        self.key_rows: Any = None  # a row of every key, by its number
        self.waiting: set[KeyState] = set()  # keys of which the track has rows without an answer
        self.awake: dict[KeyState, None] = {}  # keys with kernels, those fed last at the end
        self.types: dict[str, Column] = {}
        self.now: int | None = None  # time, where there is no watermark
        self.forgotten: int | None = None  # then: keys that are not known had no rows from here on
        self.finished = False
        self.answered_rows = NO_ROWS  # by the call before: the arrivals of the rows of its answers
        self.sweep_at = 64  # that many keys: look for dead ones
        # Of the call at hand: how to undo what it has changed in place, and the keys it has fed.
        self._undo: list[Callable[[], Any]] = []
        self._fed: list[KeyState] = []

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
        index counts all rows pushed, from 0.

        Raises
        ------
        DataError, ColumnError
            As in batch, or the types have changed, or a row is late where that is an error. Nothing
            of the push has been taken in.
        OverflowError
            An integer answer does not fit. Nothing of the push has been taken in.
        """
        return super().push(data)

    def state(self) -> dict[str, Any]:
        """What it holds: keys, rows inside windows, rows waiting for an answer, the watermark in
        ticks (None: there is none), and how many rows have come, and come late."""
        tracks = [key.track for key in self.keys.values()]
        unordered = 0 if self.reorder is None else len(self.reorder)
        return {
            "keys": len(tracks),
            "rows": sum(track.rows.end - track.rows.first for track in tracks) + unordered,
            "waiting": sum(track.received - track.answered for track in tracks) + unordered,
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
        if self.watermark is not None:
            return super()._advance(to, source)
        if self.ticks is None:
            raise DataError("advance: push rows first, which say what a time is")
        if self.spec.on is None:
            raise DataError("advance: this window has no time column")
        if source is not None:
            raise DataError("advance: this spec has no sources; say them by .watermark(source=)")
        self.now = _later(self.now, self.ticks.of(to, "advance"))
        return self._answer()

    def _answer(self, final: bool = False) -> Any:
        if self.reorder is not None:
            self.finished |= final
            made = self._release(EVER if final else self._mark_now(), final)
        else:
            made = self._feed([], self.now, final)
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
        keys = self._numbers(frame)
        arrivals = np.arange(self.received, self.received + frame.rows)
        if kept is not None:
            arrivals = self.received + kept
        rows = Arrived(ts, keys, arrivals, self._picks(keys, frame.rows), chunk)
        made: list[Made] = []
        start = 0
        for row in np.flatnonzero(ts < before).tolist() if self.revises else ():
            # All that has come before it is answered first, as far as it can be.
            self.reorder.add(rows.slice(start, row))
            made += self._release(int(before[row]))
            made += self._revise(rows.slice(row, row + 1), int(before[row]))
            start = row + 1
        self.reorder.add(rows.slice(start, frame.rows))
        return made + self._release(int(after[-1]) if len(after) else NEVER), late

    def _push_in_order(self, frame: Frame, ts: Ints | None) -> tuple[list[Made], Ints]:
        chunk = self._chunk(frame, None)
        arrivals = np.arange(self.received, self.received + frame.rows)
        rows = Arrived(ts, None, arrivals, None, chunk)
        order, starts, names = self._by_key(frame, ts)
        if order is not None:
            rows = rows.take(order)
        late, live = [], []
        for (name, row), start, stop in zip(names, starts, [*starts[1:], frame.rows], strict=False):
            first = (
                start if rows.ts is None else start + self._count_late(name, rows.ts[start:stop])
            )
            if first > start:
                late.append(rows.arrivals[start:first] - self.received)
            if first < stop:
                live.append((name, row, first, stop))
        late_rows = np.sort(np.concatenate(late)) if late else NO_ROWS
        if ts is not None and late:
            self._refuse_late(np.bincount(late_rows, minlength=frame.rows) > 0, ts)
        states = self._states(frame, [(name, row) for name, row, _, _ in live])
        parts = [
            (state, self._picked_of(state, rows.slice(first, stop)))
            for state, (_, _, first, stop) in zip(states, live, strict=True)
        ]
        if rows.ts is not None and len(rows.ts):
            self.now = _later(self.now, int(rows.ts.max() if self.spec.by else rows.ts[-1]))
        return self._feed(parts, self.now), late_rows

    def _require(self, frame: Frame) -> None:
        names = frame.names()
        for wanted, argument in ((self.spec.by, "by"), (self.plan.columns, "agg")):
            for name in wanted:
                if name not in names:
                    frame.require(name, argument)

    def _chunk(self, frame: Frame, kept: Ints | None) -> Chunk:
        """The plan's columns as kernels read them, in the types of the first push.

        kept : the rows of the push that these are
        """
        columns = {name: frame.column(name) for name in self.plan.columns}
        known = self.types
        if any(known.get(n) is None or not _alike(c, known[n]) for n, c in columns.items()):
            check_types(self.plan, columns)
            columns = {name: fitted(column, known.get(name)) for name, column in columns.items()}
            if frame.rows:
                self.types = {**{n: c.slice(0, 0) for n, c in columns.items()}, **known}
        try:
            return self.coders.chunk(frame, columns)
        except BadItemError as error:
            raise (error if kept is None else error.at(int(kept[error.row]))) from None

    # ---------------------------------------------------------------------------- keys

    def _numbers(self, frame: Frame) -> Ints | None:
        """The numbers of the rows' keys; None where there is one."""
        if not self.spec.by:
            if frame.rows:
                self._states(frame, [((), 0)])
            return None
        codes, groups = frame.key_codes(self.spec.by)
        states = self._states(frame, self._names(frame, codes, groups))
        return np.array([state.number for state in states], np.int64)[codes]

    def _names(self, frame: Frame, codes: Ints, groups: int) -> list[tuple[Key, int]]:
        """The keys of these codes, and the first row of each."""
        firsts = first_rows(codes, groups)
        names = key_values(frame, self.spec.by, firsts)
        return list(zip(names, firsts.tolist(), strict=True))

    def _by_key(
        self, frame: Frame, ts: Ints | None
    ) -> tuple[Ints | None, list[int], list[tuple[Key, int]]]:
        """The rows by (key, time, arrival) (None: as they are), where keys begin there, and each
        key with one of its rows in the frame."""
        order = None
        if ts is not None and first_fall(ts) >= 0:
            order = sort_times(ts)
        if not self.spec.by:
            return order, [0] if frame.rows else [], [((), 0)]
        codes, groups = frame.key_codes(self.spec.by)
        places, offsets = group_places(codes, groups, order)
        names = self._names(frame, codes, groups)
        return spread(np.arange(frame.rows), places), offsets[:-1].tolist(), names

    def _states(self, frame: Frame, names: list[tuple[Key, int]]) -> list[KeyState]:
        """The states of keys, each of which has a row here."""
        states = [self.keys.get(name) for name, _ in names]
        fresh = [k for k, state in enumerate(states) if state is None]
        for k in fresh:
            states[k] = self._new_state(names[k][0])
        if fresh and self.labels and self.spec.by:
            more = open_frame(frame.select(list(self.spec.by))).take(
                np.array([names[k][1] for k in fresh])
            )
            known = self.key_rows
            self.key_rows = more if known is None else frame.join([known, more])
        return states  # type: ignore[return-value]

    def _new_state(self, name: Key) -> KeyState:
        assert self.ticks is not None
        track = (
            RevisedTrack(self.spec, self.plan, self.ticks, self._within())
            if self.revises
            else Track(self.spec, self.plan, self.ticks)
        )
        timed = bool(self.labels) and self.spec.on is not None
        state = KeyState(len(self.numbered), track, timed, self.revises)
        self.keys[name] = state
        self.numbered.append(state)
        self._undo.append(partial(self._unlearn, name))
        return state

    def _unlearn(self, name: Key) -> None:
        del self.keys[name]
        self.numbered.pop()

    def _picks(self, keys: Ints | None, rows: int) -> Mask | None:
        """Which rows, in order of arrival, are answered, where arrival tells; None: any."""
        if self.spec.by_rank:
            return None
        codes, groups = (np.zeros(rows, np.int64), 1) if keys is None else factorize(keys)
        places, offsets = group_places(codes, groups, None)
        numbers = np.zeros(groups, np.int64)
        if keys is not None:
            numbers[codes] = keys
        states = [self.numbered[number] for number in numbers.tolist()] if rows else []
        before = np.array([state.count for state in states], np.int64)
        for state, size in zip(states, np.diff(offsets).tolist(), strict=False):
            self._count(state, size)
        assert self.spec.every is not None
        ranks: Ints = (before - offsets[:-1])[codes] + places + 1 if rows else NO_ROWS
        return np.equal(ranks % self.spec.every, 0)

    def _picked_of(self, state: KeyState, rows: Arrived) -> Arrived:
        """The same of rows of one key, in any order."""
        if self.spec.by_rank:
            return rows
        assert self.spec.every is not None
        ranks = rows.arrivals.argsort().argsort() + state.count + 1
        self._count(state, len(ranks))
        return rows._replace(picked=ranks % self.spec.every == 0)

    def _count(self, state: KeyState, rows: int) -> None:
        self._undo.append(partial(setattr, state, "count", state.count))
        state.count += rows

    def _count_late(self, name: Key, ts: Ints) -> int:
        """How many of a key's rows, which come in order of time, are late."""
        known = self.keys.get(name)
        if known is None:
            return 0 if self.forgotten is None else int(ts.searchsorted(self.forgotten))
        if known.newest is None:
            return 0
        newest, joined = known.newest, known.track.last_joining()
        edge = newest if joined is None else max(newest, joined + 1)
        return 0 if ts[0] >= edge else int(ts.searchsorted(min(edge, EVER)))

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
        parts: list[tuple[KeyState, Arrived]] = []
        if rows is not None and rows.keys is None:
            parts = [(self.keys[()], rows)]
        elif rows is not None and rows.keys is not None:
            codes, groups = factorize(rows.keys)
            places, offsets = group_places(codes, groups, None)
            rows = rows.take(spread(np.arange(len(codes)), places))
            assert rows.keys is not None
            edges = offsets.tolist()
            numbers = rows.keys[offsets[:-1]].tolist()
            parts = [
                (self.numbered[number], rows.slice(start, stop))
                for number, start, stop in zip(numbers, edges[:-1], edges[1:], strict=True)
            ]
        return self._feed(parts, now, final)

    def _in_place_at_once(self) -> bool:
        """Whether rows at the watermark can be answered: no later row of their time joins."""
        spec, ticks = self.spec, self.ticks
        assert ticks is not None
        grows = spec.right_closed and not ties_by_arrival(spec, ticks) and ticks.lag <= 0
        return spec.over_rows or not grows

    def _feed(
        self, parts: list[tuple[KeyState, Arrived]], now: int | None, final: bool = False
    ) -> list[Made]:
        """Feed the keys that have new rows, and those whose rows wait for time to go on."""
        if self.waiting:
            parts = parts + self._waiting_but(parts)
        told: list[tuple[KeyState, Windows]] = []
        for state, rows in parts:
            self._undo.append(partial(state.go_back, state.place()))
            windows = state.track.take(rows.ts, rows.chunk, final, now, rows.picked)
            state.take(rows)
            self._note_fed(state)
            if len(windows.at):
                told.append((state, windows))
        return self._answers_of(told) if told else []

    def _note_fed(self, state: KeyState) -> None:
        self._fed.append(state)
        waits, waited = state.track.answered < state.track.received, state in self.waiting
        if waits != waited:
            (self.waiting.add if waits else self.waiting.discard)(state)
            self._undo.append(partial(self.waiting.discard if waits else self.waiting.add, state))

    def _waiting_but(self, parts: list[tuple[KeyState, Arrived]]) -> list[tuple[KeyState, Arrived]]:
        """No new rows, for the other keys with rows that wait for time to go on."""
        idle = self.waiting - {state for state, _ in parts}
        nothing = self._nothing() if idle else None
        return [] if nothing is None else [(state, nothing) for state in idle]

    def _answers_of(self, told: list[tuple[KeyState, Windows]]) -> list[Made]:
        assert self.frame is not None
        total = sum([len(windows.at) for _, windows in told])
        answers = KeyedAnswers(self.plan, told[0][0].track.rows.columns(), total)
        for state, windows in told:
            state.track.answer(windows, answers)
            self.awake.pop(state, None)
            self.awake[state] = None
            if len(self.awake) > AWAKE:
                oldest = next(iter(self.awake))
                del self.awake[oldest]
                oldest.track.sleep()
        return [self._made(told, answers.answers(self.frame))]

    def _revise(self, row: Arrived, now: int) -> list[Made]:
        """Take a row that is late; the windows that hold it are answered again."""
        assert self.frame is not None
        state = self.numbered[0 if row.keys is None else int(row.keys[0])]
        windows, undo = state.insert(row, now)
        self._undo.append(undo)
        self._note_fed(state)
        if not len(windows.at):
            return []
        answers = KeyedAnswers(self.plan, state.track.rows.columns(), len(windows.at))
        assert isinstance(state.track, RevisedTrack)
        state.track.answer_again(windows, answers)
        return [self._made([(state, windows)], answers.answers(self.frame))]

    def _made(self, told: list[tuple[KeyState, Windows]], answers: list[Answer]) -> Made:
        """Answers, with the rows that they are of."""
        arrivals, times, revisions = [], [], []
        for state, windows in told:
            arrivals.append(state.beside_rows(state.arrivals, windows.at))
            if state.times is not None:
                times.append(state.beside_rows(state.times, windows.at))
            if state.revisions is not None:
                revisions.append(state.count_answers(windows.at, 1))
                self._undo.append(partial(state.count_answers, windows.at, -1))
        keys = NO_ROWS
        if self.labels:
            numbers = [state.number for state, _ in told]
            keys = np.repeat(numbers, [len(windows.at) for _, windows in told])
        return Made(joined(arrivals), keys, joined(times), joined(revisions), answers)

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
        now = None if self.reorder is None else self._mark_now()
        for state in self._fed:
            state.settle(now)
        if self.reorder is not None:
            self.reorder.settle()
        self._forget_dead_keys()
        if self.coders:
            kept = [state.track.rows for state in self.keys.values()]
            self.coders.forget_the_gone(
                kept if self.reorder is None else [*kept, self.reorder.rows]
            )
        return answers

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
        made = []
        table = self.frame.select(list(self.spec.by)) if self.key_rows is None else self.key_rows
        by = open_frame(table) if self.spec.by else None
        for name in self.labels:
            if by is not None and name in self.spec.by:
                made.append(taken_answer(name, by.column(name), keys))
            else:
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
        self._undo, self._fed = [], []
        return super()._mark(), None if self.reorder is None else self.reorder.place()

    def _go_back(self, before: Any) -> None:
        for undo in reversed(self._undo):
            undo()
        values, place = before
        super()._go_back(values)
        if self.reorder is not None:
            self.reorder.go_back(place)

    # ------------------------------------------------------------------------- dead keys

    def _forget_dead_keys(self) -> None:
        """Drop keys whose rows no window can reach any more, once they may be most of all keys."""
        now = self._mark_now() if self.reorder is not None else self.now
        ticks = self.ticks
        if len(self.keys) < self.sweep_at or ticks is None or now is None:
            return
        if self.spec.over_rows or ticks.range is None or self.spec.every is not None:
            return
        edge = now - self._within() - ticks.range - abs(ticks.lag)
        unordered: set[int] = set() if self.reorder is None else self.reorder.key_numbers()
        alive = {
            name: state
            for name, state in self.keys.items()
            if state in self.waiting
            or state.newest is None
            or state.newest >= edge
            or state.number in unordered
        }
        if len(alive) < len(self.keys):
            self._keep_keys(alive)
            self.forgotten = now
        self.sweep_at = 64 + 2 * len(self.keys)

    def _keep_keys(self, alive: dict[Key, KeyState]) -> None:
        """Forget all others, and number these anew."""
        old = np.array([state.number for state in alive.values()], np.int64)
        numbers = np.zeros(len(self.numbered), np.int64)
        numbers[old] = np.arange(len(old))
        if self.reorder is not None:
            self.reorder.renumber(numbers)
        if self.key_rows is not None:
            self.key_rows = open_frame(self.key_rows).take(old)
        self.keys, self.numbered = alive, list(alive.values())
        gone = set(self.awake) - set(self.numbered)
        for state in gone:
            del self.awake[state]
        for number, state in enumerate(self.numbered):
            state.number = number


def _later(now: int | None, time: int | None) -> int | None:
    times = [t for t in (now, time) if t is not None]
    return max(times) if times else None


def _alike(column: Column, known: Column) -> bool:
    return column.kind == known.kind and column.unit == known.unit
