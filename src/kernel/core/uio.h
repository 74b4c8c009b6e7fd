/* A cursor over the memory of a read or write: guest segments (iovec) or one kernel buffer. */
#ifndef HARENA_CORE_UIO_H
#define HARENA_CORE_UIO_H

#include "base/types.h"

struct uio_seg {
    u64 base;
    u64 size;
};

struct uio {
    struct uio_seg one; /* storage of the common case */
    struct uio_seg *segs;
    u32 count;
    u32 index; /* current segment */
    u64 off; /* in it */
    u64 resid; /* bytes left in all */
    bool kernel; /* base is a kernel address */
};

void uio_user(struct uio *u, uptr base, u64 size);
void uio_kernel(struct uio *u, void *base, u64 size);
/* Copies min(size, resid) and advances. Returns bytes copied; fewer only on a fault: 0 bytes -> -EFAULT (unless size == 0). */
long uio_write_to(struct uio *u, const void *src, u64 size); /* kernel -> uio (a read call) */
long uio_read_from(struct uio *u, void *dst, u64 size);      /* uio -> kernel (a write call) */
long uio_zero(struct uio *u, u64 size);
/* Imports count guest iovecs; *u owns an allocation if count > 1: release it. -EINVAL, -EFAULT, -ENOMEM. */
long uio_import(struct uio *u, uptr iov, u64 count);
void uio_skip(struct uio *u, u64 size);
void uio_release(struct uio *u);

#endif
