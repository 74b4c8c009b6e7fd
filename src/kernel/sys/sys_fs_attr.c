/* System calls on attributes: stat in all forms, access, chmod, chown, utimes, statfs, extended attributes. */
#include <asm/stat.h>
#include <asm/statfs.h>
#include <linux/time_types.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "sys/syscall.h"
#include "vfs/internal.h"

/* ---- stat ---- */

static long put_stat(uptr buf, const struct kstat *k)
{
    struct stat st;
    memset(&st, 0, sizeof(st));
    st.st_dev = k->dev;
    st.st_ino = k->ino;
    st.st_nlink = k->nlink;
    st.st_mode = k->mode;
    st.st_uid = k->uid;
    st.st_gid = k->gid;
    st.st_rdev = k->rdev;
    st.st_size = (long)k->size;
    st.st_blksize = k->blksize;
    st.st_blocks = (long)k->blocks;
    st.st_atime = (u64)k->atime.sec;
    st.st_atime_nsec = k->atime.nsec;
    st.st_mtime = (u64)k->mtime.sec;
    st.st_mtime_nsec = k->mtime.nsec;
    st.st_ctime = (u64)k->ctime.sec;
    st.st_ctime_nsec = k->ctime.nsec;
    return copy_to_user(buf, &st, sizeof(st));
}

static long getattr_at(int dirfd, uptr name, u32 flags, struct kstat *k)
{
    struct path p;
    if ((flags & AT_EMPTY_PATH) && dirfd >= 0) { /* fstat in disguise: no walk */
        char c;
        if (get_user(c, name))
            return -EFAULT;
        if (!c) {
            struct file *f = fd_get(dirfd);
            if (!f)
                return -EBADF;
            long r = vfs_getattr(&f->path, k);
            file_put(f);
            return r;
        }
    }
    long r = user_path(dirfd, name, (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) |
                       (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0), &p);
    if (r)
        return r;
    r = vfs_getattr(&p, k);
    path_put(&p);
    return r;
}

SYSCALL2(stat, uptr, name, uptr, buf)
{
    struct kstat k;
    long r = getattr_at(AT_FDCWD, name, 0, &k);
    return r ? r : put_stat(buf, &k);
}

SYSCALL2(lstat, uptr, name, uptr, buf)
{
    struct kstat k;
    long r = getattr_at(AT_FDCWD, name, AT_SYMLINK_NOFOLLOW, &k);
    return r ? r : put_stat(buf, &k);
}

SYSCALL2(fstat, int, fd, uptr, buf)
{
    struct kstat k;
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = vfs_getattr(&f->path, &k);
    file_put(f);
    return r ? r : put_stat(buf, &k);
}

SYSCALL4(newfstatat, int, dirfd, uptr, name, uptr, buf, u32, flags)
{
    struct kstat k;
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT))
        return -EINVAL;
    long r = getattr_at(dirfd, name, flags, &k);
    return r ? r : put_stat(buf, &k);
}

static u32 dev_major(u64 d)
{
    return (u32)(d >> 8 & 0xfff) | (u32)(d >> 32 & ~0xfffull);
}

static u32 dev_minor(u64 d)
{
    return (u32)(d & 0xff) | (u32)(d >> 12 & 0xffffff00);
}

static struct statx_timestamp stamp(struct ktime t)
{
    return (struct statx_timestamp){.tv_sec = t.sec, .tv_nsec = t.nsec};
}

SYSCALL5(statx, int, dirfd, uptr, name, u32, flags, u32, mask, uptr, buf)
{
    struct kstat k;
    struct statx x;
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_SYNC_TYPE))
        return -EINVAL;
    if ((flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE || (mask & STATX__RESERVED))
        return -EINVAL;
    long r = getattr_at(dirfd, name, flags, &k);
    if (r)
        return r;
    memset(&x, 0, sizeof(x));
    x.stx_mask = STATX_BASIC_STATS | (k.btime.sec ? STATX_BTIME : 0);
    x.stx_blksize = k.blksize;
    x.stx_nlink = k.nlink;
    x.stx_uid = k.uid;
    x.stx_gid = k.gid;
    x.stx_mode = (u16)k.mode;
    x.stx_ino = k.ino;
    x.stx_size = k.size;
    x.stx_blocks = k.blocks;
    x.stx_atime = stamp(k.atime);
    x.stx_mtime = stamp(k.mtime);
    x.stx_ctime = stamp(k.ctime);
    x.stx_btime = stamp(k.btime);
    x.stx_rdev_major = dev_major(k.rdev);
    x.stx_rdev_minor = dev_minor(k.rdev);
    x.stx_dev_major = dev_major(k.dev);
    x.stx_dev_minor = dev_minor(k.dev);
    return copy_to_user(buf, &x, sizeof(x));
}

