"""KeyState: what a stream holds of one key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mta._vector import Vector
from mta.engine import Ints
from mta.frames import Answer, Frame
from mta.push import EVER, NEVER
from mta.reorder import Arrived
from mta.revise import LateRows
from mta.rows import Chunk
from mta.slider import join_answers
from mta.track import Place, Track, Windows

_NONE = np.zeros(0, np.int64)


class Moved(NamedTuple):
    """A key that leaves a pool: its fields; its rows and their times; of those without an answer
    the arrivals, and whether they are to have one; the marks of its kernels."""

    fields: dict[str, int]
    chunk: Chunk
    times: Ints
    arrivals: Ints
    picked: Any
    marks: tuple[tuple[int, ...], ...]


class KeyState:
    """One key: its track, and of its rows that have no answer yet, or may have another one, what
    says which they are.

    number : of the key
    """

    def __init__(self, number: int, track: Track, timed: bool, revised: bool) -> None:
        self.number = number
        self.track = track
        self.arrivals = Vector()
        self.times = Vector() if timed else None
        self.revisions = Vector() if revised else None  # how often a row has been answered
        # What is kept of rows beside the track.
        self.beside = [v for v in (self.arrivals, self.times, self.revisions) if v is not None]
        self.newest: int | None = None  # time of its last row

    def edge(self) -> int:
        """The time from which on rows are not late, where they come in order."""
        if self.newest is None:
            return NEVER
        joined = self.track.last_joining()
        return self.newest if joined is None else min(max(self.newest, joined + 1), EVER)

    def move_in(self, moved: Moved) -> None:
        """Go on where a key stood that was in a pool; nothing has come here before."""
        fields, track = moved.fields, self.track
        told = {name: fields[name] for name in ("received", "answered", "lo", "hi")}
        place = Place(**told, marks=moved.marks)
        track.take_up(place, moved.chunk, moved.times, moved.picked)
        if len(moved.times):
            self.newest = fields["newest"]
        for vector in self.beside:
            vector.first = place.answered
        self.arrivals.extend(moved.arrivals)
        if self.times is not None and len(moved.times):
            self.times.extend(moved.times[len(moved.times) - len(moved.arrivals) :])

    def take(self, rows: Arrived) -> None:
        """Note rows that the track has been fed."""
        if not len(rows.arrivals):
            return
        if rows.ts is not None:
            self.newest = int(rows.ts[-1])
        self._append(rows)

    def _append(self, rows: Arrived) -> None:
        self.arrivals.extend(rows.arrivals)
        if self.times is not None and rows.ts is not None:
            self.times.extend(rows.ts)
        if self.revisions is not None:
            self.revisions.extend(np.zeros(len(rows.arrivals), np.int64))

    def insert(self, rows: Arrived, now: int) -> tuple[Windows, Callable[[], None]]:
        """Take one row that is late: the windows to be answered again, and how to undo this."""
        track, place = self.track, self.track.place()
        assert isinstance(track, LateRows) and rows.ts is not None
        row, windows = track.insert(int(rows.ts[0]), rows.chunk, now, rows.picked)
        newest, at = self.newest, row - self.arrivals.first
        self._append(rows)
        for vector in self.beside:
            vector.move_last(at)
        self.newest = int(rows.ts[0]) if newest is None else max(newest, int(rows.ts[0]))

        def undo() -> None:
            self.newest = newest
            for vector in self.beside:
                vector.move_to_last(at)
                vector.take_back(1)
            track.undo_insert(row, place)

        return windows, undo

    def count_answers(self, at: Ints, by: int) -> Ints:
        """These rows have one more answer (or less): how many."""
        if self.revisions is None:
            return _NONE
        places = at - self.revisions.first
        counts = self.revisions.view()
        counts[places] += by
        found: Ints = counts[places]
        return found

    @staticmethod
    def beside_rows(vector: Vector | None, at: Ints) -> Ints:
        """What a vector of them holds of these rows, which ascend."""
        if vector is None:
            return _NONE
        start, stop = int(at[0]) - vector.first, int(at[-1]) - vector.first + 1
        items: Ints = vector.view()[start:stop]
        # (A copy: the vector goes on moving its items.)
        return items.copy() if stop - start == len(at) else items[at - at[0]]

    def place(self) -> tuple[Place, int, int | None]:
        """Where it stands; `go_back` returns to it as long as `settle` has not been called."""
        return self.track.place(), len(self.arrivals), self.newest

    def go_back(self, place: tuple[Place, int, int | None]) -> None:
        """Undo everything since it stood at `place`."""
        track, waiting, self.newest = place
        self.track.go_back(track)
        for vector in self.beside:
            vector.take_back(len(vector) - waiting)

    def settle(self, now: int | None) -> None:
        """Let go of what no later window, and no later answer, can need."""
        self.track.settle(now)
        for vector in self.beside:
            vector.drop_to(self.track.open_from)


class Made(NamedTuple):
    """Answers: which rows they are of, and what they say."""

    arrivals: Ints
    keys: Ints
    times: Ints
    revisions: Ints
    answers: list[Answer]


def join_made(made: list[Made], frame: Frame) -> Made:
    """Answers one after the other; `frame` is one of their kind."""
    if len(made) == 1:
        return made[0]
    columns = zip(*(part.answers for part in made), strict=True)
    return Made(
        joined([part.arrivals for part in made]),
        joined([part.keys for part in made]),
        joined([part.times for part in made]),
        joined([part.revisions for part in made]),
        [join_answers(list(part), frame) for part in columns],
    )


def joined(parts: list[Ints]) -> Ints:
    """Arrays one after the other."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else _NONE
