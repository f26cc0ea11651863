/* Many partials combined at once, every so many of them. Where they are compensated sums, four by
   four; the doubles are those of one after the other. */
#ifndef MTA_PART_RUNS_H
#define MTA_PART_RUNS_H

#include "_double_pairs.h"

/* hi and lo of four sums, in the order 0, 2, 1, 3. */
#if defined(__x86_64__)
MTA_WIDE static inline __m256d mta_load_two(const mta_sum *x, int64_t step) {
    if (step == 1) return _mm256_loadu_pd(&x->hi);
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(&x->hi)),
                                _mm_loadu_pd(&x[step].hi), 1);
}
MTA_WIDE static inline void mta_store_two(__m256d x, mta_sum *out, int64_t step) {
    if (step == 1) {
        _mm256_storeu_pd(&out->hi, x);
        return;
    }
    _mm_storeu_pd(&out->hi, _mm256_castpd256_pd128(x));
    _mm_storeu_pd(&out[step].hi, _mm256_extractf128_pd(x, 1));
}
MTA_WIDE static inline void mta_load_some_wide(const mta_sum *x, int64_t step, mta_sum4 *out) {
    __m256d low = mta_load_two(x, step), high = mta_load_two(x + 2 * step, step);
    out->hi = (mta_f4)_mm256_unpacklo_pd(low, high);
    out->lo = (mta_f4)_mm256_unpackhi_pd(low, high);
}
MTA_WIDE static inline void mta_store_some_wide(const mta_sum4 *x, mta_sum *out, int64_t step) {
    mta_store_two(_mm256_unpacklo_pd((__m256d)x->hi, (__m256d)x->lo), out, step);
    mta_store_two(_mm256_unpackhi_pd((__m256d)x->hi, (__m256d)x->lo), out + 2 * step, step);
}
#endif

/* out[i step] = a[i a_step] . b[i b_step], one after the other; what is written is not read. */
MTA_INLINE void mta_add_some_body(int wide, mta_sum *out, int64_t step, const mta_sum *a,
                                  int64_t a_step, const mta_sum *b, int64_t b_step, int64_t n) {
    int64_t i = 0;
#if defined(__x86_64__)
    mta_sum4 x, y;
    for (; wide && i + 4 <= n; i += 4) {
        mta_load_some_wide(a, a_step, &x);
        mta_load_some_wide(b, b_step, &y);
        mta_add(wide, &x, &y, &x);
        mta_store_some_wide(&x, out, step);
        out += 4 * step, a += 4 * a_step, b += 4 * b_step;
    }
#endif
    for (; i < n; i++, out += step, a += a_step, b += b_step) {
        double s = a->hi + b->hi, t = s - a->hi;
        double lo = (a->lo + b->lo) + ((a->hi - (s - t)) + (b->hi - t));
        out->hi = s;
        out->lo = lo;
    }
}
MTA_INLINE void mta_max_some_body(int wide, int64_t *out, int64_t step, const int64_t *a,
                                  int64_t a_step, const int64_t *b, int64_t b_step, int64_t n) {
    int64_t i;
    for (i = 0; i < n; i++, out += step, a += a_step, b += b_step) *out = *a > *b ? *a : *b;
}
MTA_INLINE void mta_sum_some_body(int wide, __int128 *out, int64_t step, const __int128 *a,
                                  int64_t a_step, const __int128 *b, int64_t b_step, int64_t n) {
    int64_t i;
    for (i = 0; i < n; i++, out += step, a += a_step, b += b_step) *out = *a + *b;
}

/* The steps that most of them have are known to the compiler. */
#define MTA_SOME(name, type)                                                                     \
    MTA_INLINE void name##_steps(int wide, type *out, int64_t step, const type *a,               \
                                 int64_t a_step, const type *b, int64_t b_step, int64_t n) {     \
        if (step == 1 && a_step == 1 && b_step == 1)                                             \
            name##_body(wide, out, 1, a, 1, b, 1, n);                                            \
        else if (step == 1 && a_step == 2 && b_step == 2)                                        \
            name##_body(wide, out, 1, a, 2, b, 2, n);                                            \
        else if (step == 2 && a_step == 2 && b_step == 2)                                        \
            name##_body(wide, out, 2, a, 2, b, 2, n);                                            \
        else                                                                                     \
            name##_body(wide, out, step, a, a_step, b, b_step, n);                               \
    }                                                                                            \
    MTA_WIDE static void name##_wide(type *out, int64_t step, const type *a, int64_t a_step,     \
                                     const type *b, int64_t b_step, int64_t n) {                 \
        name##_steps(1, out, step, a, a_step, b, b_step, n);                                     \
    }                                                                                            \
    MTA_UNUSED static void name(type *out, int64_t step, const type *a, int64_t a_step,          \
                                const type *b, int64_t b_step, int64_t n) {                      \
        if (MTA_IS_WIDE)                                                                         \
            name##_wide(out, step, a, a_step, b, b_step, n);                                     \
        else                                                                                     \
            name##_steps(0, out, step, a, a_step, b, b_step, n);                                 \
    }
MTA_SOME(mta_add_some, mta_sum)
MTA_SOME(mta_max_some, int64_t)
MTA_SOME(mta_sum_some, __int128)

/* The totals of windows that each lose one value and get one. */
MTA_UNUSED static void mta_move_totals(__int128 *out, const __int128 *leaving,
                                       const int64_t *coming, int64_t n, int is_unsigned,
                                       __int128 *total) {
    __int128 sum = *total;
    int64_t i;
    if (is_unsigned)
        for (i = 0; i < n; i++) out[i] = sum += (__int128)(uint64_t)coming[i] - leaving[i];
    else
        for (i = 0; i < n; i++) out[i] = sum += coming[i] - leaving[i];
    *total = sum;
}

#endif
