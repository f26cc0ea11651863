/* A counted B+-tree of keys: what holds the window when rows come a few at a time.

   A leaf holds up to 63 sorted keys, an inner node up to 63 children, with the greatest key and the
   number of keys of each. Inserting, erasing and selecting go down one path: O(log n), with no step
   that costs more. All arrays of keys are padded with the greatest key there is, so that a search is
   six steps without a branch or, with AVX2, a count of all that are less; and there a leaf is changed
   four keys at a time, without a search. Small windows are one leaf, a sorted array.

   When a block of ranks (`_ranks_block.h`) runs out of rows, the tree takes its bitmap over: a child
   may be a stretch of the bitmap that no row has entered or left since, told by its first rank (an
   odd "pointer"), and becomes a node when it is first needed. So a batch hands over to single rows
   without a step that copies the window. */
#ifndef MTA_RANKS_TREE_H
#define MTA_RANKS_TREE_H

#include "_ranks_block.h"

enum {
    MTA_FAN = 64,          /* one more than a node holds for good: it splits when it gets there */
    MTA_LOADED = 48,       /* how full nodes are made from a bitmap, and at most by merging */
    MTA_SPARSE = 16,       /* below this a node looks for a neighbour to merge with */
    MTA_HEIGHT = 16,
    MTA_SLAB = 4           /* nodes that are allocated at once */
};

typedef struct {
    int64_t n;
    int64_t low;              /* INT64_MIN, before the first key; and one to spare after the last */
    int64_t key[MTA_FAN + 1];
} mta_leaf;

typedef struct {
    int64_t n;
    int64_t most[MTA_FAN];    /* the greatest key of each child, exactly */
    int64_t count[MTA_FAN];   /* its keys */
    void *child[MTA_FAN];
} mta_inner;

/* Nodes of one size, in slabs; emptied in O(1). */
typedef struct {
    size_t size;
    void **slab;
    int64_t slabs, room;      /* allocated; `slab` has room for */
    int64_t used;             /* nodes ever given out since the last reset */
    void *spare;              /* those given back, linked by their first word */
} mta_pool;

typedef struct {
    void *root;               /* NULL: no keys */
    int height;               /* 0: the root is a leaf */
    int64_t size;
    mta_pool leaves, inners;
    const mta_block *block;   /* what the children point into that are not nodes yet */
    const mta_rows *rows;
} mta_tree;

/* ------------------------------------------------------------------------------ nodes */

static void *mta_pool_take(mta_pool *p) {
    void *node = p->spare;
    if (node) {
        p->spare = *(void **)node;
        return node;
    }
    if (p->used == p->slabs * MTA_SLAB) {
        if (p->slabs == p->room) {
            int64_t room = p->room ? 2 * p->room : 8;
            void **more = (void **)realloc(p->slab, (size_t)room * sizeof(void *));
            if (!more) return NULL;
            p->slab = more;
            p->room = room;
        }
        node = malloc(MTA_SLAB * p->size);
        if (!node) return NULL;
        p->slab[p->slabs++] = node;
    }
    node = (char *)p->slab[p->used / MTA_SLAB] + (size_t)(p->used % MTA_SLAB) * p->size;
    p->used++;
    return node;
}

MTA_INLINE void mta_pool_give(mta_pool *p, void *node) {
    *(void **)node = p->spare;
    p->spare = node;
}

static void mta_pool_release(mta_pool *p) {
    while (p->slabs) free(p->slab[--p->slabs]);
    free(p->slab);
    memset(p, 0, sizeof(*p));
}

static void mta_tree_reset(mta_tree *t) {
    t->root = NULL;
    t->height = 0;
    t->size = 0;
    t->leaves.size = sizeof(mta_leaf);
    t->inners.size = sizeof(mta_inner);
    t->leaves.used = t->inners.used = 0;
    t->leaves.spare = t->inners.spare = NULL;
}

static void mta_tree_release(mta_tree *t) {
    mta_pool_release(&t->leaves);
    mta_pool_release(&t->inners);
    t->root = NULL;
}

