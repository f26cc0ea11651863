"""How often every value occurs inside a window: count_distinct, mode, most_common.

- Which values are inside: a hash table from a code to the last row that had it. A row that leaves
  touches nothing: what it had is gone if it was the last row to have it, and the table knows that
  by the row number alone.
- How often: beside the first row inside of every code, in a ring. Codes are thereby in the order
  that decides ties. Of such a count it holds that it only grows until its row leaves, at the front:
  so a tree of maxima over the ring is kept by raising them, and is wrong only left of the window.
- The most frequent: a short sorted list. A row changes it in one comparison, most often; when too
  many have fallen off its end it is filled from the tree.
"""
from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from mta._core cimport lowest_bit
from mta._monoids cimport Cell
from mta._places cimport take_array

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define MTA_PREFETCH(p) __builtin_prefetch(p)
    #else
    #define MTA_PREFETCH(p) ((void)(p))
    #endif
    """
    void prefetch "MTA_PREFETCH"(const void* p) nogil


cdef enum:
    AHEAD = 8                # rows whose slots are fetched before their turn
    FAR = 1 << 16            # slots of a table that no longer fits the nearest cache
    SPARSE = 1 << 15         # up to so many codes the table is kept sparse, which is faster
    SMALLEST = 16
    WASTE = 64               # slots per code inside beyond which the table is made anew, smaller
    SPARE = 7                # codes kept in order beyond twice those that are listed
    MOST_ROWS = 0xFFFFFFF0   # that 32 bits can tell


# ------------------------------------------------------------------------------ which codes

cdef inline uint32_t tag_of(int64_t code) noexcept nogil:
    """The upper half of a hash in which every bit of the code counts (mixed as SplitMix64 does)."""
    cdef uint64_t x = <uint64_t> code
    x = (x ^ (x >> 32)) * <uint64_t> 0x9E3779B97F4A7C15ULL
    x = (x ^ (x >> 29)) * <uint64_t> 0xBF58476D1CE4E5B9ULL
    return <uint32_t> (x >> 32)


cdef int make_codes(Codes* t, int64_t first, int64_t live) except -1 nogil:
    """Make the table anew, with room for more codes than are inside: O(1) amortised a row."""
    cdef int64_t capacity = SMALLEST, i, n = 0, gone = first - 1 - t.base
    cdef bint sparse = live <= SPARSE
    cdef Slot* kept = <Slot*> malloc((live + 1) * sizeof(Slot))
    while capacity * (2 if sparse else 7) < live * 16:
        capacity *= 2
    if kept != NULL:
        # Which of them are inside is beyond guessing: every slot is copied, and most are overwritten.
        for i in range(t.capacity):
            kept[n] = t.slots[i]
            n += t.slots[i].row > gone
    if kept == NULL or not clear_codes(t, capacity):
        free(kept)
        with gil:
            raise MemoryError(f"{live} distinct values")
    for i in range(n):
        keep_slot(t, Slot(<uint32_t> (kept[i].row - gone), kept[i].tag))
    free(kept)
    t.used = n
    t.most = capacity // 2 if sparse else capacity // 16 * 11
    t.base = first - 1
    return 0


cdef bint clear_codes(Codes* t, int64_t capacity) noexcept nogil:
    """An empty table; false where there is no memory for one."""
    cdef Slot* slots
    if capacity == t.capacity:
        memset(t.slots, 0, capacity * sizeof(Slot))
        return True
    slots = <Slot*> calloc(capacity, sizeof(Slot))
    if slots == NULL:
        return False
    free(t.slots)
    t.slots = slots
    t.capacity = capacity
    t.shift = 32 - lowest_bit(capacity)
    return True


cdef inline void keep_slot(Codes* t, Slot slot) noexcept nogil:
    cdef int64_t i = slot.tag >> t.shift
    while t.slots[i].row:
        i = (i + 1) & (t.capacity - 1)
    t.slots[i] = slot


cdef inline int64_t put_row(Codes* t, const Cell* x, int64_t first, int64_t row) noexcept nogil:
    """Make a row the last one of its code; the row that was it, or -1 if none inside has the code."""
    cdef int64_t code = x[row].i, inside = first - t.base, before
    cdef uint32_t tag = tag_of(code)
    cdef uint64_t i = tag >> t.shift
    cdef Slot* spot = NULL
    cdef Slot* slot
    while True:
        slot = &t.slots[i]
        if slot.row == 0:
            if spot == NULL:
                spot = slot
                t.used += 1
            spot.row = <uint32_t> (row - t.base)
            spot.tag = tag
            return -1
        if slot.row < inside:    # nothing any more
            spot = slot if spot == NULL else spot
        elif slot.tag == tag and x[t.base + slot.row].i == code:
            before = t.base + slot.row
            slot.row = <uint32_t> (row - t.base)
            return before
        i = (i + 1) & <uint64_t> (t.capacity - 1)


cdef inline int room_for_code(Tally* t, const Scan* scan, int64_t row) except -1 nogil:
    """Before a row is put: the table has a free slot, and can tell the row."""
    cdef Codes* codes = &t.codes
    if codes.used >= codes.most or row - codes.base > MOST_ROWS:
        make_codes(codes, t.first, t.distinct)
    if codes.capacity >= FAR and row + AHEAD < scan.rows:
        prefetch(&codes.slots[tag_of(scan.values[row + AHEAD].i) >> codes.shift])
    return 0


# ------------------------------------------------------------------- how often: the tree of maxima

cdef inline int64_t row_at(const Tally* t, uint32_t place) noexcept nogil:
    """The row inside that has this place."""
    return t.first + ((place - t.first) & t.masks[0])


cdef inline uint32_t* node_at(const Tally* t, int level, int64_t i) noexcept nogil:
    return &t.counts[level][i & t.masks[level]]


cdef void open_blocks(Tally* t, int64_t row) noexcept nogil:
    """Before the first row of a block of FAN enters: it and all the blocks that begin here are 0."""
    cdef int level = 0
    while level <= t.top and (row >> (FAN_BITS * level)) & (FAN - 1) == 0:
        memset(node_at(t, level, row >> (FAN_BITS * level)), 0, FAN * sizeof(uint32_t))
        level += 1


cdef void clear_blocks(Tally* t, int64_t row) noexcept nogil:
    """Where a window begins anew: all blocks that the row is in are 0."""
    cdef int level
    for level in range(t.top + 1):
        memset(node_at(t, level, (row >> (FAN_BITS * level)) & -FAN), 0, FAN * sizeof(uint32_t))


cdef inline void raise_count(Tally* t, int64_t row, uint32_t count) noexcept nogil:
    """A first row's count has become this, which is more."""
    cdef int level
    cdef uint32_t* node
    node_at(t, 0, row)[0] = count
    for level in range(1, t.top + 1):
        node = node_at(t, level, row >> (FAN_BITS * level))
        if node[0] >= count:
            return
        node[0] = count


