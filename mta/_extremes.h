/* Minima and maxima over windows. The greatest of some rows does not depend on how they are taken
   together, nor on whether one is taken twice; so four rows are answered at once, each from the four
   values that begin (or end) there and the run that begins four rows on.

   Values are taken as keys, integers in their order; or as the doubles that they are, which needs
   half the work, while none of them is NaN, null or -0.0. */
#ifndef MTA_EXTREMES_H
#define MTA_EXTREMES_H

#include <math.h>
#include <string.h>

#include "_simd.h"

/* Rows that are taken at a time: they stay in the first-level cache. */
enum { MTA_PIECE = 256, MTA_MARGIN = 8, MTA_SHORT = 64 };

typedef enum { MTA_KEYS, MTA_GREATEST, MTA_LEAST } mta_order;

/* What a margin holds: nothing that could be the extreme. */
static inline int64_t mta_nothing(mta_order order) {
    union {
        double f;
        int64_t i;
    } infinite = {order == MTA_LEAST ? INFINITY : -INFINITY};
    return order == MTA_KEYS ? INT64_MIN : infinite.i;
}

#if defined(__x86_64__)
MTA_WIDE static inline void mta_take_doubles(mta_order order, mta_i4 *a, const mta_i4 *b) {
    __m256d x = (__m256d)*a, y = (__m256d)*b;
    *a = (mta_i4)(order == MTA_LEAST ? _mm256_min_pd(x, y) : _mm256_max_pd(x, y));
}
#endif

/* a = the extreme of a and b, lane by lane. */
MTA_INLINE void mta_take(int wide, mta_order order, mta_i4 *a, const mta_i4 *b) {
    mta_i4 mask;
#if defined(__x86_64__)
    if (wide && order != MTA_KEYS) {
        mta_take_doubles(order, a, b);
        return;
    }
#endif
    if (order == MTA_KEYS)
        mask = (mta_i4)(*a > *b);
    else if (order == MTA_LEAST)
        mask = (mta_i4)((mta_f4)*a < (mta_f4)*b);
    else
        mask = (mta_i4)((mta_f4)*a > (mta_f4)*b);
    *a = (*a & mask) | (*b & ~mask);
}

/* x = the extreme of the four values (three before, or three after) that stand at every row. */
MTA_INLINE void mta_take_four(int wide, mta_order order, const int64_t *at, int step, mta_i4 *x) {
    mta_i4 a = MTA_I4_CONST(at), b = MTA_I4_CONST(at + step);
    mta_i4 c = MTA_I4_CONST(at + 2 * step), d = MTA_I4_CONST(at + 3 * step);
    mta_take(wide, order, &a, &b);
    mta_take(wide, order, &c, &d);
    mta_take(wide, order, &a, &c);
    *x = a;
}

/* A function of an order, built for each of them. */
#define MTA_FOR_ORDER(name, ...)                                       \
    (order == MTA_KEYS       ? name(wide, MTA_KEYS, __VA_ARGS__)       \
     : order == MTA_GREATEST ? name(wide, MTA_GREATEST, __VA_ARGS__)   \
                             : name(wide, MTA_LEAST, __VA_ARGS__))

static inline void mta_set_margins(mta_order order, int64_t n, int64_t *values) {
    int64_t i, nothing = mta_nothing(order);
    for (i = 0; i < MTA_MARGIN; i++) values[i - MTA_MARGIN] = values[n + i] = nothing;
}

/* x = the values of the next rows (at most four), and `nothing` where there is no value. */
MTA_INLINE void mta_load(int wide, const int64_t *raw, const uint8_t *valid, int64_t n,
                         int64_t nothing, mta_i4 *x) {
    mta_i4 mask;
    int64_t i;
    if (n >= 4) {
        *x = MTA_I4_CONST(raw);
        if (!valid) return;
        mta_mask(wide, valid, &mask);
        *x = (*x & mask) | (nothing & ~mask);
    } else {
        for (i = 0; i < 4; i++) (*x)[i] = i < n && (!valid || valid[i]) ? raw[i] : nothing;
    }
}

