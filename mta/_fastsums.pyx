"""Batch kernel for sums and means of floats by plain additions, for those who want no more."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mta._core cimport Lowering
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport SUM
from mta._sums cimport is_steady

from mta._sums import check_wanted

cdef extern from "_fastsums.h":
    void plain_join "mta_plain_join"(const double* suffix, const double* prefix, const int64_t* lo,
                                     const int64_t* hi, int64_t n, double* out) nogil
    double plain_steady "mta_plain_steady"(const double* x, int64_t n, double total,
                                           const double* suffix, double* out) nogil
    void plain_means "mta_plain_means"(const double* sums, const int64_t* count, const int64_t* lo,
                                       const int64_t* hi, int64_t n, double* out) nogil


cdef class FastSumKernel(Kernel):
    """sum and mean of floats by plain additions: for numerics="fast".

    wanted : list of ("sum", 0) and ("mean", 0), one per answer

    The error of a sum of n values is at most n 2^-53 times the sum of their magnitudes; one that
    overflows on the way is infinite. Nothing is subtracted: what has left leaves no trace. The nulls of
    the column have to be 0.

    Two halves, as in two stacks: sums from every row up to a split, and running sums from there on; once
    the split has left, the whole window becomes the older half. The order of additions follows from
    the split and the rows alone. (Bounds that cut windows say what the split is, and when it is
    another.) Cost: O(1) amortised a row, about 2 ns. Memory: 16 bytes a row of the
    window.
    """

    def __cinit__(self, Counter counter, wanted):
        check_wanted(wanted)
        self.lowering = Lowering(wanted)
        self.split = self.origin = self.at = -1

    def __init__(self, Counter counter, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        free(self.suffix)

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)

    cdef int tell(self, int64_t* marks, int64_t shift) noexcept nogil:
        marks[0] = self.split - shift
        return 1

    cdef int go_on(self, const int64_t* marks, int64_t shift) noexcept nogil:
        self.split = self.origin = self.at = marks[0] + shift
        self.total = 0.0
        return 0

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t i = start, run
        cdef double* sums
        self.newer = &self.scan.values[0].f
        while i < start + n:
            sums = self.room_for(i)
            if self.scan.cut != NULL:
                if self.scan.cut[i] != self.split or lo[i] < self.origin or hi[i] < self.at:
                    self.split = self.at = self.scan.cut[i]
                    self.total = 0.0
                    self.build_suffixes(lo[i])
                run = self.add_up(lo + i, hi + i, self.end_of_cut(i, start + n) - i, sums)
            elif lo[i] >= self.split:
                self.split = self.at = hi[i]
                self.total = 0.0
                self.build_suffixes(lo[i])
                sums[0] = self.suffix[3]
                run = 1
            else:
                if lo[i] < self.origin:    # after `resume`
                    self.build_suffixes(lo[i])
                run = self.add_up(lo + i, hi + i, start + n - i, sums)
            self.lower(i, run, lo, hi, counts, sums)
            i += run
        return -1

    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil:
        cdef int64_t i, split = self.split
        for i in range(n if self.scan.cut == NULL else 0):
            if lo[i] >= split:
                split = hi[i]
        self.split = self.origin = self.at = split
        return 0

    cdef double* room_for(self, int64_t window) noexcept nogil:
        """Where the sums of windows from this one on go: if sums are asked for, to the answers."""
        if self.lowering.n and self.lowering.wanted[0].what == SUM:
            return &self.lowering.wanted[0].out[window].f
        return self.sums

    cdef int build_suffixes(self, int64_t origin) except -1 nogil:
        """The rows [origin, split) become the older half."""
        cdef int64_t n = self.split - origin
        self.reserve(n)
        self.origin, self.end = origin, self.split
        plain_suffixes(&self.scan.values[origin].f, n, 0.0, self.suffix + 3)
        self.suffix[3 + n] = 0.0
        return 0

    cdef int reserve(self, int64_t rows) except -1 nogil:
        """Room for the suffixes of so many rows."""
        if rows + 4 > self.capacity or self.suffix == NULL:
            free(self.suffix)
            self.capacity = 2 * rows + 4
            self.suffix = <double*> malloc(self.capacity * sizeof(double))
            if self.suffix == NULL:
                self.capacity = 0
                with gil:
                    raise MemoryError(f"a window of {rows} rows")
        return 0

    cdef int64_t add_up(self, const int64_t* lo, const int64_t* hi, int64_t n, double* out) noexcept nogil:
        """The sums of the first windows of n; how many."""
        cdef const double* suffix = self.suffix + 3 - self.origin
        cdef int64_t ahead = hi[0] - 1 - self.at, rows
        n = self.run_length(lo, hi, n)
        if is_steady(lo, hi, n):
            if ahead == 0:
                self.total = plain_steady(self.newer + self.at, n, self.total, suffix + lo[0], out)
                self.at += n & -4
                return n
            n = min(n, 4 - (ahead & 3))    # to the end of the block
        while hi[0] - self.at > ROWS:
            self.total = plain_prefixes(self.newer + self.at, ROWS, self.total, self.prefix)
            self.at += ROWS
        rows = hi[n - 1] - self.at
        self.prefix[0] = self.total
        self.total = plain_prefixes(self.newer + self.at, rows, self.total, self.prefix + 1)
        plain_join(suffix, self.prefix - self.at, lo, hi, n, out)
        self.at += rows & -4
        return n

    cdef int64_t run_length(self, const int64_t* lo, const int64_t* hi, int64_t n) noexcept nogil:
        """How many of n windows these suffixes and one stretch of prefixes serve."""
        cdef int64_t left = self.end - lo[0]
        n = min(n, <int64_t> RUN)
        if 0 < left < n and lo[left] >= self.end:    # where windows move by one row, this is it
            n = left
        while n > 1 and (lo[n - 1] >= self.end or hi[n - 1] - hi[0] > ROWS):
            n = n >> 1 if lo[n >> 1] >= self.end or hi[n >> 1] - hi[0] > ROWS else n - 1
        return n

    cdef void lower(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi,
                    const int64_t* counts, const double* sums) noexcept nogil:
        """The answers start..start + n."""
        cdef double* out
        cdef int k
        for k in range(self.lowering.n):
            out = &self.lowering.wanted[k].out[start].f
            if self.lowering.wanted[k].what != SUM:
                plain_means(sums, counts + start if counts != NULL else NULL, lo + start, hi + start, n,
                            out)
            elif out != sums:
                memcpy(out, sums, n * sizeof(double))
