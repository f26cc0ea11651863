/* What the partials of higher powers, pairs and products share: double-doubles that are multiplied,
   divided and rooted, scales that keep powers inside the range of the doubles, and differences
   x - k of a column of doubles or integers, a block of rows at a time. */
#ifndef MTA_ALGEBRA_H
#define MTA_ALGEBRA_H

#include "_precise.h"

#include <stddef.h>
#include <string.h>

/* In structs that malloc places. */
typedef mta_f4 mta_lanes __attribute__((aligned(8)));

#define MTA_COLD __attribute__((noinline, cold, unused))

/* ------------------------------------------------------------------------------ double-doubles */

MTA_INLINE mta_dd mta_dd_of(double hi, double lo) {
    mta_dd r = {hi, lo};
    return r;
}

/* The same number with |lo| at most half a unit of hi; for |hi| >= |lo| or hi = 0. */
MTA_INLINE mta_dd mta_dd_normal(mta_dd a) {
    double s = a.hi + a.lo;
    return mta_dd_of(s, a.lo - (s - a.hi));
}

MTA_INLINE mta_dd mta_dd_minus(mta_dd a, mta_dd b) {
    return mta_dd_add(a, mta_dd_of(-b.hi, -b.lo));
}

MTA_INLINE mta_dd mta_dd_times(mta_dd a, double b) {
    double p = a.hi * b;
    return mta_dd_of(p, fma(a.hi, b, -p) + a.lo * b);
}

MTA_INLINE mta_dd mta_dd_square(mta_dd a) {
    double p = a.hi * a.hi;
    return mta_dd_of(p, fma(a.hi, a.hi, -p) + 2.0 * (a.hi * a.lo));
}

/* a / b for normal b, good to 2^-103. NaN for b = 0. */
MTA_INLINE mta_dd mta_dd_over(mta_dd a, mta_dd b) {
    double inverse = 1.0 / b.hi, q = a.hi * inverse;
    return mta_dd_of(q, (fma(-q, b.hi, a.hi) + (a.lo - q * b.lo)) * inverse);
}

/* For normal a >= 0. */
MTA_INLINE mta_dd mta_dd_root(mta_dd a) {
    double s = sqrt(a.hi), half = a.hi > 0.0 ? 0.5 / s : 0.0;
    return mta_dd_of(s, (fma(-s, s, a.hi) + a.lo) * half);
}

/* The quotient or product as one double; see mta_round. */
MTA_INLINE double mta_dd_round(mta_dd a) {
    a = mta_dd_normal(a);
    return mta_round(a.hi, a.lo);
}

/* a 2^e where that is below the normal doubles, rounded once. */
MTA_COLD static double mta_round_subnormal(mta_dd a, int e) {
    double units = ldexp(a.hi, e + 1074), whole = rint(units), rest = units - whole;
    if (rest == 0.5 && a.lo > 0.0) whole += 1.0;
    if (rest == -0.5 && a.lo < 0.0) whole -= 1.0;
    return ldexp(whole, -1074);
}

/* a 2^e as a double; a is normal and neither tiny nor huge. */
MTA_INLINE double mta_round_scaled(mta_dd a, int64_t e) {
    double v = mta_round(a.hi, a.lo), scaled;
    if (e == 0) return v;
    e = e < -5000 ? -5000 : e > 5000 ? 5000 : e;
    scaled = ldexp(v, (int)e);
    return fabs(scaled) >= DBL_MIN || a.hi == 0.0 ? scaled : mta_round_subnormal(a, (int)e);
}

/* -------------------------------------------------------------------------------------- scales

   Fourth powers of doubles leave the doubles' range from 2^256 on and lose their low parts below
   2^-242. Sums of powers are therefore those of d 2^(-200 scale), where the scale is that of the
   greatest |d| so far: what it makes too small to be told from 0 is then below 2^-1000 of the
   greatest power. Data of usual size has scale 0 throughout; a change of scale is exact. */
enum { MTA_STEP = 200, MTA_TOP = 5, MTA_BOTTOM = -5 };

MTA_INLINE double mta_two_to(int e) {
    uint64_t bits = (uint64_t)(1023 + e) << 52;
    double r;
    memcpy(&r, &bits, sizeof r);
    return r;
}

/* Every |d| of this scale is less. */
MTA_INLINE double mta_scale_limit(int scale) {
    return scale == MTA_TOP ? INFINITY : mta_two_to(MTA_STEP * scale + MTA_STEP / 2);
}

/* The least scale that |d| is below the limit of; the greatest for what is not finite. */
MTA_INLINE int mta_scale_of(double d) {
    int scale = MTA_BOTTOM;
    while (scale < MTA_TOP && !(fabs(d) < mta_scale_limit(scale))) scale++;
    return scale;
}

/* What a scale that is higher by `up` multiplies a sum of first powers with; 0 for what is then out
   of sight. Only sums of zeros go to a lower one. */
