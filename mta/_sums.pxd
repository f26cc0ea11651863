# cython: language_level=3
"""The exact sum of a window as a C struct: rows are taken in and out; see ``_sums.h``."""
from libc.stdint cimport int64_t, uint64_t

from mta._core cimport Lowering
from mta._kernel cimport Kernel
from mta._vector cimport Vector

cdef extern from "_superaccumulator.h":
    # A sum of doubles without any rounding, as a monoid: clear, add (lift), merge (combine), and, by
    # way of its leading bits, nearest (lower).
    ctypedef struct Superaccumulator "mta_superaccumulator":
        pass
    ctypedef struct Leading "mta_leading":
        pass
    void super_init "mta_super_init"(Superaccumulator* a) nogil
    void super_clear "mta_super_clear"(Superaccumulator* a) nogil
    void super_add "mta_super_add"(Superaccumulator* a, double x, int64_t sign) nogil
    void super_merge "mta_super_merge"(Superaccumulator* a, const Superaccumulator* b) nogil
    void super_carry "mta_super_carry"(Superaccumulator* a) nogil
    Leading super_leading "mta_super_leading"(const Superaccumulator* a) nogil
    double nearest "mta_nearest"(Leading a) nogil
    double nearest_quotient "mta_nearest_quotient"(Leading a, int64_t n) nogil

cdef extern from "_sums.h":
    enum:
        FEW "MTA_FEW"
        MANY "MTA_MANY"
    ctypedef struct Slices "mta_slices":
        int64_t slice[4]
    ctypedef struct Grid "mta_grid":
        double unit[4]
        int exponent
        int slices
    ctypedef struct Odd "mta_odd":
        int64_t nans
        int64_t plus
        int64_t minus
    ctypedef struct ExactSum "mta_exact_sum":
        Grid grid
        Slices sum
        Odd odd
        int64_t off_rows
        int64_t missed
    Grid grid_of "mta_grid_of"(int exponent, int slices) nogil
    void count_odd "mta_count_odd"(Odd* odd, double x, int64_t sign) nogil
    bint any_odd "mta_any_odd"(const Odd* odd) nogil
    double odd_sum "mta_odd_sum"(const Odd* odd) nogil
    void exact_init "mta_exact_init"(ExactSum* s) nogil
    void exact_clear "mta_exact_clear"(ExactSum* s) nogil
    void exact_add "mta_exact_add"(ExactSum* s, const double* x, int64_t n, int64_t sign) nogil
    bint exact_is_large "mta_exact_is_large"(const ExactSum* s) nogil
    double exact_lower "mta_exact_lower"(const ExactSum* s, const Slices* sum) nogil
    double exact_lower_mean "mta_exact_lower_mean"(const ExactSum* s, const Slices* sum, int64_t n) nogil
    # What kernels for other sums have use for as well.
    bint is_steady "mta_is_steady"(const int64_t* lo, const int64_t* hi, int64_t n) nogil
    bint moves_by_one "mta_moves_by_one"(const int64_t* lo, const int64_t* hi, int64_t n,
                                         int64_t first, int64_t last) nogil
    Slices run_up "mta_run_up"(int slices, Slices start, int64_t* x, int64_t n) nogil
    void join_slices "mta_join_slices"(int slices, Slices start, const int64_t* entered,
                                       const int64_t* left, const int64_t* lo, const int64_t* hi,
                                       int64_t first, int64_t last, int64_t n, int64_t* out) nogil


cdef enum:
    RUN = 256     # windows answered in one go
    ROWS = 512    # rows that may enter, and that may leave, over them


cdef class SubtractingKernel(Kernel):
    cdef Lowering lowering
    cdef Vector kept
    cdef int64_t first    # of the rows in the sum
    cdef int64_t last

    cdef int keep(self, column, int64_t first) except -1
