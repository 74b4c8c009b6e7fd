/* splice, tee, vmsplice. Bytes are copied through a kernel buffer: pages are not shared between files here, so moving them
 * would gain nothing. What the target did not take is put in front of the pipe again. */
#include <linux/fcntl.h>

#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "ipc/pipe.h"
#include "sys/syscall.h"
#include "vfs/internal.h"

#define SPLICE_F_MOVE 1u
#define SPLICE_F_NONBLOCK 2u
#define SPLICE_F_ALL 15u
#define CHUNK 16384u

struct end {
    struct file *f;
    u64 *pos; /* position to use, NULL: the file's own (or none) */
};

/* Reads or writes at an end with a kernel buffer. */
static long end_io(struct end *e, void *buf, u64 size, bool write)
{
    struct uio u;

    uio_kernel(&u, buf, size);
    if (e->pos)
        return write ? file_write(e->f, &u, e->pos) : file_read(e->f, &u, e->pos);
    if (!(e->f->mode & FMODE_SEEK))
        return write ? file_write(e->f, &u, NULL) : file_read(e->f, &u, NULL);
    bool locked = file_pos_begin(e->f);
    long r = write ? file_write(e->f, &u, &e->f->pos) : file_read(e->f, &u, &e->f->pos);
    file_pos_end(e->f, locked);
    return r;
}

static long from_pipe(struct end *in, struct end *out, void *buf, u64 size, bool nonblock)
{
    long n = pipe_take(in->f, buf, size, nonblock);
    if (n <= 0)
        return n;
    long w = file_is_pipe(out->f) ? pipe_push(out->f, buf, (size_t)n, nonblock) : end_io(out, buf, (u64)n, true);
    long left = w < 0 ? n : n - w;
    if (left) {
        long r = pipe_unread(in->f, (u8 *)buf + (n - left), (size_t)left);
        if (r && w <= 0)
            return r;
    }
    return w;
}

static long to_pipe(struct end *in, struct end *out, void *buf, u64 size, bool nonblock)
{
    long room = pipe_wait_writable(out->f, nonblock);
    if (room < 0)
        return room;
    long n = end_io(in, buf, MIN(size, (u64)room), false);
    return n <= 0 ? n : pipe_push(out->f, buf, (size_t)n, false);
}

static long splice_loop(struct end *in, struct end *out, u64 size, bool nonblock)
{
    void *buf = kmalloc(MIN(size, (u64)CHUNK));
    u64 done = 0;
    long r = 0;

    if (!buf)
        return -ENOMEM;
    while (done < size) {
        u64 n = MIN(size - done, (u64)CHUNK);
        bool wait = !nonblock && !done; /* only for the first bytes */
        r = file_is_pipe(in->f) ? from_pipe(in, out, buf, n, !wait) : to_pipe(in, out, buf, n, !wait);
        if (r <= 0)
            break;
        done += (u64)r;
        if (!file_is_pipe(in->f) && (u64)r < n)
            break; /* a short read: more might block */
    }
    kfree(buf);
    return done ? (long)done : r;
}

/* One side's checks; *pos is filled from guest memory if an offset was given. */
static long check_end(struct end *e, s32 fd, uptr off_addr, u64 *pos, u32 mode)
{
    e->f = fd_get(fd);
    e->pos = NULL;
    if (!e->f)
        return -EBADF;
    if ((e->f->mode & FMODE_PATH) || !(e->f->mode & mode))
        return -EBADF;
    if (!off_addr)
        return 0;
    if (!(e->f->mode & FMODE_SEEK))
        return file_is_pipe(e->f) ? -ESPIPE : -EINVAL;
    if (get_user(*pos, off_addr))
        return -EFAULT;
    e->pos = pos;
    return (s64)*pos < 0 ? -EINVAL : 0;
}

