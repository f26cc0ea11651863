"""Panes: partial aggregates per (group, bucket) of open windows, for rows in any order.

A bucket is a pane (Paned-WID: every window is made of whole panes, of length gcd(range, slide)) or a
window itself (WID: a row is in range / slide of them). Thesis on window-ids, 6.1.3, 6.2 and 6.3.
"""
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from mta._levels cimport (
    Level, level_add, level_bytes, level_clear, level_init, level_move, level_read, level_release,
    level_remove, level_reserve, level_widen, run_of,
)
from mta._partials cimport (
    MOST_FEEDS, Feeds, Layout, Partials, Pool, Shape, bytes_at, check_entry, clear_entry, code_of,
    copy_bytes, copy_wide, fill_pool, lift_into, merge_into, open_feeds, pool_bytes, pool_init,
    pool_release, read_record, release_entry, rows_of,
)
from mta._tables cimport (
    Directory, Table, drop_tables, fill_table, find_partial, find_place, keep_record, partial_at,
    record_at, release_tables, renumber, settle_records, table_bytes, table_of, take_partial,
    widen_partials,
)

import numpy as np

cdef struct State:
    Shape* shape
    Pool pool
    Level level
    Directory all
    # Of every code: how many rows are held, and whether partials are kept of them.
    uint32_t* rows     # (MANY: too many to be counted, and for ever)
    uint8_t* eager
    int64_t codes
    int64_t room
    int64_t alive      # codes of which rows are held
    int64_t most       # more rows than these make a group eager,
    int64_t least      # fewer make it lazy again
    char* scratch      # room for one partial


cdef uint32_t MANY = 0xFFFFFFFF


