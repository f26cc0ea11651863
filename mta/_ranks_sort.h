/* Ranks of rows by one radix sort.

   A row is one 64-bit item: the leading bits of its key, less the least key, above its number in the
   block. Items are sorted by as many leading bits as tell about 2^11 times as many keys apart as
   there are rows, least digit first (LSD radix sort: stable, so equal keys stay in row order). Rows
   that these bits leave equal are few unless the keys cluster: up to 24 of them go by insertion,
   more by the same sort over their own range of keys. Every level of that uses up 11 of the 64 bits
   of a key or more, which bounds the time by O(rows) whatever the keys. */
#ifndef MTA_RANKS_SORT_H
#define MTA_RANKS_SORT_H

#include <stdint.h>
#include <string.h>

#include "_precise.h"

enum { MTA_RANK_FLOAT, MTA_RANK_INT, MTA_RANK_UINT };

/* Raw 8-byte values by absolute row number; valid is 0 where a row is null, or NULL. */
typedef struct {
    const int64_t *values;
    const uint8_t *valid;
    int source;
} mta_rows;

#define MTA_SIGN ((uint64_t)1 << 63)
#define MTA_INF_BITS 0x7ff0000000000000LL
#define MTA_NAN_BITS 0x7ff8000000000000LL

/* An int64 in the order of the values: -0.0 just below 0.0, every NaN one key above all. */
MTA_INLINE int64_t mta_rank_key(int64_t raw, int source) {
    if (source == MTA_RANK_FLOAT) {
        if ((raw & INT64_MAX) > MTA_INF_BITS) return INT64_MAX;
        return raw ^ ((raw >> 63) & INT64_MAX);
    }
    return source == MTA_RANK_UINT ? (int64_t)((uint64_t)raw ^ MTA_SIGN) : raw;
}

/* The value of a key; all NaN come back as one. */
MTA_INLINE int64_t mta_rank_cell(int64_t key, int source) {
    if (source == MTA_RANK_FLOAT)
        return key == INT64_MAX ? MTA_NAN_BITS : key ^ ((key >> 63) & INT64_MAX);
    return source == MTA_RANK_UINT ? (int64_t)((uint64_t)key ^ MTA_SIGN) : key;
}

MTA_INLINE int mta_is_null(const mta_rows *rows, int64_t row) {
    return rows->valid && !rows->valid[row];
}

MTA_INLINE int mta_bit_length(uint64_t x) {
    return x ? 64 - __builtin_clzll(x) : 0;
}

/* Rows are told by their number from `base` on, in the lowest `row_bits` of an item. */
typedef struct {
    const mta_rows *rows;
    int64_t base;
    int row_bits;
} mta_sorter;

/* How keys from `least` on become items, and which bits of them are sorted: those from `low` on, in
   `passes` digits. The last `shift` bits of a key are left out: they are those of the least key, unless
   the item is too short for a key (`cut`). */
typedef struct {
    uint64_t least;
    int shift, cut, low, digit, passes;
} mta_sort_plan;

/* The keys of what there is to sort. */
typedef struct {
    uint64_t least, most;
    uint64_t differ;      /* the bits in which any two of them differ */
    int64_t numbers, nans;
} mta_range;

enum {
    MTA_SPARE_BITS = 11,  /* sorted beyond those that number the rows: doubles are far from even */
    MTA_DIGIT = 11,       /* at most; 2^11 counters stay in the first cache, */
    MTA_FAR_DIGIT = 8,    /* but so many pages at once are too many for rows beyond the second */
    MTA_FAR_ROWS = 18,    /* bits of their number */
    MTA_COUNTERS = 4 << MTA_DIGIT,
    MTA_SHORT_RUN = 24
};

MTA_INLINE int mta_clamp(int x, int least, int most) {
    return x < least ? least : x > most ? most : x;
}

