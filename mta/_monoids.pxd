# cython: language_level=3
"""The monoids: partial aggregates as small C structs, with lift and combine inlined.

Every algorithm is written once over the fused type ``Part``; the C compiler sees one copy per
monoid with its ``combine`` inlined. ``lower`` runs once per answer and lives in ``_monoids.pyx``.

==========  ===========================  =============================================  =========
partial     serves                       combine                                        bytes
==========  ===========================  =============================================  =========
IntSum      sum, mean of integers        128-bit addition, exact                        16
FloatSum    sum, mean of floats          two_sum, errors gathered in ``lo``             16
Extreme     min, max                     the greater of two order-preserving keys       8
Moments     var, std                     sums of (x - k) and (x - k)^2 as doubledoubles 56
Runs        longest_run                  runs at both ends and the longest (_runs_part) 56
Products    product, geometric_mean      mantissas as doubledoubles (_products_part)    32
OneCell     a user's number              a compiled function, at its address            16
Cells       a user's 2 to 7 numbers      the same                                       64
Boxed       any Python values            a Python callable                              8
==========  ===========================  =============================================  =========
"""
from libc.math cimport isfinite
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from mta._exact cimport DD, dd, dd_from_int64, dd_from_uint64, int128, int128_from_u64, two_sum


cdef union Cell:
    double f
    int64_t i


cdef struct IntSum:
    int128 value


cdef struct FloatSum:
    double hi
    double lo


cdef struct Extreme:
    int64_t key


cdef struct Moments:
    # Sums are taken of x - k, where k is one of the x. Then n (mean - k)^2 is at most n times the
    # sum of squared deviations, so subtracting it at the end loses at most log2(n) of 106 bits,
    # whatever the data. Any k fixed in advance has no such bound.
    int64_t n
    DD k
    DD s1
    DD s2


cdef extern from "_simd.h":      # these three are included by the next one
    pass
cdef extern from "_double_pairs.h":
    pass
cdef extern from "_spread.h":
    pass


cdef extern from "_precise.h":
    # What the C loops over Moments call them; the layout is the same.
    ctypedef struct CMoments "mta_moments":
        pass
    void combine_moments "mta_combine_moments"(CMoments* out, const CMoments* a, const CMoments* b) nogil


cdef extern from "_runs_part.h":
    ctypedef struct RunsOf "mta_runs":
        int64_t n
        int64_t best
    ctypedef struct Runs "mta_placed_runs":
        RunsOf runs
        int64_t before       # rows before the longest run
    void runs_clear "mta_runs_clear"(RunsOf* out) nogil
    void runs_of_key "mta_runs_of_key"(RunsOf* out, int64_t key) nogil
    void runs_of_float "mta_runs_of_float"(RunsOf* out, double x) nogil
    void combine_runs "mta_placed_runs_join"(Runs* out, const Runs* a, const Runs* b) nogil


cdef extern from "_products_part.h":
    ctypedef struct DDOfC "mta_dd":
        double hi
        double lo
    ctypedef struct Products "mta_products":
        double hi
    void products_clear "mta_products_clear"(Products* out) nogil
    void products_of_float "mta_products_of_float"(Products* out, double x) nogil
    void products_of_int "mta_products_of_int"(Products* out, DDOfC x) nogil
    void combine_products "mta_products_combine"(Products* out, const Products* a, const Products* b) nogil


cdef struct OneCell:
    int64_t some       # 0: of no value. What users call zero often is none to a NaN
    int64_t cell


cdef struct Cells:
    int64_t some
    int64_t cell[7]


cdef struct CellFunctions:
    # What numba compiles (``_compiled_monoids.py``): n at a time, every so many cells. No function
    # raises; `out` may be `a` or `b`.
    int64_t columns    # of one, raw values are the values; of more, where they are
    void (*lift)(const void* values, void* out, int64_t step, int64_t n) noexcept nogil
    void (*combine)(void* out, const void* a, const void* b) noexcept nogil
    void (*combine_runs)(void* out, int64_t step, const void* a, int64_t a_step, const void* b,
                         int64_t b_step, int64_t n) noexcept nogil
    void (*lower)(const void* parts, int64_t step, int64_t n, void* out) noexcept nogil


