/* The pack of exec views: its files, generations and look-ups; see pack.h. Adding: pack_add.c.
 *
 * The whole file is mapped once at its maximal size; only bytes below the size that fstat reported are touched (the
 * file never shrinks). A look-up compares the two generation words in the mapped headers with the cached one and
 * reads the header again only if it changed.
 *
 * The stamp. Checksums cover headers and entries, not the pages guests execute. So `stamp.<n>` remembers what stat() said
 * of the file after the last commit: a file that something else has changed since has another ctime, and is
 * thrown away. A writer marks the stamp dirty before it appends; if it is killed, nothing below the last valid header's
 * data_end has been touched, and the next one who holds the lock takes the file as it is. */
#include "image/pack_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define STAMP_MAGIC 0x31706d6174737668ull

struct stamp {
    u64 magic;
    u32 dirty, crc;
    u64 ino, size;
    s64 mtime_ns, ctime_ns;
};

/* ------------------------------------------------------------------ header */

int pack_read_header(struct pack *p)
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
    return MAX(g[0], g[1]) == p->h.generation ? 0 : pack_read_header(p);
}

int pack_write_at(int fd, const void *buf, u64 size, u64 off)
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

int pack_write_header(struct pack *p, int fd, struct view_header *h)
{
    u8 page[VIEW_HEADER_SIZE] = {0};
    int r;

    if (!p->no_sync && fdatasync(fd))
        return -errno;
    h->crc = 0;
    memcpy(page, h, sizeof(*h));
    h->crc = view_crc32c(~0u, page, sizeof(page));
    memcpy(page, h, sizeof(*h));
    r = pack_write_at(fd, page, sizeof(page), (h->generation & 1) * VIEW_HEADER_SIZE);
    return r ? r : p->no_sync ? 0 : fdatasync(fd) ? -errno : 0;
}

/* ------------------------------------------------------------------ stamp */

static void stamp_name(char name[32], u32 number)
{
    snprintf(name, 32, "stamp.%u", number);
}

static u32 stamp_crc(struct stamp s)
{
    s.crc = 0;
    return view_crc32c(~0u, &s, sizeof(s));
}

static int stamp_write(int dir, u32 number, int fd, bool dirty)
{
    struct stamp s = {.magic = STAMP_MAGIC, .dirty = dirty};
    char name[32];
    struct stat st;
    int out, r;

    if (fstat(fd, &st))
        return -errno;
    s.ino = st.st_ino;
    s.size = st.st_size;
    s.mtime_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
    s.ctime_ns = st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec;
    s.crc = stamp_crc(s);
    stamp_name(name, number);
    out = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return -errno;
    r = pack_write_at(out, &s, sizeof(s), 0); /* one sector: not torn */
    close(out);
    return r;
}

enum stamp_state { STAMP_CLEAN, STAMP_DIRTY, STAMP_WRONG };

static enum stamp_state stamp_check(int dir, u32 number, int fd)
{
    char name[32];
    struct stamp s;
    struct stat st;
    ssize_t n;
    int in;

    stamp_name(name, number);
    in = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0)
        return STAMP_WRONG;
    n = pread(in, &s, sizeof(s), 0);
    close(in);
    if (n != sizeof(s) || s.magic != STAMP_MAGIC || s.crc != stamp_crc(s) || fstat(fd, &st) || s.ino != st.st_ino)
        return STAMP_WRONG;
    if (s.dirty)
        return STAMP_DIRTY;
    return s.size == (u64)st.st_size && s.mtime_ns == st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec &&
           s.ctime_ns == st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec ? STAMP_CLEAN : STAMP_WRONG;
}

int pack_begin(struct pack *p)
{
    if (stamp_check(p->dir, p->number, p->fd) == STAMP_WRONG)
        return -ESTALE;
    return stamp_write(p->dir, p->number, p->fd, true);
}

int pack_end(struct pack *p)
{
    return stamp_write(p->dir, p->number, p->fd, false);
}

/* ------------------------------------------------------------------ generations */

static void file_name(char name[32], u32 number)
{
    snprintf(name, 32, "views.%u", number);
}

