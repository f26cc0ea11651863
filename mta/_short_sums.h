/* Compensated sums over windows of at most 32 rows, in the association of the forest.

   A window [f, b) is split at m, the position in (f, b] divisible by the largest power of two. What is
   left of m, with 2^(e-1) < m - f <= 2^e, are the rows from f to the next multiple of 2^e; what is
   right of it, with 2^(e-1) <= b - m < 2^e, those from the last one to b. All such sums over a few
   blocks of rows are kept in two tables, by e and row, so that a window is one addition. */
#ifndef MTA_SHORT_SUMS_H
#define MTA_SHORT_SUMS_H

#include "_sum_blocks.h"

enum { MTA_SHORT_ROWS = 32, MTA_SHORT_LEVELS = 6, MTA_SHORT_BLOCKS = 8 };

/* By level and row of the block; a column is a block. */
typedef struct {
    double hi[MTA_SHORT_LEVELS * MTA_SUM_BLOCK * MTA_SHORT_BLOCKS];
    double lo[MTA_SHORT_LEVELS * MTA_SUM_BLOCK * MTA_SHORT_BLOCKS];
} mta_table;

/* And where the parts of a window stand in them: by its first row, of the 32 of two blocks, and its
   length; plus the column. */
typedef struct {
    mta_table suffix, prefix;
    int made;
    int16_t suffix_at[32 * 64], prefix_at[32 * 64];
} mta_short_sums;

MTA_INLINE int64_t mta_slot(int64_t level, int64_t row) {
    return (level * MTA_SUM_BLOCK + (row & 15)) * MTA_SHORT_BLOCKS + (row >> 4);
}

MTA_INLINE void mta_table_put(mta_table *t, int level, int row, int k, const mta_sum4 *x) {
    MTA_F4(t->hi + mta_slot(level, row) + k) = x->hi;
    MTA_F4(t->lo + mta_slot(level, row) + k) = x->lo;
}
MTA_INLINE void mta_table_get(const mta_table *t, int level, int row, int k, mta_sum4 *x) {
    x->hi = MTA_F4_CONST(t->hi + mta_slot(level, row) + k);
    x->lo = MTA_F4_CONST(t->lo + mta_slot(level, row) + k);
}

/* The suffixes of one level, for rows whose distance to the next multiple of 2^level is more than
   half of it: nodes (these are the level's first rows), or a node and then a suffix of this level;
   where that would begin in the middle, it is the node of the level below. */
MTA_INLINE void mta_short_suffixes(int wide, int level, int k, mta_table *t) {
    int row, low, next;
    mta_sum4 node, rest;
#pragma GCC unroll 16
    for (row = 15; row >= 0; row--) {
        low = row & -row;
        next = row + low;
        if (!(row & ((1 << level) - 1)) || row & (1 << (level - 1))) continue;
        mta_table_get(t, __builtin_ctz((unsigned)low), row, k, &node);
        mta_table_get(t, next & (1 << (level - 1)) ? level - 1 : level, next, k, &rest);
        mta_add(wide, &node, &rest, &rest);
        mta_table_put(t, level, row, k, &rest);
    }
}

/* The prefixes of one level, for rows whose distance from the last multiple of 2^level is at least
   half of it: the node of the level below and then the prefix of less than that. */
MTA_INLINE void mta_short_prefixes(int wide, int level, int k, const mta_table *nodes, mta_table *t) {
    int row, low, last;
    mta_sum4 node, rest;
#pragma GCC unroll 16
    for (row = 0; row < 16; row++) {
        low = row & -row;
        last = row - low;
        if (!(row & (1 << (level - 1)))) continue;
        mta_table_get(nodes, __builtin_ctz((unsigned)low), last, k, &node);
        if (last & (1 << (level - 1))) {
            mta_table_get(t, level, last, k, &rest);
            mta_add(wide, &rest, &node, &node);
        }
        mta_table_put(t, level, row, k, &node);
    }
}

/* The nodes of one level. */
MTA_INLINE void mta_short_nodes(int wide, int level, int k, mta_table *t) {
    int row;
    mta_sum4 a, b;
#pragma GCC unroll 8
    for (row = 0; row < 16; row += 1 << level) {
        mta_table_get(t, level - 1, row, k, &a);
        mta_table_get(t, level - 1, row + (1 << (level - 1)), k, &b);
        mta_add(wide, &a, &b, &a);
        mta_table_put(t, level, row, k, &a);
    }
}

