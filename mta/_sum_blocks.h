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

enum { MTA_BLOCK = 16, MTA_STRETCH = 16, MTA_TASKS = 20 };

/* Compensated sums, high and low parts apart: one of each of some blocks, or of each of their rows. */
typedef struct {
    double hi[MTA_TASKS], lo[MTA_TASKS];
} mta_sums;
typedef struct {
    double hi[MTA_TASKS * MTA_BLOCK], lo[MTA_TASKS * MTA_BLOCK];
} mta_row_sums;

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

/* Rows j..j + 4 of four blocks: x[i] holds row j + i of each. */
MTA_INLINE void mta_load_rows(const double *const *rows, int j, mta_f4 *x) {
    mta_f4 a = MTA_F4_CONST(rows[0] + j), b = MTA_F4_CONST(rows[1] + j);
    mta_f4 c = MTA_F4_CONST(rows[2] + j), d = MTA_F4_CONST(rows[3] + j);
    MTA_TRANSPOSE(a, b, c, d);
    x[0] = a, x[1] = b, x[2] = c, x[3] = d;
}

/* The reverse: out[16 c + i] is what x[i] holds for block c. */
MTA_INLINE void mta_store_rows(const mta_f4 *x0, const mta_f4 *x1, const mta_f4 *x2,
                               const mta_f4 *x3, double *out) {
    mta_f4 a = *x0, b = *x1, c = *x2, d = *x3;
    MTA_TRANSPOSE(a, b, c, d);
    MTA_F4(out) = a;
    MTA_F4(out + 16) = b;
    MTA_F4(out + 32) = c;
    MTA_F4(out + 48) = d;
}

/* The sums of four rows of each block, and of both halves of them. */
MTA_INLINE void mta_sum_rows(const mta_f4 *x, mta_sum4 *pair, mta_sum4 *quad) {
    mta_add_rows(&x[0], &x[1], &pair[0]);
    mta_add_rows(&x[2], &x[3], &pair[1]);
    mta_add(&pair[0], &pair[1], quad);
}

/* The sums of four blocks. */
MTA_INLINE void mta_block_sums_body(int wide, const double *const *rows, double *hi, double *lo) {
    mta_f4 x[4];
    mta_sum4 pair[2], quad[4];
    int i;
    for (i = 0; i < 4; i++) {
        mta_load_rows(rows, 4 * i, x);
        mta_sum_rows(x, pair, &quad[i]);
    }
    mta_add(&quad[0], &quad[1], &quad[0]);
    mta_add(&quad[2], &quad[3], &quad[2]);
    mta_add(&quad[0], &quad[2], &quad[0]);
    MTA_F4(hi) = quad[0].hi;
    MTA_F4(lo) = quad[0].lo;
}
MTA_TWICE(void, mta_block_sums, (const double *const *rows, double *hi, double *lo), rows, hi, lo)

/* The dyadic nodes over the blocks of one stretch: 16 blocks, 8 pairs of them, 4, 2, and all. */
typedef struct {
    double hi[2 * MTA_STRETCH - 1], lo[2 * MTA_STRETCH - 1];
} mta_stretch;

/* Where the node of a level over the blocks from `block` on stands. */
MTA_INLINE int mta_node(int level, int block) { return 32 - (32 >> level) + (block >> level); }

MTA_INLINE void mta_add_one(const double *ah, const double *al, const double *bh, const double *bl,
                            double *hi, double *lo) {
    double s = *ah + *bh, t = s - *ah, l = (*al + *bl) + ((*ah - (s - t)) + (*bh - t));
    *hi = s;
    *lo = l;
}

/* From the sums of the blocks the nodes above them. */
MTA_INLINE void mta_stretch_nodes_body(int wide, mta_stretch *n) {
    int i, from = 0;
    for (i = 16; i < 31; i++, from += 2)
        mta_add_one(&n->hi[from], &n->lo[from], &n->hi[from + 1], &n->lo[from + 1], &n->hi[i],
                    &n->lo[i]);
}
MTA_TWICE(void, mta_stretch_nodes, (mta_stretch *n), n)

/* whole[k], after[k]: from block `first` (and from the next one) to block `split`, and then what
   stands there; the same for the blocks up to `last`. (What stands at block 0 of a stretch, before
   one that the split lies beyond, is made of greater nodes.) */
MTA_INLINE void mta_stretch_suffixes_body(int wide, const mta_stretch *n, int first, int last,
                                          int split, const mta_sum *end, int64_t k,
                                          mta_sums *whole, mta_sums *after) {
    double hi[MTA_STRETCH + 1], lo[MTA_STRETCH + 1];
    int j, level, node;
    hi[split] = end->hi;
    lo[split] = end->lo;
    for (j = split - 1; j >= first; j--) {
        level = __builtin_ctz((unsigned)(split - j));
        node = mta_node(level, j);
        mta_add_one(&n->hi[node], &n->lo[node], &hi[j + (1 << level)], &lo[j + (1 << level)], &hi[j],
                    &lo[j]);
        if (j <= last) {
            whole->hi[k + j - first] = hi[j];
            whole->lo[k + j - first] = lo[j];
            after->hi[k + j - first] = hi[j + 1];
            after->lo[k + j - first] = lo[j + 1];
        }
    }
}
MTA_TWICE(void, mta_stretch_suffixes,
          (const mta_stretch *n, int first, int last, int split, const mta_sum *end, int64_t k,
           mta_sums *whole, mta_sums *after),
          n, first, last, split, end, k, whole, after)