cdef class Panes:
    """Partials of (group, bucket).

    layout : what is kept of the rows of a group in a bucket
    single : every window is one bucket
    endless : a window holds everything before its end as well
    most, least : a group is lazy (its rows are kept as they are) until it holds more than `most` rows,
        and again when it holds less than `least` (AdaptWID, Cond. 6.9); 0: always eager

    A row costs O(1) per bucket that it is in; a window O(buckets that come in and leave), amortised, and
    O(1) per group. Memory per group and bucket: that of the layout and 6 bytes, or 8 bytes and 8 per
    column for a row of a lazy group; per group 5 bytes, and once more a partial where windows are more
    than one bucket.
    """

    cdef readonly Layout layout
    cdef readonly bint single
    cdef State state

    def __cinit__(self, Layout layout, bint single=True, bint endless=False, int64_t most=0,
                  int64_t least=0):
        cdef State* st = &self.state
        self.layout, self.single = layout, single
        st.shape = &layout.shape
        st.most, st.least = most, least
        pool_init(&st.pool)
        level_init(&st.level, st.shape, endless)
        st.scratch = <char*> malloc(layout.shape.size)
        if st.scratch == NULL:
            raise MemoryError("a partial")

    def __dealloc__(self):
        cdef State* st = &self.state
        release_tables(&st.all, st.shape, &st.pool)
        level_release(&st.level, st.shape, &st.pool)
        pool_release(&st.pool)
        free(st.rows)
        free(st.eager)
        free(st.scratch)

    # ---------------------------------------------------------------------- rows in

    def add(self, const int64_t[::1] codes, const int64_t[::1] buckets, list feeds, list counted,
            const int64_t[::1] repeats=None, int64_t step=0):
        """Take rows.

        codes : the groups of the rows, from 0
        buckets : of each row the (first) bucket, by its start
        feeds : one 8-byte array per column; counted: one of bytes per input, None: every row counts
        repeats, step : how many buckets of this distance each row is in; None: one
        """
        cdef int64_t record[MOST_FEEDS + 1]
        cdef int64_t i, k, n = codes.shape[0]
        cdef State* st = &self.state
        cdef Feeds f
        if buckets.shape[0] != n:
            raise ValueError("one bucket per row")
        if n == 0:
            return
        open_feeds(&f, st.shape, n, feeds, counted)
        reserve_codes(st, 1 + greatest(&codes[0], n))
        with nogil:
            for i in range(n):
                read_record(&f, i, <int32_t> codes[i], record)
                for k in range(repeats[i] if repeats is not None else 1):
                    add_record(st, buckets[i] + k * step, record)

    def merge(self, Partials partials, const int64_t[::1] codes, const int64_t[::1] buckets,
              const int64_t[::1] repeats=None, int64_t step=0):
        """Take partials of these groups and (first) buckets; `repeats` and `step` as for rows."""
        cdef State* st = &self.state
        cdef int64_t i, k, n = partials.n
        if codes.shape[0] != n or buckets.shape[0] != n or partials.layout.specs != self.layout.specs:
            raise ValueError("partials of another layout, or not a code and a bucket for each")
        if n == 0:
            return
        reserve_codes(st, 1 + greatest(&codes[0], n))
        with nogil:
            for i in range(n):
                for k in range(repeats[i] if repeats is not None else 1):
                    add_partial(st, buckets[i] + k * step, codes[i],
                                partials.entry + i * st.shape.size, &partials.pool)

    # ------------------------------------------------------------------- answers out

    def close(self, const int64_t[::1] low, const int64_t[::1] high, Partials into=None):
        """The partials of all groups over the windows of buckets low[i] <= bucket < high[i], both of
        which never fall. Their places are the numbers i, which rise; codes rise where windows are more
        than one bucket. `into`: those that take them, and forget what they held."""
        cdef Partials made = Partials(self.layout) if into is None else into
        cdef State* st = &self.state
        cdef int64_t i
        if made.layout is not self.layout:
            raise ValueError("partials of another layout")
        made.clear()
        with nogil:
            for i in range(low.shape[0]):
                if self.single:
                    list_table(st, low[i], i, made)
                else:
                    slide(st, low[i], high[i])
                    list_level(st, i, made)
        return made

    def close_group(self, int64_t code, const int64_t[::1] low, const int64_t[::1] high):
        """The same of one group, whatever the windows before were."""
        cdef Partials made = Partials(self.layout)
        cdef State* st = &self.state
        cdef Level level
        cdef int64_t i
        level_init(&level, st.shape, False)
        try:
            level_reserve(&level, st.shape, 1)
            for i in range(low.shape[0]):
                slide_group(st, &level, code, low[i], high[i])
                if rows_of(run_of(&level, 0), st.shape)[0]:
                    level_read(&level, st.shape, 0, st.scratch)
                    (<int32_t*> st.scratch)[0] = <int32_t> code
                    made.take_in(st.scratch, &st.pool, i)
        finally:
            level_release(&level, st.shape, &st.pool)
        return made

    def drop(self, int64_t before):
        """Let go of the buckets before this one."""
        cdef State* st = &self.state
        cdef int64_t i, n = find_place(&st.all, before)
        if n == 0:
            return
        with nogil:
            if st.level.begun and not st.level.endless:
                slide(st, before, max(before, st.level.high))
            for i in range(n):
                forget_rows(st, st.all.table[i])
            drop_tables(&st.all, n, st.shape, &st.pool)

    def seal(self, int64_t before):
        """Of endless windows: take the buckets before this one in, and let go of them."""
        cdef State* st = &self.state
        if not st.level.endless:
            raise ValueError("windows that end need their buckets")
        slide(st, 0, before)
        self.drop(before)

    @property
    def taken_in(self):
        """Of endless windows: whether buckets with rows have been taken in, and perhaps let go of."""
        cdef const State* st = &self.state
        cdef int64_t code
        for code in range(min(st.level.codes, st.codes) if st.level.begun else 0):
            if rows_of(run_of(&st.level, code), st.shape)[0]:
                return True
        return False

    @property
    def buckets(self):
        """The buckets that are held, in order."""
        made = np.empty(self.state.all.n, np.int64)
        cdef int64_t[::1] out = made
        if self.state.all.n:
            memcpy(&out[0], self.state.all.bucket, self.state.all.n * sizeof(int64_t))
        return made

    # ------------------------------------------------------------------------ groups

    @property
    def codes(self):
        """How many codes are in use, dead ones included."""
        return self.state.codes

    @property
    def alive(self):
        """Of how many groups rows are held."""
        return self.state.alive

    @property
    def eager(self):
        """How many of them are eager."""
        cdef int64_t i, n = 0
        for i in range(self.state.codes):
            n += self.state.rows[i] > 0 and self.state.eager[i]
        return n

    @property
    def rows(self):
        """How many rows of each code are held, or are in partials that are; 2^62 where they have been
        2^32 or more: such a group is never forgotten."""
        made = np.empty(self.state.codes, np.int64)
        cdef int64_t[::1] out = made
        cdef int64_t i
        for i in range(self.state.codes):
            out[i] = self.state.rows[i] if self.state.rows[i] < MANY else <int64_t> 1 << 62
        return made

    def set_bounds(self, int64_t most, int64_t least):
        """Change when a group becomes eager and lazy."""
        self.state.most, self.state.least = most, least

    def compact(self, int64_t codes):
        """Number the groups that are alive 0, 1, … in the order of their codes, of which there are so
        many: an int32 array of the new codes, -1 of the dead."""
        cdef State* st = &self.state
        reserve_codes(st, codes)
        made = np.empty(codes, np.int32)
        cdef int32_t[::1] new = made
        cdef int64_t i, n = 0
        if codes == 0:
            return made
        for i in range(codes):
            new[i] = -1
            if st.rows[i]:
                new[i] = <int32_t> n
                st.rows[n], st.eager[n] = st.rows[i], st.eager[i]
                n += 1
        with nogil:
            for i in range(st.all.n):
                renumber(st.all.table[i], st.shape, &new[0])
            level_move(&st.level, st.shape, &new[0], codes)
        st.codes = n
        return made

    def count_input(self, int input):
        """Count the rows that count for an input, too, all of which have done so far."""
        cdef State* st = &self.state
        cdef Layout wider = Layout([*self.layout.specs, ("values", 0, input, "", "")], st.shape.feeds)
        cdef int64_t i
        for i in range(st.all.n):
            widen_partials(st.all.table[i], st.shape, &wider.shape)
        level_widen(&st.level, st.shape, &wider.shape)
        scratch = <char*> realloc(st.scratch, wider.shape.size)
        if scratch == NULL:
            raise MemoryError("a partial")
        st.scratch = scratch
        self.layout = wider
        st.shape = &wider.shape

    # ------------------------------------------------------------------------- state

    @property
    def nbytes(self):
        """Bytes held."""
        cdef State* st = &self.state
        cdef int64_t i, bytes = level_bytes(&st.level) + 5 * st.room + 16 * st.all.capacity
        for i in range(st.all.n):
            bytes += table_bytes(st.all.table[i], st.shape)
        return bytes + st.pool.capacity * <int64_t> sizeof(st.pool.item[0])

    @property
    def held(self):
        """How many partials and how many single rows are held."""
        cdef int64_t i, partials = 0, rows = 0
        for i in range(self.state.all.n):
            partials += self.state.all.table[i].n
            rows += self.state.all.table[i].rows
        return partials, rows

    def to_parts(self):
        """Everything as byte strings; what `fill` takes."""
        cdef State* st = &self.state
        cdef int64_t i
        cdef list infos = [], entries = [], records = []
        for i in range(st.all.n):
            infos.append((st.all.table[i].bucket, st.all.table[i].n, st.all.table[i].rows))
            entries.append(bytes_at(st.all.table[i].entry, st.all.table[i].n * st.shape.size))
            records.append(bytes_at(st.all.table[i].row, st.all.table[i].rows * (1 + st.shape.feeds) * 8))
        endless = st.level.endless and st.level.begun
        head = [st.codes, st.most, st.least, endless, st.level.high if endless else 0, st.pool.free_item]
        level_reserve(&st.level, st.shape, st.codes if endless else 0)
        return [
            np.array(head, np.int64).tobytes(),
            np.array(infos, np.int64).reshape(-1, 3).tobytes(),
            bytes_at(st.rows, st.codes * sizeof(uint32_t)),
            bytes_at(st.eager, st.codes),
            b"".join(entries),
            b"".join(records),
            pool_bytes(&st.pool),
            bytes_at(st.level.run, st.codes * st.level.stride) if endless else b"",
        ]

    def fill(self, list parts):
        """Take what `to_parts` gave; this must hold nothing yet.

        Raises
        ------
        ValueError
            They do not fit together. Then it holds nothing.
        """
        cdef State* st = &self.state
        cdef int64_t i
        try:
            self.fill_all(parts)
        except ValueError:
            for i in range(st.all.n):    # what their numbers mean is not known
                st.all.table[i].n = st.all.table[i].rows = 0
            st.codes = st.alive = st.level.codes = 0
            st.level.begun = False
            raise

    cdef int fill_all(self, list parts) except -1:
        cdef State* st = &self.state
        cdef int64_t i, n, rows, entry_at = 0, record_at = 0
        cdef Table* t
        cdef const char* entries
        cdef const char* records
        head, infos = np.frombuffer(parts[0], np.int64), np.frombuffer(parts[1], np.int64).reshape(-1, 3)
        sizes = infos[:, 1].sum() * st.shape.size, infos[:, 2].sum() * (1 + st.shape.feeds) * 8
        if (len(head) != 6 or (infos[:, 1:] < 0).any() or (np.diff(infos[:, 0]) <= 0).any()
                or head[0] < 0 or sizes != (len(parts[4]), len(parts[5]))
                or (4 * head[0], head[0]) != (len(parts[2]), len(parts[3]))
                or len(parts[7]) != (head[0] * st.level.stride if head[3] else 0)):
            raise ValueError("the parts do not fit together")
        fill_pool(&st.pool, parts[6], head[5])
        reserve_codes(st, head[0])
        copy_bytes(st.rows, parts[2])
        copy_bytes(st.eager, parts[3])
        st.most, st.least = head[1], head[2]
        st.alive = np.count_nonzero(np.frombuffer(parts[2], np.uint32))
        entries, records = parts[4], parts[5]
        for bucket, n, rows in infos.tolist():
            t = table_of(&st.all, bucket)
            fill_table(t, st.shape, entries + entry_at, n, <const int64_t*> (records + record_at), rows)
            entry_at += n * st.shape.size
            record_at += rows * (1 + st.shape.feeds) * 8
            check_table(st, t)
        if head[3]:
            level_reserve(&st.level, st.shape, st.codes)
            copy_bytes(st.level.run, parts[7])
            st.level.begun, st.level.high = True, head[4]
            for i in range(st.codes):
                check_entry(st.shape, &st.pool, st.codes, run_of(&st.level, i))
        return 0


