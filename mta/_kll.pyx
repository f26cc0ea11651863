"""The KLL quantiles sketch with coins that can be tossed again.

Karnin, Lang, Liberty: Optimal Quantile Approximation in Streams (FOCS 2016), with the level sizes,
the lazy compaction and the serialized form of Apache DataSketches, whose sketches it reads and
whose libraries (Java: Spark; C++: Python's ``datasketches``) read its own.

Those libraries toss the coin that decides which half of a level survives with a generator seeded
from the clock, which nothing can set: the same rows give another sketch each time. Here a sketch
carries its own generator. It is a function of the seed and of what was done to it, and so, in a
window, of the rows alone.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport ceil, fabs, isnan, rint
from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from mta._monoids cimport Cell, float_key, float_of_key

# The bytes: a preamble of 8, or of 20 and one int32 a level where there is more than one item.
cdef enum:
    FAMILY = 15
    SHORT = 2                   # ints of the preamble
    FULL = 5
    EMPTY_FLAG = 1
    SORTED_FLAG = 2
    SINGLE_FLAG = 4
    MIN_K = 8
    MAX_K = 65535

cdef enum Kind:
    FLOATS
    INTS
    UINTS

KINDS = {"float": FLOATS, "int": INTS, "uint": UINTS}


# ------------------------------------------------------------------- levels and their sizes

cdef uint32_t level_capacity(uint32_t k, int num_levels, int level) noexcept nogil:
    """Items of a level beyond which it is compacted: k (2/3)^depth, rounded, depth 0 at the top."""
    cdef int depth = num_levels - level - 1, rest = 0
    cdef uint64_t size
    if depth > 30:      # in two steps, as 2^depth k would not fit
        rest = depth - depth // 2
        depth = depth // 2
    size = shrunk(k, depth)
    if rest:
        size = shrunk(size, rest)
    return <uint32_t> max(size, <uint64_t> MIN_WIDTH)


cdef inline uint64_t shrunk(uint64_t k, int depth) noexcept nogil:
    cdef uint64_t power = 1
    cdef int i
    for i in range(depth):
        power *= 3
    return (((k << 1 << depth) // power) + 1) >> 1


cdef uint32_t total_capacity(uint32_t k, int num_levels) noexcept nogil:
    cdef uint32_t total = 0
    cdef int level
    for level in range(num_levels):
        total += level_capacity(k, num_levels, level)
    return total


cdef inline uint32_t retained(const KllState* s) noexcept nogil:
    return s.levels[s.num_levels] - s.levels[0]


cdef inline bint toss(KllState* s) noexcept nogil:
    """The next random bit (SplitMix64: Steele, Lea, Flood, OOPSLA 2014)."""
    cdef uint64_t z
    s.coin += <uint64_t> 0x9E3779B97F4A7C15
    z = mixed(s.coin)
    return z >> 63


cdef inline uint64_t mixed(uint64_t z) noexcept nogil:
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return z ^ (z >> 31)


cdef int kll_init(KllState* s, uint32_t k, uint64_t seed) noexcept nogil:
    memset(s, 0, sizeof(KllState))
    s.k = s.min_k = k
    s.coin = mixed(seed)
    s.num_levels = 1
    s.levels[0] = s.levels[1] = level_capacity(k, 1, 0)
    s.items = <int64_t*> malloc(s.levels[1] * sizeof(int64_t))
    return 0 if s.items != NULL else -1


# --------------------------------------------------------------------------------- one row

cdef inline int kll_push(KllState* s, int64_t key) noexcept nogil:
    """One more item. O(1) moves amortised, of which each level but the lowest takes half."""
    if s.levels[0] == 0 and make_room(s) < 0:
        return -1
    if s.n == 0:
        s.least = s.greatest = key
    s.least = min(s.least, key)
    s.greatest = max(s.greatest, key)
    s.n += 1
    s.levels[0] -= 1
    s.items[s.levels[0]] = key
    s.sorted_below = False
    return 0


cdef int make_room(KllState* s) noexcept nogil:
    """Compact the lowest level that is full; what lies below moves up into the room it left."""
    cdef int level = 0, below
    cdef uint32_t begin, half, odd, moved
    while s.levels[level + 1] - s.levels[level] < level_capacity(s.k, s.num_levels, level):
        level += 1
    if level == s.num_levels - 1 and add_level(s) < 0:
        return -1
    begin = s.levels[level]
    odd = (s.levels[level + 1] - begin) & 1
    half = compact(s, s.items, begin, s.levels[level + 1], s.levels[level + 2], level == 0)
    s.levels[level + 1] -= half
    moved = begin + odd - s.levels[0]
    memmove(s.items + s.levels[0] + half, s.items + s.levels[0], moved * sizeof(int64_t))
    for below in range(level + 1):
        s.levels[below] += half
    return 0


cdef int add_level(KllState* s) noexcept nogil:
    """An empty level on top of a sketch that is full. The room that is added lies below."""
    cdef uint32_t used = s.levels[s.num_levels]
    cdef uint32_t more = level_capacity(s.k, s.num_levels + 1, 0)
    cdef int64_t* items = <int64_t*> malloc((used + more) * sizeof(int64_t))
    cdef int level
    if items == NULL:
        return -1
    memcpy(items + more, s.items, used * sizeof(int64_t))
    free(s.items)
    s.items = items
    s.num_levels += 1
    for level in range(s.num_levels):
        s.levels[level] += more
    s.levels[s.num_levels] = used + more
    return 0


cdef uint32_t compact(KllState* s, int64_t* items, uint32_t begin, uint32_t end, uint32_t end_above,
                      bint sort) noexcept nogil:
    """Every other item of the level [begin, end) joins the one above, [end, end_above).

    Of an odd number the first stays where it is. The level above begins half the number of items
    earlier than it did. Returns that half.
    """
    cdef uint32_t first = begin + ((end - begin) & 1)
    cdef uint32_t half = (end - first) // 2
    cdef int64_t pick = toss(s), i
    if sort and not s.sorted_below:
        sort_keys(items + first, end - first)
    if end_above == end:
        for i in range(<int64_t> half - 1, -1, -1):
            items[first + half + i] = items[first + 2 * i + pick]
    else:
        for i in range(half):
            items[first + i] = items[first + 2 * i + pick]
        merge_runs(items + first, half, items + end, end_above - end, items + first + half)
    return half


cdef inline void merge_runs(const int64_t* a, uint32_t size_a, const int64_t* b, uint32_t size_b,
                            int64_t* out) noexcept nogil:
    """Two sorted runs as one. `out` may end where `b` does, if it begins behind `a`."""
    cdef uint32_t i = 0, j = 0
    while i < size_a and j < size_b:
        if b[j] < a[i]:
            out[i + j] = b[j]
            j += 1
        else:
            out[i + j] = a[i]
            i += 1
    if i < size_a:
        memmove(out + i + j, a + i, (size_a - i) * sizeof(int64_t))
    elif out + i + j != b + j:
        memmove(out + i + j, b + j, (size_b - j) * sizeof(int64_t))


cdef void sort_keys(int64_t* x, uint32_t n) noexcept nogil:
    """Shell's sort: in place, and for some hundred keys as fast as any."""
    cdef uint32_t gap = 1, i, j
    cdef int64_t key
    while gap < n // 2:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            key = x[i]
            j = i
            while j >= gap and x[j - gap] > key:
                x[j] = x[j - gap]
                j -= gap
            x[j] = key
        gap //= 3


