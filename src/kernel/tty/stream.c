/* Streams to and from the outside over the rings of R.
 *
 * How it works: one struct stream per ring in K. Positions lie in R: ours in r_control_guest (written under s->lock), the
 * broker's in r_control_broker. Reading raises `want` and rings the doorbell (the broker fills the ring before it answers
 * when the outside has bytes), then sleeps on s->wait until the service thread has seen an event. The first read
 * asks for just what the caller wants, so that input for others stays outside; a reader that keeps coming back gets
 * a growing window. Writing rings the doorbell only if the broker had consumed everything before.
 *
 * A console is a tty whose hardware side is an in and an out ring; the service thread pulls its input.
 *
 * The broker gives a ring away again when its session's first process has ended, although others may still hold files of it.
 * Each use has a number; files remember theirs and are at their end once another one has begun.
 *
 * Locks: s->lock (below tty->lock), wait queues below. No doorbell under a lock. The broker's positions are checked:
 * nonsense counts as an empty (full) ring. */
#include "tty/stream.h"

#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/stat.h>
#include <asm/ioctls.h>

#include "base/layout.h"
#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"
#include "host/host.h"
#include "ipc/poll.h"
#include "tty/tty.h"

#define SIGPIPE 13
#define PIPE_BUF 4096u
#define POLL_WANT 1u /* polling asks for as little as possible */
#define CONSOLE_WANT 4096u

struct stream {
    struct mutex lock;
    u32 files; /* open files; the ring is closed with the last */
    u32 use; /* number of the spawn it was last given to: files and consoles of earlier ones are cut off */
    u32 window; /* in: how far the next read asks ahead */
    u32 seen_pos, seen_flags; /* of the broker's side, at the last event */
    bool out;
    u8 *stash; /* in: bytes that come before those of the ring, see streams_stash() */
    u32 stash_at, stash_size;
    struct waitq wait;
};

struct console {
    struct tty *tty; /* not owned: removed when it is freed */
    u32 session, ring_in, ring_out;
    u32 use; /* of both rings */
    bool used;
};

static KSTATE struct stream streams[RING_COUNT];
static KSTATE u32 last_use;
static KSTATE bool unrung; /* rings were closed without a bell */
static KSTATE struct mutex consoles_lock;
static KSTATE struct console consoles[RING_COUNT / 2];

static inline struct r_control_guest *mine(void) { return (void *)(R_BASE + R_CONTROL_GUEST); }
static inline struct r_control_broker *theirs(void) { return (void *)(R_BASE + R_CONTROL_BROKER); }
static inline u8 *ring_bytes(u32 ring) { return (u8 *)(R_BASE + R_RINGS + (u64)ring * RING_SIZE); }
static inline u32 my_pos(u32 ring) { return atomic_load_relaxed(&mine()->ring[ring].pos); }
static inline u32 their_pos(u32 ring) { return atomic_load(&theirs()->ring[ring].pos); }
static inline bool their_closed(u32 ring) { return atomic_load(&theirs()->ring[ring].flags) & RING_CLOSED; }
static inline void fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

static u32 in_avail(u32 ring)
{
    u32 n = their_pos(ring) - my_pos(ring);
    return n <= RING_SIZE ? n : 0;
}

static u32 out_room(u32 ring)
{
    u32 n = my_pos(ring) - their_pos(ring);
    return n <= RING_SIZE ? RING_SIZE - n : 0;
}

static void my_flag(u32 ring, u32 flag, bool on)
{
    if (on)
        atomic_or(&mine()->ring[ring].flags, flag);
    else
        atomic_and(&mine()->ring[ring].flags, ~flag);
}

/* ---- input ---- */

/* Lets the broker fill n bytes beyond our position. True if that is news (then ring the doorbell). Lock held. */
static bool raise_want(u32 ring, u32 n)
{
    u32 pos = my_pos(ring), want = atomic_load_relaxed(&mine()->ring[ring].want);
    u32 ahead = want - pos; /* never more than RING_SIZE: only we write both */

    n = MIN(n, RING_SIZE);
    if (ahead <= RING_SIZE && ahead >= n)
        return false;
    atomic_store(&mine()->ring[ring].want, pos + n);
    fence();
    return true;
}

static u32 read_window(struct stream *s, u64 resid)
{
    u32 n = (u32)MIN(resid, (u64)RING_SIZE);
    n = MAX(n, s->window);
    s->window = MIN(n * 2, RING_SIZE);
    return n;
}

