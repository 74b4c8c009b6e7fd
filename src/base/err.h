/* Error pointers. Kernel functions return 0 or a positive result, or a negative errno; never a bare
 * -1. Functions that return pointers return an error pointer (or NULL only where their comment says so). */
#ifndef HARENA_BASE_ERR_H
#define HARENA_BASE_ERR_H

#include "base/types.h"

#define MAX_ERRNO 4095

static inline void *ERR_PTR(long e) { return (void *)e; }
static inline long PTR_ERR(const void *p) { return (long)p; }
static inline bool IS_ERR(const void *p) { return (u64)p >= (u64)-MAX_ERRNO; }
static inline bool is_err(long v) { return (u64)v >= (u64)-MAX_ERRNO; }

#endif
