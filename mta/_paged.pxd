# cython: language_level=3
"""Kernels of windows whose rows are in pages; see ``_paged.pyx``."""
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mta._core cimport MAX_LEVELS, highest_bit, lowest_bit
from mta._kernel cimport CHUNK, Counter, Kernel
from mta._monoids cimport Extreme, FloatSum, Lift, combine, identity, lift
from mta._moves cimport run_end


cdef enum:
    RUN = 64        # windows that are lowered at a time
    FEW_PAGES = 64  # that are given back at a time, at least
    LEVELS = 8      # that there are places for, at first; and how many more at a time
    BLOCK_BITS = 4  # rows may come in as blocks of 16,
    TURN = 64       # four of them in a turn


cdef class GivenCounter(Counter):
    cdef object numbers         # keeps the counts alive
    cdef const int64_t* given   # by window number
    cdef int64_t nothing[CHUNK]


cdef class PageParts:
    # Pages before `first` are needed no more; `origin` is the first that has a place.
    cdef char* parts
    cdef size_t size        # bytes of a partial
    cdef int64_t room
    cdef int64_t origin
    cdef int64_t first

    cdef char* at(self, int64_t page) noexcept nogil
    cdef int have(self, int64_t page) except -1 nogil
    cdef int let_go(self, int64_t front, int64_t end, int64_t least) noexcept nogil
    cdef bytes told(self, int64_t end)
    cdef int take(self, bytes told, int64_t end) except -1


cdef class PagedKernel(Kernel):
    cdef int bits           # a page has 2^bits rows
    cdef object load        # gives rows that are not attached
    cdef object tail        # what was attached: columns, valid, first
    cdef int64_t tail_first
    cdef size_t size        # bytes of a partial
    cdef const int64_t* counts    # of the windows at hand, by number; NULL where hi - lo is the count
    # Positions: row base + i has position i. The window is [front, back).
    cdef int64_t base
    cdef int64_t front
    cdef int64_t back
    cdef int64_t split      # as that of the forest; -1: it has to be found
    # Partials: of the newest node of each level; from the split to the end of each node right of it;
    cdef int levels
    cdef char* pending
    cdef char* prefix
    # of the newest node that begins with each page;
    cdef PageParts pages
    # from each row of [head_front, head_end) to the split;
    cdef char* head
    cdef int64_t head_room
    cdef int64_t head_front
    cdef int64_t head_end
    cdef int64_t head_split
    # and for a while: of a node, from the end of a page to the split, the answers of some windows.
    cdef char* node
    cdef char* after
    cdef char* parts

    cdef int reserve(self, size_t size) except -1
    cdef int have_levels(self, int levels) except -1 nogil
    cdef void restart(self, int64_t row) noexcept nogil
    cdef int put_page(self, int64_t page) except -1 nogil
    cdef int find_split(self) noexcept nogil
    cdef int fold_pages(self, int64_t front, char* out) noexcept nogil
    cdef int have_room(self, int64_t rows) except -1 nogil
    cdef int read(self, int64_t start, int64_t stop) except -1
    cdef int fill(self, int64_t front, int64_t end) except -1 nogil

    # What a subclass says: the monoid.
    cdef void clear(self, void* part) noexcept nogil
    cdef void lift(self, void* part, int64_t row) noexcept nogil
    cdef void combine(self, void* out, const void* a, const void* b) noexcept nogil
    cdef int64_t lower(self, int64_t window, int64_t n) noexcept nogil


# The loops over rows, once for all monoids. Where the monoid is known when they are compiled, they have
# no call in them; of any other, `AnyPart`, the kernel's methods are called.

cdef struct AnyPart:
    char first


ctypedef fused PagePart:
    AnyPart
    FloatSum
    Extreme


cdef inline PagePart* part_at(PagedKernel k, char* parts, int64_t i, PagePart* tag) noexcept nogil:
    if PagePart is AnyPart:
        return <PagePart*> (parts + i * <int64_t> k.size)
    else:
        return (<PagePart*> parts) + i


cdef inline PagePart* node_of(PagedKernel k, PagePart* local) noexcept nogil:
    """Where a node is made: in registers, if it may be. (A partial that was just written by halves and
    is read as a whole has to wait until it is in the cache.)"""
    if PagePart is AnyPart:
        return <PagePart*> k.node
    else:
        return local


cdef inline void put_part(PagedKernel k, PagePart* out, const PagePart* part) noexcept nogil:
    if PagePart is AnyPart:
        memcpy(out, part, k.size)
    else:
        out[0] = part[0]


