/* O_ASYNC: signals for input and output (fcntl: F_SETOWN, F_SETSIG; ioctl: FIOASYNC).
 *
 * A file with O_ASYNC has a struct fasync, with a waiter with a callback in each wait queue of the file. The callback runs under the queue's
 * lock, where no signal can be sent: it marks the file, and init's service thread sends the signal. So several events in quick succession
 * may give one signal; as Linux's SIGIO is not queued either, programs have to look what there is. With F_SETSIG the signal carries
 * the descriptor that O_ASYNC was set by, and what is ready then.
 *
 * Who set O_ASYNC must be allowed to send signals to the owner (Linux: who set the owner).
 *
 * Locks, outermost first: async_lock (the list of all; file->async) > the files' own > their wait queues'; async_lock > tasklist_lock. */
#include "proc/fasync.h"

#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/eventpoll.h>
#include <linux/fcntl.h>

#include "base/string.h"
#include "core/kmalloc.h"
#include "core/kstate.h"
#include "ipc/poll.h"
#include "proc/cred.h"
#include "proc/task.h"
#include "time/timer.h"
#include "vfs/hooks.h"
#include "vfs/internal.h"

#define QUEUES 3 /* no file has more in one poll operation */
#define ALWAYS (EPOLLERR | EPOLLHUP | EPOLLPRI)

struct fasync {
    struct list link;
    struct file *file; /* whose last close removes this */
    int fd;
    u32 uid, euid; /* who set it */
    u32 queues, events; /* that count */
    u32 pending;
    struct waiter waiters[QUEUES];
};

static KSTATE struct mutex async_lock;
static KSTATE struct list all;
static KSTATE u32 work;

/* Under the queue's lock. */
static bool callback(struct waiter *w, u32 events)
{
    struct fasync *a = w->data;
    if (events && !(events & a->events))
        return false;
    atomic_store(&a->pending, 1);
    if (!atomic_xchg(&work, 1))
        service_wake_later();
    return false;
}

struct table {
    struct poll_table pt;
    struct fasync *a;
};

static void table_add(struct poll_table *pt, struct file *f, struct waitq *q)
{
    struct fasync *a = container_of(pt, struct table, pt)->a;
    (void)f;
    if (a->queues == QUEUES)
        return;
    struct waiter *w = &a->waiters[a->queues++];
    w->func = callback;
    w->data = a;
    waitq_add(q, w);
}

/* async_lock held */
static void drop(struct file *f)
{
    struct fasync *a = f->async;
    if (!a)
        return;
    for (u32 i = 0; i < a->queues; i++)
        waitq_remove(&a->waiters[i]);
    list_del(&a->link);
    f->async = NULL;
    kfree(a);
}

/* O_ASYNC was set or taken away. */
static long changed(struct file *f, int fd)
{
    long r = 0;
    struct fasync *a = NULL;
    if (!f->ops->poll)
        return 0;
    mutex_lock(&async_lock);
    drop(f);
    if (f->flags & FASYNC) {
        a = knew(struct fasync);
        r = a ? 0 : -ENOMEM;
    }
    if (a) {
        const struct cred *c = current_cred();
        *a = (struct fasync){.file = f, .fd = fd, .uid = c->uid, .euid = c->euid, .events = ALWAYS};
        a->events |= f->mode & FMODE_READ ? EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | EPOLLRDBAND : 0;
        a->events |= f->mode & FMODE_WRITE ? EPOLLOUT | EPOLLWRNORM : 0;
        list_add_tail(&all, &a->link);
        f->async = a;
        struct table t = {.pt.add = table_add, .pt.events = a->events, .a = a};
        file_poll(f, a->events, &t.pt);
    }
    mutex_unlock(&async_lock);
    return r;
}

static void gone(struct file *f)
{
    mutex_lock(&async_lock);
    drop(f);
    mutex_unlock(&async_lock);
}

static void fill_info(u8 info[128], const struct fasync *a, int sig)
{
    u32 ready = file_poll(a->file, a->events, NULL);
    int code = ready & EPOLLIN ? POLL_IN : ready & EPOLLHUP ? POLL_HUP : ready & EPOLLERR ? POLL_ERR : ready & EPOLLPRI ? POLL_PRI : POLL_OUT;
    s64 band = ready;
    siginfo_user(info, sig, code, 0, 0);
    memcpy(info + 16, &band, 8);
    memcpy(info + 24, &a->fd, 4);
}

static void send_to(struct tgroup *g, struct task *t, const struct fasync *a, int sig, const void *info)
{
    const struct cred *c = g->leader ? g->leader->cred : NULL;
    bool may = !a->euid || (c && (a->euid == c->suid || a->euid == c->uid || a->uid == c->suid || a->uid == c->uid));
    if (may && !g->zombie)
        signal_send_locked(g, t, sig, info);
}

static void send(struct fasync *a)
{
    const struct file *f = a->file;
    int sig = f->owner_sig ? f->owner_sig : SIGIO;
    u8 info[128];
    if (!f->owner_pid)
        return;
    if (f->owner_sig)
        fill_info(info, a, sig);
    else
        siginfo_user(info, sig, SI_KERNEL, 0, 0);
    mutex_lock(&tasklist_lock);
    if (f->owner_type == F_OWNER_PGRP) {
        for (struct tgroup *g = tgroup_next_locked(1); g; g = tgroup_next_locked(g->tgid + 1))
            if (g->pgid == f->owner_pid)
                send_to(g, NULL, a, sig, info);
    } else {
        struct task *t = task_find_locked(f->owner_pid);
        if (t)
            send_to(t->tg, f->owner_type == F_OWNER_TID ? t : NULL, a, sig, info);
    }
    mutex_unlock(&tasklist_lock);
}

void fasync_service(void)
{
    struct fasync *a;
    if (!atomic_load_relaxed(&work))
        return;
    mutex_lock(&async_lock);
    atomic_store(&work, 0);
    list_for_each(a, &all, link)
        if (atomic_xchg(&a->pending, 0))
            send(a);
    mutex_unlock(&async_lock);
}

void fasync_init(void)
{
    hooks.set_async = changed;
    hooks.async_gone = gone;
}
