"""Many rows pushed at once into a window whose policy needs no Python (``_decide.pyx``).

The rows of a block come to the columns; then, row by row, every forest takes the row in, the policy
decides, every forest lets the oldest rows go, and its partial is kept. The partials are lowered, and
kernels step, when the block is done. A row that the policy can't decide is taken out again, with those
below it, and pushed by itself.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

from mta._core cimport ForestOps, ForestState, forest_restart
from mta._held cimport Held
from mta._inside cimport InputState, RawColumn
from mta._many cimport Slots, answer_kernels, lower_answers, make_slots, settle_types, take_in
from mta._monoids cimport Cell, Lift
from mta._pushed cimport Answer, StateForest
from mta._search cimport UNDECIDED, Decider

import numpy as np

cdef enum:
    FEWEST = 16      # rows of a block after one that only Python could decide,
    BLOCK = 4096     # and of the largest one
    STEP = 256       # rows whose partials are kept until they are lowered


cdef class ForestsGuide(Guide):
    """The forests of a pushed window. `bind` before every use: they may have been made anew."""

    def __cinit__(self, Held window):
        cdef size_t n = len(window.forests) + 1
        self.window = window
        self.monoids = len(window.forests)
        self.tree = self.restores = True
        self.state = <ForestState**> calloc(n, sizeof(void*))
        self.table = <ForestOps**> calloc(n, sizeof(void*))
        self.counts = <Counts*> calloc(len(window.answers) + 1, sizeof(Counts))
        if self.state == NULL or self.table == NULL or self.counts == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.state)
        free(self.table)
        free(self.counts)

    cdef int bind(self) except -1:
        """The forests and counts as they are now; all rows are in the columns."""
        cdef StateForest forest
        cdef Answer answer
        cdef InputState source
        self.base = self.window.base
        for k, forest in enumerate(self.window.forests):
            self.state[k], self.table[k] = &forest.forest.state, forest.forest.ops
        for k, answer in enumerate(self.window.answers):
            source = answer.input
            self.counts[k].before = NULL
            if source is not None and source.before is not None:
                self.counts[k].before = <const int64_t*> source.before.origin()
                self.counts[k].seen = source.seen
                self.counts[k].end = source.before.first + len(source.before)
        return self.ask(self.window.answers)

    cdef const Lift* how(self, int monoid) noexcept nogil:
        return &self.state[monoid].how

    cdef const ForestOps* ops(self, int monoid) noexcept nogil:
        return self.table[monoid]

    cdef int query(self, int monoid, void* out) except -1 nogil:
        return self.table[monoid].query(self.state[monoid], out)

    cdef int extend(self, int monoid, int level, int64_t row, void* out) except -1 nogil:
        return self.table[monoid].extend(self.state[monoid], level, row - self.base, out)

    cdef int evict_to(self, int monoid, int64_t front) except -1 nogil:
        return self.table[monoid].evict_to(self.state[monoid], front - self.base, NULL)

    cdef int restore(self, int monoid, int64_t front) except -1 nogil:
        cdef ForestState* s = self.state[monoid]
        return self.table[monoid].resize(s, front - self.base, s.back, NULL)

    cdef int64_t count(self, int answer, int64_t front, int64_t to) except -1 nogil:
        cdef const Counts* c = &self.counts[answer]
        if c.before == NULL:
            return to - front
        return ((c.before[to] if to < c.end else c.seen)
                - (c.before[front] if front < c.end else c.seen))


cdef class Rows:
    """The forests of a window, while rows of a block go through them."""

    def __cinit__(self, ForestsGuide guide, Decider decider):
        cdef size_t n = guide.monoids + 1
        self.window, self.guide, self.decider = guide.window, guide, decider
        self.part = <char**> calloc(n, sizeof(void*))
        self.cells = <const int64_t**> calloc(n, sizeof(void*))
        self.masks = <const uint8_t**> calloc(n, sizeof(void*))
        if self.part == NULL or self.cells == NULL or self.masks == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.part)
        free(self.cells)
        free(self.masks)

    cdef int bind(self) except -1:
        """All rows of the block are in the columns."""
        cdef StateForest state
        cdef char[::1] view
        self.guide.bind()
        self.parts = []
        for k, state in enumerate(self.window.forests):
            self.parts.append(np.empty(STEP * self.guide.table[k].size, np.int8))
            view = self.parts[k]
            self.part[k] = &view[0]
            self.cells[k] = <const int64_t*> state.cells()
            self.masks[k] = state.mask()
        self.front, self.base = self.window.front, self.window.base
        return 0

    cdef int64_t run(self, int64_t row, int64_t start, int64_t stop, int64_t* lo) except -1 nogil:
        """Push the rows from `row` on, which are the places start..stop of the arrays. The place that
        was not decided, or `stop`."""
        cdef int64_t place, front
        cdef int k
        for place in range(start, stop):
            self.insert(row)
            front = self.decider.decide(self.base, self.front, row + 1)
            if front == UNDECIDED:
                self.retract(row)
                return place
            if front > self.front:
                for k in range(self.guide.monoids):
                    self.guide.evict_to(k, front)
            self.front = lo[place] = front
            self.keep_parts(place - start)
            row += 1
        return stop

    cdef int insert(self, int64_t row) except -1 nogil:
        cdef Cell cell
        cdef int k
        if self.front == row:    # an empty window counts positions anew
            self.base = self.guide.base = row
            for k in range(self.guide.monoids):
                forest_restart(self.guide.state[k], row)
        for k in range(self.guide.monoids):
            cell.i = self.cells[k][row]
            self.guide.table[k].insert(self.guide.state[k], cell,
                                       self.masks[k] == NULL or self.masks[k][row] != 0, NULL)
        return 0

    cdef int retract(self, int64_t row) except -1 nogil:
        cdef int k
        for k in range(self.guide.monoids):
            self.guide.table[k].resize(self.guide.state[k], self.front - self.base, row - self.base, NULL)
        return 0

    cdef int keep_parts(self, int64_t place) except -1 nogil:
        cdef int k
        for k in range(self.guide.monoids):
            self.guide.query(k, self.part[k] + place * <int64_t> self.guide.table[k].size)
        return 0


cdef object decide_arrays(Held window, Decider decider, ForestsGuide guide, given, int64_t rows, push_one):
    """The answers after each of the rows, as a list of arrays.

    given : what `plain_arrays` gives
    push_one : pushes the row at a place by itself, and gives its answers
    """
    cdef Rows state = Rows(guide, decider)
    cdef Slots slots
    cdef int64_t start = 0, stop, block = BLOCK
    cdef int64_t[::1] lo = np.empty(rows, np.int64), hi = np.arange(window.back + 1, window.back + rows + 1)
    plain = given[0]
    settle_types(window, plain)
    out = make_slots(window, rows)
    while start < rows:
        stop = min(start + block, rows)
        take_in(window, plain, start, stop, None)
        start = decide_block(window, state, out, lo, hi, start, stop)
        block = min(2 * block, <int64_t> BLOCK)
        if start < stop:
            answers = push_one(start)
            for slots, answer in zip(out, answers):
                slots.put(start, answer)
            start, block = start + 1, FEWEST
    return [(<Slots> slots).answers() for slots in out]


cdef int64_t decide_block(Held window, Rows state, list out, int64_t[::1] lo, int64_t[::1] hi,
                          int64_t start, int64_t stop) except -1:
    """Push the places start..stop of the arrays, which the columns hold; the first that was not decided,
    which they hold no more, or `stop`."""
    cdef int64_t begun = start, step, end, back = window.back
    counts = np.empty(STEP, np.int64)
    state.bind()
    end = step = start
    while end == step and end < stop:
        start, step = end, min(end + STEP, stop)
        with nogil:
            end = state.run(back + start - begun, start, step, &lo[0])
        if end == start:
            break
        for number in range(-1, len(window.forests)):
            lower_answers(window, out, number, &lo[start], &hi[start], start, end - start,
                          state.part[number] if number >= 0 else NULL, counts)
        answer_kernels(window, out, &lo[start], &hi[start], start, end - start)
    take_out(window, stop - end)
    window.back += end - begun
    window.base = state.base
    if end > begun:
        window.kept = lo[end - 1]
        window.evict_to(lo[end - 1])
    return end


cdef int take_out(Held window, int64_t rows) except -1:
    """The newest rows leave the columns."""
    cdef RawColumn column
    cdef InputState source
    cdef int64_t i
    for i in range(rows):
        for source in window.inputs:
            source.retract()
        for column in window.raw:
            column.retract()
    return 0
