/* hostfs: the guest's view of host directories, one root descriptor per mount.
 *
 * How it works: a path from the guest is relative to a mount's root. It is checked first (no empty, "." or ".."
 * components), then opened O_PATH with openat2 RESOLVE_BENEATH | NO_SYMLINKS | NO_MAGICLINKS | NO_XDEV, or where openat2 is
 * missing by a walk of single components with O_NOFOLLOW and a device check. What the O_PATH descriptor names is
 * looked at with fstat; only regular files are opened for data, through /proc/self/fd, so that neither opening a FIFO can
 * block nor opening a device can have an effect, and nothing can change between check and use.
 *
 * Secrets: in a mount with CTL_MOUNT_SECRETS, files and directories with names of secrets (secrets.c) look empty and
 * cannot be written, replaced, renamed or linked. An allow-list restricts the first component.
 *
 * Ownership: mounts live for the broker's life; a handle owns its descriptor. Errors: negative errno. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include "broker/secrets.h"
#include "wire/view_pin.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Descriptors a guest's files never take: mounts, streams and clients need some, so that `harena kill` and `exec` get through. */
#define RESERVED_FDS (BROKER_MOUNT_MAX + BROKER_CLIENT_MAX + 3 * BROKER_SESSION_MAX + 32)

#define STATX_MNT_ID_WANTED 0x1000u /* STATX_MNT_ID of linux/stat.h */
#define RESOLVE_ALL (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

void hostfs_init(struct hostfs *fs)
{
    /* it is zeroed memory as yet untouched, and mostly stays that: the table of handles is large */
    struct rlimit files = { 0, 0 };
    getrlimit(RLIMIT_NOFILE, &files);
    u64 spare = files.rlim_cur > RESERVED_FDS ? files.rlim_cur - RESERVED_FDS : files.rlim_cur / 4;
    fs->handle_max = MIN(spare, (u64)BROKER_HANDLE_MAX);
    fs->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    fs->userns = -1;
    fs->own_uid = geteuid();
    fs->own_gid = getegid();
    struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_ALL };
    int fd = syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));
    if (fd >= 0)
        close(fd);
    else if (errno == ENOSYS || errno == EPERM) /* EPERM: an outer filter that does not know it */
        fs->no_openat2 = true;
}

/* ---- mounts ---- */

/* File systems that hold files. Everything else (proc, sys, cgroup, debugfs, ...) acts when it is read. */
static bool fs_type_allowed(long type)
{
    static const unsigned int allowed[] = {
        0xef53 /* ext2-4 */, 0x58465342 /* xfs */, 0x9123683e /* btrfs */, 0x01021994 /* tmpfs */, 0x858458f6 /* ramfs */,
        0x794c7630 /* overlay */, 0x2fc12fc1 /* zfs */, 0xf2f52010 /* f2fs */, 0xe0f5e1e2 /* erofs */,
        0x73717368 /* squashfs */, 0x6969 /* nfs */, 0x65735546 /* fuse, virtiofs */, 0x01021997 /* 9p */,
        0x4d44 /* vfat */, 0x2011bab0 /* exfat */, 0x9660 /* iso */, 0xff534d42 /* cifs */, 0xfe534d42 /* smb2 */,
        0xca451a4e /* bcachefs */, 0x3153464a /* jfs */, 0x52654973 /* reiserfs */, 0x00c36400 /* ceph */,
        0x5346544e /* ntfs */, 0x7366746e /* ntfs3 */, 0x15013346 /* udf */, 0x61756673 /* aufs */,
    };
    for (size_t i = 0; i < ARRAY_COUNT(allowed); i++)
        if ((unsigned int)type == allowed[i])
            return true;
    return false;
}

static u64 mount_id(int fd);

