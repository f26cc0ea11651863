# cython: language_level=3
"""How the windows of a scan move on."""
from libc.stdint cimport int64_t

from mta._kernel cimport Scan

cdef extern from "_simd.h":
    bint rise_by_one "mta_is_steady"(const int64_t* lo, const int64_t* hi, int64_t n) nogil
    int64_t longest "mta_longest"(const int64_t* lo, const int64_t* hi, int64_t n) nogil


cdef inline bint is_steady(const Scan* scan, int64_t i, int64_t stop) noexcept nogil:
    """Whether the windows i..stop move by one row each."""
    return scan.steady or rise_by_one(&scan.lo[i], &scan.hi[i], stop - i)


cdef inline int64_t run_end(const Scan* scan, int64_t i, int64_t stop, int64_t lo, int64_t hi) noexcept nogil:
    """After the last window of i.. that begins before row lo and ends before row hi; i itself does."""
    cdef int64_t step = 1, middle
    # Where windows move by one row at a time the run ends here; else search.
    middle = i + min(lo - scan.lo[i], hi - scan.hi[i])
    if i < middle < stop and scan.lo[middle - 1] < lo and scan.hi[middle - 1] < hi:
        i = middle - 1
    while i + step < stop and scan.lo[i + step] < lo and scan.hi[i + step] < hi:
        i += step
        step *= 2
    stop = min(stop, i + step)
    while i + 1 < stop:    # window i is served, window stop is not
        middle = (i + stop) // 2
        if scan.lo[middle] < lo and scan.hi[middle] < hi:
            i = middle
        else:
            stop = middle
    return i + 1
