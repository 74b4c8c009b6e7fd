#include "core/uio.h"
#include "base/string.h"
#include "core/errno.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"

#define IOV_COUNT_MAX 1024
#define RW_SIZE_MAX 0x7ffff000ul /* Linux's MAX_RW_COUNT */

void uio_user(struct uio *u, uptr base, u64 size)
{
    *u = (struct uio){.one = {base, MIN(size, RW_SIZE_MAX)}, .count = 1, .resid = MIN(size, RW_SIZE_MAX)};
    u->segs = &u->one;
}

void uio_kernel(struct uio *u, void *base, u64 size)
{
    *u = (struct uio){.one = {(u64)base, size}, .count = 1, .resid = size, .kernel = true};
    u->segs = &u->one;
}

enum uio_op { UIO_TO, UIO_FROM, UIO_ZERO };

static size_t step(struct uio *u, enum uio_op op, char *buf, u64 addr, size_t n)
{
    if (u->kernel) {
        if (op == UIO_TO)
            memcpy((void *)addr, buf, n);
        else if (op == UIO_FROM)
            memcpy(buf, (void *)addr, n);
        else
            memset((void *)addr, 0, n);
        return n;
    }
    if (op == UIO_TO)
        return copy_to_user_some(addr, buf, n);
    if (op == UIO_FROM)
        return copy_from_user_some(buf, addr, n);
    return clear_user(addr, n) ? 0 : n;
}

static long transfer(struct uio *u, enum uio_op op, void *buf, u64 size)
{
    u64 done = 0;
    size = MIN(size, u->resid);
    while (done < size) {
        struct uio_seg *s = &u->segs[u->index];
        u64 n = MIN(s->size - u->off, size - done);
        if (n == 0) {
            u->index++;
            u->off = 0;
            continue;
        }
        size_t got = step(u, op, (char *)buf + done, s->base + u->off, n);
        done += got;
        u->off += got;
        u->resid -= got;
        if (got < n)
            return done ? (long)done : -EFAULT;
    }
    return (long)done;
}

long uio_write_to(struct uio *u, const void *src, u64 size) { return transfer(u, UIO_TO, (void *)src, size); }
long uio_read_from(struct uio *u, void *dst, u64 size) { return transfer(u, UIO_FROM, dst, size); }
long uio_zero(struct uio *u, u64 size) { return transfer(u, UIO_ZERO, NULL, size); }

long uio_import(struct uio *u, uptr iov, u64 count)
{
    *u = (struct uio){.segs = &u->one, .count = (u32)count};
    if (count > IOV_COUNT_MAX)
        return -EINVAL;
    if (count == 0)
        return 0;
    if (count > 1) {
        u->segs = kmalloc(count * sizeof(struct uio_seg));
        if (!u->segs) {
            u->segs = &u->one;
            return -ENOMEM;
        }
    }
    long r = copy_from_user(u->segs, iov, count * sizeof(struct uio_seg));
    for (u64 i = 0; !r && i < count; i++) {
        if ((s64)u->segs[i].size < 0) {
            r = -EINVAL;
            break;
        }
        u->segs[i].size = MIN(u->segs[i].size, RW_SIZE_MAX - u->resid);
        u->resid += u->segs[i].size;
    }
    if (r)
        uio_release(u);
    return r;
}

void uio_skip(struct uio *u, u64 size)
{
    size = MIN(size, u->resid);
    u->resid -= size;
    while (size) {
        u64 n = MIN(size, u->segs[u->index].size - u->off);
        size -= n;
        u->off += n;
        if (u->off == u->segs[u->index].size && size) {
            u->index++;
            u->off = 0;
        }
    }
}

void uio_release(struct uio *u)
{
    if (u->segs != &u->one)
        kfree(u->segs);
    u->segs = &u->one;
}