MTA_INLINE double mta_down(int64_t up) {
    return up > MTA_TOP ? 0.0 : up < 0 ? 1.0 : mta_two_to((int)(-MTA_STEP * up));
}

/* --------------------------------------------------------------------------------- differences */

enum { MTA_BLOCK = 64 };    /* rows that are prepared at a time */

/* A column, addressed by row number, and the value k that differences are taken from. */
typedef struct {
    const double *f;
    const int64_t *i;    /* integers; else NULL */
    int64_t flip;        /* of unsigned ones: turns their order into that of signed ones */
    double k;
    int64_t ki;
} mta_column;

MTA_INLINE void mta_around_row(mta_column *c, int64_t row) {
    if (c->i) c->ki = c->i[row];
    else c->k = c->f[row];
}

/* x - k of integers, exactly: upper and lower halves are exact apart. */
MTA_INLINE mta_dd mta_int_difference(int64_t x, int64_t k, int64_t flip) {
    int64_t upper = ((x ^ flip) >> 32) - ((k ^ flip) >> 32);
    int64_t lower = (int64_t)(uint32_t)x - (int64_t)(uint32_t)k;
    return mta_two_sum(4294967296.0 * (double)upper, (double)lower);
}

MTA_COLD static void mta_wide_differences(const mta_column *c, const uint8_t *valid, int64_t row,
                                          int64_t n, double *hi, double *lo) {
    int64_t j;
    for (j = 0; j < n; j++) {
        mta_dd d = mta_int_difference(c->i[row + j], c->ki, c->flip);
        int there = !valid || valid[row + j];
        hi[j] = there ? d.hi : 0.0;
        lo[j] = there ? d.lo : 0.0;
    }
}

/* Differences below 2^51 become doubles by way of the bits of 2^52 + 2^51 + d. */
MTA_INLINE void mta_int_differences(const mta_column *c, const uint8_t *valid, int64_t row,
                                    int64_t n, double *hi, double *lo) {
    const uint64_t magic = 0x4338000000000000u;
    const uint64_t flip = (uint64_t)c->flip, k = (uint64_t)c->ki ^ flip;
    uint64_t odd = 0;
    int64_t j;
    for (j = 0; j < n; j++) {
        uint64_t x = (uint64_t)c->i[row + j] ^ flip, d = x - k, bits;
        uint64_t wrapped = ((x ^ k) & (x ^ d)) >> 63;
        uint64_t there = valid ? -(uint64_t)(valid[row + j] != 0) : ~(uint64_t)0;
        odd |= (wrapped | ((d + ((uint64_t)1 << 51)) >> 52)) & there;
        bits = (d & there) + magic;
        memcpy(&hi[j], &bits, sizeof bits);
        lo[j] = 0.0;
    }
    if (odd) {
        mta_wide_differences(c, valid, row, n, hi, lo);
        return;
    }
    for (j = 0; j < n; j++) hi[j] -= 6755399441055744.0;
}

MTA_INLINE void mta_float_differences(const mta_column *c, const uint8_t *valid, double before,
                                      int64_t row, int64_t n, double *hi, double *lo) {
    const double *x = c->f + row;
    const double k = c->k * before;
    int64_t j;
    for (j = 0; j < n; j++) {
        mta_dd d = mta_two_sum(x[j] * before, -k);
        hi[j] = d.hi;
        lo[j] = d.lo;
    }
    if (!valid) return;
    for (j = 0; j < n; j++) {
        hi[j] = valid[row + j] ? hi[j] : 0.0;
        lo[j] = valid[row + j] ? lo[j] : 0.0;
    }
}

/* At the greatest scale the difference of finite values may overflow: it is taken of quarters. */
MTA_INLINE double mta_before(const mta_column *c, int scale) {
    return scale == MTA_TOP && !c->i ? 0.25 : 1.0;
}

MTA_INLINE void mta_differences(const mta_column *c, const uint8_t *valid, int scale, int64_t row,
                                int64_t n, double *hi, double *lo) {
    if (c->i) mta_int_differences(c, valid, row, n, hi, lo);
    else mta_float_differences(c, valid, mta_before(c, scale), row, n, hi, lo);
}

/* How many of n differences, from the front (or, backwards, the end), are of this scale. */
MTA_INLINE int64_t mta_fit(const double *hi, int64_t n, int scale, int backwards) {
    const double limit = mta_scale_limit(scale);
    int64_t j, odd = 0;
    if (scale == MTA_TOP) return n;
    for (j = 0; j < n; j++) odd |= !(fabs(hi[j]) < limit);
    if (!odd) return n;
    if (backwards) {
        for (j = n; fabs(hi[j - 1]) < limit;) j--;
        return n - j;
    }
    for (j = 0; fabs(hi[j]) < limit;) j++;
    return j;
}

/* Differences of n rows, 0 where a row is null, before they are scaled, and how many of them fit
   the scale. That becomes the one of the row next to those that are in already; or, as long as all
   of these are at k, of the next row that is not. */
