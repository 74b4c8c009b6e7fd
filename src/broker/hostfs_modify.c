/* hostfs operations that change names or attributes; only reached for writable mounts.
 *
 * A name is changed through a descriptor of its parent directory (opened under the same rules as in hostfs.c) and its
 * single last component, which no host call here follows as a link. Bits that would matter to the host (setuid, setgid) are
 * stripped; owners cannot be changed. Secrets cannot be created, replaced, renamed, linked or removed. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include "broker/secrets.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RENAME_FLAGS_ALLOWED 3u /* RENAME_NOREPLACE | RENAME_EXCHANGE */

struct place { /* a name in an open parent directory */
    int dir;
    const char *name;
};

/* `path` is checked and is cut at its last slash. */
static s32 open_parent(struct hostfs *fs, struct mount *m, char *path, struct place *p)
{
    if (m->flags & MOUNT_FILE)
        return -ENOTDIR;
    if (!*path)
        return -EBUSY; /* the root itself */
    char *slash = strrchr(path, '/');
    p->name = slash ? slash + 1 : path;
    if ((m->ctl_flags & CTL_MOUNT_SECRETS) && secret_path_in(m->name, path))
        return -EACCES;
    if (slash)
        *slash = 0;
    else if (m->allow)
        return -EACCES;
    bool hidden;
    int fd = hostfs_walk(fs, m, slash ? path : "", &hidden);
    if (fd < 0)
        return fd;
    if (hidden) {
        close(fd);
        return -EACCES;
    }
    p->dir = fd;
    return 0;
}

/* Attributes of a name just made. */
static s32 reply_attr(struct hostfs *fs, struct request *r, struct place *p)
{
    struct stat st;
    if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    hostfs_attr(fs, &st, (struct wire_attr *)r->reply, false);
    r->head.reply_size = sizeof(struct wire_attr);
    return 0;
}

static s32 op_create(struct hostfs *fs, struct request *r, struct place *p)
{
    int fd = openat(p->dir, p->name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, r->head.arg[0] & 0777);
    if (fd < 0)
        return errno == EMFILE ? -ENFILE : -errno;
    s32 result = hostfs_fstat(fs, fd, (struct wire_attr *)r->reply, false);
    if (result < 0) {
        close(fd);
        return result;
    }
    result = hostfs_handle_new(fs, fd, r->head.mount, true, false, &r->head.value);
    if (result >= 0)
        r->head.reply_size = sizeof(struct wire_attr);
    return result;
}

