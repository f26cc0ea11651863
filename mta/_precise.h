/* Moments and their deviations, and what lowers them and float sums: in C, for an fma() gives the
   rounding error of a product in one instruction instead of Dekker's seventeen. */
#ifndef MTA_PRECISE_H
#define MTA_PRECISE_H

#include "_spread.h"

/* The layout of Moments in _monoids.pxd. */
typedef struct {
    int64_t n;
    double k_hi, k_lo, s1_hi, s1_lo, s2_hi, s2_lo;
} mta_moments;

/* Double-doubles: about 106 bits in two doubles. */
typedef struct {
    double hi, lo;
} mta_dd;

MTA_INLINE mta_dd mta_two_sum(double a, double b) {
    double s = a + b, t = s - a;
    mta_dd r = {s, (a - (s - t)) + (b - t)};
    return r;
}

/* The low part gathers rounding errors and is not normalised: the sum errs by 2^-105 of the larger
   operand, and the next operation waits for one addition only. */
MTA_INLINE mta_dd mta_dd_add(mta_dd a, mta_dd b) {
    mta_dd s = mta_two_sum(a.hi, b.hi);
    s.lo += a.lo + b.lo;
    return s;
}

MTA_INLINE mta_dd mta_dd_mul(mta_dd a, mta_dd b) {
    double p = a.hi * b.hi;
    mta_dd r = {p, fma(a.hi, b.hi, -p) + (a.hi * b.lo + a.lo * b.hi)};
    return r;
}

/* a and then b. b's sums are moved from b's k to a's: (x - a.k) = (x - b.k) + d, d = b.k - a.k. */
MTA_INLINE void mta_combine_moments_body(int wide, mta_moments *out, const mta_moments *a, const mta_moments *b) {
    mta_dd s1 = {b->s1_hi, b->s1_lo}, s2 = {b->s2_hi, b->s2_lo}, d, moved;
    mta_dd n = {(double)b->n, 0.0}, a1 = {a->s1_hi, a->s1_lo}, a2 = {a->s2_hi, a->s2_lo};
    if (!a->n || !b->n) {
        *out = a->n ? *a : *b;
        return;
    }
    d = mta_two_sum(b->k_hi, -a->k_hi);
    d = mta_two_sum(d.hi, d.lo + (b->k_lo - a->k_lo)); /* of integers, hi alone may cancel to 0 */
    if (d.hi != 0.0) {
        moved = mta_dd_add(s1, mta_dd_mul(d, n));
        /* 2 d s1 + n d^2 = d (s1 + moved s1) */
        s2 = mta_dd_add(s2, mta_dd_mul(d, mta_dd_add(s1, moved)));
        s1 = moved;
    }
    s1 = mta_dd_add(a1, s1);
    s2 = mta_dd_add(a2, s2);
    out->n = a->n + b->n;
    out->k_hi = a->k_hi;
    out->k_lo = a->k_lo;
    out->s1_hi = s1.hi;
    out->s1_lo = s1.lo;
    out->s2_hi = s2.hi;
    out->s2_lo = s2.lo;
}
MTA_TWICE(void, mta_combine_moments, (mta_moments *out, const mta_moments *a, const mta_moments *b),
          out, a, b)

/* Variance or standard deviation of each partial. */
MTA_INLINE void mta_lower_parts(int wide, const mta_moments *part, int64_t rows, double ddof, int root,
                                double *out) {
    const mta_divisor none = {{0.0}};
    mta_spreads w;
    int64_t start, i, j, n;
    w.begun = w.done = 0;
    for (start = 0; start < rows; start += MTA_SPREADS) {
        n = rows - start < MTA_SPREADS ? rows - start : MTA_SPREADS;
        for (i = 0; i < n; i += 4)
            for (j = 0; j < 4; j++) { /* the last one again, up to a multiple of four */
                const mta_moments *p = part + start + (i + j < n ? i + j : n - 1);
                mta_spread4 *x = &w.sums[i / 4];
                x->n[j] = (double)p->n;
                x->s1_hi[j] = p->s1_hi, x->s1_lo[j] = p->s1_lo;
                x->s2_hi[j] = p->s2_hi, x->s2_lo[j] = p->s2_lo;
            }
        mta_spreads_begin(wide, &w, n, &none, 0, 0, ddof, root, out + start);
    }
    mta_spreads_end_body(wide, &w, ddof, root);
}
/* The same of one partial: not by way of memory, which would wait for it to be written. */
MTA_INLINE void mta_lower_one(int wide, const mta_moments *p, double ddof, int root, double *out) {
    double n = (double)p->n;
    const mta_spread4 x = {{n, n, n, n},
                           {p->s1_hi, p->s1_hi, p->s1_hi, p->s1_hi},
                           {p->s1_lo, p->s1_lo, p->s1_lo, p->s1_lo},
                           {p->s2_hi, p->s2_hi, p->s2_hi, p->s2_hi},
                           {p->s2_lo, p->s2_lo, p->s2_lo, p->s2_lo}};
    mta_f4 hi, lo;
    mta_divisor by;
    mta_i4 odd;
    mta_divide_by(&x.n, ddof, &by);
    mta_variances(wide, &x, &by, &hi, &lo, &odd);
    if (root) mta_root(wide, &hi, &lo);
    mta_round_four(&hi, &lo, &hi);
    *out = odd[0] ? mta_odd_spread(n, ddof, p->s1_hi, p->s1_lo, p->s2_hi, p->s2_lo, root) : hi[0];
}
MTA_INLINE void mta_lower_spread_body(int wide, const mta_moments *part, int64_t rows, int64_t ddof,
                                      int root, double *out) {
    if (rows == 1)
        mta_lower_one(wide, part, (double)ddof, root, out);
    else if (root)
        mta_lower_parts(wide, part, rows, (double)ddof, 1, out);
    else
        mta_lower_parts(wide, part, rows, (double)ddof, 0, out);
}
MTA_TWICE(void, mta_lower_spread,
          (const mta_moments *part, int64_t rows, int64_t ddof, int root, double *out), part, rows,
          ddof, root, out)

