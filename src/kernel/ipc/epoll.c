/* epoll(7).
 *
 * How it works: an eventpoll keeps its registrations (epitems) in a hash by (file, fd). Each epitem has a waiter with a
 * callback in every wait queue of its file. A callback puts the item on the ready list and wakes ep->wait.
 * epoll_wait takes items off the ready list, asks each file for its events, and puts level-triggered ones back at
 * the end. An item does not hold its file: the file's last close removes it (epoll_file_release).
 *
 * Locks, outermost first: nest_lock (EPOLL_CTL_ADD of an epoll file) > ep->lock (items; held while files are polled, of
 * an outer ep before an inner) > epitems_lock (all file->epitems lists) and the files' own locks > their wait queue
 * locks > ep->ready_lock > ep->wait.lock (of an inner ep, then ready_lock of an outer: no cycles, checked at ADD). */
#include "ipc/poll.h"

#include <linux/eventpoll.h>
#include <linux/fcntl.h>

#include "core/kmalloc.h"
#include "core/kstate.h"
#include "core/strbuf.h"
#include "core/uaccess.h"
#include "vfs/hooks.h"

#define EP_PRIVATE (EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE)
#define EXCLUSIVE_OK (EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE | EPOLLRDNORM | \
                      EPOLLWRNORM)
#define EP_MAX_NESTS 4
#define ITEM_QUEUES 3 /* no file has more queues in one poll operation */
#define BUCKETS_FIRST 8

struct eventpoll {
    struct mutex lock;
    u32 refs; /* the file and running epoll_file_release */
    u32 count, bucket_count;
    bool scanning; /* ready items are in the hands of ep_scan */
    struct file *file; /* its own; does not change */
    struct list *buckets;
    struct mutex ready_lock;
    struct list ready;
    struct waitq wait;
};

struct epitem {
    struct list hash, ready_link, file_link;
    struct eventpoll *ep;
    struct file *file;
    int fd;
    u32 queues;
    struct epoll_event event; /* ep->lock to write; the callback reads events atomically */
    struct waiter waiters[ITEM_QUEUES];
};

static KSTATE struct mutex epitems_lock;
static KSTATE struct mutex nest_lock;

static const struct file_ops epoll_fops;
bool file_is_epoll(const struct file *f) { return f->ops == &epoll_fops; }

static void ep_put(struct eventpoll *ep)
{
    if (atomic_sub(&ep->refs, 1))
        return;
    kfree(ep->buckets);
    kfree(ep);
}

/* ---- the hash of items ---- */

static struct list *ep_bucket(struct eventpoll *ep, const struct file *f, int fd)
{
    u64 h = ((u64)f >> 4) * 0x9e3779b97f4a7c15ull + (u32)fd * 0x85ebca6bu;
    return &ep->buckets[(h >> 32) & (ep->bucket_count - 1)];
}

static struct epitem *ep_find(struct eventpoll *ep, const struct file *f, int fd)
{
    struct epitem *it;

    if (!ep->bucket_count)
        return NULL;
    list_for_each(it, ep_bucket(ep, f, fd), hash)
        if (it->file == f && it->fd == fd)
            return it;
    return NULL;
}

static long ep_grow(struct eventpoll *ep)
{
    u32 n = ep->bucket_count ? ep->bucket_count * 4 : BUCKETS_FIRST, old_count = ep->bucket_count;

    if (ep->count < ep->bucket_count * 2)
        return 0;
    struct list *b = kzalloc(n * sizeof(*b)), *old = ep->buckets;
    if (!b)
        return old ? 0 : -ENOMEM;
    ep->buckets = b;
    ep->bucket_count = n;
    for (u32 i = 0; i < old_count; i++) {
        struct epitem *it;
        while ((it = list_first(&old[i], struct epitem, hash))) {
            list_del(&it->hash);
            list_add(ep_bucket(ep, it->file, it->fd), &it->hash);
        }
    }
    kfree(old);
    return 0;
}

/* ---- becoming ready ---- */

static void ep_set_ready(struct epitem *it)
{
    struct eventpoll *ep = it->ep;

    mutex_lock(&ep->ready_lock);
    if (!list_linked(&it->ready_link))
        list_add_tail(&ep->ready, &it->ready_link);
    mutex_unlock(&ep->ready_lock);
}

