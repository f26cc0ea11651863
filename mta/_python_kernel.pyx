"""Batch kernels whose windows are answered in Python; see ``PythonKernel``."""
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from mta._kernel cimport Counter, Kernel, Lists

import numpy as np


cdef class PythonKernel(Kernel):
    """A kernel for partials that only Python has operations for, such as sketches of a library.

    Subclasses override `answer`. Cost beside what that does: one call for every chunk of up to 1024
    windows, with the GIL held, and the copies of their edges (16 bytes a window).
    """

    cdef readonly object columns
    cdef readonly object valid
    cdef readonly int64_t first
    cdef readonly object cuts    # where the windows at hand are cut in two; None: as `answer` likes

    def __init__(self, Counter counter):
        Kernel.__init__(self, counter)
        self.columns = ()

    def attach(self, columns, valid, int64_t first):
        Kernel.attach(self, columns, valid, first)
        self.columns = [column.view(np.int64) for column in columns]    # whatever they hold
        self.valid = None if valid is None else np.asarray(valid).view(np.bool_)
        self.first = first

    def answer(self, start, lo, hi):
        """Answer the windows start, start + 1, ...: rows [lo[i], hi[i]), in row numbers.

        Row r is item ``r - self.first`` of every array in `columns` and of `valid` (None: no row
        is null). Returns the number of the first window whose answer does not fit its type, or None.
        """
        raise NotImplementedError

    def marks(self):
        """As of every kernel; a subclass that has some overrides this, and `resume`."""
        return ()

    def resume(self, marks):
        """Go on from these marks."""

    cdef int tell(self, int64_t* marks, int64_t shift) noexcept nogil:
        cdef int k = 0
        with gil:
            for mark in self.marks():
                marks[k] = <int64_t> mark - shift
                k += 1
        return k

    cdef int go_on(self, const int64_t* marks, int64_t shift) noexcept nogil:
        cdef int k
        with gil:
            self.resume(tuple([marks[k] + shift for k in range(len(self.marks()))]))
        return 0

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        with gil:
            self.cuts = None if self.scan.cut == NULL else edges(self.scan.cut + start, n)
            failed = self.answer(start, edges(lo + start, n), edges(hi + start, n))
            return -1 if failed is None else failed

    def go_past(self, lo, hi):
        """Take note of windows that are not answered."""

    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil:
        if self.scan.cut != NULL:    # answers owe nothing to the windows before
            return 0
        with gil:
            self.go_past(edges(lo, n), edges(hi, n))
        return 0


cdef object edges(const int64_t* source, int64_t n):
    """A copy: the chunk's edges live on the stack of the caller."""
    cdef int64_t[::1] view
    array = np.empty(n, np.int64)
    view = array
    if n:
        memcpy(&view[0], source, n * sizeof(int64_t))
    return array


def put_list(Lists lists not None, int64_t window, items):
    """Make the list of a window that of these int64 items; windows have to come in order."""
    cdef int64_t item
    for item in items:
        lists.add(item)
    lists.length[window] = len(items)
