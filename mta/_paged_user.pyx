"""Windows larger than memory: users' monoids, over rows of which only the newest and the oldest are here.

The two halves of ``_user.pyx``, in the same order of combination: the older one as suffixes up to
`split`, the newer one as a running prefix. Of the suffixes only one a *page* of 2^bits rows is kept,
that from its first row on, and those within the page in which the window begins. So a row is needed
three times: when it comes, when the window becomes the older half (its pages are read from right to
left), and when the front comes to its page. That is 1.5 times the requests of formula 3.1 (SlideM,
2013), and the window that becomes the older half takes as long as reading all of it. Where bounds cut
windows, as those by number on a store, no two may share a row: each is two halves of its own, of which
every row is read once.

The monoid itself is run by the kernel that has all rows at hand: it is given the rows of one page.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from mta._kernel cimport Counter, Kernel
from mta._monoids cimport Cell
from mta._user cimport CompiledUserKernel, PythonUserKernel, UserKernel

import struct
import sys

import numpy as np

from mta._user import NOTHING

_MARKS = struct.Struct("<qqq")


def read_marks(marks, saved, pages):
    """What `to_parts` gave, of a kernel of which only marks are kept.

    Raises
    ------
    ValueError
        It is of another kernel.
    """
    if len(saved) != marks.size or pages:
        raise ValueError("a kernel's state has another size")
    return marks.unpack(saved)


class FunctionRaised(Exception):
    """A compiled function of the user raised, and can't tell what."""


