/* Sums of deviations from k and of their squares, over the two halves of windows: suffixes from every
   row of the older half, prefixes to every row of the newer one.

   A row's deviation x - k and its square are exact, in two doubles each; they are made four rows at a
   time. The sums are chains, a row after the other, which wait for one addition a row: the sums of the
   values and of the squares go side by side in one vector, and those of both halves in another. */
#ifndef MTA_DEVIATIONS_H
#define MTA_DEVIATIONS_H

#include "_spread.h"

/* Rows whose sums are kept at a time; from the right, the older half has the sum at every so many. */
enum { MTA_SPAN = 256 };

/* Sums of x - k and of (x - k)^2; low parts gather rounding errors unnormalised (n terms then err by
   n^2 2^-106 of the sum at worst). */
typedef struct {
    double s1_hi, s2_hi, s1_lo, s2_lo;
} mta_deviations;

typedef double mta_f2 __attribute__((vector_size(16)));
typedef double mta_f2_at __attribute__((vector_size(16), aligned(8), may_alias));
#define MTA_F2(p) (*(mta_f2_at *)(p))
#define MTA_F2_CONST(p) (*(const mta_f2_at *)(p))

/* The deviations of the next n rows (at most four) and their squares; of null rows, 0. */
MTA_INLINE void mta_deviate(int wide, const double *x, const uint8_t *valid, int64_t n, double k,
                            mta_sum4 *d, mta_sum4 *p) {
    const mta_f4 same = {k, k, k, k};
    mta_f4 v = same, t, u;
    double four[4];
    int64_t i;
    if (n < 4) {
        for (i = 0; i < 4; i++) four[i] = i < n && (!valid || valid[i]) ? x[i] : k;
        v = MTA_F4(four);
    } else if (valid) {
        mta_i4 mask;
        mta_mask(wide, valid, &mask);
        v = (mta_f4)(((mta_i4)MTA_F4_CONST(x) & mask) | ((mta_i4)same & ~mask));
    } else {
        v = MTA_F4_CONST(x);
    }
    d->hi = v - k;
    t = d->hi - v;
    u = d->hi - t;
    mta_minus(wide, &v, &u, &u);
    d->lo = u - (k + t);
    p->hi = d->hi * d->hi;
    mta_product_error(wide, &d->hi, &d->hi, &p->hi, &p->lo);
    t = d->hi + d->hi;
    mta_fma(wide, &t, &d->lo, &p->lo, 0, &p->lo);
}

/* *sum and then the four sums of *more, one lane after the other. */
MTA_INLINE void mta_add_lanes(double *hi, double *lo, const mta_sum4 *more) {
    double a[4], b[4];
    int i;
    MTA_F4(a) = more->hi;
    MTA_F4(b) = more->lo;
    for (i = 0; i < 4; i++) {
        double s = *hi + a[i], t = s - *hi;
        *lo += b[i] + ((*hi - (s - t)) + (a[i] - t));
        *hi = s;
    }
}

/* *sum and then the n rows: for where only the sum over all of them counts. */
MTA_INLINE void mta_deviations_total_body(int wide, const double *x, const uint8_t *valid, int64_t n,
                                          double k, mta_deviations *sum) {
    mta_sum4 s1 = {{0.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}}, s2 = s1;
    int64_t i;
    for (i = 0; i < n; i += 4) {
        mta_sum4 d, p;
        mta_deviate(wide, x + i, valid ? valid + i : valid, n - i, k, &d, &p);
        mta_add(wide, &s1, &d, &s1);
        mta_add(wide, &s2, &p, &s2);
    }
    mta_add_lanes(&sum->s1_hi, &sum->s1_lo, &s1);
    mta_add_lanes(&sum->s2_hi, &sum->s2_lo, &s2);
}
MTA_TWICE(void, mta_deviations_total,
          (const double *x, const uint8_t *valid, int64_t n, double k, mta_deviations *sum), x, valid,
          n, k, sum)

/* The same for four rows, by rows: high parts of rows 0 and 2, of 1 and 3; and low parts. */
MTA_INLINE void mta_deviate_rows(int wide, const double *x, const uint8_t *valid, int64_t n, double k,
                                 mta_f4 *rows) {
    mta_sum4 d, p;
    mta_deviate(wide, x, valid, n, k, &d, &p);
    rows[0] = MTA_SHUFFLE(d.hi, p.hi, 0, 4, 2, 6);
    rows[1] = MTA_SHUFFLE(d.hi, p.hi, 1, 5, 3, 7);
    rows[2] = MTA_SHUFFLE(d.lo, p.lo, 0, 4, 2, 6);
    rows[3] = MTA_SHUFFLE(d.lo, p.lo, 1, 5, 3, 7);
}

