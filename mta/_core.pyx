"""Forest: one aggregate of one window, pushed row by row or slid over arrays."""
from cpython.object cimport PyObject
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from mta._arrays cimport items_of
from mta._core_blocks cimport slide_rows
from mta._monoids cimport (
    EXTREME, GEOMETRIC_MEAN, INT, MEAN, OBJECT, PRODUCT, RUN, STD, SUM, UINT, VALUE, VAR, Cells, OneCell,
    Products, Runs, Source, lower_boxed, lower_cells, lower_extremes, lower_float_sums, lower_int_sums,
    lower_moments, lower_one_cell, lower_products, lower_runs,
)
from mta._rings cimport ring_bytes, ring_grow, ring_release

import numpy as np


cdef int forest_reserve(ForestState* s, size_t size) except -1 nogil:
    """Double the rings: O(1) amortised an insert, and no copy of the window (``_rings.pyx``)."""
    cdef int64_t places = 2 * s.room if s.room else 16
    cdef int level = highest_bit(places)
    forest_sides(s, size)
    # The leaves come last: until they have grown, a call that failed here begins again.
    while level >= 0:
        while s.rings[level].places < places >> level:
            ring_grow(&s.rings[level], (s.front + (<int64_t> 1 << level) - 1) >> level,
                      s.back >> level, size)
        level -= 1
    s.room = places
    return 0


cdef int forest_sides(ForestState* s, size_t size) except -1 nogil:
    """Room for the aggregates on both sides of the split point."""
    if s.suffix != NULL:
        return 0
    s.suffix = calloc(MAX_LEVELS + 1, size)
    s.prefix = calloc(MAX_LEVELS + 1, size)
    if s.suffix == NULL or s.prefix == NULL:
        free(s.suffix)
        free(s.prefix)
        s.suffix = s.prefix = NULL
        with gil:
            raise MemoryError()
    return 0


cdef void forest_release(ForestState* s) noexcept nogil:
    """Give all memory back."""
    release_rings(s)
    free(s.suffix)
    free(s.prefix)
    s.suffix = s.prefix = NULL


cdef void release_rings(ForestState* s) noexcept nogil:
    cdef int level
    for level in range(MAX_LEVELS):
        ring_release(&s.rings[level])
    s.room = 0


cdef int op_insert(ForestState* s, Cell raw, bint valid, const Part* tag) except -1 nogil:
    cdef Part leaf
    if valid:
        lift(&s.how, &leaf, raw)
    else:
        identity(&s.how, &leaf)
    return forest_insert(s, &leaf)


cdef int op_resize(ForestState* s, int64_t front, int64_t back, const Part* tag) except -1 nogil:
    return forest_split(s, front, back, tag)


cdef int op_evict_to(ForestState* s, int64_t front, const Part* tag) except -1 nogil:
    return forest_evict_to(s, front, tag)


cdef int op_query(ForestState* s, Part* out) except -1 nogil:
    return forest_query(s, out)


cdef int op_identity(const Lift* how, Part* out) except -1 nogil:
    return identity(how, out)


cdef int op_fill(
    ForestState* s, const Cell* values, const uint8_t* valid, int64_t front, int64_t back, const Part* tag
) except -1 nogil:
    return forest_fill(s, values, valid, front, back, tag)


cdef int op_extend(ForestState* s, int level, int64_t position, Part* out) except -1 nogil:
    return combine(&s.how, out, out, node_at(s, level, position, out))


cdef int op_slide(
    ForestState* s, const Cell* values, const uint8_t* valid, int64_t first,
    const int64_t* lo, const int64_t* hi, int64_t n, Part* out,
) except -1 nogil:
    return slide_rows(s, values, valid, first, lo, hi, n, out)


cdef ForestOps ops_of(Part* tag) noexcept:
    cdef ForestOps ops
    ops.size = sizeof(Part)
    ops.insert = <int (*)(ForestState*, Cell, bint, const void*) except -1 nogil> op_insert[Part]
    ops.resize = <int (*)(ForestState*, int64_t, int64_t, const void*) except -1 nogil> op_resize[Part]
    ops.evict_to = <int (*)(ForestState*, int64_t, const void*) except -1 nogil> op_evict_to[Part]
    ops.query = <int (*)(ForestState*, void*) except -1 nogil> op_query[Part]
    ops.identity = <int (*)(const Lift*, void*) except -1 nogil> op_identity[Part]
    ops.fill = <int (*)(ForestState*, const Cell*, const uint8_t*, int64_t, int64_t,
                        const void*) except -1 nogil> op_fill[Part]
    ops.extend = <int (*)(ForestState*, int, int64_t, void*) except -1 nogil> op_extend[Part]
    ops.slide = <int (*)(ForestState*, const Cell*, const uint8_t*, int64_t, const int64_t*,
                         const int64_t*, int64_t, void*) except -1 nogil> op_slide[Part]
    return ops


