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

/* What all windows of one count share. */
typedef struct {
    mta_f4 n, divisor, inverse; /* the divisor is n (n - ddof) */
    mta_i4 odd;
} mta_divisor;

/* Counts and sums of deviations of four windows. */
typedef struct {
    mta_f4 n, s1_hi, s1_lo, s2_hi, s2_lo;
} mta_spread4;

/* Windows four by four: their sums, and what becomes of them. Variances, roots, divisions and answers
   follow MTA_BEHIND windows behind each other: each waits long for the one before, and a processor
   looks only so many operations ahead. */
enum { MTA_SPREADS = 64, MTA_BEHIND = 8 };
enum { MTA_CROSSED = 1, MTA_ODD = 2 }; /* the second stands after the third; some are not like others */
typedef struct {
    mta_spread4 sums[MTA_SPREADS / 4]; /* of the windows to be begun */
    double v_hi[MTA_SPREADS], v_lo[MTA_SPREADS], root[MTA_SPREADS], half[MTA_SPREADS];
    uintptr_t out[MTA_SPREADS / 4];   /* where the answers go, and */
    mta_spread4 odd[MTA_SPREADS / 4]; /* of those that MTA_ODD says so of, the sums */
    int lanes[MTA_SPREADS / 4];       /* and how many they are */
    int64_t begun, done;
} __attribute__((aligned(64))) mta_spreads;

/* What a loop has at hand. */
typedef struct {
    int64_t begun, done;
    mta_divisor by;
} mta_progress;

MTA_INLINE void mta_divide_by(const mta_f4 *n, double ddof, mta_divisor *by) {
    mta_f4 left;
    by->n = *n;
    left = by->n - ddof;
    by->divisor = by->n * left;
    by->inverse = 1.0 / by->divisor;
    by->odd = (mta_i4)(left <= 0.0) | (mta_i4)(by->divisor > MTA_EXACT);
}

/* The variances of four windows: (n s2 - s1^2) / (n (n - ddof)), as hi + lo. What comes out set in
   *odd, where a product may overflow or there are too few values, is for mta_odd_spread.
   n s2 is not less than s1^2, nor is the difference less than n s2 / (n + 1): for k is one of the
   values, so its low part stays small beside it. */
MTA_INLINE void mta_variances(int wide, const mta_spread4 *x, const mta_divisor *by, mta_f4 *hi,
                              mta_f4 *lo, mta_i4 *odd) {
    mta_f4 s1 = x->s1_hi, e1 = x->s1_lo, s2 = x->s2_hi, e2 = x->s2_lo;
    mta_f4 p1 = by->n * s2, p2 = s1 * s1, m, me, t, q, v;
    mta_i4 some;
    mta_product_error(wide, &by->n, &s2, &p1, &s2);
    mta_fma(wide, &by->n, &e2, &s2, 0, &e2);
    mta_product_error(wide, &s1, &s1, &p2, &t);
    s1 = (s1 + s1) + e1;
    mta_fma(wide, &s1, &e1, &t, 0, &e1);
    m = p1 - p2;
    me = ((p1 - m) - p2) + (e2 - e1);
    some = (mta_i4)(m > 0.0);
    m = (mta_f4)((mta_i4)m & some);
    me = (mta_f4)((mta_i4)me & some);
    q = m * by->inverse;
    mta_fma(wide, &q, &by->divisor, &m, 1, &t);
    t = (t + me) * by->inverse;
    v = q + t;
    *hi = v;
    *lo = t - (v - q);
    *odd = ~(mta_i4)(p1 < MTA_SAFE) | by->odd;
}

/* 1 / 2s, of the root s of a variance. (That of the least double is far above 1e-200, which spares a
   division of 0 by 0.) */
MTA_INLINE void mta_half_inverse(const mta_f4 *s, mta_f4 *half) { *half = 0.5 / (*s + 1e-200); }

