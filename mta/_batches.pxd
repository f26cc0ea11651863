# cython: language_level=3
"""Long arrays through batch kernels; see ``_batches.pyx``."""
from libc.stdint cimport int64_t

from mta._kernel cimport Counter, Kernel
from mta._pushed cimport StateForest


cdef class Batches:
    cdef list forests      # StateForest
    cdef dict kernels      # of float sums: by what they answer
    cdef dict mine         # by number of the forest: (name, array) of its answers, if kernels give them

    cdef bint takes(self, int number) except -1
    cdef int answer(self, int number, const int64_t* lo, const int64_t* hi, int64_t start, int64_t stop,
                    int64_t most, int64_t base, int64_t back) except -1
    cdef int end(self, int64_t front, int64_t back, int64_t base) except -1
    cdef Kernel kernel_of(self, StateForest state, list mine)


cdef Batches make_batches(list forests, list answers, list rooms)
