"""Windows larger than memory: one monoid over rows of which only the newest and the oldest are here.

The same sums as the forest's (``_core.pxd``), to the last bit: the answer of [front, back) is the
suffix from `front` to the split, joined with the prefix from the split to `back`, both made of dyadic
nodes. But no leaves are kept. What is, all of it a function of the rows alone:

- near the back, the newest node of each level, as in a binary counter: O(log n) partials;
- of each *page* of 2^bits rows, the newest node that begins with it: a partial for 2^bits rows;
- near the front, the suffixes from the rows of the page in which the window begins. They are made
  when the front comes to the page, from its rows, which are read then, once.

So rows are needed twice, when they come and when the front comes to their page (SlideM, 2013, §3: the
recent and the ancient block), for any monoid, with no inverse. Cost: 5 combines and 2 lifts a row.
A front that jumps reads the page that it comes to and no other.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from mta._core cimport highest_bit, lowest_bit

cdef uint8_t ONE = 1


def fronts_in_block(int64_t[::1] lo, const int64_t[::1] hi, const int64_t[::1] at, const int64_t[::1] times,
                    int64_t first, const int64_t[::1] block, int64_t block_first, int64_t back,
                    int64_t since, int64_t end):
    """Find where windows begin, of the first of these on; those that begin in a block, in one pass.

    lo, hi : the windows; lo is written
    at : their rows, whose times begin with that of row `first`
    block : times of rows from `block_first` on, the last of which the first window holds
    back : what a window holds is no more than so much before its row
    since : no window begins before this row
    end : windows that are known to begin after this row, which is not here, are no concern

    Returns how many.
    """
    cdef int64_t i = 0, n = lo.shape[0], place = 0, high = block.shape[0], middle, edge, last = block[high - 1]
    edge = less(times[at[0] - first], back)
    while place < high:    # the first by halves, the others from there on
        middle = (place + high) // 2
        if block[middle] < edge:
            place = middle + 1
        else:
            high = middle
    with nogil:
        while i < n and lo[i] <= end:
            edge = less(times[at[i] - first], back)
            if edge > last:
                break
            while block[place] < edge:
                place += 1
            lo[i] = min(max(block_first + place, since), hi[i])
            i += 1
    return i


cdef inline int64_t less(int64_t time, int64_t back) noexcept nogil:
    """time - back, as far as that fits."""
    if back > 0 and time < INT64_MIN + back:
        return INT64_MIN
    if back < 0 and time > INT64_MAX + back:
        return INT64_MAX
    return time - back


cdef class GivenCounter(Counter):
    """The rows that count in each window are counted elsewhere, and given.

    needs : as those of `Counter`
    """

    def __cinit__(self, needs):
        cdef int i
        for i in range(CHUNK):
            self.nothing[i] = 0

    def attach(self, valid, int64_t first):
        """As every counter; the marks are not needed."""

    def give(self, const int64_t[::1] counts):
        """The counts of the next windows; item 0 is that of window 0."""
        self.numbers = counts
        self.given = &counts[0] if counts.shape[0] else NULL

    cdef int step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) noexcept nogil:
        self.valid = NULL
        self.asked = True
        Counter.step(self, start, n, <const int64_t*> self.nothing - start, self.given)
        self.valid = &ONE    # so that kernels read the counts
        return 0


cdef class PageParts:
    """A partial of each page of a window, by number."""

    def __dealloc__(self):
        free(self.parts)

    cdef char* at(self, int64_t page) noexcept nogil:
        return self.parts + (page - self.origin) * <int64_t> self.size

    cdef int have(self, int64_t page) except -1 nogil:
        """A place for a page."""
        cdef int64_t live = page - self.origin, room = live + live // 4 + 4
        cdef char* parts
        if live >= self.room:
            parts = <char*> realloc(self.parts, room * self.size)
            if parts == NULL:
                with gil:
                    raise MemoryError(f"a window of {live} pages")
            memset(parts + self.room * self.size, 0, (room - self.room) * self.size)
            self.parts, self.room = parts, room
        return 0

    cdef int let_go(self, int64_t front, int64_t end, int64_t least) noexcept nogil:
        """Pages before `front` are needed no more, those from `end` on are not there yet.

        least : places are given back when they are so many, and not few beside the others; 0: all
        """
        cdef int64_t gone, live
        self.first = max(self.first, front)
        gone, live = self.first - self.origin, max(end - self.first, <int64_t> 0)
        if gone >= least and (4 * gone >= live or least == 0):
            if live:
                memmove(self.parts, self.at(self.first), live * self.size)
            self.origin = self.first
        return 0

    cdef bytes told(self, int64_t end):
        """Those before page `end`: for `take`."""
        cdef int64_t live = max(end - self.first, <int64_t> 0)
        self.let_go(self.first, end, 0)
        return PyBytes_FromStringAndSize(self.parts if live else NULL, live * self.size)

    cdef int take(self, bytes told, int64_t end) except -1:
        """Take what was told; the numbers are here already. ValueError: it is damaged."""
        cdef int64_t live = max(end - self.first, <int64_t> 0)
        if self.origin != self.first or len(told) != live * <Py_ssize_t> self.size:
            raise ValueError("a kernel's pages are not as many as its rows ask for")
        if live:
            self.have(end - 1)
            memcpy(self.parts, PyBytes_AS_STRING(told), live * self.size)
        return 0


cdef class PagedKernel(Kernel):
    """One state of a window in pages; subclasses say which monoid.

    counter : of the same input

    Memory: 2^bits partials, one for every 2^bits rows of the window, and two a level.
    """

    def __cinit__(self):
        self.bits = 11
        self.pages = PageParts()
        self.restart(0)

    def __dealloc__(self):
        free(self.pending)
        free(self.prefix)
        free(self.node)
        free(self.head)

    cdef int reserve(self, size_t size) except -1:
        """Room for partials of this size."""
        self.size = self.pages.size = size
        self.node = <char*> malloc(2 * size)
        if self.node == NULL:
            raise MemoryError()
        self.after = self.node + size
        self.have_levels(LEVELS)
        return 0

    cdef int have_levels(self, int levels) except -1 nogil:
        cdef char* pending = <char*> realloc(self.pending, levels * self.size)
        cdef char* prefix
        if pending != NULL:
            self.pending = pending
            prefix = <char*> realloc(self.prefix, levels * self.size)
            if prefix != NULL:
                self.prefix, self.levels = prefix, levels
                return 0
        with gil:
            raise MemoryError(f"a window of {self.back} rows")

    def open_pages(self, int bits, load):
        """Before the first rows.

        bits : a page has 2^bits rows
        load : ``load(start, stop)`` gives (columns, valid, first): arrays that hold these rows, of
            which item 0 is row `first`
        """
        self.bits, self.load = bits, load

    def attach(self, columns, valid, int64_t first):
        """The rows from `first` on: those that have not been inside yet, at least."""
        self.tail, self.tail_first = (columns, valid, first), first
        self.bind(columns, valid, first)

    def bind(self, columns, valid, int64_t first):
        """`lift` takes rows from here."""
        Kernel.attach(self, columns, valid, first)

    def take_up(self, marks, int64_t lo, int64_t hi):
        """Before the first window: go on where a kernel stood that had all rows in memory.

        marks : of that one: the row that positions are counted from, and the one after the newest
            inside. None: it has no such marks, as its answers do not depend on them
        lo, hi : the last window; its rows are attached
        """
        cdef int64_t base, last, row
        base, last = marks or (0, hi)
        if last <= lo:    # nothing of it will be inside
            return
        self.base, self.front, self.back = base, lo - base, lo - base
        self.pages.first = self.pages.origin = self.front >> self.bits
        if self.back >> self.levels:
            self.have_levels(highest_bit(self.back) + 1)
        for row in range(lo, last):
            insert_row(self, NULL, <AnyPart*> NULL, row)

    @property
    def nbytes(self):
        """Bytes held."""
        return (2 * self.levels + 2 + self.pages.room + self.head_room) * <int64_t> self.size

    # ------------------------------------------------------------------------------ windows

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        return step_pages(self, NULL, <AnyPart*> NULL, start, n, lo, hi)

    cdef void restart(self, int64_t row) noexcept nogil:
        """An empty window: positions begin anew with this row. (The pages of the old ones stay where
        they are, so that `restore` can go back.)"""
        self.pages.origin = min(self.pages.origin - (self.back >> self.bits), <int64_t> 0)
        self.base = row
        self.front = self.back = self.pages.first = 0
        self.split = self.head_split = -1

    cdef int find_split(self) noexcept nogil:
        """The position in (front, back] that is divisible by the largest power of two; the prefixes
        from there on are made of the newest nodes."""
        cdef int top = highest_bit(self.front ^ self.back), level, above = -1
        cdef int64_t rest
        self.split = (self.back >> top) << top
        rest = self.back - self.split
        while rest:
            level = highest_bit(rest)
            if above < 0:
                memcpy(self.prefix + level * self.size, self.pending + level * self.size, self.size)
            else:
                self.combine(self.prefix + level * self.size, self.prefix + above * self.size,
                             self.pending + level * self.size)
            above = level
            rest ^= <int64_t> 1 << level
        return 0

    # --------------------------------------------------------------------------- the front

    cdef int have_room(self, int64_t rows) except -1 nogil:
        cdef char* head
        if rows > self.head_room:
            head = <char*> realloc(self.head, rows * self.size)
            if head == NULL:
                with gil:
                    raise MemoryError(f"a page of {rows} rows")
            self.head, self.head_room = head, rows
        return 0

    cdef int read(self, int64_t start, int64_t stop) except -1:
        columns, valid, first = self.load(start, stop)
        self.bind(columns, valid, first)
        return 0

    cdef int fill(self, int64_t front, int64_t end) except -1 nogil:
        """Make `head` of these rows. False: as it is made of any monoid."""
        return False

    cdef int fold_pages(self, int64_t front, char* out) noexcept nogil:
        """The suffix from the beginning of a page, before the split."""
        cdef int64_t[MAX_LEVELS] start
        cdef int64_t at = front
        cdef int n = 0, level
        while at < self.split:
            start[n] = at
            n += 1
            level = highest_bit(self.split - at)
            if at:
                level = min(level, lowest_bit(at))
            at += <int64_t> 1 << level
        memcpy(out, self.pages.at(start[n - 1] >> self.bits), self.size)
        while n > 1:
            n -= 1
            self.combine(out, self.pages.at(start[n - 1] >> self.bits), out)
        return 0

    # ---------------------------------------------------------------------------- the pages

    cdef int put_page(self, int64_t page) except -1 nogil:
        """`node` is the newest that begins with this page. (Of one that had begun to leave when it was
        full there is no node, and none is asked for.)"""
        if page >= self.pages.first:
            self.pages.have(page)
            memcpy(self.pages.at(page), self.node, self.size)
        return 0

    def let_go(self):
        """Pages before the front are needed no more: `restore` will not go back behind it."""
        self.pages.let_go(self.front >> self.bits, self.back >> self.bits, FEW_PAGES)

    def rest(self):
        """Give back what can be made again when it is needed."""
        free(self.head)
        self.head = NULL
        self.head_room = 0
        self.head_split = -1

    # ------------------------------------------------------------------------- save, restore

    def save(self):
        """Where it stands, as bytes, the pages not included: for `restore`, as long as `let_go` has not
        been called since."""
        cdef int64_t[5] told
        cdef int level
        told[0], told[1], told[2] = self.base, self.front, self.back
        told[3], told[4] = self.pages.first, self.pages.origin
        saved = [PyBytes_FromStringAndSize(<const char*> told, sizeof(told))]
        for level in range(MAX_LEVELS):
            if (self.back >> level) & 1:
                saved.append(PyBytes_FromStringAndSize(self.pending + level * self.size, self.size))
        return b"".join(saved)

    def restore(self, bytes saved):
        """Stand where `save` was called."""
        cdef int64_t[5] told
        cdef const char* at = PyBytes_AS_STRING(saved) + sizeof(told)
        cdef int64_t page
        cdef int level
        if len(saved) < <Py_ssize_t> sizeof(told):
            raise ValueError("a kernel's state is cut short")
        memcpy(told, PyBytes_AS_STRING(saved), sizeof(told))
        if len(saved) != <Py_ssize_t> (sizeof(told) + bin(told[2]).count("1") * self.size):
            raise ValueError("a kernel's state has another size")
        if not 0 <= told[1] <= told[2] or not told[4] <= told[3] <= (told[1] >> self.bits) or told[3] < 0:
            raise ValueError("a kernel's state has positions that make no sense")
        self.base, self.front, self.back = told[0], told[1], told[2]
        self.pages.first, self.pages.origin = told[3], told[4]
        if self.back >> self.levels:
            self.have_levels(highest_bit(self.back) + 1)
        self.split = self.head_split = -1
        for level in range(MAX_LEVELS):
            if (self.back >> level) & 1:
                memcpy(self.pending + level * self.size, at, self.size)
                at += self.size
                # It has been the newest node of its page again from here on.
                page = ((self.back >> (level + 1)) << (level + 1)) >> self.bits
                if level >= self.bits and self.pages.first <= page:
                    memcpy(self.node, self.pending + level * self.size, self.size)
                    self.put_page(page)
        if self.front < self.back:
            self.find_split()

    def to_parts(self):
        """All that it holds, as two bytes objects: for `fill`."""
        pages = self.pages.told(self.back >> self.bits)
        return self.save(), pages

    def fill(self, bytes saved, bytes pages):
        """What `to_parts` gave.

        Raises
        ------
        ValueError
            They are damaged, or of another kernel.
        """
        self.restore(saved)
        self.pages.take(pages, self.back >> self.bits)

    # ----------------------------------------------------------------- what subclasses replace

    cdef void clear(self, void* part) noexcept nogil:
        """The partial of no row."""

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        """That of a row which is bound; of a null, that of no row."""

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        """out = a · b; it may be either."""

    cdef int64_t lower(self, int64_t window, int64_t n) noexcept nogil:
        """The answers of n windows from their `parts`; the first that does not fit its type, or -1."""
        return -1
