"""How many of its oldest rows a pushed window lets go where a function decides."""
from libc.stdint cimport int64_t

from mta._core cimport MAX_PART, highest_bit, lowest_bit
from mta._held cimport Held
from mta._pushed cimport Answer, KernelState, StateForest

from mta.errors import PolicyError


cdef enum:
    SINGLE_STEPS = 2    # before longer ones


cdef class Search:
    """How far the policy lets the front go: the prefix so far, as one partial per forest."""

    def __cinit__(self, Held window, policy):
        cdef StateForest state
        cdef char* part
        self.window = window
        self.policy = policy
        self.total = window.answer_now()
        self.row = window.front
        self.old = bytearray(MAX_PART * len(window.forests))
        self.more = bytearray(MAX_PART * len(window.forests))
        part = self.old
        for state in window.forests:
            state.forest.ops.identity(&state.forest.state.how, part)
            part += MAX_PART

    cdef int64_t first_kept(self) except -1:
        """The first row that stays: O(log n) calls of the policy, two where one row goes."""
        cdef int level, k, reach = 1
        # Most pushes drop a row or none, so single steps come first (MTA, combined enforcement).
        for k in range(SINGLE_STEPS):
            if not self.take(0):
                self.check_monotone()
                return self.row
        while self.row < self.window.back:
            level = self.top()
            if self.window.kernels:
                # A prefix costs its length there, so none is far longer than what goes.
                level = min(level, reach)
                reach += 1
            if self.take(level):
                continue
            # The first row that stays lies in this node.
            while level > 0:
                level -= 1
                self.take(level)
            self.check_monotone()
            break
        return self.row

    cdef int top(self) noexcept:
        """Level of the largest node that starts at `row` and lies inside the window."""
        cdef int64_t position = self.row - self.window.base
        cdef int level = highest_bit(self.window.back - self.row)
        return min(level, lowest_bit(position)) if position else level

    cdef bint take(self, int level) except -1:
        """Lengthen the prefix by the node of this level, if the policy then lets it go."""
        cdef StateForest state
        cdef Held window = self.window
        cdef char* part = self.more
        if self.row == window.back:
            return False
        self.more[:] = self.old
        for state in window.forests:
            state.forest.ops.extend(&state.forest.state, level, self.row - window.base, part)
            part += MAX_PART
        if not self.policy(self.total, self.answers(self.row + (<int64_t> 1 << level))):
            return False
        self.old, self.more = self.more, self.old
        self.row += <int64_t> 1 << level
        return True

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

    cdef int check_monotone(self) except -1:
        """A prefix stays; if a longer one, the whole window, would go, the policy has no answer."""
        if self.row + 1 < self.window.back and self.policy(self.total, self.total):
            raise PolicyError(
                f"policy: not monotone: the oldest {self.window.back - self.window.front} rows would go, "
                f"but not the oldest {self.row + 1 - self.window.front}")
        return 0