int hostfs_mount(struct hostfs *fs, struct ctl_mount *record, const char *source, char *allow)
{
    if (fs->mount_count == BROKER_MOUNT_MAX)
        return -E2BIG;
    struct mount *m = &fs->mounts[fs->mount_count];
    int fd = -1;
    /* the system's directories are world-readable; what the user named may not be */
    if (!(record->ctl_flags & CTL_MOUNT_SYSTEM) && fs->userns != -1) {
        if (fs->userns == -2)
            fs->userns = idmap_namespace(fs->outer_uid);
        if (fs->userns >= 0)
            fd = idmap_open(fs->userns, source);
        else
            fs->userns = -1;
    }
    if (fd < 0)
        fd = open(source, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct stat st;
    struct statfs sf = { 0 };
    int result = 0;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &sf) < 0)
        result = -errno;
    else if (!fs_type_allowed(sf.f_type))
        result = -EMEDIUMTYPE;
    else if (S_ISREG(st.st_mode))
        record->flags |= MOUNT_FILE;
    else if (S_ISDIR(st.st_mode))
        record->flags &= ~MOUNT_FILE;
    else
        result = -ENODEV;
    if (result < 0) {
        close(fd);
        return result;
    }
    *m = (struct mount){ .root = fd, .kind = record->kind, .flags = record->flags, .ctl_flags = record->ctl_flags,
                         .writable = !(record->flags & (MOUNT_READONLY | MOUNT_OVERLAY)), .dev = st.st_dev,
                         .allow = allow, .record = record };
    snprintf(m->name, sizeof(m->name), "%s", strrchr(source, '/') ? strrchr(source, '/') + 1 : source);
    m->mount_id = mount_id(fd);
    if (!m->writable && view_fs_pins(sf.f_type, sf.f_flags & ST_RDONLY))
        m->views = record->ctl_flags & CTL_MOUNT_VIEWS ? 1 : record->ctl_flags & CTL_MOUNT_VIEWS_OWN ? 2 : 0;
    return fs->mount_count++;
}

/* ---- names ---- */

/* `size` bytes include the NUL, which must be the only one. */
int hostfs_check_path(const char *path, size_t size)
{
    if (!size || size > 4096 || memchr(path, 0, size) != path + size - 1)
        return size > 4096 ? -ENAMETOOLONG : -EINVAL;
    if (size == 1)
        return 0;
    for (const char *p = path;;) {
        const char *end = strchrnul(p, '/');
        size_t n = end - p;
        if (!n || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return -EINVAL;
        if (n > 255)
            return -ENAMETOOLONG;
        if (!*end)
            return 0;
        p = end + 1;
    }
}

static bool name_allowed(const struct mount *m, const char *name, size_t size)
{
    if (!m->allow)
        return true;
    for (const char *p = m->allow; *p; p += strlen(p) + 1)
        if (strlen(p) == size && !memcmp(p, name, size))
            return true;
    return false;
}

/* Applies the mount's name rules to a checked path: 0, 1 when its last component is a secret, or -ENOENT. */
static int path_rules(const struct mount *m, const char *path)
{
    if (!*path || (!m->allow && !(m->ctl_flags & CTL_MOUNT_SECRETS)))
        return 0;
    if (!name_allowed(m, path, strchrnul(path, '/') - path))
        return -ENOENT;
    for (const char *p = m->allow ? path : NULL; p && (p = strstr(p, "private")); p += 7) /* below /etc/ssl and the like: keys */
        if ((p == path || p[-1] == '/') && (!p[7] || p[7] == '/'))
            return -ENOENT;
    int secret = m->ctl_flags & CTL_MOUNT_SECRETS ? secret_path_in(m->name, path) : 0;
    return secret < 0 ? -ENOENT : secret;
}

/* ---- opening ---- */

/* The number of the mount an open file lies on, which a bind mount of the same file system does not share; 0 when the host (before
 * Linux 5.8) does not tell. */
static u64 mount_id(int fd)
{
    struct {
        u32 mask, rest[63];
    } sx = { 0 }; /* struct statx; stx_mnt_id at byte 144 */
    u64 id = 0;
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_MNT_ID_WANTED, &sx) == 0 && sx.mask & STATX_MNT_ID_WANTED)
        memcpy(&id, (u8 *)&sx + 144, sizeof(id));
    return id;
}

/* Whoever started us may search directories as root, as their owner, by a group of his. Of the system's only what everybody may search is
 * shown. Only who may write to the system's directories can change them meanwhile. */
