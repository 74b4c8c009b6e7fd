/* SHA-256 (FIPS 180-4) and HMAC (RFC 2104). The command line is static and starts in a millisecond: libcrypto would add its own
 * start-up to every command. Uses the processor's instructions where it has them. */
#ifndef HARENA_STORE_SHA256_H
#define HARENA_STORE_SHA256_H

#include <stddef.h>
#include "base/types.h"

#define SHA256_SIZE 32

struct sha256 {
    u32 h[8];
    u64 size;
    u8 block[64];
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *data, size_t size);
void sha256_final(struct sha256 *s, u8 out[SHA256_SIZE]);

struct hmac {
    struct sha256 inner, outer;
};

void hmac_init(struct hmac *m, const u8 *key, size_t size); /* size <= 64 */
void hmac_update(struct hmac *m, const void *data, size_t size);
void hmac_final(struct hmac *m, u8 out[SHA256_SIZE]);

#endif
