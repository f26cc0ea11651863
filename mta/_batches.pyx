"""Long arrays pushed into windows: the answers of forests by the kernels of a batch.

A forest is a function of the rows inside alone. So while an array of rows goes by, the answers may be
those of the kernel that `rolling` has for the same monoid, where these are the forest's to the last
bit: compensated sums of floats, which associate as it does, and extremes and sums of integers, which
are exact. They take a fraction of the time, as they work on several rows at once. When the array has
gone by, the forest takes in what is inside then (`forest_fill`).
"""
from libc.stdint cimport int64_t

from mta._core cimport CHUNK, forest_restart
from mta._inside cimport InputState
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport FLOAT, MEAN
from mta._pushed cimport Answer, StateForest
from mta._vector cimport Vector

import numpy as np

from mta._extremes import ExtremesKernel
from mta._sum_blocks import CompensatedSumKernel
from mta._widesums import WideSumKernel


cdef class Batches:
    """The kernels that answer for some of the forests, which stand still until `end`.

    One kernel of float sums serves all columns, one after the other: with the row that positions are
    counted from it can go on anywhere, for 1/16 combine per row inside. Memory: 4 bytes a row of the
    window, and 170 KB; of extremes 16 bytes a row.
    """

    cdef bint takes(self, int number) except -1:
        return number in self.mine

    cdef int answer(self, int number, const int64_t* lo, const int64_t* hi, int64_t start, int64_t stop,
                    int64_t most, int64_t base, int64_t back) except -1:
        """The answers start..stop of a forest. Positions are counted from `base`, and the rows before
        `back` were there when `start` came.

        most : rows that the policy keeps, if it is that: a window that has them keeps its length
        """
        cdef StateForest state = self.forests[number]
        cdef InputState source = state.input
        cdef list mine = self.mine[number]
        cdef Kernel kernel = self.kernel_of(state, mine)
        cdef Vector rows = source.column.values_for(source.skip_nan)
        cdef int64_t[2] marks
        cdef int64_t i = start, n
        kernel.answer_to([values for _, values in mine])
        kernel.counter.attach(None if source.mask is None else source.mask.view(), source.column.values.first)
        kernel.attach([rows.view()], None if source.mask is None else source.mask.view(), rows.first)
        if kernel.tell(marks, 0) == 2:
            marks[0], marks[1] = base, back
            kernel.go_on(marks, 0)
        with nogil:
            while i < stop:
                n = min(<int64_t> CHUNK, stop - i)
                kernel.scan.steady = kernel.counter.steady = hi[i] - lo[i] == most
                kernel.counter.step(i, n, lo, hi)
                kernel.step(i, n, lo, hi)
                i += n
        return 0

    cdef Kernel kernel_of(self, StateForest state, list mine):
        cdef Kernel kernel
        cdef bint real = state.forest.state.how.source == FLOAT
        names = tuple([name for name, _ in mine])
        if state.forest.monoid != "sum":
            wanted = [(state.forest.monoid, 0)] * len(mine)
            return ExtremesKernel(Counter([]), state.forest.monoid, state.forest.source, state.forest.nan, wanted)
        if not real:
            return WideSumKernel(Counter([]), state.forest.source, [(name, 0) for name in names], "raise")
        kernel = self.kernels.get(names)
        if kernel is None:
            kernel = CompensatedSumKernel(Counter([]), [(name, 0) for name in names])
            self.kernels[names] = kernel
        return kernel

    cdef int end(self, int64_t front, int64_t back, int64_t base) except -1:
        """The array has gone by: the forests hold the rows [front, back)."""
        cdef StateForest state
        for number in self.mine:
            state = self.forests[number]
            if state.forest.state.base != base:
                forest_restart(&state.forest.state, base)
            state.forest.ops.fill(&state.forest.state, state.cells(), state.mask(), front, back, NULL)
        return 0


cdef Batches make_batches(list forests, list answers, list rooms):
    """For the forests whose answers kernels give to the last bit.

    answers, rooms : of the window; the arrays that they go to
    """
    cdef Batches made = Batches()
    cdef StateForest state
    cdef Answer answer
    made.forests, made.kernels, made.mine = forests, {}, {}
    for number, state in enumerate(forests):
        if state.forest.monoid in ("sum", "min", "max"):
            made.mine[number] = []
    for answer, room in zip(answers, rooms):
        if answer.state in made.mine:
            made.mine[answer.state].append(("mean" if answer.what == MEAN else "sum", room))
    return made