/* Two chains side by side: the sums so far and their low parts, first those of the one, then those of
   the other. Row i of a and row j of b join them, and out_a and out_b are what they become. */
#define MTA_TWO_CHAINS(wide, sum, a, i, out_a, b, j, out_b)                                             \
    do {                                                                                          \
        mta_f4 mta_x = MTA_SHUFFLE(a[(i) & 1], b[(j) & 1], (i) & 2, ((i) & 2) + 1, ((j) & 2) + 4, \
                                   ((j) & 2) + 5);                                                \
        mta_f4 mta_y = MTA_SHUFFLE(a[((i) & 1) + 2], b[((j) & 1) + 2], (i) & 2, ((i) & 2) + 1,    \
                                   ((j) & 2) + 4, ((j) & 2) + 5);                                 \
        mta_f4 mta_s = sum.hi + mta_x, mta_t, mta_u;                                              \
        mta_minus(wide, &mta_s, &sum.hi, &mta_t);                                                 \
        mta_u = mta_s - mta_t;                                                                    \
        mta_minus(wide, &sum.hi, &mta_u, &mta_u);                                                 \
        mta_minus(wide, &mta_x, &mta_t, &mta_t);                                                  \
        sum.lo += mta_y + (mta_u + mta_t);                                                        \
        sum.hi = mta_s;                                                                           \
        MTA_F4(out_a) = MTA_SHUFFLE(sum.hi, sum.lo, 0, 1, 4, 5);                                  \
        MTA_F4(out_b) = MTA_SHUFFLE(sum.hi, sum.lo, 2, 3, 6, 7);                                  \
    } while (0)

/* One chain alone. */
#define MTA_HALF(x, i) ((mta_f2){(x)[(i) & 2], (x)[((i) & 2) + 1]})
#define MTA_ONE_CHAIN(hi, lo, a, i, out)                                                          \
    do {                                                                                          \
        mta_f2 mta_x = MTA_HALF(a[(i) & 1], i), mta_y = MTA_HALF(a[((i) & 1) + 2], i);            \
        mta_f2 mta_s = hi + mta_x, mta_t = mta_s - hi;                                            \
        lo += mta_y + ((hi - (mta_s - mta_t)) + (mta_x - mta_t));                                 \
        hi = mta_s;                                                                               \
        MTA_F2(&(out)->s1_hi) = hi;                                                               \
        MTA_F2(&(out)->s1_lo) = lo;                                                               \
    } while (0)

/* Suffixes of the n rows at x, the last of which is followed by *sum: out[i] is the sum of row i and
   all that follow. */
MTA_INLINE void mta_suffix_chain(int wide, const double *x, const uint8_t *valid, int64_t n, double k,
                                 const mta_deviations *after, mta_deviations *out) {
    mta_f2 hi = MTA_F2_CONST(&after->s1_hi), lo = MTA_F2_CONST(&after->s1_lo);
    mta_f4 rows[4];
    int64_t i = n;
    for (; i >= 4; i -= 4) {
        mta_deviate_rows(wide, x + i - 4, valid ? valid + i - 4 : valid, 4, k, rows);
        MTA_ONE_CHAIN(hi, lo, rows, 3, out + i - 1);
        MTA_ONE_CHAIN(hi, lo, rows, 2, out + i - 2);
        MTA_ONE_CHAIN(hi, lo, rows, 1, out + i - 3);
        MTA_ONE_CHAIN(hi, lo, rows, 0, out + i - 4);
    }
    if (i == 0) return;
    mta_deviate_rows(wide, x, valid, i, k, rows);
    if (i > 2) MTA_ONE_CHAIN(hi, lo, rows, 2, out + 2);
    if (i > 1) MTA_ONE_CHAIN(hi, lo, rows, 1, out + 1);
    MTA_ONE_CHAIN(hi, lo, rows, 0, out);
}

/* Prefixes of n rows, before which stands *sum: out[i] is the sum of row i and all before, which *sum
   becomes. */
