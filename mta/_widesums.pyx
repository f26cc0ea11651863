"""Batch kernel for sums and means of integers."""
from libc.math cimport NAN
from libc.stdint cimport int64_t

from mta._core cimport Lowering
from mta._exact cimport divide_int128, int128
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport SUM, Cell
from mta._sums import check_wanted

cdef extern from "_widesums.h":
    ctypedef struct Running "mta_running":
        int64_t first
        int64_t last
        int128 sum
    void wide_sums "mta_wide_sums"(const int64_t* x, Running* r, const int64_t* lo, const int64_t* hi,
                                   int64_t n, bint steady, bint is_signed, int128* out) nogil
    bint fits "mta_fits"(int128 sum, bint is_unsigned) nogil
    bint lower_totals "mta_lower_totals"(const int128* sums, int64_t n, bint is_unsigned,
                                         int64_t* out) nogil


cdef class WideSumKernel(SubtractingKernel):
    """sum and mean of integers, exact in 128 bits.

    source : "int" or "uint": what the values are
    wanted : list of ("sum", 0) and ("mean", 0), one per answer
    overflow : what becomes of sums beyond 64 bits. "raise": `slide` stops there, unless fewer than
        `least` values are inside; "wrap": they are taken modulo 2^64; "float": all sums are doubles, the
        nearest to the exact ones

    Means are correctly rounded. Rows that leave are subtracted. The nulls of the column have to be 0.
    """

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
        cdef Running running = Running(self.first, self.last, self.total)
        cdef int64_t i = start, run, failed = -1
        self.scan.lo = lo
        self.scan.hi = hi
        while i < start + n and failed < 0:
            run = min(start + n - i, <int64_t> RUN)
            wide_sums(&self.scan.values.i, &running, lo + i, hi + i, run, self.scan.steady,
                      not self.unsigned, self.sums)
            failed = self.lower(i, run, counts)
            i += run
        self.first, self.last, self.total = running.first, running.last, running.sum
        return failed

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
                if lower_totals(self.sums, n, self.unsigned, &out.i) or self.wraps:
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
            if count >= self.least and not fits(self.sums[i], self.unsigned):
                return start + i
        return -1

    cdef double mean(self, int64_t i, int64_t count) noexcept nogil:
        if count <= 0:
            return NAN
        return divide_int128(self.sums[i], count)
