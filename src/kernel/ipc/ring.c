#include "ipc/ring.h"

#include "base/string.h"
#include "core/dframe.h"
#include "core/errno.h"
#include "core/kmalloc.h"

#define K_RING_MAX 4096u

static void ring_release_buf(struct ring *r)
{
    if (r->dwin_size)
        dwin_free(r->dwin, r->dwin_size);
    else
        kfree(r->buf);
    r->buf = NULL;
    r->cap = 0;
    r->dwin = r->dwin_size = 0;
}

/* The longest piece at position pos that does not wrap. */
static u32 ring_piece(const struct ring *r, u32 pos, u32 size)
{
    u32 left = r->cap - (pos & (r->cap - 1));
    return MIN(left, size);
}

/* Positions stay: owners keep them (marks of ancillary data). */
static long ring_grow(struct ring *r, u32 cap)
{
    struct ring n = {.cap = cap, .head = r->tail, .tail = r->tail};

    if (cap <= K_RING_MAX) {
        n.buf = kmalloc(cap);
        if (!n.buf)
            return -ENOMEM;
    } else {
        n.dwin = dwin_alloc(cap, &n.dwin_size);
        if (!n.dwin_size)
            return -ENOMEM;
        n.buf = dwin_ptr(n.dwin);
    }
    while (n.head != r->head) {
        u32 piece = ring_piece(r, n.head, r->head - n.head);
        ring_put_kernel(&n, r->buf + (n.head & (r->cap - 1)), piece);
    }
    ring_release_buf(r);
    *r = n;
    return 0;
}

long ring_reserve(struct ring *r, u32 bytes)
{
    u64 need = (u64)ring_len(r) + bytes;

    if (likely(need <= r->cap))
        return 0;
    if (need > RING_MAX_BYTES)
        return -ENOBUFS;
    u32 cap = r->cap ? r->cap : 256;
    while (cap < need)
        cap *= 4;
    return ring_grow(r, cap);
}

long ring_put(struct ring *r, struct uio *u, u32 size)
{
    u32 done = 0;

    while (done < size) {
        u32 n = ring_piece(r, r->head, size - done);
        long c = uio_read_from(u, r->buf + (r->head & (r->cap - 1)), n);
        if (c <= 0)
            return done ? done : (c ? c : 0);
        r->head += c;
        done += c;
        if ((u32)c < n)
            break;
    }
    return done;
}

void ring_put_kernel(struct ring *r, const void *src, u32 size)
{
    const u8 *p = src;

    while (size) {
        u32 n = ring_piece(r, r->head, size);
        memcpy(r->buf + (r->head & (r->cap - 1)), p, n);
        r->head += n;
        p += n;
        size -= n;
    }
}

long ring_peek(struct ring *r, struct uio *u, u32 off, u32 size)
{
    u32 done = 0;

    while (done < size) {
        u32 pos = r->tail + off + done;
        u32 n = ring_piece(r, pos, size - done);
        long c = uio_write_to(u, r->buf + (pos & (r->cap - 1)), n);
        if (c <= 0)
            return done ? done : (c ? c : 0);
        done += c;
        if ((u32)c < n)
            break;
    }
    return done;
}

long ring_get(struct ring *r, struct uio *u, u32 size)
{
    long c = ring_peek(r, u, 0, size);
    if (c > 0)
        r->tail += c;
    return c;
}

void ring_copy_out(const struct ring *r, void *dst, u32 off, u32 size)
{
    u8 *p = dst;

    while (size) {
        u32 pos = r->tail + off;
        u32 n = ring_piece(r, pos, size);
        memcpy(p, r->buf + (pos & (r->cap - 1)), n);
        off += n;
        p += n;
        size -= n;
    }
}

long ring_unget(struct ring *r, const void *src, u32 size)
{
    long e = ring_reserve(r, size);
    if (e)
        return e;
    const u8 *p = src;
    r->tail -= size;
    for (u32 done = 0; done < size;) {
        u32 pos = r->tail + done, n = ring_piece(r, pos, size - done);
        memcpy(r->buf + (pos & (r->cap - 1)), p + done, n);
        done += n;
    }
    return 0;
}

void ring_trim(struct ring *r)
{
    if (!ring_len(r))
        ring_release_buf(r);
}

void ring_free(struct ring *r)
{
    ring_release_buf(r);
    r->head = r->tail = 0;
}
