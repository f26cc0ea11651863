/* What the C loops share: vectors of four, and functions compiled twice.
   An x86-64 may or may not have AVX2, FMA and the bit counts that came with them (x86-64-v3). A
   function made with MTA_TWICE exists for both kinds, and every call picks. All operations are rounded
   one by one in either (-ffp-contract=off), so the answers are the same doubles wherever they run;
   fma() is called by name where it is meant. */
#ifndef MTA_SIMD_H
#define MTA_SIMD_H

#include <stdint.h>

/* A helper of such a function has to be inlined, or it would run as built for every x86-64. */
#define MTA_INLINE static inline __attribute__((always_inline))

#define MTA_UNUSED __attribute__((unused))

#if defined(__x86_64__)
#include <immintrin.h>
#define MTA_WIDE __attribute__((target("avx2,fma,popcnt,bmi,bmi2,lzcnt"))) MTA_UNUSED
#if defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__) && defined(__LZCNT__)
#define MTA_IS_WIDE 1
#else
#define MTA_HAS(what) __builtin_cpu_supports(what)
#define MTA_IS_WIDE (MTA_HAS("avx2") && MTA_HAS("fma") && MTA_HAS("bmi2") && MTA_HAS("lzcnt"))
#endif
#else
#define MTA_WIDE MTA_UNUSED
#define MTA_IS_WIDE 0
#endif

/* The same, left to the loader, for functions that are long enough to bear an indirect call. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) \
    && !defined(__FMA__)
#define MTA_CLONES __attribute__((target_clones("fma", "default"), unused))
#else
#define MTA_CLONES __attribute__((unused))
#endif

/* type name(parameters), which is name_body(wide, arguments...): built for x86-64-v3 (wide is 1) and
   for any processor (0). */
#define MTA_TWICE(type, name, parameters, ...)                                                 \
    MTA_WIDE static type name##_wide parameters { return name##_body(1, __VA_ARGS__); }        \
    MTA_UNUSED static type name##_plain parameters { return name##_body(0, __VA_ARGS__); }     \
    MTA_UNUSED static inline type name parameters {                                            \
        return MTA_IS_WIDE ? name##_wide(__VA_ARGS__) : name##_plain(__VA_ARGS__);             \
    }

/* Four doubles or integers at once. They are never passed or returned, only pointed to: how that is
   done depends on the target. */
typedef double mta_f4 __attribute__((vector_size(32)));
typedef int64_t mta_i4 __attribute__((vector_size(32)));
typedef double mta_f4_at __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t mta_i4_at __attribute__((vector_size(32), aligned(8), may_alias));
typedef uint32_t mta_u32_at __attribute__((aligned(1), may_alias));
#define MTA_F4(p) (*(mta_f4_at *)(p))
#define MTA_I4(p) (*(mta_i4_at *)(p))
#define MTA_F4_CONST(p) (*(const mta_f4_at *)(p))
#define MTA_I4_CONST(p) (*(const mta_i4_at *)(p))

/* How far ahead, in rows, columns are fetched into the cache and answers made ready to be written:
   the loops work in bursts, which the processor does not see through by itself. */
enum { MTA_SOON = 1024, MTA_SOON_OUT = 256 };

/* Four vectors of four to their columns, in place. */
#if defined(__clang__) || __GNUC__ >= 12
#define MTA_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define MTA_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (mta_i4){i, j, k, l})
#endif
#define MTA_TRANSPOSE(a, b, c, d)                                                                \
    do {                                                                                         \
        mta_f4 mta_0 = MTA_SHUFFLE(a, b, 0, 4, 2, 6), mta_1 = MTA_SHUFFLE(a, b, 1, 5, 3, 7);     \
        mta_f4 mta_2 = MTA_SHUFFLE(c, d, 0, 4, 2, 6), mta_3 = MTA_SHUFFLE(c, d, 1, 5, 3, 7);     \
        a = MTA_SHUFFLE(mta_0, mta_2, 0, 1, 4, 5);                                               \
        b = MTA_SHUFFLE(mta_1, mta_3, 0, 1, 4, 5);                                               \
        c = MTA_SHUFFLE(mta_0, mta_2, 2, 3, 6, 7);                                               \
        d = MTA_SHUFFLE(mta_1, mta_3, 2, 3, 6, 7);                                               \
    } while (0)

