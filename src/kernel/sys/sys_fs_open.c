/* System calls on descriptors: open, close, dup, fcntl, flock, ioctl, memfd_create. */
#include <linux/close_range.h>
#include <linux/memfd.h>
#include <linux/openat2.h>
#include <asm/ioctls.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "sys/syscall.h"
#include "vfs/hooks.h"
#include "vfs/internal.h"

long shmem_seals(struct file *f, bool add, u32 seals); /* fs/tmpfs */

static long do_open_at(int dirfd, uptr name, u32 flags, u32 mode, u32 lookup)
{
    struct name_buf n;
    if ((flags & __O_TMPFILE) && (flags & O_TMPFILE) != O_TMPFILE)
        return -EINVAL;
    long r = name_from_user(&n, name);
    if (r < 0)
        return r;
    if (!(flags & O_PATH))
        flags |= O_LARGEFILE;
    struct file *f = file_open_how(dirfd, n.p, flags, mode, lookup);
    name_free(&n);
    return fd_new(f, flags);
}

SYSCALL3(open, uptr, name, u32, flags, u32, mode)
{
    return do_open_at(AT_FDCWD, name, flags, mode, 0);
}

SYSCALL4(openat, int, dirfd, uptr, name, u32, flags, u32, mode)
{
    return do_open_at(dirfd, name, flags, mode, 0);
}

SYSCALL2(creat, uptr, name, u32, mode)
{
    return do_open_at(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode, 0);
}

#define OPEN_FLAGS_ALL                                                                                                 \
    (O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_DSYNC | FASYNC | O_DIRECT |         \
     O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC | O_SYNC | O_PATH | O_TMPFILE)

SYSCALL4(openat2, int, dirfd, uptr, name, uptr, how_addr, u64, size)
{
    struct open_how how = {0};
    if (size < sizeof(how))
        return -EINVAL;
    if (size > PAGE_SIZE)
        return -E2BIG;
    if (copy_from_user(&how, how_addr, sizeof(how)))
        return -EFAULT;
    for (u64 n = sizeof(how); n < size; n++) {
        u8 c;
        if (copy_from_user(&c, how_addr + n, 1))
            return -EFAULT;
        if (c)
            return -E2BIG;
    }
    if ((how.flags & ~(u64)OPEN_FLAGS_ALL) || (how.mode & ~(u64)PERM_MASK))
        return -EINVAL;
    if (how.mode && !(how.flags & (O_CREAT | __O_TMPFILE)))
        return -EINVAL;
    if ((how.flags & O_PATH) && (how.flags & ~(u64)(O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)))
        return -EINVAL;
    if (how.resolve & ~(u64)(RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH |
                             RESOLVE_IN_ROOT | RESOLVE_CACHED))
        return -EINVAL;
    if ((how.resolve & RESOLVE_BENEATH) && (how.resolve & RESOLVE_IN_ROOT))
        return -EINVAL;
    if (how.resolve & RESOLVE_CACHED)
        return -EAGAIN;
    u32 lookup = (how.resolve & RESOLVE_NO_XDEV ? LOOKUP_NO_XDEV : 0) |
                 (how.resolve & RESOLVE_NO_MAGICLINKS ? LOOKUP_NO_MAGICLINKS : 0) |
                 (how.resolve & RESOLVE_NO_SYMLINKS ? LOOKUP_NO_SYMLINKS | LOOKUP_NO_MAGICLINKS : 0) |
                 (how.resolve & RESOLVE_BENEATH ? LOOKUP_BENEATH : 0) |
                 (how.resolve & RESOLVE_IN_ROOT ? LOOKUP_IN_ROOT : 0);
    return do_open_at(dirfd, name, (u32)how.flags, (u32)how.mode, lookup);
}

SYSCALL1(close, int, fd)
{
    long r = fd_close(fd);
    return r <= -ERESTARTSYS ? -EINTR : r;
}

SYSCALL3(close_range, u32, first, u32, last, u32, flags)
{
    if (flags & ~(u32)(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC))
        return -EINVAL;
    if (first > last)
        return -EINVAL;
    long r = flags & CLOSE_RANGE_UNSHARE ? current_unshare_files() : 0;
    return r ? r : fd_close_range(first, last, flags);
}

SYSCALL1(dup, int, fd)
{
    return fd_dup(fd, 0, 0);
}

SYSCALL2(dup2, int, fd, int, new_fd)
{
    if (fd == new_fd) {
        struct file *f = fd_get(fd);
        if (!f)
            return -EBADF;
        file_put(f);
        return fd;
    }
    return fd_dup_to(fd, new_fd, 0);
}

