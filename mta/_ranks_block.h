/* A block of rows known in advance: every row has a rank, and a bitmap over the ranks says which rows
   are inside the window.

   Entering and leaving flip a bit. The k-th value is found by a cursor that stands at a word of the
   bitmap and knows how many bits are set before it: from one window to the next the answer moves by
   about as many set bits as rows came and went, so it mostly stays in the word, and the place there
   is one instruction (PDEP). Bitmaps over the words that are not empty, 64-ary levels of them, take
   the cursor over gaps of any length in O(log rows): it is a van Emde Boas tree's cousin, as in Knuth,
   TAOCP 4A, 7.1.3. */
#ifndef MTA_RANKS_BLOCK_H
#define MTA_RANKS_BLOCK_H

#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "_ranks_sort.h"

/* What is worth it with AVX2 and PDEP is compiled a second time, as `fast`. Some processors have PDEP
   in microcode, at tens of cycles; they are not counted in. */
#if defined(__x86_64__) && defined(__GNUC__)
#define MTA_FAST_TARGET __attribute__((target("avx2,popcnt,bmi,bmi2")))
static int mta_is_fast(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2") &&
           !__builtin_cpu_is("bdver4");
}
/* Not the intrinsic: that could not stand in a function which is inlined into either build. */
MTA_INLINE uint64_t mta_pdep(uint64_t bits, uint64_t mask) {
    uint64_t out;
    __asm__("pdepq %2, %1, %0" : "=r"(out) : "r"(bits), "r"(mask));
    return out;
}
#else
#define MTA_FAST_TARGET
static int mta_is_fast(void) { return 0; }
MTA_INLINE uint64_t mta_pdep(uint64_t bits, uint64_t mask) { return bits & mask; }
#endif

#define MTA_BYTES 0x0101010101010101ULL