static int everybody_may_search(const struct mount *m, const char *path)
{
    char dir[4096];
    struct stat st;
    for (const char *end = path; (end = strchr(end, '/')); end++) {
        memcpy(dir, path, end - path);
        dir[end - path] = 0;
        if (fstatat(m->root, dir, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        if (!(st.st_mode & S_IXOTH))
            return -EACCES;
    }
    return 0;
}

/* One component at a time: openat2 is missing. */
static int walk_components(struct mount *m, const char *path)
{
    int at = fcntl(m->root, F_DUPFD_CLOEXEC, 0);
    char name[256];
    while (at >= 0 && *path) {
        const char *end = strchrnul(path, '/');
        memcpy(name, path, end - path);
        name[end - path] = 0;
        int next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC | (*end ? O_DIRECTORY : 0));
        int error = errno;
        close(at);
        at = next;
        if (next < 0) {
            errno = error;
            break;
        }
        struct stat st;
        if (fstat(at, &st) < 0 || st.st_dev != m->dev || (m->mount_id && mount_id(at) != m->mount_id)) {
            close(at);
            errno = EXDEV;
            return -1;
        }
        path = *end ? end + 1 : end;
    }
    return at;
}

static int open_path(struct hostfs *fs, struct mount *m, const char *path)
{
    int fd = (m->ctl_flags & CTL_MOUNT_SYSTEM) && !fs->stranger ? everybody_may_search(m, path) : 0;
    if (fd < 0)
        return fd;
    if (m->flags & MOUNT_FILE) {
        if (*path)
            return -ENOTDIR;
        fd = fcntl(m->root, F_DUPFD_CLOEXEC, 0);
    } else if (fs->no_openat2) {
        fd = walk_components(m, path);
    } else {
        struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_ALL };
        fd = syscall(SYS_openat2, m->root, *path ? path : ".", &how, sizeof(how));
    }
    if (fd < 0) {
        if (errno == EXDEV)
            return -EACCES; /* something else is mounted there */
        return errno == EMFILE || errno == ENFILE ? -ENFILE : -errno;
    }
    return fd;
}

/* Is it a secret by another of its names? */
static bool hidden_inode(const struct hostfs *fs, const struct mount *m, int fd)
{
    struct stat st;
    if (!fs->hidden_count || !(m->ctl_flags & CTL_MOUNT_SECRETS) || fstat(fd, &st) < 0 || st.st_nlink < 2)
        return false;
    for (u32 i = 0; i < fs->hidden_count; i++)
        if (fs->hidden[2 * i] == st.st_dev && fs->hidden[2 * i + 1] == st.st_ino)
            return true;
    return false;
}

/* Opens a checked path O_PATH. *hidden: it is a secret, to be shown empty. */
int hostfs_walk(struct hostfs *fs, struct mount *m, const char *path, bool *hidden)
{
    int rules = path_rules(m, path);
    if (rules < 0)
        return rules;
    int fd = open_path(fs, m, path);
    *hidden = rules || (fd >= 0 && hidden_inode(fs, m, fd));
    if (fd >= 0 && *hidden && !fs->secret_told) {
        snprintf(fs->secret_first, sizeof(fs->secret_first), "%s", path);
        fs->secret_told = true;
    }
    return fd;
}

/* Of the system's directories only what everybody may read is shown: whoever started us may be root, or in a group that owns
 * keys. */
static bool readable(const struct mount *m, const struct stat *st)
{
    return !(m->ctl_flags & CTL_MOUNT_SYSTEM) || (st->st_mode & S_IROTH);
}