SYSCALL3(dup3, int, fd, int, new_fd, u32, flags)
{
    if (fd == new_fd || (flags & ~(u32)O_CLOEXEC))
        return -EINVAL;
    return fd_dup_to(fd, new_fd, flags);
}

/* ---- fcntl ---- */

#define F_LINUX_BASE 1024
#define F_DUPFD_CLOEXEC_ (F_LINUX_BASE + 6)
#define SETFL_MASK (O_APPEND | O_NONBLOCK | FASYNC | O_DIRECT | O_NOATIME)

static long set_flags(struct file *f, int fd, u32 flags)
{
    if ((flags & O_NOATIME) && !(f->flags & O_NOATIME) && !inode_owner_or_capable(f->inode))
        return -EPERM;
    bool async = (f->flags ^ flags) & FASYNC;
    u32 old = atomic_load(&f->flags);
    while (!__atomic_compare_exchange_n(&f->flags, &old, (old & ~(u32)SETFL_MASK) | (flags & SETFL_MASK), 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return async && hooks.set_async ? hooks.set_async(f, fd) : 0;
}

/* Another thread may have closed the descriptor meanwhile, and dropped the locks there were: nobody would ever drop this one. EBADF, as on
 * Linux. */
static long set_lock(struct file *f, int fd, u32 cmd, struct flock *fl)
{
    bool mine = (cmd == F_SETLK || cmd == F_SETLKW) && fl->l_type != F_UNLCK;
    long r = posix_lock_set(f, cmd, fl);
    if (r || !mine || files_single())
        return r;
    struct file *now = fd_get(fd);
    if (now != f) {
        posix_locks_drop(f, current_files());
        r = -EBADF;
    }
    if (now)
        file_put(now);
    return r;
}

static long fcntl_lock(struct file *f, int fd, u32 cmd, uptr arg)
{
    struct flock fl;
    if (copy_from_user(&fl, arg, sizeof(fl)))
        return -EFAULT;
    if (cmd != F_GETLK && cmd != F_OFD_GETLK)
        return set_lock(f, fd, cmd, &fl);
    long r = posix_lock_get(f, cmd, &fl);
    return r ? r : copy_to_user(arg, &fl, sizeof(fl));
}

static long fcntl_owner(struct file *f, u32 cmd, u64 arg)
{
    struct f_owner_ex ex;
    switch (cmd) {
    case F_SETOWN: {
        s32 who = (s32)arg;
        if (who == (s32)0x80000000)
            return -EINVAL;
        if (who && (who < 0 ? signal_pgrp((u32)-who, 0) : signal_pid((u32)who, 0)))
            return -ESRCH;
        f->owner_type = who < 0 ? F_OWNER_PGRP : F_OWNER_PID;
        f->owner_pid = (u32)(who < 0 ? -who : who);
        return 0;
    }
    case F_GETOWN: return f->owner_type == F_OWNER_PGRP ? -(long)f->owner_pid : (long)f->owner_pid;
    case F_SETOWN_EX:
        if (copy_from_user(&ex, arg, sizeof(ex)))
            return -EFAULT;
        if (ex.type < F_OWNER_TID || ex.type > F_OWNER_PGRP)
            return -EINVAL;
        f->owner_type = ex.type;
        f->owner_pid = (u32)ex.pid;
        return 0;
    case F_GETOWN_EX:
        ex.type = f->owner_type;
        ex.pid = (s32)f->owner_pid;
        return copy_to_user(arg, &ex, sizeof(ex));
    case F_SETSIG:
        if (arg > 64)
            return -EINVAL;
        f->owner_sig = (int)arg;
        return 0;
    default: return f->owner_sig; /* F_GETSIG */
    }
}

static long do_fcntl_file(struct file *f, int fd, u32 cmd, u64 arg)
{
    switch (cmd) {
    case F_DUPFD: return fd_dup(fd, (u32)arg, 0);
    case F_DUPFD_CLOEXEC_: return fd_dup(fd, (u32)arg, O_CLOEXEC);
    case F_GETFD: return fd_get_cloexec(fd);
    case F_SETFD: return fd_set_cloexec(fd, arg & FD_CLOEXEC);
    case F_GETFL: return (long)f->flags;
    }
    if (f->mode & FMODE_PATH)
        return -EBADF;
    switch (cmd) {
    case F_SETFL: return set_flags(f, fd, (u32)arg);
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW: return fcntl_lock(f, fd, cmd, arg);
    case F_SETOWN:
    case F_GETOWN:
    case F_SETOWN_EX:
    case F_GETOWN_EX:
    case F_SETSIG:
    case F_GETSIG: return fcntl_owner(f, cmd, arg);
    case F_SETPIPE_SZ:
    case F_GETPIPE_SZ: return hooks.pipe_size ? hooks.pipe_size(f, cmd, arg) : -EBADF;
    case F_ADD_SEALS: return shmem_seals(f, true, (u32)arg);
    case F_GET_SEALS: return shmem_seals(f, false, 0);
    case F_GETLEASE: return F_UNLCK;
    case F_SETLEASE: return arg == F_UNLCK ? -EAGAIN : -EINVAL;
    case F_GET_RW_HINT:
    case F_GET_FILE_RW_HINT: {
        u64 none = 0;
        return put_user(none, arg);
    }
    case F_SET_RW_HINT:
    case F_SET_FILE_RW_HINT: {
        u64 hint;
        if (get_user(hint, arg))
            return -EFAULT;
        return hint > 5 ? -EINVAL : 0;
    }
    default: return -EINVAL;
    }
}

SYSCALL3(fcntl, int, fd, u32, cmd, u64, arg)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = do_fcntl_file(f, fd, cmd, arg);
    file_put(f);
    return r;
}

SYSCALL2(flock, int, fd, int, op)
{
    struct file *f = fd_get(fd);
    if (!f || (f->mode & FMODE_PATH)) {
        if (f)
            file_put(f);
        return -EBADF;
    }
    long r = flock_set(f, op);
    file_put(f);
    return r;
}

/* ---- ioctl ---- */

static long ioctl_fionread(struct file *f, uptr arg)
{
    struct kstat st;
    long r = vfs_getattr(&f->path, &st);
    if (r)
        return r;
    s64 left = (s64)(st.size - f->pos);
    int val = left < 0 ? 0 : left > 0x7fffffff ? 0x7fffffff : (int)left;
    return put_user(val, arg);
}

long sys_copy_range(struct file *in, u64 *in_pos, struct file *out, u64 *out_pos, u64 size); /* sys_fs_rw.c */

static long file_ioctl(struct file *f, int fd, u32 cmd, uptr arg)
{
    int on;
    switch (cmd) {
    case FIOCLEX: return fd_set_cloexec(fd, true);
    case FIONCLEX: return fd_set_cloexec(fd, false);
    case FIONBIO:
        if (get_user(on, arg))
            return -EFAULT;
        return set_flags(f, fd, on ? f->flags | O_NONBLOCK : f->flags & ~(u32)O_NONBLOCK);
    case FIOASYNC:
        if (get_user(on, arg))
            return -EFAULT;
        return set_flags(f, fd, on ? f->flags | FASYNC : f->flags & ~(u32)FASYNC);
    case FIONREAD:
        if (S_ISREG(f->inode->mode))
            return ioctl_fionread(f, arg);
        break;
    case FICLONE:
    case FICLONERANGE: return -EOPNOTSUPP;
    }
    if (!f->ops->ioctl)
        return -ENOTTY;
    return f->ops->ioctl(f, cmd, arg);
}

SYSCALL3(ioctl, int, fd, u32, cmd, uptr, arg)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = f->mode & FMODE_PATH ? -EBADF : file_ioctl(f, fd, cmd, arg);
    file_put(f);
    return r;
}

