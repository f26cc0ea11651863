"""The loops of ``mta.fifo``, compiled for every algorithm and monoid."""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

from mta._core cimport MAX_LEVELS, forest_append, forest_release, forest_split, node_at
from mta._core_blocks cimport raise_level
from mta._fifo_lists cimport (
    daba_evict_to, daba_insert, daba_query, lists_restore, lists_saved, lite_evict_to, lite_insert,
    lite_query, stacks_evict_to, stacks_insert, stacks_query, subtract_evict_to, subtract_insert,
)
from mta._fifo_state cimport (
    AMTA, DABA, NAMED, TAIL, Algorithm, DABALite, FlatFAT, LogMTA, Recompute, SubtractOnEvict,
    TwoStacks, clear_lists, fold, item, named, put,
)
from mta._fifo_trees cimport (
    amta_evict_to, amta_insert, amta_slide, flat_evict_to, flat_grow, flat_insert, flat_query, flat_refresh,
    leaf_of, log_evict_to, log_insert, node, tree_query,
)
from mta._monoids cimport (
    Boxed, Cells, Extreme, FloatSum, IntSum, Moments, OneCell, Part, Products, Runs, combine, identity, lift,
)
from mta._rings cimport Ring, ring_bytes, ring_item, ring_release, ring_room


cdef inline int insert_one(FifoState* s, const Part* leaf, const Algorithm* a) except -1 nogil:
    if Algorithm is Recompute:
        put(s, &s.items, leaf)
        s.back += 1
        return 0
    elif Algorithm is SubtractOnEvict:
        return subtract_insert(s, leaf)
    elif Algorithm is TwoStacks:
        return stacks_insert(s, leaf)
    elif Algorithm is DABA:
        return daba_insert(s, leaf)
    elif Algorithm is DABALite:
        return lite_insert(s, leaf)
    elif Algorithm is FlatFAT:
        return flat_insert(s, leaf)
    elif Algorithm is LogMTA:
        return log_insert(s, leaf)
    else:
        return amta_insert(s, leaf)


cdef int evict_safely(FifoState* s, int64_t to, const Part* tag, const Algorithm* a) except -1 nogil:
    cdef FifoState saved
    cdef Part* items = lists_saved(s, &saved, tag)
    cdef bint whole = False
    try:
        if Algorithm is DABA:
            daba_evict_to(s, to, tag)
        else:
            lite_evict_to(s, to, tag)
        whole = True
    finally:
        if not whole:
            lists_restore(s, &saved, items)
        free(items)
    return 0


cdef inline int evict_all_to(FifoState* s, int64_t to, const Part* tag, const Algorithm* a) except -1 nogil:
    """Drop what is before `to`, which lies in (front, back]."""
    if Algorithm is Recompute:
        s.front = to
    elif Algorithm is SubtractOnEvict:
        subtract_evict_to(s, to, tag)
    elif Algorithm is TwoStacks:
        stacks_evict_to(s, to, tag)
    elif Algorithm is DABA or Algorithm is DABALite:
        if to == s.back:
            clear_lists(s)
        elif Part is Boxed and to - s.front > 1:    # combine may raise
            evict_safely(s, to, tag, a)
        elif Algorithm is DABA:
            daba_evict_to(s, to, tag)
        else:
            lite_evict_to(s, to, tag)
    elif Algorithm is FlatFAT:
        flat_evict_to(s, to, tag)
    elif Algorithm is LogMTA:
        log_evict_to(s, to, tag)
    else:
        amta_evict_to(s, to, tag)
    return 0


cdef inline int query_now(FifoState* s, Part* out, const Algorithm* a) except -1 nogil:
    if Algorithm is Recompute:
        return fold(s, out, s.front, s.back)
    elif Algorithm is SubtractOnEvict:
        out[0] = named(s, TAIL, out)[0]
        return 0
    elif Algorithm is TwoStacks:
        return stacks_query(s, out)
    elif Algorithm is DABA:
        return daba_query(s, out)
    elif Algorithm is DABALite:
        return lite_query(s, out)
    elif Algorithm is FlatFAT:
        return flat_query(s, out)
    else:
        return tree_query(s, out)


cdef inline int lift_row(const FifoState* s, Part* leaf, const Cell* values, const uint8_t* valid,
                         int64_t i) except -1 nogil:
    if valid != NULL and not valid[i]:
        return identity(&s.how, leaf)
    return lift(&s.how, leaf, values[i])


# ------------------------------------------------------------- the entries of the tables

cdef int op_start(FifoState* s, const Part* tag, const Algorithm* a) except -1 nogil:
    s.forest.how = s.how
    s.forest.split = -1
    s.named = calloc(NAMED, sizeof(Part))
    if s.named == NULL:
        with gil:
            raise MemoryError()
    identity(&s.how, named(s, TAIL, tag))
    identity(&s.how, named(s, TAIL + 1, tag))
    if Algorithm is FlatFAT:
        flat_grow(s, tag)
    return 0


