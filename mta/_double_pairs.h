/* Unevaluated sums hi + lo of two doubles, one or four at once. */
#ifndef MTA_DOUBLE_PAIRS_H
#define MTA_DOUBLE_PAIRS_H

#include <float.h>
#include <math.h>

#include "_simd.h"

typedef struct {
    double hi, lo;
} mta_sum;
typedef struct {
    mta_f4 hi, lo;
} mta_sum4;

/* a - b; as 1 * a - b, where there is such an instruction, because many processors that add on two of
   their units multiply and add on two others. */
#if defined(__x86_64__)
MTA_WIDE static inline void mta_minus_wide(const mta_f4 *a, const mta_f4 *b, mta_f4 *out) {
    __m256d one = _mm256_set1_pd(1.0);
    __asm__("" : "+x"(one)); /* or it would be seen to be a subtraction */
    *out = (mta_f4)_mm256_fmsub_pd((__m256d)*a, one, (__m256d)*b);
}
#endif
MTA_INLINE void mta_minus(int wide, const mta_f4 *a, const mta_f4 *b, mta_f4 *out) {
#if defined(__x86_64__)
    if (wide) {
        mta_minus_wide(a, b, out);
        return;
    }
#endif
    *out = *a - *b;
}

/* out = a + b. */
MTA_INLINE void mta_add(int wide, const mta_sum4 *a, const mta_sum4 *b, mta_sum4 *out) {
    mta_f4 s = a->hi + b->hi, t, u, v, w;
    mta_minus(wide, &s, &a->hi, &t);
    u = s - t;
    mta_minus(wide, &a->hi, &u, &v);
    mta_minus(wide, &b->hi, &t, &w);
    out->lo = (a->lo + b->lo) + (v + w);
    out->hi = s;
}

/* The same where a, or both, are rows: their low parts are 0 (and no low part is ever -0.0). */
MTA_INLINE void mta_add_row(int wide, const mta_f4 *a, const mta_sum4 *b, mta_sum4 *out) {
    mta_f4 s = *a + b->hi, t = s - *a, u = s - t, v, w;
    mta_minus(wide, a, &u, &v);
    mta_minus(wide, &b->hi, &t, &w);
    out->lo = b->lo + (v + w);
    out->hi = s;
}
MTA_INLINE void mta_row_added(int wide, const mta_sum4 *a, const mta_f4 *b, mta_sum4 *out) {
    mta_f4 s = a->hi + *b, t = s - a->hi, u = s - t, v, w;
    mta_minus(wide, &a->hi, &u, &v);
    mta_minus(wide, b, &t, &w);
    out->lo = a->lo + (v + w);
    out->hi = s;
}
MTA_INLINE void mta_add_rows(int wide, const mta_f4 *a, const mta_f4 *b, mta_sum4 *out) {
    mta_f4 s = *a + *b, t = s - *a, u = s - t, v, w;
    mta_minus(wide, a, &u, &v);
    mta_minus(wide, b, &t, &w);
    out->lo = v + w;
    out->hi = s;
}

/* The sum as a double. Once hi is not finite, lo holds inf - inf; the answer is hi. */
MTA_INLINE void mta_lower_four(const mta_sum4 *x, mta_f4 *out) {
    const mta_f4 largest = {DBL_MAX, DBL_MAX, DBL_MAX, DBL_MAX};
    mta_i4 finite = (mta_i4)((mta_f4)((mta_i4)x->hi & INT64_MAX) <= largest);
    *out = x->hi + (mta_f4)((mta_i4)x->lo & finite);
}

/* out = a * b + c, rounded once; or, with `minus`, c - a * b. */
#if defined(__x86_64__)
MTA_WIDE static inline void mta_fma_wide(const mta_f4 *a, const mta_f4 *b, const mta_f4 *c, int minus,
                                         mta_f4 *out) {
    __m256d x = (__m256d)*a, y = (__m256d)*b, z = (__m256d)*c;
    *out = (mta_f4)(minus ? _mm256_fnmadd_pd(x, y, z) : _mm256_fmadd_pd(x, y, z));
}
#endif
MTA_INLINE void mta_fma(int wide, const mta_f4 *a, const mta_f4 *b, const mta_f4 *c, int minus,
                        mta_f4 *out) {
    double x[4], y[4], z[4];
    int i;
#if defined(__x86_64__)
    if (wide) {
        mta_fma_wide(a, b, c, minus, out);
        return;
    }
#endif
    MTA_F4(x) = *a, MTA_F4(y) = *b, MTA_F4(z) = *c;
    for (i = 0; i < 4; i++) z[i] = fma(minus ? -x[i] : x[i], y[i], z[i]);
    *out = MTA_F4(z);
}

/* e = a * b - p, exactly, for p = a * b. */
#if defined(__x86_64__)
MTA_WIDE static inline void mta_product_error_wide(const mta_f4 *a, const mta_f4 *b, const mta_f4 *p,
                                                   mta_f4 *e) {
    *e = (mta_f4)_mm256_fmsub_pd((__m256d)*a, (__m256d)*b, (__m256d)*p);
}
#endif
MTA_INLINE void mta_product_error(int wide, const mta_f4 *a, const mta_f4 *b, const mta_f4 *p,
                                  mta_f4 *e) {
    mta_f4 minus = -*p;
#if defined(__x86_64__)
    if (wide) {
        mta_product_error_wide(a, b, p, e);
        return;
    }
#endif
    mta_fma(wide, a, b, &minus, 0, e);
}

/* Counts (below 2^52) as doubles. */
MTA_INLINE void mta_as_doubles(const mta_i4 *n, mta_f4 *out) {
    *out = (mta_f4)(*n | 0x4330000000000000) - 4503599627370496.0;
}

#endif
