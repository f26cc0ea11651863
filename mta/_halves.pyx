"""Batch kernels whose window is two halves, for any partial that is exact far beyond its answers.

The older half ends at the last value of the window that it was made from, and is kept as partials
of [row, split); the newer half is one running partial that rows join as they come. An answer is
lowered from one join of the two; rows that leave take nothing with them but their own partial, so
nothing that was inside leaves a trace. When the older half is used up, the window becomes it.

Partials are sums around the value before the split: it is in every window that the split serves, so
nothing is ever moved from one value to another (``docs/adr/0002``). Both halves are added up row by
row, outwards from the split. Hence the doubles depend on the split and on the values inside, and
on nothing else; the split is what ``marks`` tells. Where bounds cut windows, the split is after the
last value before the cut; or where there is none, after the first value of all.

Cost: each row joins two running partials, or three where the window is longer than a page, and one
join and one lowering per window. Memory: a page of partials and one for every further page of the
window, however long that is.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from mta._arrays cimport items_of
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport Cell

import numpy as np


cdef enum:
    PAGE = 1024     # rows whose partials are at hand: at most 100 KB, so they stay in the L2 cache


cdef class HalvesKernel(Kernel):
    """One monoid as two halves.

    counter : of the same input
    """

    def __cinit__(self):
        self.split = self.last = self.page_end = -1

    def __dealloc__(self):
        free(self.edges)
        free(self.page)
        free(self.newer)
        free(self.parts)

    cdef int reserve(self, size_t size) except -1:
        self.size = size
        self.page = <char*> malloc(PAGE * size)
        self.newer = <char*> malloc(size)
        self.parts = <char*> malloc(RUN * size)
        if self.page == NULL or self.newer == NULL or self.parts == NULL:
            raise MemoryError()
        return 0

    cdef int ask(self, wanted, names) except -1:
        """wanted : list of (name, option), one per answer; names : the number of each name"""
        if len(wanted) > MAX_OUTPUTS:
            raise ValueError("too many answers of one input")
        self.n = len(wanted)
        for k, (name, option) in enumerate(wanted):
            if name not in names:
                raise ValueError(f"{name!r} is none of {', '.join(names)}")
            self.what[k], self.option[k] = names[name], option
        return 0

    def answer_to(self, arrays):
        cdef int64_t n
        cdef int k = 0
        self.answers = arrays
        for array in arrays:
            self.out[k] = <Cell*> items_of(array, sizeof(Cell), &n, True)
            k += 1

    cdef int tell(self, int64_t* marks, int64_t shift) noexcept nogil:
        """The row that splits the window: what is left and right of it is added up apart."""
        marks[0] = self.split - shift
        return 1

    cdef int go_on(self, const int64_t* marks, int64_t shift) noexcept nogil:
        self.split = marks[0] + shift
        self.page_end = -1
        self.marked = True
        return 0

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t i = start, end = start + n, stop, last, failed
        self.scan.lo = lo
        self.scan.hi = hi
        while i < end:
            if self.is_used_up(i, lo):
                self.choose_split(lo[i], hi[i], self.cut_of(i, hi))
                self.make_edges(lo[i])
            elif self.marked:
                self.make_edges(lo[i])
            stop = i + 1
            if lo[i] >= self.split:    # no value inside
                self.clear(self.parts)
                self.counts[0] = 0.0
                failed = self.lower_all(i, 1)
            else:
                if lo[i] >= self.page_end:
                    self.turn_to(lo[i])
                last = self.end_of_cut(i, min(end, i + RUN))
                while stop < last and lo[stop] < self.page_end:
                    stop += 1
                failed = self.serve(i, stop - i, counts)
            if failed >= 0:
                return failed
            i = stop
        return -1

    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil:
        cdef int64_t i
        for i in range(n if self.scan.cut == NULL else 0):
            if lo[i] >= self.split:
                self.choose_split(lo[i], hi[i], hi[i])
        self.page_end = -1
        self.marked = True
        return 0

    cdef void choose_split(self, int64_t lo, int64_t hi, int64_t cut) noexcept nogil:
        """The window [lo, hi) up to its last value before the cut becomes the older half. Nulls that are
        known are not looked at again, so that a long stretch of them costs O(1) a row."""
        cdef int64_t split = self.split_at(cut, max(lo, self.blank), hi)
        self.blank = hi if split < 0 else 0
        self.split = lo if split < 0 else split
        self.cut = cut

    cdef int make_edges(self, int64_t lo) except -1 nogil:
        """The partial of every page of [lo, split) and what follows it, but for the first page."""
        cdef int64_t pages = (self.split - lo + PAGE - 1) // PAGE, p, end = self.split
        self.marked = False
        self.last = self.page_end = self.split
        self.clear(self.newer)
        if pages == 0:
            return 0
        if pages > self.room:
            free(self.edges)
            self.room = 2 * pages
            self.edges = <char*> malloc(self.room * self.size)
            if self.edges == NULL:
                self.room = 0
                with gil:
                    raise MemoryError(f"a window of {self.split - lo} rows")
        self.around(self.split - 1)
        self.clear(self.edges)
        for p in range(1, pages):
            memcpy(self.edges + p * self.size, self.edges + (p - 1) * self.size, self.size)
            self.left(end - PAGE, end, self.edges + p * self.size, NULL)
            end -= PAGE
        self.turn_to(lo)
        return 0

    cdef void turn_to(self, int64_t lo) noexcept nogil:
        """Make the partials of [row, split) for the rows from `lo` to the end of its page."""
        cdef int64_t p = (self.split - 1 - lo) // PAGE
        cdef char* part = self.parts    # not in use between two runs
        self.front = lo
        self.page_end = self.split - p * PAGE
        memcpy(part, self.edges + p * self.size, self.size)
        self.left(lo, self.page_end, part, self.page)

    cdef int64_t serve(self, int64_t i, int64_t n, const int64_t* counts) noexcept nogil:
        """Answer windows that begin in the page at hand."""
        cdef const int64_t* lo = self.scan.lo
        cdef const int64_t* hi = self.scan.hi
        cdef int64_t j
        self.slide(lo + i, hi + i, n, self.page - self.front * <int64_t> self.size)
        self.last = max(self.last, hi[i + n - 1])
        for j in range(n):
            self.counts[j] = <double> (counts[i + j] if counts != NULL else hi[i + j] - lo[i + j])
        return self.lower_all(i, n)

    cdef int64_t lower_all(self, int64_t window, int64_t n) noexcept nogil:
        """Every answer of n windows; the first that does not fit its type, or -1."""
        cdef int64_t failed
        cdef int k
        for k in range(self.n):
            failed = self.lower(self.what[k], self.option[k], self.parts, n, self.out[k] + window)
            if failed >= 0:
                return window + failed
        return -1

    def merged(self, program):
        """The answers of attached rows that are combined in any order: a check of the monoid.

        program : row numbers, each of which is lifted, and -1, which combines the last two partials
        """
        cdef char[::1] stack = np.zeros((len(program) + 1) * self.monoid_size(), np.int8)
        cdef size_t size = self.monoid_size(), top = 0
        cdef double count = 0
        cdef int64_t row
        cdef Cell out
        for row in program:
            if row >= 0:
                self.lift(&stack[top * size], row)
                count += self.scan.valid == NULL or self.scan.valid[row]
                top += 1
            else:
                top -= 1
                self.combine(&stack[(top - 1) * size], &stack[(top - 1) * size], &stack[top * size])
        answers = np.empty(self.n)
        cdef double[::1] view = answers
        self.counts[0] = count
        for k in range(self.n):
            if self.lower(self.what[k], self.option[k], self.sums(&stack[0]), 1, &out) >= 0:
                raise OverflowError("an answer does not fit")
            view[k] = out.f
        return answers

    # ------------------------------------------------------------------ what subclasses replace

    cdef void around(self, int64_t row) noexcept nogil:
        """Partials are from now on around the value of this row."""

    cdef void clear(self, void* part) noexcept nogil:
        """The partial of no row."""

    cdef void left(self, int64_t lo, int64_t hi, void* part, void* out) noexcept nogil:
        """part becomes the rows [lo, hi) and then itself; out[i], if any, that from lo + i on."""

    cdef void slide(self, const int64_t* lo, const int64_t* hi, int64_t n, const void* suffix) noexcept nogil:
        """`newer` goes on from `last` to each end in turn; parts[i] is suffix[lo[i]] and it."""

    cdef int64_t lower(self, int what, int64_t option, const void* parts, int64_t n, Cell* out) noexcept nogil:
        """One answer of every partial, of counts[i] values; the first that does not fit, or -1."""
        return -1

    cdef size_t monoid_size(self) noexcept nogil:
        return self.size

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        pass

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        pass

    cdef const void* sums(self, const void* part) noexcept nogil:
        return part

    cdef void begin(self, void* part) noexcept nogil:
        """A partial around where sums are at present, whose sums are yet to be added up."""
        self.clear(part)

    cdef void count(self, void* part, int64_t n) noexcept nogil:
        """Its sums are those of n values."""

    cdef void prepend(self, void* part, const void* older) noexcept nogil:
        """part becomes `older` and then itself; it stays around the same."""
        self.combine(part, older, part)

    cdef void tell_origin(self, Cell* to) noexcept nogil:
        """What sums are around at present, as ORIGIN cells."""

    cdef void go_to_origin(self, const Cell* told) noexcept nogil:
        """Sums are around that again."""


cdef void column_origin(const Column* column, Cell* to) noexcept nogil:
    to[0].f, to[1].i = column.k, column.ki


cdef void set_column_origin(Column* column, const Cell* told) noexcept nogil:
    column.k, column.ki = told[0].f, told[1].i


cdef int bind_column(Column* column, const Cell* values, str source) except -1:
    """The column's rows; its k stays."""
    if source == "float":
        column.f = &values.f if values != NULL else NULL
    else:
        column.i = &values.i if values != NULL else NULL
        column.flip = <int64_t> 1 << 63 if source == "uint" else 0
    return 0
