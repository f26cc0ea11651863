"""A multiset of int64 keys that may be larger than memory: which key has a rank, as keys come and go.

What is in memory: how many keys are in each of some ranges; the contents of those ranges, a few, in
which a rank was asked for; and the latest changes. All others are in a `CountLog`. A rank that is asked
for again and again moves by one a change, so it seldom leaves the ranges at hand.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove

import numpy as np

from mta.errors import DamageError

cdef enum:
    NARROWEST = 256     # keys that a range has before it is cut, as long as there is memory;
    EVENLY = 128        # and a part of all keys, so that few of the changes are of ranges at hand
    LEAST = 2
    FEW_RANGES = 64     # are not worth joining
    FEW = 2             # changes that there is room for at first


cdef class Multiset:
    """Keys, each as often as it occurs.

    log : a ``CountLog``, for what is not in memory
    memory : bytes, for changes and the contents of ranges
    fingers : ranks that are asked for at a time
    holds : ranges whose contents are at hand, at least 2 for each of them
    widest : keys that there is room for in a range, at least

    Cost: O(log ranges) a change; one in a range at hand moves a part of its keys. A rank that is near
    the last one costs O(1). A range that comes to hand is read from every run of the log. Memory:
    32 bytes a range, of which there are some sqrt(keys) at least, and `memory`.
    """

    def __cinit__(self, log, int64_t memory, int fingers, int holds, int64_t widest):
        cdef int k
        self.log = log
        self.n_fingers, self.holds = fingers, max(holds, 1)
        # A half for contents; the other for changes, and for sorting them.
        self.most = max(memory // 2 // 32, <int64_t> FEW)
        self.widest = max(memory // 2 // (16 * self.holds), max(widest, <int64_t> LEAST))
        self.held = <Contents*> calloc(self.holds, sizeof(Contents))
        self.fingers = <Finger*> calloc(fingers + 1, sizeof(Finger))
        if self.held == NULL or self.fingers == NULL:
            raise MemoryError()
        for k in range(self.holds):
            self.held[k].range = -1
        self.forget_changes()
        self.begin_ranges(np.array([INT64_MIN, 0, self.widest_now()], np.int64))

    def __dealloc__(self):
        cdef int k
        if self.held != NULL:
            for k in range(self.holds):
                free(self.held[k].keys)
                free(self.held[k].counts)
        free(self.held)
        free(self.fingers)
        free(self.ranges)

    @property
    def nbytes(self):
        """Bytes held."""
        cdef int64_t contents = 0
        cdef int k
        for k in range(self.holds):
            contents += 16 * self.held[k].room
        changes = 8 * (self.came_room + self.went_room) + 16 * len(self.settled[0])
        return self.room * <int64_t> sizeof(Range) + contents + changes + self.log.nbytes

    # ----------------------------------------------------------------------------- changes

    cdef int64_t find(self, int64_t key) noexcept nogil:
        """The range of a key."""
        cdef const Range* at = self.ranges
        cdef int64_t n = self.n, half
        while n > 1:
            half = n >> 1
            at += half if at[half].low <= key else 0
            n -= half
        return at - self.ranges

    cdef int change(self, int64_t key, int64_t by) except -1 nogil:
        """A key comes (1), or leaves (-1)."""
        cdef int64_t i = self.find(key)
        cdef int k
        self.wait_for_run(key, by)
        self.ranges[i].rows += by
        self.total += by
        for k in range(self.n_fingers):
            self.fingers[k].before += by if self.fingers[k].range > i else 0
        if self.ranges[i].held >= 0:
            self.change_held(i, key, by)
        if self.ranges[i].rows > self.ranges[i].most:
            self.split(i)
        return 0

    cdef int wait_for_run(self, int64_t key, int64_t by) except -1 nogil:
        if (self.n_came if by > 0 else self.n_went) == (self.came_room if by > 0 else self.went_room):
            with gil:
                self.have_room_for(by)
        if by > 0:
            self.came[self.n_came] = key
            self.n_came += 1
        else:
            self.went[self.n_went] = key
            self.n_went += 1
        return 0

    cdef int have_room_for(self, int64_t by) except -1:
        """Room for one change more: twice as much, as long as not too many wait. (What is outgrown stays
        as it is: `restore` may need it.)"""
        cdef int64_t[::1] view
        cdef int64_t room, n
        room = self.came_room if by > 0 else self.went_room
        if self.n_came + self.n_went >= self.most:
            self.settle()
        n = self.n_came if by > 0 else self.n_went
        room = max(max(2 * n, room), <int64_t> FEW)
        made = np.empty(room, np.int64)
        made[:n] = (self.entered if by > 0 else self.left)[:n]
        view = made
        if by > 0:
            self.entered, self.came, self.came_room = made, &view[0], room
        else:
            self.left, self.went, self.went_room = made, &view[0], room
        return 0

    cdef int settle(self) except -1:
        """Sort the changes that wait. What comes and goes cancels out; if much is left, it is a run."""
        settled = self.log.summed(self.settled, self.entered[:self.n_came], self.left[:self.n_went])
        if 2 * len(settled[0]) > self.most:
            self.log.extend(*settled)
            settled = _NOTHING
        self.forget_changes()
        self.settled = settled
        return 0

    def forget_changes(self):
        """No change waits. (The arrays stay as they are: `restore` may need them.)"""
        self.settled = _NOTHING
        self.entered = self.left = _NOTHING[0]
        self.came = self.went = NULL
        self.n_came = self.n_went = self.came_room = self.went_room = 0

    # ------------------------------------------------------------------- contents of a range

    cdef int change_held(self, int64_t i, int64_t key, int64_t by) except -1 nogil:
        cdef Contents* c = &self.held[self.ranges[i].held]
        cdef int64_t p = lower_bound(c.keys, c.n, key), moved = 0
        cdef int k
        cdef Finger* f
        if p == c.n or c.keys[p] != key:
            if by < 0:
                with gil:
                    raise ValueError(f"a key leaves that is not there: {key}")
            self.insert_key(c, p, key)
            moved = 1
        c.counts[p] += by
        if c.counts[p] == 0:
            c.n -= 1
            memmove(c.keys + p, c.keys + p + 1, (c.n - p) * sizeof(int64_t))
            memmove(c.counts + p, c.counts + p + 1, (c.n - p) * sizeof(int64_t))
            moved = -1
        for k in range(self.n_fingers):
            f = &self.fingers[k]
            if f.range == i and f.at >= 0 and (p < f.at or (p == f.at and moved > 0)):
                f.at += moved
                f.below += by
        return 0

    cdef int insert_key(self, Contents* c, int64_t p, int64_t key) except -1 nogil:
        if c.n == c.room:
            self.have_room(c, 2 * c.n + 16)
        memmove(c.keys + p + 1, c.keys + p, (c.n - p) * sizeof(int64_t))
        memmove(c.counts + p + 1, c.counts + p, (c.n - p) * sizeof(int64_t))
        c.keys[p], c.counts[p] = key, 0
        c.n += 1
        return 0

    cdef int have_room(self, Contents* c, int64_t room) except -1 nogil:
        cdef int64_t* keys
        cdef int64_t* counts
        if room <= c.room:
            return 0
        keys = <int64_t*> realloc(c.keys, room * sizeof(int64_t))
        if keys != NULL:
            c.keys = keys
            counts = <int64_t*> realloc(c.counts, room * sizeof(int64_t))
            if counts != NULL:
                c.counts, c.room = counts, room
                return 0
        with gil:
            raise MemoryError(f"a range of {room} keys")

    cdef Contents* contents(self, int64_t i) except NULL nogil:
        """Those of a range, at hand."""
        cdef Contents* c
        self.clock += 1
        if self.ranges[i].held < 0:
            c = self.spare()
            with gil:
                self.load(i, c)
        c = &self.held[self.ranges[i].held]
        c.asked = self.clock
        return c

    cdef Contents* spare(self) noexcept nogil:
        """A place for contents: of those that have not been needed for longest."""
        cdef Contents* oldest = self.held
        cdef int k
        for k in range(self.holds):
            if self.held[k].range < 0:
                return &self.held[k]
            if self.held[k].asked < oldest.asked:
                oldest = &self.held[k]
        self.let_go_of(oldest)
        return oldest

    cdef void let_go_of(self, Contents* c) noexcept nogil:
        cdef int k
        for k in range(self.n_fingers):
            if self.fingers[k].range == c.range:
                self.fingers[k].at = -1
        self.ranges[c.range].held = -1
        c.range = -1

    cdef int load(self, int64_t i, Contents* c) except -1:
        """Read a range: from the log, and from the changes that no run has."""
        cdef int64_t low = self.ranges[i].low
        cdef int64_t high = self.ranges[i + 1].low - 1 if i + 1 < self.n else INT64_MAX
        cdef const int64_t[::1] keys, counts
        came = among(self.came, self.n_came, low, high)
        went = among(self.went, self.n_went, low, high)
        found = self.log.contents(low, high, self.settled, came, went)
        keys, counts = found
        self.have_room(c, keys.shape[0] + keys.shape[0] // 4 + 16)
        if int(np.sum(found[1])) != self.ranges[i].rows:
            raise DamageError(f"{self.log.store!r}: {self.log.name!r}: other keys than were written")
        c.n = keys.shape[0]
        if c.n:
            memcpy(c.keys, &keys[0], c.n * sizeof(int64_t))
            memcpy(c.counts, &counts[0], c.n * sizeof(int64_t))
        c.range = i
        self.ranges[i].held = c - self.held
        return 0

    def rest(self):
        """Give back what can be read again."""
        cdef int k
        for k in range(self.holds):
            if self.held[k].range >= 0:
                self.let_go_of(&self.held[k])
            free(self.held[k].keys)
            free(self.held[k].counts)
            self.held[k].keys = self.held[k].counts = NULL
            self.held[k].room = 0

    # -------------------------------------------------------------------------------- ranges

    cdef int64_t widest_now(self) noexcept nogil:
        return min(max(self.total // EVENLY, <int64_t> NARROWEST), self.widest)

    cdef int split(self, int64_t i) except -1 nogil:
        """Cut a range that has too many keys in two, in the middle."""
        cdef int64_t most = self.widest_now(), rows = 0, cut = 0, k
        cdef Contents* c
        cdef Range* ranges
        self.ranges[i].most = most
        if self.ranges[i].rows <= most:
            return 0
        if self.n == self.room:
            self.join_small()
            return 0    # the next change will come here again
        c = self.contents(i)
        if c.n < 2:
            self.ranges[i].most = INT64_MAX     # as long as it is one key
            return 0
        while cut < c.n - 1 and (cut == 0 or 2 * rows < self.ranges[i].rows):
            rows += c.counts[cut]
            cut += 1
        ranges = self.ranges
        memmove(ranges + i + 2, ranges + i + 1, (self.n - i - 1) * sizeof(Range))
        self.n += 1
        for k in range(self.holds):
            if self.held[k].range > i:
                self.held[k].range += 1
        ranges[i + 1] = Range(c.keys[cut], ranges[i].rows - rows, most, -1)
        ranges[i].rows = rows
        c.n = cut
        self.lose_fingers()
        return 0

    cdef int join_small(self) except -1 nogil:
        """Make neighbours one that have few keys together; if there are still many, room for more."""
        cdef int64_t most = self.widest_now(), i, n = 0, room
        cdef Range* r = self.ranges
        cdef Range* grown
        cdef int k
        for k in range(self.holds):
            if self.held[k].range >= 0:
                self.let_go_of(&self.held[k])
        for i in range(1, self.n):
            if 2 * (r[n].rows + r[i].rows) <= most:
                r[n].rows += r[i].rows
                r[n].most = most
            else:
                n += 1
                r[n] = r[i]
        self.n = n + 1
        self.lose_fingers()
        if 2 * self.n > self.room:
            room = 2 * self.room
            grown = <Range*> realloc(r, room * sizeof(Range))
            if grown == NULL:
                with gil:
                    raise MemoryError(f"{room} ranges")
            self.ranges, self.room = grown, room
        return 0

    cdef void lose_fingers(self) noexcept nogil:
        cdef int k
        for k in range(self.n_fingers):
            self.fingers[k].range = self.fingers[k].at = -1

    # --------------------------------------------------------------------------------- ranks

    cdef int move_to(self, Finger* f, int64_t rank) except -1 nogil:
        """To the key of this rank, counted from 0, of which there has to be one."""
        cdef Contents* c
        cdef bint from_right = False
        if f.range < 0:
            f.range = f.before = 0
            f.at = -1
        while rank < f.before:
            f.range -= 1
            f.before -= self.ranges[f.range].rows
            f.at = -1
            from_right = True
        while rank >= f.before + self.ranges[f.range].rows:
            f.before += self.ranges[f.range].rows
            f.range += 1
            f.at = -1
        if f.at < 0:
            self.enter_range(f, from_right)
        c = self.contents(f.range)
        rank -= f.before
        while rank < f.below:
            f.at -= 1
            f.below -= c.counts[f.at]
        while rank >= f.below + c.counts[f.at]:
            f.below += c.counts[f.at]
            f.at += 1
        return 0

    cdef int enter_range(self, Finger* f, bint from_right) except -1 nogil:
        cdef Contents* c = self.contents(f.range)
        f.at = f.below = 0
        if from_right:
            f.at = c.n - 1
            f.below = self.ranges[f.range].rows - c.counts[f.at]
        return 0

    cdef int select(self, int finger, int64_t rank, int64_t* key, int64_t* after) except -1 nogil:
        """The key of this rank, and that of the next one, if there is one."""
        cdef Finger* f = &self.fingers[finger]
        cdef Contents* c
        cdef int64_t i
        self.move_to(f, rank)
        c = self.contents(f.range)
        key[0] = after[0] = c.keys[f.at]
        if rank + 1 < f.before + f.below + c.counts[f.at] or rank + 1 >= self.total:
            return 0
        if f.at + 1 < c.n:
            after[0] = c.keys[f.at + 1]
            return 0
        i = f.range + 1
        while self.ranges[i].rows == 0:
            i += 1
        after[0] = self.contents(i).keys[0]
        return 0

    cdef int64_t greatest(self, int64_t k, int64_t* keys) except -1 nogil:
        """The k greatest keys, or as many as there are, greatest first. Returns how many."""
        cdef int64_t i = self.n, n = 0, at, left
        cdef Contents* c
        while n < k and i > 0:
            i -= 1
            if self.ranges[i].rows == 0:
                continue
            c = self.contents(i)
            at = c.n
            while n < k and at > 0:
                at -= 1
                left = c.counts[at]
                while n < k and left > 0:
                    keys[n] = c.keys[at]
                    n += 1
                    left -= 1
        return n

    # -------------------------------------------------------------------------- save, restore

    def clear(self):
        """There are no keys any more."""
        self.log.clear()
        self.forget_changes()
        self.begin_ranges(np.array([INT64_MIN, 0, self.widest_now()], np.int64))

    cdef int begin_ranges(self, raw) except -1:
        """Ranges anew: of each its first key, its rows, and how many it may have."""
        cdef const int64_t[::1] view = raw
        cdef int64_t n = view.shape[0] // 3, i
        cdef Range* ranges = <Range*> malloc(max(2 * n, <int64_t> FEW_RANGES) * sizeof(Range))
        if ranges == NULL:
            raise MemoryError()
        if self.ranges != NULL:
            self.rest()
        free(self.ranges)
        self.ranges, self.n, self.room = ranges, n, max(2 * n, <int64_t> FEW_RANGES)
        self.total = 0
        for i in range(n):
            ranges[i] = Range(view[3 * i], view[3 * i + 1], view[3 * i + 2], -1)
            self.total += ranges[i].rows
        self.lose_fingers()
        return 0

    cdef object raw_ranges(self):
        cdef int64_t i
        made = np.empty(3 * self.n, np.int64)
        cdef int64_t[::1] view = made
        for i in range(self.n):
            view[3 * i], view[3 * i + 1] = self.ranges[i].low, self.ranges[i].rows
            view[3 * i + 2] = self.ranges[i].most
        return made

    def save(self):
        """Where it stands: for `restore`, as long as the log has not let go of anything since."""
        return (self.raw_ranges(), self.settled, self.entered, self.n_came, self.left, self.n_went,
                self.log.save())

    def restore(self, saved):
        """Stand where `save` was called."""
        cdef int64_t[::1] view
        raw, settled, entered, n_came, left, n_went, runs = saved
        self.log.restore(runs)
        self.begin_ranges(raw)
        self.settled, self.entered, self.left = settled, entered, left
        self.n_came, self.n_went = n_came, n_went
        self.came_room, self.went_room = len(entered), len(left)
        if self.came_room:
            view = entered
            self.came = &view[0]
        if self.went_room:
            view = left
            self.went = &view[0]

    def to_parts(self):
        """All that is in memory, as bytes objects: for `fill`."""
        arrays = [self.raw_ranges(), *self.settled, self.entered[:self.n_came], self.left[:self.n_went]]
        return [array.tobytes() for array in arrays] + self.log.to_parts()

    def fill(self, parts):
        """Take what `to_parts` gave.

        Raises
        ------
        ValueError
            It is damaged.
        """
        raw, keys, counts, entered, left = [np.frombuffer(part, np.int64).copy() for part in parts[:5]]
        if len(raw) % 3 or not len(raw) or len(keys) != len(counts):
            raise ValueError("ranges and changes do not fit")
        self.log.fill(*parts[5:])
        runs = self.log.save()
        self.restore((raw, (keys, counts), entered, len(entered), left, len(left), runs))


_NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64))


cdef object among(const int64_t* keys, int64_t n, int64_t low, int64_t high):
    """Those from `low` to `high`, both among them."""
    cdef int64_t i, found = 0
    for i in range(n):
        found += low <= keys[i] <= high
    made = np.empty(found, np.int64)
    cdef int64_t[::1] view = made
    found = 0
    for i in range(n):
        if low <= keys[i] <= high:
            view[found] = keys[i]
            found += 1
    return made
