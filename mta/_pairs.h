/* Sums of two columns around a row of the window: covariance, correlation, slope, weighted mean. */
#ifndef MTA_PAIRS_H
#define MTA_PAIRS_H

#include "_algebra.h"

/* For x = (column 0 - its k) 2^(-200 its scale) and y likewise: sums of x, y, x y and y^2, and of
   x^2 apart, as double-doubles. */
typedef struct {
    mta_lanes hi, lo;
    double xx_hi, xx_lo;
    int64_t scales;    /* of both columns in one number */
} mta_pairs;

typedef struct {
    mta_column columns[2];
    const uint8_t *valid;
} mta_pairs_rows;

MTA_INLINE int64_t mta_scales(int x, int y) { return 64 * x + y + 32; }
MTA_INLINE int mta_scale_x(int64_t scales) { return (int)(scales >> 6); }
MTA_INLINE int mta_scale_y(int64_t scales) { return (int)(scales & 63) - 32; }

MTA_INLINE void mta_pairs_clear(mta_pairs *r) {
    memset(r, 0, sizeof *r);
    r->scales = mta_scales(MTA_BOTTOM, MTA_BOTTOM);
}

MTA_INLINE void mta_pairs_rescale(mta_pairs *r, int64_t scales) {
    double x = mta_down(mta_scale_x(scales) - mta_scale_x(r->scales));
    double y = mta_down(mta_scale_y(scales) - mta_scale_y(r->scales));
    mta_f4 factors = {x, y, x * y, y * y};
    r->hi *= factors;
    r->lo *= factors;
    r->xx_hi *= x * x;
    r->xx_lo *= x * x;
    r->scales = scales;
}

MTA_INLINE void mta_pairs_add(mta_pairs *out, const mta_pairs *a, const mta_pairs *b) {
    mta_f4 x = a->hi, y = b->hi, s = x + y, t = s - x;
    mta_dd xx = mta_two_sum(a->xx_hi, b->xx_hi);
    out->lo = (a->lo + b->lo) + ((x - (s - t)) + (y - t));
    out->hi = s;
    out->xx_lo = (a->xx_lo + b->xx_lo) + xx.lo;
    out->xx_hi = xx.hi;
    out->scales = a->scales;
}

/* Nothing but values of a column equal to its k: no square underflows at a scale that a value has.
   Such a partial may have any scale of that column. */
MTA_INLINE int mta_pairs_no_x(const mta_pairs *r) { return r->xx_hi == 0.0; }
MTA_INLINE int mta_pairs_no_y(const mta_pairs *r) { return r->hi[3] == 0.0; }
MTA_INLINE int mta_pairs_none(const mta_pairs *r) { return mta_pairs_no_x(r) && mta_pairs_no_y(r); }

/* The scales that the values of both need. */
MTA_INLINE int64_t mta_common_scales(const mta_pairs *a, const mta_pairs *b) {
    int ax = mta_scale_x(a->scales), bx = mta_scale_x(b->scales);
    int ay = mta_scale_y(a->scales), by = mta_scale_y(b->scales);
    int x = mta_pairs_no_x(a) || (!mta_pairs_no_x(b) && bx > ax) ? bx : ax;
    int y = mta_pairs_no_y(a) || (!mta_pairs_no_y(b) && by > ay) ? by : ay;
    return mta_scales(x, y);
}

MTA_INLINE void mta_pairs_join(mta_pairs *out, const mta_pairs *a, const mta_pairs *b) {
    mta_pairs x, y;
    if (__builtin_expect(a->scales == b->scales, 1)) {
        mta_pairs_add(out, a, b);
    } else if (mta_pairs_none(a) || mta_pairs_none(b)) {
        *out = mta_pairs_none(a) ? *b : *a;
    } else {
        x = *a;
        y = *b;
        mta_pairs_rescale(&x, mta_common_scales(a, b));
        mta_pairs_rescale(&y, x.scales);
        mta_pairs_add(out, &x, &y);
    }
}

