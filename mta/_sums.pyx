"""Exact sums and means of floats: a batch kernel, and a total to be merged.

The sum of the rows inside is held without any error, so rows that leave are subtracted, and what has
left leaves no trace.
"""
from libc.math cimport NAN, isfinite
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from mta._core cimport Lowering
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport SUM, Cell
from mta._vector cimport Vector

import numpy as np

cdef extern from "_sums.h":
    ctypedef struct Base "mta_dd":
        pass
    ctypedef struct Places "mta_places":
        pass
    int64_t cut "mta_cut"(const Grid* g, const double* x, int64_t n, int64_t* out) nogil
    int64_t cut_changes "mta_cut_changes"(const Grid* g, const double* x, const double* y, int64_t n,
                                          int64_t* out) nogil
    ctypedef struct Aside "mta_aside":
        int64_t n
        int64_t row[512]
    void set_aside "mta_set_aside"(const double* x, int64_t n, double* rest, Aside* aside) nogil
    int64_t first_off "mta_first_off"(const Grid* g, const double* x, int64_t n) nogil
    void join_odd "mta_join_odd"(
        Odd start, const double* entered, const Aside* came, const double* left, const Aside* gone,
        const int64_t* lo, const int64_t* hi, int64_t first, int64_t last, int64_t n, Odd* out) nogil
    bint IS_WIDE "MTA_IS_WIDE"    # four doubles fit in a register; where not, separate loops are faster
    bint steady_parts "mta_steady_parts"(const Grid* g, const double* x, const double* y, int64_t n,
                                         Slices* sum, double* high, double* low, double* sums) nogil
    void carry "mta_carry"(int slices, int64_t* x) nogil
    bint exact_parts "mta_exact_parts"(const Grid* g, const int64_t* sums, int64_t n, double* high,
                                       double* low) nogil
    void near_parts "mta_near_parts"(const Grid* g, const int64_t* sums, int64_t n, double* high,
                                     double* low, double* slack) nogil
    Base exact_base "mta_exact_base"(const ExactSum* s) nogil
    void add_base "mta_add_base"(Base base, int64_t n, double* high, double* low, double* slack) nogil
    void sums_of_parts "mta_sums_of_parts"(const double* high, const double* low, int64_t n,
                                           double* out) nogil
    bint sums_within "mta_sums_within"(const double* high, const double* low, const double* slack,
                                       int64_t n, double* out, int64_t* sure) nogil
    bint means_within "mta_means_within"(const double* high, const double* low, const double* slack,
                                         const int64_t* count, int64_t n, double* out,
                                         int64_t* sure) nogil
    void note_place "mta_note_place"(Places* p, double x) nogil
    Grid choose_grid "mta_choose_grid"(const Places* p, int64_t rows) nogil


cdef enum:
    SAMPLE = 2048      # rows that a grid is chosen from
    PATIENCE = 1 << 14 # rows between two choices, and as many more as the window holds
    MISSES = 512       # one row in so many off the grid is worth another choice
    COARSER = 8        # places that a grid is made coarser by, where it has to be


cdef struct Buffers:
    # Of one run of windows: running totals of the rows that enter and of those that leave, the windows'
    # sums from them, and these as doubles.
    int64_t entered[MANY * (ROWS + 1)]
    int64_t left[MANY * (ROWS + 1)]
    int64_t sums[MANY * RUN]
    double rest[ROWS]
    Aside came
    Aside gone
    Odd odd[RUN]
    double high[RUN]
    double low[RUN]
    double slack[RUN]
    int64_t sure[RUN]
    int64_t counts[RUN]


def check_wanted(wanted):
    """Refuse what these kernels don't answer."""
    for what, _ in wanted:
        if what not in ("sum", "mean"):
            raise ValueError(f"no {what!r} here, but sum and mean")