cdef struct Boxed:
    void* value


ctypedef fused Part:
    IntSum
    FloatSum
    Extreme
    Moments
    Runs
    Products
    OneCell
    Cells
    Boxed


cdef enum Source:
    FLOAT
    INT
    UINT
    OBJECT


cdef enum Output:
    SUM
    MEAN
    EXTREME
    VAR
    STD
    RUN
    PRODUCT
    GEOMETRIC_MEAN
    VALUE


cdef struct Lift:
    # How a raw 8-byte value becomes a partial.
    Source source
    int64_t flip       # Extreme: xor that turns raw order into key order (min: all bits)
    int64_t nan_key    # Extreme: the key of NaN
    void* ctx          # Boxed: its context; OneCell, Cells: their CellFunctions


cdef class BoxedContext:
    cdef object combine
    cdef object zero
    cdef list keep


cdef int boxed_identity(void* ctx, Boxed* out) except -1 nogil
cdef int boxed_lift(void* ctx, Boxed* out, int64_t raw) except -1 nogil
cdef int boxed_combine(void* ctx, Boxed* out, const Boxed* a, const Boxed* b) except -1 nogil


cdef inline int identity(const Lift* how, Part* out) except -1 nogil:
    if Part is IntSum:
        out.value = 0
    elif Part is FloatSum:
        out.hi = 0.0
        out.lo = 0.0
    elif Part is Extreme:
        out.key = INT64_MIN
    elif Part is Moments:
        out.n = 0
        out.k = dd(0.0, 0.0)
        out.s1 = dd(0.0, 0.0)
        out.s2 = dd(0.0, 0.0)
    elif Part is Runs:
        runs_clear(&out.runs)
        out.before = 0
    elif Part is Products:
        products_clear(out)
    elif Part is OneCell or Part is Cells:
        memset(out, 0, sizeof(Part))
    else:
        boxed_identity(how.ctx, out)
    return 0


cdef inline int64_t float_key(double x) noexcept nogil:
    """int64 in the order of the doubles, -0.0 below 0.0; its own inverse on the bits."""
    cdef Cell c
    c.f = x
    return c.i ^ ((c.i >> 63) & INT64_MAX)


cdef inline double float_of_key(int64_t key) noexcept nogil:
    cdef Cell c
    c.i = key ^ ((key >> 63) & INT64_MAX)
    return c.f


cdef inline DD raw_as_dd(const Lift* how, Cell raw) noexcept nogil:
    if how.source == FLOAT:
        return dd(raw.f, 0.0)
    if how.source == INT:
        return dd_from_int64(raw.i)
    return dd_from_uint64(<uint64_t> raw.i)


cdef inline int lift(const Lift* how, Part* out, Cell raw) except -1 nogil:
    cdef DD x
    cdef DDOfC number
    if Part is IntSum:
        out.value = int128_from_u64(<uint64_t> raw.i) if how.source == UINT else <int128> raw.i
    elif Part is FloatSum:
        out.hi = raw.f
        out.lo = 0.0
    elif Part is Extreme:
        if how.source != FLOAT:
            out.key = raw.i ^ how.flip
        elif raw.f != raw.f:
            out.key = how.nan_key
        else:
            out.key = float_key(raw.f) ^ how.flip
    elif Part is Moments:
        out.n = 1
        out.k = raw_as_dd(how, raw)
        # Infinities and NaN poison the sums here, so that combine needs no case for them.
        out.s1 = dd(0.0 if isfinite(out.k.hi) else out.k.hi - out.k.hi, 0.0)
        out.s2 = out.s1
    elif Part is Runs:
        out.before = 0
        if how.source == FLOAT:
            runs_of_float(&out.runs, raw.f)
        else:
            runs_of_key(&out.runs, raw.i ^ how.flip)
    elif Part is Products:
        if how.source == FLOAT:
            products_of_float(out, raw.f)
        else:
            x = raw_as_dd(how, raw)
            number.hi, number.lo = x.hi, x.lo
            products_of_int(out, number)
    elif Part is OneCell or Part is Cells:
        (<const CellFunctions*> how.ctx).lift(
            &raw if (<const CellFunctions*> how.ctx).columns == 1 else <const void*> raw.i, out, 0, 1)
    else:
        boxed_lift(how.ctx, out, raw.i)
    return 0


