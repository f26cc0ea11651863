# distutils: depends = mta/_halves.h
"""Kernels of what takes more than sums: higher powers, pairs of columns, products, runs.

Each is a monoid, in C: ``_powers.h``, ``_pairs.h``, ``_products.h``, ``_runs.h``. What they have in
common, that a window is two halves and where its answers go, is ``_halves.pyx``.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from mta._halves cimport Column, HalvesKernel, bind_column, column_origin, set_column_origin
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport Cell


cdef extern from "_algebra.h":
    ctypedef struct Number "mta_dd":
        pass
    Number origin "mta_origin"(const Column* c) nogil


cdef extern from "_powers.h":
    ctypedef struct Powers "mta_powers":
        pass
    ctypedef struct PowersRows "mta_powers_rows":
        Column x
        const uint8_t* valid
    ctypedef struct PowersPart "mta_powers_part":
        int64_t n
        Powers sums
    enum:
        SKEW "MTA_SKEW"
        KURT "MTA_KURT"
    void powers_clear "mta_powers_clear"(Powers* r) nogil
    void powers_left "mta_powers_left"(const PowersRows* rows, int64_t lo, int64_t hi, Powers* r,
                                       Powers* out) nogil
    void powers_slide "mta_powers_slide"(
        const PowersRows* rows, const int64_t* lo, const int64_t* hi, int64_t n, int64_t last,
        const Powers* suffix, Powers* r, Powers* out) nogil
    void lower_powers "mta_lower_powers"(const Powers* part, const double* count, int64_t rows,
                                         int what, bint sample, double* out) nogil
    void powers_begin "mta_powers_begin"(PowersPart* out, Number k) nogil
    void powers_lift "mta_powers_lift"(PowersPart* out, const Column* x, int64_t row) nogil
    void powers_combine "mta_powers_combine"(PowersPart* out, const PowersPart* a,
                                             const PowersPart* b) nogil
    void around_row "mta_around_row"(Column* c, int64_t row) nogil


cdef extern from "_pairs.h":
    ctypedef struct Pairs "mta_pairs":
        pass
    ctypedef struct PairsRows "mta_pairs_rows":
        Column* columns
        const uint8_t* valid
    ctypedef struct PairsPart "mta_pairs_part":
        int64_t n
        Pairs sums
    enum:
        COV "MTA_COV"
        CORR "MTA_CORR"
        SLOPE "MTA_SLOPE"
        WEIGHTED_MEAN "MTA_WEIGHTED_MEAN"
    void pairs_clear "mta_pairs_clear"(Pairs* r) nogil
    void pairs_left "mta_pairs_left"(const PairsRows* rows, int64_t lo, int64_t hi, Pairs* r,
                                     Pairs* out) nogil
    void pairs_slide "mta_pairs_slide"(
        const PairsRows* rows, const int64_t* lo, const int64_t* hi, int64_t n, int64_t last,
        const Pairs* suffix, Pairs* r, Pairs* out) nogil
    void lower_pairs "mta_lower_pairs"(const Pairs* part, const double* count, int64_t rows,
                                       int what, double ddof, double* out) nogil
    void pairs_begin "mta_pairs_begin"(PairsPart* out, Number k, Number l) nogil
    void pairs_lift "mta_pairs_lift"(PairsPart* out, const Column* columns, int64_t row) nogil
    void pairs_lift_plain "mta_pairs_lift_plain"(PairsPart* out, const Column* columns, int64_t row) nogil
    void pairs_combine "mta_pairs_combine"(PairsPart* out, const PairsPart* a, const PairsPart* b) nogil


cdef extern from "_products.h":
    ctypedef struct Products "mta_products":
        pass
    ctypedef struct ProductsRows "mta_products_rows":
        Column x
        const uint8_t* valid
    enum:
        PRODUCT "MTA_PRODUCT"
        GEOMETRIC_MEAN "MTA_GEOMETRIC_MEAN"
    void products_clear "mta_products_clear"(Products* r) nogil
    void products_left "mta_products_left"(const ProductsRows* rows, int64_t lo, int64_t hi,
                                           Products* r, Products* out) nogil
    void products_slide "mta_products_slide"(
        const ProductsRows* rows, const int64_t* lo, const int64_t* hi, int64_t n, int64_t last,
        const Products* suffix, Products* r, Products* out) nogil
    void lower_products "mta_lower_products"(const Products* part, const double* count,
                                             int64_t rows, int what, double* out) nogil
    int64_t lower_int_products "mta_lower_int_products"(
        const Products* part, const double* count, int64_t rows, bint is_unsigned, double need,
        int64_t* out) nogil
    void products_lift "mta_products_lift"(Products* out, const ProductsRows* rows, int64_t row) nogil
    void products_combine "mta_products_combine"(Products* out, const Products* a, const Products* b) nogil


cdef extern from "_runs.h":
    ctypedef struct Runs "mta_runs":
        pass
    ctypedef struct RunsRows "mta_runs_rows":
        Column x
        const uint8_t* valid
    void runs_clear "mta_runs_clear"(Runs* r) nogil
    void runs_left "mta_runs_left"(const RunsRows* rows, int64_t lo, int64_t hi, Runs* r,
                                   Runs* out) nogil
    void runs_slide "mta_runs_slide"(
        const RunsRows* rows, const int64_t* lo, const int64_t* hi, int64_t n, int64_t last,
        const Runs* suffix, Runs* r, Runs* out) nogil
    void lower_runs "mta_lower_runs"(const Runs* part, int64_t rows, int64_t* out) nogil
    void runs_lift "mta_runs_lift"(Runs* out, const Column* x, int64_t row) nogil
    void runs_join "mta_runs_join"(Runs* out, const Runs* a, const Runs* b) nogil


SOURCES = ("float", "int", "uint")


cdef int check_source(str source) except -1:
    if source not in SOURCES:
        raise ValueError(f"source is one of {', '.join(SOURCES)}, not {source!r}")
    return 0


cdef class PowersKernel(HalvesKernel):
    """skew and kurt of one column: sums of the first four powers of x - k (Pébay, SAND2008-6212).

    source : "float", "int" or "uint"
    wanted : list of ("skew", bias) and ("kurt", bias), one per answer; kurt is the excess

    With bias, of all rows: g1 and g2; without, of a sample: G1, G2, as pandas and SAS have them.
    NaN where all values are equal, where one is not finite, and for fewer values than these need.
    Any magnitudes: sums are scaled. Errors are near 2^-90 before the answer is rounded.
    """

    cdef PowersRows rows
    cdef str source

    def __cinit__(self, Counter counter, str source, wanted):
        check_source(source)
        self.source = source
        self.ask(wanted, {"skew": SKEW, "kurt": KURT})
        self.reserve(sizeof(Powers))

    def __init__(self, Counter counter, str source, wanted):
        Kernel.__init__(self, counter)

    def attach(self, columns, valid, int64_t first):
        Kernel.attach(self, columns, valid, first)
        bind_column(&self.rows.x, self.scan.columns[0], self.source)
        self.rows.valid = self.scan.valid

    cdef void around(self, int64_t row) noexcept nogil:
        around_row(&self.rows.x, row)

    cdef void clear(self, void* part) noexcept nogil:
        powers_clear(<Powers*> part)

    cdef void left(self, int64_t lo, int64_t hi, void* part, void* out) noexcept nogil:
        powers_left(&self.rows, lo, hi, <Powers*> part, <Powers*> out)

    cdef void slide(self, const int64_t* lo, const int64_t* hi, int64_t n, const void* suffix) noexcept nogil:
        powers_slide(&self.rows, lo, hi, n, self.last, <const Powers*> suffix,
                     <Powers*> self.newer, <Powers*> self.parts)

    cdef int64_t lower(self, int what, int64_t option, const void* parts, int64_t n, Cell* out) noexcept nogil:
        lower_powers(<const Powers*> parts, self.counts, n, what, option == 0, &out.f)
        return -1

    cdef size_t monoid_size(self) noexcept nogil:
        return sizeof(PowersPart)

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        (<PowersPart*> part).n = 0
        if self.rows.valid == NULL or self.rows.valid[row]:
            powers_lift(<PowersPart*> part, &self.rows.x, row)

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        powers_combine(<PowersPart*> out, <const PowersPart*> a, <const PowersPart*> b)

    cdef const void* sums(self, const void* part) noexcept nogil:
        return &(<const PowersPart*> part).sums

    cdef void begin(self, void* part) noexcept nogil:
        powers_begin(<PowersPart*> part, origin(&self.rows.x))

    cdef void count(self, void* part, int64_t n) noexcept nogil:
        (<PowersPart*> part).n = n

    cdef void prepend(self, void* part, const void* older) noexcept nogil:
        powers_combine(<PowersPart*> part, <const PowersPart*> part, <const PowersPart*> older)

    cdef void tell_origin(self, Cell* to) noexcept nogil:
        column_origin(&self.rows.x, to)

    cdef void go_to_origin(self, const Cell* told) noexcept nogil:
        set_column_origin(&self.rows.x, told)


cdef class PairsKernel(HalvesKernel):
    """cov, corr and slope of two columns: sums of x - k, y - l, their squares and their product.

    sources : "float", "int" or "uint" of each column
    wanted : list of ("cov", ddof), ("corr", 0) and ("slope", 0), one per answer; the slope is that
        of the first column over the second

    (k, l) is a row of the window, so offsets cost no digits: errors are near 2^-90 of the product of
    the spreads. NaN where a spread that is divided by is 0 and where a value is not finite. Any
    magnitudes: the columns are scaled apart. A correlation is within [-1, 1].
    """

    cdef PairsRows rows
    cdef list sources

    def __cinit__(self, Counter counter, sources, wanted):
        self.sources = list(sources)
        if len(self.sources) != 2:
            raise ValueError(f"two columns, not {len(self.sources)}")
        for source in self.sources:
            check_source(source)
        self.reserve(sizeof(Pairs))

    def __init__(self, Counter counter, sources, wanted):
        Kernel.__init__(self, counter)
        self.ask(wanted, {"cov": COV, "corr": CORR, "slope": SLOPE})

    def attach(self, columns, valid, int64_t first):
        Kernel.attach(self, columns, valid, first)
        for k in range(2):
            bind_column(&self.rows.columns[k], self.scan.columns[k], self.sources[k])
        self.rows.valid = self.scan.valid

    cdef void around(self, int64_t row) noexcept nogil:
        around_row(&self.rows.columns[0], row)
        around_row(&self.rows.columns[1], row)

    cdef void clear(self, void* part) noexcept nogil:
        pairs_clear(<Pairs*> part)

    cdef void left(self, int64_t lo, int64_t hi, void* part, void* out) noexcept nogil:
        pairs_left(&self.rows, lo, hi, <Pairs*> part, <Pairs*> out)

    cdef void slide(self, const int64_t* lo, const int64_t* hi, int64_t n, const void* suffix) noexcept nogil:
        pairs_slide(&self.rows, lo, hi, n, self.last, <const Pairs*> suffix,
                    <Pairs*> self.newer, <Pairs*> self.parts)

    cdef int64_t lower(self, int what, int64_t option, const void* parts, int64_t n, Cell* out) noexcept nogil:
        lower_pairs(<const Pairs*> parts, self.counts, n, what, <double> option, &out.f)
        return -1

    cdef size_t monoid_size(self) noexcept nogil:
        return sizeof(PairsPart)

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        (<PairsPart*> part).n = 0
        if self.rows.valid == NULL or self.rows.valid[row]:
            pairs_lift(<PairsPart*> part, self.rows.columns, row)

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        pairs_combine(<PairsPart*> out, <const PairsPart*> a, <const PairsPart*> b)

    cdef const void* sums(self, const void* part) noexcept nogil:
        return &(<const PairsPart*> part).sums

    cdef void begin(self, void* part) noexcept nogil:
        pairs_begin(<PairsPart*> part, origin(&self.rows.columns[0]), origin(&self.rows.columns[1]))

    cdef void count(self, void* part, int64_t n) noexcept nogil:
        (<PairsPart*> part).n = n

    cdef void prepend(self, void* part, const void* older) noexcept nogil:
        pairs_combine(<PairsPart*> part, <const PairsPart*> part, <const PairsPart*> older)

    cdef void tell_origin(self, Cell* to) noexcept nogil:
        column_origin(&self.rows.columns[0], to)
        column_origin(&self.rows.columns[1], to + 2)

    cdef void go_to_origin(self, const Cell* told) noexcept nogil:
        set_column_origin(&self.rows.columns[0], told)
        set_column_origin(&self.rows.columns[1], told + 2)


cdef class WeightedMeanKernel(PairsKernel):
    """weighted_mean(column, weights): sum(w x) / sum(w), both sums in double-doubles, around 0.

    sources : "float", "int" or "uint" of the values and of the weights
    wanted : [("weighted_mean", 0)], as often as it is asked

    Around 0, because a value of the window may have weight 0 and must then be worth nothing. NaN
    where the weights add up to 0; infinities and NaN inside give what doubles would. Columns are
    scaled apart: a product counts down to 2^-1000 of the greatest value times the greatest weight.
    """

    def __init__(self, Counter counter, sources, wanted):
        Kernel.__init__(self, counter)
        self.ask(wanted, {"weighted_mean": WEIGHTED_MEAN})

    cdef void around(self, int64_t row) noexcept nogil:
        pass

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        (<PairsPart*> part).n = 0
        if self.rows.valid == NULL or self.rows.valid[row]:
            pairs_lift_plain(<PairsPart*> part, self.rows.columns, row)

    cdef void begin(self, void* part) noexcept nogil:
        memset(part, 0, sizeof(PairsPart))
        pairs_clear(&(<PairsPart*> part).sums)
        (<PairsPart*> part).n = 1


cdef class ProductsKernel(HalvesKernel):
    """product and geometric_mean of one column: a mantissa in double-double and an int64 exponent.

    source : "float", "int" or "uint"
    wanted : list of ("product", need) and ("geometric_mean", 0), one per answer; a product of
        integers that does not fit is an error only where the window has `need` values

    Nothing overflows on the way, and a 0, an infinity or a NaN is noted beside the product of the
    other factors. Products of floats are rounded once, at the end, from an error of about n 2^-105;
    those of integers are exact. The geometric mean is within 2 ulp where exp2 and log2 are within 1.
    """

    cdef ProductsRows rows
    cdef str source

    def __cinit__(self, Counter counter, str source, wanted):
        check_source(source)
        self.source = source
        self.ask(wanted, {"product": PRODUCT, "geometric_mean": GEOMETRIC_MEAN})
        self.reserve(sizeof(Products))

    def __init__(self, Counter counter, str source, wanted):
        Kernel.__init__(self, counter)

    def attach(self, columns, valid, int64_t first):
        Kernel.attach(self, columns, valid, first)
        bind_column(&self.rows.x, self.scan.columns[0], self.source)
        self.rows.valid = self.scan.valid

    cdef void clear(self, void* part) noexcept nogil:
        products_clear(<Products*> part)

    cdef void left(self, int64_t lo, int64_t hi, void* part, void* out) noexcept nogil:
        products_left(&self.rows, lo, hi, <Products*> part, <Products*> out)

    cdef void slide(self, const int64_t* lo, const int64_t* hi, int64_t n, const void* suffix) noexcept nogil:
        products_slide(&self.rows, lo, hi, n, self.last, <const Products*> suffix,
                       <Products*> self.newer, <Products*> self.parts)

    cdef int64_t lower(self, int what, int64_t option, const void* parts, int64_t n, Cell* out) noexcept nogil:
        if what == PRODUCT and self.rows.x.i != NULL:
            return lower_int_products(<const Products*> parts, self.counts, n,
                                      self.rows.x.flip != 0, <double> option, &out.i)
        lower_products(<const Products*> parts, self.counts, n, what, &out.f)
        return -1

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        products_lift(<Products*> part, &self.rows, row)

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        products_combine(<Products*> out, <const Products*> a, <const Products*> b)


cdef class RunsKernel(HalvesKernel):
    """longest_run of one column: rows in the longest run of strictly increasing values (MTA, 2018).

    source : "float", "int" or "uint"

    Nulls are skipped: a run goes on after one. A NaN is a run of its own.
    """

    cdef RunsRows rows
    cdef str source

    def __cinit__(self, Counter counter, str source):
        check_source(source)
        self.source = source
        self.ask([("longest_run", 0)], {"longest_run": 0})
        self.reserve(sizeof(Runs))

    def __init__(self, Counter counter, str source):
        Kernel.__init__(self, counter)

    def attach(self, columns, valid, int64_t first):
        Kernel.attach(self, columns, valid, first)
        bind_column(&self.rows.x, self.scan.columns[0], self.source)
        self.rows.valid = self.scan.valid

    cdef void clear(self, void* part) noexcept nogil:
        runs_clear(<Runs*> part)

    cdef void left(self, int64_t lo, int64_t hi, void* part, void* out) noexcept nogil:
        runs_left(&self.rows, lo, hi, <Runs*> part, <Runs*> out)

    cdef void slide(self, const int64_t* lo, const int64_t* hi, int64_t n, const void* suffix) noexcept nogil:
        runs_slide(&self.rows, lo, hi, n, self.last, <const Runs*> suffix,
                   <Runs*> self.newer, <Runs*> self.parts)

    cdef int64_t lower(self, int what, int64_t option, const void* parts, int64_t n, Cell* out) noexcept nogil:
        lower_runs(<const Runs*> parts, n, &out.i)
        return -1

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        runs_clear(<Runs*> part)
        if self.rows.valid == NULL or self.rows.valid[row]:
            runs_lift(<Runs*> part, &self.rows.x, row)

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        runs_join(<Runs*> out, <const Runs*> a, <const Runs*> b)
