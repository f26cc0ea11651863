# cython: language_level=3
"""The rows inside a pushed window; see ``_held.pyx``."""
from libc.stdint cimport int64_t

from mta._inside cimport RawColumn, Times
from mta._pushed cimport Answer, StateForest


cdef class Held:
    cdef list raw             # RawColumn
    cdef list inputs          # InputState
    cdef list forests         # StateForest
    cdef list kernels         # KernelState: what has no forest
    cdef list answers         # Answer
    cdef object make_result   # None: bare
    cdef Times times          # None: the policy asks for none
    cdef int64_t front        # row numbers
    cdef int64_t back
    cdef int64_t kept         # rows from here on are kept for the kernels, which go from window to window
    cdef int64_t base         # row number of the forests' position 0

    cdef object answer_now(self)
    cdef int slide_kernels(self) except -1
    cdef int append(self) except -1
    cdef int retract(self) except -1
    cdef int restart(self) except -1
    cdef int evict_to(self, int64_t front) except -1
    cdef int drop_rows(self, int64_t front) except -1
    cdef int rebuild_column(self, RawColumn column) except -1
    cdef int rebuild(self, StateForest state) except -1
    cdef list marks(self)
    cdef int make_kernels(self, list marks) except -1
    cdef int64_t count_of(self, Answer answer, int64_t to) except -1
    cdef object wrap(self, list values)
