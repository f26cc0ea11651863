"""Window: one window pushed by hand, row by row."""
from cpython.object cimport PyObject
from libc.math cimport isnan
from libc.stdint cimport int64_t

from mta._core cimport MAX_PART, ForestOps, ForestState
from mta._decide cimport make_decider
from mta._deciding cimport ForestsGuide, decide_arrays
from mta._held cimport Held
from mta._inside cimport REAL, InputState, RawColumn, Times
from mta._many cimport (
    as_array, insert_arrays, is_array, is_plain, plain_arrays, push_arrays, read_arrays, settle_types,
)
from mta._monoids cimport Cell
from mta._pushed cimport Answer, KernelState, StateForest, make_answer
from mta._search cimport Decider, WindowSearch

import json
from collections import namedtuple

import numpy as np

from mta._pushed import has_forest, make_column
from mta.durations import Duration
from mta.errors import DataError, PolicyError, SnapshotError, SpecError
from mta.functions import Aggregate, named
from mta.plan import make_plan
from mta.policies import Last, OfAnswer, Ready
from mta.snapshot import seal, unseal

cdef extern from "_push_call.h":
    ctypedef object (*fast_call "mta_fast_call")(object, PyObject**, Py_ssize_t, PyObject*)
    object replace_push "mta_replace_push"(object type, fast_call call, const char* doc)


cdef enum:
    SPARED = 64    # rows that have left, beyond which as many as are inside are not kept