MTA_INLINE void mta_prefix_chain(int wide, const double *x, const uint8_t *valid, int64_t n, double k,
                                 mta_deviations *sum, mta_deviations *out) {
    mta_f2 hi = MTA_F2_CONST(&sum->s1_hi), lo = MTA_F2_CONST(&sum->s1_lo);
    mta_f4 rows[4];
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        mta_deviate_rows(wide, x + i, valid ? valid + i : valid, 4, k, rows);
        __builtin_prefetch(x + i + MTA_SOON);
        MTA_ONE_CHAIN(hi, lo, rows, 0, out + i);
        MTA_ONE_CHAIN(hi, lo, rows, 1, out + i + 1);
        MTA_ONE_CHAIN(hi, lo, rows, 2, out + i + 2);
        MTA_ONE_CHAIN(hi, lo, rows, 3, out + i + 3);
    }
    if (i < n) {
        mta_deviate_rows(wide, x + i, valid ? valid + i : valid, n - i, k, rows);
        MTA_ONE_CHAIN(hi, lo, rows, 0, out + i);
        if (i + 1 < n) MTA_ONE_CHAIN(hi, lo, rows, 1, out + i + 1);
        if (i + 2 < n) MTA_ONE_CHAIN(hi, lo, rows, 2, out + i + 2);
    }
    MTA_F2(&sum->s1_hi) = hi;
    MTA_F2(&sum->s1_lo) = lo;
}

/* Both: the suffixes of the n rows at x, followed by *after; the prefixes of the m rows at y, before
   which stands *sum. Side by side for as long as there are both. */
MTA_INLINE void mta_both_chains_of(int wide, const double *x, const uint8_t *x_valid, int64_t n,
                                   const mta_deviations *after, mta_deviations *suffix,
                                   const double *y, const uint8_t *y_valid, int64_t m, double k,
                                   mta_deviations *sum, mta_deviations *prefix) {
    mta_sum4 both = {{after->s1_hi, after->s2_hi, sum->s1_hi, sum->s2_hi},
                     {after->s1_lo, after->s2_lo, sum->s1_lo, sum->s2_lo}};
    mta_deviations rest;
    mta_f4 a[4], b[4];
    int64_t i = n, j = 0;
    for (; i >= 4 && j + 4 <= m; i -= 4, j += 4) {
        mta_deviate_rows(wide, x + i - 4, x_valid ? x_valid + i - 4 : x_valid, 4, k, a);
        mta_deviate_rows(wide, y + j, y_valid ? y_valid + j : y_valid, 4, k, b);
        __builtin_prefetch(x + i - MTA_SOON);
        __builtin_prefetch(y + j + MTA_SOON);
        MTA_TWO_CHAINS(wide, both, a, 3, suffix + i - 1, b, 0, prefix + j);
        MTA_TWO_CHAINS(wide, both, a, 2, suffix + i - 2, b, 1, prefix + j + 1);
        MTA_TWO_CHAINS(wide, both, a, 1, suffix + i - 3, b, 2, prefix + j + 2);
        MTA_TWO_CHAINS(wide, both, a, 0, suffix + i - 4, b, 3, prefix + j + 3);
    }
    MTA_F4(&rest) = MTA_SHUFFLE(both.hi, both.lo, 0, 1, 4, 5);
    MTA_F4(sum) = MTA_SHUFFLE(both.hi, both.lo, 2, 3, 6, 7);
    mta_suffix_chain(wide, x, x_valid, i, k, &rest, suffix);
    mta_prefix_chain(wide, y + j, y_valid ? y_valid + j : y_valid, m - j, k, sum, prefix + j);
}
MTA_INLINE void mta_both_chains_body(int wide, const double *x, const uint8_t *x_valid, int64_t n,
                                     const mta_deviations *after, mta_deviations *suffix,
                                     const double *y, const uint8_t *y_valid, int64_t m, double k,
                                     mta_deviations *sum, mta_deviations *prefix) {
    if (x_valid)
        mta_both_chains_of(wide, x, x_valid, n, after, suffix, y, y_valid, m, k, sum, prefix);
    else
        mta_both_chains_of(wide, x, 0, n, after, suffix, y, 0, m, k, sum, prefix);
}
MTA_TWICE(void, mta_both_chains,
          (const double *x, const uint8_t *x_valid, int64_t n, const mta_deviations *after,
           mta_deviations *suffix, const double *y, const uint8_t *y_valid, int64_t m, double k,
           mta_deviations *sum, mta_deviations *prefix),
          x, x_valid, n, after, suffix, y, y_valid, m, k, sum, prefix)

/* The sums of four windows, s1 and s2 apart. */
MTA_INLINE void mta_join_deviations(int wide, const mta_deviations *const *a,
                                    const mta_deviations *const *b, mta_sum4 *s1, mta_sum4 *s2) {
    mta_f4 w = MTA_F4_CONST(a[0]), x = MTA_F4_CONST(a[1]), y = MTA_F4_CONST(a[2]),
           z = MTA_F4_CONST(a[3]);
    mta_sum4 first, second;
    MTA_TRANSPOSE(w, x, y, z);
    first.hi = w, second.hi = x, first.lo = y, second.lo = z;
    w = MTA_F4_CONST(b[0]), x = MTA_F4_CONST(b[1]), y = MTA_F4_CONST(b[2]), z = MTA_F4_CONST(b[3]);
    MTA_TRANSPOSE(w, x, y, z);
    s1->hi = w, s2->hi = x, s1->lo = y, s2->lo = z;
    mta_add(wide, &first, s1, s1);
    mta_add(wide, &second, s2, s2);
}

