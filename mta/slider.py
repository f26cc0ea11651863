"""Slider: all kernels of a plan side by side, over whole batches or rows that come in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mta._bounds import Bounds
from mta._kernel import Counter, Kernel, Lists, slide, slide_keys
from mta._paged_user import PagedUserKernel
from mta._sketch_kernel import Items, SketchKernel
from mta._user import UserKernel
from mta.frames import Answer, Column, Frame
from mta.kernels import (
    Columns,
    answer_room,
    make_kernel,
    user_type,
)
from mta.monoids import settled
from mta.plan import Feed, Input, Output, Plan, State

_USERS = (UserKernel, PagedUserKernel)
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
LookUp = Callable[[Column, Ints], tuple[Column, Ints]]


class Rows(Protocol):
    """Rows in the order of the windows, as kernels read them."""

    first: int  # number of the first row that is there

    def feed(self, feed: Feed) -> NDArray[Any]:
        """A column's 8-byte values or codes, 0 where null."""

    def items(self, feed: Feed) -> Items | None:
        """Where a feed has items, what its codes stand for; None: its values are no codes."""

    def valid(self, source: Input) -> Mask | None:
        """Which rows count; None: all."""


class AnswerOverflowError(Exception):
    """The answer of a window does not fit in 64 bits; `explain` says which."""

    def __init__(self, output: Output, window: int) -> None:
        self.output = output
        self.window = window

    def explain(self, window: str) -> OverflowError:
        """The error for people: `window` says whose or which it is."""
        fn, name = self.output.aggregate.fn, self.output.name
        hint = "; sum a float column, a shorter window, or with overflow='float'"
        if fn == "kll_sketch":
            return OverflowError(
                f"{name}: column {self.output.aggregate.column!r} holds integers from 2^63 in the "
                f"window {window}; the bytes of a sketch hold longs or doubles: make it floats"
            )
        return OverflowError(
            f"{name}: the {fn} of {self.output.aggregate.column!r} over the window {window} "
            f"does not fit in 64 bits{hint if fn == 'sum' else ''}"
        )


