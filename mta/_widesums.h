/* Sums of 64-bit integers over sliding windows, in 128 bits.

   Of each value the lower and the upper 32 bits are added up apart, so that a run of windows needs no
   carry; what all windows of a run have in common is held in 128 bits. */
#ifndef MTA_WIDESUMS_H
#define MTA_WIDESUMS_H

#include "_sums.h"

/* 2^64 rows of 64 bits fit. */
typedef __int128 mta_total;

MTA_INLINE int64_t mta_upper_half(int64_t x, int is_unsigned) {
    return is_unsigned ? (int64_t)((uint64_t)x >> 32) : x >> 32;
}

/* The halves of n values, two integers each. */
MTA_INTEGER_CLONES
static void mta_split_integers(const int64_t *restrict x, int64_t n, int is_unsigned,
                               int64_t *restrict out) {
    int64_t i;
    for (i = 0; i < n; i++) {
        out[2 * i] = x[i] & 0xffffffff;
        out[2 * i + 1] = mta_upper_half(x[i], is_unsigned);
    }
}

/* The halves of x[i] - y[i]. */
MTA_INTEGER_CLONES
static void mta_split_changes(const int64_t *restrict x, const int64_t *restrict y, int64_t n,
                              int is_unsigned, int64_t *restrict out) {
    int64_t i;
    for (i = 0; i < n; i++) {
        out[2 * i] = (x[i] & 0xffffffff) - (y[i] & 0xffffffff);
        out[2 * i + 1] = mta_upper_half(x[i], is_unsigned) - mta_upper_half(y[i], is_unsigned);
    }
}

static inline mta_total mta_total_of(const int64_t *halves) {
    return ((mta_total)halves[1] * ((mta_total)1 << 32)) + halves[0];
}

/* The sum of n values. */
static inline mta_total mta_total_of_rows(const int64_t *x, int64_t n, int is_unsigned) {
    mta_total sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) sum += is_unsigned ? (mta_total)(uint64_t)x[i] : (mta_total)x[i];
    return sum;
}

MTA_INLINE int mta_fits(mta_total sum, int is_unsigned) {
    return (int64_t)(sum >> 64) == (is_unsigned ? 0 : (int64_t)sum >> 63);
}

/* The windows' sums modulo 2^64; whether each fits in 64 bits. */
static inline int mta_lower_integers(mta_total base, const int64_t *halves, int64_t n, int is_unsigned,
                                     int64_t *out) {
    int64_t i;
    int fit = 1;
    for (i = 0; i < n; i++) {
        mta_total sum = base + mta_total_of(halves + 2 * i);
        out[i] = (int64_t)sum;
        fit &= mta_fits(sum, is_unsigned);
    }
    return fit;
}

#endif
