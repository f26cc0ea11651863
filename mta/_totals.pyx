"""Totals: what the panes inside a window come to, by group, where the panes themselves are elsewhere.

A pane comes and goes as records: partials of bounded size, one after the other in an array. Counts and
sums are taken out again as they were put in, exactly; extremes can't be, and are kept as tables of keys
that only rise, and of which what was before is written down (`walk_back`) to be put back (`restore`).
"""
from libc.stdint cimport INT64_MIN, int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mta._exact cimport int128
from mta._levels cimport (
    Level, level_add, level_bytes, level_init, level_move, level_read, level_release, level_remove,
    level_reserve, run_of,
)
from mta._partials cimport (
    EXTREME, FLOATS, Head, Layout, Partials, Pool, Shape, bytes_at, check_entry, clear_entry,
    code_of, copy_bytes, fill_pool, load128, pool_bytes, pool_init, pool_release, rows_of, store128,
)

import numpy as np

cdef extern from "_superaccumulator.h":
    ctypedef struct Superaccumulator "mta_superaccumulator":
        int64_t limb[66]
        int low
        int high
    void super_carry "mta_super_carry"(Superaccumulator* a) nogil

cdef enum:
    LIMBS = 66          # of 32 bits each, the lowest of weight 2^LOWEST
    LOWEST = -1074
    HIGHEST_UNIT = 900  # of a narrow sum
    LOW_LIMBS = 60      # below this one, three limbs fit in a narrow sum, wherever they are

NOTHING = INT64_MIN     # the key of an extreme of no values


cdef class Totals:
    """Partials by group over the panes inside.

    layout : what is kept of the rows of a group in a pane

    A record that comes or goes costs O(1), an answer O(groups). Memory: a partial per group, and 12
    bytes per sum of floats; 550 more for a sum whose values lie more than 75 binary places apart.
    Sums are exact, and pane for pane what was added is removed (Paned-WID with differential
    evaluation, thesis on window-ids, 6.2.2); so what has left leaves no trace, NaN and infinities
    included: these are counted by panes.
    """

    cdef readonly Layout layout
    cdef readonly int64_t codes    # there is room for, and none beyond is in use
    cdef Level level
    cdef Pool pool
    cdef char* scratch

    def __cinit__(self, Layout layout):
        self.layout = layout
        pool_init(&self.pool)
        level_init(&self.level, &layout.shape, True)
        self.scratch = <char*> malloc(layout.shape.size)
        if self.scratch == NULL:
            raise MemoryError("a partial")

    def __dealloc__(self):
        level_release(&self.level, &self.layout.shape, &self.pool)
        pool_release(&self.pool)
        free(self.scratch)

    def add(self, const int64_t[:, ::1] records, const int64_t[::1] codes):
        """Take records of panes that come in; codes: of their groups."""
        self.move(records, codes, False)

    def remove(self, const int64_t[:, ::1] records, const int64_t[::1] codes):
        """Take out records that were added before. All that belong to a pane go before any other
        record comes in."""
        self.move(records, codes, True)

    cdef int move(self, const int64_t[:, ::1] records, const int64_t[::1] codes, bint leave) except -1:
        cdef const Shape* s = &self.layout.shape
        cdef const char* entry
        cdef int64_t i, n = check_records(s, records, codes)
        if n == 0:
            return 0
        self.reserve(1 + np.asarray(codes).max())
        with nogil:
            for i in range(n):
                entry = <const char*> &records[i, 0]
                if leave:
                    level_remove(&self.level, s, codes[i], entry, &self.pool)
                else:
                    level_add(&self.level, s, codes[i], 0, entry, &self.pool)
        return 0

    def answer(self, int64_t place, Partials into, list tables):
        """Append the partials of all groups that have rows inside, in order of their codes, at this
        place. tables: of keys by group and extreme, the greatest of which are its extremes."""
        cdef const Shape* s = &self.layout.shape
        cdef const int64_t* table[4]
        cdef const int64_t[:, ::1] view
        cdef int64_t code, k, n = len(tables)
        cdef int64_t codes = self.codes
        if into.layout is not self.layout or n > 4:
            raise ValueError("partials of another layout, or too many tables")
        for k in range(n):
            view = tables[k]
            if view.shape[0] < codes or view.shape[1] != self.level.extremes:
                raise ValueError("a table of other groups or extremes")
            table[k] = &view[0, 0] if view.shape[0] else NULL
        with nogil:
            for code in range(codes):
                if rows_of(run_of(&self.level, code), s)[0]:
                    level_read(&self.level, s, code, self.scratch)
                    (<int32_t*> self.scratch)[0] = <int32_t> code
                    read_extremes(s, self.scratch, table, n, code * self.level.extremes)
                    into.take_in(self.scratch, &self.pool, place)

    cdef int reserve(self, int64_t codes) except -1:
        if codes > self.codes:
            level_reserve(&self.level, &self.layout.shape, codes)
            self.codes = codes
        return 0

    @property
    def extremes(self):
        """How many extremes a partial has."""
        return self.level.extremes

    @property
    def rows(self):
        """How many rows of each code are inside."""
        made = np.empty(self.codes, np.int64)
        cdef int64_t[::1] out = made
        cdef int64_t i
        for i in range(self.codes):
            out[i] = rows_of(run_of(&self.level, i), &self.layout.shape)[0]
        return made

    def renumber(self, const int32_t[::1] new):
        """Give every code k the number new[k], which is not greater; -1: it has no rows inside."""
        if new.shape[0] < self.codes:
            raise ValueError("a code without a number")
        if self.codes:
            level_move(&self.level, &self.layout.shape, &new[0], self.codes)
            self.codes = 1 + np.asarray(new[:self.codes]).max()

    @property
    def nbytes(self):
        """Bytes held."""
        return level_bytes(&self.level) + self.pool.capacity * <int64_t> sizeof(self.pool.item[0])

    def to_parts(self):
        """Everything as byte strings; what `fill` takes."""
        head = np.array([self.codes, self.pool.free_item], np.int64)
        return [
            head.tobytes(), bytes_at(self.level.run, self.codes * self.level.stride),
            pool_bytes(&self.pool),
        ]

    def fill(self, list parts):
        """Take what `to_parts` gave; this must hold nothing yet.

        Raises
        ------
        ValueError
            The parts do not fit together. Then it holds nothing.
        """
        cdef const Shape* s = &self.layout.shape
        cdef int64_t i, codes
        head = np.frombuffer(parts[0], np.int64)
        if len(parts) != 3 or len(head) != 2 or head[0] < 0:
            raise ValueError("the parts do not fit together")
        codes = head[0]
        if len(parts[1]) != codes * self.level.stride:
            raise ValueError("the parts do not fit together")
        fill_pool(&self.pool, parts[2], head[1])
        for i in range(codes):
            check_entry(s, &self.pool, max(codes, <int64_t> 1),
                        (<const char*> <bytes> parts[1]) + i * self.level.stride)
        self.reserve(codes)
        copy_bytes(self.level.run, parts[1])