cdef struct Best:
    uint32_t count
    int level
    int64_t i


cdef inline bint scan_nodes(const Tally* t, Best* best, int level, int64_t i, int64_t stop,
                            uint32_t most) noexcept nogil:
    """Whether a node has reached the most that is possible."""
    cdef const uint32_t* nodes = t.counts[level]
    cdef int64_t mask = t.masks[level]
    while i < stop:
        if nodes[i & mask] > best.count:
            best.count = nodes[i & mask]
            best.level = level
            best.i = i
            if best.count >= most:
                return True
        i += 1
    return False


cdef void find_best(const Tally* t, Best* best, int64_t row, int64_t stop, uint32_t most) noexcept nogil:
    """The node with the greatest count of those that make up [row, stop), and the first of them.

    Up from `row` over whole nodes as long as they fit, then down to `stop`.
    """
    cdef int level = 0
    cdef int64_t i = row, end
    while level < t.top and i < stop >> (FAN_BITS * level):
        end = min((i + FAN - 1) & -FAN, stop >> (FAN_BITS * level))
        if scan_nodes(t, best, level, i, end, most):
            return
        i = end
        if i & (FAN - 1):
            break
        i >>= FAN_BITS
        level += 1
    while True:
        end = stop >> (FAN_BITS * level)
        if scan_nodes(t, best, level, i, end, most) or level == 0:
            return
        i = max(i, end) << FAN_BITS
        level -= 1


