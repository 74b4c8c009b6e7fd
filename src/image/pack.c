/* The pack of exec views; see pack.h.
 *
 * The whole file is mapped once at its maximal size; only bytes below the size that fstat reported are touched (the
 * file never shrinks). A look-up compares the two generation words in the mapped headers with the cached one and
 * reads the header again only if it changed. */
#include "image/pack.h"
#include "image/view_build.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define XFS_MAGIC 0x58465342
#define CTIME_SETTLED 2 /* seconds */

struct pack {
    int dir, lock, fd;
    u32 number;           /* of the file views.<number> */
    u64 max;
    bool private, no_sync;
    const u8 *map;        /* of max bytes */
    struct view_source src;
    struct view_header h;
};

/* ------------------------------------------------------------------ header */

static int read_header(struct pack *p)
{
    struct stat st;

    if (fstat(p->fd, &st))
        return -errno;
    p->src = (struct view_source){.mem = p->map, .size = MIN((u64)st.st_size, p->max)};
    return view_open_pack(&p->src, &p->h);
}

static int refresh(struct pack *p)
{
    u64 g[2];

    for (int i = 0; i < 2; i++)
        g[i] = *(const volatile u64 *)(p->map + i * VIEW_HEADER_SIZE + offsetof(struct view_header, generation));
    return MAX(g[0], g[1]) == p->h.generation ? 0 : read_header(p);
}

static int write_at(int fd, const void *buf, u64 size, u64 off)
{
    const u8 *p = buf;

    while (size) {
        ssize_t n = pwrite(fd, p, size, off);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? -errno : -EIO;
        p += n;
        off += n;
        size -= n;
    }
    return 0;
}

static int write_header(struct pack *p, int fd, struct view_header *h)
{
    u8 page[VIEW_HEADER_SIZE] = {0};
    int r;

    if (!p->no_sync && fdatasync(fd))
        return -errno;
    h->crc = 0;
    memcpy(page, h, sizeof(*h));
    h->crc = view_crc32c(~0u, page, sizeof(page));
    memcpy(page, h, sizeof(*h));
    r = write_at(fd, page, sizeof(page), (h->generation & 1) * VIEW_HEADER_SIZE);
    return r ? r : p->no_sync ? 0 : fdatasync(fd) ? -errno : 0;
}

/* ------------------------------------------------------------------ generations */

static void file_name(char name[32], u32 number)
{
    snprintf(name, 32, "views.%u", number);
}

static u32 newest(struct pack *p) /* 0: none */
{
    FILE *f;
    unsigned n = 0;
    int fd = openat(p->dir, "current", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return 0;
    f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return 0;
    }
    if (fscanf(f, "%u", &n) != 1)
        n = 0;
    fclose(f);
    return n;
}

