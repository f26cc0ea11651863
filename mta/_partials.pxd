# cython: language_level=3
"""Partial aggregates of rows in any order (`_partials.h`): their layout, lift and combine."""
from libc.stdint cimport INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from mta._exact cimport int128
from mta._monoids cimport Cell, Extreme, Lift, lift

cdef extern from "_partials.h":
    ctypedef struct Head "mta_head":
        int16_t unit
        uint8_t odd
        uint8_t wide
    ctypedef struct Wide "mta_superaccumulator":
        int64_t load
    ctypedef struct Pool "mta_pool":
        Wide* item
        int64_t n
        int64_t capacity
        int64_t free_item
    enum:
        ODD_NAN "MTA_ODD_NAN"
        ODD_UP "MTA_ODD_UP"
        ODD_DOWN "MTA_ODD_DOWN"
    void pool_init "mta_pool_init"(Pool* p) nogil
    void pool_release "mta_pool_release"(Pool* p) nogil
    bint is_sound "mta_is_sound"(const Wide* a, int64_t n) nogil
    int64_t pool_take "mta_pool_take"(Pool* p) nogil
    void pool_give "mta_pool_give"(Pool* p, int64_t i) nogil
    int128 load128 "mta_load128"(const void* cells) nogil
    void store128 "mta_store128"(void* cells, int128 x) nogil
    void add_integer "mta_add_integer"(void* cells, int64_t raw, bint is_unsigned, int64_t sign) nogil
    void merge_integers "mta_merge_integers"(void* cells, const void* more, int64_t sign) nogil
    bint sum_add "mta_sum_add"(Head* h, void* cells, Pool* pool, double x, int64_t sign) nogil
    bint sum_merge "mta_sum_merge"(Head* h, void* cells, Pool* pool, const Head* other,
                                   const void* its_cells, const Pool* its_pool, int64_t sign) nogil
    double sum_lower "mta_sum_lower"(const Head* h, const void* cells, const Pool* pool,
                                     int64_t count) nogil


cdef enum Kind:
    ROWS        # how many rows
    VALUES      # how many of them count for an input
    INTEGERS    # the sum of a column of integers: 128 bits
    FLOATS      # that of a column of floats: a head and 128 bits
    EXTREME     # the greatest of ordered keys; INT64_MIN: of none


cdef struct Measure:
    Kind kind
    int at             # where its cells are in an entry, in bytes
    int head           # and its head
    int feed           # the column that it reads
    int input          # the rows that count for it, as a bit of a record; -1: all
    Lift how           # of an extreme
    bint is_unsigned   # integers


cdef enum:
    MOST_FEEDS = 64    # columns that partials are made of
    MOST_COUNTED = 32  # sets of rows that count: bits of a record


cdef struct Shape:
    # ROWS always comes first.
    Measure* measure
    int measures
    int floats
    int feeds
    int size           # of an entry, in bytes


cdef class Layout:
    cdef Shape shape
    cdef readonly list specs

cdef class Partials:
    cdef readonly Layout layout
    cdef char* entry
    cdef int64_t n
    cdef int64_t capacity
    cdef int64_t* place
    cdef Pool pool

    cdef char* append(self, int64_t place) except NULL nogil
    cdef char* take_in(self, const char* entry, const Pool* pool, int64_t place) except NULL nogil
    cdef int64_t* cell(self, int measure, int64_t i) noexcept nogil


cdef struct Feeds:
    # Columns of rows, as partials take them.
    const int64_t* feed[MOST_FEEDS]
    int feeds
    const uint8_t* counted[MOST_COUNTED]    # NULL: every row counts
    int inputs


cdef int copy_wide(const Shape* s, char* entry, const Pool* pool, Pool* mine) except -1 nogil
cdef int open_feeds(Feeds* f, const Shape* s, int64_t n, list feeds, list counted) except -1

# Snapshots.
cdef bytes bytes_at(const void* data, int64_t n)
cdef int copy_bytes(void* to, bytes data) except -1
cdef bytes pool_bytes(const Pool* pool)
cdef int fill_pool(Pool* pool, bytes data, int64_t free_item) except -1
cdef int check_entry(const Shape* s, const Pool* pool, int64_t codes, const char* entry) except -1


