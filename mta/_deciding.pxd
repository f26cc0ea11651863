# cython: language_level=3
"""Policies of a pushed window in compiled code; see ``_deciding.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport ForestOps, ForestState
from mta._decide cimport Guide
from mta._held cimport Held
from mta._search cimport Decider


cdef struct Counts:
    # The values that an answer counts, by row number: before[row] had come before it, and `seen`
    # before the row `end`. NULL: every row counts.
    const int64_t* before
    int64_t seen
    int64_t end


cdef class ForestsGuide(Guide):
    cdef Held window
    cdef ForestState** state
    cdef ForestOps** table
    cdef Counts* counts
    cdef int64_t base

    cdef int bind(self) except -1


cdef class Rows:
    cdef Held window
    cdef ForestsGuide guide
    cdef Decider decider
    cdef list parts
    cdef char** part
    cdef const int64_t** cells
    cdef const unsigned char** masks
    cdef int64_t front, base

    cdef int64_t run(self, int64_t row, int64_t start, int64_t stop, int64_t* lo) except -1 nogil
    cdef int insert(self, int64_t row) except -1 nogil
    cdef int retract(self, int64_t row) except -1 nogil
    cdef int keep_parts(self, int64_t place) except -1 nogil
    cdef int bind(self) except -1


cdef object decide_arrays(Held window, Decider decider, ForestsGuide guide, given, int64_t rows, push_one)
