/* Pseudo terminals, and the devices /dev/ptmx, /dev/pts/N, /dev/tty, /dev/console.
 *
 * A pty is a tty (the slave) whose hardware is a ring read by the master: output of the slave, echo included, goes into
 * pty->out; what the master writes goes into the line discipline. The master's file owns a reference of the tty. When the
 * slave's last file closes, the master reads EIO after the rest of the output (until the slave is opened again);
 * when the master closes, the slave is hung up.
 *
 * Locks: tty->lock guards the ring; pts_lock the table of indices (leaf). */
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/stat.h>
#include <asm/ioctls.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/uaccess.h"
#include "ipc/poll.h"
#include "ipc/ring.h"
#include "tty/session.h"
#include "tty/tty.h"

/* Kept in kernel state: named, so that a snapshot can say what it means (store/kernel.h). */
static const char pts_driver_name[] = "pts";
static const char tty_name[] = "tty";

#define PTS_MAX 1024u
#define PTS_MAJOR 136u
#define TTY_MAJOR 5u
#define OUT_LIMIT 16384u
#define PKT_STOP 4
#define PKT_START 8

struct pty {
    struct tty *tty;
    struct ring out; /* tty->lock */
    bool locked; /* TIOCSPTLCK: the slave cannot be opened yet */
    bool slave_closed; /* it was open once and is not now */
    struct waitq wait; /* the master's reader and writer */
};

static KSTATE struct mutex pts_lock;
static KSTATE_LARGE struct tty *pts_table[PTS_MAX];

/* ---- indices ---- */

static void pts_name(char *buf, size_t size, u32 index) { fmt_print(buf, size, "pts/%u", index); }

long pts_register(struct tty *t)
{
    char name[24];
    u32 i = 0;

    mutex_lock(&pts_lock);
    while (i < PTS_MAX && pts_table[i])
        i++;
    if (i < PTS_MAX)
        pts_table[i] = t;
    mutex_unlock(&pts_lock);
    if (i == PTS_MAX)
        return -ENOSPC;
    t->index = i;
    pts_name(name, sizeof(name), i);
    long r = dev_create(name, S_IFCHR | 0620, makedev(PTS_MAJOR, i));
    if (r && r != -EEXIST) {
        mutex_lock(&pts_lock);
        pts_table[i] = NULL;
        mutex_unlock(&pts_lock);
        return r;
    }
    return 0;
}

void pts_unregister(struct tty *t)
{
    char name[24];

    mutex_lock(&pts_lock);
    bool was = pts_table[t->index] == t;
    if (was)
        pts_table[t->index] = NULL;
    mutex_unlock(&pts_lock);
    if (was) {
        pts_name(name, sizeof(name), t->index);
        dev_remove(name);
    }
}

struct tty *pts_find(u32 index)
{
    if (index >= PTS_MAX)
        return NULL;
    mutex_lock(&pts_lock);
    struct tty *t = pts_table[index];
    if (t && !tty_get_live(t))
        t = NULL;
    mutex_unlock(&pts_lock);
    return t;
}

/* ---- the driver: the slave's hardware side ---- */

static struct pty *tty_pty(struct tty *t) { return t->driver_data; }

static u32 pty_room(struct tty *t)
{
    struct pty *p = tty_pty(t);
    u32 n = OUT_LIMIT - MIN(ring_len(&p->out), OUT_LIMIT);

    return n && ring_reserve(&p->out, MIN(n, 512u)) ? 0 : MIN(n, 512u); /* so that put cannot fail */
}

static void pty_put(struct tty *t, const u8 *p, u32 size) { ring_put_kernel(&tty_pty(t)->out, p, size); }

static void pty_kick(struct tty *t)
{
    struct pty *p = tty_pty(t);
    if (waitq_active(&p->wait))
        wake_up_all(&p->wait, EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM);
}

static void pty_set_stopped(struct tty *t, bool stopped)
{
    mutex_lock(&t->lock);
    if (t->packet)
        t->packet_status = (u8)((t->packet_status & ~(PKT_STOP | PKT_START)) | (stopped ? PKT_STOP : PKT_START));
    mutex_unlock(&t->lock);
}

static void pty_slave_opened(struct tty *t) { tty_pty(t)->slave_closed = false; }

