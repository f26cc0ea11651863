/* Variances and standard deviations of sums of deviations. */
#ifndef MTA_SPREAD_H
#define MTA_SPREAD_H

#include <string.h>

#include "_double_pairs.h"

/* hi + lo as a double; what lies within 2^-40 of the middle between two doubles is taken to be the
   middle, so that two ways to compute it, each good to 2^-90, agree. Adding half of the gap then
   rounds to even. */
MTA_INLINE double mta_round(double hi, double lo) {
    double up = hi + lo * (1.0 + 9.094947017729282e-13);
    return hi + 0.5 * (up - hi);
}
MTA_INLINE void mta_round_four(const mta_f4 *hi, const mta_f4 *lo, mta_f4 *out) {
    mta_f4 up = *hi + *lo * (1.0 + 9.094947017729282e-13);
    *out = *hi + 0.5 * (up - *hi);
}

#if defined(__x86_64__)
MTA_WIDE static inline void mta_sqrt_wide(const mta_f4 *x, mta_f4 *out) {
    *out = (mta_f4)_mm256_sqrt_pd((__m256d)*x);
}
#endif
MTA_INLINE void mta_sqrt(int wide, const mta_f4 *x, mta_f4 *out) {
    mta_f4 r;
    int i;
#if defined(__x86_64__)
    if (wide) {
        mta_sqrt_wide(x, out);
        return;
    }
#endif
    for (i = 0; i < 4; i++) r[i] = sqrt((*x)[i]);
    *out = r;
}

/* Products up to here are far from overflow; counts and their products are exact up to here. */
#define MTA_SAFE (DBL_MAX / 4)
#define MTA_EXACT 9007199254740992.0

/* Some windows' counts and sums of deviations, and what becomes of them. */
enum { MTA_SPREADS = 64 };
typedef struct {
    double n[MTA_SPREADS], s1_hi[MTA_SPREADS], s1_lo[MTA_SPREADS], s2_hi[MTA_SPREADS],
        s2_lo[MTA_SPREADS], v_hi[MTA_SPREADS], v_lo[MTA_SPREADS];
} __attribute__((aligned(64))) mta_spreads;

/* What all windows of one count share. */
typedef struct {
    mta_f4 n, divisor, inverse; /* the divisor is n (n - ddof) */
    mta_i4 odd;
} mta_divisor;

MTA_INLINE void mta_divide_by(const double *n, double ddof, mta_divisor *by) {
    mta_f4 left;
    by->n = MTA_F4_CONST(n);
    left = by->n - ddof;
    by->divisor = by->n * left;
    by->inverse = 1.0 / by->divisor;
    by->odd = (mta_i4)(left <= 0.0) | (mta_i4)(by->divisor > MTA_EXACT);
}

/* The variances of four of them: (n s2 - s1^2) / (n (n - ddof)), as hi + lo. What comes out set in
   `odd`, where a product may overflow or there are too few values, is for mta_odd_spread.
   n s2 is not less than s1^2. s1's parts are normalised as if the low one were the lesser; where it is
   not, s1 is so small beside n s2 that its last bits don't count. */
MTA_INLINE void mta_variances(int wide, mta_spreads *w, int64_t i, const mta_divisor *by, mta_i4 *odd) {
    mta_f4 s1 = MTA_F4(w->s1_hi + i), e1 = MTA_F4(w->s1_lo + i);
    mta_f4 s2 = MTA_F4(w->s2_hi + i), e2 = MTA_F4(w->s2_lo + i);
    mta_f4 x, p1, p2, s, t, m, me, q, v;
    mta_i4 some;
    x = s1 + e1;
    e1 = e1 - (x - s1);
    p1 = by->n * s2;
    mta_product_error(wide, &by->n, &s2, &p1, &s2);
    mta_fma(wide, &by->n, &e2, &s2, 0, &e2);
    p2 = x * x;
    mta_product_error(wide, &x, &x, &p2, &s1);
    t = x + x;
    mta_fma(wide, &t, &e1, &s1, 0, &e1);
    s = p1 - p2;
    me = ((p1 - s) - p2) + (e2 - e1);
    m = s + me;
    me = me - (m - s);
    some = (mta_i4)(m > 0.0);
    m = (mta_f4)((mta_i4)m & some);
    me = (mta_f4)((mta_i4)me & some);
    q = m * by->inverse;
    mta_fma(wide, &q, &by->divisor, &m, 1, &t);
    t = (t + me) * by->inverse;
    v = q + t;
    MTA_F4(w->v_hi + i) = v;
    MTA_F4(w->v_lo + i) = t - (v - q);
    *odd |= ~(mta_i4)(p1 < MTA_SAFE) | by->odd;
}

