/* A window of order statistics: rows enter and leave a block of ranks or a tree, and every window is
   asked for the values at some positions, and for the greatest few. */
#ifndef MTA_RANKS_H
#define MTA_RANKS_H

#include "_ranks_lower.h"
#include "_ranks_tree.h"

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
    int fast;             /* with AVX2 and PDEP */
    int nan_wins;         /* a quantile of a window with a NaN is NaN */
    int64_t missing;      /* the answer to nothing, a cell */
    int quantiles, tops;
    mta_quantile *quantile;
    mta_cursor *cursor;   /* per quantile, in the block */
    mta_top *top;
} mta_ranks;

/* ------------------------------------------------------------------ rows come and go */

/* What changes with every row is passed on its own: the loops below keep it in registers. */
typedef struct {
    mta_window window;
    mta_cursor *cursor;
    int cursors;
    uint64_t *bits, *above;  /* of the block */
    const uint32_t *rank, *order;
    const int64_t *values;   /* of the rows from `base` on */
    int64_t base, nan_from;
} mta_moving;

MTA_INLINE mta_moving mta_moving_of(const mta_ranks *s, mta_cursor *cursor, int cursors) {
    const mta_block *b = &s->block;
    mta_moving m = {s->window, cursor, cursors, b->bits[0], b->bits[1], b->rank, b->order,
                    s->rows.values + b->base, b->base, b->nan_from};
    return m;
}

MTA_INLINE void mta_block_change(mta_block *b, mta_moving *m, int64_t row, const int change,
                                 const int plain) {
    int64_t rank = m->rank[row - m->base];
    int i;
    if (!plain && rank == MTA_NO_RANK) return;
    if (change > 0)
        mta_block_set(b, m->bits, m->above, rank);
    else
        mta_block_clear(b, m->bits, m->above, rank);
    if (!plain) {
        m->window.n += change;
        m->window.nans += rank >= m->nan_from ? change : 0;
    }
    for (i = 0; i < m->cursors; i++)
        m->cursor[i].below += rank >> 6 < m->cursor[i].word ? change : 0;
}

MTA_INLINE int mta_tree_change(mta_ranks *s, mta_moving *m, int64_t row, const int change,
                               const int fast) {
    int64_t key;
    if (mta_is_null(&s->rows, row)) return 0;
    key = mta_rank_key(s->rows.values[row], s->rows.source);
    m->window.n += change;
    m->window.nans += s->rows.source == MTA_RANK_FLOAT && key == INT64_MAX ? change : 0;
    return change > 0 ? mta_tree_insert(&s->tree, key, fast) : mta_tree_erase(&s->tree, key, fast);
}

/* No row is inside. */
static void mta_ranks_clear(mta_ranks *s) {
    mta_moving m = mta_moving_of(s, s->cursor, s->quantiles);
    int i;
    if (s->ranked && m.window.n > s->block.words) {
        memset(s->block.bits[0], 0, (size_t)s->block.words * sizeof(uint64_t));
        for (i = 0; i < s->quantiles; i++) s->cursor[i].below = 0;
    } else if (s->ranked) {
        for (; m.window.first < m.window.last; m.window.first++)
            mta_block_change(&s->block, &m, m.window.first, -1, 0);
    } else {
        mta_tree_reset(&s->tree);
    }
    s->window.first = s->window.last;
    s->window.n = s->window.nans = 0;
}

/* How a run of windows is answered, in constants. */
typedef struct {
    int ranked;   /* in the block, else in the tree */
    int fast;     /* with AVX2 and PDEP */
    int plain;    /* a block without nulls or NaN */
    int single;   /* one quantile */
} mta_how;

/* Make the window [lo, hi). -1: no memory. */
MTA_INLINE int mta_ranks_move(mta_ranks *s, mta_moving *m, int64_t lo, int64_t hi,
                              const mta_how how) {
    int64_t row;
    for (row = m->window.first; row < lo; row++) {
        if (how.ranked) mta_block_change(&s->block, m, row, -1, how.plain);
        else if (mta_tree_change(s, m, row, -1, how.fast) < 0) return -1;
    }
    m->window.first = lo;
    for (row = m->window.last; row < hi; row++) {
        if (how.ranked) mta_block_change(&s->block, m, row, 1, how.plain);
        else if (mta_tree_change(s, m, row, 1, how.fast) < 0) return -1;
    }
    m->window.last = hi;
    if (how.plain) m->window.n = hi - lo;
    return 0;
}

/* -------------------------------------------------------------------------- answers */

MTA_INLINE int64_t mta_cell_at(const mta_moving *m, int64_t rank, const int plain) {
    return plain || rank < m->nan_from ? m->values[m->order[rank]] : MTA_NAN_BITS;
}

