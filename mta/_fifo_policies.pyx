"""What `Fifo` asks its policies with, and how it lowers the answers of a chunk of values."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from mta._core cimport CHUNK, MAX_LEVELS, MAX_PART, ForestOps, Lowering
from mta._fifo_state cimport FifoState
from mta._fifo_values cimport FifoValues
from mta._monoids cimport INT, MEAN, SUM, IntSum, Lift
from mta._pushed cimport RAISE, WRAP

import numpy as np


cdef class Lowered:
    """Partials of a chunk of answers, and where these go."""

    def __cinit__(self, FifoValues fifo, out, counts):
        cdef const int64_t[::1] view
        cdef bint whole = fifo.plan_state is None or fifo.answer.overflow == RAISE
        self.fifo, self.out = fifo, out
        self.wrap = not whole and fifo.answer.overflow == WRAP
        self.lowering = Lowering([("sum", 0)])
        self.lowering.answer_to([np.asarray(out)])
        counted = fifo.plan_state is None and fifo.cells is None
        self.lowering.wanted[0].what = SUM if counted else fifo.answer.what
        self.lowering.wanted[0].ddof = fifo.answer.ddof
        self.counts = counts
        if not whole and not self.wrap:
            self.lowering.wanted[0].what = MEAN    # of one: the nearest double of the sum
            self.counts = np.ones(len(out), np.int64)
        view = self.counts
        self.count = &view[0] if view is not None and view.shape[0] else NULL
        self.parts = <char*> malloc(CHUNK * fifo.ops.size)
        if self.parts == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.parts)

    cdef int64_t lower(self, int64_t start, int64_t n) noexcept nogil:
        """The answers start..start + n; the first that does not fit, or -1."""
        cdef int64_t i
        if self.wrap and self.fifo.monoid.state.how.source == INT:
            for i in range(n):
                self.out[start + i] = <int64_t> (<IntSum*> self.parts)[i].value
            return -1
        return self.lowering.run(self.fifo.monoid.ops, &self.fifo.monoid.state.how, self.parts, start, n,
                                 self.count, self.count, self.count)


cdef class FifoGuide(Guide):
    """The one monoid of a Fifo, as policies see it."""

    def __cinit__(self, FifoValues fifo):
        self.fifo = fifo
        self.monoids = 1
        self.tree = fifo.ops != NULL and fifo.ops.tree
        self.restores = fifo.algorithm in ("LogMTA", "AMTA")
        if fifo.monoid is not None:
            self.ask([fifo.answer])

    cdef const Lift* how(self, int monoid) noexcept nogil:
        return &self.fifo.state.how

    cdef const ForestOps* ops(self, int monoid) noexcept nogil:
        return self.fifo.monoid.ops

    cdef int query(self, int monoid, void* out) except -1 nogil:
        return self.fifo.ops.query(&self.fifo.state, out, NULL)

    cdef int extend(self, int monoid, int level, int64_t row, void* out) except -1 nogil:
        return self.fifo.ops.extend(&self.fifo.state, level, row, out, NULL)

    cdef int evict_to(self, int monoid, int64_t front) except -1 nogil:
        self.fifo.ops.evict_to(&self.fifo.state, front, NULL, NULL)
        self.fifo.first_null = self.fifo.null_from(front)    # `count` goes by it
        return 0

    cdef int restore(self, int monoid, int64_t front) except -1 nogil:
        cdef FifoState* s = &self.fifo.state
        self.fifo.monoid.ops.resize(&s.forest, front - s.forest.base, s.back - s.forest.base, NULL)
        s.front = front
        return 0

    cdef int64_t count(self, int answer, int64_t front, int64_t to) except -1 nogil:
        return self.fifo.count_to(to)


cdef class FifoSearch(PythonSearch):
    """How far a policy lets the front of a Fifo go."""

    def __cinit__(self, FifoValues fifo, policy, total):
        cdef FifoState* s = &fifo.state
        self.fifo = fifo
        self.policy = policy
        self.total = total
        self.most = MAX_LEVELS if fifo.ops.tree else 0
        self.old, self.more = bytearray(MAX_PART), bytearray(MAX_PART)
        fifo.monoid.ops.identity(&s.how, <char*> self.old)

    cdef object longer(self, int level):
        cdef char* part = self.more
        self.more[:] = self.old
        self.extend(level, part)
        return self.fifo.lower(part, self.fifo.count_to(self.row + (<int64_t> 1 << level)))

    cdef int extend(self, int level, void* part) except -1:
        """Append the node of this level that starts at `row`."""
        return self.fifo.ops.extend(&self.fifo.state, level, self.row, part, NULL)

    cdef int accept(self) except -1 nogil:
        with gil:
            self.old, self.more = self.more, self.old
        return 0
