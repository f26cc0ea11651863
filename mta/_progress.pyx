"""How far time has come, row by row, over any number of sources."""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

import numpy as np

cdef int64_t UNKNOWN = INT64_MIN    # a mark of which nothing is known; as a watermark: there is none


cdef struct Source:
    # Which of the times are known is told by the flags below.
    int64_t newest
    int64_t promised
    int64_t ahead      # a time too far ahead to be believed at once
    int64_t heard      # the newest time of all when it was heard of last
    int64_t rows
    int known


cdef enum:
    NEWEST = 1
    PROMISED = 2
    AHEAD = 4
    HEARD = 8
    IDLE = 16
    COMING = 32        # of these rows one will be its first


cdef struct State:
    # The lengths in ticks; negative: there is none.
    int64_t delay
    int64_t idle_after
    int64_t max_ahead
    bint latest        # the watermark is the greatest mark of all, not the least
    Source* source
    int64_t n
    int64_t room       # a power of two
    # The least mark of the active sources in every subtree of a heap; its leaves are the sources.
    int64_t* least
    int64_t heard      # no active source was heard of before this
    int64_t newest     # of all
    bint seen          # whether there is one
    int64_t now


cdef class Marks:
    """The marks of sources and their watermark. Sources are numbers, from 0.

    delay, idle_after, max_ahead : in ticks, None: there is none
    latest : the watermark is that of the source that is furthest, not of the last one

    A row costs O(log sources), and O(sources) where a source falls silent. Memory: 64 bytes a source.
    What the words mean: `mta.progress`; thesis on window-ids, chapters 3 and 6.
    """

    cdef State state

    def __cinit__(self, delay=None, idle_after=None, max_ahead=None, bint latest=False):
        cdef State* st = &self.state
        st.delay, st.idle_after, st.max_ahead = length(delay), length(idle_after), length(max_ahead)
        st.latest, st.now, st.heard = latest, UNKNOWN, INT64_MAX

    def __dealloc__(self):
        free(self.state.source)
        free(self.state.least)

    def __len__(self):
        return self.state.n

    def add(self, bint coming=False):
        """One more source. Its number.

        coming : it holds nothing back before its first row; else it holds the watermark back until then
        """
        cdef State* st = &self.state
        if st.n == st.room:
            reserve(st, max(2 * st.room, <int64_t> 4))
        memset(&st.source[st.n], 0, sizeof(Source))
        st.source[st.n].known = COMING if coming else 0
        st.n += 1
        set_mark(st, st.n - 1)
        return st.n - 1

    def see(self, const int64_t[::1] ts, const int64_t[::1] sources):
        """Rows have come: the watermark before and after each.

        sources : a number for every row, -1: of none, which tells nothing; None: all are of source 0
        """
        cdef State* st = &self.state
        cdef int64_t i, n = ts.shape[0], source = 0
        before, after = np.empty(n, np.int64), np.empty(n, np.int64)
        cdef int64_t[::1] was = before, then = after
        if sources is not None and sources.shape[0] != n:
            raise ValueError("one source per row")
        with nogil:
            for i in range(n):
                was[i] = st.now
                if sources is not None:
                    source = sources[i]
                if source >= st.n:
                    with gil:
                        raise ValueError("no such source")
                if source >= 0:
                    see_row(st, source, ts[i])
                then[i] = st.now
        return before, after

    def promise(self, int64_t source, int64_t to, bint by_itself=True):
        """No more rows of a source before this time. `settle` works out what follows.

        by_itself : whether it is news from the source, which then is silent no more
        """
        cdef Source* s = self.at(source)
        s.promised = max(s.promised, to) if s.known & PROMISED else to
        s.known = (s.known | PROMISED) & ~(IDLE | COMING if by_itself else COMING)
        set_mark(&self.state, source)
        if s.known & HEARD:
            self.state.heard = min(self.state.heard, s.heard)

    def silence(self, int64_t source):
        """A source is silent: it holds nothing back until its next row or promise."""
        self.at(source).known |= IDLE
        set_mark(&self.state, source)

    def settle(self):
        """Work the watermark out anew."""
        cdef State* st = &self.state
        cdef int64_t i, mark, most = UNKNOWN
        cdef bint active = False
        find_silent(st)
        for i in range(st.n):
            active = active or not st.source[i].known & (IDLE | COMING)
        if active and not st.latest:
            st.now = max(st.now, st.least[1])
            return
        for i in range(st.n):
            if not (active and st.source[i].known & IDLE):
                most = max(most, mark_of(st, &st.source[i]))
        st.now = max(st.now, most)

    @property
    def now(self):
        """The watermark; None: there is none yet."""
        return None if self.state.now == UNKNOWN else self.state.now

    @property
    def newest(self):
        """The newest time of all; None: there is none."""
        return self.state.newest if self.state.seen else None

    def get(self, int64_t source):
        """(newest, promised, ahead, heard_at, idle, rows) of a source, None where not known."""
        cdef Source* s = self.at(source)
        times = (s.newest, s.promised, s.ahead, s.heard)
        known = [t if s.known >> k & 1 else None for k, t in enumerate(times)]
        return (*known, bool(s.known & IDLE), s.rows)

    def put(self, int64_t source, tuple told):
        """Take what `get` gave."""
        cdef Source* s = self.at(source)
        cdef int known = 0
        newest, promised, ahead, heard, idle, rows = told
        for k, time in enumerate(told[:4]):
            known |= (time is not None) << k
        s.newest, s.promised, s.ahead, s.heard = newest or 0, promised or 0, ahead or 0, heard or 0
        s.rows, s.known = rows, known | (IDLE if idle else 0)
        set_mark(&self.state, source)
        if known & HEARD and not idle:
            self.state.heard = min(self.state.heard, s.heard)
        if known & NEWEST:
            see_newest(&self.state, s.newest)

    def resume(self, now):
        """Go on with this watermark."""
        self.state.now = UNKNOWN if now is None else now

    def copy(self):
        """The same, as it is now."""
        cdef Marks made = Marks()
        cdef State* to = &made.state
        cdef State* st = &self.state
        if st.room:
            reserve(to, st.room)
            memcpy(to.source, st.source, st.n * sizeof(Source))
            memcpy(to.least, st.least, 2 * st.room * sizeof(int64_t))
        to.delay, to.idle_after, to.max_ahead, to.latest = (
            st.delay, st.idle_after, st.max_ahead, st.latest)
        to.n, to.heard, to.newest, to.seen, to.now = st.n, st.heard, st.newest, st.seen, st.now
        return made

    cdef Source* at(self, int64_t source) except NULL:
        if not 0 <= source < self.state.n:
            raise ValueError("no such source")
        return &self.state.source[source]