cdef int op_insert(FifoState* s, Cell raw, bint valid, const Part* tag, const Algorithm* a) except -1 nogil:
    cdef Part leaf
    cdef uint8_t mask = valid
    lift_row(s, &leaf, &raw, &mask, 0)
    return insert_one(s, &leaf, a)


cdef int op_evict_to(FifoState* s, int64_t front, const Part* tag, const Algorithm* a) except -1 nogil:
    return evict_all_to(s, front, tag, a) if front > s.front else 0


cdef int op_query(FifoState* s, Part* out, const Algorithm* a) except -1 nogil:
    return query_now(s, out, a)


cdef int op_extend(FifoState* s, int level, int64_t position, Part* out, const Algorithm* a) except -1 nogil:
    """Append to a prefix the node of this level that starts at `position`."""
    cdef const Part* part
    if Algorithm is LogMTA or Algorithm is AMTA:
        part = node_at(&s.forest, level, position - s.forest.base, out)
    elif Algorithm is FlatFAT:
        part = node(s, leaf_of(s, position) >> level, out)
    elif Algorithm is Recompute or Algorithm is SubtractOnEvict:
        part = item(s, position, out)
    else:
        part = ring_item(&s.values, position, out)
    return combine(&s.how, out, out, part)


cdef int op_build(FifoState* s, Ring* rings, int levels, int64_t first, int64_t stop, const Part* tag,
                  const Algorithm* a) except -1 nogil:
    cdef int level
    for level in range(1, levels):
        raise_level(rings, &s.how, level, (first + (<int64_t> 1 << level) - 1) >> level, stop >> level, tag)
    return 0


cdef int op_join(FifoState* s, Part* out, const Part* node, const Algorithm* a) except -1 nogil:
    return combine(&s.how, out, out, node)


cdef int op_slide(FifoState* s, const Cell* values, const uint8_t* valid, int64_t n, int64_t keep,
                  Part* out, const Algorithm* a) except -1 nogil:
    """Insert, evict down to `keep`, query; n times."""
    cdef Part leaf
    cdef int64_t i
    if Algorithm is AMTA and keep > 1:
        return amta_slide(s, values, valid, n, keep, out)
    for i in range(n):
        lift_row(s, &leaf, values, valid, i)
        if Algorithm is FlatFAT and 0 < keep <= s.back - s.front == s.places:    # or the tree would double
            evict_all_to(s, s.back + 1 - keep, out, a)
        insert_one(s, &leaf, a)
        if s.back - s.front > keep:
            evict_all_to(s, s.back - keep, out, a)
        query_now(s, &out[i], a)
    return 0


cdef int op_fill(FifoState* s, const Cell* values, const uint8_t* valid, int64_t n,
                 const Part* tag, const Algorithm* a) except -1 nogil:
    cdef Part leaf
    cdef int64_t i
    for i in range(n):
        lift_row(s, &leaf, values, valid, i)
        insert_one(s, &leaf, a)
    return 0


cdef int op_load(FifoState* s, const Part* items, const Part* values, const Algorithm* a) except -1 nogil:
    """Take the items [front, back) of a window that was stored; the other fields are set already."""
    cdef int64_t back = s.back
    s.back = s.front
    if Algorithm is FlatFAT:
        load_flat(s, items, back)
    elif Algorithm is LogMTA or Algorithm is AMTA:
        load_forest(s, items, back)
    else:
        load_lists(s, items, values, back)
    return 0


cdef int load_flat(FifoState* s, const Part* items, int64_t back) except -1 nogil:
    """`mid` is how many places there were."""
    cdef int64_t i
    while s.places < s.mid:
        flat_grow(s, items)
    for i in range(s.front, back):
        node(s, leaf_of(s, i), items)[0] = items[i - s.front]
    s.back = back
    return flat_refresh(s, s.places, 2 * s.places - 1, items)


cdef int load_forest(FifoState* s, const Part* items, int64_t back) except -1 nogil:
    cdef int64_t i
    cdef Part one
    for i in range(s.front, back):
        one = items[i - s.front]
        forest_append(&s.forest, &one)
        s.forest.back += 1
    s.back = back
    return forest_split(&s.forest, s.forest.front, s.forest.back, items)


cdef int load_lists(FifoState* s, const Part* items, const Part* values, int64_t back) except -1 nogil:
    cdef int64_t i
    cdef Part one
    for i in range(s.front, back):
        one = items[i - s.front]
        put(s, &s.items, &one)
        if values != NULL:
            one = values[i - s.front]
            put(s, &s.values, &one)
        s.back += 1
    return 0


cdef void* op_part_at(FifoState* s, int64_t position, bint value, const Part* tag,
                      const Algorithm* a) noexcept nogil:
    """Where the item, or the value beside it, at a position is."""
    if value:
        return ring_item(&s.values, position, tag)
    if Algorithm is LogMTA or Algorithm is AMTA:
        return node_at(&s.forest, 0, position - s.forest.base, tag)
    elif Algorithm is FlatFAT:
        return node(s, leaf_of(s, position), tag)
    else:
        return item(s, position, tag)