cdef Leader best_of(const Tally* t, int64_t row, int64_t stop, uint32_t most) noexcept nogil:
    """The most frequent of the codes whose first row is in [row, stop), and the first of them.

    most : none of them is more frequent than this
    """
    cdef Best best = Best(0, 0, row)
    if most > 0:
        find_best(t, &best, row, stop, most)
    while best.level > 0:
        best.level -= 1
        best.i <<= FAN_BITS
        while node_at(t, best.level, best.i)[0] != best.count:
            best.i += 1
    return Leader(best.i, best.count)


# -------------------------------------------------------------------------- the most frequent

cdef inline bint precedes(Leader a, Leader b) noexcept nogil:
    return a.count > b.count or (a.count == b.count and a.row < b.row)


cdef inline void raise_leader(Tally* t, int64_t row, int64_t count) noexcept nogil:
    """A code has one row more. It may come among the leaders, or further up."""
    cdef Leader* leaders = t.leaders
    cdef Leader now = Leader(row, count)
    cdef int64_t i = t.n - 1
    if t.n == 0 or precedes(leaders[i], now):
        if t.n == t.distinct - (count == 1) and count == 1 and t.n < t.room:
            leaders[t.n] = now    # all codes are leaders
            t.n += 1
        elif t.n == 0:
            t.lost = max(t.lost, count)
        return
    if precedes(leaders[i], Leader(row, count - 1)):    # it was none so far
        if t.n < t.room:
            i = t.n
            t.n += 1
    else:
        while leaders[i].row != row:
            i -= 1
    while i > 0 and precedes(now, leaders[i - 1]):
        leaders[i] = leaders[i - 1]
        i -= 1
    leaders[i] = now


cdef inline void lower_leader(Tally* t, int64_t row, int64_t count, int64_t next_row) noexcept nogil:
    """The first row inside leaves, the next one of its code is this (-1: none is left)."""
    cdef Leader* leaders = t.leaders
    cdef Leader now = Leader(next_row, count - 1)
    cdef int64_t i = t.n - 1
    # Being the first row of all, it precedes the others of its count.
    if t.n == 0 or leaders[i].count > count:
        return
    while leaders[i].row != row:
        i -= 1
    while i + 1 < t.n and precedes(leaders[i + 1], now):
        leaders[i] = leaders[i + 1]
        i += 1
    if i + 1 < t.n or (t.n == t.distinct and next_row >= 0):
        leaders[i] = now
    else:
        t.n -= 1    # others, not among the leaders, may precede it now
        t.lost = count


cdef void find_leaders(Tally* t) noexcept nogil:
    """Fill the list: take the best, split the rows where it lies, and so on."""
    cdef int64_t whole = <int64_t> 1 << (FAN_BITS * t.top)
    cdef int64_t gaps = 1, i, k
    cdef Gap* gap = t.gaps
    gap[0].row = t.first
    gap[0].stop = (t.end + whole - 1) & -whole    # what is beyond `end` is 0
    gap[0].best = best_of(t, gap[0].row, gap[0].stop, t.leaders[0].count if t.n else t.lost)
    t.n = 0
    while t.n < t.room and t.n < t.distinct:
        k = 0
        for i in range(1, gaps):
            if precedes(gap[i].best, gap[k].best):
                k = i
        t.leaders[t.n] = gap[k].best
        t.n += 1
        if t.n < t.room:
            split_gap(t, &gap[k], &gap[gaps])
            gaps += 1