/* ---- access ---- */

static long do_access_at(int dirfd, uptr name, u32 mode, u32 flags)
{
    struct path p;
    struct name_buf n;
    const struct cred *c = current_cred();
    struct cred *real = NULL;
    if ((mode & ~7u) || (flags & ~(u32)(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)))
        return -EINVAL;
    if (!(flags & AT_EACCESS) && (c->uid != c->fsuid || c->gid != c->fsgid ||
                                  (c->uid && c->cap_effective) || (!c->uid && c->cap_effective != c->cap_permitted))) {
        size_t size = sizeof(*c) + c->group_count * sizeof(c->groups[0]);
        real = kmalloc(size);
        if (!real)
            return -ENOMEM;
        memcpy(real, c, size);
        real->fsuid = c->uid;
        real->fsgid = c->gid;
        real->cap_effective = c->uid ? 0 : c->cap_permitted;
        c = real;
    }
    long r = name_from_user(&n, name);
    if (r < 0)
        goto out;
    r = path_lookup_cred(dirfd, n.p, (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) |
                         (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0), c, &p);
    name_free(&n);
    if (r)
        goto out;
    struct inode *i = p.dentry->inode;
    if ((mode & MAY_WRITE) && mount_readonly(p.mnt) && (S_ISREG(i->mode) || S_ISDIR(i->mode) || S_ISLNK(i->mode)))
        r = -EROFS;
    else if ((mode & MAY_EXEC) && S_ISREG(i->mode) && (p.mnt->flags & MS_NOEXEC))
        r = -EACCES;
    else
        r = mode ? inode_permission_cred(i, mode, c) : 0;
    path_put(&p);
out:
    kfree(real);
    return r;
}

SYSCALL2(access, uptr, name, u32, mode)
{
    return do_access_at(AT_FDCWD, name, mode, 0);
}

SYSCALL3(faccessat, int, dirfd, uptr, name, u32, mode)
{
    return do_access_at(dirfd, name, mode, 0);
}

SYSCALL4(faccessat2, int, dirfd, uptr, name, u32, mode, u32, flags)
{
    return do_access_at(dirfd, name, mode, flags);
}

/* ---- changing attributes ---- */

static long setattr_at(int dirfd, uptr name, u32 flags, struct iattr *a)
{
    struct path p;
    long r = user_path(dirfd, name, (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) |
                       (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0), &p);
    if (r)
        return r;
    if ((a->valid & ATTR_MODE) && S_ISLNK(p.dentry->inode->mode))
        r = -EOPNOTSUPP;
    else
        r = vfs_setattr(&p, a);
    path_put(&p);
    return r;
}

static long setattr_fd(int fd, struct iattr *a)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = f->mode & FMODE_PATH ? -EBADF : vfs_setattr(&f->path, a);
    file_put(f);
    return r;
}

#define MODE_ATTR(m) {.valid = ATTR_MODE, .mode = (m) & PERM_MASK}

SYSCALL2(chmod, uptr, name, u32, mode)
{
    struct iattr a = MODE_ATTR(mode);
    return setattr_at(AT_FDCWD, name, 0, &a);
}

SYSCALL2(fchmod, int, fd, u32, mode)
{
    struct iattr a = MODE_ATTR(mode);
    return setattr_fd(fd, &a);
}

SYSCALL3(fchmodat, int, dirfd, uptr, name, u32, mode)
{
    struct iattr a = MODE_ATTR(mode);
    return setattr_at(dirfd, name, 0, &a);
}

SYSCALL4(fchmodat2, int, dirfd, uptr, name, u32, mode, u32, flags)
{
    struct iattr a = MODE_ATTR(mode);
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    return setattr_at(dirfd, name, flags, &a);
}

