"""PagedTrack: the window state of one key whose rows are in pages, all but the newest on a store.

As a track (`mta.track`), it takes rows in order and answers windows; but it keeps only the newest
rows, and its kernels read the oldest ones again when the front comes to them. SlideM, 2013.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from mta._bounds import Bounds
from mta._kernel import slide_keys
from mta._paged import GivenCounter, PagedKernel, fronts_in_block
from mta._paged_halves import PagedHalves
from mta.budget import Budget
from mta.coded_values import CodedValues
from mta.count_log import Logs
from mta.engine import Ints, Ticks
from mta.errors import StoreError
from mta.frames import Column
from mta.kernels import Columns, answer_room
from mta.logged_columns import LoggedColumns
from mta.paged_kernels import COUNTING, Paged, make_paged_kernel
from mta.paged_rows import MakeRepository, PagedRows, Told
from mta.plan import Input, Plan
from mta.push import EVER
from mta.repository import Repository
from mta.rows import Chunk, Coded, Mask
from mta.slider import AnswerOverflowError, KeyedAnswers, Slider
from mta.specs import Rolling
from mta.stored_codes import StoredCodes
from mta.track import Place, Track, Windows

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_IN_TURN = (PagedKernel, PagedHalves)  # kernels that read each page once, in order
_UNMARKED, _UNSHIFTED = np.zeros(1, np.uint8), np.zeros(1, np.int64)
_NONE = np.zeros(0, np.int64)
OBJECTS = 14_000  # bytes of the Python objects of a key; measured
_NOTED = 8  # times as a block of rows comes, the budget is told


class PagedPlace(NamedTuple):
    """How far a track has come, and its kernels."""

    place: Place
    entered: int
    kernels: list[Any] | None


class Job(NamedTuple):
    """What kernels are to answer.

    runs : of windows, from which to before which, when it is known where they begin
    counting : gives the rows that count in windows
    """

    windows: Windows
    runs: Iterable[tuple[int, int]]
    counting: Callable[[Input | None, Windows], Ints]


class Counters:
    """The counters of a plan: keys are answered one after the other, so one set serves them all."""

    def __init__(self) -> None:
        self._made: list[GivenCounter] = []

    def of_a_key(self) -> Callable[[list[int]], GivenCounter]:
        """What gives the counters to the kernels of a key, in the order of the plan."""
        known = iter(tuple(self._made))

        def count(needs: list[int]) -> GivenCounter:
            counter = next(known, None)
            if counter is None:
                counter = GivenCounter(needs)
                self._made.append(counter)
            return counter

        return count


class PagedSlider(Slider):
    """The kernels of one key; where windows begin is found on the way, a run of them at a time."""

    @cached_property
    def paged(self) -> list[Paged]:
        """The kernels, in order."""
        return [cast(Paged, kernel) for kernel in self.kernels.values()]

    begun: Place | None = None  # where kernels stood that these are to go on from

    def begin(self, job: Job) -> None:
        """What the next `run` is to answer."""
        self._job: Job | None = job

    def run(self, bounds: Bounds, start: int = 0, stop: int | None = None) -> None:
        job, self._job = self._job, None  # so that keys without rows keep none of it
        assert job is not None
        begun, self.begun = self.begun, None
        if begun is not None:
            for number, kernel in enumerate(self.paged):
                # (Where no window was answered, nobody stood anywhere.)
                marks = begun.marks[number] if begun.marks else ()
                kernel.take_up(marks, begun.lo, begun.hi)
        lo, hi = job.windows.lo, job.windows.hi
        given: dict[Input | None, Ints] = {}
        for source, counter in self.counters.items():
            assert isinstance(counter, GivenCounter)
            counts = given[source] = np.empty(len(lo), np.int64)
            counter.give(counts)
        for start, stop in job.runs:
            mine = part_of(job.windows, start, stop)
            for source, counts in given.items():
                counts[start:stop] = job.counting(source, mine)
            edges = np.array([start, stop])
            failed = slide_keys(lo, hi, edges, *self._running, [], _UNMARKED, _UNSHIFTED)
            if failed is not None:
                raise AnswerOverflowError(self._overflown(failed[0]), failed[1])

    def let_go(self, columns: Columns, end: int) -> None:
        """Hold on to no rows and answers of the last call.

        columns : of the plan, for their types; end : how many rows have come
        """
        for kernel, state, outputs in self._asked:
            kernel.attach([_NONE] * len(state.feeds), None, end)
            kernel.answer_to([answer_room(output, columns, 0) for output in outputs])


def part_of(windows: Windows, start: int, stop: int) -> Windows:
    """Some of the windows."""
    return Windows(windows.at[start:stop], windows.lo[start:stop], windows.hi[start:stop])


class PagedTrack(Track):
    """One key's windows, larger than memory.

    make : makes the repository of its rows
    leave : is told the repository when it is needed no more
    logs : for what kernels count
    counters, budget : of all keys

    Memory: the newest rows (a block of them, and those that wait for an answer), the pool of the
    repository, and of each aggregate one partial for every page of the window and a page of them.
    """

    def __init__(
        self, spec: Rolling, plan: Plan, ticks: Ticks, make: MakeRepository,
        leave: Callable[[Repository], None], logs: Logs, counters: Counters, budget: Budget,
    ) -> None:  # fmt: skip
        super().__init__(spec, plan, ticks)
        self._make, self._leave, self._logs = make, leave, logs
        self._counters, self._budget = counters, budget
        self.look_up = self._look_up
        # How far back from its row a window reaches, where it has a range.
        reach = min((ticks.range or 0) + ticks.lag, _GREATEST)
        self._back = reach - (not self.sides[0])
        self.coded = CodedValues()
        self.logged = LoggedColumns(plan.sketch_feeds, logs)
        self.entered = 0  # the row up to which kernels have had rows
        self._begun: Place | None = None  # where kernels stood that are yet to be gone on from
        self._stored: PagedRows | None = None  # made when the types of the columns are known
        self.failure: StoreError | None = None  # of the store, once a call had its answers
        self._noted = 0  # rows that had come when the budget was told of it
        self._resting = 0  # bytes of partials that it had after giving back

    has_codes = True  # `coded` is its own

    @property
    def stored(self) -> PagedRows:
        """The rows that have left the tail, and how to read them."""
        assert self._stored is not None  # `take` has made it
        return self._stored

    def _make_stored(self, told: Told | None) -> PagedRows:
        return PagedRows(self.plan, not self.over_rows, self.rows, self.times, self._make, told)

    @property
    def kept(self) -> int:
        return self.received - (self.rows.first if self._stored is None else self._stored.first)

    def all_rows(self) -> list[Coded]:
        return [self.rows] if self._stored is None else [self.rows, StoredCodes(self._stored)]

    def sizes(self) -> tuple[int, int]:
        """Bytes of its rows and partials in memory, and of the objects that hold them, about; and
        those of them that it can't give back: partials count as such once it has given back."""
        if self._stored is None:
            return OBJECTS, OBJECTS
        least = OBJECTS + self._stored.tail_bytes + (self.coded.nbytes if self.has_codes else 0)
        partials = self.logged.nbytes if self.has_codes else 0
        for kernel in self._kernels:
            least += kernel.__sizeof__()
            partials += kernel.nbytes
        held = least + self._stored.read_bytes + partials
        return held, least + min(partials, self._resting)

    @property
    def _kernels(self) -> list[Paged]:
        return self.slider.paged if isinstance(self.slider, PagedSlider) else []

    # ------------------------------------------------------------------------------ answers

    def take_up(self, place: Place, chunk: Chunk, times: Ints, picked: Mask | None) -> None:
        """As of every track. The block in which these rows begin is filled up with copies of the
        first one, before it, where no window will look."""
        self._stored = self._make_stored(None)
        before = place.received - chunk.rows - self._stored.end
        places = np.maximum(np.arange(-before, chunk.rows), 0)
        chunk = self.coded.chunk(chunk).take(places)
        super().take_up(place, chunk, times[places] if len(times) else times, picked)
        self._begun, self.asleep, self.entered = place, (), place.lo

    def _go_on(self) -> None:
        """Have kernels go on where others stood: these rows have been inside.

        Raises
        ------
        StoreError
            They do not; it is tried again.
        """
        if isinstance(self.slider, PagedSlider) and self.slider.begun is None:
            self._begun = None  # a call did so
        if self._begun is None:
            return
        lo, hi = self._begun.lo, self._begun.hi
        # They answer the last window again. With every= it is not known which one that was.
        at = np.array([self._begun.answered - 1] if lo < hi and self.spec.every is None else _NONE)
        windows = Windows(at, np.full(len(at), lo), np.full(len(at), hi))
        answers = KeyedAnswers(self.plan, self.rows.columns(), len(at))
        try:
            self._answer_runs(windows, self._runs(windows), answers)
        except BaseException:
            self.slider, self.entered = None, lo
            raise
        self._begun = None
        for kernel in self._kernels:  # of what is before the window there are no partials
            kernel.let_go()

    def take(
        self, ts: Ints | None, chunk: Chunk, final: bool, known: int | None, picked: Mask | None
    ) -> Windows:
        """As of every track; but where windows begin among the rows that are stored is found once
        they are answered."""
        chunk = self.logged.chunk(self.coded.chunk(chunk))
        front = self.lo
        self.lo = max(front, self.rows.first)
        windows = super().take(ts, chunk, final, known, picked)
        self.lo = front
        if not chunk.rows:
            self.rows.append(chunk)  # opened again, it has to know what codes stand for
        if self._stored is None:
            self._stored = self._make_stored(None)
        return windows

    def answer(self, windows: Windows, answers: KeyedAnswers) -> None:
        """As of every track; those windows together that begin in one block."""
        if not answers.taken:
            self._answer_runs(windows, self._runs(windows), answers)
            return
        for start, stop in self._runs(windows):  # values are taken while their block is here
            self._answer_runs(part_of(windows, start, stop), [(0, stop - start)], answers)

    def _answer_runs(
        self, windows: Windows, runs: Iterable[tuple[int, int]], answers: KeyedAnswers
    ) -> None:
        slider = self._awake()
        slider.begin(Job(windows, runs, self._counts))
        super().answer(windows, answers)

    def _runs(self, windows: Windows) -> Iterator[tuple[int, int]]:
        """Of windows that begin in one block: from which to before which."""
        start, end = 0, len(windows.at)
        while start < end:
            rest = part_of(windows, start, end) if start else windows
            stop = end if self._reads_in_turn() else start + self._find_fronts(rest)
            self.stored.pass_by(int(windows.lo[start]))
            yield start, stop
            self.lo, self.entered = int(windows.lo[stop - 1]), int(windows.hi[stop - 1])
            start = stop

    def _reads_in_turn(self) -> bool:
        """Nothing but one kernel reads rows, and it is known where windows begin."""
        kernels = self._kernels
        if not self.over_rows or len(kernels) != 1 or not isinstance(kernels[0], _IN_TURN):
            return False
        masks = [self.rows.valid(source) for source in self.rows.valids]
        return all(mask is None for mask in masks)

    def _find_fronts(self, windows: Windows) -> int:
        """How many of these windows, the next ones, begin in one block; where they begin becomes
        known."""
        lo, end = windows.lo, self.stored.end
        if self.over_rows or self.ticks.range is None:
            if not self.over_rows:  # everything so far
                lo[:] = self.lo
            block = int(lo[0]) // self.stored.block_rows
            return int(
                lo.searchsorted((block + 1) * self.stored.block_rows if lo[0] < end else EVER)
            )
        if self.lo >= end or lo[0] > end:
            return len(lo)
        # Of those that begin in the tail it is known already; of others, that it is not there.
        times, first = self.times.view(), self.times.first
        edge = int(times[int(windows.at[0]) - first]) - self._back
        found = self.stored.block_at(max(_LEAST, min(edge, _GREATEST)), self.lo)
        if found is None:
            known = int(lo.searchsorted(end, side="right"))
            np.minimum(end, windows.hi[:known], out=lo[:known])
            return len(lo)
        return fronts_in_block(
            lo, windows.hi, windows.at, times, first, found[1], found[0], self._back, self.lo, end
        )

    def _counts(self, source: Input | None, windows: Windows) -> Ints:
        """The rows that count in every window."""
        if source is None or self.rows.valid(source) is None or not len(windows.at):
            return windows.hi - windows.lo
        before = self.stored.counts_before(source, windows.hi)
        counts: Ints = before - self.stored.counts_before(source, windows.lo)
        return counts

    def _look_up(self, column: Column, rows: Ints) -> tuple[Column, Ints]:
        found, places = np.unique(rows[rows >= 0], return_inverse=True)
        at = np.zeros(len(rows), np.int64)
        at[rows >= 0] = places
        if not len(found):  # no window has a row: any will do
            found = np.array([self.received - 1])
        return self.coded.decoded(self.stored.values(column, found), self.rows.frame), at

    def _awake(self) -> PagedSlider:
        if self.slider is None:
            columns, counters = self.rows.columns(), self._counters.of_a_key()
            self.slider = PagedSlider(self.plan, columns, make_paged_kernel, counters)
            bits = self.stored.block_rows.bit_length() - 1  # a page is a block
            in_turn = len(self._kernels) == 1 and isinstance(self._kernels[0], _IN_TURN)
            for number, state in enumerate(self.slider.kernels):
                kernel = self._kernels[number]
                kernel.open_pages(bits, self.stored.loader(state, in_turn))
                if isinstance(kernel, COUNTING):
                    kernel.open_log(*self._logs.open(number))
            self.slider.begun = self._begun
        return cast(PagedSlider, self.slider)

    def sleep(self) -> None:
        for kernel in self._kernels:
            kernel.rest()
        self._let_go_of_call()

    def _let_go_of_call(self) -> None:
        if self.slider is not None:
            cast(PagedSlider, self.slider).let_go(self.rows.columns(), self.received)

    def give_back(self, over: int) -> bool:
        """Room for rows, and partials, which are made again of rows at hand; if that is not enough,
        as many blocks as have to, which will be read again."""
        held, _ = self.sizes()
        self.stored.shrink(1)
        self.sleep()
        self._resting = sum(kernel.nbytes for kernel in self._kernels)
        try:
            if (left := over - held + self.sizes()[0]) > 0:
                self.stored.thin_out(left)
                if self.has_codes:
                    self.logged.thin_out()
        except StoreError as error:
            self.failure = error
        return held - self.sizes()[0] >= over

    # ------------------------------------------------------------------------- letting go

    def settle(self, now: int | None = None) -> None:
        """Move rows to the store, and let go of what no later window can need.

        What the store fails at is done the next time; `failure` says so.
        """
        short = self.stored.repository.is_least  # of memory; then pages are small
        for kernel in self._kernels:
            kernel.let_go()
            if short and isinstance(kernel, _IN_TURN):
                kernel.rest()
        if self.picked is not None:
            self.picked.drop_to(self.open_from)
        self.failure = None
        try:
            self._log_items()
            self._go_on()
            stop = self._needed_from()
            if self.stored.will_take(stop):  # blocks that are not needed make room for them
                self._let_go()
            self.stored.take_in(stop)
            self._let_go()
            if self.has_codes:
                stored = StoredCodes(self.stored)
                rows = self.received - stored.first
                self.coded.forget_the_gone(rows, stored.of_taken, self.rows.frame)
        except StoreError as error:
            self.failure = error
        if self.received >= self._noted + self.stored.block_rows // _NOTED:
            self._noted = self.received
            if self.stored.shrink():
                self._let_go_of_call()
            self._budget.note(self)

    def _needed_from(self) -> int:
        """The first row that has to stay in the tail."""
        return min(self.entered, self.answered - 1)

    def _log_items(self) -> None:
        self.logged.take_in(self.rows)

    def _let_go(self) -> None:
        self.stored.let_go(self.lo)
        self.logged.let_go(self.stored.repository.front)

    def forget(self) -> None:
        if self._stored is not None:
            self._leave(self._stored.repository)
        self._logs.leave(self._logs)
        self._budget.leave(self)

    # ------------------------------------------------------------------------- all or nothing

    def place(self) -> Any:
        saved = None if self.slider is None else [kernel.save() for kernel in self._kernels]
        return PagedPlace(self.where(), self.entered, saved)

    def where(self) -> Place:
        return Place(self.received, self.answered, self.lo, self.hi)

    def go_back(self, place: Any) -> None:
        slider, kernels = self.slider, self._kernels
        super().go_back(place.place)
        if self._stored is not None:
            self._stored.forget_read()
        self.entered = place.entered
        if place.kernels is not None:
            for kernel, saved in zip(kernels, place.kernels, strict=True):
                kernel.restore(saved)
            self.slider = slider

    # ----------------------------------------------------------------------------- recovery

    def to_parts(self) -> tuple[list[bytes], dict[bytes, bytes | None]]:
        """All but the tail, and the batch that is to be written with it; then say `wrote`."""
        self._go_on()
        parts, batch = self.stored.to_parts()
        parts.append(str(self.entered).encode())
        if self.has_codes:
            parts += self.coded.to_parts(self.rows.frame)
            parts += self.logged.to_parts()
        for kernel in self._kernels_awake():
            parts += kernel.to_parts()
        for log in self._logs:
            batch |= log.pending()
        return parts, batch

    def _kernels_awake(self) -> list[Paged]:
        self._awake()
        return self._kernels

    def wrote(self) -> None:
        """The batch is on the store."""
        self.stored.wrote()
        for log in self._logs:
            log.wrote()

    def _stored_of(self, parts: Iterator[bytes]) -> PagedRows:
        return self._make_stored(Told(int(next(parts)), [next(parts), next(parts)]))

    def fill(self, parts: Iterator[bytes]) -> None:
        """Take what `to_parts` gave; the tail is here already. ValueError: it is damaged."""
        self._stored = self._stored_of(parts)
        self._stored.fill(parts)
        self.entered = int(next(parts))
        if self.has_codes:
            self.coded.fill(parts, self.rows.frame)
            self.logged.fill(parts)
        self.rows.adopt(self.coded.types(self.rows.columns()), self.rows.frame)
        for kernel in self._kernels_awake():
            kernel.fill(next(parts), next(parts))
