#include "time/timer.h"
#include "core/kstate.h"
#include "core/mutex.h"
#include "host/host.h"
#include "wire/broker.h"
#include "base/layout.h"
#include <linux/time.h>

static KSTATE struct {
    struct mutex lock;
    struct list timers; /* by deadline */
} wheel;

void ktimer_set(struct ktimer *t, u64 deadline)
{
    mutex_lock(&wheel.lock);
    if (list_linked(&t->link))
        list_del(&t->link);
    t->deadline = deadline;
    struct list *after = wheel.timers.prev;
    while (after && after != &wheel.timers && list_entry(after, struct ktimer, link)->deadline > deadline)
        after = after->prev;
    if (!after || after == &wheel.timers)
        list_add(&wheel.timers, &t->link);
    else
        list_insert_between(&t->link, after, after->next);
    bool first = wheel.timers.next == &t->link;
    mutex_unlock(&wheel.lock);
    if (first)
        service_wake();
}

bool ktimer_cancel(struct ktimer *t)
{
    mutex_lock(&wheel.lock);
    bool armed = list_linked(&t->link);
    if (armed)
        list_del(&t->link);
    mutex_unlock(&wheel.lock);
    return armed;
}

/* The first timer if it is due, taken off the list; the owner's lock is held then. */
static struct ktimer *take_due(u64 *next)
{
    struct mutex *owner = NULL;
    for (;;) {
        mutex_lock(&wheel.lock);
        struct ktimer *t = list_first(&wheel.timers, struct ktimer, link);
        *next = t ? t->deadline : NO_DEADLINE;
        bool due = t && *next <= host_clock(CLOCK_MONOTONIC);
        bool held = due && t->lock == owner;
        struct mutex *want = due ? t->lock : NULL;
        if (held)
            list_del(&t->link);
        mutex_unlock(&wheel.lock);
        if (held)
            return t;
        if (owner)
            mutex_unlock(owner);
        if (!due)
            return NULL;
        owner = want;
        if (owner)
            mutex_lock(owner);
    }
}

u64 ktimers_run(void)
{
    u64 next;
    struct ktimer *t;
    while ((t = take_due(&next))) {
        struct mutex *owner = t->lock;
        t->fn(t);
        if (owner)
            mutex_unlock(owner);
    }
    return next;
}

void service_wake_later(void)
{
    struct r_control_broker *b = (void *)(R_BASE + R_CONTROL_BROKER);
    __atomic_add_fetch(&b->guest_seq, 1, __ATOMIC_SEQ_CST);
    wake_word((u32 *)b);
}

void service_wake(void)
{
    struct r_control_broker *b = (void *)(R_BASE + R_CONTROL_BROKER);
    __atomic_add_fetch(&b->guest_seq, 1, __ATOMIC_SEQ_CST);
    host_futex_wake((u32 *)b, 1);
}
