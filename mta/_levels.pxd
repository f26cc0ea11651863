# cython: language_level=3
"""The window level: what the sealed buckets of the window at hand come to, per group."""
from libc.stdint cimport int32_t, int64_t

from mta._partials cimport Pool, Shape


cdef struct Wedge:
    # Of one extreme of one group: (bucket, key) with rising buckets and falling keys.
    int64_t* item
    int32_t first
    int32_t n
    int32_t capacity


cdef struct Level:
    int64_t low         # it covers the buckets low <= id < high,
    int64_t high
    bint begun          # if there are any
    bint endless        # nothing ever leaves
    char* run           # by code: a partial, and how many buckets hold NaN, inf and -inf per sum of floats
    Wedge* wedge        # by code and extreme, where something leaves
    int extremes
    int stride
    int64_t codes       # there is room for


cdef void level_init(Level* v, const Shape* s, bint endless) noexcept nogil
cdef void level_release(Level* v, const Shape* s, Pool* pool) noexcept nogil
cdef int level_reserve(Level* v, const Shape* s, int64_t codes) except -1 nogil
cdef int64_t level_bytes(const Level* v) noexcept nogil
cdef int level_add(Level* v, const Shape* s, int64_t code, int64_t bucket, const char* entry,
                   Pool* pool) except -1 nogil
cdef int level_remove(Level* v, const Shape* s, int64_t code, const char* entry, Pool* pool) except -1 nogil
cdef void level_read(Level* v, const Shape* s, int64_t code, char* entry) noexcept nogil
cdef void level_clear(Level* v, const Shape* s, Pool* pool) noexcept nogil
cdef void level_move(Level* v, const Shape* s, const int32_t* code, int64_t codes) noexcept nogil
cdef int level_widen(Level* v, const Shape* s, const Shape* wider) except -1 nogil


cdef inline char* run_of(const Level* v, int64_t code) noexcept nogil:
    return v.run + code * v.stride