cdef inline void put_row(PagedKernel k, const Lift* how, PagePart* out, int64_t row) noexcept nogil:
    """The partial of a row; of a null, that of no row."""
    if PagePart is AnyPart:
        k.lift(out, row)
    else:
        if k.scan.valid == NULL or k.scan.valid[row]:
            lift(how, out, k.scan.values[row])
        else:
            identity(how, out)


cdef inline void join_parts(PagedKernel k, const Lift* how, PagePart* out, const PagePart* a,
                            const PagePart* b) noexcept nogil:
    if PagePart is AnyPart:
        k.combine(out, a, b)
    else:
        combine(how, out, a, b)


cdef inline int64_t step_pages(PagedKernel k, const Lift* how, PagePart* tag, int64_t start, int64_t n,
                               const int64_t* lo, const int64_t* hi) except -2 nogil:
    """`Kernel.step`."""
    begin_step(k, start, lo, hi)
    return answer_windows(k, how, tag, start, n)


cdef inline void begin_step(PagedKernel k, int64_t start, const int64_t* lo, const int64_t* hi) noexcept nogil:
    k.scan.lo, k.scan.hi = lo, hi
    k.counts = k.counter.counts_from(start)


cdef inline int64_t answer_windows(PagedKernel k, const Lift* how, PagePart* tag, int64_t start,
                                   int64_t n) except -2 nogil:
    """Some windows of a step; the first whose answer does not fit its type, or -1."""
    cdef const int64_t* lo = k.scan.lo
    cdef const int64_t* hi = k.scan.hi
    cdef int64_t i = start, run, j, failed = -1
    k.parts = <char*> malloc(RUN * k.size)
    if k.parts == NULL:
        with gil:
            raise MemoryError()
    try:
        while i < start + n and failed < 0:
            run = min(start + n - i, <int64_t> RUN)
            for j in range(run):
                move_pages(k, how, tag, lo[i + j], hi[i + j])
                answer_pages(k, how, part_at(k, k.parts, j, tag))
            failed = k.lower(i, run)
            i += run
    finally:
        free(k.parts)
    return failed


cdef inline int move_pages(PagedKernel k, const Lift* how, PagePart* tag, int64_t lo, int64_t hi) except -1 nogil:
    """Make the window [lo, hi); neither ever falls."""
    cdef int64_t row
    if lo >= k.base + k.back:
        k.restart(lo)
    elif lo > k.base + k.front:
        k.front = lo - k.base
        if k.front >= k.split:
            k.split = -1
    for row in range(k.base + k.back, hi):
        insert_row(k, how, tag, row)
    if k.split < 0 and k.front < k.back:
        k.find_split()
    return 0


cdef inline int insert_row(PagedKernel k, const Lift* how, PagePart* tag, int64_t row) except -1 nogil:
    """One row more."""
    cdef PagePart local
    cdef PagePart* node = node_of(k, &local)
    put_row(k, how, node, row)
    return insert_node(k, how, node, 0)


cdef inline int insert_node(PagedKernel k, const Lift* how, PagePart* node, int level) except -1 nogil:
    """2^level rows more, less than a page, whose node this is, and every node that they complete. It is
    written."""
    cdef int64_t start = k.back, run, rest
    k.back += <int64_t> 1 << level
    if k.back >> k.levels:
        k.have_levels(k.levels + LEVELS)
    if k.back & ((<int64_t> 1 << k.bits) - 1) == 0:
        k.pages.have(start >> k.bits)
    # A node whose left half has begun to leave is never asked for.
    while (start >> level) & 1 and start - (<int64_t> 1 << level) >= k.front:
        join_parts(k, how, node, part_at(k, k.pending, level, node), node)
        start -= <int64_t> 1 << level
        level += 1
        if level >= k.bits:
            put_part(k, <PagePart*> k.node, node)
            k.put_page(start >> k.bits)
    put_part(k, part_at(k, k.pending, level, node), node)
    if k.split < 0:
        return 0
    run = k.back - k.split
    if run & k.split:    # there is a better split point now
        k.split = -1
        return 0
    rest = run & (run - 1)
    if rest:
        join_parts(k, how, part_at(k, k.prefix, level, node), part_at(k, k.prefix, lowest_bit(rest), node),
                   node)
    else:
        put_part(k, part_at(k, k.prefix, level, node), node)
    return 0


cdef inline int answer_pages(PagedKernel k, const Lift* how, PagePart* out) except -1 nogil:
    """The aggregate of the window."""
    cdef PagePart* suffix
    if k.front == k.back:
        k.clear(out)
        return 0
    if k.head_split != k.split or k.front >= k.head_end or k.front < k.head_front:
        build_head(k, how, out)
    suffix = part_at(k, k.head, k.front - k.head_front, out)
    if k.back == k.split:
        put_part(k, out, suffix)
    else:
        join_parts(k, how, out, suffix, part_at(k, k.prefix, lowest_bit(k.back - k.split), out))
    return 0


