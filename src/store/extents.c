#define _GNU_SOURCE
#define XXH_INLINE_ALL
#include "store/extents.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/layout.h"

/* index: this, then a struct extent each, little endian */
struct index_header {
    char magic[8];
    u64 count;
};
static const char magic[8] = "HARENAX1";

static void hash_digest(XXH128_hash_t h, char out[MANIFEST_ID])
{
    snprintf(out, MANIFEST_ID, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

void hash_text(const void *data, size_t size, char out[MANIFEST_ID]) { hash_digest(XXH3_128bits(data, size), out); }

const char *segment_name(const struct manifest_segment *s, char out[16])
{
    if (s->kind == SEGMENT_KERNEL)
        snprintf(out, 16, "kernel");
    else
        snprintf(out, 16, "%s.%u", s->kind == SEGMENT_DATA ? "data" : "pages", s->level & 0xff);
    return out;
}

/* ---- extents ---- */

int extents_add(struct extents *x, u32 first, u64 offset, u64 size, struct harena_error *err)
{
    struct extent *last = x->count > first ? &x->list[x->count - 1] : NULL;
    if (last && last->offset + last->size == offset) {
        last->size += size;
        return 0;
    }
    if (x->count == x->room) {
        u32 room = x->room ? x->room * 2 : 256;
        struct extent *more = x->count < MANIFEST_EXTENTS ? reallocarray(x->list, room, sizeof(*more)) : NULL;
        if (!more) {
            harena_error_set(err, 125, "the sandbox's memory is too fragmented for a snapshot (more than %u pieces)", x->count);
            return -1;
        }
        x->list = more;
        x->room = room;
    }
    x->list[x->count++] = (struct extent){ offset, size };
    return 0;
}

void extents_free(struct extents *x)
{
    free(x->list);
    *x = (struct extents){ 0 };
}

u8 *index_encode(const struct extents *x, size_t *size)
{
    struct index_header h = { .count = x->count };
    *size = sizeof(h) + x->count * sizeof(struct extent);
    u8 *data = malloc(*size);
    if (!data)
        abort();
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(data, &h, sizeof(h));
    if (x->count)
        memcpy(data + sizeof(h), x->list, x->count * sizeof(struct extent));
    return data;
}

static bool extents_valid(const struct extent *list, const struct manifest_segment *s)
{
    u64 end = 0, stored = 0;
    for (u32 i = 0; i < s->count; i++) {
        const struct extent *e = &list[i];
        if (!e->size || (e->size | e->offset) % PAGE_SIZE || e->offset < end || e->offset > s->size || e->size > s->size - e->offset)
            return false;
        end = e->offset + e->size;
        stored += e->size;
    }
    return stored == s->stored;
}

int index_decode(const u8 *data, size_t size, const struct manifest *m, struct extents *x, struct harena_error *err)
{
    struct index_header h = { .count = 0 };
    u64 count = 0;
    for (u32 i = 0; i < m->segment_count; i++)
        count += m->segments[i].count;
    if (size >= sizeof(h))
        memcpy(&h, data, sizeof(h));
    bool ok = !memcmp(h.magic, magic, sizeof(magic)) && h.count == count && count <= MANIFEST_EXTENTS &&
              size == sizeof(h) + count * sizeof(struct extent);
    if (ok) {
        x->list = malloc(count * sizeof(struct extent) + 1);
        if (!x->list)
            abort();
        memcpy(x->list, data + sizeof(h), count * sizeof(struct extent));
        x->count = x->room = count;
        for (u32 i = 0; i < m->segment_count && ok; i++)
            ok = extents_valid(x->list + m->segments[i].first, &m->segments[i]);
    }
    if (ok)
        return 0;
    extents_free(x);
    harena_error_set(err, 125, "its index is damaged");
    return -1;
}

/* ---- reading ---- */

/* What lies beyond the end of the file is zero. */
static int read_all(int fd, void *buffer, size_t size, u64 offset, struct harena_error *err)
{
    u8 *p = buffer;
    while (size) {
        ssize_t n = pread(fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            harena_error_set(err, 125, "cannot read: %s", strerror(errno));
            return -1;
        }
        if (n == 0) {
            memset(p, 0, size);
            return 0;
        }
        p += n;
        offset += (u64)n;
        size -= (size_t)n;
    }
    return 0;
}

static int write_all(int fd, const void *buffer, size_t size, u64 offset, struct harena_error *err)
{
    const u8 *p = buffer;
    while (size) {
        ssize_t n = pwrite(fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int e = n ? errno : ENOSPC;
            harena_error_set(err, 125, "cannot write the snapshot: %s%s", strerror(e),
                             e == ENOSPC || e == EDQUOT ? "; free some space or set HARENA_SNAPSHOTS to another file system" :
                             e == EFBIG ? "; the file system or `ulimit -f` does not allow such large (sparse) files" : "");
            return -1;
        }
        p += n;
        offset += (u64)n;
        size -= (size_t)n;
    }
    return 0;
}

/* The next place at or behind pos that may hold data; size when there is none. */
static u64 next_data(int fd, u64 pos, u64 size)
{
    if (pos >= size)
        return size;
    off_t at = lseek(fd, (off_t)pos, SEEK_DATA);
    if (at < 0)
        return errno == ENXIO ? size : pos; /* no SEEK_DATA here: everything is data */
    return (u64)at < size ? (u64)at & ~(u64)(PAGE_SIZE - 1) : size;
}

static u64 data_end(int fd, u64 pos, u64 size)
{
    off_t at = lseek(fd, (off_t)pos, SEEK_HOLE);
    u64 end = at < 0 ? size : PAGE_UP((u64)at);
    return end < size ? end : size;
}

static u64 stack_next(struct stack *s, u64 pos, u64 none)
{
    u64 best = none;
    for (u32 i = 0; i < s->levels; i++) {
        const struct extent *e = s->level[i].list;
        u32 *at = &s->level[i].at;
        while (*at < s->level[i].count && e[*at].offset + e[*at].size <= pos)
            ++*at;
        if (*at < s->level[i].count) {
            u64 start = e[*at].offset > pos ? e[*at].offset : pos;
            best = start < best ? start : best;
        }
    }
    return best;
}

/* After stack_next(pos): [pos, pos + size) as the levels together have it. Not behind the cursor. */
static int stack_read(const struct stack *s, u64 pos, u8 *buffer, size_t size, struct harena_error *err)
{
    memset(buffer, 0, size);
    for (u32 i = 0; i < s->levels; i++) {
        const struct extent *e = s->level[i].list;
        for (u32 n = s->level[i].at; n < s->level[i].count && e[n].offset < pos + size; n++) {
            u64 from = e[n].offset > pos ? e[n].offset : pos, to = e[n].offset + e[n].size;
            to = to < pos + size ? to : pos + size;
            if (from < to && read_all(s->level[i].fd, buffer + (from - pos), to - from, from, err) < 0)
                return -1;
        }
    }
    return 0;
}

static bool is_zero(const u8 *page)
{
    const u64 *p = (const void *)page;
    for (u32 i = 0; i < PAGE_SIZE / 8; i += 8)
        if (p[i] | p[i + 1] | p[i + 2] | p[i + 3] | p[i + 4] | p[i + 5] | p[i + 6] | p[i + 7])
            return false;
    return true;
}

/* ---- writing ---- */

struct job {
    int source, dest; /* dest -1: only look */
    struct extents *x;
    u32 first;
    XXH3_state_t *hash;
    u64 stored;
    u8 *data, *old;
    struct progress *progress;
    struct harena_error *err;
};

/* Stores pages of data[0, size), which is [offset, offset + size) of the segment, that are not zero or differ from old. */
static int store_chunk(struct job *j, u64 offset, u64 size, bool compare)
{
    for (u64 at = 0; at < size;) {
        u64 start = at;
        while (at < size && (compare ? memcmp(j->data + at, j->old + at, PAGE_SIZE) != 0 : !is_zero(j->data + at)))
            at += PAGE_SIZE;
        if (at > start) {
            XXH3_128bits_update(j->hash, j->data + start, at - start);
            j->stored += at - start;
            if (extents_add(j->x, j->first, offset + start, at - start, j->err) < 0 ||
                (j->dest >= 0 && write_all(j->dest, j->data + start, at - start, offset + start, j->err) < 0))
                return -1;
        } else {
            at += PAGE_SIZE;
        }
    }
    if (j->progress) {
        j->progress->done += size;
        if (j->progress->call)
            j->progress->call(j->progress->arg, j->progress->done, j->progress->total);
    }
    return 0;
}

static int run_job(struct job *j, u64 size, struct stack *below)
{
    u64 pos = 0, end = 0; /* [.., end) is data of the source as far as we know */
    while (pos < size) {
        u64 data = pos < end ? pos : next_data(j->source, pos, size);
        if (data < size && data >= end)
            end = data_end(j->source, data, size);
        u64 start = below ? stack_next(below, pos, data) : data;
        if (start >= size)
            break;
        u64 n = size - start < CHUNK ? size - start : CHUNK;
        if (!below && end - start < n)
            n = end - start;
        if (read_all(j->source, j->data, n, start, j->err) < 0 || (below && stack_read(below, start, j->old, n, j->err) < 0) ||
            store_chunk(j, start, n, below) < 0)
            return -1;
        pos = start + n;
    }
    return 0;
}

/* ---- a large segment: read by a thread of its own, while what it has read before is hashed and written ---- */

#define AHEAD 4u /* chunks */
#define AHEAD_MIN (16u << 20)

struct ahead {
    int source;
    u64 size;
    pthread_mutex_t lock; /* all below, but for the data of chunks: those from `used` on to `read` are the writer's, the others the reader's */
    pthread_cond_t moved;
    struct chunk {
        u64 offset, size;
        u8 *data;
    } chunk[AHEAD];
    u32 read, used;
    bool ended, stop; /* the reader; so it is to */
    int result;
    struct harena_error err;
};

/* The next chunk to be read into; NULL: none is wanted. */
static struct chunk *ahead_room(struct ahead *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->read - a->used == AHEAD && !a->stop)
        pthread_cond_wait(&a->moved, &a->lock);
    bool stop = a->stop;
    pthread_mutex_unlock(&a->lock);
    return stop ? NULL : &a->chunk[a->read % AHEAD];
}

static void *read_ahead(void *arg)
{
    struct ahead *a = arg;
    struct chunk *c;
    u64 pos = 0, end = 0;
    while (a->result == 0 && (c = ahead_room(a))) {
        if (pos >= end && (pos = next_data(a->source, pos, a->size)) < a->size)
            end = data_end(a->source, pos, a->size);
        if (pos >= a->size)
            break;
        c->offset = pos;
        c->size = end - pos < CHUNK ? end - pos : CHUNK;
        int r = read_all(a->source, c->data, c->size, pos, &a->err);
        pos += c->size;
        pthread_mutex_lock(&a->lock);
        a->result = r;
        a->read += r == 0;
        pthread_cond_signal(&a->moved);
        pthread_mutex_unlock(&a->lock);
    }
    pthread_mutex_lock(&a->lock);
    a->ended = true;
    pthread_cond_signal(&a->moved);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* What has been read; NULL: that is all. */
static struct chunk *ahead_take(struct ahead *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->read == a->used && !a->ended)
        pthread_cond_wait(&a->moved, &a->lock);
    bool there = a->read != a->used;
    pthread_mutex_unlock(&a->lock);
    return there ? &a->chunk[a->used % AHEAD] : NULL;
}

static void ahead_used(struct ahead *a, bool stop)
{
    pthread_mutex_lock(&a->lock);
    a->used++;
    a->stop = stop;
    pthread_cond_signal(&a->moved);
    pthread_mutex_unlock(&a->lock);
}

static int run_job_ahead(struct job *j, u64 size)
{
    struct ahead a = { .source = j->source, .size = size, .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };
    struct chunk *c;
    pthread_t thread;
    sigset_t all, old;
    int r = 0;
    for (u32 i = 0; i < AHEAD; i++)
        if (!(a.chunk[i].data = aligned_alloc(64, CHUNK)))
            abort();
    sigfillset(&all); /* signals are for the caller's threads */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    bool begun = pthread_create(&thread, NULL, read_ahead, &a) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    u8 *own = j->data;
    while (begun && r == 0 && (c = ahead_take(&a))) {
        j->data = c->data;
        r = store_chunk(j, c->offset, c->size, false);
        ahead_used(&a, r < 0);
    }
    j->data = own;
    if (begun)
        pthread_join(thread, NULL);
    for (u32 i = 0; i < AHEAD; i++)
        free(a.chunk[i].data);
    if (!begun)
        return run_job(j, size, NULL);
    if (r == 0 && a.result < 0 && j->err)
        *j->err = a.err;
    return r < 0 ? r : a.result;
}

static bool is_large(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (u64)st.st_blocks * 512 >= AHEAD_MIN;
}

static int write_or_scan(int source, u64 size, const struct stack *below, int dest, struct extents *x, struct manifest_segment *out,
                         struct progress *p, struct harena_error *err)
{
    struct stack cursor = { 0 };
    struct job j = { .source = source, .dest = dest, .x = x, .first = x->count, .progress = p, .err = err };
    j.hash = XXH3_createState();
    j.data = aligned_alloc(64, CHUNK);
    j.old = below ? aligned_alloc(64, CHUNK) : NULL;
    if (!j.hash || !j.data || (below && !j.old))
        abort();
    if (below) {
        cursor = *below;
        for (u32 i = 0; i < cursor.levels; i++)
            cursor.level[i].at = 0;
    }
    XXH3_128bits_reset(j.hash);
    int r = !below && is_large(source) ? run_job_ahead(&j, size) : run_job(&j, size, below ? &cursor : NULL);
    out->size = size;
    out->stored = j.stored;
    out->first = j.first;
    out->count = x->count - j.first;
    hash_digest(XXH3_128bits_digest(j.hash), out->xxh3);
    XXH3_freeState(j.hash);
    free(j.data);
    free(j.old);
    return r;
}

int segment_write(int source, u64 size, const struct stack *below, int dest, struct extents *x, struct manifest_segment *out,
                  struct progress *p, struct harena_error *err)
{
    if (ftruncate(dest, (off_t)size) == 0) /* first: some file systems set blocks aside behind the end of a file that grows */
        return write_or_scan(source, size, below, dest, x, out, p, err);
    harena_error_set(err, 125, "cannot write the snapshot: %s%s", strerror(errno),
                     errno == EFBIG ? "; the file system or `ulimit -f` does not allow such large (sparse) files" : "");
    return -1;
}

int segment_scan(int fd, u64 size, struct extents *x, struct manifest_segment *out, struct harena_error *err)
{
    return write_or_scan(fd, size, NULL, -1, x, out, NULL, err);
}

/* ---- checking, copying ---- */

static int damaged(const struct manifest_segment *s, struct harena_error *err)
{
    char name[16];
    harena_error_set(err, 125, "its file %s is damaged (wrong checksum)", segment_name(s, name));
    return -1;
}

/* Nothing is at [offset, offset + size) any more; in a file that is new nothing has to be done. */
static int write_zeroes(int fd, const u8 *zeroes, u64 size, u64 offset, bool fresh, struct harena_error *err)
{
    if (fresh || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size) == 0)
        return 0;
    return write_all(fd, zeroes, size, offset, err);
}

