# cython: language_level=3
"""What every batch kernel is: one state of a window that slides over rows in order; see ``_kernel.pyx``."""
from libc.stdint cimport int64_t, uint8_t

from mta._core cimport CHUNK, MAX_OUTPUTS
from mta._monoids cimport Cell


cdef enum:
    MAX_COLUMNS = 4     # that one aggregate reads
    MAX_MARKS = 2       # of a kernel


cdef struct Scan:
    # The columns of the rows at hand, addressed by row number, and the bounds of the windows of the
    # chunk at hand, addressed by window number.
    const Cell* values                  # the first column
    const Cell* columns[MAX_COLUMNS]    # all of them
    const uint8_t* valid                # 0 where any of them is null; NULL: no row is null
    int64_t rows                        # rows from this number on are not there yet
    const int64_t* lo
    const int64_t* hi
    const int64_t* cut                  # likewise, where windows are cut in two; NULL: kernels choose
    bint steady                         # lo and hi are known to rise by one from window to window


cdef extern from "_simd.h":
    pass


cdef extern from "_counts.h":
    ctypedef struct Counting "mta_counting":    # the window that was counted last
        int64_t first
        int64_t last
    void count_windows "mta_count_windows"(const uint8_t* marks, Counting* c, const int64_t* lo,
                                           const int64_t* hi, int64_t n, bint steady,
                                           int64_t* out) nogil
    bint at_least "mta_at_least"(const int64_t* counts, int64_t n, int64_t least, uint8_t* out) nogil


cdef class Counter:
    cdef const uint8_t* valid
    cdef object owner
    cdef object answers
    cdef Counting counting
    cdef int64_t counts[CHUNK]
    cdef int n
    cdef bint steady        # as that of a scan
    cdef bint asked         # some answer needs the counts
    cdef int64_t need[MAX_OUTPUTS]
    cdef uint8_t *mask[MAX_OUTPUTS]
    cdef int64_t *out[MAX_OUTPUTS]
    cdef bint full[MAX_OUTPUTS]

    cdef int step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) noexcept nogil

    cdef inline const int64_t* counts_from(self, int64_t start) noexcept nogil:
        """The counts of the chunk at hand by window number; NULL where hi - lo is the count."""
        return <const int64_t*> self.counts - start if self.valid != NULL else NULL


cdef class Kernel:
    cdef Scan scan
    cdef Counter counter
    cdef public int64_t least    # values without which an answer is null, and need not fit its type
    cdef object owner       # keeps the rows alive that `scan` points to
    cdef object answers     # and the arrays that the answers go to

    cdef inline int64_t last_value_in(self, int64_t lo, int64_t hi) noexcept nogil:
        """The last row in [lo, hi) that is not null; lo - 1 if there is none."""
        while hi > lo and self.scan.valid != NULL and not self.scan.valid[hi - 1]:
            hi -= 1
        return hi - 1

    cdef inline int64_t split_at(self, int64_t cut, int64_t known, int64_t hi) noexcept nogil:
        """After the last row in [known, cut) that counts, or else after the first in [cut, hi), so that
        a value stands before it; -1 if there is none."""
        cdef int64_t row = self.last_value_in(known, cut) if known < cut else known - 1
        if row >= known:
            return row + 1
        row = max(known, cut)
        while row < hi and self.scan.valid != NULL and not self.scan.valid[row]:
            row += 1
        return row + 1 if row < hi else -1

    cdef inline int64_t cut_of(self, int64_t window, const int64_t* hi) noexcept nogil:
        """At which row a window is cut in two that becomes both halves; its end: it is all older."""
        return self.scan.cut[window] if self.scan.cut != NULL else hi[window]

    cdef inline int64_t end_of_cut(self, int64_t window, int64_t stop) noexcept nogil:
        """After the last window in a row before `stop` that is cut where this one is."""
        cdef const int64_t* cut = self.scan.cut
        cdef int64_t next = window
        if cut == NULL:
            return stop
        while next < stop and cut[next] == cut[window]:
            next += 1
        return next

    cdef int tell(self, int64_t* marks, int64_t shift) noexcept nogil
    cdef int go_on(self, const int64_t* marks, int64_t shift) noexcept nogil
    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil
    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil


cdef class Lists:
    cdef readonly object lengths    # int64 array: items of the list of every window
    cdef int64_t* length            # the same, by window number
    cdef int64_t* data
    cdef int64_t size
    cdef int64_t capacity

    cdef int grow(self) except -1 nogil

    cdef inline int add(self, int64_t item) except -1 nogil:
        """One more item of the list at hand."""
        if self.size == self.capacity:
            self.grow()
        self.data[self.size] = item
        self.size += 1
        return 0
