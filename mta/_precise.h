/* Moments and their deviations, and what lowers them and float sums: in C, for an fma() gives the
   rounding error of a product in one instruction instead of Dekker's seventeen. */
#ifndef MTA_PRECISE_H
#define MTA_PRECISE_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "_simd.h"

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

/* Sums of x - k and of its square, for a k and an n that are known from elsewhere. */
typedef struct {
    double s1_hi, s1_lo, s2_hi, s2_lo;
} mta_deviations;

/* Add x. Low parts gather rounding errors unnormalised (n terms then err by n^2 2^-106 of the sum at
   worst), which keeps the loop free of a long dependency. */
MTA_INLINE void mta_add_deviation(mta_deviations *m, double k, double x) {
    mta_dd d = mta_two_sum(x, -k), s;
    double p = d.hi * d.hi;
    s = mta_two_sum(m->s1_hi, d.hi);
    m->s1_lo += s.lo + d.lo;
    m->s1_hi = s.hi;
    s = mta_two_sum(m->s2_hi, p);
    m->s2_lo += s.lo + (fma(d.hi, d.hi, -p) + 2.0 * d.hi * d.lo);
    m->s2_hi = s.hi;
}

/* Sums of rows [lo, hi) from the right: out[i] is that of [lo + i, hi). */
MTA_INLINE void mta_deviations_left_body(int wide, const double *x, const uint8_t *valid, double k, int64_t lo,
                                int64_t hi, mta_deviations *out) {
    mta_deviations r = {0.0, 0.0, 0.0, 0.0};
    int64_t i;
    for (i = hi - 1; i >= lo; i--) {
        if (!valid || valid[i]) mta_add_deviation(&r, k, x[i]);
        out[i - lo] = r;
    }
}
MTA_TWICE(void, mta_deviations_left, (const double *x, const uint8_t *valid, double k, int64_t lo, int64_t hi, mta_deviations *out),
          x, valid, k, lo, hi, out)

/* n steps of a run of windows: the rows from `last` up to hi[i] join *m, and out[i] is
   suffix[lo[i]] + *m, of count[i] (or hi[i] - lo[i]) values. */
MTA_INLINE void mta_deviations_slide_body(int wide, const double *x, const uint8_t *valid, double k, const int64_t *lo,
                                 const int64_t *hi, const int64_t *count, int64_t n, int64_t last,
                                 const mta_deviations *suffix, mta_deviations *m, mta_moments *out) {
    mta_deviations r = *m;
    int64_t i;
    for (i = 0; i < n; i++) {
        const mta_deviations *a = &suffix[lo[i]];
        mta_dd s;
        for (; last < hi[i]; last++)
            if (!valid || valid[last]) mta_add_deviation(&r, k, x[last]);
        out[i].n = count ? count[i] : hi[i] - lo[i];
        out[i].k_hi = k;
        out[i].k_lo = 0.0;
        s = mta_two_sum(a->s1_hi, r.s1_hi);
        out[i].s1_hi = s.hi;
        out[i].s1_lo = (a->s1_lo + r.s1_lo) + s.lo;
        s = mta_two_sum(a->s2_hi, r.s2_hi);
        out[i].s2_hi = s.hi;
        out[i].s2_lo = (a->s2_lo + r.s2_lo) + s.lo;
    }
    *m = r;
}
MTA_TWICE(void, mta_deviations_slide, (const double *x, const uint8_t *valid, double k, const int64_t *lo, const int64_t *hi, const int64_t *count, int64_t n, int64_t last, const mta_deviations *suffix, mta_deviations *m, mta_moments *out),
          x, valid, k, lo, hi, count, n, last, suffix, m, out)

/* hi + lo as a double; what lies within 2^-40 of the middle between two doubles is taken to be the
   middle, so that two ways to compute it, each good to 2^-90, agree. Adding half of the gap then
   rounds to even. */
MTA_INLINE double mta_round(double hi, double lo) {
    double up = hi + lo * (1.0 + 9.094947017729282e-13);
    return hi + 0.5 * (up - hi);
}

/* The variance, or its root, of one partial whose sums are finite. No branches: the loop over it is
   bound by its divisions, which the compiler then does several at a time. */
