"""FifoValues: values come in and go one by one, under one algorithm; their types, and the answer."""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memset

from mta._core cimport MAX_PART, Forest, live_boxes
from mta._fifo_ops cimport FifoOps, fifo_bytes, fifo_release, find_fifo
from mta._fifo_state cimport NAMED, FifoState
from mta._inside cimport INTEGER, REAL, UNKNOWN, InputState, RawColumn
from mta._kernel cimport MAX_COLUMNS
from mta._monoids cimport SUM, VALUE, Boxed, Cell, Extreme, Wanted
from mta._pushed cimport Answer, make_answer
from mta._rings cimport ring_bytes, ring_grow, ring_item, ring_release, ring_room

import numpy as np

from mta._pushed import has_partial, make_column
from mta.errors import DataError, PolicyError, SpecError
from mta.functions import Aggregate
from mta.plan import make_plan

ctypedef void (*lift_t)(const void*, void*, int64_t, int64_t) noexcept nogil
ctypedef void (*combine_t)(void*, const void*, const void*) noexcept nogil
ctypedef void (*combine_runs_t)(void*, int64_t, const void*, int64_t, const void*, int64_t, int64_t) noexcept nogil
ctypedef void (*lower_t)(const void*, int64_t, int64_t, void*) noexcept nogil

TYPES = {None: UNKNOWN, "float": REAL, "int": INTEGER}
CELL_TYPES = {float: "float", int: "int", bool: "bool", np.float64: "float", np.int64: "int", np.bool_: "bool"}
cdef int64_t EXACT = <int64_t> 1 << 53    # integers up to here are doubles