static mta_sort_plan mta_plan_sort(const mta_sorter *s, const mta_range *r) {
    mta_sort_plan plan = {r->least, 0, 0, 0, 0, 0};
    int rows = mta_bit_length((uint64_t)r->numbers - 1), room = 64 - s->row_bits;
    int same = r->differ ? __builtin_ctzll(r->differ) : 0;
    int range = r->differ ? mta_bit_length((r->most - r->least) >> same) : 0;
    int kept = range < room ? range : room;
    int sorted = mta_clamp(kept, 0, rows + MTA_SPARE_BITS);
    /* Of few rows, counters would be most of the work. */
    int digit = rows > MTA_FAR_ROWS ? MTA_FAR_DIGIT : mta_clamp(rows - 2, 6, MTA_DIGIT);
    plan.cut = range > kept;
    plan.shift = same + range - kept;
    plan.low = s->row_bits + kept - sorted;
    plan.passes = (sorted + digit - 1) / digit;
    plan.digit = plan.passes ? (sorted + plan.passes - 1) / plan.passes : 0;
    return plan;
}

MTA_INLINE uint64_t mta_sort_key(const mta_sorter *s, int64_t row, int source) {
    return (uint64_t)mta_rank_key(s->rows->values[s->base + row], source) ^ MTA_SIGN;
}

MTA_INLINE uint64_t mta_item_row(const mta_sorter *s, uint64_t item) {
    return item & (((uint64_t)1 << s->row_bits) - 1);
}

MTA_INLINE uint64_t mta_pack(const mta_sorter *s, const mta_sort_plan *plan, uint64_t key,
                             uint64_t row) {
    return ((key - plan->least) >> plan->shift) << s->row_bits | row;
}

/* One stable pass per digit between a and b. The items lie where an even number of passes is left
   to get into a. */
static void mta_sort_passes(const mta_sort_plan *plan, uint64_t *a, uint64_t *b, int64_t n) {
    uint32_t count[MTA_COUNTERS];    /* of every pass */
    uint64_t mask = ((uint64_t)1 << plan->digit) - 1, *from = plan->passes & 1 ? b : a, *to, *swap;
    int64_t i;
    int pass;
    memset(count, 0, (size_t)plan->passes * (mask + 1) * sizeof(uint32_t));
    for (i = 0; i < n; i++) {
        uint64_t key = from[i] >> plan->low;
        for (pass = 0; pass < plan->passes; pass++, key >>= plan->digit)
            count[((uint64_t)pass << plan->digit) + (key & mask)]++;
    }
    to = from == a ? b : a;
    for (pass = 0; pass < plan->passes; pass++) {
        uint32_t *place = count + ((uint64_t)pass << plan->digit), sum = 0;
        int down = plan->low + pass * plan->digit;
        for (i = 0; i <= (int64_t)mask; i++) {
            uint32_t here = place[i];
            place[i] = sum;
            sum += here;
        }
        for (i = 0; i < n; i++) to[place[(from[i] >> down) & mask]++] = from[i];
        swap = from;
        from = to;
        to = swap;
    }
}

MTA_INLINE int mta_item_before(const mta_sorter *s, const mta_sort_plan *plan, uint64_t x, uint64_t y) {
    uint64_t p, q;
    if (!plan->cut || (x ^ y) >> s->row_bits) return x < y;
    p = mta_sort_key(s, (int64_t)mta_item_row(s, x), s->rows->source);
    q = mta_sort_key(s, (int64_t)mta_item_row(s, y), s->rows->source);
    return p != q ? p < q : x < y;
}

static void mta_sort_short(const mta_sorter *s, const mta_sort_plan *plan, uint64_t *a, int64_t n) {
    int64_t i, j;
    for (i = 1; i < n; i++) {
        uint64_t x = a[i];
        for (j = i; j > 0 && mta_item_before(s, plan, x, a[j - 1]); j--) a[j] = a[j - 1];
        a[j] = x;
    }
}

static void mta_sort_run(const mta_sorter *s, uint64_t *a, uint64_t *b, int64_t n);

