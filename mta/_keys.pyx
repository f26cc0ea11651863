"""Keys: from values to dense group numbers, and from group numbers to rows sorted by group."""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np


cdef inline uint64_t mix(uint64_t x) noexcept nogil:
    """The finaliser of splitmix64: every input bit moves half the output bits."""
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EB
    return x ^ (x >> 31)


def factorize(const int64_t[::1] keys):
    """Number the distinct keys 0, 1, … in order of appearance: (codes, how many).

    Open addressing with linear probing, at most half full. O(n), about 24 bytes a distinct key.
    """
    cdef int64_t n = keys.shape[0], i, code, found = 0
    codes_array = np.empty(n, np.int64)
    cdef int64_t[::1] codes = codes_array
    cdef uint64_t capacity = 1024, slot
    slots_array, seen_array = np.full(capacity, -1, np.int64), np.empty(capacity, np.int64)
    cdef int64_t[::1] slots = slots_array, seen = seen_array
    for i in range(n):
        slot = mix(<uint64_t> keys[i]) & (capacity - 1)
        while slots[slot] >= 0 and seen[slots[slot]] != keys[i]:
            slot = (slot + 1) & (capacity - 1)
        code = slots[slot]
        if code < 0:
            code = found
            slots[slot] = code
            seen[code] = keys[i]
            found += 1
            if <uint64_t> (2 * found) > capacity:
                capacity *= 4
                seen_array = np.concatenate([seen_array, np.empty(capacity - len(seen_array), np.int64)])
                seen = seen_array
                slots = slots_array = np.full(capacity, -1, np.int64)
                refill(slots, seen, found)
        codes[i] = code
    return codes_array, found


cdef void refill(int64_t[::1] slots, const int64_t[::1] seen, int64_t found) noexcept nogil:
    cdef uint64_t slot, mask = <uint64_t> slots.shape[0] - 1
    cdef int64_t code
    for code in range(found):
        slot = mix(<uint64_t> seen[code]) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = code


def first_fall(const int64_t[::1] ts):
    """The first row whose time is before that of the row above it; -1 where times never fall."""
    cdef int64_t i
    for i in range(1, ts.shape[0]):
        if ts[i] < ts[i - 1]:
            return i
    return -1


def group_rows(const int64_t[::1] codes, int64_t groups, const int64_t[::1] order):
    """Rows sorted by group, stable: (rows, offsets), group g being rows[offsets[g]:offsets[g + 1]].

    order : rows in the order wanted inside a group, or None for their own. A counting sort, O(n).
    """
    cdef int64_t n = codes.shape[0], i, row, g
    rows_array, offsets_array = np.empty(n, np.int64), np.zeros(groups + 1, np.int64)
    cdef int64_t[::1] rows = rows_array, offsets = offsets_array, place
    for i in range(n):
        offsets[codes[i] + 1] += 1
    for g in range(groups):
        offsets[g + 1] += offsets[g]
    place = offsets_array[:groups].copy()
    for i in range(n):
        row = order[i] if order is not None else i
        rows[place[codes[row]]] = row
        place[codes[row]] += 1
    return rows_array, offsets_array
