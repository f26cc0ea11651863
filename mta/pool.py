"""Pool: the windows of many keys that have few rows each.

A track (`mta.track`) costs the same for one new row as for a thousand: its kernels have to be given
rows and called. Here the kept rows of the keys at hand and their new ones are put together, one key
after the other, and one set of kernels goes over all of them, as over a batch. So a key costs a
copy of its kept rows and what kernels need to take them up again. Keys with many rows are better
off with a track.

The rows of a key lie together, in any place. Those of the keys at hand are written anew behind all
others; the places that they leave are given back once they are most of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mta._bounds import next_bounds_of_keys, rows_before
from mta._kernel import KEPT
from mta._pool import FIELDS, advanced, edges_of, gather, offsets_of, ranges, scatter
from mta._vector import Vector
from mta.engine import Ints, Ticks, row_edges, row_windows, ties_by_arrival
from mta.frames import Answer
from mta.key_state import Made, Moved
from mta.plan import Plan
from mta.pool_rows import ChunkRows, Runs, joined_chunk, runs_of
from mta.push import EVER, NEVER, NO_ROWS
from mta.reorder import Arrived
from mta.rows import Chunk, KeptRows, Mask
from mta.slider import AnswerOverflowError, RawAnswers, Slider
from mta.specs import Rolling

_SPARE = 1024  # places of rows that are gone are given back when there are more than this
_FEW = 4  # or, before more room is made for rows, than one for so many that are not


class Windows(NamedTuple):
    """Windows of keys, those of one after those of another.

    key : whose they are, as a place among the keys at hand
    rank : the number of the row of the key
    at, lo, hi : the row and the bounds, as places among the rows put together
    """

    key: Ints
    rank: Ints
    at: Ints
    lo: Ints
    hi: Ints

    def take(self, wanted: Mask) -> Windows:
        """Some of them."""
        return Windows(*(items[wanted] for items in self))


@dataclass
class Step:
    """Rows that have come, and how far their keys get with them; not yet for good.

    keys : their numbers
    chunk, times : all rows of these keys, put together
    arrivals, picked : of those that had no answer before
    table : `FIELDS` of the keys, afterwards; places are those among the rows put together
    marks : of every kernel, a row a key
    """

    keys: Ints
    chunk: Chunk
    times: Ints
    arrivals: Ints
    picked: Any
    table: Ints
    marks: list[Ints]

    @property
    def fields(self) -> dict[str, Ints]:
        """The table by the names of its rows."""
        return dict(zip(FIELDS, self.table, strict=True))


class Pool:
    """The windows of keys by number.

    Memory: the rows that are kept, as of tracks, and at most as many again that are gone; 80 bytes
    a key, and 8 for each mark of a kernel.
    """

    def __init__(self, spec: Rolling, plan: Plan, ticks: Ticks) -> None:
        self.spec, self.plan, self.ticks = spec, plan, ticks
        self.sides = spec.left_closed, spec.right_closed
        self.by_arrival = ties_by_arrival(spec, ticks)
        self.rows = KeptRows(plan)
        self.times = Vector()  # of these rows
        self.arrivals = Vector()  # of the rows without an answer
        self.picked = None if spec.by_rank else Vector(False)  # and whether they are to have one
        self.fields = {name: Vector() for name in FIELDS}
        self._columns = list(self.fields.values())
        self.marks: list[Ints] | None = None  # of every kernel, a row a key
        self.waiting = NO_ROWS  # the keys with rows without an answer
        self._idle_marks = np.ones(0, np.bool_)  # of every key: a call has no rows of it
        self.live = 0  # rows that are kept
        self.fed = NO_ROWS  # the keys that the last `settle` was about
        self.tight = False  # memory is short: there is room for a quarter more, not for as much
        self.step: Step | None = None

    def __len__(self) -> int:
        return len(self.fields["kept"])

    def of(self, field: str, keys: Ints | None = None) -> Ints:
        """A field of these keys (None: of all)."""
        view: Ints = self.fields[field].view()
        return view if keys is None else view[keys]

    def grow(self, keys: int) -> None:
        """Have so many keys; the new ones have no rows."""
        if keys == len(self):
            return
        self._make_room([*self.fields.values()], keys - len(self))
        for name, vector in self.fields.items():
            vector.extend(np.full(keys - len(vector), _fresh(name), np.int64))

    def shrink(self, keys: int) -> None:
        """Undo `grow`, before which there were so many."""
        for vector in self.fields.values():
            vector.take_back(len(vector) - keys)

    # ------------------------------------------------------------------------ rows in

    def take(
        self, keys: Ints, begin: Ints, came: Ints, rows: Arrived, now: int | None, final: bool
    ) -> Made | None:
        """Take the next rows; the answers that are due, if there are any.

        keys : those that have rows, each once: the i-th has came[i] of them, from begin[i] on
        now : there will be no more rows before this time (None: only the rows themselves tell)
        final : no rows at all will follow

        Nothing of it lasts before `settle`.

        Raises
        ------
        OverflowError
            An integer answer does not fit.
        """
        idle = self._due(keys, now, final)
        if len(idle):
            none = np.zeros(len(idle), np.int64)
            keys = np.concatenate([keys, idle])
            begin, came = np.concatenate([begin, none]), np.concatenate([came, none])
        if not len(keys):
            return None
        table = gather(self._columns, keys)
        before: dict[str, Ints] = dict(zip(FIELDS, table, strict=True))
        runs = runs_of(before["begin"], before["kept"], begin, came)
        waited = before["received"] - before["answered"]
        open_runs = runs_of(before["open"], waited, begin, came)
        timed = rows.ts is not None and self.spec.on is not None
        times = runs.join(self.times.view(), rows.ts) if timed else NO_ROWS
        # From the number of a row of a key to its place among the rows put together.
        shift = runs.offsets[:-1] - (before["received"] - before["kept"])
        windows, counts = self._windows(before, runs, shift, times, now, final)
        step = Step(
            keys,
            joined_chunk(self.rows, rows.chunk, runs),
            times,
            open_runs.join(self.arrivals.view(), rows.arrivals),
            None if self.picked is None or rows.picked is None
            else open_runs.join(self.picked.view(), rows.picked.view(np.uint8)),
            advanced(
                table, came, runs.offsets, open_runs.offsets, shift, times, counts, windows.lo,
                windows.hi,
            ),
            [mine[keys] for mine in self.all_marks()],
        )  # fmt: skip
        self.step = step
        return self._answer(before, shift, open_runs, windows, counts, step)

    def _due(self, keys: Ints, now: int | None, final: bool) -> Ints:
        """The keys that have no new rows, but may have answers."""
        idle = self._idle(keys)
        if final or not len(idle):
            return idle
        if self.spec.over_rows or now is None:
            return NO_ROWS
        due, edge = self.of("due", idle), max(NEVER, min(now + self.ticks.lag, EVER))
        closed = self.sides[1] and not self.by_arrival
        return idle[due < edge if closed else due <= edge]

    def _idle(self, keys: Ints) -> Ints:
        """The keys that wait, but for these."""
        waiting, idle = self.waiting, self._idle_marks
        if not len(waiting) or not len(keys):
            return waiting
        if len(idle) < len(self):
            idle = self._idle_marks = np.ones(2 * len(self), np.bool_)
        idle[keys] = False
        found: Ints = waiting[idle[waiting]]
        idle[keys] = True
        return found

    def _windows(
        self, before: dict[str, Ints], runs: Runs, shift: Ints, times: Ints, now: int | None,
        final: bool,
    ) -> tuple[Windows, Ints]:  # fmt: skip
        """The windows of the rows that get to an answer now, and how many each key has."""
        answered = before["answered"]
        if self.spec.over_rows:
            received = before["received"] + runs.came
            last = row_edges(self.spec)[1]
            stop = received if final else np.minimum(received, received - last + 1)
            counts = np.maximum(stop - answered, 0)
        else:
            lo, hi, counts = next_bounds_of_keys(
                times, runs.offsets, answered + shift, before["lo"] + shift, before["hi"] + shift,
                self.ticks.range, self.ticks.lag, *self.sides, self.by_arrival, final, now,
            )  # fmt: skip
        key = np.arange(len(counts)).repeat(counts)
        rank, by = ranges(answered, counts), shift[key]
        if self.spec.over_rows:
            lo, hi = row_windows(self.spec, rank, received[key])
            lo, hi = lo + by, hi + by
        return Windows(key, rank, rank + by, lo, hi), counts

    # --------------------------------------------------------------------- answers out

    def _answer(
        self, before: dict[str, Ints], shift: Ints, open_runs: Runs, windows: Windows, counts: Ints,
        step: Step,
    ) -> Made | None:  # fmt: skip
        open_at = ranges(open_runs.offsets[:-1], counts)
        wanted: Mask | None = None
        if step.picked is not None:
            wanted = step.picked[open_at].view(np.bool_)
        elif self.spec.every is not None:
            wanted = np.equal((windows.rank + 1) % self.spec.every, 0)
        if wanted is not None:
            windows, open_at = windows.take(wanted), open_at[wanted]
            counts = np.bincount(windows.key, minlength=len(counts))
        if not len(windows.at):
            return None
        step.fields["marked"] |= counts > 0
        answers = self._slide(windows, counts, before["marked"], shift, step)
        return Made(
            step.arrivals[open_at],
            step.keys[windows.key],
            step.times[windows.at] if len(step.times) else NO_ROWS,
            NO_ROWS,
            answers,
        )

    def _slide(
        self, windows: Windows, counts: Ints, marked: Ints, shift: Ints, step: Step
    ) -> list[Answer]:
        raw = RawAnswers(self.plan, step.chunk.columns, len(windows.at))
        slider = Slider(self.plan, step.chunk.columns)
        if self.marks is None:
            self.marks = [np.zeros((0, len(mine)), np.int64) for mine in slider.marks()]
            step.marks = [mine[step.keys] for mine in self.all_marks()]
        slider.attach(ChunkRows(step.chunk), raw, False)
        edges = offsets_of(counts)
        known = marked.astype(np.uint8)
        try:
            slider.run_keys(windows.lo, windows.hi, edges, step.marks, known, shift)
        except AnswerOverflowError as error:
            raise error.explain(f"of row {windows.rank[error.window]}") from None
        raw.drop_full_masks([slider.counters])
        return raw.answers()

    def all_marks(self) -> list[Ints]:
        """The marks of every kernel, a row for every key that there is; of none before the first
        answer."""
        marks = self.marks or []
        missing = len(self) - len(marks[0]) if marks else 0
        if missing > 0:
            more = missing + (len(self) // _FEW if self.tight else len(self))  # as a vector grows
            marks = self.marks = [np.pad(mine, ((0, more), (0, 0))) for mine in marks]
        return marks

    # ------------------------------------------------------------------- all or nothing

    def go_back(self) -> None:
        """Undo what `take` did since `settle`."""
        self.step = None

    def settle(self) -> None:
        """What `take` did is so; let go of what no later window can need."""
        step, self.step = self.step, None
        self.fed = NO_ROWS if step is None else step.keys
        if step is None:
            return
        keys, fields = step.keys, step.fields
        gone = int(self.of("kept", keys).sum())
        if gone == self.live:
            self._keep_rows(NO_ROWS)
        self.live += int(fields["kept"].sum()) - gone
        if self._is_full(step.chunk.rows):
            self._compact(step.chunk.rows)
        fields["begin"] += self.rows.end
        fields["open"] += len(self.arrivals)
        self.rows.append(step.chunk)
        self.times.extend(step.times)
        self.arrivals.extend(step.arrivals)
        if self.picked is not None and step.picked is not None:
            self.picked.extend(step.picked)
        scatter(self._columns, keys, step.table)
        for mine, new in zip(self.marks or [], step.marks, strict=False):
            mine[keys] = new
        waits = fields["received"] > fields["answered"]
        self.waiting = np.concatenate([self._idle(keys), keys[waits]])
        self._give_back(_SPARE)

    def _keep_rows(self, places: Ints) -> None:
        self.rows.keep(places)
        if len(self.times):
            self.times.keep(places)

    def _give_back(self, spare: int | None) -> None:
        """Give back the places of rows that are gone, where they are most of all and more than so
        many (None: all of them)."""
        waiting, opened = self.waiting, self._opened()
        dead = self.rows.end - self.live
        dead_open = len(self.arrivals) - int(opened.sum())
        if dead > (-1 if spare is None else self.live + spare):
            keys = np.flatnonzero(self.of("kept"))
            self._keep_rows(self._together("begin", keys, self.of("kept", keys)))
        if dead_open > (-1 if spare is None else int(opened.sum()) + spare):
            places = self._together("open", waiting, opened)
            self.arrivals.keep(places)
            if self.picked is not None:
                self.picked.keep(places)

    def _opened(self) -> Ints:
        """How many rows without an answer each waiting key has."""
        return self.of("received", self.waiting) - self.of("answered", self.waiting)

    def _is_full(self, more: int) -> bool:
        """There is no room for so many rows more."""
        vectors = self.rows.vectors()
        here = vectors[0].nbytes // vectors[0].view().itemsize if vectors else self.rows.end + more
        return self.rows.end + more > here

    def _compact(self, more: int = 0) -> None:
        """Give back the places of rows that are gone, where these are not few beside the others;
        where memory is short, all of them, before there is room for so many more."""
        self._give_back(None if self.tight else self.live // _FEW - self.live)
        self._make_room([*self.rows.vectors(), self.times], more)

    def _make_room(self, vectors: list[Vector], more: int) -> None:
        """Have it for so many items more, where they are not to take as much as they like."""
        for vector in vectors if self.tight else []:
            if len(vector):
                vector.make_room(more, len(vector) // _FEW + _SPARE // 2)

    def thin_out(self) -> None:
        """Hold little more than the rows that are kept."""
        self._compact()
        for vector in [*self.rows.vectors(), *self.vectors(True)]:
            vector.shrink(1)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, but for values that have no 8 bytes."""
        vectors = [*self.rows.vectors(), *([] if self.spec.on is None else [self.times])]
        return sum([vector.view().itemsize for vector in vectors]) or 1

    @property
    def nbytes(self) -> int:
        """Bytes held, with the room for rows to come."""
        held = sum([vector.nbytes for vector in [*self.rows.vectors(), *self.vectors(True)]])
        return held + sum([mine.nbytes for mine in self.marks or []])

    @property
    def least(self) -> int:
        """Those of them that are needed."""
        of_keys, of_rows = len(self) * self.key_bytes, self.live * self.row_bytes
        return int(of_keys + of_rows + 8 * self.unanswered)

    @property
    def key_bytes(self) -> int:
        """Bytes of a key, beside its rows."""
        return int(8 * (len(FIELDS) + sum([mine.shape[1] for mine in self.marks or []])))

    @property
    def unanswered(self) -> int:
        """Rows without an answer."""
        return int(self._opened().sum())

    def _together(self, field: str, keys: Ints, sizes: Ints) -> Ints:
        """The places of these keys' rows, one after the other; the keys are told that they are
        there from now on."""
        begin = self.of(field)
        order = begin[keys].argsort()
        keys, sizes = keys[order], sizes[order]
        places = ranges(begin[keys], sizes)
        begin[keys] = offsets_of(sizes)[:-1]
        return places

    # ---------------------------------------------------------------------- snapshots

    def compact(self) -> tuple[int, int]:
        """Give back all places of rows that are gone; how many rows there are, and without an
        answer."""
        self._give_back(None)
        return self.live, self.unanswered

    def vectors(self, rows: bool) -> list[Vector]:
        """What is kept beside the rows as kernels read them; their times belong to the `rows`."""
        beside = [self.arrivals, *([] if self.picked is None else [self.picked])]
        return [*([self.times] if rows else []), *beside, *self.fields.values()]

    def sizes(self, keys: int, rows: int, waiting: int, with_rows: bool) -> list[int | None]:
        """How long these are where there are so many."""
        times = [0 if self.spec.on is None else rows] if with_rows else []
        beside = [waiting, *([] if self.picked is None else [waiting])]
        return [*times, *beside, *[keys] * len(self.fields)]

    def adopt(self) -> None:
        """Go on, when rows, vectors and marks have been filled.

        Raises
        ------
        ValueError
            They do not fit together.
        """
        told = {name: self.of(name) for name in FIELDS}
        base, waits = told["received"] - told["kept"], told["received"] - told["answered"]
        fits = (base >= 0) & (waits >= 0) & (told["kept"] >= 0) & (told["lo"] <= told["hi"])
        fits &= (told["lo"] >= base) & (told["hi"] <= told["received"]) & (told["answered"] >= base)
        for begin, sizes, end in (
            ("begin", told["kept"], self.rows.end),
            ("open", waits, len(self.arrivals)),
        ):
            fits &= (sizes == 0) | ((told[begin] >= 0) & (told[begin] <= end - sizes))
        if not fits.all():
            raise ValueError("the rows of keys are not where they should be")
        self.live = int(told["kept"].sum())
        self.waiting = np.flatnonzero(waits)

    def trim(self, now: int) -> None:
        """Let go of rows of idle keys that no window of a row from `now` on, or of one that waits,
        can reach. (`settle` sees to those of keys that have rows.)"""
        if self.spec.over_rows or self.ticks.range is None:
            return
        told = {name: self.of(name) for name in FIELDS}
        base, waits = told["received"] - told["kept"], told["received"] > told["answered"]
        reach = max(self.ticks.lag, 0) + self.ticks.range
        first = np.where(waits, np.minimum(told["due"], now), now)
        edges = np.maximum(first, NEVER + reach) - reach
        needed = base + rows_before(self.times.view(), told["begin"], told["kept"], edges)
        last = np.minimum(told["answered"] - 1, told["hi"])
        cut = np.maximum(base, np.minimum(needed - KEPT, last))
        told["lo"][:] = np.minimum(np.maximum(told["lo"], needed), told["hi"])
        told["begin"] += cut - base
        told["kept"] -= cut - base
        self.live = int(told["kept"].sum())

    # ---------------------------------------------------------------- keys come and go

    def edges(self, keys: Ints) -> Ints:
        """The times from which on rows of these keys are not late: no row was answered whose window
        they would be in, and none has come that is after them."""
        if self.spec.over_rows or self.by_arrival:
            return self.of("newest", keys)
        times, closed = self.times.view(), self.sides[1]
        return edges_of(gather(self._columns, keys), times, self.ticks.lag, closed)

    def move_out(self, key: int) -> Moved:
        """Let go of a key."""
        told = {name: int(self.of(name)[key]) for name in FIELDS}
        begin, opened = told["begin"], told["open"]
        rows = np.arange(begin, begin + told["kept"])
        waits = slice(opened, opened + told["received"] - told["answered"])
        chunk, times = self.rows.chunk(rows), self.times.view()
        marks = [mine[key] for mine in self.all_marks()] if told["marked"] else []
        made = Moved(
            told,
            chunk,
            times[rows] if len(times) else NO_ROWS,
            self.arrivals.view()[waits],
            None if self.picked is None else self.picked.view()[waits],
            tuple(tuple(mine.tolist()) for mine in marks),
        )
        self.live -= told["kept"]
        for name in FIELDS:
            self.of(name)[key] = _fresh(name)
        self.waiting = self.waiting[self.waiting != key]
        return made

    def take_in(
        self, told: dict[str, Ints], chunk: Chunk, times: Ints, marks: list[Ints]
    ) -> None:  # fmt: skip
        """Have more keys, whose rows have their answers.

        told : fields of theirs, where their rows begin in the chunk among them
        times : of the rows, where these are kept
        """
        before, size = len(self), len(told["kept"])
        self._make_room([*self.fields.values()], size)
        if self._is_full(chunk.rows):
            self._compact(chunk.rows)
        for name, vector in self.fields.items():
            vector.extend(told.get(name, np.zeros(size, np.int64)))
        self.of("begin")[before:] += self.rows.end
        self.rows.append(chunk)
        self.times.extend(times)
        for mine, new in zip(self.all_marks(), marks, strict=True):
            mine[before : before + size] = new
        self.live += chunk.rows

    def keep(self, keys: Ints) -> None:
        """Only these keys, which ascend; they are numbered anew."""
        numbers = np.full(len(self), -1, np.int64)
        numbers[keys] = np.arange(len(keys))
        if self.marks is not None:
            self.marks = [mine[keys] for mine in self.all_marks()]
        for vector in self.fields.values():
            vector.keep(keys)
        self.live = int(self.of("kept").sum())
        waiting = numbers[self.waiting]
        self.waiting = waiting[waiting >= 0]
        self._give_back(_SPARE)


def _fresh(field: str) -> int:
    """The field of a key without rows."""
    return NEVER if field == "newest" else 0
