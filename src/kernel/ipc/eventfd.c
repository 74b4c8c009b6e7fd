/* eventfd(2): a 64-bit counter under its lock, one wait queue for readers and writers. */
#include "ipc/eventfd.h"

#include <linux/eventpoll.h>
#include <linux/fcntl.h>

#include "core/kmalloc.h"
#include "core/strbuf.h"
#include "ipc/poll.h"

#define COUNT_MAX (~0ull - 1)

struct eventfd {
    struct mutex lock;
    u64 count;
    bool semaphore; /* does not change */
    struct waitq wait;
};

/* Takes the value under the lock; false while it is 0. */
static bool eventfd_take(struct eventfd *e, u64 *val)
{
    mutex_lock(&e->lock);
    bool ok = e->count != 0;
    if (ok) {
        *val = e->semaphore ? 1 : e->count;
        atomic_store_relaxed(&e->count, e->count - *val);
    }
    mutex_unlock(&e->lock);
    return ok;
}

static long eventfd_read(struct file *f, struct uio *u, u64 *pos)
{
    struct eventfd *e = f->priv;
    u64 val = 0;

    (void)pos;
    if (u->resid < sizeof(val))
        return -EINVAL;
    if (!eventfd_take(e, &val)) {
        if (f->flags & O_NONBLOCK)
            return -EAGAIN;
        long r = wait_event(&e->wait, eventfd_take(e, &val));
        if (r)
            return r == -EINTR ? -ERESTARTSYS : r;
    }
    if (waitq_active(&e->wait))
        wake_up_all(&e->wait, EPOLLOUT | EPOLLWRNORM);
    return uio_write_to(u, &val, sizeof(val));
}

static bool eventfd_add(struct eventfd *e, u64 val)
{
    mutex_lock(&e->lock);
    bool ok = COUNT_MAX - e->count >= val;
    if (ok)
        atomic_store_relaxed(&e->count, e->count + val);
    mutex_unlock(&e->lock);
    return ok;
}

static long eventfd_write(struct file *f, struct uio *u, u64 *pos)
{
    struct eventfd *e = f->priv;
    u64 val;

    (void)pos;
    if (u->resid < sizeof(val))
        return -EINVAL;
    long r = uio_read_from(u, &val, sizeof(val));
    if (r < (long)sizeof(val))
        return -EFAULT;
    if (val == ~0ull)
        return -EINVAL;
    if (!eventfd_add(e, val)) {
        if (f->flags & O_NONBLOCK)
            return -EAGAIN;
        r = wait_event(&e->wait, eventfd_add(e, val));
        if (r)
            return r == -EINTR ? -ERESTARTSYS : r;
    }
    if (waitq_active(&e->wait))
        wake_up_all(&e->wait, EPOLLIN | EPOLLRDNORM);
    return sizeof(val);
}

static u32 eventfd_poll(struct file *f, struct poll_table *pt)
{
    struct eventfd *e = f->priv;

    poll_wait(f, &e->wait, pt);
    u64 count = atomic_load(&e->count);
    u32 ev = 0;
    if (count > 0)
        ev |= EPOLLIN | EPOLLRDNORM;
    if (count < COUNT_MAX)
        ev |= EPOLLOUT | EPOLLWRNORM;
    return ev;
}

static void eventfd_release(struct file *f)
{
    poll_file_gone(f);
    kfree(f->priv);
}

static void eventfd_fdinfo(struct file *f, struct strbuf *sb)
{
    struct eventfd *e = f->priv;
    sb_printf(sb, "eventfd-count: %16llx\neventfd-semaphore: %d\n", (unsigned long long)atomic_load(&e->count),
              e->semaphore);
}

static const struct file_ops eventfd_fops = {
    .read = eventfd_read,
    .write = eventfd_write,
    .poll = eventfd_poll,
    .release = eventfd_release,
    .show_fdinfo = eventfd_fdinfo,
};

struct file *eventfd_new(u32 count, u32 flags)
{
    struct eventfd *e = knew(struct eventfd);
    if (!e)
        return ERR_PTR(-ENOMEM);
    e->count = count;
    e->semaphore = flags & EFD_SEMAPHORE;
    struct file *f = file_anon(&eventfd_fops, e, "anon_inode:[eventfd]", 0600, O_RDWR | (flags & O_NONBLOCK));
    if (IS_ERR(f))
        kfree(e);
    return f;
}
