# cython: language_level=3
"""FlatFAT, Log MTA and AMTA: trees of partials. The last two are the forest of ``_core.pxd``.

FlatFAT is a complete binary tree over a ring of leaves; those outside the window are identities.
Tangwongsan, Hirzel, Schneider, Wu, General incremental sliding-window aggregation, VLDB 2015, §3.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from mta._core cimport (
    forest_append, forest_evict_to, forest_insert, forest_query, forest_restart, forest_split,
)
from mta._core_blocks cimport slide_windows
from mta._core_plans cimport Windows
from mta._fifo_state cimport FifoState
from mta._monoids cimport Boxed, Cell, Part, combine, identity


# ---------------------------------------------------------------------------- FlatFAT

cdef inline Part* node(const FifoState* s, int64_t number, const Part* tag) noexcept nogil:
    return (<Part*> s.nodes) + number


cdef inline int64_t leaf_of(const FifoState* s, int64_t position) noexcept nogil:
    return s.places + (position & (s.places - 1))


cdef inline int flat_set(FifoState* s, int64_t number, const Part* leaf) except -1 nogil:
    """Write a leaf and refresh its ancestors: log2(places) combines."""
    cdef Part path[64]
    cdef Part* part = path
    cdef int64_t i = number
    cdef int level, levels = 0
    part[0] = leaf[0]
    while i > 1:
        if i & 1:
            combine(&s.how, part + 1, node(s, i - 1, leaf), part)
        else:
            combine(&s.how, part + 1, part, node(s, i + 1, leaf))
        part += 1
        levels += 1
        i >>= 1
    for level in range(levels + 1):    # only now, as combine may raise
        node(s, number >> level, leaf)[0] = path[level]
    return 0


cdef inline int flat_refresh(FifoState* s, int64_t first, int64_t last, const Part* tag) except -1 nogil:
    """The ancestors of the leaves first..last, level by level: as many combines and log2(places)."""
    cdef int64_t i
    while first > 1:
        first >>= 1
        last >>= 1
        for i in range(first, last + 1):
            combine(&s.how, node(s, i, tag), node(s, 2 * i, tag), node(s, 2 * i + 1, tag))
    return 0


cdef inline int flat_grow(FifoState* s, const Part* tag) except -1 nogil:
    """A tree of twice the leaves, made anew."""
    cdef FifoState grown = s[0]
    cdef int64_t i
    cdef bint whole = False
    grown.places = 2 * s.places if s.places else 2
    grown.nodes = calloc(2 * grown.places, sizeof(Part))
    if grown.nodes == NULL:
        with gil:
            raise MemoryError(f"a window of {grown.places} rows")
    try:
        for i in range(2 * grown.places):
            identity(&s.how, node(&grown, i, tag))
        for i in range(s.front, s.back):
            node(&grown, leaf_of(&grown, i), tag)[0] = node(s, leaf_of(s, i), tag)[0]
        flat_refresh(&grown, grown.places, 2 * grown.places - 1, tag)
        whole = True
    finally:
        if not whole:
            free(grown.nodes)
    free(s.nodes)
    s.nodes = grown.nodes
    s.places = grown.places
    return 0


cdef inline int flat_insert(FifoState* s, const Part* leaf) except -1 nogil:
    if s.back - s.front == s.places:
        flat_grow(s, leaf)
    flat_set(s, leaf_of(s, s.back), leaf)
    s.back += 1
    return 0


cdef inline int flat_erase(FifoState* s, int64_t to, const Part* none) except -1 nogil:
    """Make identities of the leaves before `to`: as many combines again, and 2 log2(places)."""
    cdef int64_t first = leaf_of(s, s.front), last = leaf_of(s, to - 1), i
    for i in range(s.front, to):
        node(s, leaf_of(s, i), none)[0] = none[0]
    if first <= last:
        return flat_refresh(s, first, last, none)
    flat_refresh(s, first, 2 * s.places - 1, none)
    return flat_refresh(s, s.places, last, none)


cdef inline int flat_erase_copy(FifoState* s, int64_t to, const Part* none) except -1 nogil:
    """The same in a copy, which takes the tree's place unless combine raises."""
    cdef void* old = s.nodes
    cdef bint whole = False
    s.nodes = malloc(2 * s.places * sizeof(Part))
    if s.nodes == NULL:
        s.nodes = old
        with gil:
            raise MemoryError()
    memcpy(s.nodes, old, 2 * s.places * sizeof(Part))
    try:
        flat_erase(s, to, none)
        whole = True
    finally:
        if not whole:
            free(s.nodes)
            s.nodes = old
    free(old)
    return 0