# --------------------------------------------------------------------------------- combine

cdef int kll_merge(KllState* s, const KllState* other) noexcept nogil:
    """`s` becomes the sketch of both. O(k) moves; the coins go on from both sequences."""
    cdef uint64_t n = s.n + other.n
    cdef int64_t least, greatest
    cdef uint32_t i
    if other.n == 0:
        return 0
    least = min(s.least, other.least) if s.n else other.least
    greatest = max(s.greatest, other.greatest) if s.n else other.greatest
    s.coin = mixed(s.coin + mixed(other.coin))
    for i in range(other.levels[0], other.levels[1]):
        if kll_push(s, other.items[i]) < 0:
            return -1
    if other.num_levels > 1:
        if merge_levels(s, other) < 0:
            return -1
        s.min_k = min(s.min_k, other.min_k)
    s.n = n
    s.least = least
    s.greatest = greatest
    return 0


cdef int merge_levels(KllState* s, const KllState* other) noexcept nogil:
    """All levels of `other` but the lowest, level by level into one buffer, which is then cut down."""
    cdef uint32_t[MAX_LEVELS + 2] levels
    cdef uint32_t[MAX_LEVELS + 2] kept
    cdef uint32_t size = retained(s) + other.levels[other.num_levels] - other.levels[1]
    cdef int num_levels = max(s.num_levels, other.num_levels)
    cdef int level
    cdef int64_t* work = <int64_t*> malloc((size + 1) * sizeof(int64_t))
    if work == NULL:
        return -1
    levels[0] = 0
    levels[1] = s.levels[1] - s.levels[0]
    memcpy(work, s.items + s.levels[0], levels[1] * sizeof(int64_t))
    for level in range(1, num_levels):
        levels[level + 1] = levels[level] + level_size(s, level) + level_size(other, level)
        merge_runs(level_items(s, level), level_size(s, level), level_items(other, level),
                   level_size(other, level), work + levels[level])
    num_levels = compress(s, work, levels, kept, num_levels)
    return take_levels(s, work, kept, num_levels)


