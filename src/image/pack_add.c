/* Adding files to the pack; see pack.h. */
#include "image/pack_internal.h"
#include "image/view_build.h"
#include "wire/view_pin.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static s64 nanoseconds(struct timespec t)
{
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Does the stat tuple pin the content? `now`: before anything of the file was read. See wire/view_pin.h. */
static bool stat_pins(struct pack *p, int fd, const struct stat *st, s64 now)
{
    struct statfs fs;

    return !fstatfs(fd, &fs) && view_fs_pins((u32)fs.f_type, fs.f_flags & ST_RDONLY) &&
           view_stat_pins(p->private, st->st_uid, st->st_mode, st->st_ctim.tv_sec, now);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           nanoseconds(a->st_mtim) == nanoseconds(b->st_mtim) && nanoseconds(a->st_ctim) == nanoseconds(b->st_ctim);
}

/* A private copy in memory: the file may change at any time, the copy cannot. NULL with *err. */
static u8 *private_copy(int fd, const struct stat *st, int *err)
{
    u64 size = st->st_size, have = 0;
    u8 *copy = mmap(NULL, PAGE_UP(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct stat now;

    if (copy == MAP_FAILED) {
        *err = -ENOMEM;
        return NULL;
    }
    while (have < size) {
        ssize_t n = pread(fd, copy + have, size - have, have);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += n;
    }
    if (have == size && !fstat(fd, &now) && same_file(st, &now))
        return copy;
    munmap(copy, PAGE_UP(size));
    *err = -EAGAIN;
    return NULL;
}

/* Writes the old array with one row more, at *off (advanced). `row` replaces an equal one. */
static int write_rows(struct pack *p, u64 *off, u64 old_off, u32 *count, const void *row, u32 size,
                      int (*cmp)(const void *, const void *))
{
    u32 n = *count, at = 0, skip = 0;
    u8 *rows = n < VIEW_ROWS_MAX ? malloc((u64)(n + 1) * size) : NULL;
    const u8 *old = p->map + old_off;
    int r;

    if (!rows)
        return n < VIEW_ROWS_MAX ? -ENOMEM : -ENOSPC;
    while (at < n && cmp(old + (u64)at * size, row) < 0)
        at++;
    skip = at < n && !cmp(old + (u64)at * size, row);
    memcpy(rows, old, (u64)at * size);
    memcpy(rows + (u64)at * size, row, size);
    memcpy(rows + (u64)(at + 1) * size, old + (u64)(at + skip) * size, (u64)(n - at - skip) * size);
    *count = n + 1 - skip;
    r = *off + (u64)*count * size > p->max ? -ENOSPC : pack_write_at(p->fd, rows, (u64)*count * size, *off);
    *off = ALIGN_UP(*off + (u64)*count * size, 16);
    free(rows);
    return r;
}

static int cmp_row(const void *a, const void *b)
{
    return memcmp(a, b, VIEW_KEY_SIZE);
}

static int cmp_stat(const void *a, const void *b)
{
    const struct view_stat_row *x = a, *y = b;

    return x->dev != y->dev ? (x->dev < y->dev ? -1 : 1) : x->ino != y->ino ? (x->ino < y->ino ? -1 : 1) : 0;
}

/* Appends what is new and makes it visible; the caller holds the lock and has read the header.
 * copy == NULL: the content is known, at entry_off; stat == NULL: no stat row. */
static int commit(struct pack *p, const u8 *copy, u64 size, struct view_blob *blob, const u8 key[VIEW_KEY_SIZE],
                  struct view_stat_row *stat, u64 entry_off)
{
    struct view_header h = p->h;
    u64 off = PAGE_UP(h.data_end);
    int r;

    if (copy) {
        struct view_row row;

        if (off + PAGE_UP(size) + blob->size > p->max)
            return -ENOSPC;
        entry_off = off + PAGE_UP(size);
        ((struct view_entry *)blob->data)->copy_off = size ? off : 0;
        view_blob_place(blob, entry_off, key);
        r = pack_write_at(p->fd, copy, PAGE_UP(size), off);
        r = r ? r : pack_write_at(p->fd, blob->data, blob->size, entry_off);
        if (r)
            return r;
        off = entry_off + blob->size;
        memcpy(row.key, key, VIEW_KEY_SIZE);
        row.entry_off = entry_off;
        r = write_rows(p, &off, h.index_off, &h.index_count, &row, sizeof(row), cmp_row);
        if (r)
            return r;
        h.index_off = off - ALIGN_UP((u64)h.index_count * sizeof(row), 16);
    }
    if (stat) {
        stat->entry_off = entry_off;
        r = write_rows(p, &off, h.stat_off, &h.stat_count, stat, sizeof(*stat), cmp_stat);
        if (r)
            return r;
        h.stat_off = off - ALIGN_UP((u64)h.stat_count * sizeof(*stat), 16);
    }
    h.data_end = PAGE_UP(off);
    if (h.data_end > p->max)
        return -ENOSPC;
    if (ftruncate(p->fd, MAX(h.data_end, p->src.size)))
        return -errno;
    h.generation++;
    r = pack_write_header(p, p->fd, &h);
    return r ? r : pack_read_header(p);
}

static int build_blob(const u8 *copy, u64 size, struct view_blob *blob)
{
    int r = view_build_jailed(copy, size, blob);
    struct view_entry *e;

    if (r != -ENOENT) /* a builder that died is not remembered as "has no view" */
        return r;
    blob->size = PAGE_SIZE; /* no view: an entry that says so */
    blob->data = calloc(1, blob->size);
    if (!blob->data)
        return -ENOMEM;
    e = (struct view_entry *)blob->data;
    e->magic = VIEW_ENTRY_MAGIC;
    e->file_size = size;
    return 0;
}

static int add_locked(struct pack *p, const u8 *copy, u64 size, struct view_blob *blob, const u8 key[VIEW_KEY_SIZE],
                      struct view_stat_row *stat)
{
    struct view_entry e;
    u64 off = 0;
    int r;

    r = pack_read_header(p);
    r = r ? r : view_find(&p->src, &p->h, key, &e);
    if (r == -ENOENT)
        return blob ? commit(p, copy, size, blob, key, stat, 0) : -ENOENT;
    if (r || !stat)
        return r;
    off = pack_entry_offset(&e);
    r = view_find_stat(&p->src, &p->h, stat, &e);
    return r == -ENOENT ? commit(p, NULL, 0, NULL, key, stat, off) : r;
}

static int add_copy(struct pack *p, const u8 *copy, u64 size, struct view_stat_row *stat, u8 key[VIEW_KEY_SIZE])
{
    struct view_blob blob = {0}, *b = NULL;
    struct view_entry e;
    int r;

    if (EVP_Digest(copy, size, key, NULL, EVP_sha256(), NULL) != 1)
        return -ENOMEM;
    r = pack_lookup_key(p, key, &e, NULL);
    if (r == -ENOENT) { /* build without the lock; if somebody else was faster, theirs stays */
        r = build_blob(copy, size, &blob);
        b = &blob;
    }
    if (!r && flock(p->lock, LOCK_EX))
        r = -errno;
    if (!r) {
        int end;

        r = pack_begin(p);
        if (!r) {
            r = add_locked(p, copy, size, b, key, stat);
            end = pack_end(p);
            r = r ? r : end;
        }
        flock(p->lock, LOCK_UN);
    }
    free(blob.data);
    return r;
}

int pack_add(struct pack *p, int fd, struct view_entry *e, u64 *off)
{
    struct view_stat_row row;
    u8 key[VIEW_KEY_SIZE], *copy;
    struct timespec now;
    struct stat st;
    int r = 0;

    clock_gettime(CLOCK_REALTIME, &now);
    if (fstat(fd, &st))
        return -errno;
    if (!S_ISREG(st.st_mode) || (!p->private && !(st.st_mode & 0004)))
        return -EACCES;
    if (!st.st_size || (u64)st.st_size > PACK_FILE_MAX)
        return -EFBIG;
    row = (struct view_stat_row){st.st_dev, st.st_ino, (u64)st.st_size, nanoseconds(st.st_mtim),
                                 nanoseconds(st.st_ctim), 0};
    copy = private_copy(fd, &st, &r);
    if (!copy)
        return r;
    r = add_copy(p, copy, st.st_size, stat_pins(p, fd, &st, now.tv_sec) ? &row : NULL, key);
    munmap(copy, PAGE_UP(st.st_size));
    return r ? r : pack_lookup_key(p, key, e, off);
}
