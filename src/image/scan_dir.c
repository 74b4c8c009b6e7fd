/* Reads a directory tree into an image. Symbolic links are never followed (openat with O_NOFOLLOW from the
 * parent's descriptor); a file that changes while it is read is taken as it was read. One descriptor per level. */
#include "image/sink.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DIR_DEPTH_MAX 256 /* descriptors */

struct hard {              /* files with several links, by (dev, ino) */
    dev_t dev;
    ino_t ino;
    struct inode *inode;   /* NULL: free slot */
};

struct scan {
    struct tree *t;
    struct sink *s;
    dev_t dev;
    bool one_fs;
    struct hard *hard;
    u32 hard_cap, hard_used;
};

static u32 new_encode_dev(dev_t d)
{
    u32 ma = major(d), mi = minor(d);

    return (mi & 0xff) | ma << 8 | (mi & ~0xffu) << 12;
}

static struct hard *hard_find(struct scan *c, dev_t dev, ino_t ino)
{
    for (u64 h = (ino ^ dev << 40) * 0x9e3779b97f4a7c15ull >> 20;; h++) {
        struct hard *s = &c->hard[h & (c->hard_cap - 1)];

        if (!s->inode || (s->ino == ino && s->dev == dev))
            return s;
    }
}

static int hard_grow(struct scan *c)
{
    struct hard *old = c->hard;
    u32 cap = c->hard_cap;

    if (c->hard_used * 2 < cap)
        return 0;
    c->hard_cap = cap ? 2 * cap : 256;
    c->hard = calloc(c->hard_cap, sizeof(*c->hard));
    if (!c->hard) {
        c->hard = old;
        c->hard_cap = cap;
        return image_fail(c->t->err, "out of memory");
    }
    for (u32 k = 0; k < cap; k++)
        if (old[k].inode)
            *hard_find(c, old[k].dev, old[k].ino) = old[k];
    free(old);
    return 0;
}

static void set_stat(struct inode *i, const struct stat *st)
{
    i->mode = st->st_mode;
    i->uid = st->st_uid;
    i->gid = st->st_gid;
    i->mtime = st->st_mtim.tv_sec;
    i->mtime_nsec = (u32)st->st_mtim.tv_nsec;
    i->rdev = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? new_encode_dev(st->st_rdev) : 0;
}

static int read_xattrs(struct scan *c, struct inode *i, int fd)
{
    char names[65536];
    u8 value[65536];
    ssize_t n = flistxattr(fd, names, sizeof(names)), v;

    for (char *p = names; n > 0 && p < names + n; p += strlen(p) + 1)
        if (!strncmp(p, "user.", 5) && (v = fgetxattr(fd, p, value, sizeof(value))) >= 0 &&
            tree_xattr(c->t, i, p, value, v))
            return -1;
    return 0;
}

struct reader {
    int fd;
    struct image_error *err;
    const char *name;
};

static ssize_t read_fd(void *ctx, void *buf, size_t n)
{
    struct reader *r = ctx;
    ssize_t k;

    do
        k = read(r->fd, buf, n);
    while (k < 0 && errno == EINTR);
    return k < 0 ? image_fail(r->err, "cannot read %s: %s", r->name, strerror(errno)) : k;
}

static int scan_regular(struct scan *c, struct inode *i, int dirfd, const char *name)
{
    /* O_NONBLOCK: should a FIFO have taken the file's place, do not wait for it */
    struct reader r = {openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), c->t->err, name};
    struct stat st;
    int ret;

    if (r.fd < 0)
        return image_fail(c->t->err, "cannot open %s: %s", name, strerror(errno));
    if (fstat(r.fd, &st) || !S_ISREG(st.st_mode))
        ret = image_fail(c->t->err, "%s changed while it was read", name);
    else
        ret = read_xattrs(c, i, r.fd) ? -1 : sink_content(c->s, i, read_fd, &r);
    close(r.fd);
    return ret;
}