/* out = from[at[0]], from[at[1]], from[at[2]], from[at[3]]. (Four loads: as fast as the instruction
   that gathers, where that is slow, and gcc 12 makes of four assignments a detour through memory.) */
#if defined(__x86_64__)
MTA_WIDE static inline void mta_gather_wide(const double *from, const int64_t *at, mta_f4 *out) {
    __m128d low = _mm_loadh_pd(_mm_load_sd(from + at[0]), from + at[1]);
    __m128d high = _mm_loadh_pd(_mm_load_sd(from + at[2]), from + at[3]);
    *out = (mta_f4)_mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1);
}
#endif
MTA_INLINE void mta_gather(int wide, const double *from, const int64_t *at, mta_f4 *out) {
    double four[4];
    int i;
#if defined(__x86_64__)
    if (wide) {
        mta_gather_wide(from, at, out);
        return;
    }
#endif
    for (i = 0; i < 4; i++) four[i] = from[at[i]];
    *out = MTA_F4(four);
}

/* mask = all bits where a row is valid. */
#if defined(__x86_64__)
MTA_WIDE static inline void mta_mask_wide(const uint8_t *valid, mta_i4 *mask) {
    __m128i four = _mm_cvtsi32_si128(*(const mta_u32_at *)valid);
    *mask = (mta_i4)_mm256_cmpgt_epi64(_mm256_cvtepu8_epi64(four), _mm256_setzero_si256());
}
#endif
MTA_INLINE void mta_mask(int wide, const uint8_t *valid, mta_i4 *mask) {
    int i;
#if defined(__x86_64__)
    if (wide) {
        mta_mask_wide(valid, mask);
        return;
    }
#endif
    for (i = 0; i < 4; i++) (*mask)[i] = -(int64_t)(valid[i] != 0);
}

/* Whether any bit of x is set. */
#if defined(__x86_64__)
MTA_WIDE static inline int mta_any_wide(const mta_i4 *x) {
    return !_mm256_testz_si256((__m256i)*x, (__m256i)*x);
}
#endif
MTA_INLINE int mta_any(int wide, const mta_i4 *x) {
#if defined(__x86_64__)
    if (wide) return mta_any_wide(x);
#endif
    return ((*x)[0] | (*x)[1] | (*x)[2] | (*x)[3]) != 0;
}

/* Whether lo and hi rise by one from each of n windows to the next. */
MTA_INLINE int mta_is_steady_body(int wide, const int64_t *lo, const int64_t *hi, int64_t n) {
    int64_t i, first = lo[0], rows = hi[0] - first, other = 0;
    mta_i4 at = {first, first + 1, first + 2, first + 3}, any = {0, 0, 0, 0};
    if (lo[n - 1] - first != n - 1 || hi[n - 1] - lo[n - 1] != rows) return 0;
    for (i = 0; i + 4 <= n; i += 4, at += 4) {
        mta_i4 front = MTA_I4_CONST(lo + i);
        any |= (front ^ at) | ((MTA_I4_CONST(hi + i) - front) ^ rows);
    }
    for (; i < n; i++) other |= (lo[i] - i - first) | (hi[i] - lo[i] - rows);
    return !mta_any(wide, &any) && !other;
}
MTA_TWICE(int, mta_is_steady, (const int64_t *lo, const int64_t *hi, int64_t n), lo, hi, n)

/* The length of the longest of n windows; 0 if one is empty. */
MTA_INLINE int64_t mta_longest_body(int wide, const int64_t *lo, const int64_t *hi, int64_t n) {
    int64_t i, longest = 0, empty = 0;
    for (i = 0; i < n; i++) {
        int64_t rows = hi[i] - lo[i];
        longest = rows > longest ? rows : longest;
        empty |= rows - 1;
    }
    return empty < 0 ? 0 : longest;
}
MTA_TWICE(int64_t, mta_longest, (const int64_t *lo, const int64_t *hi, int64_t n), lo, hi, n)

#endif
