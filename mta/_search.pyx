"""How many of its oldest rows a window lets go where a policy decides."""
from libc.stdint cimport int64_t

from mta._core cimport MAX_LEVELS, MAX_PART, highest_bit, lowest_bit
from mta._held cimport Held
from mta._pushed cimport Answer, KernelState, StateForest

from mta.errors import PolicyError


cdef enum:
    SINGLE_STEPS = 2    # before longer ones


cdef class Decider:
    """A policy over one window: says what stays."""

    cdef int64_t decide(self, int64_t base, int64_t front, int64_t back) except -1 nogil:
        """The first of the rows [front, back) that stays; UNDECIDED."""
        self.base, self.front, self.back = base, front, back
        return self.first_kept()

    cdef int64_t first_kept(self) except -1 nogil:
        return self.front


cdef class Search(Decider):
    """The longest prefix that goes, in O(log k) questions where k rows go. Subclasses say what a
    prefix is, and ask."""

    cdef int64_t first_kept(self) except -1 nogil:
        """As `decide` says. Two questions where one row goes: most pushes drop a row or none, so
        single steps come first (MTA, combined enforcement)."""
        cdef int level, k, gone
        self.row = self.front
        self.longest = min(1, self.most)
        for k in range(SINGLE_STEPS):
            gone = self.take(0)
            if gone != 1:
                return self.row if gone == 0 and self.all_go() == 0 else UNDECIDED
        while self.row < self.back:
            level = min(self.top(), self.longest)
            self.longest = min(self.longest + 1, self.most)
            gone = self.take(level)
            if gone == 1:
                continue
            # The first row that stays lies in this node.
            while level > 0 and gone >= 0:
                level -= 1
                gone = self.take(level)
            return self.row if gone >= 0 and self.all_go() == 0 else UNDECIDED
        return self.row

    cdef int top(self) noexcept nogil:
        """Level of the largest node that starts at `row` and lies inside the window."""
        cdef int64_t position = self.row - self.base
        cdef int level = highest_bit(self.back - self.row)
        return min(level, lowest_bit(position)) if position else level

    cdef int take(self, int level) except -1 nogil:
        """Lengthen the prefix by the node of this level, if the policy then lets it go."""
        cdef int gone
        if self.row == self.back:
            return 0
        gone = self.goes(level)
        if gone == 1:
            self.accept()
            self.row += <int64_t> 1 << level
        return gone

    cdef int goes(self, int level) except -1 nogil:
        """1: the prefix and the next node of this level go; 0: they stay; UNDECIDED."""
        return 0

    cdef int accept(self) except -1 nogil:
        """That is the prefix now."""
        return 0

    cdef int all_go(self) except -1 nogil:
        """A prefix stays. 1 if the policy would let a longer one, the whole window, go: then it is
        not monotone, and has no answer."""
        return 0


cdef class PythonSearch(Search):
    """Asks a function."""

    cdef int goes(self, int level) except -1 nogil:
        with gil:
            return 1 if self.policy(self.total, self.longer(level)) else 0

    cdef object longer(self, int level):
        """The answers over the prefix and the next node of this level."""
        raise NotImplementedError

    cdef int all_go(self) except -1 nogil:
        with gil:
            return self.breach()

    cdef int breach(self) except -1:
        if self.row + 1 < self.back and self.policy(self.total, self.total):
            raise PolicyError(
                f"policy: not monotone: the oldest {self.back - self.front} rows would go, "
                f"but not the oldest {self.row + 1 - self.front}")
        return 0


cdef class WindowSearch(PythonSearch):
    """Over a pushed window: a prefix is one partial per forest."""

    def __cinit__(self, Held window, policy):
        cdef StateForest state
        cdef char* part
        self.window = window
        self.policy = policy
        self.total = window.answer_now()
        self.most = MAX_LEVELS
        self.old = bytearray(MAX_PART * len(window.forests))
        self.more = bytearray(MAX_PART * len(window.forests))
        part = self.old
        for state in window.forests:
            state.forest.ops.identity(&state.forest.state.how, part)
            part += MAX_PART

    cdef object longer(self, int level):
        cdef StateForest state
        cdef char* part = self.more
        self.more[:] = self.old
        for state in self.window.forests:
            state.forest.ops.extend(&state.forest.state, level, self.row - self.base, part)
            part += MAX_PART
        return self.answers(self.row + (<int64_t> 1 << level))

    cdef int accept(self) except -1 nogil:
        with gil:
            self.old, self.more = self.more, self.old
        return 0

    cdef object answers(self, int64_t to):
        """The answers over [front, to), from the partials in `more`."""
        cdef Answer answer
        cdef KernelState state
        cdef char* part = self.more
        cdef int64_t count
        values, made = [], []
        for state in self.window.kernels:
            # No tree over prefixes: the rows are gone through anew.
            state = KernelState(state.state, state.outputs, state.input, state.raw)
            state.slide(self.window.front, to)
            made.append(state)
        for answer in self.window.answers:
            count = self.window.count_of(answer, to)
            if count < answer.need:
                values.append(None)
            elif answer.kernel >= 0:
                values.append(answer.read(made))
            elif answer.state < 0:
                values.append(count)
            else:
                forest = (<StateForest> self.window.forests[answer.state]).forest
                values.append(answer.lower(forest, part + MAX_PART * answer.state, count))
        return self.window.wrap(values)
