# cython: language_level=3
"""Tables of partials by code, one per bucket (a pane or a window)."""
from libc.stdint cimport int32_t, int64_t

from mta._partials cimport Pool, Shape


cdef struct Table:
    int64_t bucket
    # The partials of groups that are eager, in no order, and a hash of their codes with linear probing.
    char* entry
    int64_t n
    int64_t capacity
    int32_t* slot
    int64_t slots
    # The rows of groups that are lazy, as records.
    int64_t* row
    int64_t rows
    int64_t row_capacity


cdef struct Directory:
    # Tables in order of their buckets, and where the one used last is.
    Table** table
    int64_t* bucket
    int64_t n
    int64_t capacity
    int64_t recent


cdef int64_t find_place(const Directory* d, int64_t bucket) noexcept nogil
cdef Table* add_table(Directory* d, int64_t bucket) except NULL nogil
cdef void drop_tables(Directory* d, int64_t n, const Shape* s, Pool* pool) noexcept nogil
cdef void release_tables(Directory* d, const Shape* s, Pool* pool) noexcept nogil

cdef int64_t table_bytes(const Table* t, const Shape* s) noexcept nogil
cdef char* find_partial(const Table* t, const Shape* s, int32_t code) noexcept nogil
cdef char* take_partial(Table* t, const Shape* s, int32_t code) except NULL nogil
cdef int keep_record(Table* t, const Shape* s, const int64_t* record) except -1 nogil
cdef int settle_records(Table* t, const Shape* s, Pool* pool) except -1 nogil
cdef int fill_table(Table* t, const Shape* s, const char* entries, int64_t n, const int64_t* records,
                    int64_t rows) except -1 nogil
cdef int renumber(Table* t, const Shape* s, const int32_t* code) except -1 nogil
cdef int widen_partials(Table* t, const Shape* s, const Shape* wider) except -1 nogil


cdef inline char* partial_at(const Table* t, const Shape* s, int64_t i) noexcept nogil:
    return t.entry + i * s.size


cdef inline const int64_t* record_at(const Table* t, const Shape* s, int64_t i) noexcept nogil:
    return t.row + i * (1 + s.feeds)


cdef inline Table* table_of(Directory* d, int64_t bucket) except NULL nogil:
    """The table of a bucket, which is made if there is none."""
    if d.recent < d.n and d.bucket[d.recent] == bucket:
        return d.table[d.recent]
    return add_table(d, bucket)
