/* System calls that move bytes: read and write in all forms, lseek, sendfile, copy_file_range, splice's file sides,
 * getdents, truncate, fallocate, fsync and advice. */
#include <linux/falloc.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "sys/syscall.h"
#include "vfs/internal.h"

#define RW_MAX 0x7ffff000ull
#define COPY_CHUNK 65536u
#define RLIM_FSIZE 1

static long rw(int fd, struct uio *u, bool write)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    bool locked = file_pos_begin(f);
    long r = write ? file_write(f, u, &f->pos) : file_read(f, u, &f->pos);
    file_pos_end(f, locked);
    file_put(f);
    return r;
}

static long prw(int fd, struct uio *u, u64 pos, bool write, u32 extra_flags)
{
    if ((s64)pos < 0)
        return -EINVAL;
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r;
    if (!(f->mode & FMODE_PREAD))
        r = f->mode & FMODE_PATH ? -EBADF : -ESPIPE;
    else if (write && (extra_flags & RWF_APPEND) && f->inode) {
        u64 end = f->inode->size;
        r = file_write(f, u, &end);
    } else
        r = write ? file_write(f, u, &pos) : file_read(f, u, &pos);
    if (r > 0 && write && (extra_flags & (RWF_DSYNC | RWF_SYNC)) && f->ops->fsync)
        f->ops->fsync(f, true);
    file_put(f);
    return r;
}

static long check_size(u64 *size)
{
    if ((s64)*size < 0)
        return -EFAULT; /* no buffer is that large */
    if (*size > RW_MAX)
        *size = RW_MAX;
    return 0;
}

SYSCALL3(read, int, fd, uptr, buf, u64, size)
{
    struct uio u;
    if (unlikely(check_size(&size)))
        return -EFAULT;
    uio_user(&u, buf, size);
    return rw(fd, &u, false);
}

SYSCALL3(write, int, fd, uptr, buf, u64, size)
{
    struct uio u;
    if (unlikely(check_size(&size)))
        return -EFAULT;
    uio_user(&u, buf, size);
    return rw(fd, &u, true);
}

SYSCALL4(pread64, int, fd, uptr, buf, u64, size, u64, pos)
{
    struct uio u;
    if (check_size(&size))
        return -EFAULT;
    uio_user(&u, buf, size);
    return prw(fd, &u, pos, false, 0);
}

SYSCALL4(pwrite64, int, fd, uptr, buf, u64, size, u64, pos)
{
    struct uio u;
    if (check_size(&size))
        return -EFAULT;
    uio_user(&u, buf, size);
    return prw(fd, &u, pos, true, 0);
}

static long vector(int fd, uptr iov, u64 count, u64 pos, bool write, bool at, u32 flags)
{
    struct uio u;
    struct file *f = fd_get(fd); /* EBADF before EFAULT */
    if (!f)
        return -EBADF;
    file_put(f);
    long r = uio_import(&u, iov, count);
    if (r)
        return r;
    if (u.resid > RW_MAX)
        u.resid = RW_MAX;
    uio_skip(&u, call_done_before());
    r = at ? prw(fd, &u, pos, write, flags) : rw(fd, &u, write);
    if (write && r > 0 && u.resid)
        call_wants_rest();
    uio_release(&u);
    return r;
}

SYSCALL3(readv, int, fd, uptr, iov, u64, count)
{
    return vector(fd, iov, count, 0, false, false, 0);
}

SYSCALL3(writev, int, fd, uptr, iov, u64, count)
{
    return vector(fd, iov, count, 0, true, false, 0);
}

SYSCALL5(preadv, int, fd, uptr, iov, u64, count, u64, lo, u64, hi)
{
    (void)hi;
    return vector(fd, iov, count, lo, false, true, 0);
}

SYSCALL5(pwritev, int, fd, uptr, iov, u64, count, u64, lo, u64, hi)
{
    (void)hi;
    return vector(fd, iov, count, lo, true, true, 0);
}

#define RWF_KNOWN (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND)

SYSCALL6(preadv2, int, fd, uptr, iov, u64, count, u64, lo, u64, hi, u32, flags)
{
    (void)hi;
    if (flags & ~(u32)RWF_KNOWN || (flags & RWF_APPEND))
        return -EOPNOTSUPP;
    return vector(fd, iov, count, lo, false, (s64)lo != -1, flags);
}