cdef int64_t check_records(const Shape* s, const int64_t[:, ::1] records,
                           const int64_t[::1] codes) except -1:
    cdef int64_t i
    if 8 * records.shape[1] != s.size or records.shape[0] != codes.shape[0]:
        raise ValueError("records of another layout, or not a code for each")
    for i in range(codes.shape[0]):
        if not 0 <= codes[i] < INT32_MOST:
            raise ValueError("no such code")
        check_entry(s, &NO_POOL, INT32_MOST, <const char*> &records[i, 0])
    return codes.shape[0]


cdef Pool NO_POOL    # a record has no sum elsewhere
cdef int64_t INT32_MOST = 0x7FFFFFFF
pool_init(&NO_POOL)


cdef inline void read_extremes(const Shape* s, char* entry, const int64_t** table, int64_t tables,
                               int64_t at) noexcept nogil:
    cdef int64_t key
    cdef int64_t j, k, extreme = 0
    for k in range(s.measures):
        if s.measure[k].kind != EXTREME:
            continue
        key = INT64_MIN
        for j in range(tables):
            key = max(key, table[j][at + extreme])
        (<int64_t*> (entry + s.measure[k].at))[0] = key
        extreme += 1


# ------------------------------------------------------------------------------- extremes

def keys_of(Layout layout, const int64_t[:, ::1] records):
    """The keys of the extremes of records, by record and extreme."""
    cdef const Shape* s = &layout.shape
    cdef int64_t i, n = records.shape[0]
    cdef int k, extreme = 0
    if 8 * records.shape[1] != s.size:
        raise ValueError("records of another layout")
    made = np.empty((n, sum(spec[0] in ("min", "max") for spec in layout.specs)), np.int64)
    cdef int64_t[:, ::1] out = made
    for k in range(s.measures):
        if s.measure[k].kind == EXTREME:
            for i in range(n):
                out[i, extreme] = records[i, s.measure[k].at >> 3]
            extreme += 1
    return made


def raise_to(int64_t[:, ::1] table, const int64_t[::1] codes, const int64_t[:, ::1] keys):
    """Where a key is greater than what the table has for its group, let it have that."""
    cdef int64_t i, n = check_keys(table, codes, keys)
    cdef Py_ssize_t k
    for i in range(n):
        for k in range(keys.shape[1]):
            table[codes[i], k] = max(table[codes[i], k], keys[i, k])