static void pty_slave_closed(struct tty *t)
{
    struct pty *p = tty_pty(t);

    mutex_lock(&t->lock);
    if (!t->opens)
        p->slave_closed = true;
    mutex_unlock(&t->lock);
    wake_up_all(&p->wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
}

static u32 pty_queued(struct tty *t) { (void)t; return 0; } /* as on Linux: nothing waits for the other side to read */
static void pty_flush(struct tty *t) { ring_skip(&tty_pty(t)->out, ring_len(&tty_pty(t)->out)); }

static void pty_free(struct tty *t)
{
    struct pty *p = tty_pty(t);
    pts_unregister(t);
    ring_free(&p->out);
    kfree(p);
}

static const struct tty_driver pty_driver = {
    .room = pty_room,
    .put = pty_put,
    .kick = pty_kick,
    .set_stopped = pty_set_stopped,
    .opened = pty_slave_opened,
    .closed = pty_slave_closed,
    .queued = pty_queued,
    .flush = pty_flush,
    .free = pty_free,
};

/* ---- the master ---- */

/* Takes what is there. 0: nothing yet. Lock held. */
static long master_take(struct tty *t, struct uio *u)
{
    struct pty *p = tty_pty(t);

    if (t->packet) {
        u8 status = t->packet_status;
        if (status) {
            t->packet_status = 0;
            return uio_write_to(u, &status, 1);
        }
        if (!ring_len(&p->out))
            return 0;
        long r = uio_write_to(u, &status, 1);
        if (r < 0 || !u->resid)
            return r;
        r = ring_get(&p->out, u, (u32)MIN(u->resid, (u64)ring_len(&p->out)));
        return r < 0 ? r : r + 1;
    }
    return ring_get(&p->out, u, (u32)MIN(u->resid, (u64)ring_len(&p->out)));
}

static long master_read(struct file *f, struct uio *u, u64 *pos)
{
    struct tty *t = f->priv;
    struct pty *p = tty_pty(t);
    long r = 0;

    (void)pos;
    if (!u->resid)
        return 0;
    for (;;) {
        mutex_lock(&t->lock);
        long n = master_take(t, u);
        bool closed = p->slave_closed;
        if (n > 0)
            ring_trim(&p->out);
        mutex_unlock(&t->lock);
        if (n) {
            tty_wake_writers(t);
            return n;
        }
        if (closed)
            return -EIO;
        if (r)
            return r == -EINTR ? -ERESTARTSYS : r;
        if (f->flags & O_NONBLOCK)
            return -EAGAIN;
        wait_prepare(&p->wait);
        if (!ring_len(&p->out) && !atomic_load(&t->packet_status) && !atomic_load(&p->slave_closed))
            r = wait_sleep(NO_DEADLINE);
        wait_finish();
    }
}

static long master_write(struct file *f, struct uio *u, u64 *pos)
{
    struct tty *t = f->priv;
    struct pty *p = tty_pty(t);
    u8 chunk[256];
    u32 have = 0, at = 0;
    long done = 0, r = 0;

    (void)pos;
    while (at < have || u->resid) {
        if (at == have) {
            r = uio_read_from(u, chunk, MIN(u->resid, sizeof(chunk)));
            if (r < 0)
                break;
            have = (u32)r;
            at = 0;
            r = 0;
        }
        u32 n = tty_receive(t, chunk + at, have - at);
        at += n;
        done += n;
        if (at == have)
            continue;
        if (f->flags & O_NONBLOCK) {
            r = -EAGAIN;
            break;
        }
        wait_prepare(&p->wait);
        if (!tty_receive_room(t))
            r = wait_sleep(NO_DEADLINE);
        wait_finish();
        if (r)
            break;
    }
    if (done)
        return done;
    return r == -EINTR ? -ERESTARTSYS : r;
}

static u32 master_poll(struct file *f, struct poll_table *pt)
{
    struct tty *t = f->priv;
    struct pty *p = tty_pty(t);
    u32 ev = 0;

    poll_wait(f, &p->wait, pt);
    mutex_lock(&t->lock);
    if (ring_len(&p->out) || (t->packet && t->packet_status))
        ev |= EPOLLIN | EPOLLRDNORM;
    if (t->packet && t->packet_status)
        ev |= EPOLLPRI;
    if (p->slave_closed)
        ev |= EPOLLHUP;
    mutex_unlock(&t->lock);
    if (tty_receive_room(t))
        ev |= EPOLLOUT | EPOLLWRNORM;
    return ev;
}

static long open_peer(struct tty *t, u32 flags)
{
    char name[32] = "/dev/";

    pts_name(name + 5, sizeof(name) - 5, t->index);
    struct file *f = file_open(AT_FDCWD, name, flags, 0);
    return IS_ERR(f) ? PTR_ERR(f) : fd_new(f, flags & O_CLOEXEC);
}

static long master_ioctl(struct file *f, u32 cmd, u64 arg)
{
    struct tty *t = f->priv;
    struct pty *p = tty_pty(t);
    s32 v;

    switch (cmd) {
    case TIOCGPTN:
        return put_user(t->index, arg);
    case TIOCSPTLCK:
        if (get_user(v, arg))
            return -EFAULT;
        atomic_store(&p->locked, v != 0);
        return 0;
    case TIOCGPTLCK:
        return put_user((s32)p->locked, arg);
    case TIOCGPTPEER:
        return open_peer(t, (u32)arg & (O_ACCMODE | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    case TIOCPKT:
        if (get_user(v, arg))
            return -EFAULT;
        mutex_lock(&t->lock);
        if (v && !t->packet)
            t->packet_status = 0;
        t->packet = v != 0;
        mutex_unlock(&t->lock);
        return 0;
    case TIOCGPKT:
        return put_user((s32)t->packet, arg);
    case TIOCSIG:
        if (arg < 1 || arg > 64)
            return -EINVAL;
        tty_signal(t, (int)arg);
        return 0;
    case TIOCINQ: /* what the master can read */
        return put_user((s32)ring_len(&p->out), arg);
    case TIOCOUTQ:
        return put_user((s32)0, arg);
    case TIOCSCTTY:
    case TIOCNOTTY:
        return -EINVAL;
    }
    return tty_ioctl_common(t, f, cmd, arg, true);
}

static void master_release(struct file *f)
{
    struct tty *t = f->priv;

    if (!t)
        return;
    poll_file_gone(f);
    pts_unregister(t);
    tty_hangup(t);
    tty_put(t);
}

static const struct file_ops master_fops = {
    .read = master_read,
    .write = master_write,
    .poll = master_poll,
    .ioctl = master_ioctl,
    .release = master_release,
};

/* ---- devices ---- */

static long ptmx_open(struct file *f)
{
    struct pty *p = knew(struct pty);
    if (!p)
        return -ENOMEM;
    struct tty *t = tty_alloc(&pty_driver, p);
    if (!t) {
        kfree(p);
        return -ENOMEM;
    }
    p->tty = t;
    p->locked = true;
    long r = pts_register(t);
    if (r) {
        tty_put(t);
        return r;
    }
    f->ops = &master_fops;
    f->priv = t;
    f->mode &= ~FMODE_SEEK;
    return 0;
}

static u32 rdev_minor(u64 rdev) { return (u32)(rdev & 0xff) | (u32)(rdev >> 12 & 0xffffff00u); }

static long pts_open(struct file *f)
{
    struct tty *t = pts_find(rdev_minor(f->inode->rdev));

    f->priv = NULL;
    if (!t)
        return -EIO;
    long r = 0;
    if (t->driver == &pty_driver) {
        if (atomic_load(&tty_pty(t)->locked))
            r = -EIO;
    }
    if (!r)
        r = tty_open_file(f, t);
    tty_put(t);
    return r;
}

static long tty_dev_open(struct file *f)
{
    f->priv = NULL;
    if (rdev_minor(f->inode->rdev) == 2)
        return ptmx_open(f);
    struct tty *t = session_tty(); /* /dev/tty, and /dev/console for want of another */
    if (!t)
        return -ENXIO;
    long r = tty_open_file(f, t);
    tty_put(t);
    return r;
}

static const struct file_ops pts_dev_fops = {.open = pts_open};
static const struct file_ops tty_dev_fops = {.open = tty_dev_open};

long tty_init(void)
{
    static const struct {
        const char *name;
        u32 mode, minor;
    } nodes[] = {{"tty", 0666, 0}, {"console", 0620, 1}, {"ptmx", 0666, 2}, {"pts/ptmx", 0666, 2}};

    long r = register_chrdev(PTS_MAJOR, 0, PTS_MAX, &pts_dev_fops, pts_driver_name);
    if (!r)
        r = register_chrdev(TTY_MAJOR, 0, 3, &tty_dev_fops, tty_name);
    for (u32 i = 0; i < ARRAY_COUNT(nodes) && !r; i++) {
        r = dev_create(nodes[i].name, S_IFCHR | nodes[i].mode, makedev(TTY_MAJOR, nodes[i].minor));
        if (r == -EEXIST)
            r = 0;
    }
    return r;
}