SYSCALL6(pwritev2, int, fd, uptr, iov, u64, count, u64, lo, u64, hi, u32, flags)
{
    (void)hi;
    if (flags & ~(u32)RWF_KNOWN)
        return -EOPNOTSUPP;
    return vector(fd, iov, count, lo, true, (s64)lo != -1, flags);
}

SYSCALL3(lseek, int, fd, s64, off, u32, whence)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = -EINVAL;
    if (f->mode & FMODE_PATH) {
        r = -EBADF;
    } else if (whence <= SEEK_HOLE) {
        bool locked = file_pos_begin(f);
        r = file_seek(f, off, (int)whence);
        file_pos_end(f, locked);
    }
    file_put(f);
    return r;
}

/* ---- copying between files ---- */

/* Through a kernel buffer; positions advance by what the target took. NULL position: a stream. */
long sys_copy_range(struct file *in, u64 *in_pos, struct file *out, u64 *out_pos, u64 size)
{
    char *buf = kmalloc(MIN(size, (u64)COPY_CHUNK) + 1);
    long done = 0, r = 0;
    if (!buf)
        return -ENOMEM;
    while ((u64)done < size) {
        struct uio u;
        u64 pos = *in_pos;
        uio_kernel(&u, buf, MIN(size - (u64)done, (u64)COPY_CHUNK));
        r = file_read(in, &u, &pos);
        if (r <= 0)
            break;
        u64 got = (u64)r, put = 0;
        while (put < got) {
            uio_kernel(&u, buf + put, got - put);
            r = file_write(out, &u, out_pos);
            if (r <= 0)
                break;
            put += (u64)r;
            done += r;
        }
        *in_pos += put;
        if (put < got)
            break;
        if (out->flags & O_NONBLOCK && signal_pending())
            break;
    }
    kfree(buf);
    return done ? done : r;
}

SYSCALL4(sendfile, int, out_fd, int, in_fd, uptr, off_addr, u64, size)
{
    s64 off = 0;
    if (off_addr && get_user(off, off_addr))
        return -EFAULT;
    size = MIN(size, RW_MAX);
    struct file *in = fd_get(in_fd), *out = in ? fd_get(out_fd) : NULL;
    long r = -EBADF;
    if (!out)
        goto out;
    if (!(in->mode & FMODE_READ) || !(out->mode & FMODE_WRITE))
        goto out;
    r = -EINVAL;
    if (off_addr && !(in->mode & FMODE_PREAD)) {
        r = -ESPIPE;
        goto out;
    }
    if (!(in->mode & FMODE_PREAD) || off < 0 || (out->flags & O_APPEND))
        goto out;
    if (off_addr) {
        u64 pos = (u64)off;
        r = sys_copy_range(in, &pos, out, &out->pos, size);
        off = (s64)pos;
        if (r >= 0 && put_user(off, off_addr))
            r = -EFAULT;
    } else {
        bool locked = file_pos_begin(in);
        r = sys_copy_range(in, &in->pos, out, &out->pos, size);
        file_pos_end(in, locked);
    }
out:
    if (in)
        file_put(in);
    if (out)
        file_put(out);
    return r;
}

SYSCALL6(copy_file_range, int, in_fd, uptr, in_off, int, out_fd, uptr, out_off, u64, size, u32, flags)
{
    if (flags)
        return -EINVAL;
    struct file *in = fd_get(in_fd), *out = in ? fd_get(out_fd) : NULL;
    long r = -EBADF;
    u64 a, b;
    if (!out)
        goto out;
    a = in->pos;
    b = out->pos;
    r = -EFAULT;
    if ((in_off && get_user(a, in_off)) || (out_off && get_user(b, out_off)))
        goto out;
    r = -EBADF;
    if (!(in->mode & FMODE_READ) || !(out->mode & FMODE_WRITE) || (out->flags & O_APPEND))
        goto out;
    r = S_ISDIR(in->inode->mode) || S_ISDIR(out->inode->mode) ? -EISDIR : -EINVAL;
    if (!S_ISREG(in->inode->mode) || !S_ISREG(out->inode->mode) || (s64)a < 0 || (s64)b < 0)
        goto out;
    if (size > RW_MAX)
        size = RW_MAX;
    if (in->inode == out->inode && a < b + size && b < a + size)
        goto out;
    r = sys_copy_range(in, &a, out, &b, size);
    if (r > 0) {
        if (!in_off)
            in->pos = a;
        if (!out_off)
            out->pos = b;
        if ((in_off && put_user(a, in_off)) || (out_off && put_user(b, out_off)))
            r = -EFAULT;
    }
out:
    if (in)
        file_put(in);
    if (out)
        file_put(out);
    return r;
}