/* Compensated sums as doubles, of which every `step`-th is one. Once hi is not finite, lo holds
   inf - inf; the answer is hi. */
MTA_INLINE void mta_lower_sums_at(const double *hi, const double *lo, int step, int64_t rows,
                                  double *out) {
    int64_t i, odd = 0;
    for (i = 0; i < rows; i++) {
        out[i] = hi[step * i] + lo[step * i];
        odd |= !(fabs(hi[step * i]) <= DBL_MAX);
    }
    if (!odd) return;
    for (i = 0; i < rows; i++)
        if (!isfinite(hi[step * i])) out[i] = hi[step * i];
}
MTA_INLINE void mta_lower_sums_body(int wide, const double *hi, const double *lo, int step,
                                    int64_t rows, double *out) {
    if (step == 1)
        mta_lower_sums_at(hi, lo, 1, rows, out);
    else
        mta_lower_sums_at(hi, lo, step, rows, out);
}
MTA_TWICE(void, mta_lower_sums,
          (const double *hi, const double *lo, int step, int64_t rows, double *out), hi, lo, step,
          rows, out)

/* How many values each of n windows holds, at most MTA_SPREADS rounded up to a multiple of four. */
MTA_INLINE void mta_counts_of(const int64_t *count, const int64_t *first, const int64_t *last, int64_t n,
                              double *out) {
    int64_t i;
    for (i = 0; i + 4 <= n; i += 4) {
        mta_i4 rows;
        mta_f4 values;
        if (count)
            rows = MTA_I4_CONST(count + i);
        else
            rows = MTA_I4_CONST(last + i) - MTA_I4_CONST(first + i);
        mta_as_doubles(&rows, &values);
        MTA_F4(out + i) = values;
    }
    for (; i < n; i++) out[i] = (double)(count ? count[i] : last[i] - first[i]);
}

/* Means of compensated sums over count[i] values: NaN of none, and whatever hi is where it is not
   finite. same : they are equally many for all */
MTA_INLINE void mta_lower_means_at(const double *hi, const double *lo, int step,
                                   const int64_t *count, const int64_t *first, const int64_t *last,
                                   int64_t rows, int same, double *out) {
    double n[MTA_SPREADS], inverse;
    int64_t i, odd = 0;
    mta_counts_of(count, first, last, rows, n);
    inverse = 1.0 / n[0];
    for (i = 0; i < rows; i++) {
        double h = hi[step * i], l = lo[step * i], s = h + l, t = s - h;
        double e = (h - (s - t)) + (l - t), q;
        if (!same) inverse = 1.0 / n[i];
        q = s * inverse;
        out[i] = q + (fma(-q, n[i], s) + e) * inverse;
        odd |= (n[i] == 0.0) | !(fabs(h) <= DBL_MAX);
    }
    if (!odd) return;
    for (i = 0; i < rows; i++) {
        if (!isfinite(hi[step * i])) out[i] = hi[step * i];
        if (n[i] == 0.0) out[i] = NAN;
    }
}
MTA_INLINE void mta_lower_means_body(int wide, const double *hi, const double *lo, int step,
                                     const int64_t *count, const int64_t *first,
                                     const int64_t *last, int64_t rows, int same, double *out) {
    int64_t i, n;
    for (i = 0; i < rows; i += n) {
        const int64_t *counts = count ? count + i : count;
        n = rows - i < MTA_SPREADS ? rows - i : MTA_SPREADS;
        if (step == 1 && same)
            mta_lower_means_at(hi + i, lo + i, 1, counts, first + i, last + i, n, 1, out + i);
        else if (step == 1)
            mta_lower_means_at(hi + i, lo + i, 1, counts, first + i, last + i, n, 0, out + i);
        else
            mta_lower_means_at(hi + step * i, lo + step * i, step, counts, first + i, last + i, n, 0,
                               out + i);
    }
}
MTA_TWICE(void, mta_lower_means,
          (const double *hi, const double *lo, int step, const int64_t *count, const int64_t *first,
           const int64_t *last, int64_t rows, int same, double *out),
          hi, lo, step, count, first, last, rows, same, out)

#endif
