"""Windows larger than memory: their most frequent values.

The counts are those of ``_paged_distinct.pyx``. Of equally frequent values the first to occur in the
window counts. Where each value occurs first is not kept: as the most frequent ones occur often, the
window is looked through from its front until they have been met. As long as none of them leaves, and no
other comes to be as frequent, that need not be done again.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove

from mta._kernel cimport Counter, Kernel, Lists, Scan
from mta._leaving cimport LeavingKernel, Pages
from mta._paged_distinct cimport UNUSED, Ahead, CountTable, PagedDistinct

import numpy as np


cdef struct Leader:
    int64_t code
    int64_t count
    int64_t row     # the first one inside that has the code


cdef class PagedTallies(PagedDistinct):
    """mode, most_common and count_distinct; answers as those of ``TallyKernel``.

    wanted : per answer "count_distinct", "mode", or ("most_common", k)

    Cost: that of ``PagedDistinct``, and where a leading value leaves, or another one comes to be as
    frequent, a look at rows from the front on: for the k-th of n rows some n / count(k) of them, which
    are read again if they are not in memory. Memory: 16 to 32 bytes more for every different count.
    """

    cdef CountTable levels      # how many codes have each count
    cdef Ahead looking          # what the log knows of the codes among which leaders are looked for
    cdef Pages searched         # and the pages with these
    cdef Leader* leaders        # the most frequent first; as many as are asked for, or as there are
    cdef int64_t deepest
    cdef int64_t n
    cdef bint known             # whether they are those of the window at hand
    cdef int64_t* places        # per answer: how many leaders; 0: mode, -1: count_distinct
    cdef bint lists             # whether there are answers that are lists

    def __cinit__(self, Counter counter, wanted):
        places = [_PLACES[what] if isinstance(what, str) else what[1] for what in wanted]
        self.deepest, self.lists, self.outs = max(1, max(places)), max(places) > 0, <int> len(places)
        self.leaders = <Leader*> malloc((self.deepest + 1) * sizeof(Leader))
        self.places = <int64_t*> malloc((len(places) + 1) * sizeof(int64_t))
        if self.leaders == NULL or self.places == NULL:
            raise MemoryError(f"the {self.deepest} most frequent")
        for k, place in enumerate(places):
            self.places[k] = place
        self.levels, self.looking = CountTable(), Ahead()

    def __init__(self, Counter counter, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        free(self.leaders)
        free(self.places)

    def open_pages(self, int bits, load):
        LeavingKernel.open_pages(self, bits, load)
        self.searched = Pages(bits, load)

    def attach(self, columns, valid, int64_t first):
        LeavingKernel.attach(self, columns, valid, first)
        self.searched.tail = first

    @property
    def nbytes(self):
        """Bytes held."""
        return self.table.nbytes + self.counts.nbytes + self.levels.nbytes

    def answer_to(self, arrays):
        cdef int64_t[::1] view
        self.answers = arrays
        for k, room in enumerate(arrays):
            if self.places[k] <= 0:
                view = room
                self.out[k] = &view[0] if view.shape[0] else NULL

    # ------------------------------------------------------------------------------ windows

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t i
        cdef int k
        for i in range(start, start + n):
            self.move(lo[i], hi[i])
            if not self.known:
                self.search()
            for k in range(self.outs):
                if self.places[k] < 0:
                    self.out[k][i] = self.distinct
                elif self.places[k] == 0:
                    self.out[k][i] = self.leaders[0].row if self.n else -1
            if self.lists:
                with gil:
                    self.add_lists(i)
        return -1

    cdef int add_lists(self, int64_t window) except -1:
        cdef Lists lists
        cdef int64_t size, i
        cdef int k
        for k in range(self.outs):
            if self.places[k] > 0:
                lists, size = self.answers[k], min(self.places[k], self.n)
                for i in range(size):
                    lists.add(self.leaders[i].row)
                lists.length[window] = size
        return 0

    cdef int clear(self) except -1 nogil:
        with gil:
            self.levels, self.looking = CountTable(), Ahead()
        self.known = False
        return PagedDistinct.clear(self)

    cdef int64_t change(self, const Scan* rows, int64_t row, int64_t stop, int64_t sign) except -1 nogil:
        cdef int64_t count = PagedDistinct.change(self, rows, row, stop, sign)
        if count - sign > 0:
            self.levels.change(count - sign, -1)
        if count > 0:
            self.levels.change(count, 1)
        if self.known:
            self.follow(rows.values[row].i, row, count, sign)
        return count

    cdef int follow(self, int64_t code, int64_t row, int64_t count, int64_t sign) noexcept nogil:
        """The leaders, after one row more or less."""
        cdef int64_t least = self.leaders[self.n - 1].count if self.n == self.deepest else 0, i
        cdef Leader moved
        if max(count, count - sign) < least:
            return 0
        i = self.find_leader(code)
        if sign < 0:
            self.known = i == self.n    # else it may lead no more, and certainly begins elsewhere
        elif i < self.n:
            moved = Leader(code, count, self.leaders[i].row)
            while i > 0 and is_behind(&self.leaders[i - 1], &moved):
                self.leaders[i] = self.leaders[i - 1]
                i -= 1
            self.leaders[i] = moved
        elif self.n < self.deepest:
            self.leaders[self.n] = Leader(code, count, row)     # a new one: no leader comes later
            self.n += 1
        else:
            self.known = False
        return 0

    cdef int64_t find_leader(self, int64_t code) noexcept nogil:
        cdef int64_t i = 0
        while i < self.n and self.leaders[i].code != code:
            i += 1
        return i

    # ----------------------------------------------------------------------------- the search

    cdef int search(self) except -1 nogil:
        """Look for the leaders from the front on."""
        cdef int64_t wanted = min(self.deepest, self.distinct), row = self.first, end, stop, level, rest
        cdef const Scan* rows
        self.n = 0
        rest = self.find_level(wanted, &level)
        while self.n < wanted:
            rows, end = &self.scan, self.last
            if row < self.searched.tail:
                rows = self.searched.at(row, &end)
            stop = min(end, self.last)
            while row < stop and self.n < wanted:
                if rows.valid == NULL or rows.valid[row]:
                    rest -= self.consider(rows, row, stop, level, rest > 0)
                row += 1
        self.known = True
        return 0

    cdef int64_t find_level(self, int64_t wanted, int64_t* level) noexcept nogil:
        """The count of the last of so many leaders; how many of this count are among them."""
        cdef int64_t above = 0, here = 0
        level[0] = INT64_MAX
        while wanted > above + here:
            above += here
            here = self.next_level(level)
        return wanted - above

    cdef int64_t next_level(self, int64_t* level) noexcept nogil:
        """The next lower count that codes have; how many have it."""
        cdef int64_t below = level[0], i, n = 0
        level[0] = 0
        for i in range(self.levels.capacity):
            if (self.levels.places[i].count != UNUSED and self.levels.places[i].count
                    and level[0] < self.levels.places[i].code < below):
                level[0], n = self.levels.places[i].code, self.levels.places[i].count
        return n

    cdef bint consider(self, const Scan* rows, int64_t row, int64_t stop, int64_t level,
                       bint takes_last) except -1 nogil:
        """Whether a row is the first one of a leader of this level; one of a higher level is taken too."""
        cdef int64_t code = rows.values[row].i, count = self.count_of(rows, row, stop), i
        cdef Leader found
        if count < level or (count == level and not takes_last) or self.find_leader(code) < self.n:
            return False
        found = Leader(code, count, row)
        i = self.n
        while i > 0 and self.leaders[i - 1].count < count:
            i -= 1
        memmove(self.leaders + i + 1, self.leaders + i, (self.n - i) * sizeof(Leader))
        self.leaders[i] = found
        self.n += 1
        return count == level

    cdef int64_t count_of(self, const Scan* rows, int64_t row, int64_t stop) except -1 nogil:
        """How often the code of a row is inside."""
        cdef int64_t code = rows.values[row].i, found = self.table.place(code).count
        if found != UNUSED:
            return found
        found = self.logged(code)
        if found < 0:
            found = self.looking.find(code)
        if found < 0:
            with gil:
                self.looking = self.ask(rows, row, stop)
            found = self.looking.find(code)
        return found

    cdef int give_to_log(self) except -1:
        self.looking = Ahead()
        return PagedDistinct.give_to_log(self)

    # -------------------------------------------------------------------------- save, restore

    def let_go(self):
        PagedDistinct.let_go(self)
        self.levels.keep()

    def rest(self):
        LeavingKernel.rest(self)
        self.searched.drop()

    def save(self):
        return PagedDistinct.save(self), self.levels, self.levels.changed

    def restore(self, saved):
        counts, self.levels, changed = saved
        PagedDistinct.restore(self, counts)
        self.levels.undo(changed)
        self.looking, self.known = Ahead(), False

    def to_parts(self):
        saved, pages = PagedDistinct.to_parts(self)
        entries = self.levels.entries()
        return saved + np.array([entries.shape[1]], np.int64).tobytes(), entries.tobytes() + pages

    def fill(self, bytes saved, bytes pages):
        if len(saved) < 8:
            raise ValueError("a kernel's state is cut short")
        n = int(np.frombuffer(saved, np.int64)[len(saved) // 8 - 1])
        if n < 0 or len(pages) < 24 * n:
            raise ValueError("a kernel's state is cut short")
        self.levels.fill(*np.frombuffer(pages, np.int64, 3 * n).reshape(3, n))
        PagedDistinct.fill(self, saved[:len(saved) - 8], pages[24 * n:])
        self.known = False


cdef inline bint is_behind(const Leader* a, const Leader* b) noexcept nogil:
    """Whether a comes after b among the leaders."""
    return a.count < b.count or (a.count == b.count and a.row > b.row)


_PLACES = {"count_distinct": -1, "mode": 0}