/* ---- directories ---- */

struct getdents {
    struct dir_ctx c;
    uptr buf;
    u64 size, used;
    long error;
    bool old; /* getdents, not getdents64 */
};

struct dirent_head {
    u64 ino, off;
    u16 reclen;
    u8 type;
    char name[NAME_LEN_MAX + 1 + 14];
};

static bool emit_dirent(struct dir_ctx *c, const char *name, u32 len, u64 next_pos, u64 ino, u32 type)
{
    struct getdents *g = container_of(c, struct getdents, c);
    struct dirent_head h;
    char *h_name = g->old ? (char *)&h.type : h.name;
    if (len > NAME_LEN_MAX)
        return false;
    u64 head = (u64)(h_name - (char *)&h);
    u64 reclen = ALIGN_UP(head + len + 1 + (g->old ? 1 : 0), 8);
    if (g->used + reclen > g->size) {
        if (!g->used)
            g->error = -EINVAL;
        return false;
    }
    h.ino = ino;
    h.off = next_pos;
    h.reclen = (u16)reclen;
    if (!g->old)
        h.type = (u8)type;
    memcpy(h_name, name, len);
    memset(h_name + len, 0, reclen - head - len);
    if (g->old)
        ((char *)&h)[reclen - 1] = (char)type;
    if (copy_to_user(g->buf + g->used, &h, reclen)) {
        if (!g->used)
            g->error = -EFAULT;
        return false;
    }
    g->used += reclen;
    return true;
}

static long getdents(int fd, uptr buf, u32 size, bool old)
{
    struct getdents g = {.c = {.emit = emit_dirent}, .buf = buf, .size = size, .old = old};
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r;
    if (f->mode & FMODE_PATH) {
        r = -EBADF;
    } else if (!f->ops->iterate) {
        r = -ENOTDIR;
    } else {
        bool locked = file_pos_begin(f);
        mutex_lock(&f->inode->lock);
        if (f->inode->flags & INODE_DEAD_DIR) {
            r = -ENOENT;
        } else {
            g.c.pos = f->pos;
            r = f->ops->iterate(f, &g.c);
            f->pos = g.c.pos;
        }
        mutex_unlock(&f->inode->lock);
        file_pos_end(f, locked);
        if (g.used)
            r = (long)g.used;
        else if (r >= 0)
            r = g.error;
    }
    file_put(f);
    return r;
}

SYSCALL3(getdents, int, fd, uptr, buf, u32, size)
{
    return getdents(fd, buf, size, true);
}

SYSCALL3(getdents64, int, fd, uptr, buf, u32, size)
{
    return getdents(fd, buf, size, false);
}

/* ---- size ---- */

SYSCALL2(truncate, uptr, name, s64, size)
{
    struct path p;
    if (size < 0)
        return -EINVAL;
    long r = user_path(AT_FDCWD, name, LOOKUP_FOLLOW, &p);
    if (r)
        return r;
    struct inode *i = p.dentry->inode;
    if (S_ISDIR(i->mode))
        r = -EISDIR;
    else if (!S_ISREG(i->mode))
        r = -EINVAL;
    else if (mount_readonly(p.mnt))
        r = -EROFS;
    else if (!(r = inode_permission(i, MAY_WRITE)))
        r = atomic_load(&i->write_count) < 0 ? -ETXTBSY : vfs_truncate(&p, (u64)size);
    path_put(&p);
    return r;
}