cdef inline uint32_t level_size(const KllState* s, int level) noexcept nogil:
    return s.levels[level + 1] - s.levels[level] if level < s.num_levels else 0


cdef inline const int64_t* level_items(const KllState* s, int level) noexcept nogil:
    return s.items + s.levels[min(level, s.num_levels)]


cdef int compress(KllState* s, int64_t* work, uint32_t* levels, uint32_t* kept, int num_levels) noexcept nogil:
    """Compact levels from the lowest up until all fits; they move to the start of the buffer.

    levels : where each begins, and one number more for the end; spoilt
    kept : where they begin afterwards
    """
    cdef uint32_t count = levels[num_levels], room = total_capacity(s.k, num_levels)
    cdef uint32_t begin, half, stay
    cdef int level = 0
    kept[0] = 0
    while level < num_levels:
        begin = levels[level]
        stay = levels[level + 1] - begin
        if count >= room and stay >= level_capacity(s.k, num_levels, level):
            if level == num_levels - 1:
                levels[level + 2] = levels[level + 1]
                num_levels += 1
                room += level_capacity(s.k, num_levels, 0)
            half = compact(s, work, begin, levels[level + 1], levels[level + 2], level == 0)
            levels[level + 1] -= half
            count -= half
            stay &= 1
        memmove(work + kept[level], work + begin, stay * sizeof(int64_t))
        kept[level + 1] = kept[level] + stay
        level += 1
    return num_levels


cdef int take_levels(KllState* s, int64_t* work, const uint32_t* kept, int num_levels) noexcept nogil:
    """Make these levels those of the sketch. Frees the buffer."""
    cdef uint32_t size = kept[num_levels], capacity = total_capacity(s.k, num_levels)
    cdef int64_t* items = <int64_t*> malloc(capacity * sizeof(int64_t))
    cdef int level
    if items != NULL:
        memcpy(items + capacity - size, work, size * sizeof(int64_t))
        free(s.items)
        s.items = items
        s.num_levels = num_levels
        for level in range(num_levels + 1):
            s.levels[level] = kept[level] + capacity - size
    free(work)
    return 0 if items != NULL else -1


# ----------------------------------------------------------------------------------- lower

cdef struct Weighted:
    int64_t key
    uint64_t weight


cdef Weighted* sorted_view(KllState* s, Weighted* view, Weighted* spare) noexcept nogil:
    """All items in order, with the weight of each and all before it; in one of the two buffers.

    Level by level, the small ones first, which makes about three moves an item.
    """
    cdef uint32_t size = 0, i
    cdef uint64_t total = 0
    cdef int level
    sort_lowest(s)
    for level in range(s.num_levels):
        merge_level(s, level, view, size, spare)
        size += level_size(s, level)
        view, spare = spare, view
    for i in range(size):
        total += view[i].weight
        view[i].weight = total
    return view