cdef void split_gap(const Tally* t, Gap* gap, Gap* right) noexcept nogil:
    right.row = gap.best.row + 1
    right.stop = gap.stop
    right.best = best_of(t, right.row, right.stop, gap.best.count)
    gap.stop = gap.best.row
    gap.best = best_of(t, gap.row, gap.stop, gap.best.count - 1)


# ------------------------------------------------------------------------------ rows come and go

cdef int tally_slide(Tally* t, const Scan* scan, int64_t lo, int64_t hi) except -1 nogil:
    """Make the window [lo, hi)."""
    cdef int64_t row
    if lo >= t.end:
        t.first = t.end = lo
        t.distinct = t.n = 0
        if t.room and t.capacity:
            clear_blocks(t, lo)
    if t.room == 0:
        for row in range(t.first, lo):
            t.distinct -= not t.again[row & t.masks[0]]
    else:
        while t.first < lo:
            leave(t)
    t.first = lo
    if hi - lo > t.capacity - FAN:
        grow(t, hi - lo)
    for row in range(t.end, hi):
        if scan.valid != NULL and not scan.valid[row]:
            enter_null(t, row)
        else:
            room_for_code(t, scan, row)
            if t.room == 0:
                enter_only(t, scan, row)
            else:
                enter(t, scan, row)
        t.end = row + 1
    return 0


cdef inline void enter_null(Tally* t, int64_t row) noexcept nogil:
    if t.room == 0:
        t.again[row & t.masks[0]] = 1
    elif row & (FAN - 1) == 0:
        open_blocks(t, row)


cdef inline void enter_only(Tally* t, const Scan* scan, int64_t row) noexcept nogil:
    """Where only the number of codes is asked for."""
    cdef int64_t before = put_row(&t.codes, scan.values, t.first, row)
    t.again[row & t.masks[0]] = 0
    if before >= 0:
        t.again[before & t.masks[0]] = 1
    else:
        t.distinct += 1


cdef inline void enter(Tally* t, const Scan* scan, int64_t row) noexcept nogil:
    cdef int64_t before = put_row(&t.codes, scan.values, t.first, row), first = row
    cdef uint32_t place = <uint32_t> (row & t.masks[0]), first_place = place
    if row & (FAN - 1) == 0:
        open_blocks(t, row)
    if before >= 0:
        first_place = t.links[before & t.masks[0]].next
        t.links[before & t.masks[0]].next = place
        first = row_at(t, first_place)
    else:
        t.distinct += 1
    t.links[place].next = first_place
    t.links[first_place].last = place
    raise_count(t, first, node_at(t, 0, first)[0] + 1)
    raise_leader(t, first, node_at(t, 0, first)[0])


cdef inline void leave(Tally* t) noexcept nogil:
    """The first row leaves. If it counts, it is the first of its code."""
    cdef uint32_t place = <uint32_t> (t.first & t.masks[0]), next_place, last
    cdef uint32_t count = t.counts[0][place]
    cdef int64_t next_row = -1
    if count > 1:
        next_place = t.links[place].next
        last = t.links[place].last
        t.links[next_place].last = last
        t.links[last].next = next_place
        next_row = row_at(t, next_place)
        raise_count(t, next_row, count - 1)
    elif count == 1:
        t.distinct -= 1
    if count > 0:
        lower_leader(t, t.first, count, next_row)
    t.first += 1


cdef int grow(Tally* t, int64_t rows) except -1 nogil:
    """Rings for so many rows and more: O(1) amortised a row."""
    cdef Tally wide = t[0]
    cdef int64_t row
    if rows > MOST_ROWS - FAN:
        with gil:
            raise MemoryError(f"a window of {rows} rows")
    wide.capacity = 2 * FAN
    while wide.capacity - FAN < rows:
        wide.capacity *= 2
    new_rings(&wide)
    if t.room > 0:
        clear_blocks(&wide, t.first)
    for row in range(t.first, t.end):
        if t.room == 0:
            wide.again[row & wide.masks[0]] = t.again[row & t.masks[0]]
        else:
            move_row(&wide, t, row)
    release_rings(t)
    t[0] = wide
    return 0


