/* Pipes and FIFOs.
 *
 * How it works: one struct pipe per pipe or open FIFO, found through inode->pipe; pipe->lock guards it all. Bytes lie in
 * a ring (ipc/ring.h) that is allocated when first written. `limit` is the size F_GETPIPE_SZ tells. The pipe is
 * writable (EPOLLOUT) while PIPE_BUF bytes fit, so that a write of up to PIPE_BUF never blocks then; writers are woken
 * when that becomes true, readers when bytes arrive and somebody waits.
 *
 * Packet mode (O_DIRECT writers): `packets` lists the [start, end) positions of packets, a read takes one and drops
 * what does not fit; bytes outside packets are an ordinary stream.
 *
 * Locks: pipe->lock, below inode->lock, above wait queue locks. Reference counts: one per open file and one of the
 * inode. Semantics: pipe(7), fifo(7) of Linux. */
#include "ipc/pipe.h"

#include <linux/eventpoll.h>
#include <linux/capability.h>
#include <linux/fcntl.h>
#include <asm/ioctls.h>
#include <linux/stat.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/uaccess.h"
#include "ipc/poll.h"
#include "ipc/ring.h"

#define PIPE_BUF 4096u
#define PIPE_DEFAULT 65536u
#define PIPE_MAX (1u << 20) /* /proc/sys/fs/pipe-max-size */
#define SIGPIPE 13

struct packet {
    u32 start, end; /* ring positions */
};

struct pipe {
    struct mutex lock;
    u32 refs;
    u32 readers, writers; /* open files */
    u32 r_counter, w_counter; /* opens ever, for the rendezvous of FIFO opens */
    u32 limit;
    bool anonymous; /* from pipe(2): reopening it through /proc never waits */
    struct ring ring;
    struct packet *packets; /* limit / PIPE_BUF of them, a ring; NULL until the first packet */
    u32 packet_head, packet_tail, packet_cap;
    struct waitq rd_wait, wr_wait; /* readers, writers; FIFO openers wait on the opposite one's */
};

static inline struct pipe *file_pipe(struct file *f) { return f->priv; }
bool file_is_pipe(const struct file *f) { return f->ops == &pipe_fops; }

static struct pipe *pipe_alloc(void)
{
    struct pipe *p = knew(struct pipe);
    if (p) {
        p->refs = 1;
        p->limit = PIPE_DEFAULT;
    }
    return p;
}

static void pipe_put(struct pipe *p)
{
    if (atomic_sub(&p->refs, 1))
        return;
    ring_free(&p->ring);
    kfree(p->packets);
    kfree(p);
}

static inline u32 pipe_free_space(const struct pipe *p)
{
    u32 len = ring_len(&p->ring);
    return len < p->limit ? p->limit - len : 0;
}

/* May n more bytes be written now, as one piece? (As a packet: also a free packet slot.) */
static bool pipe_has_room(const struct pipe *p, u32 n, bool packet)
{
    if (packet && p->packets && p->packet_head - p->packet_tail >= p->packet_cap)
        return false;
    return pipe_free_space(p) >= n;
}

static bool pipe_writable(const struct pipe *p)
{
    return pipe_free_space(p) >= PIPE_BUF && !(p->packets && p->packet_head - p->packet_tail >= p->packet_cap);
}

/* ---- reading ---- */

/* Takes bytes under the lock: one packet, or the stream up to the next packet. */
static long pipe_read_locked(struct pipe *p, struct uio *u)
{
    u32 avail = ring_len(&p->ring);

    if (p->packet_head != p->packet_tail) {
        struct packet *k = &p->packets[p->packet_tail % p->packet_cap];
        if (k->start == p->ring.tail) {
            u32 len = k->end - k->start;
            long c = ring_peek(&p->ring, u, 0, (u32)MIN(u->resid, (u64)len));
            if (c < 0)
                return c;
            ring_skip(&p->ring, len);
            p->packet_tail++;
            return c;
        }
        avail = k->start - p->ring.tail;
    }
    return ring_get(&p->ring, u, (u32)MIN(u->resid, (u64)avail));
}

/* Waits until there is something to read. Called and returns locked. 0: bytes; 1: end of file; or an error. *waited: it may
 * have used up an exclusive wake. */
