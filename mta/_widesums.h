/* Exact sums of 64-bit integers over sliding windows: 128 bits hold 2^64 rows of 64 bits, so what has
   been added can be subtracted. As in _counts.h there is no branch per row. */
#ifndef MTA_WIDESUMS_H
#define MTA_WIDESUMS_H

#include "_simd.h"

enum { MTA_ADDED = 256 };

typedef __int128 mta_total;

/* The window answered last, and its sum. */
typedef struct {
    int64_t first, last;
    mta_total sum;
} mta_running;

MTA_INLINE mta_total mta_widen(int64_t x, int is_signed) {
    return is_signed ? (mta_total)x : (mta_total)(uint64_t)x;
}

/* before[i] = the sum of the rows before row i, for n rows (at most MTA_ADDED). */
MTA_INLINE mta_total mta_add_integers(const int64_t *x, int64_t n, int is_signed, mta_total *before) {
    mta_total sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) {
        if (before) before[i] = sum;
        sum += mta_widen(x[i], is_signed);
    }
    if (before) before[n] = sum;
    return sum;
}

/* Move on to the window [lo, hi). */
MTA_INLINE void mta_run_to(const int64_t *x, mta_running *r, int64_t lo, int64_t hi, int is_signed) {
    if (lo >= r->last) {
        r->first = r->last = lo;
        r->sum = 0;
    }
    r->sum += mta_add_integers(x + r->last, hi - r->last, is_signed, 0);
    r->sum -= mta_add_integers(x + r->first, lo - r->first, is_signed, 0);
    r->first = lo;
    r->last = hi;
}

/* The sums over n windows that move on from the one at hand by few rows altogether. */
MTA_INLINE void mta_run_near(const int64_t *x, mta_running *r, const int64_t *lo, const int64_t *hi,
                             int64_t n, int is_signed, mta_total *out) {
    mta_total entered[MTA_ADDED + 1], left[MTA_ADDED + 1];
    int64_t i;
    mta_add_integers(x + r->last, hi[n - 1] - r->last, is_signed, entered);
    mta_add_integers(x + r->first, lo[n - 1] - r->first, is_signed, left);
    for (i = 0; i < n; i++)
        out[i] = r->sum + entered[hi[i] - r->last] - left[lo[i] - r->first];
    r->first = lo[n - 1];
    r->last = hi[n - 1];
    r->sum = out[n - 1];
}

/* The same where each moves by one row. */
MTA_INLINE void mta_run_steady(const int64_t *x, mta_running *r, int64_t n, int is_signed,
                               mta_total *out) {
    mta_total sum = r->sum;
    int64_t i;
    for (i = 0; i < n; i++) {
        sum += mta_widen(x[r->last + i], is_signed) - mta_widen(x[r->first + i], is_signed);
        out[i] = sum;
    }
    r->first += n;
    r->last += n;
    r->sum = sum;
}

MTA_INLINE void mta_wide_sums_of(const int64_t *x, mta_running *r, const int64_t *lo, const int64_t *hi,
                                int64_t n, int steady, int is_signed, mta_total *out) {
    int64_t i = 0, run;
    while (i < n) {
        mta_run_to(x, r, lo[i], hi[i], is_signed);
        out[i++] = r->sum;
        if (i < n && steady && hi[i - 1] > lo[i]) {
            mta_run_steady(x, r, n - i, is_signed, out + i);
            return;
        }
        run = n;
        while (run > i && (hi[run - 1] - r->last > MTA_ADDED || lo[run - 1] - r->first > MTA_ADDED))
            run = i + (run - i) / 2;
        if (run > i) mta_run_near(x, r, lo + i, hi + i, run - i, is_signed, out + i);
        i = run;
    }
}

/* out[i] = the sum over [lo[i], hi[i]), for n windows after that of *r; x by row number. */
MTA_INLINE void mta_wide_sums_body(int wide, const int64_t *x, mta_running *r, const int64_t *lo,
                                  const int64_t *hi, int64_t n, int steady, int is_signed,
                                  mta_total *out) {
    if (is_signed)
        mta_wide_sums_of(x, r, lo, hi, n, steady, 1, out);
    else
        mta_wide_sums_of(x, r, lo, hi, n, steady, 0, out);
}
MTA_TWICE(void, mta_wide_sums,
          (const int64_t *x, mta_running *r, const int64_t *lo, const int64_t *hi, int64_t n, int steady,
           int is_signed, mta_total *out),
          x, r, lo, hi, n, steady, is_signed, out)

/* Whether a sum fits in 64 bits. */
MTA_INLINE int mta_fits(mta_total sum, int is_unsigned) {
    return (int64_t)(sum >> 64) == (is_unsigned ? 0 : (int64_t)sum >> 63);
}

/* The sums modulo 2^64; whether each fits. */
MTA_INLINE int mta_lower_totals_body(int wide, const mta_total *sums, int64_t n, int is_unsigned,
                                     int64_t *out) {
    int64_t i, beyond = 0;
    for (i = 0; i < n; i++) {
        int64_t low = (int64_t)sums[i], high = (int64_t)(sums[i] >> 64);
        out[i] = low;
        beyond |= high ^ (is_unsigned ? 0 : low >> 63);
    }
    return beyond == 0;
}
MTA_TWICE(int, mta_lower_totals, (const mta_total *sums, int64_t n, int is_unsigned, int64_t *out), sums,
          n, is_unsigned, out)

#endif
