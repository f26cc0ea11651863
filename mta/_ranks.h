/* A window of order statistics: rows enter and leave a block of ranks or a tree, and every window is
   asked for the values at some positions, and for the greatest few. */
#ifndef MTA_RANKS_H
#define MTA_RANKS_H

#include "_ranks_tree.h"

enum { MTA_LINEAR, MTA_LOWER, MTA_HIGHER, MTA_MIDPOINT, MTA_NEAREST };

/* What a quantile is made of: the values (cells) at one position and at the next, and how far between
   them it lies. */
typedef struct {
    int64_t first, second;
    double between;
} mta_spot;

typedef struct {
    double q;
    int interpolation;
    int64_t n;            /* of so many values */
    int64_t position;     /* this one is asked for, */
    int pair;             /* and the next one if they differ in the answer, */
    double between;       /* so far apart */
    mta_spot *spots;      /* of the windows asked for, in order */
} mta_quantile;

typedef struct {
    int64_t k;
    int64_t *length;      /* by window number */
    int64_t *items;       /* where the next list goes: there is room */
} mta_top;

typedef struct {
    int64_t first, last;  /* its rows */
    int64_t n, nans;      /* those not null, and those NaN */
} mta_window;

typedef struct {
    mta_rows rows;
    mta_block block;
    mta_tree tree;
    mta_window window;
    int ranked;           /* the window is in the block, else in the tree */
    int fast;             /* with PDEP */
    int nan_wins;         /* a quantile of a window with a NaN is NaN */
    int64_t missing;      /* the answer to nothing, a cell */
    int quantiles, tops;
    mta_quantile *quantile;
    mta_cursor *cursor;   /* per quantile, in the block */
    mta_top *top;
} mta_ranks;

/* Where the quantile of n > 0 values lies: at q (n - 1), counted from 0, as in NumPy. */
static void mta_place(mta_quantile *q, int64_t n) {
    double at = q->q * (double)(n - 1);
    int64_t floor = (int64_t)at;
    double rest = at - (double)floor;
    int how = q->interpolation;
    q->n = n;
    if (how == MTA_HIGHER) floor += rest > 0.0;
    if (how == MTA_NEAREST) floor += rest > 0.5 || (rest == 0.5 && (floor & 1));
    if (how == MTA_MIDPOINT && rest > 0.0) rest = 0.5;
    q->position = floor < n ? floor : n - 1;
    q->pair = (how == MTA_LINEAR || how == MTA_MIDPOINT) && rest > 0.0 && floor + 1 < n;
    q->between = q->pair ? rest : 0.0;
}

/* ------------------------------------------------------------------ rows come and go */

/* What changes with every row is passed on its own: the loops below keep it in registers. */
typedef struct {
    mta_window window;
    mta_cursor *cursor;
    int cursors;
} mta_moving;

MTA_INLINE void mta_block_change(mta_block *b, mta_moving *m, int64_t row, const int change) {
    int64_t rank = b->rank[row - b->base];
    int i;
    if (rank == MTA_NO_RANK) return;
    if (change > 0)
        mta_block_set(b, rank);
    else
        mta_block_clear(b, rank);
    m->window.n += change;
    m->window.nans += rank >= b->nan_from ? change : 0;
    for (i = 0; i < m->cursors; i++)
        m->cursor[i].below += rank >> 6 < m->cursor[i].word ? change : 0;
}

MTA_INLINE int mta_tree_change(mta_ranks *s, mta_moving *m, int64_t row, const int change) {
    int64_t key;
    if (mta_is_null(&s->rows, row)) return 0;
    key = mta_rank_key(s->rows.values[row], s->rows.source);
    m->window.n += change;
    m->window.nans += s->rows.source == MTA_RANK_FLOAT && key == INT64_MAX ? change : 0;
    return change > 0 ? mta_tree_insert(&s->tree, key) : mta_tree_erase(&s->tree, key);
}

/* No row is inside. */
static void mta_ranks_clear(mta_ranks *s) {
    mta_moving m = {s->window, s->cursor, s->quantiles};
    int i;
    if (s->ranked && m.window.n > s->block.words) {
        memset(s->block.bits[0], 0, (size_t)s->block.words * sizeof(uint64_t));
        for (i = 0; i < s->quantiles; i++) s->cursor[i].below = 0;
    } else if (s->ranked) {
        for (; m.window.first < m.window.last; m.window.first++)
            mta_block_change(&s->block, &m, m.window.first, -1);
    } else {
        mta_tree_reset(&s->tree);
    }
    s->window.first = s->window.last;
    s->window.n = s->window.nans = 0;
}

/* Make the window [lo, hi). -1: no memory. */
MTA_INLINE int mta_ranks_move(mta_ranks *s, mta_moving *m, int64_t lo, int64_t hi, const int ranked) {
    int64_t row = m->window.first, last = m->window.last;
    for (; row < lo; row++) {
        if (ranked) mta_block_change(&s->block, m, row, -1);
        else if (mta_tree_change(s, m, row, -1) < 0) return -1;
    }
    m->window.first = lo;
    for (row = last; row < hi; row++) {
        if (ranked) mta_block_change(&s->block, m, row, 1);
        else if (mta_tree_change(s, m, row, 1) < 0) return -1;
    }
    m->window.last = hi;
    return 0;
}

/* -------------------------------------------------------------------------- answers */

