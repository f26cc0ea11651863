/* Exact sums of the rows of sliding windows, a few operations a row.

   A grid is the numbers k 2^unit of up to 103 bits, or of up to 207. A double on it is cut into two (or
   four) integers of 52 bits without loss, by additions alone: adding 1.5 2^(e + 52), whose ulp is 2^e,
   rounds to a multiple of that, and the bits of the sum then count these multiples; what is left is cut
   the same way 52 places further down. (The extraction of S. M. Rump, T. Ogita and S. Oishi, "Accurate
   floating-point summation", 2008, with integers for the parts.) Integers are added and subtracted with
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
    MTA_FEW = 2, /* slices of a sum, from the lowest up */
    MTA_MANY = 4,
    MTA_PLACES = 52 /* between two slices */
};

typedef struct {
    int64_t slice[MTA_MANY];
} mta_slices;

/* Two integers in one register. */
typedef int64_t mta_pair __attribute__((vector_size(16), aligned(8), may_alias));

typedef struct {
    double add[MTA_MANY];  /* in order to cut off a slice */
    double unit[MTA_MANY]; /* of each slice */
    double top;            /* no value on it is greater; -1: there is none */
    int exponent;          /* of the lowest unit */
    int slices;
} mta_grid;

/* The greatest exponent of a grid: what is to be added has to be a double. */
static inline int mta_greatest_unit(int slices) { return 1023 - MTA_PLACES * slices; }

/* The bits that a value on a grid may have. */
static inline int mta_grid_span(int slices) { return MTA_PLACES * slices - 1; }

