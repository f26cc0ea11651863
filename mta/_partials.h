/* Partial aggregates of rows in any order: counts, exact sums, extremes.

   An entry is the partial of one group: its code, a head of 4 bytes per sum of floats, and cells of 8
   bytes. Nothing in it depends on the order in which rows came or partials were merged.

   An exact sum of doubles is a 128-bit integer in units of a power of two, which is lowered when a value
   needs it. Where the values are too far apart for that (75 binary places and more) it moves into a
   superaccumulator of the pool, and the cells hold its number. */
#ifndef MTA_PARTIALS_H
#define MTA_PARTIALS_H

#include <stdlib.h>

#include "_superaccumulator.h"

typedef __int128 mta_sum128;

enum { MTA_ODD_NAN = 1, MTA_ODD_UP = 2, MTA_ODD_DOWN = 4 };

/* Beyond this exponent the limbs of a superaccumulator have no room for 128 bits. */
enum { MTA_HIGHEST_UNIT = 900 };

/* What a sum of floats needs beside its 128 bits. */
typedef struct {
    int16_t unit; /* exponent of the lowest bit */
    uint8_t odd;  /* which of NaN, inf, -inf were among the values */
    uint8_t wide; /* the cells hold the number of a superaccumulator */
} mta_head;

/* Superaccumulators by number. Free ones are a list through their loads. */
typedef struct {
    mta_superaccumulator *item;
    int64_t n, capacity, free_item;
} mta_pool;

static inline void mta_pool_init(mta_pool *p) {
    memset(p, 0, sizeof *p);
    p->free_item = -1;
}

static inline void mta_pool_release(mta_pool *p) {
    free(p->item);
    mta_pool_init(p);
}

/* Whether memory holds one, or an item of the list of free ones. */
static inline int mta_is_sound(const mta_superaccumulator *a, int64_t n) {
    return a->low >= 0 && a->high < MTA_LIMBS && a->low <= MTA_LIMBS && a->high >= -1 &&
           a->load >= -1 && (a->load < n || a->load <= MTA_LOAD);
}

/* The number of an empty one; -1: there is no memory. */
static inline int64_t mta_pool_take(mta_pool *p) {
    int64_t i = p->free_item;
    if (i >= 0) {
        p->free_item = p->item[i].load;
    } else {
        if (p->n == p->capacity) {
            int64_t capacity = 2 * p->capacity + 4;
            void *grown = realloc(p->item, (size_t)capacity * sizeof *p->item);
            if (!grown) return -1;
            p->item = (mta_superaccumulator *)grown;
            p->capacity = capacity;
        }
        i = p->n++;
    }
    mta_super_init(p->item + i);
    return i;
}

static inline void mta_pool_give(mta_pool *p, int64_t i) {
    p->item[i].load = p->free_item;
    p->free_item = i;
}

static inline mta_sum128 mta_load128(const void *cells) {
    mta_sum128 x;
    memcpy(&x, cells, sizeof x);
    return x;
}

static inline void mta_store128(void *cells, mta_sum128 x) { memcpy(cells, &x, sizeof x); }

/* The sum of integers: += sign * an integer of 64 bits, or another sum. */
static inline void mta_add_integer(void *cells, int64_t raw, int is_unsigned, int64_t sign) {
    mta_sum128 x = is_unsigned ? (mta_sum128)(uint64_t)raw : (mta_sum128)raw;
    mta_store128(cells, mta_load128(cells) + (sign < 0 ? -x : x));
}

static inline void mta_merge_integers(void *cells, const void *more, int64_t sign) {
    mta_sum128 x = mta_load128(more);
    mta_store128(cells, mta_load128(cells) + (sign < 0 ? -x : x));
}

static inline int mta_shift_up(mta_sum128 *x, int places) {
    mta_sum128 shifted;
    if (places > 126) return 0;
    shifted = (mta_sum128)((mta_wide)*x << places);
    if (shifted >> places != *x) return 0;
    *x = shifted;
    return 1;
}

/* Trailing zeros go into the exponent. */
static inline void mta_strip(mta_sum128 *x, int *unit) {
    uint64_t low = (uint64_t)*x;
    int zeros = low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(*x >> 64) | 1ULL << 63);
    if (zeros > MTA_HIGHEST_UNIT - *unit) zeros = MTA_HIGHEST_UNIT - *unit;
    if (zeros <= 0) return;
    *x >>= zeros;
    *unit += zeros;
}

static inline int mta_narrow_try(mta_sum128 *sum, int *unit, mta_sum128 more, int its_unit) {
    mta_sum128 s = *sum;
    int u = *unit;
    if (its_unit >= u) {
        if (!mta_shift_up(&more, its_unit - u)) return 0;
    } else {
        if (!mta_shift_up(&s, u - its_unit)) return 0;
        u = its_unit;
    }
    if (__builtin_add_overflow(s, more, &s) || s >> 126 != s >> 127) return 0; /* so -s fits too */
    *sum = s;
    *unit = u;
    return 1;
}