static long in_copy(u32 ring, struct uio *u, u32 n)
{
    u32 pos = my_pos(ring), done = 0;

    while (done < n) {
        u32 at = (pos + done) & (RING_SIZE - 1), piece = MIN(n - done, RING_SIZE - at);
        long c = uio_write_to(u, ring_bytes(ring) + at, piece);
        if (c <= 0)
            break;
        done += (u32)c;
    }
    atomic_store(&mine()->ring[ring].pos, pos + done);
    fence();
    return done ? (long)done : -EFAULT;
}

static void stash_free(struct stream *s)
{
    kfree(s->stash);
    s->stash = NULL;
    s->stash_at = s->stash_size = 0;
}

/* Lock held. */
static long stash_copy(struct stream *s, struct uio *u)
{
    long n = uio_write_to(u, s->stash + s->stash_at, MIN(u->resid, (u64)(s->stash_size - s->stash_at)));
    s->stash_at += n > 0 ? (u32)n : 0;
    if (s->stash_at == s->stash_size)
        stash_free(s);
    return n;
}

static u32 file_ring(struct file *f) { return (u32)(u64)f->priv; }
static u32 file_use(struct file *f) { return (u32)((u64)f->priv >> 32); }
static bool cut_off(struct file *f) { return atomic_load(&streams[file_ring(f)].use) != file_use(f); }

static long stream_read(struct file *f, struct uio *u, u64 *pos)
{
    u32 ring = file_ring(f);
    struct stream *s = &streams[ring];
    long r = 0;

    (void)pos;
    if (!u->resid)
        return 0;
    for (;;) {
        mutex_lock(&s->lock);
        bool bell = false;
        if (cut_off(f)) {
            mutex_unlock(&s->lock);
            return 0;
        }
        if (s->stash) {
            r = stash_copy(s, u);
            mutex_unlock(&s->lock);
            return r;
        }
        if (in_avail(ring) < u->resid && !their_closed(ring))
            bell = raise_want(ring, in_avail(ring) ? (u32)MIN(u->resid, (u64)RING_SIZE) : read_window(s, u->resid));
        if (bell) { /* the broker fills at once what is there */
            mutex_unlock(&s->lock);
            host_doorbell(0);
            mutex_lock(&s->lock);
        }
        bool closed = their_closed(ring) || cut_off(f); /* before looking for bytes: nothing comes after it */
        u32 n = cut_off(f) ? 0 : (u32)MIN(u->resid, (u64)in_avail(ring));
        if (n)
            r = in_copy(ring, u, n);
        mutex_unlock(&s->lock);
        if (n)
            return r;
        if (closed)
            return 0;
        if (r)
            return r == -EINTR ? -ERESTARTSYS : r;
        if (f->flags & O_NONBLOCK)
            return -EAGAIN;
        wait_prepare(&s->wait);
        if (!in_avail(ring) && !their_closed(ring) && !cut_off(f))
            r = wait_sleep(NO_DEADLINE);
        wait_finish();
    }
}

/* ---- output ---- */

/* Advances our position by n bytes that lie in the ring. True: ring the doorbell. */
static bool out_publish(u32 ring, u32 n)
{
    u32 before = my_pos(ring);

    atomic_store(&mine()->ring[ring].pos, before + n);
    fence();
    return their_pos(ring) == before; /* it had consumed everything and may not look again */
}

static long out_copy(u32 ring, struct uio *u, u32 n, bool *bell)
{
    u32 pos = my_pos(ring), done = 0;

    while (done < n) {
        u32 at = (pos + done) & (RING_SIZE - 1), piece = MIN(n - done, RING_SIZE - at);
        long c = uio_read_from(u, ring_bytes(ring) + at, piece);
        if (c <= 0)
            break;
        done += (u32)c;
        if ((u32)c < piece)
            break;
    }
    if (!done)
        return -EFAULT;
    *bell |= out_publish(ring, done);
    return done;
}

/* Waits until `need` bytes fit. RING_WAITING makes the broker raise an event when it moves. */
static long out_wait(struct file *f, u32 need)
{
    u32 ring = file_ring(f);
    struct stream *s = &streams[ring];
    long r = 0;

    my_flag(ring, RING_WAITING, true);
    fence();
    wait_prepare(&s->wait);
    if (out_room(ring) < need && !their_closed(ring) && !cut_off(f))
        r = wait_sleep(NO_DEADLINE);
    wait_finish();
    return r == -EINTR ? -ERESTARTSYS : r;
}

