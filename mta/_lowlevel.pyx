"""Low-level aggregation: a table of partials by (group, pane) that never grows, in front of a window
level that takes them (``Panes.merge``). Thesis on window-ids, 8.3.3, Figure 8-6."""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mta._partials cimport (
    MOST_FEEDS, Feeds, Layout, Partials, Pool, Shape, bytes_at, check_entry, clear_entry, code_of,
    fill_pool, lift_into, open_feeds, pool_bytes, pool_init, pool_release, read_record, release_entry,
    rows_of,
)

import numpy as np

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define mta_prefetch(p) __builtin_prefetch((p), 1)
    #else
    #define mta_prefetch(p) ((void)(p))
    #endif
    """
    void prefetch "mta_prefetch"(const void* p) nogil

cdef enum:
    AHEAD = 8          # rows whose slots are fetched before it is their turn: a slot is a cache miss
    LOOK = 32          # slots that slow flush looks at, at most, before the next row

cdef int64_t EMPTY = INT64_MAX    # the pane of a free slot: later than all


cdef struct State:
    Shape* shape
    Pool pool
    int64_t slots
    int64_t* pane      # of every slot
    char* entry
    int64_t before     # panes that start before this are complete
    # Slow flush: the next slot to look at, the rows since it put one out, after how many it does.
    int64_t position
    int64_t since
    int64_t every


cdef class LowTable:
    """A fixed number of partials, each in the slot that the hash of its group and pane says, or in the one
    beside it. A row that finds both taken by others puts the partial of one out and takes its slot.

    layout : what a partial is made of
    slots : how many there are
    every : slow flush: with every so many rows, one partial of a pane that is complete goes out;
        0: lazy flush, on collision only

    One O(1) step a row, without an allocation but for what goes out. Memory: that of the layout and 8
    bytes a slot. What goes out depends on the order of rows; merged, it does not.
    """

    cdef readonly Layout layout
    cdef readonly int64_t slots
    cdef readonly int64_t every
    cdef State state
    cdef Partials out

    def __cinit__(self, Layout layout, int64_t slots, int64_t every=0):
        cdef State* st = &self.state
        cdef int64_t i
        if not 0 < slots < 2**31 or every < 0:
            raise ValueError("at least one slot, and no negative number of rows")
        self.layout, self.slots, self.every = layout, slots, every
        self.out = Partials(layout)
        st.shape, st.slots, st.every, st.before = &layout.shape, slots, every, INT64_MIN
        st.position = slots    # nothing to look for yet
        pool_init(&st.pool)
        st.pane = <int64_t*> malloc(slots * sizeof(int64_t))
        st.entry = <char*> malloc(slots * layout.shape.size)
        if st.pane == NULL or st.entry == NULL:
            raise MemoryError(f"{slots} partial aggregates")
        for i in range(slots):
            st.pane[i] = EMPTY

    def __dealloc__(self):
        free(self.state.pane)
        free(self.state.entry)
        pool_release(&self.state.pool)

    def add(self, const int64_t[::1] codes, const int64_t[::1] panes, list feeds, list counted):
        """Take rows; what goes out by that is in `take`.

        codes : the groups of the rows, from 0
        panes : of each row, by its start
        feeds : one 8-byte array per column; counted: one of bytes per input, None: every row counts
        """
        cdef int64_t record[MOST_FEEDS + 1]
        cdef int64_t i, ahead, n = codes.shape[0]
        cdef State* st = &self.state
        cdef Feeds f
        if panes.shape[0] != n:
            raise ValueError("one pane per row")
        if n == 0:
            return
        open_feeds(&f, st.shape, n, feeds, counted)
        with nogil:
            for i in range(n):
                ahead = slot_of(st, <int32_t> codes[min(i + AHEAD, n - 1)], panes[min(i + AHEAD, n - 1)])
                prefetch(st.pane + ahead)
                prefetch(st.entry + ahead * st.shape.size)
                read_record(&f, i, <int32_t> codes[i], record)
                take_row(st, panes[i], record, self.out)
                if st.every and st.position < st.slots:
                    flush_slowly(st, self.out)

    def complete(self, int64_t before):
        """No more rows of panes that start before this will come: slow flush may put them out."""
        cdef State* st = &self.state
        if before > st.before:
            st.before = before
            st.position = st.since = 0

    def flush(self, int64_t before):
        """Put out every partial of a pane that starts before this. Returns the first of which something
        is left; the greatest int64: there is none. O(slots)."""
        cdef State* st = &self.state
        cdef int64_t i, least = EMPTY
        with nogil:
            for i in range(st.slots):
                if st.pane[i] < before:
                    put_out(st, i, self.out)
                least = min(least, st.pane[i])
        return least

    def take(self):
        """The partials that have gone out since this was asked last; their places are the panes."""
        made, self.out = self.out, Partials(self.layout)
        return made

    def to_parts(self):
        """Everything as byte strings, what `fill` takes. What has gone out has to be taken before."""
        cdef State* st = &self.state
        cdef int64_t i
        if len(self.out):
            raise ValueError("take what has gone out first")
        taken = [i for i in range(st.slots) if st.pane[i] != EMPTY]
        head = [st.before, st.position, st.since, st.pool.free_item]
        return [
            np.array(head, np.int64).tobytes(),
            np.array([(i, st.pane[i]) for i in taken], np.int64).tobytes(),
            b"".join([bytes_at(st.entry + <int64_t> i * st.shape.size, st.shape.size) for i in taken]),
            pool_bytes(&st.pool),
        ]

    def fill(self, list parts, int64_t codes):
        """Take what `to_parts` of a table of as many slots gave, of so many codes; this must hold
        nothing yet.

        Raises
        ------
        ValueError
            The parts do not fit together. Then it holds nothing.
        """
        cdef State* st = &self.state
        cdef int64_t i, k
        cdef bytes entries = parts[2]
        head = np.frombuffer(parts[0], np.int64)
        taken = np.frombuffer(parts[1], np.int64).reshape(-1, 2)
        at = taken[:, 0]
        if (len(head) != 4 or len(entries) != len(taken) * st.shape.size or (np.diff(at) <= 0).any()
                or (at < 0).any() or (at >= st.slots).any() or not 0 <= head[1] <= st.slots):
            raise ValueError("the parts do not fit together")
        fill_pool(&st.pool, parts[3], head[3])
        for i in range(len(taken)):
            check_entry(st.shape, &st.pool, codes, (<const char*> entries) + i * st.shape.size)
        for i in range(len(taken)):
            k = at[i]
            memcpy(st.entry + k * st.shape.size, (<const char*> entries) + i * st.shape.size, st.shape.size)
            st.pane[k] = taken[i, 1]
        st.before, st.position, st.since = head[0], head[1], head[2]

    @property
    def swept(self):
        """Whether slow flush has been through the table since panes were last called complete."""
        return self.every > 0 and self.state.position == self.slots

    @property
    def held(self):
        """How many slots are taken."""
        cdef State* st = &self.state
        cdef int64_t i, n = 0
        with nogil:
            for i in range(st.slots):
                n += st.pane[i] != EMPTY
        return n

    @property
    def nbytes(self):
        """Memory of the table."""
        return self.slots * (self.layout.shape.size + <int64_t> sizeof(int64_t))


cdef inline int64_t slot_of(const State* st, int32_t code, int64_t pane) noexcept nogil:
    """By group and pane, not by group alone: where rows of several panes come by turns, those of one
    group would else put each other out."""
    cdef uint64_t x = <uint64_t> pane * <uint64_t> 0xD6E8FEB86659FD93 + <uint64_t> <uint32_t> code
    x = (x ^ (x >> 32)) * <uint64_t> 0x9E3779B97F4A7C15
    return <int64_t> ((x >> 32) * <uint64_t> st.slots >> 32)


cdef inline int take_row(State* st, int64_t pane, const int64_t* record, Partials out) except -1 nogil:
    cdef int32_t code = <int32_t> record[0]
    cdef int64_t i = slot_of(st, code, pane)
    cdef char* mine
    if not is_of(st, i, code, pane):
        i = choose(st, i, code, pane)
    mine = st.entry + i * st.shape.size
    if not is_of(st, i, code, pane):
        if st.pane[i] != EMPTY:
            put_out(st, i, out)
        clear_entry(st.shape, mine, code)
        st.pane[i] = pane
    return lift_into(st.shape, mine, record, &st.pool)


cdef inline bint is_of(const State* st, int64_t i, int32_t code, int64_t pane) noexcept nogil:
    return st.pane[i] == pane and code_of(st.entry + i * st.shape.size) == code


cdef inline int64_t choose(State* st, int64_t i, int32_t code, int64_t pane) noexcept nogil:
    """Slot i, which another has, or its neighbour: the one of this group and pane; a free one; the one
    that had better make room, that of the earlier pane or else of fewer rows, so that large groups
    stay."""
    cdef int64_t other = i ^ 1
    if other >= st.slots or st.pane[i] == EMPTY and not is_of(st, other, code, pane):
        return i
    if st.pane[other] == EMPTY or is_of(st, other, code, pane):
        return other
    if st.pane[i] != st.pane[other]:
        return i if st.pane[i] < st.pane[other] else other
    return i if rows_at(st, i) <= rows_at(st, other) else other


cdef inline int64_t rows_at(State* st, int64_t i) noexcept nogil:
    return rows_of(st.entry + i * st.shape.size, st.shape)[0]


cdef int put_out(State* st, int64_t i, Partials out) except -1 nogil:
    cdef char* mine = st.entry + i * st.shape.size
    out.take_in(mine, &st.pool, st.pane[i])
    release_entry(st.shape, mine, &st.pool)
    st.pane[i] = EMPTY
    return 0


cdef inline int flush_slowly(State* st, Partials out) except -1 nogil:
    """After every so many rows, look for the next partial of a complete pane; not all at once."""
    cdef int64_t stop
    st.since += 1
    if st.since < st.every:
        return 0
    stop = min(st.position + LOOK, st.slots)
    while st.position < stop and st.pane[st.position] >= st.before:
        st.position += 1
    if st.position < stop:
        put_out(st, st.position, out)
        st.position += 1
        st.since = 0
    return 0