/* The root of hi + lo, as hi + lo: a step of Newton's method from the root s of hi. */
MTA_INLINE void mta_better_root(int wide, const mta_f4 *s, const mta_f4 *half, mta_f4 *hi, mta_f4 *lo) {
    mta_f4 rest, t;
    mta_fma(wide, s, s, hi, 1, &rest);
    t = (rest + *lo) * *half;
    *hi = *s + t;
    *lo = t - (*hi - *s);
}
MTA_INLINE void mta_root(int wide, mta_f4 *hi, mta_f4 *lo) {
    mta_f4 s, half;
    mta_sqrt(wide, hi, &s);
    mta_half_inverse(&s, &half);
    mta_better_root(wide, &s, &half, hi, lo);
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

/* Put the answers of four windows, those that are odd made anew. */
static __attribute__((noinline, cold, unused)) void mta_put_odd(const mta_spreads *w, int64_t i,
                                                                double ddof, int root,
                                                                double *answers, double *out) {
    const mta_spread4 *x = &w->odd[i / 4];
    int64_t j, at, lanes = w->lanes[i / 4];
    for (j = 0; j < 4; j++) {
        double n, s2;
        at = w->out[i / 4] & MTA_CROSSED ? (j & 1) << 1 | j >> 1 : j;
        n = x->n[at], s2 = x->s2_hi[at];
        if (!(n * s2 < MTA_SAFE && n > ddof && n * (n - ddof) <= MTA_EXACT))
            answers[j] = mta_odd_spread(n, ddof, x->s1_hi[at], x->s1_lo[at], s2, x->s2_lo[at], root);
    }
    memcpy(out, answers, lanes * sizeof(double));
}

/* The answers of the four windows at i. */
MTA_INLINE void mta_spreads_out(int wide, const mta_spreads *w, int64_t i, double ddof, int root) {
    mta_f4 hi = MTA_F4_CONST(w->v_hi + i), lo = MTA_F4_CONST(w->v_lo + i), answer;
    uintptr_t place = w->out[i / 4];
    double *out = (double *)(place & ~(uintptr_t)(MTA_CROSSED | MTA_ODD)), answers[4];
    mta_f4 s = MTA_F4_CONST(w->root + i), half = MTA_F4_CONST(w->half + i);
    if (root) mta_better_root(wide, &s, &half, &hi, &lo);
    mta_round_four(&hi, &lo, &answer);
    if (place & MTA_CROSSED) answer = MTA_SHUFFLE(answer, answer, 0, 2, 1, 3);
    if (!(place & MTA_ODD)) {
        MTA_F4(out) = answer;
        return;
    }
    MTA_F4(answers) = answer;
    mta_put_odd(w, i, ddof, root, answers, out);
}

/* The second stage, and the third, of the four windows at i; of what is not begun, nothing comes. */
MTA_INLINE void mta_root_at(int wide, mta_spreads *w, int64_t i) {
    mta_f4 v = MTA_F4(w->v_hi + (i & (MTA_SPREADS - 1))), s;
    mta_sqrt(wide, &v, &s);
    MTA_F4(w->root + (i & (MTA_SPREADS - 1))) = s;
}
MTA_INLINE void mta_half_inverse_at(mta_spreads *w, int64_t i) {
    mta_f4 s = MTA_F4(w->root + (i & (MTA_SPREADS - 1))), half;
    mta_half_inverse(&s, &half);
    MTA_F4(w->half + (i & (MTA_SPREADS - 1))) = half;
}

/* Four windows, of which `lanes` are answered at out. same: of the count of those before. */
MTA_INLINE void mta_spreads_next(int wide, mta_spreads *w, mta_progress *turn, const mta_spread4 *x,
                                 int same, int crossed, int lanes, double ddof, int root,
                                 double *out) {
    int64_t i = turn->begun & (MTA_SPREADS - 1);
    mta_f4 hi, lo;
    mta_i4 odd;
    if (!same) mta_divide_by(&x->n, ddof, &turn->by);
    __builtin_prefetch(out + MTA_SOON_OUT, 1);
    mta_variances(wide, x, &turn->by, &hi, &lo, &odd);
    MTA_F4(w->v_hi + i) = hi;
    MTA_F4(w->v_lo + i) = lo;
    w->out[i / 4] = (uintptr_t)out | crossed;
    if (lanes < 4 || mta_any(wide, &odd)) {
        w->out[i / 4] = (uintptr_t)out | crossed | MTA_ODD;
        w->odd[i / 4] = *x;
        w->lanes[i / 4] = lanes;
    }
    turn->begun += 4;
    if (root) {
        mta_root_at(wide, w, i - MTA_BEHIND);
        mta_half_inverse_at(w, i - 2 * MTA_BEHIND);
    }
    if (turn->begun - turn->done <= (root ? 3 : 1) * MTA_BEHIND) return;
    mta_spreads_out(wide, w, turn->done & (MTA_SPREADS - 1), ddof, root);
    turn->done += 4;
}

/* Begin to answer n windows, whose sums are in *w. crossed: MTA_CROSSED or 0; same, by: they are all
   of this count. */
MTA_INLINE void mta_spreads_begin(int wide, mta_spreads *w, int64_t n, const mta_divisor *by, int same,
                                  int crossed, double ddof, int root, double *out) {
    mta_progress turn = {w->begun, w->done, *by};
    int64_t i;
    for (i = 0; i + 4 <= n; i += 4)
        mta_spreads_next(wide, w, &turn, &w->sums[i / 4], same, crossed, 4, ddof, root, out + i);
    if (i < n)
        mta_spreads_next(wide, w, &turn, &w->sums[i / 4], same, crossed, (int)(n - i), ddof, root,
                         out + i);
    w->begun = turn.begun;
    w->done = turn.done;
}

/* Answer all that are begun. */
MTA_INLINE void mta_spreads_end_body(int wide, mta_spreads *w, double ddof, int root) {
    int64_t i, from = w->begun - MTA_BEHIND;
    for (i = from > w->done ? from : w->done; root && i < w->begun; i += 4)
        mta_root_at(wide, w, i);
    from -= MTA_BEHIND;
    for (i = from > w->done ? from : w->done; root && i < w->begun; i += 4)
        mta_half_inverse_at(w, i);
    for (; w->done < w->begun; w->done += 4)
        mta_spreads_out(wide, w, w->done & (MTA_SPREADS - 1), ddof, root);
}
MTA_TWICE(void, mta_spreads_end, (mta_spreads *w, double ddof, int root), w, ddof, root)

#endif