static struct iattr owner_attr(u32 uid, u32 gid)
{
    return (struct iattr){.valid = (uid != ~0u ? ATTR_UID : 0) | (gid != ~0u ? ATTR_GID : 0), .uid = uid, .gid = gid};
}

SYSCALL3(chown, uptr, name, u32, uid, u32, gid)
{
    struct iattr a = owner_attr(uid, gid);
    return setattr_at(AT_FDCWD, name, 0, &a);
}

SYSCALL3(lchown, uptr, name, u32, uid, u32, gid)
{
    struct iattr a = owner_attr(uid, gid);
    return setattr_at(AT_FDCWD, name, AT_SYMLINK_NOFOLLOW, &a);
}

SYSCALL3(fchown, int, fd, u32, uid, u32, gid)
{
    struct iattr a = owner_attr(uid, gid);
    return setattr_fd(fd, &a);
}

SYSCALL5(fchownat, int, dirfd, uptr, name, u32, uid, u32, gid, u32, flags)
{
    struct iattr a = owner_attr(uid, gid);
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    return setattr_at(dirfd, name, flags, &a);
}

#define UTIME_NOW_ 0x3fffffff
#define UTIME_OMIT_ 0x3ffffffe

/* times: two nanosecond stamps, or NULL for now. */
static long set_times(int dirfd, uptr name, u32 flags, const struct __kernel_timespec *times)
{
    struct path p;
    struct iattr a = {.valid = ATTR_ATIME | ATTR_MTIME};
    a.atime = a.mtime = now_ktime();
    bool now = !times;
    if (times) {
        for (u32 n = 0; n < 2; n++)
            if (times[n].tv_nsec != UTIME_NOW_ && times[n].tv_nsec != UTIME_OMIT_ &&
                (u64)times[n].tv_nsec > 999999999)
                return -EINVAL;
        if (times[0].tv_nsec == UTIME_OMIT_ && times[1].tv_nsec == UTIME_OMIT_)
            return 0;
        now = times[0].tv_nsec == UTIME_NOW_ && times[1].tv_nsec == UTIME_NOW_;
        if (times[0].tv_nsec == UTIME_OMIT_)
            a.valid &= ~ATTR_ATIME;
        else if (times[0].tv_nsec != UTIME_NOW_)
            a.atime = (struct ktime){times[0].tv_sec, (u32)times[0].tv_nsec};
        if (times[1].tv_nsec == UTIME_OMIT_)
            a.valid &= ~ATTR_MTIME;
        else if (times[1].tv_nsec != UTIME_NOW_)
            a.mtime = (struct ktime){times[1].tv_sec, (u32)times[1].tv_nsec};
    }
    long r;
    if (!name) {
        struct file *f = fd_get(dirfd);
        if (!f)
            return -EBADF;
        r = f->mode & FMODE_PATH ? -EBADF : 0;
        p = f->path;
        path_get(&p);
        file_put(f);
        if (r) {
            path_put(&p);
            return r;
        }
    } else {
        r = user_path(dirfd, name, (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) |
                      (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0), &p);
        if (r)
            return r;
    }
    struct inode *i = p.dentry->inode;
    if (mount_readonly(p.mnt))
        r = -EROFS;
    else if (!inode_owner_or_capable(i))
        r = now ? (inode_permission(i, MAY_WRITE) ? -EACCES : 0) : -EPERM;
    if (!r)
        r = vfs_setattr(&p, &a);
    path_put(&p);
    return r;
}

SYSCALL4(utimensat, int, dirfd, uptr, name, uptr, times, u32, flags)
{
    struct __kernel_timespec t[2];
    if (times && copy_from_user(t, times, sizeof(t)))
        return -EFAULT;
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    if (!name && dirfd == AT_FDCWD)
        return -EFAULT;
    if (!name && flags)
        return -EINVAL;
    return set_times(dirfd, name, flags, times ? t : NULL);
}

static long set_times_us(int dirfd, uptr name, uptr times)
{
    struct __kernel_timespec t[2];
    s64 tv[4];
    if (!times)
        return set_times(dirfd, name, 0, NULL);
    if (copy_from_user(tv, times, sizeof(tv)))
        return -EFAULT;
    for (u32 n = 0; n < 2; n++) {
        if ((u64)tv[n * 2 + 1] >= 1000000)
            return -EINVAL;
        t[n] = (struct __kernel_timespec){tv[n * 2], tv[n * 2 + 1] * 1000};
    }
    return set_times(dirfd, name, 0, t);
}

