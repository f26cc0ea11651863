# cython: language_level=3
"""Policies that need no Python; see ``_decide.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport MAX_OUTPUTS, Forest, ForestOps, ForestState
from mta._monoids cimport Cell, Lift, Output
from mta._pushed cimport Answer
from mta._search cimport Decider, Search

# What numba compiles (``_compiled_policies.py``): 1: goes, 0: stays, -1: it raised.
ctypedef int64_t (*Judge)(const void* total, const void* old) noexcept nogil


cdef struct Asked:
    # One answer: what of which monoid (-1: rows are counted).
    int monoid
    Output what
    int64_t ddof
    int64_t need
    bint real


cdef class Guide:
    cdef int monoids
    cdef int answers
    cdef bint tree            # rows go in nodes; else one by one
    cdef bint restores        # what has gone can come back
    cdef Asked asked[MAX_OUTPUTS]

    cdef const Lift* how(self, int monoid) noexcept nogil
    cdef const ForestOps* ops(self, int monoid) noexcept nogil
    cdef int query(self, int monoid, void* out) except -1 nogil
    cdef int extend(self, int monoid, int level, int64_t row, void* out) except -1 nogil
    cdef int evict_to(self, int monoid, int64_t front) except -1 nogil
    cdef int restore(self, int monoid, int64_t front) except -1 nogil
    cdef int64_t count(self, int answer, int64_t front, int64_t to) except -1 nogil
    cdef int ask(self, list answers) except -1
    cdef int lower(self, int answer, const void* part, int64_t count, Cell* out) noexcept nogil


cdef class Chain(Decider):
    cdef Guide guide
    cdef Decider first
    cdef Chain others
    cdef int decided          # how many could tell, last time


cdef Decider make_decider(rule, Guide guide, pairs, list answers, made)