static int set_newest(struct pack *p, u32 number)
{
    char text[16];
    int fd = openat(p->dir, "current.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644), r;

    if (fd < 0)
        return -errno;
    r = write_at(fd, text, snprintf(text, sizeof(text), "%u\n", number), 0);
    if (!r && !p->no_sync && fdatasync(fd))
        r = -errno;
    close(fd);
    if (!r && renameat(p->dir, "current.tmp", p->dir, "current"))
        r = -errno;
    return r;
}

/* A new empty pack file; the caller holds the lock. */
static int create_file(struct pack *p, u32 number)
{
    struct view_header h = {.magic = VIEW_MAGIC, .version = VIEW_VERSION, .generation = 1, .key_kind = VIEW_KEY_SHA256,
                            .data_end = 2 * VIEW_HEADER_SIZE, .index_off = 2 * VIEW_HEADER_SIZE,
                            .stat_off = 2 * VIEW_HEADER_SIZE};
    char name[32];
    int fd, r = 0;

    file_name(name, number);
    unlinkat(p->dir, name, 0); /* left by a writer that died before set_newest() */
    fd = openat(p->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    if (getrandom(h.pack_id, sizeof(h.pack_id), 0) != sizeof(h.pack_id) || ftruncate(fd, 2 * VIEW_HEADER_SIZE))
        r = -errno;
    if (!r)
        r = write_header(p, fd, &h);
    if (!r)
        r = set_newest(p, number);
    if (r) {
        close(fd);
        unlinkat(p->dir, name, 0);
        return r;
    }
    if (number > 1) {
        file_name(name, number - 1);
        unlinkat(p->dir, name, 0);
    }
    return fd;
}

static int attach(struct pack *p, int fd)
{
    p->fd = fd;
    p->map = mmap(NULL, p->max, PROT_READ, MAP_SHARED, fd, 0);
    if (p->map == MAP_FAILED) {
        p->map = NULL;
        return -errno;
    }
    return read_header(p);
}

static void detach(struct pack *p)
{
    if (p->map)
        munmap((void *)p->map, p->max);
    if (p->fd >= 0)
        close(p->fd);
    p->map = NULL;
    p->fd = -1;
}

/* The current file, or a new one if there is none or it is broken or nearly full. */
static int open_newest(struct pack *p)
{
    u32 number = newest(p);
    char name[32];
    int fd, r;

    if (number) {
        file_name(name, number);
        fd = openat(p->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : attach(p, fd);
        if (!r && p->h.data_end <= p->max - p->max / 8) {
            p->number = number;
            return 0;
        }
        detach(p);
    }
    p->number = number + 1;
    fd = create_file(p, p->number);
    return fd < 0 ? fd : attach(p, fd);
}

int pack_open(const char *dir, const struct pack_options *o, struct pack **out)
{
    struct pack *p = calloc(1, sizeof(*p));
    int r = 0;

    if (!p)
        return -ENOMEM;
    p->dir = p->lock = p->fd = -1;
    p->max = PAGE_UP(o && o->max_size ? MIN(o->max_size, VIEW_CONTAINER_MAX) : PACK_SIZE_DEFAULT);
    p->private = o && o->private;
    p->no_sync = o && o->no_sync;
    if (mkdir(dir, p->private ? 0700 : 0755) && errno != EEXIST)
        r = -errno;
    if (!r && (p->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = -errno;
    if (!r && (p->lock = openat(p->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644)) < 0)
        r = -errno;
    if (!r && flock(p->lock, LOCK_EX))
        r = -errno;
    if (!r) {
        r = open_newest(p);
        flock(p->lock, LOCK_UN);
    }
    if (r)
        pack_close(p);
    else
        *out = p;
    return r;
}

void pack_close(struct pack *p)
{
    if (!p)
        return;
    detach(p);
    if (p->lock >= 0)
        close(p->lock);
    if (p->dir >= 0)
        close(p->dir);
    free(p);
}

int pack_guest_fd(struct pack *p)
{
    char name[32];
    int fd;

    /* Through /proc, because the file may have been unlinked; a duplicate would be writable. */
    snprintf(name, sizeof(name), "/proc/self/fd/%d", p->fd);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void pack_id(struct pack *p, u8 id[16])
{
    memcpy(id, p->h.pack_id, 16);
}

/* ------------------------------------------------------------------ look-up */

static u64 entry_offset(const struct view_entry *e)
{
    return e->copy_off + PAGE_UP(e->file_size); /* commit() writes the blob right behind the copy */
}

int pack_lookup_stat(struct pack *p, u64 dev, u64 ino, u64 size, s64 mtime_ns, s64 ctime_ns, struct view_entry *e,
                     u64 *off)
{
    struct view_stat_row want = {dev, ino, size, mtime_ns, ctime_ns, 0};
    int r = refresh(p);

    r = r ? r : view_find_stat(&p->src, &p->h, &want, e);
    if (!r && off)
        *off = entry_offset(e);
    return r;
}

int pack_lookup_key(struct pack *p, const u8 key[VIEW_KEY_SIZE], struct view_entry *e, u64 *off)
{
    int r = refresh(p);

    r = r ? r : view_find(&p->src, &p->h, key, e);
    if (!r && off)
        *off = entry_offset(e);
    return r;
}

/* ------------------------------------------------------------------ adding */

static s64 nanoseconds(struct timespec t)
{
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Does the stat tuple pin the content? See pack.h. */
static bool stat_pins(int fd, const struct stat *st)
{
    struct timespec now;
    struct statfs fs;

    if (st->st_uid || st->st_mode & 022 || fstatfs(fd, &fs) || clock_gettime(CLOCK_REALTIME, &now) ||
        st->st_ctim.tv_sec + CTIME_SETTLED >= now.tv_sec)
        return false;
    switch ((u32)fs.f_type) {
    case EXT4_SUPER_MAGIC: case XFS_MAGIC: case BTRFS_SUPER_MAGIC: case OVERLAYFS_SUPER_MAGIC: case TMPFS_MAGIC:
    case EROFS_SUPER_MAGIC_V1: case SQUASHFS_MAGIC:
        return true;
    case FUSE_SUPER_MAGIC: case NFS_SUPER_MAGIC: case SMB2_SUPER_MAGIC: case CIFS_SUPER_MAGIC: case V9FS_MAGIC:
        return false;
    default:
        return fs.f_flags & ST_RDONLY;
    }
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
    r = *off + (u64)*count * size > p->max ? -ENOSPC : write_at(p->fd, rows, (u64)*count * size, *off);
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
        r = write_at(p->fd, copy, PAGE_UP(size), off);
        r = r ? r : write_at(p->fd, blob->data, blob->size, entry_off);
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
    r = write_header(p, p->fd, &h);
    return r ? r : read_header(p);
}

static int build_blob(const u8 *copy, u64 size, struct view_blob *blob)
{
    int r = view_wanted(copy, size) ? view_build_jailed(copy, size, blob) : -ENOENT;
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

    r = read_header(p);
    r = r ? r : view_find(&p->src, &p->h, key, &e);
    if (r == -ENOENT)
        return blob ? commit(p, copy, size, blob, key, stat, 0) : -ENOENT;
    if (r || !stat)
        return r;
    off = entry_offset(&e);
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
        r = add_locked(p, copy, size, b, key, stat);
        flock(p->lock, LOCK_UN);
    }
    free(blob.data);
    return r;
}

int pack_add(struct pack *p, int fd, struct view_entry *e, u64 *off)
{
    struct view_stat_row row;
    u8 key[VIEW_KEY_SIZE], *copy;
    struct stat st;
    int r = 0;

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
    r = add_copy(p, copy, st.st_size, stat_pins(fd, &st) ? &row : NULL, key);
    munmap(copy, PAGE_UP(st.st_size));
    return r ? r : pack_lookup_key(p, key, e, off);
}