cdef void sort_lowest(KllState* s) noexcept nogil:
    if not s.sorted_below:
        sort_keys(s.items + s.levels[0], s.levels[1] - s.levels[0])
        s.sorted_below = True


cdef void merge_level(const KllState* s, int level, const Weighted* view, uint32_t size,
                      Weighted* out) noexcept nogil:
    cdef const int64_t* items = level_items(s, level)
    cdef uint32_t more = level_size(s, level), i = 0, j = 0
    while i < size or j < more:
        if j == more or (i < size and view[i].key <= items[j]):
            out[i + j] = view[i]
            i += 1
        else:
            out[i + j].key = items[j]
            out[i + j].weight = <uint64_t> 1 << level
            j += 1


cdef int64_t key_at(const KllState* s, const Weighted* view, double q) noexcept nogil:
    """The least item that, with all before it, weighs at least q n."""
    cdef double target = q * s.n
    cdef uint64_t weight
    cdef uint32_t low = 0, high = retained(s) - 1, middle
    if q <= 0.0:
        return s.least
    if q >= 1.0:
        return s.greatest
    # 0.07 * 100 is 7.000000000000001, but means 7.
    weight = <uint64_t> (rint(target) if fabs(target - rint(target)) <= target * 2.0**-50
                         else ceil(target))
    while low < high:
        middle = (low + high) // 2
        if view[middle].weight < weight:
            low = middle + 1
        else:
            high = middle
    return view[low].key


cdef uint64_t weight_to(const KllState* s, int64_t key) noexcept nogil:
    """The weight of all items that are not above `key`."""
    cdef uint64_t total = 0
    cdef uint32_t i
    cdef int level
    for level in range(s.num_levels):
        for i in range(s.levels[level], s.levels[level + 1]):
            if s.items[i] <= key:
                total += <uint64_t> 1 << level
    return total


# ------------------------------------------------------------------------------- the class

