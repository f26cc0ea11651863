/* The longest run of rows whose values strictly increase ("LIS" of the MTA paper, section 2). */
#ifndef MTA_RUNS_H
#define MTA_RUNS_H

#include "_runs_part.h"

typedef struct {
    mta_column x;
    const uint8_t *valid;
} mta_runs_rows;

MTA_INLINE void mta_runs_lift(mta_runs *out, const mta_column *c, int64_t row) {
    if (c->i) mta_runs_of_key(out, c->i[row] ^ c->flip);
    else mta_runs_of_float(out, c->f[row]);
}

MTA_INLINE int64_t mta_runs_prepare(const mta_runs_rows *rows, mta_runs *r, int64_t lo, int64_t hi,
                                    int backwards, mta_runs *one) {
    int64_t j;
    (void)backwards;
    (void)r;
    for (j = 0; j < hi - lo; j++) {
        if (rows->valid && !rows->valid[lo + j]) mta_runs_clear(&one[j]);
        else mta_runs_lift(&one[j], &rows->x, lo + j);
    }
    return hi - lo;
}

#define MTA_PART runs
#include "_halves.h"

MTA_INLINE void mta_lower_runs(const mta_runs *part, int64_t rows, int64_t *out) {
    int64_t i;
    for (i = 0; i < rows; i++) out[i] = part[i].best;
}

#endif
