"""Windows larger than memory: how many different values they have.

How often a value is inside says whether a row that comes brings a new one, and whether the last one of
its kind leaves. These counts are in a hash table; when that is full, they go to a `CountLog` as what
they have changed by, and are looked up there, many at a time, when rows with these values come or leave.
"""
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from mta._kernel cimport Counter, Kernel, Scan
from mta._leaving cimport LeavingKernel
from mta._multiset cimport lower_bound

import numpy as np

cdef enum:
    SMALLEST = 64       # places of a table
    AT_ONCE = 1 << 16   # rows for which the log is asked
    FEWEST = 2          # values that a table has to have room for


_NONE = np.zeros(0, np.int64)


cdef inline bint is_live(const Place* p) noexcept nogil:
    """Whether a code is inside, or the log knows of it."""
    return p.count != UNUSED and (p.count != 0 or p.logged != 0)


cdef class CountTable:
    """How often codes occur: open addressing, at most 2/3 full, and what was changed since `keep`."""

    def __cinit__(self):
        self.rebuild(SMALLEST)

    def __dealloc__(self):
        free(self.places)
        free(self.changes)

    @property
    def nbytes(self):
        """Bytes held."""
        return self.capacity * <int64_t> sizeof(Place) + self.room * <int64_t> sizeof(Change)

    cdef int rebuild(self, int64_t capacity) except -1 nogil:
        """With so many places; without codes that are neither inside nor in the log."""
        cdef Place* old = self.places
        cdef int64_t n = self.capacity, i
        cdef Place* p
        cdef Place* places = <Place*> malloc(capacity * sizeof(Place))
        if places == NULL:
            with gil:
                raise MemoryError(f"{capacity} different values")
        memset(places, 0xFF, capacity * sizeof(Place))
        self.places, self.capacity, self.n = places, capacity, 0
        self.shift = 64
        while capacity > 1:
            capacity >>= 1
            self.shift -= 1
        for i in range(n):
            if is_live(&old[i]):
                p = self.place(old[i].code)
                p[0] = old[i]
                self.n += 1
        free(old)
        return 0

    cdef Place* place(self, int64_t code) noexcept nogil:
        """Its place, or the one that it would have."""
        cdef uint64_t i = (<uint64_t> code * <uint64_t> 0x9E3779B97F4A7C15) >> self.shift
        while self.places[i].count != UNUSED and self.places[i].code != code:
            i = (i + 1) & <uint64_t> (self.capacity - 1)
        return &self.places[i]

    cdef Place* have(self, int64_t code) except NULL nogil:
        """Its place; with a count of 0 if it is new."""
        cdef Place* p = self.place(code)
        if p.count != UNUSED:
            return p
        if 3 * (self.n + 1) > 2 * self.capacity:
            self.rebuild(self.capacity)
            if 3 * (self.n + 1) > self.capacity:
                self.rebuild(2 * self.capacity)
            p = self.place(code)
        p.code, p.count, p.logged = code, 0, 0
        self.n += 1
        return p

    cdef int64_t live(self) noexcept nogil:
        """Codes that are inside, or that the log knows of."""
        cdef int64_t i, n = 0
        for i in range(self.capacity):
            n += is_live(&self.places[i])
        return n

    cdef int64_t change(self, int64_t code, int64_t by) except -1 nogil:
        """One more or less of a code; how many there are now."""
        cdef Place* p = self.have(code)
        cdef Change* changes
        if self.changed == self.room:
            changes = <Change*> realloc(self.changes, (2 * self.room + 64) * sizeof(Change))
            if changes == NULL:
                with gil:
                    raise MemoryError(f"{self.room} rows")
            self.changes, self.room = changes, 2 * self.room + 64
        if (p.count == 0 and by < 0) or (p.count == UNUSED - 1 and by > 0):
            with gil:
                raise OverflowError(f"a value is {p.count} times inside, and {by} more")
        p.count += by
        self.changes[self.changed] = Change(code, by)
        self.changed += 1
        return p.count

    cdef int undo(self, int64_t changed) except -1:
        """As it was when so many changes were made."""
        while self.changed > changed:
            self.changed -= 1
            self.have(self.changes[self.changed].code).count -= self.changes[self.changed].by
        return 0

    cdef int keep(self) noexcept:
        """Nothing is undone any more."""
        self.changed = self.room = 0
        free(self.changes)
        self.changes = NULL
        return 0

    def entries(self):
        """The codes that are inside, or that the log knows of, ascending; their counts, and those that
        the log knows of."""
        cdef int64_t i, n = 0
        made = np.empty((3, self.live()), np.int64)
        cdef int64_t[:, ::1] view = made
        for i in range(self.capacity):
            if is_live(&self.places[i]):
                view[0, n], view[1, n] = self.places[i].code, self.places[i].count
                view[2, n] = self.places[i].logged
                n += 1
        return made[:, made[0].argsort()]

    def fill(self, const int64_t[::1] codes, const int64_t[::1] counts, const int64_t[::1] logged):
        """Take codes that are not here yet."""
        cdef int64_t i
        cdef Place* p
        for i in range(codes.shape[0]):
            p = self.have(codes[i])
            p.count, p.logged = counts[i], logged[i]