int hostfs_reopen(struct hostfs *fs, int fd, int flags)
{
    char name[16];
    snprintf(name, sizeof(name), "%d", fd);
    int new = openat(fs->proc_fd, name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return new < 0 ? (errno == EMFILE ? -ENFILE : -errno) : new;
}

/* ---- attributes ---- */

void hostfs_attr(struct hostfs *fs, const struct stat *st, struct wire_attr *a, bool hidden)
{
    u32 mode = st->st_mode & (S_IFMT | 01777);
    *a = (struct wire_attr){
        .ino = st->st_ino,
        .dev = st->st_dev * 0x9e3779b97f4a7c15ul,
        .size = st->st_size,
        .blocks = st->st_blocks,
        .mode = mode,
        .nlink = st->st_nlink,
        /* the user's own files are root's inside */
        .uid = st->st_uid == fs->own_uid ? 0 : st->st_uid,
        .gid = st->st_gid == fs->own_gid ? 0 : st->st_gid,
        .rdev_major = (st->st_rdev >> 8) & 0xfff,
        .rdev_minor = (st->st_rdev & 0xff) | ((st->st_rdev >> 12) & 0xfff00),
        .atime = st->st_atim.tv_sec, .atime_nsec = st->st_atim.tv_nsec,
        .mtime = st->st_mtim.tv_sec, .mtime_nsec = st->st_mtim.tv_nsec,
        .ctime = st->st_ctim.tv_sec, .ctime_nsec = st->st_ctim.tv_nsec,
    };
    if (hidden) {
        a->flags |= WIRE_ATTR_HIDDEN;
        if (!S_ISDIR(mode)) {
            a->mode = S_IFREG | 0444;
            a->size = a->blocks = 0;
            a->rdev_major = a->rdev_minor = 0;
        }
    }
}

int hostfs_fstat(struct hostfs *fs, int fd, struct wire_attr *a, bool hidden)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    hostfs_attr(fs, &st, a, hidden);
    return 0;
}

/* ---- handles ---- */

struct handle *hostfs_handle(struct hostfs *fs, u32 number)
{
    u32 index = number & 0xffff;
    if (index >= BROKER_HANDLE_MAX)
        return NULL;
    struct handle *h = &fs->handles[index];
    return h->used && h->generation == number >> 16 ? h : NULL;
}

/* Takes the descriptor over, also when it fails. */
int hostfs_handle_new(struct hostfs *fs, int fd, u32 mount, bool writable, bool hidden, u64 *number)
{
    if (fs->handle_count == fs->handle_max) {
        close(fd);
        return -ENFILE;
    }
    u32 i = fs->handle_next;
    while (fs->handles[i].used)
        i = (i + 1) % BROKER_HANDLE_MAX;
    fs->handle_next = (i + 1) % BROKER_HANDLE_MAX;
    struct handle *h = &fs->handles[i];
    h->used = true;
    h->fd = fd;
    h->generation++;
    h->mount = mount;
    h->writable = writable;
    h->hidden = hidden;
    fs->handle_count++;
    *number = (u32)h->generation << 16 | i;
    return 0;
}

/* ---- operations that read ---- */

/* Attributes and view of one path. */
static s32 lookup_one(struct broker *b, struct mount *m, const char *path, bool make, struct wire_many *out)
{
    bool hidden;
    int fd = hostfs_walk(&b->fs, m, path, &hidden);
    if (fd < 0)
        return fd;
    struct stat st;
    int result = fstat(fd, &st) < 0 ? -errno : 0;
    if (!result) {
        hostfs_attr(&b->fs, &st, &out->attr, hidden);
        if (m->views && !hidden && S_ISREG(st.st_mode) && readable(m, &st))
            out->view_state = views_find(b, m, fd, &st, make, &out->view);
    }
    close(fd);
    return result;
}

static s32 op_lookup(struct broker *b, struct request *r, struct mount *m)
{
    struct wire_many one = { 0 };
    s32 result = hostfs_check_path((char *)r->data, r->head.size);
    if (!result)
        result = lookup_one(b, m, (char *)r->data, r->head.arg[0] & WIRE_VIEW_MAKE, &one);
    if (result < 0)
        return result;
    r->head.value = one.view_state;
    r->head.reply_size = sizeof(one.attr);
    memcpy(r->reply, &one.attr, sizeof(one.attr));
    if (one.view_state == WIRE_VIEW_READY) {
        memcpy(r->reply + sizeof(one.attr), &one.view, sizeof(one.view));
        r->head.reply_size += sizeof(one.view);
    }
    return 0;
}

