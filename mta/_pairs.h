/* Sums of two columns around a row of the window: covariance, correlation, slope, weighted mean. */
#ifndef MTA_PAIRS_H
#define MTA_PAIRS_H

#include "_algebra.h"

/* For x = (column 0 - its k) 2^(-200 its scale) and y likewise: sums of x, y, x y and y^2, and of x^2
   apart, as double-doubles. */
typedef struct {
    mta_lanes hi, lo;
    double xx_hi, xx_lo;
    int64_t scales;    /* of both columns in one number */
} mta_pairs;

typedef struct {
    mta_column columns[2];
    const uint8_t *valid;
} mta_pairs_rows;

/* What a lane is the sum of: x and y to these powers. */
static const int8_t mta_pairs_powers[4][2] = {{1, 0}, {0, 1}, {1, 1}, {0, 2}};

MTA_INLINE int64_t mta_scales(int x, int y) { return 64 * x + y + 32; }
MTA_INLINE int mta_scale_x(int64_t scales) { return (int)(scales >> 6); }
MTA_INLINE int mta_scale_y(int64_t scales) { return (int)(scales & 63) - 32; }

MTA_INLINE int64_t mta_higher_scales(int64_t a, int64_t b) {
    int ax = mta_scale_x(a), bx = mta_scale_x(b), ay = mta_scale_y(a), by = mta_scale_y(b);
    return mta_scales(ax > bx ? ax : bx, ay > by ? ay : by);
}

MTA_INLINE void mta_pairs_clear(mta_pairs *r) {
    memset(r, 0, sizeof *r);
    r->scales = mta_scales(MTA_BOTTOM, MTA_BOTTOM);
}

MTA_INLINE double mta_pairs_rescaled(double sum, const int8_t *power, int x, int y) {
    return mta_rescaled(mta_rescaled(sum, power[0], x), power[1], y);
}

MTA_COLD static void mta_pairs_rescale(mta_pairs *r, int64_t scales) {
    int x = mta_scale_x(scales) - mta_scale_x(r->scales);
    int y = mta_scale_y(scales) - mta_scale_y(r->scales), p;
    for (p = 0; p < 4; p++) {
        r->hi[p] = mta_pairs_rescaled(r->hi[p], mta_pairs_powers[p], x, y);
        r->lo[p] = mta_pairs_rescaled(r->lo[p], mta_pairs_powers[p], x, y);
    }
    r->xx_hi = mta_rescaled(r->xx_hi, 2, x);
    r->xx_lo = mta_rescaled(r->xx_lo, 2, x);
    r->scales = scales;
}

MTA_INLINE void mta_pairs_add(mta_pairs *out, const mta_pairs *a, const mta_pairs *b) {
    mta_four x = a->hi, y = b->hi, s = x + y, t = s - x;
    mta_dd xx = mta_two_sum(a->xx_hi, b->xx_hi);
    out->lo = (a->lo + b->lo) + ((x - (s - t)) + (y - t));
    out->hi = s;
    out->xx_lo = (a->xx_lo + b->xx_lo) + xx.lo;
    out->xx_hi = xx.hi;
    out->scales = a->scales;
}

MTA_INLINE void mta_pairs_join(mta_pairs *out, const mta_pairs *a, const mta_pairs *b) {
    if (__builtin_expect(a->scales != b->scales, 0)) {
        mta_pairs x = *a, y = *b;
        int64_t scales = mta_higher_scales(x.scales, y.scales);
        mta_pairs_rescale(&x, scales);
        mta_pairs_rescale(&y, scales);
        mta_pairs_add(out, &x, &y);
        return;
    }
    mta_pairs_add(out, a, b);
}