class Slider:
    """The kernels of a plan.

    columns : of the plan, for their types
    make, count : what makes a kernel, and the counter of an input
    """

    def __init__(
        self,
        plan: Plan,
        columns: Columns,
        make: Callable[[State, list[Output], Columns, Counter], Kernel] = make_kernel,
        count: Callable[[list[int]], Counter] = Counter,
    ) -> None:
        self.plan = plan
        # All rows are counted only where that is an answer.
        counted = [None, *plan.inputs] if plan.of_input(None) else plan.inputs
        self.counters: dict[Input | None, Counter] = {
            source: count([o.need for o in plan.of_input(source)]) for source in counted
        }
        asked = {state: plan.asked(state) for state in plan.states}
        self.kernels: dict[State, Kernel] = {
            state: make(state, outputs, columns, self.counters[state.input])
            for state, outputs in asked.items()
        }
        self._running = list(self.counters.values()), list(self.kernels.values())
        self._asked = [(kernel, state, asked[state]) for state, kernel in self.kernels.items()]

    def slide(self, rows: Rows, bounds: Bounds, windows: int, columns: Columns) -> RawAnswers:
        """Answer the next windows.

        Raises
        ------
        AnswerOverflowError
            An integer answer does not fit. The kernels then are of no more use.
        """
        raw = RawAnswers(self.plan, columns, windows)
        self.attach(rows, raw, bounds.include_self)
        self.run(bounds)
        raw.drop_full_masks([self.counters])
        return raw

    def attach(self, rows: Rows, raw: RawAnswers | RawPart, include_self: bool) -> None:
        """Give the kernels rows, and room for the answers of the next windows.

        include_self : every row is in its own window
        """
        first, masks = rows.first, {}
        for source, counter in self.counters.items():
            valid = masks[source] = None if source is None else rows.valid(source)
            sure = 1 if valid is None and include_self else 0  # values in every window
            counter.attach(valid, first)
            counter.answer_to(raw.room_for_counts(source, sure))
        for kernel, state, outputs in self._asked:
            feeds = [rows.feed(feed) for feed in state.feeds]
            if isinstance(kernel, SketchKernel):
                kernel.items = rows.items(state.feeds[0])
            elif isinstance(kernel, _USERS):
                kernel.items = [rows.items(feed) for feed in state.feeds]
            kernel.attach(feeds, masks[state.input], first)
            kernel.answer_to([raw.room(output) for output in outputs])

    def run(self, bounds: Bounds, start: int = 0, stop: int | None = None) -> None:
        """Answer the windows of the rows start..stop; the first window is number 0.

        Raises
        ------
        AnswerOverflowError
            As `slide`.
        """
        counters, kernels = self._running
        failed = slide(bounds, counters, kernels, start, stop)
        if failed is not None:
            raise AnswerOverflowError(self._overflown(failed[0]), failed[1])

    def run_keys(
        self, lo: Ints, hi: Ints, edges: Ints, marks: list[Ints], marked: NDArray[np.uint8],
        shifts: Ints,
    ) -> None:  # fmt: skip
        """Answer the windows of many keys, as `mta._kernel.slide_keys` does.

        Raises
        ------
        AnswerOverflowError
            As `slide`.
        """
        failed = slide_keys(lo, hi, edges, *self._running, marks, marked, shifts)
        if failed is not None:
            raise AnswerOverflowError(self._overflown(failed[0]), failed[1])

    def marks(self) -> tuple[tuple[int, ...], ...]:
        """What the kernels' later answers depend on beside the rows inside."""
        return tuple([kernel.marks() for kernel in self._running[1]])

    def resume(self, marks: Sequence[tuple[int, ...]]) -> None:
        """Go on, before the first slide, where the slider of these marks stood."""
        for kernel, mine in zip(self.kernels.values(), marks, strict=True):
            kernel.resume(mine)

    def _overflown(self, kernel: Kernel) -> Output:
        state = next(s for s, k in self.kernels.items() if k is kernel)
        outputs = self.plan.of_state(state)
        return next(o for o in outputs if o.aggregate.gives in ("total", "bytes"))