cdef void move_row(Tally* t, const Tally* old, int64_t row) noexcept nogil:
    cdef Links links = old.links[row & old.masks[0]]
    cdef uint32_t count = old.counts[0][row & old.masks[0]]
    if row & (FAN - 1) == 0:
        open_blocks(t, row)
    links.next = <uint32_t> (row_at(old, links.next) & t.masks[0])
    links.last = <uint32_t> (row_at(old, links.last) & t.masks[0])
    t.links[row & t.masks[0]] = links
    if count:
        raise_count(t, row, count)


cdef int new_rings(Tally* t) except -1 nogil:
    cdef bint failed
    memset(t.counts, 0, sizeof(t.counts))
    t.again = NULL
    t.links = NULL
    t.top = 0
    t.masks[0] = t.capacity - 1
    if t.room == 0:
        t.again = <uint8_t*> malloc(t.capacity)
        failed = t.again == NULL
    else:
        t.links = <Links*> malloc(t.capacity * sizeof(Links))
        t.counts[0] = <uint32_t*> malloc(t.capacity * sizeof(uint32_t))
        failed = t.links == NULL or t.counts[0] == NULL or not new_nodes(t)
    if failed:
        release_rings(t)
        with gil:
            raise MemoryError(f"a window of {t.capacity} rows")
    return 0


cdef bint new_nodes(Tally* t) noexcept nogil:
    """The levels above the rows, until FAN nodes stand for a ring; false where there is no memory."""
    cdef int64_t size
    while t.capacity >> (FAN_BITS * t.top) > FAN:
        t.top += 1
        # What is inside may begin and end in the middle of a block.
        size = 2 * FAN
        while size < (t.capacity >> (FAN_BITS * t.top)) + 2 * FAN:
            size *= 2
        t.masks[t.top] = size - 1
        t.counts[t.top] = <uint32_t*> malloc(size * sizeof(uint32_t))
        if t.counts[t.top] == NULL:
            return False
    return True


cdef void release_rings(Tally* t) noexcept nogil:
    cdef int level
    free(t.again)
    free(t.links)
    for level in range(MAX_HEIGHT):
        free(t.counts[level])
        t.counts[level] = NULL
    t.again = NULL
    t.links = NULL


# --------------------------------------------------------------------------------------- answers

