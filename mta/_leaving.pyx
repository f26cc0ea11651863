"""Windows larger than memory: sums from which the rows that leave can be subtracted exactly.

A row is looked at twice, when it comes and when it leaves, and nothing but the sum is kept (SlideM,
2013, §3: expiring rows). Rows that leave are read a page at a time.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport NAN, isfinite
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from mta._core cimport Lowering
from mta._exact cimport int128, int128_from_u64
from mta._kernel cimport Counter, Kernel, Scan
from mta._monoids cimport SUM, Cell
from mta._sums cimport (
    RUN, Odd, Superaccumulator, any_odd, count_odd, nearest, nearest_quotient, odd_sum, super_add,
    super_clear, super_init, super_leading,
)
from mta._widesums cimport WideSumKernel

import numpy as np

from mta._sums import check_wanted


cdef class Pages:
    """Rows of one column, wherever they are: what a sum reads.

    bits : 2^bits rows are read at a time
    load : ``load(start, stop)`` gives (columns, valid, first): arrays that hold these rows, of which item 0
        is row `first`
    """

    def __cinit__(self, int bits, load):
        self.bits, self.load = bits, load

    cdef int read(self, int64_t row) except -1:
        """Its page, as far as it is not attached."""
        cdef int64_t stop = min(((row >> self.bits) + 1) << self.bits, self.tail)
        cdef const int64_t[::1] raw
        cdef const uint8_t[::1] marks
        columns, valid, first = self.load(row, stop)
        raw, marks = columns[0].view(np.int64), valid
        self.owner = raw, valid
        self.rows.values = <const Cell*> (&raw[0] - <int64_t> first)
        self.rows.valid = &marks[0] - <int64_t> first if valid is not None else NULL
        self.first, self.end = row, stop
        return 0

    cdef void drop(self) noexcept:
        """The page at hand is read again when it is needed."""
        self.owner, self.end = None, self.first

    cdef const Scan* at(self, int64_t row, int64_t* end) except NULL nogil:
        """Rows that were read, by number, this one among them, and before which they end."""
        if not self.first <= row < self.end:
            with gil:
                self.read(row)
        end[0] = self.end
        return &self.rows


cdef class LeavingKernel(Kernel):
    """One sum, of the rows [first, last); subclasses say of what.

    A window that jumps over all its rows reads none of them.
    """

    def __cinit__(self):
        self.last = -1

    def open_pages(self, int bits, load):
        """As that of ``PagedKernel``."""
        self.pages = Pages(bits, load)

    def attach(self, columns, valid, int64_t first):
        """The rows from `first` on: those that have not been inside yet, at least."""
        Kernel.attach(self, columns, valid, first)
        self.pages.tail = first

    def take_up(self, marks, int64_t lo, int64_t hi):
        """As that of ``PagedKernel``; the next window is added up from its first row on."""

    @property
    def nbytes(self):
        """Bytes held."""
        return self.size

    cdef int move(self, int64_t lo, int64_t hi) except -1 nogil:
        """Make the window [lo, hi); neither ever falls."""
        cdef const Scan* rows
        cdef int64_t row = self.first, end
        if lo >= self.last:
            self.clear()
            self.last = lo
        else:
            while row < lo:
                rows, end = &self.scan, lo
                if row < self.pages.tail:
                    rows = self.pages.at(row, &end)
                self.add(rows, row, min(end, lo), -1)
                row = min(end, lo)
        self.first = lo
        if hi > self.last:
            self.add(&self.scan, self.last, hi, 1)
            self.last = hi
        return 0

    cdef int clear(self) except -1 nogil:
        """The sum of nothing."""
        return 0

    cdef int add(self, const Scan* rows, int64_t start, int64_t stop, int64_t sign) except -1 nogil:
        """These rows come in (1), or leave (-1)."""
        return 0

    def let_go(self):
        """Nothing is kept that could go."""

    def rest(self):
        """Give back what can be made again when it is needed."""
        self.pages.drop()

    def save(self):
        """Where it stands, as bytes: for `restore`."""
        cdef int64_t[2] at
        at[0], at[1] = self.first, self.last
        return (PyBytes_FromStringAndSize(<const char*> at, sizeof(at))
                + PyBytes_FromStringAndSize(<const char*> self.sum, self.size))

    def restore(self, bytes saved):
        """Stand where `save` was called."""
        cdef int64_t[2] at
        if len(saved) != <Py_ssize_t> (sizeof(at) + self.size):
            raise ValueError("a kernel's state has another size")
        memcpy(at, PyBytes_AS_STRING(saved), sizeof(at))
        memcpy(self.sum, PyBytes_AS_STRING(saved) + sizeof(at), self.size)
        self.first, self.last = at[0], at[1]

    def to_parts(self):
        """All that it holds, as two bytes objects: for `fill`."""
        return self.save(), b""

    def fill(self, bytes saved, bytes pages):
        """What `to_parts` gave.

        Raises
        ------
        ValueError
            They are damaged, or of another kernel.
        """
        self.restore(saved)


cdef class LeavingInts(LeavingKernel):
    """sum and mean of integers, in 128 bits; arguments as those of ``WideSumKernel``, which lowers."""

    cdef WideSumKernel lowering
    cdef int128 total

    def __cinit__(self, Counter counter, str source, wanted, str overflow):
        self.lowering = WideSumKernel(counter, source, wanted, overflow)
        self.sum, self.size = &self.total, sizeof(int128)

    def __init__(self, Counter counter, str source, wanted, str overflow):
        Kernel.__init__(self, counter)

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t i = start, run, j, failed = -1
        self.lowering.scan.lo, self.lowering.scan.hi = lo, hi
        self.lowering.least = self.least
        while i < start + n and failed < 0:
            run = min(start + n - i, <int64_t> RUN)
            for j in range(run):
                self.move(lo[i + j], hi[i + j])
                self.lowering.sums[j] = self.total
            failed = self.lowering.lower(i, run, self.counter.counts_from(start))
            i += run
        return failed

    cdef int clear(self) except -1 nogil:
        self.total = 0
        return 0

    cdef int add(self, const Scan* rows, int64_t start, int64_t stop, int64_t sign) except -1 nogil:
        cdef const Cell* values = rows.values
        cdef int64_t row
        if self.lowering.unsigned:
            for row in range(start, stop):
                self.total += sign * int128_from_u64(<uint64_t> values[row].i)
        else:
            for row in range(start, stop):
                self.total += sign * <int128> values[row].i
        return 0


cdef struct ExactFloats:
    Superaccumulator finite
    Odd odd                     # the others, counted


cdef class LeavingFloats(LeavingKernel):
    """sum and mean of floats, correctly rounded: for numerics="exact".

    wanted : list of ("sum", 0) and ("mean", 0), one per answer

    Cost: two additions to a superaccumulator a row. Memory: 600 bytes.
    """

    cdef Lowering lowering
    cdef ExactFloats total

    def __cinit__(self, Counter counter, wanted):
        check_wanted(wanted)
        self.lowering = Lowering(wanted)
        super_init(&self.total.finite)
        self.sum, self.size = &self.total, sizeof(ExactFloats)

    def __init__(self, Counter counter, wanted):
        Kernel.__init__(self, counter)

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t i, count
        cdef int k
        for i in range(start, start + n):
            self.move(lo[i], hi[i])
            count = counts[i] if counts != NULL else hi[i] - lo[i]
            for k in range(self.lowering.n):
                self.lowering.wanted[k].out[i].f = self.lowered(self.lowering.wanted[k].what == SUM, count)
        return -1

    cdef double lowered(self, bint is_sum, int64_t count) noexcept nogil:
        if not is_sum and count <= 0:
            return NAN
        if any_odd(&self.total.odd):
            return odd_sum(&self.total.odd)
        if is_sum:
            return nearest(super_leading(&self.total.finite))
        return nearest_quotient(super_leading(&self.total.finite), count)

    cdef int clear(self) except -1 nogil:
        super_clear(&self.total.finite)
        memset(&self.total.odd, 0, sizeof(Odd))
        return 0

    cdef int add(self, const Scan* rows, int64_t start, int64_t stop, int64_t sign) except -1 nogil:
        cdef const Cell* values = rows.values
        cdef int64_t row
        for row in range(start, stop):
            if isfinite(values[row].f):
                super_add(&self.total.finite, values[row].f, sign)
            else:
                count_odd(&self.total.odd, values[row].f, sign)
        return 0
