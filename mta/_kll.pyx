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
from libc.math cimport isnan
from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from mta._kll_levels cimport (
    MAX_LEVELS, MIN_WIDTH, KllState, Weighted, key_at, kll_init, kll_merge, kll_push, level_size, mixed,
    retained, sort_lowest, sorted_view, total_capacity, weight_to,
)
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


# ------------------------------------------------------------------------------- the class

cdef class Kll:
    """A KLL sketch of 8-byte values: approximate quantiles from O(k) retained items.

    k : accuracy: with 99 % confidence a quantile's rank is off by at most about 2.3 / k^0.97 of n
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
        out[3] = SORTED_FLAG if many else SINGLE_FLAG if s.n == 1 else EMPTY_FLAG
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
