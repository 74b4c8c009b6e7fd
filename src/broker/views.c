/* Exec views of host files: which file has one in the pack, and asking for those that are missing.
 *
 * There are two packs (image/pack.h): the system's (FD_VIEWS in the guest) and one of this sandbox's directories (FD_VIEWS_OWN; it
 * may be missing in the first run, and is then made for the next). They are written by harena-views, a process of the user
 * who started us; here they are only read, and never mapped: whoever cuts the file short gets an error from pread, not a SIGBUS of
 * ours. Its stat rows are copied into memory and read again when a look-up misses and a header has another generation, so that
 * a hit costs no system call.
 *
 * A file qualifies when its mount is read-only for the guest, its stat tuple pins its content (wire/view_pin.h) and it is not
 * large. When the guest wants a view that is missing, a read-only descriptor of the file goes to the runtime on the link
 * (CTL_VIEW), which hands it to harena-views. Each version of a file is asked for once; a sandbox may ask for
 * BROKER_VIEWS_ASKED files and ASKED_BYTES bytes. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include "wire/view_pin.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ASKED_BYTES (512ull << 20)
#define ANSWER_NS 1500000000ull /* so long an answer is expected */
#define FILE_MIN 64

static int pack_read(void *ctx, u64 off, void *buf, size_t size)
{
    struct views *v = ctx;
    return pread(v->fd, buf, size, off) == (ssize_t)size ? 0 : -EIO;
}

/* Reads header and rows again. Returns false when there is nothing new. */
static bool reload(struct views *v)
{
    struct view_header h;
    struct stat st;
    u64 g[2] = { 0 };
    for (int i = 0; i < 2; i++)
        if (pread(v->fd, &g[i], 8, i * VIEW_HEADER_SIZE + offsetof(struct view_header, generation)) != 8)
            return false;
    if (MAX(g[0], g[1]) == v->generation || fstat(v->fd, &st) < 0)
        return false;
    struct view_source src = { .read = pack_read, .ctx = v, .size = st.st_size };
    if (view_open_pack(&src, &h) || h.key_kind != VIEW_KEY_SHA256 || h.generation == v->generation)
        return false;
    u64 size = (u64)h.stat_count * sizeof(struct view_stat_row);
    struct view_stat_row *rows = malloc(size ? size : 1);
    if (!rows || pack_read(v, h.stat_off, rows, size)) {
        free(rows);
        return false;
    }
    free(v->rows);
    v->rows = rows;
    v->count = h.stat_count;
    v->generation = h.generation;
    v->data_end = h.data_end;
    return true;
}

static s64 ns(struct timespec t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }

static int by_file(const void *key, const void *row)
{
    const struct stat *st = key;
    const struct view_stat_row *r = row;
    return st->st_dev != r->dev ? (st->st_dev > r->dev) * 2 - 1 : (st->st_ino > r->ino) - (st->st_ino < r->ino);
}

static const struct view_stat_row *find(const struct views *v, const struct stat *st)
{
    const struct view_stat_row *r = v->count ? bsearch(st, v->rows, v->count, sizeof(*r), by_file) : NULL;
    bool same = r && r->size == (u64)st->st_size && r->mtime_ns == ns(st->st_mtim) && r->ctime_ns == ns(st->st_ctim);
    return same ? r : NULL;
}

/* Asks for the view of a file, once. */
static enum wire_view_state ask(struct broker *b, struct views *v, int opath, const struct stat *st)
{
    for (u32 i = 0; i < v->asked_count; i++)
        if (v->asked[i].dev == st->st_dev && v->asked[i].ino == st->st_ino && v->asked[i].ctime_ns == ns(st->st_ctim))
            return monotonic_ns() - v->asked[i].when < ANSWER_NS ? WIRE_VIEW_PENDING : WIRE_VIEW_NONE;
    if (!b->link || !client_has_room(b->link, 65) || v->asked_count == BROKER_VIEWS_ASKED || v->asked_bytes + st->st_size > ASKED_BYTES)
        return WIRE_VIEW_NONE;
    int fd = hostfs_reopen(&b->fs, opath, O_RDONLY);
    if (fd < 0)
        return WIRE_VIEW_NONE;
    int r = client_send_fds(b->link, v->own ? CTL_VIEW_OWN : CTL_VIEW, &fd, 1);
    close(fd);
    if (r < 0)
        return WIRE_VIEW_NONE;
    v->asked[v->asked_count].dev = st->st_dev;
    v->asked[v->asked_count].ino = st->st_ino;
    v->asked[v->asked_count].ctime_ns = ns(st->st_ctim);
    v->asked[v->asked_count++].when = monotonic_ns();
    v->asked_bytes += st->st_size;
    return WIRE_VIEW_PENDING;
}

/* opath, st: a regular file of m. */
enum wire_view_state views_find(struct broker *b, const struct mount *m, int opath, const struct stat *st, bool make,
                                struct wire_view *out)
{
    struct timespec now;
    if (!m->views || st->st_size < FILE_MIN || st->st_size > VIEW_FILE_MAX || clock_gettime(CLOCK_REALTIME, &now) < 0)
        return WIRE_VIEW_NONE;
    struct views *v = &b->views[m->views - 1];
    if (!view_stat_pins(v->own, st->st_uid, st->st_mode, st->st_ctim.tv_sec, now.tv_sec))
        return WIRE_VIEW_NONE;
    const struct view_stat_row *r = v->fd < 0 ? NULL : find(v, st);
    if (!r && v->fd >= 0 && reload(v))
        r = find(v, st);
    if (r) {
        *out = (struct wire_view){ .pack = v->own ? FD_VIEWS_OWN : FD_VIEWS, .entry_off = r->entry_off, .data_end = v->data_end };
        return WIRE_VIEW_READY;
    }
    enum wire_view_state s = make ? ask(b, v, opath, st) : WIRE_VIEW_NONE;
    return v->fd < 0 ? WIRE_VIEW_NONE : s;
}

void views_init(struct broker *b, const struct ctl_config *c)
{
    for (int i = 0; i < 2; i++) {
        struct views *v = &b->views[i];
        u32 off = i ? c->views_own_off : c->views_off;
        struct stat st;
        v->own = i;
        v->fd = off && off < c->h.total ? open((const char *)c + off, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
        if (v->fd >= 0 && (fstat(v->fd, &st) < 0 || !S_ISREG(st.st_mode) || !reload(v))) {
            close(v->fd);
            v->fd = -1;
        }
    }
}
