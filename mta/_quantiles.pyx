"""Quantiles where the values are sorted elsewhere: which of them are asked for, and what they come to.

The arithmetic is that of `_ranks.pyx`, so the answers are the same doubles.
"""
from libc.stdint cimport int64_t
from libc.string cimport memset

from mta._ranks_lower cimport (
    mta_lower_quantile, mta_place, mta_quantile, mta_rank_cell, mta_rank_key,
)

import numpy as np

from mta._ranks import INTERPOLATIONS as _INTERPOLATIONS, SOURCES as _SOURCES


def keys_of(const int64_t[::1] raw, str source):
    """int64 keys in the order of values of this source: -0.0 just below 0.0, every NaN above all."""
    return mapped(raw, _SOURCES[source], True)


def values_of(const int64_t[::1] keys, str source):
    """The values of keys, as raw cells; all NaN come back as one."""
    return mapped(keys, _SOURCES[source], False)


cdef mapped(const int64_t[::1] cells, int source, bint to_keys):
    cdef int64_t i
    made = np.empty(cells.shape[0], np.int64)
    cdef int64_t[::1] out = made
    for i in range(cells.shape[0]):
        out[i] = mta_rank_key(cells[i], source) if to_keys else mta_rank_cell(cells[i], source)
    return made


def places_of(double q, str interp, const int64_t[::1] counts):
    """Where the quantiles of so many sorted values lie: of two of them, which may be one, the first and
    the second place, and how far between them. Of no values: anything."""
    cdef mta_quantile quantile
    cdef int64_t i
    memset(&quantile, 0, sizeof(quantile))
    quantile.q, quantile.interpolation = q, _INTERPOLATIONS[interp]
    places, shares = np.zeros((2, counts.shape[0]), np.int64), np.zeros(counts.shape[0])
    cdef int64_t[:, ::1] place = places
    cdef double[::1] share = shares
    for i in range(counts.shape[0]):
        if counts[i] > 0:
            mta_place(&quantile, counts[i])
            place[0, i] = quantile.position
            place[1, i] = quantile.position + (quantile.pair != 0)
            share[i] = quantile.between
    return places[0], places[1], shares


def lower(str interp, str source, int64_t[::1] first, int64_t[::1] second, double[::1] share):
    """The answers: doubles, or for "lower", "higher" and "nearest" values of the source, as cells."""
    cdef mta_quantile quantile
    cdef int64_t n = first.shape[0]
    if second.shape[0] != n or share.shape[0] != n:
        raise ValueError("a second value and a share for each is needed")
    made = np.empty(n, np.int64)
    cdef int64_t[::1] out = made
    memset(&quantile, 0, sizeof(quantile))
    quantile.interpolation = _INTERPOLATIONS[interp]
    if n:
        quantile.first, quantile.second, quantile.share = &first[0], &second[0], &share[0]
        mta_lower_quantile(&quantile, n, _SOURCES[source], &out[0])
    return made
