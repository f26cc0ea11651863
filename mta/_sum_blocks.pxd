# cython: language_level=3
"""Compensated sums of rows in blocks of 16, four blocks side by side; see ``_sum_blocks.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport Lowering
from mta._kernel cimport Scan
from mta._monoids cimport SUM, Wanted


cdef extern from "_sum_blocks.h":
    # High and low parts apart: of blocks, and of their rows.
    ctypedef struct Sums "mta_sums":
        double* hi
        double* lo
    ctypedef struct RowSums "mta_row_sums":
        double* hi
        double* lo
    ctypedef struct Sum "mta_sum":
        double hi
        double lo
    ctypedef struct Stretch "mta_stretch":
        double* hi
        double* lo
    enum:
        BLOCK "MTA_SUM_BLOCK"
        STRETCH "MTA_STRETCH"
        TASKS "MTA_TASKS"
    void block_sums "mta_block_sums"(const double** rows, double* hi, double* lo) nogil
    void stretch_nodes "mta_stretch_nodes"(Stretch* n) nogil
    void stretch_suffixes "mta_stretch_suffixes"(const Stretch* n, int first, int last, int split,
                                                 const Sum* end, int64_t k, Sums* whole,
                                                 Sums* after) nogil
    void stretch_prefixes "mta_stretch_prefixes"(const Stretch* n, int split, int first, int last,
                                                 const Sum* begin, int64_t k, Sums* before) nogil
    void block_suffixes "mta_block_suffixes"(const double** rows, const Sums* whole, const Sums* after,
                                             int64_t k, RowSums* out) nogil
    void block_prefixes "mta_block_prefixes"(const double** rows, const Sums* before, int64_t k,
                                             RowSums* out) nogil
    int64_t place_of "mta_place"(int64_t row) nogil
    void join_sums "mta_join_sums"(const RowSums* suffix, int64_t from_, const RowSums* prefix,
                                   int64_t to, const int64_t* lo, const int64_t* hi, int64_t n,
                                   bint steady, double* out, double* out_lo) nogil


cdef extern from "_precise.h":
    void lower_sums "mta_lower_sums"(const double* hi, const double* lo, int step, int64_t n,
                                     double* out) nogil
    void lower_means "mta_lower_means"(const double* hi, const double* lo, int step,
                                       const int64_t* counts, const int64_t* first,
                                       const int64_t* last, int64_t n, bint same, double* out) nogil


cdef inline void fill_up(const double** rows, int n) noexcept nogil:
    """Repeat the last block until there is a multiple of four."""
    while n & 3:
        rows[n] = rows[n - 1]
        n += 1


cdef inline double* only_sums(Lowering lowering, int64_t start) noexcept nogil:
    """Where the sums of the windows from `start` on go, if nothing else is wanted; else NULL."""
    if lowering.n == 1 and lowering.wanted[0].what == SUM:
        return &lowering.wanted[0].out[start].f
    return NULL


cdef inline void lower_parts(Lowering lowering, const Scan* scan, const double* hi, const double* lo,
                             const int64_t* counts, int64_t start, int64_t n) noexcept nogil:
    """The answers start..start + n from the high and low parts of their sums."""
    cdef const Wanted* w
    cdef int k
    for k in range(lowering.n):
        w = &lowering.wanted[k]
        if w.what == SUM:
            lower_sums(hi, lo, 1, n, &w.out[start].f)
        else:
            lower_means(hi, lo, 1, counts + start if counts != NULL else NULL,
                        &scan.lo[start], &scan.hi[start], n,
                        scan.steady and counts == NULL, &w.out[start].f)
