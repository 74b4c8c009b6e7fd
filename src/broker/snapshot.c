/* The broker's side of pausing, snapshots and coming back; see src/kernel/snapshot/snapshot.h for the whole.
 *
 * A client asks (CTL_FREEZE), the guest is told by mail and answers WIRE_FROZEN; then K and D are copied, page by page as they are, into
 * the client's files. Copies of the guest's processes fill the page file themselves: it is put into their descriptor table (WIRE_DUMP_OPEN),
 * and the guest's filter lets them write to that slot, but never map it so. So nobody can when it is sealed, after all have reported. None
 * of the content is looked at here.
 *
 * One order at a time. The guest may lie about everything; then the snapshot is worthless, or the deadline passes and
 * the client is told. A sandbox that was not paused is thawed whatever happens. What a guest keeps of a page file is a sealed
 * one's content, or nothing: the file of an order that fails is emptied and can never grow again, so it is no memory beside the limits.
 *
 * A page file refers to those below: of the snapshot the sandbox was made from, or of the last one that a client has made safe and handed
 * over (CTL_REBASE). When there are FD_BASE_MAX of them the next one takes the place of the uppermost and of those below that are not
 * much larger. */
#define _GNU_SOURCE
#include "broker/broker.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FREEZE_NS 10000000000ul
#define DUMP_NS 120000000000ul
#define CHECK_MS 500
#define COPY_SLACK (16ul << 20)
#define COPY_BLOCK (32u << 10) /* a larger one costs more page faults than it saves calls: the process is new */

/* Copies what is not a hole; -EFBIG when that is more than max. */
static int copy_sparse(int from, int to, u64 size, u64 max)
{
    static u8 block[COPY_BLOCK];
    off_t at = 0;
    u64 copied = 0;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0 && (u64)at < size) {
        off_t end = lseek(from, at, SEEK_HOLE);
        if (end < 0)
            return -errno;
        for (end = MIN(end, (off_t)size); at < end;) {
            ssize_t n = pread(from, block, MIN((off_t)sizeof(block), end - at), at);
            if (n <= 0)
                return n < 0 ? -errno : -EIO;
            ssize_t w = pwrite(to, block, n, at);
            if (w != n)
                return w < 0 ? -errno : -EIO;
            at += n;
            if ((copied += n) > max)
                return -EFBIG;
        }
    }
    return at < 0 && errno != ENXIO ? -errno : 0;
}

static u64 stored(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? 0 : (u64)st.st_blocks * 512;
}

/* A segment of a sandbox that rests. One that does not could grow ahead of us for ever, while we serve nobody. */
static int copy_segment(int from, int to, u64 size) { return copy_sparse(from, to, size, stored(from) + COPY_SLACK); }

static void post_order(struct broker *b, u32 order)
{
    struct mail_freeze mail = { .h = { .type = MAIL_FREEZE, .size = sizeof(mail) }, .order = order, .number = b->freeze.number };
    mail_post(b, NULL, &mail, sizeof(mail));
}

/* ---- the end of an order ---- */

static void order_ends(struct broker *b)
{
    struct freeze *f = &b->freeze;
    for (u32 i = 0; i < ARRAY_COUNT(f->fd); i++) {
        if (f->fd[i] >= 0)
            close(f->fd[i]);
        f->fd[i] = -1;
    }
    f->state = FREEZE_IDLE;
    f->client = NULL;
    f->deadline_ns = 0;
}

static void order_fails(struct broker *b, const char *why, int error)
{
    struct freeze *f = &b->freeze;
    struct client *c = f->client;
    if (f->state == FREEZE_ASKED && f->posted && !f->paused)
        post_order(b, FREEZE_THAW);
    if (f->state > FREEZE_ASKED && ftruncate(f->fd[2], 0) == 0)
        fcntl(f->fd[2], F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK);
    order_ends(b);
    if (c) {
        client_say(c, CTL_ERROR, 125, "%s%s%s", why, error ? ": " : "", error ? strerror(error) : "");
        client_drop(b, c);
    }
}