cdef class TallyKernel(Kernel):
    """How many values there are inside, and which of them are the most frequent.

    wanted : one per answer:
        "count_distinct" : how many different codes there are
        "mode" : the row number of the first of the most frequent code (of equally frequent ones
            the first to occur); -1 where nothing is inside
        ("most_common", k) : such rows of the k most frequent, in a ``Lists``

    The column holds codes, equal for equal values: any int64. A row costs one look-up in a hash
    table with linear probing (Knuth, The Art of Computer Programming 3, 6.4), where what has left
    is found out by its row number and swept out when the table is made anew. mode and most_common
    also climb a tournament tree (5.4.1 there) with 16 branches a node: at most O(log n) steps with
    n rows inside, mostly one. Where leading codes are lost, the next ones are looked for in it:
    O(log n) for mode, O(k log n + k^2) for k codes at once.

    Memory: the table takes 16 to 128 bytes a code inside (beyond 32,768 codes 12 to 37); the rest,
    per row of the longest window so far, 1 to 2 bytes for count_distinct, 13 to 26 for the others.
    """

    def __cinit__(self, Counter counter, wanted):
        self.n = len(wanted)
        if self.n > MAX_OUTPUTS:
            raise ValueError("too many answers of one column")
        self.tally.end = INT64_MIN
        for k, what in enumerate(wanted):
            self.most[k] = places_of(what)
            self.deepest = max(self.deepest, self.most[k])
            if self.most[k] >= 0:
                self.tally.room = 2 * self.deepest + SPARE if self.deepest else 2
        if self.tally.room > 0:
            self.tally.leaders = <Leader*> malloc(self.tally.room * sizeof(Leader))
            self.tally.gaps = <Gap*> malloc((self.tally.room + 1) * sizeof(Gap))
            if self.tally.leaders == NULL or self.tally.gaps == NULL:
                raise MemoryError(f"the {self.tally.room} most frequent")

    def __init__(self, Counter counter, wanted):
        Kernel.__init__(self, counter)

    def __dealloc__(self):
        release_rings(&self.tally)
        free(self.tally.codes.slots)
        free(self.tally.leaders)
        free(self.tally.gaps)
        free(self.listed)

    def answer_to(self, arrays):
        """arrays : per answer an int64 array, or a ``Lists`` for most_common"""
        self.answers = []
        for k, room in enumerate(arrays):
            if self.most[k] > 0:
                self.answers.append(room)
            else:
                self.out[k] = take_array(room, self.answers)

    cdef int64_t step(self, int64_t start, int64_t n, const int64_t* lo, const int64_t* hi) except -2 nogil:
        cdef Tally* t = &self.tally
        cdef int64_t i, needed = max(self.deepest, 1)
        cdef int k
        self.listed_n = 0
        for i in range(start, start + n):
            tally_slide(t, &self.scan, lo[i], hi[i])
            if t.room > 0 and t.n < min(needed, t.distinct):
                find_leaders(t)
            for k in range(self.n):
                if self.most[k] < 0:
                    self.out[k][i] = t.distinct
                elif self.most[k] == 0:
                    self.out[k][i] = t.leaders[0].row if t.distinct else -1
            if self.deepest > 0:
                self.note_leaders(i - start)
        if t.codes.capacity > WASTE * (t.distinct + SMALLEST):
            make_codes(&t.codes, t.first, t.distinct)
        if self.deepest > 0:
            self.write_all_lists(start, n)
        return -1

    cdef int note_leaders(self, int64_t i) except -1 nogil:
        """The longest list of window i of the chunk."""
        cdef int64_t k, size = min(self.deepest, self.tally.distinct), room
        cdef void* listed
        if self.listed_n + size > self.listed_room:
            room = 2 * (self.listed_n + size)
            listed = realloc(self.listed, room * sizeof(int64_t))
            if listed == NULL:
                with gil:
                    raise MemoryError(f"lists of {room} items")
            self.listed = <int64_t*> listed
            self.listed_room = room
        for k in range(size):
            self.listed[self.listed_n + k] = self.tally.leaders[k].row
        self.listed_n += size
        self.sizes[i] = size
        return 0

    cdef int write_all_lists(self, int64_t start, int64_t n) except -1 with gil:
        cdef Lists lists
        cdef int k
        for k in range(self.n):
            if self.most[k] > 0:
                lists = self.answers[k]
                with nogil:
                    self.write_lists(lists, self.most[k], start, n)
        return 0

    cdef int write_lists(self, Lists lists, int64_t most, int64_t start, int64_t n) except -1 nogil:
        """The lists of a chunk, cut to `most` items."""
        cdef int64_t i, k, size
        cdef const int64_t* row = self.listed
        for i in range(n):
            size = min(most, self.sizes[i])
            lists.length[start + i] = size
            for k in range(size):
                lists.add(row[k])
            row += self.sizes[i]
        return 0


cdef int64_t places_of(what) except -2:
    """How many codes are listed; 0: mode, -1: count_distinct."""
    if what == "count_distinct":
        return -1
    if what == "mode":
        return 0
    if isinstance(what, tuple) and len(what) == 2 and what[0] == "most_common" and what[1] > 0:
        return what[1]
    raise ValueError(f"no answer {what!r}")