static long pipe_wait_data(struct pipe *p, bool nonblock, bool *waited)
{
    long r = 0;

    while (!ring_len(&p->ring)) {
        if (!p->writers)
            return 1;
        if (nonblock)
            return -EAGAIN;
        mutex_unlock(&p->lock);
        *waited = true;
        wait_prepare_exclusive(&p->rd_wait);
        /* Re-checked after linking: a writer that came in between has either seen us or is seen now. */
        if (!ring_len(&p->ring) && atomic_load(&p->writers))
            r = wait_sleep(NO_DEADLINE);
        wait_finish();
        mutex_lock(&p->lock);
        if (r && !ring_len(&p->ring))
            return r == -EINTR ? -ERESTARTSYS : r;
        r = 0;
    }
    return 0;
}

static long pipe_read_common(struct pipe *p, struct uio *u, bool nonblock)
{
    if (!u->resid)
        return 0;
    bool waited = false;
    mutex_lock(&p->lock);
    long r = pipe_wait_data(p, nonblock, &waited);
    if (r) {
        mutex_unlock(&p->lock);
        return r == 1 ? 0 : r;
    }
    bool was_writable = pipe_writable(p);
    r = pipe_read_locked(p, u);
    bool wake_writer = !was_writable && pipe_writable(p);
    bool more = waited && ring_len(&p->ring) != 0; /* else it would be an edge for epoll where nothing came */
    mutex_unlock(&p->lock);
    if (wake_writer && waitq_active(&p->wr_wait))
        wake_up(&p->wr_wait, EPOLLOUT | EPOLLWRNORM);
    if (more && waitq_active(&p->rd_wait)) /* pass the exclusive wake on */
        wake_up(&p->rd_wait, EPOLLIN | EPOLLRDNORM);
    return r;
}

static long pipe_read(struct file *f, struct uio *u, u64 *pos)
{
    (void)pos;
    return pipe_read_common(file_pipe(f), u, f->flags & O_NONBLOCK);
}

/* ---- writing ---- */

static long pipe_packet_slot(struct pipe *p)
{
    if (p->packets)
        return 0;
    u32 cap = p->limit / PIPE_BUF;
    p->packets = kmalloc(cap * sizeof(*p->packets));
    if (!p->packets)
        return -ENOMEM;
    p->packet_cap = cap;
    p->packet_head = p->packet_tail = 0;
    return 0;
}

/* Puts up to n bytes (room has been checked). */
static long pipe_put_locked(struct pipe *p, struct uio *u, u32 n, bool packet)
{
    long r = ring_reserve(&p->ring, n);
    if (r)
        return r;
    if (packet && (r = pipe_packet_slot(p)))
        return r;
    u32 start = p->ring.head;
    r = ring_put(&p->ring, u, n);
    if (packet && r > 0) {
        struct packet *k = &p->packets[p->packet_head++ % p->packet_cap];
        k->start = start;
        k->end = p->ring.head;
    }
    return r;
}

static void pipe_wake_readers(struct pipe *p)
{
    if (waitq_active(&p->rd_wait))
        wake_up(&p->rd_wait, EPOLLIN | EPOLLRDNORM);
}

/* Sleeps until n bytes fit. Called and returns locked; 0 or an error. */
static long pipe_wait_room(struct pipe *p, u32 n, bool packet)
{
    long r = 0;

    mutex_unlock(&p->lock);
    wait_prepare_exclusive(&p->wr_wait);
    mutex_lock(&p->lock);
    bool ready = pipe_has_room(p, n, packet) || !p->readers;
    mutex_unlock(&p->lock);
    if (!ready)
        r = wait_sleep(NO_DEADLINE);
    wait_finish();
    mutex_lock(&p->lock);
    return r == -EINTR ? -ERESTARTSYS : r;
}