/* The client is told about levels below the page file, and which mounts there are. */
static void send_copied(struct broker *b, struct client *c)
{
    struct ctl_config *cfg = b->config;
    u32 mounts = cfg->h.total - cfg->mounts_off, total = sizeof(struct ctl_frozen) + mounts;
    struct ctl_frozen *m = calloc(1, total);
    if (!m)
        return;
    u32 below = b->freeze.level;
    *m = (struct ctl_frozen){ .levels = below, .mount_count = cfg->mount_count, .number = b->freeze.number };
    for (u32 i = 0; i < BROKER_SESSION_MAX; i++)
        if (b->sessions[i].state != SESSION_FREE && b->sessions[i].main)
            m->tty = b->sessions[i].tty;
    memcpy(m + 1, (u8 *)cfg + cfg->mounts_off, mounts);
    if (!below || client_send_fds(c, CTL_BASE, b->base_fd, below) >= 0)
        client_send(c, CTL_FROZEN, (u8 *)m + sizeof(m->h), total - sizeof(m->h));
    free(m);
}

static void order_done(struct broker *b)
{
    struct freeze *f = &b->freeze;
    struct client *c = f->client;
    bool stop = f->stop && c, copied = f->order == FREEZE_COPY;
    if (copied && f->may_base)
        f->written = f->number;
    order_ends(b);
    if (c) {
        if (copied)
            send_copied(b, c);
        else
            client_number(c, CTL_FROZEN, 0);
        client_drop(b, c);
    }
    if (stop)
        end_sandbox(b, 137, "stopped by `harena snapshot --stop`");
}

