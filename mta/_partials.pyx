"""Partial aggregates of rows in any order, and their answers."""
from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from mta._core cimport make_lift
from mta._exact cimport divide_int128
from mta._monoids cimport Cell, Extreme, Wanted, lower_extremes

import numpy as np

cdef extern from "_widesums.h":
    bint fits "mta_fits"(int128 sum, bint is_unsigned) nogil

cdef dict KINDS = {"rows": ROWS, "values": VALUES, "min": EXTREME, "max": EXTREME}

MOST_INPUTS = MOST_COUNTED


cdef class Layout:
    """What a partial is made of.

    specs : one tuple (kind, feed, input, source, nan) per measure, the first one of which is
        ("rows", 0, -1, "", ""). kind: "rows", "values" (rows that count for the input), "sum", "min" or
        "max"; feed: number of the column; input: number of what says which rows count, -1: all do;
        source, nan: as those of ``Forest``
    feeds : how many columns there are

    Memory of a partial: 4 bytes and 4 more per sum of floats, rounded up to 8, and 8 per measure, 16
    where it is a sum.

    Examples
    --------
    >>> Layout([("rows", 0, -1, "", ""), ("sum", 0, -1, "float", "propagate")], 1).size
    32
    """

    def __cinit__(self, list specs, int feeds):
        cdef Shape* s = &self.shape
        cdef int k, heads = 4
        if feeds > MOST_FEEDS:
            raise ValueError(f"more than {MOST_FEEDS} columns")
        if not specs or specs[0][0] != "rows":
            raise ValueError("the first measure counts the rows")
        self.specs = specs
        s.measure = <Measure*> calloc(len(specs), sizeof(Measure))
        if s.measure == NULL:
            raise MemoryError("the layout of a partial")
        s.measures, s.feeds = len(specs), feeds
        for k in range(s.measures):
            read_measure(&s.measure[k], specs[k], feeds)
            if s.measure[k].kind == FLOATS:
                s.measure[k].head = heads
                s.floats += 1
                heads += sizeof(Head)
        s.size = (heads + 7) // 8 * 8
        for k in range(s.measures):
            s.measure[k].at = s.size
            s.size += 16 if s.measure[k].kind in (INTEGERS, FLOATS) else 8

    def __dealloc__(self):
        free(self.shape.measure)

    @property
    def size(self):
        """Bytes of one partial."""
        return self.shape.size


cdef int read_measure(Measure* m, tuple spec, int feeds) except -1:
    kind, feed, source_input, source, nan = spec
    m.feed, m.input = feed, source_input
    if kind == "sum":
        m.kind = FLOATS if source == "float" else INTEGERS
        m.is_unsigned = source == "uint"
    else:
        m.kind = KINDS[kind]
    if m.kind == EXTREME:
        m.how = make_lift(kind, source, nan)
    if not (0 <= m.feed < max(feeds, 1) and -1 <= m.input < MOST_INPUTS):
        raise ValueError(f"no such column or input: {spec}")
    return 0