/* The keys of n rows, as `lift` in _monoids.pxd makes them, between margins. */
MTA_INLINE int mta_keys_of(int wide, const int64_t *raw, const uint8_t *valid, int64_t n,
                           int is_float, int64_t flip, int64_t nan_key, int64_t ahead,
                           int64_t *key) {
    int64_t i;
    for (i = 0; i < n; i += 4) {
        mta_i4 x, nan;
        __builtin_prefetch(raw + i + ahead);
        mta_load(wide, raw + i, valid ? valid + i : valid, n - i, 0, &x);
        if (is_float) {
            nan = (mta_i4)((x & INT64_MAX) > 0x7ff0000000000000);
            x ^= ((mta_i4)(x < 0) & INT64_MAX) ^ flip;
            x = (x & ~nan) | (nan_key & nan);
        } else {
            x ^= flip;
        }
        MTA_I4(key + i) = x;
    }
    for (i = 0; valid && i < n; i++) key[i] = valid[i] ? key[i] : INT64_MIN;
    mta_set_margins(MTA_KEYS, n, key);
    return 1;
}

/* The doubles of n rows as they are, between margins; 0 if one of them has to be taken as a key. */
MTA_INLINE int mta_doubles_of(int wide, const int64_t *raw, const uint8_t *valid, int64_t n,
                              mta_order order, int64_t ahead, int64_t *out) {
    int64_t i, nothing = mta_nothing(order);
    mta_i4 odd = {0, 0, 0, 0};
    for (i = 0; i < n; i += 4) {
        mta_i4 x;
        __builtin_prefetch(raw + i + ahead);
        mta_load(wide, raw + i, valid ? valid + i : valid, n - i, nothing, &x);
        odd |= (mta_i4)((mta_f4)x != (mta_f4)x) | (mta_i4)(x == INT64_MIN);
        MTA_I4(out + i) = x;
    }
    mta_set_margins(order, n, out);
    return !(odd[0] | odd[1] | odd[2] | odd[3]);
}

/* The values of n rows in an order, between margins; 0 if one of them has to be taken as a key.
   ahead : where the rows are that will be read soon */
MTA_INLINE int mta_read_piece_body(int wide, mta_order order, const int64_t *raw,
                                   const uint8_t *valid, int64_t n, int is_float, int64_t flip,
                                   int64_t nan_key, int64_t ahead, int64_t *out) {
    if (order == MTA_KEYS) {
        if (is_float) return mta_keys_of(wide, raw, valid, n, 1, flip, nan_key, ahead, out);
        return mta_keys_of(wide, raw, valid, n, 0, flip, nan_key, ahead, out);
    }
    if (valid) return mta_doubles_of(wide, raw, valid, n, order, ahead, out);
    return mta_doubles_of(wide, raw, 0, n, order, ahead, out);
}
MTA_TWICE(int, mta_read_piece,
          (mta_order order, const int64_t *raw, const uint8_t *valid, int64_t n, int is_float,
           int64_t flip, int64_t nan_key, int64_t ahead, int64_t *out),
          order, raw, valid, n, is_float, flip, nan_key, ahead, out)

/* out[i] = the extreme of x[i..n) and of `after`; out[0] is returned. Margins stand around x; out has
   room for n rounded up to a multiple of four. */
