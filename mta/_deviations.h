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

/* The same of the rows of a span, each at its place: (s1, s2) of a row stand side by side. */
typedef struct {
    double hi[2 * MTA_SPAN + 2], lo[2 * MTA_SPAN + 2];
} mta_row_deviations;

typedef double mta_f2 __attribute__((vector_size(16)));
typedef double mta_f2_at __attribute__((vector_size(16), aligned(8), may_alias));
#define MTA_F2(p) (*(mta_f2_at *)(p))
#define MTA_F2_CONST(p) (*(const mta_f2_at *)(p))

/* The next n values (at most four); k for null ones. */
MTA_INLINE void mta_values(int wide, const double *x, const uint8_t *valid, int64_t n, double k,
                           mta_f4 *v) {
    const mta_f4 same = {k, k, k, k};
    double four[4];
    int64_t i;
    if (n < 4) {
        for (i = 0; i < 4; i++) four[i] = i < n && (!valid || valid[i]) ? x[i] : k;
        *v = MTA_F4(four);
    } else if (valid) {
        mta_i4 mask;
        mta_mask(wide, valid, &mask);
        *v = (mta_f4)(((mta_i4)MTA_F4_CONST(x) & mask) | ((mta_i4)same & ~mask));
    } else {
        *v = MTA_F4_CONST(x);
    }
}

/* Deviations of four values and their squares. */
MTA_INLINE void mta_deviate(int wide, const mta_f4 *v, double k, mta_sum4 *d, mta_sum4 *p) {
    mta_f4 t, u;
    d->hi = *v - k;
    t = d->hi - *v;
    u = d->hi - t;
    mta_minus(wide, v, &u, &u);
    d->lo = u - (k + t);
    p->hi = d->hi * d->hi;
    mta_product_error(wide, &d->hi, &d->hi, &p->hi, &p->lo);
    mta_fma(wide, &d->hi, &d->lo, &p->lo, 0, &p->lo);
    mta_fma(wide, &d->hi, &d->lo, &p->lo, 0, &p->lo);
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
        mta_f4 v;
        mta_values(wide, x + i, valid ? valid + i : valid, n - i, k, &v);
        mta_deviate(wide, &v, k, &d, &p);
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
    mta_f4 v;
    mta_values(wide, x, valid, n, k, &v);
    mta_deviate(wide, &v, k, &d, &p);
    rows[0] = MTA_SHUFFLE(d.hi, p.hi, 0, 4, 2, 6);
    rows[1] = MTA_SHUFFLE(d.hi, p.hi, 1, 5, 3, 7);
    rows[2] = MTA_SHUFFLE(d.lo, p.lo, 0, 4, 2, 6);
    rows[3] = MTA_SHUFFLE(d.lo, p.lo, 1, 5, 3, 7);
}

/* One chain: row i of the four, which is row `at` of the span, joins it. */
#define MTA_HALF(x, i) ((mta_f2){(x)[(i) & 2], (x)[((i) & 2) + 1]})
#define MTA_ONE_CHAIN(sum_hi, sum_lo, rows, i, out, at)                                           \
    do {                                                                                          \
        mta_f2 mta_x = MTA_HALF(rows[(i) & 1], i), mta_y = MTA_HALF(rows[((i) & 1) + 2], i);      \
        mta_f2 mta_s = sum_hi + mta_x, mta_t = mta_s - sum_hi;                                    \
        sum_lo += mta_y + ((sum_hi - (mta_s - mta_t)) + (mta_x - mta_t));                         \
        sum_hi = mta_s;                                                                           \
        MTA_F2((out)->hi + 2 * (at)) = sum_hi;                                                    \
        MTA_F2((out)->lo + 2 * (at)) = sum_lo;                                                    \
    } while (0)

/* Suffixes of the n rows at x, the last of which is followed by *after: at row i of *out the sum of
   that row and all that follow. */