cdef class Ahead:
    """What the log knows of the codes of rows that come next."""

    def __cinit__(self, codes=_NONE, counts=_NONE):
        cdef const int64_t[::1] view = codes, beside = counts
        self.codes, self.counts, self.n = codes, counts, view.shape[0]
        if self.n:
            self.code, self.count = &view[0], &beside[0]

    cdef int64_t find(self, int64_t code) noexcept nogil:
        """How many of a code there are; -1: it has not been asked for."""
        cdef int64_t at = lower_bound(self.code, self.n, code)
        return self.count[at] if at < self.n and self.code[at] == code else -1

    cdef int note(self, codes, by) except -1:
        """The log has been told of changes."""
        at = self.codes.searchsorted(codes)
        at[at == len(self.codes)] = 0
        known = self.codes[at] == codes if len(self.codes) else np.zeros(len(at), np.bool_)
        self.counts[at[known]] += by[known]
        return 0


cdef class PagedDistinct(LeavingKernel):
    """count_distinct, of int64 codes that are equal for equal values.

    answers : how many there are

    Cost: O(1) a row, as long as the different values of the window fit in memory (24 bytes each, or
    up to twice that). Else the log is looked through: for up to 65,536 rows at a time that come in one
    push, and for those of each page that leaves. Memory: what `open_log` says, and 32 bytes for each of
    these rows.
    """

    def __cinit__(self):
        self.table, self.coming, self.leaving = CountTable(), Ahead(), Ahead()

    def __init__(self, Counter counter, int answers):
        Kernel.__init__(self, counter)
        self.outs = answers

    def open_log(self, log, int64_t memory):
        """As that of ``PagedRanks``."""
        self.counts = log
        self.most = max(memory // <int64_t> sizeof(Place) // 3, <int64_t> FEWEST)

    @property
    def log(self):
        """The log of `open_log`."""
        return self.counts

    @property
    def nbytes(self):
        """Bytes held."""
        return self.table.nbytes + self.counts.nbytes

    def answer_to(self, arrays):
        cdef int64_t[::1] view
        self.answers = arrays
        for k, array in enumerate(arrays):
            view = array
            self.out[k] = &view[0] if view.shape[0] else NULL

    # ------------------------------------------------------------------------------ windows

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef int64_t i
        cdef int k
        for i in range(start, start + n):
            self.move(lo[i], hi[i])
            for k in range(self.outs):
                self.out[k][i] = self.distinct
        return -1

    cdef int clear(self) except -1 nogil:
        if self.last >= 0:
            with gil:
                self.counts.clear()
                self.table, self.coming, self.leaving = CountTable(), Ahead(), Ahead()
                self.distinct = self.logs = 0
        return 0

    cdef int add(self, const Scan* rows, int64_t start, int64_t stop, int64_t sign) except -1 nogil:
        cdef int64_t row
        for row in range(start, stop):
            if rows.valid == NULL or rows.valid[row]:
                self.change(rows, row, stop, sign)
        return 0

    cdef int64_t change(self, const Scan* rows, int64_t row, int64_t stop, int64_t sign) except -1 nogil:
        """A row comes in (1), or leaves (-1); how many have its code then."""
        cdef int64_t code = rows.values[row].i, count
        if self.table.place(code).count == UNUSED:
            self.look_up(rows, row, max(self.end_of(rows), stop))
        count = self.table.change(code, sign)
        if sign > 0:
            self.distinct += count == 1
        else:
            self.distinct -= count == 0
        return count

    cdef int64_t end_of(self, const Scan* rows) noexcept nogil:
        """Before which row these end."""
        return self.scan.rows if rows == &self.scan else self.pages.end

    cdef int look_up(self, const Scan* rows, int64_t start, int64_t stop) except -1 nogil:
        """Have the count of a row's code in the table."""
        cdef int64_t code = rows.values[start].i, found
        cdef Place* p
        if self.table.n >= self.most:
            self.table.rebuild(self.table.capacity)
            if 2 * self.table.n >= self.most:
                with gil:
                    self.give_to_log()
        if not self.logs:
            return 0
        found = self.logged(code)
        if found < 0:
            with gil:
                if rows == &self.scan:
                    self.coming = self.ask(rows, start, stop)
                else:
                    self.leaving = self.ask(rows, start, stop)
            found = self.logged(code)
        p = self.table.have(code)
        p.count = p.logged = found
        return 0

    cdef int64_t logged(self, int64_t code) noexcept nogil:
        """How many the log knows of; -1: it has not been asked."""
        cdef int64_t found = self.coming.find(code)
        return found if found >= 0 else self.leaving.find(code)

    cdef Ahead ask(self, const Scan* rows, int64_t start, int64_t stop):
        """What the log knows of the codes of these rows, or of as many as is reasonable."""
        cdef int64_t row, n = 0
        cdef int64_t[::1] view
        missing = np.empty(min(stop - start, <int64_t> AT_ONCE), np.int64)
        view = missing
        for row in range(start, start + view.shape[0]):
            if rows.valid == NULL or rows.valid[row]:
                view[n] = rows.values[row].i
                n += self.table.place(view[n]).count == UNUSED
        codes = np.unique(missing[:n])
        return Ahead(codes, self.counts.find(codes))

    cdef int give_to_log(self) except -1:
        """All counts go to the log. (The table stays as it is: `restore` may need it.)"""
        codes, counts, logged = self.table.entries()
        changed = counts != logged
        codes, by = codes[changed], (counts - logged)[changed]
        self.counts.extend(codes, by)
        self.coming.note(codes, by)
        self.leaving.note(codes, by)
        self.table, self.logs = CountTable(), True
        return 0

    # -------------------------------------------------------------------------- save, restore

    def let_go(self):
        self.table.keep()

    def save(self):
        return self.first, self.last, self.distinct, self.table, self.table.changed, self.counts.save()

    def restore(self, saved):
        self.first, self.last, self.distinct, self.table, changed, runs = saved
        self.table.undo(changed)
        self.counts.restore(runs)
        self.logs = len(self.counts.runs) > 0
        self.coming, self.leaving = Ahead(), Ahead()

    def to_parts(self):
        told, firsts = self.counts.to_parts()
        entries = self.table.entries()
        numbers = [self.first, self.last, self.distinct, entries.shape[1], len(told)]
        return np.array(numbers, np.int64).tobytes(), entries.tobytes() + told + firsts

    def fill(self, bytes saved, bytes pages):
        numbers = np.frombuffer(saved, np.int64).tolist()
        if len(numbers) != 5 or numbers[3] < 0 or len(pages) < 24 * numbers[3] + numbers[4]:
            raise ValueError("a kernel's state is cut short")
        self.first, self.last, self.distinct, n, length = numbers
        self.table.fill(*np.frombuffer(pages, np.int64, 3 * n).reshape(3, n))
        told = pages[24 * n:]
        self.counts.fill(told[:length], told[length:])
        self.logs = len(self.counts.runs) > 0
