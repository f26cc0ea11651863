"""Windows larger than memory: plain sums, over rows of which only the newest and the oldest are here.

The halves of ``_fastsums.pyx``, in the same order of additions. That goes by blocks counted from the
split, so the pages of the older half are counted from there as well. Of its suffixes only those at
the edges of pages are kept, and those within the page in which the window begins. As with users'
monoids (`_paged_user`), a row is needed when it comes, when its window becomes the older half, and
when the front comes to its page.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from mta._fastsums cimport FastSumKernel, plain_prefixes, plain_suffixes
from mta._kernel cimport Counter, Kernel
from mta._sums cimport ROWS

import struct

import numpy as np

_MARKS = struct.Struct("<qqdq3d")


cdef class PagedFastSums(FastSumKernel):
    """sum and mean of floats for numerics="fast"; arguments as those of ``FastSumKernel``.

    Memory: 8 bytes for every page of the older half, and 32 a row of one page.
    """

    cdef int bits               # a page has 2^bits rows
    cdef object load            # gives rows that are not attached
    cdef int64_t tail           # rows from this one on are attached
    cdef object edges           # sums of the first 0, 1, ... pages before the split; never changed
    cdef object values          # of the rows of a page
    cdef double near[2 * ROWS]  # the rows that running sums are made of at the moment
    cdef double begun[3]        # rows from `at` on that have come, but fill no block yet
    cdef int64_t rested         # how many

    def __cinit__(self, Counter counter, wanted):
        self.bits = 11
        self.end = -1
        self.edges = np.zeros(1)

    def open_pages(self, int bits, load):
        """As that of ``PagedKernel``."""
        self.bits, self.load = max(bits, 2), load    # whole blocks of 4

    def attach(self, columns, valid, int64_t first):
        """The rows from `first` on: those that have not been inside yet, at least."""
        Kernel.attach(self, columns, valid, first)
        self.tail = first

    def take_up(self, marks, int64_t lo, int64_t hi):
        """As that of ``PagedKernel``; the mark is the split."""
        if marks and marks[0] > lo:    # else the next window chooses another one
            self.flip(lo, marks[0])

    @property
    def nbytes(self):
        """Bytes held."""
        held = 0 if self.values is None else self.values.nbytes
        return self.edges.nbytes + held + self.capacity * <int64_t> sizeof(double)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t i = start, run, stop = start + n
        cdef double* sums
        while i < stop:
            sums = self.room_for(i)
            if self.needs_halves(i, lo, hi):
                with gil:
                    self.flip(lo[i], self.cut_of(i, hi))
            if not self.origin <= lo[i] < self.end:
                with gil:
                    self.make_page(lo[i])
            run = self.run_length(lo + i, hi + i, self.end_of_cut(i, stop) - i)
            self.bring_near(hi[i], hi[i + run - 1])
            run = self.add_up(lo + i, hi + i, run, sums)
            self.rested = hi[i + run - 1] - self.at
            memcpy(self.begun, self.newer + self.at, self.rested * sizeof(double))
            self.lower(i, run, lo, hi, counts, sums)
            i += run
        return -1

    cdef bint needs_halves(self, int64_t window, const int64_t* lo, const int64_t* hi) noexcept nogil:
        if self.scan.cut == NULL:
            return lo[window] >= self.split
        return self.scan.cut[window] != self.split or hi[window] < self.at + self.rested

    cdef int flip(self, int64_t lo, int64_t split) except -1:
        """The rows [lo, split) become the older half."""
        cdef int64_t page, pages = 0 if split <= lo else (split - 1 - lo) >> self.bits
        cdef double[::1] edges
        self.split = self.at = split
        self.total, self.rested, self.end = 0.0, 0, -1
        self.edges = np.zeros(pages + 1)
        edges = self.edges
        for page in range(pages):
            self.make_page(split - ((page + 1) << self.bits))
            edges[page + 1] = self.suffix[3]
        self.end = -1
        return 0

    cdef int make_page(self, int64_t lo) except -1:
        """The suffixes from the rows from `lo` on to the end of its page."""
        cdef int64_t page = max(self.split - 1 - lo, <int64_t> 0) >> self.bits, rows
        cdef double[::1] edges = self.edges
        cdef double[::1] values
        if page >= edges.shape[0]:
            raise ValueError("the window begins before its older half")
        self.end = -1
        rows = self.split - (page << self.bits) - lo
        if self.values is None or len(self.values) < rows:
            self.values = np.empty(rows)
        values = self.values
        self.copy_rows(lo, lo + rows, &values[0] if rows else NULL)
        self.reserve(rows)
        if rows:
            plain_suffixes(&values[0], rows, edges[page], self.suffix + 3)
        self.suffix[3 + rows] = edges[page]
        self.origin, self.end = lo, lo + rows
        return 0

    cdef int bring_near(self, int64_t first, int64_t last) except -1 nogil:
        """Have the rows from `at` to `last`, after adding up all blocks that end long before `first`."""
        while first - self.at > ROWS:
            self.copy_rows(self.at, self.at + ROWS, self.near)
            self.total = plain_prefixes(self.near, ROWS, self.total, self.prefix)
            self.at += ROWS
            self.rested = 0
        self.copy_rows(self.at, last, self.near)
        self.newer = self.near - self.at
        return 0

    cdef int copy_rows(self, int64_t start, int64_t stop, double* out) except -1 nogil:
        """The values of these rows, wherever they are."""
        cdef int64_t known = min(self.at + self.rested, stop) - start
        if start == self.at and known > 0:
            memcpy(out, self.begun, known * sizeof(double))
            start, out = start + known, out + known
        if start < min(stop, self.tail):
            with gil:
                out = self.copy_pages(start, min(stop, self.tail), out)
            start = min(stop, self.tail)
        if start < stop:
            memcpy(out, &self.scan.values[start].f, (stop - start) * sizeof(double))
        return 0

    cdef double* copy_pages(self, int64_t row, int64_t stop, double* out) except NULL:
        cdef const double[::1] cells
        cdef int64_t first, end
        while row < stop:
            end = min(((row >> self.bits) + 1) << self.bits, stop)
            columns, _, first = self.load(row, end)
            cells = columns[0].view(np.float64)
            end = min(end, first + cells.shape[0])    # (where pages are less than a block)
            memcpy(out, &cells[row - first], (end - row) * sizeof(double))
            out, row = out + (end - row), end
        return out

    # ---------------------------------------------------------------------- all or nothing

    def let_go(self):
        """Nothing is kept that could go."""

    def rest(self):
        """Give back what can be made again when it is needed."""
        free(self.suffix)
        self.suffix = NULL
        self.capacity, self.end, self.values = 0, -1, None

    def save(self):
        """Where it stands: for `restore`, in this process."""
        return self.to_parts()[0], self.edges

    def restore(self, saved):
        """Stand where `save` was called."""
        marks, self.edges = saved
        self.split, self.at, self.total, self.rested, *rest = _MARKS.unpack(marks)
        for k in range(3):
            self.begun[k] = rest[k]
        self.end = -1

    def to_parts(self):
        """All that it holds, as two bytes objects: for `fill`."""
        rest = [self.begun[k] if k < self.rested else 0.0 for k in range(3)]
        marks = _MARKS.pack(self.split, self.at, self.total, self.rested, *rest)
        return marks, self.edges.tobytes()

    def fill(self, bytes saved, bytes pages):
        """What `to_parts` gave.

        Raises
        ------
        ValueError
            They are damaged, or of another kernel.
        """
        if len(saved) != _MARKS.size or not pages or len(pages) % 8:
            raise ValueError("a kernel's state has another size")
        split, at, _, rested, *_ = _MARKS.unpack(saved)
        if not -1 <= split <= at or not 0 <= rested <= 3:
            raise ValueError("a kernel's state has positions that make no sense")
        self.restore((saved, np.frombuffer(pages, np.float64).copy()))
