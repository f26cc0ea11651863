"""The rows inside a pushed window, and what is kept of them: columns, forests, kernels."""
from libc.stdint cimport int64_t

from mta._core cimport MAX_PART, Forest, forest_restart
from mta._inside cimport InputState, RawColumn
from mta._monoids cimport Cell
from mta._pushed cimport Answer, KernelState, StateForest

cdef extern from "_push_call.h":
    object new_tuple "mta_new_tuple"(object type, list values)


cdef class Held:
    """Rows that come and go, in order, and the answers over them; subclasses say which do when."""

    cdef object answer_now(self):
        """The answers over the rows inside."""
        cdef char part[MAX_PART]
        cdef Answer answer
        cdef Forest forest
        cdef int64_t count
        values = []
        if self.kernels:
            self.slide_kernels()
        for answer in self.answers:
            count = self.count_of(answer, self.back)
            if count < answer.need:
                values.append(None)
            elif answer.kernel >= 0:
                values.append(answer.read(self.kernels))
            elif answer.state < 0:
                values.append(count)
            else:
                forest = (<StateForest> self.forests[answer.state]).forest
                forest.ops.query(&forest.state, part)
                values.append(answer.lower(forest, part, count))
        return self.wrap(values)

    cdef int slide_kernels(self) except -1:
        """All of them, even if an answer of one does not fit: then those of the next window are the
        same as ever."""
        cdef KernelState state
        error = None
        for state in self.kernels:
            try:
                state.slide(self.front, self.back)
            except Exception as raised:
                error = error or raised
        self.kept = self.front
        if error is not None:
            raise error
        return 0

    cdef int append(self) except -1:
        """The row that the columns have read comes in."""
        cdef RawColumn column
        cdef InputState source
        cdef StateForest state
        if self.front == self.back:
            self.restart()
        for column in self.raw:
            if column.type != column.now_type:
                column.settle_type()
                self.rebuild_column(column)
        for state in self.forests:
            state.forest.insert_cell(state.input.column.now, state.input.now_valid())
        for source in self.inputs:
            source.append(self.back)
        for column in self.raw:
            column.append()
        if self.times is not None:
            self.times.append()
        self.back += 1
        return 0

    cdef int retract(self) except -1:
        """Take the newest row back (only windows with a function as policy do: they have no times)."""
        cdef RawColumn column
        cdef InputState source
        cdef StateForest state
        self.back -= 1
        for state in self.forests:
            state.forest.retract()
        for source in self.inputs:
            source.retract()
        for column in self.raw:
            column.retract()
        return 0

    cdef int restart(self) except -1:
        """An empty window counts positions anew, as mta.rolling does after a gap."""
        cdef StateForest state
        self.base = self.back
        for state in self.forests:
            forest_restart(&state.forest.state, self.base)
        return 0

    cdef int evict_to(self, int64_t front) except -1:
        """The rows before `front` leave."""
        cdef StateForest state
        if front == self.front:
            return 0
        for state in self.forests:
            state.forest.ops.evict_to(&state.forest.state, front - self.base, NULL)
        return self.drop_rows(front)

    cdef int drop_rows(self, int64_t front) except -1:
        """The forests have let them go; so do the columns."""
        cdef RawColumn column
        cdef InputState source
        cdef int64_t kept = self.kept if self.kernels else front
        for source in self.inputs:
            source.drop_to(kept)
        for column in self.raw:
            column.drop_to(front, kept)
        if self.times is not None:
            self.times.ticks.drop_to(front)
        self.front = front
        return 0

    cdef int rebuild_column(self, RawColumn column) except -1:
        """Whatever reads the column, as it has become one of another type."""
        cdef StateForest state
        cdef KernelState other
        for state in self.forests:
            if state.input.column is column:
                self.rebuild(state)
        for other in self.kernels:
            if column.name in other.state.input.columns:
                other.make(other.kernel.marks())
        return 0

    cdef int rebuild(self, StateForest state) except -1:
        """The forest of the rows inside, anew."""
        cdef RawColumn column = state.input.column
        cdef int64_t row
        cdef Cell cell
        state.make()
        state.forest.state.base = self.base
        state.forest.state.front = state.forest.state.back = self.front - self.base
        for row in range(self.front, self.back):
            cell.i = column.values.at(row)
            state.forest.insert_cell(cell, column.is_valid(row, state.input.skip_nan))
        return 0

    cdef list marks(self):
        """What the kernels' later answers depend on beside the rows inside."""
        return [list((<KernelState> state).kernel.marks()) for state in self.kernels]

    cdef int make_kernels(self, list marks) except -1:
        """Fresh ones, which go on from these marks."""
        cdef KernelState state
        for state, mine in zip(self.kernels, marks):
            state.make(mine)
        return 0

    cdef int64_t count_of(self, Answer answer, int64_t to) except -1:
        """Values that the answer counts, in the rows from the front to `to`."""
        if answer.input is None:
            return to - self.front
        return answer.input.count(self.front, to, self.back)

    cdef object wrap(self, list values):
        """One value per answer, as they are given out."""
        return values[0] if self.make_result is None else new_tuple(self.make_result, values)