def walk_back(int64_t[:, ::1] table, const int64_t[::1] codes, const int64_t[:, ::1] keys):
    """The same, from the last key to the first; and what is to be put back when they leave again: the
    numbers of the keys that were greater, falling, and what the table had before each."""
    cdef int64_t i, made = 0, n = check_keys(table, codes, keys)
    cdef Py_ssize_t k
    cdef bint rises
    places, before = np.empty(n, np.int64), np.empty((n, keys.shape[1]), np.int64)
    cdef int64_t[::1] place = places
    cdef int64_t[:, ::1] old = before
    for i in range(n - 1, -1, -1):
        rises = False
        for k in range(keys.shape[1]):
            old[made, k] = table[codes[i], k]
            if keys[i, k] > old[made, k]:
                table[codes[i], k] = keys[i, k]
                rises = True
        place[made] = i
        made += rises
    return places[:made], before[:made]


def restore(int64_t[:, ::1] table, const int64_t[::1] codes, const int64_t[:, ::1] before):
    """Put back what `walk_back` wrote down, from the last to the first of these."""
    cdef int64_t i, n = check_keys(table, codes, before)
    cdef Py_ssize_t k
    for i in range(n - 1, -1, -1):
        for k in range(before.shape[1]):
            table[codes[i], k] = before[i, k]


cdef int64_t check_keys(const int64_t[:, ::1] table, const int64_t[::1] codes,
                        const int64_t[:, ::1] keys) except -1:
    cdef int64_t i
    if keys.shape[0] != codes.shape[0] or keys.shape[1] != table.shape[1]:
        raise ValueError("not a code for each key, or a table of other extremes")
    for i in range(codes.shape[0]):
        if not 0 <= codes[i] < table.shape[0]:
            raise ValueError("no such code")
    return codes.shape[0]


# -------------------------------------------------------------------------------- records

def records_of(Partials partials):
    """Partials as records, and the place of each.

    A sum whose values lie too far apart for 128 bits becomes several records that add up to it, all but
    the first of them of no rows: at most 22, and one more for every four values near the greatest
    double.
    """
    cdef Partials narrow = partials if partials.pool.n == 0 else narrowed(partials)
    _, _, entries, _ = narrow.to_parts()
    return np.frombuffer(entries, np.int64).reshape(-1, narrow.layout.shape.size >> 3), narrow.places


cdef Partials narrowed(Partials partials):
    cdef const Shape* s = &partials.layout.shape
    cdef Partials made = Partials(partials.layout)
    cdef int64_t i, first
    cdef int k
    cdef const char* entry
    cdef char* mine
    for i in range(partials.n):
        entry = partials.entry + i * s.size
        first = made.n
        memcpy(made.append(partials.place[i]), entry, s.size)
        for k in range(s.measures):
            if s.measure[k].kind != FLOATS or not (<const Head*> (entry + s.measure[k].head)).wide:
                continue
            mine = made.entry + first * s.size
            (<Head*> (mine + s.measure[k].head)).wide = 0
            (<Head*> (mine + s.measure[k].head)).unit = 0
            store128(mine + s.measure[k].at, 0)
            split(made, partials.place[i], code_of(entry), k,
                  <const Superaccumulator*> &partials.pool.item[<int64_t> load128(entry + s.measure[k].at)])
    return made


cdef int split(Partials made, int64_t place, int32_t code, int k, const Superaccumulator* wide) except -1:
    """Append records that add up to a wide sum."""
    cdef Superaccumulator a = wide[0]
    cdef int64_t sign = 1, most, top
    cdef int128 value
    cdef int i, j, limbs
    super_carry(&a)
    if a.limb[LIMBS - 1] < 0:
        a, sign = wide[0], -1
        for i in range(LIMBS):
            a.limb[i] = -a.limb[i]
        super_carry(&a)
    i = a.low
    while i < LIMBS - 1:
        limbs = 3 if i < LOW_LIMBS - 3 else 1
        value = 0
        for j in range(limbs):
            value += <int128> a.limb[i + j] << (32 * j)
        append_piece(made, place, code, k, sign * value, 32 * i + LOWEST)
        i += limbs
    top = a.limb[LIMBS - 1]
    while top > 0:
        most = min(top, <int64_t> 1 << 19)    # of 2^106 each in the highest unit
        append_piece(made, place, code, k, sign * <int128> most, 32 * (LIMBS - 1) + LOWEST)
        top -= most
    return 0


cdef int append_piece(Partials made, int64_t place, int32_t code, int k, int128 value, int unit) except -1:
    cdef const Shape* s = &made.layout.shape
    cdef char* mine
    if value == 0:
        return 0
    if unit > HIGHEST_UNIT:
        value <<= unit - HIGHEST_UNIT
        unit = HIGHEST_UNIT
    mine = made.append(place)
    clear_entry(s, mine, code)
    (<Head*> (mine + s.measure[k].head)).unit = <short> unit
    store128(mine + s.measure[k].at, value)
    return 0