MTA_CLONES
static int64_t mta_pairs_prepare(const mta_pairs_rows *rows, mta_pairs *r, int64_t lo, int64_t hi,
                                 int backwards, mta_pairs *one) {
    double h[4][MTA_BLOCK], l[4][MTA_BLOCK], xxh[MTA_BLOCK], xxl[MTA_BLOCK], after_x, after_y;
    int x = mta_scale_x(r->scales), y = mta_scale_y(r->scales);
    const mta_column *c = rows->columns;
    int64_t n = hi - lo, fit, other, j;
    fit = mta_fitting_differences(&c[0], rows->valid, &x, mta_pairs_no_x(r), backwards, lo, n,
                                  h[0], l[0]);
    other = mta_fitting_differences(&c[1], rows->valid, &y, mta_pairs_no_y(r), backwards, lo, n,
                                    h[1], l[1]);
    fit = fit < other ? fit : other;
    if (mta_scales(x, y) != r->scales) mta_pairs_rescale(r, mta_scales(x, y));
    after_x = mta_after(&c[0], x);
    after_y = mta_after(&c[1], y);
    for (j = 0; j < n; j++) {
        mta_dd x = {h[0][j] * after_x, l[0][j] * after_x}, xx = mta_dd_square(x);
        mta_dd y = {h[1][j] * after_y, l[1][j] * after_y}, yy = mta_dd_square(y);
        mta_dd xy = mta_dd_mul(x, y);
        h[0][j] = x.hi;
        l[0][j] = x.lo;
        h[1][j] = y.hi;
        l[1][j] = y.lo;
        h[2][j] = xy.hi;
        l[2][j] = xy.lo;
        h[3][j] = yy.hi;
        l[3][j] = yy.lo;
        xxh[j] = xx.hi;
        xxl[j] = xx.lo;
    }
    other = backwards ? n - fit : 0;
    mta_columns_to_lanes(MTA_COLUMNS(h, other), fit, one, sizeof *one, offsetof(mta_pairs, hi));
    mta_columns_to_lanes(MTA_COLUMNS(l, other), fit, one, sizeof *one, offsetof(mta_pairs, lo));
    for (j = 0; j < fit; j++) {
        one[j].xx_hi = xxh[other + j];
        one[j].xx_lo = xxl[other + j];
        one[j].scales = r->scales;
    }
    return fit;
}

#define MTA_PART pairs
#include "_halves.h"

/* -------------------------------------------------------------------------------- the monoid */

/* The partial of rows around the values of one of them; a weighted mean's are around 0, 0. */
typedef struct {
    int64_t n;
    mta_dd k[2];
    mta_pairs sums;
} mta_pairs_part;

/* Of one row, around itself: all differences are 0; infinities and NaN poison the sums, so that
   combine has no case for them. */
MTA_INLINE void mta_pairs_begin(mta_pairs_part *out, mta_dd k, mta_dd l) {
    mta_pairs_clear(&out->sums);
    out->n = 1;
    out->k[0] = k;
    out->k[1] = l;
    if (!isfinite(out->k[0].hi) || !isfinite(out->k[1].hi)) {
        out->sums.hi += NAN;
        out->sums.xx_hi = NAN;
        out->sums.scales = mta_scales(MTA_TOP, MTA_TOP);
    }
}

MTA_INLINE void mta_pairs_lift(mta_pairs_part *out, const mta_column *columns, int64_t row) {
    mta_pairs_begin(out, mta_number(&columns[0], row), mta_number(&columns[1], row));
}

/* The row around 0, 0. */
static inline void mta_pairs_lift_plain(mta_pairs_part *out, const mta_column *columns,
                                        int64_t row) {
    mta_pairs_rows rows = {{columns[0], columns[1]}, NULL};
    mta_pairs one;
    memset(out, 0, sizeof *out);
    mta_pairs_clear(&out->sums);
    rows.columns[0].k = rows.columns[1].k = 0.0;
    rows.columns[0].ki = rows.columns[1].ki = 0;
    mta_pairs_prepare(&rows, &out->sums, row, row + 1, 0, &one);
    out->sums = one;
    out->n = 1;
}