cdef class Partials:
    """Partials one after the other, each of a code (of a group) and a place (of a window, say).

    Memory: that of the layout, 8 bytes for the place, and 550 where a sum is of doubles that lie more
    than 75 binary places apart.
    """

    def __cinit__(self, Layout layout):
        self.layout = layout
        pool_init(&self.pool)

    def __dealloc__(self):
        free(self.entry)
        free(self.place)
        pool_release(&self.pool)

    def __len__(self):
        return self.n

    def clear(self):
        """Hold none, and keep the memory."""
        self.n = 0
        pool_release(&self.pool)

    cdef char* append(self, int64_t place) except NULL nogil:
        """Room for one more, whose bytes are those of anything."""
        cdef int64_t capacity
        cdef void* grown
        if self.n == self.capacity:
            capacity = 2 * self.capacity + 16
            grown = realloc(self.entry, capacity * self.layout.shape.size)
            if grown != NULL:
                self.entry = <char*> grown
                grown = realloc(self.place, capacity * sizeof(int64_t))
            if grown == NULL:
                with gil:
                    raise MemoryError(f"{capacity} partial aggregates")
            self.place = <int64_t*> grown
            self.capacity = capacity
        self.place[self.n] = place
        self.n += 1
        return self.entry + (self.n - 1) * self.layout.shape.size

    cdef char* take_in(self, const char* entry, const Pool* pool, int64_t place) except NULL nogil:
        """Append a copy of a partial whose wide sums are in this pool."""
        cdef const Shape* s = &self.layout.shape
        cdef char* mine = self.append(place)
        memcpy(mine, entry, s.size)
        copy_wide(s, mine, pool, &self.pool)
        return mine

    @property
    def codes(self):
        """The codes, as int64."""
        codes = np.empty(self.n, np.int64)
        cdef int64_t[::1] code = codes
        cdef int64_t i
        for i in range(self.n):
            code[i] = code_of(self.entry + i * self.layout.shape.size)
        return codes

    @property
    def places(self):
        """The places."""
        places = np.empty(self.n, np.int64)
        cdef int64_t[::1] place = places
        if self.n:
            memcpy(&place[0], self.place, self.n * sizeof(int64_t))
        return places

    def counts(self, int measure):
        """What a measure of kind "rows" or "values" has counted."""
        counts = np.empty(self.n, np.int64)
        cdef int64_t[::1] count = counts
        cdef int64_t i
        for i in range(self.n):
            count[i] = self.cell(measure, i)[0]
        return counts

    def extremes(self, int measure, out):
        """The greatest or least values, into an array of their type; anything where there are none."""
        cdef const Measure* m = &self.layout.shape.measure[measure]
        cdef int64_t[::1] cells = out.view(np.int64)
        cdef Wanted wanted
        cdef int64_t i
        if m.kind != EXTREME or cells.shape[0] != self.n:
            raise ValueError("no extreme, or no room for it")
        if self.n == 0:
            return
        keys = np.empty(self.n, np.int64)
        cdef int64_t[::1] key = keys
        for i in range(self.n):
            key[i] = self.cell(measure, i)[0]
        wanted.out = <Cell*> &cells[0]
        lower_extremes(&m.how, &wanted, <const Extreme*> &key[0], self.n)

    def totals(self, int measure, const int64_t[::1] counts, int64_t least, bint wraps, out):
        """Sums of integers, into an array of 64-bit ones.

        Returns the first that does not fit, of those with so many values that count; -1 if all do, or
        where they are taken modulo 2^64.
        """
        cdef const Measure* m = &self.layout.shape.measure[measure]
        cdef int64_t[::1] cells = out.view(np.int64)
        cdef int64_t i, failed = -1
        if m.kind != INTEGERS or cells.shape[0] != self.n:
            raise ValueError("no sum of integers, or no room for it")
        for i in range(self.n):
            cells[i] = <int64_t> load128(self.cell(measure, i))
            if failed < 0 and not wraps and counts[i] >= least:
                if not fits(load128(self.cell(measure, i)), m.is_unsigned):
                    failed = i
        return failed

    def quotients(self, int measure, const int64_t[::1] counts, double[::1] out):
        """Sums over these counts (None: the sums themselves) as doubles, each rounded once; NaN where
        the count is 0."""
        cdef const Measure* m = &self.layout.shape.measure[measure]
        cdef const char* entry
        cdef int64_t i, size = self.layout.shape.size
        if m.kind not in (FLOATS, INTEGERS) or out.shape[0] != self.n:
            raise ValueError("no sum, or no room for it")
        for i in range(self.n):
            entry = self.entry + i * size
            if counts is not None and counts[i] <= 0:
                out[i] = NAN
            elif m.kind == INTEGERS:
                out[i] = divide_int128(load128(entry + m.at), counts[i] if counts is not None else 1)
            else:
                out[i] = sum_lower(<const Head*> (entry + m.head), entry + m.at, &self.pool,
                                   counts[i] if counts is not None else 0)

    def in_layout(self, Layout wanted, const int64_t[::1] at=None):
        """The partials at these places (None: all) in another layout, all of whose measures this one
        has.

        Raises
        ------
        ValueError
            It has one that this has not.
        """
        cdef Partials made = Partials(wanted)
        cdef const Shape* s = &self.layout.shape
        cdef const Shape* to = &wanted.shape
        cdef int64_t i
        cdef int k
        cdef const char* entry
        cdef char* mine
        cdef const Measure* m
        cdef int64_t j, n = self.n if at is None else at.shape[0]
        cdef list mine_of = [self.layout.specs.index(spec) for spec in wanted.specs]
        for j in range(n):
            i = j if at is None else at[j]
            if not 0 <= i < self.n:
                raise ValueError("no such partial")
            entry, mine = self.entry + i * s.size, made.append(self.place[i])
            clear_entry(to, mine, code_of(entry))
            for k in range(to.measures):
                m = &s.measure[<int> mine_of[k]]
                memcpy(mine + to.measure[k].at, entry + m.at, 16 if m.kind in (INTEGERS, FLOATS) else 8)
                if m.kind == FLOATS:
                    memcpy(mine + to.measure[k].head, entry + m.head, sizeof(Head))
            copy_wide(to, mine, &self.pool, &made.pool)
        return made

    def renumber(self, const int32_t[::1] new):
        """Give every code k the number new[k]."""
        cdef int32_t* code
        cdef int64_t i
        for i in range(self.n):
            code = <int32_t*> (self.entry + i * self.layout.shape.size)
            if not 0 <= code[0] < new.shape[0]:
                raise ValueError("a code without a number")
            code[0] = new[code[0]]

    def to_parts(self):
        """Everything as four byte strings; what `fill` takes."""
        head = np.array([self.n, self.pool.free_item], np.int64)
        return [
            head.tobytes(), bytes_at(self.place, self.n * sizeof(int64_t)),
            bytes_at(self.entry, self.n * self.layout.shape.size), pool_bytes(&self.pool),
        ]

    def fill(self, list parts, int64_t codes):
        """Take what `to_parts` gave, of so many codes; this must hold nothing yet.

        Raises
        ------
        ValueError
            The parts do not fit together. Then it holds nothing.
        """
        cdef const Shape* s = &self.layout.shape
        cdef int64_t i, n
        head = np.frombuffer(parts[0], np.int64)
        if len(parts) != 4 or len(head) != 2:
            raise ValueError("the parts do not fit together")
        n = head[0]
        if n < 0 or (len(parts[1]), len(parts[2])) != (8 * n, s.size * n):
            raise ValueError("the parts do not fit together")
        fill_pool(&self.pool, parts[3], head[1])
        for i in range(n):
            check_entry(s, &self.pool, codes, (<const char*> <bytes> parts[2]) + i * s.size)
        for i in range(n):
            self.append(0)
        copy_bytes(self.place, parts[1])
        copy_bytes(self.entry, parts[2])

    @property
    def nbytes(self):
        """Memory of what is held."""
        return (self.n * (self.layout.shape.size + <int64_t> sizeof(int64_t))
                + self.pool.n * <int64_t> sizeof(self.pool.item[0]))

    cdef int64_t* cell(self, int measure, int64_t i) noexcept nogil:
        return <int64_t*> (self.entry + i * self.layout.shape.size + self.layout.shape.measure[measure].at)