MTA_INLINE double mta_spread(double n, double s1_hi, double s1_lo, double s2_hi, double s2_lo,
                                double ddof, int root) {
    double left = n - ddof, inverse = 1.0 / n;
    double s1, e1, q, qe, p, pe, m, me, s, t, v, ve;
    /* the mean of x - k */
    s1 = s1_hi + s1_lo;
    t = s1 - s1_hi;
    e1 = (s1_hi - (s1 - t)) + (s1_lo - t);
    q = s1 * inverse;
    qe = (fma(-q, n, s1) + e1) * inverse;
    /* m = s2 - s1 * mean */
    p = s1 * q;
    pe = fma(s1, q, -p) + (s1 * qe + e1 * q);
    s = s2_hi - p;
    t = s - s2_hi;
    me = ((s2_hi - (s - t)) - (p + t)) + (s2_lo - pe);
    m = s + me;
    me = me - (m - s);
    m = m > 0.0 ? m : 0.0;
    me = m > 0.0 ? me : 0.0;
    /* over n - ddof */
    inverse = 1.0 / left;
    q = m * inverse;
    qe = (fma(-q, left, m) + me) * inverse;
    v = q + qe;
    ve = qe - (v - q);
    if (!root) return mta_round(v, ve);
    s = sqrt(v);
    t = v > 0.0 ? 0.5 / s : 0.0;
    t = (fma(-s, s, v) + ve) * t;
    q = s + t;
    return mta_round(q, t - (q - s));
}

/* Variance or standard deviation of each partial. */
MTA_INLINE void mta_lower_spread_body(int wide, const mta_moments *part, int64_t rows, int64_t ddof, int root,
                             double *out) {
    enum { RUN = 64 };
    double n[RUN], s1[RUN], e1[RUN], s2[RUN], e2[RUN];
    int64_t i, start, run, odd = 0;
    for (start = 0; start < rows; start += RUN) {
        run = rows - start < RUN ? rows - start : RUN;
        for (i = 0; i < run; i++) {
            n[i] = (double)part[start + i].n;
            s1[i] = part[start + i].s1_hi;
            e1[i] = part[start + i].s1_lo;
            s2[i] = part[start + i].s2_hi;
            e2[i] = part[start + i].s2_lo;
            odd |= (part[start + i].n <= ddof) | !(fabs(s2[i]) <= DBL_MAX);
        }
        if (root)
            for (i = 0; i < run; i++)
                out[start + i] = mta_spread(n[i], s1[i], e1[i], s2[i], e2[i], (double)ddof, 1);
        else
            for (i = 0; i < run; i++)
                out[start + i] = mta_spread(n[i], s1[i], e1[i], s2[i], e2[i], (double)ddof, 0);
    }
    if (!odd) return;
    for (i = 0; i < rows; i++) {
        /* Finite values whose squares overflow have a variance beyond the doubles. */
        if (!isfinite(part[i].s2_hi))
            out[i] = isfinite(part[i].s1_hi) && isfinite(part[i].k_hi) ? INFINITY : NAN;
        if (part[i].n <= ddof || part[i].n == 0) out[i] = NAN;
    }
}
MTA_TWICE(void, mta_lower_spread, (const mta_moments *part, int64_t rows, int64_t ddof, int root, double *out),
          part, rows, ddof, root, out)

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

/* Means of compensated sums over n[i] values: NaN of none, and whatever hi is where it is not finite. */
MTA_INLINE void mta_lower_means_at(const double *hi, const double *lo, int step,
                                   const int64_t *count, const int64_t *first, const int64_t *last,
                                   int64_t rows, double *out) {
    int64_t i, odd = 0;
    for (i = 0; i < rows; i++) {
        double n = (double)(count ? count[i] : last[i] - first[i]);
        double h = hi[step * i], l = lo[step * i], s = h + l, t = s - h;
        double e = (h - (s - t)) + (l - t);
        double inverse = 1.0 / n, q = s * inverse;
        out[i] = q + (fma(-q, n, s) + e) * inverse;
        odd |= (n == 0.0) | !(fabs(h) <= DBL_MAX);
    }
    if (!odd) return;
    for (i = 0; i < rows; i++) {
        if (!isfinite(hi[step * i])) out[i] = hi[step * i];
        if ((count ? count[i] : last[i] - first[i]) == 0) out[i] = NAN;
    }
}
MTA_INLINE void mta_lower_means_body(int wide, const double *hi, const double *lo, int step,
                                     const int64_t *count, const int64_t *first,
                                     const int64_t *last, int64_t rows, double *out) {
    if (step == 1)
        mta_lower_means_at(hi, lo, 1, count, first, last, rows, out);
    else
        mta_lower_means_at(hi, lo, step, count, first, last, rows, out);
}
MTA_TWICE(void, mta_lower_means,
          (const double *hi, const double *lo, int step, const int64_t *count, const int64_t *first,
           const int64_t *last, int64_t rows, double *out),
          hi, lo, step, count, first, last, rows, out)

#endif