cdef class Window(Held):
    """One window over rows that are pushed by hand.

    Parameters
    ----------
    aggs : a dict of aggregates by name, or one aggregate, like ``agg.max("x")``
    policy : ``mta.last("1h")``, ``mta.last(1024)``, ``mta.since_max("top")`` or another ready-made one,
        or ``policy(total, old) -> bool``
        What goes when a row is pushed; see ``mta.policies``. None: nothing, until `evict`.

    A row is given by name (``push(x=1.5, ts=...)`` or ``push({"x": 1.5, "ts": ...})``) or, where
    the aggregates use one column, as its bare value, the time second: ``push(1.5, ts)``. Values are
    numbers, booleans or None, and anything where an aggregate takes any type (``first``, ``mode``).
    A column of ints stays exact, and becomes one of floats with the first float. Times (for
    ``mta.last("1h")``) are datetimes, or integers for ranges like "60i"; they must not go back.

    Rows may come many at once, an array for each value (``push(x=np.array([...]), ts=...)``): `push`
    then gives arrays, with the answers after every row. They and the window are what pushing one by
    one makes of them; over numbers without a Python object per row, unless the policy is a function
    that can't be compiled (``mta.policy`` tells why).

    Answers are a named tuple, or the bare answer where `aggs` is one aggregate. They are the same
    doubles that ``mta.rolling`` gives for the same rows.

    Cost in combines per aggregate: insert 2 amortised, evict 1 amortised, evict(n) O(log n), result
    1. Arrays of 2,048 rows and more, and of half the window's at least, take sums, means and extremes
    from the kernels of `rolling`, and then fill the forests: 1 combine per row that stays. Memory: the
    raw rows and two partials a row and aggregate, of as many rows as ever were inside (a copy by
    `from_bytes` has what its rows need). What is no monoid of the forest
    (quantiles, counts of values, products, moments of higher order, ...) is kept by the kernels of
    `rolling`, at their cost a row, amortised: O(log n) for quantiles, with no longer step, O(1) for
    most. They let a row go when they are asked next; until then, and for one window at most, it is
    kept. A function as policy costs them O(k log k) rows more where k rows go.

    Examples
    --------
    >>> import mta
    >>> from mta import agg
    >>> w = mta.Window({"n": agg.count(), "total": agg.sum("x")}, mta.last(2))
    >>> [w.push(x=x).total for x in (1, 2, 3)]
    [1, 3, 5]

    No older than the maximum:

    >>> w = mta.Window({"n": agg.count(), "top": agg.max("x")}, lambda total, old: old.top < total.top)
    >>> [tuple(w.push(x=x)) for x in (3, 1, 4, 1, 5)]
    [(1, 3), (2, 3), (1, 4), (2, 4), (1, 5)]
    """

    cdef readonly object policy
    cdef str spec
    cdef int64_t most         # rows that the policy keeps, or -1
    cdef bint deciding        # the policy is being asked
    cdef Decider decider      # a ready-made policy over answers
    cdef ForestsGuide guide
    cdef tuple pairs          # named aggregates
    cdef tuple names          # of the columns, and of the time
    cdef bint quick           # a push of a float may take `push_quick`

    def __init__(self, aggs, policy=None):
        pairs, bare = read_aggs(aggs)
        self.set_policy(policy, pairs, bare)
        names = tuple(name for name, _ in pairs)
        if not bare:
            self.make_result = make_result_type(names)
        plan = make_plan(pairs, 0)
        columns = {name: make_column(name, plan) for name in plan.columns}
        if self.times is not None and self.times.on in columns:
            raise SpecError(f"on: {self.times.on!r} is the time; an aggregate can't use it as a value")
        inputs = {i: InputState([columns[n] for n in i.columns], i.skip_nan) for i in plan.inputs}
        forests = [s for s in plan.states if has_forest(s)]
        others = [s for s in plan.states if not has_forest(s)]
        self.raw = list(columns.values())
        self.inputs = list(inputs.values())
        self.forests = [StateForest(inputs[s.input], s) for s in forests]
        self.kernels = [KernelState(s, plan.asked(s), inputs[s.input], columns) for s in others]
        self.answers = [make_answer(o, inputs, forests, self.kernels) for o in plan.outputs]
        self.guide = ForestsGuide(self)
        self.pairs = tuple(pairs)
        if isinstance(policy, OfAnswer):
            self.decider = self.decider_now()
        self.quick = (bare and (self.most > 0 or self.times is not None) and len(self.forests) == len(self.raw) == 1
                      and not self.kernels and not (<RawColumn> self.raw[0]).taken)
        self.names = tuple(columns) + ((self.times.on,) if self.times is not None else ())
        self.spec = repr((pairs, policy if policy is None or isinstance(policy, Ready) else "policy"))

    cdef int set_policy(self, policy, pairs, bint bare) except -1:
        self.most = -1
        if isinstance(policy, Last) and isinstance(policy.range, Duration):
            self.times = Times(policy.on, policy.range)
        elif isinstance(policy, Last):
            self.most = policy.range
        elif isinstance(policy, OfAnswer):
            policy.place(tuple(pairs), bare)
        elif policy is not None and not callable(policy):
            raise SpecError(f"policy: {policy!r} is neither a function nor one of mta.policies, like "
                            "mta.last(...)")
        self.policy = policy
        return 0

    def __len__(self):
        return self.back - self.front

    def insert(self, row=None, time=None, /, **columns):
        """Append a row, or rows as arrays; nothing leaves.

        Raises
        ------
        DataError
            The row can't be read, or its time is before the last one. The window is unchanged; of
            arrays, the rows above it are inside.
        """
        self.check_idle()
        if self.gives_arrays(row, columns):
            self.insert_many(row, time, columns)
            return
        self.read(row, time, columns)
        self.append()

    def push(self, row=None, time=None, /, **columns):
        """Insert a row, let the policy decide what leaves, and answer; of arrays, row after row.

        Null answers among arrays are NaN; among integers they are masked.

        Raises
        ------
        DataError
            The row can't be read. Of arrays, this and what follows hold for the first such row: those
            above it have been pushed.
        PolicyError
            The policy is not monotone.
        OverflowError
            An integer sum does not fit in 64 bits. A window with a function as policy, which can't
            decide without the sum, is as it was; any other has taken the row in and let the old
            ones go, and answers again once the sum fits. So it is with what the functions of an
            ``agg.monoid`` raise, until the row that they can't take has gone.

        Any other exception, the policy's own included, leaves the window as it was.
        """
        return self.push_row(row, time, columns)

    cdef object push_row(self, row, time, dict columns):
        """`push`; columns: None where no values are given by name."""
        if self.quick and type(row) is float and not columns and (time is None) == (self.times is None):
            if (<RawColumn> self.raw[0]).type == REAL:
                return self.push_quick(row, time)
        self.check_idle()
        if self.gives_arrays(row, columns):
            return self.push_many(row, time, columns)
        self.read(row, time, columns)
        if self.times is not None:
            self.evict_to(self.times.first_inside(self.front, self.back))
        elif self.most >= 0:
            self.evict_to(max(self.front, self.back + 1 - self.most))
        self.append()
        if self.times is None and self.most < 0 and self.policy is not None:
            self.enforce()
        return self.answer_now()

    cdef object push_quick(self, double value, time):
        """`push` of a float where one forest over one column of floats, none of them null so far, has
        one answer and the policy is `last`: what is left of the general way, in the same order."""
        cdef RawColumn column = self.raw[0]
        cdef StateForest state = self.forests[0]
        cdef Answer answer = self.answers[0]
        cdef ForestState* s = &state.forest.state
        cdef ForestOps* ops = state.forest.ops
        cdef char part[MAX_PART]
        cdef Cell cell
        cdef int64_t front
        cell.f = value
        if column.valid is not None or state.input.before is not None or isnan(value):
            self.quick = False    # from now on there is more to do
            return self.push_row(value, time, None)
        if self.times is not None:
            self.times.read(time, self.back)
            front = self.times.first_inside(self.front, self.back)
        else:
            front = max(self.front, self.back + 1 - self.most)
        if front == self.front + 1:
            ops.evict_to(s, front - self.base, NULL)
            column.front = self.front = front
            column.values.drop_one()
            if self.times is not None:
                self.times.ticks.drop_one()
        elif front > self.front:
            self.evict_to(front)
        if self.front == self.back:
            self.restart()
        ops.insert(s, cell, True, NULL)
        column.values.append(cell.i)
        if self.times is not None:
            self.times.append()
        self.back += 1
        if self.back - self.front < answer.need:
            return None
        ops.query(s, part)
        return answer.lower_float(state.forest, part, self.back - self.front)

    # ------------------------------------------------------------------ rows as arrays

    cdef bint gives_arrays(self, row, dict columns) except -1:
        """Whether what is given are rows, not one."""
        if type(row) is float or type(row) is int:
            return False
        if type(row) is dict:
            columns = <dict> row
        elif row is not None:
            return is_array(row)
        if not columns:
            return False
        value = columns.get(self.names[0]) if self.names else next(iter(columns.values()))
        return not (type(value) is float or type(value) is int) and is_array(value)

    cdef object push_many(self, row, time, dict columns):
        """An array per answer; row by row where there is more to do than computing."""
        arrays, times, rows = read_arrays(self, row, time, columns)
        plain = plain_arrays(self, arrays, times)
        if plain is not None and is_plain(self, plain[0], rows):
            if self.policy is None or isinstance(self.policy, Last):
                return self.wrap(push_arrays(self, self.most, plain, rows))
            answers = self.push_deciding(plain, arrays, rows)
            if answers is not None:
                return self.wrap(answers)
        answers = [self.push_row(one, None, None) for one in self.rows_of(arrays, times, rows)]
        if self.make_result is None:
            return as_array(answers)
        return self.wrap([as_array([answer[k] for answer in answers]) for k in range(len(self.answers))])

    cdef object push_deciding(self, plain, dict arrays, int64_t rows):
        """An array per answer, where the policy needs no Python; else None."""
        cdef Decider decider = self.decider
        if decider is None:
            settle_types(self, plain[0])
            decider = self.decider_now()
        if decider is None:
            return None

        def push_one(place):
            one = {name: array[place:place + 1].tolist()[0] for name, array in arrays.items()}
            answers = self.push_row(one, None, None)
            return answers if self.make_result is not None else (answers,)

        return decide_arrays(self, decider, self.guide, plain, rows, push_one)

    cdef Decider decider_now(self):
        """The policy, over answers of the types that they have now; None where only Python will do."""
        self.guide.bind()
        return make_decider(self.policy, self.guide, self.pairs, self.answers, self.make_result)

    cdef int insert_many(self, row, time, dict columns) except -1:
        arrays, times, rows = read_arrays(self, row, time, columns)
        plain = plain_arrays(self, arrays, times)
        if plain is not None:
            return insert_arrays(self, plain, rows)
        for one in self.rows_of(arrays, times, rows):
            self.read(one, None, None)
            self.append()
        return 0

    cdef object rows_of(self, dict arrays, times, rows):
        """Each as a dict of Python values (times stay NumPy's, which are finer)."""
        columns = [array.tolist() for array in arrays.values()]
        names = list(arrays)
        if times is not None:
            names.append(self.times.on)
            columns.append(list(times) if times.dtype.kind == "M" else times.tolist())
        if not names:
            return [{} for _ in range(rows)]
        return [dict(zip(names, values)) for values in zip(*columns)]

    def evict(self, Py_ssize_t n=1):
        """Drop the n oldest rows.

        Raises
        ------
        IndexError
            n is negative or more than the window holds.
        """
        self.check_idle()
        if n < 0 or n > self.back - self.front:
            raise IndexError(f"n: can't drop {n} rows of {len(self)}")
        self.evict_to(self.front + n)
        if self.kernels and self.front - self.kept > SPARED + self.back - self.front:
            # Nobody has asked for long: begin again rather than keep what is gone.
            self.make_kernels(self.marks())
            self.kept = self.front

    def result(self):
        """The answers over the rows inside; null is None."""
        return self.answer_now()

    cdef inline int check_idle(self) except -1:
        if self.deciding:
            raise PolicyError("policy: may not change the window that asks it")
        return 0

    # ------------------------------------------------------------------ reading a row

    cdef int read(self, row, time, dict columns) except -1:
        """Fill `now` of every column from the arguments; the window itself stays as it is."""
        cdef RawColumn column
        if not columns and len(self.raw) == 1 and type(row) is not dict:
            (<RawColumn> self.raw[0]).read(row, self.back)
            if self.times is not None or time is not None:
                self.read_time(time)
            return 0
        if isinstance(row, dict):
            columns = {**row, **columns} if columns else row
        elif row is not None or (not columns and self.raw):
            columns = {self.only_column(): row, **(columns or {})}
        elif columns is None:
            columns = {}
        for column in self.raw:
            if column.name not in columns:
                raise DataError(f"row {self.back}: no value for column {column.name!r}")
            column.read(columns[column.name], self.back)
        if time is None and self.times is not None:
            time = columns.get(self.times.on)
        if self.times is not None or time is not None:
            self.read_time(time)
        return 0

    cdef str only_column(self):
        """The column that a bare value belongs to."""
        if len(self.raw) != 1:
            name = (<RawColumn> self.raw[0]).name if self.raw else "x"
            raise DataError(f"row: name the values, like push({name}=...); "
                            f"the aggregates use {len(self.raw)} columns")
        return (<RawColumn> self.raw[0]).name

    cdef int read_time(self, value) except -1:
        if self.times is None:
            raise DataError("time: the policy of this window uses none")
        return self.times.read(value, self.back)

    # -------------------------------------------------------------------- the policy

    cdef int enforce(self) except -1:
        cdef int64_t front
        if self.decider is not None:
            self.guide.bind()
            front = self.decider.decide(self.base, self.front, self.back)
            return self.evict_to(front)
        marks = self.marks()
        self.deciding = True
        try:
            front = WindowSearch(self, self.policy).decide(self.base, self.front, self.back)
        except BaseException:
            self.retract()
            self.make_kernels(marks)    # they have seen the row that is taken back
            raise
        finally:
            self.deciding = False
        self.evict_to(front)
        return 0

    # --------------------------------------------------------------------- snapshots

    def __reduce__(self):
        raise TypeError("a Window is not copied or pickled; see to_bytes and Window.from_bytes")

    def to_bytes(self):
        """The window as bytes: versioned, checksummed, no code inside.

        Returns
        -------
        bytes
            About 8 bytes a row and column (9 with nulls); `from_bytes` takes them back.
        """
        cdef RawColumn column
        head, ticks = [self.front, self.back, self.base, 0, 0], b""
        if self.times is not None:
            head[3:] = [self.times.newest, self.times.aware]
            ticks = self.times.ticks.view().astype("<i8").tobytes()
        parts = [np.array(head, "<i8").tobytes(), ticks]
        for column in self.raw:
            parts += column.parts()
        parts.append(json.dumps(self.marks()).encode())
        return seal("window", self.spec, parts)

    @classmethod
    def from_bytes(cls, data, aggs, policy=None):
        """The window that `to_bytes` described, for the same aggregates and policy.

        Raises
        ------
        SnapshotError
            `data` is damaged, cut short, or a snapshot of something else.
        """
        cdef Window window = cls(aggs, policy)
        window.load(unseal("window", window.spec, data))
        return window

    cdef int load(self, list parts) except -1:
        cdef RawColumn column
        cdef InputState source
        cdef StateForest state
        cdef int64_t rows
        if len(parts) != 3 + 4 * len(self.raw) or len(parts[0]) != 40:
            raise SnapshotError("snapshot: damaged (the columns do not fit)")
        self.front, self.back, self.base, newest, aware = np.frombuffer(parts[0], "<i8").tolist()
        rows = self.back - self.front
        expected = 0 if self.times is None else 8 * rows
        if not 0 <= self.base <= self.front <= self.back or len(parts[1]) != expected:
            raise SnapshotError("snapshot: damaged (the rows do not fit)")
        if self.times is not None:
            self.times.load(parts[1], self.front, newest, aware)
        for place, column in enumerate(self.raw):
            column.load(parts[2 + 4 * place:6 + 4 * place], self.front, rows)
        self.load_marks(parts[2 + 4 * len(self.raw)])
        for source in self.inputs:
            source.load(self.front, self.back)
        for state in self.forests:
            self.rebuild(state)
        return 0


    cdef int load_marks(self, data) except -1:
        cdef KernelState state
        try:
            marks = json.loads(data)
        except ValueError:
            marks = None
        whole = isinstance(marks, list) and len(marks) == len(self.kernels) and all(
            isinstance(mine, list) and all(type(x) is int and -1 <= x <= self.back for x in mine)
            for mine in marks)    # row numbers, all of them
        if not whole:
            raise SnapshotError("snapshot: damaged (the marks do not fit)")
        self.make_kernels([[] for _ in marks])    # of the types that the columns have now
        for state, mine in zip(self.kernels, marks):
            if len(mine) != len(state.kernel.marks()):
                raise SnapshotError("snapshot: damaged (the marks do not fit)")
        self.make_kernels(marks)
        self.kept = self.front
        return 0


