/* Compensated sums from and to every row, in the association of the forest (docs/adr/0001).

   Rows are taken in blocks of 16, and four blocks side by side, one in each lane: inside of a block
   every node and every suffix is one addition of the same two operands' places, whatever the block.
   What stands beyond the block (its suffix from the right, its prefix from the left) comes from the
   forest over whole blocks. */
#ifndef MTA_SUM_BLOCKS_H
#define MTA_SUM_BLOCKS_H

#include <float.h>
#include <math.h>

#include "_simd.h"

enum { MTA_BLOCK = 16, MTA_TASKS = 40 };

/* Compensated sums, high and low parts apart. */
typedef struct {
    double hi[MTA_TASKS * MTA_BLOCK], lo[MTA_TASKS * MTA_BLOCK];
} mta_sums;

/* A compensated sum, laid out as FloatSum in _monoids.pxd. */
typedef struct {
    double hi, lo;
} mta_sum;

typedef struct {
    mta_f4 hi, lo;
} mta_sum4;

/* out = a + b. */
MTA_INLINE void mta_add(const mta_sum4 *a, const mta_sum4 *b, mta_sum4 *out) {
    mta_f4 s = a->hi + b->hi, t = s - a->hi;
    mta_f4 lo = (a->lo + b->lo) + ((a->hi - (s - t)) + (b->hi - t));
    out->hi = s;
    out->lo = lo;
}

/* The same where a, or both, are rows: their low parts are 0 (and no low part is ever -0.0). */
MTA_INLINE void mta_add_row(const mta_f4 *a, const mta_sum4 *b, mta_sum4 *out) {
    mta_f4 s = *a + b->hi, t = s - *a;
    mta_f4 lo = b->lo + ((*a - (s - t)) + (b->hi - t));
    out->hi = s;
    out->lo = lo;
}
MTA_INLINE void mta_row_added(const mta_sum4 *a, const mta_f4 *b, mta_sum4 *out) {
    mta_f4 s = a->hi + *b, t = s - a->hi;
    mta_f4 lo = a->lo + ((a->hi - (s - t)) + (*b - t));
    out->hi = s;
    out->lo = lo;
}
MTA_INLINE void mta_add_rows(const mta_f4 *a, const mta_f4 *b, mta_sum4 *out) {
    mta_f4 s = *a + *b, t = s - *a;
    out->lo = (*a - (s - t)) + (*b - t);
    out->hi = s;
}

/* The 16 rows of four blocks: x[j] holds row j of each. */
MTA_INLINE void mta_load_blocks(const double *const *rows, mta_f4 *x) {
    int j;
    for (j = 0; j < MTA_BLOCK; j += 4) {
        mta_f4 a = MTA_F4_CONST(rows[0] + j), b = MTA_F4_CONST(rows[1] + j);
        mta_f4 c = MTA_F4_CONST(rows[2] + j), d = MTA_F4_CONST(rows[3] + j);
        MTA_TRANSPOSE(a, b, c, d);
        x[j] = a;
        x[j + 1] = b;
        x[j + 2] = c;
        x[j + 3] = d;
    }
}

/* The reverse, for four results: out[16 c + j] is that of row j of block c, for j, j + 1, j + 2, j + 3. */
MTA_INLINE void mta_store_blocks(const mta_sum4 *x, int64_t j, double *hi, double *lo) {
    mta_f4 a = x[0].hi, b = x[1].hi, c = x[2].hi, d = x[3].hi;
    MTA_TRANSPOSE(a, b, c, d);
    MTA_F4(hi + j) = a;
    MTA_F4(hi + j + 16) = b;
    MTA_F4(hi + j + 32) = c;
    MTA_F4(hi + j + 48) = d;
    a = x[0].lo, b = x[1].lo, c = x[2].lo, d = x[3].lo;
    MTA_TRANSPOSE(a, b, c, d);
    MTA_F4(lo + j) = a;
    MTA_F4(lo + j + 16) = b;
    MTA_F4(lo + j + 32) = c;
    MTA_F4(lo + j + 48) = d;
}

MTA_INLINE void mta_gather_sums(const mta_sum *a, mta_sum4 *out) {
    mta_f4 hi = {a[0].hi, a[1].hi, a[2].hi, a[3].hi}, lo = {a[0].lo, a[1].lo, a[2].lo, a[3].lo};
    out->hi = hi;
    out->lo = lo;
}

/* The sums of four blocks. */
MTA_INLINE void mta_block_sums_body(int wide, const double *const *rows, mta_sum *out) {
    mta_f4 x[MTA_BLOCK];
    mta_sum4 n[8];
    int i, level;
    mta_load_blocks(rows, x);
    for (i = 0; i < 8; i++) mta_add_rows(&x[2 * i], &x[2 * i + 1], &n[i]);
    for (level = 4; level > 0; level /= 2)
        for (i = 0; i < level; i++) mta_add(&n[2 * i], &n[2 * i + 1], &n[i]);
    for (i = 0; i < 4; i++) {
        out[i].hi = n[0].hi[i];
        out[i].lo = n[0].lo[i];
    }
}
MTA_TWICE(void, mta_block_sums, (const double *const *rows, mta_sum *out), rows, out)