MTA_INLINE int mta_find(mta_ranks *s, mta_quantile *q, mta_cursor *cursor, mta_spot *spot,
                        const int ranked, const int fast) {
    int64_t rank;
    spot->between = q->between;
    if (!ranked) {
        if (mta_tree_select(&s->tree, q->position, q->pair, &spot->first, &spot->second) < 0)
            return -1;
        spot->first = mta_rank_cell(spot->first, s->rows.source);
        spot->second = mta_rank_cell(spot->second, s->rows.source);
        return 0;
    }
    rank = mta_cursor_seek(&s->block, cursor, q->position, fast);
    rank += cursor->word * 64;
    spot->first = spot->second = mta_block_cell(&s->block, &s->rows, rank);
    if (q->pair)
        spot->second = mta_block_cell(&s->block, &s->rows, mta_rank_after(&s->block, rank));
    return 0;
}

MTA_INLINE int mta_find_all(mta_ranks *s, mta_moving *m, int64_t at, const int ranked,
                            const int fast) {
    int none = m->window.n == 0 || (s->nan_wins && m->window.nans), i;
    for (i = 0; i < m->cursors; i++) {
        mta_quantile *q = &s->quantile[i];
        if (none) {
            q->spots[at].first = q->spots[at].second = s->missing;
            q->spots[at].between = 0.0;
            continue;
        }
        if (q->n != m->window.n) mta_place(q, m->window.n);
        if (mta_find(s, q, &m->cursor[i], &q->spots[at], ranked, fast) < 0) return -1;
    }
    return 0;
}

static int mta_list(mta_ranks *s, mta_top *top, int64_t window, int64_t n) {
    n = top->k < n ? top->k : n;
    if (s->ranked)
        mta_block_top(&s->block, &s->rows, n, top->items);
    else if (n && mta_tree_top(&s->tree, s->tree.root, s->tree.height, n, top->items) < 0)
        return -1;
    top->length[window] = n;
    top->items += n;
    return 0;
}

/* Windows [start, stop), whose edges are addressed by window number; the spots of window w are those
   at w - origin. -1: no memory. */
MTA_INLINE int mta_slide_with(mta_ranks *s, int64_t start, int64_t stop, const int64_t *lo,
                              const int64_t *hi, int64_t origin, const int ranked, const int fast,
                              const int single) {
    mta_cursor only = s->cursor[0];
    mta_moving m = {s->window, single ? &only : s->cursor, single ? 1 : s->quantiles};
    int64_t w;
    int i;
    for (w = start; w < stop; w++) {
        if (lo[w] >= m.window.last) {
            s->window = m.window;
            mta_ranks_clear(s);
            m.window = s->window;
            m.window.first = m.window.last = lo[w];
            only.below = 0;
        }
        if (mta_ranks_move(s, &m, lo[w], hi[w], ranked) < 0) return -1;
        if (mta_find_all(s, &m, w - origin, ranked, fast) < 0) return -1;
        for (i = 0; i < s->tops; i++)
            if (mta_list(s, &s->top[i], w, m.window.n) < 0) return -1;
    }
    if (single) s->cursor[0] = only;
    s->window = m.window;
    return 0;
}

/* The first three are compiled apart so that every condition on how it is done is a constant. */
MTA_PDEP_TARGET static int mta_slide_pdep(mta_ranks *s, int64_t start, int64_t stop,
                                          const int64_t *lo, const int64_t *hi, int64_t origin) {
    if (s->quantiles == 1) return mta_slide_with(s, start, stop, lo, hi, origin, 1, 1, 1);
    return mta_slide_with(s, start, stop, lo, hi, origin, 1, 1, 0);
}

static int mta_slide_block(mta_ranks *s, int64_t start, int64_t stop, const int64_t *lo,
                           const int64_t *hi, int64_t origin) {
    return mta_slide_with(s, start, stop, lo, hi, origin, 1, 0, 0);
}

static int mta_slide_tree(mta_ranks *s, int64_t start, int64_t stop, const int64_t *lo,
                          const int64_t *hi, int64_t origin) {
    return mta_slide_with(s, start, stop, lo, hi, origin, 0, 0, 0);
}

static int mta_ranks_slide(mta_ranks *s, int64_t start, int64_t stop, const int64_t *lo,
                           const int64_t *hi, int64_t origin) {
    if (!s->ranked) return mta_slide_tree(s, start, stop, lo, hi, origin);
    if (!s->fast) return mta_slide_block(s, start, stop, lo, hi, origin);
    return mta_slide_pdep(s, start, stop, lo, hi, origin);
}

/* ------------------------------------------------------------- from one to the other */

/* Rank the rows [from, to) and let the window go on in that block, empty at first. -1: no memory. */
static int mta_ranks_to_block(mta_ranks *s, int64_t from, int64_t to) {
    int i;
    mta_tree_reset(&s->tree);
    s->ranked = 0;
    s->window.first = s->window.last = from;
    s->window.n = s->window.nans = 0;
    if (mta_block_build(&s->block, &s->rows, from, to) < 0) return -1;
    s->ranked = 1;
    for (i = 0; i < s->quantiles; i++) {
        s->cursor[i].word = (int64_t)(s->quantile[i].q * (double)(s->block.size >> 6));
        s->cursor[i].below = 0;
    }
    return 0;
}

/* Let the window go on in the tree. -1: no memory. */
static int mta_ranks_to_tree(mta_ranks *s) {
    s->ranked = 0;
    if (s->window.n) return mta_tree_take(&s->tree, s->window.n);
    mta_tree_reset(&s->tree);
    return 0;
}

/* `s` is all zeros, and stays where it is. */
static void mta_ranks_init(mta_ranks *s) {
    s->tree.block = &s->block;
    s->tree.rows = &s->rows;
    s->fast = mta_has_pdep();
    mta_tree_reset(&s->tree);
}

static void mta_ranks_release(mta_ranks *s) {
    mta_block_release(&s->block);
    mta_tree_release(&s->tree);
    free(s->quantile);
    free(s->cursor);
    free(s->top);
}

#endif