# A record is a row as a partial reads it: its code and, above it, a bit per input for which it counts,
# then the raw values of the columns.
cdef inline int64_t record_head(int32_t code, uint32_t counts) noexcept nogil:
    return <int64_t> (<uint64_t> counts << 32 | <uint32_t> code)


cdef inline void read_record(const Feeds* f, int64_t row, int32_t code, int64_t* record) noexcept nogil:
    """One row as a record."""
    cdef uint32_t counts = 0
    cdef int k
    for k in range(f.inputs):
        counts |= <uint32_t> (f.counted[k] == NULL or f.counted[k][row] != 0) << k
    record[0] = record_head(code, counts)
    for k in range(f.feeds):
        record[1 + k] = f.feed[k][row]


cdef inline int32_t code_of(const char* entry) noexcept nogil:
    return (<const int32_t*> entry)[0]


cdef inline int64_t* rows_of(char* entry, const Shape* s) noexcept nogil:
    return <int64_t*> (entry + s.measure[0].at)


cdef inline void clear_entry(const Shape* s, char* entry, int32_t code) noexcept nogil:
    """The partial of nothing."""
    cdef int k
    for k in range(s.size >> 3):
        (<int64_t*> entry)[k] = 0
    (<int32_t*> entry)[0] = code
    for k in range(s.measures):
        if s.measure[k].kind == EXTREME:
            (<int64_t*> (entry + s.measure[k].at))[0] = INT64_MIN


cdef inline int lift_into(const Shape* s, char* entry, const int64_t* record, Pool* pool,
                          int64_t sign=1) except -1 nogil:
    """Add a row; with the sign -1, take it out again (which leaves extremes as they are)."""
    cdef uint32_t counts = <uint32_t> (<uint64_t> record[0] >> 32)
    cdef const Measure* m
    cdef int64_t* cell
    cdef Extreme extreme
    cdef Cell raw
    cdef int k
    for k in range(s.measures):
        m = &s.measure[k]
        if m.input >= 0 and not (counts >> m.input) & 1:
            continue
        cell = <int64_t*> (entry + m.at)
        raw.i = record[1 + m.feed]
        if m.kind == FLOATS:
            if not sum_add(<Head*> (entry + m.head), cell, pool, raw.f, sign):
                with gil:
                    raise MemoryError("an exact sum")
        elif m.kind == INTEGERS:
            add_integer(cell, raw.i, m.is_unsigned, sign)
        elif m.kind == EXTREME:
            lift(&m.how, &extreme, raw)
            cell[0] = max(cell[0], extreme.key)
        else:
            cell[0] += sign
    return 0


cdef inline int merge_into(const Shape* s, char* entry, const char* other, Pool* pool,
                           const Pool* its_pool, int64_t sign=1) except -1 nogil:
    """Add a partial; with the sign -1, take it out again."""
    cdef const Measure* m
    cdef int64_t* cell
    cdef const int64_t* more
    cdef int k
    for k in range(s.measures):
        m = &s.measure[k]
        cell = <int64_t*> (entry + m.at)
        more = <const int64_t*> (other + m.at)
        if m.kind == FLOATS:
            if not sum_merge(<Head*> (entry + m.head), cell, pool, <const Head*> (other + m.head), more,
                             its_pool, sign):
                with gil:
                    raise MemoryError("an exact sum")
        elif m.kind == INTEGERS:
            merge_integers(cell, more, sign)
        elif m.kind == EXTREME:
            cell[0] = max(cell[0], more[0])
        else:
            cell[0] += sign * more[0]
    return 0


cdef inline void release_entry(const Shape* s, const char* entry, Pool* pool) noexcept nogil:
    """Give back what an entry holds elsewhere."""
    cdef int k
    if not s.floats:
        return
    for k in range(s.measures):
        if s.measure[k].kind == FLOATS and (<const Head*> (entry + s.measure[k].head)).wide:
            pool_give(pool, <int64_t> load128(entry + s.measure[k].at))
