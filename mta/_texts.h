/* Texts (or byte strings) to dense numbers, straight from Arrow's buffers: equal for equal texts, in
   order of appearance. Open addressing with linear probing, at most half full; a slot holds half of the
   hash beside the number, so that a text is compared with few others than its equal. */
#ifndef MTA_TEXTS_H
#define MTA_TEXTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *bytes;
    uint64_t size, first, last; /* its ends: of at most 16 bytes, all there is */
} mta_text;

typedef struct {
    uint64_t *slots; /* half of the hash, and the number + 1; 0: free */
    uint64_t capacity;
    mta_text *texts; /* by number; they point into the buffers */
    uint64_t *hashes;
    int64_t found;
    int64_t of_null; /* the number of null; -1: there was none yet */
} mta_texts;

/* How the texts of one array are told. */
typedef struct {
    int width;            /* 4 or 8: of the offsets; 0: views of 16 bytes */
    const char *index;    /* the offsets or views, from the first row on */
    const char *const *data;
    const uint8_t *valid; /* one bit a row, the first at `first`; NULL: none is null */
    int64_t first;
} mta_text_array;

static inline uint64_t mta_word(const char *p, int bytes) {
    uint64_t x = 0;
    if (bytes == 8)
        memcpy(&x, p, 8);
    else
        memcpy(&x, p, 4);
    return x;
}

/* Both ends of at most 16 bytes, which say them all with their number. (A processor that takes the
   highest byte first makes other words of them, as good as these.) */
static inline void mta_ends(const char *p, uint64_t n, uint64_t *a, uint64_t *b) {
    if (n >= 8) {
        *a = mta_word(p, 8);
        *b = mta_word(p + n - 8, 8);
    } else if (n >= 4) {
        *a = mta_word(p, 4);
        *b = mta_word(p + n - 4, 4);
    } else {
        *a = n ? (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[n >> 1] << 8 | (uint8_t)p[n - 1] : 0;
        *b = 0;
    }
}

static inline uint64_t mta_multiply(uint64_t a, uint64_t b) {
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline mta_text mta_make_text(const char *bytes, uint64_t size) {
    mta_text t = {bytes, size, 0, 0};
    uint64_t rest = size > 16 ? 16 : size;
    mta_ends(bytes + size - rest, rest, &t.first, &t.last);
    return t;
}

static inline uint64_t mta_hash_text(const mta_text *t) {
    uint64_t n = t->size, h = n * 0x9E3779B97F4A7C15u;
    const char *p = t->bytes;
    for (; n > 16; n -= 16, p += 16)
        h = mta_multiply(mta_word(p, 8) ^ h, mta_word(p + 8, 8) ^ 0xBF58476D1CE4E5B9u);
    return mta_multiply(t->first ^ h ^ 0x94D049BB133111EBu, t->last ^ 0xD6E8FEB86659FD93u ^ h >> 32);
}

static inline int mta_same_text(const mta_text *x, const mta_text *y) {
    if (((x->size ^ y->size) | (x->first ^ y->first) | (x->last ^ y->last)) != 0) return 0;
    return x->size <= 16 || memcmp(x->bytes, y->bytes, x->size) == 0;
}

static inline mta_text mta_text_at(const mta_text_array *from, int64_t i) {
    if (from->width == 0) {
        const char *view = from->index + 16 * i;
        const int32_t *part = (const int32_t *)view;
        /* the size, then the bytes; of more than 12, the first four, then buffer and place */
        return mta_make_text(part[0] <= 12 ? view + 4 : from->data[part[2]] + part[3],
                             (uint64_t)part[0]);
    }
    if (from->width == 4) {
        const int32_t *at = (const int32_t *)from->index + i;
        return mta_make_text(from->data[0] + at[0], (uint64_t)(at[1] - at[0]));
    } else {
        const int64_t *at = (const int64_t *)from->index + i;
        return mta_make_text(from->data[0] + at[0], (uint64_t)(at[1] - at[0]));
    }
}

static inline void mta_texts_free(mta_texts *t) {
    free(t->slots);
    free(t->texts);
    free(t->hashes);
}

/* Twice the room, and more; 0 where there is no memory. */
static int mta_texts_grow(mta_texts *t) {
    uint64_t capacity = t->capacity ? 4 * t->capacity : 1024, at;
    uint64_t *slots = (uint64_t *)calloc(capacity, sizeof *slots);
    mta_text *texts = (mta_text *)realloc(t->texts, capacity / 2 * sizeof *texts);
    uint64_t *hashes = (uint64_t *)realloc(t->hashes, capacity / 2 * sizeof *hashes);
    int64_t k;
    if (texts) t->texts = texts;
    if (hashes) t->hashes = hashes;
    if (!slots || !texts || !hashes) {
        free(slots);
        return 0;
    }
    for (k = 0; k < t->found; k++) {
        if (k == t->of_null) continue;
        for (at = hashes[k] & (capacity - 1); slots[at]; at = (at + 1) & (capacity - 1));
        slots[at] = hashes[k] >> 32 << 32 | (uint64_t)(k + 1);
    }
    free(t->slots);
    t->slots = slots;
    t->capacity = capacity;
    return 1;
}

/* The number of a text, a new one if it is new. There is room. */
static inline int64_t mta_text_number(mta_texts *t, const mta_text *text) {
    uint64_t hash = mta_hash_text(text), at = hash & (t->capacity - 1), slot;
    int64_t k;
    for (; (slot = t->slots[at]) != 0; at = (at + 1) & (t->capacity - 1)) {
        k = (int64_t)(slot & UINT32_MAX) - 1;
        if (slot >> 32 == hash >> 32 && mta_same_text(&t->texts[k], text)) return k;
    }
    k = t->found++;
    t->slots[at] = hash >> 32 << 32 | (uint64_t)(k + 1);
    t->texts[k] = *text;
    t->hashes[k] = hash;
    return k;
}

/* The numbers of n texts; 0 where there is no memory. */
static int mta_number_texts(mta_texts *t, const mta_text_array *from, int64_t n, int64_t *out) {
    int64_t i, bit;
    mta_text text;
    for (i = 0; i < n; i++) {
        if (2 * (uint64_t)(t->found + 1) > t->capacity && !mta_texts_grow(t)) return 0;
        bit = from->first + i;
        if (from->valid && !(from->valid[bit >> 3] >> (bit & 7) & 1)) {
            if (t->of_null < 0) t->of_null = t->found++;
            out[i] = t->of_null;
            continue;
        }
        text = mta_text_at(from, i);
        out[i] = mta_text_number(t, &text);
    }
    return 1;
}

#endif