/* Called under the queue's lock. */
static bool ep_callback(struct waiter *w, u32 events)
{
    struct epitem *it = w->data;
    struct eventpoll *ep = it->ep;
    u32 wanted = atomic_load_relaxed(&it->event.events);

    if (!(wanted & ~EP_PRIVATE)) /* a ONESHOT that has fired */
        return false;
    if (events && !(events & wanted))
        return false;
    ep_set_ready(it);
    bool waiting = waitq_active(&ep->wait);
    if (waiting)
        wake_up(&ep->wait, EPOLLIN | EPOLLRDNORM);
    return !(wanted & EPOLLEXCLUSIVE) || waiting;
}

struct ep_table {
    struct poll_table pt;
    struct epitem *item;
};

static void ep_table_add(struct poll_table *pt, struct file *f, struct waitq *q)
{
    struct epitem *it = container_of(pt, struct ep_table, pt)->item;

    (void)f;
    if (it->queues == ITEM_QUEUES)
        return;
    struct waiter *w = &it->waiters[it->queues++];
    w->func = ep_callback;
    w->data = it;
    w->exclusive = it->event.events & EPOLLEXCLUSIVE;
    waitq_add(q, w);
}

/* ---- adding and removing ---- */

/* ep->lock held. The file may be in its last close, but not freed before epoll_file_release got the lock. */
static void ep_remove(struct eventpoll *ep, struct epitem *it)
{
    for (u32 i = 0; i < it->queues; i++)
        waitq_remove(&it->waiters[i]);
    mutex_lock(&epitems_lock);
    list_del(&it->file_link);
    mutex_unlock(&epitems_lock);
    mutex_lock(&ep->ready_lock);
    if (list_linked(&it->ready_link))
        list_del(&it->ready_link);
    mutex_unlock(&ep->ready_lock);
    list_del(&it->hash);
    ep->count--;
    kfree(it);
}

static long ep_insert(struct eventpoll *ep, int fd, struct file *f, const struct epoll_event *k)
{
    long r = ep_grow(ep);
    if (r)
        return r;
    struct epitem *it = knew(struct epitem);
    if (!it)
        return -ENOMEM;
    it->ep = ep;
    it->file = f;
    it->fd = fd;
    it->event = *k;
    list_add(ep_bucket(ep, f, fd), &it->hash);
    ep->count++;
    mutex_lock(&epitems_lock);
    list_add(&f->epitems, &it->file_link);
    mutex_unlock(&epitems_lock);

    struct ep_table t = {.pt.add = ep_table_add, .pt.events = k->events, .item = it};
    if (file_poll(f, k->events, &t.pt)) {
        ep_set_ready(it);
        wake_up(&ep->wait, EPOLLIN | EPOLLRDNORM);
    }
    return 0;
}

static long ep_modify(struct eventpoll *ep, struct epitem *it, const struct epoll_event *k)
{
    if (it->event.events & EPOLLEXCLUSIVE)
        return -EINVAL;
    it->event.data = k->data;
    atomic_store(&it->event.events, k->events);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the callback sees the new mask, or we see the new events */
    if (file_poll(it->file, k->events, NULL)) {
        ep_set_ready(it);
        wake_up(&ep->wait, EPOLLIN | EPOLLRDNORM);
    }
    return 0;
}

/* Does `from` watch, directly or not, `to`? -ELOOP if so or if the chain gets too long. nest_lock held. */
static long ep_check_loop(struct eventpoll *from, struct eventpoll *to, int depth)
{
    long r = 0;

    if (from == to || depth > EP_MAX_NESTS)
        return -ELOOP;
    mutex_lock(&from->lock);
    for (u32 i = 0; i < from->bucket_count && !r; i++) {
        struct epitem *it;
        list_for_each(it, &from->buckets[i], hash)
            if (file_is_epoll(it->file) && (r = ep_check_loop(it->file->priv, to, depth + 1)))
                break;
    }
    mutex_unlock(&from->lock);
    return r;
}

/* How many levels of epoll files watch this one. epitems_lock held. */
static int ep_watchers_depth(struct file *f, int depth)
{
    int max = depth;
    struct epitem *it;

    if (depth > EP_MAX_NESTS)
        return depth;
    list_for_each(it, &f->epitems, file_link)
        max = MAX(max, ep_watchers_depth(it->ep->file, depth + 1));
    return max;
}

static bool ep_watchable(struct file *f)
{
    return f->ops->poll != NULL;
}

