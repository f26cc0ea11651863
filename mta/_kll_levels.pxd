# cython: language_level=3
"""The levels of a KLL sketch: insert, compact, merge and look up, over int64 keys. See ``_kll.pyx``."""
from libc.math cimport ceil, fabs, rint
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset


cdef enum:
    MAX_LEVELS = 61
    MIN_WIDTH = 8       # of a level; every published sketch has this one


cdef struct KllState:
    # Level l holds items[levels[l]:levels[l + 1]], each of weight 2^l; free room comes first. All
    # levels but the lowest are sorted.
    uint32_t k
    uint32_t min_k                      # least k of all sketches merged in that had been compacted
    uint64_t n
    uint64_t coin                       # where its sequence of random bits stands
    int64_t least
    int64_t greatest
    int64_t* items
    uint32_t levels[MAX_LEVELS + 1]
    int num_levels
    bint sorted_below                   # whether the lowest level is sorted too


# ------------------------------------------------------------------- levels and their sizes

cdef inline uint32_t level_capacity(uint32_t k, int num_levels, int level) noexcept nogil:
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


cdef inline uint32_t total_capacity(uint32_t k, int num_levels) noexcept nogil:
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


cdef inline int kll_init(KllState* s, uint32_t k, uint64_t seed) noexcept nogil:
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


cdef inline int make_room(KllState* s) noexcept nogil:
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


cdef inline int add_level(KllState* s) noexcept nogil:
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


cdef inline uint32_t compact(KllState* s, int64_t* items, uint32_t begin, uint32_t end, uint32_t end_above,
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


cdef inline void sort_keys(int64_t* x, uint32_t n) noexcept nogil:
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

cdef inline int kll_merge(KllState* s, const KllState* other) noexcept nogil:
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


cdef inline int merge_levels(KllState* s, const KllState* other) noexcept nogil:
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


cdef inline int compress(KllState* s, int64_t* work, uint32_t* levels, uint32_t* kept, int num_levels) noexcept nogil:
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


cdef inline int take_levels(KllState* s, int64_t* work, const uint32_t* kept, int num_levels) noexcept nogil:
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


cdef inline Weighted* sorted_view(KllState* s, Weighted* view, Weighted* spare) noexcept nogil:
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


cdef inline void sort_lowest(KllState* s) noexcept nogil:
    if not s.sorted_below:
        sort_keys(s.items + s.levels[0], s.levels[1] - s.levels[0])
        s.sorted_below = True


cdef inline void merge_level(const KllState* s, int level, const Weighted* view, uint32_t size,
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


cdef inline int64_t key_at(const KllState* s, const Weighted* view, double q) noexcept nogil:
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


cdef inline uint64_t weight_to(const KllState* s, int64_t key) noexcept nogil:
    """The weight of all items that are not above `key`."""
    cdef uint64_t total = 0
    cdef uint32_t i
    cdef int level
    for level in range(s.num_levels):
        for i in range(s.levels[level], s.levels[level + 1]):
            if s.items[i] <= key:
                total += <uint64_t> 1 << level
    return total