ctypedef int64_t (*lower_t)(const Lift*, const Wanted*, const void*, int64_t) noexcept nogil

cdef ForestOps INT_SUM = ops_of(<IntSum*> NULL)
cdef ForestOps FLOAT_SUM = ops_of(<FloatSum*> NULL)
cdef ForestOps EXTREMES = ops_of(<Extreme*> NULL)
cdef ForestOps MOMENTS = ops_of(<Moments*> NULL)
cdef ForestOps RUNS = ops_of(<Runs*> NULL)
cdef ForestOps PRODUCTS = ops_of(<Products*> NULL)
cdef ForestOps ONE_CELL = ops_of(<OneCell*> NULL)
cdef ForestOps CELLS = ops_of(<Cells*> NULL)
cdef ForestOps BOXED = ops_of(<Boxed*> NULL)
INT_SUM.lower = <lower_t> lower_int_sums
FLOAT_SUM.lower = <lower_t> lower_float_sums
EXTREMES.lower = <lower_t> lower_extremes
MOMENTS.lower = <lower_t> lower_moments
RUNS.lower = <lower_t> lower_runs
PRODUCTS.lower = <lower_t> lower_products
ONE_CELL.lower = <lower_t> lower_one_cell
CELLS.lower = <lower_t> lower_cells
BOXED.lower = <lower_t> lower_boxed


cdef ForestOps* find_ops(str monoid, Source source) except NULL:
    if monoid == "sum":
        return &FLOAT_SUM if source == FLOAT else &INT_SUM
    if monoid == "min" or monoid == "max":
        return &EXTREMES
    if monoid == "moments":
        return &MOMENTS
    if monoid == "runs":
        return &RUNS
    if monoid == "products":
        return &PRODUCTS
    if monoid == "cell":
        return &ONE_CELL
    if monoid == "cells":
        return &CELLS
    if monoid == "object":
        return &BOXED
    raise ValueError(f"no monoid {monoid!r}")


cdef Source find_source(str source) except *:
    if source == "float":
        return FLOAT
    if source == "int":
        return INT
    if source == "uint":
        return UINT
    if source == "object":
        return OBJECT
    raise ValueError(f"no source {source!r}")


cdef Lift make_lift(str monoid, str source, str nan) except *:
    """min is max over inverted keys. A NaN that propagates is the greatest key either way; one that
    is "greatest" is so before the inversion, which makes it the last choice of min."""
    cdef Lift how
    how.source = find_source(source)
    how.flip = -1 if monoid == "min" else 0
    how.nan_key = INT64_MAX
    how.ctx = NULL
    if how.source == UINT:
        how.flip ^= INT64_MIN
    if nan == "greatest" and monoid == "min":
        # One above the identity, below every double: -inf's key inverted is greater.
        how.nan_key = INT64_MIN + 1
    return how


OUTPUTS = {
    "sum": SUM, "mean": MEAN, "min": EXTREME, "max": EXTREME, "var": VAR, "std": STD,
    "longest_run": RUN, "product": PRODUCT, "geometric_mean": GEOMETRIC_MEAN, "object": VALUE,
}


cdef bint gives_float(Output what, Source source) noexcept:
    """Whether that answer of such values is a double."""
    if what in (MEAN, VAR, STD, GEOMETRIC_MEAN):
        return True
    return source == FLOAT and what != RUN


cdef Output find_output(str what) except *:
    if what not in OUTPUTS:
        raise ValueError(f"no output {what!r}")
    return OUTPUTS[what]


cdef object cell_to_python(Cell cell, bint is_float, bint unsigned):
    if is_float:
        return cell.f
    return <uint64_t> cell.i if unsigned else cell.i


