"""Windows larger than memory: which monoid, and what is read off its partials.

The same answers as those of the kernels that have all rows at hand: to the last bit where the forest's
sums are theirs, exact ones anyway, and moments, products and pairs because both are far more precise
than the answer (``docs/adr/0002``, ``docs/adr/0005``).
"""
from libc.stdint cimport INT64_MIN, int64_t
from libc.string cimport memset

from mta._core cimport MAX_OUTPUTS, Lowering, find_ops, make_lift
from mta._halves cimport HalvesKernel
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport (
    FLOAT, Cell, Lift, Moments, combine, float_key, identity, lift,
)
from mta._paged cimport PagedKernel


cdef class PagedForest(PagedKernel):
    """The monoids of the forest: sums and means of floats, min and max.

    monoid, source, nan : as those of ``Forest``
    wanted : list of (name, ddof), one per answer
    """

    def __cinit__(self, Counter counter, str monoid, str source, str nan, wanted):
        self.how = make_lift(monoid, source, nan)
        self.ops = find_ops(monoid, self.how.source)
        self.lowering = Lowering(wanted)
        self.reserve(self.ops.size)

    def __init__(self, Counter counter, str monoid, str source, str nan, wanted):
        Kernel.__init__(self, counter)

    def answer_to(self, arrays):
        self.lowering.answer_to(arrays)

    cdef int64_t lower(self, int64_t window, int64_t n) noexcept nogil:
        return self.lowering.run(self.ops, &self.how, self.parts, window, n, self.scan.lo, self.scan.hi,
                                 self.counts)

    cdef bint counts_row(self, int64_t row) noexcept nogil:
        return self.scan.valid == NULL or self.scan.valid[row]


cdef class FoldedSpreads(PagedForest):
    """var and std (``docs/adr/0002``), for partials of windows by number.

    (Over pages they have two halves, which is faster: ``_paged_spreads.pyx``.)
    """

    cdef void clear(self, void* part) noexcept nogil:
        identity(&self.how, <Moments*> part)

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        if self.counts_row(row):
            lift(&self.how, <Moments*> part, self.scan.values[row])
        else:
            identity(&self.how, <Moments*> part)

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        combine(&self.how, <Moments*> out, <const Moments*> a, <const Moments*> b)


cdef class FoldedHalves(PagedKernel):
    """skew, kurt, cov, corr, slope, weighted_mean, product, geometric_mean and longest_run, likewise.

    halves : the kernel whose monoid it is; it lifts, combines and lowers, and is given no windows
    """

    cdef HalvesKernel halves

    def __cinit__(self, Counter counter, HalvesKernel halves):
        self.halves = halves
        self.reserve(halves.monoid_size())

    def __init__(self, Counter counter, HalvesKernel halves):
        Kernel.__init__(self, counter)

    def answer_to(self, arrays):
        self.halves.answer_to(arrays)

    def bind(self, columns, valid, int64_t first):
        self.halves.attach(columns, valid, first)

    cdef void clear(self, void* part) noexcept nogil:
        memset(part, 0, self.size)
        self.halves.clear(<void*> self.halves.sums(part))

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        if self.halves.scan.valid == NULL or self.halves.scan.valid[row]:
            self.halves.lift(part, row)
        else:
            self.clear(part)

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        self.halves.combine(out, a, b)

    cdef int64_t lower(self, int64_t window, int64_t n) noexcept nogil:
        """One by one: between partials that are read off lies what they are around."""
        cdef int64_t i, failed
        cdef int k
        for i in range(window, window + n):
            self.halves.counts[0] = <double> (self.counts[i] if self.counts != NULL
                                              else self.scan.hi[i] - self.scan.lo[i])
            for k in range(self.halves.n):
                failed = self.halves.lower(
                    self.halves.what[k], self.halves.option[k],
                    self.halves.sums(self.parts + (i - window) * <int64_t> self.size), 1,
                    self.halves.out[k] + i)
                if failed >= 0:
                    return i
        return -1


cdef struct Placed:
    # The row of an extreme: the greater key, and of equal ones the row that is asked for.
    int64_t key
    int64_t row


cdef class PagedPlaces(PagedKernel):
    """first and last, arg_min and arg_max: numbers of rows, -1 where there is none.

    source, nan, wanted : as those of ``ArgKernel``; without a source the column does not count, and
        "first" and "last" are those of the window

    A partial has both: the extreme of which the earliest row is asked, and that of which the latest is.
    """

    cdef Lift how[3]         # least, greatest: of equals the earliest; greatest: the latest
    cdef bint ordered
    cdef int n
    cdef int side[MAX_OUTPUTS]
    cdef bint is_back[MAX_OUTPUTS]
    cdef int64_t* out[MAX_OUTPUTS]

    def __cinit__(self, Counter counter, source, str nan, wanted):
        self.ordered = source is not None
        for side, monoid in enumerate(("min", "max", "max")):
            self.how[side] = make_lift(monoid, source or "int", nan)
        self.n = len(wanted)
        if self.n > MAX_OUTPUTS:
            raise ValueError("too many answers of one input")
        for k, what in enumerate(wanted):
            self.side[k] = SIDE_OF[what]
            self.is_back[k] = what.startswith("back")
        self.reserve(3 * sizeof(Placed))

    def __init__(self, Counter counter, source, str nan, wanted):
        Kernel.__init__(self, counter)

    def answer_to(self, arrays):
        cdef int64_t[::1] view
        self.answers = arrays
        for k, array in enumerate(arrays):
            view = array
            self.out[k] = &view[0] if view.shape[0] else NULL

    cdef void clear(self, void* part) noexcept nogil:
        cdef Placed* placed = <Placed*> part
        cdef int side
        for side in range(3):
            placed[side].key, placed[side].row = INT64_MIN, -1

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        cdef Placed* placed = <Placed*> part
        cdef int side
        if self.scan.valid != NULL and not self.scan.valid[row]:
            self.clear(part)
            return
        for side in range(3):
            placed[side].key = self.key(&self.how[side], row) if self.ordered else 0
            placed[side].row = row

    cdef int64_t key(self, const Lift* how, int64_t row) noexcept nogil:
        cdef Cell raw = self.scan.values[row]
        if how.source != FLOAT:
            return raw.i ^ how.flip
        if raw.f != raw.f:
            return how.nan_key
        return float_key(raw.f + 0.0 if raw.f == 0.0 else raw.f) ^ how.flip    # -0.0 becomes 0.0

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        cdef Placed* to = <Placed*> out
        cdef const Placed* older = <const Placed*> a
        cdef const Placed* newer = <const Placed*> b
        cdef bint takes_newer
        cdef int side
        for side in range(3):
            if older[side].row < 0 or newer[side].row < 0:
                takes_newer = older[side].row < 0
            elif side == 2:
                takes_newer = newer[side].key >= older[side].key
            else:
                takes_newer = newer[side].key > older[side].key
            to[side] = newer[side] if takes_newer else older[side]

    cdef int64_t lower(self, int64_t window, int64_t n) noexcept nogil:
        cdef int64_t i, row
        cdef int k
        for i in range(n):
            for k in range(self.n):
                row = (<const Placed*> (self.parts + i * <int64_t> self.size))[self.side[k]].row
                if self.is_back[k] and row >= 0:
                    row = self.scan.hi[window + i] - 1 - row
                self.out[k][window + i] = row
        return -1


SIDE_OF = {"arg_min": 0, "first": 0, "back_min": 0, "arg_max": 1, "back_max": 1, "last": 2}