cdef inline int combine(const Lift* how, Part* out, const Part* a, const Part* b) except -1 nogil:
    """out = a · b, in this order; out may be a or b."""
    cdef DD s
    if Part is IntSum:
        out.value = a.value + b.value
    elif Part is FloatSum:
        s = two_sum(a.hi, b.hi)
        out.lo = (a.lo + b.lo) + s.lo
        out.hi = s.hi
    elif Part is Extreme:
        out.key = a.key if a.key > b.key else b.key
    elif Part is Moments:
        combine_moments(<CMoments*> out, <const CMoments*> a, <const CMoments*> b)
    elif Part is Runs:
        combine_runs(out, a, b)
    elif Part is Products:
        combine_products(out, a, b)
    elif Part is OneCell or Part is Cells:
        (<const CellFunctions*> how.ctx).combine(out, a, b)
    else:
        boxed_combine(how.ctx, out, a, b)
    return 0


cdef inline int lift_some(const Lift* how, Part* out, const Cell* raw, int n) except -1 nogil:
    """n values; of one column."""
    cdef int i
    if Part is OneCell or Part is Cells:
        (<const CellFunctions*> how.ctx).lift(raw, out, sizeof(Part) // sizeof(Cell), n)
    else:
        for i in range(n):
            lift(how, &out[i], raw[i])
    return 0


cdef inline int combine_some(const Lift* how, Part* out, int step, const Part* a, int a_step, const Part* b,
                             int b_step, int n) except -1 nogil:
    """out[i step] = a[i a_step] · b[i b_step], one after the other."""
    cdef int cells = sizeof(Part) // sizeof(Cell), i
    if Part is OneCell or Part is Cells:
        (<const CellFunctions*> how.ctx).combine_runs(out, step * cells, a, a_step * cells, b,
                                                      b_step * cells, n)
    else:
        for i in range(n):
            combine(how, &out[i * step], &a[i * a_step], &b[i * b_step])
    return 0


cdef struct Wanted:
    # One answer of a partial, over a run of rows.
    Output what
    int64_t ddof             # var, std
    const int64_t* lo        # the window of row i holds hi[i] - lo[i] values,
    const int64_t* hi
    const int64_t* counts    # or counts[i] of them, where this is not NULL
    Cell* out


# Answers out[i] from parts[i]; the first row whose integer does not fit in 64 bits, or -1.
cdef int64_t lower_int_sums(const Lift* how, const Wanted* w, const IntSum* parts, int64_t n) noexcept nogil
cdef int64_t lower_float_sums(const Lift* how, const Wanted* w, const FloatSum* parts, int64_t n) noexcept nogil
cdef int64_t lower_extremes(const Lift* how, const Wanted* w, const Extreme* parts, int64_t n) noexcept nogil
cdef int64_t lower_moments(const Lift* how, const Wanted* w, const Moments* parts, int64_t n) noexcept nogil
cdef int64_t lower_runs(const Lift* how, const Wanted* w, const Runs* parts, int64_t n) noexcept nogil
cdef int64_t lower_products(const Lift* how, const Wanted* w, const Products* parts, int64_t n) noexcept nogil
cdef int64_t lower_one_cell(const Lift* how, const Wanted* w, const OneCell* parts, int64_t n) noexcept nogil
cdef int64_t lower_cells(const Lift* how, const Wanted* w, const Cells* parts, int64_t n) noexcept nogil
cdef int64_t lower_boxed(const Lift* how, const Wanted* w, const Boxed* parts, int64_t n) noexcept nogil