cdef int copy_wide(const Shape* s, char* entry, const Pool* pool, Pool* mine) except -1 nogil:
    """Move what an entry's numbers mean from one pool to another."""
    cdef int64_t i
    cdef void* cells
    cdef int k
    for k in range(s.measures if s.floats else 0):
        if s.measure[k].kind != FLOATS or not (<Head*> (entry + s.measure[k].head)).wide:
            continue
        i = pool_take(mine)
        if i < 0:
            with gil:
                raise MemoryError("an exact sum")
        cells = entry + s.measure[k].at
        mine.item[i] = pool.item[<int64_t> load128(cells)]
        store128(cells, i)
    return 0


cdef int open_feeds(Feeds* f, const Shape* s, int64_t n, list feeds, list counted) except -1:
    """Look at the columns of n > 0 rows, which have to live as long as this.

    feeds : one 8-byte array per column; counted: one of bytes per input, None: every row counts
    """
    cdef const int64_t[::1] values
    cdef const uint8_t[::1] mask
    cdef int k
    if len(feeds) != s.feeds or len(counted) > MOST_COUNTED:
        raise ValueError("as many columns as the layout has, and no more inputs than a record tells")
    f.feeds, f.inputs = len(feeds), len(counted)
    for k in range(f.feeds):
        values = feeds[k].view(np.int64)
        if values.shape[0] != n:
            raise ValueError("one value per row and column")
        f.feed[k] = &values[0]
    for k in range(f.inputs):
        f.counted[k] = NULL
        if counted[k] is not None:
            mask = counted[k]
            if mask.shape[0] != n:
                raise ValueError("one byte per row and input")
            f.counted[k] = &mask[0]
    return 0


# ----------------------------------------------------------------------------- snapshots

cdef bytes bytes_at(const void* data, int64_t n):
    return (<const char*> data)[:n] if n else b""


cdef int copy_bytes(void* to, bytes data) except -1:
    memcpy(to, <const char*> data, len(data))
    return 0


cdef bytes pool_bytes(const Pool* pool):
    """All wide sums; `fill_pool` takes them, and which one is the first that is free."""
    return bytes_at(pool.item, pool.n * sizeof(pool.item[0]))


cdef int fill_pool(Pool* pool, bytes data, int64_t free_item) except -1:
    """Fill an empty pool. ValueError: it never was one."""
    cdef int64_t n = len(data) // sizeof(pool.item[0]), i
    if len(data) != n * <int64_t> sizeof(pool.item[0]) or not -1 <= free_item < n:
        raise ValueError("the parts do not fit together")
    if n == 0:
        return 0
    pool.item = <Wide*> malloc(n * sizeof(pool.item[0]))
    if pool.item == NULL:
        raise MemoryError("exact sums")
    copy_bytes(pool.item, data)
    pool.n = pool.capacity = n
    pool.free_item = free_item
    for i in range(n):
        if not is_sound(&pool.item[i], n):
            raise ValueError("a sum is not one")
    return 0


cdef int check_entry(const Shape* s, const Pool* pool, int64_t codes, const char* entry) except -1:
    """ValueError: a partial points to a group or a sum that is not there."""
    cdef int64_t i
    cdef int k
    if not 0 <= code_of(entry) < codes:
        raise ValueError("a partial is of no group")
    for k in range(s.measures):
        if s.measure[k].kind == FLOATS and (<const Head*> (entry + s.measure[k].head)).wide:
            i = <int64_t> load128(entry + s.measure[k].at)
            if not 0 <= i < pool.n:
                raise ValueError("a sum is nowhere")
    return 0
