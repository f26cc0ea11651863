"""Records of keys as bytes (`mta.cold_records`): what is wrong with them, and some of their keys."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from mta._crc import crc32

import numpy as np

# What `first_fault` finds.
WHOLE, MISSING, FOREIGN, DAMAGED, OTHER = range(5)

cdef enum:
    SUMMED = 8       # bytes before those that the checksum is of
    IDENTITY = 8
    NUMBER = 12
    KEYS = 20
    ROWS = 24
    HEADS = 32
    SIZE = 1         # in a head: how many rows


cdef inline int64_t cell(const char* data, int64_t place) noexcept nogil:
    cdef int64_t item
    memcpy(&item, data + place, 8)
    return item


cdef inline uint32_t half(const char* data, int64_t place) noexcept nogil:
    cdef uint32_t item
    memcpy(&item, data + place, 4)
    return item


cdef inline int64_t size_of(const char* data, int64_t key, int64_t head) noexcept nogil:
    """How many rows a key has."""
    return cell(data, HEADS + 8 * (head * key + SIZE))


cdef bint has_its_rows(const char* data, int64_t length, int64_t head, int64_t width) noexcept nogil:
    """The record is as long as it says, and so are its keys."""
    cdef int64_t keys = half(data, KEYS), rows = half(data, ROWS), k, size
    if length != HEADS + 8 * head * keys + width * rows:
        return False
    for k in range(keys):
        size = size_of(data, k, head)
        if not 0 <= size <= rows:
            return False
        rows -= size
    return rows == 0


def first_fault(values, const int64_t[::1] numbers, uint32_t identity, int64_t head, int64_t width):
    """The first record with which something is wrong, and what; (0, WHOLE): nothing is.

    numbers : that they should have
    identity : likewise
    head, width : integers of a key, bytes of a row
    """
    cdef int64_t k
    cdef const char* data
    for k in range(numbers.shape[0]):
        value = values[k]
        if value is None:
            return k, MISSING
        data = PyBytes_AS_STRING(value)
        if PyBytes_GET_SIZE(value) < HEADS or memcmp(data, b"MTAK", 4):
            return k, FOREIGN
        if crc32(memoryview(value)[SUMMED:]) != half(data, 4):
            return k, DAMAGED
        if half(data, IDENTITY) != identity or cell(data, NUMBER) != numbers[k] or (
            not has_its_rows(data, PyBytes_GET_SIZE(value), head, width)
        ):
            return k, OTHER
    return 0, WHOLE


def entries_of(values, const int64_t[::1] records):
    """Of these records all keys: in which record each is, and its place there."""
    cdef int64_t k, i, n = 0
    for k in range(records.shape[0]):
        n += half(PyBytes_AS_STRING(values[records[k]]), KEYS)
    made = np.empty((2, n), np.int64)
    cdef int64_t[:, ::1] out = made
    n = 0
    for k in range(records.shape[0]):
        for i in range(half(PyBytes_AS_STRING(values[records[k]]), KEYS)):
            out[0, n] = records[k]
            out[1, n] = i
            n += 1
    return made[0], made[1]


def taken(values, const int64_t[::1] record, const int64_t[::1] entry, int64_t head, int64_t width):
    """The heads of some keys of records without a fault, a row a key; and their rows as bytes, one
    key after the other.

    record, entry : which record each is in, and its place there
    """
    cdef int64_t n = record.shape[0], k, i, size, rows = 0, place
    cdef const char* data
    heads = np.empty((n, head), np.int64)
    cdef int64_t[:, ::1] to = heads
    for k in range(n):
        data = PyBytes_AS_STRING(values[record[k]])
        if not 0 <= entry[k] < half(data, KEYS):
            raise IndexError(f"key {entry[k]} of {half(data, KEYS)}")
        memcpy(&to[k, 0], data + HEADS + 8 * head * entry[k], 8 * head)
        rows += to[k, SIZE]
    made = np.empty(rows * width, np.uint8)
    cdef uint8_t[::1] out = made
    rows = 0
    for k in range(n):
        size = to[k, SIZE]
        if not size:
            continue
        data = PyBytes_AS_STRING(values[record[k]])
        place = 0
        for i in range(entry[k]):
            place += size_of(data, i, head)
        place = HEADS + 8 * head * half(data, KEYS) + width * place
        memcpy(&out[rows * width], data + place, size * width)
        rows += size
    return heads, made
