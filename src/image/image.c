/* Image building: scan, EROFS metadata, exec views, header; see image.h.
 *
 * Order of the output: block 0, file contents, metadata (erofs_write.c), then for each program with system-call sites
 * one view blob (view_build.h), the index rows sorted by node id, and the view header in the last 4096 bytes. The
 * superblock counts only the file system's blocks; the kernel and erofs-utils ignore the rest. */
#include "image/image.h"
#include "image/erofs_write.h"
#include "image/view_build.h"
#include "wire/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE_MAX (1ull << 38) /* 256 GiB */

struct views {
    struct view_row *rows;
    u32 count, cap;
    u64 sites, left;
};

static int cmp_row(const void *a, const void *b)
{
    return memcmp(a, b, VIEW_KEY_SIZE);
}

static struct view_row *add_row(struct views *v, struct image_error *err)
{
    if (v->count == v->cap) {
        u32 cap = v->cap ? 2 * v->cap : 64;
        struct view_row *p = cap <= VIEW_ROWS_MAX ? realloc(v->rows, cap * sizeof(*p)) : NULL;

        if (!p) {
            image_fail(err, "out of memory");
            return NULL;
        }
        v->rows = p;
        v->cap = cap;
    }
    return &v->rows[v->count++];
}

/* A file whose view cannot be built simply has none: it runs by traps. */
static int add_view(struct sink *s, struct views *v, const u8 *file, const struct inode *i)
{
    u8 key[VIEW_KEY_SIZE];
    struct view_blob blob;
    struct view_entry *e;
    struct view_row *row;
    int r;

    if (!view_wanted(file, i->size) || view_build_jailed(file, i->size, &blob))
        return 0;
    row = add_row(v, s->err);
    if (!row) {
        free(blob.data);
        return -1;
    }
    view_key_nid(key, i->nid);
    e = view_blob_place(&blob, s->pos, key);
    memcpy(row->key, key, sizeof(key));
    row->entry_off = s->pos;
    v->sites += e->sites_count;
    v->left += e->sites_left;
    r = sink_write(s, blob.data, blob.size);
    free(blob.data);
    return r;
}

static int write_header(struct sink *s, struct views *v, u64 fs_size)
{
    u8 page[VIEW_HEADER_SIZE] = {0};
    struct view_header h = {
        .magic = VIEW_MAGIC, .version = VIEW_VERSION, .generation = 1, .fs_size = fs_size, .key_kind = VIEW_KEY_NID,
        .index_count = v->count, .index_off = s->pos,
    };

    if (v->count)
        qsort(v->rows, v->count, sizeof(*v->rows), cmp_row);
    if (sink_write(s, v->rows, v->count * sizeof(*v->rows)) || sink_pad(s, VIEW_HEADER_SIZE))
        return -1;
    h.data_end = s->pos;
    memcpy(page, &h, sizeof(h));
    h.crc = view_crc32c(~0u, page, sizeof(page));
    memcpy(page, &h, sizeof(h));
    return sink_write(s, page, sizeof(page)) ? -1 : sink_flush(s);
}

static int write_views(struct tree *t, struct sink *s, bool none, struct views *v)
{
    u64 fs_size = s->pos;
    const u8 *fs = mmap(NULL, fs_size, PROT_READ, MAP_SHARED, s->fd, 0);
    int r = 0;

    if (fs == MAP_FAILED)
        return image_fail(s->err, "cannot map the image: %s", strerror(errno));
    for (struct inode *i = none ? NULL : t->first; i && !r; i = i->next)
        if (i->elf && S_ISREG(i->mode))
            r = add_view(s, v, fs + (u64)i->block * PAGE_SIZE, i);
    munmap((void *)fs, fs_size);
    return r ? r : write_header(s, v, fs_size);
}

static int build_into(int fd, const char *dir, int tar, const char *near, const struct image_options *o,
                      struct image_stats *st, struct image_error *err)
{
    static const u8 zero[PAGE_SIZE];
    struct views v = {0};
    struct tree t;
    struct sink s;
    u64 fs_size;
    int r;

    if (tree_init(&t, err))
        return -1;
    if (sink_init(&s, fd, near, IMAGE_MAX, err)) {
        tree_free(&t);
        return -1;
    }
    r = sink_write(&s, zero, sizeof(zero));
    if (!r)
        r = dir ? scan_dir(&t, &s, dir, o->one_file_system) : scan_tar(&t, &s, tar);
    if (!r)
        r = tree_sort(&t);
    if (!r)
        r = erofs_write(&t, &s, o->uuid);
    fs_size = s.pos;
    if (!r)
        r = write_views(&t, &s, o->no_views, &v);
    if (!r && st)
        *st = (struct image_stats){.inodes = t.count, .bytes = s.pos, .fs_bytes = fs_size, .views = v.count,
                                   .sites = (u32)v.sites, .sites_left = (u32)v.left};
    free(v.rows);
    sink_free(&s);
    tree_free(&t);
    return r;
}

static int sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[4096];
    int fd, r;

    snprintf(dir, sizeof(dir), "%.*s.", slash ? (int)(slash - path) + 1 : 0, path);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    r = fsync(fd);
    close(fd);
    return r;
}

static int build(const char *dir, int tar, const char *out, const struct image_options *o, struct image_stats *st,
                 struct image_error *err)
{
    static const struct image_options defaults;
    char tmp[4096];
    u64 salt;
    int fd, r;

    if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
        return image_fail(err, "no random numbers: %s", strerror(errno));
    if (snprintf(tmp, sizeof(tmp), "%s.tmp-%016llx", out, (unsigned long long)salt) >= (int)sizeof(tmp))
        return image_fail(err, "the name of the image is too long");
    fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return image_fail(err, "cannot create %s: %s", tmp, strerror(errno));
    o = o ? o : &defaults;
    r = build_into(fd, dir, tar, tmp, o, st, err);
    if (!r && !o->no_sync && fsync(fd))
        r = image_fail(err, "cannot sync %s: %s", tmp, strerror(errno));
    if (close(fd) && !r)
        r = image_fail(err, "cannot close %s: %s", tmp, strerror(errno));
    if (!r && rename(tmp, out))
        r = image_fail(err, "cannot rename the image to %s: %s", out, strerror(errno));
    if (!r && !o->no_sync && sync_directory(out))
        r = image_fail(err, "cannot sync the directory of %s: %s", out, strerror(errno));
    if (r)
        unlink(tmp);
    return r;
}

int image_build_dir(const char *dir, const char *out, const struct image_options *o, struct image_stats *st,
                    struct image_error *err)
{
    return build(dir, -1, out, o, st, err);
}

int image_build_tar_fd(int fd, const char *out, const struct image_options *o, struct image_stats *st,
                       struct image_error *err)
{
    return build(NULL, fd, out, o, st, err);
}

int image_build_tar(const char *path, const char *out, const struct image_options *o, struct image_stats *st,
                    struct image_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), r;

    if (fd < 0)
        return image_fail(err, "cannot open %s: %s", path, strerror(errno));
    r = build(NULL, fd, out, o, st, err);
    close(fd);
    return r;
}
