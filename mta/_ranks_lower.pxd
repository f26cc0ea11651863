# cython: language_level=3
"""Quantiles of sorted values, in C: keys in their order, where they lie, what they come to."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

# Every header is named, for only those that are come along to where the C code is compiled.
cdef extern from *:
    """
    #if defined(__GNUC__)
    #pragma GCC diagnostic ignored "-Wunused-function"  /* the headers have more than is used */
    #endif
    """

cdef extern from "_ranks_sort.h":
    enum:
        MTA_RANK_FLOAT
        MTA_RANK_INT
        MTA_RANK_UINT
    int64_t MTA_NAN_BITS
    int64_t mta_rank_key(int64_t raw, int source) nogil
    int64_t mta_rank_cell(int64_t key, int source) nogil

cdef extern from "_ranks_lower.h":
    enum:
        MTA_LINEAR
        MTA_LOWER
        MTA_HIGHER
        MTA_MIDPOINT
        MTA_NEAREST

    ctypedef struct mta_quantile:
        double q
        int interpolation
        int64_t position
        int pair
        double between
        int64_t* first
        int64_t* second
        double* share

    void mta_place(mta_quantile* q, int64_t n) nogil
    void mta_lower_quantile(const mta_quantile* q, int64_t n, int source, int64_t* out) nogil


cdef inline int64_t* room_for_found(mta_quantile* quantiles, int n, int64_t* old, int64_t windows) noexcept nogil:
    """Room for what is found for so many windows, in place of the old; NULL: there is no memory."""
    cdef int64_t* made
    cdef int64_t* at
    cdef int k
    free(old)
    made = at = <int64_t*> malloc((3 * n * windows + 1) * sizeof(int64_t))
    for k in range(n if made != NULL else 0):
        quantiles[k].first = at
        quantiles[k].second = at + windows
        quantiles[k].share = <double*> (at + 2 * windows)
        at += 3 * windows
    return made