SYSCALL2(memfd_create, uptr, name, u32, flags)
{
    char text[7 + 250];
    if (flags & ~(u32)(MFD_CLOEXEC | MFD_ALLOW_SEALING | 8u /* NOEXEC_SEAL */ | 0x10u /* EXEC */))
        return flags & MFD_HUGETLB ? -ENOSYS : -EINVAL;
    if ((flags & 0x18u) == 0x18u)
        return -EINVAL;
    memcpy(text, "/memfd:", 7); /* NOLINT(bugprone-not-null-terminated-result): the name follows */
    long r = strncpy_from_user(text + 7, name, sizeof(text) - 7);
    if (r < 0)
        return r == -ENAMETOOLONG ? -EINVAL : r;
    struct file *f = shmem_file(text, 0, O_RDWR | O_LARGEFILE);
    if (IS_ERR(f))
        return PTR_ERR(f);
    if (flags & (MFD_ALLOW_SEALING | 8u))
        f->inode->flags |= INODE_SEALABLE;
    if (flags & 8u)
        f->inode->mode &= ~0111u;
    return fd_new(f, flags & MFD_CLOEXEC ? O_CLOEXEC : 0);
}

SYSCALL1(umask, u32, mask)
{
    return (long)atomic_xchg(&current_fs()->umask, mask & 0777);
}
