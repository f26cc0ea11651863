/* The monoid of the longest run of rows whose values strictly increase ("LIS" of the MTA paper,
   section 2): of one value, and joined. */
#ifndef MTA_RUNS_PART_H
#define MTA_RUNS_PART_H

#include "_algebra.h"

/* Of rows that are not null: how many, the keys of the first and the last, the run at the front,
   the one at the back, the longest one. Keys are in the order of the values. No row stands in a rising
   step with NaN: its key is the least one to step up to, and the greatest one to step up from. */
typedef struct {
    int64_t n;
    int64_t first, last;
    int64_t front, back, best;
} mta_runs;

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

MTA_INLINE void mta_runs_of_key(mta_runs *out, int64_t key) {
    out->n = out->front = out->back = out->best = 1;
    out->first = out->last = key;
}

MTA_INLINE void mta_runs_of_float(mta_runs *out, double x) {
    int64_t key;
    double positive = x + 0.0; /* of both zeros */
    memcpy(&key, &positive, sizeof key);
    mta_runs_of_key(out, key ^ ((key >> 63) & INT64_MAX));
    if (x != x) {
        out->first = INT64_MIN;
        out->last = INT64_MAX;
    }
}

/* The same, and how many rows come before the first of the longest runs. */
typedef struct {
    mta_runs runs;
    int64_t before;
} mta_placed_runs;

MTA_INLINE void mta_placed_runs_join(mta_placed_runs *out, const mta_placed_runs *a,
                                     const mta_placed_runs *b) {
    int64_t met = a->runs.n && b->runs.n && a->runs.last < b->runs.first
                      ? a->runs.back + b->runs.front : 0;
    int64_t before = a->before;
    mta_runs joined;
    mta_runs_join(&joined, &a->runs, &b->runs);
    if (joined.best > a->runs.best)
        before = a->runs.n + (met == joined.best ? -a->runs.back : b->before);
    out->before = before;
    out->runs = joined;
}

#endif
