/* The monoid of products without overflow on the way, and geometric means: of one value, joined,
   and answered. */
#ifndef MTA_PRODUCTS_PART_H
#define MTA_PRODUCTS_PART_H

#include "_algebra.h"

/* What a product has among its factors. */
enum { MTA_HAS_ZERO = 1, MTA_HAS_INF = 2, MTA_HAS_NAN = 4, MTA_HAS_NEGATIVE = 8 };

/* (hi + lo) 2^exponent is the product of those factors that are neither 0 nor infinite nor NaN; of
   the others hi has the sign. A product of integers that fits in 64 bits is exact: so are all the
   products on the way to it, which are no greater, and 106 bits hold them. */
typedef struct {
    double hi, lo;
    int64_t exponent;
    int64_t has;
} mta_products;

MTA_INLINE void mta_products_clear(mta_products *r) {
    r->hi = 1.0;
    r->lo = 0.0;
    r->exponent = r->has = 0;
}

MTA_INLINE int mta_exponent_of(double normal) {
    uint64_t bits;
    memcpy(&bits, &normal, sizeof bits);
    return (int)(bits >> 52 & 0x7ff) - 1023;
}

/* |hi| in [1, 2): an exact change. */
MTA_INLINE void mta_products_shift(mta_products *r) {
    int e = mta_exponent_of(r->hi);
    double down = mta_two_to(-e);
    r->hi *= down;
    r->lo *= down;
    r->exponent += e;
}

MTA_INLINE void mta_products_join(mta_products *out, const mta_products *a, const mta_products *b) {
    mta_dd p = mta_dd_mul(mta_dd_of(a->hi, a->lo), mta_dd_of(b->hi, b->lo));
    out->hi = p.hi;
    out->lo = p.lo;
    out->exponent = a->exponent + b->exponent;
    out->has = a->has | b->has;
}

/* 0, infinities, NaN and subnormal numbers. */
MTA_COLD static void mta_products_lift_odd(mta_products *out, double x) {
    int e = 0;
    mta_products_clear(out);
    if (x != x) {
        out->has = MTA_HAS_NAN;
        return;
    }
    out->hi = copysign(1.0, x);
    out->has = x < 0.0 ? MTA_HAS_NEGATIVE : 0;
    if (x == 0.0) {
        out->has = MTA_HAS_ZERO;
    } else if (isinf(x)) {
        out->has |= MTA_HAS_INF;
    } else {
        out->hi = 2.0 * frexp(x, &e);
        out->exponent = e - 1;
    }
}

MTA_INLINE void mta_products_of_float(mta_products *out, double x) {
    if (!(fabs(x) >= DBL_MIN && fabs(x) <= DBL_MAX)) {
        mta_products_lift_odd(out, x);
        return;
    }
    out->hi = x;
    out->lo = 0.0;
    out->exponent = 0;
    out->has = x < 0.0 ? MTA_HAS_NEGATIVE : 0;
    mta_products_shift(out);
}

MTA_INLINE void mta_products_of_int(mta_products *out, mta_dd x) {
    mta_products_clear(out);
    if (x.hi == 0.0) {
        out->has = MTA_HAS_ZERO;
        return;
    }
    out->hi = x.hi;
    out->lo = x.lo;
    out->has = x.hi < 0.0 ? MTA_HAS_NEGATIVE : 0;
    mta_products_shift(out);
}

/* The monoid is that of the partials as they are. */
static inline void mta_products_combine(mta_products *out, const mta_products *a,
                                        const mta_products *b) {
    mta_products x = *a, y = *b;
    mta_products_shift(&x);
    mta_products_shift(&y);
    mta_products_join(out, &x, &y);
}

/* ---------------------------------------------------------------------------------- the answers */

MTA_INLINE mta_products mta_products_normal(const mta_products *r) {
    mta_dd v = mta_dd_normal(mta_dd_of(r->hi, r->lo));
    mta_products normal = {v.hi, v.lo, r->exponent, r->has};
    mta_products_shift(&normal);
    return normal;
}

MTA_INLINE double mta_product_of_floats(const mta_products *r) {
    mta_products v;
    if (r->has & MTA_HAS_NAN || (r->has & MTA_HAS_ZERO && r->has & MTA_HAS_INF)) return NAN;
    if (r->has & MTA_HAS_ZERO) return copysign(0.0, r->hi);
    if (r->has & MTA_HAS_INF) return copysign(INFINITY, r->hi);
    v = mta_products_normal(r);
    if (v.exponent >= -1022 && v.exponent <= 1022)
        return mta_round(v.hi, v.lo) * mta_two_to((int)v.exponent);
    if (v.exponent > 1023) return copysign(INFINITY, v.hi);
    return mta_round_scaled(mta_dd_of(v.hi, v.lo), v.exponent);
}

/* 1 where *out is the product, 0 where it does not fit. */
MTA_INLINE int mta_product_of_ints(const mta_products *r, int is_unsigned, int64_t *out) {
    mta_products v;
    __int128 whole;
    *out = 0;
    if (r->has & MTA_HAS_ZERO) return 1;
    v = mta_products_normal(r);
    if (v.exponent > 64) return 0; /* 2^64 - 1 has the high part 2^64 */
    if (v.exponent < 62) {
        double up = mta_two_to((int)v.exponent);
        *out = (int64_t)(v.hi * up) + (int64_t)(v.lo * up);
        return 1;
    }
    whole = (__int128)ldexp(v.hi, (int)v.exponent) + (__int128)ldexp(v.lo, (int)v.exponent);
    *out = (int64_t)whole;
    return is_unsigned ? whole >> 64 == 0 : whole == *out;
}

/* The n-th root as 2^(exponent / n) (hi + lo)^(1/n). The whole part of the exponent is taken out,
   and what rounding loses of the rest is put back: the error is that of exp2 and of log2 / n. */
MTA_INLINE double mta_geometric_mean(const mta_products *r, double n) {
    double whole, rest, log, s, t, power, error;
    mta_products v;
    if (r->has & (MTA_HAS_NAN | MTA_HAS_NEGATIVE)) return NAN;
    if (r->has & MTA_HAS_ZERO) return r->has & MTA_HAS_INF ? NAN : 0.0;
    if (r->has & MTA_HAS_INF) return INFINITY;
    v = mta_products_normal(r);
    whole = rint((double)v.exponent / n);
    rest = fma(-whole, n, (double)v.exponent); /* exact, and about n / 2 at most */
    log = log2(mta_round(v.hi, v.lo));
    s = rest + log;
    t = s - rest;
    error = (rest - (s - t)) + (log - t);
    power = s / n;
    error = (fma(-power, n, s) + error) / n;
    power = exp2(power);
    power += power * 0.6931471805599453 * error;
    return fabs(whole) < 1000.0 ? power * mta_two_to((int)whole) : ldexp(power, (int)whole);
}

#endif
