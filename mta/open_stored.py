"""Open windows larger than memory: panes are on a store, and what they come to is kept by group.

The plans of SlideM (2013, §2.2 and §3): "2LA", partial aggregates by pane, and "1W", the rows, once
for all aggregates. Either way a pane is added to the totals of its groups when it is complete, and
taken out again, from the store, when it leaves the window. What comes behind (a row for a pane that
is on the store already) is kept beside, in memory, and put in its place when it becomes too much.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mta._buckets import Extents
from mta._partials import Layout, Partials
from mta.buckets import edge_answers, window_edges
from mta.engine import Ints
from mta.frames import Answer, Column, Frame
from mta.front_back import FrontBack
from mta.open_windows import OpenWindows, Revisions, WindowAxis, revises
from mta.pane_records import PaneRecords, PaneTable, RowRecords
from mta.pane_rows import PaneRows, Prepared
from mta.panes_inside import PanesInside
from mta.periodic import Landmark
from mta.plan import Plan
from mta.push import NEVER, fitted
from mta.row_blocks import Arrays
from mta.rows import Coders
from mta.rows_behind import Behind, joined, taken
from mta.rows_inside import RowsInside
from mta.shelf import AT, Renames, Shelf
from mta.stored_answers import Answered, StoredAnswers
from mta.stored_cuts import CutWindow
from mta.stored_folds import Folds, Parts
from mta.stored_kinds import (
    SEQ,
    TS,
    WindowLists,
    columns_of,
    merges,
    settled_plan,
    summed_plan,
)
from mta.stored_place import Place, blocks_needed
from mta.stored_revisions import Gathered, LastPanes, WindowsAgain
from mta.stored_values import StoredValues
from mta.to_shelf import ToShelf

# So many partials are in the cache, and so many windows are looked at in one go, at most.
_AT_ONCE = 1 << 15
_WINDOWS = 256
# Dead groups are forgotten when they are most, and more than these.
_FEW_GROUPS = 64
# What a header tells of the panes, beside what they hold.
_TOLD = (
    "generation", "bound", "sealed", "newest", "closed_to", "numbered", "low", "kept", "begun",
)  # fmt: skip


class StoredPanes(PaneRows, OpenWindows):
    """Panes of open windows on a store, and totals by group.

    plan_name : "2LA" or "1W": whether the records there are partials or rows
    frame : of rows, for the types of their columns

    Calls that fail with a StoreError have done a part of their work; called again, they go on.

    Memory, beside the blocks: a partial per group of the window at hand; of panes that are not
    complete a partial per group, with 1W also their rows that are newer than the watermark; what
    came behind, as much as `place.memory`; with 1W, the partials of a pane that leaves.
    """

    kind = "stored"

    def __init__(
        self,
        axis: WindowAxis,
        plan: Plan,
        frame: Frame,
        revisions: Revisions,
        plan_name: str,
        place: Place,
    ) -> None:
        plan = settled_plan(plan, {name: frame.column(name) for name in plan.columns})
        OpenWindows.__init__(self, axis, plan, frame, revisions)
        PaneRows.__init__(self, axis, summed_plan(plan), frame, "paned")
        self.stored_plan, self.place = plan_name, place
        self.keeps = revises(self.spec)  # panes that have left, for late rows
        self._lay_out(plan)
        self.endless = isinstance(self.spec, Landmark)
        alone = self.range == self.pane and not self.endless
        self.single = alone and not self.answers.reads_rows and not self.keeps
        self.fresh = PaneTable(self.partials)  # panes that are not complete
        self.out = ToShelf(self.records)
        self.behind: Behind | None = None
        self.inside = PanesInside(self.partials, self.records, place)
        self.last: LastPanes | None = LastPanes() if self.keeps else None
        self.generation = 0
        self.shelf = self._open_shelf(0)
        self.saved: list[bytes] = []  # what the shelf told when it was saved
        self.renames = Renames()
        self.bound = NEVER  # rows of panes before come behind
        self.sealed = NEVER  # panes before are in the totals, as far as they are inside
        self.newest: int | None = None  # the last bucket of all
        self.closed_to = NEVER  # windows complete by then have been answered
        self.made: list[list[Answer]] = []  # answers, as long as there are more to come with them
        self.low = NEVER  # the first pane of the window that was answered last
        self.kept = NEVER  # panes before are in no window that late rows may revise
        self.begun: int | None = None  # the first bucket of the first rows
        self.gathered: Gathered | None = None  # of the shelf, in a call with late rows
        self.alive = 0
        self.numbered = 0  # rows that have come
        self.stale: list[str] = []  # names of shelves that are no more

    def _lay_out(self, plan: Plan) -> None:
        """Say what is kept of rows, also for those answers that are not sums."""
        self._read_all(plan)
        for number, source in enumerate(self.measures.inputs):
            self.measures.counts[source] = len(self.specs)
            self.specs.append(("values", 0, number, "", ""))
        feeds, inputs = len(self.measures.feeds), len(self.measures.inputs)
        blocks = self.place.memory // self.place.block - blocks_needed(plan, self.keeps) + 4
        self.log_blocks = blocks // 2 if any(map(merges, plan.states)) else 0
        self.values = StoredValues(
            plan, self.types, self.frame, self.place.store, self.place.name,
            self.log_blocks * self.place.block, self._note_due,
        )  # fmt: skip
        self.layout, self.folds = Layout(self.specs, feeds), Folds(plan, self.values.types)
        self.partials = PaneRecords(self.layout, feeds, inputs, self.folds)
        self.rows = RowRecords(self.layout, feeds, inputs, self.folds, columns_of(plan))
        self.records = self.rows if self.stored_plan == "1W" else self.partials
        self.answers = StoredAnswers(plan, self.measures, self.values, self.folds, self.place)

    def _note_due(self) -> None:
        self.shelf.overdue = True

    def _open_shelf(self, generation: int, told: list[bytes] | None = None) -> Shelf:
        return Shelf(
            self.records.columns, self.place.store, f"{self.place.name}~rows{generation}",
            pool=self.place.memory // self.place.block - len(self.stacks) - self.log_blocks,
            block=self.place.block, keeps=self.keeps, told=told,
        )  # fmt: skip

    @property
    def stacks(self) -> list[FrontBack]:
        """What can't be taken out of a total."""
        return self.inside.stacks

    def _read_all(self, plan: Plan) -> None:
        """Read also the columns of those answers that are sorted for."""
        self.plan, self.coders = plan, Coders(plan)
        self.measures = replace(self.measures, inputs=tuple(plan.inputs))
        columns = {name: self.frame.column(name) for name in plan.columns}
        self.types = {name: column.slice(0, 0) for name, column in columns.items()}
        inputs = {source: number for number, source in enumerate(plan.inputs)}
        for state, measure in self.measures.states.items():
            kind, feed, _, source, nan = self.specs[measure]
            self.specs[measure] = (kind, feed, inputs[state.input], source, nan)

    # -------------------------------------------------------------------------- rows in

    def prepare(self, frame: Frame, ts: Ints) -> Prepared:
        rows = self.read_rows(frame, ts)
        more: Arrays = {}
        for name in columns_of(self.plan):
            if name == TS:
                more[name] = ts
            elif name == SEQ:
                more[name] = np.arange(self.numbered, self.numbered + len(ts))
            else:
                more[name] = self.values.cells(self._fitted(name[2:], frame), frame, rows.buckets)
        for name in self.values.logs:
            self.values.log(name, self._fitted(name, frame), frame, rows.buckets)
        self.numbered += len(ts)
        return replace(rows, more=more)

    def _fitted(self, name: str, frame: Frame) -> Column:
        return fitted(frame.column(name), self.types[name], frame)

    def read_rows(self, frame: Frame, ts: Ints) -> Prepared:
        rows = super().read_rows(frame, ts)
        self.coders.forget_all()  # they have told what is wrong; values have codes of their own
        return rows

    def add(self, rows: Prepared, at: Ints) -> None:
        if not len(at):
            return
        some = rows.take(at)
        if self.last is not None:
            self.last.note(some.codes, some.buckets)
        self.begun = int(some.buckets.min()) if self.begun is None else self.begun
        self.newest = some.newest if self.newest is None else max(self.newest, some.newest)
        late = some.buckets < self.bound
        if late.any() and not self.endless:  # (there, all that has come is in all that follows)
            self.behind = self.behind or Behind(self.records)
            self.behind.add(some.take(np.flatnonzero(late)), self.rows)
            some = some.take(np.flatnonzero(~late))
        if not len(some.codes):
            return
        self.fresh.add(some, self.rows)
        if isinstance(self.records, RowRecords) and not self.single:
            self.out.wait(self.rows.of_rows(some))

    # --------------------------------------------------------------------- windows that end

    def close(self, done: int, now: int) -> list[list[Answer]]:
        extents, wid = self._next_windows(done, now)
        while len(wid):
            self._answer(extents, wid)
            extents, wid = self._next_windows(done, now)
        made, self.made = self.made, []
        return made

    def _next_windows(self, done: int, now: int) -> tuple[Extents, Ints]:
        """Some windows, the next ones that are complete at `now` and may hold a bucket."""
        first, last = self._ends()
        none = np.zeros(0, np.int64)
        extents = self._extents(none if first is None else np.array([first, last]))
        if first is None:
            return extents, none
        mine, its = extents.wids(np.array([first, last]))
        done = max(done, self.closed_to)
        low = self.axis.ended(extents, done) + 1
        if not self.endless or self.closed_to == NEVER:
            # (A watermark may be far behind the first row: what ends between them is empty.)
            low = max(low, int(mine[0]))
        high = min(self.axis.ended(extents, now), int(its[1]))
        step = min(_WINDOWS, max(1, _AT_ONCE // max(len(self.groups), 1)))
        return extents, np.arange(low, min(high, low + step - 1) + 1)

    def _ends(self) -> tuple[int | None, int | None]:
        """The first bucket that is held, and the last one that ever was."""
        firsts = self.fresh.panes.buckets[:1].tolist()
        firsts += [] if self.behind is None else self.behind.first(self.low)
        self.out.write(self.shelf)
        stored = self.newest if self.endless else self.shelf.first()
        firsts += [] if stored is None else [stored]
        return (min(firsts), self.newest) if firsts else (None, None)

    def _answer(self, extents: Extents, wid: Ints) -> None:
        """Answer these windows, which come after all before."""
        start, end = window_edges(extents, wid)
        if self.single:
            self.low = self.kept = int(start[-1])
            made = self.fresh.panes.close(start, end)
            parts = self.fresh.folded.beside(start[made.places], made.codes)
            folded = self.answers.fold(made, parts, wid)
            self.fresh.drop(int(end[-1]))
            self._finish(extents, wid, [Answered(made, wid, folded)])
            return
        pieces = [Answered(Partials(self.layout), wid)]
        answered = 0
        try:
            for low, high in zip(start.tolist(), end.tolist(), strict=True):
                self._slide(low, high)
                cut = extents.cut_time(int(wid[answered]))
                self._list(answered, low, high, cut, wid, pieces)
                answered += 1
        finally:
            self._finish(extents, wid[:answered], pieces)

    def _finish(self, extents: Extents, wid: Ints, pieces: list[Answered]) -> None:
        """Turn the partials of windows that have been answered into answers."""
        if not len(wid):
            return
        self.closed_to = int(self.axis.complete_at(extents, wid[-1:])[0])
        if any(len(piece.made) for piece in pieces):
            self.made.append(self._columns(extents, pieces))

    def _columns(
        self, extents: Extents, pieces: list[Answered], code: int = 0, numbers: Ints | None = None
    ) -> list[Answer]:
        """Columns of answers; code: what 0 is; numbers: of answers that are not the first."""

        def shown(wid: Ints, codes: Ints) -> list[Answer]:
            return [
                *self.groups.keys(codes + code),
                *edge_answers(self.spec, self.frame, self.axis.ticks, extents, wid),
                Answer("revision", np.ones(len(wid), np.int64) if numbers is None else numbers),
            ]

        return self.answers.columns(pieces, shown)

    def no_answers(self) -> list[Answer]:
        return self._columns(self._extents(np.zeros(0, np.int64)), [])

    def _list(
        self, place: int, low: int, high: int, cut: int | None, wid: Ints, pieces: list[Answered]
    ) -> None:
        """Append the partials of this window, whose panes have come in."""
        if self.behind is None and not self.answers.one_by_one:
            self.inside.answer(place, pieces[-1].made)
            return
        made = Partials(self.layout)
        self.inside.answer(0, made)
        if self.behind is not None:
            made = self.behind.with_partials(made, low, high)
        folded = self.answers.fold(made, self._folded(low, high, made.codes), wid[place:])
        found = self._found_in_rows(low, high, made, cut, int(wid[place]))
        pieces += [
            Answered(made, wid[place:], folded, *found),
            Answered(Partials(self.layout), wid),
        ]

    def _folded(self, low: int, high: int, codes: Ints) -> Parts:
        """The folded partials of these groups over a window."""
        parts = self.inside.folded_parts(codes, len(self.groups))
        if self.folds and self.behind is not None:
            mine, late = self.behind.table.folded.between(low, high)
            at = np.zeros(len(self.groups), np.int64)
            at[codes] = np.arange(len(codes))
            self.folds.join(parts, at[mine], late)
        return parts

    def _found_in_rows(
        self, low: int, high: int, made: Partials, cut: int | None, wid: int
    ) -> tuple[dict[str, WindowLists], CutWindow | None]:
        """The answers over a window that are found in its rows."""
        if not self.answers.reads_rows:
            return {}, None
        self.out.write(self.shelf)
        behind = [] if self.behind is None else self.behind.rows
        inside = RowsInside(self.rows, self.shelf, self.renames, behind, low, high)
        return self.answers.of_rows(inside, made, len(self.groups), cut, wid)

    # ---------------------------------------------------------------- rows that come late

    def revise(self, rows: Prepared, at: int, done: int) -> list[list[Answer]]:
        pane, code = int(rows.buckets[at]), int(rows.codes[at])
        assert self.newest is not None
        extents = self._extents(np.array([pane, self.newest]))
        first, last = (int(wid[0]) for wid in extents.wids(np.array([pane])))
        low = max(first, self.axis.ended(extents, max(done - self.axis.within, NEVER)) + 1)
        wid = np.arange(low, min(last, self.axis.ended(extents, done)) + 1)
        if not len(wid):
            return []
        start, end = window_edges(extents, wid)
        again = WindowsAgain(self.records, self.answers, code, start, end, pane)
        self._take_again(again, rows, at)
        pieces = again.answered(extents, wid)
        again.clear()
        held = np.concatenate([piece.made.counts(0) for piece in pieces])
        keys = self.groups.key_values(np.array([code])) * len(wid)
        # If this is not the first row, the others have been answered when the window ended.
        numbers = self.revisions.number_again(
            keys, self.axis.complete_at(extents, wid), (held > 1).astype(np.int64)
        )
        return [self._columns(extents, pieces, code, numbers)]

    def _take_again(self, again: WindowsAgain, rows: Prepared, at: int) -> None:
        """All that is held of the group and the panes of these windows."""
        self.out.write(self.shelf)
        if self.gathered is not None and self.gathered.serves(again):
            again.take_gathered(self.gathered, self.shelf, self.renames)
        else:
            self.gathered = None
            late = at + 1 + np.flatnonzero(rows.buckets[at + 1 :] < self.sealed)  # it may be
            codes, memory = rows.codes[late], self.place.memory // 4
            gathered = Gathered(self.records, codes, self.shelf.back, memory)
            gathered.reach(rows.buckets[late], self.range)
            again.take_shelf(self.shelf, self.renames, gathered)
            self.gathered = gathered
        if isinstance(self.records, RowRecords):
            behind = [] if self.behind is None else self.behind.rows
            others = [*self.out.waiting, *behind]
        else:
            tables = [self.fresh, *([] if self.behind is None else [self.behind.table])]
            found = [table.of_group(again.code, again.low, again.high) for table in tables]
            others = [self.records.to_columns(*each) for each in found]
        for columns in others:
            again.take(columns)

    # -------------------------------------------------------------------- panes come and go

    def _slide(self, low: int, high: int) -> None:
        """Let the window cover the panes from low to high, neither of which ever falls."""
        self._seal(high)
        if self.endless:
            return
        self.low = low
        if self.out.has_before(low):
            self.out.write(self.shelf)
        self.inside.expire(self.shelf, self.renames, low)
        used_up = self.inside.used_up(low)
        if used_up:
            self.out.write(self.shelf)
            self.inside.turn(used_up, self.shelf, self.renames, self.sealed)
        for stack in self.stacks:
            stack.slide(low)
        self._let_go_before(self._first_kept(high) if self.keeps else low)

    def _first_kept(self, high: int) -> int:
        """The first pane of the windows that late rows may revise when one that ends there is
        answered."""
        before = high - 1 - self.axis.within  # no more can come for windows that end by then
        if self.begun is None or before < self.begun:
            return self.kept
        extents = self._extents(np.array([before]))
        return max(self.kept, int(window_edges(extents, extents.wids(np.array([before]))[0])[0][0]))

    def _let_go_before(self, pane: int) -> None:
        """No window will be asked for earlier panes."""
        self.kept = pane
        if self.keeps:
            self.shelf.keep_from(pane)
        self.renames.forget(self.shelf.front)
        if self.behind is not None:
            self.behind.drop(pane)
            self.behind = self.behind if len(self.behind) else None

    def _seal(self, high: int) -> None:
        """Panes before `high` are complete: they come into the totals, and onto the store."""
        if self.out.begun is not None:
            self.out.write(self.shelf)
        at, records, parts = self.fresh.before(high)
        if len(at):
            self.fresh.drop(high)
            self.inside.add(at, records, parts)
            if not isinstance(self.records, RowRecords) and not self.endless:
                self.out.shelve(self.records.to_columns(at, records, parts))
        self.sealed = max(self.sealed, high)
        self.bound = max(self.bound, high)
        self._release(high - 1)
        if self.out.fills(self.shelf):
            self.out.write(self.shelf)

    def _release(self, last: int) -> None:
        """Rows of panes up to this one may go to the store."""
        released = self.out.release(last)
        if released is not None:
            self.bound = max(self.bound, released)

    # ----------------------------------------------------------------------- letting go

    def forget(self, done: int) -> None:
        """Nothing: what leaves a window has left it before the window is answered."""

    def tidy(self, now: int | None) -> None:
        """Bring rows that the watermark has passed to the store, and what came behind to its place,
        where it has become too much; forget the keys of groups that have no rows."""
        self.gathered = None
        self.out.write(self.shelf)
        newest = self.out.newest()
        if newest is not None and now is not None:
            if now - self.axis.right < newest:
                newest = int(self.buckets_of(np.array([max(now, NEVER + 2)]))[0][0])
            self._release(newest)
            self.out.write(self.shelf)
        if self.behind is not None and self.behind.nbytes > self.place.memory:
            self._put_in_place(self.behind)
        if len(self.groups) > 2 * self.alive + _FEW_GROUPS:
            self._forget_groups()
        self.values.tidy(self.kept)

    def _put_in_place(self, behind: Behind) -> None:
        """Write all panes inside anew, with what came behind among them.

        Cost: O(window), for as many rows as there is memory for.
        """
        columns = behind.to_records()
        later = int(np.searchsorted(columns[AT], self.sealed))
        if not later or behind.nbytes <= self.place.memory:  # what has left is gone now
            return
        some = {name: column[:later] for name, column in columns.items()}
        shelf, renames = self._merged(some), Renames()
        self.inside.count_anew(shelf, renames, self.sealed)
        self.stale.append(self.shelf.name)
        shelf.took_over(self.shelf)
        self.shelf, self.renames = shelf, renames
        self.generation += 1
        rest = {name: column[later:] for name, column in columns.items()}
        self.behind = Behind(self.records) if len(rest[AT]) else None
        if self.behind is not None:
            self.behind.put(rest, self.records.codes(rest))

    def _merged(self, columns: Arrays) -> Shelf:
        """A new shelf with what is inside and these records."""
        made, at = self._open_shelf(self.generation + 1), 0
        for part in self.shelf.rows(self.shelf.front, self.shelf.back):
            codes = self.renames.now(part.first, self.records.codes(part.columns))
            mine = self.records.set_codes(part.columns, codes)
            mine = taken(mine, np.flatnonzero(mine[AT] >= self.kept))  # (of others no group)
            if not len(mine[AT]):
                continue
            to = int(np.searchsorted(columns[AT], mine[AT][-1], "right"))
            both = joined([mine, {name: column[at:to] for name, column in columns.items()}])
            made.append(taken(both, np.argsort(both[AT], kind="stable")))
            at = to
        made.append({name: column[at:] for name, column in columns.items()})
        if self.keeps:  # of these, earlier ones have left the totals
            for _ in made.expire_before(self.low):
                pass
        return made

    def _forget_groups(self) -> None:
        """Number those groups anew of which there are rows, where most have none."""
        count = len(self.groups)
        rows = np.zeros(count, np.int64)
        behind = [] if self.behind is None else [self.behind.panes.rows]
        for held in (self.fresh.panes.rows, self.inside.totals.rows, *behind):
            rows[: len(held)] += held
        if self.last is not None:
            rows[: len(self.last)] += self.last.since(self.kept)
        self.alive = int((rows > 0).sum())
        if count - self.alive <= self.alive + _FEW_GROUPS:
            return
        new = np.where(rows > 0, np.cumsum(rows > 0) - 1, -1).astype(np.int32)
        self.groups.renumber(new)
        self.inside.renumber(new)
        columns = self.partials.to_columns(*self.fresh.before())
        self.fresh = PaneTable(self.partials)
        codes = new[self.partials.codes(columns)].astype(np.int64)
        self.fresh.put(columns, codes, self.partials)
        if self.behind is not None:
            columns, self.behind = self.behind.to_records(), Behind(self.records)
            self.behind.put(columns, new[self.records.codes(columns)].astype(np.int64))
        self.out.renumber(new)
        self.renames.rename(new, self.shelf.back)
        if self.last is not None:
            self.last.renumber(new)

    # ---------------------------------------------------------------------------- state

    def save(self) -> None:
        """Write what belongs to the header, and have the store forget what no header names."""
        self.values.save(self.place.store)
        self.saved = self.shelf.save()
        for stack in self.stacks:
            stack.free()
        for name in self.stale:
            self.place.store.delete_many(self.place.store.keys(f"{name}/".encode()))
        self.stale = []

    def in_memory(self) -> int:
        """Bytes held in memory."""
        held = [*self._held, self.inside, *([] if self.behind is None else [self.behind])]
        tables: int = sum(each.nbytes for each in held)
        return tables + self.shelf.pooled_bytes + self.revisions.nbytes

    @property
    def _held(self) -> list[Any]:
        """What is held in memory in any case."""
        held = [self.fresh, self.groups, self.renames, self.out, self.values]
        return held if self.last is None else [*held, self.last]

    def state(self) -> dict[str, int]:
        partials, rows = self.fresh.panes.held
        records = len(self.shelf)
        if isinstance(self.records, RowRecords):
            rows += records
        else:
            partials += records
        return {"rows": rows, "partials": partials, "bytes": self.in_memory()}

    def to_parts(self) -> list[bytes]:
        saved, self.saved = self.saved, []
        lists = [saved, *(each.to_parts() for each in self._held), *self.inside.to_parts()]
        lists += [] if self.behind is None else [self.behind.to_parts()]
        head = {
            "plan": self.stored_plan, "parts": [len(parts) for parts in lists],
            "stacks": self.inside.head(), "taken": self.out.taken,
            **{name: getattr(self, name) for name in _TOLD},
        }  # fmt: skip
        return [json.dumps(head).encode(), *(part for parts in lists for part in parts)]

    def fill(self, parts: list[bytes]) -> None:
        head = json.loads(parts[0])
        lists, at = [], 1
        for count in head["parts"]:
            lists.append(parts[at : at + count])
            at += count
        saved, *lists = lists
        for each, mine in zip(self._held, lists, strict=False):
            each.fill(mine)
        inside = lists[len(self._held) :]
        if len(inside) > 1 + len(self.stacks):
            *inside, behind = inside
            self.behind = Behind(self.records)
            self.behind.fill(behind)
        self.inside.fill(head["stacks"], inside)
        self.out.taken = head["taken"]
        for name in _TOLD:
            setattr(self, name, head[name])
        self.shelf = self._open_shelf(self.generation, saved)
        if len(self.groups) < max(self.fresh.panes.codes, self.inside.totals.codes):
            raise ValueError("a group has no key")

    def checkpoint(self, magnitude: int, count: int) -> Callable[[], None] | None:
        return None

    def weight(self, rows: Prepared) -> tuple[int, int]:
        return rows.magnitude, len(rows.codes)