MTA_INLINE void mta_pad(int64_t *key, int64_t n) {
    for (; n < MTA_FAN; n++) key[n] = INT64_MAX;
}

static mta_leaf *mta_leaf_new(mta_tree *t, int64_t n) {
    mta_leaf *leaf = (mta_leaf *)mta_pool_take(&t->leaves);
    if (!leaf) return NULL;
    leaf->n = n;
    leaf->low = INT64_MIN;
    leaf->key[MTA_FAN] = INT64_MAX;
    mta_pad(leaf->key, n);
    return leaf;
}

/* How many of 63 sorted keys are less than k; with `equal`, less or equal. */
MTA_INLINE int64_t mta_below(const int64_t *key, int64_t k, const int equal, const int fast) {
    const int64_t *at = key;
    int64_t n = 0, step;
    if (fast) {
        for (step = 0; step < MTA_FAN; step++) n += equal ? key[step] <= k : key[step] < k;
        return n;
    }
    for (step = MTA_FAN / 2; step; step >>= 1)
        at += -(int64_t)(equal ? at[step - 1] <= k : at[step - 1] < k) & step;
    return at - key;
}

/* The child where k goes: to the right of all keys equal to it. */
MTA_INLINE int mta_child_for(const mta_inner *node, int64_t k, const int fast) {
    int64_t i = mta_below(node->most, k, 1, fast);
    return (int)(i < node->n ? i : node->n - 1);
}

MTA_INLINE int64_t mta_most_of(const void *node, int height) {
    if (height) return ((const mta_inner *)node)->most[((const mta_inner *)node)->n - 1];
    return ((const mta_leaf *)node)->key[((const mta_leaf *)node)->n - 1];
}

/* ---------------------------------------------------------- stretches of a block's bitmap */

/* The rows of a stretch are all inside still, so their values are at hand. For of equal keys the one
   inserted last is the rightmost, as in the order of ranks, and the leftmost is erased: that is the
   row which leaves, and if it is in a stretch, the stretch becomes nodes. */


#define MTA_IS_NODE(child) (!((uintptr_t)(child) & 1))
#define MTA_STRETCH_AT(rank) ((void *)(((uintptr_t)(rank) << 1) | 1))

MTA_INLINE int64_t mta_tree_key(const mta_tree *t, int64_t rank) {
    return mta_rank_key(mta_block_cell(t->block, t->rows, rank), t->rows->source);
}

/* The rank that is n set bits after this one. */
static int64_t mta_rank_skip(const mta_block *b, int64_t rank, int64_t n) {
    const uint64_t *bits = b->bits[0];
    int64_t word = rank >> 6;
    uint64_t rest = bits[word] >> (rank & 63) << (rank & 63);
    int set;
    while ((set = mta_popcount(rest, 0)) <= n) {
        n -= set;
        rest = bits[++word];
    }
    return word * 64 + mta_select_bit(rest, (int)n, 0);
}

static mta_leaf *mta_leaf_of_stretch(mta_tree *t, int64_t rank, int64_t n) {
    mta_leaf *leaf = mta_leaf_new(t, n);
    int64_t i;
    if (!leaf) return NULL;
    for (i = 0; i < n; i++) {
        leaf->key[i] = mta_tree_key(t, rank);
        if (i + 1 < n) rank = mta_rank_after(t->block, rank);
    }
    return leaf;
}

/* A node of so many keys of the bitmap, from this rank on; its children are stretches. */
static void *mta_node_of_stretch(mta_tree *t, int64_t rank, int64_t n, int height) {
    int64_t each = MTA_LOADED, i, children;
    mta_inner *node;
    if (!height) return mta_leaf_of_stretch(t, rank, n);
    for (i = 1; i < height; i++) each *= MTA_LOADED;
    children = (n + each - 1) / each;
    node = (mta_inner *)mta_pool_take(&t->inners);
    if (!node) return NULL;
    for (i = 0; i < children; i++) {
        node->count[i] = n * (i + 1) / children - n * i / children;
        node->child[i] = MTA_STRETCH_AT(rank);
        rank = mta_rank_skip(t->block, rank, node->count[i] - 1);
        node->most[i] = mta_tree_key(t, rank);
        if (i + 1 < children) rank = mta_rank_after(t->block, rank);
    }
    node->n = children;
    mta_pad(node->most, children);
    return node;
}

