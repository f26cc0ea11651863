# cython: language_level=3
"""A window under one algorithm: values, arrays, policies and bytes; see ``_fifo.pyx``."""
from libc.stdint cimport int64_t, uint8_t

from mta._decide cimport Chain
from mta._fifo_policies cimport FifoGuide, FifoSearch
from mta._fifo_values cimport FifoValues
from mta._monoids cimport Cell
from mta._search cimport Decider


cdef class Fifo(FifoValues):
    cdef FifoGuide guide        # of `ruled`
    cdef int64_t answered       # rows of the array that `slide_while` goes through

    cdef Decider decider(self, policy)
    cdef Decider known(self, policy)
    cdef object checked_policy(self, policy)
    cdef object pairs(self)
    cdef object chain_of(self, policies)
    cdef FifoGuide new_guide(self)
    cdef object answers_of(self, array, step)
    cdef object slide_while_one(self, value, policies)
    cdef int64_t run_while(self, const int64_t[::1] cells, const uint8_t[::1] mask, Chain chain,
                           tuple policies, int64_t[::1] counts, int64_t[::1] out) except -2
    cdef int64_t decide_rows(self, Chain chain, const Cell* raw, const uint8_t* valid, int64_t start,
                             int64_t stop, char* parts, int64_t* counts, bint decided, int64_t most) except -1 nogil
    cdef int take_in(self, Cell raw, bint there, int64_t most) except -1 nogil
    cdef int drop_to(self, int64_t front) except -1 nogil
    cdef FifoSearch search(self, policy)
    cdef int fill(self, const Cell* values, const uint8_t* valid, int64_t n) except -1 nogil
    cdef object slide_one(self, value, int64_t keep)
    cdef int64_t run(self, const int64_t[::1] cells, const uint8_t[::1] mask, int64_t keep,
                     int64_t[::1] counts, int64_t[::1] out) except -2
    cdef int step(self, const Cell* values, const uint8_t* valid, int64_t n, int64_t keep, void* parts,
                  int64_t* counts) except -1 nogil
    cdef object counts_of(self, mask, int64_t n, int64_t keep)
    cdef object finished(self, out, counts)
    cdef object cells_of(self, array)
    cdef object user_cells(self, array)
    cdef object counted_cells(self, array)
    cdef int note_nulls(self, const uint8_t* valid, int64_t begun, int64_t n) except -1
    cdef str spec(self)
    cdef bytes null_positions(self)
    cdef void* part_at(self, int64_t position, bint value, bint named)
    cdef bytes stored(self, positions, bint value, bint named)
    cdef list stored_parts(self)
    cdef int load(self, list parts) except -1
    cdef int load_kind(self, kind, bint nulls) except -1
    cdef bytes stored_cells(self, list found)
    cdef int check_places(self) except -1
    cdef int load_parts(self, list stored, int64_t rows) except -1
    cdef int load_nulls(self, found) except -1
