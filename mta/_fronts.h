/* Where time windows begin (or end): for every row the first row whose time is not before an edge.

   How many rows an edge passes at a step is what a processor can't foresee: with a loop that ends
   where it is due, half the steps cost a wrong guess (14 ns a row, measured). So a step compares the
   next eight times, counts those that are before the edge, and moves on by their number. Each step
   then waits 5 ns for the one before; four parts of the rows go side by side, the fronts of which
   are found by searching from where they would be at a steady rate. 2 ns a row. */
#ifndef MTA_FRONTS_H
#define MTA_FRONTS_H

#include "_simd.h"

enum { MTA_AHEAD = 8, MTA_PARTS = 4, MTA_LONG_PART = 32 };

/* The first place in [low, high] whose time is not before the edge, looked for around a guess. */
static int64_t mta_search(const int64_t *ts, int64_t low, int64_t high, int64_t guess, int64_t edge) {
    int64_t step = 16, middle;
    guess = guess > high ? high : guess < low ? low : guess;
    if (guess < high && ts[guess] < edge) {
        for (low = guess + 1; high - low > step && ts[low + step] < edge; step *= 2) low += step + 1;
        if (high - low > step) high = low + step;
    } else {
        for (high = guess; high - low > step && ts[high - step] >= edge; step *= 2) high -= step;
        if (high - low > step) low = high - step + 1;
    }
    while (low < high) {
        middle = low + (high - low) / 2;
        if (ts[middle] < edge)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#if defined(__x86_64__)
MTA_WIDE static inline int64_t mta_count_before_wide(const int64_t *t, int64_t edge) {
    __m256i e = _mm256_set1_epi64x(edge);
    __m256i a = _mm256_cmpgt_epi64(e, _mm256_loadu_si256((const __m256i *)t));
    __m256i b = _mm256_cmpgt_epi64(e, _mm256_loadu_si256((const __m256i *)(t + 4)));
    return __builtin_popcount(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_packs_epi32(a, b))));
}
#endif

/* How many of the next MTA_AHEAD times are before the edge. */
MTA_INLINE int64_t mta_count_before(int wide, const int64_t *t, int64_t edge) {
#if defined(__x86_64__)
    if (wide) return mta_count_before_wide(t, edge);
#endif
    return (t[0] < edge) + (t[1] < edge) + (t[2] < edge) + (t[3] < edge) + (t[4] < edge) +
           (t[5] < edge) + (t[6] < edge) + (t[7] < edge);
}

/* Four parts of `part` rows side by side, whose fronts stand at front[0..4). */
MTA_INLINE void mta_fronts_of_parts(int wide, const int64_t *ts, const int64_t *t, int64_t part,
                                    int64_t span, int64_t *front, int64_t *out) {
    int64_t i, step, any;
    int k;
    for (i = 0; i < part; i++) {
        any = 0;
        for (k = 0; k < MTA_PARTS; k++) {
            step = mta_count_before(wide, ts + front[k], t[k * part + i] - span);
            any |= step;
            out[k * part + i] = front[k] += step;
        }
        if (any & MTA_AHEAD)
            for (k = 0; k < MTA_PARTS; k++) {
                while (ts[front[k]] < t[k * part + i] - span) front[k]++;
                out[k * part + i] = front[k];
            }
    }
}

/* out[i], for n rows whose edges t[i] - span never fall: the first place from f on whose time is not
   before the edge. None is beyond `high`, and ts[high + MTA_AHEAD - 1] exists. */
MTA_INLINE void mta_fronts_body(int wide, const int64_t *ts, int64_t f, int64_t high,
                                const int64_t *t, int64_t n, int64_t span, int64_t *out) {
    int64_t part = n / MTA_PARTS, front[MTA_PARTS], i, step;
    int k;
    if (part < MTA_LONG_PART) part = 0;
    if (part) {
        front[0] = f;
        for (k = 1; k < MTA_PARTS; k++)
            front[k] = mta_search(ts, front[k - 1], high, front[k - 1] + part, t[k * part] - span);
        mta_fronts_of_parts(wide, ts, t, part, span, front, out);
        f = front[MTA_PARTS - 1];
    }
    for (i = MTA_PARTS * part; i < n; i++) {
        do {
            step = mta_count_before(wide, ts + f, t[i] - span);
            f += step;
        } while (step == MTA_AHEAD);
        out[i] = f;
    }
}
MTA_TWICE(void, mta_fronts,
          (const int64_t *ts, int64_t f, int64_t high, const int64_t *t, int64_t n, int64_t span,
           int64_t *out),
          ts, f, high, t, n, span, out)

/* out[i] = i + by, for start <= i < stop. */
MTA_INLINE void mta_count_on_body(int wide, int64_t start, int64_t stop, int64_t by, int64_t *out) {
    int64_t i;
    for (i = start; i < stop; i++) out[i] = i + by;
}
MTA_TWICE(void, mta_count_on, (int64_t start, int64_t stop, int64_t by, int64_t *out), start, stop,
          by, out)

/* Whether two of n times that follow each other are equal. */
MTA_INLINE int mta_has_ties_body(int wide, const int64_t *ts, int64_t n) {
    int64_t i = 1, found = 0;
    mta_i4 any = {0, 0, 0, 0};
    for (; i + 4 <= n; i += 4) any |= MTA_I4_CONST(ts + i) == MTA_I4_CONST(ts + i - 1);
    for (; i < n; i++) found |= ts[i] == ts[i - 1];
    return mta_any(wide, &any) | (int)found;
}
MTA_TWICE(int, mta_has_ties, (const int64_t *ts, int64_t n), ts, n)

/* Whether one of n times is before the one above it. */
MTA_INLINE int mta_has_falls_body(int wide, const int64_t *ts, int64_t n) {
    int64_t i = 1, found = 0;
    mta_i4 any = {0, 0, 0, 0};
    for (; i + 4 <= n; i += 4) any |= MTA_I4_CONST(ts + i) < MTA_I4_CONST(ts + i - 1);
    for (; i < n; i++) found |= ts[i] < ts[i - 1];
    return mta_any(wide, &any) | (int)found;
}
MTA_TWICE(int, mta_has_falls, (const int64_t *ts, int64_t n), ts, n)

#endif