cdef class SubtractingKernel(Kernel):
    """What needs the rows that leave: they are those of the window before.

    A caller who gives rows in pieces and still gives those costs nothing. For one who does not, the rows
    inside are kept here as well, 8 bytes each, from the first time that one is missed on.
    """

    def __cinit__(self):
        self.last = -1

    def attach(self, columns, valid, int64_t first):
        Kernel.attach(self, columns, valid, first)
        if self.kept is None and self.first < min(first, self.last):
            self.kept = Vector(True, first)
            self.last = -1    # so that the next window is added up anew
        if self.kept is not None:
            self.keep(columns[0].view(np.int64), first)

    cdef int keep(self, column, int64_t first) except -1:
        cdef int64_t end = self.kept.first + len(self.kept)
        if end < first:
            self.kept = Vector(True, first)
            end = first
        self.kept.drop_to(self.first)
        self.kept.extend(column[end - first:])
        self.scan.values = <const Cell*> self.kept.data + (self.kept.start - self.kept.first)
        return 0

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)


cdef class ExactSumKernel(SubtractingKernel):
    """sum and mean of floats, correctly rounded: the double nearest to the exact sum, or to the exact
    quotient of sum and count, ties to even.

    wanted : list of ("sum", 0) and ("mean", 0), one per answer

    Infinite only where the rounded exact value is beyond the doubles; subnormals are exact. An exact
    zero is 0.0, never -0.0. A NaN inside, or infinities of both signs, make NaN; one infinity makes
    itself. The nulls of the column have to be 0.

    The sum of the rows inside is held as two integers in units of a grid that spans 103 binary places
    (`_sums.h`), and rows off the grid in a superaccumulator (`_superaccumulator.h`). Both are exact, so
    rows that leave are subtracted, and no answer depends on the grid or on the way to it. When too
    many rows are off the grid, it is chosen again, at O(1) amortised a row. Memory: 60 KB, whatever
    the window.
    """

    cdef ExactSum state
    cdef Buffers buffers
    cdef int64_t reach    # windows to try in one go: fewer where runs are cut short
    cdef bint has_parts   # whether `high` and `low` are, exactly, and there is nothing else
    cdef bint has_odd     # whether `odd` is filled for the run at hand
    cdef int64_t seen     # rows since the grid was chosen; -1: there is none yet

    def __cinit__(self, Counter counter, wanted):
        check_wanted(wanted)
        self.lowering = Lowering(wanted)
        self.seen = -1
        self.reach = RUN
        exact_init(&self.state)

    def __init__(self, Counter counter, wanted):
        Kernel.__init__(self, counter)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t i = start, run
        self.scan.lo = lo
        self.scan.hi = hi
        while i < start + n:
            if lo[i] >= self.last:
                self.first = self.last = lo[i]
                exact_clear(&self.state)
            if self.seen < 0:
                self.choose_grid()
            run = self.take_run(i, start + n - i)
            self.lower(i, run, counts)
            i += run
            self.mind_grid()
        return -1

    cdef int64_t take_run(self, int64_t i, int64_t most) noexcept nogil:
        """Fill `sums` (and `odd`) for the windows from i on; how many."""
        cdef const int64_t* lo = self.scan.lo
        cdef const int64_t* hi = self.scan.hi
        cdef int64_t asked = min(most, self.reach), n = asked
        while n and (hi[i + n - 1] - self.last > ROWS or lo[i + n - 1] - self.first > ROWS):
            n >>= 1
        self.has_parts = False
        if n:
            n = self.take_steady(i, n) or self.take_rows(i, n)
        if not n:
            n = self.take_window(i)
        self.reach = min(RUN, 2 * self.reach) if n > asked - 4 else max(8, self.reach >> 1)
        self.seen += hi[i + n - 1] - self.last
        self.first = lo[i + n - 1]
        self.last = hi[i + n - 1]
        return n

    cdef int64_t take_steady(self, int64_t i, int64_t n) noexcept nogil:
        """n windows that each move by one row, if they do, and if all these rows are on the grid; else
        0."""
        cdef ExactSum* s = &self.state
        cdef const double* x = &self.scan.values.f
        cdef Slices sum = s.sum
        cdef int64_t k
        if not moves_by_one(&self.scan.lo[i], &self.scan.hi[i], n, self.first, self.last):
            return 0
        self.has_odd = any_odd(&s.odd)
        if IS_WIDE and s.grid.slices == FEW and n >= 4 and not (s.off_rows or self.has_odd):
            self.has_parts = steady_parts(&s.grid, x + self.last, x + self.first, n & -4, &sum,
                                          self.buffers.high, self.buffers.low, self.sums_from(i))
            if self.has_parts:
                s.sum = sum
                carry(FEW, s.sum.slice)
                return n & -4
        if cut_changes(&s.grid, x + self.last, x + self.first, n, self.buffers.sums):
            return 0
        s.sum = run_up(s.grid.slices, s.sum, self.buffers.sums, n)
        carry(s.grid.slices, s.sum.slice)
        for k in range(n if self.has_odd else 0):
            self.buffers.odd[k] = s.odd
        return n

    cdef double* sums_from(self, int64_t i) noexcept nogil:
        """Where the sums from window i on go, if they come first; else NULL."""
        if self.lowering.n and self.lowering.wanted[0].what == SUM:
            return &self.lowering.wanted[0].out[i].f
        return NULL

    cdef int64_t take_rows(self, int64_t i, int64_t n) noexcept nogil:
        """As many of n windows as there are before a row enters or leaves that is finite and off the
        grid, which may be none."""
        cdef ExactSum* s = &self.state
        cdef Buffers* b = &self.buffers
        cdef const int64_t* lo = &self.scan.lo[i]
        cdef const int64_t* hi = &self.scan.hi[i]
        cdef const double* x = &self.scan.values.f
        cdef int64_t back = self.last + self.cut_rows(self.last, hi[n - 1], b.entered, &b.came)
        cdef int64_t front = self.first + self.cut_rows(self.first, lo[n - 1], b.left, &b.gone)
        while n and (hi[n - 1] > back or lo[n - 1] > front):
            n -= 1
        if n == 0:
            return 0
        join_slices(s.grid.slices, s.sum, b.entered, b.left, lo, hi, self.first, self.last, n, b.sums)
        self.has_odd = b.came.n or b.gone.n or any_odd(&s.odd)
        if self.has_odd:
            join_odd(s.odd, x + self.last, &b.came, x + self.first, &b.gone, lo, hi, self.first,
                     self.last, n, b.odd)
            s.odd = b.odd[n - 1]
        memcpy(s.sum.slice, b.sums + (n - 1) * s.grid.slices, s.grid.slices * sizeof(int64_t))
        carry(s.grid.slices, s.sum.slice)
        return n

    cdef int64_t cut_rows(self, int64_t first, int64_t stop, int64_t* totals, Aside* aside) noexcept nogil:
        """totals[k]: of the k rows from `first` on, those aside left out, for every k up to the one
        returned: there, a row is finite and off the grid."""
        cdef const double* x = &self.scan.values.f + first
        cdef const Grid* grid = &self.state.grid
        cdef double* rest = self.buffers.rest
        cdef Slices none
        cdef int64_t n = stop - first
        memset(&none, 0, sizeof(none))
        memset(totals, 0, grid.slices * sizeof(int64_t))
        totals += grid.slices
        aside.n = 0
        if cut(grid, x, n, totals):
            set_aside(x, n, rest, aside)
            if cut(grid, rest, n, totals):
                n = first_off(grid, rest, n)
        run_up(grid.slices, none, totals, n)
        return n

    cdef int64_t take_window(self, int64_t i) noexcept nogil:
        """The window i alone, however many rows enter and leave."""
        cdef int64_t n
        self.seen += self.scan.hi[i] - self.last
        while self.last < self.scan.hi[i]:
            n = min(<int64_t> ROWS, self.scan.hi[i] - self.last)
            exact_add(&self.state, &self.scan.values[self.last].f, n, 1)
            self.last += n
            self.mind_size()
        while self.first < self.scan.lo[i]:
            n = min(<int64_t> ROWS, self.scan.lo[i] - self.first)
            exact_add(&self.state, &self.scan.values[self.first].f, n, -1)
            self.first += n
            self.mind_size()
        memcpy(self.buffers.sums, self.state.sum.slice, sizeof(Slices))
        self.buffers.odd[0] = self.state.odd
        self.has_odd = any_odd(&self.state.odd)
        return 1

    # --------------------------------------------------------------------- the grid

    cdef void mind_size(self) noexcept nogil:
        """A coarser grid where the sum outgrows this one."""
        if exact_is_large(&self.state):
            self.regrid(self.state.grid.exponent + COARSER, self.state.grid.slices)

    cdef void mind_grid(self) noexcept nogil:
        """Another grid where too many rows have missed this one; a choice costs what O(rows inside)
        rows do, so as many come before the next."""
        self.mind_size()
        if MISSES * self.state.missed > self.seen and self.seen > self.last - self.first + PATIENCE:
            self.choose_grid()

    cdef void choose_grid(self) noexcept nogil:
        """The best grid for the rows inside and those that come next, by a sample."""
        cdef Places places
        cdef Grid grid
        cdef int64_t inside = self.last - self.first
        memset(&places, 0, sizeof(places))
        self.note_places(&places, self.first, inside)
        self.note_places(&places, self.last, min(self.scan.rows - self.last, PATIENCE + inside))
        grid = choose_grid(&places, max(inside, <int64_t> 1 << 20))
        self.regrid(grid.exponent, grid.slices)

    cdef void note_places(self, Places* places, int64_t first, int64_t n) noexcept nogil:
        cdef int64_t row = first, stride = 1 + n // SAMPLE
        while row < first + n:
            note_place(places, self.scan.values[row].f)
            row += stride

    cdef void regrid(self, int exponent, int slices) noexcept nogil:
        """Count the rows inside anew, on this grid or the next coarser one that holds their sum."""
        cdef int64_t row = self.first, n
        self.state.grid = grid_of(exponent, slices)
        exact_clear(&self.state)
        while row < self.last:
            n = min(<int64_t> ROWS, self.last - row)
            exact_add(&self.state, &self.scan.values[row].f, n, 1)
            row += n
            if exact_is_large(&self.state):
                exponent += COARSER
                self.state.grid = grid_of(exponent, slices)
                exact_clear(&self.state)
                row = self.first
        self.state.missed = self.seen = 0

    # ---------------------------------------------------------------- answers

    cdef void lower(self, int64_t start, int64_t n, const int64_t* counts) noexcept nogil:
        """The answers start..start + n from `sums`."""
        cdef Buffers* b = &self.buffers
        cdef bint exact = self.add_up(n)
        cdef double* out
        cdef int k
        for k in range(self.lowering.n):
            out = &self.lowering.wanted[k].out[start].f
            if k == 0 and self.has_parts and self.sums_from(start) != NULL:
                continue
            if self.lowering.wanted[k].what == SUM:
                self.lower_sums(n, exact, out)
            else:
                self.count(start, n, counts)
                self.lower_means(n, out)
            if self.has_odd:
                lower_odd(b.odd, n, out)

    cdef bint add_up(self, int64_t n) noexcept nogil:
        """high, low and slack from `sums`; true if there is no slack."""
        cdef Buffers* b = &self.buffers
        cdef ExactSum* s = &self.state
        cdef bint exact = self.has_parts or (
            s.grid.slices == FEW and exact_parts(&s.grid, b.sums, n, b.high, b.low))
        if exact:
            memset(b.slack, 0, n * sizeof(double))
        else:
            near_parts(&s.grid, b.sums, n, b.high, b.low, b.slack)
        if s.off_rows:
            add_base(exact_base(s), n, b.high, b.low, b.slack)
        return exact and not s.off_rows

    cdef void lower_sums(self, int64_t n, bint exact, double* out) noexcept nogil:
        """What is not sure is summed exactly and rounded then."""
        cdef Buffers* b = &self.buffers
        cdef Slices sum
        cdef int64_t i
        if exact:
            sums_of_parts(b.high, b.low, n, out)
        elif not sums_within(b.high, b.low, b.slack, n, out, b.sure):
            for i in range(n):
                if not b.sure[i]:
                    sum = self.sum_at(i)
                    out[i] = exact_lower(&self.state, &sum)

    cdef void lower_means(self, int64_t n, double* out) noexcept nogil:
        cdef Buffers* b = &self.buffers
        cdef Slices sum
        cdef int64_t i
        if not means_within(b.high, b.low, b.slack, b.counts, n, out, b.sure):
            for i in range(n):
                if not b.sure[i]:
                    sum = self.sum_at(i)
                    out[i] = exact_lower_mean(&self.state, &sum, b.counts[i])

    cdef Slices sum_at(self, int64_t i) noexcept nogil:
        cdef Slices sum
        cdef int k
        memset(&sum, 0, sizeof(sum))
        if self.has_parts:
            sum.slice[0] = <int64_t> (self.buffers.low[i] / self.state.grid.unit[0])
            sum.slice[1] = <int64_t> (self.buffers.high[i] / self.state.grid.unit[1])
        else:
            for k in range(self.state.grid.slices):
                sum.slice[k] = self.buffers.sums[i * self.state.grid.slices + k]
        return sum

    cdef void count(self, int64_t start, int64_t n, const int64_t* counts) noexcept nogil:
        """The values of each window."""
        cdef int64_t i
        for i in range(n):
            self.buffers.counts[i] = (counts[start + i] if counts != NULL
                                      else self.scan.hi[start + i] - self.scan.lo[start + i])


