/* Output stream of an image; see sink.h. */
#include "image/sink.h"
#include "image/elf.h"
#include "wire/erofs_format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int sink_init(struct sink *s, int fd, const char *near, u64 limit, struct image_error *err)
{
    char dir[4096];
    const char *slash = strrchr(near, '/');
    int len = slash ? (int)(slash - near) + 1 : 0;

    *s = (struct sink){.fd = fd, .spool = -1, .limit = limit, .err = err};
    snprintf(dir, sizeof(dir), "%.*s.", len, near);
    s->spool = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->spool < 0) { /* a file system without O_TMPFILE */
        char name[] = "/tmp/harena-spool-XXXXXX";

        s->spool = mkostemp(name, O_CLOEXEC);
        if (s->spool >= 0)
            unlink(name);
    }
    s->buf = malloc(SINK_BUF);
    s->chunk = malloc(SINK_CHUNK);
    if (s->spool >= 0 && s->buf && s->chunk)
        return 0;
    image_fail(err, "cannot set up the output of the image: %s", strerror(errno));
    sink_free(s);
    return -1;
}

void sink_free(struct sink *s)
{
    if (s->spool >= 0)
        close(s->spool);
    free(s->buf);
    free(s->chunk);
    *s = (struct sink){.fd = -1, .spool = -1};
}

static int write_all(struct sink *s, int fd, const u8 *p, u64 size)
{
    while (size) {
        ssize_t n = write(fd, p, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return image_fail(s->err, "cannot write the image: %s", strerror(n ? errno : EIO));
        p += n;
        size -= n;
    }
    return 0;
}

int sink_flush(struct sink *s)
{
    u32 n = s->used;

    s->used = 0;
    return write_all(s, s->fd, s->buf, n);
}

int sink_write(struct sink *s, const void *p, u64 size)
{
    const u8 *c = p;

    if (size > s->limit || s->pos > s->limit - size)
        return image_fail(s->err, "the image would be larger than %llu bytes", (unsigned long long)s->limit);
    s->pos += size;
    while (size) {
        u32 n = MIN(size, (u64)SINK_BUF - s->used);

        memcpy(s->buf + s->used, c, n);
        s->used += n;
        c += n;
        size -= n;
        if (s->used == SINK_BUF && sink_flush(s))
            return -1;
    }
    return 0;
}

int sink_pad(struct sink *s, u32 align)
{
    static const u8 zero[EROFS_BLKSZ];
    u64 n = ALIGN_UP(s->pos, align) - s->pos;

    return sink_write(s, zero, n);
}

static bool looks_elf(const u8 *p, u64 n)
{
    return n >= SELFMAG && !memcmp(p, ELFMAG, SELFMAG);
}

int sink_content(struct sink *s, struct inode *i, ssize_t (*read)(void *ctx, void *buf, size_t n), void *ctx)
{
    u64 have = 0;
    ssize_t n = 1;

    while (have < EROFS_BLKSZ && (n = read(ctx, s->chunk + have, SINK_CHUNK - have)) > 0)
        have += n;
    if (n < 0)
        return -1;
    i->elf = looks_elf(s->chunk, have);
    i->size = have;
    if (!have)
        return 0;
    if (have < EROFS_BLKSZ && !i->elf) {
        i->spooled = true;
        i->spool_off = s->spool_pos;
        s->spool_pos += have;
        return write_all(s, s->spool, s->chunk, have);
    }
    if (sink_pad(s, EROFS_BLKSZ))
        return -1;
    i->block = (u32)(s->pos / EROFS_BLKSZ);
    if (sink_write(s, s->chunk, have))
        return -1;
    while ((n = read(ctx, s->chunk, SINK_CHUNK)) > 0) {
        if (sink_write(s, s->chunk, n))
            return -1;
        i->size += n;
    }
    return n < 0 ? -1 : sink_pad(s, EROFS_BLKSZ);
}

int sink_spool_read(struct sink *s, const struct inode *i, u8 *buf)
{
    ssize_t n = pread(s->spool, buf, i->size, i->spool_off);

    return n == (ssize_t)i->size ? 0 : image_fail(s->err, "cannot read the spool: %s", strerror(n < 0 ? errno : EIO));
}