# ------------------------------------------------------------------------- the tables

ctypedef int (*start_t)(FifoState*, const void*, const void*) except -1 nogil
ctypedef int (*insert_t)(FifoState*, Cell, bint, const void*, const void*) except -1 nogil
ctypedef int (*evict_t)(FifoState*, int64_t, const void*, const void*) except -1 nogil
ctypedef int (*query_t)(FifoState*, void*, const void*) except -1 nogil
ctypedef int (*extend_t)(FifoState*, int, int64_t, void*, const void*) except -1 nogil
ctypedef int (*slide_t)(FifoState*, const Cell*, const uint8_t*, int64_t, int64_t, void*,
                        const void*) except -1 nogil
ctypedef int (*fill_t)(FifoState*, const Cell*, const uint8_t*, int64_t, const void*,
                       const void*) except -1 nogil
ctypedef int (*load_t)(FifoState*, const void*, const void*, const void*) except -1 nogil
ctypedef int (*build_t)(FifoState*, Ring*, int, int64_t, int64_t, const void*, const void*) except -1 nogil
ctypedef int (*join_t)(FifoState*, void*, const void*, const void*) except -1 nogil
ctypedef void* (*part_at_t)(FifoState*, int64_t, bint, const void*, const void*) noexcept nogil

PARTS = ("int", "float", "extreme", "moments", "runs", "products", "cell", "cells", "object")
ALGORITHMS = ("Recompute", "SubtractOnEvict", "TwoStacks", "DABA", "DABALite", "FlatFAT", "LogMTA", "AMTA")
cdef FifoOps TABLES[8][9]


cdef FifoOps ops_of(Part* tag, Algorithm* a) noexcept:
    cdef FifoOps ops
    ops.tree = Algorithm is FlatFAT or Algorithm is LogMTA or Algorithm is AMTA
    ops.size = sizeof(Part)
    ops.start = <start_t> op_start[Part, Algorithm]
    ops.insert = <insert_t> op_insert[Part, Algorithm]
    ops.evict_to = <evict_t> op_evict_to[Part, Algorithm]
    ops.query = <query_t> op_query[Part, Algorithm]
    ops.extend = <extend_t> op_extend[Part, Algorithm]
    ops.slide = <slide_t> op_slide[Part, Algorithm]
    ops.fill = <fill_t> op_fill[Part, Algorithm]
    ops.load = <load_t> op_load[Part, Algorithm]
    ops.build = <build_t> op_build[Part, Algorithm]
    ops.join = <join_t> op_join[Part, Algorithm]
    ops.part_at = <part_at_t> op_part_at[Part, Algorithm]
    return ops


cdef void fill_tables(FifoOps* ops, Algorithm* a) noexcept:
    ops[0] = ops_of(<IntSum*> NULL, a)
    ops[1] = ops_of(<FloatSum*> NULL, a)
    ops[2] = ops_of(<Extreme*> NULL, a)
    ops[3] = ops_of(<Moments*> NULL, a)
    ops[4] = ops_of(<Runs*> NULL, a)
    ops[5] = ops_of(<Products*> NULL, a)
    ops[6] = ops_of(<OneCell*> NULL, a)
    ops[7] = ops_of(<Cells*> NULL, a)
    ops[8] = ops_of(<Boxed*> NULL, a)


fill_tables(TABLES[0], <Recompute*> NULL)
fill_tables(TABLES[1], <SubtractOnEvict*> NULL)
fill_tables(TABLES[2], <TwoStacks*> NULL)
fill_tables(TABLES[3], <DABA*> NULL)
fill_tables(TABLES[4], <DABALite*> NULL)
fill_tables(TABLES[5], <FlatFAT*> NULL)
fill_tables(TABLES[6], <LogMTA*> NULL)
fill_tables(TABLES[7], <AMTA*> NULL)


cdef FifoOps* find_fifo(str algorithm, str part) except NULL:
    """The functions of an algorithm over a kind of partials."""
    return &TABLES[ALGORITHMS.index(algorithm)][PARTS.index(part)]


cdef void fifo_release(FifoState* s) noexcept nogil:
    """Give all memory back."""
    ring_release(&s.items)
    ring_release(&s.values)
    forest_release(&s.forest)
    free(s.named)
    free(s.nodes)
    s.named = s.nodes = NULL
    s.places = 0


cdef int64_t fifo_bytes(const FifoState* s, size_t size) noexcept nogil:
    """Bytes held."""
    cdef int64_t bytes = ring_bytes(&s.items, size) + ring_bytes(&s.values, size)
    cdef int level
    for level in range(MAX_LEVELS):
        bytes += ring_bytes(&s.forest.rings[level], size)
    return bytes + 2 * s.places * <int64_t> size