cdef void lower_odd(const Odd* odd, int64_t n, double* out) noexcept nogil:
    """Sums and means alike, of windows with an infinity or a NaN inside."""
    cdef int64_t i
    for i in range(n):
        if any_odd(&odd[i]):
            out[i] = odd_sum(&odd[i])


# ----------------------------------------------------------------------------- a sum of anything

cdef class ExactTotal:
    """A sum of doubles without any rounding, as a monoid: `add` lifts, `merge` combines, `sum` and
    `mean` lower.

    Infinities and NaN are counted apart. Bytes: 600. Adding a value costs a few nanoseconds, merging
    and lowering some 50. See ``_superaccumulator.h``.

    Examples
    --------
    >>> total = ExactTotal([1e16, 1.0, 1e-20])
    >>> total.merge(ExactTotal([-1e16]))
    >>> total.sum(), ExactTotal([0.1] * 10).mean(10)
    (1.0, 0.1)
    """

    cdef Superaccumulator total
    cdef Odd odd

    def __cinit__(self, values=()):
        super_init(&self.total)
        self.add(values)

    def add(self, values, int64_t sign=1):
        """Add every value, or with sign=-1 take back what was added before."""
        cdef double x
        if sign != 1 and sign != -1:
            raise ValueError("sign: 1 or -1")
        for x in values:
            if isfinite(x):
                super_add(&self.total, x, sign)
            else:
                count_odd(&self.odd, x, sign)

    def merge(self, ExactTotal other):
        """Add all that `other` holds."""
        super_merge(&self.total, &other.total)
        self.odd.nans += other.odd.nans
        self.odd.plus += other.odd.plus
        self.odd.minus += other.odd.minus

    def sum(self):
        """The double nearest to the sum."""
        if any_odd(&self.odd):
            return odd_sum(&self.odd)
        return nearest(super_leading(&self.total))

    def mean(self, int64_t n):
        """The double nearest to the sum over n."""
        if n <= 0:
            return NAN
        if any_odd(&self.odd):
            return odd_sum(&self.odd)
        return nearest_quotient(super_leading(&self.total), n)
