"""Keys: from values to dense group numbers, and from group numbers to rows sorted by group."""
from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

cdef extern from "_fronts.h":
    bint has_falls "mta_has_falls"(const int64_t* ts, int64_t n) nogil


cdef extern from "_counts.h":
    void fill_nulls "mta_fill_nulls"(const int64_t* x, const uint8_t* valid, int64_t n, int64_t* out) nogil


cdef enum:
    STRETCH = 4096    # rows looked through at once


cdef inline uint64_t mix(uint64_t x) noexcept nogil:
    """The finaliser of splitmix64: every input bit moves half the output bits."""
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EB
    return x ^ (x >> 31)


def factorize(const int64_t[::1] keys):
    """Number the distinct keys 0, 1, … in order of appearance: (codes, how many).

    A table where the keys lie close together, else a hash. O(n), about 24 bytes a distinct key.
    """
    cdef int64_t low, high
    if keys.shape[0] == 0:
        return np.empty(0, np.int64), 0
    low, high = least_and_greatest(keys)
    if <uint64_t> high - <uint64_t> low < 4 * <uint64_t> keys.shape[0]:
        return factorize_close(keys, low, high)
    return factorize_hashed(keys)


cdef (int64_t, int64_t) least_and_greatest(const int64_t[::1] keys) noexcept nogil:
    cdef int64_t i, low = keys[0], high = keys[0]
    for i in range(keys.shape[0]):
        low = min(low, keys[i])
        high = max(high, keys[i])
    return low, high


cdef object factorize_close(const int64_t[::1] keys, int64_t low, int64_t high):
    cdef int64_t n = keys.shape[0], i, found = 0, key
    codes_array, table_array = np.empty(n, np.int64), np.full(high - low + 1, -1, np.int64)
    cdef int64_t[::1] codes = codes_array, table = table_array
    for i in range(n):
        key = keys[i] - low
        if table[key] < 0:
            table[key] = found
            found += 1
        codes[i] = table[key]
    return codes_array, found


cdef object factorize_hashed(const int64_t[::1] keys):
    """Open addressing with linear probing, at most half full."""
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


def has_least(const int64_t[::1] values):
    """Whether the least number that 64 bits hold is among them."""
    cdef int64_t i, found = 0
    for i in range(values.shape[0]):
        found |= values[i] == INT64_MIN
    return found != 0


def first_fall(const int64_t[::1] ts):
    """The first row whose time is before that of the row above it; -1 where times never fall."""
    cdef int64_t i, start, stop
    for start in range(1, ts.shape[0], STRETCH):
        stop = min(start + STRETCH, ts.shape[0])
        if not has_falls(&ts[start - 1], stop - start + 1):
            continue
        for i in range(start, stop):
            if ts[i] < ts[i - 1]:
                return i
    return -1


def sort_times(const int64_t[::1] ts):
    """The rows in order of (time, arrival): a stable radix sort, 11 bits at a time. O(n)."""
    cdef int64_t n = ts.shape[0], low, high
    cdef uint64_t bits
    cdef int shift = 0
    if n == 0:
        return np.empty(0, np.int64)
    low, high = least_and_greatest(ts)
    bits = <uint64_t> high - <uint64_t> low
    keys_array, rows_array = np.asarray(ts).view(np.uint64) - np.uint64(<uint64_t> low), np.arange(n)
    other_keys, other_rows = np.empty(n, np.uint64), np.empty(n, np.int64)
    while shift < 64 and bits >> shift:
        radix_pass(keys_array, rows_array, other_keys, other_rows, shift)
        keys_array, other_keys = other_keys, keys_array
        rows_array, other_rows = other_rows, rows_array
        shift += RADIX_BITS
    return rows_array


cdef enum:
    RADIX_BITS = 11


cdef int radix_pass(const uint64_t[::1] keys, const int64_t[::1] rows, uint64_t[::1] keys_out,
                    int64_t[::1] rows_out, int shift) except -1:
    cdef int64_t[1 << RADIX_BITS] place
    cdef int64_t n = keys.shape[0], i, before = 0, count
    cdef uint64_t digit
    with nogil:
        memset(place, 0, sizeof(place))
        for i in range(n):
            place[(keys[i] >> shift) & ((1 << RADIX_BITS) - 1)] += 1
        for i in range(1 << RADIX_BITS):
            count = place[i]
            place[i] = before
            before += count
        for i in range(n):
            digit = (keys[i] >> shift) & ((1 << RADIX_BITS) - 1)
            keys_out[place[digit]] = keys[i]
            rows_out[place[digit]] = rows[i]
            place[digit] += 1
    return 0


