/* ChaCha20 (RFC 8439 block function) as a fast-key-erasure generator: every block's first half becomes the next key. */
#include "core/random.h"
#include "base/string.h"
#include "core/kstate.h"
#include "core/mutex.h"

static KSTATE struct {
    struct mutex lock;
    u32 key[8];
    u64 counter;
} rng;

#define ROTL(v, n) (((v) << (n)) | ((v) >> (32 - (n))))
#define QUARTER(a, b, c, d)                                                                                            \
    (a += b, d = ROTL(d ^ a, 16), c += d, b = ROTL(b ^ c, 12), a += b, d = ROTL(d ^ a, 8), c += d, b = ROTL(b ^ c, 7))

static void chacha_block(const u32 key[8], u64 counter, u32 out[16])
{
    u32 in[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    memcpy(in + 4, key, 32);
    in[12] = (u32)counter;
    in[13] = (u32)(counter >> 32);
    memcpy(out, in, 64);
    for (int i = 0; i < 10; i++) {
        QUARTER(out[0], out[4], out[8], out[12]);
        QUARTER(out[1], out[5], out[9], out[13]);
        QUARTER(out[2], out[6], out[10], out[14]);
        QUARTER(out[3], out[7], out[11], out[15]);
        QUARTER(out[0], out[5], out[10], out[15]);
        QUARTER(out[1], out[6], out[11], out[12]);
        QUARTER(out[2], out[7], out[8], out[13]);
        QUARTER(out[3], out[4], out[9], out[14]);
    }
    for (int i = 0; i < 16; i++)
        out[i] += in[i];
}

void random_seed(const u8 seed[64])
{
    u32 words[16];
    memcpy(words, seed, 64);
    mutex_lock(&rng.lock);
    for (int i = 0; i < 8; i++)
        rng.key[i] ^= words[i] ^ words[i + 8];
    mutex_unlock(&rng.lock);
}

void random_bytes(void *buf, size_t size)
{
    u8 *p = buf;
    u32 out[16];
    mutex_lock(&rng.lock);
    while (size) {
        chacha_block(rng.key, rng.counter++, out);
        memcpy(rng.key, out, 32);
        size_t n = MIN(size, (size_t)32);
        memcpy(p, out + 8, n);
        p += n;
        size -= n;
    }
    mutex_unlock(&rng.lock);
    memset(out, 0, sizeof(out));
}