static long stream_write(struct file *f, struct uio *u, u64 *pos)
{
    u32 ring = file_ring(f);
    struct stream *s = &streams[ring];
    u32 whole = u->resid <= PIPE_BUF ? (u32)u->resid : 1; /* atomic up to PIPE_BUF, as a pipe */
    long done = 0, r = 0;

    (void)pos;
    while (u->resid) {
        bool bell = false, full = false;
        mutex_lock(&s->lock);
        u32 room = out_room(ring), need = whole > 1 ? whole : (u32)MIN(u->resid, (u64)PIPE_BUF);
        if (their_closed(ring) || cut_off(f)) {
            r = -EPIPE;
        } else if (room >= whole && room) {
            u32 n = (u32)MIN(u->resid, (u64)room);
            r = out_copy(ring, u, n, &bell);
            if (r > 0) {
                done += r;
                r = r < (long)n ? -EFAULT : 0;
            }
        } else {
            full = true;
        }
        mutex_unlock(&s->lock);
        if (bell)
            host_doorbell(0);
        if (full)
            r = f->flags & O_NONBLOCK ? -EAGAIN : out_wait(f, need);
        if (r)
            break;
    }
    if (r == -EPIPE && !done)
        send_signal_current(SIGPIPE);
    return done ? done : r;
}

/* ---- the rest of the file ---- */

static u32 stream_poll(struct file *f, struct poll_table *pt)
{
    u32 ring = file_ring(f), ev = 0;
    struct stream *s = &streams[ring];

    poll_wait(f, &s->wait, pt);
    if (cut_off(f))
        return f->mode & FMODE_WRITE ? EPOLLERR | EPOLLOUT | EPOLLWRNORM : EPOLLHUP;
    if (s->out) {
        if (out_room(ring) < PIPE_BUF) {
            my_flag(ring, RING_WAITING, true);
            fence();
        }
        if (their_closed(ring))
            ev |= EPOLLERR | EPOLLOUT | EPOLLWRNORM;
        else if (out_room(ring) >= PIPE_BUF)
            ev |= EPOLLOUT | EPOLLWRNORM;
        return ev;
    }
    if (!in_avail(ring) && !their_closed(ring)) {
        mutex_lock(&s->lock);
        bool bell = raise_want(ring, POLL_WANT);
        mutex_unlock(&s->lock);
        if (bell)
            host_doorbell(0);
    }
    if (their_closed(ring))
        ev |= EPOLLHUP;
    if (in_avail(ring) || s->stash)
        ev |= EPOLLIN | EPOLLRDNORM;
    return ev;
}

static long stream_ioctl(struct file *f, u32 cmd, u64 arg)
{
    u32 ring = file_ring(f);

    if (cmd == FIONREAD && cut_off(f))
        return put_user((s32)0, arg);
    if (cmd == FIONREAD)
        return put_user((s32)(streams[ring].out ? RING_SIZE - out_room(ring)
                                              : in_avail(ring) + streams[ring].stash_size - streams[ring].stash_at), arg);
    return -ENOTTY;
}

/* Our half begins anew with each use; the broker looks at it only after the spawn's answer. */
static void ring_open(u32 ring, bool out, u32 use)
{
    struct stream *s = &streams[ring];

    mutex_lock(&s->lock);
    if (s->use != use) {
        s->files = 0;
        s->out = out;
        s->window = s->seen_pos = s->seen_flags = 0;
        stash_free(s);
        atomic_store(&mine()->ring[ring].pos, 0);
        atomic_store(&mine()->ring[ring].want, 0);
        atomic_store(&mine()->ring[ring].flags, 0);
        atomic_store(&s->use, use);
    }
    s->files++;
    mutex_unlock(&s->lock);
    wake_up_all(&s->wait, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP); /* of an earlier use */
}

static void ring_close(u32 ring, u32 use)
{
    struct stream *s = &streams[ring];

    mutex_lock(&s->lock);
    bool last = s->use == use && --s->files == 0;
    if (last)
        my_flag(ring, RING_CLOSED, true);
    mutex_unlock(&s->lock);
    if (last && current_files())
        host_doorbell(0);
    else if (last) /* a task that ends gives back all its files: one bell for them */
        atomic_store(&unrung, true);
}

