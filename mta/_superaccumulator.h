/* Exact sums of doubles, and their one rounding at the end.

   A superaccumulator is a fixed-point number as wide as the doubles themselves: 32 bits a limb, in 64
   so that carries wait until somebody asks (the small superaccumulator of R. M. Neal, "Fast exact
   summation using small and large superaccumulators", 2015, with three limbs a value instead of two,
   which makes room for 2^30 values between two rounds of carries). Values are added and subtracted
   limb by limb, so one that was added and then subtracted is gone without a trace. */
#ifndef MTA_SUPERACCUMULATOR_H
#define MTA_SUPERACCUMULATOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef unsigned __int128 mta_wide;

enum {
    MTA_LIMBS = 66,      /* the greatest double touches limb 65, whose upper half takes what carries */
    MTA_LOWEST = -1074,  /* exponent of the lowest bit of limb 0, and of the least subnormal */
    MTA_LOAD = 1 << 30
};

typedef struct {
    int64_t limb[MTA_LIMBS]; /* of weight 2^(32 i - 1074) */
    int64_t load;            /* no limb is beyond load * 2^32 */
    int low, high;           /* limbs outside low..high are 0 */
} mta_superaccumulator;

static inline int64_t mta_bits_of(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The sum of nothing; clears what was touched of a valid one. */
static inline void mta_super_clear(mta_superaccumulator *a) {
    if (a->low <= a->high)
        memset(a->limb + a->low, 0, (size_t)(a->high - a->low + 1) * sizeof a->limb[0]);
    a->load = 0;
    a->low = MTA_LIMBS;
    a->high = -1;
}

/* The same, of memory that holds anything. */
static inline void mta_super_init(mta_superaccumulator *a) {
    a->low = 0;
    a->high = MTA_LIMBS - 1;
    mta_super_clear(a);
}

static inline void mta_super_touch(mta_superaccumulator *a, int low, int high, int64_t load) {
    a->low = low < a->low ? low : a->low;
    a->high = high > a->high ? high : a->high;
    a->load += load;
}

/* Move carries up, so that every limb but the highest is in [0, 2^32). */
static inline void mta_super_carry(mta_superaccumulator *a) {
    int64_t carry = 0;
    int i;
    a->high = MTA_LIMBS - 1;
    for (i = a->low; i < MTA_LIMBS - 1; i++) {
        int64_t limb = a->limb[i] + carry;
        a->limb[i] = (int64_t)(uint32_t)limb;
        carry = limb >> 32;
    }
    a->limb[MTA_LIMBS - 1] += carry;
    a->load = 1 + (a->limb[MTA_LIMBS - 1] >> 32) * (a->limb[MTA_LIMBS - 1] < 0 ? -1 : 1);
}

/* a += sign * value * 2^exponent, for a sign of 1 or -1 and an exponent of -1074 to 971. */
static inline void mta_super_add_at(mta_superaccumulator *a, uint64_t value, int exponent, int64_t sign) {
    int place = exponent - MTA_LOWEST, i = place >> 5;
    mta_wide v = (mta_wide)value << (place & 31);
    a->limb[i] += sign * (int64_t)(uint32_t)v;
    a->limb[i + 1] += sign * (int64_t)(uint32_t)(v >> 32);
    a->limb[i + 2] += sign * (int64_t)(v >> 64);
    mta_super_touch(a, i, i + 2, 1);
    if (a->load >= MTA_LOAD) mta_super_carry(a);
}

/* lift: a += sign * x, which is finite. */
static inline void mta_super_add(mta_superaccumulator *a, double x, int64_t sign) {
    int64_t bits = mta_bits_of(x), mantissa = bits & 0xfffffffffffff;
    int exponent = (int)(bits >> 52) & 0x7ff;
    if (exponent)
        mantissa |= 1LL << 52;
    else
        exponent = 1;
    mta_super_add_at(a, (uint64_t)mantissa, exponent - 1 + MTA_LOWEST, bits < 0 ? -sign : sign);
}

/* combine: a += b. */
static inline void mta_super_merge(mta_superaccumulator *a, const mta_superaccumulator *b) {
    int i;
    for (i = b->low; i <= b->high; i++) a->limb[i] += b->limb[i];
    mta_super_touch(a, b->low, b->high, b->load);
    if (a->load >= MTA_LOAD) mta_super_carry(a);
}

/* A number that has lost nothing but its tail: (-1)^negative * (value + rest) * 2^exponent, where the
   rest is in [0, 1) and `inexact` says whether it is more than 0. value is 0 or has its top bit set. */
typedef struct {
    mta_wide value;
    int exponent;
    int inexact;
    int negative;
} mta_leading;

/* Digits of 32 bits from the limbs, times -1 if asked; what carries out of the last one. */
static inline int64_t mta_super_digits(const mta_superaccumulator *a, int64_t sign, uint32_t *digit) {
    int64_t carry = 0;
    int i;
    for (i = a->low; i <= a->high; i++) {
        int64_t limb = sign * a->limb[i] + carry;
        digit[i] = (uint32_t)limb;
        carry = limb >> 32;
    }
    return carry;
}

static inline mta_leading mta_super_leading(const mta_superaccumulator *a) {
    uint32_t digit[MTA_LIMBS + 1];
    int64_t carry = mta_super_digits(a, 1, digit);
    mta_leading r = {0, 0, 0, carry < 0};
    int top = a->high + 1, i, shift;
    uint64_t next;
    if (top <= a->low) return r;
    if (r.negative) carry = mta_super_digits(a, -1, digit);
    digit[top] = (uint32_t)carry;
    while (top >= a->low && !digit[top]) top--;
    if (top < a->low) return r;
    for (i = top; i > top - 4; i--) r.value = r.value << 32 | (i >= a->low ? digit[i] : 0);
    /* Fill up the zeros at the top from the fifth digit. */
    shift = __builtin_clz(digit[top]);
    next = (uint64_t)(top - 4 >= a->low ? digit[top - 4] : 0) << shift;
    r.value = r.value << shift | next >> 32;
    r.exponent = 32 * (top - 3) + MTA_LOWEST - shift;
    r.inexact = (uint32_t)next != 0;
    for (i = top - 5; i >= a->low && !r.inexact; i--) r.inexact = digit[i] != 0;
    return r;
}

/* value * 2^exponent as a number of this kind. */
static inline mta_leading mta_leading_of(__int128 value, int exponent) {
    mta_leading r = {value < 0 ? -(mta_wide)value : (mta_wide)value, exponent, 0, value < 0};
    int shift;
    if (!r.value) return r;
    shift = r.value >> 64 ? __builtin_clzll((uint64_t)(r.value >> 64))
                          : 64 + __builtin_clzll((uint64_t)r.value);
    r.value <<= shift;
    r.exponent -= shift;
    return r;
}

/* x * 2^exponent, for a whole x: faster than ldexp where nothing is subnormal. */
static inline double mta_scaled(double x, int exponent) {
    int64_t bits = (int64_t)(exponent + 1023) << 52;
    double power;
    if (exponent < -1022 || exponent > 1023) return ldexp(x, exponent);
    memcpy(&power, &bits, sizeof power);
    return x * power;
}

/* lower: the nearest double, ties to even; beyond the largest one, an infinity. 0 is 0.0, not -0.0.
   value needs 55 bits or more where there is a rest; the exponent is not below -1074 - 127. */
static inline double mta_nearest(mta_leading a) {
    int bits, last, drop;
    mta_wide rest, half;
    double nearest;
    if (!a.value) return 0.0;
    bits = a.value >> 64 ? 128 - __builtin_clzll((uint64_t)(a.value >> 64))
                         : 64 - __builtin_clzll((uint64_t)a.value);
    last = a.exponent + bits - 53; /* exponent of the last bit kept */
    if (last < MTA_LOWEST) last = MTA_LOWEST;
    drop = last - a.exponent;
    if (drop > 0) {
        half = (mta_wide)1 << (drop - 1);
        rest = a.value & (2 * half - 1);
        a.value >>= drop;
        a.value += rest > half || (rest == half && (a.inexact || (a.value & 1)));
        a.exponent = last;
    }
    nearest = mta_scaled((double)(uint64_t)a.value, a.exponent);
    return a.negative ? -nearest : nearest;
}

/* lower, for the mean: a / n, n > 0, rounded once. */
static inline double mta_nearest_quotient(mta_leading a, int64_t n) {
    mta_wide quotient = a.value / (mta_wide)n;
    a.inexact |= quotient * (mta_wide)n != a.value; /* the rest of a is less than 1, so it only adds to that */
    a.value = quotient;
    return mta_nearest(a);
}

#endif
