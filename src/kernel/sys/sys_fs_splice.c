/* splice, tee and vmsplice: through a kernel buffer; and the connection of vfs with pipes (vfs/hooks.h). */
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "ipc/pipe.h"
#include "sys/syscall.h"
#include "vfs/hooks.h"
#include "vfs/internal.h"

#define SPLICE_F_NONBLOCK 2u
#define SPLICE_ALL 15u
#define CHUNK 65536u

static void inode_gone(struct inode *i)
{
    if (i->pipe)
        pipe_inode_free(i);
}

void fs_hooks_init(void)
{
    hooks.fifo_ops = &pipe_fops;
    hooks.pipe_size = pipe_fcntl;
    hooks.inode_gone = inode_gone;
}

/* One piece from a pipe to a file, or to another pipe. *pos: file position, NULL for streams. */
static long from_pipe(struct file *in, struct file *out, u64 *pos, char *buf, u64 size, bool nonblock)
{
    long got = pipe_take(in, buf, size, nonblock);
    if (got <= 0)
        return got;
    struct uio u;
    uio_kernel(&u, buf, (u64)got);
    long r = file_is_pipe(out) ? pipe_push(out, buf, (size_t)got, nonblock) : file_write(out, &u, pos);
    if (r < got)
        pipe_unread(in, buf + (r > 0 ? r : 0), (size_t)(got - (r > 0 ? r : 0)));
    return r;
}

static long to_pipe(struct file *in, u64 *pos, struct file *out, char *buf, u64 size, bool nonblock)
{
    struct uio u;
    u64 at = *pos;
    uio_kernel(&u, buf, size);
    long got = file_read(in, &u, &at);
    if (got <= 0)
        return got;
    long r = pipe_push(out, buf, (size_t)got, nonblock);
    if (r > 0)
        *pos += (u64)r; /* a stream loses what the pipe did not take: sockets are read for what fits only */
    return r;
}

static long do_splice_files(struct file *in, uptr in_off, struct file *out, uptr out_off, u64 size, u32 flags)
{
    bool ip = file_is_pipe(in), op = file_is_pipe(out), nonblock = flags & SPLICE_F_NONBLOCK;
    u64 pos;
    if (!(in->mode & FMODE_READ) || !(out->mode & FMODE_WRITE))
        return -EBADF;
    if (!ip && !op)
        return -EINVAL;
    if ((ip && in_off) || (op && out_off))
        return -ESPIPE;
    if (ip && op && in->inode->pipe && in->inode->pipe == out->inode->pipe)
        return -EINVAL;
    if ((in_off && !(in->mode & FMODE_PREAD)) || (out_off && !(out->mode & FMODE_PREAD)))
        return -EINVAL;
    if (!ip && S_ISDIR(in->inode->mode))
        return -EISDIR;
    if (!op && (out->flags & O_APPEND))
        return -EINVAL;
    struct file *other = ip ? out : in;
    uptr off = ip ? out_off : in_off;
    if (off && get_user(pos, off))
        return -EFAULT;
    u64 *at = off ? &pos : &other->pos;
    if (!size)
        return 0;
    char *buf = kmalloc(MIN(size, (u64)CHUNK));
    if (!buf)
        return -ENOMEM;
    long r = ip ? from_pipe(in, out, at, buf, MIN(size, (u64)CHUNK), nonblock)
                : to_pipe(in, at, out, buf, MIN(size, (u64)CHUNK), nonblock);
    kfree(buf);
    if (r > 0 && off && put_user(pos, off))
        r = -EFAULT;
    return r;
}

SYSCALL6(splice, int, fd_in, uptr, off_in, int, fd_out, uptr, off_out, u64, size, u32, flags)
{
    if (flags & ~SPLICE_ALL)
        return -EINVAL;
    struct file *in = fd_get(fd_in), *out = in ? fd_get(fd_out) : NULL;
    long r = out ? do_splice_files(in, off_in, out, off_out, size, flags) : -EBADF;
    if (in)
        file_put(in);
    if (out)
        file_put(out);
    return r;
}

SYSCALL4(tee, int, fd_in, int, fd_out, u64, size, u32, flags)
{
    if (flags & ~SPLICE_ALL)
        return -EINVAL;
    struct file *in = fd_get(fd_in), *out = in ? fd_get(fd_out) : NULL;
    long r = -EBADF;
    if (out && (in->mode & FMODE_READ) && (out->mode & FMODE_WRITE)) {
        char *buf = kmalloc(CHUNK);
        r = !file_is_pipe(in) || !file_is_pipe(out) ? -EINVAL : buf ? 0 : -ENOMEM;
        if (!r && size) {
            r = pipe_peek(in, buf, MIN(size, (u64)CHUNK), flags & SPLICE_F_NONBLOCK);
            if (r > 0)
                r = pipe_push(out, buf, (size_t)r, flags & SPLICE_F_NONBLOCK);
        }
        kfree(buf);
    }
    if (in)
        file_put(in);
    if (out)
        file_put(out);
    return r;
}

SYSCALL4(vmsplice, int, fd, uptr, iov, u64, count, u32, flags)
{
    struct uio u;
    if (flags & ~SPLICE_ALL)
        return -EINVAL;
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = file_is_pipe(f) ? uio_import(&u, iov, count) : -EBADF;
    if (!r) {
        r = f->mode & FMODE_WRITE ? file_write(f, &u, &f->pos) : file_read(f, &u, &f->pos);
        uio_release(&u);
    }
    file_put(f);
    return r;
}