void streams_ring(void)
{
    if (atomic_load_relaxed(&unrung) && atomic_xchg(&unrung, false))
        host_doorbell(0);
}

/* open(2) of /proc/pid/fd/N, such as /dev/stdout: one more file of the same ring, in its direction. */
static long stream_open(struct file *f)
{
    f->priv = f->inode->priv;
    struct stream *s = &streams[file_ring(f)];

    mutex_lock(&s->lock);
    u32 way = s->out ? FMODE_WRITE : FMODE_READ;
    long r = s->use != file_use(f) || !s->files ? -ENXIO : f->mode & way ? 0 : -EACCES;
    if (!r)
        s->files++;
    mutex_unlock(&s->lock);
    if (!r)
        f->mode &= ~(FMODE_READ | FMODE_WRITE) | way;
    return r;
}

static void stream_release(struct file *f)
{
    poll_file_gone(f);
    ring_close(file_ring(f), file_use(f));
}

static const struct file_ops stream_fops = {
    .read = stream_read,
    .write = stream_write,
    .poll = stream_poll,
    .ioctl = stream_ioctl,
    .open = stream_open,
    .release = stream_release,
};

static struct file *stream_file(u32 ring, bool out, u32 use)
{
    if (ring == ~0u)
        return file_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
    if (ring >= RING_COUNT)
        return ERR_PTR(-EINVAL);
    ring_open(ring, out, use);
    struct file *f = file_anon(&stream_fops, (void *)((u64)use << 32 | ring), "pipe:", S_IFIFO | 0600, out ? O_WRONLY : O_RDONLY);
    if (IS_ERR(f))
        ring_close(ring, use);
    else
        f->inode->priv = f->priv;
    return f;
}

/* ---- console: the tty driver over two rings ---- */

static struct console *tty_console(struct tty *t) { return t->driver_data; }

/* What a cut off console is told goes nowhere; it hangs up. */
static bool console_cut_off(struct tty *t)
{
    struct console *c = tty_console(t);
    return atomic_load(&streams[c->ring_out].use) != c->use || atomic_load(&streams[c->ring_in].use) != c->use;
}

static u32 console_room(struct tty *t) { return console_cut_off(t) ? RING_SIZE : out_room(tty_console(t)->ring_out); }

static void console_put(struct tty *t, const u8 *p, u32 size)
{
    u32 ring = tty_console(t)->ring_out, pos = my_pos(ring);

    if (console_cut_off(t))
        return;
    for (u32 done = 0; done < size;) {
        u32 at = (pos + done) & (RING_SIZE - 1), piece = MIN(size - done, RING_SIZE - at);
        memcpy(ring_bytes(ring) + at, p + done, piece);
        done += piece;
    }
    out_publish(ring, size);
    if (out_room(ring) < 8)
        my_flag(ring, RING_WAITING, true);
}

/* Rings the doorbell if the broker may be waiting for us: cheap enough at terminal speeds. */
static void console_kick(struct tty *t)
{
    struct console *c = tty_console(t);
    struct stream *in = &streams[c->ring_in];
    u32 room = tty_receive_room(t);

    if (console_cut_off(t))
        return;
    mutex_lock(&in->lock);
    bool bell = room && raise_want(c->ring_in, MIN(room, CONSOLE_WANT));
    mutex_unlock(&in->lock);
    if (bell || their_pos(c->ring_out) != my_pos(c->ring_out))
        host_doorbell(0);
}

/* Bytes of the in ring into the line discipline. */
static void console_pull(struct console *c)
{
    struct tty *t = c->tty;
    struct stream *s = &streams[c->ring_in];
    u8 chunk[256];

    if (console_cut_off(t)) {
        tty_hangup(t);
        return;
    }
    for (;;) {
        bool closed = their_closed(c->ring_in);
        mutex_lock(&s->lock);
        u32 pos = my_pos(c->ring_in), n = MIN(in_avail(c->ring_in), (u32)sizeof(chunk));
        for (u32 i = 0; i < n; i++)
            chunk[i] = ring_bytes(c->ring_in)[(pos + i) & (RING_SIZE - 1)];
        mutex_unlock(&s->lock);
        if (!n) {
            if (closed)
                tty_hangup(t);
            break;
        }
        u32 taken = tty_receive(t, chunk, n); /* only the service thread consumes this ring */
        mutex_lock(&s->lock);
        atomic_store(&mine()->ring[c->ring_in].pos, pos + taken);
        mutex_unlock(&s->lock);
        if (taken < n)
            break; /* full: a later read kicks */
    }
    console_kick(t);
}