/* Every name is looked up by its whole path, as by WIRE_LOOKUP: the same rules, the same flags. */
static s32 op_lookup_many(struct broker *b, struct request *r, struct mount *m)
{
    char path[4096 + 1];
    size_t dir = strnlen((char *)r->data, r->head.size), at = dir + 1;
    if (at > r->head.size || dir > 4000 || hostfs_check_path((char *)r->data, dir + 1))
        return -EINVAL;
    memcpy(path, r->data, dir);
    if (dir)
        path[dir++] = '/';
    struct wire_many *out = (struct wire_many *)r->reply;
    u32 count = 0;
    _Static_assert(WIRE_MANY_MAX * sizeof(*out) <= REQ_DATA_SIZE, "a reply holds all");
    for (; at < r->head.size && count < WIRE_MANY_MAX; count++) {
        const char *name = (char *)r->data + at;
        size_t n = strnlen(name, r->head.size - at);
        at += n + 1;
        if (at > r->head.size)
            return -EINVAL;
        out[count] = (struct wire_many){ .result = -ENAMETOOLONG };
        if (dir + n >= sizeof(path))
            continue;
        memcpy(path + dir, name, n + 1);
        s32 result = !n || memchr(name, '/', n) ? -EINVAL : hostfs_check_path(path, dir + n + 1);
        out[count].result = result ? result : lookup_one(b, m, path, false, &out[count]);
    }
    r->head.reply_size = count * sizeof(*out);
    return 0;
}

struct kernel_dirent {
    u64 ino;
    s64 off;
    u16 reclen;
    u8 type;
    char name[];
};

/* Converts one buffer of getdents64 output; returns false when the reply is full. *cookie follows the last one taken. */
static bool convert_dirents(const struct mount *m, const u8 *buffer, long size, struct request *r, u64 *cookie)
{
    const char *dir = (char *)r->data;
    for (long at = 0; at < size;) {
        const struct kernel_dirent *d = (const void *)(buffer + at);
        size_t n = strlen(d->name);
        u32 record = ALIGN_UP(sizeof(struct wire_dirent) + n, 8);
        char path[4096 + 256];
        snprintf(path, sizeof(path), "%.4095s%s%.255s", dir, *dir ? "/" : "", d->name);
        int rule = path_rules(m, path);
        if (strcmp(d->name, ".") && strcmp(d->name, "..") && n <= 255 && rule >= 0) {
            if (r->head.reply_size + record > REQ_DATA_SIZE)
                return false;
            struct wire_dirent *w = (void *)(r->reply + r->head.reply_size);
            memset(w, 0, record);
            *w = (struct wire_dirent){ .ino = d->ino, .record_size = record, .type = d->type, .name_size = n };
            if (rule && d->type != DT_DIR)
                w->type = DT_REG;
            memcpy(w->name, d->name, n);
            r->head.reply_size += record;
        }
        *cookie = d->off;
        at += d->reclen;
    }
    return true;
}

/* What a request's path names. */
struct found {
    int at; /* O_PATH */
    bool hidden;
    struct stat st;
};