static long pipe_write_common(struct pipe *p, struct uio *u, bool nonblock, bool packet)
{
    u64 total = u->resid;
    long done = 0, r = 0;
    bool atomic = total <= PIPE_BUF, waited = false;

    if (!total)
        return 0;
    mutex_lock(&p->lock);
    while (u->resid) {
        if (!p->readers) {
            r = -EPIPE;
            break;
        }
        u32 want = (u32)MIN(u->resid, (u64)PIPE_BUF);
        if (atomic || packet ? pipe_has_room(p, want, packet) : pipe_free_space(p) > 0) {
            u32 n = packet || atomic ? want : (u32)MIN(u->resid, (u64)pipe_free_space(p));
            r = pipe_put_locked(p, u, n, packet);
            if (r < 0)
                break;
            done += r;
            if ((u32)r < n) { /* a fault in the middle */
                r = done ? 0 : -EFAULT;
                break;
            }
            r = 0;
            continue;
        }
        if (nonblock) {
            r = -EAGAIN;
            break;
        }
        pipe_wake_readers(p);
        waited = true;
        r = pipe_wait_room(p, want, packet);
        if (r)
            break;
    }
    bool room = waited && pipe_writable(p);
    mutex_unlock(&p->lock);
    if (done)
        pipe_wake_readers(p);
    if (room && waitq_active(&p->wr_wait)) /* pass the exclusive wake on */
        wake_up(&p->wr_wait, EPOLLOUT | EPOLLWRNORM);
    if (r == -EPIPE && !done)
        send_signal_current(SIGPIPE);
    return done ? done : r;
}

static long pipe_write(struct file *f, struct uio *u, u64 *pos)
{
    (void)pos;
    return pipe_write_common(file_pipe(f), u, f->flags & O_NONBLOCK, f->flags & O_DIRECT);
}

/* ---- poll, ioctl, fcntl ---- */

static u32 pipe_poll(struct file *f, struct poll_table *pt)
{
    struct pipe *p = file_pipe(f);
    u32 ev = 0;

    if (f->mode & FMODE_READ)
        poll_wait(f, &p->rd_wait, pt);
    if (f->mode & FMODE_WRITE)
        poll_wait(f, &p->wr_wait, pt);
    mutex_lock(&p->lock);
    if (f->mode & FMODE_READ) {
        if (ring_len(&p->ring))
            ev |= EPOLLIN | EPOLLRDNORM;
        /* A FIFO that never had a writer since this open does not hang up. */
        if (!p->writers && f->pos != p->w_counter)
            ev |= EPOLLHUP;
    }
    if (f->mode & FMODE_WRITE) {
        if (pipe_writable(p))
            ev |= EPOLLOUT | EPOLLWRNORM;
        if (!p->readers)
            ev |= EPOLLERR;
    }
    mutex_unlock(&p->lock);
    return ev;
}

static long pipe_ioctl(struct file *f, u32 cmd, u64 arg)
{
    struct pipe *p = file_pipe(f);

    if (cmd != FIONREAD)
        return -ENOTTY;
    mutex_lock(&p->lock);
    int n = (int)ring_len(&p->ring);
    mutex_unlock(&p->lock);
    return put_user(n, arg);
}

static long pipe_set_size(struct pipe *p, u64 arg)
{
    u32 size = PAGE_SIZE;

    if (arg > (1u << 31))
        return -EINVAL;
    while (size < arg)
        size *= 2;
    long r = 0;
    mutex_lock(&p->lock);
    if (size > p->limit && size > PIPE_MAX && !capable(CAP_SYS_RESOURCE))
        r = -EPERM;
    else if (size > RING_MAX_BYTES)
        r = -ENOMEM;
    else if (size < ring_len(&p->ring) || size / PIPE_BUF < p->packet_head - p->packet_tail)
        r = -EBUSY;
    else if (p->packet_head != p->packet_tail && size / PIPE_BUF != p->packet_cap)
        r = -EBUSY; /* packets queued: their index ring keeps its size */
    else {
        kfree(p->packets);
        p->packets = NULL;
        p->packet_head = p->packet_tail = 0;
        p->limit = size;
        r = size;
    }
    bool room = pipe_writable(p);
    mutex_unlock(&p->lock);
    if (room && r > 0)
        wake_up(&p->wr_wait, EPOLLOUT | EPOLLWRNORM);
    return r;
}

long pipe_fcntl(struct file *f, u32 cmd, u64 arg)
{
    if (!file_is_pipe(f) || (f->mode & FMODE_PATH))
        return -EBADF;
    if (cmd == F_GETPIPE_SZ)
        return atomic_load_relaxed(&file_pipe(f)->limit);
    return cmd == F_SETPIPE_SZ ? pipe_set_size(file_pipe(f), arg) : -EINVAL;
}

/* ---- splice ---- */