# Python calls `push` through this: a method that takes **columns makes a dict at every call, and that
# takes longer than a sum does. What is not a plain row goes to the method as it is written above.
cdef object push_called(object self, PyObject** args, Py_ssize_t n, PyObject* names):
    if names == NULL and n == 1:
        return (<Window> self).push_row(<object> args[0], None, None)
    if names == NULL and n == 2:
        return (<Window> self).push_row(<object> args[0], <object> args[1], None)
    if n == 0 and names != NULL and (<Window> self).quick and type(<object> args[0]) is float:
        if (<Window> self).names == <tuple> names:
            time = <object> args[1] if (<Window> self).times is not None else None
            return (<Window> self).push_row(<object> args[0], time, None)
    columns = {}
    if names != NULL:
        for k, name in enumerate(<tuple> names):
            columns[name] = <object> args[n + k]
    if n > 2:
        return PUSH(self, *[<object> args[k] for k in range(n)], **columns)
    return (<Window> self).push_row(<object> args[0] if n else None, <object> args[1] if n == 2 else None,
                                    columns)


cdef object PUSH = Window.push
cdef bytes PUSH_DOC = PUSH.__doc__.encode()
replace_push(Window, <fast_call> push_called, <const char*> PUSH_DOC)


def read_aggs(aggs):
    """(name, aggregate) pairs, and whether the answer is to be bare."""
    if isinstance(aggs, Aggregate):
        return named((aggs,), {}), True
    if isinstance(aggs, dict):
        return named((), aggs), False
    if isinstance(aggs, (list, tuple)):
        return named(tuple(aggs), {}), False
    raise SpecError(f"aggs: a dict of aggregates, or one like agg.max('x'), is needed, not {aggs!r}")


def make_result_type(names):
    """A named tuple; its names must be those of attributes, for policies to use."""
    try:
        return namedtuple("Answers", names)
    except ValueError as error:
        raise SpecError(f"aggs: {error}") from None