/* Pages of zeroes stay holes: a small file with a large hole that is said to be stored does not fill the disk. */
static int write_sparse(int fd, const u8 *data, u64 size, u64 offset, bool fresh, struct harena_error *err)
{
    for (u64 at = 0; at < size;) {
        u64 start = at;
        bool zero = is_zero(data + at);
        while (at < size && is_zero(data + at) == zero)
            at += PAGE_SIZE;
        if ((zero ? write_zeroes(fd, data + start, at - start, offset + start, fresh, err)
                  : write_all(fd, data + start, at - start, offset + start, err)) < 0)
            return -1;
    }
    return 0;
}

/* Hashes the extents, and writes them to `to` when that is a descriptor. */
static int pass_extents(int from, int to, bool fresh, const struct manifest_segment *s, const struct extent *list, char out[MANIFEST_ID],
                        struct harena_error *err)
{
    XXH3_state_t *hash = XXH3_createState();
    u8 *data = aligned_alloc(64, CHUNK);
    int r = 0;
    if (!hash || !data)
        abort();
    XXH3_128bits_reset(hash);
    for (u32 i = 0; i < s->count && r == 0; i++)
        for (u64 at = 0; at < list[i].size && r == 0;) {
            u64 n = list[i].size - at < CHUNK ? list[i].size - at : CHUNK;
            r = read_all(from, data, n, list[i].offset + at, err);
            if (r == 0)
                XXH3_128bits_update(hash, data, n);
            if (r == 0 && to >= 0)
                r = write_sparse(to, data, n, list[i].offset + at, fresh, err);
            at += n;
        }
    hash_digest(XXH3_128bits_digest(hash), out);
    XXH3_freeState(hash);
    free(data);
    return r;
}