/* before[k]: what stands at block `split` and then the blocks from there to block `first`; the same
   for the blocks up to `last`. */
MTA_INLINE void mta_stretch_prefixes_body(int wide, const mta_stretch *n, int split, int first,
                                          int last, const mta_sum *begin, int64_t k,
                                          mta_sums *before) {
    double hi[MTA_STRETCH], lo[MTA_STRETCH];
    int j, level, node;
    hi[split] = begin->hi;
    lo[split] = begin->lo;
    for (j = split; j <= last; j++) {
        if (j > split) {
            level = __builtin_ctz((unsigned)(j - split));
            node = mta_node(level, j - (1 << level));
            mta_add_one(&hi[j - (1 << level)], &lo[j - (1 << level)], &n->hi[node], &n->lo[node],
                        &hi[j], &lo[j]);
        }
        if (j >= first) {
            before->hi[k + j - first] = hi[j];
            before->lo[k + j - first] = lo[j];
        }
    }
}
MTA_TWICE(void, mta_stretch_prefixes,
          (const mta_stretch *n, int split, int first, int last, const mta_sum *begin, int64_t k,
           mta_sums *before),
          n, split, first, last, begin, k, before)

/* The suffixes of four rows: s[0] is that of the first of them, `after` what stands after the last. */
MTA_INLINE void mta_suffixes_of_four(const mta_f4 *x, const mta_sum4 *first, const mta_sum4 *pair,
                                     const mta_sum4 *after, double *hi, double *lo) {
    mta_sum4 s1, s2, s3;
    mta_add_row(&x[3], after, &s3);
    mta_add(&pair[1], after, &s2);
    mta_add_row(&x[1], &s2, &s1);
    mta_store_rows(&first->hi, &s1.hi, &s2.hi, &s3.hi, hi);
    mta_store_rows(&first->lo, &s1.lo, &s2.lo, &s3.lo, lo);
}

/* out[16 c + j]: rows [j, 16) of block c and then what stands after it, each one node onto a longer
   run; at j = 0 what is known already. */
MTA_INLINE void mta_block_suffixes_body(int wide, const double *const *rows, const mta_sums *whole,
                                        const mta_sums *after, int64_t k, double *hi, double *lo) {
    mta_f4 x[4];
    mta_sum4 pair[2], quad, upper, s4, s8, s12;
    mta_sum4 s0 = {MTA_F4_CONST(whole->hi + k), MTA_F4_CONST(whole->lo + k)};
    mta_sum4 s16 = {MTA_F4_CONST(after->hi + k), MTA_F4_CONST(after->lo + k)};
    mta_load_rows(rows, 12, x);
    mta_sum_rows(x, pair, &upper);
    mta_add(&upper, &s16, &s12);
    mta_suffixes_of_four(x, &s12, pair, &s16, hi + 12, lo + 12);
    mta_load_rows(rows, 8, x);
    mta_sum_rows(x, pair, &quad);
    mta_add(&quad, &upper, &upper);
    mta_add(&upper, &s16, &s8);
    mta_suffixes_of_four(x, &s8, pair, &s12, hi + 8, lo + 8);
    mta_load_rows(rows, 4, x);
    mta_sum_rows(x, pair, &quad);
    mta_add(&quad, &s8, &s4);
    mta_suffixes_of_four(x, &s4, pair, &s8, hi + 4, lo + 4);
    mta_load_rows(rows, 0, x);
    mta_add_rows(&x[2], &x[3], &pair[1]);
    mta_suffixes_of_four(x, &s0, pair, &s4, hi, lo);
}
MTA_TWICE(void, mta_block_suffixes,
          (const double *const *rows, const mta_sums *whole, const mta_sums *after, int64_t k,
           double *hi, double *lo),
          rows, whole, after, k, hi, lo)

/* The prefixes up to four rows; `before` is what stands before the first of them. */
MTA_INLINE void mta_prefixes_of_four(const mta_f4 *x, const mta_sum4 *before, const mta_sum4 *pair,
                                     double *hi, double *lo) {
    mta_sum4 s1, s2, s3;
    mta_row_added(before, &x[0], &s1);
    mta_add(before, &pair[0], &s2);
    mta_row_added(&s2, &x[2], &s3);
    mta_store_rows(&before->hi, &s1.hi, &s2.hi, &s3.hi, hi);
    mta_store_rows(&before->lo, &s1.lo, &s2.lo, &s3.lo, lo);
}

