# cython: language_level=3
"""The states of a pushed window; see ``_pushed.pyx``."""
from mta._core cimport Forest
from mta._inside cimport ITEM, REAL, InputState, RawColumn
from libc.stdint cimport int64_t


cdef class StateForest:
    cdef InputState input
    cdef object state
    cdef Forest forest

    cdef int make(self) except -1


cdef class KernelState:
    cdef object state
    cdef list outputs
    cdef InputState input
    cdef dict raw          # RawColumn by name
    cdef object kernel
    cdef object counter

    cdef int make(self, marks=*) except -1
    cdef int make_again(self) except -1
    cdef dict columns(self)
    cdef object feed(self, feed)
    cdef object value_of(self, output, room)
    cdef list plain(self, output, items)
