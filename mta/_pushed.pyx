"""What a pushed window computes with: a forest per monoid, a batch kernel for everything else."""
from libc.stdint cimport int64_t, uint64_t

from mta._core cimport Forest, find_output
from mta._inside cimport ITEM, REAL, InputState, RawColumn
from mta._kernel cimport Counter, Kernel, Lists
from mta._monoids cimport EXTREME, MEAN, PRODUCT, Cell, IntSum, Wanted
from mta._python_kernel import PythonKernel
from mta._user cimport UserKernel
from mta._vector cimport Vector

import numpy as np

from mta.frames import Column
from mta.items import item_check
from mta.kernels import answer_room, make_kernel, user_type
from mta.plan import wanted_type

KINDS = ("int", "int", "float", "other")    # of columns, by their types here


cdef class StateForest:
    """A monoid: the forest of its values inside."""

    def __cinit__(self, InputState input, state):
        self.input = input
        self.state = state
        self.make()

    cdef int make(self) except -1:
        source = "float" if self.input.column.type == REAL else "int"
        self.forest = Forest(self.state.name, source, self.state.nan)
        return 0


cdef class Room:
    """Where a kernel writes one answer: an array of one item, or a list.

    output : what it answers
    columns : by name, as the kernels' table wants to see them
    column : of the values that are answered; None where they are numbers of their own
    """

    def __cinit__(self, output, dict columns, RawColumn column):
        cdef int64_t[::1] view
        self.room = answer_room(output, columns, 1)
        self.by_row = column if output.aggregate.answers_rows else None
        if isinstance(self.room, Lists):
            self.lists = self.room
            real = output.aggregate.keeps_type and column.type == REAL
            self.kind = FLOAT_CELL if real else INT_CELL
        elif self.room.dtype == np.object_:
            self.kind = OBJECT_CELL
        else:
            kinds = {"f": FLOAT_CELL, "u": UINT_CELL}
            self.kind = kinds.get(self.room.dtype.kind, INT_CELL)
            view = self.room.view(np.int64)
            self.cell = <Cell*> &view[0]
        if output.aggregate.fn == "monoid" and user_type(output.aggregate, columns) == "bool":
            self.kind = BOOL_CELL

    cdef object read(self):
        """The answer as a Python value."""
        if self.lists is not None:
            return [self.value_of((<Cell*> self.lists.data)[k]) for k in range(self.lists.size)]
        if self.kind == OBJECT_CELL:
            return self.room[0]
        return self.value_of(self.cell[0])

    cdef object value_of(self, Cell cell):
        if self.by_row is not None:
            return self.by_row.object_at(cell.i) if cell.i >= 0 else None
        if self.kind == FLOAT_CELL:
            return cell.f
        if self.kind == INT_CELL:
            return cell.i
        return cell.i != 0 if self.kind == BOOL_CELL else <uint64_t> cell.i


cdef class Source:
    """A column as a kernel reads it; `feed` is that of the plan."""

    def __cinit__(self, feed, RawColumn column):
        self.column = column
        self.codes = feed.codes
        self.items = feed.items is not None
        self.skip_nan = feed.skip_nan

    cdef object array(self):
        rows = self.rows().view()
        return rows if self.reads_codes() or self.column.type != REAL else rows.view(np.float64)

    cdef object known_items(self):
        """What the codes stand for; None where the kernel reads numbers, or does not ask."""
        return self.column.items if self.items and self.column.type == ITEM else None


cdef class KernelState:
    """A state with no forest: a batch kernel that is asked for one window at a time.

    It reads the columns where they are: they are attached once, and again when they have moved. An
    answer costs what the kernel costs a row, amortised.
    """

    def __init__(self, state, outputs, InputState input, dict raw):
        self.state = state
        self.outputs = outputs
        self.input = input
        self.raw = raw
        self.sources = [Source(feed, raw[feed.column]) for feed in state.feeds]
        self.make(())

    cdef int make(self, marks) except -1:
        """A fresh kernel, which goes on from these marks."""
        columns = self.columns()
        self.counter = Counter([])
        self.kernel = make_kernel(self.state, self.outputs, columns, self.counter)
        self.rooms = [Room(o, columns, self.raw[o.aggregate.column]) for o in self.outputs]
        self.kernel.answer_to([(<Room> room).room for room in self.rooms])
        self.user = self.kernel if isinstance(self.kernel, UserKernel) else None
        self.moves = isinstance(self.kernel, PythonKernel)
        if marks:
            self.kernel.resume(tuple(marks))
        return 0

    cdef dict columns(self):
        """The columns as the kernels' table wants to see them: by type."""
        cdef RawColumn column
        made = {}
        for name in self.state.input.columns:
            column = self.raw[name]
            made[name] = Column(name, KINDS[column.type], None)
        return made

    cdef int slide(self, int64_t front, int64_t to) except -1:
        """Answer over the rows [front, to), into the rooms."""
        cdef Room room
        if self.moves or self.has_moved():
            self.attach()
        self.kernel.scan.rows = to
        for room in self.rooms:
            if room.lists is not None:
                room.lists.size = 0
        self.counter.step(0, 1, &front, &to)
        if self.kernel.step(0, 1, &front, &to) >= 0:
            raise OverflowError(f"{self.outputs[0].name}: the {self.outputs[0].aggregate.fn} does not "
                                "fit in 64 bits")
        return 0

    cdef bint has_moved(self) except -1:
        """Whether the rows are no more where the kernel reads them."""
        cdef Source source
        cdef int place = 0
        if self.user is not None and not self.user.checked:
            return True
        for source in self.sources:
            if <const char*> self.kernel.scan.columns[place] != source.rows().origin():
                return True
            place += 1
        if self.input.mask is None:
            return self.kernel.scan.valid != NULL
        return <const char*> self.kernel.scan.valid != self.input.mask.origin()

    cdef int attach(self) except -1:
        cdef int64_t first = self.input.column.values.first
        mask = None if self.input.mask is None else self.input.mask.view()
        self.counter.attach(mask, first)
        items = [(<Source> source).known_items() for source in self.sources]
        if self.user is not None:
            self.user.items = items
        elif self.state.sketch is not None:
            self.kernel.items = items[0]
        self.kernel.attach([(<Source> source).array() for source in self.sources], mask, first)
        return 0