static int scan_link(struct scan *c, struct inode *i, int dirfd, const char *name)
{
    char target[4096];
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target));

    if (n <= 0 || n == sizeof(target))
        return image_fail(c->t->err, "cannot read the link %s: %s", name, strerror(n < 0 ? errno : ENAMETOOLONG));
    i->link = strndup(target, n);
    i->size = n;
    return i->link ? 0 : image_fail(c->t->err, "out of memory");
}

static int scan_level(struct scan *c, struct inode *dir, int fd, u32 depth);

static int scan_one(struct scan *c, struct inode *dir, int dirfd, const char *name, u32 depth)
{
    struct hard *h = NULL;
    struct inode *i;
    struct stat st;
    int fd, r;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : image_fail(c->t->err, "cannot stat %s: %s", name, strerror(errno));
    if (!S_ISDIR(st.st_mode) && st.st_nlink > 1) {
        if (hard_grow(c))
            return -1;
        h = hard_find(c, st.st_dev, st.st_ino);
        if (h->inode)
            return tree_enter(c->t, dir, name, strlen(name), h->inode);
    }
    i = tree_inode(c->t, st.st_mode);
    if (!i)
        return -1;
    set_stat(i, &st);
    if (h) {
        *h = (struct hard){st.st_dev, st.st_ino, i};
        c->hard_used++;
    }
    if (tree_enter(c->t, dir, name, strlen(name), i))
        return -1;
    if (S_ISREG(st.st_mode))
        return scan_regular(c, i, dirfd, name);
    if (S_ISLNK(st.st_mode))
        return scan_link(c, i, dirfd, name);
    if (!S_ISDIR(st.st_mode) || (c->one_fs && st.st_dev != c->dev))
        return 0;
    if (depth >= DIR_DEPTH_MAX)
        return image_fail(c->t->err, "directories are nested too deeply at %s", name);
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return image_fail(c->t->err, "cannot open %s: %s", name, strerror(errno));
    r = scan_level(c, i, fd, depth + 1);
    close(fd);
    return r;
}

/* Names of a directory, sorted so that the same tree gives the same image. */
static int read_names(struct scan *c, int fd, char ***out, size_t *count)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *e;
    size_t cap = 0;
    int r = 0;

    *out = NULL;
    *count = 0;
    if (!d) {
        if (copy >= 0)
            close(copy);
        return image_fail(c->t->err, "cannot read a directory: %s", strerror(errno));
    }
    while (!r && (errno = 0, e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (*count == cap) {
            char **p = realloc(*out, (cap = cap ? 2 * cap : 32) * sizeof(*p));

            if (!p) {
                r = image_fail(c->t->err, "out of memory");
                break;
            }
            *out = p;
        }
        if (!((*out)[*count] = strdup(e->d_name)))
            r = image_fail(c->t->err, "out of memory");
        else
            ++*count;
    }
    if (!r && errno)
        r = image_fail(c->t->err, "cannot read a directory: %s", strerror(errno));
    closedir(d);
    return r;
}

static int cmp_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int scan_level(struct scan *c, struct inode *dir, int fd, u32 depth)
{
    char **names;
    size_t count;
    int r = read_xattrs(c, dir, fd);

    if (r)
        return r;
    r = read_names(c, fd, &names, &count);
    if (count)
        qsort(names, count, sizeof(*names), cmp_name);
    for (size_t k = 0; !r && k < count; k++)
        r = scan_one(c, dir, fd, names[k], depth);
    for (size_t k = 0; k < count; k++)
        free(names[k]);
    free(names);
    return r;
}

int scan_dir(struct tree *t, struct sink *s, const char *dir, bool one_fs)
{
    struct scan c = {.t = t, .s = s, .one_fs = one_fs};
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
    struct stat st;

    if (fd < 0 || fstat(fd, &st)) {
        r = image_fail(t->err, "cannot open %s: %s", dir, strerror(errno));
    } else {
        set_stat(t->root, &st);
        c.dev = st.st_dev;
        r = scan_level(&c, t->root, fd, 0);
    }
    if (fd >= 0)
        close(fd);
    free(c.hard);
    return r;
}
