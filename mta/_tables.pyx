"""Tables of partials by code: made for millions of groups in one bucket and for one group in each of
very many buckets alike. 6 bytes a partial for the hash, on average, beside the partial itself."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from mta._partials cimport (
    Pool, Shape, clear_entry, code_of, lift_into, release_entry, rows_of,
)


cdef Table* new_table(int64_t bucket) except NULL nogil:
    cdef Table* t = <Table*> calloc(1, sizeof(Table))
    if t == NULL:
        no_memory()
    t.bucket = bucket
    return t


cdef int no_memory() except -1 nogil:
    with gil:
        raise MemoryError("the partial aggregates of a bucket")


cdef void free_table(Table* t, const Shape* s, Pool* pool) noexcept nogil:
    cdef int64_t i
    for i in range(t.n if s.floats else 0):
        release_entry(s, partial_at(t, s, i), pool)
    free(t.entry)
    free(t.slot)
    free(t.row)
    free(t)


cdef int64_t table_bytes(const Table* t, const Shape* s) noexcept nogil:
    return (<int64_t> sizeof(Table) + t.capacity * s.size + t.slots * <int64_t> sizeof(int32_t)
            + t.row_capacity * (1 + s.feeds) * 8)


cdef inline int64_t slot_of(const Table* t, const Shape* s, int32_t code) noexcept nogil:
    """Where a code is, or the free slot where it belongs."""
    cdef uint64_t mask = t.slots - 1
    cdef uint64_t at = (<uint64_t> <uint32_t> code * <uint64_t> 0x9E3779B97F4A7C15) >> 32 & mask
    while t.slot[at] >= 0 and code_of(partial_at(t, s, t.slot[at])) != code:
        at = (at + 1) & mask
    return at


cdef char* find_partial(const Table* t, const Shape* s, int32_t code) noexcept nogil:
    """The partial of a code, or NULL."""
    cdef int64_t at
    if t.n == 0:
        return NULL
    at = t.slot[slot_of(t, s, code)]
    return partial_at(t, s, at) if at >= 0 else NULL


cdef char* take_partial(Table* t, const Shape* s, int32_t code) except NULL nogil:
    """The partial of a code; that of nothing, where there was none."""
    cdef int64_t at
    if 4 * (t.n + 1) > 3 * t.slots:
        set_slots(t, s, max(2 * t.slots, <int64_t> 4))
    at = slot_of(t, s, code)
    if t.slot[at] < 0:
        reserve_partials(t, s, t.n + 1)
        t.slot[at] = <int32_t> t.n
        clear_entry(s, partial_at(t, s, t.n), code)
        t.n += 1
    return partial_at(t, s, t.slot[at])


cdef int set_slots(Table* t, const Shape* s, int64_t slots) except -1 nogil:
    """Make the hash anew, with so many slots, a power of two."""
    cdef int64_t i
    cdef int32_t* slot = <int32_t*> malloc(slots * sizeof(int32_t))
    if slot == NULL:
        no_memory()
    free(t.slot)
    t.slot, t.slots = slot, slots
    memset(slot, -1, slots * sizeof(int32_t))
    for i in range(t.n):
        slot[slot_of(t, s, code_of(partial_at(t, s, i)))] = <int32_t> i
    return 0


cdef int64_t larger(int64_t capacity, int64_t wanted) noexcept nogil:
    """Few items: twice as many. Many: what is reserved and not yet used should not count."""
    return max(wanted, capacity + max(min(capacity, <int64_t> 1024), capacity >> 3))


cdef int reserve_partials(Table* t, const Shape* s, int64_t n) except -1 nogil:
    cdef int64_t capacity
    cdef void* grown
    if n > t.capacity:
        capacity = larger(t.capacity, n)
        grown = realloc(t.entry, capacity * s.size)
        if grown == NULL:
            no_memory()
        t.entry, t.capacity = <char*> grown, capacity
    return 0


cdef int reserve_records(Table* t, const Shape* s, int64_t n) except -1 nogil:
    cdef int64_t capacity
    cdef void* grown
    if n > t.row_capacity:
        capacity = larger(t.row_capacity, n)
        grown = realloc(t.row, capacity * (1 + s.feeds) * sizeof(int64_t))
        if grown == NULL:
            no_memory()
        t.row, t.row_capacity = <int64_t*> grown, capacity
    return 0


cdef int keep_record(Table* t, const Shape* s, const int64_t* record) except -1 nogil:
    """Keep a row as it is."""
    reserve_records(t, s, t.rows + 1)
    memcpy(t.row + t.rows * (1 + s.feeds), record, (1 + s.feeds) * sizeof(int64_t))
    t.rows += 1
    return 0


cdef int settle_records(Table* t, const Shape* s, Pool* pool) except -1 nogil:
    """Turn the rows that are kept into partials."""
    cdef const int64_t* record
    cdef int64_t i
    for i in range(t.rows):
        record = record_at(t, s, i)
        lift_into(s, take_partial(t, s, <int32_t> record[0]), record, pool)
    free(t.row)
    t.row = NULL
    t.rows = t.row_capacity = 0
    return 0


cdef int fill_table(Table* t, const Shape* s, const char* entries, int64_t n, const int64_t* records,
                    int64_t rows) except -1 nogil:
    """Fill an empty table with what one held."""
    cdef int64_t slots = 4
    reserve_partials(t, s, n)
    reserve_records(t, s, rows)
    if n:
        memcpy(t.entry, entries, n * s.size)
    if rows:
        memcpy(t.row, records, rows * (1 + s.feeds) * sizeof(int64_t))
    t.n, t.rows = n, rows
    while 4 * t.n > 3 * slots:
        slots *= 2
    return set_slots(t, s, slots)


cdef int renumber(Table* t, const Shape* s, const int32_t* code) except -1 nogil:
    """Give the groups new codes: code[old]."""
    cdef int64_t i
    cdef int32_t* mine
    for i in range(t.n):
        mine = <int32_t*> partial_at(t, s, i)
        mine[0] = code[mine[0]]
    for i in range(t.rows):
        mine = <int32_t*> record_at(t, s, i)
        mine[0] = code[mine[0]]
    if t.n:
        memset(t.slot, -1, t.slots * sizeof(int32_t))
        for i in range(t.n):
            t.slot[slot_of(t, s, code_of(partial_at(t, s, i)))] = <int32_t> i
    return 0


cdef int widen_partials(Table* t, const Shape* s, const Shape* wider) except -1 nogil:
    """Add a cell to every partial, in which all its rows have counted so far."""
    cdef char* entry = <char*> malloc(max(t.n, <int64_t> 1) * wider.size)
    cdef int64_t i
    if entry == NULL:
        no_memory()
    for i in range(t.n):
        memcpy(entry + i * wider.size, partial_at(t, s, i), s.size)
        (<int64_t*> (entry + i * wider.size + s.size))[0] = rows_of(partial_at(t, s, i), s)[0]
    free(t.entry)
    t.entry, t.capacity = entry, max(t.n, <int64_t> 1)
    return 0


# ------------------------------------------------------------------------- the directory

cdef int64_t find_place(const Directory* d, int64_t bucket) noexcept nogil:
    """The place of the first table whose bucket is not before this one."""
    cdef int64_t low = 0, high = d.n, middle
    if high and d.bucket[high - 1] < bucket:
        return high
    while low < high:
        middle = (low + high) >> 1
        if d.bucket[middle] < bucket:
            low = middle + 1
        else:
            high = middle
    return low


cdef Table* add_table(Directory* d, int64_t bucket) except NULL nogil:
    """As `table_of`."""
    cdef int64_t i = find_place(d, bucket), capacity
    cdef void* grown
    cdef Table* made
    d.recent = i
    if i < d.n and d.bucket[i] == bucket:
        return d.table[i]
    if d.n == d.capacity:
        capacity = 2 * d.capacity + 16
        grown = realloc(d.table, capacity * sizeof(Table*))
        if grown != NULL:
            d.table = <Table**> grown
            grown = realloc(d.bucket, capacity * sizeof(int64_t))
        if grown == NULL:
            no_memory()
        d.bucket, d.capacity = <int64_t*> grown, capacity
    made = new_table(bucket)
    memmove(d.table + i + 1, d.table + i, (d.n - i) * sizeof(Table*))
    memmove(d.bucket + i + 1, d.bucket + i, (d.n - i) * sizeof(int64_t))
    d.table[i], d.bucket[i] = made, bucket
    d.n += 1
    return made


cdef void drop_tables(Directory* d, int64_t n, const Shape* s, Pool* pool) noexcept nogil:
    """Let go of the first n tables."""
    cdef int64_t i
    for i in range(n):
        free_table(d.table[i], s, pool)
    d.n -= n
    d.recent = 0
    memmove(d.table, d.table + n, d.n * sizeof(Table*))
    memmove(d.bucket, d.bucket + n, d.n * sizeof(int64_t))


cdef void release_tables(Directory* d, const Shape* s, Pool* pool) noexcept nogil:
    cdef int64_t i
    for i in range(d.n):
        free_table(d.table[i], s, pool)
    free(d.table)
    free(d.bucket)
