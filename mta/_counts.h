/* How many rows of every window count: those whose mark is 1. What enters is added and what leaves
   is subtracted, exactly; with no branch per row, since how many rows move at a step is what a
   processor can't foresee (8 ns a row for windows of time, measured, with loops that end where they
   are due; 1 ns so). */
#ifndef MTA_COUNTS_H
#define MTA_COUNTS_H

#include "_simd.h"

enum { MTA_COUNTED = 2048 };

/* The window answered last, and the count in it. */
typedef struct {
    int64_t first, last, inside;
} mta_counting;

/* before[i] = the marks of the rows before row i, for n rows (at most MTA_COUNTED). */
MTA_INLINE void mta_count_up(const uint8_t *marks, int64_t n, uint16_t *before) {
    int64_t i, sum = 0;
    for (i = 0; i < n; i++) {
        before[i] = (uint16_t)sum;
        sum += marks[i];
    }
    before[n] = (uint16_t)sum;
}

MTA_INLINE int64_t mta_count_rows(const uint8_t *marks, int64_t n) {
    int64_t i, sum = 0;
    for (i = 0; i < n; i++) sum += marks[i];
    return sum;
}

/* Move on to the window [lo, hi). */
MTA_INLINE void mta_count_to(const uint8_t *marks, mta_counting *c, int64_t lo, int64_t hi) {
    if (lo >= c->last) {
        c->first = c->last = lo;
        c->inside = 0;
    }
    c->inside += mta_count_rows(marks + c->last, hi - c->last);
    c->inside -= mta_count_rows(marks + c->first, lo - c->first);
    c->first = lo;
    c->last = hi;
}

/* The counts of n windows that move on from the one at hand by few rows altogether. */
MTA_INLINE void mta_count_near(const uint8_t *marks, mta_counting *c, const int64_t *lo,
                               const int64_t *hi, int64_t n, int64_t *out) {
    uint16_t entered[MTA_COUNTED + 1], left[MTA_COUNTED + 1];
    int64_t i;
    mta_count_up(marks + c->last, hi[n - 1] - c->last, entered);
    mta_count_up(marks + c->first, lo[n - 1] - c->first, left);
    for (i = 0; i < n; i++)
        out[i] = c->inside + entered[hi[i] - c->last] - left[lo[i] - c->first];
    c->first = lo[n - 1];
    c->last = hi[n - 1];
    c->inside = out[n - 1];
}

/* What enters less what leaves, summed up over 16 rows at a time. */
#if defined(__x86_64__)
MTA_WIDE static inline int64_t mta_count_steady_wide(const uint8_t *entered, const uint8_t *left,
                                                     int64_t n, int64_t inside, int64_t *out) {
    __m256i base = _mm256_set1_epi64x(inside);
    int64_t i;
    int k;
    for (i = 0; i + 16 <= n; i += 16) {
        __m128i d = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(entered + i)),
                                 _mm_loadu_si128((const __m128i *)(left + i)));
        d = _mm_add_epi8(d, _mm_slli_si128(d, 1));
        d = _mm_add_epi8(d, _mm_slli_si128(d, 2));
        d = _mm_add_epi8(d, _mm_slli_si128(d, 4));
        d = _mm_add_epi8(d, _mm_slli_si128(d, 8));
        for (k = 0; k < 16; k += 4, d = _mm_srli_si128(d, 4))
            _mm256_storeu_si256((__m256i *)(out + i + k),
                                _mm256_add_epi64(base, _mm256_cvtepi8_epi64(d)));
        base = _mm256_set1_epi64x(out[i + 15]);
    }
    return i;
}
#endif
MTA_INLINE void mta_count_steady(int wide, const uint8_t *marks, mta_counting *c, int64_t n,
                                 int64_t *out) {
    int64_t i = 0, inside = c->inside;
#if defined(__x86_64__)
    if (wide) i = mta_count_steady_wide(marks + c->last, marks + c->first, n, inside, out);
    if (i) inside = out[i - 1];
#endif
    for (; i < n; i++) {
        inside += marks[c->last + i] - marks[c->first + i];
        out[i] = inside;
    }
    c->first += n;
    c->last += n;
    c->inside = inside;
}

/* out[i] = the count in [lo[i], hi[i]), for n windows after that of *c; marks by row number. steady: lo
   and hi are known to rise by one. */
MTA_INLINE void mta_count_windows_body(int wide, const uint8_t *marks, mta_counting *c,
                                       const int64_t *lo, const int64_t *hi, int64_t n, int steady,
                                       int64_t *out) {
    int64_t i = 0, run;
    while (i < n) {
        mta_count_to(marks, c, lo[i], hi[i]);
        out[i++] = c->inside;
        if (i < n && hi[i] > c->last &&
            (steady || mta_is_steady_body(wide, lo + i - 1, hi + i - 1, n - i + 1))) {
            mta_count_steady(wide, marks, c, n - i, out + i);
            return;
        }
        for (run = n; run > i && (hi[run - 1] - c->last > MTA_COUNTED ||
                                  lo[run - 1] - c->first > MTA_COUNTED);)
            run = i + (run - i) / 2;
        if (run > i) mta_count_near(marks, c, lo + i, hi + i, run - i, out + i);
        i = run;
    }
}
MTA_TWICE(void, mta_count_windows,
          (const uint8_t *marks, mta_counting *c, const int64_t *lo, const int64_t *hi, int64_t n,
           int steady, int64_t *out),
          marks, c, lo, hi, n, steady, out)

/* Which of n counts are at least `least`; whether all are. */
MTA_INLINE int mta_at_least_body(int wide, const int64_t *counts, int64_t n, int64_t least,
                                 uint8_t *out) {
    int64_t i, few = 0;
    for (i = 0; i < n; i++) {
        out[i] = counts[i] >= least;
        few |= counts[i] - least;
    }
    return few >= 0;
}
MTA_TWICE(int, mta_at_least, (const int64_t *counts, int64_t n, int64_t least, uint8_t *out), counts,
          n, least, out)

/* The items, 0 where they are null. */
MTA_INLINE void mta_fill_nulls_body(int wide, const int64_t *x, const uint8_t *valid, int64_t n,
                                    int64_t *out) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        mta_i4 mask;
        mta_mask(wide, valid + i, &mask);
        MTA_I4(out + i) = MTA_I4_CONST(x + i) & mask;
    }
    for (; i < n; i++) out[i] = valid[i] ? x[i] : 0;
}
MTA_TWICE(void, mta_fill_nulls, (const int64_t *x, const uint8_t *valid, int64_t n, int64_t *out), x,
          valid, n, out)

#endif