cdef class Lowering:
    """The answers wanted of one partial, and the arrays they go to."""

    def __cinit__(self, wanted):
        self.n = len(wanted)
        if self.n > MAX_OUTPUTS:
            raise ValueError("too many answers of one partial")
        for i, (what, ddof) in enumerate(wanted):
            self.wanted[i].what = find_output(what)
            self.wanted[i].ddof = ddof

    def answer_to(self, arrays):
        """arrays : 8-byte arrays, one per answer"""
        cdef int64_t n
        cdef int i = 0
        self.arrays = arrays    # keeps the pointers below alive
        for array in arrays:
            self.wanted[i].out = <Cell*> items_of(array, sizeof(Cell), &n, True)
            i += 1

    cdef int64_t run(self, const ForestOps* ops, const Lift* how, const void* parts, int64_t start,
                     int64_t n, const int64_t* lo, const int64_t* hi, const int64_t* counts) noexcept nogil:
        """Lower parts[0..n) to the answers start..start + n; the first that overflows, or -1. One
        that does keeps no other answer from being given."""
        cdef Wanted wanted
        cdef int64_t failed, first = -1
        cdef int k
        for k in range(self.n):
            wanted = self.wanted[k]
            wanted.lo = lo + start
            wanted.hi = hi + start
            wanted.counts = counts + start if counts != NULL else NULL
            wanted.out += start
            failed = ops.lower(how, &wanted, parts, n)
            if failed >= 0 and (first < 0 or start + failed < first):
                first = start + failed
        return first