# ----------------------------------------------------------------------------- rows in

cdef int64_t greatest(const int64_t* codes, int64_t n) noexcept nogil:
    cdef int64_t i, code = codes[0]
    for i in range(n):
        code = max(code, codes[i])
    return code


cdef int reserve_codes(State* st, int64_t codes) except -1:
    cdef int64_t room
    cdef void* grown
    if codes > st.room:
        room = max(codes, st.room + max(min(st.room, <int64_t> 1024), st.room >> 3))
        grown = realloc(st.rows, room * sizeof(uint32_t))
        if grown != NULL:
            st.rows = <uint32_t*> grown
            grown = realloc(st.eager, room)
        if grown == NULL:
            raise MemoryError(f"{room} groups")
        st.eager, st.room = <uint8_t*> grown, room
    if codes > st.codes:
        memset(st.rows + st.codes, 0, (codes - st.codes) * sizeof(uint32_t))
        memset(st.eager + st.codes, 0, codes - st.codes)
        st.codes = codes
    if st.level.begun:
        level_reserve(&st.level, st.shape, st.codes)
    return 0


cdef inline bint is_inside(const State* st, int64_t bucket) noexcept nogil:
    """Whether the window level has taken this bucket in."""
    cdef const Level* v = &st.level
    return v.begun and bucket < v.high and (v.endless or bucket >= v.low)


