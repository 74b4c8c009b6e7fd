/* A byte queue that grows: pipes, stream and datagram sockets, ttys.
 *
 * Positions are free-running u32 byte counts, also when it grows; the buffer's size is a power of two. It starts with no memory at
 * all, takes small pieces of K first (256 bytes, 1 KB, 4 KB) and windows of D from 16 KB on, so that an idle pipe or
 * socket costs nothing and a busy one does not fill K. The owner's lock guards everything here; copies from and to guest
 * memory happen under it. A ring never shrinks by itself but ring_trim() frees the memory of an empty one. */
#ifndef HARENA_IPC_RING_H
#define HARENA_IPC_RING_H

#include "base/types.h"
#include "core/uio.h"

#define RING_MAX_BYTES (64u << 20)

struct ring {
    u8 *buf;
    u32 cap; /* bytes allocated, power of two; 0: none yet */
    u32 head, tail; /* produced, consumed */
    u64 dwin, dwin_size; /* when buf is a window of D: its place (dwin_size != 0) */
};

static inline u32 ring_len(const struct ring *r) { return r->head - r->tail; }

long ring_reserve(struct ring *r, u32 bytes); /* room for so many more bytes; -ENOMEM, -ENOBUFS past the maximum */
long ring_put(struct ring *r, struct uio *u, u32 size); /* room must be reserved; bytes, or -EFAULT if none */
void ring_put_kernel(struct ring *r, const void *src, u32 size); /* room must be reserved */
long ring_get(struct ring *r, struct uio *u, u32 size); /* at most ring_len; bytes, or -EFAULT if none */
long ring_peek(struct ring *r, struct uio *u, u32 off, u32 size); /* off: bytes behind the tail */
void ring_copy_out(const struct ring *r, void *dst, u32 off, u32 size);
static inline void ring_skip(struct ring *r, u32 size) { r->tail += size; }
long ring_unget(struct ring *r, const void *src, u32 size); /* puts bytes in front again */
void ring_trim(struct ring *r); /* gives the memory of an empty ring back */
void ring_free(struct ring *r);

#endif
