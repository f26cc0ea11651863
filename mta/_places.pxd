# cython: language_level=3
"""Kernels whose answers are places: row numbers and lists of them; see ``_places.pyx``."""
from libc.stdint cimport int64_t

from mta._core cimport CHUNK, MAX_OUTPUTS
from mta._kernel cimport Counter, Kernel, Lists, Scan


# The pointer to int64 answers; `owner` keeps them alive.
cdef int64_t* take_array(array, list owner) except? NULL


cdef enum:
    SIDES = 3


cdef struct Place:
    int64_t row    # -1: none
    int64_t key


cdef struct Side:
    # Where the extreme of every window lies, in one direction and with one rule for ties. The older
    # half of the window, up to split, is a stack of the rows that are the extreme from
    # somewhere on, the first one on top; the newer half, [split, last), one running extreme.
    bint asked
    bint latest          # of equal keys
    bint is_float
    double sign          # -1 where the extreme is the least: keys are of values times this,
    int64_t flip         # or xor this (integers)
    int64_t nan_key
    int64_t* peaks
    int64_t n
    int64_t capacity
    int64_t split
    int64_t last
    Place top            # the extreme of what is inside of the older half
    Place best           # and of the newer one


ctypedef fused Raw:
    double
    int64_t


cdef struct End:
    bint is_last
    int64_t place    # the last row before `seen` that counts
    int64_t seen     # first: no row in [lo, seen) counts
    int64_t* out


cdef class FirstLastKernel(Kernel):
    cdef int n
    cdef End ends[MAX_OUTPUTS]


cdef class ArgKernel(Kernel):
    cdef int n
    cdef int side_of[MAX_OUTPUTS]
    cdef bint is_back[MAX_OUTPUTS]
    cdef int64_t* out[MAX_OUTPUTS]
    cdef Side sides[SIDES]
    cdef int64_t rows[CHUNK]


cdef class ListKernel(Kernel):
    cdef Lists lists