cdef inline void count_rows(State* st, int64_t code, int64_t rows) noexcept nogil:
    st.alive += st.rows[code] == 0
    st.rows[code] = <uint32_t> min(st.rows[code] + rows, <int64_t> MANY)
    if st.rows[code] > st.most:
        st.eager[code] = True


cdef int add_record(State* st, int64_t bucket, const int64_t* record) except -1 nogil:
    cdef int32_t code = <int32_t> record[0]
    cdef bint inside = is_inside(st, bucket)
    cdef Table* t
    cdef char* mine
    count_rows(st, code, 1)
    if inside and st.level.endless:
        return move_record(st, &st.level, code, bucket, record, False)
    t = table_of(&st.all, bucket)
    if not st.eager[code]:
        keep_record(t, st.shape, record)
        if inside:
            move_record(st, &st.level, code, bucket, record, False)
        return 0
    mine = take_partial(t, st.shape, code)
    if inside and rows_of(mine, st.shape)[0]:
        level_remove(&st.level, st.shape, code, mine, &st.pool)
    lift_into(st.shape, mine, record, &st.pool)
    if inside:
        level_add(&st.level, st.shape, code, bucket, mine, &st.pool)
    return 0


cdef int add_partial(State* st, int64_t bucket, int64_t code, const char* entry, const Pool* pool) except -1 nogil:
    cdef bint inside = is_inside(st, bucket)
    cdef char* mine
    count_rows(st, code, rows_of(<char*> entry, st.shape)[0])
    if inside and st.level.endless:
        memcpy(st.scratch, entry, st.shape.size)
        copy_wide(st.shape, st.scratch, pool, &st.pool)
        level_add(&st.level, st.shape, code, bucket, st.scratch, &st.pool)
        release_entry(st.shape, st.scratch, &st.pool)
        return 0
    mine = take_partial(table_of(&st.all, bucket), st.shape, <int32_t> code)
    if inside and rows_of(mine, st.shape)[0]:
        level_remove(&st.level, st.shape, code, mine, &st.pool)
    merge_into(st.shape, mine, entry, &st.pool, pool)
    if inside:
        level_add(&st.level, st.shape, code, bucket, mine, &st.pool)
    return 0


