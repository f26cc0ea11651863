"""Batch kernel for var and std.

Sums of deviations from a value of the window and of their squares, as two halves: both are computed far
beyond the precision of the answer, which therefore does not depend on association (``docs/numerics.md``).
"""
from libc.math cimport NAN
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from mta._core cimport CHUNK, Forest, Lowering
from mta._kernel cimport Counter, Kernel, Scan
from mta._monoids cimport STD, Moments, Wanted
from mta._moves cimport is_steady, run_end
from mta._vector cimport Vector

import numpy as np

cdef extern from "_deviations.h":
    ctypedef struct Deviations "mta_deviations":
        double s1_hi
        double s2_hi
        double s1_lo
        double s2_lo
    ctypedef struct RowDeviations "mta_row_deviations":
        pass
    ctypedef struct Lowered "mta_spreads":
        int64_t begun
        int64_t done
    enum:
        SPAN "MTA_SPAN"
    void deviations_total "mta_deviations_total"(const double* x, const uint8_t* valid, int64_t n,
                                                 double k, Deviations* sum) nogil
    void both_chains "mta_both_chains"(const double* x, const uint8_t* x_valid, int64_t n,
                                       const Deviations* after, RowDeviations* suffix,
                                       const double* y, const uint8_t* y_valid, int64_t m, double k,
                                       Deviations* sum, RowDeviations* prefix) nogil
    void answer_spread "mta_answer_spread"(Lowered* w, const RowDeviations* suffix, int64_t first,
                                           const RowDeviations* prefix, int64_t joined,
                                           const int64_t* lo, const int64_t* hi, const int64_t* count,
                                           int64_t n, bint steady, double ddof, bint root,
                                           double* out) nogil
    void spreads_end "mta_spreads_end"(Lowered* w, double ddof, bint root) nogil

cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t size)


cdef struct Spreads:
    # Sums of deviations from k, the last value before the split. From the split to the left there is one
    # every SPAN rows; those from all rows of one span, from `first` on, and those to all rows from
    # `joined` on, are kept at a time.
    double k
    int64_t split
    int64_t last
    bint resumed               # the split was told: its sums are still to be made
    int64_t blank              # what was the window holds no value up to this row
    Deviations* spans
    int64_t capacity
    int64_t first              # the suffixes are those of [first, end)
    int64_t end
    Deviations running
    int64_t joined
    RowDeviations suffix
    RowDeviations prefix


cdef class SpreadKernel(Kernel):
    """var and std of one column.

    source : "float", "int" or "uint": what the values are
    wanted : list of ("var" or "std", ddof), one per answer

    Both halves are sums of deviations from the last value left of the split, which is in every window
    that the split serves (``docs/adr/0002``). Cost: 2 deviations and 3 additions of sums a row, four rows
    at a time. Memory: 32 bytes for every SPAN rows of the older half.

    Integers are taken as doubles while each is one; from the first beyond 2^53 on, the forest goes on.
    """

    cdef Lowering lowering
    cdef Spreads spreads
    cdef Lowered* lowered    # one per answer
    cdef Vector floats       # integers as doubles
    cdef bint unsigned
    cdef Forest forest
    cdef Moments* parts      # of the forest

    def __cinit__(self, Counter counter, str source, wanted):
        for what, _ in wanted:
            if what not in ("var", "std"):
                raise ValueError(f"no {what!r} here, but var and std")
        if source not in ("float", "int", "uint"):
            raise ValueError(f"no numbers: {source!r}")
        self.lowering = Lowering(wanted)
        self.unsigned = source == "uint"
        self.floats = None if source == "float" else Vector()
        self.spreads.split = self.spreads.last = -1
        self.lowered = <Lowered*> aligned_alloc(64, max(self.lowering.n, 1) * sizeof(Lowered))
        if self.lowered == NULL:
            raise MemoryError()
        memset(self.lowered, 0, self.lowering.n * sizeof(Lowered))

    def __init__(self, Counter counter, str source, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        free(self.spreads.spans)
        free(self.parts)
        free(self.lowered)

    def attach(self, columns, valid, int64_t first):
        if self.floats is not None:
            columns = self.take_integers(columns[0], first)
        Kernel.attach(self, columns, valid, first)

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)

    cdef int tell(self, int64_t* marks, int64_t shift) noexcept nogil:
        """The row that splits the window: what is left and right of it is added up apart."""
        marks[0] = self.spreads.split - shift
        return 1

    cdef int go_on(self, const int64_t* marks, int64_t shift) noexcept nogil:
        self.spreads.split = marks[0] + shift
        self.spreads.resumed = True
        return 0

    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil:
        cdef int64_t i
        for i in range(n):
            if lo[i] >= self.spreads.split:
                choose_split(&self.scan, &self.spreads, lo[i], hi[i])
        self.spreads.resumed = True
        return 0

    cdef list take_integers(self, column, int64_t first):
        """Integers as doubles where each is one; else the forest, which takes them as they are."""
        if self.forest is None:
            self.floats.drop_to(first)
            if len(self.floats) == 0:
                self.floats.first = first
            fresh = column[len(self.floats):].astype(np.float64)
            if np.abs(fresh).max(initial=0.0) < 2.0**53:
                self.floats.extend(fresh.view(np.int64))
                return [self.floats.view()]
            self.use_forest()
        return [column]

    cdef int use_forest(self) except -1:
        self.parts = <Moments*> malloc(CHUNK * sizeof(Moments))
        if self.parts == NULL:
            raise MemoryError()
        self.forest = Forest("moments", "uint" if self.unsigned else "int")
        self.floats = Vector()
        return 0

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        self.scan.lo = lo
        self.scan.hi = hi
        if self.forest is None:
            spreads_slide(&self.scan, &self.spreads, self.lowering, self.lowered, counts, start, n)
            return -1
        self.forest.ops.slide(&self.forest.state, self.scan.values, self.scan.valid, 0, lo + start, hi + start,
                              n, self.parts)
        return self.lowering.run(self.forest.ops, &self.forest.state.how, self.parts, start, n, lo, hi, counts)