/* The root of hi + lo, as hi + lo: a step of Newton's method from the root of hi. */
MTA_INLINE void mta_root(int wide, mta_f4 *hi, mta_f4 *lo) {
    mta_f4 s, rest, t;
    mta_sqrt(wide, hi, &s);
    mta_fma(wide, &s, &s, hi, 1, &rest);
    t = (mta_f4)((mta_i4)(0.5 / s) & (mta_i4)(*hi > 0.0));
    t = (rest + *lo) * t;
    *hi = s + t;
    *lo = t - (*hi - s);
}

/* The same for one that is not like the others, with no product that might overflow. Finite values
   whose squares do have a variance beyond the doubles. */
static inline double mta_odd_spread(double n, double ddof, double s1_hi, double s1_lo, double s2_hi,
                                    double s2_lo, int root) {
    double left = n - ddof, inverse = 1.0 / n, s1, e1, q, qe, p, pe, m, me, s, t, v, ve;
    if (!(n > ddof) || n == 0.0) return NAN;
    if (!isfinite(s2_hi)) return isfinite(s1_hi) ? INFINITY : NAN;
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

/* The answers of four windows from their variances. */
MTA_INLINE void mta_spreads_out(int wide, const mta_spreads *w, int64_t i, int root, double *out) {
    mta_f4 hi = MTA_F4_CONST(w->v_hi + i), lo = MTA_F4_CONST(w->v_lo + i), answer;
    if (root) mta_root(wide, &hi, &lo);
    mta_round_four(&hi, &lo, &answer);
    MTA_F4(out) = answer;
}

/* The variances (or their roots) of n windows; same: all of one count. The roots follow some windows
   behind: each waits long for its divisions, and a processor looks only so many operations ahead. */
MTA_INLINE void mta_lower_spreads(int wide, mta_spreads *w, int64_t n, int same, double ddof, int root,
                                  double *out) {
    enum { BEHIND = 16 };
    mta_i4 odd = {0, 0, 0, 0};
    int64_t i, done = 0;
    double four[4];
    mta_divisor by;
    mta_divide_by(w->n, ddof, &by);
    for (i = 0; i < n; i += 4) {
        if (!same) mta_divide_by(w->n + i, ddof, &by);
        mta_variances(wide, w, i, &by, &odd);
        if (i < BEHIND) continue;
        mta_spreads_out(wide, w, done, root, out + done);
        done += 4;
    }
    for (; done + 4 <= n; done += 4) mta_spreads_out(wide, w, done, root, out + done);
    if (done < n) {
        mta_spreads_out(wide, w, done, root, four);
        memcpy(out + done, four, (n - done) * sizeof(double));
    }
    if (!(odd[0] | odd[1] | odd[2] | odd[3])) return;
    for (i = 0; i < n; i++)
        if (!(w->n[i] * w->s2_hi[i] < MTA_SAFE && w->n[i] > ddof &&
              w->n[i] * (w->n[i] - ddof) <= MTA_EXACT))
            out[i] = mta_odd_spread(w->n[i], ddof, w->s1_hi[i], w->s1_lo[i], w->s2_hi[i], w->s2_lo[i],
                                    root);
}

#endif