long pipe_take(struct file *f, void *buf, size_t size, bool nonblock)
{
    struct uio u;

    if (!file_is_pipe(f) || !(f->mode & FMODE_READ))
        return -EBADF;
    uio_kernel(&u, buf, size);
    return pipe_read_common(file_pipe(f), &u, nonblock || (f->flags & O_NONBLOCK));
}

long pipe_unread(struct file *f, const void *buf, size_t size)
{
    struct pipe *p = file_pipe(f);

    mutex_lock(&p->lock);
    long r = ring_unget(&p->ring, buf, (u32)size);
    mutex_unlock(&p->lock);
    pipe_wake_readers(p);
    return r;
}

long pipe_push(struct file *f, const void *buf, size_t size, bool nonblock)
{
    struct uio u;

    if (!file_is_pipe(f) || !(f->mode & FMODE_WRITE))
        return -EBADF;
    uio_kernel(&u, (void *)buf, size);
    return pipe_write_common(file_pipe(f), &u, nonblock || (f->flags & O_NONBLOCK), false);
}

long pipe_wait_writable(struct file *f, bool nonblock)
{
    struct pipe *p = file_pipe(f);
    bool waited = false;
    long r = 0;

    if (!file_is_pipe(f) || !(f->mode & FMODE_WRITE))
        return -EBADF;
    nonblock |= (f->flags & O_NONBLOCK) != 0;
    mutex_lock(&p->lock);
    while (!r) {
        if (!p->readers) {
            r = -EPIPE;
        } else if (pipe_writable(p)) {
            r = (long)pipe_free_space(p);
        } else if (nonblock) {
            r = -EAGAIN;
        } else {
            pipe_wake_readers(p);
            waited = true;
            r = pipe_wait_room(p, PIPE_BUF, false);
        }
    }
    mutex_unlock(&p->lock);
    if (waited) /* pass the exclusive wake on: what is written next does not */
        wake_up(&p->wr_wait, EPOLLOUT | EPOLLWRNORM);
    if (r == -EPIPE)
        send_signal_current(SIGPIPE);
    return r;
}

long pipe_peek(struct file *f, void *buf, size_t size, bool nonblock)
{
    struct pipe *p = file_pipe(f);

    if (!file_is_pipe(f) || !(f->mode & FMODE_READ))
        return -EBADF;
    bool waited = false;
    mutex_lock(&p->lock);
    long r = pipe_wait_data(p, nonblock || (f->flags & O_NONBLOCK), &waited);
    if (!r) {
        r = (long)MIN(size, (size_t)ring_len(&p->ring));
        ring_copy_out(&p->ring, buf, 0, (u32)r);
    } else if (r == 1) {
        r = 0;
    }
    mutex_unlock(&p->lock);
    if (waited && r > 0) /* as in pipe_wait_writable */
        pipe_wake_readers(p);
    return r;
}

/* ---- open and close ---- */

