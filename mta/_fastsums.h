/* Plain sums of doubles to and from every row, four rows at a time.

   Rows are taken in blocks of 4 that are counted from the split of the window, so the order of additions
   depends on the split and the row alone: the blocks before, one after the other, and then the rows of
   this one as a tree. Nothing outside of the rows summed takes part, not even as 0 * x. */
#ifndef MTA_FASTSUMS_H
#define MTA_FASTSUMS_H

#include "_sums.h"

/* sums: *total + x[0], *total + (x[0] + x[1]), ...; *total moves on by the block. (The total is added
   to what is known already, so that a block waits for one addition of the block before.) */
MTA_INLINE void mta_plain_block(const double *x, mta_f4_at *total, mta_f4_at *sums) {
    const mta_f4_at none = {0.0, 0.0, 0.0, 0.0};
    mta_f4_at s = *(const mta_f4_at *)x;
    s += MTA_SHUFFLE(s, none, 4, 0, 1, 2);
    s += MTA_SHUFFLE(s, none, 4, 4, 0, 1);
    *sums = *total + s;
    *total += MTA_SHUFFLE(s, none, 3, 3, 3, 3);
}

/* The same from the right. */
MTA_INLINE void mta_plain_block_back(const double *x, mta_f4_at *total, mta_f4_at *sums) {
    const mta_f4_at none = {0.0, 0.0, 0.0, 0.0};
    mta_f4_at s = *(const mta_f4_at *)x;
    s += MTA_SHUFFLE(s, none, 1, 2, 3, 4);
    s += MTA_SHUFFLE(s, none, 2, 3, 4, 4);
    *sums = *total + s;
    *total += MTA_SHUFFLE(s, none, 0, 0, 0, 0);
}

/* out[i] = total + x[0..i], for n rows and room for 3 more; the total after the last whole block. */
MTA_INTEGER_CLONES
static double mta_plain_prefixes(const double *x, int64_t n, double total, double *out) {
    mta_f4_at sum = {total, total, total, total};
    double rest[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t i;
    for (i = 0; i + 4 <= n; i += 4) mta_plain_block(x + i, &sum, (mta_f4_at *)(out + i));
    total = sum[0];
    if (i < n) {
        memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
        mta_plain_block(rest, &sum, (mta_f4_at *)(out + i));
    }
    return total;
}

/* out[i] = the sum of x[i..n), and `total` of what follows; room for 3 more before out. */
MTA_INTEGER_CLONES
static void mta_plain_suffixes(const double *x, int64_t n, double total, double *out) {
    mta_f4_at sum = {total, total, total, total};
    double rest[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t i;
    for (i = n; i >= 4; i -= 4)
        mta_plain_block_back(x + i - 4, &sum, (mta_f4_at *)(out + i - 4));
    if (i > 0) {
        memcpy(rest + 4 - i, x, (size_t)i * sizeof *x);
        mta_plain_block_back(rest, &sum, (mta_f4_at *)(out + i - 4));
    }
}

/* out[i] = suffix[lo[i]] + prefix[hi[i]]. */
static inline void mta_plain_join(const double *suffix, const double *prefix, const int64_t *lo,
                                  const int64_t *hi, int64_t n, double *out) {
    int64_t i;
    for (i = 0; i < n; i++) out[i] = suffix[lo[i]] + prefix[hi[i]];
}

/* out[i] = suffix[i] + (total + x[0..i]) for n rows; the total after the last whole block. */
MTA_INTEGER_CLONES
static double mta_plain_steady(const double *x, int64_t n, double total, const double *suffix, double *out) {
    mta_f4_at sum = {total, total, total, total}, prefix;
    double rest[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t i, k;
    for (i = 0; i + 4 <= n; i += 4) {
        mta_plain_block(x + i, &sum, &prefix);
        MTA_F4(out + i) = MTA_F4_CONST(suffix + i) + prefix;
    }
    total = sum[0];
    if (i < n) {
        memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
        mta_plain_block(rest, &sum, &prefix);
        for (k = i; k < n; k++) out[k] = suffix[k] + prefix[k - i];
    }
    return total;
}

/* sums[i] over count[i], or hi[i] - lo[i], values. */
MTA_INTEGER_CLONES
static void mta_plain_means(const double *sums, const int64_t *count, const int64_t *lo,
                            const int64_t *hi, int64_t n, double *out) {
    const double magic = 4503599627370496.0; /* 2^52: its bits count ones */
    int64_t i;
    for (i = 0; i < n; i++) {
        int64_t rows = count ? count[i] : hi[i] - lo[i];
        out[i] = sums[i] / (mta_from_bits(rows + mta_to_bits(magic)) - magic);
    }
}

#endif