cdef inline int flat_evict_to(FifoState* s, int64_t to, const Part* tag) except -1 nogil:
    cdef Part none
    identity(&s.how, &none)
    if to - s.front == 1:
        flat_set(s, leaf_of(s, s.front), &none)
    elif Part is Boxed:
        flat_erase_copy(s, to, &none)
    else:
        flat_erase(s, to, &none)
    s.front = to
    return 0


cdef inline int flat_query(const FifoState* s, Part* out) except -1 nogil:
    """The root; where the window goes round the end of the ring, what is right of its first leaf
    and what is left of its last: 2 log2(places) combines."""
    cdef int64_t i = leaf_of(s, s.front), k = leaf_of(s, s.back - 1)
    cdef Part rest
    if s.front == s.back:
        return identity(&s.how, out)
    if i <= k:
        out[0] = node(s, 1, out)[0]
        return 0
    out[0] = node(s, i, out)[0]
    rest = node(s, k, out)[0]
    while i > 1:
        if not i & 1:
            combine(&s.how, out, out, node(s, i + 1, out))
        if k & 1:
            combine(&s.how, &rest, node(s, k - 1, out), &rest)
        i >>= 1
        k >>= 1
    return combine(&s.how, out, out, &rest)


# ------------------------------------------------------------------- Log MTA and AMTA

cdef inline int amta_insert(FifoState* s, const Part* leaf) except -1 nogil:
    if s.front == s.back:
        forest_restart(&s.forest, s.back)
    forest_insert(&s.forest, leaf)
    s.back += 1
    return 0


cdef inline int amta_evict_to(FifoState* s, int64_t to, const Part* tag) except -1 nogil:
    forest_evict_to(&s.forest, to - s.forest.base, tag)
    s.front = to
    return 0


cdef inline int amta_slide(FifoState* s, const Cell* values, const uint8_t* valid, int64_t n,
                           int64_t keep, Part* out) except -1 nogil:
    """The loop of the foundation. It evicts first, which in a forest changes no bit, unless nothing
    is left: then positions begin anew, so that `keep` has to be 2 at least."""
    cdef Windows windows
    windows.lo = windows.hi = NULL
    windows.keep, windows.back, windows.front = keep, s.back + 1, s.front
    slide_windows(&s.forest, values, valid, s.back, &windows, n, out)
    s.front, s.back = s.forest.base + s.forest.front, s.forest.base + s.forest.back
    return 0


cdef inline int log_insert(FifoState* s, const Part* leaf) except -1 nogil:
    """The nodes that the leaf completes, and both sides of the window, up to the root."""
    cdef Part top = leaf[0]
    if s.front == s.back:
        forest_restart(&s.forest, s.back)
    forest_append(&s.forest, &top)
    forest_split(&s.forest, s.forest.front, s.forest.back + 1, leaf)
    s.back += 1
    return 0


cdef inline int log_evict_to(FifoState* s, int64_t to, const Part* tag) except -1 nogil:
    forest_split(&s.forest, to - s.forest.base, s.forest.back, tag)
    s.front = to
    return 0


cdef inline int tree_query(FifoState* s, Part* out) except -1 nogil:
    return forest_query(&s.forest, out)