/* sum * 2^unit += more * 2^its_unit; 0 where that does not fit in 128 bits. */
static inline int mta_narrow_add(mta_sum128 *sum, int *unit, mta_sum128 more, int its_unit) {
    if (!more) return 1;
    if (!*sum) {
        *sum = more;
        *unit = its_unit;
        return 1;
    }
    if (mta_narrow_try(sum, unit, more, its_unit)) return 1;
    mta_strip(sum, unit);
    mta_strip(&more, &its_unit);
    return mta_narrow_try(sum, unit, more, its_unit);
}

/* a += value * 2^exponent, at most MTA_HIGHEST_UNIT. */
static inline void mta_super_add128(mta_superaccumulator *a, mta_sum128 value, int exponent) {
    int64_t sign = value < 0 ? -1 : 1;
    mta_wide v = value < 0 ? -(mta_wide)value : (mta_wide)value;
    if ((uint64_t)v) mta_super_add_at(a, (uint64_t)v, exponent, sign);
    if (v >> 64) mta_super_add_at(a, (uint64_t)(v >> 64), exponent + 64, sign);
}

static inline void mta_super_merge_signed(mta_superaccumulator *a, const mta_superaccumulator *b,
                                          int64_t sign) {
    int i;
    for (i = b->low; i <= b->high; i++) a->limb[i] += sign * b->limb[i];
    mta_super_touch(a, b->low, b->high, b->load);
    if (a->load >= MTA_LOAD) mta_super_carry(a);
}

/* Move a sum into a superaccumulator; 0: there is no memory. */
static inline int mta_widen_sum(mta_head *h, void *cells, mta_pool *pool) {
    int64_t i = mta_pool_take(pool);
    if (i < 0) return 0;
    mta_super_add128(pool->item + i, mta_load128(cells), h->unit);
    mta_store128(cells, i);
    h->wide = 1;
    return 1;
}

/* lift: += sign * x; 0: there is no memory. What is odd is only noted. */
static inline int mta_sum_add(mta_head *h, void *cells, mta_pool *pool, double x, int64_t sign) {
    int64_t bits = mta_bits_of(x), mantissa = bits & 0xfffffffffffff;
    int exponent = (int)(bits >> 52) & 0x7ff;
    mta_sum128 sum;
    int unit = h->unit;
    if (exponent == 0x7ff) {
        h->odd |= mantissa ? MTA_ODD_NAN : bits < 0 ? MTA_ODD_DOWN : MTA_ODD_UP;
        return 1;
    }
    if (!h->wide) {
        mantissa |= exponent ? 1LL << 52 : 0;
        exponent = (exponent ? exponent - 1 : 0) + MTA_LOWEST;
        sum = mta_load128(cells);
        if (exponent <= MTA_HIGHEST_UNIT &&
            mta_narrow_add(&sum, &unit, (bits < 0) == (sign < 0) ? mantissa : -mantissa, exponent)) {
            mta_store128(cells, sum);
            h->unit = (int16_t)unit;
            return 1;
        }
        if (!mta_widen_sum(h, cells, pool)) return 0;
    }
    mta_super_add(pool->item + (int64_t)mta_load128(cells), x, sign);
    return 1;
}

/* combine: += sign * another sum, whose wide ones are in a pool of its own. */
static inline int mta_sum_merge(mta_head *h, void *cells, mta_pool *pool, const mta_head *other,
                                const void *its_cells, const mta_pool *its_pool, int64_t sign) {
    mta_sum128 sum, more = mta_load128(its_cells);
    int unit = h->unit;
    h->odd |= other->odd;
    if (!h->wide && !other->wide) {
        sum = mta_load128(cells);
        if (mta_narrow_add(&sum, &unit, sign < 0 ? -more : more, other->unit)) {
            mta_store128(cells, sum);
            h->unit = (int16_t)unit;
            return 1;
        }
    }
    if (!h->wide && !mta_widen_sum(h, cells, pool)) return 0;
    if (other->wide)
        mta_super_merge_signed(pool->item + (int64_t)mta_load128(cells), its_pool->item + (int64_t)more,
                               sign);
    else
        mta_super_add128(pool->item + (int64_t)mta_load128(cells), sign < 0 ? -more : more,
                         other->unit);
    return 1;
}

/* lower: the sum, or where count is more than 0 the sum over it, rounded once. */
static inline double mta_sum_lower(const mta_head *h, const void *cells, const mta_pool *pool,
                                   int64_t count) {
    mta_leading a;
    if (h->odd) {
        if (h->odd == MTA_ODD_UP) return INFINITY;
        if (h->odd == MTA_ODD_DOWN) return -INFINITY;
        return NAN;
    }
    a = h->wide ? mta_super_leading(pool->item + (int64_t)mta_load128(cells))
                : mta_leading_of(mta_load128(cells), h->unit);
    return count > 0 ? mta_nearest_quotient(a, count) : mta_nearest(a);
}

#endif
