/* Sums of the first four powers of x - k: skewness and kurtosis. */
#ifndef MTA_POWERS_H
#define MTA_POWERS_H

#include "_algebra.h"

/* Sums of d, d^2, d^3 and d^4 for d = (x - k) 2^(-200 scale), as double-doubles. */
typedef struct {
    mta_lanes hi, lo;
    int64_t scale;
} mta_powers;

typedef struct {
    mta_column x;
    const uint8_t *valid;
} mta_powers_rows;

MTA_INLINE void mta_powers_clear(mta_powers *r) {
    memset(r, 0, sizeof *r);
    r->scale = MTA_BOTTOM;
}

MTA_INLINE void mta_powers_rescale(mta_powers *r, int64_t scale) {
    double down = mta_down(scale - r->scale), square = down * down;
    mta_f4 factors = {down, square, square * down, square * square};
    r->hi *= factors;
    r->lo *= factors;
    r->scale = scale;
}

MTA_INLINE void mta_powers_add(mta_powers *out, const mta_powers *a, const mta_powers *b) {
    mta_f4 x = a->hi, y = b->hi, s = x + y, t = s - x;
    out->lo = (a->lo + b->lo) + ((x - (s - t)) + (y - t));
    out->hi = s;
    out->scale = a->scale;
}

/* Nothing but values equal to k: no square underflows at a scale that a value has. Such a partial
   may have any scale. */
MTA_INLINE int mta_powers_none(const mta_powers *r) { return r->hi[1] == 0.0; }

MTA_INLINE void mta_powers_join(mta_powers *out, const mta_powers *a, const mta_powers *b) {
    mta_powers x, y;
    if (__builtin_expect(a->scale == b->scale, 1)) {
        mta_powers_add(out, a, b);
    } else if (mta_powers_none(a) || mta_powers_none(b)) {
        *out = mta_powers_none(a) ? *b : *a;
    } else {
        x = *a;
        y = *b;
        mta_powers_rescale(&x, x.scale > y.scale ? x.scale : y.scale);
        mta_powers_rescale(&y, x.scale);
        mta_powers_add(out, &x, &y);
    }
}

MTA_CLONES
static int64_t mta_powers_prepare(const mta_powers_rows *rows, mta_powers *r, int64_t lo,
                                  int64_t hi, int backwards, mta_powers *one) {
    double h[4][MTA_BLOCK], l[4][MTA_BLOCK], after;
    int scale = (int)r->scale;
    int64_t n = hi - lo, j;
    int64_t fit = mta_fitting_differences(&rows->x, rows->valid, &scale, mta_powers_none(r),
                                          backwards, lo, n, h[0], l[0]);
    if (scale != r->scale) mta_powers_rescale(r, scale);
    after = mta_after(&rows->x, scale);
    for (j = 0; j < n; j++) {
        mta_dd d = {h[0][j] * after, l[0][j] * after}, d2 = mta_dd_square(d);
        mta_dd d3 = mta_dd_mul(d2, d), d4 = mta_dd_square(d2);
        h[0][j] = d.hi;
        l[0][j] = d.lo;
        h[1][j] = d2.hi;
        l[1][j] = d2.lo;
        h[2][j] = d3.hi;
        l[2][j] = d3.lo;
        h[3][j] = d4.hi;
        l[3][j] = d4.lo;
    }
    j = backwards ? n - fit : 0;
    mta_columns_to_lanes(MTA_COLUMNS(h, j), fit, one, sizeof *one, offsetof(mta_powers, hi));
    mta_columns_to_lanes(MTA_COLUMNS(l, j), fit, one, sizeof *one, offsetof(mta_powers, lo));
    for (j = 0; j < fit; j++) one[j].scale = r->scale;
    return fit;
}

#define MTA_PART powers
#include "_halves.h"

/* -------------------------------------------------------------------------------- the monoid */

/* The partial of rows whose k is its own: any two combine. */
typedef struct {
    int64_t n;
    mta_dd k;
    mta_powers sums;
} mta_powers_part;