def _same(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows


class RawAnswers:
    """What the kernels answer, one array (or `Lists`) per output, before it becomes a column."""

    def __init__(self, plan: Plan, columns: Columns, windows: int) -> None:
        self.plan = plan
        self.columns = columns
        self.windows = windows
        # Where two outputs ask the same they share the answers; counts are each their own.
        self._arrays: dict[int, Any] = {}
        self.masks: dict[str, Mask] = {}

    def _is_shared(self, output: Output) -> bool:
        """Whether other outputs have the same answers, though they may be null elsewhere."""
        return self.plan.slots[output.name] in self.plan.shared

    def room(self, output: Output) -> Any:
        """Where the answers of an output go, and then are."""
        slot = self.plan.slots[output.name]
        room = self._arrays.get(slot)
        if room is None:
            room = self._arrays[slot] = answer_room(output, self.columns, self.windows)
        return room

    def mask(self, name: str) -> Mask | None:
        """Which of these answers are not null; None: any."""
        return self.masks.get(name)

    def room_for_counts(
        self, source: Input | None, sure: int
    ) -> list[tuple[Mask | None, NDArray[np.int64] | None]]:
        """For the answers that count the same rows: a mask where one can be null, and the counts
        where they are the answer."""
        room = []
        for output in self.plan.of_input(source):
            if output.need > sure and output.name not in self.masks:
                self.masks[output.name] = np.empty(self.windows, np.bool_)
            counts = self.room(output) if output.state is None else None
            room.append((self.masks.get(output.name), counts))
        return room

    def drop_full_masks(self, parts: list[dict[Input | None, Counter]]) -> None:
        """Keep the masks of those answers only of which one, in some part, is null."""
        for source in parts[0]:
            for k, output in enumerate(self.plan.of_input(source)):
                if output.name in self.masks and all(c[source].is_full(k) for c in parts):
                    del self.masks[output.name]

    def cut(self, windows: int) -> None:
        """Keep those of the first windows only."""
        self.windows = windows
        self._arrays = {slot: array[:windows] for slot, array in self._arrays.items()}
        self.masks = {name: mask[:windows] for name, mask in self.masks.items()}

    def join_lists(self, parts: list[RawPart]) -> None:
        """Take the lists of the parts, one after the other, for those of all windows."""
        for slot, array in self._arrays.items():
            if isinstance(array, Lists):
                self._arrays[slot] = JoinedLists([part.lists[slot] for part in parts])

    def answers(
        self,
        places: NDArray[np.int64] | None = None,
        to_column: Callable[[NDArray[np.int64]], NDArray[np.int64]] = _same,
    ) -> list[Answer]:
        """The answers as columns.

        places : which window is answered first, second, …; None: in their order
        to_column : from row numbers of the kernels to places in `columns`
        """
        last_use = {slot: name for name, slot in self.plan.slots.items()}
        made: list[Answer] = []
        for output in self.plan.outputs:
            made.append(self.answer_apart(output, made, places, to_column))
            slot = self.plan.slots[output.name]
            if last_use[slot] == output.name:
                del self._arrays[slot]  # in order of the input there is another one
        return made

    def answer_apart(
        self,
        output: Output,
        others: list[Answer],
        places: NDArray[np.int64] | None = None,
        to_column: Callable[[NDArray[np.int64]], NDArray[np.int64]] = _same,
    ) -> Answer:
        """One of these columns, in memory apart from that of the others: it is its owner's to write
        to."""
        answer = self.answer(output, places, to_column)
        if self.plan.shared and any(_overlap(answer.values, o.values) for o in others):
            return answer._replace(values=answer.values.copy())
        return answer

    def answer(
        self,
        output: Output,
        places: NDArray[np.int64] | None,
        to_column: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    ) -> Answer:
        """One of these columns."""
        raw, valid = self.room(output), self.masks.get(output.name)
        aggregate, like, lengths = output.aggregate, None, None
        if aggregate.column is not None and aggregate.keeps_type:
            like = self.columns[aggregate.column]
        if aggregate.monoid is not None:
            wanted = aggregate.monoid.gives
            raw, valid = settled(user_type(aggregate, self.columns), raw, valid, wanted)
        if isinstance(raw, (Lists, JoinedLists)):
            raw, lengths = _lists(raw, valid)
            if like is not None and like.values is not None and not aggregate.answers_rows:
                raw = raw.view(like.values.dtype)
        elif valid is not None and raw.dtype.kind == "f":
            if self._is_shared(output):
                raw = raw.copy()
            np.copyto(raw, np.nan, where=~valid)
        elif valid is not None and raw.dtype.kind == "O":
            raw = np.where(valid, raw, np.array(None))
        if places is not None:
            raw, lengths = _reorder(raw, lengths, places)
            valid = None if valid is None else valid[places]
        if not aggregate.answers_rows:
            return Answer(
                output.name, raw, valid, like, lengths=lengths, binary=aggregate.gives == "bytes"
            )
        assert like is not None  # a row stands for its value
        return taken_answer(output.name, like, to_column(raw), valid, lengths)


class RawPart:
    """Room for the windows start..stop inside of that for all.

    Lists have no room there; see ``RawAnswers.join_lists``.
    """

    def __init__(self, whole: RawAnswers, start: int, stop: int) -> None:
        self.whole = whole
        self.windows = slice(start, stop)
        self.lists: dict[int, Lists] = {}

    def room(self, output: Output) -> Any:
        """As that of the whole."""
        room = self.whole.room(output)
        if not isinstance(room, Lists):
            return room[self.windows]
        slot = self.whole.plan.slots[output.name]
        if slot not in self.lists:
            self.lists[slot] = Lists(self.windows.stop - self.windows.start)
        return self.lists[slot]

    def mask(self, name: str) -> Mask | None:
        """As that of the whole."""
        mask = self.whole.mask(name)
        return None if mask is None else mask[self.windows]

    def room_for_counts(
        self, source: Input | None, sure: int
    ) -> list[tuple[Mask | None, NDArray[np.int64] | None]]:
        """As that of the whole."""
        return [
            (
                None if mask is None else mask[self.windows],
                None if counts is None else counts[self.windows],
            )
            for mask, counts in self.whole.room_for_counts(source, sure)
        ]


class KeyedAnswers:
    """The answers of several keys' windows, those of one key after those of another.

    What kernels answer goes to one room for all keys. Answers that are rows of a key become values
    key by key, as long as the key's rows are at hand.

    columns : of the plan, for their types
    windows : of all keys
    """

    def __init__(self, plan: Plan, columns: Columns, windows: int) -> None:
        self.plan = plan
        self.raw = RawAnswers(plan, columns, windows)
        self.parts: list[RawPart] = []
        self.holed: set[str] = set()  # answers of which one is null
        # By name: the answers of every key so far.
        self.taken: dict[str, list[Answer]] = {name: [] for name in plan.taken}
        self.end = 0

    def run(
        self, slider: Slider, rows: Rows, bounds: Bounds, columns: Columns,
        look_up: LookUp | None = None,
    ) -> None:  # fmt: skip
        """Answer the next windows, which are those of one key, or some of them.

        columns : of the plan
        look_up : of one of them, values in these rows and maybe in others, and where these are;
            None: where answers are taken from a column, it has the rows from `rows.first` on

        Raises
        ------
        AnswerOverflowError
            As `Slider.slide`; the window is one of the key's.
        """
        start, self.end = self.end, self.end + bounds.rows
        alone = bounds.rows == self.raw.windows
        part = self.raw if alone else RawPart(self.raw, start, self.end)
        slider.attach(rows, part, bounds.include_self)
        slider.run(bounds)
        if isinstance(part, RawPart):
            self.parts.append(part)
        for source, counter in slider.counters.items():
            for k, output in enumerate(self.plan.of_input(source)):
                if not counter.is_full(k):
                    self.holed.add(output.name)
        for name, made in self.taken.items():
            made.append(self._taken(name, part, columns, look_up or partial(_in_place, rows.first)))

    def _taken(
        self, name: str, part: RawAnswers | RawPart, columns: Columns, look_up: LookUp
    ) -> Answer:
        output = next(o for o in self.plan.outputs if o.name == name)
        raw: Any = part.room(output)
        valid, lengths = part.mask(name), None
        if isinstance(raw, Lists):
            raw, lengths = _lists(raw, valid)
        assert output.aggregate.column is not None
        column, at = look_up(columns[output.aggregate.column], raw)
        return taken_answer(name, column, at, valid, lengths)

    def answers(self, frame: Frame) -> list[Answer]:
        """The answers of all keys; there is at least one."""
        for name in self.raw.masks.keys() - self.holed:
            del self.raw.masks[name]
        if self.parts:
            self.raw.join_lists(self.parts)
        made: list[Answer] = []
        for output in self.plan.outputs:
            taken = self.taken.get(output.name)
            if taken is None:
                made.append(self.raw.answer_apart(output, made))
            else:
                made.append(taken[0] if len(taken) == 1 else join_answers(taken, frame))
        return made


def _in_place(first: int, column: Column, rows: Ints) -> tuple[Column, Ints]:
    return column, rows - first


class JoinedLists:
    """Lists one after the other; what `Lists` tells of one."""

    def __init__(self, parts: list[Lists]) -> None:
        self.parts = parts
        self.lengths = np.concatenate([part.lengths for part in parts])

    def items(self) -> NDArray[np.int64]:
        """The items of all lists."""
        return np.concatenate([part.items() for part in self.parts])


def _overlap(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one is other or bool(np.may_share_memory(one, other))


def _lists(raw: Lists | JoinedLists, valid: Mask | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Items and lengths, none of a list that is null."""
    items, lengths = raw.items(), raw.lengths
    if valid is None:
        return items, lengths
    return items[np.repeat(valid, lengths)], np.where(valid, lengths, 0)


def _reorder(
    raw: NDArray[Any], lengths: NDArray[np.int64] | None, places: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    if lengths is None:
        return raw[places], None
    starts, wanted = (np.cumsum(lengths) - lengths)[places], lengths[places]
    within = np.arange(wanted.sum()) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    return raw[np.repeat(starts, wanted) + within], wanted


def taken_answer(
    name: str,
    column: Column,
    rows: NDArray[np.int64],
    valid: Mask | None = None,
    lengths: NDArray[np.int64] | None = None,
) -> Answer:
    """The values that stand in these rows of a column; where `valid` is false the row is any."""
    if valid is not None and lengths is None:
        rows = np.where(valid, rows, 0)
    if column.valid is not None and lengths is None:
        mine = column.valid[rows]
        valid = mine if valid is None else valid & mine
    if valid is not None and valid.all():
        valid = None  # else integers would come masked, or as pandas' nullable ones
    if column.values is None:
        return Answer(name, rows, valid, column, rows=True, lengths=lengths)
    values = column.values[rows]
    if valid is not None and lengths is None and values.dtype.kind == "f":
        values = np.where(valid, values, np.nan)
    return Answer(name, values, valid, column, lengths=lengths)


def join_answers(parts: list[Answer], frame: Frame) -> Answer:
    """The answers of several runs, one after the other."""
    if len(parts) == 1:
        return parts[0]
    parts = _told_alike(parts, frame)
    like = parts[0].like
    one_column = all(p.like is like for p in parts)
    if parts[0].rows and like is not None and not one_column:
        natives = [frame.take_native(p.like.native, p.values) for p in parts if p.like is not None]
        like = like._replace(native=reduce(frame.join_natives, natives))
        values = np.arange(sum(len(p.values) for p in parts))
    else:
        values = np.concatenate(_typed_alike(parts))
    valids = [p.valid for p in parts]
    valid = None
    if any(v is not None for v in valids):
        sizes = [len(p.values if p.lengths is None else p.lengths) for p in parts]
        filled = zip(valids, sizes, strict=True)
        valid = np.concatenate([np.ones(n, np.bool_) if v is None else v for v, n in filled])
    lengths = [p.lengths for p in parts if p.lengths is not None]
    joined = np.concatenate(lengths) if lengths else None
    return parts[0]._replace(values=values, valid=valid, like=like, lengths=joined)


def _told_alike(parts: list[Answer], frame: Frame) -> list[Answer]:
    """Where some are values of a column and others of nothing but nulls, which is of no type, these
    as nulls of that column."""
    told = next((p.like for p in parts if p.rows), None)
    if told is None or all(p.rows for p in parts):
        return parts
    like = told._replace(native=frame.nulls_like(told.native, 1))
    return [
        p if p.rows else p._replace(values=np.zeros(len(p.values), np.int64), like=like, rows=True)
        for p in parts
    ]


def _typed_alike(parts: list[Answer]) -> list[NDArray[Any]]:
    """Their values; where these are of several types, those of nothing but nulls, whose type says
    nothing, as nulls of the type of the others."""
    types = {p.values.dtype for p in parts}
    told = [p.values.dtype for p in parts if p.valid is None or p.valid.any()]
    if len(types) == 1 or not told or parts[0].lengths is not None:
        return [p.values for p in parts]
    wanted = np.result_type(*told)
    null = {"O": None, "f": np.nan}.get(wanted.kind, 0)
    return [
        p.values if p.valid is None or p.valid.any() else np.full(len(p.values), null, wanted)
        for p in parts
    ]


def reordered(answer: Answer, places: NDArray[np.int64]) -> Answer:
    """The answers at these places."""
    values, lengths = _reorder(answer.values, answer.lengths, places)
    valid = None if answer.valid is None else answer.valid[places]
    return answer._replace(values=values, valid=valid, lengths=lengths)