MTA_INLINE void mta_find_in_block(mta_ranks *s, mta_moving *m, mta_quantile *q, mta_cursor *cursor,
                                  int64_t at, const mta_how how) {
    int64_t rank = mta_cursor_seek(&s->block, m->bits, cursor, q->position, how.fast);
    q->first[at] = mta_cell_at(m, rank, how.plain);
    if (q->pair) rank = mta_rank_after(&s->block, rank);
    q->second[at] = mta_cell_at(m, rank, how.plain);
}

static int mta_find_in_tree(mta_ranks *s, mta_quantile *q, int64_t at) {
    int64_t first, second;
    if (mta_tree_select(&s->tree, q->position, q->pair, &first, &second) < 0) return -1;
    q->first[at] = mta_rank_cell(first, s->rows.source);
    q->second[at] = mta_rank_cell(second, s->rows.source);
    return 0;
}

MTA_INLINE int mta_find_all(mta_ranks *s, mta_moving *m, int64_t at, const mta_how how) {
    int none = m->window.n == 0 || (!how.plain && s->nan_wins && m->window.nans), i;
    for (i = 0; i < m->cursors; i++) {
        mta_quantile *q = &s->quantile[i];
        if (none) {
            q->first[at] = q->second[at] = s->missing;
            q->share[at] = 0.0;
            continue;
        }
        if (q->n != m->window.n) mta_place(q, m->window.n);
        q->share[at] = q->between;
        if (how.ranked)
            mta_find_in_block(s, m, q, &m->cursor[i], at, how);
        else if (mta_find_in_tree(s, q, at) < 0)
            return -1;
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
                              const int64_t *hi, int64_t origin, const mta_how how) {
    mta_cursor only = s->cursor[0];
    mta_moving m = mta_moving_of(s, how.single ? &only : s->cursor, how.single ? 1 : s->quantiles);
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
        if (mta_ranks_move(s, &m, lo[w], hi[w], how) < 0) return -1;
        if (mta_find_all(s, &m, w - origin, how) < 0) return -1;
        for (i = 0; i < s->tops; i++)
            if (mta_list(s, &s->top[i], w, m.window.n) < 0) return -1;
    }
    if (how.single) s->cursor[0] = only;
    s->window = m.window;
    return 0;
}

/* The loop, compiled once for each way that is worth it. */
MTA_INLINE int mta_slide_either(mta_ranks *s, int64_t start, int64_t stop, const int64_t *lo,
                                const int64_t *hi, int64_t origin, const int fast) {
    const mta_how plain = {1, fast, 1, 1}, block = {1, fast, 0, 0}, tree = {0, fast, 0, 0};
    if (!s->ranked) return mta_slide_with(s, start, stop, lo, hi, origin, tree);
    if (s->block.plain && s->quantiles == 1)
        return mta_slide_with(s, start, stop, lo, hi, origin, plain);
    return mta_slide_with(s, start, stop, lo, hi, origin, block);
}

MTA_FAST_TARGET static int mta_slide_fast(mta_ranks *s, int64_t start, int64_t stop,
                                          const int64_t *lo, const int64_t *hi, int64_t origin) {
    return mta_slide_either(s, start, stop, lo, hi, origin, 1);
}

static int mta_slide_anywhere(mta_ranks *s, int64_t start, int64_t stop, const int64_t *lo,
                              const int64_t *hi, int64_t origin) {
    return mta_slide_either(s, start, stop, lo, hi, origin, 0);
}

static int mta_ranks_slide(mta_ranks *s, int64_t start, int64_t stop, const int64_t *lo,
                           const int64_t *hi, int64_t origin) {
    return s->fast ? mta_slide_fast(s, start, stop, lo, hi, origin)
                   : mta_slide_anywhere(s, start, stop, lo, hi, origin);
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

/* Let the window go on in the tree, from row lo on. -1: no memory. */
static int mta_ranks_to_tree(mta_ranks *s, int64_t lo) {
    mta_moving m = mta_moving_of(s, s->cursor, s->quantiles);
    for (; m.window.first < m.window.last && m.window.first < lo; m.window.first++)
        mta_block_change(&s->block, &m, m.window.first, -1, 0);
    s->window = m.window;
    s->ranked = 0;
    if (s->window.n) return mta_tree_take(&s->tree, s->window.n);
    mta_tree_reset(&s->tree);
    return 0;
}

/* `s` is all zeros, and stays where it is. */
static void mta_ranks_init(mta_ranks *s) {
    s->tree.block = &s->block;
    s->tree.rows = &s->rows;
    s->fast = mta_is_fast();
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
