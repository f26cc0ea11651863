"""Partials that nothing can be taken out of, kept as records: folded from rows, joined, read off.

The monoids are those of windows in pages (`_paged_kernels`): moments, powers, pairs and products, whose
sums are so far more precise than the answer that any way to add the same rows gives one double
(``docs/adr/0002``, ``docs/adr/0005``); and here the first and the last row, and those of an extreme.
So rows may be folded in any order, but for how far from the newest row an extreme lies.
"""
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from mta._core cimport MAX_OUTPUTS, make_lift
from mta._kernel cimport Counter, Kernel
from mta._monoids cimport FLOAT, Cell, Extreme, Lift, lift
from mta._paged cimport RUN, PagedKernel

import numpy as np

from mta._paged_kernels import SIDE_OF as _SIDE_OF


cdef class Fold:
    """The partials of one monoid as rows of 8-byte words, in arrays whose rows may be longer.

    kernel : whose monoid it is; it is given no windows

    Every method costs one combine a partial or row, and holds nothing.
    """

    cdef PagedKernel kernel
    cdef readonly int words    # of a partial

    def __init__(self, PagedKernel kernel):
        if kernel.size % 8:
            raise ValueError("a partial of no whole words")
        self.kernel, self.words = kernel, <int> (kernel.size // 8)

    def clear(self, int64_t[:, :] parts):
        """Make all of them that of no row."""
        cdef int64_t i
        self.check(parts)
        for i in range(parts.shape[0]):
            self.kernel.clear(&parts[i, 0])

    def fold(self, list columns, valid, const int64_t[::1] edges, int64_t[:, :] parts):
        """Part i becomes that of the rows from edges[i] to edges[i + 1].

        columns : 8-byte arrays, as the kernel reads them; valid : as for kernels
        """
        cdef bytearray scratch = bytearray(self.kernel.size)
        cdef char* one = scratch
        cdef int64_t i, row, rows = edges[edges.shape[0] - 1] if edges.shape[0] else 0
        self.check(parts)
        if edges.shape[0] != parts.shape[0] + 1 or any(len(c) < rows for c in columns):
            raise ValueError("edges for each part, and rows up to the last of them, are needed")
        if valid is not None and len(valid) < rows:
            raise ValueError("a mark for each row is needed")
        self.kernel.bind(columns, valid, 0)
        with nogil:
            for i in range(parts.shape[0]):
                self.kernel.clear(&parts[i, 0])
                for row in range(edges[i], edges[i + 1]):
                    self.kernel.lift(one, row)
                    self.kernel.combine(&parts[i, 0], &parts[i, 0], one)

    def join(self, int64_t[:, :] table, const int64_t[::1] codes, const int64_t[:, :] parts):
        """Join each part to what the table has for its code."""
        cdef int64_t i, n = self.check_codes(table, codes, parts)
        with nogil:
            for i in range(n):
                self.kernel.combine(&table[codes[i], 0], &table[codes[i], 0], &parts[i, 0])

    def walk_back(self, int64_t[:, :] table, const int64_t[::1] codes, const int64_t[:, :] parts,
                  int64_t[:, :] before):
        """The same, from the last part to the first, each of which is older than the table; before:
        what the table had before each, in this order."""
        cdef int64_t i, n = self.check_codes(table, codes, parts)
        cdef size_t size = self.kernel.size
        self.check(before)
        if before.shape[0] != n:
            raise ValueError("no room for what was before")
        with nogil:
            for i in range(n - 1, -1, -1):
                memcpy(&before[n - 1 - i, 0], &table[codes[i], 0], size)
                self.kernel.combine(&table[codes[i], 0], &parts[i, 0], &table[codes[i], 0])

    def lower(self, const int64_t[:, ::1] parts, const int64_t[::1] counts, list answers):
        """Read the answers off, of so many values each; the first that does not fit, or -1."""
        cdef int64_t start, n = parts.shape[0], failed
        self.check(parts)
        if counts.shape[0] != n or any(len(answer) != n for answer in answers):
            raise ValueError("a count, and room for every answer, are needed for each part")
        if n == 0:
            return -1
        self.kernel.answer_to(answers)
        self.kernel.counts = &counts[0]
        for start in range(0, n, RUN):
            self.kernel.parts = <char*> &parts[start, 0]
            failed = self.kernel.lower(start, min(n - start, <int64_t> RUN))
            if failed >= 0:
                return failed
        return -1

    cdef int check(self, const int64_t[:, :] parts) except -1:
        if parts.shape[0] and (parts.shape[1] != self.words or parts.strides[1] != 8):
            raise ValueError("partials of another size")
        return 0

    cdef int64_t check_codes(self, const int64_t[:, :] table, const int64_t[::1] codes,
                             const int64_t[:, :] parts) except -1:
        cdef int64_t i
        self.check(table)
        self.check(parts)
        if codes.shape[0] != parts.shape[0]:
            raise ValueError("a code for each part is needed")
        for i in range(codes.shape[0]):
            if not 0 <= codes[i] < table.shape[0]:
                raise ValueError("no such code")
        return codes.shape[0]


cdef inline int64_t key_of(const Lift* how, Cell raw) noexcept nogil:
    """The greater, the more it is what is asked for."""
    cdef Extreme extreme
    if how.source == FLOAT and raw.f == 0.0:
        raw.f = 0.0    # zeros of both signs are equal
    lift(how, &extreme, raw)
    return extreme.key


cdef struct Placed:
    # The value that stands in the row of an extreme: of equal keys, in that which is asked for.
    int64_t key
    int64_t time
    int64_t seq      # in which order rows came; -1: there is no row
    int64_t value


cdef class PlacedKernel(PagedKernel):
    """first and last, arg_min and arg_max by a column: the values, as they are in 8 bytes.

    source, nan, wanted : as those of ``PagedPlaces``

    Its columns are the value, the time and the number of a row, and what is compared. Equal keys go by
    time and number, so partials need not come in order.
    """

    cdef bint ordered
    cdef int n
    cdef int slots           # a partial has: least or greatest, the earliest or the latest of equals
    cdef Lift how[3]
    cdef bint latest[3]
    cdef int slot[MAX_OUTPUTS]
    cdef int64_t* out[MAX_OUTPUTS]

    def __cinit__(self, Counter counter, source, str nan, wanted):
        cdef list sides = sorted({_SIDE_OF[what] for what in wanted})
        self.ordered, self.slots, self.n = source is not None, len(sides), few(wanted)
        for k, side in enumerate(sides):
            self.how[k] = make_lift("max" if side else "min", source or "int", nan)
            self.latest[k] = side == 2
        for k in range(self.n):
            self.slot[k] = sides.index(_SIDE_OF[wanted[k]])
        self.reserve(self.slots * sizeof(Placed))

    def __init__(self, Counter counter, source, str nan, wanted):
        Kernel.__init__(self, counter)

    def answer_to(self, arrays):
        point_to(arrays, self.out)
        self.answers = arrays

    cdef void clear(self, void* part) noexcept nogil:
        cdef Placed* placed = <Placed*> part
        cdef int k
        for k in range(self.slots):
            placed[k] = Placed(0, 0, -1, 0)

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        cdef Placed* placed = <Placed*> part
        cdef int k
        if self.scan.valid != NULL and not self.scan.valid[row]:
            self.clear(part)
            return
        for k in range(self.slots):
            placed[k] = Placed(0, self.scan.columns[1][row].i, self.scan.columns[2][row].i,
                               self.scan.values[row].i)
            if self.ordered:
                placed[k].key = key_of(&self.how[k], self.scan.columns[3][row])

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        cdef Placed* to = <Placed*> out
        cdef const Placed* one = <const Placed*> a
        cdef const Placed* other = <const Placed*> b
        cdef int k
        for k in range(self.slots):
            to[k] = other[k] if is_before(&one[k], &other[k], self.latest[k]) else one[k]

    cdef int64_t lower(self, int64_t window, int64_t n) noexcept nogil:
        cdef int64_t i
        cdef int k
        for i in range(n):
            for k in range(self.n):
                self.out[k][window + i] = (<const Placed*> (self.parts + i * <int64_t> self.size))[self.slot[k]].value
        return -1


cdef inline bint is_before(const Placed* one, const Placed* other, bint latest) noexcept nogil:
    """Whether the other one is asked for, and not this one."""
    if one.seq < 0 or other.seq < 0:
        return one.seq < 0
    if one.key != other.key:
        return other.key > one.key
    if one.time != other.time:
        return (other.time > one.time) == latest
    return (other.seq > one.seq) == latest


cdef struct Back:
    int64_t key
    int64_t after    # how many rows come after that of the extreme; -1: there is none


cdef class BackKernel(PagedKernel):
    """arg_min and arg_max of one column: how many rows lie between the extreme and the newest row.

    source, nan : as those of ``ArgKernel``; wanted : list of "arg_min" and "arg_max"

    All rows lie between, nulls too. Partials have to come in order; of equal values the earliest counts.
    A partial is how many rows it has, and both extremes.
    """

    cdef Lift how[2]
    cdef int n
    cdef int side[MAX_OUTPUTS]
    cdef int64_t* out[MAX_OUTPUTS]

    def __cinit__(self, Counter counter, str source, str nan, wanted):
        self.how[0], self.how[1] = make_lift("min", source, nan), make_lift("max", source, nan)
        self.n = few(wanted)
        for k in range(self.n):
            self.side[k] = wanted[k] == "arg_max"
        self.reserve(sizeof(int64_t) + 2 * sizeof(Back))

    def __init__(self, Counter counter, str source, str nan, wanted):
        Kernel.__init__(self, counter)

    def answer_to(self, arrays):
        point_to(arrays, self.out)
        self.answers = arrays

    cdef void clear(self, void* part) noexcept nogil:
        cdef Back* back = <Back*> (<int64_t*> part + 1)
        (<int64_t*> part)[0] = 0
        back[0] = back[1] = Back(0, -1)

    cdef void lift(self, void* part, int64_t row) noexcept nogil:
        cdef Back* back = <Back*> (<int64_t*> part + 1)
        cdef int side
        self.clear(part)
        (<int64_t*> part)[0] = 1
        if self.scan.valid == NULL or self.scan.valid[row]:
            for side in range(2):
                back[side] = Back(key_of(&self.how[side], self.scan.values[row]), 0)

    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil:
        cdef Back* to = <Back*> (<int64_t*> out + 1)
        cdef const Back* older = <const Back*> (<const int64_t*> a + 1)
        cdef const Back* newer = <const Back*> (<const int64_t*> b + 1)
        cdef int64_t rows = (<const int64_t*> b)[0]
        cdef int side
        (<int64_t*> out)[0] = (<const int64_t*> a)[0] + rows
        for side in range(2):
            if older[side].after < 0 or (newer[side].after >= 0 and newer[side].key > older[side].key):
                to[side] = newer[side]
            else:
                to[side] = Back(older[side].key, older[side].after + rows)

    cdef int64_t lower(self, int64_t window, int64_t n) noexcept nogil:
        cdef int64_t i
        cdef int k
        for i in range(n):
            for k in range(self.n):
                self.out[k][window + i] = (<const Back*> (self.parts + i * <int64_t> self.size + 8))[self.side[k]].after
        return -1


cdef int few(wanted) except -1:
    """How many answers there are."""
    if len(wanted) > MAX_OUTPUTS:
        raise ValueError("too many answers of one input")
    return len(wanted)


cdef int point_to(list arrays, int64_t** out) except -1:
    """Where the items of 8-byte arrays are, which have to live as long as this is used."""
    cdef int64_t[::1] view
    for k, array in enumerate(arrays):
        view = array.view(np.int64)
        out[k] = &view[0] if view.shape[0] else NULL
    return 0