SYSCALL2(utimes, uptr, name, uptr, times)
{
    return name ? set_times_us(AT_FDCWD, name, times) : -EFAULT;
}

SYSCALL3(futimesat, int, dirfd, uptr, name, uptr, times)
{
    return set_times_us(dirfd, name, times);
}

SYSCALL2(utime, uptr, name, uptr, times)
{
    struct __kernel_timespec t[2] = {{0}};
    s64 tv[2];
    if (!name)
        return -EFAULT;
    if (!times)
        return set_times(AT_FDCWD, name, 0, NULL);
    if (copy_from_user(tv, times, sizeof(tv)))
        return -EFAULT;
    t[0].tv_sec = tv[0];
    t[1].tv_sec = tv[1];
    return set_times(AT_FDCWD, name, 0, t);
}

/* ---- statfs ---- */

static long put_statfs(const struct path *p, uptr buf)
{
    struct kstatfs k = {.bsize = PAGE_SIZE, .namelen = NAME_LEN_MAX};
    struct statfs st;
    struct super_block *sb = p->dentry->inode->sb;
    if (sb->ops->statfs) {
        long r = sb->ops->statfs(sb, &k);
        if (r)
            return r;
    }
    memset(&st, 0, sizeof(st));
    st.f_type = (long)k.type;
    st.f_bsize = (long)k.bsize;
    st.f_frsize = (long)k.bsize;
    st.f_blocks = (long)k.blocks;
    st.f_bfree = (long)k.bfree;
    st.f_bavail = (long)k.bavail;
    st.f_files = (long)k.files;
    st.f_ffree = (long)k.ffree;
    st.f_namelen = (long)k.namelen;
    st.f_fsid.val[0] = (int)sb->dev;
    st.f_flags = 0x20 | (long)(p->mnt->flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)) |
                 (mount_readonly(p->mnt) ? 1 : 0);
    return copy_to_user(buf, &st, sizeof(st));
}

SYSCALL2(statfs, uptr, name, uptr, buf)
{
    struct path p;
    long r = user_path(AT_FDCWD, name, LOOKUP_FOLLOW, &p);
    if (r)
        return r;
    r = put_statfs(&p, buf);
    path_put(&p);
    return r;
}

SYSCALL2(fstatfs, int, fd, uptr, buf)
{
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = put_statfs(&f->path, buf);
    file_put(f);
    return r;
}

SYSCALL2(ustat, u32, dev, uptr, buf)
{
    (void)dev;
    (void)buf;
    return -EINVAL; /* no block device is mounted */
}

/* ---- extended attributes ---- */

#define XATTR_NAME_MAX_ 255
#define XATTR_VALUE_MAX 65536u

/* Where the attribute's file comes from: a name (follow or not) or a descriptor. */
static long xattr_path(int fd, uptr name, bool follow, struct path *p)
{
    if (name)
        return user_path(AT_FDCWD, name, follow ? LOOKUP_FOLLOW : 0, p);
    struct file *f = fd_get(fd);
    if (!f)
        return -EBADF;
    long r = f->mode & FMODE_PATH ? -EBADF : 0;
    if (!r) {
        *p = f->path;
        path_get(p);
    }
    file_put(f);
    return r;
}

static long xattr_name(char *text, uptr name)
{
    long r = strncpy_from_user(text, name, XATTR_NAME_MAX_ + 1);
    if (r == 0 || r == -ENAMETOOLONG)
        return -ERANGE;
    return r < 0 ? r : 0;
}

static long get_xattr(int fd, uptr path, bool follow, uptr name, uptr value, u64 size)
{
    struct path p;
    char text[XATTR_NAME_MAX_ + 1];
    long r = xattr_name(text, name);
    if (r)
        return r;
    if (size > XATTR_VALUE_MAX)
        size = XATTR_VALUE_MAX;
    char *buf = size ? kmalloc(size) : NULL;
    if (size && !buf)
        return -ENOMEM;
    r = xattr_path(fd, path, follow, &p);
    if (!r) {
        r = vfs_getxattr(p.dentry->inode, text, buf, size);
        if (r > 0 && size && copy_to_user(value, buf, (size_t)r))
            r = -EFAULT;
        path_put(&p);
    }
    kfree(buf);
    return r;
}