/* Of one value, around itself: all differences are 0. */
MTA_INLINE void mta_powers_begin(mta_powers_part *out, mta_dd k) {
    mta_powers_clear(&out->sums);
    out->n = 1;
    out->k = k;
    /* Infinities and NaN poison the sums here, so that combine needs no case for them. */
    if (!isfinite(out->k.hi)) {
        out->sums.hi += out->k.hi - out->k.hi;
        out->sums.scale = MTA_TOP;
    }
}

MTA_INLINE void mta_powers_lift(mta_powers_part *out, const mta_column *x, int64_t row) {
    mta_powers_begin(out, mta_number(x, row));
}

/* Sums around another k: x - k = (x - old k) + d. */
MTA_CLONES
static void mta_powers_move(mta_powers *r, mta_dd d, double n) {
    mta_dd s1 = {r->hi[0], r->lo[0]}, s2 = {r->hi[1], r->lo[1]}, s3 = {r->hi[2], r->lo[2]};
    mta_dd s4 = {r->hi[3], r->lo[3]}, nd = mta_dd_times(d, n), a, b;
    /* s4 + d (4 s3 + d (6 s2 + d (4 s1 + n d))), and so on */
    a = mta_dd_add(mta_dd_times(s1, 4.0), nd);
    a = mta_dd_add(mta_dd_times(s2, 6.0), mta_dd_mul(d, a));
    a = mta_dd_add(mta_dd_times(s3, 4.0), mta_dd_mul(d, a));
    s4 = mta_dd_add(s4, mta_dd_mul(d, a));
    b = mta_dd_add(mta_dd_times(s1, 3.0), nd);
    b = mta_dd_add(mta_dd_times(s2, 3.0), mta_dd_mul(d, b));
    s3 = mta_dd_add(s3, mta_dd_mul(d, b));
    s2 = mta_dd_add(s2, mta_dd_mul(d, mta_dd_add(mta_dd_times(s1, 2.0), nd)));
    s1 = mta_dd_add(s1, nd);
    r->hi = (mta_f4){s1.hi, s2.hi, s3.hi, s4.hi};
    r->lo = (mta_f4){s1.lo, s2.lo, s3.lo, s4.lo};
}

/* a and then b; out may be either. */
static inline void mta_powers_combine(mta_powers_part *out, const mta_powers_part *a,
                                      const mta_powers_part *b) {
    mta_powers x = a->sums, y = b->sums;
    mta_dd d, k = a->k;
    int64_t n = a->n + b->n;
    int scale = (int)(x.scale > y.scale ? x.scale : y.scale);
    if (!a->n || !b->n) {
        *out = a->n ? *a : *b;
        return;
    }
    d = mta_shift(b->k, k, &scale);
    mta_powers_rescale(&x, scale);
    mta_powers_rescale(&y, scale);
    if (d.hi != 0.0) mta_powers_move(&y, d, (double)b->n);
    out->n = n;
    out->k = k;
    mta_powers_add(&out->sums, &x, &y);
}

/* ---------------------------------------------------------------------------------- the answers

   With n times the central moments as m2 = n s2 - s1^2, m3 = n^2 s3 - 3 n s1 s2 + 2 s1^3 and so on,
   nothing is divided before the end, scales cancel, and sums that are exact (small integers) give
   exact zeros. k is inside the window, so the subtractions lose about log2(n) of 106 bits. */

/* m3 a / (b m2 sqrt(a m2)): for all rows a = b = 1; for a sample a = n (n - 1), b = n - 2. */
MTA_INLINE double mta_skew(double n, mta_dd s1, mta_dd s2, mta_dd s3, int sample) {
    mta_dd square, m2, m3, t, a;
    s1 = mta_dd_normal(s1);
    square = mta_dd_square(s1);
    s2 = mta_dd_times(s2, n);
    m2 = mta_dd_normal(mta_dd_minus(s2, square));
    t = mta_dd_minus(mta_dd_times(s2, 3.0), mta_dd_times(square, 2.0));
    m3 = mta_dd_minus(mta_dd_times(mta_dd_times(s3, n), n), mta_dd_mul(s1, t));
    m3 = mta_dd_normal(m3);
    if (sample) {
        a = mta_dd_times(mta_dd_of(n, 0.0), n - 1.0);
        m3 = mta_dd_mul(m3, a);
        t = mta_dd_root(mta_dd_normal(mta_dd_mul(m2, a)));
        t = mta_dd_times(t, n - 2.0);
    } else {
        t = mta_dd_root(m2);
    }
    return mta_dd_round(mta_dd_over(m3, mta_dd_normal(mta_dd_mul(t, m2))));
}