static s32 op_readdir(struct hostfs *fs, struct request *r, struct mount *m, const struct found *f)
{
    if (!S_ISDIR(f->st.st_mode) || !readable(m, &f->st))
        return S_ISDIR(f->st.st_mode) ? -EACCES : -ENOTDIR;
    int fd = f->hidden ? -1 : hostfs_reopen(fs, f->at, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return f->hidden ? 0 : fd;
    u64 cookie = r->head.arg[0];
    s32 result = 0;
    if (cookie && lseek(fd, cookie, SEEK_SET) < 0)
        result = -EINVAL;
    while (!result) {
        u8 buffer[8192] __attribute__((aligned(8)));
        long n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
        if (n <= 0) {
            result = n < 0 ? -errno : 0;
            cookie = 0;
            break;
        }
        if (!convert_dirents(m, buffer, n, r, &cookie))
            break;
    }
    close(fd);
    r->head.value = cookie;
    return result;
}

static s32 op_readlink(struct request *r, const struct found *f)
{
    ssize_t n = f->hidden ? -1 : readlinkat(f->at, "", (char *)r->reply, 4096);
    if (n < 0)
        return f->hidden || errno == ENOENT ? -EINVAL : -errno;
    r->head.reply_size = n;
    return 0;
}

static s32 op_open(struct hostfs *fs, struct request *r, struct mount *m, const struct found *f)
{
    u64 access = r->head.arg[0];
    if (access != O_RDONLY && access != O_WRONLY && access != O_RDWR)
        return -EINVAL;
    bool write = access != O_RDONLY;
    mode_t mode = f->st.st_mode;
    int fd;
    if (write && !m->writable)
        return -EROFS;
    if (f->hidden)
        fd = write || S_ISDIR(mode) ? -EACCES : fcntl(f->at, F_DUPFD_CLOEXEC, 0);
    else if (S_ISREG(mode))
        fd = readable(m, &f->st) ? hostfs_reopen(fs, f->at, access) : -EACCES;
    else
        fd = S_ISDIR(mode) ? -EISDIR : S_ISLNK(mode) ? -ELOOP : -ENXIO;
    int result = fd < 0 ? fd : hostfs_handle_new(fs, fd, r->head.mount, write, f->hidden, &r->head.value);
    if (result < 0)
        return result;
    hostfs_attr(fs, &f->st, (struct wire_attr *)r->reply, f->hidden);
    r->head.reply_size = sizeof(struct wire_attr);
    return 0;
}

/* Open, read and close of a small file in one. */
static s32 op_read_path(struct hostfs *fs, struct request *r, struct mount *m, const struct found *f)
{
    if (!S_ISREG(f->st.st_mode))
        return -EINVAL;
    int fd = f->hidden || !readable(m, &f->st) ? -EACCES : hostfs_reopen(fs, f->at, O_RDONLY);
    if (fd < 0)
        return fd;
    ssize_t n = pread(fd, r->reply + sizeof(struct wire_attr), WIRE_SMALL_MAX, 0);
    s32 result = n < 0 ? -errno : hostfs_fstat(fs, fd, (struct wire_attr *)r->reply, false);
    close(fd);
    if (result < 0)
        return result;
    r->head.value = n;
    r->head.reply_size = sizeof(struct wire_attr) + n;
    return 0;
}

static s32 serve_path(struct hostfs *fs, struct request *r, struct mount *m)
{
    struct found f;
    s32 result = hostfs_check_path((char *)r->data, r->head.size);
    if (result)
        return result;
    f.at = hostfs_walk(fs, m, (char *)r->data, &f.hidden);
    if (f.at < 0)
        return f.at;
    if (fstat(f.at, &f.st) < 0)
        result = -errno;
    else
        result = r->head.op == WIRE_READDIR ? op_readdir(fs, r, m, &f)
                 : r->head.op == WIRE_OPEN  ? op_open(fs, r, m, &f)
                 : r->head.op == WIRE_READLINK ? op_readlink(r, &f)
                                            : op_read_path(fs, r, m, &f);
    close(f.at);
    return result;
}

static s32 op_statfs(struct request *r, struct mount *m)
{
    struct statfs sf;
    if (fstatfs(m->root, &sf) < 0)
        return -errno;
    *(struct wire_statfs *)r->reply = (struct wire_statfs){ .bsize = sf.f_bsize, .blocks = sf.f_blocks, .bfree = sf.f_bfree,
        .bavail = sf.f_bavail, .files = sf.f_files, .ffree = sf.f_ffree, .namelen = sf.f_namelen };
    r->head.reply_size = sizeof(struct wire_statfs);
    return 0;
}

/* ---- operations on handles ---- */

/* Moves bytes between a file and D through a buffer. Both positions were checked. Returns bytes moved or -errno. */
static s64 move_bytes(int from, u64 from_off, int to, u64 to_off, u64 size)
{
    static u8 buffer[131072] __attribute__((aligned(4096)));
    u64 done = 0;
    while (done < size) {
        ssize_t n = pread(from, buffer, MIN(size - done, sizeof(buffer)), from_off + done);
        if (n <= 0)
            return done ? (s64)done : n < 0 ? -errno : 0;
        for (ssize_t put = 0; put < n;) {
            ssize_t w = pwrite(to, buffer + put, n - put, to_off + done + put);
            if (w <= 0)
                return done + put ? (s64)(done + put) : w < 0 ? -errno : -EIO;
            put += w;
        }
        done += n;
    }
    return done;
}

static s32 op_transfer(struct broker *b, struct request *r, struct handle *h, bool write)
{
    u64 off = r->head.arg[0], size = r->head.arg[1], d_off = r->head.arg[2];
    if (off > INT64_MAX || d_off > D_SIZE || size > D_SIZE - d_off || size > (u64)INT64_MAX - off)
        return -EINVAL;
    size = MIN(size, (u64)BROKER_READ_MAX);
    if (h->hidden)
        return write ? -EACCES : 0;
    if (write && !h->writable)
        return -EBADF;
    s64 n = write ? move_bytes(b->d_fd, d_off, h->fd, off, size) : move_bytes(h->fd, off, b->d_fd, d_off, size);
    if (n < 0)
        return n;
    r->head.value = n;
    if (write && !hostfs_fstat(&b->fs, h->fd, (struct wire_attr *)r->reply, false))
        r->head.reply_size = sizeof(struct wire_attr);
    return 0;
}

/* Puts a read-only descriptor of the file into a grant slot of the process that rings. */
static s32 op_grant(struct broker *b, struct request *r, struct handle *h)
{
    u64 slot = r->head.arg[0];
    if (slot < FD_GRANT0 || slot >= FD_GRANT0 + FD_GRANT_MAX || slot >= FD_LIMIT)
        return -EINVAL;
    if (h->hidden)
        return -EACCES;
    if (!r->notify_id)
        return -EPERM;
    int fd = hostfs_reopen(&b->fs, h->fd, O_RDONLY);
    if (fd < 0)
        return fd;
    s32 result = spawn_add_fd(b, r->notify_id, fd, slot);
    close(fd);
    return result;
}

static s32 serve_handle(struct broker *b, struct request *r)
{
    struct hostfs *fs = &b->fs;
    struct handle *h = hostfs_handle(fs, r->head.handle);
    if (!h)
        return -EBADF;
    switch (r->head.op) {
    case WIRE_CLOSE:
        close(h->fd);
        h->used = false;
        fs->handle_count--;
        return 0;
    case WIRE_READ:
        return op_transfer(b, r, h, false);
    case WIRE_WRITE:
        return op_transfer(b, r, h, true);
    case WIRE_FSYNC:
        return h->hidden || fsync(h->fd) == 0 ? 0 : -errno;
    case WIRE_GRANT:
        return op_grant(b, r, h);
    case WIRE_FSETATTR: {
        if (r->head.size != sizeof(struct wire_attr))
            return -EINVAL;
        if (!fs->mounts[h->mount].writable)
            return -EROFS;
        if (h->hidden)
            return -EACCES;
        s32 result = hostfs_setattr_fd(fs, h->fd, (struct wire_attr *)r->data, r->head.arg[0], false);
        if (result >= 0)
            result = hostfs_fstat(fs, h->fd, (struct wire_attr *)r->reply, false);
        if (result >= 0)
            r->head.reply_size = sizeof(struct wire_attr);
        return result;
    }
    }
    return -ENOSYS;
}

void hostfs_serve(struct broker *b, struct request *r)
{
    struct hostfs *fs = &b->fs;
    u32 op = r->head.op;
    if (op == WIRE_CLOSE || (op >= WIRE_READ && op <= WIRE_GRANT)) {
        r->head.result = serve_handle(b, r);
        return;
    }
    s32 result;
    if (r->head.mount >= fs->mount_count) {
        r->head.result = -EINVAL;
        return;
    }
    struct mount *m = &fs->mounts[r->head.mount];
    if (op == WIRE_READDIR || op == WIRE_READLINK || op == WIRE_OPEN || op == WIRE_READ_PATH) {
        result = serve_path(fs, r, m);
    } else if (op == WIRE_LOOKUP) {
        result = op_lookup(b, r, m);
    } else if (op == WIRE_STATFS) {
        result = op_statfs(r, m);
    } else if (op >= WIRE_CREATE && op <= WIRE_SETATTR) {
        result = m->writable ? hostfs_modify(fs, r, m) : -EROFS;
    } else if (op == WIRE_LOOKUP_MANY) {
        result = op_lookup_many(b, r, m);
    } else {
        result = -ENOSYS;
    }
    if (fs->secret_first[0]) { /* once, at the first one that is met */
        char text[4 * sizeof(fs->secret_first) + 1];
        escape_text(text, sizeof(text), fs->secret_first, strlen(fs->secret_first));
        link_note(b, "%s looks empty in the sandbox, as do other files with names of secrets; --show-secrets shows them", text);
        fs->secret_first[0] = 0;
    }
    r->head.result = result;
}
