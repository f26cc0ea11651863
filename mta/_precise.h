/* The hot loops of sum, mean, var and std, in C for the sake of two things that Cython can't say.
   They are compiled once for every x86-64 and once for those with AVX and FMA, and the loader picks:
   an fma() gives the rounding error of a product in one instruction instead of Dekker's seventeen.
   And block sums are taken four at a time. Every operation is rounded by itself in either build, so
   the answers are the same doubles wherever they run. */
#ifndef MTA_PRECISE_H
#define MTA_PRECISE_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) \
    && !defined(__FMA__)
#define MTA_CLONES __attribute__((target_clones("fma", "default"), unused))
#elif defined(__GNUC__)
#define MTA_CLONES __attribute__((unused))
#else
#define MTA_CLONES
#endif

#if defined(__GNUC__)
/* A helper that is not inlined would run as built for every x86-64, inside either clone. */
#define MTA_INLINE static inline __attribute__((always_inline))
#else
#define MTA_INLINE static inline
#endif

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
MTA_CLONES
static void mta_combine_moments(mta_moments *out, const mta_moments *a, const mta_moments *b) {
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
MTA_CLONES
static void mta_deviations_left(const double *x, const uint8_t *valid, double k, int64_t lo,
                                int64_t hi, mta_deviations *out) {
    mta_deviations r = {0.0, 0.0, 0.0, 0.0};
    int64_t i;
    for (i = hi - 1; i >= lo; i--) {
        if (!valid || valid[i]) mta_add_deviation(&r, k, x[i]);
        out[i - lo] = r;
    }
}

/* n steps of a run of windows: the rows from `last` up to hi[i] join *m, and out[i] is
   suffix[lo[i]] + *m, of count[i] (or hi[i] - lo[i]) values. */
MTA_CLONES
static void mta_deviations_slide(const double *x, const uint8_t *valid, double k, const int64_t *lo,
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
MTA_CLONES
static void mta_lower_spread(const mta_moments *part, int64_t rows, int64_t ddof, int root,
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

/* Compensated sums as doubles. Once hi is not finite, lo holds inf - inf; the answer is hi. */
MTA_CLONES
static void mta_lower_sums(const double *hi_lo, int64_t rows, double *out) {
    int64_t i, odd = 0;
    for (i = 0; i < rows; i++) {
        out[i] = hi_lo[2 * i] + hi_lo[2 * i + 1];
        odd |= !(fabs(hi_lo[2 * i]) <= DBL_MAX);
    }
    if (!odd) return;
    for (i = 0; i < rows; i++)
        if (!isfinite(hi_lo[2 * i])) out[i] = hi_lo[2 * i];
}

/* Means of compensated sums over n[i] values: NaN of none, and whatever hi is where it is not finite. */
MTA_CLONES
static void mta_lower_means(const double *hi_lo, const int64_t *count, const int64_t *first,
                            const int64_t *last, int64_t rows, double *out) {
    int64_t i, odd = 0;
    for (i = 0; i < rows; i++) {
        double n = (double)(count ? count[i] : last[i] - first[i]);
        double s = hi_lo[2 * i] + hi_lo[2 * i + 1], t = s - hi_lo[2 * i];
        double e = (hi_lo[2 * i] - (s - t)) + (hi_lo[2 * i + 1] - t);
        double inverse = 1.0 / n, q = s * inverse;
        out[i] = q + (fma(-q, n, s) + e) * inverse;
        odd |= (n == 0.0) | !(fabs(hi_lo[2 * i]) <= DBL_MAX);
    }
    if (!odd) return;
    for (i = 0; i < rows; i++) {
        if (!isfinite(hi_lo[2 * i])) out[i] = hi_lo[2 * i];
        if ((count ? count[i] : last[i] - first[i]) == 0) out[i] = NAN;
    }
}

/* Compensated sums from (or to) every row of a stretch of blocks of 16, and one more. */
enum { MTA_STRETCH = 256 };
typedef struct {
    double hi[MTA_STRETCH + 17], lo[MTA_STRETCH + 17];
} mta_sums;

#if defined(__GNUC__)
typedef double mta_four __attribute__((vector_size(32)));
#define MTA_FOUR(p, step) {(p)[0], (p)[step], (p)[2 * (step)], (p)[3 * (step)]}

/* out = a + b at the given strides, four at a time. */
MTA_INLINE void mta_add4(const double *ah, const double *al, int a, const double *bh,
                            const double *bl, int b, double *hi, double *lo, int step) {
    mta_four x = MTA_FOUR(ah, a), y = MTA_FOUR(bh, b);
    mta_four xl = MTA_FOUR(al, a), yl = MTA_FOUR(bl, b);
    mta_four s = x + y, t = s - x;
    mta_four l = (xl + yl) + ((x - (s - t)) + (y - t));
    int i;
    for (i = 0; i < 4; i++) {
        hi[i * step] = s[i];
        lo[i * step] = l[i];
    }
}
#else
MTA_INLINE void mta_add4(const double *ah, const double *al, int a, const double *bh,
                            const double *bl, int b, double *hi, double *lo, int step) {
    int i;
    for (i = 0; i < 4; i++) {
        double x = ah[i * a], y = bh[i * b], s = x + y, t = s - x;
        lo[i * step] = (al[i * a] + bl[i * b]) + ((x - (s - t)) + (y - t));
        hi[i * step] = s;
    }
}
#endif

MTA_INLINE void mta_add1(double ah, double al, double bh, double bl, double *hi, double *lo) {
    double s = ah + bh, t = s - ah;
    *lo = (al + bl) + ((ah - (s - t)) + (bh - t));
    *hi = s;
}

/* The dyadic nodes inside a block of 16: its pairs, quads and halves. */
typedef struct {
    double hi1[8], lo1[8], hi2[4], lo2[4], hi3[2], lo3[2];
} mta_nodes;

static const double mta_zeros[16];

MTA_INLINE void mta_block_nodes(const double *x, mta_nodes *m) {
    mta_add4(x, mta_zeros, 2, x + 1, mta_zeros, 2, m->hi1, m->lo1, 1);
    mta_add4(x + 8, mta_zeros, 2, x + 9, mta_zeros, 2, m->hi1 + 4, m->lo1 + 4, 1);
    mta_add4(m->hi1, m->lo1, 2, m->hi1 + 1, m->lo1 + 1, 2, m->hi2, m->lo2, 1);
    mta_add1(m->hi2[0], m->lo2[0], m->hi2[1], m->lo2[1], &m->hi3[0], &m->lo3[0]);
    mta_add1(m->hi2[2], m->lo2[2], m->hi2[3], m->lo2[3], &m->hi3[1], &m->lo3[1]);
}

/* h, l at 0 < o < 16: rows [o, 16) of the block and then what stands at 16, each one node onto a
   longer run. */
MTA_CLONES
static void mta_block_suffixes(const double *x, double *h, double *l) {
    mta_nodes m;
    mta_block_nodes(x, &m);
    mta_add1(m.hi3[1], m.lo3[1], h[16], l[16], &h[8], &l[8]);
    mta_add1(m.hi2[1], m.lo2[1], h[8], l[8], &h[4], &l[4]);
    mta_add1(m.hi2[3], m.lo2[3], h[16], l[16], &h[12], &l[12]);
    mta_add4(m.hi1 + 1, m.lo1 + 1, 2, h + 4, l + 4, 4, h + 2, l + 2, 4);
    mta_add4(x + 1, mta_zeros, 2, h + 2, l + 2, 2, h + 1, l + 1, 2);
    mta_add4(x + 9, mta_zeros, 2, h + 10, l + 10, 2, h + 9, l + 9, 2);
}

/* h, l at 0 < o < 16: what stands at 0 and then rows [0, o) of the block; node: the whole block. */
MTA_CLONES
static void mta_block_prefixes(const double *x, double *h, double *l, double *node) {
    mta_nodes m;
    mta_block_nodes(x, &m);
    mta_add1(m.hi3[0], m.lo3[0], m.hi3[1], m.lo3[1], &node[0], &node[1]);
    mta_add1(h[0], l[0], m.hi3[0], m.lo3[0], &h[8], &l[8]);
    mta_add1(h[0], l[0], m.hi2[0], m.lo2[0], &h[4], &l[4]);
    mta_add1(h[8], l[8], m.hi2[2], m.lo2[2], &h[12], &l[12]);
    mta_add4(h, l, 4, m.hi1, m.lo1, 2, h + 2, l + 2, 4);
    mta_add4(h, l, 2, x, mta_zeros, 2, h + 1, l + 1, 2);
    mta_add4(h + 8, l + 8, 2, x + 8, mta_zeros, 2, h + 9, l + 9, 2);
}

/* out[i] = suffix[lo[i] - front] + prefix[hi[i] - back]. */
MTA_CLONES
static void mta_join_sums(const mta_sums *suffix, const mta_sums *prefix, const int64_t *lo,
                          const int64_t *hi, int64_t front, int64_t back, int64_t n, double *out) {
    int64_t i;
    for (i = 0; i < n; i++) {
        int64_t f = lo[i] - front, e = hi[i] - back;
        mta_add1(suffix->hi[f], suffix->lo[f], prefix->hi[e], prefix->lo[e], &out[2 * i],
                 &out[2 * i + 1]);
    }
}

#endif