/* The child as a node; NULL: no memory. */
MTA_INLINE void *mta_tree_child(mta_tree *t, mta_inner *node, int i, int height) {
    void *child = node->child[i];
    if (MTA_IS_NODE(child)) return child;
    child = mta_node_of_stretch(t, (int64_t)((uintptr_t)child >> 1), node->count[i], height);
    if (child) node->child[i] = child;
    return child;
}

/* Take over the n > 0 keys of the block's bitmap, which must not change from now on. */
static int mta_tree_take(mta_tree *t, int64_t n) {
    int64_t all = MTA_LOADED;
    mta_tree_reset(t);
    while (all < n) {
        all *= MTA_LOADED;
        t->height++;
    }
    t->root = mta_node_of_stretch(t, mta_rank_skip(t->block, 0, 0), n, t->height);
    t->size = n;
    return t->root ? 0 : -1;
}

/* ------------------------------------------------------------------------ insert, erase */

typedef struct {
    mta_inner *node[MTA_HEIGHT];
    int at[MTA_HEIGHT];
} mta_path;

/* The leaf where k goes (change 1) or is (-1), counting it in or out on the way. NULL: no memory. */
MTA_INLINE mta_leaf *mta_tree_descend(mta_tree *t, int64_t k, const int change, mta_path *path,
                                      const int fast) {
    void *node = t->root;
    int h, i;
    for (h = t->height; h; h--) {
        mta_inner *inner = (mta_inner *)node;
        i = change > 0 ? mta_child_for(inner, k, fast) : (int)mta_below(inner->most, k, 0, fast);
        path->node[h] = inner;
        path->at[h] = i;
        node = mta_tree_child(t, inner, i, h - 1);
        if (!node) return NULL;
        inner->count[i] += change;
        if (k > inner->most[i]) inner->most[i] = k;
    }
    return (mta_leaf *)node;
}

MTA_INLINE void mta_inner_move(mta_inner *to, int64_t place, const mta_inner *from, int64_t start,
                               int64_t n) {
    memmove(to->most + place, from->most + start, (size_t)n * sizeof(int64_t));
    memmove(to->count + place, from->count + start, (size_t)n * sizeof(int64_t));
    memmove(to->child + place, from->child + start, (size_t)n * sizeof(void *));
}

static int mta_grow_root(mta_tree *t, void *right, int64_t count) {
    mta_inner *root = (mta_inner *)mta_pool_take(&t->inners);
    if (!root) return -1;
    root->n = 2;
    root->most[0] = mta_most_of(t->root, t->height);
    root->count[0] = t->size - count;
    root->child[0] = t->root;
    root->most[1] = mta_most_of(right, t->height);
    root->count[1] = count;
    root->child[1] = right;
    mta_pad(root->most, 2);
    t->root = root;
    t->height++;
    return 0;
}

static mta_inner *mta_inner_half(mta_tree *t, mta_inner *node, int64_t *count) {
    mta_inner *right = (mta_inner *)mta_pool_take(&t->inners);
    int64_t i;
    if (!right) return NULL;
    right->n = MTA_FAN / 2;
    node->n -= right->n;
    mta_inner_move(right, 0, node, node->n, right->n);
    mta_pad(right->most, right->n);
    mta_pad(node->most, node->n);
    for (*count = i = 0; i < right->n; i++) *count += right->count[i];
    return right;
}

static mta_leaf *mta_leaf_half(mta_tree *t, mta_leaf *leaf) {
    mta_leaf *right = mta_leaf_new(t, MTA_FAN / 2);
    if (!right) return NULL;
    leaf->n -= right->n;
    memcpy(right->key, leaf->key + leaf->n, (size_t)right->n * sizeof(int64_t));
    mta_pad(leaf->key, leaf->n);
    return right;
}