cdef class PagedUserKernel(Kernel):
    """What both kinds share: which rows are at hand, and where the halves meet.

    user : the kernel over rows that are all at hand

    Memory: a partial for every page of the older half, and those of one page.
    """

    cdef UserKernel user
    cdef int bits               # a page has 2^bits rows
    cdef object load            # gives rows that are not attached
    cdef tuple tail             # what was attached: columns, valid, first
    cdef int64_t tail_first
    cdef const int64_t* counts  # of the windows at hand, by number; NULL where hi - lo is the count
    cdef int64_t split          # [.., split) is the older half,
    cdef int64_t last           # [split, last) the newer one
    cdef bint older_empty       # no row of the older half counts
    cdef bint has_prefix        # the newer half's partial is there; if not, it has to be made again
    cdef object edges           # suffixes from the first rows of pages on; None: likewise
    cdef int64_t first_edge     # the page of the first of these
    cdef int64_t page_front     # suffixes from the rows [page_front, page_end) are at hand
    cdef int64_t page_end       # -1: none

    def __cinit__(self, UserKernel user, *_):
        self.user = user
        self.bits = 11
        self.stand((-1, -1, False))

    def __init__(self, UserKernel user):
        Kernel.__init__(self, user.counter)

    @property
    def items(self):
        """Of columns of texts, what their codes stand for."""
        return self.user.items

    @items.setter
    def items(self, items):
        self.user.items = items

    def open_pages(self, int bits, load):
        """As that of ``PagedKernel``."""
        self.bits, self.load = bits, load

    def attach(self, columns, valid, int64_t first):
        """The rows from `first` on: those that have not been inside yet, at least."""
        self.tail, self.tail_first = (columns, valid, first), first
        self.user.attach(columns, valid, first)

    def take_up(self, marks, int64_t lo, int64_t hi):
        """As that of ``PagedKernel``; the mark is the split."""
        if marks and marks[0] > lo:    # else the next window chooses another one
            self.stand((marks[0], marks[0], self.last_counting(lo, marks[0]) < lo))

    def answer_to(self, arrays):
        """As that of the kernel over rows at hand."""
        self.user.answer_to(arrays)

    # ------------------------------------------------------------------------------ windows

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        with gil:
            self.counts = self.counter.counts_from(start)
            self.run(start, n, lo, hi)
        return -1

    cdef int run(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -1:
        cdef int64_t window = start
        while window < start + n:
            if lo[window] >= self.page_end:
                self.come_to(lo[window], hi[window], self.cut_of(window, hi))
            if self.older_empty:
                self.put_nothing(window)
                window += 1
            else:
                window = self.serve(window, start + n, lo, hi)
        return 0

    cdef int come_to(self, int64_t lo, int64_t hi, int64_t cut) except -1:
        """Have the suffixes of the page of `lo`, and the prefix; or know that no row of it counts."""
        if lo >= self.split or self.older_empty:
            self.find_split(lo, hi, cut)
            self.clear_prefix()
            self.has_prefix = cut == hi or self.older_empty    # else what is after the cut is missing
            self.edges = None
        if not self.has_prefix:
            self.make_prefix()
        if not self.older_empty:
            if self.edges is None:
                self.make_edges(lo)
            self.make_page(lo, lo >> self.bits)
        self.user.attach(*self.tail)
        return 0

    cdef int find_split(self, int64_t lo, int64_t hi, int64_t cut) except -1:
        """As that of ``UserKernel``: of the window [lo, hi) what is before the cut is the older half."""
        cdef int64_t known = max(lo, self.split) if self.older_empty else lo
        cdef int64_t split = self.last_counting(known, cut) + 1
        if split <= known:
            split = self.first_counting(max(known, cut), hi) + 1
        self.older_empty = split > hi
        self.split = hi if self.older_empty else split
        self.last = hi      # what is between counts for nothing, or will be the prefix
        self.page_end = -1
        return 0

    cdef int64_t last_counting(self, int64_t lo, int64_t hi) except -2:
        """The last row in [lo, hi) that is not null; lo - 1 if there is none."""
        cdef int64_t start, row
        while hi > lo:
            start = max(lo, ((hi - 1) >> self.bits) << self.bits)
            self.bind(start, hi)
            row = self.user.last_value_in(start, hi)
            if row >= start:
                return row
            hi = start
        return lo - 1

    cdef int64_t first_counting(self, int64_t lo, int64_t hi) except -2:
        """The first row in [lo, hi) that is not null; hi if there is none."""
        cdef int64_t stop, row
        while lo < hi:
            stop = min(((lo >> self.bits) + 1) << self.bits, hi)
            self.bind(lo, stop)
            for row in range(lo, stop):
                if self.user.scan.valid == NULL or self.user.scan.valid[row]:
                    return row
            lo = stop
        return hi

    cdef int make_prefix(self) except -1:
        """That of the rows [split, last), read again."""
        cdef int64_t row = self.split, stop
        self.clear_prefix()
        self.has_prefix = False
        while row < self.last:
            stop = min(((row >> self.bits) + 1) << self.bits, self.last)
            self.bind(row, stop)
            self.extend_prefix(row, stop)
            row = stop
        self.has_prefix = True
        return 0

    cdef int make_edges(self, int64_t lo) except -1:
        """The suffix from every page of [lo, split) on, but for the first page; from right to left."""
        cdef int64_t page
        self.first_edge = (lo >> self.bits) + 1
        self.begin_edges(((self.split - 1) >> self.bits) - self.first_edge + 1)
        for page in range((self.split - 1) >> self.bits, self.first_edge - 1, -1):
            self.make_page(page << self.bits, page)
            self.put_edge(page - self.first_edge)
        return 0

    cdef int make_page(self, int64_t lo, int64_t page) except -1:
        """The suffixes from the rows from `lo` on to the end of this page, or to the split."""
        cdef int64_t end = min((page + 1) << self.bits, self.split)
        self.page_end = -1
        self.page_front = lo
        self.bind(lo, end)
        self.make_suffixes(lo, end, -1 if end == self.split else page + 1 - self.first_edge)
        self.page_end = end
        return 0

    cdef int bind(self, int64_t start, int64_t stop) except -1:
        """These rows, all of one page, are at hand."""
        if start >= self.tail_first:
            self.user.attach(*self.tail)
        else:
            self.user.attach(*self.load(start, stop))
        return 0

    # ---------------------------------------------------------------------- all or nothing

    def let_go(self):
        """Nothing is kept that could go."""

    def rest(self):
        """Give back what can be made again when it is needed."""
        self.page_end = -1

    cdef int stand(self, place) except -1:
        """Stand at this (split, last, older_empty); all partials are yet to be made from the rows."""
        self.split, self.last, self.older_empty = place
        self.has_prefix = False
        self.edges = None
        self.page_end = -1
        return 0

    def save(self):
        """Where it stands: for `restore`, in this process. (Partials are never changed.)"""
        prefix = self.copied_prefix() if self.has_prefix else None
        return self.split, self.last, self.older_empty, self.edges, self.first_edge, prefix

    def restore(self, saved):
        """Stand where `save` was called."""
        split, last, older_empty, edges, first_edge, prefix = saved
        self.stand((split, last, older_empty))
        self.edges, self.first_edge = edges, first_edge
        if prefix is not None:
            self.put_prefix(prefix)
            self.has_prefix = True

    def to_parts(self):
        """Where it stands, as two bytes objects: for `fill`. Partials are the user's, and are made
        again of the rows."""
        return _MARKS.pack(self.split, self.last, self.older_empty), b""

    def fill(self, bytes saved, bytes pages):
        """What `to_parts` gave.

        Raises
        ------
        ValueError
            They are damaged, or of another kernel.
        """
        split, last, older_empty = read_marks(_MARKS, saved, pages)
        if not -1 <= split <= last or older_empty not in (0, 1):
            raise ValueError("a kernel's state has positions that make no sense")
        self.stand((split, last, older_empty))

    # ----------------------------------------------------------------- what subclasses replace

    cdef int clear_prefix(self) except -1:
        """The newer half is empty."""
        raise NotImplementedError

    cdef int extend_prefix(self, int64_t start, int64_t stop) except -1:
        """The rows [start, stop), which are at hand, enter the newer half."""
        raise NotImplementedError

    cdef object copied_prefix(self):
        raise NotImplementedError

    cdef int put_prefix(self, prefix) except -1:
        raise NotImplementedError

    cdef int begin_edges(self, int64_t pages) except -1:
        """New room for so many; the old ones stay as they are, for `restore`."""
        raise NotImplementedError

    cdef int put_edge(self, int64_t place) except -1:
        """The suffix from `page_front` on."""
        raise NotImplementedError

    cdef int make_suffixes(self, int64_t start, int64_t stop, int64_t follows) except -1:
        """From the rows [start, stop), which are at hand; the edge at place `follows` comes then,
        unless it is -1."""
        raise NotImplementedError

    cdef int put_nothing(self, int64_t window) except -1:
        """No row of this window counts."""
        raise NotImplementedError

    cdef int64_t serve(self, int64_t window, int64_t stop, const int64_t* lo, const int64_t* hi) except -1:
        """Answer windows from this one on that begin in the page at hand; the first that does not."""
        raise NotImplementedError


# ---------------------------------------------------------------------------- compiled

cdef class PagedCompiledUser(PagedUserKernel):
    """A user monoid through two functions of machine code.

    Cost: 5 combines, 3 lifts, 1 lower a row.
    """

    cdef CompiledUserKernel compiled
    cdef int64_t* page      # suffixes, and behind them one that follows
    cdef int64_t room       # cells

    def __cinit__(self, CompiledUserKernel user):
        self.compiled = user

    def __dealloc__(self):
        free(self.page)

    @property
    def nbytes(self):
        """Bytes held."""
        edges = 0 if self.edges is None else self.edges.nbytes
        return edges + (self.room + 2 + self.compiled.cells) * <int64_t> sizeof(int64_t)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef Cell** out = self.compiled.out
        cdef int k
        with gil:
            begun = self.split, self.last, self.older_empty
            try:
                PagedUserKernel.step(self, start, n, lo, hi)
            except FunctionRaised:
                self.fail(begun, start, n, lo, hi)
        for k in range(1, self.compiled.outputs):
            memcpy(out[k] + start, out[0] + start, n * sizeof(Cell))
        return -1

    cdef int64_t serve(self, int64_t window, int64_t stop, const int64_t* lo, const int64_t* hi) except -1:
        window = self.slide_to(window, stop, lo, hi, self.counts, self.page_end, self.compiled.need,
                               self.compiled.out[0])
        self.last = self.compiled.state[0]
        return window

    cdef int64_t slide_to(self, int64_t window, int64_t stop, const int64_t* lo, const int64_t* hi,
                          const int64_t* counts, int64_t end, int64_t need, Cell* out) except -1:
        cdef CompiledUserKernel c = self.compiled
        cdef const Cell** x = c.scan.columns
        cdef int64_t* suffix = self.page - self.page_front * c.cells
        with nogil:
            window = c.slide(x[0], x[1], x[2], x[3], c.scan.valid, c.scan.valid != NULL, lo, hi, counts,
                             counts != NULL, window, stop, end, need, suffix, c.state, out)
        if window < 0:
            raise FunctionRaised
        return window

    cdef int clear_prefix(self) except -1:
        self.compiled.state[0], self.compiled.state[1] = self.last, 0
        self.has_prefix = True
        return 0

    cdef int extend_prefix(self, int64_t start, int64_t stop) except -1:
        """By a window of these rows that has too few values to be lowered."""
        cdef int64_t lo = start - 1
        cdef Cell unused
        self.compiled.state[0] = start
        self.slide_to(0, 1, &lo, &stop, NULL, start, stop - start + 2, &unused)
        return 0

    cdef object copied_prefix(self):
        return <bytes> (<char*> self.compiled.state)[:(2 + self.compiled.cells) * sizeof(int64_t)]

    cdef int put_prefix(self, prefix) except -1:
        memcpy(self.compiled.state, <const char*> (<bytes> prefix), len(prefix))
        return 0

    cdef int begin_edges(self, int64_t pages) except -1:
        self.edges = np.empty((pages, self.compiled.cells), np.int64)
        return 0

    cdef int put_edge(self, int64_t place) except -1:
        cdef int64_t[:, ::1] edges = self.edges
        memcpy(&edges[place, 0], self.page, self.compiled.cells * sizeof(int64_t))
        return 0

    cdef int make_suffixes(self, int64_t start, int64_t stop, int64_t follows) except -1:
        cdef CompiledUserKernel c = self.compiled
        cdef const Cell** x = c.scan.columns
        cdef int64_t[:, ::1] edges = self.edges
        cdef int64_t done
        self.reserve((stop - start + 1) * c.cells)
        if follows >= 0:
            memcpy(self.page + (stop - start) * c.cells, &edges[follows, 0], c.cells * sizeof(int64_t))
        with nogil:
            done = c.build(x[0], x[1], x[2], x[3], c.scan.valid, c.scan.valid != NULL, start, stop,
                           follows >= 0, self.page - start * c.cells)
        if done < 0:
            raise FunctionRaised
        return 0

    cdef int reserve(self, int64_t cells) except -1:
        cdef int64_t* page
        if cells > self.room:
            page = <int64_t*> realloc(self.page, cells * sizeof(int64_t))
            if page == NULL:
                raise MemoryError(f"a page of {cells} numbers")
            self.page, self.room = page, cells
        return 0

    def rest(self):
        """As of every kernel."""
        PagedUserKernel.rest(self)
        free(self.page)
        self.page = NULL
        self.room = 0

    cdef int put_nothing(self, int64_t window) except -1:
        self.compiled.out[0][window] = self.compiled.nothing
        return 0

    cdef int fail(self, begun, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -1:
        """Machine code can't tell what was raised: raise it again, from Python."""
        cdef CompiledUserKernel c = self.compiled
        cdef PagedPythonUser python = PagedPythonUser(
            PythonUserKernel(self.counter, c.monoid, c.sources, c.program, c.need))
        python.python.checked = True
        python.open_pages(self.bits, self.load)
        python.attach(*self.tail)
        python.stand(begun)
        self.stand(begun)
        python.answer_to([np.empty(start + n, np.object_)])
        python.step(start, n, lo, hi)
        raise RuntimeError(f"{c.monoid!r}: a compiled function raised where it does not in Python")


# ------------------------------------------------------------------------------ Python

cdef class PagedPythonUser(PagedUserKernel):
    """A user monoid of any Python objects, under the GIL.

    Cost: 5 calls of combine, 3 of lift and 1 of lower a row. What a function raises surfaces as in memory.
    """

    cdef PythonUserKernel python
    cdef object prefix
    cdef list page          # suffixes from the rows of the page at hand

    def __cinit__(self, PythonUserKernel user):
        self.python = user
        self.prefix = NOTHING
        self.page = []

    @property
    def nbytes(self):
        """Bytes held, if all partials are as large as one of them; what they refer to is not known."""
        held = [*(self.edges or ())[:1], *self.page[:1]]
        partials = len(self.edges or ()) + len(self.page)
        return partials * (sizeof(void*) + sys.getsizeof(held[0])) if held else 0

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        with gil:
            begun = self.split, self.last, self.older_empty
            self.python.doing = None
            try:
                PagedUserKernel.step(self, start, n, lo, hi)
                for other in self.python.answers[1:]:
                    other[start:start + n] = self.python.answers[0][start:start + n]
            except BaseException as error:
                self.stand(begun)
                self.python.explain(error, lo, hi)
                raise
        return -1

    cdef int bind(self, int64_t start, int64_t stop) except -1:
        self.python.doing = None    # what is raised now is none of the user's
        PagedUserKernel.bind(self, start, stop)
        return 0

    cdef int64_t serve(self, int64_t window, int64_t stop, const int64_t* lo, const int64_t* hi) except -1:
        while window < stop and lo[window] < self.page_end:
            if self.last < hi[window]:
                self.extend_prefix(self.last, hi[window])
                self.last = hi[window]
            if (self.counts[window] if self.counts != NULL else hi[window] - lo[window]) < self.python.need:
                self.python.out[window] = None
            else:
                self.python.out[window] = self.python.lowered(
                    window, self.page[lo[window] - self.page_front], self.prefix)
            window += 1
        return window

    cdef int clear_prefix(self) except -1:
        self.prefix = NOTHING
        self.has_prefix = True
        return 0

    cdef int extend_prefix(self, int64_t start, int64_t stop) except -1:
        cdef int64_t row
        for row in range(start, stop):
            self.prefix = self.joined(self.prefix, self.python.lifted(row))
        return 0

    cdef object joined(self, older, newer):
        """Both; one of them is the partial of the row that was lifted last."""
        if older is NOTHING:
            return newer
        if newer is NOTHING:
            return older
        self.python.doing = "combine with lift"
        return self.python.combine(older, newer)

    cdef object copied_prefix(self):
        return self.prefix

    cdef int put_prefix(self, prefix) except -1:
        self.prefix = prefix
        return 0

    cdef int begin_edges(self, int64_t pages) except -1:
        self.edges = [None] * pages
        return 0

    cdef int put_edge(self, int64_t place) except -1:
        self.edges[place] = self.page[0]
        return 0

    cdef int make_suffixes(self, int64_t start, int64_t stop, int64_t follows) except -1:
        cdef int64_t row
        cdef object part = NOTHING if follows < 0 else self.edges[follows]
        self.page = [None] * (stop - start)
        for row in range(stop - 1, start - 1, -1):
            part = self.joined(self.python.lifted(row), part)
            self.page[row - start] = part
        return 0

    def rest(self):
        """As of every kernel."""
        PagedUserKernel.rest(self)
        self.page = []

    cdef int put_nothing(self, int64_t window) except -1:
        self.python.out[window] = None
        return 0
