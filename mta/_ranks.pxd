# cython: language_level=3
"""A window of order statistics, in C: blocks of ranks and a counted tree; see ``_ranks.pyx``."""
from libc.stdint cimport int64_t, uint8_t

from mta._ranks_lower cimport (
    MTA_HIGHER, MTA_LINEAR, MTA_LOWER, MTA_MIDPOINT, MTA_NAN_BITS, MTA_NEAREST, MTA_RANK_FLOAT,
    MTA_RANK_INT, MTA_RANK_UINT, mta_lower_quantile, mta_quantile, room_for_found,
)

# Every header is named, for only those that are come along to where the C code is compiled.
cdef extern from "_ranks_sort.h":
    ctypedef struct mta_rows:
        const int64_t* values
        const uint8_t* valid
        int source


cdef extern from "_ranks_block.h":
    int64_t MTA_MAX_BLOCK

    ctypedef struct mta_cursor:
        pass

    ctypedef struct mta_block:
        int64_t base        # its rows are [base, end)
        int64_t end

    int mta_is_fast() nogil
    void mta_block_release(mta_block* b) nogil


cdef extern from "_ranks_tree.h":
    pass


cdef extern from "_ranks.h":
    ctypedef struct mta_top:
        int64_t k
        int64_t* length
        int64_t* items

    ctypedef struct mta_window:
        int64_t first       # its rows are [first, last)
        int64_t last

    ctypedef struct mta_ranks:
        mta_rows rows
        mta_block block
        mta_window window
        int ranked
        int fast
        int nan_wins
        int64_t missing
        int quantiles
        int tops
        mta_quantile* quantile
        mta_cursor* cursor
        mta_top* top

    int mta_ranks_slide(mta_ranks* s, int64_t start, int64_t stop, const int64_t* lo,
                        const int64_t* hi, int64_t origin) nogil
    int mta_ranks_to_block(mta_ranks* s, int64_t start, int64_t stop) nogil
    int mta_ranks_to_tree(mta_ranks* s, int64_t lo) nogil
    void mta_ranks_clear(mta_ranks* s) nogil
    void mta_ranks_init(mta_ranks* s) nogil
    void mta_ranks_release(mta_ranks* s) nogil