cdef class Kll:
    """A KLL sketch of 8-byte values: approximate quantiles from O(k) retained items.

    k : accuracy: with 99 % confidence a quantile's rank is off by at most about 2.3 / k^0.9 of n
        (``normalized_rank_error`` of the library). Up to about k values nothing is lost at all
    source : "float", "int" or "uint": what the cells hold. NaN has no rank and is left out
    seed : of the coins; sketches of different rows should have different ones

    Cost: some 20 ns a value, O(k) a merge. Memory: at most about 3 k items of 8 bytes.
    """

    def __cinit__(self, int k=200, str source="float", seed=0):
        if not MIN_K <= k <= MAX_K:
            raise ValueError(f"k must be from {MIN_K} to {MAX_K}, not {k}")
        if source not in KINDS:
            raise ValueError(f"source must be one of {tuple(KINDS)}, not {source!r}")
        self.source = source
        self.kind = KINDS[source]
        if kll_init(&self.state, k, <uint64_t> (seed & 0xFFFFFFFFFFFFFFFF)) < 0:
            raise MemoryError()

    def __dealloc__(self):
        free(self.state.items)

    @property
    def k(self):
        """What it was made with."""
        return self.state.k

    @property
    def min_k(self):
        """The least k of all compacted sketches merged in: the accuracy is that of this one."""
        return self.state.min_k

    @property
    def n(self):
        """Values taken."""
        return self.state.n

    @property
    def num_retained(self):
        """Items kept."""
        return retained(&self.state)

    def copy(self):
        """Another sketch in the same state, whose coins fall the same way."""
        cdef Kll other = Kll.__new__(Kll, self.state.k, self.source)
        cdef int64_t* items = <int64_t*> malloc(self.state.levels[self.state.num_levels] * sizeof(int64_t))
        if items == NULL:
            raise MemoryError()
        free(other.state.items)
        other.state = self.state
        other.state.items = items
        memcpy(items + self.state.levels[0], self.state.items + self.state.levels[0],
               retained(&self.state) * sizeof(int64_t))
        return other

    def extend(self, const int64_t[::1] cells):
        """Take the values of these cells (doubles as their bits), one after the other."""
        cdef int64_t i
        cdef int failed = 0
        with nogil:
            for i in range(cells.shape[0]):
                if self.kind == FLOATS and isnan((<Cell*> &cells[i]).f):
                    continue
                failed |= kll_push(&self.state, self.key_of(cells[i]))
                if failed:
                    break
        if failed:
            raise MemoryError()

    def merge(self, Kll other not None):
        """Become the sketch of both; `other` stays as it is."""
        self.check_same(other)
        if other is self:
            other = self.copy()
        if kll_merge(&self.state, &other.state) < 0:
            raise MemoryError()

    def quantiles(self, ranks):
        """The cell of the item at each rank from 0 to 1: the least with at least that share of all
        values at or below it. For every rank None where the sketch is empty."""
        cdef uint32_t size = retained(&self.state)
        cdef Weighted* buffers
        cdef Weighted* view
        if self.state.n == 0:
            return [None for _ in ranks]
        buffers = <Weighted*> malloc(2 * size * sizeof(Weighted))
        if buffers == NULL:
            raise MemoryError()
        try:
            view = sorted_view(&self.state, buffers, buffers + size)
            return [self.cell_of(key_at(&self.state, view, rank)) for rank in ranks]
        finally:
            free(buffers)

    def rank(self, int64_t cell):
        """About which share of the values is at or below that of this cell; NaN when empty."""
        if self.state.n == 0:
            return float("nan")
        return weight_to(&self.state, self.key_of(cell)) / <double> self.state.n

    cdef int check_same(self, Kll other) except -1:
        if other.source != self.source:
            raise ValueError(f"a sketch of {self.source} and one of {other.source} do not merge")
        return 0

    cdef int64_t key_of(self, int64_t cell) noexcept nogil:
        if self.kind == FLOATS:
            return float_key((<Cell*> &cell).f)
        return cell ^ INT64_MIN if self.kind == UINTS else cell

    cdef int64_t cell_of(self, int64_t key) noexcept nogil:
        cdef Cell cell
        if self.kind == FLOATS:
            cell.f = float_of_key(key)
            return cell.i
        return key ^ INT64_MIN if self.kind == UINTS else key

    # ------------------------------------------------------------------------ the bytes

    def to_bytes(self):
        """As Apache DataSketches writes a KLL sketch of doubles or, for integers, of longs."""
        cdef KllState* s = &self.state
        cdef uint32_t size = retained(s), i
        cdef bint many = s.n > 1
        cdef uint32_t begin = (20 + 4 * s.num_levels + 16) if many else 8
        cdef bytes made = PyBytes_FromStringAndSize(NULL, begin + 8 * size)
        cdef uint8_t* out = <uint8_t*> PyBytes_AS_STRING(made)
        cdef int64_t cell
        if self.kind == UINTS and s.n and s.greatest >= 0:
            raise OverflowError("the sketch holds values of 2^63 and more, which its bytes can't tell")
        memset(out, 0, begin)
        sort_lowest(s)
        out[0] = FULL if many else SHORT
        out[1] = 2 if s.n == 1 else 1
        out[2] = FAMILY
        out[3] = SORTED_FLAG | (EMPTY_FLAG if s.n == 0 else 0) | (SINGLE_FLAG if s.n == 1 else 0)
        put(out + 4, s.k, 2)
        out[6] = MIN_WIDTH
        if many:
            put(out + 8, s.n, 8)
            put(out + 16, s.min_k, 2)
            out[18] = s.num_levels
            for i in range(<uint32_t> s.num_levels):
                put(out + 20 + 4 * i, s.levels[i], 4)
            put(out + begin - 16, self.cell_of(s.least), 8)
            put(out + begin - 8, self.cell_of(s.greatest), 8)
        for i in range(size):
            put(out + begin + 8 * i, self.cell_of(s.items[s.levels[0] + i]), 8)
        return made

    @staticmethod
    def from_bytes(const uint8_t[::1] data not None, str source="float"):
        """The sketch of these bytes, ours or DataSketches' own. Nothing in them says which type the
        values are of: `source` does. Its coins are a function of the bytes.

        Raises ValueError where they are not a KLL sketch, or not a whole one.
        """
        cdef Kll sketch
        cdef uint8_t flags
        check(data.shape[0] >= 8 and data[2] == FAMILY, "not the bytes of a KLL sketch")
        check(data[6] == MIN_WIDTH, "a least level width other than 8")
        flags = data[3]
        sketch = Kll(<int> get(&data[4], 2), source)
        if flags & EMPTY_FLAG:
            return sketch
        if flags & SINGLE_FLAG:
            check(data[0] == SHORT and data[1] == 2 and data.shape[0] >= 16, "cut short")
            kll_push(&sketch.state, sketch.key_of(<int64_t> get(&data[8], 8)))
        else:
            read_levels(sketch, data)
        sketch.check_invariants()
        sketch.state.coin = mixed(sketch.state.n + hash_keys(&sketch.state))
        return sketch

    cdef int check_invariants(self) except -1:
        cdef KllState* s = &self.state
        cdef uint64_t total = 0
        cdef uint32_t i
        cdef int level
        for level in range(s.num_levels):
            total += <uint64_t> level_size(s, level) << level
            for i in range(s.levels[level], s.levels[level + 1]):
                check(s.least <= s.items[i] <= s.greatest, "an item outside of least and greatest")
                check(level == 0 or i == s.levels[level] or s.items[i - 1] <= s.items[i],
                      "a level that is not sorted")
        check(total == s.n, "weights that do not add up to n")
        return 0

    def __repr__(self):
        return (f"<Kll of {self.source}, k={self.state.k}: {self.state.n} values, "
                f"{self.num_retained} retained>")