/* m4 / m2^2 - 3, and for a sample (n - 1) ((n + 1) m4 / m2^2 - 3 (n - 1)) / ((n - 2) (n - 3)). */
MTA_INLINE double mta_kurt(double n, mta_dd s1, mta_dd s2, mta_dd s3, mta_dd s4, int sample) {
    mta_dd square, m2, m4, t, u;
    s1 = mta_dd_normal(s1);
    square = mta_dd_normal(mta_dd_square(s1));
    s2 = mta_dd_times(s2, n);
    m2 = mta_dd_normal(mta_dd_minus(s2, square));
    /* n^2 (n s4 - 4 s1 s3) + 3 s1^2 (2 n s2 - s1^2) */
    t = mta_dd_minus(mta_dd_times(s4, n), mta_dd_times(mta_dd_mul(s1, s3), 4.0));
    u = mta_dd_times(mta_dd_minus(mta_dd_times(s2, 2.0), square), 3.0);
    m4 = mta_dd_add(mta_dd_times(mta_dd_times(t, n), n), mta_dd_mul(square, u));
    m4 = mta_dd_normal(m4);
    square = mta_dd_normal(mta_dd_square(m2));
    t = mta_dd_times(square, 3.0);
    if (sample) {
        t = mta_dd_minus(mta_dd_times(m4, n + 1.0), mta_dd_times(t, n - 1.0));
        t = mta_dd_times(t, n - 1.0);
        square = mta_dd_times(mta_dd_times(square, n - 2.0), n - 3.0);
    } else {
        t = mta_dd_minus(m4, t);
    }
    return mta_dd_round(mta_dd_over(mta_dd_normal(t), mta_dd_normal(square)));
}

enum { MTA_SKEW, MTA_KURT };

/* Skewness or kurtosis of up to MTA_BLOCK partials of count[i] values; NaN of too few. */
MTA_CLONES
static void mta_lower_powers(const mta_powers *part, const double *count, int64_t rows, int what,
                             int sample, double *out) {
    double h[4][MTA_BLOCK], l[4][MTA_BLOCK];
    const double least = sample ? (what == MTA_SKEW ? 3.0 : 4.0) : 1.0;
    int64_t i;
    mta_lanes_to_columns(part, sizeof *part, offsetof(mta_powers, hi), rows, h);
    mta_lanes_to_columns(part, sizeof *part, offsetof(mta_powers, lo), rows, l);
#define MTA_SUM(p) mta_dd_of(h[p][i], l[p][i])
#define MTA_EACH(answer) for (i = 0; i < rows; i++) out[i] = count[i] >= least ? answer : NAN
    if (what == MTA_SKEW && sample)
        MTA_EACH(mta_skew(count[i], MTA_SUM(0), MTA_SUM(1), MTA_SUM(2), 1));
    else if (what == MTA_SKEW)
        MTA_EACH(mta_skew(count[i], MTA_SUM(0), MTA_SUM(1), MTA_SUM(2), 0));
    else if (sample)
        MTA_EACH(mta_kurt(count[i], MTA_SUM(0), MTA_SUM(1), MTA_SUM(2), MTA_SUM(3), 1));
    else
        MTA_EACH(mta_kurt(count[i], MTA_SUM(0), MTA_SUM(1), MTA_SUM(2), MTA_SUM(3), 0));
#undef MTA_SUM
#undef MTA_EACH
}

#endif
