/* poll and select: the waiting.
 *
 * The first pass only asks; nothing is registered or allocated when something is ready or no wait is wanted. To wait,
 * a second pass asks again with a table that links waiters: the task's inline waiters (wait_prepare) for the first
 * few queues, kmalloc'd ones beyond. Files are kept alive by the caller's references. */
#include "ipc/poll.h"

#include <linux/eventpoll.h>

#include "core/kmalloc.h"

#define INLINE_QUEUES 3 /* a few of the task's own waiters; the rest of the pool is for the file operations */
#define WAITERS_A_PAGE 32

struct waiter_page {
    struct waiter_page *next;
    u32 used;
    struct waiter w[WAITERS_A_PAGE];
};

struct poll_sleep {
    struct poll_table pt;
    u32 queues;
    bool failed;
    struct waiter_page *pages;
};

void poll_wait(struct file *f, struct waitq *q, struct poll_table *pt)
{
    if (pt && q)
        pt->add(pt, f, q);
}

u32 file_poll(struct file *f, u32 events, struct poll_table *pt)
{
    u32 ready = EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM;

    if (f->mode & FMODE_PATH)
        return 0;
    if (f->ops->poll)
        ready = f->ops->poll(f, pt);
    return ready & events;
}

static void poll_sleep_add(struct poll_table *pt, struct file *f, struct waitq *q)
{
    struct poll_sleep *s = container_of(pt, struct poll_sleep, pt);

    (void)f;
    if (s->queues++ < INLINE_QUEUES) {
        wait_prepare(q);
        return;
    }
    struct waiter_page *p = s->pages;
    if (!p || p->used == WAITERS_A_PAGE) {
        p = knew(struct waiter_page);
        if (!p) {
            s->failed = true;
            return;
        }
        p->next = s->pages;
        s->pages = p;
    }
    struct waiter *w = &p->w[p->used++];
    w->task = current_task();
    waitq_add(q, w);
}

static void poll_sleep_end(struct poll_sleep *s)
{
    wait_finish();
    while (s->pages) {
        struct waiter_page *p = s->pages;
        s->pages = p->next;
        for (u32 i = 0; i < p->used; i++)
            waitq_remove(&p->w[i]);
        kfree(p);
    }
}

static u32 poll_pass(struct poll_entry *e, u32 count, struct poll_table *pt)
{
    u32 hits = 0;

    for (u32 i = 0; i < count; i++) {
        if (!e[i].file)
            continue;
        if (pt)
            pt->events = e[i].events;
        e[i].revents = file_poll(e[i].file, e[i].events, hits ? NULL : pt);
        hits += e[i].revents != 0;
    }
    return hits;
}

long poll_entries(struct poll_entry *e, u32 count, u64 deadline)
{
    struct poll_sleep s = {.pt.add = poll_sleep_add};
    u32 hits = poll_pass(e, count, NULL);
    long r = 0;

    if (hits || !deadline)
        return hits;
    hits = poll_pass(e, count, &s.pt);
    if (!hits && s.queues > 1) /* wait_prepare of a later queue forgets a wake of an earlier one: ask once more */
        hits = poll_pass(e, count, NULL);
    while (!hits && !s.failed) {
        r = wait_sleep(deadline);
        hits = poll_pass(e, count, NULL);
        if (r)
            break;
    }
    poll_sleep_end(&s);
    if (hits)
        return hits;
    if (s.failed)
        return -ENOMEM;
    return r == -ETIMEDOUT ? 0 : r;
}
