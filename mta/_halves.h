/* Windows as two halves, once for every partial: include it with MTA_PART defined as the partial's
   name. It wants the type mta_PART, the type mta_PART_rows of what its rows are made from, and

   mta_PART_prepare(rows, r, lo, hi, backwards, one)
       one[j]: the partials of rows, as many as fit r's scale, from lo on (or, backwards, up to hi);
       r goes to a higher scale first if else there were none. Returns how many: at least 1.
   mta_PART_join(out, a, b)
       a and then b, both around the same value.

   No guard: it is meant to be included again. */
#define MTA_GLUE2(a, b, c) a##b##c
#define MTA_GLUE(a, b, c) MTA_GLUE2(a, b, c)
#define MTA_OF(verb) MTA_GLUE(MTA_GLUE(mta_, MTA_PART, _), verb, )
#define MTA_TYPE MTA_GLUE(mta_, MTA_PART, )

/* *r becomes rows [lo, hi) and then *r, row by row from the right. out[i], where there is an out,
   is that of [lo + i, hi). */
MTA_CLONES
static void MTA_OF(left)(const MTA_OF(rows) *rows, int64_t lo, int64_t hi, MTA_TYPE *r,
                         MTA_TYPE *out) {
    MTA_TYPE one[MTA_BLOCK], sum = *r, lent;
    int64_t from, n, j;
    while (hi > lo) {
        from = hi - lo > MTA_BLOCK ? hi - MTA_BLOCK : lo;
        lent = sum;
        n = MTA_OF(prepare)(rows, &lent, from, hi, 1, one);
        sum = lent;
        hi -= n;
        for (j = n - 1; j >= 0; j--) {
            MTA_OF(join)(&sum, &one[j], &sum);
            if (out) out[hi + j - lo] = sum;
        }
    }
    *r = sum;
}

/* n windows: the rows from `last` up to hi[i] join *r, and out[i] is suffix[lo[i]] and then *r. */
MTA_CLONES
static void MTA_OF(slide)(const MTA_OF(rows) *rows, const int64_t *lo, const int64_t *hi, int64_t n,
                          int64_t last, const MTA_TYPE *suffix, MTA_TYPE *r, MTA_TYPE *out) {
    MTA_TYPE one[MTA_BLOCK], sum = *r, lent;
    const int64_t end = hi[n - 1];
    int64_t i, ready = last, first = last;
    for (i = 0; i < n; i++) {
        while (last < hi[i]) {
            if (last == ready) {
                lent = sum;
                first = last;
                ready = last + MTA_OF(prepare)(
                    rows, &lent, last, end - last > MTA_BLOCK ? last + MTA_BLOCK : end, 0, one);
                sum = lent;
            }
            MTA_OF(join)(&sum, &sum, &one[last - first]);
            last++;
        }
        MTA_OF(join)(&out[i], &suffix[lo[i]], &sum);
    }
    *r = sum;
}

#undef MTA_GLUE2
#undef MTA_GLUE
#undef MTA_OF
#undef MTA_TYPE
#undef MTA_PART
