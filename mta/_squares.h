/* Sums of x - k and of their squares, as double-doubles around a row of the window: var and std. */
#ifndef MTA_SQUARES_H
#define MTA_SQUARES_H

#include "_algebra.h"

/* What mta_moments has behind its k. */
typedef struct {
    double s1_hi, s1_lo, s2_hi, s2_lo;
} mta_squares;

typedef struct {
    mta_column x;
    const uint8_t *valid;
} mta_squares_rows;

MTA_INLINE void mta_squares_join(mta_squares *out, const mta_squares *a, const mta_squares *b) {
    mta_dd s1 = mta_two_sum(a->s1_hi, b->s1_hi), s2 = mta_two_sum(a->s2_hi, b->s2_hi);
    out->s1_lo = (a->s1_lo + b->s1_lo) + s1.lo;
    out->s2_lo = (a->s2_lo + b->s2_lo) + s2.lo;
    out->s1_hi = s1.hi;
    out->s2_hi = s2.hi;
}

MTA_CLONES
static int64_t mta_squares_prepare(const mta_squares_rows *rows, mta_squares *r, int64_t lo,
                                   int64_t hi, int backwards, mta_squares *one) {
    double h[MTA_BLOCK], l[MTA_BLOCK];
    int64_t n = hi - lo, j;
    (void)r, (void)backwards;
    mta_differences(&rows->x, rows->valid, 0, lo, n, h, l);
    for (j = 0; j < n; j++) {
        mta_dd d = {h[j], l[j]}, dd = mta_dd_square(d);
        one[j].s1_hi = d.hi;
        one[j].s1_lo = d.lo;
        one[j].s2_hi = dd.hi;
        one[j].s2_lo = dd.lo;
    }
    return n;
}

#define MTA_PART squares
#include "_halves.h"

/* The partial of one value, around itself: infinities and NaN poison the sums. */
MTA_INLINE void mta_squares_begin(mta_moments *out, mta_dd k) {
    double nothing = isfinite(k.hi) ? 0.0 : k.hi - k.hi;
    mta_moments part = {1, k.hi, k.lo, nothing, 0.0, nothing, 0.0};
    *out = part;
}

/* Variances, or their roots, of up to MTA_BLOCK sums of count[i] values. */
static inline void mta_lower_squares(const mta_squares *sums, const double *count, int64_t n,
                                     int root, int64_t ddof, double *out) {
    mta_moments part[MTA_BLOCK];
    int64_t i;
    for (i = 0; i < n; i++) {
        part[i].n = (int64_t)count[i];
        memcpy(&part[i].s1_hi, &sums[i], sizeof sums[i]);
    }
    mta_lower_spread(part, n, ddof, root, out);
}

#endif