MTA_INLINE void mta_suffix_chain(int wide, const double *x, const uint8_t *valid, int64_t n, double k,
                                 const mta_deviations *after, mta_row_deviations *out) {
    mta_f2 hi = MTA_F2_CONST(&after->s1_hi), lo = MTA_F2_CONST(&after->s1_lo);
    mta_f4 rows[4];
    int64_t i = n;
    for (; i >= 4; i -= 4) {
        mta_deviate_rows(wide, x + i - 4, valid ? valid + i - 4 : valid, 4, k, rows);
        MTA_ONE_CHAIN(hi, lo, rows, 3, out, i - 1);
        MTA_ONE_CHAIN(hi, lo, rows, 2, out, i - 2);
        MTA_ONE_CHAIN(hi, lo, rows, 1, out, i - 3);
        MTA_ONE_CHAIN(hi, lo, rows, 0, out, i - 4);
    }
    if (i == 0) return;
    mta_deviate_rows(wide, x, valid, i, k, rows);
    if (i > 2) MTA_ONE_CHAIN(hi, lo, rows, 2, out, 2);
    if (i > 1) MTA_ONE_CHAIN(hi, lo, rows, 1, out, 1);
    MTA_ONE_CHAIN(hi, lo, rows, 0, out, 0);
}

/* Prefixes of the rows j..m at y, before which stands *sum: at row j + 1 of *out the sum of row j and
   all before, which *sum becomes. */
MTA_INLINE void mta_prefix_chain(int wide, const double *y, const uint8_t *valid, int64_t j, int64_t m,
                                 double k, mta_deviations *sum, mta_row_deviations *out) {
    mta_f2 hi = MTA_F2_CONST(&sum->s1_hi), lo = MTA_F2_CONST(&sum->s1_lo);
    mta_f4 rows[4];
    for (; j + 4 <= m; j += 4) {
        mta_deviate_rows(wide, y + j, valid ? valid + j : valid, 4, k, rows);
        __builtin_prefetch(y + j + MTA_SOON);
        MTA_ONE_CHAIN(hi, lo, rows, 0, out, j + 1);
        MTA_ONE_CHAIN(hi, lo, rows, 1, out, j + 2);
        MTA_ONE_CHAIN(hi, lo, rows, 2, out, j + 3);
        MTA_ONE_CHAIN(hi, lo, rows, 3, out, j + 4);
    }
    if (j < m) {
        mta_deviate_rows(wide, y + j, valid ? valid + j : valid, m - j, k, rows);
        MTA_ONE_CHAIN(hi, lo, rows, 0, out, j + 1);
        if (j + 1 < m) MTA_ONE_CHAIN(hi, lo, rows, 1, out, j + 2);
        if (j + 2 < m) MTA_ONE_CHAIN(hi, lo, rows, 2, out, j + 3);
    }
    MTA_F2(&sum->s1_hi) = hi;
    MTA_F2(&sum->s1_lo) = lo;
}

/* Two chains side by side, whose sums so far are the halves of *sum: *more joins them. */
MTA_INLINE void mta_two_chains(int wide, mta_sum4 *sum, const mta_sum4 *more) {
    mta_f4 s = sum->hi + more->hi, t, u;
    mta_minus(wide, &s, &sum->hi, &t);
    mta_minus(wide, &s, &t, &u);
    mta_minus(wide, &sum->hi, &u, &u);
    mta_minus(wide, &more->hi, &t, &t);
    sum->lo += more->lo + (u + t);
    sum->hi = s;
}

/* Two rows of each: of the one, which is *a, the second comes first; of the other the first. */
MTA_INLINE void mta_two_rows(int wide, const mta_f4 *v, double k, mta_sum4 *sum, mta_row_deviations *a,
                             int64_t at_a, mta_row_deviations *b, int64_t at_b) {
    mta_sum4 d, p, row, was;
    mta_deviate(wide, v, k, &d, &p);
    row.hi = MTA_SHUFFLE(d.hi, p.hi, 1, 5, 2, 6);
    row.lo = MTA_SHUFFLE(d.lo, p.lo, 1, 5, 2, 6);
    mta_two_chains(wide, sum, &row);
    was = *sum;
    row.hi = MTA_SHUFFLE(d.hi, p.hi, 0, 4, 3, 7);
    row.lo = MTA_SHUFFLE(d.lo, p.lo, 0, 4, 3, 7);
    mta_two_chains(wide, sum, &row);
    MTA_F4(a->hi + 2 * at_a) = MTA_SHUFFLE(sum->hi, was.hi, 0, 1, 4, 5);
    MTA_F4(b->hi + 2 * at_b) = MTA_SHUFFLE(was.hi, sum->hi, 2, 3, 6, 7);
    MTA_F4(a->lo + 2 * at_a) = MTA_SHUFFLE(sum->lo, was.lo, 0, 1, 4, 5);
    MTA_F4(b->lo + 2 * at_b) = MTA_SHUFFLE(was.lo, sum->lo, 2, 3, 6, 7);
}