/* All data outside of the extents is zero. */
static int gaps_are_zero(int fd, const struct manifest_segment *s, const struct extent *list, bool *zero, struct harena_error *err)
{
    u8 *page = aligned_alloc(64, PAGE_SIZE);
    u32 i = 0;
    u64 end = 0;
    *zero = true;
    if (!page)
        abort();
    for (u64 pos = 0; pos < s->size && *zero;) {
        while (i < s->count && list[i].offset + list[i].size <= pos)
            i++;
        if (i < s->count && list[i].offset <= pos) {
            pos = list[i].offset + list[i].size;
            continue;
        }
        if (pos >= end) {
            pos = next_data(fd, pos, s->size);
            end = pos < s->size ? data_end(fd, pos, s->size) : pos;
            continue;
        }
        if (read_all(fd, page, PAGE_SIZE, pos, err) < 0) {
            free(page);
            return -1;
        }
        *zero = is_zero(page);
        pos += PAGE_SIZE;
    }
    free(page);
    return 0;
}

int segment_verify(int fd, const struct manifest_segment *s, const struct extent *list, struct harena_error *err)
{
    char found[MANIFEST_ID];
    bool zero;
    if (pass_extents(fd, -1, false, s, list, found, err) < 0 || gaps_are_zero(fd, s, list, &zero, err) < 0)
        return -1;
    return strcmp(found, s->xxh3) || !zero ? damaged(s, err) : 0;
}

