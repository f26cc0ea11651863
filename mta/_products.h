/* Products without overflow on the way, and geometric means. */
#ifndef MTA_PRODUCTS_H
#define MTA_PRODUCTS_H

#include "_products_part.h"

typedef struct {
    mta_column x;
    const uint8_t *valid;
} mta_products_rows;

MTA_INLINE void mta_products_lift_floats(const mta_column *c, const uint8_t *valid, int64_t row,
                                         int64_t n, mta_products *one) {
    const uint64_t exponent = (uint64_t)0x7ff << 52, unit = (uint64_t)1023 << 52;
    const double *x = c->f + row;
    int64_t j, odd = 0;
    for (j = 0; j < n; j++) {
        uint64_t bits, field;
        memcpy(&bits, &x[j], sizeof bits);
        field = bits & exponent;
        odd |= (field == 0) | (field == exponent);
        one[j].exponent = (int64_t)(field >> 52) - 1023;
        one[j].has = bits >> 63 ? MTA_HAS_NEGATIVE : 0;
        bits = (bits & ~exponent) | unit;
        memcpy(&one[j].hi, &bits, sizeof bits);
        one[j].lo = 0.0;
    }
    if (!odd) return;
    for (j = 0; j < n; j++) {
        int usual = fabs(x[j]) >= DBL_MIN && fabs(x[j]) <= DBL_MAX;
        if (valid && !valid[row + j]) mta_products_clear(&one[j]);
        else if (!usual) mta_products_lift_odd(&one[j], x[j]);
    }
}

MTA_INLINE void mta_products_lift_ints(const mta_column *c, const uint8_t *valid, int64_t row,
                                       int64_t n, mta_products *one) {
    int64_t j;
    for (j = 0; j < n; j++) {
        if (valid && !valid[row + j]) mta_products_clear(&one[j]);
        else mta_products_of_int(&one[j], mta_number(c, row + j));
    }
}

/* Every row brings at most a factor of 2: r's mantissa is at most 2^65 before it comes here again.
   Changing it by a power of two changes no digit, so answers do not depend on when that happens. */
MTA_CLONES
static int64_t mta_products_prepare(const mta_products_rows *rows, mta_products *r, int64_t lo,
                                    int64_t hi, int backwards, mta_products *one) {
    (void)backwards;
    mta_products_shift(r);
    if (rows->x.i) mta_products_lift_ints(&rows->x, rows->valid, lo, hi - lo, one);
    else mta_products_lift_floats(&rows->x, rows->valid, lo, hi - lo, one);
    return hi - lo;
}

#define MTA_PART products
#include "_halves.h"

static inline void mta_products_lift(mta_products *out, const mta_products_rows *rows,
                                     int64_t row) {
    mta_products none;
    mta_products_clear(&none);
    mta_products_prepare(rows, &none, row, row + 1, 0, out);
}

enum { MTA_PRODUCT, MTA_GEOMETRIC_MEAN };

/* One answer, in doubles, of each partial of count[i] values. */
MTA_CLONES
static void mta_lower_products(const mta_products *part, const double *count, int64_t rows,
                               int what, double *out) {
    int64_t i;
    for (i = 0; i < rows; i++) {
        if (count[i] < 1.0) out[i] = NAN;
        else if (what == MTA_PRODUCT) out[i] = mta_product_of_floats(&part[i]);
        else out[i] = mta_geometric_mean(&part[i], count[i]);
    }
}

/* Products of integers; the first that does not fit, of at least `need` values, or -1. */
MTA_CLONES
static int64_t mta_lower_int_products(const mta_products *part, const double *count, int64_t rows,
                                      int is_unsigned, double need, int64_t *out) {
    int64_t i;
    for (i = 0; i < rows; i++)
        if (!mta_product_of_ints(&part[i], is_unsigned, &out[i]) && count[i] >= need) return i;
    return -1;
}

#endif
