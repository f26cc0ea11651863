"""Kernels: the answers of many windows at once, a chunk of windows at a time.

A kernel is given rows (`Kernel.attach`), told where its answers go (`Kernel.answer_to`), and then
steps through windows [lo, hi) of these rows, whose edges never fall. Its answers are a function of
the windows and the values alone: rows may come in any number of attachments, as long as those that
the next window holds are there (and `KEPT` rows before them), and nothing changes.

Where partials round when they are combined, it matters at which row a window is cut into an older
and a newer half. Kernels choose that by the windows before; where `Bounds` say it for every window
(`scan.cut`), answers are a function of the one window and its cut alone.
"""
from libc.stdint cimport INT64_MIN
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from mta._arrays cimport items_of
from mta._bounds cimport Bounds

import numpy as np

# Rows before the window that a kernel may still read: float sums read whole blocks of 16.
KEPT = 16


cdef const uint8_t* mask_of(valid, int64_t first) except? NULL:
    """The mask of rows by their numbers, the first of which is `first`. NULL: there is none."""
    cdef int64_t n
    if valid is None:
        return NULL
    cdef const uint8_t* marks = <const uint8_t*> items_of(valid, 1, &n)
    return marks - first if n else NULL


cdef class Counter:
    """The rows of every window that count for one input: those that are not null.

    needs : values without which an answer is null, one number per answer
    """

    def __cinit__(self, needs):
        self.n = len(needs)
        if self.n > MAX_OUTPUTS:
            raise ValueError("too many answers of one input")
        for k, need in enumerate(needs):
            self.need[k] = need

    def attach(self, valid, int64_t first):
        """valid: a mask, 0 where a row is null, from row `first` on; None where every row counts."""
        self.owner = valid
        self.valid = mask_of(valid, first)
        if first > self.counting.first:    # what has left can't be taken off: the next window is counted anew
            self.counting.last = INT64_MIN

    def answer_to(self, answers):
        """answers : per answer a mask, 1 where it is not null, and an int64 array for the counts
        themselves; either may be None."""
        cdef int64_t n
        cdef int k = 0
        self.answers = answers
        self.asked = False
        for mask, counts in answers:
            self.asked |= mask is not None or counts is not None
            self.mask[k] = NULL if mask is None else <uint8_t*> items_of(mask, 1, &n, True)
            self.out[k] = NULL if counts is None else <int64_t*> items_of(counts, 8, &n, True)
            self.full[k] = True
            k += 1

    def is_full(self, int k):
        """Whether every window had the values that answer k needs."""
        return self.full[k]

    cdef int step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) noexcept nogil:
        cdef int64_t i
        cdef int64_t* counts = self.counts
        cdef int k
        if self.valid != NULL:
            count_windows(self.valid, &self.counting, lo + start, hi + start, n, self.steady, counts)
        elif self.asked:
            for i in range(n):
                counts[i] = hi[start + i] - lo[start + i]
        for k in range(self.n):
            if self.out[k] != NULL:
                memcpy(self.out[k] + start, counts, n * sizeof(int64_t))
            if self.mask[k] != NULL:
                self.full[k] &= at_least(counts, n, self.need[k], self.mask[k] + start)
        return 0


cdef class Kernel:
    """One state over one input; subclasses say which.

    counter : of the same input
    """

    def __init__(self, Counter counter):
        self.counter = counter

    def attach(self, columns, valid, int64_t first):
        """Give the rows from number `first` on.

        columns : one 8-byte array per column of the input, of one length
        valid : a mask beside them, 0 where a value of the row is null, or None
        """
        cdef const Cell* cells
        cdef int64_t n = 0
        cdef int k = 0
        self.owner = (columns, valid)
        for column in columns:
            cells = <const Cell*> items_of(column, sizeof(Cell), &n)
            self.scan.columns[k] = cells - first if n else NULL
            self.scan.rows = first + n
            k += 1
        self.scan.values = self.scan.columns[0]
        self.scan.valid = mask_of(valid, first)

    def answer_to(self, arrays):
        """Where the answers go: one array per answer, item 0 of which is that of window 0."""
        raise NotImplementedError

    def marks(self):
        """The numbers of rows, if any, that later answers depend on beside the rows of the window.

        A fresh kernel that resumes from them, given the same rows, goes on as this one would.
        """
        cdef int64_t[MAX_MARKS] told
        cdef int k, n = self.tell(told, 0)
        return tuple([told[k] for k in range(n)])

    def resume(self, marks):
        """Go on from these marks."""
        cdef int64_t[MAX_MARKS] told
        cdef int k, n = self.tell(told, 0)
        if len(marks) != n:
            raise ValueError(f"marks: {n} are needed, not {len(marks)}")
        for k in range(n):
            told[k] = marks[k]
        self.go_on(told, 0)

    cdef int tell(self, int64_t* marks, int64_t shift) noexcept nogil:
        """The marks, in numbers of rows that are less by `shift`. Returns how many there are."""
        return 0

    cdef int go_on(self, const int64_t* marks, int64_t shift) noexcept nogil:
        """What was told is so now, whatever was before."""
        return 0

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        """Answer the windows start..start + n; the first whose answer does not fit its type, or -1.

        lo, hi : addressed by window number
        """
        with gil:
            raise NotImplementedError

    cdef int skip(self, int64_t n, const int64_t* lo, const int64_t* hi) except -1 nogil:
        """Go past n windows without answering them: the marks become what `step` would leave."""
        return 0