cdef class Forest:
    """The dyadic forest over one monoid.

    Parameters
    ----------
    monoid : "sum", "min", "max", "moments" (for var and std), "runs" (longest_run), "products" (product
        and geometric_mean) or "object"
    source : "float", "int", "uint" or "object": what the values are
    nan : "propagate" or "greatest", for min and max
    combine, zero : for "object", a Python callable ``combine(a, b)`` (associative, commutative or
        not) and its identity

    Positions count inserted rows from 0. Costs in combines: ``insert`` 2 amortised, ``evict`` 1
    amortised, ``evict(n)`` O(log n) for any n, ``query`` 1. Memory: 2 partials a row.
    The algorithm is AMTA of Villalba et al. 2018 (§4), laid out as in ``_core.pxd``.

    Examples
    --------
    >>> forest = Forest("object", "object", combine=str.__add__, zero="")
    >>> for letter in "abcd":
    ...     forest.insert(letter)
    >>> forest.evict(1)
    >>> forest.query()
    'bcd'
    """

    def __cinit__(self, str monoid, str source="float", str nan="propagate", *, combine=None, zero=None):
        self.ops = find_ops(monoid, find_source(source))
        self.monoid = monoid
        self.source = source
        self.nan = nan
        self.state.how = make_lift(monoid, source, nan)
        self.state.split = -1
        if monoid == "object":
            if not callable(combine):
                raise TypeError("combine: a callable of two values is needed")
            self.context = BoxedContext(combine, zero)
            self.state.how.ctx = <void*> self.context

    def __dealloc__(self):
        forest_release(&self.state)

    def __len__(self):
        return self.state.back - self.state.front

    @property
    def front(self):
        """Position of the oldest row inside."""
        return self.state.front

    @property
    def back(self):
        """Position after the newest row inside."""
        return self.state.back

    @property
    def nbytes(self):
        """Bytes held by the rings."""
        cdef int64_t bytes = 0
        cdef int level
        for level in range(MAX_LEVELS):
            bytes += ring_bytes(&self.state.rings[level], self.ops.size)
        return bytes

    cdef int insert_cell(self, Cell raw, bint valid) except -1:
        self.ops.insert(&self.state, raw, valid, NULL)
        if self.context is not None and len(self.context.keep) > 64 + 8 * self.swept:
            self.sweep()
        return 0

    def insert(self, value):
        """Append one value; None is the identity."""
        cdef Cell raw
        raw.i = 0
        if value is not None:
            if self.state.how.source == FLOAT:
                raw.f = value
            elif self.state.how.source == INT:
                raw.i = value
            elif self.state.how.source == UINT:
                raw.i = <int64_t> <uint64_t> value
            else:
                raw.i = <int64_t> <PyObject*> value
        self.insert_cell(raw, value is not None)

    def evict(self, int64_t n=1):
        """Drop the n oldest values (0 <= n <= len)."""
        if n < 0 or n > self.state.back - self.state.front:
            raise IndexError(f"n: {n} of {len(self)} rows")
        self.ops.evict_to(&self.state, self.state.front + n, NULL)

    def retract(self):
        """Take the newest value back, as if it had never been inserted. O(log n)."""
        if self.state.back == self.state.front:
            raise IndexError("the window is empty")
        self.ops.resize(&self.state, self.state.front, self.state.back - 1, NULL)

    def restart(self):
        """Forget everything and count positions from 0 again."""
        forest_restart(&self.state, 0)

    def query(self, str what="", int64_t n=-1):
        """The answer over the window: `what` is the name of an aggregate; n is the number of non-null
        values for "mean" and "geometric_mean", the ddof for "var" and "std"."""
        cdef char part[MAX_PART]
        self.ops.query(&self.state, part)
        if n < 0:
            n = 1 if self.monoid == "moments" else len(self)
        names = {"moments": "var", "runs": "longest_run", "products": "product"}
        return self.lower(find_output(what or names.get(self.monoid, self.monoid)), part, n)

    def slide(self, values, valid, int64_t first, const int64_t[::1] lo, const int64_t[::1] hi,
              const int64_t[::1] counts, outputs):
        """Slide over arrays: step i makes the window the rows [lo[i], hi[i]) and answers.

        values : 8-byte array whose item 0 is row `first`, the first row not inserted yet
        valid : uint8 array beside it, or None where every value counts
        lo, hi : non-decreasing row numbers, counted from the start of the stream
        counts : non-null values inside at each step, or None for hi - lo
        outputs : list of (what, ddof, int64 view of the answers to fill)

        Returns the first step whose integer answer does not fit in 64 bits, or -1.
        """
        cdef const int64_t[::1] raw = values.view(np.int64)
        cdef const uint8_t[::1] mask = valid
        cdef const Cell* cells = <const Cell*> &raw[0] if raw.shape[0] else NULL
        cdef const uint8_t* is_valid = &mask[0] if mask is not None and mask.shape[0] else NULL
        cdef const int64_t* count = &counts[0] if counts is not None and counts.shape[0] else NULL
        cdef Lowering lowering = Lowering([(what, ddof) for what, ddof, _ in outputs])
        cdef int64_t start = 0, n = lo.shape[0], step, failed = -1
        cdef void* parts = malloc(CHUNK * self.ops.size)
        if parts == NULL:
            raise MemoryError()
        lowering.answer_to([array for _, _, array in outputs])
        try:
            with nogil:
                while start < n and failed < 0:
                    step = min(<int64_t> CHUNK, n - start)
                    self.ops.slide(&self.state, cells, is_valid, first, &lo[start], &hi[start], step, parts)
                    failed = lowering.run(self.ops, &self.state.how, parts, start, step,
                                          &lo[0], &hi[0], count)
                    start += step
        finally:
            free(parts)
        return failed

    cdef object lower(self, Output what, const void* part, int64_t n):
        cdef Cell out
        cdef Wanted wanted
        cdef bint is_float = gives_float(what, self.state.how.source)
        wanted.what = what
        wanted.ddof = n
        wanted.counts = &n
        wanted.out = &out
        if self.ops.lower(&self.state.how, &wanted, part, 1) >= 0:
            raise OverflowError(f"the {self.monoid.rstrip('s')} does not fit in 64 bits")
        if what == VALUE:
            return <object> <PyObject*> out.i
        return cell_to_python(out, is_float, self.state.how.source == UINT)

    cdef sweep(self):
        """Let go of the Python values that nothing in the forest points to any more."""
        self.context.keep = live_boxes(&self.state)
        self.swept = len(self.context.keep)


cdef list live_boxes(ForestState* s):
    """The Python values that a forest of them points to."""
    cdef int64_t j
    cdef int level
    live = []
    for level in range(MAX_LEVELS):
        for j in range((s.front + (<int64_t> 1 << level) - 1) >> level, s.back >> level):
            live.append(<object> <PyObject*> ring_item(&s.rings[level], j, <Boxed*> NULL).value)
    return live + live_sides(s)


cdef list live_sides(ForestState* s):
    """Suffixes and prefixes are values of their own; those at other levels are never read."""
    cdef int level
    live = []
    if s.split >= 0:
        for level in range(MAX_LEVELS):
            if (s.split - s.front) >> level & 1:
                live.append(<object> <PyObject*> (<Boxed*> s.suffix)[level].value)
            if (s.back - s.split) >> level & 1:
                live.append(<object> <PyObject*> (<Boxed*> s.prefix)[level].value)
    return live
