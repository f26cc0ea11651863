"""Tiers: the nodes of a forest on a store. What stays in memory is O(log n).

A window needs few of its nodes: near the back, to append to; near the front, to let go of rows; and
those that a policy's search passes. So the nodes are cut into blocks:

- A *tier* is `bits` levels of the forest. Its *block* b is its lowest nodes [b 2^bits, (b+1) 2^bits)
  and the nodes of its other levels made of these, which are made anew rather than stored.
- The *tail* is the newest two blocks of every tier, rings in which `_core.pxd` appends. A block
  that has to make room for the next one goes to the store, if the window still has it.
- The *head* is the block in which the window begins and the next one, read ahead while the front is
  still a block away. Rows leave one by one for a whole block of rows without any reading.

Between two ends of a block the algorithms of the forest run as they do in memory. What they ask for
then, for any front: on each level the first node inside and the one after it (`build_suffix`,
`forest_open_front`), and the last two (`build_prefix`, `forest_append`).

The *header* is one value: the positions and the tails. It is written after the blocks that it names,
in one atomic batch; blocks that the last header names stay until there is a newer one. So a process
may die at any moment, and the window goes on from there. What it had put or not yet taken off since
then is taken off when the window opens.

Villalba, Berral, Carrera, MTA, 2018, §4.4 (key-value stores), with blocks instead of nodes.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from mta._core cimport ForestState, forest_sides, live_sides
from mta._fifo_state cimport NAMED
from mta._monoids cimport Boxed
from mta._rings cimport CHUNK_ITEMS, ring_bytes, ring_make, ring_make_chunk, ring_place, ring_release
from mta._tier_bytes cimport SIGNS, WORD, ZEROS, copy_in, first_words_in, with_first_words, with_nodes
from mta._tier_pairs cimport copy_items, empty_pair, make_pair, pair_bytes, release_pair, room

import json

from mta._block_names import BlockNames, Leaving
from mta._fifo_bytes import partials_of_bytes, partials_to_bytes
from mta.errors import SnapshotError
from mta.snapshot import refusing_damage, seal, unseal

cdef enum:
    READ_AHEAD = 4         # blocks of a tier at a time
    TAKEN_OFF = 4          # blocks, for every one that is put
    TAKEN_OFF_MOST = 1000  # in the batch of a header
    WASTED = 16            # blocks that a newer header would free, beyond as many as are in use


cdef str KIND = "window on a store"


cdef inline int64_t first_node(int64_t front, int level) noexcept nogil:
    """The first node of a level that lies inside."""
    return (front + (<int64_t> 1 << level) - 1) >> level


cdef class Tiers:
    """What a forest on a store reads and writes. Positions are those of the forest.

    Parameters
    ----------
    store : where blocks go
    name : of the window; its keys begin with it
    bits : blocks have 2^bits nodes; 2 at least
    made : what the window is, by name; a window that was made otherwise is refused
    """

    def __cinit__(self, store, str name, int bits, dict made):
        self.store, self.bits = store, bits
        self.names = BlockNames(repr(store), name, made)
        self.leaving = Leaving(self.names)
        self.ahead = getattr(store, "prefetch", None)
        self.prepared = -1

    def __dealloc__(self):
        cdef int i
        for i in range(self.n):
            release_pair(&self.tiers[i].head, self.tiers[i].levels)
            release_pair(&self.tiers[i].found, self.tiers[i].levels)
        release_pair(&self.nulls.head, 1)
        release_pair(&self.nulls.found, 1)
        if self.nulls.tail != NULL:
            ring_release(self.nulls.tail)
            free(self.nulls.tail)

    cdef int start(self, FifoState* state, const FifoOps* ops, BoxedContext boxes) except -1:
        """For this window, which is empty; its rings will not grow."""
        cdef int level
        self.state, self.ops, self.boxes = state, ops, boxes
        forest_sides(&state.forest, ops.size)
        state.forest.room = INT64_MAX
        for level in range(MAX_LEVELS):
            self.heads[level] = &state.forest.rings[level]
        state.forest.heads = self.heads
        self.nulls.levels, self.nulls.size = 1, sizeof(int64_t)
        empty_pair(&self.nulls.head)
        empty_pair(&self.nulls.found)
        return 0

    # ------------------------------------------------------------------------------- the tail

    cdef int restart(self) except -1:
        """The window is empty: positions begin again, as `forest_restart` has them."""
        cdef ForestState* f = &self.state.forest
        cdef int i
        if f.front == f.back == 0 and f.base == self.state.back:
            return 0
        for i in range(self.n):
            self.let_go(i, self.tiers[i].stored)
            begin_again(&self.tiers[i])
        self.stop_counting()
        f.base, f.front, f.back, f.split = self.state.back, 0, 0, -1
        self.point_heads()
        self.prepared = -1
        return 0

    cdef int make_room(self) except -1:
        """Before a row that begins a block: its place, and those of nodes above, must be free."""
        cdef int64_t back = self.state.forest.back, block
        cdef int i
        cdef Tier* t
        self.begin_tiers(back)
        if back == 0:
            return 0
        changes, full = {}, []
        for i in range(-1, self.n):
            t = self.tier(i)
            if i < 0 and not self.counting:
                continue
            if (back >> t.lowest) & ((<int64_t> 1 << self.bits) - 1):
                break
            block = (back >> t.lowest >> self.bits) - 2
            if block >= t.stored:
                full.append((i, block))
                if block >= self.front_block(t):
                    key = self.key(i, block)
                    changes[key] = self.encoded_block(t, block, key)
        if changes:
            self.write(changes)
        for i, block in full:
            t = self.tier(i)
            t.stored = block + 1
            if block < self.front_block(t) and t.kept == block:
                t.kept = block + 1    # it was never put
        if changes:
            self.prepared = -1
            self.prepare(self.state.forest.front)    # what it needs of these blocks is still here
        if self.counting and self.null_count == self.nulls_before(self.state.forest.front):
            self.stop_counting()
        return 0

    cdef int begin_tiers(self, int64_t back) except -1:
        """Rings for all nodes that the next block of rows completes."""
        cdef ForestState* f = &self.state.forest
        cdef int lowest = self.n * self.bits, level
        cdef Tier* t
        while lowest < MAX_LEVELS - 1 and <int64_t> 1 << lowest <= back + (<int64_t> 1 << self.bits):
            t = &self.tiers[self.n]
            memset(t, 0, sizeof(Tier))
            t.lowest, t.levels = lowest, min(self.bits, MAX_LEVELS - lowest)
            t.size = self.ops.size
            t.tail = &f.rings[lowest]
            begin_again(t)
            for level in range(t.levels):
                if t.tail[level].chunks == NULL:
                    ring_make(&t.tail[level], <int64_t> 2 << (self.bits - level), t.size)
            self.n += 1
            lowest += self.bits
        return 0

    # ------------------------------------------------------------------------------- the head

    cdef int prepare(self, int64_t front) except -1:
        """Have what is asked for while the front is in the same block of rows as this one.

        If reading fails, the window is what it was: its aggregates need no nodes, and its next step
        reads them again.
        """
        if self.prepared == front >> self.bits:
            return 0
        try:
            self.fill_heads(front)
            self.apart_from = front
            self.point_heads()
            self.read_ahead(front)
        except BaseException:
            self.forget_heads()
            raise
        self.prepared = front >> self.bits
        return 0

    cdef int forget_heads(self) except -1:
        """They may be those of a front that the window does not have."""
        cdef int i
        self.prepared = -1
        for i in range(-1, self.n):
            empty_pair(&self.tier(i).head)
        return 0

    cdef int fill_heads(self, int64_t front) except -1:
        """Take the blocks of this front, from memory or from the store."""
        cdef int i
        cdef int64_t block
        cdef Tier* t
        missing = []
        for i in range(-1, self.n):
            t = self.tier(i)
            if not self.is_apart(i, front):
                continue
            make_pair(&t.head, t.levels, self.bits, t.size)
            first = first_node(front, t.lowest) >> self.bits
            for block in range(first, first + 2):
                if t.head.held[block & 1] != block and not self.copied(t, i, block, front):
                    missing.append((i, block))
        if missing:
            keys = [self.key(i, block) for i, block in missing]
            for (i, block), key, stored in zip(missing, keys, self.read(keys)):
                t = self.tier(i)
                self.decode(t, &t.head, block, key, stored, front)
        return 0

    cdef bint is_apart(self, int i, int64_t front) noexcept:
        """Whether the first node of a tier is no longer in its tail."""
        cdef Tier* t = self.tier(i)
        cdef int64_t first = first_node(front, t.lowest)
        if i < 0 and not self.counting:
            return False
        return first < self.state.forest.back >> t.lowest and first >> self.bits < t.stored

    cdef void point_heads(self) noexcept:
        """Where the forest finds a level's oldest nodes."""
        cdef ForestState* f = &self.state.forest
        cdef int i, level
        cdef Tier* t
        for i in range(self.n):
            t = &self.tiers[i]
            apart = f.front < f.back and self.is_apart(i, self.apart_from)
            for level in range(t.levels):
                self.heads[t.lowest + level] = &t.head.rings[level] if apart else &t.tail[level]

    cdef bint copied(self, Tier* t, int i, int64_t block, int64_t front) except -1:
        """Take a block into the head from where it is in memory already, if it is."""
        cdef Ring* source
        if i < 0 and block < self.nulls_from:
            self.place_zeros(&t.head, block)
            return True
        if block >= self.oldest_in_tail(t):
            source = t.tail
        elif t.found.held[block & 1] == block:
            source = t.found.rings
        else:
            return False
        cdef int64_t start = block << self.bits, stop = (block + 1) << self.bits
        t.head.held[block & 1] = -1
        copy_items(source, &t.head.rings[0], max(start, first_node(front, t.lowest)), stop, t.size)
        self.build(t, &t.head, block, front)
        return True

    cdef int64_t oldest_in_tail(self, Tier* t) noexcept:
        """The first block that is there: one that is stored is, until the next one writes over it."""
        cdef int64_t newest = ((self.state.forest.back >> t.lowest) - 1) >> self.bits
        return max(newest - 1, t.taken)

    cdef int build(self, Tier* t, Pair* pair, int64_t block, int64_t front) except -1:
        """The upper nodes of a block whose lowest are there."""
        cdef int64_t start = block << self.bits
        if t.levels > 1:
            self.ops.build(self.state, pair.rings, t.levels, max(start, first_node(front, t.lowest)),
                           start + (<int64_t> 1 << self.bits), NULL, NULL)
        pair.held[block & 1] = block
        return 0

    cdef int read_ahead(self, int64_t front) except -1:
        """Tell the store which blocks will be needed when the front is in the next ones."""
        cdef int i
        cdef int64_t block, first
        cdef Tier* t
        if self.ahead is None:
            return 0
        keys = []
        for i in range(-1, self.n):
            t = self.tier(i)
            if not self.is_apart(i, front):
                continue
            # Several at once, when the last but one has its turn: threads are woken less often.
            first = (first_node(front, t.lowest) >> self.bits) + 2
            if t.asked > first:
                continue
            first = max(first, t.asked + 1, self.nulls_from if i < 0 else 0)
            for block in range(first, min(first + READ_AHEAD, t.stored)):
                t.asked = block
                keys.append(self.key(i, block))
        if keys:
            self.ahead(keys)
        return 0

    # ------------------------------------------------------------------------- what is asked for

    cdef void* node(self, int level, int64_t index) except NULL:
        """A node inside, wherever it is: for a search, which reads a block a tier or two."""
        cdef int i = level // self.bits
        cdef int within = level - i * self.bits
        cdef Tier* t = self.tier(i)
        cdef int64_t block = (index << within) >> self.bits
        return ring_place(&self.having(i, block)[within], index, t.size)

    cdef Ring* having(self, int i, int64_t block) except NULL:
        """The rings in which a block of a tier is."""
        cdef Tier* t = self.tier(i)
        if block >= t.stored:
            return t.tail
        if t.head.held[block & 1] == block:
            return t.head.rings
        if t.found.held[block & 1] != block:
            make_pair(&t.found, t.levels, self.bits, t.size)
            if i < 0 and block < self.nulls_from:
                self.place_zeros(&t.found, block)
            else:
                key = self.key(i, block)
                self.decode(t, &t.found, block, key, self.read([key])[0], self.state.forest.front)
        return t.found.rings

    # ------------------------------------------------------------------------------- the nulls

    cdef int count_null(self) except -1:
        """The next row is null: from now on nulls are counted, until none is inside."""
        cdef Tier* t = &self.nulls
        cdef int64_t i, chunk
        if t.tail == NULL:
            t.tail = <Ring*> calloc(1, sizeof(Ring))
            if t.tail == NULL:
                raise MemoryError()
            ring_make(t.tail, <int64_t> 2 << self.bits, t.size)
            for chunk in range((t.tail.places + CHUNK_ITEMS - 1) // CHUNK_ITEMS):
                ring_make_chunk(t.tail, chunk, t.size)
        for i in range(t.tail.places):
            (<int64_t*> ring_place(t.tail, i, t.size))[0] = 0
        begin_again(t)
        t.stored = t.kept = self.nulls_from = self.tiers[0].stored if self.n else 0
        self.counting = True
        self.null_count = 0
        self.prepared = -1
        return 0

    cdef void note(self, int64_t position, bint null) noexcept nogil:
        """A row has come in."""
        (<int64_t*> ring_place(self.nulls.tail, position, sizeof(int64_t)))[0] = self.null_count
        self.null_count += null

    cdef int64_t nulls_at(self, int64_t position) noexcept nogil:
        """`nulls_before` where the row is near the front or the back."""
        cdef int64_t block = position >> self.bits
        cdef Ring* ring = self.nulls.tail
        if position == self.state.forest.back:
            return self.null_count
        if block < self.nulls.stored:
            ring = self.nulls.head.rings
        return (<int64_t*> ring_place(ring, position, sizeof(int64_t)))[0]

    cdef int64_t nulls_before(self, int64_t position) except -1:
        """How many of the rows before this one are null, since they are counted."""
        if not self.counting:
            return 0
        if position == self.state.forest.back:
            return self.null_count
        cdef Ring* ring = self.having(-1, position >> self.bits)
        return (<int64_t*> ring_place(ring, position, sizeof(int64_t)))[0]

    cdef int stop_counting(self) except -1:
        if self.counting:
            self.let_go(-1, self.nulls.stored)
        self.counting = False
        return 0

    # ------------------------------------------------------------------------ blocks as bytes

    cdef bytes encoded_block(self, Tier* t, int64_t block, bytes key):
        """What the store holds of a block: its lowest nodes, and whose they are."""
        return self.encoded(t, block << self.bits, (block + 1) << self.bits, self.names.mark(key))

    cdef bytes encoded(self, Tier* t, int64_t start, int64_t stop, bytes end):
        """The lowest nodes [start, stop), which are in the tail; zeros for what has left."""
        cdef int64_t first = min(max(start, first_node(self.state.forest.front, t.lowest)), stop), i
        cdef bytes made
        if self.boxes is not None and t != &self.nulls:
            found = [<object> (<Boxed*> ring_place(t.tail, i, t.size)).value for i in range(first, stop)]
            return partials_to_bytes([self.boxes.zero] * (first - start) + found, self.boxes.zero) + end
        made = with_first_words(t.tail, start, first, stop, end) if t.size == 2 * WORD and start < stop else None
        return with_nodes(t.tail, start, first, stop, t.size, end) if made is None else made

    cdef int decode(self, Tier* t, Pair* pair, int64_t block, bytes key, bytes stored,
                    int64_t front) except -1:
        """A block as it was stored, and its upper nodes."""
        cdef Py_ssize_t size = len(stored) - <Py_ssize_t> self.names.mark_bytes
        pair.held[block & 1] = -1
        if size < 0 or stored[size:] != self.names.mark(key):
            raise self.names.not_ours(key)
        self.place(t, pair.rings, block << self.bits, (block + 1) << self.bits, stored, size, key)
        return self.build(t, pair, block, front)

    cdef int place_zeros(self, Pair* pair, int64_t block) except -1:
        """A block of the nulls from before they were counted."""
        cdef int64_t i
        for i in range(block << self.bits, (block + 1) << self.bits):
            room(&pair.rings[0], i, sizeof(int64_t))
            (<int64_t*> ring_place(&pair.rings[0], i, sizeof(int64_t)))[0] = 0
        pair.held[block & 1] = block
        return 0

    cdef int place(self, Tier* t, Ring* ring, int64_t start, int64_t stop, bytes stored,
                   Py_ssize_t size, bytes key) except -1:
        """Put the lowest nodes [start, stop) into a ring; `size` is of their bytes."""
        cdef const char* source = stored
        cdef int64_t i
        if self.boxes is not None and t != &self.nulls:
            found = partials_of_bytes(stored[:size], self.boxes.zero)
            if len(found) != stop - start:
                raise self.names.wrong_length(key, len(found), stop - start, "partials")
            self.boxes.keep += found    # alive from here on
            for i in range(start, stop):
                room(ring, i, t.size)
                (<Boxed*> ring_place(ring, i, t.size)).value = <void*> found[i - start]
            return 0
        if t.size == 2 * WORD and size == (stop - start) * WORD + 1 and source[size - 1] in (SIGNS, ZEROS):
            return first_words_in(ring, start, stop, source, source[size - 1])
        if size != (stop - start) * <Py_ssize_t> t.size:
            raise self.names.wrong_length(key, size, (stop - start) * t.size, "bytes")
        return copy_in(ring, start, stop, source, t.size)

    # ------------------------------------------------------------------------------ the store

    cdef Tier* tier(self, int i) noexcept:
        return &self.tiers[i] if i >= 0 else &self.nulls

    cdef int64_t front_block(self, Tier* t) noexcept:
        """In which block of a tier the window begins."""
        return first_node(self.state.forest.front, t.lowest) >> self.bits

    cdef bytes key(self, int i, int64_t block):
        return self.names.block(self.state.forest.base, i, block)

    cdef list read(self, list keys):
        found = self.store.get_many(keys)
        self.reads += len(keys)
        for key, stored in zip(keys, found):
            if stored is None:
                raise self.names.missing(key)
        return found

    cdef int write(self, dict changes) except -1:
        """Put blocks, take some off that nobody needs, and let a newer header free others."""
        cdef Tier* t = &self.tiers[0]
        cdef int64_t unused = self.leaving.waiting + self.front_block(t) - t.kept
        puts = len(changes)
        self.store.write({**changes, **self.leaving.keys(self.leaving.free, TAKEN_OFF * puts)})
        self.writes += puts
        self.leaving.taken(TAKEN_OFF * puts)
        if unused > WASTED + t.stored - self.front_block(t):
            self.write_header()
        return 0

    cdef int let_go(self, int i, int64_t stop) except -1:
        """Blocks of a tier before `stop` that may be taken off the store when a header is written."""
        cdef Tier* t = self.tier(i)
        if t.kept < stop:
            self.leaving.add(self.state.forest.base, i, t.kept, stop)
            t.kept = stop
        return 0

    cdef int write_header(self) except -1:
        """What the window is now, in one batch with what it no longer needs."""
        cdef int i
        cdef Tier* t
        for i in range(-1 if self.counting else 0, self.n):
            t = self.tier(i)
            self.let_go(i, min(self.front_block(t), t.stored))
        freed = self.leaving.after_header()
        header = seal(KIND, "", self.header())
        self.store.write({self.names.header: header, **self.leaving.keys(freed, TAKEN_OFF_MOST)})
        self.leaving.header_written()
        self.leaving.taken(TAKEN_OFF_MOST)
        return 0

    cdef list header(self):
        cdef FifoState* s = self.state
        cdef int i
        cdef Tier* t
        tails = []
        for i in range(-1 if self.counting else 0, self.n):
            t = self.tier(i)
            tails.append(self.encoded(t, t.stored << self.bits, s.forest.back >> t.lowest, b""))
        positions = {
            "made": self.names.made,
            "front": s.front, "back": s.back, "base": s.forest.base,
            "tiers": [[self.tiers[i].stored, self.tiers[i].kept] for i in range(self.n)],
            "nulls": ([self.nulls.stored, self.nulls.kept, self.nulls_from, self.null_count]
                      if self.counting else None),
        }
        return [json.dumps(positions).encode(), *tails]

    cdef int64_t nbytes(self):
        """Bytes of the heads and of what searches have read; the tails belong to the forest."""
        cdef int64_t bytes = 0
        cdef int i
        cdef Tier* t
        for i in range(-1, self.n):
            t = self.tier(i)
            bytes += pair_bytes(&t.head, t.levels, t.size) + pair_bytes(&t.found, t.levels, t.size)
        return bytes + (ring_bytes(self.nulls.tail, self.nulls.size) if self.nulls.tail != NULL else 0)

    def open(self):
        """Go on from the header, if there is one; whether there is.

        Raises
        ------
        SnapshotError
            It is damaged, or that of another window.
        DamageError
            A block that it names is missing.
        """
        stored = self.store.get(self.names.header)
        if stored is not None:
            try:
                with refusing_damage():
                    self.take(unseal(KIND, "", stored))
            except SnapshotError as error:
                raise SnapshotError(f"{self.store!r}: the window {self.names.name!r}: {error}") from None
        self.take_off_strays()
        return stored is not None

    cdef int take_off_strays(self) except -1:
        """Blocks that a process has put, or has not taken off yet, since it wrote the header."""
        cdef int i
        cdef int64_t block
        cdef Tier* t
        strays = self.names.blocks(self.store.keys(f"{self.names.name}/".encode()))
        for i in range(-1 if self.counting else 0, self.n):
            t = self.tier(i)
            for block in range(t.kept, t.stored):
                key = self.key(i, block)
                if key not in strays and block >= self.front_block(t):
                    raise self.names.missing(key)
                strays.discard(key)
        if strays:
            self.store.delete_many(sorted(strays))
        return 0

    cdef int take(self, list parts) except -1:
        cdef FifoState* s = self.state
        cdef ForestState* f = &s.forest
        cdef int i
        cdef Tier* t
        cdef int64_t n, first
        told = json.loads(parts[0])
        self.names.check_made(told["made"])
        front, back, base = told["front"], told["back"], told["base"]
        if not 0 <= base <= front <= back or len(parts) != 1 + len(told["tiers"]) + (told["nulls"] is not None):
            raise SnapshotError("snapshot: damaged (the positions do not fit)")
        s.front, s.back = front, back
        f.base, f.front, f.back, f.split = base, front - base, back - base, -1
        begun = len(told["tiers"])
        if f.back and not f.back >> self.bits < <int64_t> 1 << (begun - 1) * self.bits:
            raise SnapshotError("snapshot: damaged (the tiers do not fit)")
        while self.n < begun:
            self.begin_tiers(<int64_t> 1 << self.n * self.bits)
        if told["nulls"] is not None:
            self.count_null()
            self.nulls.stored, self.nulls.kept, self.nulls_from, self.null_count = told["nulls"]
        for i in range(-1 if self.counting else 0, len(told["tiers"])):
            t = self.tier(i)
            if i >= 0:
                t.stored, t.kept = told["tiers"][i]
            n = f.back >> t.lowest
            if not (0 <= t.kept and 0 <= n - (t.stored << self.bits) <= <int64_t> 2 << self.bits):
                raise SnapshotError("snapshot: damaged (a tail does not fit)")
            t.taken = t.stored
            tail = parts[i + 1 + self.counting]
            self.place(t, t.tail, t.stored << self.bits, n, tail, len(tail), self.names.header)
            first = max(t.stored << self.bits, first_node(f.front, t.lowest))
            if t.levels > 1 and first < n:
                self.ops.build(s, t.tail, t.levels, first, n, NULL, NULL)
        return 0

    cdef list live(self):
        """The Python values that the window points to."""
        cdef FifoState* s = self.state
        cdef int i, level
        cdef int64_t block, oldest, j
        cdef Tier* t
        live = [<object> (<Boxed*> s.named)[i].value for i in range(NAMED)] + live_sides(&s.forest)
        for i in range(self.n):
            t = &self.tiers[i]
            empty_pair(&t.found)    # read again if need be
            oldest = self.oldest_in_tail(t)
            for level in range(t.levels):
                start = max(first_node(s.forest.front, t.lowest + level), (oldest << self.bits) >> level)
                for j in range(start, s.forest.back >> (t.lowest + level)):
                    live.append(<object> (<Boxed*> ring_place(&t.tail[level], j, t.size)).value)
                for block in t.head.held:
                    start = max(first_node(s.forest.front, t.lowest + level), (block << self.bits) >> level)
                    for j in range(start, ((block + 1) << self.bits) >> level if block >= 0 else start):
                        live.append(<object> (<Boxed*> ring_place(&t.head.rings[level], j, t.size)).value)
        return live


cdef void begin_again(Tier* t) noexcept:
    t.stored = t.kept = t.taken = 0
    t.asked = -1
    empty_pair(&t.head)
    empty_pair(&t.found)