static void console_closed(struct tty *t) { (void)t; }

static u32 console_queued(struct tty *t) { return RING_SIZE - console_room(t); }

static void console_flush(struct tty *t) { (void)t; } /* what is in the ring is the broker's */

static void console_free(struct tty *t)
{
    struct console *c = tty_console(t);

    mutex_lock(&consoles_lock);
    u32 in = c->ring_in, out = c->ring_out, use = c->use;
    pts_unregister(t);
    c->used = false;
    mutex_unlock(&consoles_lock);
    ring_close(in, use);
    ring_close(out, use);
}

static const struct tty_driver console_driver = {
    .room = console_room,
    .put = console_put,
    .kick = console_kick,
    .closed = console_closed,
    .queued = console_queued,
    .flush = console_flush,
    .free = console_free,
};

static struct console *console_find(u32 session)
{
    for (u32 i = 0; i < ARRAY_COUNT(consoles); i++)
        if (consoles[i].used && consoles[i].tty && consoles[i].session == session)
            return &consoles[i];
    return NULL;
}

static struct tty *console_tty_get(u32 session)
{
    mutex_lock(&consoles_lock);
    struct console *c = console_find(session);
    struct tty *t = c && tty_get_live(c->tty) ? c->tty : NULL;
    mutex_unlock(&consoles_lock);
    return t;
}

struct tty *console_tty(u32 session)
{
    struct tty *t = console_tty_get(session);
    if (t)
        tty_belongs_to_caller(t);
    return t;
}

long console_winsize(u32 session, u16 rows, u16 cols, u16 xpixel, u16 ypixel)
{
    struct tty *t = console_tty_get(session);
    if (!t)
        return -ESRCH;
    struct winsize w = {.ws_row = rows, .ws_col = cols, .ws_xpixel = xpixel, .ws_ypixel = ypixel};
    tty_set_winsize(t, &w);
    tty_put(t);
    return 0;
}

static struct console *console_alloc(void)
{
    for (u32 i = 0; i < ARRAY_COUNT(consoles); i++)
        if (!consoles[i].used) {
            consoles[i] = (struct console){.used = true};
            return &consoles[i];
        }
    return NULL;
}

static struct tty *console_new(const struct mail_spawn *m, u32 use)
{
    mutex_lock(&consoles_lock);
    struct console *c = console_alloc();
    mutex_unlock(&consoles_lock);
    if (!c)
        return ERR_PTR(-ENOSPC);
    struct tty *t = tty_alloc(&console_driver, c);
    if (!t) {
        c->used = false;
        return ERR_PTR(-ENOMEM);
    }
    c->session = m->session;
    c->ring_in = m->ring_in;
    c->ring_out = m->ring_out;
    t->winsize =
        (struct winsize){.ws_row = m->rows, .ws_col = m->cols, .ws_xpixel = m->xpixel, .ws_ypixel = m->ypixel};
    c->use = use;
    ring_open(c->ring_in, false, use);
    ring_open(c->ring_out, true, use);
    long r = pts_register(t);
    if (r) {
        tty_put(t);
        return ERR_PTR(r);
    }
    atomic_store(&c->tty, t);
    console_kick(t);
    return t;
}

static long open_console(const struct mail_spawn *m, u32 use, struct file *out[3])
{
    char name[24] = "/dev/pts/";

    if (m->ring_in >= RING_COUNT || m->ring_out >= RING_COUNT)
        return -EINVAL;
    struct tty *t = console_new(m, use);
    if (IS_ERR(t))
        return PTR_ERR(t);
    fmt_print(name + strlen(name), sizeof(name) - strlen(name), "%u", t->index);
    struct file *f = file_open(AT_FDCWD, name, O_RDWR | O_NOCTTY, 0);
    tty_put(t);
    if (IS_ERR(f))
        return PTR_ERR(f);
    file_get(f);
    file_get(f);
    out[0] = out[1] = out[2] = f;
    return 0;
}