/* Sort n items, packed by the plan, into a (see mta_sort_passes for where they lie). */
static void mta_sort_items(const mta_sorter *s, const mta_sort_plan *plan, uint64_t *a, uint64_t *b,
                           int64_t n) {
    int64_t i = 1, start;
    mta_sort_passes(plan, a, b, n);
    if (plan->low == s->row_bits && !plan->cut) return;
    while (i < n) {
        if ((a[i] ^ a[i - 1]) >> plan->low) {
            i++;
            continue;
        }
        start = i - 1;
        while (i < n && !((a[i] ^ a[start]) >> plan->low)) i++;
        if (i - start <= MTA_SHORT_RUN)
            mta_sort_short(s, plan, a + start, i - start);
        else
            mta_sort_run(s, a + start, b + start, i - start);
    }
}

MTA_INLINE void mta_range_add(mta_range *r, uint64_t start, uint64_t key) {
    r->differ |= key ^ start;
    r->least = key < r->least ? key : r->least;
    r->most = key > r->most ? key : r->most;
}

/* Items in row order that agree in the bits sorted so far: by the whole keys of their rows. */
static void mta_sort_run(const mta_sorter *s, uint64_t *a, uint64_t *b, int64_t n) {
    uint64_t start = mta_sort_key(s, (int64_t)mta_item_row(s, a[0]), s->rows->source), *to, row;
    mta_range r = {start, start, 0, n, 0};
    mta_sort_plan plan;
    int64_t i;
    for (i = 1; i < n; i++)
        mta_range_add(&r, start, mta_sort_key(s, (int64_t)mta_item_row(s, a[i]), s->rows->source));
    if (!r.differ) return;
    plan = mta_plan_sort(s, &r);
    to = plan.passes & 1 ? b : a;
    for (i = 0; i < n; i++) {
        row = mta_item_row(s, a[i]);
        to[i] = mta_pack(s, &plan, mta_sort_key(s, (int64_t)row, s->rows->source), row);
    }
    mta_sort_items(s, &plan, a, b, n);
}

/* Nulls have no key, and NaN one of their own. */
MTA_INLINE mta_range mta_range_of(const mta_sorter *s, int64_t n, int source) {
    mta_range r = {UINT64_MAX, 0, 0, 0, 0};
    uint64_t start = 0;
    int64_t i;
    for (i = 0; i < n; i++) {
        uint64_t key = mta_sort_key(s, i, source);
        if (mta_is_null(s->rows, s->base + i)) continue;
        if (source == MTA_RANK_FLOAT && key == UINT64_MAX) {
            r.nans++;
            continue;
        }
        if (!r.numbers++) start = key;
        mta_range_add(&r, start, key);
    }
    return r;
}

/* Items of the numbers into `to`, and of the NaN, in row order, into `nans`. */
MTA_INLINE void mta_pack_rows(const mta_sorter *s, const mta_sort_plan *plan, int64_t n,
                              uint64_t *to, uint64_t *nans, int source) {
    int64_t i;
    for (i = 0; i < n; i++) {
        uint64_t key = mta_sort_key(s, i, source);
        if (mta_is_null(s->rows, s->base + i)) continue;
        if (source == MTA_RANK_FLOAT && key == UINT64_MAX)
            *nans++ = (uint64_t)i;
        else
            *to++ = mta_pack(s, plan, key, (uint64_t)i);
    }
}

MTA_INLINE mta_range mta_sort_source(const mta_sorter *s, int64_t n, uint64_t *a, uint64_t *b,
                                     int source) {
    mta_range range = mta_range_of(s, n, source);
    mta_sort_plan plan;
    plan = mta_plan_sort(s, &range);
    mta_pack_rows(s, &plan, n, plan.passes & 1 ? b : a, a + range.numbers, source);
    mta_sort_items(s, &plan, a, b, range.numbers);
    return range;
}

/* Sort the rows base..base + n that are not null into a, as items, by (key, row); b is scratch. */
static mta_range mta_sort_rows(const mta_sorter *s, int64_t n, uint64_t *a, uint64_t *b) {
    if (s->rows->source == MTA_RANK_FLOAT) return mta_sort_source(s, n, a, b, MTA_RANK_FLOAT);
    if (s->rows->source == MTA_RANK_INT) return mta_sort_source(s, n, a, b, MTA_RANK_INT);
    return mta_sort_source(s, n, a, b, MTA_RANK_UINT);
}

#endif