static void pipe_release(struct file *f)
{
    struct pipe *p = file_pipe(f);

    poll_file_gone(f);
    if (!p)
        return;
    mutex_lock(&p->lock);
    if (f->mode & FMODE_READ)
        atomic_sub(&p->readers, 1);
    if (f->mode & FMODE_WRITE)
        atomic_sub(&p->writers, 1);
    bool one_side_gone = !p->readers != !p->writers;
    if (!p->readers && !p->writers) { /* a FIFO starts anew */
        ring_free(&p->ring);
        p->packet_head = p->packet_tail = 0;
    }
    mutex_unlock(&p->lock);
    if (one_side_gone) {
        wake_up_all(&p->rd_wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
        wake_up_all(&p->wr_wait, EPOLLOUT | EPOLLWRNORM | EPOLLERR);
    }
    pipe_put(p);
}

static struct pipe *inode_pipe(struct inode *i)
{
    mutex_lock(&i->lock);
    if (!i->pipe)
        i->pipe = pipe_alloc();
    struct pipe *p = i->pipe;
    if (p)
        atomic_add(&p->refs, 1);
    mutex_unlock(&i->lock);
    return p;
}

void pipe_inode_free(struct inode *i)
{
    if (i->pipe)
        pipe_put(i->pipe);
    i->pipe = NULL;
}

/* Waits until *counter has moved past `seen`: the other side has opened. */
static long fifo_wait_partner(u32 *counter, u32 seen, struct waitq *q)
{
    long r = wait_event(q, atomic_load(counter) != seen);
    return r == -EINTR ? -ERESTARTSYS : r;
}

/* open(2) of a FIFO (or of /proc/pid/fd/N of a pipe). f->pos keeps the writers' counter for POLLHUP. */
static long pipe_open(struct file *f)
{
    struct pipe *p = inode_pipe(f->inode);
    long r = 0;

    if (!p)
        return -ENOMEM;
    f->priv = p;
    f->ops = &pipe_fops;
    bool fifo = !p->anonymous;
    mutex_lock(&p->lock);
    u32 r_seen = p->r_counter, w_seen = p->w_counter;
    f->pos = w_seen;
    switch (f->mode & (FMODE_READ | FMODE_WRITE)) {
    case FMODE_READ:
        atomic_add(&p->r_counter, 1);
        bool first_reader = atomic_add(&p->readers, 1) == 1;
        bool have_writer = p->writers != 0;
        mutex_unlock(&p->lock);
        if (first_reader)
            wake_up_all(&p->wr_wait, EPOLLOUT | EPOLLWRNORM);
        if (have_writer)
            f->pos = ~0ull; /* it hangs up when the writer leaves */
        else if (fifo && !(f->flags & O_NONBLOCK))
            r = fifo_wait_partner(&p->w_counter, w_seen, &p->rd_wait);
        break;
    case FMODE_WRITE:
        if ((f->flags & O_NONBLOCK) && !p->readers) {
            mutex_unlock(&p->lock);
            f->priv = NULL;
            pipe_put(p);
            return -ENXIO;
        }
        atomic_add(&p->w_counter, 1);
        bool first_writer = atomic_add(&p->writers, 1) == 1;
        bool have_reader = p->readers != 0;
        mutex_unlock(&p->lock);
        if (first_writer)
            wake_up_all(&p->rd_wait, EPOLLIN | EPOLLRDNORM);
        if (fifo && !have_reader)
            r = fifo_wait_partner(&p->r_counter, r_seen, &p->wr_wait);
        break;
    case FMODE_READ | FMODE_WRITE:
        atomic_add(&p->readers, 1);
        atomic_add(&p->writers, 1);
        atomic_add(&p->r_counter, 1);
        atomic_add(&p->w_counter, 1);
        mutex_unlock(&p->lock);
        wake_up_all(&p->rd_wait, EPOLLIN | EPOLLRDNORM);
        wake_up_all(&p->wr_wait, EPOLLOUT | EPOLLWRNORM);
        break;
    default:
        mutex_unlock(&p->lock);
        f->priv = NULL;
        pipe_put(p);
        return -EINVAL;
    }
    if (r) {
        pipe_release(f);
        f->priv = NULL;
    }
    return r;
}

const struct file_ops pipe_fops = {
    .read = pipe_read,
    .write = pipe_write,
    .poll = pipe_poll,
    .ioctl = pipe_ioctl,
    .open = pipe_open,
    .release = pipe_release,
};

long pipe_new(struct file **rd, struct file **wr, u32 flags)
{
    struct pipe *p = pipe_alloc();
    if (!p)
        return -ENOMEM;
    p->anonymous = true;
    p->readers = p->writers = 1;
    p->r_counter = p->w_counter = 1;
    struct file *r = file_anon(&pipe_fops, p, "pipe:", S_IFIFO | 0600, O_RDONLY | (flags & O_NONBLOCK));
    if (IS_ERR(r)) {
        pipe_put(p);
        return PTR_ERR(r);
    }
    atomic_add(&p->refs, 1);
    r->pos = ~0ull;
    struct file *w = file_anon(&pipe_fops, p, "pipe:", S_IFIFO | 0600, O_WRONLY | (flags & (O_NONBLOCK | O_DIRECT)));
    if (IS_ERR(w)) {
        p->writers = 0;
        pipe_put(p);
        file_put(r);
        return PTR_ERR(w);
    }
    /* Both ends are one inode. */
    struct path own = w->path;
    w->path = r->path;
    w->inode = r->inode;
    path_get(&w->path);
    path_put(&own);
    atomic_add(&p->refs, 1);
    r->inode->pipe = p; /* for reopening through /proc; dropped by pipe_inode_free */
    *rd = r;
    *wr = w;
    return 0;
}