/* The sums of four windows: suffix[f[j]] and prefix[b[j]]. */
MTA_INLINE void mta_join_spreads(int wide, const mta_deviations *suffix, const mta_deviations *prefix,
                                 const int64_t *f, const int64_t *b, mta_spreads *w, int64_t i) {
    const mta_deviations *x[4] = {suffix + f[0], suffix + f[1], suffix + f[2], suffix + f[3]};
    const mta_deviations *y[4] = {prefix + b[0], prefix + b[1], prefix + b[2], prefix + b[3]};
    mta_sum4 s1, s2;
    mta_join_deviations(wide, x, y, &s1, &s2);
    MTA_F4(w->s1_hi + i) = s1.hi, MTA_F4(w->s1_lo + i) = s1.lo;
    MTA_F4(w->s2_hi + i) = s2.hi, MTA_F4(w->s2_lo + i) = s2.lo;
}

/* The counts and sums of n windows, at most MTA_SPREADS. steady: they all move by one row. */
MTA_INLINE void mta_gather_spreads(int wide, const mta_deviations *suffix,
                                   const mta_deviations *prefix, const int64_t *lo, const int64_t *hi,
                                   const int64_t *count, int64_t n, int steady, mta_spreads *w) {
    int64_t i = 0, j, f[4], b[4], length = hi[0] - lo[0];
    for (; i + 4 <= n; i += 4) {
        mta_i4 rows = {length, length, length, length};
        mta_f4 values;
        for (j = 0; j < 4; j++) {
            f[j] = steady ? lo[0] + i + j : lo[i + j];
            b[j] = steady ? hi[0] + i + j : hi[i + j];
        }
        mta_join_spreads(wide, suffix, prefix, f, b, w, i);
        if (count)
            rows = MTA_I4_CONST(count + i);
        else if (!steady)
            rows = MTA_I4_CONST(hi + i) - MTA_I4_CONST(lo + i);
        mta_as_doubles(&rows, &values);
        MTA_F4(w->n + i) = values;
    }
    if (i == n) return;
    for (j = 0; j < 4; j++) { /* the last one again, up to a multiple of four */
        int64_t at = i + j < n ? i + j : n - 1;
        f[j] = lo[at];
        b[j] = hi[at];
        w->n[i + j] = (double)(count ? count[at] : hi[at] - lo[at]);
    }
    mta_join_spreads(wide, suffix, prefix, f, b, w, i);
}

/* out[i] = the variance (or its root) over window i: suffix[lo[i]] and prefix[hi[i]], of count[i] or
   hi[i] - lo[i] values. */
MTA_INLINE void mta_answer_spread_body(int wide, const mta_deviations *suffix,
                                       const mta_deviations *prefix, const int64_t *lo,
                                       const int64_t *hi, const int64_t *count, int64_t n, int steady,
                                       double ddof, int root, double *out) {
    mta_spreads w;
    int64_t i, j, run;
    int same = steady && !count;
    for (i = 0; i < n; i += MTA_SPREADS) {
        const int64_t *counts = count ? count + i : count;
        run = n - i < MTA_SPREADS ? n - i : MTA_SPREADS;
        for (j = 0; j < run; j += 8) __builtin_prefetch(out + i + j + MTA_SOON_OUT, 1);
        if (steady)
            mta_gather_spreads(wide, suffix, prefix, lo + i, hi + i, counts, run, 1, &w);
        else
            mta_gather_spreads(wide, suffix, prefix, lo + i, hi + i, counts, run, 0, &w);
        if (root && same)
            mta_lower_spreads(wide, &w, run, 1, ddof, 1, out + i);
        else if (root)
            mta_lower_spreads(wide, &w, run, 0, ddof, 1, out + i);
        else
            mta_lower_spreads(wide, &w, run, same, ddof, 0, out + i);
    }
}
MTA_TWICE(void, mta_answer_spread,
          (const mta_deviations *suffix, const mta_deviations *prefix, const int64_t *lo,
           const int64_t *hi, const int64_t *count, int64_t n, int steady, double ddof, int root,
           double *out),
          suffix, prefix, lo, hi, count, n, steady, ddof, root, out)

#endif