cdef void forget_rows(State* st, const Table* t) noexcept nogil:
    cdef int64_t i
    if st.level.endless:
        return    # the rows are in every window that is still to come
    for i in range(t.n):
        forget(st, code_of(partial_at(t, st.shape, i)), rows_of(partial_at(t, st.shape, i), st.shape)[0])
    for i in range(t.rows):
        forget(st, <int32_t> record_at(t, st.shape, i)[0], 1)


cdef inline void forget(State* st, int64_t code, int64_t rows) noexcept nogil:
    if st.rows[code] == MANY:
        return
    st.rows[code] -= <uint32_t> rows
    st.alive -= st.rows[code] == 0
    if st.rows[code] == 0 or st.rows[code] < st.least:
        st.eager[code] = False


# ------------------------------------------------------------------------- answers out

cdef int list_table(State* st, int64_t bucket, int64_t place, Partials made) except -1 nogil:
    cdef int64_t at = find_place(&st.all, bucket), i
    cdef Table* t
    if at == st.all.n or st.all.bucket[at] != bucket:
        return 0
    t = st.all.table[at]
    settle_records(t, st.shape, &st.pool)
    for i in range(t.n):
        made.take_in(partial_at(t, st.shape, i), &st.pool, place)
    return 0


cdef int list_level(State* st, int64_t place, Partials made) except -1 nogil:
    cdef int64_t code
    for code in range(st.codes):
        if rows_of(run_of(&st.level, code), st.shape)[0]:
            level_read(&st.level, st.shape, code, st.scratch)
            made.take_in(st.scratch, &st.pool, place)
    return 0