/* Both: the suffixes of the n rows at x, followed by *after; the prefixes of the m rows at y, before
   which stands *sum. Side by side for as long as there are both. */
MTA_INLINE void mta_both_chains_of(int wide, const double *x, const uint8_t *x_valid, int64_t n,
                                   const mta_deviations *after, mta_row_deviations *suffix,
                                   const double *y, const uint8_t *y_valid, int64_t m, double k,
                                   mta_deviations *sum, mta_row_deviations *prefix) {
    mta_sum4 both = {{after->s1_hi, after->s2_hi, sum->s1_hi, sum->s2_hi},
                     {after->s1_lo, after->s2_lo, sum->s1_lo, sum->s2_lo}};
    mta_deviations rest;
    mta_f4 a, b, v;
    int64_t i = n, j = 0;
    MTA_F2(prefix->hi) = MTA_F2_CONST(&sum->s1_hi);
    MTA_F2(prefix->lo) = MTA_F2_CONST(&sum->s1_lo);
    for (; i >= 4 && j + 4 <= m; i -= 4, j += 4) {
        mta_values(wide, x + i - 4, x_valid ? x_valid + i - 4 : x_valid, 4, k, &a);
        mta_values(wide, y + j, y_valid ? y_valid + j : y_valid, 4, k, &b);
        __builtin_prefetch(x + i - MTA_SOON);
        __builtin_prefetch(y + j + MTA_SOON);
        v = MTA_SHUFFLE(a, b, 2, 3, 4, 5);
        mta_two_rows(wide, &v, k, &both, suffix, i - 2, prefix, j + 1);
        v = MTA_SHUFFLE(a, b, 0, 1, 6, 7);
        mta_two_rows(wide, &v, k, &both, suffix, i - 4, prefix, j + 3);
    }
    MTA_F4(&rest) = MTA_SHUFFLE(both.hi, both.lo, 0, 1, 4, 5);
    MTA_F4(sum) = MTA_SHUFFLE(both.hi, both.lo, 2, 3, 6, 7);
    mta_suffix_chain(wide, x, x_valid, i, k, &rest, suffix);
    mta_prefix_chain(wide, y, y_valid, j, m, k, sum, prefix);
}
MTA_INLINE void mta_both_chains_body(int wide, const double *x, const uint8_t *x_valid, int64_t n,
                                     const mta_deviations *after, mta_row_deviations *suffix,
                                     const double *y, const uint8_t *y_valid, int64_t m, double k,
                                     mta_deviations *sum, mta_row_deviations *prefix) {
    if (x_valid)
        mta_both_chains_of(wide, x, x_valid, n, after, suffix, y, y_valid, m, k, sum, prefix);
    else
        mta_both_chains_of(wide, x, 0, n, after, suffix, y, 0, m, k, sum, prefix);
}
MTA_TWICE(void, mta_both_chains,
          (const double *x, const uint8_t *x_valid, int64_t n, const mta_deviations *after,
           mta_row_deviations *suffix, const double *y, const uint8_t *y_valid, int64_t m, double k,
           mta_deviations *sum, mta_row_deviations *prefix),
          x, x_valid, n, after, suffix, y, y_valid, m, k, sum, prefix)

/* (s1, s2) of two rows. (gcc 12 would take the four doubles one by one.) */
#if defined(__x86_64__)
MTA_WIDE static inline void mta_two_at_wide(const double *x, int64_t i, int64_t j, mta_f4 *out) {
    __m256d first = _mm256_castpd128_pd256(_mm_loadu_pd(x + 2 * i));
    *out = (mta_f4)_mm256_insertf128_pd(first, _mm_loadu_pd(x + 2 * j), 1);
}
#endif
MTA_INLINE void mta_two_at(int wide, const double *x, int64_t i, int64_t j, mta_f4 *out) {
#if defined(__x86_64__)
    if (wide) {
        mta_two_at_wide(x, i, j, out);
        return;
    }
#endif
    *out = (mta_f4){x[2 * i], x[2 * i + 1], x[2 * j], x[2 * j + 1]};
}

