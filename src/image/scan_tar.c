/* Reads a tar archive (libarchive) into an image. Names are hostile: leading "/" and "./" are stripped, ".." is
 * an error, nothing is followed. Missing parents are made (0755, root). A later entry replaces an earlier one of the
 * same name, except that a directory stays a directory. */
#include "image/sink.h"
#include "wire/erofs_format.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct reader {
    struct archive *a;
    struct image_error *err;
};

static ssize_t read_archive(void *ctx, void *buf, size_t n)
{
    struct reader *r = ctx;
    la_ssize_t k = archive_read_data(r->a, buf, n);

    return k < 0 ? image_fail(r->err, "broken archive: %s", archive_error_string(r->a)) : k;
}

/* Next component of *path; returns its length, 0 at the end. "." is skipped. */
static u32 component(const char **path, const char **name)
{
    const char *p = *path;

    for (;;) {
        while (*p == '/')
            p++;
        if (p[0] != '.' || (p[1] && p[1] != '/'))
            break;
        p++;
    }
    *name = p;
    p += strcspn(p, "/");
    *path = p;
    return (u32)MIN((size_t)(p - *name), (size_t)UINT32_MAX);
}

static bool last_component(const char *path)
{
    const char *name;

    return !component(&path, &name);
}

/* The directory that holds the last component, which goes to *name, *len (len 0: the root itself). */
static struct inode *parent_of(struct tree *t, const char *path, const char **name, u32 *len)
{
    struct inode *dir = t->root;
    u32 depth = 0;

    *len = component(&path, name);
    while (*len && !last_component(path)) {
        struct inode *i = tree_lookup(t, dir, *name, *len);

        if (++depth > TREE_DEPTH_MAX) {
            image_fail(t->err, "broken archive: directories are nested too deeply");
            return NULL;
        }
        if (!i) {
            i = tree_inode(t, S_IFDIR | 0755);
            if (!i || tree_enter(t, dir, *name, *len, i))
                return NULL;
        } else if (!S_ISDIR(i->mode)) {
            image_fail(t->err, "broken archive: '%.80s' passes through something that is no directory", path);
            return NULL;
        }
        dir = i;
        *len = component(&path, name);
    }
    return dir;
}

static struct inode *resolve(struct tree *t, const char *path)
{
    struct inode *i = t->root;
    const char *name;
    u32 len;

    while (i && (len = component(&path, &name)))
        i = S_ISDIR(i->mode) ? tree_lookup(t, i, name, len) : NULL;
    return i;
}

static void set_attributes(struct inode *i, struct archive_entry *e)
{
    u32 type = i->mode & S_IFMT;

    i->mode = type | (archive_entry_perm(e) & 07777);
    i->uid = (u32)archive_entry_uid(e);
    i->gid = (u32)archive_entry_gid(e);
    i->mtime = archive_entry_mtime(e);
    i->mtime_nsec = (u32)archive_entry_mtime_nsec(e) % 1000000000u;
    if (S_ISCHR(type) || S_ISBLK(type)) {
        u32 ma = (u32)archive_entry_rdevmajor(e), mi = (u32)archive_entry_rdevminor(e);

        i->rdev = (mi & 0xff) | ma << 8 | (mi & ~0xffu) << 12;
    }
}

static int set_xattrs(struct tree *t, struct inode *i, struct archive_entry *e)
{
    const char *name;
    const void *value;
    size_t size;

    archive_entry_xattr_reset(e);
    while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK)
        if (name && tree_xattr(t, i, name, value, size))
            return -1;
    return 0;
}

static int set_link(struct tree *t, struct inode *i, struct archive_entry *e)
{
    const char *target = archive_entry_symlink(e);
    size_t n = target ? strlen(target) : 0;

    if (!n || n >= 4096)
        return image_fail(t->err, "broken archive: bad symbolic link");
    i->link = strdup(target);
    i->size = n;
    return i->link ? 0 : image_fail(t->err, "out of memory");
}

static int add_entry(struct tree *t, struct sink *s, struct archive *a, struct archive_entry *e)
{
    const char *path = archive_entry_pathname(e), *hard = archive_entry_hardlink(e), *name;
    struct inode *dir, *old, *i;
    u32 mode = archive_entry_filetype(e), len;

    if (!path)
        return image_fail(t->err, "broken archive: entry without a name");
    dir = parent_of(t, path, &name, &len);
    if (!dir)
        return -1;
    old = len ? tree_lookup(t, dir, name, len) : t->root;
    if (hard) {
        i = resolve(t, hard);
        if (!i || S_ISDIR(i->mode))
            return image_fail(t->err, "broken archive: hard link to '%.80s', which is no earlier file", hard);
        return i == old ? 0 : tree_enter(t, dir, name, len, i);
    }
    if (!len && !S_ISDIR(mode))
        return image_fail(t->err, "broken archive: the root is no directory");
    if (S_ISDIR(mode) && old && S_ISDIR(old->mode)) {
        set_attributes(old, e);
        return old->xattr_size ? 0 : set_xattrs(t, old, e);
    }
    if (!S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode) && !S_ISCHR(mode) && !S_ISBLK(mode) && !S_ISFIFO(mode))
        return image_fail(t->err, "broken archive: '%.80s' has no known type", path);
    /* a hole costs the archive nothing */
    if (S_ISREG(mode) && archive_entry_size_is_set(e) && (u64)archive_entry_size(e) > s->limit)
        return image_fail(t->err, "broken archive: '%.80s' is larger than an image can be", path);
    i = tree_inode(t, mode);
    if (!i || tree_enter(t, dir, name, len, i))
        return -1;
    set_attributes(i, e);
    if (set_xattrs(t, i, e))
        return -1;
    if (S_ISLNK(mode))
        return set_link(t, i, e);
    return S_ISREG(mode) ? sink_content(s, i, read_archive, &(struct reader){a, t->err}) : 0;
}

int scan_tar(struct tree *t, struct sink *s, int fd)
{
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    int r = 0, k = ARCHIVE_EOF;

    if (!a)
        return image_fail(t->err, "out of memory");
    /* not _all: some of those hand the hostile bytes to whatever lrzip, grzip or lzop the PATH has */
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_bzip2(a);
    archive_read_support_filter_xz(a);
    archive_read_support_filter_lzma(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_filter_lz4(a);
    archive_read_support_format_tar(a);
    archive_read_support_format_gnutar(a);
    if (archive_read_open_fd(a, fd, 1 << 17) != ARCHIVE_OK)
        r = image_fail(t->err, "cannot read the archive: %s", archive_error_string(a));
    while (!r && ((k = archive_read_next_header(a, &e)) == ARCHIVE_OK || k == ARCHIVE_WARN))
        r = add_entry(t, s, a, e);
    if (!r && k != ARCHIVE_EOF)
        r = image_fail(t->err, "broken archive: %s", archive_error_string(a));
    archive_read_free(a);
    return r;
}