/* All pages are said to be written. The client's descriptor may be another file than a memfd: then it is not ours to seal. */
static void seal_pages(struct broker *b)
{
    fcntl(b->freeze.fd[2], F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
    order_done(b);
}

void freeze_client_gone(struct broker *b, struct client *c)
{
    if (b->freeze.client != c)
        return;
    b->freeze.client = NULL;
    if (b->freeze.order == FREEZE_COPY)
        order_fails(b, "", 0);
}

/* ---- orders of clients ---- */

static void take_fds(int *to, int *fds, u32 count)
{
    memcpy(to, fds, count * sizeof(int));
    memset(fds, 0xff, count * sizeof(int));
}

/* order: enum freeze_order and CTL_FREEZE_STOP. Takes fds over: copies of K, D and pages for FREEZE_COPY. */
int freeze_order(struct broker *b, struct client *c, u32 order, int *fds, u32 fd_count)
{
    struct freeze *f = &b->freeze;
    u32 what = order & ~(CTL_FREEZE_STOP | CTL_FREEZE_BASE);
    if (f->state != FREEZE_IDLE)
        return -EBUSY;
    if (what == FREEZE_COPY && !limits_room_for_copy(b))
        return -ENOMEM;
    if (what > FREEZE_COPY || fd_count != (what == FREEZE_COPY ? 3u : 0u))
        return -EINVAL;
    if (what == FREEZE_THAW || (what == FREEZE_STAY && f->paused)) {
        if (what == FREEZE_THAW && f->paused)
            post_order(b, FREEZE_THAW);
        f->paused = what == FREEZE_STAY;
        client_number(c, CTL_FROZEN, 0);
        return 1;
    }
    f->client = c;
    f->order = what;
    f->stop = order & CTL_FREEZE_STOP;
    f->may_base = order & CTL_FREEZE_BASE;
    f->number++;
    f->state = FREEZE_ASKED;
    f->deadline_ns = monotonic_ns() + FREEZE_NS;
    take_fds(f->fd, fds, fd_count);
    f->posted = false; /* freeze_check() does it */
    return 0;
}

/* Takes fds over: files of all levels that order `number` made. */
int freeze_rebase(struct broker *b, u32 number, int *fds, u32 fd_count)
{
    struct freeze *f = &b->freeze;
    struct stat st;
    if (f->state != FREEZE_IDLE || !number || number != f->written)
        return -EBUSY;
    if (fd_count != f->level + 1) /* it stays the same with the base */
        return -EPROTO;
    for (u32 i = 0; i < fd_count; i++)
        if (fstat(fds[i], &st) < 0 || !S_ISREG(st.st_mode) || (fcntl(fds[i], F_GETFL) & O_ACCMODE) != O_RDONLY)
            return -EPROTO;
    for (u32 i = 0; i < b->base_count; i++)
        close(b->base_fd[i]);
    take_fds(b->base_fd, fds, fd_count);
    b->base_count = fd_count;
    b->base_number = number;
    f->written = 0;
    return 1;
}

void freeze_check(struct broker *b)
{
    struct freeze *f = &b->freeze;
    struct session *s = session_main(b);
    if (f->state == FREEZE_ASKED && !f->posted && s && s->state == SESSION_RUNNING) {
        f->posted = true;
        post_order(b, f->order);
    }
    if (!f->deadline_ns || monotonic_ns() < f->deadline_ns)
        return;
    order_fails(b, f->state == FREEZE_ASKED ? "the sandbox cannot be stopped: one of its processes does not come to rest"
                                            : "the pages of the sandbox's processes were not written in time", 0);
}

int freeze_wait_ms(const struct broker *b)
{
    return b->freeze.deadline_ns ? CHECK_MS : -1;
}

void freeze_limit(struct broker *b, u64 max)
{
    if (b->freeze.state > FREEZE_ASKED && stored(b->freeze.fd[2]) > max)
        order_fails(b, "the pages of the sandbox's processes take more than its memory limit allows; raise --memory", 0);
}

/* ---- the guest's answers ---- */

/* So that what is written again is in proportion to what was written since. */
static u32 choose_level(const struct broker *b)
{
    if (b->base_count < FD_BASE_MAX)
        return b->base_count;
    u32 level = FD_BASE_MAX - 1;
    for (u64 above = stored(b->base_fd[level]); level && stored(b->base_fd[level - 1]) <= 2 * above; level--)
        above += stored(b->base_fd[level - 1]);
    return level;
}

static s32 copy_now(struct broker *b, struct request *r)
{
    struct freeze *f = &b->freeze;
    int error = copy_segment(b->k_fd, f->fd[0], K_SIZE) ?: copy_segment(b->d_fd, f->fd[1], D_SIZE);
    if (error) {
        order_fails(b, "the sandbox's state cannot be copied", -error);
        return error;
    }
    f->left = MIN(r->head.arg[2], 100000ul);
    f->state = FREEZE_DUMPING;
    f->deadline_ns = monotonic_ns() + DUMP_NS;
    f->level = choose_level(b);
    r->head.value = (b->swap ? DUMP_SWAP : 0) | (f->may_base ? DUMP_BASE : 0) | b->base_count << 8 | f->level << 12 | (u64)b->base_number << 32;
    return 0;
}

s32 freeze_frozen(struct broker *b, struct request *r)
{
    struct freeze *f = &b->freeze;
    if (f->state != FREEZE_ASKED || r->head.arg[0] != f->number)
        return -ESRCH;
    if (r->head.arg[1]) {
        order_fails(b, "the sandbox's kernel cannot be copied", MIN(r->head.arg[1], 4095ul));
        return -ECANCELED;
    }
    if (f->order == FREEZE_COPY)
        return copy_now(b, r);
    f->paused = true;
    order_done(b);
    return 0;
}

s32 freeze_dump_open(struct broker *b, struct request *r)
{
    struct freeze *f = &b->freeze;
    if (f->state != FREEZE_DUMPING || r->head.arg[0] != f->number || !r->notify_id)
        return -ESRCH;
    s32 error = spawn_add_fd(b, r->notify_id, f->fd[2], FD_DUMP);
    for (u32 i = 0; i < b->base_count && !error; i++)
        error = spawn_add_fd(b, r->notify_id, b->base_fd[i], FD_BASE0 + i);
    return error;
}

s32 freeze_dumped(struct broker *b, struct request *r)
{
    struct freeze *f = &b->freeze;
    if (f->state != FREEZE_DUMPING || r->head.arg[0] != f->number)
        return -ESRCH;
    if (r->head.arg[1] == EOWNERDEAD)
        order_fails(b, "a process was killed from outside (out of memory?) while its pages were written", 0);
    else if (r->head.arg[1])
        order_fails(b, "the pages of the sandbox's processes cannot be written", MIN(r->head.arg[1], 4095ul));
    else if (f->left <= 1)
        seal_pages(b);
    else
        f->left--;
    return 0;
}

/* ---- coming back ---- */

/* K and D begin as copies. */
int snapshot_load(struct broker *b)
{
    int r = copy_sparse(b->parts_fd[0], b->k_fd, K_SIZE, ~0ul) ?: copy_sparse(b->parts_fd[1], b->d_fd, D_SIZE, ~0ul);
    close(b->parts_fd[0]);
    close(b->parts_fd[1]);
    return r;
}
