/* Compensated sums from and to every row, in the association of the forest (docs/adr/0001).

   Rows are taken in blocks of 16, and four blocks side by side, one in each lane: inside of a block
   every node and every suffix is one addition of the same two operands' places, whatever the block.
   What stands beyond the block (its suffix from the right, its prefix from the left) comes from the
   forest over whole blocks. */
#ifndef MTA_SUM_BLOCKS_H
#define MTA_SUM_BLOCKS_H

#include "_double_pairs.h"

enum { MTA_SUM_BLOCK = 16, MTA_STRETCH = 16, MTA_TASKS = 20, MTA_COLUMNS = MTA_TASKS + 4 };

/* Compensated sums, high and low parts apart: one of each of some blocks, or of each of their rows.
   There a column is a block; rows at the same place of their blocks stand side by side. */
typedef struct {
    double hi[MTA_TASKS], lo[MTA_TASKS];
} mta_sums;
typedef struct {
    double hi[MTA_SUM_BLOCK * MTA_COLUMNS] __attribute__((aligned(64)));
    double lo[MTA_SUM_BLOCK * MTA_COLUMNS] __attribute__((aligned(64)));
} mta_row_sums;

/* Where the sum of a row stands, counted from the first row of the first block. */
MTA_INLINE int64_t mta_place(int64_t row) { return (row & 15) * MTA_COLUMNS + (row >> 4); }

/* Rows j..j + 4 of four blocks: x[i] holds row j + i of each. */
MTA_INLINE void mta_load_rows(const double *const *rows, int j, mta_f4 *x) {
    mta_f4 a = MTA_F4_CONST(rows[0] + j), b = MTA_F4_CONST(rows[1] + j);
    mta_f4 c = MTA_F4_CONST(rows[2] + j), d = MTA_F4_CONST(rows[3] + j);
    MTA_TRANSPOSE(a, b, c, d);
    x[0] = a, x[1] = b, x[2] = c, x[3] = d;
}

/* The sums of four rows of each block, and of both halves of them. */
MTA_INLINE void mta_sum_rows(int wide, const mta_f4 *x, mta_sum4 *pair, mta_sum4 *quad) {
    mta_add_rows(wide, &x[0], &x[1], &pair[0]);
    mta_add_rows(wide, &x[2], &x[3], &pair[1]);
    mta_add(wide, &pair[0], &pair[1], quad);
}