static long set_xattr(int fd, uptr path, bool follow, uptr name, uptr value, u64 size, int flags)
{
    struct path p;
    char text[XATTR_NAME_MAX_ + 1];
    if (flags & ~3)
        return -EINVAL;
    long r = xattr_name(text, name);
    if (r)
        return r;
    if (size > XATTR_VALUE_MAX)
        return -E2BIG;
    char *buf = kmalloc(size + 1);
    if (!buf)
        return -ENOMEM;
    r = size && copy_from_user(buf, value, size) ? -EFAULT : xattr_path(fd, path, follow, &p);
    if (!r) {
        r = vfs_setxattr(&p, text, buf, size, flags);
        path_put(&p);
    }
    kfree(buf);
    return r;
}

static long list_xattr(int fd, uptr path, bool follow, uptr list, u64 size)
{
    struct path p;
    if (size > XATTR_VALUE_MAX)
        size = XATTR_VALUE_MAX;
    char *buf = size ? kmalloc(size) : NULL;
    if (size && !buf)
        return -ENOMEM;
    long r = xattr_path(fd, path, follow, &p);
    if (!r) {
        r = vfs_listxattr(p.dentry->inode, buf, size);
        if (r > 0 && size && copy_to_user(list, buf, (size_t)r))
            r = -EFAULT;
        path_put(&p);
    }
    kfree(buf);
    return r;
}

static long remove_xattr(int fd, uptr path, bool follow, uptr name)
{
    struct path p;
    char text[XATTR_NAME_MAX_ + 1];
    long r = xattr_name(text, name);
    if (!r)
        r = xattr_path(fd, path, follow, &p);
    if (r)
        return r;
    r = vfs_setxattr(&p, text, NULL, 0, 0);
    path_put(&p);
    return r;
}

/* A NULL name is a fault, not "use the descriptor". */
#define NEED(name)                                                                                                     \
    if (!(name))                                                                                                       \
    return -EFAULT

SYSCALL5(setxattr, uptr, path, uptr, name, uptr, value, u64, size, int, flags)
{
    NEED(path);
    return set_xattr(-1, path, true, name, value, size, flags);
}

SYSCALL5(lsetxattr, uptr, path, uptr, name, uptr, value, u64, size, int, flags)
{
    NEED(path);
    return set_xattr(-1, path, false, name, value, size, flags);
}

SYSCALL5(fsetxattr, int, fd, uptr, name, uptr, value, u64, size, int, flags)
{
    return set_xattr(fd, 0, true, name, value, size, flags);
}

SYSCALL4(getxattr, uptr, path, uptr, name, uptr, value, u64, size)
{
    NEED(path);
    return get_xattr(-1, path, true, name, value, size);
}

SYSCALL4(lgetxattr, uptr, path, uptr, name, uptr, value, u64, size)
{
    NEED(path);
    return get_xattr(-1, path, false, name, value, size);
}

SYSCALL4(fgetxattr, int, fd, uptr, name, uptr, value, u64, size)
{
    return get_xattr(fd, 0, true, name, value, size);
}

SYSCALL3(listxattr, uptr, path, uptr, list, u64, size)
{
    NEED(path);
    return list_xattr(-1, path, true, list, size);
}

SYSCALL3(llistxattr, uptr, path, uptr, list, u64, size)
{
    NEED(path);
    return list_xattr(-1, path, false, list, size);
}

SYSCALL3(flistxattr, int, fd, uptr, list, u64, size)
{
    return list_xattr(fd, 0, true, list, size);
}

SYSCALL2(removexattr, uptr, path, uptr, name)
{
    NEED(path);
    return remove_xattr(-1, path, true, name);
}

SYSCALL2(lremovexattr, uptr, path, uptr, name)
{
    NEED(path);
    return remove_xattr(-1, path, false, name);
}

SYSCALL2(fremovexattr, int, fd, uptr, name)
{
    return remove_xattr(fd, 0, true, name);
}