/* The leaf at the end of the path is full: halve it, and every node above that this fills. */
static int mta_tree_split(mta_tree *t, mta_leaf *leaf, const mta_path *path) {
    void *right = mta_leaf_half(t, leaf);
    int64_t count = MTA_FAN / 2;
    int h;
    for (h = 1; right && h <= t->height; h++) {
        mta_inner *node = path->node[h];
        int i = path->at[h];
        node->most[i] = mta_most_of(node->child[i], h - 1);
        mta_inner_move(node, i + 2, node, i + 1, node->n - i - 1);
        node->count[i] -= count;
        node->most[i + 1] = mta_most_of(right, h - 1);
        node->count[i + 1] = count;
        node->child[i + 1] = right;
        if (++node->n < MTA_FAN) return 0;
        right = mta_inner_half(t, node, &count);
    }
    return right ? mta_grow_root(t, right, count) : -1;
}

/* key[i] = the middle one of key[i - 1], k and key[i], from the back. */
MTA_INLINE void mta_leaf_open(mta_leaf *leaf, int64_t k) {
    const mta_i4 x = {k, k, k, k};
    int64_t i;
    for (i = leaf->n & ~(int64_t)3; i >= 0; i -= 4) {
        mta_i4 a = MTA_I4(leaf->key + i - 1), b = MTA_I4(leaf->key + i), less = a < x;
        a = (x & less) | (a & ~less);
        less = a < b;
        MTA_I4(leaf->key + i) = (a & less) | (b & ~less);
    }
}

/* From the first key that is not less than k on, the next one. */
MTA_INLINE void mta_leaf_close(mta_leaf *leaf, int64_t k) {
    const mta_i4 x = {k, k, k, k};
    int64_t i;
    for (i = 0; i < leaf->n; i += 4) {
        mta_i4 a = MTA_I4(leaf->key + i), b = MTA_I4(leaf->key + i + 1), less = a < x;
        MTA_I4(leaf->key + i) = (a & less) | (b & ~less);
    }
}

MTA_INLINE void mta_leaf_insert(mta_leaf *leaf, int64_t k, const int fast) {
    if (fast) {
        mta_leaf_open(leaf, k);
    } else {
        int64_t at = mta_below(leaf->key, k, 0, 0);
        memmove(leaf->key + at + 1, leaf->key + at, (size_t)(leaf->n - at) * sizeof(int64_t));
        leaf->key[at] = k;
    }
    leaf->n++;
}

MTA_INLINE void mta_leaf_erase(mta_leaf *leaf, int64_t k, const int fast) {
    if (fast) {
        mta_leaf_close(leaf, k);
        leaf->n--;
    } else {
        int64_t at = mta_below(leaf->key, k, 0, 0);
        leaf->n--;
        memmove(leaf->key + at, leaf->key + at + 1, (size_t)(leaf->n - at) * sizeof(int64_t));
        leaf->key[leaf->n] = INT64_MAX;
    }
}

/* -1: no memory. */
MTA_INLINE int mta_tree_insert(mta_tree *t, int64_t k, const int fast) {
    mta_path path;
    mta_leaf *leaf;
    if (!t->root) t->root = mta_leaf_new(t, 0);
    if (!t->root) return -1;
    leaf = mta_tree_descend(t, k, 1, &path, fast);
    if (!leaf) return -1;
    t->size++;
    mta_leaf_insert(leaf, k, fast);
    return leaf->n < MTA_FAN ? 0 : mta_tree_split(t, leaf, &path);
}

MTA_INLINE int64_t mta_node_size(const void *node) {
    return *(const int64_t *)node;
}

static void mta_drop_child(mta_tree *t, mta_inner *node, int i, int height) {
    mta_pool_give(height ? &t->inners : &t->leaves, node->child[i]);
    node->n--;
    mta_inner_move(node, i, node, i + 1, node->n - i);
    node->most[node->n] = INT64_MAX;
}