static u32 newest(int dir) /* 0: none */
{
    char text[16];
    ssize_t n;
    int fd = openat(dir, "current", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return 0;
    n = pread(fd, text, sizeof(text) - 1, 0);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    return (u32)strtoul(text, NULL, 10);
}

static int set_newest(struct pack *p, u32 number)
{
    char text[16];
    int fd = openat(p->dir, "current.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644), r;

    if (fd < 0)
        return -errno;
    r = pack_write_at(fd, text, snprintf(text, sizeof(text), "%u\n", number), 0);
    if (!r && !p->no_sync && fdatasync(fd))
        r = -errno;
    close(fd);
    if (!r && renameat(p->dir, "current.tmp", p->dir, "current"))
        r = -errno;
    return r;
}

/* Older files and stamps; what has them open keeps them. */
static void remove_others(int dir, u32 number)
{
    char name[32], stamp[32];
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    file_name(name, number);
    stamp_name(stamp, number);
    while (d && (e = readdir(d)))
        if ((!strncmp(e->d_name, "views.", 6) && strcmp(e->d_name, name)) ||
            (!strncmp(e->d_name, "stamp.", 6) && strcmp(e->d_name, stamp)))
            unlinkat(dir, e->d_name, 0);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
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
    fd = openat(p->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (getrandom(h.pack_id, sizeof(h.pack_id), 0) != sizeof(h.pack_id) || ftruncate(fd, 2 * VIEW_HEADER_SIZE))
        r = -errno;
    if (!r)
        r = pack_write_header(p, fd, &h);
    if (!r)
        r = stamp_write(p->dir, number, fd, false);
    if (!r)
        r = set_newest(p, number);
    if (r) {
        close(fd);
        unlinkat(p->dir, name, 0);
        return r;
    }
    remove_others(p->dir, number);
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
    return pack_read_header(p);
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
    u32 number = newest(p->dir);
    enum stamp_state state;
    char name[32];
    int fd, r;

    if (number) {
        file_name(name, number);
        fd = openat(p->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        state = fd < 0 ? STAMP_WRONG : stamp_check(p->dir, number, fd);
        r = fd < 0 ? -errno : attach(p, fd);
        if (!r && state != STAMP_WRONG && p->h.data_end <= p->max - p->max / 8) {
            p->number = number;
            return state == STAMP_DIRTY ? pack_end(p) : 0;
        }
        detach(p);
    }
    p->number = number + 1;
    fd = create_file(p, p->number);
    return fd < 0 ? fd : attach(p, fd);
}

/* Makes and opens the directory; it must be the caller's and nobody else's to write. */
static int open_dir(const char *dir)
{
    struct stat st;
    int fd;

    if (mkdir(dir, 0700) && errno != EEXIST)
        return -errno;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 022))
        return fd;
    close(fd);
    return -EPERM;
}

int pack_open(const char *dir, const struct pack_options *o, struct pack **out)
{
    struct pack *p = calloc(1, sizeof(*p));
    int r = 0;

    if (!p)
        return -ENOMEM;
    p->lock = p->fd = -1;
    p->max = PAGE_UP(o && o->max_size ? MIN(o->max_size, VIEW_CONTAINER_MAX) : PACK_SIZE_DEFAULT);
    p->private = o && o->private;
    p->no_sync = o && o->no_sync;
    p->dir = open_dir(dir);
    if (p->dir < 0)
        r = p->dir;
    if (!r && (p->lock = openat(p->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
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

int pack_current(const char *dir, const struct pack_options *o, char *path, size_t path_size)
{
    char name[32];
    struct pack *p;
    int d = open_dir(dir), fd, r;
    u32 number = d < 0 ? 0 : newest(d);
    bool good = false;

    if (d < 0)
        return d;
    if (number) {
        file_name(name, number);
        fd = openat(d, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        good = fd >= 0 && stamp_check(d, number, fd) == STAMP_CLEAN;
        if (fd >= 0)
            close(fd);
    }
    close(d);
    if (!good) {
        r = pack_open(dir, o, &p);
        if (r)
            return r;
        number = p->number;
        pack_close(p);
    }
    return (size_t)snprintf(path, path_size, "%s/views.%u", dir, number) < path_size ? 0 : -ENAMETOOLONG;
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

u64 pack_entry_offset(const struct view_entry *e)
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
        *off = pack_entry_offset(e);
    return r;
}

int pack_lookup_key(struct pack *p, const u8 key[VIEW_KEY_SIZE], struct view_entry *e, u64 *off)
{
    int r = refresh(p);

    r = r ? r : view_find(&p->src, &p->h, key, e);
    if (!r && off)
        *off = pack_entry_offset(e);
    return r;
}