/* Beyond the greatest exponent: a grid that nothing lies on. */
static inline mta_grid mta_grid_of(int exponent, int slices) {
    int held = exponent, k;
    mta_grid g;
    if (held > mta_greatest_unit(slices)) held = mta_greatest_unit(slices);
    for (k = 0; k < MTA_MANY; k++) {
        g.add[k] = k < slices ? ldexp(1.5, held + MTA_PLACES * (k + 1)) : 0.0;
        g.unit[k] = k < slices ? ldexp(1.0, held + MTA_PLACES * k) : 0.0;
    }
    g.top = exponent > held ? -1.0 : ldexp(1.0, held + mta_grid_span(slices));
    g.exponent = held;
    g.slices = slices;
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

/* Cut x into `slices` = g->slices; whether it is off the grid, in which case they are worthless. For
   |x| <= top every subtraction is exact: the larger operand of each addition comes second (Dekker). */
MTA_INLINE int64_t mta_cut_one(int slices, const mta_grid *g, double x, int64_t *out) {
    double left = x;
    int k;
    for (k = slices - 1; k >= 0; k--) {
        double sum = left + g->add[k];
        out[k] = mta_to_bits(sum) - mta_to_bits(g->add[k]);
        left -= sum - g->add[k];
    }
    return (int64_t)(left != 0.0) | (int64_t)!(fabs(x) <= g->top);
}

/* Cut n values, `slices` integers each; whether any is off the grid. */
MTA_INTEGER_CLONES
static int64_t mta_cut(const mta_grid *grid, const double *restrict x, int64_t n,
                       int64_t *restrict out) {
    const mta_grid g = *grid;
    int64_t i, off = 0;
    if (g.slices == MTA_FEW)
        for (i = 0; i < n; i++) off |= mta_cut_one(MTA_FEW, &g, x[i], out + MTA_FEW * i);
    else
        for (i = 0; i < n; i++) off |= mta_cut_one(MTA_MANY, &g, x[i], out + MTA_MANY * i);
    return off;
}

MTA_INLINE int64_t mta_cut_change(int slices, const mta_grid *g, double x, double y, int64_t *out) {
    int64_t gone[MTA_MANY];
    int64_t off = mta_cut_one(slices, g, x, out) | mta_cut_one(slices, g, y, gone);
    int k;
    for (k = 0; k < slices; k++) out[k] -= gone[k];
    return off;
}

/* Cut x[i] - y[i]; whether any of them is off the grid. */
MTA_INTEGER_CLONES
static int64_t mta_cut_changes(const mta_grid *grid, const double *restrict x,
                               const double *restrict y, int64_t n, int64_t *restrict out) {
    const mta_grid g = *grid;
    int64_t i, off = 0;
    if (g.slices == MTA_FEW)
        for (i = 0; i < n; i++) off |= mta_cut_change(MTA_FEW, &g, x[i], y[i], out + MTA_FEW * i);
    else
        for (i = 0; i < n; i++) off |= mta_cut_change(MTA_MANY, &g, x[i], y[i], out + MTA_MANY * i);
    return off;
}

/* Running totals from `start` on, in place; the last one. */
static inline mta_slices mta_run_up(int slices, mta_slices start, int64_t *x, int64_t n) {
    mta_pair *pair = (mta_pair *)x, low = {start.slice[0], start.slice[1]};
    mta_pair high = {start.slice[2], start.slice[3]};
    int64_t i;
    if (slices == MTA_FEW)
        for (i = 0; i < n; i++) pair[i] = low += pair[i];
    else
        for (i = 0; i < n; i++) {
            pair[2 * i] = low += pair[2 * i];
            pair[2 * i + 1] = high += pair[2 * i + 1];
        }
    start.slice[0] = low[0];
    start.slice[1] = low[1];
    start.slice[2] = high[0];
    start.slice[3] = high[1];
    return start;
}

/* out[i] = start + entered[hi[i] - last] - left[lo[i] - first]. */
static inline void mta_join_slices(int slices, mta_slices start, const int64_t *entered,
                                   const int64_t *left, const int64_t *lo, const int64_t *hi,
                                   int64_t first, int64_t last, int64_t n, int64_t *out) {
    const mta_pair *in = (const mta_pair *)entered, *gone = (const mta_pair *)left;
    mta_pair *sum = (mta_pair *)out, low = {start.slice[0], start.slice[1]};
    mta_pair high = {start.slice[2], start.slice[3]};
    int64_t i;
    if (slices == MTA_FEW)
        for (i = 0; i < n; i++) sum[i] = low + in[hi[i] - last] - gone[lo[i] - first];
    else
        for (i = 0; i < n; i++) {
            sum[2 * i] = low + in[2 * (hi[i] - last)] - gone[2 * (lo[i] - first)];
            sum[2 * i + 1] = high + in[2 * (hi[i] - last) + 1] - gone[2 * (lo[i] - first) + 1];
        }
}

/* What a slice carries to the next one up, if it is to stay in [-2^51, 2^51). For |x| < 2^62. */
MTA_INLINE int64_t mta_carry_of(int64_t x) {
    return (int64_t)(((uint64_t)x + ((1ULL << 62) + (1ULL << 51))) >> 52) - (1 << 10);
}

/* Carry in all slices but the highest. */
MTA_INLINE void mta_carry(int slices, int64_t *x) {
    int k;
    for (k = 0; k < slices - 1; k++) {
        int64_t carry = mta_carry_of(x[k]);
        x[k] -= carry * (1LL << 52);
        x[k + 1] += carry;
    }
}

/* A slice of at most 51 bits as a double: the bits of 1.5 2^52 count ones. */
MTA_INLINE double mta_slice_value(int64_t x, double unit) {
    const double one = 6755399441055744.0;
    return (mta_from_bits(x + mta_to_bits(one)) - one) * unit;
}

/* The windows' sums as high[i] + low[i], both exact; false where a high part is beyond 2^51 units. */
MTA_INTEGER_CLONES
static int mta_exact_parts(const mta_grid *grid, const int64_t *restrict sums, int64_t n,
                           double *restrict high, double *restrict low) {
    const double unit_high = grid->unit[1], unit_low = grid->unit[0];
    uint64_t large = 0;
    int64_t i;
    for (i = 0; i < n; i++) {
        int64_t x[MTA_FEW] = {sums[2 * i], sums[2 * i + 1]};
        mta_carry(MTA_FEW, x);
        large |= (uint64_t)x[1] + (1ULL << 51);
        high[i] = mta_slice_value(x[1], unit_high);
        low[i] = mta_slice_value(x[0], unit_low);
    }
    return large >> 52 == 0;
}

/* Four windows at a time: the loops above in one, with nothing stored in between. */
typedef uint64_t mta_u4_at __attribute__((vector_size(32), aligned(8), may_alias));

/* x[0], x[0] + x[1], ... onto *total, which becomes the last of them. */
MTA_INLINE void mta_run_up_four(mta_i4_at *x, mta_i4_at *total) {
    const mta_i4_at none = {0, 0, 0, 0};
    *x += MTA_SHUFFLE(*x, none, 4, 0, 1, 2);
    *x += MTA_SHUFFLE(*x, none, 4, 4, 0, 1);
    *x += *total;
    *total = MTA_SHUFFLE(*x, none, 3, 3, 3, 3);
}

/* mta_exact_parts of n windows, a multiple of 4, which move on from `sum` by one row each: x[i] enters,
   and y[i], which is on the grid, leaves. Where `sums` is not NULL, the sums as well: answers wait for
   memory, which goes unnoticed here. False, and nothing is valid, where an x is off the grid or a high
   part beyond 2^51 units. */
MTA_INTEGER_CLONES
static int mta_steady_parts(const mta_grid *grid, const double *x, const double *y, int64_t n,
                            mta_slices *sum, double *high_part, double *low_part, double *sums) {
    const mta_grid g = *grid;
    const mta_i4_at none = {0, 0, 0, 0};
    const mta_f4_at ones = {1.0, 1.0, 1.0, 1.0};
    const mta_f4_at one = 6755399441055744.0 * ones, coarse = g.add[1] * ones, fine = g.add[0] * ones;
    mta_i4_at low = sum->slice[0] + none, high = sum->slice[1] + none, off = none;
    mta_u4_at large = {0, 0, 0, 0};
    int64_t i;
    for (i = 0; i < n; i += 4) {
        mta_f4_at a = MTA_F4_CONST(x + i), b = MTA_F4_CONST(y + i);
        mta_f4_at a1 = a + coarse, b1 = b + coarse, left = a - (a1 - coarse);
        mta_f4_at a0 = left + fine, b0 = (b - (b1 - coarse)) + fine;
        mta_i4_at size = (mta_i4_at)a & INT64_MAX, carry;
        mta_f4_at upper, lower;
        mta_i4_at h = (mta_i4_at)a1 - (mta_i4_at)b1, l = (mta_i4_at)a0 - (mta_i4_at)b0;
        off |= (left != a0 - fine) | ~((mta_f4_at)size <= g.top * ones);
        mta_run_up_four(&h, &high);
        mta_run_up_four(&l, &low);
        carry = (mta_i4_at)(((mta_u4_at)l + ((1ULL << 62) + (1ULL << 51))) >> 52) - (1 << 10);
        l -= carry << 52;
        h += carry;
        large |= (mta_u4_at)h + (1ULL << 51);
        upper = ((mta_f4_at)(h + (mta_i4_at)one) - one) * g.unit[1];
        lower = ((mta_f4_at)(l + (mta_i4_at)one) - one) * g.unit[0];
        MTA_F4(high_part + i) = upper;
        MTA_F4(low_part + i) = lower;
        if (sums) MTA_F4(sums + i) = upper + lower;
    }
    sum->slice[0] = low[0];
    sum->slice[1] = high[0];
    large >>= 52;
    return !(off[0] | off[1] | off[2] | off[3]) && !(large[0] | large[1] | large[2] | large[3]);
}

/* The sum of slices of any size as a double, the rest, and how far off the rest may be. */
MTA_INLINE void mta_add_up(int slices, const mta_grid *g, const int64_t *sum, double *high,
                           double *low, double *slack) {
    int64_t x[MTA_MANY + 1];
    double total, rest = 0.0, size = 0.0;
    int k;
    for (k = 0; k < slices; k++) x[k] = sum[k];
    x[slices] = 0;
    mta_carry(slices + 1, x);
    total = mta_slice_value(x[0], g->unit[0]);
    /* Each slice is less than half of the next one's unit: totals cancel by one bit at most. */
    for (k = 1; k <= slices; k++) {
        double unit = k < slices ? g->unit[k] : g->unit[k - 1] * 0x1p52;
        mta_dd s = mta_two_sum(mta_slice_value(x[k], unit), total);
        total = s.hi;
        rest += s.lo;
        size += fabs(s.lo);
    }
    *high = total;
    *low = rest;
    *slack = 0x1p-50 * size;
}

MTA_INTEGER_CLONES
static void mta_near_parts(const mta_grid *grid, const int64_t *restrict sums, int64_t n,
                           double *restrict high, double *restrict low, double *restrict slack) {
    const mta_grid g = *grid;
    int64_t i;
    if (g.slices == MTA_FEW)
        for (i = 0; i < n; i++)
            mta_add_up(MTA_FEW, &g, sums + MTA_FEW * i, &high[i], &low[i], &slack[i]);
    else
        for (i = 0; i < n; i++)
            mta_add_up(MTA_MANY, &g, sums + MTA_MANY * i, &high[i], &low[i], &slack[i]);
}

/* Add `base`, good to half an ulp of its low part. */
MTA_CLONES
static void mta_add_base(mta_dd base, int64_t n, double *restrict high, double *restrict low,
                         double *restrict slack) {
    int64_t i;
    for (i = 0; i < n; i++) {
        mta_dd s = mta_two_sum(base.hi, high[i]);
        double rest = (base.lo + low[i]) + s.lo;
        /* Two additions and the base err by 2^-52 of these at most. */
        slack[i] += 0x1p-50 * ((fabs(base.lo) + fabs(low[i])) + fabs(s.lo)) + 0x1p-1070;
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
    memset(&s->sum, 0, sizeof s->sum);
    memset(&s->odd, 0, sizeof s->odd);
    mta_super_clear(&s->off);
    s->off_rows = 0;
}

static inline void mta_exact_init(mta_exact_sum *s) {
    s->grid = mta_grid_of(0, MTA_FEW);
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

MTA_INLINE void mta_exact_add_few(int slices, mta_exact_sum *s, const double *x, int64_t n, int64_t sign) {
    int64_t i, cut[MTA_MANY];
    int k;
    for (i = 0; i < n; i++) {
        if (mta_cut_one(slices, &s->grid, x[i], cut))
            mta_exact_add_off(s, x[i], sign);
        else
            for (k = 0; k < slices; k++) s->sum.slice[k] += sign * cut[k];
    }
    mta_carry(slices, s->sum.slice);
}

/* Take n rows in or out, at most 2^10 of them. */
static inline void mta_exact_add(mta_exact_sum *s, const double *x, int64_t n, int64_t sign) {
    if (s->grid.slices == MTA_FEW)
        mta_exact_add_few(MTA_FEW, s, x, n, sign);
    else
        mta_exact_add_few(MTA_MANY, s, x, n, sign);
}

/* Whether the sum may have grown beyond what 2^10 more rows leave room for. */
static inline int mta_exact_is_large(const mta_exact_sum *s) {
    return llabs(s->sum.slice[s->grid.slices - 1]) >= 1LL << 61;
}

/* The sum of all that is finite, to 128 bits and what is needed to round it. */
static inline mta_leading mta_exact_leading(const mta_exact_sum *s, const mta_slices *sum) {
    const int64_t *x = sum->slice;
    mta_superaccumulator all;
    int k;
    if (!s->off_rows && s->grid.slices == MTA_FEW)
        return mta_leading_of((__int128)x[1] * ((__int128)1 << MTA_PLACES) + x[0], s->grid.exponent);
    all = s->off;
    for (k = 0; k < s->grid.slices; k++)
        mta_super_add_at(&all, (uint64_t)llabs(x[k]), s->grid.exponent + MTA_PLACES * k,
                         x[k] < 0 ? -1 : 1);
    return mta_super_leading(&all);
}

static inline double mta_exact_lower(const mta_exact_sum *s, const mta_slices *sum) {
    return mta_nearest(mta_exact_leading(s, sum));
}

static inline double mta_exact_lower_mean(const mta_exact_sum *s, const mta_slices *sum, int64_t n) {
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

/* Rows that are infinite or NaN, by their numbers in a stretch of rows. */
enum { MTA_STRETCH_ROWS = 512 };
typedef struct {
    int64_t n;
    int64_t row[MTA_STRETCH_ROWS];
} mta_aside;

/* Copy n rows with 0 for those that are set aside. (No branches: they may be one in two.) */
static inline void mta_set_aside(const double *x, int64_t n, double *rest, mta_aside *aside) {
    int64_t i, k = 0;
    for (i = 0; i < n; i++) {
        int finite = fabs(x[i]) <= DBL_MAX;
        rest[i] = finite ? x[i] : 0.0;
        aside->row[k] = i;
        k += !finite;
    }
    aside->n = k;
}

/* The first row off the grid; n if there is none. */
static inline int64_t mta_first_off(const mta_grid *g, const double *x, int64_t n) {
    int64_t i, cut[MTA_MANY];
    for (i = 0; i < n; i++)
        if (mta_cut_one(g->slices, g, x[i], cut)) return i;
    return n;
}

/* out[i] = start, the rows aside of those entered before hi[i], less those of those left before lo[i]. */
static inline void mta_join_odd(mta_odd start, const double *entered, const mta_aside *in,
                                const double *left, const mta_aside *gone, const int64_t *lo,
                                const int64_t *hi, int64_t first, int64_t last, int64_t n, mta_odd *out) {
    int64_t i, j = 0, k = 0;
    for (i = 0; i < n; i++) {
        for (; j < in->n && in->row[j] < hi[i] - last; j++) mta_count_odd(&start, entered[in->row[j]], 1);
        for (; k < gone->n && gone->row[k] < lo[i] - first; k++)
            mta_count_odd(&start, left[gone->row[k]], -1);
        out[i] = start;
    }
}

/* Whether the first of n windows is one row on from [first, last), and so on. */
static inline int mta_moves_by_one(const int64_t *lo, const int64_t *hi, int64_t n, int64_t first,
                                   int64_t last) {
    return lo[0] == first + 1 && hi[0] == last + 1 && mta_is_steady(lo, hi, n);
}

/* Where the first and last bits of some values lie, so that a grid can be chosen that holds most. */
enum { MTA_BITS = 2400 };
typedef struct {
    int32_t lowest[MTA_BITS], highest[MTA_BITS]; /* values, by the place of that bit above 2^-1074 */
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

/* The grid of so many slices that holds the most values, and how many it misses. Where there is a choice:
   one as fine as may be, as long as sums of `rows` values stay below 2^51 high units. */
static inline mta_grid mta_best_grid(const mta_places *p, int slices, int64_t rows, int32_t *missed) {
    int spread = mta_grid_span(slices), last = mta_greatest_unit(slices) - MTA_LOWEST;
    int32_t fine = p->values, coarse = 0, best = -1;
    int unit, least = 0, most = 0, top, wish;
    for (unit = 0; unit < spread; unit++) coarse += p->highest[unit];
    for (unit = 0; unit <= last; unit++) {
        /* on the grid: last bit at `unit` or above, first bit below unit + spread */
        int32_t held = fine + coarse - p->values;
        if (held > best) {
            best = held;
            least = most = unit;
        } else if (held == best && most == unit - 1) {
            most = unit;
        }
        fine -= p->lowest[unit];
        coarse += p->highest[unit + spread];
    }
    top = most + spread - 1;
    while (top > 0 && !p->highest[top]) top--;
    wish = top + 2 + 64 - __builtin_clzll((uint64_t)rows | 1) - spread;
    unit = wish < least ? least : wish > most ? most : wish;
    *missed = p->values - best;
    return mta_grid_of(unit + MTA_LOWEST, slices);
}

/* Twice the slices cost twice the time, which pays where more than one value in 1,024 needs them. */
static inline mta_grid mta_choose_grid(const mta_places *p, int64_t rows) {
    int32_t missed_by_few, missed_by_many;
    mta_grid few = mta_best_grid(p, MTA_FEW, rows, &missed_by_few), many;
    if (1024LL * missed_by_few <= p->values) return few;
    many = mta_best_grid(p, MTA_MANY, rows, &missed_by_many);
    return missed_by_many < missed_by_few ? many : few;
}

#endif
