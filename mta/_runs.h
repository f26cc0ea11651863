/* The longest run of rows whose values strictly increase ("LIS" of the MTA paper, section 2). */
#ifndef MTA_RUNS_H
#define MTA_RUNS_H

#include "_algebra.h"

/* Of rows that are not null: how many, the keys of the first and the last, the run at the front,
   the one at the back, the longest one. Keys are in the order of the values. No row stands in a rising
   step with NaN: its key is the least one to step up to, and the greatest one to step up from. */
typedef struct {
    int64_t n;
    int64_t first, last;
    int64_t front, back, best;
} mta_runs;

typedef struct {
    mta_column x;
    const uint8_t *valid;
} mta_runs_rows;

MTA_INLINE void mta_runs_clear(mta_runs *r) { memset(r, 0, sizeof *r); }

/* a and then b. */
MTA_INLINE void mta_runs_join(mta_runs *out, const mta_runs *a, const mta_runs *b) {
    int64_t met = a->n && b->n && a->last < b->first ? a->back + b->front : 0;
    int64_t best = a->best > b->best ? a->best : b->best;
    mta_runs r;
    r.n = a->n + b->n;
    r.first = a->n ? a->first : b->first;
    r.last = b->n ? b->last : a->last;
    r.front = met && a->front == a->n ? met : a->n ? a->front : b->front;
    r.back = met && b->back == b->n ? met : b->n ? b->back : a->back;
    r.best = met > best ? met : best;
    *out = r;
}

MTA_INLINE void mta_runs_lift(mta_runs *out, const mta_column *c, int64_t row) {
    int64_t key;
    out->n = out->front = out->back = out->best = 1;
    if (c->i) {
        out->first = out->last = c->i[row] ^ c->flip;
        return;
    }
    if (c->f[row] != c->f[row]) {
        out->first = INT64_MIN;
        out->last = INT64_MAX;
        return;
    }
    double x = c->f[row] + 0.0; /* of both zeros, the positive one */
    memcpy(&key, &x, sizeof key);
    out->first = out->last = key ^ ((key >> 63) & INT64_MAX);
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