cdef int read_levels(Kll sketch, const uint8_t[::1] data) except -1:
    cdef KllState* s = &sketch.state
    cdef int64_t begin, i
    cdef uint32_t size
    check(data[0] == FULL and data[1] == 1 and data.shape[0] >= 20, "an unknown version, or cut short")
    s.n = get(&data[8], 8)
    s.min_k = <uint32_t> get(&data[16], 2)
    check(1 <= data[18] <= MAX_LEVELS and s.n > 0, "no levels")
    begin = 20 + 4 * data[18] + 16
    check(data.shape[0] >= begin, "cut short")
    reserve_levels(s, data[18])
    for i in range(s.num_levels):
        s.levels[i] = <uint32_t> get(&data[20 + 4 * i], 4)
    for i in range(s.num_levels):
        check(s.levels[i] <= s.levels[i + 1], "levels out of order")
    size = retained(s)
    check(data.shape[0] >= begin + 8 * <int64_t> size, "cut short")
    s.least = sketch.key_of(<int64_t> get(&data[begin - 16], 8))
    s.greatest = sketch.key_of(<int64_t> get(&data[begin - 8], 8))
    for i in range(size):
        s.items[s.levels[0] + i] = sketch.key_of(<int64_t> get(&data[begin + 8 * i], 8))
    return 0


cdef int reserve_levels(KllState* s, int num_levels) except -1:
    cdef uint32_t capacity = total_capacity(s.k, num_levels)
    free(s.items)
    s.items = <int64_t*> malloc(capacity * sizeof(int64_t))
    if s.items == NULL:
        raise MemoryError()
    s.num_levels = num_levels
    s.levels[num_levels] = capacity
    return 0


cdef int check(bint holds, str what) except -1:
    if not holds:
        raise ValueError(f"KLL sketch: {what}")
    return 0


cdef uint64_t hash_keys(const KllState* s) noexcept nogil:
    cdef uint64_t h = 0
    cdef uint32_t i
    for i in range(s.levels[0], s.levels[s.num_levels]):
        h = mixed(h ^ <uint64_t> s.items[i])
    return h


cdef inline void put(uint8_t* out, uint64_t value, int size) noexcept nogil:
    """Little-endian, on every machine."""
    cdef int i
    for i in range(size):
        out[i] = (value >> (8 * i)) & 0xFF


cdef inline uint64_t get(const uint8_t* data, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value |= <uint64_t> data[i] << (8 * i)
    return value