/* The sums of four windows, s1 and s2 apart, of two pairs of them. */
MTA_INLINE void mta_put_spreads(int wide, const mta_sum4 *a, const mta_sum4 *b, const mta_sum4 *c,
                                const mta_sum4 *d, mta_spread4 *out) {
    mta_sum4 x, y;
    mta_add(wide, a, b, &x);
    mta_add(wide, c, d, &y);
    out->s1_hi = MTA_SHUFFLE(x.hi, y.hi, 0, 4, 2, 6);
    out->s2_hi = MTA_SHUFFLE(x.hi, y.hi, 1, 5, 3, 7);
    out->s1_lo = MTA_SHUFFLE(x.lo, y.lo, 0, 4, 2, 6);
    out->s2_lo = MTA_SHUFFLE(x.lo, y.lo, 1, 5, 3, 7);
}

/* Windows that begin at rows f[j] of *suffix and end before rows b[j] of *prefix. */
MTA_INLINE void mta_join_any_spreads(int wide, const mta_row_deviations *suffix,
                                     const mta_row_deviations *prefix, const int64_t *f,
                                     const int64_t *b, mta_spread4 *out) {
    mta_sum4 x, y, p, q;
    mta_two_at(wide, suffix->hi, f[0], f[2], &x.hi);
    mta_two_at(wide, suffix->lo, f[0], f[2], &x.lo);
    mta_two_at(wide, prefix->hi, b[0], b[2], &p.hi);
    mta_two_at(wide, prefix->lo, b[0], b[2], &p.lo);
    mta_two_at(wide, suffix->hi, f[1], f[3], &y.hi);
    mta_two_at(wide, suffix->lo, f[1], f[3], &y.lo);
    mta_two_at(wide, prefix->hi, b[1], b[3], &q.hi);
    mta_two_at(wide, prefix->lo, b[1], b[3], &q.lo);
    mta_put_spreads(wide, &x, &p, &y, &q, out);
}

/* The same of windows that move on by one row, from rows f and b on. They come out crossed. */
MTA_INLINE void mta_join_steady_spreads(int wide, const mta_row_deviations *suffix,
                                        const mta_row_deviations *prefix, int64_t f, int64_t b,
                                        mta_spread4 *out) {
    mta_sum4 x = {MTA_F4_CONST(suffix->hi + 2 * f), MTA_F4_CONST(suffix->lo + 2 * f)};
    mta_sum4 y = {MTA_F4_CONST(suffix->hi + 2 * f + 4), MTA_F4_CONST(suffix->lo + 2 * f + 4)};
    mta_sum4 p = {MTA_F4_CONST(prefix->hi + 2 * b), MTA_F4_CONST(prefix->lo + 2 * b)};
    mta_sum4 q = {MTA_F4_CONST(prefix->hi + 2 * b + 4), MTA_F4_CONST(prefix->lo + 2 * b + 4)};
    mta_put_spreads(wide, &x, &p, &y, &q, out);
}

/* How many values each of the next four windows holds. */
MTA_INLINE void mta_counts_of_four(const int64_t *lo, const int64_t *hi, const int64_t *count,
                                   mta_f4 *out) {
    mta_i4 rows;
    if (count)
        rows = MTA_I4_CONST(count);
    else
        rows = MTA_I4_CONST(hi) - MTA_I4_CONST(lo);
    mta_as_doubles(&rows, out);
}

/* The counts and sums of n windows, at most MTA_SPREADS, of count[i] or hi[i] - lo[i] values. Row
   `first` is the first of *suffix, row `joined` the first of *prefix. */
