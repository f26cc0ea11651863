"""What a pool notes of its keys, for the keys at hand: a table with a column a key (`mta.pool`)."""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from mta._kernel import KEPT as _KEPT
from mta._vector cimport Vector

import numpy as np

# Its rows, in this order: where the rows of a key are, and how many; what a track has (see there);
# the times of its newest row and of the first one without an answer; where the rows without an answer
# are; whether its kernels have marks.
FIELDS = ("begin", "kept", "received", "answered", "lo", "hi", "newest", "due", "open", "marked")

cdef enum:
    BEGIN, ROWS, RECEIVED, ANSWERED, LO, HI, NEWEST, DUE, OPEN

cdef int64_t kept = _KEPT    # rows before the window that kernels may still read


def gather(fields, const int64_t[::1] keys):
    """The items of some keys in vectors of all: a row a vector."""
    cdef int64_t n = keys.shape[0], k, i = 0
    table = np.empty((len(fields), n), np.int64)
    cdef int64_t[:, ::1] out = table
    cdef const int64_t* items
    cdef Vector field
    for field in fields:
        items = items_for(field, keys)
        for k in range(n):
            out[i, k] = items[keys[k]]
        i += 1
    return table


def scatter(fields, const int64_t[::1] keys, const int64_t[:, ::1] table):
    """Put them back."""
    cdef int64_t n = keys.shape[0], k, i = 0
    cdef int64_t* items
    cdef Vector field
    for field in fields:
        items = items_for(field, keys)
        for k in range(n):
            items[keys[k]] = table[i, k]
        i += 1


cdef int64_t* items_for(Vector field, const int64_t[::1] keys) except? NULL:
    """The items of a vector that has one for each of these keys."""
    cdef int64_t k, live = field.end - field.start
    for k in range(keys.shape[0]):
        if not 0 <= keys[k] < live:
            raise IndexError(f"key {keys[k]} of {live}")
    return <int64_t*> field.data + field.start


def advanced(table, const int64_t[::1] came, const int64_t[::1] offsets,
             const int64_t[::1] open_offsets, const int64_t[::1] shift, const int64_t[::1] times,
             const int64_t[::1] counts, const int64_t[::1] lo, const int64_t[::1] hi):
    """The table when rows have come and windows have been answered.

    table : as it was, told in numbers of rows of each key
    came : how many rows
    offsets, open_offsets : where the rows of each key are now, and those that had no answer
    shift : from the number of a row to its place
    times : of the rows; of none where nobody asks for them
    counts, lo, hi : how many windows each key has, and these, as places
    """
    cdef int64_t n = came.shape[0], windows = 0, k, cut
    cdef const int64_t[:, ::1] before = table
    made = table.copy()
    cdef int64_t[:, ::1] to = made
    for k in range(n):
        to[RECEIVED, k] += came[k]
        to[ANSWERED, k] += counts[k]
        windows += counts[k]
        if counts[k]:
            to[LO, k] = lo[windows - 1] - shift[k]
            to[HI, k] = hi[windows - 1] - shift[k]
        # (What is let go of is what `Track.settle` lets go of.)
        cut = max(before[RECEIVED, k] - before[ROWS, k],
                  min(to[LO, k] - kept, to[ANSWERED, k] - 1))
        to[ROWS, k] = to[RECEIVED, k] - cut
        to[BEGIN, k] = cut + shift[k]
        to[OPEN, k] = open_offsets[k] + counts[k]
        if not times.shape[0]:
            continue
        if came[k]:
            to[NEWEST, k] = times[offsets[k + 1] - 1]
        if to[RECEIVED, k] > to[ANSWERED, k]:
            to[DUE, k] = times[to[ANSWERED, k] + shift[k]]
    return made


def edges_of(const int64_t[:, ::1] table, const int64_t[::1] times, int64_t lag, bint closed):
    """The times from which on rows of keys belong into no window that was answered and are after
    none of their own. (They end one tick before all that int64 holds.)

    times : of the rows, by their places
    """
    cdef int64_t k, behind, t
    cdef int64_t least = INT64_MIN + max(lag, 0), most = INT64_MAX + min(lag, 0) - 1
    edges = np.empty(table.shape[1], np.int64)
    cdef int64_t[::1] out = edges
    for k in range(table.shape[1]):
        out[k] = table[NEWEST, k]
        behind = table[ANSWERED, k] - (table[RECEIVED, k] - table[ROWS, k])
        if behind > 0:    # the last row that was answered is kept
            t = max(least, min(times[table[BEGIN, k] + behind - 1], most))
            out[k] = max(out[k], t - lag + closed)
    return edges


def offsets_of(const int64_t[::1] sizes):
    """Where each of so many items begins, and the end."""
    cdef int64_t k, at = 0
    offsets = np.empty(sizes.shape[0] + 1, np.int64)
    cdef int64_t[::1] out = offsets
    for k in range(sizes.shape[0]):
        out[k] = at
        at += sizes[k]
    out[sizes.shape[0]] = at
    return offsets


def ranges(const int64_t[::1] starts, const int64_t[::1] sizes):
    """starts[0], starts[0] + 1, … so many as sizes[0]; then those of the next."""
    cdef int64_t k, i, total = 0
    for k in range(sizes.shape[0]):
        total += sizes[k]
    made = np.empty(total, np.int64)
    cdef int64_t[::1] out = made
    total = 0
    for k in range(sizes.shape[0]):
        for i in range(sizes[k]):
            out[total + i] = starts[k] + i
        total += sizes[k]
    return made