int segment_copy(int from, int to, const struct manifest_segment *s, const struct extent *list, bool check, struct harena_error *err)
{
    char found[MANIFEST_ID];
    struct stat st;
    bool fresh = fstat(to, &st) == 0 && st.st_blocks == 0;
    if (pass_extents(from, to, fresh, s, list, found, err) < 0)
        return -1;
    return check && strcmp(found, s->xxh3) ? damaged(s, err) : 0;
}

/* Page files are mapped, by the sandboxes made from them and by the next snapshot. tmpfs allocates a page when a hole is read through
 * a mapping, and on a full one the reader gets SIGBUS instead. Pages of zeroes between others are small holes; large ones, and more
 * than is stored, are not what an honest guest's kernel refers to. */
int segment_fill(int fd, struct harena_error *err)
{
    struct statfs fs;
    struct stat st;
    if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC || fstat(fd, &st) < 0)
        return 0;
    u64 room = (u64)st.st_blocks * 512 + CHUNK;
    off_t hole, end;
    for (off_t at = 0; (hole = lseek(fd, at, SEEK_HOLE)) >= 0 && (end = lseek(fd, hole, SEEK_DATA)) >= 0; at = end) {
        u64 size = (u64)(end - hole);
        if (size > CHUNK || size > room)
            continue;
        room -= size;
        if (fallocate(fd, 0, hole, (off_t)size) < 0) {
            harena_error_set(err, 125, "cannot write the snapshot's pages: %s", strerror(errno));
            return -1;
        }
    }
    return 0;
}