MTA_INLINE int64_t mta_fitting_differences(const mta_column *c, const uint8_t *valid, int *scale,
                                           int none_yet, int backwards, int64_t row, int64_t n,
                                           double *hi, double *lo) {
    int64_t j = backwards ? n - 1 : 0, step = backwards ? -1 : 1, left = none_yet ? n : 1;
    mta_differences(c, valid, *scale, row, n, hi, lo);
    for (; left > 1 && hi[j] == 0.0; left--) j += step;
    if (*scale < MTA_TOP && !(fabs(hi[j]) < mta_scale_limit(*scale))) {
        *scale = mta_scale_of(hi[j]);
        if (*scale == MTA_TOP) mta_differences(c, valid, *scale, row, n, hi, lo);
    }
    return mta_fit(hi, n, *scale, backwards);
}

/* What takes these differences to their scale. */
MTA_INLINE double mta_after(const mta_column *c, int scale) {
    return mta_two_to(-MTA_STEP * scale) / mta_before(c, scale);
}

/* The number of a cell, and k of a partial of one row. */
MTA_INLINE mta_dd mta_number(const mta_column *c, int64_t row) {
    if (!c->i) return mta_dd_of(c->f[row], 0.0);
    return mta_int_difference(c->i[row], 0, c->flip);
}

/* What a column's differences are taken from. */
MTA_INLINE mta_dd mta_origin(const mta_column *c) {
    if (!c->i) return mta_dd_of(c->k, 0.0);
    return mta_int_difference(c->ki, 0, c->flip);
}

/* from - to; of integers, high parts alone may cancel to 0. */
MTA_INLINE mta_dd mta_far(mta_dd from, mta_dd to, double before) {
    mta_dd d = mta_two_sum(from.hi * before, -to.hi * before);
    return mta_two_sum(d.hi, d.lo + (from.lo - to.lo) * before);
}

/* The difference of two values that sums are around, at *scale, or at its own if that is higher. */
MTA_INLINE mta_dd mta_shift(mta_dd from, mta_dd to, int *scale) {
    int own = mta_scale_of(mta_far(from, to, 1.0).hi);
    double before, after;
    mta_dd d;
    if (own > *scale) *scale = own;
    before = *scale == MTA_TOP ? 0.25 : 1.0;
    after = mta_two_to(-MTA_STEP * *scale) / before;
    d = mta_far(from, to, before);
    return mta_dd_of(d.hi * after, d.lo * after);
}

/* ----------------------------------------------------------------------------------- transposes */

/* Rows of four into columns of four. */
MTA_INLINE void mta_turn(mta_f4 *r) {
    mta_f4 a = MTA_SHUFFLE(r[0], r[1], 0, 4, 2, 6), b = MTA_SHUFFLE(r[0], r[1], 1, 5, 3, 7);
    mta_f4 c = MTA_SHUFFLE(r[2], r[3], 0, 4, 2, 6), d = MTA_SHUFFLE(r[2], r[3], 1, 5, 3, 7);
    r[0] = MTA_SHUFFLE(a, c, 0, 1, 4, 5);
    r[1] = MTA_SHUFFLE(b, d, 0, 1, 4, 5);
    r[2] = MTA_SHUFFLE(a, c, 2, 3, 6, 7);
    r[3] = MTA_SHUFFLE(b, d, 2, 3, 6, 7);
}

#define MTA_COLUMNS(block, j) \
    (const double *const[]){(block)[0] + (j), (block)[1] + (j), (block)[2] + (j), (block)[3] + (j)}

/* n numbers of four columns into the lanes at `at` in n structs of a size. */
MTA_INLINE void mta_columns_to_lanes(const double *const *columns, int64_t n, void *structs,
                                     size_t size, size_t at) {
    char *out = (char *)structs + at;
    int64_t j;
    int p;
    for (j = 0; j + 4 <= n; j += 4, out += 4 * size) {
        mta_f4 r[4];
        for (p = 0; p < 4; p++) r[p] = *(const mta_lanes *)(columns[p] + j);
        mta_turn(r);
        for (p = 0; p < 4; p++) *(mta_lanes *)(out + p * size) = r[p];
    }
    for (; j < n; j++, out += size)
        *(mta_lanes *)out = (mta_lanes){columns[0][j], columns[1][j], columns[2][j], columns[3][j]};
}

/* And back. */
MTA_INLINE void mta_lanes_to_columns(const void *structs, size_t size, size_t at, int64_t n,
                                     double (*columns)[MTA_BLOCK]) {
    const char *in = (const char *)structs + at;
    int64_t j;
    int p;
    for (j = 0; j + 4 <= n; j += 4, in += 4 * size) {
        mta_f4 r[4];
        for (p = 0; p < 4; p++) r[p] = *(const mta_lanes *)(in + p * size);
        mta_turn(r);
        for (p = 0; p < 4; p++) *(mta_lanes *)(columns[p] + j) = r[p];
    }
    for (; j < n; j++, in += size)
        for (p = 0; p < 4; p++) columns[p][j] = (*(const mta_lanes *)in)[p];
}

#endif