cdef int slide(State* st, int64_t low, int64_t high) except -1 nogil:
    """Let the window level cover the buckets low <= bucket < high."""
    level_reserve(&st.level, st.shape, st.codes)
    return slide_level(st, &st.level, -1, low, high)


cdef int slide_group(State* st, Level* v, int64_t code, int64_t low, int64_t high) except -1 nogil:
    return slide_level(st, v, code, low, high)


cdef int slide_level(State* st, Level* v, int64_t only, int64_t low, int64_t high) except -1 nogil:
    cdef int64_t i
    if not v.begun or (low >= v.high and not v.endless):
        level_clear(v, st.shape, &st.pool)
        v.begun, v.low, v.high = True, low, low
        if v.endless:
            v.high = INT64_MIN
    i = find_place(&st.all, v.high)
    while i < st.all.n and st.all.bucket[i] < high:
        move_table(st, v, only, st.all.table[i], False)
        i += 1
    if not v.endless and low > v.low:
        i = find_place(&st.all, v.low)
        while i < st.all.n and st.all.bucket[i] < low:
            move_table(st, v, only, st.all.table[i], True)
            i += 1
        v.low = low
    v.high = max(v.high, high)
    return 0


cdef int move_table(State* st, Level* v, int64_t only, const Table* t, bint leaves) except -1 nogil:
    """All of a bucket enters or leaves; or what is of one group, whose place in the level is 0."""
    cdef const int64_t* record
    cdef char* entry
    cdef int64_t i
    if only >= 0:
        entry = find_partial(t, st.shape, <int32_t> only)
        if entry != NULL:
            move_partial(st, v, 0, t.bucket, entry, leaves)
    else:
        for i in range(t.n):
            entry = partial_at(t, st.shape, i)
            move_partial(st, v, code_of(entry), t.bucket, entry, leaves)
    for i in range(t.rows):
        record = record_at(t, st.shape, i)
        if only < 0:
            move_record(st, v, <int32_t> record[0], t.bucket, record, leaves)
        elif <int32_t> record[0] == only:
            move_record(st, v, 0, t.bucket, record, leaves)
    return 0


cdef inline int move_partial(State* st, Level* v, int64_t code, int64_t bucket, const char* entry,
                             bint leaves) except -1 nogil:
    if leaves:
        return level_remove(v, st.shape, code, entry, &st.pool)
    return level_add(v, st.shape, code, bucket, entry, &st.pool)


cdef int move_record(State* st, Level* v, int64_t code, int64_t bucket, const int64_t* record,
                     bint leaves) except -1 nogil:
    clear_entry(st.shape, st.scratch, <int32_t> code)
    lift_into(st.shape, st.scratch, record, &st.pool)
    move_partial(st, v, code, bucket, st.scratch, leaves)
    release_entry(st.shape, st.scratch, &st.pool)
    return 0


# ------------------------------------------------------------------------------ state

cdef int check_table(State* st, const Table* t) except -1:
    cdef int64_t i
    for i in range(t.n):
        check_entry(st.shape, &st.pool, st.codes, partial_at(t, st.shape, i))
    for i in range(t.rows):
        if not 0 <= <int32_t> record_at(t, st.shape, i)[0] < st.codes:
            raise ValueError("a row is of no group")
    return 0