/* out[16 c + j]: rows [j, 16) of block c and then what stands after it, each one node onto a longer
   run; at j = 0 what is known already. */
MTA_INLINE void mta_block_suffixes_body(int wide, const double *const *rows, const mta_sum *whole,
                                        const mta_sum *after, double *hi, double *lo) {
    mta_f4 x[MTA_BLOCK];
    mta_sum4 pair[8], quad[4], half, s[MTA_BLOCK + 1];
    int i;
    mta_load_blocks(rows, x);
    mta_gather_sums(whole, &s[0]);
    mta_gather_sums(after, &s[16]);
    for (i = 1; i < 8; i++) mta_add_rows(&x[2 * i], &x[2 * i + 1], &pair[i]);
    for (i = 1; i < 4; i++) mta_add(&pair[2 * i], &pair[2 * i + 1], &quad[i]);
    mta_add(&quad[2], &quad[3], &half);
    mta_add(&half, &s[16], &s[8]);
    mta_add(&quad[3], &s[16], &s[12]);
    mta_add(&quad[1], &s[8], &s[4]);
    for (i = 2; i < 16; i += 4) mta_add(&pair[i / 2], &s[i + 2], &s[i]);
    for (i = 1; i < 16; i += 2) mta_add_row(&x[i], &s[i + 1], &s[i]);
    for (i = 0; i < 16; i += 4) mta_store_blocks(&s[i], i, hi, lo);
}
MTA_TWICE(void, mta_block_suffixes,
          (const double *const *rows, const mta_sum *whole, const mta_sum *after, double *hi,
           double *lo),
          rows, whole, after, hi, lo)

/* out[16 c + j]: what stands before block c and then its rows [0, j). */
MTA_INLINE void mta_block_prefixes_body(int wide, const double *const *rows, const mta_sum *before,
                                        double *hi, double *lo) {
    mta_f4 x[MTA_BLOCK];
    mta_sum4 pair[7], quad[3], half, s[MTA_BLOCK];
    int i;
    mta_load_blocks(rows, x);
    mta_gather_sums(before, &s[0]);
    for (i = 0; i < 7; i++) mta_add_rows(&x[2 * i], &x[2 * i + 1], &pair[i]);
    for (i = 0; i < 3; i++) mta_add(&pair[2 * i], &pair[2 * i + 1], &quad[i]);
    mta_add(&quad[0], &quad[1], &half);
    mta_add(&s[0], &half, &s[8]);
    mta_add(&s[8], &quad[2], &s[12]);
    mta_add(&s[0], &quad[0], &s[4]);
    for (i = 2; i < 16; i += 4) mta_add(&s[i - 2], &pair[i / 2 - 1], &s[i]);
    for (i = 1; i < 16; i += 2) mta_row_added(&s[i - 1], &x[i - 1], &s[i]);
    for (i = 0; i < 16; i += 4) mta_store_blocks(&s[i], i, hi, lo);
}
MTA_TWICE(void, mta_block_prefixes,
          (const double *const *rows, const mta_sum *before, double *hi, double *lo), rows, before,
          hi, lo)

/* (hi, lo)[i] = the suffix from row lo[i] and the prefix to row hi[i], which stand at these places;
   steady: both rise by one a window. */
MTA_INLINE void mta_join_sums_body(int wide, const mta_sums *suffix, int64_t from,
                                   const mta_sums *prefix, int64_t to, const int64_t *lo,
                                   const int64_t *hi, int64_t n, int steady, double *out_hi,
                                   double *out_lo) {
    int64_t i = 0, f = lo[0] + from, b = hi[0] + to;
    if (steady)
        for (; i + 4 <= n; i += 4) {
            mta_sum4 x = {MTA_F4_CONST(suffix->hi + f + i), MTA_F4_CONST(suffix->lo + f + i)};
            mta_sum4 y = {MTA_F4_CONST(prefix->hi + b + i), MTA_F4_CONST(prefix->lo + b + i)};
            mta_add(&x, &y, &x);
            MTA_F4(out_hi + i) = x.hi;
            MTA_F4(out_lo + i) = x.lo;
        }
    for (; i < n; i++) {
        double a = suffix->hi[lo[i] + from], c = prefix->hi[hi[i] + to], s = a + c, t = s - a;
        out_lo[i] = (suffix->lo[lo[i] + from] + prefix->lo[hi[i] + to]) + ((a - (s - t)) + (c - t));
        out_hi[i] = s;
    }
}
MTA_TWICE(void, mta_join_sums,
          (const mta_sums *suffix, int64_t from, const mta_sums *prefix, int64_t to,
           const int64_t *lo, const int64_t *hi, int64_t n, int steady, double *out_hi,
           double *out_lo),
          suffix, from, prefix, to, lo, hi, n, steady, out_hi, out_lo)

#endif