MTA_INLINE void mta_gather_any(int wide, const mta_row_deviations *suffix, int64_t first,
                               const mta_row_deviations *prefix, int64_t joined, const int64_t *lo,
                               const int64_t *hi, const int64_t *count, int64_t n, mta_spread4 *out) {
    int64_t i, j, f[4], b[4];
    for (i = 0; i + 4 <= n; i += 4) {
        for (j = 0; j < 4; j++) {
            f[j] = lo[i + j] - first;
            b[j] = hi[i + j] - joined;
        }
        mta_join_any_spreads(wide, suffix, prefix, f, b, &out[i / 4]);
        mta_counts_of_four(lo + i, hi + i, count ? count + i : count, &out[i / 4].n);
    }
    if (i == n) return;
    for (j = 0; j < 4; j++) { /* the last one again, up to a multiple of four */
        int64_t at = i + j < n ? i + j : n - 1;
        f[j] = lo[at] - first;
        b[j] = hi[at] - joined;
        out[i / 4].n[j] = (double)(count ? count[at] : hi[at] - lo[at]);
    }
    mta_join_any_spreads(wide, suffix, prefix, f, b, &out[i / 4]);
}

/* The same where windows move on by one row, from rows f and b on, and n is a multiple of four. */
MTA_INLINE void mta_gather_steady(int wide, const mta_row_deviations *suffix, int64_t f,
                                  const mta_row_deviations *prefix, int64_t b, const mta_f4 *length,
                                  const int64_t *count, int64_t n, mta_spread4 *out) {
    int64_t i;
    mta_f4 rows = *length;
    for (i = 0; i < n; i += 4) {
        mta_join_steady_spreads(wide, suffix, prefix, f + i, b + i, &out[i / 4]);
        if (count) {
            mta_counts_of_four(count, count, count + i, &rows);
            rows = MTA_SHUFFLE(rows, rows, 0, 2, 1, 3);
        }
        out[i / 4].n = rows;
    }
}

/* Begin to answer n windows: out[i] becomes the variance (or its root) over window i, by the end. */
MTA_INLINE void mta_answer_some(int wide, mta_spreads *w, const mta_row_deviations *suffix,
                                int64_t first, const mta_row_deviations *prefix, int64_t joined,
                                const int64_t *lo, const int64_t *hi, const int64_t *count, int64_t n,
                                int steady, double ddof, int root, double *out) {
    int64_t i = 0, run, whole = steady ? n & -4 : 0;
    double length = (double)(hi[0] - lo[0]);
    mta_f4 rows = {length, length, length, length};
    mta_divisor by;
    mta_divide_by(&rows, ddof, &by);
    for (; i < whole; i += run) {
        run = whole - i < MTA_SPREADS ? whole - i : MTA_SPREADS;
        mta_gather_steady(wide, suffix, lo[0] + i - first, prefix, hi[0] + i - joined, &rows,
                          count ? count + i : count, run, w->sums);
        mta_spreads_begin(wide, w, run, &by, !count, MTA_CROSSED, ddof, root, out + i);
    }
    for (; i < n; i += run) {
        run = n - i < MTA_SPREADS ? n - i : MTA_SPREADS;
        mta_gather_any(wide, suffix, first, prefix, joined, lo + i, hi + i, count ? count + i : count,
                       run, w->sums);
        mta_spreads_begin(wide, w, run, &by, 0, 0, ddof, root, out + i);
    }
}
MTA_INLINE void mta_answer_spread_body(int wide, mta_spreads *w, const mta_row_deviations *suffix,
                                       int64_t first, const mta_row_deviations *prefix, int64_t joined,
                                       const int64_t *lo, const int64_t *hi, const int64_t *count,
                                       int64_t n, int steady, double ddof, int root, double *out) {
    if (steady && !count && root)
        mta_answer_some(wide, w, suffix, first, prefix, joined, lo, hi, 0, n, 1, ddof, 1, out);
    else if (root)
        mta_answer_some(wide, w, suffix, first, prefix, joined, lo, hi, count, n, steady, ddof, 1, out);
    else
        mta_answer_some(wide, w, suffix, first, prefix, joined, lo, hi, count, n, steady, ddof, 0, out);
}
MTA_TWICE(void, mta_answer_spread,
          (mta_spreads *w, const mta_row_deviations *suffix, int64_t first,
           const mta_row_deviations *prefix, int64_t joined, const int64_t *lo, const int64_t *hi,
           const int64_t *count, int64_t n, int steady, double ddof, int root, double *out),
          w, suffix, first, prefix, joined, lo, hi, count, n, steady, ddof, root, out)

#endif