static s32 two_names(struct hostfs *fs, struct request *r, struct mount *m, struct place *from)
{
    struct place to = { -1, NULL };
    char *second = (char *)r->data + r->head.arg[0];
    s32 result = open_parent(fs, m, second, &to);
    if (result < 0)
        return result;
    if (r->head.op == WIRE_RENAME) {
        if (r->head.arg[1] & ~(u64)RENAME_FLAGS_ALLOWED)
            result = -EINVAL;
        else if (syscall(SYS_renameat2, from->dir, from->name, to.dir, to.name, r->head.arg[1]) < 0)
            result = -errno;
    } else {
        struct stat st;
        if (fstatat(from->dir, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            result = -errno;
        else if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
            result = -EPERM;
        else if (linkat(from->dir, from->name, to.dir, to.name, 0) < 0)
            result = -errno;
        else
            result = reply_attr(fs, r, &to);
    }
    close(to.dir);
    return result;
}

s32 hostfs_setattr_fd(struct hostfs *fs, int fd, const struct wire_attr *want, u64 mask, bool opath)
{
    char name[16];
    struct stat st;
    if (mask & ~(u64)(WIRE_SET_MODE | WIRE_SET_SIZE | WIRE_SET_ATIME | WIRE_SET_MTIME))
        return -EINVAL;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return -EPERM;
    snprintf(name, sizeof(name), "%d", fd);
    if (mask & WIRE_SET_SIZE) {
        if (!S_ISREG(st.st_mode))
            return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
        if (want->size > INT64_MAX)
            return -EINVAL;
        int w = opath ? hostfs_reopen(fs, fd, O_WRONLY) : fd;
        if (w < 0)
            return w;
        int error = ftruncate(w, want->size) < 0 ? -errno : 0;
        if (opath)
            close(w);
        if (error)
            return error;
    }
    if ((mask & WIRE_SET_MODE) && fchmodat(fs->proc_fd, name, want->mode & (S_ISDIR(st.st_mode) ? 01777 : 0777), 0) < 0)
        return -errno;
    if (mask & (WIRE_SET_ATIME | WIRE_SET_MTIME)) {
        struct timespec t[2] = { { .tv_sec = want->atime, .tv_nsec = want->atime_nsec },
                                 { .tv_sec = want->mtime, .tv_nsec = want->mtime_nsec } };
        for (int i = 0; i < 2; i++) {
            if (!(mask & (i ? WIRE_SET_MTIME : WIRE_SET_ATIME)))
                t[i].tv_nsec = UTIME_OMIT;
            else if (t[i].tv_nsec < 0 || t[i].tv_nsec > 999999999)
                return -EINVAL;
        }
        if (utimensat(fs->proc_fd, name, t, 0) < 0)
            return -errno;
    }
    return 0;
}

static s32 op_setattr(struct hostfs *fs, struct request *r, struct mount *m)
{
    if (r->head.size <= sizeof(struct wire_attr))
        return -EINVAL;
    char *path = (char *)r->data + sizeof(struct wire_attr);
    s32 result = hostfs_check_path(path, r->head.size - sizeof(struct wire_attr));
    if (result < 0)
        return result;
    bool hidden;
    int fd = hostfs_walk(fs, m, path, &hidden);
    if (fd < 0)
        return fd;
    result = hidden ? -EACCES : hostfs_setattr_fd(fs, fd, (struct wire_attr *)r->data, r->head.arg[0], true);
    if (result >= 0)
        result = hostfs_fstat(fs, fd, (struct wire_attr *)r->reply, false);
    close(fd);
    if (result >= 0)
        r->head.reply_size = sizeof(struct wire_attr);
    return result;
}

s32 hostfs_modify(struct hostfs *fs, struct request *r, struct mount *m)
{
    u32 op = r->head.op, size = r->head.size;
    char *data = (char *)r->data;
    if (op == WIRE_SETATTR)
        return op_setattr(fs, r, m);
    /* where the first string ends, and the second of those that have two */
    u32 first = size;
    if (op == WIRE_RENAME || op == WIRE_LINK || op == WIRE_SYMLINK) {
        const char *end = memchr(data, 0, size);
        if (!end)
            return -EINVAL;
        first = end + 1 - data;
        if (op != WIRE_SYMLINK && (r->head.arg[0] != first || hostfs_check_path(data + first, size - first) < 0))
            return -EINVAL;
        if (op == WIRE_SYMLINK && (size - first < 2 || size - first > 4096 ||
                                   memchr(data + first, 0, size - first) != data + size - 1))
            return -EINVAL;
    }
    s32 result = hostfs_check_path(data, first);
    if (result < 0)
        return result;
    struct place p = { -1, NULL };
    result = open_parent(fs, m, data, &p);
    if (result < 0)
        return result;
    switch (op) {
    case WIRE_CREATE:
        result = op_create(fs, r, &p);
        break;
    case WIRE_MKDIR:
        result = mkdirat(p.dir, p.name, r->head.arg[0] & 01777) < 0 ? -errno : reply_attr(fs, r, &p);
        break;
    case WIRE_SYMLINK:
        result = symlinkat(data + first, p.dir, p.name) < 0 ? -errno : reply_attr(fs, r, &p);
        break;
    case WIRE_UNLINK:
        result = unlinkat(p.dir, p.name, 0) < 0 ? -errno : 0;
        break;
    case WIRE_RMDIR:
        result = unlinkat(p.dir, p.name, AT_REMOVEDIR) < 0 ? -errno : 0;
        break;
    case WIRE_LINK:
    case WIRE_RENAME:
        result = two_names(fs, r, m, &p);
        break;
    default:
        result = -ENOSYS;
    }
    close(p.dir);
    return result;
}
