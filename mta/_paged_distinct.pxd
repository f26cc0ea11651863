# cython: language_level=3
"""How often values occur in windows larger than memory; see ``_paged_distinct.pyx``."""
from libc.stdint cimport int64_t, uint32_t

from mta._core cimport MAX_OUTPUTS
from mta._kernel cimport Scan
from mta._leaving cimport LeavingKernel


cdef enum:
    UNUSED = 0xFFFFFFFF


cdef struct Place:
    int64_t code
    uint32_t count      # rows inside that have it,
    uint32_t logged     # and how many of them the log knows of; both are UNUSED where there is no code


cdef struct Change:
    int64_t code
    int64_t by


cdef class CountTable:
    cdef Place* places
    cdef int64_t capacity       # a power of two
    cdef int shift
    cdef readonly int64_t n     # places in use
    cdef Change* changes
    cdef int64_t changed
    cdef int64_t room

    cdef int rebuild(self, int64_t capacity) except -1 nogil
    cdef Place* place(self, int64_t code) noexcept nogil
    cdef Place* have(self, int64_t code) except NULL nogil
    cdef int64_t live(self) noexcept nogil
    cdef int64_t change(self, int64_t code, int64_t by) except -1 nogil
    cdef int undo(self, int64_t changed) except -1
    cdef int keep(self) noexcept


cdef class Ahead:
    cdef object codes           # ascending, each once
    cdef object counts
    cdef const int64_t* code
    cdef const int64_t* count
    cdef int64_t n

    cdef int64_t find(self, int64_t code) noexcept nogil
    cdef int note(self, codes, by) except -1


cdef class PagedDistinct(LeavingKernel):
    cdef object counts          # the log
    cdef CountTable table
    cdef int64_t most           # codes in the table
    cdef int64_t distinct
    cdef bint logs              # whether the log knows of any
    cdef Ahead coming           # of rows that are attached, and
    cdef Ahead leaving          # of those of the page that leaves
    cdef int64_t* out[MAX_OUTPUTS]
    cdef int outs

    cdef int64_t change(self, const Scan* rows, int64_t row, int64_t stop, int64_t sign) except -1 nogil
    cdef int64_t end_of(self, const Scan* rows) noexcept nogil
    cdef int look_up(self, const Scan* rows, int64_t start, int64_t stop) except -1 nogil
    cdef int64_t logged(self, int64_t code) noexcept nogil
    cdef Ahead ask(self, const Scan* rows, int64_t start, int64_t stop)
    cdef int give_to_log(self) except -1
