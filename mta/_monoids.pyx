"""The part of the monoids that runs once per answer (lower) or calls Python (Boxed)."""
from cpython.object cimport PyObject
from libc.math cimport NAN, isfinite
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from mta._exact cimport divide_int128


cdef extern from "_precise.h":
    void lower_spread "mta_lower_spread"(const CMoments* parts, int64_t n, int64_t ddof, bint root,
                                         double* out) nogil
    void lower_sums "mta_lower_sums"(const double* hi, const double* lo, int step, int64_t n,
                                     double* out) nogil
    void lower_means "mta_lower_means"(const double* hi, const double* lo, int step,
                                       const int64_t* counts, const int64_t* first,
                                       const int64_t* last, int64_t n, bint same, double* out) nogil


cdef extern from "_products_part.h":
    double product_of_floats "mta_product_of_floats"(const Products* part) nogil
    bint product_of_ints "mta_product_of_ints"(const Products* part, bint is_unsigned, int64_t* out) nogil
    double geometric_mean "mta_geometric_mean"(const Products* part, double n) nogil


cdef extern from "_extremes.h":
    void keys_to_doubles "mta_keys_to_doubles"(int64_t* x, int64_t n, int64_t flip, int64_t nan_key) nogil


cdef inline int64_t count_at(const Wanted* w, int64_t i) noexcept nogil:
    return w.counts[i] if w.counts != NULL else w.hi[i] - w.lo[i]


cdef int64_t lower_int_sums(const Lift* how, const Wanted* w, const IntSum* parts, int64_t n) noexcept nogil:
    cdef int64_t i, count
    if w.what != MEAN:
        return lower_whole(<const int64_t*> parts, n, how.source == UINT, &w.out.i)
    for i in range(n):
        count = count_at(w, i)
        w.out[i].f = divide_int128(parts[i].value, count) if count > 0 else NAN
    return -1


cdef int64_t lower_whole(const int64_t* halves, int64_t n, bint is_unsigned, int64_t* out) noexcept nogil:
    """The low halves of integers of 128 bits. The first that does not fit in one is looked for only
    when there is one."""
    cdef int64_t i, odd = 0, sign = 0 if is_unsigned else -1
    for i in range(n):
        out[i] = halves[2 * i]
        odd |= halves[2 * i + 1] ^ ((halves[2 * i] >> 63) & sign)
    if odd == 0:
        return -1
    i = 0
    while halves[2 * i + 1] == ((halves[2 * i] >> 63) & sign):
        i += 1
    return i


cdef int64_t lower_float_sums(const Lift* how, const Wanted* w, const FloatSum* parts, int64_t n) noexcept nogil:
    if w.what == SUM:
        lower_sums(&parts.hi, &parts.lo, 2, n, &w.out.f)
    else:
        lower_means(&parts.hi, &parts.lo, 2, w.counts, w.lo, w.hi, n, False, &w.out.f)
    return -1


cdef int64_t lower_extremes(const Lift* how, const Wanted* w, const Extreme* parts, int64_t n) noexcept nogil:
    cdef int64_t i
    if how.source != FLOAT:
        for i in range(n):
            w.out[i].i = parts[i].key ^ how.flip
        return -1
    memcpy(w.out, parts, n * sizeof(Cell))
    keys_to_doubles(&w.out.i, n, how.flip, how.nan_key)
    return -1


cdef int64_t lower_moments(const Lift* how, const Wanted* w, const Moments* parts, int64_t n) noexcept nogil:
    lower_spread(<const CMoments*> parts, n, w.ddof, w.what == STD, &w.out.f)
    return -1


cdef int64_t lower_runs(const Lift* how, const Wanted* w, const Runs* parts, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        w.out[i].i = parts[i].runs.best
    return -1


cdef int64_t lower_products(const Lift* how, const Wanted* w, const Products* parts, int64_t n) noexcept nogil:
    cdef int64_t i, count
    for i in range(n):
        if w.what == GEOMETRIC_MEAN:
            count = count_at(w, i)
            w.out[i].f = geometric_mean(&parts[i], <double> count) if count > 0 else NAN
        elif how.source == FLOAT:
            w.out[i].f = product_of_floats(&parts[i])
        elif not product_of_ints(&parts[i], how.source == UINT, &w.out[i].i):
            return i
    return -1


cdef int64_t lower_one_cell(const Lift* how, const Wanted* w, const OneCell* parts, int64_t n) noexcept nogil:
    (<const CellFunctions*> how.ctx).lower(parts, sizeof(OneCell) // sizeof(Cell), n, w.out)
    return -1


cdef int64_t lower_cells(const Lift* how, const Wanted* w, const Cells* parts, int64_t n) noexcept nogil:
    (<const CellFunctions*> how.ctx).lower(parts, sizeof(Cells) // sizeof(Cell), n, w.out)
    return -1


cdef int64_t lower_boxed(const Lift* how, const Wanted* w, const Boxed* parts, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        w.out[i].i = <int64_t> parts[i].value
    return -1


cdef class BoxedContext:
    """Lets the forest run over Python values: holds combine, zero and whatever the forest points to.

    The forest copies partials freely, so it owns no references. Every value it has seen is kept
    alive here instead, and ``Forest`` sweeps the list down to the live ones when it has doubled.
    """

    def __cinit__(self, combine, zero):
        self.combine = combine
        self.zero = zero
        self.keep = []


cdef int boxed_identity(void* ctx, Boxed* out) except -1 nogil:
    with gil:
        out.value = <void*> (<BoxedContext> ctx).zero
    return 0


cdef int boxed_lift(void* ctx, Boxed* out, int64_t raw) except -1 nogil:
    with gil:
        (<BoxedContext> ctx).keep.append(<object> <PyObject*> raw)
        out.value = <void*> raw
    return 0


cdef int boxed_combine(void* ctx, Boxed* out, const Boxed* a, const Boxed* b) except -1 nogil:
    """Zero, the very object, needs no call (and what users call zero often is none to a NaN)."""
    cdef void* zero
    with gil:
        context = <BoxedContext> ctx
        zero = <void*> context.zero
        if a.value == zero or b.value == zero:
            out.value = b.value if a.value == zero else a.value
            return 0
        value = context.combine(<object> <PyObject*> a.value, <object> <PyObject*> b.value)
        context.keep.append(value)
        out.value = <void*> <PyObject*> value
    return 0