/* out[16 c + j]: what stands before block c and then its rows [0, j). */
MTA_INLINE void mta_block_prefixes_body(int wide, const double *const *rows, const mta_sums *before,
                                        int64_t k, double *hi, double *lo) {
    mta_f4 x[4];
    mta_sum4 pair[2], quad, lower, s;
    mta_sum4 s0 = {MTA_F4_CONST(before->hi + k), MTA_F4_CONST(before->lo + k)};
    mta_load_rows(rows, 0, x);
    mta_sum_rows(x, pair, &lower);
    mta_prefixes_of_four(x, &s0, pair, hi, lo);
    mta_add(&s0, &lower, &s);
    mta_load_rows(rows, 4, x);
    mta_sum_rows(x, pair, &quad);
    mta_prefixes_of_four(x, &s, pair, hi + 4, lo + 4);
    mta_add(&lower, &quad, &lower);
    mta_add(&s0, &lower, &s);
    mta_load_rows(rows, 8, x);
    mta_sum_rows(x, pair, &quad);
    mta_prefixes_of_four(x, &s, pair, hi + 8, lo + 8);
    mta_add(&s, &quad, &s);
    mta_load_rows(rows, 12, x);
    mta_add_rows(&x[0], &x[1], &pair[0]);
    mta_prefixes_of_four(x, &s, pair, hi + 12, lo + 12);
}
MTA_TWICE(void, mta_block_prefixes,
          (const double *const *rows, const mta_sums *before, int64_t k, double *hi, double *lo),
          rows, before, k, hi, lo)

/* One window's sum: the suffix from its first row and the prefix to its last. */
MTA_INLINE mta_sum mta_join_one(const mta_row_sums *suffix, int64_t from, const mta_row_sums *prefix,
                                int64_t to) {
    double a = suffix->hi[from], b = prefix->hi[to], s = a + b, t = s - a;
    mta_sum out = {s, (suffix->lo[from] + prefix->lo[to]) + ((a - (s - t)) + (b - t))};
    return out;
}

MTA_INLINE void mta_join_four(const mta_row_sums *suffix, int64_t from, const mta_row_sums *prefix,
                              int64_t to, mta_sum4 *out) {
    mta_sum4 a = {MTA_F4_CONST(suffix->hi + from), MTA_F4_CONST(suffix->lo + from)};
    mta_sum4 b = {MTA_F4_CONST(prefix->hi + to), MTA_F4_CONST(prefix->lo + to)};
    mta_add(&a, &b, out);
}

/* (hi, lo)[i] = the sum over window i. The sum from row r on stands at suffix[r + from], that up to
   row r at prefix[r + to]; steady: lo and hi rise by one a window. */
MTA_INLINE void mta_join_sums_body(int wide, const mta_row_sums *suffix, int64_t from,
                                   const mta_row_sums *prefix, int64_t to, const int64_t *lo,
                                   const int64_t *hi, int64_t n, int steady, double *out_hi,
                                   double *out_lo) {
    int64_t i = 0;
    mta_sum4 four;
    mta_sum one;
    for (; steady && i + 4 <= n; i += 4) {
        mta_join_four(suffix, lo[0] + from + i, prefix, hi[0] + to + i, &four);
        MTA_F4(out_hi + i) = four.hi;
        MTA_F4(out_lo + i) = four.lo;
    }
    for (; i < n; i++) {
        one = mta_join_one(suffix, lo[i] + from, prefix, hi[i] + to);
        out_hi[i] = one.hi;
        out_lo[i] = one.lo;
    }
}
MTA_TWICE(void, mta_join_sums,
          (const mta_row_sums *suffix, int64_t from, const mta_row_sums *prefix, int64_t to,
           const int64_t *lo, const int64_t *hi, int64_t n, int steady, double *out_hi,
           double *out_lo),
          suffix, from, prefix, to, lo, hi, n, steady, out_hi, out_lo)

/* The same as doubles. Once hi is not finite, lo holds inf - inf; the answer is hi. */
MTA_INLINE void mta_answer_sums_body(int wide, const mta_row_sums *suffix, int64_t from,
                                     const mta_row_sums *prefix, int64_t to, const int64_t *lo,
                                     const int64_t *hi, int64_t n, int steady, double *out) {
    const mta_i4 largest = {0x7fefffffffffffff, 0x7fefffffffffffff, 0x7fefffffffffffff,
                            0x7fefffffffffffff};
    int64_t i = 0;
    mta_sum4 four;
    mta_sum one;
    for (; steady && i + 4 <= n; i += 4) {
        mta_i4 finite;
        mta_join_four(suffix, lo[0] + from + i, prefix, hi[0] + to + i, &four);
        finite = (mta_i4)((mta_f4)((mta_i4)four.hi & INT64_MAX) <= (mta_f4)largest);
        MTA_F4(out + i) = four.hi + (mta_f4)((mta_i4)four.lo & finite);
    }
    for (; i < n; i++) {
        one = mta_join_one(suffix, lo[i] + from, prefix, hi[i] + to);
        out[i] = fabs(one.hi) <= DBL_MAX ? one.hi + one.lo : one.hi;
    }
}
MTA_TWICE(void, mta_answer_sums,
          (const mta_row_sums *suffix, int64_t from, const mta_row_sums *prefix, int64_t to,
           const int64_t *lo, const int64_t *hi, int64_t n, int steady, double *out),
          suffix, from, prefix, to, lo, hi, n, steady, out)

#endif
