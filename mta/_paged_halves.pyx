"""Windows larger than memory, as two halves: what is exact far beyond its answers.

The halves of ``_halves.pyx``, by the same loops, over rows of which only the newest and the oldest are
here. Of each page of 2^bits rows its partial is made when it is full, from rows that are still at hand.
So when the window becomes the older half, its edges, the partials from the end of each page to the
split, follow from those, and no row is read; the rows of a page are read once, when the front comes to
it (SlideM, 2013, §3: the recent and the ancient block).

Sums are around the last value before the split, so each page's are moved there from its own last value.
The answers agree with those of rows at hand because both are good to far more digits than they have
(``docs/adr/0002``, ``docs/adr/0005``).

Cost: each row joins three running partials; a page, two combines. Memory: a page of partials, and one
for every page of the window.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from mta._halves cimport ORIGIN, RUN, HalvesKernel
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport Cell
from mta._paged cimport FEW_PAGES, PageParts

cdef enum:
    GROUP = 32        # pages of which the edges are made together


cdef struct Standing:
    # Where a kernel stands; rows and pages by number.
    int64_t front           # of the last window
    int64_t split           # rows before it are the older half; -1: none yet
    int64_t last            # the newer half is [split, last)
    int64_t seen            # rows before it have been inside, or were jumped over
    int64_t value           # the last of them that is not null; -1: none
    int64_t page            # the first that is not full
    int64_t first_page      # pages before this one are needed no more
    int64_t page_origin     # the first that has a place
    Cell around[ORIGIN]     # what sums are around,
    Cell next[ORIGIN]       # and will be, should the next split be here


cdef class PagedHalves(Kernel):
    """skew, kurt, cov, corr, slope, weighted_mean, product, geometric_mean and longest_run.

    halves : the kernel whose monoid it is, which is given no windows
    """

    cdef HalvesKernel halves
    cdef Standing at
    cdef int bits
    cdef object load
    cdef object tail            # what was attached: columns, valid, first
    cdef int64_t tail_first
    cdef size_t size            # bytes of a partial around its own value
    cdef PageParts pages
    cdef char* newest           # of the page with the split, as far as that
    cdef char* ends             # from the end of each group of pages, from this one on, to the split
    cdef int64_t first_end      # (-1: they are to be made),
    cdef int64_t end_room
    cdef char* edges            # and the sums from the end of each page of a group, from this one on
    cdef int64_t edged          # (-1: none)
    cdef int64_t edge_room
    cdef char* part             # for a while

    def __cinit__(self, Counter counter, HalvesKernel halves):
        self.halves, self.size, self.bits = halves, halves.monoid_size(), 11
        self.at.split = self.at.value = -1
        self.pages = PageParts()
        self.pages.size = self.size
        self.first_end = self.edged = -1
        self.newest = <char*> calloc(2, self.size)
        self.part = self.newest + self.size
        free(halves.page)
        halves.page = NULL
        if self.newest == NULL:
            raise MemoryError()

    def __init__(self, Counter counter, HalvesKernel halves):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        free(self.edges)
        free(self.ends)
        free(self.newest)

    def open_pages(self, int bits, load):
        """As that of ``PagedKernel``."""
        self.bits, self.load = bits, load

    def attach(self, columns, valid, int64_t first):
        """The rows from `first` on: those that have not been inside yet, and those of pages that are
        not full, at least."""
        self.tail, self.tail_first = (columns, valid, first), first
        self.halves.attach(columns, valid, first)

    def answer_to(self, arrays):
        self.halves.answer_to(arrays)

    def take_up(self, marks, int64_t lo, int64_t hi):
        """As that of ``PagedKernel``; the mark is the split."""
        if not marks or marks[0] <= lo:    # the next window chooses another one
            return
        self.choose_split(lo, marks[0])
        self.pages.let_go(lo >> self.bits, self.at.page, 0)

    @property
    def nbytes(self):
        """Bytes held."""
        cdef int64_t head = 0 if self.halves.page == NULL else (<int64_t> 1 << self.bits)
        return ((self.pages.room + self.end_room + 2) * <int64_t> self.size
                + (head + self.edge_room) * <int64_t> self.halves.size)

    # ------------------------------------------------------------------------------ windows

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef const int64_t* counts = self.counter.counts_from(start)
        cdef int64_t i = start, end = start + n, stop, failed
        self.halves.scan.lo, self.halves.scan.hi = lo, hi
        while i < end:
            stop = i + 1
            if lo[i] >= self.at.split:
                self.choose_split(lo[i], hi[i])
            if lo[i] >= self.at.split:    # no value inside
                self.halves.clear(self.halves.parts)
                self.halves.counts[0] = 0.0
                failed = self.halves.lower_all(i, 1)
            else:
                if not self.halves.front <= lo[i] < self.halves.page_end:
                    self.turn_to(lo[i])
                while stop < end and stop - i < RUN and lo[stop] < self.halves.page_end:
                    stop += 1
                self.halves.last = self.at.last
                failed = self.halves.serve(i, stop - i, counts)
                self.at.last = self.halves.last
            if failed >= 0:
                return failed
            i = stop
        self.at.front = lo[end - 1]
        self.see(hi[end - 1])
        return -1

    cdef int choose_split(self, int64_t lo, int64_t hi) except -1 nogil:
        """The window [lo, hi) up to its last value becomes the older half."""
        cdef int64_t page, begin
        if lo >= self.at.seen:    # it jumps: nothing of before is inside
            self.at.seen, self.at.page = lo, max(self.at.page, lo >> self.bits)
            self.at.value = -1
        self.see(hi)
        self.at.front, self.at.last = lo, hi
        self.at.split = self.at.value + 1 if self.at.value >= lo else lo
        self.halves.clear(self.halves.newer)
        self.unmake()
        if self.at.value < lo:
            return 0
        memcpy(self.at.around, self.at.next, sizeof(self.at.around))
        self.halves.go_to_origin(self.at.around)
        page = self.at.value >> self.bits
        begin = page << self.bits
        if page == lo >> self.bits:    # the whole half is in it
            return 0
        self.halves.begin(self.newest)
        if page < self.at.page:    # what comes after the split is null
            self.halves.prepend(self.newest, self.pages.at(page))
        else:
            self.halves.left(begin, self.at.split, <void*> self.halves.sums(self.newest), NULL)
        return 0

    cdef int see(self, int64_t hi) except -1 nogil:
        """Rows before this one have come; the partial of every page that is full by that."""
        cdef int64_t row = hi
        while row > self.at.seen and not self.is_value(row - 1):
            row -= 1
        if row > self.at.seen:
            self.at.value = row - 1
            self.halves.around(row - 1)
            self.halves.tell_origin(self.at.next)
        self.at.seen = max(self.at.seen, hi)
        while (self.at.page + 1) << self.bits <= self.at.seen:
            self.pages.have(self.at.page)
            self.fill_page(self.at.page)
            self.at.page += 1
        self.halves.go_to_origin(self.at.around)
        return 0

    cdef bint is_value(self, int64_t row) noexcept nogil:
        return self.halves.scan.valid == NULL or self.halves.scan.valid[row]

    cdef int fill_page(self, int64_t page) except -1 nogil:
        """The partial of a page, around its last value."""
        cdef int64_t first = page << self.bits, end = (page + 1) << self.bits, row, n = 0, value = -1
        cdef char* part = self.pages.at(page)
        cdef bint is_here = first >= self.tail_first
        if not is_here:
            with gil:
                self.read(first, end)
        for row in range(first, end):
            if self.is_value(row):
                value = row
                n += 1
        if n:
            self.halves.around(value)
            self.halves.begin(part)
            self.halves.left(first, end, <void*> self.halves.sums(part), NULL)
            self.halves.count(part, n)
        else:
            self.clear(part)
        if not is_here:
            with gil:
                self.halves.attach(*self.tail)
        return 0

    cdef void clear(self, char* part) noexcept nogil:
        """The partial of no value."""
        memset(part, 0, self.size)
        self.halves.clear(<void*> self.halves.sums(part))

    # --------------------------------------------------------------------------- the front

    cdef int turn_to(self, int64_t lo) except -1 nogil:
        """Make the partials of [row, split) for the rows from `lo` to the end of its page."""
        cdef int64_t page = lo >> self.bits, end = (page + 1) << self.bits
        cdef bint is_here = lo >= self.tail_first
        cdef char* part = self.halves.parts    # not in use between two runs
        self.halves.page_end = self.halves.front    # until it is done
        self.have_head()
        if end < self.at.split:
            if self.first_end < 0:
                self.make_ends(page)
            if self.edged < 0 or self.edged // GROUP != page // GROUP:
                self.make_edges(page)
            memcpy(part, self.edge_at(page), self.halves.size)
        else:
            end = self.at.split
            self.halves.clear(part)
        if not is_here:
            with gil:
                self.read(lo, end)
        self.halves.left(lo, end, part, self.halves.page)
        if not is_here:
            with gil:
                self.halves.attach(*self.tail)
        self.halves.front, self.halves.page_end = lo, end
        return 0

    cdef int have_head(self) except -1 nogil:
        if self.halves.page == NULL:
            self.halves.page = <char*> malloc((<size_t> 1 << self.bits) * self.halves.size)
            if self.halves.page == NULL:
                with gil:
                    raise MemoryError(f"a page of {1 << self.bits} rows")
        return 0

    cdef int read(self, int64_t start, int64_t stop) except -1:
        columns, valid, first = self.load(start, stop)
        self.halves.attach(columns, valid, first)
        return 0

    cdef void unmake(self) noexcept nogil:
        """What follows from the split is to be made again."""
        self.halves.page_end = self.halves.front
        self.first_end = self.edged = -1

    cdef int make_ends(self, int64_t first) except -1 nogil:
        """The partials from the end of each group, from that of this page on, to the split."""
        cdef int64_t page = (self.at.split - 1) >> self.bits, groups = page // GROUP - first // GROUP + 1
        cdef char* ends
        if groups > self.end_room:
            ends = <char*> realloc(self.ends, groups * self.size)
            if ends == NULL:
                with gil:
                    raise MemoryError(f"a window of {page} pages")
            self.ends, self.end_room = ends, groups
        self.first_end = first // GROUP
        memcpy(self.part, self.newest, self.size)
        while page > first:
            page -= 1
            if page % GROUP == GROUP - 1:
                memcpy(self.end_at(page // GROUP), self.part, self.size)
            self.halves.prepend(self.part, self.pages.at(page))
        return 0

    cdef int make_edges(self, int64_t first) except -1 nogil:
        """The sums from the end of each page of a group, from this one on, to the split."""
        cdef int64_t newest = (self.at.split - 1) >> self.bits, page = (first // GROUP + 1) * GROUP
        cdef char* edges
        memcpy(self.part, self.end_at(first // GROUP) if page <= newest else self.newest, self.size)
        page = min(page, newest)
        if page - first > self.edge_room:
            edges = <char*> realloc(self.edges, (page - first) * self.halves.size)
            if edges == NULL:
                with gil:
                    raise MemoryError(f"{page - first} pages")
            self.edges, self.edge_room = edges, page - first
        self.edged = first
        while page > first:
            page -= 1
            memcpy(self.edge_at(page), self.halves.sums(self.part), self.halves.size)
            self.halves.prepend(self.part, self.pages.at(page))
        return 0

    cdef char* end_at(self, int64_t group) noexcept nogil:
        return self.ends + (group - self.first_end) * <int64_t> self.size

    cdef char* edge_at(self, int64_t page) noexcept nogil:
        return self.edges + (page - self.edged) * <int64_t> self.halves.size

    def let_go(self):
        """As that of ``PagedKernel``."""
        self.pages.let_go(self.at.front >> self.bits, self.at.page, FEW_PAGES)

    def rest(self):
        """Give back what can be made again when it is needed."""
        free(self.halves.page)
        self.halves.page = NULL
        self.halves.page_end = self.halves.front

    # ------------------------------------------------------------------------- save, restore

    def save(self):
        """As that of ``PagedKernel``."""
        self.at.first_page, self.at.page_origin = self.pages.first, self.pages.origin
        return (PyBytes_FromStringAndSize(<const char*> &self.at, sizeof(Standing))
                + PyBytes_FromStringAndSize(self.halves.newer, self.halves.size)
                + PyBytes_FromStringAndSize(self.newest, self.size))

    def restore(self, bytes saved):
        """Stand where `save` was called."""
        cdef Standing at
        cdef const char* told = PyBytes_AS_STRING(saved)
        if len(saved) != <Py_ssize_t> (sizeof(Standing) + self.halves.size + self.size):
            raise ValueError("a kernel's state has another size")
        memcpy(&at, told, sizeof(Standing))
        if not (0 <= at.front <= at.seen and at.split <= at.last <= at.seen and at.value < at.seen
                and 0 <= at.page_origin <= at.first_page <= at.front >> self.bits):
            raise ValueError("a kernel's state has positions that make no sense")
        self.at, self.pages.first, self.pages.origin = at, at.first_page, at.page_origin
        memcpy(self.halves.newer, told + sizeof(Standing), self.halves.size)
        memcpy(self.newest, told + sizeof(Standing) + self.halves.size, self.size)
        self.halves.go_to_origin(self.at.around)
        self.unmake()

    def to_parts(self):
        """As that of ``PagedKernel``."""
        pages = self.pages.told(self.at.page)
        return self.save(), pages

    def fill(self, bytes saved, bytes pages):
        """What `to_parts` gave.

        Raises
        ------
        ValueError
            They are damaged, or of another kernel.
        """
        self.restore(saved)
        self.pages.take(pages, self.at.page)
