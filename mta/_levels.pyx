"""The window level of panes: counts and exact sums are differential (what leaves is subtracted, and
leaves no trace), extremes are kept as wedges. Thesis on window-ids, 6.2.3.

Both take a bucket of a group in O(1) amortised; a bucket that changes is taken out and added again, so
rows may come late into buckets that are inside already.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove, memset

from mta._partials cimport (
    EXTREME, FLOATS, ODD_DOWN, ODD_NAN, ODD_UP, Head, Pool, Shape, clear_entry, merge_into,
    release_entry, rows_of,
)


cdef void level_init(Level* v, const Shape* s, bint endless) noexcept nogil:
    cdef int k
    memset(v, 0, sizeof(Level))
    v.endless = endless
    v.stride = s.size + (12 * s.floats + 7) // 8 * 8
    for k in range(s.measures):
        v.extremes += s.measure[k].kind == EXTREME


cdef void level_release(Level* v, const Shape* s, Pool* pool) noexcept nogil:
    cdef int64_t i
    for i in range(v.codes if s.floats else 0):
        release_entry(s, run_of(v, i), pool)
    for i in range(v.codes * v.extremes if v.wedge != NULL else 0):
        free(v.wedge[i].item)
    free(v.run)
    free(v.wedge)
    v.run, v.wedge, v.codes, v.begun = NULL, NULL, 0, False


cdef int no_memory() except -1 nogil:
    with gil:
        raise MemoryError("the window level of panes")


cdef int level_reserve(Level* v, const Shape* s, int64_t codes) except -1 nogil:
    """Room for these codes."""
    cdef int64_t wanted, i
    cdef void* grown
    if codes <= v.codes:
        return 0
    wanted = max(codes, v.codes + v.codes // 4 + 16)
    grown = realloc(v.run, wanted * v.stride)
    if grown == NULL:
        no_memory()
    v.run = <char*> grown
    if v.extremes and not v.endless:
        grown = realloc(v.wedge, wanted * v.extremes * sizeof(Wedge))
        if grown == NULL:
            no_memory()
        v.wedge = <Wedge*> grown
        memset(v.wedge + v.codes * v.extremes, 0, (wanted - v.codes) * v.extremes * sizeof(Wedge))
    for i in range(v.codes, wanted):
        empty_run(v, s, i)
    v.codes = wanted
    return 0


cdef inline void empty_run(Level* v, const Shape* s, int64_t code) noexcept nogil:
    clear_entry(s, run_of(v, code), <int32_t> code)
    memset(run_of(v, code) + s.size, 0, v.stride - s.size)


cdef int64_t level_bytes(const Level* v) noexcept nogil:
    cdef int64_t bytes = v.codes * v.stride, i
    if v.wedge != NULL:
        for i in range(v.codes * v.extremes):
            bytes += <int64_t> sizeof(Wedge) + 16 * v.wedge[i].capacity
    return bytes


cdef int level_add(Level* v, const Shape* s, int64_t code, int64_t bucket, const char* entry,
                   Pool* pool) except -1 nogil:
    """What a bucket of a group holds comes in."""
    cdef int k, extreme = 0
    merge_into(s, run_of(v, code), entry, pool, pool)
    if s.floats:
        count_odd(v, s, code, entry, 1)
    if v.wedge == NULL:
        return 0
    for k in range(s.measures):
        if s.measure[k].kind == EXTREME:
            wedge_add(&v.wedge[code * v.extremes + extreme], bucket,
                      (<const int64_t*> (entry + s.measure[k].at))[0])
            extreme += 1
    return 0


cdef int level_remove(Level* v, const Shape* s, int64_t code, const char* entry, Pool* pool) except -1 nogil:
    """What a bucket of a group holds goes."""
    cdef char* run = run_of(v, code)
    cdef int extreme
    merge_into(s, run, entry, pool, pool, -1)
    if rows_of(run, s)[0] == 0:    # nothing is left to be known of it, not even where its sums moved to
        release_entry(s, run, pool)
        empty_run(v, s, code)
        for extreme in range(v.extremes if v.wedge != NULL else 0):
            v.wedge[code * v.extremes + extreme].n = 0
    elif s.floats:
        count_odd(v, s, code, entry, -1)
    return 0


cdef void count_odd(Level* v, const Shape* s, int64_t code, const char* entry, int sign) noexcept nogil:
    cdef char* run = run_of(v, code)
    cdef int32_t* count = <int32_t*> (run + s.size)
    cdef Head* head
    cdef uint8_t odd
    cdef int k
    for k in range(s.measures):
        if s.measure[k].kind != FLOATS:
            continue
        odd = (<const Head*> (entry + s.measure[k].head)).odd
        head = <Head*> (run + s.measure[k].head)
        if odd or head.odd:
            count[0] += sign if odd & ODD_NAN else 0
            count[1] += sign if odd & ODD_UP else 0
            count[2] += sign if odd & ODD_DOWN else 0
            head.odd = ((ODD_NAN if count[0] else 0) | (ODD_UP if count[1] else 0)
                        | (ODD_DOWN if count[2] else 0))
        count += 3


cdef int wedge_add(Wedge* w, int64_t bucket, int64_t key) except -1 nogil:
    """Every window that is still to come and holds an older bucket holds this one too: an older key that
    is not greater is never asked for again."""
    cdef int64_t* item
    cdef int32_t at = w.first + w.n, from_, k
    while at > w.first and w.item[2 * (at - 1)] >= bucket:
        at -= 1
    if at < w.first + w.n and w.item[2 * at + 1] >= key:
        return 0
    k = at    # (of the bucket itself there may be a lower key, at `at`)
    if at < w.first + w.n and w.item[2 * at] == bucket:
        k += 1
    from_ = at
    while from_ > w.first and w.item[2 * (from_ - 1) + 1] <= key:
        from_ -= 1
    if k == from_:
        wedge_reserve(w, &from_)
        k = from_
        item = w.item + 2 * from_
        memmove(item + 2, item, (w.first + w.n - k) * 16)
        w.n += 1
    else:
        item = w.item + 2 * from_
        memmove(item + 2, w.item + 2 * k, (w.first + w.n - k) * 16)
        w.n -= k - from_ - 1
    item[0], item[1] = bucket, key
    return 0


cdef int wedge_reserve(Wedge* w, int32_t* at) except -1 nogil:
    """Room for one more; where `at` is then."""
    cdef int32_t capacity
    cdef void* grown
    if w.first + w.n < w.capacity:
        return 0
    if w.n == 0 or 2 * w.first >= w.capacity:
        memmove(w.item, w.item + 2 * w.first, w.n * 16)
        at[0] -= w.first
        w.first = 0
        if w.n < w.capacity:
            return 0
    capacity = 2 * w.capacity + 2
    grown = realloc(w.item, <size_t> capacity * 16)
    if grown == NULL:
        no_memory()
    w.item, w.capacity = <int64_t*> grown, capacity
    return 0


cdef void level_read(Level* v, const Shape* s, int64_t code, char* entry) noexcept nogil:
    """The partial of a group over the window at hand, whose wide sums are in the pool."""
    cdef Wedge* w
    cdef int k, extreme = 0
    memcpy(entry, run_of(v, code), s.size)
    if v.wedge == NULL:
        return
    for k in range(s.measures):
        if s.measure[k].kind != EXTREME:
            continue
        w = &v.wedge[code * v.extremes + extreme]
        while w.n and w.item[2 * w.first] < v.low:
            w.first += 1
            w.n -= 1
        if w.n:    # where there are none, no value counts, and the key is not asked for
            (<int64_t*> (entry + s.measure[k].at))[0] = w.item[2 * w.first + 1]
        extreme += 1


cdef void level_clear(Level* v, const Shape* s, Pool* pool) noexcept nogil:
    """Everything goes."""
    cdef int64_t i
    cdef int extreme
    for i in range(v.codes):
        if rows_of(run_of(v, i), s)[0]:
            release_entry(s, run_of(v, i), pool)
            empty_run(v, s, i)
            for extreme in range(v.extremes if v.wedge != NULL else 0):
                v.wedge[i * v.extremes + extreme].n = 0


cdef void level_move(Level* v, const Shape* s, const int32_t* code, int64_t codes) noexcept nogil:
    """Give groups new codes, none of which is greater than its old one; -1: it is dead, and empty."""
    cdef int64_t i
    cdef Wedge w
    cdef int extreme
    for i in range(min(codes, v.codes)):
        if code[i] < 0 or code[i] == i:
            continue
        memcpy(run_of(v, code[i]), run_of(v, i), v.stride)
        (<int32_t*> run_of(v, code[i]))[0] = code[i]
        empty_run(v, s, i)
        for extreme in range(v.extremes if v.wedge != NULL else 0):
            w = v.wedge[code[i] * v.extremes + extreme]
            v.wedge[code[i] * v.extremes + extreme] = v.wedge[i * v.extremes + extreme]
            v.wedge[i * v.extremes + extreme] = w


cdef int level_widen(Level* v, const Shape* s, const Shape* wider) except -1 nogil:
    """Add a cell to every partial, in which all its rows have counted so far."""
    cdef int more = wider.size - s.size, stride = v.stride + more
    cdef char* run = <char*> calloc(max(v.codes, <int64_t> 1), stride)
    cdef char* mine
    cdef int64_t i
    if run == NULL:
        no_memory()
    for i in range(v.codes):
        mine = run + i * stride
        memcpy(mine, run_of(v, i), s.size)
        (<int64_t*> (mine + s.size))[0] = rows_of(run_of(v, i), s)[0]
        memcpy(mine + wider.size, run_of(v, i) + s.size, v.stride - s.size)
    free(v.run)
    v.run, v.stride = run, stride
    return 0