MTA_INLINE int64_t mta_suffixes_in_order(int wide, mta_order order, const int64_t *x, int64_t n,
                                         int64_t after, int64_t *out) {
    mta_i4 run = {after, after, after, after}, four;
    int64_t i;
    for (i = (n - 1) & ~(int64_t)3; i >= 0; i -= 4) {
        mta_take_four(wide, order, x + i, 1, &four);
        mta_take(wide, order, &run, &four);
        MTA_I4(out + i) = run;
    }
    return run[0];
}
MTA_INLINE int64_t mta_suffix_extremes_body(int wide, mta_order order, const int64_t *x, int64_t n,
                                            int64_t after, int64_t *out) {
    return MTA_FOR_ORDER(mta_suffixes_in_order, x, n, after, out);
}
MTA_TWICE(int64_t, mta_suffix_extremes,
          (mta_order order, const int64_t *x, int64_t n, int64_t after, int64_t *out), order, x, n,
          after, out)

/* out[i] = the extreme of `before` and of x[0..i]; out[n - 1] is returned. Margins and room as above. */
MTA_INLINE int64_t mta_prefixes_in_order(int wide, mta_order order, const int64_t *x, int64_t n,
                                         int64_t before, int64_t *out) {
    mta_i4 run = {before, before, before, before}, four;
    int64_t i;
    for (i = 0; i < n; i += 4) {
        mta_take_four(wide, order, x + i, -1, &four);
        mta_take(wide, order, &run, &four);
        MTA_I4(out + i) = run;
    }
    return n > 0 ? out[n - 1] : before;
}
MTA_INLINE int64_t mta_prefix_extremes_body(int wide, mta_order order, const int64_t *x, int64_t n,
                                            int64_t before, int64_t *out) {
    return MTA_FOR_ORDER(mta_prefixes_in_order, x, n, before, out);
}
MTA_TWICE(int64_t, mta_prefix_extremes,
          (mta_order order, const int64_t *x, int64_t n, int64_t before, int64_t *out), order, x, n,
          before, out)

/* The extreme of two values. */
MTA_INLINE int64_t mta_either(mta_order order, int64_t a, int64_t b) {
    double x, y;
    memcpy(&x, &a, 8);
    memcpy(&y, &b, 8);
    if (order == MTA_KEYS) return a > b ? a : b;
    x = order == MTA_LEAST ? (x < y ? x : y) : (x > y ? x : y);
    memcpy(&a, &x, 8);
    return a;
}

/* out[i] = the extreme of suffix[lo[i]] and prefix[hi[i]]; steady: lo and hi rise by one a window. */
MTA_INLINE int mta_joins_in_order(int wide, mta_order order, const int64_t *suffix,
                                  const int64_t *prefix, const int64_t *lo, const int64_t *hi,
                                  int64_t n, int steady, int64_t *out) {
    int64_t i = 0;
    if (steady)
        for (; i + 4 <= n; i += 4) {
            mta_i4 a = MTA_I4_CONST(suffix + lo[0] + i), b = MTA_I4_CONST(prefix + hi[0] + i);
            mta_take(wide, order, &a, &b);
            MTA_I4(out + i) = a;
            __builtin_prefetch(out + i + MTA_SOON_OUT, 1);
        }
    for (; i < n; i++) out[i] = mta_either(order, suffix[lo[i]], prefix[hi[i]]);
    return 0;
}
MTA_INLINE void mta_join_extremes_body(int wide, mta_order order, const int64_t *suffix,
                                       const int64_t *prefix, const int64_t *lo, const int64_t *hi,
                                       int64_t n, int steady, int64_t *out) {
    MTA_FOR_ORDER(mta_joins_in_order, suffix, prefix, lo, hi, n, steady, out);
}
MTA_TWICE(void, mta_join_extremes,
          (mta_order order, const int64_t *suffix, const int64_t *prefix, const int64_t *lo,
           const int64_t *hi, int64_t n, int steady, int64_t *out),
          order, suffix, prefix, lo, hi, n, steady, out)

/* The values of a piece, and the extremes of the next 2, 4, 8 … rows from each on. */
enum { MTA_LEVELS = 7, MTA_ROOM = MTA_PIECE + 2 * MTA_MARGIN };

