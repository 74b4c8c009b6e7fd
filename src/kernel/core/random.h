/* The sandbox's random generator: ChaCha20 keyed with the boot seed, key erased after every request. */
#ifndef HARENA_CORE_RANDOM_H
#define HARENA_CORE_RANDOM_H

#include "base/types.h"

void random_seed(const u8 seed[64]);
void random_bytes(void *buf, size_t size);

#endif
