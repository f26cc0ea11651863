"""Batch kernel for sums and means of integers."""
from libc.math cimport NAN
from libc.stdint cimport int64_t
from libc.string cimport memset

from mta._core cimport Lowering
from mta._exact cimport divide_int128, int128
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport SUM, Cell
from mta._sums cimport (
    FEW, ROWS, RUN, Slices, SubtractingKernel, join_slices, moves_by_one, run_up,
)

from mta._sums import check_wanted

cdef extern from "_widesums.h":
    void split_integers "mta_split_integers"(const int64_t* x, int64_t n, bint is_unsigned,
                                             int64_t* out) nogil
    void split_changes "mta_split_changes"(const int64_t* x, const int64_t* y, int64_t n,
                                           bint is_unsigned, int64_t* out) nogil
    int128 total_of "mta_total_of"(const int64_t* halves) nogil
    int128 total_of_rows "mta_total_of_rows"(const int64_t* x, int64_t n, bint is_unsigned) nogil
    bint fits "mta_fits"(int128 sum, bint is_unsigned) nogil
    bint lower_integers "mta_lower_integers"(int128 base, const int64_t* halves, int64_t n,
                                             bint is_unsigned, int64_t* out) nogil


cdef class WideSumKernel(SubtractingKernel):
    """sum and mean of integers, exact in 128 bits.

    source : "int" or "uint": what the values are
    wanted : list of ("sum", 0) and ("mean", 0), one per answer
    overflow : what becomes of sums beyond 64 bits. "raise": `slide` stops there, unless fewer than
        `least` values are inside; "wrap": they are taken modulo 2^64; "float": all sums are doubles, the
        nearest to the exact ones

    Means are correctly rounded. Rows that leave are subtracted. The nulls of the column have to be 0.
    """

    cdef bint unsigned
    cdef bint wraps
    cdef bint floats
    cdef int128 base         # the sum of the rows [first, last)
    cdef int64_t entered[2 * (ROWS + 1)]
    cdef int64_t left[2 * (ROWS + 1)]
    cdef int64_t sums[2 * RUN]    # less `base`, in two halves

    def __cinit__(self, Counter counter, str source, wanted, str overflow):
        check_wanted(wanted)
        if source not in ("int", "uint"):
            raise ValueError(f"no integers: {source!r}")
        if overflow not in ("raise", "wrap", "float"):
            raise ValueError(f"overflow: raise, wrap or float, not {overflow!r}")
        self.lowering = Lowering(wanted)
        self.unsigned = source == "uint"
        self.wraps = overflow == "wrap"
        self.floats = overflow == "float"

    def __init__(self, Counter counter, str source, wanted, str overflow):
        Kernel.__init__(self, counter)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t i = start, run, failed
        self.scan.lo = lo
        self.scan.hi = hi
        while i < start + n:
            if lo[i] >= self.last:
                self.first = self.last = lo[i]
                self.base = 0
            run = self.take_run(i, min(start + n - i, <int64_t> RUN))
            failed = self.lower(i, run, counts)
            if failed >= 0:
                return failed
            self.base = self.base + total_of(self.sums + 2 * (run - 1))
            i += run
        return -1

    cdef int64_t take_run(self, int64_t i, int64_t n) noexcept nogil:
        """Fill `sums` for the windows from i on; how many, at most n."""
        cdef const int64_t* lo = self.scan.lo + i
        cdef const int64_t* hi = self.scan.hi + i
        cdef Slices none
        memset(&none, 0, sizeof(none))
        while n and (hi[n - 1] - self.last > ROWS or lo[n - 1] - self.first > ROWS):
            n >>= 1
        if n and moves_by_one(lo, hi, n, self.first, self.last):
            split_changes(&self.scan.values[self.last].i, &self.scan.values[self.first].i, n,
                          self.unsigned, self.sums)
            run_up(FEW, none, self.sums, n)
        elif n:
            self.split(self.last, hi[n - 1], self.entered)
            self.split(self.first, lo[n - 1], self.left)
            join_slices(FEW, none, self.entered, self.left, lo, hi, self.first, self.last, n, self.sums)
        else:    # more rows than there is room for
            n = 1
            self.base = (self.base + self.total(self.last, hi[0])) - self.total(self.first, lo[0])
            self.sums[0] = self.sums[1] = 0
        self.first = lo[n - 1]
        self.last = hi[n - 1]
        return n

    cdef void split(self, int64_t first, int64_t stop, int64_t* totals) noexcept nogil:
        """totals of the k rows from `first` on, in two halves, for every k."""
        cdef Slices none
        memset(&none, 0, sizeof(none))
        totals[0] = totals[1] = 0
        split_integers(&self.scan.values[first].i, stop - first, self.unsigned, totals + 2)
        run_up(FEW, none, totals + 2, stop - first)

    cdef int128 total(self, int64_t first, int64_t stop) noexcept nogil:
        return total_of_rows(&self.scan.values[first].i, stop - first, self.unsigned)

    cdef int64_t lower(self, int64_t start, int64_t n, const int64_t* counts) noexcept nogil:
        """The answers start..start + n; the first sum that must fit and does not, or -1."""
        cdef Cell* out
        cdef int64_t i, failed
        cdef int k
        for k in range(self.lowering.n):
            out = self.lowering.wanted[k].out + start
            if self.lowering.wanted[k].what != SUM:
                for i in range(n):
                    out[i].f = self.mean(i, counts[start + i] if counts != NULL
                                         else self.scan.hi[start + i] - self.scan.lo[start + i])
            elif self.floats:
                for i in range(n):
                    out[i].f = self.mean(i, 1)
            else:
                if lower_integers(self.base, self.sums, n, self.unsigned, &out.i) or self.wraps:
                    continue
                failed = self.first_beyond(start, n, counts)
                if failed >= 0:
                    return failed
        return -1

    cdef int64_t first_beyond(self, int64_t start, int64_t n, const int64_t* counts) noexcept nogil:
        """The first window, of those with the values for an answer, whose sum does not fit; or -1."""
        cdef int64_t i, count
        for i in range(n):
            count = (counts[start + i] if counts != NULL
                     else self.scan.hi[start + i] - self.scan.lo[start + i])
            if count >= self.least and not fits(self.base + total_of(self.sums + 2 * i), self.unsigned):
                return start + i
        return -1

    cdef inline double mean(self, int64_t i, int64_t count) noexcept nogil:
        if count <= 0:
            return NAN
        return divide_int128(self.base + total_of(self.sums + 2 * i), count)