cdef int spreads_slide(const Scan* scan, Spreads* h, Lowering lowering, Lowered* lowered,
                       const int64_t* counts, int64_t start, int64_t n) except -1 nogil:
    """Both halves measure deviations from the last value left of the split, which is in every window
    that the split serves: nothing has to be moved from one k to another."""
    cdef int64_t i = start, run, end
    cdef const Wanted* w
    cdef bint steady
    cdef int k
    while i < start + n:
        if not open_spreads(scan, h, scan.lo[i], scan.hi[i]):
            for k in range(lowering.n):
                lowering.wanted[k].out[i].f = NAN
            i += 1
            continue
        while scan.hi[i] - h.last > SPAN:    # no window ends at these rows
            extend_spreads(scan, h, 0, h.last + SPAN)
        end = h.split - (h.split - 1 - scan.lo[i]) // SPAN * SPAN
        run = run_end(scan, i, start + n, end, h.last + SPAN + 1)
        steady = is_steady(scan, i, run)
        extend_spreads(scan, h, end if scan.lo[i] < h.first or end != h.end else 0, scan.hi[run - 1],
                       scan.lo[i])
        for k in range(lowering.n):
            w = &lowering.wanted[k]
            answer_spread(&lowered[k], &h.suffix, h.first, &h.prefix, h.joined, &scan.lo[i], &scan.hi[i],
                          counts + i if counts != NULL else NULL, run - i, steady, w.ddof,
                          w.what == STD, &w.out[i].f)
        i = run
    for k in range(lowering.n):
        spreads_end(&lowered[k], lowering.wanted[k].ddof, lowering.wanted[k].what == STD)
    return 0


cdef bint open_spreads(const Scan* scan, Spreads* h, int64_t lo, int64_t hi) except -1 nogil:
    """Have halves that serve the window [lo, hi); False where it holds no value."""
    if lo < h.split and not h.resumed:
        return True
    if lo >= h.split and not choose_split(scan, h, lo, hi):
        return False
    h.resumed = False
    h.k = scan.values[h.split - 1].f
    fill_spans(scan, h, lo)
    memset(&h.running, 0, sizeof(Deviations))
    h.first = h.end = h.last = h.split
    return True


cdef bint choose_split(const Scan* scan, Spreads* h, int64_t lo, int64_t hi) noexcept nogil:
    """The window [lo, hi) up to its last value becomes the older half; False where it holds none. Nulls
    that are known are not looked at again, so that a long stretch of them costs O(1) a row."""
    cdef int64_t known = max(lo, h.blank), split = last_value(scan, known, hi) + 1
    h.blank = hi if split == known else 0
    h.split = h.last = lo if split == known else split
    return split > known


cdef int fill_spans(const Scan* scan, Spreads* h, int64_t lo) except -1 nogil:
    """The sums from the split to every SPAN-th row left of it, but for the span that holds lo."""
    cdef int64_t n = (h.split - 1 - lo) // SPAN, k
    if n + 1 > h.capacity:
        free(h.spans)
        h.capacity = 2 * (n + 1)
        h.spans = <Deviations*> malloc(h.capacity * sizeof(Deviations))
        if h.spans == NULL:
            h.capacity = 0
            with gil:
                raise MemoryError(f"a window of {h.split - lo} rows")
    memset(h.spans, 0, sizeof(Deviations))
    for k in range(n):
        h.spans[k + 1] = h.spans[k]
        deviations_total(&scan.values[h.split - (k + 1) * SPAN].f, valid_at(scan, h.split - (k + 1) * SPAN),
                         SPAN, h.k, &h.spans[k + 1])
    return 0


cdef inline const uint8_t* valid_at(const Scan* scan, int64_t row) noexcept nogil:
    return &scan.valid[row] if scan.valid != NULL else NULL


cdef void extend_spreads(const Scan* scan, Spreads* h, int64_t end, int64_t hi, int64_t lo=0) noexcept nogil:
    """The sums from the split to every row up to hi, at most a span away; and, if end is not 0, from
    every row of the span [lo, end) on."""
    cdef int64_t n = 0
    if end:
        h.first = lo
        h.end = end
        n = end - lo
    both_chains(&scan.values[lo].f, valid_at(scan, lo), n, &h.spans[(h.split - end) // SPAN if end else 0],
                &h.suffix, &scan.values[h.last].f, valid_at(scan, h.last), hi - h.last, h.k, &h.running,
                &h.prefix)
    h.joined = h.last
    h.last = max(h.last, hi)


cdef int64_t last_value(const Scan* scan, int64_t lo, int64_t hi) noexcept nogil:
    """The last row in [lo, hi) that is not null; lo - 1 if there is none."""
    while hi > lo and scan.valid != NULL and not scan.valid[hi - 1]:
        hi -= 1
    return hi - 1
