"""KeyedWindows: the windows of all keys of a stream.

Keys with few rows share a pool (`mta.pool`). One with many, one that stands alone, and keys whose
rows may come late and revise, have a track (`mta.track`) each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mta._keys import factorize, group_places
from mta._pool import offsets_of, ranges
from mta._vector import Vector
from mta.cold_keys import ColdKeys
from mta.engine import Ints, Ticks
from mta.frames import Answer, Frame
from mta.groups import Groups, make_groups
from mta.key_state import KeyState, Made, joined
from mta.ledger import Ledger
from mta.plan import Plan
from mta.pool import Pool
from mta.pool_room import PoolRoom, rows_for_a_track
from mta.push import NEVER, NO_ROWS
from mta.reorder import Arrived
from mta.revise import LateRows, RevisedTrack
from mta.rows import Chunk, Coded, KeptRows, Mask
from mta.slider import KeyedAnswers
from mta.specs import Rolling
from mta.track import Track, Windows

AWAKE = 1024  # so many tracks have kernels; those of others are made anew when they get rows


Paged = Callable[[int, int, range], Track]


class KeyedWindows:
    """The windows of keys, which have numbers.

    timed : the times of rows are wanted beside their answers
    within : for how many ticks late rows revise; None: they do not
    paged : makes the tracks of keys whose rows are on a store, by number and serial number, and
        the numbers of rows that they have from the start
    room : of the pool of these; None: all keys have tracks
    """

    def __init__(
        self, spec: Rolling, plan: Plan, ticks: Ticks, frame: Frame, timed: bool,
        within: int | None, paged: Paged | None = None, room: PoolRoom | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.plan, self.ticks, self.frame = spec, plan, ticks, frame
        self.timed, self.within = timed, within
        self.groups: Groups = make_groups(spec.by, frame)
        self.ledger = Ledger(in_blocks=paged is None)
        self.counts = Vector()  # rows of every key that were taken in, where arrival picks rows
        pooled = spec.by and within is None and (paged is None or room is not None)
        self.pool = Pool(spec, plan, ticks) if pooled else None
        self.paged, self.room = paged, room
        # Where the pool's rows may go to a store it numbers its keys by itself.
        self.cold: ColdKeys | None = None
        if room is not None and self.pool is not None:
            room.pool, self.cold = self.pool, ColdKeys(self.pool, self.ledger, room)
        self.tracks: dict[int, KeyState] = {}
        self.waiting: set[KeyState] = set()  # those with rows without an answer
        self.awake: dict[KeyState, None] = {}  # those with kernels, fed last at the end
        self.long = rows_for_a_track(plan)
        # Of the call at hand: how to undo what it has changed in place, and what it has fed.
        self._undo: list[Callable[[], Any]] = []
        self._fed: list[KeyState] = []
        self._known = 0

    # ---------------------------------------------------------------------------- keys

    def numbers(self, frame: Frame) -> Ints | None:
        """The numbers of the rows' keys; None where there is one."""
        if not self.spec.by and len(self.ledger.serials):
            return None
        codes = self.groups.codes(frame)
        self._grow()
        return codes if self.spec.by else None

    def _grow(self) -> None:
        keys = len(self.groups)
        more = keys - len(self.ledger.serials)
        if more > 0:
            self.counts.extend(np.zeros(0 if self.spec.by_rank else more, np.int64))
            self.ledger.grow(keys)
        if self.cold is not None:
            self.cold.grow(keys)
        elif self.pool is not None:
            self.pool.grow(keys)

    def edges(self, keys: Ints, forgotten: int | None) -> Ints:
        """The times from which on rows of these keys are not late, where they come in order.

        forgotten : keys without rows had none from here on
        """
        pool: Pool | ColdKeys | None = self.cold or self.pool
        edges = np.full(len(keys), NEVER) if pool is None else pool.edges(keys)
        for place, state in self._tracked(keys):
            edges[place] = state.edge()
        if forgotten is not None:
            edges[edges == NEVER] = forgotten
        return edges

    def edge(self) -> int:
        """The same of the one key that there is."""
        state = self.tracks.get(0)
        return NEVER if state is None else state.edge()

    def _tracked(self, keys: Ints) -> list[tuple[int, KeyState]]:
        """Those of these keys that have a track, with their places."""
        if not self.tracks:
            return []
        found = [(place, self.tracks.get(key)) for place, key in enumerate(keys.tolist())]
        return [(place, state) for place, state in found if state is not None]

    def picks(self, keys: Ints | None, rows: int) -> Mask | None:
        """Which of these rows, in order of arrival, are answered, where that tells; None: any."""
        if self.spec.by_rank:
            return None
        one = np.zeros(rows, np.int64), min(rows, 1)
        codes, groups = one if keys is None else factorize(keys)
        places, offsets = group_places(codes, groups, None)
        numbers = np.zeros(groups, np.int64)
        if keys is not None:
            numbers[codes] = keys
        counts = self.counts.view()
        before = counts[numbers]
        self._undo.append(partial(counts.__setitem__, numbers, before))
        counts[numbers] += np.diff(offsets)
        assert self.spec.every is not None
        ranks: Ints = (before - offsets[:-1])[codes] + places + 1 if rows else NO_ROWS
        return np.equal(ranks % self.spec.every, 0)

    # ------------------------------------------------------------------------- feeding

    def feed(
        self, keys: Ints, begin: Ints, came: Ints, rows: Arrived, now: int | None, final: bool
    ) -> list[Made]:
        """Feed the keys that have rows, and those whose rows wait for time to go on.

        keys : each once: the i-th has came[i] of the rows, in order of time, from begin[i] on
        """
        made: list[Made] = []
        if self.pool is None:
            tracked = [(place, self.state_of(key)) for place, key in enumerate(keys.tolist())]
        else:
            tracked = self._tracked(keys)
        parts = [
            (state, rows.slice(int(begin[i]), int(begin[i] + came[i]))) for i, state in tracked
        ]
        if self.pool is not None:
            if tracked:
                pooled = np.ones(len(keys), np.bool_)
                pooled[[place for place, _ in tracked]] = False
                keys, begin, came = keys[pooled], begin[pooled], came[pooled]
            slots = keys if self.cold is None else self.cold.slots(keys)
            got = self.pool.take(slots, begin, came, rows, now, final)
            if got is not None and self.cold is not None:
                got = Made(got.arrivals, self.cold.owner.view()[got.keys], *got[2:])
            if got is not None:
                made.append(got)
        idle = self.waiting and self.waiting - {state for state, _ in parts}
        if idle:
            nothing = rows.slice(0, 0)
            parts += [(state, nothing) for state in idle]
        return made + self._feed_tracks(parts, now, final)

    def feed_one(self, rows: Arrived, now: int | None, final: bool) -> list[Made]:
        """Feed the one key that there is."""
        return self._feed_tracks([(self.state_of(0), rows)], now, final)

    def _feed_tracks(
        self, parts: list[tuple[KeyState, Arrived]], now: int | None, final: bool
    ) -> list[Made]:
        told: list[tuple[KeyState, Windows]] = []
        for state, rows in parts:
            self._undo.append(partial(state.go_back, state.place()))
            windows = state.track.take(rows.ts, rows.chunk, final, now, rows.picked)
            state.take(rows)
            self._note_fed(state)
            if len(windows.at):
                told.append((state, windows))
        return [self._answers_of(told)] if told else []

    def _note_fed(self, state: KeyState) -> None:
        self._fed.append(state)
        waits, waited = state.track.answered < state.track.received, state in self.waiting
        if waits != waited:
            (self.waiting.add if waits else self.waiting.discard)(state)
            self._undo.append(partial(self.waiting.discard if waits else self.waiting.add, state))

    def _answers_of(self, told: list[tuple[KeyState, Windows]]) -> Made:
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
        return self._made(told, answers.answers(self.frame))

    def revise(self, row: Arrived, now: int) -> list[Made]:
        """Take a row that is late; the windows that hold it are answered again."""
        state = self.state_of(0 if row.keys is None else int(row.keys[0]))
        windows, undo = state.insert(row, now)
        self._undo.append(undo)
        self._note_fed(state)
        if not len(windows.at):
            return []
        answers = KeyedAnswers(self.plan, state.track.rows.columns(), len(windows.at))
        assert isinstance(state.track, LateRows)
        state.track.answer_again(windows, answers)
        return [self._made([(state, windows)], answers.answers(self.frame))]

    def _made(self, told: list[tuple[KeyState, Windows]], answers: list[Answer]) -> Made:
        """Answers, with the rows that they are of."""
        arrivals = joined([state.beside_rows(state.arrivals, at) for state, (at, _, _) in told])
        keys = times = revisions = NO_ROWS
        if self.timed:
            times = joined([state.beside_rows(state.times, at) for state, (at, _, _) in told])
        if self.within is not None:
            revisions = joined([state.count_answers(at, 1) for state, (at, _, _) in told])
            for state, (at, _, _) in told:
                self._undo.append(partial(state.count_answers, at, -1))
        if self.spec.by:
            numbers = [state.number for state, _ in told]
            keys = np.repeat(numbers, [len(windows.at) for _, windows in told])
        return Made(arrivals, keys, times, revisions, answers)

    # -------------------------------------------------------------------------- tracks

    def state_of(self, key: int) -> KeyState:
        """The track of a key, and what is beside it; made when it is asked for."""
        state = self.tracks.get(key)
        if state is None:
            state = self.new_state(key)
            self._undo.append(partial(self.tracks.pop, key))
        return state

    def new_state(self, key: int, kept: range = range(0)) -> KeyState:
        """A track, which is to be given the rows of these numbers."""
        if self.paged is not None:
            track = self.paged(key, int(self.ledger.serials.view()[key]), kept)
        elif self.within is not None:
            track = RevisedTrack(self.spec, self.plan, self.ticks, self.within)
        else:
            track = Track(self.spec, self.plan, self.ticks)
        state = self.tracks[key] = KeyState(key, track, self.timed, self.within is not None)
        return state

    def _move_out(self, pool: Pool, slots: Ints, now: int | None) -> None:
        """Give tracks to keys of the pool."""
        for slot in slots.tolist():
            moved = pool.move_out(slot)
            key = slot if self.cold is None else self.cold.move_out(slot)
            received = moved.fields["received"]
            state = self.new_state(key, range(received - moved.fields["kept"], received))
            state.move_in(moved)
            state.settle(now)
            if received > moved.fields["answered"]:
                self.waiting.add(state)
        if self.room is not None and len(slots):
            self.room.note()

    def _long(self, pool: Pool) -> Ints:
        """The keys of the pool that are to have tracks, after a call."""
        if self.room is not None:
            return self.room.choose()
        long: Ints = pool.fed[pool.of("kept", pool.fed) > self.long]
        return long

    # ------------------------------------------------------------------- all or nothing

    def mark(self) -> None:
        """A call begins: `go_back` undoes what it does, `settle` makes it last."""
        self._undo, self._fed = [], []
        self._known = len(self.groups)

    def go_back(self) -> None:
        """Undo everything since `mark`; a second time there is nothing to undo."""
        while self._undo:
            self._undo.pop()()
        if self.pool is not None:
            self.pool.go_back()
        if len(self.groups) > self._known:
            numbers = np.arange(len(self.groups), dtype=np.int32)
            numbers[self._known :] = -1
            self.groups.renumber(numbers)
            self.counts.take_back(max(len(self.counts) - self._known, 0))
            self.ledger.shrink(self._known)
            if self.cold is not None:
                self.cold.shrink(self._known)
            elif self.pool is not None:
                self.pool.shrink(self._known)

    def settle(self, now: int | None) -> None:
        """Let go of what no later window, and no later answer, can need."""
        for state in self._fed:
            state.settle(now)
        if self.pool is not None:
            self.pool.settle()
            self._move_out(self.pool, self._long(self.pool), now)
        if self.cold is not None:
            self.cold.settle()

    # ---------------------------------------------------------------------- what it holds

    @property
    def rows(self) -> int:
        """Rows that are kept."""
        pooled = 0 if self.pool is None else self.pool.live
        pooled += 0 if self.cold is None else self.cold.rows
        return pooled + sum(state.track.kept for state in self.tracks.values())

    @property
    def unanswered(self) -> int:
        """Rows without an answer."""
        tracks = [state.track for state in self.waiting]
        pooled = 0 if self.pool is None else self.pool.unanswered
        return pooled + sum(track.received - track.answered for track in tracks)

    def kept(self) -> list[Coded]:
        """All rows."""
        pooled: list[Coded] = [] if self.pool is None else [self.pool.rows]
        pooled += [] if self.cold is None else [self.cold]
        return pooled + [rows for state in self.tracks.values() for rows in state.track.all_rows()]

    # ------------------------------------------------------------------------ in blocks

    def trim(self, now: int | None) -> None:
        """Let go of rows that no window can reach, as no row before this time will come."""
        if self.pool is not None and now is not None:
            self.pool.trim(now)

    def spans(self) -> tuple[Ints, Ints]:
        """Of every key the rows that are kept: from which number on, and up to which."""
        received, base = np.zeros((2, len(self.groups)), np.int64)
        if self.pool is not None:
            received = self.pool.of("received").copy()
            base = received - self.pool.of("kept")
        for key, state in self.tracks.items():
            base[key], received[key] = state.track.rows.first, state.track.received
        return base, received

    def rows_since(self, keys: Ints, since: Ints) -> tuple[KeptRows, Ints]:
        """The rows of these keys from number since[i] on, key after key, and their times."""
        rows, times, owners = KeptRows(self.plan), [], []
        if self.pool is not None:
            pooled, first = keys, since
            if self.tracks:
                mine = np.array([key not in self.tracks for key in keys.tolist()], np.bool_)
                pooled, first = keys[mine], since[mine]
            received, kept = self.pool.of("received", pooled), self.pool.of("kept", pooled)
            begin = self.pool.of("begin", pooled) + first - (received - kept)
            places = ranges(begin, received - first)
            rows.append(self.pool.rows.chunk(places))
            times.append(_times_at(self.pool.times, places))
            owners.append(pooled.repeat(received - first))
        for place, state in self._tracked(keys):
            track = state.track
            places = np.arange(int(since[place]), track.received) - track.rows.first
            rows.append(track.rows.chunk(places))
            times.append(_times_at(track.times, places))
            owners.append(np.full(len(places), keys[place]))
        if not self.tracks:
            return rows, joined(times)
        order = joined(owners).argsort(kind="stable")
        in_order = KeptRows(self.plan)
        in_order.append(rows.chunk(order))
        return in_order, joined(times)[order]

    def adopt_rows(self, chunk: Chunk | None, times: Ints) -> None:
        """Take all the rows that keys have, one key after the other, and their times."""
        if chunk is None:
            return
        base, received = self.spans()
        offsets = offsets_of(received - base)
        pooled = np.ones(chunk.rows, np.bool_)
        for key, state in self.tracks.items():
            mine = slice(*offsets[key : key + 2].tolist())
            pooled[mine] = False
            state.track.rows.append(chunk.slice(mine.start, mine.stop))
            if not self.spec.over_rows:
                state.track.times.extend(times[mine])
        if self.pool is not None:
            rows = np.flatnonzero(pooled)
            self.pool.rows.append(chunk.take(rows))
            if self.spec.on is not None:
                self.pool.times.extend(times[rows])
            kept = self.pool.of("kept")
            self.pool.of("begin")[:] = offsets_of(kept)[:-1]

    # ------------------------------------------------------------------------- dead keys

    def alive(self, edge: int, unordered: set[int]) -> Ints:
        """The keys that have rows from this time on, or without an answer, or are told here."""
        alive = np.zeros(len(self.groups), np.bool_)
        if self.cold is not None:
            alive = self.cold.newest_of_all() >= edge
            alive[self.cold.waiting()] = True
        elif self.pool is not None:
            alive = self.pool.of("newest") >= edge
            alive[self.pool.waiting] = True
        for key, state in self.tracks.items():
            alive[key] = state in self.waiting or state.newest is None or state.newest >= edge
        alive[list(unordered)] = True
        found: Ints = np.flatnonzero(alive)
        return found

    def keep(self, keys: Ints) -> Ints:
        """Forget all others; the new numbers of all (-1: it is gone)."""
        numbers = np.full(len(self.groups), -1, np.int64)
        numbers[keys] = np.arange(len(keys))
        self.groups.renumber(numbers.astype(np.int32))
        if not self.spec.by_rank:
            self.counts.keep(keys)
        self.ledger.keep(keys)
        if self.cold is not None:
            self.cold.keep(keys, numbers)
        elif self.pool is not None:
            self.pool.keep(keys)
        for key, state in self.tracks.items():
            if numbers[key] < 0:
                state.track.forget()
        self.tracks = {
            int(numbers[key]): state for key, state in self.tracks.items() if numbers[key] >= 0
        }
        for key, state in self.tracks.items():
            state.number = key
        live = set(self.tracks.values())
        self.awake = {state: None for state in self.awake if state in live}
        return numbers


def _times_at(times: Vector, places: Ints) -> Ints:
    """The times at these places; 0 where none are kept, as nobody asks for them."""
    found: Ints = times.view()[places] if len(times) else np.zeros(len(places), np.int64)
    return found
