"""How many of its oldest rows a pushed window lets go where a function decides."""
from libc.stdint cimport int64_t

from mta._core cimport MAX_LEVELS, MAX_PART, highest_bit, lowest_bit
from mta._held cimport Held
from mta._pushed cimport Answer, KernelState, StateForest

from mta.errors import PolicyError


cdef enum:
    SINGLE_STEPS = 2    # before longer ones


cdef class Search:
    """How far the policy lets the front go. Subclasses say what a prefix is and answers."""

    cdef int64_t first_kept(self) except -1:
        """The first row that stays: O(log n) calls of the policy, two where one row goes."""
        cdef int level, k
        # Most pushes drop a row or none, so single steps come first (MTA, combined enforcement).
        for k in range(SINGLE_STEPS):
            if not self.take(0):
                self.check_monotone()
                return self.row
        while self.row < self.back:
            level = min(self.top(), self.longest)
            self.longest = min(self.longest + self.growth, MAX_LEVELS)
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
        cdef int64_t position = self.row - self.base
        cdef int level = highest_bit(self.back - self.row)
        return min(level, lowest_bit(position)) if position else level

    cdef bint take(self, int level) except -1:
        """Lengthen the prefix by the node of this level, if the policy then lets it go."""
        if self.row == self.back or not self.policy(self.total, self.longer(level)):
            return False
        self.accept()
        self.row += <int64_t> 1 << level
        return True

    cdef object longer(self, int level):
        """The answers over the prefix and the next node of this level."""
        raise NotImplementedError

    cdef int accept(self) except -1:
        """That is the prefix now."""
        raise NotImplementedError

    cdef int check_monotone(self) except -1:
        """A prefix stays; if a longer one, the whole window, would go, the policy has no answer."""
        if self.row + 1 < self.back and self.policy(self.total, self.total):
            raise PolicyError(
                f"policy: not monotone: the oldest {self.back - self.front} rows would go, "
                f"but not the oldest {self.row + 1 - self.front}")
        return 0


cdef class WindowSearch(Search):
    """Over a pushed window: a prefix is one partial per forest."""

    def __cinit__(self, Held window, policy):
        cdef StateForest state
        cdef char* part
        self.window = window
        self.policy = policy
        self.total = window.answer_now()
        self.base, self.front, self.back = window.base, window.front, window.back
        self.row = window.front
        # A prefix costs kernels its length, so that none is far longer than what goes.
        self.growth = 1 if window.kernels else 0
        self.longest = 1 if window.kernels else MAX_LEVELS
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

    cdef int accept(self) except -1:
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