SYSCALL2(ftruncate, int, fd, s64, size)
{
    if (size < 0)
        return -EINVAL;
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r;
    if (f->mode & FMODE_PATH)
        r = -EBADF;
    else if (!(f->mode & FMODE_WRITE) || !S_ISREG(f->inode->mode))
        r = -EINVAL;
    else
        r = vfs_truncate(&f->path, (u64)size);
    file_put(f);
    return r;
}

SYSCALL4(fallocate, int, fd, int, mode, s64, off, s64, size)
{
    if (off < 0 || size <= 0)
        return -EINVAL;
    if (off + size < 0)
        return -EFBIG;
    if ((mode & FALLOC_FL_PUNCH_HOLE) && !(mode & FALLOC_FL_KEEP_SIZE))
        return -EOPNOTSUPP;
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r;
    if (!(f->mode & FMODE_WRITE))
        r = -EBADF;
    else if (S_ISREG(f->inode->mode) && !(mode & FALLOC_FL_KEEP_SIZE) &&
             (u64)off + (u64)size > MAX(f->inode->size, current_rlimit(RLIM_FSIZE))) {
        send_signal_current(25 /* SIGXFSZ */);
        r = -EFBIG;
    } else if (!f->ops->fallocate)
        r = S_ISFIFO(f->inode->mode) ? -ESPIPE : S_ISDIR(f->inode->mode) ? -EISDIR : S_ISREG(f->inode->mode) ?
            -EOPNOTSUPP : -ENODEV;
    else
        r = f->ops->fallocate(f, mode, (u64)off, (u64)size);
    if (!r)
        notify_file(f, FSN_MODIFY);
    file_put(f);
    return r;
}

static long sync_file(struct file *f, bool data_only)
{
    if (f->mode & FMODE_PATH)
        return -EBADF;
    if (f->ops->fsync)
        return f->ops->fsync(f, data_only);
    return S_ISREG(f->inode->mode) || S_ISDIR(f->inode->mode) ? 0 : -EINVAL;
}

static long sync_fd(int fd, bool data_only)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = sync_file(f, data_only);
    file_put(f);
    return r;
}

SYSCALL1(fsync, int, fd)
{
    return sync_fd(fd, false);
}

SYSCALL1(fdatasync, int, fd)
{
    return sync_fd(fd, true);
}

static long sync_all(struct super_block *only)
{
    long r = 0;
    mutex_lock(&mount_lock);
    struct mount *m;
    list_for_each(m, mount_list(), link)
    {
        if ((!only || m->sb == only) && m->sb->ops->sync)
            r = m->sb->ops->sync(m->sb);
    }
    mutex_unlock(&mount_lock);
    return r;
}

SYSCALL0(sync)
{
    sync_all(NULL);
    return 0;
}

SYSCALL1(syncfs, int, fd)
{
    struct file *f = fd_get(fd);
    if (!f || (f->mode & FMODE_PATH)) {
        if (f)
            file_put(f);
        return -EBADF;
    }
    long r = sync_all(f->inode->sb);
    file_put(f);
    return r;
}

SYSCALL4(sync_file_range, int, fd, s64, off, s64, size, u32, flags)
{
    if ((flags & ~7u) || off < 0 || size < 0 || off + size < off)
        return -EINVAL;
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    u32 mode = f->inode->mode;
    bool seekable = S_ISREG(mode) || S_ISBLK(mode) || S_ISDIR(mode) || S_ISLNK(mode);
    long r = seekable || f->mode & FMODE_PATH ? sync_file(f, true) : -ESPIPE;
    file_put(f);
    return r;
}

static long advice(int fd)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = f->mode & FMODE_PATH ? -EBADF : S_ISFIFO(f->inode->mode) ? -ESPIPE : 0;
    file_put(f);
    return r;
}

SYSCALL4(fadvise64, int, fd, s64, off, s64, size, int, what)
{
    (void)off;
    long r = advice(fd);
    return r ? r : size < 0 || what < 0 || what > 5 ? -EINVAL : 0;
}

SYSCALL3(readahead, int, fd, s64, off, u64, size)
{
    struct file *f = fd_get(fd);
    (void)off;
    (void)size;
    if (!f)
        return -EBADF;
    long r = !(f->mode & FMODE_READ) ? -EBADF : S_ISREG(f->inode->mode) ? 0 : -EINVAL;
    file_put(f);
    return r;
}
