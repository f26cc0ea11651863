# cython: language_level=3
"""Minima and maxima of rows, four at a time; see ``_extremes.h``."""
from libc.stdint cimport int64_t, uint8_t

cdef extern from "_simd.h":
    enum:
        SOON "MTA_SOON"


cdef extern from "_extremes.h":
    enum:
        PIECE "MTA_PIECE"
        SHORT "MTA_SHORT"
        LEVELS "MTA_LEVELS"
        ROOM "MTA_ROOM"
        MARGIN "MTA_MARGIN"
    ctypedef enum Order "mta_order":
        KEYS "MTA_KEYS"
        GREATEST "MTA_GREATEST"
        LEAST "MTA_LEAST"
    int64_t nothing_in "mta_nothing"(Order order) nogil
    bint read_extremes "mta_read_piece"(Order order, const int64_t* raw, const uint8_t* valid,
                                        int64_t n, bint is_float, int64_t flip, int64_t nan_key,
                                        int64_t ahead, int64_t* out) nogil
    void keys_to_doubles "mta_keys_to_doubles"(int64_t* x, int64_t n, int64_t flip, int64_t nan_key) nogil
    int64_t suffix_extremes "mta_suffix_extremes"(Order order, const int64_t* x, int64_t n,
                                                  int64_t after, int64_t* out) nogil
    int64_t prefix_extremes "mta_prefix_extremes"(Order order, const int64_t* x, int64_t n,
                                                  int64_t before, int64_t* out) nogil
    void join_extremes "mta_join_extremes"(Order order, const int64_t* suffix, const int64_t* prefix,
                                           const int64_t* lo, const int64_t* hi, int64_t n,
                                           bint steady, int64_t* out) nogil
    void short_extremes "mta_short_extremes"(Order order, int64_t* levels, int64_t rows,
                                             int64_t width, const int64_t* lo, const int64_t* hi,
                                             int64_t n, bint steady, int64_t* out) nogil
    void blank "mta_blank"(const int64_t* count, int64_t n, int64_t* out) nogil