long epoll_control(struct file *epf, int op, int fd, struct file *target, const struct epoll_event *k)
{
    struct eventpoll *ep = epf->priv;
    struct epoll_event ev = {0};
    bool nested = op == EPOLL_CTL_ADD && file_is_epoll(target);
    long r;

    if (!ep_watchable(target))
        return -EPERM;
    if (epf == target || !file_is_epoll(epf))
        return -EINVAL;
    if (k) {
        ev = *k;
        ev.events &= ~EPOLLWAKEUP;
        if (ev.events & EPOLLEXCLUSIVE) {
            if (op == EPOLL_CTL_MOD)
                return -EINVAL;
            if (op == EPOLL_CTL_ADD && (file_is_epoll(target) || (ev.events & ~EXCLUSIVE_OK)))
                return -EINVAL;
        }
        ev.events |= EPOLLERR | EPOLLHUP;
    }
    if (nested) {
        mutex_lock(&nest_lock);
        mutex_lock(&epitems_lock);
        int above = ep_watchers_depth(epf, 0);
        mutex_unlock(&epitems_lock);
        r = ep_check_loop(target->priv, ep, above + 1);
        if (r) {
            mutex_unlock(&nest_lock);
            return r;
        }
    }
    mutex_lock(&ep->lock);
    struct epitem *it = ep_find(ep, target, fd);
    switch (op) {
    case EPOLL_CTL_ADD:
        r = it ? -EEXIST : ep_insert(ep, fd, target, &ev);
        break;
    case EPOLL_CTL_DEL:
        r = it ? 0 : -ENOENT;
        if (it)
            ep_remove(ep, it);
        break;
    case EPOLL_CTL_MOD:
        r = it ? ep_modify(ep, it, &ev) : -ENOENT;
        break;
    default:
        r = -EINVAL;
    }
    mutex_unlock(&ep->lock);
    if (nested)
        mutex_unlock(&nest_lock);
    return r;
}

void epoll_file_release(struct file *f)
{
    /* Nobody can add f any more: adding takes a reference. */
    if (f->async)
        hooks.async_gone(f);
    while (!list_empty(&f->epitems)) {
        mutex_lock(&epitems_lock);
        struct epitem *it = list_first(&f->epitems, struct epitem, file_link);
        struct eventpoll *ep = it ? it->ep : NULL;
        if (ep)
            atomic_add(&ep->refs, 1); /* it lives: its release unlinks the item under epitems_lock first */
        mutex_unlock(&epitems_lock);
        if (!ep)
            break;
        mutex_lock(&ep->lock);
        mutex_lock(&epitems_lock);
        bool still = list_first(&f->epitems, struct epitem, file_link) == it && it->ep == ep;
        mutex_unlock(&epitems_lock);
        if (still)
            ep_remove(ep, it);
        mutex_unlock(&ep->lock);
        ep_put(ep);
    }
}

static void epoll_release(struct file *f)
{
    struct eventpoll *ep = f->priv;

    poll_file_gone(f);
    mutex_lock(&ep->lock);
    for (u32 i = 0; i < ep->bucket_count; i++) {
        struct epitem *it;
        while ((it = list_first(&ep->buckets[i], struct epitem, hash)))
            ep_remove(ep, it);
    }
    mutex_unlock(&ep->lock);
    ep_put(ep);
}

/* ---- waiting ---- */

/* Moves all of `from` to the end (or front) of `to`. */
static void list_move_all(struct list *from, struct list *to, bool front)
{
    struct list *n;

    if (list_empty(from))
        return;
    while (!list_empty(from)) {
        n = front ? from->prev : from->next;
        list_del(n);
        if (front)
            list_add(to, n);
        else
            list_add_tail(to, n);
    }
}

/* Asks the item's file; delivers to guest memory when there is an event and out != 0. 1: counted, 0: idle, -EFAULT.
 * *keep: it stays on the ready list. */
static long ep_deliver(struct epitem *it, uptr out, bool *keep)
{
    u32 wanted = it->event.events;
    u32 got = (wanted & ~EP_PRIVATE) ? file_poll(it->file, wanted, NULL) : 0;

    *keep = false;
    if (!got)
        return 0;
    *keep = true;
    if (!out)
        return 1;
    struct epoll_event ev = {.events = got, .data = it->event.data};
    if (copy_to_user(out, &ev, sizeof(ev)))
        return -EFAULT;
    if (wanted & EPOLLONESHOT)
        atomic_store(&it->event.events, wanted & EP_PRIVATE);
    *keep = !(wanted & (EPOLLET | EPOLLONESHOT));
    return 1;
}

