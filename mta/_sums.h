/* Exact sums of the rows of sliding windows, a few operations a row.

   A grid is the numbers k 2^unit up to 2^(unit + 103). A double on it is cut into two integers without
   loss, by additions alone (Rump's extraction of leading bits): adding 1.5 2^(unit + 104), whose ulp is
   2^(unit + 52), rounds it to a multiple of that, and the bits of the sum then count these multiples;
   what is left is cut the same way in units of 2^unit. Integers can be added and subtracted with
   no error, so what enters a window is added and what leaves is subtracted, and the sum is a function of
   the rows inside alone. Rows off the grid (too large, too fine, infinite, NaN) are kept apart. */
#ifndef MTA_SUMS_H
#define MTA_SUMS_H

#include "_precise.h"
#include "_superaccumulator.h"

/* As MTA_CLONES, for loops over 64-bit integers. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) \
    && !defined(__AVX2__)
#define MTA_INTEGER_CLONES __attribute__((target_clones("avx2", "default"), unused))
#else
#define MTA_INTEGER_CLONES __attribute__((unused))
#endif

enum {
    MTA_LEAST_UNIT = -1074,
    MTA_GREATEST_UNIT = 919, /* 2^(unit + 104) is a double */
    MTA_SPREAD = 103
};

/* The sum of values on a grid: high 2^(unit + 52) + low 2^unit. */
typedef struct {
    int64_t high, low;
} mta_slices;

/* Both integers in one register. */
typedef int64_t mta_pair __attribute__((vector_size(16), aligned(8), may_alias));

typedef struct {
    double coarse, fine; /* what to add in order to cut */
    double top;
    double unit_high, unit_low;
    int unit;
} mta_grid;

/* One above the greatest unit is the grid that nothing lies on. */
static inline mta_grid mta_grid_of(int unit) {
    int held = unit > MTA_GREATEST_UNIT ? MTA_GREATEST_UNIT : unit;
    mta_grid g;
    g.coarse = ldexp(1.5, held + 104);
    g.fine = ldexp(1.5, held + 52);
    g.top = unit > held ? -1.0 : ldexp(1.0, held + MTA_SPREAD);
    g.unit_high = ldexp(1.0, held + 52);
    g.unit_low = ldexp(1.0, held);
    g.unit = held;
    return g;
}