cdef class FifoValues:
    """One window and its algorithm; `Fifo` adds arrays, policies and snapshots."""

    def __init__(self, agg, type=None, *, bint keep_values=False):
        if not hasattr(self, "_algorithm"):
            raise TypeError("Fifo: make one of the classes of mta.fifo")
        if not isinstance(agg, Aggregate):
            raise SpecError(f"agg: an aggregate like agg.max('x') is needed, not {agg!r}")
        if type not in TYPES:
            raise SpecError(f"type: must be 'float', 'int' or None, not {type!r}")
        self.agg = agg
        self.algorithm = self.__class__._algorithm
        self.keep_values = keep_values
        self.user = agg.monoid
        self.told = type is not None
        plan = make_plan(((agg.default_name, agg),), 0)
        output = plan.outputs[0]
        self.plan_state = output.state
        self.check_monoid(output.state)
        if self.user is not None:
            self.answer = Answer()
            self.answer.need = max(output.need, 1)
            self.zero = self.user.identity()
            if type is not None:
                self.know_kinds((type,) * len(agg.columns))
        else:
            states = [] if output.state is None else [output.state]
            self.answer = make_answer(output, {output.input: None}, states, [])
            if agg.column is not None:
                self.column = make_column(agg.column, plan)
                self.column.type = TYPES[type]
                self.input = InputState([self.column], output.input.skip_nan)
        if self.ops == NULL and (
                self.column is None or self.plan_state is None or self.column.type != UNKNOWN):
            self.settle()

    def __dealloc__(self):
        fifo_release(&self.state)
        ring_release(&self.nulls)

    cdef int check_monoid(self, state) except -1:
        invertible = state is None or state.name == "sum"
        if self.user is None and state is not None and not has_partial(state):
            raise SpecError(f"agg: {self.agg!r} has no partial of constant size here; sum, mean, min, max, "
                            "any, all, var, std, product, geometric_mean, longest_run and count have, and "
                            "agg.monoid makes others")
        if self.algorithm == "SubtractOnEvict" and not invertible:
            raise SpecError(f"SubtractOnEvict: {self.agg!r} has no inverse: what leaves can't be taken out "
                            "again; TwoStacks, DABA and AMTA need none")
        return 0

    # ------------------------------------------------------------------- the type of the values

    cdef int settle(self) except -1:
        """The partials are those of the column's type; nulls are all there is inside."""
        cdef FifoOps* old = self.ops
        cdef FifoState state
        cdef Cell nothing
        cdef int64_t i
        monoid, part = self.find_monoid()
        memset(&state, 0, sizeof(FifoState))
        state.front = state.back = self.state.front
        state.left = state.right = state.accum = state.mid = state.front
        state.how = (<Forest> monoid).state.how
        state.keeps_values = self.keep_values or self.algorithm == "DABA"
        nothing.i = 0
        cdef FifoOps* ops = find_fifo(self.algorithm, part)
        ops.start(&state, NULL, NULL)
        for i in range(self.state.front, self.state.back):
            ops.insert(&state, nothing, False, NULL, NULL)
        if old != NULL:
            fifo_release(&self.state)
        self.state, self.ops, self.monoid = state, ops, monoid
        self.ruled = []
        return 0

    cdef tuple find_monoid(self):
        """(the forest's way with it, kind of partial)"""
        cdef Forest forest
        if self.cells is not None:
            part = "cell" if len(self.cells.kinds) == 1 else "cells"
            forest = Forest(part, "float" if self.cells.gives == "float" else "int")
            forest.state.how.ctx = <void*> &self.functions
            return forest, part
        if self.user is not None:
            return Forest("object", "object", combine=self.user.combine, zero=self.zero), "object"
        if self.plan_state is None:
            return Forest("sum", "int"), "int"
        source = "float" if self.column.type == REAL else "int"
        kind = {"sum": source, "min": "extreme", "max": "extreme"}.get(self.plan_state.name, self.plan_state.name)
        if self.algorithm == "SubtractOnEvict" and kind == "float":
            raise DataError("SubtractOnEvict: a sum of floats has no exact inverse, so that values would "
                            "leave traces; ints have one, and TwoStacks, DABA and AMTA need none")
        return Forest(self.plan_state.name, source, self.plan_state.nan), kind

    cdef int take_type(self, int kind) except -1:
        """A value of this type comes in."""
        cdef int before = self.column.type
        if self.plan_state is None or kind == before:
            if self.ops == NULL:
                self.settle()    # nulls only, so far
            return 0
        if before != UNKNOWN:
            raise DataError(f"row {self.state.back}: a float among ints; say type='float' at the start")
        self.column.type = kind
        try:
            self.settle()
        except BaseException:
            self.column.type = before
            raise
        return 0

    @property
    def type(self):
        """Of the values: "float" or "int"; None: not known yet, or they are not numbers."""
        if self.cells is not None and len(self.kinds) == 1 and self.kinds[0] != "bool":
            return self.kinds[0]
        if self.column is None or self.plan_state is None or self.column.type == UNKNOWN:
            return None
        return "float" if self.column.type == REAL else "int"

    @property
    def compiled(self):
        """Whether no Python runs for a value; None: not known yet."""
        return None if self.user is not None and self.kinds is None else not self.why_python

    @property
    def why_python(self):
        """Why a monoid of your own runs through Python; "" where it does not, or is not used yet."""
        if self.user is None or self.cells is not None or self.kinds is None:
            return ""
        return self.user.cell_program(self.kinds).why_python

    # -------------------------------------------------------------------------------- one value

    def __len__(self):
        return self.state.back - self.state.front

    @property
    def nbytes(self):
        """Bytes held, without those of Python values."""
        if self.ops == NULL:
            return 0
        return fifo_bytes(&self.state, self.ops.size) + ring_bytes(&self.nulls, sizeof(Extreme))

    def insert(self, value):
        """Append a value, or a row: a dict by column, or a tuple where a monoid reads several columns.

        None is null: it is inside, and counts for nothing.

        Raises
        ------
        DataError
            The value can't be read.

        Whatever is raised, by functions of a monoid too, the window is as it was.
        """
        self.check_idle()
        if self.user is not None:
            self.insert_row(value)
        elif self.column is None:
            self.insert_cell(Cell(i=1), True)
        else:
            self.insert_number(value[self.agg.column] if type(value) is dict else value)

    cdef int insert_number(self, value) except -1:
        cdef RawColumn column = self.column
        column.read(value, self.state.back)
        if column.now_type != UNKNOWN or self.ops == NULL:
            self.take_type(column.now_type)
        if self.plan_state is None:
            column.now.i = 1
        return self.insert_cell(column.now, self.input.now_valid())

    cdef int insert_cell(self, Cell raw, bint valid) except -1:
        if not valid:
            self.note_null(self.state.back)
        self.busy = True
        try:
            self.ops.insert(&self.state, raw, valid, NULL, NULL)
        finally:
            self.busy = False
        self.last_null += not valid
        return 0

    cdef int note_null(self, int64_t position) except -1 nogil:
        """Write it down; it counts when `last_null` does."""
        cdef Extreme* at
        if self.last_null - self.first_null == self.nulls.places:
            ring_grow(&self.nulls, self.first_null, self.last_null, sizeof(Extreme))
        at = ring_room(&self.nulls, self.last_null, <Extreme*> NULL)
        at.key = position
        return 0

    # -------------------------------------------------------------------- rows of a user's monoid

    cdef int insert_row(self, value) except -1:
        cdef Cell cells[MAX_COLUMNS]
        cdef Cell raw
        row = self.row_of(value)
        raw.i = 0
        if row is None:
            self.insert_cell(raw, False)
            return self.sweep()
        if not self.checked:
            self.check_row(row)
        if self.kinds is None:
            self.know_kinds(tuple([CELL_TYPES.get(type(x), "object") for x in row]))
        if self.cells is not None and self.read_cells(row, cells):
            raw = cells[0]
            if len(row) > 1:
                raw.i = <int64_t> cells
            return self.insert_cell(raw, True)
        if self.cells is not None:
            self.to_python()
        part = self.lifted(row)
        raw.i = <int64_t> <PyObject*> part
        self.insert_cell(raw, True)
        return self.sweep()

    cdef object row_of(self, value):
        """What lift gets; None: nothing that counts."""
        if type(value) is dict:
            row = tuple([value[name] for name in self.agg.columns])
        else:
            row = value if len(self.agg.columns) > 1 else (value,)
            if type(row) is not tuple or len(row) != len(self.agg.columns):
                raise DataError(f"row {self.state.back}: a tuple of {len(self.agg.columns)} values is "
                                f"needed, not {value!r}")
        for x in row:
            if x is None or (self.agg.nan == "skip" and x != x):
                return None
        return row

    cdef int check_row(self, tuple row) except -1:
        """Hold the monoid to its contract, until it has seen a row that tells."""
        self.user.check(row)
        self.checked = len(self.user._checked) > 0
        return 0

    cdef int know_kinds(self, tuple kinds) except -1:
        """The columns are of these types; all there is inside is null. Compiles the monoid, if it can be."""
        program = self.user.cell_program(kinds)
        self.kinds = kinds
        if program.why_python:
            return 0
        self.cells = program
        self.functions.columns = len(kinds)
        self.functions.lift = <lift_t> <size_t> program.lift.address
        self.functions.combine = <combine_t> <size_t> program.combine.address
        self.functions.combine_runs = <combine_runs_t> <size_t> program.combine_runs.address
        self.functions.lower = <lower_t> <size_t> program.lower.address
        self.answer.kernel, self.answer.what, self.answer.truth = -1, VALUE, program.gives == "bool"
        return self.settle()

    cdef int through_python(self) except -1:
        """The next `settle` is for values of any type."""
        self.cells, self.kinds = None, ()
        self.answer.kernel, self.answer.truth = 0, False
        return 0

    cdef bint read_cells(self, tuple row, Cell* cells) except -1:
        """Whether these are values of the columns' types."""
        for k, kind in enumerate(self.kinds):
            x = row[k]
            its = CELL_TYPES.get(type(x))
            if its != kind and not (self.told and kind == "float" and its == "int" and -EXACT <= x <= EXACT):
                return False
            if kind == "float":
                cells[k].f = x
            elif its == "int" and not -2**63 <= x < 2**63:
                return False
            else:
                cells[k].i = x
        return True

    cdef int to_python(self) except -1:
        """From here on, values of any type."""
        raise DataError(f"row {self.state.back}: the values are {', '.join(self.kinds)} here")

    cdef object lifted(self, tuple row):
        self.busy = True    # lift is the user's
        try:
            return self.user.lift(*row)
        finally:
            self.busy = False

    # ------------------------------------------------------------------------- out, and answers

    def evict(self):
        """Drop the oldest value.

        Raises
        ------
        IndexError
            The window is empty.
        """
        self.evict_many(1)

    def evict_many(self, Py_ssize_t n):
        """Drop the n oldest values.

        Raises
        ------
        IndexError
            n is negative or more than the window holds.
        """
        self.check_idle()
        if n < 0 or n > self.state.back - self.state.front:
            raise IndexError(f"n: can't drop {n} values of {len(self)}")
        if n:
            self.evict_to(self.state.front + n)

    cdef int evict_to(self, int64_t front) except -1:
        self.busy = True
        try:
            self.ops.evict_to(&self.state, front, NULL, NULL)
        finally:
            self.busy = False
        self.first_null = self.null_from(front)
        self.sweep()
        return 0

    cdef int64_t null_from(self, int64_t position) except -1 nogil:
        """The first null inside that is not before this position: O(log nulls)."""
        cdef int64_t lo = self.first_null, hi = self.last_null, middle
        while lo < hi:
            middle = (lo + hi) >> 1
            if ring_item(&self.nulls, middle, <Extreme*> NULL).key < position:
                lo = middle + 1
            else:
                hi = middle
        return lo

    def query(self):
        """The answer over the values inside; null is None."""
        cdef char part[MAX_PART]
        self.check_idle()
        if self.ops == NULL:
            return None if self.answer.need > 0 else 0
        self.busy = True
        try:
            self.ops.query(&self.state, part, NULL)
            return self.lower(part, self.count_to(self.state.back))
        finally:
            self.busy = False
            self.sweep()

    cdef int64_t count_to(self, int64_t to) except -1 nogil:
        """How many values before this position are not null."""
        return to - self.state.front - (self.null_from(to) - self.first_null)

    cdef object lower(self, const void* part, int64_t count):
        """The answer that a partial over so many values comes to."""
        if count < self.answer.need:
            return None
        if self.cells is not None:
            return self.lower_cells(part)
        if self.user is not None:
            value = <object> (<const Boxed*> part).value
            return value if self.user.lower is None else self.user.lower(value)
        if self.plan_state is None:
            return self.monoid.lower(SUM, part, count)
        return self.answer.lower(self.monoid, part, count)

    cdef object lower_cells(self, const void* part):
        cdef Cell out
        cdef Wanted wanted
        wanted.out = &out
        self.monoid.ops.lower(&self.state.how, &wanted, part, 1)
        if self.cells.gives == "float":
            return out.f
        return out.i != 0 if self.answer.truth else <object> out.i

    cdef int refuse(self) except -1:
        raise PolicyError(f"{self.algorithm}: a call is under way; a policy or a monoid may not change "
                          "the window that asks it, nor may two threads")

    # --------------------------------------------------------------------------- Python values

    cdef int sweep(self) except -1:
        """Let go of the Python values that nothing inside points to any more."""
        if self.user is None or self.cells is not None or len(self.monoid.context.keep) <= 64 + 8 * self.swept:
            return 0
        cdef FifoState* s = &self.state
        cdef int64_t i
        live = live_boxes(&s.forest)
        live += [<object> (<Boxed*> s.named)[i].value for i in range(NAMED)]
        live += [<object> (<Boxed*> s.nodes)[i].value for i in range(2 * s.places)]
        for i in range(s.front, s.back):
            if s.items.places:
                live.append(<object> ring_item(&s.items, i, <Boxed*> NULL).value)
            if s.keeps_values and s.values.places:
                live.append(<object> ring_item(&s.values, i, <Boxed*> NULL).value)
        self.monoid.context.keep = live
        self.swept = len(live)
        return 0