/* Level 5, whose spans are two blocks: the suffixes of the first one, the prefixes of the second. */
MTA_INLINE void mta_short_pairs(int wide, int k, mta_short_sums *s) {
    int row, low;
    mta_sum4 node, rest;
    rest.hi = MTA_F4_CONST(s->suffix.hi + mta_slot(4, 0) + k + 1);
    rest.lo = MTA_F4_CONST(s->suffix.lo + mta_slot(4, 0) + k + 1);
    mta_table_get(&s->suffix, 4, 0, k, &node);
    mta_add(wide, &node, &rest, &node);
    mta_table_put(&s->suffix, 5, 0, k, &node);
#pragma GCC unroll 16
    for (row = 15; row > 0; row--) {
        low = row & -row;
        mta_table_get(&s->suffix, __builtin_ctz((unsigned)low), row, k, &node);
        if (row + low < 16)
            mta_table_get(&s->suffix, 5, row + low, k, &rest);
        else {
            rest.hi = MTA_F4_CONST(s->suffix.hi + mta_slot(4, 0) + k + 1);
            rest.lo = MTA_F4_CONST(s->suffix.lo + mta_slot(4, 0) + k + 1);
        }
        mta_add(wide, &node, &rest, &rest);
        mta_table_put(&s->suffix, 5, row, k, &rest);
    }
    rest.hi = MTA_F4_CONST(s->suffix.hi + mta_slot(4, 0) + k - 1);
    rest.lo = MTA_F4_CONST(s->suffix.lo + mta_slot(4, 0) + k - 1);
    mta_table_put(&s->prefix, 5, 0, k, &rest);
#pragma GCC unroll 16
    for (row = 1; row < 16; row++) {
        low = row & -row;
        mta_table_get(&s->suffix, __builtin_ctz((unsigned)low), row - low, k, &node);
        mta_table_get(&s->prefix, 5, row - low, k, &rest);
        mta_add(wide, &rest, &node, &rest);
        mta_table_put(&s->prefix, 5, row, k, &rest);
    }
}

MTA_INLINE void mta_short_map(mta_short_sums *s) {
    int f, b, m, top;
    for (f = 0; f < 32; f++)
        for (b = f + 1; b <= f + MTA_SHORT_ROWS; b++) {
            top = 31 - __builtin_clz((unsigned)(f ^ b));
            m = b >> top << top;
            s->suffix_at[f << 6 | (b - f)] =
                (int16_t)mta_slot(31 - __builtin_clz((unsigned)(2 * (m - f) - 1)), f & 15);
            s->prefix_at[f << 6 | (b - f)] =
                (int16_t)mta_slot(31 - __builtin_clz((unsigned)(2 * (b - m) + 1)), b & 15);
        }
    s->made = 1;
}

/* The tables over the rows of eight blocks; level 5 only where windows are longer than a block.
   (Of the last block there is no next one, of the first none before: what level 5 holds for them is
   never asked for.) */
MTA_INLINE void mta_short_tables_body(int wide, const double *const *rows, int deep,
                                      mta_short_sums *s) {
    int k, j;
    mta_sum4 x = {{0.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}};
    if (!s->made) mta_short_map(s);
    for (k = 0; k < MTA_SHORT_BLOCKS; k += 4) {
        for (j = 0; j < 16; j += 4) {
            mta_f4 four[4];
            int i;
            __builtin_prefetch(rows[k + j / 4] + MTA_SOON);
            __builtin_prefetch(rows[k + j / 4] + MTA_SOON + 8);
            mta_load_rows(rows + k, j, four);
            for (i = 0; i < 4; i++) {
                x.hi = four[i];
                mta_table_put(&s->suffix, 0, j + i, k, &x);
            }
        }
        mta_short_nodes(wide, 1, k, &s->suffix);
        mta_short_nodes(wide, 2, k, &s->suffix);
        mta_short_nodes(wide, 3, k, &s->suffix);
        mta_short_nodes(wide, 4, k, &s->suffix);
        mta_short_suffixes(wide, 2, k, &s->suffix);
        mta_short_suffixes(wide, 3, k, &s->suffix);
        mta_short_suffixes(wide, 4, k, &s->suffix);
        mta_short_prefixes(wide, 1, k, &s->suffix, &s->prefix);
        mta_short_prefixes(wide, 2, k, &s->suffix, &s->prefix);
        mta_short_prefixes(wide, 3, k, &s->suffix, &s->prefix);
        mta_short_prefixes(wide, 4, k, &s->suffix, &s->prefix);
    }
    for (k = 0; deep && k < MTA_SHORT_BLOCKS; k += 4) mta_short_pairs(wide, k, s);
}
MTA_TWICE(void, mta_short_tables, (const double *const *rows, int deep, mta_short_sums *s), rows,
          deep, s)

/* Where the parts of the window [f, b) stand. Rows are counted from the first of the tables, which is
   at position `skew`. */
MTA_INLINE void mta_short_parts(const mta_short_sums *s, int64_t f, int64_t b, int64_t skew,
                                int64_t *suffix, int64_t *prefix) {
    int64_t at = ((f + skew) & 31) << 6 | (b - f);
    *suffix = s->suffix_at[at] + (f >> 4);
    *prefix = s->prefix_at[at] + (b >> 4);
}

/* How many of n windows can be served: up to one that is empty or longer than the tables allow, or
   begins where the one before it ends. */