cdef int64_t length(ticks) except? -2:
    return -1 if ticks is None else min(ticks, INT64_MAX)


cdef int reserve(State* st, int64_t room) except -1:
    cdef int64_t i
    cdef void* grown = realloc(st.source, room * sizeof(Source))
    if grown != NULL:
        st.source = <Source*> grown
        grown = realloc(st.least, 2 * room * sizeof(int64_t))
    if grown == NULL:
        raise MemoryError(f"{room} sources")
    st.least, st.room = <int64_t*> grown, room
    for i in range(2 * room):
        st.least[i] = INT64_MAX
    for i in range(st.n):
        set_mark(st, i)
    return 0


# -------------------------------------------------------------------------------- marks

cdef inline int64_t later(int64_t time, int64_t by) noexcept nogil:
    """time + by, by >= 0, as far as 64 bits go."""
    return time + by if time <= INT64_MAX - by else INT64_MAX


cdef inline int64_t mark_of(const State* st, const Source* s) noexcept nogil:
    """A source's own watermark."""
    cdef int64_t told = UNKNOWN
    if s.known & NEWEST and st.delay >= 0:
        told = s.newest - st.delay if s.newest >= INT64_MIN + st.delay else INT64_MIN
    return max(told, s.promised) if s.known & PROMISED else told


cdef inline void set_mark(State* st, int64_t source) noexcept nogil:
    """Bring the heap up to date; a source that is idle holds nothing back."""
    cdef const Source* s = &st.source[source]
    cdef int64_t i = st.room + source, least
    if st.latest:
        return
    least = INT64_MAX if s.known & (IDLE | COMING) else mark_of(st, s)
    while i and st.least[i] != least:
        st.least[i] = least
        if i > 1:
            least = min(least, st.least[i ^ 1])
        i >>= 1


cdef inline void see_newest(State* st, int64_t newest) noexcept nogil:
    st.newest = max(st.newest, newest) if st.seen else newest
    st.seen = True


cdef inline void see_row(State* st, int64_t source, int64_t t) noexcept nogil:
    cdef Source* s = &st.source[source]
    cdef bint was_idle = s.known & IDLE
    cdef int64_t newest = s.newest
    s.known &= ~(IDLE | COMING)
    s.rows += 1
    believe(s, t, st.max_ahead)
    see_newest(st, s.newest)
    s.heard = st.newest
    s.known |= HEARD
    st.heard = min(st.heard, s.heard)
    if was_idle or s.newest != newest or s.rows == 1:
        set_mark(st, source)
    if st.idle_after >= 0 and st.newest > later(st.heard, st.idle_after):
        find_silent(st)
    st.now = max(st.now, mark_of(st, s) if st.latest else st.least[1])


cdef inline void believe(Source* s, int64_t t, int64_t max_ahead) noexcept nogil:
    """One row from the future is not believed; a second one near it is."""
    cdef int64_t first
    cdef bint had
    if not s.known & NEWEST:
        s.newest = t
        s.known |= NEWEST
        return
    if max_ahead >= 0:
        if t > later(s.newest, max_ahead):
            had, first = s.known & AHEAD, s.ahead
            s.ahead = t
            s.known |= AHEAD
            if not had or max(t, first) > later(min(t, first), max_ahead):
                return
            t = min(t, first)
        elif t > s.newest:
            s.known &= ~AHEAD
    s.newest = max(s.newest, t)


cdef void find_silent(State* st) noexcept nogil:
    """Sources that have not been heard of while time went on are idle."""
    cdef int64_t i
    cdef Source* s
    if st.idle_after < 0 or not st.seen:
        return
    st.heard = INT64_MAX
    for i in range(st.n):
        s = &st.source[i]
        if s.known & IDLE or not s.known & HEARD:
            continue
        if st.newest > later(s.heard, st.idle_after):
            s.known |= IDLE
            set_mark(st, i)
        else:
            st.heard = min(st.heard, s.heard)
