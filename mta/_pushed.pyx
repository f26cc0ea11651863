"""What a pushed window computes with: a forest per monoid, a batch kernel for everything else."""
import numpy as np

from mta._bounds import GivenBounds
from mta._kernel import Counter, Lists, slide
from mta.frames import Column
from mta.items import item_check
from mta.kernels import answer_room, answers_rows, keeps_type, make_kernel

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


cdef class KernelState:
    """A state with no forest: a batch kernel that is asked for one window at a time.

    Its answers cost what the kernel costs a row, amortised, and a few microseconds of calls.
    """

    def __init__(self, state, outputs, InputState input, dict raw):
        self.state = state
        self.outputs = outputs
        self.input = input
        self.raw = raw
        self.make()

    cdef int make(self, marks=None) except -1:
        """A fresh kernel, which goes on from these marks."""
        self.counter = Counter([])
        self.kernel = make_kernel(self.state, self.outputs, self.columns(), self.counter)
        if marks:
            self.kernel.resume(tuple(marks))
        return 0

    cdef int make_again(self) except -1:
        """A fresh kernel, as a column has become one of another type."""
        # Of sketches, where the windows began is the same whatever the values are.
        return self.make(self.kernel.marks() if self.state.sketch is not None else None)

    cdef dict columns(self):
        """The columns as the kernels' table wants to see them: by type."""
        cdef RawColumn column
        made = {}
        for name in self.state.input.columns:
            column = self.raw[name]
            made[name] = Column(name, KINDS[column.type], None)
        return made

    def answers(self, int64_t front, int64_t to):
        """The answers over the rows [front, to), by question, where there are enough values."""
        cdef RawColumn column = self.input.column
        columns = self.columns()
        if self.state.name == "ranks":
            self.make()    # its tree wants the rows that leave, which have gone from here
        room = [answer_room(o, columns, 1) for o in self.outputs]
        mask = None if self.input.mask is None else self.input.mask.view()
        self.counter.attach(mask, column.values.first)
        self.kernel.attach([self.feed(f) for f in self.state.feeds], mask, column.values.first)
        self.kernel.answer_to(room)
        if self.state.sketch is not None:
            self.kernel.items = column.items if column.type == ITEM else None
        bounds = GivenBounds(np.array([front]), np.array([to]))
        if slide(bounds, [self.counter], [self.kernel]) is not None:
            raise OverflowError(f"{self.outputs[0].name}: the {self.outputs[0].aggregate.fn} does not "
                                "fit in 64 bits")
        return {o.question: self.value_of(o, x) for o, x in zip(self.outputs, room)}

    cdef object feed(self, feed):
        cdef RawColumn column = self.raw[feed.column]
        if feed.codes or (feed.items and column.type == ITEM):
            return column.codes.view()
        values = column.values.view()
        if column.type != REAL:
            return values
        values = values.view(np.float64)
        return np.nan_to_num(values, posinf=np.inf, neginf=-np.inf) if feed.skip_nan else values

    cdef object value_of(self, output, room):
        if not isinstance(room, Lists):
            return room[0] if room.dtype == object else self.plain(output, room)[0]
        return self.plain(output, room.items())

    cdef list plain(self, output, items):
        """Cells, or the objects of rows, as a list of Python values."""
        cdef RawColumn column = self.raw[output.aggregate.column]
        if answers_rows(output.aggregate):
            return [column.objects[row - column.values.first] if row >= 0 else None
                    for row in items.tolist()]
        if keeps_type(output.aggregate) and column.type == REAL:
            items = items.view(np.float64)
        return items.tolist()


def has_forest(state):
    """Whether the state is a monoid of the forest; the others are kept by a batch kernel."""
    return (state.name in ("sum", "min", "max", "moments") and state.numerics == "compensated"
            and state.overflow == "raise")


def make_column(str name, plan):
    """A column as its aggregates use it: as numbers, or as objects."""
    feeds = [feed for state in plan.states for feed in state.feeds if feed.column == name]
    taken = [o for o in plan.outputs if o.aggregate.column == name and answers_rows(o.aggregate)]
    return RawColumn(name, any([takes_numbers(feed) for feed in feeds]),
                     bool(taken) or any([feed.codes or feed.items for feed in feeds]),
                     item_checks(feeds))


cdef bint takes_numbers(feed) except -1:
    """Whether a column that is fed so can hold numbers, as numbers."""
    return not feed.codes and (feed.items is None or feed.items == "texts")


def item_checks(feeds):
    """What is wrong with an item for the feeds of a column, or None; None if one takes no items."""
    checks = [item_check(feed) for feed in feeds if feed.items]
    if not checks or any(not feed.items and not feed.codes for feed in feeds):
        return None
    return lambda item: next(filter(None, [check(item) for check in checks]), None)