/* Sums around other values: x = old x + d, y = old y + e. */
MTA_CLONES
static void mta_pairs_move(mta_pairs *r, mta_dd d, mta_dd e, double n) {
    mta_dd x = {r->hi[0], r->lo[0]}, y = {r->hi[1], r->lo[1]}, xy = {r->hi[2], r->lo[2]};
    mta_dd yy = {r->hi[3], r->lo[3]}, xx = {r->xx_hi, r->xx_lo};
    mta_dd moved_x = mta_dd_add(x, mta_dd_times(d, n)), moved_y = mta_dd_add(y, mta_dd_times(e, n));
    /* xy + d y + e x + n d e, and 2 d x + n d^2 = d (x + moved x) */
    xy = mta_dd_add(xy, mta_dd_add(mta_dd_mul(d, y), mta_dd_mul(e, moved_x)));
    xx = mta_dd_add(xx, mta_dd_mul(d, mta_dd_add(x, moved_x)));
    yy = mta_dd_add(yy, mta_dd_mul(e, mta_dd_add(y, moved_y)));
    r->hi = (mta_f4){moved_x.hi, moved_y.hi, xy.hi, yy.hi};
    r->lo = (mta_f4){moved_x.lo, moved_y.lo, xy.lo, yy.lo};
    r->xx_hi = xx.hi;
    r->xx_lo = xx.lo;
}

/* Around the same values, at the same scales: nothing has to be moved. */
MTA_INLINE int mta_pairs_alike(const mta_pairs_part *a, const mta_pairs_part *b) {
    return a->sums.scales == b->sums.scales && a->k[0].hi == b->k[0].hi && a->k[0].lo == b->k[0].lo &&
           a->k[1].hi == b->k[1].hi && a->k[1].lo == b->k[1].lo;
}

/* a and then b; out may be either. */
static inline void mta_pairs_combine(mta_pairs_part *out, const mta_pairs_part *a,
                                     const mta_pairs_part *b) {
    mta_pairs x = a->sums, y = b->sums;
    mta_dd d, e, k0 = a->k[0], k1 = a->k[1];
    int64_t n = a->n + b->n;
    int scale_x, scale_y;
    if (!a->n || !b->n) {
        *out = a->n ? *a : *b;
        return;
    }
    if (mta_pairs_alike(a, b)) {
        mta_pairs_add(&out->sums, &x, &y);
        out->n = n;
        out->k[0] = k0;
        out->k[1] = k1;
        return;
    }
    scale_x = mta_scale_x(mta_common_scales(&x, &y));
    scale_y = mta_scale_y(mta_common_scales(&x, &y));
    d = mta_shift(b->k[0], k0, &scale_x);
    e = mta_shift(b->k[1], k1, &scale_y);
    mta_pairs_rescale(&x, mta_scales(scale_x, scale_y));
    mta_pairs_rescale(&y, x.scales);
    if (d.hi != 0.0 || e.hi != 0.0) mta_pairs_move(&y, d, e, (double)b->n);
    out->n = n;
    out->k[0] = k0;
    out->k[1] = k1;
    mta_pairs_add(&out->sums, &x, &y);
}

/* ---------------------------------------------------------------------------------- the answers */

enum { MTA_COV, MTA_CORR, MTA_SLOPE, MTA_WEIGHTED_MEAN };

/* n sum(x y) - sum(x) sum(y): n^2 times the covariance of all rows, good to 2^-100 or so of the
   product of the spreads, since k is inside; and exact where sums are. */
MTA_INLINE mta_dd mta_joint(double n, mta_dd x, mta_dd y, mta_dd xy) {
    return mta_dd_normal(mta_dd_minus(mta_dd_times(xy, n), mta_dd_mul(x, y)));
}

MTA_INLINE mta_dd mta_cov(double n, mta_dd x, mta_dd y, mta_dd xy, double ddof) {
    mta_dd over = mta_dd_normal(mta_dd_times(mta_dd_of(n, 0.0), n - ddof));
    return mta_dd_normal(mta_dd_over(mta_joint(n, x, y, xy), over));
}

MTA_INLINE mta_dd mta_slope(double n, mta_dd x, mta_dd y, mta_dd xy, mta_dd yy) {
    return mta_dd_normal(mta_dd_over(mta_joint(n, x, y, xy), mta_joint(n, y, y, yy)));
}