/* The sums of four blocks. */
MTA_INLINE void mta_block_sums_body(int wide, const double *const *rows, double *hi, double *lo) {
    mta_f4 x[4];
    mta_sum4 pair[2], quad[4];
    int i;
    for (i = 0; i < 4; i++) {
        __builtin_prefetch(rows[i] + MTA_SOON);
        __builtin_prefetch(rows[i] + MTA_SOON + 8);
    }
    for (i = 0; i < 4; i++) {
        mta_load_rows(rows, 4 * i, x);
        mta_sum_rows(wide, x, pair, &quad[i]);
    }
    mta_add(wide, &quad[0], &quad[1], &quad[0]);
    mta_add(wide, &quad[2], &quad[3], &quad[2]);
    mta_add(wide, &quad[0], &quad[2], &quad[0]);
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

MTA_INLINE void mta_keep(const mta_sum4 *x, int row, int64_t k, mta_row_sums *out) {
    MTA_F4(out->hi + row * MTA_COLUMNS + k) = x->hi;
    MTA_F4(out->lo + row * MTA_COLUMNS + k) = x->lo;
}

/* The suffixes of rows j..j + 4: `first` is that of row j, `after` what stands after the last. */
MTA_INLINE void mta_suffixes_of_four(int wide, const mta_f4 *x, const mta_sum4 *first,
                                     const mta_sum4 *pair, const mta_sum4 *after, int j, int64_t k,
                                     mta_row_sums *out) {
    mta_sum4 s1, s2, s3;
    mta_add_row(wide, &x[3], after, &s3);
    mta_add(wide, &pair[1], after, &s2);
    mta_add_row(wide, &x[1], &s2, &s1);
    mta_keep(first, j, k, out);
    mta_keep(&s1, j + 1, k, out);
    mta_keep(&s2, j + 2, k, out);
    mta_keep(&s3, j + 3, k, out);
}

/* For every row of the blocks k..k + 4, whose rows are given: the rows from there to the end of its
   block and then what stands after it, each one node onto a longer run; for the first row of a block
   what is known already. */
MTA_INLINE void mta_block_suffixes_body(int wide, const double *const *rows, const mta_sums *whole,
                                        const mta_sums *after, int64_t k, mta_row_sums *out) {
    mta_f4 x[4];
    mta_sum4 pair[2], quad, upper, s4, s8, s12;
    mta_sum4 s0 = {MTA_F4_CONST(whole->hi + k), MTA_F4_CONST(whole->lo + k)};
    mta_sum4 s16 = {MTA_F4_CONST(after->hi + k), MTA_F4_CONST(after->lo + k)};
    mta_load_rows(rows, 12, x);
    mta_sum_rows(wide, x, pair, &upper);
    mta_add(wide, &upper, &s16, &s12);
    mta_suffixes_of_four(wide, x, &s12, pair, &s16, 12, k, out);
    mta_load_rows(rows, 8, x);
    mta_sum_rows(wide, x, pair, &quad);
    mta_add(wide, &quad, &upper, &upper);
    mta_add(wide, &upper, &s16, &s8);
    mta_suffixes_of_four(wide, x, &s8, pair, &s12, 8, k, out);
    mta_load_rows(rows, 4, x);
    mta_sum_rows(wide, x, pair, &quad);
    mta_add(wide, &quad, &s8, &s4);
    mta_suffixes_of_four(wide, x, &s4, pair, &s8, 4, k, out);
    mta_load_rows(rows, 0, x);
    mta_add_rows(wide, &x[2], &x[3], &pair[1]);
    mta_suffixes_of_four(wide, x, &s0, pair, &s4, 0, k, out);
}
MTA_TWICE(void, mta_block_suffixes,
          (const double *const *rows, const mta_sums *whole, const mta_sums *after, int64_t k,
           mta_row_sums *out),
          rows, whole, after, k, out)

/* The prefixes up to rows j..j + 4; `before` is what stands before the first of them. */
MTA_INLINE void mta_prefixes_of_four(int wide, const mta_f4 *x, const mta_sum4 *before,
                                     const mta_sum4 *pair, int j, int64_t k, mta_row_sums *out) {
    mta_sum4 s1, s2, s3;
    mta_row_added(wide, before, &x[0], &s1);
    mta_add(wide, before, &pair[0], &s2);
    mta_row_added(wide, &s2, &x[2], &s3);
    mta_keep(before, j, k, out);
    mta_keep(&s1, j + 1, k, out);
    mta_keep(&s2, j + 2, k, out);
    mta_keep(&s3, j + 3, k, out);
}

/* For every row of the blocks k..k + 4: what stands before its block and then the rows of the block
   before it. */
MTA_INLINE void mta_block_prefixes_body(int wide, const double *const *rows, const mta_sums *before,
                                        int64_t k, mta_row_sums *out) {
    mta_f4 x[4];
    mta_sum4 pair[2], quad, lower, s;
    mta_sum4 s0 = {MTA_F4_CONST(before->hi + k), MTA_F4_CONST(before->lo + k)};
    mta_load_rows(rows, 0, x);
    mta_sum_rows(wide, x, pair, &lower);
    mta_prefixes_of_four(wide, x, &s0, pair, 0, k, out);
    mta_add(wide, &s0, &lower, &s);
    mta_load_rows(rows, 4, x);
    mta_sum_rows(wide, x, pair, &quad);
    mta_prefixes_of_four(wide, x, &s, pair, 4, k, out);
    mta_add(wide, &lower, &quad, &lower);
    mta_add(wide, &s0, &lower, &s);
    mta_load_rows(rows, 8, x);
    mta_sum_rows(wide, x, pair, &quad);
    mta_prefixes_of_four(wide, x, &s, pair, 8, k, out);
    mta_add(wide, &s, &quad, &s);
    mta_load_rows(rows, 12, x);
    mta_add_rows(wide, &x[0], &x[1], &pair[0]);
    mta_prefixes_of_four(wide, x, &s, pair, 12, k, out);
}
MTA_TWICE(void, mta_block_prefixes,
          (const double *const *rows, const mta_sums *before, int64_t k, mta_row_sums *out), rows,
          before, k, out)

/* Four columns at once, windows that lie 16 rows apart: for rows j..stop of the front's block, a suffix
   and a prefix each. */
MTA_INLINE void mta_join_rows(int wide, const mta_row_sums *suffix, int64_t f,
                              const mta_row_sums *prefix, int64_t b, int64_t j, int64_t stop,
                              mta_sum4 *out) {
    for (; j < stop; j++, f += MTA_COLUMNS, b += MTA_COLUMNS) {
        mta_sum4 x = {MTA_F4_CONST(suffix->hi + f), MTA_F4_CONST(suffix->lo + f)};
        mta_sum4 y = {MTA_F4_CONST(prefix->hi + b), MTA_F4_CONST(prefix->lo + b)};
        mta_add(wide, &x, &y, &out[j]);
    }
}

/* Put the next four sums, as doubles or by parts, from i on but before n. */
MTA_INLINE void mta_put(const mta_sum4 *x, int64_t i, int64_t n, double *out, double *out_lo) {
    mta_f4 hi = x->hi;
    double rest[4];
    int64_t j;
    if (!out_lo) mta_lower_four(x, &hi);
    if (i + 4 <= n) {
        __builtin_prefetch(out + i + MTA_SOON_OUT, 1);
        MTA_F4(out + i) = hi;
        if (out_lo) MTA_F4(out_lo + i) = x->lo;
        return;
    }
    MTA_F4(rest) = hi;
    for (j = 0; i + j < n; j++) out[i + j] = rest[j];
    MTA_F4(rest) = x->lo;
    for (j = 0; out_lo && i + j < n; j++) out_lo[i + j] = rest[j];
}

/* Put x[j], answers i + j, i + j + 16, i + j + 32 and i + j + 48, in their places, but for those
   outside of [0, n). */
MTA_INLINE void mta_put_rows(const mta_f4 *x0, const mta_f4 *x1, const mta_f4 *x2, const mta_f4 *x3,
                             int64_t i, int64_t n, double *out) {
    mta_f4 a = *x0, b = *x1, c = *x2, d = *x3;
    double rows[16];
    int64_t j, k;
    MTA_TRANSPOSE(a, b, c, d);
    if (i >= 0 && i + 52 <= n) {
        MTA_F4(out + i) = a;
        MTA_F4(out + i + 16) = b;
        MTA_F4(out + i + 32) = c;
        MTA_F4(out + i + 48) = d;
        return;
    }
    MTA_F4(rows) = a;
    MTA_F4(rows + 4) = b;
    MTA_F4(rows + 8) = c;
    MTA_F4(rows + 12) = d;
    for (k = 0; k < 16; k += 4, i += 16)
        for (j = 0; j < 4; j++)
            if (i + j >= 0 && i + j < n) out[i + j] = rows[k + j];
}

/* The sums of n windows that move by one row, from the first rows `from` and `to` on: four blocks at
   once. As doubles, or by parts where there is somewhere to put the low ones. */
MTA_INLINE void mta_join_steady(int wide, const mta_row_sums *suffix, int64_t from,
                                const mta_row_sums *prefix, int64_t to, int64_t n, double *out,
                                double *out_lo) {
    int64_t i, j, turn;
    mta_sum4 x[MTA_SUM_BLOCK];
    for (i = -(from & 15); i < n; i += 64) {
        turn = 16 - ((to + i) & 15); /* here the back moves on to the next column */
        mta_join_rows(wide, suffix, mta_place(from + i), prefix, mta_place(to + i), 0, turn, x);
        mta_join_rows(wide, suffix, mta_place(from + i + turn), prefix, mta_place(to + i + turn),
                      turn, 16, x);
        for (j = 0; !out_lo && j < 16; j++) mta_lower_four(&x[j], &x[j].hi);
        for (j = 0; j < 16; j += 4) {
            mta_put_rows(&x[j].hi, &x[j + 1].hi, &x[j + 2].hi, &x[j + 3].hi, i + j, n, out);
            if (out_lo)
                mta_put_rows(&x[j].lo, &x[j + 1].lo, &x[j + 2].lo, &x[j + 3].lo, i + j, n, out_lo);
        }
        for (j = 0; j < 64; j += 8) __builtin_prefetch(out + i + j + MTA_SOON_OUT, 1);
    }
}

/* The sums of the next n windows, at most four; the last one again, up to four. */
MTA_INLINE void mta_join_any(int wide, const mta_row_sums *suffix, int64_t from,
                             const mta_row_sums *prefix, int64_t to, const int64_t *lo,
                             const int64_t *hi, int64_t n, mta_sum4 *out) {
    int64_t j, f[4], b[4];
    mta_sum4 y;
    for (j = 0; j < 4; j++) {
        int64_t k = j < n ? j : n - 1;
        f[j] = mta_place(lo[k] + from);
        b[j] = mta_place(hi[k] + to);
    }
    mta_gather(wide, suffix->hi, f, &out->hi);
    mta_gather(wide, suffix->lo, f, &out->lo);
    mta_gather(wide, prefix->hi, b, &y.hi);
    mta_gather(wide, prefix->lo, b, &y.lo);
    mta_add(wide, out, &y, out);
}

/* The sums over n windows, as doubles, or by parts where there is somewhere to put the low ones. The
   sum from row r on stands at suffix[r + from], that up to row r at prefix[r + to]; steady: lo and hi
   rise by one a window. */
MTA_INLINE void mta_join_sums_body(int wide, const mta_row_sums *suffix, int64_t from,
                                   const mta_row_sums *prefix, int64_t to, const int64_t *lo,
                                   const int64_t *hi, int64_t n, int steady, double *out,
                                   double *out_lo) {
    int64_t i;
    mta_sum4 x;
    if (steady) {
        if (out_lo)
            mta_join_steady(wide, suffix, lo[0] + from, prefix, hi[0] + to, n, out, out_lo);
        else
            mta_join_steady(wide, suffix, lo[0] + from, prefix, hi[0] + to, n, out, 0);
        return;
    }
    for (i = 0; i + 4 <= n; i += 4) {
        mta_join_any(wide, suffix, from, prefix, to, lo + i, hi + i, 4, &x);
        mta_put(&x, i, n, out, out_lo);
    }
    if (i == n) return;
    mta_join_any(wide, suffix, from, prefix, to, lo + i, hi + i, n - i, &x);
    mta_put(&x, i, n, out, out_lo);
}
MTA_TWICE(void, mta_join_sums,
          (const mta_row_sums *suffix, int64_t from, const mta_row_sums *prefix, int64_t to,
           const int64_t *lo, const int64_t *hi, int64_t n, int steady, double *out, double *out_lo),
          suffix, from, prefix, to, lo, hi, n, steady, out, out_lo)

#endif
