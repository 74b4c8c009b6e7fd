/* timerfd(2).
 *
 * A kernel timer (time/timer.h) runs at the next expiry and marks the file readable. A periodic timer is not armed again
 * before somebody reads or asks: then the missed periods are counted. The timer callback runs in init's service
 * thread; while it is armed or running the timer holds a reference (`refs`), so that a close cannot free it
 * under the callback. Lock: tf->lock > timer lock. */
#include "ipc/timerfd.h"

#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/time.h>

#include "core/kmalloc.h"
#include "core/strbuf.h"
#include "ipc/poll.h"
#include "time/timer.h"

struct timerfd {
    struct mutex lock;
    u32 refs;
    int clock; /* does not change */
    struct waitq wait;
    struct ktimer timer;
    u64 expiry; /* CLOCK_MONOTONIC; 0: disarmed */
    u64 interval;
    u64 ticks; /* expirations not read */
    bool fired; /* the timer ran and is not armed again */
};

static void timerfd_put(struct timerfd *t)
{
    if (!atomic_sub(&t->refs, 1))
        kfree(t);
}

static void timerfd_fired(struct ktimer *k)
{
    struct timerfd *t = container_of(k, struct timerfd, timer);

    mutex_lock(&t->lock);
    bool real = t->expiry && t->expiry <= host_clock(CLOCK_MONOTONIC); /* not set anew meanwhile */
    if (real && !t->fired) {
        t->fired = true;
        t->ticks++;
    }
    mutex_unlock(&t->lock);
    if (real)
        wake_up_all(&t->wait, EPOLLIN | EPOLLRDNORM);
    timerfd_put(t);
}

/* Lock held. */
static void arm(struct timerfd *t)
{
    t->fired = false;
    atomic_add(&t->refs, 1);
    ktimer_set(&t->timer, t->expiry);
}

static void disarm(struct timerfd *t)
{
    if (ktimer_cancel(&t->timer))
        atomic_sub(&t->refs, 1); /* never the last: the caller has the file's */
}

/* Counts the periods that have passed since a periodic timer fired, and arms it again. Lock held. */
static void catch_up(struct timerfd *t)
{
    if (!t->fired || !t->interval)
        return;
    u64 now = host_clock(CLOCK_MONOTONIC), missed = now > t->expiry ? (now - t->expiry) / t->interval : 0;
    t->ticks += missed;
    t->expiry += (missed + 1) * t->interval;
    arm(t);
}

static bool take_ticks(struct timerfd *t, u64 *ticks)
{
    mutex_lock(&t->lock);
    if (t->ticks) {
        catch_up(t);
        *ticks = t->ticks;
        t->ticks = 0;
        if (!t->interval)
            t->expiry = 0;
    }
    mutex_unlock(&t->lock);
    return *ticks != 0;
}

static long timerfd_read(struct file *f, struct uio *u, u64 *pos)
{
    struct timerfd *t = f->priv;
    u64 ticks = 0;

    (void)pos;
    if (u->resid < sizeof(ticks))
        return -EINVAL;
    if (!take_ticks(t, &ticks)) {
        if (f->flags & O_NONBLOCK)
            return -EAGAIN;
        long r = wait_event(&t->wait, take_ticks(t, &ticks));
        if (r)
            return r == -EINTR ? -ERESTARTSYS : r;
    }
    return uio_write_to(u, &ticks, sizeof(ticks));
}

static u32 timerfd_poll(struct file *f, struct poll_table *pt)
{
    struct timerfd *t = f->priv;

    poll_wait(f, &t->wait, pt);
    return atomic_load(&t->ticks) ? EPOLLIN | EPOLLRDNORM : 0;
}

static void timerfd_release(struct file *f)
{
    struct timerfd *t = f->priv;

    poll_file_gone(f);
    mutex_lock(&t->lock);
    t->expiry = 0;
    disarm(t);
    mutex_unlock(&t->lock);
    timerfd_put(t);
}

static void current_spec(struct timerfd *t, struct timerfd_spec *s)
{
    u64 now = host_clock(CLOCK_MONOTONIC);

    catch_up(t);
    s->interval = t->interval;
    s->value = !t->expiry || t->fired ? 0 : t->expiry > now ? t->expiry - now : 1;
}

void timerfd_get(struct file *f, struct timerfd_spec *cur)
{
    struct timerfd *t = f->priv;

    mutex_lock(&t->lock);
    current_spec(t, cur);
    mutex_unlock(&t->lock);
}

static void timerfd_fdinfo(struct file *f, struct strbuf *sb)
{
    struct timerfd *t = f->priv;
    struct timerfd_spec s;

    timerfd_get(f, &s);
    sb_printf(sb, "clockid: %d\nticks: %llu\nsettime flags: 00\nit_value: (%llu, %llu)\nit_interval: (%llu, %llu)\n", t->clock,
              (unsigned long long)t->ticks, (unsigned long long)(s.value / 1000000000), (unsigned long long)(s.value % 1000000000),
              (unsigned long long)(s.interval / 1000000000), (unsigned long long)(s.interval % 1000000000));
}

static const struct file_ops timerfd_fops = {
    .read = timerfd_read,
    .poll = timerfd_poll,
    .release = timerfd_release,
    .show_fdinfo = timerfd_fdinfo,
};

bool file_is_timerfd(const struct file *f) { return f->ops == &timerfd_fops; }

/* Absolute time of the file's clock on the monotonic one. */
static u64 to_monotonic(int clock, u64 abs)
{
    u64 mono = host_clock(CLOCK_MONOTONIC);
    if (clock == CLOCK_MONOTONIC)
        return abs ? abs : 1;
    u64 base = host_clock(clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM ? CLOCK_REALTIME : CLOCK_BOOTTIME);
    return abs <= base ? 1 : abs - base > ~0ull / 2 ? ~0ull / 2 : mono + (abs - base);
}

long timerfd_set(struct file *f, bool absolute, const struct timerfd_spec *n, struct timerfd_spec *old)
{
    struct timerfd *t = f->priv;

    mutex_lock(&t->lock);
    current_spec(t, old);
    disarm(t);
    t->ticks = 0;
    t->fired = false;
    t->interval = n->interval;
    t->expiry = 0;
    if (n->value) {
        u64 mono = host_clock(CLOCK_MONOTONIC);
        t->expiry = absolute ? to_monotonic(t->clock, n->value) : n->value > ~0ull / 2 ? ~0ull / 2 : mono + n->value;
        arm(t);
    }
    mutex_unlock(&t->lock);
    return 0;
}

struct file *timerfd_new(int clock, u32 flags)
{
    struct timerfd *t = knew(struct timerfd);
    if (!t)
        return ERR_PTR(-ENOMEM);
    t->refs = 1;
    t->clock = clock;
    t->timer.fn = timerfd_fired;
    struct file *f = file_anon(&timerfd_fops, t, "anon_inode:[timerfd]", 0600, O_RDWR | (flags & O_NONBLOCK));
    if (IS_ERR(f))
        kfree(t);
    return f;
}
