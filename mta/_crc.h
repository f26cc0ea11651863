/* The CRC-32 of zlib, 64 bytes at a time where a processor multiplies without carries: Gopal et al.,
   "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009. */
#ifndef MTA_CRC_H
#define MTA_CRC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define MTA_CRC_TARGET __attribute__((target("pclmul,sse4.1")))
#define MTA_CRC_IS_FAST (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))

/* x, moved on by as many bits as the powers of x in k say, and added to next. */
MTA_CRC_TARGET static inline __m128i mta_crc_fold(__m128i x, __m128i k, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(x, k, 0x00), high = _mm_clmulepi64_si128(x, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

MTA_CRC_TARGET static inline __m128i mta_crc_load(const uint8_t *data) {
    return _mm_loadu_si128((const __m128i *)data);
}

/* From 128 bits to 32: the rest of a division, by Barrett's method. (k: x^(i) mod P, reflected.) */
MTA_CRC_TARGET static inline uint32_t mta_crc_reduce(__m128i x) {
    const __m128i k = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i last = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i poly = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low = _mm_set_epi32(0, ~0, 0, ~0);
    __m128i y = _mm_clmulepi64_si128(x, k, 0x10);
    x = _mm_xor_si128(_mm_srli_si128(x, 8), y);
    y = _mm_srli_si128(x, 4);
    x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low), last, 0x00), y);
    y = _mm_clmulepi64_si128(_mm_and_si128(x, low), poly, 0x10);
    y = _mm_clmulepi64_si128(_mm_and_si128(y, low), poly, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, y), 1);
}

/* At least 64 bytes, and a multiple of 16. */
MTA_CRC_TARGET static uint32_t mta_crc_wide(uint32_t crc, const uint8_t *data, size_t n) {
    const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    __m128i a = _mm_xor_si128(mta_crc_load(data), _mm_cvtsi32_si128((int)crc));
    __m128i b = mta_crc_load(data + 16), c = mta_crc_load(data + 32), d = mta_crc_load(data + 48);
    for (data += 64, n -= 64; n >= 64; data += 64, n -= 64) {
        a = mta_crc_fold(a, by_64, mta_crc_load(data));
        b = mta_crc_fold(b, by_64, mta_crc_load(data + 16));
        c = mta_crc_fold(c, by_64, mta_crc_load(data + 32));
        d = mta_crc_fold(d, by_64, mta_crc_load(data + 48));
    }
    a = mta_crc_fold(mta_crc_fold(mta_crc_fold(a, by_16, b), by_16, c), by_16, d);
    for (; n >= 16; data += 16, n -= 16) a = mta_crc_fold(a, by_16, mta_crc_load(data));
    return mta_crc_reduce(a);
}
#else
#define MTA_CRC_IS_FAST 0
static uint32_t mta_crc_wide(uint32_t crc, const uint8_t *data, size_t n) {
    (void)data, (void)n;
    return crc;
}
#endif

/* Of bytes behind others of which the CRC is `crc` (none: 0); only where MTA_CRC_IS_FAST. */
static inline uint32_t mta_crc32(uint32_t crc, const uint8_t *data, size_t n) {
    size_t wide = n >= 64 ? n & ~(size_t)15 : 0, i;
    int bit;
    crc = ~crc;
    if (wide) crc = mta_crc_wide(crc, data, wide);
    for (i = wide; i < n; i++)
        for (crc ^= data[i], bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xedb88320u & -(crc & 1));
    return ~crc;
}

#endif