MTA_INLINE int64_t mta_short_run_body(int wide, const int64_t *lo, const int64_t *hi, int64_t n) {
    int64_t i, longest = hi[0] - lo[0], apart = hi[0] <= lo[0];
    for (i = 1; i < n; i++) {
        longest = hi[i] - lo[i] > longest ? hi[i] - lo[i] : longest;
        apart |= hi[i - 1] <= lo[i];
    }
    if (!apart && longest <= MTA_SHORT_ROWS) return n;
    for (i = 0; i < n; i++)
        if (hi[i] - lo[i] > MTA_SHORT_ROWS || hi[i] <= lo[i] || (i && hi[i - 1] <= lo[i])) break;
    return i;
}
MTA_TWICE(int64_t, mta_short_run, (const int64_t *lo, const int64_t *hi, int64_t n), lo, hi, n)

MTA_INLINE void mta_short_join(int wide, const mta_short_sums *s, int64_t f, int64_t b, mta_sum4 *out) {
    mta_sum4 x = {MTA_F4_CONST(s->suffix.hi + f), MTA_F4_CONST(s->suffix.lo + f)};
    mta_sum4 y = {MTA_F4_CONST(s->prefix.hi + b), MTA_F4_CONST(s->prefix.lo + b)};
    mta_add(wide, &x, &y, out);
}

/* n windows of one length, at most a block, the first of which begins at row f: those that lie a
   block apart are split alike, so four of them go at once. */
MTA_INLINE void mta_short_steady(int wide, const mta_short_sums *s, int64_t f, int64_t length,
                                 int64_t skew, int64_t n, double *out, double *out_lo) {
    int64_t i, j, first = f & -MTA_SUM_BLOCK, suffix[MTA_SUM_BLOCK], prefix[MTA_SUM_BLOCK], k = 0;
    mta_sum4 x[MTA_SUM_BLOCK];
    for (j = 0; j < MTA_SUM_BLOCK; j++)
        mta_short_parts(s, first + j, first + j + length, skew, &suffix[j], &prefix[j]);
    for (i = first - f; i < n; i += 4 * MTA_SUM_BLOCK, k += 4) {
        for (j = 0; j < 4 * MTA_SUM_BLOCK; j += 8) __builtin_prefetch(out + i + j + MTA_SOON_OUT, 1);
        for (j = 0; j < MTA_SUM_BLOCK; j++) {
            mta_short_join(wide, s, suffix[j] + k, prefix[j] + k, &x[j]);
            if (!out_lo) mta_lower_four(&x[j], &x[j].hi);
        }
        for (j = 0; j < MTA_SUM_BLOCK; j += 4) {
            mta_put_rows(&x[j].hi, &x[j + 1].hi, &x[j + 2].hi, &x[j + 3].hi, i + j, n, out);
            if (out_lo)
                mta_put_rows(&x[j].lo, &x[j + 1].lo, &x[j + 2].lo, &x[j + 3].lo, i + j, n, out_lo);
        }
    }
}

/* The sums of the next n windows, at most four; the last one again, up to four. */
MTA_INLINE void mta_short_any(int wide, const mta_short_sums *s, int64_t first, int64_t skew,
                              const int64_t *lo, const int64_t *hi, int64_t n, mta_sum4 *out) {
    int64_t j, f[4], b[4];
    mta_sum4 y;
    for (j = 0; j < 4; j++) {
        int64_t k = j < n ? j : n - 1;
        mta_short_parts(s, lo[k] - first, hi[k] - first, skew, &f[j], &b[j]);
    }
    mta_gather(wide, s->suffix.hi, f, &out->hi);
    mta_gather(wide, s->suffix.lo, f, &out->lo);
    mta_gather(wide, s->prefix.hi, b, &y.hi);
    mta_gather(wide, s->prefix.lo, b, &y.lo);
    mta_add(wide, out, &y, out);
}

/* The sums over n windows, as doubles, or by parts where there is somewhere to put the low ones. Row
   `first` is the first one of the tables, at position `skew`. */
MTA_INLINE void mta_short_answers_body(int wide, const mta_short_sums *s, int64_t first, int64_t skew,
                                       const int64_t *lo, const int64_t *hi, int64_t n, int steady,
                                       double *out, double *out_lo) {
    int64_t i = 0;
    mta_sum4 x;
    if (steady && hi[0] - lo[0] <= MTA_SUM_BLOCK) {
        if (out_lo)
            mta_short_steady(wide, s, lo[0] - first, hi[0] - lo[0], skew, n, out, out_lo);
        else
            mta_short_steady(wide, s, lo[0] - first, hi[0] - lo[0], skew, n, out, 0);
        return;
    }
    for (; i + 4 <= n; i += 4) {
        mta_short_any(wide, s, first, skew, lo + i, hi + i, 4, &x);
        mta_put(&x, i, n, out, out_lo);
    }
    if (i == n) return;
    mta_short_any(wide, s, first, skew, lo + i, hi + i, n - i, &x);
    mta_put(&x, i, n, out, out_lo);
}
MTA_TWICE(void, mta_short_answers,
          (const mta_short_sums *s, int64_t first, int64_t skew, const int64_t *lo, const int64_t *hi,
           int64_t n, int steady, double *out, double *out_lo),
          s, first, skew, lo, hi, n, steady, out, out_lo)

#endif