cdef inline int build_head(PagedKernel k, const Lift* how, PagePart* tag) except -1 nogil:
    """Suffixes from the rows from the front on to the end of their page, or to the split."""
    cdef int64_t front = k.front, end = min(((front >> k.bits) + 1) << k.bits, k.split)
    cdef bint is_read
    k.head_split = -1
    k.have_room(end - front + 3)    # some fill it four at a time
    if not k.fill(front, end):
        is_read = bind_rows(k, front, end)
        fill_head(k, how, tag, front, end)
        bind_tail(k, is_read)
    k.head_front, k.head_end, k.head_split = front, end, k.split
    return 0


cdef inline int bind_rows(PagedKernel k, int64_t front, int64_t end) except -1 nogil:
    """Have `lift` take rows from here; whether they had to be read."""
    if k.base + front >= k.tail_first:
        return False
    with gil:
        k.read(k.base + front, k.base + end)
    return True


cdef inline int bind_tail(PagedKernel k, bint is_read) except -1 nogil:
    if is_read:
        with gil:
            k.bind(*k.tail)
    return 0


cdef inline void fill_head(PagedKernel k, const Lift* how, PagePart* tag, int64_t front, int64_t end) noexcept nogil:
    cdef PagePart local
    cdef PagePart* node = node_of(k, &local)
    cdef int64_t i
    for i in range(front, end):
        put_row(k, how, node, k.base + i)
        put_leaf(k, how, k.head, front, i, node)
    if end < k.split:
        k.fold_pages(end, k.after)
    fold_leaves(k, how, k.head, front, end, <PagePart*> (k.after if end < k.split else NULL))
    if end < k.split and front & ((<int64_t> 1 << k.bits) - 1) == 0:
        k.fold_pages(front, k.head)    # its node may be larger than the page


cdef inline void put_leaf(PagedKernel k, const Lift* how, char* parts, int64_t first, int64_t leaf,
                          PagePart* node) noexcept nogil:
    """Of the leaves from `first` on this one has come, whose partial is `node`: parts[i] becomes the
    newest node that begins with leaf first + i. `node` is written."""
    cdef PagePart* slot
    cdef int64_t left = leaf
    cdef int level = 0
    put_part(k, part_at(k, parts, left - first, node), node)
    while (left >> level) & 1 and left - (<int64_t> 1 << level) >= first:
        left -= <int64_t> 1 << level
        slot = part_at(k, parts, left - first, node)
        join_parts(k, how, node, slot, node)
        put_part(k, slot, node)
        level += 1


cdef inline void fold_leaves(PagedKernel k, const Lift* how, char* parts, int64_t first, int64_t end,
                             const PagePart* after) noexcept nogil:
    """From these nodes the suffixes of all leaves before `end`, and what comes after that; NULL: nothing."""
    cdef PagePart* slot
    cdef int64_t leaf, next
    cdef int level
    for leaf in range(end - 1, first - 1, -1):
        level = highest_bit(end - leaf)
        if leaf:
            level = min(level, lowest_bit(leaf))
        next = leaf + (<int64_t> 1 << level)
        slot = part_at(k, parts, leaf - first, <PagePart*> after)
        if next < end:
            join_parts(k, how, slot, slot, part_at(k, parts, next - first, slot))
        elif after != NULL:
            join_parts(k, how, slot, slot, after)


# Many rows at a time, where windows move on by few: blocks are the leaves. What is left over takes the
# way above.

cdef inline int64_t turn_end(PagedKernel k, int64_t i, int64_t stop) noexcept nogil:
    """After the last window that ends before a turn of rows more are inside. i: they can't come in as one,
    as they are not there yet, or windows move on too fast, or about another split point."""
    cdef int64_t end = k.base + k.back + TURN, split = k.split, mask = (<int64_t> 1 << BLOCK_BITS) - 1
    if k.back & mask or split <= 0 or split & mask or k.bits <= BLOCK_BITS:
        return i
    if k.back + TURN >= split + (split & -split) or k.scan.hi[i] >= end or k.scan.hi[stop - 1] < end:
        return i
    stop = run_end(&k.scan, i, stop, INT64_MAX, end)
    return stop if k.scan.lo[stop - 1] < k.base + split else i


cdef inline int64_t general_end(PagedKernel k, int64_t i, int64_t stop) noexcept nogil:
    """After the windows up to the end of a block, or for the rows of a turn; one at least."""
    cdef int64_t left = -k.back & ((<int64_t> 1 << BLOCK_BITS) - 1)
    cdef int64_t end = k.base + k.back + (left if left else <int64_t> TURN)
    i += 1
    while i < stop and k.scan.hi[i] <= end:
        i += 1
    return i