/* In byte i: how many of the bits up to the end of byte i are set. */
MTA_INLINE uint64_t mta_byte_sums(uint64_t x) {
    x -= (x >> 1) & 0x5555555555555555ULL;
    x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
    return ((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL) * MTA_BYTES;
}

MTA_INLINE int mta_popcount(uint64_t x, const int fast) {
    return fast ? __builtin_popcountll(x) : (int)(mta_byte_sums(x) >> 56);
}

/* How many of the bytes of `sums`, all below 128, are at most k. */
MTA_INLINE int mta_bytes_up_to(uint64_t sums, int k) {
    uint64_t passed = ((((uint64_t)k * MTA_BYTES) | MTA_BYTES << 7) - sums) >> 7 & MTA_BYTES;
    return (int)((passed * MTA_BYTES) >> 56);
}

/* The place of the k-th set bit, from 0; there must be more than k. Without PDEP: Vigna, "Broadword
   implementation of rank/select queries", 2008. */
MTA_INLINE int mta_select_bit(uint64_t x, int k, const int fast) {
    uint64_t sums, bits;
    int down;
    if (fast) return __builtin_ctzll(mta_pdep((uint64_t)1 << k, x));
    sums = mta_byte_sums(x);
    down = 8 * mta_bytes_up_to(sums, k);
    k -= (int)(((sums << 8) >> down) & 255);
    bits = (((x >> down) & 255) * MTA_BYTES) & 0x8040201008040201ULL;  /* bit i in byte i */
    bits = ((bits | ((bits | MTA_BYTES << 7) - MTA_BYTES)) >> 7) & MTA_BYTES;
    return down + mta_bytes_up_to(bits * MTA_BYTES, k);
}

enum { MTA_LEVELS = 6 };  /* 64^6 ranks */
#define MTA_NO_RANK UINT32_MAX
#define MTA_MAX_BLOCK ((int64_t)1 << 31)

typedef struct {
    int64_t base, end;    /* the rows */
    int64_t size;         /* those of them that are not null, and so have ranks */
    int64_t nan_from;     /* ranks from here on are those of NaN */
    uint32_t *rank;       /* by row - base */
    uint32_t *order;      /* by rank: row - base */
    uint64_t *bits[MTA_LEVELS];  /* bits[0]: the ranks inside; bits[l]: the words of level l - 1 */
    int64_t words;        /* of all levels; those of one follow those of the one below */
    int levels;
    int plain;            /* no row is null or NaN */
    int64_t capacity;
    void *memory;
} mta_block;

/* One word more than needed lies between levels, so that the word after the last can be read. */
static int64_t mta_lay_levels(mta_block *b, uint64_t *at, int64_t bits) {
    int64_t words, sum = 0;
    b->levels = 0;
    do {
        words = (bits + 63) / 64;
        if (at) b->bits[b->levels] = at + sum;
        sum += words + 1;
        bits = words;
        b->levels++;
    } while (words > 1 || b->levels < 2);
    return sum;
}

static void mta_block_release(mta_block *b) {
    free(b->memory);
    memset(b, 0, sizeof(*b));
}

/* Ask for large pages: sorting and ranking write all over the memory at once. */
static void *mta_large_alloc(size_t bytes) {
    char *memory = (char *)malloc(bytes);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = 1 << 21;
    uintptr_t start = ((uintptr_t)memory + page - 1) & ~(page - 1);
    uintptr_t stop = ((uintptr_t)memory + bytes) & ~(page - 1);
    if (memory && start < stop) madvise((void *)start, stop - start, MADV_HUGEPAGE);
#endif
    return memory;
}

/* Room for so many rows; what the block held is lost. -1: no memory. */
static int mta_block_reserve(mta_block *b, int64_t rows) {
    int64_t words = 2 * rows + mta_lay_levels(b, NULL, rows);
    if (rows <= b->capacity) return 0;
    mta_block_release(b);
    b->memory = mta_large_alloc((size_t)words * sizeof(uint64_t));
    if (!b->memory) return -1;
    b->capacity = rows;
    return 0;
}

/* Rank the rows [base, end); none is inside yet. -1: no memory. */
static int mta_block_build(mta_block *b, const mta_rows *rows, int64_t base, int64_t end) {
    int64_t n = end - base, i;
    mta_sorter sorter = {rows, base, mta_bit_length((uint64_t)n - 1)};
    uint64_t *items, *scratch;
    mta_range range;
    if (mta_block_reserve(b, n) < 0) return -1;
    items = (uint64_t *)b->memory;
    scratch = items + n;
    range = mta_sort_rows(&sorter, n, items, scratch);
    b->base = base;
    b->end = end;
    b->nan_from = range.numbers;
    b->size = range.numbers + range.nans;
    b->plain = range.numbers == n;
    b->rank = (uint32_t *)scratch;
    b->order = b->rank + n;
    if (b->size < n)
        for (i = 0; i < n; i++) b->rank[i] = MTA_NO_RANK;
    for (i = 0; i < b->size; i++) {
        uint32_t row = (uint32_t)mta_item_row(&sorter, items[i]);
        b->rank[row] = (uint32_t)i;
        b->order[i] = row;
    }
    b->words = mta_lay_levels(b, scratch + n, n);
    memset(b->bits[0], 0, (size_t)b->words * sizeof(uint64_t));
    return 0;
}

/* The value of a rank that is inside. (A copy of the values by rank would save a step here, but to
   gather it costs more than the sort where rows are many.) */
MTA_INLINE int64_t mta_block_cell(const mta_block *b, const mta_rows *rows, int64_t rank) {
    if (rank >= b->nan_from) return MTA_NAN_BITS;
    return rows->values[b->base + b->order[rank]];
}

/* ------------------------------------------------------------------------- the bitmap */

/* The levels above the second hardly ever change. */
static void mta_block_set_above(mta_block *b, int64_t word) {
    int level;
    for (level = 2; level < b->levels; level++, word >>= 6)
        b->bits[level][word >> 6] |= (uint64_t)1 << (word & 63);
}

static void mta_block_clear_above(mta_block *b, int64_t word) {
    uint64_t left = 0;
    int level;
    for (level = 2; level < b->levels && !left; level++, word >>= 6)
        left = b->bits[level][word >> 6] &= ~((uint64_t)1 << (word & 63));
}

MTA_INLINE void mta_block_set(mta_block *b, uint64_t *bits, uint64_t *above, int64_t rank) {
    int64_t word = rank >> 6;
    uint64_t old = above[word >> 6];
    bits[word] |= (uint64_t)1 << (rank & 63);
    above[word >> 6] = old | (uint64_t)1 << (word & 63);
    if (!old) mta_block_set_above(b, word >> 6);
}

MTA_INLINE void mta_block_clear(mta_block *b, uint64_t *bits, uint64_t *above, int64_t rank) {
    int64_t word = rank >> 6;
    uint64_t left = bits[word] & ~((uint64_t)1 << (rank & 63));
    uint64_t rest = above[word >> 6] & ~((uint64_t)!left << (word & 63));
    bits[word] = left;
    above[word >> 6] = rest;
    if (!rest) mta_block_clear_above(b, word >> 6);
}

/* The next word that is not empty; there must be one. */
static int64_t mta_word_after(const mta_block *b, int64_t word) {
    uint64_t rest;
    int level = 1;
    for (word++;; word = (word >> 6) + 1, level++) {
        rest = b->bits[level][word >> 6] >> (word & 63);
        if (rest) break;
    }
    for (word += __builtin_ctzll(rest); level > 1; level--)
        word = word * 64 + __builtin_ctzll(b->bits[level - 1][word]);
    return word;
}

/* The last word before this one that is not empty; there must be one. */
static int64_t mta_word_before(const mta_block *b, int64_t word) {
    uint64_t rest;
    int level = 1;
    for (;; word >>= 6, level++) {
        rest = b->bits[level][word >> 6] & ~(~(uint64_t)0 << (word & 63));
        if (rest) break;
    }
    for (word = (word & ~(int64_t)63) + 63 - __builtin_clzll(rest); level > 1; level--)
        word = word * 64 + 63 - __builtin_clzll(b->bits[level - 1][word]);
    return word;
}

/* -------------------------------------------------------------------------- answers */

/* `below` bits are set before the word. */
typedef struct {
    int64_t word, below;
} mta_cursor;

/* Move the cursor to the word of the k-th bit that is set; the rank that this bit stands for. */
MTA_INLINE int64_t mta_cursor_seek(const mta_block *b, const uint64_t *bits, mta_cursor *c,
                                   int64_t k, const int fast) {
    int64_t word = c->word, rest = k - c->below;
    int set;
    while (rest < 0) {
        word = bits[word - 1] ? word - 1 : mta_word_before(b, word);
        rest += mta_popcount(bits[word], fast);
    }
    while (rest >= (set = mta_popcount(bits[word], fast))) {
        rest -= set;
        word = bits[word + 1] ? word + 1 : mta_word_after(b, word);
    }
    c->word = word;
    c->below = k - rest;
    return word * 64 + mta_select_bit(bits[word], (int)rest, fast);
}

/* The rank after this one that is inside; there must be one. */
MTA_INLINE int64_t mta_rank_after(const mta_block *b, int64_t rank) {
    int64_t word = rank >> 6;
    uint64_t rest = b->bits[0][word] & (~(uint64_t)1 << (rank & 63));
    if (!rest) {
        word = b->bits[0][word + 1] ? word + 1 : mta_word_after(b, word);
        rest = b->bits[0][word];
    }
    return word * 64 + __builtin_ctzll(rest);
}

/* The greatest n values inside, greatest first; so many must be there. */
static void mta_block_top(const mta_block *b, const mta_rows *rows, int64_t n, int64_t *out) {
    int64_t word = (b->size + 63) / 64, i;
    uint64_t rest = 0;
    int top;
    for (i = 0; i < n; i++) {
        if (!rest) {
            word = mta_word_before(b, word);
            rest = b->bits[0][word];
        }
        top = 63 - __builtin_clzll(rest);
        rest ^= (uint64_t)1 << top;
        out[i] = mta_block_cell(b, rows, word * 64 + top);
    }
}

#endif
