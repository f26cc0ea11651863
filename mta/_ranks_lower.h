/* Quantiles of n sorted values: where they lie, and what they are between two of them. */
#ifndef MTA_RANKS_LOWER_H
#define MTA_RANKS_LOWER_H

#include "_ranks_sort.h"

enum { MTA_LINEAR, MTA_LOWER, MTA_HIGHER, MTA_MIDPOINT, MTA_NEAREST };

typedef struct {
    double q;
    int interpolation;
    int64_t n;            /* of so many values */
    int64_t position;     /* this one is asked for, */
    int pair;             /* and, for interpolations, the next one if there is one, */
    double between;       /* from which the answer lies this far towards the next */
    /* What was found for a run of windows: the values (cells) at and after the position, and how far
       between them the answer lies. */
    int64_t *first, *second;
    double *share;
} mta_quantile;

MTA_INLINE int mta_interpolates(const mta_quantile *q) {
    return q->interpolation == MTA_LINEAR || q->interpolation == MTA_MIDPOINT;
}

/* Where the quantile of n > 0 values lies: at q (n - 1), counted from 0, as in NumPy. */
MTA_INLINE void mta_place(mta_quantile *q, int64_t n) {
    double at = q->q * (double)(n - 1);
    int64_t floor = (int64_t)at;
    double rest = at - (double)floor;
    q->n = n;
    if (q->interpolation == MTA_HIGHER) floor += rest > 0.0;
    if (q->interpolation == MTA_NEAREST) floor += rest > 0.5 || (rest == 0.5 && (floor & 1));
    if (q->interpolation == MTA_MIDPOINT) rest = rest > 0.0 ? 0.5 : 0.0;
    q->position = floor < n ? floor : n - 1;
    /* Also where the answer is the first one: whether it is changes with n, too often to be foreseen
       by the processor. */
    q->pair = mta_interpolates(q) && floor + 1 < n;
    q->between = rest;
}

/* As NumPy does, but halfway lies the mean, correctly rounded (halving a sum, or two numbers whose
   sum overflows, is exact); infinities, and differences that overflow, as weighted means. */
static double mta_between_floats(double a, double b, double t) {
    double d = b - a, s = a + b;
    if (t == 0.0) return a;
    if (t == 0.5) return isfinite(s) ? 0.5 * s : 0.5 * a + 0.5 * b;
    if (!isfinite(d)) return a * (1.0 - t) + b * t;
    return t < 0.5 ? a + d * t : b - d * (1.0 - t);
}

/* Whether any of them is infinite or NaN. */
static int mta_any_odd(const double *x, int64_t n) {
    uint64_t bits, odd = 0;
    int64_t i;
    for (i = 0; i < n; i++) {
        memcpy(&bits, &x[i], sizeof(bits));
        odd |= (bits & INT64_MAX) + (1ULL << 52);  /* carries into the sign */
    }
    return (odd & MTA_SIGN) != 0;
}

/* The same without a branch where all is finite: the compiler takes several at a time. */
static void mta_lower_floats(const mta_quantile *q, int64_t n, double *out) {
    const double *first = (const double *)q->first, *second = (const double *)q->second;
    const double *share = q->share;
    const int64_t nan = MTA_NAN_BITS;
    int64_t i;
    for (i = 0; i < n; i++) {
        double a = first[i], b = second[i], t = share[i], d = b - a, s = a + b;
        double near = t < 0.5 ? a : b, by = t < 0.5 ? t : t - 1.0;
        double x = near + d * by;
        x = t == 0.5 ? 0.5 * s : x;
        out[i] = t == 0.0 ? a : x;
    }
    if (!mta_any_odd(out, n)) return;
    for (i = 0; i < n; i++) {
        double x = mta_between_floats(first[i], second[i], share[i]);
        if (x == x)
            out[i] = x;
        else
            memcpy(&out[i], &nan, sizeof(nan));  /* inf - inf has a sign, not everywhere the same */
    }
}

#define MTA_WIDEN(x, is_unsigned) \
    ((is_unsigned) ? (__int128)(uint64_t)(x) : (__int128)(int64_t)(x))

/* a + (b - a) t, in about 100 bits before it is rounded; b >= a, so that their difference fits. */
static double mta_between_integers(int64_t a, int64_t b, double t, int is_unsigned) {
    __int128 start = MTA_WIDEN(a, is_unsigned);
    uint64_t step = (uint64_t)b - (uint64_t)a;
    mta_dd x, d, by = {t, 0.0};
    if (t == 0.0) return (double)start;
    if (t == 0.5) return 0.5 * (double)(start + MTA_WIDEN(b, is_unsigned));
    x.hi = (double)start;
    x.lo = (double)(start - (__int128)x.hi);
    d.hi = (double)step;
    d.lo = (double)((__int128)step - (__int128)d.hi);
    x = mta_dd_add(x, mta_dd_mul(d, by));
    return x.hi + x.lo;
}

/* The answers to n windows: doubles from interpolations, else cells. */
static void mta_lower_quantile(const mta_quantile *q, int64_t n, int source, int64_t *out) {
    int64_t i;
    if (!mta_interpolates(q))
        memcpy(out, q->first, (size_t)n * sizeof(int64_t));
    else if (source == MTA_RANK_FLOAT)
        mta_lower_floats(q, n, (double *)out);
    else
        for (i = 0; i < n; i++)
            ((double *)out)[i] = mta_between_integers(q->first[i], q->second[i], q->share[i],
                                                      source == MTA_RANK_UINT);
}

#endif