cdef class Lists:
    """Where the answers of a kernel go that are lists: all items in one row, and how many each has.

    windows : how many lists there will be

    A kernel sets ``length[window]`` and calls ``add`` for every item (a cell or a row number).
    """

    def __cinit__(self, int64_t windows):
        cdef int64_t[::1] lengths
        self.lengths = np.zeros(windows, np.int64)
        lengths = self.lengths
        self.length = &lengths[0] if windows else NULL

    def __dealloc__(self):
        free(self.data)

    def items(self):
        """The items of all lists, one after the other, as a new int64 array."""
        array = np.empty(self.size, np.int64)
        cdef int64_t[::1] view = array
        if self.size:
            memcpy(&view[0], self.data, self.size * sizeof(int64_t))
        return array

    cdef int grow(self) except -1 nogil:
        cdef int64_t capacity = max(<int64_t> 1024, 2 * self.capacity)
        cdef void* data = realloc(self.data, capacity * sizeof(int64_t))
        if data == NULL:
            with gil:
                raise MemoryError(f"lists of {self.size} items")
        self.data = <int64_t*> data
        self.capacity = capacity
        return 0


def slide(Bounds bounds, counters, kernels, int64_t start=0, stop=None):
    """Answer the windows of `bounds`, all kernels side by side, a chunk of windows at a time.

    start, stop : of these rows only, by fresh bounds and kernels; what the answers owe to the
        windows before is found without answering them

    Returns (kernel, window) of the first answer that does not fit its type, or None.
    """
    cdef int64_t row = start, end = bounds.rows if stop is None else stop
    cdef int64_t window = 0, rows, n, failed
    cdef int64_t[CHUNK] lo
    cdef int64_t[CHUNK] hi
    cdef Counter counter
    cdef Kernel kernel
    if start > 0:
        skip_to(bounds, kernels, start)
    while row < end:
        rows = min(<int64_t> CHUNK, end - row)
        with nogil:
            n = bounds.next(row, rows, lo, hi)
        for counter in counters:
            counter.steady = bounds.steady
            with nogil:
                counter.step(window, n, lo - window, hi - window)
        for kernel in kernels:
            kernel.scan.steady = bounds.steady
            kernel.scan.cut = bounds.cut + (row - window) if bounds.cut != NULL else NULL
            with nogil:
                failed = kernel.step(window, n, lo - window, hi - window)
            if failed >= 0:
                return kernel, failed
        row += rows
        window += n
    return None


def slide_keys(const int64_t[::1] lo, const int64_t[::1] hi, const int64_t[::1] edges, counters,
               kernels, marks, const uint8_t[::1] marked, const int64_t[::1] shifts):
    """Answer the windows of many keys, each of which goes on from marks of its own.

    lo, hi : the windows, those of one key after those of another; a key begins where no row of the
        keys before it is
    edges : key k has the windows edges[k]..edges[k + 1]
    marks : of every kernel a row a key, which are overwritten; less by `shifts` than rows are
    marked : whether a key has marks yet

    Returns (kernel, window) of the first answer that does not fit its type, or None.
    """
    cdef int64_t window, stop, n, failed
    cdef Py_ssize_t k, j
    cdef Counter counter
    cdef Kernel kernel
    cdef int64_t[:, ::1] mine
    cdef const int64_t* los = &lo[0] if lo.shape[0] else NULL
    cdef const int64_t* his = &hi[0] if hi.shape[0] else NULL
    having = [(kernel, own) for kernel, own in zip(kernels, marks) if own.shape[1]]
    for counter in counters:
        counter.steady = False
    for kernel in kernels:
        kernel.scan.steady = False
        kernel.scan.cut = NULL
    for k in range(edges.shape[0] - 1):
        window, stop = edges[k], edges[k + 1]
        if window == stop:
            continue
        if marked[k]:
            for kernel, own in having:
                mine = own
                kernel.go_on(&mine[k, 0], shifts[k])
        while window < stop:
            n = min(<int64_t> CHUNK, stop - window)
            for counter in counters:
                counter.step(window, n, los, his)
            for kernel in kernels:
                with nogil:
                    failed = kernel.step(window, n, los, his)
                if failed >= 0:
                    return kernel, failed
            window += n
        for kernel, own in having:
            mine = own
            kernel.tell(&mine[k, 0], shifts[k])
    return None


cdef int skip_to(Bounds bounds, kernels, int64_t start) except -1:
    """Go past the windows of the key's rows before `start`."""
    cdef int64_t row = bounds.begin_of(start), rows, n
    cdef int64_t[CHUNK] lo
    cdef int64_t[CHUNK] hi
    cdef Kernel kernel
    while row < start:
        rows = min(<int64_t> CHUNK, start - row)
        with nogil:
            n = bounds.next(row, rows, lo, hi)
        for kernel in kernels:
            kernel.scan.cut = bounds.cut + row if bounds.cut != NULL else NULL
            with nogil:
                kernel.skip(n, lo, hi)
        row += rows
    return 0