/* Levels up to `top`, from n values at the lowest, which end in a margin. */
MTA_INLINE int mta_levels_in_order(int wide, mta_order order, int64_t *level, int64_t n, int top) {
    int64_t i, k, span;
    for (k = 0, span = 1; k < top; k++, span *= 2, level += MTA_ROOM)
        for (i = 0; i < n; i += 4) {
            mta_i4 a = MTA_I4_CONST(level + i), b = MTA_I4_CONST(level + i + span);
            mta_take(wide, order, &a, &b);
            MTA_I4(level + MTA_ROOM + i) = a;
        }
    return 0;
}

/* out[i] = the extreme of the rows [lo[i], hi[i]): of two spans of 2^k rows that overlap. */
MTA_INLINE int mta_shorts_in_order(int wide, mta_order order, const int64_t *levels,
                                   const int64_t *lo, const int64_t *hi, int64_t n, int steady,
                                   int64_t *out) {
    int64_t i = 0, first = lo[0];
    if (steady) {
        int k = 63 - __builtin_clzll((uint64_t)(hi[0] - first));
        const int64_t *front = levels + k * MTA_ROOM, *back = front + hi[0] - first - (1 << k);
        for (; i + 4 <= n; i += 4) {
            mta_i4 a = MTA_I4_CONST(front + i), b = MTA_I4_CONST(back + i);
            mta_take(wide, order, &a, &b);
            MTA_I4(out + i) = a;
            __builtin_prefetch(out + i + MTA_SOON_OUT, 1);
        }
    }
    for (; i < n; i++) {
        int k = 63 - __builtin_clzll((uint64_t)(hi[i] - lo[i]));
        const int64_t *level = levels + k * MTA_ROOM - first;
        out[i] = mta_either(order, level[lo[i]], level[hi[i] - (1 << k)]);
    }
    return 0;
}

/* The same for windows of at most `width` rows over `rows` values, the lowest level. */
MTA_INLINE void mta_short_extremes_body(int wide, mta_order order, int64_t *levels, int64_t rows,
                                        int64_t width, const int64_t *lo, const int64_t *hi,
                                        int64_t n, int steady, int64_t *out) {
    int top = 63 - __builtin_clzll((uint64_t)width);
    MTA_FOR_ORDER(mta_levels_in_order, levels, rows, top);
    MTA_FOR_ORDER(mta_shorts_in_order, levels, lo, hi, n, steady, out);
}
MTA_TWICE(void, mta_short_extremes,
          (mta_order order, int64_t *levels, int64_t rows, int64_t width, const int64_t *lo,
           const int64_t *hi, int64_t n, int steady, int64_t *out),
          order, levels, rows, width, lo, hi, n, steady, out)

/* Where no value is inside the answer is NaN. */
MTA_INLINE void mta_blank_body(int wide, const int64_t *count, int64_t n, int64_t *out) {
    union {
        double f;
        int64_t i;
    } none = {NAN};
    int64_t i;
    for (i = 0; i < n; i++) out[i] = count[i] ? out[i] : none.i;
}
MTA_TWICE(void, mta_blank, (const int64_t *count, int64_t n, int64_t *out), count, n, out)

/* Keys to doubles, in place. INT64_MIN is the key of nothing at all. */
MTA_INLINE void mta_keys_to_doubles_body(int wide, int64_t *x, int64_t n, int64_t flip,
                                         int64_t nan_key) {
    union {
        double f;
        int64_t i;
    } none = {NAN};
    int64_t i;
    for (i = 0; i < n; i++) {
        int64_t key = x[i], value = key ^ flip, bits = value ^ ((value >> 63) & INT64_MAX);
        x[i] = (key == nan_key) | (key == INT64_MIN) ? none.i : bits;
    }
}
MTA_TWICE(void, mta_keys_to_doubles, (int64_t *x, int64_t n, int64_t flip, int64_t nan_key), x, n,
          flip, nan_key)

#endif
