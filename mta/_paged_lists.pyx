"""Windows larger than memory: the numbers of their rows as lists, which are as large as the windows."""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from mta._kernel cimport Counter, Kernel
from mta._places cimport ListKernel


cdef class PagedLists(ListKernel):
    """The row numbers that count in every window, in order.

    O(rows inside) a window. Where some of them are null, the pages of the windows that are answered
    together are read once; what is kept of them meanwhile is smaller than the answers.
    """

    cdef int bits               # a page has 2^bits rows
    cdef object load            # gives rows that are not attached
    cdef int64_t tail           # the first row that is attached
    cdef object marks           # keeps those alive that were read last,
    cdef const uint8_t* valid   # addressed by number; NULL: all of them count
    cdef int64_t first          # [first, end)
    cdef int64_t end
    # The rows before `seen` that count and are inside: inside[taken..kept).
    cdef int64_t* inside
    cdef int64_t room
    cdef int64_t taken
    cdef int64_t kept
    cdef int64_t seen

    def __cinit__(self, Counter counter):
        self.bits = 11

    def __dealloc__(self):
        free(self.inside)

    def open_pages(self, int bits, load):
        """As that of ``PagedKernel``."""
        self.bits, self.load = bits, load

    def attach(self, columns, valid, int64_t first):
        """The rows from `first` on: those that have not been inside yet, at least."""
        Kernel.attach(self, columns, valid, first)
        self.tail = first

    def take_up(self, marks, int64_t lo, int64_t hi):
        """As that of ``PagedKernel``; there is no state."""

    @property
    def nbytes(self):
        """Bytes held between two calls."""
        return self.room * sizeof(int64_t)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t i
        self.seen = self.taken = self.kept = 0
        for i in range(start, start + n):
            self.put_list(i, lo[i], hi[i], hi[i] - lo[i] if counts == NULL else counts[i])
        self.clear()
        return -1

    cdef int put_list(self, int64_t window, int64_t lo, int64_t hi, int64_t count) except -1 nogil:
        """The list of a window in which so many rows count."""
        cdef int64_t row
        while self.lists.capacity < self.lists.size + count:
            self.lists.grow()
        if count == hi - lo:
            for row in range(lo, hi):
                self.lists.data[self.lists.size + row - lo] = row
        elif count:
            self.move(lo, hi)
            memcpy(self.lists.data + self.lists.size, self.inside + self.taken, count * sizeof(int64_t))
        self.lists.length[window] = count
        self.lists.size += count
        return 0

    cdef int move(self, int64_t lo, int64_t hi) except -1 nogil:
        """Have the rows of [lo, hi) inside that count; neither ever falls."""
        cdef const uint8_t* valid
        cdef int64_t row, stop
        while self.taken < self.kept and self.inside[self.taken] < lo:
            self.taken += 1
        self.seen = max(self.seen, lo)
        while self.seen < hi:
            stop = self.find_marks(self.seen, hi, &valid)
            self.have_room(stop - self.seen)
            for row in range(self.seen, stop):
                self.inside[self.kept] = row
                self.kept += valid == NULL or valid[row] != 0
            self.seen = stop
        return 0

    cdef int have_room(self, int64_t rows) except -1 nogil:
        """For so many rows more; those that have left are dropped where they are most."""
        cdef int64_t live = self.kept - self.taken
        cdef int64_t* inside
        if self.kept + rows <= self.room:
            return 0
        if self.taken > live:
            memmove(self.inside, self.inside + self.taken, live * sizeof(int64_t))
            self.taken, self.kept = 0, live
        if self.kept + rows > self.room:
            inside = <int64_t*> realloc(self.inside, (2 * self.kept + rows) * sizeof(int64_t))
            if inside == NULL:
                with gil:
                    raise MemoryError(f"a window of {self.kept} values")
            self.inside, self.room = inside, 2 * self.kept + rows
        return 0

    cdef void clear(self) noexcept nogil:
        free(self.inside)
        self.inside = NULL
        self.room = self.taken = self.kept = 0

    cdef int64_t find_marks(self, int64_t row, int64_t hi, const uint8_t** valid) except -1 nogil:
        """The marks of rows from this one on, by number, and before which of them they end."""
        if row >= self.tail:
            valid[0] = self.scan.valid
            return hi
        if not self.first <= row < self.end:
            with gil:
                self.read(row)
        valid[0] = self.valid
        return min(hi, self.end)

    cdef int read(self, int64_t row) except -1:
        """Its page, as far as it is not attached."""
        cdef int64_t stop = min(((row >> self.bits) + 1) << self.bits, self.tail)
        cdef const uint8_t[::1] marks
        _, marks, first = self.load(row, stop)
        self.marks = marks
        self.valid = NULL
        if marks is not None:
            self.valid = &marks[0] - <int64_t> first
        self.first, self.end = row, stop
        return 0

    # ---------------------------------------------------------------------- all or nothing

    def let_go(self):
        """Nothing is kept that could go."""

    def rest(self):
        """Give back what can be made again when it is needed."""
        self.clear()
        self.marks, self.end = None, self.first

    def save(self):
        """There is no state."""

    def restore(self, saved):
        """There is no state."""

    def to_parts(self):
        """Two bytes objects, both empty."""
        return b"", b""

    def fill(self, bytes saved, bytes pages):
        """What `to_parts` gave.

        Raises
        ------
        ValueError
            They are of another kernel.
        """
        if saved or pages:
            raise ValueError("a kernel that keeps nothing is given something")
