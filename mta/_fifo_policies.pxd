# cython: language_level=3
"""Policies and answers of `Fifo`; see ``_fifo_policies.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport Lowering
from mta._decide cimport Guide
from mta._fifo_state cimport FifoState
from mta._fifo_values cimport FifoValues
from mta._search cimport PythonSearch


cdef inline int64_t base_of(const FifoState* s) noexcept nogil:
    """The position that nodes are counted from."""
    return 0 if s.places else s.forest.base


cdef class Lowered:
    cdef FifoValues fifo
    cdef char* parts
    cdef int64_t[::1] out
    cdef object counts          # of values, one per answer; None: nobody asks
    cdef const int64_t* count
    cdef Lowering lowering
    cdef bint wrap

    cdef int64_t lower(self, int64_t start, int64_t n) noexcept nogil


cdef class FifoGuide(Guide):
    cdef FifoValues fifo


cdef class FifoSearch(PythonSearch):
    cdef FifoValues fifo
    # Partials want their place aligned, which it is here and would not be within the object.
    cdef bytearray old          # the prefix, and
    cdef bytearray more         # the same and one node

    cdef int extend(self, int level, void* part) except -1