MTA_INLINE int64_t mta_to_bits(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

MTA_INLINE double mta_from_bits(int64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Cut x; whether it is off the grid, in which case the slices are worthless. For |x| <= top both
   subtractions are exact (the larger operand of each addition comes first in magnitude: Dekker). */
MTA_INLINE int64_t mta_cut_one(const mta_grid *g, double x, int64_t *high, int64_t *low) {
    double coarse = x + g->coarse, left = x - (coarse - g->coarse), fine = left + g->fine;
    *high = mta_to_bits(coarse) - mta_to_bits(g->coarse);
    *low = mta_to_bits(fine) - mta_to_bits(g->fine);
    return (int64_t)(left - (fine - g->fine) != 0.0) | (int64_t)!(fabs(x) <= g->top);
}

/* Cut n values; whether any is off the grid. */
MTA_INTEGER_CLONES
static int64_t mta_cut(const mta_grid *grid, const double *restrict x, int64_t n,
                       mta_slices *restrict out) {
    const mta_grid g = *grid;
    int64_t i, off = 0;
    for (i = 0; i < n; i++) off |= mta_cut_one(&g, x[i], &out[i].high, &out[i].low);
    return off;
}

/* Cut x[i] - y[i], where every y is on the grid; whether any x is off it. */
MTA_INTEGER_CLONES
static int64_t mta_cut_changes(const mta_grid *grid, const double *restrict x,
                               const double *restrict y, int64_t n, mta_slices *restrict out) {
    const mta_grid g = *grid;
    int64_t i, off = 0;
    for (i = 0; i < n; i++) {
        int64_t high, low;
        off |= mta_cut_one(&g, x[i], &out[i].high, &out[i].low);
        mta_cut_one(&g, y[i], &high, &low);
        out[i].high -= high;
        out[i].low -= low;
    }
    return off;
}

/* Running totals from `start` on, in place; the last one. */
static inline mta_slices mta_run_up(mta_slices start, mta_slices *slices, int64_t n) {
    mta_pair *pair = (mta_pair *)slices, total = {start.high, start.low};
    mta_slices r;
    int64_t i;
    for (i = 0; i < n; i++) pair[i] = total += pair[i];
    r.high = total[0];
    r.low = total[1];
    return r;
}

/* out[i] = start + entered[hi[i] - last] - left[lo[i] - first]. */
static inline void mta_join_slices(mta_slices start, const mta_slices *entered, const mta_slices *left,
                                   const int64_t *lo, const int64_t *hi, int64_t first, int64_t last,
                                   int64_t n, mta_slices *out) {
    const mta_pair *in = (const mta_pair *)entered, *gone = (const mta_pair *)left;
    mta_pair *sum = (mta_pair *)out, base = {start.high, start.low};
    int64_t i;
    for (i = 0; i < n; i++) sum[i] = base + in[hi[i] - last] - gone[lo[i] - first];
}

/* Move what low carries to high: -2^51 <= low < 2^51. For |low| < 2^62. */
MTA_INLINE void mta_carry(int64_t *high, int64_t *low) {
    int64_t carry = (int64_t)(((uint64_t)*low + ((1ULL << 62) + (1ULL << 51))) >> 52) - (1 << 10);
    *high += carry;
    *low -= carry * (1LL << 52);
}

/* The windows' sums as high[i] + low[i], both exact; false where a high part is beyond 2^51 units. */
MTA_INTEGER_CLONES
static int mta_parts(const mta_grid *grid, const mta_slices *restrict sums, int64_t n,
                     double *restrict high, double *restrict low) {
    const double magic = 6755399441055744.0; /* 1.5 2^52: its bits count ones */
    const double unit_high = grid->unit_high, unit_low = grid->unit_low;
    uint64_t large = 0;
    int64_t i;
    for (i = 0; i < n; i++) {
        int64_t h = sums[i].high, l = sums[i].low;
        mta_carry(&h, &l);
        large |= (uint64_t)h + (1ULL << 51);
        high[i] = (mta_from_bits(h + mta_to_bits(magic)) - magic) * unit_high;
        low[i] = (mta_from_bits(l + mta_to_bits(magic)) - magic) * unit_low;
    }
    return large >> 52 == 0;
}

/* high + low, once more as the nearest double and the rest, and how far off the rest may be.
   `base`: what to add to each, good to half an ulp of its low part. */
MTA_CLONES
static void mta_add_base(mta_dd base, int64_t n, double *restrict high, double *restrict low,
                         double *restrict slack) {
    int64_t i;
    for (i = 0; i < n; i++) {
        mta_dd s = mta_two_sum(base.hi, high[i]);
        double rest = (base.lo + low[i]) + s.lo;
        /* Two additions and the base err by 2^-52 of these at most. */
        slack[i] = 0x1p-50 * ((fabs(base.lo) + fabs(low[i])) + fabs(s.lo)) + 0x1p-1070;
        high[i] = s.hi;
        low[i] = rest;
    }
}

/* Sums of parts that are exact. */
MTA_CLONES
static void mta_sums_of_parts(const double *restrict high, const double *restrict low, int64_t n,
                              double *restrict out) {
    int64_t i;
    for (i = 0; i < n; i++) out[i] = high[i] + low[i];
}

/* The same of parts with slack: sure[i] where all of the interval rounds to one double (rounding is
   monotone). */
MTA_CLONES
static int mta_sums_within(const double *restrict high, const double *restrict low,
                           const double *restrict slack, int64_t n, double *restrict out,
                           int64_t *restrict sure) {
    int64_t i, all = 1;
    for (i = 0; i < n; i++) {
        double least = high[i] + (low[i] - slack[i]), most = high[i] + (low[i] + slack[i]);
        out[i] = most;
        sure[i] = least == most;
        all &= sure[i];
    }
    return (int)all;
}

/* Means over count[i] values. The quotient is taken to 2^-98, and is sure where that interval rounds to
   one double. Where count is a power of two, rounding the sum is rounding the mean (unless the mean is
   subnormal), and the ties that are common there need no interval. */
MTA_CLONES
static int mta_means_within(const double *restrict high, const double *restrict low,
                            const double *restrict slack, const int64_t *restrict count, int64_t n,
                            double *restrict out, int64_t *restrict sure) {
    const double magic = 4503599627370496.0;
    int64_t i, all = 1;
    for (i = 0; i < n; i++) {
        double rows = mta_from_bits(count[i] + mta_to_bits(magic)) - magic, inverse = 1.0 / rows;
        mta_dd s = mta_two_sum(high[i], low[i]);
        double q = s.hi * inverse, rest = (fma(-q, rows, s.hi) + s.lo) * inverse;
        double off = (0x1p-98 * fabs(s.hi) + slack[i]) * inverse;
        double least = q + (rest - off), most = q + (rest + off);
        int64_t exact = slack[i] == 0.0, power = !(count[i] & (count[i] - 1));
        int64_t normal = (fabs(q) >= 0x1p-900) | (exact & (s.hi == 0.0));
        out[i] = exact & power ? q : most;
        sure[i] = ((exact & power) | (least == most)) & normal & (count[i] > 0);
        all &= sure[i];
    }
    return (int)all;
}

/* Rows that no finite sum holds. */
typedef struct {
    int64_t nans, plus, minus;
} mta_odd;

MTA_INLINE int mta_any_odd(const mta_odd *odd) { return (odd->nans | odd->plus | odd->minus) != 0; }

/* The sum where there are such rows. */
MTA_INLINE double mta_odd_sum(const mta_odd *odd) {
    return odd->nans || (odd->plus && odd->minus) ? NAN : odd->plus ? INFINITY : -INFINITY;
}

MTA_INLINE void mta_count_odd(mta_odd *odd, double x, int64_t sign) {
    *(x != x ? &odd->nans : x > 0 ? &odd->plus : &odd->minus) += sign;
}

/* The sum of the rows of a window: of those on the grid, of finite ones off it, and the others. */
typedef struct {
    mta_grid grid;
    mta_slices sum;
    mta_superaccumulator off;
    int64_t off_rows; /* in `off` */
    int64_t missed;   /* finite rows off the grid that ever came */
    mta_odd odd;
} mta_exact_sum;

static inline void mta_exact_clear(mta_exact_sum *s) {
    mta_odd none = {0, 0, 0};
    s->sum.high = s->sum.low = 0;
    mta_super_clear(&s->off);
    s->off_rows = 0;
    s->odd = none;
}

static inline void mta_exact_init(mta_exact_sum *s) {
    s->grid = mta_grid_of(0);
    s->missed = 0;
    mta_super_init(&s->off);
    mta_exact_clear(s);
}

/* Take a row that is off the grid in (sign 1) or out (sign -1). */
static inline void mta_exact_add_off(mta_exact_sum *s, double x, int64_t sign) {
    if (!isfinite(x)) {
        mta_count_odd(&s->odd, x, sign);
        return;
    }
    mta_super_add(&s->off, x, sign);
    s->off_rows += sign;
    s->missed += sign > 0;
    if (!s->off_rows) mta_super_clear(&s->off);
}

/* Take n rows in or out, at most 2^10 of them. */
static inline void mta_exact_add(mta_exact_sum *s, const double *x, int64_t n, int64_t sign) {
    int64_t i, high, low;
    for (i = 0; i < n; i++) {
        if (mta_cut_one(&s->grid, x[i], &high, &low)) {
            mta_exact_add_off(s, x[i], sign);
        } else {
            s->sum.high += sign * high;
            s->sum.low += sign * low;
        }
    }
    mta_carry(&s->sum.high, &s->sum.low);
}

/* Whether the sum may have grown beyond what 2^10 more rows leave room for. */
static inline int mta_exact_is_large(const mta_exact_sum *s) {
    return s->sum.high >= 1LL << 61 || s->sum.high <= -(1LL << 61);
}

/* The sum of all that is finite, to 128 bits and what is needed to round it. */
static inline mta_leading mta_exact_leading(const mta_exact_sum *s, mta_slices sum) {
    mta_superaccumulator all;
    if (!s->off_rows)
        return mta_leading_of((__int128)sum.high * ((__int128)1 << 52) + sum.low, s->grid.unit);
    all = s->off;
    mta_super_add_at(&all, (uint64_t)llabs(sum.high), s->grid.unit + 52, sum.high < 0 ? -1 : 1);
    mta_super_add_at(&all, (uint64_t)llabs(sum.low), s->grid.unit, sum.low < 0 ? -1 : 1);
    return mta_super_leading(&all);
}

static inline double mta_exact_lower(const mta_exact_sum *s, mta_slices sum) {
    return mta_nearest(mta_exact_leading(s, sum));
}

static inline double mta_exact_lower_mean(const mta_exact_sum *s, mta_slices sum, int64_t n) {
    return n > 0 ? mta_nearest_quotient(mta_exact_leading(s, sum), n) : NAN;
}

/* The rows off the grid, as the nearest double and the nearest to the rest. */
static inline mta_dd mta_exact_base(const mta_exact_sum *s) {
    mta_superaccumulator rest = s->off;
    mta_dd base = {mta_nearest(mta_super_leading(&rest)), 0.0};
    if (!isfinite(base.hi)) return base;
    mta_super_add(&rest, base.hi, -1);
    base.lo = mta_nearest(mta_super_leading(&rest));
    return base;
}

/* The rows up to the first one that is finite and off the grid; of those, what is odd counts apart and
   as 0. slices[i], odd[i]: of the first i rows, once mta_cut has filled slices from 1 on. */
static inline int64_t mta_sort_out(const mta_grid *g, const double *x, int64_t n, mta_slices *slices,
                                   mta_odd *odd) {
    int64_t i, high, low;
    mta_odd none = {0, 0, 0};
    odd[0] = none;
    for (i = 0; i < n; i++) {
        odd[i + 1] = odd[i];
        if (!mta_cut_one(g, x[i], &high, &low)) continue;
        if (isfinite(x[i])) return i;
        mta_count_odd(&odd[i + 1], x[i], 1);
        slices[i + 1].high = slices[i + 1].low = 0;
    }
    return n;
}

/* Whether window i is [first + 1 + i, last + 1 + i). */
MTA_INTEGER_CLONES
static int mta_is_steady(const int64_t *lo, const int64_t *hi, int64_t n, int64_t first, int64_t last) {
    int64_t i, odd = 0;
    for (i = 0; i < n; i++) odd |= (lo[i] ^ (first + 1 + i)) | (hi[i] ^ (last + 1 + i));
    return !odd;
}

/* Where the exponents of some values lie, so that a grid can be chosen that holds most of them. */
enum { MTA_PLACES = 2200 };
typedef struct {
    int32_t lowest[MTA_PLACES], highest[MTA_PLACES]; /* values by place of their last, first bit */
    int32_t values;
} mta_places;

static inline void mta_note_place(mta_places *p, double x) {
    int64_t bits = mta_bits_of(x), mantissa = bits & 0xfffffffffffff;
    int place = (int)(bits >> 52) & 0x7ff;
    if (!isfinite(x) || x == 0.0) return;
    if (place)
        mantissa |= 1LL << 52;
    else
        place = 1;
    p->lowest[place - 1 + __builtin_ctzll((uint64_t)mantissa)]++;
    p->highest[place - 1 + 63 - __builtin_clzll((uint64_t)mantissa)]++;
    p->values++;
}

/* The unit of a grid for sums of `rows` such values: one that holds the most of them, and of these, where
   there is a choice, the least one whose sums stay below 2^51 high units. */
static inline int mta_choose_unit(const mta_places *p, int64_t rows) {
    enum { LAST = MTA_GREATEST_UNIT - MTA_LEAST_UNIT };
    int32_t fine = p->values, coarse = 0, best = -1;
    int unit, least = 0, most = 0, top, wish, place;
    for (place = 0; place < MTA_SPREAD; place++) coarse += p->highest[place];
    for (unit = 0; unit <= LAST; unit++) {
        /* on the grid: last bit at `unit` or above, first bit below unit + MTA_SPREAD */
        int32_t held = fine + coarse - p->values;
        if (held > best) {
            best = held;
            least = most = unit;
        } else if (held == best && most == unit - 1) {
            most = unit;
        }
        fine -= p->lowest[unit];
        coarse += p->highest[unit + MTA_SPREAD];
    }
    top = most + MTA_SPREAD - 1;
    while (top > 0 && !p->highest[top]) top--;
    wish = top + 1 + 64 - __builtin_clzll((uint64_t)rows | 1) - MTA_SPREAD + 1;
    unit = wish < least ? least : wish > most ? most : wish;
    return unit + MTA_LEAST_UNIT;
}

#endif