/* Goes through the ready items: delivers up to max into guest memory, or only looks for one (out == 0). Items that
 * become ready meanwhile wait for the next scan. Level-triggered ones go to the end. ep->lock held. */
static long ep_scan(struct eventpoll *ep, uptr out, u32 max)
{
    struct list todo = {0}, again = {0};
    struct epitem *it;
    long done = 0, r = 0;

    mutex_lock(&ep->ready_lock);
    atomic_store(&ep->scanning, true);
    list_move_all(&ep->ready, &todo, false);
    while (done < max && r >= 0 && (it = list_first(&todo, struct epitem, ready_link))) {
        bool keep;
        list_del(&it->ready_link);
        mutex_unlock(&ep->ready_lock);
        r = ep_deliver(it, out ? out + (u64)done * sizeof(struct epoll_event) : 0, &keep);
        done += r > 0;
        mutex_lock(&ep->ready_lock);
        if (keep && !list_linked(&it->ready_link))
            list_add_tail(r < 0 || !out ? &todo : &again, &it->ready_link);
    }
    list_move_all(&todo, &ep->ready, true);
    list_move_all(&again, &ep->ready, false);
    atomic_store(&ep->scanning, false);
    mutex_unlock(&ep->ready_lock);
    return done ? done : r;
}

static bool ep_maybe_ready(struct eventpoll *ep) { return !list_empty(&ep->ready) || atomic_load(&ep->scanning); }

/* The same before sleeping: between two looks without the lock a scan may put items back. */
static bool ep_surely_idle(struct eventpoll *ep)
{
    mutex_lock(&ep->ready_lock);
    bool idle = !ep_maybe_ready(ep);
    mutex_unlock(&ep->ready_lock);
    return idle;
}

long epoll_collect(struct file *epf, uptr events, u32 max, u64 deadline)
{
    struct eventpoll *ep = epf->priv;
    long r = 0;

    for (;;) {
        if (ep_maybe_ready(ep)) {
            mutex_lock(&ep->lock);
            long n = ep_scan(ep, events, max);
            mutex_unlock(&ep->lock);
            if (n) {
                if (n > 0 && ep_maybe_ready(ep) && waitq_active(&ep->wait))
                    wake_up(&ep->wait, EPOLLIN | EPOLLRDNORM); /* for the next waiting thread */
                return n;
            }
        }
        if (!deadline)
            return 0;
        if (r)
            return r == -ETIMEDOUT ? 0 : r;
        wait_prepare_exclusive(&ep->wait);
        if (ep_surely_idle(ep))
            r = wait_sleep(deadline);
        wait_finish();
    }
}

static u32 epoll_poll(struct file *f, struct poll_table *pt)
{
    struct eventpoll *ep = f->priv;
    u32 ev = 0;

    poll_wait(f, &ep->wait, pt);
    if (ep_maybe_ready(ep)) {
        mutex_lock(&ep->lock);
        if (ep_scan(ep, 0, 1) > 0)
            ev = EPOLLIN | EPOLLRDNORM;
        mutex_unlock(&ep->lock);
    }
    return ev;
}

static void epoll_fdinfo(struct file *f, struct strbuf *sb)
{
    struct eventpoll *ep = f->priv;
    struct epitem *it;

    mutex_lock(&ep->lock);
    for (u32 i = 0; i < ep->bucket_count; i++)
        list_for_each(it, &ep->buckets[i], hash)
            sb_printf(sb, "tfd: %8d events: %8x data: %16llx\n", it->fd, it->event.events,
                      (unsigned long long)it->event.data);
    mutex_unlock(&ep->lock);
}

static const struct file_ops epoll_fops = {
    .poll = epoll_poll,
    .release = epoll_release,
    .show_fdinfo = epoll_fdinfo,
};

struct file *epoll_new(void)
{
    struct eventpoll *ep = knew(struct eventpoll);
    if (!ep)
        return ERR_PTR(-ENOMEM);
    ep->refs = 1;
    struct file *f = file_anon(&epoll_fops, ep, "anon_inode:[eventpoll]", 0600, O_RDWR);
    if (IS_ERR(f))
        kfree(ep);
    else
        ep->file = f;
    return f;
}