MTA_INLINE double mta_corr(double n, mta_dd x, mta_dd y, mta_dd xy, mta_dd yy, mta_dd xx) {
    mta_dd spread = mta_dd_normal(mta_dd_mul(mta_joint(n, x, x, xx), mta_joint(n, y, y, yy)));
    mta_dd root = mta_dd_normal(mta_dd_root(spread));
    double r = mta_dd_round(mta_dd_over(mta_joint(n, x, y, xy), root));
    r = r > 1.0 ? 1.0 : r;
    return r < -1.0 ? -1.0 : r;
}

/* sum(x w) / sum(w), as doubles divide where a sum is not finite; NaN where the weights cancel. */
MTA_INLINE mta_dd mta_weighted_mean(mta_dd w, mta_dd xw) {
    mta_dd normal = mta_dd_normal(w), q = mta_dd_over(mta_dd_normal(xw), normal);
    int finite = fabs(w.hi) <= DBL_MAX && fabs(xw.hi) <= DBL_MAX;
    q = mta_dd_normal(q);
    q.hi = finite ? q.hi : xw.hi / w.hi;
    q.hi = normal.hi == 0.0 ? NAN : q.hi;
    q.lo = finite ? q.lo : 0.0;
    return q;
}

/* The answer in numbers of the columns is that of scaled ones times 2 to this. */
MTA_INLINE int64_t mta_pairs_exponent(const mta_pairs *r, int what) {
    int64_t x = MTA_STEP * mta_scale_x(r->scales), y = MTA_STEP * mta_scale_y(r->scales);
    return what == MTA_COV ? x + y : what == MTA_SLOPE ? x - y : x;
}

/* One answer of each of up to MTA_BLOCK partials of count[i] rows. */
MTA_CLONES
static void mta_lower_pairs(const mta_pairs *part, const double *count, int64_t rows, int what,
                            double ddof, double *out) {
    double h[4][MTA_BLOCK], l[4][MTA_BLOCK], xxh[MTA_BLOCK], xxl[MTA_BLOCK], low[MTA_BLOCK];
    int64_t i, scaled = 0;
    mta_lanes_to_columns(part, sizeof *part, offsetof(mta_pairs, hi), rows, h);
    mta_lanes_to_columns(part, sizeof *part, offsetof(mta_pairs, lo), rows, l);
    for (i = 0; i < rows; i++) {
        xxh[i] = part[i].xx_hi;
        xxl[i] = part[i].xx_lo;
        scaled |= part[i].scales != mta_scales(0, 0);
    }
#define MTA_SUM(p) mta_dd_of(h[p][i], l[p][i])
#define MTA_EACH(answer) \
    for (i = 0; i < rows; i++) { \
        mta_dd v = answer; \
        out[i] = v.hi; \
        low[i] = v.lo; \
    }
    if (what == MTA_CORR) {
        for (i = 0; i < rows; i++)
            out[i] = mta_corr(count[i], MTA_SUM(0), MTA_SUM(1), MTA_SUM(2), MTA_SUM(3),
                              mta_dd_of(xxh[i], xxl[i]));
        return;
    }
    if (what == MTA_COV)
        MTA_EACH(mta_cov(count[i], MTA_SUM(0), MTA_SUM(1), MTA_SUM(2), ddof))
    else if (what == MTA_SLOPE)
        MTA_EACH(mta_slope(count[i], MTA_SUM(0), MTA_SUM(1), MTA_SUM(2), MTA_SUM(3)))
    else
        MTA_EACH(mta_weighted_mean(MTA_SUM(1), MTA_SUM(2)))
#undef MTA_SUM
#undef MTA_EACH
    for (i = 0; i < rows; i++) {
        mta_dd v = {out[i], low[i]};
        out[i] = scaled ? mta_round_scaled(v, mta_pairs_exponent(&part[i], what))
                        : mta_round(v.hi, v.lo);
        if (what == MTA_COV && count[i] <= ddof) out[i] = NAN;
    }
}

#endif