cdef class Answer:
    """One answer: where it comes from, and what of it."""

    cdef object read(self, list kernels):
        """What the kernel has answered."""
        cdef KernelState state = kernels[self.kernel]
        return (<Room> state.rooms[self.place]).read()

    cdef object lower(self, Forest forest, const void* part, int64_t count):
        """What a partial over so many values comes to."""
        if self.overflow != RAISE and forest.source == "int":
            if self.overflow == WRAP:
                return <int64_t> (<const IntSum*> part).value
            return forest.lower(MEAN, part, 1)
        try:
            value = forest.lower(self.what, part, self.ddof if self.ddof >= 0 else count)
        except OverflowError:
            what = "product" if self.what == PRODUCT else "sum"
            raise OverflowError(f"{self.name}: the {what} does not fit in 64 bits") from None
        return value != 0 if self.truth else value

    cdef double lower_float(self, Forest forest, const void* part, int64_t count) noexcept:
        """The same over floats, where every answer fits."""
        cdef Wanted wanted
        cdef Cell out
        wanted.what = self.what
        wanted.ddof = self.ddof
        wanted.lo = wanted.hi = NULL
        wanted.counts = &count
        wanted.out = &out
        forest.ops.lower(&forest.state.how, &wanted, part, 1)
        return out.f


cdef Answer make_answer(output, dict inputs, list states, list kernels):
    cdef Answer answer = Answer()
    aggregate = output.aggregate
    answer.name = output.name
    answer.input = inputs[output.input] if output.input is not None else None
    answer.state = states.index(output.state) if output.state in states else -1
    answer.kernel = -1
    for number, state in enumerate(kernels):
        if (<KernelState> state).state == output.state:
            answer.kernel = number
            answer.place = [o.question for o in (<KernelState> state).outputs].index(output.question)
    answer.truth = aggregate.fn in ("any", "all")
    if aggregate.fn == "sum" and aggregate.overflow != "raise":
        answer.overflow = WRAP if aggregate.overflow == "wrap" else TO_FLOAT
    if answer.state >= 0:
        answer.what = EXTREME if answer.truth else find_output(aggregate.fn)
    answer.ddof = aggregate.ddof if aggregate.fn in ("var", "std") else -1
    answer.need = output.need
    return answer


def has_forest(state):
    """Whether a pushed window keeps the state in a forest, as its answers are then those of `rolling`;
    the others are kept by a batch kernel."""
    return state.name in ("sum", "min", "max", "moments", "runs") and state.numerics == "compensated"


def has_partial(state):
    """Whether the state has a partial of constant size."""
    return has_forest(state) or state.name == "products"


def make_column(str name, plan):
    """A column as its aggregates use it: as numbers, or as objects."""
    feeds = [feed for state in plan.states for feed in state.feeds if feed.column == name]
    taken = [o for o in plan.outputs if o.aggregate.column == name and o.aggregate.answers_rows]
    wanted = [wanted_type(o.aggregate, place) for o in plan.outputs
              for place, column in enumerate(o.aggregate.columns) if column == name]
    coded = any(feed.codes or feed.items for feed in feeds)
    return RawColumn(name, any([takes_numbers(feed) for feed in feeds]), bool(taken) or coded,
                     "bools" in wanted, any(feed.skip_nan for feed in feeds), coded, item_checks(feeds))


cdef bint takes_numbers(feed) except -1:
    """Whether a column that is fed so can hold numbers, as numbers."""
    return not feed.codes and (feed.items is None or feed.items == "texts")


def item_checks(feeds):
    """What is wrong with an item for the feeds of a column, or None; None if one takes no items."""
    checks = [item_check(feed) for feed in feeds if feed.items]
    if not checks or any(not feed.items and not feed.codes for feed in feeds):
        return None
    return lambda item: next(filter(None, [check(item) for check in checks]), None)