long stream_open_stdio(const struct mail_spawn *m, struct file *out[3])
{
    const u32 ring[3] = {m->ring_in, m->ring_out, m->ring_err};
    u32 use = ++last_use; /* only init spawns */

    if (m->flags & SPAWN_TTY)
        return open_console(m, use, out);
    for (int i = 0; i < 3; i++) {
        out[i] = stream_file(ring[i], i > 0, use);
        if (IS_ERR(out[i])) {
            long r = PTR_ERR(out[i]);
            while (i--)
                file_put(out[i]);
            return r;
        }
    }
    return 0;
}

/* ---- events ---- */

static void console_events(void)
{
    for (u32 i = 0; i < ARRAY_COUNT(consoles); i++) {
        struct console *c = &consoles[i];
        mutex_lock(&consoles_lock);
        struct tty *t = c->used && c->tty && tty_get_live(c->tty) ? c->tty : NULL;
        mutex_unlock(&consoles_lock);
        if (!t)
            continue;
        console_pull(c);
        if (!console_cut_off(t) && their_closed(c->ring_out))
            tty_hangup(t);
        if (console_room(t) >= 8)
            tty_wake_writers(t);
        tty_put(t);
    }
}

void streams_event(void)
{
    for (u32 ring = 0; ring < RING_COUNT; ring++) {
        struct stream *s = &streams[ring];
        if (!atomic_load_relaxed(&s->files))
            continue;
        u32 pos = their_pos(ring), flags = atomic_load(&theirs()->ring[ring].flags);
        if (pos == s->seen_pos && flags == s->seen_flags && !waitq_active(&s->wait))
            continue;
        s->seen_pos = pos;
        s->seen_flags = flags;
        if (s->out && out_room(ring) >= PIPE_BUF)
            my_flag(ring, RING_WAITING, false);
        if (waitq_active(&s->wait))
            wake_up_all(&s->wait, s->out ? EPOLLOUT | EPOLLWRNORM | EPOLLERR : EPOLLIN | EPOLLRDNORM | EPOLLHUP);
    }
    console_events();
}

/* ---- snapshots: nobody else runs ---- */

long streams_stash(void)
{
    for (u32 ring = 0; ring < RING_COUNT; ring++) {
        struct stream *s = &streams[ring];
        u32 n = s->files && !s->out ? in_avail(ring) : 0, old = s->stash_size - s->stash_at, pos = my_pos(ring);
        if (!n)
            continue;
        u8 *p = kmalloc(old + n);
        if (!p)
            return -ENOMEM;
        if (old)
            memcpy(p, s->stash + s->stash_at, old);
        for (u32 i = 0; i < n; i++)
            p[old + i] = ring_bytes(ring)[(pos + i) & (RING_SIZE - 1)];
        kfree(s->stash);
        s->stash = p;
        s->stash_at = 0;
        s->stash_size = old + n;
    }
    return 0;
}

/* Here the bytes lie in the ring still; a stash from before stays. */
void streams_unstash(void)
{
    for (u32 ring = 0; ring < RING_COUNT; ring++) {
        struct stream *s = &streams[ring];
        u32 n = s->files && !s->out ? in_avail(ring) : 0;
        if (!s->stash)
            continue;
        s->stash_size -= MIN(n, s->stash_size - s->stash_at);
        if (s->stash_at == s->stash_size)
            stash_free(s);
    }
}

void streams_reset(void)
{
    for (u32 ring = 0; ring < RING_COUNT; ring++) {
        struct stream *s = &streams[ring];
        s->seen_pos = s->seen_flags = s->window = 0;
        if (!s->files)
            my_flag(ring, RING_CLOSED, true);
    }
}

void streams_attached(const struct mail_attach *m)
{
    u32 cut = ++last_use;
    for (u32 ring = 0; ring < RING_COUNT; ring++) {
        bool kept = ring == m->ring_in || ring == m->ring_out || ring == m->ring_err;
        if (!kept && streams[ring].use) {
            streams[ring].use = cut;
            stash_free(&streams[ring]);
        }
    }
    for (u32 i = 0; i < ARRAY_COUNT(consoles); i++) {
        struct console *c = &consoles[i];
        if (!c->used || c->ring_in != m->ring_in || console_cut_off(c->tty))
            continue;
        c->session = m->session;
        if (m->rows)
            console_winsize(m->session, m->rows, m->cols, m->xpixel, m->ypixel);
    }
}