def group_places(const int64_t[::1] codes, int64_t groups, const int64_t[::1] order):
    """Where each row goes when rows are sorted by group: (places, offsets), stable.

    order : rows in the order wanted inside a group, or None for their own
    offsets : group g takes the places offsets[g]..offsets[g + 1]

    A counting sort, O(n). It gives places rather than rows, because rows then are read one after
    the other and written to one stream per group.
    """
    cdef int64_t n = codes.shape[0], i, row, g
    places_array, offsets_array = np.empty(n, np.int64), np.zeros(groups + 1, np.int64)
    cdef int64_t[::1] places = places_array, offsets = offsets_array, next_place
    for i in range(n):
        offsets[codes[i] + 1] += 1
    for g in range(groups):
        offsets[g + 1] += offsets[g]
    next_place = offsets_array[:groups].copy()
    for i in range(n):
        row = order[i] if order is not None else i
        places[row] = next_place[codes[row]]
        next_place[codes[row]] += 1
    return places_array, offsets_array


def spread(items, const int64_t[::1] places):
    """The items (of 8 bytes or 1) put in their places: out[places[i]] = items[i]."""
    out_array = np.empty_like(items)
    cdef int64_t n = places.shape[0], i
    cdef const int64_t[::1] wide
    cdef const uint8_t[::1] narrow
    cdef int64_t[::1] wide_out
    cdef uint8_t[::1] narrow_out
    if items.dtype.itemsize == 8:
        wide, wide_out = items.view(np.int64), out_array.view(np.int64)
        for i in range(n):
            wide_out[places[i]] = wide[i]
    else:
        narrow, narrow_out = items.view(np.uint8), out_array.view(np.uint8)
        for i in range(n):
            narrow_out[places[i]] = narrow[i]
    return out_array


cdef inline bint is_inside(int64_t begin, int64_t n, int64_t size) noexcept nogil:
    """Whether begin..begin + n lies in an array; nothing does, wherever it is."""
    return n == 0 or (begin >= 0 and n > 0 and begin <= size - n)


def splice(old, new, const int64_t[::1] begin, const int64_t[::1] kept, const int64_t[::1] new_begin,
           const int64_t[::1] came):
    """For every key its items of `old` and then those of `new`, one key after the other.

    old, new : arrays of one type, of 8 bytes an item or 1
    begin, kept : where the items of each key begin in `old`, and how many there are
    new_begin, came : the same in `new`
    """
    cdef int64_t k, n = 0
    cdef int64_t width = old.dtype.itemsize, size = len(old), more = len(new)
    cdef const char[::1] olds = old.view(np.int8), news = new.view(np.int8)
    cdef const char* a = &olds[0] if olds.shape[0] else NULL
    cdef const char* b = &news[0] if news.shape[0] else NULL
    for k in range(begin.shape[0]):
        if not (is_inside(begin[k], kept[k], size) and is_inside(new_begin[k], came[k], more)):
            raise IndexError(f"key {k} has items beyond the arrays")
        n += kept[k] + came[k]
    out_array = np.empty(n, old.dtype)
    cdef char[::1] outs = out_array.view(np.int8)
    if n == 0:
        return out_array
    cdef char* to = &outs[0]
    with nogil:
        for k in range(begin.shape[0]):
            if kept[k]:
                memcpy(to, a + begin[k] * width, kept[k] * width)
                to += kept[k] * width
            if came[k]:
                memcpy(to, b + new_begin[k] * width, came[k] * width)
                to += came[k] * width
    return out_array


def filled(items, const uint8_t[::1] valid):
    """8-byte items with 0 where they are null."""
    out_array = np.empty_like(items)
    cdef const int64_t[::1] wide = items.view(np.int64)
    cdef int64_t[::1] out = out_array.view(np.int64)
    if wide.shape[0]:
        fill_nulls(&wide[0], &valid[0], wide.shape[0], &out[0])
    return out_array


def filled_numbers(const double[::1] values):
    """The values with 0 for NaN."""
    out_array = np.empty(values.shape[0])
    cdef double[::1] out = out_array
    cdef int64_t i
    for i in range(values.shape[0]):
        out[i] = values[i] if values[i] == values[i] else 0.0
    return out_array
