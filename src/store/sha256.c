#include "store/sha256.h"
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

static const u32 k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static u32 rotr(u32 x, int n) { return x >> n | x << (32 - n); }

static void blocks_plain(u32 h[8], const u8 *p, size_t count)
{
    for (; count; count--, p += 64) {
        u32 w[64], a[8];
        for (int i = 0; i < 16; i++)
            w[i] = (u32)p[i * 4] << 24 | (u32)p[i * 4 + 1] << 16 | (u32)p[i * 4 + 2] << 8 | p[i * 4 + 3];
        for (int i = 16; i < 64; i++) {
            u32 s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
            u32 s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        memcpy(a, h, 32);
        for (int i = 0; i < 64; i++) {
            u32 t1 = a[7] + (rotr(a[4], 6) ^ rotr(a[4], 11) ^ rotr(a[4], 25)) + ((a[4] & a[5]) ^ (~a[4] & a[6])) + k[i] + w[i];
            u32 t2 = (rotr(a[0], 2) ^ rotr(a[0], 13) ^ rotr(a[0], 22)) + ((a[0] & a[1]) ^ (a[0] & a[2]) ^ (a[1] & a[2]));
            memmove(a + 1, a, 28);
            a[4] += t1;
            a[0] = t1 + t2;
        }
        for (int i = 0; i < 8; i++)
            h[i] += a[i];
    }
}

/* The SHA extensions keep the state as ABEF and CDGH; four words of the schedule at a time. */
__attribute__((target("sha,ssse3,sse4.1"))) static void blocks_sha(u32 h[8], const u8 *p, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
    __m128i t = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0xb1);
    __m128i s1 = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(h + 4)), 0x1b);
    __m128i s0 = _mm_alignr_epi8(t, s1, 8);
    s1 = _mm_blend_epi16(s1, t, 0xf0);
    for (; count; count--, p += 64) {
        __m128i w[4], a = s0, b = s1;
        for (int i = 0; i < 16; i++) {
            __m128i *x = &w[i & 3];
            if (i < 4) {
                *x = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + i * 16)), swap);
            } else {
                __m128i next = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);
                *x = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(*x, w[(i + 1) & 3]), next), w[(i + 3) & 3]);
            }
            __m128i m = _mm_add_epi32(*x, _mm_loadu_si128((const __m128i *)(k + i * 4)));
            s1 = _mm_sha256rnds2_epu32(s1, s0, m);
            s0 = _mm_sha256rnds2_epu32(s0, s1, _mm_shuffle_epi32(m, 0x0e));
        }
        s0 = _mm_add_epi32(s0, a);
        s1 = _mm_add_epi32(s1, b);
    }
    t = _mm_shuffle_epi32(s0, 0x1b);
    s1 = _mm_shuffle_epi32(s1, 0xb1);
    _mm_storeu_si128((__m128i *)h, _mm_blend_epi16(t, s1, 0xf0));
    _mm_storeu_si128((__m128i *)(h + 4), _mm_alignr_epi8(s1, t, 8));
}

static void blocks(u32 h[8], const u8 *p, size_t count)
{
    static int has; /* 0 = not asked yet, 1 = no, 2 = yes */
    u32 a, b, c, d;
    if (!has)
        has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) ? 2 : 1;
    (has == 2 ? blocks_sha : blocks_plain)(h, p, count);
}

void sha256_init(struct sha256 *s)
{
    static const u32 start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    memcpy(s->h, start, 32);
    s->size = 0;
}

void sha256_update(struct sha256 *s, const void *data, size_t size)
{
    const u8 *p = data;
    size_t have = s->size % 64;
    s->size += size;
    if (have) {
        size_t n = size < 64 - have ? size : 64 - have;
        memcpy(s->block + have, p, n);
        p += n;
        size -= n;
        if (have + n < 64)
            return;
        blocks(s->h, s->block, 1);
    }
    blocks(s->h, p, size / 64);
    memcpy(s->block, p + size / 64 * 64, size % 64);
}

void sha256_final(struct sha256 *s, u8 out[SHA256_SIZE])
{
    static const u8 pad[64] = { 0x80 };
    u64 bits = s->size * 8;
    u8 tail[8];
    for (int i = 0; i < 8; i++)
        tail[i] = bits >> (56 - i * 8);
    sha256_update(s, pad, 1 + (119 - s->size % 64) % 64);
    sha256_update(s, tail, 8);
    for (int i = 0; i < 32; i++)
        out[i] = s->h[i / 4] >> (24 - i % 4 * 8);
}

void hmac_init(struct hmac *m, const u8 *key, size_t size)
{
    u8 in[64] = { 0 }, out[64];
    memcpy(in, key, size);
    for (int i = 0; i < 64; i++) {
        out[i] = in[i] ^ 0x5c;
        in[i] ^= 0x36;
    }
    sha256_init(&m->inner);
    sha256_init(&m->outer);
    sha256_update(&m->inner, in, 64);
    sha256_update(&m->outer, out, 64);
}

void hmac_update(struct hmac *m, const void *data, size_t size) { sha256_update(&m->inner, data, size); }

void hmac_final(struct hmac *m, u8 out[SHA256_SIZE])
{
    sha256_final(&m->inner, out);
    sha256_update(&m->outer, out, SHA256_SIZE);
    sha256_final(&m->outer, out);
}