/* Differences of one column. Returns how many fit, after r has gone up to a scale that one does. */
MTA_INLINE int64_t mta_pairs_differences(const mta_pairs_rows *rows, int which, mta_pairs *r,
                                         int backwards, int64_t lo, int64_t n, double *h, double *l) {
    const mta_column *c = &rows->columns[which];
    int64_t fit;
    int x = mta_scale_x(r->scales), y = mta_scale_y(r->scales);
    while (!(fit = mta_differences(c, rows->valid, which ? y : x, backwards, lo, n, h, l))) {
        *(which ? &y : &x) = mta_scale_of(h[backwards ? n - 1 : 0]);
        mta_pairs_rescale(r, mta_scales(x, y));
    }
    return fit;
}

MTA_CLONES
static int64_t mta_pairs_prepare(const mta_pairs_rows *rows, mta_pairs *r, int64_t lo, int64_t hi,
                                 int backwards, mta_pairs *one) {
    double xh[MTA_BLOCK], xl[MTA_BLOCK], yh[MTA_BLOCK], yl[MTA_BLOCK], xyh[MTA_BLOCK];
    double xyl[MTA_BLOCK], yyh[MTA_BLOCK], yyl[MTA_BLOCK], xxh[MTA_BLOCK], xxl[MTA_BLOCK];
    int64_t n = hi - lo, fit, other, j;
    double ax, ay;
    fit = mta_pairs_differences(rows, 0, r, backwards, lo, n, xh, xl);
    other = mta_pairs_differences(rows, 1, r, backwards, lo, n, yh, yl);
    fit = fit < other ? fit : other;
    ax = mta_after(&rows->columns[0], mta_scale_x(r->scales));
    ay = mta_after(&rows->columns[1], mta_scale_y(r->scales));
    for (j = 0; j < n; j++) {
        mta_dd x = {xh[j] * ax, xl[j] * ax}, y = {yh[j] * ay, yl[j] * ay};
        mta_dd xy = mta_dd_mul(x, y), yy = mta_dd_square(y), xx = mta_dd_square(x);
        xh[j] = x.hi;
        xl[j] = x.lo;
        yh[j] = y.hi;
        yl[j] = y.lo;
        xyh[j] = xy.hi;
        xyl[j] = xy.lo;
        yyh[j] = yy.hi;
        yyl[j] = yy.lo;
        xxh[j] = xx.hi;
        xxl[j] = xx.lo;
    }
    other = backwards ? n - fit : 0;
    mta_transpose(xh + other, yh + other, xyh + other, yyh + other, fit, &one->hi, sizeof *one);
    mta_transpose(xl + other, yl + other, xyl + other, yyl + other, fit, &one->lo, sizeof *one);
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

/* At k, all differences are 0; infinities and NaN poison the sums, so that combine has no case. */
MTA_INLINE void mta_pairs_lift(mta_pairs_part *out, const mta_column *columns, int64_t row) {
    mta_pairs_clear(&out->sums);
    out->n = 1;
    out->k[0] = mta_number(&columns[0], row);
    out->k[1] = mta_number(&columns[1], row);
    if (!isfinite(out->k[0].hi) || !isfinite(out->k[1].hi)) {
        out->sums.hi += NAN;
        out->sums.xx_hi = NAN;
        out->sums.scales = mta_scales(MTA_TOP, MTA_TOP);
    }
}

/* The row around 0, 0. */
static inline void mta_pairs_lift_plain(mta_pairs_part *out, const mta_column *columns, int64_t row) {
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
    r->hi = (mta_four){moved_x.hi, moved_y.hi, xy.hi, yy.hi};
    r->lo = (mta_four){moved_x.lo, moved_y.lo, xy.lo, yy.lo};
    r->xx_hi = xx.hi;
    r->xx_lo = xx.lo;
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
    scale_x = mta_scale_x(mta_higher_scales(x.scales, y.scales));
    scale_y = mta_scale_y(mta_higher_scales(x.scales, y.scales));
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
    int64_t i, p, scaled = 0;
    for (i = 0; i < rows; i++) {
        for (p = 0; p < 4; p++) {
            h[p][i] = part[i].hi[p];
            l[p][i] = part[i].lo[p];
        }
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