/* Move all of child i + 1 to the end of child i, where both are nodes and there is ample room. */
static int mta_merge(mta_tree *t, mta_inner *node, int i, int height) {
    void *left = node->child[i], *right;
    if (i + 1 >= node->n) return 0;
    right = node->child[i + 1];
    if (!MTA_IS_NODE(left) || !MTA_IS_NODE(right)) return 0;
    if (mta_node_size(left) + mta_node_size(right) > MTA_LOADED) return 0;
    if (height) {
        mta_inner *a = (mta_inner *)left, *b = (mta_inner *)right;
        mta_inner_move(a, a->n, b, 0, b->n);
        a->n += b->n;
    } else {
        mta_leaf *a = (mta_leaf *)left, *b = (mta_leaf *)right;
        memcpy(a->key + a->n, b->key, (size_t)b->n * sizeof(int64_t));
        a->n += b->n;
    }
    node->count[i] += node->count[i + 1];
    node->most[i] = node->most[i + 1];
    mta_drop_child(t, node, i + 1, height);
    return 1;
}

/* A root with one child gives way to it. -1: no memory. */
static int mta_lower_root(mta_tree *t) {
    while (t->height && mta_node_size(t->root) == 1) {
        mta_inner *root = (mta_inner *)t->root;
        void *child = mta_tree_child(t, root, 0, t->height - 1);
        if (!child) return -1;
        mta_pool_give(&t->inners, root);
        t->root = child;
        t->height--;
    }
    return 0;
}

/* A leaf at the end of the path has lost a key: mend the nodes above. */
static int mta_tree_mend(mta_tree *t, int64_t left, const mta_path *path) {
    int h, i;
    for (h = 1; h <= t->height; h++) {
        mta_inner *node = path->node[h];
        i = path->at[h];
        if (!left) {
            mta_drop_child(t, node, i, h - 1);
        } else {
            node->most[i] = mta_most_of(node->child[i], h - 1);
            if (left < MTA_SPARSE && !mta_merge(t, node, i, h - 1) && i)
                mta_merge(t, node, i - 1, h - 1);
        }
        left = node->n;
    }
    return mta_lower_root(t);
}

/* Take out one key, which must be there. -1: no memory (a stretch had to become nodes). */
MTA_INLINE int mta_tree_erase(mta_tree *t, int64_t k, const int fast) {
    mta_path path;
    mta_leaf *leaf = mta_tree_descend(t, k, -1, &path, fast);
    if (!leaf) return -1;
    if (!--t->size) {
        mta_tree_reset(t);
        return 0;
    }
    mta_leaf_erase(leaf, k, fast);
    return t->height ? mta_tree_mend(t, leaf->n, &path) : 0;
}

/* -------------------------------------------------------------------------- answers */

/* The k-th key from 0, and the one after it (the same if `pair` is false). -1: no memory. */
static int mta_tree_select(mta_tree *t, int64_t k, int pair, int64_t *first, int64_t *second) {
    void *node = t->root;
    const mta_leaf *leaf;
    int64_t rest = k;
    int h, i;
    for (h = t->height; h; h--) {
        mta_inner *inner = (mta_inner *)node;
        for (i = 0; rest >= inner->count[i]; i++) rest -= inner->count[i];
        node = mta_tree_child(t, inner, i, h - 1);
        if (!node) return -1;
    }
    leaf = (const mta_leaf *)node;
    *first = *second = leaf->key[rest];
    if (!pair) return 0;
    if (rest + 1 == leaf->n) return mta_tree_select(t, k + 1, 0, second, second);
    *second = leaf->key[rest + 1];
    return 0;
}

/* The greatest n keys below a node, as cells, greatest first; returns how many there were, at most n.
   -1: no memory. */
static int64_t mta_tree_top(mta_tree *t, void *node, int height, int64_t n, int64_t *out) {
    int64_t done = 0, more, i = mta_node_size(node);
    if (!height) {
        const mta_leaf *leaf = (const mta_leaf *)node;
        while (done < n && i) out[done++] = mta_rank_cell(leaf->key[--i], t->rows->source);
        return done;
    }
    while (done < n && i) {
        void *child = mta_tree_child(t, (mta_inner *)node, (int)--i, height - 1);
        more = child ? mta_tree_top(t, child, height - 1, n - done, out + done) : -1;
        if (more < 0) return -1;
        done += more;
    }
    return done;
}

#endif