SYSCALL6(splice, s32, fd_in, uptr, off_in, s32, fd_out, uptr, off_out, u64, size, u32, flags)
{
    struct end in = {0}, out = {0};
    u64 pos_in, pos_out;

    if (!size)
        return 0;
    if (flags & ~SPLICE_F_ALL)
        return -EINVAL;
    long r = check_end(&in, fd_in, off_in, &pos_in, FMODE_READ);
    if (!r)
        r = check_end(&out, fd_out, off_out, &pos_out, FMODE_WRITE);
    if (!r && !file_is_pipe(in.f) && !file_is_pipe(out.f))
        r = -EINVAL;
    if (!r && file_is_pipe(in.f) && file_is_pipe(out.f) && in.f->priv == out.f->priv)
        r = -EINVAL;
    if (!r && (out.f->flags & O_APPEND))
        r = -EINVAL;
    if (!r) {
        bool nonblock = (flags & SPLICE_F_NONBLOCK) != 0;
        r = splice_loop(&in, &out, MIN(size, 0x7ffff000ul), nonblock);
        if (r > 0 && in.pos && put_user(pos_in, off_in))
            r = -EFAULT;
        if (r > 0 && out.pos && put_user(pos_out, off_out))
            r = -EFAULT;
    }
    if (in.f)
        file_put(in.f);
    if (out.f)
        file_put(out.f);
    return r;
}

static long tee_files(struct file *in, struct file *out, u64 size, bool nonblock)
{
    if (!(in->mode & FMODE_READ) || !(out->mode & FMODE_WRITE))
        return -EBADF;
    if (!file_is_pipe(in) || !file_is_pipe(out) || in->priv == out->priv)
        return -EINVAL;
    void *buf = kmalloc(MIN(size, 65536ul));
    if (!buf)
        return -ENOMEM;
    long r = pipe_wait_writable(out, nonblock);
    if (r > 0)
        r = pipe_peek(in, buf, MIN(MIN(size, 65536ul), (u64)r), nonblock);
    if (r > 0)
        r = pipe_push(out, buf, (size_t)r, true);
    kfree(buf);
    return r;
}

SYSCALL4(tee, s32, fd_in, s32, fd_out, u64, size, u32, flags)
{
    if (flags & ~SPLICE_F_ALL)
        return -EINVAL;
    if (!size)
        return 0;
    struct file *in = fd_get(fd_in), *out = fd_get(fd_out);
    long r = in && out ? tee_files(in, out, size, flags & SPLICE_F_NONBLOCK) : -EBADF;
    if (in)
        file_put(in);
    if (out)
        file_put(out);
    return r;
}

/* Waits for room, then writes what fits: a pipe that becomes full ends it. */
static long vmsplice_out(struct file *f, struct uio *u, void *buf, bool nonblock)
{
    long done = 0, r = u->resid ? 0 : 1;

    while (!r) {
        long room = pipe_wait_writable(f, nonblock || done);
        if (room < 0)
            return done ? done : room;
        u64 n = MIN(MIN(u->resid, (u64)room), (u64)CHUNK);
        r = uio_read_from(u, buf, n);
        if (r < 0)
            break;
        long w = pipe_push(f, buf, n, nonblock);
        done += MAX(w, 0);
        r = w < 0 ? w : !u->resid;
    }
    return done || r > 0 ? done : r;
}

static long vmsplice_in(struct file *f, struct uio *u, void *buf, bool nonblock)
{
    long done = 0;

    while (u->resid) {
        long n = pipe_take(f, buf, MIN(u->resid, (u64)CHUNK), nonblock || done);
        if (n > 0) {
            long r = uio_write_to(u, buf, (u64)n);
            n = r < 0 ? r : n;
        }
        if (n <= 0)
            return done ? done : n;
        done += n;
    }
    return done;
}

SYSCALL4(vmsplice, s32, fd, uptr, iov, u64, count, u32, flags)
{
    struct uio u;

    if (flags & ~SPLICE_F_ALL)
        return -EINVAL;
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = file_is_pipe(f) ? uio_import(&u, iov, count) : -EBADF;
    if (!r) {
        void *buf = kmalloc(CHUNK);
        bool nonblock = flags & SPLICE_F_NONBLOCK;
        r = !buf ? -ENOMEM : f->mode & FMODE_WRITE ? vmsplice_out(f, &u, buf, nonblock) : vmsplice_in(f, &u, buf, nonblock);
        kfree(buf);
        uio_release(&u);
    }
    file_put(f);
    return r;
}
